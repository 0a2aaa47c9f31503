"""Sends one request in a way that hides who sends it, and writes the answer into a file.

Usage: caller.py MODE ADDRESS REQUEST_FILE ANSWER_FILE
"""

import ctypes
import os
import socket
import sys
import threading
import time

MODE, ADDRESS, REQUEST_FILE, ANSWER_FILE = sys.argv[1:]
PR_SET_DUMPABLE = 4
CLONE_FILES = 0x400


def connect():
    if ADDRESS.startswith("/"):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(ADDRESS)
    else:
        host, port = ADDRESS.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)))
    connection.settimeout(60)
    return connection


def send(connection):
    with open(REQUEST_FILE, "rb") as file:
        connection.sendall(file.read())


def report(text):
    with open(ANSWER_FILE + ".part", "w") as file:
        file.write(text)
    os.rename(ANSWER_FILE + ".part", ANSWER_FILE)


def receive(connection):
    answer = b""
    try:
        while part := connection.recv(65536):
            answer += part
    except OSError as error:
        answer += repr(error).encode()
    report(answer.decode(errors="replace"))


def received(files):
    connection = socket.socket(fileno=files[0])
    connection.settimeout(60)
    return connection


def direct():
    connection = connect()
    send(connection)
    receive(connection)


def daemon():
    """As a process that left the session, and whose parents are gone."""
    if os.fork():
        return
    os.setsid()
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == parent:
        time.sleep(0.01)
    direct()


def handed_on():
    """Over a connection that was opened by a process which has ended and was reaped."""
    ours, theirs = socket.socketpair()
    helper = os.fork()
    if not helper:
        connection = connect()
        socket.send_fds(theirs, [b"x"], [connection.fileno()])
        os._exit(0)
    os.waitpid(helper, 0)
    _, files, _, _ = socket.recv_fds(ours, 1, 1)
    connection = received(files)
    send(connection)
    receive(connection)


def in_flight():
    """Over a connection that no process holds while the request is looked at."""
    ours, theirs = socket.socketpair()
    connection = connect()
    socket.send_fds(theirs, [b"x"], [connection.fileno()])
    send(connection)
    connection.close()
    time.sleep(1)
    _, files, _, _ = socket.recv_fds(ours, 1, 1)
    receive(received(files))


def closed():
    """Sends, and is gone."""
    connection = connect()
    send(connection)
    connection.close()
    report("closed")


def undumpable():
    """As a process whose files other processes of its user cannot list."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    direct()


def hidden_table():
    """From a thread with a table of files of its own, which /proc/PID/fd does not show."""

    def thread():
        assert ctypes.CDLL(None).unshare(CLONE_FILES) == 0
        direct()

    worker = threading.Thread(target=thread)
    worker.start()
    worker.join()


globals()[MODE]()

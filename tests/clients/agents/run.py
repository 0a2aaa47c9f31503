"""run.py TOOLS BINARY [PROGRAM…]: real agent programs (all, or those named) against the real binary, over stdio and HTTP.

TOOLS is the folder where npm has installed them. A scripted model decides what they call, so a run needs no account and no network. Each
conversation: connect and list the tools, run a command, run three at once, read 100 KB, outlast the client's own limit and find the result,
and over HTTP go on after a restart of the server. One more run per client is interrupted: its job must end.

Prints a line per check; the last line is `N passed, N failed`.
"""

import concurrent.futures
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

import clients
import model

CALL_LIMIT_S = 8
LONG_S = 14
# Generous: several programs start side by side on a machine that may be busy.
RUN_LIMIT_S = 300


class Server:
    """`shellyard serve` on one port, which stays the same over restarts."""

    def __init__(self, binary):
        self.binary, self.data = binary, tempfile.TemporaryDirectory(prefix="shellyard-agents-", ignore_cleanup_errors=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.start()

    def start(self):
        arguments = [self.binary, "serve", "--bind", self.address, "--data-dir", self.data.name]
        self.process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until("the server answers", lambda: is_ready(self.address))

    def stop(self):
        self.process.terminate()
        self.process.wait(60)

    def restart(self):
        self.stop()
        self.start()


def is_ready(address):
    try:
        return urllib.request.urlopen(f"http://{address}/readyz", timeout=5).status == 200
    except OSError:
        return False


def wait_until(what, condition, limit_s=60):
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {limit_s} s")
        time.sleep(0.1)


def conversation(restart):
    """The turns of the whole conversation; `restart` is called before the last one, where there is a server to restart."""
    turns = [
        [("run_command", {"command": "echo hello-$((6 * 7))"})],
        [("run_command", {"command": f"sleep 1; echo parallel-{n}"}) for n in range(3)],
        [("run_command", {"command": "seq 1 20000"})],
        [("run_command", {"command": f"sleep {LONG_S}; echo outlasted", "wait_s": 60})],
        [("wait_jobs", {"jobs": [6], "wait_s": 5})],
        [("wait_jobs", {"jobs": [6], "wait_s": 5})],
        [("read_output", {"job": 6})],
    ]
    if restart:
        def after_restart():
            restart()
            return [("run_command", {"command": "echo after-restart"})]

        turns.append(after_restart)
    return [*turns, "The work is done."]


def check_conversation(results, restarts):
    """Names what is wrong with what the model saw."""
    wrong = []

    def expect(what, condition):
        if not condition:
            wrong.append(what)

    expect(f"{len(results)} results", len(results) == 9 + restarts)
    results = [*results, *[""] * 10]
    expect("the first command", "exit 0" in results[0] and "hello-42" in results[0])
    for n in range(3):
        expect(f"parallel call {n}", any(f"parallel-{n}" in result for result in results[1:4]))
    expect("the verdict of 100 KB", re.search(r"exit 0 .*job 5\b", results[4]))
    expect("the end of 100 KB", "20000" in results[4])
    expect("the job that outlasted the client's limit", "exit 0" in results[8] and "outlasted" in results[8])
    if restarts:
        expect("a call after the restart", "after-restart" in results[9])
    return wrong


def run_conversation(client_class, transport, tools, binary):
    script, server = model.Model(), None
    data = tempfile.TemporaryDirectory(prefix="shellyard-agents-", ignore_cleanup_errors=True)
    connection = ["stdio", binary, "stdio", "--data-dir", data.name]
    if transport == "http":
        server = Server(binary)
        connection = ["http", f"http://{server.address}/mcp"]
    client = client_class(tools, script, connection, CALL_LIMIT_S)
    try:
        script.play(conversation(server and server.restart))
        process = client.start("Do the work.")
        end_program(process)
        wrong = check_conversation(script.results(), 1 if server else 0)
        wrong += [f"tools are missing: {missing}" for missing in script.missing]
        return wrong, client.log(), script.results()
    finally:
        if server:
            server.stop()


def run_interrupted(client_class, _transport, tools, binary):
    """An interrupted client leaves no job behind."""
    script = model.Model()
    data = tempfile.TemporaryDirectory(prefix="shellyard-agents-", ignore_cleanup_errors=True)
    client = client_class(tools, script, ["stdio", binary, "stdio", "--data-dir", data.name], 60)
    mark = f"{data.name}/started"
    # The number is the name of the process: nothing else on this host sleeps for as long.
    seconds = f"3{os.getpid()}{client_class.ordinal}"
    script.play([[("run_command", {"command": f"touch {mark}; exec sleep {seconds}", "wait_s": 60})], "done"])
    process = client.start("Do the work.")
    try:
        wait_until("the command starts", lambda: os.path.exists(mark), RUN_LIMIT_S)
        os.killpg(process.pid, signal.SIGINT)
        wait_until("the client ends", lambda: process.poll() is not None)
        wait_until("the job ends", lambda: not is_running(f"sleep {seconds}"))
        return [], client.log(), []
    except AssertionError as error:
        return [str(error)], client.log(), []
    finally:
        end_program(process, 0)


def is_running(command):
    return subprocess.run(["pgrep", "-f", f"^{command}$"], stdout=subprocess.DEVNULL).returncode == 0


def end_program(process, limit_s=RUN_LIMIT_S):
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_check(check):
    client_class, transport, kind, tools, binary = check
    started = time.monotonic()
    try:
        wrong, log, results = kind(client_class, transport, tools, binary)
    except Exception:  # One broken check must not hide the others.
        wrong, log, results = [traceback.format_exc()], "", []
    name = f"{client_class.name}, {transport}, {kind.__name__.removeprefix('run_')}"
    lines = [f"{'ok' if not wrong else 'FAILED'}  {name}  ({time.monotonic() - started:.0f} s)"]
    if wrong:
        lines += [f"    {what}" for what in wrong]
        lines += [f"    result {index}: {text[:300]!r}" for index, text in enumerate(results)]
        lines += ["    the client's last words:", *[f"      {line}" for line in log[-2000:].splitlines()]]
    return not wrong, "\n".join(lines)


def main():
    tools, binary = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    chosen = [client for client in clients.ALL if not sys.argv[3:] or client.program in sys.argv[3:]]
    for ordinal, client in enumerate(chosen):
        client.ordinal = ordinal
    checks = [(client, transport, run_conversation, tools, binary) for client in chosen for transport in ("stdio", "http")]
    checks += [(client, "stdio", run_interrupted, tools, binary) for client in chosen]
    passed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=3) as pool:
        for good, text in pool.map(run_check, checks):
            passed += good
            print(text, flush=True)
    print(f"{passed} passed, {len(checks) - passed} failed")
    sys.exit(passed < len(checks))


if __name__ == "__main__":
    main()

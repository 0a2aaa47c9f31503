"""Starts the server for clients that are tests: over HTTP, and what it takes over stdio."""

import contextlib
import os
import random
import socket
import subprocess
import time

DEADLINE = 240

# Both forms of a result, so that pages can be put together byte by byte.
SETTINGS = {
    "SHELLYARD_MCP_PROGRESS_S": "0.3",
    "SHELLYARD_MCP_RESULT_FORMAT": "both",
    "SHELLYARD_LOG_FILTER": "warn",
}


def free_port():
    """A port that was free a moment ago, and is none that the kernel gives to connections."""
    while True:
        with socket.socket() as probe:
            port = random.randrange(20000, 32000)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def stdio_arguments(folder):
    return ["stdio", "--data-dir", folder]


@contextlib.contextmanager
def over_http(binary, folder, *flags, settings=None):
    """A server on a free port, which ends with the block; yields its URL."""
    port = free_port()
    server = subprocess.Popen(
        [binary, "serve", "--bind", f"127.0.0.1:{port}", "--data-dir", folder, *flags],
        env={**os.environ, **SETTINGS, **(settings or {})},
        cwd=folder,
    )
    try:
        await_port(server, port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.terminate()
        try:
            server.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            server.kill()
            raise


def await_port(server, port):
    deadline = time.monotonic() + DEADLINE
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert server.poll() is None, f"the server ended with {server.returncode}"
        assert time.monotonic() < deadline, "the server never listened"
        time.sleep(0.05)

"""run.py TOOLS BINARY [PROGRAM…]: real agent programs (all, or those named) against the real binary, over stdio and HTTP.

TOOLS is the folder where npm has installed them. A scripted model decides what they call, so a run needs no account and no network. Each
conversation: connect and list the tools, run a command, run three at once, write 100 KB, outlast the client's own limit and find the
result, and over HTTP go on after a restart of the server. (Over stdio the server is a child of its client and ends with it.) One more run
per client and transport is interrupted in the middle of a call.

Prints what failed, then a table; the last line is `N passed, N failed`.
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
LONG_S = 12
# Generous: programs start side by side on a machine that may be busy.
RUN_LIMIT_S = 240
# More at once start no sooner on two processors.
AT_ONCE = 2
STEPS = ("connect", "run", "parallel", "100 KB", "outlast", "restart", "cancel")


class Server:
    """`shellyard serve` on one port, which stays the same over restarts."""

    def __init__(self, binary):
        self.binary, self.data = binary, data_directory()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.start()

    def start(self):
        arguments = [self.binary, "serve", "--bind", self.address, "--data-dir", self.data.name]
        environment = os.environ | {"SHELLYARD_HTTP_SESSION_HANG_UP_S": "2"}
        self.process = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until("the server answers", lambda: is_ready(self.address))

    def stop(self):
        self.process.terminate()
        self.process.wait(60)

    def restart(self):
        self.stop()
        self.start()

    def metric(self, series):
        text = urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10).read().decode()
        return next(float(line.removeprefix(series)) for line in text.splitlines() if line.startswith(f"{series} "))


def data_directory():
    return tempfile.TemporaryDirectory(prefix="shellyard-agents-", ignore_cleanup_errors=True)


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
        # Each wait stays within the client's limit.
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


def check_conversation(script, restarts):
    """For each step, what the model saw instead of the right result, or None."""
    results = [*script.results(), *["no result"] * 10]
    tools = script.missing or ("nobody asked the model" if not script.requests else None)

    def expect(condition, *seen):
        return None if condition else "\n".join(seen)

    parallel = results[1:4]
    steps = {
        "connect": expect(not tools, f"the tools that the client shows: {tools}"),
        "run": expect("exit 0" in results[0] and "hello-42" in results[0], results[0]),
        "parallel": expect(all(any(f"parallel-{n}" in result for result in parallel) for n in range(3)), *parallel),
        "100 KB": expect(re.search(r"exit 0 .*job 5\b", results[4]) and "20000" in results[4], results[4]),
        "outlast": expect("exit 0" in results[8] and "outlasted" in results[8], *results[5:9]),
    }
    return steps | ({"restart": expect("after-restart" in results[9], results[9])} if restarts else {})


def open_connection(transport, binary, data):
    """The server, if the client does not start it, and the way by which the client reaches it."""
    if transport == "http":
        server = Server(binary)
        return server, ["http", f"http://{server.address}/mcp"]
    return None, ["stdio", binary, "stdio", "--data-dir", data.name]


def run_conversation(client_class, transport, tools, binary):
    script, data = model.Model(), data_directory()
    server, connection = open_connection(transport, binary, data)
    client = client_class(tools, script, connection, CALL_LIMIT_S)
    try:
        script.play(conversation(server and server.restart))
        end_program(client.start("Do the work."))
        return check_conversation(script, server), client.log()
    finally:
        if server:
            server.stop()


def run_interrupted(client_class, transport, tools, binary):
    """An interrupted client ends, and nobody waits for its call any more. Over stdio its job ends, too."""
    script, data = model.Model(), data_directory()
    server, connection = open_connection(transport, binary, data)
    client = client_class(tools, script, connection, 60)
    mark = f"{data.name}/started"
    # The number is the name of the process: nothing else on this host sleeps for as long.
    seconds = f"3{os.getpid()}{clients.ALL.index(client_class)}{len(transport)}"
    script.play([[("run_command", {"command": f"touch {mark}; exec sleep {seconds}", "wait_s": 60})], "done"])
    process = client.start("Do the work.")
    try:
        wait_until("the command starts", lambda: os.path.exists(mark), RUN_LIMIT_S)
        interrupt(process)
        # A client that only hangs up has not cancelled anything: its job goes on, and its session ends.
        has_left = (lambda: server.metric('shellyard_mcp_sessions{transport="http"}') == 0) if server else (lambda: False)
        wait_until("the job ends, or nobody waits for it", lambda: not is_running(f"sleep {seconds}") or has_left())
        return {"cancel": None}, client.log()
    except AssertionError as error:
        return {"cancel": str(error)}, client.log()
    finally:
        end_program(process, 0)
        if server:
            server.stop()


def interrupt(process):
    """Ends a program as a user does who presses Ctrl-C again and again, and closes the terminal in the end."""
    for _ in range(3):
        os.killpg(process.pid, signal.SIGINT)
        try:
            return process.wait(5)
        except subprocess.TimeoutExpired:
            pass
    return end_program(process, 0)


def is_running(command):
    return subprocess.run(["pgrep", "-f", f"^{command}$"], stdout=subprocess.DEVNULL).returncode == 0


def end_program(process, limit_s=RUN_LIMIT_S):
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_check(check):
    """Returns the steps of one run, each with what is wrong or None."""
    client_class, transport, kind, tools, binary = check
    started = time.monotonic()
    try:
        steps, log = kind(client_class, transport, tools, binary)
    except Exception:  # One broken run must not hide the others.
        steps, log = {"cancel" if kind is run_interrupted else "connect": traceback.format_exc()}, ""
    failed = {step: wrong for step, wrong in steps.items() if wrong is not None}
    for step, wrong in failed.items():
        print(f"FAILED  {client_class.name}, {transport}, {step}: {wrong[:1500]}", flush=True)
    if failed:
        print("    the client's last words:", *log[-1500:].splitlines(), sep="\n      ", flush=True)
    return (client_class.name, transport), steps, time.monotonic() - started


def print_table(rows):
    """One line per client and transport, one column per step."""
    print(f"\n{'':24}", *(f"{step:9}" for step in STEPS), "seconds")
    for (name, transport), (steps, seconds) in rows.items():
        cells = ("-" if step not in steps else "ok" if steps[step] is None else "FAILED" for step in STEPS)
        print(f"{name + ', ' + transport:24}", *(f"{cell:9}" for cell in cells), f"{seconds:.0f}")


def main():
    tools, binary = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    chosen = [client for client in clients.ALL if not sys.argv[3:] or client.program in sys.argv[3:]]
    runs = (run_conversation, run_interrupted)
    checks = [(client, transport, kind, tools, binary) for client in chosen for transport in ("stdio", "http") for kind in runs]
    rows = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        for row, steps, seconds in pool.map(run_check, checks):
            known, before = rows.get(row, ({}, 0))
            rows[row] = (known | steps, before + seconds)
    print_table(rows)
    outcomes = [wrong is None for steps, _ in rows.values() for wrong in steps.values()]
    print(f"\n{sum(outcomes)} passed, {len(outcomes) - sum(outcomes)} failed")
    sys.exit(not all(outcomes))


if __name__ == "__main__":
    main()

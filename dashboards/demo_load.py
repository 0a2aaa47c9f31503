#!/usr/bin/env python3
"""Puts a mixed, harmless load on a running server, as several agents, so that its dashboards move.

Jobs run `echo`, `printf`, `sleep`, `read` and `yes | head` in /tmp, write no file, and end by themselves
within seconds; jobs that still run in the background at the end are stopped. Needs Python 3.8 alone.

  python3 dashboards/demo_load.py                                   four agents for a minute
  python3 dashboards/demo_load.py --duration 0 --agents 8           until Ctrl-C
  python3 dashboards/demo_load.py --as alice.token --as ci.token    as two tenants, in turns

Exit code: 0, or 1 when the server could not be reached or failed at something itself.
"""

import argparse
import collections
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import re
import socket
import sys
import threading
import time
import urllib.parse

REVISION = "2025-11-25"
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
TIMEOUT_S = 60
RUN_WAIT_S = 15
LONG_POLL_S = 4
REMEMBERED_JOBS = 12
QUOTED_ERRORS = 5
LARGEST_FLOOD = 4_000_000  # Bytes: enough to spill and to be compressed, and little on a disk.
INTRODUCTIONS = ["ping", "tools/list", "resources/list", "resources/templates/list"]

# How often each kind of action comes, of the sum of all.
KINDS = {
    "quick": 24, "lines": 8, "complaint": 6, "failure": 9, "slow": 8, "deadline": 4, "flood": 4,
    "start": 9, "burst": 3, "talk": 2, "wait": 8, "read": 8, "search": 5, "list": 4, "stop": 3,
    "look around": 2, "reconnect": 2,
}  # fmt: skip


class ServerError(Exception):
    """The server failed, refused the client, or could not be reached."""


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=TIMEOUT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self.path)


class Server:
    """A server, and the token to show it. One connection per request."""

    def __init__(self, target, token=None):
        self.target, self.token = target, token
        self.url = urllib.parse.urlsplit(target) if "://" in target else None
        self.mcp_path = (self.url.path if self.url else "") or "/mcp"

    def request(self, method, path, headers=None, body=None):
        """Returns status, headers and text of the response."""
        headers = dict(headers or {})
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        connection = self._connection()
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(
                f"no server answers at {self.target}: {error}; start one with `shellyard serve`, "
                "or say where it is with --connect URL|SOCKET"
            ) from error
        finally:
            connection.close()

    def _connection(self):
        if self.url is None:
            return UnixConnection(self.target)
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        return kind(self.url.netloc, timeout=TIMEOUT_S)


class Session:
    """One MCP session over HTTP. Calls may be in flight side by side."""

    def __init__(self, server):
        self.server, self.headers, self.last_id = server, dict(HEADERS), 0
        self.lock = threading.Lock()
        info = {"name": "shellyard-demo-load", "version": "1"}
        hello = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": info}
        headers, _ = self._ask("initialize", hello)
        if "mcp-session-id" in headers:
            self.headers["mcp-session-id"] = headers["mcp-session-id"]
        self.headers["mcp-protocol-version"] = REVISION
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method, params=None):
        """Returns the result of a method."""
        return self._ask(method, params or {})[1]

    def call(self, tool, **arguments):
        """Returns the result of a tool; a result that says no is one as well."""
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def close(self):
        try:
            self.server.request("DELETE", self.server.mcp_path, self.headers)
        except ServerError:
            pass

    def _post(self, message):
        return self.server.request("POST", self.server.mcp_path, self.headers, json.dumps(message))

    def _ask(self, method, params):
        with self.lock:
            self.last_id += 1
            message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        status, headers, text = self._post(message)
        response = response_in(text)
        if "result" in response:
            return headers, response["result"]
        said = (response.get("error") or {}).get("message")
        if status == 401:
            raise ServerError(f"{said or 'a token is needed'}; give one with --token FILE or --as FILE")
        if said:
            raise ServerError(f"{said} ({response['error'].get('code')})")
        raise ServerError(f"{self.server.target} answered {status}, which is no response: {text[:300]!r}; check the address")


def response_in(text):
    """The response in a body that is one JSON message, or a stream of events that ends with it."""
    candidates = [text] + [line[5:] for line in text.splitlines() if line.startswith("data:")]
    for candidate in reversed(candidates):
        try:
            message = json.loads(candidate)
        except ValueError:
            continue
        if isinstance(message, dict) and "method" not in message:
            return message
    return {}


def first_line(result):
    content = result.get("content") or [{}]
    return (content[0].get("text") or "").split("\n", 1)[0]


def job_of(result):
    """The number of the job that a result is about. Replies come as text or as fields."""
    job = (result.get("structuredContent") or {}).get("job")
    if job is None:
        found = re.search(r"(?:^|· )job (\d+)", first_line(result))
        job = int(found.group(1)) if found else None
    return job


def verdict_of(result):
    """What a call came to. Failures of commands, of limits and of the server are told apart."""
    fields, said = result.get("structuredContent") or {}, first_line(result)
    state, outcome = fields.get("state"), fields.get("outcome")
    if result.get("isError"):
        refused = outcome == "refused" or said.startswith("refused")
        return "refused" if refused else "too_late"
    if state in ("queued", "running", "stopping"):
        return "goes_on_in_the_background"
    if state is not None:
        if outcome == "exited" and fields.get("exit_code") == 0:
            return "answered"
        words = {"exited": "the_command_failed", "signaled": "the_command_failed"}
        words.update(dict.fromkeys(["timed_out", "stopped", "limit"], "ended_early"))
        return words.get(outcome, "errors_of_ours")
    if said.startswith(("running", "queued", "stopping")):
        return "goes_on_in_the_background"
    if said.startswith(("timed out", "stopped", "limit", "output limit")):
        return "ended_early"
    if said.startswith(("lost", "failed to start")):
        return "errors_of_ours"
    if said.startswith(("exit ", "killed")) and not said.startswith("exit 0"):
        return "the_command_failed"
    return "answered"


class Tally:
    """What was done and what came back, counted."""

    def __init__(self):
        self.lock = threading.Lock()
        self.deeds, self.came_back = collections.Counter(), collections.Counter()
        self.errors = []

    def add(self, deed, results):
        with self.lock:
            self.deeds[deed.replace(" ", "_")] += 1
            for result in results:
                if isinstance(result, ServerError):
                    self.came_back["errors_of_ours"] += 1
                    self.errors = (self.errors + [str(result)])[:QUOTED_ERRORS]
                else:
                    self.came_back[verdict_of(result)] += 1

    def line(self, seconds):
        calls, back = sum(self.came_back.values()), self.came_back
        return (
            f"{seconds:.0f} s: {sum(self.deeds.values())} deeds, {calls} calls, "
            f"{back['refused']} refused, {back['errors_of_ours']} errors of ours"
        )

    def json(self):
        came_back = {word: count for word, count in self.came_back.items() if count}
        return {
            "deeds": dict(self.deeds), "calls": sum(came_back.values()),
            "came_back": came_back, "errors": self.errors,
        }  # fmt: skip

    def table(self):
        rows = [("DEED", "TIMES"), *sorted(self.deeds.items()), ("", ""), ("WHAT CAME BACK", "CALLS")]
        rows += sorted(self.json()["came_back"].items())
        lines = [f"{name.replace('_', ' '):28}{count}".rstrip() for name, count in rows]
        return "\n".join(lines + [f"error of ours: {error}" for error in self.errors])


class Agent:
    """One agent: makes the calls of its actions, and remembers its jobs."""

    def __init__(self, number, server, lanes, options, tally, end):
        # The same seed, lanes and known jobs give the same actions.
        self.dice = random.Random(f"{options.seed}/{number}")
        self.server, self.lanes, self.pause, self.tally, self.end = server, lanes, options.pause, tally, end
        share, rest = divmod(options.deeds, options.agents) if options.deeds is not None else (None, 0)
        self.deeds = None if share is None else share + (number < rest)
        self.session, self.jobs = None, []
        self.pool = concurrent.futures.ThreadPoolExecutor(20)

    def work(self):
        """Works until its actions are done or the end comes, and leaves nothing behind."""
        done = 0
        while not self.end.is_set() and (self.deeds is None or done < self.deeds):
            self.act()
            done += 1
            self.end.wait(self.dice.uniform(0, 2 * self.pause))
        try:
            if self.session and self.jobs:
                self.session.call("stop_jobs", jobs=self.jobs, grace_s=1)
        except ServerError:
            pass
        self.hang_up()
        self.pool.shutdown()

    def act(self):
        kind = self.dice.choices(list(KINDS), KINDS.values())[0]
        if self.session is None or kind == "reconnect":
            self.hang_up()
            self.tally.add("reconnect" if kind == "reconnect" else "connect", [self.connect()])
            return
        # The newest job is the one that most likely still runs.
        job = self.jobs[-1] if self.jobs and kind in ("wait", "stop") else self.dice.choice(self.jobs or [None])
        if kind in ("wait", "read", "search", "stop") and job is None:
            kind = "start"
        deed, calls = self.calls(kind, job)
        results = list(self.pool.map(attempt, calls))
        if kind == "talk" and not isinstance(results[0], ServerError) and job_of(results[0]) is not None:
            job = job_of(results[0])
            results.append(attempt(lambda: self.session.call("send_input", job=job, text="hello\n")))
        self.tally.add(deed, results)
        self.learn(kind, job, results)

    def calls(self, kind, job):
        """The name of an action in the summary, and its calls, which are made side by side."""
        session = self.session
        if kind == "look around":
            return kind, [lambda method=method: session.ask(method) for method in INTRODUCTIONS]
        tools = {
            "wait": lambda: session.call("wait_jobs", jobs=[job], wait_s=LONG_POLL_S),
            "read": lambda: session.call("read_output", job=job, view="tail"),
            "search": lambda: session.call("read_output", job=job, grep="line|y"),
            "list": lambda: session.call("list_jobs", limit=20),
            "stop": lambda: session.call("stop_jobs", jobs=[job], grace_s=1),
        }
        if kind in tools:
            return kind, [tools[kind]]
        lane = self.dice.choice(self.lanes) if self.lanes and self.dice.random() < 0.5 else None
        if kind == "talk":
            # Where no line comes, the deadline ends the job: it must not hold a slot.
            return kind, [self.run("read -r word; printf 'heard %s\\n' \"$word\"", 0, timeout_s=3)]
        if kind == "start":
            command = f"echo a line; sleep {self.seconds(1, 6)}; echo the last line"
            return kind, [self.run(command, 0, lane)]
        if kind == "burst":
            count = self.dice.randint(12, 20)
            return kind, [self.run(f"sleep {self.seconds(0.2, 1)}", 0, lane) for _ in range(count)]
        if kind == "deadline":
            return "run", [self.run("echo line; sleep 20", RUN_WAIT_S, timeout_s=1)]
        commands = {
            "quick": "echo hello",
            "lines": "for n in $(seq 200); do printf 'line %s\\n' \"$n\"; done; "
            "echo '============ 200 passed in 0.10s ============'",
            "complaint": "echo working; echo 'warning: line is long' >&2",
            "failure": f"echo 'error: line went wrong' >&2; exit {self.dice.randint(1, 3)}",
            "slow": f"sleep {self.seconds(0.5, 3)}",
            "flood": f"yes 'a line of a flood' | head -c {self.dice.randint(100_000, LARGEST_FLOOD)}",
        }
        return "run", [self.run(commands[kind], RUN_WAIT_S, lane)]

    def run(self, command, wait_s, lane=None, timeout_s=None):
        arguments = {"command": command, "cwd": "/tmp", "wait_s": wait_s, "max_tokens": 500}
        arguments.update({"lane": lane} if lane else {})
        arguments.update({"timeout_s": timeout_s} if timeout_s else {})
        return lambda: self.session.call("run_command", **arguments)

    def seconds(self, least, most):
        return f"{self.dice.uniform(least, most):.1f}"

    def learn(self, kind, job, results):
        """Jobs that go on are remembered, those that were stopped are not."""
        if kind == "stop":
            self.jobs = [known for known in self.jobs if known != job]
        elif kind != "look around":
            for result in results:
                if not isinstance(result, ServerError) and verdict_of(result) == "goes_on_in_the_background":
                    number = job_of(result)
                    if number is not None and number not in self.jobs:
                        self.jobs = (self.jobs + [number])[-REMEMBERED_JOBS:]
        # A server that was started anew knows no session of before.
        if any(isinstance(result, ServerError) for result in results):
            self.session = None

    def connect(self):
        try:
            self.session = Session(self.server)
            return {}
        except ServerError as error:
            self.end.wait(0.5)
            return error

    def hang_up(self):
        if self.session:
            self.session.close()
            self.session = None


def attempt(call):
    try:
        return call()
    except ServerError as error:
        return error


def load(options, server, tenants):
    """Runs all agents to their end and returns what came of it."""
    for tenant in tenants:
        Session(tenant).close()
    tally, end, begun = Tally(), threading.Event(), time.monotonic()
    lanes = lanes_of(server)
    agents = [
        Agent(number, tenants[number % len(tenants)], lanes, options, tally, end)
        for number in range(options.agents)
    ]
    threads = [threading.Thread(target=agent.work) for agent in agents]
    for thread in threads:
        thread.start()
    try:
        next_line = begun + 10
        while any(thread.is_alive() for thread in threads) and not end.is_set():
            time.sleep(0.05)
            now = time.monotonic()
            if now >= next_line:
                print(tally.line(now - begun), file=sys.stderr)
                next_line += 10
            if options.duration and now - begun >= options.duration:
                end.set()
    except KeyboardInterrupt:
        pass
    # Agents are told, and then waited for: they clean up.
    end.set()
    for thread in threads:
        thread.join()
    return tally


def lanes_of(server):
    """The lanes of the server; none for a caller that may not see the queue."""
    status, _, text = server.request("GET", "/api/v1/queue")
    return sorted(json.loads(text).get("lanes") or {}) if status == 200 else []


def seconds(text):
    """A time such as 60s, 5m or 200ms, in seconds."""
    found = re.fullmatch(r"(\d+)(ms|s|m|h|)", text)
    if not found:
        raise argparse.ArgumentTypeError("give a whole number and a unit, such as 60s, 5m or 200ms")
    return int(found.group(1)) * {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600}[found.group(2)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration", metavar="TIME", type=seconds, default=60, help="such as 60s or 5m; 0 = until Ctrl-C")
    parser.add_argument("--deeds", metavar="N", type=int, help="end after so many actions of all agents together")
    parser.add_argument("--agents", metavar="N", type=int, default=4, help="agents that work at the same time")
    parser.add_argument("--pause", metavar="TIME", type=seconds, default=0.2, help="average pause of an agent, such as 200ms")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="the same seed gives the same actions")
    parser.add_argument("--as", dest="tenants", metavar="FILE", action="append", default=[], help="file with the token of a tenant that agents work as; several take turns")
    parser.add_argument("--connect", metavar="URL|SOCKET", help="the server (default: http://127.0.0.1:8000/mcp)")
    parser.add_argument("--data-dir", metavar="DIR", help="the data directory of the server, for its socket")
    parser.add_argument("--token", metavar="FILE", help="file with the bearer token to show; else the variable SHELLYARD_TOKEN")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    options = parser.parse_args()
    target = options.connect or (
        os.path.join(options.data_dir, "shellyard.sock") if options.data_dir else "http://127.0.0.1:8000/mcp"
    )
    try:
        token = pathlib.Path(options.token).read_text().strip() if options.token else os.environ.get("SHELLYARD_TOKEN")
        server = Server(target, token)
        tenants = [Server(target, pathlib.Path(file).read_text().strip()) for file in options.tenants]
        tally = load(options, server, tenants or [server])
    except (ServerError, OSError) as error:
        print(f"demo_load: {error}", file=sys.stderr)
        return 1
    print(json.dumps(tally.json(), indent=2) if options.json else tally.table())
    return 1 if tally.came_back["errors_of_ours"] else 0


if __name__ == "__main__":
    sys.exit(main())

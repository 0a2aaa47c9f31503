"""The official conformance suite against the server.

usage: conformance.py BINARY SUITE SUITE_0_1

BINARY is a shellyard that was built with the feature `conformance`. With the dialect of that name it
offers what the suite wants to find: all frozen requirements of both revisions, and all of the 0.1
suite, run against it. Without the dialect it is the server that users have: the scenarios that need
no fixtures run against it too. tests/it/tidy holds that no release has the feature.

Prints one line for each scenario and, last, `N passed, N failed`. What may fail is in
exceptions.toml. The scenarios of an extension count as soon as the server offers it.
"""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.request

from server import over_http

TIMEOUT = 1200
REVISIONS = ("2025-11-25", "2026-07-28")
OLD = "0.1"

# The first word of the scenarios of an extension, and its name on the wire.
EXTENSIONS = {"tasks": "io.modelcontextprotocol/tasks"}

# A call of the suite is a task if its job runs longer than a microsecond. A job that cannot be started fails
# faster than that, so `failing_job` waits for the only slot of a lane first. `rm` asks somebody; the suite says
# yes in a form of its own, which is no yes to the server: those tasks end with a refusal.
WITH_TASKS = {"SHELLYARD_POLICY_ASK": "rm", "SHELLYARD_QUEUE_LANES_BUILD": "1"}

NEED_NO_FIXTURES = {
    "2025-11-25": (
        "server-initialize",
        "server-session-lifecycle",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "dns-rebinding-protection",
        "server-sse-multiple-streams",
        "server-sse-polling",
    ),
    "2026-07-28": (
        "tools-list",
        "resources-list",
        "prompts-list",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "server-sse-multiple-streams",
    ),
}


def run_suite(suite, url, choice):
    """Runs what is chosen; gives the checks of each scenario that was run."""
    with tempfile.TemporaryDirectory() as folder:
        command = [suite, "server", "--url", url, *choice, "-o", folder]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT
        )
        checks = {}
        for path in glob.glob(f"{folder}/server-*/checks.json"):
            name = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT.*", path.split(os.sep)[-2])[1]
            with open(path) as file:
                checks[name] = json.load(file)
    if not checks:
        print(f"        nothing was run; the suite said:\n{done.stdout[-2000:]}")
    return checks


def offered_extensions(url):
    """The extensions that the server offers to modern clients."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": REVISIONS[-1],
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    discover = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": REVISIONS[-1],
        "Mcp-Method": "server/discover",
    }
    request = urllib.request.Request(url, json.dumps(discover).encode(), headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        result = json.load(response)["result"]
    return result["capabilities"].get("extensions", {})


def is_good(label, checks, exceptions):
    """Whether a scenario ended as it should: each check held, or is a listed exception."""
    held = sum(check["status"] == "SUCCESS" for check in checks)
    unmet = {check["id"] for check in checks if check["status"] in ("FAILURE", "SKIPPED")}
    stale = exceptions.keys() - unmet
    failed = [
        check for check in checks if check["status"] == "FAILURE" and check["id"] not in exceptions
    ]
    good = (held > 0 or len(exceptions) > 0) and not failed and not stale
    word = ("except" if exceptions else "ok    ") if good else "FAILED"
    print(f"{word}  {label} ({held} checks)")
    for check in sorted(exceptions):
        what = "it does not fail: take it out" if check in stale else exceptions[check]
        print(f"        {check}: {what}")
    for check in [*failed, *(check for check in checks if check["status"] == "WARNING")]:
        print(f"        {check['id']}: {check.get('errorMessage', check['description'])}")
    return good


def all_of(run, checks, extensions, exceptions):
    """Whether each scenario of a run ended as it should, and each of its exceptions was run."""
    results = []
    for scenario in sorted(checks):
        extension = EXTENSIONS.get(scenario.split("-")[0])
        if extension and extension not in extensions:
            print(f"        {run}: {scenario} needs {extension}, which is not offered")
            continue
        listed = exceptions.get(scenario, {})
        results.append(is_good(f"{run}: {scenario}", checks[scenario], listed))
    for scenario in exceptions.keys() - checks.keys():
        print(f"FAILED  {run}: {scenario} is in exceptions.toml and was not run")
        results.append(False)
    return results or [False]


def with_fixtures(binary, suite, old_suite):
    with open(os.path.join(os.path.dirname(__file__), "exceptions.toml"), "rb") as file:
        exceptions = tomllib.load(file)
    results = []
    with (
        tempfile.TemporaryDirectory() as data,
        over_http(binary, data, "--dialect", "native,conformance", settings=WITH_TASKS) as url,
    ):
        extensions = offered_extensions(url)
        for revision in REVISIONS:
            checks = run_suite(suite, url, ["--requirements", revision])
            results += all_of(revision, checks, extensions, exceptions.get(revision, {}))
        checks = run_suite(old_suite, url, ["--suite", "all"])
        results += all_of(OLD, checks, extensions, exceptions.get(OLD, {}))
    return results


def without_fixtures(binary, suite):
    results = []
    with tempfile.TemporaryDirectory() as data, over_http(binary, data) as url:
        for revision, scenarios in NEED_NO_FIXTURES.items():
            checks = run_suite(suite, url, ["--requirements", revision])
            for scenario in scenarios:
                label = f"{revision}: {scenario}, without fixtures"
                results.append(is_good(label, checks.get(scenario, []), {}))
    return results


def main():
    binary, suite, old_suite = (os.path.abspath(path) for path in sys.argv[1:4])
    results = with_fixtures(binary, suite, old_suite) + without_fixtures(binary, suite)
    passed = sum(results)
    print(f"{passed} passed, {len(results) - passed} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The official conformance suite's scenarios that need no fixture tools, against the server.

usage: conformance.py PATH_TO_SHELLYARD PATH_TO_CONFORMANCE

Prints one line for each scenario and, last, `N passed, N failed`. A check that the suite itself
calls untestable, because it needs a diagnostic tool of its own, is printed and not counted.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile

from client import over_http

TIMEOUT = 300

SCENARIOS = {
    "2025-11-25": (
        "server-initialize",
        "server-session-lifecycle",
        "ping",
        "tools-list",
        "resources-list",
        "dns-rebinding-protection",
        "server-sse-multiple-streams",
        "server-sse-polling",
    ),
    "2026-07-28": (
        "server-stateless",
        "tools-list",
        "resources-list",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "server-sse-multiple-streams",
    ),
}


def run_suite(suite, url, revision, folder):
    """Runs all that the revision requires; its account of each scenario goes to `folder`."""
    command = [suite, "server", "--url", url, "--requirements", revision, "-o", folder]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT
    )
    return done.stdout


def checks_of(folder, scenario):
    checks = []
    for path in glob.glob(f"{folder}/**/server-{scenario}-2*/checks.json", recursive=True):
        with open(path) as file:
            checks += json.load(file)
    return checks


def judge(label, checks):
    """Whether a scenario passed: it was run, and every check that could be tested held."""
    wrong = [check for check in checks if check["status"] == "FAILURE"]
    untestable = [check for check in wrong if (check.get("details") or {}).get("untestable")]
    failed = [check for check in wrong if check not in untestable]
    held = sum(check["status"] == "SUCCESS" for check in checks)
    is_good = held > 0 and not failed
    print(f"{'ok    ' if is_good else 'FAILED'}  {label} ({held} checks)")
    for check in untestable:
        print(f"        needs a fixture: {check['id']}")
    for check in failed:
        print(f"        {check['id']}: {check.get('errorMessage', check['description'])}")
    return is_good


def main():
    binary, suite = (os.path.abspath(path) for path in sys.argv[1:3])
    results = []
    with tempfile.TemporaryDirectory() as data, over_http(binary, data) as url:
        for revision, scenarios in SCENARIOS.items():
            with tempfile.TemporaryDirectory() as folder:
                said = run_suite(suite, url, revision, folder)
                for scenario in scenarios:
                    label = f"conformance {revision}: {scenario}"
                    checks = checks_of(folder, scenario)
                    results.append(judge(label, checks))
                    if not checks:
                        print(f"        it was not run; the suite said:\n{said[-2000:]}")
    passed = sum(results)
    print(f"{passed} passed, {len(results) - passed} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

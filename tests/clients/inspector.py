"""The MCP Inspector's command line against the server: both transports, both eras.

usage: inspector.py PATH_TO_SHELLYARD PATH_TO_INSPECTOR

Prints one line for each check and, last, `N passed, N failed`.
"""

import json
import os
import subprocess
import sys
import tempfile

from server import DEADLINE, over_http, stdio_arguments

ERAS = ("legacy", "modern")
TOOLS = {"run_command", "wait_jobs", "read_output", "list_jobs", "send_input", "stop_jobs"}


def lists_tools_that_are_portable(ask):
    # With --strict, a schema that some client cannot take ends it with 6.
    listed = ask("--method", "tools/list", "--strict")
    assert {tool["name"] for tool in listed["tools"]} == TOOLS, listed


def calls_a_tool(ask):
    arguments = json.dumps({"command": "echo hello; exit 3"})
    call = ("--method", "tools/call", "--tool-name", "run_command", "--tool-args-json", arguments)
    answer = ask(*call)["content"][0]["text"]
    assert answer.startswith("exit 3") and "hello" in answer, answer


def lists_resources(ask):
    resources = ask("--method", "resources/list")["resources"]
    assert all(resource["uri"].startswith("shellyard://jobs/") for resource in resources), resources
    templates = ask("--method", "resources/templates/list")["resourceTemplates"]
    assert any("{job}" in template["uriTemplate"] for template in templates), templates


CHECKS = (lists_tools_that_are_portable, calls_a_tool, lists_resources)


def asker(inspector, era, target, folder):
    """A function that asks the server by the inspector, and gives the result."""
    # Neither the user's catalog nor the user's settings.
    env = {
        **os.environ,
        "HOME": folder,
        "MCP_CATALOG_PATH": f"{folder}/catalog.json",
        "SHELLYARD_LOG_FILTER": "warn",
    }

    def ask(*what):
        command = [inspector, "--cli", "--protocol-era", era, "--format", "json", *what, *target]
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=DEADLINE)
        assert done.returncode == 0, f"it ended with {done.returncode}: {done.stderr}"
        said = json.loads(done.stdout)
        return said.get("result", said)

    return ask


def run_checks(label, ask):
    passed = 0
    for check in CHECKS:
        try:
            check(ask)
            passed += 1
            print(f"ok      {label}: {check.__name__}")
        except (AssertionError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"FAILED  {label}: {check.__name__}: {error!r}")
    return passed


def main():
    binary, inspector = (os.path.abspath(path) for path in sys.argv[1:3])
    passed = 0
    for era in ERAS:
        with tempfile.TemporaryDirectory() as folder:
            target = ["--", binary, *stdio_arguments(folder)]
            passed += run_checks(f"inspector stdio, {era}", asker(inspector, era, target, folder))
        with tempfile.TemporaryDirectory() as folder, over_http(binary, folder) as url:
            target = ["--server-url", url, "--transport", "http"]
            passed += run_checks(f"inspector http, {era}", asker(inspector, era, target, folder))
    failed = 2 * len(ERAS) * len(CHECKS) - passed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

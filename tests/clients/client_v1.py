"""The Python `mcp` client 1.x, which knows the legacy era only, against the server.

usage: client_v1.py PATH_TO_SHELLYARD

Prints one line for each check and, last, `N passed, N failed`.
"""

import contextlib
import os
import sys
import tempfile
import traceback
from datetime import timedelta

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

from server import DEADLINE, SETTINGS, over_http, stdio_arguments

WAIT = timedelta(seconds=DEADLINE)


def text_of(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


async def runs_a_command(session):
    result = await session.call_tool("run_command", {"command": "echo hello; exit 3"})
    assert not result.isError, result
    assert text_of(result).startswith("exit 3") and "hello" in text_of(result), text_of(result)


async def waits_for_a_job(session):
    call = {"command": "read x; echo got:$x", "wait_s": 0}
    job = (await session.call_tool("run_command", call)).structuredContent["job"]
    await session.call_tool("send_input", {"job": job, "text": "it\n"})
    waited = await session.call_tool("wait_jobs", {"jobs": [job], "wait_s": 20})
    assert "exit 0" in text_of(waited), text_of(waited)


async def gets_progress(session):
    heard = []

    async def on_progress(progress, total, message):
        heard.append((progress, message))

    call = {"command": "echo busy; sleep 5; echo over"}
    result = await session.call_tool("run_command", call, progress_callback=on_progress)
    assert "over" in text_of(result), text_of(result)
    assert any(message and "busy" in message for _, message in heard), heard


async def pages_a_large_output(session):
    result = await session.call_tool("run_command", {"command": "seq 1 20000"})
    job, pages, cursor = result.structuredContent["job"], [], "bytes:0"
    while cursor:
        asked = {"job": job, "cursor": cursor, "max_bytes": 10000}
        page = (await session.call_tool("read_output", asked)).structuredContent
        pages.append(page["output"])
        cursor = page.get("next_cursor")
    assert len(pages) > 5, len(pages)
    assert "".join(pages) == "".join(f"{n}\n" for n in range(1, 20001)), pages[:1]


async def cancels_a_call(session):
    started = anyio.Event()

    async def on_progress(progress, total, message):
        started.set()

    # This client numbers its requests and has no other way to cancel one than the notification.
    number = session._request_id
    async with anyio.create_task_group() as calls:
        call = {"command": "sleep 3143", "wait_s": 50}
        calls.start_soon(
            lambda: session.call_tool("run_command", call, progress_callback=on_progress)
        )
        await started.wait()
        params = types.CancelledNotificationParams(requestId=number, reason="a test")
        cancelled = types.CancelledNotification(method="notifications/cancelled", params=params)
        await session.send_notification(types.ClientNotification(cancelled))
        calls.cancel_scope.cancel()
    listed = await session.call_tool("list_jobs", {"text": "sleep 3143"})
    job = listed.structuredContent["jobs"][0]["job"]
    waited = await session.call_tool("wait_jobs", {"jobs": [job], "wait_s": 20})
    assert "stopped" in text_of(waited), text_of(waited)


CHECKS = (runs_a_command, waits_for_a_job, gets_progress, pages_a_large_output, cancels_a_call)


@contextlib.asynccontextmanager
async def stdio_session(binary, folder):
    server = StdioServerParameters(
        command=binary, args=stdio_arguments(folder), env=SETTINGS, cwd=folder
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write, WAIT) as session:
        await session.initialize()
        yield session


@contextlib.asynccontextmanager
async def http_session(binary, folder):
    with over_http(binary, folder) as url:
        async with (
            streamablehttp_client(url) as (read, write, _),
            ClientSession(read, write, WAIT) as session,
        ):
            await session.initialize()
            yield session


async def run_checks(label, session):
    passed = 0
    for check in CHECKS:
        try:
            with anyio.fail_after(DEADLINE):
                await check(session)
            passed += 1
            print(f"ok      {label}: {check.__name__}")
        except Exception:
            print(f"FAILED  {label}: {check.__name__}")
            traceback.print_exc(file=sys.stdout)
    return passed


async def run_all(binary):
    passed = 0
    for open_session in (stdio_session, http_session):
        label = f"python 1.x {open_session.__name__}"
        try:
            with tempfile.TemporaryDirectory() as folder:
                async with open_session(binary, folder) as session:
                    passed += await run_checks(label, session)
        except Exception:
            print(f"FAILED  {label}: the connection")
            traceback.print_exc(file=sys.stdout)
    return passed


def main():
    passed = anyio.run(run_all, os.path.abspath(sys.argv[1]))
    failed = 2 * len(CHECKS) - passed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

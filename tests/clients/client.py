"""The Python `mcp` client against the server: both transports, both eras.

usage: client.py PATH_TO_SHELLYARD

Prints one line for each check and, last, `N passed, N failed`.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import traceback

import anyio
from mcp import Client, MCPError, StdioServerParameters

from server import DEADLINE, SETTINGS, over_http, stdio_arguments

TOOLS = {"run_command", "wait_jobs", "read_output", "list_jobs", "send_input", "stop_jobs"}
MODES = ("legacy", "auto", "2026-07-28")


def text_of(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


async def looks_around(client):
    tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == TOOLS, tools
    assert all(tool.annotations and tool.description for tool in tools), tools


async def runs_a_command(client):
    result = await client.call_tool("run_command", {"command": "echo hello; exit 3"})
    assert not result.is_error, result
    assert text_of(result).startswith("exit 3"), text_of(result)
    assert "hello" in text_of(result), text_of(result)


async def gets_progress(client):
    heard = []

    async def on_progress(progress, total, message):
        heard.append((progress, message))

    command = {"command": "echo busy; sleep 5; echo over"}
    result = await client.call_tool("run_command", command, progress_callback=on_progress)
    assert "over" in text_of(result), text_of(result)
    assert any(message and "busy" in message for _, message in heard), heard


async def works_in_the_background(client):
    started = await client.call_tool(
        "run_command", {"command": "echo ready; read x; echo got:$x", "wait_s": 0}
    )
    job = int(text_of(started).split("job ")[1].split()[0].rstrip("·,"))
    await client.call_tool("send_input", {"job": job, "text": "it\n"})
    waited = await client.call_tool("wait_jobs", {"jobs": [job], "wait_s": 20})
    assert "exit 0" in text_of(waited), text_of(waited)
    page = await client.call_tool("read_output", {"job": job})
    assert "ready\ngot:it" in text_of(page), text_of(page)


async def stops_a_job(client):
    started = await client.call_tool("run_command", {"command": "sleep 3141", "wait_s": 0})
    job = int(text_of(started).split("job ")[1].split()[0].rstrip("·,"))
    await client.call_tool("stop_jobs", {"jobs": [job]})
    waited = await client.call_tool("wait_jobs", {"jobs": [job], "wait_s": 20})
    assert "stopped" in text_of(waited), text_of(waited)


async def pages_a_large_output(client):
    result = await client.call_tool("run_command", {"command": "seq 1 20000"})
    job, pages, cursor = result.structured_content["job"], [], "bytes:0"
    while cursor:
        asked = {"job": job, "cursor": cursor, "max_bytes": 10000}
        page = (await client.call_tool("read_output", asked)).structured_content
        pages.append(page["output"])
        cursor = page.get("next_cursor")
    assert len(pages) > 5, len(pages)
    assert "".join(pages) == "".join(f"{n}\n" for n in range(1, 20001)), pages[:1]


async def cancel_a_call(client, command):
    started = anyio.Event()

    async def on_progress(progress, total, message):
        started.set()

    async with anyio.create_task_group() as calls:
        call = {"command": command, "wait_s": 50}
        calls.start_soon(
            lambda: client.call_tool("run_command", call, progress_callback=on_progress)
        )
        await started.wait()
        calls.cancel_scope.cancel()
    listed = await client.call_tool("list_jobs", {"text": command})
    return listed.structured_content["jobs"][0]["job"]


async def cancels_a_call(client):
    job = await cancel_a_call(client, "sleep 3142")
    waited = await client.call_tool("wait_jobs", {"jobs": [job], "wait_s": 20})
    assert "stopped" in text_of(waited), text_of(waited)


# Over HTTP a modern client cancels by hanging up, which a broken connection looks like too.
async def hangs_up_on_a_call(client):
    job = await cancel_a_call(client, "sleep 3146")
    waited = await client.call_tool("wait_jobs", {"jobs": [job], "wait_s": 1})
    assert "running" in text_of(waited), text_of(waited)
    await client.call_tool("stop_jobs", {"jobs": [job]})


async def runs_twenty_at_once(client):
    calls = [client.call_tool("run_command", {"command": f"echo number-{n}-"}) for n in range(20)]
    for n, result in enumerate(await asyncio.gather(*calls)):
        assert f"number-{n}-" in text_of(result), text_of(result)


async def hears_of_changes(client):
    started = await client.call_tool("run_command", {"command": "read x; echo got:$x", "wait_s": 0})
    job = int(text_of(started).split("job ")[1].split()[0].rstrip("·,"))
    uri = f"shellyard://jobs/{job}/output"
    answer = {"job": job, "text": "it\n"}
    if client.protocol_version >= "2026-07-28":
        async with client.listen(resource_subscriptions=[uri]) as changes:
            await client.call_tool("send_input", answer)
            event = await anext(aiter(changes))
            assert event.uri == uri, event
    else:
        await client.subscribe_resource(uri)
        await client.call_tool("send_input", answer)
        while not any(updated == uri for updated in UPDATED):
            await anyio.sleep(0.05)
        await client.unsubscribe_resource(uri)
    contents = (await client.read_resource(uri)).contents
    assert contents[0].text == "got:it\n", contents


UPDATED = []


async def note_update(message):
    if getattr(message, "method", None) == "notifications/resources/updated":
        UPDATED.append(message.params.uri)


async def hears_what_is_wrong(client):
    result = await client.call_tool("read_output", {"job": 4711})
    assert result.is_error and "4711" in text_of(result), result
    try:
        unknown = await client.call_tool("no_such_tool", {})
        assert unknown.is_error, unknown
    except MCPError as error:
        assert "no_such_tool" in str(error), error
    await runs_a_command(client)


CHECKS = (
    looks_around,
    runs_a_command,
    gets_progress,
    works_in_the_background,
    stops_a_job,
    pages_a_large_output,
    cancels_a_call,
    runs_twenty_at_once,
    hears_of_changes,
    hears_what_is_wrong,
)

@contextlib.contextmanager
def over_stdio(binary, folder):
    yield StdioServerParameters(
        command=binary, args=stdio_arguments(folder), env=SETTINGS, cwd=folder
    )


async def run_checks(target, mode, label):
    passed = failed = 0
    UPDATED.clear()
    async with Client(
        target, mode=mode, read_timeout_seconds=DEADLINE, message_handler=note_update
    ) as client:
        hangs_up = isinstance(target, str) and client.protocol_version >= "2026-07-28"
        for check in CHECKS:
            if hangs_up and check is cancels_a_call:
                check = hangs_up_on_a_call
            try:
                with anyio.fail_after(DEADLINE):
                    await check(client)
                passed += 1
                print(f"ok      {label}: {check.__name__}")
            except Exception:
                failed += 1
                print(f"FAILED  {label}: {check.__name__}")
                traceback.print_exc(file=sys.stdout)
    return passed, failed


def main():
    binary = os.path.abspath(sys.argv[1])
    passed = failed = 0
    for transport in (over_stdio, over_http):
        for mode in MODES:
            label = f"python {transport.__name__}, {mode}"
            before = passed + failed
            try:
                with tempfile.TemporaryDirectory() as folder, transport(binary, folder) as target:
                    counts = asyncio.run(run_checks(target, mode, label))
                passed, failed = passed + counts[0], failed + counts[1]
            except Exception:
                failed += 1 if passed + failed > before else len(CHECKS)
                print(f"FAILED  {label}: the connection")
                traceback.print_exc(file=sys.stdout)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""run.py --binary PATH: what replies cost, and what they tell.

Makes the tasks of a set, performs the calls that an agent makes about each, and counts the tokens of all replies, the calls, and the
facts that the replies state: "at first" without a follow-up, and in all. A follow-up is the call that the hint of the last reply names,
at most three for each task, while facts are missing.

--shell NAME measures the built-in shell of a real agent program instead, driven by a scripted model.
--check fails unless the targets are met.
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

from make_tasks import make_tasks
from mcp_stdio import McpClient
from score import Conversation, add_up, format_table, score
from tasks import SETS

FOLLOW_UPS = 3
# For each set: tokens and calls at most, and facts at first at least, as a share of all.
TARGETS = {
    "everyday": {"tokens": 6000, "calls": 18, "first": 100 / 103},
    "other": {"tokens": 4800, "calls": 14, "first": 100 / 103},
    "unknown": {"tokens": 2400, "calls": 7, "first": 100 / 103},
}


def converse(client, task, max_tokens):
    """Runs a task: the planned calls, then the follow-ups that the replies name."""
    conversation = Conversation(task)

    def call(tool, arguments):
        if max_tokens:
            arguments = arguments | {"max_tokens": max_tokens}
        shown = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
        conversation.calls.append(f"{tool}({shown})")
        conversation.replies.append(client.call(tool, arguments))
        return conversation.replies[-1]

    arguments = {"command": task["command"], "cwd": task["folder"]}
    arguments |= {"until": task["until"]} if task["until"] else {"wait_s": task["wait_s"]}
    job = find_job(call("run_command", arguments))
    if task["wait_s"] < 30:
        call("wait_jobs", {"jobs": [job], "wait_s": 60})
    if task["search"]:
        call("read_output", {"job": job, "grep": task["search"]})
    conversation.planned = len(conversation.calls)
    while conversation.missing() and len(conversation.calls) < conversation.planned + FOLLOW_UPS:
        hints = [hint for hint in find_calls(conversation.replies[-1], job) if hint not in conversation.follow_ups]
        if not hints:
            break
        conversation.follow_ups.append(hints[0])
        call(*hints[0])
    return conversation


def find_job(reply):
    found = re.search(r"\bjob (\d+)\b", reply)
    if found is None:
        raise SystemExit(f"no job number in the reply:\n{reply}")
    return int(found[1])


def find_calls(reply, job):
    """The calls that the hint of a reply names: whole ones, and further arguments of `read_output` alone."""
    hint = next((line for line in reversed(reply.splitlines()) if line.startswith("→")), "")
    calls = []
    for tool, arguments in re.findall(r"\b(run_command|read_output|wait_jobs)\(([^()]*(?:\([^()]*\)[^()]*)*)\)", hint):
        calls.append((tool, read_arguments(arguments)))
    rest = re.sub(r"\b\w+\([^()]*(?:\([^()]*\)[^()]*)*\)", "", hint)
    arguments = read_arguments(rest)
    if arguments:
        calls.append(("read_output", {"job": job} | arguments))
    # A search term that the caller has to choose is no call yet.
    return [(tool, arguments) for tool, arguments in calls if "…" not in json.dumps(arguments, ensure_ascii=False)]


def read_arguments(text):
    """The arguments of a call as a hint writes them: `job=1, grep="WARN", jobs=[1]`."""
    found = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\[[^\]]*\]|[\w.]+)', text)
    arguments = {}
    for name, value in found:
        try:
            arguments[name] = json.loads(value)
        except json.JSONDecodeError:
            arguments[name] = value
    return arguments


def run_shellyard(tasks, arguments):
    conversations = []
    with McpClient(Path(arguments.binary).resolve()) as client:
        for task in tasks:
            conversations.append(converse(client, task, arguments.max_tokens))
    return conversations


def run_shell(tasks, arguments):
    import shells  # The scripted model and the clients are needed for this alone.

    return shells.measure(arguments.shell, tasks, arguments.agents)


def check(rows, targets):
    """The targets that the sums miss."""
    sums = add_up(rows)
    first = round(targets["first"] * sums["facts"])
    wrong = []
    if sums["tokens"] > targets["tokens"]:
        wrong.append(f"{sums['tokens']} tokens, more than {targets['tokens']}")
    if sums["found"] < sums["facts"]:
        wrong.append(f"{sums['found']} facts of {sums['facts']}")
    if sums["found_first"] < first:
        wrong.append(f"{sums['found_first']} facts at first, less than {first}")
    if sums["calls"] > targets["calls"]:
        wrong.append(f"{sums['calls']} calls, more than {targets['calls']}")
    return wrong


def save_replies(folder, conversations):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for number, conversation in enumerate(conversations, 1):
        (folder / f"{number:02}-{conversation.task['name']}.txt").write_text(conversation.text())


def main():
    parser = argparse.ArgumentParser(description="Measures the tokens and facts of replies.")
    parser.add_argument("--binary", default="target/debug/shellyard", help="the program to measure (default: %(default)s)")
    parser.add_argument("--set", choices=SETS, default="everyday", help="the set of tasks (default: %(default)s)")
    parser.add_argument("--only", help="names of tasks, by commas")
    parser.add_argument("--max-tokens", type=int, help="the max_tokens of each call (default: that of the server)")
    parser.add_argument("--shell", choices=("claude", "codex", "gemini", "opencode", "qwen"), help="measure the built-in shell of this program instead")
    parser.add_argument("--agents", default="target/clients/agents", help="the folder where npm has installed these programs (default: %(default)s)")
    parser.add_argument("--tokenizer", default="target/clients/tokenizer", help="the folder where npm has installed gpt-tokenizer (default: %(default)s)")
    parser.add_argument("--replies", help="a folder for all calls and replies as text")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--check", action="store_true", help="fail unless the targets are met")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="replies-tasks-") as folder:
        tasks = make_tasks(Path(folder) / "tasks", arguments.set)
        if arguments.only:
            tasks = [task for task in tasks if task["name"] in arguments.only.split(",")]
        conversations = run_shell(tasks, arguments) if arguments.shell else run_shellyard(tasks, arguments)
    if arguments.replies:
        save_replies(arguments.replies, conversations)
    rows = score(conversations, arguments.tokenizer)
    print(format_table(rows))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"set": arguments.set, "tasks": rows, "sums": add_up(rows)}, indent=1, ensure_ascii=False) + "\n")
    wrong = check(rows, TARGETS[arguments.set]) if arguments.check else []
    for target in wrong:
        print(f"missed: {target}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

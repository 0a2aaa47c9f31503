"""The built-in shells of real agent programs, driven by the scripted model of tests/clients/agents.

Each task is a conversation of its own with a fresh program: the planned calls, then the commands by which an agent looks for what it
misses. The replies are the results that the program sends to its model.
"""

import concurrent.futures
import json
import re
import sys
from pathlib import Path

from score import Conversation

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/clients/agents"))
import clients
import model
import run as agents

AT_ONCE = 2
CALL_LIMIT_S = 120
MORE_CALLS = 3
STATUS = re.compile(r"exit \d+$|running$")


class Shell:
    """A client's shell tool: its name and its arguments."""

    tool = ""
    # The shell names an exit status other than 0, so its silence means success.
    names_failure = True

    def __init__(self, client_class, tools):
        self.client_class, self.tools = client_class, tools

    def run(self, command):
        return self.tool, {"command": command}

    def plan(self, task):
        """Yields the planned calls; gets the results so far."""
        here = f"cd {task['folder']} && "
        if task["until"]:
            yield self.run(f"{here}({task['command']} > out.log 2>&1 &) ; sleep 3; cat out.log; pgrep -af 'npm run dev' | grep -q . && echo still running")
        else:
            yield self.run(here + task["command"])
        if task["search"]:
            yield self.run(f"{here}{task['command']} | grep -n {task['search']}")

    def follow_ups(self, task):
        """The calls by which an agent looks for what it misses."""
        command = task["command"]
        general = [f"{command} 2>&1 | grep -nEi 'error|fail|fatal|panic' | tail -n 60", f"{command} 2>&1 | tail -n 80"]
        return [self.run(f"cd {task['folder']} && {follow}") for follow in task["shell_follow_ups"] or general]

    def status_patterns(self, status):
        """The patterns of the fact that states how the command ended."""
        if status == "exit 0" and self.names_failure:
            return ["^"]
        if status == "running":
            return [r"(?i)running"]
        number = status.removeprefix("exit ")
        return [rf"(?i)^\W*(?:process )?exit(?:ed with)? code:? {number}\b"]


class ClaudeShell(Shell):
    tool = "Bash"

    def run(self, command):
        return self.tool, {"command": command, "description": "Run a step of the task"}


class GeminiShell(Shell):
    tool = "run_shell_command"


class OpenCodeShell(Shell):
    tool = "bash"
    names_failure = False


class CodexShell(Shell):
    """Commands are sessions: a call returns after a while, and another one waits for the rest."""

    tool = "exec_command"

    def run(self, command):
        return self.tool, {"cmd": command}

    def plan(self, task):
        here = f"cd {task['folder']} && "
        if task["until"]:
            yield self.tool, {"cmd": here + task["command"], "yield_time_ms": 3000}
            return
        replies = yield self.run(here + task["command"])
        session = re.search(r"session ID (\d+)", replies[-1]) if replies else None
        if session:
            yield "write_stdin", {"session_id": int(session[1]), "yield_time_ms": 60000}
        if task["search"]:
            yield self.run(f"{here}{task['command']} | grep -n {task['search']}")


SHELLS = {"claude": ClaudeShell, "codex": CodexShell, "gemini": GeminiShell, "qwen": GeminiShell, "opencode": OpenCodeShell}


def measure(name, tasks, tools):
    """The conversations of a client's shell about the tasks."""
    client_class = next(client for client in clients.ALL if client.program == name)
    shell = SHELLS[name](client_class, Path(tools).resolve())
    with concurrent.futures.ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        return list(pool.map(lambda task: converse(shell, task), tasks))


def converse(shell, task):
    """One conversation: the model asks for the next call as long as facts are missing."""
    facts = [fact | {"patterns": shell.status_patterns(fact["name"])} if STATUS.match(fact["name"]) else fact for fact in task["facts"]]
    conversation = Conversation(task | {"facts": facts})
    script = model.Model()
    client = shell.client_class(shell.tools, script, ["stdio", "none"], CALL_LIMIT_S)
    remove_server(client)
    calls = next_calls(shell, conversation)
    turns = []

    def turn(index):
        # A client may ask for a turn again.
        if index == len(turns):
            conversation.replies = script.results()
            try:
                turns.append([calls.send(conversation.replies if index else None)])
            except StopIteration:
                turns.append("done")
        return turns[index]

    script.play([lambda index=index: turn(index) for index in range(10)])
    agents.end_program(client.start("Do the work."), agents.RUN_LIMIT_S)
    conversation.replies = script.results()
    if len(conversation.replies) != len(conversation.calls):
        print(f"{shell.client_class.name}, {task['name']}: {len(conversation.calls)} calls, {len(conversation.replies)} results\n{client.log()[-1500:]}", file=sys.stderr)
    return conversation


def next_calls(shell, conversation):
    """Yields the calls of a conversation; gets the replies so far."""
    task = conversation.task
    plan, replies = shell.plan(task), None
    while True:
        try:
            call = plan.send(replies)
        except StopIteration:
            break
        conversation.calls.append(format_call(*call))
        conversation.planned = len(conversation.calls)
        replies = yield call
    for call in shell.follow_ups(task)[:MORE_CALLS]:
        # No command of an agent finds out an exit status afterwards.
        if all(STATUS.match(fact["name"]) for fact in conversation.missing()):
            return
        conversation.calls.append(format_call(*call))
        yield call


def format_call(tool, arguments):
    shown = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return f"{tool}({shown})"


def remove_server(client):
    """Leaves the client with its own tools alone, and lets it run them without a question."""
    home = Path(client.home.name)
    codex = home / ".codex/config.toml"
    if codex.exists():
        # The name of the model decides how much of a result Codex shows.
        codex.write_text(codex.read_text().split("[mcp_servers")[0].replace('model = "scripted"', 'model = "gpt-5.5"'))
    for file in (home / name for name in ("mcp.json", ".gemini/settings.json", ".qwen/settings.json", "work/opencode.json")):
        if file.exists():
            settings = json.loads(file.read_text())
            key = "mcp" if "mcp" in settings else "mcpServers"
            file.write_text(json.dumps(settings | {key: {}}))
    claude = home / ".claude/settings.json"
    if claude.exists():
        claude.write_text(json.dumps({"permissions": {"allow": ["Bash"]}}))

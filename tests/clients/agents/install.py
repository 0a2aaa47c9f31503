"""install.py TOOLS BINARY [PROGRAM…]: what real agent programs say about the settings that `shellyard install` wrote for them.

TOOLS is the folder where npm has installed them. For each program, with settings that the program itself has written before: it knows nothing
of Shellyard; after `shellyard install` it lists the server, and connects where it does so to list; after `--uninstall` it knows nothing again,
and its file is what it was. Then the same for the project, where the program has such a file.

Prints what failed, then a table; the last line is `N passed, N failed`.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT_S = 180
STEPS = ("before", "listed", "connected", "again", "removed", "project")


class Program:
    """An agent program: `add` makes it write settings of its own, `listing` prints its servers."""

    def __init__(self, word, program, file, project, add, connects):
        self.word, self.program, self.file, self.project, self.add, self.connects = word, program, file, project, add, connects


# `connects` is how a listing shows a server that answers; Codex lists without connecting.
PROGRAMS = [
    Program("claude-code", "claude", ".claude.json", ".mcp.json", ["mcp", "add", "-s", "user", "other", "--", "/bin/true"], r"shellyard:.*Connected"),
    Program("codex", "codex", ".codex/config.toml", None, ["mcp", "add", "other", "--", "/bin/true"], None),
    Program("gemini", "gemini", ".gemini/settings.json", ".gemini/settings.json", ["mcp", "add", "-s", "user", "other", "/bin/true"], r"shellyard:.*Connected"),
    Program("qwen", "qwen", ".qwen/settings.json", ".qwen/settings.json", ["mcp", "add", "-s", "user", "other", "/bin/true"], r"shellyard:.*Connected"),
    Program("opencode", "opencode", ".config/opencode/opencode.jsonc", "opencode.json", None, r"shellyard.*connected"),
]

OPENCODE = """{
  // Written by hand.
  "$schema": "https://opencode.ai/config.json",
  "autoupdate": false,
  "mcp": {
    "other": { "type": "local", "command": ["/bin/true"], "enabled": false }, // off
  },
}
"""


class World:
    """A home directory and a project for one program."""

    def __init__(self, program, tools, binary):
        self.program, self.binary = program, binary
        self.bin = Path(tools) / "node_modules/.bin" / program.program
        self.folder = tempfile.TemporaryDirectory(prefix=f"install-{program.program}-", ignore_cleanup_errors=True)
        self.home = Path(self.folder.name)
        self.work = self.home / "work"
        self.work.mkdir()
        subprocess.run(["git", "init", "-q", self.work], check=True)
        self.file = self.home / program.file
        if program.add is None:
            self.file.parent.mkdir(parents=True)
            self.file.write_text(OPENCODE)
        else:
            self.run([self.bin, *program.add])

    def run(self, command, check=True):
        environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        environment |= {"HOME": str(self.home), "CI": "1", "NO_COLOR": "1", "DISABLE_AUTOUPDATER": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
        environment |= {"OPENCODE_DISABLE_MODELS_FETCH": "1", "GEMINI_CLI_TRUST_WORKSPACE": "true", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        done = subprocess.run(
            command, cwd=self.work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S, text=True, errors="replace"
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout}")
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", done.stdout)

    def listing(self):
        return self.run([self.bin, "mcp", "list"])

    def install(self, *flags):
        return self.run([self.binary, "install", self.program.word, *flags])


def expect(condition, *seen):
    return None if condition else "\n".join(seen)


def check(program, tools, binary):
    """Returns what is wrong in each step, or None."""
    world = World(program, tools, binary)
    steps = {}
    listing = world.listing()
    steps["before"] = expect("other" in listing and "shellyard" not in listing, listing)
    # A listing may rewrite the file of the program.
    before = world.file.read_text()
    said = world.install()
    listing = world.listing()
    steps["listed"] = expect("other" in listing and "shellyard" in listing, said, listing)
    if program.connects:
        steps["connected"] = expect(re.search(program.connects, listing, re.IGNORECASE), listing)
    installed = world.file.read_text()
    said = world.install()
    steps["again"] = expect("already installed" in said and world.file.read_text() == installed, said)
    world.install("--uninstall")
    left = world.file.read_text()
    listing = world.listing()
    is_gone = "other" in listing and "shellyard" not in listing
    # A program that keeps counters in its file changes it whenever it runs.
    is_same = left == before or (program.program == "claude" and "shellyard" not in left)
    steps["removed"] = expect(is_gone and is_same, listing, left)
    if program.project:
        steps["project"] = check_project(world)
    return steps


def check_project(world):
    world.install("--scope", "project")
    listing = world.listing()
    world.install("--scope", "project", "--uninstall")
    # Some programs add a line of their own to a file that they read.
    file = world.work / world.program.project
    is_gone = not file.exists() or "shellyard" not in file.read_text()
    return expect("shellyard" in listing and is_gone, listing)


def main():
    tools, binary = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    chosen = [program for program in PROGRAMS if not sys.argv[3:] or program.program in sys.argv[3:]]
    rows = {}
    for program in chosen:
        try:
            steps = check(program, tools, binary)
        except Exception as error:  # One broken program must not hide the others.
            steps = {"before": f"{type(error).__name__}: {error}"}
        rows[program.word] = steps
        for step, wrong in steps.items():
            if wrong is not None:
                print(f"FAILED  {program.word}, {step}: {wrong[:2000]}", flush=True)
    print(f"\n{'':14}", *(f"{step:9}" for step in STEPS))
    for word, steps in rows.items():
        cells = ("-" if step not in steps else "ok" if steps[step] is None else "FAILED" for step in STEPS)
        print(f"{word:14}", *(f"{cell:9}" for cell in cells))
    outcomes = [wrong is None for steps in rows.values() for wrong in steps.values()]
    print(f"\n{sum(outcomes)} passed, {len(outcomes) - sum(outcomes)} failed")
    sys.exit(not all(outcomes))


if __name__ == "__main__":
    main()

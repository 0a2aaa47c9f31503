"""A task: a command as an agent runs it, and the facts that its agent needs from the replies."""

import os
import re
import stat
from dataclasses import dataclass, field


@dataclass
class Fact:
    """One thing that a reader of the output must know.

    A reply states the fact if each of the patterns matches within `span` consecutive lines of it. The span is above 1 only where the
    tool itself spreads the fact over several lines.
    """

    name: str
    patterns: list
    span: int = 1


@dataclass
class Task:
    """A command in a folder of its own, with the calls that an agent makes about it: run it, then search or wait."""

    name: str
    title: str
    command: str
    facts: list = field(default_factory=list)
    wait_s: int = 30
    until: str = ""
    search: str = ""
    # The commands by which an agent with a plain shell looks for what the first reply does not show.
    shell_follow_ups: list = field(default_factory=list)

    def add(self, name, *patterns, span=1):
        """Adds a fact; the patterns are regular expressions."""
        self.facts.append(Fact(name, list(patterns), span))

    def add_text(self, name, *texts, span=1):
        """Adds a fact; the texts are taken literally."""
        self.add(name, *(re.escape(text) for text in texts), span=span)

    def add_exit(self, status):
        """Adds the exit status, as the first line of a reply of Shellyard states it."""
        self.add(f"exit {status}", rf"^exit {status}\b")


def place(file, line, column=None):
    """A pattern for a place in a file: `file:line:column`, or `file(line,column)`. The column may be left out."""
    column = rf"(?:[:,]{column}\b)?" if column else ""
    return rf"{re.escape(file)}[:(]{line}\b{column}"


def add_program(folder, name, output, status, stream="stdout"):
    """Writes a program that prints a prepared output and ends with an exit status; returns its command."""
    (folder / f"{name}.log").write_text(output)
    redirect = " >&2" if stream == "stderr" else ""
    return add_script(folder, name, f'#!/bin/sh\ncat "$(dirname "$0")/../{name}.log"{redirect}\nexit {status}\n')


def add_script(folder, name, text):
    """Writes an executable file `bin/NAME`; returns its command."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.chmod(path, path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return f"bin/{name}"

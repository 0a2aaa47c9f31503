"""Scores of replies: facts found, calls and tokens."""

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent


@dataclass
class Conversation:
    """The replies to the calls about one task, in order. The first `planned` calls are those of the task; later ones follow up."""

    task: dict
    calls: list = field(default_factory=list)
    replies: list = field(default_factory=list)
    planned: int = 0
    follow_ups: list = field(default_factory=list)

    def missing(self, count=None):
        """The facts that the first `count` replies (or all) do not state."""
        replies = self.replies[:count]
        return [fact for fact in self.task["facts"] if not any(states(reply, fact) for reply in replies)]

    def text(self):
        """All calls and replies, for a person to read."""
        missing = ", ".join(fact["name"] for fact in self.missing()) or "nothing"
        first = ", ".join(fact["name"] for fact in self.missing(self.planned)) or "nothing"
        parts = [f">>> {call}\n{reply.rstrip()}\n" for call, reply in zip(self.calls, self.replies)]
        return f"# {self.task['title']}\n# missing at first: {first}\n# missing at the end: {missing}\n\n" + "\n".join(parts)


def states(reply, fact):
    """`true` if all patterns of the fact match within its span of lines."""
    lines, span = reply.splitlines(), fact["span"]
    patterns = [re.compile(pattern) for pattern in fact["patterns"]]
    places = [[number for number, line in enumerate(lines) if pattern.search(line)] for pattern in patterns]
    return any(all(any(abs(other - place) < span for other in others) for others in places) for place in places[0])


def count_tokens(texts, tokenizer):
    """The o200k tokens of each text; `tokenizer` is the folder where npm has installed gpt-tokenizer."""
    command = ["node", HERE / "tokens.cjs", tokenizer]
    done = subprocess.run(command, check=False, input=json.dumps(texts), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"cannot count tokens: npm install --prefix {tokenizer} gpt-tokenizer@4.0.0\n{done.stderr}")
    return json.loads(done.stdout)


def score(conversations, tokenizer):
    """A row of numbers for each conversation."""
    texts = [reply for conversation in conversations for reply in conversation.replies]
    tokens = iter(count_tokens(texts, tokenizer))
    rows = []
    for conversation in conversations:
        facts = len(conversation.task["facts"])
        rows.append(
            {
                "task": conversation.task["name"],
                "title": conversation.task["title"],
                "tokens": sum(next(tokens) for _ in conversation.replies),
                "facts": facts,
                "found": facts - len(conversation.missing()),
                "found_first": facts - len(conversation.missing(conversation.planned)),
                "calls": len(conversation.calls),
                "missing": [fact["name"] for fact in conversation.missing()],
                "missing_first": [fact["name"] for fact in conversation.missing(conversation.planned)],
            }
        )
    return rows


def add_up(rows):
    """The sums over all tasks."""
    return {key: sum(row[key] for row in rows) for key in ("tokens", "facts", "found", "found_first", "calls")}


def format_table(rows):
    """A table for people: a line for each task, and the sums."""
    lines = [f"{'task':58} {'tokens':>8} {'facts':>9} {'at first':>9} {'calls':>6}"]
    for row in [*rows, add_up(rows) | {"title": "all"}]:
        found, first = (f"{row[key]}/{row['facts']}" for key in ("found", "found_first"))
        lines.append(f"{row['title']:58} {row['tokens']:8,} {found:>9} {first:>9} {row['calls']:6}")
    for row in rows:
        if row["missing_first"]:
            lines.append(f"not at first, {row['task']}: {', '.join(row['missing_first'])}")
    return "\n".join(lines)

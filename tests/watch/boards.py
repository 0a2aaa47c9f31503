"""Dashboards as Grafana reads them: panels, their queries, and variables put in."""

import json
import pathlib
import re
from dataclasses import dataclass, field

# Several scrapes are in every rate.
RATE_INTERVAL = 30
RANGE = 30
STEP = 5

# Panel types that show one moment rather than a course.
MOMENTS = {"stat", "gauge", "bargauge", "table", "piechart"}
# Panel types that have no query of their own.
SILENT = {"text", "row", "dashlist", "alertlist", "news"}


@dataclass
class Target:
    """One query of a panel."""

    panel: "Panel"
    raw: dict

    @property
    def expression(self):
        return self.raw["expr"]

    @property
    def legend(self):
        legend = self.raw.get("legendFormat", "")
        return "" if legend == "__auto" else legend

    @property
    def legend_labels(self):
        return re.findall(r"{{\s*(\w+)\s*}}", self.legend)

    @property
    def is_instant(self):
        return bool(self.raw.get("instant")) or self.raw.get("format") == "table"

    @property
    def is_heatmap(self):
        return self.raw.get("format") == "heatmap"

    def named(self, metric):
        """What the legend calls a series."""
        return re.sub(r"{{\s*(\w+)\s*}}", lambda m: metric.get(m[1], ""), self.legend)


@dataclass
class Panel:
    """A panel of a dashboard."""

    dashboard: str
    raw: dict

    @property
    def kind(self):
        return self.raw["type"]

    @property
    def title(self):
        return self.raw.get("title", "")

    @property
    def targets(self):
        targets = self.raw.get("targets", [])
        return [Target(self, raw) for raw in targets if not raw.get("hide")]

    def __str__(self):
        return f"{self.dashboard} / {self.title}"


@dataclass
class Dashboard:
    """A dashboard file."""

    name: str
    raw: dict
    panels: list = field(default_factory=list)

    @property
    def variables(self):
        return self.raw.get("templating", {}).get("list", [])

    @property
    def annotations(self):
        listed = self.raw.get("annotations", {}).get("list", [])
        return [note for note in listed if note.get("expr") or note.get("target", {}).get("expr")]


def read(folder):
    """All dashboards of a folder."""
    return [read_one(path) for path in sorted(pathlib.Path(folder).glob("*.json"))]


def read_one(path):
    raw = json.loads(path.read_text())
    dashboard = Dashboard(path.stem, raw)
    for panel in raw["panels"]:
        # A row that is folded holds its panels itself.
        for each in [panel, *panel.get("panels", [])]:
            dashboard.panels.append(Panel(path.stem, each))
    return dashboard


def put_in(text, values):
    """A text with its variables as Grafana puts them in: `$name`, `${name}`, `${name:format}`."""

    def value(match):
        name = match[1] or match[2] or match[3]
        return values.get(name, match[0])

    return re.sub(r"\$(\w+)|\${(\w+)(?::\w+)?}|\[\[(\w+)]]", value, text)


def built_in(start, end):
    """The variables that every dashboard has."""
    span = round(end - start)
    return {
        "__rate_interval": f"{RATE_INTERVAL}s",
        "__interval": f"{STEP}s",
        "__interval_ms": str(STEP * 1000),
        "__range": f"{span}s",
        "__range_s": str(span),
        "__range_ms": str(span * 1000),
    }


def escaped(value):
    """A value as Grafana puts it into a regex inside a PromQL string."""
    return re.sub(r"[$^*{}\[\]'+?.()|]", r"\\\\\g<0>", value.replace("\\", r"\\\\"))


def all_of(variable, values):
    """What "All" stands for: its own text, or any of the values."""
    return variable.get("allValue") or "(" + "|".join(escaped(value) for value in values) + ")"


def label_query(variable):
    """Label and selector of a variable that asks for `label_values(selector, label)`."""
    query = variable.get("query", "")
    text = query.get("query", "") if isinstance(query, dict) else query
    match = re.fullmatch(r"\s*label_values\(\s*(?:(.+),)?\s*(\w+)\s*\)\s*", text, re.S)
    if match is None:
        raise ValueError(f"no query of label_values: {text!r}")
    return match[2], (match[1] or '{__name__!=""}').strip()

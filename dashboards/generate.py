#!/usr/bin/env python3
"""Writes the Grafana dashboards in this folder from `source/*.toml`, and the addresses of runbooks.

    dashboards/generate.py            writes shellyard-<name>.json for each source/<name>.toml
    dashboards/generate.py --check    writes nothing; fails where a file is not what it would write
    dashboards/generate.py --runbooks https://wiki.example/shellyard
                                      writes the dashboards and rules with links to your copy of docs/runbooks

Alerts (`runbook_url` in `rules/`) and the descriptions of panels link to runbooks by absolute addresses. Their
base is `--runbooks`; else the `repository` of Cargo.toml if it has one; else a server at its usual address, which
serves the pages itself.

A source file has a title, a description and rows of panels; `source/_common.toml` has what all of
them share: kinds of panels, thresholds, mappings and colours by name. Where a panel stands follows
from its width: panels fill a row from left to right and go on in the next line.
"""

import json
import re
import sys
import tomllib
from copy import deepcopy
from pathlib import Path
from string import ascii_uppercase
from typing import Any

Json = dict[str, Any]

HERE = Path(__file__).parent
SOURCE = HERE / "source"
RULES = HERE / "rules"
SERVED_RUNBOOKS = "http://127.0.0.1:8000/runbooks"
# A runbook as a description names it, and as an alert links to it.
NAMED_RUNBOOK = re.compile(r"docs/runbooks/(\w+)\.md")
LINKED_RUNBOOK = re.compile(r"(runbook_url: ).*/(\w+)\.md$", re.MULTILINE)
COLUMNS = 24
# What can be said of a panel.
KEYS = {"title", "kind", "width", "height", "unit", "thresholds", "description", "queries", "opens", "mapping", "colours",
        "stack", "max", "decimals", "noValue", "options"}
DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
ALL: Json = {"selected": True, "text": ["All"], "value": ["$__all"]}


class Board:
    """One dashboard in the making."""

    def __init__(self, name: str, source: Json, common: Json, runbooks: str) -> None:
        self.uid = f"shellyard-{name}"
        self.runbooks = runbooks
        self.source = source
        self.common = common
        self.panels: list[Json] = []
        self.x = self.y = self.line = 0

    def json(self) -> Json:
        """The whole of it, as Grafana wants it."""
        for row in self.source["row"]:
            self._row(row)
        variables = self.common["variable"] + self.source.get("variable", [])
        return {
            **self.common["dashboard"],
            "uid": self.uid,
            "title": self.source["title"],
            "description": self.source["description"].strip(),
            "annotations": {"list": [self._restarts()]},
            "templating": {"list": [datasource(), *(variable(each) for each in variables)]},
            "panels": self.panels,
        }

    def _row(self, row: Json) -> None:
        self._end_line()
        self._place({"type": "row", "title": row["title"], "collapsed": False, "panels": []}, COLUMNS, 1)
        for panel in row["panel"]:
            kind = self.common["kind"][panel["kind"]]
            self._place(self._panel(panel, kind), panel["width"], panel.get("height", kind["height"]))

    def _place(self, panel: Json, width: int, height: int) -> None:
        """Puts a panel to the right of the last one, or below where there is no room."""
        if self.x + width > COLUMNS:
            self._end_line()
        grid = {"h": height, "w": width, "x": self.x, "y": self.y}
        self.panels.append({"id": len(self.panels) + 1, "gridPos": grid, **panel})
        self.x += width
        self.line = max(self.line, height)

    def _end_line(self) -> None:
        self.x, self.y, self.line = 0, self.y + self.line, 0

    def _panel(self, panel: Json, kind: Json) -> Json:
        if unknown := panel.keys() - KEYS:
            raise ValueError(f'{self.uid}: panel "{panel["title"]}" has {sorted(unknown)}, which mean nothing')
        made: Json = {
            "type": panel["kind"],
            "title": panel["title"],
            "description": self._description(panel["description"]),
            "datasource": DATASOURCE,
            "fieldConfig": {"defaults": self._defaults(panel, kind), "overrides": self._overrides(panel, kind)},
            "options": {**deepcopy(kind["options"]), **panel.get("options", {})},
            "targets": [self._target(panel["kind"], *named) for named in zip(ascii_uppercase, panel["queries"])],
        }
        if panel["kind"] == "heatmap":
            made["options"]["yAxis"]["unit"] = panel["unit"]
        if panel["kind"] == "table":
            made["transformations"] = one_table()
        if "opens" in panel:
            made["links"] = [link(panel["opens"])]
        return made

    def _description(self, text: str) -> str:
        """A description in one line, with a link to each runbook that it names."""
        return NAMED_RUNBOOK.sub(rf"[\1]({self.runbooks}/\1.md)", " ".join(text.split()))

    def _defaults(self, panel: Json, kind: Json) -> Json:
        """What holds for every series of a panel: unit, bounds, colours."""
        defaults: Json = deepcopy(kind.get("defaults", {}))
        defaults |= {
            "unit": panel["unit"],
            "min": 0,
            "mappings": self._mappings(panel),
            "thresholds": thresholds(self.common["thresholds"][panel["thresholds"]]),
        }
        defaults |= {key: panel[key] for key in ("max", "decimals", "noValue") if key in panel}
        if panel["kind"] == "timeseries":
            if len(defaults["thresholds"]["steps"]) > 1:
                defaults["custom"]["thresholdsStyle"] = {"mode": "dashed"}
            if panel.get("stack"):
                defaults["custom"] |= self.common["stacked"]
        return defaults

    def _overrides(self, panel: Json, kind: Json) -> list[Json]:
        """What differs: series with a colour of their own, columns of a table, what the kind says."""
        colours = self.common["colours"][panel["colours"]] if "colours" in panel else {}
        fixed = [override(name, {"color": {"mode": "fixed", "fixedColor": colour}}) for name, colour in colours.items()]
        columns = self._columns(panel["queries"]) if panel["kind"] == "table" else []
        return [*fixed, *columns, *kind.get("overrides", [])]

    def _columns(self, queries: list[Json]) -> list[Json]:
        """The values of each query of a table, under its own head."""
        names = ["Value"] if len(queries) == 1 else [f"Value #{ref}" for ref in ascii_uppercase]
        return [
            override(name, {"displayName": query["column"], "unit": query["unit"], "mappings": self._mappings(query)})
            for name, query in zip(names, queries)
        ]

    def _mappings(self, about: Json) -> list[Json]:
        """Words and colours in the place of values."""
        if "mapping" not in about:
            return []
        return [{"type": "value", "options": self.common["mappings"][about["mapping"]]}]

    def _target(self, kind: str, ref: str, query: Json) -> Json:
        once = kind in ("table", "bargauge")
        shape = {"table": "table", "heatmap": "heatmap"}.get(kind, "time_series")
        return {
            "refId": ref,
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": self._expand(query["expr"]),
            "format": shape,
            "instant": once,
            "range": not once,
            "legendFormat": query.get("legend", "__auto"),
        }

    def _restarts(self) -> Json:
        about = self.common["restarts"]
        expr = self._expand(about["expr"])
        return {
            "name": about["name"],
            "datasource": DATASOURCE,
            "enable": True,
            "hide": False,
            "iconColor": about["iconColor"],
            "titleFormat": about["titleFormat"],
            "useValueForTime": "on",
            "expr": expr,  # where Grafana before 11 looks for it
            "target": {"refId": "Anno", "expr": expr},
        }

    def _expand(self, expr: str) -> str:
        """A query without its abbreviations, in one line."""
        expr = expr.replace("{@", "{" + self.common["filter"]).replace("[@]", f"[{self.common['rate_interval']}]")
        return " ".join(expr.split())


def datasource() -> Json:
    """The variable for the data source."""
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
            "hide": 0, "includeAll": False, "multi": False, "options": [], "refresh": 1, "regex": ""}


def variable(about: Json) -> Json:
    """A variable whose values Prometheus knows; any number of them, or all."""
    made = {"name": about["name"], "label": about["label"], "type": "query", "datasource": DATASOURCE,
            "definition": about["query"], "query": {"query": about["query"], "refId": f"Variable-{about['name']}"},
            "current": ALL, "includeAll": True, "multi": True,
            "hide": 0, "options": [], "refresh": 2, "regex": "", "sort": 1}
    # Without it, "All" stands for the values that are listed.
    return made | {key: about[key] for key in ("allValue",) if key in about}


def thresholds(steps: list[list[Any]]) -> Json:
    """Steps as Grafana has them: the first has no value."""
    made = [{"color": step[0], "value": step[1] if len(step) > 1 else None} for step in steps]
    return {"mode": "absolute", "steps": made}


def override(name: str, properties: Json) -> Json:
    """What differs for the series or column of this name."""
    made = [{"id": key, "value": value} for key, value in properties.items()]
    return {"matcher": {"id": "byName", "options": name}, "properties": made}


def one_table() -> list[Json]:
    """All queries of a table in one, a row for each set of labels."""
    organize: Json = {"excludeByName": {"Time": True}, "indexByName": {}, "renameByName": {}}
    return [{"id": "merge", "options": {}}, {"id": "organize", "options": organize}]


def link(name: str) -> Json:
    """From a panel to the dashboard that tells more, for the same servers and time."""
    keep = "${__url_time_range}&${datasource:queryparam}&${job:queryparam}&${instance:queryparam}"
    return {"title": "More of this", "type": "link", "url": f"/d/shellyard-{name}?{keep}", "tooltip": "", "icon": "",
            "tags": [], "asDropdown": False, "includeVars": False, "keepTime": False, "targetBlank": False}


def load(path: Path) -> Json:
    with path.open("rb") as file:
        return tomllib.load(file)


def runbooks_base(repository: str | None) -> str:
    """The address of the folder docs/runbooks."""
    return f"{repository.rstrip('/')}/blob/main/docs/runbooks" if repository else SERVED_RUNBOOKS


def repository() -> str | None:
    """The address of the repository, if Cargo.toml names one."""
    package = load(HERE.parent / "Cargo.toml")["package"]
    return package.get("repository")


def rules(runbooks: str) -> dict[Path, str]:
    """Each rule file and test of rules, with the addresses of runbooks."""
    files = sorted([RULES / "alerts.yml", *RULES.glob("tests/*.yml")])
    return {file: LINKED_RUNBOOK.sub(rf"\g<1>{runbooks}/\2.md", file.read_text()) for file in files}


def boards(runbooks: str) -> dict[Path, str]:
    """Each dashboard and what its file should hold."""
    common = load(SOURCE / "_common.toml")
    names = sorted(path.stem for path in SOURCE.glob("*.toml") if path.stem not in ("_common", "not_plotted"))
    made = {name: Board(name, load(SOURCE / f"{name}.toml"), common, runbooks).json() for name in names}
    return {HERE / f"shellyard-{name}.json": json.dumps(board, indent=2) + "\n" for name, board in made.items()}


def main(arguments: list[str]) -> int:
    runbooks = runbooks_base(repository())
    if "--runbooks" in arguments[:-1]:
        at = arguments.index("--runbooks")
        runbooks = arguments[at + 1].rstrip("/")
        arguments = arguments[:at] + arguments[at + 2:]
    if arguments not in ([], ["--check"]) or "://" not in runbooks:
        print(__doc__, file=sys.stderr)
        return 2
    wanted = boards(runbooks) | rules(runbooks)
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    stray = [path for path in HERE.glob("*.json") if path not in wanted]
    if arguments:
        for path in stale + stray:
            print(f"{path.name} is not what generate.py writes; run dashboards/generate.py", file=sys.stderr)
        return 1 if stale or stray else 0
    for path in stale:
        path.write_text(wanted[path])
        print(f"wrote {path.name}")
    for path in stray:
        print(f"{path.name} has no source; remove it", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

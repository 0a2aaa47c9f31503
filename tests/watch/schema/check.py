"""Each dashboard against Grafana's own types, `@grafana/schema`, by the TypeScript compiler.

usage: check.py FOLDER_WITH_NODE_MODULES [--dashboards DIR]

Writes each dashboard as a TypeScript literal that must satisfy the type, and beside them a few with
a mistake, which the compiler must find. Prints one line for each and, last, `N passed, N failed`.
"""

import argparse
import copy
import json
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]

CONFIG = {
    "compilerOptions": {
        "strict": True,
        "noEmit": True,
        "skipLibCheck": True,
        "module": "esnext",
        "moduleResolution": "bundler",
        "target": "esnext",
        "types": [],
    },
    "include": ["*.ts"],
}


def literal(dashboard):
    """A dashboard as TypeScript: its frame, and each panel by its kind."""
    frame = {key: value for key, value in dashboard.items() if key != "panels"}
    lines = ["import type { Frame, Panels } from './strict';"]
    lines.append(f"export const frame = {json.dumps(frame, indent=1)} satisfies Frame;")
    for number, panel in enumerate(dashboard["panels"]):
        kind = json.dumps(panel["type"])
        text = json.dumps(panel, indent=1)
        lines.append(f"export const panel{number} = {text} satisfies Panels[{kind}];")
    return "\n".join(lines) + "\n"


def of(dashboard, kind):
    """The first panel of a kind."""
    return next(panel for panel in dashboard["panels"] if panel["type"] == kind)


def shown(dashboard, kind):
    """How its values are shown."""
    return of(dashboard, kind)["fieldConfig"]["defaults"]


def spoiled(dashboard):
    """The same dashboard with one mistake each, by what it is."""
    mistakes = {
        "an unknown field": lambda d: d.update(titel="x"),
        "a text for a number": lambda d: of(d, "stat")["gridPos"].update(w="wide"),
        "an option that is none": lambda d: of(d, "stat")["options"].update(colorMode="loud"),
        "an unknown option": lambda d: of(d, "stat")["options"].update(colourMode="value"),
        "a misspelt style": lambda d: shown(d, "timeseries")["custom"].update(lineWdith=1),
        "a threshold without colour": lambda d: shown(d, "stat").update(
            thresholds={"mode": "absolute", "steps": [{"value": None}]}
        ),
        "a variable of no type": lambda d: d["templating"]["list"][0].update(type="magic"),
        "a query without an expression": lambda d: of(d, "stat")["targets"][0].pop("expr"),
    }
    for name, make in mistakes.items():
        changed = copy.deepcopy(dashboard)
        make(changed)
        yield name, changed


def compile_all(folder, node_modules):
    """The compiler's complaints, by file."""
    tsc = node_modules / "typescript" / "bin" / "tsc"
    command = ["node", tsc, "--project", folder, "--pretty", "false"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    said = done.stdout + done.stderr
    complaints = {}
    for line in said.splitlines():
        if match := re.match(r"(?:.*/)?([\w-]+)\.ts\((\d+),\d+\): (error .*)", line):
            complaints.setdefault(match[1], []).append((int(match[2]), match[3]))
    if done.returncode != 0 and not complaints:
        raise RuntimeError(f"the compiler did not run: {said[:2000]}")
    return complaints


def version_problem(node_modules, dashboards):
    """The types must be those of the Grafana that the dashboards are shown with."""
    package = json.loads((node_modules / "@grafana" / "schema" / "package.json").read_text())
    image = re.search(r"grafana/grafana:(\S+)", (dashboards / "compose.yaml").read_text())
    is_same = image is not None and image[1] == package["version"]
    return "" if is_same else f"{package['version']} here, {image and image[1]} in compose.yaml"


def near(folder, name, line):
    """The lines of a literal around a complaint."""
    lines = (folder / f"{name}.ts").read_text().splitlines()
    return " ".join(text.strip() for text in lines[max(0, line - 2) : line + 1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("installed", type=pathlib.Path)
    parser.add_argument("--dashboards", type=pathlib.Path, default=ROOT / "dashboards")
    options = parser.parse_args()
    folder = options.installed.resolve() / "check"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(HERE / "strict.ts", folder)
    (folder / "tsconfig.json").write_text(json.dumps(CONFIG))
    good, bad = {}, {}
    for path in sorted(options.dashboards.glob("*.json")):
        good[path.stem] = dashboard = json.loads(path.read_text())
        (folder / f"{path.stem}.ts").write_text(literal(dashboard))
    for number, (name, dashboard) in enumerate(spoiled(next(iter(good.values())))):
        bad[f"spoiled{number}"] = name
        (folder / f"spoiled{number}.ts").write_text(literal(dashboard))
    node_modules = options.installed.resolve() / "node_modules"
    complaints = compile_all(folder, node_modules)
    problem = version_problem(node_modules, options.dashboards)
    failed = int(bool(problem))
    print(f"{'FAILED' if problem else 'ok    '}  schema: the version of compose.yaml {problem}".rstrip())
    for name in ["strict", *good]:
        found = complaints.get(name, [])
        failed += bool(found)
        print(f"{'FAILED' if found else 'ok    '}  schema: {name}")
        for line, complaint in found[:20]:
            print(f"        {complaint}\n          near: {near(folder, name, line)[:200]}")
    usual = {complaint for _, complaint in complaints.get(next(iter(good)), [])}
    for file, name in bad.items():
        is_found = any(complaint not in usual for _, complaint in complaints.get(file, []))
        failed += not is_found
        print(f"{'ok    ' if is_found else 'FAILED'}  schema: {name} is found")
    print(f"{2 + len(good) + len(bad) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

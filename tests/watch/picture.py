#!/usr/bin/env python3
"""Draws the Overview dashboard from a real Prometheus that scrapes a real server under load.

usage: picture.py PATH_TO_SHELLYARD [--out FILE] [--dashboards DIR] [--seconds N]

It is a drawing of what the panels' own queries return, and no screenshot: Grafana is not part of it.
"""

import argparse
import pathlib
import sys
import time

import boards
import drawing
from stack import ROOT, running

POINTS = 100
NOTE = (
    "Drawn by tests/watch/picture.py from a real Prometheus: the panels' own queries, a real server "
    "under `dashboards/demo_load.py`. Not a screenshot of Grafana."
)


def collect(prometheus, dashboard, span):
    """Each panel with its series: a name, and points in time."""
    step = max((span[1] - span[0]) / POINTS, 1)
    chosen = boards.built_in(*span)
    chosen |= {v["name"]: v.get("allValue") or ".*" for v in dashboard.variables}
    for panel in dashboard.panels:
        series = []
        for target in panel.targets:
            expression = boards.put_in(target.expression, chosen)
            for found in asked(prometheus, target, expression, span, step):
                points = [(float(at), float(value)) for at, value in found["values"]]
                series.append((target.named(found["metric"]), points))
        if panel.targets and not series:
            raise ValueError(f"{panel}: no data")
        yield panel, series


def asked(prometheus, target, expression, span, step):
    if target.is_instant:
        return prometheus.instant(expression, span[1])
    return prometheus.range(expression, *span, step)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "overview.svg")
    parser.add_argument("--dashboards", type=pathlib.Path, default=ROOT / "dashboards")
    parser.add_argument("--seconds", type=int, default=150, help="how long the load lasts")
    options = parser.parse_args()
    dashboard = boards.read_one(options.dashboards / "shellyard-overview.json")
    with running(options.binary.resolve(), options.dashboards, options.seconds) as stack:
        began = time.time()
        time.sleep(options.seconds - 2)
        # Rates take a while to become true.
        span = (began + boards.RATE_INTERVAL, time.time() - 2)
        drawn = list(collect(stack.prometheus, dashboard, span))
        options.out.write_text(drawing.dashboard(dashboard.raw["title"], drawn, span, NOTE))
    print(f"wrote {options.out}, {options.out.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

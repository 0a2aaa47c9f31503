"""Made-up answers that must be found wrong: so that a check which sees nothing is noticed."""

import shape
from boards import Panel, Target


def series(value="1", **metric):
    return {"metric": metric, "values": [[0, value]]}


def target(kind, **raw):
    return Target(Panel("made up", {"type": kind, "title": kind}), {"expr": "x", **raw})


BUCKETS = [series("1", le="1"), series("2", le="5"), series("2", le="+Inf")]
LINES = target("timeseries", legendFormat="{{state}}")
HEATMAP = target("heatmap", format="heatmap")

GOOD = {
    "a stat": (target("stat"), [series()]),
    "lines": (LINES, [series(state="a"), series(state="b")]),
    "a heatmap": (HEATMAP, BUCKETS),
    "a table": (target("table", format="table", instant=True), [series(a="1"), series(a="2")]),
}

WRONG = {
    "no data": (target("stat"), []),
    "not a number": (target("stat"), [series("NaN")]),
    "infinity": (target("stat"), [series("+Inf")]),
    "a label that is not there": (LINES, [series(other="a")]),
    "two series of one name": (LINES, [series(state="a", pod="1"), series(state="a", pod="2")]),
    "several series without a legend": (target("stat"), [series(a="1"), series(a="2")]),
    "a heatmap without buckets": (HEATMAP, [series(a="1")]),
    "buckets that do not add up": (HEATMAP, [series("3", le="1"), *BUCKETS[1:]]),
    "buckets without an end": (HEATMAP, BUCKETS[:2]),
    "buckets of two kinds": (HEATMAP, [*BUCKETS, series("1", le="1", lane="a")]),
    "a table over time": (target("table"), [series()]),
    "a line of one moment": (target("timeseries", instant=True), [series()]),
}


def check(report):
    """That the rules take what is good, and none of what is wrong."""
    for name, (asked, got) in GOOD.items():
        report.check(f"made up: {name} is taken", shape.problems(asked, got))
    for name, (asked, got) in WRONG.items():
        caught = list(shape.problems(asked, got))
        report.check(f"made up: {name} is caught", [] if caught else ["it was taken"])

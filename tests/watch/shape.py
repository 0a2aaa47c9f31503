"""Whether what came back for a query is what its panel can show. Pure."""

import math

from boards import MOMENTS

MAX_SHOWN = 4


def problems(target, series):
    """All that is wrong with the series that a target got; nothing is fine."""
    if not series:
        return ["no data"]
    found = [*not_finite(series), *labels_missing(target, series)]
    if target.is_heatmap or target.panel.kind == "heatmap":
        return found + heatmap(target, series)
    return found + same_names(target, series) + moments(target, series)


def not_finite(series):
    bad = [s for s in series if any(not math.isfinite(float(v)) for _, v in s["values"])]
    return [f"{len(bad)} of {len(series)} series not finite: {shown(bad)}"] if bad else []


def labels_missing(target, series):
    for label in target.legend_labels:
        without = [s for s in series if label not in s["metric"]]
        if without:
            yield f"the legend's {{{{{label}}}}} is missing from {shown(without)}"


def same_names(target, series):
    """A legend tells series apart. Tables show labels in columns of their own."""
    if target.panel.kind == "table":
        return []
    names = [target.named(s["metric"]) for s in series]
    twice = sorted({name for name in names if names.count(name) > 1})
    return [f"{len(series)} series, several of them called {twice}"] if twice else []


def moments(target, series):
    if target.panel.kind == "table" and not target.is_instant:
        return ["a table wants an instant query in the format table"]
    if target.is_instant and target.panel.kind not in MOMENTS:
        return [f"a {target.panel.kind} wants a course, and the query is instant"]
    return []


def heatmap(target, series):
    """Buckets that add up: no bucket has more than the next larger one."""
    if not all("le" in s["metric"] for s in series):
        return [f"a heatmap wants buckets, and `le` is missing from {shown(series)}"]
    if not target.is_heatmap:
        return ["a heatmap of buckets wants the format heatmap"]
    buckets = sorted(series, key=lambda s: float(s["metric"]["le"]))
    if len(buckets) < 2 or buckets[-1]["metric"]["le"] != "+Inf":
        return ["a heatmap wants several buckets, the last of them +Inf"]
    if len({s["metric"]["le"] for s in series}) != len(series):
        return ["a bucket comes more than once: sum by (le)"]
    courses = [dict(s["values"]) for s in buckets]
    for smaller, larger in zip(courses, courses[1:]):
        if any(float(v) > float(larger.get(t, "inf")) * (1 + 1e-6) for t, v in smaller.items()):
            return ["buckets do not add up"]
    return []


def shown(series):
    texts = [str(s["metric"]) for s in series[:MAX_SHOWN]]
    return ", ".join(texts) + (", …" if len(series) > MAX_SHOWN else "")

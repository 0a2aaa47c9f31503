"""Panels as SVG: stat, timeseries and bargauge, laid out as the dashboard says."""

import html
import math
import time

import style
from units import written

WIDTH, UNIT, GAP, TOP = 1120, 33, 8, 62
COLUMN = (WIDTH - GAP) / 24
FONT = "Inter, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MAX_LEGEND_LINES = 3


def text(x, y, words, size=12, fill=style.TEXT, anchor="start", weight=400):
    """One line of text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"'
        f' font-weight="{weight}">{html.escape(words)}</text>'
    )


def box(x, y, w, h, fill, radius=3, edge="none", opacity=1):
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 0):.1f}" height="{max(h, 0):.1f}" rx="{radius}"'
        f' fill="{fill}" stroke="{edge}" fill-opacity="{opacity}"/>'
    )


def width_of(words, size):
    """About how wide a text gets."""
    return len(words) * size * 0.54


def clipped(words, size, room):
    most = int(room / (size * 0.54))
    return words if len(words) <= most else words[: max(most - 1, 1)] + "…"


class Area:
    """Where something is drawn."""

    def __init__(self, x, y, w, h):
        self.x, self.y, self.w, self.h = x, y, w, h

    @classmethod
    def of(cls, grid):
        x, y = GAP + grid["x"] * COLUMN, TOP + grid["y"] * UNIT
        return cls(x, y, grid["w"] * COLUMN - GAP, grid["h"] * UNIT - GAP)

    def inside(self, left, top, right, bottom):
        return Area(self.x + left, self.y + top, self.w - left - right, self.h - top - bottom)


class Frame:
    """Times and values as places in an area whose upper edge is `top`."""

    def __init__(self, area, span, top):
        self.area, self.span, self.top = area, span, top

    def path(self, points):
        area, (start, end) = self.area, self.span
        places = (
            (
                area.x + (at - start) / (end - start) * area.w,
                area.y + area.h - min(value / self.top, 1) * area.h,
            )
            for at, value in points
        )
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def dashboard(title, drawn, span, note):
    """The whole picture. `drawn` has each panel with its named series."""
    bottom = max(p.raw["gridPos"]["y"] + p.raw["gridPos"]["h"] for p, _ in drawn)
    height = TOP + bottom * UNIT + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="{FONT}">',
        f"<title>{html.escape(title)}</title>",
        box(0, 0, WIDTH, height, style.BACKGROUND, 8),
        *heading(title, span),
    ]
    for panel, series in drawn:
        parts.append(one(panel, series, span))
    parts.append(text(WIDTH / 2, height - 13, note, 12, style.QUIET, "middle"))
    return "\n".join([*parts, "</svg>", ""])


def heading(title, span):
    yield text(GAP + 6, 37, title, 19, style.TEXT, weight=600)
    x = WIDTH - GAP
    for words in (f"last {round(span[1] - span[0])} seconds", "instance: All", "job: All"):
        w = width_of(words, 12) + 22
        x -= w
        yield box(x, 18, w - 6, 27, style.PANEL, 4, style.EDGE)
        yield text(x + (w - 6) / 2, 36, words, 12, style.QUIET, "middle")


def one(panel, series, span):
    """One panel, in its place."""
    area = Area.of(panel.raw["gridPos"])
    if panel.kind == "row":
        return text(area.x + 4, area.y + 18, f"▾  {panel.title}", 14, style.TEXT, weight=600)
    parts = [box(area.x, area.y, area.w, area.h, style.PANEL, 4, style.EDGE)]
    if panel.kind != "stat":
        parts.append(title_of(panel, area, style.TEXT))
    parts += DRAWERS[panel.kind](panel, series, area, span)
    return "\n".join(parts)


def title_of(panel, area, fill):
    room = area.w - 18
    size = min(12.5, max(10.5, room / max(width_of(panel.title, 1), 1)))
    words = clipped(panel.title, size, room)
    return text(area.x + 10, area.y + 20, words, round(size, 1), fill, weight=500)


def stat(panel, series, area, span):
    """The last value, large, on the colour of its threshold."""
    defaults = panel.raw["fieldConfig"]["defaults"]
    name, points = max(series, key=lambda each: each[1][-1][1])
    value = points[-1][1]
    words, own_colour = style.mapped(defaults, value)
    colour = own_colour or style.by_threshold(defaults, value)
    words = words or written(value, defaults.get("unit"), defaults.get("decimals"))
    if panel.raw["options"].get("textMode") in ("name", "value_and_name"):
        words = name
    is_filled = panel.raw["options"].get("colorMode", "").startswith("background")
    if is_filled:
        yield box(area.x, area.y, area.w, area.h, colour, 4, opacity=0.72)
    yield title_of(panel, area, "#ffffff" if is_filled else style.TEXT)
    if len(points) > 2 and panel.raw["options"].get("graphMode") == "area":
        yield sparkline(points, area, span, "#ffffff" if is_filled else colour)
    size = min(31, (area.w - 20) / max(len(words), 1) / 0.62)
    yield text(
        area.x + area.w / 2,
        area.y + area.h / 2 + size * 0.5,
        words,
        round(size, 1),
        "#ffffff" if is_filled else colour,
        "middle",
        600,
    )


def sparkline(points, area, span, colour):
    top = max(value for _, value in points) or 1
    frame = Frame(area.inside(0, area.h * 0.66, 0, 1), span, top * 1.05)
    floor = frame.path([(points[-1][0], 0), (points[0][0], 0)])
    return f'<polygon points="{frame.path(points)} {floor}" fill="{colour}" fill-opacity="0.22"/>'


def timeseries(panel, series, area, span):
    """Lines over time, with axes and a legend."""
    defaults = panel.raw["fieldConfig"]["defaults"]
    unit = defaults.get("unit")
    looks = [style.of_series(panel, name, n) for n, (name, _) in enumerate(series)]
    legend = list(legend_lines(series, looks, area, unit))
    plot = area.inside(58, 34, 14, 30 + 18 * len(legend))
    courses = list(stack(panel, series))
    highest = max((value for points, _ in courses for _, value in points), default=0)
    ticks = ticks_up_to(highest, unit)
    yield from axes(plot, ticks, unit, span)
    for (points, floor), look in zip(courses, looks):
        # Nothing on top of a stack would hide the edge of what is below.
        if points != floor or not any(value for _, value in floor):
            yield from line(points, floor, Frame(plot, span, ticks[-1]), look)
    for number, items in enumerate(legend):
        below = len(legend) - 1 - number
        yield from legend_line(items, area.x + 12, area.y + area.h - 10 - 18 * below)


def stack(panel, series):
    """The course of each series and what it stands on: nothing, or the one below in a stack."""
    custom = panel.raw["fieldConfig"]["defaults"].get("custom", {})
    is_stack = custom.get("stacking", {}).get("mode", "none") != "none"
    sums = {}
    for name, points in series:
        # Limits are no part of a stack.
        if not is_stack or name.endswith("(limit)"):
            yield points, [(at, 0) for at, _ in points]
            continue
        floor = [(at, sums.get(at, 0)) for at, _ in points]
        sums |= {at: sums.get(at, 0) + value for at, value in points}
        yield [(at, sums[at]) for at, _ in points], floor


def ticks_up_to(highest, unit):
    """Round numbers from 0 to above the highest value."""
    if highest <= 0:
        return [0, 1]
    is_bytes = unit in ("bytes", "Bps", "binBps") and highest >= 1
    base = 1024 ** int(math.log(highest, 1024)) if is_bytes else 1
    rough = highest / base / 3
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough) * base
    return [step * n for n in range(math.ceil(highest / step - 1e-9) + 1)]


def axes(plot, ticks, unit, span):
    for tick in ticks:
        y = plot.y + plot.h - tick / ticks[-1] * plot.h
        yield f'<path d="M{plot.x:.1f} {y:.1f}H{plot.x + plot.w:.1f}" stroke="{style.GRID}"/>'
        yield text(plot.x - 7, y + 4, written(tick, unit), 11, style.QUIET, "end")
    for part in (0, 1 / 3, 2 / 3, 1) if plot.w > 250 else (0, 1 / 2, 1):
        at = span[0] + (span[1] - span[0]) * part
        anchor = {0: "start", 1: "end"}.get(part, "middle")
        words = time.strftime("%H:%M:%S", time.gmtime(at))
        yield text(plot.x + plot.w * part, plot.y + plot.h + 16, words, 10.5, style.QUIET, anchor)


def line(points, floor, frame, look):
    """A line, and the colour between it and what it stands on."""
    path = frame.path(points)
    if look["fill"] and points:
        opacity = max(look["fill"], 8) / 100
        yield (
            f'<polygon points="{path} {frame.path(reversed(floor))}" fill="{look["color"]}"'
            f' fill-opacity="{opacity:.2f}"/>'
        )
    dash = f' stroke-dasharray="{look["dash"]}"' if look["dash"] else ""
    yield (
        f'<polyline points="{path}" fill="none" stroke="{look["color"]}" stroke-width="1.8"'
        f' stroke-linejoin="round"{dash}/>'
    )


def legend_lines(series, looks, area, unit):
    """Names with their last values, as many to a line as fit; those at zero come last."""
    order = sorted(range(len(series)), key=lambda n: -max((v for _, v in series[n][1]), default=0))
    items, room, lines = [], area.w - 16, 0
    for n in order:
        name, points = series[n]
        value = written(points[-1][1], unit) if points else "–"
        w = width_of(f"{name}  {value}", 11) + 30
        if items and w > room:
            yield items
            items, room, lines = [], area.w - 16, lines + 1
            if lines == MAX_LEGEND_LINES:
                return
        items.append((name, value, looks[n]["color"], w))
        room -= w
    if items:
        yield items


def legend_line(items, x, y):
    for name, value, colour, w in items:
        yield box(x, y - 6, 13, 4, colour, 2)
        yield (
            f'<text x="{x + 18:.1f}" y="{y:.1f}" font-size="11" fill="{style.TEXT}">{html.escape(name)}'
            f'<tspan dx="5" fill="{style.QUIET}">{html.escape(value)}</tspan></text>'
        )
        x += w


def bargauge(panel, series, area, span):
    """A bar for each series, the largest first."""
    defaults = panel.raw["fieldConfig"]["defaults"]
    inner = area.inside(12, 40, 12, 14)
    highest = defaults.get("max") or max((p[-1][1] for _, p in series), default=1) or 1
    rows = sorted(series, key=lambda each: -each[1][-1][1])[:6]
    step = min(inner.h / max(len(rows), 1), 44)
    for number, (name, points) in enumerate(rows):
        value, y = points[-1][1], inner.y + number * step
        colour = style.by_threshold(defaults, value)
        yield text(inner.x, y + 9, name, 12, style.TEXT)
        words = written(value, defaults.get("unit"), defaults.get("decimals"))
        yield text(inner.x + inner.w, y + 9, words, 12, colour, "end", 600)
        yield box(inner.x, y + 15, inner.w, 9, style.GRID, 3)
        yield box(inner.x, y + 15, inner.w * min(value / highest, 1), 9, colour, 3)


DRAWERS = {"stat": stat, "gauge": stat, "timeseries": timeseries, "bargauge": bargauge}

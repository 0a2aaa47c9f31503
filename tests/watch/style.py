"""Colours of panels and series: by name, by threshold, by override."""

import re

BACKGROUND, PANEL, EDGE = "#111217", "#181b1f", "#2a2d34"
TEXT, QUIET, GRID = "#d8d9e6", "#9a9cad", "#26292f"

NAMED = {
    "green": "#73bf69",
    "yellow": "#f2cc0c",
    "orange": "#ff9830",
    "red": "#f2495c",
    "blue": "#5794f2",
    "purple": "#b877d9",
    "text": TEXT,
    "transparent": PANEL,
}
PALETTE = ("#73bf69", "#f2cc0c", "#8ab8ff", "#ff9830", "#f2495c", "#5794f2", "#b877d9", "#56d6c9")


def colour(name):
    """The colour that Grafana has by this name, whatever its shade."""
    return name if name.startswith("#") else NAMED[re.sub(r"^(semi-|super-)?(dark-|light-)?", "", name)]


def by_threshold(defaults, value):
    """The colour of the last step that a value has reached."""
    steps = defaults.get("thresholds", {}).get("steps", [{"color": "green", "value": None}])
    reached = [step for step in steps if step["value"] is None or value >= step["value"]]
    return colour((reached or steps)[-1]["color"])


def mapped(defaults, value):
    """The words and the colour that a value is shown as, where it has any."""
    for mapping in defaults.get("mappings", []):
        if mapping["type"] == "value" and (shown := mapping["options"].get(f"{value:g}")):
            return shown.get("text"), shown.get("color") and colour(shown["color"])
    return None, None


def of_series(panel, name, number):
    """Colour, dash and fill of one series of a panel."""
    field = panel.raw["fieldConfig"]
    custom = field["defaults"].get("custom", {})
    found = {"color": PALETTE[number % len(PALETTE)], "dash": "", "fill": custom.get("fillOpacity", 0)}
    for override in field.get("overrides", []):
        if not matches(override["matcher"], name):
            continue
        for wanted in override["properties"]:
            apply(found, wanted["id"], wanted["value"])
    return found


def apply(found, what, value):
    if what == "color" and value.get("fixedColor"):
        found["color"] = colour(value["fixedColor"])
    elif what == "custom.lineStyle" and value.get("fill") == "dash":
        found["dash"] = " ".join(str(length) for length in value.get("dash", [8, 6]))
    elif what == "custom.fillOpacity":
        found["fill"] = value


def matches(matcher, name):
    wanted = matcher.get("options", "")
    if matcher["id"] == "byName":
        return name == wanted
    return matcher["id"] == "byRegexp" and re.search(wanted.strip("/"), name) is not None

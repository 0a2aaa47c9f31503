"""Numbers as Grafana writes them, by unit."""

BYTE_STEPS = ("B", "KiB", "MiB", "GiB", "TiB")
TIME_STEPS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"))
RATES = {"cpm": "/min", "ops": "/s", "reqps": "/s", "cps": "/s", "rps": "/s", "iops": "/s"}


def written(value, unit, decimals=None):
    """A number with its unit, at about three digits."""
    if unit == "percentunit":
        return f"{digits(value * 100, decimals)} %"
    if unit == "percent":
        return f"{digits(value, decimals)} %"
    if unit in ("s", "dtdurations"):
        return seconds(value, decimals)
    if unit in ("bytes", "decbytes", "Bps", "binBps"):
        return in_bytes(value, decimals) + ("/s" if unit.endswith("Bps") else "")
    return digits(value, decimals) + RATES.get(unit, "")


def seconds(value, decimals):
    if value == 0:
        return "0 s"
    for size, name in TIME_STEPS:
        if abs(value) >= size:
            return f"{digits(value / size, decimals)} {name}"
    return f"{digits(value * 1e6, decimals)} µs"


def in_bytes(value, decimals):
    step = 0
    while abs(value) >= 1024 and step < len(BYTE_STEPS) - 1:
        value, step = value / 1024, step + 1
    return f"{digits(value, decimals)} {BYTE_STEPS[step]}"


def digits(value, decimals=None):
    if decimals is not None:
        return f"{value:,.{decimals}f}"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    text = f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
    return text.rstrip("0").rstrip(".")

"""Dashboards, rules and metrics against a real Prometheus that scrapes a real server under load.

usage: verify.py PATH_TO_SHELLYARD [--dashboards DIR] [--metrics FILE] [--seconds N]

Runs every panel's queries, every variable and every annotation through the API of Prometheus, and
what promtool has to say. Grafana itself is not part of it: it cannot be had from the registries.
Prints one line for each check and, last, `N passed, N failed`.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import time

import boards
import made_up
import shape
from prometheus import QueryError
from stack import ROOT, running

# Alerts that the mixed load makes fire, by intent.
EXPECTED_ALERTS = set()


class Report:
    """Counts, and names each failure."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, found, context=""):
        """A check that holds when nothing was found wrong."""
        found = list(found)
        if not found:
            self.passed += 1
            print(f"ok      {name}")
            return
        self.failed += 1
        print(f"FAILED  {name}")
        if context:
            print(f"        {context}")
        for problem in found:
            print(f"        {problem}")

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


def promtool(report, name, arguments, text=None):
    """What promtool says is wrong; it must exit well and complain of nothing."""
    done = subprocess.run(
        ["promtool", *(str(word) for word in arguments)], input=text, capture_output=True, text=True
    )
    said = (done.stdout + done.stderr).strip()
    # `check metrics` is silent when all is well; the others tell what they did.
    is_silent = arguments[:2] == ["check", "metrics"]
    is_good = done.returncode == 0 and not (is_silent and said)
    report.check(f"promtool {name}", [] if is_good else said.splitlines() or ["no word"])


def check_files(report, dashboards):
    """What holds without a server."""
    rules = sorted((dashboards / "rules").glob("*.yml"))
    report.check("there are rules", [] if rules else [f"none in {dashboards}/rules"])
    tests = sorted((dashboards / "rules" / "tests").glob("*.yml"))
    report.check("there are tests of rules", [] if tests else ["none"])
    promtool(report, "check config", ["check", "config", dashboards / "prometheus.yml"])
    promtool(report, "check rules --lint=all", ["check", "rules", "--lint=all", "--lint-fatal", *rules])
    promtool(report, "test rules", ["test", "rules", *tests])


def check_metrics(report, stack, metrics_file):
    """What the server exports is what its documentation says, and good style."""
    scrape = stack.scrape()
    promtool(report, "check metrics", ["check", "metrics"], scrape)
    exported = set(re.findall(r"(?m)^# TYPE (\S+) ", scrape))
    documented = set(re.findall(r"(?m)^\| `([a-z_]+)` \|", metrics_file.read_text()))
    report.check("every documented metric is exported", sorted(documented - exported))
    report.check("every exported metric is documented", sorted(exported - documented))
    without_help = exported - set(re.findall(r"(?m)^# HELP (\S+) \S", scrape))
    report.check("every metric has a help text", sorted(without_help))


def check_prometheus(report, stack, at):
    """The scrape works, all rules can be computed, and no alert fires that should not."""
    prometheus = stack.prometheus
    # A scrape has a second only, which one may miss on a busy machine.
    up = prometheus.instant("avg_over_time(up[30s])", at)
    was_up = [float(s["values"][-1][1]) >= 0.9 for s in up] == [True]
    report.check("the target was up", [] if was_up else [str(up)])
    groups = prometheus.get("/api/v1/rules")["groups"]
    report.check("rules are loaded", [] if groups else ["none"])
    for rule in (rule for group in groups for rule in group["rules"]):
        fine = rule["health"] == "ok"
        report.check(f"rule {rule['name']}", [] if fine else [rule.get("lastError", rule["health"])])
    alerts = prometheus.get("/api/v1/alerts")["alerts"]
    firing = {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}
    report.check("no alert fires under a mixed load", sorted(firing - EXPECTED_ALERTS))
    # A rule that records must have recorded.
    for name in (r["name"] for g in groups for r in g["rules"] if r["type"] == "recording"):
        report.check(f"recorded {name}", [] if prometheus.instant(name, at) else ["no data"])


def chosen_values(report, stack, dashboard, start, end):
    """What each variable offers: the text for "All", and for its first value alone."""
    everything, first = boards.built_in(start, end), boards.built_in(start, end)
    for variable in dashboard.variables:
        name = variable["name"]
        if variable["type"] != "query":
            continue
        found, offered = [], []
        try:
            label, selector = boards.label_query(variable)
            offered = stack.prometheus.label_values(label, boards.put_in(selector, everything))
            found = [] if offered else ["no values"]
        except (QueryError, ValueError) as error:
            found = [str(error)]
        report.check(f"{dashboard.name} / ${name}", found, str(variable.get("query")))
        everything[name] = boards.all_of(variable, offered)
        first[name] = boards.escaped(offered[0]) if offered else ""
    return everything, first


def answer(stack, target, chosen, start, end):
    """The series of a target, asked as its panel asks."""
    expression = boards.put_in(target.expression, chosen)
    if target.is_instant:
        return stack.prometheus.instant(expression, end)
    return stack.prometheus.range(expression, start, end, boards.STEP)


def check_target(report, stack, target, choices, span):
    """A target with all values of the variables, and with one value of each."""
    found = []
    for kind, chosen in choices.items():
        try:
            wrong = shape.problems(target, answer(stack, target, chosen, *span))
        except QueryError as error:
            wrong = [str(error)]
        found += [f"with {kind}: {problem}" for problem in wrong]
    ref = target.raw.get("refId", "?")
    report.check(f"{target.panel} / {ref}", found, " ".join(target.expression.split()))


def check_dashboard(report, stack, dashboard, span):
    everything, first = chosen_values(report, stack, dashboard, *span)
    choices = {"all values": everything, "one value": first}
    for panel in dashboard.panels:
        if panel.kind not in boards.SILENT:
            report.check(f"{panel} has a query", [] if panel.targets else ["none"])
        for target in panel.targets:
            check_target(report, stack, target, choices, span)
    for note in dashboard.annotations:
        expression = note.get("expr") or note["target"]["expr"]
        found = []
        try:
            stack.prometheus.range(boards.put_in(expression, everything), *span, boards.STEP)
        except QueryError as error:
            found = [str(error)]
        report.check(f"{dashboard.name} / annotation {note['name']}", found, expression)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--dashboards", type=pathlib.Path, default=ROOT / "dashboards")
    parser.add_argument("--metrics", type=pathlib.Path, default=ROOT / "docs" / "metrics.md")
    parser.add_argument("--seconds", type=int, default=75)
    options = parser.parse_args()
    report = Report()
    made_up.check(report)
    check_files(report, options.dashboards)
    all_boards = boards.read(options.dashboards)
    report.check("there are dashboards", [] if all_boards else ["none"])
    with running(options.binary.resolve(), options.dashboards, options.seconds) as stack:
        # Under load until the last query: an idle server has no rates.
        time.sleep(options.seconds - 5)
        end = time.time() - 2
        span = (end - boards.RANGE, end)
        check_prometheus(report, stack, end)
        check_metrics(report, stack, options.metrics)
        for dashboard in all_boards:
            check_dashboard(report, stack, dashboard, span)
        code = stack.load.wait(60)
        report.check("the load met no failure of the server", [] if code == 0 else [f"exit {code}"])
    return report.end()


if __name__ == "__main__":
    sys.exit(main())

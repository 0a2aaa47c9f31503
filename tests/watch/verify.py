"""Dashboards, rules and metrics against a real Prometheus that scrapes a real server under load.

usage: verify.py PATH_TO_SHELLYARD [--dashboards DIR] [--metrics FILE]

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
from stack import ROOT, SCRAPE_S, running

# The load lasts at most so long: less than the five minutes after which it makes an alert fire.
LOAD_S = 285
# The time for all checks together in which data may still be missing.
DEADLINE_S = 240

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


class Settling:
    """Asks again until nothing is wrong: on a busy machine a scrape may fail, and for a while there is
    too little data to answer with. All checks share one deadline, and what is wrong stays wrong.
    """

    def __init__(self, stack):
        self.stack = stack
        self.deadline = time.monotonic() + DEADLINE_S

    def find(self, find):
        """The last findings of `find`, which gets the span to ask about."""
        while True:
            end = time.time() - SCRAPE_S - 1
            try:
                found = list(find((end - boards.RANGE, end)))
            except QueryError as error:
                found = [str(error)]
            if not found or time.monotonic() > self.deadline or self.stack.load.poll() is not None:
                return found
            time.sleep(SCRAPE_S)


def check_prometheus(report, stack, settling):
    """The scrape works, and all rules can be computed."""
    prometheus = stack.prometheus
    looked_back = boards.RANGE + boards.RATE_INTERVAL

    def was_up(span):
        scrapes = prometheus.instant(f"sum_over_time(up[{looked_back}s])", span[1])
        # Two scrapes may be missed.
        enough = [float(s["values"][-1][1]) >= looked_back // SCRAPE_S - 2 for s in scrapes]
        return [] if enough == [True] else [str(scrapes)]

    def rules():
        groups = prometheus.get("/api/v1/rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def health(name):
        states = {(rule["health"], rule.get("lastError", "")) for rule in rules() if rule["name"] == name}
        return [f"{state}: {error}" for state, error in states if state != "ok"]

    report.check("the target was up", settling.find(was_up))
    report.check("rules are loaded", settling.find(lambda span: [] if rules() else ["none"]))
    for name in sorted({rule["name"] for rule in rules()}):
        report.check(f"rule {name}", settling.find(lambda span: health(name)))
    # A rule that records must have recorded.
    for name in sorted({rule["name"] for rule in rules() if rule["type"] == "recording"}):
        recorded = lambda span: [] if prometheus.instant(name, span[1]) else ["no data"]
        report.check(f"recorded {name}", settling.find(recorded))


def check_alerts(report, stack):
    """No alert fires that should not."""
    alerts = stack.prometheus.get("/api/v1/alerts")["alerts"]
    firing = {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}
    report.check("no alert fires under a mixed load", sorted(firing - EXPECTED_ALERTS))


def chosen_values(report, stack, settling, dashboard):
    """What each variable offers: the text for "All", and for its first value alone."""
    everything, first = boards.built_in(0, boards.RANGE), boards.built_in(0, boards.RANGE)
    for variable in dashboard.variables:
        name = variable["name"]
        if variable["type"] != "query":
            continue
        offered = []

        def find_values(span):
            nonlocal offered
            label, selector = boards.label_query(variable)
            offered = stack.prometheus.label_values(label, boards.put_in(selector, everything))
            return [] if offered else ["no values"]

        try:
            found = settling.find(find_values)
        except ValueError as error:
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


def check_target(report, stack, settling, target, choices):
    """A target with all values of the variables, and with one value of each."""
    found = []
    for kind, chosen in choices.items():
        wrong = settling.find(
            lambda span: shape.problems(target, answer(stack, target, chosen, *span))
        )
        found += [f"with {kind}: {problem}" for problem in wrong]
    ref = target.raw.get("refId", "?")
    report.check(f"{target.panel} / {ref}", found, " ".join(target.expression.split()))


def check_dashboard(report, stack, settling, dashboard):
    everything, first = chosen_values(report, stack, settling, dashboard)
    choices = {"all values": everything, "one value": first}
    for panel in dashboard.panels:
        if panel.kind not in boards.SILENT:
            report.check(f"{panel} has a query", [] if panel.targets else ["none"])
        for target in panel.targets:
            check_target(report, stack, settling, target, choices)
    for note in dashboard.annotations:
        expression = note.get("expr") or note["target"]["expr"]

        def ask(span):
            stack.prometheus.range(boards.put_in(expression, everything), *span, boards.STEP)
            return []

        report.check(f"{dashboard.name} / annotation {note['name']}", settling.find(ask), expression)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--dashboards", type=pathlib.Path, default=ROOT / "dashboards")
    parser.add_argument("--metrics", type=pathlib.Path, default=ROOT / "docs" / "metrics.md")
    options = parser.parse_args()
    report = Report()
    made_up.check(report)
    check_files(report, options.dashboards)
    all_boards = boards.read(options.dashboards)
    report.check("there are dashboards", [] if all_boards else ["none"])
    with running(options.binary.resolve(), options.dashboards, LOAD_S) as stack:
        # Under load until the last query: an idle server has no rates.
        settling = Settling(stack)
        check_prometheus(report, stack, settling)
        check_metrics(report, stack, options.metrics)
        for dashboard in all_boards:
            check_dashboard(report, stack, settling, dashboard)
        check_alerts(report, stack)
        code = stack.end_load()
        report.check("the load met no failure of the server", [] if code == 0 else [f"exit {code}"])
    return report.end()


if __name__ == "__main__":
    sys.exit(main())

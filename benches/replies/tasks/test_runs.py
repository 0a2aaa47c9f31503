"""Test runs: pytest, node --test and go test."""

from random import Random

from .task import Task, add_program, place

PYTEST_FILES = ("billing", "catalog", "checkout", "inventory", "notify", "search")
PYTEST_CASES = ("sorts_stable", "handles_empty", "keeps_currency", "rounds_half_even", "rejects_negative")
PYTEST_FAILED = (("billing", 7), ("billing", 33), ("catalog", 12), ("checkout", 40), ("inventory", 3), ("notify", 25), ("search", 49))
PYTEST_PER_FILE = 50


def pytest(folder):
    """pytest 9 with `-v`: 7 of 300 tests fail."""
    total = PYTEST_PER_FILE * len(PYTEST_FILES)
    task = Task("pytest", f"pytest -v, 7 of {total} fail", "")
    task.add_exit(1)
    task.add("counts", r"\b7 failed", r"\b293 passed")
    lines, failures, summary = [], [], []
    for number in range(total):
        module, case = PYTEST_FILES[number // PYTEST_PER_FILE], number % PYTEST_PER_FILE + 1
        name = f"test_{module}_{PYTEST_CASES[(case * 7 + 3) % 5]}_{case:03}"
        test = f"tests/test_{module}.py::{name}"
        fails = (module, case) in PYTEST_FAILED
        percent = f"[{(number + 1) * 100 // total:3}%]"
        word = "FAILED" if fails else "PASSED"
        lines.append(f"{test} {word}".ljust(80 - len(percent)) + percent)
        if not fails:
            continue
        expected, line = 99 - len(summary), 5 * case + 6
        difference = f"assert {2 * case + 1} == {expected}"
        failures += [
            f" {name} ".center(80, "_"),
            "",
            f"    def {name}():",
            f"        value = compute({case})",
            f">       assert value == {expected}",
            f"E       {difference}",
            "",
            f"tests/test_{module}.py:{line}: AssertionError",
        ]
        summary.append(f"FAILED {test} - {difference}")
        task.add(name, place(f"tests/test_{module}.py", line), rf"\b{name}\b", span=8)
        task.add_text(f"{name}: message", name, difference, span=8)
    output = [
        " test session starts ".center(80, "="),
        "platform linux -- Python 3.12.7, pytest-9.0.2, pluggy-1.6.0 -- /usr/bin/python3",
        "cachedir: .pytest_cache",
        "rootdir: /srv/app",
        f"collecting ... collected {total} items",
        "",
        *lines,
        "",
        " FAILURES ".center(80, "="),
        *failures,
        " short test summary info ".center(80, "="),
        *summary,
        " 7 failed, 293 passed in 1.21s ".center(80, "="),
    ]
    task.command = add_program(folder, "pytest", "\n".join(output) + "\n", 1) + " -v"
    return task


NODE_FILES = ("auth", "cart", "orders", "users")
NODE_VERBS = ("creates", "lists", "removes", "updates")
NODE_FAILED = {
    17: "expected 3 items, got 2",
    58: "token expired at 1700000000",
    83: "ECONNREFUSED 127.0.0.1:5432",
    111: "cannot read properties of undefined (reading id)",
}
NODE_PER_FILE = 30


def node(folder):
    """node 24 with `--test`, spec reporter: 4 of 120 tests fail."""
    random = Random(4)
    total = NODE_PER_FILE * len(NODE_FILES)
    task = Task("node", f"node --test, 4 of {total} fail", "")
    task.add_exit(1)
    task.add("counts", r"\b4 fail|\bfail 4\b", r"\b116 pass|\bpass 116\b", span=2)
    lines, failures = [], []
    for case in range(1, total + 1):
        module = NODE_FILES[(case - 1) // NODE_PER_FILE]
        name = f"{module}: case {case:03} {NODE_VERBS[(case * 3 + 3) % 4]} a record"
        shown = f"{name} ({random.uniform(0.05, 3):.6f}ms)"
        lines.append(("✖ " if case in NODE_FAILED else "✔ ") + shown)
        if case not in NODE_FAILED:
            continue
        line = 9 + 4 * ((case - 1) % NODE_PER_FILE)
        file, actual = f"test/{module}.test.js", NODE_FAILED[case]
        failures += [
            "",
            f"test at {file}:{line}:1",
            "✖ " + shown,
            "  AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:",
            "  + actual - expected",
            "  ",
            f"  + '{actual}'",
            "  - 'ok'",
            "  ",
            f"      at TestContext.<anonymous> (/srv/app/{file}:{line + 1}:10)",
            "      at Test.runInAsyncScope (node:async_hooks:227:14)",
            "      at Test.run (node:internal/test_runner/test:1402:25)",
            "      at Test.processPendingSubtests (node:internal/test_runner/test:974:18)",
            "      at Test.postRun (node:internal/test_runner/test:1542:19)",
            "      at Test.run (node:internal/test_runner/test:1467:12)",
            "      at async Test.processPendingSubtests (node:internal/test_runner/test:974:7) {",
            "    generatedMessage: true,",
            "    code: 'ERR_ASSERTION',",
            f"    actual: '{actual}',",
            "    expected: 'ok',",
            "    operator: 'strictEqual',",
            "    diff: 'simple'",
            "  }",
        ]
        # The test begins one line above its assertion: either place finds it.
        task.add(name, f"{place(file, line)}|{place(file, line + 1)}", name, span=9)
        task.add_text(f"{name}: message", name, actual, span=5)
    counts = (("tests", total), ("suites", 0), ("pass", 116), ("fail", 4), ("cancelled", 0), ("skipped", 0), ("todo", 0), ("duration_ms", "612.418207"))
    output = [*lines, *(f"ℹ {name} {count}" for name, count in counts), "", "✖ failing tests:", *failures]
    task.command = add_program(folder, "node", "\n".join(output) + "\n", 1) + " --test"
    return task


GO_MODULE = "example.com/depot"
GO_PACKAGES = (
    "api", "audit", "auth", "blob", "cache", "cli", "config", "cron", "events", "export", "geo", "health", "http", "invoice", "jobs",
    "ledger", "mail", "metrics", "money", "oauth", "pricing", "queue", "ratelimit", "report", "retry", "search", "session", "store", "tax", "trace", "webhook", "worker",
)  # fmt: skip
GO_FAILED = {
    "cache": [
        ("TestEvictsOldest", "cache_test.go", 58, 'evicted key = "b", want "a"'),
        ("TestExpiry/zero_ttl", "cache_test.go", 91, "got 1 entries, want 0"),
    ],
    "pricing": [
        ("TestDiscount/bulk_10", "discount_test.go", 37, "Discount(10) = 0.05, want 0.10"),
        ("TestDiscount/bulk_100", "discount_test.go", 37, "Discount(100) = 0.10, want 0.20"),
        ("TestRounding", "round_test.go", 22, "Round(2.675) = 2.67, want 2.68"),
    ],
    "worker": [("TestDrainsOnStop", "worker_test.go", 144, "timed out after 2s: 3 tasks still queued")],
}


def go(folder):
    """go test: tests of three packages fail, one package does not build."""
    random = Random(5)
    task = Task("go", "go test ./..., failing packages", "")
    task.add_exit(1)
    build, lines = [f"# {GO_MODULE}/export", "export/csv.go:64:17: undefined: csv.NewBufferedWriter"], []
    for package in GO_PACKAGES:
        path, seconds = f"{GO_MODULE}/{package}", f"{random.uniform(0.004, 2.4):.3f}s"
        if package == "export":
            lines.append(f"FAIL\t{path} [build failed]")
        elif package not in GO_FAILED:
            lines.append(f"?   \t{path}\t[no test files]" if package in ("cli", "trace") else f"ok  \t{path}\t{seconds}")
        else:
            lines += [*failed_go_tests(GO_FAILED[package]), "FAIL", f"FAIL\t{path}\t{seconds}"]
            for name, file, line, message in GO_FAILED[package]:
                task.add(name, place(file, line), name, span=2)
    task.add_text("build error", "export/csv.go:64:17", "undefined: csv.NewBufferedWriter")
    for package in ("export", "worker"):
        task.add(f"package {package} fails", rf"\bFAIL\b.*{GO_MODULE}/{package}\b|{GO_MODULE}/{package}\b.*(?i:fail)|\b{package}/\w+\.go:\d+|\b{package}\.Test")
    task.command = add_program(folder, "go", "\n".join([*build, *lines, "FAIL"]) + "\n", 1) + " test ./..."
    return task


def failed_go_tests(tests):
    """The lines of failed tests; subtests stand below their parent."""
    lines, parent = [], None
    for name, file, line, message in tests:
        outer, _, inner = name.partition("/")
        if inner and outer != parent:
            lines.append(f"--- FAIL: {outer} (0.00s)")
        indent = "    " if inner else ""
        lines += [f"{indent}--- FAIL: {name} (0.01s)", f"{indent}    {file}:{line}: {message}"]
        parent = outer
    return lines

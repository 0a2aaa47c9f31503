//! Generated logs of Python and JavaScript tools: every planted failure is found, and no other is
//! claimed.

use std::collections::BTreeMap;

use proptest::prelude::*;
use shellyard_summary::{Failure, Summarizer, Summary};

/// Adds a line to a log.
macro_rules! add_line {
    ($log:ident, $($text:tt)*) => {
        $log.push_str(&format!($($text)*));
        $log.push('\n');
    };
}

/// A failure that a generated log contains.
#[derive(Debug, Clone)]
struct Planted {
    /// The file of the test, without its ending.
    file: String,
    /// The name of the test, different in each failure of a log.
    name: String,
    line: u64,
    message: String,
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec("[a-z]{2,8}", 2..6).prop_map(|words| words.join(" "))
}

fn planted() -> impl Strategy<Value = Vec<Planted>> {
    let one = ("[a-z]{3,8}", 1_u64..5000, text());
    proptest::collection::btree_map("[a-z]{3,9}", one, 1..12).prop_map(|failures| {
        let numbered = failures.into_iter().enumerate();
        let planted = numbered.map(|(index, (name, (file, line, message)))| Planted {
            file,
            name: format!("{name}_{index}"),
            line,
            message,
        });
        planted.collect()
    })
}

/// Lines that tests print, among them lines in the form of test runners.
fn noise() -> impl Strategy<Value = Vec<String>> {
    let line = prop_oneof![
        text(),
        (text(), 0_u32..1000).prop_map(|(text, number)| format!("{text} {number}")),
        text().prop_map(|text| format!("2026-03-14T00:28:58Z INFO {text}")),
        Just("=== 3 failed, 2 passed in 0.10s ===".to_owned()),
        Just("FAILED (failures=9)".to_owned()),
        Just("not ok 7 - never ran".to_owned()),
        Just("# fail 9".to_owned()),
        Just("ℹ fail 9".to_owned()),
        Just("✖ never ran (1ms)".to_owned()),
        Just("  9 failing".to_owned()),
        Just("  1) never ran".to_owned()),
        Just("  ● never ran".to_owned()),
        Just("Tests:       9 failed, 2 passed, 11 total".to_owned()),
        Just("      Tests  9 failed | 2 passed (11)".to_owned()),
    ];
    proptest::collection::vec(line, 0..8)
}

fn lines(noise: &[String]) -> String {
    noise.iter().map(|line| format!("{line}\n")).collect()
}

fn by_file(planted: &[Planted]) -> BTreeMap<&str, Vec<&Planted>> {
    let mut files: BTreeMap<&str, Vec<&Planted>> = BTreeMap::new();
    for failure in planted {
        files.entry(&failure.file).or_default().push(failure);
    }
    files
}

fn summarize(log: &str) -> Summary {
    let mut summarizer = Summarizer::new();
    for (index, line) in log.lines().enumerate() {
        summarizer.read(index as u64 + 1, line);
    }
    summarizer.summary()
}

/// The place, the name and the message of a failure.
type Fact = (Option<String>, Option<u64>, Option<String>, Option<String>);

fn fact(failure: &Failure) -> Fact {
    (failure.file.clone(), failure.line, failure.name.clone(), failure.message.clone())
}

/// The expected facts; `ending` is that of the file, `name` and `message` write their texts.
fn facts(
    planted: &[Planted],
    place: impl Fn(&str) -> String,
    name: impl Fn(&Planted) -> Option<String>,
    message: impl Fn(&str) -> String,
) -> Vec<Fact> {
    let one = |failure: &Planted| {
        let file = Some(place(&failure.file));
        (file, Some(failure.line), name(failure), Some(message(&failure.message)))
    };
    planted.iter().map(one).collect()
}

/// Checks that one tool reports exactly the expected failures, with the given counts of failed and
/// passed tests.
fn check(
    log: &str,
    tool: &str,
    mut expected: Vec<Fact>,
    counts: (Option<u64>, Option<u64>),
) -> Result<(), TestCaseError> {
    let summary = summarize(log);
    let mut found: Vec<Fact> = Vec::new();
    for report in &summary.tools {
        prop_assert!(report.is_consistent, "{report:?}\n{log}");
        prop_assert_eq!(report.tool, tool, "{:?}\n{}", report, log);
        prop_assert_eq!((report.counts.failed, report.counts.passed), counts, "{}", log);
        found.extend(report.failures.iter().map(fact));
    }
    expected.sort();
    found.sort();
    prop_assert_eq!(found, expected, "{}", log);
    prop_assert!(summary.traces.is_empty(), "{:?}\n{}", summary.traces, log);
    Ok(())
}

fn total(planted: &[Planted], passed: u64) -> (Option<u64>, Option<u64>) {
    (Some(planted.len() as u64), Some(passed))
}

fn own_name(failure: &Planted) -> Option<String> {
    Some(failure.name.clone())
}

fn pytest_log(planted: &[Planted], noise: &[String], passed: u64, is_short: bool) -> String {
    let mut log = String::from(
        "============================= test session starts ==============================\ncollected 9 items\n\n",
    );
    log += "=================================== FAILURES ===================================\n";
    for Planted { file, name, line, message } in planted {
        add_line!(
            log,
            "_________________________________ test_{name} __________________________________"
        );
        if is_short {
            add_line!(
                log,
                "tests/test_{file}.py:{line}: in test_{name}\n    check()\nsrc/{file}.py:3: in check\n    raise ValueError()\nE   ValueError: {message}"
            );
        } else {
            add_line!(
                log,
                "\n    def test_{name}():\n>       check()\n\ntests/test_{file}.py:{line}: \n_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ \n\n    def check():\n>       raise ValueError()\nE       ValueError: {message}\n\nsrc/{file}.py:3: ValueError"
            );
        }
        if !noise.is_empty() {
            log += "----------------------------- Captured stdout call -----------------------------\n";
            log += &lines(noise);
        }
    }
    log += "=========================== short test summary info ============================\n";
    for Planted { file, name, .. } in planted {
        add_line!(log, "FAILED tests/test_{file}.py::test_{name} - ValueError: ...");
    }
    let failed = planted.len();
    add_line!(
        log,
        "==================== {failed} failed, {passed} passed, 1 skipped in 0.31s ===================="
    );
    log
}

fn unittest_log(planted: &[Planted], noise: &[String]) -> String {
    let mut log = format!("FF.E\n{}", lines(noise));
    for Planted { file, name, line, message } in planted {
        add_line!(
            log,
            "======================================================================\nFAIL: test_{name} (tests.test_{file}.ShopTest.test_{name})\n----------------------------------------------------------------------\nTraceback (most recent call last):\n  File \"/srv/app/tests/test_{file}.py\", line {line}, in test_{name}\n    self.check()\n  File \"/usr/lib/python3.11/unittest/case.py\", line 873, in assertEqual\n    assertion_func(first, second, msg=msg)\nAssertionError: {message}\n"
        );
    }
    let failed = planted.len();
    add_line!(
        log,
        "----------------------------------------------------------------------\nRan {} tests in 0.003s\n\nFAILED (failures={failed})",
        failed + 4
    );
    log
}

fn node_spec_log(planted: &[Planted], noise: &[String], passed: u64) -> String {
    let mut log = format!("▶ shop\n  ✔ opens (0.6ms)\n{}", lines(noise));
    for Planted { name, .. } in planted {
        add_line!(log, "  ✖ {name} (13.55ms)");
    }
    let failed = planted.len();
    add_line!(
        log,
        "✖ shop (17.9ms)\nℹ tests {}\nℹ suites 1\nℹ pass {passed}\nℹ fail {failed}\nℹ cancelled 0\nℹ skipped 0\nℹ todo 0\nℹ duration_ms 3646.6\n\n✖ failing tests:",
        passed + failed as u64
    );
    for Planted { file, name, line, message } in planted {
        add_line!(
            log,
            "\ntest at test/{file}.test.js:1:5\n✖ {name} (13.55ms)\n  Error: {message}\n      at check (/srv/app/src/{file}.js:4:26)\n      at TestContext.<anonymous> (/srv/app/test/{file}.test.js:{line}:14)\n      at Test.run (node:internal/test_runner/test:1047:25) {{\n    code: 'E_SHOP'\n  }}"
        );
    }
    log
}

fn node_tap_log(planted: &[Planted], noise: &[String], passed: u64) -> String {
    let mut log = String::from("TAP version 13\n");
    for line in noise {
        add_line!(log, "# {}", line.replace('#', "\\#"));
    }
    for (index, Planted { file, name, line, message }) in planted.iter().enumerate() {
        let number = index + 1;
        add_line!(
            log,
            "# Subtest: {name}\nnot ok {number} - {name}\n  ---\n  duration_ms: 13.7\n  type: 'test'\n  location: '/srv/app/test/{file}.test.js:1:1'\n  failureType: 'testCodeFailure'\n  error: '{message}'\n  code: 'ERR_TEST_FAILURE'\n  stack: |-\n    TestContext.<anonymous> (/srv/app/test/{file}.test.js:{line}:10)\n    Test.run (node:internal/test_runner/test:1047:25)\n  ..."
        );
    }
    let failed = planted.len();
    add_line!(
        log,
        "1..{failed}\n# tests {}\n# suites 0\n# pass {passed}\n# fail {failed}\n# cancelled 0\n# skipped 0\n# todo 0\n# duration_ms 2067.3",
        passed + failed as u64
    );
    log
}

fn jest_log(planted: &[Planted], noise: &[String], passed: u64) -> String {
    let mut log = String::new();
    let files = by_file(planted);
    for (file, failures) in &files {
        add_line!(log, "FAIL test/{file}.test.js\n  ● Console\n");
        for line in noise {
            add_line!(
                log,
                "    console.log\n      {line}\n\n      at Object.log (test/{file}.test.js:1:11)\n"
            );
        }
        for Planted { name, line, message, .. } in failures {
            add_line!(
                log,
                "  ● shop › {name}\n\n    RangeError: {message}\n\n      2 |\n    > 3 |   throw new RangeError();\n        |         ^\n      4 |\n\n      at Shop.check (src/{file}.js:3:9)\n      at Object.check (test/{file}.test.js:{line}:18)\n"
            );
        }
    }
    let failed = planted.len();
    add_line!(
        log,
        "PASS good/a.test.js\n\nTest Suites: {} failed, 1 passed, {} total\nTests:       {failed} failed, 1 skipped, {passed} passed, {} total\nSnapshots:   0 total\nTime:        0.3 s\nRan all test suites.",
        files.len(),
        files.len() + 1,
        failed as u64 + passed + 1
    );
    log
}

fn vitest_log(planted: &[Planted], noise: &[String], passed: u64) -> String {
    let mut log = String::from("\n RUN  v4.1.12 /srv/app\n\n");
    if !noise.is_empty() {
        add_line!(log, "stdout | test/a.test.mjs > prints\n{}", lines(noise));
    }
    let failed = planted.len();
    add_line!(log, "⎯⎯⎯⎯⎯⎯ Failed Tests {failed} ⎯⎯⎯⎯⎯⎯⎯\n");
    for (index, Planted { file, name, line, message }) in planted.iter().enumerate() {
        let number = index + 1;
        add_line!(
            log,
            " FAIL  test/{file}.test.mjs > shop > {name}\nAssertionError: {message} // Object.is equality\n\n- Expected\n+ Received\n\n- 501\n+ 500\n\n ❯ check src/{file}.mjs:3:9\n ❯ test/{file}.test.mjs:{line}:28\n     11|   check();\n       |   ^\n\n⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[{number}/{failed}]⎯\n"
        );
    }
    add_line!(
        log,
        "\n Test Files  1 failed | 1 passed (2)\n      Tests  {failed} failed | {passed} passed | 1 skipped (99)\n   Start at  06:08:23\n   Duration  348ms"
    );
    log
}

fn mocha_log(planted: &[Planted], noise: &[String], passed: u64) -> String {
    let mut log = format!("\n\n  shop\n    ✔ opens\n{}", lines(noise));
    for (index, Planted { name, .. }) in planted.iter().enumerate() {
        add_line!(log, "    {}) {name}", index + 1);
    }
    let failed = planted.len();
    add_line!(log, "\n\n  {passed} passing (61ms)\n  2 pending\n  {failed} failing\n");
    for (index, Planted { file, name, line, message }) in planted.iter().enumerate() {
        add_line!(
            log,
            "  {}) shop\n       {name}:\n     RangeError: {message}\n      at Shop.check (src/{file}.js:4:26)\n      at Context.<anonymous> (test/{file}.test.js:{line}:18)\n      at process.processImmediate (node:internal/timers:484:21)\n",
            index + 1
        );
    }
    log
}

fn playwright_log(planted: &[Planted], noise: &[String], passed: u64) -> String {
    let failed = planted.len();
    let mut log = format!("\nRunning {failed} tests using 2 workers\n\n{}\n", lines(noise));
    for (index, Planted { file, name, line, message }) in planted.iter().enumerate() {
        add_line!(
            log,
            "  {}) [chromium] › tests/{file}.spec.ts:1:5 › shop › {name} ─────────────────\n\n    RangeError: {message}\n\n      2 |\n    > 3 |   throw new RangeError();\n        |         ^\n        at check (/srv/app/src/{file}.ts:4:9)\n        at /srv/app/tests/{file}.spec.ts:{line}:3\n\n    Error Context: test-results/{name}/error-context.md\n",
            index + 1
        );
    }
    add_line!(log, "  {failed} failed");
    for Planted { file, name, .. } in planted {
        add_line!(
            log,
            "    [chromium] › tests/{file}.spec.ts:1:5 › shop › {name} ─────────────────"
        );
    }
    add_line!(log, "  1 skipped\n  {passed} passed (26.6s)");
    log
}

/// The log of a checker: a line for each error, and its closing lines.
fn checker_log(planted: &[Planted], line: impl Fn(&Planted) -> String, end: &str) -> String {
    let body: String = planted.iter().map(|failure| line(failure) + "\n").collect();
    format!("{body}{end}\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pytest_failures_are_found(
        planted in planted(), noise in noise(), passed in 0_u64..500, is_short: bool,
    ) {
        let log = pytest_log(&planted, &noise, passed, is_short);
        let name = |failure: &Planted| Some(format!("test_{}", failure.name));
        let place = |file: &str| format!("tests/test_{file}.py");
        let expected = facts(&planted, place, name, |text| format!("ValueError: {text}"));
        check(&log, "pytest", expected, total(&planted, passed))?;
    }

    #[test]
    fn unittest_failures_are_found(planted in planted(), noise in noise()) {
        let name = |failure: &Planted| Some(format!("ShopTest.test_{}", failure.name));
        let place = |file: &str| format!("/srv/app/tests/test_{file}.py");
        let expected = facts(&planted, place, name, str::to_owned);
        let counts = (Some(planted.len() as u64), None);
        check(&unittest_log(&planted, &noise), "unittest", expected, counts)?;
    }

    #[test]
    fn node_failures_are_found(planted in planted(), noise in noise(), passed in 0_u64..500) {
        let place = |file: &str| format!("test/{file}.test.js");
        let expected = facts(&planted, place, own_name, |text| format!("Error: {text}"));
        let counts = total(&planted, passed);
        check(&node_spec_log(&planted, &noise, passed), "node test", expected, counts)?;
        let place = |file: &str| format!("/srv/app/test/{file}.test.js");
        let expected = facts(&planted, place, own_name, str::to_owned);
        check(&node_tap_log(&planted, &noise, passed), "TAP", expected, counts)?;
    }

    #[test]
    fn jest_failures_are_found(planted in planted(), noise in noise(), passed in 0_u64..500) {
        // Jest prints no count of zero.
        let passed = passed + 1;
        let name = |failure: &Planted| Some(format!("shop › {}", failure.name));
        let place = |file: &str| format!("test/{file}.test.js");
        let expected = facts(&planted, place, name, |text| format!("RangeError: {text}"));
        check(&jest_log(&planted, &noise, passed), "jest", expected, total(&planted, passed))?;
    }

    #[test]
    fn vitest_failures_are_found(planted in planted(), noise in noise(), passed in 1_u64..500) {
        let name = |failure: &Planted| Some(format!("shop > {}", failure.name));
        let place = |file: &str| format!("test/{file}.test.mjs");
        let expected = facts(&planted, place, name, str::to_owned);
        check(&vitest_log(&planted, &noise, passed), "vitest", expected, total(&planted, passed))?;
    }

    #[test]
    fn mocha_failures_are_found(planted in planted(), noise in noise(), passed in 0_u64..500) {
        let place = |file: &str| format!("test/{file}.test.js");
        let expected = facts(&planted, place, own_name, |text| format!("RangeError: {text}"));
        check(&mocha_log(&planted, &noise, passed), "mocha", expected, total(&planted, passed))?;
    }

    #[test]
    fn playwright_failures_are_found(
        planted in planted(), noise in noise(), passed in 0_u64..500,
    ) {
        let name = |failure: &Planted| Some(format!("[chromium] › shop › {}", failure.name));
        let place = |file: &str| format!("tests/{file}.spec.ts");
        let expected = facts(&planted, place, name, |text| format!("RangeError: {text}"));
        let log = playwright_log(&planted, &noise, passed);
        check(&log, "playwright", expected, total(&planted, passed))?;
    }

    #[test]
    fn errors_of_checkers_are_found(planted in planted()) {
        let count = planted.len();
        let none = |_: &Planted| None;
        let python = |file: &str| format!("shop/{file}.py");
        let script = |file: &str| format!("/srv/app/{file}.ts");
        let line = |it: &Planted| format!("F401 [*] {}\n  --> shop/{}.py:{}:8\n   |\n 1 | import os\n   | ^^\n", it.message, it.file, it.line);
        let log = checker_log(&planted, line, &format!("Found {count} errors."));
        check(&log, "ruff", facts(&planted, python, none, |text| format!("F401 {text}")), (None, None))?;
        let line = |it: &Planted| format!("shop/{}.py:{}: error: {}  [misc]", it.file, it.line, it.message);
        let log = checker_log(&planted, line, &format!("Found {count} errors in 1 file (checked 3 source files)"));
        check(&log, "mypy", facts(&planted, python, none, |text| format!("{text} [misc]")), (None, None))?;
        let line = |it: &Planted| format!("shop/{}.py:{}:0: E0401: {} (import-error)", it.file, it.line, it.message);
        let log = checker_log(&planted, line, "Your code has been rated at 0.00/10");
        check(&log, "pylint", facts(&planted, python, none, |text| format!("E0401: {text} (import-error)")), (None, None))?;
        let line = |it: &Planted| format!("/srv/app/{}.ts\n  {}:3  error  {}  no-undef\n", it.file, it.line, it.message);
        let log = checker_log(&planted, line, &format!("✖ {count} problems ({count} errors, 0 warnings)"));
        check(&log, "eslint", facts(&planted, script, none, |text| format!("{text} (no-undef)")), (None, None))?;
        let line = |it: &Planted| format!("/srv/app/{}.ts({},7): error TS2322: {}.", it.file, it.line, it.message);
        let log = checker_log(&planted, line, "");
        check(&log, "tsc", facts(&planted, script, none, |text| format!("TS2322: {text}")), (None, None))?;
    }
}

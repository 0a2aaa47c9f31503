//! Script languages. Python: test runners, checkers and installers. Ruby and PHP: test runners, rake, and the
//! messages of PHP.

use crate::rules::Effect::{
    Append, Begin, BeginListed, CauseBelow, Continue, Counts, End, EndCounts, Failure, File, Fill,
    FillLast, Heading, Keep, ListEnd, ListStart, Locate, MoreCounts, Quote, Refill, Repeat, Result,
    Run, Skip, Warning,
};
use crate::rules::{BlockEnd, Format, FormatKind, Rule};
use crate::summary;

pub(crate) const PYTHON_FORMATS: &[Format] = &[PYTEST, UNITTEST, RUFF, FLAKE8, MYPY, PYLINT, PIP];

const PYTEST: Format = Format {
    name: "pytest",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r"=+ test session starts =+$", then: Run },
        Rule { on: r"(?:=+ )?(?P<message>no tests ran)\b", then: Result },
        Rule { on: r"={8,} [A-Za-z][^=]* ={8,}$|_+ coverage: .* _+$", then: Heading },
        // ____________ ERROR at setup of test_total ____________
        Rule { on: r"_+ ERROR at (?:setup|teardown) of (?P<name>\S.*?) _+$", then: Begin },
        Rule { on: r"_+ ERROR collecting (?P<name>\S.*?) _+$", then: Begin },
        // ____________ TestTotal.test_total[usd] ____________
        Rule { on: r"_+ (?:\[doctest\] )?(?P<name>[^_\s].*?) _+$", then: Begin },
        Rule { on: r"-+ Captured (?:stdout|stderr|log) \w+ -+$", then: Quote },
        // The message of the last of several exceptions is the decisive one.
        Rule {
            on: r"(?P<message>)(?:The above exception was the direct cause|During handling of the above exception)",
            then: Refill,
        },
        Rule { on: r#"E +File "(?P<file>[^"]+)", line (?P<line>\d+)"#, then: Refill },
        Rule { on: r"E +(?P<message>(?:Syntax|Indentation|Tab)Error: .*)$", then: Refill },
        // The difference of texts and lists that the message shows in part.
        Rule { on: r"E   +(?P<message>At index \d+ diff: .*|[-+] \S.*)$", then: Append },
        Rule { on: r"E +(?:AssertionError: )?(?P<message>\S.*)$", then: Fill },
        // The frames: `tests/test_billing.py:41: AssertionError`, in a short traceback
        // `tests/test_billing.py:41: in test_total`, in a native one `  File "…", line 41, in …`.
        Rule { on: r"\S*(?:site-packages|lib/python\d)\S*:\d+: ", then: Keep },
        Rule { on: r"(?P<file>[^\s:<]\S*?\.\w+):(?P<line>\d+): ?(?:in .*|[\w.]*)$", then: Locate },
        Rule { on: r#"  File "[^"]*(?:site-packages|lib/python\d)[^"]*", line"#, then: Keep },
        Rule { on: r#"  File "(?P<file>[^"<]+)", line (?P<line>\d+)"#, then: Locate },
        Rule { on: r"AssertionError: (?P<message>\S.*)$", then: Fill },
        Rule { on: r"(?P<message>[A-Za-z_][\w.]*(?:Error|Exception|Exit)(?:: .*)?)$", then: Fill },
        // FAILED tests/test_billing.py::TestTotal::test_total[usd] - assert 15 == 99
        Rule {
            on: r"(?:FAILED|ERROR) (?P<file>[^\s:]+)::(?P<name>[^\s\[]+(?:\[.*?\])?|\S.*?)(?: - (?:AssertionError: )?(?P<message>.*))?$",
            then: Repeat,
        },
        Rule { on: r"ERROR (?P<name>[^\s:]+\.\w+)(?: - (?P<message>.*))?$", then: Repeat },
        Rule {
            on: r"  (?P<file>[^\s:]+\.py):(?P<line>\d+): (?P<message>\w+Warning: .*)$",
            then: Warning,
        },
        Rule { on: r"\[gw\d+\] \[ *\d+%\] [A-Z]+ ", then: Skip },
        Rule { on: r"!{3,} (?P<message>\S.*?) !{3,}$", then: Result },
        Rule {
            on: r"(?:=+ )?(?:(?P<failed>\d+) failed(?:, )?)?(?:(?P<passed>\d+) passed(?:, )?)?(?:(?P<skipped>\d+) skipped(?:, )?)?(?:\d+ (?:deselected|xfailed|xpassed)(?:, )?)*(?:(?P<warnings>\d+) warnings?(?:, )?)?(?:(?P<errors>\d+) errors?(?:, )?)?(?:\d+ [a-z ]+(?:, )?)*? in [\d.]+s\b",
            then: Counts,
        },
    ],
    complete: Some(complete_pytest),
    needs_sign: true,
    ..Format::DEFAULT
};

/// Writes the name of a test as in an id: `TestTotal::test_total[a.b]`. A difference is left out if
/// the message shows the whole values.
fn complete_pytest(failure: &mut summary::Failure) {
    if let Some(message) = &mut failure.message
        && let Some(end) = message.find(": - ").or_else(|| message.find(": + "))
        && message.starts_with("assert ")
        && !message[..end].contains("...")
    {
        message.truncate(end);
    }
    let Some(name) = &failure.name else { return };
    let is_file = name.contains('/') || name.ends_with(".py");
    if is_file {
        failure.file = Some(name.clone());
        return;
    }
    let (path, parameters) = name.split_at(name.find('[').unwrap_or(name.len()));
    failure.name = Some(format!("{}{parameters}", path.replace('.', "::")));
}

const UNITTEST: Format = Format {
    name: "unittest",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r"(?:FAIL|ERROR): (?P<name>\w\S* \(\w[\w.]*\).*)$", then: Begin },
        Rule { on: r"(?P<message>UNEXPECTED SUCCESS): (?P<name>\w+ \(\w[\w.]*\).*)$", then: Begin },
        Rule { on: r"={70}$", then: Heading },
        Rule { on: r"(?:Stdout|Stderr):$", then: Quote },
        Rule {
            on: r"(?P<message>)(?:The above exception was the direct cause|During handling of the above exception)",
            then: Refill,
        },
        Rule { on: r#"  File "[^"]*(?:site-packages|lib/python\d)[^"]*", line"#, then: Keep },
        Rule { on: r#"  File "(?P<file>[^"<]+)", line (?P<line>\d+)"#, then: Locate },
        Rule { on: r"AssertionError: (?P<message>\S.*)$", then: Refill },
        Rule {
            on: r"(?P<message>[A-Za-z_][\w.]*(?:Error|Exception|Exit)(?:: .*)?)$",
            then: Refill,
        },
        Rule { on: r"(?P<message>[A-Za-z_][\w.]*: .*)$", then: Fill },
        Rule { on: r"Ran (?P<ran>\d+) tests? in [\d.]+s$", then: Counts },
        Rule { on: r"OK(?: \((?:skipped=(?P<skipped>\d+))?.*\))?$", then: MoreCounts },
        Rule {
            on: r"FAILED \((?:failures=(?P<failed>\d+)(?:, )?)?(?:errors=(?P<errors>\d+)(?:, )?)?(?:skipped=(?P<skipped>\d+)(?:, )?)?(?:expected failures=\d+(?:, )?)?(?:unexpected successes=(?P<uncounted>\d+))?\)$",
            then: MoreCounts,
        },
    ],
    complete: Some(complete_unittest),
    needs_sign: true,
    ..Format::DEFAULT
};

/// Writes `test_total (tests.billing.TotalTest.test_total) (n=1)` as `TotalTest.test_total (n=1)`.
/// A heading without a message is text that a test printed.
fn complete_unittest(failure: &mut summary::Failure) {
    if failure.message.is_none() {
        failure.name = None;
    }
    let Some(name) = &failure.name else { return };
    let Some((test, rest)) = name.split_once(" (") else { return };
    let Some((class, parameters)) = rest.split_once(')') else { return };
    let class = class.strip_suffix(test).unwrap_or(class).trim_end_matches('.');
    let class = class.rsplit('.').next().unwrap_or_default();
    let is_loader = class == "_FailedTest";
    let prefix = if is_loader { String::new() } else { format!("{class}.") };
    failure.name = Some(format!("{prefix}{test}{parameters}"));
}

const RUFF: Format = Format {
    name: "ruff",
    rules: &[
        Rule {
            on: r"(?P<message>(?:[A-Z]{1,5}\d{2,4}|invalid-syntax:|unformatted:) \S.*)$",
            then: Begin,
        },
        Rule {
            on: r" +--> (?P<file>\S.*?):(?:cell \d+:)?(?P<line>\d+):(?P<column>\d+)$",
            then: Fill,
        },
        // The paths and places of `--output-format=grouped`.
        Rule { on: r"(?P<file>[^\s:]+\.(?:pyi?|ipynb)):$", then: File },
        Rule {
            on: r" +(?P<line>\d+):(?P<column>\d+) +(?P<message>[A-Z]{1,5}\d{2,4} \S.*)$",
            then: Failure,
        },
        Rule { on: r"(?P<message>Would reformat): (?P<file>\S.*)$", then: Failure },
        Rule { on: r"Found \d+ errors? \(\d+ fixed, (?P<errors>\d+) remaining\)\.$", then: Counts },
        Rule { on: r"Found (?P<errors>\d+) errors?\.$", then: Counts },
        Rule { on: r"(?P<message>All checks passed)!$", then: Result },
        Rule { on: r"(?P<message>\d+ files? would be reformatted.*)$", then: Result },
    ],
    block: BlockEnd::FirstOther,
    complete: Some(complete_ruff),
    ..Format::DEFAULT
};

/// The lines that flake8, older versions of ruff, and ruff with `--output-format=concise` print.
const FLAKE8: Format = Format {
    name: "ruff/flake8",
    rules: &[
        Rule {
            on: r"(?P<file>[^\s:]+\.(?:pyi?|ipynb|toml)):(?:cell \d+:)?(?P<line>\d+):(?P<column>\d+): (?P<message>(?:[A-Z]{1,5}\d{1,4}|SyntaxError:|invalid-syntax:|E999) \S.*)$",
            then: Failure,
        },
        Rule { on: r"Found \d+ errors? \(\d+ fixed, (?P<errors>\d+) remaining\)\.$", then: Counts },
        Rule { on: r"Found (?P<errors>\d+) errors?\.$", then: Counts },
    ],
    complete: Some(complete_ruff),
    ..Format::DEFAULT
};

/// Removes the mark of a fix. A heading without a place is text of another program.
fn complete_ruff(failure: &mut summary::Failure) {
    let message = failure.message.take().filter(|_| failure.file.is_some());
    failure.message = message.map(|message| message.replacen(" [*]", "", 1));
}

const MYPY: Format = Format {
    name: "mypy",
    rules: &[
        Rule {
            on: r"(?P<file>[^\s:]+\.pyi?):(?P<line>\d+):(?:(?P<column>\d+):)?(?:\d+:\d+:)? error: (?P<message>\S.*?)$",
            then: Failure,
        },
        Rule { on: r"(?P<file>[^\s:]+\.pyi?): error: (?P<message>\S.*)$", then: Failure },
        Rule { on: r"Found (?P<errors>\d+) errors? in \d+ files? \(", then: Counts },
        Rule { on: r"(?P<message>Success: no issues found in .*)$", then: Result },
    ],
    complete: Some(complete_mypy),
    ..Format::DEFAULT
};

/// Removes the gap before the code of an error.
fn complete_mypy(failure: &mut summary::Failure) {
    if let Some(message) = &mut failure.message {
        *message = message.replace("  [", " [");
    }
}

const PYLINT: Format = Format {
    name: "pylint",
    rules: &[
        Rule {
            on: r"(?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+): (?P<message>[EF]\d{4}: .*)$",
            then: Failure,
        },
        Rule {
            on: r"(?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+): (?P<message>[WRC]\d{4}: .*)$",
            then: Warning,
        },
        Rule {
            on: r"(?P<file>[^\s:]+):(?P<line>\d+): \[[EF]\d{4}\(.*?\] (?P<message>\S.*)$",
            then: Failure,
        },
        Rule {
            on: r"(?P<file>[^\s:]+):(?P<line>\d+): \[[WRC]\d{4}\(.*?\] (?P<message>\S.*)$",
            then: Warning,
        },
        Rule { on: r"Your code has been (?P<message>rated at \S+)", then: Result },
    ],
    ..Format::DEFAULT
};

const PIP: Format = Format {
    name: "pip",
    kind: FormatKind::Steps,
    rules: &[
        Rule {
            on: r"ERROR: (?P<message>Could not find a version that satisfies the requirement [^()]*(?:\(from versions: [^)]{1,60}\))?)",
            then: Failure,
        },
        Rule {
            on: r"ERROR: (?P<message>(?:No matching distribution|Cannot install|Could not open requirements|Could not install packages|Failed building wheel|Could not build wheels|Failed to build|Invalid requirement|Package '.*' requires a different Python|.* is not a (?:supported wheel|valid editable)|Directory '.*' is not installable|HTTP error|Ignored the following|pip's dependency resolver).*?)\.?$",
            then: Begin,
        },
        // The packages of a conflict.
        Rule { on: r"    (?P<message>The user requested .*|\S+ \S+ depends on .*)$", then: Append },
        Rule { on: r"(?:The conflict is caused by:|)$", then: Keep },
        Rule { on: r"ERROR: ResolutionImpossible: ", then: Skip },
        Rule { on: r" *error: subprocess-exited-with-error$", then: Skip },
        // The step of a build, its exit code and the last error of its output.
        Rule { on: r" *× (?P<name>\S.*?) did not run successfully\.$", then: Begin },
        Rule { on: r" *│ (?P<message>exit code: \d+)$", then: Fill },
        Rule { on: r" +(?P<message>[A-Z][\w.]*(?:Error|Exception)(?:: .*)?)$", then: Refill },
        Rule { on: r" +(?P<message>(?:fatal )?error: .*)$", then: Refill },
        Rule { on: r" +\[end of output\]$", then: End },
        Rule { on: r" +", then: Keep },
        Rule { on: r"(?P<message>Successfully installed .*)$", then: Result },
    ],
    block: BlockEnd::FirstOther,
    ..Format::DEFAULT
};

pub(crate) const RUBY_PHP_FORMATS: &[Format] = &[RSPEC, MINITEST, RAKE, PHPUNIT, PHP];

const RSPEC: Format = Format {
    name: "rspec",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r"Pending: \(Failures listed here are expected", then: ListEnd },
        Rule { on: r"Failures:$", then: ListStart },
        //   1) Cart#add adds prices
        Rule { on: r"  \d+\) (?P<name>\S.*)$", then: BeginListed },
        Rule {
            on: r"An error occurred (?:while loading (?P<file>\./\S+\.rb)|in an? .* hook)",
            then: Begin,
        },
        // The counts follow: nothing else is between them and this line.
        Rule { on: r"Finished in [\d.]+ (?:seconds?|minutes?)", then: Begin },
        Rule {
            on: r"(?P<total>\d+) examples?, (?P<failed>\d+) failures?(?:, (?P<skipped>\d+) pending)?(?:, (?P<errors>\d+) errors? occurred outside of examples)?$",
            then: EndCounts,
        },
        Rule { on: r"rspec \./\S+ # ", then: Skip },
        Rule { on: r"\s*(?:\d+\.\d+\) )?Failure/Error: (?P<message>\S.*)$", then: Fill },
        Rule { on: r"\s*(?:\(compared using |Diff:$|@@ |[-+]|Got \d+ failures:)", then: Keep },
        //      NoMethodError:
        Rule { on: r" *(?P<message>[A-Z]\w*(?:::\w+)*):$", then: Refill },
        Rule {
            on: r"\s*# (?P<file>\./\S*(?:_spec\.rb|/spec/\S*\.rb)):(?P<line>\d+)",
            then: Refill,
        },
        Rule { on: r"\s*# (?P<file>\./[^\s:]+):(?P<line>\d+)", then: Fill },
        Rule { on: r"\s*#", then: Keep },
        Rule { on: r"\s+(?P<message>(?:expected|got)\b.*)$", then: Append },
        Rule { on: r"  (?:     )?(?P<message>\S.*)$", then: Append },
    ],
    ..Format::DEFAULT
};

const MINITEST: Format = Format {
    name: "minitest",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r"(?: +\d+\) )?Skipped:$", then: ListEnd },
        Rule { on: r"(?: +\d+\) )?(?:Failure|Error):$", then: ListStart },
        // CartTest#test_adds_prices [test/cart_test.rb:16]:
        Rule {
            on: r"(?P<name>[A-Z][\w:]*#\S.*?) \[(?P<file>[^\[\]]+\.rb):(?P<line>\d+)\]:$",
            then: BeginListed,
        },
        // CartTest#test_adds_prices:
        Rule { on: r"(?P<name>[A-Z][\w:]*#test_.*?):$", then: BeginListed },
        // The counts follow: only failures are between them and this line.
        Rule { on: r"Finished in [\d.]+s, [\d.]+ runs/s", then: Begin },
        Rule {
            on: r"(?P<total>\d+) runs, \d+ assertions, (?P<failed>\d+) failures, (?P<errors>\d+) errors, (?P<skipped>\d+) skips$",
            then: EndCounts,
        },
        Rule { on: r"(?:bin/)?rails test \S+:\d+$", then: End },
        Rule {
            on: r"    (?P<file>\S*(?:_test|_spec|/test_\w+)\.rb):(?P<line>\d+):in ",
            then: Refill,
        },
        Rule { on: r"    (?P<file>\S+\.rb):(?P<line>\d+):in ", then: Fill },
        Rule { on: r"--- expected|\+\+\+ actual|@@ |    ", then: Keep },
        Rule { on: r"\s*(?P<message>\S.*)$", then: Continue },
    ],
    ..Format::DEFAULT
};

const RAKE: Format = Format {
    name: "rake",
    kind: FormatKind::Steps,
    rules: &[
        Rule { on: r"rake aborted!$", then: Begin },
        Rule { on: r"Tasks: TOP => (?P<name>.*)$", then: FillLast },
        Rule { on: r"\(See full trace by", then: End },
        Rule { on: r"(?P<message>\S.*)$", then: Fill },
    ],
    ..Format::DEFAULT
};

const PHPUNIT: Format = Format {
    name: "phpunit",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r"PHPUnit \d+\.[\d.]+ by ", then: Run },
        Rule { on: r"There (?:was|were) \d+ (?:errors?|failures?):$", then: ListStart },
        Rule { on: r"There (?:was|were) \d+ ", then: ListEnd },
        Rule { on: r"\d+ tests? triggered \d+ ", then: ListEnd },
        Rule { on: r"(?:ERRORS|FAILURES|WARNINGS)!$|OK, but .*!$", then: Begin },
        Rule { on: r"\d+\) (?P<name>[\w\\]+::\S.*)$", then: BeginListed },
        //  ✘ Adds prices
        Rule { on: r" ✘ (?P<name>\S.*)$", then: Begin },
        Rule { on: r" [✔↩☢∅⚠] |   ┴", then: End },
        // The counts follow: only failures are between them and this line.
        Rule { on: r"Time: [\d:.]+(?: \w+)?, Memory: ", then: Begin },
        Rule { on: r"OK \((?P<total>\d+) tests?, \d+ assertions?\)$", then: EndCounts },
        Rule {
            on: r"Tests: (?P<total>\d+), Assertions: \d+(?:, Errors: (?P<errors>\d+))?(?:, Failures: (?P<failed>\d+))?(?:, (?:PHPUnit )?(?:Warnings|Deprecations|Notices): \d+)*(?:, Skipped: (?P<skipped>\d+))?(?:, Incomplete: (?P<incomplete>\d+))?(?:, Risky: (?P<risky>\d+))?\.$",
            then: EndCounts,
        },
        Rule { on: r"Caused by$", then: CauseBelow },
        Rule {
            on: r"(?:   ╵ )?(?P<file>/\S.*(?:Test|TestCase)\.php):(?P<line>\d+)$",
            then: Refill,
        },
        Rule { on: r"(?:   ╵ )?(?P<file>/\S.*\.php):(?P<line>\d+)$", then: Fill },
        Rule { on: r"(?:   ┊ )?(?:---[ ·]Expected|\+\+\+[ ·]Actual|@@ )", then: Keep },
        Rule { on: r"   [┐│╵]", then: Keep },
        Rule { on: r"   ┊ (?P<message>[-+].*)$", then: Continue },
        Rule { on: r"   ├ (?P<message>\S.*)$", then: Continue },
        Rule { on: r" ", then: Keep },
        Rule { on: r"--$", then: End },
        Rule { on: r"(?P<message>\S.*)$", then: Continue },
    ],
    ..Format::DEFAULT
};

/// Messages of PHP without a stack trace.
const PHP: Format = Format {
    name: "php",
    kind: FormatKind::Diagnostics,
    rules: &[
        Rule {
            on: r"(?:PHP )?(?:Fatal|Parse|Recoverable fatal) error:  ?(?P<message>.*) in (?P<file>\S+) on line (?P<line>\d+)$",
            then: Failure,
        },
        Rule {
            on: r"(?:PHP )?(?:Warning|Deprecated|Notice):  ?(?P<message>.*) in (?P<file>\S+) on line (?P<line>\d+)$",
            then: Warning,
        },
    ],
    ..Format::DEFAULT
};

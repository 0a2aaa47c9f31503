//! Ruby and PHP: test runners, rake, and the messages of PHP.

use crate::rules::Effect::{
    Append, Begin, BeginListed, CauseBelow, Continue, End, EndCounts, Failure, Fill, FillLast,
    Keep, ListEnd, ListStart, Refill, Run, Skip, Warning,
};
use crate::rules::{Format, FormatKind, Rule};

pub(crate) const FORMATS: &[Format] = &[RSPEC, MINITEST, RAKE, PHPUNIT, PHP];

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

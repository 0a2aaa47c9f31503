//! Python: test runners, checkers and installers.

use crate::rules::Effect::{Begin, Counts, Fill, Refill, Repeat, Run};
use crate::rules::{Format, FormatKind, Rule};

pub(crate) const FORMATS: &[Format] = &[Format {
    name: "pytest",
    kind: FormatKind::Tests,
    rules: &[
        Rule { on: r"=+ test session starts =+$", then: Run },
        // ____________ test_total[usd] ____________
        Rule { on: r"_{3,} (?P<name>\S.*?) _{3,}$", then: Begin },
        Rule { on: r"E  +(?P<message>\S.*)$", then: Fill },
        // tests/test_billing.py:41: AssertionError
        Rule { on: r"(?P<file>[^\s:]+\.py):(?P<line>\d+): ", then: Refill },
        // FAILED tests/test_billing.py::test_total[usd] - assert 15 == 99
        Rule {
            on: r"(?:FAILED|ERROR) (?P<file>[^\s:]+)::(?P<name>\S+)(?: - (?P<message>.*))?$",
            then: Repeat,
        },
        Rule {
            on: r"=+ (?:(?P<failed>\d+) failed,? ?)?(?:(?P<passed>\d+) passed,? ?)?(?:(?P<skipped>\d+) skipped,? ?)?(?:\d+ (?:deselected|xfailed|xpassed|rerun),? ?)*(?:\d+ warnings?,? ?)?(?:(?P<errors>\d+) errors?)? in [\d.]+s.*=+$",
            then: Counts,
        },
    ],
    ..Format::DEFAULT
}];

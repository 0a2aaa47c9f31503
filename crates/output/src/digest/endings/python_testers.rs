//! pytest and unittest.

use super::ending::{Counts, Ending, Kept, Recogniser, Sight, Wants};
use super::names::Names;
use super::numbers::{after, before};

pub(super) const SIGNS: &str = concat!(
    r"|(?-i:^=+ .* in [0-9.]+s|^\d+ (?:passed|skipped|deselected|xfailed)\b.* in [0-9.]+s",
    r"|^ERROR \S+\.py|^Ran \d+ tests? in |^OK\b)",
);

#[derive(Debug, Default)]
pub(super) struct Pytest {
    summary: Option<(Kept, Counts)>,
    failed: Names,
}

/// The words that a summary of pytest is made of.
const OUTCOMES: [&str; 11] = [
    "passed",
    "failed",
    "skipped",
    "error",
    "errors",
    "warning",
    "warnings",
    "xfailed",
    "xpassed",
    "deselected",
    "rerun",
];

/// `2 failed, 3 passed in 0.05s`, within `=` or alone.
fn summary(text: &str) -> Option<Counts> {
    let (outcomes, time) = text.trim_matches('=').trim().rsplit_once(" in ")?;
    let is_time = time.chars().next().is_some_and(|c| c.is_ascii_digit()) && time.contains('s');
    let is_outcome = |part: &str| {
        let (number, word) = part.split_once(' ').unwrap_or_default();
        number.parse::<u64>().is_ok() && OUTCOMES.contains(&word)
    };
    if !is_time || !(outcomes == "no tests ran" || outcomes.split(", ").all(is_outcome)) {
        return None;
    }
    Some(Counts {
        passed: before(outcomes, &["passed"]).or(Some(0)),
        failed: before(outcomes, &["failed"]).or(Some(0)),
        skipped: before(outcomes, &["skipped"]),
        errors: before(outcomes, &["error", "errors"]),
        warnings: before(outcomes, &["warning", "warnings"]),
    })
}

impl Recogniser for Pytest {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        let name = line.text.strip_prefix("FAILED ").or(line.text.strip_prefix("ERROR "));
        if let Some(name) = name.filter(|name| name.contains(".py")) {
            self.failed.add(name.split(" - ").next().unwrap_or(name));
        } else if let Some(counts) = summary(line.text) {
            self.summary = Some((line.keep_as(line.text.trim_matches('=')), counts));
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let ending = self.summary.as_ref().map(|(line, counts)| Ending {
            failed: self.failed.to_vec(),
            ..Ending::told("pytest", line).with_counts(*counts)
        });
        ending.into_iter().collect()
    }
}

/// `Ran 4 tests in 0.001s`, and a line later `OK` or `FAILED (failures=1, errors=1)`.
#[derive(Debug, Default)]
pub(super) struct Unittest {
    ran: Option<u64>,
    summary: Option<(Kept, Counts)>,
    failed: Names,
}

impl Unittest {
    fn sum(&mut self, ran: u64, line: Sight<'_>) {
        let of = |word| after(line.text, word).unwrap_or(0);
        let (failed, errors, skipped) = (of("failures"), of("errors"), of("skipped"));
        let counts = Counts {
            passed: Some(ran.saturating_sub(failed + errors + skipped)),
            failed: Some(failed),
            skipped: Some(skipped).filter(|skipped| *skipped > 0),
            errors: Some(errors).filter(|errors| *errors > 0),
            warnings: None,
        };
        self.summary = Some((line.keep(), counts));
    }
}

/// `test_adds` of `FAIL: test_adds (test_sum.Sums.test_adds)`.
fn failed_name(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("FAIL: ").or(text.strip_prefix("ERROR: "))?;
    let (name, place) = rest.split_once(" (")?;
    (place.ends_with(')') && !name.contains(' ')).then_some(name)
}

impl Recogniser for Unittest {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        if let Some(name) = failed_name(line.text) {
            self.failed.add(name);
        } else if line.text.starts_with("Ran ") && line.text.contains(" in ") {
            self.ran = before(line.text, &["test", "tests"]);
        } else if let Some(ran) = self.ran
            && (line.text == "OK"
                || line.text.starts_with("OK (")
                || line.text.starts_with("FAILED ("))
        {
            self.ran = None;
            self.sum(ran, line);
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let ending = self.summary.as_ref().map(|(line, counts)| Ending {
            failed: self.failed.to_vec(),
            ..Ending::told("unittest", line).with_counts(*counts)
        });
        ending.into_iter().collect()
    }
}

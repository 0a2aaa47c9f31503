//! jest, vitest and mocha.

use super::ending::{Counts, Ending, Kept, Recogniser, Sight, Wants};
use super::names::Names;
use super::numbers::before;

pub(super) const SIGNS: &str =
    r"|(?-i:^Tests: +\d|^  ● |^ +Tests  \d| FAIL  \S|^ +\d+ (?:passing|failing|pending)\b)";

/// What a tester counted, and the names of what failed.
#[derive(Debug, Default)]
struct Summary {
    line: Option<Kept>,
    counts: Counts,
    failed: Names,
}

impl Summary {
    fn read(&mut self, line: Sight<'_>, skipped: &[&str]) {
        self.counts = Counts {
            passed: before(line.text, &["passed"]).or(Some(0)),
            failed: before(line.text, &["failed"]).or(Some(0)),
            skipped: before(line.text, skipped),
            ..Counts::default()
        };
        self.line = Some(line.keep());
    }

    fn endings(&self, tool: &'static str) -> Vec<Ending> {
        let ending = self.line.as_ref().map(|line| Ending {
            failed: self.failed.to_vec(),
            ..Ending::told(tool, line).with_counts(self.counts)
        });
        ending.into_iter().collect()
    }
}

/// `Tests:       2 failed, 1 skipped, 2 passed, 5 total`, and `  ● store › loads`.
#[derive(Debug, Default)]
pub(super) struct Jest(Summary);

impl Recogniser for Jest {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        if let Some(name) = line.text.strip_prefix("  ● ").filter(|name| *name != "Console") {
            self.0.failed.add(name);
        } else if line.text.starts_with("Tests: ") && line.text.ends_with(" total") {
            self.0.read(line, &["skipped"]);
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        self.0.endings("jest")
    }
}

/// `      Tests  1 failed | 1 passed | 1 skipped (3)`, and ` FAIL  sum.test.js > adds`.
#[derive(Debug, Default)]
pub(super) struct Vitest(Summary);

impl Recogniser for Vitest {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        let text = line.text.trim();
        if let Some(name) = text.strip_prefix("FAIL  ").filter(|name| name.contains(" > ")) {
            self.0.failed.add(name);
        } else if text.starts_with("Tests  ") && text.ends_with(')') {
            self.0.read(line, &["skipped"]);
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        self.0.endings("vitest")
    }
}

/// `  3 passing (12ms)`, `  1 pending`, `  1 failing`.
#[derive(Debug, Default)]
pub(super) struct Mocha {
    line: Option<Kept>,
    counts: Counts,
}

impl Recogniser for Mocha {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        let text = line.text.trim();
        let is_time = text.ends_with("s)") || text.ends_with("m)");
        if let Some(passed) = before(text, &["passing"]).filter(|_| is_time) {
            self.counts = Counts { passed: Some(passed), failed: Some(0), ..Counts::default() };
            self.line = Some(line.keep());
        } else if self.line.is_some() && text.ends_with(" failing") {
            self.counts.failed = before(text, &["failing"]);
        } else if self.line.is_some() && text.ends_with(" pending") {
            self.counts.skipped = before(text, &["pending"]);
        }
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let ending = |line| Ending::told("mocha", line).with_counts(self.counts);
        self.line.as_ref().map(ending).into_iter().collect()
    }
}

//! cargo build, check, clippy and test; panics of Rust programs.

use super::ending::{Counts, Ending, Kept, Recogniser, Sight, Wants};
use super::names::Names;
use super::numbers::{add, before};

pub(super) const SIGNS: &str =
    r"|(?-i:^ +Finished `|^test result: |^---- .* stdout ----|^ +Summary \[)";

#[derive(Debug, Default)]
pub(super) struct Cargo {
    build: Option<Build>,
    counts: Counts,
    tests: Option<(Kept, Counts)>,
    failed: Names,
}

/// The last word of a build.
#[derive(Debug)]
enum Build {
    Finished(Kept),
    Broken(Kept),
}

impl Cargo {
    fn end_build(&mut self, line: Sight<'_>) {
        if line.text.starts_with("error: could not compile `") {
            let errors = before(line.text, &["previous"]).or(Some(1));
            add(&mut self.counts.errors, errors);
            add(&mut self.counts.warnings, before(line.text, &["warning", "warnings"]));
            self.build = Some(Build::Broken(line.keep()));
        } else if line.text.starts_with("warning: `") && line.text.contains("` (") {
            add(&mut self.counts.warnings, before(line.text, &["warning", "warnings"]));
        } else if line.text.trim_start().starts_with("Finished `")
            && line.text.contains("target(s) in ")
            && !matches!(self.build, Some(Build::Broken(_)))
        {
            self.build = Some(Build::Finished(line.keep()));
        }
    }

    fn end_tests(&mut self, line: Sight<'_>) {
        if let Some(name) = line.text.strip_prefix("test ") {
            if let Some(name) = name.strip_suffix(" ... FAILED") {
                self.failed.add(name);
            } else if name.starts_with("result: ") {
                self.sum(line);
            }
        } else if let Some(rest) = line.text.strip_prefix("---- ") {
            self.failed.add(rest.strip_suffix(" stdout ----").unwrap_or_default());
        } else if line.text.trim_start().starts_with("Summary [") {
            self.sum(line);
        }
    }

    fn sum(&mut self, line: Sight<'_>) {
        let mut counts = self.tests.take().map_or_else(Counts::default, |(_, counts)| counts);
        add(&mut counts.passed, before(line.text, &["passed"]));
        add(&mut counts.failed, before(line.text, &["failed"]).or(Some(0)));
        add(&mut counts.skipped, before(line.text, &["ignored", "skipped"]));
        self.tests = Some((line.keep(), counts));
    }

    fn build_ending(&self) -> Option<Ending> {
        let line = match (&self.build, &self.tests) {
            // Tests that ran say that it was built.
            (Some(Build::Finished(_)), Some(_)) | (None, _) => return None,
            (Some(Build::Finished(line) | Build::Broken(line)), _) => line,
        };
        Some(Ending::told("cargo", line).with_counts(self.counts))
    }
}

impl Recogniser for Cargo {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        self.end_build(line);
        self.end_tests(line);
        Wants::Signs
    }

    fn endings(&self) -> Vec<Ending> {
        let tests = self.tests.as_ref().map(|(line, counts)| Ending {
            failed: self.failed.to_vec(),
            ..Ending::told("cargo test", line).with_counts(*counts)
        });
        self.build_ending().into_iter().chain(tests).collect()
    }
}

/// `thread 'main' panicked at src/main.rs:3:37:`, and the message in the line after it.
#[derive(Debug, Default)]
pub(super) struct Panic {
    first: Option<Kept>,
    count: u64,
    /// Where the panic is whose message comes next.
    begun: Option<(u64, String)>,
}

impl Recogniser for Panic {
    fn look_at(&mut self, line: Sight<'_>) -> Wants {
        if let Some((offset, place)) = self.begun.take() {
            let text = if line.text.is_empty() {
                format!("panicked at {place}")
            } else {
                format!("{} ({place})", line.text)
            };
            self.first.get_or_insert_with(|| Sight { offset, text: &text }.keep());
        }
        let place = line.text.strip_prefix("thread '").and_then(|rest| rest.split_once("' "));
        let Some((_, place)) = place.and_then(|(_, rest)| rest.split_once("panicked at ")) else {
            return Wants::Signs;
        };
        self.count += 1;
        if self.first.is_some() {
            return Wants::Signs;
        }
        self.begun = Some((line.offset, place.trim_end_matches(':').to_owned()));
        Wants::NextLine
    }

    fn endings(&self) -> Vec<Ending> {
        let ending = |line| Ending::told("panic", line).with_counts(Counts::errors(self.count));
        self.first.as_ref().map(ending).into_iter().collect()
    }
}

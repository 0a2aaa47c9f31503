//! What was done and what came back, counted.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::verdict::Verdict;
use crate::cli::talk::table;

/// The first of our own errors are repeated in the summary, so many of them.
const MAX_QUOTED: usize = 5;

/// What one agent tells of one deed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) deed: &'static str,
    pub(super) verdicts: Vec<Verdict>,
    /// Our own errors, in words.
    pub(super) errors: Vec<String>,
}

/// What was done and what came back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tally {
    deeds: BTreeMap<&'static str, u64>,
    verdicts: BTreeMap<Verdict, u64>,
    errors: Vec<String>,
}

impl Tally {
    /// Counts one deed.
    pub(super) fn add(&mut self, told: Told) {
        *self.deeds.entry(told.deed).or_default() += 1;
        for verdict in told.verdicts {
            *self.verdicts.entry(verdict).or_default() += 1;
        }
        let room = MAX_QUOTED.saturating_sub(self.errors.len());
        self.errors.extend(told.errors.into_iter().take(room));
    }

    /// How many of our own errors there were.
    pub(super) fn ours(&self) -> u64 {
        self.verdicts.get(&Verdict::Ours).copied().unwrap_or(0)
    }

    fn calls(&self) -> u64 {
        self.verdicts.values().sum()
    }

    /// One line while it goes on.
    pub(super) fn line(&self, elapsed: Duration) -> String {
        let count = |verdict| self.verdicts.get(&verdict).copied().unwrap_or(0);
        format!(
            "{} s: {} deeds, {} calls, {} refused, {} errors of ours",
            elapsed.as_secs(),
            self.deeds.values().sum::<u64>(),
            self.calls(),
            count(Verdict::Refused),
            count(Verdict::Ours)
        )
    }

    /// The summary for people.
    pub(super) fn shown(&self) -> String {
        let row = |name: &str, count: u64| vec![name.to_owned(), count.to_string()];
        let head = |what: &str, count: &str| vec![what.to_owned(), count.to_owned()];
        let deeds = self.deeds.iter().map(|(word, count)| row(word, *count));
        let verdicts = self.verdicts.iter().map(|(verdict, count)| row(verdict.word(), *count));
        let mut rows = vec![head("DEED", "TIMES")];
        rows.extend(deeds);
        rows.push(head("", ""));
        rows.push(head("WHAT CAME BACK", "CALLS"));
        rows.extend(verdicts);
        let errors = self.errors.iter().map(|error| format!("error of ours: {error}\n"));
        table(&rows) + &errors.collect::<String>()
    }

    /// The summary for programs.
    pub(super) fn json(&self) -> Value {
        let named = |name: &str| name.split(" (").next().unwrap_or_default().replace(' ', "_");
        let verdicts: BTreeMap<String, u64> =
            self.verdicts.iter().map(|(verdict, count)| (named(verdict.word()), *count)).collect();
        let deeds: BTreeMap<String, u64> =
            self.deeds.iter().map(|(word, count)| (named(word), *count)).collect();
        json!({ "deeds": deeds, "calls": self.calls(), "came_back": verdicts, "errors": self.errors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_errors_are_counted_apart_and_quoted_up_to_a_bound() {
        let mut tally = Tally::default();
        let run = |verdict| Told { deed: "run", verdicts: vec![verdict], errors: Vec::new() };
        tally.add(run(Verdict::Answered));
        tally.add(run(Verdict::CommandFailed));
        assert_eq!(tally.ours(), 0);
        for _ in 0..7 {
            tally.add(Told { errors: vec!["broke".into()], ..run(Verdict::Ours) });
        }
        assert_eq!((tally.ours(), tally.calls()), (7, 9));
        assert_eq!(tally.shown().matches("error of ours: broke").count(), MAX_QUOTED);
        assert_eq!(tally.json()["came_back"]["errors_of_ours"], 7);
        assert_eq!(
            tally.line(Duration::from_secs(3)),
            "3 s: 9 deeds, 9 calls, 0 refused, 7 errors of ours"
        );
    }
}

//! How far callers were shown the output of jobs: what comes after that is news to them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::ids::JobId;

/// So many outputs are known at a time; then all of them count as unseen again.
const MAX_ROWS: usize = 10_000;

/// The end of what was shown from the start on without a break, by caller and job. Two callers of
/// one name and tenant count as one.
#[derive(Debug, Default)]
pub(super) struct Seen {
    rows: Mutex<HashMap<u64, u64>>,
    hasher: RandomState,
}

impl Seen {
    /// These bytes were shown. Behind a part that was not, they are not known to be seen: who waits
    /// for a line must not miss it.
    pub(super) fn note(&self, client: &str, job: JobId, shown: Range<u64>) {
        let row = self.hasher.hash_one((client, job));
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = rows.get(&row).copied().unwrap_or_default();
        if shown.start > seen || shown.end <= seen {
            return;
        }
        if rows.len() >= MAX_ROWS && !rows.contains_key(&row) {
            rows.clear();
        }
        rows.insert(row, shown.end);
    }

    /// Where unseen output begins.
    pub(super) fn end(&self, client: &str, job: JobId) -> u64 {
        let row = self.hasher.hash_one((client, job));
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.get(&row).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_shown_without_a_break_is_seen_by_that_caller_alone() {
        let (seen, job) = (Seen::default(), JobId::local(1));
        seen.note("a", job, 0..10);
        seen.note("a", job, 5..8);
        assert_eq!(seen.end("a", job), 10);
        seen.note("a", job, 11..20);
        assert_eq!(seen.end("a", job), 10, "byte 10 was not shown");
        seen.note("a", job, 10..20);
        assert_eq!(seen.end("a", job), 20);
        assert_eq!((seen.end("b", job), seen.end("a", JobId::local(2))), (0, 0));
    }

    #[test]
    fn rows_are_bounded() {
        let seen = Seen::default();
        for number in 1..=3 * MAX_ROWS as u64 {
            seen.note("a", JobId::local(number), 0..1);
        }
        assert!(seen.rows.lock().unwrap().len() <= MAX_ROWS);
    }
}

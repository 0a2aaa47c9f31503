//! How often in a row callers waited in vain: who polls is told so.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use crate::ids::JobId;

/// So many rows are counted at a time; then all of them begin anew.
const MAX_ROWS: usize = 1000;

/// Waits in a row that brought nothing, by the caller and the jobs that it waits for. Two callers
/// of one name that wait for the same jobs count as one.
#[derive(Debug, Default)]
pub(super) struct EmptyWaits {
    /// By a hash: the jobs themselves would take room that nobody bounds.
    rows: Mutex<HashMap<u64, u32>>,
    hasher: RandomState,
}

impl EmptyWaits {
    /// One more wait brought nothing; the length of its row.
    pub(super) fn one_more(&self, client: &str, jobs: &[JobId]) -> u32 {
        let row = self.row(client, jobs);
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.len() >= MAX_ROWS && !rows.contains_key(&row) {
            rows.clear();
        }
        let waits = rows.entry(row).or_default();
        *waits = waits.saturating_add(1);
        *waits
    }

    /// A wait brought something: its row is over.
    pub(super) fn forget(&self, client: &str, jobs: &[JobId]) {
        let row = self.row(client, jobs);
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).remove(&row);
    }

    fn row(&self, client: &str, jobs: &[JobId]) -> u64 {
        let mut jobs = jobs.to_vec();
        jobs.sort_unstable();
        self.hasher.hash_one((client, jobs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{JobNumber, Tenant};

    fn jobs<const N: usize>(numbers: [u64; N]) -> [JobId; N] {
        numbers.map(|number| JobNumber::new(number).of(Tenant::LOCAL))
    }

    #[test]
    fn a_row_is_of_one_caller_and_the_same_jobs_and_ends_with_news() {
        let waits = EmptyWaits::default();
        assert_eq!(waits.one_more("a", &jobs([1, 2])), 1);
        assert_eq!(waits.one_more("a", &jobs([2, 1])), 2);
        assert_eq!(waits.one_more("b", &jobs([1, 2])), 1);
        assert_eq!(waits.one_more("a", &jobs([1])), 1);
        waits.forget("a", &jobs([1, 2]));
        assert_eq!(waits.one_more("a", &jobs([1, 2])), 1);
    }

    #[test]
    fn rows_are_bounded() {
        let waits = EmptyWaits::default();
        for number in 1..=3 * MAX_ROWS as u64 {
            waits.one_more("a", &jobs([number]));
        }
        assert!(waits.rows.lock().unwrap().len() <= MAX_ROWS);
    }
}

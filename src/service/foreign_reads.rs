//! Reads of other tenants' jobs for the audit log: a program that shows a list again every second adds
//! one entry per minute, with a count.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::ids::TenantId;

/// The time in which the repetitions of a read are counted.
pub(super) const REPEAT_TIME: Duration = Duration::from_secs(60);

/// The most reads whose repetitions are counted at a time. Each further one is an entry of its own.
const MAX_READS: usize = 1000;

/// A read by an operator, as the audit log describes it. Equal reads are repetitions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ForeignRead {
    /// The word of the entry.
    pub(super) what: &'static str,
    /// The object of the read, such as `output of job 3 of alice`.
    pub(super) subject: String,
    pub(super) by: TenantId,
}

impl fmt::Display for ForeignRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (by {})", self.subject, self.by)
    }
}

/// The way in which the audit log records a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadRecord {
    /// The first of its kind: it is an entry, and its repetitions are counted from now on.
    First,
    /// It is an entry; its repetitions are not counted.
    Single,
    /// It is counted, and is no entry.
    Repeated,
}

/// The reads whose repetitions are counted, each with their number so far.
#[derive(Debug, Default)]
pub(super) struct RepeatedReads {
    reads: Mutex<HashMap<ForeignRead, u64>>,
}

impl RepeatedReads {
    /// Counts a read, if it is a repetition, and returns the way in which it is recorded.
    pub(super) fn count_read(&self, read: &ForeignRead) -> ReadRecord {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = reads.len() >= MAX_READS;
        match reads.entry(read.clone()) {
            Entry::Occupied(mut repetitions) => {
                *repetitions.get_mut() += 1;
                ReadRecord::Repeated
            }
            Entry::Vacant(_) if is_full => ReadRecord::Single,
            Entry::Vacant(first) => {
                first.insert(0);
                ReadRecord::First
            }
        }
    }

    /// Ends the count of a read. Returns the text about its repetitions, if there were any.
    pub(super) fn end(&self, read: &ForeignRead) -> Option<String> {
        let repetitions = self.reads.lock().unwrap_or_else(PoisonError::into_inner).remove(read)?;
        describe_repetitions(read, repetitions)
    }

    /// Ends all counts. Returns the word and the text about the repetitions of each read that had any.
    pub(super) fn end_all(&self) -> Vec<(&'static str, String)> {
        let reads = std::mem::take(&mut *self.reads.lock().unwrap_or_else(PoisonError::into_inner));
        let describe = |(read, repetitions): (ForeignRead, u64)| {
            Some((read.what, describe_repetitions(&read, repetitions)?))
        };
        reads.into_iter().filter_map(describe).collect()
    }
}

fn describe_repetitions(read: &ForeignRead, repetitions: u64) -> Option<String> {
    let ForeignRead { subject, by, .. } = read;
    match repetitions {
        0 => None,
        1 => Some(format!("{subject}, once more within a minute (by {by})")),
        more => Some(format!("{subject}, {more} more times within a minute (by {by})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(subject: &str) -> ForeignRead {
        ForeignRead { what: "job_read", subject: subject.to_owned(), by: TenantId::LOCAL }
    }

    #[test]
    fn repetitions_are_counted_until_their_time_is_over() {
        let reads = RepeatedReads::default();
        let (output, state) = (read("output of job 1 of a"), read("state of job 1 of a"));
        assert_eq!(reads.count_read(&output), ReadRecord::First);
        assert_eq!(reads.end(&output), None, "nothing was repeated");
        assert_eq!(reads.count_read(&output), ReadRecord::First);
        assert_eq!(reads.count_read(&state), ReadRecord::First, "another kind is counted apart");
        assert_eq!(reads.count_read(&output), ReadRecord::Repeated);
        let once = "output of job 1 of a, once more within a minute (by local)";
        assert_eq!(reads.end(&output).as_deref(), Some(once));
        assert_eq!(reads.end(&output), None, "it is told once");
        for _ in 0..3 {
            assert_eq!(reads.count_read(&state), ReadRecord::Repeated);
        }
        let three = "state of job 1 of a, 3 more times within a minute (by local)".to_owned();
        assert_eq!(reads.end_all(), [("job_read", three)]);
        assert_eq!(reads.end_all(), []);
    }

    #[test]
    fn no_read_is_left_out_when_there_are_too_many_kinds() {
        let reads = RepeatedReads::default();
        let name = |number: usize| read(&format!("state of job {number} of a"));
        for number in 0..MAX_READS {
            assert_eq!(reads.count_read(&name(number)), ReadRecord::First);
        }
        for _ in 0..2 {
            assert_eq!(reads.count_read(&name(MAX_READS)), ReadRecord::Single);
        }
        assert_eq!(reads.count_read(&name(0)), ReadRecord::Repeated);
    }
}

//! The picture of all jobs that a journal describes. Pure.

use std::collections::BTreeMap;

use super::live_records::{FinishedRecords, LiveParts, LiveRecords, RecordKey, UnfinishedRecords};
use super::record::{
    AcceptedJob, EndedJob, FreedNote, LastingApproval, NextNumber, QueuedJob, Record, StartedJob,
    StartingJob,
};
use crate::ids::TenantId;

/// The picture of all jobs after a replay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JournalState {
    /// The jobs without an ending, in the order in which they were accepted.
    pub unfinished: Vec<UnfinishedJob>,
    /// The jobs that have ended and were not freed, in the order in which they ended.
    pub finished: Vec<EndedRecords>,
    /// The last freed jobs, in the order in which they were freed.
    pub freed: Vec<FreedNote>,
    /// The next job number of each tenant.
    pub numbers: BTreeMap<TenantId, u64>,
    pub approvals: Vec<LastingApproval>,
}

/// The records of a job that has not ended.
///
/// A job with neither `starting` nor `started` was never started. A job with `starting` alone may have been
/// started, so it must not be started again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedJob {
    pub accepted: AcceptedJob,
    /// The inputs of a job that waits for a slot; `None` once the job starts.
    pub queued: Option<QueuedJob>,
    pub starting: Option<StartingJob>,
    pub started: Option<StartedJob>,
}

/// The records of a job that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedRecords {
    pub accepted: AcceptedJob,
    pub ended: EndedJob,
}

impl JournalState {
    /// Returns the picture after these records.
    #[must_use]
    pub fn replay(records: impl IntoIterator<Item = Record>) -> Self {
        let mut live = LiveRecords::default();
        for record in records {
            live.apply(RecordKey::new(&record), record);
        }
        Self::from_parts(live.into_parts())
    }

    /// Returns records that lead to the same picture.
    #[must_use]
    pub fn checkpoint(&self) -> Vec<Record> {
        let numbers = self.numbers.iter();
        let numbers = numbers
            .map(|(tenant, next)| Record::Number(NextNumber { tenant: *tenant, next: *next }));
        let approvals = self.approvals.iter().cloned().map(Record::Approval);
        let freed = self.freed.iter().cloned().map(Record::Freed);
        let finished =
            self.finished.iter().cloned().flat_map(|EndedRecords { accepted, ended }| {
                [Record::Accepted(accepted), Record::Ended(ended)]
            });
        let unfinished = self.unfinished.iter().cloned().flat_map(UnfinishedJob::into_records);
        numbers.chain(approvals).chain(freed).chain(finished).chain(unfinished).collect()
    }

    pub(super) fn from_parts(parts: LiveParts<Record>) -> Self {
        let LiveParts { unfinished, finished, freed, approvals, numbers } = parts;
        Self {
            unfinished: unfinished.into_iter().filter_map(UnfinishedJob::from_live).collect(),
            finished: finished.into_iter().filter_map(EndedRecords::from_live).collect(),
            freed: freed.into_iter().filter_map(read_freed).collect(),
            approvals: approvals.into_iter().filter_map(read_approval).collect(),
            numbers,
        }
    }
}

impl UnfinishedJob {
    fn from_live(records: UnfinishedRecords<Record>) -> Option<Self> {
        let UnfinishedRecords { accepted, queued, starting, started } = records;
        let Record::Accepted(accepted) = accepted else { return None };
        let queued =
            queued.and_then(|it| if let Record::Queued(it) = it { Some(it) } else { None });
        let starting =
            starting.and_then(|it| if let Record::Starting(it) = it { Some(it) } else { None });
        let started =
            started.and_then(|it| if let Record::Started(it) = it { Some(it) } else { None });
        Some(Self { accepted, queued, starting, started })
    }

    fn into_records(self) -> impl Iterator<Item = Record> {
        let queued = self.queued.map(Record::Queued);
        let starting = self.starting.map(Record::Starting);
        let started = self.started.map(Record::Started);
        let steps = [queued, starting, started].into_iter().flatten();
        std::iter::once(Record::Accepted(self.accepted)).chain(steps)
    }
}

impl EndedRecords {
    fn from_live(records: FinishedRecords<Record>) -> Option<Self> {
        let FinishedRecords { accepted, ended } = records;
        let (Record::Accepted(accepted), Record::Ended(ended)) = (accepted, ended) else {
            return None;
        };
        Some(Self { accepted, ended })
    }
}

fn read_freed(record: Record) -> Option<FreedNote> {
    if let Record::Freed(freed) = record { Some(freed) } else { None }
}

fn read_approval(record: Record) -> Option<LastingApproval> {
    if let Record::Approval(approval) = record { Some(approval) } else { None }
}

//! The picture of all jobs that a journal describes, and the rule by which each record replaces others. Pure.
//!
//! The rule is the same for the whole picture of a journal, where each entry is a [`Record`], and for the writer,
//! which only stores the place of each line. A record that is applied twice replaces itself.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::record::{
    AcceptedJob, EndedJob, FreedNote, LastingApproval, NextNumber, QueuedJob, Record, StartedJob,
    StartingJob,
};
use crate::ids::{JobId, JobNumber, TenantId};

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
            freed: freed
                .into_iter()
                .filter_map(|it| if let Record::Freed(it) = it { Some(it) } else { None })
                .collect(),
            approvals: approvals
                .into_iter()
                .filter_map(|it| if let Record::Approval(it) = it { Some(it) } else { None })
                .collect(),
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

/// The most notes about freed jobs; a new one replaces the oldest.
const MAX_FREED: usize = 10_000;

/// The parts of a record that decide which other records it replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RecordKey {
    Job(JobStep, JobId),
    Approval(ApprovalKey),
    Number(NextNumber),
}

/// The kind of a record about one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobStep {
    Accepted,
    Queued,
    Starting,
    Started,
    Ended,
    Freed,
}

/// The subject of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ApprovalKey {
    tenant: TenantId,
    run: String,
    rule: String,
}

impl RecordKey {
    pub(super) fn new(record: &Record) -> Self {
        match record {
            Record::Accepted(it) => Self::Job(JobStep::Accepted, it.job),
            Record::Queued(it) => Self::Job(JobStep::Queued, it.job),
            Record::Starting(it) => Self::Job(JobStep::Starting, it.job),
            Record::Started(it) => Self::Job(JobStep::Started, it.job),
            Record::Ended(it) => Self::Job(JobStep::Ended, it.job),
            Record::Freed(it) => Self::Job(JobStep::Freed, it.job),
            Record::Approval(it) => Self::Approval(ApprovalKey {
                tenant: it.tenant,
                run: it.run.clone(),
                rule: it.rule.clone(),
            }),
            Record::Number(number) => Self::Number(*number),
        }
    }

    /// Reads the key of a record's JSON; `None` if this version does not know the kind of the record.
    ///
    /// Lines that this version has written are read without parsing all of their JSON.
    pub(super) fn parse(json: &str) -> Option<Self> {
        parse_job_key(json).or_else(|| serde_json::from_str(json).ok().as_ref().map(Self::new))
    }
}

/// Reads the key of a record about a job, if the record begins as this version writes it.
fn parse_job_key(json: &str) -> Option<RecordKey> {
    let (kind, rest) = json.strip_prefix("{\"")?.split_once('"')?;
    let step = match kind {
        "accepted" => JobStep::Accepted,
        "queued" => JobStep::Queued,
        "starting" => JobStep::Starting,
        "started" => JobStep::Started,
        "ended" => JobStep::Ended,
        "freed" => JobStep::Freed,
        _ => return None,
    };
    let (tenant, rest) = rest.strip_prefix(":{\"job\":{\"tenant\":\"")?.split_once('"')?;
    let (number, _) = rest.strip_prefix(",\"number\":")?.split_once('}')?;
    // A name with an escape is not valid as it stands here, so it is parsed as JSON.
    let tenant = TenantId::parse(tenant).ok()?;
    let number = JobNumber::new(number.parse().ok()?);
    Some(RecordKey::Job(step, number.for_tenant(tenant)))
}

/// The live records of a journal. `E` is what is stored of each record.
#[derive(Debug)]
pub(super) struct LiveRecords<E> {
    unfinished: BTreeMap<u64, UnfinishedRecords<E>>,
    finished: BTreeMap<u64, FinishedRecords<E>>,
    freed: VecDeque<(JobId, E)>,
    approvals: Vec<E>,
    approval_indexes: HashMap<ApprovalKey, usize>,
    numbers: BTreeMap<TenantId, u64>,
    places: HashMap<JobId, Place>,
    /// The key of the next job in `unfinished` or `finished`: both are in the order of the journal.
    next_position: u64,
}

/// The records of a job that has not ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnfinishedRecords<E> {
    pub(super) accepted: E,
    pub(super) queued: Option<E>,
    pub(super) starting: Option<E>,
    pub(super) started: Option<E>,
}

/// The records of a job that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct FinishedRecords<E> {
    pub(super) accepted: E,
    pub(super) ended: E,
}

/// The list that holds a job, and the job's key in it.
#[derive(Debug, Clone, Copy)]
enum Place {
    Unfinished(u64),
    Finished(u64),
    Freed,
}

impl<E> Default for LiveRecords<E> {
    fn default() -> Self {
        Self {
            unfinished: BTreeMap::new(),
            finished: BTreeMap::new(),
            freed: VecDeque::new(),
            approvals: Vec::new(),
            approval_indexes: HashMap::new(),
            numbers: BTreeMap::new(),
            places: HashMap::new(),
            next_position: 0,
        }
    }
}

impl<E> LiveRecords<E> {
    /// Adds a record. Records about a job that was never accepted change only its tenant's next number.
    pub(super) fn apply(&mut self, key: RecordKey, entry: E) {
        match key {
            RecordKey::Job(step, job) => {
                self.raise_number(job.tenant(), job.number().saturating_add(1));
                self.apply_step(step, job, entry);
            }
            RecordKey::Approval(key) => {
                let index = *self.approval_indexes.entry(key).or_insert(self.approvals.len());
                match self.approvals.get_mut(index) {
                    Some(approval) => *approval = entry,
                    None => self.approvals.push(entry),
                }
            }
            RecordKey::Number(NextNumber { tenant, next }) => self.raise_number(tenant, next),
        }
    }

    fn raise_number(&mut self, tenant: TenantId, next: u64) {
        let number = self.numbers.entry(tenant).or_default();
        *number = next.max(*number);
    }

    fn apply_step(&mut self, step: JobStep, job: JobId, entry: E) {
        let place = self.places.get(&job).copied();
        match (step, place) {
            (JobStep::Accepted, None) => {
                let position = self.take_position();
                let records = UnfinishedRecords {
                    accepted: entry,
                    queued: None,
                    starting: None,
                    started: None,
                };
                self.unfinished.insert(position, records);
                self.places.insert(job, Place::Unfinished(position));
            }
            (
                JobStep::Accepted | JobStep::Queued | JobStep::Starting | JobStep::Started,
                Some(Place::Unfinished(at)),
            ) => {
                if let Some(records) = self.unfinished.get_mut(&at) {
                    records.advance(step, entry);
                }
            }
            (JobStep::Ended, Some(Place::Unfinished(at))) => {
                let Some(UnfinishedRecords { accepted, .. }) = self.unfinished.remove(&at) else {
                    return;
                };
                let position = self.take_position();
                self.finished.insert(position, FinishedRecords { accepted, ended: entry });
                self.places.insert(job, Place::Finished(position));
            }
            (JobStep::Ended, Some(Place::Finished(at))) => {
                if let Some(records) = self.finished.get_mut(&at) {
                    records.ended = entry;
                }
            }
            (JobStep::Accepted, Some(Place::Finished(at))) => {
                if let Some(records) = self.finished.get_mut(&at) {
                    records.accepted = entry;
                }
            }
            (JobStep::Freed, None | Some(Place::Unfinished(_) | Place::Finished(_))) => {
                self.free(job, place, entry);
            }
            (JobStep::Accepted, Some(Place::Freed))
            | (JobStep::Queued | JobStep::Starting | JobStep::Started, None)
            | (
                JobStep::Queued | JobStep::Starting | JobStep::Started,
                Some(Place::Finished(_) | Place::Freed),
            )
            | (JobStep::Ended, None | Some(Place::Freed))
            | (JobStep::Freed, Some(Place::Freed)) => {}
        }
    }

    fn free(&mut self, job: JobId, place: Option<Place>, entry: E) {
        match place {
            Some(Place::Unfinished(at)) => drop(self.unfinished.remove(&at)),
            Some(Place::Finished(at)) => drop(self.finished.remove(&at)),
            Some(Place::Freed) | None => {}
        }
        self.places.insert(job, Place::Freed);
        self.freed.push_back((job, entry));
        if self.freed.len() > MAX_FREED
            && let Some((oldest, _)) = self.freed.pop_front()
        {
            self.places.remove(&oldest);
        }
    }

    const fn take_position(&mut self) -> u64 {
        let position = self.next_position;
        self.next_position += 1;
        position
    }

    /// Returns the next number of each tenant.
    pub(super) const fn numbers(&self) -> &BTreeMap<TenantId, u64> {
        &self.numbers
    }

    /// Returns every live entry in the order of a checkpoint: records in this order lead to the same picture.
    pub(super) fn entries(&self) -> impl Iterator<Item = &E> {
        let finished = self.finished.values().flat_map(|it| [&it.accepted, &it.ended]);
        let unfinished = self.unfinished.values().flat_map(|it| {
            let steps = [&it.queued, &it.starting, &it.started];
            std::iter::once(&it.accepted).chain(steps.into_iter().flatten())
        });
        let freed = self.freed.iter().map(|(_, entry)| entry);
        self.approvals.iter().chain(freed).chain(finished).chain(unfinished)
    }

    /// Returns every live entry in the same order as [`Self::entries`].
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut E> {
        let finished = self.finished.values_mut().flat_map(|it| [&mut it.accepted, &mut it.ended]);
        let unfinished = self.unfinished.values_mut().flat_map(|it| {
            let steps = [&mut it.queued, &mut it.starting, &mut it.started];
            std::iter::once(&mut it.accepted).chain(steps.into_iter().flatten())
        });
        let freed = self.freed.iter_mut().map(|(_, entry)| entry);
        self.approvals.iter_mut().chain(freed).chain(finished).chain(unfinished)
    }

    /// Returns a copy of all entries.
    pub(super) fn copy_parts(&self) -> LiveParts<E>
    where
        E: Copy,
    {
        LiveParts {
            unfinished: self.unfinished.values().copied().collect(),
            finished: self.finished.values().copied().collect(),
            freed: self.freed.iter().map(|(_, entry)| *entry).collect(),
            approvals: self.approvals.clone(),
            numbers: self.numbers.clone(),
        }
    }

    fn into_parts(self) -> LiveParts<E> {
        LiveParts {
            unfinished: self.unfinished.into_values().collect(),
            finished: self.finished.into_values().collect(),
            freed: self.freed.into_iter().map(|(_, entry)| entry).collect(),
            approvals: self.approvals,
            numbers: self.numbers,
        }
    }
}

/// The entries of [`LiveRecords`], each list in the order of the journal.
#[derive(Debug)]
pub(super) struct LiveParts<E> {
    pub(super) unfinished: Vec<UnfinishedRecords<E>>,
    pub(super) finished: Vec<FinishedRecords<E>>,
    pub(super) freed: Vec<E>,
    pub(super) approvals: Vec<E>,
    pub(super) numbers: BTreeMap<TenantId, u64>,
}

impl<E> UnfinishedRecords<E> {
    /// Stores the record of a step. A job that is about to start no longer needs its inputs to be stored.
    fn advance(&mut self, step: JobStep, entry: E) {
        match step {
            JobStep::Queued if self.starting.is_none() && self.started.is_none() => {
                self.queued = Some(entry);
            }
            JobStep::Starting => {
                self.queued = None;
                self.starting = Some(entry);
            }
            JobStep::Started => {
                self.queued = None;
                self.started = Some(entry);
            }
            JobStep::Accepted => self.accepted = entry,
            JobStep::Queued | JobStep::Ended | JobStep::Freed => {}
        }
    }
}

//! The registry of jobs: those that can be found, and those that were freed and why.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::refusal::SubmitRefusal;
use super::retention::{FinishedJob, FinishedJobs, JobRemains, Retention};
use crate::ids::{JobId, JobNumber, TenantId};
use crate::job::JobHandle;
use crate::journal::{FreedNote, Record, StoredJson, now_ms};
use crate::spec::JobKey;
use crate::telemetry::FreedReason;
use crate::telemetry::audit::format_rfc3339;

/// Every job that can be found.
///
/// Invariant: `finished` and `keys` hold only jobs of `jobs`, each with the key that is stored
/// beside it.
#[derive(Debug)]
pub(super) struct Registry {
    jobs: BTreeMap<JobId, KnownJob>,
    keys: HashMap<(TenantId, String), JobId>,
    finished: FinishedJobs,
    freed: FreedJobs,
}

#[derive(Debug)]
struct KnownJob {
    job: JobHandle,
    key: Option<JobKey>,
}

/// A freed job, which can no longer be found. Dropping it may close files.
#[derive(Debug)]
pub(super) struct FreedJob {
    pub(super) job: JobHandle,
    /// The bytes that the job's log stored.
    pub(super) bytes: u64,
    pub(super) why: FreedCause,
}

impl Registry {
    pub(super) fn new(retention: Retention) -> Self {
        Self {
            jobs: BTreeMap::new(),
            keys: HashMap::new(),
            finished: FinishedJobs::new(retention),
            freed: FreedJobs::default(),
        }
    }

    /// Returns all known jobs for the next supervisor. It must be told again which of them have
    /// ended.
    pub(super) fn hand_on(&mut self) -> Self {
        let mut successor = Self::new(*self.finished.limits());
        successor.freed = std::mem::take(&mut self.freed);
        for KnownJob { job, key } in std::mem::take(&mut self.jobs).into_values() {
            successor.insert(job, key);
        }
        successor
    }

    pub(super) fn insert(&mut self, job: JobHandle, key: Option<JobKey>) {
        if let Some(key) = &key {
            self.keys.insert((job.id().tenant(), key.text().to_owned()), job.id());
        }
        self.jobs.insert(job.id(), KnownJob { job, key });
    }

    /// Remembers a job that a previous server has freed.
    pub(super) fn restore_freed(&mut self, id: JobId, at: SystemTime, why: FreedCause) {
        self.freed.note(id, at, why);
    }

    pub(super) fn find(&self, id: JobId) -> Result<&JobHandle, FindError> {
        if let Some(known) = self.jobs.get(&id) {
            return Ok(&known.job);
        }
        Err(match self.freed.get(id) {
            Some((at, why)) => {
                FindError::Freed { id, at, ago: at.elapsed().unwrap_or_default(), why }
            }
            None => FindError::Unknown { id },
        })
    }

    /// `true` if the job was submitted with a key.
    pub(super) fn has_key(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|known| known.key.is_some())
    }

    /// Returns the job that a request with this key has got before.
    ///
    /// # Errors
    /// If that request was another one.
    pub(super) fn find_key(
        &self,
        tenant: TenantId,
        key: &JobKey,
    ) -> Result<Option<JobHandle>, SubmitRefusal> {
        let id = self.keys.get(&(tenant, key.text().to_owned()));
        let Some(KnownJob { job, key: Some(first) }) = id.and_then(|id| self.jobs.get(id)) else {
            return Ok(None);
        };
        match first.difference(key) {
            None => Ok(Some(job.clone())),
            Some(difference) => Err(SubmitRefusal::KeyConflict {
                key: key.text().to_owned(),
                job: job.id(),
                difference,
            }),
        }
    }

    /// Returns the jobs of a tenant, or of all tenants, newest first.
    pub(super) fn list(&self, tenant: Option<TenantId>) -> Vec<JobHandle> {
        tenant.map_or_else(|| self.list_all(), |tenant| self.list_jobs_of_tenant(tenant))
    }

    /// Returns the jobs of a tenant, newest first.
    pub(super) fn list_jobs_of_tenant(&self, tenant: TenantId) -> Vec<JobHandle> {
        let [first, last] = [0, u64::MAX].map(|number| JobNumber::new(number).for_tenant(tenant));
        self.jobs.range(first..=last).rev().map(|(_, known)| known.job.clone()).collect()
    }

    /// Returns the jobs of all tenants, newest first.
    pub(super) fn list_all(&self) -> Vec<JobHandle> {
        let mut jobs: Vec<_> = self.jobs.values().map(|known| known.job.clone()).collect();
        jobs.sort_by_key(|job| Reverse(job.status().submitted));
        jobs
    }

    /// The bounds of finished jobs.
    pub(super) const fn limits(&self) -> &Retention {
        self.finished.limits()
    }

    pub(super) fn finished_count(&self) -> usize {
        self.finished.len()
    }

    /// The bytes that finished jobs store.
    pub(super) const fn finished_bytes(&self) -> u64 {
        self.finished.bytes()
    }

    /// Records that a job has ended, or that its remaining processes or bytes have changed since.
    pub(super) fn record_end(&mut self, id: JobId) {
        let Some(KnownJob { job, .. }) = self.jobs.get(&id) else { return };
        let Some(finished) = job.status().ending().map(|ending| ending.at) else { return };
        self.finished.put(FinishedJob {
            id,
            tenant: id.tenant().name().to_owned(),
            finished,
            bytes: job.output().stored_bytes(),
            rest: if job.is_complete() { JobRemains::Over } else { JobRemains::Alive },
        });
    }

    /// `true` if freeing a finished job of this tenant would give bytes back.
    pub(super) fn can_free(&self, tenant: &str) -> bool {
        self.finished.can_free(tenant)
    }

    /// Requests that finished jobs of this tenant, or of any, give back this many bytes, as far as
    /// possible.
    pub(super) fn request_room(&mut self, tenant: Option<&str>, bytes: u64) {
        self.finished.request_room(tenant, bytes);
    }

    /// Frees the jobs that exceed a limit, at most `max_jobs` of them.
    pub(super) fn sweep(&mut self, max_jobs: usize) -> Vec<FreedJob> {
        let now = Instant::now();
        let clock = SystemTime::now();
        let mut forgotten = Vec::new();
        while forgotten.len() < max_jobs
            && let Some((kept, why)) = self.finished.free_next(now)
        {
            self.freed.note(kept.id, clock, why);
            let Some(KnownJob { job, key }) = self.jobs.remove(&kept.id) else { continue };
            // The key named a run that is no longer available: with the same key it runs again.
            if let Some(key) = key {
                self.keys.remove(&(kept.id.tenant(), key.text().to_owned()));
            }
            forgotten.push(FreedJob { job, bytes: kept.bytes, why });
        }
        forgotten
    }

    /// Returns the time at which the next job becomes too old.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.finished.next_expiry()
    }
}

/// The reason why a job cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FindError {
    /// There never was such a job, or it was freed too long ago to be remembered.
    #[error("there is no job {id}; list_jobs shows the jobs there are")]
    Unknown { id: JobId },
    /// The job had finished, and was freed with its output.
    #[error(
        "job {id} was freed {} ago ({}): {why}; run it again if it is still needed",
        InWords(Duration::from_secs(ago.as_secs())),
        format_rfc3339(*at)
    )]
    Freed {
        id: JobId,
        at: SystemTime,
        /// The time since the job was freed.
        ago: Duration,
        why: FreedCause,
    },
    /// The supervisor fails and cannot answer.
    #[error("nobody can tell about job {id}: the server's supervisor failed; restart the server")]
    Unavailable { id: JobId },
}

impl FindError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_job",
            Self::Freed { .. } => "job_freed",
            Self::Unavailable { .. } => "unavailable",
        }
    }

    /// Returns the job that was asked for.
    #[must_use]
    pub const fn id(&self) -> JobId {
        match self {
            Self::Unknown { id } | Self::Freed { id, .. } | Self::Unavailable { id } => *id,
        }
    }
}

// Freed jobs: the time, the cause and its text.

/// The number of freed jobs that are remembered, so that a query for one can say when and why it
/// was freed.
const REMEMBERED: usize = 10_000;

/// The cause for which a finished job was freed. Its text names the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FreedCause {
    /// The job had ended longer ago than finished jobs are kept.
    Age {
        /// The time that finished jobs are kept.
        limit: Duration,
        /// The scope of the bound.
        scope: RetentionScope,
    },
    /// More jobs had finished than are kept.
    Count {
        /// The number of finished jobs that are kept.
        limit: usize,
        /// The scope of the bound.
        scope: RetentionScope,
    },
    /// Finished jobs stored more bytes than allowed.
    Bytes {
        /// The bytes that finished jobs may store.
        limit: u64,
        /// The scope of the bound.
        scope: RetentionScope,
    },
    /// The store was full, and running jobs needed room.
    Room,
}

/// The owner of the limit that freed a job: all jobs together, or each tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetentionScope {
    /// The limit of all jobs together.
    All,
    Tenant,
}

impl FreedCause {
    pub(super) const fn reason(&self) -> FreedReason {
        match self {
            Self::Age { .. } => FreedReason::Age,
            Self::Count { .. } => FreedReason::Count,
            Self::Bytes { .. } => FreedReason::Bytes,
            Self::Room => FreedReason::Room,
        }
    }
}

impl fmt::Display for FreedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Age { limit, scope } => {
                write!(f, "older than {} (retention.{scope}max_age_s)", InWords(*limit))
            }
            Self::Count { limit, scope } => {
                write!(f, "more than {limit} jobs had finished (retention.{scope}max_finished)")
            }
            Self::Bytes { limit, scope } => {
                let limit = format_size(*limit);
                write!(f, "finished jobs stored more than {limit} (retention.{scope}max_bytes)")
            }
            Self::Room => f.write_str("the store was full and running jobs needed its room"),
        }
    }
}

impl fmt::Display for RetentionScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "",
            Self::Tenant => "tenant_",
        })
    }
}

/// Returns the journal record of a job that was freed now.
pub(super) fn freed_record(job: JobId, why: FreedCause) -> Option<Record> {
    // Every cause has a JSON form.
    let why = StoredJson::new(&why).ok()?;
    Some(Record::Freed(FreedNote { job, at_ms: now_ms(), why }))
}

/// Displays a time in its largest whole unit: `7 days`, `3 minutes`, `0.5 seconds`.
#[derive(Debug, Clone, Copy)]
pub(super) struct InWords(pub(super) Duration);

impl fmt::Display for InWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(86_400, "day"), (3_600, "hour"), (60, "minute")];
        let seconds = self.0.as_secs();
        let Some((unit, name)) = UNITS.into_iter().find(|(unit, _)| seconds >= *unit) else {
            // Thousandths, if there are any.
            let seconds = self.0.as_millis() as f64 / 1000.0;
            return write!(f, "{seconds} second{}", if seconds == 1.0 { "" } else { "s" });
        };
        let count = seconds / unit;
        write!(f, "{count} {name}{}", if count == 1 { "" } else { "s" })
    }
}

/// Formats a size limit in the largest unit that shows it exactly.
pub(super) fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut count = bytes;
    let mut units = UNITS.into_iter();
    let mut unit = units.next().unwrap_or_default();
    while count > 0
        && count.is_multiple_of(1024)
        && let Some(larger) = units.next()
    {
        count /= 1024;
        unit = larger;
    }
    format!("{count} {unit}")
}

/// The most recently freed jobs.
///
/// Invariant: `order` holds exactly the ids of `notes`, at most [`REMEMBERED`].
#[derive(Debug, Default)]
pub(super) struct FreedJobs {
    notes: HashMap<JobId, (SystemTime, FreedCause)>,
    order: VecDeque<JobId>,
}

impl FreedJobs {
    /// Remembers that a job was freed, and forgets the oldest if there are too many.
    pub(super) fn note(&mut self, id: JobId, at: SystemTime, why: FreedCause) {
        self.notes.insert(id, (at, why));
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(first) = self.order.pop_front()
        {
            self.notes.remove(&first);
        }
    }

    /// Returns when and why this job was freed.
    pub(super) fn get(&self, id: JobId) -> Option<(SystemTime, FreedCause)> {
        self.notes.get(&id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_the_bound_and_its_setting() {
        let week = Duration::from_secs(604_800);
        let all = RetentionScope::All;
        let tenant = RetentionScope::Tenant;
        for (why, text) in [
            (
                FreedCause::Age { limit: week, scope: all },
                "older than 7 days (retention.max_age_s)",
            ),
            (
                FreedCause::Age { limit: Duration::from_millis(500), scope: tenant },
                "older than 0.5 seconds (retention.tenant_max_age_s)",
            ),
            (
                FreedCause::Count { limit: 3, scope: all },
                "more than 3 jobs had finished (retention.max_finished)",
            ),
            (
                FreedCause::Bytes { limit: 40 << 30, scope: tenant },
                "finished jobs stored more than 40 GiB (retention.tenant_max_bytes)",
            ),
            (FreedCause::Room, "the store was full and running jobs needed its room"),
        ] {
            assert_eq!(why.to_string(), text);
        }
    }

    #[test]
    fn times_are_told_in_their_largest_whole_unit() {
        for (seconds, text) in [
            (0.0, "0 seconds"),
            (1.0, "1 second"),
            (59.9, "59.9 seconds"),
            (60.0, "1 minute"),
            (200.0, "3 minutes"),
            (7_200.0, "2 hours"),
            (86_400.0, "1 day"),
        ] {
            assert_eq!(InWords(Duration::from_secs_f64(seconds)).to_string(), text);
        }
        assert_eq!(
            [format_size(0), format_size(1000), format_size(1 << 20)],
            ["0 bytes", "1000 bytes", "1 MiB"]
        );
    }

    #[test]
    fn only_the_last_ones_are_remembered() {
        let mut freed = FreedJobs::default();
        for number in 1..=REMEMBERED as u64 + 5 {
            freed.note(JobId::local(number), SystemTime::UNIX_EPOCH, FreedCause::Room);
        }
        assert_eq!(freed.notes.len(), REMEMBERED);
        assert_eq!(freed.get(JobId::local(5)), None);
        assert_eq!(freed.get(JobId::local(6)), Some((SystemTime::UNIX_EPOCH, FreedCause::Room)));
    }
}

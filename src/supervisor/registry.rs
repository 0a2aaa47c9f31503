//! The registry of jobs: those that can be found, those that were freed and why, and the decision
//! which finished jobs are freed.
//!
//! That decision is pure: no clock, no handles. Each costs O(log n): sums and orders are updated as
//! jobs end and are freed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::queue::{SubmitRefusal, format_size};
use crate::ids::{JobId, JobNumber, TenantId};
use crate::job::{JobHandle, StopReceipt};
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
    pub(super) finished: FinishedJobs,
    pub(super) freed: FreedJobs,
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

    /// Hands all known jobs over to the registry of the next supervisor, which must be told again which
    /// of them have ended.
    pub(super) fn hand_on(&mut self) -> Self {
        let mut successor = Self::new(self.finished.limits);
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
}

/// A job that is to end, and the receipt of the request.
pub(super) type StopResult = Result<(JobHandle, StopReceipt), FindError>;

/// The reason why a job cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FindError {
    #[error("there is no job {id}; list_jobs shows the jobs there are")]
    Unknown { id: JobId },
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
        scope: RetentionScope,
    },
    /// More jobs had finished than are kept.
    Count {
        /// The number of finished jobs that are kept.
        limit: usize,
        scope: RetentionScope,
    },
    /// Finished jobs stored more bytes than allowed.
    Bytes {
        /// The bytes that finished jobs may store.
        limit: u64,
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
struct InWords(Duration);

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
    fn get(&self, id: JobId) -> Option<(SystemTime, FreedCause)> {
        self.notes.get(&id).copied()
    }
}

// The choice of the finished jobs that are freed.

/// The limits on finished jobs: for all together, and for each tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// The bounds of all tenants together.
    pub all: RetentionBounds,
    /// The bounds of each tenant.
    pub tenant: RetentionBounds,
}

/// Bounds on finished jobs; `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionBounds {
    /// The number that stays readable, not counting jobs with survivors.
    pub finished: Option<usize>,
    /// The time for which each of them is kept.
    pub age: Option<Duration>,
    /// The bytes that finished jobs may store.
    pub bytes: Option<u64>,
}

/// A finished job, as retention sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FinishedJob {
    id: JobId,
    tenant: String,
    finished: Instant,
    /// The bytes that the job stores.
    bytes: u64,
    rest: JobRemains,
}

/// The processes that a finished job still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobRemains {
    /// None: the job may be freed.
    Over,
    /// Survivors live or hold its output open. A freed job could no longer be stopped, so it is
    /// kept. Its bytes count towards the limits, but not the job itself, or jobs that end later
    /// would be freed at once.
    Alive,
}

/// All finished jobs, with their sums.
///
/// Invariant: `all` and `tenants` are the sums and orders of exactly the jobs in `jobs`;
/// `over_bound` names every tenant that is over a bound and has a job that can be freed.
#[derive(Debug)]
pub(super) struct FinishedJobs {
    pub(super) limits: Retention,
    jobs: BTreeMap<JobId, FinishedJob>,
    all: JobTotals,
    tenants: HashMap<String, JobTotals>,
    over_bound: BTreeSet<String>,
    /// Bytes to free in addition to the limits, from any tenant.
    wanted: u64,
    /// Bytes to free in addition to the limits, from each tenant's own jobs.
    wanted_of: BTreeMap<String, u64>,
}

impl FinishedJobs {
    fn new(limits: Retention) -> Self {
        Self {
            limits,
            jobs: BTreeMap::new(),
            all: JobTotals::default(),
            tenants: HashMap::new(),
            over_bound: BTreeSet::new(),
            wanted: 0,
            wanted_of: BTreeMap::new(),
        }
    }

    /// Returns the number of finished jobs.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns the bytes that finished jobs store.
    pub(super) const fn bytes(&self) -> u64 {
        self.all.bytes
    }

    /// `true` if freeing a finished job of this tenant would give bytes back.
    pub(super) fn can_free(&self, tenant: &str) -> bool {
        self.tenants.get(tenant).is_some_and(|totals| !totals.with_bytes.is_empty())
    }

    /// Inserts or updates a finished job.
    fn put(&mut self, job: FinishedJob) {
        self.remove(job.id);
        let totals = self.tenants.entry(job.tenant.clone()).or_default();
        for totals in [&mut self.all, totals] {
            totals.put(&job);
        }
        if find_tenant_excess(&self.tenants, &self.limits, &job.tenant).is_some() {
            self.over_bound.insert(job.tenant.clone());
        }
        self.jobs.insert(job.id, job);
    }

    fn remove(&mut self, id: JobId) -> Option<FinishedJob> {
        let job = self.jobs.remove(&id)?;
        self.all.remove(&job);
        if let Some(totals) = self.tenants.get_mut(&job.tenant) {
            totals.remove(&job);
            if totals.count == 0 {
                self.tenants.remove(&job.tenant);
            }
        }
        Some(job)
    }

    /// Requests that finished jobs of this tenant, or of any, give back this many bytes, as far as
    /// possible.
    pub(super) fn request_room(&mut self, tenant: Option<&str>, bytes: u64) {
        match tenant {
            None => self.wanted = self.wanted.max(bytes),
            Some(tenant) => {
                let wanted = self.wanted_of.entry(tenant.to_owned()).or_default();
                *wanted = bytes.max(*wanted);
            }
        }
    }

    /// Removes and returns the next job to free, the oldest first for each cause.
    fn free_next(&mut self, now: Instant) -> Option<(FinishedJob, FreedCause)> {
        let (id, why) = self
            .find_expired(now)
            .or_else(|| self.find_of_tenant_over_bound())
            .or_else(|| self.all.find_excess(&self.limits.all, RetentionScope::All))
            .or_else(|| self.find_for_room_of_tenant())
            .or_else(|| self.find_for_room())?;
        let job = self.remove(id)?;
        self.wanted = self.wanted.saturating_sub(job.bytes);
        if let Some(wanted) = self.wanted_of.get_mut(&job.tenant) {
            *wanted = wanted.saturating_sub(job.bytes);
        }
        Some((job, why))
    }

    /// Returns the time at which the next job becomes too old.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let (finished, _) = self.all.oldest.first()?;
        finished.checked_add(self.max_age()?.0)
    }

    fn find_expired(&self, now: Instant) -> Option<(JobId, FreedCause)> {
        let (finished, id) = *self.all.oldest.first()?;
        let (limit, scope) = self.max_age()?;
        let is_old = now.saturating_duration_since(finished) >= limit;
        is_old.then_some((id, FreedCause::Age { limit, scope }))
    }

    /// Every tenant has the same bound, so the oldest of all is the first to pass either.
    fn max_age(&self) -> Option<(Duration, RetentionScope)> {
        let all = self.limits.all.age.map(|age| (age, RetentionScope::All));
        let tenant = self.limits.tenant.age.map(|age| (age, RetentionScope::Tenant));
        all.into_iter().chain(tenant).min_by_key(|(age, _)| *age)
    }

    fn find_of_tenant_over_bound(&mut self) -> Option<(JobId, FreedCause)> {
        while let Some(tenant) = self.over_bound.first() {
            if let Some(found) = find_tenant_excess(&self.tenants, &self.limits, tenant) {
                return Some(found);
            }
            self.over_bound.pop_first();
        }
        None
    }

    fn find_for_room_of_tenant(&mut self) -> Option<(JobId, FreedCause)> {
        while let Some(request) = self.wanted_of.first_entry() {
            let totals = self.tenants.get(request.key()).filter(|_| *request.get() > 0);
            if let Some((_, id)) = totals.and_then(|totals| totals.with_bytes.first()) {
                return Some((*id, FreedCause::Room));
            }
            // The request is met, or nothing more can be freed.
            request.remove();
        }
        None
    }

    fn find_for_room(&mut self) -> Option<(JobId, FreedCause)> {
        if self.wanted == 0 {
            return None;
        }
        let Some((_, id)) = self.all.with_bytes.first() else {
            // Nothing more can be freed. Later jobs must not pay for this request.
            self.wanted = 0;
            return None;
        };
        Some((*id, FreedCause::Room))
    }
}

fn find_tenant_excess(
    tenants: &HashMap<String, JobTotals>,
    limits: &Retention,
    tenant: &str,
) -> Option<(JobId, FreedCause)> {
    tenants.get(tenant)?.find_excess(&limits.tenant, RetentionScope::Tenant)
}

/// Finished jobs of one tenant, or of all: their sums, and those that can be freed, the oldest
/// first.
#[derive(Debug, Default)]
struct JobTotals {
    count: usize,
    bytes: u64,
    oldest: BTreeSet<(Instant, JobId)>,
    /// The jobs that store anything: freeing the others would give no byte back.
    with_bytes: BTreeSet<(Instant, JobId)>,
}

impl JobTotals {
    fn put(&mut self, job: &FinishedJob) {
        self.count += 1;
        self.bytes += job.bytes;
        match job.rest {
            JobRemains::Alive => {}
            JobRemains::Over => {
                self.oldest.insert((job.finished, job.id));
                if job.bytes > 0 {
                    self.with_bytes.insert((job.finished, job.id));
                }
            }
        }
    }

    fn remove(&mut self, job: &FinishedJob) {
        self.count -= 1;
        self.bytes -= job.bytes;
        self.oldest.remove(&(job.finished, job.id));
        self.with_bytes.remove(&(job.finished, job.id));
    }

    /// Returns the job to free because there are too many jobs or bytes.
    fn find_excess(
        &self,
        bounds: &RetentionBounds,
        scope: RetentionScope,
    ) -> Option<(JobId, FreedCause)> {
        if let Some(limit) = bounds.finished.filter(|limit| self.oldest.len() > *limit) {
            let (_, id) = *self.oldest.first()?;
            return Some((id, FreedCause::Count { limit, scope }));
        }
        let limit = bounds.bytes.filter(|limit| self.bytes > *limit)?;
        // A caller has just been told that the newest job can be read: it stays, however large.
        let newest = self.oldest.last();
        let (_, id) = *self.with_bytes.first().filter(|job| Some(*job) != newest)?;
        Some((id, FreedCause::Bytes { limit, scope }))
    }
}

#[cfg(test)]
mod tests {
    use FreedReason::{Age, Bytes, Count, Room};
    use proptest::prelude::*;

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

    // The choice of freed jobs: by table, and against a naive model.

    const SECOND: Duration = Duration::from_secs(1);

    /// Finished `age` seconds before the moment of the sweep, which is second 1,000.
    fn finished_job(start: Instant, id: u64, tenant: &str, age: u32, bytes: u64) -> FinishedJob {
        let finished = start + SECOND * (1000 - age);
        FinishedJob {
            id: JobId::local(id),
            tenant: tenant.to_owned(),
            finished,
            bytes,
            rest: JobRemains::Over,
        }
    }

    fn bounds(finished: usize, age: u64, bytes: u64) -> RetentionBounds {
        let age = Some(Duration::from_secs(age)).filter(|age| !age.is_zero());
        let some = |number: u64| Some(number).filter(|number| *number > 0);
        RetentionBounds {
            finished: some(finished as u64).map(|count| count as usize),
            age,
            bytes: some(bytes),
        }
    }

    fn freed(
        finished: &mut FinishedJobs,
        now: Instant,
    ) -> Vec<(u64, FreedReason, Option<RetentionScope>)> {
        let mut freed = Vec::new();
        while let Some((job, why)) = finished.free_next(now) {
            freed.push((job.id.number(), why.reason(), scope(why)));
        }
        freed
    }

    fn scope(why: FreedCause) -> Option<RetentionScope> {
        match why {
            FreedCause::Age { scope, .. }
            | FreedCause::Count { scope, .. }
            | FreedCause::Bytes { scope, .. } => Some(scope),
            FreedCause::Room => None,
        }
    }

    /// Five jobs of two tenants; 3 has survivors, 4 stores nothing. Job 1 is the oldest.
    #[track_caller]
    fn check(
        all: RetentionBounds,
        tenant: RetentionBounds,
        room: u64,
        expected: &[(u64, FreedReason, Option<RetentionScope>)],
    ) {
        let start = Instant::now();
        let mut finished = FinishedJobs::new(Retention { all, tenant });
        finished.put(finished_job(start, 5, "a", 10, 100));
        finished.put(finished_job(start, 4, "b", 20, 0));
        finished
            .put(FinishedJob { rest: JobRemains::Alive, ..finished_job(start, 3, "a", 30, 100) });
        finished.put(finished_job(start, 2, "b", 40, 100));
        finished.put(finished_job(start, 1, "a", 50, 100));
        finished.request_room(None, room);
        assert_eq!(freed(&mut finished, start + SECOND * 1000), expected);
    }

    const NONE: RetentionBounds = RetentionBounds { finished: None, age: None, bytes: None };

    #[test]
    fn without_bounds_nothing_is_freed() {
        check(NONE, NONE, 0, &[]);
    }

    #[test]
    fn the_oldest_goes_first_and_who_has_survivors_stays() {
        let all = Some(RetentionScope::All);
        check(bounds(4, 0, 0), NONE, 0, &[]);
        check(bounds(3, 0, 0), NONE, 0, &[(1, Count, all)]);
        check(bounds(1, 0, 0), NONE, 0, &[1, 2, 4].map(|id| (id, Count, all)));
        check(bounds(0, 20, 0), NONE, 0, &[1, 2, 4].map(|id| (id, Age, all)));
        check(bounds(0, 21, 0), NONE, 0, &[1, 2].map(|id| (id, Age, all)));
    }

    #[test]
    fn for_bytes_only_those_go_that_give_some_back() {
        let all = Some(RetentionScope::All);
        check(bounds(0, 0, 300), NONE, 0, &[(1, Bytes, all)]);
        // The newest stays, whatever it stores.
        check(bounds(0, 0, 1), NONE, 0, &[1, 2].map(|id| (id, Bytes, all)));
        check(NONE, NONE, 101, &[(1, Room, None), (2, Room, None)]);
        check(NONE, NONE, u64::MAX, &[1, 2, 5].map(|id| (id, Room, None)));
    }

    #[test]
    fn a_tenant_over_its_own_bound_pays_alone() {
        let own = Some(RetentionScope::Tenant);
        check(NONE, bounds(2, 0, 0), 0, &[]);
        check(NONE, bounds(1, 0, 0), 0, &[(1, Count, own), (2, Count, own)]);
        check(NONE, bounds(0, 0, 200), 0, &[(1, Bytes, own)]);
        check(bounds(0, 45, 0), bounds(0, 35, 0), 0, &[(1, Age, own), (2, Age, own)]);
    }

    #[test]
    fn a_request_for_room_is_over_when_it_was_met_or_cannot_be() {
        let start = Instant::now();
        let now = start + SECOND * 1000;
        let mut finished = FinishedJobs::new(Retention::default());
        finished.request_room(None, 1000);
        assert_eq!(freed(&mut finished, now), []);
        finished.put(finished_job(start, 1, "a", 10, 100));
        finished.put(finished_job(start, 2, "a", 5, 100));
        assert_eq!(freed(&mut finished, now), [], "later jobs do not pay");
        finished.request_room(None, 100);
        finished.request_room(None, 50);
        assert_eq!(freed(&mut finished, now), [(1, Room, None)], "requests are not summed up");
    }

    #[test]
    fn a_tenant_makes_its_own_room() {
        let start = Instant::now();
        let mut finished = FinishedJobs::new(Retention::default());
        finished.put(finished_job(start, 1, "a", 30, 100));
        finished.put(finished_job(start, 2, "b", 20, 100));
        finished.put(finished_job(start, 3, "b", 10, 100));
        finished.request_room(Some("b"), 150);
        finished.request_room(Some("nobody"), 150);
        let now = start + SECOND * 1000;
        assert_eq!(freed(&mut finished, now), [(2, Room, None), (3, Room, None)]);
        finished.put(finished_job(start, 4, "b", 5, 100));
        assert_eq!(freed(&mut finished, now), [], "the request is over");
    }

    #[test]
    fn what_changes_of_a_job_changes_the_sums() {
        let start = Instant::now();
        let now = start + SECOND * 1000;
        let limits = Retention { all: bounds(0, 0, 100), tenant: bounds(0, 30, 0) };
        let mut finished = FinishedJobs::new(limits);
        let job = FinishedJob { rest: JobRemains::Alive, ..finished_job(start, 1, "a", 50, 500) };
        finished.put(job.clone());
        assert_eq!((freed(&mut finished, now), finished.next_expiry()), (vec![], None));
        // It was compressed, and its survivors are gone.
        finished.put(FinishedJob { rest: JobRemains::Over, bytes: 40, ..job });
        assert_eq!((finished.len(), finished.all.bytes), (1, 40));
        assert_eq!(finished.next_expiry(), Some(start + SECOND * 980));
        assert_eq!(freed(&mut finished, now), [(1, Age, Some(RetentionScope::Tenant))]);
        assert_eq!((finished.len(), finished.all.bytes, finished.tenants.len()), (0, 0, 0));
    }

    /// An event for the finished jobs.
    #[derive(Debug, Clone)]
    enum Step {
        Put {
            tenant: usize,
            bytes: u64,
            rest: JobRemains,
        },
        /// Completes the job at this index, with this size.
        Settle(prop::sample::Index, u64),
        WantRoom(u64),
        Pass(u32),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let rest = prop_oneof![4 => Just(JobRemains::Over), 1 => Just(JobRemains::Alive)];
        prop_oneof![
            6 => (0..3_usize, 0..50_u64, rest)
                .prop_map(|(tenant, bytes, rest)| Step::Put { tenant, bytes, rest }),
            2 => (any::<prop::sample::Index>(), 0..50_u64).prop_map(|(at, bytes)| Step::Settle(at, bytes)),
            1 => (1..100_u64).prop_map(Step::WantRoom),
            3 => (0..20_u32).prop_map(Step::Pass),
        ]
    }

    fn any_bounds() -> impl Strategy<Value = RetentionBounds> {
        (0..6_usize, 0..60_u64, 0..150_u64)
            .prop_map(|(count, age, bytes)| bounds(count, age, bytes))
    }

    /// The jobs of one tenant, or all.
    fn jobs_of<'a>(
        jobs: &'a [FinishedJob],
        tenant: Option<&'a str>,
    ) -> impl DoubleEndedIterator<Item = &'a FinishedJob> + Clone {
        jobs.iter().filter(move |job| tenant.is_none_or(|tenant| tenant == job.tenant))
    }

    /// Returns the bounds that these jobs exceed, so that one of `jobs` that can be freed has to
    /// go.
    fn breaks(
        jobs: &[FinishedJob],
        tenant: Option<&str>,
        bounds: &RetentionBounds,
        now: Instant,
    ) -> Vec<FreedReason> {
        let mine = jobs_of(jobs, tenant);
        let free = mine.clone().filter(|job| job.rest == JobRemains::Over);
        let over_count = bounds.finished.is_some_and(|limit| free.clone().count() > limit);
        let over_bytes =
            bounds.bytes.is_some_and(|limit| mine.map(|job| job.bytes).sum::<u64>() > limit);
        let too_old = |job: &FinishedJob| bounds.age.is_some_and(|age| now - job.finished >= age);
        let found = [
            (Count, over_count),
            (Bytes, over_bytes && free.clone().rev().skip(1).any(|job| job.bytes > 0)),
            (Age, free.clone().any(too_old)),
        ];
        found.into_iter().filter(|(_, is_broken)| *is_broken).map(|(reason, _)| reason).collect()
    }

    proptest! {
        #[test]
        fn whoever_goes_had_to_and_was_the_oldest_and_then_all_bounds_hold(
            all in any_bounds(),
            tenant in any_bounds(),
            steps in prop::collection::vec(any_step(), 0..60),
        ) {
            let mut finished = FinishedJobs::new(Retention { all, tenant });
            let mut now = Instant::now();
            let mut jobs: Vec<FinishedJob> = Vec::new();
            let mut wanted = 0;
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Put { tenant, bytes, rest } => {
                        let id = JobId::local(number as u64);
                        let tenant = format!("t{tenant}");
                        jobs.push(FinishedJob { id, tenant, finished: now, bytes, rest });
                        finished.put(jobs[jobs.len() - 1].clone());
                    }
                    Step::Settle(at, bytes) if !jobs.is_empty() => {
                        let at = at.index(jobs.len());
                        jobs[at] = FinishedJob { bytes, rest: JobRemains::Over, ..jobs[at].clone() };
                        finished.put(jobs[at].clone());
                    }
                    Step::Settle(..) => {}
                    Step::WantRoom(bytes) => {
                        wanted = bytes;
                        finished.request_room(None, bytes);
                    }
                    Step::Pass(seconds) => now += SECOND * seconds,
                }
                while let Some((job, why)) = finished.free_next(now) {
                    prop_assert_eq!(job.rest, JobRemains::Over);
                    let (mine, limits) = match scope(why) {
                        Some(RetentionScope::Tenant) => (Some(job.tenant.as_str()), tenant),
                        Some(RetentionScope::All) | None => (None, all),
                    };
                    // Ages are checked for all jobs together: the oldest of all is too old for
                    // either limit.
                    let reason = why.reason();
                    let mine = mine.filter(|_| reason != Age);
                    match reason {
                        Room => prop_assert!(wanted > 0),
                        Age | Bytes | Count => {
                            prop_assert!(breaks(&jobs, mine, &limits, now).contains(&reason));
                        }
                    }
                    let gives = |other: &&FinishedJob| matches!(reason, Age | Count) || other.bytes > 0;
                    let free = jobs_of(&jobs, mine).filter(|other| other.rest == JobRemains::Over);
                    prop_assert_eq!(free.clone().find(gives), Some(&job), "the oldest comes first");
                    drop(free);
                    wanted = wanted.saturating_sub(job.bytes);
                    jobs.retain(|other| other.id != job.id);
                }
                prop_assert_eq!(breaks(&jobs, None, &all, now), []);
                for name in ["t0", "t1", "t2"] {
                    prop_assert_eq!(breaks(&jobs, Some(name), &tenant, now), [], "{}", name);
                }
                let room_left = jobs.iter().any(|job| job.rest == JobRemains::Over && job.bytes > 0);
                prop_assert!(wanted == 0 || !room_left);
                wanted = 0;
                prop_assert_eq!(finished.len(), jobs.len());
                prop_assert_eq!(finished.all.bytes, jobs.iter().map(|job| job.bytes).sum::<u64>());
            }
        }
    }
}

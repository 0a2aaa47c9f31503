//! The history of callers, so that replies repeat nothing and leave nothing out: the output that each
//! was shown, the jobs that it was not told of, and its waits without news.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::submission::CallerContext;
use crate::ids::{CallerSession, JobId, TenantId};
use crate::spec::Stream;

/// The most ranges that are remembered of one output; beyond that, the smallest is forgotten, and
/// counts as unseen again.
const MAX_RANGES: usize = 16;

/// The most outputs that are remembered, of all callers; beyond that, the tenant that has most loses
/// the one that changed least recently, which counts as unseen again.
const MAX_OUTPUTS: usize = 10_000;

/// The parts of one job's output that one caller has been shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenOutput {
    /// The shown bytes, in order, with a gap between any two ranges.
    ranges: Vec<Range<u64>>,
    /// The end of the output that a wait for a line need not search again.
    searched: u64,
}

impl SeenOutput {
    /// Adds bytes that were shown.
    pub fn add(&mut self, shown: Range<u64>) {
        if shown.is_empty() {
            return;
        }
        let touches = |range: &Range<u64>| range.start <= shown.end && shown.start <= range.end;
        let touched: Vec<Range<u64>> = self.ranges.extract_if(.., |range| touches(range)).collect();
        let start = touched.first().map_or(shown.start, |first| first.start.min(shown.start));
        let end = touched.last().map_or(shown.end, |last| last.end.max(shown.end));
        let index = self.ranges.partition_point(|range| range.end < start);
        self.ranges.insert(index, start..end);
        if self.ranges.len() > MAX_RANGES {
            self.forget_smallest(index);
        }
    }

    /// Forgets the smallest range except the one at `added`, and never the last one, because waits
    /// show what comes after it.
    fn forget_smallest(&mut self, added: usize) {
        let older = self.ranges[..self.ranges.len() - 1].iter().enumerate();
        let others = older.filter(|(index, _)| *index != added);
        if let Some((index, _)) = others.min_by_key(|(_, range)| range.end - range.start) {
            self.ranges.remove(index);
        }
    }

    /// Records that a wait for a line need not search the output before `end` again, nor what was
    /// shown from there on without a gap.
    fn skip_search(&mut self, end: u64) {
        let searched = self.searched.max(end);
        let shown = self.ranges.iter().rfind(|range| range.start <= searched);
        self.searched = searched.max(shown.map_or(0, |range| range.end));
    }

    /// The first bytes that were not shown; the range ends where shown bytes follow, and at
    /// `u64::MAX` if none do.
    #[must_use]
    pub fn first_unseen(&self) -> Range<u64> {
        match self.ranges.as_slice() {
            [first, ..] if first.start > 0 => 0..first.start,
            [first, second, ..] => first.end..second.start,
            [first] => first.end..u64::MAX,
            [] => 0..u64::MAX,
        }
    }

    /// The end of the last bytes that were shown: everything after it is new.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |last| last.end)
    }

    /// The offset from which a wait looks for a line.
    #[must_use]
    pub const fn search_start(&self) -> u64 {
        self.searched
    }
}

/// An output as one caller sees it: the job, and the stream if only one was read.
type SeenKey<'a> = (&'a CallerSession, JobId, Option<Stream>);

/// The output that callers have been shown, by session and job.
#[derive(Debug, Default)]
pub(super) struct SeenOutputs {
    rows: Mutex<SeenRows>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct SeenRows {
    /// Rows by a hash of their key: the session may be a text of any size.
    by_key: HashMap<u64, SeenRow>,
    /// The number of changes so far.
    changes: u64,
}

#[derive(Debug)]
struct SeenRow {
    job: JobId,
    /// The number of the last change.
    changed: u64,
    output: SeenOutput,
}

impl SeenRows {
    /// Returns the row of this key to change it.
    fn change(&mut self, key: u64, job: JobId) -> &mut SeenOutput {
        if self.by_key.len() >= MAX_OUTPUTS && !self.by_key.contains_key(&key) {
            self.drop_oldest();
        }
        self.changes += 1;
        let new = || SeenRow { job, changed: 0, output: SeenOutput::default() };
        let row = self.by_key.entry(key).or_insert_with(new);
        row.changed = self.changes;
        &mut row.output
    }

    /// Removes the row that changed least recently of the tenant that has most, so that no tenant
    /// takes the room of others.
    fn drop_oldest(&mut self) {
        let largest = find_largest_tenants(self.by_key.values().map(|row| row.job));
        let has_most = |row: &SeenRow| largest.contains(&row.job.tenant());
        let candidates = self.by_key.iter().filter(|(_, row)| has_most(row));
        let oldest = candidates.min_by_key(|(_, row)| row.changed).map(|(key, _)| *key);
        oldest.and_then(|key| self.by_key.remove(&key));
    }
}

impl SeenOutputs {
    /// Records that these bytes were shown: of all output, or of one stream alone, because the bytes
    /// of the other one lie in between.
    pub(super) fn add(&self, key: SeenKey<'_>, shown: impl Iterator<Item = Range<u64>>) {
        self.change(key, |seen| shown.for_each(|shown| seen.add(shown)));
    }

    /// Records that the caller need not be told of lines before `end` any more, nor of those that
    /// were shown after it without a gap.
    pub(super) fn skip_search(&self, key: SeenKey<'_>, end: u64) {
        self.change(key, |seen| seen.skip_search(end));
    }

    /// Returns what the caller has been shown of the output, or of one stream.
    pub(super) fn find(&self, (session, job, stream): SeenKey<'_>) -> SeenOutput {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |stream| {
            let row = rows.by_key.get(&self.hash_key((session, job, stream)));
            row.map(|row| row.output.clone()).unwrap_or_default()
        };
        let mut seen = find(None);
        if stream.is_some() {
            find(stream).ranges.into_iter().for_each(|range| seen.add(range));
        }
        seen
    }

    /// Forgets the output of jobs that are freed, until no more can be. The supervisor sends their
    /// numbers to this task.
    pub(super) async fn forget_freed(
        self: Arc<Self>,
        mut freed_jobs: mpsc::UnboundedReceiver<JobId>,
    ) {
        let mut freed = Vec::new();
        while freed_jobs.recv_many(&mut freed, MAX_OUTPUTS).await > 0 {
            self.forget(&freed.drain(..).collect());
        }
    }

    fn forget(&self, jobs: &HashSet<JobId>) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.by_key.retain(|_, row| !jobs.contains(&row.job));
    }

    fn change(&self, key: SeenKey<'_>, change: impl FnOnce(&mut SeenOutput)) {
        let (_, job, _) = key;
        let key = self.hash_key(key);
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        change(rows.change(key, job));
    }

    fn hash_key(&self, key: SeenKey<'_>) -> u64 {
        self.hasher.hash_one(key)
    }
}

// Jobs that go on although their client gave up the call that started them.

/// The most jobs that wait to be reported, of all callers; beyond that, the tenant that has most
/// loses its oldest.
const MAX_UNREPORTED: usize = 1000;

/// The sessions of a client in which it is told about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportTo {
    SameSession,
    /// Any session of the same client and tenant: that of the call is closed.
    AnySession,
}

/// Jobs whose calls were given up, until the client has been told about them.
#[derive(Debug, Default)]
pub(super) struct UnreportedJobs(Mutex<VecDeque<UnreportedJob>>);

#[derive(Debug, PartialEq, Eq)]
struct UnreportedJob {
    job: JobId,
    client: String,
    /// The session that is told; `None` = any.
    session: Option<CallerSession>,
}

impl UnreportedJob {
    fn is_for(&self, caller: &CallerContext) -> bool {
        let is_session = self.session.as_ref().is_none_or(|session| *session == caller.session);
        is_session && self.job.tenant() == caller.tenant && self.client == caller.client
    }
}

impl UnreportedJobs {
    /// Records that this caller gave up its call and does not know what becomes of the job.
    pub(super) fn add(&self, caller: &CallerContext, job: JobId, to: ReportTo) {
        let session = match to {
            ReportTo::SameSession => Some(caller.session.clone()),
            ReportTo::AnySession => None,
        };
        let unreported = UnreportedJob { job, client: caller.client.clone(), session };
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Several calls may have waited for the same job.
        jobs.retain(|known| *known != unreported);
        if jobs.len() >= MAX_UNREPORTED {
            drop_oldest(&mut jobs);
        }
        jobs.push_back(unreported);
    }

    /// Removes the jobs that this caller is told about, and returns them in the order in which their
    /// calls were given up.
    pub(super) fn take(&self, caller: &CallerContext) -> Vec<JobId> {
        let mut taken = Vec::new();
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.retain(|unreported| {
            let is_taken = unreported.is_for(caller);
            taken.extend(is_taken.then_some(unreported.job));
            !is_taken
        });
        taken
    }
}

/// Removes the oldest job of the tenant that has most, so that no tenant takes the room of others.
fn drop_oldest(jobs: &mut VecDeque<UnreportedJob>) {
    let largest = find_largest_tenants(jobs.iter().map(|it| it.job));
    let oldest = jobs.iter().position(|it| largest.contains(&it.job.tenant()));
    oldest.and_then(|index| jobs.remove(index));
}

/// Returns the tenants that have most of these jobs.
fn find_largest_tenants(jobs: impl Iterator<Item = JobId>) -> HashSet<TenantId> {
    let mut counts: HashMap<TenantId, usize> = HashMap::new();
    for job in jobs {
        *counts.entry(job.tenant()).or_default() += 1;
    }
    let most = counts.values().max().copied();
    counts.into_iter().filter(|(_, count)| Some(*count) == most).map(|(tenant, _)| tenant).collect()
}

// Waits without news.

/// The most counters of empty waits; beyond that, all of them start again at 0.
const MAX_WAIT_ROWS: usize = 1000;

/// The number of consecutive waits without news, by caller and awaited jobs: a reply tells callers
/// that poll. Two callers with the same name that wait for the same jobs count as one.
#[derive(Debug, Default)]
pub(super) struct EmptyWaits {
    /// Counters by a hash of caller and jobs: a list of jobs as the key could be of any size.
    rows: Mutex<HashMap<u64, u32>>,
    hasher: RandomState,
}

impl EmptyWaits {
    /// Counts a wait without news, and returns the number of consecutive ones.
    pub(super) fn count(&self, client: &str, jobs: &[JobId]) -> u32 {
        let row = self.hash_key(client, jobs);
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.len() >= MAX_WAIT_ROWS && !rows.contains_key(&row) {
            rows.clear();
        }
        let waits = rows.entry(row).or_default();
        *waits = waits.saturating_add(1);
        *waits
    }

    /// Resets the counter after a wait that brought news.
    pub(super) fn reset(&self, client: &str, jobs: &[JobId]) {
        let row = self.hash_key(client, jobs);
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).remove(&row);
    }

    fn hash_key(&self, client: &str, jobs: &[JobId]) -> u64 {
        let mut jobs = jobs.to_vec();
        jobs.sort_unstable();
        self.hasher.hash_one((client, jobs))
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::submission::CallerRole;
    use super::*;
    use crate::ids::JobNumber;
    use crate::trace::CallTrace;

    fn show_ranges(shown: &[(u64, u64)]) -> SeenOutput {
        let mut seen = SeenOutput::default();
        shown.iter().for_each(|(start, end)| seen.add(*start..*end));
        seen
    }

    #[test]
    fn the_first_gap_is_unseen_and_everything_after_the_last_range_is_new() {
        for (seen, unseen, end) in [
            (show_ranges(&[]), 0..u64::MAX, 0),
            (show_ranges(&[(0, 10)]), 10..u64::MAX, 10),
            (show_ranges(&[(20, 30)]), 0..20, 30),
            (show_ranges(&[(0, 10), (20, 30)]), 10..20, 30),
            (show_ranges(&[(0, 10), (20, 30), (10, 15)]), 15..20, 30),
            (show_ranges(&[(0, 10), (20, 30), (10, 20)]), 30..u64::MAX, 30),
            (show_ranges(&[(0, 10), (5, 8), (8, 12)]), 12..u64::MAX, 12),
            (show_ranges(&[(0, 10), (12, 12)]), 10..u64::MAX, 10),
        ] {
            assert_eq!((seen.first_unseen(), seen.end()), (unseen, end), "{seen:?}");
        }
    }

    #[test]
    fn a_search_skips_what_was_shown_without_a_gap_once_a_wait_or_read_has_said_so() {
        let mut output = show_ranges(&[(0, 10), (20, 30)]);
        assert_eq!(output.search_start(), 0, "how much a first reply shows is a matter of timing");
        output.skip_search(0);
        assert_eq!(output.search_start(), 10, "what is in the gap is searched");
        output.skip_search(25);
        assert_eq!(output.search_start(), 30);
        output.skip_search(0);
        assert_eq!(output.search_start(), 30);
    }

    #[test]
    fn callers_jobs_and_streams_are_told_apart() {
        let seen = SeenOutputs::default();
        let one = CallerSession::Connection(1);
        let other = CallerSession::Connection(2);
        let job = JobId::local(1);
        seen.add((&one, job, None), iter::once(0..10));
        seen.add((&one, job, Some(Stream::Stderr)), iter::once(10..20));
        let end = |key| seen.find(key).end();
        assert_eq!(end((&one, job, None)), 10);
        assert_eq!(end((&one, job, Some(Stream::Stderr))), 20);
        assert_eq!(end((&one, job, Some(Stream::Stdout))), 10);
        assert_eq!((end((&other, job, None)), end((&one, JobId::local(2), None))), (0, 0));
    }

    /// Records that job `number` of the tenant was shown to a caller, and returns it.
    fn show_job(seen: &SeenOutputs, tenant: TenantId, number: u64) -> JobId {
        let job = JobNumber::new(number).for_tenant(tenant);
        seen.add((&CallerSession::Connection(1), job, None), iter::once(0..1));
        job
    }

    fn is_seen(seen: &SeenOutputs, job: JobId) -> bool {
        seen.find((&CallerSession::Connection(1), job, None)).end() > 0
    }

    #[test]
    fn the_row_that_changed_least_recently_makes_room() {
        let seen = SeenOutputs::default();
        let [first, second] = [1, 2].map(|number| show_job(&seen, TenantId::LOCAL, number));
        for number in 3..=MAX_OUTPUTS as u64 {
            show_job(&seen, TenantId::LOCAL, number);
        }
        show_job(&seen, TenantId::LOCAL, 1);
        let last = show_job(&seen, TenantId::LOCAL, MAX_OUTPUTS as u64 + 1);
        assert_eq!([first, second, last].map(|job| is_seen(&seen, job)), [true, false, true]);
        assert_eq!(seen.rows.lock().unwrap().by_key.len(), MAX_OUTPUTS);
    }

    #[test]
    fn a_tenant_with_many_rows_takes_the_room_of_no_other() {
        let seen = SeenOutputs::default();
        let quiet = show_job(&seen, TenantId::parse("seen-other").unwrap(), 1);
        for number in 1..=MAX_OUTPUTS as u64 + 100 {
            show_job(&seen, TenantId::LOCAL, number);
        }
        assert!(is_seen(&seen, quiet), "the oldest of all, but of another tenant");
        assert_eq!(seen.rows.lock().unwrap().by_key.len(), MAX_OUTPUTS);
    }

    #[tokio::test]
    async fn freed_jobs_leave_no_rows() {
        let seen = Arc::new(SeenOutputs::default());
        let [freed, kept] = [1, 2].map(|number| show_job(&seen, TenantId::LOCAL, number));
        let (sender, receiver) = mpsc::unbounded_channel();
        sender.send(freed).unwrap();
        drop(sender);
        Arc::clone(&seen).forget_freed(receiver).await;
        assert_eq!([freed, kept].map(|job| is_seen(&seen, job)), [false, true]);
    }

    proptest! {
        #[test]
        fn nothing_counts_as_seen_that_was_not_shown(
            shown in vec((0..200_u64, 0..20_u64), 0..60),
        ) {
            let mut seen = SeenOutput::default();
            let mut bytes = vec![false; 300];
            let mut end = 0;
            for (start, length) in shown {
                seen.add(start..start + length);
                (start..start + length).for_each(|byte| bytes[byte as usize] = true);
                end = if length > 0 { end.max(start + length) } else { end };
            }
            prop_assert_eq!(seen.end(), end);
            prop_assert!(seen.ranges.len() <= MAX_RANGES);
            prop_assert!(seen.ranges.is_sorted_by(|one, next| one.end < next.start));
            for range in &seen.ranges {
                prop_assert!(range.clone().all(|byte| bytes[byte as usize]), "{range:?}");
            }
        }

        #[test]
        fn reading_what_is_unseen_ends_with_everything_seen(
            shown in vec((0..200_u64, 1..20_u64), 0..60),
            page in 1..50_u64,
        ) {
            let mut seen = SeenOutput::default();
            shown.into_iter().for_each(|(start, length)| seen.add(start..start + length));
            let mut at = 0;
            while seen.first_unseen().start < 300 {
                let unseen = seen.first_unseen();
                prop_assert!(unseen.start >= at && unseen.start < unseen.end, "in order: {unseen:?}");
                at = unseen.end.min(unseen.start + page);
                seen.add(unseen.start..at);
            }
        }
    }

    fn caller(client: &str, session: u64) -> CallerContext {
        CallerContext {
            tenant: TenantId::LOCAL,
            role: CallerRole::Run,
            client: client.to_owned(),
            client_version: None,
            directory: None,
            session: CallerSession::Connection(session),
            trace: CallTrace::start(),
        }
    }

    fn add(jobs: &UnreportedJobs, number: u64, session: u64, to: ReportTo) {
        jobs.add(&caller("codex", session), JobId::local(number), to);
    }

    fn take(jobs: &UnreportedJobs, client: &str, session: u64) -> Vec<u64> {
        jobs.take(&caller(client, session)).into_iter().map(|job| job.number()).collect()
    }

    #[test]
    fn a_job_is_reported_once_to_the_session_of_its_call() {
        let jobs = UnreportedJobs::default();
        add(&jobs, 1, 7, ReportTo::SameSession);
        assert_eq!(take(&jobs, "codex", 8), [0_u64; 0], "another session");
        assert_eq!(take(&jobs, "gemini", 7), [0_u64; 0], "another client");
        assert_eq!(take(&jobs, "codex", 7), [1]);
        assert_eq!(take(&jobs, "codex", 7), [0_u64; 0], "once");
    }

    #[test]
    fn the_jobs_of_a_closed_session_are_reported_to_the_next_one_of_the_client() {
        let jobs = UnreportedJobs::default();
        add(&jobs, 1, 7, ReportTo::AnySession);
        add(&jobs, 2, 7, ReportTo::AnySession);
        assert_eq!(take(&jobs, "gemini", 8), [0_u64; 0], "another client");
        assert_eq!(take(&jobs, "codex", 8), [1, 2]);
    }

    #[test]
    fn their_number_is_bounded() {
        let jobs = UnreportedJobs::default();
        for number in 1..=MAX_UNREPORTED as u64 + 1 {
            add(&jobs, number, 7, ReportTo::AnySession);
        }
        let left = take(&jobs, "codex", 8);
        assert_eq!((left.len(), left[0]), (MAX_UNREPORTED, 2), "the oldest is dropped");
    }

    #[test]
    fn a_tenant_with_many_takes_the_room_of_no_other() {
        let jobs = UnreportedJobs::default();
        let other = TenantId::parse("unreported-other").unwrap();
        let quiet = CallerContext { tenant: other, ..caller("codex", 1) };
        jobs.add(&quiet, JobNumber::new(1).for_tenant(other), ReportTo::AnySession);
        for number in 1..=2 * MAX_UNREPORTED as u64 {
            add(&jobs, number, 7, ReportTo::AnySession);
        }
        assert_eq!(jobs.take(&quiet).len(), 1, "the oldest of all, but of another tenant");
        assert_eq!(take(&jobs, "codex", 8).len(), MAX_UNREPORTED - 1);
    }

    #[test]
    fn a_job_that_several_calls_waited_for_is_reported_once() {
        let jobs = UnreportedJobs::default();
        for number in [1, 2, 1] {
            add(&jobs, number, 7, ReportTo::SameSession);
        }
        assert_eq!(take(&jobs, "codex", 7), [2, 1]);
    }

    fn jobs<const N: usize>(numbers: [u64; N]) -> [JobId; N] {
        numbers.map(|number| JobNumber::new(number).for_tenant(TenantId::LOCAL))
    }

    #[test]
    fn empty_waits_are_counted_by_caller_and_jobs_until_there_is_news() {
        let waits = EmptyWaits::default();
        assert_eq!(waits.count("a", &jobs([1, 2])), 1);
        assert_eq!(waits.count("a", &jobs([2, 1])), 2);
        assert_eq!(waits.count("b", &jobs([1, 2])), 1);
        assert_eq!(waits.count("a", &jobs([1])), 1);
        waits.reset("a", &jobs([1, 2]));
        assert_eq!(waits.count("a", &jobs([1, 2])), 1);
    }

    #[test]
    fn rows_are_bounded() {
        let waits = EmptyWaits::default();
        for number in 1..=3 * MAX_WAIT_ROWS as u64 {
            waits.count("a", &jobs([number]));
        }
        assert!(waits.rows.lock().unwrap().len() <= MAX_WAIT_ROWS);
    }
}

//! What a job wrote, as bytes for those who carry them elsewhere.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::submission::{Submission, SubmitError};
use super::tenancy::JobTickets;
use super::tenant_client::TenantClient;
use crate::ids::JobId;
use crate::job::JobHandle;
use crate::output::views::{is_binary, mime};
use crate::output::{GzipError, Gzipped, LogProgress, LogReader, RawReader, SpillDir, gzip};
use crate::spec::Stream;
use crate::supervisor::FindError;

/// How much decides what kind of content it is.
const SAMPLE: u64 = 8 * 1024;

/// What a job had written at one moment: both streams as they came, or one of them. It stays
/// readable for as long as this is held.
#[derive(Debug, Clone)]
pub struct JobOutput {
    log: LogReader,
    stream: Option<Stream>,
    then: LogProgress,
}

/// What kind of content an output is, by its first 8 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    /// UTF-8 text.
    Text,
    /// A known binary format, by its media type.
    Known(&'static str),
    /// Anything else.
    Bytes,
}

impl TenantClient {
    /// What a job has written until now. The bytes are as stored: nothing in them is masked but
    /// what `redact.at_write` masked.
    ///
    /// # Errors
    /// When there is no such job.
    pub async fn output(&self, id: JobId, stream: Option<Stream>) -> Result<JobOutput, FindError> {
        let log = self.find(id).await?.output().clone();
        let then = log.progress();
        Ok(JobOutput { log, stream, then })
    }
}

impl JobOutput {
    /// How many bytes there are.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.then.bytes_of(self.stream)
    }

    /// Whether nothing will follow.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.then.closed
    }

    /// Returns what kind of content it is, by its first bytes that are there.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn kind(&self) -> io::Result<ContentKind> {
        let start = match self.first_hole(0..self.length()).await? {
            Some(hole) if hole.start == 0 => hole.end,
            Some(_) | None => 0,
        };
        let end = self.length().min(start + SAMPLE);
        let end = self.first_hole(start..end).await?.map_or(end, |hole| hole.start);
        Ok(kind_of(&self.read(start..end).await?.next_block().await?.unwrap_or_default()))
    }

    /// Returns the first bytes of a range that were not kept, where there are such; positions
    /// count its own bytes.
    ///
    /// # Errors
    /// When that cannot be read.
    pub async fn first_hole(&self, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        let stream = self.stream;
        self.log.read_with(move |log| log.first_hole(stream, range)).await
    }

    /// Bytes of the job, of either stream, that could not be kept. They have no positions.
    #[must_use]
    pub const fn dropped_bytes(&self) -> u64 {
        self.then.dropped_bytes
    }

    /// Starts to read a range of it; positions count its own bytes, from 0.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn read(&self, range: Range<u64>) -> io::Result<RawReader> {
        self.log.raw_reader(self.stream, range).await
    }
}

fn kind_of(sample: &[u8]) -> ContentKind {
    // A character that the sample's end cuts in two is still text.
    let is_utf8 = match str::from_utf8(sample) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && sample.len() as u64 == SAMPLE,
    };
    match (is_binary(sample), is_utf8) {
        (false, true) => ContentKind::Text,
        (true, _) => match mime(sample) {
            "application/octet-stream" => ContentKind::Bytes,
            known => ContentKind::Known(known),
        },
        (false, false) => ContentKind::Bytes,
    }
}

// Spilled output: the ticket and the packed form of a job.

/// Gzipped forms that are kept; an older one is made anew when it is asked for again.
const MAX_PACKED: usize = 8;

/// JobTickets, and the newest packed forms.
#[derive(Debug)]
pub(super) struct Spilled {
    tickets: JobTickets,
    /// Where packed forms go.
    dir: SpillDir,
    /// The newest last. The lock is never held while something is packed.
    packed: Mutex<VecDeque<Kept>>,
}

#[derive(Debug, Clone)]
struct Kept {
    job: JobId,
    stream: Stream,
    packed: Arc<Gzipped>,
}

impl Spilled {
    pub(super) fn new(dir: SpillDir) -> Result<Self, getrandom::Error> {
        Ok(Self { tickets: JobTickets::new()?, dir, packed: Mutex::default() })
    }

    /// What is packed was masked by the rules of its time.
    pub(super) fn forget_packed(&self) {
        self.packed.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn kept(&self, job: JobId, stream: Stream) -> Option<Arc<Gzipped>> {
        let packed = self.packed.lock().unwrap_or_else(PoisonError::into_inner);
        let found = packed.iter().find(|kept| kept.job == job && kept.stream == stream);
        found.map(|kept| Arc::clone(&kept.packed))
    }

    fn keep(&self, kept: Kept) {
        let mut packed = self.packed.lock().unwrap_or_else(PoisonError::into_inner);
        if packed.len() == MAX_PACKED {
            packed.pop_front();
        }
        packed.push_back(kept);
    }
}

impl TenantClient {
    /// A name for a job that nobody can guess: digits, a `-` and hexadecimal digits. It holds as
    /// long as this server runs and the job is kept.
    #[must_use]
    pub fn ticket(&self, job: JobId) -> String {
        self.service.spilled.tickets.issue(job)
    }

    /// The job that a ticket names, if it is still kept.
    pub async fn find_by_ticket(&self, ticket: &str) -> Option<JobHandle> {
        self.find(self.service.spilled.tickets.verify(self.caller.tenant, ticket)?).await.ok()
    }

    /// The same with two numbers that travel along.
    #[must_use]
    pub fn ticket_with_numbers(&self, job: JobId, numbers: [u64; 2]) -> String {
        self.service.spilled.tickets.issue_with_numbers(job, numbers)
    }

    /// The job that such a ticket names, whether it is kept or not, and the numbers.
    #[must_use]
    pub fn read_ticket_with_numbers(&self, ticket: &str) -> Option<(JobId, [u64; 2])> {
        self.service.spilled.tickets.verify_with_numbers(self.caller.tenant, ticket)
    }

    /// The jobs that were asked for with the same words (program, directory and
    /// variables), newest first.
    ///
    /// # Errors
    /// When the submission could not be run at all.
    pub async fn list_same_command(
        &self,
        submission: &Submission,
    ) -> Result<Vec<JobHandle>, SubmitError> {
        let wanted =
            self.placed(submission.clone()).complete(&self.service.defaults(), &self.caller)?;
        let is_same = |job: &JobHandle| {
            let spec = job.spec();
            (&spec.program, &spec.cwd, &spec.env) == (&wanted.program, &wanted.cwd, &wanted.env)
        };
        Ok(self.list().await.into_iter().filter(is_same).collect())
    }

    /// What a job wrote to a stream, as gzip data with its secrets masked.
    ///
    /// # Errors
    /// When there is too much of it, or a file could not be read or written.
    pub async fn gzip_output(
        &self,
        job: &JobHandle,
        stream: Stream,
    ) -> Result<Arc<Gzipped>, GzipError> {
        if let Some(packed) = self.service.spilled.kept(job.id(), stream) {
            return Ok(packed);
        }
        let redactor = self.redactor();
        let dir = &self.service.spilled.dir;
        let packed = Arc::new(gzip(job.output(), stream, &redactor, dir).await?);
        self.service.spilled.keep(Kept { job: job.id(), stream, packed: Arc::clone(&packed) });
        Ok(packed)
    }
}

// How far each caller has seen the output of a job.

/// So many outputs are known at a time; then all of them count as unseen again.
const MAX_SEEN_ROWS: usize = 10_000;

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
        if rows.len() >= MAX_SEEN_ROWS && !rows.contains_key(&row) {
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

// Counts of waits in a row that ended with nothing new, to tell callers that poll.

/// So many rows are counted at a time; then all of them begin anew.
const MAX_WAIT_ROWS: usize = 1000;

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
        if rows.len() >= MAX_WAIT_ROWS && !rows.contains_key(&row) {
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

    #[test]
    fn only_utf8_is_called_text() {
        let cut = [&b"x".repeat(SAMPLE as usize - 1)[..], b"\xc3"].concat();
        for (sample, expected) in [
            (&b""[..], ContentKind::Text),
            ("grüße\n".as_bytes(), ContentKind::Text),
            (b"<html><script>alert(1)</script></html>", ContentKind::Text),
            (&cut, ContentKind::Text),
            (b"caf\xe9\n", ContentKind::Bytes),
            (&[0; 100], ContentKind::Bytes),
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01", ContentKind::Known("image/png")),
        ] {
            assert_eq!(kind_of(sample), expected, "{sample:?}");
        }
    }
}

#[cfg(test)]
mod seen_tests {
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
        for number in 1..=3 * MAX_SEEN_ROWS as u64 {
            seen.note("a", JobId::local(number), 0..1);
        }
        assert!(seen.rows.lock().unwrap().len() <= MAX_SEEN_ROWS);
    }
}

#[cfg(test)]
mod empty_waits_tests {
    use super::*;
    use crate::ids::{JobNumber, TenantId};

    fn jobs<const N: usize>(numbers: [u64; N]) -> [JobId; N] {
        numbers.map(|number| JobNumber::new(number).for_tenant(TenantId::LOCAL))
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
        for number in 1..=3 * MAX_WAIT_ROWS as u64 {
            waits.one_more("a", &jobs([number]));
        }
        assert!(waits.rows.lock().unwrap().len() <= MAX_WAIT_ROWS);
    }
}

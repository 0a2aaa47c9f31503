//! The output of a job as bytes, for downloads, and the count of waits that brought nothing.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::submission::{Submission, SubmitError};
use super::tenancy::JobTickets;
use super::tenant_client::TenantClient;
use crate::ids::JobId;
use crate::job::{JobHandle, StreamError};
use crate::output::views::{is_binary, mime};
use crate::output::{
    GzipError, Gzipped, Hole, LogProgress, LogReader, RawReader, SpillDir, StartAt, gzip,
};
use crate::spec::Stream;

/// The bytes that decide the kind of content.
const SAMPLE: u64 = 8 * 1024;

/// The output of a job up to one moment: all of it in the order of arrival, or one stream. It stays
/// readable for as long as this value exists.
#[derive(Debug, Clone)]
pub struct JobOutput {
    log: LogReader,
    stream: Option<Stream>,
    progress: LogProgress,
}

/// The kind of content of an output, by its first 8 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    Text,
    /// A known binary format; the value is its media type.
    Known(&'static str),
    Bytes,
}

impl JobOutput {
    /// Returns the output of a job up to now. The bytes are as stored: only `redact.at_write` masks
    /// anything in them.
    ///
    /// # Errors
    /// If only one stream is asked for, and the job's streams are merged.
    pub fn open(job: &JobHandle, stream: Option<Stream>) -> Result<Self, StreamError> {
        job.check_stream(stream)?;
        let log = job.output().clone();
        let progress = log.progress();
        Ok(Self { log, stream, progress })
    }

    #[must_use]
    pub const fn length(&self) -> u64 {
        self.progress.bytes_of(self.stream)
    }

    /// `true` if no more output will follow.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.progress.closed
    }

    /// Returns the kind of content, by the first bytes that are stored.
    ///
    /// # Errors
    /// If the output cannot be read.
    pub async fn kind(&self) -> io::Result<ContentKind> {
        let start = match self.find_first_hole(0..self.length()).await? {
            Some(hole) if hole.start == 0 => hole.end,
            Some(_) | None => 0,
        };
        let end = self.length().min(start + SAMPLE);
        let end = self.find_first_hole(start..end).await?.map_or(end, |hole| hole.start);
        Ok(detect_kind(&self.read(start..end).await?.next_block().await?.unwrap_or_default()))
    }

    /// Returns the first gap in a range: bytes that were not stored. Positions count the bytes of this
    /// output, from 0.
    ///
    /// # Errors
    /// If the output cannot be read.
    pub async fn find_first_hole(&self, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        let stream = self.stream;
        self.log.read_with(move |log| log.first_hole(stream, range)).await
    }

    /// Lists the holes in a range.
    ///
    /// # Errors
    /// If the output cannot be read.
    pub async fn find_holes(&self, range: Range<u64>) -> io::Result<Vec<Hole>> {
        self.log.find_holes(self.stream, range).await
    }

    /// Returns the position of a start; it may be after the end of this output.
    ///
    /// # Errors
    /// If the output cannot be read.
    pub async fn find_start(&self, start: StartAt) -> io::Result<u64> {
        let position = self.log.find_start(self.stream, start).await?;
        Ok(match start {
            StartAt::Position(_) => position,
            // The log may have grown since this output was taken.
            StartAt::LastLines(_) | StartAt::Time(_) | StartAt::LastLinesSince { .. } => {
                position.min(self.length())
            }
        })
    }

    /// The number of bytes of both streams that could not be stored. They have no positions.
    #[must_use]
    pub const fn dropped_bytes(&self) -> u64 {
        self.progress.dropped_bytes
    }

    /// Starts to read a range, without the bytes in its holes. Positions count the bytes of this output,
    /// from 0.
    ///
    /// # Errors
    /// If the output cannot be read.
    pub async fn read(&self, range: Range<u64>) -> io::Result<RawReader> {
        self.log.raw_reader(self.stream, range).await
    }
}

fn detect_kind(sample: &[u8]) -> ContentKind {
    // The end of the sample may cut a character in two.
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

/// The most gzipped outputs in the cache; an older one is compressed again on demand.
const MAX_CACHED: usize = 8;

/// Everything for downloads of output: tickets, and a cache of gzipped outputs.
#[derive(Debug)]
pub(super) struct OutputDownloads {
    tickets: JobTickets,
    /// The directory of the gzipped outputs.
    dir: SpillDir,
    /// Gzipped outputs, newest last. The lock is never held during compression.
    cache: Mutex<VecDeque<CachedGzip>>,
}

#[derive(Debug, Clone)]
struct CachedGzip {
    job: JobId,
    stream: Stream,
    gzipped: Arc<Gzipped>,
}

impl OutputDownloads {
    /// Creates the state of downloads; `secret` is the file with the secret of tickets, if they
    /// stay valid across restarts.
    pub(super) fn new(dir: SpillDir, secret: Option<&Path>) -> Result<Self, getrandom::Error> {
        Ok(Self { tickets: JobTickets::open(secret)?, dir, cache: Mutex::default() })
    }

    /// Empties the cache after a change of rules: its contents were masked by the old rules.
    pub(super) fn clear(&self) {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn find(&self, job: JobId, stream: Stream) -> Option<Arc<Gzipped>> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let found = cache.iter().find(|cached| cached.job == job && cached.stream == stream);
        found.map(|cached| Arc::clone(&cached.gzipped))
    }

    fn insert(&self, cached: CachedGzip) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() == MAX_CACHED {
            cache.pop_front();
        }
        cache.push_back(cached);
    }
}

impl TenantClient {
    /// Returns an unguessable name of a job: digits, a `-` and hexadecimal digits. It is valid while
    /// this server runs and the job is kept.
    #[must_use]
    pub fn ticket(&self, job: JobId) -> String {
        self.service.downloads.tickets.issue(job)
    }

    /// Finds the job that a ticket names, if it is still kept.
    pub async fn find_by_ticket(&self, ticket: &str) -> Option<JobHandle> {
        self.find(self.service.downloads.tickets.verify(self.caller.tenant, ticket)?).await.ok()
    }

    /// Returns a ticket that also carries two numbers.
    #[must_use]
    pub fn ticket_with_numbers(&self, job: JobId, numbers: [u64; 2]) -> String {
        self.service.downloads.tickets.issue_with_numbers(job, numbers)
    }

    /// Reads a ticket with numbers: the job, whether it is still kept or not, and the numbers.
    #[must_use]
    pub fn read_ticket_with_numbers(&self, ticket: &str) -> Option<(JobId, [u64; 2])> {
        self.service.downloads.tickets.verify_with_numbers(self.caller.tenant, ticket)
    }

    /// Lists the jobs with the same program, directory and variables, newest first.
    ///
    /// # Errors
    /// If the submission is not valid.
    pub async fn list_same_command(
        &self,
        submission: &Submission,
    ) -> Result<Vec<JobHandle>, SubmitError> {
        let wanted = self
            .resolve_directory(submission.clone())
            .complete(&self.service.defaults(), &self.caller)?;
        let is_same = |job: &JobHandle| {
            let spec = job.spec();
            (&spec.program, &spec.cwd, &spec.env) == (&wanted.program, &wanted.cwd, &wanted.env)
        };
        Ok(self.list().await.into_iter().filter(is_same).collect())
    }

    /// Returns one stream of a job's output as gzip data, with secrets masked.
    ///
    /// # Errors
    /// If the output is too large, or a file cannot be read or written.
    pub async fn gzip_output(
        &self,
        job: &JobHandle,
        stream: Stream,
    ) -> Result<Arc<Gzipped>, GzipError> {
        if let Some(gzipped) = self.service.downloads.find(job.id(), stream) {
            return Ok(gzipped);
        }
        let redactor = self.redactor();
        let dir = &self.service.downloads.dir;
        let gzipped = Arc::new(gzip(job.output(), stream, &redactor, dir).await?);
        let cached = CachedGzip { job: job.id(), stream, gzipped: Arc::clone(&gzipped) };
        self.service.downloads.insert(cached);
        Ok(gzipped)
    }
}

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
    use super::*;

    #[test]
    fn only_utf8_counts_as_text() {
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
            assert_eq!(detect_kind(sample), expected, "{sample:?}");
        }
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

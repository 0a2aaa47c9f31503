//! The output of a job: as bytes up to one moment, for downloads, and piece by piece while the job
//! writes it.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::restore::JobTickets;
use super::submission::{Submission, SubmitError};
use super::tenant_client::TenantClient;
use crate::ids::JobId;
use crate::job::{JobHandle, StreamError};
use crate::output::views::{is_binary, mime};
use crate::output::{
    FollowedStreams, GzipError, Gzipped, Hole, LogPiece, LogProgress, LogReader, LostBytes,
    RawReader, SpillDir, StartAt, gzip,
};
use crate::spec::{Stream, StreamMode};

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
        let mut wanted = submission.clone();
        wanted.cwd = self.resolve_directory(wanted.cwd, wanted.within);
        let wanted =
            wanted.complete(&self.service.defaults(), &self.start_directory(), &self.caller)?;
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

// Following the output of a job.

/// The time in which losses at one position are told together.
const LOSS_TIME: Duration = Duration::from_secs(1);

/// Reads the output of a job from a position on, until it is complete.
#[derive(Debug)]
pub struct JobOutputReader {
    log: LogReader,
    streams: FollowedStreams,
    position: u64,
    /// The bytes that were lost right before the position, as far as the caller knows of them.
    known_lost: u64,
}

/// The next part of a job's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputPiece {
    Bytes {
        /// The stream; `None` if the job's streams are merged.
        stream: Option<Stream>,
        bytes: Vec<u8>,
        /// `true` if later bytes may continue these.
        may_grow: bool,
    },
    /// Positions whose bytes were not kept.
    Missing(Hole),
    /// Bytes that were lost right before the position. They have no positions.
    Lost(LostBytes),
    /// Nothing more will come.
    End,
}

/// The reason why output cannot be followed from a place.
#[derive(Debug)]
pub enum FollowError {
    Stream(StreamError),
    /// The start is after the end of the output, which has this length.
    Outside {
        length: u64,
    },
    Read(io::Error),
}

impl JobOutputReader {
    /// Opens the output of a job, or one stream of it, at a place.
    ///
    /// # Errors
    /// If only one stream is asked for and the job's streams are merged, if the place is after the end,
    /// or if the output cannot be read.
    pub async fn open(
        job: &JobHandle,
        stream: Option<Stream>,
        start: StartAt,
    ) -> Result<Self, FollowError> {
        job.check_stream(stream).map_err(FollowError::Stream)?;
        let streams = match (stream, job.spec().streams) {
            (Some(stream), _) => FollowedStreams::One(stream),
            (None, StreamMode::Merged) => FollowedStreams::Merged,
            (None, StreamMode::Separate) => FollowedStreams::Apart,
        };
        let log = job.output().clone();
        let position = log.find_start(stream, start).await.map_err(FollowError::Read)?;
        let length = log.progress().bytes_of(stream);
        if position > length {
            return Err(FollowError::Outside { length });
        }
        Ok(Self { log, streams, position, known_lost: 0 })
    }

    /// The position of the next byte.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// The number of bytes that were lost right before the position, as far as the caller knows.
    #[must_use]
    pub const fn known_lost(&self) -> u64 {
        self.known_lost
    }

    /// The next bytes that were lost right before the position and of which the caller does not know.
    /// The stream of lost bytes is not known, so a reader of one stream finds none.
    #[must_use]
    pub fn find_loss(&self) -> Option<LostBytes> {
        match self.streams.only() {
            None => self.log.find_loss(self.position, self.known_lost),
            Some(_) => None,
        }
    }

    /// The length of the output now.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.log.progress().bytes_of(self.streams.only())
    }

    /// Lists the holes between the position and the present end of the output.
    ///
    /// # Errors
    /// If the output cannot be read.
    pub async fn find_holes(&self) -> io::Result<Vec<Hole>> {
        self.log.find_holes(self.streams.only(), self.position..self.length()).await
    }

    /// `true` if the output is complete, and nothing of it comes after the position.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        let progress = self.log.progress();
        progress.closed && self.position >= progress.bytes_of(self.streams.only())
    }

    /// Returns what stands at the position now, and waits for it if necessary. The position stays
    /// until [`advance`](Self::advance), and a loss is repeated until
    /// [`mark_loss_known`](Self::mark_loss_known). A loss that goes on is told once a second. Dropping
    /// the future loses nothing.
    ///
    /// # Errors
    /// If the output cannot be read.
    pub async fn peek(&self) -> io::Result<OutputPiece> {
        loop {
            let dropped = self.log.progress().dropped_bytes;
            match self.log.next_piece(self.streams, self.position, self.known_lost).await? {
                LogPiece::Bytes { stream, bytes, may_grow } => {
                    return Ok(OutputPiece::Bytes { stream, bytes, may_grow });
                }
                LogPiece::Missing(hole) => return Ok(OutputPiece::Missing(hole)),
                LogPiece::Lost(lost) => {
                    self.wait_while_losing().await;
                    return Ok(OutputPiece::Lost(self.find_loss().unwrap_or(lost)));
                }
                LogPiece::End => return Ok(OutputPiece::End),
                LogPiece::CaughtUp(total) => tokio::select! {
                    () = self.log.wait_past(total) => {}
                    () = self.wait_for_loss(dropped) => {}
                },
            }
        }
    }

    /// Waits after a loss, if the caller knows of an earlier one at the same position and nothing
    /// follows.
    async fn wait_while_losing(&self) {
        let progress = self.log.progress();
        let is_last = !progress.closed && self.position >= progress.total_bytes;
        if is_last && self.known_lost > 0 {
            timeout(LOSS_TIME, self.log.wait_past(progress.total_bytes)).await.ok();
        }
    }

    /// Waits until more than `dropped` bytes were lost, and a moment for those that follow.
    async fn wait_for_loss(&self, dropped: u64) {
        match self.streams.only() {
            None => {
                self.log.wait_for_loss(dropped).await;
                sleep(LOSS_TIME).await;
            }
            Some(_) => std::future::pending().await,
        }
    }

    /// Moves the position on, past bytes that were used.
    pub const fn advance(&mut self, bytes: u64) {
        self.position += bytes;
        self.known_lost = 0;
    }

    /// Moves on past bytes that were lost at the position.
    pub const fn mark_loss_known(&mut self, bytes: u64) {
        self.known_lost += bytes;
    }

    /// Waits until the output has grown after the bytes that [`peek`](Self::peek) has returned, or is
    /// complete.
    pub async fn wait_for_more(&self, peeked: u64) {
        let stands = self.position + peeked;
        loop {
            let progress = self.log.progress();
            if progress.closed || progress.bytes_of(self.streams.only()) > stands {
                return;
            }
            self.log.wait_past(progress.total_bytes).await;
        }
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

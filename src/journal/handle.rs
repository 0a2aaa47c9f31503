//! The public handle of the journal, and the queue of the records that wait for the writer.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Deserializer};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::record::{JournalError, Record};
use super::replay::{ReplayReport, read_journal};
use super::segment::{self, create_directory, list_segments};
use super::state::{JobStep, JournalState, RecordKey};
use super::unopened::{JournalPlace, UnopenedJournal};
use super::writer::{JournalWriter, start_writer};
use crate::output::DiskWatch;
use crate::setting_values::deserialize_word;

/// The handle of a journal. Cheap to clone. The journal is closed when the last handle is dropped; records that
/// wait then are still written.
#[derive(Debug, Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    report: ReplayReport,
}

/// The parts that handles and the writer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queue: WriteQueue,
    pub(super) health: watch::Sender<JournalHealth>,
    pub(super) counters: Counters,
    pub(super) disk: DiskWatch,
}

impl Shared {
    /// Publishes the health, if it has changed.
    pub(super) fn publish(&self, health: JournalHealth) {
        self.health.send_if_modified(|current| {
            let is_changed = *current != health;
            *current = health;
            is_changed
        });
    }
}

/// The health of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalHealth {
    Healthy,
    /// The journal is written, but the disk has no room for its reserve.
    LowSpace,
    /// The journal cannot be written: a crash of the server now would lose what happens.
    Degraded {
        why: Arc<str>,
    },
}

/// A record on its way to the disk. Dropping the ticket does not stop the record.
#[derive(Debug)]
#[must_use = "a record is written for certain only after `written`"]
pub struct JournalTicket {
    result: Result<oneshot::Receiver<Result<(), JournalError>>, JournalError>,
    disk: DiskWatch,
}

/// The longest wait for a record: a disk that does not answer delays jobs no further.
const RECORD_TIME: Duration = Duration::from_millis(500);

impl JournalTicket {
    /// Waits until the record is written, but not for a disk that does not answer.
    ///
    /// # Errors
    /// As [`JournalTicket::written`]; [`JournalError::Slow`] if the record is still on its way.
    pub async fn written_soon(self) -> Result<(), JournalError> {
        let time = if self.disk.is_stuck() { Duration::ZERO } else { RECORD_TIME };
        timeout(time, self.written()).await.unwrap_or(Err(JournalError::Slow))
    }

    /// Waits until the record is as durable as the setting `durability` demands.
    ///
    /// # Errors
    /// If the record is not written, or not yet: see [`JournalError`].
    pub async fn written(self) -> Result<(), JournalError> {
        self.result?.await.unwrap_or(Err(JournalError::Closed))
    }
}

impl Journal {
    /// Reads the journal in this directory, which is created if its parent exists, and starts the writer. Only one
    /// process may have a journal open; the caller holds the lock on the data directory.
    ///
    /// A journal that can be read and not written is degraded until it can be written.
    ///
    /// # Errors
    /// If the directory exists and cannot be read, or a later version has written it.
    pub fn open(dir: &Path, durability: Durability) -> Result<(Self, JournalState), JournalError> {
        Self::open_with(dir, durability, JournalSizes::DEFAULT)
    }

    pub(super) fn open_with(
        dir: &Path,
        durability: Durability,
        sizes: JournalSizes,
    ) -> Result<(Self, JournalState), JournalError> {
        let unusable = |error| JournalError::unusable(dir, error);
        let numbers = match create_directory(dir) {
            // What cannot be created is not there.
            Err(_) if !dir.try_exists().map_err(unusable)? => Vec::new(),
            created => {
                created.map_err(unusable)?;
                list_segments(dir)?
            }
        };
        let mut replay = read_journal(dir, &numbers)?;
        let state = replay.read_state();
        let report = replay.report;
        let shared = Arc::new(Shared {
            queue: WriteQueue::new(sizes.queue),
            health: watch::Sender::new(JournalHealth::Healthy),
            counters: Counters::default(),
            disk: DiskWatch::default(),
        });
        let place = JournalPlace::new(dir, durability, sizes);
        let started = match JournalWriter::open(&place, &mut replay, Arc::clone(&shared)) {
            Ok(writer) => start_writer(Arc::clone(&shared), || Some(writer)),
            Err(error) => {
                let unopened = UnopenedJournal::new(place, replay, &error, Arc::clone(&shared));
                start_writer(Arc::clone(&shared), || unopened.wait())
            }
        };
        started.map_err(unusable)?;
        Ok((Self { inner: Arc::new(Inner { shared, report }) }, state))
    }

    /// Adds a record. Records are written in the order in which they are added. Never waits for the disk.
    pub fn append(&self, record: &Record) -> JournalTicket {
        let (sender, receiver) = oneshot::channel();
        let pushed = self.inner.shared.queue.push(record, sender);
        if pushed.is_err() {
            self.inner.shared.counters.lost.fetch_add(1, Ordering::Relaxed);
        }
        JournalTicket { result: pushed.map(|()| receiver), disk: self.disk().clone() }
    }

    /// Returns the watch over the disk of the journal.
    #[must_use]
    pub fn disk(&self) -> &DiskWatch {
        &self.inner.shared.disk
    }

    /// Returns the health, as a value that can be watched.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<JournalHealth> {
        self.inner.shared.health.subscribe()
    }

    /// `true` if records are written now.
    #[must_use]
    pub fn is_written(&self) -> bool {
        let is_healthy = match *self.inner.shared.health.borrow() {
            JournalHealth::Healthy | JournalHealth::LowSpace => true,
            JournalHealth::Degraded { .. } => false,
        };
        is_healthy && !self.disk().is_stuck()
    }

    /// Returns the counts for metrics.
    #[must_use]
    pub fn counts(&self) -> JournalCounts {
        self.inner.shared.counters.read()
    }

    /// Returns the numbers of the replay at the start.
    #[must_use]
    pub fn replay_report(&self) -> ReplayReport {
        self.inner.report
    }

    /// Writes and syncs all records that wait, and takes no more. Blocks for at most this time; `false` if the
    /// disk did not answer in it.
    pub fn close(&self, at_most: Duration) -> bool {
        self.inner.shared.queue.close();
        self.inner.shared.queue.wait_for_end(at_most)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

/// The counts of a journal since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JournalCounts {
    /// The records that were written.
    pub records: u64,
    /// The bytes of these records.
    pub bytes: u64,
    /// The writes, each for all records that waited.
    pub batches: u64,
    /// The time that these writes took, with their `fsync`.
    pub write_time: Duration,
    /// The segments that were begun.
    pub segments: u64,
    /// The bytes of the present segment.
    pub segment_bytes: u64,
    /// The failed writes, syncs and checkpoints.
    pub errors: u64,
    /// The records that were neither written nor kept.
    pub lost: u64,
    /// The bytes of records that a degraded journal keeps in memory.
    pub kept_bytes: u64,
}

/// The counts, as the writer updates them.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) records: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) write_nanos: AtomicU64,
    pub(super) segments: AtomicU64,
    pub(super) segment_bytes: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) kept_bytes: AtomicU64,
}

impl Counters {
    fn read(&self) -> JournalCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        JournalCounts {
            records: read(&self.records),
            bytes: read(&self.bytes),
            batches: read(&self.batches),
            write_time: Duration::from_nanos(read(&self.write_nanos)),
            segments: read(&self.segments),
            segment_bytes: read(&self.segment_bytes),
            errors: read(&self.errors),
            lost: read(&self.lost),
            kept_bytes: read(&self.kept_bytes),
        }
    }
}

/// The moment from which a record counts as written. Every value survives the death of the server; only the last
/// two survive the death of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The kernel has the record.
    #[default]
    Os,
    /// The disk has the record; one `fsync` serves all records that wait.
    Group,
    /// The disk has the record; each record has its own `fsync`.
    Each,
}

impl Durability {
    /// Each value with its name in the settings.
    pub const WORDS: [(&'static str, Self); 3] =
        [("os", Self::Os), ("group", Self::Group), ("each", Self::Each)];
}

impl<'de> Deserialize<'de> for Durability {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        deserialize_word(input, &Self::WORDS)
    }
}

/// The sizes of a journal.
#[derive(Debug, Clone, Copy)]
pub(super) struct JournalSizes {
    /// A segment with more bytes than this after its checkpoint is followed by a new one.
    pub(super) segment: u64,
    pub(super) reserve: u64,
    /// The most bytes that wait for the writer.
    pub(super) queue: usize,
    /// The most bytes that a degraded journal keeps in memory.
    pub(super) kept: usize,
}

impl JournalSizes {
    const DEFAULT: Self =
        Self { segment: 16 << 20, reserve: 16 << 20, queue: 64 << 20, kept: 16 << 20 };
}

/// Sends the result of a write to the ticket of its record.
type ResultSender = oneshot::Sender<Result<(), JournalError>>;

/// The records that one write writes.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The lines of all records.
    pub(super) lines: Vec<u8>,
    pub(super) records: Vec<QueuedRecord>,
}

/// A record in a batch.
#[derive(Debug)]
pub(super) struct QueuedRecord {
    pub(super) key: RecordKey,
    /// The length of its line.
    pub(super) len: u32,
    pub(super) result: Option<ResultSender>,
}

impl QueuedRecord {
    /// Tells the ticket. Nobody may wait for it.
    pub(super) fn send_result(&mut self, result: Result<(), JournalError>) {
        if let Some(sender) = self.result.take() {
            sender.send(result).ok();
        }
    }
}

/// `true` if a record announces a job, which can still be refused. The others say what has happened.
pub(super) const fn is_announcement(key: &RecordKey) -> bool {
    match key {
        RecordKey::Job(JobStep::Accepted | JobStep::Queued | JobStep::Starting, _) => true,
        RecordKey::Job(JobStep::Started | JobStep::Ended | JobStep::Freed, _)
        | RecordKey::Approval(_)
        | RecordKey::Number(_) => false,
    }
}

/// The longest time that a record which nobody waits for is left alone, so that one write takes it
/// together with others.
const GATHER_TIME: Duration = Duration::from_millis(10);

/// `true` if somebody waits for the record, or does something that depends on it.
const fn is_urgent(key: &RecordKey) -> bool {
    match key {
        RecordKey::Job(JobStep::Queued | JobStep::Starting, _)
        | RecordKey::Approval(_)
        | RecordKey::Number(_) => true,
        // An accepted job is starting or queued in the same moment. Until the end of a job is
        // recorded, the keeper has its exit code.
        RecordKey::Job(
            JobStep::Accepted | JobStep::Started | JobStep::Ended | JobStep::Freed,
            _,
        ) => false,
    }
}

/// The state of the writer, as far as callers have to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum WriterState {
    /// It writes, or it was woken.
    #[default]
    Busy,
    /// It waits for an urgent record until the records that have come are old enough.
    Gathering,
    /// It waits for any record.
    Idle,
}

/// The queue between the callers and the writer.
#[derive(Debug)]
pub(super) struct WriteQueue {
    state: Mutex<QueueState>,
    added: Condvar,
    ended: Condvar,
    /// The most bytes that may wait. Records that announce a job may take half of them.
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct QueueState {
    batch: Batch,
    is_closed: bool,
    /// `true` if the batch has an urgent record.
    is_urgent: bool,
    writer: WriterState,
    has_writer_ended: bool,
}

/// The reason why the writer was woken.
#[derive(Debug)]
pub(super) enum WriterWork {
    Batch(Batch),
    /// No record came in the given time.
    Timeout,
    /// The journal was closed, and nothing waits any more.
    Closed,
}

impl WriteQueue {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { state: Mutex::default(), added: Condvar::new(), ended: Condvar::new(), max_bytes }
    }

    /// Adds a record.
    pub(super) fn push(&self, record: &Record, result: ResultSender) -> Result<(), JournalError> {
        let key = RecordKey::new(record);
        let mut state = self.lock();
        let bound = if is_announcement(&key) { self.max_bytes / 2 } else { self.max_bytes };
        if state.is_closed {
            return Err(JournalError::Closed);
        }
        if state.batch.lines.len() >= bound {
            return Err(JournalError::QueueFull);
        }
        let start = state.batch.lines.len();
        segment::encode_line(record, &mut state.batch.lines)?;
        let Ok(len) = u32::try_from(state.batch.lines.len() - start) else {
            state.batch.lines.truncate(start);
            return Err(JournalError::QueueFull);
        };
        state.is_urgent |= is_urgent(&key);
        state.batch.records.push(QueuedRecord { key, len, result: Some(result) });
        let must_wake = match state.writer {
            WriterState::Busy => false,
            WriterState::Gathering => state.is_urgent,
            WriterState::Idle => true,
        };
        if must_wake {
            state.writer = WriterState::Busy;
            drop(state);
            self.added.notify_one();
        }
        Ok(())
    }

    /// Waits for records: a moment for others if none of them is urgent. `spare` is an empty batch
    /// whose memory is used again.
    pub(super) fn wait(&self, spare: Batch, at_most: Option<Duration>) -> WriterWork {
        // Right after a batch, the next records are likely to follow soon.
        let mut gather_until = Instant::now() + GATHER_TIME;
        let mut state = self.lock();
        loop {
            let has_records = !state.batch.records.is_empty();
            let time_left = gather_until.saturating_duration_since(Instant::now());
            if has_records && (state.is_urgent || state.is_closed || time_left.is_zero()) {
                break;
            }
            if state.is_closed {
                return WriterWork::Closed;
            }
            let is_gathering = !time_left.is_zero();
            state.writer = if is_gathering { WriterState::Gathering } else { WriterState::Idle };
            let time = if is_gathering { Some(time_left) } else { at_most };
            let is_over;
            (state, is_over) = self.wait_at_most(state, time);
            state.writer = WriterState::Busy;
            if is_gathering {
                continue;
            }
            if is_over && state.batch.records.is_empty() {
                return WriterWork::Timeout;
            }
            gather_until = Instant::now() + GATHER_TIME;
        }
        state.is_urgent = false;
        WriterWork::Batch(std::mem::replace(&mut state.batch, spare))
    }

    /// Waits until the writer is woken or the time is over, and returns `true` in the second case.
    fn wait_at_most<'a>(
        &self,
        state: MutexGuard<'a, QueueState>,
        time: Option<Duration>,
    ) -> (MutexGuard<'a, QueueState>, bool) {
        match time {
            None => (self.added.wait(state).unwrap_or_else(PoisonError::into_inner), false),
            Some(time) => {
                let waited = self.added.wait_timeout(state, time);
                let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                (state, timeout.timed_out())
            }
        }
    }

    /// Takes no more records. The writer ends when it has written those that wait.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.added.notify_all();
    }

    /// Called when the writer ends, for whatever reason: records that still wait fail.
    pub(super) fn end_writer(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.has_writer_ended = true;
        for record in &mut state.batch.records {
            record.send_result(Err(JournalError::Closed));
        }
        state.batch = Batch::default();
        self.ended.notify_all();
    }

    /// Waits until the writer has ended; `false` if it takes longer than `at_most`.
    fn wait_for_end(&self, at_most: Duration) -> bool {
        let state = self.lock();
        let is_running = |state: &mut QueueState| !state.has_writer_ended;
        let (state, _) = self
            .ended
            .wait_timeout_while(state, at_most, is_running)
            .unwrap_or_else(PoisonError::into_inner);
        state.has_writer_ended
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

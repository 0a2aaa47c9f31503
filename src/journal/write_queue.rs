//! The records that wait for the writer.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::error::JournalError;
use super::live_records::{JobStep, RecordKey};
use super::record::Record;
use super::segment;

/// Sends the result of a write to the ticket of its record.
pub(super) type ResultSender = oneshot::Sender<Result<(), JournalError>>;

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

    /// `true` if the record announces a job, which can still be refused. The others say what has happened.
    pub(super) const fn is_announcement(&self) -> bool {
        is_announcement(&self.key)
    }
}

const fn is_announcement(key: &RecordKey) -> bool {
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
    inner: Mutex<Inner>,
    added: Condvar,
    ended: Condvar,
    /// The most bytes that may wait. Records that announce a job may take half of them.
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Inner {
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
        Self { inner: Mutex::default(), added: Condvar::new(), ended: Condvar::new(), max_bytes }
    }

    /// Adds a record.
    pub(super) fn push(&self, record: &Record, result: ResultSender) -> Result<(), JournalError> {
        let key = RecordKey::new(record);
        let mut inner = self.lock();
        let bound = if is_announcement(&key) { self.max_bytes / 2 } else { self.max_bytes };
        if inner.is_closed {
            return Err(JournalError::Closed);
        }
        if inner.batch.lines.len() >= bound {
            return Err(JournalError::QueueFull);
        }
        let start = inner.batch.lines.len();
        segment::encode_line(record, &mut inner.batch.lines)?;
        let Ok(len) = u32::try_from(inner.batch.lines.len() - start) else {
            inner.batch.lines.truncate(start);
            return Err(JournalError::QueueFull);
        };
        inner.is_urgent |= is_urgent(&key);
        inner.batch.records.push(QueuedRecord { key, len, result: Some(result) });
        let must_wake = match inner.writer {
            WriterState::Busy => false,
            WriterState::Gathering => inner.is_urgent,
            WriterState::Idle => true,
        };
        if must_wake {
            inner.writer = WriterState::Busy;
            drop(inner);
            self.added.notify_one();
        }
        Ok(())
    }

    /// Waits for records: a moment for others if none of them is urgent. `spare` is an empty batch
    /// whose memory is used again.
    pub(super) fn wait(&self, spare: Batch, at_most: Option<Duration>) -> WriterWork {
        // Right after a batch, the next records are likely to follow soon.
        let mut gather_until = Instant::now() + GATHER_TIME;
        let mut inner = self.lock();
        loop {
            let has_records = !inner.batch.records.is_empty();
            let time_left = gather_until.saturating_duration_since(Instant::now());
            if has_records && (inner.is_urgent || inner.is_closed || time_left.is_zero()) {
                break;
            }
            if inner.is_closed {
                return WriterWork::Closed;
            }
            let is_gathering = !time_left.is_zero();
            inner.writer = if is_gathering { WriterState::Gathering } else { WriterState::Idle };
            let time = if is_gathering { Some(time_left) } else { at_most };
            let is_over;
            (inner, is_over) = self.wait_at_most(inner, time);
            inner.writer = WriterState::Busy;
            if is_gathering {
                continue;
            }
            if is_over && inner.batch.records.is_empty() {
                return WriterWork::Timeout;
            }
            gather_until = Instant::now() + GATHER_TIME;
        }
        inner.is_urgent = false;
        WriterWork::Batch(std::mem::replace(&mut inner.batch, spare))
    }

    /// Waits until the writer is woken or the time is over, and returns `true` in the second case.
    fn wait_at_most<'a>(
        &self,
        inner: MutexGuard<'a, Inner>,
        time: Option<Duration>,
    ) -> (MutexGuard<'a, Inner>, bool) {
        match time {
            None => (self.added.wait(inner).unwrap_or_else(PoisonError::into_inner), false),
            Some(time) => {
                let waited = self.added.wait_timeout(inner, time);
                let (inner, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                (inner, timeout.timed_out())
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
        let mut inner = self.lock();
        inner.is_closed = true;
        inner.has_writer_ended = true;
        for record in &mut inner.batch.records {
            record.send_result(Err(JournalError::Closed));
        }
        inner.batch = Batch::default();
        self.ended.notify_all();
    }

    /// Waits until the writer has ended; `false` if it takes longer than `at_most`.
    pub(super) fn wait_for_end(&self, at_most: Duration) -> bool {
        let inner = self.lock();
        let is_running = |inner: &mut Inner| !inner.has_writer_ended;
        let (inner, _) = self
            .ended
            .wait_timeout_while(inner, at_most, is_running)
            .unwrap_or_else(PoisonError::into_inner);
        inner.has_writer_ended
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

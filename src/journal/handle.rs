//! The public handle of the journal.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::durability::Durability;
use super::error::JournalError;
use super::record::Record;
use super::replay::{ReplayReport, read_journal};
use super::segment_file::{create_directory, list_segments};
use super::state::JournalState;
use super::write_queue::WriteQueue;
use super::writer::{JournalWriter, start_writer};
use crate::output::DiskWatch;

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
    /// # Errors
    /// If the directory cannot be read or written, or a later version has written it.
    pub fn open(dir: &Path, durability: Durability) -> Result<(Self, JournalState), JournalError> {
        Self::open_with(dir, durability, JournalSizes::DEFAULT)
    }

    pub(super) fn open_with(
        dir: &Path,
        durability: Durability,
        sizes: JournalSizes,
    ) -> Result<(Self, JournalState), JournalError> {
        create_directory(dir).map_err(|error| JournalError::unusable(dir, error))?;
        let mut replay = read_journal(dir, &list_segments(dir)?)?;
        let state = replay.read_state();
        let report = replay.report;
        let shared = Arc::new(Shared {
            queue: WriteQueue::new(sizes.queue),
            health: watch::Sender::new(JournalHealth::Healthy),
            counters: Counters::default(),
            disk: DiskWatch::default(),
        });
        let writer = JournalWriter::new(dir, durability, sizes, replay, Arc::clone(&shared))
            .map_err(|error| JournalError::unusable(dir, error))?;
        start_writer(writer).map_err(|error| JournalError::unusable(dir, error))?;
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

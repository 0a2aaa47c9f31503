//! The reader side of a log: how far it has come, waiting for more, and reading off the runtime.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::blocking_reader::BlockingReader;
use super::log::Progress;
use super::parts::Parts;
use super::read_memory::{ReadBusy, ReadFrom, ReadPermit};

/// Logs up to this size are read by the threads of the runtime, where they are in memory.
const SMALL_LOG: u64 = 256 * 1024;

/// Reads one log, while it is written and after. Cheap to clone; readers do not notice each other.
///
/// None of its methods waits for the disk on a thread of the runtime.
#[derive(Debug, Clone)]
pub struct LogReader {
    parts: Arc<Parts>,
    progress: watch::Receiver<Progress>,
}

impl LogReader {
    pub(super) const fn new(parts: Arc<Parts>, progress: watch::Receiver<Progress>) -> Self {
        Self { parts, progress }
    }

    /// Reserves the memory in which a read of this log is made, and which is bounded for all reads
    /// of the server together. Waits for it as long as `wait`.
    ///
    /// # Errors
    /// When others had all of it until then.
    pub async fn reserve(&self, bytes: usize, wait: Duration) -> Result<ReadPermit, ReadBusy> {
        let from = if self.is_at_hand() { ReadFrom::Memory } else { ReadFrom::Disk };
        self.parts.allowance().reserve_read(from, bytes, wait).await
    }

    /// The progress of the log. All bytes that it counts can be read, or are in a hole.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.parts.progress(&self.progress)
    }

    /// Looks whether the files of the log are still whole, so that [`Progress::cut_bytes`] is true.
    ///
    /// # Errors
    /// `TimedOut` where the disk did not answer in time.
    pub async fn check(&self) -> io::Result<()> {
        let check = |log: &BlockingReader| {
            drop(log.kept());
            Ok(())
        };
        self.read_with(check).await
    }

    /// Returns the bytes that the log takes in memory or on the disk: fewer than were written once
    /// it is compressed.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.parts.all().iter().map(|part| part.stored_bytes()).sum()
    }

    /// Reads the log: here where it is in memory and small, else on a thread that may block. Only
    /// so many such threads read at a time; other calls wait without one.
    ///
    /// # Errors
    /// The error of `read`; `TimedOut` where the disk did not answer in time.
    pub async fn read_with<T: Send + 'static>(
        &self,
        read: impl FnOnce(&BlockingReader) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        if self.is_at_hand() {
            return read(&self.blocking());
        }
        self.read_apart_with(read).await
    }

    /// Reads the log on a thread that may block, wherever the log is: for a `read` that writes to
    /// the disk as well.
    pub(super) async fn read_apart_with<T: Send + 'static>(
        &self,
        read: impl FnOnce(&BlockingReader) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let log = self.blocking();
        self.parts.spill_dir().read_with(Duration::ZERO, move || read(&log)).await
    }

    /// Reads something of the log that a caller can do without: nothing where it is on a disk that
    /// is slow, or for which too many threads wait.
    pub async fn read_if_idle_with<T: Send + 'static>(
        &self,
        read: impl FnOnce(&BlockingReader) -> io::Result<T> + Send + 'static,
    ) -> Option<T> {
        let log = self.blocking();
        if self.is_at_hand() {
            return read(&log).ok();
        }
        self.parts.spill_dir().read_if_idle_with(move || read(&log)).await
    }

    /// `true` if reading it takes no time to speak of, whatever the disk does.
    #[must_use]
    pub fn is_at_hand(&self) -> bool {
        self.progress().total_bytes <= SMALL_LOG && self.parts.are_in_memory()
    }

    /// The log in its compressed form, once it has one.
    #[cfg(test)]
    pub(super) fn packed(&self) -> Option<Arc<super::packed::Packed>> {
        self.parts.all().first()?.packed()
    }

    /// Returns once the log holds more than `seen` bytes, or is closed. No wake-up is lost, and
    /// dropping the future loses nothing. After a page, wait past its `total_bytes`.
    pub async fn wait_past(&self, seen: u64) {
        let mut progress = self.progress.clone();
        let is_past = |now: &Progress| now.closed || now.total_bytes > seen;
        // An error means that the writer is gone, which ends the wait as well.
        progress.wait_for(is_past).await.ok();
    }

    /// Returns a reader for a thread that may wait for the disk, such as one of a test.
    /// [`LogReader::read_with`] has one for threads of the runtime.
    #[must_use]
    pub fn blocking(&self) -> BlockingReader {
        BlockingReader::new(Arc::clone(&self.parts), self.progress.clone())
    }

    pub(super) fn parts(&self) -> &Parts {
        &self.parts
    }
}

/// Scans logs one after the other on one thread that may block. The scan itself may take `time`.
///
/// # Errors
/// `TimedOut` where the disk did not answer in time; the error of the system where there is no
/// thread for it.
pub async fn scan_with<T: Send + 'static>(
    logs: &[LogReader],
    time: Duration,
    scan: impl FnOnce(&[BlockingReader]) -> T + Send + 'static,
) -> io::Result<T> {
    let readers: Vec<BlockingReader> = logs.iter().map(LogReader::blocking).collect();
    let scan = move || Ok(scan(&readers));
    match logs.iter().find(|log| !log.is_at_hand()) {
        Some(log) => log.parts.spill_dir().read_with(time, scan).await,
        // These need a thread for the time that a scan takes, and no disk.
        None => spawn_blocking(scan).await.map_err(io::Error::other)?,
    }
}

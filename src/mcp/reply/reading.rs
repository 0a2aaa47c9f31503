//! Where a log is read for an answer: on the runtime's threads, or away from them.

use std::io;
use std::time::Duration;

use super::error::ToolError;
use super::shown::Shown;
use crate::mcp::snapshot::Snapshot;
use crate::output::{BlockingReader, LogReader, PageRequest};

/// The memory of a read beside what it shows: blocks of the log, and what is remembered of it.
const BASE_MEMORY: usize = 2 * 1024 * 1024;
/// The memory for each byte of a page: as it was written, as text and in an answer.
const MEMORY_PER_BYTE: usize = 8;
/// A read waits for memory at most this long.
const MEMORY_WAIT: Duration = Duration::from_secs(10);

/// Reads a log, away from the runtime's threads where it is large or on the disk.
pub(super) async fn read<T: Send + 'static>(
    job: &Snapshot,
    log: &LogReader,
    read: impl FnOnce(&BlockingReader) -> io::Result<T> + Send + 'static,
) -> Result<T, ToolError> {
    read_in(job, log, BASE_MEMORY, read).await
}

/// Reads one page of it.
pub(super) async fn read_page(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
    show: fn(&BlockingReader, &PageRequest) -> io::Result<Shown>,
) -> Result<Shown, ToolError> {
    let memory = BASE_MEMORY + MEMORY_PER_BYTE * request.max_bytes;
    read_in(job, log, memory, move |log| show(log, &request)).await
}

/// Reads a log in so much memory. It stays reserved until the read is over, also where nobody waits
/// for that any more.
async fn read_in<T: Send + 'static>(
    job: &Snapshot,
    log: &LogReader,
    memory: usize,
    read: impl FnOnce(&BlockingReader) -> io::Result<T> + Send + 'static,
) -> Result<T, ToolError> {
    let memory = match log.is_at_hand() {
        true => None,
        false => Some(log.reserve(memory, MEMORY_WAIT).await?),
    };
    let found = log.read_with(move |log| (read(log), memory).0).await;
    found.map_err(|source| ToolError::Read { job: job.job, source })
}

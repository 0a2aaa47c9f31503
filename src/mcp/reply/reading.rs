//! Where a log is read for an answer: on the runtime's threads, or away from them.

use std::io;

use super::error::ToolError;
use super::shown::Shown;
use crate::mcp::snapshot::Snapshot;
use crate::output::{LogReader, PageRequest};

/// Reads a log, away from the runtime's threads where it is large or on the disk.
pub(super) async fn read<T: Send + 'static>(
    job: &Snapshot,
    log: &LogReader,
    look: impl FnOnce(&LogReader) -> io::Result<T> + Send + 'static,
) -> Result<T, ToolError> {
    log.look(look).await.map_err(|source| ToolError::Read { job: job.job, source })
}

/// Reads one page of it.
pub(super) async fn read_page(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
    look: fn(&LogReader, &PageRequest) -> io::Result<Shown>,
) -> Result<Shown, ToolError> {
    read(job, log, move |log| look(log, &request)).await
}

//! Where a log is read for an answer: on the runtime's threads, or away from them.

use std::io;

use super::error::ToolError;
use super::shown::Shown;
use crate::mcp::snapshot::Snapshot;
use crate::output::{LogReader, PageRequest};

/// So much is read where we are; more than that could keep others waiting.
const READ_HERE: u64 = 256 * 1024;

/// Reads a log, away from the runtime's threads where it is large.
pub(super) async fn read<T: Send + 'static>(
    job: &Snapshot,
    log: &LogReader,
    look: impl FnOnce(&LogReader) -> io::Result<T> + Send + 'static,
) -> Result<T, ToolError> {
    let bytes = log.progress().total_bytes;
    read_some(job, log, bytes, look).await
}

/// Reads one page of it.
pub(super) async fn read_page(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
    look: fn(&LogReader, &PageRequest) -> io::Result<Shown>,
) -> Result<Shown, ToolError> {
    let bytes = looked_at(&request, log.progress().total_bytes);
    read_some(job, log, bytes, move |log| look(log, &request)).await
}

/// How many bytes are looked at, at the most, to make a page of a log that has so many. What belongs
/// to one stream may be far apart in it.
fn looked_at(request: &PageRequest, total: u64) -> u64 {
    let left = total.saturating_sub(request.from);
    match request.stream {
        Some(_) => left,
        None => left.min(request.max_bytes as u64),
    }
}

/// Looks at so many bytes.
async fn read_some<T: Send + 'static>(
    job: &Snapshot,
    log: &LogReader,
    bytes: u64,
    look: impl FnOnce(&LogReader) -> io::Result<T> + Send + 'static,
) -> Result<T, ToolError> {
    let result = if bytes <= READ_HERE {
        look(log)
    } else {
        let log = log.clone();
        tokio::task::spawn_blocking(move || look(&log))
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    };
    result.map_err(|source| ToolError::Read { job: job.job, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Stream;

    #[test]
    fn a_page_costs_what_is_on_it_and_not_what_is_behind_it() {
        for (from, stream, max_bytes, expected) in [
            (0, None, 16_384, 16_384),
            (990_000, None, 16_384, 10_000),
            (2_000_000, None, 16_384, 0),
            (0, Some(Stream::Stderr), 16_384, 1_000_000),
        ] {
            let request = PageRequest { from, stream, max_bytes, max_lines: 0 };
            assert_eq!(looked_at(&request, 1_000_000), expected, "{request:?}");
        }
    }
}

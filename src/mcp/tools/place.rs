//! Where in a job's output a caller wants to read.

use crate::ids::JobId;
use crate::mcp::address;
use crate::mcp::reply::ToolError;
use crate::output::{Cursor, ParsedCursor};
use crate::yard::JobHandle;

/// The offset that a cursor stands for in the output of `job`.
pub(super) fn offset_of_cursor(cursor: &str, job: &JobHandle) -> Result<u64, ToolError> {
    let parsed: ParsedCursor = cursor.parse()?;
    match parsed.job {
        Some(of) if of != job.id() => Err(ToolError::ForeignCursor { job: job.id(), of }),
        Some(_) | None => match parsed.cursor {
            Cursor::Bytes(offset) => Ok(offset),
            Cursor::Line(line) => offset_of_line(line, job),
        },
    }
}

/// The offset of a line's first byte; of a line that is not there yet, the end.
pub(super) fn offset_of_line(line: u64, job: &JobHandle) -> Result<u64, ToolError> {
    let log = job.output();
    let offset =
        log.offset_of_line(line).map_err(|source| ToolError::Read { job: job.id(), source })?;
    Ok(offset.unwrap_or_else(|| log.progress().total_bytes))
}

/// The job whose output an address names.
pub(super) fn job_of_uri(uri: &str) -> Result<JobId, ToolError> {
    let given = || uri.chars().take(80).collect();
    address::job_of(uri).ok_or_else(|| ToolError::BadUri { given: given() })
}

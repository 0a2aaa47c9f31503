//! Where in a job's output a caller wants to read.

use crate::ids::JobNumber;
use crate::mcp::address::{Address, ByteRange};
use crate::mcp::reply::{Place, ToolError};
use crate::output::{Cursor, LogReader, ParsedCursor};
use crate::spec::Stream;
use crate::yard::JobHandle;

/// The place that a cursor stands for in the output of `job`.
pub(super) async fn place_of_cursor(cursor: &str, job: &JobHandle) -> Result<Place, ToolError> {
    let parsed: ParsedCursor = cursor.parse()?;
    match parsed.job {
        Some(of) if of != job.id().in_tenant() => {
            Err(ToolError::ForeignCursor { job: job.id(), of })
        }
        Some(_) | None => match parsed.cursor {
            Cursor::Bytes(offset) => Ok(Place::Offset(offset)),
            Cursor::Line(line) => place_of_line(line, job).await,
        },
    }
}

/// The place of a line's first byte. The first line is always there, if only to be written.
pub(super) async fn place_of_line(line: u64, job: &JobHandle) -> Result<Place, ToolError> {
    let offset = job.output().read_with(move |log| log.offset_of_line(line)).await;
    let offset = offset.map_err(|source| ToolError::Read { job: job.id(), source })?;
    Ok(match offset {
        Some(offset) => Place::Offset(offset),
        None if line <= 1 => Place::Offset(0),
        None => Place::NoSuchLine(line),
    })
}

/// Where reading starts; of a line that is not there, the end.
pub(super) fn offset_of(place: Place, log: &LogReader) -> u64 {
    match place {
        Place::Offset(offset) => offset,
        Place::NoSuchLine(_) => log.progress().total_bytes,
    }
}

/// The job, and the one stream if any, whose output an address names.
pub(super) fn target_of_uri(uri: &str) -> Result<(JobNumber, Option<Stream>), ToolError> {
    let given = || uri.chars().take(80).collect();
    let address = Address::parse(uri).map_err(|_| ToolError::BadUri { given: given() })?;
    match address.range {
        ByteRange::WHOLE => Ok((address.job, address.stream)),
        ByteRange { .. } => Err(ToolError::UriRange),
    }
}

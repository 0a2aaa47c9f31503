//! Why a call gave no page.

use std::io;
use std::time::Duration;

use thiserror::Error;

use super::piece::Limits;
use crate::ids::JobId;
use crate::mcp::args::ArgError;
use crate::mcp::reply::Foreign;
use crate::outcome::StartError;
use crate::output::pattern::PatternError;
use crate::output::query::QueryError;
use crate::output::{CursorError, GzipError, ParsedCursor, ReadBusy};
use crate::yard::SubmitError;

/// Why a call gave no page. Its words are the reply.
#[derive(Debug, Error)]
pub(crate) enum ExecError {
    #[error(transparent)]
    Args(#[from] ArgError),
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error(transparent)]
    Cursor(#[from] CursorError),
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    NotStarted(StartError),
    #[error(transparent)]
    Pack(#[from] GzipError),
    #[error("a cursor here counts bytes; use a next_cursor as it was returned, or `bytes:N`")]
    CountsLines,
    #[error(
        "cursor `{}` has nothing to read: no run of this command is kept; call without page.cursor to run it", .0.place_first()
    )]
    NeverRan(ParsedCursor),
    #[error(
        "cursor `{}` names a run that is not known or no longer kept; nothing was run; call without page.cursor to run the command", .0.place_first()
    )]
    UnknownRun(ParsedCursor),
    #[error(
        "cursor `{}` belongs to another command; nothing was run; send it with the same cmd, args, cwd and env as the call that returned it", .0.place_first()
    )]
    OtherCommand(ParsedCursor),
    #[error(
        "`{given}` is not the address of any kept output; use a spill_uri as it was returned, while its run is kept"
    )]
    UnknownUri { given: String },
    #[error(
        "the output is larger than a page of {} bytes and {} lines (on_large_output is \"error\"); what there is of it is kept: the same call with on_large_output \"spill\" and page.cursor \"bytes:0@{job}\" reads it and runs nothing", .limits.bytes, .limits.lines
    )]
    TooLarge { limits: Limits, job: JobId },
    #[error("the command was lost: {why}; what it wrote is kept")]
    Lost { why: String },
    #[error("the command still runs after {}s; call again with the same cursor", .0.as_secs())]
    StillRuns(Duration),
    #[error("the call was cancelled")]
    Cancelled,
    #[error(transparent)]
    Busy(#[from] ReadBusy),
    #[error("the output could not be read: {0}; try again")]
    Read(#[from] io::Error),
}

impl From<ExecError> for Foreign {
    fn from(error: ExecError) -> Self {
        Self::failure(error.to_string())
    }
}

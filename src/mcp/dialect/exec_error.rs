//! The cursors and the errors of `shell_exec` and `read_file_chunk`.

use std::io;
use std::time::Duration;

use thiserror::Error;

use super::run::{CallGivenUp, DialectReply};
use crate::TaskLimit;
use crate::ids::JobId;
use crate::mcp::args::ArgError;
use crate::mcp::resources::{Cursor, ParsedCursor, shorten_cursor};
use crate::outcome::{StartError, format_not_run};
use crate::output::json::QueryError;
use crate::output::pattern::PatternError;
use crate::output::{GzipError, ReadBusy};
use crate::service::SubmitError;

/// A position in stdout and the cursor that named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StdoutCursor {
    pub(crate) offset: u64,
    pub(crate) given: ParsedCursor,
}

impl StdoutCursor {
    /// Parses a cursor; only byte cursors are valid here.
    pub(super) fn parse(cursor: &str) -> Option<Self> {
        let given: ParsedCursor = cursor.parse().ok()?;
        match given.cursor {
            Cursor::Bytes(offset) => Some(Self { offset, given }),
            Cursor::Line(_) => None,
        }
    }
}

/// The next step after a cursor of `shell_exec` that cannot be used.
const RUN_AGAIN: &str = "nothing was run; call without page.cursor, or with \"bytes:0\", to run \
    the command, then send the next_cursor of its reply as it is";

/// The reason why a call returned no page. Its text is the reply.
#[derive(Debug, Error)]
pub(crate) enum ExecError {
    #[error(transparent)]
    Args(#[from] ArgError),
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Query(QueryError),
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    NotStarted(StartError),
    #[error(transparent)]
    Pack(#[from] GzipError),
    #[error("page.cursor `{}` is not a cursor of shell_exec; {RUN_AGAIN}", shorten_cursor(.given))]
    BadCursor { given: String },
    #[error(
        "`{}` is not a cursor of read_file_chunk; leave cursor out to read from the beginning, then send the next_cursor of each reply as it is", shorten_cursor(.given)
    )]
    BadFileCursor { given: String },
    #[error(
        "page.cursor `{}` has nothing to read: no run of this command in this session is kept; {RUN_AGAIN}", .0.with_job_last()
    )]
    NeverRan(ParsedCursor),
    #[error(
        "page.cursor `{}` names a run that is not known or no longer kept; {RUN_AGAIN}", .0.with_job_last()
    )]
    UnknownRun(ParsedCursor),
    #[error(
        "page.cursor `{}` belongs to another command; nothing was run; send it with the same cmd, args, cwd and env as the call that returned it", .0.with_job_last()
    )]
    OtherCommand(ParsedCursor),
    #[error(
        "cursor `{}` belongs to another output than this uri; send it with the uri of the call that returned it, or leave cursor out to read from the beginning", .0.with_job_last()
    )]
    OtherUri(ParsedCursor),
    #[error(
        "cursor `{}` lies past the end of the output, which has {total} bytes; send a next_cursor as it was returned: a reply without one was the last page", .given.with_job_last()
    )]
    PastEnd { given: ParsedCursor, total: u64 },
    #[error(
        "`{given}` is not the address of any kept output; use a spill_uri as it was returned, while its run is kept"
    )]
    UnknownUri { given: String },
    #[error(
        "the output is larger than a page of {bytes} bytes and {lines} lines (on_large_output is \"error\"); what there is of it is kept: the same call with on_large_output \"spill\" and page.cursor \"bytes:0@{job}\" reads it and runs nothing"
    )]
    TooLarge { bytes: usize, lines: usize, job: JobId },
    #[error("the command {}; call again", format_not_run(*.0))]
    NotRun(Duration),
    #[error("the command was lost: {why}; what it wrote is kept")]
    Lost { why: String },
    #[error("the call was cancelled")]
    Cancelled,
    #[error(transparent)]
    GivenUp(#[from] CallGivenUp),
    #[error(transparent)]
    Busy(#[from] ReadBusy),
    #[error("the output could not be read: {0}; try again")]
    Read(#[from] io::Error),
}

impl From<QueryError> for ExecError {
    fn from(error: QueryError) -> Self {
        Self::Query(error.explain_no_thread(TaskLimit::explain))
    }
}

impl From<ExecError> for DialectReply {
    fn from(error: ExecError) -> Self {
        Self::failure(error.to_string())
    }
}

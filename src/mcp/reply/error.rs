//! Errors of the native tools, and their replies.

use std::io;

use thiserror::Error;

use super::structured::millis;
use super::tool_reply::ToolReply;
use crate::TaskLimit;
use crate::ids::{JobId, JobNumber};
use crate::mcp::args::ArgError;
use crate::mcp::resources::CursorError;
use crate::output::ReadBusy;
use crate::output::json::QueryError;
use crate::output::pattern::PatternError;
use crate::service::{FindError, InputError, StreamError, SubmitError};

/// The reason why a tool could not do its work. A failing command is not an error.
#[derive(Debug, Error)]
pub(crate) enum ToolError {
    #[error(transparent)]
    Args(#[from] ArgError),
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("refused, nothing was run: {0}")]
    Submit(#[from] SubmitError),
    #[error(
        "refused, nothing was done: this token may only look at jobs (role read-only); {tool} needs one with the role run"
    )]
    ReadOnly { tool: &'static str },
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Cursor(#[from] CursorError),
    #[error("cursor belongs to job {of}, not to job {job}; use a next_cursor that job {job} gave")]
    ForeignCursor { job: JobId, of: JobNumber },
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Query(QueryError),
    #[error("`{given}` is no address of a job's output; they read shellyard://jobs/12/output")]
    BadUri { given: String },
    #[error(
        "a range in an address is for resources/read; leave ?start and end out and give cursor=\"bytes:N\" and max_bytes"
    )]
    UriRange,
    #[error(transparent)]
    Busy(#[from] ReadBusy),
    #[error("the search broke off ({0}); try again, or search one job at a time")]
    Search(#[source] io::Error),
    #[error(
        "the output of job {job} could not be read ({source}); it is still there if the disk is: try again"
    )]
    Read { job: JobId, source: io::Error },
}

/// The reason why the digest of a job cannot be given.
#[derive(Debug, Error)]
pub enum DigestError {
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Busy(#[from] ReadBusy),
    #[error("the output could not be read ({0}); check the disk, then try again")]
    Read(#[from] io::Error),
}

impl From<QueryError> for ToolError {
    fn from(error: QueryError) -> Self {
        Self::Query(error.explain_no_thread(TaskLimit::explain))
    }
}

impl ToolError {
    /// Returns the stable code word of the error.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Args(error) => error.code(),
            Self::Find(error) => error.code(),
            Self::Stream(error) => error.code(),
            Self::Submit(error) => error.code(),
            Self::ReadOnly { .. } => "forbidden",
            Self::Input(error) => error.code(),
            Self::Cursor(error) => error.code(),
            Self::Pattern(error) => error.code(),
            Self::Query(error) => error.code(),
            Self::Busy(error) => error.code(),
            Self::ForeignCursor { .. } => "foreign_cursor",
            Self::BadUri { .. } => "bad_uri",
            Self::UriRange => "uri_range",
            Self::Search(_) | Self::Read { .. } => "read_failed",
        }
    }

    pub(crate) fn into_reply(self) -> ToolReply {
        if let Self::Read { job, source } = &self {
            tracing::warn!(job_id = %job, error = %source, "output not readable");
        }
        let reply = ToolReply::failure(self.to_string(), self.code());
        if let Self::Busy(_) = &self {
            return reply.with_field("retry_after_ms", millis(ReadBusy::RETRY_AFTER));
        }
        let Self::Submit(refused) = &self else { return reply };
        let reply = reply.with_field("outcome", "refused");
        match refused.retry_after() {
            Some(after) => reply.with_field("retry_after_ms", millis(after)),
            None => reply,
        }
    }
}

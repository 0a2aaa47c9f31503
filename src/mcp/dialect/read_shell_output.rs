//! `read_shell_output`: reads the output of a command of `run_shell_command` from any byte on. The
//! document of that dialect has no such tool; without it, output above the limit of a reply and the
//! later output of a background command could not be read.

use std::io;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::output_pages::{OutputPage, PageLimits, read_stream_page};
use super::run::{DialectReply, reserve_memory};
use super::run_shell_command::{
    COMMAND_LINES, CommandState, build_row_reply, decode_page, format_read_error,
};
use crate::ids::JobNumber;
use crate::mcp::args::{ArgError, ArgKind, ArgSpec, Args};
use crate::mcp::reply::MAX_LINES;
use crate::mcp::tools::ToolCall;
use crate::service::{FindError, JobHandle};
use crate::spec::Stream;

pub(in crate::mcp) const NAME: &str = "read_shell_output";

const FIELDS: [ArgSpec; 4] = [
    ArgSpec::required("job", ArgKind::Whole, ""),
    ArgSpec::optional("stream", ArgKind::Choice(&STREAMS), ""),
    ArgSpec::optional("offset", ArgKind::Whole, ""),
    ArgSpec::optional("max_bytes", ArgKind::Whole, ""),
];

const STREAMS: [&str; 2] = [Stream::Stdout.name(), Stream::Stderr.name()];

/// The most lines for the fields of a reply beside the command and the output.
const OTHER_LINES: usize = 20;
/// The most lines of output in a reply of this dialect: some clients show no more of it.
pub(super) const OUTPUT_LINES: usize = MAX_LINES - COMMAND_LINES - OTHER_LINES;

/// The smallest page: any UTF-8 character fits.
const MIN_BYTES: u64 = 4;

pub(in crate::mcp) const ABOUT: &str = "Reads the output of a run_shell_command call: the rest if the \
    reply says Truncated, or what a background command has written since. Never runs anything. \
    Next Call reads on; it is none at the end.";

pub(in crate::mcp) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "job": {"type": "integer", "description": "The field Job of the run_shell_command reply."},
            "stream": {"type": "string", "enum": STREAMS, "default": STREAMS[0]},
            "offset": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "First byte of the stream to read."
            },
            "max_bytes": {"type": "integer", "minimum": MIN_BYTES}
        },
        "required": ["job"]
    })
}

pub(in crate::mcp) async fn call(call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
    read(call, arguments)
        .await
        .unwrap_or_else(|text| DialectReply::failure(format!("Error: {text}")))
}

async fn read(call: ToolCall<'_>, arguments: JsonObject) -> Result<DialectReply, String> {
    let max = call.settings.max_page_bytes;
    let args = ReadShellOutputArgs::read(arguments, max).map_err(|error| error.to_string())?;
    let most = args.max_bytes.unwrap_or(call.settings.page_bytes);
    let job = call.client.find(call.client.job_id(args.job)).await.map_err(format_find_error)?;
    // Taken before the read: the output of a command that has ended is complete.
    let state = CommandState::new(&job, job.status().ending().cloned());
    // The memory stays reserved until the reply is made.
    let _memory = reserve_memory(&job, most).await.map_err(format_read_error)?;
    let limits = PageLimits { bytes: most, lines: OUTPUT_LINES };
    let page =
        read_page(&job, args.stream, args.offset, limits).await.map_err(format_read_error)?;
    let mut rows = vec![
        ("Command", json!(job.spec().program.display())),
        ("Stream", json!(args.stream.name())),
        ("Output", json!(decode_page(&page))),
        ("Start", json!(page.span.start)),
        ("End", json!(page.span.end)),
        ("Total", json!(page.span.total)),
        ("Next Call", json!(format_next_call(&job, args.stream, &page))),
    ];
    rows.extend(state.rows());
    Ok(build_row_reply(rows))
}

/// The error text; the caller of this dialect may have no list of jobs.
fn format_find_error(error: FindError) -> String {
    match error {
        FindError::Unknown { id } => {
            format!("there is no job {id}; give the field Job of a run_shell_command reply")
        }
        FindError::Freed { .. } | FindError::Unavailable { .. } => error.to_string(),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct ReadShellOutputArgs {
    job: JobNumber,
    stream: Stream,
    offset: u64,
    max_bytes: Option<usize>,
}

impl ReadShellOutputArgs {
    fn read(arguments: JsonObject, max: usize) -> Result<Self, ArgError> {
        let mut args = Args::strict(arguments, &FIELDS)?;
        let max_bytes = args.whole("max_bytes", MIN_BYTES..=max as u64)?;
        let words = [("stdout", Stream::Stdout), ("stderr", Stream::Stderr)];
        Ok(Self {
            job: args.job("job")?.ok_or(ArgError::Conflict("`job` is needed"))?,
            stream: args.choice("stream", &words)?.unwrap_or(Stream::Stdout),
            offset: args.whole("offset", 0..=u64::MAX)?.unwrap_or_default(),
            max_bytes: max_bytes.and_then(|bytes| usize::try_from(bytes).ok()),
        })
    }
}

/// Reads a page of a stream; offsets count only the bytes of that stream.
pub(super) async fn read_page(
    job: &JobHandle,
    stream: Stream,
    start: u64,
    limits: PageLimits,
) -> io::Result<OutputPage> {
    job.output().read_with(move |log| read_stream_page(log, stream, start, limits)).await
}

/// Returns the call that reads on after a page; `None` if the page ends with the stream.
pub(super) fn format_next_call(
    job: &JobHandle,
    stream: Stream,
    page: &OutputPage,
) -> Option<String> {
    let is_cut = page.span.has_more && page.span.end < page.span.total;
    let id = job.id();
    let stream = stream.name();
    let offset = page.span.end;
    is_cut.then(|| format!("{NAME}(job={id}, stream=\"{stream}\", offset={offset})"))
}

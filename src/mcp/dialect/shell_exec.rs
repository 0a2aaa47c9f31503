//! `shell_exec`: runs a command whose output comes in pages; `read_file_chunk` reads what was
//! spilled.
//!
//! A call with a cursor that an earlier reply returned continues reading the output of that run and
//! runs nothing; `bytes:0` is the beginning, and runs the command. Offsets count the bytes of stdout
//! as they were written; the text of a page may be shorter, because escape codes and `\r` are
//! removed.

use std::io;
use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::exec_error::{ExecError, StdoutCursor};
use super::output_pages::{
    Chunk, Escapes, Newline, OutputFilter, OutputPage, PageLimits, TextStyle, detect_page_mime,
    head_preview, read_filtered_page, read_stream_page, stream_len, tail_preview,
};
use super::read_file_chunk::{SpillFormat, SpillUri};
use super::run::DialectReply;
use super::run::{submit, wait_for_end};
use crate::ids::JobNumber;
use crate::mcp::args::{ArgError, Args};
use crate::mcp::cursor::{Cursor, ParsedCursor};
use crate::mcp::reply::progress_line;
use crate::mcp::schema::{ArgKind, ArgSpec};
use crate::mcp::tools::{CallTurn, ToolCall, WaitEnd, wait_for};
use crate::outcome::{JobEnding, Outcome, StopBy, signal_name};
use crate::output::ScanDeadline;
use crate::output::pattern::LinePattern;
use crate::output::redaction::Redactor;
use crate::output::{
    BlockingReader, LogReader, StreamCounts, count_lines, count_lines_and_errors, json,
};
use crate::service::{JobHandle, StopRequest, Submission};
use crate::spec::{Inherit, JobProgram, LargeOutput, Stream};

pub(super) const ABOUT: &str = "Executes shell commands in a controlled environment. Supports \
    pagination via `limit_bytes` and `next_cursor`: send the same call again with \
    page.cursor = next_cursor, nothing is run twice. Automatically spills large outputs to file \
    with `spill_uri`, to be read with read_file_chunk.";

const FIELDS: [ArgSpec; 13] = [
    ArgSpec::required("cmd", ArgKind::Text, ""),
    ArgSpec::optional("args", ArgKind::Texts, ""),
    ArgSpec::optional("cwd", ArgKind::Text, ""),
    ArgSpec::optional("env", ArgKind::Pairs, ""),
    ArgSpec::optional("page", ArgKind::Pairs, ""),
    ArgSpec::optional("on_large_output", ArgKind::Text, ""),
    ArgSpec::optional("json_path", ArgKind::Text, ""),
    ArgSpec::optional("grep", ArgKind::Text, ""),
    ArgSpec::optional("zip", ArgKind::Flag, ""),
    ArgSpec::optional("mime", ArgKind::Flag, ""),
    ArgSpec::optional("summary", ArgKind::Flag, ""),
    ArgSpec::optional("ansi_strip", ArgKind::Flag, ""),
    ArgSpec::optional("newline", ArgKind::Text, ""),
];

/// The arguments inside `page`.
const PAGE_FIELDS: [ArgSpec; 3] = [
    ArgSpec::optional("cursor", ArgKind::Text, ""),
    ArgSpec::optional("limit_bytes", ArgKind::Whole, ""),
    ArgSpec::optional("limit_lines", ArgKind::Whole, ""),
];

pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "cmd": {"type": "string", "description": "Program; shell text where args is left out"},
            "args": {"type": "array", "items": {"type": "string"}},
            "cwd": {"type": "string"},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "page": {
                "type": "object",
                "properties": {
                    "cursor": {
                        "type": "string",
                        "description": "A next_cursor as returned; bytes:0 or none runs the command"
                    },
                    "limit_bytes": {"type": "integer", "minimum": 4, "default": 65536},
                    "limit_lines": {"type": "integer", "minimum": 1, "default": 2000}
                }
            },
            "on_large_output": {
                "type": "string", "enum": ["spill", "truncate", "error"], "default": "spill"
            },
            "json_path": {"type": "string", "description": "JMESPath on JSON output"},
            "grep": {"type": "string", "description": "Regex: only lines that match"},
            "zip": {"type": "boolean", "default": false, "description": "Spill as gzip"},
            "mime": {"type": "boolean", "default": true, "description": "Detect the MIME type"},
            "summary": {"type": "boolean", "default": false, "description": "Count lines, errors"},
            "ansi_strip": {"type": "boolean", "default": true},
            "newline": {"type": "string", "enum": ["\n", "\r\n", "keep"], "default": "\n"}
        },
        "required": ["cmd"]
    })
}

/// The page size if the call does not set one.
const DEFAULT_LIMITS: PageLimits = PageLimits { bytes: 65_536, lines: 2000 };
/// The smallest page: one character always fits.
const MIN_BYTES: u64 = 4;

/// The arguments of `shell_exec`. Everything that can be checked without output is checked before
/// anything runs.
#[derive(Debug, Clone)]
struct ShellExecArgs {
    submission: Submission,
    /// The position at which to continue in an earlier run.
    cursor: Option<StdoutCursor>,
    limits: PageLimits,
    large_output: LargeOutputMode,
    filter: OutputFilter,
    style: TextStyle,
    format: SpillFormat,
    wants_mime: bool,
    wants_summary: bool,
}

/// The treatment of output that is larger than a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LargeOutputMode {
    /// Keep it and return its URI.
    Spill,
    /// Keep it and return its URI, however small it is.
    SpillAlways,
    /// Return one page of it.
    Truncate,
    /// Fail and stop the command.
    Error,
}

const LARGE_OUTPUT_MODES: [(&str, LargeOutputMode); 3] = [
    ("spill", LargeOutputMode::SpillAlways),
    ("truncate", LargeOutputMode::Truncate),
    ("error", LargeOutputMode::Error),
];
const NEWLINES: [(&str, Newline); 3] =
    [("\n", Newline::Lf), ("\r\n", Newline::CrLf), ("keep", Newline::Keep)];

impl ShellExecArgs {
    fn read(mut arguments: JsonObject, max_page: usize) -> Result<Self, ExecError> {
        let page = arguments.remove("page").unwrap_or_default();
        for on_by_default in ["mime", "ansi_strip"] {
            let value = arguments.entry(on_by_default).or_insert(Value::Null);
            if value.is_null() {
                *value = true.into();
            }
        }
        let mut args = Args::strict(arguments, &FIELDS)?;
        let (cursor, limits) = read_page(page, max_page)?;
        let args = Self {
            submission: submission(&mut args)?,
            cursor,
            limits,
            large_output: args
                .choice("on_large_output", &LARGE_OUTPUT_MODES)?
                .unwrap_or(LargeOutputMode::Spill),
            filter: filter(&mut args)?,
            style: TextStyle {
                escapes: if args.flag("ansi_strip")? { Escapes::Strip } else { Escapes::Keep },
                newline: args.choice("newline", &NEWLINES)?.unwrap_or(Newline::Lf),
            },
            format: if args.flag("zip")? { SpillFormat::Gzip } else { SpillFormat::Plain },
            wants_mime: args.flag("mime")?,
            wants_summary: args.flag("summary")?,
        };
        match (args.format, args.large_output) {
            (SpillFormat::Gzip, LargeOutputMode::Truncate | LargeOutputMode::Error) => {
                Err(ArgError::Conflict(
                    "`zip` packs what is spilled; leave on_large_output out, or say \"spill\"",
                )
                .into())
            }
            (SpillFormat::Gzip, LargeOutputMode::Spill | LargeOutputMode::SpillAlways)
            | (SpillFormat::Plain, _) => Ok(args),
        }
    }

    /// The offset at which the page starts.
    fn start(&self) -> u64 {
        self.cursor.map_or(0, |cursor| cursor.offset)
    }
}

fn submission(args: &mut Args) -> Result<Submission, ArgError> {
    let cmd = args.text("cmd")?.unwrap_or_default();
    let program = match args.texts("args")? {
        Some(args) if !args.is_empty() => JobProgram::Direct { program: cmd, args },
        Some(_) | None => JobProgram::Shell(cmd),
    };
    let mut env = args.pairs("env")?;
    // The same variables in another order mean the same run.
    env.sort();
    Ok(Submission {
        cwd: args.text("cwd")?.map(Into::into),
        inherit: Inherit::All,
        env,
        // Every page must be there to be read, whatever the setting for other jobs.
        on_large_output: Some(LargeOutput::Spill),
        ..Submission::new(program)
    })
}

fn read_page(
    page: Value,
    max_page: usize,
) -> Result<(Option<StdoutCursor>, PageLimits), ExecError> {
    let mut args = Args::strict(page_object(page)?.unwrap_or_default(), &PAGE_FIELDS)?;
    let cursor = match args.text_or_number("cursor")? {
        Some(given) if !given.is_empty() => {
            Some(StdoutCursor::parse(&given).ok_or(ExecError::BadCursor { given })?)
        }
        Some(_) | None => None,
    };
    let bytes = args.whole("limit_bytes", MIN_BYTES..=max_page as u64)?;
    let lines = args.whole("limit_lines", 1..=u64::MAX)?;
    let size = |number: Option<u64>, default| {
        number.map_or(default, |number| usize::try_from(number).unwrap_or(usize::MAX))
    };
    let limits = PageLimits {
        bytes: size(bytes, DEFAULT_LIMITS.bytes.min(max_page)),
        lines: size(lines, DEFAULT_LIMITS.lines),
    };
    Ok((cursor, limits))
}

fn page_object(page: Value) -> Result<Option<JsonObject>, ArgError> {
    match page {
        Value::Null => Ok(None),
        Value::Object(page) => Ok(Some(page)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(ArgError::WrongType {
                name: "page".to_owned(),
                expected: "an object, such as {\"limit_bytes\": 65536}".to_owned(),
                given: page.to_string().chars().take(60).collect(),
            })
        }
    }
}

fn filter(args: &mut Args) -> Result<OutputFilter, ExecError> {
    match (args.text("grep")?, args.text("json_path")?) {
        (None, None) => Ok(OutputFilter::None),
        (Some(pattern), None) => Ok(OutputFilter::Grep(LinePattern::new(&pattern)?)),
        (None, Some(expression)) => {
            json::check_expression(&expression)?;
            Ok(OutputFilter::Query(expression))
        }
        (Some(_), Some(_)) => {
            Err(ArgError::Conflict("give `grep` or `json_path`, not both").into())
        }
    }
}

/// A run that has ended.
#[derive(Debug)]
struct FinishedRun {
    job: JobHandle,
    ending: JobEnding,
}

/// The run whose output a call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageSource {
    /// A new run of the command.
    NewRun,
    /// The latest run of the same command in the caller's session.
    LatestRun(StdoutCursor),
    /// The run of the same command with this number.
    NamedRun(JobNumber, StdoutCursor),
}

impl PageSource {
    /// Decides by the cursor. Without a job number, the first byte is no position that any reply
    /// returned: the document's first request has it, and runs the command.
    const fn from_cursor(cursor: Option<StdoutCursor>) -> Self {
        match cursor {
            None => Self::NewRun,
            Some(cursor) => match cursor.given.job {
                Some(number) => Self::NamedRun(number, cursor),
                None if cursor.offset == 0 => Self::NewRun,
                None => Self::LatestRun(cursor),
            },
        }
    }
}

/// Returns the run that a call is about, after its end.
async fn find_or_start_run(
    call: ToolCall<'_>,
    args: &ShellExecArgs,
) -> Result<FinishedRun, ExecError> {
    let job = match PageSource::from_cursor(args.cursor) {
        PageSource::NewRun => return run(call, args).await,
        PageSource::LatestRun(cursor) => find_latest_run(call, args, cursor).await?,
        PageSource::NamedRun(number, cursor) => find_named_run(call, args, number, cursor).await?,
    };
    CallTurn::end(call.request);
    wait_for_earlier_run(call, job).await
}

async fn find_latest_run(
    call: ToolCall<'_>,
    args: &ShellExecArgs,
    cursor: StdoutCursor,
) -> Result<JobHandle, ExecError> {
    let mut same = call.client.list_same_command(&args.submission).await?.into_iter();
    let session = &call.client.caller().session;
    same.find(|job| job.spec().session == *session && is_readable_run(job))
        .ok_or(ExecError::NeverRan(cursor.given))
}

async fn find_named_run(
    call: ToolCall<'_>,
    args: &ShellExecArgs,
    number: JobNumber,
    cursor: StdoutCursor,
) -> Result<JobHandle, ExecError> {
    let id = call.client.job_id(number);
    let mut same = call.client.list_same_command(&args.submission).await?.into_iter();
    match same.find(|job| job.id() == id) {
        Some(job) => Ok(job),
        None if call.client.find(id).await.is_ok() => Err(ExecError::OtherCommand(cursor.given)),
        None => Err(ExecError::UnknownRun(cursor.given)),
    }
}

/// `true` if a cursor can continue in this run. A run that could not start, or that its caller
/// cancelled, does not count.
fn is_readable_run(job: &JobHandle) -> bool {
    job.status().ending().is_none_or(|ending| match ending.outcome {
        Outcome::FailedToStart(_)
        | Outcome::NotRun { .. }
        | Outcome::Stopped { by: StopBy::Cancel } => false,
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Stopped { by: StopBy::Client | StopBy::Shutdown | StopBy::NoSlot }
        | Outcome::Limit { .. }
        | Outcome::Lost { .. } => true,
    })
}

async fn run(call: ToolCall<'_>, args: &ShellExecArgs) -> Result<FinishedRun, ExecError> {
    let job = submit(call, args.submission.clone()).await?;
    let ending = match args.large_output {
        LargeOutputMode::Error => {
            let guard = stop_when_large(&job, args.limits.bytes as u64);
            tokio::join!(wait_for_end(call, &job), guard).0
        }
        LargeOutputMode::Spill | LargeOutputMode::SpillAlways | LargeOutputMode::Truncate => {
            wait_for_end(call, &job).await
        }
    };
    Ok(FinishedRun { job, ending })
}

/// Waits for the end of an earlier run. Another call may wait for it too, so giving up does not
/// stop it.
async fn wait_for_earlier_run(
    call: ToolCall<'_>,
    job: JobHandle,
) -> Result<FinishedRun, ExecError> {
    let limit = call.client.max_timeout();
    match wait_for(call, limit, job.finished(), || progress_line([&job])).await {
        WaitEnd::Done(ending) => Ok(FinishedRun { job, ending }),
        WaitEnd::Over => Err(ExecError::StillRuns(limit)),
        WaitEnd::Cancelled => Err(ExecError::Cancelled),
    }
}

/// Stops a job that writes more than `limit` bytes; returns when the job has ended or the stop was
/// requested.
async fn stop_when_large(job: &JobHandle, limit: u64) {
    tokio::select! {
        _ = job.finished() => {}
        () = wait_until_large(job.output(), limit) => {
            job.stop(StopRequest { by: StopBy::Client, signal: None, grace: None });
        }
    }
}

/// `true` if either stream has more than `limit` bytes.
fn is_large(log: &LogReader, limit: u64) -> bool {
    let progress = log.progress();
    [Stream::Stdout, Stream::Stderr].iter().any(|stream| progress.bytes_of(Some(*stream)) > limit)
}

/// Returns once either stream has more than `limit` bytes; never returns if none does.
async fn wait_until_large(log: &LogReader, limit: u64) {
    loop {
        let progress = log.progress();
        if is_large(log, limit) {
            return;
        }
        if progress.closed {
            return std::future::pending().await;
        }
        log.wait_past(progress.total_bytes).await;
    }
}

/// Memory per byte of a page: as written, as text, and in the reply.
const MEMORY_PER_BYTE: usize = 8;
/// Memory for everything beside the pages.
const BASE_MEMORY: usize = 4 * 1024 * 1024;

/// The output of a run as a reply needs it.
#[derive(Debug)]
struct RunOutput {
    page: OutputPage,
    /// The first page of stderr; empty for later pages.
    stderr: OutputPage,
    stderr_lines: u64,
    mime: Option<&'static str>,
    /// Line and error counts of stdout and of stderr.
    summary: Option<(StreamCounts, StreamCounts)>,
    head: String,
    tail: String,
    /// Bytes that the command wrote and that can no longer be read.
    lost_bytes: u64,
}

impl RunOutput {
    /// The memory that [`RunOutput::read`] needs, in bytes.
    fn required_memory(log: &LogReader, args: &ShellExecArgs) -> usize {
        let pages = BASE_MEMORY + 2 * MEMORY_PER_BYTE * args.limits.bytes;
        match args.filter {
            OutputFilter::None | OutputFilter::Grep(_) => pages,
            OutputFilter::Query(_) => pages + json::query_memory(log, Some(Stream::Stdout)),
        }
    }

    /// Reads pages, counts and previews. A query uses at most `memory` bytes.
    fn read(
        log: &BlockingReader,
        args: &ShellExecArgs,
        redactor: &Redactor,
        memory: usize,
        deadline: &ScanDeadline,
    ) -> Result<Self, ExecError> {
        let start = args.start();
        let page = read_filtered_page(log, &args.filter, start, args.limits, memory, deadline)?
            .without_trailing_cr();
        // Only the first page shows stderr.
        let stderr_from = if start == 0 { 0 } else { stream_len(log, Stream::Stderr) };
        let summary = args.wants_summary.then(|| {
            io::Result::Ok((
                count_lines_and_errors(log, Stream::Stdout)?,
                count_lines_and_errors(log, Stream::Stderr)?,
            ))
        });
        Ok(Self {
            stderr: read_stream_page(log, Stream::Stderr, stderr_from, args.limits)?,
            stderr_lines: count_lines(log, Stream::Stderr)?,
            mime: args
                .wants_mime
                .then(|| detect_page_mime(log, &page, &args.filter))
                .transpose()?,
            summary: summary.transpose()?,
            head: head_preview(log, args.style, redactor)?,
            tail: tail_preview(log, args.style, redactor)?,
            lost_bytes: log.progress().lost_bytes(),
            page,
        })
    }

    /// The page of stdout, and stderr, encoded for the reply.
    fn chunks(&self, args: &ShellExecArgs, redactor: &Redactor) -> (Chunk, Chunk) {
        let chunk = |page: &OutputPage| Chunk::encode(page.bytes.clone(), args.style, redactor);
        (chunk(&self.page), chunk(&self.stderr))
    }
}

pub(super) async fn call(call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
    match shell_exec(call, arguments).await {
        Ok(fields) => DialectReply::fields(fields),
        Err(error) => error.into(),
    }
}

async fn shell_exec(call: ToolCall<'_>, arguments: JsonObject) -> Result<JsonObject, ExecError> {
    let args = Arc::new(ShellExecArgs::read(arguments, call.settings.max_page_bytes)?);
    let run = find_or_start_run(call, &args).await?;
    let end = ExitFields::from_outcome(&run.ending.outcome)?;
    let output = read(call, &run, &args).await?;
    output.page.span.check_start(args.cursor)?;
    let is_large = is_large(run.job.output(), args.limits.bytes as u64);
    if args.large_output == LargeOutputMode::Error && (is_large || output.page.span.has_more) {
        let PageLimits { bytes, lines } = args.limits;
        return Err(ExecError::TooLarge { bytes, lines, job: run.job.id() });
    }
    let uris = spill_uris(call, &run, &args, &output).await?;
    let mut fields = JsonObject::new();
    end.write(&mut fields);
    write_chunks(&mut fields, output.chunks(&args, &call.client.redactor()), &output);
    write_position(&mut fields, &run, &args, &output);
    write_extras(&mut fields, &output);
    uris.write(&mut fields);
    Ok(fields)
}

/// The fields that say how the command ended.
struct ExitFields {
    /// Null unless the command exited by itself: a stopped command never looks like a success.
    exit_code: Value,
    /// The event that ended the command instead of an exit.
    error: Option<String>,
}

impl ExitFields {
    fn from_outcome(outcome: &Outcome) -> Result<Self, ExecError> {
        let error = match outcome {
            Outcome::Exited { code } => {
                return Ok(Self { exit_code: (*code).into(), error: None });
            }
            Outcome::FailedToStart(why) => return Err(ExecError::NotStarted(why.clone())),
            Outcome::Lost { why } => return Err(ExecError::Lost { why: why.clone() }),
            Outcome::Signaled { signal, .. } => format!("killed by {}", signal_name(*signal)),
            Outcome::TimedOut { after } => format!("timed out after {}s", after.as_secs()),
            Outcome::Stopped { by } => format!("stopped ({})", by.word()),
            Outcome::NotRun { waited, .. } => return Err(ExecError::NotRun(*waited)),
            Outcome::Limit { which } => which.to_string(),
        };
        Ok(Self { exit_code: Value::Null, error: Some(error) })
    }

    fn write(self, fields: &mut JsonObject) {
        fields.insert("exit_code".into(), self.exit_code);
        insert_some(fields, "error", self.error);
    }
}

async fn read(
    call: ToolCall<'_>,
    run: &FinishedRun,
    args: &Arc<ShellExecArgs>,
) -> Result<RunOutput, ExecError> {
    let log = run.job.output();
    let redactor = call.client.redactor();
    let args = Arc::clone(args);
    let memory = call.reserve(log, RunOutput::required_memory(log, &args)).await?;
    let most = memory.bytes();
    let scan = move |log: &BlockingReader, deadline: &_| {
        RunOutput::read(log, &args, &redactor, most, deadline)
    };
    let (output, _memory) = call.scan(log, memory, scan).await?;
    output
}

/// The URIs of output that is not in the reply.
struct SpillUris {
    stdout: Option<SpillUri>,
    stderr: Option<SpillUri>,
}

impl SpillUris {
    fn write(self, fields: &mut JsonObject) {
        let text = |uri: SpillUri| uri.to_string();
        fields.insert("spill_uri".into(), self.stdout.map(text).into());
        insert_some(fields, "stderr_spill_uri", self.stderr.map(text));
    }
}

async fn spill_uris(
    call: ToolCall<'_>,
    run: &FinishedRun,
    args: &ShellExecArgs,
    output: &RunOutput,
) -> Result<SpillUris, ExecError> {
    let is_paged = output.page.span.start > 0 || output.page.span.has_more;
    let wants_stdout = match args.large_output {
        LargeOutputMode::Spill => is_paged,
        LargeOutputMode::SpillAlways => true,
        LargeOutputMode::Truncate | LargeOutputMode::Error => false,
    };
    let ticket = call.client.ticket(run.job.id());
    let at = |stream, format| SpillUri { ticket: ticket.clone(), stream, format };
    if wants_stdout && args.format == SpillFormat::Gzip {
        // Compressed now, so that a failure shows in this reply.
        call.client.gzip_output(&run.job, Stream::Stdout).await?;
    }
    Ok(SpillUris {
        stdout: wants_stdout.then(|| at(Stream::Stdout, args.format)),
        stderr: output.stderr.span.has_more.then(|| at(Stream::Stderr, SpillFormat::Plain)),
    })
}

fn write_chunks(fields: &mut JsonObject, (stdout, stderr): (Chunk, Chunk), output: &RunOutput) {
    let plain = if stdout.encoding().is_none() { "text/plain" } else { "application/octet-stream" };
    fields.insert("mime".into(), output.mime.unwrap_or(plain).into());
    insert_some(fields, "encoding", stdout.encoding());
    insert_some(fields, "stderr_encoding", stderr.encoding());
    fields.insert("stdout_chunk".into(), stdout.into_text().into());
    fields.insert("stderr_chunk".into(), stderr.into_text().into());
}

fn write_position(
    fields: &mut JsonObject,
    run: &FinishedRun,
    args: &ShellExecArgs,
    output: &RunOutput,
) {
    let page = &output.page;
    let after = PageContinuation::new(args.large_output, page.span.has_more, output.lost_bytes);
    page.span.write(fields);
    fields.insert("line_count".into(), page.lines().into());
    fields.insert("stderr_count".into(), output.stderr_lines.into());
    fields.insert("truncated".into(), (after == PageContinuation::Missing).into());
    insert_some(fields, "dropped_bytes", (page.gap_bytes > 0).then_some(page.gap_bytes));
    insert_some(fields, "matches", page.matches);
    if after == PageContinuation::NextPage {
        let job = Some(run.job.id().job_number());
        let next = ParsedCursor { job, cursor: Cursor::Bytes(page.span.end) };
        fields.insert("next_cursor".into(), next.with_job_last().into());
    }
}

/// The output behind a page: a reply has either `next_cursor`, or `truncated`, or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageContinuation {
    /// The next page can be read.
    NextPage,
    /// Nothing: every byte was returned.
    End,
    /// Output that cannot be read, or that the caller did not want.
    Missing,
}

impl PageContinuation {
    const fn new(mode: LargeOutputMode, has_more: bool, lost_bytes: u64) -> Self {
        match (mode, has_more) {
            (LargeOutputMode::Truncate, true) => Self::Missing,
            (_, true) => Self::NextPage,
            (_, false) if lost_bytes > 0 => Self::Missing,
            (_, false) => Self::End,
        }
    }
}

fn write_extras(fields: &mut JsonObject, output: &RunOutput) {
    fields.insert("head_preview".into(), output.head.as_str().into());
    fields.insert("tail_preview".into(), output.tail.as_str().into());
    let summary = |(stdout, stderr): &(StreamCounts, StreamCounts)| {
        json!({
            "lines": stdout.lines,
            "errors": stdout.errors,
            "stderr_lines": stderr.lines,
            "stderr_errors": stderr.errors,
        })
    };
    insert_some(fields, "summary", output.summary.as_ref().map(summary));
}

fn insert_some(fields: &mut JsonObject, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse_args(given: Value) -> Result<ShellExecArgs, ExecError> {
        ShellExecArgs::read(given.as_object().cloned().unwrap_or_default(), 1 << 20)
    }

    #[test]
    fn the_defaults_match_the_document() {
        let args = parse_args(json!({"cmd": "ls", "args": ["-la"], "page": null})).unwrap();
        assert_eq!(args.limits, PageLimits { bytes: 65_536, lines: 2000 });
        assert_eq!(args.large_output, LargeOutputMode::Spill);
        assert_eq!(args.style, TextStyle { escapes: Escapes::Strip, newline: Newline::Lf });
        assert!(args.cursor.is_none() && args.wants_mime && !args.wants_summary);
    }

    #[test]
    fn only_a_returned_cursor_reads_an_earlier_run() {
        let source = |text: &str| PageSource::from_cursor(StdoutCursor::parse(text));
        let cursor = |text: &str| StdoutCursor::parse(text).unwrap();
        let named = |text: &str| PageSource::NamedRun(JobNumber::new(7), cursor(text));
        assert_eq!(PageSource::from_cursor(None), PageSource::NewRun);
        assert_eq!((source("bytes:0"), source("0")), (PageSource::NewRun, PageSource::NewRun));
        assert_eq!(source("bytes:5"), PageSource::LatestRun(cursor("bytes:5")));
        assert_eq!(source("bytes:0@7"), named("bytes:0@7"));
        assert_eq!(source("bytes:5@7"), named("bytes:5@7"));
    }

    #[test]
    fn a_page_is_followed_by_another_or_is_truncated_but_never_both() {
        use LargeOutputMode::{Error, Spill, SpillAlways, Truncate};
        for mode in [Spill, SpillAlways, Error] {
            assert_eq!(PageContinuation::new(mode, true, 0), PageContinuation::NextPage);
            assert_eq!(PageContinuation::new(mode, true, 9), PageContinuation::NextPage);
        }
        assert_eq!(PageContinuation::new(Truncate, true, 0), PageContinuation::Missing);
        for mode in [Spill, SpillAlways, Error, Truncate] {
            assert_eq!(PageContinuation::new(mode, false, 0), PageContinuation::End);
            assert_eq!(PageContinuation::new(mode, false, 9), PageContinuation::Missing);
        }
    }

    #[test]
    fn the_order_of_variables_does_not_matter() {
        let env =
            |text: &str| parse_args(serde_json::from_str(text).unwrap()).unwrap().submission.env;
        let one = env(r#"{"cmd": "ls", "env": {"B": "2", "A": "1"}}"#);
        assert_eq!(one, env(r#"{"cmd": "ls", "env": {"A": "1", "B": "2"}}"#));
    }

    #[test]
    fn invalid_arguments_are_refused_before_anything_runs() {
        for (given, expected) in [
            (json!({"page": {}}), "`cmd`"),
            (json!({"cmd": "x", "page": 7}), "`page`"),
            (json!({"cmd": "x", "page": {"curser": "bytes:1"}}), "did you mean `cursor`"),
            (json!({"cmd": "x", "page": {"cursor": "line:2"}}), "`line:2` is not a cursor"),
            (json!({"cmd": "x", "page": {"limit_bytes": 3}}), "from 4 to 1048576"),
            (json!({"cmd": "x", "page": {"limit_lines": 0}}), "`limit_lines`"),
            (json!({"cmd": "x", "on_large_output": "explode"}), "spill, truncate, error"),
            (json!({"cmd": "x", "grep": "("}), "regular expression"),
            (json!({"cmd": "x", "json_path": "a["}), "JMESPath"),
            (json!({"cmd": "x", "json_path": "a", "grep": "a"}), "not both"),
            (json!({"cmd": "x", "zip": true, "on_large_output": "error"}), "`zip`"),
            (json!({"cmd": "x", "newline": "cr"}), "`newline`"),
        ] {
            let error = parse_args(given.clone()).unwrap_err().to_string();
            assert!(error.contains(expected), "{given}: {error}");
        }
    }
}

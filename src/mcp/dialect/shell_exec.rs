//! `shell_exec`: runs a command whose output comes in pages; `read_file_chunk` reads what was
//! spilled.
//!
//! A call with a cursor that an earlier reply returned continues reading the output of that run and
//! runs nothing; `bytes:0` is the beginning, and runs the command. Offsets count the bytes of stdout
//! as they were written; the text of a page may be shorter, because escape codes and `\r` are
//! removed.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::read_file_chunk::{
    Chunk, OutputPage, PageLimits, PageSpan, detect_page_mime, read_filtered_page,
    read_head_preview, read_stream_page, read_tail_preview, stream_len,
};
use super::run::{DialectReply, SlotWait, submit, wait_for_end_within};
use super::shell_exec_args::{
    ExecError, LargeOutputMode, OutputFilter, PageSource, ShellExecArgs, SpillFormat, SpillUri,
    StdoutCursor,
};
use crate::ids::JobNumber;
use crate::mcp::reply::{describe_stop, progress_line};
use crate::mcp::resources::{Cursor, ParsedCursor};
use crate::mcp::tools::{CallTurn, ToolCall, WaitEnd, wait_for};
use crate::outcome::{JobEnding, Outcome, StopBy, signal_name};
use crate::output::redaction::Redactor;
use crate::output::{
    BlockingReader, LogReader, ScanDeadline, StreamCounts, count_lines, count_lines_and_errors,
    json,
};
use crate::service::{JobHandle, StopRequest};
use crate::spec::Stream;

/// The run of a command that a call is about.
#[derive(Debug)]
struct ExecRun {
    job: JobHandle,
    /// `None` if the run has not ended in the time that the client waits.
    ending: Option<JobEnding>,
}

/// Returns the run that a call is about, after its end or the longest wait of a call.
async fn find_or_start_run(call: ToolCall<'_>, args: &ShellExecArgs) -> Result<ExecRun, ExecError> {
    let job = match PageSource::from_cursor(args.cursor) {
        PageSource::New => return start_run(call, args).await,
        PageSource::Latest(cursor) => find_latest_run(call, args, cursor).await?,
        PageSource::Named(number, cursor) => find_named_run(call, args, number, cursor).await?,
    };
    CallTurn::end(call.request);
    wait_for_earlier_run(call, args, job).await
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
        | Outcome::Stopped {
            by: StopBy::Client | StopBy::Operator | StopBy::Shutdown | StopBy::NoSlot,
        }
        | Outcome::Limit { .. }
        | Outcome::Lost { .. } => true,
    })
}

async fn start_run(call: ToolCall<'_>, args: &ShellExecArgs) -> Result<ExecRun, ExecError> {
    let slot_wait = SlotWait::AtMost(call.client.max_timeout());
    let job = submit(call, args.submission.clone(), slot_wait).await?;
    let end = wait_for_end_within(call, &job, call.max_wait());
    let ending = stop_if_large(&job, args, end).await?;
    Ok(ExecRun { job, ending })
}

/// Waits for the end of an earlier run. Another call may wait for it too, so giving up does not
/// stop it.
async fn wait_for_earlier_run(
    call: ToolCall<'_>,
    args: &ShellExecArgs,
    job: JobHandle,
) -> Result<ExecRun, ExecError> {
    let end = wait_for(call, call.max_wait(), job.finished(), || progress_line([&job]));
    match stop_if_large(&job, args, end).await {
        WaitEnd::Done(ending) => Ok(ExecRun { job, ending: Some(ending) }),
        WaitEnd::Over => Ok(ExecRun { job, ending: None }),
        WaitEnd::Cancelled(intent) => {
            call.report_waited_jobs(intent, [job.id()]);
            Err(ExecError::Cancelled)
        }
    }
}

/// Waits for `end`. If large output is an error, a job that writes too much is stopped meanwhile.
async fn stop_if_large<T>(
    job: &JobHandle,
    args: &ShellExecArgs,
    end: impl Future<Output = T>,
) -> T {
    let guard = async {
        if args.large_output == LargeOutputMode::Error {
            stop_when_large(job, args.limits.bytes as u64).await;
        }
        pending::<Infallible>().await
    };
    tokio::select! {
        biased;
        ended = end => ended,
        never = guard => match never {},
    }
}

/// Stops a job that writes more than `limit` bytes; returns when the job has ended or the stop was
/// requested.
async fn stop_when_large(job: &JobHandle, limit: u64) {
    tokio::select! {
        _ = job.finished() => {}
        () = wait_until_large(job.output(), limit) => {
            let request = StopRequest { by: StopBy::Client, signal: None, grace: None };
            job.stop(request).wait_until_ordered().await;
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
            return pending().await;
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
            head: read_head_preview(log, args.style, redactor)?,
            tail: read_tail_preview(log, args.style, redactor)?,
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

pub(in crate::mcp) async fn call(call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
    match shell_exec(call, arguments).await {
        Ok(fields) => DialectReply::fields(fields),
        Err(error) => error.into(),
    }
}

async fn shell_exec(call: ToolCall<'_>, arguments: JsonObject) -> Result<JsonObject, ExecError> {
    let args = Arc::new(ShellExecArgs::read(arguments, call.settings.max_page_bytes)?);
    let run = find_or_start_run(call, &args).await?;
    let Some(ending) = &run.ending else {
        return build_unfinished_reply(call, &run.job, &args).await;
    };
    let end = ExitFields::from_outcome(&ending.outcome)?;
    let output = read_run_output(call, &run, &args).await?;
    output.page.span.check_start(args.cursor)?;
    let is_large = is_large(run.job.output(), args.limits.bytes as u64);
    if args.large_output == LargeOutputMode::Error && (is_large || output.page.span.has_more) {
        let PageLimits { bytes, lines } = args.limits;
        return Err(ExecError::TooLarge { bytes, lines, job: run.job.id() });
    }
    let uris = build_spill_uris(call, &run, &args, &output).await?;
    let mut fields = JsonObject::new();
    end.write(&mut fields);
    write_chunks(&mut fields, output.chunks(&args, &call.client.redactor()), &output);
    write_position(&mut fields, &run, &args, &output);
    write_extras(&mut fields, &output);
    uris.write(&mut fields);
    Ok(fields)
}

/// Returns the fields for a run that has not ended: no output yet, but its state, both ends of the
/// output so far, and the cursor that waits for the run.
async fn build_unfinished_reply(
    call: ToolCall<'_>,
    job: &JobHandle,
    args: &ShellExecArgs,
) -> Result<JsonObject, ExecError> {
    let redactor = call.client.redactor();
    let start = args.start();
    let style = args.style;
    let read = move |log: &BlockingReader| {
        let total = stream_len(log, Stream::Stdout);
        let head = read_head_preview(log, style, &redactor)?;
        let tail = read_tail_preview(log, style, &redactor)?;
        io::Result::Ok((total, count_lines(log, Stream::Stderr)?, head, tail))
    };
    let (total, stderr_lines, head, tail) = job.output().read_with(read).await?;
    let next = ParsedCursor { job: Some(job.id().job_number()), cursor: Cursor::Bytes(start) };
    let fields = json!({
        "exit_code": null,
        "status": progress_line([job]).await,
        "hint": "not ended yet: send the same call with page.cursor = next_cursor to wait for it",
        "stdout_chunk": "",
        "stderr_chunk": "",
        "truncated": false,
        "next_cursor": next.with_job_last(),
        "spill_uri": null,
        "mime": "text/plain",
        "line_count": 0,
        "stderr_count": stderr_lines,
        "head_preview": head,
        "tail_preview": tail,
    });
    let mut fields = fields.as_object().cloned().unwrap_or_default();
    PageSpan { start, end: start, total, has_more: true }.write(&mut fields);
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
            Outcome::Stopped { by } => describe_stop(*by).to_owned(),
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

async fn read_run_output(
    call: ToolCall<'_>,
    run: &ExecRun,
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

async fn build_spill_uris(
    call: ToolCall<'_>,
    run: &ExecRun,
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
    run: &ExecRun,
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
    use super::*;

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
}

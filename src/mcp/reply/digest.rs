//! The digest of a job's output: all its facts, as a reply, and for tasks, resources and the API.

use std::sync::Arc;
use std::time::Duration;

use super::error::{DigestError, ToolError};
use super::excerpt::{BASE_MEMORY, MEMORY_WAIT, SUMMARY_TIME, read};
use super::format::{count, size};
use super::reply_fitter::ReplyFitter;
use super::structured::byte_range_fields;
use super::summary::{
    MAX_LISTED, line_counts, one_line_summary, summarize_and_count, summary_fields,
};
use super::tool_reply::ToolReply;
use super::verdict::{join_line, verdict};
use crate::mcp::settings::ResultFormat;
use crate::mcp::snapshot::{JobSnapshot, read_progress_line};
use crate::output::summary::Summary;
use crate::output::{
    BlockingReader, LogReader, LogSummary, PageEnd, PageRequest, SummaryLimits, SummaryRequest,
};
use crate::service::JobHandle;

/// The longest text form of a digest, in bytes.
const DIGEST_BYTES: usize = 3000;

/// Renders the digest of a job's output from the request's offset on, with as many facts as fit.
/// The output is scanned once.
pub(crate) async fn show_digest(
    job: &JobSnapshot,
    log: &LogReader,
    request: PageRequest,
    fitter: &ReplyFitter,
) -> Result<ToolReply, ToolError> {
    let PageRequest { from, stream, .. } = request;
    let limits = SummaryLimits { time: DIGEST_TIME, ..SummaryLimits::default() };
    let wanted = SummaryRequest { stream, from, limits };
    let found = read(job, log, move |log| summarize_and_count(log, &wanted)).await?;
    let mut room = request.max_bytes.min(DIGEST_BYTES);
    let mut listed = MAX_LISTED;
    loop {
        let reply = digest_reply(job, &found, from, room);
        let reply = reply.with_field("digest", summary_fields(&found, listed));
        let reply = fitter.prepare(reply);
        if room == 0 || fitter.fits(&reply) {
            return Ok(reply);
        }
        if listed > 0 {
            listed /= 2;
        } else {
            room = room / 4 * 3;
        }
    }
}

/// The time for the middle of a large log, of a caller who asks for its digest.
const DIGEST_TIME: Duration = Duration::from_secs(5);

fn digest_reply(job: &JobSnapshot, log: &LogSummary, from: u64, room: usize) -> ToolReply {
    let lines = count(log.summary.lines, "line", "lines");
    let headline = format!("digest of {lines}{} · {}", scanned_note(log), verdict(job, None));
    let facts = log.summary.text(room).lines;
    let body = if facts.is_empty() { short_facts(&log.summary) } else { facts.join("\n") };
    let hint = log.summary.errors.kinds.first().map(|error| {
        let line = error.first.number;
        format!("around an error: read_output(job={}, line={line})", job.job)
    });
    let end_kind = if job.output.closed { PageEnd::Complete } else { PageEnd::CaughtUp };
    ToolReply::for_job(job, None, ResultFormat::Both)
        .with_byte_range(byte_range_fields(from.min(log.end), log.end, end_kind))
        .with_verdict(headline)
        .with_body(body)
        .with_hint(hint)
}

/// Formats the facts of which none is shown: the results of tools, or the numbers of lines.
fn short_facts(summary: &Summary) -> String {
    let found = one_line_summary(summary).or_else(|| line_counts(summary));
    let other = match summary.has_failures() || summary.tools.iter().any(|it| !it.is_consistent) {
        true => "something failed, but no report of it is certain: read the output",
        false => "no errors, no warnings",
    };
    found.unwrap_or_else(|| other.to_owned())
}

/// Formats how much was scanned, if that is not everything.
fn scanned_note(log: &LogSummary) -> String {
    if log.complete {
        return String::new();
    }
    format!(" ({} of it looked at)", size(log.scanned_bytes))
}

/// Summarises the whole output of a job.
///
/// # Errors
/// Fails if other reads use the memory for it, or if the log cannot be read.
pub(in crate::mcp) async fn read_summary(log: &LogReader) -> Result<Arc<LogSummary>, DigestError> {
    let memory = log.reserve(BASE_MEMORY, MEMORY_WAIT).await?;
    let limits = SummaryLimits { time: DIGEST_TIME, ..SummaryLimits::default() };
    let request = SummaryRequest { stream: None, from: 0, limits };
    let read = move |log: &BlockingReader| (summarize_and_count(log, &request), memory).0;
    Ok(log.scan_for(SUMMARY_TIME, read).await?)
}

/// Returns the state of a job in one line: if it has ended, with the result of the tools in its
/// output, else with its progress.
pub(in crate::mcp) async fn status_line(now: &JobSnapshot, job: &JobHandle) -> String {
    let result = match now.ending() {
        Some(_) => read_result_line(job.output()).await,
        None => None,
    };
    let last = match result {
        Some(result) => Some(result),
        None => read_progress_line(job.output()).await,
    };
    join_line(verdict(now, None), last)
}

/// Reads the result of the tools in an output, on one line.
async fn read_result_line(log: &LogReader) -> Option<String> {
    one_line_summary(&read_summary(log).await.ok()?.summary)
}

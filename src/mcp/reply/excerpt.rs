//! Reading the part of a job's output that a reply shows: all of it if it is short, else its facts
//! and its last lines; or a page, or a digest, which is all its facts.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, ResourceContents};

use super::budget::ReplyFitter;
use super::format::{count, size, thousands};
use super::job_list::byte_range_fields;
use super::shown_output::{
    LineSpan, MAX_LISTED, OutputCut, SCREEN_ROWS, ShownFacts, ShownOutput, describe_binary,
    line_counts, mark, one_line_summary, read_base64, read_hexdump, read_screen, read_text_page,
    skipped_bytes, summarize_and_count, summary_fields, text_form,
};
use super::snapshot::{JobSnapshot, State, join_line, read_progress_line, verdict};
use super::tool_reply::{DigestError, ToolError, ToolReply};
use crate::ids::JobNumber;
use crate::mcp::resources::{busy_error, find_job};
use crate::mcp::settings::ResultFormat;
use crate::outcome::Outcome;
use crate::output::excerpt::{Budget, Excerpt, Section, excerpt, tail};
use crate::output::summary::{Summary, is_progress_line};
use crate::output::{
    BlockingReader, LogReader, LogSummary, PageEnd, PageRequest, SummaryLimits, SummaryRequest,
    summarize, views,
};
use crate::service::{JobHandle, TenantClient};
use crate::spec::Stream;

/// The position at which a caller wants to start reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadPosition {
    /// An offset, which may be beyond the end.
    Offset(u64),
    /// A line that does not exist.
    NoSuchLine(u64),
}

/// Bytes from which the server decides whether output is text.
const SNIFFED_BYTES: usize = 8 * 1024;

/// The largest budget of a reply that is to be short. A caller who asks for more gets as much
/// output as fits.
const SHORT_REPLY_BYTES: usize = 8000;
/// In a short reply, output of at most this many lines is shown as it is …
const RAW_LINES: usize = 40;
/// … unless it has more bytes than this, and its facts take less than a third of them.
const RAW_BYTES: usize = 1200;
const FACTS_SHARE_OF_RAW: usize = 3;

/// The last lines that a reply shows below facts that do not explain a failure …
const LAST_LINES: usize = 10;
/// … and below others.
const FEW_LAST_LINES: usize = 4;
/// The part of the budget for the last lines, as a fraction.
const LAST_LINES_SHARE: usize = 4;

/// The most lines of a running job that a reply shows: its progress, not its log. A job in a
/// terminal shows its screen.
const RUNNING_LINES: usize = 20;
/// The output that a reply shows, unless its call asks for another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NewOutput {
    /// The offset from which output is new to the caller.
    pub(crate) from: u64,
    /// The number of the line that the call waited for, if it was found.
    pub(crate) matched_line: Option<u64>,
}

/// Reads the new output that a reply about a job shows: all, or facts and the last lines, if the job
/// has ended; if it runs, the last lines, and the line that the call waited for; nothing if it never
/// ran.
pub(crate) async fn show(
    job: &JobSnapshot,
    log: &LogReader,
    new: NewOutput,
    budget: Budget,
) -> Result<Option<ShownOutput>, ToolError> {
    let shown = match &job.state {
        State::Queued(_) => return Ok(None),
        State::Finished(ending) if matches!(ending.outcome, Outcome::FailedToStart(_)) => {
            return Ok(None);
        }
        State::Running(_) | State::Stopping => {
            let most = if job.has_terminal { SCREEN_ROWS } else { RUNNING_LINES };
            let budget = Budget { max_lines: budget.max_lines.min(most), ..budget };
            read(job, log, move |log| read_progress(log, new, budget)).await?
        }
        State::Finished(_) => show_from(job, log, new.from, budget).await?,
    };
    Ok(Some(shown))
}

/// Reads the output from `from` on: all of it if it is short, else facts and the last lines.
pub(crate) async fn show_from(
    job: &JobSnapshot,
    log: &LogReader,
    from: u64,
    budget: Budget,
) -> Result<ShownOutput, ToolError> {
    let result = match job.ending().map(|ending| &ending.outcome) {
        Some(Outcome::Exited { code: 0 }) => JobResult::Success,
        Some(_) => JobResult::Failure,
        None => JobResult::None,
    };
    match read(job, log, move |log| read_result(log, from, budget, result)).await {
        // Without facts, the outcome and the last lines are still there.
        Err(ToolError::Read { source, .. }) if source.kind() == io::ErrorKind::TimedOut => {
            read(job, log, move |log| render_excerpt(log, excerpt(log, from, budget)?, budget))
                .await
        }
        shown => shown,
    }
}

/// The result of a job, as far as the facts of its output must explain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobResult {
    Success,
    Failure,
    /// The job runs.
    None,
}

/// Reads the output from `from` on: all of it if it is short, else facts and the last lines; head
/// and tail if there are no facts.
pub(super) fn read_result(
    log: &BlockingReader,
    from: u64,
    budget: Budget,
    result: JobResult,
) -> io::Result<ShownOutput> {
    let is_short = budget.max_bytes <= SHORT_REPLY_BYTES;
    let most = if budget.max_lines == 0 { usize::MAX } else { budget.max_lines };
    let raw_lines = if is_short { most.min(RAW_LINES) } else { most };
    let raw = excerpt(log, from, Budget { max_lines: raw_lines, ..budget })?;
    let raw_bytes: usize = raw.sections.iter().map(|section| section.text.len()).sum();
    if is_raw(&raw) && (raw_bytes <= RAW_BYTES || !is_short) {
        return render_excerpt(log, raw, budget);
    }
    if let Some(binary) = describe_if_binary(log, &raw, budget)? {
        return Ok(binary);
    }
    let source = match result {
        JobResult::None => {
            summarize(log, &SummaryRequest { stream: None, from, limits: SummaryLimits::QUICK })?
        }
        JobResult::Success | JobResult::Failure => {
            let limits = SummaryLimits::default();
            summarize_and_count(log, &SummaryRequest { stream: None, from: 0, limits })?
        }
    };
    let room = budget.max_bytes - budget.max_bytes / LAST_LINES_SHARE;
    let is_unclear = result == JobResult::Failure && !source.summary.has_failures();
    let facts = match is_unclear {
        true => source.summary.clues(room).lines,
        false => source.summary.text(room).lines,
    };
    let facts_bytes: usize = facts.iter().map(|line| line.len() + 1).sum();
    let is_explained = explains(&source.summary, result);
    if is_raw(&raw) {
        let is_shorter = facts_bytes * FACTS_SHARE_OF_RAW < raw_bytes;
        if !(is_explained && is_shorter) {
            return render_excerpt(log, raw, budget);
        }
    } else if facts.is_empty() {
        return render_excerpt(log, excerpt(log, from, budget)?, budget);
    }
    let shown_from = if is_explained && is_short { source.summary.explained_to } else { 0 };
    let most = match result {
        _ if !is_short => most.saturating_sub(facts.len()).max(1),
        JobResult::Failure if !is_explained => LAST_LINES,
        JobResult::Success | JobResult::Failure | JobResult::None => FEW_LAST_LINES,
    };
    let room = budget.max_bytes.saturating_sub(facts_bytes);
    let last = Budget { max_bytes: room, max_lines: most, ..budget };
    let after = log.offset_of_line(shown_from + 1)?.unwrap_or(u64::MAX);
    let last_lines = tail(log, after.max(from).min(log.progress().total_bytes), last)?;
    let facts = ShownFacts { lines: facts, source };
    Ok(below_facts(render_excerpt(log, last_lines, budget)?, facts, from))
}

/// `true` if the excerpt is the whole output.
fn is_raw(excerpt: &Excerpt) -> bool {
    excerpt.hidden.is_none() && excerpt.before.is_none()
}

/// `true` if the facts explain the result of a job, so that the last lines say nothing more.
fn explains(summary: &Summary, result: JobResult) -> bool {
    match result {
        JobResult::Success => summary.explains_outcome() && !summary.has_failures(),
        JobResult::Failure => summary.explains_outcome() && summary.has_failures(),
        JobResult::None => false,
    }
}

/// Puts the last lines below the facts. A reader who wants every byte starts at `from`: nothing
/// before the last lines counts as read.
fn below_facts(last: ShownOutput, facts: ShownFacts, from: u64) -> ShownOutput {
    let text = last.text.trim_matches('\n');
    let text = if text.is_empty() { String::new() } else { format!("{text}\n") };
    let cut = OutputCut { head: 0, tail: 0, tail_bytes: last.start..last.end, first_hidden: 1 };
    ShownOutput {
        text,
        facts: Some(facts),
        cut: Some(cut),
        start: from,
        end: from,
        end_kind: PageEnd::More,
        ..last
    }
}

/// Reads the last lines of a running job, below the facts of the output before them. If the line
/// that the call waited for is not among them, reads that line and the last ones.
fn read_progress(log: &BlockingReader, new: NewOutput, budget: Budget) -> io::Result<ShownOutput> {
    let room = budget.max_bytes / LAST_LINES_SHARE;
    let below = Budget { max_bytes: budget.max_bytes - room, ..budget };
    let last_lines = tail(log, new.from, below)?;
    let matched = new.matched_line.map(|line| log.offset_of_line(line)).transpose()?.flatten();
    let is_hidden = |offset: &u64| (new.from..last_lines.from).contains(offset);
    if let Some(matched) = matched.filter(is_hidden) {
        return render_excerpt(log, excerpt(log, matched, budget)?, budget);
    }
    let last_lines = match is_progress_line(last_line(&last_lines)) {
        true => tail(log, new.from, Budget { max_lines: 1, ..below })?,
        false => last_lines,
    };
    if last_lines.before.is_none() {
        return render_excerpt(log, last_lines, budget);
    }
    let request = SummaryRequest { stream: None, from: new.from, limits: SummaryLimits::QUICK };
    let source = summarize(log, &request)?;
    let lines = source.summary.problems(room).lines;
    let facts = (!lines.is_empty()).then_some(ShownFacts { lines, source });
    Ok(ShownOutput { facts, ..render_excerpt(log, last_lines, budget)? })
}

/// The last line of an excerpt.
fn last_line(excerpt: &Excerpt) -> &str {
    let text = excerpt.sections.last().map_or("", |section| section.text.as_str());
    text.trim_end().rsplit('\n').next().unwrap_or_default()
}

/// Reads one page as text.
pub(crate) async fn show_page(
    job: &JobSnapshot,
    log: &LogReader,
    request: PageRequest,
) -> Result<ShownOutput, ToolError> {
    read_page(job, log, request, read_text_page).await
}

/// Reads one page as base64 of the bytes as they were written.
pub(crate) async fn show_base64(
    job: &JobSnapshot,
    log: &LogReader,
    request: PageRequest,
) -> Result<ShownOutput, ToolError> {
    read_page(job, log, request, read_base64).await
}

/// Reads one page as a hexdump of the bytes as they were written.
pub(crate) async fn show_hexdump(
    job: &JobSnapshot,
    log: &LogReader,
    request: PageRequest,
) -> Result<ShownOutput, ToolError> {
    read_page(job, log, request, read_hexdump).await
}

/// Reads the rows that a terminal shows now.
pub(crate) async fn show_screen(
    job: &JobSnapshot,
    log: &LogReader,
    stream: Option<Stream>,
    budget: Budget,
) -> Result<ShownOutput, ToolError> {
    read(job, log, move |log| read_screen(log, stream, budget)).await
}

fn render_excerpt(
    log: &BlockingReader,
    excerpt: Excerpt,
    budget: Budget,
) -> io::Result<ShownOutput> {
    if let Some(binary) = describe_if_binary(log, &excerpt, budget)? {
        return Ok(binary);
    }
    let is_whole = excerpt.from == 0 && excerpt.hidden.is_none();
    let span = |section: &Section| span(log, &excerpt, section);
    let sections = if is_whole { [].iter() } else { excerpt.sections.iter() };
    let spans = sections.map(span).collect::<io::Result<_>>()?;
    let bad_bytes = excerpt.sections.iter().map(|section| section.bad_bytes as u64).sum();
    let (text, cut) = join_sections(&excerpt);
    let (end, end_kind) = match cut {
        Some(_) => (head_of(&excerpt).map_or(excerpt.from, |head| head.end), PageEnd::More),
        None => (excerpt.end, end_of(log, excerpt.end)),
    };
    Ok(ShownOutput {
        text,
        facts: None,
        spans,
        cut,
        start: excerpt.from,
        end,
        end_kind,
        gap_bytes: excerpt.gap_bytes,
        bad_bytes,
        form: text_form(excerpt.charset),
        stream: None,
    })
}

/// Returns the lines of a section. A tail after a hidden part needs no count of skipped bytes: the
/// mark between them has it.
fn span(log: &BlockingReader, excerpt: &Excerpt, section: &Section) -> io::Result<LineSpan> {
    let Section { first_line: first, last_line: last, start, .. } = *section;
    let skipped_bytes = if start == excerpt.from { skipped_bytes(log, first, start)? } else { 0 };
    Ok(LineSpan { first, last, skipped_bytes })
}

/// Returns the section before the hidden part. If there was no room for one, the only section is
/// the tail.
fn head_of(excerpt: &Excerpt) -> Option<&Section> {
    excerpt.sections.first().filter(|section| section.start == excerpt.from)
}

fn end_of(log: &BlockingReader, end: u64) -> PageEnd {
    let progress = log.progress();
    if progress.closed && end >= progress.total_bytes {
        PageEnd::Complete
    } else {
        PageEnd::CaughtUp
    }
}

/// Joins the sections, with a mark for the hidden part between them. A tail without a hidden part
/// before it has shortened lines; reading continues at its first line.
fn join_sections(excerpt: &Excerpt) -> (String, Option<OutputCut>) {
    let head = head_of(excerpt);
    let tail = excerpt.sections.get(usize::from(head.is_some()));
    let mut text = head.map(|head| head.text.clone()).unwrap_or_default();
    let head = text.len();
    let hidden = excerpt.hidden.as_ref();
    let Some(first_hidden) =
        hidden.map(|hidden| hidden.first_line).or(tail.map(|tail| tail.first_line))
    else {
        return (text, None);
    };
    if let Some(hidden) = hidden {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&mark(hidden));
    }
    let cut = OutputCut {
        head,
        tail: text.len(),
        tail_bytes: tail.map_or(excerpt.end, |tail| tail.start)..excerpt.end,
        first_hidden,
    };
    text.extend(tail.map(|tail| tail.text.as_str()));
    (text, Some(cut))
}

/// Returns a description if the output is binary.
fn describe_if_binary(
    log: &BlockingReader,
    excerpt: &Excerpt,
    budget: Budget,
) -> io::Result<Option<ShownOutput>> {
    let request = PageRequest {
        from: excerpt.from,
        to: u64::MAX,
        stream: None,
        max_bytes: SNIFFED_BYTES,
        max_lines: 0,
    };
    let page = log.read_page_in(&request, excerpt.charset)?;
    let is_binary = views::is_binary_in(&page.bytes, excerpt.charset);
    is_binary.then(|| describe_binary(log, &request, &page, budget.max_bytes)).transpose()
}

/// Returns the first line of the reply to a read beyond the end.
pub(crate) fn beyond_end_notice(job: &JobSnapshot, position: ReadPosition) -> Option<String> {
    let total = job.output.total_bytes;
    let position_text = match position {
        ReadPosition::Offset(offset) if offset > total => format!("bytes:{offset}"),
        ReadPosition::Offset(_) => return None,
        ReadPosition::NoSuchLine(line) => format!("line {}", thousands(line)),
    };
    let lines = count(job.lines(), "line", "lines");
    Some(format!(
        "nothing at {position_text}: the output of job {} ends at bytes:{total} ({lines})",
        job.job
    ))
}

/// Memory of a read beside its page: blocks and index of the log.
const BASE_MEMORY: usize = 2 * 1024 * 1024;
/// Memory per byte of a page: as written, as text, and in the reply.
const MEMORY_PER_BYTE: usize = 8;
/// The time for a summary, beside the time of the disk.
const SUMMARY_TIME: Duration = Duration::from_secs(10);
/// The longest wait for memory.
const MEMORY_WAIT: Duration = Duration::from_secs(10);

/// Reads a log, on a blocking thread if the log is large or on disk.
async fn read<T: Send + 'static>(
    job: &JobSnapshot,
    log: &LogReader,
    read: impl FnOnce(&BlockingReader) -> io::Result<T> + Send + 'static,
) -> Result<T, ToolError> {
    read_reserved(job, log, BASE_MEMORY, read).await
}

/// Reads one page of a log.
pub(super) async fn read_page(
    job: &JobSnapshot,
    log: &LogReader,
    request: PageRequest,
    show: fn(&BlockingReader, &PageRequest) -> io::Result<ShownOutput>,
) -> Result<ShownOutput, ToolError> {
    let memory = BASE_MEMORY + MEMORY_PER_BYTE * request.max_bytes;
    read_reserved(job, log, memory, move |log| show(log, &request)).await
}

/// Reads a log with this much memory reserved. The reservation lasts until the read is over, even
/// if the caller is gone.
async fn read_reserved<T: Send + 'static>(
    job: &JobSnapshot,
    log: &LogReader,
    memory: usize,
    read: impl FnOnce(&BlockingReader) -> io::Result<T> + Send + 'static,
) -> Result<T, ToolError> {
    let memory = match log.is_cheap_to_read() {
        true => None,
        false => Some(log.reserve(memory, MEMORY_WAIT).await?),
    };
    let found = log.scan_for(SUMMARY_TIME, move |log| (read(log), memory).0).await;
    found.map_err(|source| ToolError::Read { job: job.job, source })
}

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

/// Reads the facts of a job's output as text, at most `max_bytes`. Returns `None` if the URI does not
/// name a digest.
pub(crate) async fn read_digest_resource(
    client: &TenantClient,
    uri: &str,
    max_bytes: usize,
) -> Option<Result<ReadResourceResult, ErrorData>> {
    Some(read_facts(client, uri, parse_digest_uri(uri)?, max_bytes).await)
}

async fn read_facts(
    client: &TenantClient,
    uri: &str,
    job: JobNumber,
    max_bytes: usize,
) -> Result<ReadResourceResult, ErrorData> {
    let job = find_job(client, uri, job).await?;
    let found = read_summary(job.output()).await.map_err(|error| match error {
        DigestError::Busy(error) => busy_error(error),
        DigestError::Find(_) | DigestError::Read(_) => {
            ErrorData::internal_error(error.to_string(), None)
        }
    })?;
    let facts = found.summary.text(max_bytes).lines.join("\n");
    let text = client.redactor().mask_text(&facts).into_owned();
    let contents = ResourceContents::text(text, uri).with_mime_type("text/plain");
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Returns the job whose digest this URI names.
fn parse_digest_uri(uri: &str) -> Option<JobNumber> {
    uri.strip_prefix("shellyard://jobs/")?.strip_suffix("/digest")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::reply::shown_output::OutputEncoding;
    use crate::mcp::resources::TEMPLATES;
    use crate::output::{LogStorage, open_log};

    fn log_of(bytes: &[u8]) -> LogReader {
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() });
        writer.append(Stream::Stdout, bytes);
        writer.close();
        reader
    }

    fn show_all(log: &LogReader, max_bytes: usize) -> ShownOutput {
        let budget = Budget::of_bytes(max_bytes);
        render_excerpt(&log.blocking(), excerpt(&log.blocking(), 0, budget).unwrap(), budget)
            .unwrap()
    }

    #[test]
    fn a_reader_who_follows_the_cursor_misses_no_byte() {
        let text: String = (1..=1000).map(|line| format!("line {line}\n")).collect();
        let log = log_of(text.as_bytes());
        let whole = show_all(&log, 1 << 20);
        assert_eq!((whole.text.as_str(), whole.end_kind), (text.as_str(), PageEnd::Complete));
        assert!(!whole.is_cut());
        let cut = show_all(&log, 500);
        assert!(cut.is_cut() && cut.spans.len() == 2, "{cut:?}");
        assert_eq!(cut.end_kind, PageEnd::More);
        let end = usize::try_from(cut.end).unwrap();
        assert!(cut.text.starts_with(&text[..end]), "the head shows all bytes before the cursor");
        assert_eq!(cut.head(), &text[..end], "the head holds nothing else");
        let middle = cut.cut.unwrap();
        assert_eq!(middle.first_hidden, cut.spans[0].last + 1);
        let tail_start = usize::try_from(middle.tail_bytes.start).unwrap();
        assert_eq!(&cut.text[middle.tail..], &text[tail_start..]);
    }

    #[test]
    fn reading_continues_before_a_line_that_is_cut() {
        let text = format!("one\n{}\ntwo\n", "x".repeat(3000));
        let cut = show_all(&log_of(text.as_bytes()), 2000);
        assert!(cut.text.starts_with("one\nxxx") && cut.text.ends_with("xxx\ntwo\n"));
        assert_eq!((cut.head(), cut.end, cut.end_kind), ("one\n", 4, PageEnd::More));
        assert!(!cut.is_cut(), "each line is shown, at least in part");
        assert_eq!(cut.cut.unwrap().first_hidden, 2);
    }

    #[test]
    fn without_room_for_a_head_nothing_counts_as_read() {
        let text: String = (1..=1000).map(|line| format!("line {line}\n")).collect();
        let cut = show_all(&log_of(text.as_bytes()), 12);
        assert_eq!((cut.head(), cut.start, cut.end), ("", 0, 0), "{cut:?}");
    }

    #[test]
    fn binary_output_is_described() {
        let shown = show_all(&log_of(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe"), 1 << 20);
        assert_eq!(shown.form, OutputEncoding::Binary { mime: "image/png".to_owned() });
        assert_eq!((shown.start, shown.end, shown.end_kind), (0, 18, PageEnd::Complete));
        assert!(shown.text.starts_with("[binary output: image/png, 18 bytes]\n00000000  89 50"));
    }

    #[test]
    fn following_the_cursor_reaches_the_end_of_any_output() {
        let numbers: String = (1..=5000).map(|line| format!("{line}\n")).collect();
        let mixed = [numbers.as_bytes(), &[0; 20_000], numbers.as_bytes()].concat();
        let log = log_of(&mixed);
        for stream in [None, Some(Stream::Stdout)] {
            let mut request =
                PageRequest { from: 0, to: u64::MAX, stream, max_bytes: 4096, max_lines: 0 };
            loop {
                let page = read_text_page(&log.blocking(), &request).unwrap();
                assert_eq!((page.start, page.stream), (request.from, stream));
                if page.end_kind == PageEnd::Complete {
                    assert_eq!(page.end, mixed.len() as u64);
                    break;
                }
                assert!(page.end > page.start, "{page:?}");
                request.from = page.end;
            }
        }
    }

    #[test]
    fn a_page_that_starts_with_a_long_line_shows_it_whole() {
        let long = "x".repeat(5000) + "\n";
        let log = log_of(format!("{long}short\n").as_bytes());
        let request =
            PageRequest { from: 0, to: u64::MAX, stream: None, max_bytes: 16_384, max_lines: 0 };
        assert_eq!(
            read_text_page(&log.blocking(), &request).unwrap().text,
            format!("{long}short\n")
        );
    }

    #[test]
    fn a_uri_names_the_digest_of_a_job() {
        let uri = TEMPLATES[4].replace("{job}", "12");
        assert_eq!(parse_digest_uri(&uri), Some(JobNumber::new(12)));
        for foreign in ["shellyard://jobs/12/output", "shellyard://jobs/x/digest", "file:///digest"]
        {
            assert_eq!(parse_digest_uri(foreign), None, "{foreign}");
        }
    }
}

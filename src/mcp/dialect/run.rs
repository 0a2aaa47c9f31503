//! Steps that all dialects share: run a command to its end, with its lines as progress if the dialect
//! wants that, read its output, and build a reply in the format of the dialect's document.

use std::io;
use std::time::Duration;

use futures_util::stream;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject};
use serde_json::Value;
use thiserror::Error;
use tokio::time::{Instant, sleep_until, timeout};

use crate::mcp::reply::{mask, mask_value, progress_line};
use crate::mcp::tools::{
    CallTurn, CancelEffect, ProgressSender, ToolCall, WaitEnd, wait_for, wait_with_progress,
};
use crate::outcome::{JobEnding, StopBy};
use crate::output::redaction::Redactor;
use crate::output::views::{Ansi, Fold, LongLines, ViewOptions};
use crate::output::{BlockingReader, LogPage, PageEnd, PageRequest, ReadPermit, views};
use crate::service::{JobHandle, StopRequest, Submission, SubmitError, TenantClient};
use crate::spec::{Stream, StreamMode};

/// A wait limit longer than any deadline; the job's own deadline bounds the wait.
const NO_LIMIT: Duration = Duration::from_secs(365 * 86_400);

/// Bytes read from a log at a time.
const PAGE_BYTES: usize = 256 * 1024;

/// Replies with at most this much output reserve no memory.
const SMALL_OUTPUT: usize = 256 * 1024;
/// Memory per byte of output in a reply: as written, as text, and as JSON.
const MEMORY_PER_BYTE: usize = 4;
/// The longest wait for memory: the command has already run, and its result is needed.
const MEMORY_WAIT: Duration = Duration::from_secs(30);

/// The longest wait of a job for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotWait {
    AtMost(Duration),
    Unlimited,
}

/// The error for a call that its client gave up. Nobody reads the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the call was given up; its job goes on")]
pub(crate) struct CallGivenUp;

impl From<CallGivenUp> for String {
    fn from(error: CallGivenUp) -> Self {
        error.to_string()
    }
}

/// Submits a job; from then on later calls of the same client may start. Its streams are kept apart,
/// whatever the settings say: the documents' replies have a field for each.
pub(super) async fn submit(
    call: ToolCall<'_>,
    submission: Submission,
    slot_wait: SlotWait,
) -> Result<JobHandle, SubmitError> {
    let submission = Submission { streams: Some(StreamMode::Separate), ..submission };
    let job = call.client.submit(submission).await?;
    CallTurn::end(call.request);
    if let SlotWait::AtMost(limit) = slot_wait {
        // In a task of its own: the limit holds for the job, also after its call was given up.
        tokio::spawn(withdraw_without_slot(call.client.clone(), job.clone(), limit));
    }
    Ok(job)
}

/// Withdraws a job from the queue that gets no slot within `limit`.
async fn withdraw_without_slot(client: TenantClient, job: JobHandle, limit: Duration) {
    if timeout(limit, job.started()).await.is_err() {
        stop_job(&client, &job, StopBy::NoSlot).await;
    }
}

/// Waits until a job has ended. If a user cancels the call, the job is stopped, unless the settings
/// say otherwise; a job whose client only stopped waiting goes on.
pub(super) async fn wait_for_end(
    call: ToolCall<'_>,
    job: &JobHandle,
) -> Result<JobEnding, CallGivenUp> {
    let wait_end = wait_for(call, NO_LIMIT, job.finished(), || progress_line([job])).await;
    end_wait(call, job, wait_end).await
}

/// Does the same, at most for `limit`; returns `None` if the job has not ended by then. It goes on.
pub(super) async fn wait_for_end_within(
    call: ToolCall<'_>,
    job: &JobHandle,
    limit: Duration,
) -> Result<Option<JobEnding>, CallGivenUp> {
    match wait_for(call, limit, job.finished(), || progress_line([job])).await {
        WaitEnd::Over => Ok(None),
        wait_end @ (WaitEnd::Done(_) | WaitEnd::Cancelled(_)) => {
            end_wait(call, job, wait_end).await.map(Some)
        }
    }
}

/// Waits until a job has ended, and sends every new line of output as progress.
pub(super) async fn stream_to_end(
    call: ToolCall<'_>,
    job: &JobHandle,
    max_bytes: usize,
) -> Result<JobEnding, CallGivenUp> {
    let progress = ProgressSender::for_call(call);
    let mut feed = ProgressLines::new(job, call.settings.progress_every, max_bytes);
    let end = job.finished();
    let messages = stream::unfold(&mut feed, |feed| async move {
        let message = feed.next_message().await;
        Some((message, feed))
    });
    let wait_end = wait_with_progress(call, NO_LIMIT, end, progress.as_ref(), messages).await;
    if let (WaitEnd::Done(_), Some(progress)) = (&wait_end, &progress)
        && let Some(lines) = feed.last_lines().await
    {
        progress.send(&lines).await;
    }
    end_wait(call, job, wait_end).await
}

/// Returns the ending of a job after the wait for it, and stops the job first if the wait was
/// cancelled together with it.
async fn end_wait(
    call: ToolCall<'_>,
    job: &JobHandle,
    wait_end: WaitEnd<JobEnding>,
) -> Result<JobEnding, CallGivenUp> {
    let effect = match wait_end {
        WaitEnd::Done(ending) => return Ok(ending),
        WaitEnd::Over => CancelEffect::JobEnds,
        WaitEnd::Cancelled(intent) => call.cancel_effect(intent, job),
    };
    match effect {
        CancelEffect::JobGoesOn => Err(CallGivenUp),
        CancelEffect::JobEnds => {
            stop_job(call.client, job, StopBy::Cancel).await;
            Ok(job.finished().await)
        }
    }
}

async fn stop_job(client: &TenantClient, job: &JobHandle, by: StopBy) {
    let stop_request = StopRequest { by, signal: None, grace: None };
    // A job that is no longer known has ended.
    client.stop(job.id(), stop_request).await.ok();
}

/// The beginning of one stream, up to a limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CapturedStream {
    pub(super) bytes: Vec<u8>,
    /// `true` if the stream has more bytes.
    pub(super) is_cut: bool,
    /// The size of the whole stream.
    pub(super) total_bytes: u64,
}

impl CapturedStream {
    /// The bytes as text; invalid UTF-8 becomes `�`.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Cuts the stream so that its text has at most `max` bytes.
    fn with_text_up_to(mut self, max: usize) -> Self {
        let fitting = measure_fitting_text(&self.bytes, max);
        self.is_cut |= fitting < self.bytes.len();
        self.bytes.truncate(fitting);
        self
    }
}

/// The output of both streams in a reply.
#[derive(Debug)]
pub(super) struct CapturedOutput {
    pub(super) stdout: CapturedStream,
    pub(super) stderr: CapturedStream,
    /// Holds the reserved memory until the reply is written.
    _memory: Option<ReadPermit>,
}

/// Reserves memory for a reply with at most `most` bytes of a job's output.
pub(super) async fn reserve_memory(job: &JobHandle, most: usize) -> io::Result<Option<ReadPermit>> {
    let log = job.output();
    let total = usize::try_from(log.progress().total_bytes).unwrap_or(usize::MAX);
    let bytes = most.min(total);
    if bytes <= SMALL_OUTPUT {
        return Ok(None);
    }
    let reserved = log.reserve(bytes.saturating_mul(MEMORY_PER_BYTE), MEMORY_WAIT).await;
    reserved.map(Some).map_err(io::Error::other)
}

impl CapturedOutput {
    /// Reads at most `most` bytes of each stream.
    pub(super) async fn read_each(job: &JobHandle, most: usize) -> io::Result<Self> {
        Ok(Self {
            _memory: reserve_memory(job, most.saturating_mul(2)).await?,
            stdout: read_stream(job, Some(Stream::Stdout), most).await?,
            stderr: read_stream(job, Some(Stream::Stderr), most).await?,
        })
    }

    /// Reads at most `most` bytes of both streams together, counted as text. Each stream is
    /// guaranteed half of that if it needs it: a flood on one never hides an error on the other.
    pub(super) async fn read_together(job: &JobHandle, most: usize) -> io::Result<Self> {
        let progress = job.output().progress();
        let bytes = |stream| usize::try_from(progress.bytes_of(Some(stream))).unwrap_or(usize::MAX);
        let for_stderr = compute_stream_share(most, bytes(Stream::Stderr), bytes(Stream::Stdout));
        let for_stdout = most - for_stderr;
        let memory = reserve_memory(job, most).await?;
        let stdout = read_stream(job, Some(Stream::Stdout), for_stdout).await?;
        let stderr = read_stream(job, Some(Stream::Stderr), for_stderr).await?;
        Ok(Self {
            _memory: memory,
            stdout: stdout.with_text_up_to(for_stdout),
            stderr: stderr.with_text_up_to(for_stderr),
        })
    }
}

/// Returns how much of `most` a stream of `own` bytes gets beside one of `other` bytes.
fn compute_stream_share(most: usize, own: usize, other: usize) -> usize {
    let left_over = most.saturating_sub(other);
    own.min(left_over.max(most / 2))
}

/// Reads the first `max` bytes of one stream of a job, or of both in the order of writing.
pub(super) async fn read_stream(
    job: &JobHandle,
    stream: Option<Stream>,
    max: usize,
) -> io::Result<CapturedStream> {
    job.output().read_with(move |log| read_first(log, stream, max)).await
}

fn read_first(
    log: &BlockingReader,
    stream: Option<Stream>,
    max: usize,
) -> io::Result<CapturedStream> {
    let total_bytes = log.progress().bytes_of(stream);
    let mut bytes = Vec::new();
    let mut from = 0;
    loop {
        // One byte more than needed shows whether anything is cut.
        let max_bytes = PAGE_BYTES.min(max + 1 - bytes.len());
        let page =
            log.read_page(&PageRequest { from, to: u64::MAX, stream, max_bytes, max_lines: 0 })?;
        bytes.extend_from_slice(&page.bytes);
        from = page.end;
        if bytes.len() > max || page.end_kind != PageEnd::More {
            let is_cut = bytes.len() > max;
            if is_cut {
                bytes.truncate(find_char_boundary(&bytes, max));
            }
            return Ok(CapturedStream { bytes, is_cut, total_bytes });
        }
    }
}

/// Returns how many bytes become at most `max` bytes of text: an invalid sequence becomes `�`,
/// which has three.
fn measure_fitting_text(bytes: &[u8], max: usize) -> usize {
    let mut taken = 0;
    let mut text = 0;
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid().len();
        if text + valid > max {
            return taken + find_char_boundary(&bytes[taken..], max - text);
        }
        (taken, text) = (taken + valid, text + valid);
        if !chunk.invalid().is_empty() {
            text += '\u{fffd}'.len_utf8();
            if text > max {
                return taken;
            }
            taken += chunk.invalid().len();
        }
    }
    taken
}

/// Returns the largest length up to `max` that splits no UTF-8 character.
fn find_char_boundary(bytes: &[u8], max: usize) -> usize {
    let continues = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    (max.saturating_sub(3)..=max).rev().find(|at| !continues(at)).unwrap_or(max)
}

/// The reply of a dialect's tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DialectReply {
    pub(crate) text: ReplyText,
    /// A second content block below the text.
    pub(crate) detail: Option<ReplyText>,
    /// The structured form, if the dialect's document has one.
    pub(crate) structured: Option<JsonObject>,
    /// The `_meta` object of the result.
    pub(crate) meta: Option<JsonObject>,
    pub(crate) is_error: bool,
}

/// The text of one content block.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReplyText {
    Plain(String),
    /// The structured form, as one line of JSON.
    Structured,
    /// These fields as indented JSON.
    Pretty(JsonObject),
}

impl DialectReply {
    pub(crate) const fn text(text: String) -> Self {
        Self {
            text: ReplyText::Plain(text),
            detail: None,
            structured: None,
            meta: None,
            is_error: false,
        }
    }

    /// Creates an error reply with text only.
    pub(crate) fn failure(text: String) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Creates a reply with these fields, and the same as one line of JSON text.
    pub(crate) fn fields(fields: JsonObject) -> Self {
        Self { text: ReplyText::Structured, structured: Some(fields), ..Self::text(String::new()) }
    }

    /// Creates a reply with these fields as indented JSON text only; its result says nothing about
    /// errors, as the document prints it.
    pub(crate) fn pretty(fields: JsonObject) -> Self {
        Self { text: ReplyText::Pretty(fields), ..Self::text(String::new()) }
    }

    /// Masks every secret. Fields are masked before they become JSON text, so the text stays valid
    /// JSON.
    pub(crate) fn masked(mut self, redactor: &Redactor) -> Self {
        for words in [Some(&mut self.text), self.detail.as_mut()].into_iter().flatten() {
            match words {
                ReplyText::Plain(text) => mask(text, redactor),
                ReplyText::Structured => {}
                ReplyText::Pretty(fields) => mask_fields(fields, redactor),
            }
        }
        for fields in [&mut self.structured, &mut self.meta].into_iter().flatten() {
            mask_fields(fields, redactor);
        }
        self
    }

    /// The text of each content block.
    fn texts(&self) -> impl Iterator<Item = String> {
        [Some(&self.text), self.detail.as_ref()].into_iter().flatten().map(|words| match words {
            ReplyText::Plain(text) => text.clone(),
            ReplyText::Structured => {
                Value::Object(self.structured.clone().unwrap_or_default()).to_string()
            }
            ReplyText::Pretty(fields) => format_pretty(fields),
        })
    }

    pub(crate) fn into_result(self) -> CallToolResult {
        let content = self.texts().map(ContentBlock::text).collect();
        let mut result = if self.is_error {
            CallToolResult::error(content)
        } else {
            CallToolResult::success(content)
        };
        if matches!(self.text, ReplyText::Pretty(_)) && !self.is_error {
            result.is_error = None;
        }
        result.structured_content = self.structured.map(Value::Object);
        result.meta = self.meta.map(MetaObject);
        result
    }
}

/// Formats fields as indented JSON.
pub(super) fn format_pretty(fields: &JsonObject) -> String {
    // Texts as keys and values always become JSON.
    serde_json::to_string_pretty(fields).unwrap_or_default()
}

fn mask_fields(fields: &mut JsonObject, redactor: &Redactor) {
    fields.values_mut().for_each(|value| mask_value(value, redactor));
}

/// The shortest time between two messages with lines: a fast command sends many lines in one.
const PAUSE: Duration = Duration::from_millis(100);
/// The most bytes of output in one message; the rest follows in the next one.
const MESSAGE_BYTES: usize = 16 * 1024;

/// Every line once, without escape codes.
const VIEW: ViewOptions =
    ViewOptions { ansi: Ansi::StripLines, fold: Fold::Off, long: LongLines::Keep };

/// The new lines of a job's output, in the order of writing. While there are none, the feed gives
/// the job's status at intervals.
struct ProgressLines<'a> {
    job: &'a JobHandle,
    /// The time between two messages without new lines.
    status_every: Duration,
    status_at: Instant,
    /// The earliest time of the next message with lines.
    lines_at: Instant,
    /// The offset of the first byte that is in no message.
    next: u64,
    /// The bytes of the log that were read, also those of an unfinished line.
    seen: u64,
    /// The offset from which on nothing is sent.
    end: u64,
}

impl<'a> ProgressLines<'a> {
    /// Creates a feed of the first `max_bytes` bytes of the output.
    pub(super) fn new(job: &'a JobHandle, status_every: Duration, max_bytes: usize) -> Self {
        let now = Instant::now();
        Self {
            job,
            status_every,
            status_at: now + status_every,
            // A command that is over at once needs no progress.
            lines_at: now + PAUSE,
            next: 0,
            seen: 0,
            end: max_bytes as u64,
        }
    }

    /// Waits for new lines, or until it is time for a status. Dropping the future loses nothing.
    async fn next_message(&mut self) -> String {
        loop {
            let has_output = tokio::select! {
                () = wait_for_output(self.job, self.seen, self.lines_at), if self.next < self.end => true,
                () = sleep_until(self.status_at) => false,
            };
            let lines = if has_output { self.read_lines(LinePart::Whole).await } else { None };
            if lines.is_some() || !has_output {
                let now = Instant::now();
                self.status_at = now + self.status_every;
                self.lines_at = now + PAUSE;
            }
            match lines {
                Some(lines) => return lines,
                None if !has_output => return progress_line([self.job]).await,
                None => {}
            }
        }
    }

    /// Returns the lines that came after the last message, if there was one: a command that was
    /// over before the first message needs no progress.
    pub(super) async fn last_lines(&mut self) -> Option<String> {
        if self.next == 0 || self.next >= self.end {
            return None;
        }
        self.read_lines(LinePart::Any).await
    }

    /// Reads the next lines; `None` if there are none, or the log cannot be read.
    async fn read_lines(&mut self, part: LinePart) -> Option<String> {
        let max_bytes =
            MESSAGE_BYTES.min(usize::try_from(self.end - self.next).unwrap_or(usize::MAX));
        let request =
            PageRequest { from: self.next, to: u64::MAX, stream: None, max_bytes, max_lines: 0 };
        let read = self.job.output().read_with(move |log| log.read_page(&request)).await;
        let Ok(page) = read else {
            // The reply will say why; no more lines until then.
            self.end = self.next;
            return None;
        };
        self.seen = page.total_bytes;
        if page.end_kind == PageEnd::More {
            // What is left over is read without waiting for more.
            self.seen = page.end;
        }
        let length = measure_message(&page, part);
        self.next = page.end - (page.bytes.len() - length) as u64;
        let bytes = &page.bytes[..length];
        if bytes.is_empty() || views::is_binary(bytes) {
            return None;
        }
        let mut text = views::render_text(bytes, VIEW).text;
        text.truncate(text.trim_end_matches(['\n', '\r']).len());
        Some(text)
    }
}

/// The part of an unfinished line that a message takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePart {
    /// Only whole lines.
    Whole,
    /// Also an unfinished line.
    Any,
}

/// Returns how many bytes of a page go into a message: whole lines, or part of a line that is
/// longer than a message.
fn measure_message(page: &LogPage, part: LinePart) -> usize {
    let all = page.bytes.len();
    match page.end_kind {
        PageEnd::More | PageEnd::Complete => all,
        PageEnd::CaughtUp if part == LinePart::Any => all,
        PageEnd::CaughtUp => {
            page.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
        }
    }
}

/// Waits until the log of a job has more than `seen` bytes, but at least until `from`.
async fn wait_for_output(job: &JobHandle, seen: u64, from: Instant) {
    job.output().wait_past(seen).await;
    if job.output().progress().total_bytes <= seen {
        // The log is closed: the end of the job is what comes next.
        return std::future::pending().await;
    }
    sleep_until(from).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{LogStorage, open_log};

    fn log_of(bytes: &[u8]) -> BlockingReader {
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() });
        writer.append(Stream::Stdout, bytes);
        writer.close();
        reader.blocking()
    }

    #[test]
    fn a_limit_cuts_between_characters_and_is_reported() {
        let log = log_of("abcdé€".as_bytes());
        for (max, text, is_cut) in [
            (0, "", true),
            (4, "abcd", true),
            (5, "abcd", true),
            (6, "abcdé", true),
            (9, "abcdé€", false),
        ] {
            let captured = read_first(&log, None, max).unwrap();
            assert_eq!((captured.text().as_str(), captured.is_cut), (text, is_cut), "{max}");
        }
        assert_eq!(read_first(&log, Some(Stream::Stderr), 4).unwrap(), CapturedStream::default());
    }

    #[test]
    fn neither_stream_hides_the_other() {
        for (own, other, expected) in
            [(0, 9000, 0), (10, 9000, 10), (9000, 10, 90), (9000, 9000, 50), (60, 20, 60)]
        {
            assert_eq!(compute_stream_share(100, own, other), expected, "{own} beside {other}");
        }
    }

    #[test]
    fn a_limit_counts_bytes_as_they_were_written() {
        let bytes = b"ab\xff\xfe\xfdcd\xe2\x82 x\xff";
        for max in 0..40 {
            let captured = read_first(&log_of(bytes), None, max).unwrap();
            assert!(captured.bytes.len() <= max && captured.bytes.len() + 3 > max.min(bytes.len()));
            assert_eq!(captured.is_cut, max < bytes.len(), "{max}");
            assert_eq!(captured.total_bytes, bytes.len() as u64);
            assert!(captured.with_text_up_to(max).text().len() <= max, "{max}");
        }
        let whole = read_first(&log_of(b"a\xffb"), None, 5).unwrap().with_text_up_to(5);
        assert_eq!((whole.bytes.as_slice(), whole.is_cut), (&b"a\xffb"[..], false));
    }

    #[test]
    fn output_of_many_pages_is_complete() {
        let bytes = b"0123456789\n".repeat(100_000);
        assert_eq!(read_first(&log_of(&bytes), None, bytes.len()).unwrap().bytes, bytes);
    }

    fn page(bytes: &[u8], end_kind: PageEnd) -> LogPage {
        let end = bytes.len() as u64;
        LogPage { bytes: bytes.to_vec(), start: 0, end, end_kind, gap_bytes: 0, total_bytes: end }
    }

    #[test]
    fn a_message_has_whole_lines_unless_one_is_too_long() {
        for (bytes, end_kind, part, expected) in [
            ("one\ntwo\nthr", PageEnd::CaughtUp, LinePart::Whole, 8),
            ("one\ntwo\nthr", PageEnd::CaughtUp, LinePart::Any, 11),
            ("thr", PageEnd::CaughtUp, LinePart::Whole, 0),
            ("very long", PageEnd::More, LinePart::Whole, 9),
            ("last", PageEnd::Complete, LinePart::Whole, 4),
        ] {
            let length = measure_message(&page(bytes.as_bytes(), end_kind), part);
            assert_eq!(length, expected, "{bytes:?} {end_kind:?} {part:?}");
        }
    }
}

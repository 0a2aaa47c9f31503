//! Steps that all dialects share: run a command to its end, read its output, and build a reply in
//! the format of the dialect's document.

use std::io;
use std::time::Duration;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject};
use serde_json::Value;
use tokio::time::timeout;

use crate::mcp::reply::{mask, mask_value, progress_line};
use crate::mcp::tools::{CallTurn, ToolCall, WaitEnd, wait_for};
use crate::outcome::{JobEnding, Outcome, StopBy};
use crate::output::redaction::Redactor;
use crate::output::{BlockingReader, PageEnd, PageRequest, ReadPermit};
use crate::service::{JobHandle, StopRequest, Submission, SubmitError};
use crate::spec::Stream;

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

/// Submits a job; from then on later calls of the same client may start.
pub(super) async fn submit(
    call: ToolCall<'_>,
    submission: Submission,
) -> Result<JobHandle, SubmitError> {
    let job = call.client.submit(submission).await?;
    CallTurn::end(call.request);
    Ok(job)
}

/// Waits until a job has ended. Its deadline bounds the whole wait, including the time in the
/// queue. If the caller cancels, the job is stopped, unless the settings say otherwise.
pub(super) async fn wait_for_end(call: ToolCall<'_>, job: &JobHandle) -> JobEnding {
    let deadline = job.spec().limits.timeout;
    // A single wait for start and end, so that reported progress never goes back.
    let end = async {
        timeout(deadline, job.started()).await.ok()?;
        Some(job.finished().await)
    };
    match wait_for(call, NO_LIMIT, end, || progress_line([job])).await {
        WaitEnd::Done(Some(ending)) => ending,
        WaitEnd::Done(None) => {
            let ending = stop_and_wait(call, job).await;
            JobEnding { outcome: Outcome::TimedOut { after: deadline }, ..ending }
        }
        WaitEnd::Cancelled if !call.settings.cancel_stops_job => job.finished().await,
        WaitEnd::Over | WaitEnd::Cancelled => stop_and_wait(call, job).await,
    }
}

async fn stop_and_wait(call: ToolCall<'_>, job: &JobHandle) -> JobEnding {
    let stop_request = StopRequest { by: StopBy::Cancel, signal: None, grace: None };
    // A job that is no longer known has ended.
    call.client.stop(job.id(), stop_request).await.ok();
    job.finished().await
}

/// The beginning of one stream, up to a limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CapturedStream {
    pub(super) bytes: Vec<u8>,
    /// `true` if the stream has more bytes.
    pub(super) is_cut: bool,
}

impl CapturedStream {
    /// The bytes as text; invalid UTF-8 becomes `�`.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
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

    /// Reads at most `most` bytes of both streams together. Each stream is guaranteed half of that
    /// if it needs it: a flood on one never hides an error on the other.
    pub(super) async fn read_together(job: &JobHandle, most: usize) -> io::Result<Self> {
        let progress = job.output().progress();
        let bytes = |stream| usize::try_from(progress.bytes_of(Some(stream))).unwrap_or(usize::MAX);
        let for_stderr = stream_share(most, bytes(Stream::Stderr), bytes(Stream::Stdout));
        Ok(Self {
            _memory: reserve_memory(job, most).await?,
            stdout: read_stream(job, Some(Stream::Stdout), most - for_stderr).await?,
            stderr: read_stream(job, Some(Stream::Stderr), for_stderr).await?,
        })
    }
}

/// Returns how much of `most` a stream of `own` bytes gets beside one of `other` bytes.
fn stream_share(most: usize, own: usize, other: usize) -> usize {
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
    let mut bytes = Vec::new();
    let mut from = 0;
    loop {
        // One byte more than needed shows whether anything is cut.
        let max_bytes = PAGE_BYTES.min(max + 1 - bytes.len());
        let page = log.read_page(&PageRequest { from, stream, max_bytes, max_lines: 0 })?;
        bytes.extend_from_slice(&page.bytes);
        from = page.end;
        if bytes.len() > max || page.end_kind != PageEnd::More {
            let fitting = fitting_len(&bytes, max);
            let is_cut = fitting < bytes.len();
            bytes.truncate(fitting);
            return Ok(CapturedStream { bytes, is_cut });
        }
    }
}

/// Returns how many bytes become at most `max` bytes of text: an invalid sequence becomes `�`,
/// which has three.
fn fitting_len(bytes: &[u8], max: usize) -> usize {
    let mut taken = 0;
    let mut text = 0;
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid().len();
        if text + valid > max {
            return taken + char_boundary(&bytes[taken..], max - text);
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
fn char_boundary(bytes: &[u8], max: usize) -> usize {
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
            ReplyText::Structured => json(self.structured.clone().unwrap_or_default()).to_string(),
            ReplyText::Pretty(fields) => format!("{:#}", json(fields.clone())),
        })
    }

    /// The text of all content blocks.
    pub(crate) fn whole_text(&self) -> String {
        self.texts().collect::<Vec<_>>().join("\n")
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
        result.structured_content = self.structured.map(json);
        result.meta = self.meta.map(MetaObject);
        result
    }
}

const fn json(fields: JsonObject) -> Value {
    Value::Object(fields)
}

fn mask_fields(fields: &mut JsonObject, redactor: &Redactor) {
    fields.values_mut().for_each(|value| mask_value(value, redactor));
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
            assert_eq!(stream_share(100, own, other), expected, "{own} beside {other}");
        }
    }

    #[test]
    fn a_limit_holds_for_the_decoded_text() {
        for max in 0..40 {
            let captured =
                read_first(&log_of(b"ab\xff\xfe\xfdcd\xe2\x82 x\xff"), None, max).unwrap();
            assert!(captured.text().len() <= max, "{max}: {captured:?}");
        }
        let whole = read_first(&log_of(b"a\xffb"), None, 5).unwrap();
        assert_eq!((whole.bytes.as_slice(), whole.is_cut), (&b"a\xffb"[..], false));
    }

    #[test]
    fn output_of_many_pages_is_complete() {
        let bytes = b"0123456789\n".repeat(100_000);
        assert_eq!(read_first(&log_of(&bytes), None, bytes.len()).unwrap().bytes, bytes);
    }
}

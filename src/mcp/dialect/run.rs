//! What all dialects do: run a command to its end, read what it wrote, and reply in the words of
//! their document.

use std::io;
use std::time::Duration;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject};
use serde_json::Value;
use tokio::time::timeout;

use crate::mcp::reply::{mask, mask_value, progress_line};
use crate::mcp::tools::{Call, Turn, WaitEnd, wait_for};
use crate::outcome::{JobEnding, Outcome, StopBy};
use crate::output::redaction::Redactor;
use crate::output::{BlockingReader, PageEnd, PageRequest, ReadPermit};
use crate::service::{JobHandle, StopWish, Submission, SubmitError};
use crate::spec::Stream;

/// Longer than any deadline: the job's own is the bound of the wait.
const AS_LONG_AS_IT_TAKES: Duration = Duration::from_secs(365 * 86_400);

/// What is read of a log at a time.
const PAGE_BYTES: usize = 256 * 1024;

/// Replies with less output than this need no memory of their own.
const SMALL_OUTPUT: usize = 256 * 1024;
/// The memory for each byte of output in a reply: as it was written, as text and in JSON.
const MEMORY_PER_BYTE: usize = 4;
/// A reply waits for memory at most this long: its command has run, and its result is wanted.
const MEMORY_WAIT: Duration = Duration::from_secs(30);

/// Accepts a job; later calls of the same client may go on from here.
pub(super) async fn submit(
    call: Call<'_>,
    submission: Submission,
) -> Result<JobHandle, SubmitError> {
    let job = call.client.submit(submission).await?;
    Turn::end(call.request);
    Ok(job)
}

/// Waits until a job has ended, its deadline being the bound, also of the wait for its start. A
/// caller that goes away takes the job with it, unless it is set up otherwise.
pub(super) async fn to_its_end(call: Call<'_>, job: &JobHandle) -> JobEnding {
    let deadline = job.spec().limits.timeout;
    // One wait for both, so that its progress never goes back.
    let end = async {
        timeout(deadline, job.started()).await.ok()?;
        Some(job.finished().await)
    };
    match wait_for(call, AS_LONG_AS_IT_TAKES, end, || progress_line([job])).await {
        WaitEnd::Done(Some(ending)) => ending,
        WaitEnd::Done(None) => {
            let ending = ended_by_us(call, job).await;
            JobEnding { outcome: Outcome::TimedOut { after: deadline }, ..ending }
        }
        WaitEnd::Cancelled if !call.settings.cancel_stops_job => job.finished().await,
        WaitEnd::Over | WaitEnd::Cancelled => ended_by_us(call, job).await,
    }
}

async fn ended_by_us(call: Call<'_>, job: &JobHandle) -> JobEnding {
    let wish = StopWish { by: StopBy::Cancel, signal: None, grace: None };
    // A job that is no longer known has ended.
    call.client.stop(job.id(), wish).await.ok();
    job.finished().await
}

/// What one stream holds, up to a bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Captured {
    /// Its first bytes.
    pub(super) bytes: Vec<u8>,
    /// Whether more was written.
    pub(super) is_cut: bool,
}

impl Captured {
    /// As text: what is no UTF-8 reads as `�`.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// What a reply holds of both streams.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
    /// Reserved until the reply is written.
    _memory: Option<ReadPermit>,
}

/// Reserves memory for a reply with at most so many bytes of a job's output.
pub(super) async fn reserve(job: &JobHandle, most: usize) -> io::Result<Option<ReadPermit>> {
    let log = job.output();
    let total = usize::try_from(log.progress().total_bytes).unwrap_or(usize::MAX);
    let bytes = most.min(total);
    if bytes <= SMALL_OUTPUT {
        return Ok(None);
    }
    let reserved = log.reserve(bytes.saturating_mul(MEMORY_PER_BYTE), MEMORY_WAIT).await;
    reserved.map(Some).map_err(io::Error::other)
}

impl Output {
    /// At most `most` bytes of each.
    pub(super) async fn each(job: &JobHandle, most: usize) -> io::Result<Self> {
        Ok(Self {
            _memory: reserve(job, most.saturating_mul(2)).await?,
            stdout: captured(job, Some(Stream::Stdout), most).await?,
            stderr: captured(job, Some(Stream::Stderr), most).await?,
        })
    }

    /// Together at most `most` bytes. Neither stream takes more than half from the other: a flood
    /// on one never hides an error on the other.
    pub(super) async fn together(job: &JobHandle, most: usize) -> io::Result<Self> {
        let progress = job.output().progress();
        let bytes = |stream| usize::try_from(progress.bytes_of(Some(stream))).unwrap_or(usize::MAX);
        let for_stderr = share(most, bytes(Stream::Stderr), bytes(Stream::Stdout));
        Ok(Self {
            _memory: reserve(job, most).await?,
            stdout: captured(job, Some(Stream::Stdout), most - for_stderr).await?,
            stderr: captured(job, Some(Stream::Stderr), for_stderr).await?,
        })
    }
}

/// How much of `most` goes to a stream of `own` bytes beside one of `other` bytes.
fn share(most: usize, own: usize, other: usize) -> usize {
    let left_over = most.saturating_sub(other);
    own.min(left_over.max(most / 2))
}

/// The first `max` bytes of a stream of a job, or of both in the order in which they came.
pub(super) async fn captured(
    job: &JobHandle,
    stream: Option<Stream>,
    max: usize,
) -> io::Result<Captured> {
    job.output().read_with(move |log| gather(log, stream, max)).await
}

fn gather(log: &BlockingReader, stream: Option<Stream>, max: usize) -> io::Result<Captured> {
    let mut bytes = Vec::new();
    let mut from = 0;
    loop {
        // One byte more than wanted tells whether anything is cut.
        let max_bytes = PAGE_BYTES.min(max + 1 - bytes.len());
        let page = log.read_page(&PageRequest { from, stream, max_bytes, max_lines: 0 })?;
        bytes.extend_from_slice(&page.bytes);
        from = page.end;
        if bytes.len() > max || page.end_kind != PageEnd::More {
            let fitting = fitting(&bytes, max);
            let is_cut = fitting < bytes.len();
            bytes.truncate(fitting);
            return Ok(Captured { bytes, is_cut });
        }
    }
}

/// How many bytes make at most `max` bytes of text: what is no UTF-8 reads as `�`, which has three.
fn fitting(bytes: &[u8], max: usize) -> usize {
    let mut taken = 0;
    let mut text = 0;
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid().len();
        if text + valid > max {
            return taken + whole_characters(&bytes[taken..], max - text);
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

/// The largest length up to `max` that splits no UTF-8 character.
fn whole_characters(bytes: &[u8], max: usize) -> usize {
    let continues = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    (max.saturating_sub(3)..=max).rev().find(|at| !continues(at)).unwrap_or(max)
}

/// The reply of a dialect's tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DialectReply {
    /// What clients show.
    pub(crate) text: Words,
    /// What they show below it, as a block of its own.
    pub(crate) detail: Option<Words>,
    /// The same as fields, where the document has any.
    pub(crate) structured: Option<JsonObject>,
    /// What goes beside the content.
    pub(crate) meta: Option<JsonObject>,
    /// Whether the document calls it an error.
    pub(crate) is_error: bool,
}

/// The text of a reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Words {
    Plain(String),
    /// The structured form, as one line of JSON.
    Structured,
    /// These fields, as JSON that people read easily.
    Pretty(JsonObject),
}

impl DialectReply {
    pub(crate) const fn text(text: String) -> Self {
        Self {
            text: Words::Plain(text),
            detail: None,
            structured: None,
            meta: None,
            is_error: false,
        }
    }

    /// An error of text alone.
    pub(crate) fn failure(text: String) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Fields, and the same as one line of JSON.
    pub(crate) fn fields(fields: JsonObject) -> Self {
        Self { text: Words::Structured, structured: Some(fields), ..Self::text(String::new()) }
    }

    /// Fields as readable JSON text alone.
    pub(crate) fn pretty(fields: JsonObject) -> Self {
        Self { text: Words::Pretty(fields), ..Self::text(String::new()) }
    }

    /// The same with every secret masked. Fields are masked before they become JSON, which
    /// therefore stays JSON.
    pub(crate) fn masked(mut self, redactor: &Redactor) -> Self {
        for words in [Some(&mut self.text), self.detail.as_mut()].into_iter().flatten() {
            match words {
                Words::Plain(text) => mask(text, redactor),
                Words::Structured => {}
                Words::Pretty(fields) => mask_fields(fields, redactor),
            }
        }
        for fields in [&mut self.structured, &mut self.meta].into_iter().flatten() {
            mask_fields(fields, redactor);
        }
        self
    }

    /// All of its text, block by block.
    fn texts(&self) -> impl Iterator<Item = String> {
        [Some(&self.text), self.detail.as_ref()].into_iter().flatten().map(|words| match words {
            Words::Plain(text) => text.clone(),
            Words::Structured => json(self.structured.clone().unwrap_or_default()).to_string(),
            Words::Pretty(fields) => format!("{:#}", json(fields.clone())),
        })
    }

    /// All of its text.
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
    fn a_bound_cuts_between_characters_and_says_so() {
        let log = log_of("abcdé€".as_bytes());
        for (max, text, is_cut) in [
            (0, "", true),
            (4, "abcd", true),
            (5, "abcd", true),
            (6, "abcdé", true),
            (9, "abcdé€", false),
        ] {
            let captured = gather(&log, None, max).unwrap();
            assert_eq!((captured.text().as_str(), captured.is_cut), (text, is_cut), "{max}");
        }
        assert_eq!(gather(&log, Some(Stream::Stderr), 4).unwrap(), Captured::default());
    }

    #[test]
    fn neither_stream_hides_the_other() {
        for (own, other, expected) in
            [(0, 9000, 0), (10, 9000, 10), (9000, 10, 90), (9000, 9000, 50), (60, 20, 60)]
        {
            assert_eq!(share(100, own, other), expected, "{own} beside {other}");
        }
    }

    #[test]
    fn a_bound_holds_for_the_text_that_bytes_become() {
        for max in 0..40 {
            let captured = gather(&log_of(b"ab\xff\xfe\xfdcd\xe2\x82 x\xff"), None, max).unwrap();
            assert!(captured.text().len() <= max, "{max}: {captured:?}");
        }
        let whole = gather(&log_of(b"a\xffb"), None, 5).unwrap();
        assert_eq!((whole.bytes.as_slice(), whole.is_cut), (&b"a\xffb"[..], false));
    }

    #[test]
    fn output_of_many_pages_comes_whole() {
        let bytes = b"0123456789\n".repeat(100_000);
        assert_eq!(gather(&log_of(&bytes), None, bytes.len()).unwrap().bytes, bytes);
    }
}

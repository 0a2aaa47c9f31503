//! A whole reply, cut to its budget, and its result on the wire; and the errors of the native tools,
//! which become replies.

use std::borrow::Cow;
use std::io;
use std::sync::OnceLock;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::Value;
use thiserror::Error;

use super::budget::{
    MAX_LINES, TokenBudget, escaped_len, json_size, trim_fields, trim_lines, trim_text,
};
use super::format::millis;
use super::hint::{AnswerReason, hint_after_job};
use super::job_list::{EventSign, ReplyPart, block, job_fields};
use super::shown_output::{OutputEncoding, ShownOutput};
use super::snapshot::{JobSnapshot, verdict};
use crate::TaskLimit;
use crate::ids::{JobId, JobNumber};
use crate::mcp::args::ArgError;
use crate::mcp::resources::CursorError;
use crate::mcp::settings::ResultFormat;
use crate::outcome::Outcome;
use crate::output::ReadBusy;
use crate::output::json::QueryError;
use crate::output::pattern::PatternError;
use crate::output::redaction::Redactor;
use crate::service::{FindError, InputError, StreamError, SubmitError};

/// The reply of a tool: the verdict, the body, at most one `→` line, and the same in structured
/// form.
#[derive(Debug)]
pub(crate) struct ToolReply {
    verdict: String,
    body: ReplyBody,
    hint: Option<String>,
    /// The structured form without the output; empty in a reply that is text only.
    fields: JsonObject,
    output: Option<ReplyOutput>,
    success: Success,
    secrets: SecretState,
    /// The budget of this reply, if it is not the call's.
    budget: Option<TokenBudget>,
}

/// The part of a reply below the verdict.
#[derive(Debug)]
enum ReplyBody {
    Text(String),
    /// The shown output and nothing else.
    Output,
}

/// `Done` if the server did what the caller asked. A failing command still counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Success {
    Done,
    Failed,
}

/// The state of secrets in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretState {
    Possible,
    Masked,
    /// The caller asked for the exact bytes.
    Exact,
}

impl ToolReply {
    /// Creates a reply about one job and its output. A job that could not be started makes it a
    /// failure.
    pub(crate) fn for_job(
        job: &JobSnapshot,
        shown: Option<ShownOutput>,
        format: ResultFormat,
    ) -> Self {
        let failed =
            job.ending().is_some_and(|ending| matches!(ending.outcome, Outcome::FailedToStart(_)));
        let is_exact = shown.as_ref().is_some_and(ShownOutput::is_encoded);
        Self {
            verdict: verdict(job, shown.as_ref()),
            body: match &shown {
                Some(shown) if shown.is_all_output() => ReplyBody::Output,
                Some(shown) => ReplyBody::Text(shown.body()),
                None => ReplyBody::Text(String::new()),
            },
            hint: hint_after_job(job, shown.as_ref(), &AnswerReason::JobState),
            fields: match format {
                ResultFormat::Text => JsonObject::new(),
                ResultFormat::Structured | ResultFormat::Both => job_fields(job, shown.as_ref()),
            },
            output: shown.map(ReplyOutput::new),
            success: if failed { Success::Failed } else { Success::Done },
            secrets: if is_exact { SecretState::Exact } else { SecretState::Possible },
            budget: None,
        }
    }

    /// Creates a reply about several jobs. Without a headline, the first line of the first job is
    /// the verdict.
    pub(crate) fn for_jobs(headline: Option<String>, parts: Vec<ReplyPart>) -> Self {
        let separator =
            if parts.iter().any(|part| part.text.contains('\n')) { "\n\n" } else { "\n" };
        let (texts, jobs): (Vec<String>, Vec<Value>) =
            parts.into_iter().map(|part| (part.text, Value::Object(part.fields))).unzip();
        let text = texts.join(separator);
        let (verdict, body) = match headline {
            Some(headline) => (headline, text),
            None => match text.split_once('\n') {
                Some((first, rest)) => (first.to_owned(), rest.to_owned()),
                None => (text, String::new()),
            },
        };
        let mut fields = JsonObject::new();
        fields.insert("jobs".into(), Value::Array(jobs));
        Self { fields, ..Self::plain(verdict, body) }
    }

    /// Creates a reply with these texts only.
    fn plain(verdict: String, body: String) -> Self {
        Self {
            verdict,
            body: ReplyBody::Text(body),
            hint: None,
            fields: JsonObject::new(),
            output: None,
            success: Success::Done,
            secrets: SecretState::Possible,
            budget: None,
        }
    }

    /// Creates the reply to a call that failed.
    pub(crate) fn failure(message: String, code: &'static str) -> Self {
        let mut fields = JsonObject::new();
        fields.insert("error".into(), message.as_str().into());
        fields.insert("error_code".into(), code.into());
        Self { fields, success: Success::Failed, ..Self::plain(message, String::new()) }
    }

    /// Replaces the `→` line.
    pub(crate) fn with_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self.changed()
    }

    /// Adds a line before all others.
    pub(crate) fn with_headline(mut self, headline: String) -> Self {
        let mut body = std::mem::replace(&mut self.verdict, headline);
        if !self.body().is_empty() {
            body.push('\n');
            body.push_str(self.body());
        }
        self.with_body(body)
    }

    /// Adds lines before all others, in both forms, about something else than this call.
    pub(crate) fn with_notice(self, notice: &str) -> Self {
        let verdict = format!("{notice}\n{}", self.verdict);
        self.with_field("notice", notice).with_verdict(verdict)
    }

    /// Adds a field to the structured form.
    pub(crate) fn with_field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self.changed()
    }

    /// Replaces the byte range and the cursor in the structured form.
    pub(crate) fn with_byte_range(mut self, range: JsonObject) -> Self {
        self.fields.remove("next_cursor");
        self.fields.extend(range);
        self.changed()
    }

    /// Replaces the body by a text.
    pub(crate) fn with_body(mut self, body: String) -> Self {
        self.body = ReplyBody::Text(body);
        self.changed()
    }

    /// Replaces the verdict.
    pub(crate) fn with_verdict(mut self, verdict: String) -> Self {
        self.verdict = verdict;
        self.changed()
    }

    /// Marks the content as unmasked, because new content was added. `Exact` stays `Exact`.
    fn changed(mut self) -> Self {
        if self.secrets == SecretState::Masked {
            self.secrets = SecretState::Possible;
        }
        self
    }

    /// Replaces the verdict and repeats it as the `hint` field: the structured form has no verdict.
    pub(crate) fn with_verdict_as_hint(self, verdict: String) -> Self {
        self.with_field("hint", verdict.as_str()).with_verdict(verdict)
    }

    /// Marks the reply as a failed call (`isError`).
    pub(crate) const fn with_failure(mut self) -> Self {
        self.success = Success::Failed;
        self
    }

    /// Sets the budget of this reply.
    pub(crate) const fn with_budget(mut self, budget: TokenBudget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// The size in a format, in bytes: the larger one of text and structured form.
    pub(crate) fn size(&self, format: ResultFormat) -> usize {
        match format {
            ResultFormat::Text => self.text_size(format),
            ResultFormat::Structured | ResultFormat::Both => {
                self.text_size(format).max(self.json_size())
            }
        }
    }

    /// `true` if the reply has at most so many bytes, and at most [`MAX_LINES`] lines.
    pub(super) fn fits(&self, bytes: usize, format: ResultFormat) -> bool {
        self.size(format) <= bytes && self.text_lines(format) <= MAX_LINES
    }

    /// Cuts the reply to its own budget, or else to this one, and to [`MAX_LINES`].
    pub(crate) fn cut_to_budget(mut self, budget: TokenBudget, format: ResultFormat) -> Self {
        let limit = self.budget.unwrap_or(budget).bytes();
        if self.fits(limit, format) {
            return self;
        }
        // An eighth for the hint: even if JSON escapes each of its bytes as six, a quarter is left
        // for the rest.
        self.hint = self.hint.map(|hint| trim_text(&hint, limit / 8));
        let mut room = usize::MAX;
        if self.text_size(format) > limit {
            self.verdict = trim_text(&self.verdict, limit / 2);
            let hint = self.hint.as_deref().map_or(0, |hint| hint.len() + "\n→ ".len());
            room = limit.saturating_sub(self.verdict.len() + hint + 1);
        }
        // Only the text; the structured form is cut differently.
        let mut body = trim_text(self.body(), room);
        let lines = self.text_lines(format);
        if lines > MAX_LINES {
            let others = lines.saturating_sub(self.body().lines().count());
            body = trim_lines(&body, MAX_LINES.saturating_sub(others));
        }
        let hint = self.json_hint_size();
        let mut reply = self.with_body(body).with_output_as_field();
        trim_fields(&mut reply.fields, limit.saturating_sub(hint));
        reply
    }

    fn with_output_as_field(mut self) -> Self {
        if let Some(output) = self.output.take() {
            self.fields.insert(output.field.to_owned(), output.text.into());
        }
        self
    }

    /// The size of the structured form in bytes.
    fn json_size(&self) -> usize {
        let output = self.output.as_ref().map_or(0, ReplyOutput::json_size);
        json_size(&self.fields) + output + self.json_hint_size()
    }

    /// The bytes that the hint adds to the structured form.
    fn json_hint_size(&self) -> usize {
        self.hint.as_deref().map_or(0, |hint| escaped_len(hint) + r#","hint":"""#.len())
    }

    /// Masks secrets in the verdict, the body, the output and the fields, but not in the hint,
    /// which holds no text of jobs. Does nothing if the caller asked for the exact bytes.
    pub(crate) fn masked(mut self, redactor: &Redactor) -> Self {
        if self.secrets != SecretState::Possible {
            return self;
        }
        self.secrets = SecretState::Masked;
        mask(&mut self.verdict, redactor);
        if let ReplyBody::Text(body) = &mut self.body {
            mask(body, redactor);
        }
        if let Some(output) = &mut self.output {
            output.mask(redactor);
        }
        self.fields.values_mut().for_each(|value| mask_value(value, redactor));
        self
    }

    /// The part of a reply below the verdict.
    fn body(&self) -> &str {
        match &self.body {
            ReplyBody::Text(body) => body,
            ReplyBody::Output => self.output.as_ref().map_or("", |output| &output.text),
        }
    }

    /// The whole text of the reply.
    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(self.pieces().map(str::len).sum());
        text.extend(self.pieces());
        text
    }

    /// The pieces of the text, in order.
    fn pieces(&self) -> impl Iterator<Item = &str> {
        let body = block(self.body()).map(|body| ["\n", body]);
        let hint = self.hint.as_deref().map(|hint| ["\n→ ", hint]);
        std::iter::once(self.verdict.as_str()).chain([body, hint].into_iter().flatten().flatten())
    }

    /// Converts the reply to a result on the wire, in this format.
    pub(crate) fn into_result(self, format: ResultFormat) -> CallToolResult {
        let text = if self.is_short_in(format) { self.verdict.clone() } else { self.text() };
        let content = vec![ContentBlock::text(text)];
        let mut result = match self.success {
            Success::Done => CallToolResult::success(content),
            Success::Failed => CallToolResult::error(content),
        };
        if format != ResultFormat::Text {
            result.structured_content = Some(Value::Object(self.structured()));
        }
        result
    }

    /// `true` if the text is the verdict alone. A failure always has its whole text, because
    /// clients show nothing else of it.
    fn is_short_in(&self, format: ResultFormat) -> bool {
        format == ResultFormat::Structured && self.success == Success::Done
    }

    /// The size of the text in bytes.
    fn text_size(&self, format: ResultFormat) -> usize {
        if self.is_short_in(format) {
            self.verdict.len()
        } else {
            self.pieces().map(str::len).sum()
        }
    }

    /// The number of lines of the text.
    pub(super) fn text_lines(&self, format: ResultFormat) -> usize {
        if self.is_short_in(format) {
            self.verdict.lines().count()
        } else {
            let newlines = |piece: &str| piece.bytes().filter(|byte| *byte == b'\n').count();
            self.pieces().map(newlines).sum::<usize>() + 1
        }
    }

    fn structured(self) -> JsonObject {
        let Self { mut fields, hint, .. } = self.with_output_as_field();
        if let Some(hint) = hint {
            fields.entry("hint").or_insert_with(|| hint.into());
        }
        fields
    }
}

pub(in crate::mcp) fn mask(text: &mut String, redactor: &Redactor) {
    if let Cow::Owned(masked) = redactor.mask_text(text) {
        *text = masked;
    }
}

pub(in crate::mcp) fn mask_value(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => mask(text, redactor),
        Value::Array(values) => values.iter_mut().for_each(|value| mask_value(value, redactor)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| mask_value(value, redactor));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The shown output of a reply. A page may be large: nothing here copies it.
#[derive(Debug)]
struct ReplyOutput {
    field: &'static str,
    text: String,
    masking: Masking,
    /// The escaped size in JSON, computed on first use.
    escaped: OnceLock<usize>,
}

/// The masking state of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Masking {
    Due,
    /// Masked, or the caller asked for the exact bytes.
    Done,
}

impl ReplyOutput {
    fn new(shown: ShownOutput) -> Self {
        let masking = if shown.is_encoded() { Masking::Done } else { Masking::Due };
        let field = shown.field();
        let is_base64 = matches!(shown.form, OutputEncoding::Base64);
        let text = shown.into_head();
        // JSON escapes nothing in base64.
        let escaped = if is_base64 { OnceLock::from(text.len()) } else { OnceLock::new() };
        Self { field, text, masking, escaped }
    }

    /// Masks secrets; a second call does nothing.
    fn mask(&mut self, redactor: &Redactor) {
        if self.masking == Masking::Due {
            mask(&mut self.text, redactor);
            self.masking = Masking::Done;
            self.escaped = OnceLock::new();
        }
    }

    /// The bytes that the output adds to a structured form with other fields.
    fn json_size(&self) -> usize {
        let escaped = self.escaped.get_or_init(|| escaped_len(&self.text));
        self.field.len() + escaped + r#""":"","#.len()
    }
}

/// The state of a port that a call waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortStatus {
    /// A process listened before the wait.
    Already,
    /// A process started to listen during the wait.
    Now,
    /// No process listens, as far as was checked.
    No,
}

impl PortStatus {
    const fn words(self) -> &'static str {
        match self {
            Self::Already => "listens already, whoever holds it",
            Self::Now => "listens",
            Self::No => "does not listen",
        }
    }
}

impl ToolReply {
    /// Adds a first line about the port that the call named.
    pub(crate) fn with_port(self, port: Option<(u16, PortStatus)>) -> Self {
        let Some((port, listening)) = port else { return self };
        let is_listening = match listening {
            PortStatus::Already | PortStatus::Now => true,
            PortStatus::No => false,
        };
        self.with_headline(format!("port {port} {}", listening.words()))
            .with_field("port", port)
            .with_field("listening", is_listening)
    }

    /// Adds the event that ended the wait for the job of this reply.
    pub(crate) fn with_sign(self, sign: Option<EventSign>) -> Self {
        let Some(EventSign { word, field, value }) = sign else { return self };
        let verdict = format!("{} · {word}", self.verdict);
        self.with_field(field, value).with_verdict(verdict)
    }
}

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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};
    use std::time::{Duration, Instant};

    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::confinement::GrantedConfinement;
    use crate::mcp::reply::ReplyFitter;
    use crate::mcp::reply::excerpt::{JobResult, read_result};
    use crate::mcp::reply::hint::hint_after_page;
    use crate::mcp::reply::shown_output::{read_base64, read_hexdump, read_text_page};
    use crate::mcp::reply::snapshot::State;
    use crate::mcp::reply::tests::{ThreadAllocations, count_allocations};
    use crate::outcome::{JobEnding, LivingProcesses, ResourceUsage};
    use crate::output::{BlockingReader, LogReader, LogStorage, PageRequest, open_log};
    use crate::service::RefusedStarts;
    use crate::spec::Stream;
    use crate::trace::TraceContext;

    fn log_of(bytes: &[u8]) -> LogReader {
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() });
        writer.append(Stream::Stdout, bytes);
        writer.close();
        reader
    }

    fn job_of(log: &LogReader) -> JobSnapshot {
        let ending = JobEnding {
            outcome: Outcome::Exited { code: 1 },
            at: Instant::now(),
            usage: ResourceUsage::default(),
            pipeline: vec![1, 0],
            survivors: LivingProcesses::default(),
            kill: None,
        };
        JobSnapshot {
            job: JobId::local(1234),
            state: State::Finished(ending),
            elapsed: Duration::from_secs(1),
            queued: Duration::ZERO,
            slot_holders: Vec::new(),
            has_skipped_output: false,
            withheld_variables: Vec::new(),
            output: log.progress(),
            prompt: None,
            has_terminal: false,
            quiet_for: None,
            survivors: LivingProcesses::Known(vec![1, 2, 3]),
            set_aside: Vec::new(),
            refused: RefusedStarts::default(),
            confinement: GrantedConfinement::NOTHING,
            doubt: None,
            writable: Vec::new(),
            is_limit_measured: false,
            limit: None,
            trace_id: Some(TraceContext::root().trace_id),
        }
    }

    /// Mixes kinds of output that are hard to keep short, many times over.
    fn any_output() -> impl Strategy<Value = Vec<u8>> {
        let kind = prop_oneof![
            vec(any::<u8>(), 1..200),
            "[a-z ]{1,60}\n".prop_map(String::into_bytes),
            Just(b"endless".to_vec()),
            "[一-龥]{1,40}".prop_map(String::into_bytes),
            "[A-Za-z0-9+/]{76}\n".prop_map(String::into_bytes),
            Just(b"\x1b[38;5;196mred\x1b[0m\n".to_vec()),
            Just(b"\x1b[3A\x1b[2Kup\nand\ndown\n".to_vec()),
            vec(0..32_u8, 1..60),
            Just(b"\0".to_vec()),
            Just("👩‍👩‍👧‍👦".as_bytes().to_vec()),
            Just(b"\xed\xa0\x80\xed\xb0\x80".to_vec()),
            Just(b"crlf\r\n".to_vec()),
            Just(b"\t\"\\".to_vec()),
            Just(b"error: \"\\\" it broke\n".to_vec()),
            Just(b"https://u:p@h/ password=x\n".to_vec()),
        ];
        vec((kind, 1..400_usize), 1..6).prop_map(|kinds| {
            kinds.iter().flat_map(|(bytes, times)| bytes.repeat(*times)).collect()
        })
    }

    fn any_format() -> impl Strategy<Value = ResultFormat> {
        prop_oneof![
            Just(ResultFormat::Text),
            Just(ResultFormat::Structured),
            Just(ResultFormat::Both),
        ]
    }

    fn budget_of(tokens: u64) -> TokenBudget {
        TokenBudget::from_call(json!({"max_tokens": tokens}).as_object(), 8000)
    }

    /// The kind of read that a test performs.
    #[derive(Debug, Clone, Copy)]
    enum ReadKind {
        Excerpt,
        Page,
        Raw,
        Hexdump,
    }

    fn any_read_kind() -> impl Strategy<Value = ReadKind> {
        prop_oneof![
            Just(ReadKind::Excerpt),
            Just(ReadKind::Page),
            Just(ReadKind::Raw),
            Just(ReadKind::Hexdump),
        ]
    }

    fn read_shown(log: &LogReader, from: u64, kind: ReadKind, fitter: &ReplyFitter) -> ShownOutput {
        let max_lines = match kind {
            ReadKind::Page => fitter.page_lines(0),
            ReadKind::Excerpt | ReadKind::Raw | ReadKind::Hexdump => 0,
        };
        let request =
            PageRequest { from, to: u64::MAX, stream: None, max_bytes: fitter.size(), max_lines };
        match kind {
            ReadKind::Excerpt => {
                let budget = fitter.excerpt_budget();
                read_result(&log.blocking(), from, budget, JobResult::Failure).unwrap()
            }
            ReadKind::Page => read_text_page(&log.blocking(), &request).unwrap(),
            ReadKind::Raw => read_base64(&log.blocking(), &request).unwrap(),
            ReadKind::Hexdump => read_hexdump(&log.blocking(), &request).unwrap(),
        }
    }

    /// Builds the reply as the tools do, and returns it with the shown output.
    fn build_reply(
        log: &LogReader,
        from: u64,
        kind: ReadKind,
        mut fitter: ReplyFitter,
    ) -> (ToolReply, ShownOutput) {
        let job = job_of(log);
        loop {
            let shown = read_shown(log, from, kind, &fitter);
            let reply = ToolReply::for_job(&job, Some(shown.clone()), ResultFormat::Both)
                .with_hint(hint_after_page(&job, &shown));
            if let Some(reply) = fitter.accept(reply) {
                return (reply, shown);
            }
        }
    }

    fn redactor() -> Arc<Redactor> {
        static REDACTOR: LazyLock<Arc<Redactor>> =
            LazyLock::new(|| Arc::new(Redactor::with_known_secrets(&[]).unwrap()));
        Arc::clone(&REDACTOR)
    }

    fn check_size(result: &CallToolResult, budget: TokenBudget) -> Result<(), TestCaseError> {
        let value = serde_json::to_value(result).unwrap();
        for block in value["content"].as_array().unwrap() {
            let text = block["text"].as_str().unwrap();
            prop_assert!(text.len() <= budget.bytes(), "{block}");
            prop_assert!(text.lines().count() <= MAX_LINES, "{block}");
        }
        let structured =
            value.get("structuredContent").map_or(0, |fields| fields.to_string().len());
        prop_assert!(structured <= budget.bytes(), "{} of {}", structured, budget.bytes());
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        #[test]
        fn a_reply_keeps_its_budget_and_its_byte_ranges_are_true(
            output in any_output(),
            kind in any_read_kind(),
            format in any_format(),
            tokens in 500..9000_u64,
            page_bytes in 1..200_000_usize,
        ) {
            let (log, budget) = (log_of(&output), budget_of(tokens));
            let bare = ToolReply::for_job(&job_of(&log), None, ResultFormat::Both);
            let mut fitter = ReplyFitter::new(budget, format, redactor(), &bare);
            if !matches!(kind, ReadKind::Excerpt) {
                fitter = fitter.for_page(Some(page_bytes), 16_384);
            }
            let (reply, shown) = build_reply(&log, 0, kind, fitter);
            let fits = reply.size(format) <= budget.bytes();
            let result = reply.cut_to_budget(budget, format).into_result(format);
            check_size(&result, budget)?;
            prop_assert!(fits, "the reply fits without a further cut");
            if let Some(fields) = &result.structured_content {
                prop_assert_eq!(&fields["bytes_start"], 0);
                prop_assert_eq!(&fields["bytes_end"], shown.end);
            }
            prop_assert!(shown.end > 0 || matches!(kind, ReadKind::Excerpt), "each page makes progress");
        }

        #[test]
        fn lists_and_failures_keep_their_budget(
            text in any::<String>(),
            times in 1..300_usize,
            jobs in 0..120_usize,
            format in any_format(),
            tokens in 500..9000_u64,
        ) {
            let budget = budget_of(tokens);
            let long = text.repeat(times);
            let job = job_of(&log_of(b"x\n"));
            let names = json!({"command": long}).as_object().cloned().unwrap();
            let part = ReplyPart::for_list(&job, long.clone(), names);
            for reply in [
                ToolReply::failure(long.clone(), "code"),
                ToolReply::for_jobs(None, vec![part.clone(); jobs.min(60)]).with_hint(Some(long.clone())),
                ToolReply::for_jobs(Some("list".to_owned()), vec![ReplyPart::for_job(&job, None); jobs]),
            ] {
                check_size(&reply.cut_to_budget(budget, format).into_result(format), budget)?;
            }
        }
    }

    #[test]
    fn a_structured_page_has_the_requested_size() {
        let log = log_of(&vec![1; 1 << 20]);
        let job = job_of(&log);
        let budget = TokenBudget::from_call(None, 8000);
        let fitter = ReplyFitter::new(
            budget,
            ResultFormat::Structured,
            redactor(),
            &ToolReply::for_job(&job, None, ResultFormat::Both),
        );
        let (reply, shown) =
            build_reply(&log, 0, ReadKind::Raw, fitter.for_page(Some(1 << 20), 16_384));
        assert_eq!(shown.end, 1 << 20);
        let result = reply.cut_to_budget(budget, ResultFormat::Structured);
        let fields = result.into_result(ResultFormat::Structured).structured_content.unwrap();
        assert_eq!(fields["output"].as_str().map(str::len), Some((1_usize << 20).div_ceil(3) * 4));
        assert_ne!(fields["bytes_end"], Value::Null);
    }

    const PAGE: usize = 1 << 20;
    /// Memory for verdict, fields, index lookups of line numbers, and the working memory of
    /// patterns, which other tests share and may hold at the same time. Less than a page in any
    /// case.
    const BESIDE: usize = 512 * 1024;

    type Show = fn(&BlockingReader, &PageRequest) -> io::Result<ShownOutput>;

    /// Measures the memory of one page, from the log to the result, on the second request: the
    /// first one compiles patterns.
    fn cost(line: &str, show: Show, format: ResultFormat) -> ThreadAllocations {
        let log = log_of(line.repeat(2 * PAGE / line.len()).as_bytes());
        let job = job_of(&log);
        let log = log.blocking();
        let request =
            PageRequest { from: 0, to: u64::MAX, stream: None, max_bytes: PAGE, max_lines: 0 };
        let build = || -> CallToolResult {
            let bare = ToolReply::for_job(&job, None, ResultFormat::Both);
            let fitter = ReplyFitter::new(
                TokenBudget::from_tokens(4 * PAGE as u64),
                format,
                redactor(),
                &bare,
            );
            let shown = show(&log, &request).unwrap();
            let reply = fitter.for_page(Some(PAGE), PAGE).accept(ToolReply::for_job(
                &job,
                Some(shown),
                ResultFormat::Both,
            ));
            reply.unwrap().masked(&redactor()).into_result(format)
        };
        build();
        count_allocations(build).0
    }

    #[track_caller]
    fn check(line: &str, show: Show, format: ResultFormat, pages: f64) {
        let used = cost(line, show, format);
        let most = (pages * PAGE as f64) as usize + BESIDE;
        assert!(used.bytes <= most, "{format:?}: {used:?}, more than {most}");
        assert!(used.times < 2000, "{format:?}: {used:?} although there are many more lines");
    }

    #[test]
    fn a_page_of_text_is_copied_once() {
        check("one line and\nanother\n", read_text_page, ResultFormat::Structured, 1.0);
        // Copied once more, below the verdict. Its lines are long, because a text has few of them.
        let lines = format!("{}\n{}\n", "one line ".repeat(90), "and another ".repeat(70));
        check(&lines, read_text_page, ResultFormat::Text, 2.0);
    }

    #[test]
    fn a_page_of_bytes_is_copied_once_and_once_as_base64() {
        check("any line\n", read_base64, ResultFormat::Structured, 1.0 + 4.0 / 3.0);
    }

    #[test]
    fn a_page_of_equal_lines_costs_no_more_than_its_bytes() {
        check("y\n", read_text_page, ResultFormat::Structured, 1.0);
    }
}

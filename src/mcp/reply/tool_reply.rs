//! A whole reply, cut to its budget, and the result on the wire.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::Value;

use super::body::{Form, Shown};
use super::budget::{TokenBudget, escaped_len, less};
use super::budget::{json_size, trim_fields, trim_text};
use super::job_list::{Part, block};
use super::{hint, structured, verdict};
use crate::mcp::settings::ResultFormat;
use crate::mcp::snapshot::Snapshot;
use crate::outcome::Outcome;
use crate::output::excerpt::Budget;
use crate::output::redaction::Redactor;

/// What an answer says about output that it shows, beside the output: where it lies, how to go on.
const ABOUT_OUTPUT: usize = 400;
/// So often an answer is made again with less output before it gets none.
const TRIES: usize = 8;

/// What a tool answers: the verdict, the body, at most one `→` line, and the same in
/// structured form.
#[derive(Debug)]
pub(crate) struct Answer {
    verdict: String,
    body: Body,
    hint: Option<String>,
    /// The structured form without the output; in an answer that is text alone, nothing.
    fields: JsonObject,
    output: Option<Output>,
    success: Success,
    secrets: Secrets,
    /// The budget that it was made for, where that is not the call's.
    budget: Option<TokenBudget>,
}

/// What stands below the verdict.
#[derive(Debug)]
enum Body {
    /// A text of its own.
    Own(String),
    /// The output, and nothing else.
    Output,
}

/// Whether *we* did what was asked. A command that failed is a success of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Success {
    Done,
    Failed,
}

/// Whether there may be secrets in an answer that are not for its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secrets {
    Possible,
    Masked,
    /// Its bytes were asked for as they are.
    Wanted,
}

impl Answer {
    /// About one job and its output, for this format. A job that could not be started is a failure
    /// of ours.
    pub(crate) fn about(job: &Snapshot, shown: Option<Shown>, format: ResultFormat) -> Self {
        let failed =
            job.ending().is_some_and(|ending| matches!(ending.outcome, Outcome::FailedToStart(_)));
        let is_as_it_is = shown.as_ref().is_some_and(Shown::is_encoded);
        Self {
            verdict: verdict::verdict(job, shown.as_ref()),
            body: match &shown {
                Some(shown) if shown.is_all_output() => Body::Output,
                Some(shown) => Body::Own(shown.body()),
                None => Body::Own(String::new()),
            },
            hint: hint::after_job(job, shown.as_ref()),
            fields: match format {
                ResultFormat::Text => JsonObject::new(),
                ResultFormat::Structured | ResultFormat::Both => {
                    structured::fields(job, shown.as_ref())
                }
            },
            output: shown.map(Output::of),
            success: if failed { Success::Failed } else { Success::Done },
            secrets: if is_as_it_is { Secrets::Wanted } else { Secrets::Possible },
            budget: None,
        }
    }

    /// About several jobs: a first line of its own, or that of the first job.
    pub(crate) fn several(headline: Option<String>, parts: Vec<Part>) -> Self {
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

    /// These texts alone.
    fn plain(verdict: String, body: String) -> Self {
        Self {
            verdict,
            body: Body::Own(body),
            hint: None,
            fields: JsonObject::new(),
            output: None,
            success: Success::Done,
            secrets: Secrets::Possible,
            budget: None,
        }
    }

    /// That the call failed, and why.
    pub(crate) fn failure(message: String, code: &'static str) -> Self {
        let mut fields = JsonObject::new();
        fields.insert("error".into(), message.as_str().into());
        fields.insert("error_code".into(), code.into());
        Self { fields, success: Success::Failed, ..Self::plain(message, String::new()) }
    }

    /// What the `→` line says, where there is one.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The same with another `→` line.
    pub(crate) fn with_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self.changed()
    }

    /// The same with a line before all others.
    pub(crate) fn with_headline(mut self, headline: String) -> Self {
        let mut body = std::mem::replace(&mut self.verdict, headline);
        if !self.body().is_empty() {
            body.push('\n');
            body.push_str(self.body());
        }
        self.with_body(body)
    }

    /// The same with one more field in the structured form.
    pub(crate) fn with_field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self.changed()
    }

    /// The same, about these bytes and where to go on after them.
    pub(crate) fn with_place(mut self, place: JsonObject) -> Self {
        self.fields.remove("next_cursor");
        self.fields.extend(place);
        self.changed()
    }

    /// The same with one more line below the body.
    pub(crate) fn with_note(self, note: &str) -> Self {
        let mut body = self.body().to_owned();
        if !body.is_empty() && !body.ends_with('\n') {
            body.push('\n');
        }
        body.push_str(note);
        self.with_body(body)
    }

    /// The same with a body of its own.
    pub(crate) fn with_body(mut self, body: String) -> Self {
        self.body = Body::Own(body);
        self.changed()
    }

    /// The same with a first line of its own.
    pub(crate) fn with_verdict(mut self, verdict: String) -> Self {
        self.verdict = verdict;
        self.changed()
    }

    /// The same; what is new in it may be secret.
    fn changed(mut self) -> Self {
        if self.secrets == Secrets::Masked {
            self.secrets = Secrets::Possible;
        }
        self
    }

    /// The same with a first line that the structured form gives as its hint: there it would
    /// be missing otherwise.
    pub(crate) fn with_verdict_as_hint(self, verdict: String) -> Self {
        self.with_field("hint", verdict.as_str()).with_verdict(verdict)
    }

    /// The same, counted as a failure of ours.
    pub(crate) const fn failed(mut self) -> Self {
        self.success = Success::Failed;
        self
    }

    /// The same, made for this budget.
    pub(crate) const fn with_budget(mut self, budget: TokenBudget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// What it takes in a format: the larger one of its text and its structured form.
    pub(crate) fn size(&self, format: ResultFormat) -> usize {
        match format {
            ResultFormat::Text => self.text_size(format),
            ResultFormat::Structured | ResultFormat::Both => {
                self.text_size(format).max(self.json_size())
            }
        }
    }

    /// The same within the budget that it was made for, else within this one: what is still too
    /// long is cut.
    pub(crate) fn within(mut self, budget: TokenBudget, format: ResultFormat) -> Self {
        let limit = self.budget.unwrap_or(budget).bytes();
        if self.size(format) <= limit {
            return self;
        }
        // Even if JSON takes six bytes for each of its characters, it leaves room for the rest.
        self.hint = self.hint.map(|hint| trim_text(&hint, limit / 8));
        let mut room = usize::MAX;
        if self.text_size(format) > limit {
            self.verdict = trim_text(&self.verdict, limit / 2);
            let hint = self.hint().map_or(0, |hint| hint.len() + "\n→ ".len());
            room = limit.saturating_sub(self.verdict.len() + hint + 1);
        }
        // By itself: the structured form is cut in another way.
        let body = trim_text(self.body(), room);
        let hint = self.json_hint_size();
        let mut answer = self.with_body(body).with_output_as_field();
        trim_fields(&mut answer.fields, limit.saturating_sub(hint));
        answer
    }

    fn with_output_as_field(mut self) -> Self {
        if let Some(output) = self.output.take() {
            output.put_into(&mut self.fields);
        }
        self
    }

    /// What the structured form takes.
    fn json_size(&self) -> usize {
        let output = self.output.as_ref().map_or(0, Output::json_size);
        json_size(&self.fields) + output + self.json_hint_size()
    }

    /// What the hint adds to the structured form.
    fn json_hint_size(&self) -> usize {
        self.hint().map_or(0, |hint| escaped_len(hint) + r#","hint":"""#.len())
    }

    /// The same with every secret masked. Bytes that were asked for as they are stay as they are.
    pub(crate) fn masked(mut self, redactor: &Redactor) -> Self {
        if self.secrets != Secrets::Possible {
            return self;
        }
        self.secrets = Secrets::Masked;
        mask(&mut self.verdict, redactor);
        if let Body::Own(body) = &mut self.body {
            mask(body, redactor);
        }
        if let Some(output) = &mut self.output {
            output.mask(redactor);
        }
        self.fields.values_mut().for_each(|value| mask_value(value, redactor));
        self
    }

    /// What stands below the verdict.
    fn body(&self) -> &str {
        match &self.body {
            Body::Own(body) => body,
            Body::Output => self.output.as_ref().map_or("", Output::text),
        }
    }

    /// The whole text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::with_capacity(self.pieces().map(str::len).sum());
        text.extend(self.pieces());
        text
    }

    /// The text, piece by piece.
    fn pieces(&self) -> impl Iterator<Item = &str> {
        let body = block(self.body()).map(|body| ["\n", body]);
        let hint = self.hint().map(|hint| ["\n→ ", hint]);
        std::iter::once(self.verdict.as_str()).chain([body, hint].into_iter().flatten().flatten())
    }

    /// The result on the wire, in the form that was configured.
    pub(crate) fn into_result(self, format: ResultFormat) -> CallToolResult {
        let content = vec![ContentBlock::text(self.text_in(format))];
        let mut result = match self.success {
            Success::Done => CallToolResult::success(content),
            Success::Failed => CallToolResult::error(content),
        };
        if format != ResultFormat::Text {
            result.structured_content = Some(Value::Object(self.structured()));
        }
        result
    }

    /// Whether the text is the verdict alone. Clients show the text of a failure, and nothing else
    /// of it.
    fn is_short_in(&self, format: ResultFormat) -> bool {
        format == ResultFormat::Structured && self.success == Success::Done
    }

    fn text_in(&self, format: ResultFormat) -> String {
        if self.is_short_in(format) { self.verdict.clone() } else { self.text() }
    }

    /// The bytes of the text.
    fn text_size(&self, format: ResultFormat) -> usize {
        if self.is_short_in(format) {
            self.verdict.len()
        } else {
            self.pieces().map(str::len).sum()
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

/// The output that stands for a range of bytes. A page may be large: nothing here copies it.
#[derive(Debug)]
pub(super) struct Output {
    field: &'static str,
    text: String,
    masking: Masking,
    /// Its size inside JSON, once somebody asked.
    escaped: OnceLock<usize>,
}

/// Whether secrets are still to be hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Masking {
    Due,
    /// They are, or the bytes were asked for as they are.
    Done,
}

impl Output {
    /// What is shown of a range of bytes.
    pub(super) fn of(shown: Shown) -> Self {
        let masking = if shown.is_encoded() { Masking::Done } else { Masking::Due };
        let field = shown.field();
        let is_base64 = matches!(shown.form, Form::Base64);
        let text = shown.into_head();
        // There is nothing in base64 that JSON escapes.
        let escaped = if is_base64 { OnceLock::from(text.len()) } else { OnceLock::new() };
        Self { field, text, masking, escaped }
    }

    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Hides secrets in it; once is enough.
    pub(in crate::mcp) fn mask(&mut self, redactor: &Redactor) {
        if self.masking == Masking::Due {
            mask(&mut self.text, redactor);
            self.masking = Masking::Done;
            self.escaped = OnceLock::new();
        }
    }

    /// What it adds to the structured form of an answer that has other fields.
    pub(super) fn json_size(&self) -> usize {
        let escaped = self.escaped.get_or_init(|| escaped_len(&self.text));
        self.field.len() + escaped + r#""":"","#.len()
    }

    /// Becomes a field of the structured form.
    pub(super) fn put_into(self, fields: &mut JsonObject) {
        fields.insert(self.field.to_owned(), self.text.into());
    }
}

/// Makes an answer fit its budget: it is made with less and less output until it does.
#[derive(Debug)]
pub(crate) struct Fit {
    budget: TokenBudget,
    format: ResultFormat,
    redactor: Arc<Redactor>,
    /// What the answer takes without output.
    bare: usize,
    /// How much output the next try may show.
    size: usize,
    tries: usize,
}

impl Fit {
    /// For answers that have, beside output, what `bare` has.
    pub(crate) fn new(
        budget: TokenBudget,
        format: ResultFormat,
        redactor: Arc<Redactor>,
        bare: &Answer,
    ) -> Self {
        let bare = bare.size(format) + ABOUT_OUTPUT;
        Self { budget, format, redactor, bare, size: budget.bytes().saturating_sub(bare), tries: 0 }
    }

    /// The same, for a page of so many bytes as they are in the log. A program that reads
    /// structured answers gets the page that it asks for.
    pub(crate) fn for_page(mut self, asked: Option<usize>, default: usize) -> Self {
        if let (Some(asked), ResultFormat::Structured) = (asked, self.format) {
            self.budget = self.budget.holding(asked);
        }
        self.size = asked.unwrap_or(default);
        self
    }

    /// How much output the next try may show.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// All of it, for one excerpt.
    pub(crate) fn excerpt(&self) -> Budget {
        self.excerpt_of(self.size)
    }

    /// A share of it, for one of several excerpts.
    pub(crate) fn excerpt_of(&self, share: usize) -> Budget {
        let cost = match self.format {
            ResultFormat::Text => str::len,
            ResultFormat::Structured | ResultFormat::Both => escaped_len,
        };
        Budget { cost, ..Budget::of_bytes(share) }
    }

    /// The answer, masked, whether it fits or not.
    pub(crate) fn try_on(&self, answer: Answer) -> Answer {
        answer.masked(&self.redactor).with_budget(self.budget)
    }

    /// Whether an answer fits.
    pub(crate) fn holds(&self, answer: &Answer) -> bool {
        answer.size(self.format) <= self.budget.bytes()
    }

    /// The answer, masked, if it fits or shows no output any more; else the next one has to be made with
    /// less.
    pub(crate) fn settle(&mut self, answer: Answer) -> Option<Answer> {
        let answer = answer.masked(&self.redactor);
        let limit = self.budget.bytes();
        let takes = answer.size(self.format);
        if takes <= limit || self.size == 0 {
            return Some(answer.with_budget(self.budget));
        }
        self.tries += 1;
        self.size = if self.tries < TRIES { less(self.size, limit, takes, self.bare) } else { 0 };
        None
    }
}

/// What is known of a port that was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listening {
    /// Somebody listened on it before the wait.
    Already,
    /// Somebody began to during the wait.
    Now,
    /// Nobody does, as far as was looked.
    No,
}

impl Listening {
    const fn words(self) -> &'static str {
        match self {
            Self::Already => "listens already, whoever holds it",
            Self::Now => "listens",
            Self::No => "does not listen",
        }
    }
}

impl Answer {
    /// The same, with a first line about a port.
    pub(crate) fn with_port(self, port: u16, listening: Listening) -> Self {
        let is_listened_on = match listening {
            Listening::Already | Listening::Now => true,
            Listening::No => false,
        };
        self.with_headline(format!("port {port} {}", listening.words()))
            .with_field("port", port)
            .with_field("listening", is_listened_on)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::allocation_tests::{Allocated, allocated};
    use crate::confinement::GrantedConfinement;
    use crate::ids::JobId;
    use crate::mcp::reply::excerpt::{from_offset, shown_dump, shown_page, shown_raw};
    use crate::mcp::reply::hint::after_page;
    use crate::mcp::snapshot::State;
    use crate::outcome::{JobEnding, ResourceUsage};
    use crate::output::BlockingReader;
    use crate::output::{LogReader, LogStorage, PageRequest, open_log};
    use crate::spec::Stream;
    use crate::trace::TraceContext;

    fn log_of(bytes: &[u8]) -> LogReader {
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() });
        writer.append(Stream::Stdout, bytes);
        writer.close();
        reader
    }

    fn job_of(log: &LogReader) -> Snapshot {
        let ending = JobEnding {
            outcome: Outcome::Exited { code: 1 },
            at: Instant::now(),
            usage: ResourceUsage::default(),
            pipeline: vec![1, 0],
            survivors: Vec::new(),
            kill: None,
        };
        Snapshot {
            job: JobId::local(1234),
            state: State::Finished(ending),
            elapsed: Duration::from_secs(1),
            queued: Duration::ZERO,
            output: log.progress(),
            quiet_for: None,
            survivors: vec![1, 2, 3],
            confinement: GrantedConfinement::NOTHING,
            doubt: None,
            writable: Vec::new(),
            trace_id: Some(TraceContext::root().trace_id),
        }
    }

    /// The kinds of output that are hard to keep short, many times over.
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
        TokenBudget::asked(json!({"max_tokens": tokens}).as_object(), 8000)
    }

    /// Which part of the log is wanted, and as what.
    #[derive(Debug, Clone, Copy)]
    enum Wanted {
        Excerpt,
        Page,
        Raw,
        Hexdump,
    }

    fn any_wanted() -> impl Strategy<Value = Wanted> {
        prop_oneof![
            Just(Wanted::Excerpt),
            Just(Wanted::Page),
            Just(Wanted::Raw),
            Just(Wanted::Hexdump),
        ]
    }

    fn shown(log: &LogReader, from: u64, wanted: Wanted, fit: &Fit) -> Shown {
        let request = PageRequest { from, stream: None, max_bytes: fit.size(), max_lines: 0 };
        match wanted {
            Wanted::Excerpt => from_offset(&log.blocking(), from, fit.excerpt()).unwrap(),
            Wanted::Page => shown_page(&log.blocking(), &request).unwrap(),
            Wanted::Raw => shown_raw(&log.blocking(), &request).unwrap(),
            Wanted::Hexdump => shown_dump(&log.blocking(), &request).unwrap(),
        }
    }

    /// The answer as the tools make it, and what of the output is in it.
    fn answer(log: &LogReader, from: u64, wanted: Wanted, mut fit: Fit) -> (Answer, Shown) {
        let job = job_of(log);
        loop {
            let shown = shown(log, from, wanted, &fit);
            let answer = Answer::about(&job, Some(shown.clone()), ResultFormat::Both)
                .with_hint(after_page(&job, &shown));
            if let Some(answer) = fit.settle(answer) {
                return (answer, shown);
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
            prop_assert!(block["text"].as_str().unwrap().len() <= budget.bytes(), "{block}");
        }
        let structured =
            value.get("structuredContent").map_or(0, |fields| fields.to_string().len());
        prop_assert!(structured <= budget.bytes(), "{} of {}", structured, budget.bytes());
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        #[test]
        fn an_answer_keeps_its_budget_and_its_places_are_true(
            output in any_output(),
            wanted in any_wanted(),
            format in any_format(),
            tokens in 500..9000_u64,
            asked in 1..200_000_usize,
        ) {
            let (log, budget) = (log_of(&output), budget_of(tokens));
            let bare = Answer::about(&job_of(&log), None, ResultFormat::Both);
            let mut fit = Fit::new(budget, format, redactor(), &bare);
            if !matches!(wanted, Wanted::Excerpt) {
                fit = fit.for_page(Some(asked), 16_384);
            }
            let (answer, shown) = answer(&log, 0, wanted, fit);
            let fits = answer.size(format) <= budget.bytes();
            let result = answer.within(budget, format).into_result(format);
            check_size(&result, budget)?;
            prop_assert!(fits, "nothing is cut off that was said to be shown");
            if let Some(fields) = &result.structured_content {
                prop_assert_eq!(&fields["bytes_start"], 0);
                prop_assert_eq!(&fields["bytes_end"], shown.end);
            }
            prop_assert!(shown.end > 0 || matches!(wanted, Wanted::Excerpt), "each page gets on");
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
            let part = Part::listed(&job, long.clone(), names);
            for answer in [
                Answer::failure(long.clone(), "code"),
                Answer::several(None, vec![part.clone(); jobs.min(60)]).with_hint(Some(long.clone())),
                Answer::several(Some("list".to_owned()), vec![Part::job(&job, None); jobs]),
            ] {
                check_size(&answer.within(budget, format).into_result(format), budget)?;
            }
        }
    }

    #[test]
    fn a_page_of_a_program_holds_what_it_asked_for() {
        let log = log_of(&vec![1; 1 << 20]);
        let job = job_of(&log);
        let budget = TokenBudget::asked(None, 8000);
        let fit = Fit::new(
            budget,
            ResultFormat::Structured,
            redactor(),
            &Answer::about(&job, None, ResultFormat::Both),
        );
        let (answer, shown) = answer(&log, 0, Wanted::Raw, fit.for_page(Some(1 << 20), 16_384));
        assert_eq!(shown.end, 1 << 20);
        let result = answer.within(budget, ResultFormat::Structured);
        let fields = result.into_result(ResultFormat::Structured).structured_content.unwrap();
        assert_eq!(fields["output"].as_str().map(str::len), Some((1_usize << 20).div_ceil(3) * 4));
        assert_ne!(fields["bytes_end"], Value::Null);
    }

    const PAGE: usize = 1 << 20;
    /// Verdict, fields, the looks at the index for the numbers of lines, and what patterns work with: they
    /// are shared with other tests, which may have it just then. Less than a page in any case.
    const BESIDE: usize = 512 * 1024;

    type Show = fn(&BlockingReader, &PageRequest) -> std::io::Result<Shown>;

    /// What a page takes from the log to the result, which is built the second time it is asked for:
    /// the first time compiles patterns.
    fn cost(line: &str, show: Show, format: ResultFormat) -> Allocated {
        let log = log_of(line.repeat(2 * PAGE / line.len()).as_bytes());
        let job = job_of(&log);
        let log = log.blocking();
        let request = PageRequest { from: 0, stream: None, max_bytes: PAGE, max_lines: 0 };
        let answer = || -> CallToolResult {
            let bare = Answer::about(&job, None, ResultFormat::Both);
            let fit = Fit::new(TokenBudget::given(4 * PAGE as u64), format, redactor(), &bare);
            let shown = show(&log, &request).unwrap();
            let answer = fit.for_page(Some(PAGE), PAGE).settle(Answer::about(
                &job,
                Some(shown),
                ResultFormat::Both,
            ));
            answer.unwrap().masked(&redactor()).into_result(format)
        };
        answer();
        allocated(answer).0
    }

    #[track_caller]
    fn check(line: &str, show: Show, format: ResultFormat, pages: f64) {
        let seen = cost(line, show, format);
        let most = (pages * PAGE as f64) as usize + BESIDE;
        assert!(seen.bytes <= most, "{format:?}: {seen:?}, more than {most}");
        assert!(seen.times < 2000, "{format:?}: {seen:?} although there are many more lines");
    }

    #[test]
    fn a_page_of_text_is_there_once() {
        check("one line and\nanother\n", shown_page, ResultFormat::Structured, 1.0);
        // Below the verdict, in one text.
        check("one line and\nanother\n", shown_page, ResultFormat::Text, 2.0);
    }

    #[test]
    fn a_page_of_bytes_is_there_once_and_once_as_base64() {
        check("any line\n", shown_raw, ResultFormat::Structured, 1.0 + 4.0 / 3.0);
    }

    #[test]
    fn a_page_of_equal_lines_costs_no_more_than_its_bytes() {
        check("y\n", shown_page, ResultFormat::Structured, 1.0);
    }
}

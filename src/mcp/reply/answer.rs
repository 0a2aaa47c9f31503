//! A whole answer, and the result on the wire that it becomes.

use std::borrow::Cow;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::Value;

use super::budget::{TokenBudget, escaped_len};
use super::output::Output;
use super::part::{Part, block};
use super::shown::Shown;
use super::trim::{json_size, trim_fields, trim_text};
use super::{hint, structured, verdict};
use crate::mcp::settings::ResultFormat;
use crate::mcp::snapshot::Snapshot;
use crate::outcome::Outcome;
use crate::output::redact::Redactor;

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

pub(super) fn mask(text: &mut String, redactor: &Redactor) {
    if let Cow::Owned(masked) = redactor.mask_text(text) {
        *text = masked;
    }
}

pub(super) fn mask_value(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => mask(text, redactor),
        Value::Array(values) => values.iter_mut().for_each(|value| mask_value(value, redactor)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| mask_value(value, redactor));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

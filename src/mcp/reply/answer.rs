//! A whole answer, and the result on the wire that it becomes.

use std::borrow::Cow;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::Value;

use super::budget::{TokenBudget, escaped_len};
use super::shown::Shown;
use super::trim::{json_size, trim_fields, trim_text};
use super::words::count;
use super::{hint, structured, verdict};
use crate::mcp::settings::ResultFormat;
use crate::mcp::snapshot::Snapshot;
use crate::outcome::Outcome;
use crate::output::redact::Redactor;
use crate::yard::FindError;

/// What a tool answers: the verdict, the body, at most one `→` line, and the same in
/// structured form.
#[derive(Debug)]
pub(crate) struct Answer {
    verdict: String,
    body: String,
    hint: Option<String>,
    fields: JsonObject,
    success: Success,
    /// The budget that it was made for, where that is not the call's.
    budget: Option<TokenBudget>,
}

/// Whether *we* did what was asked. A command that failed is a success of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Success {
    Done,
    Failed,
}

/// What an answer about several jobs says about one of them.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    text: String,
    fields: JsonObject,
}

impl Part {
    /// A job that was found: its verdict, and its output if any is to be shown.
    pub(crate) fn job(job: &Snapshot, shown: Option<&Shown>) -> Self {
        let mut text = verdict::verdict(job, shown);
        if let Some(shown) = shown {
            push_block(&mut text, &shown.body());
        }
        Self { text, fields: structured::fields(job, shown) }
    }

    /// What it takes in an answer, what stands between two of them included.
    pub(crate) fn size(&self, format: ResultFormat) -> usize {
        let text = self.text.len() + "\n\n".len();
        match format {
            ResultFormat::Text => text,
            ResultFormat::Structured | ResultFormat::Both => text.max(json_size(&self.fields) + 1),
        }
    }

    /// A job in a list: a line of its own, and what names it beside the usual fields.
    pub(crate) fn listed(job: &Snapshot, line: String, names: JsonObject) -> Self {
        let mut fields = structured::fields(job, None);
        fields.extend(names);
        Self { text: line, fields }
    }

    /// A job in which something was found: a line of its own, what was found, and what names it
    /// beside the usual fields.
    pub(crate) fn found(job: &Snapshot, line: String, shown: &Shown, names: JsonObject) -> Self {
        let mut part = Self { text: line, fields: structured::fields(job, Some(shown)) };
        push_block(&mut part.text, &shown.text);
        part.fields.extend(names);
        part
    }

    /// The same, saying which line matched.
    pub(crate) fn with_match(self, line: u64) -> Self {
        self.with_sign(&format!("line {line} matches"), "matched_line", line)
    }

    /// The same, saying that it was quiet for as long as was asked.
    pub(crate) fn with_quiet(self) -> Self {
        self.with_sign("quiet", "quiet", true)
    }

    /// The same with one more word in its verdict, and its field.
    fn with_sign(mut self, word: &str, field: &str, value: impl Into<Value>) -> Self {
        let end_of_verdict = self.text.find('\n').unwrap_or(self.text.len());
        self.text.insert_str(end_of_verdict, &format!(" · {word}"));
        self.fields.insert(field.to_owned(), value.into());
        self
    }

    /// The same, saying how many lines of its output match, if that was asked for.
    pub(crate) fn with_matches(mut self, matches: Option<u64>) -> Self {
        if let Some(matches) = matches {
            let said = count(matches, "line matches", "lines match");
            self.text.push_str(&format!(" · {said}"));
            self.fields.insert("matches".into(), matches.into());
        }
        self
    }

    /// The same, saying how many processes that had outlived the job were ended.
    pub(crate) fn with_ended(mut self, processes: usize) -> Self {
        if processes > 0 {
            let said = count(processes as u64, "process", "processes");
            self.text.push_str(&format!(" · {said} ended"));
            self.fields.insert("ended_processes".into(), processes.into());
        }
        self
    }

    /// A job that was asked for but does not exist, or no longer.
    pub(crate) fn missing(error: &FindError) -> Self {
        let mut fields = JsonObject::new();
        fields.insert("job".into(), error.id().number().into());
        fields.insert("error".into(), error.to_string().into());
        fields.insert("error_code".into(), error.code().into());
        Self { text: error.to_string(), fields }
    }
}

impl Answer {
    /// About one job and its output. A job that could not be started is a failure of ours.
    pub(crate) fn about(job: &Snapshot, shown: Option<&Shown>) -> Self {
        let failed =
            job.ending().is_some_and(|ending| matches!(ending.outcome, Outcome::FailedToStart(_)));
        Self {
            verdict: verdict::verdict(job, shown),
            body: shown.map(Shown::body).unwrap_or_default(),
            hint: hint::after_job(job, shown),
            fields: structured::fields(job, shown),
            success: if failed { Success::Failed } else { Success::Done },
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
        Self { verdict, body, hint: None, fields, success: Success::Done, budget: None }
    }

    /// That the call failed, and why.
    pub(crate) fn failure(message: String, code: &'static str) -> Self {
        let mut fields = JsonObject::new();
        fields.insert("error".into(), message.as_str().into());
        fields.insert("error_code".into(), code.into());
        let (body, success) = (String::new(), Success::Failed);
        Self { verdict: message, body, hint: None, fields, success, budget: None }
    }

    /// What the `→` line says, where there is one.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The same with another `→` line.
    pub(crate) fn with_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    /// The same with a line before all others.
    pub(crate) fn with_headline(mut self, headline: String) -> Self {
        let verdict = std::mem::replace(&mut self.verdict, headline);
        self.body =
            if self.body.is_empty() { verdict } else { format!("{verdict}\n{}", self.body) };
        self
    }

    /// The same with one more field in the structured form.
    pub(crate) fn with_field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// The same, about these bytes and where to go on after them.
    pub(crate) fn with_place(mut self, place: JsonObject) -> Self {
        self.fields.remove("next_cursor");
        self.fields.extend(place);
        self
    }

    /// The same with one more line below the body.
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        if !self.body.is_empty() && !self.body.ends_with('\n') {
            self.body.push('\n');
        }
        self.body.push_str(note);
        self
    }

    /// The same with a body of its own.
    pub(crate) fn with_body(mut self, body: String) -> Self {
        self.body = body;
        self
    }

    /// The same with a first line of its own.
    pub(crate) fn with_verdict(mut self, verdict: String) -> Self {
        self.verdict = verdict;
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
            ResultFormat::Text => self.text().len(),
            ResultFormat::Structured | ResultFormat::Both => {
                self.text_in(format).len().max(json_size(&self.fields) + self.json_hint_size())
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
        if self.text_in(format).len() > limit {
            self.verdict = trim_text(&self.verdict, limit / 2);
            let hint = self.hint().map_or(0, |hint| hint.len() + "\n→ ".len());
            self.body = trim_text(&self.body, limit.saturating_sub(self.verdict.len() + hint + 1));
        }
        let hint = self.json_hint_size();
        trim_fields(&mut self.fields, limit.saturating_sub(hint));
        self
    }

    /// What the hint adds to the structured form.
    fn json_hint_size(&self) -> usize {
        self.hint().map_or(0, |hint| escaped_len(hint) + r#","hint":"""#.len())
    }

    /// The same with every secret masked. Bytes that were asked for as they are stay as they are.
    pub(crate) fn masked(mut self, redactor: &Redactor) -> Self {
        if self.fields.contains_key("encoding") {
            return self;
        }
        for text in [&mut self.verdict, &mut self.body] {
            mask(text, redactor);
        }
        self.fields.values_mut().for_each(|value| mask_value(value, redactor));
        self
    }

    /// The whole text.
    pub(crate) fn text(&self) -> String {
        let mut text = self.verdict.clone();
        push_block(&mut text, &self.body);
        if let Some(hint) = &self.hint {
            text.push_str("\n→ ");
            text.push_str(hint);
        }
        text
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

    fn text_in(&self, format: ResultFormat) -> String {
        match format {
            // Clients show the text of a failure, and nothing else of it.
            ResultFormat::Structured if self.success == Success::Done => self.verdict.clone(),
            ResultFormat::Structured | ResultFormat::Text | ResultFormat::Both => self.text(),
        }
    }

    fn structured(self) -> JsonObject {
        let mut fields = self.fields;
        if let Some(hint) = self.hint {
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

/// Adds lines below what is there, without an empty last line.
fn push_block(text: &mut String, block: &str) {
    let block = block.strip_suffix('\n').unwrap_or(block);
    if !block.is_empty() {
        text.push('\n');
        text.push_str(block);
    }
}

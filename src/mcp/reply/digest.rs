//! What matters in an output, as text and in structured form.

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::body::read;
use super::error::ToolError;
use super::verdict::verdict;
use super::words::{count, size};
use crate::mcp::snapshot::Snapshot;
use crate::output::digest::{
    Counts, Digest, DigestRequest, Ending, EndingLine, InContext, NumberedLine, Reach, Tally,
    digest,
};
use crate::output::{LogReader, PageRequest};

/// The text form is no longer than this.
const TEXT_BYTES: usize = 3000;
/// The short form is no longer than this.
const SHORT_BYTES: usize = 600;
/// An ending takes no more than this of the text form, and of the short form.
const ENDING_BYTES: usize = 320;
const SHORT_ENDING_BYTES: usize = 200;
/// Names of failed tests in the text form, and in the short form.
const NAMES: usize = 10;
const SHORT_NAMES: usize = 3;

/// What matters in a job's output, from the request's offset on.
pub(crate) async fn show_digest(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
) -> Result<Answer, ToolError> {
    let PageRequest { from, stream, max_bytes, .. } = request;
    let wanted = DigestRequest { stream, from, reach: Reach::default() };
    let digest = read(job, log, move |log| digest(log, &wanted)).await?;
    let lines = count(digest.lines, "line", "lines");
    let part = if digest.complete {
        String::new()
    } else {
        format!(" ({} of it looked at)", size(digest.scanned_bytes))
    };
    let headline = format!("digest of {lines}{part} · {}", verdict(job, None));
    let hint =
        digest.errors.listed.first().map(|error| {
            format!("around an error: read_output(job={}, line={})", job.job, error.line)
        });
    Ok(Answer::about(job, None)
        .with_verdict(headline)
        .with_body(text(&digest, max_bytes.min(TEXT_BYTES)))
        .with_hint(hint)
        .with_field("digest", fields(&digest)))
}

/// Endings first, then counts, then the first and the last error: as much of it as has room.
pub(super) fn text(digest: &Digest, max_bytes: usize) -> String {
    let endings = digest.endings.iter().map(|line| {
        let told = cut(ending(&line.ending, NAMES), ENDING_BYTES);
        format!("{told} (line {})", line.line)
    });
    let errors = tally(&digest.errors, "error", "errors");
    let warnings = tally(&digest.warnings, "warning", "warnings");
    let first = digest.first_error.iter().flat_map(|error| around("first error:", error));
    let last = digest.last_error.iter().filter(|last| !is_in_sight(last, digest));
    let last = last.flat_map(|error| around("last error:", error));
    let lines = endings.chain([format!("{errors}; {warnings}")]).chain(first).chain(last);
    let mut text = String::new();
    for line in lines {
        if text.len() + line.len() + 1 > max_bytes {
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Whether the lines after the first error show the last one as well.
fn is_in_sight(last: &InContext, digest: &Digest) -> bool {
    digest.first_error.iter().flat_map(|first| &first.after).any(|line| *line == last.line)
}

/// `75 errors: lines 22, 31, 40, 52, 60 … 1030, 1031`.
fn tally(tally: &Tally, one: &str, many: &str) -> String {
    let counted = count(tally.count, one, many);
    let numbers: Vec<String> = tally.listed.iter().map(|it| it.line.to_string()).collect();
    if numbers.is_empty() {
        return format!("no {many}");
    }
    let (first, last) = numbers.split_at(numbers.len() / 2);
    let gap = if tally.count > numbers.len() as u64 { " … " } else { ", " };
    let parts: Vec<String> =
        [first, last].iter().filter(|part| !part.is_empty()).map(|part| part.join(", ")).collect();
    let word = if tally.count == 1 { "line" } else { "lines" };
    format!("{counted}: {word} {}", parts.join(gap))
}

/// A heading, and the line with its neighbours as a search lists them.
fn around(heading: &str, error: &InContext) -> Vec<String> {
    let numbered = |mark: char| {
        move |line: &NumberedLine| {
            format!("{}{mark} {}", line.line, line.text).trim_end().to_owned()
        }
    };
    let mut lines = vec![heading.to_owned()];
    lines.extend(error.before.iter().map(numbered('-')));
    lines.push(numbered(':')(&error.line));
    lines.extend(error.after.iter().map(numbered('-')));
    lines
}

/// `cargo test: 37 passed, 1 failed: tests::a`.
fn ending(ending: &Ending, names: usize) -> String {
    let counts = counted(&ending.counts);
    let is_test = ending.counts.passed.is_some() || ending.counts.failed.is_some();
    let mut parts = Vec::from_iter((!counts.is_empty()).then(|| counts.join(", ")));
    if !is_test || parts.is_empty() {
        parts.push(ending.text.clone());
    }
    let told = parts.join(" · ");
    // Many tools begin their lines with their own name.
    let is_named = told.strip_prefix(ending.tool).is_some_and(|rest| rest.starts_with([':', '[']));
    let mut text = if is_named { told } else { format!("{}: {told}", ending.tool) };
    if !ending.failed.is_empty() {
        let more = if ending.failed.len() > names { ", …" } else { "" };
        let named: Vec<&str> = ending.failed.iter().take(names).map(String::as_str).collect();
        text.push_str(&format!(": {}{more}", named.join(", ")));
    }
    text
}

/// Only what is not zero, but always how many tests passed and failed. One error and nothing
/// else needs no number.
fn counted(counts: &Counts) -> Vec<String> {
    if *counts == (Counts { errors: Some(1), ..Counts::default() }) {
        return Vec::new();
    }
    let tests = [(counts.passed, "passed"), (counts.failed, "failed"), (counts.skipped, "skipped")];
    let tests = tests.into_iter().filter_map(|(number, word)| Some(count(number?, word, word)));
    let found = [(counts.errors, "error", "errors"), (counts.warnings, "warning", "warnings")];
    let found = found.into_iter().filter_map(|(number, one, many)| {
        Some(count(number.filter(|number| *number > 0)?, one, many))
    });
    tests.chain(found).collect()
}

/// One line: `75 errors (22 … 1030), 3 warnings · cargo test: 37 passed, 1 failed: tests::a`.
/// Nothing where there is nothing to tell.
pub(super) fn in_short(digest: &Digest) -> Option<String> {
    let kinds = [(&digest.errors, "error", "errors"), (&digest.warnings, "warning", "warnings")];
    let found: Vec<String> = kinds
        .into_iter()
        .filter(|(tally, ..)| tally.count > 0)
        .map(|(tally, one, many)| count(tally.count, one, many) + &span(tally))
        .collect();
    let mut parts = Vec::from_iter((!found.is_empty()).then(|| found.join(", ")));
    parts.extend(
        digest
            .endings
            .iter()
            .map(|line| cut(ending(&line.ending, SHORT_NAMES), SHORT_ENDING_BYTES)),
    );
    (!parts.is_empty()).then(|| cut(parts.join(" · "), SHORT_BYTES))
}

/// ` (22 … 1030)`: the first and the last line of that kind.
fn span(tally: &Tally) -> String {
    match tally.listed.as_slice() {
        [] => String::new(),
        [only] => format!(" ({})", only.line),
        [first, .., last] => format!(" ({} … {})", first.line, last.line),
    }
}

fn cut(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes - '…'.len_utf8()));
        text.push('…');
    }
    text
}

/// The whole digest.
fn fields(digest: &Digest) -> Value {
    let mut fields = Map::new();
    fields.insert("lines".into(), digest.lines.into());
    fields.insert("errors".into(), digest.errors.count.into());
    fields.insert("warnings".into(), digest.warnings.count.into());
    fields.insert("error_lines".into(), digest.errors.listed.iter().map(line_fields).collect());
    fields.insert("warning_lines".into(), digest.warnings.listed.iter().map(line_fields).collect());
    for (name, error) in [("first_error", &digest.first_error), ("last_error", &digest.last_error)]
    {
        if let Some(error) = error {
            fields.insert(name.into(), context_fields(error));
        }
    }
    fields.insert("endings".into(), digest.endings.iter().map(ending_fields).collect());
    fields.insert("scanned_bytes".into(), digest.scanned_bytes.into());
    fields.insert("complete".into(), digest.complete.into());
    Value::Object(fields)
}

/// What goes with a reply that is cut: its `hidden_errors` list the lines.
pub(super) fn short_fields(digest: &Digest) -> Value {
    json!({
        "errors": digest.errors.count,
        "warnings": digest.warnings.count,
        "endings": digest.endings.iter().map(ending_fields).collect::<Value>(),
        "complete": digest.complete,
    })
}

fn line_fields(line: &NumberedLine) -> Value {
    json!({"line": line.line, "text": line.text})
}

fn context_fields(error: &InContext) -> Value {
    let texts = |lines: &[NumberedLine]| -> Value {
        lines.iter().map(|line| Value::from(line.text.as_str())).collect()
    };
    json!({
        "line": error.line.line,
        "text": error.line.text,
        "before": texts(&error.before),
        "after": texts(&error.after),
    })
}

fn ending_fields(line: &EndingLine) -> Value {
    let EndingLine { line, ending } = line;
    let mut fields = Map::new();
    fields.insert("tool".into(), ending.tool.into());
    fields.insert("line".into(), (*line).into());
    fields.insert("text".into(), ending.text.as_str().into());
    let counts = &ending.counts;
    for (name, number) in [
        ("passed", counts.passed),
        ("failed", counts.failed),
        ("skipped", counts.skipped),
        ("errors", counts.errors),
        ("warnings", counts.warnings),
    ] {
        if let Some(number) = number {
            fields.insert(name.into(), number.into());
        }
    }
    if !ending.failed.is_empty() {
        fields.insert("failed_names".into(), ending.failed.clone().into());
    }
    Value::Object(fields)
}

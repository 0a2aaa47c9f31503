//! What matters in an output, in structured form.

use serde_json::{Map, Value, json};

use super::detail::{COUNTS, DETAILS, Detail};
use super::digest::{cut, sides};
use crate::output::digest::{Digest, EndingLine, InContext, NumberedLine, Tally};

/// The short form takes no more than this, unless its counts alone do.
const SHORT_BYTES: usize = 2000;

/// The digest with so much detail.
pub(super) fn fields(digest: &Digest, detail: Detail) -> Value {
    let mut fields = Map::new();
    fields.insert("lines".into(), digest.lines.into());
    fields.insert("errors".into(), digest.errors.count.into());
    fields.insert("warnings".into(), digest.warnings.count.into());
    for (kind, tally) in [("error", &digest.errors), ("warning", &digest.warnings)] {
        fields.insert(format!("{kind}_lines"), listed(tally, detail));
        if tally.numbers.len() > listed_count(tally, detail) && detail.numbers > 0 {
            fields.insert(format!("{kind}_line_numbers"), numbers(tally, detail));
        }
    }
    let errors = [("first_error", &digest.first_error), ("last_error", &digest.last_error)];
    for (name, error) in errors.into_iter().take(detail.errors) {
        if let Some(error) = error {
            fields.insert(name.into(), context_fields(error, detail));
        }
    }
    fields.insert("endings".into(), endings(digest, detail));
    fields.insert("scanned_bytes".into(), digest.scanned_bytes.into());
    fields.insert("complete".into(), digest.complete.into());
    Value::Object(fields)
}

/// What goes with a reply that is cut: its `hidden_errors` list the lines.
pub(super) fn short_fields(digest: &Digest) -> Value {
    let short = |detail: Detail| {
        json!({
            "errors": digest.errors.count,
            "warnings": digest.warnings.count,
            "endings": endings(digest, detail),
            "complete": digest.complete,
        })
    };
    let mut forms = DETAILS.into_iter().map(short);
    forms.find(|form| form.to_string().len() <= SHORT_BYTES).unwrap_or_else(|| short(COUNTS))
}

fn listed(tally: &Tally, detail: Detail) -> Value {
    let (first, last) = sides(&tally.listed, detail.listed);
    let line = |line: &NumberedLine| json!({"line": line.line, "text": cut(line.text.clone(), detail.text_bytes)});
    first.iter().chain(last).map(line).collect()
}

fn listed_count(tally: &Tally, detail: Detail) -> usize {
    tally.listed.len().min(detail.listed * 2)
}

fn numbers(tally: &Tally, detail: Detail) -> Value {
    let (first, last) = sides(&tally.numbers, detail.numbers);
    first.iter().chain(last).copied().collect()
}

fn context_fields(error: &InContext, detail: Detail) -> Value {
    let text = |line: &NumberedLine| cut(line.text.clone(), detail.text_bytes);
    let left_out = error.before.len().saturating_sub(detail.around);
    json!({
        "line": error.line.line,
        "text": text(&error.line),
        "before": error.before.iter().skip(left_out).map(text).collect::<Vec<_>>(),
        "after": error.after.iter().take(detail.around).map(text).collect::<Vec<_>>(),
    })
}

/// The last ones.
fn endings(digest: &Digest, detail: Detail) -> Value {
    let left_out = digest.endings.len().saturating_sub(detail.endings);
    digest.endings.iter().skip(left_out).map(|line| ending_fields(line, detail)).collect()
}

fn ending_fields(line: &EndingLine, detail: Detail) -> Value {
    let EndingLine { line, ending } = line;
    let mut fields = Map::new();
    fields.insert("tool".into(), ending.tool.into());
    fields.insert("line".into(), (*line).into());
    fields.insert("text".into(), cut(ending.text.clone(), detail.ending_bytes).into());
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
    let names: Vec<String> = ending.failed.iter().take(detail.names).cloned().collect();
    if !names.is_empty() {
        fields.insert("failed_names".into(), names.into());
    }
    Value::Object(fields)
}

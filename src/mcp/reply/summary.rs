//! The facts of a job's output, from its summary: the lines of a reply, and the structured form.

use std::io;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::format::count;
use crate::output::summary::{Counts, Failure, LineGroup, Summary, ToolReport};
use crate::output::{BlockingReader, LogSummary, SummaryRequest, summarize};
use crate::telemetry::events;

/// The longest one-line form, in bytes.
const ONE_LINE_BYTES: usize = 300;
/// The most failures of a tool, and the most lines of one severity, in the structured form.
pub(crate) const MAX_LISTED: usize = 50;

/// The facts that a reply shows instead of a long output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownFacts {
    /// The lines, the decisive ones first.
    pub(crate) lines: Vec<String>,
    /// The summary that they come from.
    pub(crate) source: Arc<LogSummary>,
}

impl ShownFacts {
    /// The lines, each with its newline.
    pub(super) fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    /// The counts of error and warning lines outside the reports of tools.
    pub(super) fn line_counts(&self) -> Option<String> {
        line_counts(&self.source.summary)
    }

    /// The line at which a reader finds the first error that is listed with its number.
    pub(super) fn first_error_line(&self) -> Option<u64> {
        self.source.summary.errors.kinds.first().map(|group| group.first.number)
    }
}

/// Formats the counts of error and warning lines outside the reports of tools, as `1 error, 24
/// warnings`.
pub(super) fn line_counts(summary: &Summary) -> Option<String> {
    let Summary { errors, warnings, .. } = summary;
    let kinds = [(errors.count, "error", "errors"), (warnings.count, "warning", "warnings")];
    let kinds = kinds.into_iter().filter(|(number, ..)| *number > 0);
    let counted: Vec<String> = kinds.map(|(number, one, many)| count(number, one, many)).collect();
    (!counted.is_empty()).then(|| counted.join(", "))
}

/// Summarises a log. The first summary of a whole log that is closed counts its tools.
pub(super) fn summarize_and_count(
    log: &BlockingReader,
    request: &SummaryRequest,
) -> io::Result<Arc<LogSummary>> {
    let found = summarize(log, request)?;
    let is_whole = request.stream.is_none() && request.from == 0 && log.progress().closed;
    if is_whole && log.mark_counted() {
        for tool in found.summary.tools.iter().filter(|tool| tool.is_consistent) {
            events::tool_reported(tool.tool, tool.has_failures());
        }
    }
    Ok(found)
}

/// Formats the result of the tools in an output on one line: `pytest: 7 failed, 293 passed`.
/// Returns `None` if no tool was recognised.
pub(super) fn one_line_summary(summary: &Summary) -> Option<String> {
    let headlines = summary.headlines();
    (!headlines.is_empty()).then(|| cut(headlines.join(" · "), ONE_LINE_BYTES))
}

/// Cuts a text to at most `max_bytes` at a character boundary.
fn cut(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
    text
}

/// Returns the structured form for a reply that shows facts: their lines, and the counts of tools.
pub(super) fn short_fields(facts: &ShownFacts) -> Value {
    let LogSummary { summary, complete, .. } = &*facts.source;
    let consistent = summary.tools.iter().filter(|tool| tool.is_consistent);
    json!({
        "facts": facts.lines,
        "tools": consistent.map(count_fields).collect::<Vec<_>>(),
        "errors": summary.errors.count,
        "warnings": summary.warnings.count,
        "complete": complete,
    })
}

/// Returns the structured form of a whole summary, with at most `listed` entries in each list.
pub(crate) fn summary_fields(log: &LogSummary, listed: usize) -> Value {
    let LogSummary { summary, scanned_bytes, complete, .. } = log;
    json!({
        "lines": summary.lines,
        "tools": summary.tools.iter().map(|tool| tool_fields(tool, listed)).collect::<Vec<_>>(),
        "traces": summary.traces.iter().take(listed).map(failure_fields).collect::<Vec<_>>(),
        "errors": summary.errors.count,
        "error_lines": group_fields(&summary.errors.kinds, listed),
        "warnings": summary.warnings.count,
        "warning_lines": group_fields(&summary.warnings.kinds, listed),
        "groups": group_fields(&summary.groups.groups, listed),
        "rare_lines": summary.groups.rare.iter().take(listed).map(|line| {
            json!({"line": line.number, "text": line.text})
        }).collect::<Vec<_>>(),
        "scanned_bytes": scanned_bytes,
        "complete": complete,
    })
}

fn count_fields(tool: &ToolReport) -> Value {
    let mut fields = Map::new();
    fields.insert("tool".into(), tool.tool.into());
    let Counts { passed, failed, skipped, errors, warnings } = tool.counts;
    for (name, number) in [
        ("passed", passed),
        ("failed", failed),
        ("skipped", skipped),
        ("errors", errors),
        ("warnings", warnings),
    ] {
        if let Some(number) = number {
            fields.insert(name.into(), number.into());
        }
    }
    if let Some(result) = &tool.result {
        fields.insert("result".into(), result.as_str().into());
    }
    Value::Object(fields)
}

fn tool_fields(tool: &ToolReport, listed: usize) -> Value {
    let mut fields = count_fields(tool);
    fields["line"] = tool.line.into();
    fields["consistent"] = tool.is_consistent.into();
    for (name, failures) in [("failures", &tool.failures), ("warning_list", &tool.warnings)] {
        if !failures.is_empty() && listed > 0 {
            fields[name] = failures.iter().take(listed).map(failure_fields).collect();
        }
    }
    fields
}

fn failure_fields(failure: &Failure) -> Value {
    let mut fields = Map::new();
    for (name, text) in
        [("file", &failure.file), ("name", &failure.name), ("message", &failure.message)]
    {
        if let Some(text) = text {
            fields.insert(name.into(), text.as_str().into());
        }
    }
    for (name, number) in [("line", failure.line), ("column", failure.column)] {
        if let Some(number) = number {
            fields.insert(name.into(), number.into());
        }
    }
    if !failure.frames.is_empty() {
        fields.insert("frames".into(), failure.frames.clone().into());
    }
    fields.insert("log_line".into(), failure.log_line.into());
    Value::Object(fields)
}

fn group_fields(groups: &[LineGroup], listed: usize) -> Value {
    let group = |group: &LineGroup| {
        json!({
            "count": group.count,
            "line": group.first.number,
            "text": group.first.text,
            "last_line": group.last.number,
        })
    };
    groups.iter().take(listed).map(group).collect()
}

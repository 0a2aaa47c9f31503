//! The part of a job's output that one reply shows: excerpts and pages as text, base64, a hexdump or a
//! screen, the marks for what is left out, and the facts of output that is not shown.

use std::io;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::format::{count, size};
use crate::output::excerpt::{Budget, HiddenPart};
use crate::output::summary::{Counts, Failure, LineGroup, Summary, ToolReport};
use crate::output::views::Charset;
use crate::output::{
    BlockingReader, LogPage, LogSummary, PageEnd, PageRequest, SummaryRequest, summarize, views,
};
use crate::spec::Stream;
use crate::telemetry::events;

/// The part of a job's output that is in one reply, already as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownOutput {
    /// The shown text, including the marks for what is left out.
    pub(crate) text: String,
    /// The facts of the output that is not shown.
    pub(crate) facts: Option<ShownFacts>,
    /// The ranges of lines shown; empty if nothing was cut.
    pub(crate) spans: Vec<LineSpan>,
    /// The cut in the middle, if there is one.
    pub(crate) cut: Option<OutputCut>,
    /// The offset of the first byte shown.
    pub(crate) start: u64,
    /// The offset at which a reader who wants every byte continues: the bytes from `start` to here
    /// are shown without a gap.
    pub(crate) end: u64,
    /// The state of the log at `end`: more output, none yet, or none ever.
    pub(crate) end_kind: PageEnd,
    /// Requested bytes that are no longer kept.
    pub(crate) gap_bytes: u64,
    /// Bytes that were not valid text and were replaced.
    pub(crate) bad_bytes: u64,
    /// The encoding of `text`.
    pub(crate) form: OutputEncoding,
    /// The stream, if the caller asked for only one.
    pub(crate) stream: Option<Stream>,
}

/// Bytes of a job's output that a reader has seen; of one stream alone, if only that was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenRanges {
    pub(crate) stream: Option<Stream>,
    pub(crate) ranges: Vec<Range<u64>>,
}

/// A cut in the middle of the shown output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputCut {
    /// The length of the text before the cut, which stands for the bytes from `start` to `end`.
    pub(crate) head: usize,
    /// The index in the text at which the tail begins.
    pub(crate) tail: usize,
    /// The bytes of the log that the tail stands for.
    pub(crate) tail_bytes: Range<u64>,
    /// The number of the first line that is left out or not shown whole.
    pub(crate) first_hidden: u64,
}

/// A range of lines from `first` to `last`, counted from 1, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineSpan {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Bytes of the first line before the shown ones.
    pub(crate) skipped_bytes: u64,
}

impl LineSpan {
    /// Formats the range: `7`, `7-9`, or `7 without its first 3 KB`.
    fn text(self) -> String {
        let Self { first, last, skipped_bytes } = self;
        let lines = if first == last { first.to_string() } else { format!("{first}-{last}") };
        match (skipped_bytes, first == last) {
            (0, _) => lines,
            (skipped, true) => format!("{lines} without its first {}", size(skipped)),
            (skipped, false) => {
                format!("{lines}, line {first} without its first {}", size(skipped))
            }
        }
    }
}

/// The encoding of shown output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutputEncoding {
    Text,
    /// Text, decoded from a character set other than UTF-8.
    Decoded {
        charset: String,
    },
    /// Base64 of the bytes as they were written.
    Base64,
    /// A hexdump of the bytes as they were written.
    Hexdump,
    /// The rows that a terminal shows.
    Screen,
    /// A description of binary data.
    Binary {
        mime: String,
    },
}

impl ShownOutput {
    /// `true` if this is the end of the shown text.
    pub(crate) fn ends_with(&self, text: &str) -> bool {
        self.text.trim_end().ends_with(text)
    }

    /// The body of a reply: the facts, then the text.
    pub(crate) fn body(&self) -> String {
        let mut body = self.facts.as_ref().map(ShownFacts::text).unwrap_or_default();
        if !body.is_empty() && !self.text.is_empty() {
            body.push_str("last lines:\n");
        }
        body + &self.text
    }

    /// `true` if the body of the reply is this output and nothing else.
    pub(crate) const fn is_all_output(&self) -> bool {
        self.facts.is_none() && self.cut.is_none()
    }

    /// The name of the field that holds this output in the structured form.
    pub(crate) const fn field(&self) -> &'static str {
        match self.stream {
            None => "output",
            Some(Stream::Stdout) => "stdout",
            Some(Stream::Stderr) => "stderr",
        }
    }

    /// `true` if the text encodes the exact bytes, as base64 or a hexdump.
    pub(crate) const fn is_encoded(&self) -> bool {
        match self.form {
            OutputEncoding::Base64 | OutputEncoding::Hexdump => true,
            OutputEncoding::Text
            | OutputEncoding::Decoded { .. }
            | OutputEncoding::Screen
            | OutputEncoding::Binary { .. } => false,
        }
    }

    /// The bytes that the reader has now seen.
    pub(crate) fn seen_ranges(&self) -> SeenRanges {
        let tail = self.cut.as_ref().map(|cut| cut.tail_bytes.clone());
        let ranges = std::iter::once(self.start..self.end).chain(tail).collect();
        SeenRanges { stream: self.stream, ranges }
    }

    /// `true` if the caller has already seen all the output there is.
    pub(crate) const fn has_nothing_new(&self) -> bool {
        self.start == self.end && self.start > 0 && self.cut.is_none()
    }

    /// `true` if output is left out to keep the reply short.
    pub(crate) const fn is_cut(&self) -> bool {
        !self.spans.is_empty() || self.facts.is_some()
    }

    /// The text that stands for the bytes from `start` to `end`.
    pub(crate) fn head(&self) -> &str {
        self.cut.as_ref().map_or(&self.text, |cut| &self.text[..cut.head])
    }

    /// Like [`ShownOutput::head`], without a copy.
    pub(crate) fn into_head(self) -> String {
        let mut text = self.text;
        text.truncate(self.cut.map_or(usize::MAX, |cut| cut.head));
        text
    }

    /// `true` if the text only describes binary data.
    pub(crate) const fn is_binary(&self) -> bool {
        matches!(self.form, OutputEncoding::Binary { .. })
    }

    /// Formats the shown ranges, as `showing 1-15 and 1033-1138`; `None` if nothing was cut, or if
    /// the reply shows facts instead.
    pub(crate) fn spans_text(&self) -> Option<String> {
        if self.facts.is_some() {
            return None;
        }
        let spans: Vec<String> = self.spans.iter().map(|span| span.text()).collect();
        (!spans.is_empty()).then(|| format!("showing {}", spans.join(" and ")))
    }
}

/// Formats the mark of a hidden part: `[… lines 16-1032 hidden]`.
pub(super) fn mark(hidden: &HiddenPart) -> String {
    format!("[… {}]\n", hidden_range(hidden))
}

/// Formats the hidden range, as `lines 16-1032 hidden (16 in part)`.
fn hidden_range(hidden: &HiddenPart) -> String {
    let HiddenPart { first_line, last_line, .. } = hidden;
    let (what, in_part) = if first_line == last_line {
        (format!("{} of line {first_line}", size(hidden.bytes)), String::new())
    } else {
        (format!("lines {first_line}-{last_line}"), in_part(&hidden.in_part))
    };
    match hidden.missing_bytes {
        0 => format!("{what} hidden{in_part}"),
        missing => format!("{what} hidden{in_part}, {} of it not kept", size(missing)),
    }
}

fn in_part(lines: &[u64]) -> String {
    match lines {
        [] => String::new(),
        [line] => format!(" ({line} in part)"),
        [first, .., last] => format!(" ({first} and {last} in part)"),
    }
}

/// Bytes of binary data in a hexdump; fewer if there is less room. A byte takes about five in a
/// hexdump.
const HEXDUMP_BYTES: RangeInclusive<usize> = 32..=256;
const ROOM_PER_HEXDUMP_BYTE: usize = 8;

/// The rows of a job's terminal.
pub(super) const SCREEN_ROWS: usize = 40;

/// Bytes that are played on a screen. Most programs redraw it with far fewer.
const SCREEN_BYTES: u64 = 256 * 1024;

pub(super) fn read_screen(
    log: &BlockingReader,
    stream: Option<Stream>,
    budget: Budget,
) -> io::Result<ShownOutput> {
    let charset = log.charset()?;
    let total = log.progress().total_bytes;
    let from = charset.aligned(total.saturating_sub(SCREEN_BYTES));
    let request =
        PageRequest { from, to: u64::MAX, stream, max_bytes: SCREEN_BYTES as usize, max_lines: 0 };
    let page = log.read_page_in(&request, charset)?;
    let located = locate_page(log, &request, &page)?;
    let options = views::ViewOptions {
        ansi: views::Ansi::Strip,
        fold: views::Fold::Off,
        long: views::LongLines::Cut,
    };
    let text = views::render_text_in(page.bytes, charset, options).text;
    let rows: Vec<&str> = text.split_inclusive('\n').collect();
    let fitting = fit_last_rows(&rows, budget);
    Ok(ShownOutput {
        text: fitting.concat(),
        spans: Vec::new(),
        form: OutputEncoding::Screen,
        ..located
    })
}

/// Returns the last rows that fit the budget, at most those of a screen.
fn fit_last_rows<'a, 'b>(rows: &'a [&'b str], budget: Budget) -> &'a [&'b str] {
    let most = SCREEN_ROWS.min(budget.max_lines);
    let mut room = budget.max_bytes;
    let fits = |row: &&&str| {
        let cost = (budget.cost)(row);
        let fits = cost <= room;
        room = room.saturating_sub(cost);
        fits
    };
    let kept = rows.iter().rev().take(most).take_while(fits).count();
    &rows[rows.len() - kept..]
}

/// Returns how many bytes of a line come before `start`, which is in that line; 0 if some of them
/// are missing, because the reply reports gaps separately.
pub(super) fn skipped_bytes(log: &BlockingReader, line: u64, start: u64) -> io::Result<u64> {
    let line_start = log.offset_of_line(line)?.unwrap_or(start).min(start);
    let is_whole = log.missing_bytes(line_start..start) == 0;
    Ok(if is_whole { start - line_start } else { 0 })
}

/// Returns the encoding: plain text, or text decoded from another character set.
pub(super) fn text_form(charset: Charset) -> OutputEncoding {
    charset.name().map_or(OutputEncoding::Text, |charset| OutputEncoding::Decoded { charset })
}

pub(super) fn read_base64(log: &BlockingReader, request: &PageRequest) -> io::Result<ShownOutput> {
    let page = log.read_page(request)?;
    let text = STANDARD.encode(&page.bytes);
    Ok(ShownOutput { text, form: OutputEncoding::Base64, ..locate_page(log, request, &page)? })
}

pub(super) fn read_hexdump(log: &BlockingReader, request: &PageRequest) -> io::Result<ShownOutput> {
    let page = log.read_page(request)?;
    let text = views::hexdump_extents(&log.read_extents(request, &page)?);
    Ok(ShownOutput { text, form: OutputEncoding::Hexdump, ..locate_page(log, request, &page)? })
}

pub(super) fn read_text_page(
    log: &BlockingReader,
    request: &PageRequest,
) -> io::Result<ShownOutput> {
    let charset = log.charset()?;
    let request = &PageRequest { from: charset.aligned(request.from), ..*request };
    let page = log.read_page_in(request, charset)?;
    if views::is_binary_in(&page.bytes, charset) {
        return describe_binary(log, request, &page, request.max_bytes);
    }
    let options = views::ViewOptions { long: views::LongLines::KeepFirst, ..Default::default() };
    let located = locate_page(log, request, &page)?;
    let text = views::render_text_in(page.bytes, charset, options);
    let bad_bytes = text.bad_bytes as u64;
    let form = text_form(charset);
    Ok(ShownOutput { text: text.text, bad_bytes, form, ..located })
}

/// Returns the position of a page; the caller fills in the text.
fn locate_page(
    log: &BlockingReader,
    request: &PageRequest,
    page: &LogPage,
) -> io::Result<ShownOutput> {
    let is_whole = page.start == 0 && page.end >= page.total_bytes;
    let spans = if is_whole || page.bytes.is_empty() {
        Vec::new()
    } else {
        let first = log.line_at(page.start)?;
        let last = log.line_at(page.end - 1)?;
        vec![LineSpan { first, last, skipped_bytes: skipped_bytes(log, first, page.start)? }]
    };
    Ok(ShownOutput {
        text: String::new(),
        facts: None,
        spans,
        cut: None,
        start: page.start,
        end: page.end,
        end_kind: page.end_kind,
        gap_bytes: page.gap_bytes,
        bad_bytes: 0,
        form: OutputEncoding::Text,
        stream: request.stream,
    })
}

/// Describes a binary page. The description stands for all of its bytes, so that a reader who
/// follows the cursor makes progress.
pub(super) fn describe_binary(
    log: &BlockingReader,
    request: &PageRequest,
    page: &LogPage,
    room: usize,
) -> io::Result<ShownOutput> {
    let mime = views::mime(&page.bytes).to_owned();
    let amount = size(page.total_bytes.saturating_sub(page.start));
    let dumped = (room / ROOM_PER_HEXDUMP_BYTE).clamp(*HEXDUMP_BYTES.start(), *HEXDUMP_BYTES.end());
    let dump = views::hexdump(&page.bytes[..page.bytes.len().min(dumped)]);
    Ok(ShownOutput {
        text: format!("[binary output: {mime}, {amount}]\n{dump}"),
        // Lines have no meaning in binary data.
        spans: Vec::new(),
        form: OutputEncoding::Binary { mime },
        ..locate_page(log, request, page)?
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_lines_are_named() {
        let hidden = || HiddenPart {
            first_line: 16,
            last_line: 1032,
            in_part: Vec::new(),
            bytes: 30_000,
            missing_bytes: 0,
        };
        assert_eq!(mark(&hidden()), "[… lines 16-1032 hidden]\n");
        let one_line = HiddenPart { last_line: 16, ..hidden() };
        assert_eq!(mark(&one_line), "[… 30 KB of line 16 hidden]\n");
        let holed = HiddenPart { missing_bytes: 20_000, ..hidden() };
        assert_eq!(mark(&holed), "[… lines 16-1032 hidden, 20 KB of it not kept]\n");
        let begun = HiddenPart { in_part: vec![16, 1032], ..hidden() };
        assert_eq!(mark(&begun), "[… lines 16-1032 hidden (16 and 1032 in part)]\n");
    }
}

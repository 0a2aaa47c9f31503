//! The body of an answer: which part of a job's output is shown, and as what.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::error::ToolError;
use super::shown::{Form, Shown, Span};
use super::words::{count, size};
use crate::mcp::snapshot::{Snapshot, State};
use crate::outcome::Outcome;
use crate::output::excerpt::{Budget, Excerpt, Hidden, excerpt, tail};
use crate::output::{LogReader, Page, PageEnd, PageRequest, view};

/// A log up to this size is read where we are; more than that could keep others waiting.
const READ_HERE: u64 = 256 * 1024;

/// What decides whether output is text.
const SNIFFED_BYTES: usize = 8 * 1024;

/// What an answer about a job shows: of one that ended all, or head and tail; of one that
/// runs the tail; of one that never ran nothing.
pub(crate) async fn show(
    job: &Snapshot,
    log: &LogReader,
    max_bytes: usize,
) -> Result<Option<Shown>, ToolError> {
    let budget = Budget { max_bytes, max_lines: 0 };
    let shown = match &job.state {
        State::Queued(_) => return Ok(None),
        State::Finished(ending) if matches!(ending.outcome, Outcome::FailedToStart(_)) => {
            return Ok(None);
        }
        State::Running(_) | State::Stopping => {
            read(job, log, move |log| shown_excerpt(log, tail(log, budget)?)).await?
        }
        State::Finished(_) => {
            read(job, log, move |log| shown_excerpt(log, excerpt(log, 0, budget)?)).await?
        }
    };
    Ok(Some(shown))
}

/// What a job wrote from `from` on: all, or head and tail.
pub(crate) async fn show_from(
    job: &Snapshot,
    log: &LogReader,
    from: u64,
    max_bytes: usize,
) -> Result<Shown, ToolError> {
    let budget = Budget { max_bytes, max_lines: 0 };
    read(job, log, move |log| shown_excerpt(log, excerpt(log, from, budget)?)).await
}

/// One page, as text.
pub(crate) async fn show_page(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
) -> Result<Shown, ToolError> {
    read(job, log, move |log| shown_page(log, &request)).await
}

/// One page, as base64 of the bytes as they were written.
pub(crate) async fn show_raw(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
) -> Result<Shown, ToolError> {
    read(job, log, move |log| {
        let page = log.page(&request)?;
        let text = STANDARD.encode(&page.bytes);
        Ok(Shown { text, form: Form::Base64, ..placed(log, &request, &page)? })
    })
    .await
}

/// Reads a log, away from the runtime's threads where it is large.
pub(super) async fn read<T: Send + 'static>(
    job: &Snapshot,
    log: &LogReader,
    look: impl FnOnce(&LogReader) -> io::Result<T> + Send + 'static,
) -> Result<T, ToolError> {
    let result = if log.progress().total_bytes <= READ_HERE {
        look(log)
    } else {
        let log = log.clone();
        tokio::task::spawn_blocking(move || look(&log))
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    };
    result.map_err(|source| ToolError::Read { job: job.job, source })
}

fn shown_excerpt(log: &LogReader, excerpt: Excerpt) -> io::Result<Shown> {
    if let Some(binary) = binary(log, excerpt.from)? {
        return Ok(binary);
    }
    let is_whole = excerpt.from == 0 && excerpt.hidden.is_none();
    let spans = |section: &crate::output::excerpt::Section| Span {
        first: section.first_line,
        last: section.last_line,
    };
    let (end, end_kind) = match (&excerpt.hidden, excerpt.sections.first()) {
        (Some(_), Some(head)) => (head.end, PageEnd::More),
        (Some(_), None) => (excerpt.from, PageEnd::More),
        (None, _) => (excerpt.end, end_of(log, excerpt.end)),
    };
    Ok(Shown {
        text: joined(&excerpt),
        spans: if is_whole { Vec::new() } else { excerpt.sections.iter().map(spans).collect() },
        first_hidden: excerpt.hidden.as_ref().map(|hidden| hidden.first_line),
        start: excerpt.from,
        end,
        end_kind,
        gap_bytes: 0,
        bad_bytes: excerpt.sections.iter().map(|section| section.bad_bytes as u64).sum(),
        form: Form::Text,
        stream: None,
    })
}

fn end_of(log: &LogReader, end: u64) -> PageEnd {
    let progress = log.progress();
    if progress.closed && end >= progress.total_bytes {
        PageEnd::Complete
    } else {
        PageEnd::CaughtUp
    }
}

/// The sections, with what is hidden named where it lies.
fn joined(excerpt: &Excerpt) -> String {
    let mark = excerpt.hidden.as_ref().map(mark).unwrap_or_default();
    match excerpt.sections.as_slice() {
        [] => mark,
        [only] => mark + &only.text,
        [head, tails @ ..] => {
            let mut text = head.text.clone();
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&mark);
            text.extend(tails.iter().map(|section| section.text.as_str()));
            text
        }
    }
}

/// `[… lines 16-1032 hidden; 75 look like errors:`, those lines, and `]`.
fn mark(hidden: &Hidden) -> String {
    let what = if hidden.first_line == hidden.last_line {
        format!("{} of line {}", size(hidden.bytes), hidden.first_line)
    } else {
        format!("lines {}-{}", hidden.first_line, hidden.last_line)
    };
    if hidden.errors_count == 0 {
        return format!("[… {what} hidden]\n");
    }
    let many = if hidden.scanned_all { "" } else { "at least " };
    let verb = if hidden.errors_count == 1 { "looks like an error" } else { "look like errors" };
    let mut text = format!("[… {what} hidden; {many}{} {verb}:\n", hidden.errors_count);
    let skipped = hidden.errors_count - hidden.errors.len() as u64;
    for (index, error) in hidden.errors.iter().enumerate() {
        if skipped > 0 && index == hidden.errors.len() / 2 {
            text.push_str(&format!("  … {} more\n", skipped));
        }
        text.push_str(&format!("  {}: {}\n", error.line, error.text));
    }
    text + "]\n"
}

fn shown_page(log: &LogReader, request: &PageRequest) -> io::Result<Shown> {
    let page = log.page(request)?;
    if view::is_binary(&page.bytes) {
        return Ok(described(log, page.start, &page.bytes));
    }
    let text = view::text(&page.bytes, view::ViewOptions::default());
    let bad_bytes = text.bad_bytes as u64;
    Ok(Shown { text: text.text, bad_bytes, ..placed(log, request, &page)? })
}

/// Where a page lies; its text is still to come.
fn placed(log: &LogReader, request: &PageRequest, page: &Page) -> io::Result<Shown> {
    let is_whole = page.start == 0 && page.end >= page.total_bytes;
    let spans = if is_whole || page.bytes.is_empty() {
        Vec::new()
    } else {
        vec![Span { first: log.line_at(page.start)?, last: log.line_at(page.end - 1)? }]
    };
    Ok(Shown {
        text: String::new(),
        spans,
        first_hidden: None,
        start: page.start,
        end: page.end,
        end_kind: page.end_kind,
        gap_bytes: page.gap_bytes,
        bad_bytes: 0,
        form: Form::Text,
        stream: request.stream,
    })
}

/// A description instead, where the output from `from` on is no text.
fn binary(log: &LogReader, from: u64) -> io::Result<Option<Shown>> {
    let request = PageRequest { from, stream: None, max_bytes: SNIFFED_BYTES, max_lines: 0 };
    let page = log.page(&request)?;
    Ok(view::is_binary(&page.bytes).then(|| described(log, from, &page.bytes)))
}

/// Nothing of it counts as read: a reader who goes on gets every byte.
fn described(log: &LogReader, from: u64, bytes: &[u8]) -> Shown {
    let mime = view::mime(bytes).to_owned();
    let amount = size(log.progress().total_bytes.saturating_sub(from));
    Shown {
        text: format!("[binary output: {mime}, {amount}]\n{}", view::hexdump(bytes)),
        spans: Vec::new(),
        first_hidden: None,
        start: from,
        end: from,
        end_kind: PageEnd::More,
        gap_bytes: 0,
        bad_bytes: 0,
        form: Form::Binary { mime },
        stream: None,
    }
}

/// Said instead of an empty page that lies beyond the end.
pub(crate) fn beyond_end(job: &Snapshot, from: u64) -> Option<String> {
    let total = job.output.total_bytes;
    let lines = count(job.lines(), "line", "lines");
    (from > total).then(|| {
        format!(
            "nothing at bytes:{from}: the output of job {} ends at bytes:{total} ({lines})",
            job.job
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::excerpt::ErrorLine;
    use crate::output::{LogSettings, open};
    use crate::spec::Stream;

    fn hidden(errors_count: u64, listed: &[u64]) -> Hidden {
        let error = |line: &u64| ErrorLine { line: *line, text: "AssertionError: no".to_owned() };
        Hidden {
            first_line: 16,
            last_line: 1032,
            bytes: 30_000,
            errors_count,
            errors: listed.iter().map(error).collect(),
            scanned_all: true,
        }
    }

    #[test]
    fn what_is_hidden_is_named_with_the_errors_in_it() {
        assert_eq!(mark(&hidden(0, &[])), "[… lines 16-1032 hidden]\n");
        assert_eq!(
            mark(&hidden(1, &[22])),
            "[… lines 16-1032 hidden; 1 looks like an error:\n  22: AssertionError: no\n]\n"
        );
        let some = mark(&hidden(75, &[22, 900]));
        assert!(
            some.starts_with("[… lines 16-1032 hidden; 75 look like errors:\n  22: "),
            "{some}"
        );
        assert!(some.contains("\n  … 73 more\n  900: "), "{some}");
        let one_line = Hidden { last_line: 16, ..hidden(0, &[]) };
        assert_eq!(mark(&one_line), "[… 30 KB of line 16 hidden]\n");
        let unsure = Hidden { scanned_all: false, ..hidden(2, &[20, 21]) };
        assert!(mark(&unsure).contains("hidden; at least 2 look like errors"));
    }

    fn log_of(bytes: &[u8]) -> LogReader {
        let (mut writer, reader) =
            open(&LogSettings { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir() });
        writer.append(Stream::Stdout, bytes);
        writer.close();
        reader
    }

    fn shown_of(log: &LogReader, max_bytes: usize) -> Shown {
        let budget = Budget { max_bytes, max_lines: 0 };
        shown_excerpt(log, excerpt(log, 0, budget).unwrap()).unwrap()
    }

    #[test]
    fn a_reader_who_follows_the_cursor_misses_no_byte() {
        let text: String = (1..=1000).map(|line| format!("line {line}\n")).collect();
        let log = log_of(text.as_bytes());
        let whole = shown_of(&log, 1 << 20);
        assert_eq!((whole.text.as_str(), whole.end_kind), (text.as_str(), PageEnd::Complete));
        assert!(!whole.is_cut());
        let cut = shown_of(&log, 500);
        assert!(cut.is_cut() && cut.spans.len() == 2, "{cut:?}");
        assert_eq!(cut.end_kind, PageEnd::More);
        let end = usize::try_from(cut.end).unwrap();
        assert!(cut.text.starts_with(&text[..end]), "the bytes before the cursor are all shown");
        assert_eq!(cut.first_hidden, Some(cut.spans[0].last + 1));
    }

    #[test]
    fn bytes_that_are_no_text_are_described_and_none_counts_as_read() {
        let shown = shown_of(&log_of(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe"), 1 << 20);
        assert_eq!(shown.form, Form::Binary { mime: "image/png".to_owned() });
        assert_eq!((shown.start, shown.end, shown.end_kind), (0, 0, PageEnd::More));
        assert!(shown.text.starts_with("[binary output: image/png, 18 bytes]\n00000000  89 50"));
    }
}

//! Reads the part of a job's output that a reply shows: all, head and tail, a page, or a digest.

use std::io;
use std::ops::RangeInclusive;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::body::{Cut, Form, Shown, Span};
use super::body::{list_what_fits, mark};
use super::digest::{COUNTS, DETAILS, Detail, fields, in_short, short_fields, told};
use super::error::ToolError;
use super::format::{count, size, thousands};
use super::structured;
use super::tool_reply::{Answer, Fit};
use super::verdict::verdict;
use crate::mcp::settings::ResultFormat;
use crate::mcp::snapshot::{Snapshot, State};
use crate::outcome::Outcome;
use crate::output::digest::{Digest, DigestLimits, DigestRequest, digest};
use crate::output::excerpt::{Budget, Excerpt, Section, excerpt, tail};
use crate::output::views::Charset;
use crate::output::{BlockingReader, LogPage, LogReader, PageEnd, PageRequest, views};

/// Where a caller wanted to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this offset, which may lie beyond the end.
    Offset(u64),
    /// At a line of which no byte is there.
    NoSuchLine(u64),
}

/// What decides whether output is text.
const SNIFFED_BYTES: usize = 8 * 1024;

/// How much of bytes that are no text is shown: so much, but less where there is less room. A byte
/// takes about five in a hexdump.
const DUMPED_BYTES: RangeInclusive<usize> = 32..=256;
const ROOM_OF_DUMPED: usize = 8;

/// Where output is cut, so much of the room is kept for the error lines inside the cut …
const ERRORS_BYTES: usize = 2560;
/// … but at most one part of so many.
const ERRORS_SHARE: usize = 4;

/// What an answer about a job shows: of one that ended all, or head and tail; of one that
/// runs the tail; of one that never ran nothing.
pub(crate) async fn show(
    job: &Snapshot,
    log: &LogReader,
    budget: Budget,
) -> Result<Option<Shown>, ToolError> {
    let shown = match &job.state {
        State::Queued(_) => return Ok(None),
        State::Finished(ending) if matches!(ending.outcome, Outcome::FailedToStart(_)) => {
            return Ok(None);
        }
        State::Running(_) | State::Stopping => {
            read(job, log, move |log| last_lines(log, budget)).await?
        }
        State::Finished(_) => read(job, log, move |log| from_offset(log, 0, budget)).await?,
    };
    Ok(Some(shown))
}

/// What a job wrote from `from` on: all, or head and tail.
pub(crate) async fn show_from(
    job: &Snapshot,
    log: &LogReader,
    from: u64,
    budget: Budget,
) -> Result<Shown, ToolError> {
    read(job, log, move |log| from_offset(log, from, budget)).await
}

/// All, or head and tail with room for the errors between them.
pub(super) fn from_offset(log: &BlockingReader, from: u64, budget: Budget) -> io::Result<Shown> {
    shown_excerpt(log, excerpt(log, from, beside_errors(log, from, budget))?, budget)
}

/// The last lines, with room for the errors before them.
fn last_lines(log: &BlockingReader, budget: Budget) -> io::Result<Shown> {
    shown_excerpt(log, tail(log, beside_errors(log, 0, budget))?, budget)
}

/// What is left of the budget for output from `from` on, where it is cut.
fn beside_errors(log: &BlockingReader, from: u64, budget: Budget) -> Budget {
    let left = log.progress().total_bytes.saturating_sub(from);
    let is_cut = left > budget.max_bytes as u64;
    let kept = if is_cut { ERRORS_BYTES.min(budget.max_bytes / ERRORS_SHARE) } else { 0 };
    Budget { max_bytes: budget.max_bytes - kept, ..budget }
}

/// One page, as text.
pub(crate) async fn show_page(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
) -> Result<Shown, ToolError> {
    read_page(job, log, request, shown_page).await
}

/// One page, as base64 of the bytes as they were written.
pub(crate) async fn show_raw(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
) -> Result<Shown, ToolError> {
    read_page(job, log, request, shown_raw).await
}

/// One page, as a hexdump of the bytes as they were written.
pub(crate) async fn show_dump(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
) -> Result<Shown, ToolError> {
    read_page(job, log, request, shown_dump).await
}

fn shown_excerpt(log: &BlockingReader, mut excerpt: Excerpt, budget: Budget) -> io::Result<Shown> {
    if let Some(binary) = binary(log, &excerpt, budget)? {
        return Ok(binary);
    }
    for hidden in [&mut excerpt.hidden, &mut excerpt.before].into_iter().flatten() {
        list_what_fits(hidden, room_for_errors(budget), budget.cost);
    }
    let is_whole = excerpt.from == 0 && excerpt.hidden.is_none();
    let span = |section: &Section| span(log, &excerpt, section);
    let sections = if is_whole { [].iter() } else { excerpt.sections.iter() };
    let spans = sections.map(span).collect::<io::Result<_>>()?;
    let bad_bytes = excerpt.sections.iter().map(|section| section.bad_bytes as u64).sum();
    let (text, cut) = joined(&excerpt);
    let (end, end_kind) = match cut {
        Some(_) => (head_of(&excerpt).map_or(excerpt.from, |head| head.end), PageEnd::More),
        None => (excerpt.end, end_of(log, excerpt.end)),
    };
    Ok(Shown {
        text,
        before: excerpt.before,
        spans,
        cut,
        start: excerpt.from,
        end,
        end_kind,
        gap_bytes: excerpt.gap_bytes,
        bad_bytes,
        form: text_form(excerpt.charset),
        stream: None,
    })
}

/// The lines of a section. A tail behind a hidden part needs no count of what it skips: the mark
/// between them has it.
fn span(log: &BlockingReader, excerpt: &Excerpt, section: &Section) -> io::Result<Span> {
    let Section { first_line: first, last_line: last, start, .. } = *section;
    let skipped_bytes = if start == excerpt.from { skipped_bytes(log, first, start)? } else { 0 };
    Ok(Span { first, last, skipped_bytes })
}

/// How many bytes of a line come before `start`, which is in that line. None where they are not
/// all there: a gap is told by its own words.
fn skipped_bytes(log: &BlockingReader, line: u64, start: u64) -> io::Result<u64> {
    let line_start = log.offset_of_line(line)?.unwrap_or(start).min(start);
    let is_whole = log.missing_bytes(line_start..start) == 0;
    Ok(if is_whole { start - line_start } else { 0 })
}

/// Plain text, or text with the name of what it was decoded from.
fn text_form(charset: Charset) -> Form {
    charset.name().map_or(Form::Text, |charset| Form::Decoded { charset })
}

/// What error lines may take where output is cut.
fn room_for_errors(budget: Budget) -> usize {
    ERRORS_BYTES.max(budget.max_bytes / ERRORS_SHARE).min(budget.max_bytes / 2)
}

/// The section before the hidden part; where there is no room for one, the only one is the tail.
fn head_of(excerpt: &Excerpt) -> Option<&Section> {
    excerpt.sections.first().filter(|section| section.start == excerpt.from)
}

fn end_of(log: &BlockingReader, end: u64) -> PageEnd {
    let progress = log.progress();
    if progress.closed && end >= progress.total_bytes {
        PageEnd::Complete
    } else {
        PageEnd::CaughtUp
    }
}

/// The sections, with what is hidden named where it lies. A tail that nothing is hidden before
/// has lines that are cut: its first line is where to read on.
fn joined(excerpt: &Excerpt) -> (String, Option<Cut>) {
    let head = head_of(excerpt);
    let tail = excerpt.sections.get(usize::from(head.is_some()));
    let mut text = head.map(|head| head.text.clone()).unwrap_or_default();
    let head = text.len();
    let hidden = excerpt.hidden.as_ref();
    let Some(first_hidden) =
        hidden.map(|hidden| hidden.first_line).or(tail.map(|tail| tail.first_line))
    else {
        return (text, None);
    };
    if let Some(hidden) = hidden {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&mark(hidden));
    }
    let cut = Cut {
        head,
        tail: text.len(),
        tail_start: tail.map_or(excerpt.end, |tail| tail.start),
        first_hidden,
        errors_count: hidden.map_or(0, |hidden| hidden.errors_count),
        errors: hidden.map(|hidden| hidden.errors.clone()).unwrap_or_default(),
        digest: hidden.map(|hidden| hidden.digest.clone()),
    };
    text.extend(tail.map(|tail| tail.text.as_str()));
    (text, Some(cut))
}

pub(super) fn shown_raw(log: &BlockingReader, request: &PageRequest) -> io::Result<Shown> {
    let page = log.read_page(request)?;
    let text = STANDARD.encode(&page.bytes);
    Ok(Shown { text, form: Form::Base64, ..placed(log, request, &page)? })
}

pub(super) fn shown_dump(log: &BlockingReader, request: &PageRequest) -> io::Result<Shown> {
    let page = log.read_page(request)?;
    let text = views::hexdump_extents(&log.read_extents(request, &page)?);
    Ok(Shown { text, form: Form::Hexdump, ..placed(log, request, &page)? })
}

pub(super) fn shown_page(log: &BlockingReader, request: &PageRequest) -> io::Result<Shown> {
    let charset = log.charset()?;
    let request = &PageRequest { from: charset.aligned(request.from), ..*request };
    let page = log.read_page_in(request, charset)?;
    if views::is_binary_in(&page.bytes, charset) {
        return described(log, request, &page, request.max_bytes);
    }
    let options = views::ViewOptions { long: views::LongLines::KeepFirst, ..Default::default() };
    let placed = placed(log, request, &page)?;
    let text = views::render_text_in(page.bytes, charset, options);
    let bad_bytes = text.bad_bytes as u64;
    let form = text_form(charset);
    Ok(Shown { text: text.text, bad_bytes, form, ..placed })
}

/// Where a page lies; its text is still to come.
fn placed(log: &BlockingReader, request: &PageRequest, page: &LogPage) -> io::Result<Shown> {
    let is_whole = page.start == 0 && page.end >= page.total_bytes;
    let spans = if is_whole || page.bytes.is_empty() {
        Vec::new()
    } else {
        let first = log.line_at(page.start)?;
        let last = log.line_at(page.end - 1)?;
        vec![Span { first, last, skipped_bytes: skipped_bytes(log, first, page.start)? }]
    };
    Ok(Shown {
        text: String::new(),
        before: None,
        spans,
        cut: None,
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
fn binary(log: &BlockingReader, excerpt: &Excerpt, budget: Budget) -> io::Result<Option<Shown>> {
    let request =
        PageRequest { from: excerpt.from, stream: None, max_bytes: SNIFFED_BYTES, max_lines: 0 };
    let page = log.read_page_in(&request, excerpt.charset)?;
    let is_binary = views::is_binary_in(&page.bytes, excerpt.charset);
    is_binary.then(|| described(log, &request, &page, budget.max_bytes)).transpose()
}

/// The description stands for all bytes of the page, so that a reader who goes on gets on.
fn described(
    log: &BlockingReader,
    request: &PageRequest,
    page: &LogPage,
    room: usize,
) -> io::Result<Shown> {
    let mime = views::mime(&page.bytes).to_owned();
    let amount = size(page.total_bytes.saturating_sub(page.start));
    let dumped = (room / ROOM_OF_DUMPED).clamp(*DUMPED_BYTES.start(), *DUMPED_BYTES.end());
    let dump = views::hexdump(&page.bytes[..page.bytes.len().min(dumped)]);
    Ok(Shown {
        text: format!("[binary output: {mime}, {amount}]\n{dump}"),
        // Lines mean nothing in it.
        spans: Vec::new(),
        form: Form::Binary { mime },
        ..placed(log, request, page)?
    })
}

/// Said instead of an empty page that lies beyond the end.
pub(crate) fn beyond_end(job: &Snapshot, place: Place) -> Option<String> {
    let total = job.output.total_bytes;
    let asked = match place {
        Place::Offset(offset) if offset > total => format!("bytes:{offset}"),
        Place::Offset(_) => return None,
        Place::NoSuchLine(line) => format!("line {}", thousands(line)),
    };
    let lines = count(job.lines(), "line", "lines");
    Some(format!(
        "nothing at {asked}: the output of job {} ends at bytes:{total} ({lines})",
        job.job
    ))
}

/// The memory of a read beside what it shows: blocks of the log, and what is remembered of it.
const BASE_MEMORY: usize = 2 * 1024 * 1024;
/// The memory for each byte of a page: as it was written, as text and in an answer.
const MEMORY_PER_BYTE: usize = 8;
/// A read waits for memory at most this long.
const MEMORY_WAIT: Duration = Duration::from_secs(10);

/// Reads a log, away from the runtime's threads where it is large or on the disk.
pub(super) async fn read<T: Send + 'static>(
    job: &Snapshot,
    log: &LogReader,
    read: impl FnOnce(&BlockingReader) -> io::Result<T> + Send + 'static,
) -> Result<T, ToolError> {
    read_in(job, log, BASE_MEMORY, read).await
}

/// Reads one page of it.
pub(super) async fn read_page(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
    show: fn(&BlockingReader, &PageRequest) -> io::Result<Shown>,
) -> Result<Shown, ToolError> {
    let memory = BASE_MEMORY + MEMORY_PER_BYTE * request.max_bytes;
    read_in(job, log, memory, move |log| show(log, &request)).await
}

/// Reads a log in so much memory. It stays reserved until the read is over, also where nobody waits
/// for that any more.
async fn read_in<T: Send + 'static>(
    job: &Snapshot,
    log: &LogReader,
    memory: usize,
    read: impl FnOnce(&BlockingReader) -> io::Result<T> + Send + 'static,
) -> Result<T, ToolError> {
    let memory = match log.is_cheap_to_read() {
        true => None,
        false => Some(log.reserve(memory, MEMORY_WAIT).await?),
    };
    let found = log.read_with(move |log| (read(log), memory).0).await;
    found.map_err(|source| ToolError::Read { job: job.job, source })
}

/// The text form of a digest is no longer than this.
const DIGEST_BYTES: usize = 3000;

/// What matters in a job's output, from the request's offset on: as much of it as fits. The output
/// is looked through once.
pub(crate) async fn show_digest(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
    fit: &Fit,
) -> Result<Answer, ToolError> {
    let PageRequest { from, stream, .. } = request;
    let wanted = DigestRequest { stream, from, limits: DigestLimits::default() };
    let digest = read(job, log, move |log| digest(log, &wanted)).await?;
    let room = request.max_bytes.min(DIGEST_BYTES);
    let has_room = |detail: &Detail| told(&digest, *detail).len() <= room;
    let tried = |detail: Detail| fit.try_on(answer(job, &digest, from, detail));
    let mut answers = DETAILS.into_iter().filter(has_room).map(tried);
    Ok(answers.find(|answer| fit.holds(answer)).unwrap_or_else(|| tried(COUNTS)))
}

/// What matters in all of a job's output, by a glance at it.
pub(crate) async fn glance(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
) -> Result<Digest, ToolError> {
    let wanted = DigestRequest { stream: request.stream, from: 0, limits: DigestLimits::QUICK };
    read(job, log, move |log| digest(log, &wanted)).await
}

/// The same answer, saying below what it shows what matters in all of it, if anything does.
pub(crate) fn with_glance(answer: Answer, digest: &Digest) -> Answer {
    let Some(short) = in_short(digest) else { return answer };
    let part = if digest.complete {
        format!("all {}", count(digest.lines, "line", "lines"))
    } else {
        format!("{}{}", count(digest.lines, "line", "lines"), looked_at(digest))
    };
    answer
        .with_note(&format!("[digest of {part}: {short}]"))
        .with_field("digest", short_fields(digest))
}

fn answer(job: &Snapshot, digest: &Digest, from: u64, detail: Detail) -> Answer {
    let lines = count(digest.lines, "line", "lines");
    let headline = format!("digest of {lines}{} · {}", looked_at(digest), verdict(job, None));
    let hint = digest
        .errors
        .numbers
        .first()
        .map(|line| format!("around an error: read_output(job={}, line={line})", job.job));
    let end_kind = if job.output.closed { PageEnd::Complete } else { PageEnd::CaughtUp };
    Answer::about(job, None, ResultFormat::Both)
        .with_place(structured::place_fields(from.min(digest.end), digest.end, end_kind))
        .with_verdict(headline)
        .with_body(told(digest, detail))
        .with_hint(hint)
        .with_field("digest", fields(digest, detail))
}

/// How much was looked at, where that is not all.
fn looked_at(digest: &Digest) -> String {
    if digest.complete {
        return String::new();
    }
    format!(" ({} of it looked at)", size(digest.scanned_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{LogStorage, open_log};
    use crate::spec::Stream;

    fn log_of(bytes: &[u8]) -> LogReader {
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() });
        writer.append(Stream::Stdout, bytes);
        writer.close();
        reader
    }

    fn shown_of(log: &LogReader, max_bytes: usize) -> Shown {
        let budget = Budget::of_bytes(max_bytes);
        shown_excerpt(&log.blocking(), excerpt(&log.blocking(), 0, budget).unwrap(), budget)
            .unwrap()
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
        assert_eq!(cut.head(), &text[..end], "and nothing else is in the head");
        let middle = cut.cut.unwrap();
        assert_eq!(middle.first_hidden, cut.spans[0].last + 1);
        let tail_start = usize::try_from(middle.tail_start).unwrap();
        assert_eq!(&cut.text[middle.tail..], &text[tail_start..]);
    }

    #[test]
    fn before_a_line_that_is_cut_a_reader_has_to_read_on() {
        let text = format!("one\n{}\ntwo\n", "x".repeat(3000));
        let cut = shown_of(&log_of(text.as_bytes()), 2000);
        assert!(cut.text.starts_with("one\nxxx") && cut.text.ends_with("xxx\ntwo\n"));
        assert_eq!((cut.head(), cut.end, cut.end_kind), ("one\n", 4, PageEnd::More));
        assert!(!cut.is_cut(), "each line is shown, if not whole");
        assert_eq!(cut.cut.unwrap().first_hidden, 2);
    }

    #[test]
    fn without_room_for_a_head_nothing_counts_as_read() {
        let text: String = (1..=1000).map(|line| format!("line {line}\n")).collect();
        let cut = shown_of(&log_of(text.as_bytes()), 12);
        assert_eq!((cut.head(), cut.start, cut.end), ("", 0, 0), "{cut:?}");
    }

    #[test]
    fn bytes_that_are_no_text_are_described() {
        let shown = shown_of(&log_of(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe"), 1 << 20);
        assert_eq!(shown.form, Form::Binary { mime: "image/png".to_owned() });
        assert_eq!((shown.start, shown.end, shown.end_kind), (0, 18, PageEnd::Complete));
        assert!(shown.text.starts_with("[binary output: image/png, 18 bytes]\n00000000  89 50"));
    }

    #[test]
    fn following_the_cursor_comes_to_the_end_of_any_bytes() {
        let numbers: String = (1..=5000).map(|line| format!("{line}\n")).collect();
        let mixed = [numbers.as_bytes(), &[0; 20_000], numbers.as_bytes()].concat();
        let log = log_of(&mixed);
        for stream in [None, Some(Stream::Stdout)] {
            let mut request = PageRequest { from: 0, stream, max_bytes: 4096, max_lines: 0 };
            loop {
                let page = shown_page(&log.blocking(), &request).unwrap();
                assert_eq!((page.start, page.stream), (request.from, stream));
                if page.end_kind == PageEnd::Complete {
                    assert_eq!(page.end, mixed.len() as u64);
                    break;
                }
                assert!(page.end > page.start, "{page:?}");
                request.from = page.end;
            }
        }
    }

    #[test]
    fn a_page_that_starts_with_a_long_line_shows_it_whole() {
        let long = "x".repeat(5000) + "\n";
        let log = log_of(format!("{long}short\n").as_bytes());
        let request = PageRequest { from: 0, stream: None, max_bytes: 16_384, max_lines: 0 };
        assert_eq!(shown_page(&log.blocking(), &request).unwrap().text, format!("{long}short\n"));
    }
}

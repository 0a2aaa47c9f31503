//! What matters in an output, as text.

use super::answer::Answer;
use super::budget::Fit;
use super::detail::{COUNTS, DETAILS, Detail};
use super::digest_fields::{fields, short_fields};
use super::error::ToolError;
use super::reading::read;
use super::structured;
use super::verdict::verdict;
use super::words::{count, size};
use crate::mcp::settings::ResultFormat;
use crate::mcp::snapshot::Snapshot;
use crate::output::digest::{
    Counts, Digest, DigestRequest, Ending, InContext, NumberedLine, Reach, Tally, digest,
};
use crate::output::{LogReader, PageEnd, PageRequest};

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

/// What matters in a job's output, from the request's offset on: as much of it as fits. The output
/// is looked through once.
pub(crate) async fn show_digest(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
    fit: &Fit,
) -> Result<Answer, ToolError> {
    let PageRequest { from, stream, .. } = request;
    let wanted = DigestRequest { stream, from, reach: Reach::default() };
    let digest = read(job, log, move |log| digest(log, &wanted)).await?;
    let room = request.max_bytes.min(TEXT_BYTES);
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
    let wanted = DigestRequest { stream: request.stream, from: 0, reach: Reach::GLANCE };
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

/// Endings first, then counts, then the first and the last error.
fn told(digest: &Digest, detail: Detail) -> String {
    let left_out = digest.endings.len().saturating_sub(detail.endings);
    let endings = digest.endings.iter().skip(left_out).map(|line| {
        let names = detail.names.min(NAMES);
        let told = cut(ending(&line.ending, names), detail.ending_bytes.min(ENDING_BYTES));
        format!("{told} (line {})", line.line)
    });
    let errors = tally(&digest.errors, ("error", "errors"), detail);
    let warnings = tally(&digest.warnings, ("warning", "warnings"), detail);
    let first = digest.first_error.iter().take(detail.errors);
    let first = first.flat_map(|error| around("first error:", error, detail));
    let is_told = |last: &&InContext| detail.errors > 1 && !is_in_sight(last, digest, detail);
    let last = digest.last_error.iter().filter(is_told);
    let last = last.flat_map(|error| around("last error:", error, detail));
    let lines = endings.chain([format!("{errors}; {warnings}")]).chain(first).chain(last);
    lines.map(|line| line + "\n").collect()
}

/// The text with the most detail that has room.
#[cfg(test)]
pub(super) fn text(digest: &Digest, max_bytes: usize) -> String {
    let texts = DETAILS.into_iter().map(|detail| told(digest, detail));
    texts.into_iter().find(|text| text.len() <= max_bytes).unwrap_or_default()
}

/// Whether the lines after the first error show the last one as well.
fn is_in_sight(last: &InContext, digest: &Digest, detail: Detail) -> bool {
    let after = digest.first_error.iter().flat_map(|first| first.after.iter().take(detail.around));
    after.into_iter().any(|line| *line == last.line)
}

/// `75 errors: lines 22, 31, 40, 52, 60 … 1030, 1031`.
fn tally(tally: &Tally, (one, many): (&str, &str), detail: Detail) -> String {
    let counted = count(tally.count, one, many);
    if tally.count == 0 {
        return format!("no {many}");
    }
    let (first, last) = sides(&tally.numbers, detail.numbers);
    if first.is_empty() {
        return counted;
    }
    let listed = (first.len() + last.len()) as u64;
    let gap = if tally.count > listed { " … " } else { ", " };
    let join = |part: &[u64]| part.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let parts: Vec<String> =
        [first, last].into_iter().filter(|part| !part.is_empty()).map(join).collect();
    let word = if tally.count == 1 { "line" } else { "lines" };
    format!("{counted}: {word} {}", parts.join(gap))
}

/// So many of the first, and as many of the last.
pub(super) fn sides<T>(all: &[T], each: usize) -> (&[T], &[T]) {
    if all.len() <= each * 2 {
        return all.split_at(all.len().div_ceil(2));
    }
    (&all[..each], &all[all.len() - each..])
}

/// A heading, and the line with its neighbours as a search lists them.
fn around(heading: &str, error: &InContext, detail: Detail) -> Vec<String> {
    let numbered = |mark: char| {
        move |line: &NumberedLine| {
            let text = cut(line.text.clone(), detail.text_bytes);
            format!("{}{mark} {text}", line.line).trim_end().to_owned()
        }
    };
    let left_out = error.before.len().saturating_sub(detail.around);
    let mut lines = vec![heading.to_owned()];
    lines.extend(error.before.iter().skip(left_out).map(numbered('-')));
    lines.push(numbered(':')(&error.line));
    lines.extend(error.after.iter().take(detail.around).map(numbered('-')));
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
        let names = if named.is_empty() { "…".to_owned() } else { named.join(", ") + more };
        text.push_str(&format!(": {names}"));
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
    match tally.numbers.as_slice() {
        [] => String::new(),
        [only] => format!(" ({only})"),
        [first, .., last] => format!(" ({first} … {last})"),
    }
}

/// At most so many bytes of a text, cut at a character.
pub(super) fn cut(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
    text
}

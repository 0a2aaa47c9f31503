//! Answers to `grep` and `query`.

use std::fmt::Write as _;

use regex::bytes::Regex;

use super::answer::Answer;
use super::body::read;
use super::error::ToolError;
use super::shown::{Form, Shown};
use super::verdict::verdict;
use super::words::{count, size, thousands};
use crate::mcp::snapshot::Snapshot;
use crate::output::query::query;
use crate::output::search::{Found, SearchRequest, search};
use crate::output::{LogReader, PageEnd, PageRequest};

/// The lines that match, with their numbers and so many lines of context around each.
pub(crate) async fn show_matches(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
    (pattern, context): (Regex, usize),
) -> Result<Answer, ToolError> {
    let (found, missing) = read(job, log, move |log| {
        let wanted = SearchRequest {
            pattern: &pattern,
            stream: request.stream,
            from: request.from,
            context,
            max_matches: if request.max_lines == 0 { usize::MAX } else { request.max_lines },
            max_bytes: request.max_bytes,
        };
        Ok((search(log, &wanted)?, log.missing(request.from..u64::MAX)))
    })
    .await?;
    Ok(matches(job, &found, missing, request))
}

fn matches(job: &Snapshot, found: &Found, missing: u64, request: PageRequest) -> Answer {
    let shown = Shown {
        end: found.next.unwrap_or(job.output.total_bytes),
        end_kind: found.end_kind,
        gap_bytes: missing,
        ..plain(listing(found), request)
    };
    let unsearched = if missing > 0 {
        format!(" · {} not there to search", size(missing))
    } else {
        String::new()
    };
    let headline =
        format!("{}{unsearched} · {}", tally(found.matches, job.lines()), verdict(job, None));
    let more = found.next.map(|next| {
        format!("more: read_output(job={}, grep=\"…\", cursor=\"bytes:{next}\")", job.job)
    });
    Answer::about(job, Some(&shown))
        .with_verdict(headline)
        .with_hint(more)
        .with_field("matches", found.matches)
}

/// `1 of 12 lines matches`.
fn tally(matches: u64, lines: u64) -> String {
    let verb = if matches == 1 || lines == 1 { "matches" } else { "match" };
    format!("{} of {} {verb}", thousands(matches), count(lines, "line", "lines"))
}

/// `22: a match`, `21- its context`, and `--` between what does not follow on each other.
fn listing(found: &Found) -> String {
    let mut text = String::new();
    let mut expected = None;
    for line in &found.lines {
        if expected.is_some_and(|expected| line.number > expected) {
            text.push_str("--\n");
        }
        let mark = if line.is_match { ':' } else { '-' };
        let shown = String::from_utf8_lossy(&line.text).replace('\0', "␀");
        // Writing to a string cannot fail.
        writeln!(text, "{}{mark} {shown}", line.number).ok();
        expected = Some(line.number + 1);
    }
    text
}

/// What a query on the output gives.
pub(crate) async fn show_query(
    job: &Snapshot,
    log: &LogReader,
    request: PageRequest,
    expression: String,
) -> Result<Answer, ToolError> {
    let stream = request.stream;
    let result = read(job, log, move |log| Ok(query(log, stream, &expression))).await??;
    let (text, hint) = cut(result, request.max_bytes);
    let truncated = hint.is_some();
    let shown = Shown {
        end: job.output.total_bytes,
        end_kind: if job.output.closed { PageEnd::Complete } else { PageEnd::CaughtUp },
        ..plain(text, request)
    };
    let answer = Answer::about(job, Some(&shown))
        .with_verdict(format!("query result · {}", verdict(job, None)))
        .with_hint(hint);
    Ok(if truncated { answer.with_field("truncated", true) } else { answer })
}

/// A result that is too long is cut at a character, and says so.
fn cut(mut text: String, max_bytes: usize) -> (String, Option<String>) {
    if text.len() <= max_bytes {
        return (text, None);
    }
    let end = text.floor_char_boundary(max_bytes);
    let hidden = size((text.len() - end) as u64);
    text.truncate(end);
    (
        text,
        Some(format!("{hidden} of the result are cut off: narrow the query, or raise max_bytes")),
    )
}

fn plain(text: String, request: PageRequest) -> Shown {
    Shown {
        text,
        spans: Vec::new(),
        cut: None,
        start: request.from,
        end: request.from,
        end_kind: PageEnd::More,
        gap_bytes: 0,
        bad_bytes: 0,
        form: Form::Text,
        stream: request.stream,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_reads_well_with_any_numbers() {
        for (matches, lines, expected) in [
            (0, 1, "0 of 1 line matches"),
            (1, 1, "1 of 1 line matches"),
            (0, 2, "0 of 2 lines match"),
            (1, 12, "1 of 12 lines matches"),
            (1_200, 9_000, "1,200 of 9,000 lines match"),
        ] {
            assert_eq!(tally(matches, lines), expected);
        }
    }
}

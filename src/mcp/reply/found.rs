//! Answers to `grep` and `query`.

use std::fmt::Write as _;

use super::answer::Answer;
use super::search_call::SearchCall;
use super::shown::{Form, Shown};
use super::verdict::verdict;
use super::words::{count, size, thousands};
use crate::mcp::settings::ResultFormat;
use crate::mcp::snapshot::Snapshot;
use crate::output::query::{QueryInput, QueryResult};
use crate::output::search::{Found, Select};
use crate::output::{PageEnd, PageRequest};

/// The lines of a job that were looked for, with their numbers and their context.
pub(crate) fn matches_answer(
    job: &Snapshot,
    found: &Found,
    asked: &SearchCall,
    request: PageRequest,
) -> Answer {
    let tally = tally(found, asked.select, request);
    let headline = [Some(tally), searched(job, found), missing(found), Some(verdict(job, None))];
    let headline: Vec<String> = headline.into_iter().flatten().collect();
    let call = asked.on(job.job, request.stream, Some(found.resume));
    let hint = match found.end_kind {
        PageEnd::More => Some(format!("more: {call}")),
        PageEnd::CaughtUp => {
            Some(format!("so far all: wait_jobs(jobs=[{}]), then {call}", job.job))
        }
        PageEnd::Complete => None,
    };
    Answer::about(job, Some(listed(found, request)), ResultFormat::Both)
        .with_verdict(headline.join(" · "))
        .with_hint(hint)
        .with_field("matches", found.matches)
        .with_field("searched_bytes", searched_bytes(found, request.from))
}

/// The listing as the part of the output that is shown.
pub(super) fn listed(found: &Found, request: PageRequest) -> Shown {
    Shown {
        start: request.from.min(found.searched_to),
        end: found.resume,
        end_kind: found.end_kind,
        gap_bytes: found.missing_bytes,
        ..plain(listing(found), request)
    }
}

/// How far a search came whose time was over.
pub(super) fn searched(job: &Snapshot, found: &Found) -> Option<String> {
    found.time_over.then(|| {
        let (to, total) = (found.searched_to, job.output.total_bytes.max(1));
        let percent = to.saturating_mul(100) / total;
        format!("time is over: searched up to {} of {} ({percent} %)", size(to), size(total))
    })
}

/// How many bytes were looked at.
fn searched_bytes(found: &Found, from: u64) -> u64 {
    let passed = found.searched_to.saturating_sub(from);
    if found.time_over { passed } else { passed.saturating_sub(found.missing_bytes) }
}

/// How much there was nothing left of to search.
pub(super) fn missing(found: &Found) -> Option<String> {
    (found.missing_bytes > 0).then(|| format!("{} not there to search", size(found.missing_bytes)))
}

/// `1 of 12 lines matches`, of those that were searched: of one stream, or from a place on.
pub(super) fn tally(found: &Found, select: Select, request: PageRequest) -> String {
    let lines = match request.stream {
        Some(stream) => {
            let (one, many) =
                (format!("{} line", stream.name()), format!("{} lines", stream.name()));
            count(found.searched_lines, &one, &many)
        }
        None => count(found.searched_lines, "line", "lines"),
    };
    let verb = verb(found.matches, found.searched_lines, select);
    let tally = format!("{} of {lines} {verb}", thousands(found.matches));
    match request.from {
        0 => tally,
        from => format!("{tally} from bytes:{from} on"),
    }
}

fn verb(matches: u64, lines: u64, select: Select) -> &'static str {
    let is_one = matches == 1 || lines == 1;
    match (select, is_one) {
        (Select::Matching, true) => "matches",
        (Select::Matching, false) => "match",
        (Select::Others, true) => "does not match",
        (Select::Others, false) => "do not match",
    }
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

/// What a query on the output gave.
pub(crate) fn query_answer(job: &Snapshot, result: &QueryResult, request: PageRequest) -> Answer {
    let of_lines = about_lines(result);
    let (text, hint) = cut(&result.text, request.max_bytes);
    let truncated = hint.is_some();
    let hint = hint.or(of_lines);
    let shown = Shown {
        end: job.output.total_bytes,
        end_kind: if job.output.closed { PageEnd::Complete } else { PageEnd::CaughtUp },
        ..plain(text, request)
    };
    let answer = Answer::about(job, Some(shown), ResultFormat::Both)
        .with_verdict(format!("query result · {}", verdict(job, None)))
        .with_hint(hint);
    if truncated { answer.with_field("truncated", true) } else { answer }
}

/// That lines are an array, where a query found nothing in it and may have meant one of them.
fn about_lines(result: &QueryResult) -> Option<String> {
    match result.input {
        QueryInput::Value => None,
        QueryInput::Lines => (result.text == "null").then(|| {
            "the output is JSON lines, which a query sees as one array: begin with `[*].` to ask \
             each line, or with `[0].` for the first"
                .to_owned()
        }),
    }
}

/// A result that is too long is cut at a character, and says so.
fn cut(text: &str, max_bytes: usize) -> (String, Option<String>) {
    if text.len() <= max_bytes {
        return (text.to_owned(), None);
    }
    let end = text.floor_char_boundary(max_bytes);
    let hidden = size((text.len() - end) as u64);
    (
        text[..end].to_owned(),
        Some(format!("{hidden} of the result are cut off: narrow the query, or raise max_bytes")),
    )
}

fn plain(text: String, request: PageRequest) -> Shown {
    Shown {
        text,
        before: None,
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
    use crate::spec::Stream;

    #[test]
    fn a_tally_reads_well_with_any_numbers() {
        let whole = PageRequest { from: 0, stream: None, max_bytes: 0, max_lines: 0 };
        for (matches, lines, expected) in [
            (0, 1, "0 of 1 line matches"),
            (1, 1, "1 of 1 line matches"),
            (0, 2, "0 of 2 lines match"),
            (1, 12, "1 of 12 lines matches"),
            (1_200, 9_000, "1,200 of 9,000 lines match"),
        ] {
            assert_eq!(tally(&found(matches, lines), Select::Matching, whole), expected);
        }
        let others = |matches| tally(&found(matches, 12), Select::Others, whole);
        assert_eq!(others(1), "1 of 12 lines does not match");
        assert_eq!(others(4), "4 of 12 lines do not match");
        let part = PageRequest { from: 9, stream: Some(Stream::Stderr), ..whole };
        let said = tally(&found(4, 12), Select::Matching, part);
        assert_eq!(said, "4 of 12 stderr lines match from bytes:9 on");
    }

    fn found(matches: u64, searched_lines: u64) -> Found {
        Found {
            lines: Vec::new(),
            matches,
            searched_lines,
            searched_to: 0,
            time_over: false,
            missing_bytes: 0,
            next: None,
            resume: 0,
            end_kind: PageEnd::Complete,
        }
    }
}

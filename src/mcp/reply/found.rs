//! Answers to `grep` and `query`.

use std::fmt::Write as _;

use super::answer::Answer;
use super::shown::{Form, Shown};
use super::verdict::verdict;
use super::words::{count, size, thousands};
use crate::mcp::snapshot::Snapshot;
use crate::output::search::{Found, Select};
use crate::output::{PageEnd, PageRequest};

/// The lines of a job that were looked for, with their numbers and their context.
pub(crate) fn matches_answer(
    job: &Snapshot,
    found: &Found,
    select: Select,
    request: PageRequest,
) -> Answer {
    let tally = tally(found.matches, job.lines(), select);
    let headline = [Some(tally), searched(job, found), missing(found), Some(verdict(job, None))];
    let headline: Vec<String> = headline.into_iter().flatten().collect();
    let more = found.next.map(|next| {
        format!("more: read_output(job={}, grep=\"…\", cursor=\"bytes:{next}\")", job.job)
    });
    Answer::about(job, Some(&listed(job, found, request)))
        .with_verdict(headline.join(" · "))
        .with_hint(more)
        .with_field("matches", found.matches)
        .with_field("searched_bytes", found.searched_to.saturating_sub(request.from))
}

/// The listing as the part of the output that is shown.
pub(super) fn listed(job: &Snapshot, found: &Found, request: PageRequest) -> Shown {
    Shown {
        end: found.next.unwrap_or(job.output.total_bytes),
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

/// How much there was nothing left of to search.
pub(super) fn missing(found: &Found) -> Option<String> {
    (found.missing_bytes > 0).then(|| format!("{} not there to search", size(found.missing_bytes)))
}

/// `1 of 12 lines matches`.
pub(super) fn tally(matches: u64, lines: u64, select: Select) -> String {
    let is_one = matches == 1 || lines == 1;
    let verb = match (select, is_one) {
        (Select::Matching, true) => "matches",
        (Select::Matching, false) => "match",
        (Select::Others, true) => "does not match",
        (Select::Others, false) => "do not match",
    };
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

/// What a query on the output gave.
pub(crate) fn query_answer(job: &Snapshot, result: String, request: PageRequest) -> Answer {
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
    if truncated { answer.with_field("truncated", true) } else { answer }
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

    #[test]
    fn a_tally_reads_well_with_any_numbers() {
        for (matches, lines, expected) in [
            (0, 1, "0 of 1 line matches"),
            (1, 1, "1 of 1 line matches"),
            (0, 2, "0 of 2 lines match"),
            (1, 12, "1 of 12 lines matches"),
            (1_200, 9_000, "1,200 of 9,000 lines match"),
        ] {
            assert_eq!(tally(matches, lines, Select::Matching), expected);
        }
        assert_eq!(tally(1, 12, Select::Others), "1 of 12 lines does not match");
        assert_eq!(tally(4, 12, Select::Others), "4 of 12 lines do not match");
    }
}

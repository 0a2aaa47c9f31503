//! Replies to `grep` over one job or all jobs, and to `query`.

use std::fmt::Write as _;
use std::ops::Range;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::format::{count, rough, shorten_to_line, size, thousands};
use super::job_list::ReplyPart;
use super::shown_output::{OutputEncoding, ShownOutput};
use super::snapshot::{JobSnapshot, State, ending_text, verdict};
use super::tool_reply::ToolReply;
use crate::ids::JobId;
use crate::mcp::settings::ResultFormat;
use crate::output::json::{QueryInput, QueryResult};
use crate::output::search::{FoundLine, SearchContext, SearchResult, SectionHead, Select};
use crate::output::{PageEnd, PageRequest};
use crate::spec::Stream;

/// Builds the reply to a search in one job: the lines with their numbers and context.
pub(crate) fn matches_reply(
    job: &JobSnapshot,
    found: &SearchResult,
    search: &SearchCall,
    request: PageRequest,
) -> ToolReply {
    let tally = tally(found, search.select, request);
    let headline =
        [Some(tally), time_over_note(job, found), missing_note(found), Some(verdict(job, None))];
    let headline: Vec<String> = headline.into_iter().flatten().collect();
    let call = search.call_text(job.job, request.stream, Some(found.resume));
    let hint = match found.end_kind {
        PageEnd::More => Some(format!("more: {call}")),
        PageEnd::CaughtUp => {
            Some(format!("so far all: wait_jobs(jobs=[{}]), then {call}", job.job))
        }
        PageEnd::Complete => (folded_matches(found) > 0)
            .then(|| format!("each of them: {}", search.paged_call_text(job.job, request.stream))),
    };
    let reply = ToolReply::for_job(job, Some(listing_output(found, request)), ResultFormat::Both)
        .with_verdict(headline.join(" · "))
        .with_hint(hint)
        .with_field("matches", found.matches)
        .with_field("searched_bytes", searched_bytes(found, request.from));
    match folded_matches(found) {
        0 => reply,
        folded => reply.with_field("folded_matches", folded),
    }
}

/// Returns the number of matches that are not listed because they differ only in numbers from
/// listed ones.
fn folded_matches(found: &SearchResult) -> u64 {
    found.lines.iter().chain(&found.last).map(|line| line.alike).sum()
}

/// Returns the listing as the shown part of the output.
fn listing_output(found: &SearchResult, request: PageRequest) -> ShownOutput {
    ShownOutput {
        start: request.from.min(found.searched_to),
        end: found.resume,
        end_kind: found.end_kind,
        gap_bytes: found.missing_bytes,
        ..plain_output(listing(found), request)
    }
}

/// Says how far a search came if its time was over.
fn time_over_note(job: &JobSnapshot, found: &SearchResult) -> Option<String> {
    found.time_over.then(|| {
        let to = found.searched_to;
        let total = job.output.total_bytes.max(1);
        let percent = to.saturating_mul(100) / total;
        format!("time is over: searched up to {} of {} ({percent} %)", size(to), size(total))
    })
}

/// Returns how many bytes were searched.
fn searched_bytes(found: &SearchResult, from: u64) -> u64 {
    let passed = found.searched_to.saturating_sub(from);
    if found.time_over { passed } else { passed.saturating_sub(found.missing_bytes) }
}

/// Says how many bytes could not be searched because they are not kept.
fn missing_note(found: &SearchResult) -> Option<String> {
    (found.missing_bytes > 0).then(|| format!("{} not there to search", size(found.missing_bytes)))
}

/// Formats the count, as `1 of 12 lines matches`; of the lines of one stream, or from an offset on.
fn tally(found: &SearchResult, select: Select, request: PageRequest) -> String {
    let lines = match request.stream {
        Some(stream) => {
            let one = format!("{} line", stream.name());
            let many = format!("{} lines", stream.name());
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

/// Formats the lines: `22: a match`, `21- its context`, and `--` between groups of context lines;
/// the number of matches that are not listed between the first and the last ones.
fn listing(found: &SearchResult) -> String {
    let mut text = String::new();
    list_lines(&mut text, &found.lines, found.context);
    let listed = found.lines.iter().filter(|line| line.is_match).count() + found.last.len();
    let known = listed as u64 + folded_matches(found);
    if !found.last.is_empty() && found.matches > known {
        // Writing to a string cannot fail.
        writeln!(text, "… {} more", thousands(found.matches - known)).ok();
    }
    list_lines(&mut text, &found.last, found.context);
    text
}

fn list_lines(text: &mut String, lines: &[FoundLine], context: SearchContext) {
    for (index, line) in lines.iter().enumerate() {
        if has_mark(lines, index) && context != SearchContext::Section {
            text.push_str("--\n");
        }
        // Writing to a string cannot fail.
        if let Some(section) = new_section(lines, index) {
            writeln!(text, "{}- {}", section.number, show_nul(&section.text)).ok();
        }
        let mark = if line.is_match { ':' } else { '-' };
        let shown = show_nul(&String::from_utf8_lossy(&line.text));
        writeln!(text, "{}{mark} {shown}", line.number).ok();
        if line.alike > 0 {
            writeln!(text, "… {} more like it", thousands(line.alike)).ok();
        }
    }
}

fn show_nul(text: &str) -> String {
    text.replace('\0', "␀")
}

/// `true` if lines are left out before the line at an index of a listing.
fn has_mark(lines: &[FoundLine], index: usize) -> bool {
    let before = index.checked_sub(1).map(|before| lines[before].number);
    before.is_some_and(|before| lines[index].number > before + 1)
}

/// Returns the section of the line at an index of a listing, unless the line before is in the same
/// one.
fn new_section(lines: &[FoundLine], index: usize) -> Option<&SectionHead> {
    let section = lines[index].section.as_ref()?;
    let before = index.checked_sub(1).and_then(|before| lines[before].section.as_ref());
    (before != Some(section)).then_some(section)
}

/// Builds the reply to a query.
pub(crate) fn query_reply(
    job: &JobSnapshot,
    result: &QueryResult,
    request: PageRequest,
) -> ToolReply {
    let lines_hint = json_lines_hint(result);
    let (text, hint) = cut_result(&result.text, request.max_bytes);
    let truncated = hint.is_some();
    let hint = hint.or(lines_hint);
    let shown = ShownOutput {
        end: job.output.total_bytes,
        end_kind: if job.output.closed { PageEnd::Complete } else { PageEnd::CaughtUp },
        ..plain_output(text, request)
    };
    let reply = ToolReply::for_job(job, Some(shown), ResultFormat::Both)
        .with_verdict(format!("query result · {}", verdict(job, None)))
        .with_hint(hint);
    if truncated { reply.with_field("truncated", true) } else { reply }
}

/// Explains that JSON lines form an array, if the query returned nothing and may have meant one
/// line.
fn json_lines_hint(result: &QueryResult) -> Option<String> {
    match result.input {
        QueryInput::Value => None,
        QueryInput::Lines => (result.text == "null").then(|| {
            "the output is JSON lines, which a query sees as one array: begin with `[*].` to ask \
             each line, or with `[0].` for the first"
                .to_owned()
        }),
    }
}

/// Cuts a result that is too long at a character boundary, and returns a hint about it.
fn cut_result(text: &str, max_bytes: usize) -> (String, Option<String>) {
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

fn plain_output(text: String, request: PageRequest) -> ShownOutput {
    ShownOutput {
        text,
        facts: None,
        spans: Vec::new(),
        cut: None,
        start: request.from,
        end: request.from,
        end_kind: PageEnd::More,
        gap_bytes: 0,
        bad_bytes: 0,
        form: OutputEncoding::Text,
        stream: request.stream,
    }
}

/// The estimated size of a job's heading line, in bytes.
const HEADING_BYTES: usize = 120;
/// The lines that a job's heading takes: itself, and an empty one before it.
const HEADING_ROWS: usize = 2;
/// The estimated size of a line number, in bytes.
const NUMBER_BYTES: usize = 8;
/// The estimated size of the line that counts alike matches, in bytes.
const ALIKE_BYTES: usize = 28;
/// The most last matches that an overview shows.
const LAST_MATCHES: usize = 5;
/// The most jobs without room that are named.
const NAMED_JOBS: usize = 20;

/// The matches in one job.
#[derive(Debug, Clone)]
pub(crate) struct JobMatches {
    pub(crate) job: JobSnapshot,
    pub(crate) command: String,
    pub(crate) found: SearchResult,
}

/// The totals of a search over several jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchTotals {
    /// The number of jobs to search.
    pub(crate) jobs: usize,
    /// Jobs that were not searched: one stream was asked for, and theirs are merged.
    pub(crate) merged: usize,
    /// Jobs that were searched to their end.
    pub(crate) searched: usize,
    /// The number of jobs with matches.
    pub(crate) matching: usize,
    /// Matching lines in all jobs.
    pub(crate) matches: u64,
    /// The number of bytes searched.
    pub(crate) bytes: u64,
    /// Jobs with matches for which there was no room, with their number of matches.
    pub(crate) unshown: Vec<(JobId, u64)>,
}

impl SearchTotals {
    /// Creates the totals before a search of `jobs` jobs, `merged` of which are left out.
    pub(crate) const fn new(jobs: usize, merged: usize) -> Self {
        Self { jobs, merged, searched: 0, matching: 0, matches: 0, bytes: 0, unshown: Vec::new() }
    }

    /// Adds the result of one more job.
    pub(crate) fn add(&mut self, found: &SearchResult) {
        self.searched += usize::from(!found.time_over);
        self.matching += usize::from(found.matches > 0);
        self.matches += found.matches;
        self.bytes += found.searched_to;
    }

    /// Says that not all jobs were searched; `None` if all were.
    pub(crate) fn unsearched(&self) -> Option<String> {
        let jobs = |number: usize| count(number as u64, "job", "jobs");
        let merged = (self.merged > 0).then(|| {
            format!(
                "{} not searched: without separate streams; leave `stream` out, or run commands \
                 with run_command(…, streams=\"separate\")",
                jobs(self.merged)
            )
        });
        let unread = self.jobs - self.merged - self.searched;
        let unread = (unread > 0).then(|| {
            format!(
                "{} not searched to the end, the time was over or they could not be read",
                jobs(unread)
            )
        });
        let remarks: Vec<String> = merged.into_iter().chain(unread).collect();
        (!remarks.is_empty()).then(|| remarks.join(" · "))
    }
}

/// Cuts listings so that together they fit on a page, with at most so many rows of text: first one
/// match of each job while there is room, then the jobs take turns, line by line. Returns how many
/// jobs have room.
pub(crate) fn fit_listings<'f>(
    found: impl Iterator<Item = &'f mut SearchResult>,
    page: PageRequest,
    rows: usize,
) -> usize {
    let mut found: Vec<&mut SearchResult> = found.collect();
    let lines = if page.max_lines == 0 { usize::MAX } else { page.max_lines };
    let mut room = PageRoom { bytes: page.max_bytes, lines, rows };
    let mut taken: Vec<usize> = Vec::new();
    for found in &found {
        let first = to_first_match(found);
        let heading = PageRoom { bytes: HEADING_BYTES, lines: 0, rows: HEADING_ROWS };
        let fits = room.take(heading) && room.take(PageRoom::for_lines(&found.lines, 0..first));
        if !fits && !taken.is_empty() {
            break;
        }
        taken.push(first);
    }
    take_turns(&found, &mut taken, &mut room);
    for (found, taken) in found.iter_mut().zip(&taken) {
        cut_listing(found, *taken);
        found.last.clear();
    }
    taken.len()
}

/// Cuts a listing so that it fits on a page, with at most so many rows of text: the first and the
/// last matches stay.
pub(crate) fn fit_overview(found: &mut SearchResult, page: PageRequest, rows: usize) {
    let mut room = PageRoom { bytes: page.max_bytes, lines: usize::MAX, rows };
    let is_listed = found.last.is_empty();
    if is_listed && room.take(PageRoom::for_lines(&found.lines, 0..found.lines.len())) {
        return;
    }
    let mut candidates = std::mem::take(&mut found.last);
    if is_listed {
        let last = LAST_MATCHES.min(found.lines.len() / 4);
        candidates = found.lines.split_off(found.lines.len() - last);
    }
    let mut last = candidates.clone();
    while !room_for_last(&mut room, page.max_bytes, &last) {
        last.remove(0);
    }
    if is_listed {
        found.lines.extend(candidates.drain(..candidates.len() - last.len()));
    }
    let mut taken = vec![to_first_match(found)];
    room.take(PageRoom::for_lines(&found.lines, 0..taken[0]));
    take_turns(&[&mut *found], &mut taken, &mut room);
    cut_listing(found, taken[0]);
    found.last = last;
}

/// Takes the room of the last matches, at most a quarter of the page; returns `true` if they fit.
fn room_for_last(room: &mut PageRoom, page_bytes: usize, last: &[FoundLine]) -> bool {
    let needed = PageRoom::for_lines(last, 0..last.len());
    last.is_empty() || needed.bytes <= page_bytes / 4 && room.take(needed)
}

/// Room on a page.
#[derive(Debug)]
struct PageRoom {
    bytes: usize,
    /// Lines of output.
    lines: usize,
    /// Lines of the reply: those of output, headings, and the marks between groups.
    rows: usize,
}

impl PageRoom {
    /// Returns the room that these lines of a listing need.
    fn for_lines(listed: &[FoundLine], range: Range<usize>) -> Self {
        let mut room = Self { bytes: 0, lines: range.len(), rows: 0 };
        for index in range {
            let line = &listed[index];
            room.bytes += NUMBER_BYTES + line.text.len();
            room.rows += 1 + usize::from(has_mark(listed, index));
            if let Some(section) = new_section(listed, index) {
                room.bytes += NUMBER_BYTES + section.text.len();
                room.rows += 1;
            }
            if line.alike > 0 {
                room.bytes += ALIKE_BYTES;
                room.rows += 1;
            }
        }
        room
    }

    /// Takes room if there is enough; returns `true` if it did.
    fn take(&mut self, part: Self) -> bool {
        let fits = part.bytes <= self.bytes && part.lines <= self.lines && part.rows <= self.rows;
        if fits {
            self.bytes -= part.bytes;
            self.lines -= part.lines;
            self.rows -= part.rows;
        }
        fits
    }
}

fn take_turns(found: &[&mut SearchResult], taken: &mut [usize], room: &mut PageRoom) {
    let mut took = true;
    while took {
        took = false;
        for (found, taken) in found.iter().zip(taken.iter_mut()) {
            let is_listed = *taken < found.lines.len();
            if is_listed && room.take(PageRoom::for_lines(&found.lines, *taken..*taken + 1)) {
                *taken += 1;
                took = true;
            }
        }
    }
}

/// Returns how many lines of a listing show its first match.
fn to_first_match(found: &SearchResult) -> usize {
    let before = found.lines.iter().take_while(|line| !line.is_match).count();
    found.lines.len().min(before + 1)
}

/// Cuts a listing to so many lines; the cursor then points to the rest.
fn cut_listing(found: &mut SearchResult, lines: usize) {
    if let Some(first) = found.lines.get(lines) {
        (found.next, found.resume) = (Some(first.offset), first.offset);
        found.end_kind = PageEnd::More;
        found.lines.truncate(lines);
    }
}

/// Builds the reply to a search in all jobs, newest first.
pub(crate) fn jobs_reply(
    shown: &[JobMatches],
    totals: &SearchTotals,
    search: &SearchCall,
    page: PageRequest,
) -> ToolReply {
    let parts = shown.iter().map(|found| job_part(found, search.select, page)).collect();
    let reply = ToolReply::for_jobs(Some(headline(totals, search.select)), parts)
        .with_hint(hint(shown, totals, search, page.stream))
        .with_field("matches", totals.matches)
        .with_field("matching_jobs", totals.matching)
        .with_field("searched_jobs", totals.searched)
        .with_field("searched_bytes", totals.bytes);
    let unshown: Vec<Value> = totals
        .unshown
        .iter()
        .take(NAMED_JOBS)
        .map(|(job, matches)| json!({"job": job.number(), "matches": matches}))
        .collect();
    let unsearched = totals.jobs - totals.searched;
    let more = [
        ("unshown_jobs", !unshown.is_empty(), Value::from(unshown)),
        ("unsearched_jobs", unsearched > 0, unsearched.into()),
    ];
    more.into_iter()
        .filter(|(_, applies, _)| *applies)
        .fold(reply, |reply, (name, _, value)| reply.with_field(name, value))
}

/// Formats the first line, as `7 lines match, in 2 of 5 jobs`.
fn headline(totals: &SearchTotals, select: Select) -> String {
    let verb = match (select, totals.matches) {
        (Select::Matching, 1) => "matches",
        (Select::Matching, _) => "match",
        (Select::Others, 1) => "does not match",
        (Select::Others, _) => "do not match",
    };
    let lines = count(totals.matches, "line", "lines");
    let jobs = count(totals.jobs as u64, "job", "jobs");
    let text = format!("{lines} {verb}, in {} of {jobs}", thousands(totals.matching as u64));
    [Some(text), totals.unsearched()].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn job_part(in_job: &JobMatches, select: Select, page: PageRequest) -> ReplyPart {
    let JobMatches { job, command, found } = in_job;
    let mut names = JsonObject::new();
    names.insert("command".into(), command.as_str().into());
    names.insert("matches".into(), found.matches.into());
    names.insert("searched_bytes".into(), found.searched_to.into());
    let heading = [
        Some(format!("job {}", job.job)),
        Some(state(job)),
        Some(shorten_to_line(command)),
        Some(tally(found, select, page)),
        time_over_note(job, found),
        missing_note(found),
    ];
    let heading: Vec<String> = heading.into_iter().flatten().collect();
    ReplyPart::for_search(job, heading.join(" · "), &listing_output(found, page), names)
}

fn state(job: &JobSnapshot) -> String {
    match &job.state {
        State::Queued(_) => "queued".to_owned(),
        State::Running(_) => format!("running {}", rough(job.elapsed)),
        State::Stopping => "stopping".to_owned(),
        State::Finished(ending) => ending_text(job, ending),
    }
}

/// Returns how to see the matches without room.
fn hint(
    shown: &[JobMatches],
    totals: &SearchTotals,
    search: &SearchCall,
    stream: Option<Stream>,
) -> Option<String> {
    let unshown = totals.unshown.first().map(|(first, _)| {
        let named = totals.unshown.iter().take(NAMED_JOBS);
        let named: Vec<String> =
            named.map(|(job, matches)| format!("{job} ({})", thousands(*matches))).collect();
        let dots = if totals.unshown.len() > NAMED_JOBS { ", …" } else { "" };
        let jobs = count(totals.unshown.len() as u64, "more job matches", "more jobs match");
        let named = named.join(", ");
        format!("{jobs}: {named}{dots}: {}", search.call_text(*first, stream, None))
    });
    let mut cut = shown.iter().filter_map(|found| Some((found.job.job, found.found.next?)));
    let more = cut.next().map(|(job, next)| {
        let others: Vec<String> = cut
            .take(NAMED_JOBS)
            .map(|(job, next)| format!(", job={job} cursor=\"bytes:{next}\""))
            .collect();
        format!("more: {}{}", search.call_text(job, stream, Some(next)), others.concat())
    });
    let hints: Vec<String> = unshown.into_iter().chain(more).collect();
    (!hints.is_empty()).then(|| hints.join("; "))
}

/// The longest pattern that a hint repeats, in bytes.
const PATTERN_BYTES: usize = 200;

/// The search of a call, which hints repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchCall {
    /// The regex as the caller wrote it.
    pub(crate) pattern: String,
    pub(crate) select: Select,
    /// Context lines around each match, if the caller wants any; else its section is shown.
    pub(crate) context: Option<usize>,
}

impl SearchCall {
    /// Formats the call that repeats this search in one job, from the start or from an offset on.
    fn call_text(&self, job: JobId, stream: Option<Stream>, cursor: Option<u64>) -> String {
        let mut call = format!("read_output(job={job}, grep={}", self.quoted());
        // Writing to a string cannot fail.
        if let Some(context) = self.context {
            write!(call, ", context={context}").ok();
        }
        match self.select {
            Select::Matching => {}
            Select::Others => call.push_str(", invert=true"),
        }
        if let Some(stream) = stream {
            write!(call, ", stream=\"{}\"", stream.name()).ok();
        }
        if let Some(offset) = cursor {
            write!(call, ", cursor=\"bytes:{offset}\"").ok();
        }
        call + ")"
    }

    /// Formats the call that lists each match of this search, in pages.
    fn paged_call_text(&self, job: JobId, stream: Option<Stream>) -> String {
        let call = self.call_text(job, stream, None);
        format!("{}, max_lines=100)", call.trim_end_matches(')'))
    }

    fn quoted(&self) -> String {
        let quoted = Value::from(self.pattern.as_str()).to_string();
        if quoted.len() > PATTERN_BYTES { "\"…\"".to_owned() } else { quoted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Stream;

    #[test]
    fn a_match_count_is_grammatical_for_any_numbers() {
        let whole = PageRequest { from: 0, to: u64::MAX, stream: None, max_bytes: 0, max_lines: 0 };
        for (matches, lines, expected) in [
            (0, 1, "0 of 1 line matches"),
            (1, 1, "1 of 1 line matches"),
            (0, 2, "0 of 2 lines match"),
            (1, 12, "1 of 12 lines matches"),
            (1_200, 9_000, "1,200 of 9,000 lines match"),
        ] {
            assert_eq!(tally(&search_result(matches, lines), Select::Matching, whole), expected);
        }
        let others = |matches| tally(&search_result(matches, 12), Select::Others, whole);
        assert_eq!(others(1), "1 of 12 lines does not match");
        assert_eq!(others(4), "4 of 12 lines do not match");
        let part = PageRequest { from: 9, stream: Some(Stream::Stderr), ..whole };
        let text = tally(&search_result(4, 12), Select::Matching, part);
        assert_eq!(text, "4 of 12 stderr lines match from bytes:9 on");
    }

    fn search_result(matches: u64, searched_lines: u64) -> SearchResult {
        SearchResult {
            lines: Vec::new(),
            last: Vec::new(),
            context: SearchContext::Lines(0),
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

    #[test]
    fn a_hint_repeats_the_whole_search() {
        let plain = SearchCall {
            pattern: r#"a "b"\d"#.to_owned(),
            select: Select::Matching,
            context: None,
        };
        assert_eq!(
            plain.call_text(JobId::local(7), None, Some(9)),
            r#"read_output(job=7, grep="a \"b\"\\d", cursor="bytes:9")"#
        );
        let others = SearchCall { select: Select::Others, context: Some(2), ..plain };
        assert_eq!(
            others.call_text(JobId::local(7), Some(Stream::Stderr), None),
            r#"read_output(job=7, grep="a \"b\"\\d", context=2, invert=true, stream="stderr")"#
        );
        let long = SearchCall { pattern: "x".repeat(100_000), ..others };
        assert!(long.call_text(JobId::local(7), None, None).len() < 300);
    }

    /// A search that found so many lines of so many bytes.
    fn found_lines(lines: usize, bytes: usize) -> SearchResult {
        let line = |number: u64| {
            let text = vec![b'x'; bytes];
            let offset = number * 1000;
            FoundLine { number, offset, is_match: true, text, section: None, alike: 0 }
        };
        let found = lines as u64;
        SearchResult { lines: (1..=found).map(line).collect(), ..search_result(found, found) }
    }

    #[track_caller]
    fn check(mut jobs: Vec<SearchResult>, max_bytes: usize, max_lines: usize, expected: &[usize]) {
        let page = PageRequest { from: 0, to: u64::MAX, stream: None, max_bytes, max_lines };
        let room = fit_listings(jobs.iter_mut(), page, usize::MAX);
        let lines: Vec<usize> = jobs[..room].iter().map(|found| found.lines.len()).collect();
        assert_eq!(lines, expected);
        for (found, lines) in jobs.iter().zip(lines) {
            let is_cut = lines < found.matches as usize;
            assert_eq!(found.next, is_cut.then_some((lines as u64 + 1) * 1000));
            assert_eq!(found.end_kind == PageEnd::More, is_cut);
        }
    }

    #[test]
    fn jobs_share_a_page_fairly_and_the_newest_is_always_shown() {
        check(vec![found_lines(3, 10), found_lines(2, 10)], 10_000, 0, &[3, 2]);
        check(
            vec![found_lines(1000, 92), found_lines(2, 92), found_lines(1000, 92)],
            1360,
            0,
            &[4, 2, 4],
        );
        check(vec![found_lines(5, 92), found_lines(5, 92)], 230, 0, &[1]);
        check(vec![found_lines(5, 500), found_lines(5, 10)], 100, 0, &[1]);
        check(
            vec![found_lines(5, 10), found_lines(5, 10), found_lines(5, 10)],
            10_000,
            5,
            &[2, 2, 1],
        );
        check(vec![], 100, 0, &[]);
    }

    fn overview(mut found: SearchResult, max_bytes: usize) -> SearchResult {
        let page = PageRequest { from: 0, to: u64::MAX, stream: None, max_bytes, max_lines: 0 };
        found.context = SearchContext::Section;
        fit_overview(&mut found, page, usize::MAX);
        found
    }

    #[test]
    fn an_overview_keeps_the_first_and_the_last_matches() {
        let whole = overview(found_lines(40, 92), 4000);
        assert_eq!((whole.lines.len(), whole.last.len(), whole.next), (40, 0, None));
        let cut = overview(found_lines(40, 92), 3000);
        assert_eq!((cut.lines.len(), cut.last.len(), cut.next), (25, 5, Some(26_000)));
        assert_eq!(cut.last[4].number, 40);
        assert!(listing(&cut).contains("\n… 10 more\n36: "));
        let few = overview(found_lines(3, 500), 600);
        assert_eq!((few.lines.len(), few.last.len(), few.next), (1, 0, Some(2000)));
        let long = overview(found_lines(8, 500), 600);
        assert_eq!((long.lines.len(), long.last.len(), long.next), (1, 0, Some(2000)));
        let mut scanned = found_lines(40, 92);
        (scanned.last, scanned.matches) = (scanned.lines.split_off(35), 1000);
        let scanned = overview(scanned, 3000);
        assert_eq!((scanned.lines.len(), scanned.last.len(), scanned.next), (25, 5, Some(26_000)));
        assert!(listing(&scanned).contains("\n… 970 more\n36: "));
    }

    #[test]
    fn neighbouring_matches_of_a_section_have_one_head() {
        let mut found = found_lines(4, 1);
        let head = |text: &str| Some(SectionHead { number: 1, text: text.to_owned() });
        found.context = SearchContext::Section;
        (found.lines[1].section, found.lines[2].section) = (head("test a"), head("test a"));
        found.lines[3].section = head("test b");
        found.lines[2].alike = 1200;
        let text = "1: x\n1- test a\n2: x\n3: x\n… 1,200 more like it\n1- test b\n4: x\n";
        assert_eq!(listing(&found), text);
    }
}

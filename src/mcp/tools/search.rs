//! Searches for lines: `grep` in the output of one job or of all jobs, and the first line that matches
//! `until`.

use std::io;
use std::ops::Range;

use super::call::ToolCall;
use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::{
    JobMatches, JobSnapshot, ReplyFitter, SearchCall, SearchTotals, ToolError, ToolReply,
    fit_listings, fit_overview, jobs_reply, matches_reply,
};
use crate::output::pattern::LinePattern;
use crate::output::search::{
    ListingStyle, SearchContext, SearchRequest, SearchResult, Select, search, search_each,
};
use crate::output::{BlockingReader, LogReader, PageEnd, PageRequest, views};
use crate::service::JobHandle;

/// The most context lines that a call may ask for.
const MAX_CONTEXT: u64 = 100;

/// Memory of a search without listed lines: blocks of the log, and the tables of its pattern.
const BASE_MEMORY: usize = 2 * 1024 * 1024;
/// Memory per listed byte: as found, as text, and in the reply.
const MEMORY_PER_BYTE: usize = 8;

/// Returns the memory of a search in bytes.
const fn estimate_memory(page: PageRequest) -> usize {
    BASE_MEMORY + MEMORY_PER_BYTE * page.max_bytes
}

/// The search that a call asks for.
#[derive(Debug, Clone)]
pub(super) struct Grep {
    pattern: LinePattern,
    search_call: SearchCall,
}

impl Grep {
    /// Reads `grep`, `context` and `invert` from the arguments of a call.
    pub(super) fn read(args: &mut Args) -> Result<Option<Self>, ToolError> {
        let pattern = args.text("grep")?;
        let context = args.whole("context", 0..=MAX_CONTEXT)?;
        let select = if args.flag("invert")? { Select::Others } else { Select::Matching };
        let Some(pattern) = pattern else {
            let lonely = [
                (context.is_some(), "`context` goes with `grep`; give a grep too"),
                (select == Select::Others, "`invert` goes with `grep`; give a grep too"),
            ];
            let lonely = lonely.into_iter().find(|(is_given, _)| *is_given);
            return lonely.map_or(Ok(None), |(_, why)| Err(ArgError::Conflict(why).into()));
        };
        let context = context.map(|lines| usize::try_from(lines).unwrap_or(usize::MAX));
        Self::new(SearchCall { pattern, select, context }).map(Some)
    }

    /// Creates a search for matching lines without context.
    pub(super) fn lines(pattern: &str) -> Result<Self, ToolError> {
        let pattern = pattern.to_owned();
        let select = Select::Matching;
        Self::new(SearchCall { pattern, select, context: Some(0) })
    }

    fn new(search_call: SearchCall) -> Result<Self, ToolError> {
        Ok(Self { pattern: LinePattern::new(&search_call.pattern)?, search_call })
    }

    /// Returns the request for a listing. Context lines are listed in pages alone.
    fn request(&self, page: PageRequest, style: ListingStyle) -> SearchRequest<'_> {
        let (context, style) = match self.search_call.context {
            Some(lines) => (SearchContext::Lines(lines), ListingStyle::Page),
            None => (SearchContext::Section, style),
        };
        SearchRequest {
            pattern: &self.pattern,
            select: self.search_call.select,
            stream: page.stream,
            from: page.from,
            context,
            style,
            max_matches: if page.max_lines == 0 { usize::MAX } else { page.max_lines },
            max_bytes: page.max_bytes,
        }
    }
}

/// Searches the output of one job.
pub(super) async fn in_job(
    call: ToolCall<'_>,
    now: &JobSnapshot,
    log: LogReader,
    grep: Grep,
    page: PageRequest,
    style: ListingStyle,
    mut fitter: ReplyFitter,
) -> Result<ToolReply, ToolError> {
    let search_call = grep.search_call.clone();
    let memory = call.reserve(&log, estimate_memory(page)).await?;
    let request =
        move |log: &BlockingReader, deadline: &_| search(log, &grep.request(page, style), deadline);
    let unreadable = |source| ToolError::Read { job: now.job, source };
    let (found, _memory) = call.scan(&log, memory, request).await.map_err(unreadable)?;
    let found = found.map_err(unreadable)?;
    // The output is searched once; lines without room are left out, and the cursor points to them.
    loop {
        let mut found = found.clone();
        let page = PageRequest { max_bytes: fitter.size(), ..page };
        match style {
            ListingStyle::Overview => fit_overview(&mut found, page, fitter.max_lines()),
            ListingStyle::Page => {
                fit_listings(std::iter::once(&mut found), page, fitter.max_lines());
            }
        }
        if let Some(reply) = fitter.accept(matches_reply(now, &found, &search_call, page)) {
            return Ok(reply);
        }
    }
}

/// Searches the output of all jobs, newest job first.
pub(super) async fn in_all_jobs(
    call: ToolCall<'_>,
    grep: Grep,
    page: PageRequest,
    style: ListingStyle,
    mut fitter: ReplyFitter,
) -> Result<ToolReply, ToolError> {
    let jobs = call.client.list().await;
    let search_call = grep.search_call.clone();
    let (found, totals) = search_jobs(call, jobs, grep, page, style).await?;
    let mut all = Vec::with_capacity(found.len());
    for (job, found) in found {
        let now = call.snapshot(&job).await;
        all.push(JobMatches { job: now, command: job.spec().program.display(), found });
    }
    loop {
        let mut shown = all.clone();
        let mut totals = totals.clone();
        let page = PageRequest { max_bytes: fitter.size(), ..page };
        let found = shown.iter_mut().map(|job| &mut job.found);
        let room = fit_listings(found, page, fitter.max_lines());
        let unshown = shown.split_off(room);
        totals.unshown = unshown.iter().map(|job| (job.job.job, job.found.matches)).collect();
        if let Some(reply) = fitter.accept(jobs_reply(&shown, &totals, &search_call, page)) {
            return Ok(reply);
        }
    }
}

/// Returns the jobs with matches, in the order given, with the number of matches; and a remark
/// about jobs that were not searched, if any.
pub(super) async fn count(
    call: ToolCall<'_>,
    jobs: Vec<JobHandle>,
    grep: Grep,
) -> Result<(Vec<(JobHandle, Option<u64>)>, Option<String>), ToolError> {
    let nothing = PageRequest { from: 0, to: u64::MAX, stream: None, max_bytes: 0, max_lines: 1 };
    let (found, totals) = search_jobs(call, jobs, grep, nothing, ListingStyle::Page).await?;
    let counted = found.into_iter().map(|(job, found)| (job, Some(found.matches)));
    Ok((counted.collect(), totals.unsearched()))
}

/// Searches jobs; returns those with matches, in the order given, and the totals. A search of one
/// stream leaves out the jobs whose streams are merged.
async fn search_jobs(
    call: ToolCall<'_>,
    jobs: Vec<JobHandle>,
    grep: Grep,
    page: PageRequest,
    style: ListingStyle,
) -> Result<(Vec<(JobHandle, SearchResult)>, SearchTotals), ToolError> {
    let total = jobs.len();
    let (jobs, merged): (Vec<_>, Vec<_>) =
        jobs.into_iter().partition(|job| job.check_stream(page.stream).is_ok());
    let logs: Vec<LogReader> = jobs.iter().map(|job| job.output().clone()).collect();
    let mut totals = SearchTotals::new(total, merged.len());
    let Some(log) = logs.first() else { return Ok((Vec::new(), totals)) };
    let memory = call.reserve(log, estimate_memory(page)).await?;
    let scan = move |logs: &[BlockingReader], deadline: &_| {
        search_each(logs, &grep.request(page, style), deadline)
    };
    let scanned = call.scan_all(&logs, memory, scan).await;
    let (found, _memory) = scanned.map_err(ToolError::Search)?;
    let pairs = jobs.into_iter().zip(found);
    let matching = pairs.filter_map(|(job, found)| {
        // Unreadable output counts as not searched.
        let found = found.ok()?;
        totals.add(&found);
        (found.matches > 0).then_some((job, found))
    });
    let matching = matching.collect();
    Ok((matching, totals))
}

/// Bytes searched in one step.
const STEP_BYTES: usize = 64 * 1024;

/// A line that matched `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MatchedLine {
    /// The line number, from 1.
    pub(super) line: u64,
    /// The offset at which the line ends, as far as it is written.
    pub(super) end: u64,
}

/// Returns the first matching line with bytes from `from` on, as soon as it is written; `None` if
/// the log is closed without one. Lines are matched as they are displayed, and whole, even if
/// `from` is inside one; an unfinished last line counts too, because a prompt has no newline.
/// Cancel-safe.
pub(super) async fn find_first_match(
    log: &LogReader,
    from: u64,
    pattern: &LinePattern,
) -> io::Result<Option<MatchedLine>> {
    let mut at = log.read_with(move |log| find_line_start(log, from)).await?;
    loop {
        let request = PageRequest {
            from: at,
            to: u64::MAX,
            stream: None,
            max_bytes: STEP_BYTES,
            max_lines: 0,
        };
        let page = log.read_with(move |log| log.read_page(&request)).await?;
        let known = usize::try_from(from.saturating_sub(at)).unwrap_or(usize::MAX);
        if let Some((index, end)) = find_matching_line(&page.bytes, known, pattern) {
            let end = at.saturating_add(end as u64).min(page.end);
            let line = log.read_with(move |log| log.line_at(at)).await? + index;
            return Ok(Some(MatchedLine { line, end }));
        }
        match page.end_kind {
            PageEnd::More => {
                at = page.end;
                // A long log must not keep other tasks waiting.
                tokio::task::yield_now().await;
            }
            PageEnd::Complete => return Ok(None),
            PageEnd::CaughtUp => {
                // The unfinished last line is searched again when more of it arrives.
                let unfinished = page.bytes.rsplit(|byte| *byte == b'\n').next();
                at = page.end - unfinished.map_or(0, |line| line.len() as u64);
                log.wait_past(page.total_bytes).await;
            }
        }
    }
}

/// Returns the start of the line that the byte at `from` belongs to, or will belong to; at most one
/// step before it.
fn find_line_start(log: &BlockingReader, from: u64) -> io::Result<u64> {
    let start = log.offset_of_line(log.line_at(from)?)?.unwrap_or(from);
    Ok(start.clamp(from.saturating_sub(STEP_BYTES as u64), from))
}

/// Returns the index of the first matching line with bytes after the known ones, and the offset at
/// which it ends.
fn find_matching_line(bytes: &[u8], known: usize, pattern: &LinePattern) -> Option<(u64, usize)> {
    let options = views::ViewOptions {
        ansi: views::Ansi::StripLines,
        fold: views::Fold::Off,
        long: views::LongLines::Keep,
    };
    let shown = views::render_text(bytes, options);
    let places = bytes.split(|byte| *byte == b'\n').scan(0, |next, line| {
        let place = *next..*next + line.len();
        *next = place.end + 1;
        Some(place)
    });
    // If a line was seen up to its end, its newline alone is not new output.
    let is_news = |place: &Range<usize>| place.start >= known || place.end > known;
    let mut lines = shown.text.lines().zip(places).zip(0..);
    lines.find_map(|((line, place), index)| {
        (is_news(&place) && pattern.is_match(line.as_bytes())).then_some((index, place.end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{LogStorage, LogWriter, open_log};
    use crate::spec::Stream;

    fn log() -> (LogWriter, LogReader) {
        open_log(&LogStorage { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() })
    }

    async fn line_of(log: &LogReader, from: u64, pattern: &LinePattern) -> Option<u64> {
        find_first_match(log, from, pattern).await.unwrap().map(|matched| matched.line)
    }

    #[tokio::test]
    async fn a_line_is_found_when_its_last_part_arrives() {
        let (mut writer, reader) = log();
        writer.append(Stream::Stdout, b"one\nReady on ");
        let pattern = LinePattern::new("Ready on port").unwrap();
        let waiting =
            tokio::spawn(async move { find_first_match(&reader, 0, &pattern).await.unwrap() });
        tokio::task::yield_now().await;
        writer.append(Stream::Stdout, b"port 80");
        assert_eq!(waiting.await.unwrap(), Some(MatchedLine { line: 2, end: 20 }));
    }

    #[tokio::test]
    async fn output_before_the_cursor_does_not_match() {
        let (mut writer, reader) = log();
        let seen = writer.append(Stream::Stdout, b"ready\n").total_bytes;
        writer.close();
        let pattern = LinePattern::new("ready").unwrap();
        assert_eq!(find_first_match(&reader, seen, &pattern).await.unwrap(), None);
        assert_eq!(line_of(&reader, 0, &pattern).await, Some(1));
    }

    #[tokio::test]
    async fn a_partly_seen_line_matches_once_more_of_it_arrives() {
        let (mut writer, reader) = log();
        let seen = writer.append(Stream::Stdout, b"one\nReady? ").total_bytes;
        let pattern = LinePattern::new("^Ready").unwrap();
        let late = reader.clone();
        let waiting = tokio::spawn(async move { line_of(&late, seen, &pattern).await });
        tokio::task::yield_now().await;
        // The newline alone is not new output.
        writer.append(Stream::Stdout, b"\nmore\nReady again\n");
        assert_eq!(waiting.await.unwrap(), Some(4));
        let pattern = LinePattern::new("gain$").unwrap();
        let inside = reader.progress().total_bytes - 3;
        assert_eq!(line_of(&reader, inside, &pattern).await, Some(4));
        writer.append(Stream::Stdout, b"\n");
        let end = reader.progress().total_bytes - 1;
        assert_eq!(line_of(&reader, end, &LinePattern::new("^$").unwrap()).await, Some(5));
    }

    #[tokio::test]
    async fn a_match_far_inside_a_long_line_counts() {
        let (mut writer, reader) = log();
        writer.append(Stream::Stdout, format!("{}ready\n", "x".repeat(5000)).as_bytes());
        let pattern = LinePattern::new("ready$").unwrap();
        assert_eq!(line_of(&reader, 0, &pattern).await, Some(1));
    }

    #[tokio::test]
    async fn colours_do_not_hide_a_match() {
        let (mut writer, reader) = log();
        writer.append(Stream::Stdout, b"a\nb\n\x1b[32mserver\x1b[0m up\n");
        let pattern = LinePattern::new("^server up$").unwrap();
        assert_eq!(line_of(&reader, 0, &pattern).await, Some(3));
    }
}

//! `grep`: searches the output of one job or of all jobs.

use super::call::ToolCall;
use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::{
    JobMatches, ReplyFitter, SearchCall, SearchTotals, ToolError, ToolReply, fit_listings,
    fit_overview, jobs_reply, matches_reply,
};
use crate::mcp::snapshot::JobSnapshot;
use crate::output::pattern::LinePattern;
use crate::output::search::search_each;
use crate::output::search::{
    ListingStyle, SearchContext, SearchRequest, SearchResult, Select, search,
};
use crate::output::{BlockingReader, LogReader, PageRequest};
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

//! `grep`: searches the output of one job or of all.

use super::call::Call;
use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::{
    Across, Answer, Fit, FoundIn, SearchCall, ToolError, jobs_answer, matches_answer, share,
};
use crate::mcp::snapshot::Snapshot;
use crate::output::pattern::LinePattern;
use crate::output::search::search_each;
use crate::output::search::{SearchRequest, SearchResult, Select, search};
use crate::output::{BlockingReader, LogReader, PageRequest};
use crate::service::JobHandle;

/// The most context lines that can be asked for.
const MAX_CONTEXT: u64 = 100;

/// The memory of a search that lists nothing: blocks of the log, and the tables of its pattern.
const BASE_MEMORY: usize = 2 * 1024 * 1024;
/// The memory for each byte that may be listed: as it was found, as text and in an answer.
const MEMORY_PER_BYTE: usize = 8;

/// The memory that a search takes.
const fn memory_of(page: PageRequest) -> usize {
    BASE_MEMORY + MEMORY_PER_BYTE * page.max_bytes
}

/// What is looked for.
#[derive(Debug, Clone)]
pub(super) struct Grep {
    pattern: LinePattern,
    asked: SearchCall,
}

impl Grep {
    /// Takes `grep` and what goes with it from the arguments of a call.
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
        let context = context.map_or(0, |lines| usize::try_from(lines).unwrap_or(usize::MAX));
        Self::new(SearchCall { pattern, select, context }).map(Some)
    }

    /// Every line that matches, and nothing around it.
    pub(super) fn lines(pattern: &str) -> Result<Self, ToolError> {
        let pattern = pattern.to_owned();
        let select = Select::Matching;
        Self::new(SearchCall { pattern, select, context: 0 })
    }

    fn new(asked: SearchCall) -> Result<Self, ToolError> {
        Ok(Self { pattern: LinePattern::new(&asked.pattern)?, asked })
    }

    fn request(&self, page: PageRequest) -> SearchRequest<'_> {
        SearchRequest {
            pattern: &self.pattern,
            select: self.asked.select,
            stream: page.stream,
            from: page.from,
            context: self.asked.context,
            max_matches: if page.max_lines == 0 { usize::MAX } else { page.max_lines },
            max_bytes: page.max_bytes,
        }
    }
}

/// The lines of one job that are looked for.
pub(super) async fn in_job(
    call: Call<'_>,
    now: &Snapshot,
    log: LogReader,
    grep: Grep,
    page: PageRequest,
    mut fit: Fit,
) -> Result<Answer, ToolError> {
    let asked = grep.asked.clone();
    let memory = call.reserve(&log, memory_of(page)).await?;
    let scan = move |log: &BlockingReader, patience: &_| search(log, &grep.request(page), patience);
    let unreadable = |source| ToolError::Read { job: now.job, source };
    let (found, _memory) = call.scan(&log, memory, scan).await.map_err(unreadable)?;
    let found = found.map_err(unreadable)?;
    // Searched once; what has no room is left out of the listing and found by going on.
    loop {
        let mut found = found.clone();
        share(std::iter::once(&mut found), PageRequest { max_bytes: fit.size(), ..page });
        if let Some(answer) = fit.settle(matches_answer(now, &found, &asked, page)) {
            return Ok(answer);
        }
    }
}

/// The lines of all jobs that are looked for, newest job first.
pub(super) async fn in_all_jobs(
    call: Call<'_>,
    grep: Grep,
    page: PageRequest,
    mut fit: Fit,
) -> Result<Answer, ToolError> {
    let jobs = call.client.list().await;
    let asked = grep.asked.clone();
    let (found, across) = search_jobs(call, jobs, grep, page).await?;
    let mut all = Vec::with_capacity(found.len());
    for (job, found) in found {
        let now = call.look(&job).await;
        all.push(FoundIn { job: now, command: job.spec().program.display(), found });
    }
    loop {
        let mut shown = all.clone();
        let mut across = across.clone();
        let page = PageRequest { max_bytes: fit.size(), ..page };
        let room = share(shown.iter_mut().map(|job| &mut job.found), page);
        let unshown = shown.split_off(room);
        across.unshown = unshown.iter().map(|job| (job.job.job, job.found.matches)).collect();
        if let Some(answer) = fit.settle(jobs_answer(&shown, &across, &asked, page)) {
            return Ok(answer);
        }
    }
}

/// The jobs that have lines which are looked for, in the order given, with how many; and a word
/// on those that were not searched, if any were not.
pub(super) async fn count(
    call: Call<'_>,
    jobs: Vec<JobHandle>,
    grep: Grep,
) -> Result<(Vec<(JobHandle, Option<u64>)>, Option<String>), ToolError> {
    let nothing = PageRequest { from: 0, stream: None, max_bytes: 0, max_lines: 1 };
    let (found, across) = search_jobs(call, jobs, grep, nothing).await?;
    let counted = found.into_iter().map(|(job, found)| (job, Some(found.matches)));
    Ok((counted.collect(), across.unsearched()))
}

/// The jobs in which something was found, in the order given, and how the search went.
async fn search_jobs(
    call: Call<'_>,
    jobs: Vec<JobHandle>,
    grep: Grep,
    page: PageRequest,
) -> Result<(Vec<(JobHandle, SearchResult)>, Across), ToolError> {
    let logs: Vec<LogReader> = jobs.iter().map(|job| job.output().clone()).collect();
    let mut across = Across::of(jobs.len());
    let Some(log) = logs.first() else { return Ok((Vec::new(), across)) };
    let memory = call.reserve(log, memory_of(page)).await?;
    let scan = move |logs: &[BlockingReader], patience: &_| {
        search_each(logs, &grep.request(page), patience)
    };
    let scanned = call.scan_all(&logs, memory, scan).await;
    let (found, _memory) = scanned.map_err(ToolError::Search)?;
    let pairs = jobs.into_iter().zip(found);
    let matching = pairs.filter_map(|(job, found)| {
        // What cannot be read counts as not searched.
        let found = found.ok()?;
        across.note(&found);
        (found.matches > 0).then_some((job, found))
    });
    let matching = matching.collect();
    Ok((matching, across))
}

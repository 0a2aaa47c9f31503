//! Answers to a `grep` over all jobs.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::answer::Answer;
use super::found::{listed, missing, searched, tally};
use super::listing::one_line;
use super::part::Part;
use super::search_call::SearchCall;
use super::verdict::ended;
use super::words::{count, rough, thousands};
use crate::ids::JobId;
use crate::mcp::snapshot::{Snapshot, State};
use crate::output::search::{Found, FoundLine, Select};
use crate::output::{PageEnd, PageRequest};
use crate::spec::Stream;

/// About what the line costs that names a job.
const HEADING_BYTES: usize = 120;
/// About what the number of a line costs.
const NUMBER_BYTES: usize = 8;
/// So many of the jobs without room are named.
const NAMED_JOBS: usize = 20;

/// What was found in one job.
#[derive(Debug, Clone)]
pub(crate) struct FoundIn {
    pub(crate) job: Snapshot,
    pub(crate) command: String,
    pub(crate) found: Found,
}

/// How a search over several jobs went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Across {
    /// Jobs that were to be searched.
    pub(crate) jobs: usize,
    /// Those that were, to their end.
    pub(crate) searched: usize,
    /// Those in which something was found.
    pub(crate) matching: usize,
    /// Lines that were found in all of them.
    pub(crate) matches: u64,
    /// Bytes that were looked at.
    pub(crate) bytes: u64,
    /// Matching jobs for which there was no room, and how much was found in each.
    pub(crate) unshown: Vec<(JobId, u64)>,
}

impl Across {
    /// Before the search of so many jobs.
    pub(crate) const fn of(jobs: usize) -> Self {
        Self { jobs, searched: 0, matching: 0, matches: 0, bytes: 0, unshown: Vec::new() }
    }

    /// Counts what was found in one more job.
    pub(crate) fn note(&mut self, found: &Found) {
        self.searched += usize::from(!found.time_over);
        self.matching += usize::from(found.matches > 0);
        self.matches += found.matches;
        self.bytes += found.searched_to;
    }

    /// That not all jobs were searched, where it is so.
    pub(crate) fn unsearched(&self) -> Option<String> {
        (self.searched < self.jobs).then(|| {
            let jobs = count((self.jobs - self.searched) as u64, "job", "jobs");
            format!("{jobs} not searched to the end, the time was over or they could not be read")
        })
    }
}

/// Cuts listings so that together they fit on a page: first one match of each job while there
/// is room, then the jobs take turns, line by line. Says how many jobs have room.
pub(crate) fn share<'f>(found: impl Iterator<Item = &'f mut Found>, page: PageRequest) -> usize {
    let mut found: Vec<&mut Found> = found.collect();
    let lines = if page.max_lines == 0 { usize::MAX } else { page.max_lines };
    let mut room = Room { bytes: page.max_bytes, lines };
    let mut taken: Vec<usize> = Vec::new();
    for found in &found {
        let first = to_first_match(found);
        let fits = room.take(HEADING_BYTES, 0) && room.take(cost(&found.lines[..first]), first);
        if !fits && !taken.is_empty() {
            break;
        }
        taken.push(first);
    }
    take_turns(&found, &mut taken, &mut room);
    found.iter_mut().zip(&taken).for_each(|(found, taken)| cut(found, *taken));
    taken.len()
}

/// What is still free on a page.
#[derive(Debug)]
struct Room {
    bytes: usize,
    lines: usize,
}

impl Room {
    /// Takes so much, if it is there.
    fn take(&mut self, bytes: usize, lines: usize) -> bool {
        let fits = bytes <= self.bytes && lines <= self.lines;
        if fits {
            self.bytes -= bytes;
            self.lines -= lines;
        }
        fits
    }
}

fn take_turns(found: &[&mut Found], taken: &mut [usize], room: &mut Room) {
    let mut took = true;
    while took {
        took = false;
        for (found, taken) in found.iter().zip(taken.iter_mut()) {
            let Some(line) = found.lines.get(*taken) else { continue };
            if room.take(cost(std::slice::from_ref(line)), 1) {
                *taken += 1;
                took = true;
            }
        }
    }
}

/// How many lines of a listing it takes to show a match.
fn to_first_match(found: &Found) -> usize {
    let before = found.lines.iter().take_while(|line| !line.is_match).count();
    found.lines.len().min(before + 1)
}

fn cost(lines: &[FoundLine]) -> usize {
    lines.iter().map(|line| NUMBER_BYTES + line.text.len()).sum()
}

/// Leaves so many lines of a listing; the rest is found by going on.
fn cut(found: &mut Found, lines: usize) {
    if let Some(first) = found.lines.get(lines) {
        (found.next, found.resume) = (Some(first.offset), first.offset);
        found.end_kind = PageEnd::More;
        found.lines.truncate(lines);
    }
}

/// What was found in all jobs, newest first.
pub(crate) fn jobs_answer(
    shown: &[FoundIn],
    across: &Across,
    asked: &SearchCall,
    page: PageRequest,
) -> Answer {
    let parts = shown.iter().map(|found| part(found, asked.select, page)).collect();
    let answer = Answer::several(Some(headline(across, asked.select)), parts)
        .with_hint(hint(shown, across, asked, page.stream))
        .with_field("matches", across.matches)
        .with_field("matching_jobs", across.matching)
        .with_field("searched_jobs", across.searched)
        .with_field("searched_bytes", across.bytes);
    let unshown: Vec<Value> = across
        .unshown
        .iter()
        .take(NAMED_JOBS)
        .map(|(job, matches)| json!({"job": job.number(), "matches": matches}))
        .collect();
    let unsearched = across.jobs - across.searched;
    let more = [
        ("unshown_jobs", !unshown.is_empty(), Value::from(unshown)),
        ("unsearched_jobs", unsearched > 0, unsearched.into()),
    ];
    more.into_iter()
        .filter(|(_, applies, _)| *applies)
        .fold(answer, |answer, (name, _, value)| answer.with_field(name, value))
}

/// `7 lines match, in 2 of 5 jobs`.
fn headline(across: &Across, select: Select) -> String {
    let verb = match (select, across.matches) {
        (Select::Matching, 1) => "matches",
        (Select::Matching, _) => "match",
        (Select::Others, 1) => "does not match",
        (Select::Others, _) => "do not match",
    };
    let lines = count(across.matches, "line", "lines");
    let jobs = count(across.jobs as u64, "job", "jobs");
    let said = format!("{lines} {verb}, in {} of {jobs}", thousands(across.matching as u64));
    [Some(said), across.unsearched()].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn part(in_job: &FoundIn, select: Select, page: PageRequest) -> Part {
    let FoundIn { job, command, found } = in_job;
    let mut names = JsonObject::new();
    names.insert("command".into(), command.as_str().into());
    names.insert("matches".into(), found.matches.into());
    names.insert("searched_bytes".into(), found.searched_to.into());
    let heading = [
        Some(format!("job {}", job.job)),
        Some(state(job)),
        Some(one_line(command)),
        Some(tally(found, select, page)),
        searched(job, found),
        missing(found),
    ];
    let heading: Vec<String> = heading.into_iter().flatten().collect();
    Part::found(job, heading.join(" · "), &listed(found, page), names)
}

fn state(job: &Snapshot) -> String {
    match &job.state {
        State::Queued(_) => "queued".to_owned(),
        State::Running(_) => format!("running {}", rough(job.elapsed)),
        State::Stopping => "stopping".to_owned(),
        State::Finished(ending) => ended(job, ending),
    }
}

/// How to see what there was no room for.
fn hint(
    shown: &[FoundIn],
    across: &Across,
    asked: &SearchCall,
    stream: Option<Stream>,
) -> Option<String> {
    let unshown = across.unshown.first().map(|(first, _)| {
        let named = across.unshown.iter().take(NAMED_JOBS);
        let named: Vec<String> =
            named.map(|(job, matches)| format!("{job} ({})", thousands(*matches))).collect();
        let dots = if across.unshown.len() > NAMED_JOBS { ", …" } else { "" };
        let jobs = count(across.unshown.len() as u64, "more job matches", "more jobs match");
        let named = named.join(", ");
        format!("{jobs}: {named}{dots}: {}", asked.on(*first, stream, None))
    });
    let mut cut = shown.iter().filter_map(|found| Some((found.job.job, found.found.next?)));
    let more = cut.next().map(|(job, next)| {
        let others: Vec<String> = cut
            .take(NAMED_JOBS)
            .map(|(job, next)| format!(", job={job} cursor=\"bytes:{next}\""))
            .collect();
        format!("more: {}{}", asked.on(job, stream, Some(next)), others.concat())
    });
    let said: Vec<String> = unshown.into_iter().chain(more).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: usize, bytes: usize) -> Found {
        let line = |number: u64| {
            let text = vec![b'x'; bytes];
            FoundLine { number, offset: number * 1000, is_match: true, text }
        };
        Found {
            lines: (1..=lines as u64).map(line).collect(),
            matches: lines as u64,
            searched_lines: lines as u64,
            searched_to: 0,
            time_over: false,
            missing_bytes: 0,
            next: None,
            resume: 0,
            end_kind: PageEnd::Complete,
        }
    }

    #[track_caller]
    fn check(mut jobs: Vec<Found>, max_bytes: usize, max_lines: usize, expected: &[usize]) {
        let page = PageRequest { from: 0, stream: None, max_bytes, max_lines };
        let room = share(jobs.iter_mut(), page);
        let lines: Vec<usize> = jobs[..room].iter().map(|found| found.lines.len()).collect();
        assert_eq!(lines, expected);
        for (found, lines) in jobs.iter().zip(lines) {
            let is_cut = lines < found.matches as usize;
            assert_eq!(found.next, is_cut.then_some((lines as u64 + 1) * 1000));
            assert_eq!(found.end_kind == PageEnd::More, is_cut);
        }
    }

    #[test]
    fn jobs_share_a_page_fairly_and_the_newest_is_always_there() {
        check(vec![found(3, 10), found(2, 10)], 10_000, 0, &[3, 2]);
        check(vec![found(1000, 92), found(2, 92), found(1000, 92)], 1360, 0, &[4, 2, 4]);
        check(vec![found(5, 92), found(5, 92)], 230, 0, &[1]);
        check(vec![found(5, 500), found(5, 10)], 100, 0, &[1]);
        check(vec![found(5, 10), found(5, 10), found(5, 10)], 10_000, 5, &[2, 2, 1]);
        check(vec![], 100, 0, &[]);
    }
}

//! `list_jobs`: lists the jobs, newest first.

use std::collections::HashSet;

use rmcp::model::JsonObject;

use super::call::ToolCall;
use super::search;
use super::search::Grep;
use crate::ids::JobId;
use crate::mcp::args::{ArgKind, ArgSpec, Args, ToolEffect, ToolSpec};
use crate::mcp::reply::{
    JobCounts, ReplyPart, ToolError, ToolReply, client_fields, clipped, list_headline, list_line,
};
use crate::service::{JobHandle, JobPhase};

const DEFAULT_LIMIT: u64 = 20;
const MAX_LIMIT: u64 = 200;

pub(in crate::mcp) const SPEC: ToolSpec = ToolSpec {
    name: "list_jobs",
    about: "Lists jobs, newest first, each with its state, the age of its last output, and its \
            place in the queue.",
    effect: ToolEffect::Reads,
    fields: &[
        ArgSpec::optional(
            "state",
            ArgKind::Choice(&["queued", "running", "stopping", "finished", "all"]),
            "Default all",
        ),
        ArgSpec::optional("text", ArgKind::Text, "Only where command or description has this"),
        ArgSpec::optional("grep", ArgKind::Text, "Only where output matches this regex"),
        ArgSpec::optional("limit", ArgKind::Whole, "Default 20"),
    ],
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobGroup {
    Queued,
    /// Running or being stopped.
    Running,
    Finished,
}

/// The filter of the `state` argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StateFilter {
    All,
    Group(JobGroup),
    /// Jobs that are being stopped.
    Stopping,
}

impl StateFilter {
    /// `true` if the filter selects a job in this phase. A finished job of which processes still run
    /// (`survives`) is both finished and running.
    fn accepts(self, phase: &JobPhase, survives: bool) -> bool {
        match self {
            Self::All => true,
            Self::Group(JobGroup::Running) if survives => true,
            Self::Group(group) => group == find_group(phase),
            Self::Stopping => matches!(phase, JobPhase::Stopping),
        }
    }
}

const STATES: [(&str, StateFilter); 5] = [
    ("queued", StateFilter::Group(JobGroup::Queued)),
    ("running", StateFilter::Group(JobGroup::Running)),
    ("stopping", StateFilter::Stopping),
    ("finished", StateFilter::Group(JobGroup::Finished)),
    ("all", StateFilter::All),
];

pub(in crate::mcp) async fn call(
    call: ToolCall<'_>,
    mut args: Args,
) -> Result<ToolReply, ToolError> {
    let filter = args.choice("state", &STATES)?.unwrap_or(StateFilter::All);
    let text = args.text("text")?.map(|text| text.to_lowercase());
    let grep = args.text("grep")?.as_deref().map(Grep::lines).transpose()?;
    let limit = args.whole("limit", 1..=MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
    let jobs = call.client.list().await;
    let surviving = find_surviving(jobs.clone()).await;
    let counts = count_jobs(&jobs, surviving.len());
    let is_selected = |job: &JobHandle| {
        filter.accepts(&job.status().phase, surviving.contains(&job.id()))
            && text.as_deref().is_none_or(|text| contains_text(job, text))
    };
    let selected = jobs.into_iter().filter(is_selected).collect();
    let (matching, unsearched) = match grep {
        Some(grep) => search::count(call, selected, grep).await?,
        None => (selected.into_iter().map(|job| (job, None)).collect(), None),
    };
    let shown = &matching[..matching.len().min(usize::try_from(limit).unwrap_or(usize::MAX))];
    let mut parts = Vec::with_capacity(shown.len());
    for (job, matches) in shown {
        parts.push(build_part(call, job).await.with_matches(*matches));
    }
    let build_reply = |parts: &[ReplyPart]| {
        let headline = list_headline(counts, parts.len(), matching.len());
        let headline = std::iter::once(headline).chain(unsearched.clone()).collect::<Vec<_>>();
        let more = if parts.len() < shown.len() {
            Some("no room for more: narrow it with state or text".to_owned())
        } else {
            (shown.len() < matching.len()).then(|| {
                format!("more: list_jobs(limit={MAX_LIMIT}), or narrow it with state or text")
            })
        };
        ToolReply::for_jobs(Some(headline.join(" · ")), parts.to_vec()).with_hint(more)
    };
    let mut fitter = call.fitter(&build_reply(&[]));
    loop {
        let sizes = parts.iter().map(|part| part.size(call.settings.result_format));
        let fitting = count_fitting(sizes, fitter.size());
        if let Some(reply) = fitter.accept(build_reply(&parts[..fitting])) {
            return Ok(reply);
        }
    }
}

/// Returns how many sizes, from the first on, add up to at most `room`.
fn count_fitting(sizes: impl Iterator<Item = usize>, room: usize) -> usize {
    let mut left = room;
    sizes.take_while(|size| left.checked_sub(*size).map(|rest| left = rest).is_some()).count()
}

async fn build_part(call: ToolCall<'_>, job: &JobHandle) -> ReplyPart {
    let now = call.snapshot(job).await;
    let spec = job.spec();
    let command = spec.program.display();
    let mut names = JsonObject::new();
    if let Some(description) = &spec.description {
        names.insert("description".into(), clipped(description).into());
    }
    // Who started a job matters where several clients share the server.
    let other = Some(&spec.client).filter(|client| **client != call.client.caller().job_client());
    names.extend(other.map(client_fields).unwrap_or_default());
    let line = list_line(&now, &command, spec.description.as_deref(), other);
    names.insert("command".into(), clipped(&command).into());
    ReplyPart::for_list(&now, line, names)
}

const fn find_group(phase: &JobPhase) -> JobGroup {
    match phase {
        JobPhase::Queued => JobGroup::Queued,
        JobPhase::Running | JobPhase::Stopping => JobGroup::Running,
        JobPhase::Finished(_) => JobGroup::Finished,
    }
}

/// Returns the finished jobs of which processes still run. Looking at processes may take a while, so
/// a blocking thread does it, once for each job.
async fn find_surviving(jobs: Vec<JobHandle>) -> HashSet<JobId> {
    let find = move || jobs.iter().filter(|job| job.has_survivors()).map(JobHandle::id).collect();
    tokio::task::spawn_blocking(find).await.unwrap_or_default()
}

fn count_jobs(jobs: &[JobHandle], surviving: usize) -> JobCounts {
    let mut counts = JobCounts { surviving, ..JobCounts::default() };
    for job in jobs {
        match find_group(&job.status().phase) {
            JobGroup::Queued => counts.queued += 1,
            JobGroup::Running => counts.running += 1,
            JobGroup::Finished => counts.finished += 1,
        }
    }
    counts
}

fn contains_text(job: &JobHandle, text: &str) -> bool {
    let spec = job.spec();
    let contains = |words: &str| words.to_lowercase().contains(text);
    contains(&spec.program.display()) || spec.description.as_deref().is_some_and(contains)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{JobEnding, Outcome};

    #[test]
    fn a_job_is_listed_in_each_of_its_states() {
        let finished = JobPhase::Finished(JobEnding::unmeasured(Outcome::Exited { code: 0 }));
        for (phase, survives, expected) in [
            (JobPhase::Stopping, false, &["running", "stopping", "all"][..]),
            (JobPhase::Running, false, &["running", "all"]),
            (finished.clone(), false, &["finished", "all"]),
            (finished, true, &["running", "finished", "all"]),
        ] {
            let is_listed = |(_, filter): &&(&str, StateFilter)| filter.accepts(&phase, survives);
            let words: Vec<&str> = STATES.iter().filter(is_listed).map(|(word, _)| *word).collect();
            assert_eq!(words, expected, "{phase:?}");
        }
    }

    #[test]
    fn the_schema_lists_all_states() {
        let ArgKind::Choice(words) = SPEC.fields[0].kind else { panic!("state is a choice") };
        assert_eq!(words, STATES.map(|(word, _)| word));
    }
}

//! `list_jobs`: which jobs there are, newest first.

use rmcp::model::JsonObject;

use super::call::Call;
use super::search;
use super::search::Grep;
use crate::mcp::args::Args;
use crate::mcp::reply::{Answer, Counts, Part, ToolError, clipped, list_headline, list_line};
use crate::mcp::schema::{Effect, Field, Kind, ToolSpec};
use crate::service::{JobHandle, Phase};

const DEFAULT_LIMIT: u64 = 20;
const MAX_LIMIT: u64 = 200;

pub(in crate::mcp) const SPEC: ToolSpec = ToolSpec {
    name: "list_jobs",
    about: "Lists jobs, newest first, each with its state, the age of its last output, and its \
            place in the queue.",
    effect: Effect::Reads,
    fields: &[
        Field::optional(
            "state",
            Kind::Choice(&["queued", "running", "stopping", "finished", "all"]),
            "Default all",
        ),
        Field::optional("text", Kind::Text, "Only where command or description has this"),
        Field::optional("grep", Kind::Text, "Only where output matches this regex"),
        Field::optional("limit", Kind::Whole, "Default 20"),
    ],
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Queued,
    /// It runs, or is being ended.
    Running,
    Finished,
}

/// Which jobs are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    All,
    Group(Group),
    /// Those that are being ended.
    Stopping,
}

impl Wanted {
    fn takes(self, phase: &Phase) -> bool {
        match self {
            Self::All => true,
            Self::Group(group) => group == group_of(phase),
            Self::Stopping => matches!(phase, Phase::Stopping),
        }
    }
}

const STATES: [(&str, Wanted); 5] = [
    ("queued", Wanted::Group(Group::Queued)),
    ("running", Wanted::Group(Group::Running)),
    ("stopping", Wanted::Stopping),
    ("finished", Wanted::Group(Group::Finished)),
    ("all", Wanted::All),
];

pub(in crate::mcp) async fn call(call: Call<'_>, mut args: Args) -> Result<Answer, ToolError> {
    let wanted = args.choice("state", &STATES)?.unwrap_or(Wanted::All);
    let text = args.text("text")?.map(|text| text.to_lowercase());
    let grep = args.text("grep")?.as_deref().map(Grep::lines).transpose()?;
    let limit = args.whole("limit", 1..=MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
    let jobs = call.client.list().await;
    let counts = count(&jobs);
    let is_wanted = |job: &JobHandle| {
        wanted.takes(&job.status().phase) && text.as_deref().is_none_or(|text| says(job, text))
    };
    let wanted = jobs.into_iter().filter(is_wanted).collect();
    let (matching, unsearched) = match grep {
        Some(grep) => search::count(call, wanted, grep).await?,
        None => (wanted.into_iter().map(|job| (job, None)).collect(), None),
    };
    let shown = &matching[..matching.len().min(usize::try_from(limit).unwrap_or(usize::MAX))];
    let mut parts = Vec::with_capacity(shown.len());
    for (job, matches) in shown {
        parts.push(part(call, job).await.with_matches(*matches));
    }
    let answer = |parts: &[Part]| {
        let headline = list_headline(counts, parts.len(), matching.len());
        let headline = std::iter::once(headline).chain(unsearched.clone()).collect::<Vec<_>>();
        let more = if parts.len() < shown.len() {
            Some("no room for more: narrow it with state or text".to_owned())
        } else {
            (shown.len() < matching.len()).then(|| {
                format!("more: list_jobs(limit={MAX_LIMIT}), or narrow it with state or text")
            })
        };
        Answer::several(Some(headline.join(" · ")), parts.to_vec()).with_hint(more)
    };
    let mut fit = call.fit(&answer(&[]));
    loop {
        let sizes = parts.iter().map(|part| part.size(call.settings.result_format));
        let fitting = how_many(sizes, fit.size());
        if let Some(answer) = fit.settle(answer(&parts[..fitting])) {
            return Ok(answer);
        }
    }
}

/// How many of the first sizes have room together.
fn how_many(sizes: impl Iterator<Item = usize>, room: usize) -> usize {
    let mut left = room;
    sizes.take_while(|size| left.checked_sub(*size).map(|rest| left = rest).is_some()).count()
}

async fn part(call: Call<'_>, job: &JobHandle) -> Part {
    let now = call.look(job).await;
    let spec = job.spec();
    let command = spec.program.display();
    let mut names = JsonObject::new();
    if let Some(description) = &spec.description {
        names.insert("description".into(), clipped(description).into());
    }
    let line = list_line(&now, &command, spec.description.as_deref());
    names.insert("command".into(), clipped(&command).into());
    Part::listed(&now, line, names)
}

const fn group_of(phase: &Phase) -> Group {
    match phase {
        Phase::Queued => Group::Queued,
        Phase::Running | Phase::Stopping => Group::Running,
        Phase::Finished(_) => Group::Finished,
    }
}

fn count(jobs: &[JobHandle]) -> Counts {
    let mut counts = Counts::default();
    for job in jobs {
        match group_of(&job.status().phase) {
            Group::Queued => counts.queued += 1,
            Group::Running => counts.running += 1,
            Group::Finished => counts.finished += 1,
        }
    }
    counts
}

fn says(job: &JobHandle, text: &str) -> bool {
    let spec = job.spec();
    let says = |words: &str| words.to_lowercase().contains(text);
    says(&spec.program.display()) || spec.description.as_deref().is_some_and(says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_is_being_ended_is_found_as_such_and_among_those_that_run() {
        let taken: Vec<&str> = STATES
            .iter()
            .filter(|(_, wanted)| wanted.takes(&Phase::Stopping))
            .map(|(word, _)| *word)
            .collect();
        assert_eq!(taken, ["running", "stopping", "all"]);
        assert!(!Wanted::Stopping.takes(&Phase::Running));
    }

    #[test]
    fn the_words_listed_are_the_words_there_are() {
        let Kind::Choice(words) = SPEC.fields[0].kind else { panic!("state is a choice") };
        assert_eq!(words, STATES.map(|(word, _)| word));
    }
}

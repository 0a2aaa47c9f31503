//! `wait_jobs`: the one call that blocks on running work.

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use super::call::Call;
use super::place::{offset_of, place_of_cursor};
use super::until::first_match;
use crate::ids::{JobId, JobNumber};
use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::{
    Answer, Part, Shown, TokenBudget, ToolError, after_job, no_room, progress_line, shares, show,
    show_from, wait_for_jobs,
};
use crate::mcp::schema::{Effect, Field, Kind, ToolSpec};
use crate::mcp::snapshot::Snapshot;
use crate::mcp::wait::{WaitEnd, wait_for};
use crate::output::excerpt::Budget;
use crate::output::pattern::Pattern;
use crate::yard::JobHandle;

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: "wait_jobs",
    about: "Waits until jobs end, or until a line of output matches a regex. Answers with each \
            job's verdict, and with the output of those that ended or matched. When the wait is \
            over, jobs go on.",
    effect: Effect::Reads,
    fields: &[
        Field::required("jobs", Kind::Jobs, ""),
        Field::optional("mode", Kind::Choice(&["any", "all"]), "Default any"),
        Field::optional(
            "until",
            Kind::Text,
            "Regex for a line of output (from cursor, else from the start)",
        ),
        Field::optional("wait_s", Kind::Seconds, "Default 30"),
        Field::optional("cursor", Kind::Text, "Output is new from here (one job only)"),
        Field::optional("max_tokens", Kind::From(*TokenBudget::BOUNDS.start()), "Of the answer"),
    ],
};

/// A smaller share of the room than this says less than it takes to say where it lies.
const WORTH_SHOWING: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Any,
    All,
}

pub(super) async fn call(call: Call<'_>, args: Args) -> Result<Answer, ToolError> {
    let wish = Wish::read(args)?;
    let (known, missing) = find(call, &wish.jobs).await;
    if known.is_empty() {
        return Ok(Answer::several(None, missing).failed());
    }
    let waits = known
        .iter()
        .map(|job| Wait::new(job, wish.cursor.as_deref()))
        .collect::<Result<Vec<_>, _>>()?;
    let events = waits.iter().map(|wait| wait.event(wish.until.as_ref())).collect();
    let event = settled(wish.mode, events);
    let settled = match wait_for(call, call.wait(wish.wait), event, || progress_line(&known)).await
    {
        WaitEnd::Done(settled) => settled,
        WaitEnd::Over | WaitEnd::Cancelled => Vec::new(),
    };
    answer(call, &waits, &settled, missing).await
}

/// The jobs that are there, and what to say about those that are not.
async fn find(call: Call<'_>, jobs: &[JobNumber]) -> (Vec<JobHandle>, Vec<Part>) {
    let (mut known, mut missing) = (Vec::new(), Vec::new());
    for job in jobs {
        match call.desk.find(call.desk.job(*job)).await {
            Ok(job) => known.push(job),
            Err(unknown) => missing.push(Part::missing(&unknown)),
        }
    }
    (known, missing)
}

async fn answer(
    call: Call<'_>,
    waits: &[Wait<'_>],
    settled: &[Settled],
    missing: Vec<Part>,
) -> Result<Answer, ToolError> {
    let mut looks = Vec::new();
    for (index, wait) in waits.iter().enumerate() {
        let line = settled.iter().find(|event| event.index == index).and_then(|event| event.line);
        looks.push(Look { wait, now: call.look(wait.job).await, line });
    }
    let bare = looks.iter().map(|look| look.part(None)).chain(missing.iter().cloned()).collect();
    let mut fit = call.fit(&Answer::several(None, bare).with_hint(hint(&looks, &[], None)));
    let wants: Vec<usize> = looks.iter().map(Look::wants).collect();
    loop {
        let (mut parts, mut unshown, mut next) = (Vec::new(), Vec::new(), None);
        for (look, share) in looks.iter().zip(shares(&wants, fit.size())) {
            let shown = if share < look.wants().min(WORTH_SHOWING) {
                unshown.push(look.now.job);
                None
            } else {
                look.wait.shown(&look.now, look.line, fit.excerpt_of(share)).await?
            };
            next = after_job(&look.now, shown.as_ref());
            parts.push(look.part(shown.as_ref()));
        }
        parts.extend(missing.iter().cloned());
        let hint = hint(&looks, &unshown, next);
        if let Some(answer) = fit.settle(Answer::several(None, parts).with_hint(hint)) {
            return Ok(answer);
        }
    }
}

/// What to do next: with one job what it takes, with several how to wait for those that go on.
fn hint(looks: &[Look<'_>], unshown: &[JobId], next: Option<String>) -> Option<String> {
    let open = looks.iter().filter(|look| look.now.ending().is_none()).map(|look| look.now.job);
    let next = match looks {
        [_] => next,
        _ => wait_for_jobs(&open.collect::<Vec<_>>()),
    };
    no_room(unshown, next)
}

/// One job that was waited for, as it is when the wait is over.
struct Look<'a> {
    wait: &'a Wait<'a>,
    now: Snapshot,
    /// The line that matched.
    line: Option<u64>,
}

impl Look<'_> {
    fn part(&self, shown: Option<&Shown>) -> Part {
        Part::job(&self.now, shown).with_match(self.line)
    }

    /// How much of the answer its output would take, if all of it were shown.
    fn wants(&self) -> usize {
        let total = self.now.output.total_bytes;
        let from = match self.wait.since {
            Some(since) => since,
            None if self.now.ending().is_some() || self.line.is_some() => 0,
            None => return 0,
        };
        // JSON may double it, and so may text in another character set.
        let most = total.saturating_sub(from).saturating_mul(2);
        usize::try_from(most).unwrap_or(usize::MAX)
    }
}

/// What a call asks for.
struct Wish {
    jobs: Vec<JobNumber>,
    mode: Mode,
    until: Option<Pattern>,
    wait: Option<Duration>,
    cursor: Option<String>,
}

impl Wish {
    fn read(mut args: Args) -> Result<Self, ToolError> {
        let jobs = args.jobs("jobs")?;
        let cursor = args.text_or_number("cursor")?;
        if jobs.is_empty() {
            return Err(
                ArgError::Conflict("`jobs` is empty; name at least one, such as [12]").into()
            );
        }
        if cursor.is_some() && jobs.len() > 1 {
            return Err(ArgError::Conflict(
                "`cursor` goes with one job; name one, or leave it out",
            )
            .into());
        }
        let modes = [("any", Mode::Any), ("all", Mode::All)];
        Ok(Self {
            jobs,
            mode: args.choice("mode", &modes)?.unwrap_or(Mode::Any),
            until: args.text("until")?.as_deref().map(Pattern::new).transpose()?,
            wait: args.seconds("wait_s")?,
            cursor,
        })
    }
}

/// One job that is waited for.
struct Wait<'a> {
    job: &'a JobHandle,
    /// Where new output starts, if the caller says so.
    since: Option<u64>,
}

/// The job at `index` ended, or a line of it matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Settled {
    index: usize,
    line: Option<u64>,
}

type Event<'a> = Pin<Box<dyn Future<Output = Option<u64>> + Send + 'a>>;

impl<'a> Wait<'a> {
    fn new(job: &'a JobHandle, cursor: Option<&str>) -> Result<Self, ToolError> {
        let place = cursor.map(|cursor| place_of_cursor(cursor, job)).transpose()?;
        let since = place.map(|place| offset_of(place, job.output()));
        Ok(Self { job, since })
    }

    /// Over once the job ended or a line of it matched; gives that line.
    fn event<'b>(&'b self, until: Option<&'b Pattern>) -> Event<'b> {
        Box::pin(async move {
            let Some(pattern) = until else {
                self.job.finished().await;
                return None;
            };
            // Without a cursor from the start: the line may have been written before the call.
            let from = self.since.unwrap_or(0);
            tokio::select! {
                // First, so that a job's last words are matched before its end is seen. A log
                // that cannot be read matches nothing: its job still ends.
                biased;
                Ok(Some(line)) = first_match(self.job.output(), from, pattern) => Some(line),
                _ = self.job.finished() => None,
            }
        })
    }

    /// What of its output is shown: of a job that neither ended nor matched, only what the
    /// caller has not seen.
    async fn shown(
        &self,
        now: &Snapshot,
        line: Option<u64>,
        budget: Budget,
    ) -> Result<Option<Shown>, ToolError> {
        match self.since {
            Some(since) => show_from(now, self.job.output(), since, budget).await.map(Some),
            None if now.ending().is_some() || line.is_some() => {
                show(now, self.job.output(), budget).await
            }
            None => Ok(None),
        }
    }
}

/// Waits for any or for all of the events, and says which came.
async fn settled(mode: Mode, events: Vec<Event<'_>>) -> Vec<Settled> {
    match mode {
        Mode::Any => {
            let (line, index, _) = select_all(events).await;
            vec![Settled { index, line }]
        }
        Mode::All => {
            let lines = join_all(events).await;
            lines.into_iter().enumerate().map(|(index, line)| Settled { index, line }).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use serde_json::{Value, json};

    use super::*;

    fn event<'a>(event: impl Future<Output = Option<u64>> + Send + 'a) -> Event<'a> {
        Box::pin(event)
    }

    fn refused(given: Value) -> String {
        let args = Args::new(given.as_object().cloned(), SPEC.fields).unwrap();
        Wish::read(args).err().unwrap().to_string()
    }

    #[tokio::test]
    async fn any_returns_with_the_first_and_all_with_the_last() {
        let events = vec![event(pending()), event(ready(Some(7)))];
        assert_eq!(settled(Mode::Any, events).await, [Settled { index: 1, line: Some(7) }]);
        let events = vec![event(ready(None)), event(ready(Some(7)))];
        assert_eq!(settled(Mode::All, events).await.len(), 2);
    }

    #[test]
    fn what_cannot_be_waited_for_is_refused() {
        assert!(refused(json!({"jobs": []})).contains("at least one"));
        assert!(refused(json!({"jobs": [1, 2], "cursor": "bytes:0"})).contains("one job"));
        assert!(refused(json!({"jobs": [1], "mode": "some"})).contains("one of any, all"));
        assert!(refused(json!({"jobs": [1], "until": "("})).contains("unclosed group"));
    }
}

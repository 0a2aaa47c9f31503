//! `wait_jobs`: the one call that blocks on running work.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::call::Call;
use super::wait_event::{Mode, Settled, Sign, Signs, Wait, listened_on, settled};
use crate::ids::{JobId, JobNumber};
use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::{
    Answer, Listening, Part, Shown, TokenBudget, ToolError, VainWait, after_job, no_room,
    progress_line, shares, wait_for_jobs,
};
use crate::mcp::schema::{Effect, Field, Kind, ToolSpec};
use crate::mcp::snapshot::Snapshot;
use crate::mcp::wait::{WaitEnd, wait_for};
use crate::output::pattern::Pattern;
use crate::yard::JobHandle;

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: "wait_jobs",
    about: "Waits until jobs end, or for what comes first of: a line of output that matches until, \
            a TCP port that listens, quiet. Answers with each job's verdict, and with the output \
            of those that ended or matched. When the wait is over, jobs go on.",
    effect: Effect::Reads,
    fields: &[
        Field::required("jobs", Kind::Jobs, ""),
        Field::optional("mode", Kind::Choice(&["any", "all"]), "Default any"),
        Field::optional(
            "until",
            Kind::Text,
            "Regex for a line not yet shown by a wait or read, or from cursor",
        ),
        Field::optional("port", Kind::From(*PORTS.start()), "On this host"),
        Field::optional("quiet_s", Kind::Seconds, "No output for so long"),
        Field::optional("wait_s", Kind::Seconds, "Default 30"),
        Field::optional("cursor", Kind::Text, "Output is new from here (one job only)"),
        Field::optional("max_tokens", Kind::From(*TokenBudget::BOUNDS.start()), ""),
    ],
};

/// A smaller share of the room than this says less than it takes to say where it lies.
const WORTH_SHOWING: usize = 200;

/// What can be listened on.
const PORTS: RangeInclusive<u64> = 1..=65_535;

/// What a wait brought.
enum News {
    Jobs(Vec<Settled>),
    Port(Listening),
    Nothing,
}

pub(super) async fn call(call: Call<'_>, args: Args) -> Result<Answer, ToolError> {
    let wish = Wish::read(args)?;
    let (known, missing) = find(call, &wish.jobs).await;
    if known.is_empty() {
        return Ok(Answer::several(None, missing).failed());
    }
    let mut waits = Vec::with_capacity(known.len());
    for job in &known {
        waits.push(Wait::new(call.desk, job, wish.cursor.as_deref()).await?);
    }
    let limit = call.wait(wish.wait);
    let (news, vain) = match wait(call, &wish, &waits, limit).await {
        WaitEnd::Done(news) => {
            call.desk.waited_well(&ids(&known));
            (news, None)
        }
        WaitEnd::Over => {
            let in_a_row = call.desk.waited_in_vain(&ids(&known));
            let cut_to = wish.wait.filter(|asked| *asked > limit).map(|_| limit);
            let looked_from = looked_from(&wish, &waits);
            (News::Nothing, Some(VainWait { in_a_row, cut_to, looked_from }))
        }
        WaitEnd::Cancelled => (News::Nothing, None),
    };
    let (settled, listening) = match news {
        News::Jobs(settled) => (settled, Listening::No),
        News::Port(listening) => (Vec::new(), listening),
        News::Nothing => (Vec::new(), Listening::No),
    };
    let answer = answer(call, &waits, &settled, Rest { missing, vain }).await?;
    Ok(match wish.port {
        Some(port) => answer.with_port(port, listening),
        None => answer,
    })
}

/// Waits for the first that comes of all that is asked for.
async fn wait(call: Call<'_>, wish: &Wish, waits: &[Wait<'_>], limit: Duration) -> WaitEnd<News> {
    // Looked at before the wait, which may be none: who listened already is no news of the job.
    if let Some(port) = wish.port
        && call.desk.is_listened_on(port).await
    {
        return WaitEnd::Done(News::Port(Listening::Already));
    }
    let events = waits.iter().map(|wait| wait.event(&wish.signs)).collect();
    let event = async {
        tokio::select! {
            biased;
            settled = settled(wish.mode, events) => News::Jobs(settled),
            () = listened_on(call.desk, wish.port) => News::Port(Listening::Now),
        }
    };
    wait_for(call, limit, event, || progress_line(waits.iter().map(|wait| wait.job))).await
}

/// Where a line was looked for in the one job, where that is not all of its output.
fn looked_from(wish: &Wish, waits: &[Wait<'_>]) -> Option<u64> {
    match waits {
        [wait] if wish.signs.until.is_some() && wait.since.is_none() => {
            Some(wait.from).filter(|from| *from > 0)
        }
        _ => None,
    }
}

fn ids(jobs: &[JobHandle]) -> Vec<JobId> {
    jobs.iter().map(JobHandle::id).collect()
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
    rest: Rest,
) -> Result<Answer, ToolError> {
    let Rest { missing, vain } = rest;
    let mut looks = Vec::new();
    for (index, wait) in waits.iter().enumerate() {
        let sign = settled.iter().find(|event| event.index == index).map(|event| event.sign);
        looks.push(Look { wait, now: call.look(wait.job).await, sign });
    }
    let bare = looks.iter().map(|look| look.part(None)).chain(missing.iter().cloned()).collect();
    let mut fit = call.fit(&Answer::several(None, bare).with_hint(hint(&looks, &[], None, vain)));
    let wants: Vec<usize> = looks.iter().map(Look::wants).collect();
    loop {
        let (mut parts, mut unshown, mut next) = (Vec::new(), Vec::new(), None);
        let mut told = Vec::new();
        for (look, share) in looks.iter().zip(shares(&wants, fit.size())) {
            let shown = if share < look.wants().min(WORTH_SHOWING) {
                unshown.push(look.now.job);
                None
            } else {
                look.wait.shown(&look.now, look.sign, fit.excerpt_of(share)).await?
            };
            next = after_job(&look.now, shown.as_ref());
            parts.push(look.part(shown.as_ref()));
            told.push((look, shown));
        }
        parts.extend(missing.iter().cloned());
        let hint = hint(&looks, &unshown, next, vain);
        if let Some(answer) = fit.settle(Answer::several(None, parts).with_hint(hint)) {
            told.iter().for_each(|(look, shown)| look.tell(call, shown.as_ref()));
            return Ok(answer);
        }
    }
}

/// What an answer says beside how the jobs stand that are there.
struct Rest {
    missing: Vec<Part>,
    /// That the wait brought nothing.
    vain: Option<VainWait>,
}

/// What to do next: with one job what it takes, with several how to wait for those that go on.
fn hint(
    looks: &[Look<'_>],
    unshown: &[JobId],
    next: Option<String>,
    vain: Option<VainWait>,
) -> Option<String> {
    let open = looks.iter().filter(|look| look.now.ending().is_none()).map(|look| look.now.job);
    let open: Vec<JobId> = open.collect();
    let next = match looks {
        [_] => next,
        _ => wait_for_jobs(&open),
    };
    let next = match vain {
        // How to answer it helps more than not to wait.
        Some(_) if looks.iter().any(|look| look.now.waits_for_input()) => next,
        Some(vain) => vain.said(&open, next),
        None => next,
    };
    no_room(unshown, next)
}

/// One job that was waited for, as it is when the wait is over.
struct Look<'a> {
    wait: &'a Wait<'a>,
    now: Snapshot,
    /// What came of it.
    sign: Option<Sign>,
}

impl Look<'_> {
    fn part(&self, shown: Option<&Shown>) -> Part {
        let part = Part::job(&self.now, shown);
        match self.sign {
            Some(Sign::Line(matched)) => part.with_match(matched.line),
            Some(Sign::Quiet) => part.with_quiet(),
            Some(Sign::Ended) | None => part,
        }
    }

    /// Notes what the caller is told of its output, so that the next wait is for news.
    fn tell(&self, call: Call<'_>, shown: Option<&Shown>) {
        call.has_shown(self.wait.job, shown.and_then(Shown::news));
        if let Some(Sign::Line(matched)) = self.sign {
            call.desk.has_shown(self.now.job, 0..matched.end);
        }
    }

    /// How much of the answer its output would take, if all of it were shown.
    fn wants(&self) -> usize {
        let total = self.now.output.total_bytes;
        let from = match self.wait.since {
            Some(since) => since,
            None if self.now.ending().is_some() || self.sign.is_some() => 0,
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
    signs: Signs,
    port: Option<u16>,
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
            signs: Signs {
                until: args.text("until")?.as_deref().map(Pattern::new).transpose()?,
                quiet: args.seconds("quiet_s")?,
            },
            port: args.whole("port", PORTS)?.and_then(|port| u16::try_from(port).ok()),
            wait: args.seconds("wait_s")?,
            cursor,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refused(given: Value) -> String {
        let args = Args::new(given.as_object().cloned(), SPEC.fields).unwrap();
        Wish::read(args).err().unwrap().to_string()
    }

    #[test]
    fn what_cannot_be_waited_for_is_refused() {
        assert!(refused(json!({"jobs": []})).contains("at least one"));
        assert!(refused(json!({"jobs": [1, 2], "cursor": "bytes:0"})).contains("one job"));
        assert!(refused(json!({"jobs": [1], "mode": "some"})).contains("one of any, all"));
        assert!(refused(json!({"jobs": [1], "until": "("})).contains("unclosed group"));
        for port in [json!(0), json!(65_536), json!(-1), json!("http")] {
            assert!(refused(json!({"jobs": [1], "port": port})).contains("port"), "{port}");
        }
        assert!(refused(json!({"jobs": [1], "quiet_s": -1})).contains("quiet_s"));
    }
}

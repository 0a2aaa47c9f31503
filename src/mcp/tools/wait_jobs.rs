//! `wait_jobs`: waits until jobs end, a line appears, a port listens, or a job is quiet.

use std::time::Duration;

use super::call::{ToolCall, WaitEnd};
use super::job_wait::{
    JobWait, JobsWaitEnd, PORT, QUIET, UNTIL, WaitConditions, WaitEvent, WaitMode, wait_for_jobs,
};
use crate::ids::{JobId, JobNumber};
use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::{
    AnswerReason, EventSign, NewOutput, ReplyPart, ShownOutput, TimedOutWait, TokenBudget,
    ToolError, ToolReply, hint_after_jobs, hint_no_room, show, show_from,
};
use crate::mcp::schema::{ArgKind, ArgSpec, ToolEffect, ToolSpec};
use crate::mcp::snapshot::JobSnapshot;
use crate::output::excerpt::Budget;
use crate::service::JobHandle;

pub(in crate::mcp) const SPEC: ToolSpec = ToolSpec {
    name: "wait_jobs",
    about: "Waits until jobs end, or for until, port or quiet_s as in run_command. Answers with \
            each job's state and its new output. When the wait is over, jobs go on.",
    effect: ToolEffect::Reads,
    fields: &[
        ArgSpec::required("jobs", ArgKind::Jobs, ""),
        ArgSpec::optional("mode", ArgKind::Choice(&["any", "all"]), "Default any"),
        UNTIL,
        PORT,
        QUIET,
        ArgSpec::with_empty("wait_s", ArgKind::Seconds, "Default 30"),
        ArgSpec::optional("cursor", ArgKind::Text, "New from here (one job)"),
        ArgSpec::optional(TokenBudget::ARGUMENT, ArgKind::Whole, ""),
    ],
};

/// The smallest useful share of the room, in bytes: a smaller excerpt costs more in position fields
/// than it shows.
const MIN_SHARE: usize = 200;

pub(in crate::mcp) async fn call(call: ToolCall<'_>, args: Args) -> Result<ToolReply, ToolError> {
    let args = WaitJobsArgs::read(args)?;
    let (known, missing) = find_jobs(call, &args.jobs).await;
    if known.is_empty() {
        return Ok(ToolReply::for_jobs(None, missing).with_failure());
    }
    let mut waits = Vec::with_capacity(known.len());
    for job in &known {
        waits.push(JobWait::new(call.client, job, args.cursor.as_deref()).await?);
    }
    let limit = call.wait_limit(args.wait);
    let port = args.conditions.check_port(call.client).await;
    let ended = wait_for_jobs(call, &waits, args.mode, &args.conditions, port, limit).await;
    let ids = collect_ids(&known);
    let reason = match ended.end {
        WaitEnd::Over => AnswerReason::WaitOver(TimedOutWait {
            consecutive: call.client.count_empty_wait(&ids),
            cut: call.cut_wait(args.wait),
            searched_from: find_search_start(&args, &waits),
            conditions: args.conditions.arguments(),
        }),
        WaitEnd::Done(_) => {
            call.client.reset_empty_waits(&ids);
            ended.reason(&waits)
        }
        WaitEnd::Cancelled(intent) => {
            call.report_waited_jobs(intent, ids);
            AnswerReason::JobState
        }
    };
    let reply = build_reply(call, &waits, &ended, missing, &reason).await?;
    Ok(reply.with_port(args.conditions.port.zip(ended.port)))
}

/// Returns the offset from which `until` was searched, if there is one job, the call gave no
/// cursor, and earlier output was skipped.
fn find_search_start(args: &WaitJobsArgs, waits: &[JobWait<'_>]) -> Option<u64> {
    match waits {
        [wait] if args.conditions.until.is_some() && wait.cursor.is_none() => {
            Some(wait.search_from).filter(|from| *from > 0)
        }
        _ => None,
    }
}

fn collect_ids(jobs: &[JobHandle]) -> Vec<JobId> {
    jobs.iter().map(JobHandle::id).collect()
}

/// Returns the existing jobs, and reply parts for the missing ones.
async fn find_jobs(call: ToolCall<'_>, jobs: &[JobNumber]) -> (Vec<JobHandle>, Vec<ReplyPart>) {
    let mut known = Vec::new();
    let mut missing = Vec::new();
    for job in jobs {
        match call.client.find(call.client.job_id(*job)).await {
            Ok(job) => known.push(job),
            Err(unknown) => missing.push(ReplyPart::for_missing(&unknown)),
        }
    }
    (known, missing)
}

async fn build_reply(
    call: ToolCall<'_>,
    waits: &[JobWait<'_>],
    ended: &JobsWaitEnd,
    missing: Vec<ReplyPart>,
    reason: &AnswerReason,
) -> Result<ToolReply, ToolError> {
    let mut jobs = Vec::new();
    for (index, wait) in waits.iter().enumerate() {
        let mut now = call.snapshot(wait.job).await;
        let seen = call.client.seen_output(now.job, None);
        let new_from = seen.end();
        now.has_skipped_output = seen.first_unseen().start < new_from;
        let event = ended.event(index);
        let start = match wait.cursor {
            Some(cursor) => ShownStart::Cursor(cursor),
            // Of several jobs that run on, only the verdicts are of interest.
            None if waits.len() == 1 || event.is_some() || now.ending().is_some() => {
                ShownStart::New(NewOutput {
                    from: new_from,
                    matched_line: event.and_then(WaitEvent::line),
                })
            }
            None => ShownStart::Nothing,
        };
        let sign = match event.and_then(WaitEvent::sign) {
            // With several jobs it would look as if the wait had been for this one.
            None if wait.had_ended && waits.len() > 1 => Some(EventSign::ended_before()),
            sign => sign,
        };
        jobs.push(WaitedJob { now, event, sign, wait, start });
    }
    let bare = jobs.iter().map(|waited| waited.part(None)).chain(missing.iter().cloned()).collect();
    let states: Vec<_> = jobs.iter().map(|waited| (&waited.now, None)).collect();
    let mut fitter =
        call.fitter(&ToolReply::for_jobs(None, bare).with_hint(hint_after_jobs(&states, reason)));
    let bytes: Vec<usize> = jobs.iter().map(WaitedJob::wanted_bytes).collect();
    let lines: Vec<usize> = jobs.iter().map(WaitedJob::wanted_lines).collect();
    loop {
        let mut unshown = Vec::new();
        let mut shown = Vec::new();
        for (waited, share) in jobs.iter().zip(fitter.excerpt_budgets(&bytes, &lines)) {
            shown.push(if share.max_bytes < waited.wanted_bytes().min(MIN_SHARE) {
                unshown.push(waited.now.job);
                None
            } else {
                waited.read_shown(share).await?
            });
        }
        let shown: Vec<_> = jobs.iter().zip(shown.iter().map(Option::as_ref)).collect();
        let parts = shown.iter().map(|(waited, shown)| waited.part(*shown));
        let parts = parts.chain(missing.iter().cloned()).collect();
        let states: Vec<_> = shown.iter().map(|(waited, shown)| (&waited.now, *shown)).collect();
        let hint = hint_no_room(&unshown, hint_after_jobs(&states, reason));
        if let Some(reply) = fitter.accept(ToolReply::for_jobs(None, parts).with_hint(hint)) {
            shown.iter().for_each(|(waited, shown)| waited.mark_read(call, *shown));
            return Ok(reply);
        }
    }
}

/// One awaited job, as it is when the wait is over.
struct WaitedJob<'a> {
    wait: &'a JobWait<'a>,
    now: JobSnapshot,
    /// The event that ended the wait for this job, if any.
    event: Option<WaitEvent>,
    sign: Option<EventSign>,
    start: ShownStart,
}

/// The start of a job's output that the reply shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownStart {
    /// The cursor that the caller gave.
    Cursor(u64),
    /// The first output that the caller has not seen.
    New(NewOutput),
    /// The reply shows no output of this job.
    Nothing,
}

impl WaitedJob<'_> {
    fn part(&self, shown: Option<&ShownOutput>) -> ReplyPart {
        ReplyPart::for_job(&self.now, shown).with_sign(self.sign.clone())
    }

    async fn read_shown(&self, budget: Budget) -> Result<Option<ShownOutput>, ToolError> {
        let log = self.wait.job.output();
        match self.start {
            ShownStart::Cursor(cursor) => show_from(&self.now, log, cursor, budget).await.map(Some),
            ShownStart::New(new) => show(&self.now, log, new, budget).await,
            ShownStart::Nothing => Ok(None),
        }
    }

    /// Records which output the caller has seen, so that the next wait looks for newer output.
    fn mark_read(&self, call: ToolCall<'_>, shown: Option<&ShownOutput>) {
        if let Some(shown) = shown {
            call.mark_read(self.now.job, shown.seen_ranges());
        }
        if let Some(WaitEvent::Line(matched)) = self.event {
            call.skip_search(self.now.job, matched.end);
        }
    }

    /// Estimates the bytes that the reply needs to show all output of this job; 0 if it shows none.
    fn wanted_bytes(&self) -> usize {
        let from = match self.start {
            ShownStart::Cursor(cursor) => cursor,
            ShownStart::New(new) => new.from,
            ShownStart::Nothing => return 0,
        };
        // JSON escapes may double it, and so may decoding from another character set.
        let most = self.now.output.total_bytes.saturating_sub(from).saturating_mul(2);
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// The most lines that the reply needs to show all output of this job; 0 if it shows none.
    fn wanted_lines(&self) -> usize {
        match self.wanted_bytes() {
            0 => 0,
            _ => usize::try_from(self.now.lines()).unwrap_or(usize::MAX),
        }
    }
}

struct WaitJobsArgs {
    jobs: Vec<JobNumber>,
    mode: WaitMode,
    conditions: WaitConditions,
    wait: Option<Duration>,
    cursor: Option<String>,
}

impl WaitJobsArgs {
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
        let modes = [("any", WaitMode::Any), ("all", WaitMode::All)];
        Ok(Self {
            jobs,
            mode: args.choice("mode", &modes)?.unwrap_or(WaitMode::Any),
            conditions: WaitConditions::read(&mut args)?,
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
        WaitJobsArgs::read(args).err().unwrap().to_string()
    }

    #[test]
    fn invalid_wait_arguments_are_refused() {
        assert!(refused(json!({"jobs": []})).contains("at least one"));
        assert!(refused(json!({"jobs": [1, 2], "cursor": "bytes:0"})).contains("one job"));
        assert!(refused(json!({"jobs": [1], "mode": "some"})).contains("one of any, all"));
        assert!(refused(json!({"jobs": [1], "until": "("})).contains("unclosed group"));
        for port in [json!(65_536), json!(-1), json!("http")] {
            assert!(refused(json!({"jobs": [1], "port": port})).contains("port"), "{port}");
        }
        assert!(refused(json!({"jobs": [1], "quiet_s": -1})).contains("quiet_s"));
    }
}

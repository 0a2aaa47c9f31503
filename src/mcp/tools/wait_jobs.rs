//! `wait_jobs`: waits until jobs end, a line appears, a port listens, or a job is quiet or waits for
//! input. `run_command` waits in the same way.

use std::future::pending;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::future::select_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::time::sleep;

use super::call::{ToolCall, WaitEnd, wait_for};
use super::read_output::{cursor_position, start_offset};
use super::search::{MatchedLine, find_first_match};
use crate::ids::{JobId, JobNumber};
use crate::mcp::args::{ArgError, ArgKind, ArgSpec, Args, ToolEffect, ToolSpec};
use crate::mcp::reply::{
    AnswerReason, EventSign, JobSnapshot, NewOutput, PortStatus, ReplyPart, ShownOutput,
    TimedOutWait, TokenBudget, ToolError, ToolReply, hint_after_jobs, hint_no_room, progress_line,
    show, show_from,
};
use crate::output::excerpt::Budget;
use crate::output::pattern::LinePattern;
use crate::service::{JobHandle, PromptRule, TenantClient};

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
    let ids: Vec<JobId> = known.iter().map(JobHandle::id).collect();
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

/// The interval at which the port is checked: the kernel does not notify about listeners.
const PORT_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// `Any`: the wait is over with the first job; `All`: with the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitMode {
    Any,
    All,
}

/// The valid port numbers.
const PORTS: RangeInclusive<u64> = 1..=65_535;

/// The arguments of [`WaitConditions`], the same for every tool that has them.
pub(super) const UNTIL: ArgSpec = ArgSpec::optional("until", ArgKind::Text, "Regex for a new line");
pub(super) const PORT: ArgSpec = ArgSpec::optional("port", ArgKind::Whole, "");
pub(super) const QUIET: ArgSpec = ArgSpec::optional("quiet_s", ArgKind::Seconds, "");

/// The events to wait for, besides the end of a job.
#[derive(Debug, Default)]
pub(super) struct WaitConditions {
    /// A matching line of output.
    pub(super) until: Option<LinePattern>,
    /// A process that listens on this TCP port.
    pub(super) port: Option<u16>,
    /// No output for this long.
    pub(super) quiet: Option<Duration>,
}

impl WaitConditions {
    /// Reads the arguments [`UNTIL`], [`PORT`] and [`QUIET`].
    pub(super) fn read(args: &mut Args) -> Result<Self, ToolError> {
        Ok(Self {
            until: args.text("until")?.as_deref().map(LinePattern::new).transpose()?,
            port: args.whole("port", PORTS)?.and_then(|port| u16::try_from(port).ok()),
            quiet: args.seconds("quiet_s")?,
        })
    }

    /// `true` if there is nothing to wait for but the end of a job.
    pub(super) const fn is_empty(&self) -> bool {
        self.until.is_none() && self.port.is_none() && self.quiet.is_none()
    }

    /// The rule for programs that take input beside the work that the caller waits for.
    const fn prompt_rule(&self) -> PromptRule {
        if self.until.is_some() || self.port.is_some() {
            PromptRule::Required
        } else {
            PromptRule::Optional
        }
    }

    /// The arguments that wait for the same again, each with a comma before it.
    pub(super) fn arguments(&self) -> String {
        let until =
            self.until.as_ref().map(LinePattern::as_str).filter(|text| text.len() <= PATTERN_BYTES);
        let until = until.map(|text| format!(", until={}", Value::from(text)));
        let port = self.port.map(|port| format!(", port={port}"));
        let quiet = self.quiet.map(|quiet| format!(", quiet_s={}", quiet.as_secs_f64()));
        [until, port, quiet].into_iter().flatten().collect()
    }

    /// Checks the port now; `None` without a port. A port that already listens before the wait is
    /// not an event of the job.
    pub(super) async fn check_port(&self, client: &TenantClient) -> Option<PortStatus> {
        let port = self.port?;
        let is_open = client.is_listened_on(port).await;
        Some(if is_open { PortStatus::Already } else { PortStatus::No })
    }
}

/// The longest pattern that a hint repeats, in bytes.
const PATTERN_BYTES: usize = 200;

/// The end of a wait for jobs.
#[derive(Debug)]
pub(super) struct JobsWaitEnd {
    /// The events of the jobs; none if the port ended the wait.
    pub(super) end: WaitEnd<Vec<JobEvent>>,
    /// The state of the port; `None` if the call named none.
    pub(super) port: Option<PortStatus>,
}

impl JobsWaitEnd {
    /// The event of the job at `index`, if the wait for it ended with one.
    pub(super) fn event(&self, index: usize) -> Option<WaitEvent> {
        let WaitEnd::Done(events) = &self.end else { return None };
        events.iter().find(|event| event.index == index).map(|event| event.event)
    }

    /// The reason for the answer after a wait for these jobs that did not time out.
    pub(super) fn reason(&self, waits: &[JobWait<'_>]) -> AnswerReason {
        let events = || waits.iter().enumerate().map(|(index, wait)| (wait, self.event(index)));
        let has_matched = |event: Option<WaitEvent>| event.and_then(WaitEvent::line).is_some();
        if let Some((matched, _)) = events().find(|(_, event)| has_matched(*event)) {
            return AnswerReason::Ready(Some(matched.job.id()));
        }
        match self.port {
            Some(PortStatus::Now | PortStatus::Already) => AnswerReason::Ready(None),
            Some(PortStatus::No) | None => {
                let is_quiet = events().any(|(_, event)| event == Some(WaitEvent::Quiet));
                if is_quiet { AnswerReason::Quiet } else { AnswerReason::JobState }
            }
        }
    }
}

/// Waits for the first of these events, at most for `limit`; `port` is the state of the port
/// before.
pub(super) async fn wait_for_jobs(
    call: ToolCall<'_>,
    waits: &[JobWait<'_>],
    mode: WaitMode,
    conditions: &WaitConditions,
    port: Option<PortStatus>,
    limit: Duration,
) -> JobsWaitEnd {
    if port == Some(PortStatus::Already) {
        return JobsWaitEnd { end: WaitEnd::Done(Vec::new()), port };
    }
    let events = waits.iter().map(|wait| wait.event(conditions)).collect();
    let event = async {
        tokio::select! {
            biased;
            job_events = wait_for_events(mode, events) => (job_events, port),
            () = wait_until_listening(call.client, conditions.port) => {
                (Vec::new(), Some(PortStatus::Now))
            }
        }
    };
    let progress = || progress_line(waits.iter().map(|wait| wait.job));
    let end = tokio::select! {
        biased;
        end = wait_for(call, limit, event, progress) => end,
        // The next server answers the next wait.
        () = call.client.wait_until_replaced() => WaitEnd::Over,
    };
    match end {
        WaitEnd::Done((events, port)) => JobsWaitEnd { end: WaitEnd::Done(events), port },
        WaitEnd::Over => JobsWaitEnd { end: WaitEnd::Over, port },
        WaitEnd::Cancelled(intent) => JobsWaitEnd { end: WaitEnd::Cancelled(intent), port },
    }
}

/// The event that ended the wait for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitEvent {
    Ended,
    Line(MatchedLine),
    /// The job wrote nothing for the requested time.
    Quiet,
    /// The job has waited for input for about a second.
    WaitsForInput,
}

impl WaitEvent {
    /// The number of the line that matched, if one did.
    pub(super) const fn line(self) -> Option<u64> {
        match self {
            Self::Line(matched) => Some(matched.line),
            Self::Ended | Self::Quiet | Self::WaitsForInput => None,
        }
    }

    /// The sign of this event in a reply; the state of a job needs none.
    pub(super) fn sign(self) -> Option<EventSign> {
        match self {
            Self::Ended | Self::WaitsForInput => None,
            Self::Line(matched) => Some(EventSign::matched_line(matched.line)),
            Self::Quiet => Some(EventSign::quiet()),
        }
    }
}

/// The event of the job at `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobEvent {
    pub(super) index: usize,
    pub(super) event: WaitEvent,
}

/// A future that resolves to the event of one job.
type EventFuture<'a> = Pin<Box<dyn Future<Output = WaitEvent> + Send + 'a>>;

/// One job that the call waits for.
#[derive(Debug)]
pub(super) struct JobWait<'a> {
    pub(super) job: &'a JobHandle,
    /// The cursor that the caller gave: everything from there on is asked for.
    pub(super) cursor: Option<u64>,
    /// The offset from which lines are searched: the cursor, else the first byte that no wait or
    /// read has shown. Those lines may have been written before the call.
    search_from: u64,
    /// `true` if the job had ended before the call.
    had_ended: bool,
}

impl<'a> JobWait<'a> {
    pub(super) async fn new(
        client: &TenantClient,
        job: &'a JobHandle,
        cursor: Option<&str>,
    ) -> Result<Self, ToolError> {
        let cursor = match cursor {
            Some(cursor) => Some(start_offset(cursor_position(cursor, job).await?, job.output())),
            None => None,
        };
        let seen = client.seen_output(job.id(), None);
        let search_from = cursor.unwrap_or(seen.search_start());
        Ok(Self { job, cursor, search_from, had_ended: job.status().ending().is_some() })
    }

    /// Creates the wait of the call that started the job: all of its output is searched.
    pub(super) const fn for_started(job: &'a JobHandle) -> Self {
        Self { job, cursor: None, search_from: 0, had_ended: false }
    }

    /// Returns a future that resolves when the job ends or one of the conditions is met.
    fn event<'b>(&'b self, conditions: &'b WaitConditions) -> EventFuture<'b> {
        Box::pin(async move {
            tokio::select! {
                // The last output is matched before the end of the job is seen, and a job that has
                // ended does not count as quiet.
                biased;
                line = self.line(conditions.until.as_ref()) => WaitEvent::Line(line),
                _ = self.job.finished() => WaitEvent::Ended,
                () = wait_until_quiet(self.job, conditions.quiet) => WaitEvent::Quiet,
                () = self.job.waited_for_input(conditions.prompt_rule()) => WaitEvent::WaitsForInput,
            }
        })
    }

    /// Returns the first matching line. Never resolves for a log that ends without one or cannot be
    /// read: the end of the job still ends the wait.
    async fn line(&self, until: Option<&LinePattern>) -> MatchedLine {
        let Some(pattern) = until else { return pending().await };
        match find_first_match(self.job.output(), self.search_from, pattern).await {
            Ok(Some(line)) => line,
            Ok(None) | Err(_) => pending().await,
        }
    }
}

/// Returns once the job has written nothing for `quiet`, counted from its last output, or from its
/// start; never returns without `quiet`.
async fn wait_until_quiet(job: &JobHandle, quiet: Option<Duration>) {
    let Some(quiet) = quiet else { return pending().await };
    job.started().await;
    loop {
        let last = job.output().progress().last_output.or(job.status().started);
        let left = quiet.saturating_sub(last.as_ref().map_or(Duration::MAX, Instant::elapsed));
        if left.is_zero() {
            return;
        }
        sleep(left).await;
    }
}

/// Returns once a process listens on this port; never returns without a port.
async fn wait_until_listening(client: &TenantClient, port: Option<u16>) {
    let Some(port) = port else { return pending().await };
    while !client.is_listened_on(port).await {
        sleep(PORT_CHECK_INTERVAL).await;
    }
}

/// Waits for any or all of the futures, and returns their events. A job that waits for input ends
/// the wait in any mode: without a call that answers it, it does not end.
async fn wait_for_events(mode: WaitMode, events: Vec<EventFuture<'_>>) -> Vec<JobEvent> {
    match mode {
        WaitMode::Any => {
            let (event, index, _) = select_all(events).await;
            vec![JobEvent { index, event }]
        }
        WaitMode::All => {
            let indexed = events.into_iter().enumerate();
            let mut open: FuturesUnordered<_> = indexed
                .map(|(index, event)| event.map(move |event| JobEvent { index, event }))
                .collect();
            let mut found = Vec::new();
            while let Some(event) = open.next().await {
                found.push(event);
                if event.event == WaitEvent::WaitsForInput {
                    break;
                }
            }
            found
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use serde_json::json;

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

    const MATCHED: MatchedLine = MatchedLine { line: 7, end: 70 };

    fn event<'a>(event: impl Future<Output = WaitEvent> + Send + 'a) -> EventFuture<'a> {
        Box::pin(event)
    }

    #[tokio::test]
    async fn any_returns_with_the_first_and_all_with_the_last() {
        let events = vec![event(pending()), event(ready(WaitEvent::Line(MATCHED)))];
        let expected = [JobEvent { index: 1, event: WaitEvent::Line(MATCHED) }];
        assert_eq!(wait_for_events(WaitMode::Any, events).await, expected);
        let events = vec![event(ready(WaitEvent::Ended)), event(ready(WaitEvent::Quiet))];
        assert_eq!(wait_for_events(WaitMode::All, events).await.len(), 2);
        let events = vec![event(pending()), event(ready(WaitEvent::WaitsForInput))];
        let expected = [JobEvent { index: 1, event: WaitEvent::WaitsForInput }];
        assert_eq!(wait_for_events(WaitMode::All, events).await, expected, "it needs an answer");
    }
}

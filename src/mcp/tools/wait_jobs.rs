//! `wait_jobs`: waits until jobs end, a line appears, a port listens, or a job is quiet.

use std::future::pending;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_all};
use tokio::time::sleep;

use super::call::{ToolCall, WaitEnd, wait_for};
use super::read_output::{cursor_position, start_offset};
use crate::ids::{JobId, JobNumber};
use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::{
    PortStatus, ReplyPart, ShownOutput, TimedOutWait, TokenBudget, ToolError, ToolReply,
    hint_after_job, hint_no_room, hint_wait_for_jobs, progress_line, show, show_from,
};
use crate::mcp::schema::{ArgKind, ArgSpec, ToolEffect, ToolSpec};
use crate::mcp::snapshot::JobSnapshot;
use crate::output::excerpt::Budget;
use crate::output::pattern::LinePattern;
use crate::output::{BlockingReader, LogReader, PageEnd, PageRequest, views};
use crate::service::{JobHandle, TenantClient};

pub(in crate::mcp) const SPEC: ToolSpec = ToolSpec {
    name: "wait_jobs",
    about: "Waits until jobs end, or for what comes first of: a line of output that matches until, \
            a TCP port that listens, quiet. Answers with each job's verdict, and with the output \
            of those that ended or matched. When the wait is over, jobs go on.",
    effect: ToolEffect::Reads,
    fields: &[
        ArgSpec::required("jobs", ArgKind::Jobs, ""),
        ArgSpec::optional("mode", ArgKind::Choice(&["any", "all"]), "Default any"),
        ArgSpec::optional(
            "until",
            ArgKind::Text,
            "Regex for a line not yet shown by a wait or read, or from cursor",
        ),
        ArgSpec::optional("port", ArgKind::Whole, "On this host"),
        ArgSpec::optional("quiet_s", ArgKind::Seconds, "No output for so long"),
        ArgSpec::with_empty("wait_s", ArgKind::Seconds, "Default 30"),
        ArgSpec::optional("cursor", ArgKind::Text, "Output is new from here (one job only)"),
        ArgSpec::optional(TokenBudget::ARGUMENT, ArgKind::Whole, ""),
    ],
};

/// The smallest useful share of the room, in bytes: a smaller excerpt costs more in position fields
/// than it shows.
const MIN_SHARE: usize = 200;

/// The valid port numbers.
const PORTS: RangeInclusive<u64> = 1..=65_535;

/// The result of a wait.
enum WaitResult {
    Jobs(Vec<JobEvent>),
    Port(PortStatus),
    Nothing,
}

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
    let (result, timed_out) = match wait(call, &args, &waits, limit).await {
        WaitEnd::Done(result) => {
            call.client.reset_empty_waits(&collect_ids(&known));
            (result, None)
        }
        WaitEnd::Over => {
            let consecutive = call.client.count_empty_wait(&collect_ids(&known));
            let shortened_to = args.wait.filter(|requested| *requested > limit).map(|_| limit);
            let searched_from = find_search_start(&args, &waits);
            (WaitResult::Nothing, Some(TimedOutWait { consecutive, shortened_to, searched_from }))
        }
        WaitEnd::Cancelled(intent) => {
            call.report_waited_jobs(intent, collect_ids(&known));
            (WaitResult::Nothing, None)
        }
    };
    let (job_events, port_status) = match result {
        WaitResult::Jobs(job_events) => (job_events, PortStatus::No),
        WaitResult::Port(port_status) => (Vec::new(), port_status),
        WaitResult::Nothing => (Vec::new(), PortStatus::No),
    };
    let reply = build_reply(call, &waits, &job_events, missing, timed_out).await?;
    Ok(match args.port {
        Some(port) => reply.with_port(port, port_status),
        None => reply,
    })
}

/// Waits for the first of the requested events.
async fn wait(
    call: ToolCall<'_>,
    args: &WaitJobsArgs,
    waits: &[JobWait<'_>],
    limit: Duration,
) -> WaitEnd<WaitResult> {
    // Checked before the wait, which may be zero: a port that already listens is not an event of
    // the job.
    if let Some(port) = args.port
        && call.client.is_listened_on(port).await
    {
        return WaitEnd::Done(WaitResult::Port(PortStatus::Already));
    }
    let events = waits.iter().map(|wait| wait.event(&args.conditions)).collect();
    let event = async {
        tokio::select! {
            biased;
            job_events = wait_for_events(args.mode, events) => WaitResult::Jobs(job_events),
            () = wait_until_listening(call.client, args.port) => WaitResult::Port(PortStatus::Now),
        }
    };
    wait_for(call, limit, event, || progress_line(waits.iter().map(|wait| wait.job))).await
}

/// Returns the offset from which `until` was searched, if there is one job, the call gave no
/// cursor, and earlier output was skipped.
fn find_search_start(args: &WaitJobsArgs, waits: &[JobWait<'_>]) -> Option<u64> {
    match waits {
        [wait] if args.conditions.until.is_some() && wait.since.is_none() => {
            Some(wait.from).filter(|from| *from > 0)
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
    job_events: &[JobEvent],
    missing: Vec<ReplyPart>,
    timed_out: Option<TimedOutWait>,
) -> Result<ToolReply, ToolError> {
    let mut jobs = Vec::new();
    for (index, wait) in waits.iter().enumerate() {
        let event = job_events.iter().find(|event| event.index == index).map(|event| event.event);
        jobs.push(WaitedJob { wait, now: call.snapshot(wait.job).await, event });
    }
    let bare = jobs.iter().map(|waited| waited.part(None)).chain(missing.iter().cloned()).collect();
    let mut fitter = call.fitter(&ToolReply::for_jobs(None, bare).with_hint(choose_hint(
        &jobs,
        &[],
        None,
        timed_out,
    )));
    let bytes: Vec<usize> = jobs.iter().map(WaitedJob::wanted_bytes).collect();
    let lines: Vec<usize> = jobs.iter().map(WaitedJob::wanted_lines).collect();
    loop {
        let mut parts = Vec::new();
        let mut unshown = Vec::new();
        let mut next = None;
        let mut shown_outputs = Vec::new();
        for (waited, share) in jobs.iter().zip(fitter.excerpt_budgets(&bytes, &lines)) {
            let shown = if share.max_bytes < waited.wanted_bytes().min(MIN_SHARE) {
                unshown.push(waited.now.job);
                None
            } else {
                waited.wait.read_shown(&waited.now, waited.event, share).await?
            };
            next = hint_after_job(&waited.now, shown.as_ref());
            parts.push(waited.part(shown.as_ref()));
            shown_outputs.push((waited, shown));
        }
        parts.extend(missing.iter().cloned());
        let hint = choose_hint(&jobs, &unshown, next, timed_out);
        if let Some(reply) = fitter.accept(ToolReply::for_jobs(None, parts).with_hint(hint)) {
            shown_outputs
                .iter()
                .for_each(|(waited, shown)| waited.mark_shown(call, shown.as_ref()));
            return Ok(reply);
        }
    }
}

/// Returns the hint: with one job its own, with several how to wait for those that still run.
fn choose_hint(
    jobs: &[WaitedJob<'_>],
    unshown: &[JobId],
    next: Option<String>,
    timed_out: Option<TimedOutWait>,
) -> Option<String> {
    let open =
        jobs.iter().filter(|waited| waited.now.ending().is_none()).map(|waited| waited.now.job);
    let open: Vec<JobId> = open.collect();
    let next = match jobs {
        [_] => next,
        _ => hint_wait_for_jobs(&open),
    };
    let next = match timed_out {
        // How to send input helps more than advice about waiting.
        Some(_) if jobs.iter().any(|waited| waited.now.waits_for_input()) => next,
        Some(timed_out) => timed_out.hint(&open, next),
        None => next,
    };
    hint_no_room(unshown, next)
}

/// One awaited job, as it is when the wait is over.
struct WaitedJob<'a> {
    wait: &'a JobWait<'a>,
    now: JobSnapshot,
    /// The event that ended the wait for this job, if any.
    event: Option<WaitEvent>,
}

impl WaitedJob<'_> {
    fn part(&self, shown: Option<&ShownOutput>) -> ReplyPart {
        let part = ReplyPart::for_job(&self.now, shown);
        match self.event {
            Some(WaitEvent::Line(matched)) => part.with_match(matched.line),
            Some(WaitEvent::Quiet) => part.with_quiet(),
            Some(WaitEvent::Ended) | None => part,
        }
    }

    /// Records which output the caller has seen, so that the next wait looks for newer output.
    fn mark_shown(&self, call: ToolCall<'_>, shown: Option<&ShownOutput>) {
        call.mark_shown(self.wait.job, shown.and_then(ShownOutput::seen_range));
        if let Some(WaitEvent::Line(matched)) = self.event {
            call.client.mark_shown(self.now.job, 0..matched.end);
        }
    }

    /// Estimates the bytes that the reply needs to show all output of this job; 0 if it shows none.
    fn wanted_bytes(&self) -> usize {
        let total = self.now.output.total_bytes;
        let from = match self.wait.since {
            Some(since) => since,
            None if self.now.ending().is_some() || self.event.is_some() => 0,
            None => return 0,
        };
        // JSON escapes may double it, and so may decoding from another character set.
        let most = total.saturating_sub(from).saturating_mul(2);
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
    port: Option<u16>,
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
            conditions: WaitConditions {
                until: args.text("until")?.as_deref().map(LinePattern::new).transpose()?,
                quiet: args.seconds("quiet_s")?,
            },
            port: args.whole("port", PORTS)?.and_then(|port| u16::try_from(port).ok()),
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

/// The events to wait for in a job, besides its end.
#[derive(Debug, Default)]
pub(super) struct WaitConditions {
    /// A matching line of output.
    pub(super) until: Option<LinePattern>,
    /// No output for this long.
    pub(super) quiet: Option<Duration>,
}

/// The event that ended the wait for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitEvent {
    Ended,
    Line(MatchedLine),
    /// The job wrote nothing for the requested time.
    Quiet,
}

/// The event of the job at `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobEvent {
    pub(super) index: usize,
    pub(super) event: WaitEvent,
}

/// A future that resolves to the event of one job.
pub(super) type EventFuture<'a> = Pin<Box<dyn Future<Output = WaitEvent> + Send + 'a>>;

/// One job that the call waits for.
#[derive(Debug)]
pub(super) struct JobWait<'a> {
    pub(super) job: &'a JobHandle,
    /// The offset of new output, if the caller gave a cursor.
    pub(super) since: Option<u64>,
    /// The offset from which lines are searched: the cursor, else the first byte that the caller
    /// has not seen. Those lines may have been written before the call.
    pub(super) from: u64,
}

impl<'a> JobWait<'a> {
    pub(super) async fn new(
        client: &TenantClient,
        job: &'a JobHandle,
        cursor: Option<&str>,
    ) -> Result<Self, ToolError> {
        let since = match cursor {
            Some(cursor) => Some(start_offset(cursor_position(cursor, job).await?, job.output())),
            None => None,
        };
        let from = since.unwrap_or_else(|| client.first_unseen_offset(job.id()));
        Ok(Self { job, since, from })
    }

    /// Returns a future that resolves when the job ends or one of the conditions is met.
    pub(super) fn event<'b>(&'b self, conditions: &'b WaitConditions) -> EventFuture<'b> {
        Box::pin(async move {
            tokio::select! {
                // The last output is matched before the end of the job is seen, and a job that has
                // ended does not count as quiet.
                biased;
                line = self.line(conditions.until.as_ref()) => WaitEvent::Line(line),
                _ = self.job.finished() => WaitEvent::Ended,
                () = wait_until_quiet(self.job, conditions.quiet) => WaitEvent::Quiet,
            }
        })
    }

    /// Returns the first matching line. Never resolves for a log that ends without one or cannot be
    /// read: the end of the job still ends the wait.
    async fn line(&self, until: Option<&LinePattern>) -> MatchedLine {
        let Some(pattern) = until else { return pending().await };
        match find_first_match(self.job.output(), self.from, pattern).await {
            Ok(Some(line)) => line,
            Ok(None) | Err(_) => pending().await,
        }
    }

    /// Reads the output to show: with a cursor, everything from it on; without one, the usual
    /// excerpt if the job has ended or had an event, else nothing.
    pub(super) async fn read_shown(
        &self,
        now: &JobSnapshot,
        event: Option<WaitEvent>,
        budget: Budget,
    ) -> Result<Option<ShownOutput>, ToolError> {
        match self.since {
            Some(since) => show_from(now, self.job.output(), since, budget).await.map(Some),
            None if now.ending().is_some() || event.is_some() => {
                show(now, self.job.output(), budget).await
            }
            None => Ok(None),
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
pub(super) async fn wait_until_listening(client: &TenantClient, port: Option<u16>) {
    let Some(port) = port else { return pending().await };
    while !client.is_listened_on(port).await {
        sleep(PORT_CHECK_INTERVAL).await;
    }
}

/// Waits for any or all of the futures, and returns their events.
pub(super) async fn wait_for_events(mode: WaitMode, events: Vec<EventFuture<'_>>) -> Vec<JobEvent> {
    match mode {
        WaitMode::Any => {
            let (event, index, _) = select_all(events).await;
            vec![JobEvent { index, event }]
        }
        WaitMode::All => {
            let conditions = join_all(events).await;
            conditions
                .into_iter()
                .enumerate()
                .map(|(index, event)| JobEvent { index, event })
                .collect()
        }
    }
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
        let request = PageRequest { from: at, stream: None, max_bytes: STEP_BYTES, max_lines: 0 };
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
    use std::future::{pending, ready};

    use serde_json::{Value, json};

    use super::*;
    use crate::output::{LogStorage, LogWriter, open_log};
    use crate::spec::Stream;

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
    }

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

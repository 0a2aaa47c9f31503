//! The wait of a call for its jobs: until they end, a line appears, a port listens, or a job is
//! quiet or waits for input. `run_command` and `wait_jobs` share it.

use std::future::pending;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::future::select_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::time::sleep;

use super::call::{ToolCall, WaitEnd, wait_for};
use super::read_output::{cursor_position, start_offset};
use crate::mcp::args::Args;
use crate::mcp::reply::{AnswerReason, EventSign, PortStatus, ToolError, progress_line};
use crate::mcp::schema::{ArgKind, ArgSpec};
use crate::output::pattern::LinePattern;
use crate::output::{BlockingReader, LogReader, PageEnd, PageRequest, views};
use crate::service::{JobHandle, PromptRule, TenantClient};

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
    pub(super) search_from: u64,
    /// `true` if the job had ended before the call.
    pub(super) had_ended: bool,
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
        let request = PageRequest {
            from: at,
            to: u64::MAX,
            stream: None,
            max_bytes: STEP_BYTES,
            max_lines: 0,
        };
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

    use super::*;
    use crate::output::{LogStorage, LogWriter, open_log};
    use crate::spec::Stream;

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

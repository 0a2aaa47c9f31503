//! One call of a tool: its context, its waits, its turn on the connection, its cancellation, and its
//! reply.
//!
//! ```text
//! notifications/cancelled ─▶ transport sets the CancelNotice of the call ─▶ rmcp cancels the token
//! a closed connection     ─────────────────────────────────────────────▶ rmcp cancels the token
//! ```
//!
//! A user who cancels wants the work to end. A client that has waited for as long as it can, or
//! whose connection breaks, only stops waiting: the work would be lost without anybody wanting
//! that. Clients send the same notification for both, so its reason decides.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{io, slice};

use futures_util::{FutureExt, Stream, StreamExt, stream};
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use tokio::time::{MissedTickBehavior, interval_at, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::ids::JobId;
use crate::mcp::approvals::ApprovalRetry;
use crate::mcp::reply::{
    CutWait, JobSnapshot, ReplyFitter, SeenRanges, ShownOutput, TokenBudget, ToolError, ToolReply,
};
use crate::mcp::settings::McpSettings;
use crate::output::{BlockingReader, LogReader, ReadBusy, ReadPermit, ScanDeadline, scan_with};
use crate::service::{ApprovalQuestion, JobHandle, ParkedSubmission, ReportTo, TenantClient};

/// The context of one tool call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolCall<'a> {
    /// The service as this caller may use it.
    pub(crate) client: &'a TenantClient,
    pub(crate) settings: &'a McpSettings,
    /// The request, with its cancellation token and the connection to the client.
    pub(crate) request: &'a RequestContext<RoleServer>,
    /// The budget of the reply.
    pub(crate) budget: TokenBudget,
    /// The reply to a run that is not over when its wait is.
    pub(crate) long_runs: LongRuns,
    /// The answer to an approval question in an earlier reply.
    pub(crate) approval: Option<ApprovalRetry<'a>>,
}

/// The reply to a run that is not over when its wait is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LongRuns {
    /// The state of the job so far.
    AnswerNow,
    /// A task, which the client follows.
    BecomeTasks,
}

/// The effect of a cancelled call on the job that it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelEffect {
    JobEnds,
    JobGoesOn,
}

impl CancelEffect {
    const fn from_intent(intent: CancelIntent, settings: &McpSettings) -> Self {
        match intent {
            CancelIntent::UserCancel if settings.cancel_stops_job => Self::JobEnds,
            CancelIntent::UserCancel | CancelIntent::ClientGaveUp | CancelIntent::ClientHungUp => {
                Self::JobGoesOn
            }
        }
    }
}

impl ToolCall<'_> {
    /// Returns the effect of a cancellation on the job of this call. If the job goes on, the next
    /// reply to this client says what became of it.
    pub(crate) fn cancel_effect(&self, intent: CancelIntent, job: &JobHandle) -> CancelEffect {
        let effect = CancelEffect::from_intent(intent, self.settings);
        if effect == CancelEffect::JobGoesOn {
            self.client.report_later(job.id(), intent.report_to());
        }
        effect
    }

    /// Has the next reply to this client say what became of the jobs for which this cancelled call
    /// waited. A user who cancels a wait knows them.
    pub(crate) fn report_waited_jobs(
        &self,
        intent: CancelIntent,
        jobs: impl IntoIterator<Item = JobId>,
    ) {
        match intent {
            CancelIntent::UserCancel => {}
            CancelIntent::ClientGaveUp | CancelIntent::ClientHungUp => {
                jobs.into_iter().for_each(|job| self.client.report_later(job, intent.report_to()));
            }
        }
    }

    /// Returns how long this call waits: as requested, but at most [`ToolCall::max_wait`].
    pub(crate) fn wait_limit(&self, requested: Option<Duration>) -> Duration {
        requested.unwrap_or(self.settings.wait_default).min(self.max_wait())
    }

    /// The longest wait that the client tolerates.
    pub(crate) fn max_wait(&self) -> Duration {
        let most = self.call_limit().0;
        most.saturating_sub(reserve_reply_time(most))
    }

    /// The cut of a wait that was requested, if the client does not tolerate all of it.
    pub(crate) fn cut_wait(&self, requested: Option<Duration>) -> Option<CutWait> {
        let requested = requested?;
        let waited = self.max_wait();
        let (call_limit, setting) = self.call_limit();
        (requested > waited).then_some(CutWait { requested, waited, call_limit, setting })
    }

    /// The longest time that this call may take, and the setting that says so.
    fn call_limit(&self) -> (Duration, &'static str) {
        let settings = self.settings;
        let has_progress = self.request.meta.get_progress_token().is_some();
        let by_progress = if has_progress && settings.wait_max > settings.wait_max_quiet {
            (settings.wait_max, "mcp.max_wait_with_progress_s")
        } else {
            (settings.wait_max_quiet, "mcp.max_wait_s")
        };
        match settings.client_limit(&self.client.caller().client) {
            Some(limit) if limit < by_progress.0 => (limit, "mcp.client_wait_s"),
            Some(_) | None => by_progress,
        }
    }

    /// Creates a reply about a job and its output.
    pub(crate) fn job_reply(&self, job: &JobSnapshot, shown: Option<ShownOutput>) -> ToolReply {
        ToolReply::for_job(job, shown, self.settings.result_format)
    }

    /// Creates a fitter for replies that consist of `bare` and output.
    pub(crate) fn fitter(&self, bare: &ToolReply) -> ReplyFitter {
        ReplyFitter::new(self.budget, self.settings.result_format, self.client.redactor(), bare)
    }

    /// Reserves memory for a read of a log. If none is free, waits for it, but leaves time for the
    /// read itself; after a cancellation it tries once more without waiting.
    pub(crate) async fn reserve(
        &self,
        log: &LogReader,
        bytes: usize,
    ) -> Result<ReadPermit, ReadBusy> {
        let wait = self.max_wait().saturating_sub(self.settings.search_time);
        tokio::select! {
            reserved = log.reserve(bytes, wait) => reserved,
            () = self.request.ct.cancelled() => log.reserve(bytes, Duration::ZERO).await,
        }
    }

    /// Scans a log on a blocking thread until the scan is done, its time is over, or the call is
    /// cancelled. The memory stays reserved until the scan is over, even if the caller is gone, and
    /// is returned with the result.
    ///
    /// # Errors
    /// Fails with `TimedOut` if the disk did not answer in time.
    pub(crate) async fn scan<T: Send + 'static>(
        &self,
        log: &LogReader,
        memory: ReadPermit,
        scan: impl FnOnce(&BlockingReader, &ScanDeadline) -> T + Send + 'static,
    ) -> io::Result<(T, ReadPermit)> {
        let scan = move |logs: &[BlockingReader], deadline: &_| scan(&logs[0], deadline);
        self.scan_all(slice::from_ref(log), memory, scan).await
    }

    /// Scans several logs as [`ToolCall::scan`] does one.
    pub(crate) async fn scan_all<T: Send + 'static>(
        &self,
        logs: &[LogReader],
        memory: ReadPermit,
        scan: impl FnOnce(&[BlockingReader], &ScanDeadline) -> T + Send + 'static,
    ) -> io::Result<(T, ReadPermit)> {
        let scan = move |logs: &[BlockingReader], deadline: &_| (scan(logs, deadline), memory);
        scan_until(self.settings.search_time, &self.request.ct, logs, scan).await
    }

    /// Records which output the reply to this call shows, so that no other reply shows it to this
    /// caller again. A cancelled call records nothing, because its client may not read the reply.
    pub(crate) fn mark_shown(&self, job: JobId, seen: SeenRanges) {
        if !self.request.ct.is_cancelled() {
            self.client.mark_shown(job, seen.stream, seen.ranges);
        }
    }

    /// Like [`ToolCall::mark_shown`], for a reply after which `until` of the next wait looks for
    /// newer lines. The replies of `run_command` and `send_input` are not of that kind: how much
    /// they show is a matter of timing, and the wait that follows must not skip a line for it.
    pub(crate) fn mark_read(&self, job: JobId, seen: SeenRanges) {
        self.mark_shown(job, seen);
        self.skip_search(job, 0);
    }

    /// Records that the next wait of this caller for a line need not search the output before
    /// `end`, nor what was shown from there on without a gap.
    pub(crate) fn skip_search(&self, job: JobId, end: u64) {
        if !self.request.ct.is_cancelled() {
            self.client.skip_search(job, end);
        }
    }

    /// Converts a reply to the result for the client: secrets masked, within the budget.
    pub(crate) fn result(&self, reply: ToolReply) -> CallToolResult {
        self.result_with_notice(reply, None)
    }

    /// Returns the result with lines about other jobs before it. They do not count towards the budget,
    /// to which the reply was fitted without them.
    pub(crate) fn result_with_notice(
        &self,
        reply: ToolReply,
        notice: Option<&str>,
    ) -> CallToolResult {
        let format = self.settings.result_format;
        let redactor = self.client.redactor();
        let reply = reply.masked(&redactor).cut_to_budget(self.budget, format);
        match notice {
            Some(notice) => reply.with_notice(&redactor.mask_text(notice)).into_result(format),
            None => reply.into_result(format),
        }
    }

    /// Takes a snapshot of a job now.
    pub(crate) async fn snapshot(&self, job: &JobHandle) -> JobSnapshot {
        JobSnapshot::take(self.client, job).await
    }
}

/// Returns the part of the longest call time that is reserved for the reply.
fn reserve_reply_time(most: Duration) -> Duration {
    (most / 10).min(Duration::from_secs(2))
}

/// Runs `scan` on a blocking thread. Its deadline is over after `time`, when the call is cancelled,
/// or when this future is dropped.
async fn scan_until<T: Send + 'static>(
    time: Duration,
    cancelled: &CancellationToken,
    logs: &[LogReader],
    scan: impl FnOnce(&[BlockingReader], &ScanDeadline) -> T + Send + 'static,
) -> io::Result<T> {
    let (deadline, guard) = ScanDeadline::start(time);
    let mut scanning = pin!(scan_with(logs, time, move |logs| scan(logs, &deadline)));
    tokio::select! {
        biased;
        scanned = &mut scanning => scanned,
        () = cancelled.cancelled() => {
            drop(guard);
            scanning.await
        }
    }
}

/// The response of a tool to a call.
#[derive(Debug)]
pub(crate) enum ToolResponse {
    /// The complete reply to the call.
    Reply(ToolReply),
    /// The job continues as a task.
    Task(JobHandle),
    /// A person must approve first; the client then repeats the call.
    Ask(ApprovalQuestion),
    /// A person must approve first; the submission waits as a task.
    Parked(Box<ParkedSubmission>),
}

impl From<ToolReply> for ToolResponse {
    fn from(reply: ToolReply) -> Self {
        Self::Reply(reply)
    }
}

/// Runs a tool and returns its reply. An error becomes a reply, and so does a panic: without a
/// reply the caller would wait for ever.
pub(crate) async fn reply_or_failure<T: From<ToolReply>>(
    tool: &str,
    run: impl Future<Output = Result<T, ToolError>>,
) -> T {
    match AssertUnwindSafe(Box::pin(run)).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => error.into_reply().into(),
        Err(_) => ToolReply::failure(
            format!("{tool} failed inside the server; list_jobs shows what runs"),
            "internal",
        )
        .into(),
    }
}

/// The reason why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitEnd<T> {
    /// The awaited event happened.
    Done(T),
    /// The time limit was reached.
    Over,
    /// The client cancelled the call.
    Cancelled(CancelIntent),
}

/// Waits for `event`, at most for `limit`. A client that asked for progress receives the text of
/// `message` at intervals.
pub(crate) async fn wait_for<T, F: Future<Output = String>>(
    call: ToolCall<'_>,
    limit: Duration,
    event: impl Future<Output = T>,
    message: impl Fn() -> F,
) -> WaitEnd<T> {
    let every = call.settings.progress_every;
    let mut ticks = interval_at(tokio::time::Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let messages = stream::unfold((ticks, message), |(mut ticks, message)| async move {
        ticks.tick().await;
        Some((message().await, (ticks, message)))
    });
    let progress = ProgressSender::for_call(call);
    wait_with_progress(call, limit, event, progress.as_ref(), messages).await
}

/// Waits for `event`, at most for `limit`, and sends each of `messages` as progress.
pub(crate) async fn wait_with_progress<T>(
    call: ToolCall<'_>,
    limit: Duration,
    event: impl Future<Output = T>,
    progress: Option<&ProgressSender<'_>>,
    messages: impl Stream<Item = String>,
) -> WaitEnd<T> {
    let mut event = pin!(event);
    let mut messages = pin!(messages);
    let mut over = pin!(sleep(limit));
    loop {
        let message = tokio::select! {
            biased;
            outcome = &mut event => return WaitEnd::Done(outcome),
            () = call.request.ct.cancelled() => {
                return WaitEnd::Cancelled(CancelNotice::intent(call.request));
            }
            () = &mut over => return WaitEnd::Over,
            Some(message) = messages.next(), if progress.is_some() => message,
        };
        // Sent outside the select: a notification dropped half-way could still be in flight when
        // the result is sent, and arrive after it.
        if let Some(progress) = progress {
            progress.send(&message).await;
        }
    }
}

/// Sends progress to a client that asked for it.
pub(crate) struct ProgressSender<'a> {
    call: ToolCall<'a>,
    token: ProgressToken,
    since: Instant,
}

impl<'a> ProgressSender<'a> {
    pub(crate) fn for_call(call: ToolCall<'a>) -> Option<Self> {
        let token = call.request.meta.get_progress_token()?;
        Some(Self { call, token, since: Instant::now() })
    }

    /// Sends the message with secrets masked; the progress value is the seconds since the start of
    /// the wait, because MCP requires a value that increases.
    pub(crate) async fn send(&self, message: &str) {
        let seconds = self.since.elapsed().as_secs_f64();
        // The text contains output.
        let message = self.call.client.redactor().mask_text(message).into_owned();
        let params =
            ProgressNotificationParam::new(self.token.clone(), seconds).with_message(message);
        // Not an error here: the transport detects a closed connection itself.
        if let Err(error) = self.call.request.peer.notify_progress(params).await {
            tracing::debug!(%error, "progress not sent");
        }
    }
}

/// A call's turn to start. A transport that reads calls in order puts a turn into the extensions of
/// each, and passes on the next call when the turn is over: once the call has started its work, or
/// was dropped.
#[derive(Debug, Clone)]
pub(crate) struct CallTurn {
    over: CancellationToken,
    _over_when_dropped: Arc<DropGuard>,
}

impl CallTurn {
    /// Creates a turn, and the token that is cancelled when the turn is over.
    pub(crate) fn new() -> (Self, CancellationToken) {
        let over = CancellationToken::new();
        let guard = Arc::new(over.clone().drop_guard());
        (Self { over: over.clone(), _over_when_dropped: guard }, over)
    }

    /// Lets the next call start, if it waits for this one.
    pub(crate) fn end(context: &RequestContext<RoleServer>) {
        if let Some(turn) = context.extensions.get::<Self>() {
            turn.over.cancel();
        }
    }
}

/// The reason why a client ended a call before its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelIntent {
    /// The user wants the work to end.
    UserCancel,
    /// The client stopped waiting, and its connection is still open.
    ClientGaveUp,
    /// The client closed its connection, or lost it.
    ClientHungUp,
}

impl CancelIntent {
    /// The sessions in which the client is told about a job that goes on.
    const fn report_to(self) -> ReportTo {
        match self {
            Self::UserCancel | Self::ClientGaveUp => ReportTo::SameSession,
            Self::ClientHungUp => ReportTo::AnySession,
        }
    }
}

/// The notification that cancelled a call, if there was one. A transport puts it into the
/// extensions of each call, and sets it before rmcp cancels the call's token. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CancelNotice(Arc<OnceLock<CancelReason>>);

/// The reason in a cancel notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CancelReason {
    Given(String),
    /// The notification gives no reason.
    NotGiven,
}

impl From<Option<String>> for CancelReason {
    fn from(reason: Option<String>) -> Self {
        reason.map_or(Self::NotGiven, Self::Given)
    }
}

impl CancelNotice {
    /// Records the notification, with the reason in it.
    pub(crate) fn set(&self, reason: CancelReason) {
        // A second notification for the same call changes nothing.
        self.0.set(reason).ok();
    }

    /// Returns the reason in the notification; `None` if no notification came.
    pub(crate) fn reason(&self) -> Option<&CancelReason> {
        self.0.get()
    }

    /// Returns why this cancelled request was cancelled. Without a notification its connection was
    /// closed.
    pub(crate) fn intent(context: &RequestContext<RoleServer>) -> CancelIntent {
        match context.extensions.get::<Self>().and_then(Self::reason) {
            Some(reason) => classify_reason(reason),
            None => CancelIntent::ClientHungUp,
        }
    }
}

/// Words in the reasons of clients that stopped waiting. Reasons that were seen:
/// "McpError: MCP error -32001: Request timed out" (TypeScript SDK), "timed out after 5s" (Python
/// SDK), "request timeout" (Rust SDK), "context deadline exceeded" (Go), "TimeoutError: The operation
/// was aborted due to timeout" (`AbortSignal.timeout`), "MCP response future dropped" (Codex).
const GAVE_UP: [&str; 7] = [
    "timed out",
    "request timeout",
    "client timeout",
    "due to timeout",
    "timeouterror",
    "deadline exceeded",
    "response future dropped",
];

/// Returns the intent behind a cancel notification with this reason. Every other reason is a user's
/// cancel ("AbortError: This operation was aborted", "caller cancelled", a person's own words), and
/// so is none at all: clients without a limit of their own send that when a user presses stop, and a
/// command that goes on after a person stopped it would be worse than one that has to run again.
fn classify_reason(reason: &CancelReason) -> CancelIntent {
    let CancelReason::Given(text) = reason else { return CancelIntent::UserCancel };
    let text = text.to_lowercase();
    if GAVE_UP.iter().any(|words| text.contains(words)) {
        CancelIntent::ClientGaveUp
    } else {
        CancelIntent::UserCancel
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::yield_now;

    use super::*;
    use crate::output::{LogStorage, open_log};

    const LONG: Duration = Duration::from_secs(3600);
    const SOON: Duration = Duration::from_secs(60);

    fn log() -> LogReader {
        open_log(&LogStorage { memory_bytes: 1, spill_dir: std::env::temp_dir().into() }).1
    }

    /// Returns a scan that runs until its deadline is over, and signals its begin and its end.
    fn scan_on(
        signal: Sender<()>,
    ) -> impl FnOnce(&[BlockingReader], &ScanDeadline) + Send + 'static {
        move |_, deadline| {
            signal.send(()).ok();
            while !deadline.is_over() {
                yield_now();
            }
            signal.send(()).ok();
        }
    }

    #[test]
    fn a_call_replies_before_its_time_is_over() {
        for (most, left) in [(50_000, 2000), (600_000, 2000), (1000, 100), (0, 0)] {
            let most = Duration::from_millis(most);
            assert_eq!(reserve_reply_time(most), Duration::from_millis(left), "{most:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_cancelled_call_stops_its_scan() {
        let (signal, signals) = channel();
        let cancelled = CancellationToken::new();
        let call = cancelled.clone();
        let scanning =
            tokio::spawn(async move { scan_until(LONG, &call, &[log()], scan_on(signal)).await });
        signals.recv_timeout(SOON).unwrap();
        cancelled.cancel();
        tokio::time::timeout(SOON, scanning).await.unwrap().unwrap().unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_dropped_call_stops_its_scan() {
        let (signal, signals) = channel();
        let never = CancellationToken::new();
        let scanning =
            tokio::spawn(async move { scan_until(LONG, &never, &[log()], scan_on(signal)).await });
        signals.recv_timeout(SOON).unwrap();
        scanning.abort();
        signals.recv_timeout(SOON).unwrap();
    }

    #[test]
    fn a_turn_is_over_when_its_last_clone_is_dropped() {
        let (turn, over) = CallTurn::new();
        let clone = turn.clone();
        drop(turn);
        assert!(!over.is_cancelled());
        drop(clone);
        assert!(over.is_cancelled());
    }

    #[test]
    fn a_timeout_and_a_dropped_call_are_no_cancel_by_a_user() {
        for reason in [
            "McpError: MCP error -32001: Request timed out",
            "Request timed out",
            "timed out after 5s",
            "request timeout",
            "client timeout",
            "context deadline exceeded",
            "TimeoutError: The operation was aborted due to timeout",
            "MCP response future dropped",
        ] {
            let given = CancelReason::Given(reason.to_owned());
            assert_eq!(classify_reason(&given), CancelIntent::ClientGaveUp, "{reason}");
        }
    }

    #[test]
    fn any_other_reason_and_none_is_a_users_cancel() {
        for reason in [
            None,
            Some(""),
            Some("AbortError: This operation was aborted"),
            Some("AbortError: user-cancel"),
            Some("The operation was aborted"),
            Some("context canceled"),
            Some("caller cancelled"),
            Some("User requested cancellation"),
            Some("enough"),
        ] {
            let reason = CancelReason::from(reason.map(str::to_owned));
            assert_eq!(classify_reason(&reason), CancelIntent::UserCancel, "{reason:?}");
        }
    }
}

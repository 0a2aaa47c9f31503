//! One call of a tool: its context, its wait, its turn on the connection, and its reply.

use std::future::Future;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, slice};

use futures_util::FutureExt;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::time::{MissedTickBehavior, interval_at, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::mcp::approvals::Answered;
use crate::mcp::reply::{Answer, Fit, Shown, TokenBudget, ToolError};
use crate::mcp::settings::McpSettings;
use crate::mcp::snapshot::Snapshot;
use crate::output::ScanDeadline;
use crate::output::{BlockingReader, LogReader, ReadBusy, ReadPermit, scan_with};
use crate::service::{ApprovalQuestion, JobHandle, ParkedSubmission, TenantClient};

/// What a tool has at hand while it works on one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    /// Where its caller's jobs are.
    pub(crate) client: &'a TenantClient,
    /// How the surface is set up.
    pub(crate) settings: &'a McpSettings,
    /// The request: its cancellation and its way to the client.
    pub(crate) request: &'a RequestContext<RoleServer>,
    /// How much its answer may take.
    pub(crate) budget: TokenBudget,
    /// How long it waits before it goes on as a task; `None`: its client knows none.
    pub(crate) task_after: Option<Duration>,
    /// What it says to a question that it was answered with before.
    pub(crate) answered: Option<Answered<'a>>,
}

impl Call<'_> {
    /// How long this call may wait: as asked, within what its client will bear.
    pub(crate) fn wait(&self, asked: Option<Duration>) -> Duration {
        asked.unwrap_or(self.settings.wait_default).min(self.patience())
    }

    /// How long its client will bear to wait.
    pub(crate) fn patience(&self) -> Duration {
        let most = match self.request.meta.get_progress_token() {
            Some(_) => self.settings.wait_max,
            None => self.settings.wait_max_quiet,
        };
        most.saturating_sub(to_answer(most))
    }

    /// What there is to say about a job and its output.
    pub(crate) fn about(&self, job: &Snapshot, shown: Option<Shown>) -> Answer {
        Answer::about(job, shown, self.settings.result_format)
    }

    /// Makes answers fit that have, beside output, what `bare` has.
    pub(crate) fn fit(&self, bare: &Answer) -> Fit {
        Fit::new(self.budget, self.settings.result_format, self.client.redactor(), bare)
    }

    /// Reserves memory for a read of a log. Waits for it until the call is cancelled, or has only
    /// the time left that the read may take.
    pub(crate) async fn reserve(
        &self,
        log: &LogReader,
        bytes: usize,
    ) -> Result<ReadPermit, ReadBusy> {
        let wait = self.patience().saturating_sub(self.settings.search_time);
        tokio::select! {
            reserved = log.reserve(bytes, wait) => reserved,
            () = self.request.ct.cancelled() => log.reserve(bytes, Duration::ZERO).await,
        }
    }

    /// Scans a log off the runtime: until all is scanned, the time for it is over, or the client
    /// no longer wants the answer. The memory is reserved until the scan is over, also where its
    /// caller is gone, and comes back with what was found.
    ///
    /// # Errors
    /// `TimedOut` where the disk did not answer in time.
    pub(crate) async fn scan<T: Send + 'static>(
        &self,
        log: &LogReader,
        memory: ReadPermit,
        scan: impl FnOnce(&BlockingReader, &ScanDeadline) -> T + Send + 'static,
    ) -> io::Result<(T, ReadPermit)> {
        let scan = move |logs: &[BlockingReader], patience: &_| scan(&logs[0], patience);
        self.scan_all(slice::from_ref(log), memory, scan).await
    }

    /// Scans several logs as [`Call::scan`] does one.
    pub(crate) async fn scan_all<T: Send + 'static>(
        &self,
        logs: &[LogReader],
        memory: ReadPermit,
        scan: impl FnOnce(&[BlockingReader], &ScanDeadline) -> T + Send + 'static,
    ) -> io::Result<(T, ReadPermit)> {
        let scan = move |logs: &[BlockingReader], patience: &_| (scan(logs, patience), memory);
        scan_until(self.settings.search_time, &self.request.ct, logs, scan).await
    }

    /// Notes what an answer shows of a job's output: it is no news any more. The answer that starts a
    /// job does not: what it shows depends on how fast that began, and who waits next would miss it.
    pub(crate) fn mark_shown(&self, job: &JobHandle, news: Option<Range<u64>>) {
        if let Some(bytes) = news {
            self.client.mark_shown(job.id(), bytes);
        }
    }

    /// An answer as it goes to the client: secrets masked, within the budget.
    pub(crate) fn result(&self, answer: Answer) -> CallToolResult {
        let format = self.settings.result_format;
        answer.masked(&self.client.redactor()).within(self.budget, format).into_result(format)
    }

    /// Looks at a job now.
    pub(crate) async fn look(&self, job: &JobHandle) -> Snapshot {
        Snapshot::take(self.client, job).await
    }
}

/// What of the longest time that a call may take is left for its answer.
fn to_answer(most: Duration) -> Duration {
    (most / 10).min(Duration::from_secs(2))
}

/// Runs `scan` on a thread where it may block. Its patience is over after `time`, when the call
/// is cancelled, or when this future is dropped.
async fn scan_until<T: Send + 'static>(
    time: Duration,
    cancelled: &CancellationToken,
    logs: &[LogReader],
    scan: impl FnOnce(&[BlockingReader], &ScanDeadline) -> T + Send + 'static,
) -> io::Result<T> {
    let (patience, leash) = ScanDeadline::start(time);
    let mut scanning = pin!(scan_with(logs, time, move |logs| scan(logs, &patience)));
    tokio::select! {
        biased;
        scanned = &mut scanning => scanned,
        () = cancelled.cancelled() => {
            drop(leash);
            scanning.await
        }
    }
}

/// What a tool has to say to a call.
#[derive(Debug)]
pub(crate) enum Response {
    /// All that there is to say.
    Answer(Answer),
    /// The job goes on, and the client looks after it as a task.
    Task(JobHandle),
    /// Somebody must say yes first; then the call comes again.
    Ask(ApprovalQuestion),
    /// The same, with the client looking after it as a task.
    Parked(Box<ParkedSubmission>),
}

impl From<Answer> for Response {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// What is said to a call. A failure is said as well, and so is a panic: without an answer the
/// caller would wait for ever.
pub(crate) async fn answer_of<T: From<Answer>>(
    tool: &str,
    run: impl Future<Output = Result<T, ToolError>>,
) -> T {
    match AssertUnwindSafe(Box::pin(run)).catch_unwind().await {
        Ok(Ok(said)) => said,
        Ok(Err(error)) => error.into_answer().into(),
        Err(_) => Answer::failure(
            format!("{tool} failed inside the server; list_jobs shows what runs"),
            "internal",
        )
        .into(),
    }
}

/// Why a wait came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitEnd<T> {
    /// What was waited for has happened.
    Done(T),
    /// The time is over.
    Over,
    /// The client no longer wants the answer.
    Cancelled,
}

/// Waits for `event`, at most for `limit`. A client that asked for progress gets what `tell`
/// says every now and then.
pub(crate) async fn wait_for<T, F: Future<Output = String>>(
    call: Call<'_>,
    limit: Duration,
    event: impl Future<Output = T>,
    tell: impl Fn() -> F,
) -> WaitEnd<T> {
    let mut event = pin!(event);
    let mut over = pin!(sleep(limit));
    let every = call.settings.progress_every;
    let mut ticks = interval_at(tokio::time::Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let progress = Progress::of(call);
    loop {
        tokio::select! {
            biased;
            outcome = &mut event => return WaitEnd::Done(outcome),
            () = call.request.ct.cancelled() => return WaitEnd::Cancelled,
            () = &mut over => return WaitEnd::Over,
            _ = ticks.tick(), if progress.is_some() => {}
        }
        // Sent outside the select: a notification that was dropped half-way could still
        // be on its way when the result is, and arrive after it.
        if let Some(progress) = &progress {
            // The last line of output is in it.
            let text = call.client.redactor().mask_text(&tell().await).into_owned();
            progress.send(text).await;
        }
    }
}

/// The way back to a client that asked for progress.
struct Progress<'a> {
    peer: &'a Peer<RoleServer>,
    token: ProgressToken,
    since: Instant,
}

impl<'a> Progress<'a> {
    fn of(call: Call<'a>) -> Option<Self> {
        let token = call.request.meta.get_progress_token()?;
        Some(Self { peer: &call.request.peer, token, since: Instant::now() })
    }

    /// Sends the seconds since the start of the wait, which always increase.
    async fn send(&self, message: String) {
        let seconds = self.since.elapsed().as_secs_f64();
        let params =
            ProgressNotificationParam::new(self.token.clone(), seconds).with_message(message);
        // A client that is gone is noticed by its transport.
        if let Err(error) = self.peer.notify_progress(params).await {
            tracing::debug!(%error, "progress not sent");
        }
    }
}

/// A call's turn to start. A transport that reads calls one after the other sends it along with
/// each, in its extensions, and hands on the next one when the turn is over: once the call has
/// started its work, or was dropped.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    over: CancellationToken,
    _over_when_dropped: Arc<DropGuard>,
}

impl Turn {
    /// A turn, and what is cancelled when it is over.
    pub(crate) fn new() -> (Self, CancellationToken) {
        let over = CancellationToken::new();
        let guard = Arc::new(over.clone().drop_guard());
        (Self { over: over.clone(), _over_when_dropped: guard }, over)
    }

    /// Lets the call after this one start, where it waits for that.
    pub(crate) fn end(context: &RequestContext<RoleServer>) {
        if let Some(turn) = context.extensions.get::<Self>() {
            turn.over.cancel();
        }
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

    /// Scans until patience is over, and tells when it begins and when it ends.
    fn scan_on(tell: Sender<()>) -> impl FnOnce(&[BlockingReader], &ScanDeadline) + Send + 'static {
        move |_, patience| {
            tell.send(()).ok();
            while !patience.is_over() {
                yield_now();
            }
            tell.send(()).ok();
        }
    }

    #[test]
    fn a_call_answers_before_its_time_is_over() {
        for (most, left) in [(50_000, 2000), (600_000, 2000), (1000, 100), (0, 0)] {
            let most = Duration::from_millis(most);
            assert_eq!(to_answer(most), Duration::from_millis(left), "{most:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_cancelled_call_no_longer_scans() {
        let (tell, told) = channel();
        let cancelled = CancellationToken::new();
        let call = cancelled.clone();
        let scanning =
            tokio::spawn(async move { scan_until(LONG, &call, &[log()], scan_on(tell)).await });
        told.recv_timeout(SOON).unwrap();
        cancelled.cancel();
        tokio::time::timeout(SOON, scanning).await.unwrap().unwrap().unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_that_is_gone_no_longer_scans() {
        let (tell, told) = channel();
        let never = CancellationToken::new();
        let scanning =
            tokio::spawn(async move { scan_until(LONG, &never, &[log()], scan_on(tell)).await });
        told.recv_timeout(SOON).unwrap();
        scanning.abort();
        told.recv_timeout(SOON).unwrap();
    }

    #[test]
    fn a_turn_is_over_when_its_last_clone_is_gone() {
        let (turn, over) = Turn::new();
        let clone = turn.clone();
        drop(turn);
        assert!(!over.is_cancelled());
        drop(clone);
        assert!(over.is_cancelled());
    }
}

//! What a tool has at hand while it works on one call.

use std::io;
use std::ops::Range;
use std::pin::pin;
use std::slice;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::RequestContext;
use tokio_util::sync::CancellationToken;

use crate::mcp::approvals::Answered;
use crate::mcp::reply::{Answer, Fit, Shown, TokenBudget};
use crate::mcp::settings::McpSettings;
use crate::mcp::snapshot::Snapshot;
use crate::output::patience::Patience;
use crate::output::{BlockingReader, LogReader, ReadBusy, ReadPermit, scan_with};
use crate::yard::{Desk, JobHandle};

/// What a tool has at hand while it works on one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    /// Where its caller's jobs are.
    pub(crate) desk: &'a Desk,
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
        Fit::new(self.budget, self.settings.result_format, self.desk.redactor(), bare)
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
        scan: impl FnOnce(&BlockingReader, &Patience) -> T + Send + 'static,
    ) -> io::Result<(T, ReadPermit)> {
        let scan = move |logs: &[BlockingReader], patience: &_| scan(&logs[0], patience);
        self.scan_all(slice::from_ref(log), memory, scan).await
    }

    /// Scans several logs as [`Call::scan`] does one.
    pub(crate) async fn scan_all<T: Send + 'static>(
        &self,
        logs: &[LogReader],
        memory: ReadPermit,
        scan: impl FnOnce(&[BlockingReader], &Patience) -> T + Send + 'static,
    ) -> io::Result<(T, ReadPermit)> {
        let scan = move |logs: &[BlockingReader], patience: &_| (scan(logs, patience), memory);
        scan_until(self.settings.search_time, &self.request.ct, logs, scan).await
    }

    /// Notes what an answer shows of a job's output: it is no news any more. The answer that starts a
    /// job does not: what it shows depends on how fast that began, and who waits next would miss it.
    pub(crate) fn has_shown(&self, job: &JobHandle, news: Option<Range<u64>>) {
        if let Some(bytes) = news {
            self.desk.has_shown(job.id(), bytes);
        }
    }

    /// Looks at a job now.
    pub(crate) async fn look(&self, job: &JobHandle) -> Snapshot {
        Snapshot::take(self.desk, job).await
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
    scan: impl FnOnce(&[BlockingReader], &Patience) -> T + Send + 'static,
) -> io::Result<T> {
    let (patience, leash) = Patience::start(time);
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::yield_now;

    use super::*;
    use crate::output::{LogSettings, open};

    const LONG: Duration = Duration::from_secs(3600);
    const SOON: Duration = Duration::from_secs(60);

    fn log() -> LogReader {
        open(&LogSettings { memory_bytes: 1, spill_dir: std::env::temp_dir().into() }).1
    }

    /// Scans until patience is over, and tells when it begins and when it ends.
    fn scan_on(tell: Sender<()>) -> impl FnOnce(&[BlockingReader], &Patience) + Send + 'static {
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
}

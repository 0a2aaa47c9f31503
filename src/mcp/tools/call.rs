//! What a tool has at hand while it works on one call.

use std::ops::Range;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::RequestContext;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use crate::mcp::approvals::Answered;
use crate::mcp::reply::{Answer, Fit, Shown, TokenBudget};
use crate::mcp::settings::McpSettings;
use crate::mcp::snapshot::Snapshot;
use crate::output::patience::Patience;
use crate::output::{LogReader, ReadBusy, ReadPermit};
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

    /// Looks through output, away from the runtime's threads: until all is looked at, the time
    /// for it is over, or the client no longer wants the answer. The memory is reserved until the
    /// look is over, also where its caller is gone, and comes back with what was found.
    pub(crate) async fn look_through<T: Send + 'static>(
        &self,
        memory: ReadPermit,
        look: impl FnOnce(&Patience) -> T + Send + 'static,
    ) -> Result<(T, ReadPermit), JoinError> {
        let look = move |patience: &_| {
            let found = look(patience);
            memory.trim();
            (found, memory)
        };
        look_until(self.settings.search_time, &self.request.ct, look).await
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

/// Runs `look` on a thread where it may block. Its patience is over after `time`, when the call
/// is cancelled, or when this future is dropped.
async fn look_until<T: Send + 'static>(
    time: Duration,
    cancelled: &CancellationToken,
    look: impl FnOnce(&Patience) -> T + Send + 'static,
) -> Result<T, JoinError> {
    let (patience, leash) = Patience::start(time);
    let mut looking = tokio::task::spawn_blocking(move || look(&patience));
    tokio::select! {
        biased;
        looked = &mut looking => looked,
        () = cancelled.cancelled() => {
            drop(leash);
            looking.await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::yield_now;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);
    const SOON: Duration = Duration::from_secs(60);

    /// Looks until patience is over, and tells when it begins and when it ends.
    fn look_on(tell: Sender<()>) -> impl FnOnce(&Patience) + Send + 'static {
        move |patience| {
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
    async fn a_cancelled_call_no_longer_looks() {
        let (tell, told) = channel();
        let cancelled = CancellationToken::new();
        let call = cancelled.clone();
        let looking = tokio::spawn(async move { look_until(LONG, &call, look_on(tell)).await });
        told.recv_timeout(SOON).unwrap();
        cancelled.cancel();
        tokio::time::timeout(SOON, looking).await.unwrap().unwrap().unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_that_is_gone_no_longer_looks() {
        let (tell, told) = channel();
        let never = CancellationToken::new();
        let looking = tokio::spawn(async move { look_until(LONG, &never, look_on(tell)).await });
        told.recv_timeout(SOON).unwrap();
        looking.abort();
        told.recv_timeout(SOON).unwrap();
    }
}

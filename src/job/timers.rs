//! A job's timers. Each reports to the actor with a message; all stop with the actor.

use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::messages::{Address, JobMsg, PumpProbe};
use crate::output::LogReader;

/// The extra time that the pump gets to empty the pipes once `max` has passed.
const EXTRA_DRAIN_TIME: Duration = Duration::from_secs(1);

/// The purpose of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// The grace period of the tree is over.
    Grace,
    /// The wait for last bytes is over.
    Drain,
    /// The tree is due for another check.
    CheckTree,
}

/// The running timers. Setting a timer again restarts it.
#[derive(Debug, Default)]
pub(super) struct Timers {
    running: Vec<(Timer, AbortHandle)>,
}

impl Timers {
    pub(super) fn arm(&mut self, timer: Timer, after: Duration, actor: &Address) {
        let actor = actor.clone();
        self.start(timer, async move {
            tokio::time::sleep(after).await;
            actor.send(JobMsg::Timer(timer));
        });
    }

    /// Sets [`Timer::Drain`]: it fires after `max`, or once the output has been quiet for `quiet`,
    /// if given. Everything written before is then in the log, unless the host is overloaded.
    pub(super) fn arm_drain(
        &mut self,
        output: OutputActivity,
        quiet: Option<Duration>,
        max: Duration,
        actor: &Address,
    ) {
        let actor = actor.clone();
        self.start(Timer::Drain, async move {
            // After `max`, the pump gets a little more time to empty the pipes.
            if tokio::time::timeout(max, output.wait_until_quiet(quiet)).await.is_err() {
                drop(tokio::time::timeout(EXTRA_DRAIN_TIME, output.wait_until_all_is_read()).await);
            }
            actor.send(JobMsg::Timer(Timer::Drain));
        });
    }

    pub(super) fn clear(&mut self) {
        for (_, clock) in self.running.drain(..) {
            clock.abort();
        }
    }

    fn start(&mut self, timer: Timer, clock: impl Future<Output = ()> + Send + 'static) {
        let clock = tokio::spawn(clock).abort_handle();
        self.running.retain(|(running, old)| {
            let again = *running == timer;
            if again {
                old.abort();
            }
            !again
        });
        self.running.push((timer, clock));
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The output of a job: its log, and the probe of the pump that fills it.
#[derive(Debug)]
pub(super) struct OutputActivity {
    pub(super) log: LogReader,
    pub(super) pump: Option<PumpProbe>,
}

impl OutputActivity {
    /// Returns once the output has been quiet for `quiet`; never returns if that is `None`.
    async fn wait_until_quiet(&self, quiet: Option<Duration>) {
        let Some(quiet) = quiet else { return std::future::pending().await };
        let mut since = Instant::now();
        loop {
            tokio::time::sleep(quiet.saturating_sub(since.elapsed())).await;
            self.wait_until_all_is_read().await;
            match self.log.progress().last_output {
                Some(last) if last > since => since = last,
                Some(_) | None => return,
            }
        }
    }

    async fn wait_until_all_is_read(&self) {
        if let Some(pump) = &self.pump {
            pump.wait_until_all_is_read().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::super::tests::{LONG, settings};
    use super::*;
    use crate::output;
    use crate::spec::Stream;

    const MOMENT: Duration = Duration::from_millis(1);

    async fn next_request(pump: &PumpProbe) -> oneshot::Sender<()> {
        tokio::time::timeout(LONG, pump.next_request()).await.expect("the pump is asked")
    }

    #[tokio::test]
    async fn what_lies_in_a_pipe_when_the_log_has_been_quiet_is_waited_for() {
        let settings = settings();
        let (mut writer, log) = output::open_log(&settings.log);
        let pump = PumpProbe::default();
        let output = OutputActivity { log, pump: Some(pump.clone()) };
        let quiet = tokio::spawn(async move { output.wait_until_quiet(Some(MOMENT)).await });
        // A pump that runs late and then finds bytes.
        let asker = next_request(&pump).await;
        assert!(!quiet.is_finished());
        writer.append(Stream::Stdout, b"late");
        drop(asker);
        let asker = next_request(&pump).await;
        assert!(!quiet.is_finished(), "it begins to be quiet anew");
        drop(asker);
        quiet.await.unwrap();
    }
}

//! A job's clocks. Each reports to the actor with a message; all stop with the actor.

use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::actor::JobMsg;
use super::address::Address;
use crate::output::LogReader;

/// What a clock was set for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// The tree had its time to end by itself.
    Grace,
    /// Last bytes were waited for long enough.
    Drain,
    /// It is time to look at the tree.
    CheckTree,
}

/// The clocks that run. A clock that is set again starts anew.
#[derive(Debug, Default)]
pub(super) struct Timers {
    running: Vec<(Timer, AbortHandle)>,
}

impl Timers {
    pub(super) fn arm(&mut self, timer: Timer, after: Duration, actor: &Address) {
        let actor = actor.clone();
        self.start(timer, async move {
            tokio::time::sleep(after).await;
            actor.tell(JobMsg::Timer(timer));
        });
    }

    /// [`Timer::Drain`], once the log has been quiet for a while, or at `max`.
    pub(super) fn arm_quiet(
        &mut self,
        output: &LogReader,
        quiet: Duration,
        max: Duration,
        actor: &Address,
    ) {
        let (actor, output) = (actor.clone(), output.clone());
        self.start(Timer::Drain, async move {
            // Late is fine: the bound only has to hold.
            drop(tokio::time::timeout(max, until_quiet(&output, quiet)).await);
            actor.tell(JobMsg::Timer(Timer::Drain));
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

async fn until_quiet(output: &LogReader, quiet: Duration) {
    let mut since = Instant::now();
    loop {
        tokio::time::sleep(quiet.saturating_sub(since.elapsed())).await;
        match output.progress().last_output {
            Some(last) if last > since => since = last,
            Some(_) | None => return,
        }
    }
}

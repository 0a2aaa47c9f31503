//! Waiting with a bound: no call outlives its wait, its cancellation or its client's patience.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use tokio::time::{MissedTickBehavior, interval_at, sleep};

use super::tools::Call;

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
            let text = call.desk.redactor().mask_text(&tell().await).into_owned();
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

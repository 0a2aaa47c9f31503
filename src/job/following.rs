//! What follows a job from its birth to its end: its pipes, its leader, its deadline.

use std::time::{Duration, Instant};

use futures_util::future::{join, maybe_done};
use tokio::time::timeout;

use super::actor::JobMsg;
use super::address::Address;
use super::pump::Pump;

/// How long what a new job writes may wait in its pipe. Most jobs have ended by then: one wake-up
/// brings all that they wrote, and their end.
const AT_FIRST: Duration = Duration::from_millis(2);

/// Moves what a job writes into its log until both pipes have ended, and returns when its leader has
/// ended as well, which `ended` tells. A deadline that passes is told.
pub(super) async fn follow(
    mut pump: Pump,
    ended: impl Future<Output = ()> + Send,
    deadline: Duration,
    actor: Address,
) {
    let begun = Instant::now();
    let mut ended = Box::pin(maybe_done(ended));
    pump.rest(&mut ended, AT_FIRST.min(deadline)).await;
    // In a box, or the task would have room for each of them several times over.
    let mut both = Box::pin(join(pump.run(), ended));
    if timeout(deadline.saturating_sub(begun.elapsed()), &mut both).await.is_err() {
        actor.tell(JobMsg::DeadlinePassed);
        both.await;
    }
}

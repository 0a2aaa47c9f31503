//! What follows a job from its birth to its end: its pipes, its leader, its deadline.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{join, maybe_done};
use tokio::time::timeout;

use super::actor::{JobMsg, Reaped};
use super::address::Address;
use super::pump::Pump;

/// How long what a new job writes may wait in its pipe. Most jobs have ended by then: one wake-up
/// brings all that they wrote, and their end.
const AT_FIRST: Duration = Duration::from_millis(2);

/// Moves what a job writes into its log until both pipes have ended, and tells of the end of its leader
/// and of a deadline that passes. Returns when both, pipes and leader, have ended.
pub(super) fn follow(
    mut pump: Pump,
    leader: impl Future<Output = Reaped> + Send,
    deadline: Duration,
    actor: Address,
) -> impl Future<Output = ()> + Send {
    let told = actor.clone();
    // In a box, or the task would have room for its parts several times over.
    let mut both = Box::pin(async move {
        let mut leader = pin!(maybe_done(leader));
        pump.rest(&mut leader, AT_FIRST).await;
        let ended = async {
            leader.as_mut().await;
            if let Some(reaped) = leader.take_output() {
                told.tell(JobMsg::LeaderExited(reaped));
            }
        };
        // In this order: a bound that the job has passed is told before its end.
        join(pump.run(), ended).await;
    });
    async move {
        if timeout(deadline, &mut both).await.is_err() {
            actor.tell(JobMsg::DeadlinePassed);
            both.await;
        }
    }
}

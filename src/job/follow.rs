//! Follows a process: its output, its leader and its deadline.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::poll;
use tokio::time::timeout;

use super::messages::{Address, JobMsg, ReapedLeader};
use crate::process::{LeaderProcess, ProcessTree};

/// Follows a process until its leader and its output have ended. One task does both, because the
/// output and the end of a short job mostly come together.
pub(super) async fn follow(
    leader: LeaderProcess,
    tree: Arc<ProcessTree>,
    pumping: Pin<Box<impl Future<Output = ()>>>,
    deadline: Duration,
    actor: Address,
) {
    // Boxed: otherwise the task would hold space for it three times.
    let waiting = Box::pin(reap_leader(leader, tree));
    let mut both = pin!(to_their_ends(waiting, pumping, &actor));
    if timeout(deadline, &mut both).await.is_err() {
        actor.send(JobMsg::DeadlinePassed);
        both.await;
    }
}

async fn reap_leader(leader: LeaderProcess, tree: Arc<ProcessTree>) -> ReapedLeader {
    let exit = leader.wait().await;
    // In this order: without survivors the kernel's counters of the tree are removed.
    let out_of_memory = tree.out_of_memory();
    let was_refused_tasks = tree.was_refused_tasks();
    let survivors = tree.survivors_after_exit();
    ReapedLeader { exit, out_of_memory, was_refused_tasks, survivors }
}

async fn to_their_ends(
    waiting: Pin<Box<impl Future<Output = ReapedLeader>>>,
    mut pumping: Pin<Box<impl Future<Output = ()>>>,
    actor: &Address,
) {
    let (reaped, mut is_pumped) = match select(waiting, &mut pumping).await {
        Either::Left((reaped, _)) => (reaped, false),
        Either::Right(((), waiting)) => (waiting.await, true),
    };
    if !is_pumped {
        // The leader wrote before it ended, so the pump's reports come first.
        is_pumped = poll!(&mut pumping).is_ready();
    }
    actor.send(JobMsg::LeaderExited(reaped));
    if !is_pumped {
        pumping.await;
    }
}

//! Follows a process: what it writes, its leader, and the time it has.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::poll;
use tokio::time::timeout;

use super::actor::JobMsg;
use super::address::Address;
use crate::process::{Exit, Leader, Tree};

/// What is known when the leader was reaped.
#[derive(Debug)]
pub(super) struct Reaped {
    pub(super) exit: io::Result<Exit>,
    /// The most memory that the job had, where the kernel ended it for want of more.
    pub(super) out_of_memory: Option<u64>,
    /// `true` if the kernel refused the job a process because of its limit.
    pub(super) was_refused_tasks: bool,
    /// Those that outlived it.
    pub(super) survivors: Vec<u32>,
}

/// Follows a process until its leader and its output have come to their ends. One task for all: what a
/// short job writes and its end mostly come together.
pub(super) async fn follow(
    leader: Leader,
    tree: Arc<Tree>,
    pumping: Pin<Box<impl Future<Output = ()>>>,
    deadline: Duration,
    actor: Address,
) {
    // In a box, or the task would have room for it three times over.
    let waiting = Box::pin(reap(leader, tree));
    let mut both = pin!(to_their_ends(waiting, pumping, &actor));
    if timeout(deadline, &mut both).await.is_err() {
        actor.tell(JobMsg::DeadlinePassed);
        both.await;
    }
}

async fn reap(leader: Leader, tree: Arc<Tree>) -> Reaped {
    let exit = leader.wait().await;
    // In this order: where nobody survives, the kernel's books on the tree are closed.
    let out_of_memory = tree.out_of_memory();
    let was_refused_tasks = tree.was_refused_tasks();
    let survivors = tree.survivors_after_exit();
    Reaped { exit, out_of_memory, was_refused_tasks, survivors }
}

async fn to_their_ends(
    waiting: Pin<Box<impl Future<Output = Reaped>>>,
    mut pumping: Pin<Box<impl Future<Output = ()>>>,
    actor: &Address,
) {
    let (reaped, mut is_pumped) = match select(waiting, &mut pumping).await {
        Either::Left((reaped, _)) => (reaped, false),
        Either::Right(((), waiting)) => (waiting.await, true),
    };
    if !is_pumped {
        // The leader wrote before it ended: what the pump has to say of that comes first.
        is_pumped = poll!(&mut pumping).is_ready();
    }
    actor.tell(JobMsg::LeaderExited(reaped));
    if !is_pumped {
        pumping.await;
    }
}

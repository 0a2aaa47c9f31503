//! Tasks that wait for something and tell the supervisor, whichever actor that is by then.

use std::sync::Arc;
use std::time::Duration;

use super::actor::SupervisorMsg;
use super::address::Post;
use super::door::AtEnd;
use crate::job::JobHandle;
use crate::outcome::Ending;
use crate::output::{Answer, Packer, Quota};

/// How long after a wish for room that could not be met the next one comes.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(50);

/// Asks for room whenever a cap on stored output is near: for what is short by then, once what was
/// freed before has been given back.
pub(super) async fn watch_for_shortages(quota: Arc<Quota>, supervisor: Post) {
    loop {
        quota.wants_room().await;
        let shortages = quota.shortages();
        if shortages.is_empty() {
            quota.answer(Answer::Room);
            continue;
        }
        let make_room = |reply| SupervisorMsg::MakeRoom(shortages.clone(), reply);
        // Nobody who supervises frees nothing: whoever waits for room is not to wait for that.
        if supervisor.ask(make_room).await.unwrap_or(0) > 0 {
            quota.answer(Answer::Room);
        } else {
            quota.answer(Answer::NoRoom);
            // Only running jobs hold the room: not to be asked in a hurry.
            tokio::time::sleep(SHORTAGE_PAUSE).await;
        }
    }
}

/// What is still to be done at the end of a job: done when this is dropped, also with the runtime.
#[derive(Debug)]
struct Due {
    at_end: Option<AtEnd>,
    job: JobHandle,
    ending: Ending,
}

impl Drop for Due {
    fn drop(&mut self) {
        if let Some(at_end) = self.at_end.take() {
            at_end.carry_out(&self.job, &self.ending);
        }
    }
}

/// The end of a job frees its slot, however it ended: its status says so even when its actor
/// failed. Then it is followed until nothing of it runs, and its log is compressed.
pub(super) async fn watch_for_the_end(
    job: JobHandle,
    at_end: Option<AtEnd>,
    packer: Option<Packer>,
    supervisor: Post,
) {
    let id = job.id();
    let ending = job.finished().await;
    supervisor.report(|| SupervisorMsg::Ended(id)).await;
    let due = at_end.map(|at_end| Due { at_end: Some(at_end), job: job.clone(), ending });
    // Whoever waits for the job gets its answer first.
    tokio::task::yield_now().await;
    drop(due);
    if !job.is_settled() {
        job.settled().await;
        supervisor.report(|| SupervisorMsg::Settled(id)).await;
    }
    let Some(packing) = packer.and_then(|packer| packer.consider(job.output())) else { return };
    // Whoever waits for its turn keeps nothing that could be freed.
    drop(job);
    packing.run().await;
    supervisor.report(|| SupervisorMsg::Settled(id)).await;
}

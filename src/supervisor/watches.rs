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
    // Before the end is told: whoever is told may look before we look again.
    let was_settled = job.is_settled();
    supervisor.report(|| SupervisorMsg::Ended(id)).await;
    let due = at_end.map(|at_end| Due { at_end: Some(at_end), job: job.clone(), ending });
    // Whoever waits for the job gets its answer first.
    tokio::task::yield_now().await;
    drop(due);
    if !was_settled {
        job.settled().await;
        supervisor.report(|| SupervisorMsg::Settled(id)).await;
    }
    let Some(packing) = packer.and_then(|packer| packer.consider(job.output())) else { return };
    // Whoever waits for its turn keeps nothing that could be freed.
    drop(job);
    packing.run().await;
    supervisor.report(|| SupervisorMsg::Settled(id)).await;
}

#[cfg(test)]
mod tests {
    use ractor::{Actor, ActorProcessingErr, ActorRef};
    use tokio::sync::mpsc;

    use super::super::address::{Address, Holder};
    use super::*;
    use crate::job;
    use crate::output::LogWriter;
    use crate::telemetry::events::Letter;

    /// Hears of an end, and sees to it that the job is settled before anybody looks again.
    struct Settling;

    impl Actor for Settling {
        type Msg = Letter<SupervisorMsg>;
        type State = (Option<LogWriter>, mpsc::UnboundedSender<&'static str>);
        type Arguments = Self::State;

        async fn pre_start(
            &self,
            _: ActorRef<Self::Msg>,
            state: Self::State,
        ) -> Result<Self::State, ActorProcessingErr> {
            Ok(state)
        }

        async fn handle(
            &self,
            _: ActorRef<Self::Msg>,
            letter: Self::Msg,
            (writer, heard): &mut Self::State,
        ) -> Result<(), ActorProcessingErr> {
            let message = letter.open();
            if let SupervisorMsg::Ended(_) = message {
                *writer = None;
                heard.send("ended")?;
            } else if let SupervisorMsg::Settled(_) = message {
                heard.send("settled")?;
            }
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_job_that_settles_just_as_its_end_is_told_is_told_as_settled() {
        let (job, writer) = job::tests::ended_with_an_open_log();
        let (told, mut heard) = mpsc::unbounded_channel();
        let (actor, ending) = Actor::spawn(None, Settling, (Some(writer), told)).await.unwrap();
        let (appoint, post) = Post::open();
        appoint.send(Holder::Held(Address::of(actor.clone()))).unwrap();
        watch_for_the_end(job, None, None, post).await;
        actor.drain().unwrap();
        ending.await.unwrap();
        assert_eq!((heard.recv().await, heard.recv().await), (Some("ended"), Some("settled")));
    }
}

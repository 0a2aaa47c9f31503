//! The root supervisor: an actor above the supervisor that starts a new one when it fails, and the
//! addresses by which others reach the current one.
//!
//! Each supervisor hands the known jobs on to the next one: finished jobs stay readable, and keys
//! still name their jobs. Jobs that waited or ran are lost, since ractor ends the actors below one
//! that fails, and the guards end their trees. Bounds, pauses and a drain that were set at run time
//! stay in force. The turns of tenants, their CPU time and their starts are counted from zero
//! again.
//!
//! A supervisor that fails repeatedly has a bug that a restart does not fix: it is given up, and
//! the server ends.
//!
//! An [`Address`] reaches one actor and is useless after its end. A [`SupervisorAddress`] reaches
//! the current supervisor: when an actor fails, messages go to its successor.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{
    Actor, ActorCell, ActorProcessingErr, ActorRef, RpcReplyPort, SpawnErr, SupervisionEvent, call,
};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::accept::RestoredJobs;
use super::actor::{
    Supervision, SupervisorActor, SupervisorArgs, SupervisorMsg, SupervisorSettings,
};
use super::handle::Acceptance;
use super::queue::{Queue, QueueLimits};
use super::registry::{Registry, Retention};
use crate::ids::JobId;
use crate::job::SharedJobSettings;
use crate::output::{LogCompressor, Quota, ReclaimOutcome};
use crate::telemetry::ActorKind;
use crate::telemetry::events::{self, CountedMessage};

/// The number of failures within [`SHORT_TIME`] that are tolerated; one more, and the root
/// supervisor gives up.
const TOLERATED_FAILURES: usize = 5;
const SHORT_TIME: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct RootSupervisor;

/// The arguments of the root supervisor.
#[derive(Debug)]
pub(super) struct RootArgs {
    pub(super) settings: SupervisorSettings,
    /// The jobs of a previous server.
    pub(super) restored: RestoredJobs,
    /// Publishes the current supervisor.
    pub(super) set_current: watch::Sender<CurrentSupervisor>,
    pub(super) supervisor_address: SupervisorAddress,
}

/// The state of the root supervisor.
#[derive(Debug)]
pub(super) struct RootState {
    job: Arc<SharedJobSettings>,
    packer: Option<LogCompressor>,
    freed_sender: mpsc::UnboundedSender<JobId>,
    /// Invariant: only the current supervisor will send its handover.
    handovers: mpsc::Receiver<Handover>,
    handover_sender: mpsc::Sender<Handover>,
    set_current: watch::Sender<CurrentSupervisor>,
    supervisor_address: SupervisorAddress,
    failures: RecentFailures,
}

impl Actor for RootSupervisor {
    type Msg = ();
    type State = RootState;
    type Arguments = RootArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<()>,
        args: RootArgs,
    ) -> Result<RootState, ActorProcessingErr> {
        let RootArgs { settings, restored, set_current, supervisor_address } = args;
        let SupervisorSettings { queue, retention, compress_from, job, freed_sender } = settings;
        let (handover_sender, handovers) = mpsc::channel(1);
        let spill_dir = job.log.spill_dir.clone();
        let mut root = RootState {
            packer: compress_from.map(|bytes| LogCompressor::new(bytes, spill_dir)),
            job: Arc::new(job),
            freed_sender,
            handovers,
            handover_sender,
            set_current,
            supervisor_address,
            failures: RecentFailures::default(),
        };
        let handover = Handover::new(queue, retention, restored);
        root.set_current(handover, myself.get_cell()).await?;
        tokio::spawn(watch_for_shortages(
            Arc::clone(&root.job.quota),
            root.supervisor_address.clone(),
        ));
        Ok(root)
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<()>,
        event: SupervisionEvent,
        root: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(_, error) => {
                events::actor_failed(ActorKind::Supervisor, &error);
                root.replace(myself.get_cell()).await;
            }
            // The supervisor never ends by itself.
            SupervisionEvent::ActorTerminated(_, _, why) => {
                let why = why.unwrap_or_else(|| "it was stopped".to_owned());
                events::actor_failed(ActorKind::Supervisor, &why);
                root.replace(myself.get_cell()).await;
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl RootState {
    /// Starts a supervisor, to which this state is handed over.
    async fn set_current(
        &mut self,
        handover: Handover,
        root_cell: ActorCell,
    ) -> Result<(), SpawnErr> {
        let args = SupervisorArgs {
            job: Arc::clone(&self.job),
            packer: self.packer.clone(),
            freed_sender: self.freed_sender.clone(),
            handover,
            supervisor_address: self.supervisor_address.clone(),
            handover_sender: self.handover_sender.clone(),
        };
        let (actor, _) = Actor::spawn_linked(None, SupervisorActor, args, root_cell).await?;
        self.set_current.send_replace(CurrentSupervisor::Running(Address::new(actor)));
        Ok(())
    }

    /// Starts a new supervisor after a failure, unless there were too many.
    async fn replace(&mut self, root_cell: ActorCell) {
        self.set_current.send_replace(CurrentSupervisor::Restarting);
        let next = self.failures.next(Instant::now());
        // Hand-over from the failed actor to this one: its state arrives as soon as ractor drops it.
        match (next, self.handovers.recv().await) {
            (FailureReaction::Restart, Some(handover)) => self.hand_on(handover, root_cell).await,
            (FailureReaction::GiveUp, _) | (FailureReaction::Restart, None) => self.give_up(),
        }
    }

    async fn hand_on(&mut self, handover: Handover, root_cell: ActorCell) {
        match self.set_current(handover, root_cell).await {
            Ok(()) => events::supervisor_restarted(),
            // Starting up is deterministic, so a retry would fail the same way.
            Err(error) => {
                events::actor_failed(ActorKind::Supervisor, &error);
                self.give_up();
            }
        }
    }

    fn give_up(&self) {
        events::supervisor_abandoned();
        self.set_current.send_replace(CurrentSupervisor::GivenUp);
    }
}

/// The times of the supervisor's recent failures.
#[derive(Debug, Default)]
struct RecentFailures {
    recent: VecDeque<Instant>,
}

/// The reaction to a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailureReaction {
    Restart,
    GiveUp,
}

impl RecentFailures {
    /// Returns the reaction to one more failure at this time.
    fn next(&mut self, now: Instant) -> FailureReaction {
        self.recent.retain(|at| now.duration_since(*at) < SHORT_TIME);
        self.recent.push_back(now);
        if self.recent.len() > TOLERATED_FAILURES {
            FailureReaction::GiveUp
        } else {
            FailureReaction::Restart
        }
    }
}

/// The pause after a request for room that could not be met.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(50);

/// Asks the supervisor for room whenever a cap on stored output is near. The request covers what is
/// short at that moment, after earlier frees have been given back.
async fn watch_for_shortages(quota: Arc<Quota>, supervisor: SupervisorAddress) {
    loop {
        quota.wait_for_room_request().await;
        let shortages = quota.shortages();
        if shortages.is_empty() {
            quota.report_reclaim(ReclaimOutcome::Room);
            continue;
        }
        let make_room = |reply| SupervisorMsg::MakeRoom(shortages.clone(), reply);
        // Without a supervisor nothing is freed, and writers must not wait for it.
        if supervisor.ask(make_room).await.unwrap_or(0) > 0 {
            quota.report_reclaim(ReclaimOutcome::Room);
        } else {
            quota.report_reclaim(ReclaimOutcome::NoRoom);
            // Only running jobs hold the room, so a quick retry would not help.
            sleep(SHORTAGE_PAUSE).await;
        }
    }
}

// State that is handed over to a restarted supervisor.

/// The state that one supervisor hands to the next. It has one owner at a time: the actor, then the
/// root supervisor, then the next actor.
///
/// Contains only state that is always consistent, because an actor may fail in the middle of a
/// change.
#[derive(Debug)]
pub(super) struct Handover {
    /// The known jobs. The next supervisor checks again which of them have ended.
    pub(super) registry: Registry,
    /// Limits and pauses, without jobs.
    pub(super) queue: Queue,
    pub(super) acceptance: Acceptance,
    /// The jobs of a previous server, for the first supervisor alone.
    pub(super) restored: RestoredJobs,
}

impl Handover {
    /// Creates the state of the first supervisor.
    fn new(queue: QueueLimits, retention: Retention, restored: RestoredJobs) -> Self {
        Self {
            registry: Registry::new(retention),
            queue: Queue::new(queue),
            acceptance: Acceptance::Open,
            restored,
        }
    }
}

/// Hands the state over to the root supervisor when ractor drops it, also after a panic.
impl Drop for Supervision {
    fn drop(&mut self) {
        let handover = Handover {
            registry: self.registry.hand_on(),
            queue: self.queue.without_jobs(),
            acceptance: self.acceptance,
            restored: RestoredJobs::default(),
        };
        // Without a root supervisor the whole program ends, and no successor needs the state.
        self.handover_sender.try_send(handover).ok();
    }
}

// The addresses of the supervisor: the only way to send it messages.

/// The address of one supervising actor. A cheap clone.
#[derive(Debug, Clone)]
pub(super) struct Address(ActorRef<CountedMessage<SupervisorMsg>>);

/// The actor is gone; the message did not reach it.
#[derive(Debug)]
pub(super) struct ActorGone;

impl Address {
    pub(super) const fn new(actor: ActorRef<CountedMessage<SupervisorMsg>>) -> Self {
        Self(actor)
    }

    /// Returns the actor as a parent for other actors.
    pub(super) fn cell(&self) -> ActorCell {
        self.0.get_cell()
    }

    pub(super) fn send(&self, message: SupervisorMsg) -> Result<(), ActorGone> {
        self.0.cast(CountedMessage::new(ActorKind::Supervisor, message)).map_err(|_| ActorGone)
    }

    /// Sends a message after this time, if the actor still exists then.
    pub(super) fn send_after(&self, pause: Duration, message: fn() -> SupervisorMsg) {
        self.0.send_after(pause, move || CountedMessage::new(ActorKind::Supervisor, message()));
    }

    /// Sends a message and waits for the reply; `None` if the actor is gone or fails before it
    /// replies.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<T>) -> SupervisorMsg,
    ) -> Option<T> {
        call!(self.0, |reply| CountedMessage::new(ActorKind::Supervisor, message(reply))).ok()
    }

    fn is(&self, other: &Self) -> bool {
        self.0.get_id() == other.0.get_id()
    }
}

/// The actor that supervises now, if any.
#[derive(Debug)]
pub(super) enum CurrentSupervisor {
    /// There is none at the moment; a new one is being started.
    Restarting,
    Running(Address),
    GivenUp,
}

/// The address of the current supervisor. Clones are cheap.
#[derive(Debug, Clone)]
pub(super) struct SupervisorAddress {
    current: watch::Receiver<CurrentSupervisor>,
}

impl SupervisorAddress {
    /// Creates an address without a supervisor, and the sender that names the current one.
    pub(super) fn new() -> (watch::Sender<CurrentSupervisor>, Self) {
        let (set_current, current) = watch::channel(CurrentSupervisor::Restarting);
        (set_current, Self { current })
    }

    /// Sends a message that may be handled twice, and waits for the reply. If the actor fails while
    /// it handles the message, its successor is asked once. `None` if both fail, or if there is no
    /// successor.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        message: impl Fn(RpcReplyPort<T>) -> SupervisorMsg,
    ) -> Option<T> {
        let first = self.wait_for_current().await?;
        if let Some(reply) = first.ask(&message).await {
            return Some(reply);
        }
        // Every message is answered: an actor that did not answer has failed and will be replaced.
        self.wait_for_successor(&first).await?.ask(message).await
    }

    /// Reports a change of a job. No report is lost: a message that a failing actor had already
    /// taken is made up for by its successor, which checks all jobs when it starts.
    pub(super) async fn report(&self, message: impl Fn() -> SupervisorMsg) {
        let mut current = self.wait_for_current().await;
        while let Some(address) = current {
            if address.send(message()).is_ok() {
                return;
            }
            current = self.wait_for_successor(&address).await;
        }
    }

    /// Sends a message that may be lost, because it is repeated.
    pub(super) fn send_lossy(&self, message: SupervisorMsg) {
        if let CurrentSupervisor::Running(address) = &*self.current.borrow() {
            address.send(message).ok();
        }
    }

    /// Returns once no supervisor will be started any more.
    pub(super) async fn wait_until_given_up(&self) {
        let mut current = self.current.clone();
        // An error means that the root supervisor is gone, which has the same effect.
        current.wait_for(|current| matches!(current, CurrentSupervisor::GivenUp)).await.ok();
    }

    /// Returns the current supervisor; waits while there is none. `None` once it is given up.
    pub(super) async fn wait_for_current(&self) -> Option<Address> {
        if let CurrentSupervisor::Running(address) = &*self.current.borrow() {
            return Some(address.clone());
        }
        // Boxed: this is rare, and each job has a task whose size would grow.
        Box::pin(self.next(|_| true)).await
    }

    /// Waits for the successor of this supervisor.
    async fn wait_for_successor(&self, failed: &Address) -> Option<Address> {
        Box::pin(self.next(|address| !address.is(failed))).await
    }

    async fn next(&self, is_meant: impl Fn(&Address) -> bool) -> Option<Address> {
        let mut current = self.current.clone();
        let found = current.wait_for(|current| match current {
            CurrentSupervisor::Restarting => false,
            CurrentSupervisor::Running(address) => is_meant(address),
            CurrentSupervisor::GivenUp => true,
        });
        match &*found.await.ok()? {
            CurrentSupervisor::Running(address) => Some(address.clone()),
            CurrentSupervisor::Restarting | CurrentSupervisor::GivenUp => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_borne_until_too_many_come_in_a_short_time() {
        let start = Instant::now();
        let mut failures = RecentFailures::default();
        for failure in 0..100 {
            let now = start + SHORT_TIME * failure / 5;
            assert_eq!(failures.next(now), FailureReaction::Restart, "{failure}");
        }
        let last = start + SHORT_TIME * 99 / 5;
        assert_eq!(failures.next(last), FailureReaction::GiveUp);
    }
}

//! The root supervisor: an actor above the supervisor that starts a new one when it fails.
//!
//! Each supervisor hands the known jobs on to the next one: finished jobs stay readable, and keys
//! still name their jobs. Jobs that waited or ran are lost, since ractor ends the actors below one
//! that fails, and the guards end their trees. Bounds, pauses and a drain that were set at run time
//! stay in force. The turns of tenants, their CPU time and their starts are counted from zero
//! again.
//!
//! A supervisor that fails repeatedly has a bug that a restart does not fix: it is given up, and
//! the server ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use tokio::sync::{mpsc, watch};

use super::actor::{Supervision, SupervisorActor, SupervisorArgs, SupervisorSettings};
use super::address::{Address, CurrentSupervisor, SupervisorAddress, watch_for_shortages};
use super::handle::Acceptance;
use super::queue::{Queue, QueueLimits};
use super::registry::Registry;
use super::restored_jobs::RestoredJobs;
use super::retention::Retention;
use crate::ids::JobId;
use crate::job::SharedJobSettings;
use crate::output::LogCompressor;
use crate::telemetry::{ActorKind, events};

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
    /// Starts a supervisor that takes over this handover.
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
        // The handover arrives as soon as ractor drops the state of the failed actor.
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

/// Hands the state over when ractor drops it, also after a panic.
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

//! The supervisor's actor. It never waits for a job: starting one is quick, and its end comes
//! back as a message.

use std::collections::HashMap;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};

use super::door::{Admission, Refusal};
use super::queue::{Full, Queue, QueueLimits, QueuePlace};
use super::registry::Registry;
use crate::ids::JobId;
use crate::job::{self, JobHandle, JobSeat, JobSettings, Order, StopWish};
use crate::outcome::StopBy;
use crate::telemetry::events::{self, Limits};

/// What the supervisor needs to know.
#[derive(Debug, Clone)]
pub struct SupervisorSettings {
    /// Bounds of the queue.
    pub queue: QueueLimits,
    /// Finished jobs that stay readable.
    pub max_finished: usize,
    /// What all jobs have in common.
    pub job: JobSettings,
}

/// Each message is answered at once; none waits for a job.
#[derive(Debug)]
pub(super) enum SupervisorMsg {
    /// From the yard. Replies once the job can be found.
    Submit(Box<Admission>, RpcReplyPort<Result<JobHandle, Refusal>>),
    /// From the yard.
    Find(JobId, RpcReplyPort<Option<JobHandle>>),
    /// From the yard.
    FindKey(String, RpcReplyPort<Option<JobHandle>>),
    /// From the yard. Newest first.
    List(RpcReplyPort<Vec<JobHandle>>),
    /// From the yard. Replies once the stop has begun.
    Stop(JobId, StopWish, RpcReplyPort<Option<JobHandle>>),
    /// From the yard.
    Place(JobId, RpcReplyPort<Option<QueuePlace>>),
    /// From the yard, at shutdown.
    Close(RpcReplyPort<Vec<JobHandle>>),
    /// From a watching task: this job has its outcome.
    Ended(JobId),
}

#[derive(Debug)]
pub(super) struct SupervisorActor;

#[derive(Debug)]
pub(super) struct Supervision {
    queue: Queue,
    registry: Registry,
    job: Arc<JobSettings>,
    /// Invariant: one seat for each job that waits in `queue`.
    seats: HashMap<JobId, JobSeat>,
    doors: Doors,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doors {
    Open,
    Closed,
}

impl Actor for SupervisorActor {
    type Msg = SupervisorMsg;
    type State = Supervision;
    type Arguments = SupervisorSettings;

    async fn pre_start(
        &self,
        _myself: ActorRef<SupervisorMsg>,
        settings: SupervisorSettings,
    ) -> Result<Supervision, ActorProcessingErr> {
        let supervision = Supervision {
            queue: Queue::new(settings.queue),
            registry: Registry::new(settings.max_finished),
            job: Arc::new(settings.job),
            seats: HashMap::new(),
            doors: Doors::Open,
        };
        let QueueLimits { slots, max_queued, .. } = *supervision.queue.limits();
        events::store_limit_known(supervision.job.quota.limit());
        events::limits_known(Limits { slots, queued: max_queued, retained: settings.max_finished });
        Ok(supervision)
    }

    /// Never fails. A caller that has given up waiting for its reply is no concern of ours.
    async fn handle(
        &self,
        myself: ActorRef<SupervisorMsg>,
        message: SupervisorMsg,
        supervision: &mut Supervision,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMsg::Submit(admission, reply) => {
                let accepted = supervision.submit(admission, &myself);
                supervision.dispatch(&myself).await;
                reply.send(accepted).ok();
            }
            SupervisorMsg::Find(id, reply) => {
                reply.send(supervision.registry.find(id).cloned()).ok();
            }
            SupervisorMsg::FindKey(key, reply) => {
                reply.send(supervision.registry.find_key(&key).cloned()).ok();
            }
            SupervisorMsg::List(reply) => {
                reply.send(supervision.registry.all()).ok();
            }
            SupervisorMsg::Stop(id, wish, reply) => {
                reply.send(supervision.stop(id, wish)).ok();
            }
            SupervisorMsg::Place(id, reply) => {
                reply.send(supervision.queue.place(id)).ok();
            }
            SupervisorMsg::Close(reply) => {
                reply.send(supervision.close()).ok();
            }
            SupervisorMsg::Ended(id) => {
                supervision.ended(id);
                supervision.dispatch(&myself).await;
            }
        }
        Ok(())
    }

    /// ractor's default would end the supervisor as soon as any job's actor ends.
    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        _supervision: &mut Supervision,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            // The seat that the actor held has ended its tree and made the job read as lost.
            SupervisionEvent::ActorFailed(_, error) => events::actor_failed("job", &error),
            SupervisionEvent::ActorStarted(_)
            | SupervisionEvent::ActorTerminated(..)
            | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl Supervision {
    fn submit(
        &mut self,
        admission: Box<Admission>,
        myself: &ActorRef<SupervisorMsg>,
    ) -> Result<JobHandle, Refusal> {
        let Admission { id, spec, cwd, key, logged } = *admission;
        if let Some(known) = key.as_deref().and_then(|key| self.registry.find_key(key)) {
            return Ok(known.clone());
        }
        if self.doors == Doors::Closed {
            return Err(Refusal::Draining);
        }
        self.queue.push(id, &spec.lane).map_err(|Full| {
            let limit = self.queue.limits().max_queued;
            Refusal::QueueFull { limit }
        })?;
        events::job_submitted(id, &logged);
        let (seat, handle) = job::create(id, Order { spec, cwd }, &self.job);
        self.seats.insert(id, seat);
        self.registry.insert(handle.clone(), key);
        watch_for_the_end(handle.clone(), myself.clone());
        Ok(handle)
    }

    /// Starts everyone whose turn it is.
    async fn dispatch(&mut self, myself: &ActorRef<SupervisorMsg>) {
        while let Some(id) = self.queue.next() {
            let Some(seat) = self.seats.remove(&id) else { continue };
            if let Err(error) = seat.run(myself.get_cell()).await {
                events::actor_failed("job", &error);
            }
        }
        events::queue_changed(self.queue.waiting());
    }

    fn stop(&mut self, id: JobId, wish: StopWish) -> Option<JobHandle> {
        let job = self.registry.find(id)?.clone();
        if self.queue.withdraw(id) {
            self.end_waiting(id, wish.by);
        } else {
            job.stop(wish);
        }
        Some(job)
    }

    fn end_waiting(&mut self, id: JobId, by: StopBy) {
        if let Some(seat) = self.seats.remove(&id) {
            seat.stop_unstarted(by);
        }
    }

    fn close(&mut self) -> Vec<JobHandle> {
        self.doors = Doors::Closed;
        let waiting: Vec<JobId> = self.seats.keys().copied().collect();
        for id in waiting {
            self.queue.withdraw(id);
            self.end_waiting(id, StopBy::Shutdown);
        }
        let mut jobs = self.registry.all();
        jobs.retain(|job| job.status().ending().is_none_or(|ending| !ending.survivors.is_empty()));
        jobs
    }

    fn ended(&mut self, id: JobId) {
        self.queue.release(id);
        // Their output is freed with the last reader of it.
        drop(self.registry.retire(id));
        events::retained_changed(self.registry.finished());
    }
}

/// The end of a job frees its slot, however it ended: its status says so even when its actor
/// failed.
fn watch_for_the_end(job: JobHandle, supervisor: ActorRef<SupervisorMsg>) {
    tokio::spawn(async move {
        job.finished().await;
        // A supervisor that is gone needs no slots.
        supervisor.cast(SupervisorMsg::Ended(job.id())).ok();
    });
}

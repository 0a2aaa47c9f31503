//! The supervisor's actor. It never waits for a job: starting one is quick, and its end comes
//! back as a message.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tokio::sync::mpsc;

use super::address::{Address, Post};
use super::control::{Control, Doors};
use super::door::{Admission, FindError};
use super::estate::Estate;
use super::looks::Looks;
use super::queue::{Queue, QueueLimits, QueuePlace, Wish};
use super::refusal::Refusal;
use super::registry::{Forgotten, Registry};
use super::retention::Retention;
use super::spending::Spending;
use super::watches::watch_for_the_end;
use crate::ids::{JobId, Tenant};
use crate::job::{self, JobHandle, JobSeat, JobSettings, Order, StopWish};
use crate::outcome::StopBy;
use crate::output::{Packer, Shortage};
use crate::telemetry::events::{self, Letter, LiveActor};
use crate::telemetry::{Actor as Class, spans};

/// Finished jobs that are freed in one turn: a sweep never keeps a caller waiting for long.
const FREED_PER_TURN: usize = 256;

/// What the supervisor needs to know.
#[derive(Debug, Clone)]
pub struct SupervisorSettings {
    /// Bounds of the queue.
    pub queue: QueueLimits,
    /// What stays of finished jobs.
    pub retention: Retention,
    /// Finished logs of so many bytes are compressed; `None` = none are.
    pub compress_from: Option<u64>,
    /// What all jobs have in common.
    pub job: JobSettings,
}

/// Each message is answered at once; none waits for a job.
#[derive(Debug)]
pub(super) enum SupervisorMsg {
    /// From the yard. Replies once the job can be found.
    Submit(Box<Admission>, RpcReplyPort<Result<JobHandle, Refusal>>),
    /// From the yard.
    Find(JobId, RpcReplyPort<Result<JobHandle, FindError>>),
    /// From the yard.
    FindKey(Tenant, String, RpcReplyPort<Option<JobHandle>>),
    /// From the yard: those of one tenant, or of all. Newest first.
    List(Option<Tenant>, RpcReplyPort<Vec<JobHandle>>),
    /// From the yard. Replies once the stop has begun.
    Stop(JobId, StopWish, RpcReplyPort<Result<JobHandle, FindError>>),
    /// From the yard.
    Place(JobId, RpcReplyPort<Option<QueuePlace>>),
    /// From the yard, at shutdown.
    Close(RpcReplyPort<Vec<JobHandle>>),
    /// From whoever runs the server.
    Control(Control),
    /// From ourselves: see what jobs have used so far.
    Look,
    /// From a looking task: CPU time of running jobs.
    Seen(Vec<(JobId, Duration)>),
    /// From a watching task: this job has its outcome.
    Ended(JobId),
    /// From a watching task: nothing of this finished job runs any more, or its log now takes
    /// less room.
    Settled(JobId),
    /// From ourselves: a job gets too old, or the last sweep left some for another turn.
    Sweep,
    /// From a watching task: caps on stored output are near. Replies with how many jobs were
    /// freed for it, once what they stored is given back.
    MakeRoom(Vec<Shortage>, RpcReplyPort<usize>),
    /// From a test: fail, as only a mistake in here could.
    #[cfg(test)]
    Fail,
}

#[derive(Debug)]
pub(super) struct SupervisorActor;

/// What an actor needs to supervise.
#[derive(Debug)]
pub(super) struct Duty {
    pub(super) job: Arc<JobSettings>,
    pub(super) packer: Option<Packer>,
    /// What is known already.
    pub(super) estate: Estate,
    /// Where watching tasks reach whoever supervises.
    pub(super) post: Post,
    /// Where what is known goes when the actor goes.
    pub(super) heir: mpsc::Sender<Estate>,
}

#[derive(Debug)]
pub(super) struct Supervision {
    pub(super) queue: Queue,
    pub(super) spending: Spending,
    pub(super) registry: Registry,
    pub(super) job: Arc<JobSettings>,
    /// Invariant: one seat for each job that waits in `queue`.
    seats: HashMap<JobId, JobSeat>,
    pub(super) doors: Doors,
    pub(super) looks: Looks,
    packer: Option<Packer>,
    /// When a sweep comes by itself.
    next_sweep: Option<Instant>,
    post: Post,
    pub(super) heir: mpsc::Sender<Estate>,
    _alive: LiveActor,
}

impl Actor for SupervisorActor {
    type Msg = Letter<SupervisorMsg>;
    type State = Supervision;
    type Arguments = Duty;

    async fn pre_start(
        &self,
        myself: ActorRef<Letter<SupervisorMsg>>,
        duty: Duty,
    ) -> Result<Supervision, ActorProcessingErr> {
        let mut supervision = Supervision::new(duty);
        supervision.begin(&Address::of(myself));
        Ok(supervision)
    }

    /// Never fails. A caller that has given up waiting for its reply is no concern of ours.
    async fn handle(
        &self,
        myself: ActorRef<Letter<SupervisorMsg>>,
        letter: Letter<SupervisorMsg>,
        supervision: &mut Supervision,
    ) -> Result<(), ActorProcessingErr> {
        let myself = Address::of(myself);
        match letter.open() {
            SupervisorMsg::Submit(admission, reply) => {
                let accepted = supervision.submit(admission);
                supervision.dispatch(&myself).await;
                reply.send(accepted).ok();
            }
            SupervisorMsg::Find(id, reply) => {
                reply.send(supervision.registry.find(id).cloned()).ok();
            }
            SupervisorMsg::FindKey(tenant, key, reply) => {
                reply.send(supervision.registry.find_key(tenant, &key).cloned()).ok();
            }
            SupervisorMsg::List(tenant, reply) => {
                let registry = &supervision.registry;
                let jobs = tenant.map_or_else(|| registry.all(), |tenant| registry.of(tenant));
                reply.send(jobs).ok();
            }
            SupervisorMsg::Stop(id, wish, reply) => {
                reply.send(supervision.stop(id, wish)).ok();
            }
            SupervisorMsg::Place(id, reply) => {
                reply.send(supervision.place(id)).ok();
            }
            SupervisorMsg::Close(reply) => {
                reply.send(supervision.close()).ok();
            }
            SupervisorMsg::Control(control) => {
                supervision.control(control, &myself);
                supervision.dispatch(&myself).await;
            }
            SupervisorMsg::Look => supervision.look(&myself),
            SupervisorMsg::Seen(used) => {
                supervision.seen(&used, &myself);
                supervision.dispatch(&myself).await;
            }
            SupervisorMsg::Ended(id) => {
                supervision.ended(id, &myself);
                supervision.dispatch(&myself).await;
            }
            SupervisorMsg::Settled(id) => {
                supervision.note_end(id);
                supervision.sweep(&myself);
            }
            SupervisorMsg::Sweep => {
                supervision.next_sweep = None;
                supervision.sweep(&myself);
            }
            SupervisorMsg::MakeRoom(shortages, reply) => {
                for Shortage { tenant, bytes } in shortages {
                    supervision.registry.want_room(tenant.as_deref(), bytes);
                }
                supervision.sweep_and(&myself, move |freed| drop(reply.send(freed)));
            }
            #[cfg(test)]
            SupervisorMsg::Fail => super::tests::fail(),
        }
        Ok(())
    }

    /// ractor's default would end the supervisor as soon as any job's actor ends.
    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<Letter<SupervisorMsg>>,
        event: SupervisionEvent,
        _supervision: &mut Supervision,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            // The seat that the actor held has ended its tree and made the job read as lost.
            SupervisionEvent::ActorFailed(_, error) => events::actor_failed(Class::Job, &error),
            SupervisionEvent::ActorStarted(_)
            | SupervisionEvent::ActorTerminated(..)
            | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl Supervision {
    fn new(duty: Duty) -> Self {
        let Duty { job, packer, estate: Estate { registry, queue, doors }, post, heir } = duty;
        Self {
            queue,
            spending: Spending::new(),
            registry,
            job,
            seats: HashMap::new(),
            doors,
            looks: Looks::Off,
            packer,
            next_sweep: None,
            post,
            heir,
            _alive: events::actor_started(Class::Supervisor),
        }
    }

    fn begin(&mut self, myself: &Address) {
        events::store_limit_known(self.job.quota.limit());
        self.limits_changed(myself);
        events::queue_changed(self.queue.waiting());
        // Ends of which the supervisor before may have been told: nobody tells them again.
        for job in self.registry.all() {
            self.note_end(job.id());
        }
        self.sweep(myself);
    }

    fn submit(&mut self, admission: Box<Admission>) -> Result<JobHandle, Refusal> {
        let Admission { id, spec, cwd, key, logged, at_end } = *admission;
        if let Some(known) = key.as_deref().and_then(|key| self.registry.find_key(id.tenant(), key))
        {
            return Ok(known.clone());
        }
        self.doors.check()?;
        let tenant = id.tenant();
        self.queue.check(tenant, &spec.lane, &|id| self.age(id))?;
        self.check_room(tenant)?;
        self.spending.take_start(tenant, self.queue.limits().of(tenant))?;
        self.queue.push(id, Wish { tenant, lane: &spec.lane, priority: spec.priority });
        let (seat, handle) = job::create(id, Order { spec, cwd }, &self.job);
        seat.log().in_scope(|| events::job_submitted(id, &logged));
        self.seats.insert(id, seat);
        self.registry.insert(handle.clone(), key);
        let (packer, post) = (self.packer.clone(), self.post.clone());
        tokio::spawn(watch_for_the_end(handle.clone(), at_end, packer, post));
        Ok(handle)
    }

    fn place(&self, id: JobId) -> Option<QueuePlace> {
        self.queue.place(id, &|id| self.age(id))
    }

    /// For how long a job has run.
    fn age(&self, id: JobId) -> Duration {
        self.registry.find(id).map(|job| job.status().elapsed()).unwrap_or_default()
    }

    /// Starts everyone whose turn it is.
    async fn dispatch(&mut self, myself: &Address) {
        while let Some(id) = self.queue.next() {
            let Some(seat) = self.seats.remove(&id) else { continue };
            if let Some(tenant) = self.queue.tenant_of(id) {
                self.spending.started(id, tenant);
            }
            // Boxed: the handling of every message would else be as large.
            if let Err(error) = Box::pin(seat.run(myself.cell())).await {
                events::actor_failed(Class::Job, &error);
            }
        }
        self.begin_looks(myself);
        events::queue_changed(self.queue.waiting());
    }

    fn stop(&mut self, id: JobId, wish: StopWish) -> Result<JobHandle, FindError> {
        let job = self.registry.find(id)?.clone();
        if self.queue.withdraw(id) {
            self.end_waiting(id, wish.by);
        } else {
            job.stop(wish);
        }
        Ok(job)
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

    fn ended(&mut self, id: JobId, myself: &Address) {
        let status = self.registry.find(id).map(JobHandle::status).ok();
        self.free_slot(id, status.as_ref());
        self.note_end(id);
        self.sweep(myself);
    }

    /// Frees who has to go, some now and the rest in another turn.
    fn sweep(&mut self, myself: &Address) {
        self.sweep_and(myself, |_| {});
    }

    /// The same; then tells how many went, once nothing of them is left.
    fn sweep_and(&mut self, myself: &Address, tell: impl FnOnce(usize) + Send + 'static) {
        let forgotten = self.registry.sweep(FREED_PER_TURN);
        events::retained_changed(self.registry.finished(), self.registry.finished_bytes());
        for Forgotten { job, bytes, why } in &forgotten {
            let log = spans::log_of(&job.spec().trace.context);
            log.in_scope(|| events::job_freed(job.id(), why.reason(), *bytes));
        }
        let is_done = forgotten.len() < FREED_PER_TURN;
        let due = if is_done { self.registry.due() } else { Some(Instant::now()) };
        let freed = forgotten.len();
        let in_memory = self.job.log.memory_bytes as u64;
        if forgotten.iter().any(|job| job.bytes > in_memory) {
            // Closing files may take a while: not while others wait for an answer.
            tokio::task::spawn_blocking(move || {
                drop(forgotten);
                tell(freed);
            });
        } else {
            drop(forgotten);
            tell(freed);
        }
        self.sweep_at(due, myself);
    }

    /// Sets the clock, unless it rings before that anyway.
    fn sweep_at(&mut self, due: Option<Instant>, myself: &Address) {
        let Some(due) = due else { return };
        if self.next_sweep.is_none_or(|next| due < next) {
            self.next_sweep = Some(due);
            let pause = due.saturating_duration_since(Instant::now());
            myself.tell_after(pause, || SupervisorMsg::Sweep);
        }
    }
}

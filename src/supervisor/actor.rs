//! The supervisor's actor. It never waits for a job: starting one is quick, and its end comes
//! back as a message.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tokio::sync::mpsc;

use super::accept::RestoredJobs;
use super::handle::{Acceptance, Control, SubmitRequest};
use super::queue::{Hold, Queue, QueueLimits, QueuePosition, SubmitRefusal};
use super::registry::{FindError, FreedJob, Registry, Retention, StopResult, freed_record};
use super::root_supervisor::{Address, Handover, SupervisorAddress};
use super::usage::{ActivityChange, CpuMeasurement, JobActivity, SlotDemand, Spending};
use crate::ids::{JobId, TenantId};
use crate::job::{
    self, JobGuard, JobHandle, JobStatus, SharedJobSettings, StopReceipt, StopRequest,
};
use crate::journal::{Journal, JournalTicket};
use crate::outcome::StopBy;
use crate::output::{LogCompressor, Shortage};
use crate::process::FileReservation;
use crate::spec::JobKey;
use crate::telemetry::events::{self, CountedMessage, LiveActor};
use crate::telemetry::{ActorKind, spans};

/// Finished jobs that are freed in one turn: a sweep never keeps a caller waiting for long.
const FREED_PER_TURN: usize = 256;

/// The time between two attempts to start jobs that wait for file descriptors.
const FILES_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The settings of the supervisor.
#[derive(Debug, Clone)]
pub struct SupervisorSettings {
    pub queue: QueueLimits,
    /// The retention of finished jobs.
    pub retention: Retention,
    /// Finished logs of at least this many bytes are compressed; `None` compresses none.
    pub compress_from: Option<u64>,
    /// The settings that all jobs share.
    pub job: SharedJobSettings,
    /// The channel for the numbers of freed jobs.
    pub freed_sender: mpsc::UnboundedSender<JobId>,
}

/// An accepted job, and the journal record that must be written before its caller hears of it.
#[derive(Debug)]
pub(super) struct AcceptedJob {
    pub(super) job: JobHandle,
    pub(super) record: Option<JournalTicket>,
}

/// Each message is answered at once; none waits for a job.
#[derive(Debug)]
pub(super) enum SupervisorMsg {
    /// Sent by the handle. The reply comes once the job can be found.
    Submit(Box<SubmitRequest>, RpcReplyPort<Result<AcceptedJob, SubmitRefusal>>),
    Find(JobId, RpcReplyPort<Result<JobHandle, FindError>>),
    FindKey(TenantId, JobKey, RpcReplyPort<Result<Option<JobHandle>, SubmitRefusal>>),
    /// Sent by the handle: the jobs of one tenant, or of all, newest first.
    List(Option<TenantId>, RpcReplyPort<Vec<JobHandle>>),
    /// Sent by the handle. The reply comes once the stop has begun.
    Stop(JobId, StopRequest, RpcReplyPort<StopResult>),
    Place(JobId, RpcReplyPort<Option<QueuePosition>>),
    /// Sent by the service at shutdown.
    Close(RpcReplyPort<Vec<JobHandle>>),
    /// Sent by an operator.
    Control(Control),
    /// Sent by the supervisor to itself: jobs wait for file descriptors, and there may be some now.
    CheckFiles,
    /// Sent by the supervisor to itself: measure the CPU time of running jobs.
    MeasureUsage,
    /// Sent by the measuring task: CPU time of running jobs.
    UsageMeasured(CpuMeasurement),
    /// Sent by the task that watches the job: it runs until it is stopped, and has started.
    ServiceStarted(JobId),
    /// Sent by the task that watches the job: it has its outcome.
    Ended(JobId),
    /// Sent by the task that watches the job: no process of this finished job runs any more, or its
    /// log was compressed.
    Completed(JobId),
    /// Sent by the supervisor to itself: a job has become too old, or the last sweep left some jobs
    /// for another turn.
    Sweep,
    /// Sent by the task that watches the quota: caps on stored output are near. The reply is the
    /// number of jobs that were freed, once their bytes are given back.
    MakeRoom(Vec<Shortage>, RpcReplyPort<usize>),
}

#[derive(Debug)]
pub(super) struct SupervisorActor;

/// The arguments of a new supervising actor.
#[derive(Debug)]
pub(super) struct SupervisorArgs {
    pub(super) job: Arc<SharedJobSettings>,
    pub(super) packer: Option<LogCompressor>,
    /// The channel for the numbers of freed jobs.
    pub(super) freed_sender: mpsc::UnboundedSender<JobId>,
    /// The state that a predecessor has handed over.
    pub(super) handover: Handover,
    /// The address by which watching tasks reach the current supervisor.
    pub(super) supervisor_address: SupervisorAddress,
    /// The channel for the state when the actor ends.
    pub(super) handover_sender: mpsc::Sender<Handover>,
}

#[derive(Debug)]
pub(super) struct Supervision {
    pub(super) queue: Queue,
    pub(super) spending: Spending,
    pub(super) activity: JobActivity,
    pub(super) registry: Registry,
    pub(super) job: Arc<SharedJobSettings>,
    /// Invariant: one guard for each job that waits in `queue`.
    pub(super) guards: HashMap<JobId, JobGuard>,
    pub(super) acceptance: Acceptance,
    pub(super) measurement: Measurement,
    /// `true` if a `CheckFiles` message is on its way.
    is_files_check_planned: bool,
    pub(super) packer: Option<LogCompressor>,
    freed_sender: mpsc::UnboundedSender<JobId>,
    /// The time of the next sweep that is already scheduled.
    next_sweep: Option<Instant>,
    pub(super) supervisor_address: SupervisorAddress,
    pub(super) handover_sender: mpsc::Sender<Handover>,
    _alive: LiveActor,
}

impl Actor for SupervisorActor {
    type Msg = CountedMessage<SupervisorMsg>;
    type State = Supervision;
    type Arguments = SupervisorArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<CountedMessage<SupervisorMsg>>,
        args: SupervisorArgs,
    ) -> Result<Supervision, ActorProcessingErr> {
        let myself = Address::new(myself);
        let (mut supervision, restored) = Supervision::new(args);
        supervision.begin(&myself);
        supervision.restore(restored, &myself).await;
        Ok(supervision)
    }

    /// Never fails. Replies to callers that have given up waiting are dropped.
    async fn handle(
        &self,
        myself: ActorRef<CountedMessage<SupervisorMsg>>,
        message: CountedMessage<SupervisorMsg>,
        supervision: &mut Supervision,
    ) -> Result<(), ActorProcessingErr> {
        let myself = Address::new(myself);
        match message.into_inner() {
            SupervisorMsg::Submit(request, reply) => {
                reply.send(supervision.accept(*request, &myself).await).ok();
            }
            SupervisorMsg::Find(id, reply) => {
                reply.send(supervision.registry.find(id).cloned()).ok();
            }
            SupervisorMsg::FindKey(tenant, key, reply) => {
                reply.send(supervision.registry.find_key(tenant, &key)).ok();
            }
            SupervisorMsg::List(tenant, reply) => {
                reply.send(supervision.registry.list(tenant)).ok();
            }
            SupervisorMsg::Stop(id, request, reply) => {
                reply.send(supervision.stop(id, request)).ok();
            }
            SupervisorMsg::Place(id, reply) => {
                reply.send(supervision.find_position(id)).ok();
            }
            SupervisorMsg::Close(reply) => {
                reply.send(supervision.close()).ok();
            }
            SupervisorMsg::Control(control) => {
                supervision.apply_control(control, &myself);
                supervision.dispatch(&myself).await;
            }
            SupervisorMsg::CheckFiles => {
                supervision.is_files_check_planned = false;
                supervision.dispatch(&myself).await;
            }
            SupervisorMsg::MeasureUsage => supervision.measure_usage(&myself),
            SupervisorMsg::UsageMeasured(measured) => {
                supervision.record_usage(&measured, &myself);
                supervision.dispatch(&myself).await;
            }
            SupervisorMsg::ServiceStarted(id) => {
                supervision.free_slot(id, None);
                supervision.dispatch(&myself).await;
            }
            SupervisorMsg::Ended(id) => {
                supervision.handle_end(id, &myself);
                supervision.dispatch(&myself).await;
            }
            SupervisorMsg::Completed(id) => {
                supervision.record_end(id);
                supervision.record_log(id);
                supervision.sweep(&myself);
            }
            SupervisorMsg::Sweep => {
                supervision.next_sweep = None;
                supervision.sweep(&myself);
            }
            SupervisorMsg::MakeRoom(shortages, reply) => {
                supervision.make_room(shortages, reply, &myself);
            }
        }
        Ok(())
    }

    /// ractor's default would end the supervisor as soon as any job's actor ends.
    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<CountedMessage<SupervisorMsg>>,
        event: SupervisionEvent,
        _supervision: &mut Supervision,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            // The guard that the actor held has ended its tree and made the job read as lost.
            SupervisionEvent::ActorFailed(_, error) => events::actor_failed(ActorKind::Job, &error),
            // A job's normal end is not this event. Its actor stays as long as processes that
            // outlived the leader, while its outcome is known and its slot is free. The task that
            // watches the job's status reports the end (`SupervisorMsg::Ended`).
            SupervisionEvent::ActorStarted(_)
            | SupervisionEvent::ActorTerminated(..)
            | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl Supervision {
    fn new(args: SupervisorArgs) -> (Self, RestoredJobs) {
        let SupervisorArgs {
            job,
            packer,
            freed_sender,
            handover: Handover { registry, queue, acceptance, restored },
            supervisor_address,
            handover_sender,
        } = args;
        let supervision = Self {
            queue,
            spending: Spending::new(),
            activity: JobActivity::new(),
            registry,
            job,
            guards: HashMap::new(),
            acceptance,
            measurement: Measurement::Off,
            is_files_check_planned: false,
            packer,
            freed_sender,
            next_sweep: None,
            supervisor_address,
            handover_sender,
            _alive: events::actor_started(ActorKind::Supervisor),
        };
        (supervision, restored)
    }

    fn begin(&mut self, myself: &Address) {
        events::store_limit_set(self.job.quota.limit());
        self.report_limits(myself);
        events::queue_length_changed(self.queue.waiting_count());
        // Ends that were reported to the previous supervisor are not reported again.
        for job in self.registry.list_all() {
            self.record_end(job.id());
        }
        self.sweep(myself);
    }

    fn find_position(&self, id: JobId) -> Option<QueuePosition> {
        self.queue.find_position(id, &|id| self.age(id))
    }

    /// Returns how long a job has run.
    pub(super) fn age(&self, id: JobId) -> Duration {
        self.registry.find(id).map(|job| job.status().elapsed()).unwrap_or_default()
    }

    /// Starts every job whose turn it is.
    pub(super) async fn dispatch(&mut self, myself: &Address) {
        self.dispatch_with(None, None, myself).await;
    }

    /// Starts every job whose turn it is. `new` was accepted just now; `files` are reserved for the
    /// first start.
    pub(super) async fn dispatch_with(
        &mut self,
        new: Option<JobId>,
        mut files: Option<FileReservation>,
        myself: &Address,
    ) {
        if self.acceptance == Acceptance::Closed {
            return;
        }
        loop {
            files = files.or_else(|| self.reserve_files(self.queue.waiting_count() > 0));
            let Some(id) = self.queue.next() else { break };
            // Hands the job over: its guard moves from the supervisor to the actor of the job.
            let Some(mut guard) = self.guards.remove(&id) else { continue };
            if let Some(journal) = &self.job.journal {
                let record = journal.append(&job::starting_record(id));
                // Nobody starts a new job again after a crash, unless its caller repeats its key.
                if new != Some(id) || self.registry.has_key(id) {
                    guard.start_after(record);
                } else {
                    guard.start_beside(record);
                }
            }
            if let Some(files) = files.take() {
                guard.hold_files(files);
            }
            self.activity.add_job(id, Instant::now());
            if let Some(tenant) = self.queue.find_tenant(id) {
                self.spending.record_start(id, tenant);
            }
            // Boxed: otherwise the future of every message would be as large.
            if let Err(error) = Box::pin(guard.run(myself.cell())).await {
                events::actor_failed(ActorKind::Job, &error);
            }
        }
        self.plan_files_check(myself);
        self.plan_measurement(myself);
        events::queue_length_changed(self.queue.waiting_count());
    }

    /// Reserves the file descriptors for the next start, if it needs them now. While too few are free,
    /// the queue holds starts back.
    pub(super) fn reserve_files(&mut self, is_needed: bool) -> Option<FileReservation> {
        let files = is_needed.then(|| self.job.host.reserve_files()).flatten();
        self.queue.set_short_of_files(is_needed && files.is_none());
        files
    }

    /// Plans a new attempt if jobs wait for file descriptors: nothing reports a raised limit, or files
    /// that were closed.
    fn plan_files_check(&mut self, myself: &Address) {
        let is_due = self.queue.hold() == Some(Hold::Files) && !self.is_files_check_planned;
        if is_due {
            self.is_files_check_planned = true;
            myself.send_after(FILES_CHECK_INTERVAL, || SupervisorMsg::CheckFiles);
        }
    }

    fn stop(&mut self, id: JobId, request: StopRequest) -> StopResult {
        let job = self.registry.find(id)?.clone();
        if self.queue.withdraw(id) {
            self.end_waiting(id, request.by);
            return Ok((job.clone(), StopReceipt::Ending(job)));
        }
        let has_slot = request.by == StopBy::NoSlot;
        Ok((job.clone(), if has_slot { StopReceipt::Nothing } else { job.stop(request) }))
    }

    fn end_waiting(&mut self, id: JobId, by: StopBy) {
        if let Some(guard) = self.guards.remove(&id) {
            guard.stop_unstarted(by);
        }
    }

    /// Accepts and starts no more jobs, and returns those that have to end. Jobs that wait stay in
    /// the journal for the next server; without a journal they end here.
    fn close(&mut self) -> Vec<JobHandle> {
        self.acceptance = Acceptance::Closed;
        if self.job.journal.as_ref().is_some_and(Journal::is_written) {
            self.guards.values_mut().for_each(JobGuard::leave_to_next_server);
        } else {
            let waiting: Vec<JobId> = self.guards.keys().copied().collect();
            for id in waiting {
                self.queue.withdraw(id);
                self.end_waiting(id, StopBy::Shutdown);
            }
        }
        let mut jobs = self.registry.list_all();
        jobs.retain(|job| !self.guards.contains_key(&job.id()));
        jobs.retain(|job| job.status().ending().is_none_or(|ending| !ending.survivors.is_empty()));
        jobs
    }

    fn handle_end(&mut self, id: JobId, myself: &Address) {
        self.free_slot(id, Some(self.age(id)));
        self.charge_rest(id);
        self.record_end(id);
        self.sweep(myself);
    }

    /// Frees the jobs that exceed a retention limit: some now, the rest in another turn.
    pub(super) fn sweep(&mut self, myself: &Address) {
        self.sweep_and(myself, |_| {});
    }

    /// Frees jobs for the bytes that are short, then replies with the number of freed jobs.
    fn make_room(
        &mut self,
        shortages: Vec<Shortage>,
        reply: RpcReplyPort<usize>,
        myself: &Address,
    ) {
        for Shortage { tenant, bytes } in shortages {
            self.registry.finished.request_room(tenant.as_deref(), bytes);
        }
        self.sweep_and(myself, move |freed| drop(reply.send(freed)));
    }

    /// Sweeps, then calls `tell` with the number of freed jobs once their files are closed.
    fn sweep_and(&mut self, myself: &Address, tell: impl FnOnce(usize) + Send + 'static) {
        let forgotten = self.registry.sweep(FREED_PER_TURN);
        events::retained_changed(self.registry.finished.len(), self.registry.finished.bytes());
        let mut records = Vec::new();
        for FreedJob { job, bytes, why } in &forgotten {
            let log = spans::new_log_span(&job.spec().trace.context);
            log.in_scope(|| events::job_freed(job.id(), why.reason(), *bytes));
            if let (Some(journal), Some(record)) = (&self.job.journal, freed_record(job.id(), *why))
            {
                records.push((journal.append(&record), job.output().clone()));
            }
            // Nobody may want to know.
            self.freed_sender.send(job.id()).ok();
        }
        let is_done = forgotten.len() < FREED_PER_TURN;
        let due = if is_done { self.registry.finished.next_expiry() } else { Some(Instant::now()) };
        let freed = forgotten.len();
        let in_memory = self.job.log.memory_bytes as u64;
        let has_files = forgotten.iter().any(|job| job.bytes > in_memory);
        let give_back = move || {
            drop(forgotten);
            tell(freed);
        };
        // Hands the freed jobs over to the thread that closes their files.
        if !records.is_empty() {
            tokio::spawn(async move {
                for (recorded, output) in records {
                    // A job must not be known without its output, whatever happens in between.
                    recorded.written().await.ok();
                    output.remove_files();
                }
                tokio::task::spawn_blocking(give_back);
            });
        } else if has_files {
            // Closing files may take a while, and other callers wait for this actor.
            tokio::task::spawn_blocking(give_back);
        } else {
            give_back();
        }
        self.sweep_at(due, myself);
    }

    /// Schedules a sweep, unless an earlier one is scheduled.
    fn sweep_at(&mut self, due: Option<Instant>, myself: &Address) {
        let Some(due) = due else { return };
        if self.next_sweep.is_none_or(|next| due < next) {
            self.next_sweep = Some(due);
            let pause = due.saturating_duration_since(Instant::now());
            myself.send_after(pause, || SupervisorMsg::Sweep);
        }
    }
}

// Charging of CPU time, and the consequences of the end of a job.

/// The time between two measurements while a tenant with a limit on CPU time runs jobs, or has used
/// it up.
const MEASUREMENT_INTERVAL: Duration = Duration::from_secs(2);

/// The time between two checks for records that can be forgotten.
const FORGET_INTERVAL: Duration = Duration::from_secs(60);

/// The next measurement of the CPU time of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measurement {
    /// No measurement is planned.
    Off,
    At(Instant),
    Running,
}

impl Supervision {
    /// Plans the next measurement, if there is anything to measure.
    pub(super) fn plan_measurement(&mut self, myself: &Address) {
        let spending = if self.needs_cpu_watch() {
            Some(MEASUREMENT_INTERVAL)
        } else {
            (!self.spending.is_empty()).then_some(FORGET_INTERVAL)
        };
        let idle_after = self.queue.limits().idle_after;
        let activity =
            idle_after.and_then(|time| self.activity.next_pause(self.slot_demand(), time));
        let Some(pause) = spending.into_iter().chain(activity).min() else { return };
        let due = Instant::now() + pause;
        let is_in_time = match self.measurement {
            Measurement::Off => false,
            Measurement::At(next) => next <= due,
            Measurement::Running => true,
        };
        if !is_in_time {
            self.measurement = Measurement::At(due);
            myself.send_after(pause, || SupervisorMsg::MeasureUsage);
        }
    }

    /// Measures the CPU time of jobs in a task of its own: of tenants that have a limit on it, and of
    /// jobs that may give their slots back or take them again.
    fn measure_usage(&mut self, myself: &Address) {
        match self.measurement {
            Measurement::At(due) if due <= Instant::now() => {
                self.measurement = Measurement::Running
            }
            // An earlier measurement took its place.
            Measurement::At(_) | Measurement::Off | Measurement::Running => return,
        }
        self.spending.forget();
        let bounded =
            self.spending.running_jobs().filter(|(_, tenant)| self.has_cpu_limit(*tenant));
        let mut ids: HashSet<JobId> = bounded.map(|(id, _)| id).collect();
        if self.queue.limits().idle_after.is_some() {
            let covered = self.activity.choose_measured_jobs(Instant::now());
            ids.extend(self.activity.list_ids(covered));
        }
        let jobs = ids.into_iter().filter_map(|id| self.registry.find(id).ok().cloned());
        let jobs: Vec<JobHandle> = jobs.collect();
        // Hands the jobs over to a task, whose figures come back as a message.
        let supervisor = myself.clone();
        tokio::spawn(async move {
            let measure = move || CpuMeasurement::take(&jobs);
            let measured = tokio::task::spawn_blocking(measure).await.unwrap_or_default();
            // A supervisor that has ended needs no figures.
            supervisor.send(SupervisorMsg::UsageMeasured(measured)).ok();
        });
    }

    /// Handles the result of a measurement.
    fn record_usage(&mut self, measured: &CpuMeasurement, myself: &Address) {
        let demand = self.slot_demand();
        let now = Instant::now();
        self.activity.record_cost(measured.cost);
        for (id, cpu) in &measured.used {
            self.spending.record_cpu(*id, *cpu);
            let Some(idle_time) = self.queue.limits().idle_after else { continue };
            match self.activity.record(*id, *cpu, now, demand, idle_time) {
                Some(ActivityChange::BecameIdle) if self.queue.set_idle(*id) => {}
                Some(ActivityChange::BecameIdle) => self.activity.keep_busy(*id),
                Some(ActivityChange::BecameBusy) => drop(self.queue.set_busy(*id)),
                None => {}
            }
        }
        self.update_spent_tenants();
        self.measurement = Measurement::Off;
        self.plan_measurement(myself);
    }

    /// Takes a job out of the queue and frees its slot, if it has one. `ran_for` is the run time of a
    /// job that has ended.
    fn free_slot(&mut self, id: JobId, ran_for: Option<Duration>) {
        self.activity.remove_job(id);
        self.queue.release(id, ran_for);
    }

    /// Charges the rest of the CPU time of a job that has ended.
    fn charge_rest(&mut self, id: JobId) {
        let status = self.registry.find(id).map(JobHandle::status).ok();
        let ending = status.as_ref().and_then(JobStatus::ending);
        self.spending.record_end(id, ending.map(|ending| ending.usage.cpu).unwrap_or_default());
        self.update_spent_tenants();
    }

    /// Holds back exactly the tenants that have used up their CPU time.
    pub(super) fn update_spent_tenants(&mut self) {
        let limits = self.queue.limits();
        let is_spent = |tenant: &TenantId| {
            let limit = limits.tenant_limits(*tenant).cpu_per_hour;
            limit.is_some_and(|limit| self.spending.cpu_used(*tenant) >= limit)
        };
        let spent = self.spending.active_tenants().filter(is_spent).collect();
        self.queue.set_spent(spent);
    }

    fn slot_demand(&self) -> SlotDemand {
        if self.queue.waiting_count() > 0 { SlotDemand::JobsWait } else { SlotDemand::None }
    }

    fn needs_cpu_watch(&self) -> bool {
        let limits = self.queue.limits();
        let mut all = limits.tenants.values().chain([&limits.quota]);
        all.any(|of| of.cpu_per_hour.is_some())
            && (self.queue.is_any_spent()
                || self.spending.running_jobs().any(|(_, tenant)| self.has_cpu_limit(tenant)))
    }

    fn has_cpu_limit(&self, tenant: TenantId) -> bool {
        self.queue.limits().tenant_limits(tenant).cpu_per_hour.is_some()
    }
}

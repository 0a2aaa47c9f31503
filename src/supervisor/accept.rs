//! The way of a job through the supervisor: it is accepted from a caller or taken over from a
//! previous server, and watched until its end.

use std::fmt;
use std::time::{Instant, SystemTime};

use super::actor::{AcceptedJob, Supervision, SupervisorMsg};
use super::handle::SubmitRequest;
use super::queue::{EnqueueRequest, Retry, SubmitRefusal, TenantBound};
use super::registry::FreedCause;
use super::root_supervisor::{Address, SupervisorAddress};
use crate::ids::{JobId, TenantId};
use crate::job::{self, JobGuard, JobHandle};
use crate::outcome::JobEnding;
use crate::output::{CapSource, LogCompressor, TenantUsage};
use crate::process::Process;
use crate::spec::{JobKey, JobKind, JobSpec};
use crate::telemetry::{ActorKind, LoggedCommand, events};

impl Supervision {
    /// Accepts a job, and starts every job whose turn it is then, also after a refusal.
    pub(super) async fn accept(
        &mut self,
        request: SubmitRequest,
        myself: &Address,
    ) -> Result<AcceptedJob, SubmitRefusal> {
        // Before the queue is checked: a job that has to wait for them needs room in the queue.
        let files = self.reserve_files(true);
        let accepted = self.create_or_find_job(request);
        let new = accepted.as_ref().ok().map(|accepted| accepted.job.id());
        self.dispatch_with(new, files, myself).await;
        accepted.map(|job| self.record_waiting(job))
    }

    /// Creates a job, which then waits for its turn. Returns the earlier job that has its key, if
    /// there is one.
    fn create_or_find_job(&mut self, request: SubmitRequest) -> Result<AcceptedJob, SubmitRefusal> {
        let SubmitRequest { id, spec, cwd, variables, key, logged, on_end } = request;
        if let Some(key) = &key
            && let Some(job) = self.registry.find_key(id.tenant(), key)?
        {
            return Ok(AcceptedJob { job, record: None });
        }
        self.acceptance.check()?;
        let tenant = id.tenant();
        self.queue.check(tenant, &spec.lane, &|id| self.age(id))?;
        self.check_room(tenant)?;
        self.spending.take_start(tenant, self.queue.limits().tenant_limits(tenant))?;
        self.enqueue(id, &spec);
        let record = self.job.journal.as_ref().and_then(|journal| {
            job::accepted_record(id, &spec, key.as_ref(), &logged)
                .map(|record| journal.append(&record))
        });
        let (mut guard, job) = job::create_job(id, spec, cwd, variables, &self.job);
        guard.log_submission(LoggedCommand::new(&logged));
        self.guards.insert(id, guard);
        self.registry.insert(job.clone(), key);
        self.watch(job.clone(), on_end);
        Ok(AcceptedJob { job, record })
    }

    /// Records what a job that waits needs for its start, so that a later server can start it.
    fn record_waiting(&self, accepted: AcceptedJob) -> AcceptedJob {
        let AcceptedJob { job, record } = accepted;
        let guard = self.guards.get(&job.id()).filter(|_| record.is_some());
        let waiting = self.job.journal.as_ref().zip(guard);
        let queued = waiting.map(|(journal, guard)| journal.append(&guard.queued_record()));
        AcceptedJob { job, record: queued.or(record) }
    }

    /// Records the log of a job that is closed, or stored in another way than before.
    pub(super) fn record_log(&self, id: JobId) {
        let (Some(journal), Ok(job)) = (&self.job.journal, self.registry.find(id)) else { return };
        let status = job.status();
        if let (Some(ending), Some(log)) = (status.ending(), job.output().closed_state()) {
            drop(journal.append(&job::ended_record(id, status.started, ending, Some(&log))));
        }
    }

    /// Adds a job to the queue.
    fn enqueue(&mut self, id: JobId, spec: &JobSpec) {
        let JobSpec { lane, priority, call_mode, .. } = spec;
        let tenant = id.tenant();
        let request = EnqueueRequest { tenant, lane, priority: *priority, call_mode: *call_mode };
        self.queue.push(id, request);
    }

    /// Watches a job until no process of it is left. Hands the action at its end over to a task, which
    /// outlives this actor: it reports to the supervisor that is current then.
    fn watch(&self, job: JobHandle, on_end: Option<OnJobEnd>) {
        let packer = self.packer.clone();
        let supervisor = self.supervisor_address.clone();
        tokio::spawn(watch_for_end(job, on_end, packer, supervisor));
    }
}

// Room for what a new job will write.

impl Supervision {
    /// Refuses a job whose output could not be kept, unless finished jobs can make room.
    fn check_room(&mut self, tenant: TenantId) -> Result<(), SubmitRefusal> {
        let stored = self.job.quota.tenant_usage(tenant.name());
        if !stored.is_full() || self.registry.finished.can_free(tenant.name()) {
            return Ok(());
        }
        // The end of a job may be known to its caller before it is reported here.
        self.note_ends(tenant);
        // Bytes that are counted for no known job are being given back.
        let known = self.registry.list_jobs_of_tenant(tenant);
        let held = known.iter().map(|job| job.output().stored_bytes()).sum();
        if self.registry.finished.can_free(tenant.name())
            || !(TenantUsage { used: held, ..stored }).is_full()
        {
            return Ok(());
        }
        let setting = match stored.cap {
            CapSource::Own => format!("tenants.{}.max_stored", tenant.name()),
            CapSource::Shared => "output.max_tenant".to_owned(),
        };
        let bound = TenantBound::Stored { limit: stored.limit, setting };
        Err(SubmitRefusal::TenantLimit { bound, retry: Retry::JobEnded })
    }

    fn note_ends(&mut self, tenant: TenantId) {
        for job in self.registry.list_jobs_of_tenant(tenant) {
            if job.is_complete() {
                self.record_end(job.id());
            }
        }
    }

    /// Tells retention about this job, if it has ended, and lets jobs wait for room again.
    pub(super) fn record_end(&mut self, id: JobId) {
        self.registry.record_end(id);
        self.job.quota.note_reclaimable(id.tenant().name());
    }
}

// Jobs of a previous server.

impl Supervision {
    /// Takes over the jobs that a previous server has handed over: finished jobs can be read, running
    /// jobs are followed and hold slots, queued jobs keep their order.
    pub(super) async fn restore(&mut self, restored: RestoredJobs, myself: &Address) {
        for (id, at, why) in restored.freed {
            self.registry.freed.note(id, at, why);
        }
        for RestoredJob { handle, key, on_end, stage } in restored.jobs {
            self.registry.insert(handle.clone(), key);
            match stage {
                RestoredStage::Finished if on_end.is_none() => self.record_end(handle.id()),
                RestoredStage::Finished => {
                    self.record_end(handle.id());
                    self.watch(handle, on_end);
                }
                RestoredStage::Queued(guard) => {
                    self.enqueue(handle.id(), handle.spec());
                    self.guards.insert(handle.id(), guard);
                    self.watch(handle, on_end);
                }
                RestoredStage::Running(guard, process) => {
                    // If the previous server had begun to stop it, its shim goes on with that.
                    self.resume(&handle, guard, *process, myself).await;
                    self.watch(handle, on_end);
                }
            }
        }
        // Their age counts from their end, whichever server saw it.
        self.sweep(myself);
        self.dispatch(myself).await;
    }

    async fn resume(
        &mut self,
        job: &JobHandle,
        guard: JobGuard,
        process: Process,
        myself: &Address,
    ) {
        let id = job.id();
        if job.status().ending().is_none() {
            self.queue.adopt_running(id, id.tenant(), &job.spec().lane);
            self.activity.add_job(id, Instant::now());
            self.spending.record_start(id, id.tenant());
        }
        if let Err(error) = Box::pin(guard.resume(process, myself.cell())).await {
            events::actor_failed(ActorKind::Job, &error);
        }
    }
}

/// The jobs of a previous server, as its journal and the keeper describe them.
#[derive(Debug, Default)]
pub struct RestoredJobs {
    /// Every job that can be found, in the order of its acceptance.
    pub jobs: Vec<RestoredJob>,
    /// Jobs that were freed, the latest last.
    pub freed: Vec<(JobId, SystemTime, FreedCause)>,
}

/// A job of a previous server.
#[derive(Debug)]
pub struct RestoredJob {
    pub handle: JobHandle,
    pub key: Option<JobKey>,
    /// The action when the job has ended; `None` if it was carried out.
    pub on_end: Option<OnJobEnd>,
    pub stage: RestoredStage,
}

/// The stage of a job of a previous server.
#[derive(Debug)]
pub enum RestoredStage {
    /// The job waits for its turn.
    Queued(JobGuard),
    /// The job runs, or it has ended and processes of it still run.
    Running(JobGuard, Box<Process>),
    Finished,
}

// The end of a job.

/// An action of the submitter when a job has ended. It must be short.
pub struct OnJobEnd(Box<EndAction>);

type EndAction = dyn FnOnce(&JobHandle, &JobEnding) + Send;

impl OnJobEnd {
    #[must_use]
    pub fn new(act: impl FnOnce(&JobHandle, &JobEnding) + Send + 'static) -> Self {
        Self(Box::new(act))
    }

    fn run(self, job: &JobHandle, ending: &JobEnding) {
        (self.0)(job, ending);
    }
}

impl fmt::Debug for OnJobEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnJobEnd")
    }
}

/// The work that is left at the end of a job. Dropping it does that work, also when the runtime
/// ends.
#[derive(Debug)]
struct EndOfJobWork {
    on_end: Option<OnJobEnd>,
    job: JobHandle,
    ending: JobEnding,
}

impl Drop for EndOfJobWork {
    fn drop(&mut self) {
        if let Some(on_end) = self.on_end.take() {
            on_end.run(&self.job, &self.ending);
        }
    }
}

/// Reports the start of a service and the end of every job, each of which frees the job's slot. The
/// job's status shows the end even if its actor failed. Then waits until no process of the job runs,
/// and compresses its log.
async fn watch_for_end(
    job: JobHandle,
    on_end: Option<OnJobEnd>,
    packer: Option<LogCompressor>,
    supervisor: SupervisorAddress,
) {
    let id = job.id();
    if job.spec().kind == JobKind::Service {
        job.started().await;
        supervisor.report(|| SupervisorMsg::ServiceStarted(id)).await;
    }
    let ending = job.finished().await;
    // Read before the end is reported: afterwards the report's receiver may have changed it.
    let was_complete = job.is_complete();
    supervisor.report(|| SupervisorMsg::Ended(id)).await;
    let due = on_end.map(|on_end| EndOfJobWork { on_end: Some(on_end), job: job.clone(), ending });
    // Callers that wait for the job get their answers first.
    tokio::task::yield_now().await;
    drop(due);
    if !was_complete {
        job.completed().await;
        supervisor.report(|| SupervisorMsg::Completed(id)).await;
    }
    let release = job.release_when_recorded();
    let packing = packer.and_then(|packer| job.output().compression_task(&packer));
    // Neither a slow journal nor a log that waits for its compression keeps the job from being
    // freed.
    drop(job);
    release.await;
    let Some(packing) = packing else { return };
    packing.run().await;
    supervisor.report(|| SupervisorMsg::Completed(id)).await;
}

#[cfg(test)]
mod tests {
    use ractor::{Actor, ActorProcessingErr, ActorRef};
    use tokio::sync::mpsc;

    use super::super::root_supervisor::CurrentSupervisor;
    use super::*;
    use crate::output::LogWriter;
    use crate::telemetry::events::CountedMessage;

    /// An actor that completes the job as soon as its end is reported.
    struct JobCompleter;

    impl Actor for JobCompleter {
        type Msg = CountedMessage<SupervisorMsg>;
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
            message: Self::Msg,
            (writer, reports): &mut Self::State,
        ) -> Result<(), ActorProcessingErr> {
            let message = message.into_inner();
            if let SupervisorMsg::Ended(_) = message {
                *writer = None;
                reports.send("ended")?;
            } else if let SupervisorMsg::Completed(_) = message {
                reports.send("completed")?;
            }
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_job_that_completes_while_its_end_is_reported_is_reported_as_completed() {
        let (job, writer) = job::tests::ended_with_an_open_log();
        let (sender, mut reports) = mpsc::unbounded_channel();
        let (actor, ending) =
            Actor::spawn(None, JobCompleter, (Some(writer), sender)).await.unwrap();
        let (set_current, supervisor_address) = SupervisorAddress::new();
        set_current.send(CurrentSupervisor::Running(Address::new(actor.clone()))).unwrap();
        watch_for_end(job, None, None, supervisor_address).await;
        actor.drain().unwrap();
        ending.await.unwrap();
        assert_eq!(
            (reports.recv().await, reports.recv().await),
            (Some("ended"), Some("completed"))
        );
    }
}

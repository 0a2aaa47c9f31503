//! The public handle of the supervisor.

use std::sync::Arc;

use ractor::{Actor, RpcReplyPort, SpawnErr};
use tokio::sync::watch;
use tokio::time::sleep;

use super::accept::{OnJobEnd, RestoredJobs};
use super::actor::{AcceptedJob, Supervision, SupervisorMsg, SupervisorSettings};
use super::queue::{
    HostResource, Pressure, PressureWatch, QueueLimits, QueueOverview, QueuePosition,
    SubmitRefusal, UnknownLane, collect_queue_stats,
};
use super::registry::{FindError, RetentionBounds};
use super::root_supervisor::{Address, RootArgs, RootSupervisor, SupervisorAddress};
use crate::ids::{JobId, TenantId};
use crate::job::{JobHandle, JobVariables, StopRequest};
use crate::process::OpenedDir;
use crate::process::load::{self, PressureError};
use crate::spec::{JobKey, JobSpec};
use crate::telemetry::QueueStats;
use crate::telemetry::events::{self, ServerLimits};

/// A handle on the supervisor. Clones are cheap.
#[derive(Debug, Clone)]
pub struct Supervisor {
    pub(super) supervisor_address: SupervisorAddress,
}

/// A request to accept a job.
#[derive(Debug)]
pub struct SubmitRequest {
    /// The job's number.
    pub id: JobId,
    pub spec: JobSpec,
    /// The directory to run the job in, if it is already open.
    pub cwd: Option<OpenedDir>,
    /// The variables that the job inherits, if they are not the server's.
    pub variables: Option<Arc<JobVariables>>,
    /// A name for this request: a second request with the same key gets the same job.
    pub key: Option<JobKey>,
    /// The command with secrets masked, for the log.
    pub logged: String,
    /// The action when the job has ended.
    pub on_end: Option<OnJobEnd>,
}

impl Supervisor {
    /// Starts the supervisor, which takes over these jobs. If it fails, it is restarted a few times.
    ///
    /// # Errors
    /// If the actor could not be started.
    pub async fn start(
        settings: SupervisorSettings,
        restored: RestoredJobs,
    ) -> Result<Self, SpawnErr> {
        let (set_current, supervisor_address) = SupervisorAddress::new();
        let address = supervisor_address.clone();
        let args = RootArgs { settings, restored, set_current, supervisor_address: address };
        Actor::spawn(None, RootSupervisor, args).await?;
        Ok(Self { supervisor_address })
    }

    /// Returns once the supervisor has failed so often that it is not restarted.
    pub async fn wait_until_given_up(&self) {
        self.supervisor_address.wait_until_given_up().await;
    }

    /// Accepts a job, or says why not.
    ///
    /// # Errors
    /// If a limit is reached or the server accepts no new jobs.
    pub async fn submit(&self, request: SubmitRequest) -> Result<JobHandle, SubmitRefusal> {
        let id = request.id;
        let request = Box::new(request);
        let accepted = match self.supervisor_address.wait_for_current().await {
            // Asked once: a successor must not handle the same request again.
            Some(current) => current.ask(|reply| SupervisorMsg::Submit(request, reply)).await,
            None => None,
        };
        match accepted {
            Some(Ok(AcceptedJob { job, record })) => {
                if let Some(record) = record {
                    // A journal that cannot be written reports its state itself; jobs go on.
                    record.written_soon().await.ok();
                }
                Ok(job)
            }
            Some(Err(refusal)) => Err(refusal),
            // A job that was accepted before the failure can be found; its outcome is "lost".
            None => self.find(id).await.map_err(|_| SubmitRefusal::Interrupted),
        }
    }

    /// Finds the job with this number.
    ///
    /// # Errors
    /// If there is no such job, or it was freed.
    pub async fn find(&self, id: JobId) -> Result<JobHandle, FindError> {
        let found = self.supervisor_address.ask(|reply| SupervisorMsg::Find(id, reply)).await;
        found.unwrap_or(Err(FindError::Unavailable { id }))
    }

    /// Finds the tenant's job that was submitted with this key.
    ///
    /// # Errors
    /// If the key names the job of another request.
    pub async fn find_key(
        &self,
        tenant: TenantId,
        key: JobKey,
    ) -> Result<Option<JobHandle>, SubmitRefusal> {
        let find = |reply| SupervisorMsg::FindKey(tenant, key.clone(), reply);
        self.supervisor_address.ask(find).await.unwrap_or(Ok(None))
    }

    /// Lists the jobs of one tenant, or of all, newest first.
    pub async fn list(&self, tenant: Option<TenantId>) -> Vec<JobHandle> {
        self.supervisor_address
            .ask(|reply| SupervisorMsg::List(tenant, reply))
            .await
            .unwrap_or_default()
    }

    /// Begins to stop a waiting or running job.
    ///
    /// # Errors
    /// If there is no such job, or it was freed.
    pub async fn stop(&self, id: JobId, request: StopRequest) -> Result<JobHandle, FindError> {
        let stopped =
            self.supervisor_address.ask(|reply| SupervisorMsg::Stop(id, request, reply)).await;
        let (job, receipt) = stopped.unwrap_or(Err(FindError::Unavailable { id }))?;
        // From then on the stop is carried out whatever happens to this server.
        receipt.wait_until_ordered().await;
        Ok(job)
    }

    /// Returns the position of a waiting job; `None` once it has started.
    pub async fn queue_position(&self, id: JobId) -> Option<QueuePosition> {
        self.supervisor_address.ask(|reply| SupervisorMsg::Place(id, reply)).await.flatten()
    }

    /// Begins to watch the host's pressure, which may hold starts back, in a task of its own.
    pub fn watch_pressure(&self, settings: watch::Receiver<PressureWatch>) {
        tokio::spawn(PressureSampler::new(self.clone(), settings).run());
    }

    /// Accepts no more jobs and ends those that wait. Returns the jobs that run or have surviving
    /// processes.
    pub async fn close(&self) -> Vec<JobHandle> {
        self.supervisor_address.ask(SupervisorMsg::Close).await.unwrap_or_default()
    }
}

// Control by the operator: pause and resume, drain, other bounds.

/// The server's readiness to accept new jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acceptance {
    Open,
    /// New jobs are refused; queued and running ones go on. It can be undone.
    Draining,
    /// The server is shutting down; this cannot be undone.
    Closed,
}

impl Acceptance {
    pub(super) const fn check(self) -> Result<(), SubmitRefusal> {
        match self {
            Self::Open => Ok(()),
            Self::Draining => Err(SubmitRefusal::Draining),
            Self::Closed => Err(SubmitRefusal::Closed),
        }
    }

    /// Returns the state after a request: a closed server stays closed.
    const fn after_request(self, request: Self) -> Self {
        match self {
            Self::Open | Self::Draining => request,
            Self::Closed => Self::Closed,
        }
    }
}

/// A control request, mostly from an operator. All but `SetPressure` are answered once they have taken
/// effect.
#[derive(Debug)]
pub(super) enum Control {
    Pause(Option<String>, RpcReplyPort<Result<(), UnknownLane>>),
    Resume(Option<String>, RpcReplyPort<Result<(), UnknownLane>>),
    Change(Box<QueueLimits>, RpcReplyPort<()>),
    Acceptance(Acceptance, RpcReplyPort<()>),
    /// Sent by the pressure sampler, without a reply.
    SetPressure(Option<Pressure>),
    Overview(RpcReplyPort<QueueOverview>),
    QueueStats(RpcReplyPort<QueueStats>),
}

impl Supervision {
    pub(super) fn apply_control(&mut self, control: Control, myself: &Address) {
        match control {
            Control::Pause(lane, reply) => {
                reply.send(self.queue.pause(lane.as_deref())).ok();
            }
            Control::Resume(lane, reply) => {
                reply.send(self.queue.resume(lane.as_deref())).ok();
            }
            Control::Change(limits, reply) => {
                self.queue.set_limits(*limits);
                self.update_spent_tenants();
                self.report_limits(myself);
                reply.send(()).ok();
            }
            Control::Acceptance(request, reply) => {
                self.acceptance = self.acceptance.after_request(request);
                reply.send(()).ok();
            }
            Control::SetPressure(pressure) => self.queue.set_pressure(pressure),
            Control::Overview(reply) => {
                reply.send(self.overview()).ok();
            }
            Control::QueueStats(reply) => {
                reply.send(self.queue_stats()).ok();
            }
        }
    }

    /// Reports the new limits to the metrics, and starts measurements for those that need them.
    pub(super) fn report_limits(&mut self, myself: &Address) {
        let QueueLimits { slots, max_queued, .. } = *self.queue.limits();
        let RetentionBounds { finished, bytes: retained_bytes, .. } =
            self.registry.finished.limits.all;
        let retained = finished.unwrap_or_default();
        events::limits_set(ServerLimits { slots, queued: max_queued, retained, retained_bytes });
        self.plan_measurement(myself);
    }

    fn overview(&self) -> QueueOverview {
        let mut overview = self.queue.overview();
        overview.draining = self.acceptance != Acceptance::Open;
        // Includes tenants that have stored something, and the tenant without settings.
        let stored = self.job.quota.usage_by_tenant().into_keys();
        let stored = stored.filter_map(|name| TenantId::parse(&name).ok());
        for tenant in self.spending.active_tenants().chain(stored).chain([TenantId::LOCAL]) {
            overview.tenants.entry(tenant).or_insert_with(|| self.queue.tenant_overview(tenant));
        }
        for (tenant, figures) in &mut overview.tenants {
            figures.cpu_used = self.spending.cpu_used(*tenant);
            let stored = self.job.quota.tenant_usage(tenant.name());
            (figures.stored_bytes, figures.max_stored) = (stored.used, stored.limit);
        }
        overview
    }

    fn queue_stats(&self) -> QueueStats {
        let oldest = self.queue.oldest_waiting().and_then(|id| self.registry.find(id).ok());
        let oldest = oldest.map(|job| job.status().queued_for());
        collect_queue_stats(self.overview(), oldest)
    }
}

impl Supervisor {
    /// Starts no more jobs, in this lane or at all; running jobs continue.
    ///
    /// # Errors
    /// If there is no such lane.
    pub async fn pause(&self, lane: Option<String>) -> Result<(), UnknownLane> {
        self.ask(|reply| Control::Pause(lane.clone(), reply)).await.unwrap_or(Ok(()))
    }

    /// Starts jobs again, in this lane or in all of them.
    ///
    /// # Errors
    /// If there is no such lane.
    pub async fn resume(&self, lane: Option<String>) -> Result<(), UnknownLane> {
        self.ask(|reply| Control::Resume(lane.clone(), reply)).await.unwrap_or(Ok(()))
    }

    /// Replaces the limits. Running and waiting jobs are kept.
    pub async fn change_limits(&self, limits: QueueLimits) {
        self.ask(|reply| Control::Change(Box::new(limits.clone()), reply)).await;
    }

    /// Accepts no new jobs; waiting and running ones continue to their ends.
    pub async fn begin_drain(&self) {
        self.ask(|reply| Control::Acceptance(Acceptance::Draining, reply)).await;
    }

    /// Accepts new jobs again, unless the server is shutting down.
    pub async fn end_drain(&self) {
        self.ask(|reply| Control::Acceptance(Acceptance::Open, reply)).await;
    }

    /// Records which resource the host is short of, if any: then no job starts while another one
    /// runs. Must be repeated from time to time, because a restarted supervisor does not know it.
    pub fn set_pressure(&self, pressure: Option<Pressure>) {
        self.supervisor_address.send_lossy(SupervisorMsg::Control(Control::SetPressure(pressure)));
    }

    /// Returns all figures of the queue.
    pub async fn overview(&self) -> QueueOverview {
        self.ask(Control::Overview).await.unwrap_or_default()
    }

    /// Returns the figures for metrics; `None` once the supervisor is gone.
    pub async fn queue_stats(&self) -> Option<QueueStats> {
        self.ask(Control::QueueStats).await
    }

    /// Sends a control request and waits for the reply; `None` if the supervisor is gone.
    async fn ask<T: Send + 'static>(
        &self,
        control: impl Fn(RpcReplyPort<T>) -> Control,
    ) -> Option<T> {
        self.supervisor_address.ask(|reply| SupervisorMsg::Control(control(reply))).await
    }
}

// The pressure on the host.

/// Samples the host's pressure, and tells the supervisor when to hold starts back. Keeps the last
/// logged state: only changes are logged.
#[derive(Debug)]
struct PressureSampler {
    supervisor: Supervisor,
    settings: watch::Receiver<PressureWatch>,
    watched: PressureWatch,
    held: Option<Pressure>,
    unknown: Option<PressureError>,
}

impl PressureSampler {
    /// Creates a sampler that has taken its first sample, so that no job starts before it.
    fn new(supervisor: Supervisor, settings: watch::Receiver<PressureWatch>) -> Self {
        let watched = *settings.borrow();
        let mut sampler = Self { supervisor, settings, watched, held: None, unknown: None };
        sampler.begin();
        sampler
    }

    /// Samples until the sender of the settings is dropped. Reads nothing while no level is set.
    async fn run(mut self) {
        loop {
            tokio::select! {
                changed = self.settings.changed() => match changed {
                    Ok(()) => self.begin(),
                    Err(_) => return,
                },
                () = sleep(self.watched.every), if self.watched.levels.is_any() => self.take_sample(),
            }
        }
    }

    fn begin(&mut self) {
        self.watched = *self.settings.borrow_and_update();
        for resource in HostResource::ALL {
            events::pressure_limit_set(resource, self.watched.levels.level(resource));
            // A gauge that is no longer read must not keep its last value.
            events::pressure_measured(resource, 0);
        }
        self.take_sample();
    }

    fn take_sample(&mut self) {
        let levels = self.watched.levels;
        let readings = if levels.is_any() { self.read() } else { Vec::new() };
        let held = levels.hold(self.held, &readings);
        self.supervisor.set_pressure(held);
        if held == self.held {
            return;
        }
        match (self.held, held) {
            (None, Some(Pressure { resource, percent })) => events::starts_held(resource, percent),
            (Some(_), None) => events::starts_resumed(),
            (Some(_), Some(_)) | (None, None) => {}
        }
        self.held = held;
    }

    /// Reads every resource that the kernel reports: those without a level still have a gauge.
    ///
    /// Blocks for microseconds: the kernel prints these lines from memory.
    fn read(&mut self) -> Vec<Pressure> {
        let mut readings = Vec::new();
        let mut unknown = None;
        for resource in HostResource::ALL {
            match read_pressure(resource) {
                Ok(percent) => {
                    events::pressure_measured(resource, percent);
                    readings.push(Pressure { resource, percent });
                }
                Err(why) if self.watched.levels.level(resource).is_some() => unknown = Some(why),
                Err(_) => {}
            }
        }
        if let Some(why) = unknown.filter(|why| self.unknown != Some(*why)) {
            events::pressure_unavailable(&why, why.fix());
        }
        self.unknown = unknown;
        readings
    }
}

/// Reads the pressure on one resource of this host, in percent.
///
/// # Errors
/// If the kernel does not report it.
pub fn read_pressure(resource: HostResource) -> Result<u8, PressureError> {
    load::read_pressure(match resource {
        HostResource::Cpu => load::PressureResource::Cpu,
        HostResource::Memory => load::PressureResource::Memory,
        HostResource::Io => load::PressureResource::Io,
    })
}

//! The public handle of the supervisor.

use std::sync::Arc;

use ractor::{Actor, RpcReplyPort, SpawnErr};
use tokio::sync::watch;

use super::actor::{AcceptedJob, Supervision, SupervisorMsg, SupervisorSettings};
use super::address::{Address, Sampler, SupervisorAddress};
use super::on_job_end::OnJobEnd;
use super::pressure::{Pressure, PressureWatch};
use super::queue::{QueueLimits, QueueOverview, QueuePosition, UnknownLane};
use super::queue_stats::collect_queue_stats;
use super::refusal::SubmitRefusal;
use super::registry::FindError;
use super::restored_jobs::RestoredJobs;
use super::retention::RetentionBounds;
use super::root_supervisor::{RootArgs, RootSupervisor};
use crate::ids::{JobId, TenantId};
use crate::job::{JobHandle, JobVariables, StopRequest};
#[cfg(test)]
use crate::output::Shortage;
use crate::process::OpenedDir;
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
    pub async fn submit(&self, admission: SubmitRequest) -> Result<JobHandle, SubmitRefusal> {
        let id = admission.id;
        let admission = Box::new(admission);
        let accepted =
            self.supervisor_address.ask_once(|reply| SupervisorMsg::Submit(admission, reply)).await;
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
        stopped.unwrap_or(Err(FindError::Unavailable { id }))
    }

    /// Returns the position of a waiting job; `None` once it has started.
    pub async fn queue_position(&self, id: JobId) -> Option<QueuePosition> {
        self.supervisor_address.ask(|reply| SupervisorMsg::Place(id, reply)).await.flatten()
    }

    /// Frees the oldest finished jobs until this many bytes are given back or none are left. Does
    /// not wait for the result.
    #[cfg(test)]
    pub(crate) fn sweep_for(&self, bytes: u64) {
        let (reply, _) = ractor::concurrency::oneshot();
        let shortages = vec![Shortage { tenant: None, bytes }];
        self.supervisor_address.send_lossy(SupervisorMsg::MakeRoom(shortages, reply.into()));
    }

    /// Begins to watch the host's pressure, which may hold starts back.
    pub fn watch_pressure(&self, settings: watch::Receiver<PressureWatch>) {
        tokio::spawn(Sampler::new(self.clone(), settings).run());
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
        let RetentionBounds { finished, bytes: retained_bytes, .. } = self.registry.limits().all;
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
}

impl Supervision {
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

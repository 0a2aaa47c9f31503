//! The public handle of the supervisor.

use std::fmt;

use ractor::{Actor, RpcReplyPort, SpawnErr};
use tokio::sync::watch;

use super::actor::{self, Supervision, SupervisorMsg, SupervisorSettings};
use super::address::{Address, Sampler, SupervisorAddress};
use super::pressure::{Pressure, PressureWatch};
use super::queue::{QueueLimits, QueueOverview, QueuePosition, UnknownLane};
use super::refusal::SubmitRefusal;
use super::registry::FindError;
use super::retention::RetentionBounds;
use super::root_supervisor::RootSupervisor;
use crate::ids::{JobId, TenantId};
use crate::job::{JobHandle, StopRequest};
use crate::outcome::JobEnding;
use crate::process::OpenedDir;
use crate::spec::JobSpec;
use crate::telemetry::QueueStats;
use crate::telemetry::events::{self, ServerLimits};

#[cfg(test)]
use crate::output::Shortage;

/// A handle on the supervisor. A cheap clone.
#[derive(Debug, Clone)]
pub struct Supervisor {
    pub(super) supervisor_address: SupervisorAddress,
}

/// A job that asks to be accepted.
#[derive(Debug)]
pub struct SubmitRequest {
    /// The number that it shall have.
    pub id: JobId,
    pub spec: JobSpec,
    /// The directory to run it in, where that is open already.
    pub cwd: Option<OpenedDir>,
    /// A name for this request: the same key never runs twice.
    pub key: Option<String>,
    /// The command as it may be logged.
    pub logged: String,
    /// The action when the job has ended.
    pub on_end: Option<OnJobEnd>,
}

/// An action of the submitter when a job has ended. It must be short.
pub struct OnJobEnd(Box<Act>);

type Act = dyn FnOnce(&JobHandle, &JobEnding) + Send;

impl OnJobEnd {
    #[must_use]
    pub fn new(act: impl FnOnce(&JobHandle, &JobEnding) + Send + 'static) -> Self {
        Self(Box::new(act))
    }

    pub(super) fn carry_out(self, job: &JobHandle, ending: &JobEnding) {
        (self.0)(job, ending);
    }
}

impl fmt::Debug for OnJobEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnJobEnd")
    }
}

impl Supervisor {
    /// Starts the supervisor. Should it fail, it is started again, a few times.
    ///
    /// # Errors
    /// When the actor could not be made.
    pub async fn start(settings: SupervisorSettings) -> Result<Self, SpawnErr> {
        let (set_current, supervisor_address) = SupervisorAddress::new();
        Actor::spawn(None, RootSupervisor, (settings, set_current, supervisor_address.clone()))
            .await?;
        Ok(Self { supervisor_address })
    }

    /// Returns once the supervisor has failed so often that it is not started any more.
    pub async fn given_up(&self) {
        self.supervisor_address.given_up().await;
    }

    /// Accepts a job, or says why not.
    ///
    /// # Errors
    /// When a bound is reached or the server takes no new jobs.
    pub async fn submit(&self, admission: SubmitRequest) -> Result<JobHandle, SubmitRefusal> {
        let id = admission.id;
        let admission = Box::new(admission);
        let accepted =
            self.supervisor_address.ask_once(|reply| SupervisorMsg::Submit(admission, reply)).await;
        match accepted {
            Some(accepted) => accepted,
            // Where it was accepted before the failure, it is known, as lost.
            None => self.find(id).await.map_err(|_| SubmitRefusal::Interrupted),
        }
    }

    /// The job with this number.
    ///
    /// # Errors
    /// When there is none, or no longer.
    pub async fn find(&self, id: JobId) -> Result<JobHandle, FindError> {
        let found = self.supervisor_address.ask(|reply| SupervisorMsg::Find(id, reply)).await;
        found.unwrap_or(Err(FindError::Unavailable { id }))
    }

    /// The tenant's job that was submitted under this key.
    pub async fn find_key(&self, tenant: TenantId, key: String) -> Option<JobHandle> {
        let find = |reply| SupervisorMsg::FindKey(tenant, key.clone(), reply);
        self.supervisor_address.ask(find).await.flatten()
    }

    /// The jobs of a tenant that are known, or those of all, newest first.
    pub async fn list(&self, tenant: Option<TenantId>) -> Vec<JobHandle> {
        self.supervisor_address
            .ask(|reply| SupervisorMsg::List(tenant, reply))
            .await
            .unwrap_or_default()
    }

    /// Begins the end of a job, waiting or running.
    ///
    /// # Errors
    /// When there is no such job, or no longer.
    pub async fn stop(&self, id: JobId, request: StopRequest) -> Result<JobHandle, FindError> {
        let stopped =
            self.supervisor_address.ask(|reply| SupervisorMsg::Stop(id, request, reply)).await;
        stopped.unwrap_or(Err(FindError::Unavailable { id }))
    }

    /// Returns the position of a waiting job; `None` once it has started.
    pub async fn queue_position(&self, id: JobId) -> Option<QueuePosition> {
        self.supervisor_address.ask(|reply| SupervisorMsg::Place(id, reply)).await.flatten()
    }

    /// Frees the oldest finished jobs that store anything, until they have given back so many
    /// bytes or there are none left. Does not wait for it.
    #[cfg(test)]
    pub(crate) fn sweep_for(&self, bytes: u64) {
        let (reply, _) = ractor::concurrency::oneshot();
        let shortages = vec![Shortage { tenant: None, bytes }];
        self.supervisor_address.tell_lossy(SupervisorMsg::MakeRoom(shortages, reply.into()));
    }

    /// Watches the system's pressure from now on, and holds starts back by it.
    pub fn watch_pressure(&self, settings: watch::Receiver<PressureWatch>) {
        tokio::spawn(Sampler::new(self.clone(), settings).run());
    }

    /// From now on nothing is accepted, and what waits is ended. Gives the jobs that run, or
    /// left survivors.
    pub async fn close(&self) -> Vec<JobHandle> {
        self.supervisor_address.ask(SupervisorMsg::Close).await.unwrap_or_default()
    }
}

// Control by the operator: pause and resume, drain, other bounds.

/// States if new jobs are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acceptance {
    Open,
    /// New jobs are refused; queued and running ones go on. It can be undone.
    Draining,
    /// At shutdown, for good.
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

    /// The same after a request; what is closed stays so.
    const fn requested(self, request: Self) -> Self {
        match self {
            Self::Open | Self::Draining => request,
            Self::Closed => Self::Closed,
        }
    }
}

/// A control request, mostly from an operator. All but `Press` are answered once they are in
/// effect.
#[derive(Debug)]
pub(super) enum Control {
    Pause(Option<String>, RpcReplyPort<Result<(), UnknownLane>>),
    Resume(Option<String>, RpcReplyPort<Result<(), UnknownLane>>),
    Change(Box<QueueLimits>, RpcReplyPort<()>),
    Acceptance(Acceptance, RpcReplyPort<()>),
    /// From the watch on the host: nobody waits for it.
    Press(Option<Pressure>),
    Overview(RpcReplyPort<QueueOverview>),
    Figures(RpcReplyPort<QueueStats>),
}

impl Supervision {
    pub(super) fn control(&mut self, control: Control, myself: &Address) {
        match control {
            Control::Pause(lane, reply) => {
                reply.send(self.queue.pause(lane.as_deref())).ok();
            }
            Control::Resume(lane, reply) => {
                reply.send(self.queue.resume(lane.as_deref())).ok();
            }
            Control::Change(limits, reply) => {
                self.queue.change(*limits);
                self.see_who_is_spent();
                self.limits_changed(myself);
                reply.send(()).ok();
            }
            Control::Acceptance(request, reply) => {
                self.acceptance = self.acceptance.requested(request);
                reply.send(()).ok();
            }
            Control::Press(pressure) => self.queue.set_pressure(pressure),
            Control::Overview(reply) => {
                reply.send(self.overview()).ok();
            }
            Control::Figures(reply) => {
                reply.send(self.figures()).ok();
            }
        }
    }

    /// Tells the bounds that hold from now on, and sees to those that need measurement.
    pub(super) fn limits_changed(&mut self, myself: &Address) {
        let QueueLimits { slots, max_queued, .. } = *self.queue.limits();
        let RetentionBounds { finished, bytes: retained_bytes, .. } = self.registry.limits().all;
        let retained = finished.unwrap_or_default();
        events::limits_set(ServerLimits { slots, queued: max_queued, retained, retained_bytes });
        self.begin_looks(myself);
    }

    fn overview(&self) -> QueueOverview {
        let mut overview = self.queue.overview();
        overview.draining = self.acceptance != Acceptance::Open;
        // Whoever has used something counts as well, and the tenant that needs no settings.
        let stored = self.job.quota.usage_by_tenant().into_keys();
        let stored = stored.filter_map(|name| TenantId::parse(&name).ok());
        for tenant in self.spending.tenants().chain(stored).chain([TenantId::LOCAL]) {
            overview.tenants.entry(tenant).or_insert_with(|| self.queue.tenant(tenant));
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
    fn figures(&self) -> QueueStats {
        let oldest = self.queue.oldest().and_then(|id| self.registry.find(id).ok());
        let oldest = oldest.map(|job| job.status().queued_for());
        actor::queue_stats(self.overview(), oldest)
    }
}

impl Supervisor {
    /// Nothing starts any more, in this lane or at all; what runs goes on.
    ///
    /// # Errors
    /// If there is no such lane.
    pub async fn pause(&self, lane: Option<String>) -> Result<(), UnknownLane> {
        self.ask(|reply| Control::Pause(lane.clone(), reply)).await.unwrap_or(Ok(()))
    }

    /// Jobs start again, in this lane or in all of them.
    ///
    /// # Errors
    /// If there is no such lane.
    pub async fn resume(&self, lane: Option<String>) -> Result<(), UnknownLane> {
        self.ask(|reply| Control::Resume(lane.clone(), reply)).await.unwrap_or(Ok(()))
    }

    /// From now on these bounds hold. Nothing that runs or waits is lost.
    pub async fn change_limits(&self, limits: QueueLimits) {
        self.ask(|reply| Control::Change(Box::new(limits.clone()), reply)).await;
    }

    /// From now on no new job is taken; those that wait and run go on to their ends.
    pub async fn begin_drain(&self) {
        self.ask(|reply| Control::Acceptance(Acceptance::Draining, reply)).await;
    }

    /// New jobs are taken again, unless the server is shutting down.
    pub async fn end_drain(&self) {
        self.ask(|reply| Control::Acceptance(Acceptance::Open, reply)).await;
    }

    /// From now on the host is short of this, or of nothing: while one job runs, no other starts.
    /// To be told again now and then: a supervisor that takes over from another does not know it.
    pub fn set_pressure(&self, pressure: Option<Pressure>) {
        self.supervisor_address.tell_lossy(SupervisorMsg::Control(Control::Press(pressure)));
    }

    /// All figures of the queue.
    pub async fn overview(&self) -> QueueOverview {
        self.ask(Control::Overview).await.unwrap_or_default()
    }

    /// The same for metrics; nothing once the supervisor is gone.
    pub async fn figures(&self) -> Option<QueueStats> {
        self.ask(Control::Figures).await
    }

    /// The reply, unless the supervisor is gone.
    async fn ask<T: Send + 'static>(
        &self,
        control: impl Fn(RpcReplyPort<T>) -> Control,
    ) -> Option<T> {
        self.supervisor_address.ask(|reply| SupervisorMsg::Control(control(reply))).await
    }
}

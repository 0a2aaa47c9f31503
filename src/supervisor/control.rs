//! What whoever runs the server may do while it runs: pause and resume, drain, other bounds.

use ractor::RpcReplyPort;

use super::actor::{Supervision, SupervisorMsg};
use super::address::Address;
use super::door::Supervisor;
use super::figures;
use super::pressure::Pressure;
use super::queue::{QueueLimits, QueueOverview, UnknownLane};
use super::refusal::Refusal;
use super::retention::Bounds;
use crate::ids::Tenant;
use crate::telemetry::QueueFigures;
use crate::telemetry::events::{self, Limits};

/// Whether new jobs are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doors {
    Open,
    /// Those that wait and run go on; it can be undone.
    Draining,
    /// At shutdown, for good.
    Closed,
}

impl Doors {
    pub(super) const fn check(self) -> Result<(), Refusal> {
        match self {
            Self::Open => Ok(()),
            Self::Draining => Err(Refusal::Draining),
            Self::Closed => Err(Refusal::Closed),
        }
    }

    /// The same after a wish; what is closed stays so.
    const fn wished(self, wish: Self) -> Self {
        match self {
            Self::Open | Self::Draining => wish,
            Self::Closed => Self::Closed,
        }
    }
}

/// A wish of whoever runs the server. Each replies once it holds.
#[derive(Debug)]
pub(super) enum Control {
    Pause(Option<String>, RpcReplyPort<Result<(), UnknownLane>>),
    Resume(Option<String>, RpcReplyPort<Result<(), UnknownLane>>),
    Change(Box<QueueLimits>, RpcReplyPort<()>),
    Doors(Doors, RpcReplyPort<()>),
    /// From the watch on the host: nobody waits for it.
    Press(Option<Pressure>),
    Overview(RpcReplyPort<QueueOverview>),
    /// For a scrape.
    Figures(RpcReplyPort<QueueFigures>),
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
            Control::Doors(wish, reply) => {
                self.doors = self.doors.wished(wish);
                reply.send(()).ok();
            }
            Control::Press(pressure) => self.queue.press(pressure),
            Control::Overview(reply) => {
                reply.send(self.overview()).ok();
            }
            Control::Figures(reply) => {
                reply.send(self.figures()).ok();
            }
        }
    }

    /// Tells the bounds that hold from now on, and sees to those that need looks.
    pub(super) fn limits_changed(&mut self, myself: &Address) {
        let QueueLimits { slots, max_queued, .. } = *self.queue.limits();
        let Bounds { finished, bytes: retained_bytes, .. } = self.registry.limits().all;
        let retained = finished.unwrap_or_default();
        events::limits_known(Limits { slots, queued: max_queued, retained, retained_bytes });
        self.begin_looks(myself);
    }

    fn overview(&self) -> QueueOverview {
        let mut overview = self.queue.overview();
        overview.draining = self.doors != Doors::Open;
        // Whoever has used something counts as well, and the tenant that needs no settings.
        let stored = self.job.quota.stored().into_keys();
        let stored = stored.filter_map(|name| Tenant::named(&name).ok());
        for tenant in self.spending.tenants().chain(stored).chain([Tenant::LOCAL]) {
            overview.tenants.entry(tenant).or_insert_with(|| self.queue.tenant(tenant));
        }
        for (tenant, figures) in &mut overview.tenants {
            figures.cpu_used = self.spending.cpu_used(*tenant);
            let stored = self.job.quota.stored_by(tenant.name());
            (figures.stored_bytes, figures.max_stored) = (stored.used, stored.limit);
        }
        overview
    }
}

impl Supervision {
    fn figures(&self) -> QueueFigures {
        let oldest = self.queue.oldest().and_then(|id| self.registry.find(id).ok());
        let oldest = oldest.map(|job| job.status().queued_for());
        figures::of(self.overview(), oldest)
    }
}

impl Supervisor {
    /// Nothing starts any more, in this lane or at all; what runs goes on.
    ///
    /// # Errors
    /// When there is no such lane.
    pub async fn pause(&self, lane: Option<String>) -> Result<(), UnknownLane> {
        self.ask(|reply| Control::Pause(lane.clone(), reply)).await.unwrap_or(Ok(()))
    }

    /// Jobs start again, in this lane or in all of them.
    ///
    /// # Errors
    /// When there is no such lane.
    pub async fn resume(&self, lane: Option<String>) -> Result<(), UnknownLane> {
        self.ask(|reply| Control::Resume(lane.clone(), reply)).await.unwrap_or(Ok(()))
    }

    /// From now on these bounds hold. Nothing that runs or waits is lost.
    pub async fn change_limits(&self, limits: QueueLimits) {
        self.ask(|reply| Control::Change(Box::new(limits.clone()), reply)).await;
    }

    /// From now on no new job is taken; those that wait and run go on to their ends.
    pub async fn begin_drain(&self) {
        self.ask(|reply| Control::Doors(Doors::Draining, reply)).await;
    }

    /// New jobs are taken again, unless the server is shutting down.
    pub async fn end_drain(&self) {
        self.ask(|reply| Control::Doors(Doors::Open, reply)).await;
    }

    /// From now on the host is short of this, or of nothing: while one job runs, no other starts.
    /// To be told again now and then: a supervisor that takes over from another does not know it.
    pub fn set_pressure(&self, pressure: Option<Pressure>) {
        self.post.mention(SupervisorMsg::Control(Control::Press(pressure)));
    }

    /// All figures of the queue.
    pub async fn overview(&self) -> QueueOverview {
        self.ask(Control::Overview).await.unwrap_or_default()
    }

    /// The same for metrics; nothing once the supervisor is gone.
    pub async fn figures(&self) -> Option<QueueFigures> {
        self.ask(Control::Figures).await
    }

    /// The reply, unless the supervisor is gone.
    async fn ask<T: Send + 'static>(
        &self,
        control: impl Fn(RpcReplyPort<T>) -> Control,
    ) -> Option<T> {
        self.post.ask(|reply| SupervisorMsg::Control(control(reply))).await
    }
}

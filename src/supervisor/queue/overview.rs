//! All figures of the queue at one moment, for those who may see every tenant.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fair::Queue;
use super::lane::{Flow, Lane};
use super::limits::{LaneLimits, TenantLimits};
use crate::ids::Tenant;
use crate::supervisor::pressure::Pressure;

/// All figures of the queue at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueOverview {
    /// Jobs that may run at once.
    pub slots: usize,
    /// Jobs that run.
    pub running: usize,
    /// Jobs that may wait.
    pub max_queued: usize,
    /// Jobs that wait.
    pub queued: usize,
    /// Whether the whole queue is paused.
    pub paused: bool,
    /// Whether no new jobs are taken.
    pub draining: bool,
    /// What the host is short of.
    pub pressure: Option<Pressure>,
    /// The lanes, the default one included.
    pub lanes: BTreeMap<String, LaneOverview>,
    /// Tenants that are configured, or have jobs.
    pub tenants: BTreeMap<Tenant, TenantOverview>,
}

/// The figures of one lane, over all tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneOverview {
    /// Its jobs that run.
    pub running: usize,
    /// Its jobs that wait.
    pub queued: usize,
    /// Its bounds.
    pub limits: LaneLimits,
    /// Whether it is paused by itself.
    pub paused: bool,
}

/// The figures of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantOverview {
    /// Its jobs that run.
    pub running: usize,
    /// Its jobs that wait.
    pub queued: usize,
    /// Its bounds.
    pub limits: TenantLimits,
    /// CPU time that its jobs used in the last hour; counted for those that have a bound on it.
    pub cpu_used: Duration,
}

impl Queue {
    /// All figures, as far as the queue knows them: CPU time is counted elsewhere.
    #[must_use]
    pub fn overview(&self) -> QueueOverview {
        let tenants = self.limits.tenants.keys().chain(self.members.keys());
        QueueOverview {
            slots: self.limits.slots,
            running: self.running,
            max_queued: self.limits.max_queued,
            queued: self.waiting(),
            paused: self.flow == Flow::Paused,
            draining: false,
            pressure: self.pressure,
            lanes: self
                .lanes
                .iter()
                .map(|(name, lane)| (name.to_string(), figures(lane)))
                .collect(),
            tenants: tenants.map(|tenant| (*tenant, self.tenant(*tenant))).collect(),
        }
    }

    fn tenant(&self, tenant: Tenant) -> TenantOverview {
        let member = self.members.get(&tenant);
        TenantOverview {
            running: member.map_or(0, |member| member.running),
            queued: member.map_or(0, |member| member.waiting),
            limits: *self.limits.of(tenant),
            cpu_used: Duration::ZERO,
        }
    }
}

fn figures(lane: &Lane) -> LaneOverview {
    LaneOverview {
        running: lane.running,
        queued: lane.waiting,
        limits: lane.limits,
        paused: lane.flow == Flow::Paused,
    }
}

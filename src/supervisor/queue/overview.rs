//! All figures of the queue at one moment, for those who may see every tenant.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fair::Queue;
use super::lane::{Flow, Lane};
use super::limits::{LaneLimits, TenantLimits};
use crate::ids::Tenant;
use crate::supervisor::pressure::Pressure;
use crate::telemetry::WaitReason;

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
    /// Jobs that wait, by what they wait for.
    pub waiting: BTreeMap<WaitReason, usize>,
    /// How long a new job would wait, by how long jobs ran of late.
    pub estimate: Option<Duration>,
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
    /// CPU time that its jobs used in the last hour.
    pub cpu_used: Duration,
    /// What its logs hold, in bytes.
    pub stored_bytes: u64,
    /// What they may hold.
    pub max_stored: u64,
}

impl Queue {
    /// All figures, as far as the queue knows them: CPU time and output are counted elsewhere.
    #[must_use]
    pub fn overview(&self) -> QueueOverview {
        let tenants = self.limits.tenants.keys().chain(self.members.keys());
        QueueOverview {
            slots: self.limits.slots,
            running: self.running,
            max_queued: self.limits.max_queued,
            queued: self.waiting(),
            waiting: self.reasons(),
            estimate: self.wait_of_all(),
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

    /// All jobs of a tenant in a lane wait for the same.
    fn reasons(&self) -> BTreeMap<WaitReason, usize> {
        let mut reasons = BTreeMap::new();
        for (tenant, member) in &self.members {
            let waiting = member.lanes.iter().filter(|(_, share)| !share.line.is_empty());
            for (lane, share) in waiting {
                let reason = self.waits_for(*tenant, lane).reason();
                *reasons.entry(reason).or_default() += share.line.len();
            }
        }
        reasons
    }

    /// How long it takes until all that wait now have started.
    fn wait_of_all(&self) -> Option<Duration> {
        if self.flow == Flow::Paused {
            return None;
        }
        let [waiting, slots] = [self.waiting(), self.limits.slots.max(1)];
        let [waiting, slots] =
            [waiting, slots].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        Some(self.ran.get()?.saturating_mul(waiting) / slots)
    }

    /// The figures of one tenant, whether it has jobs or not.
    #[must_use]
    pub fn tenant(&self, tenant: Tenant) -> TenantOverview {
        let member = self.members.get(&tenant);
        TenantOverview {
            running: member.map_or(0, |member| member.running),
            queued: member.map_or(0, |member| member.waiting),
            limits: *self.limits.of(tenant),
            cpu_used: Duration::ZERO,
            stored_bytes: 0,
            max_stored: 0,
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

//! Where a waiting job stands, and what it waits for.

use std::fmt;
use std::time::Duration;

use super::estimate::Ages;
use super::fair::{Entry, Queue, Stage};
use super::hold::Hold;
use super::lane::Flow;
use crate::ids::{JobId, Tenant};
use crate::supervisor::pressure::Pressure;
use crate::telemetry::WaitReason;

/// Where a waiting job stands. Nothing about other tenants can be counted from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePlace {
    /// Its place in its tenant's own line in its lane; 1 is next.
    pub position: usize,
    /// How long that line is.
    pub length: usize,
    /// The lane.
    pub lane: String,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// When it will start, by how long others ran.
    pub estimate: Option<Duration>,
}

/// What a job waits for; displays as "8/8 slots busy". That all are busy is all that is told: after
/// a bound was lowered more may run, and by how many could count others' jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitsFor {
    /// One of the queue's slots.
    Slots {
        /// How many there are.
        slots: usize,
    },
    /// One of its lane's slots.
    Lane {
        /// Which lane.
        lane: String,
        /// How many there are.
        slots: usize,
    },
    /// The end of one of its tenant's jobs.
    TenantLimit {
        /// How many may run.
        limit: usize,
    },
    /// That its tenant's CPU time of an hour is not used up any more.
    CpuLimit {
        /// What its jobs may use.
        limit: Duration,
    },
    /// The host, which is short of something.
    Pressure(Pressure),
    /// That the queue is resumed.
    Paused,
    /// That its lane is resumed.
    LanePaused {
        /// Which lane.
        lane: String,
    },
    /// Others that come before it.
    Turn,
}

impl WaitsFor {
    /// The word under which it is counted.
    #[must_use]
    pub const fn reason(&self) -> WaitReason {
        match self {
            Self::Slots { .. } => WaitReason::Slots,
            Self::Lane { .. } => WaitReason::Lane,
            Self::TenantLimit { .. } | Self::CpuLimit { .. } => WaitReason::Tenant,
            Self::Pressure(_) => WaitReason::Pressure,
            Self::Paused | Self::LanePaused { .. } => WaitReason::Paused,
            Self::Turn => WaitReason::Turn,
        }
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots { slots } => write!(f, "{slots}/{slots} slots busy"),
            Self::Lane { lane, slots } => write!(f, "lane {lane}: {slots}/{slots} busy"),
            Self::TenantLimit { limit } => write!(f, "tenant limit {limit}"),
            Self::CpuLimit { limit } => write!(f, "CPU limit {}s per hour", limit.as_secs()),
            Self::Pressure(pressure) => pressure.fmt(f),
            Self::Paused => f.write_str("the queue is paused"),
            Self::LanePaused { lane } => write!(f, "lane {lane} is paused"),
            Self::Turn => f.write_str("its turn"),
        }
    }
}

impl Queue {
    /// Where a waiting job stands; `ages` tells for how long others have run.
    #[must_use]
    pub fn place(&self, id: JobId, ages: Ages<'_>) -> Option<QueuePlace> {
        let Entry { tenant, lane, stage } = self.jobs.get(&id)?;
        let Stage::Waiting(ticket) = stage else { return None };
        let line = &self.members.get(tenant)?.lanes.get(lane)?.line;
        let position = line.rank(*ticket)? + 1;
        Some(QueuePlace {
            position,
            length: line.len(),
            lane: lane.to_string(),
            waits_for: self.waits_for(*tenant, lane),
            estimate: self.estimate(*tenant, lane, position, ages),
        })
    }

    /// What a job of this tenant waits for in this lane: a wish first, then what is narrowest.
    pub(super) fn waits_for(&self, tenant: Tenant, name: &str) -> WaitsFor {
        let hold = self.hold();
        let lane = self.lanes.get(name);
        if hold == Some(Hold::Paused) {
            return WaitsFor::Paused;
        }
        if lane.is_some_and(|lane| lane.flow == Flow::Paused) {
            return WaitsFor::LanePaused { lane: name.to_owned() };
        }
        let limits = self.limits.of(tenant);
        if let Some(limit) = limits.cpu_per_hour.filter(|_| self.spent.contains(&tenant)) {
            return WaitsFor::CpuLimit { limit };
        }
        if let Some(limit) = limits.max_running.filter(|_| self.is_at_limit(tenant)) {
            return WaitsFor::TenantLimit { limit };
        }
        if let Some(lane) = lane.filter(|lane| lane.is_full())
            && let Some(slots) = lane.limits.slots
        {
            return WaitsFor::Lane { lane: name.to_owned(), slots };
        }
        let slots = self.limits.slots;
        match hold {
            _ if self.running >= slots => WaitsFor::Slots { slots },
            Some(Hold::Pressure(pressure)) => WaitsFor::Pressure(pressure),
            Some(Hold::Paused) | None => WaitsFor::Turn,
        }
    }
}

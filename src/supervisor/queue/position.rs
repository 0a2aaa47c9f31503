//! The position of a waiting job, the reason for its wait, and the overview of the queue, also as
//! figures for metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::fair::{Entry, Flow, Lane, Queue, Stage};
use super::limits::{Hold, LaneLimits, Pressure, TenantLimits};
use crate::ids::{JobId, TenantId};
use crate::telemetry::{LaneStats, QueueStats, TenantStats, UsageAndLimit, WaitReason};

/// The position of a waiting job. It reveals nothing about the number of other tenants' jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePosition {
    /// The position in the tenant's own line in this lane; 1 is next.
    pub position: usize,
    /// The length of that line.
    pub length: usize,
    pub lane: String,
    /// The reason why the job waits.
    pub waits_for: WaitsFor,
    /// The tenant's own jobs that hold the slots that the job waits for.
    pub held_by: HoldingJobs,
    /// The expected wait, estimated from how long the tenant's jobs ran.
    pub estimate: Option<Duration>,
}

/// Jobs of one tenant that hold the slots of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HoldingJobs {
    /// The oldest ones, at most three.
    pub oldest: Vec<HoldingJob>,
    /// The number of further ones.
    pub others: usize,
}

/// A job that holds a slot of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HoldingJob {
    pub id: JobId,
    /// `true` if the job does not use the machine. The limits of lanes and tenants count it still.
    pub is_idle: bool,
}

/// The most jobs that are named as holders of slots.
const MAX_NAMED_HOLDERS: usize = 3;

/// The reason why a job waits; displays as "8/8 slots busy". It says only that all are busy: after
/// a limit was lowered more jobs may run, and their number could reveal others' jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitsFor {
    /// One of the queue's slots.
    Slots { slots: usize },
    /// One of its lane's slots.
    Lane { lane: String, slots: usize },
    /// The end of one of the tenant's jobs.
    TenantLimit {
        /// The number of jobs that may run.
        limit: usize,
    },
    /// CPU time: the tenant has used up that of the last hour.
    CpuLimit {
        /// The CPU time that the tenant's jobs may use.
        limit: Duration,
    },
    /// The end of a shortage on the host.
    Pressure(Pressure),
    /// File descriptors of the server.
    Files,
    /// The resumption of the queue.
    Paused,
    /// The resumption of the lane.
    LanePaused { lane: String },
    /// The jobs before it.
    Turn,
}

impl WaitsFor {
    /// Returns the label under which the reason is counted.
    #[must_use]
    pub const fn reason(&self) -> WaitReason {
        match self {
            Self::Slots { .. } => WaitReason::Slots,
            Self::Lane { .. } => WaitReason::Lane,
            Self::TenantLimit { .. } | Self::CpuLimit { .. } => WaitReason::Tenant,
            Self::Pressure(_) => WaitReason::Pressure,
            Self::Files => WaitReason::Files,
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
            Self::Files => f.write_str("the server is short of file descriptors"),
            Self::Paused => f.write_str("the queue is paused"),
            Self::LanePaused { lane } => write!(f, "lane {lane} is paused"),
            Self::Turn => f.write_str("its turn"),
        }
    }
}

impl Queue {
    /// Returns the position of a waiting job; `ages` are the ages of running jobs.
    #[must_use]
    pub fn find_position(&self, id: JobId, ages: Ages<'_>) -> Option<QueuePosition> {
        let Entry { tenant, lane, stage } = self.jobs.get(&id)?;
        let Stage::Waiting(ticket) = stage else { return None };
        let line = &self.members.get(tenant)?.lanes.get(lane)?.line;
        let position = line.count_before(*ticket)? + 1;
        Some(QueuePosition {
            position,
            length: line.len(),
            lane: lane.to_string(),
            waits_for: self.explain_wait(*tenant, lane),
            held_by: self.find_slot_holders(*tenant, lane),
            estimate: self.estimate(*tenant, lane, position, ages),
        })
    }

    /// Returns the oldest jobs of this tenant that hold the slots for which its jobs in this lane
    /// wait. Jobs of other tenants are not revealed.
    fn find_slot_holders(&self, tenant: TenantId, name: &str) -> HoldingJobs {
        let Some(member) = self.members.get(&tenant) else { return HoldingJobs::default() };
        let (only_lane, counts_idle) = match self.explain_wait(tenant, name) {
            WaitsFor::Slots { .. } => (None, false),
            WaitsFor::TenantLimit { .. } => (None, true),
            WaitsFor::Lane { .. } => (Some(name), true),
            WaitsFor::CpuLimit { .. }
            | WaitsFor::Pressure(_)
            | WaitsFor::Files
            | WaitsFor::Paused
            | WaitsFor::LanePaused { .. }
            | WaitsFor::Turn => return HoldingJobs::default(),
        };
        let mut jobs: Vec<HoldingJob> = Vec::new();
        for (lane, share) in &member.lanes {
            if only_lane.is_none_or(|only| only == &**lane) {
                jobs.extend(share.running.iter().map(|id| HoldingJob { id: *id, is_idle: false }));
                let idle = share.idle.iter().filter(|_| counts_idle);
                jobs.extend(idle.map(|id| HoldingJob { id: *id, is_idle: true }));
            }
        }
        jobs.sort_unstable();
        let others = jobs.len().saturating_sub(MAX_NAMED_HOLDERS);
        jobs.truncate(MAX_NAMED_HOLDERS);
        HoldingJobs { oldest: jobs, others }
    }

    /// Returns the reason why a job of this tenant waits in this lane: an operator's pause first,
    /// then the narrowest limit.
    fn explain_wait(&self, tenant: TenantId, name: &str) -> WaitsFor {
        let hold = self.hold();
        let lane = self.lanes.get(name);
        if hold == Some(Hold::Paused) {
            return WaitsFor::Paused;
        }
        if lane.is_some_and(|lane| lane.flow == Flow::Paused) {
            return WaitsFor::LanePaused { lane: name.to_owned() };
        }
        let limits = self.limits.tenant_limits(tenant);
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
            Some(Hold::Files) => WaitsFor::Files,
            Some(Hold::Paused) | None => WaitsFor::Turn,
        }
    }
}

// Estimates of the start of a waiting job, from the durations of others.

/// Returns how long a job has run so far. The queue itself has no clock.
pub type Ages<'a> = &'a dyn Fn(JobId) -> Duration;

/// The weight of the newest job is one part in this many.
const MEMORY: u32 = 8;

/// A moving average: recent values count more.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mean(Option<Duration>);

impl Mean {
    pub(super) fn add(&mut self, ran: Duration) {
        let old = self.0.unwrap_or(ran);
        self.0 = Some(old - old / MEMORY + ran / MEMORY);
    }

    pub(super) const fn get(self) -> Option<Duration> {
        self.0
    }
}

impl Queue {
    /// Estimates the wait for this position of a tenant's line: from the durations of its own jobs
    /// in that lane, or from the ages of those that run, if that is more. There is no estimate when
    /// none of its own jobs is before it, since the durations of others' jobs must not be revealed,
    /// nor while something other than the end of such jobs has to come first.
    pub(super) fn estimate(
        &self,
        tenant: TenantId,
        lane: &str,
        position: usize,
        ages: Ages<'_>,
    ) -> Option<Duration> {
        if self.is_paused(lane) || self.spent.contains(&tenant) {
            return None;
        }
        let share = self.members.get(&tenant)?.lanes.get(lane)?;
        let mean = share.ran.get()?;
        let [position, beside] =
            [position, share.running.len()].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let so_far = share.running.iter().map(|id| ages(*id)).sum::<Duration>();
        let mean = so_far.checked_div(beside)?.max(mean);
        Some(mean.saturating_mul(position) / beside)
    }
}

// All figures of the queue at one moment, for those who may see every tenant.

/// All figures of the queue at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueOverview {
    /// Jobs that may run at once.
    pub slots: usize,
    /// Jobs that run and hold a slot.
    pub running: usize,
    /// Jobs that run without a slot, because they do not use the machine.
    pub idle: usize,
    pub max_queued: usize,
    pub queued: usize,
    /// Jobs that wait, by what they wait for.
    pub waiting: BTreeMap<WaitReason, usize>,
    /// The wait of a new job, estimated from recent durations.
    pub estimate: Option<Duration>,
    /// `true` if the whole queue is paused.
    pub paused: bool,
    /// `true` if no new jobs are accepted.
    pub draining: bool,
    /// The pressure that holds starts back, if any.
    pub pressure: Option<Pressure>,
    /// The lanes, the default one included.
    pub lanes: BTreeMap<String, LaneOverview>,
    /// Tenants that are configured, or have jobs.
    pub tenants: BTreeMap<TenantId, TenantOverview>,
}

/// The figures of one lane, over all tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneOverview {
    pub running: usize,
    pub idle: usize,
    pub queued: usize,
    pub limits: LaneLimits,
    /// `true` if this lane alone is paused.
    pub paused: bool,
}

/// The figures of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantOverview {
    pub running: usize,
    pub idle: usize,
    pub queued: usize,
    pub limits: TenantLimits,
    /// CPU time that its jobs used in the last hour.
    pub cpu_used: Duration,
    /// Bytes stored in the tenant's logs.
    pub stored_bytes: u64,
    /// The limit on stored bytes.
    pub max_stored: u64,
}

impl Queue {
    /// Returns all figures that the queue knows: CPU time and output are counted elsewhere.
    #[must_use]
    pub fn overview(&self) -> QueueOverview {
        let tenants = self.limits.tenants.keys().chain(self.members.keys());
        QueueOverview {
            slots: self.limits.slots,
            running: self.running,
            idle: self.idle,
            max_queued: self.limits.max_queued,
            queued: self.waiting_count(),
            waiting: self.count_wait_reasons(),
            estimate: self.estimate_wait_of_all(),
            paused: self.flow == Flow::Paused,
            draining: false,
            pressure: self.pressure,
            lanes: self
                .lanes
                .iter()
                .map(|(name, lane)| (name.to_string(), lane_overview(lane)))
                .collect(),
            tenants: tenants.map(|tenant| (*tenant, self.tenant_overview(*tenant))).collect(),
        }
    }

    /// Counts waiting jobs by reason: all jobs of a tenant in a lane have the same one.
    fn count_wait_reasons(&self) -> BTreeMap<WaitReason, usize> {
        let mut reasons = BTreeMap::new();
        for (tenant, member) in &self.members {
            let waiting = member.lanes.iter().filter(|(_, share)| !share.line.is_empty());
            for (lane, share) in waiting {
                let reason = self.explain_wait(*tenant, lane).reason();
                *reasons.entry(reason).or_default() += share.line.len();
            }
        }
        reasons
    }

    /// Estimates the time until every job that waits now has started.
    fn estimate_wait_of_all(&self) -> Option<Duration> {
        if self.flow == Flow::Paused {
            return None;
        }
        let [waiting, slots] = [self.waiting_count(), self.limits.slots.max(1)];
        let [waiting, slots] =
            [waiting, slots].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        Some(self.ran.get()?.saturating_mul(waiting) / slots)
    }

    /// Returns the figures of one tenant, with or without jobs.
    #[must_use]
    pub fn tenant_overview(&self, tenant: TenantId) -> TenantOverview {
        let member = self.members.get(&tenant);
        TenantOverview {
            running: member.map_or(0, |member| member.running),
            idle: member.map_or(0, |member| member.idle),
            queued: member.map_or(0, |member| member.waiting),
            limits: *self.limits.tenant_limits(tenant),
            cpu_used: Duration::ZERO,
            stored_bytes: 0,
            max_stored: 0,
        }
    }
}

fn lane_overview(lane: &Lane) -> LaneOverview {
    LaneOverview {
        running: lane.running,
        idle: lane.idle,
        queued: lane.waiting,
        limits: lane.limits,
        paused: lane.flow == Flow::Paused,
    }
}

// Figures of the queue for metrics.

/// Returns the figures of lanes and tenants, and the reasons why jobs wait.
#[must_use]
pub fn collect_queue_stats(overview: QueueOverview, oldest: Option<Duration>) -> QueueStats {
    let waiting = overview.waiting.into_iter();
    QueueStats {
        slots: overview.slots as u64,
        busy: overview.running as u64,
        idle: overview.idle as u64,
        max_queued: overview.max_queued as u64,
        is_paused: overview.paused,
        is_draining: overview.draining,
        waiting: waiting.map(|(reason, jobs)| (reason, jobs as u64)).collect(),
        oldest,
        estimate: overview.estimate,
        lanes: overview.lanes.into_iter().map(to_lane_stats).collect(),
        tenants: overview.tenants.into_iter().map(to_tenant_stats).collect(),
    }
}

fn to_lane_stats((name, lane): (String, LaneOverview)) -> LaneStats {
    LaneStats {
        name,
        running: to_usage(lane.running + lane.idle, lane.limits.slots),
        queued: to_usage(lane.queued, lane.limits.max_queued),
        is_paused: lane.paused,
    }
}

fn to_tenant_stats((tenant, own): (TenantId, TenantOverview)) -> TenantStats {
    let seconds = |time: Duration| time.as_secs();
    TenantStats {
        name: tenant.name().to_owned(),
        running: to_usage(own.running + own.idle, own.limits.max_running),
        queued: to_usage(own.queued, own.limits.max_queued),
        cpu: UsageAndLimit {
            used: seconds(own.cpu_used),
            limit: own.limits.cpu_per_hour.map(seconds),
        },
        stored: UsageAndLimit { used: own.stored_bytes, limit: Some(own.max_stored) },
    }
}

fn to_usage(used: usize, limit: Option<usize>) -> UsageAndLimit {
    UsageAndLimit { used: used as u64, limit: limit.map(|limit| limit as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_follows_what_is_recent() {
        let seconds = Duration::from_secs;
        let mut mean = Mean::default();
        assert_eq!(mean.get(), None);
        mean.add(seconds(8));
        assert_eq!(mean.get(), Some(seconds(8)));
        mean.add(seconds(16));
        assert_eq!(mean.get(), Some(seconds(9)));
        for _ in 0..50 {
            mean.add(seconds(1));
        }
        assert!(mean.get() < Some(seconds(2)));
        mean.add(Duration::MAX);
        mean.add(Duration::MAX);
    }

    #[test]
    fn lanes_tenants_and_reasons_are_counted() {
        let build = LaneOverview {
            running: 1,
            idle: 0,
            queued: 2,
            limits: LaneLimits { slots: Some(1), max_queued: None },
            paused: true,
        };
        let ci = TenantOverview {
            running: 1,
            idle: 0,
            queued: 2,
            limits: TenantLimits { max_running: Some(4), ..TenantLimits::default() },
            cpu_used: Duration::from_secs(7),
            stored_bytes: 9,
            max_stored: 50,
        };
        let overview = QueueOverview {
            slots: 2,
            draining: true,
            waiting: BTreeMap::from([(WaitReason::Lane, 2)]),
            lanes: BTreeMap::from([("build".to_owned(), build)]),
            tenants: BTreeMap::from([(TenantId::parse("figures-ci").unwrap(), ci)]),
            ..QueueOverview::default()
        };
        let figures = collect_queue_stats(overview, None);
        assert!(figures.is_draining && !figures.is_paused);
        assert_eq!((figures.slots, figures.waiting), (2, [(WaitReason::Lane, 2)].into()));
        let lane = &figures.lanes[0];
        assert_eq!((lane.running, lane.queued), (to_usage(1, Some(1)), to_usage(2, None)));
        assert!(lane.is_paused);
        let [ci] = &figures.tenants[..] else { panic!("one tenant") };
        assert_eq!((ci.running, ci.cpu), (to_usage(1, Some(4)), to_usage(7, None)));
        assert_eq!(ci.stored, to_usage(9, Some(50)));
    }
}

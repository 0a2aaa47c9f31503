//! Every metric of the queue: who waits and why, its lanes and tenants, and what holds it back.
//! The same rules as for all other [`names`](super::names).

use metrics::Unit;

use super::labels::{Resource, WaitReason, key};
use super::names::LabelSet;

/// Things of the queue that go up and down. Every bound stands beside its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueGauge {
    /// How much the system stalls.
    Pressure,
    /// How much it may before starts are held back.
    PressureLimit,
    /// Whether pressure holds starts back.
    StartsHeld,
    /// Whether somebody has paused the queue.
    Paused,
    /// Whether no new jobs are taken.
    Draining,
    /// Jobs that wait, by what they wait for.
    JobsWaiting,
    /// How long the first of them has waited.
    OldestAge,
    /// How long a new job would wait.
    WaitEstimate,
    /// Jobs of a lane that run.
    LaneRunning,
    /// Jobs of a lane that may run at one time.
    LaneRunningLimit,
    /// Jobs of a lane that wait.
    LaneQueued,
    /// Jobs of a lane that may wait.
    LaneQueuedLimit,
    /// Whether somebody has paused a lane.
    LanePaused,
    /// Jobs of a tenant that run.
    TenantRunning,
    /// Jobs of a tenant that may run at one time.
    TenantRunningLimit,
    /// Jobs of a tenant that wait.
    TenantQueued,
    /// Jobs of a tenant that may wait.
    TenantQueuedLimit,
    /// Output of a tenant that is held.
    TenantStored,
    /// Output of a tenant that may be held.
    TenantStoredLimit,
    /// CPU time of a tenant in the last hour.
    TenantCpu,
    /// CPU time that a tenant may use in an hour.
    TenantCpuLimit,
}

/// Where the values of a gauge's labels come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Labelled {
    /// They are known to the program.
    By(&'static [LabelSet]),
    /// Each is the name of a configured lane.
    ByLane,
    /// Each is the name of a configured tenant, or stands for all others.
    ByTenant,
}

impl QueueGauge {
    /// Every gauge.
    pub const ALL: [Self; 21] = [
        Self::Pressure,
        Self::PressureLimit,
        Self::StartsHeld,
        Self::Paused,
        Self::Draining,
        Self::JobsWaiting,
        Self::OldestAge,
        Self::WaitEstimate,
        Self::LaneRunning,
        Self::LaneRunningLimit,
        Self::LaneQueued,
        Self::LaneQueuedLimit,
        Self::LanePaused,
        Self::TenantRunning,
        Self::TenantRunningLimit,
        Self::TenantQueued,
        Self::TenantQueuedLimit,
        Self::TenantStored,
        Self::TenantStoredLimit,
        Self::TenantCpu,
        Self::TenantCpuLimit,
    ];

    /// The name in Prometheus.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pressure => "shellyard_pressure_ratio",
            Self::PressureLimit => "shellyard_pressure_limit_ratio",
            Self::StartsHeld => "shellyard_starts_held",
            Self::Paused => "shellyard_queue_paused",
            Self::Draining => "shellyard_draining",
            Self::JobsWaiting => "shellyard_jobs_waiting",
            Self::OldestAge => "shellyard_queue_oldest_age_seconds",
            Self::WaitEstimate => "shellyard_queue_wait_estimate_seconds",
            Self::LaneRunning => "shellyard_lane_jobs_running",
            Self::LaneRunningLimit => "shellyard_lane_jobs_running_limit",
            Self::LaneQueued => "shellyard_lane_jobs_queued",
            Self::LaneQueuedLimit => "shellyard_lane_jobs_queued_limit",
            Self::LanePaused => "shellyard_lane_paused",
            Self::TenantRunning => "shellyard_tenant_jobs_running",
            Self::TenantRunningLimit => "shellyard_tenant_jobs_running_limit",
            Self::TenantQueued => "shellyard_tenant_jobs_queued",
            Self::TenantQueuedLimit => "shellyard_tenant_jobs_queued_limit",
            Self::TenantStored => "shellyard_tenant_stored_bytes",
            Self::TenantStoredLimit => "shellyard_tenant_stored_limit_bytes",
            Self::TenantCpu => "shellyard_tenant_cpu_seconds",
            Self::TenantCpuLimit => "shellyard_tenant_cpu_limit_seconds",
        }
    }

    /// One sentence for people.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            Self::Pressure => "Share of the last 10 s that the system stalled (PSI), by resource.",
            Self::PressureLimit => "From this share on starts are held back; 0 = never.",
            Self::StartsHeld => "1 while pressure holds starts back, else 0.",
            Self::Paused => "1 while the queue is paused, else 0.",
            Self::Draining => "1 while no new jobs are taken, else 0.",
            Self::JobsWaiting => "Jobs that wait now, by what they wait for.",
            Self::OldestAge => "How long the job that waits longest has waited; 0 = none waits.",
            Self::WaitEstimate => "How long a new job would wait, by recent durations.",
            Self::LaneRunning => "Jobs that run now, by lane.",
            Self::LaneRunningLimit => "Jobs that may run at one time, by lane; 0 = no own bound.",
            Self::LaneQueued => "Jobs that wait now, by lane.",
            Self::LaneQueuedLimit => "Jobs that may wait, by lane; 0 = no own bound.",
            Self::LanePaused => "1 while the lane is paused by itself, else 0.",
            Self::TenantRunning => "Jobs that run now, by tenant.",
            Self::TenantRunningLimit => "Jobs that may run at one time, by tenant; 0 = no bound.",
            Self::TenantQueued => "Jobs that wait now, by tenant.",
            Self::TenantQueuedLimit => "Jobs that may wait, by tenant; 0 = no bound.",
            Self::TenantStored => "Output that is held, by tenant.",
            Self::TenantStoredLimit => "Output that may be held, by tenant; 0 = no bound.",
            Self::TenantCpu => "CPU time of the last hour, by tenant.",
            Self::TenantCpuLimit => {
                "CPU time that may be used in an hour, by tenant; 0 = no bound."
            }
        }
    }

    /// What is measured.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::OldestAge | Self::WaitEstimate | Self::TenantCpu | Self::TenantCpuLimit => {
                Unit::Seconds
            }
            Self::TenantStored | Self::TenantStoredLimit => Unit::Bytes,
            Self::Pressure
            | Self::PressureLimit
            | Self::StartsHeld
            | Self::Paused
            | Self::Draining
            | Self::JobsWaiting
            | Self::LaneRunning
            | Self::LaneRunningLimit
            | Self::LaneQueued
            | Self::LaneQueuedLimit
            | Self::LanePaused
            | Self::TenantRunning
            | Self::TenantRunningLimit
            | Self::TenantQueued
            | Self::TenantQueuedLimit => Unit::Count,
        }
    }

    /// Its labels.
    #[must_use]
    pub const fn labelled(self) -> Labelled {
        match self {
            Self::Pressure | Self::PressureLimit => {
                Labelled::By(&[(key::RESOURCE, &Resource::WORDS)])
            }
            Self::JobsWaiting => Labelled::By(&[(key::REASON, &WaitReason::WORDS)]),
            Self::StartsHeld
            | Self::Paused
            | Self::Draining
            | Self::OldestAge
            | Self::WaitEstimate => Labelled::By(&[]),
            Self::LaneRunning
            | Self::LaneRunningLimit
            | Self::LaneQueued
            | Self::LaneQueuedLimit
            | Self::LanePaused => Labelled::ByLane,
            Self::TenantRunning
            | Self::TenantRunningLimit
            | Self::TenantQueued
            | Self::TenantQueuedLimit
            | Self::TenantStored
            | Self::TenantStoredLimit
            | Self::TenantCpu
            | Self::TenantCpuLimit => Labelled::ByTenant,
        }
    }
}

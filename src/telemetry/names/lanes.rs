//! Lanes of the queue. Their names are configured.

use metrics::Unit;

use super::catalogue::Family;
use super::metric::{Gauge, Labels, Metric};

/// Jobs that run now, by lane.
pub const RUNNING: Gauge = Gauge(Metric {
    name: "shellyard_lane_jobs_running",
    help: "Jobs that run now, by lane.",
    unit: Unit::Count,
    labels: Labels::Lane,
});

/// Jobs that may run at one time, by lane; 0 = no own bound.
pub const RUNNING_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_lane_jobs_running_limit",
    help: "Jobs that may run at one time, by lane; 0 = no own bound.",
    unit: Unit::Count,
    labels: Labels::Lane,
});

/// Jobs that wait now, by lane.
pub const QUEUED: Gauge = Gauge(Metric {
    name: "shellyard_lane_jobs_queued",
    help: "Jobs that wait now, by lane.",
    unit: Unit::Count,
    labels: Labels::Lane,
});

/// Jobs that may wait, by lane; 0 = no own bound.
pub const QUEUED_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_lane_jobs_queued_limit",
    help: "Jobs that may wait, by lane; 0 = no own bound.",
    unit: Unit::Count,
    labels: Labels::Lane,
});

/// 1 while the lane is paused by itself, else 0.
pub const PAUSED: Gauge = Gauge(Metric {
    name: "shellyard_lane_paused",
    help: "1 while the lane is paused by itself, else 0.",
    unit: Unit::Count,
    labels: Labels::Lane,
});

/// All of them.
pub(super) const FAMILY: Family = Family {
    title: "Lanes of the queue",
    counters: &[],
    gauges: &[RUNNING, RUNNING_LIMIT, QUEUED, QUEUED_LIMIT, PAUSED],
    histograms: &[],
};

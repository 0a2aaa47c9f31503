//! The queue as a whole: who waits and why, and what holds it back.

use metrics::Unit;

use super::catalogue::Family;
use super::metric::{Gauge, Labels, Metric, PLAIN};
use crate::telemetry::labels::{Resource, WaitReason, key};

/// Share of the last 10 s that the system stalled (PSI), by resource.
pub const PRESSURE: Gauge = Gauge(Metric {
    name: "shellyard_pressure_ratio",
    help: "Share of the last 10 s that the system stalled (PSI), by resource.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::RESOURCE, &Resource::WORDS)]),
});

/// From this share on starts are held back; 0 = never.
pub const PRESSURE_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_pressure_limit_ratio",
    help: "From this share on starts are held back; 0 = never.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::RESOURCE, &Resource::WORDS)]),
});

/// 1 while pressure holds starts back, else 0.
pub const STARTS_HELD: Gauge = Gauge(Metric {
    name: "shellyard_starts_held",
    help: "1 while pressure holds starts back, else 0.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// 1 while the queue is paused, else 0.
pub const PAUSED: Gauge = Gauge(Metric {
    name: "shellyard_queue_paused",
    help: "1 while the queue is paused, else 0.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// 1 while no new jobs are taken, else 0.
pub const DRAINING: Gauge = Gauge(Metric {
    name: "shellyard_draining",
    help: "1 while no new jobs are taken, else 0.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Jobs that wait now, by what they wait for.
pub const WAITING: Gauge = Gauge(Metric {
    name: "shellyard_jobs_waiting",
    help: "Jobs that wait now, by what they wait for.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::REASON, &WaitReason::WORDS)]),
});

/// How long the job that waits longest has waited; 0 = none waits.
pub const OLDEST_AGE: Gauge = Gauge(Metric {
    name: "shellyard_queue_oldest_age_seconds",
    help: "How long the job that waits longest has waited; 0 = none waits.",
    unit: Unit::Seconds,
    labels: PLAIN,
});

/// How long a new job would wait, by recent durations.
pub const WAIT_ESTIMATE: Gauge = Gauge(Metric {
    name: "shellyard_queue_wait_estimate_seconds",
    help: "How long a new job would wait, by recent durations.",
    unit: Unit::Seconds,
    labels: PLAIN,
});

/// All of them.
pub(super) const FAMILY: Family = Family {
    title: "The queue as a whole",
    counters: &[],
    gauges: &[
        PRESSURE,
        PRESSURE_LIMIT,
        STARTS_HELD,
        PAUSED,
        DRAINING,
        WAITING,
        OLDEST_AGE,
        WAIT_ESTIMATE,
    ],
    histograms: &[],
};

//! Jobs, from their submission to their end.

use metrics::Unit;

use super::catalogue::Family;
use super::metric::{BYTES, Counter, Gauge, Histogram, Labels, Metric, PLAIN, SECONDS};
use crate::outcome::{Fault, LimitKind, Outcome};
use crate::telemetry::labels::{
    ApprovalStep, CONFINEMENT_BACKENDS, CONFINEMENT_PROFILES, Rejection, YES_OR_NO, key,
};

/// Jobs that were accepted.
pub const SUBMITTED: Counter = Counter(Metric {
    name: "shellyard_jobs_submitted_total",
    help: "Jobs that were accepted.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Jobs that were accepted, by the confinement that they get: profile, what enforces it, and
/// whether that is less than was asked for.
pub const CONFINED: Counter = Counter(Metric {
    name: "shellyard_jobs_confined_total",
    help: "Jobs that were accepted, by the confinement that they get, and whether that is less than was asked for.",
    unit: Unit::Count,
    labels: Labels::Closed(&[
        (key::PROFILE, &CONFINEMENT_PROFILES),
        (key::BACKEND, &CONFINEMENT_BACKENDS),
        (key::DEGRADED, &YES_OR_NO),
    ]),
});

/// Jobs that were not accepted, by reason.
pub const REJECTED: Counter = Counter(Metric {
    name: "shellyard_jobs_rejected_total",
    help: "Jobs that were not accepted, by reason.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::REASON, &Rejection::WORDS)]),
});

/// Commands that somebody must agree to, by how far they came.
pub const APPROVALS: Counter = Counter(Metric {
    name: "shellyard_approvals_total",
    help: "Commands that somebody must agree to, by how far they came: asked, and what was said.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::STEP, &ApprovalStep::WORDS)]),
});

/// Jobs that ended, by outcome.
pub const FINISHED: Counter = Counter(Metric {
    name: "shellyard_jobs_finished_total",
    help: "Jobs that ended, by outcome.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::OUTCOME, &Outcome::WORDS)]),
});

/// Jobs that did not end well, by whose fault: the command's, a limit's, or the server's.
pub const FAILED: Counter = Counter(Metric {
    name: "shellyard_jobs_failed_total",
    help: "Jobs that did not end well, by whose fault: the command's, a limit's, or the server's.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::FAULT, &Fault::WORDS)]),
});

/// Jobs that were ended by one of their limits, by limit.
pub const OVERRAN: Counter = Counter(Metric {
    name: "shellyard_jobs_overran_total",
    help: "Jobs that were ended by one of their limits, by limit.",
    unit: Unit::Count,
    labels: Labels::Closed(&[(key::LIMIT, &LimitKind::WORDS)]),
});

/// Jobs that run now, those that are being stopped included.
pub const RUNNING: Gauge = Gauge(Metric {
    name: "shellyard_jobs_running",
    help: "Jobs that run now, those that are being stopped included.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Slots: jobs that may run at one time.
pub const RUNNING_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_jobs_running_limit",
    help: "Slots: jobs that may run at one time.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Jobs whose processes are being ended now.
pub const STOPPING: Gauge = Gauge(Metric {
    name: "shellyard_jobs_stopping",
    help: "Jobs whose processes are being ended now.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Jobs that wait for a slot now.
pub const QUEUED: Gauge = Gauge(Metric {
    name: "shellyard_jobs_queued",
    help: "Jobs that wait for a slot now.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Jobs that may wait for a slot.
pub const QUEUED_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_jobs_queued_limit",
    help: "Jobs that may wait for a slot.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Finished jobs that can be read now.
pub const RETAINED: Gauge = Gauge(Metric {
    name: "shellyard_jobs_retained",
    help: "Finished jobs that can be read now.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Finished jobs that stay readable.
pub const RETAINED_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_jobs_retained_limit",
    help: "Finished jobs that stay readable.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// How long jobs ran, from start to end.
pub const DURATION: Histogram = Histogram(
    Metric {
        name: "shellyard_job_duration_seconds",
        help: "How long jobs ran, from start to end.",
        unit: Unit::Seconds,
        labels: PLAIN,
    },
    &SECONDS,
);

/// How long jobs waited for a slot, from submit to start.
pub const QUEUE_WAIT: Histogram = Histogram(
    Metric {
        name: "shellyard_job_queue_wait_seconds",
        help: "How long jobs waited for a slot, from submit to start.",
        unit: Unit::Seconds,
        labels: PLAIN,
    },
    &SECONDS,
);

/// CPU time that jobs used, user and system.
pub const CPU: Histogram = Histogram(
    Metric {
        name: "shellyard_job_cpu_seconds",
        help: "CPU time that jobs used, user and system.",
        unit: Unit::Seconds,
        labels: PLAIN,
    },
    &SECONDS,
);

/// Largest resident memory of a process of the job, where the kernel tells it.
pub const PEAK_MEMORY: Histogram = Histogram(
    Metric {
        name: "shellyard_job_peak_memory_bytes",
        help: "Largest resident memory of a process of the job, where the kernel tells it.",
        unit: Unit::Bytes,
        labels: PLAIN,
    },
    &BYTES,
);

/// Bytes that jobs wrote to both streams until they ended.
pub const OUTPUT: Histogram = Histogram(
    Metric {
        name: "shellyard_job_output_bytes",
        help: "Bytes that jobs wrote to both streams until they ended.",
        unit: Unit::Bytes,
        labels: PLAIN,
    },
    &BYTES,
);

/// All of them.
pub(super) const FAMILY: Family = Family {
    title: "Jobs",
    counters: &[SUBMITTED, CONFINED, REJECTED, APPROVALS, FINISHED, FAILED, OVERRAN],
    gauges: &[RUNNING, RUNNING_LIMIT, STOPPING, QUEUED, QUEUED_LIMIT, RETAINED, RETAINED_LIMIT],
    histograms: &[DURATION, QUEUE_WAIT, CPU, PEAK_MEMORY, OUTPUT],
};

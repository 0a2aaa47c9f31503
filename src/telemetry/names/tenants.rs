//! Tenants. Those that are configured have series of their own; all others count as `other`.

use metrics::Unit;

use super::catalogue::Family;
use super::metric::{Counter, Gauge, Labels, Metric};

/// Jobs that were accepted, by tenant.
pub const SUBMITTED: Counter = Counter(Metric {
    name: "shellyard_tenant_jobs_submitted_total",
    help: "Jobs that were accepted, by tenant.",
    unit: Unit::Count,
    labels: Labels::Tenant,
});

/// Jobs that were not accepted, by tenant.
pub const REJECTED: Counter = Counter(Metric {
    name: "shellyard_tenant_jobs_rejected_total",
    help: "Jobs that were not accepted, by tenant.",
    unit: Unit::Count,
    labels: Labels::Tenant,
});

/// Jobs that ended, by tenant.
pub const FINISHED: Counter = Counter(Metric {
    name: "shellyard_tenant_jobs_finished_total",
    help: "Jobs that ended, by tenant.",
    unit: Unit::Count,
    labels: Labels::Tenant,
});

/// Bytes that jobs wrote until they ended, by tenant.
pub const OUTPUT: Counter = Counter(Metric {
    name: "shellyard_tenant_output_bytes_total",
    help: "Bytes that jobs wrote until they ended, by tenant.",
    unit: Unit::Bytes,
    labels: Labels::Tenant,
});

/// Jobs that run now, by tenant.
pub const RUNNING: Gauge = Gauge(Metric {
    name: "shellyard_tenant_jobs_running",
    help: "Jobs that run now, by tenant.",
    unit: Unit::Count,
    labels: Labels::Tenant,
});

/// Jobs that may run at one time, by tenant; 0 = no bound.
pub const RUNNING_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_tenant_jobs_running_limit",
    help: "Jobs that may run at one time, by tenant; 0 = no bound.",
    unit: Unit::Count,
    labels: Labels::Tenant,
});

/// Jobs that wait now, by tenant.
pub const QUEUED: Gauge = Gauge(Metric {
    name: "shellyard_tenant_jobs_queued",
    help: "Jobs that wait now, by tenant.",
    unit: Unit::Count,
    labels: Labels::Tenant,
});

/// Jobs that may wait, by tenant; 0 = no bound.
pub const QUEUED_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_tenant_jobs_queued_limit",
    help: "Jobs that may wait, by tenant; 0 = no bound.",
    unit: Unit::Count,
    labels: Labels::Tenant,
});

/// Output that is held, by tenant.
pub const STORED: Gauge = Gauge(Metric {
    name: "shellyard_tenant_stored_bytes",
    help: "Output that is held, by tenant.",
    unit: Unit::Bytes,
    labels: Labels::Tenant,
});

/// Output that may be held, by tenant; 0 = no bound.
pub const STORED_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_tenant_stored_limit_bytes",
    help: "Output that may be held, by tenant; 0 = no bound.",
    unit: Unit::Bytes,
    labels: Labels::Tenant,
});

/// CPU time of the last hour, by tenant.
pub const CPU: Gauge = Gauge(Metric {
    name: "shellyard_tenant_cpu_seconds",
    help: "CPU time of the last hour, by tenant.",
    unit: Unit::Seconds,
    labels: Labels::Tenant,
});

/// CPU time that may be used in an hour, by tenant; 0 = no bound.
pub const CPU_LIMIT: Gauge = Gauge(Metric {
    name: "shellyard_tenant_cpu_limit_seconds",
    help: "CPU time that may be used in an hour, by tenant; 0 = no bound.",
    unit: Unit::Seconds,
    labels: Labels::Tenant,
});

/// All of them.
pub(super) const FAMILY: Family = Family {
    title: "Tenants",
    counters: &[SUBMITTED, REJECTED, FINISHED, OUTPUT],
    gauges: &[RUNNING, RUNNING_LIMIT, QUEUED, QUEUED_LIMIT, STORED, STORED_LIMIT, CPU, CPU_LIMIT],
    histograms: &[],
};

//! The server as a process, and what it leaves on its host.

use metrics::Unit;

use super::catalogue::Family;
use super::metric::{Counter, Gauge, Labels, Metric, PLAIN};
use crate::telemetry::labels::{ARCHES, PROFILES, VERSIONS, key};

/// Stray processes of ended jobs that were reaped.
pub const ORPHANS: Counter = Counter(Metric {
    name: "shellyard_orphans_reaped_total",
    help: "Stray processes of ended jobs that were reaped.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Jobs whose out-of-memory score could not be raised above that of the server.
pub const OOM_SCORE_FAILURES: Counter = Counter(Metric {
    name: "shellyard_oom_score_failures_total",
    help: "Jobs whose out-of-memory score could not be raised above that of the server.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Processes that no job could be told to own, ended with the last job that could have.
pub const UNATTRIBUTED_ENDED: Counter = Counter(Metric {
    name: "shellyard_unattributed_processes_ended_total",
    help: "Processes that no job could be told to own, ended with the last job that could have.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Lines of the audit log that could not be written.
pub const AUDIT_FAILURES: Counter = Counter(Metric {
    name: "shellyard_audit_failures_total",
    help: "Lines of the audit log that could not be written.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Lines of the audit log that are not written yet.
pub const AUDIT_QUEUED: Gauge = Gauge(Metric {
    name: "shellyard_audit_queued_lines",
    help: "Lines of the audit log that wait in memory to be written.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Times that the guardian process had died and was started again.
pub const GUARDIAN_RESTARTS: Counter = Counter(Metric {
    name: "shellyard_guardian_restarts_total",
    help: "Times that the guardian process had died and was started again.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Log lines that were dropped because nobody read them.
pub const LOG_DROPPED: Counter = Counter(Metric {
    name: "shellyard_log_lines_dropped_total",
    help: "Log lines that were dropped because nobody read them.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// CPU time of the server, without its jobs.
pub const CPU: Counter = Counter(Metric {
    name: "process_cpu_seconds_total",
    help: "CPU time of the server, without its jobs.",
    unit: Unit::Seconds,
    labels: PLAIN,
});

/// Resident memory of the server, without its jobs.
pub const RESIDENT: Gauge = Gauge(Metric {
    name: "process_resident_memory_bytes",
    help: "Resident memory of the server, without its jobs.",
    unit: Unit::Bytes,
    labels: PLAIN,
});

/// Virtual memory of the server, without its jobs.
pub const VIRTUAL: Gauge = Gauge(Metric {
    name: "process_virtual_memory_bytes",
    help: "Virtual memory of the server, without its jobs.",
    unit: Unit::Bytes,
    labels: PLAIN,
});

/// Open file descriptors of the server.
pub const OPEN_FDS: Gauge = Gauge(Metric {
    name: "process_open_fds",
    help: "Open file descriptors of the server.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// File descriptors that the server may have open.
pub const MAX_FDS: Gauge = Gauge(Metric {
    name: "process_max_fds",
    help: "File descriptors that the server may have open.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// Threads of the server.
pub const THREADS: Gauge = Gauge(Metric {
    name: "process_threads",
    help: "Threads of the server.",
    unit: Unit::Count,
    labels: PLAIN,
});

/// When the server started, in seconds since 1970.
pub const START_TIME: Gauge = Gauge(Metric {
    name: "process_start_time_seconds",
    help: "When the server started, in seconds since 1970.",
    unit: Unit::Seconds,
    labels: PLAIN,
});

/// Always 1; the labels say which build runs.
pub const BUILD_INFO: Gauge = Gauge(Metric {
    name: "shellyard_build_info",
    help: "Always 1; the labels say which build runs.",
    unit: Unit::Count,
    labels: Labels::Closed(&[
        (key::VERSION, &VERSIONS),
        (key::ARCH, &ARCHES),
        (key::PROFILE, &PROFILES),
    ]),
});

/// All of them.
pub(super) const FAMILY: Family = Family {
    title: "The server as a process",
    counters: &[
        ORPHANS,
        OOM_SCORE_FAILURES,
        AUDIT_FAILURES,
        GUARDIAN_RESTARTS,
        LOG_DROPPED,
        CPU,
        UNATTRIBUTED_ENDED,
    ],
    gauges: &[RESIDENT, VIRTUAL, OPEN_FDS, MAX_FDS, THREADS, START_TIME, BUILD_INFO, AUDIT_QUEUED],
    histograms: &[],
};

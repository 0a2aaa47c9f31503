//! All metrics: their names, help texts, units and labels. No other file spells a metric name.
//!
//! Names are `shellyard_<noun>_<unit>[_total]`, in base units, except where a convention defines the
//! name: `process_*` as in all Prometheus clients, `mcp_server_*` as in OpenTelemetry. Every limit has
//! a metric beside it that measures its usage. Label values come from closed sets.
//!
//! `docs/metrics.md` is generated from this file.
#![expect(clippy::disallowed_macros, reason = "the one file that calls the macros of `metrics`")]

use metrics::Unit;

use crate::outcome::{JobFault, LimitKind, Outcome};
use crate::output::{DropReason, SpillOperation, Tier};
use crate::telemetry::labels::{
    ARCHES, ActorKind, ApprovalStep, CONFINEMENT_BACKENDS, CONFINEMENT_PROFILES, CallClass,
    ErrorType, FreedReason, GateLabel, HostResource, HttpRefusalReason, OTHER, PROFILES,
    RejectionReason, STREAMS, TOOL_CALL, Transport, VERSIONS, WaitReason, YES_OR_NO, key,
};

/// A label key and all its values.
pub type LabelSet = (&'static str, &'static [&'static str]);

/// A label key and a value.
pub(super) type LabelPair = (&'static str, &'static str);

/// The labels of a metric and the origin of their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricLabels {
    /// The values are words of the program; every combination is registered at the start.
    Closed(&'static [LabelSet]),
    /// `lane`: the name of a configured lane, or `other`.
    Lane,
    /// `tenant`: the name of a configured tenant, or `other`.
    Tenant,
    /// Method, class, tool and error of an MCP operation. Calls of unknown tools are registered at the
    /// start, all others with the first request.
    Operation,
    /// `transport`: registered with the first session.
    Session,
    /// `tool` and `result`: each tool whose report a summary recognises, passed or failed; registered
    /// with its first report.
    Report,
}

/// The description of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    pub name: &'static str,
    /// The help text for people.
    pub help: &'static str,
    pub kind: MetricKind,
    pub labels: MetricLabels,
}

impl Metric {
    /// Returns the unit, which the name ends with.
    #[must_use]
    pub fn unit(&self) -> Unit {
        let base = self.name.trim_end_matches("_total");
        if base.ends_with("_bytes") {
            Unit::Bytes
        } else if base.ends_with("_seconds") {
            Unit::Seconds
        } else {
            Unit::Count
        }
    }
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricKind {
    Counter,
    Gauge,
    /// Sorts values into buckets with these upper bounds.
    Histogram(&'static [f64]),
}

impl MetricKind {
    /// The name of the type in Prometheus.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// A metric that never goes down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counter(Metric);

/// A metric that goes up and down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gauge(Metric);

/// A metric that records a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Histogram(Metric);

impl Counter {
    #[must_use]
    pub const fn metric(&self) -> &Metric {
        &self.0
    }

    /// The series of a metric without labels.
    pub(super) fn unlabeled(&self) -> metrics::Counter {
        metrics::counter!(self.0.name)
    }

    /// The series with this label.
    pub(super) fn with_label(&self, label: LabelPair) -> metrics::Counter {
        metrics::counter!(self.0.name, &[label])
    }

    /// The series with these labels.
    pub(super) fn with_labels(&self, labels: &[LabelPair]) -> metrics::Counter {
        metrics::counter!(self.0.name, labels)
    }

    /// The series of one lane or tenant.
    pub(super) fn with_name(&self, key: &'static str, name: &str) -> metrics::Counter {
        metrics::counter!(self.0.name, key => name.to_owned())
    }
}

impl Gauge {
    #[must_use]
    pub const fn metric(&self) -> &Metric {
        &self.0
    }

    /// The series of a metric without labels.
    pub(super) fn unlabeled(&self) -> metrics::Gauge {
        metrics::gauge!(self.0.name)
    }

    /// The series with this label.
    pub(super) fn with_label(&self, label: LabelPair) -> metrics::Gauge {
        metrics::gauge!(self.0.name, &[label])
    }

    /// The series of one lane or tenant.
    pub(super) fn with_name(&self, key: &'static str, name: &str) -> metrics::Gauge {
        metrics::gauge!(self.0.name, key => name.to_owned())
    }

    /// Sets the series without labels to a count.
    pub(super) fn set_count(&self, count: usize) {
        self.unlabeled().set(count as f64);
    }

    /// Sets the series without labels to 1 or 0.
    pub(super) fn set_flag(&self, is_set: bool) {
        self.unlabeled().set(f64::from(u8::from(is_set)));
    }
}

impl Histogram {
    #[must_use]
    pub const fn metric(&self) -> &Metric {
        &self.0
    }

    /// The series of a metric without labels.
    pub(super) fn unlabeled(&self) -> metrics::Histogram {
        metrics::histogram!(self.0.name)
    }

    /// The series with these labels.
    pub(super) fn with_labels(&self, labels: &[LabelPair]) -> metrics::Histogram {
        metrics::histogram!(self.0.name, labels)
    }
}

/// Buckets in steps of 1, 2.5 and 5; coarser steps would make quantiles wrong.
const SECONDS: [f64; 25] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0,
    100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 25_000.0, 50_000.0, 100_000.0,
];

/// Buckets from 1 KiB to 64 GiB, in steps of 4.
const BYTES: [f64; 14] = [
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
    268_435_456.0,
    1_073_741_824.0,
    4_294_967_296.0,
    17_179_869_184.0,
    68_719_476_736.0,
];

/// The buckets that OpenTelemetry's conventions for MCP recommend.
const OPERATION_SECONDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

// The table of all metrics. The documentation of a row is the help text that Prometheus shows.

/// A group of metrics with a heading in `docs/metrics.md`.
#[derive(Debug, Clone, Copy)]
pub struct MetricFamily {
    pub title: &'static str,
    pub metrics: &'static [Metric],
}

/// All families, in the order of `docs/metrics.md`.
const FAMILIES: [MetricFamily; 10] = [
    jobs::FAMILY,
    queue::FAMILY,
    lanes::FAMILY,
    tenants::FAMILY,
    output::FAMILY,
    journal::FAMILY,
    mcp::FAMILY,
    http::FAMILY,
    actors::FAMILY,
    process::FAMILY,
];

pub fn catalogue() -> impl Iterator<Item = &'static Metric> {
    FAMILIES.iter().flat_map(|family| family.metrics)
}

/// Defines the module of a family. A row is
/// `TYPE CONSTANT = "name" [in BUCKETS] [per MetricLabels variant | by KEY: values, …];`. Its
/// documentation is the help text of the metric.
macro_rules! family {
    (
        $(#[$about:meta])*
        mod $module:ident = $title:literal;
        $(
            $(#[doc = $help:literal])+
            $type:ident $constant:ident = $name:literal
                $(in $buckets:ident)? $(per $source:ident)? $(by $($key:ident: $values:path),+)?;
        )+
    ) => {
        $(#[$about])*
        pub mod $module {
            use super::*;

            $(
                $(#[doc = $help])+
                pub const $constant: $type = $type(Metric {
                    name: $name,
                    help: concat!($($help),+).trim_ascii(),
                    kind: MetricKind::$type $((&$buckets))?,
                    labels: labels!($(per $source)? $(by $($key: $values),+)?),
                });
            )+

            pub(super) const FAMILY: MetricFamily =
                MetricFamily { title: $title, metrics: &[$(*$constant.metric()),+] };
        }
    };
}

macro_rules! labels {
    () => {
        MetricLabels::Closed(&[])
    };
    (per $source:ident) => {
        MetricLabels::$source
    };
    (by $($key:ident: $values:path),+) => {
        MetricLabels::Closed(&[$((key::$key, &$values)),+])
    };
}

family! {
    /// Metrics of jobs, from submission to end.
    mod jobs = "Jobs";

    /// Accepted jobs.
    Counter SUBMITTED = "shellyard_jobs_submitted_total";
    /// Accepted jobs, by the confinement (sandbox) that they get and whether it is weaker than
    /// requested.
    Counter CONFINED = "shellyard_jobs_confined_total"
        by PROFILE: CONFINEMENT_PROFILES, BACKEND: CONFINEMENT_BACKENDS, DEGRADED: YES_OR_NO;
    /// Rejected jobs, by reason.
    Counter REJECTED = "shellyard_jobs_rejected_total" by REASON: RejectionReason::WORDS;
    /// Steps of approvals: commands that a rule asks about, and the answers.
    Counter APPROVALS = "shellyard_approvals_total" by STEP: ApprovalStep::WORDS;
    /// 1 at the level at which the allow list is enforced for jobs of the server's user, else 0.
    Gauge EXEC_GATE_INFO = "shellyard_exec_gate_info" by LEVEL: GateLabel::WORDS;
    /// Starts of programs in jobs with an allow list that the exec gate judged.
    Counter STARTS_JUDGED = "shellyard_program_starts_judged_total";
    /// Starts of programs that the exec gate refused.
    Counter STARTS_REFUSED = "shellyard_program_starts_refused_total";
    /// Finished jobs, by outcome.
    Counter FINISHED = "shellyard_jobs_finished_total" by OUTCOME: Outcome::WORDS;
    /// Failed jobs, by cause: the command, a limit, or the server.
    Counter FAILED = "shellyard_jobs_failed_total" by FAULT: JobFault::WORDS;
    /// Jobs that one of their limits ended, by limit.
    Counter OVERRAN = "shellyard_jobs_overran_total" by LIMIT: LimitKind::WORDS;
    /// Reports of tools in the output of ended jobs, by tool and result; a job counts when its
    /// output is first summarised.
    Counter REPORTS = "shellyard_job_reports_total" per Report;
    /// Running jobs, including jobs that are being stopped.
    Gauge RUNNING = "shellyard_jobs_running";
    /// Running jobs that hold a slot.
    Gauge BUSY = "shellyard_jobs_busy";
    /// Running jobs that hold no slot, because they do not use the machine.
    Gauge IDLE = "shellyard_jobs_idle";
    /// Finished jobs of which processes still run.
    Gauge SURVIVING = "shellyard_jobs_surviving";
    /// Slots: the number of busy jobs at one time.
    Gauge RUNNING_LIMIT = "shellyard_jobs_running_limit";
    /// Jobs that are being stopped.
    Gauge STOPPING = "shellyard_jobs_stopping";
    /// Jobs in the queue.
    Gauge QUEUED = "shellyard_jobs_queued";
    /// Largest number of jobs in the queue.
    Gauge QUEUED_LIMIT = "shellyard_jobs_queued_limit";
    /// Finished jobs whose output can still be read.
    Gauge RETAINED = "shellyard_jobs_retained";
    /// Largest number of finished jobs that stay readable.
    Gauge RETAINED_LIMIT = "shellyard_jobs_retained_limit";
    /// Run time of jobs, from start to end.
    Histogram DURATION = "shellyard_job_duration_seconds" in SECONDS;
    /// Waiting time of jobs, from submission to start.
    Histogram QUEUE_WAIT = "shellyard_job_queue_wait_seconds" in SECONDS;
    /// CPU time of jobs, user and system.
    Histogram CPU = "shellyard_job_cpu_seconds" in SECONDS;
    /// Largest resident memory of one process of the job, if the kernel reports it.
    Histogram PEAK_MEMORY = "shellyard_job_peak_memory_bytes" in BYTES;
    /// Bytes that a job wrote to both streams.
    Histogram OUTPUT = "shellyard_job_output_bytes" in BYTES;
}

family! {
    /// Metrics of the whole queue.
    mod queue = "The whole queue";

    /// Fraction of the last 10 s in which tasks stalled (pressure, PSI), by resource.
    Gauge PRESSURE = "shellyard_pressure_ratio" by RESOURCE: HostResource::WORDS;
    /// Pressure from which on starts are held back, by resource; 0 = never.
    Gauge PRESSURE_LIMIT = "shellyard_pressure_limit_ratio" by RESOURCE: HostResource::WORDS;
    /// 1 while pressure holds starts back, else 0.
    Gauge STARTS_HELD = "shellyard_starts_held";
    /// 1 while the queue is paused, else 0.
    Gauge PAUSED = "shellyard_queue_paused";
    /// 1 while the server drains, that is, accepts no new jobs, else 0.
    Gauge DRAINING = "shellyard_draining";
    /// Jobs in the queue, by the reason why they wait.
    Gauge WAITING = "shellyard_jobs_waiting" by REASON: WaitReason::WORDS;
    /// Waiting time of the job that has waited longest; 0 = the queue is empty.
    Gauge OLDEST_AGE = "shellyard_queue_oldest_age_seconds";
    /// Estimated waiting time of a new job, from recent run times.
    Gauge WAIT_ESTIMATE = "shellyard_queue_wait_estimate_seconds";
}

family! {
    /// Metrics by lane. The names of lanes are configured.
    mod lanes = "Lanes of the queue";

    /// Running jobs, by lane.
    Gauge RUNNING = "shellyard_lane_jobs_running" per Lane;
    /// Jobs that may run at once, by lane; 0 = no limit of its own.
    Gauge RUNNING_LIMIT = "shellyard_lane_jobs_running_limit" per Lane;
    /// Jobs in the queue, by lane.
    Gauge QUEUED = "shellyard_lane_jobs_queued" per Lane;
    /// Largest number of jobs in the queue, by lane; 0 = no limit of its own.
    Gauge QUEUED_LIMIT = "shellyard_lane_jobs_queued_limit" per Lane;
    /// 1 while this lane is paused, else 0.
    Gauge PAUSED = "shellyard_lane_paused" per Lane;
}

family! {
    /// Metrics by tenant. Configured tenants have their own series; all others count as `other`.
    mod tenants = "Tenants";

    /// Accepted jobs, by tenant.
    Counter SUBMITTED = "shellyard_tenant_jobs_submitted_total" per Tenant;
    /// Rejected jobs, by tenant.
    Counter REJECTED = "shellyard_tenant_jobs_rejected_total" per Tenant;
    /// Finished jobs, by tenant.
    Counter FINISHED = "shellyard_tenant_jobs_finished_total" per Tenant;
    /// Bytes that finished jobs wrote, by tenant.
    Counter OUTPUT = "shellyard_tenant_output_bytes_total" per Tenant;
    /// Running jobs, by tenant.
    Gauge RUNNING = "shellyard_tenant_jobs_running" per Tenant;
    /// Jobs that may run at once, by tenant; 0 = no limit.
    Gauge RUNNING_LIMIT = "shellyard_tenant_jobs_running_limit" per Tenant;
    /// Jobs in the queue, by tenant.
    Gauge QUEUED = "shellyard_tenant_jobs_queued" per Tenant;
    /// Largest number of jobs in the queue, by tenant; 0 = no limit.
    Gauge QUEUED_LIMIT = "shellyard_tenant_jobs_queued_limit" per Tenant;
    /// Bytes of stored output, by tenant.
    Gauge STORED = "shellyard_tenant_stored_bytes" per Tenant;
    /// Limit on stored output, by tenant; 0 = no limit.
    Gauge STORED_LIMIT = "shellyard_tenant_stored_limit_bytes" per Tenant;
    /// CPU time that jobs used in the last hour, by tenant.
    Gauge CPU = "shellyard_tenant_cpu_seconds" per Tenant;
    /// Limit on CPU time per hour, by tenant; 0 = no limit.
    Gauge CPU_LIMIT = "shellyard_tenant_cpu_limit_seconds" per Tenant;
}

family! {
    /// Metrics of the output of jobs and its storage.
    mod output = "Output of jobs";

    /// Bytes that jobs wrote, by stream; `merged` is both streams in one pipe.
    Counter BYTES_WRITTEN = "shellyard_output_bytes_total" by STREAM: STREAMS;
    /// Bytes of output that could not be stored, by reason.
    Counter DROPPED = "shellyard_output_dropped_bytes_total" by REASON: DropReason::WORDS;
    /// Bytes of finished output that were compressed, counted before compression.
    Counter COMPRESSED = "shellyard_output_compressed_bytes_total";
    /// Failed operations on files that hold output, by operation.
    Counter SPILL_ERRORS = "shellyard_spill_errors_total" by OPERATION: SpillOperation::WORDS;
    /// Reads (queries, searches, digests, pages) that were refused because other reads use the memory
    /// for them.
    Counter READS_REFUSED = "shellyard_reads_refused_total";
    /// Finished jobs whose output was deleted, by reason.
    Counter FREED_JOBS = "shellyard_retention_freed_jobs_total" by REASON: FreedReason::WORDS;
    /// Bytes in memory and on disk that the deletion of finished jobs released.
    Counter FREED_BYTES = "shellyard_retention_freed_bytes_total";
    /// Bytes of stored output of all jobs, by tier.
    Gauge STORED = "shellyard_output_stored_bytes" by TIER: Tier::WORDS;
    /// Limit on stored output of all jobs, over all tiers.
    Gauge STORED_LIMIT = "shellyard_output_stored_limit_bytes";
    /// Memory that running reads (queries, searches, digests, pages) have reserved.
    Gauge READ_MEMORY = "shellyard_read_memory_bytes";
    /// Limit on the memory that reads (queries, searches, digests, pages) reserve together.
    Gauge READ_MEMORY_LIMIT = "shellyard_read_memory_limit_bytes";
    /// Free space on the disk of the data directory.
    Gauge DISK_FREE = "shellyard_data_disk_free_bytes";
    /// Size of the disk of the data directory.
    Gauge DISK_SIZE = "shellyard_data_disk_size_bytes";
    /// Bytes of stored output of finished jobs.
    Gauge RETAINED = "shellyard_retained_bytes";
    /// Limit on stored output of finished jobs; 0 = no limit of its own.
    Gauge RETAINED_LIMIT = "shellyard_retained_limit_bytes";
}

family! {
    /// Metrics of the journal, from which the next server goes on.
    mod journal = "Journal";

    /// Records that were written to the journal.
    Counter RECORDS = "shellyard_journal_records_total";
    /// Bytes of the records that were written to the journal.
    Counter BYTES = "shellyard_journal_bytes_total";
    /// Failed operations on files of the journal.
    Counter ERRORS = "shellyard_journal_errors_total";
    /// Records that were not written, and that are not kept in memory either.
    Counter LOST = "shellyard_journal_lost_records_total";
    /// 1 while the journal cannot be written, so that a crash of the server would lose jobs; else 0.
    Gauge DEGRADED = "shellyard_journal_degraded";
    /// Running jobs of a previous server that this server has taken over.
    Counter RESUMED = "shellyard_jobs_resumed_total";
}

family! {
    /// Metrics of MCP requests, with OpenTelemetry's names where it defines one.
    mod mcp = "MCP";

    /// MCP requests that are being answered, by class.
    Gauge IN_FLIGHT = "shellyard_mcp_operations_in_flight" by CLASS: CallClass::WORDS;
    /// Open MCP sessions, by transport; modern HTTP clients have none.
    Gauge SESSIONS = "shellyard_mcp_sessions" by TRANSPORT: Transport::WORDS;
    /// Largest number of open MCP sessions over HTTP.
    Gauge SESSIONS_LIMIT = "shellyard_mcp_sessions_limit";
    /// Open subscriptions of clients to the output of jobs.
    Gauge SUBSCRIPTIONS = "shellyard_mcp_subscriptions";
    /// Duration of MCP requests, by method and tool; `class` separates calls that wait for a job
    /// from all others.
    Histogram OPERATION = "mcp_server_operation_duration_seconds" in OPERATION_SECONDS per Operation;
    /// Duration of MCP sessions, by transport.
    Histogram SESSION = "mcp_server_session_duration_seconds" in OPERATION_SECONDS per Session;
}

family! {
    /// Metrics of HTTP connections and requests.
    mod http = "HTTP";

    /// Refused HTTP requests and connections, by reason.
    Counter REFUSED = "shellyard_http_refused_total" by REASON: HttpRefusalReason::WORDS;
    /// Open HTTP connections.
    Gauge CONNECTIONS = "shellyard_http_connections";
    /// Largest number of open HTTP connections.
    Gauge CONNECTIONS_LIMIT = "shellyard_http_connections_limit";
}

family! {
    /// Metrics of actors and their mailboxes.
    mod actors = "Actors and their mailboxes";

    /// Failures of actors, by kind; the jobs that they ran get the outcome `lost`.
    Counter FAILURES = "shellyard_actor_failures_total" by ACTOR: ActorKind::WORDS;
    /// Restarts of actors after a failure, by kind. Jobs are never restarted: no command runs twice.
    Counter RESTARTS = "shellyard_actor_restarts_total" by ACTOR: ActorKind::WORDS;
    /// Live actors, by kind.
    Gauge ALIVE = "shellyard_actors" by ACTOR: ActorKind::WORDS;
    /// Messages in mailboxes, by kind of actor.
    Gauge MAILBOX = "shellyard_actor_mailbox_messages" by ACTOR: ActorKind::WORDS;
}

family! {
    /// Metrics of the server process.
    mod process = "The server process";

    /// Entries of the audit log that could not be written.
    Counter AUDIT_FAILURES = "shellyard_audit_failures_total";
    /// Log lines that were dropped because nobody read stderr.
    Counter LOG_DROPPED = "shellyard_log_lines_dropped_total";
    /// CPU time of the server, without its jobs.
    Counter CPU = "process_cpu_seconds_total";
    /// Resident memory of the server, without its jobs.
    Gauge RESIDENT = "process_resident_memory_bytes";
    /// Virtual memory of the server, without its jobs.
    Gauge VIRTUAL = "process_virtual_memory_bytes";
    /// Open file descriptors of the server.
    Gauge OPEN_FDS = "process_open_fds";
    /// Limit on open file descriptors of the server.
    Gauge MAX_FDS = "process_max_fds";
    /// Threads of the server.
    Gauge THREADS = "process_threads";
    /// Start time of the server, in seconds since the Unix epoch.
    Gauge START_TIME = "process_start_time_seconds";
    /// Always 1; the labels describe the build.
    Gauge BUILD_INFO = "shellyard_build_info" by VERSION: VERSIONS, ARCH: ARCHES, PROFILE: PROFILES;
    /// Entries of the audit log that are queued in memory.
    Gauge AUDIT_QUEUED = "shellyard_audit_queued_lines";
}

/// Returns the labels of an operation. A successful one has no error label.
#[must_use]
pub(super) fn operation_labels(
    method: &'static str,
    tool: Option<&'static str>,
    error: Option<ErrorType>,
) -> Vec<LabelPair> {
    let tool_label = tool.map(|tool| (key::TOOL, tool));
    let error = error.map(|error| (key::ERROR, error.word()));
    let class = CallClass::classify(method, tool).word();
    [(key::METHOD, method), (key::CLASS, class)]
        .into_iter()
        .chain(tool_label)
        .chain(error)
        .collect()
}

/// Returns the labels of a tool's report.
pub(super) const fn report_labels(tool: &'static str, has_failures: bool) -> [LabelPair; 2] {
    let result = if has_failures { "failed" } else { "passed" };
    [(key::REPORTED_TOOL, tool), (key::RESULT, result)]
}

/// Returns the labels of the operations that are registered at the start: calls of unknown tools. Each
/// kind of error is among them, so that a sum over all operations or errors is zero, not absent.
pub(super) fn list_known_operations() -> impl Iterator<Item = Vec<LabelPair>> {
    list_operation_results(TOOL_CALL, Some(OTHER))
}

/// Returns the labels of an operation with each of its possible results.
pub(super) fn list_operation_results(
    method: &'static str,
    tool: Option<&'static str>,
) -> impl Iterator<Item = Vec<LabelPair>> {
    let results = [None, Some(ErrorType::Other), Some(ErrorType::Tool)];
    // Only a tool answers with an error of its own.
    let possible = if tool.is_some() { 3 } else { 2 };
    results.into_iter().take(possible).map(move |error| operation_labels(method, tool, error))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fmt::Write;
    use std::path::Path;

    use super::*;
    use crate::output::summary::tool_names;

    /// Prefixes of names that other conventions define.
    const STANDARD_PREFIXES: [&str; 2] = ["process_", "mcp_server_"];

    #[test]
    fn names_have_the_right_prefix_and_counters_end_in_total() {
        for metric in catalogue() {
            let name = metric.name;
            let is_standard = STANDARD_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            assert!(is_standard || name.starts_with("shellyard_"), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind == MetricKind::Counter, "{name}");
            assert!(metric.help.ends_with('.') && metric.help.len() < 130, "{name}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut seen = HashSet::new();
        for metric in catalogue() {
            assert!(seen.insert(metric.name), "{}", metric.name);
        }
    }

    #[test]
    fn buckets_are_ascending() {
        for metric in catalogue() {
            if let MetricKind::Histogram(buckets) = metric.kind {
                assert!(buckets.is_sorted_by(|a, b| a < b), "{metric:?}");
            }
        }
    }

    #[test]
    fn every_limit_has_a_metric_for_its_usage() {
        let names: HashSet<&str> = catalogue().map(|metric| metric.name).collect();
        for limit in names.iter().filter(|name| name.contains("_limit")) {
            let used = limit.replace("_limit", "");
            assert!(names.contains(&*used), "no metric measures the usage that {limit} bounds");
        }
    }

    const PAGE_HEAD: &str = "\
# Metrics

All metrics of `/metrics`, generated from `src/telemetry/names.rs`. Label values come from closed sets: words of the
program, listed here, or the names of configured lanes and tenants, at most 200 of each; all others count as `other`.
So the number of series is bounded, however many jobs run. Series exist from the start, at zero, so that a rate over them misses
no event. Three metrics are exceptions, since most of their series would stay at zero: the series of an MCP method or tool
appear with its first request, for each result at once; those of a transport with its first session; and those of a tool's
reports with its first report.

A *lane* is a named part of the queue with limits of its own. A *tenant* is an owner of jobs, named by the token of a client.
";

    fn page() -> String {
        let mut page = PAGE_HEAD.to_owned();
        for family in FAMILIES {
            write!(
                page,
                "\n## {}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n",
                family.title
            )
            .unwrap();
            for Metric { name, help, kind, labels } in family.metrics {
                writeln!(
                    page,
                    "| `{name}` | {} | {} | {help} |",
                    kind_cell(*kind),
                    labels_cell(*labels)
                )
                .unwrap();
            }
        }
        page
    }

    fn kind_cell(kind: MetricKind) -> String {
        match kind {
            MetricKind::Counter | MetricKind::Gauge => kind.word().to_owned(),
            MetricKind::Histogram(buckets) => {
                let [first, .., last] = buckets else { panic!("too few buckets") };
                format!("histogram, {} buckets from {first} to {last}", buckets.len())
            }
        }
    }

    fn labels_cell(labels: MetricLabels) -> String {
        match labels {
            MetricLabels::Closed(labels) => {
                let one = |(key, values): &(&str, &[&str])| match values {
                    [_] => format!("`{key}`"),
                    _ => format!("`{key}`: {}", values.join(", ")),
                };
                labels.iter().map(one).collect::<Vec<_>>().join("; ")
            }
            MetricLabels::Lane => "`lane`".to_owned(),
            MetricLabels::Tenant => "`tenant`".to_owned(),
            MetricLabels::Report => {
                format!("`tool`: {}; `result`: passed, failed", tool_names().join(", "))
            }
            MetricLabels::Session => format!("`transport`: {}", Transport::WORDS.join(", ")),
            MetricLabels::Operation => {
                "`mcp_method_name`, `gen_ai_tool_name`, `class`: run, long_poll, ordinary; \
                `error_type`: tool_error, _OTHER, absent on success"
                    .to_owned()
            }
        }
    }

    #[test]
    fn the_metrics_page_matches_the_catalogue() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let committed = std::fs::read_to_string(root.join("docs/metrics.md")).unwrap_or_default();
        let generated = page();
        if committed != generated {
            std::fs::create_dir_all(root.join("target")).unwrap();
            std::fs::write(root.join("target/metrics.md"), generated).unwrap();
            panic!("docs/metrics.md is out of date: cp target/metrics.md docs/metrics.md");
        }
    }
}

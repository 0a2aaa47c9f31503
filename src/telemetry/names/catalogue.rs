//! The table of all metrics: each row's documentation is the help that Prometheus shows.

use super::metric::{
    BYTES, Counter, Gauge, Histogram, LabelPair, Metric, MetricKind, MetricLabels,
    OPERATION_SECONDS, SECONDS,
};
use crate::outcome::{JobFault, LimitKind, Outcome};
use crate::output::{DropReason, SpillOperation, Tier};
use crate::telemetry::labels::{
    ARCHES, ActorKind, ApprovalStep, CONFINEMENT_BACKENDS, CONFINEMENT_PROFILES, CallClass,
    ErrorType, FreedReason, HostResource, HttpRefusalReason, METHODS, OTHER, PROFILES,
    RejectionReason, STREAMS, TOOL_CALL, Transport, VERSIONS, WaitReason, YES_OR_NO, key,
};

/// Metrics that belong together.
#[derive(Debug, Clone, Copy)]
pub struct MetricFamily {
    /// The heading above them in `docs/metrics.md`.
    pub title: &'static str,
    /// The metrics, in the order of the page.
    pub metrics: &'static [Metric],
}

/// Every family, in the order of the page.
pub(super) const FAMILIES: [MetricFamily; 9] = [
    jobs::FAMILY,
    queue::FAMILY,
    lanes::FAMILY,
    tenants::FAMILY,
    output::FAMILY,
    mcp::FAMILY,
    http::FAMILY,
    actors::FAMILY,
    process::FAMILY,
];

/// Every metric.
pub fn catalogue() -> impl Iterator<Item = &'static Metric> {
    FAMILIES.iter().flat_map(|family| family.metrics)
}

/// Defines the module of a family. A row is
/// `TYPE CONSTANT = "name" [in BUCKETS] [per MetricLabels variant | by KEY: values, …];`.
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

            pub(in super::super) const FAMILY: MetricFamily =
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
    /// Jobs, from their submission to their end.
    mod jobs = "Jobs";

    /// Jobs that were accepted.
    Counter SUBMITTED = "shellyard_jobs_submitted_total";
    /// Jobs that were accepted, by the confinement that they get, and whether that is less than
    /// was asked for.
    Counter CONFINED = "shellyard_jobs_confined_total"
        by PROFILE: CONFINEMENT_PROFILES, BACKEND: CONFINEMENT_BACKENDS, DEGRADED: YES_OR_NO;
    /// Jobs that were not accepted, by reason.
    Counter REJECTED = "shellyard_jobs_rejected_total" by REASON: RejectionReason::WORDS;
    /// Commands that somebody must agree to, by how far they came: asked, and what was said.
    Counter APPROVALS = "shellyard_approvals_total" by STEP: ApprovalStep::WORDS;
    /// Jobs that ended, by outcome.
    Counter FINISHED = "shellyard_jobs_finished_total" by OUTCOME: Outcome::WORDS;
    /// Jobs that did not end well, by whose fault: the command's, a limit's, or the server's.
    Counter FAILED = "shellyard_jobs_failed_total" by FAULT: JobFault::WORDS;
    /// Jobs that were ended by one of their limits, by limit.
    Counter OVERRAN = "shellyard_jobs_overran_total" by LIMIT: LimitKind::WORDS;
    /// Jobs that run now, those that are being stopped included.
    Gauge RUNNING = "shellyard_jobs_running";
    /// Slots: jobs that may run at one time.
    Gauge RUNNING_LIMIT = "shellyard_jobs_running_limit";
    /// Jobs whose processes are being ended now.
    Gauge STOPPING = "shellyard_jobs_stopping";
    /// Jobs that wait for a slot now.
    Gauge QUEUED = "shellyard_jobs_queued";
    /// Jobs that may wait for a slot.
    Gauge QUEUED_LIMIT = "shellyard_jobs_queued_limit";
    /// Finished jobs that can be read now.
    Gauge RETAINED = "shellyard_jobs_retained";
    /// Finished jobs that stay readable.
    Gauge RETAINED_LIMIT = "shellyard_jobs_retained_limit";
    /// How long jobs ran, from start to end.
    Histogram DURATION = "shellyard_job_duration_seconds" in SECONDS;
    /// How long jobs waited for a slot, from submit to start.
    Histogram QUEUE_WAIT = "shellyard_job_queue_wait_seconds" in SECONDS;
    /// CPU time that jobs used, user and system.
    Histogram CPU = "shellyard_job_cpu_seconds" in SECONDS;
    /// Largest resident memory of a process of the job, where the kernel tells it.
    Histogram PEAK_MEMORY = "shellyard_job_peak_memory_bytes" in BYTES;
    /// Bytes that jobs wrote to both streams until they ended.
    Histogram OUTPUT = "shellyard_job_output_bytes" in BYTES;
}

family! {
    /// The queue as a whole: who waits and why, and what holds it back.
    mod queue = "The queue as a whole";

    /// Share of the last 10 s that the system stalled (PSI), by resource.
    Gauge PRESSURE = "shellyard_pressure_ratio" by RESOURCE: HostResource::WORDS;
    /// From this share on starts are held back; 0 = never.
    Gauge PRESSURE_LIMIT = "shellyard_pressure_limit_ratio" by RESOURCE: HostResource::WORDS;
    /// 1 while pressure holds starts back, else 0.
    Gauge STARTS_HELD = "shellyard_starts_held";
    /// 1 while the queue is paused, else 0.
    Gauge PAUSED = "shellyard_queue_paused";
    /// 1 while no new jobs are taken, else 0.
    Gauge DRAINING = "shellyard_draining";
    /// Jobs that wait now, by what they wait for.
    Gauge WAITING = "shellyard_jobs_waiting" by REASON: WaitReason::WORDS;
    /// How long the job that waits longest has waited; 0 = none waits.
    Gauge OLDEST_AGE = "shellyard_queue_oldest_age_seconds";
    /// How long a new job would wait, by recent durations.
    Gauge WAIT_ESTIMATE = "shellyard_queue_wait_estimate_seconds";
}

family! {
    /// Lanes of the queue. Their names are configured.
    mod lanes = "Lanes of the queue";

    /// Jobs that run now, by lane.
    Gauge RUNNING = "shellyard_lane_jobs_running" per Lane;
    /// Jobs that may run at one time, by lane; 0 = no own bound.
    Gauge RUNNING_LIMIT = "shellyard_lane_jobs_running_limit" per Lane;
    /// Jobs that wait now, by lane.
    Gauge QUEUED = "shellyard_lane_jobs_queued" per Lane;
    /// Jobs that may wait, by lane; 0 = no own bound.
    Gauge QUEUED_LIMIT = "shellyard_lane_jobs_queued_limit" per Lane;
    /// 1 while the lane is paused by itself, else 0.
    Gauge PAUSED = "shellyard_lane_paused" per Lane;
}

family! {
    /// Tenants. Those that are configured have series of their own; all others count as `other`.
    mod tenants = "Tenants";

    /// Jobs that were accepted, by tenant.
    Counter SUBMITTED = "shellyard_tenant_jobs_submitted_total" per Tenant;
    /// Jobs that were not accepted, by tenant.
    Counter REJECTED = "shellyard_tenant_jobs_rejected_total" per Tenant;
    /// Jobs that ended, by tenant.
    Counter FINISHED = "shellyard_tenant_jobs_finished_total" per Tenant;
    /// Bytes that jobs wrote until they ended, by tenant.
    Counter OUTPUT = "shellyard_tenant_output_bytes_total" per Tenant;
    /// Jobs that run now, by tenant.
    Gauge RUNNING = "shellyard_tenant_jobs_running" per Tenant;
    /// Jobs that may run at one time, by tenant; 0 = no bound.
    Gauge RUNNING_LIMIT = "shellyard_tenant_jobs_running_limit" per Tenant;
    /// Jobs that wait now, by tenant.
    Gauge QUEUED = "shellyard_tenant_jobs_queued" per Tenant;
    /// Jobs that may wait, by tenant; 0 = no bound.
    Gauge QUEUED_LIMIT = "shellyard_tenant_jobs_queued_limit" per Tenant;
    /// Output that is held, by tenant.
    Gauge STORED = "shellyard_tenant_stored_bytes" per Tenant;
    /// Output that may be held, by tenant; 0 = no bound.
    Gauge STORED_LIMIT = "shellyard_tenant_stored_limit_bytes" per Tenant;
    /// CPU time of the last hour, by tenant.
    Gauge CPU = "shellyard_tenant_cpu_seconds" per Tenant;
    /// CPU time that may be used in an hour, by tenant; 0 = no bound.
    Gauge CPU_LIMIT = "shellyard_tenant_cpu_limit_seconds" per Tenant;
}

family! {
    /// What jobs write, and what becomes of it.
    mod output = "What jobs write";

    /// Bytes that jobs wrote, by stream.
    Counter BYTES_WRITTEN = "shellyard_output_bytes_total" by STREAM: STREAMS;
    /// Bytes that could not be kept, by reason.
    Counter DROPPED = "shellyard_output_dropped_bytes_total" by REASON: DropReason::WORDS;
    /// Bytes of finished logs that were compressed, as they were before.
    Counter COMPRESSED = "shellyard_output_compressed_bytes_total";
    /// Failed operations on files that hold output, by operation.
    Counter SPILL_ERRORS = "shellyard_spill_errors_total" by OPERATION: SpillOperation::WORDS;
    /// Queries, searches, digests and pages that were refused because others had all memory for
    /// them.
    Counter READS_REFUSED = "shellyard_reads_refused_total";
    /// Finished jobs that were freed, by reason.
    Counter FREED_JOBS = "shellyard_retention_freed_jobs_total" by REASON: FreedReason::WORDS;
    /// Bytes in memory and on disk that freed jobs had taken.
    Counter FREED_BYTES = "shellyard_retention_freed_bytes_total";
    /// Output that is held for all jobs, by where it is.
    Gauge STORED = "shellyard_output_stored_bytes" by TIER: Tier::WORDS;
    /// Output that may be held for all jobs, wherever it is.
    Gauge STORED_LIMIT = "shellyard_output_stored_limit_bytes";
    /// Memory that is reserved for queries, searches, digests and pages which are being made now.
    Gauge READ_MEMORY = "shellyard_read_memory_bytes";
    /// Memory that may be reserved for queries, searches, digests and pages at one time.
    Gauge READ_MEMORY_LIMIT = "shellyard_read_memory_limit_bytes";
    /// Room that is left on the disk of the data directory.
    Gauge DISK_FREE = "shellyard_data_disk_free_bytes";
    /// Size of the disk of the data directory.
    Gauge DISK_SIZE = "shellyard_data_disk_size_bytes";
    /// Output of finished jobs that can be read now.
    Gauge RETAINED = "shellyard_retained_bytes";
    /// Output of finished jobs that may be kept; 0 = no bound of its own.
    Gauge RETAINED_LIMIT = "shellyard_retained_limit_bytes";
}

family! {
    /// What MCP clients ask for, under the names that OpenTelemetry has for it where it has one.
    mod mcp = "MCP";

    /// MCP operations that are being answered now, by class.
    Gauge IN_FLIGHT = "shellyard_mcp_operations_in_flight" by CLASS: CallClass::WORDS;
    /// MCP sessions that are open now, by transport; modern HTTP clients have none.
    Gauge SESSIONS = "shellyard_mcp_sessions" by TRANSPORT: Transport::WORDS;
    /// MCP sessions that may be open over HTTP at one time.
    Gauge SESSIONS_LIMIT = "shellyard_mcp_sessions_limit";
    /// Outputs that clients follow now, by subscription.
    Gauge SUBSCRIPTIONS = "shellyard_mcp_subscriptions";
    /// How long MCP operations took, by method and tool; class tells calls that wait
    /// for a job from those that do not.
    Histogram OPERATION = "mcp_server_operation_duration_seconds" in OPERATION_SECONDS per Operation;
    /// How long MCP sessions lasted, by transport.
    Histogram SESSION = "mcp_server_session_duration_seconds" in OPERATION_SECONDS
        by TRANSPORT: Transport::WORDS;
}

family! {
    /// HTTP connections and requests.
    mod http = "The HTTP door";

    /// HTTP requests and connections turned away, by reason.
    Counter REFUSED = "shellyard_http_refused_total" by REASON: HttpRefusalReason::WORDS;
    /// HTTP connections that are open now.
    Gauge CONNECTIONS = "shellyard_http_connections";
    /// HTTP connections that may be open at one time.
    Gauge CONNECTIONS_LIMIT = "shellyard_http_connections_limit";
}

family! {
    /// Actors and their mailboxes.
    mod actors = "Actors and their mailboxes";

    /// Actors that failed; what they ran reads as lost.
    Counter FAILURES = "shellyard_actor_failures_total" by ACTOR: ActorKind::WORDS;
    /// Actors that were started again after a failure. Jobs never are: nothing runs twice.
    Counter RESTARTS = "shellyard_actor_restarts_total" by ACTOR: ActorKind::WORDS;
    /// Actors that are alive now, by class.
    Gauge ALIVE = "shellyard_actors" by ACTOR: ActorKind::WORDS;
    /// Messages that wait in mailboxes now, by class of actor.
    Gauge MAILBOX = "shellyard_actor_mailbox_messages" by ACTOR: ActorKind::WORDS;
}

family! {
    /// The server as a process, and what it leaves on its host.
    mod process = "The server as a process";

    /// Stray processes of ended jobs that were reaped.
    Counter ORPHANS = "shellyard_orphans_reaped_total";
    /// Jobs whose out-of-memory score could not be raised above that of the server.
    Counter OOM_SCORE_FAILURES = "shellyard_oom_score_failures_total";
    /// Lines of the audit log that could not be written.
    Counter AUDIT_FAILURES = "shellyard_audit_failures_total";
    /// Times that the guardian process had died and was started again.
    Counter GUARDIAN_RESTARTS = "shellyard_guardian_restarts_total";
    /// Log lines that were dropped because nobody read them.
    Counter LOG_DROPPED = "shellyard_log_lines_dropped_total";
    /// CPU time of the server, without its jobs.
    Counter CPU = "process_cpu_seconds_total";
    /// Processes that no job could be told to own, ended with the last job that could have.
    Counter UNATTRIBUTED_ENDED = "shellyard_unattributed_processes_ended_total";
    /// Resident memory of the server, without its jobs.
    Gauge RESIDENT = "process_resident_memory_bytes";
    /// Virtual memory of the server, without its jobs.
    Gauge VIRTUAL = "process_virtual_memory_bytes";
    /// Open file descriptors of the server.
    Gauge OPEN_FDS = "process_open_fds";
    /// File descriptors that the server may have open.
    Gauge MAX_FDS = "process_max_fds";
    /// Threads of the server.
    Gauge THREADS = "process_threads";
    /// When the server started, in seconds since 1970.
    Gauge START_TIME = "process_start_time_seconds";
    /// Always 1; the labels say which build runs.
    Gauge BUILD_INFO = "shellyard_build_info" by VERSION: VERSIONS, ARCH: ARCHES, PROFILE: PROFILES;
    /// Lines of the audit log that wait in memory to be written.
    Gauge AUDIT_QUEUED = "shellyard_audit_queued_lines";
}

/// The labels of an operation. A success has no error.
#[must_use]
pub(in crate::telemetry) fn operation_labels(
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

/// The labels of every operation that there can be, whichever tools are offered.
pub(in crate::telemetry) fn known_operations() -> impl Iterator<Item = Vec<LabelPair>> {
    let of_methods = METHODS.into_iter().filter(|method| *method != TOOL_CALL).flat_map(|method| {
        [None, Some(ErrorType::Other)].map(|error| operation_labels(method, None, error))
    });
    of_methods.chain(tool_operations([OTHER].into_iter()))
}

/// The labels of every call that there can be of these tools.
pub(in crate::telemetry) fn tool_operations(
    tools: impl Iterator<Item = &'static str>,
) -> impl Iterator<Item = Vec<LabelPair>> {
    tools.flat_map(|tool| {
        [None, Some(ErrorType::Tool), Some(ErrorType::Other)]
            .map(|error| operation_labels(TOOL_CALL, Some(tool), error))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fmt::Write;
    use std::path::Path;

    use super::*;

    /// Names that are not ours.
    const FOREIGN: [&str; 2] = ["process_", "mcp_server_"];

    #[test]
    fn names_have_the_prefix_and_total_where_it_belongs() {
        for metric in catalogue() {
            let name = metric.name;
            let is_foreign = FOREIGN.iter().any(|prefix| name.starts_with(prefix));
            assert!(is_foreign || name.starts_with("shellyard_"), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind == MetricKind::Counter, "{name}");
            assert!(metric.help.ends_with('.') && metric.help.len() < 130, "{name}");
        }
    }

    #[test]
    fn no_name_is_there_twice() {
        let mut seen = HashSet::new();
        for metric in catalogue() {
            assert!(seen.insert(metric.name), "{}", metric.name);
        }
    }

    #[test]
    fn buckets_rise() {
        for metric in catalogue() {
            if let MetricKind::Histogram(buckets) = metric.kind {
                assert!(buckets.is_sorted_by(|a, b| a < b), "{metric:?}");
            }
        }
    }

    #[test]
    fn every_limit_stands_beside_its_use() {
        let names: HashSet<&str> = catalogue().map(|metric| metric.name).collect();
        for limit in names.iter().filter(|name| name.contains("_limit")) {
            let used = limit.replace("_limit", "");
            assert!(names.contains(&*used), "{limit} bounds nothing that is measured");
        }
    }

    const HEAD: &str = "\
# Metrics

Everything that `/metrics` tells, made from `src/telemetry/names/`. Label values come from closed sets: words of the
program, listed here, or names of configured lanes and tenants, 200 of each at the most, with everybody else as `other`.
However many jobs run, no further series appear. All series are there from the start, at zero.
";

    fn page() -> String {
        let mut page = HEAD.to_owned();
        for family in FAMILIES {
            write!(
                page,
                "\n## {}\n\n| metric | type | labels | tells |\n|---|---|---|---|\n",
                family.title
            )
            .unwrap();
            for Metric { name, help, kind, labels } in family.metrics {
                writeln!(
                    page,
                    "| `{name}` | {} | {} | {help} |",
                    kind_of(*kind),
                    labels_of(*labels)
                )
                .unwrap();
            }
        }
        page
    }

    fn kind_of(kind: MetricKind) -> String {
        match kind {
            MetricKind::Counter | MetricKind::Gauge => kind.word().to_owned(),
            MetricKind::Histogram(buckets) => {
                let [first, .., last] = buckets else { panic!("too few buckets") };
                format!("histogram, {} buckets from {first} to {last}", buckets.len())
            }
        }
    }

    fn labels_of(labels: MetricLabels) -> String {
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
            MetricLabels::Operation => {
                "`mcp_method_name`, `gen_ai_tool_name`, `class`: run, long_poll, ordinary; \
                `error_type`: tool_error, _OTHER, absent on success"
                    .to_owned()
            }
        }
    }

    #[test]
    fn the_page_is_what_the_names_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let kept = std::fs::read_to_string(root.join("docs/metrics.md")).unwrap_or_default();
        let made = page();
        if kept != made {
            std::fs::create_dir_all(root.join("target")).unwrap();
            std::fs::write(root.join("target/metrics.md"), made).unwrap();
            panic!("docs/metrics.md is out of date: cp target/metrics.md docs/metrics.md");
        }
    }
}

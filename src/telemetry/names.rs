//! Every metric: `shellyard_<noun>_<unit>[_total]`, base units, labels from closed sets.

use metrics::Unit;

use super::labels::{
    CallResult, DropReason, FreedReason, Refusal, Rejection, STREAMS, TOOLS, VERSIONS, key,
};
use crate::outcome::Outcome;

/// A label and every value that it can have.
pub type LabelSet = (&'static str, &'static [&'static str]);

/// Things that are counted and never go down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// Jobs accepted.
    JobsSubmitted,
    /// Jobs turned away.
    JobsRejected,
    /// Jobs that ended.
    JobsFinished,
    /// Bytes that jobs wrote.
    OutputBytes,
    /// Bytes that jobs wrote and that could not be kept.
    OutputDroppedBytes,
    /// Bytes that were compressed, as they were before.
    OutputCompressedBytes,
    /// Finished jobs that were freed.
    RetentionFreedJobs,
    /// What they took in memory and on disk.
    RetentionFreedBytes,
    /// Stray processes of ended jobs that were reaped.
    OrphansReaped,
    /// Actors that failed.
    ActorFailures,
    /// Lines of the audit log that could not be written.
    AuditFailures,
    /// Tool calls answered.
    McpCalls,
    /// HTTP requests and connections turned away.
    HttpRefused,
}

impl Counter {
    /// Every counter.
    pub const ALL: [Self; 13] = [
        Self::JobsSubmitted,
        Self::JobsRejected,
        Self::JobsFinished,
        Self::OutputBytes,
        Self::OutputDroppedBytes,
        Self::OutputCompressedBytes,
        Self::RetentionFreedJobs,
        Self::RetentionFreedBytes,
        Self::OrphansReaped,
        Self::ActorFailures,
        Self::AuditFailures,
        Self::McpCalls,
        Self::HttpRefused,
    ];

    /// The name in Prometheus.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JobsSubmitted => "shellyard_jobs_submitted_total",
            Self::JobsRejected => "shellyard_jobs_rejected_total",
            Self::JobsFinished => "shellyard_jobs_finished_total",
            Self::OutputBytes => "shellyard_output_bytes_total",
            Self::OutputDroppedBytes => "shellyard_output_dropped_bytes_total",
            Self::OutputCompressedBytes => "shellyard_output_compressed_bytes_total",
            Self::RetentionFreedJobs => "shellyard_retention_freed_jobs_total",
            Self::RetentionFreedBytes => "shellyard_retention_freed_bytes_total",
            Self::OrphansReaped => "shellyard_orphans_reaped_total",
            Self::ActorFailures => "shellyard_actor_failures_total",
            Self::AuditFailures => "shellyard_audit_failures_total",
            Self::McpCalls => "shellyard_mcp_calls_total",
            Self::HttpRefused => "shellyard_http_refused_total",
        }
    }

    /// One sentence for people.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            Self::JobsSubmitted => "Jobs that were accepted.",
            Self::JobsRejected => "Jobs that were not accepted, by reason.",
            Self::JobsFinished => "Jobs that ended, by outcome.",
            Self::OutputBytes => "Bytes that jobs wrote, by stream.",
            Self::OutputDroppedBytes => "Bytes that could not be kept, by reason.",
            Self::OutputCompressedBytes => "Bytes of finished logs that are now stored compressed.",
            Self::RetentionFreedJobs => "Finished jobs that were freed, by reason.",
            Self::RetentionFreedBytes => "Bytes in memory and on disk that freed jobs had taken.",
            Self::OrphansReaped => "Stray processes of ended jobs that were reaped.",
            Self::ActorFailures => "Actors that failed; their jobs read as lost.",
            Self::AuditFailures => "Lines of the audit log that could not be written.",
            Self::McpCalls => "Tool calls that were answered, by tool and result.",
            Self::HttpRefused => "HTTP requests and connections turned away, by reason.",
        }
    }

    /// What is counted.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::OutputBytes
            | Self::OutputDroppedBytes
            | Self::OutputCompressedBytes
            | Self::RetentionFreedBytes => Unit::Bytes,
            Self::JobsSubmitted
            | Self::JobsRejected
            | Self::JobsFinished
            | Self::RetentionFreedJobs
            | Self::OrphansReaped
            | Self::ActorFailures
            | Self::AuditFailures
            | Self::McpCalls
            | Self::HttpRefused => Unit::Count,
        }
    }

    /// Its labels, each with all of its values.
    #[must_use]
    pub const fn labels(self) -> &'static [LabelSet] {
        match self {
            Self::JobsRejected => &[(key::REASON, &Rejection::WORDS)],
            Self::JobsFinished => &[(key::OUTCOME, &Outcome::WORDS)],
            Self::OutputBytes => &[(key::STREAM, &STREAMS)],
            Self::OutputDroppedBytes => &[(key::REASON, &DropReason::WORDS)],
            Self::McpCalls => &[(key::TOOL, &TOOLS), (key::RESULT, &CallResult::WORDS)],
            Self::HttpRefused => &[(key::REASON, &Refusal::WORDS)],
            Self::RetentionFreedJobs => &[(key::REASON, &FreedReason::WORDS)],
            Self::JobsSubmitted
            | Self::OutputCompressedBytes
            | Self::RetentionFreedBytes
            | Self::OrphansReaped
            | Self::ActorFailures
            | Self::AuditFailures => &[],
        }
    }
}

/// Things that go up and down. Every bound stands beside its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gauge {
    /// Jobs that run.
    JobsRunning,
    /// Jobs that may run at one time.
    JobsRunningLimit,
    /// Jobs that wait.
    JobsQueued,
    /// Jobs that may wait.
    JobsQueuedLimit,
    /// Finished jobs that can be read.
    JobsRetained,
    /// Finished jobs that stay readable.
    JobsRetainedLimit,
    /// Output that is held for all jobs.
    OutputStoredBytes,
    /// Outputs that clients follow.
    McpSubscriptions,
    /// Output that may be held for all jobs.
    OutputStoredLimitBytes,
    /// Open HTTP connections.
    HttpConnections,
    /// HTTP connections that may be open.
    HttpConnectionsLimit,
    /// When the process started.
    StartTime,
    /// Memory of the process.
    ResidentMemory,
    /// Open file descriptors of the process.
    OpenFds,
    /// The version that runs.
    BuildInfo,
}

impl Gauge {
    /// Every gauge.
    pub const ALL: [Self; 15] = [
        Self::JobsRunning,
        Self::JobsRunningLimit,
        Self::JobsQueued,
        Self::JobsQueuedLimit,
        Self::JobsRetained,
        Self::JobsRetainedLimit,
        Self::OutputStoredBytes,
        Self::McpSubscriptions,
        Self::OutputStoredLimitBytes,
        Self::HttpConnections,
        Self::HttpConnectionsLimit,
        Self::StartTime,
        Self::ResidentMemory,
        Self::OpenFds,
        Self::BuildInfo,
    ];

    /// The name in Prometheus.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JobsRunning => "shellyard_jobs_running",
            Self::JobsRunningLimit => "shellyard_jobs_running_limit",
            Self::JobsQueued => "shellyard_jobs_queued",
            Self::JobsQueuedLimit => "shellyard_jobs_queued_limit",
            Self::JobsRetained => "shellyard_jobs_retained",
            Self::JobsRetainedLimit => "shellyard_jobs_retained_limit",
            Self::OutputStoredBytes => "shellyard_output_stored_bytes",
            Self::McpSubscriptions => "shellyard_mcp_subscriptions",
            Self::OutputStoredLimitBytes => "shellyard_output_stored_limit_bytes",
            Self::HttpConnections => "shellyard_http_connections",
            Self::HttpConnectionsLimit => "shellyard_http_connections_limit",
            Self::StartTime => "shellyard_start_time_seconds",
            Self::ResidentMemory => "shellyard_resident_memory_bytes",
            Self::OpenFds => "shellyard_open_fds",
            Self::BuildInfo => "shellyard_build_info",
        }
    }

    /// One sentence for people.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            Self::JobsRunning => "Jobs that run now.",
            Self::JobsRunningLimit => "Slots: jobs that may run at one time.",
            Self::JobsQueued => "Jobs that wait for a slot now.",
            Self::JobsQueuedLimit => "Jobs that may wait for a slot.",
            Self::JobsRetained => "Finished jobs that can be read now.",
            Self::JobsRetainedLimit => "Finished jobs that stay readable.",
            Self::OutputStoredBytes => "Output that is held for all jobs, in memory and on disk.",
            Self::McpSubscriptions => "Outputs that clients follow now, by subscription.",
            Self::OutputStoredLimitBytes => "Output that may be held for all jobs.",
            Self::HttpConnections => "HTTP connections that are open now.",
            Self::HttpConnectionsLimit => "HTTP connections that may be open at one time.",
            Self::StartTime => "When the server started, in seconds since 1970.",
            Self::ResidentMemory => "Resident memory of the server, without its jobs.",
            Self::OpenFds => "Open file descriptors of the server.",
            Self::BuildInfo => "Always 1; the label says which version runs.",
        }
    }

    /// What is measured.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::OutputStoredBytes | Self::OutputStoredLimitBytes | Self::ResidentMemory => {
                Unit::Bytes
            }
            Self::StartTime => Unit::Seconds,
            Self::JobsRunning
            | Self::JobsRunningLimit
            | Self::JobsQueued
            | Self::JobsQueuedLimit
            | Self::JobsRetained
            | Self::JobsRetainedLimit
            | Self::McpSubscriptions
            | Self::HttpConnections
            | Self::HttpConnectionsLimit
            | Self::OpenFds
            | Self::BuildInfo => Unit::Count,
        }
    }

    /// Its labels, each with all of its values.
    #[must_use]
    pub const fn labels(self) -> &'static [LabelSet] {
        match self {
            Self::BuildInfo => &[(key::VERSION, &VERSIONS)],
            Self::JobsRunning
            | Self::JobsRunningLimit
            | Self::JobsQueued
            | Self::JobsQueuedLimit
            | Self::JobsRetained
            | Self::JobsRetainedLimit
            | Self::OutputStoredBytes
            | Self::McpSubscriptions
            | Self::OutputStoredLimitBytes
            | Self::HttpConnections
            | Self::HttpConnectionsLimit
            | Self::StartTime
            | Self::ResidentMemory
            | Self::OpenFds => &[],
        }
    }
}

/// How long things take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Histogram {
    /// From start to end of a job.
    JobDuration,
    /// From submit to start of a job.
    JobQueueWait,
    /// From call to answer.
    McpCallDuration,
}

/// Steps of 1, 2.5 and 5: coarser ones make quantiles lie.
const LADDER: [f64; 25] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0,
    100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 25_000.0, 50_000.0, 100_000.0,
];

/// The ladder up to 1,000 seconds, beyond the longest that a call may block by default.
const CALL_LADDER: &[f64] = LADDER.split_at(19).0;

impl Histogram {
    /// Every histogram.
    pub const ALL: [Self; 3] = [Self::JobDuration, Self::JobQueueWait, Self::McpCallDuration];

    /// The name in Prometheus.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JobDuration => "shellyard_job_duration_seconds",
            Self::JobQueueWait => "shellyard_job_queue_wait_seconds",
            Self::McpCallDuration => "shellyard_mcp_call_duration_seconds",
        }
    }

    /// One sentence for people.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            Self::JobDuration => "How long jobs ran, from start to end.",
            Self::JobQueueWait => "How long jobs waited for a slot, from submit to start.",
            Self::McpCallDuration => "How long tool calls took, waits for jobs included, by tool.",
        }
    }

    /// What is measured.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::JobDuration | Self::JobQueueWait | Self::McpCallDuration => Unit::Seconds,
        }
    }

    /// Its labels, each with all of its values.
    #[must_use]
    pub const fn labels(self) -> &'static [LabelSet] {
        match self {
            Self::McpCallDuration => &[(key::TOOL, &TOOLS)],
            Self::JobDuration | Self::JobQueueWait => &[],
        }
    }

    /// Upper bounds of its buckets.
    #[must_use]
    pub const fn buckets(self) -> &'static [f64] {
        match self {
            Self::JobDuration | Self::JobQueueWait => &LADDER,
            Self::McpCallDuration => CALL_LADDER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue_names::QueueGauge;
    use super::*;

    fn all() -> Vec<(&'static str, &'static str, Unit, bool)> {
        let counters = Counter::ALL.map(|m| (m.name(), m.help(), m.unit(), true));
        let gauges = Gauge::ALL.map(|m| (m.name(), m.help(), m.unit(), false));
        let of_queue = QueueGauge::ALL.map(|m| (m.name(), m.help(), m.unit(), false));
        let histograms = Histogram::ALL.map(|m| (m.name(), m.help(), m.unit(), false));
        counters.into_iter().chain(gauges).chain(of_queue).chain(histograms).collect()
    }

    #[test]
    fn names_have_the_prefix_the_unit_and_total_where_it_belongs() {
        for (name, help, unit, counts) in all() {
            assert!(name.starts_with("shellyard_"), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), counts, "{name}");
            let stem = name.trim_end_matches("_total");
            assert_eq!(stem.ends_with("_bytes"), unit == Unit::Bytes, "{name}");
            assert_eq!(stem.ends_with("_seconds"), unit == Unit::Seconds, "{name}");
            assert!([Unit::Bytes, Unit::Seconds, Unit::Count].contains(&unit), "{name}");
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
        }
    }

    #[test]
    fn no_name_is_used_twice() {
        let mut names: Vec<_> = all().into_iter().map(|(name, ..)| name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn every_limit_stands_beside_its_use() {
        let of_queue = QueueGauge::ALL.map(QueueGauge::name);
        let names: Vec<_> = Gauge::ALL.map(Gauge::name).into_iter().chain(of_queue).collect();
        let is_limit = |name: &&&str| name.ends_with("_limit") || name.contains("_limit_");
        for limit in names.iter().filter(is_limit) {
            let used = limit.replacen("_limit", "", 1);
            assert!(names.contains(&used.as_str()), "{limit}");
        }
    }

    #[test]
    fn buckets_climb_by_less_than_three() {
        for histogram in Histogram::ALL {
            let steps = histogram.buckets().windows(2);
            assert!(
                steps.into_iter().all(|pair| pair[1] / pair[0] > 1.9 && pair[1] / pair[0] < 2.6)
            );
        }
    }
}

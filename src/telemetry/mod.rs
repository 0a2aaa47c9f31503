//! Telemetry: metrics, the log, traces and the audit log.
//!
//! - [`names`]: every metric with its help text and its labels. No other file spells a metric name.
//! - [`labels`]: the closed sets that label values come from.
//! - [`events`]: one function per event; each writes its log line and updates its metrics.
//! - [`spans`]: trace spans.
//! - [`logging`]: the log on stderr and its filter.
//! - [`exporter`]: the metrics in the text format of Prometheus.
//! - [`audit`]: the tamper-evident record of decisions on commands.
//!
//! Commands are logged quoted and truncated; the dialect `execute_command` prints them whole if
//! `execute_command.verbose` is set, and otherwise not at all. Output bytes and environment values
//! are never logged, except that the dialect `execute` can log the output of a job. Modules that
//! report events call this module; it calls none of them.

pub mod audit;
pub mod events;
pub mod exporter;
pub mod labels;
pub mod logging;
pub mod names;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod spans;

pub use events::{ActiveJob, LoggedCommand};
pub use exporter::{
    Exporter, LaneStats, QueueGauges, QueueStats, SeriesNames, TenantStats, UsageAndLimit,
};
pub use labels::{
    ActorKind, ApprovalStep, ErrorType, FreedReason, GateLabel, HostResource, HttpRefusalReason,
    RejectionReason, Transport, WaitReason,
};
pub use logging::{LogFilter, LogFilterStatus};

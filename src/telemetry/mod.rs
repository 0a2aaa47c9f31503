//! Telemetry: what happened, told once to the log and to the metrics.
//!
//! - [`names`]: every metric, its help and its labels. No other file spells one.
//! - [`labels`]: the closed sets that label values come from.
//! - [`events`]: one function per thing that happens; each logs and counts.
//! - [`spans`]: what belongs to which trace.
//! - [`logging`]: where log lines go, and which ones.
//! - [`exporter`]: what Prometheus reads.
//!
//! Commands are logged, quoted and cut short; output bytes and environment values
//! never are. This room calls no other: rooms call it.

pub mod audit;
pub mod events;
pub mod exporter;
pub mod labels;
mod log_line;
pub mod logging;
pub mod names;
#[cfg(feature = "otlp")]
pub mod otlp;
mod process_metrics;
mod queue_gauges;
pub mod spans;

pub use events::ActiveJob;
pub use exporter::Exporter;
pub use labels::{
    ActorKind, ApprovalStep, ErrorType, FreedReason, HostResource, HttpRefusalReason,
    RejectionReason, Transport, WaitReason,
};
pub use log_line::{LogFilter, LogFilterStatus};
pub use queue_gauges::{LaneStats, QueueGauges, QueueStats, SeriesNames, TenantStats, UsageGauge};

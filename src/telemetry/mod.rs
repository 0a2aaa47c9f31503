//! Telemetry: what happened, told once to the log and to the metrics.
//!
//! - [`names`], [`queue_names`]: every metric, its help and its labels. No other file spells one.
//! - [`labels`]: the closed sets that label values come from.
//! - [`events`]: one function per thing that happens; each logs and counts.
//! - [`setup`]: where log lines go.
//! - [`exporter`]: what Prometheus reads.
//!
//! Commands are logged, quoted and cut short; output bytes and environment values
//! never are. This room calls no other: rooms call it.

pub mod audit;
pub mod events;
pub mod exporter;
pub mod labels;
pub mod names;
mod process;
mod queue_gauges;
pub mod queue_names;
pub mod setup;

pub use events::ActiveJob;
pub use exporter::Exporter;
pub use labels::{CallResult, DropReason, FreedReason, Refusal, Rejection, Resource, WaitReason};
pub use queue_gauges::{KnownNames, LaneFigures, QueueFigures, QueueGauges, TenantFigures, Usage};

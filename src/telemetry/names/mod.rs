//! Every metric there is: its name, its help, its unit and its labels. No other folder spells one.
//!
//! Names are `shellyard_<noun>_<unit>[_total]`, in base units, except where others have given the
//! thing a name: `process_*` as all Prometheus clients have it, `mcp_server_*` as OpenTelemetry
//! has it. Every bound stands beside its use. MetricLabels come from closed sets.
//!
//! `docs/metrics.md` is made from this folder.

mod catalogue;
mod metric;

pub use catalogue::{
    MetricFamily, actors, catalogue, http, jobs, lanes, mcp, output, process, queue, tenants,
};
pub(super) use catalogue::{known_operations, operation_labels, tool_operations};
pub use metric::{Counter, Gauge, Histogram, LabelSet, Metric, MetricKind, MetricLabels};

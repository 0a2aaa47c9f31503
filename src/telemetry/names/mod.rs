//! Every metric there is: its name, its help, its unit and its labels. No other folder spells one.
//!
//! Names are `shellyard_<noun>_<unit>[_total]`, in base units, except where others have given the
//! thing a name: `process_*` as all Prometheus clients have it, `mcp_server_*` as OpenTelemetry
//! has it. Every bound stands beside its use. Labels come from closed sets.
//!
//! `docs/metrics.md` is made from this folder.

pub mod actors;
mod catalogue;
#[cfg(test)]
mod docs;
pub mod http;
pub mod jobs;
pub mod lanes;
pub mod mcp;
mod metric;
pub mod output;
pub mod process;
pub mod queue;
pub mod tenants;

pub use catalogue::{Family, catalogue};
pub use metric::{Counter, Gauge, Histogram, Kind, LabelSet, Labels, Metric};

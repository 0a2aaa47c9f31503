//! One function per event: each writes its log line and updates its metrics.
//!
//! Text from clients is logged with `?`, quoted and escaped, so that no command can forge a log
//! line.

mod actors;
mod clients;
mod host;
mod jobs;

pub use actors::*;
pub use clients::*;
pub(super) use host::update_process_metrics;
pub use host::*;
pub use jobs::*;

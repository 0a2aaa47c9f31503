//! One function per event: each writes its log line and updates its metrics.
//!
//! Text from clients is logged with `?`, quoted and escaped, so that no command can forge a log
//! line.

mod clients;
mod host;
mod jobs;

pub use clients::*;
pub use host::*;
pub use jobs::*;

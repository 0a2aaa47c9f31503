//! One function per thing that happens: each writes its log line and counts.
//!
//! Text from outside is logged with `?`, quoted and escaped, so that no command can
//! forge a line of the log.

mod clients;
mod host;
mod jobs;

pub use clients::*;
pub(super) use host::update_process_metrics;
pub use host::*;
pub use jobs::*;

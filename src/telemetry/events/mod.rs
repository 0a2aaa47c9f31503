//! One function per thing that happens: each writes its log line and counts.
//!
//! Text from outside is logged with `?`, quoted and escaped, so that no command can
//! forge a line of the log.

mod actors;
mod doors;
mod host;
mod jobs;
mod mcp;
mod output;
mod values;

pub use actors::*;
pub use doors::*;
pub(super) use host::scraped;
pub use host::*;
pub use jobs::*;
pub use mcp::*;
pub use output::*;

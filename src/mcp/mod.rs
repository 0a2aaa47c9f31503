//! The MCP surface: six tools over one yard, in both eras of the protocol.
//!
//! ```text
//! transport (stdio, http) → Handler → tools/<name>.rs → yard
//!                                        ↓
//!                 args (what was asked)  wait (bounded)  reply (what is answered)
//! ```
//!
//! **Invariant:** a tool decides nothing about processes and touches no file: it reads its
//! arguments, asks the yard, and hands facts to `reply`, which alone writes wire text.
//! **Invariant:** a call ends: on the job's end, when its wait is over, or on cancellation.

mod address;
mod answering;
mod approvals;
mod args;
mod called;
mod caller;
mod completion;
mod dialect;
#[cfg(feature = "conformance")]
mod fixtures;
mod follower;
mod handler;
mod introduction;
mod offer;
mod operation;
#[cfg(test)]
mod operation_tests;
mod reply;
mod resources;
mod schema;
mod settings;
mod sight;
mod snapshot;
mod stamp;
mod status;
mod subscriptions;
mod tasks;
mod tools;
mod turn;
mod wait;
mod watched;

pub use dialect::{
    Dialect, DialectSettings, ExecuteCommandSettings, ExecuteSettings, RunShellCommandSettings,
    ShellToolSettings,
};
pub use handler::{Eras, Handler, METHODS};
pub use operation::Network;
pub use settings::{McpSettings, ResultFormat, ServerName};
pub use status::JobState;
pub use watched::Watched;

pub(crate) use operation::context_of_headers;
pub(crate) use turn::Turn;

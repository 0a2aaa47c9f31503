//! The MCP surface: six tools over one yard, in both eras of the protocol.
//!
//! ```text
//! transport (stdio, http) → Handler → tools/<name>.rs → yard
//!                                        ↓
//!                 args (what was asked)  wait (bounded)  reply (what is answered)
//! ```
//!
//! **Invariant:** a tool decides nothing about processes and touches no file: it reads its
//! arguments, asks the yard, and hands facts to `reply`, which writes the text of every tool reply;
//! questions and resources are worded in `approvals` and `resources`.
//! **Invariant:** a call ends: on the job's end, when its wait is over, or on cancellation.

mod approvals;
mod args;
mod cursor;
mod dialect;
#[cfg(feature = "conformance")]
#[path = "../../tests/conformance/mod.rs"]
mod fixtures;
mod handler;
mod instrumented_handler;
mod job_status;
mod reply;
mod resources;
mod schema;
mod server_info;
mod settings;
mod snapshot;
mod subscriptions;
mod tasks;
mod tool_set;
mod tools;

pub use cursor::ParsedCursor;
pub use handler::Handler;
pub use instrumented_handler::{Network, Watched};
pub use job_status::JobState;
pub use server_info::{Eras, methods};
pub use settings::{
    Dialect, DialectSettings, ExecuteCommandSettings, ExecuteSettings, McpSettings, ResultFormat,
    RunShellCommandSettings, ServerName, ShellToolSettings,
};

pub(crate) use instrumented_handler::context_of_headers;
pub(crate) use tools::Turn;

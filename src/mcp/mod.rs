//! The MCP layer: six tools over one job service, in both eras of the protocol.
//!
//! ```text
//! transport (stdio, http) → Handler → tools/<name>.rs → service
//!                                        ↓
//!                 args (parsed input)    wait (bounded)  reply (text, fields)
//! ```
//!
//! **Invariant:** a tool decides nothing about processes and touches no file: it reads its
//! arguments, asks the service, and passes facts to `reply`, which writes the text of every tool
//! reply; `approvals` and `resources` write the text of questions and resources. **Invariant:** no
//! call waits without a bound: a wait ends with its event, at its time limit, or when the client
//! cancels the call.

mod approvals;
mod args;
mod dialect;
#[cfg(feature = "conformance")]
#[path = "../../tests/conformance/mod.rs"]
mod fixtures;
mod handler;
mod instrumented_handler;
mod job_api;
mod reply;
mod resources;
mod server_info;
mod settings;
mod subscriptions;
mod tasks;
mod tool_set;
mod tools;

pub use handler::Handler;
pub use instrumented_handler::{InstrumentedHandler, NetworkTransport};
pub use job_api::{JobDetail, JobFilter, JobRequestError, JobState, job_request_schema};
pub use reply::DigestError;
pub use resources::ParsedCursor;
pub use server_info::{Eras, OfferedMethods, list_methods};
pub use settings::{
    ClientLimit, DialectSettings, ExecuteCommandSettings, ExecuteDialectSettings, McpSettings,
    ResultFormat, RunShellCommandSettings, ServerName, ShellDialectSettings, ToolDialect,
};

pub(crate) use instrumented_handler::trace_context_from_headers;
pub(crate) use reply::{count, thousands};
pub(crate) use server_info::MethodFilter;
pub(crate) use subscriptions::SessionNotifier;
pub(crate) use tools::{CallTurn, CancelNotice, CancelReason};

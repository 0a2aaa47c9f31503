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
mod cancellation;
mod cursor;
mod dialect;
mod digest_resource;
#[cfg(feature = "conformance")]
#[path = "../../tests/conformance/mod.rs"]
mod fixtures;
mod handler;
mod instrumented_handler;
mod job_fields;
mod job_request;
mod job_status;
mod privileged_call;
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
pub use instrumented_handler::{InstrumentedHandler, NetworkTransport};
pub use job_request::{JobRequestError, job_request_schema};
pub use job_status::{JobDetail, JobFilter, JobState};
pub use reply::DigestError;
pub use server_info::{Eras, OfferedMethods, list_methods};
pub use settings::{
    ClientLimit, DialectSettings, ExecuteCommandSettings, ExecuteDialectSettings, McpSettings,
    ResultFormat, RunShellCommandSettings, ServerName, ShellDialectSettings, ToolDialect,
};

pub(crate) use cancellation::{CancelNotice, CancelReason};
pub(crate) use instrumented_handler::trace_context_from_headers;
pub(crate) use reply::{count, thousands};
pub(crate) use server_info::MethodFilter;
pub(crate) use subscriptions::SessionNotifier;
pub(crate) use tools::CallTurn;

//! `/api/v1`: jobs and their output, for programs that do not speak MCP.
//!
//! ```text
//! GET /jobs/{id}/output → request (parameters) → negotiation (what is sent, pure) → jobs (block by block)
//! GET /jobs, /jobs/{id} → the MCP handler's structured form
//! /queue, /drain, /reload, /log-level → what an operator sees and changes
//! ```
//!
//! **Invariant:** a response holds one block in memory at a time, whatever its length and however
//! slow its reader.
//! **Invariant:** ranges count the bytes as stored, never a compressed form.

mod jobs;
mod negotiation;
mod operator;
mod request;
mod routes;

pub(super) use request::ApiState;
pub use request::{ReloadedSettings, ServerControl};
pub(super) use routes::{api_route, no_such_path};

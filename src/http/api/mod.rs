//! `/api/v1`: jobs and their output, for programs that do not speak MCP.
//!
//! ```text
//! GET /jobs/{id}/output → request (parameters) → negotiation (what is sent, pure) → jobs (block by block)
//! GET /jobs, /jobs/{id}, /jobs/{id}/digest → the MCP handler's structured form
//! /queue, /drain, /reload, /log-level, /upgrade → what an operator sees and changes
//! ```
//!
//! **Invariant:** a response holds one block in memory at a time, whatever its length and however
//! slow its reader.
//! **Invariant:** ranges count the bytes as stored, never a compressed form.

pub(super) mod jobs;
mod negotiation;
pub(super) mod operator;
mod request;
pub(super) mod upgrade;

pub(super) use negotiation::{Coding, encode_whole};
pub(super) use request::{ApiError, ApiState};
pub use request::{ReloadedSettings, ServerControl};
pub use upgrade::{ServerGeneration, UpgradeControl};

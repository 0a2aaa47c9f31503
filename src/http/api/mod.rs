//! `/api/v1`: jobs and their output, for programs that do not speak MCP.
//!
//! ```text
//! GET /jobs/{id}/output → access (whose job) → negotiation (what is sent, pure) → output (block by block)
//! GET /jobs/{id}/output?follow=1 → follow (piece by piece); /jobs/{id}/stream → event_stream
//! GET /jobs, /jobs/{id}, /jobs/{id}/digest → the MCP handler's structured form
//! POST /jobs, /jobs/{id}/stop, /input, /resize → job_actions
//! GET /server → the process that answers; /openapi.json → the description of all routes
//! /queue, /drain, /reload, /log-level, /upgrade → what an operator sees and changes
//! ```
//!
//! **Invariant:** a response holds one block in memory at a time, whatever its length and however
//! slow its reader.
//! **Invariant:** ranges count the bytes as stored, never a compressed form.

mod access;
pub(super) mod event_stream;
mod follow;
pub(super) mod job_actions;
mod job_schema;
pub(super) mod jobs;
mod negotiation;
pub(super) mod openapi;
pub(super) mod operator;
pub(super) mod output;
mod request;
pub(super) mod server;
mod start_position;
pub(super) mod upgrade;

pub(super) use negotiation::{Coding, encode_whole};
pub(super) use request::{ApiError, ApiState, MissingRole};
pub use request::{ReloadedSettings, ServerControl};
pub use server::{ApiProcess, ServerKind};
pub(crate) use start_position::MAX_TAIL;
pub use upgrade::{ServerGeneration, UpgradeControl};

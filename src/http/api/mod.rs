//! `/api/v1`: jobs and their output, for programs that do not speak MCP.
//!
//! ```text
//! GET /jobs/{id}/output → request (whose job) → negotiation (what is sent, pure) → output (block by block)
//! GET /jobs/{id}/output?follow=1 → output (piece by piece); /jobs/{id}/stream → event_stream
//! GET /jobs, /jobs/{id}, /jobs/{id}/digest → jobs, in the MCP handler's structured form
//! POST /jobs, /jobs/{id}/stop, /input, /resize → jobs
//! GET /openapi.json → openapi, the description of all routes
//! /server, /queue, /drain, /reload, /log-level, /upgrade → operator
//! ```
//!
//! **Invariant:** a response holds one block in memory at a time, whatever its length and however
//! slow its reader.
//! **Invariant:** ranges count the bytes as stored, never a compressed form.

pub(super) mod event_stream;
pub(super) mod jobs;
mod negotiation;
pub(super) mod openapi;
pub(super) mod operator;
pub(super) mod output;
mod request;

pub(super) use negotiation::{Coding, encode_whole};
pub use operator::{
    ApiProcess, ReloadedSettings, ServerControl, ServerGeneration, ServerKind, UpgradeControl,
};
pub(crate) use output::MAX_TAIL;
pub(super) use request::{ApiError, ApiState, MissingRole};

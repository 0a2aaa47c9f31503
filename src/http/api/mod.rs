//! `/api/v1`: jobs and what they wrote, for programs that speak no MCP.
//!
//! ```text
//! GET /jobs/{id}/output → query (what is asked) → plan (what is sent, pure) → body (block by block)
//! GET /jobs, /jobs/{id} → the MCP handler's structured form
//! /queue, /drain, /reload, /log-level → what an operator sees and changes
//! ```
//!
//! **Invariant:** an answer is held in memory one block at a time, whatever its length and however
//! slow its reader. **Invariant:** ranges count the bytes as stored, never a compressed form.

mod admin;
mod body;
mod coding;
mod error;
mod jobs;
mod log_level;
mod order;
mod output;
mod plan;
mod query;
mod range;
mod routes;
mod traced;

pub(super) use routes::{Api, lead, no_such_path};

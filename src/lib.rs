//! Shellyard runs shell commands for AI agents, as jobs.
//!
//! The modules form layers, and each layer uses only those below it. `docs/architecture.md` has the
//! picture and the invariants.

pub mod app;
pub mod cli;
pub mod client;
pub mod config;
pub mod environment;
pub mod exec_gate;
pub mod http;
pub mod ids;
pub mod job;
pub mod journal;
pub mod lines;
pub mod mcp;
pub mod outcome;
pub use shellyard_output as output;
pub use shellyard_policy as policy;
pub mod private_files;
pub use shellyard_process::{self as process, confinement};
use shellyard_process::{TaskLimit, block_in_place};
pub mod proxy;
pub mod service;
pub mod setting_values;
pub mod spec;
pub mod supervisor;
pub mod telemetry;
pub mod trace;

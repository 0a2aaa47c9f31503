//! Closed sets of label values: however the server is used, no further series appear.

mod actors;
mod build;
mod http;
mod jobs;
pub mod key;
mod mcp;
mod output;
mod queue;
mod words;

pub use actors::Actor;
pub(super) use build::{ARCHES, PROFILES, VERSIONS};
pub use http::Refusal;
pub use jobs::{ApprovalStep, Rejection};
pub(super) use jobs::{CONFINEMENT_BACKENDS, CONFINEMENT_PROFILES, YES_OR_NO};
pub use mcp::{CallClass, ErrorType, METHODS, Transport};
pub(super) use mcp::{TOOL_CALL, method};
pub use output::FreedReason;
pub(super) use output::STREAMS;
pub use queue::{Resource, WaitReason};
pub use words::OTHER;

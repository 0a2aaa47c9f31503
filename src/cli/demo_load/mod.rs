//! `demo-load`: a few agents that use a running server as agents do, so that its numbers move.
//!
//! What an agent does next is decided by [`plan`], which is pure and follows from the seed; a
//! [`deed`] knows the calls that it takes; an [`agent`] makes them over MCP; the [`tally`] counts
//! what came back, and keeps failures of commands apart from ours.

mod agent;
mod deed;
mod dice;
mod flags;
mod plan;
mod run;
mod session;
mod tally;
mod verdict;

pub use flags::DemoLoadFlags;
pub use run::run;

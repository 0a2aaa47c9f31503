//! Decides which commands may run, with their variables and redirections. Pure: no I/O, no clock.
//!
//! [`extract`] reads a shell text once and lists every simple command that it could run. The tables
//! in `wrappers` follow programs that run others. Rules are matched against each command. Deny wins
//! over allow, allow over ask. Text that cannot be judged by reading it is refused whenever a list
//! is set.
//!
//! [`gate`] judges single program starts while a job runs, as the kernel reports them.
//!
//! Promise: with an allow list the text starts no unlisted program. Not promised: a deny list as a
//! security boundary, and anything that an allowed interpreter or build tool starts.

#![warn(missing_docs)]

pub mod command;
mod decide;
pub mod extract;
pub mod gate;
mod matching;
mod options;
pub mod rules;
mod strict;
#[cfg(test)]
mod tests;
mod wrappers;

pub use decide::{
    AllowCheck, ExplainedCommand, Explanation, OnUncertain, Policy, PolicyDecision,
    PolicyEvaluation, PolicyRefusal, PolicyRequest, RequestedCommand, RuleOutcome, decide, explain,
};

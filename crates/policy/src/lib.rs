//! Decides which commands may run. Pure: no I/O, no clock.
//!
//! [`gate`] judges single program starts while a job runs, as the kernel reports them. It enforces
//! the allow list.
//!
//! [`extract`] reads a shell text once and lists every simple command that it could run. `wrappers`
//! follows programs that run others. Deny and ask rules are matched against each command, before
//! anything runs. This is a guard rail, not a security boundary.

#![warn(missing_docs)]

pub mod command;
mod decide;
pub mod extract;
pub mod gate;
mod matching;
mod options;
pub mod rules;
#[cfg(test)]
mod tests;
mod wrappers;

pub use decide::{
    ExplainedCommand, Explanation, OnUncertain, Policy, PolicyDecision, PolicyEvaluation,
    PolicyRefusal, PolicyRequest, RequestedCommand, RuleOutcome, decide, explain,
};

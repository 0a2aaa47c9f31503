//! Decides what may run: commands, their variables and redirections. Pure: no I/O, no clock.
//!
//! A shell text is read once, by [`extract`], into every simple command that it could run; the
//! tables in `wrappers` follow programs that run others; rules are matched against each command.
//! Deny wins over allow, allow over ask. What cannot be told from the text is refused whenever a
//! list is set.
//!
//! Promise: with an allow list the text starts no unlisted program. Not promised: a deny list as a
//! boundary, and anything once an interpreter or a build tool is allowed.

#![warn(missing_docs)]

pub mod command;
mod decide;
pub mod directories;
mod explain;
pub mod extract;
mod options;
pub mod rules;
mod strict;
mod tables;
#[cfg(test)]
mod tests;
mod wrappers;

pub use decide::{AskRule, Call, Decision, OnUncertain, Policy, Reading, Refusal, Request, decide};
pub use explain::{Explanation, Finding, Opinion, RuleName, explain};

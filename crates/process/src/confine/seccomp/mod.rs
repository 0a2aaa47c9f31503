//! Filters of system calls: a small program that the kernel runs before each call of a process and
//! of all that comes out of it, for as long as they live.
//!
//! [`rules`] says which calls are refused, and how; [`program`] puts that into the kernel's
//! language; [`filter`] hands it over.

mod filter;
mod program;
mod rules;
#[cfg(test)]
mod tests;

pub(crate) use filter::{Filters, compile, install, offer};
pub(crate) use rules::{CallRules, NetworkSockets, SocketRules, UnixSockets};

//! Sandboxed and limited jobs, started through the interface of `crates/process`, with a real keeper.
//!
//! The process that runs these tests holds jobs as a server does, and its keeper and their processes are
//! counted. So each has a process of its own ([`alone::run_alone`]), once as the user that runs them and, where
//! that is root, once more without privileges.

mod alone;
mod endings;
mod hygiene;
mod launches;
mod namespace;
mod remains;
mod start_errors;
mod support;
mod trees;

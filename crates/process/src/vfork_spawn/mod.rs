//! Creating a job's leader: from a launch that is complete to a process that has become its
//! program, or the step that failed.
//!
//! The server creates it itself (`create`), by `clone` with shared memory (`vfork`): the thread that
//! asks is suspended until the new process is its program, nothing is copied, and so the price does
//! not grow with the server. While it lives in our memory, beside our other threads, the new process
//! keeps to this (`child_steps`):
//!
//! - everything that it needs was made before ([`ChildSetup`]): it allocates nothing, takes no lock and
//!   cannot panic;
//! - it changes only what is its own: files, directory, signals, limits, privileges. Nothing that
//!   belongs to the memory, such as whether that can be looked into;
//! - all signals are blocked until it has none of our handlers any more.
//!
//! What it cannot do is told through that memory. The spawner uses the same steps for leaders in
//! namespaces, which take more than a process may do in the memory of the server.

mod child_steps;
mod clone;
mod create;
mod low_fds;

pub(crate) use child_steps::{
    ChildSetup, FilterCache, SandboxRules, SpawnFailure, SpawnRequest, SpawnStep, StandardFiles,
    become_leader, execute,
};
pub(crate) use clone::{
    CloneArgs, INTO_CGROUP, StackPool, bear_sibling_and_wait, give_number, leave,
};
pub(crate) use create::{SpawnedChild, VforkSpawner};

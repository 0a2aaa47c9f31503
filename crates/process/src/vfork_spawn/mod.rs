//! Creates a job's leader: from a complete request to a process that runs its program, or the step
//! that failed.
//!
//! The server creates it itself (`create`), by `clone` with shared memory (`vfork`): the calling
//! thread is suspended until the new process executes its program. Nothing is copied, so the cost
//! does not grow with the server. While it lives in our memory, beside our other threads, the new
//! process keeps these rules (`child_steps`):
//!
//! - everything that it needs was prepared before ([`ChildSetup`]): it allocates nothing, takes no
//!   lock and cannot panic;
//! - it changes only what is its own: files, directory, signals, limits, privileges. It changes
//!   nothing that belongs to the memory, such as whether the process is dumpable;
//! - all signals are blocked until it has none of our handlers any more.
//!
//! It reports a failed step through that memory. The spawner uses the same steps for leaders in
//! namespaces, which need more than a process may do in the memory of the server.

mod child_steps;
mod clone;
mod create;

pub(crate) use child_steps::{
    ChildSetup, FilterCache, SandboxRules, SpawnFailure, SpawnRequest, SpawnStep, StandardFiles,
    become_leader, execute,
};
pub(crate) use clone::{
    CloneArgs, INTO_CGROUP, StackPool, duplicate_to, exit_now, spawn_sibling_and_wait,
};
pub(crate) use create::{SpawnedChild, VforkSpawner};

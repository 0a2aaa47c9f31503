//! A small second process that creates the jobs with their own namespaces.
//!
//! Such a job needs steps between its creation and its program that cannot be done in the memory of
//! the server, and a `fork` of the server would cost more the bigger it is. The spawner is this
//! same program, started when it is first needed, with one thread and little memory. Each launch
//! arrives over a socket (`wire`), and creates *siblings* of the spawner: children of the server,
//! which waits for them like for any other. If the leader cannot execute its program, the failed
//! step is sent back (`wire`).
//!
//! One launch creates three processes (`serve`): one that makes the namespaces and then exits, the
//! init of the new pid namespace, which only waits to end when we do, and the leader.

mod client;
mod serve;
mod wire;

pub use client::Spawner;
pub(crate) use client::{NamespacedLeader, PidNamespace, RestoredInit};
pub(crate) use serve::spawner_main;

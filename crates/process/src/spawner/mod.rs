//! A small second process that creates the jobs which get namespaces of their own.
//!
//! Such a job has much to do between its birth and its program that cannot be done in the memory of
//! the server, and `fork` of the server would cost more the bigger it is. The spawner is this same
//! program, started when it is first needed, with one thread and little memory. Each launch comes to
//! it over a socket (`wire`), and out of it come *siblings* of the spawner: children of
//! the server, to be waited for like any other. What keeps the leader from becoming its program comes
//! back as the step that failed (`wire`).
//!
//! Three processes come out of one launch (`serve`): one that makes the namespaces and is
//! gone at once, the first process of the new process namespace, which does nothing but end when we
//! do, and the leader.

mod client;
mod serve;
mod wire;

pub use client::Spawner;
pub(crate) use client::{NamespacedLeader, PidNamespace};
pub(crate) use serve::spawner_main;

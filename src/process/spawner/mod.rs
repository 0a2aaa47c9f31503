//! A small second process that creates the jobs which are shut in or limited.
//!
//! Such a job has much to do between its birth and its program, and the server can do none of it:
//! it has many threads, and its `fork` would cost more the bigger it is. The spawner is this same
//! program, started once, with one thread and little memory. Each launch comes to it over a socket
//! ([`link`], [`wire`]), and it creates the job's leader as its *sibling*: a child of the server,
//! to be waited for like any other. What keeps the leader from becoming its program comes back as
//! the step that failed ([`step`]).
//!
//! With namespaces three processes come out of one launch ([`namespaces`]): one that makes the
//! namespaces and is gone at once, the first process of the new process namespace, which does
//! nothing but end when we do, and the leader.

mod child;
mod client;
mod files;
mod link;
mod namespaces;
mod raw;
mod serve;
mod step;
mod wire;

pub(super) use client::{Namespace, Offspring, create, pid};
pub use client::{renew, start, start_with};
pub(super) use files::Role;
pub use serve::{SPAWNER_ARG, spawner_main};
pub(super) use step::{Failure, Step};
pub(super) use wire::{Order, Shut};

//! Shutting a process in: each file is one means, used by a new process on itself before it
//! becomes the job's program. Which means are used is decided by [`ladder`].
//!
//! Nothing here runs in the server itself but the ladder, the probes and the cgroups.

pub(super) mod capabilities;
pub mod cgroup;
pub mod ladder;
pub(super) mod landlock;
pub(super) mod mounts;
pub mod probe;
pub(super) mod rlimits;
pub(super) mod seccomp;

pub use ladder::{HostOffer, OnUnavailable, Unavailable, grant};

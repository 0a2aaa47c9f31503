//! Shutting a process in: each file is one means, used by a new process on itself before it
//! becomes the job's program. Which means are used is decided by [`ladder`].
//!
//! Nothing here runs in the server itself but the ladder, the probes, the cgroups, and what finds and
//! makes the places that jobs write to or must not.

pub(super) mod capabilities;
pub mod cgroup;
mod clearing;
pub mod ladder;
pub(super) mod landlock;
pub(super) mod mounts;
mod placeholder;
pub mod probe;
pub(super) mod protected;
pub(super) mod rlimits;
pub mod scratch;
pub(super) mod seccomp;
pub(super) mod shared_places;
pub(super) mod workspace;

pub use ladder::{HostOffer, Means, OnUnavailable, Unavailable, grant};
pub use workspace::WorkspaceError;

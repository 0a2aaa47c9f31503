//! Shutting a process in: each file is one means, used by a new process on itself before it
//! becomes the job's program. Which means are used is decided by [`backends`].
//!
//! Nothing here runs in the server itself but the choice of backends, the probes, and what finds and
//! makes the places that jobs write to or must not.

pub mod backends;
pub(crate) mod job_resources;
pub(crate) mod landlock;
pub(crate) mod limits;
pub(crate) mod mounts;
pub(crate) mod protected;
pub mod scratch;
pub(crate) mod seccomp;
pub(crate) mod workspace;

pub use backends::{
    ConfinementUnavailable, KernelFeature, OnUnavailable, SandboxSupport, grant_confinement,
};
pub use workspace::WorkspaceError;

//! Sandboxing: each file is one mechanism, applied by a new process to itself before it executes
//! the job's program. [`backends`] decides which mechanisms are used.
//!
//! Only the choice of backends, the probes, and the search for and creation of writable and
//! protected paths run in the server itself.

pub mod backends;
pub(crate) mod job_resources;
pub(crate) mod landlock;
pub(crate) mod limits;
pub(crate) mod mounts;
pub mod scratch;
pub(crate) mod seccomp;
pub(crate) mod workspace;

pub use backends::{
    ConfinementUnavailable, KernelFeature, OnUnavailable, SandboxSupport, grant_confinement,
};
pub use workspace::WorkspaceError;

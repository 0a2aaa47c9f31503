//! Sandboxing. A new process applies the mechanisms (`mounts`, `kernel_settings`, `restrictions` and
//! `seccomp`) to itself before it executes the job's program. [`backends`] decides which of them are
//! used.
//!
//! Only the choice of backends, the probes, and the search for writable and protected paths run in the
//! server itself.

pub mod backends;
pub(crate) mod job_resources;
pub(crate) mod kernel_settings;
pub(crate) mod mounts;
pub(crate) mod protected_files;
pub(crate) mod restrictions;
pub mod scratch;
pub(crate) mod seccomp;
pub(crate) mod workspace;

pub use backends::{
    ConfinementUnavailable, KernelFeature, OnUnavailable, SandboxSupport, grant_confinement,
};
pub use workspace::WorkspaceError;

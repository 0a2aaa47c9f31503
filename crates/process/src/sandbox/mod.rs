//! Sandboxing. A new process applies the mechanisms (`mounts`, `kernel_settings`, `restrictions` and
//! `seccomp`) to itself before it executes the job's program. The others prepare for them in the server.

pub(crate) mod exec_filter;
pub(crate) mod kernel_settings;
pub(crate) mod mounts;
pub(crate) mod protected_files;
pub(crate) mod restrictions;
pub(crate) mod scratch;
pub(crate) mod seccomp;
pub(crate) mod seccomp_filter;
pub(crate) mod workspace;

pub use workspace::WorkspaceError;

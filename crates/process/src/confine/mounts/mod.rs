//! What the file system looks like to a job in a mount namespace of its own.
//!
//! Everything is read-only but the workspace and a few places of which the job has its own, such as
//! `/tmp`. [`plan`] decides,
//! in the server; [`apply`] does it, in a new process with fresh user and mount namespaces. What
//! stays writable is copied before everything becomes read-only, so that each copied mount keeps
//! what the host forbids on it: nothing is ever made looser, which the kernel would not allow.
//!
//! Linux 5.12 is needed, for `mount_setattr`: an older one answers with `ENOSYS`.

mod apply;
mod attributes;
mod devices;
mod enter;
mod plan;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use apply::{apply, own_proc};
pub(crate) use enter::enter;
pub(crate) use plan::{Mount, Substitute, View, plan};

//! The exec gate: each start of a program in a job is judged when it happens, by what the kernel is about
//! to do.
//!
//! The leader installs a seccomp filter whose listener it gives to the shim. From then on every `execve`
//! of the job waits until the shim answers. The shim reads the call from the memory of the task, resolves
//! the file in the task's own root and directory, and asks the pure judge of the policy crate. Memory and
//! file system can change after that, so an allowed start is traced until its exec stop: if the kernel
//! has loaded another file, or with other arguments or variables, the process is killed before the new
//! program runs one instruction.
//!
//! **No program starts unjudged, whatever fails:** if the shim dies, each waiting start fails, and each
//! traced process is killed.

mod exec_call;
mod exec_gate;
mod filter;
mod listener;
mod lookup;
mod program_file;
mod protocol;
mod questions;
mod running_programs;
mod script;
mod start_facts;
mod task_memory;
#[cfg(test)]
mod tests;
mod tracing;
mod verification;

pub(super) use exec_gate::{ExecGate, LeaderStart};
pub(super) use filter::GatedLeader;
pub use protocol::{StartCounts, StartQuestion};

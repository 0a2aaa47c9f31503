//! Processes and nothing else: starting one, waiting for it, finding and ending everything that
//! came out of it. When to do so is decided elsewhere.
//!
//! How a tree is kept together: the server is a *child subreaper* ([`Host::new`]), so whatever
//! a job starts stays a descendant of the server, also after `setsid` and a double fork. Which job
//! a stray belongs to is told by its session, its ancestors, a tag in an inherited resource limit,
//! a marker in its environment, and the pipes that it holds ([`Tree`]). Should the server be killed
//! itself, a small second process ends what it left behind ([`Guardian`]).
//!
//! The server never forks: `fork` copies page tables, so its cost grows with the server. It creates
//! jobs in its own memory, as `vfork` does (`vfork_spawn`), where they also shut themselves in
//! ([`sandbox`]); those that get namespaces are created by a small second process ([`Spawner`]).
//! Linux 5.4 or later is needed, for pidfds.

#![warn(missing_docs)]

pub mod cgroup;
mod child_defaults;
mod children;
pub mod confinement;
mod cwd;
mod guardian;
mod host;
mod launch;
pub mod load;
mod oom_score;
mod processes;
pub mod sandbox;
pub mod shell;
pub mod similar;
pub mod sockets;
mod spawn;
mod spawner;
mod start_error;
mod stdio;
mod syscalls;
mod tree;
mod vfork_spawn;

pub use child_defaults::{
    HostTag, JOB_VARIABLE, keep_child_signals, prefer_this_thread, wait_for_a_child,
};
pub use cwd::{Cwd, OpenedDir};
pub use guardian::{Guardian, ProcessRecord};
pub use host::Host;
pub use launch::{Confine, Launch, Variable};
pub use load::{Glance, host_tasks, newest_number};
pub use processes::TreeScan;
pub use sandbox::job_resources::KillMeans;
pub use sockets::Callers;
pub use spawn::{Detached, DetachedLaunch, DetachedStarter, Process, run_helper};
pub use spawner::Spawner;
pub use start_error::{StartError, TaskLimit};
pub use stdio::{InputPipe, LaunchStdin, OutputPipe, PipelineReport, Report, wait_for_any};
pub use syscalls::{bound_free_memory, in_place, thread_cpu_time, trim_memory};
pub use tree::{
    Exit, ExitKind, Leader, Load, StoppedProcesses, Tree, TreeActivity, Usage, session_sizes,
    survey,
};

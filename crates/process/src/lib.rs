//! Processes and nothing else: starting one, waiting for it, finding and ending everything that
//! came out of it. When to do so is decided elsewhere.
//!
//! How a tree is kept together: the server is a *child subreaper* ([`host::prepare`]), so whatever
//! a job starts stays a descendant of the server, also after `setsid` and a double fork. Which job
//! a stray belongs to is told by its session, its ancestors, a tag in an inherited resource limit,
//! a marker in its environment, and the pipes that it holds ([`Tree`]). Should the server be killed
//! itself, a small second process ends what it left behind ([`guardian`]).
//!
//! The server never forks: `fork` copies page tables, so its cost grows with the server. It creates
//! jobs in its own memory, as `vfork` does ([`birth`]), where they also shut themselves in
//! ([`confine`]); those that get namespaces are created by a small second process ([`spawner`]).
//! Linux 5.4 or later is needed, for pidfds.

mod allocator;
mod at_hand;
mod birth;
mod caller;
mod children;
pub mod confine;
pub mod confinement;
mod cwd;
mod descent;
pub mod detached;
mod glance;
pub mod guardian;
mod helper;
mod holdings;
pub mod host;
pub mod host_memory;
pub mod in_place;
mod killing;
mod launch;
mod leader;
mod left_behind;
pub mod listening;
pub mod login_path;
mod members;
mod metered;
mod oom_score;
mod orphans;
mod pipe;
mod plumbing;
pub mod pressure;
mod proc_scan;
mod pty;
mod raw;
mod report;
pub mod shell;
mod short_file;
pub mod similar;
mod spawn;
pub mod spawner;
mod start_error;
mod surroundings;
mod survey;
mod tag;
pub mod task_limit;
#[cfg(test)]
mod tests;
mod tree;
mod variable;

pub use allocator::{bound_free_memory, trim_memory};
pub use caller::Callers;
pub use cwd::{Cwd, OpenedDir};
pub use descent::StoppedProcesses;
pub use glance::{Glance, glance, host_tasks, newest_number};
pub use host::JOB_VARIABLE;
pub use launch::{Confine, Launch, LaunchStdin, Process, Report};
pub use leader::{Exit, ExitKind, Leader, Usage};
pub use left_behind::ProcessRecord;
pub use orphans::{TreeScan, scan_trees};
pub use pipe::{InputPipe, OutputPipe, wait_for_any};
pub use raw::thread_cpu_time;
pub use report::PipelineReport;
pub use spawn::spawn;
pub use start_error::StartError;
pub use survey::{Load, session_sizes, survey};
pub use tree::{KillMeans, Tree, TreeActivity};
pub use variable::Variable;

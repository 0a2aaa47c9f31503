//! Starts processes, waits for them, and finds and ends everything that they started. Callers
//! decide when to do so.
//!
//! Keeping a process tree together: the server is a *child subreaper* ([`Host::new`]), so whatever
//! a job starts stays a descendant of the server, even after `setsid` and a double fork. The job of
//! an orphan is found by its session, its ancestors, a tag in an inherited resource limit, a marker
//! in its environment, and the pipes that it holds ([`ProcessTree`]). If the server itself is
//! killed, a small second process ends what it left behind ([`Guardian`]).
//!
//! A server can also have a *keeper*: a small parent process ([`run_keeper`]) that adopts the jobs
//! of a server that died, holds their pipes, and starts the next server, which continues them
//! ([`Host::take_kept_processes`]).
//!
//! The server never forks: `fork` copies page tables, so its cost grows with the server. It creates
//! jobs in its own memory, as `vfork` does (`vfork_spawn`), and there they also enter their sandbox
//! ([`sandbox`]). A small second process creates the jobs that get namespaces ([`Spawner`]). Linux
//! 5.4 or later is needed, for pidfds.

#![warn(missing_docs)]

pub mod cgroup;
mod child_defaults;
mod child_steps;
mod children;
pub mod confinement;
mod guardian;
mod host;
mod job_cgroup;
mod job_user;
mod keeper;
mod launch;
pub mod load;
mod open_files;
mod processes;
pub mod sandbox;
pub mod shell;
pub mod sockets;
mod spawn;
mod spawner;
mod spawner_process;
mod spawner_wire;
mod stdio;
mod syscalls;
mod tree;
mod tree_activity;
mod tree_members;
mod tree_registry;
mod vfork_spawn;

pub use child_defaults::{HostTag, JOB_VARIABLE, raise_thread_priority, wait_for_child_exit};
pub use children::{SPAWN_PATIENCE, SpawnBacklog, SpawnPool};
pub use guardian::{Guardian, ProcessRecord};
pub use host::{Host, KeptProcess};
pub use job_user::JobUser;
pub use keeper::{KeeperClient, KeeperLaunch, KeeperNotice, UPGRADE_EXIT_CODE, run_keeper};
pub use launch::{
    CommandLine, Cwd, EnvVariable, LaunchStdin, OpenedDir, ProcessLaunch, ReportMode, SandboxSpec,
    StartError, StreamMode, TerminalSize,
};
pub use load::{HostLoad, RecentStart, RecentStarts, TaskLimit, host_tasks, newest_task_id};
pub use open_files::FileReservation;
pub use processes::TreeScan;
pub use sandbox::job_resources::KillMethod;
pub use shell::PipelineReport;
pub use sockets::JobConnectionDetector;
pub use spawn::{DetachedLaunch, DetachedProcess, DetachedProcesses, Process, run_helper};
pub use spawner::Spawner;
pub use stdio::{EchoMode, InputPipe, OutputPipe, TerminalResizer, wait_until_readable};
pub use syscalls::{
    block_child_signals, block_in_place, limit_retained_memory, thread_cpu_time, trim_memory,
};
pub use tree::{ProcessTree, measure_trees};
pub use tree_activity::{
    InputActivity, InputWait, ProcessInfo, TreeActivity, TreeLoad, count_processes_by_session,
};
pub use tree_members::{Exit, ExitKind, LeaderProcess, ResourceUsage, StoppedProcesses};

//! Starts processes, waits for them, and finds and ends everything that they started. Callers
//! decide when to do so.
//!
//! Three processes share the work. The *server* decides. Its *keeper* ([`run_keeper`], [`KeeperClient`])
//! forks a *shim* for each job. The shim is the parent of everything that the job starts, also after
//! `setsid` and a double fork; it reaps all of it, carries out stops and the deadline, and sends the
//! input. A tree is over when the shim has no child left.
//!
//! A job outlives its server: the next one asks each shim for its state
//! ([`Host::take_kept_processes`]). If the keeper dies, all shims end their trees. Linux 5.4 or later is
//! needed, for pidfds.

#![warn(missing_docs)]

pub mod cgroup;
pub mod confinement;
mod detached;
mod env_variable;
mod exit;
mod gate_support;
mod handover;
mod host;
mod job_cgroup;
mod job_resources;
mod job_user;
mod keeper;
mod known_files;
mod launch;
#[cfg(test)]
mod layers;
pub mod load;
mod open_files;
mod own_process;
mod process;
mod processes;
mod sandbox;
mod sandbox_support;
pub mod shell;
mod shim;
mod shim_link;
pub mod sockets;
mod spawn;
mod spawn_request;
mod start_error;
mod stdio;
mod syscalls;
mod tree;
mod tree_activity;
mod wire;

use std::env::ArgsOs;
use std::process::ExitCode;

pub use detached::{DetachedLaunch, DetachedProcess};
pub use env_variable::EnvVariable;
pub use exit::{Exit, ExitKind, ResourceUsage};
pub use gate_support::GateSupport;
pub use host::{Host, KeptProcess};
pub use job_user::JobUser;
pub use keeper::{KeeperClient, KeeperLaunch, KeeperNotice, UPGRADE_EXIT_CODE, run_keeper};
pub use known_files::{find_known_files, resolve_rule_path};
pub use launch::{
    CommandLine, Cwd, Deadline, LaunchStdin, OpenedDir, ProcessLaunch, ReportMode, SandboxSpec,
    StreamMode, TerminalSize,
};
pub use load::{HostLoad, TaskLimit, host_tasks};
pub use open_files::FileReservation;
pub use own_process::raise_thread_priority;
pub use process::Process;
pub use sandbox::WorkspaceError;
pub use sandbox::scratch::ScratchRoot;
pub use sandbox_support::{
    ConfinementUnavailable, KernelFeature, OnUnavailable, SandboxSupport, grant_confinement,
};
pub use shell::PipelineReport;
pub use shim::{EchoMode, EndCause, EndingNote, StartCounts, StartQuestion};
pub use shim_link::{GateEvent, LeaderEnd, ProcessEvent, ProcessEvents};
pub use sockets::JobConnectionDetector;
pub use spawn::StartingProcess;
pub use start_error::{NotStarted, StartError};
pub use stdio::{OutputPipe, ProcessInput, wait_until_readable};
pub use syscalls::{block_in_place, limit_retained_memory, thread_cpu_time, trim_memory};
pub use tree::{LivingProcesses, ProcessTree, measure_trees};
pub use tree_activity::{InputActivity, InputWait, ProcessInfo, TreeActivity, TreeLoad};

/// The variable that marks every process of a job in its environment. It is not a setting: a server
/// that runs inside a job is not configured by it.
pub const JOB_VARIABLE: &str = "SHELLYARD_JOB";

/// Runs the keeper of a server until the server is gone, if the program's arguments (without its name)
/// say so; returns the exit code. `None` for every other call of the program.
///
/// Must be called before anything else in `main`: the keeper is the same program again, has one thread,
/// and must stay small.
#[must_use]
pub fn run_helper(args: impl Fn() -> ArgsOs) -> Option<ExitCode> {
    keeper::keeper_main(args().skip(1))
}

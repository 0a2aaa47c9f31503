//! The end of a process, and the resources that it used.

use std::time::Duration;

use crate::syscalls::ChildExit;

/// The end of a process, and the resources that it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code or signal.
    pub status: ExitKind,
    /// The resources that it and the children that it waited for used. `max_rss_bytes` is 0 if it
    /// is not known: a smaller peak than that of the process that created it cannot be seen.
    pub usage: ResourceUsage,
}

/// CPU time and memory of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct ResourceUsage {
    /// User and system time.
    pub cpu: Duration,
    /// The largest resident set of any one process.
    pub max_rss_bytes: u64,
}

/// The way in which a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// An exit with this code.
    Code(i32),
    /// An end by this signal.
    Signal {
        /// The number of the signal.
        signal: i32,
        /// `true` if it left a core dump.
        core: bool,
    },
}

impl From<ChildExit> for Exit {
    fn from(ChildExit { status, cpu, max_rss_bytes }: ChildExit) -> Self {
        let status = if libc::WIFSIGNALED(status) {
            ExitKind::Signal { signal: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
        } else {
            ExitKind::Code(libc::WEXITSTATUS(status))
        };
        Self { status, usage: ResourceUsage { cpu, max_rss_bytes } }
    }
}

//! How a job ended: exactly one outcome, and what was measured beside it.

use std::fmt;
use std::time::{Duration, Instant};

pub use shellyard_process::{ResourceUsage, StartError};

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The leader exited by itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// The leader was ended by a signal that we did not send.
    Signaled {
        /// The signal's number.
        signal: i32,
        /// Whether it left a core dump.
        core: bool,
    },
    /// The deadline passed and the tree was ended.
    TimedOut {
        /// The deadline that it had.
        after: Duration,
    },
    /// Somebody wished it to stop.
    Stopped {
        /// Who.
        by: StopBy,
    },
    /// It ran into one of its bounds and was ended.
    Limit {
        /// Which bound.
        which: LimitKind,
    },
    /// No process was ever started.
    FailedToStart(StartError),
    /// We lost hold of it: its tree was ended, its real ending is unknown.
    Lost {
        /// What happened to us.
        why: String,
    },
}

impl Outcome {
    /// The stable word for it: metrics, JSON, lists.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Exited { .. } => "exited",
            Self::Signaled { .. } => "signaled",
            Self::TimedOut { .. } => "timed_out",
            Self::Stopped { .. } => "stopped",
            Self::Limit { .. } => "limit",
            Self::FailedToStart(_) => "failed_to_start",
            Self::Lost { .. } => "lost",
        }
    }

    /// Every word that [`Outcome::word`] can give.
    pub const WORDS: [&'static str; 7] =
        ["exited", "signaled", "timed_out", "stopped", "limit", "failed_to_start", "lost"];

    /// Whose fault it is; nobody's where it ended as it should, or as somebody wished.
    #[must_use]
    pub const fn fault(&self) -> Option<JobFault> {
        match self {
            Self::Exited { code: 0 } | Self::Stopped { .. } => None,
            Self::FailedToStart(
                StartError::System { .. }
                | StartError::OutOfProcesses { .. }
                | StartError::Confinement { .. },
            )
            | Self::Lost { .. } => Some(JobFault::Server),
            Self::Exited { .. } | Self::Signaled { .. } | Self::FailedToStart(_) => {
                Some(JobFault::Command)
            }
            Self::TimedOut { .. } | Self::Limit { .. } => Some(JobFault::Limit),
        }
    }
}

/// Whose fault it is that a job did not end well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFault {
    /// The command's: it failed, or could not be run as it was given.
    Command,
    /// It ran into its deadline or another of its bounds.
    Limit,
    /// Ours, or the host's.
    Server,
}

impl JobFault {
    /// Every word that [`JobFault::word`] can give.
    pub const WORDS: [&'static str; 3] = ["command", "limit", "server"];

    /// The stable word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Limit => "limit",
            Self::Server => "server",
        }
    }
}

/// Who wished a job to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopBy {
    /// A client asked for it.
    Client,
    /// The call that was waiting for it was cancelled.
    Cancel,
    /// The server is shutting down.
    Shutdown,
}

impl StopBy {
    /// The stable word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Cancel => "cancel",
            Self::Shutdown => "shutdown",
        }
    }
}

/// A bound that a job ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// More bytes written than this.
    OutputBytes(u64),
    /// More lines written than this.
    OutputLines(u64),
    /// More bytes written than this, by a job that asked to be ended then.
    LargeOutput(u64),
    /// More memory used by all its processes together.
    Memory {
        /// How many bytes it may have.
        limit: u64,
        /// How many it had at the most, as far as was seen.
        peak: u64,
    },
    /// More CPU time used by all its processes together.
    Cpu(Duration),
    /// More processes and threads at one time.
    Processes(u64),
    /// A file that grew beyond so many bytes.
    FileSize(u64),
}

impl LimitKind {
    /// Every word that [`LimitKind::word`] can give.
    pub const WORDS: [&'static str; 7] =
        ["output_bytes", "output_lines", "large_output", "memory", "cpu", "processes", "file_size"];

    /// The stable word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::OutputBytes(_) => "output_bytes",
            Self::OutputLines(_) => "output_lines",
            Self::LargeOutput(_) => "large_output",
            Self::Memory { .. } => "memory",
            Self::Cpu(_) => "cpu",
            Self::Processes(_) => "processes",
            Self::FileSize(_) => "file_size",
        }
    }

    /// Whether it bounds what a job writes to us, and not what it takes from the host.
    #[must_use]
    pub const fn is_output_limit(self) -> bool {
        match self {
            Self::OutputBytes(_) | Self::OutputLines(_) | Self::LargeOutput(_) => true,
            Self::Memory { .. } | Self::Cpu(_) | Self::Processes(_) | Self::FileSize(_) => false,
        }
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutputBytes(limit) => write!(f, "output limit of {limit} bytes reached"),
            Self::OutputLines(limit) => write!(f, "output limit of {limit} lines reached"),
            Self::LargeOutput(limit) => {
                write!(f, "output over {limit} bytes, which on_large_output makes an error")
            }
            Self::Memory { limit, peak } => {
                write!(f, "out of memory: limit {limit} bytes, peak {peak} bytes")
            }
            Self::Cpu(limit) => write!(f, "CPU limit of {limit:?} reached"),
            Self::Processes(limit) => write!(f, "process limit of {limit} reached"),
            Self::FileSize(limit) => write!(f, "file size limit of {limit} bytes reached"),
        }
    }
}

/// How a run ended, with everything that was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnding {
    /// The one outcome.
    pub outcome: Outcome,
    /// When.
    pub at: Instant,
    /// What the leader and its waited-for children used.
    pub usage: ResourceUsage,
    /// Exit codes of the last pipeline, where bash told them.
    pub pipeline: Vec<i32>,
    /// Processes of the tree that are still alive, on purpose or in spite of us.
    pub survivors: Vec<u32>,
    /// How the tree was ended, where we ended it.
    pub kill: Option<KillNote>,
}

impl JobEnding {
    /// An ending at this moment, with nothing measured.
    #[must_use]
    pub fn unmeasured(outcome: Outcome) -> Self {
        Self {
            outcome,
            at: Instant::now(),
            usage: ResourceUsage::default(),
            pipeline: Vec::new(),
            survivors: Vec::new(),
            kill: None,
        }
    }
}

/// How we ended a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KillNote {
    /// The signal that was sent first.
    pub first: i32,
    /// Set when SIGKILL had to follow, after this long.
    pub killed_after: Option<Duration>,
}

/// The polite wish to end.
pub const SIGTERM: i32 = 15;
/// The end that cannot be refused.
pub const SIGKILL: i32 = 9;
/// The kernel's word that a process used up its CPU time.
pub const SIGXCPU: i32 = 24;
/// The kernel's word that a file would grow beyond its limit.
pub const SIGXFSZ: i32 = 25;

/// The name of a signal, as people know it.
#[must_use]
pub fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 20] = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (5, "SIGTRAP"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (10, "SIGUSR1"),
        (11, "SIGSEGV"),
        (12, "SIGUSR2"),
        (13, "SIGPIPE"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
        (18, "SIGCONT"),
        (19, "SIGSTOP"),
        (24, "SIGXCPU"),
        (25, "SIGXFSZ"),
        (31, "SIGSYS"),
    ];
    NAMES
        .iter()
        .find(|(number, _)| *number == signal)
        .map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

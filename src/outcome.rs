//! The ending of a job: exactly one outcome, and the measurements that go with it.

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use shellyard_process::{LivingProcesses, ResourceUsage, StartError};

/// The outcome of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The leader (the first process of the job) exited by itself.
    Exited { code: i32 },
    /// A signal that the server did not send ended the leader.
    Signaled {
        signal: i32,
        /// `true` if the process left a core dump.
        core: bool,
    },
    /// The deadline passed, and the server ended the process tree.
    TimedOut { after: Duration },
    /// A client or the server asked for the job to stop.
    Stopped { by: StopBy },
    /// The job was stopped while it waited for a slot. No process was started.
    NotRun { by: StopBy, waited: Duration },
    /// The job reached one of its limits, and was ended.
    Limit { which: LimitKind },
    /// No process was started.
    FailedToStart(StartError),
    /// The server lost track of the job. Its process tree was ended; its real ending is unknown.
    Lost { why: String },
}

impl Outcome {
    /// Returns the text with which a shim keeps this outcome as the cause of an ending.
    #[must_use]
    pub fn to_cause(&self) -> String {
        // Every outcome has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the outcome of such a text; `None` if it is not one.
    #[must_use]
    pub fn from_cause(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The stable name of the outcome, for metrics, JSON and lists.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Exited { .. } => "exited",
            Self::Signaled { .. } => "signaled",
            Self::TimedOut { .. } => "timed_out",
            Self::Stopped { .. } | Self::NotRun { .. } => "stopped",
            Self::Limit { .. } => "limit",
            Self::FailedToStart(_) => "failed_to_start",
            Self::Lost { .. } => "lost",
        }
    }

    /// Every value of [`Outcome::word`].
    pub const WORDS: [&'static str; 7] =
        ["exited", "signaled", "timed_out", "stopped", "limit", "failed_to_start", "lost"];

    /// The cause of a failure; `None` if the job succeeded or was stopped on request.
    #[must_use]
    pub const fn fault(&self) -> Option<JobFault> {
        match self {
            Self::Exited { code: 0 } | Self::Stopped { .. } | Self::NotRun { .. } => None,
            Self::FailedToStart(
                StartError::System { .. }
                | StartError::OutOfProcesses { .. }
                | StartError::OutOfFiles { .. }
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

/// The cause of a job's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFault {
    /// The command failed, or could not be run as given.
    Command,
    /// The job reached its deadline or another limit.
    Limit,
    /// The server or the host failed.
    Server,
}

impl JobFault {
    /// Every value of [`JobFault::word`].
    pub const WORDS: [&'static str; 3] = ["command", "limit", "server"];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Limit => "limit",
            Self::Server => "server",
        }
    }
}

/// The origin of a stop request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopBy {
    Client,
    /// An operator stopped the job of another tenant.
    Operator,
    /// The call that waited for the job was cancelled.
    Cancel,
    /// The server is shutting down.
    Shutdown,
    /// No slot was free for as long as the call may wait for one.
    NoSlot,
}

impl StopBy {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Operator => "operator",
            Self::Cancel => "cancel",
            Self::Shutdown => "shutdown",
            Self::NoSlot => "no_slot",
        }
    }
}

/// Says how long a job waited in vain, such as `waited 12.0s for a slot and was not run`.
#[must_use]
pub fn format_not_run(waited: Duration) -> String {
    format!("waited {:.1}s for a slot and was not run", waited.as_secs_f64())
}

/// The limit that a job reached. Each value is the limit itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    OutputBytes(u64),
    OutputLines(u64),
    /// The size from which output is large, for a job with `LargeOutput::Error`.
    LargeOutput(u64),
    /// The memory of all processes of the job together, in bytes; `peak` is the largest measured value.
    Memory {
        limit: u64,
        peak: u64,
    },
    /// The CPU time of all processes of the job together.
    Cpu(Duration),
    /// The number of processes and threads at one time.
    Processes(u64),
    /// The size of one file that the job writes, in bytes.
    FileSize(u64),
}

impl LimitKind {
    /// Every value of [`LimitKind::word`].
    pub const WORDS: [&'static str; 7] =
        ["output_bytes", "output_lines", "large_output", "memory", "cpu", "processes", "file_size"];

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

    /// `true` if the limit is on the job's output, and not on what the job uses of the host.
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

/// The outcome of a job with its measurements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnding {
    pub outcome: Outcome,
    pub at: Instant,
    /// The resources that the leader and the children it waited for have used.
    pub usage: ResourceUsage,
    /// The exit codes of the last pipeline, if bash reported them.
    pub pipeline: Vec<i32>,
    /// Processes of the tree that are still alive: detached on purpose, or not killable.
    pub survivors: LivingProcesses,
    /// Set if the server ended the tree.
    pub kill: Option<KillNote>,
}

impl JobEnding {
    /// Creates an ending at the present moment, without measurements.
    #[must_use]
    pub fn unmeasured(outcome: Outcome) -> Self {
        Self {
            outcome,
            at: Instant::now(),
            usage: ResourceUsage::default(),
            pipeline: Vec::new(),
            survivors: LivingProcesses::default(),
            kill: None,
        }
    }
}

/// The way in which the server ended a process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillNote {
    /// The signal that was sent first.
    pub first: i32,
    /// The time after which SIGKILL followed; `None` if it was not needed.
    pub killed_after: Option<Duration>,
}

impl KillNote {
    /// The last signal that was sent.
    #[must_use]
    pub const fn last_signal(&self) -> i32 {
        if self.killed_after.is_some() { SIGKILL } else { self.first }
    }
}

pub const SIGTERM: i32 = 15;
pub const SIGKILL: i32 = 9;
/// Sent by the kernel to a process that has used up its CPU time.
pub const SIGXCPU: i32 = 24;
/// Sent by the kernel to a process that writes a file beyond its size limit.
pub const SIGXFSZ: i32 = 25;

/// Returns the name of a signal, such as `SIGTERM`.
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

/// Parses a signal: its number, or its name with or without `SIG`.
#[must_use]
pub fn parse_signal(given: &str) -> Option<i32> {
    const LAST: i32 = 64;
    let wanted = given.trim().to_ascii_uppercase();
    let is_named = |number: &i32| {
        let name = signal_name(*number);
        name == wanted || name.strip_prefix("SIG") == Some(wanted.as_str())
    };
    let number = wanted.parse().ok().filter(|number| (1..=LAST).contains(number));
    number.or_else(|| (1..=LAST).find(is_named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_parsed_by_number_or_name() {
        for (given, number) in [
            ("SIGINT", 2),
            ("INT", 2),
            ("int", 2),
            ("2", 2),
            ("sigkill", 9),
            ("64", 64),
            (" TERM ", 15),
        ] {
            assert_eq!(parse_signal(given), Some(number), "{given}");
        }
        for given in ["", "0", "65", "-9", "SIGWHAT", "SIG"] {
            assert_eq!(parse_signal(given), None, "{given}");
        }
    }
}

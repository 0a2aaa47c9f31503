//! What a job is asked to do: the words that every room shares.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::confinement::{GrantedConfinement, ResourceLimits};
use crate::ids::TenantId;
use crate::trace::CallTrace;

pub use crate::output::Stream;
pub use shellyard_process::JOB_VARIABLE;

/// The lane of jobs that name none: only the slots bound it.
pub const DEFAULT_LANE: &str = "default";

/// A command to run, complete: defaults are already filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// What to run.
    pub program: JobProgram,
    /// Where to run it.
    pub cwd: PathBuf,
    /// Variables added to the job's environment.
    pub env: Vec<(String, String)>,
    /// What the job reads on its standard input.
    pub stdin: Stdin,
    /// Bounds on the run.
    pub limits: RunLimits,
    /// What it may use up.
    pub resources: ResourceLimits,
    /// How far it is shut in.
    pub confinement: GrantedConfinement,
    /// The doubt because of which it runs in a sandbox, where the policy says so.
    pub doubt: Option<Arc<str>>,
    /// What becomes of it when it writes a lot.
    pub on_large_output: LargeOutput,
    /// The caller's own words for it, shown in lists.
    pub description: Option<String>,
    /// The lane it queues in.
    pub lane: String,
    /// Its priority among its tenant's jobs.
    pub priority: Priority,
    /// How the shell runs shell text.
    pub shell: ShellUse,
    /// The shell that runs it; `None`: the configured one.
    pub shell_path: Option<String>,
    /// Whose job it is.
    pub tenant: TenantId,
    /// How long last bytes are waited for at most, once the leader has ended and its children hold
    /// its output open; `None`: as configured.
    pub drain_max: Option<Duration>,
    /// The call that asked for it.
    pub trace: CallTrace,
}

/// How the shell runs shell text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellUse {
    /// As it likes.
    Configured,
    /// So that it reads the text exactly as it was judged: no start-up files, no other dialect.
    AsJudged,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobProgram {
    /// Text for a shell.
    Shell(String),
    /// A program and its arguments, with no shell between.
    Direct {
        /// A path, or a name that is looked up in PATH.
        program: String,
        /// Its arguments, passed on as they are.
        args: Vec<String>,
    },
}

impl JobProgram {
    /// One line for logs and lists: the shell text, or the words of the direct call.
    #[must_use]
    pub fn display(&self) -> String {
        match self {
            Self::Shell(text) => text.clone(),
            Self::Direct { program, args } => {
                let mut line = program.clone();
                for arg in args {
                    line.push(' ');
                    line.push_str(arg);
                }
                line
            }
        }
    }
}

/// What a job reads on its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: the first read finds the end.
    Closed,
    /// This text, then the end.
    Text(String),
    /// A pipe that stays open for input that is sent later.
    Open,
    /// Whatever the server itself reads: for a command that a person runs from a shell.
    Inherited,
    /// A terminal: input, output and errors are one stream.
    Terminal,
}

/// Bounds on one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// The run is ended when it has taken this long.
    pub timeout: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// The run is ended when it has written more than this.
    pub output_bytes: u64,
    /// The run is ended when it has written more lines than this.
    pub output_lines: u64,
    /// From here on output is large.
    pub large_bytes: u64,
}

/// What becomes of a job that writes a lot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LargeOutput {
    /// All of it is kept, up to the job's bound, where the job is ended.
    Spill,
    /// Its beginning and its end are kept, and it runs to its own end.
    Truncate,
    /// It is ended.
    Error,
}

impl LargeOutput {
    /// Each with the word for it on the wire.
    pub const WORDS: [(&'static str, Self); 3] =
        [("spill", Self::Spill), ("truncate", Self::Truncate), ("error", Self::Error)];
}

/// Which of a tenant's waiting jobs comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// After the others.
    Low,
    /// In the order of arrival.
    #[default]
    Normal,
    /// Before the others.
    High,
}

impl Priority {
    /// Each with the word for it on the wire.
    pub const WORDS: [(&'static str, Self); 3] =
        [("low", Self::Low), ("normal", Self::Normal), ("high", Self::High)];
}

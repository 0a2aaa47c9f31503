//! What is asked of a new process, and what its owner gets.

use std::ffi::OsString;
use std::sync::Arc;

use super::at_hand;
use super::cwd::Cwd;
use super::leader::Leader;
use super::pipe::{InputPipe, OutputPipe};
use super::report::PipelineReport;
use super::tree::Tree;
use super::variable::Variable;
use crate::confinement::{Backend, ConfinedPlaces, Granted, ResourceLimits};

/// A process to start, complete: nothing is inherited from the server but its limits and its user.
#[derive(Debug, Clone)]
pub struct Launch {
    /// A path (relative to `cwd`), or a name that is looked up in the PATH of `env`.
    pub program: OsString,
    /// The arguments after the program's own name.
    pub args: Vec<OsString>,
    /// The program's own name, where it is not `program`.
    pub arg0: Option<OsString>,
    /// The whole environment. A variable named [`JOB_VARIABLE`](super::JOB_VARIABLE) marks the tree.
    pub env: Vec<Variable>,
    /// Where it runs.
    pub cwd: Cwd,
    /// What it reads.
    pub stdin: LaunchStdin,
    /// Whether it tells the exit codes of its last pipeline.
    pub report: Report,
    /// What it is kept from, and what it may use up.
    pub confine: Confine,
}

impl Launch {
    /// Whether an idle host starts it at once, where its program is at hand: its directory is on a
    /// disk of this host, and nothing has to be looked up or asked for to shut it in.
    #[must_use]
    pub fn is_quick(&self) -> bool {
        let is_quick = match self.confine.granted.backend {
            Backend::Nothing | Backend::Seccomp => true,
            Backend::Landlock | Backend::Namespaces => false,
        };
        is_quick && at_hand::is_known(self.cwd.path())
    }
}

/// What a process and all that comes out of it are kept from, and what they may use up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confine {
    /// How far it is shut in, and what does it.
    pub granted: Granted,
    /// What it may use up.
    pub limits: ResourceLimits,
    /// Where it may write, and what is hidden from it.
    pub places: Arc<ConfinedPlaces>,
}

impl Confine {
    /// Not at all.
    #[must_use]
    pub fn not() -> Self {
        let (granted, limits) = (Granted::NOTHING, ResourceLimits::NONE);
        Self { granted, limits, places: Arc::default() }
    }

    /// Whether there is nothing to do about it.
    pub(super) fn is_not(&self) -> bool {
        self.granted.backend == Backend::Nothing && self.limits == ResourceLimits::NONE
    }
}

/// What a process reads on its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchStdin {
    /// Nothing: the first read finds the end.
    Null,
    /// A pipe from us.
    Pipe,
    /// Whatever the server itself reads.
    Inherited,
    /// A new terminal, which is also its output and its controlling terminal.
    Terminal,
}

/// Whether a process tells the exit codes of its last pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// It does not.
    None,
    /// It does: its text was wrapped by [`super::shell::invocation`].
    Pipeline,
}

/// A process that runs, in the parts that different owners take.
#[derive(Debug)]
pub struct Process {
    /// The process itself: whoever holds this waits for it.
    pub leader: Leader,
    /// Everything that comes out of it.
    pub tree: Tree,
    /// What it writes to its standard output, or to its terminal.
    pub stdout: OutputPipe,
    /// What it writes to its standard error. A terminal has no second stream.
    pub stderr: Option<OutputPipe>,
    /// Where input goes, if it reads any.
    pub stdin: Option<InputPipe>,
    /// Where the exit codes of its last pipeline are found after the end.
    pub report: Option<PipelineReport>,
}

//! The messages between the server and a shim.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use shellyard_policy::gate::StartRefusal;

use super::ending::EndingNote;
use super::gate::StartCounts;
use crate::spawn_request::SpawnFailure;
use crate::syscalls::ChildExit;

/// A message from the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The first message: start the job. The file with the [`ShimPlan`](super::ShimPlan) is beside it,
    /// and then the files with these roles.
    Launch { roles: Vec<Role> },
    /// A new server wants to know everything: the answer is [`Report::State`].
    Attach,
    /// End the tree: this signal, and after the grace period SIGKILL. The first cause counts; the signal
    /// and the grace period of a later order replace those of an earlier one.
    Stop { signal: i32, grace: Duration, cause: String },
    /// Send this signal to every process.
    Signal(i32),
    /// Send these bytes as input. A server that has no free descriptor can order this too.
    Input { bytes: Vec<u8> },
    /// End the input after everything that was accepted.
    EndInput,
    /// The server has closed its copy of this file: close the other one.
    Close(Role),
    /// The server needs nothing more. The shim exits once the tree is over.
    Release,
    /// Send the content of the file beside this message as input.
    InputFile,
    /// The first message for a job with an exec gate: as [`Order::Launch`], and the rules of the gate are
    /// behind the plan. A shim of a release without gates does not understand it, and starts nothing.
    LaunchGated { roles: Vec<Role> },
    /// Let a start go on that waits for an answer, or refuse it.
    Answer { id: u64, is_allowed: bool },
}

/// The part of a terminal job that echoes typed text to the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum EchoMode {
    /// None: the input is a pipe, or the program asks for a password.
    #[default]
    Off,
    /// The terminal, at once.
    Terminal,
    /// The program itself, if it does: it reads key by key, as line editors do.
    Program,
}

/// A message from a shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The job runs its program, in processes with these numbers: the shim, and the job's first process.
    /// `None`: the numbers of the shim are those of its own namespace, and pidfds are beside this.
    Started(Option<(i32, i32)>),
    /// The job could not be started.
    Failed(SpawnFailure),
    /// The tree is being ended: a signal was sent for this cause.
    Ending(EndingNote),
    /// The first process has ended. If no other was left, [`Report::Over`] does not follow.
    LeaderExited(LeaderExit, EndingNote),
    /// No process of the job is left.
    Over(EndingNote),
    /// So many bytes of input were written since the start, the last ones with this echo.
    InputWritten { total: u64, echo: EchoMode },
    /// The answer to [`Order::Attach`], with the files of its roles beside it.
    State(Box<ShimState>),
    /// The job has closed its end of the input.
    InputClosed,
    /// The start of a program was refused.
    Refused(StartRefusal),
    /// The start of a program waits for an answer. Beside it is a file with the
    /// [`StartQuestion`](super::StartQuestion), if it still waits.
    Asks { id: u64 },
    /// A start does not wait any more: its process was killed, or the tree is being ended.
    AskOver { id: u64 },
    /// The starts that were judged and refused so far. Comes before the reports of both ends, and after
    /// the answer to [`Order::Attach`].
    Starts(StartCounts),
}

/// The end of a job's first process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaderExit {
    pub(crate) exit: ChildExit,
    /// The largest resident set of any process of the job that has ended so far; 0 if it is not above
    /// the shim's own.
    pub(crate) peak_rss_bytes: u64,
    /// `true` if no other process of the job was left.
    pub(crate) is_over: bool,
}

/// Everything that the next server needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShimState {
    /// The text that the server gave with the launch.
    pub(crate) saved: String,
    pub(crate) stage: Stage,
    pub(crate) note: EndingNote,
    /// The bytes of input that were accepted, and those that were written.
    pub(crate) input: (u64, u64),
    /// `true` if the input takes more.
    pub(crate) is_input_open: bool,
    pub(crate) roles: Vec<Role>,
}

/// The progress of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// Its first process does not run its program yet.
    Starting,
    /// The job could not be started.
    Failed(SpawnFailure),
    Running,
    /// The first process has ended; `is_over` is as of now.
    Exited(LeaderExit),
}

/// The role of a file that the server gives to a shim, or gets from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// The working directory of the job.
    Directory,
    /// The job's ends of its standard files.
    Stdin,
    Stdout,
    Stderr,
    /// The server's ends, held for the next server: the outputs, or the terminal.
    StdoutReader,
    StderrReader,
    /// The end of the input pipe that the shim writes to; for a terminal it is
    /// [`Role::StdoutReader`].
    StdinWriter,
    /// The file with the exit codes of the last pipeline.
    Report,
    /// The input that is there from the start.
    Input,
    /// The directory of the job's cgroup.
    Cgroup,
    /// The pidfds of the shim and of the job's first process.
    ShimProcess,
    LeaderProcess,
}

//! Why no process was started.

use std::io;

use thiserror::Error;

use crate::task_limit::TaskLimit;

/// Why no process was started. Each says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StartError {
    /// No such program.
    #[error("`{program}` was not found in PATH; check the name, or give its full path")]
    NotFound {
        /// What was asked for.
        program: String,
    },
    /// It exists but cannot be executed.
    #[error(
        "`{program}` cannot be executed: permission denied; make it executable (chmod +x), or run it with its interpreter"
    )]
    NotExecutable {
        /// What was asked for.
        program: String,
    },
    /// The working directory cannot be used.
    #[error("cannot run in `{cwd}`: {why}; give an existing directory as cwd")]
    BadCwd {
        /// The directory that was asked for.
        cwd: String,
        /// What is wrong with it.
        why: String,
    },
    /// Program, arguments and environment are more than the kernel takes.
    #[error(
        "command too long: {bytes} bytes of command, arguments and environment are more than this system takes; write the text to a file and run that, or pass it on stdin"
    )]
    TooLong {
        /// How much was given.
        bytes: usize,
    },
    /// A NUL byte in program, arguments, environment or cwd.
    #[error("{what} contains a NUL byte, which no program can be given; remove it")]
    NulByte {
        /// Where it was found.
        what: &'static str,
    },
    /// It could not be shut in as it has to be, and was not run with less.
    #[error(
        "the command was not run, because it could not be confined: {what} ({why}); `shellyard doctor` says what this host can do"
    )]
    Confinement {
        /// What could not be done.
        what: String,
        /// The system's own words.
        why: String,
    },
    /// There is no directory that it could be confined to.
    #[error("the command was not run, because it has no workspace: {why}")]
    NoWorkspace {
        /// Why not, and what to do.
        why: String,
    },
    /// No process could be created for it.
    #[error("`{program}` was not started: {why}; or try again when other processes have ended")]
    OutOfProcesses {
        /// What was asked for.
        program: String,
        /// Which limit is reached, and how to raise it.
        why: String,
    },
    /// Anything else that the system said.
    #[error("the system could not start `{program}`: {why}; try again when the host has room")]
    System {
        /// What was asked for.
        program: String,
        /// The system's own words.
        why: String,
    },
}

impl StartError {
    /// The reason for which the system gave no process or thread to start `program` with.
    #[must_use]
    pub fn from_system(program: String, error: &io::Error) -> Self {
        match TaskLimit::reached(error) {
            Some(limit) => Self::OutOfProcesses { program, why: limit.to_string() },
            None => Self::System { program, why: error.to_string() },
        }
    }

    /// The same with every text in it changed in this way.
    #[must_use]
    pub fn with_texts(self, change: impl Fn(String) -> String) -> Self {
        match self {
            Self::NotFound { program } => Self::NotFound { program: change(program) },
            Self::NotExecutable { program } => Self::NotExecutable { program: change(program) },
            Self::BadCwd { cwd, why } => Self::BadCwd { cwd: change(cwd), why: change(why) },
            Self::System { program, why } => {
                Self::System { program: change(program), why: change(why) }
            }
            Self::OutOfProcesses { program, why } => {
                Self::OutOfProcesses { program: change(program), why: change(why) }
            }
            Self::Confinement { what, why } => {
                Self::Confinement { what: change(what), why: change(why) }
            }
            Self::NoWorkspace { why } => Self::NoWorkspace { why: change(why) },
            Self::TooLong { bytes } => Self::TooLong { bytes },
            Self::NulByte { what } => Self::NulByte { what },
        }
    }

    /// The stable word that clients may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::NotExecutable { .. } => "not_executable",
            Self::BadCwd { .. } => "bad_cwd",
            Self::TooLong { .. } => "too_long",
            Self::NulByte { .. } => "nul_byte",
            Self::Confinement { .. } => "confinement",
            Self::NoWorkspace { .. } => "no_workspace",
            Self::OutOfProcesses { .. } => "out_of_processes",
            Self::System { .. } => "system",
        }
    }
}

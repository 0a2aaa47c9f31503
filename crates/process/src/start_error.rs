//! The reasons why a process could not be started, with messages for users.

use std::io;

use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use crate::load::{TaskLimit, describe_open_file_limit};

/// A reason why a process cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotStarted {
    /// No process was started.
    Failed(StartError),
    /// Its shim was killed before it said so: the program may have run.
    ShimLost,
}

impl From<StartError> for NotStarted {
    fn from(error: StartError) -> Self {
        Self::Failed(error)
    }
}

/// A reason why no process was started. Each message says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartError {
    /// The program does not exist.
    #[error("`{program}` was not found in PATH; check the name, or give its full path")]
    NotFound {
        /// The requested program.
        program: String,
    },
    /// The program exists but cannot be executed.
    #[error(
        "`{program}` cannot be executed: permission denied; make it executable (chmod +x), or run it with its interpreter"
    )]
    NotExecutable {
        /// The requested program.
        program: String,
    },
    /// The working directory cannot be used.
    #[error("cannot run in `{cwd}`: {why}; give an existing directory as cwd")]
    BadCwd {
        /// The requested directory.
        cwd: String,
        /// The reason of the error.
        why: String,
    },
    /// Program, arguments and environment are longer than the kernel accepts.
    #[error(
        "command too long: {bytes} bytes of command, arguments and environment are more than this system takes; write the text to a file and run that, or pass it on stdin"
    )]
    TooLong {
        /// The length of all of them together.
        bytes: usize,
    },
    /// A NUL byte in program, arguments, environment or working directory.
    #[error("{what} contains a NUL byte, which no program can be given; remove it")]
    NulByte {
        /// The value that contains it.
        #[serde(deserialize_with = "deserialize_nul_place")]
        what: StaticText,
    },
    /// The required sandbox could not be set up, and the process was not run with less.
    #[error(
        "the command was not run, because it could not be confined: {what} ({why}); `shellyard doctor` says what this host can do"
    )]
    Confinement {
        /// The step that failed.
        what: String,
        /// The system's own message.
        why: String,
    },
    /// The rules on programs do not allow it. No program was run.
    #[error("refused at its start: {why}")]
    Refused {
        /// The command and the reason.
        why: String,
    },
    /// No directory could serve as the workspace.
    #[error("the command was not run, because it has no workspace: {why}")]
    NoWorkspace {
        /// The reason, and what to do.
        why: String,
    },
    /// The system refused to create a process.
    #[error("`{program}` was not started: {why}; or try again when other processes have ended")]
    OutOfProcesses {
        /// The requested program.
        program: String,
        /// The limit that was reached, and how to raise it.
        why: String,
    },
    /// The system refused to open a file that the start needs.
    #[error("the command was not run: {why}; or try again when other jobs have ended")]
    OutOfFiles {
        /// The limit that was reached, and how to raise it.
        why: String,
    },
    /// Any other error of the system.
    #[error("the system could not start `{program}`: {why}; try again when the host has room")]
    System {
        /// The requested program.
        program: String,
        /// The system's own message.
        why: String,
    },
}

/// A text of this program. As a reference it could only be read from text that lives forever: serde takes every
/// reference for a part of its input.
type StaticText = &'static str;

/// The values of [`StartError::NulByte`].
const NUL_PLACES: [&str; 6] =
    ["the program's name", "an argument", "PATH", "the environment", "cwd", "command"];

/// Reads the place of a NUL byte; a place that this version does not know becomes `a value`.
fn deserialize_nul_place<'de, D: Deserializer<'de>>(input: D) -> Result<&'static str, D::Error> {
    let text = String::deserialize(input)?;
    Ok(NUL_PLACES.into_iter().find(|place| *place == text).unwrap_or("a value"))
}

impl StartError {
    /// Creates the error for a process, a thread or a file that the system did not provide for
    /// `program`.
    #[must_use]
    pub fn from_system(program: String, error: &io::Error) -> Self {
        if let Some(error) = Self::from_open_file_limit(error) {
            return error;
        }
        match TaskLimit::reached(error) {
            Some(limit) => Self::OutOfProcesses { program, why: limit.to_string() },
            None => Self::System { program, why: error.to_string() },
        }
    }

    /// Returns the error for a file that was refused because a limit on open files is reached; `None`
    /// if this error has another reason.
    pub(crate) fn from_open_file_limit(error: &io::Error) -> Option<Self> {
        describe_open_file_limit(error).map(|why| Self::OutOfFiles { why })
    }

    /// Returns the same error with `change` applied to every text in it.
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
            Self::OutOfFiles { why } => Self::OutOfFiles { why: change(why) },
            Self::Confinement { what, why } => {
                Self::Confinement { what: change(what), why: change(why) }
            }
            Self::NoWorkspace { why } => Self::NoWorkspace { why: change(why) },
            Self::Refused { why } => Self::Refused { why: change(why) },
            Self::TooLong { bytes } => Self::TooLong { bytes },
            Self::NulByte { what } => Self::NulByte { what },
        }
    }

    /// Returns the stable code word of the error.
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
            Self::Refused { .. } => "refused",
            Self::OutOfProcesses { .. } => "out_of_processes",
            Self::OutOfFiles { .. } => "out_of_files",
            Self::System { .. } => "system",
        }
    }
}

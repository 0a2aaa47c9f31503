//! The rules that the server gives with a job, and the facts of one program start.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::verdict::RunningProgram;

/// The rules of one job, as data: the server makes them, the shim of the job compiles them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GateRules {
    /// The only programs that may start; `None` sets no such limit.
    pub allow: Option<Vec<GateRule>>,
    /// Programs that never start.
    pub deny: Vec<GateRule>,
    /// Programs that start only with somebody's approval.
    pub ask: Vec<GateRule>,
    /// Names of programs, with wildcards, that may start anything if an allow rule names them.
    pub opens: Vec<String>,
    /// The files that the names in the rules stand for.
    pub files: Vec<KnownFile>,
    /// Names of variables that the call, not the server, gave to the job.
    pub given: Vec<String>,
}

/// One rule on programs, as the policy has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateRule {
    /// The rule without its scope, in the form that `PolicyRule::parse` reads.
    pub text: String,
    /// The rule's position in the configuration: `policy.deny[2]`.
    pub location: String,
    /// The absolute path that a path rule names, links followed, wildcards kept.
    pub path: Option<PathBuf>,
}

/// A file that a name in the rules stands for, as it was when the rules were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownFile {
    /// The absolute path, links followed.
    pub path: PathBuf,
    /// The device that the file is on.
    pub device: u64,
    /// The inode of the file.
    pub inode: u64,
    /// The change time of the inode: seconds and nanoseconds.
    pub changed: (i64, i64),
    /// Every name under which the file was found: `awk`, `mawk`, `git-core/git-remote-https`.
    pub names: Vec<String>,
}

/// A file that a start names, as the kernel has it now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedFile {
    /// The absolute path, links followed, in the job's own root.
    pub path: PathBuf,
    /// The device that the file is on.
    pub device: u64,
    /// The inode of the file.
    pub inode: u64,
    /// The change time of the inode: seconds and nanoseconds.
    pub changed: (i64, i64),
}

/// One call of `execve` whose file exists.
#[derive(Debug, Clone, Copy)]
pub struct ProgramStart<'a> {
    /// The program that the kernel loads: the interpreter if the named file is a script.
    pub file: &'a StartedFile,
    /// The named file if it is a script (`#!`).
    pub script: Option<&'a StartedFile>,
    /// The arguments that the caller passes. For a script not yet those of the interpreter.
    pub argv: &'a [Vec<u8>],
    /// Variables that the server did not give to the job with that value.
    pub changed_variables: &'a [(Vec<u8>, Vec<u8>)],
    /// The program that the process runs now, or that of its nearest known ancestor. `None` for
    /// the first program of a job and for a process whose ancestors are lost: both are judged
    /// strictly.
    pub starter: Option<&'a RunningProgram>,
}

impl<'a> ProgramStart<'a> {
    /// Returns the file that the start names: the script, or else the program.
    #[must_use]
    pub fn named_file(&self) -> &'a StartedFile {
        self.script.unwrap_or(self.file)
    }
}

/// Returns the last part of a path as text.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

//! The facts of one start, gathered while its task waits.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::Pid;
use shellyard_policy::gate::{
    ProgramKind, ProgramStart, RunningProgram, StartRefusal, StartRefusalReason,
};

use super::exec_call::{ExecCall, NamedFile};
use super::listener::{Listener, Notification};
use super::lookup::{RootIdentity, TaskView, open_link};
use super::program_file::{LoadedProgram, path_of};
use super::running_programs::RunningPrograms;
use super::tracing;
use super::verification::ExpectedImage;
use crate::env_variable::EnvVariable;
use crate::processes::parse_pid;

/// The first start of a job, which its leader makes. It is known from the plan: the memory of the leader
/// cannot be read, and nobody else could have changed it.
#[derive(Debug)]
pub(in crate::shim) struct LeaderStart {
    pub(in crate::shim) path: CString,
    pub(in crate::shim) argv: Vec<CString>,
    pub(in crate::shim) env: Vec<EnvVariable>,
    /// The directory from which a relative path starts.
    pub(in crate::shim) directory: OwnedFd,
}

/// Everything about a start that the judge, a question and the verification need.
#[derive(Debug)]
pub(super) struct StartFacts {
    pub(super) program: LoadedProgram,
    /// The arguments as the caller gave them.
    pub(super) argv: Vec<Vec<u8>>,
    pub(super) env: Vec<Vec<u8>>,
    pub(super) changed_variables: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) starter: Option<RunningProgram>,
    pub(super) directory: PathBuf,
}

/// A reason why a start cannot be judged.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// The call would fail by itself: there is nothing to start.
    Fails(Errno),
    /// Something cannot be read, so the start is refused.
    Unreadable(Box<StartRefusal>),
    /// The process is in another view of the file system, and below a program that may start anything.
    Elsewhere,
}

impl Obstacle {
    fn unreadable(what: &str, argv: &[Vec<u8>], starter: Option<&RunningProgram>) -> Self {
        Self::Unreadable(Box::new(unreadable(what, argv, starter)))
    }
}

/// Describes a start that is refused because this cannot be read.
pub(super) fn unreadable(
    what: &str,
    argv: &[Vec<u8>],
    starter: Option<&RunningProgram>,
) -> StartRefusal {
    let what = what.to_owned();
    StartRefusal::new(argv, starter, StartRefusalReason::Unreadable { what })
}

impl From<Errno> for Obstacle {
    fn from(errno: Errno) -> Self {
        Self::Fails(errno)
    }
}

/// The knowledge with which facts are gathered.
#[derive(Debug)]
pub(super) struct FactSource<'a> {
    pub(super) listener: &'a Listener,
    pub(super) running: &'a RunningPrograms,
    /// The variables that the server gave to the job.
    pub(super) given: &'a HashMap<Vec<u8>, Vec<u8>>,
    /// The root directory that the job began with.
    pub(super) home: Option<RootIdentity>,
}

impl FactSource<'_> {
    /// Gathers the facts of the first start.
    ///
    /// # Errors
    /// If it would fail by itself.
    pub(super) fn gather_first(
        &self,
        leader: Pid,
        start: &LeaderStart,
    ) -> Result<StartFacts, Obstacle> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = open("/", flags, Mode::empty())?;
        let directory = start.directory.try_clone().map_err(|_| Errno::MFILE)?;
        let view = TaskView { task: leader, process: leader, root, directory };
        let call = ExecCall {
            named: NamedFile {
                start: None,
                path: start.path.as_bytes().to_vec(),
                flags: AtFlags::empty(),
            },
            argv: start.argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
            env: start.env.iter().map(|variable| variable.as_bytes().to_vec()).collect(),
        };
        self.complete(&view, call, None)
    }

    /// Gathers the facts of any other start.
    ///
    /// # Errors
    /// If it would fail by itself, or if something cannot be read.
    pub(super) fn gather(&self, notification: &Notification) -> Result<StartFacts, Obstacle> {
        let task = notification.task;
        let process = process_of(task).ok_or(Errno::SRCH)?;
        let starter = self.running.find(process).cloned();
        let call = match ExecCall::read(notification) {
            Ok(call) => call,
            Err(Errno::PERM | Errno::ACCESS) => {
                let what = "the memory of the process, which is protected,";
                return Err(Obstacle::unreadable(what, &[], starter.as_ref()));
            }
            Err(errno) => return Err(errno.into()),
        };
        let root = open_link(task, "root")?;
        if self.home.is_none() || RootIdentity::read(task, &root).ok() != self.home {
            // A known program could load the libraries of that root.
            return Err(if opens(starter.as_ref()) {
                Obstacle::Elsewhere
            } else {
                let what = "the file, which lies in another root directory,";
                Obstacle::unreadable(what, &call.argv, starter.as_ref())
            });
        }
        let directory = open_link(task, "cwd")?;
        let view = TaskView { task, process, root, directory };
        // Everything up to here was read by number, and the number may belong to another task by now.
        if !self.listener.is_waiting(notification.id) {
            return Err(Errno::SRCH.into());
        }
        self.complete(&view, call, starter)
    }

    fn complete(
        &self,
        view: &TaskView,
        call: ExecCall,
        starter: Option<RunningProgram>,
    ) -> Result<StartFacts, Obstacle> {
        let (file, shown) = call.named.open(view)?;
        let program = LoadedProgram::find(view, &file, shown, &call.argv)?;
        let ExecCall { named: _, argv, env } = call;
        if program.is_nameless && !opens(starter.as_ref()) {
            let what = "the name of the file, which has none,";
            return Err(Obstacle::unreadable(what, &argv, starter.as_ref()));
        }
        Ok(StartFacts {
            program,
            argv,
            changed_variables: self.changed_variables(&env),
            env,
            starter,
            directory: path_of(&view.directory).unwrap_or_default(),
        })
    }

    fn changed_variables(&self, env: &[Vec<u8>]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let variables = env.iter().map(|variable| split_variable(variable));
        let is_changed = |(name, value): &(&[u8], &[u8])| {
            self.given.get(*name).is_none_or(|given| given != value)
        };
        let changed = variables.filter(is_changed);
        changed.map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
    }
}

impl StartFacts {
    pub(super) fn as_start(&self) -> ProgramStart<'_> {
        ProgramStart {
            file: self.program.loaded(),
            script: self.program.interpreter.as_ref().map(|_| &self.program.named),
            argv: &self.argv,
            changed_variables: &self.changed_variables,
            starter: self.starter.as_ref(),
        }
    }

    /// Returns what the kernel must have loaded in the end.
    pub(super) fn expected_image(&self) -> ExpectedImage {
        ExpectedImage {
            file: self.program.loaded().clone(),
            is_change_refused: !opens(self.starter.as_ref()),
            argv: self.program.argv.clone(),
            env: self.env.clone(),
        }
    }
}

/// `true` for a program that may start anything.
pub(super) fn opens(program: Option<&RunningProgram>) -> bool {
    program.is_some_and(|program| match program.kind {
        ProgramKind::Opens => true,
        ProgramKind::Judged | ProgramKind::Shell => false,
    })
}

/// Splits a variable into its name and its value.
pub(super) fn split_variable(variable: &[u8]) -> (&[u8], &[u8]) {
    let end = variable.iter().position(|byte| *byte == b'=').unwrap_or(variable.len());
    (&variable[..end], variable.get(end + 1..).unwrap_or_default())
}

/// Returns the process that a task belongs to.
fn process_of(task: Pid) -> Option<Pid> {
    if tracing::is_first_thread(task) {
        return Some(task);
    }
    let status = fs::read_to_string(format!("/proc/{task}/status")).ok()?;
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    parse_pid(number.trim().parse().ok()?)
}

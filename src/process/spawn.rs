//! Starting a process.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, FileType, accessat, statat};
use rustix::io::Errno;

use super::children::Child;
use super::cwd::{self, Cwd};
use super::host;
use super::launch::{Launch, Process, Report};
use super::leader::{self, Leader};
use super::members::Identity;
use super::plumbing::Plumbing;
use super::raw::{self, Action, Plan};
use super::report::{PipelineReport, REPORT_FD};
use super::tree::Tree;
use crate::outcome::StartError;
use crate::spec::JOB_VARIABLE;

/// What a shell searches when PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Starts a process in its own session, with nothing inherited but what `launch` says.
///
/// It has become its program when this returns. After an error there is no process. Must be
/// called inside a tokio runtime.
///
/// # Errors
/// Each reason has its own variant, see [`StartError`].
pub fn spawn(launch: &Launch) -> Result<Process, StartError> {
    let words = Words::of(launch)?;
    let own;
    let cwd = match &launch.cwd {
        Cwd::Path(path) => {
            own = cwd::open_directory(path)?;
            own.as_fd()
        }
        Cwd::Opened(directory) => directory.as_fd(),
    };
    let path = find_program(launch, cwd)?;
    let system = |error: io::Error| system_error(launch, &error);
    let report = match launch.report {
        Report::Pipeline => Some(PipelineReport::create().map_err(system)?),
        Report::None => None,
    };
    let plumbing = Plumbing::lay(launch.stdin).map_err(system)?;

    let mut actions = vec![Action::Chdir(cwd)];
    plumbing.theirs.actions(&mut actions);
    // Last, when no file that is still to be copied can have the number.
    actions.extend(report.as_ref().map(|r| Action::Dup { from: r.file(), to: REPORT_FD }));
    let plan =
        Plan { path: &path, argv: &words.argv, env: &words.env, actions: &actions, blocked: &[] };
    let born = raw::boot_ticks();
    let child = Child::create(|| raw::posix_spawn(&plan))
        .map_err(|errno| explain(errno, launch, &path, cwd))?;
    // First of all: the program is already running.
    let tag = host::mark_child(child.pid(), child.serial());
    let (child, pidfd) = leader::watch(child).map_err(system)?;
    let names = plumbing.theirs.names();
    let identity = Arc::new(Identity::new(child.pid(), born, tag, words.marker(), names));
    Ok(Process {
        leader: Leader::new(child, pidfd, Arc::clone(&identity)),
        tree: Tree::new(identity),
        stdout: plumbing.stdout,
        stderr: plumbing.stderr,
        stdin: plumbing.stdin,
        report,
    })
}

/// A launch's strings in the form that the kernel takes.
struct Words {
    argv: Vec<CString>,
    env: Vec<CString>,
}

impl Words {
    fn of(launch: &Launch) -> Result<Self, StartError> {
        let name = launch.arg0.as_ref().unwrap_or(&launch.program);
        let mut argv = vec![c_string(name.as_bytes().to_vec(), "the program's name")?];
        for arg in &launch.args {
            argv.push(c_string(arg.as_bytes().to_vec(), "an argument")?);
        }
        let env = launch.env.iter().map(|(name, value)| {
            c_string([name.as_bytes(), b"=", value.as_bytes()].concat(), "the environment")
        });
        Ok(Self { argv, env: env.collect::<Result<_, _>>()? })
    }

    /// The whole variable that marks the tree.
    fn marker(&self) -> Option<Vec<u8>> {
        let is_marker = |variable: &&CString| {
            variable
                .as_bytes()
                .strip_prefix(JOB_VARIABLE.as_bytes())
                .is_some_and(|v| v.starts_with(b"="))
        };
        self.env.iter().find(is_marker).map(|variable| variable.as_bytes().to_vec())
    }
}

fn c_string(bytes: Vec<u8>, what: &'static str) -> Result<CString, StartError> {
    CString::new(bytes).map_err(|_| StartError::NulByte { what })
}

/// The path to execute: what was given, if it is one, else the first match in PATH.
fn find_program(launch: &Launch, cwd: BorrowedFd<'_>) -> Result<CString, StartError> {
    let name = launch.program.as_bytes();
    if name.contains(&b'/') {
        return c_string(name.to_vec(), "the program's name");
    }
    let mut denied = false;
    for directory in search_path(launch).as_bytes().split(|byte| *byte == b':') {
        let directory =
            if directory.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(directory) };
        let path = Path::new(directory).join(&launch.program);
        match check_executable(&path, cwd) {
            Ok(()) => return c_string(path.into_os_string().into_vec(), "PATH"),
            Err(errno) => denied |= errno == Errno::ACCESS,
        }
    }
    Err(if denied { not_executable(launch) } else { not_found(launch) })
}

fn search_path(launch: &Launch) -> &OsStr {
    let set = launch.env.iter().rev().find(|(name, _)| name == "PATH");
    set.map_or(OsStr::new(DEFAULT_PATH), |(_, value)| value)
}

fn check_executable(path: &Path, cwd: BorrowedFd<'_>) -> Result<(), Errno> {
    let stat = statat(cwd, path, AtFlags::empty())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::NOENT);
    }
    accessat(cwd, path, Access::EXEC_OK, AtFlags::EACCESS)
}

/// Says what a failed `posix_spawn` means. It may come from the directory or from the program.
fn explain(errno: Errno, launch: &Launch, path: &CString, cwd: BorrowedFd<'_>) -> StartError {
    let exists = || accessat(cwd, path, Access::EXISTS, AtFlags::empty()).is_ok();
    match errno {
        Errno::TOOBIG => StartError::TooLong { bytes: bytes_in(launch) },
        Errno::ACCESS => match accessat(cwd, ".", Access::EXEC_OK, AtFlags::EACCESS) {
            Err(errno) => cwd::bad_cwd(launch.cwd.path(), errno),
            Ok(()) => not_executable(launch),
        },
        Errno::NOEXEC => not_executable(launch),
        Errno::NOENT if exists() => StartError::System {
            program: shown(&launch.program),
            why: "the interpreter that it names (its #! line, or its loader) does not exist".into(),
        },
        Errno::NOENT | Errno::NOTDIR => not_found(launch),
        other => system_error(launch, &other.into()),
    }
}

fn bytes_in(launch: &Launch) -> usize {
    let env = launch.env.iter().map(|(name, value)| name.len() + value.len() + 2);
    let args = launch.args.iter().map(|arg| arg.len() + 1);
    launch.program.len() + 1 + env.sum::<usize>() + args.sum::<usize>()
}

fn not_found(launch: &Launch) -> StartError {
    StartError::NotFound { program: shown(&launch.program) }
}

fn not_executable(launch: &Launch) -> StartError {
    StartError::NotExecutable { program: shown(&launch.program) }
}

fn system_error(launch: &Launch, error: &io::Error) -> StartError {
    StartError::System { program: shown(&launch.program), why: error.to_string() }
}

fn shown(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

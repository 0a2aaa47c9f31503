//! Starting a process.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, FileType, accessat, statat};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, getrlimit};

use super::birth::{self, Failure, Newborn, Order, Step};
use super::cwd::{self, Cwd};
use super::holdings::Holdings;
use super::host;
use super::launch::{Launch, Process, Report};
use super::leader::{self, Leader};
use super::members::Identity;
use super::plumbing::{Plumbing, Theirs};
use super::raw;
use super::report::PipelineReport;
use super::spawner::{self, Namespace, Offspring};
use super::surroundings::Surroundings;
use super::tag::Tag;
use super::tree::Tree;
use super::variable::Variable;
use crate::confinement::Backend;
use crate::host::JOB_VARIABLE;
use crate::start_error::StartError;

/// What a shell searches when PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Where programs look for the directory of their temporary files.
const TEMPORARY: &str = "TMPDIR";

/// Variables that tell programs of sockets through which other programs act for them: agents for
/// keys, buses, containers, terminals, displays, editors. Jobs whose files are limited cannot reach
/// those, and are not told of them.
const AGENTS: &[&str] = &[
    "BUILDKIT_HOST",
    "CONTAINERD_ADDRESS",
    "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_STARTER_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "EMACS_SOCKET_NAME",
    "GIT_ASKPASS",
    "GNOME_KEYRING_CONTROL",
    "GPG_AGENT_INFO",
    "INCUS_SOCKET",
    "KITTY_LISTEN_ON",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LXD_SOCKET",
    "NOTIFY_SOCKET",
    "NVIM",
    "NVIM_LISTEN_ADDRESS",
    "PIPEWIRE_REMOTE",
    "PULSE_SERVER",
    "SESSION_MANAGER",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "SSH_AUTH_SOCK",
    "STY",
    "SUDO_ASKPASS",
    "TMUX",
    "TMUX_PANE",
    "TMUX_TMPDIR",
    "VSCODE_GIT_IPC_HANDLE",
    "VSCODE_IPC_HOOK_CLI",
    "WAYLAND_DISPLAY",
    "WAYLAND_SOCKET",
    "WEZTERM_UNIX_SOCKET",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

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
    let born = raw::boot_ticks();
    let site = Site { launch, path: &path, cwd, theirs: &plumbing.theirs, report: report.as_ref() };
    let marker = words.marker();
    let Created { newborn, tag, holdings } = site.create(words)?;
    let (child, pidfd) = leader::watch(newborn).map_err(system)?;
    let names = plumbing.theirs.names();
    let identity = Identity::new(child.pid(), born, tag, marker, names).holding(holdings);
    let identity = Arc::new(identity);
    Ok(Process {
        leader: Leader::new(child, pidfd, Arc::clone(&identity)),
        tree: Tree::new(identity),
        stdout: plumbing.stdout,
        stderr: plumbing.stderr,
        stdin: plumbing.stdin,
        report,
    })
}

/// A new process, in its place among ours.
struct Created {
    newborn: Newborn,
    tag: Option<Tag>,
    holdings: Holdings,
}

/// Where a process is to be created, and what it is to be.
#[derive(Clone, Copy)]
struct Site<'a> {
    launch: &'a Launch,
    path: &'a CString,
    cwd: BorrowedFd<'a>,
    theirs: &'a Theirs,
    report: Option<&'a PipelineReport>,
}

impl Site<'_> {
    /// Creates it, shut in and limited: ourselves, or in namespaces by the spawner.
    fn create(self, mut words: Words) -> Result<Created, StartError> {
        let surroundings = Surroundings::make(self.launch)?;
        let marker = words.marker();
        if let Some(temporary) = surroundings.temporary() {
            words.forget_agents();
            words.set(TEMPORARY, temporary.as_os_str())?;
        }
        let order = Order {
            path: self.path.clone(),
            argv: words.argv,
            env: words.env,
            terminal: self.theirs.terminal().cloned(),
            tag: host::new_tag(),
            shut: surroundings.shut(&self.launch.confine),
        };
        let (newborn, namespace) = self.bear(&order, &surroundings).map_err(|failure| {
            if failure.step == Step::Request {
                self.end_unanswered(marker);
            }
            self.explain_failure(failure)
        })?;
        let holdings = Holdings::new(namespace, surroundings);
        Ok(Created { newborn, tag: order.tag, holdings })
    }

    fn bear(
        self,
        order: &Order,
        surroundings: &Surroundings,
    ) -> Result<(Newborn, Option<Namespace>), Failure> {
        let cgroup = surroundings.open_cgroup().map_err(|errno| Step::Cgroup.failed(errno))?;
        let cgroup = cgroup.as_ref().map(OwnedFd::as_fd);
        let files = self.theirs.files(self.cwd, self.report.map(PipelineReport::file));
        match order.shut.backend {
            Backend::Namespaces => {
                let Offspring { leader, namespace } = spawner::create(order, files, cgroup)?;
                if let Some(bequest) = host::bequest() {
                    bequest.check(leader.child.pid());
                }
                Ok((leader, Some(namespace)))
            }
            Backend::Landlock | Backend::Seccomp | Backend::Nothing => {
                birth::create(order, files, cgroup).map(|leader| (leader, None))
            }
        }
    }

    /// Ends the process of a launch that was not answered: the spawner may have died right after it
    /// created one. It is known by what it carries, for nobody knows its number.
    fn end_unanswered(self, marker: Option<Vec<u8>>) {
        let nobody = Identity::new(Pid::INIT, 0, None, marker, self.theirs.names());
        nobody.leader_was_reaped();
        // Who is left even so is ended with the server.
        drop(Tree::new(Arc::new(nobody)).kill());
    }

    fn explain(self, errno: Errno) -> StartError {
        explain(errno, self.launch, self.path, self.cwd)
    }

    /// Says what a failed step means.
    fn explain_failure(self, Failure { step, errno }: Failure) -> StartError {
        if let Errno::MFILE | Errno::AGAIN = errno {
            // No matter of the step: each of them may need a file, or create a process.
            return system_error(self.launch, &errno.into());
        }
        let why = || io::Error::from(errno).to_string();
        match step {
            Step::Program => self.explain(errno),
            Step::Directory => cwd::bad_cwd(self.launch.cwd.path(), errno),
            Step::Request | Step::Birth | Step::Files | Step::Session => StartError::System {
                program: shown(&self.launch.program),
                why: format!("{}: {}", step.what(), why()),
            },
            Step::Cgroup
            | Step::Namespaces
            | Step::UserMap
            | Step::Network
            | Step::Mounts
            | Step::Place
            | Step::Processes
            | Step::Limits
            | Step::Capabilities
            | Step::Privileges
            | Step::Landlock
            | Step::Filter => StartError::Confinement { what: step.what().to_owned(), why: why() },
        }
    }
}

/// A launch's strings in the form that the kernel takes.
struct Words {
    argv: Vec<CString>,
    env: Vec<Variable>,
}

impl Words {
    fn of(launch: &Launch) -> Result<Self, StartError> {
        let name = launch.arg0.as_ref().unwrap_or(&launch.program);
        let mut argv = vec![c_string(name.as_bytes().to_vec(), "the program's name")?];
        for arg in &launch.args {
            argv.push(c_string(arg.as_bytes().to_vec(), "an argument")?);
        }
        Ok(Self { argv, env: launch.env.clone() })
    }

    /// Leaves out what leads to agents.
    fn forget_agents(&mut self) {
        self.env.retain(|variable| AGENTS.iter().all(|name| variable.name() != *name));
    }

    /// Sets a variable, instead of whatever value it has.
    fn set(&mut self, name: &str, value: &OsStr) -> Result<(), StartError> {
        self.env.retain(|variable| variable.name() != name);
        self.env.push(Variable::new(name, value)?);
        Ok(())
    }

    /// The whole variable that marks the tree.
    fn marker(&self) -> Option<Vec<u8>> {
        let is_marker = |variable: &&Variable| variable.name() == JOB_VARIABLE;
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
    let set = launch.env.iter().rev().find(|variable| variable.name() == "PATH");
    set.map_or(OsStr::new(DEFAULT_PATH), Variable::value)
}

fn check_executable(path: &Path, cwd: BorrowedFd<'_>) -> Result<(), Errno> {
    let stat = statat(cwd, path, AtFlags::empty())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::NOENT);
    }
    accessat(cwd, path, Access::EXEC_OK, AtFlags::EACCESS)
}

/// Says what it means that the program could not be executed.
fn explain(errno: Errno, launch: &Launch, path: &CString, cwd: BorrowedFd<'_>) -> StartError {
    let exists = || accessat(cwd, path, Access::EXISTS, AtFlags::empty()).is_ok();
    // Only in a namespace does a link lead elsewhere for the job than for us.
    let is_link = || {
        let found = statat(cwd, path, AtFlags::SYMLINK_NOFOLLOW);
        let is_link = |mode| FileType::from_raw_mode(mode) == FileType::Symlink;
        launch.confine.granted.backend == Backend::Namespaces
            && found.is_ok_and(|found| is_link(found.st_mode))
    };
    match errno {
        Errno::TOOBIG => StartError::TooLong { bytes: bytes_in(launch) },
        Errno::ACCESS | Errno::NOEXEC => not_executable(launch),
        Errno::NOENT if exists() && is_link() => StartError::System {
            program: shown(&launch.program),
            why: "what it links to is not seen in the job's sandbox: see confinement.show".into(),
        },
        Errno::NOENT if exists() => StartError::System {
            program: shown(&launch.program),
            why: "the interpreter that it names (its #! line, or its loader) does not exist".into(),
        },
        Errno::NOENT | Errno::NOTDIR => not_found(launch),
        other => system_error(launch, &other.into()),
    }
}

fn bytes_in(launch: &Launch) -> usize {
    let env = launch.env.iter().map(|variable| variable.as_bytes().len() + 1);
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
    let program = shown(&launch.program);
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => StartError::System { program, why: out_of_files() },
        Some(_) | None => StartError::from_system(program, error),
    }
}

/// It is our own limit, which we raised at start as far as we may.
pub(super) fn out_of_files() -> String {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    format!(
        "this server may open {most} files and has them open, up to five for each running job; \
         raise its hard limit (ulimit -Hn, LimitNOFILE in systemd) or lower queue.slots"
    )
}

fn shown(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

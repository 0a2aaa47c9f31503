//! Starts a process from its description, with its pipes, its sandbox and its limits: the server prepares
//! everything, the keeper forks a shim, and the shim starts the process.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, FileType, accessat, statat};
use rustix::io::Errno;

use crate::confinement::Backend;
use crate::env_variable::EnvVariable;
use crate::host::{Host, SavedProcess};
use crate::job_resources::SandboxResources;
use crate::launch::{self, CommandLine, Cwd, LaunchStdin, ProcessLaunch, ReportMode};
use crate::process::Process;
use crate::sandbox::restrictions;
use crate::sandbox::scratch::user_directory;
use crate::shell::PipelineReport;
use crate::shim::{Isolation, Role, ShimPlan, memory_file};
use crate::shim_link::{ShimLink, StartFailure};
use crate::spawn_request::{SpawnFailure, SpawnRequest, SpawnStep};
use crate::start_error::{NotStarted, StartError};
use crate::stdio::{ChildStdio, StdioPipes};
use crate::tree::ProcessTree;

/// The PATH that a shell searches if none is set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variable with the directory for temporary files.
const TEMPORARY: &str = "TMPDIR";

/// Variables that point programs to sockets through which other programs act for them: agents for
/// keys, buses, containers, terminals, displays, editors. Jobs with limited files cannot reach
/// those, so the variables are removed.
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

/// A process that is being started: its shim exists, or will. Dropping it ends the process.
#[derive(Debug)]
pub struct StartingProcess {
    process: Process,
    launch: ProcessLaunch,
    path: CString,
    directory: OwnedFd,
}

impl StartingProcess {
    /// Returns the process once it runs its program. A program on a disk that does not answer may take
    /// for ever.
    ///
    /// # Errors
    /// Each reason has its own variant, see [`StartError`]. No process is left then.
    pub async fn started(mut self) -> Result<Process, NotStarted> {
        let started = self.process.events.started().await;
        self.finish(started)
    }

    /// Does the same, and blocks.
    ///
    /// # Errors
    /// As [`Self::started`].
    pub fn wait(self) -> Result<Process, StartError> {
        let started = self.process.tree.link().wait_for_start();
        let program = to_text(&self.launch.command.program);
        self.finish(started).map_err(|error| match error {
            NotStarted::Failed(error) => error,
            NotStarted::ShimLost => StartError::System {
                program,
                why: "the process that was to start it was killed, or got no descriptors"
                    .to_owned(),
            },
        })
    }

    fn finish(self, started: Result<(), StartFailure>) -> Result<Process, NotStarted> {
        let Self { process, launch, path, directory } = self;
        match started {
            Ok(()) => Ok(process),
            Err(StartFailure::Step(SpawnFailure { step: SpawnStep::Refused, .. })) => {
                let refusal = process.tree.link().last_refusal();
                let why =
                    refusal.map_or("its start was not approved".to_owned(), |it| it.to_string());
                Err(StartError::Refused { why }.into())
            }
            Err(StartFailure::Step(failure)) => {
                Err(explain_failure(failure, &launch, &path, directory.as_fd()).into())
            }
            Err(StartFailure::ShimLost) => Err(NotStarted::ShimLost),
        }
    }
}

impl Host {
    /// `true` if nothing is looked up for this process that could take long: its program is not searched
    /// for in PATH, its directory is on a local disk, and its sandbox needs no search.
    #[must_use]
    pub fn is_quick_to_start(&self, launch: &ProcessLaunch) -> bool {
        let is_quick = match launch.sandbox.granted.backend {
            Backend::Nothing | Backend::Seccomp => true,
            Backend::Landlock | Backend::Namespaces => false,
        };
        let is_path = launch.command.program.as_bytes().contains(&b'/');
        is_quick && is_path && self.local_dirs().contains(launch.cwd.path())
    }

    /// Starts a process in its own session, and waits until it runs its program; it inherits only what
    /// `launch` says. Blocks. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// Each reason has its own variant, see [`StartError`].
    pub fn spawn(&self, launch: &ProcessLaunch) -> Result<Process, StartError> {
        self.begin_start(launch.clone())?.wait()
    }

    /// Begins to start a process: from now on it starts whatever happens to this server. Blocks while
    /// its program and its directories are looked up. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// Each reason has its own variant, see [`StartError`].
    pub fn begin_start(&self, launch: ProcessLaunch) -> Result<StartingProcess, StartError> {
        let argv = build_argv(&launch.command)?;
        let system = |error: io::Error| system_error(&launch, &error);
        let directory = match &launch.cwd {
            Cwd::Path(path) => launch::open_directory(path, self.local_dirs())?,
            Cwd::Opened(directory) => directory.as_fd().try_clone_to_owned().map_err(system)?,
        };
        let path = find_program(&launch, directory.as_fd())?;
        let report = match launch.command.report {
            ReportMode::Pipeline => Some(PipelineReport::create().map_err(system)?),
            ReportMode::None => None,
        };
        let pipes = StdioPipes::open(&launch.stdin, launch.streams).map_err(system)?;
        let resources = self.create_sandbox_resources(&launch)?;
        let sandbox = self.sandbox_rules(&resources, &launch.sandbox);
        let isolation = match sandbox.backend {
            Backend::Namespaces => Isolation::Namespaces(sandbox.confinement.network),
            Backend::Landlock | Backend::Seccomp | Backend::Nothing => Isolation::None,
        };
        let filters = sandbox.call_rules().map(|rules| self.filters().get(rules)).transpose();
        let filters = filters.map_err(system)?.unwrap_or_default();
        let shared = prepare_for_user(&launch, &resources, &pipes.child_stdio)?;
        let names = pipes.child_stdio.input_names();
        let saved = SavedProcess::new(&names, pipes.stderr.is_some(), resources.save());
        let plan = ShimPlan {
            filters: (*filters).clone(),
            max_tasks: restrictions::max_tasks(&sandbox.limits, sandbox.backend),
            request: SpawnRequest {
                path: path.clone(),
                argv,
                env: build_env(&launch, resources.temporary().or(shared.as_deref()))?,
                terminal: pipes.child_stdio.terminal().cloned(),
                user: launch.user.clone(),
                sandbox,
            },
            open_files: self.job_open_files(),
            directory: self.full_path(&launch.cwd, &directory, isolation)?,
            isolation,
            deadline: launch.deadline,
            ends_input: matches!(launch.stdin, LaunchStdin::Text(_)),
            saved: saved.to_text().unwrap_or_default(),
            gate: launch.gate.as_deref().cloned(),
        };
        let cgroup = resources.open_cgroup().map_err(|errno| system(errno.into()))?;
        let input = launch.stdin.first_input().map(memory_file).transpose().map_err(system)?;
        let mut files = pipes.files();
        files.push((Role::Directory, directory.as_fd()));
        files.extend(cgroup.as_ref().map(|file| (Role::Cgroup, file.as_fd())));
        files.extend(input.as_ref().map(|file| (Role::Input, file.as_fd())));
        files.extend(report.as_ref().map(|report| (Role::Report, report.file())));
        let name = launch.keep_as.as_deref().unwrap_or_default();
        let link =
            ShimLink::launch(self.keeper(), name, &plan, files, resources).map_err(system)?;
        let is_terminal = matches!(launch.stdin, LaunchStdin::Terminal(_));
        let tree = ProcessTree::new(link, names, Arc::clone(self.cgroups()));
        let process = Process::new(tree, pipes, report, is_terminal).map_err(system)?;
        Ok(StartingProcess { process, launch, path, directory })
    }

    /// Returns the path under which a job enters its directory. In a view of its own it must lead there
    /// without symlinks.
    fn full_path(
        &self,
        cwd: &Cwd,
        directory: &OwnedFd,
        isolation: Isolation,
    ) -> Result<PathBuf, StartError> {
        match (isolation, cwd) {
            (Isolation::None, _) | (_, Cwd::Opened(_)) => Ok(cwd.path().to_owned()),
            (Isolation::Namespaces(_), Cwd::Path(path)) => {
                launch::resolve_path(directory).map_err(|errno| launch::bad_cwd(path, errno))
            }
        }
    }
}

/// Converts a failed step into an error.
fn explain_failure(
    SpawnFailure { step, errno }: SpawnFailure,
    launch: &ProcessLaunch,
    path: &CString,
    cwd: BorrowedFd<'_>,
) -> StartError {
    if let Errno::MFILE | Errno::NFILE | Errno::AGAIN = errno {
        // This is independent of the step: each of them may need a file, or create a process.
        return system_error(launch, &errno.into());
    }
    let why = || io::Error::from(errno).to_string();
    match step {
        SpawnStep::Program => explain(errno, launch, path, cwd),
        SpawnStep::Refused => StartError::Refused { why: step.description().to_owned() },
        SpawnStep::Directory => launch::bad_cwd(launch.cwd.path(), errno),
        SpawnStep::Clone | SpawnStep::Files | SpawnStep::Session => StartError::System {
            program: to_text(&launch.command.program),
            why: format!("{}: {}", step.description(), why()),
        },
        SpawnStep::Cgroup
        | SpawnStep::Namespaces
        | SpawnStep::UserMap
        | SpawnStep::Network
        | SpawnStep::Mounts
        | SpawnStep::EnterDirectory
        | SpawnStep::Processes
        | SpawnStep::Limits
        | SpawnStep::User
        | SpawnStep::Capabilities
        | SpawnStep::Privileges
        | SpawnStep::Landlock
        | SpawnStep::Filter
        | SpawnStep::Gate => {
            StartError::Confinement { what: step.description().to_owned(), why: why() }
        }
    }
}

/// Returns the arguments with the program's own name, in the form that the kernel takes.
fn build_argv(command: &CommandLine) -> Result<Vec<CString>, StartError> {
    let name = command.arg0.as_ref().unwrap_or(&command.program);
    let mut argv = vec![c_string(name.as_bytes().to_vec(), "the program's name")?];
    for arg in &command.args {
        argv.push(c_string(arg.as_bytes().to_vec(), "an argument")?);
    }
    Ok(argv)
}

/// Returns the environment of the process. With a temporary directory of its own, `TMPDIR` names
/// that, and the variables of [`AGENTS`] are removed.
fn build_env(
    launch: &ProcessLaunch,
    temporary: Option<&Path>,
) -> Result<Vec<EnvVariable>, StartError> {
    let mut env = launch.env.clone();
    if let Some(temporary) = temporary {
        let is_replaced = |name: &OsStr| name == TEMPORARY || AGENTS.iter().any(|it| name == *it);
        env.retain(|variable| !is_replaced(variable.name()));
        env.push(EnvVariable::new(TEMPORARY, temporary)?);
    }
    Ok(env)
}

/// Gives a process of another user its standard files. Returns the directory for its temporary files, if
/// it has none of its own and the server has a place for it.
fn prepare_for_user(
    launch: &ProcessLaunch,
    resources: &SandboxResources,
    child_stdio: &ChildStdio,
) -> Result<Option<PathBuf>, StartError> {
    let Some(user) = &launch.user else { return Ok(None) };
    child_stdio
        .give_to(user, &launch.stdin)
        .map_err(|errno| system_error(launch, &errno.into()))?;
    let root = &launch.sandbox.paths.scratch;
    if resources.temporary().is_some() || !root.is_absolute() {
        return Ok(None);
    }
    let made = user_directory(root, user);
    made.map(Some).map_err(|error| StartError::Confinement {
        what: "the directory for temporary files of its user could not be made".to_owned(),
        why: error.to_string(),
    })
}

fn c_string(bytes: Vec<u8>, what: &'static str) -> Result<CString, StartError> {
    CString::new(bytes).map_err(|_| StartError::NulByte { what })
}

/// Returns the path to execute: `program` itself if it is a path, otherwise the first match in
/// PATH.
fn find_program(launch: &ProcessLaunch, cwd: BorrowedFd<'_>) -> Result<CString, StartError> {
    let name = launch.command.program.as_bytes();
    if name.contains(&b'/') {
        return c_string(name.to_vec(), "the program's name");
    }
    let mut denied = false;
    for directory in search_path(launch).as_bytes().split(|byte| *byte == b':') {
        let directory =
            if directory.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(directory) };
        let path = Path::new(directory).join(&launch.command.program);
        match check_executable(&path, cwd) {
            Ok(()) => return c_string(path.into_os_string().into_vec(), "PATH"),
            Err(errno) => denied |= errno == Errno::ACCESS,
        }
    }
    Err(if denied { not_executable(launch) } else { not_found(launch) })
}

fn search_path(launch: &ProcessLaunch) -> &OsStr {
    let set = launch.env.iter().rev().find(|variable| variable.name() == "PATH");
    set.map_or(OsStr::new(DEFAULT_PATH), EnvVariable::value)
}

fn check_executable(path: &Path, cwd: BorrowedFd<'_>) -> Result<(), Errno> {
    let stat = statat(cwd, path, AtFlags::empty())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::NOENT);
    }
    accessat(cwd, path, Access::EXEC_OK, AtFlags::EACCESS)
}

/// Explains why the program could not be executed.
fn explain(
    errno: Errno,
    launch: &ProcessLaunch,
    path: &CString,
    cwd: BorrowedFd<'_>,
) -> StartError {
    let exists = || accessat(cwd, path, Access::EXISTS, AtFlags::empty()).is_ok();
    // Only in a namespace can a link lead elsewhere for the job than for us.
    let is_link = || {
        let found = statat(cwd, path, AtFlags::SYMLINK_NOFOLLOW);
        let is_link = |mode| FileType::from_raw_mode(mode) == FileType::Symlink;
        launch.sandbox.granted.backend == Backend::Namespaces
            && found.is_ok_and(|found| is_link(found.st_mode))
    };
    match errno {
        Errno::TOOBIG => StartError::TooLong { bytes: bytes_in(launch) },
        Errno::ACCESS | Errno::NOEXEC => not_executable(launch),
        Errno::NOENT if exists() && is_link() => StartError::System {
            program: to_text(&launch.command.program),
            why: "what it links to is not seen in the job's sandbox: see confinement.show".into(),
        },
        Errno::NOENT if exists() => StartError::System {
            program: to_text(&launch.command.program),
            why: "the interpreter that it names (its #! line, or its loader) does not exist".into(),
        },
        Errno::NOENT | Errno::NOTDIR => not_found(launch),
        other => system_error(launch, &other.into()),
    }
}

fn bytes_in(launch: &ProcessLaunch) -> usize {
    let env = launch.env.iter().map(|variable| variable.as_bytes().len() + 1);
    let args = launch.command.args.iter().map(|arg| arg.len() + 1);
    launch.command.program.len() + 1 + env.sum::<usize>() + args.sum::<usize>()
}

fn not_found(launch: &ProcessLaunch) -> StartError {
    StartError::NotFound { program: to_text(&launch.command.program) }
}

fn not_executable(launch: &ProcessLaunch) -> StartError {
    StartError::NotExecutable { program: to_text(&launch.command.program) }
}

fn system_error(launch: &ProcessLaunch, error: &io::Error) -> StartError {
    StartError::from_system(to_text(&launch.command.program), error)
}

fn to_text(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    //! Tests of the whole crate with real processes. They run concurrently in one process, as jobs
    //! do.

    use std::collections::BTreeSet;
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::host::host;
    use crate::processes::{self, pid_number};
    use crate::{
        Deadline, EndCause, ExitKind, InputWait, LeaderEnd, OpenedDir, OutputPipe, ProcessEvent,
        ProcessEvents, SandboxSpec, StreamMode, TerminalSize, TreeActivity, cgroup, shell,
        syscalls, thread_cpu_time,
    };

    const DEADLINE: Duration = Duration::from_secs(30);

    fn launch(program: &str, args: &[&str]) -> ProcessLaunch {
        let path = EnvVariable::new("PATH", "/usr/local/bin:/usr/bin:/bin").unwrap();
        ProcessLaunch {
            command: CommandLine::new_direct(program, args),
            env: vec![path],
            cwd: "/".into(),
            stdin: LaunchStdin::Null,
            streams: StreamMode::Separate,
            sandbox: SandboxSpec::none(),
            user: None,
            keep_as: None,
            deadline: None,
            gate: None,
        }
    }

    fn sh(text: &str) -> ProcessLaunch {
        launch("sh", &["-c", text])
    }

    fn with_stdin(stdin: LaunchStdin, launch: ProcessLaunch) -> ProcessLaunch {
        ProcessLaunch { stdin, ..launch }
    }

    async fn read_all(mut pipe: OutputPipe) -> String {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).await.unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Returns the exit status and everything that the process wrote.
    async fn run(launch: &ProcessLaunch) -> (ExitKind, String, String) {
        let Process { mut events, stdout, stderr, .. } = host().spawn(launch).unwrap();
        let stderr = async {
            match stderr {
                Some(pipe) => read_all(pipe).await,
                None => String::new(),
            }
        };
        let ended = async { tokio::join!(read_all(stdout), stderr, events.wait()) };
        let (stdout, stderr, exit) = tokio::time::timeout(DEADLINE, ended).await.unwrap();
        (exit.unwrap().status, stdout, stderr)
    }

    async fn output_of(text: &str) -> String {
        run(&sh(text)).await.1
    }

    /// Writes an executable, by another process: if it were open for writing here, a child that is
    /// just being created would hold it open too, and the kernel would refuse to run it.
    async fn write_script(path: &Path, text: &str) {
        let write = r#"printf '%s\n' "$2" >"$1"; chmod 755 "$1""#;
        let written = run(&launch("sh", &["-c", write, "sh", path.to_str().unwrap(), text])).await;
        assert_eq!(written.0, ExitKind::Code(0), "{written:?}");
    }

    async fn first_line(pipe: &mut OutputPipe) -> String {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            line.push(tokio::time::timeout(DEADLINE, pipe.read_u8()).await.unwrap().unwrap());
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    async fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !holds() {
            assert!(Instant::now() < deadline, "never happened: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits for the end of the first process.
    async fn leader_end(events: &mut ProcessEvents) -> LeaderEnd {
        let end = async {
            loop {
                match events.next().await {
                    ProcessEvent::LeaderExited(end) => return end,
                    ProcessEvent::ShimLost | ProcessEvent::StartFailed { .. } => panic!("no end"),
                    ProcessEvent::Ending(_)
                    | ProcessEvent::Over(_)
                    | ProcessEvent::InputWritten { .. }
                    | ProcessEvent::InputClosed
                    | ProcessEvent::Gate(_) => {}
                }
            }
        };
        tokio::time::timeout(DEADLINE, end).await.unwrap()
    }

    async fn exit_status(process: &mut Process) -> ExitKind {
        leader_end(&mut process.events).await.exit.status
    }

    async fn kill(tree: &ProcessTree) -> bool {
        let tree = tree.clone();
        tokio::task::spawn_blocking(move || tree.kill()).await.unwrap()
    }

    fn is_alive(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    #[tokio::test]
    async fn an_exit_code_and_both_streams_come_back() {
        for code in [0, 1, 3, 127, 255] {
            let ended = run(&sh(&format!("echo out; echo err >&2; exit {code}"))).await;
            assert_eq!(ended, (ExitKind::Code(code), "out\n".into(), "err\n".into()));
        }
    }

    #[tokio::test]
    async fn merged_streams_keep_their_order_with_every_kind_of_input() {
        let text = "for i in 1 2 3; do echo out $i; echo err $i >&2; done";
        let expected = "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n".to_owned();
        for stdin in [LaunchStdin::Null, LaunchStdin::Pipe, LaunchStdin::Inherited] {
            let streams = StreamMode::Merged;
            let launch = ProcessLaunch { streams, stdin: stdin.clone(), ..sh(text) };
            let ended = run(&launch).await;
            assert_eq!(ended, (ExitKind::Code(0), expected.clone(), String::new()), "{stdin:?}");
        }
    }

    #[tokio::test]
    async fn a_signal_is_not_an_exit_code() {
        for signal in [1, 9, 13, 15] {
            let (status, ..) = run(&sh(&format!("kill -{signal} $$"))).await;
            assert_eq!(status, ExitKind::Signal { signal, core: false });
        }
    }

    #[tokio::test]
    async fn usage_counts_cpu_time_and_memory() {
        let text = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let mut busy = host().spawn(&sh(text)).unwrap();
        let busy = leader_end(&mut busy.events).await.exit.usage;
        assert!(busy.cpu > Duration::from_millis(5), "{busy:?}");
        let hungry = "head -c 200000000 /dev/zero | tail -c 200000000 | wc -c";
        let mut hungry = host().spawn(&sh(hungry)).unwrap();
        let hungry = leader_end(&mut hungry.events).await;
        for peak in [hungry.peak_rss_bytes, hungry.exit.usage.max_rss_bytes] {
            assert!((190_000_000..900_000_000).contains(&peak), "{hungry:?}");
        }
    }

    #[tokio::test]
    async fn the_peak_of_an_orphan_that_ended_before_the_first_process_counts() {
        let text = "(setsid python3 -c 'x = b\"x\" * 200_000_000; print(\"up\")' &); read x";
        let gated = with_stdin(LaunchStdin::Pipe, sh(text));
        let mut process = host().spawn(&gated).unwrap();
        assert_eq!(first_line(&mut process.stdout).await, "up");
        until("only the shell is left", || process.tree.living_pids().len() == 1).await;
        drop(process.stdin.take());
        let end = leader_end(&mut process.events).await;
        assert!(end.peak_rss_bytes > 190_000_000, "{end:?}");
        assert!(end.exit.usage.max_rss_bytes < 190_000_000, "{end:?}");
    }

    #[tokio::test]
    async fn the_environment_is_exactly_what_was_given() {
        let mut launch = launch("env", &[]);
        launch.env.push(EnvVariable::new("EMPTY", "").unwrap());
        let (_, stdout, _) = run(&launch).await;
        let expected = launch.env.iter().map(EnvVariable::as_bytes);
        assert_eq!(
            stdout.lines().map(str::as_bytes).collect::<Vec<_>>(),
            expected.collect::<Vec<_>>()
        );
    }

    #[tokio::test]
    async fn a_process_runs_in_its_directory_under_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("here");
        write_script(&script, "#!/bin/sh\npwd -P; echo $0").await;
        let launch = ProcessLaunch { cwd: directory.path().into(), ..launch("./here", &[]) };
        let real = directory.path().canonicalize().unwrap();
        assert_eq!(run(&launch).await.1, format!("{}\n./here\n", real.display()));

        let mut named = sh("echo $0");
        named.command.arg0 = Some("other".into());
        assert_eq!(run(&named).await.1, "other\n");
    }

    #[tokio::test]
    async fn a_process_runs_in_the_opened_directory_wherever_the_path_leads_now() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let link = root.join("link");
        let first = root.join("first");
        let second = root.join("second");
        std::fs::create_dir(&first).unwrap();
        std::fs::create_dir(&second).unwrap();
        std::os::unix::fs::symlink(&first, &link).unwrap();
        let opened = Arc::new(OpenedDir::open(&link).unwrap());
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&second, &link).unwrap();

        let there = |cwd: Cwd| ProcessLaunch { cwd, ..sh("pwd -P; ls /proc/self/fd | wc -l") };
        let before = format!("{}\n4\n", first.display());
        assert_eq!(run(&there(Cwd::Opened(Arc::clone(&opened)))).await.1, before);
        assert_eq!(run(&there(link.into())).await.1, format!("{}\n4\n", second.display()));
        std::fs::rename(&first, root.join("moved")).unwrap();
        let moved = format!("{}\n4\n", root.join("moved").display());
        assert_eq!(run(&there(Cwd::Opened(opened))).await.1, moved);
    }

    #[tokio::test]
    async fn no_file_leaks_into_a_process() {
        let _open_here = File::open("/dev/null").unwrap();
        let _running = host().spawn(&with_stdin(LaunchStdin::Pipe, sh("cat"))).unwrap();
        for stdin in
            [LaunchStdin::Null, LaunchStdin::Pipe, LaunchStdin::Terminal(TerminalSize::DEFAULT)]
        {
            // 3 is the directory that `ls` itself reads.
            let (_, stdout, _) = run(&with_stdin(stdin, launch("ls", &["/proc/self/fd"]))).await;
            assert_eq!(stdout.split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
        }
        let mut report = launch("ls", &["/proc/self/fd"]);
        report.command.report = ReportMode::Pipeline;
        assert_eq!(run(&report).await.1.split_whitespace().last(), Some("61"));
    }

    #[tokio::test]
    async fn a_process_has_the_default_signal_dispositions() {
        let status = run(&launch("grep", &["^Sig[BI]", "/proc/self/status"])).await.1;
        let sets = status.split_whitespace().filter_map(|word| u64::from_str_radix(word, 16).ok());
        // 32 and 33 belong to the C library, which ignores them in programs that it spawns.
        let sets: Vec<_> = sets.map(|set| set & !(0b11 << 31)).collect();
        assert_eq!(sets, [0, 0], "{status}");
        let (status, stdout, stderr) =
            run(&launch("bash", &["-c", "yes | head -1; echo ${PIPESTATUS[0]}"])).await;
        assert_eq!((status, stdout.as_str(), stderr.as_str()), (ExitKind::Code(0), "y\n141\n", ""));
    }

    #[tokio::test]
    async fn a_process_leads_a_session_without_a_terminal() {
        let line = output_of("cat /proc/$$/stat; echo x >/dev/tty").await;
        let fields: Vec<_> = line.split_whitespace().collect();
        assert_eq!((fields[0], fields[0], "0"), (fields[4], fields[5], fields[6]), "{line}");
    }

    fn error_of(launch: &ProcessLaunch) -> StartError {
        host().spawn(launch).expect_err("it should not have started")
    }

    #[tokio::test]
    async fn every_reason_not_to_start_has_its_own_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "echo hi").unwrap();
        let file = file.to_str().unwrap();
        let at = |cwd: &str| error_of(&ProcessLaunch { cwd: cwd.into(), ..sh(":") });

        assert_eq!(error_of(&launch("no-such-program", &[])).code(), "not_found");
        assert_eq!(error_of(&launch("", &[])).code(), "not_found");
        assert_eq!(error_of(&launch("./no-such-program", &[])).code(), "not_found");
        assert_eq!(error_of(&launch(&format!("{file}/below"), &[])).code(), "not_found");
        assert_eq!(error_of(&launch(file, &[])).code(), "not_executable");
        assert_eq!(error_of(&launch("/tmp", &[])).code(), "not_executable");
        assert_eq!(error_of(&sh("a\0b")).code(), "nul_byte");
        assert_eq!(error_of(&launch("a\0b", &[])).code(), "nul_byte");
        assert_eq!(at("/a\0b").code(), "nul_byte");
        assert!(
            matches!(at("/no/such/place"), StartError::BadCwd { why, .. } if why == "no such directory")
        );
        assert!(matches!(at(file), StartError::BadCwd { why, .. } if why == "not a directory"));
        let long = "x".repeat(20_000_000);
        assert!(
            matches!(error_of(&sh(&long)), StartError::TooLong { bytes } if bytes > 20_000_000)
        );
        let many = vec!["x".repeat(100_000); 100];
        let many = launch("true", &many.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(matches!(error_of(&many), StartError::TooLong { bytes } if bytes > 10_000_000));
    }

    #[tokio::test]
    async fn a_program_that_the_kernel_refuses_is_explained() {
        let directory = tempfile::tempdir().unwrap();
        let bare = directory.path().join("bare");
        let lost = directory.path().join("lost");
        write_script(&bare, "echo hi").await;
        write_script(&lost, "#!/no/such/interpreter").await;
        assert_eq!(error_of(&launch(bare.to_str().unwrap(), &[])).code(), "not_executable");
        let lost = error_of(&launch(lost.to_str().unwrap(), &[]));
        assert!(matches!(&lost, StartError::System { why, .. } if why.contains("#!")), "{lost:?}");
    }

    #[tokio::test]
    async fn the_path_variable_is_that_of_the_job() {
        let directory = tempfile::tempdir().unwrap();
        let tool = directory.path().join("tool");
        write_script(&tool, "#!/bin/sh\necho mine").await;
        std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o644)).unwrap();
        let set_path = |path: &str| {
            let mut launch = ProcessLaunch { cwd: directory.path().into(), ..launch("tool", &[]) };
            launch.env[0] = EnvVariable::new("PATH", path).unwrap();
            launch
        };
        let absolute = set_path(&format!("/nowhere:{}:/bin", directory.path().display()));
        assert_eq!(error_of(&absolute).code(), "not_executable");
        std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(run(&absolute).await.1, "mine\n");
        assert_eq!(run(&set_path("/nowhere::/bin")).await.1, "mine\n", "an empty entry is the cwd");
        assert_eq!(error_of(&set_path("/bin")).code(), "not_found");
    }

    #[tokio::test]
    async fn input_is_passed_to_the_process() {
        let launch = with_stdin(LaunchStdin::Pipe, launch("cat", &[]));
        let Process { mut events, stdout, stdin, .. } = host().spawn(&launch).unwrap();
        let mut stdin = stdin.unwrap();
        let text = "ab\u{e9}\n".repeat(100_000);
        let length = text.len() as u64;
        assert_eq!(stdin.send(text.as_bytes()).unwrap(), length);
        assert_eq!(stdin.send(b"last").unwrap(), length + 4);
        drop(stdin);
        assert!(read_all(stdout).await == text + "last");
        let mut written = 0;
        let status = loop {
            match tokio::time::timeout(DEADLINE, events.next()).await.unwrap() {
                ProcessEvent::InputWritten { total, .. } => written = total,
                ProcessEvent::LeaderExited(end) => break end.exit.status,
                ProcessEvent::StartFailed { .. }
                | ProcessEvent::Ending(_)
                | ProcessEvent::Over(_)
                | ProcessEvent::InputClosed
                | ProcessEvent::Gate(_)
                | ProcessEvent::ShimLost => panic!("it reads to the end"),
            }
        };
        assert_eq!((status, written), (ExitKind::Code(0), length + 4));
    }

    #[tokio::test]
    async fn a_text_is_the_whole_input() {
        let text: Vec<u8> = (0..1_u32 << 20).map(|number| b'a' + (number % 23) as u8).collect();
        let expected = String::from_utf8(text.clone()).unwrap();
        let (status, stdout, _) = run(&with_stdin(LaunchStdin::Text(text), sh("cat"))).await;
        assert_eq!(status, ExitKind::Code(0));
        assert!(stdout == expected, "{} bytes", stdout.len());
        let empty = with_stdin(LaunchStdin::Text(Vec::new()), launch("cat", &[]));
        assert_eq!(run(&empty).await, (ExitKind::Code(0), String::new(), String::new()));
    }

    #[tokio::test]
    async fn a_process_that_closes_its_input_is_reported() {
        let launch = with_stdin(LaunchStdin::Pipe, sh("exec <&-; echo closed; sleep 1000"));
        let mut process = host().spawn(&launch).unwrap();
        assert_eq!(first_line(&mut process.stdout).await, "closed");
        process.stdin.as_mut().unwrap().send(b"text").unwrap();
        let event = tokio::time::timeout(DEADLINE, process.events.next()).await.unwrap();
        assert_eq!(event, ProcessEvent::InputClosed);
        assert!(kill(&process.tree).await);
    }

    #[tokio::test]
    async fn without_input_the_process_reads_the_end_at_once() {
        assert_eq!(
            run(&launch("cat", &[])).await,
            (ExitKind::Code(0), String::new(), String::new())
        );
    }

    #[tokio::test]
    async fn a_terminal_is_the_controlling_terminal_of_the_process() {
        let text = "tty; test -t 0 && test -t 1 && test -t 2 && stty size; echo ctty >/dev/tty";
        let (status, stdout, _) =
            run(&with_stdin(LaunchStdin::Terminal(TerminalSize::DEFAULT), sh(text))).await;
        assert_eq!(status, ExitKind::Code(0));
        let lines: Vec<_> = stdout.lines().collect();
        assert!(lines[0].starts_with("/dev/pts/"), "{lines:?}");
        assert_eq!(lines[1..], ["40 120", "ctty"]);
    }

    #[tokio::test]
    async fn a_terminal_takes_input_and_its_end() {
        let mut process = host()
            .spawn(&with_stdin(
                LaunchStdin::Terminal(TerminalSize::DEFAULT),
                sh("stty -echo; echo ready; cat"),
            ))
            .unwrap();
        let mut stdin = process.stdin.take().unwrap();
        assert_eq!(first_line(&mut process.stdout).await, "ready");
        stdin.send(b"typed\n").unwrap();
        assert_eq!(first_line(&mut process.stdout).await, "typed");
        stdin.send(b"\x04").unwrap();
        assert_eq!(exit_status(&mut process).await, ExitKind::Code(0));
        assert_eq!(read_all(process.stdout).await, "");
    }

    #[tokio::test]
    async fn a_process_that_waits_for_input_is_recognised() {
        use LaunchStdin::{Null, Pipe};
        let terminal = LaunchStdin::Terminal(TerminalSize::DEFAULT);
        const POLL: &str = "exec python3 -c 'import select, socket\nfiles = select.poll(); \
            files.register(0, select.POLLIN); FILES print(\"up\", flush=True); files.poll()'";
        let polls = |also: &str| POLL.replace("FILES", also);
        let socket = "s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(); files.register(s, select.POLLIN);";
        let pair = "a, b = socket.socketpair(); files.register(a, select.POLLIN);";
        let without_input = format!("{socket} files.unregister(0);");
        // A program that takes commands with a thread of its own.
        const THREAD: &str = "exec python3 -c 'import sys, threading, time\n\
            threading.Thread(target=sys.stdin.read).start()\nprint(\"up\", flush=True)\nMAIN'";
        let reads_beside = |main: &str| THREAD.replace("MAIN", main);
        for (stdin, text, expected) in [
            (Pipe, "echo up; cat".to_owned(), InputWait::Reads),
            (Pipe, "echo up; read x".to_owned(), InputWait::Reads),
            (terminal.clone(), "echo up; read x".to_owned(), InputWait::Reads),
            (terminal.clone(), "echo up; read x </dev/tty".to_owned(), InputWait::Reads),
            (terminal.clone(), polls(""), InputWait::Polls),
            (Pipe, polls(""), InputWait::Polls),
            (terminal.clone(), polls(pair), InputWait::Polls),
            (terminal.clone(), polls(socket), InputWait::InputOrNetwork),
            (terminal.clone(), polls(&without_input), InputWait::No),
            (Pipe, reads_beside("time.sleep(1000)"), InputWait::Polls),
            (terminal.clone(), reads_beside("time.sleep(1000)"), InputWait::Polls),
            (Pipe, reads_beside("while True: pass"), InputWait::No),
            (terminal.clone(), "echo up; sleep 1000; true".to_owned(), InputWait::No),
            (Pipe, "echo up; sleep 1000; true".to_owned(), InputWait::No),
            (Pipe, "echo up; sleep 1000 | cat".to_owned(), InputWait::No),
            (Null, "echo up; sleep 1000; true".to_owned(), InputWait::No),
        ] {
            let mut process = host().spawn(&with_stdin(stdin.clone(), sh(&text))).unwrap();
            assert_eq!(first_line(&mut process.stdout).await, "up");
            let read = || process.tree.read_input_activity().input_wait;
            if expected != InputWait::No {
                until(&text, || read() == expected).await;
                assert_eq!(process.tree.read_activity().input_wait, expected, "{text}");
            } else {
                // `sleep` is a process of its own.
                let processes = 1 + usize::from(text.contains("sleep"));
                until(&text, || process.tree.read_activity().processes >= processes).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
                assert_eq!(read(), InputWait::No, "{text}");
            }
            assert!(kill(&process.tree).await);
        }
    }

    #[tokio::test]
    async fn the_activity_of_a_tree_counts_processes_cpu_and_memory() {
        let process =
            host().spawn(&sh("(while :; do :; done) & (while :; do :; done) & wait")).unwrap();
        until("three processes that work", || {
            let activity = process.tree.read_activity();
            activity.processes == 3
                && activity.cpu >= Duration::from_millis(30)
                && activity.rss_bytes > 100_000
        })
        .await;
        assert!(kill(&process.tree).await);
        assert_eq!(process.tree.read_activity(), TreeActivity::default());
    }

    #[tokio::test]
    async fn a_plain_command_leaves_no_survivor() {
        for text in ["true", "echo a | cat", "sleep 0.01 & wait", "(true)"] {
            let mut process = host().spawn(&launch("bash", &["-c", text])).unwrap();
            assert!(leader_end(&mut process.events).await.is_over, "{text}");
            assert!(process.tree.is_over(), "{text}");
            assert_eq!(process.tree.living_pids(), [0; 0], "{text}");
        }
    }

    #[tokio::test]
    async fn a_process_that_outlives_the_leader_is_found_and_ended() {
        for text in [
            "sleep 1000 & echo $!",
            "setsid sleep 1000 & echo $!",
            "env -i /usr/bin/setsid sleep 1000 >/dev/null 2>&1 & echo $!",
            "sh -c 'setsid sleep 1000 & echo $!' & wait",
            "setsid sh -c '(env -i sleep 1000 >/dev/null 2>&1 & echo $!)'",
            "trap '' TERM HUP INT; (sleep 1000; sleep 1001) & echo $!",
        ] {
            let mut process = host().spawn(&sh(text)).unwrap();
            let pid = first_line(&mut process.stdout).await;
            assert!(!leader_end(&mut process.events).await.is_over, "{text}");
            let survivors = process.tree.living_pids();
            assert!(
                survivors.contains(&pid.parse().unwrap()),
                "{text}: {pid} not in {survivors:?}"
            );
            assert!(kill(&process.tree).await, "{text}");
            assert!(!is_alive(&pid), "{text}");
            assert!(process.tree.is_over(), "{text}");
        }
    }

    /// Shell text with a limit, so that it gets a cgroup if this host has any.
    fn limited(text: &str) -> ProcessLaunch {
        let mut launch = sh(text);
        launch.sandbox.limits.open_files = Some(999);
        launch
    }

    #[tokio::test]
    async fn a_cgroup_is_reused_but_never_one_with_a_survivor() {
        const SHOW: &str = "grep ^0:: /proc/self/cgroup";
        let survivor = format!("{SHOW}; setsid sleep 1000 >/dev/null 2>&1 &");
        let mut first = host().spawn(&limited(&survivor)).unwrap();
        let taken = first_line(&mut first.stdout).await;
        assert!(!leader_end(&mut first.events).await.is_over);
        assert_eq!(first.tree.living_pids().len(), 1);
        let mut seen = BTreeSet::new();
        for _ in 0..20 {
            let mut process = host().spawn(&limited(SHOW)).unwrap();
            seen.insert(first_line(&mut process.stdout).await);
            assert!(leader_end(&mut process.events).await.is_over);
            process.tree.close();
        }
        // A cgroup whose processes were killed all at once would kill those of the next job as
        // well.
        let mut ended = host().spawn(&limited("sleep 1000")).unwrap();
        assert!(kill(&ended.tree).await);
        leader_end(&mut ended.events).await;
        ended.tree.close();
        assert_eq!(run(&limited("echo hi")).await.1, "hi\n");
        if let cgroup::Delegation::Grouping { .. } = host().cgroups().delegation() {
            assert!(!seen.contains(&taken), "{taken}");
            assert!(seen.len() < 20, "{seen:?}");
        }
        assert!(kill(&first.tree).await);
    }

    #[tokio::test]
    async fn a_tree_is_ended_with_its_leader() {
        for text in [
            "sleep 1000 & echo $!; wait",
            "setsid sleep 1000 & echo $!; wait",
            "trap '' TERM; sleep 1000 & echo $!; wait; wait",
            "sleep 1000 & kill -STOP $!; echo $!; kill -STOP $$",
        ] {
            let mut process = host().spawn(&sh(text)).unwrap();
            let pid = first_line(&mut process.stdout).await;
            assert!(
                process.tree.living_pids().contains(&process.tree.leader_pid().unwrap()),
                "{text}"
            );
            assert!(kill(&process.tree).await, "{text}");
            assert!(!is_alive(&pid), "{text}");
            let status = exit_status(&mut process).await;
            assert_eq!(status, ExitKind::Signal { signal: 9, core: false }, "{text}");
        }
    }

    #[tokio::test]
    async fn a_fork_bomb_leaves_no_process() {
        let bomb = r#"
        spread() { n=$1; while [ $n -gt 0 ]; do n=$((n-1))
            case $((n % 3)) in
                0) setsid sh -c 'sleep 1000 & sleep 1001' & ;;
                1) (sleep 1000 & sleep 1001 &) ;;
                2) (env -i /usr/bin/setsid /bin/sleep 1000 >/dev/null 2>&1 &) ;;
            esac
        done; }
        spread 150; echo up; while :; do spread 3; sleep 0.01; done"#;
        let mut process = host().spawn(&sh(bomb)).unwrap();
        assert_eq!(first_line(&mut process.stdout).await, "up");
        assert!(process.tree.living_pids().len() > 100);
        assert!(kill(&process.tree).await);
        assert_eq!(process.tree.living_pids(), [0; 0]);
        leader_end(&mut process.events).await;
        assert!(process.tree.is_over());
    }

    #[tokio::test]
    async fn a_signal_reaches_the_whole_tree_once() {
        let counter = "trap 'echo got' USR1; echo up; while :; do sleep 0.01; done";
        let text = format!("({counter}) & setsid sh -c \"{counter}\" & trap '' USR1; wait; wait");
        let mut process = host().spawn(&sh(&text)).unwrap();
        assert_eq!(first_line(&mut process.stdout).await, "up");
        assert_eq!(first_line(&mut process.stdout).await, "up");
        // The sleeps have the default disposition and die: only the two shells answer.
        process.tree.signal(libc::SIGUSR1);
        assert_eq!(first_line(&mut process.stdout).await, "got");
        assert_eq!(first_line(&mut process.stdout).await, "got");
        let third =
            tokio::time::timeout(Duration::from_millis(100), process.stdout.read_u8()).await;
        assert!(third.is_err(), "a process got it twice");
        process.tree.signal(9999);
        assert!(kill(&process.tree).await);
    }

    #[tokio::test]
    async fn a_stopped_process_acts_on_a_signal() {
        let mut process = host().spawn(&sh("kill -STOP $$")).unwrap();
        let stat = format!("/proc/{}/stat", process.tree.leader_pid().unwrap());
        until("it is stopped", || std::fs::read_to_string(&stat).unwrap().contains(") T ")).await;
        process.tree.signal(libc::SIGTERM);
        let status = exit_status(&mut process).await;
        assert_eq!(status, ExitKind::Signal { signal: 15, core: false });
    }

    #[tokio::test]
    async fn a_kill_does_not_touch_another_tree() {
        let mut processes = Vec::new();
        for _ in 0..5 {
            let mut process = host().spawn(&sh("setsid sleep 1000 & echo $!; wait")).unwrap();
            let pid = first_line(&mut process.stdout).await;
            processes.push((process, pid));
        }
        while let Some((process, pid)) = processes.pop() {
            assert!(kill(&process.tree).await);
            assert!(!is_alive(&pid));
            assert!(processes.iter().all(|(_, other)| is_alive(other)));
        }
    }

    #[tokio::test]
    async fn a_dropped_process_leaves_nothing() {
        let mut ended = host().spawn(&with_stdin(LaunchStdin::Pipe, sh("read x; exit 7"))).unwrap();
        let mut running = host().spawn(&sh("setsid sleep 1000 & echo $!; wait")).unwrap();
        let orphan = first_line(&mut running.stdout).await;
        let orphan: u32 = orphan.parse().unwrap();
        let shims = [&ended, &running].map(|process| shim_of(process).unwrap());
        let leaders = [&ended, &running].map(|process| process.tree.leader_pid().unwrap());
        // With its start time, since another process may get the pid of one that is gone.
        let key = |pid: u32| {
            let pid = Pid::from_raw(pid.cast_signed()).unwrap();
            processes::stat(pid).map(|stat| stat.key())
        };
        let all: Vec<_> = shims.into_iter().chain(leaders).chain([orphan]).collect();
        let keys: Vec<_> = all.iter().map(|pid| key(*pid).unwrap()).collect();
        drop(ended.stdin.take());
        assert_eq!(exit_status(&mut ended).await, ExitKind::Code(7));
        drop((ended, running));
        let left = || all.iter().zip(&keys).any(|(pid, before)| key(*pid) == Some(*before));
        until("all are gone", || !left()).await;
    }

    #[tokio::test]
    async fn a_released_shim_ends_with_its_tree_and_not_before() {
        let mut process = host().spawn(&sh("setsid sleep 1000 & echo $!")).unwrap();
        let orphan = first_line(&mut process.stdout).await;
        let shim = shim_of(&process).unwrap().to_string();
        leader_end(&mut process.events).await;
        process.tree.release();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(is_alive(&shim) && is_alive(&orphan));
        kill_process(Pid::from_raw(orphan.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
        until("the shim is gone", || !is_alive(&shim)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn each_of_many_processes_has_its_own_code() {
        let mut tasks = tokio::task::JoinSet::new();
        for code in 0..200 {
            tasks.spawn(async move { (code, run(&sh(&format!("(true &); exit {code}"))).await.0) });
        }
        for (code, status) in tasks.join_all().await {
            assert_eq!(status, ExitKind::Code(code));
        }
    }

    /// Shell text that ignores SIGTERM, and so do its children.
    const STUBBORN: &str = "trap '' TERM; echo up; while :; do sleep 0.05; done";

    #[tokio::test]
    async fn a_stop_is_carried_out_with_its_grace_period_and_its_cause_is_kept() {
        let grace = Duration::from_millis(300);
        let mut process = host().spawn(&sh(STUBBORN)).unwrap();
        assert_eq!(first_line(&mut process.stdout).await, "up");
        let begun = Instant::now();
        process.tree.stop(libc::SIGTERM, grace, "enough".to_owned()).unwrap();
        process.tree.stop(libc::SIGTERM, grace, "again".to_owned()).unwrap();
        let event = tokio::time::timeout(DEADLINE, process.events.next()).await.unwrap();
        let ProcessEvent::Ending(note) = event else { panic!("{event:?}") };
        assert_eq!(note.cause, Some(EndCause::Order("enough".to_owned())));
        let end = leader_end(&mut process.events).await;
        assert!(begun.elapsed() >= grace);
        assert_eq!(end.exit.status, ExitKind::Signal { signal: 9, core: false });
        assert_eq!(end.note.cause, Some(EndCause::Order("enough".to_owned())));
        assert_eq!(end.note.first_signal, libc::SIGTERM);
        assert!(end.note.killed_after.is_some_and(|after| after >= grace), "{end:?}");
        until("it is over", || process.tree.is_over()).await;
    }

    #[tokio::test]
    async fn a_process_that_ends_in_time_is_not_killed() {
        let text = "trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done";
        let mut process = host().spawn(&sh(text)).unwrap();
        assert_eq!(first_line(&mut process.stdout).await, "up");
        process.tree.stop(libc::SIGTERM, DEADLINE * 2, "why".to_owned()).unwrap();
        let end = leader_end(&mut process.events).await;
        assert_eq!(end.exit.status, ExitKind::Code(5));
        assert_eq!(end.note.cause, Some(EndCause::Order("why".to_owned())));
        assert_eq!(end.note.killed_after, None);
    }

    #[tokio::test]
    async fn an_order_after_the_end_of_the_first_process_is_no_cause() {
        let mut process = host().spawn(&sh("setsid sleep 1000 & exit 3")).unwrap();
        let end = leader_end(&mut process.events).await;
        assert_eq!((end.exit.status, end.note.cause), (ExitKind::Code(3), None));
        process.tree.stop(libc::SIGTERM, DEADLINE * 2, "survivors".to_owned()).unwrap();
        let note = loop {
            let event = tokio::time::timeout(DEADLINE, process.events.next()).await.unwrap();
            if let ProcessEvent::Over(note) = event {
                break note;
            }
        };
        assert_eq!((note.cause, note.first_signal), (None, libc::SIGTERM));
    }

    #[tokio::test]
    async fn a_deadline_needs_no_server() {
        let deadline =
            Deadline { timeout: Duration::from_millis(200), grace: Duration::from_millis(100) };
        let launch = ProcessLaunch { deadline: Some(deadline), ..sh(STUBBORN) };
        let begun = Instant::now();
        let mut process = host().spawn(&launch).unwrap();
        let end = leader_end(&mut process.events).await;
        assert!(begun.elapsed() >= deadline.timeout + deadline.grace);
        assert_eq!(end.exit.status, ExitKind::Signal { signal: 9, core: false });
        assert_eq!(end.note.cause, Some(EndCause::Deadline));
        let quick = ProcessLaunch { deadline: Some(deadline), ..sh("exit 4") };
        let mut process = host().spawn(&quick).unwrap();
        let end = leader_end(&mut process.events).await;
        assert_eq!((end.exit.status, end.note.cause), (ExitKind::Code(4), None));
    }

    #[tokio::test]
    async fn a_job_that_kills_its_shim_is_lost_and_leaves_nothing() {
        let text = "setsid sleep 1000 & echo $!; setsid sh -c 'sleep 1000 & sleep 1000' &
            read go; kill -KILL $PPID; sleep 1000";
        let mut process = host().spawn(&with_stdin(LaunchStdin::Pipe, sh(text))).unwrap();
        let orphan = first_line(&mut process.stdout).await;
        until("all are there", || process.tree.living_pids().len() == 5).await;
        let members = process.tree.living_pids();
        assert!(members.contains(&orphan.parse().unwrap()), "{members:?}");
        let (shim, leader) = (shim_of(&process).unwrap(), process.tree.leader_pid().unwrap());
        process.stdin.as_mut().unwrap().send(b"go\n").unwrap();
        let lost = async { while process.events.next().await != ProcessEvent::ShimLost {} };
        tokio::time::timeout(DEADLINE, lost).await.unwrap();
        let ours = members.iter().copied().chain([shim, leader]);
        let ours: Vec<String> = ours.map(|pid| pid.to_string()).collect();
        until("the keeper has ended all", || !ours.iter().any(|pid| is_alive(pid))).await;
        assert!(process.tree.is_over());
        assert!(kill(&process.tree).await);
        // There is nothing more to wait for.
        let used = thread_cpu_time();
        let next = tokio::time::timeout(Duration::from_millis(200), process.events.next()).await;
        assert!(next.is_err(), "{next:?}");
        assert!(thread_cpu_time() - used < Duration::from_millis(100), "it waits busily");
    }

    #[tokio::test]
    async fn a_job_that_stops_its_shim_does_not_escape_its_deadline() {
        let (timeout, grace) = (Duration::from_millis(300), Duration::from_secs(5));
        let deadline = Some(Deadline { timeout, grace });
        let text = "kill -STOP $PPID; exec sleep 1000";
        let mut process = host().spawn(&ProcessLaunch { deadline, ..sh(text) }).unwrap();
        let end = leader_end(&mut process.events).await;
        assert_eq!(end.note.cause, Some(EndCause::Deadline), "{end:?}");
    }

    #[tokio::test]
    async fn a_terminal_that_its_server_has_dropped_hangs_up() {
        let terminal = LaunchStdin::Terminal(TerminalSize::DEFAULT);
        let mut process = host().spawn(&with_stdin(terminal, sh("exec sleep 1000"))).unwrap();
        drop((process.stdin.take(), process.stdout));
        let status = leader_end(&mut process.events).await.exit.status;
        assert_eq!(status, ExitKind::Signal { signal: libc::SIGHUP, core: false });
    }

    #[tokio::test]
    async fn an_input_that_was_dropped_ends_after_what_was_sent() {
        let mut process = host().spawn(&with_stdin(LaunchStdin::Pipe, sh("wc -c"))).unwrap();
        let mut stdin = process.stdin.take().unwrap();
        let most = vec![b'x'; 300_000];
        assert_eq!(stdin.send(&most).unwrap(), 300_000);
        assert_eq!(stdin.send(b"last").unwrap(), 300_004);
        drop(stdin);
        assert_eq!(read_all(process.stdout).await, "300004\n");
    }

    #[tokio::test]
    async fn a_job_that_nobody_can_ask_for_any_more_is_ended() {
        let process = host().spawn(&sh("exec sleep 1000")).unwrap();
        let shim = shim_of(&process).unwrap().to_string();
        // As if both the server and the keeper had lost it, without a word to the shim.
        process.tree.link().forget();
        drop(process);
        until("the end of the shim", || !is_alive(&shim)).await;
    }

    #[tokio::test]
    async fn nothing_is_left_after_the_keeper_was_killed() {
        let other = Host::new().unwrap();
        let text =
            "trap '' TERM HUP; setsid sleep 1000 & (env -i setsid sleep 1000 &); echo up; wait";
        let mut process = other.spawn(&sh(text)).unwrap();
        let running = host().spawn(&sh("sleep 1000")).unwrap();
        assert_eq!(first_line(&mut process.stdout).await, "up");
        until("all are there", || process.tree.living_pids().len() == 3).await;
        let members = process.tree.living_pids().into_iter().chain(shim_of(&process));
        let members: Vec<String> = members.map(|pid| pid.to_string()).collect();
        let keeper = other.keeper().keeper();
        kill_process(keeper, Signal::KILL).unwrap();
        until("all are gone", || !members.iter().any(|pid| is_alive(pid))).await;
        until("it is known", || process.tree.is_over()).await;
        until("it is reaped", || matches!(syscalls::try_wait(keeper), Ok(Some(_)))).await;
        assert!(other.spawn(&sh("true")).is_err());
        assert!(!running.tree.is_over(), "another keeper is not concerned");
        assert!(kill(&running.tree).await);
    }

    #[tokio::test]
    async fn a_keeper_ends_its_jobs_when_it_is_told_to() {
        let other = Host::new().unwrap();
        let text = "trap '' TERM; setsid sleep 1000 & echo up; wait";
        let mut process = other.spawn(&sh(text)).unwrap();
        assert_eq!(first_line(&mut process.stdout).await, "up");
        let members: Vec<String> =
            process.tree.living_pids().into_iter().map(|pid| pid.to_string()).collect();
        let other = Arc::new(other);
        let ended = Arc::clone(&other);
        let left = tokio::task::spawn_blocking(move || ended.end_everything()).await.unwrap();
        assert_eq!(left, [0; 0]);
        assert!(!members.iter().any(|pid| is_alive(pid)), "{members:?}");
        let keeper = other.keeper().keeper();
        assert_eq!(syscalls::try_wait(keeper), Err(Errno::CHILD), "it was reaped");
    }

    /// Returns the pid of the shim.
    fn shim_of(process: &Process) -> Option<u32> {
        process.tree.link().shim_pid().map(pid_number)
    }

    /// Runs a text with bash and [`shell::build_invocation`]; also returns the codes that it
    /// reports.
    async fn run_text(text: &str) -> (ExitKind, Vec<i32>, String, String) {
        let command = shell::build_invocation("/bin/bash", text);
        let launch = ProcessLaunch { command, ..launch("", &[]) };
        let mut process = host().spawn(&launch).unwrap();
        let report = process.report.take();
        let (stdout, stderr) =
            tokio::join!(read_all(process.stdout), read_all(process.stderr.unwrap()));
        let status = leader_end(&mut process.events).await.exit.status;
        (status, report.map(PipelineReport::read).unwrap_or_default(), stdout, stderr)
    }

    #[tokio::test]
    async fn a_pipeline_reports_all_its_codes() {
        for (text, code, codes) in [
            ("false | tail -1", 0, &[1, 0][..]),
            ("true | false", 1, &[0, 1]),
            ("exit 3 | exit 4 | exit 5", 5, &[3, 4, 5]),
            ("set -o pipefail; false | true", 1, &[1, 0]),
            ("set -euo pipefail; IFS=,; (exit 2) | true", 2, &[2, 0]),
            ("IFS=; false | true", 0, &[1, 0]),
            ("false | true; true", 0, &[]),
            ("echo 'a|b'", 0, &[]),
            ("false | true; exit 9", 9, &[1, 0]),
            ("trap 'exit 6' EXIT; false | true", 6, &[]),
            ("exec true | true", 0, &[0, 0]),
            ("# comment |\nfalse | true", 0, &[1, 0]),
            ("cat <<X | (cat >/dev/null; false)\nx\nX", 1, &[0, 1]),
        ] {
            let (status, found, ..) = run_text(text).await;
            assert_eq!((status, found.as_slice()), (ExitKind::Code(code), codes), "{text}");
        }
    }

    #[tokio::test]
    async fn the_report_changes_neither_output_nor_code() {
        for text in [
            "set -x; echo a | cat",
            "echo $LINENO | cat\necho $LINENO",
            "false | true; echo $?",
            "# a | b",
            "cat <<X | cat\nx\nX",
            "cat <<X | cat\nx\nX\n",
            "echo a | cat \\",
            "false || false | false",
            "(exit 3) | (exit 4); (exit 5)",
            "nosuch | cat",
            "echo a | cat; exit 7",
            "kill -9 $$ | cat",
            "echo a | cat &",
            "printf() { :; }; echo a | cat",
        ] {
            let (status, _, stdout, stderr) = run_text(text).await;
            let mut plain = launch("/bin/bash", &["-c", text]);
            plain.command.arg0 = Some("bash".into());
            let plain = run(&plain).await;
            let same_streams = |a: &str, b: &str| {
                a.lines().collect::<BTreeSet<_>>() == b.lines().collect::<BTreeSet<_>>()
            };
            assert_eq!(status, plain.0, "{text}");
            assert!(same_streams(&stdout, &plain.1), "{text}: {stdout:?} for {:?}", plain.1);
            assert!(same_streams(&stderr, &plain.2), "{text}: {stderr:?} for {:?}", plain.2);
        }
    }
}

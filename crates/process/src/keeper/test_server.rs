//! A keeper and a server for tests, each in a process of its own: this test program again.
#![expect(unsafe_code, reason = "the program becomes a keeper or a server before `main`")]

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::{KeeperClient, KeeperLaunch, UPGRADE_EXIT_CODE, run_keeper};
use crate::confinement::{
    Backend, Confinement, GrantedConfinement, NetworkAccess, ResourceLimits, SandboxPaths,
    SandboxProfile,
};
use crate::sandbox::scratch::ScratchRoot;
use crate::{
    EnvVariable, Host, InputPipe, KeptProcess, LaunchStdin, LeaderProcess, OutputPipe, Process,
    ProcessLaunch, ProcessTree, ReportMode, SandboxSpec, StreamMode, TerminalSize,
};

pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// The limit on open files that the keeper is started with.
pub(super) const OPEN_FILES: u64 = 700;

const KEEPER_ARG: &str = "__test_keeper";
const SERVER_ARG: &str = "__test_server";

/// Tests start keeper and server from their own program, whose `main` is not ours.
#[used]
// SAFETY: the loader calls each function in this section once, before `main`, on the only thread;
// the standard library has read the arguments by then.
#[unsafe(link_section = ".init_array")]
static TEST_PROCESSES: extern "C" fn() = {
    extern "C" fn run_if_requested() {
        let args: Vec<OsString> = std::env::args_os().skip(1).collect();
        let [first, dir] = args.as_slice() else { return };
        if first == KEEPER_ARG {
            let code = run_test_keeper(dir.into());
            std::process::exit(i32::from(code != ExitCode::SUCCESS) * keeper_code(code));
        }
        if first == SERVER_ARG {
            TestServer::run(Path::new(dir));
        }
    }
    run_if_requested
};

/// Returns the number in an exit code, which has no other way out.
fn keeper_code(code: ExitCode) -> i32 {
    let text = format!("{code:?}");
    text.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(1)
}

fn run_test_keeper(dir: OsString) -> ExitCode {
    run_keeper(KeeperLaunch {
        program: "/proc/self/exe".into(),
        args: vec![SERVER_ARG.into(), dir],
        env: std::env::vars_os().collect(),
    })
}

/// A keeper with its server, as a test sees them.
#[derive(Debug)]
pub(super) struct TestKeeper {
    process: Child,
    pub(super) dir: TempDir,
}

impl TestKeeper {
    /// Starts a keeper, and returns before its server is ready. The server reads `mode` when it
    /// starts.
    pub(super) fn start(mode: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mode"), mode).unwrap();
        let own = std::env::current_exe().unwrap();
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={OPEN_FILES}:4000")).arg(own);
        command.arg(KEEPER_ARG).arg(dir.path()).stdin(Stdio::null());
        command.env("NOTIFY_SOCKET", dir.path().join("notify"));
        Self { process: command.spawn().unwrap(), dir }
    }

    pub(super) fn set_mode(&self, mode: &str) {
        fs::write(self.dir.path().join("mode"), mode).unwrap();
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed()).unwrap()
    }

    /// Sends a command to the server, and returns its answer; waits while no server is there.
    #[track_caller]
    pub(super) fn ask(&self, command: &str) -> String {
        let deadline = Instant::now() + DEADLINE;
        let mut answer = String::new();
        while answer.is_empty() {
            assert!(Instant::now() < deadline, "no answer: {command}");
            if let Ok(mut server) = UnixStream::connect(self.dir.path().join("control")) {
                server.set_read_timeout(Some(DEADLINE)).unwrap();
                // A server that is killed right now does not answer.
                server.write_all(command.as_bytes()).ok();
                server.shutdown(std::net::Shutdown::Write).ok();
                server.read_to_string(&mut answer).ok();
            } else {
                thread::sleep(Duration::from_millis(5));
            }
        }
        answer.trim_end().to_owned()
    }

    pub(super) fn server_pid(&self) -> Pid {
        Pid::from_raw(self.ask("pid").parse().unwrap()).unwrap()
    }

    /// Kills the server as a crash would.
    pub(super) fn kill_server(&self) {
        kill_process(self.server_pid(), Signal::KILL).unwrap();
    }

    /// Waits for the end of the keeper.
    #[track_caller]
    pub(super) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the keeper does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops everything, and checks that the keeper ends well.
    #[track_caller]
    pub(super) fn stop(mut self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
        assert_eq!(self.wait().code(), Some(0));
    }
}

impl Drop for TestKeeper {
    fn drop(&mut self) {
        if thread::panicking() {
            // The server then ends its jobs.
            self.process.kill().ok();
            self.process.wait().ok();
        }
    }
}

/// `true` while this very process exists and is not a zombie.
pub(super) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[track_caller]
pub(super) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The server of a test: it does what the test asks it to.
struct TestServer {
    keeper: KeeperClient,
    host: Host,
    dir: PathBuf,
    jobs: HashMap<String, TestJob>,
    hangups: Arc<AtomicUsize>,
    scratch: Option<ScratchRoot>,
    restored: String,
}

/// A job in its parts.
struct TestJob {
    leader: Option<LeaderProcess>,
    tree: ProcessTree,
    stdout: Option<OutputPipe>,
    stdin: Option<InputPipe>,
    _rest: (Option<OutputPipe>, Option<crate::PipelineReport>),
}

impl From<Process> for TestJob {
    fn from(process: Process) -> Self {
        Self {
            leader: Some(process.leader),
            tree: process.tree,
            stdout: Some(process.stdout),
            stdin: process.stdin,
            _rest: (process.stderr, process.report),
        }
    }
}

impl TestServer {
    /// Runs the server until a command ends it.
    fn run(dir: &Path) -> ! {
        let keeper = KeeperClient::from_environment().unwrap().unwrap();
        let mode = fs::read_to_string(dir.join("mode")).unwrap();
        match mode.split_once(' ') {
            Some(("exit", code)) => std::process::exit(code.parse().unwrap()),
            Some(("wait-for", file)) => wait_until(file, || dir.join(file).exists()),
            _ => {}
        }
        assert!(std::env::vars_os().all(|(name, _)| name != super::protocol::KEEPER_VARIABLE));
        let runtime = Runtime::new().unwrap();
        let _inside = runtime.enter();
        let hangups = Arc::new(AtomicUsize::new(0));
        runtime.spawn(count_hangups(Arc::clone(&hangups)));
        let watched = keeper.clone();
        let host = Host::new_kept(keeper.clone()).unwrap();
        let scratch = host.make_scratch_root(dir).ok();
        let listener = open_listener(&keeper, dir);
        let mut server = Self {
            keeper,
            host,
            dir: dir.to_owned(),
            jobs: HashMap::new(),
            hangups,
            scratch,
            restored: String::new(),
        };
        for KeptProcess { name, process } in server.host.take_kept_processes() {
            let outcome = process.as_ref().map_or_else(String::as_str, |_| "ok");
            writeln!(server.restored, "{name}: {outcome}").unwrap();
            if let Ok(process) = process {
                server.jobs.insert(name, process.into());
            }
        }
        server.keeper.set_ready().unwrap();
        let server = Arc::new(std::sync::Mutex::new(server));
        let ending = Arc::clone(&server);
        thread::spawn(move || {
            watched.wait_for_keeper_end();
            let alive = ending.lock().unwrap().host.end_everything();
            std::process::exit(i32::from(!alive.is_empty()));
        });
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut command = String::new();
            connection.read_to_string(&mut command).unwrap();
            let mut server = server.lock().unwrap();
            let answer = runtime.block_on(server.answer(&command));
            writeln!(connection, "{answer}").ok();
        }
        std::process::exit(1)
    }

    async fn answer(&mut self, command: &str) -> String {
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let Some(job) = self.jobs.get_mut(name) else {
            return self.answer_for_server(word, name, rest);
        };
        match word {
            "read" => read_until(job.stdout.as_mut().unwrap(), rest).await,
            "rest" => {
                let mut text = Vec::new();
                let mut stdout = job.stdout.take().unwrap();
                stdout.read_to_end(&mut text).await.unwrap();
                String::from_utf8(text).unwrap() + "."
            }
            "write" => {
                let stdin = job.stdin.as_mut().unwrap();
                stdin.write_all(format!("{rest}\n").as_bytes()).await.unwrap();
                "ok".to_owned()
            }
            "close" => {
                job.stdin.take().unwrap().end().await.unwrap();
                "ok".to_owned()
            }
            "close-output" => format!("{}", job.stdout.take().is_some()),
            "has-input" => job.stdin.is_some().to_string(),
            "wait" => format!("{:?}", job.leader.take().unwrap().wait().await.unwrap().status),
            "survivors" => job.tree.survivors_after_exit().len().to_string(),
            "leader" => job.tree.leader_pid().to_string(),
            "pids" => format!("{:?}", job.tree.living_pids()),
            "method" => job.tree.kill_method().word().to_owned(),
            "kill" => format!("{:?}", job.tree.kill()),
            "release" => {
                job.tree.release();
                drop(self.jobs.remove(name));
                "ok".to_owned()
            }
            other => panic!("{other}"),
        }
    }

    fn answer_for_server(&mut self, word: &str, name: &str, rest: &str) -> String {
        match word {
            "start" => {
                let (kind, text) = rest.split_once(' ').unwrap();
                let process = self.host.spawn(&self.launch(name, kind, text)).unwrap();
                self.jobs.insert(name.to_owned(), process.into());
                "ok".to_owned()
            }
            "pid" => std::process::id().to_string(),
            "generation" => self.keeper.generation().to_string(),
            "failure" => format!("{:?}", self.keeper.last_failure()),
            "restored" => format!("{}.", self.restored),
            "hangups" => self.hangups.load(Ordering::Relaxed).to_string(),
            "scratch" => format!("{:?}", self.scratch.as_ref().map(ScratchRoot::path)),
            "exit" => std::process::exit(name.parse().unwrap()),
            "end" => {
                let alive = self.host.end_everything();
                self.host.cgroups().clean_up();
                drop(self.scratch.take());
                std::process::exit(i32::from(!alive.is_empty()))
            }
            "upgrade" => match self.keeper.request_upgrade(Path::new(name)) {
                Err(error) => error.to_string(),
                Ok(()) => {
                    // As a runtime that ends drops everything.
                    self.jobs.clear();
                    drop(self.scratch.take());
                    self.host.reap_orphans();
                    self.host.cgroups().clean_up();
                    std::process::exit(i32::from(UPGRADE_EXIT_CODE))
                }
            },
            other => panic!("{other} {name}"),
        }
    }

    fn launch(&self, name: &str, kind: &str, text: &str) -> ProcessLaunch {
        let path = EnvVariable::new("PATH", "/usr/local/bin:/usr/bin:/bin").unwrap();
        let stdin = match kind {
            "pipe" => LaunchStdin::Pipe,
            "terminal" => LaunchStdin::Terminal(TerminalSize::DEFAULT),
            _ => LaunchStdin::Null,
        };
        let mut sandbox = SandboxSpec::none();
        if kind == "limited" {
            sandbox.limits = ResourceLimits { open_files: Some(999), ..ResourceLimits::NONE };
        }
        if kind == "namespaces" {
            let given =
                Confinement { profile: SandboxProfile::WorkspaceWrite, network: NetworkAccess::On };
            let backend = Backend::Namespaces;
            sandbox.granted = GrantedConfinement { requested: given, effective: given, backend };
            let scratch = self.scratch.as_ref().unwrap().path().to_owned();
            let workspace = vec![self.dir.join("workspace")];
            let protected = vec!["protected-file".into()];
            sandbox.paths =
                Arc::new(SandboxPaths { scratch, workspace, protected, ..SandboxPaths::default() });
        }
        let is_kept = kind != "unkept";
        ProcessLaunch {
            program: "sh".into(),
            args: vec!["-c".into(), text.into()],
            arg0: None,
            env: vec![path, self.host.tag().new_marker(1)],
            cwd: if kind == "namespaces" { self.dir.join("workspace") } else { "/".into() }.into(),
            stdin,
            streams: StreamMode::Separate,
            report: ReportMode::None,
            sandbox,
            keep_as: is_kept.then(|| name.to_owned()),
        }
    }
}

/// Returns the listener of an earlier server, or a new one that the keeper holds for the next.
fn open_listener(keeper: &KeeperClient, dir: &Path) -> UnixListener {
    let held: Option<OwnedFd> = keeper.take_file("listener");
    held.map(UnixListener::from).unwrap_or_else(|| {
        let listener = UnixListener::bind(dir.join("control")).unwrap();
        keeper.hold_file("listener", listener.as_fd()).unwrap();
        listener
    })
}

async fn count_hangups(count: Arc<AtomicUsize>) {
    let mut hangups = signal(SignalKind::hangup()).unwrap();
    while hangups.recv().await.is_some() {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads until the output contains this text, and returns it all.
async fn read_until(pipe: &mut OutputPipe, text: &str) -> String {
    let mut read = String::new();
    while !read.contains(text) {
        let mut piece = [0; 4096];
        let length = tokio::time::timeout(DEADLINE, pipe.read(&mut piece)).await.unwrap().unwrap();
        assert!(length > 0, "the output ended: {read}");
        read.push_str(str::from_utf8(&piece[..length]).unwrap());
    }
    read
}

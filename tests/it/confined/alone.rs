//! A test in a process of its own, and what such tests launch.

use std::future::Future;
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use shellyard::confinement::{
    Backend, Confinement, GrantedConfinement, NetworkAccess, ResourceLimits, SandboxPaths,
    SandboxProfile,
};
use shellyard::process::{
    CommandLine, EnvVariable, ExitKind, Host, LaunchStdin, OutputPipe, Process, ProcessLaunch,
    SandboxSpec, StreamMode,
};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;

pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// The name of the keeper's process.
const KEEPER: &str = "shellyard-keep";

/// A user that owns nothing.
const NOBODY: &str = "65534";

/// The host of this process.
pub(super) fn host() -> &'static Host {
    static HOST: LazyLock<Host> = LazyLock::new(|| Host::new().expect("a fit process"));
    &HOST
}

/// Runs a test, known by its full name, in a process of its own.
///
/// A process that was told to run exactly this test is such a one.
pub(super) fn run_alone<F: Future<Output = ()>>(
    name: &str,
    body: impl FnOnce(ConfinedServer) -> F,
) {
    if std::env::args().any(|arg| arg == "--exact") {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(async { body(ConfinedServer::open()).await });
    }
    let own = std::env::current_exe().unwrap();
    check(name, &mut Command::new(&own));
    if rustix::process::geteuid().is_root() {
        let mut unprivileged = Command::new("setpriv");
        unprivileged.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(own);
        check(&format!("{name} (without privileges)"), unprivileged.current_dir("/"));
    }
}

fn check(what: &str, command: &mut Command) {
    let name = what.split(' ').next().unwrap();
    let done = command.args(["--exact", name, "--include-ignored", "--nocapture"]).output();
    let done = done.unwrap();
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(done.status.success() && said.contains("1 passed"), "{what}: {said}");
}

/// A process that is fit to hold jobs, and a place for them.
pub(super) struct ConfinedServer {
    pub(super) place: TempDir,
    places: Arc<SandboxPaths>,
}

/// The sandboxes of these tests: without and with namespaces.
pub(super) const BOTH: [GrantedConfinement; 2] = [DEFAULT, WORKSPACE];
pub(super) const DEFAULT: GrantedConfinement =
    granted(SandboxProfile::Default, NetworkAccess::On, Backend::Seccomp);
pub(super) const WORKSPACE: GrantedConfinement =
    granted(SandboxProfile::WorkspaceWrite, NetworkAccess::Off, Backend::Namespaces);
pub(super) const READ_ONLY: GrantedConfinement =
    granted(SandboxProfile::ReadOnly, NetworkAccess::On, Backend::Namespaces);
pub(super) const LANDLOCK: GrantedConfinement =
    granted(SandboxProfile::WorkspaceWrite, NetworkAccess::Off, Backend::Landlock);

const fn granted(
    profile: SandboxProfile,
    network: NetworkAccess,
    backend: Backend,
) -> GrantedConfinement {
    let given = Confinement { profile, network };
    GrantedConfinement { requested: given, effective: given, backend }
}

impl ConfinedServer {
    fn open() -> Self {
        // With it comes the keeper.
        host();
        let place = TempDir::new().unwrap();
        let scratch = place.path().join("scratch");
        std::fs::create_dir(&scratch).unwrap();
        let places = Arc::new(SandboxPaths { scratch, ..SandboxPaths::default() });
        Self { place, places }
    }

    pub(super) fn sh(&self, granted: GrantedConfinement, text: &str) -> ProcessLaunch {
        self.launch(granted, "sh", &["-c", text])
    }

    pub(super) fn launch(
        &self,
        granted: GrantedConfinement,
        program: &str,
        args: &[&str],
    ) -> ProcessLaunch {
        ProcessLaunch {
            command: CommandLine::new_direct(program, args),
            env: vec![EnvVariable::new("PATH", "/usr/local/bin:/usr/bin:/bin").unwrap()],
            cwd: self.place.path().into(),
            stdin: LaunchStdin::Null,
            streams: StreamMode::Separate,
            sandbox: SandboxSpec {
                granted,
                limits: ResourceLimits::NONE,
                paths: Arc::clone(&self.places),
            },
            user: None,
            keep_as: None,
            gate: None,
            deadline: None,
        }
    }

    /// Starts it, and gives how it ended and what it wrote to its standard output.
    pub(super) async fn run(&self, launch: &ProcessLaunch) -> (ExitKind, String) {
        finish(host().spawn(launch).unwrap()).await
    }

    /// Waits until nothing is left of any job: the keeper is alone.
    pub(super) fn wait_until_settled(&self) {
        let keeper = keeper();
        wait_until(|| shims().next().is_none());
        assert_eq!(self::keeper(), keeper, "it is still the same");
    }
}

pub(super) async fn finish(mut process: Process) -> (ExitKind, String) {
    let ended = async { tokio::join!(read_all(process.stdout), process.events.wait()) };
    let (output, exit) = tokio::time::timeout(DEADLINE, ended).await.unwrap();
    wait_until(|| process.tree.is_over());
    assert_eq!(process.tree.living_pids(), [0; 0]);
    (exit.unwrap().status, output)
}

pub(super) async fn read_all(mut pipe: OutputPipe) -> String {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

#[track_caller]
pub(super) fn wait_until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "{:?}", processes().collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process as /proc shows it.
#[derive(Debug)]
pub(super) struct ProcessState {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) state: char,
    pub(super) parent: u32,
}

pub(super) fn processes() -> impl Iterator<Item = ProcessState> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| read_process_state(entry.file_name().to_str()?.parse().ok()?))
}

/// The children of a process, dead ones included.
fn children_of(parent: u32) -> impl Iterator<Item = ProcessState> {
    processes().filter(move |process| process.parent == parent)
}

/// Returns the keeper of this process, which has no other child.
pub(super) fn keeper() -> u32 {
    let children: Vec<ProcessState> = children_of(std::process::id()).collect();
    let [keeper] = &*children else { panic!("the keeper alone: {children:?}") };
    assert_eq!(keeper.name, KEEPER, "{keeper:?}");
    keeper.pid
}

/// The children of the keeper, dead ones included: one for each job.
pub(super) fn shims() -> impl Iterator<Item = u32> {
    children_of(keeper()).map(|shim| shim.pid)
}

/// Returns the state of a process, if there is one with this pid.
pub(super) fn read_process_state(pid: u32) -> Option<ProcessState> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (start, rest) = stat.rsplit_once(") ")?;
    let name = start.split_once(" (")?.1.to_owned();
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    Some(ProcessState { pid, name, state, parent: fields.next()?.parse().ok()? })
}

/// `true` if a process is alive.
pub(super) fn is_alive(pid: u32) -> bool {
    read_process_state(pid).is_some_and(|process| process.state != 'Z')
}

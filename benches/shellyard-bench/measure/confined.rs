//! Measures the cost of each kind of confinement, and checks that ended jobs leave nothing behind.

#[path = "../../../tests/it/confined/remains.rs"]
mod remains;

use std::sync::Arc;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use remains::Remains;
use shellyard::confinement::{
    Backend, Confinement, GrantedConfinement, NetworkAccess, ResourceLimits, SandboxPaths,
    SandboxProfile,
};
use shellyard::process::{
    CommandLine, EnvVariable, ExitKind, Host, LaunchStdin, ProcessLaunch, SandboxSpec, StreamMode,
    load,
};
use shellyard::process::{OnUnavailable, SandboxSupport, grant_confinement};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Runtime;

use crate::floor::{PATH, shell};
use crate::report::Row;
use crate::stats::median;

/// The host of this process.
fn host() -> &'static Host {
    static HOST: LazyLock<Host> = LazyLock::new(|| Host::new().expect("a fit process"));
    &HOST
}

/// Before the first look, so that what is made once is not counted.
const WARM_UP: usize = 100;
/// Before each block: the kernel takes namespaces apart in the background, and whoever comes next
/// shall not pay for it.
const BREATH: Duration = Duration::from_millis(50);
/// Runs of one kind in a row …
const BLOCK: usize = 20;
/// … after so many that are not counted.
const SETTLE: usize = 3;
/// Longer than anything that is tidied up in the background is put off.
const PAUSE: Duration = Duration::from_millis(1500);

/// The time from start to end of `sh -c :` in each kind of confinement that this host can give,
/// and what `jobs` of them leave behind.
///
/// Makes this process one that holds jobs: to be called last.
pub(crate) fn measure(looks: usize, jobs: usize) -> Vec<Row> {
    let yard = ConfinedServer::open();
    let kinds = kinds();
    let mut rows = yard.times(&kinds, looks);
    rows.extend(yard.remains(&kinds, jobs));
    rows
}

/// One way to confine a job.
struct Kind {
    name: &'static str,
    granted: GrantedConfinement,
}

/// The kinds of confinement that this host can provide.
fn kinds() -> Vec<Kind> {
    let all = host().sandbox_support();
    let landlock = all.clone().limited_to(Backend::Landlock);
    let wishes: [(_, _, _, &SandboxSupport); 5] = [
        ("`none` with limits", SandboxProfile::None, NetworkAccess::On, all),
        ("`default`", SandboxProfile::Default, NetworkAccess::On, all),
        ("`workspace-write`, no network", SandboxProfile::WorkspaceWrite, NetworkAccess::Off, all),
        ("`read-only`", SandboxProfile::ReadOnly, NetworkAccess::On, all),
        (
            "`workspace-write` by Landlock",
            SandboxProfile::WorkspaceWrite,
            NetworkAccess::Off,
            &landlock,
        ),
    ];
    let granted = wishes.into_iter().filter_map(|(name, profile, network, offer)| {
        let granted =
            grant_confinement(Confinement { profile, network }, offer, OnUnavailable::Refuse);
        Some(Kind { name, granted: granted.ok()? })
    });
    granted.collect()
}

/// As in the settings that come with the program.
fn usual_limits() -> ResourceLimits {
    ResourceLimits {
        memory: load::total_memory().map(|bytes| bytes / 4 * 3),
        processes: Some(512),
        open_files: Some(4096),
        file_size: Some(8 << 30),
        ..ResourceLimits::NONE
    }
}

/// A place for jobs of this process.
struct ConfinedServer {
    runtime: Runtime,
    place: TempDir,
    places: Arc<SandboxPaths>,
}

impl ConfinedServer {
    fn open() -> Self {
        // With it comes the keeper.
        host();
        let place = TempDir::new().expect("a temporary directory");
        let [scratch, workspace] = ["scratch", "workspace"].map(|name| place.path().join(name));
        for path in [&scratch, &workspace] {
            std::fs::create_dir(path).expect("a directory");
        }
        let places = SandboxPaths { scratch, workspace: vec![workspace], ..Default::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Self { runtime: runtime.expect("a runtime"), place, places: Arc::new(places) }
    }

    /// In blocks, so that each kind is measured warm; in turns, so that a busy moment of the machine
    /// hits all of them.
    fn times(&self, kinds: &[Kind], looks: usize) -> Vec<Row> {
        let launches: Vec<ProcessLaunch> = kinds.iter().map(|kind| self.launch(kind)).collect();
        let mut floor = Vec::with_capacity(looks);
        let mut ours = vec![Vec::with_capacity(looks); kinds.len()];
        for _ in 0..looks.div_ceil(BLOCK) {
            floor.extend(block(bare));
            for (launch, times) in launches.iter().zip(&mut ours) {
                times.extend(block(|| self.run(launch)));
            }
        }
        let floor = median(&floor);
        let row = |(kind, times): (&Kind, Vec<f64>)| {
            Row::new(format!("a job in {}", kind.name), "µs", median(&times)).beside(floor)
        };
        kinds.iter().zip(ours).map(row).collect()
    }

    /// Returns what this many jobs left behind, and the growth of the keeper.
    fn remains(&self, kinds: &[Kind], jobs: usize) -> [Row; 2] {
        self.run_many(kinds, WARM_UP);
        let before = self.wait_until_settled();
        self.run_many(kinds, jobs);
        let after = self.wait_until_settled();
        let left = after.beyond(&before) as f64;
        let memory = format!("memory of the keeper after {jobs} jobs");
        [
            Row::new(format!("left of {jobs} confined jobs"), "things", left),
            Row::new(memory, "KiB", after.keeper_kib as f64).beside(before.keeper_kib as f64),
        ]
    }

    /// Returns the leftovers once they no longer change: much is removed in the background.
    fn wait_until_settled(&self) -> Remains {
        let mut found = Remains::find(self.place.path());
        loop {
            thread::sleep(PAUSE);
            let again = Remains::find(self.place.path());
            if again == found {
                return found;
            }
            found = again;
        }
    }

    fn run_many(&self, kinds: &[Kind], jobs: usize) {
        let launches: Vec<ProcessLaunch> = kinds.iter().map(|kind| self.launch(kind)).collect();
        launches.iter().cycle().take(jobs).for_each(|launch| self.run(launch));
    }

    fn launch(&self, kind: &Kind) -> ProcessLaunch {
        ProcessLaunch {
            command: CommandLine::new_direct("sh", ["-c", ":"]),
            env: vec![EnvVariable::new("PATH", PATH).expect("a variable")],
            cwd: self.places.workspace[0].as_path().into(),
            stdin: LaunchStdin::Null,
            streams: StreamMode::Separate,
            sandbox: SandboxSpec {
                granted: kind.granted,
                limits: usual_limits(),
                paths: Arc::clone(&self.places),
            },
            user: None,
            keep_as: None,
            deadline: None,
            gate: None,
        }
    }

    fn run(&self, launch: &ProcessLaunch) {
        let status = self.runtime.block_on(async {
            let mut process = host().spawn(launch).expect("a process");
            process.stdout.read_to_end(&mut Vec::new()).await.expect("output");
            let exit = process.events.wait().await.expect("an end");
            assert!(process.tree.is_over());
            exit.status
        });
        assert_eq!(status, ExitKind::Code(0));
    }
}

/// The floor: the same without us.
fn bare() {
    assert!(shell(":").output().expect("a shell").status.success());
}

fn block(task: impl Fn()) -> impl Iterator<Item = f64> {
    thread::sleep(BREATH);
    (0..SETTLE).for_each(|_| task());
    (0..BLOCK).map(move |_| {
        let start = Instant::now();
        task();
        start.elapsed().as_secs_f64() * 1e6
    })
}

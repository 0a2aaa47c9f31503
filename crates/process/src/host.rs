//! The state that one server keeps for all its jobs, and the processes that it takes over from an
//! earlier server.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getpid, getrlimit};
use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroups;
use crate::confinement::Backend;
use crate::handover::{SCRATCH_FILE, SavedPath, restore_paths, save_paths};
use crate::job_resources::{SandboxResources, SavedResources, protected_pids};
use crate::keeper::{HeldShim, KeeperClient};
use crate::launch::{LocalDirs, OpenedDir, ProcessLaunch, SandboxSpec};
use crate::open_files::{FileReservation, PendingStarts};
use crate::own_process::{limit_open_files, protect_process, raise_open_files};
use crate::process::Process;
use crate::processes;
use crate::sandbox::scratch::{self, ScratchReaper, ScratchRoot};
use crate::sandbox_support::SandboxSupport;
use crate::shell::PipelineReport;
use crate::shim::{Role, Stage};
use crate::shim_link::{ProcessEvents, ShimLink};
use crate::spawn_request::{FilterCache, SandboxRules};
use crate::start_error::StartError;
use crate::stdio::{OutputPipe, ProcessInput};
use crate::tree::ProcessTree;

/// The process side of one server: its keeper, and its shared state for jobs.
#[derive(Debug)]
pub struct Host {
    keeper: KeeperClient,
    /// `true` if the keeper starts another server when this one dies.
    is_durable: bool,
    /// The limit on open files that jobs get.
    open_files: Rlimit,
    cgroups: Arc<Cgroups>,
    sandbox_support: SandboxSupport,
    scratch_reaper: ScratchReaper,
    local_dirs: LocalDirs,
    filters: FilterCache,
    pending_starts: PendingStarts,
}

/// The longest wait for the end of all jobs.
const END_LIMIT: Duration = Duration::from_secs(10);
const END_PAUSE: Duration = Duration::from_millis(5);

/// The time in which a shim has to tell its state to a new server.
const ATTACH_LIMIT: Duration = Duration::from_secs(5);

impl Host {
    /// Prepares this process for jobs, and starts its keeper; call it early, before jobs are started.
    ///
    /// From now on the process passes on none of the files that it was started with, may open as many
    /// files as the system allows, and cannot be inspected by other processes of its user.
    ///
    /// # Errors
    /// If the keeper cannot be started: jobs would outlive a server that is killed.
    pub fn new() -> io::Result<Self> {
        let open_files = raise_open_files();
        protect_process();
        Ok(Self::with_keeper(KeeperClient::start()?, false, open_files))
    }

    /// Prepares this process for jobs like [`Self::new`], as a server that this keeper has started.
    #[must_use]
    pub fn new_kept(keeper: KeeperClient) -> Self {
        raise_open_files();
        protect_process();
        let open_files = keeper.identity().open_file_limit();
        Self::with_keeper(keeper, true, open_files)
    }

    fn with_keeper(keeper: KeeperClient, is_durable: bool, open_files: Rlimit) -> Self {
        Self {
            cgroups: Arc::new(Cgroups::new(keeper.clone())),
            sandbox_support: SandboxSupport::lazy_probes(keeper.clone()),
            scratch_reaper: ScratchReaper::new(keeper.handover().clone()),
            keeper,
            is_durable,
            open_files,
            local_dirs: LocalDirs::default(),
            filters: FilterCache::default(),
            pending_starts: PendingStarts::default(),
        }
    }

    /// Returns the cgroups of the jobs.
    #[must_use]
    pub const fn cgroups(&self) -> &Arc<Cgroups> {
        &self.cgroups
    }

    /// Reserves the descriptors for the start of one process; `None` if too few are free now. Keep
    /// the reservation until the process is started.
    #[must_use]
    pub fn reserve_files(&self) -> Option<FileReservation> {
        self.pending_starts.reserve_files()
    }

    /// Returns the sandbox features of this host.
    #[must_use]
    pub fn sandbox_support(&self) -> &SandboxSupport {
        &self.sandbox_support
    }

    /// Opens a directory for a job, as [`OpenedDir::open`] does. Costs less if it was opened before
    /// and is on a local disk.
    ///
    /// # Errors
    /// As [`OpenedDir::open`].
    pub fn open_dir(&self, path: &Path) -> Result<OpenedDir, StartError> {
        OpenedDir::open_with_cache(path, &self.local_dirs)
    }

    /// Creates the directory in which jobs get their temporary directories, below `temporary`,
    /// which may be shared by all users. Removes what dead servers of the same user left there. A
    /// server that took over from another one uses the directory of that.
    ///
    /// # Errors
    /// If it cannot be created, or if something in its place is not ours alone.
    pub fn make_scratch_root(&self, temporary: &Path) -> io::Result<ScratchRoot> {
        if let Some(held) = self.keeper.take_noted_file(SCRATCH_FILE)
            && let Some(root) = ScratchRoot::restore(&held.note, held.file, &self.scratch_reaper)
        {
            return Ok(root);
        }
        let root = ScratchRoot::create(temporary, &self.scratch_reaper)?;
        let (note, lock) = root.describe()?;
        self.keeper.hold_noted_file(SCRATCH_FILE, &note, lock)?;
        Ok(root)
    }

    /// Ends all jobs, and then a keeper that no other server needs. Blocks for a limited time; returns the
    /// shims whose jobs are still there. No job can be started any more.
    #[must_use = "the returned processes are still alive"]
    pub fn end_everything(&self) -> Vec<u32> {
        self.keeper.end_shims();
        let deadline = Instant::now() + END_LIMIT;
        loop {
            let children = processes::children_of(self.keeper.keeper()).into_iter();
            let shims: Vec<u32> =
                children.filter(|pid| *pid != getpid()).map(processes::pid_number).collect();
            if shims.is_empty() && !self.is_durable {
                self.keeper.end_child();
            }
            if shims.is_empty() || Instant::now() >= deadline {
                return shims;
            }
            thread::sleep(END_PAUSE);
        }
    }

    /// Returns the connection to the keeper.
    #[must_use]
    pub const fn keeper(&self) -> &KeeperClient {
        &self.keeper
    }

    /// `true` if the keeper starts another server when this one dies, which takes over its jobs.
    #[must_use]
    pub const fn is_durable(&self) -> bool {
        self.is_durable
    }

    pub(crate) const fn local_dirs(&self) -> &LocalDirs {
        &self.local_dirs
    }

    pub(crate) const fn filters(&self) -> &FilterCache {
        &self.filters
    }

    /// Returns the limit on open files that a job gets: the one that the server was started with, within
    /// the hard limit of the server, which may have been lowered since.
    pub(crate) fn job_open_files(&self) -> (Option<u64>, Option<u64>) {
        let Rlimit { current, maximum } = self.open_files;
        let limit = limit_open_files((current, maximum), getrlimit(Resource::Nofile).maximum);
        (limit.current, limit.maximum)
    }

    pub(crate) fn create_sandbox_resources(
        &self,
        launch: &ProcessLaunch,
    ) -> Result<SandboxResources, StartError> {
        SandboxResources::create(launch, &self.cgroups, &self.scratch_reaper)
    }

    /// Returns the rules that a new process with these resources applies to itself.
    pub(crate) fn sandbox_rules(
        &self,
        resources: &SandboxResources,
        spec: &SandboxSpec,
    ) -> SandboxRules {
        // Namespaces suffice by themselves; if the kernel has Landlock too, there are two barriers.
        let landlock = match spec.granted.backend {
            Backend::Namespaces | Backend::Landlock => {
                self.sandbox_support.landlock.check().ok().copied()
            }
            Backend::Seccomp | Backend::Nothing => None,
        };
        // A job in its own pid namespace cannot address the server or its keeper by pid.
        let protected_pids = match spec.granted.backend {
            Backend::Landlock | Backend::Seccomp => self.protected_pids(),
            Backend::Namespaces | Backend::Nothing => Vec::new(),
        };
        resources.sandbox_rules(spec, landlock, protected_pids)
    }

    /// Returns the numbers that no job may pass to `kill`: pids, thread ids and negated process
    /// groups of this server and its keeper.
    fn protected_pids(&self) -> Vec<i32> {
        protected_pids(self.keeper.keeper())
    }

    /// Returns the processes of earlier servers, and removes everything that earlier servers left and
    /// that does not belong to them: cgroups and scratch directories.
    ///
    /// Call it once, before jobs are started, in the runtime. Blocks until every shim has answered, for
    /// a limited time.
    pub fn take_kept_processes(&self) -> Vec<KeptProcess> {
        let mut kept_dirs = KeptDirs::default();
        let take = |held: HeldShim| {
            let name = held.name.clone();
            KeptProcess { name, process: self.restore(held, &mut kept_dirs) }
        };
        let processes: Vec<KeptProcess> = self.keeper.take_shims().into_iter().map(take).collect();
        if self.keeper.generation() > 1 {
            self.cgroups.remove_jobs_except(&kept_dirs.cgroups);
            if let Some(root) = self.keeper.scratch_note().and_then(scratch::parse_kept_root) {
                self.scratch_reaper.remove_jobs_except(&root, &kept_dirs.scratch);
            }
        }
        processes
    }

    fn restore(&self, held: HeldShim, kept_dirs: &mut KeptDirs) -> Result<Process, String> {
        let io = |error: io::Error| format!("its files cannot be watched: {error}");
        let resources = SandboxResources::default();
        let keeper = self.keeper.clone();
        let link = ShimLink::new(keeper, held.shim, held.socket, resources).map_err(io)?;
        let (state, files) = link
            .attach(ATTACH_LIMIT)
            .ok_or("the process that holds it was killed, or does not answer")?;
        let saved =
            SavedProcess::parse(&state.saved).ok_or("its description cannot be understood")?;
        let mut files: Vec<_> = state.roles.iter().copied().zip(files).collect();
        let mut take_file = |role: Role| {
            let place = files.iter().position(|(known, _)| *known == role)?;
            Some(files.swap_remove(place).1)
        };
        let open = |file| match file {
            Some(file) => OutputPipe::new(file),
            // This server's predecessor has read it to its end.
            None => OutputPipe::new_ended(),
        };
        let mut stdout = open(take_file(Role::StdoutReader)).map_err(io)?;
        stdout.hold(&link, Role::StdoutReader);
        let mut stderr = None;
        if saved.has_stderr {
            let mut pipe = open(take_file(Role::StderrReader)).map_err(io)?;
            pipe.hold(&link, Role::StderrReader);
            stderr = Some(pipe);
        }
        let is_alive = match state.stage {
            Stage::Starting | Stage::Running => true,
            Stage::Exited(exit) => !exit.is_over,
            Stage::Failed(_) => false,
        };
        let resizer = stdout.terminal_resizer(saved.is_terminal());
        let stdin = (state.is_input_open && is_alive)
            .then(|| ProcessInput::new(&link, resizer, state.input));
        let report = take_file(Role::Report).map(PipelineReport::restore);
        kept_dirs.add(&saved.resources);
        let inputs = restore_paths(saved.inputs);
        link.set_resources(SandboxResources::restore(
            saved.resources,
            &self.cgroups,
            &self.scratch_reaper,
        ));
        let events = ProcessEvents::new(&link).map_err(io)?;
        let tree = ProcessTree::new(link, inputs, Arc::clone(&self.cgroups));
        Ok(Process { events, tree, stdout, stderr, stdin, report })
    }
}

/// A process that an earlier server started.
#[derive(Debug)]
pub struct KeptProcess {
    /// The name that the earlier server gave it: [`keep_as`](crate::ProcessLaunch::keep_as).
    pub name: String,
    /// The process, or the reason why it cannot be continued; then its tree is ended.
    ///
    /// Its first events tell what has happened meanwhile; its pipes may still hold output.
    pub process: Result<Process, String>,
}

/// The directories of the jobs that go on.
#[derive(Debug, Default)]
struct KeptDirs {
    cgroups: HashSet<PathBuf>,
    scratch: HashSet<PathBuf>,
}

impl KeptDirs {
    fn add(&mut self, resources: &SavedResources) {
        self.cgroups.extend(resources.cgroup().map(|cgroup| PathBuf::from(cgroup.dir.clone())));
        self.scratch.extend(resources.scratch.clone().map(PathBuf::from));
    }
}

/// The version of the description. It grows when an older server would misunderstand it.
const VERSION: u32 = 1;

/// The description of a running process that its shim holds for the next server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedProcess {
    version: u32,
    /// The names of the files from which it reads input.
    inputs: Vec<SavedPath>,
    has_stderr: bool,
    resources: SavedResources,
}

impl SavedProcess {
    pub(crate) fn new(inputs: &[PathBuf], has_stderr: bool, resources: SavedResources) -> Self {
        Self { version: VERSION, inputs: save_paths(inputs), has_stderr, resources }
    }

    /// Returns the text that the shim holds.
    pub(crate) fn to_text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// Parses such a text; `None` if it is not one, or if it is of a version that this server does
    /// not know.
    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str::<Self>(text).ok().filter(|saved| saved.version <= VERSION)
    }

    /// `true` if the process runs in a terminal: those have two names.
    const fn is_terminal(&self) -> bool {
        self.inputs.len() > 1
    }
}

#[cfg(test)]
pub(crate) use tests::{host, sh};

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::{CommandLine, ExitKind, LaunchStdin, SandboxSpec, StreamMode};

    /// The host of this test process: tests run concurrently in one process, as jobs do.
    pub(crate) fn host() -> &'static Arc<Host> {
        static HOST: LazyLock<Arc<Host>> = LazyLock::new(|| Arc::new(Host::new().unwrap()));
        &HOST
    }

    /// Describes a shell that runs this text, without environment, input, sandbox and limits.
    pub(crate) fn sh(text: &str) -> ProcessLaunch {
        ProcessLaunch {
            command: CommandLine::new_direct("/bin/sh", ["-c", text]),
            env: Vec::new(),
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

    #[tokio::test]
    async fn two_hosts_run_processes_in_one_process() {
        let one = host();
        let other = Host::new().unwrap();
        let start = |host: &Host| host.spawn(&sh("sleep 1000 & echo up; exec sleep 1000")).unwrap();
        let mut processes: [Process; 2] = [start(one), start(&other)];
        for process in &mut processes {
            let mut output = [0; 3];
            process.stdout.read_exact(&mut output).await.unwrap();
            assert_eq!(&output, b"up\n");
        }
        // Each host ends only its own tree.
        assert!(processes[0].tree.kill());
        assert_eq!(processes[1].tree.living_pids().len(), 2);
        assert!(processes[1].tree.kill());
        for process in &mut processes {
            let status = process.events.wait().await.unwrap().status;
            assert_eq!(status, ExitKind::Signal { signal: 9, core: false });
        }
        assert_ne!(one.keeper().keeper(), other.keeper().keeper());
    }

    #[tokio::test]
    async fn a_child_has_the_limit_on_open_files_that_we_were_started_with() {
        let mut process = host().spawn(&sh("ulimit -n")).unwrap();
        let mut limit = String::new();
        process.stdout.read_to_string(&mut limit).await.unwrap();
        let expected = host().job_open_files().0;
        assert_eq!(limit.trim().parse().ok(), expected, "{limit}");
        process.events.wait().await.unwrap();
    }

    #[test]
    fn a_description_of_a_later_version_is_not_understood() {
        let inputs = ["pipe:[7]".into(), PathBuf::from("/dev/tty")];
        let saved = SavedProcess::new(&inputs, true, SavedResources::default());
        let text = saved.to_text().unwrap();
        assert_eq!(SavedProcess::parse(&text), Some(saved.clone()));
        assert!(saved.is_terminal());
        let later = SavedProcess { version: VERSION + 1, ..saved };
        assert_eq!(SavedProcess::parse(&later.to_text().unwrap()), None);
        assert_eq!(SavedProcess::parse(""), None);
    }
}

//! The state that one server keeps for all its jobs, and the processes that it takes over from an
//! earlier server.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, getpid};
use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroups;
use crate::child_defaults::{ChildDefaults, HostTag, OwnScore};
use crate::child_steps::SandboxRules;
use crate::children::{Children, SpawnPool};
use crate::confinement::Backend;
use crate::guardian::{Guardian, ServerProcessFilter};
use crate::keeper::{
    FileRole, KeeperClient, KeptJob, ReceivedJob, SavedPath, restore_paths, save_paths,
};
use crate::launch::{LocalDirs, OpenedDir, ProcessLaunch, SandboxSpec, StartError};
use crate::load::RecentStarts;
use crate::open_files::{FileReservation, PendingStarts};
use crate::processes::{self, ProcStat, ProcessKey, ProcessSnapshot, ProcessTag, TreeScan};
use crate::sandbox::SandboxSupport;
use crate::sandbox::job_resources::{
    JobResources, SandboxResources, SavedResources, protected_pids,
};
use crate::sandbox::scratch::{self, ScratchReaper, ScratchRoot};
use crate::shell::PipelineReport;
use crate::spawn::Process;
use crate::spawner::Spawner;
use crate::stdio::{EndOfInput, InputPipe, OutputPipe, StdioNames};
use crate::tree::ProcessTree;
use crate::tree_members::{LeaderProcess, TreeEvidence, TreeIdentity};
use crate::tree_registry::TreeRegistry;
use crate::vfork_spawn::VforkSpawner;

/// The process side of one server: its helper processes, and its shared state for jobs.
///
/// The first host of a process prepares the process for jobs. Hosts made by
/// [`new_sibling`](Self::new_sibling) share what the kernel has once per process: its children, its
/// cgroup and its limits.
#[derive(Debug)]
pub struct Host {
    process: Arc<OwnProcess>,
    spawner: Arc<Spawner>,
    guardian: Guardian,
    vfork_spawner: VforkSpawner,
    sandbox_support: SandboxSupport,
    scratch_reaper: ScratchReaper,
    local_dirs: LocalDirs,
}

/// The state that the kernel keeps once per process.
#[derive(Debug)]
struct OwnProcess {
    children: Arc<Children>,
    trees: Arc<TreeRegistry>,
    defaults: Arc<ChildDefaults>,
    cgroups: Arc<Cgroups>,
    /// One for all hosts: it has as many threads as the process can use.
    spawn_pool: SpawnPool,
    recent_starts: RecentStarts,
    pending_starts: PendingStarts,
}

impl Host {
    /// Prepares this process for jobs; call it once per process, early, before jobs are started.
    ///
    /// From now on the process adopts the orphans of its descendants, passes on none of the files
    /// that it was started with, may open as many files as the system allows, cannot be inspected
    /// by other processes of its user, and carries a tag that all descendants inherit.
    ///
    /// # Errors
    /// If the system refuses to make this process a subreaper or gives no random number: without
    /// those a job's tree cannot be kept together.
    pub fn new() -> io::Result<Self> {
        let defaults = Arc::new(ChildDefaults::set_up()?);
        Ok(Self::with_children(defaults, Children::default(), Cgroups::default()))
    }

    /// Prepares this process for jobs like [`Self::new`], as a server that this keeper has started.
    /// Its jobs carry the identity of the keeper, and it needs no guardian.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn new_kept(keeper: KeeperClient) -> io::Result<Self> {
        let defaults = Arc::new(ChildDefaults::set_up_kept(&keeper.identity())?);
        let cgroups = Cgroups::new_kept(keeper.clone());
        Ok(Self::with_children(defaults, Children::new_kept(keeper), cgroups))
    }

    fn with_children(defaults: Arc<ChildDefaults>, children: Children, cgroups: Cgroups) -> Self {
        let children = Arc::new(children);
        let cgroups = Arc::new(cgroups);
        let trees = Arc::new(TreeRegistry::new(Arc::clone(&children), Arc::clone(&cgroups)));
        let spawn_pool = SpawnPool::default();
        let recent_starts = RecentStarts::default();
        Self::in_process(Arc::new(OwnProcess {
            children,
            trees,
            defaults,
            cgroups,
            spawn_pool,
            recent_starts,
            pending_starts: PendingStarts::default(),
        }))
    }

    /// Creates a second host in the same process, with its own helpers. Functions that reap, scan
    /// or end all descendants of the process act for both.
    #[must_use]
    pub fn new_sibling(&self) -> Self {
        Self::in_process(Arc::clone(&self.process))
    }

    fn in_process(process: Arc<OwnProcess>) -> Self {
        let shared = || (Arc::clone(&process.children), Arc::clone(&process.defaults));
        let (children, defaults) = shared();
        let spawner = Arc::new(Spawner::new(children, defaults));
        let (children, defaults) = shared();
        let guardian = Guardian::new(children, defaults);
        let (children, defaults) = shared();
        let vfork_spawner = VforkSpawner::new(children, defaults);
        Self {
            sandbox_support: SandboxSupport::lazy_probes(Arc::clone(&spawner)),
            spawner,
            guardian,
            vfork_spawner,
            scratch_reaper: ScratchReaper::new(process.children.handover()),
            local_dirs: LocalDirs::default(),
            process,
        }
    }

    /// Returns the tag that distinguishes this process's descendants from all other processes.
    #[must_use]
    pub fn tag(&self) -> HostTag {
        self.process.defaults.tag()
    }

    /// Returns the helper that creates processes in namespaces.
    #[must_use]
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// Returns the helper that ends jobs when this process is killed.
    #[must_use]
    pub fn guardian(&self) -> &Guardian {
        &self.guardian
    }

    /// Returns the cgroups of the jobs.
    #[must_use]
    pub fn cgroups(&self) -> &Cgroups {
        &self.process.cgroups
    }

    /// Returns the threads that create processes.
    #[must_use]
    pub fn spawn_pool(&self) -> &SpawnPool {
        &self.process.spawn_pool
    }

    /// Returns the jobs that have just started.
    #[must_use]
    pub fn recent_starts(&self) -> &RecentStarts {
        &self.process.recent_starts
    }

    /// Reserves the descriptors for the start of one process; `None` if too few are free now. Keep
    /// the reservation until the process is started.
    #[must_use]
    pub fn reserve_files(&self) -> Option<FileReservation> {
        self.process.pending_starts.reserve_files()
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
    /// which may be shared by all users. Removes what dead servers of the same user left there:
    /// first the processes that they recorded, then the files. Blocks while such processes end. A
    /// server that took over from another one uses the directory of that.
    ///
    /// # Errors
    /// If it cannot be created, or if something in its place is not ours alone.
    pub fn make_scratch_root(&self, temporary: &Path) -> io::Result<ScratchRoot> {
        let reaper = &self.scratch_reaper;
        let children = &self.process.children;
        match children.keeper() {
            Some(keeper) => ScratchRoot::create_kept(temporary, reaper, children, keeper),
            None => ScratchRoot::create(temporary, reaper, children),
        }
    }

    /// Reaps every ended child that nobody waits for: adopted orphans, and leaders whose owner was
    /// dropped. Cheap if there are none; call it when a child has ended. Returns how many there
    /// were.
    pub fn reap_orphans(&self) -> usize {
        self.process.children.reap_orphans()
    }

    /// Scans all trees at once, so that a process seen now stays in its tree when its parent ends,
    /// and ends the orphans whose trees are all over. Blocks; `None` without a scan if there is
    /// neither a tree nor an orphan.
    #[must_use]
    pub fn scan_trees(&self) -> Option<TreeScan> {
        self.process.trees.scan()
    }

    /// Restores this process's out-of-memory score if it is still raised for a slow creation. Call
    /// it while one is in progress.
    pub fn restore_oom_score(&self) {
        if let Some(score) = &self.process.defaults.score {
            score.restore();
        }
    }

    /// Returns the number of out-of-memory scores that could not be set since the last call.
    pub fn take_oom_score_failures(&self) -> u64 {
        self.process.defaults.score.as_ref().map_or(0, OwnScore::take_failures)
    }

    /// Ends now what the guardian would end after us, and every other descendant except our own
    /// helpers and its keeper. Blocks; returns the processes that are still alive.
    #[must_use = "the returned processes are still alive"]
    pub fn end_everything(&self) -> Vec<u32> {
        self.guardian.end_everything(self.spawner.pid(), self.process.trees.seen_processes())
    }

    /// Returns the connection to the keeper that started this server, if there is one.
    #[must_use]
    pub fn keeper(&self) -> Option<&KeeperClient> {
        self.process.children.keeper()
    }

    pub(crate) fn trees(&self) -> &Arc<TreeRegistry> {
        &self.process.trees
    }

    pub(crate) fn defaults(&self) -> &ChildDefaults {
        &self.process.defaults
    }

    pub(crate) fn vfork_spawner(&self) -> &VforkSpawner {
        &self.vfork_spawner
    }

    pub(crate) fn local_dirs(&self) -> &LocalDirs {
        &self.local_dirs
    }

    /// Returns a tag that no other child has, if the host lets us tag processes.
    pub(crate) fn new_tag(&self) -> Option<ProcessTag> {
        self.process.defaults.child_tag(self.process.children.new_serial())
    }

    pub(crate) fn create_sandbox_resources(
        &self,
        launch: &ProcessLaunch,
    ) -> Result<SandboxResources, StartError> {
        SandboxResources::create(launch, &self.process.cgroups, &self.scratch_reaper)
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
        // A job in its own pid namespace cannot address the server or its helpers by pid.
        let protected_pids = match spec.granted.backend {
            Backend::Landlock | Backend::Seccomp => self.protected_pids(),
            Backend::Namespaces | Backend::Nothing => Vec::new(),
        };
        resources.sandbox_rules(spec, landlock, protected_pids)
    }

    /// Returns the numbers that no job may pass to `kill`: pids, thread ids and negated process
    /// groups of this server and its helpers; starts the spawner if it does not run: this server
    /// with its group, its guardian, its spawner and its keeper.
    fn protected_pids(&self) -> Vec<i32> {
        if self.spawner.pid().is_none() {
            // A filter cannot be changed after its job has started, so the spawner's pid must be
            // known now, even if the spawner is first needed later. If it cannot be started, the
            // filter does without it.
            self.spawner.start().ok();
        }
        let keeper = self.keeper().map(KeeperClient::keeper);
        protected_pids(&[self.guardian.pid(), self.spawner.pid(), keeper])
    }

    /// Returns the processes of earlier servers that the keeper has held, and ends everything that
    /// earlier servers left and that is not among them: processes, cgroups and scratch directories.
    ///
    /// Call it once, before jobs are started, in the runtime. Blocks while leftovers end. Returns
    /// nothing if there is no keeper, or no earlier server.
    pub fn take_kept_processes(&self) -> Vec<KeptProcess> {
        let Some(keeper) = self.keeper().filter(|keeper| keeper.generation() > 1) else {
            return Vec::new();
        };
        let mut kept_dirs = KeptDirs::default();
        let mut processes = Vec::new();
        let mut given_up = Vec::new();
        for job in keeper.take_jobs() {
            let name = job.name.clone();
            let kept = KeptJob::restore(keeper, job.id);
            let process = self.restore(keeper, job, &kept, &mut kept_dirs);
            if process.is_err() {
                given_up.push(kept);
            }
            processes.push(KeptProcess { name, process });
        }
        self.end_leftovers(keeper);
        self.cgroups().remove_jobs_except(&kept_dirs.cgroups);
        if let Some(root) = keeper.scratch_note().and_then(scratch::parse_kept_root) {
            self.scratch_reaper.remove_jobs_except(&root, &kept_dirs.scratch);
        }
        // Their processes are gone, so the keeper may forget them.
        drop(given_up);
        processes
    }

    fn restore(
        &self,
        keeper: &KeeperClient,
        mut job: ReceivedJob,
        kept: &Arc<KeptJob>,
        kept_dirs: &mut KeptDirs,
    ) -> Result<Process, String> {
        let mut saved =
            SavedProcess::parse(&job.state).ok_or("its description cannot be understood")?;
        let leader = processes::parse_pid(job.leader).ok_or("its first process is not known")?;
        let leader_stat = find_leader(leader, keeper);
        if job.exit.is_none() && leader_stat.is_none() {
            return Err("its first process is gone, and nobody took its status".to_owned());
        }
        self.trees().children.skip_serials(saved.tag().map_or(0, |tag| tag.child_serial()));
        let io = |error: io::Error| format!("its files cannot be watched: {error}");
        let stdout = job.take_file(FileRole::Stdout).ok_or("its files are not held")?;
        let stdout = OutputPipe::new(stdout).map_err(io)?;
        let stderr = match job.take_file(FileRole::Stderr) {
            Some(stderr) => Some(OutputPipe::new(stderr).map_err(io)?),
            None if saved.has_stderr => Some(OutputPipe::new_ended().map_err(io)?),
            None => None,
        };
        let stdin = job.take_file(FileRole::Stdin);
        let stdin = stdin.map(|file| InputPipe::new(file, saved.end_of_input())).transpose();
        let stdin = stdin.map_err(io)?;
        let report = job.take_file(FileRole::Report).map(PipelineReport::restore);
        let evidence = saved.take_evidence();
        let saved_resources = saved.resources.clone();
        let take_file = |role| job.take_file(role);
        let reaper = &self.scratch_reaper;
        let children = &self.trees().children;
        let resources =
            JobResources::restore(saved.resources, take_file, children, self.cgroups(), reaper)
                .ok_or("the files of its sandbox are not held")?;
        let trees = Arc::clone(self.trees());
        let identity = TreeIdentity::new(trees, leader, saved.started_after, evidence)
            .with_resources(resources)
            .with_keeper(Some(Arc::clone(kept)))
            .with_kept_leader(leader_stat.as_ref());
        let identity = Arc::new(identity);
        if job.exit.is_some() {
            identity.mark_leader_reaped();
            kept.reap_leader();
        }
        let leader = LeaderProcess::restore(job.exit, kept, Arc::clone(&identity));
        let tree = ProcessTree::new(identity);
        let mut process = Process { leader, tree, stdout, stderr, stdin, report };
        process.attach(kept);
        kept_dirs.add(&saved_resources);
        Ok(process)
    }

    /// Ends the children of the keeper that no tree owns: an earlier server was killed while it
    /// created them, or they belong to a job that cannot be continued.
    fn end_leftovers(&self, keeper: &KeeperClient) {
        let trees = self.trees().open_trees();
        let identities: Vec<&TreeIdentity> = trees.iter().map(AsRef::as_ref).collect();
        let filter = ServerProcessFilter::new(&self.tag());
        let find = || {
            let snapshot = ProcessSnapshot::take();
            let owned = self.owned_processes(&snapshot, &identities);
            let parent = keeper.keeper().as_raw_nonzero().get();
            let is_leftover = |stat: &ProcStat| {
                let is_candidate = stat.parent == parent && stat.pid != getpid();
                // A process without any evidence may belong to any tree: it ends with the last one.
                is_candidate
                    && stat.is_alive()
                    && !owned.contains(&stat.key())
                    && (identities.is_empty() || filter.includes(stat))
            };
            snapshot.with_descendants(is_leftover)
        };
        // Those that are still alive are ended with the server.
        drop(self.trees().children.end_all(find, END_LIMIT));
    }

    /// Returns all members of these trees, and the first processes of their namespaces.
    fn owned_processes(
        &self,
        snapshot: &ProcessSnapshot,
        trees: &[&TreeIdentity],
    ) -> HashSet<ProcessKey> {
        let members = self.trees().attribute_processes(snapshot, trees);
        let inits = trees.iter().filter_map(|tree| tree.query_resources(JobResources::init)?);
        let inits = inits.filter_map(|init| snapshot.get(init)).map(ProcStat::key);
        members.iter().flatten().map(ProcStat::key).chain(inits).collect()
    }
}

/// The time that processes which no job owns may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// A process that an earlier server started, and that its keeper has held since.
#[derive(Debug)]
pub struct KeptProcess {
    /// The name that the earlier server gave it: [`keep_as`](crate::ProcessLaunch::keep_as).
    pub name: String,
    /// The process, or the reason why it cannot be continued; then its tree has been ended.
    ///
    /// If its leader has ended meanwhile, [`LeaderProcess::wait`] returns at once; its pipes may
    /// still hold output, and other processes of its tree may be alive.
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

/// Returns the first process of a job, alive or not, if it is a child of the keeper.
fn find_leader(leader: Pid, keeper: &KeeperClient) -> Option<ProcStat> {
    let parent = keeper.keeper().as_raw_nonzero().get();
    processes::stat(leader).filter(|stat| stat.parent == parent)
}

/// The version of the description. It grows when an older server would misunderstand it.
const VERSION: u32 = 1;

/// The description of a running process, apart from its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedProcess {
    version: u32,
    /// The tick before which no process of the tree started.
    started_after: u64,
    tag: Option<u64>,
    marker: Option<Vec<u8>>,
    inputs: Vec<SavedPath>,
    outputs: Vec<SavedPath>,
    /// `true` if the input, if there is one, is a terminal.
    is_terminal: bool,
    has_stderr: bool,
    resources: SavedResources,
}

impl SavedProcess {
    pub(crate) fn new(
        identity: &TreeIdentity,
        resources: SavedResources,
        end: Option<EndOfInput>,
        has_stderr: bool,
    ) -> Self {
        let TreeEvidence { tag, marker, files } = &identity.evidence;
        Self {
            version: VERSION,
            started_after: identity.started_after,
            tag: tag.map(ProcessTag::to_number),
            marker: marker.clone(),
            inputs: save_paths(&files.inputs),
            outputs: save_paths(&files.outputs),
            is_terminal: end == Some(EndOfInput::EndOfFileKey),
            has_stderr,
            resources,
        }
    }

    /// Returns the text that the keeper holds.
    pub(crate) fn to_text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// Parses such a text; `None` if it is not one, or if it is of a version that this server does
    /// not know.
    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str::<Self>(text).ok().filter(|saved| saved.version <= VERSION)
    }

    /// Returns the tag of the tree.
    fn tag(&self) -> Option<ProcessTag> {
        self.tag.and_then(ProcessTag::from_number)
    }

    const fn end_of_input(&self) -> EndOfInput {
        if self.is_terminal { EndOfInput::EndOfFileKey } else { EndOfInput::Close }
    }

    /// Takes the evidence that the processes of the tree carry.
    fn take_evidence(&mut self) -> TreeEvidence {
        let inputs = restore_paths(std::mem::take(&mut self.inputs));
        let outputs = restore_paths(std::mem::take(&mut self.outputs));
        let files = StdioNames { inputs, outputs };
        TreeEvidence { tag: self.tag(), marker: self.marker.take(), files }
    }
}

#[cfg(test)]
pub(crate) use tests::{host, sh};

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use rustix::process::getpid;
    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::{
        CommandLine, EnvVariable, ExitKind, LaunchStdin, Process, SandboxSpec, StreamMode,
    };

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
        }
    }

    #[tokio::test]
    async fn two_hosts_run_processes_in_one_process() {
        let one = host();
        let other = host().new_sibling();
        let start = |host: &Host| host.spawn(&sh("echo up; sleep 1000 & exec sleep 1000")).unwrap();
        let processes: [Process; 2] = [start(one), start(&other)];
        let mut leaders = Vec::new();
        let mut trees = Vec::new();
        for mut process in processes {
            let mut output = [0; 3];
            process.stdout.read_exact(&mut output).await.unwrap();
            assert_eq!(&output, b"up\n");
            trees.push(process.tree);
            leaders.push(process.leader);
        }
        // Neither host takes a status that the other waits for, and each ends only its own tree.
        one.reap_orphans();
        other.reap_orphans();
        assert_eq!(trees[0].kill(), [0; 0]);
        assert_eq!(trees[1].living_pids().len(), 2);
        assert_eq!(trees[1].kill(), [0; 0]);
        for leader in leaders {
            let status = leader.wait().await.unwrap().status;
            assert_eq!(status, ExitKind::Signal { signal: 9, core: false });
        }
        one.spawner().start().unwrap();
        other.spawner().start().unwrap();
        assert_ne!(one.spawner().pid(), other.spawner().pid());
    }

    #[test]
    fn a_second_host_has_the_same_tag_and_markers_differ() {
        let first = host().tag();
        assert_eq!(host().new_sibling().tag(), first);
        assert_eq!(first.inherited(), ProcessTag::read(getpid()));
        let marker = first.new_marker(7);
        let start = format!("{}7:", first.marker_prefix());
        assert!(marker.as_bytes().starts_with(start.as_bytes()), "{marker:?}");
        let run = |marker: &EnvVariable| {
            let text = marker.value().to_str().unwrap();
            u64::from_str_radix(text.rsplit_once(':').unwrap().1, 16).unwrap()
        };
        let next = first.new_marker(7);
        assert_ne!(next, marker, "two runs of one job have different markers");
        assert!(run(&next).abs_diff(run(&marker)) > 1 << 20, "markers do not count runs: {next:?}");
    }

    #[tokio::test]
    async fn a_child_has_the_limit_on_open_files_that_we_were_started_with() {
        let mut process = host().spawn(&sh("ulimit -n")).unwrap();
        let mut limit = String::new();
        process.stdout.read_to_string(&mut limit).await.unwrap();
        let expected = host().defaults().open_files.current;
        assert_eq!(limit.trim().parse().ok(), expected, "{limit}");
        process.leader.wait().await.unwrap();
    }
}

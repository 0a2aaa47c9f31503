//! Continues the processes of an earlier server.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, getpid};

use crate::guardian::ServerProcessFilter;
use crate::host::Host;
use crate::keeper::{FileRole, KeeperClient, KeptJob, ReceivedJob};
use crate::processes::{self, ProcStat, ProcessKey, ProcessSnapshot};
use crate::sandbox::job_resources::{JobResources, SavedResources};
use crate::sandbox::scratch;
use crate::saved_process::{SavedProcess, parse_pid};
use crate::shell::PipelineReport;
use crate::spawn::Process;
use crate::stdio::{InputPipe, OutputPipe};
use crate::tree::members::TreeIdentity;
use crate::tree::{LeaderProcess, ProcessTree};

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

impl Host {
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
            self.scratch_reaper().remove_jobs_except(&root, &kept_dirs.scratch);
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
        let leader = parse_pid(job.leader).ok_or("its first process is not known")?;
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
        let reaper = self.scratch_reaper();
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

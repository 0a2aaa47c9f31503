//! The members of a process tree.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::ProcessTree;
use super::orphans::{AdoptedChildren, TreeId, TreeRegistry};
use crate::children::KeeperChild;
use crate::input_wait::{self, InputWait};
use crate::job_cgroup::JobCgroup;
use crate::keeper::KeptJob;
use crate::processes::{self, ProcStat, ProcessKey, ProcessSnapshot, ProcessState, ProcessTag};
use crate::sandbox::job_resources::JobResources;
use crate::stdio::StdioNames;
use crate::syscalls;

/// The identity of one tree, by which its processes are found.
#[derive(Debug)]
pub(crate) struct TreeIdentity {
    trees: Arc<TreeRegistry>,
    id: TreeId,
    leader: Pid,
    /// The tick (a hundredth of a second after boot) before which no process of the tree started.
    started_after: u64,
    evidence: TreeEvidence,
    /// `true` once the leader was reaped: its pid, session and group may then belong to other
    /// processes.
    leader_reaped: AtomicBool,
    /// The resources that are held for the tree until it is over.
    resources: Mutex<Option<JobResources>>,
    /// The job at the keeper, if there is one.
    kept: Option<Arc<KeptJob>>,
    /// The start time of a leader that an earlier server started and that the keeper reaps.
    leader_started: Option<u64>,
    /// That leader, until it was reaped: only held, so that it is not taken for an orphan.
    kept_leader: Mutex<Option<KeeperChild>>,
    /// The members that the last scan found: they stay members when all other evidence is gone.
    seen: Mutex<HashSet<ProcessKey>>,
}

/// The evidence that the processes of a tree carry.
#[derive(Debug, Default)]
pub(crate) struct TreeEvidence {
    pub(crate) tag: Option<ProcessTag>,
    /// The whole variable, `NAME=value`.
    pub(crate) marker: Option<Vec<u8>>,
    pub(crate) files: StdioNames,
}

impl TreeIdentity {
    pub(crate) fn new(
        trees: Arc<TreeRegistry>,
        leader: Pid,
        started_after: u64,
        evidence: TreeEvidence,
    ) -> Self {
        Self {
            id: trees.children.new_serial(),
            trees,
            leader,
            started_after,
            evidence,
            leader_reaped: AtomicBool::new(false),
            resources: Mutex::default(),
            kept: None,
            leader_started: None,
            kept_leader: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// Adds the resources that are held for the tree.
    pub(crate) fn with_resources(mut self, resources: JobResources) -> Self {
        self.resources = Mutex::new(Some(resources));
        self
    }

    /// Makes the tree one that the keeper holds.
    pub(crate) fn with_keeper(mut self, kept: Option<Arc<KeptJob>>) -> Self {
        self.kept = kept;
        self
    }

    /// Sets the leader as a child of the keeper, which reaps it.
    pub(crate) fn with_kept_leader(mut self, leader: Option<&ProcStat>) -> Self {
        self.leader_started = leader.map(|stat| stat.started);
        let child = leader.map(|stat| self.trees.children.own_keeper_child(stat.pid));
        self.kept_leader = Mutex::new(child);
        self
    }

    pub(crate) fn kept_job(&self) -> Option<&Arc<KeptJob>> {
        self.kept.as_ref()
    }

    pub(crate) const fn evidence(&self) -> &TreeEvidence {
        &self.evidence
    }

    pub(crate) fn trees(&self) -> &Arc<TreeRegistry> {
        &self.trees
    }

    pub(crate) const fn id(&self) -> TreeId {
        self.id
    }

    pub(crate) const fn leader(&self) -> Pid {
        self.leader
    }

    pub(crate) const fn started_after(&self) -> u64 {
        self.started_after
    }

    /// Calls `query` with the cgroup that the leader started in, if it got one of its own.
    pub(crate) fn query_cgroup<T>(&self, query: impl FnOnce(&JobCgroup) -> T) -> Option<T> {
        self.query_resources(|resources| resources.cgroup().map(query)).flatten()
    }

    pub(crate) fn mark_leader_reaped(&self) {
        self.leader_reaped.store(true, Ordering::Release);
        drop(self.kept_leader.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    pub(crate) fn is_leader_reaped(&self) -> bool {
        self.leader_reaped.load(Ordering::Acquire)
    }

    /// Calls `query` with the resources, while there are any.
    pub(crate) fn query_resources<T>(&self, query: impl FnOnce(&JobResources) -> T) -> Option<T> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(query)
    }

    /// Makes the keeper forget the process.
    pub(crate) fn release_from_keeper(&self) {
        if let Some(kept) = &self.kept {
            kept.release();
        }
    }

    /// Releases the resources of the tree: no process of it is left.
    pub(crate) fn release_resources(&self) {
        if let Some(kept) = &self.kept {
            kept.mark_tree_over();
        }
        let held = self.resources.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Dropped after the lock is released, since this removes directories.
        drop(held);
        self.trees.close_tree(self.id);
    }

    /// Returns all processes of the tree, including zombies, by one scan of /proc: those of its
    /// cgroup, and those that [`TreeRegistry::attribute_processes`] finds.
    pub(crate) fn members(&self) -> Vec<ProcStat> {
        self.members_in(&ProcessSnapshot::take())
    }

    /// Returns the processes of the tree, and the orphans that no other open tree can own.
    pub(crate) fn members_to_end(&self) -> Vec<ProcStat> {
        let snapshot = ProcessSnapshot::take();
        let mut members = self.members_in(&snapshot);
        members.extend(self.trees.orphans_left_to(self.id, &snapshot));
        members
    }

    fn members_in(&self, snapshot: &ProcessSnapshot) -> Vec<ProcStat> {
        let mut members =
            self.trees.attribute_processes(snapshot, &[self]).pop().unwrap_or_default();
        let found: HashSet<ProcessKey> = members.iter().map(ProcStat::key).collect();
        let init = self.query_resources(JobResources::init).flatten();
        // Read after the snapshot: a process that is in the cgroup by now is a member, however it
        // got there.
        let others = self.query_cgroup(JobCgroup::members).unwrap_or_default().into_iter();
        members
            .extend(others.filter(|stat| !found.contains(&stat.key()) && Some(stat.pid) != init));
        self.remember(&members);
        members
    }

    fn shares_session(&self, stat: &ProcStat) -> bool {
        let leader = self.leader.as_raw_nonzero().get();
        (stat.session == leader || stat.group == leader)
            && stat.started >= self.started_after
            && (!self.is_leader_reaped()
                || (!self.is_leader_pid_reused() && !self.has_tag_of_other_tree(stat.pid)))
    }

    /// `true` if the leader's pid belongs to another process by now. The system reuses a number
    /// only if no session and no group has it, so its new owner is not of this tree.
    fn is_leader_pid_reused(&self) -> bool {
        // The keeper may reap the leader a moment after it was marked as reaped.
        processes::stat(self.leader).is_some_and(|stat| Some(stat.started) != self.leader_started)
    }

    fn has_tag_of_other_tree(&self, pid: Pid) -> bool {
        let tag = ProcessTag::read(pid).filter(|tag| !tag.is_server_tag());
        self.evidence.tag.is_some() && tag.is_some() && tag != self.evidence.tag
    }

    /// `true` if an orphan carries weak evidence of this tree. Reads several files.
    pub(crate) fn has_weak_evidence(&self, pid: Pid) -> bool {
        self.has_our_marker(pid) || self.holds_our_output(pid)
    }

    /// `true` for evidence that no process has by chance: its cgroup, or the tag in its limits.
    pub(crate) fn has_kernel_evidence(
        &self,
        tag: Option<ProcessTag>,
        cgroup: Option<&Path>,
    ) -> bool {
        let is_inside = |path: &Path| self.query_cgroup(|cgroup| cgroup.holds(path)) == Some(true);
        cgroup.is_some_and(is_inside) || (self.evidence.tag.is_some() && tag == self.evidence.tag)
    }

    /// `true` if this is the tag of another tree of this server.
    pub(crate) fn is_sibling_tag(&self, tag: Option<ProcessTag>) -> bool {
        let is_sibling = |ours: ProcessTag| {
            tag.is_some_and(|tag| tag.is_same_server(ours) && !tag.is_server_tag() && tag != ours)
        };
        self.evidence.tag.is_some_and(is_sibling)
    }

    /// `true` if orphans of the tree pass to the init of its own pid namespace.
    pub(crate) fn has_namespace(&self) -> bool {
        self.query_resources(JobResources::init).flatten().is_some()
    }

    fn has_our_marker(&self, pid: Pid) -> bool {
        let marker = self.evidence.marker.as_deref();
        marker.is_some_and(|marker| {
            processes::has_environment_variable(pid, |variable| variable == marker)
        })
    }

    fn holds_our_output(&self, pid: Pid) -> bool {
        let mut standard_files =
            (0..3).filter_map(|number| processes::open_file_target(pid, number));
        standard_files.any(|file| self.evidence.files.outputs.contains(&file))
    }

    /// Returns how certainly this process waits for the job's input.
    pub(crate) fn input_wait(&self, stat: &ProcStat, has_children: bool) -> InputWait {
        input_wait::read_process(stat, &self.evidence.files.inputs, has_children)
    }

    /// Reads the children of the server that it did not create. Returns those for which `select` is
    /// true and that belong to this tree, and the pids of those that are gone or not selected.
    ///
    /// # Errors
    /// If the kernel does not list children.
    pub(crate) fn read_adopted(
        &self,
        select: impl Fn(&ProcStat) -> bool,
    ) -> io::Result<(Vec<ProcStat>, HashSet<Pid>)> {
        let mut children = self.trees.children.adopted_candidates()?;
        children.retain(|pid| !self.trees.children.is_owned(*pid));
        let adopted = self.trees.adopted_children();
        let mut members = Vec::new();
        let mut unselected = HashSet::new();
        for pid in children {
            match processes::stat(pid).filter(&select) {
                Some(stat) if self.trees.owner_of(&stat, &adopted) == Some(self.id) => {
                    members.push(stat);
                }
                Some(_) => {}
                None => {
                    unselected.insert(pid);
                }
            }
        }
        Ok((members, unselected))
    }

    /// Returns the members that the last scan found.
    pub(crate) fn seen_processes(&self) -> HashSet<ProcessKey> {
        self.lock_seen().clone()
    }

    /// Remembers the living among these, so that they stay members when all other evidence is gone.
    pub(crate) fn remember(&self, members: &[ProcStat]) {
        let alive: HashSet<ProcessKey> =
            members.iter().filter(|stat| stat.is_alive()).map(ProcStat::key).collect();
        let missing: Vec<ProcessKey> = self.lock_seen().difference(&alive).copied().collect();
        // A later scan may have seen a process that this one could not see yet.
        let gone: Vec<_> = missing.into_iter().filter(|key| !processes::is_alive(*key)).collect();
        let mut seen = self.lock_seen();
        seen.extend(alive);
        for key in gone {
            seen.remove(&key);
        }
    }

    fn lock_seen(&self) -> MutexGuard<'_, HashSet<ProcessKey>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TreeIdentity {
    fn drop(&mut self) {
        self.trees.close_tree(self.id);
    }
}

impl TreeRegistry {
    /// Returns the processes of each of these trees, including zombies, in the trees' order.
    ///
    /// Walks down from the server and its keeper, so that only our descendants can be included.
    pub(crate) fn attribute_processes(
        &self,
        snapshot: &ProcessSnapshot,
        trees: &[&TreeIdentity],
    ) -> Vec<Vec<ProcStat>> {
        let owners = OwnerIndex::new(self, trees);
        let mut children = snapshot.by_parent();
        let mut below = |pid: Pid| children.remove(&pid.as_raw_nonzero().get()).unwrap_or_default();
        let mut members = vec![Vec::new(); trees.len()];
        let mut todo: Vec<(&ProcStat, ParentKind)> = Vec::new();
        for root in self.children.roots() {
            let children = below(root).into_iter().filter(|stat| stat.pid != getpid());
            todo.extend(children.map(|stat| (stat, ParentKind::Server)));
        }
        while let Some((stat, parent)) = todo.pop() {
            let owner = owners.find(stat, parent);
            // The first process of a namespace is ours and not part of the job: only its children
            // are.
            if let Some(tree) = owner.filter(|_| !owners.inits.contains_key(&stat.pid)) {
                members[tree].push(*stat);
            }
            let parent = owner.map_or(ParentKind::Stranger, ParentKind::Member);
            todo.extend(below(stat.pid).into_iter().map(|child| (child, parent)));
        }
        members
    }
}

/// The relation of a process's parent to the trees.
#[derive(Debug, Clone, Copy)]
enum ParentKind {
    Server,
    Member(usize),
    Stranger,
}

/// The evidence of many trees, for lookup by process.
#[derive(Debug)]
struct OwnerIndex<'a> {
    registry: &'a TreeRegistry,
    trees: &'a [&'a TreeIdentity],
    ids: HashMap<TreeId, usize>,
    leaders: HashMap<i32, usize>,
    /// The first processes of pid namespaces, to which orphans pass.
    inits: HashMap<Pid, usize>,
    seen: HashMap<ProcessKey, usize>,
    adopted: AdoptedChildren<'a>,
}

impl<'a> OwnerIndex<'a> {
    fn new(registry: &'a TreeRegistry, trees: &'a [&'a TreeIdentity]) -> Self {
        let mut by_age: Vec<_> = trees.iter().copied().enumerate().collect();
        // If two leaders had the same pid, only the later tree can have it now.
        by_age.sort_by_key(|(_, identity)| identity.started_after);
        let mut ids = HashMap::new();
        let mut leaders = HashMap::new();
        let mut inits = HashMap::new();
        let mut seen = HashMap::new();
        for (index, identity) in by_age {
            ids.insert(identity.id, index);
            leaders.insert(identity.leader.as_raw_nonzero().get(), index);
            let init = identity.query_resources(JobResources::init).flatten();
            inits.extend(init.map(|init| (init, index)));
            seen.extend(identity.lock_seen().iter().map(|key| (*key, index)));
        }
        let adopted = registry.adopted_children();
        Self { registry, trees, ids, leaders, inits, seen, adopted }
    }

    fn find(&self, stat: &ProcStat, parent: ParentKind) -> Option<usize> {
        let by_itself = || self.by_session(stat).or_else(|| self.seen.get(&stat.key()).copied());
        match parent {
            ParentKind::Member(tree) => Some(tree),
            ParentKind::Server => {
                let init = self.inits.get(&stat.pid).copied();
                init.or_else(by_itself).or_else(|| self.as_orphan(stat))
            }
            ParentKind::Stranger => by_itself(),
        }
    }

    fn by_session(&self, stat: &ProcStat) -> Option<usize> {
        let tree = *self.leaders.get(&stat.session).or_else(|| self.leaders.get(&stat.group))?;
        self.trees[tree].shares_session(stat).then_some(tree)
    }

    fn as_orphan(&self, stat: &ProcStat) -> Option<usize> {
        if self.registry.children.is_owned(stat.pid) {
            return None;
        }
        self.registry.owner_of(stat, &self.adopted).and_then(|tree| self.ids.get(&tree).copied())
    }
}

// The processes of a tree, found from parent to child.
//
// A scan of /proc reads a file for every process of the host. The lists of children lead to the
// processes of one tree alone, and a parent that is stopped before its list is read has no more
// children than the list says. So this stops a fork bomb whose processes leave their session, where
// nothing else does: beside hundreds of busy processes the server gets little processor time.

/// The most passes over a tree that keeps growing while it is being stopped.
const STOP_PASSES: u32 = 20;

/// The processes that were running and then stopped.
#[derive(Debug, Default)]
pub struct StoppedProcesses(HashMap<ProcessKey, ProcStat>);

impl StoppedProcesses {
    /// Resumes all of them.
    pub fn resume(&self) {
        for stat in self.0.values() {
            // It is gone already, or not ours to signal.
            processes::send_signal(stat, Signal::CONT).ok();
        }
    }
}

impl ProcessTree {
    /// Counts the leader, while it lives, the orphans that are known to belong to this tree, and
    /// all their descendants. Includes those that have ended and were not reaped yet; children of a
    /// process's other threads are not included. Stops counting above `most`: beside a fork bomb
    /// each process costs time.
    #[must_use]
    pub fn count_members(&self, most: u64) -> u64 {
        let mut found = HashSet::new();
        let mut todo = self.topmost_pids();
        while let Some(pid) = todo.pop().filter(|_| found.len() as u64 <= most) {
            if found.insert(pid) {
                // It is gone, or the kernel has no such lists.
                todo.extend(processes::children_of(pid).unwrap_or_default());
            }
        }
        found.len() as u64
    }

    /// Stops the same processes, parents before their children, in passes until one finds no other
    /// running process. Blocks.
    #[must_use = "stopped processes have to be resumed or ended"]
    pub fn stop_descendants(&self) -> StoppedProcesses {
        let mut stopped = StoppedProcesses::default();
        for _ in 0..STOP_PASSES {
            let before = stopped.0.len();
            self.stop_in_one_pass(&mut stopped.0);
            if stopped.0.len() == before {
                break;
            }
        }
        stopped
    }

    fn stop_in_one_pass(&self, stopped: &mut HashMap<ProcessKey, ProcStat>) {
        let roots = self.identity().trees.children.roots();
        let mut todo: Vec<(Pid, Option<Pid>)> =
            self.topmost_pids().into_iter().map(|pid| (pid, None)).collect();
        while let Some((pid, parent)) = todo.pop() {
            let parents = parent.as_ref().map_or(roots.as_slice(), std::slice::from_ref);
            // A process that got the signal may still read as running for a moment.
            stopped.extend(stop_child(pid, parents).map(|stat| (stat.key(), stat)));
            let below = processes::children_of(pid).unwrap_or_default();
            todo.extend(below.into_iter().map(|child| (child, Some(pid))));
        }
    }

    /// Returns the processes of the tree whose parent is the server or its keeper.
    fn topmost_pids(&self) -> Vec<Pid> {
        let identity = self.identity();
        let leader = Some(identity.leader()).filter(|_| !identity.is_leader_reaped());
        let (adopted, _) = identity.read_adopted(|_| true).unwrap_or_default();
        leader.into_iter().chain(adopted.iter().map(|stat| stat.pid)).collect()
    }
}

/// Stops a process if it is a child of one of these and runs. Returns it if it was stopped.
fn stop_child(pid: Pid, parents: &[Pid]) -> Option<ProcStat> {
    // Opened before the check, so that the signal goes to the process that was checked, even if the
    // pid is reused.
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let stat = processes::stat(pid)?;
    let is_running = match stat.state {
        ProcessState::Active | ProcessState::Uninterruptible => true,
        ProcessState::Stopped | ProcessState::Dead => false,
    };
    let is_child = parents.iter().any(|parent| parent.as_raw_nonzero().get() == stat.parent);
    if !is_running || !is_child {
        return None;
    }
    pidfd_send_signal(process, Signal::STOP).ok().map(|()| stat)
}

/// The resources that one tree uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeLoad {
    /// Processes and threads that are alive.
    pub tasks: u64,
    /// CPU time of its processes and of the children that they waited for.
    pub cpu: Duration,
    /// Memory of its processes, with shared pages counted in each.
    pub rss_bytes: u64,
    members: Vec<ProcStat>,
}

impl TreeLoad {
    /// Returns the memory of its processes, with shared pages counted once. Makes the kernel walk
    /// over all of it, so call it only if [`TreeLoad::rss_bytes`] is too much. Calls `has_time`
    /// before each process; `None` if there was no time left.
    #[must_use]
    pub fn proportional_bytes(&self, has_time: impl Fn() -> bool) -> Option<u64> {
        let bytes = |stat: &ProcStat| {
            // For another user's process only the plain figure can be read.
            let bytes = || processes::proportional_bytes(stat.pid);
            has_time().then(|| bytes().unwrap_or_else(|| stat.rss_bytes()))
        };
        self.members.iter().map(bytes).sum()
    }

    fn from_members(members: &[ProcStat]) -> Self {
        let mut load = Self::default();
        members.iter().for_each(|stat| load.add(stat));
        load
    }

    /// Stops the processes that were seen.
    pub(crate) fn stop(&self) {
        for stat in &self.members {
            // It is gone already, or not ours to signal.
            processes::send_signal(stat, Signal::STOP).ok();
        }
    }

    fn add(&mut self, stat: &ProcStat) {
        // The usage of a zombie is not counted in its parent until it is waited for.
        self.cpu += stat.cpu();
        if stat.is_alive() {
            self.tasks += stat.threads;
            self.rss_bytes += stat.rss_bytes();
            self.members.push(*stat);
        }
    }
}

/// Counts the processes of each session, by the pid of its leader. Makes one short call for each
/// process of the host, which costs a tenth of reading its state.
#[must_use]
pub fn count_processes_by_session() -> HashMap<Pid, u64> {
    let mut sizes = HashMap::new();
    for session in processes::all_pids().into_iter().filter_map(syscalls::session_of) {
        *sizes.entry(session).or_default() += 1;
    }
    sizes
}

/// Measures the load of each of these trees, in their order. Blocks: it reads one file for each
/// process of the host, however many trees there are.
#[must_use]
pub fn measure_trees(trees: &[Arc<ProcessTree>]) -> Vec<TreeLoad> {
    let Some(first) = trees.first() else { return Vec::new() };
    let identities: Vec<&TreeIdentity> = trees.iter().map(|tree| tree.identity()).collect();
    let members =
        first.identity().trees().attribute_processes(&ProcessSnapshot::take(), &identities);
    members.iter().map(|members| TreeLoad::from_members(members)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::host::tests::host;
    use crate::{LaunchStdin, Process, ProcessLaunch, ReportMode, SandboxSpec, StreamMode};

    /// A shell with a child and an orphan in their own sessions; the orphan has a child as well.
    fn scattered() -> Process {
        let text = "(setsid sh -c 'sleep 1000; :' &); setsid sleep 1000 & wait";
        let launch = ProcessLaunch {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), text.into()],
            arg0: None,
            env: Vec::new(),
            cwd: "/".into(),
            stdin: LaunchStdin::Null,
            streams: StreamMode::Separate,
            report: ReportMode::None,
            sandbox: SandboxSpec::none(),
            keep_as: None,
        };
        host().spawn(&launch).unwrap()
    }

    fn states(process: &Process) -> Vec<ProcessState> {
        let pids = process.tree.living_pids().into_iter();
        let pids = pids.filter_map(|pid| Pid::from_raw(pid.cast_signed()));
        pids.filter_map(processes::stat).map(|stat| stat.state).collect()
    }

    /// The names of the programs, sorted.
    fn names(process: &Process) -> Vec<String> {
        let comm = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
        let names = process.tree.living_pids().into_iter().filter_map(comm);
        let mut names: Vec<String> = names.map(|name| name.trim_end().to_owned()).collect();
        names.sort();
        names
    }

    #[track_caller]
    fn eventually(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[tokio::test]
    async fn processes_that_left_the_session_are_counted_stopped_and_resumed() {
        let process = scattered();
        let tree = &process.tree;
        // The shell, a child, and an orphan with a child.
        eventually("all are there", || names(&process) == ["sh", "sh", "sleep", "sleep"]);
        assert_eq!(tree.count_members(10), 4);
        assert_eq!(tree.count_members(2), 3, "the first above two");
        let are_all = |state| states(&process).iter().all(|found| *found == state);
        let stopped = tree.stop_descendants();
        assert_eq!(stopped.0.len(), 4);
        eventually("all are stopped", || are_all(ProcessState::Stopped));
        assert!(tree.stop_descendants().0.is_empty(), "none is running");
        stopped.resume();
        eventually("all are resumed", || are_all(ProcessState::Active));
        assert_eq!(tree.kill(), [0; 0]);
    }
}

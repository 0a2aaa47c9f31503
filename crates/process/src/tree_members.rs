//! The identity of a process tree, by which its members are found, and its leader: waiting for its end,
//! and taking its status.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use crate::children::{Child, Children, KeeperChild};
use crate::confinement::SetAsideFile;
use crate::job_cgroup::JobCgroup;
use crate::keeper::KeptJob;
use crate::processes::{self, ProcStat, ProcessKey, ProcessSnapshot, ProcessState, ProcessTag};
use crate::sandbox::job_resources::JobResources;
use crate::stdio::StdioNames;
use crate::syscalls::{self, ChildExit};
use crate::tree_registry::{TreeId, TreeRegistry};
use crate::vfork_spawn::SpawnedChild;

/// The identity of one tree, by which its processes are found.
#[derive(Debug)]
pub(crate) struct TreeIdentity {
    pub(crate) trees: Arc<TreeRegistry>,
    pub(crate) id: TreeId,
    pub(crate) leader: Pid,
    /// The tick (a hundredth of a second after boot) before which no process of the tree started.
    pub(crate) started_after: u64,
    pub(crate) evidence: TreeEvidence,
    /// `true` once the leader was reaped: its pid, session and group may then belong to other
    /// processes.
    leader_reaped: AtomicBool,
    /// The resources that are held for the tree until it is over.
    resources: Mutex<Option<JobResources>>,
    /// The files that were found under protected names when it was over.
    set_aside: OnceLock<Vec<SetAsideFile>>,
    /// The job at the keeper, if there is one.
    pub(crate) kept: Option<Arc<KeptJob>>,
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
            set_aside: OnceLock::new(),
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
        // After the lock is released, since this removes directories.
        if let Some(held) = held {
            self.set_aside.set(held.release()).ok();
        }
        self.trees.close_tree(self.id);
    }

    /// Returns the files that were found under protected names, once the tree is over.
    pub(crate) fn set_aside_files(&self) -> &[SetAsideFile] {
        self.set_aside.get().map_or(&[], Vec::as_slice)
    }

    /// Returns all processes of the tree, including zombies, by one scan of /proc: those of its
    /// cgroup, and those that [`TreeRegistry::attribute_processes`] finds. `None` if not all
    /// processes can be read.
    pub(crate) fn members(&self) -> Option<Vec<ProcStat>> {
        ProcessSnapshot::take_complete().map(|snapshot| self.members_in(&snapshot))
    }

    /// Returns the processes of the tree, and the orphans that no other open tree can own, as far as
    /// they can be read; and `true` if all can.
    pub(crate) fn members_to_end(&self) -> (Vec<ProcStat>, bool) {
        let snapshot = ProcessSnapshot::take();
        let mut members = self.members_in(&snapshot);
        members.extend(self.trees.orphans_left_to(self.id, &snapshot));
        (members, snapshot.is_complete())
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

    pub(crate) fn shares_session(&self, stat: &ProcStat) -> bool {
        let leader = self.leader.as_raw_nonzero().get();
        (stat.session == leader || stat.group == leader)
            && stat.started >= self.started_after
            && (!self.is_leader_reaped()
                || (!self.is_leader_pid_reused() && !self.has_tag_of_other_tree(stat.pid)))
    }

    /// `true` for a process of the leader's session or group, and for a member that a scan has found.
    pub(crate) fn is_known_member(&self, stat: &ProcStat) -> bool {
        self.shares_session(stat) || self.lock_seen().contains(&stat.key())
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

    /// Reads the children of the server that it did not create. Returns those for which `select` is
    /// true and that belong to this tree, and the pids of those that are not selected, or that ended
    /// before their tree was known. Other children that are known to be of another tree are left
    /// out.
    ///
    /// # Errors
    /// If the kernel does not list children, or if one cannot be read.
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
            let Some(stat) = processes::read_stat(pid)? else {
                unselected.insert(pid);
                continue;
            };
            match self.trees.owner_of(&stat, &adopted) {
                Some(tree) if tree != self.id => {}
                Some(_) | None if !select(&stat) => drop(unselected.insert(pid)),
                Some(_) => members.push(stat),
                // A process that ends meanwhile shows no owner any more.
                None if processes::may_be_alive(stat.key()) => {}
                None => drop(unselected.insert(pid)),
            }
        }
        Ok((members, unselected))
    }

    /// Remembers the living among these, so that they stay members when all other evidence is gone.
    pub(crate) fn remember(&self, members: &[ProcStat]) {
        let alive: HashSet<ProcessKey> =
            members.iter().filter(|stat| stat.is_alive()).map(ProcStat::key).collect();
        let missing: Vec<ProcessKey> = self.lock_seen().difference(&alive).copied().collect();
        // A later scan may have seen a process that this one could not see yet.
        let gone: Vec<_> =
            missing.into_iter().filter(|key| !processes::may_be_alive(*key)).collect();
        let mut seen = self.lock_seen();
        seen.extend(alive);
        for key in gone {
            seen.remove(&key);
        }
    }

    /// Returns the members that the last scan found.
    pub(crate) fn lock_seen(&self) -> MutexGuard<'_, HashSet<ProcessKey>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TreeIdentity {
    fn drop(&mut self) {
        self.trees.close_tree(self.id);
    }
}

/// The processes that were running and then stopped.
#[derive(Debug, Default)]
pub struct StoppedProcesses(pub(crate) HashMap<ProcessKey, ProcStat>);

impl StoppedProcesses {
    /// Resumes all of them.
    pub fn resume(&self) {
        for stat in self.0.values() {
            // It is gone already, or not ours to signal.
            processes::resume(stat).ok();
        }
    }
}

/// Stops a process if it is a child of one of these and runs. Returns it if it was stopped.
pub(crate) fn stop_child(pid: Pid, parents: &[Pid]) -> Option<ProcStat> {
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

/// The end of a process, and the resources that it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code or signal.
    pub status: ExitKind,
    /// The resources that it and the children that it waited for used. `max_rss_bytes` is 0 if it
    /// is not known: the kernel starts a child's peak at the server's own, so a smaller one cannot
    /// be seen.
    pub usage: ResourceUsage,
}

/// CPU time and memory of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct ResourceUsage {
    /// User and system time.
    pub cpu: Duration,
    /// The largest resident set of any one process.
    pub max_rss_bytes: u64,
}

/// The way in which a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// An exit with this code.
    Code(i32),
    /// An end by this signal.
    Signal {
        /// The number of the signal.
        signal: i32,
        /// `true` if it left a core dump.
        core: bool,
    },
}

/// The first process of a tree.
///
/// If it is dropped without [`LeaderProcess::wait`], it keeps running and is reaped like an orphan.
#[derive(Debug)]
pub struct LeaderProcess {
    exit: LeaderExit,
    identity: Arc<TreeIdentity>,
}

/// The source of the status of a leader.
#[derive(Debug)]
enum LeaderExit {
    /// A child of this process, with its pidfd.
    Child(Child, AsyncFd<OwnedFd>),
    /// A child of the keeper, which will report its end.
    Kept(oneshot::Receiver<ChildExit>),
    /// A process that ended before this server took it over.
    Known(ChildExit),
}

/// Registers a new child with the runtime, which reports its end. After an error the child is gone.
pub(crate) fn watch_for_exit(spawned: SpawnedChild) -> io::Result<(Child, AsyncFd<OwnedFd>)> {
    let SpawnedChild { child, pidfd } = spawned;
    match syscalls::register(pidfd, Interest::READABLE) {
        Ok(pidfd) => Ok((child, pidfd)),
        Err(error) => {
            child.kill_and_reap();
            Err(error)
        }
    }
}

impl LeaderProcess {
    pub(crate) fn new(child: Child, pidfd: AsyncFd<OwnedFd>, identity: Arc<TreeIdentity>) -> Self {
        Self { exit: LeaderExit::Child(child, pidfd), identity }
    }

    /// Creates the leader of a tree that an earlier server started; `exit` is its status if it has
    /// ended.
    pub(crate) fn restore(
        exit: Option<ChildExit>,
        kept: &KeptJob,
        identity: Arc<TreeIdentity>,
    ) -> Self {
        let exit = match exit {
            Some(exit) => LeaderExit::Known(exit),
            None => LeaderExit::Kept(kept.wait_for_exit()),
        };
        Self { exit, identity }
    }

    /// Returns when the process has ended, and reaps it. Its descendants may live on.
    ///
    /// If the keeper holds the process, the keeper knows the status before the process is reaped.
    ///
    /// # Errors
    /// If another caller took the status, if the runtime shuts down, or if the keeper that would
    /// report it is gone.
    pub async fn wait(self) -> io::Result<Exit> {
        let identity = self.identity;
        let ended = match self.exit {
            LeaderExit::Child(child, pidfd) => {
                let ended = wait_for_child(child, pidfd, identity.kept.as_ref()).await?;
                identity.mark_leader_reaped();
                ended
            }
            LeaderExit::Kept(receiver) => {
                let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the keeper is gone");
                let ended = receiver.await.map_err(gone)?;
                identity.mark_leader_reaped();
                if let Some(kept) = identity.kept.as_ref() {
                    kept.reap_leader();
                }
                ended
            }
            LeaderExit::Known(ended) => ended,
        };
        Ok(exit_from(ended, &identity.trees.children))
    }
}

/// Waits for a child of this process, and reaps it.
async fn wait_for_child(
    mut child: Child,
    pidfd: AsyncFd<OwnedFd>,
    kept: Option<&Arc<KeptJob>>,
) -> io::Result<ChildExit> {
    loop {
        let mut ready = pidfd.readable().await?;
        if let Some(kept) = kept
            && let Some(ended) = child.peek_exit()?
        {
            kept.report_exit(ended);
        }
        if let Some(ended) = child.try_reap()? {
            return Ok(ended);
        }
        ready.clear_ready();
    }
}

fn exit_from(ended: ChildExit, children: &Children) -> Exit {
    // A spawned child starts with the server's memory: a peak up to ours may be ours.
    let is_its_own = children.is_above_own_peak(ended.max_rss_bytes);
    let max_rss_bytes = if is_its_own { ended.max_rss_bytes } else { 0 };
    Exit {
        status: decode_status(ended.status),
        usage: ResourceUsage { cpu: ended.cpu, max_rss_bytes },
    }
}

const fn decode_status(status: i32) -> ExitKind {
    if libc::WIFSIGNALED(status) {
        ExitKind::Signal { signal: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
    } else {
        ExitKind::Code(libc::WEXITSTATUS(status))
    }
}

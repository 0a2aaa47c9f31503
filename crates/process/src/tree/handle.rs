//! A process and everything that came out of it.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::process::{
    Pid, Signal, getpid, kill_process, kill_process_group, test_kill_process_group,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::members::{TreeIdentity, TreeLoad};
use crate::cgroup::JobCgroup;
use crate::children::{Child, Children};
use crate::confinement::ResourceLimits;
use crate::load::{self, HostLoad};
use crate::processes::{ProcStat, number};
use crate::sandbox::job_resources::{JobResources, KillMethod, Occupancy};
use crate::syscalls::ChildExit;
use crate::syscalls::block_in_place;
use crate::vfork_spawn::SpawnedChild;
use crate::{processes, syscalls};

/// How long [`ProcessTree::kill`] tries while nobody ends.
const KILL_LIMIT: Duration = Duration::from_millis(1500);

/// The number of scans of all processes after which a tree counts as empty that shows nobody.
const EMPTY_SCANS: u32 = 5;

/// The number of readings of our children after which those that keep ending are not waited for.
const CHILD_READINGS: u32 = 100;

/// The time between two scans of a tree of which one scan does not tell enough.
const SCAN_PAUSE: Duration = Duration::from_millis(5);

/// A process and everything that came out of it, children that left its session included.
///
/// Every question is answered by a scan of /proc: what it says was true a moment ago. Only
/// verified descendants of this server are ever signalled. The calls read many small files: make
/// them on a thread that may block.
#[derive(Debug, Clone)]
pub struct ProcessTree {
    identity: Arc<TreeIdentity>,
}

/// The activity of a tree at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeActivity {
    /// The number of its processes that are alive.
    pub processes: usize,
    /// CPU time of those and of the children that they waited for.
    pub cpu: Duration,
    /// Memory that they hold, shared pages counted in each.
    pub rss_bytes: u64,
    /// `true` if one of them is blocked on reading what we could send.
    pub waiting_for_input: bool,
}

impl ProcessTree {
    pub(crate) fn new(identity: Arc<TreeIdentity>) -> Self {
        if identity.trees().open_tree(&identity) {
            // Whoever follows children waits without a limit while there is no tree.
            kill_process(getpid(), Signal::CHILD).ok();
        }
        Self { identity }
    }

    pub(crate) fn identity(&self) -> &TreeIdentity {
        &self.identity
    }

    /// The process id of the first process.
    #[must_use]
    pub fn leader_pid(&self) -> u32 {
        number(self.identity.leader())
    }

    /// Sends a signal to every living process, and wakes those that are stopped so that they can
    /// act on it. Says how many got it; none when the number is no signal's.
    pub fn signal(&self, signal: i32) -> usize {
        let Some(signal) = Signal::from_named_raw(signal) else { return 0 };
        let members = self.living();
        let (group, others): (Vec<_>, Vec<_>) =
            members.iter().partition(|stat| self.is_in_leaders_group(stat));
        let reached = self.signal_group(&group, signal)
            + others.iter().filter(|stat| processes::send(stat, signal).is_ok()).count();
        if !leaves_stopped(signal) {
            for stat in &members {
                // Ended by the signal itself, most likely.
                processes::send(stat, Signal::CONT).ok();
            }
        }
        reached
    }

    /// Ends every process, those that they start meanwhile included. Blocks, for up to
    /// 1.5 s after the last one that ended.
    ///
    /// Returns who is still alive, by a last scan and by the list of the cgroup: nobody, unless a
    /// process is stuck in the kernel or belongs to another user.
    #[must_use = "who is still alive was not ended"]
    pub fn kill(&self) -> Vec<u32> {
        self.identity.holdings(JobResources::end_processes);
        let mut alive =
            self.identity.trees().children.end_all(|| self.identity.members_to_end(), KILL_LIMIT);
        if alive.is_empty() {
            alive = self.end_adopted();
        }
        if alive.is_empty() {
            alive = self.wait_for_empty_cgroup();
        }
        // Else whoever waits for the leader closes the tree.
        if alive.is_empty() && self.identity.is_leader_reaped() {
            self.close();
        }
        alive
    }

    /// Living processes that may belong to this tree or to another that is not over. They end with
    /// the last of those.
    #[must_use]
    pub fn unattributed_pids(&self) -> Vec<u32> {
        self.identity
            .trees()
            .without_owner_beside(self.identity.id())
            .into_iter()
            .map(number)
            .collect()
    }

    /// The strongest means by which [`ProcessTree::kill`] ends the processes. Whatever it is, a walk
    /// through all processes then makes sure.
    #[must_use]
    pub fn kill_method(&self) -> KillMethod {
        self.identity.holdings(JobResources::kill_method).unwrap_or(KillMethod::Walk)
    }

    /// The processes that are alive. Where /proc shows none of them, those that the kernel lists in
    /// the cgroup: while there are any the tree is not over.
    #[must_use]
    pub fn living_pids(&self) -> Vec<u32> {
        let living = self.living();
        if living.is_empty() && self.identity.is_leader_reaped() {
            return self.listed_in_cgroup();
        }
        living.iter().map(|stat| number(stat.pid)).collect()
    }

    /// The processes that are alive after the leader was waited for: cheap when there are none.
    ///
    /// Whoever outlives the leader is in its group, or hangs on a child of ours that we did not create.
    /// Neither, no survivor: also where its cgroup is empty, which a process may have left.
    #[must_use]
    pub fn survivors_after_exit(&self) -> Vec<u32> {
        let inhabitants = self.identity.holdings(JobResources::inhabitants);
        let may_survive = match inhabitants.unwrap_or(Occupancy::Unknown) {
            Occupancy::Some => true,
            Occupancy::None | Occupancy::Unknown => {
                self.leaders_group_lives() || !matches!(self.adopted(), AdoptedMembers::None)
            }
        };
        let may_survive = may_survive || self.identity.trees().may_tell_more(self.identity.id());
        let survivors =
            if may_survive { block_in_place(|| self.living_pids()) } else { Vec::new() };
        if survivors.is_empty() {
            self.close();
        }
        survivors
    }

    /// Takes a glance at the host that the tree runs on; `None` where the kernel does not tell.
    #[must_use]
    pub fn read_host_load(&self) -> Option<HostLoad> {
        load::read_host_load(&self.identity.trees().cgroups)
    }

    /// Lets go of what was held for a tree of which nobody is left, and ends the orphans that could
    /// only have been its own.
    fn close(&self) {
        self.identity.release();
        let trees = self.identity.trees();
        if trees.has_unowned() {
            block_in_place(|| trees.end_unowned());
        }
    }

    /// Reads what the tree is doing.
    #[must_use]
    pub fn read_activity(&self) -> TreeActivity {
        let members = self.in_cgroup().unwrap_or_else(|| self.living());
        TreeActivity {
            processes: members.len(),
            cpu: members.iter().map(ProcStat::cpu).sum(),
            rss_bytes: members.iter().map(ProcStat::rss_bytes).sum(),
            waiting_for_input: members.iter().any(|stat| self.identity.waits_for_input(stat.pid)),
        }
    }

    /// The processes in its cgroup, where anybody is in it: found without a scan of all processes of
    /// the host. Those that left it are not among them.
    fn in_cgroup(&self) -> Option<Vec<ProcStat>> {
        let init = self.identity.holdings(JobResources::init).flatten();
        let mut living = self.identity.cgroup(JobCgroup::members)?;
        living.retain(|stat| Some(stat.pid) != init && stat.is_alive());
        (!living.is_empty()).then_some(living)
    }

    fn listed_in_cgroup(&self) -> Vec<u32> {
        self.identity.holdings(JobResources::listed_processes).unwrap_or_default()
    }

    /// Waits until nobody is in the cgroup, where those are ended that /proc does not show. Returns
    /// who is still there after [`KILL_LIMIT`].
    fn wait_for_empty_cgroup(&self) -> Vec<u32> {
        let deadline = Instant::now() + KILL_LIMIT;
        loop {
            let listed = self.listed_in_cgroup();
            if listed.is_empty() || Instant::now() >= deadline {
                return listed;
            }
            thread::sleep(SCAN_PAUSE);
        }
    }

    /// The living processes that /proc shows. Closes the tree if nobody is left in it.
    fn living(&self) -> Vec<ProcStat> {
        let mut scans = 0;
        loop {
            let mut members = self.identity.members();
            members.retain(ProcStat::is_alive);
            scans += 1;
            if !members.is_empty() || !self.identity.is_leader_reaped() {
                return members;
            }
            if let AdoptedMembers::Members(missed) = self.adopted() {
                return missed;
            }
            // The namespace knows better: one scan may miss who is just falling to its first process.
            let is_inhabited =
                self.identity.holdings(JobResources::inhabitants) == Some(Occupancy::Some);
            let is_open = self.identity.trees().may_tell_more(self.identity.id());
            if !is_inhabited && !is_open || scans == EMPTY_SCANS {
                // However long it takes, a tree is not over while somebody is in its cgroup.
                if self.listed_in_cgroup().is_empty() {
                    self.close();
                }
                return members;
            }
            thread::sleep(SCAN_PAUSE);
        }
    }

    fn leaders_group_lives(&self) -> bool {
        test_kill_process_group(self.identity.leader()).is_ok()
    }

    /// Finds the living processes of the tree among the children that we did not create, after the
    /// leader was waited for: each process of the tree is one of those or descends from one.
    ///
    /// A scan of all processes takes long enough to miss a process that keeps handing over to a child
    /// of its own: the parent ends before it is read, and the child began after the list was. Here
    /// an ended child shows that this may have happened, and its children are in the next list.
    fn adopted(&self) -> AdoptedMembers {
        let mut known_dead = HashSet::new();
        let trees = self.identity.trees();
        for _ in 0..CHILD_READINGS {
            let Ok(listed) = trees.children.main_thread_children() else {
                return AdoptedMembers::Unknown;
            };
            let adopted = trees.adopted_children();
            let (mut members, mut dead) = (Vec::new(), HashSet::new());
            for pid in listed.into_iter().filter(|pid| !trees.children.is_owned(*pid)) {
                match processes::stat(pid).filter(ProcStat::is_alive) {
                    Some(stat) if trees.owner_of(&stat, &adopted) == Some(self.identity.id()) => {
                        members.push(stat);
                    }
                    Some(_) => {}
                    None => {
                        dead.insert(pid);
                    }
                }
            }
            if !members.is_empty() {
                return AdoptedMembers::Members(members);
            }
            if dead.is_subset(&known_dead) {
                return AdoptedMembers::None;
            }
            trees.children.reap_adopted(&dead.iter().copied().collect::<Vec<_>>());
            known_dead = dead;
        }
        AdoptedMembers::Unknown
    }

    /// Ends the processes that scans of all processes miss (see [`ProcessTree::adopted`]). Returns who is
    /// still alive after [`KILL_LIMIT`].
    fn end_adopted(&self) -> Vec<u32> {
        let deadline = Instant::now() + KILL_LIMIT;
        while let AdoptedMembers::Members(members) = self.adopted() {
            if Instant::now() >= deadline {
                return members.iter().map(|stat| number(stat.pid)).collect();
            }
            for stat in &members {
                // Gone already, or not ours to signal: the next reading tells.
                processes::send(stat, Signal::KILL).ok();
            }
            thread::sleep(SCAN_PAUSE);
        }
        Vec::new()
    }

    fn is_in_leaders_group(&self, stat: &ProcStat) -> bool {
        stat.group == self.identity.leader().as_raw_nonzero().get()
    }

    /// One call for the whole group: nobody in it can be missed or get the signal twice. While
    /// one of its processes lives, the group's number is not given to another.
    fn signal_group(&self, members: &[&ProcStat], signal: Signal) -> usize {
        let sent =
            !members.is_empty() && kill_process_group(self.identity.leader(), signal).is_ok();
        if sent { members.len() } else { 0 }
    }
}

/// The processes of a tree among the children that we did not create.
#[derive(Debug)]
enum AdoptedMembers {
    None,
    Members(Vec<ProcStat>),
    /// The kernel does not list our children, or they end faster than they are read.
    Unknown,
}

/// Signals after which a stopped process must stay so, or that need no waking.
fn leaves_stopped(signal: Signal) -> bool {
    [Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU, Signal::CONT, Signal::KILL]
        .contains(&signal)
}

// What the kernel itself measures of a tree, and holds it to.

impl ProcessTree {
    /// Those of its limits that the kernel does not hold for the tree as a whole: somebody has to
    /// watch over them.
    #[must_use]
    pub fn unenforced_limits(&self, limits: &ResourceLimits) -> ResourceLimits {
        self.identity().cgroup(|cgroup| cgroup.unenforced_limits(limits)).unwrap_or(*limits)
    }

    /// Processes and threads in its cgroup, where it has one: cheap, and without those that left.
    /// Where the kernel refused one because of a limit, there is one more than that limit.
    #[must_use]
    pub fn tasks_in_cgroup(&self) -> Option<u64> {
        let tasks = self.identity().cgroup(JobCgroup::tasks).flatten()?;
        // The first process of a namespace is ours and no part of the job.
        let init = self.identity().holdings(JobResources::init).flatten();
        Some(tasks.saturating_sub(u64::from(init.is_some())))
    }

    /// Processes in the session of its leader, while that lives: fewer than it has if some left the
    /// session, and those included that have ended and were not reaped yet.
    #[must_use]
    pub fn tasks_in_session(&self, sizes: &HashMap<Pid, u64>) -> u64 {
        let identity = self.identity();
        let size = sizes.get(&identity.leader()).copied();
        size.filter(|_| !identity.is_leader_reaped()).unwrap_or(0)
    }

    /// Stops the group of its leader, while that lives, by one call.
    pub fn pause_group(&self) {
        self.signal_leaders_group(Signal::STOP);
    }

    /// Lets the group of its leader go on.
    pub fn resume_group(&self) {
        self.signal_leaders_group(Signal::CONT);
    }

    fn signal_leaders_group(&self, signal: Signal) {
        if !self.identity().is_leader_reaped() {
            // The number is the leader's own until it is reaped. Gone is as good.
            kill_process_group(self.identity().leader(), signal).ok();
        }
    }

    /// `true` if the kernel refused it a task because of the limit that it holds.
    #[must_use]
    pub fn was_refused_tasks(&self) -> bool {
        self.identity().cgroup(JobCgroup::refused_tasks).unwrap_or(0) > 0
    }

    /// Keeps it from growing: ends its cgroup or its namespace by one call, else ends the group of a
    /// leader that lives and stops the rest, `seen` first. [`ProcessTree::kill`] has to follow. Blocks.
    pub fn stop_growth(&self, seen: &TreeLoad) {
        let identity = self.identity();
        let means = identity.holdings(JobResources::end_processes).unwrap_or(KillMethod::Walk);
        if means != KillMethod::Walk {
            return;
        }
        self.signal_leaders_group(Signal::KILL);
        // Each that is stopped leaves more time to find the others.
        seen.stop();
        processes::freeze(&|| identity.members());
    }

    /// The most memory that it had, where the kernel ended it for want of more.
    #[must_use]
    pub fn out_of_memory(&self) -> Option<u64> {
        self.identity().cgroup(JobCgroup::out_of_memory).flatten()
    }

    /// CPU time of all that was ever in it, where the kernel counts that.
    #[must_use]
    pub fn total_cpu(&self) -> Option<Duration> {
        self.identity().cgroup(JobCgroup::cpu).flatten()
    }
}

// The first process of a tree: waiting for its end, and taking its status.

/// How a process ended, and what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// How.
    pub status: ExitKind,
    /// What it and the children that it waited for used. `max_rss_bytes` is 0 where it is not
    /// known: the kernel starts a child's peak at the server's own, so a smaller one cannot be seen.
    pub usage: ResourceUsage,
}

/// CPU time and memory of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceUsage {
    /// User and system time.
    pub cpu: Duration,
    /// The largest resident set of any one process.
    pub max_rss_bytes: u64,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal {
        /// The signal's number.
        signal: i32,
        /// Whether it left a core dump.
        core: bool,
    },
}

/// The first process of a tree.
///
/// Dropped without [`LeaderProcess::wait`], it is neither ended nor lost: it is reaped as an orphan is.
#[derive(Debug)]
pub struct LeaderProcess {
    child: Child,
    pidfd: AsyncFd<OwnedFd>,
    identity: Arc<TreeIdentity>,
}

/// A new child, of whose end the runtime will tell. After an error it is gone.
pub(crate) fn watch(newborn: SpawnedChild) -> io::Result<(Child, AsyncFd<OwnedFd>)> {
    let SpawnedChild { child, pidfd } = newborn;
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
        Self { child, pidfd, identity }
    }

    /// Returns when the process has ended, and reaps it. Its descendants may live on.
    ///
    /// # Errors
    /// When somebody else took the status, or when the runtime shuts down.
    pub async fn wait(mut self) -> io::Result<Exit> {
        loop {
            let mut ready = self.pidfd.readable().await?;
            if let Some(ended) = self.child.try_reap()? {
                self.identity.leader_was_reaped();
                return Ok(exit(ended, &self.identity.trees().children));
            }
            ready.clear_ready();
        }
    }
}

fn exit(ended: ChildExit, children: &Children) -> Exit {
    // A spawned child begins with the server's memory: a peak up to ours may be ours.
    let is_its_own = children.is_above_own_peak(ended.max_rss_bytes);
    let max_rss_bytes = if is_its_own { ended.max_rss_bytes } else { 0 };
    Exit { status: decode(ended.status), usage: ResourceUsage { cpu: ended.cpu, max_rss_bytes } }
}

const fn decode(status: i32) -> ExitKind {
    if libc::WIFSIGNALED(status) {
        ExitKind::Signal { signal: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
    } else {
        ExitKind::Code(libc::WEXITSTATUS(status))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use rustix::process::Pid;

    use super::super::members::TreeEvidence;
    use super::*;
    use crate::host::tests::host;
    use crate::sandbox::job_resources::SandboxResources;

    /// A number that no process has: above the highest that Linux gives out.
    const HIDDEN: u32 = (1 << 22) + 1;

    /// A tree whose leader was reaped, and whose cgroup has these files.
    fn tree_in_cgroup(dir: &std::path::Path) -> ProcessTree {
        let mut leader = Command::new("true").spawn().unwrap();
        leader.wait().unwrap();
        let leader = Pid::from_raw(leader.id().cast_signed()).unwrap();
        let cgroup = JobCgroup::in_directory(dir.to_owned());
        let holdings = JobResources::new(None, SandboxResources::from(cgroup));
        let identity = TreeIdentity::new(
            Arc::clone(host().trees()),
            leader,
            u64::MAX,
            TreeEvidence::default(),
        );
        identity.leader_was_reaped();
        ProcessTree::new(Arc::new(identity.holding(holdings)))
    }

    #[test]
    fn a_tree_is_not_over_while_its_cgroup_is_populated() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
        write("cgroup.events", "populated 1\nfrozen 0\n");
        write("cgroup.procs", &format!("{HIDDEN}\n"));
        let tree = tree_in_cgroup(dir.path());
        let is_closed = || tree.identity.holdings(|_| ()).is_none();
        assert_eq!(tree.survivors_after_exit(), [HIDDEN]);
        assert_eq!(tree.living_pids(), [HIDDEN]);
        assert_eq!(tree.read_activity().processes, 0, "nothing is known of it");
        assert_eq!(tree.kill(), [HIDDEN]);
        assert!(dir.path().join("cgroup.kill").exists());
        // Processes of another namespace have no number here.
        write("cgroup.procs", "0\n");
        assert_eq!(tree.living_pids(), [0]);
        assert!(!is_closed());
        write("cgroup.events", "populated 0\nfrozen 0\n");
        assert_eq!(tree.living_pids(), [0; 0]);
        assert!(is_closed());
    }

    #[test]
    fn a_tree_whose_cgroup_was_removed_can_be_over() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree_in_cgroup(dir.path());
        assert_eq!((tree.living_pids(), tree.kill()), (Vec::new(), Vec::new()));
        assert!(tree.identity.holdings(|_| ()).is_none());
    }
}

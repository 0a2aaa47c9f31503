//! A process tree: a process and everything that it started.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, getpid, kill_process, kill_process_group, test_kill_process_group,
};

use crate::confinement::ResourceLimits;
use crate::job_cgroup::JobCgroup;
use crate::load::{self, HostLoad};
use crate::processes::{self, ProcStat, ProcessKey, ProcessSnapshot, pid_number};
use crate::sandbox::job_resources::{HIDDEN_PID, JobResources, KillMethod, Occupancy};
use crate::syscalls::block_in_place;
use crate::tree_activity::{
    InputActivity, InputWait, ProcessInfo, TreeActivity, TreeLoad, read_input_wait,
};
use crate::tree_members::{StoppedProcesses, TreeIdentity, stop_child};

/// The time for which [`ProcessTree::kill`] tries while no process ends.
const KILL_LIMIT: Duration = Duration::from_millis(1500);

/// The number of empty scans of all processes after which a tree counts as empty.
const EMPTY_SCANS: u32 = 5;

/// The number of readings of our children after which children that keep ending are not waited for.
const CHILD_READINGS: u32 = 100;

/// The time between two scans of a tree if one scan is not conclusive.
const SCAN_PAUSE: Duration = Duration::from_millis(5);

/// The most passes over a tree that keeps growing while it is being stopped.
const STOP_PASSES: u32 = 20;

/// A process and everything that it started, including children that left its session.
///
/// Every query scans /proc: its result was true a moment ago. Only verified descendants of this
/// server are ever signalled. The calls read many small files: make them on a thread that may
/// block.
#[derive(Debug, Clone)]
pub struct ProcessTree {
    pub(crate) identity: Arc<TreeIdentity>,
}

/// The most processes of a tree that are looked at for input.
const MAX_INPUT_PROCESSES: usize = 256;

impl ProcessTree {
    pub(crate) fn new(identity: Arc<TreeIdentity>) -> Self {
        if identity.trees.open_tree(&identity) {
            // The thread that follows children waits without a limit while there is no tree.
            kill_process(getpid(), Signal::CHILD).ok();
        }
        Self { identity }
    }

    /// Returns the pid of the first process.
    #[must_use]
    pub fn leader_pid(&self) -> u32 {
        pid_number(self.identity.leader)
    }

    /// Sends a signal to every living process, and wakes those that are stopped so that they can
    /// act on it. Returns how many were seen to get it; 0 if the number is not a signal.
    pub fn signal(&self, signal: i32) -> usize {
        let Some(signal) = Signal::from_named_raw(signal) else { return 0 };
        let members = self.living_members();
        let (group, others): (Vec<_>, Vec<_>) =
            members.iter().partition(|stat| self.is_in_leaders_group(stat));
        let reached = self.signal_group(&group, signal)
            + others.iter().filter(|stat| processes::send_signal(stat, signal).is_ok()).count();
        if !needs_no_resume(signal) {
            for stat in &members {
                // Most likely the signal has already ended it.
                processes::send_signal(stat, Signal::CONT).ok();
            }
            if members.is_empty() {
                self.resume_group();
            }
        }
        reached
    }

    /// Ends every process, including those that they start meanwhile. Blocks while processes keep
    /// ending, and then for up to five times `KILL_LIMIT`.
    ///
    /// Returns the processes that are still alive, by a last scan and by the list of the cgroup:
    /// none, unless a process is stuck in the kernel, belongs to another user, or keeps starting
    /// others faster than they are found; or unless processes cannot be read, or it is not known yet
    /// whose child a process is.
    #[must_use = "the returned processes are still alive"]
    pub fn kill(&self) -> Vec<u32> {
        let deadline = Instant::now() + KILL_LIMIT;
        let mut alive = loop {
            // This needs a file descriptor too, so it is repeated.
            self.identity.query_resources(JobResources::kill_processes);
            let ended = self.end_members();
            let unchecked = self.unchecked_pids();
            let is_late = Instant::now() >= deadline;
            match ended {
                None if is_late => break vec![HIDDEN_PID],
                Some(alive) if !alive.is_empty() || unchecked.is_empty() => break alive,
                Some(_) if is_late => break unchecked,
                None | Some(_) => thread::sleep(SCAN_PAUSE),
            }
        };
        if alive.is_empty() {
            alive = self.wait_for_empty_cgroup();
        }
        // Otherwise the owner of the leader closes the tree.
        if alive.is_empty() && self.identity.is_leader_reaped() {
            self.close();
        }
        alive
    }

    /// Ends the processes that scans find. Returns those that are still alive; `None` if the last scan
    /// could not read all processes.
    fn end_members(&self) -> Option<Vec<u32>> {
        let is_complete = Cell::new(true);
        let find = || {
            let (members, all_read) = self.identity.members_to_end();
            is_complete.set(all_read);
            members
        };
        let alive = self.identity.trees.children.end_all(find, KILL_LIMIT);
        if !is_complete.get() {
            // This needs no file descriptor.
            self.signal_leaders_group(Signal::KILL);
            return None;
        }
        Some(if alive.is_empty() { self.kill_adopted() } else { alive })
    }

    /// Returns living processes that may turn out to belong to this tree in a moment.
    fn unchecked_pids(&self) -> Vec<u32> {
        let orphans = self.identity.trees.unchecked_orphans_of(self.identity.id);
        orphans.into_iter().map(pid_number).collect()
    }

    /// Returns living processes that may belong to this tree or to another that is not over. They
    /// end with the last of those.
    #[must_use]
    pub fn unattributed_pids(&self) -> Vec<u32> {
        self.identity
            .trees
            .possible_orphans_of(self.identity.id)
            .into_iter()
            .map(pid_number)
            .collect()
    }

    /// Returns the strongest method by which [`ProcessTree::kill`] ends the processes. In any case
    /// a scan of all processes verifies the result.
    #[must_use]
    pub fn kill_method(&self) -> KillMethod {
        self.identity.query_resources(JobResources::kill_method).unwrap_or(KillMethod::Walk)
    }

    /// Returns the processes that are alive. If /proc shows none of them, returns those that the
    /// kernel lists in the cgroup: while there are any, the tree is not over. 0 stands for processes
    /// that have no pid here, that hand over faster than they are found, or that cannot be read.
    #[must_use]
    pub fn living_pids(&self) -> Vec<u32> {
        let Some(living) = self.scan_members() else {
            let unchecked = self.unchecked_pids();
            return if unchecked.is_empty() { vec![HIDDEN_PID] } else { unchecked };
        };
        if living.is_empty() && self.identity.is_leader_reaped() {
            return self.cgroup_pids();
        }
        living.iter().map(|stat| pid_number(stat.pid)).collect()
    }

    /// Returns the processes that are alive after the leader was waited for; cheap if there are
    /// none.
    ///
    /// A process that outlives the leader is in its group, or descends from a child of ours that we
    /// did not create. If there is neither, there is no survivor. This is checked even if the
    /// cgroup is empty, since a process may have left it.
    #[must_use]
    pub fn survivors_after_exit(&self) -> Vec<u32> {
        let occupancy = self.identity.query_resources(JobResources::occupancy);
        let may_survive = match occupancy.unwrap_or(Occupancy::Unknown) {
            Occupancy::Occupied => true,
            Occupancy::Empty | Occupancy::Unknown => {
                self.is_leader_group_alive() || !matches!(self.find_adopted(), AdoptedMembers::None)
            }
        };
        let may_survive = may_survive || !self.unchecked_pids().is_empty();
        let survivors =
            if may_survive { block_in_place(|| self.living_pids()) } else { Vec::new() };
        if survivors.is_empty() {
            self.close();
        }
        survivors
    }

    /// Makes the keeper forget the process, if it holds it. Call it when everything about the job is
    /// over and recorded: the next server does not hear of it any more.
    pub fn release(&self) {
        self.identity.release_from_keeper();
    }

    /// Reads the load of the host that the tree runs on; `None` if the kernel does not report it.
    #[must_use]
    pub fn read_host_load(&self) -> Option<HostLoad> {
        load::read_host_load(self.identity.trees.cgroups.jobs_cpu())
    }

    /// Releases what was held for an empty tree, and ends the orphans that could only have been its
    /// own.
    fn close(&self) {
        self.identity.release_resources();
        let trees = &self.identity.trees;
        if trees.has_unowned() {
            block_in_place(|| trees.end_unowned());
        }
    }

    /// Reads what the tree is doing.
    #[must_use]
    pub fn read_activity(&self) -> TreeActivity {
        let members = self.cgroup_members().unwrap_or_else(|| self.living_members());
        TreeActivity {
            processes: members.len(),
            cpu: members.iter().map(ProcStat::cpu).sum(),
            rss_bytes: members.iter().map(ProcStat::rss_bytes).sum(),
            input_wait: self.input_wait_of(&members),
        }
    }

    /// Describes the processes that are alive, the leader first.
    #[must_use]
    pub fn list_processes(&self) -> Vec<ProcessInfo> {
        let mut members = self.cgroup_members().unwrap_or_else(|| self.living_members());
        let leader = self.leader_pid();
        members.sort_by_key(|stat| (pid_number(stat.pid) != leader, stat.started));
        members.iter().map(ProcessInfo::read).collect()
    }

    fn input_wait_of(&self, members: &[ProcStat]) -> InputWait {
        let parents: HashSet<i32> = members.iter().map(|stat| stat.parent).collect();
        let waits = members.iter().map(|stat| {
            let has_children = parents.contains(&stat.pid.as_raw_nonzero().get());
            read_input_wait(stat, &self.identity.evidence.files.inputs, has_children)
        });
        let wait = waits.max().unwrap_or_default();
        // A program that takes keys while another process works for it does not wait for them.
        let is_at_work = wait != InputWait::Reads && members.iter().any(|stat| stat.is_running);
        if is_at_work { InputWait::No } else { wait }
    }

    /// Reads whether the tree waits for input, from the leader down: it reads no other processes, so
    /// that many trees can be asked often. Processes whose parent has ended are left out.
    #[must_use]
    pub fn read_input_activity(&self) -> InputActivity {
        let members = self.descend_from_leader();
        InputActivity {
            input_wait: self.input_wait_of(&members),
            cpu: members.iter().map(ProcStat::cpu).sum(),
        }
    }

    /// Returns the leader and its living descendants, up to [`MAX_INPUT_PROCESSES`].
    fn descend_from_leader(&self) -> Vec<ProcStat> {
        let mut members = Vec::new();
        let mut todo = vec![self.identity.leader];
        if self.identity.is_leader_reaped() {
            return members;
        }
        while let Some(pid) = todo.pop().filter(|_| members.len() < MAX_INPUT_PROCESSES) {
            let Some(stat) = processes::stat(pid).filter(ProcStat::is_alive) else { continue };
            members.push(stat);
            for thread in processes::threads_of(pid) {
                match processes::children_of_thread(pid, thread) {
                    Ok(children) => todo.extend(children),
                    // A kernel without such lists. A thread that has just ended has none either;
                    // then this costs a scan.
                    Err(_) => return self.living_members(),
                }
            }
        }
        members
    }

    /// Returns the processes in its cgroup, if it has any: found without a scan of all processes of
    /// the host. Processes that left it are not included.
    fn cgroup_members(&self) -> Option<Vec<ProcStat>> {
        let init = self.identity.query_resources(JobResources::init).flatten();
        let mut living = self.identity.query_cgroup(JobCgroup::members)?;
        living.retain(|stat| Some(stat.pid) != init && stat.is_alive());
        (!living.is_empty()).then_some(living)
    }

    fn cgroup_pids(&self) -> Vec<u32> {
        self.identity.query_resources(JobResources::listed_processes).unwrap_or_default()
    }

    /// Waits until the cgroup is empty, for the end of processes that /proc does not show. Returns
    /// the processes that are still there after [`KILL_LIMIT`].
    fn wait_for_empty_cgroup(&self) -> Vec<u32> {
        let deadline = Instant::now() + KILL_LIMIT;
        loop {
            let listed = self.cgroup_pids();
            if listed.is_empty() || Instant::now() >= deadline {
                return listed;
            }
            thread::sleep(SCAN_PAUSE);
        }
    }

    /// Returns the living processes that /proc shows. Closes the tree if it is empty.
    fn living_members(&self) -> Vec<ProcStat> {
        self.scan_members().unwrap_or_default()
    }

    /// Returns the living processes that /proc shows, and closes the tree if there are none. `None`
    /// if there may be some: they hand over faster than they are found, they cannot be read, or it is
    /// not known yet whose child a process is.
    fn scan_members(&self) -> Option<Vec<ProcStat>> {
        let mut scans = 0;
        loop {
            let mut members = self.identity.members()?;
            members.retain(ProcStat::is_alive);
            scans += 1;
            if !members.is_empty() || !self.identity.is_leader_reaped() {
                return Some(members);
            }
            let is_changing = match self.find_adopted() {
                AdoptedMembers::Members(missed) => return Some(missed),
                AdoptedMembers::Uncertain if scans == EMPTY_SCANS => return None,
                AdoptedMembers::Uncertain => true,
                AdoptedMembers::None | AdoptedMembers::NotListed => false,
            };
            // The namespace knows better: one scan may miss a process that is just passing to its
            // init.
            let is_inhabited =
                self.identity.query_resources(JobResources::occupancy) == Some(Occupancy::Occupied);
            let has_unchecked = !self.unchecked_pids().is_empty();
            let is_open = is_changing || has_unchecked;
            if !is_inhabited && !is_open || scans == EMPTY_SCANS {
                if has_unchecked {
                    return None;
                }
                // However long it takes, a tree is not over while its cgroup has members.
                if self.cgroup_pids().is_empty() {
                    self.close();
                }
                return Some(members);
            }
            thread::sleep(SCAN_PAUSE);
        }
    }

    fn is_leader_group_alive(&self) -> bool {
        // A group of another user's processes cannot be signalled, but it is there.
        test_kill_process_group(self.identity.leader) != Err(Errno::SRCH)
    }

    /// Finds the living processes of the tree among the children that we did not create, after the
    /// leader was waited for: each process of the tree is one of those or descends from one.
    ///
    /// A scan of all processes takes long enough to miss a process that keeps handing over to a
    /// child of its own: the parent ends before it is read, and the child started after the list
    /// was read. Here an ended child shows that this may have happened, and its children are in the
    /// next list.
    fn find_adopted(&self) -> AdoptedMembers {
        let mut known_dead = HashSet::new();
        for _ in 0..CHILD_READINGS {
            let (members, dead) = match self.identity.read_adopted(ProcStat::is_alive) {
                Ok(adopted) => adopted,
                Err(error) if processes::is_shortage(&error) => return AdoptedMembers::Uncertain,
                Err(_) => return AdoptedMembers::NotListed,
            };
            if !members.is_empty() {
                return AdoptedMembers::Members(members);
            }
            if dead.is_subset(&known_dead) {
                return AdoptedMembers::None;
            }
            let pids: Vec<Pid> = dead.iter().copied().collect();
            self.identity.trees.children.reap_adopted(&pids);
            known_dead = dead;
        }
        AdoptedMembers::Uncertain
    }

    /// Kills the processes that scans of all processes miss (see [`ProcessTree::find_adopted`]).
    /// Returns the processes that are still alive after [`KILL_LIMIT`]; [`HIDDEN_PID`] if children
    /// end faster than they are read until then, since their own children may be alive.
    fn kill_adopted(&self) -> Vec<u32> {
        let deadline = Instant::now() + KILL_LIMIT;
        loop {
            let is_late = Instant::now() >= deadline;
            match self.find_adopted() {
                AdoptedMembers::None | AdoptedMembers::NotListed => return Vec::new(),
                AdoptedMembers::Uncertain if is_late => return vec![HIDDEN_PID],
                AdoptedMembers::Uncertain => {}
                AdoptedMembers::Members(members) if is_late => {
                    return members.iter().map(|stat| pid_number(stat.pid)).collect();
                }
                AdoptedMembers::Members(members) => {
                    for stat in &members {
                        // It is gone already, not ours to signal, or there is no free descriptor;
                        // the next reading shows which.
                        processes::send_signal(stat, Signal::KILL).ok();
                    }
                }
            }
            thread::sleep(SCAN_PAUSE);
        }
    }

    fn is_in_leaders_group(&self, stat: &ProcStat) -> bool {
        stat.group == self.identity.leader.as_raw_nonzero().get()
    }

    /// Signals the whole group with one call: no member is missed or gets the signal twice. While
    /// one of its processes lives, or the leader was not reaped, the group's number is not given to
    /// another. This needs no file descriptor, so it is done also if no member could be read.
    fn signal_group(&self, members: &[&ProcStat], signal: Signal) -> usize {
        let is_ours = !members.is_empty() || !self.identity.is_leader_reaped();
        let sent = is_ours && kill_process_group(self.identity.leader, signal).is_ok();
        if sent { members.len() } else { 0 }
    }

    /// Returns the limits that the kernel does not enforce for the tree as a whole: the caller has
    /// to watch them.
    #[must_use]
    pub fn unenforced_limits(&self, limits: &ResourceLimits) -> ResourceLimits {
        self.identity.query_cgroup(|cgroup| cgroup.unenforced_limits(limits)).unwrap_or(*limits)
    }

    /// Returns the processes and threads in its cgroup, if it has one: cheap, and without processes
    /// that left it. One more than the limit if the kernel refused one because of the limit.
    #[must_use]
    pub fn tasks_in_cgroup(&self) -> Option<u64> {
        let tasks = self.identity.query_cgroup(JobCgroup::tasks).flatten()?;
        // The first process of a namespace is ours and not part of the job.
        let init = self.identity.query_resources(JobResources::init).flatten();
        Some(tasks.saturating_sub(u64::from(init.is_some())))
    }

    /// Returns the number of processes in the session of its leader, while that lives: fewer than
    /// the tree has if some left the session. Includes those that have ended and were not reaped
    /// yet.
    #[must_use]
    pub fn tasks_in_session(&self, sizes: &HashMap<Pid, u64>) -> u64 {
        let identity = &self.identity;
        let size = sizes.get(&identity.leader).copied();
        size.filter(|_| !identity.is_leader_reaped()).unwrap_or(0)
    }

    /// Stops the group of its leader, while that lives, with one call.
    pub fn pause_group(&self) {
        self.signal_leaders_group(Signal::STOP);
    }

    /// Resumes the group of its leader.
    pub fn resume_group(&self) {
        self.signal_leaders_group(Signal::CONT);
    }

    fn signal_leaders_group(&self, signal: Signal) {
        if !self.identity.is_leader_reaped() {
            // The number is the leader's own until it is reaped. A group that is gone is fine.
            kill_process_group(self.identity.leader, signal).ok();
        }
    }

    /// `true` if the kernel refused it a task because of the limit.
    #[must_use]
    pub fn was_refused_tasks(&self) -> bool {
        self.identity.query_cgroup(JobCgroup::refused_tasks).unwrap_or(0) > 0
    }

    /// Keeps the tree from growing: kills its cgroup or its namespace with one call, otherwise
    /// kills the group of a living leader and stops the rest, `seen` first. [`ProcessTree::kill`]
    /// has to follow. Blocks.
    pub fn stop_growth(&self, seen: &TreeLoad) {
        let identity = &self.identity;
        let means =
            identity.query_resources(JobResources::kill_processes).unwrap_or(KillMethod::Walk);
        if means != KillMethod::Walk {
            return;
        }
        self.signal_leaders_group(Signal::KILL);
        // Each process that is stopped leaves more time to find the others.
        seen.stop();
        processes::freeze(&|| identity.members_to_end().0);
    }

    /// Returns the peak of its memory, if the kernel killed it for lack of memory.
    #[must_use]
    pub fn out_of_memory(&self) -> Option<u64> {
        self.identity.query_cgroup(JobCgroup::out_of_memory).flatten()
    }

    /// Returns the CPU time of everything that was ever in it, if the kernel counts that.
    #[must_use]
    pub fn total_cpu(&self) -> Option<Duration> {
        self.identity.query_cgroup(JobCgroup::cpu).flatten()
    }

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
    ///
    /// A scan of /proc reads a file for every process of the host. The lists of children lead to the
    /// processes of one tree alone, and a parent that is stopped before its list is read has no more
    /// children than the list says. So this stops a fork bomb whose processes leave their session,
    /// where nothing else does: beside hundreds of busy processes the server gets little processor
    /// time.
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
        let roots = self.identity.trees.children.roots();
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
        let identity = &self.identity;
        let leader = Some(identity.leader).filter(|_| !identity.is_leader_reaped());
        let (adopted, _) = identity.read_adopted(|_| true).unwrap_or_default();
        leader.into_iter().chain(adopted.iter().map(|stat| stat.pid)).collect()
    }
}

/// The processes of a tree among the children that we did not create.
#[derive(Debug)]
enum AdoptedMembers {
    None,
    Members(Vec<ProcStat>),
    /// The kernel does not list our children.
    NotListed,
    /// Children end faster than they are read, or cannot be read now.
    Uncertain,
}

/// `true` for signals after which a stopped process must stay stopped, or that need no waking.
fn needs_no_resume(signal: Signal) -> bool {
    [Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU, Signal::CONT, Signal::KILL]
        .contains(&signal)
}

/// Measures the load of each of these trees, in their order; `None` if not all processes can be read.
/// Blocks: it reads one file for each process of the host, however many trees there are.
#[must_use]
pub fn measure_trees(trees: &[Arc<ProcessTree>]) -> Option<Vec<TreeLoad>> {
    let Some(first) = trees.first() else { return Some(Vec::new()) };
    let identities: Vec<&TreeIdentity> = trees.iter().map(|tree| &*tree.identity).collect();
    let snapshot = ProcessSnapshot::take_complete()?;
    let members = first.identity.trees.attribute_processes(&snapshot, &identities);
    Some(members.iter().map(|members| TreeLoad::from_members(members)).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};

    use super::*;
    use crate::Process;
    use crate::children::Children;
    use crate::host::{host, sh};
    use crate::processes::ProcessState;
    use crate::sandbox::job_resources::SandboxResources;
    use crate::tree_members::TreeEvidence;
    use crate::tree_registry::TreeRegistry;

    /// A pid that no process has: above the highest that Linux gives out.
    const HIDDEN: u32 = (1 << 22) + 1;

    fn reaped_pid() -> Pid {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        Pid::from_raw(child.id().cast_signed()).unwrap()
    }

    /// A tree whose leader was reaped, and whose cgroup has these files.
    fn tree_in_cgroup(dir: &std::path::Path) -> ProcessTree {
        let cgroup = JobCgroup::in_directory(dir.to_owned());
        let resources = JobResources::new(None, SandboxResources::from(cgroup));
        let identity = TreeIdentity::new(
            Arc::clone(host().trees()),
            reaped_pid(),
            u64::MAX,
            TreeEvidence::default(),
        );
        identity.mark_leader_reaped();
        ProcessTree::new(Arc::new(identity.with_resources(resources)))
    }

    #[test]
    fn a_tree_is_not_over_while_its_cgroup_is_populated() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
        write("cgroup.events", "populated 1\nfrozen 0\n");
        write("cgroup.procs", &format!("{HIDDEN}\n"));
        let tree = tree_in_cgroup(dir.path());
        let is_closed = || tree.identity.query_resources(|_| ()).is_none();
        assert_eq!(tree.survivors_after_exit(), [HIDDEN]);
        assert_eq!(tree.living_pids(), [HIDDEN]);
        assert_eq!(tree.read_activity().processes, 0, "/proc does not show it");
        assert_eq!(tree.kill(), [HIDDEN]);
        assert!(dir.path().join("cgroup.kill").exists());
        // Processes of another namespace have no pid here.
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
        assert!(tree.identity.query_resources(|_| ()).is_none());
    }

    /// A shell with a child and an orphan in their own sessions; the orphan has a child as well.
    fn scattered() -> Process {
        let text = "(setsid sh -c 'sleep 1000; :' &); setsid sleep 1000 & wait";
        host().spawn(&sh(text)).unwrap()
    }

    fn states(process: &Process) -> Vec<ProcessState> {
        let pids = process.tree.living_pids().into_iter();
        let pids = pids.filter_map(|pid| Pid::from_raw(pid.cast_signed()));
        pids.filter_map(processes::stat).map(|stat| stat.state).collect()
    }

    /// The names of the programs, sorted.
    fn names(process: &Process) -> Vec<String> {
        let comm = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
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
            thread::sleep(Duration::from_millis(5));
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

    #[tokio::test]
    async fn a_tree_is_not_over_while_it_is_unknown_whose_child_a_process_is() {
        let Process { leader, tree: starter, .. } =
            host().spawn(&sh("sleep 1000 </dev/null >/dev/null 2>&1 &")).unwrap();
        leader.wait().await.unwrap();
        let survivors = starter.survivors_after_exit();
        let &[orphan] = survivors.as_slice() else { panic!("{survivors:?}") };
        let started =
            processes::stat(Pid::from_raw(orphan.cast_signed()).unwrap()).unwrap().started;
        // To trees of another registry the signs of its own tree mean nothing.
        let children = Arc::new(Children::default());
        let cgroups = Arc::clone(&host().trees().cgroups);
        let trees = Arc::new(TreeRegistry::new(Arc::clone(&children), cgroups));
        let open_tree = || {
            let evidence = TreeEvidence::default();
            let identity = TreeIdentity::new(Arc::clone(&trees), reaped_pid(), started, evidence);
            identity.mark_leader_reaped();
            ProcessTree::new(Arc::new(identity))
        };
        let [tree, _other] = [open_tree(), open_tree()];
        let is_closed = || !trees.open_trees().iter().any(|open| Arc::ptr_eq(open, &tree.identity));
        children.with_creation(|_| {
            assert!(tree.survivors_after_exit().contains(&orphan));
            assert!(tree.kill().contains(&orphan));
            assert!(tree.living_pids().contains(&orphan));
            assert!(!is_closed());
        });
        assert_eq!(tree.living_pids(), [0; 0]);
        assert!(is_closed());
        assert!(tree.unattributed_pids().contains(&orphan), "it may be of either");
        assert_eq!(starter.kill(), [0; 0]);
    }

    const WITHOUT_DESCRIPTORS: &str = "SHELLYARD_TEST_WITHOUT_DESCRIPTORS";

    /// Runs in a process of its own, since no other test could open a file meanwhile.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "not a setting: it marks the second process")]
    fn without_file_descriptors_the_leader_is_killed_and_nothing_reads_as_over() {
        if std::env::var_os(WITHOUT_DESCRIPTORS).is_some() {
            return kill_without_descriptors();
        }
        let name = thread::current().name().unwrap().to_owned();
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name])
            .env(WITHOUT_DESCRIPTORS, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && said.contains("1 passed"), "{said}");
    }

    fn kill_without_descriptors() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let Process { leader, tree, .. } =
            runtime.block_on(async { host().spawn(&sh("sleep 1000; :")).unwrap() });
        let trees = [Arc::new(tree.clone())];
        assert!(measure_trees(&trees).is_some());
        let shell = processes::stat(tree.identity.leader).unwrap();
        processes::send_signal(&shell, Signal::STOP).unwrap();
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
        let resumed = processes::resume(&shell);
        let found = (tree.living_pids(), tree.kill(), measure_trees(&trees).is_none());
        setrlimit(Resource::Nofile, limit).unwrap();
        assert_eq!(resumed, Ok(()));
        assert_eq!(found, (vec![HIDDEN_PID], vec![HIDDEN_PID], true));
        let exit = runtime.block_on(leader.wait()).unwrap();
        assert_eq!(exit.status, crate::ExitKind::Signal { signal: libc::SIGKILL, core: false });
        assert_eq!(tree.kill(), [0; 0]);
    }

    /// A process that carries no sign of its tree, as a child of a shell in the leader's group.
    const SHED: &str = "(setsid env -i prlimit --rttime=unlimited:unlimited sleep 1000 \
                        </dev/null >/dev/null 2>&1 & sleep 999) & sleep 998";

    #[tokio::test]
    async fn a_member_that_a_scan_has_seen_is_still_known_when_the_leader_has_ended() {
        let other = host().spawn(&sh("sleep 1000")).unwrap();
        let Process { leader, tree, .. } = host().spawn(&sh(SHED)).unwrap();
        let find = |text: &str| {
            let line = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let is_it = |pid: &u32| line(pid) == format!("sleep\0{text}\0").into_bytes();
            tree.living_pids().into_iter().find(is_it)
        };
        eventually("it is seen beside its parent", || find("1000").is_some());
        let seen = find("1000").unwrap();
        kill_process_group(tree.identity.leader, Signal::KILL).unwrap();
        leader.wait().await.unwrap();
        eventually("only the process that left the group is there", || {
            tree.identity.trees.children.reap_orphans();
            !tree.is_leader_group_alive()
        });
        assert_eq!(tree.survivors_after_exit(), [seen]);
        assert!(!tree.unattributed_pids().contains(&seen), "its tree is known");
        assert_eq!(tree.kill(), [0; 0]);
        assert_eq!(other.tree.kill(), [0; 0]);
    }
}

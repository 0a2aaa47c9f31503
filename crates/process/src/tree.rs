//! A process tree: a process and everything that it started, below the shim of its job.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroups;
use crate::confinement::{ResourceLimits, SetAsideFile};
use crate::job_cgroup::JobCgroup;
use crate::load::{self, HostLoad};
use crate::processes::{self, ProcStat, pid_number};
use crate::shim::{Order, StartCounts};
use crate::shim_link::ShimLink;
use crate::tree_activity::{
    InputActivity, InputWait, ProcessInfo, TreeActivity, TreeLoad, read_input_wait,
};

/// The longest wait of [`ProcessTree::kill`].
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// The number of times that processes are looked for while a tree is not over, and the pause between.
const LOOKS: u32 = 5;
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// The most processes of a tree that are looked at for input.
const MAX_INPUT_PROCESSES: usize = 256;

/// A process and everything that it started, including children that left its session: the descendants
/// of its shim.
///
/// Queries read small files in /proc: their result was true a moment ago. Only the shim's own word says
/// that the tree is over. Make the calls on a thread that may block.
#[derive(Debug, Clone)]
pub struct ProcessTree {
    link: Arc<ShimLink>,
    /// The names in /proc/PID/fd of the files from which a process reads that waits for our input.
    inputs: Arc<[PathBuf]>,
    cgroups: Arc<Cgroups>,
}

impl ProcessTree {
    pub(crate) fn new(link: Arc<ShimLink>, inputs: Vec<PathBuf>, cgroups: Arc<Cgroups>) -> Self {
        Self { link, inputs: inputs.into(), cgroups }
    }

    pub(crate) const fn link(&self) -> &Arc<ShimLink> {
        &self.link
    }

    /// Returns the pid of the first process, if it is known.
    #[must_use]
    pub fn leader_pid(&self) -> Option<u32> {
        self.link.leader_pid().map(pid_number)
    }

    /// Orders the shim to end the tree: this signal, and after the grace period SIGKILL until nothing is
    /// left. Once this returns, the order is carried out whatever happens to this server. The shim keeps
    /// the first cause, which the ending then carries.
    ///
    /// # Errors
    /// If the shim does not take the order: it is gone, or does not run.
    pub fn stop(&self, signal: i32, grace: Duration, cause: String) -> std::io::Result<()> {
        Ok(self.link.order(&Order::Stop { signal, grace, cause }, &[])?)
    }

    /// Answers a start that waits ([`GateEvent::Asked`](crate::GateEvent::Asked)). One
    /// that does not wait any more is ignored.
    ///
    /// # Errors
    /// If the shim does not take the answer: it is gone, or does not run.
    pub fn answer_start(&self, id: u64, is_allowed: bool) -> std::io::Result<()> {
        Ok(self.link.order(&Order::Answer { id, is_allowed }, &[])?)
    }

    /// Returns the starts of programs that were judged and refused, as of the last event.
    #[must_use]
    pub fn start_counts(&self) -> StartCounts {
        self.link.start_counts()
    }

    /// Sends a signal to every living process, and wakes those that are stopped so that they can
    /// act on it.
    pub fn signal(&self, signal: i32) {
        // A shim that is gone has no processes.
        self.link.order(&Order::Signal(signal), &[]).ok();
    }

    /// Ends every process at once, including those that they start meanwhile. Blocks until it is over,
    /// for a limited time. Returns `true` if no process is left; `false` if one is stuck in the kernel
    /// or belongs to another user.
    #[must_use = "processes may still be alive"]
    pub fn kill(&self) -> bool {
        if !self.is_over() {
            // A shim that takes no order may have ended meanwhile.
            self.stop(libc::SIGKILL, Duration::ZERO, String::new()).ok();
        }
        self.link.wait_until_over(KILL_LIMIT)
    }

    /// `true` if no process is left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.link.is_over()
    }

    /// Returns the pids of the processes that are alive, as far as they can be read.
    #[must_use]
    pub fn living_pids(&self) -> Vec<u32> {
        self.living_processes().pids().to_vec()
    }

    /// Returns the processes that are alive.
    #[must_use]
    pub fn living_processes(&self) -> LivingProcesses {
        for _ in 0..LOOKS {
            if self.link.is_over() {
                break;
            }
            let members = self.members();
            if !members.is_empty() {
                let pids = members.iter().map(|stat| pid_number(stat.pid));
                return LivingProcesses::Known(pids.collect());
            }
            // A process may just have passed from one parent to another.
            thread::sleep(LOOK_PAUSE);
        }
        if self.link.is_over() { LivingProcesses::default() } else { LivingProcesses::Unreadable }
    }

    /// Releases the resources of a tree that is over: its cgroup and its directories. What the kernel
    /// counted for it can no longer be read.
    pub fn close(&self) {
        self.link.release_resources();
    }

    /// Returns the files that appeared under protected names in a workspace while the tree was alive,
    /// once it is closed: they were renamed.
    #[must_use]
    pub fn set_aside_files(&self) -> &[SetAsideFile] {
        self.link.set_aside_files()
    }

    /// Makes the keeper forget the process, and lets its shim end with the tree. Call it when everything
    /// about the job is over and recorded: the next server does not hear of it any more.
    pub fn release(&self) {
        self.link.release();
    }

    /// Reads the load of the host that the tree runs on; `None` if the kernel does not report it.
    #[must_use]
    pub fn read_host_load(&self) -> Option<HostLoad> {
        load::read_host_load(self.cgroups.jobs_cpu())
    }

    /// Reads what the tree is doing.
    #[must_use]
    pub fn read_activity(&self) -> TreeActivity {
        let members = self.members();
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
        let mut members = self.members();
        let leader = self.leader_pid();
        members.sort_by_key(|stat| (Some(pid_number(stat.pid)) != leader, stat.started));
        members.iter().map(ProcessInfo::read).collect()
    }

    fn input_wait_of(&self, members: &[ProcStat]) -> InputWait {
        let parents: HashSet<i32> = members.iter().map(|stat| stat.parent).collect();
        let waits = members.iter().map(|stat| {
            let has_children = parents.contains(&stat.pid.as_raw_nonzero().get());
            read_input_wait(stat, &self.inputs, has_children)
        });
        let wait = waits.max().unwrap_or_default();
        // A program that takes keys while another process works for it does not wait for them.
        let is_at_work = wait != InputWait::Reads && members.iter().any(|stat| stat.is_running);
        if is_at_work { InputWait::No } else { wait }
    }

    /// Reads whether the tree waits for input.
    #[must_use]
    pub fn read_input_activity(&self) -> InputActivity {
        let members = self.descend(MAX_INPUT_PROCESSES);
        InputActivity {
            input_wait: self.input_wait_of(&members),
            cpu: members.iter().map(ProcStat::cpu).sum(),
        }
    }

    /// Returns the limits that the kernel does not enforce for the tree as a whole: the caller has
    /// to watch them.
    #[must_use]
    pub fn unenforced_limits(&self, limits: &ResourceLimits) -> ResourceLimits {
        self.query_cgroup(|cgroup| cgroup.unenforced_limits(limits)).unwrap_or(*limits)
    }

    /// Returns the processes and threads in its cgroup, if it has one: cheap, and without processes
    /// that left it. One more than the limit if the kernel refused one because of the limit.
    #[must_use]
    pub fn tasks_in_cgroup(&self) -> Option<u64> {
        self.query_cgroup(JobCgroup::tasks).flatten()
    }

    /// `true` if the kernel refused it a task because of the limit.
    #[must_use]
    pub fn was_refused_tasks(&self) -> bool {
        self.query_cgroup(JobCgroup::refused_tasks).unwrap_or(0) > 0
    }

    /// Returns the peak of its memory, if the kernel killed it for lack of memory.
    #[must_use]
    pub fn out_of_memory(&self) -> Option<u64> {
        self.query_cgroup(JobCgroup::out_of_memory).flatten()
    }

    /// Returns the CPU time of everything that was ever in it, if the kernel counts that.
    #[must_use]
    pub fn total_cpu(&self) -> Option<Duration> {
        self.query_cgroup(JobCgroup::cpu).flatten()
    }

    /// Counts its processes. Stops counting above `most`: beside a fork bomb each process costs time.
    #[must_use]
    pub fn count_members(&self, most: u64) -> u64 {
        self.descend(usize::try_from(most).unwrap_or(usize::MAX).saturating_add(1)).len() as u64
    }

    /// Returns the living processes, by descent from the shim.
    fn members(&self) -> Vec<ProcStat> {
        self.descend(usize::MAX)
    }

    fn descend(&self, most: usize) -> Vec<ProcStat> {
        let mut members = Vec::new();
        let mut todo: Vec<Pid> = self.link.shim_pid().into_iter().collect();
        while let Some(parent) = todo.pop() {
            for child in processes::children_of(parent) {
                if members.len() >= most {
                    return members;
                }
                if let Some(stat) = processes::stat(child) {
                    todo.push(child);
                    members.extend(Some(stat).filter(ProcStat::is_alive));
                }
            }
        }
        members
    }

    fn query_cgroup<T>(&self, query: impl FnOnce(&JobCgroup) -> T) -> Option<T> {
        self.link.query_resources(|resources| resources.cgroup().map(query)).flatten()
    }
}

/// The processes of a tree that are alive. As JSON it is their list, or `null` if they are not readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<Vec<u32>>", into = "Option<Vec<u32>>")]
pub enum LivingProcesses {
    /// The processes with these pids; none if the tree is over.
    Known(Vec<u32>),
    /// Some that cannot be read now, for example for lack of descriptors.
    Unreadable,
}

impl LivingProcesses {
    /// `true` if no process is alive.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        match self {
            Self::Known(pids) => pids.is_empty(),
            Self::Unreadable => false,
        }
    }

    /// Returns the pids that are known.
    #[must_use]
    pub fn pids(&self) -> &[u32] {
        match self {
            Self::Known(pids) => pids,
            Self::Unreadable => &[],
        }
    }
}

impl Default for LivingProcesses {
    fn default() -> Self {
        Self::Known(Vec::new())
    }
}

impl From<Option<Vec<u32>>> for LivingProcesses {
    fn from(pids: Option<Vec<u32>>) -> Self {
        pids.map_or(Self::Unreadable, Self::Known)
    }
}

impl From<LivingProcesses> for Option<Vec<u32>> {
    fn from(alive: LivingProcesses) -> Self {
        match alive {
            LivingProcesses::Known(pids) => Some(pids),
            LivingProcesses::Unreadable => None,
        }
    }
}

/// Measures the load of each of these trees, in their order. Blocks: it reads some files for each of
/// their processes.
#[must_use]
pub fn measure_trees(trees: &[Arc<ProcessTree>]) -> Vec<TreeLoad> {
    trees.iter().map(|tree| TreeLoad::from_members(&tree.members())).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;
    use std::time::Instant;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;
    use crate::Process;
    use crate::host::{host, sh};

    /// A shell with a child and an orphan in their own sessions; the orphan has a child as well.
    fn scattered() -> Process {
        let text = "(setsid sh -c 'sleep 1000; :' &); setsid sleep 1000 & wait";
        host().spawn(&sh(text)).unwrap()
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
    async fn processes_that_left_the_session_are_counted() {
        let process = scattered();
        let tree = &process.tree;
        // The shell, a child, and an orphan with a child.
        eventually("all are there", || names(&process) == ["sh", "sh", "sleep", "sleep"]);
        assert_eq!(tree.count_members(10), 4);
        assert_eq!(tree.count_members(2), 3, "the first above two");
        assert!(tree.kill());
    }

    const WITHOUT_DESCRIPTORS: &str = "SHELLYARD_TEST_WITHOUT_DESCRIPTORS";

    /// Runs in a process of its own, since no other test could open a file meanwhile.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "not a setting: it marks the second process")]
    fn without_file_descriptors_a_tree_is_killed_and_does_not_read_as_over_before() {
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
        let Process { mut events, tree, .. } =
            runtime.block_on(async { host().spawn(&sh("sleep 1000; :")).unwrap() });
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
        let found = (tree.living_processes(), tree.is_over(), tree.kill());
        setrlimit(Resource::Nofile, limit).unwrap();
        // The shim has descriptors of its own.
        assert_eq!(found, (LivingProcesses::Unreadable, false, true));
        let exit = runtime.block_on(events.wait()).unwrap();
        assert_eq!(exit.status, crate::ExitKind::Signal { signal: libc::SIGKILL, core: false });
        assert!(tree.kill());
    }
}

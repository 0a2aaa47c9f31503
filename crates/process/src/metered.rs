//! What the kernel itself measures of a tree, and holds it to.

use std::collections::HashMap;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::confine::cgroup::JobCgroup;
use super::holdings::Holdings;
use super::killing;
use super::survey::Load;
use super::tree::{KillMeans, Tree};
use crate::confinement::ResourceLimits;

impl Tree {
    /// Those of its limits that the kernel does not hold for the tree as a whole: somebody has to
    /// watch over them.
    #[must_use]
    pub fn unheld(&self, limits: &ResourceLimits) -> ResourceLimits {
        self.identity().cgroup(|cgroup| cgroup.unheld(limits)).unwrap_or(*limits)
    }

    /// Processes and threads in its cgroup, where it has one: cheap, and without those that left.
    /// Where the kernel refused one because of a limit, there is one more than that limit.
    #[must_use]
    pub fn tasks_in_cgroup(&self) -> Option<u64> {
        let tasks = self.identity().cgroup(JobCgroup::tasks).flatten()?;
        // The first process of a namespace is ours and no part of the job.
        let init = self.identity().holdings(Holdings::init).flatten();
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
    /// leader that lives and stops the rest, `seen` first. [`Tree::kill`] has to follow. Blocks.
    pub fn end_growth(&self, seen: &Load) {
        let identity = self.identity();
        let means = identity.holdings(Holdings::end_processes).unwrap_or(KillMeans::Walk);
        if means != KillMeans::Walk {
            return;
        }
        self.signal_leaders_group(Signal::KILL);
        // Each that is stopped leaves more time to find the others.
        seen.stop();
        killing::freeze(&|| identity.members());
    }

    /// The most memory that it had, where the kernel ended it for want of more.
    #[must_use]
    pub fn out_of_memory(&self) -> Option<u64> {
        self.identity().cgroup(JobCgroup::out_of_memory).flatten()
    }

    /// CPU time of all that was ever in it, where the kernel counts that.
    #[must_use]
    pub fn cpu_in_all(&self) -> Option<Duration> {
        self.identity().cgroup(JobCgroup::cpu).flatten()
    }
}

//! What the kernel itself measures of a tree, and holds it to.

use std::time::Duration;

use super::confine::cgroup::JobCgroup;
use super::tree::Tree;
use crate::confinement::ResourceLimits;

impl Tree {
    /// Those of its limits that the kernel does not hold for the tree as a whole: somebody has to
    /// watch over them.
    #[must_use]
    pub fn unheld(&self, limits: &ResourceLimits) -> ResourceLimits {
        self.identity().cgroup(|cgroup| cgroup.unheld(limits)).unwrap_or(*limits)
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

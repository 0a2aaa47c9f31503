//! A cgroup for each job, where the host lets us make some.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use crate::confinement::ResourceLimits;

/// The cgroup of one job; removed when dropped.
#[derive(Debug)]
pub(in crate::process) struct JobCgroup {
    entrance: OwnedFd,
}

impl JobCgroup {
    /// A new one with these limits; none where the host does not let us.
    pub(in crate::process) fn create(_limits: &ResourceLimits) -> Option<Self> {
        None
    }

    /// The file into which a process writes `0` to become a member, before it becomes its program.
    pub(in crate::process) fn entrance(&self) -> BorrowedFd<'_> {
        self.entrance.as_fd()
    }

    /// Ends every process in it at once. False where the host cannot.
    pub(in crate::process) fn kill(&self) -> bool {
        false
    }
}

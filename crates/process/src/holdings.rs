//! What is held for as long as a job has processes.

use rustix::process::Pid;

use super::confine::cgroup::JobCgroup;
use super::killing::number;
use super::proc_scan;
use super::spawner::Namespace;
use super::surroundings::Surroundings;
use super::tree::KillMeans;

/// What goes when the last process of a job is gone. The namespace goes first: with it ends
/// whoever might still use the rest.
#[derive(Debug)]
pub(super) struct Holdings {
    namespace: Option<Namespace>,
    surroundings: Surroundings,
}

/// The number that the kernel gives for processes which cannot be seen from this process namespace.
const UNSEEN: u32 = 0;

/// Whether somebody is left in a job's process namespace, its first process left out, or in its
/// cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inhabitants {
    None,
    Some,
    /// It has neither, or the kernel does not tell for certain.
    Unknown,
}

impl Holdings {
    pub(super) const fn new(namespace: Option<Namespace>, surroundings: Surroundings) -> Self {
        Self { namespace, surroundings }
    }

    /// The first process of the job's process namespace, to which its orphans fall.
    pub(super) fn init(&self) -> Option<Pid> {
        self.namespace.as_ref().map(Namespace::init)
    }

    /// The cgroup that the leader began in, where it got one of its own.
    pub(super) const fn cgroup(&self) -> Option<&JobCgroup> {
        self.surroundings.cgroup()
    }

    /// Whether somebody is left. Right only after the leader was reaped: before, it lives in the
    /// namespace and is no child of the first process.
    pub(super) fn inhabitants(&self) -> Inhabitants {
        match (self.init().map(proc_scan::children_of), self.cgroup()) {
            (Some(Ok(children)), _) if children.is_empty() => Inhabitants::None,
            (Some(Ok(_)), _) => Inhabitants::Some,
            (None, Some(cgroup)) if cgroup.is_vacated() => Inhabitants::None,
            (None, Some(_)) => Inhabitants::Some,
            (Some(Err(_)) | None, _) => Inhabitants::Unknown,
        }
    }

    /// The processes that the kernel lists in the job's cgroup, the namespace's first process left
    /// out; empty once the kernel says that nobody is in it. To be asked after the leader was reaped.
    ///
    /// They are there although /proc may not show them, to this user or in this namespace.
    /// [`UNSEEN`] stands for those that have no number here.
    pub(super) fn listed_processes(&self) -> Vec<u32> {
        let Some(cgroup) = self.cgroup().filter(|cgroup| !cgroup.is_vacated()) else {
            return Vec::new();
        };
        let init = self.init();
        let pids = cgroup.member_pids().into_iter().filter(|pid| Some(*pid) != init);
        let listed: Vec<u32> = pids.map(number).collect();
        // With a first process in it a cgroup is never vacated. The last one may have ended by now.
        if listed.is_empty() && init.is_none() && !cgroup.is_vacated() {
            return vec![UNSEEN];
        }
        listed
    }

    /// Ends every process by what reaches all of them at once, where there is such a thing, and
    /// says by which means it did.
    pub(super) fn end_processes(&self) -> KillMeans {
        if self.cgroup().is_some_and(|cgroup| cgroup.kill()) {
            return KillMeans::Cgroup;
        }
        let Some(namespace) = &self.namespace else { return KillMeans::Walk };
        namespace.end();
        KillMeans::Namespace
    }

    pub(super) const fn kill_means(&self) -> KillMeans {
        match (self.cgroup(), &self.namespace) {
            (Some(_), _) => KillMeans::Cgroup,
            (None, Some(_)) => KillMeans::Namespace,
            (None, None) => KillMeans::Walk,
        }
    }
}

//! The use that many trees make of the host, by one scan of /proc.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::killing;
use super::members::{self, Identity};
use super::proc_scan::{self, Snapshot, Stat};
use super::raw;
use super::tree::Tree;

/// The use that one tree makes of the host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Load {
    /// Processes and threads that are alive.
    pub tasks: u64,
    /// CPU time of its processes and of the children that they waited for.
    pub cpu: Duration,
    /// Memory of its processes, shared pages counted in each.
    pub rss_bytes: u64,
    members: Vec<Stat>,
}

impl Load {
    /// Memory of its processes, shared pages counted once. Costs the kernel a walk over all of it,
    /// so ask only where [`Load::rss_bytes`] is too much. It asks before each process whether
    /// there is still time for it; `None` if there was not.
    #[must_use]
    pub fn proportional_bytes(&self, has_time: impl Fn() -> bool) -> Option<u64> {
        let bytes = |stat: &Stat| {
            // Of another user's process only the plain figure can be read.
            let bytes = || proc_scan::proportional_bytes(stat.pid);
            has_time().then(|| bytes().unwrap_or_else(|| stat.rss_bytes()))
        };
        self.members.iter().map(bytes).sum()
    }

    fn of(members: &[Stat]) -> Self {
        let mut load = Self::default();
        members.iter().for_each(|stat| load.add(stat));
        load
    }

    /// Stops the processes that were seen.
    pub(super) fn stop(&self) {
        for stat in &self.members {
            // Gone already, or not ours to signal.
            killing::send(stat, Signal::STOP).ok();
        }
    }

    fn add(&mut self, stat: &Stat) {
        // What a zombie used is nobody else's until it is waited for.
        self.cpu += stat.cpu();
        if stat.alive() {
            self.tasks += stat.threads;
            self.rss_bytes += stat.rss_bytes();
            self.members.push(*stat);
        }
    }
}

/// Counts the processes of each session, by the number of its leader. One short call for each process
/// of the host, which costs a tenth of reading its state.
#[must_use]
pub fn session_sizes() -> HashMap<Pid, u64> {
    let mut sizes = HashMap::new();
    for session in proc_scan::all_pids().into_iter().filter_map(raw::session_of) {
        *sizes.entry(session).or_default() += 1;
    }
    sizes
}

/// Measures what each of these trees uses, in their order. Blocks: it reads one file for each process of
/// the host, however many trees there are.
#[must_use]
pub fn survey(trees: &[Arc<Tree>]) -> Vec<Load> {
    let identities: Vec<&Identity> = trees.iter().map(|tree| tree.identity()).collect();
    let members = members::attribute(&Snapshot::take(), &identities);
    members.iter().map(|members| Load::of(members)).collect()
}

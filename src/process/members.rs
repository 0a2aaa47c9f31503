//! Which processes belong to a tree.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, getpid};

use super::children;
use super::confine::cgroup::JobCgroup;
use super::holdings::Holdings;
use super::plumbing::FileNames;
use super::proc_scan::{self, Snapshot, Stat};
use super::tag::Tag;

/// What tells the processes of one tree from all others.
#[derive(Debug)]
pub(super) struct Identity {
    leader: Pid,
    /// No process of the tree started before this.
    born: u64,
    tag: Option<Tag>,
    /// A whole variable, `NAME=value`.
    marker: Option<Vec<u8>>,
    files: FileNames,
    /// From then on the leader's number, and that of its session and group, may be somebody else's.
    leader_reaped: AtomicBool,
    /// What is held for the tree until it is over.
    holdings: Mutex<Option<Holdings>>,
    /// Who was a member when we last looked: still one when all other evidence is gone.
    seen: Mutex<HashSet<(Pid, u64)>>,
}

impl Identity {
    pub(super) fn new(
        leader: Pid,
        born: u64,
        tag: Option<Tag>,
        marker: Option<Vec<u8>>,
        files: FileNames,
    ) -> Self {
        let (leader_reaped, holdings, seen) =
            (AtomicBool::new(false), Mutex::default(), Mutex::default());
        Self { leader, born, tag, marker, files, leader_reaped, holdings, seen }
    }

    /// The same, and what is held for it.
    pub(super) fn holding(self, holdings: Holdings) -> Self {
        Self { holdings: Mutex::new(Some(holdings)), ..self }
    }

    pub(super) const fn leader(&self) -> Pid {
        self.leader
    }

    /// A number that rises from tree to tree.
    pub(super) const fn born(&self) -> u64 {
        self.born
    }

    pub(super) const fn tag(&self) -> Option<Tag> {
        self.tag
    }

    pub(super) fn marker(&self) -> Option<&[u8]> {
        self.marker.as_deref()
    }

    /// What is asked of the cgroup that the leader began in, where it got one of its own.
    pub(super) fn cgroup<T>(&self, ask: impl FnOnce(&JobCgroup) -> T) -> Option<T> {
        self.holdings(|holdings| holdings.cgroup().map(ask)).flatten()
    }

    pub(super) fn leader_was_reaped(&self) {
        self.leader_reaped.store(true, Ordering::Release);
    }

    pub(super) fn is_leader_reaped(&self) -> bool {
        self.leader_reaped.load(Ordering::Acquire)
    }

    /// What is asked of the holdings, while there are any.
    pub(super) fn holdings<T>(&self, ask: impl FnOnce(&Holdings) -> T) -> Option<T> {
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(ask)
    }

    /// Lets go of what is held for the tree: no process of it is left.
    pub(super) fn release(&self) {
        let held = self.holdings.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Not before the lock is free: directories are removed.
        drop(held);
    }

    /// All processes of the tree, zombies included, by one look at /proc.
    ///
    /// Walks down from the server, so that nobody who is not our descendant can be among them.
    pub(super) fn members(&self) -> Vec<Stat> {
        let snapshot = Snapshot::take();
        let mut children: HashMap<i32, Vec<&Stat>> = HashMap::new();
        for stat in snapshot.iter() {
            children.entry(stat.parent).or_default().push(stat);
        }
        let init = self.holdings(Holdings::init).flatten();
        let mut members = Vec::new();
        let mut todo: Vec<(&Stat, Lineage)> = Vec::new();
        let server = getpid().as_raw_nonzero().get();
        todo.extend(children.remove(&server).into_iter().flatten().map(|s| (s, Lineage::Server)));
        while let Some((stat, lineage)) = todo.pop() {
            let lineage =
                if init == Some(stat.pid) { Lineage::Init } else { self.judge(stat, lineage) };
            if lineage == Lineage::Member {
                members.push(*stat);
            }
            let below = children.remove(&stat.pid.as_raw_nonzero().get());
            todo.extend(below.into_iter().flatten().map(|child| (child, lineage)));
        }
        self.remember(&members);
        members
    }

    /// What this process is, given what its parent is.
    fn judge(&self, stat: &Stat, parent: Lineage) -> Lineage {
        let is_member = match parent {
            Lineage::Member | Lineage::Init => true,
            Lineage::Server => self.claims(stat),
            Lineage::Stranger => self.shares_session(stat) || self.has_seen(stat),
        };
        if is_member { Lineage::Member } else { Lineage::Stranger }
    }

    /// Whether a child of the server is one of ours: the leader, or an orphan of the tree.
    pub(super) fn claims(&self, stat: &Stat) -> bool {
        self.shares_session(stat)
            || self.has_seen(stat)
            || (!children::is_owned(stat.pid)
                && self.left_a_trace(stat.pid)
                && !children::is_owned_for_certain(stat.pid))
    }

    pub(super) fn shares_session(&self, stat: &Stat) -> bool {
        let leader = self.leader.as_raw_nonzero().get();
        (stat.session == leader || stat.group == leader)
            && stat.started >= self.born
            && (!self.is_leader_reaped()
                || (!self.number_is_taken() && !self.is_of_other_tree(stat.pid)))
    }

    /// Whether the leader's number is somebody else's by now. The system gives a number out again
    /// only when no session and no group has it, so whoever has it then is not of this tree.
    fn number_is_taken(&self) -> bool {
        proc_scan::stat(self.leader).is_some()
    }

    fn is_of_other_tree(&self, pid: Pid) -> bool {
        let tag = Tag::read(pid).filter(|tag| !tag.is_of_server());
        self.tag.is_some() && tag.is_some() && tag != self.tag
    }

    fn has_seen(&self, stat: &Stat) -> bool {
        self.lock_seen().contains(&(stat.pid, stat.started))
    }

    /// The evidence that an orphan carries in itself. Costs some reading.
    fn left_a_trace(&self, pid: Pid) -> bool {
        if self.is_of_other_tree(pid) {
            return false;
        }
        self.has_our_tag(pid) || self.has_our_marker(pid) || self.holds_our_output(pid)
    }

    fn has_our_tag(&self, pid: Pid) -> bool {
        self.tag.is_some() && Tag::read(pid) == self.tag
    }

    fn has_our_marker(&self, pid: Pid) -> bool {
        let marker = self.marker.as_deref();
        marker.is_some_and(|marker| proc_scan::environment_has(pid, |variable| variable == marker))
    }

    fn holds_our_output(&self, pid: Pid) -> bool {
        let mut standard_files = (0..3).filter_map(|number| proc_scan::open_file(pid, number));
        standard_files.any(|file| self.files.outputs.contains(&file))
    }

    /// Whether this process is blocked on reading what comes from us.
    pub(super) fn waits_for_input(&self, pid: Pid) -> bool {
        let file = proc_scan::blocked_read(pid).and_then(|file| proc_scan::open_file(pid, file));
        file.is_some_and(|file| self.files.inputs.contains(&file))
    }

    fn remember(&self, members: &[Stat]) {
        let alive = members.iter().filter(|stat| stat.alive());
        *self.lock_seen() = alive.map(|stat| (stat.pid, stat.started)).collect();
    }

    fn lock_seen(&self) -> std::sync::MutexGuard<'_, HashSet<(Pid, u64)>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a process's parent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lineage {
    Server,
    Member,
    /// The first process of the tree's own namespace: ours, and none of the tree.
    Init,
    Stranger,
}

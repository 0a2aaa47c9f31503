//! Which processes belong to a tree.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, getpid};

use super::children;
use super::confine::cgroup::JobCgroup;
use super::holdings::Holdings;
use super::orphans::{self, AdoptedChildren, TreeId};
use super::plumbing::FileNames;
use super::proc_scan::{self, ProcessKey, Snapshot, Stat};
use super::tag::Tag;

/// What tells the processes of one tree from all others.
#[derive(Debug)]
pub(super) struct Identity {
    id: TreeId,
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
    /// The members that the last scan found: they stay members when all other evidence is gone.
    seen: Mutex<HashSet<ProcessKey>>,
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
        let id = children::new_serial();
        Self { id, leader, born, tag, marker, files, leader_reaped, holdings, seen }
    }

    /// The same, and what is held for it.
    pub(super) fn holding(mut self, holdings: Holdings) -> Self {
        self.holdings = Mutex::new(Some(holdings));
        self
    }

    pub(super) const fn id(&self) -> TreeId {
        self.id
    }

    pub(super) const fn leader(&self) -> Pid {
        self.leader
    }

    /// The tick (a hundredth of a second after the boot) before which no process of it started.
    pub(super) const fn born(&self) -> u64 {
        self.born
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
        orphans::close_tree(self.id);
    }

    /// All processes of the tree, zombies included, by one scan of /proc: those of its cgroup, and
    /// those that [`attribute`] finds.
    pub(super) fn members(&self) -> Vec<Stat> {
        self.members_in(&Snapshot::take())
    }

    /// The processes of the tree, and the orphans that can be of no other tree any more.
    pub(super) fn members_to_end(&self) -> Vec<Stat> {
        let snapshot = Snapshot::take();
        let mut members = self.members_in(&snapshot);
        members.extend(orphans::left_to(self.id, &snapshot));
        members
    }

    fn members_in(&self, snapshot: &Snapshot) -> Vec<Stat> {
        let mut members = attribute(snapshot, &[self]).pop().unwrap_or_default();
        let found: HashSet<ProcessKey> = members.iter().map(Stat::key).collect();
        let init = self.holdings(Holdings::init).flatten();
        // Read after the snapshot: whoever is in the cgroup by now is a member, however it got there.
        let others = self.cgroup(JobCgroup::members).unwrap_or_default().into_iter();
        members
            .extend(others.filter(|stat| !found.contains(&stat.key()) && Some(stat.pid) != init));
        self.remember(&members);
        members
    }

    fn shares_session(&self, stat: &Stat) -> bool {
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

    /// The weak evidence that an orphan carries in itself. Costs some reading.
    pub(super) fn left_a_trace(&self, pid: Pid) -> bool {
        self.has_our_marker(pid) || self.holds_our_output(pid)
    }

    /// The evidence that no process has by chance: its cgroup, or the tag in its limits.
    pub(super) fn is_marked_by_kernel(&self, tag: Option<Tag>, cgroup: Option<&Path>) -> bool {
        let is_inside = |path: &Path| self.cgroup(|cgroup| cgroup.holds(path)) == Some(true);
        cgroup.is_some_and(is_inside) || (self.tag.is_some() && tag == self.tag)
    }

    /// `true` if this is the tag of another tree of this server.
    pub(super) fn is_of_sibling(&self, tag: Option<Tag>) -> bool {
        let is_sibling = |ours: Tag| {
            tag.is_some_and(|tag| tag.same_server(ours) && !tag.is_of_server() && tag != ours)
        };
        self.tag.is_some_and(is_sibling)
    }

    /// `true` if orphans of the tree fall to the first process of its own namespace.
    pub(super) fn has_namespace(&self) -> bool {
        self.holdings(Holdings::init).flatten().is_some()
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

    /// Keeps the living among these, so that they stay members when all other evidence is gone.
    pub(super) fn remember(&self, members: &[Stat]) {
        let alive: HashSet<ProcessKey> =
            members.iter().filter(|stat| stat.alive()).map(Stat::key).collect();
        let missing: Vec<ProcessKey> = self.lock_seen().difference(&alive).copied().collect();
        // Another scan may have seen later what this one could not see yet.
        let gone: Vec<_> = missing.into_iter().filter(|key| !proc_scan::is_alive(*key)).collect();
        let mut seen = self.lock_seen();
        seen.extend(alive);
        for key in gone {
            seen.remove(&key);
        }
    }

    fn lock_seen(&self) -> MutexGuard<'_, HashSet<ProcessKey>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        orphans::close_tree(self.id);
    }
}

/// The processes of each of these trees, zombies included, in the trees' order.
///
/// Walks down from the server, so that nobody who is not our descendant can be among them.
pub(super) fn attribute(snapshot: &Snapshot, trees: &[&Identity]) -> Vec<Vec<Stat>> {
    let owners = Owners::new(trees);
    let mut children = snapshot.by_parent();
    let mut below = |pid: Pid| children.remove(&pid.as_raw_nonzero().get()).unwrap_or_default();
    let mut members = vec![Vec::new(); trees.len()];
    let mut todo: Vec<(&Stat, Parent)> = Vec::new();
    todo.extend(below(getpid()).into_iter().map(|stat| (stat, Parent::Server)));
    while let Some((stat, parent)) = todo.pop() {
        let owner = owners.find(stat, parent);
        // The first process of a namespace is ours and no part of the job: only what falls to it is.
        if let Some(tree) = owner.filter(|_| !owners.inits.contains_key(&stat.pid)) {
            members[tree].push(*stat);
        }
        let parent = owner.map_or(Parent::Stranger, Parent::Member);
        todo.extend(below(stat.pid).into_iter().map(|child| (child, parent)));
    }
    members
}

/// The relation of a process's parent to the trees.
#[derive(Debug, Clone, Copy)]
enum Parent {
    Server,
    Member(usize),
    Stranger,
}

/// The evidence by which processes are told apart, for many trees at once.
#[derive(Debug)]
struct Owners<'a> {
    trees: &'a [&'a Identity],
    ids: HashMap<TreeId, usize>,
    leaders: HashMap<i32, usize>,
    /// The first processes of namespaces, to which orphans fall.
    inits: HashMap<Pid, usize>,
    seen: HashMap<ProcessKey, usize>,
    adopted: AdoptedChildren,
}

impl<'a> Owners<'a> {
    fn new(trees: &'a [&'a Identity]) -> Self {
        let mut by_age: Vec<_> = trees.iter().copied().enumerate().collect();
        // Of two trees whose leaders had the same number, only the later can have it now.
        by_age.sort_by_key(|(_, identity)| identity.born);
        let (mut ids, mut leaders) = (HashMap::new(), HashMap::new());
        let (mut inits, mut seen) = (HashMap::new(), HashMap::new());
        for (index, identity) in by_age {
            ids.insert(identity.id, index);
            leaders.insert(identity.leader.as_raw_nonzero().get(), index);
            let init = identity.holdings(Holdings::init).flatten();
            inits.extend(init.map(|init| (init, index)));
            seen.extend(identity.lock_seen().iter().map(|key| (*key, index)));
        }
        Self { trees, ids, leaders, inits, seen, adopted: orphans::adopted_children() }
    }

    fn find(&self, stat: &Stat, parent: Parent) -> Option<usize> {
        let by_itself = || self.by_session(stat).or_else(|| self.seen.get(&stat.key()).copied());
        match parent {
            Parent::Member(tree) => Some(tree),
            Parent::Server => {
                let init = self.inits.get(&stat.pid).copied();
                init.or_else(by_itself).or_else(|| self.as_orphan(stat))
            }
            Parent::Stranger => by_itself(),
        }
    }

    fn by_session(&self, stat: &Stat) -> Option<usize> {
        let tree = *self.leaders.get(&stat.session).or_else(|| self.leaders.get(&stat.group))?;
        self.trees[tree].shares_session(stat).then_some(tree)
    }

    fn as_orphan(&self, stat: &Stat) -> Option<usize> {
        if children::is_owned(stat.pid) {
            return None;
        }
        orphans::owner_of(stat, &self.adopted).and_then(|tree| self.ids.get(&tree).copied())
    }
}

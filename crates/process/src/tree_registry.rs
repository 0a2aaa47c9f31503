//! The trees of this process, and the tree that an adopted orphan belongs to.
//!
//! The server is a subreaper: a process whose parent has ended becomes a child of the server, and
//! nothing about it shows directly which job it came from. Evidence decides first: its cgroup, and
//! what it inherited from its job. A process that dropped all of that (`su` resets limits and
//! variables) can only come from a tree that existed when it started. If there was one such tree,
//! it is the owner; if there were several, none is, and the orphan is ended when the last of them
//! is over. The answer is kept: the evidence of later scans is weaker, and reading it costs time.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::process::{Pid, getpid};

use crate::cgroup::Cgroups;
use crate::children::Children;
use crate::processes::{self, ProcStat, ProcessKey, ProcessSnapshot, ProcessTag, TreeScan};
use crate::sandbox::job_resources::JobResources;
use crate::tree_members::TreeIdentity;

/// The time that orphans whose trees are all over may take to end.
const END_LIMIT: Duration = Duration::from_millis(1500);

/// The number of a tree, unique in this process.
pub(crate) type TreeId = u32;

/// The trees that are not over, and the orphans that were seen.
#[derive(Debug, Default)]
struct OrphanTable {
    trees: HashMap<TreeId, Weak<TreeIdentity>>,
    known: HashMap<ProcessKey, Orphan>,
    /// Orphans without an owner that were ended and not yet reported.
    ended: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Orphan {
    owner: OrphanOwner,
    certainty: AdoptionCertainty,
    state: OrphanState,
}

/// Distinguishes the orphans that the server ends from those that end by themselves. Several
/// threads may end one orphan at the same time: the one that removes it from the table counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OrphanState {
    NotEnding,
    /// The server has begun to end it, because its owner is unknown.
    BeingEnded,
}

impl Orphan {
    const fn new(owner: OrphanOwner, certainty: AdoptionCertainty) -> Self {
        Self { owner, certainty, state: OrphanState::NotEnding }
    }
}

/// The trees that an orphan may belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OrphanOwner {
    One(TreeId),
    /// All possible owners, including those that are over since.
    Several(HashSet<TreeId>),
}

/// Distinguishes an orphan from a child of ours that is being created right now and not registered
/// yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AdoptionCertainty {
    /// An orphan that was first seen before the creation with this number; an earlier creation may have created
    /// it.
    SeenBefore(u64),
    Adopted,
}

/// Returns the owner of a process that started at this tick and carries no evidence. `trees` are
/// those whose orphans the server adopts, each with the tick before which none of its processes
/// started.
fn possible_owner(started: u64, trees: &[(TreeId, u64)]) -> Option<OrphanOwner> {
    let possible: HashSet<TreeId> = trees
        .iter()
        .filter(|(_, started_after)| *started_after <= started)
        .map(|(tree, _)| *tree)
        .collect();
    match possible.len() {
        0 => None,
        1 => possible.into_iter().next().map(OrphanOwner::One),
        _ => Some(OrphanOwner::Several(possible)),
    }
}

impl OrphanTable {
    fn is_idle(&self) -> bool {
        self.trees.is_empty() && self.known.is_empty() && self.ended == 0
    }

    /// Returns the orphans about which the next scan may tell more.
    fn inconclusive_orphans(&self) -> impl Iterator<Item = &Orphan> {
        self.known.values().filter(|orphan| match orphan.owner {
            OrphanOwner::One(_) => orphan.certainty != AdoptionCertainty::Adopted,
            OrphanOwner::Several(_) => true,
        })
    }

    /// Returns the adopted orphans that no open tree is known to own, and for which `select` is
    /// true. `select` gets all possible owners, and those of them that are still open.
    fn adopted_without_owner(
        &self,
        select: impl Fn(&HashSet<TreeId>, &[TreeId]) -> bool,
    ) -> HashSet<ProcessKey> {
        let is_open = |tree: &TreeId| self.trees.contains_key(tree);
        let is_selected = |orphan: &Orphan| match &orphan.owner {
            OrphanOwner::One(tree) => !is_open(tree) && select(&HashSet::from([*tree]), &[]),
            OrphanOwner::Several(possible) => {
                let open: Vec<TreeId> = possible.iter().copied().filter(is_open).collect();
                select(possible, &open)
            }
        };
        let adopted =
            self.known.iter().filter(|(_, it)| it.certainty == AdoptionCertainty::Adopted);
        adopted.filter(|(_, orphan)| is_selected(orphan)).map(|(key, _)| *key).collect()
    }

    /// Returns the orphans that may turn out to belong to this tree as soon as a creation has ended.
    fn unchecked_of(&self, tree: TreeId) -> Vec<ProcessKey> {
        let may_own = |owner: &OrphanOwner| match owner {
            OrphanOwner::One(owner) => *owner == tree,
            OrphanOwner::Several(possible) => possible.contains(&tree),
        };
        let unchecked = self.known.iter().filter(|(_, orphan)| {
            orphan.certainty != AdoptionCertainty::Adopted && may_own(&orphan.owner)
        });
        unchecked.map(|(key, _)| *key).collect()
    }

    /// Marks the orphans that the server begins to end.
    fn begin_to_end(&mut self, keys: &HashSet<ProcessKey>) {
        for key in keys {
            if let Some(orphan) = self.known.get_mut(key) {
                orphan.state = OrphanState::BeingEnded;
            }
        }
    }

    /// Removes orphans that are gone, and counts those that the server ended.
    fn forget(&mut self, gone: &HashSet<ProcessKey>) {
        let forgotten = gone.iter().filter_map(|key| self.known.remove(key));
        self.ended += forgotten.filter(|orphan| orphan.state == OrphanState::BeingEnded).count();
    }

    /// Returns the orphans whose possible owners are all over.
    fn unowned(&self) -> HashSet<ProcessKey> {
        self.adopted_without_owner(|_, open| open.is_empty())
    }
}

/// The children of the server's main thread, among which the kernel puts orphans, and those of its
/// keeper. One list serves a
/// whole scan, since reading it for each of a thousand orphans would take long. It is read on first
/// use, which is after the processes to be looked up were seen; so an orphan among them that is
/// still there is in the list.
#[derive(Debug)]
pub(crate) struct AdoptedChildren<'a> {
    children: &'a Children,
    /// `None` if the kernel does not list children.
    list: OnceCell<Option<HashSet<Pid>>>,
}

impl AdoptedChildren<'_> {
    /// `true` if this process is certainly not one of them.
    fn lacks(&self, pid: Pid) -> bool {
        let read = || Some(self.children.adopted_candidates().ok()?.into_iter().collect());
        self.list.get_or_init(read).as_ref().is_some_and(|list: &HashSet<Pid>| !list.contains(&pid))
    }
}

/// The trees of this process that are not over, and the orphans that it adopted. All hosts of a
/// process share it: an orphan may come from a tree of any of them.
#[derive(Debug)]
pub(crate) struct TreeRegistry {
    pub(crate) children: Arc<Children>,
    pub(crate) cgroups: Arc<Cgroups>,
    orphans: Mutex<OrphanTable>,
}

impl TreeRegistry {
    pub(crate) fn new(children: Arc<Children>, cgroups: Arc<Cgroups>) -> Self {
        Self { children, cgroups, orphans: Mutex::default() }
    }

    pub(crate) fn adopted_children(&self) -> AdoptedChildren<'_> {
        AdoptedChildren { children: &self.children, list: OnceCell::new() }
    }

    fn orphans(&self) -> MutexGuard<'_, OrphanTable> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a tree as a possible owner of orphans, until [`Self::close_tree`]. Returns `true` if it
    /// is the only one.
    pub(crate) fn open_tree(&self, identity: &Arc<TreeIdentity>) -> bool {
        let mut orphans = self.orphans();
        orphans.trees.insert(identity.id, Arc::downgrade(identity));
        orphans.trees.len() == 1
    }

    /// Removes a tree of which no process is left.
    pub(crate) fn close_tree(&self, tree: TreeId) {
        self.orphans().trees.remove(&tree);
    }

    /// `true` while a tree is not over.
    pub(crate) fn has_open_trees(&self) -> bool {
        !self.orphans().trees.is_empty()
    }

    /// Returns the members of all open trees that the last scans found.
    pub(crate) fn seen_processes(&self) -> HashSet<ProcessKey> {
        self.open_trees().iter().flat_map(|tree| tree.lock_seen().clone()).collect()
    }

    pub(crate) fn open_trees(&self) -> Vec<Arc<TreeIdentity>> {
        self.orphans().trees.values().filter_map(Weak::upgrade).collect()
    }

    /// Returns the living orphans that may turn out to belong to this tree in a moment.
    pub(crate) fn unchecked_orphans_of(&self, tree: TreeId) -> Vec<Pid> {
        let mut keys = self.orphans().unchecked_of(tree);
        keys.retain(|key| processes::may_be_alive(*key) && !self.children.is_owned(key.0));
        keys.into_iter().map(|(pid, _)| pid).collect()
    }

    /// Finds the tree that owns this child of the server, which the server did not create. Also
    /// `None` while the owner is uncertain.
    pub(crate) fn owner_of(
        &self,
        stat: &ProcStat,
        adopted: &AdoptedChildren<'_>,
    ) -> Option<TreeId> {
        let key = stat.key();
        let known = self.orphans().known.get(&key).cloned();
        let orphan = match known {
            Some(orphan) => orphan,
            None => {
                let orphan = self.find_owner(stat, adopted)?;
                self.orphans().known.entry(key).or_insert(orphan).clone()
            }
        };
        if let AdoptionCertainty::SeenBefore(creation) = orphan.certainty {
            if !self.children.is_surely_adopted(stat.pid, creation) {
                return None;
            }
            if let Some(orphan) = self.orphans().known.get_mut(&key) {
                orphan.certainty = AdoptionCertainty::Adopted;
            }
        }
        match orphan.owner {
            OrphanOwner::One(tree) => Some(tree),
            OrphanOwner::Several(_) => None,
        }
    }

    fn find_owner(&self, stat: &ProcStat, adopted: &AdoptedChildren<'_>) -> Option<Orphan> {
        let unchecked = AdoptionCertainty::SeenBefore(self.children.next_creation());
        // A child that another thread of ours created, and that is not registered, is not an
        // orphan.
        if adopted.lacks(stat.pid) {
            return None;
        }
        let trees = self.open_trees();
        // A scan attributes members by session and by earlier scans before it looks at orphans; this
        // keeps the same order. Of two trees whose leaders had the same pid only the later can have it.
        let knowing = trees.iter().filter(|tree| tree.is_known_member(stat));
        if let Some(tree) = knowing.max_by_key(|tree| tree.started_after) {
            return Some(Orphan::new(OrphanOwner::One(tree.id), AdoptionCertainty::Adopted));
        }
        let tag = ProcessTag::read(stat.pid);
        let cgroup = processes::cgroup_path(stat.pid);
        let is_marked =
            |tree: &&Arc<TreeIdentity>| tree.has_kernel_evidence(tag, cgroup.as_deref());
        if let Some(tree) = trees.iter().find(is_marked) {
            // The only process of a tree that we created was registered before the tree existed.
            return Some(Orphan::new(OrphanOwner::One(tree.id), AdoptionCertainty::Adopted));
        }
        // It carries the mark of a tree that is over, or not registered yet, so it belongs to none
        // of these.
        if trees.iter().any(|tree| tree.is_sibling_tag(tag)) {
            return None;
        }
        if let Some(tree) = trees.iter().find(|tree| tree.has_weak_evidence(stat.pid)) {
            return Some(Orphan::new(OrphanOwner::One(tree.id), unchecked));
        }
        let possible: Vec<_> = trees
            .iter()
            .filter(|tree| !tree.has_namespace())
            .map(|tree| (tree.id, tree.started_after))
            .collect();
        possible_owner(stat.started, &possible).map(|owner| Orphan::new(owner, unchecked))
    }

    /// Returns the living orphans that may belong to this tree or to others.
    pub(crate) fn possible_orphans_of(&self, tree: TreeId) -> Vec<Pid> {
        let keys = self.orphans().adopted_without_owner(|possible, _| possible.contains(&tree));
        keys.into_iter().filter(|key| processes::may_be_alive(*key)).map(|(pid, _)| pid).collect()
    }

    /// Returns the orphans that only this tree can still own, with all their descendants; the
    /// caller ends them with the tree.
    pub(crate) fn orphans_left_to(
        &self,
        tree: TreeId,
        snapshot: &ProcessSnapshot,
    ) -> Vec<ProcStat> {
        let mut orphans = self.orphans();
        let keys = orphans.adopted_without_owner(|_, open| open == [tree]);
        orphans.begin_to_end(&keys);
        drop(orphans);
        if keys.is_empty() {
            Vec::new()
        } else {
            snapshot.with_descendants(|stat| keys.contains(&stat.key()))
        }
    }

    /// `true` if there are orphans whose possible owners are all over.
    pub(crate) fn has_unowned(&self) -> bool {
        !self.orphans().unowned().is_empty()
    }

    /// Ends the orphans whose possible owners are all over. Blocks; does nothing if there are none.
    pub(crate) fn end_unowned(&self) {
        let keys = self.orphans().unowned();
        let (keys, gone): (HashSet<_>, HashSet<_>) =
            keys.into_iter().partition(|key| processes::may_be_alive(*key));
        // Most ended by themselves, before their tree did.
        let mut orphans = self.orphans();
        orphans.forget(&gone);
        orphans.begin_to_end(&keys);
        drop(orphans);
        if keys.is_empty() {
            return;
        }
        let find = || ProcessSnapshot::take().with_descendants(|stat| keys.contains(&stat.key()));
        // The next scan tries again to end those that are still alive.
        self.children.end_all(find, END_LIMIT);
        let ended: HashSet<_> =
            keys.into_iter().filter(|key| !processes::may_be_alive(*key)).collect();
        self.orphans().forget(&ended);
    }

    /// Scans all trees at once, so that a process seen now stays in its tree when its parent ends,
    /// and ends the orphans whose trees are all over. Blocks; `None` without a scan if there is
    /// neither a tree nor an orphan.
    pub(crate) fn scan(&self) -> Option<TreeScan> {
        if self.orphans().is_idle() {
            return None;
        }
        let Some(snapshot) = ProcessSnapshot::take_complete() else {
            let mut processes = self.seen_processes();
            processes.extend(self.orphans().adopted_without_owner(|_, _| true));
            return Some(TreeScan { processes, ..TreeScan::default() });
        };
        let trees = self.open_trees();
        let identities: Vec<&TreeIdentity> = trees.iter().map(AsRef::as_ref).collect();
        let members = self.attribute_processes(&snapshot, &identities);
        for (identity, members) in identities.iter().zip(&members) {
            identity.remember(members);
        }
        self.end_unowned();
        let living = members.iter().flatten().filter(|stat| stat.is_alive());
        let mut processes: HashSet<ProcessKey> = living.map(ProcStat::key).collect();
        let known = self.orphans().known.keys().copied().collect::<Vec<_>>();
        let gone: HashSet<ProcessKey> = known
            .iter()
            .filter(|key| !processes::may_be_alive(**key) || self.children.is_owned(key.0))
            .copied()
            .collect();
        let mut orphans = self.orphans();
        orphans.forget(&gone);
        processes.extend(orphans.adopted_without_owner(|_, _| true));
        let ended_orphans = std::mem::take(&mut orphans.ended);
        let is_conclusive = orphans.inconclusive_orphans().next().is_none();
        Some(TreeScan { processes, ended_orphans, is_conclusive })
    }

    /// Returns the processes of each of these trees, including zombies, in the trees' order.
    ///
    /// Walks down from the server and its keeper, so that only our descendants can be included.
    pub(crate) fn attribute_processes(
        &self,
        snapshot: &ProcessSnapshot,
        trees: &[&TreeIdentity],
    ) -> Vec<Vec<ProcStat>> {
        let owners = OwnerIndex::new(self, trees);
        let mut children = snapshot.by_parent();
        let mut below = |pid: Pid| children.remove(&pid.as_raw_nonzero().get()).unwrap_or_default();
        let mut members = vec![Vec::new(); trees.len()];
        let mut todo: Vec<(&ProcStat, ParentKind)> = Vec::new();
        for root in self.children.roots() {
            let children = below(root).into_iter().filter(|stat| stat.pid != getpid());
            todo.extend(children.map(|stat| (stat, ParentKind::Server)));
        }
        while let Some((stat, parent)) = todo.pop() {
            let owner = owners.find(stat, parent);
            // The first process of a namespace is ours and not part of the job: only its children
            // are.
            if let Some(tree) = owner.filter(|_| !owners.inits.contains_key(&stat.pid)) {
                members[tree].push(*stat);
            }
            let parent = owner.map_or(ParentKind::Stranger, ParentKind::Member);
            todo.extend(below(stat.pid).into_iter().map(|child| (child, parent)));
        }
        members
    }
}

/// The relation of a process's parent to the trees.
#[derive(Debug, Clone, Copy)]
enum ParentKind {
    Server,
    Member(usize),
    Stranger,
}

/// The evidence of many trees, for lookup by process.
#[derive(Debug)]
struct OwnerIndex<'a> {
    registry: &'a TreeRegistry,
    trees: &'a [&'a TreeIdentity],
    ids: HashMap<TreeId, usize>,
    leaders: HashMap<i32, usize>,
    /// The first processes of pid namespaces, to which orphans pass.
    inits: HashMap<Pid, usize>,
    seen: HashMap<ProcessKey, usize>,
    adopted: AdoptedChildren<'a>,
}

impl<'a> OwnerIndex<'a> {
    fn new(registry: &'a TreeRegistry, trees: &'a [&'a TreeIdentity]) -> Self {
        let mut by_age: Vec<_> = trees.iter().copied().enumerate().collect();
        // If two leaders had the same pid, only the later tree can have it now.
        by_age.sort_by_key(|(_, identity)| identity.started_after);
        let mut ids = HashMap::new();
        let mut leaders = HashMap::new();
        let mut inits = HashMap::new();
        let mut seen = HashMap::new();
        for (index, identity) in by_age {
            ids.insert(identity.id, index);
            leaders.insert(identity.leader.as_raw_nonzero().get(), index);
            let init = identity.query_resources(JobResources::init).flatten();
            inits.extend(init.map(|init| (init, index)));
            seen.extend(identity.lock_seen().iter().map(|key| (*key, index)));
        }
        let adopted = registry.adopted_children();
        Self { registry, trees, ids, leaders, inits, seen, adopted }
    }

    fn find(&self, stat: &ProcStat, parent: ParentKind) -> Option<usize> {
        let by_itself = || self.by_session(stat).or_else(|| self.seen.get(&stat.key()).copied());
        match parent {
            ParentKind::Member(tree) => Some(tree),
            ParentKind::Server => {
                let init = self.inits.get(&stat.pid).copied();
                init.or_else(by_itself).or_else(|| self.as_orphan(stat))
            }
            ParentKind::Stranger => by_itself(),
        }
    }

    fn by_session(&self, stat: &ProcStat) -> Option<usize> {
        let tree = *self.leaders.get(&stat.session).or_else(|| self.leaders.get(&stat.group))?;
        self.trees[tree].shares_session(stat).then_some(tree)
    }

    fn as_orphan(&self, stat: &ProcStat) -> Option<usize> {
        if self.registry.children.is_owned(stat.pid) {
            return None;
        }
        self.registry.owner_of(stat, &self.adopted).and_then(|tree| self.ids.get(&tree).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn several(trees: &[TreeId]) -> Option<OrphanOwner> {
        Some(OrphanOwner::Several(trees.iter().copied().collect()))
    }

    #[track_caller]
    fn check_owner(trees: &[(TreeId, u64)], expected: Option<OrphanOwner>) {
        assert_eq!(possible_owner(50, trees), expected, "{trees:?}");
    }

    #[test]
    fn an_orphan_without_evidence_belongs_to_the_only_tree_that_is_older() {
        check_owner(&[], None);
        check_owner(&[(1, 51)], None);
        check_owner(&[(1, 50)], Some(OrphanOwner::One(1)));
        check_owner(&[(1, 40), (2, 51)], Some(OrphanOwner::One(1)));
        check_owner(&[(1, 40), (2, 50)], several(&[1, 2]));
        check_owner(&[(1, 40), (2, 45), (3, 60)], several(&[1, 2]));
    }

    #[test]
    fn an_orphan_of_several_trees_has_no_owner_once_the_last_of_them_is_over() {
        let key = (Pid::INIT, 50);
        let owner = several(&[1, 2]).unwrap();
        let mut orphans = OrphanTable::default();
        orphans.known.insert(key, Orphan::new(owner, AdoptionCertainty::Adopted));
        orphans.trees.extend([(1, Weak::new()), (2, Weak::new()), (3, Weak::new())]);
        assert_eq!(orphans.unowned().len(), 0);
        orphans.trees.remove(&1);
        assert_eq!(orphans.unowned().len(), 0);
        assert_eq!(orphans.adopted_without_owner(|_, open| open == [2]), HashSet::from([key]));
        orphans.trees.remove(&2);
        assert_eq!(orphans.unowned(), HashSet::from([key]));
        assert_eq!(orphans.adopted_without_owner(|all, _| all.contains(&1)), HashSet::from([key]));
    }

    #[test]
    fn an_ended_orphan_is_counted_once_whichever_thread_notices_its_end() {
        let ended = (Pid::INIT, 50);
        let by_itself = (Pid::INIT, 51);
        let mut orphans = OrphanTable::default();
        for key in [ended, by_itself] {
            orphans.known.insert(key, Orphan::new(OrphanOwner::One(1), AdoptionCertainty::Adopted));
        }
        orphans.begin_to_end(&HashSet::from([ended]));
        // One thread ends it, and a scan by another thread finds it gone.
        for _ in 0..2 {
            orphans.forget(&HashSet::from([ended, by_itself]));
        }
        assert_eq!((orphans.ended, orphans.known.len()), (1, 0));
    }

    #[test]
    fn a_process_that_may_be_a_child_under_creation_is_not_ended() {
        let owner = OrphanOwner::Several(HashSet::new());
        let mut orphans = OrphanTable::default();
        orphans.known.insert((Pid::INIT, 50), Orphan::new(owner, AdoptionCertainty::SeenBefore(1)));
        assert_eq!(orphans.unowned().len(), 0);
    }

    #[test]
    fn an_orphan_is_unchecked_for_all_its_possible_owners() {
        let unchecked = AdoptionCertainty::SeenBefore(1);
        let mut orphans = OrphanTable::default();
        orphans.known.insert((Pid::INIT, 50), Orphan::new(several(&[1, 2]).unwrap(), unchecked));
        orphans.known.insert((Pid::INIT, 51), Orphan::new(OrphanOwner::One(2), unchecked));
        let adopted = Orphan::new(OrphanOwner::One(3), AdoptionCertainty::Adopted);
        orphans.known.insert((Pid::INIT, 52), adopted);
        let numbers = [1, 2, 3].map(|tree| orphans.unchecked_of(tree).len());
        assert_eq!(numbers, [1, 2, 0]);
    }
}

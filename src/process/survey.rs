//! What many trees use, by one look at /proc.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, getpid};

use super::children;
use super::holdings::Holdings;
use super::members::Identity;
use super::proc_scan::{self, Snapshot, Stat};
use super::tag::Tag;
use super::tree::Tree;

/// What one tree uses.
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
    /// so ask only where [`Load::rss_bytes`] is too much.
    #[must_use]
    pub fn proportional_bytes(&self) -> u64 {
        let bytes = |stat: &Stat| {
            // Of another user's process only the plain figure can be read.
            proc_scan::proportional_bytes(stat.pid).unwrap_or_else(|| stat.rss_bytes())
        };
        self.members.iter().map(bytes).sum()
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

/// What each of these trees uses, in their order. Blocks: it reads one file for each process of
/// the host, however many trees there are.
#[must_use]
pub fn survey(trees: &[Arc<Tree>]) -> Vec<Load> {
    let owners = Owners::of(trees);
    let snapshot = Snapshot::take();
    let mut children: HashMap<i32, Vec<&Stat>> = HashMap::new();
    for stat in snapshot.iter() {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut loads = vec![Load::default(); trees.len()];
    let mut below = |pid: Pid| children.remove(&pid.as_raw_nonzero().get()).unwrap_or_default();
    let mut todo: Vec<(&Stat, Parent)> = Vec::new();
    todo.extend(below(getpid()).into_iter().map(|stat| (stat, Parent::Server)));
    while let Some((stat, parent)) = todo.pop() {
        let parent = match owners.find(stat, parent) {
            // Ours, and no part of the job: only what falls to it is.
            Some(tree) if owners.inits.contains_key(&stat.pid) => Parent::Member(tree),
            Some(tree) => {
                loads[tree].add(stat);
                Parent::Member(tree)
            }
            None => Parent::Stranger,
        };
        todo.extend(below(stat.pid).into_iter().map(|child| (child, parent)));
    }
    loads
}

/// What a process's parent is.
#[derive(Debug, Clone, Copy)]
enum Parent {
    Server,
    Member(usize),
    Stranger,
}

/// Which tree a process belongs to, by the evidence that [`Identity`] goes by.
#[derive(Debug)]
struct Owners<'a> {
    trees: Vec<&'a Identity>,
    leaders: HashMap<i32, usize>,
    /// The first processes of namespaces, to which orphans fall.
    inits: HashMap<Pid, usize>,
    tags: HashMap<u64, usize>,
    markers: HashMap<&'a [u8], usize>,
}

impl<'a> Owners<'a> {
    fn of(trees: &'a [Arc<Tree>]) -> Self {
        let trees: Vec<&Identity> = trees.iter().map(|tree| tree.identity()).collect();
        let mut owners = Self {
            leaders: HashMap::new(),
            inits: HashMap::new(),
            tags: HashMap::new(),
            markers: HashMap::new(),
            trees,
        };
        let mut by_age: Vec<_> = owners.trees.iter().copied().enumerate().collect();
        // Of two trees whose leaders had the same number, only the later can have it now.
        by_age.sort_by_key(|(_, identity)| identity.born());
        for (index, identity) in by_age {
            owners.leaders.insert(identity.leader().as_raw_nonzero().get(), index);
            let init = identity.holdings(Holdings::init).flatten();
            owners.inits.extend(init.map(|init| (init, index)));
            owners.tags.extend(identity.tag().map(|tag| (tag.to_number(), index)));
            owners.markers.extend(identity.marker().map(|marker| (marker, index)));
        }
        owners
    }

    fn find(&self, stat: &Stat, parent: Parent) -> Option<usize> {
        match parent {
            Parent::Member(tree) => Some(tree),
            Parent::Server => {
                let init = self.inits.get(&stat.pid).copied();
                init.or_else(|| self.by_session(stat)).or_else(|| self.by_trace(stat.pid))
            }
            Parent::Stranger => self.by_session(stat),
        }
    }

    fn by_session(&self, stat: &Stat) -> Option<usize> {
        let tree = *self.leaders.get(&stat.session).or_else(|| self.leaders.get(&stat.group))?;
        self.trees[tree].shares_session(stat).then_some(tree)
    }

    /// By what an orphan carries in itself.
    fn by_trace(&self, pid: Pid) -> Option<usize> {
        if children::is_owned(pid) {
            return None;
        }
        let tag = Tag::read(pid).and_then(|tag| self.tags.get(&tag.to_number()).copied());
        tag.or_else(|| self.by_marker(pid))
    }

    fn by_marker(&self, pid: Pid) -> Option<usize> {
        let found = Cell::new(None);
        proc_scan::environment_has(pid, |variable| {
            found.set(self.markers.get(variable).copied());
            found.get().is_some()
        });
        found.get()
    }
}

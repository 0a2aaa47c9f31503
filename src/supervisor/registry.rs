//! Who is known, and who is forgotten. Pure apart from the handles it keeps.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::ids::JobId;
use crate::job::JobHandle;

/// Every job that can be found.
///
/// Invariant: `finished` holds ids of `jobs` in the order in which they ended, and `keys`
/// names only jobs in `jobs`.
#[derive(Debug)]
pub(super) struct Registry {
    jobs: BTreeMap<JobId, JobHandle>,
    keys: HashMap<String, JobId>,
    finished: VecDeque<JobId>,
    max_finished: usize,
}

impl Registry {
    pub(super) fn new(max_finished: usize) -> Self {
        Self {
            jobs: BTreeMap::new(),
            keys: HashMap::new(),
            finished: VecDeque::new(),
            max_finished,
        }
    }

    pub(super) fn insert(&mut self, job: JobHandle, key: Option<String>) {
        if let Some(key) = key {
            self.keys.insert(key, job.id());
        }
        self.jobs.insert(job.id(), job);
    }

    pub(super) fn find(&self, id: JobId) -> Option<&JobHandle> {
        self.jobs.get(&id)
    }

    pub(super) fn find_key(&self, key: &str) -> Option<&JobHandle> {
        self.find(*self.keys.get(key)?)
    }

    /// Newest first.
    pub(super) fn all(&self) -> Vec<JobHandle> {
        self.jobs.values().rev().cloned().collect()
    }

    pub(super) fn finished(&self) -> usize {
        self.finished.len()
    }

    /// The job has ended: it may be forgotten once enough others ended after it. Gives those
    /// that are forgotten now.
    pub(super) fn retire(&mut self, id: JobId) -> Vec<JobHandle> {
        self.finished.push_back(id);
        let mut forgotten = Vec::new();
        let mut at = 0;
        while self.finished.len() > self.max_finished && at < self.finished.len() {
            let id = self.finished[at];
            // Who is forgotten can no longer be stopped, so jobs with survivors are passed over.
            if self.jobs.get(&id).is_some_and(|job| !job.survivors().is_empty()) {
                at += 1;
                continue;
            }
            self.finished.remove(at);
            self.keys.retain(|_, named| *named != id);
            forgotten.extend(self.jobs.remove(&id));
        }
        forgotten
    }
}

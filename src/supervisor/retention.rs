//! Which finished jobs are freed, and why. Pure: no clock, no handles.
//!
//! Every decision costs O(log n): sums and orders are kept as jobs end and go.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::freed::{Freed, Scope};
use crate::ids::JobId;

/// What may stay of finished jobs: of all together, and of each tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Of all tenants together.
    pub all: Bounds,
    /// Of each tenant.
    pub tenant: Bounds,
}

/// Bounds on finished jobs; `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// How many stay readable, those with survivors aside.
    pub finished: Option<usize>,
    /// For how long each of them does.
    pub age: Option<Duration>,
    /// What they may store.
    pub bytes: Option<u64>,
}

/// What retention knows of a finished job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) id: JobId,
    pub(super) tenant: String,
    pub(super) finished: Instant,
    /// What it stores.
    pub(super) bytes: u64,
    pub(super) rest: Rest,
}

/// Whether anything of a finished job still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing: it may be freed.
    Over,
    /// Survivors live or hold its output open. Who is freed can no longer be stopped, so it
    /// stays. What it stores counts; it itself does not, or those that end later would go at once.
    Alive,
}

/// All finished jobs, and what they add up to.
///
/// Invariant: `all` and `tenants` are the sums and orders of exactly the jobs in `jobs`;
/// `crowded` names every tenant that is over a bound and has a job that can be freed.
#[derive(Debug)]
pub(super) struct Ledger {
    limits: Retention,
    jobs: BTreeMap<JobId, Kept>,
    all: Shelf,
    tenants: HashMap<String, Shelf>,
    crowded: BTreeSet<String>,
    /// Bytes that shall be freed whatever the bounds say …
    wanted: u64,
    /// … and those of single tenants, who make that room themselves.
    wanted_of: BTreeMap<String, u64>,
}

impl Ledger {
    pub(super) const fn limits(&self) -> &Retention {
        &self.limits
    }

    pub(super) fn new(limits: Retention) -> Self {
        Self {
            limits,
            jobs: BTreeMap::new(),
            all: Shelf::default(),
            tenants: HashMap::new(),
            crowded: BTreeSet::new(),
            wanted: 0,
            wanted_of: BTreeMap::new(),
        }
    }

    /// How many finished jobs there are.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// What they store.
    pub(super) const fn bytes(&self) -> u64 {
        self.all.bytes
    }

    /// Whether anything that this tenant stores could be freed.
    pub(super) fn could_free(&self, tenant: &str) -> bool {
        self.tenants.get(tenant).is_some_and(|shelf| !shelf.with_bytes.is_empty())
    }

    /// Takes a finished job in, or what has changed of one.
    pub(super) fn put(&mut self, job: Kept) {
        self.remove(job.id);
        let shelf = self.tenants.entry(job.tenant.clone()).or_default();
        for shelf in [&mut self.all, shelf] {
            shelf.put(&job);
        }
        if shelf_excess(&self.tenants, &self.limits, &job.tenant).is_some() {
            self.crowded.insert(job.tenant.clone());
        }
        self.jobs.insert(job.id, job);
    }

    /// Takes a job out.
    pub(super) fn remove(&mut self, id: JobId) -> Option<Kept> {
        let job = self.jobs.remove(&id)?;
        self.all.remove(&job);
        if let Some(shelf) = self.tenants.get_mut(&job.tenant) {
            shelf.remove(&job);
            if shelf.count == 0 {
                self.tenants.remove(&job.tenant);
            }
        }
        Some(job)
    }

    /// From now on [`Ledger::free_next`] frees at least so many bytes, if there are as many: of
    /// this tenant, or of any.
    pub(super) fn want_room(&mut self, tenant: Option<&str>, bytes: u64) {
        match tenant {
            None => self.wanted = self.wanted.max(bytes),
            Some(tenant) => {
                let wanted = self.wanted_of.entry(tenant.to_owned()).or_default();
                *wanted = bytes.max(*wanted);
            }
        }
    }

    /// Takes out the next job that has to go, the oldest first for each reason.
    pub(super) fn free_next(&mut self, now: Instant) -> Option<(Kept, Freed)> {
        let (id, why) = self
            .too_old(now)
            .or_else(|| self.of_crowded_tenant())
            .or_else(|| self.all.excess(&self.limits.all, Scope::All))
            .or_else(|| self.for_room_of_a_tenant())
            .or_else(|| self.for_room())?;
        let job = self.remove(id)?;
        self.wanted = self.wanted.saturating_sub(job.bytes);
        if let Some(wanted) = self.wanted_of.get_mut(&job.tenant) {
            *wanted = wanted.saturating_sub(job.bytes);
        }
        Some((job, why))
    }

    /// When the next job gets too old.
    pub(super) fn due(&self) -> Option<Instant> {
        let (finished, _) = self.all.oldest.first()?;
        finished.checked_add(self.max_age()?.0)
    }

    fn too_old(&self, now: Instant) -> Option<(JobId, Freed)> {
        let (finished, id) = *self.all.oldest.first()?;
        let (limit, scope) = self.max_age()?;
        let is_old = now.saturating_duration_since(finished) >= limit;
        is_old.then_some((id, Freed::Age { limit, scope }))
    }

    /// Every tenant has the same bound, so the oldest of all is the first to pass either.
    fn max_age(&self) -> Option<(Duration, Scope)> {
        let all = self.limits.all.age.map(|age| (age, Scope::All));
        let tenant = self.limits.tenant.age.map(|age| (age, Scope::Tenant));
        all.into_iter().chain(tenant).min_by_key(|(age, _)| *age)
    }

    fn of_crowded_tenant(&mut self) -> Option<(JobId, Freed)> {
        while let Some(tenant) = self.crowded.first() {
            if let Some(found) = shelf_excess(&self.tenants, &self.limits, tenant) {
                return Some(found);
            }
            self.crowded.pop_first();
        }
        None
    }

    fn for_room_of_a_tenant(&mut self) -> Option<(JobId, Freed)> {
        while let Some(wish) = self.wanted_of.first_entry() {
            let shelf = self.tenants.get(wish.key()).filter(|_| *wish.get() > 0);
            if let Some((_, id)) = shelf.and_then(|shelf| shelf.with_bytes.first()) {
                return Some((*id, Freed::Room));
            }
            // Met, or there is no more to be had.
            wish.remove();
        }
        None
    }

    fn for_room(&mut self) -> Option<(JobId, Freed)> {
        if self.wanted == 0 {
            return None;
        }
        let Some((_, id)) = self.all.with_bytes.first() else {
            // There is no more to be had. Later jobs are not to pay for this wish.
            self.wanted = 0;
            return None;
        };
        Some((*id, Freed::Room))
    }
}

fn shelf_excess(
    tenants: &HashMap<String, Shelf>,
    limits: &Retention,
    tenant: &str,
) -> Option<(JobId, Freed)> {
    tenants.get(tenant)?.excess(&limits.tenant, Scope::Tenant)
}

/// Finished jobs of one tenant, or of all: their sums, and those that can be freed, the oldest
/// first.
#[derive(Debug, Default)]
struct Shelf {
    count: usize,
    bytes: u64,
    oldest: BTreeSet<(Instant, JobId)>,
    /// Those that store anything: freeing the others would give no byte back.
    with_bytes: BTreeSet<(Instant, JobId)>,
}

impl Shelf {
    fn put(&mut self, job: &Kept) {
        self.count += 1;
        self.bytes += job.bytes;
        match job.rest {
            Rest::Alive => {}
            Rest::Over => {
                self.oldest.insert((job.finished, job.id));
                if job.bytes > 0 {
                    self.with_bytes.insert((job.finished, job.id));
                }
            }
        }
    }

    fn remove(&mut self, job: &Kept) {
        self.count -= 1;
        self.bytes -= job.bytes;
        self.oldest.remove(&(job.finished, job.id));
        self.with_bytes.remove(&(job.finished, job.id));
    }

    /// Who has to go because there are too many, or too many bytes.
    fn excess(&self, bounds: &Bounds, scope: Scope) -> Option<(JobId, Freed)> {
        if let Some(limit) = bounds.finished.filter(|limit| self.oldest.len() > *limit) {
            let (_, id) = *self.oldest.first()?;
            return Some((id, Freed::Count { limit, scope }));
        }
        let limit = bounds.bytes.filter(|limit| self.bytes > *limit)?;
        // Somebody has just been told that the newest can be read: however large, it stays.
        let newest = self.oldest.last();
        let (_, id) = *self.with_bytes.first().filter(|job| Some(*job) != newest)?;
        Some((id, Freed::Bytes { limit, scope }))
    }
}

#[cfg(test)]
#[path = "retention_tests.rs"]
mod tests;

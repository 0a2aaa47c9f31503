//! Who is known, who is forgotten, and who was.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::{Instant, SystemTime};

use super::door::FindError;
use super::freed::{Freed, FreedJobs};
use super::retention::{Kept, Ledger, Rest, Retention};
use crate::ids::{JobId, JobNumber, Tenant};
use crate::job::JobHandle;

/// Every job that can be found.
///
/// Invariant: `ledger` speaks only of jobs in `jobs`, and `keys` names only those, each by the
/// key that is kept beside it.
#[derive(Debug)]
pub(super) struct Registry {
    jobs: BTreeMap<JobId, Known>,
    keys: HashMap<(Tenant, String), JobId>,
    ledger: Ledger,
    freed: FreedJobs,
}

#[derive(Debug)]
struct Known {
    job: JobHandle,
    key: Option<String>,
}

/// A job that nobody can find any more. Dropping it may close files.
#[derive(Debug)]
pub(super) struct Forgotten {
    pub(super) job: JobHandle,
    /// What it stored.
    pub(super) bytes: u64,
    pub(super) why: Freed,
}

impl Registry {
    pub(super) fn new(retention: Retention) -> Self {
        Self {
            jobs: BTreeMap::new(),
            keys: HashMap::new(),
            ledger: Ledger::new(retention),
            freed: FreedJobs::default(),
        }
    }

    /// Everything that is known, for whoever comes after. Who has ended is to be told anew.
    pub(super) fn hand_on(&mut self) -> Self {
        let mut heir = Self::new(*self.ledger.limits());
        heir.freed = std::mem::take(&mut self.freed);
        for Known { job, key } in std::mem::take(&mut self.jobs).into_values() {
            heir.insert(job, key);
        }
        heir
    }

    pub(super) fn insert(&mut self, job: JobHandle, key: Option<String>) {
        if let Some(key) = key.clone() {
            self.keys.insert((job.id().tenant(), key), job.id());
        }
        self.jobs.insert(job.id(), Known { job, key });
    }

    pub(super) fn find(&self, id: JobId) -> Result<&JobHandle, FindError> {
        if let Some(known) = self.jobs.get(&id) {
            return Ok(&known.job);
        }
        Err(match self.freed.get(id) {
            Some((at, why)) => {
                FindError::Freed { id, at, ago: at.elapsed().unwrap_or_default(), why }
            }
            None => FindError::Unknown { id },
        })
    }

    pub(super) fn find_key(&self, tenant: Tenant, key: &str) -> Option<&JobHandle> {
        self.find(*self.keys.get(&(tenant, key.to_owned()))?).ok()
    }

    /// Those of a tenant, newest first.
    pub(super) fn of(&self, tenant: Tenant) -> Vec<JobHandle> {
        let [first, last] = [0, u64::MAX].map(|number| JobNumber::new(number).of(tenant));
        self.jobs.range(first..=last).rev().map(|(_, known)| known.job.clone()).collect()
    }

    /// Those of all tenants, newest first.
    pub(super) fn all(&self) -> Vec<JobHandle> {
        let mut jobs: Vec<_> = self.jobs.values().map(|known| known.job.clone()).collect();
        jobs.sort_by_key(|job| Reverse(job.status().submitted));
        jobs
    }

    /// What may stay of finished jobs.
    pub(super) const fn limits(&self) -> &Retention {
        self.ledger.limits()
    }

    pub(super) fn finished(&self) -> usize {
        self.ledger.len()
    }

    /// What finished jobs store.
    pub(super) const fn finished_bytes(&self) -> u64 {
        self.ledger.bytes()
    }

    /// The job has ended, or what is left of it has changed since.
    pub(super) fn ended(&mut self, id: JobId) {
        let Some(Known { job, .. }) = self.jobs.get(&id) else { return };
        let Some(finished) = job.status().ending().map(|ending| ending.at) else { return };
        self.ledger.put(Kept {
            id,
            tenant: id.tenant().name().to_owned(),
            finished,
            bytes: job.output().stored_bytes(),
            rest: if job.is_settled() { Rest::Over } else { Rest::Alive },
        });
    }

    /// Whether anything that this tenant's finished jobs store could be freed.
    pub(super) fn could_free(&self, tenant: &str) -> bool {
        self.ledger.could_free(tenant)
    }

    /// At least so many bytes of finished jobs have to go, if there are as many: of this tenant,
    /// or of any.
    pub(super) fn want_room(&mut self, tenant: Option<&str>, bytes: u64) {
        self.ledger.want_room(tenant, bytes);
    }

    /// Frees those who have to go, `most` at the most.
    pub(super) fn sweep(&mut self, most: usize) -> Vec<Forgotten> {
        let (now, clock) = (Instant::now(), SystemTime::now());
        let mut forgotten = Vec::new();
        while forgotten.len() < most
            && let Some((kept, why)) = self.ledger.free_next(now)
        {
            self.freed.note(kept.id, clock, why);
            let Some(Known { job, key }) = self.jobs.remove(&kept.id) else { continue };
            // The key named that run, which can no longer be had: used again, it runs anew.
            if let Some(key) = key {
                self.keys.remove(&(kept.id.tenant(), key));
            }
            forgotten.push(Forgotten { job, bytes: kept.bytes, why });
        }
        forgotten
    }

    /// When somebody gets too old.
    pub(super) fn due(&self) -> Option<Instant> {
        self.ledger.due()
    }
}

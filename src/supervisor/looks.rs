//! The time between two looks at what tenants have spent, and what follows from an end.

use std::time::{Duration, Instant};

use super::actor::{Supervision, SupervisorMsg};
use super::address::Address;
use crate::ids::{JobId, Tenant};
use crate::job::{JobHandle, Status};

/// The time between two looks while a tenant with a bound on CPU time runs something, or has used
/// it up.
const CLOSE: Duration = Duration::from_secs(2);

/// The time between two looks at what can be forgotten.
const SPARSE: Duration = Duration::from_secs(60);

/// Jobs that are looked at in one go: each look reads what the system says of every process.
const JOBS_PER_LOOK: usize = 16;

/// When there will be a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looks {
    /// Nobody has spent anything.
    Off,
    /// At this time.
    At(Instant),
    /// One is under way.
    Now,
}

impl Supervision {
    /// Has the next look come in time, if there is anything to be seen.
    pub(super) fn begin_looks(&mut self, myself: &Address) {
        let pause = if self.has_to_watch() {
            CLOSE
        } else if self.spending.is_empty() {
            return;
        } else {
            SPARSE
        };
        let due = Instant::now() + pause;
        let is_in_time = match self.looks {
            Looks::Off => false,
            Looks::At(next) => next <= due,
            Looks::Now => true,
        };
        if !is_in_time {
            self.looks = Looks::At(due);
            myself.tell_after(pause, || SupervisorMsg::Look);
        }
    }

    /// Looks at jobs of tenants that have a bound on CPU time, away from the actor.
    pub(super) fn look(&mut self, myself: &Address) {
        match self.looks {
            Looks::At(due) if due <= Instant::now() => self.looks = Looks::Now,
            // An earlier one took its place.
            Looks::At(_) | Looks::Off | Looks::Now => return,
        }
        self.spending.forget();
        let bounded = self.spending.least_seen().filter(|(_, tenant)| self.bounds_cpu(*tenant));
        let jobs = bounded.filter_map(|(id, _)| self.registry.find(id).ok().cloned());
        let jobs: Vec<JobHandle> = jobs.take(JOBS_PER_LOOK).collect();
        let supervisor = myself.clone();
        tokio::spawn(async move {
            let look = move || jobs.iter().map(used).collect();
            let used = tokio::task::spawn_blocking(look).await.unwrap_or_default();
            // A supervisor that is gone needs no figures.
            supervisor.tell(SupervisorMsg::Seen(used)).ok();
        });
    }

    /// What a look has found.
    pub(super) fn seen(&mut self, used: &[(JobId, Duration)], myself: &Address) {
        for (id, cpu) in used {
            self.spending.seen(*id, *cpu);
        }
        self.see_who_is_spent();
        self.looks = Looks::Off;
        self.begin_looks(myself);
    }

    /// A job has ended: its slot is free, and the rest of its CPU time is charged.
    pub(super) fn free_slot(&mut self, id: JobId, status: Option<&Status>) {
        let ran_for = status.map(Status::elapsed).unwrap_or_default();
        if self.queue.release(id, ran_for).is_none() {
            return;
        }
        let ending = status.and_then(Status::ending);
        self.spending.ended(id, ending.map(|ending| ending.usage.cpu).unwrap_or_default());
        self.see_who_is_spent();
    }

    /// Holds back whoever has used up its CPU time, and nobody else.
    pub(super) fn see_who_is_spent(&mut self) {
        let limits = self.queue.limits();
        let is_spent = |tenant: &Tenant| {
            let limit = limits.of(*tenant).cpu_per_hour;
            limit.is_some_and(|limit| self.spending.cpu_used(*tenant) >= limit)
        };
        let spent = self.spending.tenants().filter(is_spent).collect();
        self.queue.set_spent(spent);
    }

    fn has_to_watch(&self) -> bool {
        let limits = self.queue.limits();
        let mut all = limits.tenants.values().chain([&limits.quota]);
        all.any(|of| of.cpu_per_hour.is_some())
            && (self.queue.is_any_spent()
                || self.spending.running().any(|tenant| self.bounds_cpu(tenant)))
    }

    fn bounds_cpu(&self, tenant: Tenant) -> bool {
        self.queue.limits().of(tenant).cpu_per_hour.is_some()
    }
}

fn used(job: &JobHandle) -> (JobId, Duration) {
    (job.id(), job.liveness().map(|liveness| liveness.cpu).unwrap_or_default())
}

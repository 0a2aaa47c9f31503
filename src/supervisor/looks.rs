//! The time between two looks at what tenants have spent, and what follows from an end.

use std::time::Duration;

use ractor::ActorRef;

use super::actor::{Supervision, SupervisorMsg};
use super::queue::TenantLimits;
use crate::ids::{JobId, Tenant};
use crate::job::{JobHandle, Status};

/// The time between two looks.
const PAUSE: Duration = Duration::from_secs(10);

/// Jobs that are looked at in one go: each look reads what the system says of every process.
const JOBS_PER_LOOK: usize = 16;

/// Whether there will be a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looks {
    /// Nobody has a bound that needs any.
    Off,
    /// One will come, or is under way.
    On,
}

impl Supervision {
    /// Has the next look come, if there is none on its way and some tenant has a bound on what
    /// it spends.
    pub(super) fn begin_looks(&mut self, myself: &ActorRef<SupervisorMsg>) {
        let limits = self.queue.limits();
        let needs_looks =
            |of: &TenantLimits| of.cpu_per_hour.is_some() || of.starts_per_minute.is_some();
        let is_needed = limits.tenants.values().chain([&limits.quota]).any(needs_looks);
        if is_needed && self.looks == Looks::Off {
            self.looks = Looks::On;
            myself.send_after(PAUSE, || SupervisorMsg::Look);
        }
    }

    /// Looks at jobs of tenants that have a bound on CPU time, away from the actor.
    pub(super) fn look(&mut self, myself: &ActorRef<SupervisorMsg>) {
        self.spending.forget();
        let bounded = self.spending.least_seen().filter(|(_, tenant)| self.bounds_cpu(*tenant));
        let jobs = bounded.filter_map(|(id, _)| self.registry.find(id).ok().cloned());
        let jobs: Vec<JobHandle> = jobs.take(JOBS_PER_LOOK).collect();
        let supervisor = myself.clone();
        tokio::spawn(async move {
            let look = move || jobs.iter().map(used).collect();
            let used = tokio::task::spawn_blocking(look).await.unwrap_or_default();
            // A supervisor that is gone needs no figures.
            supervisor.cast(SupervisorMsg::Seen(used)).ok();
        });
    }

    /// What a look has found.
    pub(super) fn seen(&mut self, used: &[(JobId, Duration)], myself: &ActorRef<SupervisorMsg>) {
        for (id, cpu) in used {
            self.spending.seen(*id, *cpu);
        }
        self.looks = Looks::Off;
        self.begin_looks(myself);
    }

    /// A job has ended: its slot is free, and the rest of its CPU time is charged.
    pub(super) fn free_slot(&mut self, id: JobId, status: Option<&Status>) {
        let ran_for = status.map(Status::elapsed).unwrap_or_default();
        let Some(tenant) = self.queue.release(id, ran_for) else { return };
        let ending = status.and_then(Status::ending);
        let cpu = ending.map(|ending| ending.usage.cpu).filter(|_| self.bounds_cpu(tenant));
        self.spending.ended(id, cpu);
    }

    fn bounds_cpu(&self, tenant: Tenant) -> bool {
        self.queue.limits().of(tenant).cpu_per_hour.is_some()
    }
}

fn used(job: &JobHandle) -> (JobId, Duration) {
    (job.id(), job.liveness().map(|liveness| liveness.cpu).unwrap_or_default())
}

//! CPU time by tenant: charged while jobs run and when they end, and never twice.

use std::collections::HashMap;
use std::time::Duration;

use super::window::Window;
use crate::ids::{JobId, Tenant};

/// CPU time that jobs used, by tenant.
#[derive(Debug, Default)]
pub(super) struct CpuBook {
    windows: HashMap<Tenant, Window>,
    /// Jobs that run, and what was charged for each.
    running: HashMap<JobId, Charged>,
}

#[derive(Debug)]
struct Charged {
    tenant: Tenant,
    cpu: Duration,
    /// When it was last seen.
    at: Duration,
}

impl CpuBook {
    pub(super) fn started(&mut self, id: JobId, tenant: Tenant, now: Duration) {
        self.running.insert(id, Charged { tenant, cpu: Duration::ZERO, at: now });
    }

    /// Jobs that run, and whose they are; first those that were not seen for longest.
    pub(super) fn least_seen(&self) -> impl Iterator<Item = (JobId, Tenant)> {
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_unstable_by_key(|(_, charged)| charged.at);
        running.into_iter().map(|(id, charged)| (*id, charged.tenant))
    }

    /// A running job has used so much since it started. One that ended meanwhile was charged.
    pub(super) fn seen(&mut self, id: JobId, cpu: Duration, now: Duration) {
        let Some(charged) = self.running.get_mut(&id) else { return };
        // A child that ended takes its time out of what can be seen, until its parent ends.
        let more = cpu.saturating_sub(charged.cpu);
        charged.at = now;
        if !more.is_zero() {
            charged.cpu = cpu;
            self.windows.entry(charged.tenant).or_insert_with(Window::new).add(now, more);
        }
    }

    /// Whose jobs run: each tenant once for each of its jobs.
    pub(super) fn running(&self) -> impl Iterator<Item = Tenant> {
        self.running.values().map(|charged| charged.tenant)
    }

    /// Who has used anything and is not [forgotten](Self::forget).
    pub(super) fn tenants(&self) -> impl Iterator<Item = Tenant> {
        self.windows.keys().copied()
    }

    /// A job has ended and used so much in all.
    pub(super) fn ended(&mut self, id: JobId, cpu: Duration, now: Duration) {
        self.seen(id, cpu, now);
        self.running.remove(&id);
    }

    /// What this tenant used within the last hour.
    pub(super) fn used(&self, tenant: Tenant, now: Duration) -> Duration {
        self.windows.get(&tenant).map_or(Duration::ZERO, |window| window.used(now))
    }

    /// How long it takes until this tenant is below its bound.
    pub(super) fn free_in(&self, tenant: Tenant, limit: Duration, now: Duration) -> Duration {
        self.windows.get(&tenant).map_or(Duration::ZERO, |window| window.free_in(now, limit))
    }

    /// Forgets whoever used nothing within the last hour.
    pub(super) fn forget(&mut self, now: Duration) {
        self.windows.retain(|_, window| !window.used(now).is_zero());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_seen_of_a_job_is_not_charged_again_at_its_end() {
        let (id, tenant) = (JobId::local(1), Tenant::LOCAL);
        let mut book = CpuBook::default();
        book.started(id, tenant, seconds(0));
        for (cpu, used) in [(4, 4), (7, 7), (6, 7)] {
            book.seen(id, seconds(cpu), seconds(10));
            assert_eq!(book.used(tenant, seconds(10)), seconds(used), "after {cpu}");
        }
        assert_eq!(book.running().collect::<Vec<_>>(), [tenant]);
        book.ended(id, seconds(9), seconds(20));
        book.seen(id, seconds(20), seconds(30));
        assert_eq!(book.used(tenant, seconds(30)), seconds(9));
        assert_eq!(book.free_in(tenant, seconds(9), seconds(30)), seconds(3570));
        assert_eq!((book.least_seen().count(), book.tenants().count()), (0, 1));
        book.forget(seconds(3599));
        assert_eq!(book.windows.len(), 1);
        book.forget(seconds(3600));
        assert_eq!(book.windows.len(), 0);
    }
}

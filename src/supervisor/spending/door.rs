//! The door of this corner: it knows what time it is.

use std::time::{Duration, Instant};

use super::book::CpuBook;
use super::starts::Starts;
use crate::ids::{JobId, Tenant};
use crate::supervisor::queue::TenantLimits;
use crate::supervisor::refusal::{Refusal, Retry, TenantBound};

/// What tenants have spent.
#[derive(Debug)]
pub(in crate::supervisor) struct Spending {
    opened: Instant,
    cpu: CpuBook,
    starts: Starts,
}

impl Spending {
    pub(in crate::supervisor) fn new() -> Self {
        Self { opened: Instant::now(), cpu: CpuBook::default(), starts: Starts::new() }
    }

    /// Takes one start, unless the tenant has used up its CPU time or its starts. To be asked
    /// last: whoever is refused for another reason keeps its start.
    pub(in crate::supervisor) fn take_start(
        &mut self,
        tenant: Tenant,
        limits: &TenantLimits,
    ) -> Result<(), Refusal> {
        let now = self.opened.elapsed();
        let used = self.cpu.used(tenant, now);
        if let Some(limit) = limits.cpu_per_hour.filter(|limit| used >= *limit) {
            let bound = TenantBound::Cpu { used, limit };
            let retry = Retry::In(self.cpu.free_in(tenant, limit, now));
            return Err(Refusal::TenantLimit { bound, retry });
        }
        let Some(per_minute) = limits.starts_per_minute else { return Ok(()) };
        let taken = self.starts.take(tenant, per_minute);
        taken.map_err(|retry_after| Refusal::RateLimited { per_minute, retry_after })
    }

    pub(in crate::supervisor) fn started(&mut self, id: JobId, tenant: Tenant) {
        self.cpu.started(id, tenant, self.opened.elapsed());
    }

    /// Jobs that run, and whose they are; first those that were not seen for longest.
    pub(in crate::supervisor) fn least_seen(&self) -> impl Iterator<Item = (JobId, Tenant)> {
        self.cpu.least_seen()
    }

    /// A running job has used so much CPU time so far.
    pub(in crate::supervisor) fn seen(&mut self, id: JobId, cpu: Duration) {
        self.cpu.seen(id, cpu, self.opened.elapsed());
    }

    /// A job has ended and used so much CPU time in all.
    pub(in crate::supervisor) fn ended(&mut self, id: JobId, cpu: Duration) {
        self.cpu.ended(id, cpu, self.opened.elapsed());
    }

    /// Whose jobs run: each tenant once for each of its jobs.
    pub(in crate::supervisor) fn running(&self) -> impl Iterator<Item = Tenant> {
        self.cpu.running()
    }

    /// Who used CPU time within the last hour, or a little longer ago.
    pub(in crate::supervisor) fn tenants(&self) -> impl Iterator<Item = Tenant> {
        self.cpu.tenants()
    }

    /// Whether nobody has spent anything that would have to be forgotten.
    pub(in crate::supervisor) fn is_empty(&self) -> bool {
        self.cpu.tenants().next().is_none() && self.starts.is_empty()
    }

    /// CPU time that this tenant's jobs used within the last hour.
    pub(in crate::supervisor) fn cpu_used(&self, tenant: Tenant) -> Duration {
        self.cpu.used(tenant, self.opened.elapsed())
    }

    /// Forgets tenants that have everything again.
    pub(in crate::supervisor) fn forget(&mut self) {
        self.cpu.forget(self.opened.elapsed());
        self.starts.forget();
    }
}

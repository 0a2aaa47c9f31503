//! Whether there is room for what a new job will write.

use super::actor::Supervision;
use super::refusal::{Refusal, Retry, TenantBound};
use crate::ids::{JobId, Tenant};
use crate::output::{Cap, Stored};

impl Supervision {
    /// A job whose output could not be kept is not begun, unless finished ones can make room.
    pub(super) fn check_room(&mut self, tenant: Tenant) -> Result<(), Refusal> {
        let stored = self.job.quota.stored_by(tenant.name());
        if !stored.is_full() || self.registry.could_free(tenant.name()) {
            return Ok(());
        }
        // The end of a job may be known to its caller before it is told here.
        self.note_ends(tenant);
        // What is still counted and no longer known is being given back.
        let known = self.registry.of(tenant);
        let held = known.iter().map(|job| job.output().stored_bytes()).sum();
        if self.registry.could_free(tenant.name()) || !(Stored { used: held, ..stored }).is_full() {
            return Ok(());
        }
        let setting = match stored.cap {
            Cap::Own => format!("tenants.{}.max_stored", tenant.name()),
            Cap::Shared => "output.max_tenant".to_owned(),
        };
        let bound = TenantBound::Stored { limit: stored.limit, setting };
        Err(Refusal::TenantLimit { bound, retry: Retry::JobEnded })
    }

    fn note_ends(&mut self, tenant: Tenant) {
        for job in self.registry.of(tenant) {
            if job.is_settled() {
                self.note_end(job.id());
            }
        }
    }

    /// What this job stores can be freed from now on, if it is over.
    pub(super) fn note_end(&mut self, id: JobId) {
        self.registry.ended(id);
        self.job.quota.can_free(id.tenant().name());
    }
}

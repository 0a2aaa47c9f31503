//! Accepts jobs: the checks before a job is known, its place in the queue, and its records.

use super::actor::{AcceptedJob, Supervision};
use super::address::{Address, watch_for_end};
use super::handle::SubmitRequest;
use super::on_job_end::OnJobEnd;
use super::queue::EnqueueRequest;
use super::refusal::{Retry, SubmitRefusal, TenantBound};
use crate::ids::{JobId, TenantId};
use crate::job::{self, JobHandle};
use crate::output::{CapSource, TenantUsage};
use crate::spec::JobSpec;
use crate::telemetry::events;

impl Supervision {
    /// Accepts a job, and starts it if it is its turn.
    pub(super) async fn accept(
        &mut self,
        admission: Box<SubmitRequest>,
        myself: &Address,
    ) -> Result<AcceptedJob, SubmitRefusal> {
        let accepted = self.submit(admission);
        let new = accepted.as_ref().ok().map(|accepted| accepted.job.id());
        self.dispatch_with(new, myself).await;
        accepted.map(|job| self.record_waiting(job))
    }

    fn submit(&mut self, admission: Box<SubmitRequest>) -> Result<AcceptedJob, SubmitRefusal> {
        let SubmitRequest { id, spec, cwd, variables, key, logged, on_end } = *admission;
        if let Some(key) = &key
            && let Some(job) = self.registry.find_key(id.tenant(), key)?
        {
            return Ok(AcceptedJob { job, record: None });
        }
        self.acceptance.check()?;
        let tenant = id.tenant();
        self.queue.check(tenant, &spec.lane, &|id| self.age(id))?;
        self.check_room(tenant)?;
        self.spending.take_start(tenant, self.queue.limits().tenant_limits(tenant))?;
        self.enqueue(id, &spec);
        let record = self.job.journal.as_ref().and_then(|journal| {
            job::accepted_record(id, &spec, key.as_ref(), &logged)
                .map(|record| journal.append(&record))
        });
        let (guard, job) = job::create_job(id, spec, cwd, variables, &self.job);
        guard.log_span().in_scope(|| events::job_submitted(id, &logged));
        self.guards.insert(id, guard);
        self.registry.insert(job.clone(), key);
        self.watch(job.clone(), on_end);
        Ok(AcceptedJob { job, record })
    }

    /// Records what a job that waits needs for its start, so that a later server can start it.
    fn record_waiting(&self, accepted: AcceptedJob) -> AcceptedJob {
        let AcceptedJob { job, record } = accepted;
        let guard = self.guards.get(&job.id()).filter(|_| record.is_some());
        let waiting = self.job.journal.as_ref().zip(guard);
        let queued = waiting.map(|(journal, guard)| journal.append(&guard.queued_record()));
        AcceptedJob { job, record: queued.or(record) }
    }

    /// Records the log of a job that is closed, or stored in another way than before.
    pub(super) fn record_log(&self, id: JobId) {
        let (Some(journal), Ok(job)) = (&self.job.journal, self.registry.find(id)) else { return };
        let status = job.status();
        if let (Some(ending), Some(log)) = (status.ending(), job.output().closed_state()) {
            drop(journal.append(&job::ended_record(id, status.started, ending, Some(&log))));
        }
    }

    /// Adds a job to the queue.
    pub(super) fn enqueue(&mut self, id: JobId, spec: &JobSpec) {
        let JobSpec { lane, priority, call_mode, .. } = spec;
        let tenant = id.tenant();
        let request = EnqueueRequest { tenant, lane, priority: *priority, call_mode: *call_mode };
        self.queue.push(id, request);
    }

    /// Watches a job until no process of it is left.
    pub(super) fn watch(&self, job: JobHandle, on_end: Option<OnJobEnd>) {
        let packer = self.packer.clone();
        let supervisor = self.supervisor_address.clone();
        tokio::spawn(watch_for_end(job, on_end, packer, supervisor));
    }
}

// Room for what a new job will write.

impl Supervision {
    /// Refuses a job whose output could not be kept, unless finished jobs can make room.
    pub(super) fn check_room(&mut self, tenant: TenantId) -> Result<(), SubmitRefusal> {
        let stored = self.job.quota.tenant_usage(tenant.name());
        if !stored.is_full() || self.registry.can_free(tenant.name()) {
            return Ok(());
        }
        // The end of a job may be known to its caller before it is reported here.
        self.note_ends(tenant);
        // Bytes that are counted for no known job are being given back.
        let known = self.registry.list_jobs_of_tenant(tenant);
        let held = known.iter().map(|job| job.output().stored_bytes()).sum();
        if self.registry.can_free(tenant.name())
            || !(TenantUsage { used: held, ..stored }).is_full()
        {
            return Ok(());
        }
        let setting = match stored.cap {
            CapSource::Own => format!("tenants.{}.max_stored", tenant.name()),
            CapSource::Shared => "output.max_tenant".to_owned(),
        };
        let bound = TenantBound::Stored { limit: stored.limit, setting };
        Err(SubmitRefusal::TenantLimit { bound, retry: Retry::JobEnded })
    }

    fn note_ends(&mut self, tenant: TenantId) {
        for job in self.registry.list_jobs_of_tenant(tenant) {
            if job.is_complete() {
                self.record_end(job.id());
            }
        }
    }

    /// Tells retention about this job, if it has ended, and lets jobs wait for room again.
    pub(super) fn record_end(&mut self, id: JobId) {
        self.registry.record_end(id);
        self.job.quota.note_reclaimable(id.tenant().name());
    }
}

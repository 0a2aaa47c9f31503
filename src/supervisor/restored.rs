//! Jobs of a previous server that a new supervisor takes over.

use std::time::{Instant, SystemTime};

use super::actor::Supervision;
use super::address::{Address, watch_for_end};
use super::handle::OnJobEnd;
use super::queue::EnqueueRequest;
use super::registry::FreedCause;
use crate::ids::JobId;
use crate::job::{JobGuard, JobHandle};
use crate::job_key::JobKey;
use crate::process::Process;
use crate::spec::JobSpec;
use crate::telemetry::{ActorKind, events};

/// The jobs of a previous server, as its journal and the keeper describe them.
#[derive(Debug, Default)]
pub struct RestoredJobs {
    /// Every job that can be found, in the order of its acceptance.
    pub jobs: Vec<RestoredJob>,
    /// Jobs that were freed, the latest last.
    pub freed: Vec<(JobId, SystemTime, FreedCause)>,
}

/// A job of a previous server.
#[derive(Debug)]
pub struct RestoredJob {
    pub handle: JobHandle,
    pub key: Option<JobKey>,
    /// The action when the job has ended; `None` if it was carried out.
    pub on_end: Option<OnJobEnd>,
    pub stage: RestoredStage,
}

/// The stage of a job of a previous server.
#[derive(Debug)]
pub enum RestoredStage {
    /// The job waits for its turn.
    Queued(JobGuard),
    /// The job runs, or it has ended and processes of it still run.
    Running(JobGuard, Box<Process>),
    Finished,
}

impl Supervision {
    /// Takes over the jobs of a previous server: finished jobs can be read, running jobs are
    /// followed and hold slots, queued jobs keep their order.
    pub(super) async fn restore(&mut self, restored: RestoredJobs, myself: &Address) {
        for (id, at, why) in restored.freed {
            self.registry.restore_freed(id, at, why);
        }
        for RestoredJob { handle, key, on_end, stage } in restored.jobs {
            self.registry.insert(handle.clone(), key);
            match stage {
                RestoredStage::Finished if on_end.is_none() => self.record_end(handle.id()),
                RestoredStage::Finished => {
                    self.record_end(handle.id());
                    self.watch(handle, on_end);
                }
                RestoredStage::Queued(guard) => {
                    self.enqueue(handle.id(), handle.spec());
                    self.guards.insert(handle.id(), guard);
                    self.watch(handle, on_end);
                }
                RestoredStage::Running(guard, process) => {
                    self.resume(&handle, guard, *process, myself).await;
                    self.watch(handle, on_end);
                }
            }
        }
        // Their age counts from their end, whichever server saw it.
        self.sweep(myself);
        self.dispatch(myself).await;
    }

    async fn resume(
        &mut self,
        job: &JobHandle,
        guard: JobGuard,
        process: Process,
        myself: &Address,
    ) {
        let id = job.id();
        if job.status().ending().is_none() {
            self.queue.adopt_running(id, id.tenant(), &job.spec().lane);
            self.activity.add_job(id, Instant::now());
            self.spending.record_start(id, id.tenant());
        }
        if let Err(error) = Box::pin(guard.resume(process, myself.cell())).await {
            events::actor_failed(ActorKind::Job, &error);
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

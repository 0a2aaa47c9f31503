//! Takes over the jobs of a previous server.

use std::time::Instant;

use super::actor::Supervision;
use super::address::Address;
use super::restored_jobs::{RestoredJob, RestoredJobs, RestoredStage};
use crate::job::{JobGuard, JobHandle, StopRequest};
use crate::process::Process;
use crate::telemetry::{ActorKind, events};

impl Supervision {
    /// Takes over the jobs of a previous server: finished jobs can be read, running jobs are
    /// followed and hold slots, queued jobs keep their order.
    pub(super) async fn restore(&mut self, restored: RestoredJobs, myself: &Address) {
        for (id, at, why) in restored.freed {
            self.registry.restore_freed(id, at, why);
        }
        for RestoredJob { handle, key, on_end, stopped_by, stage } in restored.jobs {
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
                    if let Some(by) = stopped_by {
                        handle.stop(StopRequest { by, signal: None, grace: None });
                    }
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
}

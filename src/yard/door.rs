//! The yard itself.

use std::sync::Arc;
use std::time::Duration;

use ractor::SpawnErr;
use thiserror::Error;

use super::submission::{Defaults, Submission, SubmitError};
use crate::ids::JobId;
use crate::job::{JobHandle, JobSettings, StopWish};
use crate::outcome::StopBy;
use crate::supervisor::{Admission, QueueLimits, QueuePlace, Supervisor, SupervisorSettings};
use crate::telemetry::events;

/// The service's one door. A cheap clone.
#[derive(Debug, Clone)]
pub struct Yard {
    supervisor: Supervisor,
    defaults: Arc<Defaults>,
}

/// Everything that a yard needs to know.
#[derive(Debug, Clone)]
pub struct YardSettings {
    /// Defaults and bounds of submissions.
    pub defaults: Defaults,
    /// Bounds of the queue.
    pub queue: QueueLimits,
    /// Finished jobs that stay readable.
    pub max_finished: usize,
    /// What all jobs have in common.
    pub job: JobSettings,
}

/// There is no such job, or no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there is no job {id}; list_jobs shows the jobs there are")]
pub struct UnknownJob {
    /// What was asked for.
    pub id: JobId,
}

impl UnknownJob {
    /// The stable word that clients may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "unknown_job"
    }
}

impl Yard {
    /// Opens a yard in this process.
    ///
    /// # Errors
    /// When its supervisor could not be started.
    pub async fn open(settings: YardSettings) -> Result<Self, SpawnErr> {
        let YardSettings { defaults, queue, max_finished, job } = settings;
        let supervisor = Supervisor::start(SupervisorSettings { queue, max_finished, job }).await?;
        Ok(Self { supervisor, defaults: Arc::new(defaults) })
    }

    /// Accepts a job, or says why not. A key that is known gives back the job that it named
    /// before, and runs nothing.
    ///
    /// # Errors
    /// When the submission cannot be run as asked, or the queue is full.
    pub async fn submit(&self, submission: Submission) -> Result<JobHandle, SubmitError> {
        let accepted = self.admit(submission).await;
        if let Err(error) = &accepted {
            events::job_rejected(error.rejection());
        }
        accepted
    }

    async fn admit(&self, submission: Submission) -> Result<JobHandle, SubmitError> {
        let key = submission.key.clone();
        let spec = submission.complete(&self.defaults)?;
        Ok(self.supervisor.submit(Admission { spec, key }).await?)
    }

    /// The job with this number.
    ///
    /// # Errors
    /// When there is none.
    pub async fn find(&self, id: JobId) -> Result<JobHandle, UnknownJob> {
        self.supervisor.find(id).await.ok_or(UnknownJob { id })
    }

    /// All jobs that are known, newest first.
    pub async fn list(&self) -> Vec<JobHandle> {
        self.supervisor.list().await
    }

    /// Begins the end of a job; does not wait for it. Of a job that has finished, what survived
    /// is ended.
    ///
    /// # Errors
    /// When there is no such job.
    pub async fn stop(&self, id: JobId, wish: StopWish) -> Result<JobHandle, UnknownJob> {
        self.supervisor.stop(id, wish).await.ok_or(UnknownJob { id })
    }

    /// Where a waiting job stands; nothing once it has started.
    pub async fn queue_place(&self, id: JobId) -> Option<QueuePlace> {
        self.supervisor.place(id).await
    }

    /// The largest timeout that can be asked for.
    #[must_use]
    pub fn max_timeout(&self) -> Duration {
        self.defaults.max_timeout
    }

    /// Takes no more work, lets running jobs go on for `patience`, then ends what is left,
    /// survivors included. Returns once nothing runs, or the last bound has passed.
    pub async fn drain(&self, patience: Duration, grace: Duration) {
        let jobs = self.supervisor.close().await;
        // Whoever is not done by then is told to end.
        drop(tokio::time::timeout(patience, all_finished(&jobs)).await);
        let wish = StopWish { by: StopBy::Shutdown, signal: None, grace: Some(grace) };
        for job in &jobs {
            job.stop(wish);
        }
        // SIGKILL follows the grace period; verifying it takes a moment more.
        let last = grace + Duration::from_secs(3);
        drop(tokio::time::timeout(last, all_gone(&jobs)).await);
    }
}

async fn all_finished(jobs: &[JobHandle]) {
    for job in jobs {
        job.finished().await;
    }
}

/// Finished, and nothing of their trees is left.
async fn all_gone(jobs: &[JobHandle]) {
    all_finished(jobs).await;
    for job in jobs {
        while !job.survivors().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

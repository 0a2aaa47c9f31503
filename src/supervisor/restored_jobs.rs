//! Jobs of a previous server that a new supervisor takes over.

use std::time::SystemTime;

use super::on_job_end::OnJobEnd;
use super::registry::FreedCause;
use crate::ids::JobId;
use crate::job::{JobGuard, JobHandle};
use crate::outcome::StopBy;
use crate::process::Process;
use crate::spec::JobKey;

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
    /// The origin of a stop that the previous server had begun.
    pub stopped_by: Option<StopBy>,
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

//! Restores the jobs of a previous server from its journal and from the processes that the keeper
//! held meanwhile.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::admission::{AdmissionControl, open_allowed_dir};
use crate::ids::JobId;
use crate::job::{
    self, JobGuard, JobHandle, JobPhase, JobStatus, JobTimes, PreviousEnd, SharedJobSettings,
};
use crate::journal::{
    EndedRecords, FreedNote, JobInputs, JournalState, QueuedJob, StoredJson, UnfinishedJob,
    restore_instant,
};
use crate::output::LogName;
use crate::process::{KeptProcess, Process};
use crate::spec::JobSpec;
use crate::supervisor::{FreedCause, OnJobEnd, RestoredJob, RestoredJobs, RestoredStage};
use crate::telemetry::audit::AuditedJob;
use crate::telemetry::events;

/// The state that a previous server has left.
#[derive(Debug, Default)]
pub struct PreviousServer {
    /// The jobs by the journal.
    pub jobs: JournalState,
    /// The processes that the keeper holds.
    pub processes: Vec<KeptProcess>,
    /// The jobs whose endings are missing in the audit log.
    pub without_ending: HashSet<AuditedJob>,
    pub end: PreviousEnd,
    /// `true` if the journal was there and whole: output of other jobs can be removed.
    pub knows_all_jobs: bool,
}

impl PreviousServer {
    /// Returns the names of the logs of all known jobs.
    #[must_use]
    pub fn list_log_names(&self) -> HashSet<LogName> {
        let unfinished = self.jobs.unfinished.iter().map(|job| job.accepted.job);
        let finished = self.jobs.finished.iter().map(|job| job.accepted.job);
        unfinished.chain(finished).map(job::log_name).collect()
    }
}

/// Restores all jobs. Reads the disk only for jobs that had not ended.
pub(super) fn restore_jobs(
    previous: PreviousServer,
    admission: &AdmissionControl,
    settings: &Arc<SharedJobSettings>,
) -> RestoredJobs {
    let PreviousServer { jobs, processes, without_ending, end, .. } = previous;
    let JournalState { unfinished, finished, freed, .. } = jobs;
    let processes =
        processes.into_iter().map(|KeptProcess { name, process }| (name, process)).collect();
    let mut restorer = Restorer { admission, settings, processes, without_ending, end };
    let finished = finished.into_iter().filter_map(|job| restorer.restore_finished(job));
    let mut jobs: Vec<RestoredJob> = finished.collect();
    let unfinished = unfinished.into_iter().filter_map(|job| restorer.restore_unfinished(job));
    jobs.extend(unfinished);
    restorer.end_unknown_processes();
    RestoredJobs { jobs, freed: freed.into_iter().filter_map(restore_freed).collect() }
}

struct Restorer<'a> {
    admission: &'a AdmissionControl,
    settings: &'a Arc<SharedJobSettings>,
    /// The processes that no job has taken over yet, by the names under which they are kept.
    processes: HashMap<String, Result<Process, String>>,
    without_ending: HashSet<AuditedJob>,
    end: PreviousEnd,
}

impl Restorer<'_> {
    fn restore_finished(&mut self, job: EndedRecords) -> Option<RestoredJob> {
        let EndedRecords { accepted, ended } = job;
        let id = accepted.job;
        let spec: JobSpec = read_spec(id, &accepted.spec)?;
        let at = restore_instant(ended.at_ms);
        let elapsed = Duration::from_millis(ended.elapsed_ms);
        let started = ended.started_at_ms.map(|_| at.checked_sub(elapsed).unwrap_or(at));
        let submitted = restore_instant(accepted.at_ms).min(started.unwrap_or(at));
        let phase = JobPhase::Finished(ended.ending.restore(at));
        let times = JobTimes {
            submitted_ms: accepted.at_ms,
            started_ms: ended.started_at_ms,
            finished_ms: Some(ended.at_ms),
        };
        let status = JobStatus { phase, submitted, started, times };
        // Processes that cannot be followed were ended, and the job has its outcome.
        let process = self.processes.remove(&job::keep_name(id)).and_then(Result::ok);
        let log = ended.log.and_then(|log| log.read().ok());
        let (handle, stage) = match (log, process) {
            (Some(log), None) => {
                let handle = job::restore_finished_job(id, spec, status, &log, self.settings);
                (handle, RestoredStage::Finished)
            }
            // Processes outlived the job, or the server ended before the log was recorded.
            (_, process) => self.restore_open(id, spec, status, process),
        };
        let on_end = self.audit_at_end(&handle);
        Some(RestoredJob { handle, key: accepted.key, on_end, stopped_by: None, stage })
    }

    /// Returns the callback that writes the ending of a finished job to the audit log, if it is
    /// missing there.
    fn audit_at_end(&self, job: &JobHandle) -> Option<OnJobEnd> {
        let audited = AuditedJob {
            tenant: job.id().tenant().name().to_owned(),
            number: job.id().number(),
            trace_id: job.spec().trace.context.trace_id.to_string(),
        };
        self.admission.audit_at_end().filter(|_| self.without_ending.contains(&audited))
    }

    /// Restores a job whose log may grow or was not recorded when it was closed.
    fn restore_open(
        &self,
        id: JobId,
        spec: JobSpec,
        status: JobStatus,
        process: Option<Process>,
    ) -> (JobHandle, RestoredStage) {
        let (guard, handle) = match self.open_job(id, spec, status) {
            Ok(opened) => opened,
            Err(handle) => {
                if let Some(process) = process {
                    // Processes that are left even then are ended with the server.
                    drop(process.tree.kill());
                    process.tree.release();
                }
                return (handle, RestoredStage::Finished);
            }
        };
        let Some(process) = process else {
            // Closes the log.
            drop(guard);
            self.record_log(&handle);
            return (handle, RestoredStage::Finished);
        };
        (handle, RestoredStage::Running(guard, Box::new(process)))
    }

    /// Opens the log of a job again. If that fails, returns the job as lost, without its output.
    fn open_job(
        &self,
        id: JobId,
        spec: JobSpec,
        status: JobStatus,
    ) -> Result<(JobGuard, JobHandle), JobHandle> {
        let restored = job::restore_open_job(id, spec.clone(), status, self.end, self.settings);
        restored.map_err(|error| {
            events::job_not_restored(id, &error);
            let (guard, handle) = job::create_job(id, spec, None, None, self.settings);
            guard.finish_lost(format!("its output cannot be read: {error}"));
            handle
        })
    }

    /// Records the log of a finished job whose server ended before it could.
    fn record_log(&self, job: &JobHandle) {
        let status = job.status();
        if let (Some(journal), Some(ending), Some(log)) =
            (&self.settings.journal, status.ending(), job.output().closed_state())
        {
            drop(journal.append(&job::ended_record(job.id(), status.started, ending, Some(&log))));
        }
    }

    fn restore_unfinished(&mut self, job: UnfinishedJob) -> Option<RestoredJob> {
        let UnfinishedJob { accepted, queued, starting, started } = job;
        let id = accepted.job;
        let spec: JobSpec = read_spec(id, &accepted.spec)?;
        let submitted = restore_instant(accepted.at_ms);
        let started_record = started;
        let started_ms = started.map(|it| it.at_ms).or(starting.map(|it| it.at_ms));
        let started_at = started_ms.map(|at| restore_instant(at).max(submitted));
        let times = JobTimes { submitted_ms: accepted.at_ms, started_ms, finished_ms: None };
        let status = |phase| JobStatus { phase, submitted, started: started_at, times };
        let process = self.processes.remove(&job::keep_name(id));
        let (handle, stage) = match (process, started_at, queued) {
            (Some(Err(why)), _, _) => {
                let why = format!("its processes could not be taken over and were ended: {why}");
                self.restore_lost(id, spec, status(JobPhase::Running), &why)
            }
            (Some(Ok(process)), started, _) => {
                let started = Some(started.unwrap_or_else(Instant::now));
                let status = JobStatus { started, ..status(JobPhase::Running) };
                self.restore_open(id, spec, status, Some(process))
            }
            (None, None, Some(QueuedJob { inputs, .. })) => {
                self.restore_queued(id, spec, status(JobPhase::Queued), inputs)
            }
            (None, None, None) => {
                let why = "the server ended while this job was being accepted; if it had begun, its processes were ended";
                self.restore_lost(id, spec, status(JobPhase::Queued), why)
            }
            (None, Some(_), _) => {
                let why = if started_record.is_some() {
                    "the server ended while this job ran, and its processes were not found afterwards; its ending is unknown"
                } else {
                    "the server ended while this job was being started; it may have run, and its ending is unknown"
                };
                self.restore_lost(id, spec, status(JobPhase::Running), why)
            }
        };
        let on_end = self.admission.audit_at_end();
        let stopped_by = started_record.and_then(|it| it.stopped_by);
        Some(RestoredJob { handle, key: accepted.key, on_end, stopped_by, stage })
    }

    /// Restores a job that waits for its turn. It runs in its directory only if the rules of this
    /// server allow that.
    fn restore_queued(
        &self,
        id: JobId,
        mut spec: JobSpec,
        status: JobStatus,
        mut inputs: JobInputs,
    ) -> (JobHandle, RestoredStage) {
        let variables = inputs.inherited.take().map(|inherited| {
            let pairs = inherited.into_iter().map(|variable| (variable.name, variable.value));
            let withheld = std::mem::take(&mut inputs.withheld);
            Arc::new(self.settings.environment.for_client(pairs.collect(), withheld))
        });
        inputs.restore_into(&mut spec);
        let cwd = open_allowed_dir(&self.admission.host, &self.admission.rules(), &spec.cwd);
        let refusal = cwd.as_ref().err().map(ToString::to_string);
        let (guard, handle) = job::create_job(id, spec, cwd.ok(), variables, self.settings);
        guard.set_submitted(status.submitted, status.times.submitted_ms);
        let stage = match refusal {
            None => RestoredStage::Queued(guard),
            Some(why) => {
                guard
                    .finish_lost(format!("nothing was run after the restart of the server: {why}"));
                RestoredStage::Finished
            }
        };
        (handle, stage)
    }

    fn restore_lost(
        &self,
        id: JobId,
        spec: JobSpec,
        status: JobStatus,
        why: &str,
    ) -> (JobHandle, RestoredStage) {
        let handle = match self.open_job(id, spec, status) {
            Ok((guard, handle)) => {
                guard.finish_lost(why.to_owned());
                handle
            }
            Err(handle) => handle,
        };
        (handle, RestoredStage::Finished)
    }

    /// Ends the processes that belong to no known job.
    fn end_unknown_processes(self) {
        for (name, process) in self.processes {
            events::unknown_process_ended(&name);
            let Ok(process) = process else { continue };
            // Processes that are left even then are ended with the server.
            drop(process.tree.kill());
            process.tree.release();
        }
    }
}

fn read_spec(id: JobId, stored: &StoredJson) -> Option<JobSpec> {
    stored.read().inspect_err(|error| events::job_not_restored(id, error)).ok()
}

fn restore_freed(note: FreedNote) -> Option<(JobId, SystemTime, FreedCause)> {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(note.at_ms))?;
    Some((note.job, at, note.why.read().ok()?))
}

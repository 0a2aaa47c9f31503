//! The yard itself.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ractor::SpawnErr;
use tokio::sync::watch;

use super::gate::{AuditTrail, Gate, Rules};
use super::spilled::Spilled;
use super::submission::{Caller, Defaults, Logged, Submission, SubmitError, Within};
use crate::ids::JobId;
use crate::job::{JobHandle, JobSettings, StopWish};
use crate::outcome::{Ending, Outcome, StartError, StopBy};
use crate::output::redact::Redactor;
use crate::process::similar;
use crate::supervisor::{
    Admission, FindError, QueueLimits, QueuePlace, Retention, Supervisor, SupervisorSettings,
};
use crate::telemetry::events;

/// The service's one door. A cheap clone.
#[derive(Debug, Clone)]
pub struct Yard {
    supervisor: Supervisor,
    pub(super) defaults: Arc<Defaults>,
    pub(super) gate: Arc<Gate>,
    /// The last job number that was given out.
    last_id: Arc<AtomicU64>,
    /// Where jobs look for programs.
    path: OsString,
    /// Says that a job was accepted.
    appeared: watch::Sender<()>,
    /// What those who come back for output need.
    pub(super) spilled: Arc<Spilled>,
}

/// How many similar names are told.
const SIMILAR: usize = 3;

/// Everything that a yard needs to know.
#[derive(Debug, Clone)]
pub struct YardSettings {
    /// Defaults and bounds of submissions.
    pub defaults: Defaults,
    /// Bounds of the queue.
    pub queue: QueueLimits,
    /// What stays of finished jobs.
    pub retention: Retention,
    /// Finished logs of so many bytes are compressed; `None` = none are.
    pub compress_from: Option<u64>,
    /// What all jobs have in common.
    pub job: JobSettings,
    /// What may run, where, and what is masked.
    pub rules: Rules,
    /// Where decisions are written down, if anywhere.
    pub audit: Option<AuditTrail>,
}

impl Yard {
    /// Opens a yard in this process.
    ///
    /// # Errors
    /// When its supervisor could not be started, or the system has no random numbers.
    pub async fn open(settings: YardSettings) -> Result<Self, SpawnErr> {
        let YardSettings { defaults, queue, retention, compress_from, job, rules, audit } =
            settings;
        let path = job.environment.iter().find(|(name, _)| name == "PATH");
        let path = path.map(|(_, path)| path.clone()).unwrap_or_default();
        let spilled = Spilled::new(job.log.spill_dir.clone());
        let spilled = spilled.map_err(|error| SpawnErr::StartupFailed(error.into()))?;
        let supervising = SupervisorSettings { queue, retention, compress_from, job };
        let supervisor = Supervisor::start(supervising).await?;
        let gate = Arc::new(Gate::new(rules, audit));
        let (defaults, last_id) = (Arc::new(defaults), Arc::default());
        let (appeared, spilled) = (watch::Sender::new(()), Arc::new(spilled));
        Ok(Self { supervisor, defaults, gate, last_id, path, appeared, spilled })
    }

    /// Accepts a job, or says why not. A key that is known gives back the job that it named
    /// before, and runs nothing.
    ///
    /// # Errors
    /// When the submission cannot be run as asked, or the queue is full.
    pub async fn submit(
        &self,
        submission: Submission,
        caller: &Caller,
    ) -> Result<JobHandle, SubmitError> {
        let caller = self.known_as(caller);
        let accepted = self.admit(submission, &caller).await;
        if let Err(error) = &accepted {
            events::job_rejected(error.rejection());
        }
        accepted
    }

    /// The caller as it is written down: a client's name is what it says of itself.
    pub(super) fn known_as(&self, caller: &Caller) -> Caller {
        let client = self.redactor().mask_text(&caller.client).into_owned();
        Caller { tenant: caller.tenant.clone(), client }
    }

    async fn admit(
        &self,
        submission: Submission,
        caller: &Caller,
    ) -> Result<JobHandle, SubmitError> {
        let key = submission.key.clone();
        if let Some(key) = &key
            && let Some(known) = self.supervisor.find_key(key.clone()).await
        {
            return Ok(known);
        }
        let (within, logged) = (submission.within, submission.logged);
        let mut spec = submission.complete(&self.defaults, &caller.tenant)?;
        let root = match within {
            Within::Anywhere => None,
            Within::DefaultDirectory => Some(self.defaults.cwd.as_path()),
        };
        let next_id = || JobId::new(self.last_id.fetch_add(1, Ordering::Relaxed) + 1);
        let (id, cwd) = self.gate.pass(&mut spec, caller, root, next_id)?;
        let logged = match logged {
            Logged::Yes => self.redactor().mask_text(&spec.program.display()).into_owned(),
            Logged::No => "(not logged)".to_owned(),
        };
        let job = self.supervisor.submit(Admission { id, spec, cwd, key, logged }).await?;
        // A key that somebody else used in between gives back that one's job.
        if job.id() == id {
            self.appeared.send_replace(());
            self.gate.follow(job.clone(), caller.clone());
        }
        Ok(job)
    }

    /// From now on these rules hold; jobs that are accepted already go on.
    pub fn replace_rules(&self, rules: Rules) {
        self.gate.replace(rules);
        self.spilled.forget_packed();
        self.gate.note("policy_reloaded", "from now on the new rules hold");
    }

    /// Writes down that new rules could not be read, and the old ones hold.
    pub fn keep_rules(&self, why: &str) {
        self.gate.note("policy_reload_refused", why);
    }

    /// Where a job ended because a command was not found: names of commands that are there and
    /// read much like it.
    pub async fn similar_commands(&self, ending: &Ending, output: &str) -> Vec<String> {
        let Some(name) = missing(&ending.outcome, output) else { return Vec::new() };
        let (name, path) = (name.to_owned(), self.path.clone());
        let look = move || similar::similar(&name, &path, SIMILAR);
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// Writes a file by which a workflow around a failed command learns of it. That it cannot be
    /// written is logged: the failure itself is told in any case.
    pub async fn write_abort_file(&self, path: PathBuf, text: String) {
        let write = move || fs::write(&path, text).map_err(|error| (path, error));
        if let Ok(Err((path, error))) = tokio::task::spawn_blocking(write).await {
            events::abort_file_failed(&path, &error);
        }
    }

    /// What masks secrets in text that leaves the yard.
    #[must_use]
    pub fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.gate.rules().redactor)
    }

    /// The job with this number.
    ///
    /// # Errors
    /// When there is none, or no longer.
    pub async fn find(&self, id: JobId) -> Result<JobHandle, FindError> {
        self.supervisor.find(id).await
    }

    /// All jobs that are known, newest first.
    pub async fn list(&self) -> Vec<JobHandle> {
        self.supervisor.list().await
    }

    /// Changes whenever a job was accepted.
    #[must_use]
    pub fn appearances(&self) -> watch::Receiver<()> {
        self.appeared.subscribe()
    }

    /// Begins the end of a job; does not wait for it. Of a job that has finished, what survived
    /// is ended.
    ///
    /// # Errors
    /// When there is no such job, or no longer.
    pub async fn stop(&self, id: JobId, wish: StopWish) -> Result<JobHandle, FindError> {
        self.supervisor.stop(id, wish).await
    }

    /// Frees the oldest finished jobs that store anything, until they have given back so many
    /// bytes or there are none left. Does not wait for it.
    #[cfg(test)]
    pub(super) fn sweep_for(&self, bytes: u64) {
        self.supervisor.sweep_for(bytes);
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

/// The name that was not found, as the system or the shell said it.
fn missing<'t>(outcome: &'t Outcome, output: &'t str) -> Option<&'t str> {
    match outcome {
        Outcome::FailedToStart(StartError::NotFound { program }) => Some(program),
        Outcome::Exited { code: 127 } => similar::missing_command(output),
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Stopped { .. }
        | Outcome::Limit { .. }
        | Outcome::FailedToStart(_)
        | Outcome::Lost { .. } => None,
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

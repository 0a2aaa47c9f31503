//! The service as one caller sees it.
//!
//! **Invariant:** whatever comes through here is of the caller's own tenant. A job of another one
//! is answered for like a job that never was.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use super::admission::Passing;
use super::approval::Approval;
use super::handle::JobService;
use super::submission::{CallerContext, CommandLogging, DirectoryScope, Submission, SubmitError};
use crate::confinement::SandboxProfile;
use crate::ids::{JobId, JobNumber};
use crate::job::{JobHandle, StopRequest};
use crate::outcome::{JobEnding, Outcome, StartError};
use crate::output::redaction::Redactor;
use crate::process::{shell, sockets};
use crate::spec::JobSpec;
use crate::supervisor::{FindError, QueuePosition, SubmitRefusal, SubmitRequest};
use crate::telemetry::events;
use crate::trace::CallTrace;

/// How many similar names are told.
const SIMILAR: usize = 3;

/// The yard as one caller sees it. A cheap clone.
#[derive(Debug, Clone)]
pub struct TenantClient {
    pub(super) service: JobService,
    pub(super) caller: CallerContext,
    /// Where jobs run that name no directory, if not where the yard says.
    cwd: Option<Arc<Path>>,
    /// The job that was asked for first.
    first_job: Arc<OnceLock<JobId>>,
}

impl TenantClient {
    pub(super) fn new(service: JobService, caller: CallerContext) -> Self {
        Self { service, caller, cwd: None, first_job: Arc::default() }
    }

    /// The same, with jobs that name no directory in this one. Those that are bound to the yard's
    /// own directory stay there.
    #[must_use]
    pub fn with_directory(self, cwd: Arc<Path>) -> Self {
        Self { cwd: Some(cwd), ..self }
    }

    /// The same, for a call that is a part of this trace.
    #[must_use]
    pub fn with_trace(mut self, trace: CallTrace) -> Self {
        self.caller.trace = trace;
        self
    }

    /// Who calls.
    #[must_use]
    pub const fn caller(&self) -> &CallerContext {
        &self.caller
    }

    /// The job that this caller calls by this number.
    #[must_use]
    pub const fn job(&self, number: JobNumber) -> JobId {
        number.for_tenant(self.caller.tenant)
    }

    /// Accepts a job, or says why not. A key that is known gives back the job that it named
    /// before, and runs nothing.
    ///
    /// # Errors
    /// When the submission cannot be run as asked, or the queue is full.
    pub async fn submit(&self, submission: Submission) -> Result<JobHandle, SubmitError> {
        let accepted = self.admit(self.placed(submission), None).await;
        self.noted(accepted)
    }

    /// What became of a submission, once that is known and counted.
    pub(super) fn noted(
        &self,
        accepted: Result<JobHandle, SubmitError>,
    ) -> Result<JobHandle, SubmitError> {
        match &accepted {
            Ok(job) => self.asked_for(job.id()),
            Err(error) => self.count_rejected(error),
        }
        accepted
    }

    pub(super) fn count_rejected(&self, error: &SubmitError) {
        events::job_rejected(self.caller.tenant, error.rejection());
    }

    /// As it is asked for from here.
    pub(super) fn placed(&self, mut submission: Submission) -> Submission {
        if let (Some(cwd), DirectoryScope::Anywhere) = (&self.cwd, submission.within) {
            submission.cwd = Some(match submission.cwd {
                Some(given) => cwd.join(given),
                None => cwd.to_path_buf(),
            });
        }
        submission
    }

    /// Accepts a job, or says why not; `approval` is what somebody has just agreed to.
    pub(super) async fn admit(
        &self,
        submission: Submission,
        approval: Option<&Approval>,
    ) -> Result<JobHandle, SubmitError> {
        let Self { service, caller, .. } = self;
        let tenant = caller.tenant;
        let key = submission.key.clone();
        if let Some(key) = &key
            && let Some(known) = service.supervisor.find_key(tenant, key.clone()).await
        {
            return Ok(known);
        }
        let within = submission.within;
        let logged = submission.logged;
        let defaults = service.defaults();
        let mut spec = submission
            .complete(&defaults, caller)
            .inspect_err(|error| self.note_unconfined(error))?;
        let root = match within {
            DirectoryScope::Anywhere => None,
            DirectoryScope::DefaultDirectory => Some(defaults.cwd.as_path()),
        };
        let reserved = approval.and_then(|approval| approval.job);
        let next_id = || reserved.unwrap_or_else(|| service.tenancy.next_job(tenant));
        let confining = &defaults.confining;
        let passing = Passing { spec: &mut spec, caller, root, confining, approval };
        let (id, cwd) = service.gate.pass(passing, next_id).await?;
        let logged = match logged {
            CommandLogging::Yes => self.redactor().mask_text(&spec.program.display()).into_owned(),
            CommandLogging::No => "(not logged)".to_owned(),
        };
        let on_end = service.gate.write_at_end(caller);
        let admission = SubmitRequest { id, spec, cwd, key, logged, on_end };
        let job = service.supervisor.submit(admission).await.inspect_err(|refusal| {
            // It passed the gate, which wrote it down with its number, and is not run after all.
            let detail = format!("job {id} of {tenant}: {refusal}");
            service.gate.note("not_accepted", &detail);
            // After a failure it may be known all the same: then its number stays its own, as does
            // one that somebody was told.
            if *refusal != SubmitRefusal::Interrupted && reserved.is_none() {
                service.tenancy.give_back(id);
            }
        })?;
        // A key that somebody else used in between gives back that one's job.
        if job.id() == id {
            service.tenancy.appeared(tenant);
            events::job_confined(job.spec().confinement);
        }
        Ok(job)
    }

    /// Writes down that somebody wanted a job to be confined otherwise than it can be.
    fn note_unconfined(&self, error: &SubmitError) {
        if let SubmitError::Confinement(error) = error {
            let detail = format!("{error} ({} through {})", self.caller.tenant, self.caller.client);
            self.service.gate.note(error.code(), &detail);
        }
    }

    /// What masks secrets in text that leaves the yard.
    #[must_use]
    pub fn redactor(&self) -> Arc<Redactor> {
        self.service.redactor()
    }

    /// The job with this number.
    ///
    /// # Errors
    /// When there is none, or no longer.
    pub async fn find(&self, id: JobId) -> Result<JobHandle, FindError> {
        self.own(id)?;
        self.service.supervisor.find(id).await
    }

    /// All jobs that are known, newest first.
    pub async fn list(&self) -> Vec<JobHandle> {
        self.service.supervisor.list(Some(self.caller.tenant)).await
    }

    /// Changes whenever a job was accepted.
    #[must_use]
    pub fn watch_new_jobs(&self) -> watch::Receiver<()> {
        self.service.tenancy.watch_new_jobs(self.caller.tenant)
    }

    /// Begins the end of a job; does not wait for it. Of a job that has finished, what survived
    /// is ended.
    ///
    /// # Errors
    /// When there is no such job, or no longer.
    pub async fn stop(&self, id: JobId, wish: StopRequest) -> Result<JobHandle, FindError> {
        self.own(id)?;
        self.service.supervisor.stop(id, wish).await
    }

    /// Whether anybody on this host listens on this TCP port; who it is does not matter.
    pub async fn is_listened_on(&self, port: u16) -> bool {
        let look = move || sockets::is_listened_on(port);
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// This caller waited for these jobs, and nothing came: for the how manyth time in a row.
    #[must_use]
    pub fn count_empty_wait(&self, jobs: &[JobId]) -> u32 {
        self.service.empty_waits.one_more(&self.caller.client, jobs)
    }

    /// This caller waited for these jobs, and something came.
    pub fn reset_empty_waits(&self, jobs: &[JobId]) {
        self.service.empty_waits.forget(&self.caller.client, jobs);
    }

    /// This caller was shown these bytes of a job's output.
    pub fn mark_shown(&self, job: JobId, bytes: Range<u64>) {
        self.service.seen.note(&self.caller.client, job, bytes);
    }

    /// Where the output of a job begins that this caller has not been shown.
    #[must_use]
    pub fn first_unseen_offset(&self, job: JobId) -> u64 {
        self.service.seen.end(&self.caller.client, job)
    }

    /// Where a waiting job stands; nothing once it has started.
    pub async fn queue_position(&self, id: JobId) -> Option<QueuePosition> {
        // Lists look at every job, and are about none of them.
        if !self.owns(id) {
            return None;
        }
        self.service.supervisor.queue_position(id).await
    }

    fn own(&self, id: JobId) -> Result<(), FindError> {
        self.owns(id).then(|| self.asked_for(id)).ok_or(FindError::Unknown { id })
    }

    fn owns(&self, id: JobId) -> bool {
        id.tenant() == self.caller.tenant
    }

    /// The job of its own that this caller asked for first here, whether it exists or not.
    #[must_use]
    pub fn first_job(&self) -> Option<JobId> {
        self.first_job.get().copied()
    }

    fn asked_for(&self, id: JobId) {
        // Only the first one counts.
        self.first_job.set(id).ok();
    }

    /// How long a finished job stays at the most; room for others may take it earlier.
    #[must_use]
    pub const fn max_finished_age(&self) -> Option<Duration> {
        self.service.kept_for
    }

    /// The largest timeout that can be asked for.
    #[must_use]
    pub fn max_timeout(&self) -> Duration {
        self.service.defaults().max_timeout
    }

    /// Where a job with this spec may write, where that is bounded, beside a temporary directory of
    /// its own.
    #[must_use]
    pub fn writable(&self, spec: &JobSpec) -> Vec<PathBuf> {
        match spec.confinement.effective.profile {
            SandboxProfile::None | SandboxProfile::Default | SandboxProfile::ReadOnly => Vec::new(),
            SandboxProfile::WorkspaceWrite => match self.service.places.workspace.as_slice() {
                [] => vec![spec.cwd.clone()],
                workspace => workspace.to_vec(),
            },
        }
    }

    /// Where a job ended because a command was not found: names of commands that are there and
    /// read much like it.
    pub async fn similar_commands(&self, ending: &JobEnding, output: &str) -> Vec<String> {
        let Some(name) = missing(&ending.outcome, output) else { return Vec::new() };
        let name = name.to_owned();
        let environment = Arc::clone(&self.service.environment);
        let look = move || {
            let path = environment.get("PATH").unwrap_or_default();
            shell::similar_commands(&name, path, SIMILAR)
        };
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
}

/// The name that was not found, as the system or the shell said it.
fn missing<'t>(outcome: &'t Outcome, output: &'t str) -> Option<&'t str> {
    match outcome {
        Outcome::FailedToStart(StartError::NotFound { program }) => Some(program),
        Outcome::Exited { code: 127 } => shell::find_missing_command(output),
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Stopped { .. }
        | Outcome::Limit { .. }
        | Outcome::FailedToStart(_)
        | Outcome::Lost { .. } => None,
    }
}

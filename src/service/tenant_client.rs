//! The service as one caller sees it.
//!
//! **Invariant:** a [`TenantClient`] only ever returns jobs of its own tenant. A job of another tenant
//! looks like a job that never existed.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::approval::Approval;
use super::caller_history::{ReportTo, SeenOutput};
use super::confinement::{Bound, LimitSetting, LimitTerms};
use super::handle::{JobService, clean_client_text};
use super::submission::{CallerContext, CommandLogging, DirectoryScope, Submission, SubmitError};
use crate::confinement::{SandboxPaths, SandboxProfile};
use crate::ids::{CallerSession, JobId, JobNumber, TenantId};
use crate::job::{JobHandle, JobVariables, StopRequest};
use crate::outcome::{JobEnding, LimitKind, Outcome, StartError};
use crate::output::redaction::Redactor;
use crate::process::{shell, sockets};
use crate::spec::{JobProgram, JobSpec, Stream, TenantArea};
use crate::supervisor::{
    FindError, HoldingJob, JobKey, QueuePosition, SubmitRefusal, SubmitRequest,
};
use crate::telemetry::events;
use crate::trace::CallTrace;

/// The likely mistake of a caller whose job did not find a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingCommand {
    /// The program was given with an argument in the same text.
    HoldsArguments { program: String, argument: String },
    /// The path does not exist in the directory in which the job started.
    NotInDirectory { path: String, directory: PathBuf },
    /// Installed commands have similar names.
    HasSimilar { names: Vec<String> },
}

/// The most similar commands that are suggested.
const MAX_SIMILAR: usize = 3;

/// A caller's view of the service: its tenant, its role, and the jobs of that tenant. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TenantClient {
    pub(super) service: JobService,
    pub(super) caller: CallerContext,
    /// The variables that this caller's jobs inherit, if they are not the server's.
    variables: Option<Arc<JobVariables>>,
    /// The jobs that this caller submitted or looked for, each once.
    named_jobs: Arc<Mutex<Vec<JobId>>>,
}

impl TenantClient {
    pub(super) fn new(service: JobService, caller: CallerContext) -> Self {
        Self { service, caller, variables: None, named_jobs: Arc::default() }
    }

    /// Sets the directory in which the calling program was started: the default directory of its jobs.
    /// Submissions with [`DirectoryScope::DefaultDirectory`] keep the service's.
    #[must_use]
    pub fn with_directory(mut self, directory: Arc<Path>) -> Self {
        self.caller.directory = Some(directory);
        self
    }

    /// Sets the version of the calling program, as it names it.
    #[must_use]
    pub fn with_client_version(mut self, version: &str) -> Self {
        let version = clean_client_text(version, &self.redactor());
        self.caller.client_version = Some(version).filter(|version| !version.is_empty());
        self
    }

    /// Sets the variables that this caller's jobs inherit instead of the server's.
    #[must_use]
    pub fn with_variables(self, variables: Arc<JobVariables>) -> Self {
        Self { variables: Some(variables), ..self }
    }

    /// Returns the variables that this caller's jobs inherit, unless an allow list is set.
    fn variables(&self) -> &Arc<JobVariables> {
        self.variables.as_ref().unwrap_or(&self.service.environment)
    }

    /// Sets the session of the caller.
    #[must_use]
    pub fn with_session(mut self, session: CallerSession) -> Self {
        self.caller.session = session;
        self
    }

    /// Sets the trace of the current call.
    #[must_use]
    pub fn with_trace(mut self, trace: CallTrace) -> Self {
        self.caller.trace = trace;
        self
    }

    #[must_use]
    pub const fn caller(&self) -> &CallerContext {
        &self.caller
    }

    /// Returns the id of the job with this number.
    #[must_use]
    pub const fn job_id(&self, number: JobNumber) -> JobId {
        number.for_tenant(self.caller.tenant)
    }

    /// Accepts a job. A key that is already known returns the job that it named before, and runs
    /// nothing.
    ///
    /// # Errors
    /// If the key names the job of another request, if the submission cannot be run as asked, or the queue is full.
    pub async fn submit(&self, submission: Submission) -> Result<JobHandle, SubmitError> {
        let accepted = self.admit(submission, None).await;
        self.record_result(accepted)
    }

    /// Counts the result of a submission, and returns it.
    pub(super) fn record_result(
        &self,
        accepted: Result<JobHandle, SubmitError>,
    ) -> Result<JobHandle, SubmitError> {
        match &accepted {
            Ok(job) => self.remember_job(job.id()),
            Err(error) => self.count_rejected(error),
        }
        accepted
    }

    pub(super) fn count_rejected(&self, error: &SubmitError) {
        events::job_rejected(self.caller.tenant, error.rejection_reason());
    }

    /// Expands `~` in the directory of a submission, and applies this caller's default directory.
    pub(super) fn resolve_directory(
        &self,
        mut given: Option<PathBuf>,
        within: DirectoryScope,
    ) -> Option<PathBuf> {
        if let Some(path) = &given
            && let Ok(below_home) = path.strip_prefix("~")
            && let Some(home) = self.home_dir()
        {
            given = Some(home.join(below_home));
        }
        // Jobs of a tenant with a workspace start there.
        let own = self.caller.directory.as_ref().filter(|_| self.area().is_none());
        match (own, within) {
            (Some(default), DirectoryScope::Anywhere) => {
                Some(given.map_or_else(|| default.to_path_buf(), |path| default.join(path)))
            }
            (None, _) | (Some(_), DirectoryScope::DefaultDirectory) => given,
        }
    }

    /// Returns the user and the directories of this tenant, if the settings name any.
    pub(super) fn area(&self) -> Option<Arc<TenantArea>> {
        self.service.admission.rules().area(self.caller.tenant).cloned()
    }

    /// The directory of jobs that name none, for callers without a directory of their own.
    pub(super) fn start_directory(&self) -> PathBuf {
        let workspace = self.area().map(|area| area.workspace.clone());
        workspace.unwrap_or_else(|| self.service.defaults().cwd.clone())
    }

    /// The home directory that `~` stands for.
    fn home_dir(&self) -> Option<PathBuf> {
        let user = self.area().and_then(|area| Some(area.user.as_ref()?.home.clone()));
        user.or_else(|| self.variables().home_dir().map(Path::to_owned))
    }

    /// Accepts a job, in this caller's directory unless it names another; `approval` is the user's
    /// approval of it, if it was asked for.
    pub(super) async fn admit(
        &self,
        mut submission: Submission,
        approval: Option<&Approval>,
    ) -> Result<JobHandle, SubmitError> {
        let Self { service, caller, .. } = self;
        let tenant = caller.tenant;
        let key = submission.key.clone();
        let within = submission.within;
        let logged = submission.logged;
        submission.cwd = self.resolve_directory(submission.cwd, within);
        let defaults = service.defaults();
        let start = self.start_directory();
        let mut spec = submission
            .complete(&defaults, &start, caller)
            .inspect_err(|error| self.audit_confinement_error(error))?;
        let key = key.map(|key| JobKey::new(key, &spec));
        if let Some(key) = &key
            && let Some(known) = service.supervisor.find_key(tenant, key.clone()).await?
        {
            return Ok(known);
        }
        let root = match within {
            DirectoryScope::Anywhere => None,
            DirectoryScope::DefaultDirectory => Some(start.as_path()),
        };
        let reserved = approval.and_then(|approval| approval.job);
        let next_id = || reserved.unwrap_or_else(|| service.job_numbers.next_job(tenant));
        let (id, cwd) = service
            .admission
            .admit(&mut spec, caller, root, &defaults.confinement_rules, approval, next_id)
            .await?;
        // An allow list was written for the programs that the server's own search path finds.
        let variables = self.variables.clone().filter(|_| !service.admission.has_allow_list());
        let logged = match logged {
            CommandLogging::Yes => self.redactor().mask_text(&spec.program.display()).into_owned(),
            CommandLogging::No => "(not logged)".to_owned(),
        };
        let on_end = service.admission.audit_at_end();
        let request = SubmitRequest { id, spec, cwd, variables, key, logged, on_end };
        let job = service.supervisor.submit(request).await.inspect_err(|refusal| {
            // The audit log already says that this job was admitted, and it does not run after all.
            let detail = format!("job {id} of {tenant}: {refusal}");
            service.admission.write_note("not_accepted", &detail);
            // After a failure of the supervisor the job may be known all the same, and the number of a
            // parked submission was already shown to the caller: neither number may be used again.
            if *refusal != SubmitRefusal::Interrupted && reserved.is_none() {
                service.job_numbers.give_back(id);
            }
        })?;
        // If another call used the key in between, this is that call's job.
        if job.id() == id {
            service.job_numbers.announce_job(tenant);
            events::job_confined(job.spec().confinement);
        }
        Ok(job)
    }

    /// Writes to the audit log that a call asked for a confinement that it cannot have.
    fn audit_confinement_error(&self, error: &SubmitError) {
        if let SubmitError::Confinement(error) = error {
            let detail = format!("{error} ({} through {})", self.caller.tenant, self.caller.client);
            self.service.admission.write_note(error.code(), &detail);
        }
    }

    /// The redactor that masks secrets in text that leaves the service.
    #[must_use]
    pub fn redactor(&self) -> Arc<Redactor> {
        self.service.redactor()
    }

    /// Returns when another server takes over: calls should answer with what they know.
    pub async fn wait_until_replaced(&self) {
        self.service.replaced.cancelled().await;
    }

    /// Finds a job.
    ///
    /// # Errors
    /// If there is no such job, or no longer.
    pub async fn find(&self, id: JobId) -> Result<JobHandle, FindError> {
        self.check_owner(id)?;
        self.service.supervisor.find(id).await
    }

    /// Lists the known jobs of this tenant, newest first.
    pub async fn list(&self) -> Vec<JobHandle> {
        self.service.supervisor.list(Some(self.caller.tenant)).await
    }

    /// Returns a receiver that changes whenever a job of this tenant is accepted.
    #[must_use]
    pub fn watch_new_jobs(&self) -> watch::Receiver<()> {
        self.service.job_numbers.watch_new_jobs(self.caller.tenant)
    }

    /// Starts to stop a job; does not wait for its end. If the job has finished, its surviving
    /// processes are ended.
    ///
    /// # Errors
    /// If there is no such job, or no longer.
    pub async fn stop(&self, id: JobId, request: StopRequest) -> Result<JobHandle, FindError> {
        self.check_owner(id)?;
        self.service.supervisor.stop(id, request).await
    }

    /// `true` if any process on this host listens on this TCP port.
    pub async fn is_listened_on(&self, port: u16) -> bool {
        let check = move || sockets::is_listened_on(port);
        tokio::task::spawn_blocking(check).await.unwrap_or_default()
    }

    /// Counts a wait for these jobs that brought no news, and returns the number of consecutive ones.
    #[must_use]
    pub fn count_empty_wait(&self, jobs: &[JobId]) -> u32 {
        self.service.empty_waits.count(&self.caller.client, jobs)
    }

    /// Resets the count of empty waits for these jobs, after a wait that brought news.
    pub fn reset_empty_waits(&self, jobs: &[JobId]) {
        self.service.empty_waits.reset(&self.caller.client, jobs);
    }

    /// Records that this caller was shown these bytes of a job's output, or of one stream of it.
    pub fn mark_shown(
        &self,
        job: JobId,
        stream: Option<Stream>,
        shown: impl IntoIterator<Item = Range<u64>>,
    ) {
        self.service.seen.add((&self.caller.session, job, stream), shown.into_iter());
    }

    /// Records that a wait of this caller for a line need not search the output before `end` again,
    /// nor what the caller was shown from there on without a gap.
    pub fn skip_search(&self, job: JobId, end: u64) {
        self.service.seen.skip_search((&self.caller.session, job, None), end);
    }

    /// Returns what this caller has been shown of a job's output, or of one stream of it.
    #[must_use]
    pub fn seen_output(&self, job: JobId, stream: Option<Stream>) -> SeenOutput {
        self.service.seen.find((&self.caller.session, job, stream))
    }

    /// Records that this caller gave up its call and does not know what becomes of the job.
    pub fn report_later(&self, job: JobId, to: ReportTo) {
        self.service.unreported.add(&self.caller, job, to);
    }

    /// Returns the jobs that [`TenantClient::report_later`] recorded for this caller and that are
    /// still kept; each is returned once.
    pub async fn take_unreported(&self) -> Vec<JobHandle> {
        let mut known = Vec::new();
        for job in self.service.unreported.take(&self.caller) {
            known.extend(self.service.supervisor.find(job).await);
        }
        known
    }

    /// Returns the setting of the limit that ended a job with this outcome; `None` if none did.
    #[must_use]
    pub fn limit_setting(&self, spec: &JobSpec, outcome: &Outcome) -> Option<LimitSetting> {
        let defaults = self.service.defaults();
        let plain = |name: &str, most| LimitSetting { name: name.to_owned(), most: Some(most) };
        let resource = |name, bound: fn(&LimitTerms) -> Option<Bound<u64>>| {
            defaults.confinement_rules.limit_setting(spec.tenant, &spec.lane, name, bound)
        };
        match outcome {
            Outcome::TimedOut { .. } => {
                Some(plain("job.max_timeout_s", defaults.max_timeout.as_secs()))
            }
            Outcome::Limit { which } => Some(match *which {
                LimitKind::OutputBytes(limit) => plain("job.max_output", limit),
                LimitKind::OutputLines(limit) => plain("job.max_lines", limit),
                LimitKind::LargeOutput(_) => plain("job.max_output", spec.limits.output_bytes),
                LimitKind::Memory { .. } => resource("memory", |limits| limits.memory),
                LimitKind::Cpu(_) => {
                    resource("cpu_s", |limits| limits.cpu.map(Bound::whole_seconds))
                }
                LimitKind::Processes(_) => resource("processes", |limits| limits.processes),
                LimitKind::FileSize(_) => resource("file_size", |limits| limits.file_size),
            }),
            Outcome::Exited { .. }
            | Outcome::Signaled { .. }
            | Outcome::Stopped { .. }
            | Outcome::NotRun { .. }
            | Outcome::FailedToStart(_)
            | Outcome::Lost { .. } => None,
        }
    }

    /// Returns the position of a waiting job in the queue; `None` once it has started.
    pub async fn queue_position(&self, id: JobId) -> Option<QueuePosition> {
        // Not `check_owner`: lists ask for every job, and name none.
        if !self.is_own(id) {
            return None;
        }
        self.service.supervisor.queue_position(id).await
    }

    /// Returns the named jobs of this tenant that hold the slots that a waiting job needs, each with
    /// `true` if it is idle.
    pub async fn find_slot_holders(&self, place: &QueuePosition) -> Vec<(JobHandle, bool)> {
        let mut holders = Vec::new();
        for HoldingJob { id, is_idle } in place.held_by.oldest.iter().copied() {
            // A job that was freed meanwhile holds no slot.
            if let Ok(job) = self.service.supervisor.find(id).await
                && self.is_own(id)
            {
                holders.push((job, is_idle));
            }
        }
        holders
    }

    /// Fails if the job belongs to another tenant. Remembers otherwise that this caller named it.
    fn check_owner(&self, id: JobId) -> Result<(), FindError> {
        self.is_own(id).then(|| self.remember_job(id)).ok_or(FindError::Unknown { id })
    }

    fn is_own(&self, id: JobId) -> bool {
        id.tenant() == self.caller.tenant
    }

    /// The first job of its tenant that this caller submitted or looked for, whether it exists or not.
    #[must_use]
    pub fn first_job(&self) -> Option<JobId> {
        self.lock_named_jobs().first().copied()
    }

    /// `true` if this caller submitted the job or looked for it.
    #[must_use]
    pub fn has_named(&self, id: JobId) -> bool {
        self.lock_named_jobs().contains(&id)
    }

    fn remember_job(&self, id: JobId) {
        let mut jobs = self.lock_named_jobs();
        if !jobs.contains(&id) {
            jobs.push(id);
        }
    }

    fn lock_named_jobs(&self) -> MutexGuard<'_, Vec<JobId>> {
        self.named_jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The longest time for which a finished job is kept; it may be freed earlier to make room.
    #[must_use]
    pub const fn max_finished_age(&self) -> Option<Duration> {
        self.service.max_finished_age
    }

    /// The longest timeout that a caller can ask for.
    #[must_use]
    pub fn max_timeout(&self) -> Duration {
        self.service.defaults().max_timeout
    }

    /// The directories that a job with this spec may write, if its sandbox lists any. Its own temporary
    /// directory is not among them.
    #[must_use]
    pub fn writable_dirs(&self, spec: &JobSpec) -> Vec<PathBuf> {
        match spec.confinement.effective.profile {
            SandboxProfile::None | SandboxProfile::Default | SandboxProfile::ReadOnly => Vec::new(),
            SandboxProfile::WorkspaceWrite => match self.list_workspaces(spec.area.as_deref()) {
                [] => vec![spec.cwd.clone()],
                workspace => workspace.to_vec(),
            },
        }
    }

    /// Returns the workspaces of jobs with this area; empty = the directory in which a job runs.
    pub(super) fn list_workspaces<'a>(&'a self, area: Option<&'a TenantArea>) -> &'a [PathBuf] {
        area.map_or(&self.service.places.workspace, |area| &area.directories)
    }

    /// Returns the paths for the sandbox of jobs with this area.
    pub(super) fn sandbox_paths(&self, area: Option<&TenantArea>) -> Arc<SandboxPaths> {
        let general = &self.service.places;
        area.map_or_else(|| Arc::clone(general), |area| Arc::new(area.sandbox_paths(general)))
    }

    /// Explains why a job did not find a command; `None` if that is not why the job ended, or if
    /// nothing is known about it.
    pub async fn explain_missing_command(
        &self,
        job: &JobHandle,
        ending: &JobEnding,
        output: &str,
    ) -> Option<MissingCommand> {
        let name = find_missing_command(&ending.outcome, output)?.to_owned();
        if let JobProgram::Direct { .. } = job.spec().program
            && let Some((program, argument)) = name.split_once(char::is_whitespace)
            && !program.contains('/')
        {
            let program = program.to_owned();
            let argument = argument.trim_start().to_owned();
            return Some(MissingCommand::HoldsArguments { program, argument });
        }
        // The name comes from the job, which must not learn about files that it cannot see itself.
        let sees_all_files = match job.spec().confinement.effective.profile {
            SandboxProfile::None | SandboxProfile::Default => !self.has_own_user(job),
            SandboxProfile::WorkspaceWrite | SandboxProfile::ReadOnly => false,
        };
        // A later command of a shell line may run in another directory.
        let is_first_word = match &job.spec().program {
            JobProgram::Shell(text) => text.trim_start().starts_with(&name),
            JobProgram::Direct { .. } => true,
        };
        let environment = Arc::clone(self.variables());
        let directory = job.spec().cwd.clone();
        let search = move || {
            if name.contains('/') {
                let is_missing = sees_all_files
                    && is_first_word
                    && Path::new(&name).is_relative()
                    && !directory.join(&name).exists();
                return is_missing
                    .then_some(MissingCommand::NotInDirectory { path: name, directory });
            }
            let path = environment.search_path().unwrap_or_default();
            let names = shell::similar_commands(&name, path, MAX_SIMILAR);
            (!names.is_empty()).then_some(MissingCommand::HasSimilar { names })
        };
        tokio::task::spawn_blocking(search).await.unwrap_or_default()
    }

    /// `true` if a job runs as another user than the server, or jobs of its tenant do so now: a job of
    /// an earlier server does not tell.
    fn has_own_user(&self, job: &JobHandle) -> bool {
        let rules = self.service.admission.rules();
        let areas = job.spec().area.iter().chain(rules.area(job.id().tenant()));
        areas.into_iter().any(|area| area.user.is_some())
    }

    /// Returns the names of the server's variables that a failed job did not get. Only for the local
    /// user: they are not for others.
    #[must_use]
    pub fn withheld_variables(&self, job: &JobHandle, ending: &JobEnding) -> Vec<String> {
        let has_failed = matches!(ending.outcome, Outcome::Exited { code } if code != 0);
        if !has_failed || self.caller.tenant != TenantId::LOCAL {
            return Vec::new();
        }
        let is_given = |name: &str| job.spec().env.iter().any(|(given, _)| given == name);
        let names = self.variables().withheld_names();
        names.filter(|name| !is_given(name)).map(str::to_owned).collect()
    }

    /// Writes the file that tells a workflow that a command has failed. A failed write is only logged:
    /// the reply reports the failure of the command in any case.
    pub async fn write_abort_file(&self, path: PathBuf, text: String) {
        let write = move || fs::write(&path, text).map_err(|error| (path, error));
        if let Ok(Err((path, error))) = tokio::task::spawn_blocking(write).await {
            events::abort_file_failed(&path, &error);
        }
    }
}

/// Returns the name of the command that the system or the shell did not find.
fn find_missing_command<'t>(outcome: &'t Outcome, output: &'t str) -> Option<&'t str> {
    match outcome {
        Outcome::FailedToStart(StartError::NotFound { program }) => Some(program),
        Outcome::Exited { code: 127 } => shell::find_missing_command(output),
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Stopped { .. }
        | Outcome::NotRun { .. }
        | Outcome::Limit { .. }
        | Outcome::FailedToStart(_)
        | Outcome::Lost { .. } => None,
    }
}

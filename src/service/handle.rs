//! The public handle of the service.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ractor::SpawnErr;
use tokio::sync::watch;

use super::admission::{AdmissionRules, AuditTrail, Gate};
use super::awaiting_approval::Lot;
use super::output::{EmptyWaits, Seen, Spilled};
use super::submission::{CallerContext, SubmissionDefaults};
use super::tenancy::{CallerIdentity, Tenancy};
use super::tenant_client::TenantClient;
use crate::confinement::SandboxPaths;
use crate::job::{JobHandle, JobVariables, SharedJobSettings, StopRequest};
use crate::outcome::StopBy;
use crate::output::redaction::Redactor;
use crate::output::{Quota, QuotaLimits};
use crate::supervisor::{
    PressureWatch, QueueLimits, QueueOverview, Retention, Supervisor, SupervisorSettings,
    UnknownLane,
};
use crate::telemetry::{QueueStats, events};
use crate::trace::CallTrace;

/// The service's one door. A cheap clone.
#[derive(Debug, Clone)]
pub struct JobService {
    pub(super) supervisor: Supervisor,
    defaults: Arc<RwLock<Arc<SubmissionDefaults>>>,
    pub(super) gate: Arc<Gate>,
    pub(super) tenancy: Arc<Tenancy>,
    pub(super) empty_waits: Arc<EmptyWaits>,
    pub(super) seen: Arc<Seen>,
    /// What jobs find in their environment.
    pub(super) environment: Arc<JobVariables>,
    /// What those who come back for output need.
    pub(super) spilled: Arc<Spilled>,
    /// What output may be kept.
    quota: Arc<Quota>,
    /// Where confined jobs may write.
    pub(super) places: Arc<SandboxPaths>,
    /// What waits for somebody's yes.
    pub(super) lot: Arc<Lot>,
    /// How long finished jobs stay at the most.
    pub(super) kept_for: Option<Duration>,
}

/// The longest name of a client.
const MAX_CLIENT_CHARS: usize = 100;

/// Everything that a yard needs to know.
#[derive(Debug, Clone)]
pub struct ServiceSettings {
    /// Defaults and bounds of submissions.
    pub defaults: SubmissionDefaults,
    /// Bounds of the queue.
    pub queue: QueueLimits,
    /// What stays of finished jobs.
    pub retention: Retention,
    /// Finished logs of so many bytes are compressed; `None` = none are.
    pub compress_from: Option<u64>,
    /// What all jobs have in common.
    pub job: SharedJobSettings,
    /// What may run, where, and what is masked.
    pub rules: AdmissionRules,
    /// Where decisions are written down, if anywhere.
    pub audit: Option<AuditTrail>,
    /// The file by which job numbers go on after a restart, if there is one.
    pub numbers: Option<PathBuf>,
}

impl JobService {
    /// Opens a yard in this process.
    ///
    /// # Errors
    /// When its supervisor could not be started, or the system has no random numbers.
    pub async fn open(settings: ServiceSettings) -> Result<Self, SpawnErr> {
        let ServiceSettings {
            defaults,
            queue,
            retention,
            compress_from,
            job,
            rules,
            audit,
            numbers,
        } = settings;
        let environment = Arc::clone(&job.environment);
        let spilled = Spilled::new(job.log.spill_dir.clone());
        let spilled = spilled.map_err(|error| SpawnErr::StartupFailed(error.into()))?;
        let quota = Arc::clone(&job.quota);
        let places = Arc::clone(&job.places);
        let host = Arc::clone(&job.host);
        let kept_for = retention.all.age.into_iter().chain(retention.tenant.age).min();
        let supervising = SupervisorSettings { queue, retention, compress_from, job };
        let supervisor = Supervisor::start(supervising).await?;
        let gate = Arc::new(Gate::new(rules, audit, host));
        let defaults = Arc::new(RwLock::new(Arc::new(defaults)));
        let tenancy = Arc::new(Tenancy::open(numbers));
        let spilled = Arc::new(spilled);
        Ok(Self {
            supervisor,
            defaults,
            gate,
            tenancy,
            environment,
            spilled,
            quota,
            places,
            lot: Arc::default(),
            empty_waits: Arc::default(),
            seen: Arc::default(),
            kept_for,
        })
    }

    /// Returns once the yard has failed so often that it does nothing any more: the server is to
    /// end, and its service manager to start it again.
    pub async fn given_up(&self) {
        self.supervisor.given_up().await;
    }

    /// The yard as one caller sees it: the jobs of its tenant, and no others.
    #[must_use]
    pub fn tenant_client(&self, identity: CallerIdentity, client: &str) -> TenantClient {
        // A client's name is what it says of itself: masked, and not longer than a name.
        let client: String = client.chars().take(MAX_CLIENT_CHARS).collect();
        let client = self.redactor().mask_text(&client).into_owned();
        let CallerIdentity { tenant, role } = identity;
        TenantClient::new(
            self.clone(),
            CallerContext { tenant, role, client, trace: CallTrace::own() },
        )
    }

    /// The jobs of all tenants that are known, newest first.
    pub async fn list_all(&self) -> Vec<JobHandle> {
        self.supervisor.list(None).await
    }

    /// What fills the gaps of submissions now.
    pub(super) fn defaults(&self) -> Arc<SubmissionDefaults> {
        Arc::clone(&self.defaults.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn replace_defaults(&self, defaults: SubmissionDefaults) {
        *self.defaults.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(defaults);
    }

    /// What masks secrets in text that leaves the yard.
    #[must_use]
    pub fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.gate.rules().redactor)
    }

    /// Frees the oldest finished jobs that store anything, until they have given back so many
    /// bytes or there are none left. Does not wait for it.
    #[cfg(test)]
    pub(super) fn sweep_for(&self, bytes: u64) {
        self.supervisor.sweep_for(bytes);
    }

    /// Watches the system's pressure from now on, and holds starts back by it.
    pub fn watch_pressure(&self, wishes: watch::Receiver<PressureWatch>) {
        self.supervisor.watch_pressure(wishes);
    }

    /// From now on these caps on stored output hold, for running jobs too.
    pub(super) fn change_quota(&self, limits: QuotaLimits) {
        events::store_limit_set(limits.store_bytes);
        self.quota.change(limits);
    }

    /// What is going on in the queue; nothing once the yard is gone.
    pub async fn figures(&self) -> Option<QueueStats> {
        self.supervisor.figures().await
    }

    /// Takes no more work, lets running jobs go on for `patience`, then ends what is left,
    /// survivors included. Returns once nothing runs, or the last bound has passed.
    pub async fn drain(&self, patience: Duration, grace: Duration) {
        let jobs = self.supervisor.close().await;
        self.tenancy.close();
        // Whoever is not done by then is told to end.
        drop(tokio::time::timeout(patience, all_finished(&jobs)).await);
        let wish = StopRequest { by: StopBy::Shutdown, signal: None, grace: Some(grace) };
        for job in &jobs {
            job.stop(wish);
        }
        // SIGKILL follows the grace period; verifying it takes a moment more.
        let last = grace + Duration::from_secs(3);
        drop(tokio::time::timeout(last, all_gone(&jobs)).await);
        let gate = Arc::clone(&self.gate);
        // Whatever came of it is told there.
        tokio::task::spawn_blocking(move || gate.finish_audit()).await.ok();
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

// Control of the queue by the operator. Each call is written to the audit log.

#[cfg(test)]
use crate::supervisor::Pressure;

/// Everything that a running yard can take over.
#[derive(Debug)]
pub struct LiveSettings {
    /// What may run, where, and what is masked.
    pub rules: AdmissionRules,
    /// Defaults and bounds of submissions.
    pub defaults: SubmissionDefaults,
    /// Bounds of the queue.
    pub queue: QueueLimits,
    /// Caps on stored output.
    pub quota: QuotaLimits,
}

/// What becomes of the server once it has drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterDrain {
    /// It stays, and can take new jobs again.
    Stay,
    /// It ends.
    Exit,
}

impl JobService {
    /// Nothing starts any more, in this lane or at all; what runs goes on.
    ///
    /// # Errors
    /// When there is no such lane.
    pub async fn pause(&self, lane: Option<String>, by: CallerIdentity) -> Result<(), UnknownLane> {
        let what = which(lane.as_deref());
        self.supervisor.pause(lane).await?;
        self.operated("queue_paused", &what, by);
        Ok(())
    }

    /// Jobs start again, in this lane or in all of them.
    ///
    /// # Errors
    /// When there is no such lane.
    pub async fn resume(
        &self,
        lane: Option<String>,
        by: CallerIdentity,
    ) -> Result<(), UnknownLane> {
        let what = which(lane.as_deref());
        self.supervisor.resume(lane).await?;
        self.operated("queue_resumed", &what, by);
        Ok(())
    }

    /// From now on no new job is taken; those that wait and run go on to their ends.
    pub async fn begin_drain(&self, after: AfterDrain, by: CallerIdentity) {
        self.supervisor.begin_drain().await;
        let what = match after {
            AfterDrain::Stay => "no new jobs are taken",
            AfterDrain::Exit => "no new jobs are taken, and the server ends after the last one",
        };
        self.operated("drain_begun", what, by);
    }

    /// New jobs are taken again, unless the server is shutting down.
    pub async fn end_drain(&self, by: CallerIdentity) {
        self.supervisor.end_drain().await;
        self.operated("drain_ended", "new jobs are taken again", by);
    }

    /// From now on all of this holds; jobs that are accepted already go on as they were accepted.
    /// `changed` are the settings that differ from before.
    pub async fn apply_settings(
        &self,
        tuning: LiveSettings,
        by: CallerIdentity,
        changed: &[String],
    ) {
        let LiveSettings { rules, defaults, queue, quota } = tuning;
        self.gate.replace(rules);
        self.spilled.forget_packed();
        self.replace_defaults(defaults);
        self.supervisor.change_limits(queue).await;
        self.change_quota(quota);
        let what = if changed.is_empty() { "nothing changed".into() } else { changed.join(", ") };
        self.operated("settings_reloaded", &what, by);
    }

    /// Writes down that new settings could not be used, and the old ones hold.
    pub fn record_refused_reload(&self, why: &str, by: CallerIdentity) {
        self.operated("reload_refused", why, by);
    }

    /// Writes down which log lines are written from now on.
    pub fn record_log_filter(&self, what: &str, by: CallerIdentity) {
        self.operated("log_filter_changed", what, by);
    }

    /// All figures of the queue.
    pub async fn queue_overview(&self) -> QueueOverview {
        self.supervisor.overview().await
    }

    /// From now on the host is short of this, or of nothing.
    #[cfg(test)]
    pub(super) fn set_pressure(&self, pressure: Option<Pressure>) {
        self.supervisor.set_pressure(pressure);
    }

    /// Somebody who may has changed what concerns all tenants.
    fn operated(&self, what: &str, detail: &str, by: CallerIdentity) {
        events::operator_action(what, detail, by.tenant);
        self.gate.note(what, &format!("{detail} (by {})", by.tenant));
    }
}

fn which(lane: Option<&str>) -> String {
    lane.map_or_else(|| "all lanes".to_owned(), |lane| format!("lane {lane}"))
}

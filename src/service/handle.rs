//! The public handle of the service, with the operator's control over it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use ractor::SpawnErr;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::admission::{AdmissionControl, AdmissionRules, AuditTrail};
use super::approval::Approvals;
use super::awaiting_approval::ParkedSubmissions;
use super::caller_history::{EmptyWaits, SeenOutputs, UnreportedJobs};
use super::output::OutputDownloads;
use super::restore::{JobNumbers, PreviousServer, restore_jobs};
use super::submission::{CallerContext, CallerIdentity, SubmissionDefaults};
use super::tenant_client::TenantClient;
use crate::block_in_place;
use crate::confinement::SandboxPaths;
use crate::exec_gate::GateSettings;
use crate::ids::{CallerSession, JobId, TenantId};
use crate::job::{JobHandle, JobVariables, SharedJobSettings, StopRequest};
use crate::outcome::StopBy;
use crate::output::redaction::Redactor;
use crate::output::{Quota, QuotaLimits};
use crate::spec::JobKind;
use crate::supervisor::{
    PressureWatch, QueueLimits, QueueOverview, Retention, Supervisor, SupervisorSettings,
    UnknownLane,
};
use crate::telemetry::{QueueStats, events};
use crate::trace::CallTrace;

/// The job service of one server, for all tenants. Cheap to clone.
///
/// Callers use it through a [`TenantClient`], which sees the jobs of one tenant.
#[derive(Debug, Clone)]
pub struct JobService {
    pub(super) supervisor: Supervisor,
    defaults: Arc<RwLock<Arc<SubmissionDefaults>>>,
    pub(super) admission: Arc<AdmissionControl>,
    pub(super) job_numbers: Arc<JobNumbers>,
    pub(super) empty_waits: Arc<EmptyWaits>,
    pub(super) seen: Arc<SeenOutputs>,
    pub(super) unreported: Arc<UnreportedJobs>,
    /// The environment that jobs inherit.
    pub(super) environment: Arc<JobVariables>,
    pub(super) downloads: Arc<OutputDownloads>,
    /// The limits on stored output.
    quota: Arc<Quota>,
    /// The paths that confined jobs may write, and those hidden from them.
    pub(super) places: Arc<SandboxPaths>,
    pub(super) parked: Arc<ParkedSubmissions>,
    /// The audited reads of operators in the last minute.
    foreign_reads: Arc<RepeatedReads>,
    /// The longest time for which finished jobs are kept.
    pub(super) max_finished_age: Option<Duration>,
    /// Cancelled when another server takes over.
    pub(super) replaced: CancellationToken,
}

/// The most characters of a client's name.
const MAX_CLIENT_CHARS: usize = 100;

/// The settings of a [`JobService`].
#[derive(Debug)]
pub struct ServiceSettings {
    pub defaults: SubmissionDefaults,
    pub queue: QueueLimits,
    pub retention: Retention,
    /// The size from which finished logs are compressed, in bytes; `None` = never.
    pub compress_from: Option<u64>,
    pub job: SharedJobSettings,
    pub rules: AdmissionRules,
    pub audit: Option<AuditTrail>,
    /// The file that keeps job numbers across restarts; `None` = numbers start again at 1.
    pub numbers: Option<PathBuf>,
    /// The file that keeps the secret of tickets across restarts; `None` = tickets end with the
    /// server.
    pub tickets: Option<PathBuf>,
    /// The jobs that a previous server has left.
    pub previous: PreviousServer,
}

/// Returns a text that a client wrote about itself: masked, and not too long.
pub(super) fn clean_client_text(text: &str, redactor: &Redactor) -> String {
    let text: String = text.chars().take(MAX_CLIENT_CHARS).collect();
    redactor.mask_text(&text).into_owned()
}

impl JobService {
    /// Starts the service in this process.
    ///
    /// # Errors
    /// If the supervisor cannot be started, or the system has no random numbers.
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
            tickets,
            previous,
        } = settings;
        let environment = Arc::clone(&job.environment);
        let downloads = OutputDownloads::new(job.log.spill_dir.clone(), tickets.as_deref());
        let downloads = downloads.map_err(|error| SpawnErr::StartupFailed(error.into()))?;
        let quota = Arc::clone(&job.quota);
        let places = Arc::clone(&job.places);
        let max_finished_age = retention.all.age.into_iter().chain(retention.tenant.age).min();
        let (freed_sender, freed_jobs) = mpsc::unbounded_channel();
        let mut previous = previous;
        let recorded = std::mem::take(&mut previous.jobs.approvals);
        let job_numbers = Arc::new(JobNumbers::open(numbers, &previous.jobs.numbers));
        let approvals = Approvals::restore(job.journal.clone(), recorded);
        let admission = Arc::new(AdmissionControl::new(rules, audit, approvals, &job));
        block_in_place(|| job.gate.begin(job.environment.search_path()));
        // Last of all: dropping the processes ends their trees; after an error above the keeper tries
        // again.
        let processes = job.host.take_kept_processes();
        let restored = restore_jobs(previous, processes, &admission, &Arc::new(job.clone()));
        let settings = SupervisorSettings { queue, retention, compress_from, job, freed_sender };
        // Hands the restored jobs over to the supervisor, which owns all jobs from here on.
        let supervisor = Supervisor::start(settings, restored).await?;
        let seen = Arc::<SeenOutputs>::default();
        tokio::spawn(Arc::clone(&seen).forget_freed(freed_jobs));
        let defaults = Arc::new(RwLock::new(Arc::new(defaults)));
        let downloads = Arc::new(downloads);
        Ok(Self {
            supervisor,
            defaults,
            admission,
            job_numbers,
            environment,
            downloads,
            quota,
            places,
            parked: Arc::default(),
            foreign_reads: Arc::default(),
            empty_waits: Arc::default(),
            seen,
            unreported: Arc::default(),
            max_finished_age,
            replaced: CancellationToken::new(),
        })
    }

    /// Returns once the supervisor has failed so often that it is not restarted any more. The server
    /// should then exit, so that its service manager starts it again.
    pub async fn wait_until_failed(&self) {
        self.supervisor.wait_until_given_up().await;
    }

    /// Returns the view of one caller: the jobs of its tenant, and no others. `client` is the name of
    /// the calling program, and stands for its session unless the transport has one.
    #[must_use]
    pub fn tenant_client(&self, identity: CallerIdentity, client: &str) -> TenantClient {
        let client = clean_client_text(client, &self.redactor());
        let CallerIdentity { tenant, role } = identity;
        let session = CallerSession::Program(client.as_str().into());
        TenantClient::new(
            self.clone(),
            CallerContext {
                tenant,
                role,
                client,
                client_version: None,
                directory: None,
                session,
                trace: CallTrace::start(),
            },
        )
    }

    /// Returns the variables of the jobs of a client with this environment: those that the server's
    /// rules let pass. `withheld` are the names of variables that the client itself withholds.
    #[must_use]
    pub fn select_variables(
        &self,
        environment: Vec<(OsString, OsString)>,
        withheld: Vec<String>,
    ) -> JobVariables {
        self.environment.for_client(environment, withheld)
    }

    /// Lists the known jobs of all tenants, newest first.
    pub async fn list_all(&self) -> Vec<JobHandle> {
        self.supervisor.list(None).await
    }

    /// The directory of jobs that name none.
    #[must_use]
    pub fn default_directory(&self) -> PathBuf {
        self.defaults().cwd.clone()
    }

    /// The current defaults of submissions.
    pub(super) fn defaults(&self) -> Arc<SubmissionDefaults> {
        Arc::clone(&self.defaults.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The redactor that masks secrets in text that leaves the service.
    #[must_use]
    pub fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.admission.rules().redactor)
    }

    /// Starts to watch the host's pressure, and delays starts while it is high.
    pub fn watch_pressure(&self, settings: watch::Receiver<PressureWatch>) {
        self.supervisor.watch_pressure(settings);
    }

    /// Returns the figures for the metrics; `None` after the supervisor has ended.
    pub async fn queue_stats(&self) -> Option<QueueStats> {
        self.supervisor.queue_stats().await
    }

    /// Accepts no more jobs, and makes the calls that wait answer with what they know: another server
    /// takes over.
    pub async fn begin_handover(&self) {
        self.supervisor.begin_drain().await;
        // The next server starts the jobs that wait.
        self.supervisor.pause(None).await.ok();
        self.replaced.cancel();
    }

    /// Writes what is not recorded yet: the last job numbers and audit entries.
    pub async fn finish_records(&self) {
        self.job_numbers.close();
        self.finish_audit().await;
    }

    /// Accepts and starts no more jobs, lets running commands go on for `drain_time`, then ends the
    /// rest, services and survivors included. Queued jobs stay for the next server if there is a
    /// journal, and end otherwise. Returns once no process is left, or after a few seconds more.
    pub async fn drain(&self, drain_time: Duration, grace: Duration) {
        let jobs = self.supervisor.close().await;
        self.job_numbers.close();
        let mut commands = jobs.clone();
        commands.retain(|job| job.spec().kind == JobKind::Command);
        // Jobs that are still running after that are stopped.
        drop(tokio::time::timeout(drain_time, wait_all_finished(&commands)).await);
        let request = StopRequest { by: StopBy::Shutdown, signal: None, grace: Some(grace) };
        for job in &jobs {
            job.stop(request);
        }
        // SIGKILL follows the grace period; verifying it takes a moment more.
        let last = grace + Duration::from_secs(3);
        drop(tokio::time::timeout(last, wait_all_gone(&jobs)).await);
        // Calls that wait for a queued job answer with what they know: the next server starts it.
        self.replaced.cancel();
        self.finish_audit().await;
    }
}

async fn wait_all_finished(jobs: &[JobHandle]) {
    for job in jobs {
        job.finished().await;
    }
}

/// Waits until all jobs have finished and no process of their trees is left.
async fn wait_all_gone(jobs: &[JobHandle]) {
    wait_all_finished(jobs).await;
    for job in jobs {
        while !job.survivors().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The settings that a running service can apply.
#[derive(Debug)]
pub struct LiveSettings {
    pub rules: AdmissionRules,
    pub gate: GateSettings,
    pub defaults: SubmissionDefaults,
    pub queue: QueueLimits,
    pub quota: QuotaLimits,
}

/// An operator's use of the job of another tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignAccess {
    ReadState,
    ReadOutput,
    ReadDigest,
    Stop,
    /// Typed this many bytes.
    Input {
        bytes: usize,
    },
    Resize,
}

/// The next step of the server after a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterDrain {
    /// The server stays, and can accept new jobs again.
    Stay,
    Exit,
}

// Control by the operator. Each call is written to the audit log.
impl JobService {
    /// Starts no more jobs, in this lane or in all lanes; running jobs go on.
    ///
    /// # Errors
    /// If there is no such lane.
    pub async fn pause(&self, lane: Option<String>, by: CallerIdentity) -> Result<(), UnknownLane> {
        let what = describe_lane(lane.as_deref());
        self.supervisor.pause(lane).await?;
        self.record_operation("queue_paused", &what, by);
        Ok(())
    }

    /// Starts jobs again, in this lane or in all lanes.
    ///
    /// # Errors
    /// If there is no such lane.
    pub async fn resume(
        &self,
        lane: Option<String>,
        by: CallerIdentity,
    ) -> Result<(), UnknownLane> {
        let what = describe_lane(lane.as_deref());
        self.supervisor.resume(lane).await?;
        self.record_operation("queue_resumed", &what, by);
        Ok(())
    }

    /// Accepts no more jobs; waiting and running jobs go on to their ends.
    pub async fn begin_drain(&self, after: AfterDrain, by: CallerIdentity) {
        self.supervisor.begin_drain().await;
        let what = match after {
            AfterDrain::Stay => "no new jobs are accepted",
            AfterDrain::Exit => "no new jobs are accepted, and the server ends after the last one",
        };
        self.record_operation("drain_begun", what, by);
    }

    /// Accepts new jobs again, unless the server is shutting down.
    pub async fn end_drain(&self, by: CallerIdentity) {
        self.supervisor.end_drain().await;
        self.record_operation("drain_ended", "new jobs are taken again", by);
    }

    /// Applies new settings; jobs that are already accepted keep theirs. `changed` are the keys of the
    /// settings that differ from before.
    pub async fn apply_settings(
        &self,
        settings: LiveSettings,
        by: CallerIdentity,
        changed: &[String],
    ) {
        let LiveSettings { rules, gate, defaults, queue, quota } = settings;
        block_in_place(|| self.admission.replace_rules(rules, gate));
        self.downloads.clear();
        *self.defaults.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(defaults);
        self.supervisor.change_limits(queue).await;
        events::store_limit_set(quota.store_bytes);
        // The new limits apply to running jobs too.
        self.quota.change(quota);
        let what = if changed.is_empty() { "nothing changed".into() } else { changed.join(", ") };
        self.record_operation("settings_reloaded", &what, by);
    }

    /// Records that new settings were refused, and that the old ones stay in force.
    pub fn record_refused_reload(&self, why: &str, by: CallerIdentity) {
        self.record_operation("reload_refused", why, by);
    }

    /// Records that another version of the server takes over.
    pub fn record_upgrade(&self, by: CallerIdentity) {
        self.record_operation("upgrade_requested", "another server takes over the jobs", by);
    }

    /// Records a new log filter.
    pub fn record_log_filter(&self, what: &str, by: CallerIdentity) {
        self.record_operation("log_filter_changed", what, by);
    }

    /// Records that an operator read or changed the job of another tenant. A change is logged and
    /// audited at once. Reads are only audited, and those that repeat within a minute are one more
    /// entry: a program may read often.
    pub fn record_foreign_access(&self, access: ForeignAccess, job: JobId, by: CallerIdentity) {
        let tenant = job.tenant();
        match access {
            ForeignAccess::ReadState => self.audit_read("state", job, by),
            ForeignAccess::ReadOutput => self.audit_read("output", job, by),
            ForeignAccess::ReadDigest => self.audit_read("digest", job, by),
            ForeignAccess::Stop => {
                self.record_operation("job_stopped", &format!("job {job} of {tenant}"), by);
            }
            ForeignAccess::Input { bytes } => {
                let detail = format!("{bytes} bytes to job {job} of {tenant}");
                self.record_operation("job_input_sent", &detail, by);
            }
            ForeignAccess::Resize => {
                let detail = format!("terminal of job {job} of {tenant}");
                self.record_operation("job_terminal_resized", &detail, by);
            }
        }
    }

    fn audit_read(&self, part: &str, job: JobId, by: CallerIdentity) {
        let subject = format!("{part} of job {job} of {}", job.tenant());
        self.audit_foreign_read(ForeignRead { what: "job_read", subject, by: by.tenant });
    }

    fn audit_foreign_read(&self, read: ForeignRead) {
        match self.foreign_reads.count_read(&read) {
            ReadRecord::Repeated => return,
            ReadRecord::Single => {}
            ReadRecord::First => {
                let admission = Arc::clone(&self.admission);
                let reads = Arc::clone(&self.foreign_reads);
                let read = read.clone();
                // Hands the count over to a task, which writes it after that time. If the server ends
                // before, `finish_audit` writes it.
                tokio::spawn(async move {
                    tokio::time::sleep(REPEAT_TIME).await;
                    if let Some(detail) = reads.end(&read) {
                        admission.write_note(read.what, &detail);
                    }
                });
            }
        }
        self.admission.write_note(read.what, &read.to_string());
    }

    /// Writes the audit entries that are not written yet, before the server ends.
    async fn finish_audit(&self) {
        for (what, detail) in self.foreign_reads.end_all() {
            self.admission.write_note(what, &detail);
        }
        let admission = Arc::clone(&self.admission);
        // `finish_audit` reports its own failures.
        tokio::task::spawn_blocking(move || admission.finish_audit()).await.ok();
    }

    /// Records that an operator listed the jobs of another tenant, or of all.
    pub fn record_foreign_list(&self, tenant: Option<TenantId>, by: CallerIdentity) {
        let subject = format!("jobs of {}", tenant.map_or("all tenants", TenantId::name));
        self.audit_foreign_read(ForeignRead { what: "jobs_listed", subject, by: by.tenant });
    }

    /// Returns the state of the queue, its lanes and its tenants.
    pub async fn queue_overview(&self) -> QueueOverview {
        self.supervisor.overview().await
    }

    /// Logs and audits a change by an operator.
    fn record_operation(&self, what: &str, detail: &str, by: CallerIdentity) {
        events::operator_action(what, detail, by.tenant);
        self.admission.write_note(what, &format!("{detail} (by {})", by.tenant));
    }
}

fn describe_lane(lane: Option<&str>) -> String {
    lane.map_or_else(|| "all lanes".to_owned(), |lane| format!("lane {lane}"))
}

// Reads of other tenants' jobs for the audit log: a program that shows a list again every second adds
// one entry per minute, with a count.

/// The time in which the repetitions of a read are counted.
const REPEAT_TIME: Duration = Duration::from_secs(60);

/// The most reads whose repetitions are counted at a time. Each further one is an entry of its own.
const MAX_READS: usize = 1000;

/// A read by an operator, as the audit log describes it. Equal reads are repetitions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ForeignRead {
    /// The word of the entry.
    what: &'static str,
    /// The object of the read, such as `output of job 3 of alice`.
    subject: String,
    by: TenantId,
}

impl fmt::Display for ForeignRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (by {})", self.subject, self.by)
    }
}

/// The way in which the audit log records a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadRecord {
    /// The first of its kind: it is an entry, and its repetitions are counted from now on.
    First,
    /// It is an entry; its repetitions are not counted.
    Single,
    /// It is counted, and is no entry.
    Repeated,
}

/// The reads whose repetitions are counted, each with their number so far.
#[derive(Debug, Default)]
struct RepeatedReads {
    reads: Mutex<HashMap<ForeignRead, u64>>,
}

impl RepeatedReads {
    /// Counts a read, if it is a repetition, and returns the way in which it is recorded.
    fn count_read(&self, read: &ForeignRead) -> ReadRecord {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = reads.len() >= MAX_READS;
        match reads.entry(read.clone()) {
            Entry::Occupied(mut repetitions) => {
                *repetitions.get_mut() += 1;
                ReadRecord::Repeated
            }
            Entry::Vacant(_) if is_full => ReadRecord::Single,
            Entry::Vacant(first) => {
                first.insert(0);
                ReadRecord::First
            }
        }
    }

    /// Ends the count of a read. Returns the text about its repetitions, if there were any.
    fn end(&self, read: &ForeignRead) -> Option<String> {
        let repetitions = self.reads.lock().unwrap_or_else(PoisonError::into_inner).remove(read)?;
        describe_repetitions(read, repetitions)
    }

    /// Ends all counts. Returns the word and the text about the repetitions of each read that had any.
    fn end_all(&self) -> Vec<(&'static str, String)> {
        let reads = std::mem::take(&mut *self.reads.lock().unwrap_or_else(PoisonError::into_inner));
        let describe = |(read, repetitions): (ForeignRead, u64)| {
            Some((read.what, describe_repetitions(&read, repetitions)?))
        };
        reads.into_iter().filter_map(describe).collect()
    }
}

fn describe_repetitions(read: &ForeignRead, repetitions: u64) -> Option<String> {
    let ForeignRead { subject, by, .. } = read;
    match repetitions {
        0 => None,
        1 => Some(format!("{subject}, once more within a minute (by {by})")),
        more => Some(format!("{subject}, {more} more times within a minute (by {by})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(subject: &str) -> ForeignRead {
        ForeignRead { what: "job_read", subject: subject.to_owned(), by: TenantId::LOCAL }
    }

    #[test]
    fn repetitions_are_counted_until_their_time_is_over() {
        let reads = RepeatedReads::default();
        let (output, state) = (read("output of job 1 of a"), read("state of job 1 of a"));
        assert_eq!(reads.count_read(&output), ReadRecord::First);
        assert_eq!(reads.end(&output), None, "nothing was repeated");
        assert_eq!(reads.count_read(&output), ReadRecord::First);
        assert_eq!(reads.count_read(&state), ReadRecord::First, "another kind is counted apart");
        assert_eq!(reads.count_read(&output), ReadRecord::Repeated);
        let once = "output of job 1 of a, once more within a minute (by local)";
        assert_eq!(reads.end(&output).as_deref(), Some(once));
        assert_eq!(reads.end(&output), None, "it is told once");
        for _ in 0..3 {
            assert_eq!(reads.count_read(&state), ReadRecord::Repeated);
        }
        let three = "state of job 1 of a, 3 more times within a minute (by local)".to_owned();
        assert_eq!(reads.end_all(), [("job_read", three)]);
        assert_eq!(reads.end_all(), []);
    }

    #[test]
    fn no_read_is_left_out_when_there_are_too_many_kinds() {
        let reads = RepeatedReads::default();
        let name = |number: usize| read(&format!("state of job {number} of a"));
        for number in 0..MAX_READS {
            assert_eq!(reads.count_read(&name(number)), ReadRecord::First);
        }
        for _ in 0..2 {
            assert_eq!(reads.count_read(&name(MAX_READS)), ReadRecord::Single);
        }
        assert_eq!(reads.count_read(&name(0)), ReadRecord::Repeated);
    }
}

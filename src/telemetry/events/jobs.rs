//! Events of jobs, from submission to end, and of their output.

use std::fmt::{self, Display};
use std::time::{Duration, Instant};

use tracing::field;

use super::host::millis;
use crate::confinement::GrantedConfinement;
use crate::ids::{JobId, TenantId};
use crate::outcome::{JobEnding, JobFault, LimitKind, Outcome, ResourceUsage};
use crate::output::DropReason;
use crate::spec::Stream;
use crate::telemetry::exporter;
use crate::telemetry::labels::{
    ApprovalStep, FreedReason, GateLabel, MERGED, RejectionReason, key,
};
use crate::telemetry::logging::DOCUMENTED_TARGET;
use crate::telemetry::names::{Counter, jobs, journal, output, report_labels, tenants};

/// The number of characters of a command that are logged.
const COMMAND_CHARS: usize = 500;

/// The limits of the queue and of the retention of finished jobs were set.
pub fn limits_set(limits: ServerLimits) {
    jobs::RUNNING_LIMIT.set_count(limits.slots);
    jobs::QUEUED_LIMIT.set_count(limits.queued);
    jobs::RETAINED_LIMIT.set_count(limits.retained);
    output::RETAINED_LIMIT.unlabeled().set(limits.retained_bytes.unwrap_or(0) as f64);
}

/// Limits that are exported beside the usage that they bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Jobs that may run at once.
    pub slots: usize,
    /// Jobs that may be queued.
    pub queued: usize,
    /// Finished jobs that stay readable.
    pub retained: usize,
    /// Bytes of output that finished jobs may store; `None` = no separate limit.
    pub retained_bytes: Option<u64>,
}

/// A command as log lines show it: its first characters, with `…` if it is longer.
#[derive(Clone)]
pub struct LoggedCommand(String);

impl LoggedCommand {
    #[must_use]
    pub fn new(command: &str) -> Self {
        let end = command.char_indices().nth(COMMAND_CHARS).map(|(end, _)| end);
        Self(end.map_or_else(|| command.to_owned(), |end| format!("{}…", &command[..end])))
    }
}

/// Quoted and escaped, so that a command cannot start a log line of its own.
impl fmt::Debug for LoggedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A submitted job was accepted. At `info`, only the end of a job is logged.
pub fn job_submitted(id: JobId, command: &LoggedCommand) {
    tracing::debug!(tenant = %id.tenant(), job_id = %id, ?command, "job submitted");
    jobs::SUBMITTED.unlabeled().increment(1);
    count_for_tenant(tenants::SUBMITTED, id.tenant(), 1);
}

/// A job was accepted with this confinement.
pub fn job_confined(granted: GrantedConfinement) {
    let degraded = if granted.is_degraded() { "true" } else { "false" };
    let labels = [
        (key::PROFILE, granted.effective.profile.word()),
        (key::BACKEND, granted.backend.word()),
        (key::DEGRADED, degraded),
    ];
    jobs::CONFINED.with_labels(&labels).increment(1);
}

/// The report of a tool was found in the output of a finished job: registers the series of both
/// results, at zero, and counts this one.
pub fn tool_reported(tool: &'static str, has_failures: bool) {
    drop(jobs::REPORTS.with_labels(&report_labels(tool, !has_failures)));
    jobs::REPORTS.with_labels(&report_labels(tool, has_failures)).increment(1);
}

/// A submitted job was rejected.
pub fn job_rejected(tenant: TenantId, reason: RejectionReason) {
    tracing::info!(%tenant, reason = reason.word(), "job rejected");
    jobs::REJECTED.with_label((key::REASON, reason.word())).increment(1);
    count_for_tenant(tenants::REJECTED, tenant, 1);
}

/// The approval of a command reached a step.
pub fn approval_step(tenant: TenantId, step: ApprovalStep) {
    tracing::info!(%tenant, step = step.word(), "approval step");
    jobs::APPROVALS.with_label((key::STEP, step.word())).increment(1);
}

/// The allow list is enforced at this level from now on; `why` says why it is not a gate.
pub fn exec_gate_set(level: GateLabel, why: Option<&str>) {
    match why {
        Some(why) => tracing::warn!(level = level.word(), why, "no exec gate"),
        None => tracing::debug!(level = level.word(), "exec gate"),
    }
    for word in GateLabel::WORDS {
        let is_current = if word == level.word() { 1.0 } else { 0.0 };
        jobs::EXEC_GATE_INFO.with_label((key::LEVEL, word)).set(is_current);
    }
}

/// The exec gate has judged this many starts of programs, and refused this many of them.
pub fn starts_judged(judged: u64, refused: u64) {
    jobs::STARTS_JUDGED.unlabeled().increment(judged);
    jobs::STARTS_REFUSED.unlabeled().increment(refused);
}

/// The exec gate of a job refused the start of a program. `what` has its secrets masked.
pub fn start_refused(id: JobId, what: &str) {
    tracing::info!(tenant = %id.tenant(), job_id = %id, what, "program start refused");
}

/// A job left the queue after `queued` and runs. The line about its end shows `command`.
#[must_use = "dropping the guard counts the job as over"]
pub fn job_started(id: JobId, queued: Duration, command: Option<LoggedCommand>) -> ActiveJob {
    tracing::debug!(tenant = %id.tenant(), job_id = %id, queued_ms = millis(queued), "job started");
    jobs::QUEUE_WAIT.unlabeled().record(queued);
    jobs::RUNNING.unlabeled().increment(1);
    let end = JobEndLabels::LOST;
    ActiveJob { id, command, queued: Some(queued), started: Instant::now(), end, stopping: None }
}

/// A job that a previous server started at `started` goes on.
#[must_use = "dropping the guard counts the job as over"]
pub fn job_resumed(id: JobId, started: Instant) -> ActiveJob {
    tracing::info!(tenant = %id.tenant(), job_id = %id, "job resumed");
    journal::RESUMED.unlabeled().increment(1);
    jobs::RUNNING.unlabeled().increment(1);
    let end = JobEndLabels::LOST;
    ActiveJob { id, command: None, queued: None, started, end, stopping: None }
}

/// A job ended before it ran, for example because it was stopped in the queue.
pub fn job_ended_before_start(id: JobId, outcome: &Outcome, command: Option<&LoggedCommand>) {
    let end = JobEndLabels::from_outcome(outcome);
    let command = command.map(field::debug);
    tracing::info!(tenant = %id.tenant(), job_id = %id, command, outcome = end.outcome, elapsed_ms = 0, "job finished");
    count_end(id.tenant(), end);
}

/// The label values for the end of a job.
#[derive(Debug, Clone, Copy)]
struct JobEndLabels {
    outcome: &'static str,
    fault: Option<JobFault>,
    limit: Option<LimitKind>,
}

impl JobEndLabels {
    /// The labels of a job whose outcome was never reported.
    const LOST: Self = Self { outcome: "lost", fault: Some(JobFault::Server), limit: None };

    const fn from_outcome(outcome: &Outcome) -> Self {
        let limit = match outcome {
            Outcome::Limit { which } => Some(*which),
            Outcome::Exited { .. }
            | Outcome::Signaled { .. }
            | Outcome::TimedOut { .. }
            | Outcome::Stopped { .. }
            | Outcome::NotRun { .. }
            | Outcome::FailedToStart(_)
            | Outcome::Lost { .. } => None,
        };
        Self { outcome: outcome.word(), fault: outcome.fault(), limit }
    }
}

/// A running job. Dropping it counts the job as over, on every path.
#[derive(Debug)]
pub struct ActiveJob {
    id: JobId,
    /// `None` if it is unknown.
    command: Option<LoggedCommand>,
    /// The time in the queue; `None` if a previous server started the job.
    queued: Option<Duration>,
    started: Instant,
    end: JobEndLabels,
    stopping: Option<StoppingGuard>,
}

impl ActiveJob {
    /// Sets the command that the line about the job's end shows.
    pub fn set_command(&mut self, command: LoggedCommand) {
        self.command = Some(command);
    }

    /// Counts the job as stopping.
    pub fn mark_stopping(&mut self) {
        self.stopping.get_or_insert_with(StoppingGuard::new);
    }

    /// Records the end of the job, which wrote `written` bytes. Without this call it counts as lost.
    pub fn finish(mut self, ending: &JobEnding, written: u64) {
        self.end = JobEndLabels::from_outcome(&ending.outcome);
        jobs::OUTPUT.unlabeled().record(written as f64);
        count_for_tenant(tenants::OUTPUT, self.id.tenant(), written);
        record_usage(&ending.usage);
    }
}

/// Records the usage of a job. Unknown values are left out: zeros would lower every quantile.
fn record_usage(usage: &ResourceUsage) {
    if !usage.cpu.is_zero() {
        jobs::CPU.unlabeled().record(usage.cpu);
    }
    if usage.max_rss_bytes > 0 {
        jobs::PEAK_MEMORY.unlabeled().record(usage.max_rss_bytes as f64);
    }
}

/// Counts a finished job as one of which processes still run, for as long as this value exists.
#[derive(Debug)]
pub struct SurvivingJob(());

/// A job finished while processes of it still run.
#[must_use]
pub fn job_survived() -> SurvivingJob {
    jobs::SURVIVING.unlabeled().increment(1);
    SurvivingJob(())
}

impl Drop for SurvivingJob {
    fn drop(&mut self) {
        jobs::SURVIVING.unlabeled().decrement(1);
    }
}

/// Counts a job as stopping for as long as it exists.
#[derive(Debug)]
struct StoppingGuard(());

impl StoppingGuard {
    fn new() -> Self {
        jobs::STOPPING.unlabeled().increment(1);
        Self(())
    }
}

impl Drop for StoppingGuard {
    fn drop(&mut self) {
        jobs::STOPPING.unlabeled().decrement(1);
    }
}

impl Drop for ActiveJob {
    fn drop(&mut self) {
        let elapsed = self.started.elapsed();
        jobs::RUNNING.unlabeled().decrement(1);
        jobs::DURATION.unlabeled().record(elapsed);
        let Self { id, end, .. } = *self;
        let command = self.command.as_ref().map(field::debug);
        let queued_ms = self.queued.map(millis);
        let elapsed_ms = millis(elapsed);
        tracing::info!(tenant = %id.tenant(), job_id = %id, command, queued_ms, outcome = end.outcome, elapsed_ms, "job finished");
        count_end(id.tenant(), end);
    }
}

fn count_end(tenant: TenantId, end: JobEndLabels) {
    let JobEndLabels { outcome, fault, limit } = end;
    jobs::FINISHED.with_label((key::OUTCOME, outcome)).increment(1);
    count_for_tenant(tenants::FINISHED, tenant, 1);
    if let Some(fault) = fault {
        jobs::FAILED.with_label((key::FAULT, fault.word())).increment(1);
    }
    if let Some(limit) = limit {
        jobs::OVERRAN.with_label((key::LIMIT, limit.word())).increment(1);
    }
}

/// Adds to the series of a tenant, or to `other` if the tenant has no series.
fn count_for_tenant(counter: Counter, tenant: TenantId, count: u64) {
    counter.with_label((key::TENANT, exporter::tenant_label(tenant))).increment(count);
}

/// The number of queued jobs changed.
pub fn queue_length_changed(queued: usize) {
    jobs::QUEUED.set_count(queued);
}

/// A command with verbose logging (`server shell --verbose`) is about to run.
pub fn command_executing(command: &str) {
    tracing::info!(target: DOCUMENTED_TARGET, "[mcpz] Executing: {}", escape_controls(command));
}

/// A command with verbose logging ended.
pub fn command_exited(code: &str) {
    tracing::info!(target: DOCUMENTED_TARGET, "[mcpz] Exit code: {code}");
}

/// A command with verbose logging could not run.
pub fn command_failed(why: &str) {
    tracing::info!(target: DOCUMENTED_TARGET, "[mcpz] Error: {}", escape_controls(why));
}

/// Escapes control characters, so that the text cannot start a log line of its own.
fn escape_controls(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

// Output.

/// The number of readable finished jobs and their stored bytes changed.
pub fn retained_changed(finished: usize, bytes: u64) {
    jobs::RETAINED.set_count(finished);
    output::RETAINED.unlabeled().set(bytes as f64);
}

/// A job wrote bytes to one stream, or to both if they are merged, whether or not the bytes could be
/// stored.
pub fn output_written(stream: Option<Stream>, bytes: u64) {
    let stream = stream.map_or(MERGED, Stream::name);
    output::BYTES_WRITTEN.with_label((key::STREAM, stream)).increment(bytes);
}

/// The limit on stored output was set.
pub fn store_limit_set(bytes: u64) {
    output::STORED_LIMIT.unlabeled().set(bytes as f64);
}

/// The limit on memory for reading output was set.
pub fn read_memory_limit_set(bytes: u64) {
    output::READ_MEMORY_LIMIT.unlabeled().set(bytes as f64);
}

/// A finished job was freed; its output took `bytes`.
pub fn job_freed(id: JobId, reason: FreedReason, bytes: u64) {
    tracing::debug!(tenant = %id.tenant(), job_id = %id, reason = reason.word(), bytes, "job freed");
    output::FREED_JOBS.with_label((key::REASON, reason.word())).increment(1);
    output::FREED_BYTES.unlabeled().increment(bytes);
}

/// The output of a job can no longer be stored whole. Reported once per job.
pub fn output_dropped(id: JobId, reason: DropReason) {
    tracing::warn!(tenant = %id.tenant(), job_id = %id, reason = reason.word(), "output dropped, the job continues");
}

/// Stored output could not be read or sent.
pub fn output_unreadable(id: JobId, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(tenant = %id.tenant(), job_id = %id, ?why, "output not readable");
}

/// The output of an ended job is logged, or the part of it that the caller passes.
pub fn output_logged(id: JobId, stdout: &str, stderr: &str) {
    tracing::info!(tenant = %id.tenant(), job_id = %id, ?stdout, ?stderr, "job output");
}

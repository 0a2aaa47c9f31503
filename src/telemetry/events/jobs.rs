//! Jobs, from their submission to their end.

use std::fmt::Display;
use std::time::{Duration, Instant};

use super::host::millis;
use crate::confinement::GrantedConfinement;
use crate::ids::{JobId, TenantId};
use crate::outcome::{JobEnding, JobFault, LimitKind, Outcome, ResourceUsage};
use crate::output::{Counters, DropReason};
use crate::spec::Stream;
use crate::telemetry::labels::{ActorKind, ApprovalStep, FreedReason, RejectionReason, key};
use crate::telemetry::names::{Counter, actors, jobs, output, tenants};
use crate::telemetry::queue_gauges;

/// Characters of a command that are logged.
const COMMAND_CHARS: usize = 500;

/// Sets the gauges that tell how much of each thing there may be.
pub fn limits_set(limits: ServerLimits) {
    jobs::RUNNING_LIMIT.set_count(limits.slots);
    jobs::QUEUED_LIMIT.set_count(limits.queued);
    jobs::RETAINED_LIMIT.set_count(limits.retained);
    output::RETAINED_LIMIT.unlabeled().set(limits.retained_bytes.unwrap_or(0) as f64);
}

/// Bounds that stand beside their use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Jobs that may run at one time.
    pub slots: usize,
    /// Jobs that may wait.
    pub queued: usize,
    /// Finished jobs that stay readable.
    pub retained: usize,
    /// What they may store; `None` = no bound of its own.
    pub retained_bytes: Option<u64>,
}

/// A job was accepted.
pub fn job_submitted(id: JobId, command: &str) {
    tracing::info!(tenant = %id.tenant(), job_id = %id, command = ?shortened(command), "job submitted");
    jobs::SUBMITTED.unlabeled().increment(1);
    of_tenant(tenants::SUBMITTED, id.tenant(), 1);
}

/// An accepted job is confined like this.
pub fn job_confined(granted: GrantedConfinement) {
    let degraded = if granted.is_degraded() { "true" } else { "false" };
    let labels = [
        (key::PROFILE, granted.effective.profile.word()),
        (key::BACKEND, granted.backend.word()),
        (key::DEGRADED, degraded),
    ];
    jobs::CONFINED.with_labels(&labels).increment(1);
}

/// A job was not accepted.
pub fn job_rejected(tenant: TenantId, reason: RejectionReason) {
    tracing::info!(%tenant, reason = reason.word(), "job rejected");
    jobs::REJECTED.with_label((key::REASON, reason.word())).increment(1);
    of_tenant(tenants::REJECTED, tenant, 1);
}

/// A command that somebody must agree to came this far.
pub fn approval_step(tenant: TenantId, step: ApprovalStep) {
    tracing::info!(%tenant, step = step.word(), "approval");
    jobs::APPROVALS.with_label((key::STEP, step.word())).increment(1);
}

/// A job left the queue after this long and runs.
#[must_use = "dropping the guard counts the job as over"]
pub fn job_started(id: JobId, queued: Duration) -> ActiveJob {
    tracing::info!(tenant = %id.tenant(), job_id = %id, queued_ms = millis(queued), "job started");
    jobs::QUEUE_WAIT.unlabeled().record(queued);
    jobs::RUNNING.unlabeled().increment(1);
    ActiveJob { id, started: Instant::now(), end: End::LOST, stopping: None }
}

/// A job ended without ever having run: stopped while it waited, for instance.
pub fn job_ended_before_start(id: JobId, outcome: &Outcome) {
    job_over(id, End::of(outcome), Duration::ZERO);
}

/// How a job ended, in words.
#[derive(Debug, Clone, Copy)]
struct End {
    outcome: &'static str,
    fault: Option<JobFault>,
    limit: Option<LimitKind>,
}

impl End {
    /// What it reads as when nobody said how the job ended.
    const LOST: Self = Self { outcome: "lost", fault: Some(JobFault::Server), limit: None };

    const fn of(outcome: &Outcome) -> Self {
        let limit = match outcome {
            Outcome::Limit { which } => Some(*which),
            Outcome::Exited { .. }
            | Outcome::Signaled { .. }
            | Outcome::TimedOut { .. }
            | Outcome::Stopped { .. }
            | Outcome::FailedToStart(_)
            | Outcome::Lost { .. } => None,
        };
        Self { outcome: outcome.word(), fault: outcome.fault(), limit }
    }
}

/// A job that runs. Dropping it counts the job as over, on every way out.
#[derive(Debug)]
pub struct ActiveJob {
    id: JobId,
    started: Instant,
    end: End,
    stopping: Option<Stopping>,
}

impl ActiveJob {
    /// From now on the job is being ended.
    pub fn mark_stopping(&mut self) {
        self.stopping.get_or_insert_with(Stopping::begin);
    }

    /// The job is over, and had written so many bytes. Without this it counts as lost.
    pub fn finish(mut self, ending: &JobEnding, written: u64) {
        self.end = End::of(&ending.outcome);
        jobs::OUTPUT.unlabeled().record(written as f64);
        of_tenant(tenants::OUTPUT, self.id.tenant(), written);
        used(&ending.usage);
    }
}

/// What is not known is left out: zeroes would pull every quantile down.
fn used(usage: &ResourceUsage) {
    if !usage.cpu.is_zero() {
        jobs::CPU.unlabeled().record(usage.cpu);
    }
    if usage.max_rss_bytes > 0 {
        jobs::PEAK_MEMORY.unlabeled().record(usage.max_rss_bytes as f64);
    }
}

/// A job that is being ended. Dropping it counts that as over.
#[derive(Debug)]
struct Stopping(());

impl Stopping {
    fn begin() -> Self {
        jobs::STOPPING.unlabeled().increment(1);
        Self(())
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        jobs::STOPPING.unlabeled().decrement(1);
    }
}

impl Drop for ActiveJob {
    fn drop(&mut self) {
        let elapsed = self.started.elapsed();
        jobs::RUNNING.unlabeled().decrement(1);
        jobs::DURATION.unlabeled().record(elapsed);
        job_over(self.id, self.end, elapsed);
    }
}

fn job_over(id: JobId, End { outcome, fault, limit }: End, elapsed: Duration) {
    tracing::info!(tenant = %id.tenant(), job_id = %id, outcome, elapsed_ms = millis(elapsed), "job finished");
    jobs::FINISHED.with_label((key::OUTCOME, outcome)).increment(1);
    of_tenant(tenants::FINISHED, id.tenant(), 1);
    if let Some(fault) = fault {
        jobs::FAILED.with_label((key::FAULT, fault.word())).increment(1);
    }
    if let Some(limit) = limit {
        jobs::OVERRAN.with_label((key::LIMIT, limit.word())).increment(1);
    }
}

/// Counts something for the tenant, or for all others where it has no series of its own.
fn of_tenant(counter: Counter, tenant: TenantId, count: u64) {
    counter.with_label((key::TENANT, queue_gauges::label_of(tenant))).increment(count);
}

/// The queue now holds this many jobs.
pub fn queue_length_changed(queued: usize) {
    jobs::QUEUED.set_count(queued);
}

/// A command whose caller wants to see it is about to run.
pub fn command_executing(command: &str) {
    tracing::info!("[mcpz] Executing: {}", on_one_line(&shortened(command)));
}

/// A command whose caller wants to see it has ended.
pub fn command_exited(code: &str) {
    tracing::info!("[mcpz] Exit code: {code}");
}

/// A command whose caller wants to see it could not run.
pub fn command_failed(why: &str) {
    tracing::info!("[mcpz] Error: {}", on_one_line(why));
}

/// An actor failed.
pub fn actor_failed(actor: ActorKind, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(actor = actor.word(), ?why, "actor failed");
    actors::FAILURES.with_label((key::ACTOR, actor.word())).increment(1);
}

/// The command's first characters, with a mark where more follow.
fn shortened(command: &str) -> String {
    let mut short: String = command.chars().take(COMMAND_CHARS).collect();
    if short.len() < command.len() {
        short.push('…');
    }
    short
}

/// The text without anything that could begin a line of its own.
fn on_one_line(text: &str) -> String {
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

// What jobs write, and what becomes of it.

/// This many finished jobs are now readable, and store so much.
pub fn retained_changed(finished: usize, bytes: u64) {
    jobs::RETAINED.set_count(finished);
    output::RETAINED.unlabeled().set(bytes as f64);
}

/// A job wrote bytes, whether or not they could be kept.
pub fn output_written(stream: Stream, bytes: u64) {
    output::BYTES_WRITTEN.with_label((key::STREAM, stream.name())).increment(bytes);
}

/// Shows the counts of all logs, as they are now.
pub(in crate::telemetry) fn update_output_metrics(counters: &Counters) {
    for (tier, bytes) in counters.stored() {
        output::STORED.with_label((key::TIER, tier.word())).set(bytes as f64);
    }
    for (reason, bytes) in counters.dropped() {
        output::DROPPED.with_label((key::REASON, reason)).absolute(bytes);
    }
    for (operation, count) in counters.spill_errors() {
        output::SPILL_ERRORS.with_label((key::OPERATION, operation.word())).absolute(count);
    }
    output::COMPRESSED.unlabeled().absolute(counters.compressed());
    output::READ_MEMORY.unlabeled().set(counters.read_memory() as f64);
    output::READS_REFUSED.unlabeled().absolute(counters.reads_refused());
}

/// All logs together may hold so much.
pub fn store_limit_set(bytes: u64) {
    output::STORED_LIMIT.unlabeled().set(bytes as f64);
}

/// All reads of output together may take so much memory.
pub fn read_memory_limit_set(bytes: u64) {
    output::READ_MEMORY_LIMIT.unlabeled().set(bytes as f64);
}

/// A finished job was freed; its output had taken so many bytes.
pub fn job_freed(id: JobId, reason: FreedReason, bytes: u64) {
    tracing::info!(tenant = %id.tenant(), job_id = %id, reason = reason.word(), bytes, "job freed");
    output::FREED_JOBS.with_label((key::REASON, reason.word())).increment(1);
    output::FREED_BYTES.unlabeled().increment(bytes);
}

/// A job's output can no longer be kept whole; told once for each job.
pub fn output_dropped(id: JobId, reason: DropReason) {
    tracing::warn!(tenant = %id.tenant(), job_id = %id, reason = reason.word(), "output dropped, the job goes on");
}

/// Stored output could not be read, or not sent.
pub fn output_unreadable(id: JobId, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(tenant = %id.tenant(), job_id = %id, ?why, "output not readable");
}

/// A job ended whose output is to be in the log, as far as it is given here.
pub fn output_logged(id: JobId, stdout: &str, stderr: &str) {
    tracing::info!(tenant = %id.tenant(), job_id = %id, ?stdout, ?stderr, "job output");
}

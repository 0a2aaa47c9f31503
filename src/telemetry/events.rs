//! One function per thing that happens: each writes its log line and counts.
//!
//! Text from outside is logged with `?`, quoted and escaped, so that no command can
//! forge a line of the log.
#![expect(clippy::disallowed_macros, reason = "the one place that counts")]

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tracing::field;

use super::labels::{self, CallResult, DropReason, FreedReason, Refusal, Rejection, Resource, key};
use super::names::{Counter, Gauge, Histogram};
use super::process;
use super::queue_names::QueueGauge;
use crate::ids::JobId;
use crate::outcome::Outcome;
use crate::spec::Stream;

/// Characters of a command that are logged.
const COMMAND_CHARS: usize = 500;

/// The server answers on this address and this socket.
pub fn server_started(address: Option<SocketAddr>, socket: Option<&Path>) {
    let (address, socket) = (address.map(field::display), socket.map(field::debug));
    tracing::info!(address, socket, version = env!("CARGO_PKG_VERSION"), "server started");
}

/// Others can reach this address, and read along.
pub fn clear_text(address: SocketAddr) {
    tracing::warn!(
        %address,
        "no TLS: tokens and output travel in clear text; set http.tls_cert and http.tls_key, or put a proxy with TLS in front"
    );
}

/// The usual socket cannot be had; the server goes on without it.
pub fn socket_missing(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(
        ?path,
        ?why,
        "no unix socket; programs of this user reach another server, or none"
    );
}

/// A new certificate is in use.
pub fn certificate_replaced() {
    tracing::info!("certificate replaced");
}

/// A new certificate cannot be used; the old one is.
pub fn certificate_refused(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?why, "new certificate refused, the old one stays in use; correct the files");
}

/// The server is about to exit; its jobs are over.
pub fn server_stopped() {
    tracing::info!("server stopped");
}

/// Sets the gauges that tell how much of each thing there may be.
pub fn limits_known(limits: Limits) {
    set(Gauge::JobsRunningLimit, limits.slots);
    set(Gauge::JobsQueuedLimit, limits.queued);
    set(Gauge::JobsRetainedLimit, limits.retained);
}

/// Bounds that stand beside their use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Jobs that may run at one time.
    pub slots: usize,
    /// Jobs that may wait.
    pub queued: usize,
    /// Finished jobs that stay readable.
    pub retained: usize,
}

/// A job was accepted.
pub fn job_submitted(id: JobId, command: &str) {
    tracing::info!(tenant = ?id.tenant(), job_id = %id, command = ?shortened(command), "job submitted");
    metrics::counter!(Counter::JobsSubmitted.name()).increment(1);
}

/// A job was not accepted.
pub fn job_rejected(reason: Rejection) {
    tracing::info!(reason = reason.word(), "job rejected");
    metrics::counter!(Counter::JobsRejected.name(), key::REASON => reason.word()).increment(1);
}

/// A job left the queue after this long and runs.
#[must_use = "dropping the guard counts the job as over"]
pub fn job_started(id: JobId, queued: Duration) -> ActiveJob {
    tracing::info!(tenant = ?id.tenant(), job_id = %id, queued_ms = millis(queued), "job started");
    metrics::histogram!(Histogram::JobQueueWait.name()).record(queued);
    metrics::gauge!(Gauge::JobsRunning.name()).increment(1);
    ActiveJob { id, started: Instant::now(), outcome: LOST }
}

/// A job ended without ever having run: stopped while it waited, for instance.
pub fn job_ended_unstarted(id: JobId, outcome: &Outcome) {
    job_over(id, outcome.word(), Duration::ZERO);
}

/// What an outcome reads as when nobody said how the job ended.
const LOST: &str = "lost";

/// A job that runs. Dropping it counts the job as over, on every way out.
#[derive(Debug)]
pub struct ActiveJob {
    id: JobId,
    started: Instant,
    outcome: &'static str,
}

impl ActiveJob {
    /// The job is over. Without this it counts as lost.
    pub fn finish(mut self, outcome: &Outcome) {
        self.outcome = outcome.word();
    }
}

impl Drop for ActiveJob {
    fn drop(&mut self) {
        let elapsed = self.started.elapsed();
        metrics::gauge!(Gauge::JobsRunning.name()).decrement(1);
        metrics::histogram!(Histogram::JobDuration.name()).record(elapsed);
        job_over(self.id, self.outcome, elapsed);
    }
}

fn job_over(id: JobId, outcome: &'static str, elapsed: Duration) {
    tracing::info!(tenant = ?id.tenant(), job_id = %id, outcome, elapsed_ms = millis(elapsed), "job finished");
    metrics::counter!(Counter::JobsFinished.name(), key::OUTCOME => outcome).increment(1);
}

/// The queue now holds this many jobs.
pub fn queue_changed(queued: usize) {
    set(Gauge::JobsQueued, queued);
}

/// This many finished jobs are now readable.
pub fn retained_changed(finished: usize) {
    set(Gauge::JobsRetained, finished);
}

/// A job wrote bytes, and they were kept.
pub fn output_captured(stream: Stream, bytes: u64) {
    metrics::counter!(Counter::OutputBytes.name(), key::STREAM => stream.name()).increment(bytes);
}

/// All logs together may hold so much.
pub fn store_limit_known(bytes: u64) {
    metrics::gauge!(Gauge::OutputStoredLimitBytes.name()).set(bytes as f64);
}

/// Room was taken for bytes in memory or on disk.
pub fn output_stored(bytes: u64) {
    metrics::gauge!(Gauge::OutputStoredBytes.name()).increment(bytes as f64);
}

/// A finished log of so many bytes now takes only `stored`.
pub fn output_compressed(raw: u64, stored: u64) {
    tracing::debug!(raw, stored, "output compressed");
    metrics::counter!(Counter::OutputCompressedBytes.name()).increment(raw);
}

/// A finished log could not be compressed; it stays as it is.
pub fn compression_failed(why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(?why, "output not compressed; it stays readable as it is");
}

/// A finished job was freed; its output had taken so many bytes.
pub fn job_freed(id: JobId, reason: FreedReason, bytes: u64) {
    tracing::info!(tenant = ?id.tenant(), job_id = %id, reason = reason.word(), bytes, "job freed");
    metrics::counter!(Counter::RetentionFreedJobs.name(), key::REASON => reason.word())
        .increment(1);
    metrics::counter!(Counter::RetentionFreedBytes.name()).increment(bytes);
}

/// Room that was taken is free again.
pub fn output_freed(bytes: u64) {
    metrics::gauge!(Gauge::OutputStoredBytes.name()).decrement(bytes as f64);
}

/// A job wrote bytes that could not be kept.
pub fn output_dropped(reason: DropReason, bytes: u64) {
    metrics::counter!(Counter::OutputDroppedBytes.name(), key::REASON => reason.word())
        .increment(bytes);
}

/// A job's output can no longer be kept whole; told once for each job.
pub fn output_being_dropped(id: JobId, reason: DropReason) {
    tracing::warn!(tenant = ?id.tenant(), job_id = %id, reason = reason.word(), "output dropped, the job goes on");
}

/// Stored output could not be read, or not sent.
pub fn output_unreadable(id: JobId, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(tenant = ?id.tenant(), job_id = %id, ?why, "output not readable");
}

/// A job ended whose output is to be in the log, as far as it is given here.
pub fn output_logged(id: JobId, stdout: &str, stderr: &str) {
    tracing::info!(tenant = ?id.tenant(), job_id = %id, ?stdout, ?stderr, "job output");
}

/// A server of the dialect `execute_command` answers on stdin and stdout.
pub fn shell_server_started() {
    tracing::info!("mcpz shell server started");
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

/// Stray processes of ended jobs were reaped.
pub fn orphans_reaped(count: u64) {
    tracing::debug!(count, "orphans reaped");
    metrics::counter!(Counter::OrphansReaped.name()).increment(count);
}

/// The guardian had died; there is a new one.
pub fn guardian_renewed() {
    tracing::warn!("the guardian process had died; a new one was started");
}

/// The guardian has died, and there is no new one.
pub fn guardian_missing(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?why, "no guardian process: jobs would outlive a kill of this server");
}

/// The place for spill files cannot be used.
pub fn data_dir_unusable(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?path,
        ?why,
        "output beyond memory cannot be kept; set server.data_dir to a directory that can be written"
    );
}

/// An actor failed; `actor` is a word of ours, such as `job`.
pub fn actor_failed(actor: &'static str, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(actor, ?why, "actor failed");
    metrics::counter!(Counter::ActorFailures.name()).increment(1);
}

/// A tool call was answered.
pub fn mcp_call_finished(tool: &str, result: CallResult, elapsed: Duration) {
    let (tool, result) = (labels::tool(tool), result.word());
    tracing::debug!(tool, result, elapsed_ms = millis(elapsed), "tool call answered");
    metrics::counter!(Counter::McpCalls.name(), key::TOOL => tool, key::RESULT => result)
        .increment(1);
    metrics::histogram!(Histogram::McpCallDuration.name(), key::TOOL => tool).record(elapsed);
}

/// A client follows an output from now on.
#[must_use = "dropping the guard counts the subscription as over"]
pub fn subscription_opened() -> ActiveSubscription {
    metrics::gauge!(Gauge::McpSubscriptions.name()).increment(1);
    ActiveSubscription(())
}

/// A client that follows an output. Dropping it counts that as over.
#[derive(Debug)]
pub struct ActiveSubscription(());

impl Drop for ActiveSubscription {
    fn drop(&mut self) {
        metrics::gauge!(Gauge::McpSubscriptions.name()).decrement(1);
    }
}

/// An HTTP request or connection was turned away.
pub fn http_refused(reason: Refusal) {
    tracing::warn!(reason = reason.word(), "http request refused");
    metrics::counter!(Counter::HttpRefused.name(), key::REASON => reason.word()).increment(1);
}

/// A connection was closed, or not let in. Told by its count alone: whoever brings about one can
/// bring about thousands.
pub fn connection_refused(reason: Refusal) {
    tracing::debug!(reason = reason.word(), "connection closed");
    metrics::counter!(Counter::HttpRefused.name(), key::REASON => reason.word()).increment(1);
}

/// So many connections are open now.
pub fn connections_changed(open: usize) {
    set(Gauge::HttpConnections, open);
}

/// So many connections may be open.
pub fn connection_limit_known(most: usize) {
    set(Gauge::HttpConnectionsLimit, most);
}

/// A line of the audit log could not be written.
pub fn audit_failed(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?why, "audit log cannot be written; check its disk and its permissions");
    metrics::counter!(Counter::AuditFailures.name()).increment(1);
}

/// The file that stops a workflow could not be written.
pub fn abort_file_failed(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?path, ?why, "abort file not written; check shell_tool.abort_file");
}

/// A directory that jobs may run in does not exist.
pub fn directory_missing(path: &Path) {
    tracing::warn!(?path, "shell_tool.allowed_directories names a directory that is not there");
}

/// New rules hold.
pub fn rules_reloaded() {
    tracing::info!("rules reloaded");
}

/// New rules could not be read; the old ones hold.
pub fn reload_refused(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?why,
        "reload refused, the old rules hold; correct the file and send SIGHUP again"
    );
}

/// From this share on, in percent, starts are held back; `None`: whatever it is.
pub fn pressure_level_known(resource: Resource, percent: Option<u8>) {
    let ratio = f64::from(percent.unwrap_or(0)) / 100.0;
    metrics::gauge!(QueueGauge::PressureLimit.name(), key::RESOURCE => resource.word()).set(ratio);
}

/// The system stalls for this share of the time, in percent.
pub fn pressure_measured(resource: Resource, percent: u8) {
    let ratio = f64::from(percent) / 100.0;
    metrics::gauge!(QueueGauge::Pressure.name(), key::RESOURCE => resource.word()).set(ratio);
}

/// Pressure shall hold starts back and cannot be measured.
pub fn pressure_unknown(why: &dyn Display, fix: &'static str) {
    let why = why.to_string();
    tracing::warn!(?why, fix, "pressure is not watched, starts are not held back");
}

/// The system stalls: from now on no further job starts while one runs.
pub fn starts_held(resource: Resource, percent: u8) {
    tracing::warn!(resource = resource.word(), percent, "starts are held back by pressure");
    metrics::gauge!(QueueGauge::StartsHeld.name()).set(1.0);
}

/// The system stalls no longer, or that no longer matters: jobs start again.
pub fn starts_go_on() {
    tracing::info!("starts go on, no pressure holds them back");
    metrics::gauge!(QueueGauge::StartsHeld.name()).set(0.0);
}

/// Somebody asks for the metrics: measures what this process uses.
pub(super) fn scraped() {
    if let Some(bytes) = process::resident_bytes() {
        metrics::gauge!(Gauge::ResidentMemory.name()).set(bytes as f64);
    }
    if let Some(fds) = process::open_fds() {
        set(Gauge::OpenFds, fds);
    }
}

fn set(gauge: Gauge, value: usize) {
    metrics::gauge!(gauge.name()).set(value as f64);
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
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

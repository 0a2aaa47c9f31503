//! Events of jobs, from submission to end, and of their output; and of the clients that submit them:
//! listeners, requests and sessions.

use std::ffi::OsString;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
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
    self, ApprovalStep, CallClass, ErrorType, FreedReason, HttpRefusalReason, MERGED, OTHER,
    RejectionReason, TOOL_CALL, Transport, key,
};
use crate::telemetry::logging::DOCUMENTED_TARGET;
use crate::telemetry::names::{
    Counter, http, jobs, journal, list_operation_results, mcp, operation_labels, output,
    report_labels, tenants,
};

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

/// A submitted job was accepted.
pub fn job_submitted(id: JobId, command: &str) {
    tracing::info!(tenant = %id.tenant(), job_id = %id, command = ?truncate_command(command), "job submitted");
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

/// A job left the queue after `queued` and runs.
#[must_use = "dropping the guard counts the job as over"]
pub fn job_started(id: JobId, queued: Duration) -> ActiveJob {
    tracing::info!(tenant = %id.tenant(), job_id = %id, queued_ms = millis(queued), "job started");
    jobs::QUEUE_WAIT.unlabeled().record(queued);
    jobs::RUNNING.unlabeled().increment(1);
    ActiveJob { id, started: Instant::now(), end: JobEndLabels::LOST, stopping: None }
}

/// A job that a previous server started at `started` goes on.
#[must_use = "dropping the guard counts the job as over"]
pub fn job_resumed(id: JobId, started: Instant) -> ActiveJob {
    tracing::info!(tenant = %id.tenant(), job_id = %id, "job resumed");
    journal::RESUMED.unlabeled().increment(1);
    jobs::RUNNING.unlabeled().increment(1);
    ActiveJob { id, started, end: JobEndLabels::LOST, stopping: None }
}

/// A job ended before it ran, for example because it was stopped in the queue.
pub fn job_ended_before_start(id: JobId, outcome: &Outcome) {
    job_over(id, JobEndLabels::from_outcome(outcome), Duration::ZERO);
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
    started: Instant,
    end: JobEndLabels,
    stopping: Option<StoppingGuard>,
}

impl ActiveJob {
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
        job_over(self.id, self.end, elapsed);
    }
}

fn job_over(id: JobId, end: JobEndLabels, elapsed: Duration) {
    let JobEndLabels { outcome, fault, limit } = end;
    tracing::info!(tenant = %id.tenant(), job_id = %id, outcome, elapsed_ms = millis(elapsed), "job finished");
    jobs::FINISHED.with_label((key::OUTCOME, outcome)).increment(1);
    count_for_tenant(tenants::FINISHED, id.tenant(), 1);
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

/// Returns the first characters of a command, with `…` if it is longer.
fn truncate_command(command: &str) -> String {
    let mut short: String = command.chars().take(COMMAND_CHARS).collect();
    if short.len() < command.len() {
        short.push('…');
    }
    short
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
    tracing::info!(tenant = %id.tenant(), job_id = %id, reason = reason.word(), bytes, "job freed");
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

/// The server listens on this address and this socket.
pub fn server_started(address: Option<SocketAddr>, socket: Option<&Path>) {
    let address = address.map(field::display);
    let socket = socket.map(field::debug);
    tracing::info!(address, socket, version = env!("CARGO_PKG_VERSION"), "server started");
}

/// The server listens without TLS on an address that other hosts can reach.
pub fn tls_disabled(address: SocketAddr) {
    tracing::warn!(
        %address,
        "HTTP without TLS: tokens and output are sent in clear text; set http.tls_cert and http.tls_key, or put a proxy with TLS in front"
    );
}

/// The private socket of a server on standard input and output is not available.
pub fn private_socket_unavailable(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(
        ?path,
        ?why,
        "private socket not available; `shellyard jobs` does not see the jobs of this server"
    );
}

/// Sockets of servers that were killed could not be removed.
pub fn stale_sockets_not_removed(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(?path, ?why, "sockets of ended servers not removed");
}

/// The default socket is not available; the server starts without it.
pub fn socket_unavailable(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::warn!(
        ?path,
        ?why,
        "unix socket not available; local programs cannot reach this server through it"
    );
}

/// The server uses a new certificate.
pub fn certificate_replaced() {
    tracing::info!("certificate replaced");
}

/// A new certificate is not usable; the old one stays in use.
pub fn certificate_refused(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(
        ?why,
        "new TLS certificate not usable, the old one stays in use; correct the files"
    );
}

/// The server is about to exit; all its jobs have ended.
pub fn server_stopped() {
    tracing::info!("server stopped");
}

/// A server for the dialect `execute_command` answers on stdin and stdout.
pub fn shell_server_started() {
    tracing::info!(target: DOCUMENTED_TARGET, "mcpz shell server started");
}

/// A client subscribed to the output of a job.
#[must_use = "dropping the guard counts the subscription as over"]
pub fn subscription_opened() -> ActiveSubscription {
    mcp::SUBSCRIPTIONS.unlabeled().increment(1);
    ActiveSubscription(())
}

/// An open subscription to the output of a job. Dropping it counts the subscription as over.
#[derive(Debug)]
pub struct ActiveSubscription(());

impl Drop for ActiveSubscription {
    fn drop(&mut self) {
        mcp::SUBSCRIPTIONS.unlabeled().decrement(1);
    }
}

/// An HTTP request or connection was refused.
pub fn http_refused(reason: HttpRefusalReason) {
    tracing::warn!(reason = reason.word(), "http request refused");
    http::REFUSED.with_label((key::REASON, reason.word())).increment(1);
}

/// A connection was closed or not accepted. The log line has level debug, since a client that causes
/// one can cause thousands; the metric counts all.
pub fn connection_refused(reason: HttpRefusalReason) {
    tracing::debug!(reason = reason.word(), "connection closed");
    http::REFUSED.with_label((key::REASON, reason.word())).increment(1);
}

/// The number of open connections changed.
pub fn connections_changed(open: usize) {
    http::CONNECTIONS.set_count(open);
}

/// The limit on open connections was set.
pub fn connection_limit_set(limit: usize) {
    http::CONNECTIONS_LIMIT.set_count(limit);
}

/// The token file was read; `tokens` is the number of valid tokens.
pub fn tokens_read(path: &Path, tokens: usize) {
    tracing::info!(?path, tokens, "token file read");
}

/// A line of the token file is not valid.
pub fn token_line_ignored(path: &Path, line: usize, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?path, line, ?why, "line of the token file ignored; correct it");
}

/// The token file is missing or cannot be read.
pub fn token_file_unreadable(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?path, ?why, "token file not readable: all its tokens are refused");
}

/// The token file is something that could block a reader, such as a FIFO, or its file system does
/// not answer.
pub fn token_file_not_read(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?path, ?why, "token file not read: the tokens read before stay valid");
}

/// The keys of the OAuth issuer could not be fetched again; the old ones stay in use.
pub fn oauth_keys_not_refreshed(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?why, "keys of the issuer not refreshed; check oauth.issuer and oauth.jwks");
}

/// A proxy connected to its server.
pub fn proxy_connected(target: &str) {
    tracing::info!(?target, "connected to the server");
}

/// A client's environment is too large to be sent to its server whole.
pub fn environment_truncated(left_out: &[OsString]) {
    tracing::warn!(?left_out, "environment too large: jobs do not get its largest variables");
}

/// A proxy lost its server; it answers pending requests with an error.
pub fn proxy_disconnected(target: &str) {
    tracing::warn!(?target, "connection to the server lost; reconnecting");
}

/// A proxy cannot reach its server, for a new reason.
pub fn proxy_unreachable(why: &str) {
    tracing::warn!(?why, "server not reachable yet");
}

/// A proxy started the server (`--ensure-server`).
pub fn server_started_on_demand(pid: u32, log: &Path) {
    tracing::info!(pid, log = ?log, "server started on demand");
}

/// The environment names a collector, but this build cannot export spans.
pub fn span_export_not_built(endpoint: &str) {
    tracing::info!(?endpoint, "spans are not exported: this build has no `otlp` feature");
}

// MCP operations and sessions.

/// A client sent a request: registers the series of its possible results, at zero. The name of a tool
/// that is not offered is never used as a label value.
#[must_use = "dropping the guard counts the operation as failed"]
pub fn operation_started(method: &str, tool: Option<&'static str>) -> ActiveOperation {
    let method = labels::method_label(method);
    // Invalid parameters name no tool.
    let tool = tool.or((method == TOOL_CALL).then_some(OTHER));
    let operation = ActiveOperation { method, tool, started: Instant::now(), error: UNFINISHED };
    operation.in_flight().increment(1);
    for labels in list_operation_results(method, tool) {
        // Creating a handle registers the series.
        drop(mcp::OPERATION.with_labels(&labels));
    }
    operation
}

/// The error of an operation that ends without [`ActiveOperation::finish`].
const UNFINISHED: Option<ErrorType> = Some(ErrorType::Other);

/// A request that is being answered. Dropping it counts the request as over, on every path.
#[derive(Debug)]
pub struct ActiveOperation {
    method: &'static str,
    tool: Option<&'static str>,
    started: Instant,
    error: Option<ErrorType>,
}

impl ActiveOperation {
    /// Records that the request was answered. Without this call it counts as failed.
    pub fn finish(mut self, error: Option<ErrorType>) {
        self.error = error;
    }

    /// The label value of the method.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        self.method
    }

    /// The label value of the tool, if the request is a tool call.
    #[must_use]
    pub const fn tool(&self) -> Option<&'static str> {
        self.tool
    }

    fn in_flight(&self) -> metrics::Gauge {
        let class = CallClass::classify(self.method, self.tool);
        mcp::IN_FLIGHT.with_label((key::CLASS, class.word()))
    }
}

impl Drop for ActiveOperation {
    fn drop(&mut self) {
        let Self { method, tool, error, .. } = *self;
        let elapsed = self.started.elapsed();
        let error_type = error.map(ErrorType::word);
        tracing::debug!(method, tool, error_type, elapsed_ms = millis(elapsed), "request answered");
        self.in_flight().decrement(1);
        mcp::OPERATION.with_labels(&operation_labels(method, tool, error)).record(elapsed);
    }
}

/// The limit on open HTTP sessions was set.
pub fn session_limit_set(limit: usize) {
    mcp::SESSIONS_LIMIT.set_count(limit);
}

/// A client opened a session: registers the series of its transport, at zero.
#[must_use = "dropping the guard counts the session as over"]
pub fn session_opened(transport: Transport) -> OpenSession {
    let label = (key::TRANSPORT, transport.word());
    mcp::SESSIONS.with_label(label).increment(1);
    drop(mcp::SESSION.with_labels(&[label]));
    OpenSession { transport, opened: Instant::now() }
}

/// An open session. Dropping it counts the session as over.
#[derive(Debug)]
pub struct OpenSession {
    transport: Transport,
    opened: Instant,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let label = (key::TRANSPORT, self.transport.word());
        mcp::SESSIONS.with_label(label).decrement(1);
        mcp::SESSION.with_labels(&[label]).record(self.opened.elapsed());
    }
}

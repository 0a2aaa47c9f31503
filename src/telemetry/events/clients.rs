//! Events of the server's listeners, clients, requests and sessions.

use std::ffi::OsString;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use tracing::field;

use super::host::millis;
use crate::telemetry::labels::{
    self, CallClass, ErrorType, HttpRefusalReason, OTHER, TOOL_CALL, Transport, key,
};
use crate::telemetry::logging::DOCUMENTED_TARGET;
use crate::telemetry::names::{http, list_operation_results, mcp, operation_labels};

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

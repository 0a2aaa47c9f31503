//! Those who come in, and what they ask for.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use tracing::field;

use super::super::labels::{
    self, CallClass, ErrorType, HttpRefusalReason, OTHER, TOOL_CALL, Transport, key,
};
use super::host::millis;
use crate::telemetry::names::{http, mcp, operation_labels, tool_operations};

/// The server answers on this address and this socket.
pub fn server_started(address: Option<SocketAddr>, socket: Option<&Path>) {
    let address = address.map(field::display);
    let socket = socket.map(field::debug);
    tracing::info!(address, socket, version = env!("CARGO_PKG_VERSION"), "server started");
}

/// Others can reach this address, and read along.
pub fn tls_disabled(address: SocketAddr) {
    tracing::warn!(
        %address,
        "no TLS: tokens and output travel in clear text; set http.tls_cert and http.tls_key, or put a proxy with TLS in front"
    );
}

/// The usual socket cannot be had; the server goes on without it.
pub fn socket_unavailable(path: &Path, why: &dyn Display) {
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

/// A server of the dialect `execute_command` answers on stdin and stdout.
pub fn shell_server_started() {
    tracing::info!("mcpz shell server started");
}

/// A client follows an output from now on.
#[must_use = "dropping the guard counts the subscription as over"]
pub fn subscription_opened() -> ActiveSubscription {
    mcp::SUBSCRIPTIONS.unlabeled().increment(1);
    ActiveSubscription(())
}

/// A client that follows an output. Dropping it counts that as over.
#[derive(Debug)]
pub struct ActiveSubscription(());

impl Drop for ActiveSubscription {
    fn drop(&mut self) {
        mcp::SUBSCRIPTIONS.unlabeled().decrement(1);
    }
}

/// An HTTP request or connection was turned away.
pub fn http_refused(reason: HttpRefusalReason) {
    tracing::warn!(reason = reason.word(), "http request refused");
    http::REFUSED.with_label((key::REASON, reason.word())).increment(1);
}

/// A connection was closed, or not let in. Told by its count alone: whoever brings about one can
/// bring about thousands.
pub fn connection_refused(reason: HttpRefusalReason) {
    tracing::debug!(reason = reason.word(), "connection closed");
    http::REFUSED.with_label((key::REASON, reason.word())).increment(1);
}

/// So many connections are open now.
pub fn connections_changed(open: usize) {
    http::CONNECTIONS.set_count(open);
}

/// So many connections may be open.
pub fn connection_limit_set(most: usize) {
    http::CONNECTIONS_LIMIT.set_count(most);
}

/// A token file was read; so many tokens let somebody in.
pub fn tokens_read(path: &Path, tokens: usize) {
    tracing::info!(?path, tokens, "token file read");
}

/// A line of the token file lets nobody in.
pub fn token_line_ignored(path: &Path, line: usize, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?path, line, ?why, "line of the token file ignored; correct it");
}

/// The token file is gone or cannot be read.
pub fn token_file_unreadable(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?path, ?why, "token file not readable: no token in it lets anybody in");
}

/// Something stands in the place of the token file that could block its readers, or its file system
/// does not answer.
pub fn token_file_not_read(path: &Path, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?path, ?why, "token file not read: the tokens that were read before hold");
}

/// The keys of the OAuth issuer could not be had anew; the old ones hold.
pub fn oauth_keys_not_refreshed(why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(?why, "keys of the issuer not renewed; check oauth.issuer and oauth.jwks");
}

/// A proxy has reached its server.
pub fn proxy_connected(target: &str) {
    tracing::info!(?target, "connected to the server");
}

/// A proxy has lost its server; calls in flight are answered with an error.
pub fn proxy_disconnected(target: &str) {
    tracing::warn!(?target, "the server was lost; connecting again");
}

/// A proxy cannot reach its server, for a reason that it did not have before.
pub fn proxy_unreachable(why: &str) {
    tracing::warn!(?why, "no server yet");
}

/// A proxy has started the server that it was told to ensure.
pub fn server_started_on_demand(pid: u32, log: &Path) {
    tracing::info!(pid, log = ?log, "server started on demand");
}

/// The environment names a collector, and this program has no export.
pub fn span_export_not_built(endpoint: &str) {
    tracing::info!(?endpoint, "spans are not exported: this program was built without `otlp`");
}

// MCP operations and sessions.

/// These tools are offered: from now on each has its series, at zero.
pub fn tools_offered(tools: impl Iterator<Item = &'static str>) {
    for labels in tool_operations(tools) {
        // A series is there once somebody holds it.
        drop(mcp::OPERATION.with_labels(&labels));
    }
}

/// A client asked for something. Of a tool that is not offered the name is not told.
#[must_use = "dropping the guard counts the operation as cut short"]
pub fn operation_started(method: &str, tool: Option<&'static str>) -> ActiveOperation {
    let method = labels::method(method);
    // Params that do not fit name no tool.
    let tool = tool.or((method == TOOL_CALL).then_some(OTHER));
    let operation = ActiveOperation { method, tool, started: Instant::now(), error: CUT_SHORT };
    operation.in_flight().increment(1);
    operation
}

/// What an operation reads as that nobody finished.
const CUT_SHORT: Option<ErrorType> = Some(ErrorType::Other);

/// An operation that is being answered. Dropping it counts it as over, on every way out.
#[derive(Debug)]
pub struct ActiveOperation {
    method: &'static str,
    tool: Option<&'static str>,
    started: Instant,
    error: Option<ErrorType>,
}

impl ActiveOperation {
    /// It was answered. Without this it counts as cut short.
    pub fn finish(mut self, error: Option<ErrorType>) {
        self.error = error;
    }

    /// The word for what was asked for, from a closed set.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        self.method
    }

    /// The word for the tool that was called, from a closed set.
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

/// So many sessions may be open over HTTP.
pub fn session_limit_set(most: usize) {
    mcp::SESSIONS_LIMIT.set_count(most);
}

/// A client came, and stays.
#[must_use = "dropping the guard counts the session as over"]
pub fn session_opened(transport: Transport) -> OpenSession {
    mcp::SESSIONS.with_label((key::TRANSPORT, transport.word())).increment(1);
    OpenSession { transport, opened: Instant::now() }
}

/// A session that is open. Dropping it counts it as over.
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

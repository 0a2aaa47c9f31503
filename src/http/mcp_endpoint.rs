//! The MCP endpoint: rmcp's streamable HTTP service, configured for both protocol eras.
//!
//! **Legacy clients get sessions.** Only inside a session does rmcp deliver
//! `notifications/cancelled` (request ids are unique per session, not per server), and only there
//! do clients find the GET stream that some insist on. The price is state, which
//! [`BoundedSessions`] limits. A quiet call survives as long as its client has a stream.
//! **Modern clients are stateless** whatever the setting; hanging up cancels their call.
//!
//! **Keep-alive comments.** In the modern era a response has no status until its handler produces
//! something, so a quiet call looks like a dead server to clients and proxies. A response that does
//! not come at once is therefore started as an event stream, with comments until there is an answer.
//! The call lives inside the response: a client that hangs up drops both. A client that has ended its
//! input may wait for the answer, or be gone. Comments show which: writing them fails if nobody reads
//! them.

use std::convert::Infallible;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, UPGRADE,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt, stream};
use hyper_util::rt::TokioIo;
use rmcp::model::{ErrorData, RequestId};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio::time::{Interval, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::auth::{AccessDenied, Credential};
use super::connection::{EVENT_STREAM, HalfClose, UpgradeTask, is_event_stream};
use super::connection_table::PeerAddress;
use super::guard::{allowed_origins, denied_response};
use super::legacy_session::service_starter;
use super::probes::{Readiness, draining_response};
use super::sessions::{
    BoundedSessions, LostSession, SESSION_HEADER, SessionOpener, SessionTimeouts, SessionsFull,
};
use super::settings::HttpServerSettings;
use crate::ids::TenantId;
use crate::lines::{
    self, ClientEnvironment, DIRECTORY_HEADER, DecodedMessage, UPGRADE_PROTOCOL,
    decode_environment, decode_message, find_id_near_ends,
};
use crate::mcp::{Handler, InstrumentedHandler, NetworkTransport};
use crate::service::{CallerIdentity, CallerRole};
use crate::telemetry::{Transport, events};

/// The header in which a modern client names the method of its request.
const METHOD_HEADER: &str = "mcp-method";

/// The time after which the response to a tool call is started as an event stream. Faster responses
/// need no stream.
const STREAM_TOOL_CALLS_AFTER: Duration = Duration::from_millis(20);

/// The time after which the response to any other request is started as an event stream.
const STREAM_OTHERS_AFTER: Duration = Duration::from_secs(2);

/// The headers of a request that the replayed handshake of its session does not have.
const REQUEST_HEADERS: [&str; 5] =
    [SESSION_HEADER, "mcp-protocol-version", METHOD_HEADER, "mcp-name", "content-length"];

type McpService = StreamableHttpService<InstrumentedHandler, BoundedSessions>;

pub(super) struct McpEndpoint {
    service: McpService,
    sessions: Arc<BoundedSessions>,
    /// Held while a session is continued, so that two calls do not do it at once.
    continuing: Mutex<()>,
    handler: Handler,
    between_comments: Duration,
    streams: CancellationToken,
    readiness: watch::Receiver<Readiness>,
}

impl McpEndpoint {
    /// Serves `handler` on a server that listens on `bound`. Cancelling `streams` ends all open
    /// responses and sessions.
    pub(super) fn new(
        handler: Handler,
        settings: &HttpServerSettings,
        bound: Option<SocketAddr>,
        streams: CancellationToken,
        readiness: watch::Receiver<Readiness>,
    ) -> Self {
        let fresh = handler.clone();
        let new_handler = move || fresh.for_connection().instrumented(NetworkTransport::Tcp);
        let session_handler = new_handler.clone();
        let sessions = Arc::new(BoundedSessions::new(
            settings.max_sessions,
            settings.session_key.clone(),
            Box::new(move |client| service_starter(session_handler(), client)),
        ));
        let timeouts =
            SessionTimeouts { idle: settings.session_idle, hang_up: settings.session_hang_up };
        let reaping = BoundedSessions::close_unused_sessions(Arc::downgrade(&sessions), timeouts);
        tokio::spawn(streams.clone().run_until_cancelled_owned(reaping));
        let service = McpService::new(
            move || Ok(new_handler()),
            Arc::clone(&sessions),
            service_config(settings, bound, streams.clone()),
        );
        Self {
            service,
            sessions,
            continuing: Mutex::default(),
            handler,
            between_comments: settings.keep_alive_every,
            streams,
            readiness,
        }
    }

    /// Returns the keep-alive times for a request. A tool call may be quiet for long, so its
    /// response starts almost at once. Other requests are never quiet, and their errors need a
    /// status of their own, so their response waits longer.
    fn keep_alive_timing(&self, parts: &Parts) -> KeepAliveTiming {
        // Modern clients must send this header, and rmcp compares it with the message.
        let calls_tool =
            parts.headers.get(METHOD_HEADER).is_some_and(|method| method == "tools/call");
        let before_stream = if calls_tool { STREAM_TOOL_CALLS_AFTER } else { STREAM_OTHERS_AFTER };
        let half_close = parts.extensions.get::<HalfClose>();
        let input_ended = half_close.map(HalfClose::input_ended).unwrap_or_default();
        KeepAliveTiming { before_stream, between_comments: self.between_comments, input_ended }
    }

    /// Answers one request. The guard has already read its body.
    pub(super) async fn serve(self: Arc<Self>, request: Request) -> Response {
        if is_lines_upgrade(&request) {
            let streams = self.streams.clone();
            let readiness = self.readiness.clone();
            return upgrade_to_lines(request, &self.handler, streams, readiness).await;
        }
        let (mut parts, body) = request.into_parts();
        let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
            return StatusCode::BAD_REQUEST.into_response();
        };
        if let Err(denied) = self.check_scope(&parts, &body) {
            return denied_response(denied);
        }
        let tenant = parts.extensions.get::<CallerIdentity>().map(|caller| caller.tenant);
        let id = find_id_near_ends(&body);
        if let Some(lost) = self.sessions.find_lost_session(&parts.headers, tenant, &body) {
            let handshake = Arc::clone(&self).continue_session(parts.clone(), tenant, lost);
            // In a task of its own: a client that hangs up must not leave half a handshake.
            if let Ok(Err(full)) = tokio::spawn(handshake).await {
                return to_json_rpc_error(sessions_full_response(full), id).await;
            }
        }
        if parts.method == Method::DELETE {
            self.sessions.delete_session(&parts.headers, tenant);
        }
        self.sessions.hide_foreign_session(&mut parts.headers, tenant);
        if let Some(network) = parts.extensions.get().map(PeerAddress::network) {
            parts.extensions.insert(network);
        }
        let is_json = is_json(&parts);
        let timing = self.keep_alive_timing(&parts);
        let may_initialize = may_initialize(&parts.headers);
        let new_session = may_initialize.then(|| self.sessions.issue_id(tenant, &body)).flatten();
        let caller = SessionOpener::new(tenant, new_session);
        let request = Request::from_parts(parts, Body::from(body.clone()));
        let answer = Box::pin(async move {
            let answer =
                BoundedSessions::run_as(caller, Box::pin(self.service.handle(request))).await;
            let response =
                answer.map_or_else(sessions_full_response, |response| response.map(Body::new));
            if is_cut_off(response.status(), &self.streams) {
                return server_lost_response(id);
            }
            to_json_rpc_error(response, id).await
        });
        let response = respond_in_time(answer, timing).await;
        // rmcp reports a body that it cannot parse as an unsupported media type.
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && is_json {
            return unreadable_body_response(&body);
        }
        response
    }

    /// Opens a lost session again by the handshake with which it was opened. Its client does not
    /// notice: the request that named the session is then served as any other.
    async fn continue_session(
        self: Arc<Self>,
        mut parts: Parts,
        tenant: Option<TenantId>,
        lost: LostSession,
    ) -> Result<(), SessionsFull> {
        let _one_at_a_time = self.continuing.lock().await;
        if self.sessions.is_open(&lost.id) {
            return Ok(());
        }
        REQUEST_HEADERS.iter().for_each(|name| drop(parts.headers.remove(*name)));
        let caller = SessionOpener::new(tenant, Some(lost.id.clone()));
        let initialize = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": lost.handshake,
        });
        let initialize = Request::from_parts(parts, Body::from(initialize.to_string()));
        BoundedSessions::run_as(caller, Box::pin(self.service.handle(initialize))).await?;
        // The handshake fails if the headers of the request are not those of a client.
        if self.sessions.is_open(&lost.id) {
            tracing::info!("an MCP client continues a session that was not open");
        }
        Ok(())
    }

    /// Tells clients with OAuth scopes at once which scope they need, so that they can request it.
    /// All others get the tool's own answer.
    fn check_scope(&self, parts: &Parts, body: &Bytes) -> Result<(), AccessDenied> {
        match parts.extensions.get::<Credential>() {
            Some(caller) if caller.has_scopes() && self.handler.needs_run_role(body) => {
                caller.require(CallerRole::Run, &parts.headers)
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// `true` if a request with these headers may open a session. A call in a session does not, nor does
/// a modern request of another method, so their bodies need not be parsed for it.
fn may_initialize(headers: &HeaderMap) -> bool {
    let is_other_method = headers.get(METHOD_HEADER).is_some_and(|method| method != "initialize");
    !headers.contains_key(SESSION_HEADER) && !is_other_method
}

fn service_config(
    settings: &HttpServerSettings,
    bound: Option<SocketAddr>,
    streams: CancellationToken,
) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(true)
        .with_json_response(true)
        .with_sse_keep_alive(Some(settings.keep_alive_every))
        // Sessions know which of their streams begin with an empty event.
        .with_sse_retry(None)
        .with_max_request_body_bytes(settings.max_body_bytes)
        .with_cancellation_token(streams)
        .with_allowed_origins(
            allowed_origins(settings, bound).into_iter().map(with_port_or_wildcard),
        )
        .enforce_origin_validation()
        // The guard has checked the host and knows where it does not matter.
        .disable_allowed_hosts()
}

/// Adds `:*` to an origin without a port, because rmcp requires a port or `:*`. The guard has
/// already compared the whole origin.
fn with_port_or_wildcard(origin: String) -> String {
    let host = origin.split_once("://").map_or("", |(_, host)| host);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if host.is_empty() || has_port { origin } else { format!("{origin}:*") }
}

/// The response when no further session can be opened.
fn sessions_full_response(full: SessionsFull) -> Response {
    let text = format!("{full}\n");
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "10")], text).into_response()
}

/// `true` if the end of the server has cut off the call: rmcp has no answer then.
fn is_cut_off(status: StatusCode, streams: &CancellationToken) -> bool {
    status == StatusCode::INTERNAL_SERVER_ERROR && streams.is_cancelled()
}

/// The response to a call that the end of the server has cut off. Not "service unavailable": what
/// the call began may go on, so it must not simply be repeated.
fn server_lost_response(id: Option<RequestId>) -> Response {
    let headers = [(CONTENT_TYPE, "application/json")];
    let error = error_message(lines::server_lost_error(), id).to_string();
    (StatusCode::INTERNAL_SERVER_ERROR, headers, error).into_response()
}

fn is_json(parts: &Parts) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

/// The longest refusal that is read. Those of the server and of rmcp are one line.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;

/// Middleware that turns refusals of messages to the endpoint into JSON-RPC errors, also if nothing
/// has parsed the message yet: the id is null then.
///
/// The guard and rmcp refuse in plain text. A client that gets text where it expects a message
/// shows its user a parse error instead of the reason.
pub(super) async fn refuse_in_json_rpc(
    State(path): State<Arc<str>>,
    request: Request,
    next: Next,
) -> Response {
    let is_message = request.method() == Method::POST && request.uri().path() == &*path;
    let response = next.run(request).await;
    if is_message { to_json_rpc_error(response, None).await } else { response }
}

/// Turns a refusal into a JSON-RPC error with this id, unless it is one already. Its status and
/// headers stay. Other responses are unchanged.
async fn to_json_rpc_error(response: Response, id: Option<RequestId>) -> Response {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = axum::body::to_bytes(body, MAX_REFUSAL_BYTES).await.unwrap_or_default();
    let error = match serde_json::from_slice(&text) {
        Ok(Value::Object(mut error)) if error.contains_key("error") => {
            // rmcp omits a missing id; JSON-RPC requires null.
            error.entry("id").or_insert(Value::Null);
            Value::Object(error)
        }
        Ok(_) | Err(_) => error_message(error_data(status, &text), id),
    };
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(parts, Body::from(error.to_string()))
}

/// The response to a body that is not a JSON-RPC message.
fn unreadable_body_response(body: &Bytes) -> Response {
    let (error, id) = match decode_message(body) {
        DecodedMessage::Faulty(error, id) => (error, id),
        DecodedMessage::Message(_) | DecodedMessage::Nothing => {
            (ErrorData::invalid_request("this is not a JSON-RPC 2.0 message", None), None)
        }
    };
    let headers = [(CONTENT_TYPE, "application/json")];
    (StatusCode::BAD_REQUEST, headers, error_message(error, id).to_string()).into_response()
}

fn error_data(status: StatusCode, text: &[u8]) -> ErrorData {
    let text = String::from_utf8_lossy(text);
    let why = match text.trim() {
        "" => status.canonical_reason().unwrap_or("refused").to_owned(),
        text => text.to_owned(),
    };
    if status.is_server_error() {
        ErrorData::internal_error(why, None)
    } else {
        ErrorData::invalid_request(why, None)
    }
}

fn error_message(error: ErrorData, id: Option<RequestId>) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

/// `true` if a request asks to upgrade its connection to JSON lines.
fn is_lines_upgrade(request: &Request) -> bool {
    request.method() == Method::GET
        && has_token(request.headers(), &CONNECTION, "upgrade")
        && has_token(request.headers(), &UPGRADE, UPGRADE_PROTOCOL)
}

/// Upgrades the connection of this request to JSON lines for its caller, until `shutdown` or the
/// end of the caller's credential. The client is notified when the server takes no further work. A
/// server that is already draining refuses the upgrade.
///
/// One connection is then one client, as on standard input and output, and the same code serves it.
/// No web page can ask for this: browsers do not let pages set `Upgrade`.
async fn upgrade_to_lines(
    request: Request,
    handler: &Handler,
    shutdown: CancellationToken,
    mut readiness: watch::Receiver<Readiness>,
) -> Response {
    if *readiness.borrow() != Readiness::Ready {
        return draining_response();
    }
    let (mut request, body) = split_body(request).await;
    let environment = match decode_environment(&body) {
        Ok(environment) => environment,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let extensions = request.extensions();
    let upgrade_task = extensions.get::<UpgradeTask>().cloned();
    let caller = extensions.get::<Credential>().cloned();
    let (Some(upgrade_task), Some(caller)) = (upgrade_task, caller) else {
        return StatusCode::NOT_IMPLEMENTED.into_response();
    };
    let handler = for_client(handler.for_caller(caller.identity), &request, environment);
    let methods = handler.offered_methods();
    let handler = handler.instrumented(network(&request));
    let upgrade = hyper::upgrade::on(&mut request);
    upgrade_task.set(Box::pin(async move {
        match upgrade.await {
            Ok(stream) => {
                let _session = events::session_opened(Transport::Proxy);
                let streams = tokio::io::split(TokioIo::new(stream));
                let closing = shutdown.child_token();
                let revoked = async {
                    caller.ended().await;
                    closing.cancel();
                };
                let draining = async move {
                    // The sender is dropped only at the very end of the server.
                    readiness.wait_for(|now| *now != Readiness::Ready).await.ok();
                };
                let ends = lines::StopConditions {
                    shutdown: closing.clone(),
                    input_end_grace: lines::INPUT_END_GRACE,
                    is_allowed: Arc::new({
                        let caller = caller.clone();
                        move || caller.is_valid()
                    }),
                };
                let serving = lines::serve_streams(handler, methods, streams, ends, draining);
                tokio::join!(closing.run_until_cancelled(revoked), async {
                    serving.await;
                    closing.cancel();
                });
            }
            Err(error) => tracing::debug!(%error, "connection not upgraded"),
        }
    }));
    let headers = [(CONNECTION, "upgrade"), (UPGRADE, UPGRADE_PROTOCOL)];
    (StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response()
}

/// Applies the directory and the environment of a client on this machine: jobs inherit them.
fn for_client(handler: Handler, request: &Request, environment: ClientEnvironment) -> Handler {
    let handler = match client_directory(request) {
        Some(directory) => handler.with_directory(&directory),
        None => handler,
    };
    if is_on_this_machine(request) && !environment.variables.is_empty() {
        handler.with_environment(environment.variables, environment.withheld)
    } else {
        handler
    }
}

fn network(request: &Request) -> NetworkTransport {
    request.extensions().get::<PeerAddress>().map_or(NetworkTransport::Tcp, PeerAddress::network)
}

/// The default working directory for jobs of this client: the directory in which the client was
/// started, if that is on this machine.
fn client_directory(request: &Request) -> Option<PathBuf> {
    let is_here = is_on_this_machine(request);
    let named = request.headers().get(DIRECTORY_HEADER).filter(|_| is_here)?;
    let path = PathBuf::from(OsString::from_vec(STANDARD.decode(named).ok()?));
    path.is_absolute().then_some(path)
}

/// `true` if the client runs on this machine, where its directory and its environment mean the same.
fn is_on_this_machine(request: &Request) -> bool {
    match request.extensions().get::<PeerAddress>() {
        Some(PeerAddress::Unix { .. }) => true,
        Some(PeerAddress::Tcp(from)) => from.ip().to_canonical().is_loopback(),
        None => false,
    }
}

/// Takes the body out of a request. The guard has already read it.
async fn split_body(request: Request) -> (Request, Bytes) {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    (Request::from_parts(parts, Body::empty()), body)
}

fn has_token(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|given| given.trim().eq_ignore_ascii_case(word))
}

const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// The pause between the first two comments to a client that has ended its input. Each later pause
/// is twice as long. If nobody reads the first comment, only the write of the second one fails.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The largest response that is turned into an event. Responses of rmcp are far smaller.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

/// A response that is still being computed. Boxed because the future is large.
type PendingResponse = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The times after which a silent call sends something.
#[derive(Debug, Clone)]
struct KeepAliveTiming {
    /// The time before the response is started as an event stream.
    before_stream: Duration,
    between_comments: Duration,
    /// Cancelled when the client has ended its input.
    input_ended: CancellationToken,
}

/// Returns the response if it comes soon, else an event stream that ends with it.
async fn respond_in_time(mut answer: PendingResponse, timing: KeepAliveTiming) -> Response {
    let probes = HangUpProbes { input_ended: timing.input_ended, pause: Duration::ZERO };
    match timeout(timing.before_stream, &mut answer).await {
        Ok(response) if is_event_stream(response.headers()) => response
            .map(|events| staged_body(StreamStage::Forwarding(events.into_data_stream(), probes))),
        Ok(response) => response,
        Err(_) => begin_stream(answer, interval(timing.between_comments), probes),
    }
}

/// The state of an event stream that has started.
enum StreamStage {
    Waiting(PendingResponse, Interval, HangUpProbes),
    Forwarding(BodyDataStream, HangUpProbes),
    Ended,
}

/// Comments to a client that has ended its input.
struct HangUpProbes {
    input_ended: CancellationToken,
    pause: Duration,
}

impl HangUpProbes {
    /// Waits until the next comment is due. Never returns while the input is open. Cancel-safe.
    async fn due(&mut self) {
        self.input_ended.cancelled().await;
        sleep(self.pause).await;
        self.pause = (2 * self.pause).max(FIRST_PAUSE);
    }
}

fn staged_body(start: StreamStage) -> Body {
    Body::from_stream(stream::unfold(start, next).map(Ok::<_, Infallible>))
}

fn begin_stream(answer: PendingResponse, comments: Interval, probes: HangUpProbes) -> Response {
    let mut response = Response::new(staged_body(StreamStage::Waiting(answer, comments, probes)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn next(stage: StreamStage) -> Option<(Bytes, StreamStage)> {
    match stage {
        StreamStage::Waiting(mut answer, mut comments, mut probes) => {
            tokio::select! {
                response = &mut answer => return finish_stream(response, probes).await,
                _ = comments.tick() => {}
                () = probes.due() => {}
            }
            Some((COMMENT, StreamStage::Waiting(answer, comments, probes)))
        }
        StreamStage::Forwarding(events, probes) => forward_event(events, probes).await,
        StreamStage::Ended => None,
    }
}

async fn finish_stream(response: Response, probes: HangUpProbes) -> Option<(Bytes, StreamStage)> {
    if is_event_stream(response.headers()) {
        return forward_event(response.into_body().into_data_stream(), probes).await;
    }
    // One JSON message becomes one event. Its status is lost: 200 has already been sent.
    let message = axum::body::to_bytes(response.into_body(), MAX_EVENT_BYTES).await.ok()?;
    Some((event(&message), StreamStage::Ended))
}

/// Forwards one chunk of an event stream. Each chunk is a whole event, so a comment may stand
/// between two.
async fn forward_event(
    mut events: BodyDataStream,
    mut probes: HangUpProbes,
) -> Option<(Bytes, StreamStage)> {
    let chunk = tokio::select! {
        chunk = events.next() => chunk?.ok()?,
        () = probes.due() => COMMENT,
    };
    Some((chunk, StreamStage::Forwarding(events, probes)))
}

fn event(message: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(message.len() + 16);
    for line in message.split(|byte| *byte == b'\n') {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    event.into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn every_origin_reaches_rmcp_with_a_port() {
        for (origin, expected) in [
            ("http://localhost:8000", "http://localhost:8000"),
            ("http://[::1]:8000", "http://[::1]:8000"),
            ("http://[::1]", "http://[::1]:*"),
            ("https://app.example", "https://app.example:*"),
            ("null", "null"),
        ] {
            assert_eq!(with_port_or_wildcard(origin.to_owned()), expected);
        }
    }

    #[test]
    fn only_a_request_without_session_and_of_no_other_method_may_open_one() {
        let may = |headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            may_initialize(&headers.collect())
        };
        assert!(may(&[]) && may(&[(METHOD_HEADER, "initialize")]));
        assert!(!may(&[(METHOD_HEADER, "tools/call")]));
        assert!(!may(&[(SESSION_HEADER, "1")]));
    }

    async fn error_response(response: Response, id: Option<RequestId>) -> (StatusCode, Value) {
        let response = to_json_rpc_error(response, id).await;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), MAX_REFUSAL_BYTES).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    #[tokio::test]
    async fn a_text_refusal_becomes_a_json_rpc_error_with_the_id() {
        for (status, code) in [(StatusCode::NOT_FOUND, -32600), (StatusCode::BAD_GATEWAY, -32603)] {
            let response = (status, "not here\n").into_response();
            let expected = json!({"jsonrpc": "2.0", "id": 7,
                "error": {"code": code, "message": "not here"}});
            assert_eq!(
                error_response(response, Some(RequestId::Number(7))).await,
                (status, expected)
            );
        }
        let (_, empty) = error_response(StatusCode::CONFLICT.into_response(), None).await;
        assert_eq!((&empty["id"], &empty["error"]["message"]), (&Value::Null, &json!("Conflict")));
    }

    #[tokio::test]
    async fn a_json_rpc_error_only_gains_a_missing_id() {
        let error = json!({"jsonrpc": "2.0", "id": 8, "error": {"code": -32020, "message": "x"}});
        let response = (StatusCode::BAD_REQUEST, error.to_string()).into_response();
        assert_eq!(error_response(response, None).await.1, error);
        let without = r#"{"jsonrpc":"2.0","error":{}}"#;
        let response = (StatusCode::BAD_REQUEST, without).into_response();
        assert_eq!(error_response(response, None).await.1.get("id"), Some(&Value::Null));
    }

    #[tokio::test]
    async fn a_call_that_the_end_of_the_server_cuts_off_is_told_so() {
        let streams = CancellationToken::new();
        assert!(!is_cut_off(StatusCode::INTERNAL_SERVER_ERROR, &streams));
        streams.cancel();
        assert!(!is_cut_off(StatusCode::OK, &streams));
        assert!(is_cut_off(StatusCode::INTERNAL_SERVER_ERROR, &streams));
        let response = server_lost_response(Some(RequestId::Number(7)));
        let (status, error) = error_response(response, None).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(
            (&error["id"], &error["error"]["data"]["code"]),
            (&json!(7), &json!("server_lost"))
        );
    }

    #[tokio::test]
    async fn a_successful_response_is_not_read() {
        let response =
            to_json_rpc_error((StatusCode::ACCEPTED, "as it is").into_response(), None).await;
        let body = axum::body::to_bytes(response.into_body(), MAX_REFUSAL_BYTES).await.unwrap();
        assert_eq!(body, "as it is");
    }

    #[test]
    fn only_a_complete_upgrade_request_opens_lines() {
        for (method, connection, upgrade, expected) in [
            (Method::GET, "Upgrade", "shellyard-stdio", true),
            (Method::GET, "keep-alive, upgrade", "h2c, Shellyard-Stdio", true),
            (Method::GET, "keep-alive", "shellyard-stdio", false),
            (Method::GET, "Upgrade", "websocket", false),
            (Method::POST, "Upgrade", "shellyard-stdio", false),
        ] {
            let request = Request::builder()
                .method(method)
                .header(CONNECTION, connection)
                .header(UPGRADE, upgrade)
                .body(Body::empty())
                .unwrap();
            assert_eq!(is_lines_upgrade(&request), expected, "{request:?}");
        }
    }

    fn timing() -> KeepAliveTiming {
        let input_ended = CancellationToken::new();
        let before_stream = MOMENT;
        let between_comments = MOMENT;
        KeepAliveTiming { before_stream, between_comments, input_ended }
    }

    const MOMENT: Duration = Duration::from_millis(10);
    const LONG: Duration = Duration::from_secs(3600);

    async fn text(body: Body) -> String {
        String::from_utf8(axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_quick_response_is_unchanged() {
        let answer = async { (StatusCode::NOT_FOUND, "{}").into_response() };
        let response = respond_in_time(Box::pin(answer), timing()).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(text(response.into_body()).await, "{}");
    }

    /// Returns what a client receives of a response that is ready only after the first comment,
    /// without the comments.
    async fn late(answer: Response) -> String {
        let (send, late) = oneshot::channel::<Response>();
        let response = respond_in_time(Box::pin(async { late.await.unwrap() }), timing()).await;
        assert_eq!(response.headers()[CONTENT_TYPE], EVENT_STREAM);
        let mut events = response.into_body().into_data_stream();
        assert_eq!(events.next().await.unwrap().unwrap(), COMMENT);
        send.send(answer).unwrap();
        let rest = text(Body::from_stream(events)).await;
        rest.replace(std::str::from_utf8(&COMMENT).unwrap(), "")
    }

    #[tokio::test]
    async fn a_late_response_comes_as_an_event_after_comments() {
        assert_eq!(late("{\"id\":1}".into_response()).await, "data: {\"id\":1}\n\n");
    }

    #[tokio::test]
    async fn a_late_stream_is_forwarded_unchanged() {
        let stream = ([(CONTENT_TYPE, EVENT_STREAM)], "data: {}\n\n").into_response();
        assert_eq!(late(stream).await, "data: {}\n\n");
    }

    #[tokio::test]
    async fn a_client_that_has_ended_its_input_is_sent_comments_at_once() {
        let stream = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let begun = ([(CONTENT_TYPE, EVENT_STREAM)], stream).into_response();
        let pending = Box::pin(std::future::pending());
        let answers: [PendingResponse; 2] = [pending, Box::pin(async { begun })];
        for answer in answers {
            let input_ended = CancellationToken::new();
            let timing = KeepAliveTiming {
                between_comments: LONG,
                input_ended: input_ended.clone(),
                ..timing()
            };
            let response = respond_in_time(answer, timing).await;
            let mut events = response.into_body().into_data_stream();
            // Skips the first comment of a stream that was started early, if there is one.
            drop(timeout(MOMENT, events.next()).await);
            timeout(MOMENT, events.next()).await.expect_err("its input is open");
            input_ended.cancel();
            for _ in 0..3 {
                let comment = timeout(Duration::from_secs(60), events.next()).await;
                assert_eq!(comment.expect("in time").unwrap().unwrap(), COMMENT);
            }
        }
    }

    #[tokio::test]
    async fn hanging_up_drops_the_call() {
        struct OnDrop(Arc<AtomicBool>);
        impl Drop for OnDrop {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let dropped = Arc::new(AtomicBool::new(false));
        let guard = OnDrop(Arc::clone(&dropped));
        let never = async move {
            let _guard = guard;
            std::future::pending::<Response>().await
        };
        let response = respond_in_time(Box::pin(never), timing()).await;
        assert!(!dropped.load(Ordering::SeqCst));
        drop(response);
        assert!(dropped.load(Ordering::SeqCst));
    }
}

//! One legacy session: its id, its streams, and the service that answers its requests.
//!
//! rmcp's service takes some 30 KB even if nobody calls it, so a session has one only while a request
//! is in flight: the first request starts it, and the last reply ends it. What a session keeps
//! between calls is the handshake, the handler with its subscriptions, and the streams.
//!
//! Some clients never initialize again: they keep the id of their session over a restart of the
//! server. So an id carries the handshake of its client, signed for its tenant with a key that stays
//! in the data directory. A server that has lost the session repeats the handshake from the id. An
//! id that was not issued here, or was issued to another tenant, has no valid signature.
//!
//! ```text
//! UUID . handshake (JSON in base64url) . signature (base64url)
//! ```

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::HEXLOWER;
use ring::hmac;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, GetExtensions as _, InitializeRequestParams,
    JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::service::serve_directly_with_ct;
use rmcp::transport::common::server_side_http::session_id;
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::{Transport, TransportAdapterIdentity};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::session_streams::{EventId, EventReceiver, IsPrimed, SessionStreams, UnknownStream};
use crate::ids::TenantId;
use crate::lines::InFlightRequests;
use crate::mcp::SessionNotifier;
use crate::private_files::{Symlinks, read_text};

/// Starts a service of a session on this transport, which ends with the transport or the token.
pub(super) type ServiceStarter = Box<dyn Fn(SessionTransport, CancellationToken) + Send + Sync>;

/// Returns the function that starts services of a session whose client introduced itself so.
pub(super) fn service_starter<H: ServerHandler + Clone>(
    handler: H,
    client: InitializeRequestParams,
) -> ServiceStarter {
    Box::new(move |transport, ended| {
        let running = serve_directly_with_ct::<_, _, _, _, TransportAdapterIdentity>(
            handler.clone(),
            transport,
            Some(client.clone()),
            ended,
        );
        tokio::spawn(running.waiting());
    })
}

/// An open session. Dropping the last reference ends its streams.
pub(super) struct LegacySession {
    start_service: ServiceStarter,
    /// The requests in flight, including those whose client has hung up, which does not cancel
    /// them.
    in_flight: InFlightRequests,
    /// Cancelled when the session ends, and with it every call in flight.
    ended: CancellationToken,
    state: Mutex<SessionState>,
}

struct SessionState {
    streams: SessionStreams,
    /// The input of the running service, if there is one.
    input: Option<mpsc::UnboundedSender<Box<ClientJsonRpcMessage>>>,
    /// The id of the next request to the client. Each service counts its requests from 0.
    next_request: i64,
}

impl SessionState {
    /// Sends a message to the running service.
    ///
    /// # Errors
    /// When no service runs: the message itself.
    fn send_to_service(
        &self,
        message: Box<ClientJsonRpcMessage>,
    ) -> Result<(), Box<ClientJsonRpcMessage>> {
        match &self.input {
            Some(input) => input.send(message).map_err(|unsent| unsent.0),
            None => Err(message),
        }
    }
}

impl LegacySession {
    pub(super) fn new(start_service: ServiceStarter, primed: IsPrimed) -> Arc<Self> {
        let streams = SessionStreams::new(primed);
        Arc::new(Self {
            start_service,
            in_flight: InFlightRequests::default(),
            ended: CancellationToken::new(),
            state: Mutex::new(SessionState { streams, input: None, next_request: 0 }),
        })
    }

    pub(super) const fn in_flight(&self) -> &InFlightRequests {
        &self.in_flight
    }

    /// Hands a request to the service, and returns the stream of its reply.
    ///
    /// # Errors
    /// When a request with the same id is in flight.
    pub(super) fn request(
        self: &Arc<Self>,
        mut message: ClientJsonRpcMessage,
    ) -> Result<EventReceiver, ErrorData> {
        self.in_flight.admit(&mut message, usize::MAX)?;
        let JsonRpcMessage::Request(request) = &mut message else {
            return Err(ErrorData::invalid_request("this is not a request", None));
        };
        request.request.extensions_mut().insert(self.notifier());
        let received = self.with_state(|state| state.streams.open_for_request(request));
        self.deliver(message);
        Ok(received)
    }

    /// Hands a notification or a reply of the client to the service, if there is one: only a service
    /// with a request in flight has any use for them.
    pub(super) fn accept(self: &Arc<Self>, mut message: ClientJsonRpcMessage) {
        // Only requests can be refused.
        self.in_flight.admit(&mut message, usize::MAX).ok();
        let cancelled = cancelled_request(&message);
        self.deliver(message);
        if let Some(request) = cancelled {
            self.with_state(|state| state.streams.end_request(&request));
            self.end_idle_service();
        }
    }

    /// Opens the session's own stream, or one again after the event with this id.
    ///
    /// # Errors
    /// When that event belongs to a stream that does not exist, or no longer.
    pub(super) fn open_stream(
        &self,
        after: Option<EventId>,
    ) -> Result<EventReceiver, UnknownStream> {
        self.with_state(|state| match after {
            None => Ok(state.streams.open_own()),
            Some(last) => state.streams.resume(last, Instant::now()),
        })
    }

    /// Drops the replies that were kept long enough.
    pub(super) fn drop_expired_replies(&self, now: Instant) {
        self.with_state(|state| state.streams.drop_expired(now));
    }

    /// Ends the session and the calls in flight.
    pub(super) fn end(&self) {
        self.ended.cancel();
        self.with_state(|state| {
            state.input = None;
            state.streams = SessionStreams::new(IsPrimed(false));
        });
    }

    /// The way for the handler to notify this client between its calls.
    fn notifier(self: &Arc<Self>) -> SessionNotifier {
        let session = Arc::downgrade(self);
        SessionNotifier::new(move |notification: ServerNotification| {
            let Some(session) = session.upgrade() else { return false };
            let message = ServerJsonRpcMessage::notification(notification);
            session.with_state(|state| state.streams.send(message, Instant::now()));
            !session.ended.is_cancelled()
        })
    }

    /// Sends a message to the running service. A request starts one if there is none, or if it has
    /// ended by itself.
    fn deliver(self: &Arc<Self>, message: ClientJsonRpcMessage) {
        let started = self.with_state(|state| {
            let Err(message) = state.send_to_service(Box::new(message)) else { return None };
            let JsonRpcMessage::Request(_) = &*message else { return None };
            let (input, received) = mpsc::unbounded_channel();
            input.send(message).ok();
            state.input = Some(input);
            Some((received, state.next_request))
        });
        if let Some((received, first_request)) = started {
            let transport = SessionTransport { session: Arc::clone(self), received, first_request };
            (self.start_service)(transport, self.ended.child_token());
        }
    }

    /// Ends the service once no request is in flight. A request is in flight before it is delivered,
    /// so none is delivered to a service that ends.
    fn end_idle_service(&self) {
        self.with_state(|state| {
            if self.in_flight.is_empty() {
                state.input = None;
            }
        });
    }

    /// Sends a message of a service to the client.
    fn send(&self, message: ServerJsonRpcMessage) {
        let reply = self.in_flight.begin_reply(&message);
        self.with_state(|state| {
            if let JsonRpcMessage::Request(request) = &message
                && let RequestId::Number(number) = request.id
            {
                state.next_request = state.next_request.max(number + 1);
            }
            state.streams.send(message, Instant::now());
        });
        if reply.is_some() {
            self.end_idle_service();
        }
    }

    fn with_state<T>(&self, change: impl FnOnce(&mut SessionState) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for LegacySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LegacySession").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

/// Returns the request that a message cancels, if it cancels one.
fn cancelled_request(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    let JsonRpcMessage::Notification(notification) = message else { return None };
    let ClientNotification::CancelledNotification(cancelled) = &notification.notification else {
        return None;
    };
    cancelled.params.request_id.clone()
}

/// The transport of one service of a session.
pub(super) struct SessionTransport {
    session: Arc<LegacySession>,
    received: mpsc::UnboundedReceiver<Box<ClientJsonRpcMessage>>,
    /// The number that is added to the ids of requests to the client: ids are unique in a session.
    first_request: i64,
}

impl SessionTransport {
    fn shift_id(id: &mut RequestId, by: i64) {
        if let RequestId::Number(number) = id {
            // A client may reply to a request that it made up.
            *number = number.wrapping_add(by);
        }
    }
}

impl Transport<RoleServer> for SessionTransport {
    type Error = Infallible;

    fn send(
        &mut self,
        mut message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        match &mut message {
            JsonRpcMessage::Request(request) => {
                Self::shift_id(&mut request.id, self.first_request);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) =
                    &mut notification.notification
                    && let Some(id) = &mut cancelled.params.request_id
                {
                    Self::shift_id(id, self.first_request);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        self.session.send(message);
        ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let mut message = *self.received.recv().await?;
        match &mut message {
            JsonRpcMessage::Response(response) => {
                Self::shift_id(&mut response.id, -self.first_request);
            }
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &mut error.id {
                    Self::shift_id(id, -self.first_request);
                }
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The transport of a handshake: it carries `initialize` and its answer, then ends.
pub(super) struct HandshakeTransport {
    request: Option<oneshot::Receiver<Box<ClientJsonRpcMessage>>>,
    answer: Option<oneshot::Sender<Box<ServerJsonRpcMessage>>>,
    over: Option<oneshot::Receiver<Infallible>>,
}

/// The other side of a handshake.
#[derive(Debug)]
pub(super) struct HandshakeChannel {
    request: oneshot::Sender<Box<ClientJsonRpcMessage>>,
    answer: oneshot::Receiver<Box<ServerJsonRpcMessage>>,
    guard: HandshakeGuard,
}

/// Keeps the service of a handshake alive: rmcp closes the session when it ends, and by then the
/// session must be open.
#[derive(Debug)]
pub(super) struct HandshakeGuard {
    _over: oneshot::Sender<Infallible>,
}

impl HandshakeChannel {
    pub(super) fn new() -> (Self, HandshakeTransport) {
        let (request, requested) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        let (open, over) = oneshot::channel();
        let transport =
            HandshakeTransport { request: Some(requested), answer: Some(answer), over: Some(over) };
        (Self { request, answer: answered, guard: HandshakeGuard { _over: open } }, transport)
    }

    /// Sends the request and returns its answer; `None` if the service gave none. The handshake is
    /// over when the guard is dropped.
    pub(super) async fn exchange(
        self,
        request: ClientJsonRpcMessage,
    ) -> Option<(ServerJsonRpcMessage, HandshakeGuard)> {
        self.request.send(Box::new(request)).ok()?;
        let answer = self.answer.await.ok()?;
        Some((*answer, self.guard))
    }
}

impl Transport<RoleServer> for HandshakeTransport {
    type Error = Infallible;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        if let Some(answer) = self.answer.take() {
            // A client that is gone needs no answer.
            answer.send(Box::new(message)).ok();
        }
        ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        // Cancel-safe: each receiver is dropped only after it has completed.
        if let Some(request) = &mut self.request {
            let message = request.await.ok();
            self.request = None;
            return message.map(|message| *message);
        }
        if let Some(over) = &mut self.over {
            // Nothing is sent; the guard is dropped.
            over.await.ok();
            self.over = None;
        }
        None
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

const KEY_BYTES: usize = 32;

/// The largest handshake in an id, as JSON. A larger one loses its capabilities. Servers and proxies
/// accept some kilobytes of headers.
const MAX_HANDSHAKE_BYTES: usize = 1024;

/// The longest name or version of a client in an id, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The key that signs session ids.
#[derive(Debug, Clone)]
pub struct SessionKey(hmac::Key);

impl SessionKey {
    /// Reads the key from its file, which is created if it does not exist.
    ///
    /// # Errors
    /// When the file cannot be read or created, or holds no key.
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        match read_text(path, Symlinks::Refuse) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.is_missing() => Self::create(path),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn parse(text: &str) -> io::Result<Self> {
        let bytes = HEXLOWER.decode(text.trim().as_bytes()).unwrap_or_default();
        if bytes.len() == KEY_BYTES {
            return Ok(Self::from_bytes(&bytes));
        }
        let text = "it holds no key; delete it, and the next start creates a new one";
        Err(io::Error::new(ErrorKind::InvalidData, text))
    }

    fn create(path: &Path) -> io::Result<Self> {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes)?;
        // Temporary files are for their owner alone.
        let mut file = NamedTempFile::new_in(path.parent().unwrap_or_else(|| Path::new(".")))?;
        file.write_all(HEXLOWER.encode(&bytes).as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(Self::from_bytes(&bytes))
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Returns a new id for a session of this tenant that was opened with these parameters of
    /// `initialize`.
    pub(super) fn issue_id(&self, tenant: Option<TenantId>, params: &Value) -> SessionId {
        let handshake = URL_SAFE_NO_PAD.encode(shorten_handshake(params).to_string());
        let signed = format!("{}.{handshake}", session_id());
        let signature = hmac::sign(&self.0, &signed_text(tenant, &signed));
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)).into()
    }

    /// Returns the parameters of `initialize` from an id that was issued to this tenant.
    pub(super) fn read_handshake(&self, tenant: Option<TenantId>, id: &str) -> Option<Value> {
        let (signed, signature) = id.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.0, &signed_text(tenant, signed), &signature).ok()?;
        let (_, handshake) = signed.split_once('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(handshake).ok()?).ok()
    }
}

fn signed_text(tenant: Option<TenantId>, signed: &str) -> Vec<u8> {
    let tenant = tenant.map(|tenant| tenant.to_string()).unwrap_or_default();
    format!("{tenant}\0{signed}").into_bytes()
}

/// Reduces the parameters of `initialize` to those that matter later, within a fixed size.
fn shorten_handshake(params: &Value) -> Value {
    let shorten = |text: &Value| -> String {
        text.as_str().unwrap_or_default().chars().take(MAX_NAME_CHARS).collect()
    };
    let with_capabilities = |capabilities: Value| {
        json!({
            "protocolVersion": shorten(&params["protocolVersion"]),
            "capabilities": capabilities,
            "clientInfo": {
                "name": shorten(&params["clientInfo"]["name"]),
                "version": shorten(&params["clientInfo"]["version"]),
            },
        })
    };
    let all = with_capabilities(params["capabilities"].clone());
    let is_small = all.to_string().len() <= MAX_HANDSHAKE_BYTES;
    if is_small && params["capabilities"].is_object() { all } else { with_capabilities(json!({})) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Clone)]
    struct Quiet;

    impl ServerHandler for Quiet {}

    fn message(value: Value) -> ClientJsonRpcMessage {
        serde_json::from_value(value).unwrap()
    }

    #[tokio::test]
    async fn a_service_that_ended_by_itself_is_replaced_by_the_next_request() {
        let started = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&started);
        let start = service_starter(Quiet, InitializeRequestParams::default());
        let first_one_ends: ServiceStarter = Box::new(move |transport, ended| {
            if count.fetch_add(1, Ordering::Relaxed) > 0 {
                start(transport, ended);
            }
        });
        let session = LegacySession::new(first_one_ends, IsPrimed(false));
        let ping = |id| message(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        let _unanswered = session.request(ping(1)).unwrap();
        session.accept(message(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})));
        assert_eq!(started.load(Ordering::Relaxed), 1, "only a request starts one");
        let mut received = session.request(ping(2)).unwrap();
        assert_eq!(started.load(Ordering::Relaxed), 2);
        assert!(received.recv().await.is_some(), "the new service replies");
    }

    fn params(capabilities: Value) -> Value {
        json!({
            "protocolVersion": "2025-06-18",
            "capabilities": capabilities,
            "clientInfo": {"name": "c", "version": "1"},
        })
    }

    fn tenant(name: &str) -> Option<TenantId> {
        TenantId::parse(name).ok()
    }

    #[test]
    fn an_id_gives_its_handshake_to_its_tenant_alone() {
        let key = SessionKey::from_bytes(&[7; KEY_BYTES]);
        let [ours, theirs] = ["ids-a", "ids-b"].map(tenant);
        let params = params(json!({"elicitation": {}}));
        let id = key.issue_id(ours, &params);
        assert_eq!(key.read_handshake(ours, &id), Some(params.clone()));
        assert_eq!(key.read_handshake(theirs, &id), None);
        assert_eq!(key.read_handshake(None, &id), None);
        assert_eq!(SessionKey::from_bytes(&[8; KEY_BYTES]).read_handshake(ours, &id), None);
        assert_ne!(key.issue_id(ours, &params), id, "each id is new");
        assert!(id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        for made_up in ["", "none", "a.b", "a.b.c", &id[1..], &id[..id.len() - 1]] {
            assert_eq!(key.read_handshake(ours, made_up), None, "{made_up}");
        }
    }

    #[test]
    fn an_id_stays_small() {
        let key = SessionKey::from_bytes(&[7; KEY_BYTES]);
        let long = "é".repeat(100_000);
        let large = json!({
            "protocolVersion": &long,
            "capabilities": {"experimental": &long},
            "clientInfo": {"name": &long, "version": &long, "icons": [&long]},
        });
        let id = key.issue_id(None, &large);
        assert!(id.len() < 2048, "{}", id.len());
        let handshake = key.read_handshake(None, &id).unwrap();
        assert_eq!(handshake["capabilities"], json!({}));
        assert_eq!(handshake["clientInfo"]["name"], "é".repeat(MAX_NAME_CHARS));
    }

    #[test]
    fn the_key_is_created_once_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session-key");
        let id = SessionKey::load_or_create(&path).unwrap().issue_id(None, &Value::Null);
        assert!(SessionKey::load_or_create(&path).unwrap().read_handshake(None, &id).is_some());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "short").unwrap();
        assert_eq!(SessionKey::load_or_create(&path).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}

//! Legacy sessions, limited in number.
//!
//! A session belongs to the tenant that opened it. For all others it does not exist.
//!
//! A client whose session has ended gets 404 and initializes again, as the protocol demands. Some
//! clients never do, so a call of a tool continues a session that this server or an earlier one on
//! the same data directory opened for the same tenant ([`SessionKey`]), unless the client ended it.
//!
//! A session is idle only when it has no call in flight, no response is being read and no stream is
//! open. A session with a call in flight and no stream for a while has lost its client: it ends, and
//! so does the call.

use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::http::{HeaderMap, HeaderValue};
use futures_util::Stream;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, InitializeRequestParams, JsonRpcMessage, ProtocolVersion,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::common::server_side_http::session_id;
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::legacy_session::{HandshakeChannel, HandshakeTransport, LegacySession, ServiceStarter};
use super::session_ids::SessionKey;
use super::session_streams::{EventReceiver, IsPrimed, UnknownStream};
use super::session_table::{SessionTable, SessionTimeouts, SessionsFull};
use crate::ids::TenantId;
use crate::lines::find_request_id;
use crate::telemetry::{HttpRefusalReason, events};

pub(super) const SESSION_HEADER: &str = "mcp-session-id";

/// A value that is never the id of a session.
const NO_SESSION_ID: HeaderValue = HeaderValue::from_static("none");

/// Sessions are checked this many times per timeout, so a session ends at most a twentieth of its
/// timeout late.
const CHECKS_PER_TIMEOUT: u32 = 20;

/// The methods that continue a session that is not open: a client can use them without any state of
/// the session.
const CONTINUING_METHODS: [&str; 2] = ["tools/call", "tools/list"];

/// The first version whose clients expect streams to begin with an empty event, by which they can
/// reconnect. Older clients may take its empty data for a message and give up.
const FIRST_PRIMED_VERSION: &str = "2025-11-25";

tokio::task_local! {
    /// The caller of the current request: rmcp opens sessions without naming their owner.
    static SESSION_OPENER: SessionOpener;
}

/// The caller of a request that may open a session.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionOpener {
    tenant: Option<TenantId>,
    /// The id that the session gets; `None` = a new random id.
    id: Option<SessionId>,
    /// Set if the session was refused because the limit is reached.
    refused: Arc<OnceLock<SessionsFull>>,
}

impl SessionOpener {
    /// Creates the caller of a request; a session that it opens has this id.
    pub(super) fn new(tenant: Option<TenantId>, id: Option<SessionId>) -> Self {
        Self { tenant, id, ..Self::default() }
    }
}

/// A session that is not open, but was issued to the caller.
#[derive(Debug, Clone)]
pub(super) struct LostSession {
    pub(super) id: SessionId,
    /// The parameters of `initialize` with which it was opened.
    pub(super) handshake: Value,
}

/// The part of a message that decides whether a session is opened or continued.
#[derive(Debug, Deserialize)]
struct MessageStart {
    method: String,
    #[serde(default)]
    params: Value,
}

/// Returns the function that starts the services of a session with this client.
pub(super) type SessionServices =
    Box<dyn Fn(InitializeRequestParams) -> ServiceStarter + Send + Sync>;

/// The session manager that rmcp uses: sessions of legacy clients, limited in number.
pub(super) struct BoundedSessions {
    services: SessionServices,
    table: Arc<Mutex<SessionTable>>,
    /// Signs the ids of sessions. Without it, no session can be continued.
    key: Option<SessionKey>,
}

/// The reason why rmcp gets no session or stream.
#[derive(Debug, Error)]
pub(super) enum SessionError {
    #[error(transparent)]
    Full(#[from] SessionsFull),
    #[error("the session has ended; initialize again")]
    Ended,
    #[error("the stream of this event is over; open one without Last-Event-ID")]
    StreamOver,
}

impl From<UnknownStream> for SessionError {
    fn from(UnknownStream: UnknownStream) -> Self {
        Self::StreamOver
    }
}

impl BoundedSessions {
    /// Creates a manager of at most `limit` sessions.
    pub(super) fn new(limit: usize, key: Option<SessionKey>, services: SessionServices) -> Self {
        events::session_limit_set(limit);
        Self { services, table: Arc::new(Mutex::new(SessionTable::new(limit))), key }
    }

    /// Ends sessions that are idle or have lost their client, and drops old replies, until the session manager is dropped.
    pub(super) async fn close_unused_sessions(sessions: Weak<Self>, timeouts: SessionTimeouts) {
        loop {
            sleep(timeouts.idle.min(timeouts.hang_up) / CHECKS_PER_TIMEOUT).await;
            let Some(sessions) = sessions.upgrade() else { return };
            let now = Instant::now();
            sessions.with_table(|table| table.drop_expired_replies(now));
            for id in sessions.with_table(|table| table.unused(now, timeouts)) {
                sessions.end_session(&id);
            }
        }
    }

    /// Returns the id for the session that this message opens; `None` if it opens none.
    pub(super) fn issue_id(&self, tenant: Option<TenantId>, body: &[u8]) -> Option<SessionId> {
        let key = self.key.as_ref()?;
        let message = serde_json::from_slice::<MessageStart>(body).ok()?;
        (message.method == "initialize").then(|| key.issue_id(tenant, &message.params))
    }

    /// Returns the session that this request continues: one that is not open, was issued to this
    /// tenant, and was not ended by its client.
    pub(super) fn find_lost_session(
        &self,
        headers: &HeaderMap,
        tenant: Option<TenantId>,
        body: &[u8],
    ) -> Option<LostSession> {
        let id = headers.get(SESSION_HEADER)?.to_str().ok()?;
        if self.with_table(|table| table.find(id).is_some() || table.is_deleted(id)) {
            return None;
        }
        let handshake = self.key.as_ref()?.read_handshake(tenant, id)?;
        let message = serde_json::from_slice::<MessageStart>(body).ok()?;
        let continues = CONTINUING_METHODS.contains(&message.method.as_str());
        continues.then(|| LostSession { id: id.into(), handshake })
    }

    /// `true` if a session with this id is open.
    pub(super) fn is_open(&self, id: &SessionId) -> bool {
        self.with_table(|table| table.find(id)).is_some()
    }

    /// Ends the session in the headers for its client, open or lost: no call continues it.
    pub(super) fn delete_session(&self, headers: &HeaderMap, tenant: Option<TenantId>) {
        let Some(id) = headers.get(SESSION_HEADER).and_then(|id| id.to_str().ok()) else { return };
        let is_lost =
            || self.key.as_ref().is_some_and(|key| key.read_handshake(tenant, id).is_some());
        let owner = self.with_table(|table| table.owner(id));
        if owner.map_or_else(is_lost, |owner| Some(owner) == tenant) {
            self.with_table(|table| table.record_deletion(id.into()));
            self.end_session(id);
        }
    }

    /// Replaces the session id in the headers if the session is unknown or belongs to another
    /// tenant. Both cases then get the same response.
    pub(super) fn hide_foreign_session(&self, headers: &mut HeaderMap, tenant: Option<TenantId>) {
        let Some(named) = headers.get(SESSION_HEADER) else { return };
        let owner = named.to_str().ok().and_then(|id| self.with_table(|table| table.owner(id)));
        if owner.is_none() || owner != tenant {
            headers.insert(SESSION_HEADER, NO_SESSION_ID);
        }
    }

    /// Runs `answer`; a session that it opens belongs to this caller.
    ///
    /// # Errors
    /// When the session that it would have opened exceeds the limit.
    pub(super) async fn run_as<T>(
        caller: SessionOpener,
        answer: impl Future<Output = T>,
    ) -> Result<T, SessionsFull> {
        let answered = SESSION_OPENER.scope(caller.clone(), answer).await;
        caller.refused.get().map_or(Ok(answered), |full| Err(*full))
    }

    fn with_table<T>(&self, change: impl FnOnce(&mut SessionTable) -> T) -> T {
        change(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end_session(&self, id: &str) {
        // Ended outside of the lock: the calls in flight may have much to drop.
        if let Some(session) = self.with_table(|table| table.remove(id)) {
            session.end();
        }
    }

    fn find(&self, id: &SessionId) -> Result<Arc<LegacySession>, SessionError> {
        self.with_table(|table| table.find(id)).ok_or(SessionError::Ended)
    }

    /// Marks the session as in use until the returned value is dropped.
    fn begin_use(&self, id: &SessionId) -> SessionUse {
        self.with_table(|table| table.begin_use(id, Instant::now()));
        SessionUse { table: Arc::clone(&self.table), id: id.clone() }
    }
}

/// The use of a session by a call in flight or an open stream.
#[derive(Debug)]
struct SessionUse {
    table: Arc<Mutex<SessionTable>>,
    id: SessionId,
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.end_use(&self.id, Instant::now());
    }
}

/// The messages of a session; the session is in use while they are read.
struct StreamInUse {
    events: EventReceiver,
    _in_use: SessionUse,
}

impl Stream for StreamInUse {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        self.events.poll_recv(cx)
    }
}

impl SessionManager for BoundedSessions {
    type Error = SessionError;
    type Transport = HandshakeTransport;

    async fn create_session(&self) -> Result<(SessionId, HandshakeTransport), SessionError> {
        let caller = SESSION_OPENER.try_with(SessionOpener::clone).unwrap_or_default();
        let id = caller.id.clone().unwrap_or_else(session_id);
        let (handshake, transport) = HandshakeChannel::new();
        let added = self
            .with_table(|table| table.add(id.clone(), caller.tenant, handshake, Instant::now()));
        if let Err(full) = added {
            events::http_refused(HttpRefusalReason::Sessions);
            caller.refused.set(full).ok();
            return Err(full.into());
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        let client = client_params(&message);
        let handshake = self.with_table(|table| table.take_handshake(id));
        let handshake = handshake.ok_or(SessionError::Ended)?;
        let (answer, _guard) = handshake.exchange(message).await.ok_or(SessionError::Ended)?;
        if let (Some(mut client), Some(version)) = (client, negotiated_version(&answer)) {
            let primed = IsPrimed(version.as_str() >= FIRST_PRIMED_VERSION);
            client.protocol_version = version;
            let session = LegacySession::new((self.services)(client), primed);
            self.with_table(|table| table.open(id, session));
        }
        Ok(answer)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.with_table(|table| table.find(id)).is_some())
    }

    /// rmcp closes a session when its handshake is over, because the service that answered it then
    /// ends, and when its client deletes it, which [`BoundedSessions::delete_session`] has done.
    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        self.with_table(|table| table.remove_unopened(id));
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let in_use = self.begin_use(id);
        let request = find_request_id(&message);
        let events = self.find(id)?.request(message).unwrap_or_else(|error| {
            let (refusal, events) = mpsc::channel(1);
            let error = ServerJsonRpcMessage::error(error, request);
            refusal.try_send(ServerSseMessage::from_message(error)).ok();
            events
        });
        Ok(StreamInUse { events, _in_use: in_use })
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        let _in_use = self.begin_use(id);
        self.find(id)?.accept(message);
        Ok(())
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let in_use = self.begin_use(id);
        Ok(StreamInUse { events: self.find(id)?.open_stream(None)?, _in_use: in_use })
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let in_use = self.begin_use(id);
        let last = last_event_id.parse()?;
        Ok(StreamInUse { events: self.find(id)?.open_stream(Some(last))?, _in_use: in_use })
    }
}

/// Returns the parameters of `initialize`.
fn client_params(message: &ClientJsonRpcMessage) -> Option<InitializeRequestParams> {
    let JsonRpcMessage::Request(request) = message else { return None };
    let ClientRequest::InitializeRequest(initialize) = &request.request else { return None };
    Some(initialize.params.clone())
}

/// Returns the version in an answer to `initialize`; `None` if it is an error. Versions are dates, so
/// their order is that of their text.
fn negotiated_version(answer: &ServerJsonRpcMessage) -> Option<ProtocolVersion> {
    let ServerJsonRpcMessage::Response(response) = answer else { return None };
    let ServerResult::InitializeResult(result) = &response.result else { return None };
    Some(result.protocol_version.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::StreamExt as _;
    use rmcp::{ServerHandler, serve_server};
    use serde_json::json;

    use super::*;
    use crate::http::legacy_session::service_starter;

    #[derive(Clone)]
    struct Quiet;

    impl ServerHandler for Quiet {}

    fn tenant(name: &str) -> Option<TenantId> {
        TenantId::parse(name).ok()
    }

    /// Counts the services that have been started.
    fn sessions(limit: usize) -> (Arc<BoundedSessions>, Arc<AtomicUsize>) {
        let started = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&started);
        let services: SessionServices = Box::new(move |client| {
            let start = service_starter(Quiet, client);
            let count = Arc::clone(&count);
            Box::new(move |transport, ended| {
                count.fetch_add(1, Ordering::Relaxed);
                start(transport, ended);
            })
        });
        (Arc::new(BoundedSessions::new(limit, None, services)), started)
    }

    fn message(value: Value) -> ClientJsonRpcMessage {
        serde_json::from_value(value).unwrap()
    }

    /// Opens a session as rmcp does.
    async fn open(sessions: &Arc<BoundedSessions>, owner: Option<TenantId>) -> SessionId {
        let opener = SessionOpener::new(owner, None);
        let created = BoundedSessions::run_as(opener, sessions.create_session()).await.unwrap();
        let (id, transport) = created.unwrap();
        let manager = Arc::clone(sessions);
        let closed = id.clone();
        let serving = tokio::spawn(async move {
            serve_server(Quiet, transport).await.unwrap().waiting().await.unwrap();
            manager.close_session(&closed).await.unwrap();
        });
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "it", "version": "1"}});
        let initialize =
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        sessions.initialize_session(&id, message(initialize)).await.unwrap();
        serving.await.unwrap();
        id
    }

    async fn ping(sessions: &BoundedSessions, id: &SessionId, number: u64) -> usize {
        let ping = message(json!({"jsonrpc": "2.0", "id": number, "method": "ping"}));
        sessions.create_stream(id, ping).await.unwrap().count().await
    }

    #[tokio::test]
    async fn a_session_outlives_the_services_that_answer_its_calls() {
        let (sessions, started) = sessions(2);
        let id = open(&sessions, None).await;
        assert_eq!(started.load(Ordering::Relaxed), 0, "nothing is in flight");
        for number in 1..=3 {
            assert!(sessions.has_session(&id).await.unwrap());
            assert_eq!(ping(&sessions, &id, number.try_into().unwrap()).await, 1, "one reply");
            assert_eq!(started.load(Ordering::Relaxed), number);
        }
        let late = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 3}});
        sessions.accept_message(&id, message(late)).await.unwrap();
        assert_eq!(started.load(Ordering::Relaxed), 3, "only a request starts one");
    }

    #[tokio::test]
    async fn at_the_limit_a_new_session_is_refused_and_the_open_ones_live_on() {
        let (sessions, _) = sessions(2);
        let ids = [open(&sessions, None).await, open(&sessions, None).await];
        let refused = BoundedSessions::run_as(SessionOpener::default(), sessions.create_session());
        assert_eq!(refused.await.map(drop), Err(SessionsFull { limit: 2 }));
        for id in &ids {
            assert_eq!(ping(&sessions, id, 1).await, 1);
        }
        sessions.end_session(&ids[0]);
        assert!(!sessions.has_session(&ids[0]).await.unwrap());
        open(&sessions, None).await;
        assert_eq!(sessions.with_table(|table| table.len()), 2);
    }

    #[tokio::test]
    async fn a_session_is_not_open_before_its_handshake_is_over() {
        let (sessions, _) = sessions(2);
        let (id, _transport) = sessions.create_session().await.unwrap();
        assert!(!sessions.is_open(&id) && !sessions.has_session(&id).await.unwrap());
        sessions.close_session(&id).await.unwrap();
        assert_eq!(sessions.with_table(|table| table.len()), 0);
    }

    #[tokio::test]
    async fn a_session_exists_only_for_its_own_tenant() {
        let (sessions, _) = sessions(2);
        let [ours, theirs] = ["sessions-a", "sessions-b"].map(tenant);
        let id = open(&sessions, ours).await;
        let named =
            || HeaderMap::from_iter([(SESSION_HEADER.parse().unwrap(), id.parse().unwrap())]);
        let is_visible_to = |tenant| {
            let mut headers = named();
            sessions.hide_foreign_session(&mut headers, tenant);
            headers == named()
        };
        assert!(is_visible_to(ours) && !is_visible_to(theirs) && !is_visible_to(None));
        sessions.delete_session(&named(), theirs);
        assert!(sessions.is_open(&id), "another tenant cannot end it");
        sessions.delete_session(&named(), ours);
        assert!(!sessions.is_open(&id));
    }
}

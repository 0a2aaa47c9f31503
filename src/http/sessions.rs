//! Legacy sessions, limited in number: the manager that rmcp uses, and the table of who may open a
//! session, who owns it, and when it is over (pure, without a clock).
//!
//! A session belongs to the tenant that opened it. For all others it does not exist. A session is
//! never ended to make room for another one: at the limit, new sessions are refused. One tenant may
//! use all sessions. A few more are reserved for tenants that have hardly any, so that it locks
//! nobody out.
//!
//! A client whose session has ended gets 404 and initializes again, as the protocol demands. Some
//! clients never do, so a call of a tool continues a session that this server or an earlier one on
//! the same data directory opened for the same tenant ([`SessionKey`]), unless the client ended it.
//!
//! A session is idle only when it has no call in flight, no response is being read and no stream is
//! open. A session with a call in flight and no stream for a while has lost its client: it ends, and
//! so does the call.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

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

use super::legacy_session::{
    HandshakeChannel, HandshakeTransport, LegacySession, ServiceStarter, SessionKey,
};
use super::session_streams::{EventReceiver, IsPrimed, KEEP_FINISHED, UnknownStream};
use crate::ids::TenantId;
use crate::lines::find_request_id;
use crate::telemetry::events::{self, OpenSession};
use crate::telemetry::{self, HttpRefusalReason};

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
type SessionServices = Box<dyn Fn(InitializeRequestParams) -> ServiceStarter + Send + Sync>;

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
            let pause = timeouts.idle.min(timeouts.hang_up) / CHECKS_PER_TIMEOUT;
            sleep(pause.min(KEEP_FINISHED)).await;
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

/// The part of the limit that is added to it for tenants with few sessions: one in this many.
const RESERVE_PART: usize = 8;

/// The most sessions that a tenant may have if it opens another one beyond the limit.
const MAX_FROM_RESERVE: usize = 16;

/// Sessions that their clients have ended, and that are remembered so that no call continues them.
const MAX_DELETED: usize = 1024;

/// The error for a session above the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "sessions_full: all {limit} MCP sessions of this server are open (http.max_sessions); end one that is not needed (DELETE with its Mcp-Session-Id), or try again later: idle ones end by themselves (http.session_idle_s)"
)]
pub(super) struct SessionsFull {
    pub(super) limit: usize,
}

/// The time limits of sessions.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionTimeouts {
    /// For a session that nobody uses.
    pub(super) idle: Duration,
    /// For a session with a call in flight and no open stream.
    pub(super) hang_up: Duration,
}

/// The sessions, each with its owner and its last use.
#[derive(Debug)]
struct SessionTable {
    limit: usize,
    sessions: HashMap<SessionId, SessionEntry>,
    /// The last sessions that their clients have ended, oldest first.
    deleted: VecDeque<SessionId>,
}

#[derive(Debug)]
struct SessionEntry {
    owner: Option<TenantId>,
    stage: SessionStage,
    used: Instant,
    /// The number of requests and streams that a client reads at present.
    uses: usize,
    _open: OpenSession,
}

#[derive(Debug)]
enum SessionStage {
    /// The handshake; `None` once it has begun.
    Opening(Option<HandshakeChannel>),
    Open(Arc<LegacySession>),
}

impl SessionEntry {
    /// `true` if nobody has used the session since `then`.
    fn is_idle_since(&self, then: Instant) -> bool {
        let is_at_rest = match &self.stage {
            SessionStage::Opening(_) => false,
            SessionStage::Open(session) => session.in_flight().is_idle_since(then),
        };
        self.uses == 0 && self.used <= then && is_at_rest
    }

    /// `true` if a call is in flight and the client has had no stream since `then`.
    fn is_abandoned_since(&self, then: Instant) -> bool {
        let has_call = match &self.stage {
            SessionStage::Opening(_) => false,
            SessionStage::Open(session) => !session.in_flight().is_empty(),
        };
        self.uses == 0 && self.used <= then && has_call
    }
}

impl SessionTable {
    fn new(limit: usize) -> Self {
        Self { limit, sessions: HashMap::new(), deleted: VecDeque::new() }
    }

    /// Adds a session whose handshake is about to begin.
    ///
    /// # Errors
    /// When there is no room for a further session of this tenant.
    fn add(
        &mut self,
        id: SessionId,
        owner: Option<TenantId>,
        handshake: HandshakeChannel,
        now: Instant,
    ) -> Result<(), SessionsFull> {
        if !self.has_room_for(owner) {
            return Err(SessionsFull { limit: self.limit });
        }
        let stage = SessionStage::Opening(Some(handshake));
        let _open = events::session_opened(telemetry::Transport::Http);
        self.sessions.insert(id, SessionEntry { owner, stage, used: now, uses: 0, _open });
        Ok(())
    }

    fn has_room_for(&self, tenant: Option<TenantId>) -> bool {
        let reserve = self.limit / RESERVE_PART;
        let open = self.sessions.len();
        open < self.limit
            || open < self.limit + reserve && self.count(tenant) < reserve.min(MAX_FROM_RESERVE)
    }

    fn count(&self, tenant: Option<TenantId>) -> usize {
        self.sessions.values().filter(|entry| entry.owner == tenant).count()
    }

    /// Takes the handshake of a session; `None` if the session has none, or it has begun.
    fn take_handshake(&mut self, id: &SessionId) -> Option<HandshakeChannel> {
        match &mut self.sessions.get_mut(id)?.stage {
            SessionStage::Opening(handshake) => handshake.take(),
            SessionStage::Open(_) => None,
        }
    }

    /// Records that the handshake of a session has succeeded.
    fn open(&mut self, id: &SessionId, session: Arc<LegacySession>) {
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.stage = SessionStage::Open(session);
        }
    }

    /// Removes a session, and returns it if it was open.
    fn remove(&mut self, id: &str) -> Option<Arc<LegacySession>> {
        match self.sessions.remove(id)?.stage {
            SessionStage::Opening(_) => None,
            SessionStage::Open(session) => Some(session),
        }
    }

    /// Removes a session whose handshake has failed. An open session stays.
    fn remove_unopened(&mut self, id: &SessionId) {
        if self.find(id).is_none() {
            self.sessions.remove(id);
        }
    }

    /// Returns an open session.
    fn find(&self, id: &str) -> Option<Arc<LegacySession>> {
        match &self.sessions.get(id)?.stage {
            SessionStage::Opening(_) => None,
            SessionStage::Open(session) => Some(Arc::clone(session)),
        }
    }

    fn owner(&self, id: &str) -> Option<TenantId> {
        self.sessions.get(id)?.owner
    }

    fn record_deletion(&mut self, id: SessionId) {
        if self.deleted.len() == MAX_DELETED {
            self.deleted.pop_front();
        }
        self.deleted.push_back(id);
    }

    fn is_deleted(&self, id: &str) -> bool {
        self.deleted.iter().any(|deleted| **deleted == *id)
    }

    /// Records that a client uses a session from now on. A session that is not in the table has just
    /// ended.
    fn begin_use(&mut self, id: &SessionId, now: Instant) {
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.used = now;
            entry.uses += 1;
        }
    }

    fn end_use(&mut self, id: &SessionId, now: Instant) {
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.used = now;
            entry.uses = entry.uses.saturating_sub(1);
        }
    }

    /// Drops the replies of all sessions that were kept long enough.
    fn drop_expired_replies(&self, now: Instant) {
        for entry in self.sessions.values() {
            if let SessionStage::Open(session) = &entry.stage {
                session.drop_expired_replies(now);
            }
        }
    }

    /// Returns the sessions that have to end at `now`: idle ones, and those that have lost their
    /// client.
    fn unused(&self, now: Instant, timeouts: SessionTimeouts) -> Vec<SessionId> {
        let idle = now.checked_sub(timeouts.idle);
        let hang_up = now.checked_sub(timeouts.hang_up);
        let is_unused = |entry: &SessionEntry| {
            idle.is_some_and(|then| entry.is_idle_since(then))
                || hang_up.is_some_and(|then| entry.is_abandoned_since(then))
        };
        let unused = self.sessions.iter().filter(|(_, entry)| is_unused(entry));
        unused.map(|(id, _)| id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::StreamExt as _;
    use rmcp::{ServerHandler, serve_server};
    use serde_json::json;

    use super::*;
    use crate::http::legacy_session::service_starter;
    use crate::http::session_streams::IsPrimed;

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
        assert_eq!(sessions.with_table(|table| table.sessions.len()), 2);
    }

    #[tokio::test]
    async fn a_session_is_not_open_before_its_handshake_is_over() {
        let (sessions, _) = sessions(2);
        let (id, _transport) = sessions.create_session().await.unwrap();
        assert!(!sessions.is_open(&id) && !sessions.has_session(&id).await.unwrap());
        sessions.close_session(&id).await.unwrap();
        assert_eq!(sessions.with_table(|table| table.sessions.len()), 0);
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

    fn add_open_session(
        table: &mut SessionTable,
        id: &str,
        tenant: Option<TenantId>,
    ) -> Result<(), SessionsFull> {
        let id = SessionId::from(id);
        let (handshake, _) = HandshakeChannel::new();
        table.add(id.clone(), tenant, handshake, Instant::now())?;
        table.open(&id, LegacySession::new(Box::new(|_, _| {}), IsPrimed(false)));
        Ok(())
    }

    #[test]
    fn one_tenant_may_use_all_sessions_and_a_further_one_is_refused() {
        let mut table = SessionTable::new(100);
        let [ours, theirs] = ["sessions-a", "sessions-b"].map(tenant);
        for number in 0..100 {
            add_open_session(&mut table, &format!("ours-{number}"), ours).unwrap();
        }
        let full = SessionsFull { limit: 100 };
        assert_eq!(add_open_session(&mut table, "one more", ours), Err(full));
        let text = full.to_string();
        for words in ["sessions_full", "100", "http.max_sessions", "DELETE", "try again"] {
            assert!(text.contains(words), "{text}");
        }
        for number in 0..12 {
            add_open_session(&mut table, &format!("theirs-{number}"), theirs).unwrap();
        }
        assert_eq!(add_open_session(&mut table, "one more", theirs), Err(full));
        table.remove("ours-7");
        assert_eq!(
            add_open_session(&mut table, "one more", ours),
            Err(full),
            "112 is still above 100"
        );
        assert_eq!(add_open_session(&mut table, "another", tenant("sessions-c")), Ok(()));
        assert_eq!((table.count(ours), table.count(theirs)), (99, 12));
    }

    #[test]
    fn a_small_table_has_no_reserve() {
        let mut table = SessionTable::new(2);
        for id in ["a", "b"] {
            add_open_session(&mut table, id, None).unwrap();
        }
        assert_eq!(
            add_open_session(&mut table, "c", tenant("sessions-a")),
            Err(SessionsFull { limit: 2 })
        );
        assert!(table.find("a").is_some() && table.find("b").is_some(), "both live on");
        table.remove("a");
        assert_eq!(add_open_session(&mut table, "c", tenant("sessions-a")), Ok(()));
    }

    #[test]
    fn a_session_with_a_call_in_flight_is_not_idle_even_if_nobody_reads_the_reply() {
        let mut table = SessionTable::new(4);
        for id in ["streams", "works", "rests"] {
            add_open_session(&mut table, id, None).unwrap();
        }
        table.begin_use(&SessionId::from("streams"), Instant::now());
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let call = serde_json::from_value(call).unwrap();
        table.find("works").unwrap().request(call).unwrap();
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let timeouts = |idle, hang_up| SessionTimeouts { idle, hang_up };
        let unused = table.unused(now, timeouts(Duration::ZERO, second));
        assert_eq!(unused, [SessionId::from("rests")]);
        assert!(table.unused(now, timeouts(second, second)).is_empty(), "used after that");
        let left = table.unused(now, timeouts(second, Duration::ZERO));
        assert_eq!(left, [SessionId::from("works")], "nobody reads the answer");
    }

    #[test]
    fn a_session_without_a_handshake_does_not_stay() {
        let mut table = SessionTable::new(4);
        let id = SessionId::from("a");
        let (handshake, _) = HandshakeChannel::new();
        table.add(id.clone(), None, handshake, Instant::now()).unwrap();
        assert!(table.sessions.len() == 1 && table.find("a").is_none());
        assert!(table.take_handshake(&id).is_some() && table.take_handshake(&id).is_none());
        table.remove_unopened(&id);
        assert_eq!(table.sessions.len(), 0);
        add_open_session(&mut table, "b", None).unwrap();
        table.remove_unopened(&SessionId::from("b"));
        assert!(table.find("b").is_some(), "its handshake is over");
    }

    #[test]
    fn an_ended_session_is_remembered_among_the_last_ones() {
        let mut table = SessionTable::new(4);
        for number in 0..=MAX_DELETED {
            table.record_deletion(SessionId::from(number.to_string()));
        }
        assert!(!table.is_deleted("0"), "too long ago");
        assert!(table.is_deleted("1"));
        assert_eq!(table.deleted.len(), MAX_DELETED);
    }
}

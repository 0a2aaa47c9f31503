//! Legacy sessions, limited in number.
//!
//! rmcp keeps as many sessions as clients open, some 50 KB each. Here a further session of a tenant
//! that has used up its share ends the tenant's own session that has been idle longest. No job is
//! lost: jobs belong to the job service. If no session is idle, no further session is opened.
//!
//! A session belongs to the tenant that opened it. For all others it does not exist.
//!
//! A client whose session has ended gets 404 and initializes again, as the protocol demands. Some
//! clients never do, so a call of a tool continues a session that this server or an earlier one on
//! the same data directory opened for the same tenant ([`SessionKey`]), unless the client ended it.
//!
//! rmcp would end a session that is silent for a while together with the calls that wait in it, so
//! its own timeout is off. Here a session is idle only when it has no call in flight, no response
//! is being read and no stream is open. A session with a call in flight and no stream for a while
//! has lost its client: it ends, and so does the call.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue};
use futures_util::{Stream, StreamExt, future, stream};
use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use rmcp::transport::common::server_side_http::session_id;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;

use super::session_ids::SessionKey;
use crate::ids::TenantId;
use crate::lines::{InFlightRequests, find_request_id};
use crate::telemetry::events::OpenSession;
use crate::telemetry::{self, events};

pub(super) const SESSION_HEADER: &str = "mcp-session-id";

/// A value that is never the id of a session.
const NO_SESSION_ID: HeaderValue = HeaderValue::from_static("none");

/// The share of all sessions that one tenant may have: one in `SHARE`, but at least `MIN_SHARE`.
const SHARE: usize = 4;
const MIN_SHARE: usize = 16;

/// Sessions are checked this many times per timeout, so a session ends at most a twentieth of its
/// timeout late.
const CHECKS_PER_TIMEOUT: u32 = 20;

/// Sessions that their clients have ended, and that are remembered so that no call continues them.
const MAX_DELETED: usize = 1024;

/// The methods that continue a session that is not open: a client can use them without any state of
/// the session.
const CONTINUING_METHODS: [&str; 2] = ["tools/call", "tools/list"];

/// The first version whose clients expect streams to begin with an empty event, by which they can
/// reconnect. Older clients may take its empty data for a message and give up.
const FIRST_PRIMED_VERSION: &str = "2025-11-25";

/// The time after which a client reconnects a stream that has ended.
const RECONNECT_AFTER: Duration = Duration::from_secs(3);

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
    refused: Arc<AtomicBool>,
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

/// The time limits of sessions.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionTimeouts {
    /// For a session that nobody uses.
    pub(super) idle: Duration,
    /// For a session with a call in flight and no open stream.
    pub(super) hang_up: Duration,
}

/// The error for a session above the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionsFull;

/// The session manager of rmcp with a limit on the number of sessions.
#[derive(Debug)]
pub(super) struct BoundedSessions {
    local: Arc<LocalSessionManager>,
    table: Arc<Mutex<SessionTable>>,
    /// Signs the ids of sessions. Without it, no session can be continued.
    key: Option<SessionKey>,
}

impl BoundedSessions {
    /// Creates a manager of at most `most` sessions.
    pub(super) fn new(most: usize, key: Option<SessionKey>) -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = None;
        local.session_config.sse_retry = Some(RECONNECT_AFTER);
        events::session_limit_set(most);
        Self { local: Arc::new(local), table: Arc::new(Mutex::new(SessionTable::new(most))), key }
    }

    /// Ends sessions that are idle or have lost their client, until the session manager is dropped.
    pub(super) async fn close_unused_sessions(sessions: Weak<Self>, timeouts: SessionTimeouts) {
        loop {
            sleep(timeouts.idle.min(timeouts.hang_up) / CHECKS_PER_TIMEOUT).await;
            let Some(sessions) = sessions.upgrade() else { return };
            for id in sessions.with_table(|table| table.unused(Instant::now(), timeouts)) {
                if let Err(error) = sessions.close_session(&id).await {
                    tracing::debug!(%error, "an unused MCP session is not ended");
                }
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
        if self.with_table(|table| table.is_open_or_deleted(id)) {
            return None;
        }
        let handshake = self.key.as_ref()?.read_handshake(tenant, id)?;
        let message = serde_json::from_slice::<MessageStart>(body).ok()?;
        let continues = CONTINUING_METHODS.contains(&message.method.as_str());
        continues.then(|| LostSession { id: id.into(), handshake })
    }

    /// `true` if a session with this id is open.
    pub(super) fn is_open(&self, id: &SessionId) -> bool {
        self.with_table(|table| table.sessions.contains_key(id))
    }

    /// Records that its client has ended the session in the headers, open or lost: no call continues
    /// it.
    pub(super) fn record_deletion(&self, headers: &HeaderMap, tenant: Option<TenantId>) {
        let Some(id) = headers.get(SESSION_HEADER).and_then(|id| id.to_str().ok()) else { return };
        let is_lost =
            || self.key.as_ref().is_some_and(|key| key.read_handshake(tenant, id).is_some());
        let owner = self.with_table(|table| table.owner(id));
        if owner.map_or_else(is_lost, |owner| Some(owner) == tenant) {
            self.with_table(|table| table.record_deletion(id.into()));
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
        if caller.refused.load(Ordering::Relaxed) { Err(SessionsFull) } else { Ok(answered) }
    }

    fn with_table<T>(&self, change: impl FnOnce(&mut SessionTable) -> T) -> T {
        change(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends a session that is no longer in the table, in the background.
    fn end(&self, id: SessionId) {
        let local = Arc::clone(&self.local);
        // A session that has ended by itself cannot be closed again.
        tokio::spawn(async move { local.close_session(&id).await.ok() });
    }

    fn touch(&self, id: &SessionId) {
        self.with_table(|table| table.touch(id, Instant::now()));
    }

    /// Marks the session as in use until the returned value is dropped.
    fn begin_use(&self, id: &SessionId) -> SessionUse {
        self.with_table(|table| table.begin(id, Instant::now()));
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
        table.end(&self.id, Instant::now());
    }
}

/// The messages of a session; the session is in use while they are read.
struct StreamInUse<S> {
    stream: Pin<Box<S>>,
    _in_use: SessionUse,
}

impl<S> StreamInUse<S> {
    fn new(stream: S, in_use: SessionUse) -> Self {
        Self { stream: Box::pin(stream), _in_use: in_use }
    }
}

impl<S: Stream> Stream for StreamInUse<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.stream.as_mut().poll_next(cx)
    }
}

/// The owner and the last use of each session.
#[derive(Debug)]
struct SessionTable {
    most: usize,
    sessions: HashMap<SessionId, SessionEntry>,
    /// The last sessions that their clients have ended, oldest first.
    deleted: VecDeque<SessionId>,
}

#[derive(Debug)]
struct SessionEntry {
    used: Instant,
    uses: usize,
    /// The requests in flight, including those whose client has hung up, which does not cancel
    /// them.
    in_flight: InFlightRequests,
    owner: Option<TenantId>,
    /// `true` if streams begin with an empty event.
    is_primed: bool,
    _open: OpenSession,
}

impl SessionEntry {
    /// `true` if nobody has used the session since `then`.
    fn is_idle_since(&self, then: Instant) -> bool {
        self.uses == 0 && self.used <= then && self.in_flight.is_idle_since(then)
    }

    /// `true` if a call is in flight and the client has had no stream since `then`.
    fn is_abandoned_since(&self, then: Instant) -> bool {
        self.uses == 0 && self.used <= then && !self.in_flight.is_empty()
    }
}

impl SessionTable {
    fn new(most: usize) -> Self {
        Self { most, sessions: HashMap::new(), deleted: VecDeque::new() }
    }

    fn add(&mut self, id: &SessionId, owner: Option<TenantId>, now: Instant) -> InFlightRequests {
        let in_flight = InFlightRequests::default();
        let entry = SessionEntry {
            used: now,
            uses: 0,
            in_flight: in_flight.clone(),
            owner,
            is_primed: false,
            _open: events::session_opened(telemetry::Transport::Http),
        };
        self.sessions.insert(id.clone(), entry);
        in_flight
    }

    /// The requests in flight of a session; none if the session has just ended.
    fn in_flight(&self, id: &SessionId) -> InFlightRequests {
        self.sessions.get(id).map(|entry| entry.in_flight.clone()).unwrap_or_default()
    }

    /// Returns the sessions that have to end at `now`: idle ones, and those that have lost their
    /// client.
    fn unused(&self, now: Instant, timeouts: SessionTimeouts) -> Vec<SessionId> {
        let (idle, hang_up) = (now.checked_sub(timeouts.idle), now.checked_sub(timeouts.hang_up));
        let is_unused = |entry: &SessionEntry| {
            idle.is_some_and(|then| entry.is_idle_since(then))
                || hang_up.is_some_and(|then| entry.is_abandoned_since(then))
        };
        let unused = self.sessions.iter().filter(|(_, entry)| is_unused(entry));
        unused.map(|(id, _)| id.clone()).collect()
    }

    fn is_open_or_deleted(&self, id: &str) -> bool {
        self.sessions.contains_key(id) || self.deleted.iter().any(|deleted| **deleted == *id)
    }

    fn record_deletion(&mut self, id: SessionId) {
        if self.deleted.len() == MAX_DELETED {
            self.deleted.pop_front();
        }
        self.deleted.push_back(id);
    }

    fn set_primed(&mut self, id: &SessionId, is_primed: bool) {
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.is_primed = is_primed;
        }
    }

    fn is_primed(&self, id: &SessionId) -> bool {
        self.sessions.get(id).is_some_and(|entry| entry.is_primed)
    }

    fn owner(&self, id: &str) -> Option<TenantId> {
        self.sessions.get(id)?.owner
    }

    fn begin(&mut self, id: &SessionId, now: Instant) {
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.used = now;
            entry.uses += 1;
        }
    }

    fn end(&mut self, id: &SessionId, now: Instant) {
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.used = now;
            entry.uses = entry.uses.saturating_sub(1);
        }
    }

    /// Updates the last use of a session. A session that is not in the table has just ended and is
    /// not added.
    fn touch(&mut self, id: &SessionId, now: Instant) {
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.used = now;
        }
    }

    /// Removes and returns the session that must end for this new one, if any: one of the same
    /// tenant or, if that tenant has no idle session and has not used up its share, one of the
    /// tenant with the most sessions.
    fn make_room(
        &mut self,
        new: &SessionId,
        tenant: Option<TenantId>,
    ) -> Result<Option<SessionId>, SessionsFull> {
        let share = (self.most / SHARE).max(MIN_SHARE);
        let is_over_share = self.count(tenant) > share;
        if !is_over_share && self.sessions.len() <= self.most {
            return Ok(None);
        }
        let mut idle = self.longest_idle(new, tenant);
        if idle.is_none() && !is_over_share {
            let most = self.sessions.values().map(|entry| entry.owner);
            let largest = most.max_by_key(|owner| self.count(*owner)).flatten();
            idle = self.longest_idle(new, largest);
        }
        let idle = idle.ok_or(SessionsFull)?;
        self.sessions.remove(&idle);
        Ok(Some(idle))
    }

    fn count(&self, tenant: Option<TenantId>) -> usize {
        self.sessions.values().filter(|entry| entry.owner == tenant).count()
    }

    /// The session of this tenant that has been idle longest, other than the new one.
    fn longest_idle(&self, new: &SessionId, tenant: Option<TenantId>) -> Option<SessionId> {
        let is_unused = |entry: &SessionEntry| entry.uses == 0 && entry.in_flight.is_empty();
        let own = self
            .sessions
            .iter()
            .filter(|(id, entry)| *id != new && entry.owner == tenant && is_unused(entry));
        own.min_by_key(|(_, entry)| entry.used).map(|(id, _)| id.clone())
    }
}

impl SessionManager for BoundedSessions {
    type Error = LocalSessionManagerError;
    type Transport = TrackedTransport<<LocalSessionManager as SessionManager>::Transport>;

    /// Does not await anything once the session exists: a client that hangs up meanwhile would
    /// leave a session in the table that nobody serves.
    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let caller = SESSION_OPENER.try_with(SessionOpener::clone).unwrap_or_default();
        let id = caller.id.clone().unwrap_or_else(session_id);
        // rmcp chooses the id of a new session itself, but not that of a restored one.
        let RestoreOutcome::Restored(transport) = self.local.restore_session(id.clone()).await?
        else {
            return Err(LocalSessionManagerError::SessionNotFound(id));
        };
        let in_flight = self.with_table(|table| table.add(&id, caller.tenant, Instant::now()));
        loop {
            match self.with_table(|table| table.make_room(&id, caller.tenant)) {
                Ok(None) => return Ok((id, TrackedTransport::new(transport, in_flight))),
                Ok(Some(oldest)) => {
                    tracing::info!("too many MCP sessions: the one that was idle longest is ended");
                    self.end(oldest);
                }
                Err(SessionsFull) => {
                    caller.refused.store(true, Ordering::Relaxed);
                    self.with_table(|table| table.sessions.remove(&id));
                    self.end(id.clone());
                    return Err(LocalSessionManagerError::SessionNotFound(id));
                }
            }
        }
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        let answer = self.local.initialize_session(id, message).await?;
        let is_primed = expects_primed_streams(&answer);
        self.with_table(|table| table.set_primed(id, is_primed));
        Ok(answer)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.local.has_session(id).await
    }

    /// Cancels the calls in flight first: rmcp would wait some seconds for their replies, which nobody
    /// reads. Their [`CancelNotice`](crate::mcp::CancelNotice) stays unset, as after any hang-up.
    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        let entry = self.with_table(|table| table.sessions.remove(id));
        for request in entry.map(|entry| entry.in_flight.list_ids()).unwrap_or_default() {
            // A session that has ended by itself has cancelled them.
            self.local.accept_message(id, cancel_message(request)).await.ok();
        }
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let in_use = self.begin_use(id);
        let in_flight = self.with_table(|table| table.in_flight(id));
        if let Err(error) = in_flight.admit(&mut message, usize::MAX) {
            let refusal = ServerJsonRpcMessage::error(error, find_request_id(&message));
            let refusal = ServerSseMessage::from_message(refusal);
            return Ok(StreamInUse::new(stream::iter([refusal]).left_stream(), in_use));
        }
        let is_primed = self.with_table(|table| table.is_primed(id));
        let answers = self.local.create_stream(id, message).await?;
        let answers =
            answers.filter(move |event| future::ready(is_primed || event.message.is_some()));
        Ok(StreamInUse::new(answers.right_stream(), in_use))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.touch(id);
        // Messages on this path are never requests, so there is nothing to refuse.
        self.with_table(|table| table.in_flight(id)).admit(&mut message, usize::MAX).ok();
        self.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let in_use = self.begin_use(id);
        let is_primed = self.with_table(|table| table.is_primed(id));
        let first = is_primed.then(|| ServerSseMessage::priming("0", RECONNECT_AFTER));
        let events = self.local.create_standalone_stream(id).await?;
        Ok(StreamInUse::new(stream::iter(first).chain(events), in_use))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let in_use = self.begin_use(id);
        Ok(StreamInUse::new(self.local.resume(id, last_event_id).await?, in_use))
    }
}

/// Returns the notification that cancels a request.
fn cancel_message(request: RequestId) -> ClientJsonRpcMessage {
    let params = CancelledNotificationParam::new(Some(request), None);
    ClientJsonRpcMessage::notification(CancelledNotification::new(params).into())
}

/// `true` if the client that gets this answer to `initialize` expects streams to begin with an empty
/// event. Versions are dates, so their order is that of their text.
fn expects_primed_streams(answer: &ServerJsonRpcMessage) -> bool {
    let ServerJsonRpcMessage::Response(response) = answer else { return false };
    let ServerResult::InitializeResult(result) = &response.result else { return false };
    result.protocol_version.as_str() >= FIRST_PRIMED_VERSION
}

/// The transport of a session, which tracks the replies that it sends.
pub(super) struct TrackedTransport<T> {
    transport: T,
    in_flight: InFlightRequests,
}

impl<T> TrackedTransport<T> {
    pub(super) const fn new(transport: T, in_flight: InFlightRequests) -> Self {
        Self { transport, in_flight }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for TrackedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        drop(self.in_flight.begin_reply(&message));
        self.transport.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.transport.receive().await
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.transport.close().await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;
    use serde_json::json;

    use super::*;

    fn tenant(name: &str) -> Option<TenantId> {
        TenantId::parse(name).ok()
    }

    /// Adds a session and returns the one that had to end for it.
    fn open(
        table: &mut SessionTable,
        id: &str,
        tenant: Option<TenantId>,
    ) -> Result<Option<SessionId>, SessionsFull> {
        let id = SessionId::from(id);
        table.add(&id, tenant, Instant::now());
        let room = table.make_room(&id, tenant);
        if room.is_err() {
            table.sessions.remove(&id);
        }
        room
    }

    #[test]
    fn a_full_session_table_ends_the_session_that_was_idle_longest() {
        let mut table = SessionTable::new(2);
        let ours = tenant("sessions-a");
        let [a, b, c] = ["a", "b", "c"].map(SessionId::from);
        assert_eq!(open(&mut table, "a", ours), Ok(None));
        assert_eq!(open(&mut table, "b", ours), Ok(None));
        table.touch(&a, Instant::now());
        assert_eq!(open(&mut table, "c", ours), Ok(Some(b)));
        table.begin(&a, Instant::now());
        assert_eq!(open(&mut table, "d", ours), Ok(Some(c)), "the other one is in use");
        table.begin(&SessionId::from("d"), Instant::now());
        assert_eq!(open(&mut table, "e", ours), Err(SessionsFull), "both are");
        table.end(&a, Instant::now());
        assert_eq!(open(&mut table, "e", ours), Ok(Some(a)));
    }

    #[test]
    fn a_session_with_a_call_in_flight_is_not_idle_even_if_nobody_reads_the_reply() {
        let mut table = SessionTable::new(4);
        for id in ["streams", "works", "rests"] {
            open(&mut table, id, None).unwrap();
        }
        table.begin(&SessionId::from("streams"), Instant::now());
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let mut call = serde_json::from_value(call).unwrap();
        table.in_flight(&SessionId::from("works")).admit(&mut call, 9).unwrap();
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let timeouts = |idle, hang_up| SessionTimeouts { idle, hang_up };
        let unused = table.unused(now, timeouts(Duration::ZERO, second));
        assert_eq!(unused, [SessionId::from("rests")]);
        assert!(table.unused(now, timeouts(second, second)).is_empty(), "used after that");
        let left = table.unused(now, timeouts(second, Duration::ZERO));
        assert_eq!(left, [SessionId::from("works")], "nobody reads the answer");
        assert_eq!(
            table.longest_idle(&SessionId::from("new"), None),
            Some(SessionId::from("rests"))
        );
    }

    #[test]
    fn a_tenant_ends_its_own_sessions_and_no_others() {
        let mut table = SessionTable::new(100);
        let [ours, theirs] = ["sessions-a", "sessions-b"].map(tenant);
        assert_eq!(open(&mut table, "first", theirs), Ok(None));
        for number in 0..1000 {
            open(&mut table, &format!("ours-{number}"), ours).unwrap();
        }
        assert_eq!((table.count(ours), table.count(theirs)), (25, 1));
    }

    #[test]
    fn a_tenant_without_sessions_takes_one_of_the_tenant_with_most() {
        let mut table = SessionTable::new(4);
        let [ours, theirs] = ["sessions-a", "sessions-b"].map(tenant);
        for id in ["a", "b", "c", "d"] {
            open(&mut table, id, theirs).unwrap();
        }
        assert_eq!(open(&mut table, "e", ours), Ok(Some(SessionId::from("a"))));
        assert_eq!(
            open(&mut table, "f", ours),
            Ok(Some(SessionId::from("e"))),
            "its own comes first"
        );
    }

    #[tokio::test]
    async fn the_number_of_sessions_stays_within_its_limit() {
        let sessions = BoundedSessions::new(2, None);
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(sessions.create_session().await.unwrap().0);
        }
        while sessions.has_session(&ids[2]).await.unwrap() {
            tokio::task::yield_now().await;
        }
        assert_eq!(sessions.local.sessions.read().await.len(), 2);
        assert!(!sessions.has_session(&ids[0]).await.unwrap());
        assert!(sessions.has_session(&ids[4]).await.unwrap());
        sessions.close_session(&ids[4]).await.unwrap();
        assert_eq!(sessions.with_table(|table| table.sessions.len()), 1);
    }

    #[tokio::test]
    async fn opening_a_session_does_not_await_once_the_session_exists() {
        let sessions = BoundedSessions::new(1, None);
        let (first, _transport) = sessions.create_session().await.unwrap();
        let reading = sessions.local.sessions.read().await;
        let mut opening = pin!(sessions.create_session());
        assert!(opening.as_mut().now_or_never().is_none());
        let mut another = pin!(sessions.local.sessions.write());
        assert!(another.as_mut().now_or_never().is_none());
        drop(reading);
        // The first session has to end but cannot yet: the other future holds the lock.
        let (second, _transport) = opening.now_or_never().expect("it does not wait").unwrap();
        drop(another.await);
        while sessions.has_session(&first).await.unwrap() {
            tokio::task::yield_now().await;
        }
        assert_eq!(sessions.with_table(|table| table.sessions.len()), 1);
        assert!(sessions.has_session(&second).await.unwrap());
    }

    #[tokio::test]
    async fn a_session_exists_only_for_its_own_tenant() {
        let sessions = BoundedSessions::new(2, None);
        let [ours, theirs] = ["sessions-a", "sessions-b"].map(tenant);
        let opener = SessionOpener::new(ours, None);
        let opened = BoundedSessions::run_as(opener, sessions.create_session()).await.unwrap();
        let (id, _transport) = opened.unwrap();
        let named =
            || HeaderMap::from_iter([(SESSION_HEADER.parse().unwrap(), id.parse().unwrap())]);
        let is_visible_to = |tenant| {
            let mut headers = named();
            sessions.hide_foreign_session(&mut headers, tenant);
            headers == named()
        };
        assert!(is_visible_to(ours) && !is_visible_to(theirs) && !is_visible_to(None));
    }

    #[test]
    fn an_ended_session_is_remembered_among_the_last_ones() {
        let mut table = SessionTable::new(4);
        for number in 0..=MAX_DELETED {
            let id = SessionId::from(number.to_string());
            table.add(&id, None, Instant::now());
            table.record_deletion(id.clone());
            table.sessions.remove(&id);
        }
        assert!(!table.is_open_or_deleted("0"), "too long ago");
        assert!(table.is_open_or_deleted("1"));
        assert_eq!(table.deleted.len(), MAX_DELETED);
    }
}

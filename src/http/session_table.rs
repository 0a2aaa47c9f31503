//! The table of legacy sessions: who may open one, who owns it, and when it is over. Pure, without a
//! clock.
//!
//! A session is never ended to make room for another one: at the limit, new sessions are refused.
//! One tenant may use all sessions. A few more are reserved for tenants that have hardly any, so that
//! it locks nobody out.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::transport::streamable_http_server::session::SessionId;
use thiserror::Error;

use super::legacy_session::{HandshakeChannel, LegacySession};
use crate::ids::TenantId;
use crate::telemetry::events::OpenSession;
use crate::telemetry::{self, events};

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
pub(super) struct SessionTable {
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
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, sessions: HashMap::new(), deleted: VecDeque::new() }
    }

    /// Adds a session whose handshake is about to begin.
    ///
    /// # Errors
    /// When there is no room for a further session of this tenant.
    pub(super) fn add(
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
    pub(super) fn take_handshake(&mut self, id: &SessionId) -> Option<HandshakeChannel> {
        match &mut self.sessions.get_mut(id)?.stage {
            SessionStage::Opening(handshake) => handshake.take(),
            SessionStage::Open(_) => None,
        }
    }

    /// Records that the handshake of a session has succeeded.
    pub(super) fn open(&mut self, id: &SessionId, session: Arc<LegacySession>) {
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.stage = SessionStage::Open(session);
        }
    }

    /// Removes a session, and returns it if it was open.
    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<LegacySession>> {
        match self.sessions.remove(id)?.stage {
            SessionStage::Opening(_) => None,
            SessionStage::Open(session) => Some(session),
        }
    }

    /// Removes a session whose handshake has failed. An open session stays.
    pub(super) fn remove_unopened(&mut self, id: &SessionId) {
        if self.find(id).is_none() {
            self.sessions.remove(id);
        }
    }

    /// Returns an open session.
    pub(super) fn find(&self, id: &str) -> Option<Arc<LegacySession>> {
        match &self.sessions.get(id)?.stage {
            SessionStage::Opening(_) => None,
            SessionStage::Open(session) => Some(Arc::clone(session)),
        }
    }

    pub(super) fn owner(&self, id: &str) -> Option<TenantId> {
        self.sessions.get(id)?.owner
    }

    pub(super) fn record_deletion(&mut self, id: SessionId) {
        if self.deleted.len() == MAX_DELETED {
            self.deleted.pop_front();
        }
        self.deleted.push_back(id);
    }

    pub(super) fn is_deleted(&self, id: &str) -> bool {
        self.deleted.iter().any(|deleted| **deleted == *id)
    }

    /// Records that a client uses a session from now on. A session that is not in the table has just
    /// ended.
    pub(super) fn begin_use(&mut self, id: &SessionId, now: Instant) {
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.used = now;
            entry.uses += 1;
        }
    }

    pub(super) fn end_use(&mut self, id: &SessionId, now: Instant) {
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.used = now;
            entry.uses = entry.uses.saturating_sub(1);
        }
    }

    /// Drops the replies of all sessions that no client has fetched in time.
    pub(super) fn drop_expired_replies(&self, now: Instant) {
        for entry in self.sessions.values() {
            if let SessionStage::Open(session) = &entry.stage {
                session.drop_expired_replies(now);
            }
        }
    }

    /// Returns the sessions that have to end at `now`: idle ones, and those that have lost their
    /// client.
    pub(super) fn unused(&self, now: Instant, timeouts: SessionTimeouts) -> Vec<SessionId> {
        let idle = now.checked_sub(timeouts.idle);
        let hang_up = now.checked_sub(timeouts.hang_up);
        let is_unused = |entry: &SessionEntry| {
            idle.is_some_and(|then| entry.is_idle_since(then))
                || hang_up.is_some_and(|then| entry.is_abandoned_since(then))
        };
        let unused = self.sessions.iter().filter(|(_, entry)| is_unused(entry));
        unused.map(|(id, _)| id.clone()).collect()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::session_streams::IsPrimed;

    fn tenant(name: &str) -> Option<TenantId> {
        TenantId::parse(name).ok()
    }

    fn open(
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
            open(&mut table, &format!("ours-{number}"), ours).unwrap();
        }
        let full = SessionsFull { limit: 100 };
        assert_eq!(open(&mut table, "one more", ours), Err(full));
        let text = full.to_string();
        for words in ["sessions_full", "100", "http.max_sessions", "DELETE", "try again"] {
            assert!(text.contains(words), "{text}");
        }
        for number in 0..12 {
            open(&mut table, &format!("theirs-{number}"), theirs).unwrap();
        }
        assert_eq!(open(&mut table, "one more", theirs), Err(full));
        table.remove("ours-7");
        assert_eq!(open(&mut table, "one more", ours), Err(full), "112 is still above 100");
        assert_eq!(open(&mut table, "another", tenant("sessions-c")), Ok(()));
        assert_eq!((table.count(ours), table.count(theirs)), (99, 12));
    }

    #[test]
    fn a_small_table_has_no_reserve() {
        let mut table = SessionTable::new(2);
        for id in ["a", "b"] {
            open(&mut table, id, None).unwrap();
        }
        assert_eq!(open(&mut table, "c", tenant("sessions-a")), Err(SessionsFull { limit: 2 }));
        assert!(table.find("a").is_some() && table.find("b").is_some(), "both live on");
        table.remove("a");
        assert_eq!(open(&mut table, "c", tenant("sessions-a")), Ok(()));
    }

    #[test]
    fn a_session_with_a_call_in_flight_is_not_idle_even_if_nobody_reads_the_reply() {
        let mut table = SessionTable::new(4);
        for id in ["streams", "works", "rests"] {
            open(&mut table, id, None).unwrap();
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
        assert!(table.len() == 1 && table.find("a").is_none());
        assert!(table.take_handshake(&id).is_some() && table.take_handshake(&id).is_none());
        table.remove_unopened(&id);
        assert_eq!(table.len(), 0);
        open(&mut table, "b", None).unwrap();
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

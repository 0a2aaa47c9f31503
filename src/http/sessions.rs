//! Legacy sessions, bounded in number.
//!
//! rmcp keeps as many sessions as clients open, some 50 KB each. Here a further session ends the
//! one that was silent longest, of the tenant that has most; its client gets 404 and, as the
//! protocol has it, initializes again. Nothing of a job is lost by that: jobs belong to the yard.
//!
//! A session belongs to the tenant that opened it. To all others it does not exist.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue};
use futures_util::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};

use crate::ids::Tenant;

const SESSION: &str = "mcp-session-id";

/// What no session is called.
const NO_SESSION: HeaderValue = HeaderValue::from_static("none");

/// rmcp's own sessions, with a bound on their number.
#[derive(Debug)]
pub(super) struct Sessions {
    local: LocalSessionManager,
    book: Mutex<Book>,
}

impl Sessions {
    /// At most `most` sessions; each is forgotten after `idle` without a message.
    pub(super) fn new(most: usize, idle: Duration) -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(idle);
        Self { local, book: Mutex::new(Book { most, sessions: HashMap::new() }) }
    }

    /// Makes a request that names another tenant's session, or none that is known, name none that
    /// is: it is then answered just the same.
    pub(super) fn hide_foreign(&self, headers: &mut HeaderMap, tenant: Option<Tenant>) {
        let Some(named) = headers.get(SESSION) else { return };
        let owner = named.to_str().ok().and_then(|id| self.book(|book| book.owner(id)));
        if owner.is_none() || owner != tenant {
            headers.insert(SESSION, NO_SESSION);
        }
    }

    /// The session that this answer began, if it did, is this tenant's from now on. Nobody else
    /// has heard of it yet.
    pub(super) fn claim(&self, headers: &HeaderMap, tenant: Option<Tenant>) {
        if let Some(id) = headers.get(SESSION).and_then(|id| id.to_str().ok()) {
            self.book(|book| book.claim(id, tenant));
        }
    }

    fn book<T>(&self, change: impl FnOnce(&mut Book) -> T) -> T {
        change(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn touch(&self, id: &SessionId) {
        self.book(|book| book.touch(id, Instant::now()));
    }
}

/// Whose each session is, and when it was last used.
#[derive(Debug)]
struct Book {
    most: usize,
    sessions: HashMap<SessionId, Entry>,
}

#[derive(Debug)]
struct Entry {
    used: Instant,
    /// `None`: it has just begun.
    owner: Option<Tenant>,
}

impl Book {
    fn add(&mut self, id: &SessionId, now: Instant) {
        self.sessions.insert(id.clone(), Entry { used: now, owner: None });
    }

    fn owner(&self, id: &str) -> Option<Tenant> {
        self.sessions.get(id)?.owner
    }

    /// The first to claim a session keeps it.
    fn claim(&mut self, id: &str, tenant: Option<Tenant>) {
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.owner = entry.owner.or(tenant);
        }
    }

    /// A session that is not in the book is not added: it has just ended.
    fn touch(&mut self, id: &SessionId, now: Instant) {
        if let Some(entry) = self.sessions.get_mut(id) {
            entry.used = now;
        }
    }

    /// Takes out the session that must go before another one fits in: of the tenant that has most,
    /// so that nobody's sessions end by the number of others', the one that was idle longest.
    fn make_room(&mut self) -> Option<SessionId> {
        if self.sessions.len() < self.most {
            return None;
        }
        let mut held: HashMap<Option<Tenant>, usize> = HashMap::new();
        for entry in self.sessions.values() {
            *held.entry(entry.owner).or_default() += 1;
        }
        let rank = |entry: &Entry| (Reverse(held.get(&entry.owner).copied()), entry.used);
        let oldest = self.sessions.iter().min_by_key(|(_, entry)| rank(entry))?.0.clone();
        self.sessions.remove(&oldest);
        Some(oldest)
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        while let Some(oldest) = self.book(Book::make_room) {
            tracing::info!("too many MCP sessions: the one that was idle longest is ended");
            self.local.close_session(&oldest).await?;
        }
        let (id, transport) = self.local.create_session().await?;
        self.book(|book| book.add(&id, Instant::now()));
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.local.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.book(|book| book.sessions.remove(id));
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.touch(id);
        self.local.create_stream(id, message).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.touch(id);
        self.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.touch(id);
        self.local.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.touch(id);
        self.local.resume(id, last_event_id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_book_gives_up_the_session_that_was_idle_longest() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let [a, b, c] = ["a", "b", "c"].map(SessionId::from);
        let mut book = Book { most: 2, sessions: HashMap::new() };
        book.add(&a, at(0));
        assert_eq!(book.make_room(), None);
        book.add(&b, at(1));
        book.touch(&a, at(2));
        assert_eq!(book.make_room(), Some(b.clone()));
        assert_eq!(book.make_room(), None);
        book.touch(&b, at(3));
        book.add(&c, at(4));
        assert_eq!(book.make_room(), Some(a));
    }

    #[test]
    fn a_full_book_gives_up_one_of_the_tenant_that_has_most() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let [many, few] = ["sessions-many", "sessions-few"].map(|name| Tenant::named(name).ok());
        let mut book = Book { most: 3, sessions: HashMap::new() };
        for (second, (id, owner)) in [("a", few), ("b", many), ("c", many)].iter().enumerate() {
            book.add(&SessionId::from(*id), at(second as u64));
            book.claim(id, *owner);
        }
        assert_eq!(book.make_room(), Some(SessionId::from("b")), "although `a` was idle longer");
    }

    #[tokio::test]
    async fn sessions_stay_within_their_number() {
        let sessions = Sessions::new(2, Duration::from_secs(60));
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(sessions.create_session().await.unwrap().0);
        }
        assert_eq!(sessions.local.sessions.read().await.len(), 2);
        assert!(!sessions.has_session(&ids[0]).await.unwrap());
        assert!(sessions.has_session(&ids[4]).await.unwrap());
        sessions.close_session(&ids[4]).await.unwrap();
        assert_eq!(sessions.book(|book| book.sessions.len()), 1);
    }

    #[tokio::test]
    async fn a_session_is_there_for_its_own_tenant_only() {
        let sessions = Sessions::new(2, Duration::from_secs(60));
        let (id, _transport) = sessions.create_session().await.unwrap();
        let [ours, theirs] = ["sessions-a", "sessions-b"].map(|name| Tenant::named(name).ok());
        let named = || HeaderMap::from_iter([(SESSION.parse().unwrap(), id.parse().unwrap())]);
        let seen = |tenant| {
            let mut headers = named();
            sessions.hide_foreign(&mut headers, tenant);
            headers == named()
        };
        assert!(!seen(ours), "nobody has been told of it");
        sessions.claim(&named(), ours);
        assert!(seen(ours) && !seen(theirs) && !seen(None));
        sessions.claim(&named(), theirs);
        assert!(seen(ours) && !seen(theirs));
    }
}

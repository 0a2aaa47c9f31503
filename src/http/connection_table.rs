//! The open connections: the table that limits them (pure rules without sockets or a clock), the
//! permit that each connection holds and returns on drop, and the client at the other end: its
//! address, and whether it is a job of this server.
//!
//! A connection without a request in flight is idle and can be evicted: at a limit, a new
//! connection replaces the one that has been idle longest. So a client that holds many silent
//! connections open locks nobody out, and a connection that is being served stays.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::UnixStream;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::mcp::NetworkTransport;
use crate::telemetry::{HttpRefusalReason, events};

/// Connections reserved for the unix socket beyond the total limit, so that an operator always gets
/// in.
const SOCKET_RESERVE: usize = 16;

/// The limits for open connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionLimits {
    /// The total, without the reserve for the unix socket.
    pub(super) all: usize,
    /// The limit per address group, except for the unix socket.
    pub(super) per_address: usize,
}

/// The id of a connection, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ConnectionId(u64);

/// The decision about a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionAdmission {
    Admitted(ConnectionId),
    /// The connection replaces another one, which must be closed.
    Replaces {
        id: ConnectionId,
        /// The evicted connection, already removed from the table.
        evicted: ConnectionId,
    },
    /// Every connection that could be replaced is being served, so the new one must be closed.
    Full,
}

/// The open connections and their states.
///
/// Invariant: `idle` holds exactly the entries that are [`State::Idle`], ordered by the time they
/// became idle, and `per_group` holds the number of entries of each address group that has any.
#[derive(Debug)]
struct ConnectionTable {
    limits: ConnectionLimits,
    /// A logical clock that counts admissions and ends of requests: it orders the times at which
    /// connections became idle.
    now: u64,
    entries: HashMap<ConnectionId, ConnectionEntry>,
    idle: BTreeMap<u64, ConnectionId>,
    per_group: HashMap<AddressGroup, usize>,
}

#[derive(Debug)]
struct ConnectionEntry {
    group: AddressGroup,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Idle { since: u64 },
    Busy { requests: u32 },
}

impl ConnectionTable {
    fn new(limits: ConnectionLimits) -> Self {
        let entries = HashMap::new();
        let per_group = HashMap::new();
        Self { limits, now: 0, entries, idle: BTreeMap::new(), per_group }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a connection, which is idle at first, unless every connection that it could replace is
    /// busy.
    fn admit(&mut self, group: AddressGroup) -> ConnectionAdmission {
        let evicted = if self.is_at_group_limit(group) {
            self.evict(|entry| entry.group == group)
        } else if self.entries.len() >= self.limit_for(group) {
            self.evict(|_| true)
        } else {
            return ConnectionAdmission::Admitted(self.add(group));
        };
        match evicted {
            Some(evicted) => ConnectionAdmission::Replaces { id: self.add(group), evicted },
            None => ConnectionAdmission::Full,
        }
    }

    /// Removes the connection that has been idle longest. The caller must close it.
    fn evict_longest_idle(&mut self) -> Option<ConnectionId> {
        self.evict(|_| true)
    }

    /// Marks the connection as busy with one more request. Returns `false` if the connection is no
    /// longer in the table.
    fn begin_request(&mut self, id: ConnectionId) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        entry.state = match entry.state {
            State::Idle { since } => {
                self.idle.remove(&since);
                State::Busy { requests: 1 }
            }
            State::Busy { requests } => State::Busy { requests: requests + 1 },
        };
        true
    }

    /// Ends a request, its response included.
    fn end_request(&mut self, id: ConnectionId) {
        self.now += 1;
        let Some(entry) = self.entries.get_mut(&id) else { return };
        match entry.state {
            State::Busy { requests: 0 | 1 } => {
                entry.state = State::Idle { since: self.now };
                self.idle.insert(self.now, id);
            }
            State::Busy { requests } => entry.state = State::Busy { requests: requests - 1 },
            State::Idle { .. } => {}
        }
    }

    /// Removes a closed connection. An evicted one has been removed already.
    fn remove(&mut self, id: ConnectionId) {
        let Some(entry) = self.entries.remove(&id) else { return };
        if let State::Idle { since } = entry.state {
            self.idle.remove(&since);
        }
        if let Some(count) = self.per_group.get_mut(&entry.group) {
            *count -= 1;
            if *count == 0 {
                self.per_group.remove(&entry.group);
            }
        }
    }

    const fn limit_for(&self, group: AddressGroup) -> usize {
        match group {
            AddressGroup::Socket => self.limits.all.saturating_add(SOCKET_RESERVE),
            AddressGroup::Loopback | AddressGroup::V4(_) | AddressGroup::V6(_) => self.limits.all,
        }
    }

    fn is_at_group_limit(&self, group: AddressGroup) -> bool {
        let count = self.per_group.get(&group).copied().unwrap_or(0);
        group != AddressGroup::Socket && count >= self.limits.per_address
    }

    fn evict(&mut self, may_go: impl Fn(&ConnectionEntry) -> bool) -> Option<ConnectionId> {
        let is_free = |id: &&ConnectionId| self.entries.get(id).is_some_and(&may_go);
        let evicted = *self.idle.values().find(is_free)?;
        self.remove(evicted);
        Some(evicted)
    }

    fn add(&mut self, group: AddressGroup) -> ConnectionId {
        self.now += 1;
        let since = self.now;
        let id = ConnectionId(self.now);
        self.entries.insert(id, ConnectionEntry { group, state: State::Idle { since } });
        self.idle.insert(since, id);
        *self.per_group.entry(group).or_default() += 1;
        id
    }
}

/// The bytes that wait to be read, per connection, within one shared budget.
///
/// Invariant: `total` is the sum of the bytes in `waiting`, and `since` is the key of each
/// connection in `waiting`.
///
/// One response may be a megabyte. One such response per connection would be too much, so all
/// connections share one budget. Above it, the connections that have waited longest are closed.
#[derive(Debug)]
struct UnreadBudget {
    budget: usize,
    total: usize,
    /// A logical clock that counts changes: it orders the times at which connections began to wait.
    now: u64,
    waiting: BTreeMap<u64, (ConnectionId, usize)>,
    since: HashMap<ConnectionId, u64>,
}

impl UnreadBudget {
    /// Allows `budget` bytes, or a single larger response.
    fn new(budget: usize) -> Self {
        Self { budget, total: 0, now: 0, waiting: BTreeMap::new(), since: HashMap::new() }
    }

    /// Records that `bytes` wait for this connection, in place of what waited before. Returns the
    /// connections that must be closed to stay within the budget.
    #[must_use]
    fn hold_bytes(&mut self, id: ConnectionId, bytes: usize) -> Vec<ConnectionId> {
        self.release_bytes(id);
        let mut closed = Vec::new();
        while self.total.saturating_add(bytes) > self.budget
            && let Some((_, (oldest, _))) = self.waiting.first_key_value()
        {
            let oldest = *oldest;
            self.release_bytes(oldest);
            closed.push(oldest);
        }
        self.now += 1;
        self.total += bytes;
        self.waiting.insert(self.now, (id, bytes));
        self.since.insert(id, self.now);
        closed
    }

    /// Records that nothing waits for this connection any more.
    fn release_bytes(&mut self, id: ConnectionId) {
        let waited = self.since.remove(&id).and_then(|since| self.waiting.remove(&since));
        self.total -= waited.map_or(0, |(_, bytes)| bytes);
    }
}

/// Limits the open connections and the bytes that wait for them. Clones are cheap and share their
/// state.
#[derive(Debug, Clone)]
pub(super) struct ConnectionLimiter(Arc<Mutex<LimiterState>>);

#[derive(Debug)]
struct LimiterState {
    table: ConnectionTable,
    unread: UnreadBudget,
    /// Closes each connection when cancelled.
    close_tokens: HashMap<ConnectionId, CancellationToken>,
}

impl ConnectionLimiter {
    /// Creates a limiter without connections. At most `max_unread` bytes may wait for all of them
    /// together.
    pub(super) fn new(limits: ConnectionLimits, max_unread: usize) -> Self {
        events::connection_limit_set(limits.all);
        let table = ConnectionTable::new(limits);
        let unread = UnreadBudget::new(max_unread);
        Self(Arc::new(Mutex::new(LimiterState { table, unread, close_tokens: HashMap::new() })))
    }

    /// Returns a permit for a new connection, if necessary by closing the one that has been idle
    /// longest. Returns `None` when all others are being served.
    pub(super) fn admit(&self, group: AddressGroup) -> Option<ConnectionPermit> {
        let (id, evicted) = self.change(|state| {
            let (id, replaced) = match state.table.admit(group) {
                ConnectionAdmission::Admitted(id) => (id, None),
                ConnectionAdmission::Replaces { id, evicted } => (id, Some(evicted)),
                ConnectionAdmission::Full => {
                    events::connection_refused(HttpRefusalReason::Connections);
                    return None;
                }
            };
            if let Some(replaced) = replaced {
                state.close(replaced, HttpRefusalReason::Connections);
            }
            let evicted = CancellationToken::new();
            state.close_tokens.insert(id, evicted.clone());
            Some((id, evicted))
        })?;
        Some(ConnectionPermit { limiter: self.clone(), id, evicted })
    }

    /// Closes the connection that has been idle longest, to free its file descriptor.
    pub(super) fn close_longest_idle(&self) {
        self.change(|state| {
            if let Some(id) = state.table.evict_longest_idle() {
                state.close(id, HttpRefusalReason::Connections);
            }
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut LimiterState) -> T) -> T {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        events::connections_changed(state.table.len());
        result
    }
}

impl LimiterState {
    fn close(&mut self, id: ConnectionId, why: HttpRefusalReason) {
        events::connection_refused(why);
        self.table.remove(id);
        if let Some(end) = self.close_tokens.remove(&id) {
            end.cancel();
        }
    }
}

/// The permit of an open connection. Dropping it frees the place in the table.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    limiter: ConnectionLimiter,
    id: ConnectionId,
    evicted: CancellationToken,
}

impl ConnectionPermit {
    /// Cancelled when the connection is evicted: it must be closed at once.
    pub(super) fn evicted(&self) -> CancellationToken {
        self.evicted.clone()
    }

    /// Marks the connection as busy until the returned guard is dropped. `None` for an evicted
    /// connection, which may not start a request.
    fn begin_request(self: &Arc<Self>) -> Option<BusyGuard> {
        let begun = self.limiter.change(|state| state.table.begin_request(self.id));
        begun.then(|| BusyGuard(Arc::clone(self)))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.change(|state| {
            state.table.remove(self.id);
            state.unread.release_bytes(self.id);
            state.close_tokens.remove(&self.id);
        });
    }
}

/// Marks the connection of one request as busy; each request carries one in its extensions. The
/// connection counts as idle until the whole request has been read and its caller is allowed in, so
/// that requests that never complete do not keep others out. Clones are cheap.
#[derive(Debug, Clone)]
pub(super) struct BusyMarker {
    permit: Arc<ConnectionPermit>,
    busy: Arc<Mutex<Option<BusyGuard>>>,
}

impl BusyMarker {
    /// Creates the marker of a request on the connection that holds this permit.
    pub(super) fn new(permit: Arc<ConnectionPermit>) -> Self {
        Self { permit, busy: Arc::default() }
    }

    /// Marks the connection as busy. Returns `false` if the connection was evicted.
    pub(super) fn mark_busy(&self) -> bool {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if busy.is_none() {
            *busy = self.permit.begin_request();
        }
        busy.is_some()
    }

    /// Takes the guard that keeps the connection busy while the response is written. Marks the
    /// connection as busy first if the request was refused before that. `None` for an evicted
    /// connection.
    pub(super) fn take_guard(&self) -> Option<BusyGuard> {
        self.mark_busy();
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The guard of a request in flight. It lives until the response has been written.
#[derive(Debug)]
pub(super) struct BusyGuard(Arc<ConnectionPermit>);

impl BusyGuard {
    /// Records that `bytes` of the response are in memory until the client has read them. If that
    /// exceeds the shared budget, the connections that have waited longest are closed.
    pub(super) fn hold_bytes(&self, bytes: usize) {
        self.0.limiter.change(|state| {
            for id in state.unread.hold_bytes(self.0.id, bytes) {
                state.close(id, HttpRefusalReason::Unread);
            }
        });
    }

    /// Records that the held bytes have been written.
    pub(super) fn release_bytes(&self) {
        self.0.limiter.change(|state| state.unread.release_bytes(self.0.id));
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.limiter.change(|state| {
            state.table.end_request(self.0.id);
            state.unread.release_bytes(self.0.id);
        });
    }
}

/// The address of a client. Each request carries it in its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerAddress {
    Tcp(SocketAddr),
    /// A process of the server's own user or of root, over the unix socket.
    Unix {
        peer: PeerKind,
    },
}

impl PeerAddress {
    pub(super) const fn network(&self) -> NetworkTransport {
        match self {
            Self::Tcp(_) => NetworkTransport::Tcp,
            Self::Unix { .. } => NetworkTransport::Unix,
        }
    }
}

/// The kind of process that opened a connection over the unix socket or from this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerKind {
    /// A process that a job started. It belongs to some tenant, but to which one is unknown.
    Job,
    User,
}

/// The unit by which connections are counted: the connections of one group share a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum AddressGroup {
    /// This machine, by any of its loopback addresses.
    Loopback,
    V4([u8; 4]),
    /// The /64 of an IPv6 address: its holder can use every address in it.
    V6([u16; 4]),
    /// The unix socket, whose clients are the server's own user and root.
    Socket,
}

impl From<PeerAddress> for AddressGroup {
    fn from(peer_address: PeerAddress) -> Self {
        let PeerAddress::Tcp(address) = peer_address else { return Self::Socket };
        match address.ip().to_canonical() {
            ip if ip.is_loopback() => Self::Loopback,
            IpAddr::V4(ip) => Self::V4(ip.octets()),
            IpAddr::V6(ip) => {
                let [a, b, c, d, ..] = ip.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

type UnixCheck = dyn Fn(&UnixStream) -> bool + Send + Sync;
type TcpCheck = dyn Fn(SocketAddr, SocketAddr) -> bool + Send + Sync;

/// Tells connections of this server's jobs from all others.
///
/// A job that may call its server can start further jobs on looser terms than its own, so jobs are
/// turned away unless `http.allow_jobs` is set. The process at the other end does not change while
/// a connection is open: each connection is examined once, however many requests it carries and
/// whatever it is upgraded to.
#[derive(Clone)]
pub struct JobDetection {
    on_unix: Arc<UnixCheck>,
    on_tcp: Arc<TcpCheck>,
}

impl JobDetection {
    /// Creates a detection. `on_unix` receives an accepted socket. `on_tcp` receives the address
    /// that accepted a connection and the address that it came from, and may block for
    /// milliseconds. Both return `true` for a job.
    pub fn new(
        on_unix: impl Fn(&UnixStream) -> bool + Send + Sync + 'static,
        on_tcp: impl Fn(SocketAddr, SocketAddr) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { on_unix: Arc::new(on_unix), on_tcp: Arc::new(on_tcp) }
    }

    /// Creates a detection that takes no connection for a job's, for a server that runs none.
    #[must_use]
    pub fn off() -> Self {
        Self::new(|_| false, |_, _| false)
    }

    pub(super) fn peer_on_unix(&self, stream: &UnixStream) -> PeerKind {
        if (self.on_unix)(stream) { PeerKind::Job } else { PeerKind::User }
    }
}

impl fmt::Debug for JobDetection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobDetection").finish_non_exhaustive()
    }
}

/// The process at the other end of one connection. All requests of a connection share it.
#[derive(Debug, Clone)]
pub(super) struct ConnectionPeer(Arc<PeerState>);

#[derive(Debug)]
struct PeerState {
    peer_address: PeerAddress,
    /// The local address of the connection, over TCP.
    server: Option<SocketAddr>,
    detection: JobDetection,
    found: OnceCell<PeerKind>,
}

impl ConnectionPeer {
    pub(super) fn new(
        peer_address: PeerAddress,
        server: Option<SocketAddr>,
        detection: JobDetection,
    ) -> Self {
        Self(Arc::new(PeerState { peer_address, server, detection, found: OnceCell::new() }))
    }

    /// Returns the kind of process. Over TCP the first request detects it, so connections without a
    /// request cost nothing.
    pub(super) async fn get(&self) -> PeerKind {
        let from = match self.0.peer_address {
            PeerAddress::Unix { peer } => return peer,
            PeerAddress::Tcp(from) => from,
        };
        *self.0.found.get_or_init(|| self.detect(from)).await
    }

    async fn detect(&self, from: SocketAddr) -> PeerKind {
        // A connection without a local address is closed, so nobody receives the answer.
        let Some(server) = self.0.server else { return PeerKind::Job };
        let check = Arc::clone(&self.0.detection.on_tcp);
        match spawn_blocking(move || check(server, from)).await {
            Ok(false) => PeerKind::User,
            Ok(true) | Err(_) => PeerKind::Job,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;

    const HERE: AddressGroup = AddressGroup::Loopback;
    const THERE: AddressGroup = AddressGroup::V4([192, 0, 2, 1]);

    fn table(all: usize, per_address: usize) -> ConnectionTable {
        ConnectionTable::new(ConnectionLimits { all, per_address })
    }

    #[track_caller]
    fn admitted(table: &mut ConnectionTable, group: AddressGroup) -> ConnectionId {
        match table.admit(group) {
            ConnectionAdmission::Admitted(id) => id,
            other @ (ConnectionAdmission::Replaces { .. } | ConnectionAdmission::Full) => {
                panic!("{other:?}")
            }
        }
    }

    #[track_caller]
    fn evicted(table: &mut ConnectionTable, group: AddressGroup) -> ConnectionId {
        match table.admit(group) {
            ConnectionAdmission::Replaces { evicted, .. } => evicted,
            other @ (ConnectionAdmission::Admitted(_) | ConnectionAdmission::Full) => {
                panic!("{other:?}")
            }
        }
    }

    #[test]
    fn a_new_connection_evicts_the_one_that_was_idle_longest() {
        let mut table = table(3, 3);
        let [a, b, c] = [HERE; 3].map(|group| admitted(&mut table, group));
        table.begin_request(a);
        table.end_request(a);
        assert_eq!(evicted(&mut table, HERE), b);
        assert_eq!(evicted(&mut table, HERE), c);
        assert_eq!(evicted(&mut table, HERE), a);
        assert_eq!(table.len(), 3);
    }

    #[test]
    fn a_busy_connection_is_never_evicted() {
        let mut table = table(2, 2);
        let [a, b] = [HERE; 2].map(|group| admitted(&mut table, group));
        assert!(table.begin_request(a) && table.begin_request(a) && table.begin_request(b));
        assert_eq!(table.admit(HERE), ConnectionAdmission::Full);
        table.end_request(a);
        assert_eq!(table.admit(HERE), ConnectionAdmission::Full, "one of its two requests goes on");
        table.end_request(a);
        assert_eq!(evicted(&mut table, HERE), a);
        assert!(!table.begin_request(a), "who was evicted starts nothing");
    }

    #[test]
    fn many_connections_of_one_address_do_not_evict_another() {
        let mut table = table(4, 2);
        let other = admitted(&mut table, THERE);
        let [first, _] = [HERE; 2].map(|group| admitted(&mut table, group));
        assert_eq!(evicted(&mut table, HERE), first, "although another one was idle longer");
        admitted(&mut table, AddressGroup::Socket);
        assert_eq!(
            evicted(&mut table, AddressGroup::V4([192, 0, 2, 2])),
            other,
            "the socket counts"
        );
    }

    #[test]
    fn the_socket_has_a_reserve_that_no_other_address_can_use() {
        let mut table = table(2, 2);
        for _ in 0..2 {
            let busy = admitted(&mut table, HERE);
            assert!(table.begin_request(busy));
        }
        assert_eq!(table.admit(THERE), ConnectionAdmission::Full);
        let operators = [(); SOCKET_RESERVE].map(|()| admitted(&mut table, AddressGroup::Socket));
        assert_eq!(evicted(&mut table, AddressGroup::Socket), operators[0]);
    }

    #[derive(Debug, Clone)]
    enum TableStep {
        Admit(AddressGroup),
        Begin(usize),
        End(usize),
        Leave(usize),
    }

    fn any_step() -> impl Strategy<Value = TableStep> {
        prop_oneof![
            3 => prop::sample::select(vec![HERE, THERE, AddressGroup::Socket]).prop_map(TableStep::Admit),
            2 => (0..20_usize).prop_map(TableStep::Begin),
            2 => (0..20_usize).prop_map(TableStep::End),
            1 => (0..20_usize).prop_map(TableStep::Leave),
        ]
    }

    /// A table, and the number of requests that the test expects for each connection.
    struct TableModel {
        table: ConnectionTable,
        requests: BTreeMap<ConnectionId, u32>,
    }

    impl TableModel {
        fn pick(&self, index: usize) -> Option<ConnectionId> {
            self.requests.keys().nth(index % self.requests.len().max(1)).copied()
        }

        fn apply(&mut self, step: &TableStep) {
            match step {
                TableStep::Admit(group) => self.admit(*group),
                TableStep::Begin(index) => self.pick(*index).into_iter().for_each(|id| {
                    assert!(self.table.begin_request(id));
                    *self.requests.entry(id).or_default() += 1;
                }),
                TableStep::End(index) => self.pick(*index).into_iter().for_each(|id| {
                    self.table.end_request(id);
                    self.requests.entry(id).and_modify(|count| *count = count.saturating_sub(1));
                }),
                TableStep::Leave(index) => self.pick(*index).into_iter().for_each(|id| {
                    self.table.remove(id);
                    self.requests.remove(&id);
                }),
            }
        }

        fn admit(&mut self, group: AddressGroup) {
            let id = match self.table.admit(group) {
                ConnectionAdmission::Admitted(id) => id,
                ConnectionAdmission::Replaces { id, evicted } => {
                    assert_eq!(self.requests.remove(&evicted), Some(0), "only who is idle goes");
                    id
                }
                ConnectionAdmission::Full => return,
            };
            self.requests.insert(id, 0);
        }

        fn check(&self) {
            assert_eq!(self.table.len(), self.requests.len());
            assert!(self.table.len() <= 6 + SOCKET_RESERVE);
            let idle = self.requests.values().filter(|count| **count == 0).count();
            assert_eq!(self.table.idle.len(), idle);
            let counted: usize = self.table.per_group.values().sum();
            assert_eq!(counted, self.requests.len());
            assert!(
                [HERE, THERE]
                    .iter()
                    .all(|group| { self.table.per_group.get(group).copied().unwrap_or(0) <= 4 })
            );
        }
    }

    proptest! {
        #[test]
        fn the_limits_hold_and_no_busy_connection_is_evicted(
            steps in prop::collection::vec(any_step(), 0..200),
        ) {
            let mut model = TableModel { table: table(6, 4), requests: BTreeMap::new() };
            for step in &steps {
                model.apply(step);
                model.check();
            }
        }
    }

    fn connection_ids<const N: usize>() -> [ConnectionId; N] {
        let mut table = ConnectionTable::new(ConnectionLimits { all: N, per_address: N });
        [(); N].map(|()| match table.admit(AddressGroup::Loopback) {
            ConnectionAdmission::Admitted(id) => id,
            other @ (ConnectionAdmission::Replaces { .. } | ConnectionAdmission::Full) => {
                panic!("{other:?}")
            }
        })
    }

    #[test]
    fn the_connections_that_waited_longest_are_closed_first() {
        let [a, b, c, d] = connection_ids();
        let mut unread = UnreadBudget::new(100);
        assert_eq!(unread.hold_bytes(a, 40), []);
        assert_eq!(unread.hold_bytes(b, 40), []);
        assert_eq!(unread.hold_bytes(a, 50), [], "what waited before is gone");
        assert_eq!(unread.hold_bytes(c, 60), [b, a]);
        unread.release_bytes(b);
        assert_eq!(unread.total, 60);
        unread.release_bytes(c);
        assert_eq!(unread.hold_bytes(d, 1000), [], "one answer may be larger than all");
        assert_eq!(unread.hold_bytes(a, 1), [d]);
        unread.release_bytes(a);
        assert_eq!((unread.total, unread.waiting.len(), unread.since.len()), (0, 0, 0));
    }

    #[test]
    fn an_idle_connection_is_evicted_and_a_busy_one_is_not() {
        let limiter = ConnectionLimiter::new(ConnectionLimits { all: 1, per_address: 1 }, 100);
        let first = Arc::new(limiter.admit(AddressGroup::Loopback).unwrap());
        let busy = first.begin_request().unwrap();
        assert!(limiter.admit(AddressGroup::Loopback).is_none());
        drop(busy);
        let second = limiter.admit(AddressGroup::Loopback).unwrap();
        assert!(first.evicted().is_cancelled() && !second.evicted().is_cancelled());
        assert!(first.begin_request().is_none(), "it has no place any more");
        drop(first);
        assert_eq!(limiter.change(|state| (state.table.len(), state.close_tokens.len())), (1, 1));
        drop(second);
        assert_eq!(limiter.change(|state| (state.table.len(), state.close_tokens.len())), (0, 0));
    }

    #[test]
    fn a_request_makes_its_connection_busy_only_once_it_is_allowed_in() {
        let limiter = ConnectionLimiter::new(ConnectionLimits { all: 1, per_address: 1 }, 100);
        let slow = BusyMarker::new(Arc::new(limiter.admit(AddressGroup::Loopback).unwrap()));
        let permit = Arc::new(limiter.admit(AddressGroup::Loopback).unwrap());
        assert!(!slow.mark_busy() && slow.take_guard().is_none(), "its place is another's");
        let quick = BusyMarker::new(permit);
        assert!(quick.mark_busy());
        let busy = quick.take_guard().unwrap();
        assert!(limiter.admit(AddressGroup::Loopback).is_none());
        drop(busy);
        assert!(limiter.admit(AddressGroup::Loopback).is_some());
    }

    #[test]
    fn too_many_unread_bytes_close_the_connections_that_waited_longest() {
        let limiter = ConnectionLimiter::new(ConnectionLimits { all: 9, per_address: 9 }, 100);
        let [first, second] =
            [(); 2].map(|()| Arc::new(limiter.admit(AddressGroup::Loopback).unwrap()));
        let [slow, quick] = [&first, &second].map(|permit| permit.begin_request().unwrap());
        slow.hold_bytes(60);
        quick.hold_bytes(40);
        assert!(!first.evicted().is_cancelled());
        slow.release_bytes();
        slow.hold_bytes(60);
        quick.release_bytes();
        quick.hold_bytes(50);
        assert!(first.evicted().is_cancelled() && !second.evicted().is_cancelled());
        assert_eq!(limiter.change(|state| state.table.len()), 1);
    }

    fn group(address: &str) -> AddressGroup {
        AddressGroup::from(PeerAddress::Tcp(address.parse().unwrap()))
    }

    #[test]
    fn all_addresses_of_one_host_are_one_group() {
        assert_eq!(group("127.0.0.1:1"), group("127.0.0.2:9"));
        assert_eq!(group("127.0.0.1:1"), group("[::1]:1"));
        assert_eq!(group("127.0.0.1:1"), group("[::ffff:127.0.0.1]:1"));
        assert_eq!(group("192.0.2.1:1"), group("[::ffff:192.0.2.1]:2"));
        assert_eq!(group("[2001:db8:0:1::1]:1"), group("[2001:db8:0:1:ffff::9]:1"));
        assert_ne!(group("[2001:db8:0:1::1]:1"), group("[2001:db8:0:2::1]:1"));
        assert_ne!(group("192.0.2.1:1"), group("192.0.2.2:1"));
        assert_eq!(
            AddressGroup::from(PeerAddress::Unix { peer: PeerKind::User }),
            AddressGroup::Socket
        );
    }

    #[tokio::test]
    async fn a_connection_is_examined_once_and_only_on_demand() {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let on_tcp = move |_, from: SocketAddr| {
            counter.fetch_add(1, Ordering::Relaxed);
            from.port() == 7
        };
        let detection = JobDetection::new(|_| false, on_tcp);
        for (port, expected) in [(7, PeerKind::Job), (8, PeerKind::User)] {
            let from = SocketAddr::from(([127, 0, 0, 1], port));
            let peer = ConnectionPeer::new(PeerAddress::Tcp(from), Some(from), detection.clone());
            let before = count.load(Ordering::Relaxed);
            for _ in 0..3 {
                assert_eq!(peer.clone().get().await, expected);
            }
            assert_eq!(count.load(Ordering::Relaxed), before + 1);
        }
        let from = SocketAddr::from(([127, 0, 0, 1], 8));
        let closed = ConnectionPeer::new(PeerAddress::Tcp(from), None, detection);
        assert_eq!(closed.get().await, PeerKind::Job);
    }
}

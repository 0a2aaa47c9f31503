//! The table of open connections: pure rules with neither sockets nor a clock, and the seat that each
//! connection holds and gives back when it is dropped.
//!
//! A connection without a request in flight is idle, and may have to go: at a bound, a new
//! connection takes the place of the one that was idle longest. So whoever holds many
//! connections open and says nothing shuts nobody out, and whoever is served stays.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::peer::Source;
use crate::telemetry::{HttpRefusalReason, events};

/// Seats that only the unix socket has, beyond those of all: an operator always gets in.
const SOCKET_SEATS: usize = 16;

/// How many connections there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct CrowdLimits {
    /// In all, not counting what is kept free for the unix socket.
    pub(super) all: usize,
    /// Of one source, other than the unix socket.
    pub(super) each: usize,
}

/// One connection. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(u64);

/// What becomes of a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// There is room for it.
    In(Ticket),
    /// It takes the place of another one, which must be closed.
    InsteadOf {
        ticket: Ticket,
        /// Which is no longer in the crowd.
        evicted: Ticket,
    },
    /// All others are being served: it must be closed.
    Full,
}

/// All open connections.
///
/// Invariant: `idle` holds exactly the members that are [`State::Idle`], by since when, and
/// `of_source` the number of members of each source that has any.
#[derive(Debug)]
pub(super) struct Crowd {
    limits: CrowdLimits,
    /// Counts admissions and ends of requests: the order in which things became idle.
    now: u64,
    members: HashMap<Ticket, Member>,
    idle: BTreeMap<u64, Ticket>,
    of_source: HashMap<Source, usize>,
}

#[derive(Debug)]
struct Member {
    source: Source,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Idle { since: u64 },
    Busy { requests: u32 },
}

impl Crowd {
    pub(super) fn new(limits: CrowdLimits) -> Self {
        let members = HashMap::new();
        let of_source = HashMap::new();
        Self { limits, now: 0, members, idle: BTreeMap::new(), of_source }
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// A connection comes in, idle as yet, unless everybody whose place it could take is busy.
    pub(super) fn admit(&mut self, source: Source) -> Admission {
        let evicted = if self.is_crowded(source) {
            self.evict(|member| member.source == source)
        } else if self.members.len() >= self.seats_for(source) {
            self.evict(|_| true)
        } else {
            return Admission::In(self.add(source));
        };
        match evicted {
            Some(evicted) => Admission::InsteadOf { ticket: self.add(source), evicted },
            None => Admission::Full,
        }
    }

    /// Takes out the one that was idle longest, which must then be closed.
    pub(super) fn evict_idlest(&mut self) -> Option<Ticket> {
        self.evict(|_| true)
    }

    /// A request begins; false if the connection is no longer in the crowd.
    pub(super) fn begin(&mut self, ticket: Ticket) -> bool {
        let Some(member) = self.members.get_mut(&ticket) else { return false };
        member.state = match member.state {
            State::Idle { since } => {
                self.idle.remove(&since);
                State::Busy { requests: 1 }
            }
            State::Busy { requests } => State::Busy { requests: requests + 1 },
        };
        true
    }

    /// A request that had begun is over, its response included.
    pub(super) fn end(&mut self, ticket: Ticket) {
        self.now += 1;
        let Some(member) = self.members.get_mut(&ticket) else { return };
        match member.state {
            State::Busy { requests: 0 | 1 } => {
                member.state = State::Idle { since: self.now };
                self.idle.insert(self.now, ticket);
            }
            State::Busy { requests } => member.state = State::Busy { requests: requests - 1 },
            State::Idle { .. } => {}
        }
    }

    /// A connection is closed. One that was evicted has left already.
    pub(super) fn leave(&mut self, ticket: Ticket) {
        let Some(member) = self.members.remove(&ticket) else { return };
        if let State::Idle { since } = member.state {
            self.idle.remove(&since);
        }
        if let Some(count) = self.of_source.get_mut(&member.source) {
            *count -= 1;
            if *count == 0 {
                self.of_source.remove(&member.source);
            }
        }
    }

    const fn seats_for(&self, source: Source) -> usize {
        match source {
            Source::Socket => self.limits.all.saturating_add(SOCKET_SEATS),
            Source::Loopback | Source::V4(_) | Source::V6(_) => self.limits.all,
        }
    }

    fn is_crowded(&self, source: Source) -> bool {
        let count = self.of_source.get(&source).copied().unwrap_or(0);
        source != Source::Socket && count >= self.limits.each
    }

    fn evict(&mut self, may_go: impl Fn(&Member) -> bool) -> Option<Ticket> {
        let is_free = |ticket: &&Ticket| self.members.get(ticket).is_some_and(&may_go);
        let evicted = *self.idle.values().find(is_free)?;
        self.leave(evicted);
        Some(evicted)
    }

    fn add(&mut self, source: Source) -> Ticket {
        self.now += 1;
        let since = self.now;
        let ticket = Ticket(self.now);
        self.members.insert(ticket, Member { source, state: State::Idle { since } });
        self.idle.insert(since, ticket);
        *self.of_source.entry(source).or_default() += 1;
        ticket
    }
}

/// How many bytes wait, and for whom.
///
/// Invariant: `held` is the sum of what `waits` holds, and `since` says where each is in it.
///
/// One answer may be a megabyte. As many of them as there are connections would be too much, so
/// they share one bound; beyond it those go that have waited longest.
#[derive(Debug)]
pub(super) struct Backlog {
    budget: usize,
    held: usize,
    /// Counts changes: the order in which things began to wait.
    now: u64,
    waits: BTreeMap<u64, (Ticket, usize)>,
    since: HashMap<Ticket, u64>,
}

impl Backlog {
    /// At most so many bytes, or the one answer that is larger.
    pub(super) fn new(budget: usize) -> Self {
        Self { budget, held: 0, now: 0, waits: BTreeMap::new(), since: HashMap::new() }
    }

    /// So many bytes now wait for this connection, and no longer what waited before. The
    /// connections that are given back must be closed, so that there is room.
    #[must_use]
    pub(super) fn hold(&mut self, ticket: Ticket, bytes: usize) -> Vec<Ticket> {
        self.release(ticket);
        let mut closed = Vec::new();
        while self.held.saturating_add(bytes) > self.budget
            && let Some((_, (oldest, _))) = self.waits.first_key_value()
        {
            let oldest = *oldest;
            self.release(oldest);
            closed.push(oldest);
        }
        self.now += 1;
        self.held += bytes;
        self.waits.insert(self.now, (ticket, bytes));
        self.since.insert(ticket, self.now);
        closed
    }

    /// Nothing waits for this connection any more.
    pub(super) fn release(&mut self, ticket: Ticket) {
        let waited = self.since.remove(&ticket).and_then(|since| self.waits.remove(&since));
        self.held -= waited.map_or(0, |(_, bytes)| bytes);
    }
}

/// All open connections. A cheap clone.
#[derive(Debug, Clone)]
pub(super) struct Connections(Arc<Mutex<Hall>>);

#[derive(Debug)]
struct Hall {
    crowd: Crowd,
    backlog: Backlog,
    /// How to tell each of them to go.
    ends: HashMap<Ticket, CancellationToken>,
}

impl Connections {
    /// None yet, and at most so many, for which at most `max_unread` bytes wait.
    pub(super) fn new(limits: CrowdLimits, max_unread: usize) -> Self {
        events::connection_limit_set(limits.all);
        let crowd = Crowd::new(limits);
        let backlog = Backlog::new(max_unread);
        Self(Arc::new(Mutex::new(Hall { crowd, backlog, ends: HashMap::new() })))
    }

    /// A seat for a new connection, if need be that of the one that was idle longest; none when
    /// all others are being served.
    pub(super) fn admit(&self, source: Source) -> Option<Seat> {
        let (ticket, evicted) = self.change(|hall| {
            let (ticket, place) = match hall.crowd.admit(source) {
                Admission::In(ticket) => (ticket, None),
                Admission::InsteadOf { ticket, evicted } => (ticket, Some(evicted)),
                Admission::Full => {
                    events::connection_refused(HttpRefusalReason::Connections);
                    return None;
                }
            };
            if let Some(ticket) = place {
                hall.close(ticket, HttpRefusalReason::Connections);
            }
            let evicted = CancellationToken::new();
            hall.ends.insert(ticket, evicted.clone());
            Some((ticket, evicted))
        })?;
        Some(Seat { connections: self.clone(), ticket, evicted })
    }

    /// Closes the connection that was idle longest: its descriptor is needed.
    pub(super) fn make_room(&self) {
        self.change(|hall| {
            if let Some(ticket) = hall.crowd.evict_idlest() {
                hall.close(ticket, HttpRefusalReason::Connections);
            }
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Hall) -> T) -> T {
        let mut hall = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut hall);
        events::connections_changed(hall.crowd.len());
        result
    }
}

impl Hall {
    fn close(&mut self, ticket: Ticket, why: HttpRefusalReason) {
        events::connection_refused(why);
        self.crowd.leave(ticket);
        if let Some(end) = self.ends.remove(&ticket) {
            end.cancel();
        }
    }
}

/// A connection's place among all. Dropping it gives the place back.
#[derive(Debug)]
pub(super) struct Seat {
    connections: Connections,
    ticket: Ticket,
    evicted: CancellationToken,
}

impl Seat {
    /// Fires when another connection needs the place: this one must be closed at once.
    pub(super) fn evicted(&self) -> CancellationToken {
        self.evicted.clone()
    }

    /// A request is served: the connection is busy until what is given back is dropped. `None` for
    /// a connection that was evicted, which may start nothing.
    fn begin(self: &Arc<Self>) -> Option<Busy> {
        let begun = self.connections.change(|hall| hall.crowd.begin(self.ticket));
        begun.then(|| Busy(Arc::clone(self)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.change(|hall| {
            hall.crowd.leave(self.ticket);
            hall.backlog.release(self.ticket);
            hall.ends.remove(&self.ticket);
        });
    }
}

/// A request whose head has come: stands in its extensions. Its connection counts as idle until
/// the whole request was read and its caller let in, so that requests which never come to their
/// end take nobody's place. A cheap clone.
#[derive(Debug, Clone)]
pub(super) struct Entrance {
    seat: Arc<Seat>,
    busy: Arc<Mutex<Option<Busy>>>,
}

impl Entrance {
    /// A request of the connection that has this seat.
    pub(super) fn new(seat: Arc<Seat>) -> Self {
        Self { seat, busy: Arc::default() }
    }

    /// The request is served from now on; false for a connection that was evicted.
    pub(super) fn let_in(&self) -> bool {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if busy.is_none() {
            *busy = self.seat.begin();
        }
        busy.is_some()
    }

    /// What keeps the connection busy while the answer is written, which is begun by now also
    /// where the request was refused; `None` for a connection that was evicted.
    pub(super) fn answered(&self) -> Option<Busy> {
        self.let_in();
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A request in flight, until its response has been written.
#[derive(Debug)]
pub(super) struct Busy(Arc<Seat>);

impl Busy {
    /// So many bytes of the response are in memory until the client has read them. Where that is
    /// too much for all, the connections for which it has waited longest are closed.
    pub(super) fn hold(&self, bytes: usize) {
        self.0.connections.change(|hall| {
            for ticket in hall.backlog.hold(self.0.ticket, bytes) {
                hall.close(ticket, HttpRefusalReason::Unread);
            }
        });
    }

    /// What was held has been written.
    pub(super) fn release(&self) {
        self.0.connections.change(|hall| hall.backlog.release(self.0.ticket));
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.connections.change(|hall| {
            hall.crowd.end(self.0.ticket);
            hall.backlog.release(self.0.ticket);
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HERE: Source = Source::Loopback;
    const THERE: Source = Source::V4([192, 0, 2, 1]);

    fn crowd(all: usize, each: usize) -> Crowd {
        Crowd::new(CrowdLimits { all, each })
    }

    #[track_caller]
    fn admitted(crowd: &mut Crowd, source: Source) -> Ticket {
        match crowd.admit(source) {
            Admission::In(ticket) => ticket,
            other @ (Admission::InsteadOf { .. } | Admission::Full) => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn evicted(crowd: &mut Crowd, source: Source) -> Ticket {
        match crowd.admit(source) {
            Admission::InsteadOf { evicted, .. } => evicted,
            other @ (Admission::In(_) | Admission::Full) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_new_connection_takes_the_place_of_the_one_that_was_idle_longest() {
        let mut crowd = crowd(3, 3);
        let [a, b, c] = [HERE; 3].map(|source| admitted(&mut crowd, source));
        crowd.begin(a);
        crowd.end(a);
        assert_eq!(evicted(&mut crowd, HERE), b);
        assert_eq!(evicted(&mut crowd, HERE), c);
        assert_eq!(evicted(&mut crowd, HERE), a);
        assert_eq!(crowd.len(), 3);
    }

    #[test]
    fn whoever_is_served_stays() {
        let mut crowd = crowd(2, 2);
        let [a, b] = [HERE; 2].map(|source| admitted(&mut crowd, source));
        assert!(crowd.begin(a) && crowd.begin(a) && crowd.begin(b));
        assert_eq!(crowd.admit(HERE), Admission::Full);
        crowd.end(a);
        assert_eq!(crowd.admit(HERE), Admission::Full, "one of its two requests goes on");
        crowd.end(a);
        assert_eq!(evicted(&mut crowd, HERE), a);
        assert!(!crowd.begin(a), "who was evicted starts nothing");
    }

    #[test]
    fn a_crowd_of_one_source_costs_no_other_source_its_place() {
        let mut crowd = crowd(4, 2);
        let other = admitted(&mut crowd, THERE);
        let [first, _] = [HERE; 2].map(|source| admitted(&mut crowd, source));
        assert_eq!(evicted(&mut crowd, HERE), first, "although another one was idle longer");
        admitted(&mut crowd, Source::Socket);
        assert_eq!(evicted(&mut crowd, Source::V4([192, 0, 2, 2])), other, "the socket counts");
    }

    #[test]
    fn the_socket_has_seats_that_nobody_else_can_take() {
        let mut crowd = crowd(2, 2);
        for _ in 0..2 {
            let busy = admitted(&mut crowd, HERE);
            assert!(crowd.begin(busy));
        }
        assert_eq!(crowd.admit(THERE), Admission::Full);
        let operators = [(); SOCKET_SEATS].map(|()| admitted(&mut crowd, Source::Socket));
        assert_eq!(evicted(&mut crowd, Source::Socket), operators[0]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Admit(Source),
        Begin(usize),
        End(usize),
        Leave(usize),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => prop::sample::select(vec![HERE, THERE, Source::Socket]).prop_map(Step::Admit),
            2 => (0..20_usize).prop_map(Step::Begin),
            2 => (0..20_usize).prop_map(Step::End),
            1 => (0..20_usize).prop_map(Step::Leave),
        ]
    }

    /// A crowd, and what the test knows of it: the requests of each connection.
    struct Model {
        crowd: Crowd,
        requests: BTreeMap<Ticket, u32>,
    }

    impl Model {
        fn pick(&self, index: usize) -> Option<Ticket> {
            self.requests.keys().nth(index % self.requests.len().max(1)).copied()
        }

        fn play(&mut self, step: &Step) {
            match step {
                Step::Admit(source) => self.admit(*source),
                Step::Begin(index) => self.pick(*index).into_iter().for_each(|ticket| {
                    assert!(self.crowd.begin(ticket));
                    *self.requests.entry(ticket).or_default() += 1;
                }),
                Step::End(index) => self.pick(*index).into_iter().for_each(|ticket| {
                    self.crowd.end(ticket);
                    self.requests
                        .entry(ticket)
                        .and_modify(|count| *count = count.saturating_sub(1));
                }),
                Step::Leave(index) => self.pick(*index).into_iter().for_each(|ticket| {
                    self.crowd.leave(ticket);
                    self.requests.remove(&ticket);
                }),
            }
        }

        fn admit(&mut self, source: Source) {
            let ticket = match self.crowd.admit(source) {
                Admission::In(ticket) => ticket,
                Admission::InsteadOf { ticket, evicted } => {
                    assert_eq!(self.requests.remove(&evicted), Some(0), "only who is idle goes");
                    ticket
                }
                Admission::Full => return,
            };
            self.requests.insert(ticket, 0);
        }

        fn check(&self) {
            assert_eq!(self.crowd.len(), self.requests.len());
            assert!(self.crowd.len() <= 6 + SOCKET_SEATS);
            let idle = self.requests.values().filter(|count| **count == 0).count();
            assert_eq!(self.crowd.idle.len(), idle);
            let counted: usize = self.crowd.of_source.values().sum();
            assert_eq!(counted, self.requests.len());
            assert!(
                [HERE, THERE]
                    .iter()
                    .all(|source| { self.crowd.of_source.get(source).copied().unwrap_or(0) <= 4 })
            );
        }
    }

    proptest! {
        #[test]
        fn the_bounds_hold_and_nobody_who_is_served_goes(
            steps in prop::collection::vec(any_step(), 0..200),
        ) {
            let mut model = Model { crowd: crowd(6, 4), requests: BTreeMap::new() };
            for step in &steps {
                model.play(step);
                model.check();
            }
        }
    }

    fn tickets<const N: usize>() -> [Ticket; N] {
        let mut crowd = Crowd::new(CrowdLimits { all: N, each: N });
        [(); N].map(|()| match crowd.admit(Source::Loopback) {
            Admission::In(ticket) => ticket,
            other @ (Admission::InsteadOf { .. } | Admission::Full) => panic!("{other:?}"),
        })
    }

    #[test]
    fn those_that_have_waited_longest_make_room() {
        let [a, b, c, d] = tickets();
        let mut backlog = Backlog::new(100);
        assert_eq!(backlog.hold(a, 40), []);
        assert_eq!(backlog.hold(b, 40), []);
        assert_eq!(backlog.hold(a, 50), [], "what waited before is gone");
        assert_eq!(backlog.hold(c, 60), [b, a]);
        backlog.release(b);
        assert_eq!(backlog.held, 60);
        backlog.release(c);
        assert_eq!(backlog.hold(d, 1000), [], "one answer may be larger than all");
        assert_eq!(backlog.hold(a, 1), [d]);
        backlog.release(a);
        assert_eq!((backlog.held, backlog.waits.len(), backlog.since.len()), (0, 0, 0));
    }

    #[test]
    fn an_idle_connection_is_told_to_go_and_a_busy_one_is_not() {
        let connections = Connections::new(CrowdLimits { all: 1, each: 1 }, 100);
        let first = Arc::new(connections.admit(Source::Loopback).unwrap());
        let busy = first.begin().unwrap();
        assert!(connections.admit(Source::Loopback).is_none());
        drop(busy);
        let second = connections.admit(Source::Loopback).unwrap();
        assert!(first.evicted().is_cancelled() && !second.evicted().is_cancelled());
        assert!(first.begin().is_none(), "it has no place any more");
        drop(first);
        assert_eq!(connections.change(|hall| (hall.crowd.len(), hall.ends.len())), (1, 1));
        drop(second);
        assert_eq!(connections.change(|hall| (hall.crowd.len(), hall.ends.len())), (0, 0));
    }

    #[test]
    fn a_request_takes_a_place_only_once_it_is_let_in() {
        let connections = Connections::new(CrowdLimits { all: 1, each: 1 }, 100);
        let slow = Entrance::new(Arc::new(connections.admit(Source::Loopback).unwrap()));
        let seat = Arc::new(connections.admit(Source::Loopback).unwrap());
        assert!(!slow.let_in() && slow.answered().is_none(), "its place is another's");
        let quick = Entrance::new(seat);
        assert!(quick.let_in());
        let busy = quick.answered().unwrap();
        assert!(connections.admit(Source::Loopback).is_none());
        drop(busy);
        assert!(connections.admit(Source::Loopback).is_some());
    }

    #[test]
    fn too_much_that_waits_closes_those_for_whom_it_has_waited_longest() {
        let connections = Connections::new(CrowdLimits { all: 9, each: 9 }, 100);
        let [first, second] =
            [(); 2].map(|()| Arc::new(connections.admit(Source::Loopback).unwrap()));
        let [slow, quick] = [&first, &second].map(|seat| seat.begin().unwrap());
        slow.hold(60);
        quick.hold(40);
        assert!(!first.evicted().is_cancelled());
        slow.release();
        slow.hold(60);
        quick.release();
        quick.hold(50);
        assert!(first.evicted().is_cancelled() && !second.evicted().is_cancelled());
        assert_eq!(connections.change(|hall| hall.crowd.len()), 1);
    }
}

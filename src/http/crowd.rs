//! Who may be connected: pure, with neither sockets nor a clock.
//!
//! A connection without a request in flight is idle, and may have to go: at a bound, a new
//! connection takes the place of the one that was idle longest. So whoever holds many
//! connections open and says nothing shuts nobody out, and whoever is served stays.

use std::collections::{BTreeMap, HashMap};

use super::arrival::Source;

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
        /// The new one.
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
    /// Nobody yet.
    pub(super) fn new(limits: CrowdLimits) -> Self {
        let (members, of_source) = (HashMap::new(), HashMap::new());
        Self { limits, now: 0, members, idle: BTreeMap::new(), of_source }
    }

    /// How many there are.
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
        let (since, ticket) = (self.now, Ticket(self.now));
        self.members.insert(ticket, Member { source, state: State::Idle { since } });
        self.idle.insert(since, ticket);
        *self.of_source.entry(source).or_default() += 1;
        ticket
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
}

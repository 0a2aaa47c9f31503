//! The open connections: each holds a seat, and gives it back when it is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::arrival::Source;
use super::backlog::Backlog;
use super::crowd::{Admission, Crowd, CrowdLimits, Ticket};
use crate::telemetry::{Refusal, events};

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
        events::connection_limit_known(limits.all);
        let (crowd, backlog) = (Crowd::new(limits), Backlog::new(max_unread));
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
                    events::connection_refused(Refusal::Connections);
                    return None;
                }
            };
            if let Some(ticket) = place {
                hall.close(ticket, Refusal::Connections);
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
                hall.close(ticket, Refusal::Connections);
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
    fn close(&mut self, ticket: Ticket, why: Refusal) {
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
                hall.close(ticket, Refusal::Unread);
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
    use super::*;

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

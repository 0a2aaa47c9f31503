//! What waits in memory for clients to read it: pure, with neither sockets nor a clock.
//!
//! One answer may be a megabyte. As many of them as there are connections would be too much, so
//! they share one bound; beyond it those go that have waited longest.

use std::collections::{BTreeMap, HashMap};

use super::crowd::Ticket;

/// How many bytes wait, and for whom.
///
/// Invariant: `held` is the sum of what `waits` holds, and `since` says where each is in it.
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

#[cfg(test)]
mod tests {
    use super::super::arrival::Source;
    use super::super::crowd::{Admission, Crowd, CrowdLimits};
    use super::*;

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
}

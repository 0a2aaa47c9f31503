//! The waiting jobs of one tenant in one lane, in order, with a fast lookup of positions.

use std::cmp::{Ordering, Reverse};
use std::collections::VecDeque;
use std::num::NonZeroU32;

use crate::ids::JobId;
use crate::spec::{CallMode, Priority};

/// The most jobs in one block.
const BLOCK: usize = 512;

/// The number of jobs that arrive after a background job and may still start before it, if their
/// callers wait for them.
const PASSING_JOBS: u64 = 1000;

/// The sort key of a waiting job: priority, then turn, then arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    priority: Priority,
    /// The arrival number, or a later one for a job that lets others pass.
    turn: u64,
    arrival: u64,
}

impl Ticket {
    pub(super) const fn new(priority: Priority, call_mode: CallMode, arrival: u64) -> Self {
        let turn = match call_mode {
            CallMode::Foreground => arrival,
            CallMode::Background => arrival + PASSING_JOBS,
        };
        Self { priority, turn, arrival }
    }

    /// Returns the arrival number.
    pub(super) const fn arrival(self) -> u64 {
        self.arrival
    }
}

impl Ord for Ticket {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        steps::count(1);
        let key = |ticket: &Self| (Reverse(ticket.priority), ticket.turn, ticket.arrival);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Ticket {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Jobs in the order of their tickets.
///
/// Invariant: `blocks` are sorted, in themselves and among each other; none is empty or longer
/// than [`BLOCK`]; two neighbours hold more than half of that. So there are few of them, and a
/// place is found by counting blocks.
#[derive(Debug, Default)]
pub(super) struct Line {
    blocks: Vec<VecDeque<(Ticket, JobId)>>,
    len: usize,
}

impl Line {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn first(&self) -> Option<(Ticket, JobId)> {
        self.blocks.first()?.front().copied()
    }

    pub(super) fn insert(&mut self, ticket: Ticket, id: JobId) {
        self.len += 1;
        // A ticket after all others belongs into the last block.
        let at = self.find_block(ticket).min(self.blocks.len().saturating_sub(1));
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(VecDeque::from([(ticket, id)]));
            return;
        };
        let offset = block.partition_point(|(other, _)| *other < ticket);
        block.insert(offset, (ticket, id));
        if block.len() > BLOCK {
            let second = block.split_off(BLOCK / 2);
            self.blocks.insert(at + 1, second);
        }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<JobId> {
        let (at, offset) = self.find(ticket)?;
        let (_, id) = self.blocks[at].remove(offset)?;
        self.len -= 1;
        if self.blocks[at].is_empty() {
            self.blocks.remove(at);
        }
        self.join_small(at);
        self.join_small(at.saturating_sub(1));
        Some(id)
    }

    /// Returns the number of jobs before this one.
    pub(super) fn count_before(&self, ticket: Ticket) -> Option<usize> {
        let (at, offset) = self.find(ticket)?;
        #[cfg(test)]
        steps::count(at);
        Some(self.blocks[..at].iter().map(VecDeque::len).sum::<usize>() + offset)
    }

    /// Returns the block of this ticket, and its offset there.
    fn find(&self, ticket: Ticket) -> Option<(usize, usize)> {
        let at = self.find_block(ticket);
        let offset =
            self.blocks.get(at)?.binary_search_by_key(&ticket, |(other, _)| *other).ok()?;
        Some((at, offset))
    }

    /// Returns the first block that does not end before this ticket.
    fn find_block(&self, ticket: Ticket) -> usize {
        let ends_before = |block: &VecDeque<(Ticket, JobId)>| {
            block.back().is_some_and(|(last, _)| *last < ticket)
        };
        self.blocks.partition_point(ends_before)
    }

    /// Joins this block and the next one, if both are small.
    fn join_small(&mut self, at: usize) {
        if let Some([block, next]) = self.blocks.get_mut(at..at + 2)
            && block.len() + next.len() <= BLOCK / 2
        {
            block.append(next);
            self.blocks.remove(at + 1);
        }
    }
}

// Turns between tenants: start-time fair queueing in whole numbers.

/// The amount by which a start advances the tag of a tenant of weight 1: a multiple of every weight
/// up to 16, and large enough that rounding does not change the shares of others. A `u64` holds
/// 10¹¹ such starts.
const SCALE: u64 = 720_720 * 128;

/// The position of a tenant in the order of service: the smallest turn comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    tag: u64,
    standing: TieBreak,
}

/// The order of tenants with equal tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TieBreak {
    /// The tenant became active again with this arrival number.
    New(u64),
    /// The sequence number of the tenant's last start.
    Served(u64),
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        steps::count(1);
        (self.tag, self.standing).cmp(&(other.tag, other.standing))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Turn {
    /// The turn of a tenant that was never served.
    pub(super) const UNSERVED: Self = Self { tag: 0, standing: TieBreak::Served(0) };

    /// Returns the tenant's position in virtual time.
    pub(super) const fn tag(self) -> u64 {
        self.tag
    }

    /// Returns the turn, moved to the present if it is in the past: a tenant that could not be
    /// served saves nothing up.
    #[must_use]
    pub(super) fn at_present(self, time: &VirtualTime) -> Self {
        Self { tag: self.tag.max(time.now), ..self }
    }
}

/// Virtual time: the tag of the last start.
#[derive(Debug, Default)]
pub(super) struct VirtualTime {
    now: u64,
    starts: u64,
}

impl VirtualTime {
    /// `true` if this tenant recently had more than its share.
    pub(super) const fn is_behind(&self, turn: Turn) -> bool {
        turn.tag > self.now
    }

    /// Returns the turn of a tenant that begins to wait with this arrival number. `first` is the
    /// first turn in its lane, which is in the past if the lane was full for a while.
    pub(super) fn begin(&self, own: Turn, first: Option<Turn>, arrival: u64) -> Turn {
        if self.is_behind(own) {
            return own;
        }
        let tag = first.map_or(self.now, |first| first.tag.min(self.now));
        Turn { tag, standing: TieBreak::New(arrival) }
    }

    /// Serves a tenant of this weight, and returns its next turn.
    pub(super) fn serve(&mut self, turn: Turn, weight: NonZeroU32) -> Turn {
        self.now = turn.at_present(self).tag;
        self.starts += 1;
        let cost = (SCALE / u64::from(weight.get())).max(1);
        Turn { tag: self.now + cost, standing: TieBreak::Served(self.starts) }
    }
}

/// Counts the queue's operations for the test of its cost.
#[cfg(test)]
pub(super) mod steps {
    use std::cell::Cell;

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    /// Adds this many comparisons or counted blocks.
    pub(in crate::supervisor::queue) fn count(steps: usize) {
        STEPS.set(STEPS.get() + steps);
    }

    /// Returns the operations that were counted on this thread since the last call.
    pub(in crate::supervisor::queue) fn take() -> usize {
        STEPS.take()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_priority() -> impl Strategy<Value = Priority> {
        prop::sample::select(Priority::WORDS.map(|(_, priority)| priority).to_vec())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_line_is_a_sorted_list(
            steps in prop::collection::vec((any_priority(), 0..4_u8, any::<prop::sample::Index>()), 0..4000),
        ) {
            let mut line = Line::default();
            let mut model: Vec<(Ticket, JobId)> = Vec::new();
            for (number, (priority, step, at)) in steps.into_iter().enumerate() {
                if step > 0 || model.is_empty() {
                    let ticket = Ticket::new(priority, CallMode::Foreground, number as u64);
                    let id = JobId::local(number as u64);
                    line.insert(ticket, id);
                    model.insert(model.partition_point(|(other, _)| *other < ticket), (ticket, id));
                } else {
                    let (ticket, id) = model.remove(at.index(model.len()));
                    prop_assert_eq!(line.remove(ticket), Some(id));
                    prop_assert_eq!((line.remove(ticket), line.count_before(ticket)), (None, None));
                }
                prop_assert_eq!((line.len(), line.first()), (model.len(), model.first().copied()));
            }
            let ranks = model.iter().map(|(ticket, _)| line.count_before(*ticket));
            prop_assert!(ranks.eq((0..model.len()).map(Some)));
            while let Some((ticket, _)) = model.pop() {
                line.remove(ticket);
                for pair in line.blocks.windows(2) {
                    prop_assert!(pair[0].len() + pair[1].len() > BLOCK / 2);
                }
            }
            prop_assert!(line.blocks.is_empty());
        }
    }
}

//! Whose turn it is between tenants: start-time fair queueing in whole numbers.

use std::cmp::Ordering;
use std::num::NonZeroU32;

/// By how much a start moves a tenant of weight 1 on: a multiple of every weight up to 16, and so
/// large that rounding changes no share of others; a `u64` holds 10¹¹ such starts.
const SCALE: u64 = 720_720 * 128;

/// When a tenant is served next: the smallest turn comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    tag: u64,
    standing: Standing,
}

/// Who comes first at equal tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// It came from idleness, as the so-manieth arrival.
    New(u64),
    /// Its last start was the so-manieth of all.
    Served(u64),
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        super::steps::count(1);
        (self.tag, self.standing).cmp(&(other.tag, other.standing))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Turn {
    /// That of a tenant that was never served.
    pub(super) const UNSERVED: Self = Self { tag: 0, standing: Standing::Served(0) };

    /// Where it stands in virtual time.
    pub(super) const fn tag(self) -> u64 {
        self.tag
    }

    /// The same, not in the past: whoever could not be served saves nothing up.
    #[must_use]
    pub(super) fn at(self, time: &VirtualTime) -> Self {
        Self { tag: self.tag.max(time.now), ..self }
    }
}

/// Virtual time: the tag at which the last start was.
#[derive(Debug, Default)]
pub(super) struct VirtualTime {
    now: u64,
    starts: u64,
}

impl VirtualTime {
    /// Whether this tenant had more than its share just now.
    pub(super) const fn is_behind(&self, turn: Turn) -> bool {
        turn.tag > self.now
    }

    /// The turn of a tenant that begins to wait as arrival `arrival`, where `first` is the first
    /// in its lane. That one may stand in the past, if its lane was full for a while.
    pub(super) fn begin(&self, own: Turn, first: Option<Turn>, arrival: u64) -> Turn {
        if self.is_behind(own) {
            return own;
        }
        let tag = first.map_or(self.now, |first| first.tag.min(self.now));
        Turn { tag, standing: Standing::New(arrival) }
    }

    /// A tenant of this weight is served: its next turn.
    pub(super) fn serve(&mut self, turn: Turn, weight: NonZeroU32) -> Turn {
        self.now = turn.at(self).tag;
        self.starts += 1;
        let cost = (SCALE / u64::from(weight.get())).max(1);
        Turn { tag: self.now + cost, standing: Standing::Served(self.starts) }
    }
}

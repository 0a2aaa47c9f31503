//! What a part of a log holds, and where.

use std::sync::Arc;

use crate::counters::{Counters, Tier};

/// Bytes by the tier that they are in, told to the metrics as they come, move and go. Dropping it
/// counts all of them as gone.
///
/// Invariant: every byte is in exactly one tier.
#[derive(Debug)]
pub(super) struct Held {
    counters: Arc<Counters>,
    memory: u64,
    disk: u64,
    compressed: u64,
}

impl Held {
    pub(super) const fn new(counters: Arc<Counters>) -> Self {
        Self { counters, memory: 0, disk: 0, compressed: 0 }
    }

    /// How many there are, wherever they are.
    pub(super) const fn total(&self) -> u64 {
        self.memory + self.disk + self.compressed
    }

    /// How many are in this tier.
    pub(super) const fn of(&self, tier: Tier) -> u64 {
        match tier {
            Tier::Memory => self.memory,
            Tier::Disk => self.disk,
            Tier::Compressed => self.compressed,
        }
    }

    /// So many came.
    pub(super) fn add(&mut self, tier: Tier, bytes: u64) {
        *self.place(tier) += bytes;
        self.counters.add_stored(tier, bytes);
    }

    /// So many went, or all that there were; gives how many.
    pub(super) fn remove(&mut self, tier: Tier, bytes: u64) -> u64 {
        let bytes = bytes.min(self.of(tier));
        *self.place(tier) -= bytes;
        self.counters.remove_stored(tier, bytes);
        bytes
    }

    /// So many, or all that there were, are somewhere else now.
    pub(super) fn shift(&mut self, from: Tier, to: Tier, bytes: u64) {
        let bytes = self.remove(from, bytes);
        self.add(to, bytes);
    }

    const fn place(&mut self, tier: Tier) -> &mut u64 {
        match tier {
            Tier::Memory => &mut self.memory,
            Tier::Disk => &mut self.disk,
            Tier::Compressed => &mut self.compressed,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for tier in Tier::ALL {
            self.counters.remove_stored(tier, self.of(tier));
        }
    }
}

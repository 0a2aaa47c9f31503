//! Chance that can be repeated: splitmix64.

use std::time::Duration;

/// A sequence of numbers that follows from its seed alone.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    /// The sequence of one agent among those that share a seed.
    pub(super) const fn new(seed: u64, agent: u64) -> Self {
        Self(seed ^ agent.wrapping_mul(0xA24B_AED4_963E_E407))
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 where that is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.roll().checked_rem(bound).unwrap_or(0)
    }

    /// A number from `least` to `most`.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// One of these; nothing of none.
    pub(super) fn choose<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let index = self.below(u64::try_from(of.len()).unwrap_or(u64::MAX));
        of.get(usize::try_from(index).unwrap_or(0))
    }

    /// A time up to twice as long as this one, which it is on average.
    pub(super) fn about(&mut self, time: Duration) -> Duration {
        let thousandths = u32::try_from(self.below(2001)).unwrap_or(0);
        time * thousandths / 1000
    }
}

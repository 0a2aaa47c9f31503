//! Random numbers with a seed that a failed test prints.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// SplitMix64.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A new seed, or the one in `SHELLYARD_CRASH_SEED`; printed, so that a failure shows it.
    pub(super) fn from_environment() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let fresh = u64::from(now.subsec_nanos()) ^ now.as_secs();
        let seed = number_from_environment("SHELLYARD_CRASH_SEED").unwrap_or(fresh);
        println!("SHELLYARD_CRASH_SEED={seed}");
        Self::new(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) const fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A time of so many milliseconds, from the first number up to the second.
    pub(super) const fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

/// A number that whoever runs the tests has set.
#[expect(clippy::disallowed_methods, reason = "settings of a test, not of the product")]
pub(super) fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

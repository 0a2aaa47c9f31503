//! Numbers that depend on a seed only.

/// `SplitMix64`.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of one script: seeds and indices that are close give nothing alike.
    pub(crate) fn new(seed: u64, index: u64) -> Self {
        let mut random = Self(seed);
        random.0 = random.next() ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93);
        random.0 = random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or_default()
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

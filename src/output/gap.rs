//! Where bytes are missing from a log, because no store could take them.

use std::ops::RangeInclusive;

/// Places that are told apart; later losses are added to the last of them.
const MAX_GAPS: usize = 64;

/// Bytes that were written by the job but could not be kept, by the offset where they belong.
///
/// Lost bytes have no offsets of their own: offsets count kept bytes.
/// Invariant: offsets rise, and there are at most [`MAX_GAPS`].
#[derive(Debug, Default)]
pub(super) struct Gaps(Vec<Gap>);

#[derive(Debug)]
struct Gap {
    offset: u64,
    bytes: u64,
}

impl Gaps {
    /// Notes that `bytes` were lost right before the byte at `offset`.
    pub(super) fn note(&mut self, offset: u64, bytes: u64) {
        let full = self.0.len() == MAX_GAPS;
        match self.0.last_mut() {
            Some(last) if full || last.offset == offset => last.bytes += bytes,
            Some(_) | None => self.0.push(Gap { offset, bytes }),
        }
    }

    /// How many bytes are missing before any of these offsets.
    pub(super) fn within(&self, offsets: RangeInclusive<u64>) -> u64 {
        self.0.iter().filter(|gap| offsets.contains(&gap.offset)).map(|gap| gap.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_found_where_they_happened() {
        let mut gaps = Gaps::default();
        gaps.note(10, 5);
        gaps.note(10, 5);
        gaps.note(30, 1);
        assert_eq!(gaps.within(0..=9), 0);
        assert_eq!(gaps.within(10..=29), 10);
        assert_eq!(gaps.within(0..=30), 11);
    }

    #[test]
    fn any_number_of_losses_is_counted_in_bounded_space() {
        let mut gaps = Gaps::default();
        (0..10_000).for_each(|offset| gaps.note(offset, 1));
        assert_eq!(gaps.0.len(), MAX_GAPS);
        assert_eq!(gaps.within(0..=u64::MAX), 10_000);
    }
}

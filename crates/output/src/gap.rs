//! Where bytes are missing from a log, because no store could take them.

use std::ops::RangeInclusive;

use super::shared::Mark;

/// Places that are told apart; later losses are added to the last of them.
const MAX_GAPS: usize = 1024;

/// Bytes that were written by the job but could not be kept, by the offset where they belong.
///
/// Lost bytes have no offsets of their own: offsets count kept bytes.
/// Invariant: offsets rise, and there are at most [`MAX_GAPS`].
#[derive(Debug, Clone, Default)]
pub(super) struct Gaps(Vec<Gap>);

#[derive(Debug, Clone, Copy)]
struct Gap {
    at: Mark,
    bytes: u64,
}

/// Whether a loss has a place of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noted {
    /// It has: what comes after it does not follow on what came before.
    Apart,
    /// It was added to the one before it.
    WithLast,
}

impl Gaps {
    /// Notes that `bytes` were lost right before the byte at this place.
    pub(super) fn note(&mut self, at: Mark, bytes: u64) -> Noted {
        let full = self.0.len() == MAX_GAPS;
        match self.0.last_mut() {
            Some(last) if full || last.at.offset == at.offset => {
                last.bytes += bytes;
                Noted::WithLast
            }
            Some(_) | None => {
                self.0.push(Gap { at, bytes });
                Noted::Apart
            }
        }
    }

    /// The places, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = Mark> {
        self.0.iter().map(|gap| gap.at)
    }

    /// How many bytes are missing before any of these offsets.
    pub(super) fn within(&self, offsets: RangeInclusive<u64>) -> u64 {
        self.0.iter().filter(|gap| offsets.contains(&gap.at.offset)).map(|gap| gap.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> Mark {
        Mark { offset, ..Mark::default() }
    }

    #[test]
    fn losses_are_found_where_they_happened() {
        let mut gaps = Gaps::default();
        let noted = [(10, 5), (10, 5), (30, 1)].map(|(offset, bytes)| gaps.note(at(offset), bytes));
        assert_eq!(noted, [Noted::Apart, Noted::WithLast, Noted::Apart]);
        assert_eq!(gaps.within(0..=9), 0);
        assert_eq!(gaps.within(10..=29), 10);
        assert_eq!(gaps.within(0..=30), 11);
    }

    #[test]
    fn any_number_of_losses_is_counted_in_bounded_space() {
        let mut gaps = Gaps::default();
        let apart = (0..10_000).filter(|offset| gaps.note(at(*offset), 1) == Noted::Apart).count();
        assert_eq!(apart, MAX_GAPS);
        assert_eq!(gaps.0.len(), MAX_GAPS);
        assert_eq!(gaps.within(0..=u64::MAX), 10_000);
    }
}

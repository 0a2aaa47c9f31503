//! Bytes of a log that could not be kept.

use std::ops::RangeInclusive;

use crate::index::LogPosition;

/// Gaps that are stored separately; later losses are added to the last one.
const MAX_GAPS: usize = 1024;

/// Bytes that the job wrote and that could not be kept, by the offset at which they are missing.
///
/// Lost bytes have no offsets of their own: offsets count kept bytes. Invariant: offsets rise, and
/// there are at most [`MAX_GAPS`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Gaps(Vec<Gap>);

#[derive(Debug, Clone, Copy)]
struct Gap {
    at: LogPosition,
    bytes: u64,
}

/// The way in which a loss was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GapKind {
    /// A gap of its own: the bytes after it do not continue the bytes before it.
    New,
    /// A part of the previous gap.
    Merged,
}

impl Gaps {
    /// Records that `bytes` were lost right before the byte at this position.
    pub(crate) fn record(&mut self, at: LogPosition, bytes: u64) -> GapKind {
        let full = self.0.len() == MAX_GAPS;
        match self.0.last_mut() {
            Some(last) if full || last.at.offset == at.offset => {
                last.bytes += bytes;
                GapKind::Merged
            }
            Some(_) | None => {
                self.0.push(Gap { at, bytes });
                GapKind::New
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All gaps, in order, with the bytes that are missing there.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LogPosition, u64)> {
        self.0.iter().map(|gap| (gap.at, gap.bytes))
    }

    /// The positions of all gaps, in order.
    pub(crate) fn positions(&self) -> impl Iterator<Item = LogPosition> {
        self.0.iter().map(|gap| gap.at)
    }

    /// The number of bytes that are missing before any of these offsets.
    pub(crate) fn lost_bytes_in(&self, offsets: RangeInclusive<u64>) -> u64 {
        self.0.iter().filter(|gap| offsets.contains(&gap.at.offset)).map(|gap| gap.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> LogPosition {
        LogPosition { offset, ..LogPosition::default() }
    }

    #[test]
    fn losses_are_recorded_at_their_offsets() {
        let mut gaps = Gaps::default();
        let noted =
            [(10, 5), (10, 5), (30, 1)].map(|(offset, bytes)| gaps.record(at(offset), bytes));
        assert_eq!(noted, [GapKind::New, GapKind::Merged, GapKind::New]);
        assert_eq!(gaps.lost_bytes_in(0..=9), 0);
        assert_eq!(gaps.lost_bytes_in(10..=29), 10);
        assert_eq!(gaps.lost_bytes_in(0..=30), 11);
    }

    #[test]
    fn any_number_of_losses_is_counted_in_bounded_memory() {
        let mut gaps = Gaps::default();
        let apart =
            (0..10_000).filter(|offset| gaps.record(at(*offset), 1) == GapKind::New).count();
        assert_eq!(apart, MAX_GAPS);
        assert_eq!(gaps.0.len(), MAX_GAPS);
        assert_eq!(gaps.lost_bytes_in(0..=u64::MAX), 10_000);
    }
}

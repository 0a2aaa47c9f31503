//! Bytes of a log that could not be kept.

use std::ops::RangeInclusive;

use crate::counters::DropReason;
use crate::index::LogPosition;

/// Gaps that are stored separately; later losses are added to the last one.
const MAX_GAPS: usize = 1024;

/// Bytes that the job wrote and that could not be kept, by the offset at which they are missing.
///
/// Lost bytes have no offsets of their own: offsets count kept bytes. Losses at one offset for
/// different reasons are a gap each, in their order. Invariant: offsets never fall, and there are at
/// most [`MAX_GAPS`]. Only the last gap grows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gaps(Vec<Gap>);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    pub(crate) at: LogPosition,
    pub(crate) bytes: u64,
    /// The reason for the first loss.
    pub(crate) why: DropReason,
}

/// Bytes that were lost before they got positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostBytes {
    /// Their number.
    pub bytes: u64,
    /// The reason for their loss.
    pub why: DropReason,
}

/// The way in which a loss was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GapKind {
    /// The first loss at its offset: the bytes after it do not continue the bytes before it.
    New,
    /// A loss at the offset of the previous gap.
    Merged,
}

impl Gaps {
    /// Records that `bytes` were lost right before the byte at this position.
    pub(crate) fn record(&mut self, at: LogPosition, bytes: u64, why: DropReason) -> GapKind {
        let full = self.0.len() == MAX_GAPS;
        match self.0.last_mut() {
            Some(last) if full || (last.at.offset == at.offset && last.why == why) => {
                last.bytes += bytes;
                GapKind::Merged
            }
            last => {
                let is_first = last.is_none_or(|last| last.at.offset != at.offset);
                self.0.push(Gap { at, bytes, why });
                if is_first { GapKind::New } else { GapKind::Merged }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All gaps, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Gap> {
        self.0.iter()
    }

    /// The positions of all gaps, in order.
    pub(crate) fn positions(&self) -> impl Iterator<Item = LogPosition> {
        self.0.iter().map(|gap| gap.at)
    }

    /// The number of bytes that are missing before any of these offsets.
    pub(crate) fn lost_bytes_in(&self, offsets: RangeInclusive<u64>) -> u64 {
        self.0.iter().filter(|gap| offsets.contains(&gap.at.offset)).map(|gap| gap.bytes).sum()
    }

    /// Returns the next bytes that were lost right before this offset, after the first `known` of
    /// them.
    pub(crate) fn find_loss(&self, offset: u64, known: u64) -> Option<LostBytes> {
        let mut known = known;
        for gap in self.0.iter().filter(|gap| gap.at.offset == offset) {
            if gap.bytes > known {
                return Some(LostBytes { bytes: gap.bytes - known, why: gap.why });
            }
            known -= gap.bytes;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: DropReason = DropReason::DiskFull;

    fn at(offset: u64) -> LogPosition {
        LogPosition { offset, ..LogPosition::default() }
    }

    #[test]
    fn losses_are_recorded_at_their_offsets() {
        let mut gaps = Gaps::default();
        let noted =
            [(10, 5), (10, 5), (30, 1)].map(|(offset, bytes)| gaps.record(at(offset), bytes, FULL));
        assert_eq!(noted, [GapKind::New, GapKind::Merged, GapKind::New]);
        assert_eq!(gaps.lost_bytes_in(0..=9), 0);
        assert_eq!(gaps.lost_bytes_in(10..=29), 10);
        assert_eq!(gaps.lost_bytes_in(0..=30), 11);
    }

    #[test]
    fn each_loss_keeps_its_reason_and_is_found_once() {
        let mut gaps = Gaps::default();
        let crash = DropReason::ServerCrash;
        let noted = [(10, 7, crash), (10, 2, FULL), (10, 3, FULL), (20, 1, crash)]
            .map(|(offset, bytes, why)| gaps.record(at(offset), bytes, why));
        let merged = GapKind::Merged;
        assert_eq!(noted, [GapKind::New, merged, merged, GapKind::New]);
        let lost = |bytes, why| Some(LostBytes { bytes, why });
        for (offset, known, found) in [
            (10, 0, lost(7, crash)),
            (10, 4, lost(3, crash)),
            (10, 7, lost(5, FULL)),
            (10, 9, lost(3, FULL)),
            (10, 12, None),
            (10, 99, None),
            (15, 0, None),
            (20, 0, lost(1, crash)),
        ] {
            assert_eq!(gaps.find_loss(offset, known), found, "{offset} {known}");
        }
    }

    #[test]
    fn any_number_of_losses_is_counted_in_bounded_memory() {
        let mut gaps = Gaps::default();
        let apart =
            (0..10_000).filter(|offset| gaps.record(at(*offset), 1, FULL) == GapKind::New).count();
        assert_eq!(apart, MAX_GAPS);
        assert_eq!(gaps.0.len(), MAX_GAPS);
        assert_eq!(gaps.lost_bytes_in(0..=u64::MAX), 10_000);
    }
}

//! The segments of one log: all in one, or a head and the last segments of what came after it.

use std::collections::VecDeque;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use memchr::memchr_iter;
use tokio::sync::watch;

use super::counters::DropReason;
use super::quota::TenantQuota;
use super::segment::{Continuity, LogExtent, LogPosition, LogSegment};
use super::spill::SpillDir;
use super::views::Charset;

/// SharedLog behind the head that stay: those before the newest are full, and together they hold
/// at least the wanted tail.
const TAIL_PARTS: usize = 3;

/// How far a log has come. One value is one moment: `closed` and `total_bytes` belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogProgress {
    /// Bytes of both streams that have offsets: the offset after the last one.
    pub total_bytes: u64,
    /// Lines that have ended among them: by a newline, or where bytes behind them were lost.
    pub lines: u64,
    /// Whether bytes follow the last of these.
    pub open_line: bool,
    /// Those of them that came from stderr.
    pub stderr_bytes: u64,
    /// Bytes that could not be kept. They have no offsets.
    pub dropped_bytes: u64,
    /// Why, the last time.
    pub dropped_why: Option<DropReason>,
    /// Bytes that were kept and left again, from the middle. They have offsets.
    pub removed_bytes: u64,
    /// Bytes that somebody else cut off a file of the log, as far as that was noticed. They have
    /// offsets.
    pub cut_bytes: u64,
    /// Nothing will follow.
    pub closed: bool,
    /// When the job last wrote.
    pub last_output: Option<Instant>,
}

impl LogProgress {
    /// Bytes that the job wrote, kept or not.
    #[must_use]
    pub const fn written_bytes(&self) -> u64 {
        self.total_bytes + self.dropped_bytes
    }

    /// Bytes of the job that cannot be read any more, whatever the reason.
    #[must_use]
    pub const fn lost_bytes(&self) -> u64 {
        self.dropped_bytes + self.removed_bytes + self.cut_bytes
    }
}

/// How much of a log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepOutput {
    /// All of it.
    All,
    /// At least the first and the last half of so many bytes; at most a quarter more than these.
    Ends(u64),
}

impl KeepOutput {
    /// Where the segment that starts at this offset ends.
    pub(crate) fn end_of_part(self, start: u64) -> u64 {
        match self {
            Self::All => u64::MAX,
            Self::Ends(bytes) => {
                let head = bytes.div_ceil(2);
                let tail = head.div_ceil(TAIL_PARTS as u64 - 1);
                let length = if start == 0 { head } else { tail };
                start.saturating_add(length.max(1))
            }
        }
    }
}

/// What the writer and all readers of one log share.
///
/// A segment that leaves is dropped whole, its file with it, and nothing is ever overwritten: whoever
/// still reads it reads what was written.
#[derive(Debug)]
pub(crate) struct SharedLog {
    inner: Mutex<SharedLogState>,
    spill_dir: SpillDir,
    /// Its character set, from when it can no longer change.
    charset: OnceLock<Charset>,
    quota: TenantQuota,
}

/// Invariant: the segments of `tail` lie one behind the other, and end where the log does.
#[derive(Debug)]
struct SharedLogState {
    head: Arc<LogSegment>,
    tail: VecDeque<Arc<LogSegment>>,
    gaps: Gaps,
}

impl SharedLog {
    /// A log that has only its first segment.
    pub(crate) fn new(head: Arc<LogSegment>, quota: TenantQuota, spill_dir: SpillDir) -> Self {
        let inner = SharedLogState { head, tail: VecDeque::new(), gaps: Gaps::default() };
        Self { inner: Mutex::new(inner), spill_dir, charset: OnceLock::new(), quota }
    }

    /// The bounds of the log's tenant.
    pub(crate) const fn quota(&self) -> &TenantQuota {
        &self.quota
    }

    /// The place of those segments that are not in memory.
    pub(crate) const fn spill_dir(&self) -> &SpillDir {
        &self.spill_dir
    }

    /// `true` if no file has to be read for any of it.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.lock().iter_segments().all(|segment| segment.is_in_memory())
    }

    /// The character set, once it was settled.
    pub(crate) fn charset(&self) -> Option<Charset> {
        self.charset.get().copied()
    }

    /// The character set will not change any more.
    pub(crate) fn set_charset(&self, charset: Charset) {
        self.charset.get_or_init(|| charset);
    }

    fn lock(&self) -> MutexGuard<'_, SharedLogState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a segment at the end. Gives the one that leaves for it, if one does.
    pub(crate) fn push(&self, segment: Arc<LogSegment>) -> Option<Arc<LogSegment>> {
        let mut inner = self.lock();
        inner.tail.push_back(segment);
        (inner.tail.len() > TAIL_PARTS).then(|| inner.tail.pop_front()).flatten()
    }

    /// Notes that bytes were lost right before this place.
    pub(crate) fn record_loss(&self, at: LogPosition, bytes: u64) -> GapKind {
        self.lock().gaps.record(at, bytes)
    }

    /// How many bytes were lost before any of these offsets.
    pub(crate) fn lost_bytes_in(&self, offsets: RangeInclusive<u64>) -> u64 {
        self.lock().gaps.lost_bytes_in(offsets)
    }

    /// What can be read now, and goes on being readable for as long as this is held.
    pub(crate) fn snapshot(&self, progress: &watch::Receiver<LogProgress>) -> LogSnapshot {
        let inner = self.lock();
        // Under the lock: what was published when a segment left or came is in the other segments.
        let mut progress = *progress.borrow();
        let segments = inner.segments();
        let gaps = inner.gaps.clone();
        drop(inner);
        for segment in &segments {
            // A file that cannot be asked says so when it is read.
            segment.detect_file_cut().ok();
        }
        progress.cut_bytes = segments.iter().map(|segment| segment.cut_bytes()).sum();
        let extents = segments.iter().flat_map(|segment| segment.extents(progress.total_bytes));
        LogSnapshot { extents: split_at_gaps(extents, &gaps), progress }
    }

    /// The progress of the log, with what is known to be cut off.
    pub(crate) fn progress(&self, published: &watch::Receiver<LogProgress>) -> LogProgress {
        LogProgress { cut_bytes: self.cut_bytes(), ..*published.borrow() }
    }

    /// How much is known to be cut off.
    fn cut_bytes(&self) -> u64 {
        self.lock().iter_segments().map(|segment| segment.cut_bytes()).sum()
    }

    /// All of them, in order.
    pub(crate) fn segments(&self) -> Vec<Arc<LogSegment>> {
        self.lock().segments()
    }
}

impl SharedLogState {
    fn iter_segments(&self) -> impl Iterator<Item = &Arc<LogSegment>> {
        std::iter::once(&self.head).chain(&self.tail)
    }

    fn segments(&self) -> Vec<Arc<LogSegment>> {
        self.iter_segments().cloned().collect()
    }
}

/// A extent ends where bytes were lost.
fn split_at_gaps(extents: impl Iterator<Item = LogExtent>, gaps: &Gaps) -> Vec<LogExtent> {
    let mut places = gaps.positions().peekable();
    let mut split = Vec::new();
    for mut extent in extents {
        while let Some(place) = places.next_if(|place| place.offset < extent.range.end) {
            // One in a hole, or in what has left, segments nothing.
            if extent.range.start <= place.offset {
                split.extend(extent.split_off_before(place));
            }
        }
        split.push(extent);
    }
    split
}

// What of a log can be read at one moment: extents of bytes, and holes between them.

/// A log as it was at one moment. Whatever the writer does meanwhile, all of it stays readable.
///
/// Solid is what was written without anything between: it ends at a hole, and at a gap, where
/// bytes without offsets were lost.
///
/// Invariant: extents are not empty, rise, and do not overlap; none goes past `total_bytes`.
#[derive(Debug, Clone)]
pub(crate) struct LogSnapshot {
    pub(crate) extents: Vec<LogExtent>,
    pub(crate) progress: LogProgress,
}

impl LogSnapshot {
    /// Where the log ends.
    pub(crate) const fn total(&self) -> u64 {
        self.progress.total_bytes
    }

    /// The extent that this byte is in, or else the next one after it.
    pub(crate) fn extent_from(&self, offset: u64) -> Option<&LogExtent> {
        self.extents.iter().find(|extent| extent.range.end > offset)
    }

    /// The last extent that starts before this offset.
    fn extent_before(&self, offset: u64) -> Option<&LogExtent> {
        self.extents.iter().rev().find(|extent| extent.range.start < offset)
    }

    /// The first byte at or after `offset` that is there; past all of them: the end.
    pub(crate) fn next_readable(&self, offset: u64) -> u64 {
        let next = self.extent_from(offset).map_or(self.total(), |extent| extent.range.start);
        next.max(offset)
    }

    /// Where the first hole or gap after `offset` is, or the log ends.
    pub(crate) fn contiguous_end(&self, offset: u64) -> u64 {
        let mut end = offset;
        for extent in &self.extents {
            let follows = end == offset || extent.continuity == Continuity::Continuous;
            if extent.range.contains(&end) && follows {
                end = extent.range.end;
            }
        }
        end
    }

    /// Where the first hole in the range is, if there is one.
    pub(crate) fn first_hole(&self, range: Range<u64>) -> Option<Range<u64>> {
        let mut start = range.start;
        for extent in &self.extents {
            if extent.range.contains(&start) {
                start = extent.range.end;
            }
        }
        (start < range.end.min(self.total())).then(|| start..self.next_readable(start))
    }

    /// Where the last hole or gap before `offset` is, or the log starts.
    pub(crate) fn contiguous_start(&self, offset: u64) -> u64 {
        let mut start = offset;
        for extent in self.extents.iter().rev() {
            if extent.range.start < start && start <= extent.range.end {
                start = extent.range.start;
                if extent.continuity == Continuity::AfterGap {
                    break;
                }
            }
        }
        start
    }

    /// How many bytes of the range are not there.
    pub(crate) fn missing_bytes(&self, range: Range<u64>) -> u64 {
        let range = range.start..range.end.min(self.total());
        let overlap = |extent: &LogExtent| {
            let start = extent.range.start.max(range.start);
            extent.range.end.min(range.end).saturating_sub(start)
        };
        let there: u64 = self.extents.iter().map(overlap).sum();
        range.end.saturating_sub(range.start) - there
    }

    /// The bytes of a range without holes.
    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
        let mut at = range.start;
        while at < range.end {
            let extent = self.extent_from(at).filter(|extent| extent.range.contains(&at));
            let extent = extent.ok_or(io::ErrorKind::UnexpectedEof)?;
            let end = extent.range.end.min(range.end);
            let place = (at - range.start) as usize..(end - range.start) as usize;
            extent.segment.read_at(at, &mut bytes[place])?;
            at = end;
        }
        Ok(bytes)
    }

    /// The number of the line, counted from 1, that the byte at `offset` belongs to. Inside a
    /// hole: of its last line; past the end: of the line that the next byte will belong to.
    pub(crate) fn line_at(&self, offset: u64) -> io::Result<u64> {
        if offset >= self.total() {
            return Ok(self.progress.lines + 1);
        }
        let next = self.extent_from(offset);
        match next.filter(|extent| extent.range.contains(&offset)) {
            Some(extent) => Ok(extent.lines_before(offset)? + 1),
            None => self.line_in_hole(offset, next),
        }
    }

    fn line_in_hole(&self, offset: u64, next: Option<&LogExtent>) -> io::Result<u64> {
        let before = match self.extent_before(offset) {
            Some(extent) => extent.lines_before(extent.range.end)?,
            None => 0,
        };
        // The byte before the hole is the last one that is known to be in its line.
        let is_first = offset == 0 || self.contiguous_start(offset) < offset;
        let after = next.map_or(self.progress.lines, |extent| extent.lines);
        Ok(if is_first { before + 1 } else { after.max(before + 1) })
    }

    /// The offset after so many newlines; of one inside a hole, where the hole starts. The end
    /// when there are fewer.
    pub(crate) fn offset_after_newlines(&self, newlines: u64) -> io::Result<u64> {
        let is_before = |extent: &&LogExtent| extent.lines < newlines;
        let Some(extent) = self.extents.iter().rev().find(is_before) else { return Ok(0) };
        extent.offset_after_newlines(newlines)
    }
}

impl LogExtent {
    /// Newlines in the log before an offset in this extent, or at its end.
    fn lines_before(&self, offset: u64) -> io::Result<u64> {
        let Some((_, run)) = self.segment.find_run(|run| run.offset < offset)? else {
            return Ok(self.lines);
        };
        if run.offset < self.range.start {
            return Ok(self.lines);
        }
        let bytes = self.segment.read(run.offset..offset.min(run.end()))?;
        Ok(run.line + memchr_iter(b'\n', &bytes).count() as u64)
    }

    /// The offset after so many newlines of the log, more than come before this extent; the
    /// extent's end when there are fewer.
    fn offset_after_newlines(&self, newlines: u64) -> io::Result<u64> {
        // The newline that is looked for is in the last run that begins before it.
        let found = self.segment.find_run(|run| run.line < newlines)?;
        let Some((_, run)) = found.filter(|(_, run)| run.offset < self.range.end) else {
            return Ok(self.range.end);
        };
        let bytes = self.segment.read(run.offset..run.end().min(self.range.end))?;
        let newline = memchr_iter(b'\n', &bytes).nth((newlines - run.line - 1) as usize);
        Ok(newline.map_or(self.range.end, |position| run.offset + position as u64 + 1))
    }
}

// Where bytes are missing from a log, because no store could take them.

/// Places that are told apart; later losses are added to the last of them.
const MAX_GAPS: usize = 1024;

/// Bytes that were written by the job but could not be kept, by the offset where they belong.
///
/// Lost bytes have no offsets of their own: offsets count kept bytes.
/// Invariant: offsets rise, and there are at most [`MAX_GAPS`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Gaps(Vec<Gap>);

#[derive(Debug, Clone, Copy)]
struct Gap {
    at: LogPosition,
    bytes: u64,
}

/// Whether a loss has a place of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GapKind {
    /// It has: what comes after it does not follow on what came before.
    New,
    /// It was added to the one before it.
    Merged,
}

impl Gaps {
    /// Notes that `bytes` were lost right before the byte at this place.
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

    /// The places, in order.
    pub(crate) fn positions(&self) -> impl Iterator<Item = LogPosition> {
        self.0.iter().map(|gap| gap.at)
    }

    /// How many bytes are missing before any of these offsets.
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
    fn losses_are_found_where_they_happened() {
        let mut gaps = Gaps::default();
        let noted =
            [(10, 5), (10, 5), (30, 1)].map(|(offset, bytes)| gaps.record(at(offset), bytes));
        assert_eq!(noted, [GapKind::New, GapKind::Merged, GapKind::New]);
        assert_eq!(gaps.lost_bytes_in(0..=9), 0);
        assert_eq!(gaps.lost_bytes_in(10..=29), 10);
        assert_eq!(gaps.lost_bytes_in(0..=30), 11);
    }

    #[test]
    fn any_number_of_losses_is_counted_in_bounded_space() {
        let mut gaps = Gaps::default();
        let apart =
            (0..10_000).filter(|offset| gaps.record(at(*offset), 1) == GapKind::New).count();
        assert_eq!(apart, MAX_GAPS);
        assert_eq!(gaps.0.len(), MAX_GAPS);
        assert_eq!(gaps.lost_bytes_in(0..=u64::MAX), 10_000);
    }
}

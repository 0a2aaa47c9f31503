//! The parts of one log: all in one, or a head and the last parts of what came after it.

use std::collections::VecDeque;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use memchr::memchr_iter;
use tokio::sync::watch;

use crate::counters::DropReason;
use crate::part::{Joint, Mark, Shared, Stretch};
use crate::quota::Allowance;
use crate::spill::SpillDir;
use crate::views::Charset;

/// Parts behind the head that stay: those before the newest are full, and together they hold
/// at least the wanted tail.
const TAIL_PARTS: usize = 3;

/// How far a log has come. One value is one moment: `closed` and `total_bytes` belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
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

impl Progress {
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
pub enum Keep {
    /// All of it.
    All,
    /// At least the first and the last half of so many bytes; at most a quarter more than these.
    Ends(u64),
}

impl Keep {
    /// Where the part that starts at this offset ends.
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
/// A part that leaves is dropped whole, its file with it, and nothing is ever overwritten: whoever
/// still reads it reads what was written.
#[derive(Debug)]
pub(crate) struct Parts {
    inner: Mutex<Inner>,
    spill_dir: SpillDir,
    /// Its character set, from when it can no longer change.
    charset: OnceLock<Charset>,
    allowance: Allowance,
}

/// Invariant: the parts of `tail` lie one behind the other, and end where the log does.
#[derive(Debug)]
struct Inner {
    head: Arc<Shared>,
    tail: VecDeque<Arc<Shared>>,
    gaps: Gaps,
}

impl Parts {
    /// A log that has only its first part.
    pub(crate) fn new(head: Arc<Shared>, allowance: Allowance, spill_dir: SpillDir) -> Self {
        let inner = Inner { head, tail: VecDeque::new(), gaps: Gaps::default() };
        Self { inner: Mutex::new(inner), spill_dir, charset: OnceLock::new(), allowance }
    }

    /// The bounds of the log's tenant.
    pub(crate) const fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// The place of those parts that are not in memory.
    pub(crate) const fn spill_dir(&self) -> &SpillDir {
        &self.spill_dir
    }

    /// `true` if no file has to be read for any of it.
    pub(crate) fn are_in_memory(&self) -> bool {
        self.lock().each().all(|part| part.is_in_memory())
    }

    /// The character set, once it was settled.
    pub(crate) fn charset(&self) -> Option<Charset> {
        self.charset.get().copied()
    }

    /// The character set will not change any more.
    pub(crate) fn settle_charset(&self, charset: Charset) {
        self.charset.get_or_init(|| charset);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a part at the end. Gives the one that leaves for it, if one does.
    pub(crate) fn push(&self, part: Arc<Shared>) -> Option<Arc<Shared>> {
        let mut inner = self.lock();
        inner.tail.push_back(part);
        (inner.tail.len() > TAIL_PARTS).then(|| inner.tail.pop_front()).flatten()
    }

    /// Notes that bytes were lost right before this place.
    pub(crate) fn note_lost(&self, at: Mark, bytes: u64) -> Noted {
        self.lock().gaps.note(at, bytes)
    }

    /// How many bytes were lost before any of these offsets.
    pub(crate) fn lost(&self, offsets: RangeInclusive<u64>) -> u64 {
        self.lock().gaps.within(offsets)
    }

    /// What can be read now, and goes on being readable for as long as this is held.
    pub(crate) fn kept(&self, progress: &watch::Receiver<Progress>) -> Kept {
        let inner = self.lock();
        // Under the lock: what was published when a part left or came is in the other parts.
        let mut progress = *progress.borrow();
        let parts = inner.all();
        let gaps = inner.gaps.clone();
        drop(inner);
        for part in &parts {
            // A file that cannot be asked says so when it is read.
            part.look_for_cut().ok();
        }
        progress.cut_bytes = parts.iter().map(|part| part.cut_bytes()).sum();
        let stretches = parts.iter().flat_map(|part| part.stretches(progress.total_bytes));
        Kept { stretches: split_at_gaps(stretches, &gaps), progress }
    }

    /// The progress of the log, with what is known to be cut off.
    pub(crate) fn progress(&self, published: &watch::Receiver<Progress>) -> Progress {
        Progress { cut_bytes: self.cut_bytes(), ..*published.borrow() }
    }

    /// How much is known to be cut off.
    fn cut_bytes(&self) -> u64 {
        self.lock().each().map(|part| part.cut_bytes()).sum()
    }

    /// All of them, in order.
    pub(crate) fn all(&self) -> Vec<Arc<Shared>> {
        self.lock().all()
    }
}

impl Inner {
    fn each(&self) -> impl Iterator<Item = &Arc<Shared>> {
        std::iter::once(&self.head).chain(&self.tail)
    }

    fn all(&self) -> Vec<Arc<Shared>> {
        self.each().cloned().collect()
    }
}

/// A stretch ends where bytes were lost.
fn split_at_gaps(stretches: impl Iterator<Item = Stretch>, gaps: &Gaps) -> Vec<Stretch> {
    let mut places = gaps.places().peekable();
    let mut split = Vec::new();
    for mut stretch in stretches {
        while let Some(place) = places.next_if(|place| place.offset < stretch.range.end) {
            // One in a hole, or in what has left, parts nothing.
            if stretch.range.start <= place.offset {
                split.extend(stretch.split_off_before(place));
            }
        }
        split.push(stretch);
    }
    split
}

// What of a log can be read at one moment: stretches of bytes, and holes between them.

/// A log as it was at one moment. Whatever the writer does meanwhile, all of it stays readable.
///
/// Solid is what was written without anything between: it ends at a hole, and at a gap, where
/// bytes without offsets were lost.
///
/// Invariant: stretches are not empty, rise, and do not overlap; none goes past `total_bytes`.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) stretches: Vec<Stretch>,
    pub(crate) progress: Progress,
}

impl Kept {
    /// Where the log ends.
    pub(crate) const fn total(&self) -> u64 {
        self.progress.total_bytes
    }

    /// The stretch that this byte is in, or else the next one after it.
    pub(crate) fn stretch_from(&self, offset: u64) -> Option<&Stretch> {
        self.stretches.iter().find(|stretch| stretch.range.end > offset)
    }

    /// The last stretch that starts before this offset.
    fn stretch_before(&self, offset: u64) -> Option<&Stretch> {
        self.stretches.iter().rev().find(|stretch| stretch.range.start < offset)
    }

    /// The first byte at or after `offset` that is there; past all of them: the end.
    pub(crate) fn resume(&self, offset: u64) -> u64 {
        let next = self.stretch_from(offset).map_or(self.total(), |stretch| stretch.range.start);
        next.max(offset)
    }

    /// Where the first hole or gap after `offset` is, or the log ends.
    pub(crate) fn solid_end(&self, offset: u64) -> u64 {
        let mut end = offset;
        for stretch in &self.stretches {
            let follows = end == offset || stretch.joint == Joint::Seamless;
            if stretch.range.contains(&end) && follows {
                end = stretch.range.end;
            }
        }
        end
    }

    /// Where the first hole in the range is, if there is one.
    pub(crate) fn first_hole(&self, range: Range<u64>) -> Option<Range<u64>> {
        let mut start = range.start;
        for stretch in &self.stretches {
            if stretch.range.contains(&start) {
                start = stretch.range.end;
            }
        }
        (start < range.end.min(self.total())).then(|| start..self.resume(start))
    }

    /// Where the last hole or gap before `offset` is, or the log starts.
    pub(crate) fn solid_start(&self, offset: u64) -> u64 {
        let mut start = offset;
        for stretch in self.stretches.iter().rev() {
            if stretch.range.start < start && start <= stretch.range.end {
                start = stretch.range.start;
                if stretch.joint == Joint::Gap {
                    break;
                }
            }
        }
        start
    }

    /// How many bytes of the range are not there.
    pub(crate) fn missing(&self, range: Range<u64>) -> u64 {
        let range = range.start..range.end.min(self.total());
        let overlap = |stretch: &Stretch| {
            let start = stretch.range.start.max(range.start);
            stretch.range.end.min(range.end).saturating_sub(start)
        };
        let there: u64 = self.stretches.iter().map(overlap).sum();
        range.end.saturating_sub(range.start) - there
    }

    /// The bytes of a range without holes.
    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
        let mut at = range.start;
        while at < range.end {
            let stretch = self.stretch_from(at).filter(|stretch| stretch.range.contains(&at));
            let stretch = stretch.ok_or(io::ErrorKind::UnexpectedEof)?;
            let end = stretch.range.end.min(range.end);
            let place = (at - range.start) as usize..(end - range.start) as usize;
            stretch.shared.read_at(at, &mut bytes[place])?;
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
        let next = self.stretch_from(offset);
        match next.filter(|stretch| stretch.range.contains(&offset)) {
            Some(stretch) => Ok(stretch.lines_before(offset)? + 1),
            None => self.line_in_hole(offset, next),
        }
    }

    fn line_in_hole(&self, offset: u64, next: Option<&Stretch>) -> io::Result<u64> {
        let before = match self.stretch_before(offset) {
            Some(stretch) => stretch.lines_before(stretch.range.end)?,
            None => 0,
        };
        // The byte before the hole is the last one that is known to be in its line.
        let is_first = offset == 0 || self.solid_start(offset) < offset;
        let after = next.map_or(self.progress.lines, |stretch| stretch.lines);
        Ok(if is_first { before + 1 } else { after.max(before + 1) })
    }

    /// The offset after so many newlines; of one inside a hole, where the hole starts. The end
    /// when there are fewer.
    pub(crate) fn offset_after_newlines(&self, newlines: u64) -> io::Result<u64> {
        let is_before = |stretch: &&Stretch| stretch.lines < newlines;
        let Some(stretch) = self.stretches.iter().rev().find(is_before) else { return Ok(0) };
        stretch.offset_after_newlines(newlines)
    }
}

impl Stretch {
    /// Newlines in the log before an offset in this stretch, or at its end.
    fn lines_before(&self, offset: u64) -> io::Result<u64> {
        let Some((_, run)) = self.shared.find_run(|run| run.offset < offset)? else {
            return Ok(self.lines);
        };
        if run.offset < self.range.start {
            return Ok(self.lines);
        }
        let bytes = self.shared.read(run.offset..offset.min(run.end()))?;
        Ok(run.line + memchr_iter(b'\n', &bytes).count() as u64)
    }

    /// The offset after so many newlines of the log, more than come before this stretch; the
    /// stretch's end when there are fewer.
    fn offset_after_newlines(&self, newlines: u64) -> io::Result<u64> {
        // The newline that is looked for is in the last run that begins before it.
        let found = self.shared.find_run(|run| run.line < newlines)?;
        let Some((_, run)) = found.filter(|(_, run)| run.offset < self.range.end) else {
            return Ok(self.range.end);
        };
        let bytes = self.shared.read(run.offset..run.end().min(self.range.end))?;
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
    at: Mark,
    bytes: u64,
}

/// Whether a loss has a place of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It has: what comes after it does not follow on what came before.
    Apart,
    /// It was added to the one before it.
    WithLast,
}

impl Gaps {
    /// Notes that `bytes` were lost right before the byte at this place.
    pub(crate) fn note(&mut self, at: Mark, bytes: u64) -> Noted {
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
    pub(crate) fn places(&self) -> impl Iterator<Item = Mark> {
        self.0.iter().map(|gap| gap.at)
    }

    /// How many bytes are missing before any of these offsets.
    pub(crate) fn within(&self, offsets: RangeInclusive<u64>) -> u64 {
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

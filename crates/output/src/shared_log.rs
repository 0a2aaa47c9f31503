//! The state that the writer and all readers of one log share: its segments, its gaps, and
//! snapshots of them. A log is one segment, or a head and the last segments of the rest.

use std::collections::VecDeque;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use memchr::memchr_iter;
use shellyard_summary::Summary;
use tokio::sync::watch;

use super::counters::DropReason;
use super::index::{GapKind, Gaps, LogPosition, LostBytes, WriteTimes};
use super::quota::TenantQuota;
use super::segment::{Continuity, LogExtent, LogSegment};
use super::spill::SpillDir;
use super::views::Charset;

/// Segments after the head that are kept. All but the newest are full, and together they hold at
/// least the tail that is to be kept.
pub(crate) const TAIL_SEGMENTS: usize = 3;

/// The progress of a log at one moment: `closed` and `total_bytes` belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogProgress {
    /// Bytes of both streams that have offsets; also the offset after the last byte.
    pub total_bytes: u64,
    /// Finished lines in these bytes. A line ends with a newline, or where bytes after it were
    /// lost.
    pub lines: u64,
    /// `true` if bytes follow the last finished line.
    pub open_line: bool,
    /// Bytes of `total_bytes` that came from stderr.
    pub stderr_bytes: u64,
    /// Bytes that could not be kept. They have no offsets.
    pub dropped_bytes: u64,
    /// The reason why bytes were dropped last.
    pub dropped_why: Option<DropReason>,
    /// Bytes that were stored and removed again, from the middle of the log. They have offsets.
    pub removed_bytes: u64,
    /// Bytes that a file of the log does not have, as far as that was noticed: another program cut
    /// them off, or the server crashed before it wrote them. They have offsets.
    pub cut_bytes: u64,
    /// `true` if nothing will follow.
    pub closed: bool,
    /// The time of the job's last write.
    pub last_output: Option<Instant>,
}

impl LogProgress {
    /// Bytes that the job wrote, kept or not.
    #[must_use]
    pub const fn written_bytes(&self) -> u64 {
        self.total_bytes + self.dropped_bytes
    }

    /// Bytes of the job that can no longer be read, whatever the reason.
    #[must_use]
    pub const fn lost_bytes(&self) -> u64 {
        self.dropped_bytes + self.removed_bytes + self.cut_bytes
    }
}

/// The part of a log that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepOutput {
    /// Everything that the job writes.
    All,
    /// The first and the last half of this many bytes at least, and at most a quarter more.
    Ends(u64),
}

impl KeepOutput {
    /// The offset at which the segment that starts at `start` ends.
    pub(crate) fn segment_end(self, start: u64) -> u64 {
        match self {
            Self::All => u64::MAX,
            Self::Ends(bytes) => {
                let head = bytes.div_ceil(2);
                let tail = head.div_ceil(TAIL_SEGMENTS as u64 - 1);
                let length = if start == 0 { head } else { tail };
                start.saturating_add(length.max(1))
            }
        }
    }
}

/// The state that the writer and all readers of one log share.
///
/// A segment that is removed is dropped as a whole, with its file, and nothing is ever overwritten:
/// a reader that still holds it reads the bytes that were written.
#[derive(Debug)]
pub(crate) struct SharedLog {
    inner: Mutex<SharedLogState>,
    spill_dir: SpillDir,
    /// Facts about the log that are kept for the next reader. Most logs have none.
    facts: OnceLock<Box<LogFacts>>,
    /// `true` once the reports of tools in this log were counted.
    is_counted: AtomicBool,
    quota: TenantQuota,
    /// `None` before the first byte, and for a short log that is closed.
    write_times: Mutex<Option<Box<WriteTimes>>>,
}

/// Facts about a log that no longer change.
#[derive(Debug, Default)]
struct LogFacts {
    charset: OnceLock<Charset>,
    /// The summary of the whole log, once it is closed and somebody asked for it.
    summary: OnceLock<Arc<LogSummary>>,
}

/// The summary of a log, or of a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// The facts.
    pub summary: Summary,
    /// The end of the range that was summarised.
    pub end: u64,
    /// Bytes that were scanned.
    pub scanned_bytes: u64,
    /// `true` if everything was scanned. If not, the facts cover the scanned bytes: the beginning
    /// and the end.
    pub complete: bool,
}

#[derive(Debug)]
struct SharedLogState {
    content: LogContent,
    progress: PublishedProgress,
}

/// The progress that readers see.
#[derive(Debug)]
enum PublishedProgress {
    Open(watch::Receiver<LogProgress>),
    /// The last progress. A closed log needs no channel.
    Closed(LogProgress),
}

impl PublishedProgress {
    fn get(&self) -> LogProgress {
        match self {
            Self::Open(progress) => *progress.borrow(),
            Self::Closed(progress) => *progress,
        }
    }
}

/// The segments of a log, and the bytes that it has lost.
#[derive(Debug)]
pub(crate) struct LogContent {
    head: Arc<LogSegment>,
    /// Most logs have no more, and there are many logs.
    more: Option<Box<MoreContent>>,
}

/// Invariant: the segments of `tail` follow each other without gaps in the offsets, and the last
/// one ends at the end of the log.
#[derive(Debug, Default)]
struct MoreContent {
    tail: VecDeque<Arc<LogSegment>>,
    gaps: Gaps,
}

impl LogContent {
    /// The content of a log that has only its first segment.
    pub(crate) const fn new(head: Arc<LogSegment>) -> Self {
        Self { head, more: None }
    }

    pub(crate) fn with_tail(
        head: Arc<LogSegment>,
        tail: VecDeque<Arc<LogSegment>>,
        gaps: Gaps,
    ) -> Self {
        let is_short = tail.is_empty() && gaps.is_empty();
        Self { head, more: (!is_short).then(|| Box::new(MoreContent { tail, gaps })) }
    }

    /// The last segment.
    pub(crate) fn last(&self) -> &Arc<LogSegment> {
        self.more.as_ref().and_then(|more| more.tail.back()).unwrap_or(&self.head)
    }

    fn iter_segments(&self) -> impl Iterator<Item = &Arc<LogSegment>> {
        std::iter::once(&self.head).chain(self.more.iter().flat_map(|more| &more.tail))
    }

    fn segments(&self) -> Vec<Arc<LogSegment>> {
        self.iter_segments().cloned().collect()
    }

    fn gaps(&self) -> Gaps {
        self.more.as_ref().map(|more| more.gaps.clone()).unwrap_or_default()
    }

    fn more_mut(&mut self) -> &mut MoreContent {
        self.more.get_or_insert_default()
    }
}

impl SharedLog {
    /// Creates a log whose writer publishes its progress.
    pub(crate) fn new(
        content: LogContent,
        progress: watch::Receiver<LogProgress>,
        quota: TenantQuota,
        spill_dir: SpillDir,
    ) -> Self {
        Self::with_progress(content, PublishedProgress::Open(progress), quota, spill_dir)
    }

    /// Creates a log that has no writer any more.
    pub(crate) fn new_closed(
        content: LogContent,
        progress: LogProgress,
        quota: TenantQuota,
        spill_dir: SpillDir,
    ) -> Self {
        Self::with_progress(content, PublishedProgress::Closed(progress), quota, spill_dir)
    }

    fn with_progress(
        content: LogContent,
        progress: PublishedProgress,
        quota: TenantQuota,
        spill_dir: SpillDir,
    ) -> Self {
        let inner = SharedLogState { content, progress };
        Self {
            inner: Mutex::new(inner),
            spill_dir,
            facts: OnceLock::new(),
            is_counted: AtomicBool::new(false),
            quota,
            write_times: Mutex::default(),
        }
    }

    pub(crate) const fn quota(&self) -> &TenantQuota {
        &self.quota
    }

    pub(crate) const fn spill_dir(&self) -> &SpillDir {
        &self.spill_dir
    }

    /// `true` if no file has to be read for any segment.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.lock().content.iter_segments().all(|segment| segment.is_in_memory())
    }

    /// The character set, if it can no longer change.
    pub(crate) fn charset(&self) -> Option<Charset> {
        self.facts.get()?.charset.get().copied()
    }

    /// Fixes the character set. Later calls change nothing.
    pub(crate) fn set_charset(&self, charset: Charset) {
        self.facts().charset.get_or_init(|| charset);
    }

    /// The kept summary of the whole log.
    pub(crate) fn summary(&self) -> Option<Arc<LogSummary>> {
        self.facts.get()?.summary.get().cloned()
    }

    /// Keeps the summary of the whole log. Later calls change nothing.
    pub(crate) fn keep_summary(&self, summary: Arc<LogSummary>) {
        self.facts().summary.get_or_init(|| summary);
    }

    fn facts(&self) -> &LogFacts {
        self.facts.get_or_init(Box::default)
    }

    /// Marks the reports of tools in this log as counted. Returns `true` the first time.
    pub(crate) fn mark_counted(&self) -> bool {
        !self.is_counted.swap(true, Ordering::Relaxed)
    }

    /// The times at which the log grew. Locked for a moment at a time.
    pub(crate) fn write_times(&self) -> MutexGuard<'_, Option<Box<WriteTimes>>> {
        self.write_times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, SharedLogState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a segment at the end. Returns the segment that is removed in exchange, if any.
    pub(crate) fn push_segment(&self, segment: Arc<LogSegment>) -> Option<Arc<LogSegment>> {
        let mut inner = self.lock();
        let tail = &mut inner.content.more_mut().tail;
        tail.push_back(segment);
        (tail.len() > TAIL_SEGMENTS).then(|| tail.pop_front()).flatten()
    }

    /// Records that bytes were lost right before this position.
    pub(crate) fn record_loss(&self, at: LogPosition, bytes: u64, why: DropReason) -> GapKind {
        self.lock().content.more_mut().gaps.record(at, bytes, why)
    }

    /// The next bytes that were lost right before this offset, after the first `known` of them.
    pub(crate) fn find_loss(&self, offset: u64, known: u64) -> Option<LostBytes> {
        self.lock().content.more.as_ref()?.gaps.find_loss(offset, known)
    }

    /// The number of bytes that were lost directly before one of these offsets.
    pub(crate) fn lost_bytes_in(&self, offsets: RangeInclusive<u64>) -> u64 {
        let inner = self.lock();
        inner.content.more.as_ref().map_or(0, |more| more.gaps.lost_bytes_in(offsets))
    }

    /// Takes a snapshot of the readable bytes. They stay readable for as long as the snapshot
    /// lives.
    pub(crate) fn snapshot(&self) -> LogSnapshot {
        let inner = self.lock();
        // Read under the lock: bytes that were published before a segment came or went are in the
        // other segments.
        let mut progress = inner.progress.get();
        let segments = inner.content.segments();
        let gaps = inner.content.gaps();
        drop(inner);
        for segment in &segments {
            // A file that cannot be checked reports its error when it is read.
            segment.detect_file_cut().ok();
        }
        progress.cut_bytes = segments.iter().map(|segment| segment.cut_bytes()).sum();
        let extents = segments.iter().flat_map(|segment| segment.extents(progress.total_bytes));
        LogSnapshot { extents: split_at_gaps(extents, &gaps), progress }
    }

    /// The published progress, with the bytes that are known to be cut off.
    pub(crate) fn progress(&self) -> LogProgress {
        let inner = self.lock();
        let cut_bytes = inner.content.iter_segments().map(|segment| segment.cut_bytes()).sum();
        LogProgress { cut_bytes, ..inner.progress.get() }
    }

    /// The channel on which the writer publishes its progress; `None` once the log is closed.
    pub(crate) fn watch_progress(&self) -> Option<watch::Receiver<LogProgress>> {
        match &self.lock().progress {
            PublishedProgress::Open(progress) => Some(progress.clone()),
            PublishedProgress::Closed(_) => None,
        }
    }

    /// Keeps the last progress. Nothing will follow.
    pub(crate) fn close(&self, last: LogProgress) {
        self.lock().progress = PublishedProgress::Closed(last);
    }

    pub(crate) fn gaps(&self) -> Gaps {
        self.lock().content.gaps()
    }

    /// `true` if only memory holds some bytes of a durable log.
    pub(crate) fn has_unstored(&self) -> bool {
        self.lock().content.iter_segments().any(|segment| segment.has_unstored())
    }

    /// Keeps the memory of a closed durable log for a while.
    pub(crate) fn keep_memory(&self, dir: &SpillDir) {
        self.segments().iter().for_each(|segment| segment.keep_memory(dir));
    }

    /// All segments, in order.
    pub(crate) fn segments(&self) -> Vec<Arc<LogSegment>> {
        self.lock().content.segments()
    }
}

/// Splits extents where bytes were lost.
fn split_at_gaps(extents: impl Iterator<Item = LogExtent>, gaps: &Gaps) -> Vec<LogExtent> {
    let mut places = gaps.positions().peekable();
    let mut split = Vec::new();
    for mut extent in extents {
        while let Some(place) = places.next_if(|place| place.offset < extent.range.end) {
            // A gap inside a hole, or before a removed segment, splits nothing.
            if extent.range.start <= place.offset {
                split.extend(extent.split_off_before(place));
            }
        }
        split.push(extent);
    }
    split
}

/// A log as it was at one moment: extents of readable bytes, and holes between them. All of it
/// stays readable, whatever the writer does meanwhile.
///
/// A range is contiguous if it was written without anything in between: it ends at a hole, and at a
/// gap, where bytes without offsets were lost.
///
/// Invariant: extents are not empty, rise, and do not overlap; none goes past `total_bytes`.
#[derive(Debug, Clone)]
pub(crate) struct LogSnapshot {
    pub(crate) extents: Vec<LogExtent>,
    pub(crate) progress: LogProgress,
}

impl LogSnapshot {
    pub(crate) const fn total_bytes(&self) -> u64 {
        self.progress.total_bytes
    }

    /// The extent that contains this byte, or else the next extent after it.
    pub(crate) fn extent_from(&self, offset: u64) -> Option<&LogExtent> {
        self.extents.iter().find(|extent| extent.range.end > offset)
    }

    /// The last extent that starts before this offset.
    fn extent_before(&self, offset: u64) -> Option<&LogExtent> {
        self.extents.iter().rev().find(|extent| extent.range.start < offset)
    }

    /// The first readable byte at or after `offset`, or the end of the log.
    pub(crate) fn next_readable(&self, offset: u64) -> u64 {
        let next = self.extent_from(offset).map_or(self.total_bytes(), |extent| extent.range.start);
        next.max(offset)
    }

    /// The end of the contiguous bytes from `offset` on: the first hole or gap, or the end of the
    /// log.
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

    /// The first hole in the range, if there is one.
    pub(crate) fn first_hole(&self, range: Range<u64>) -> Option<Range<u64>> {
        let mut start = range.start;
        for extent in &self.extents {
            if extent.range.contains(&start) {
                start = extent.range.end;
            }
        }
        (start < range.end.min(self.total_bytes())).then(|| start..self.next_readable(start))
    }

    /// The start of the contiguous bytes before `offset`: the last hole or gap, or the start of the
    /// log.
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

    /// The number of bytes of the range that are not readable.
    pub(crate) fn missing_bytes(&self, range: Range<u64>) -> u64 {
        let range = range.start..range.end.min(self.total_bytes());
        let overlap = |extent: &LogExtent| {
            let start = extent.range.start.max(range.start);
            extent.range.end.min(range.end).saturating_sub(start)
        };
        let there: u64 = self.extents.iter().map(overlap).sum();
        range.end.saturating_sub(range.start) - there
    }

    /// Reads the bytes of a range without holes.
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

    /// The number, counted from 1, of the line that contains the byte at `offset`. Inside a hole,
    /// the last line of the hole; past the end, the line of the next byte to come.
    pub(crate) fn line_at(&self, offset: u64) -> io::Result<u64> {
        if offset >= self.total_bytes() {
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
        // The byte before the hole is the last one that is known to belong to its line.
        let is_first = offset == 0 || self.contiguous_start(offset) < offset;
        let after = next.map_or(self.progress.lines, |extent| extent.lines);
        Ok(if is_first { before + 1 } else { after.max(before + 1) })
    }

    /// The offset after this many newlines. If that newline is inside a hole, the start of the
    /// hole; if there are fewer newlines, the end.
    pub(crate) fn offset_of_line_after(&self, newlines: u64) -> io::Result<u64> {
        let is_before = |extent: &&LogExtent| extent.lines < newlines;
        let Some(extent) = self.extents.iter().rev().find(is_before) else { return Ok(0) };
        extent.offset_of_line_after(newlines)
    }
}

impl LogExtent {
    /// Finished lines in the log before an offset in this extent, or at its end.
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

    /// The offset after this many newlines of the log, which must be more than come before this
    /// extent. The end of the extent if there are fewer.
    fn offset_of_line_after(&self, newlines: u64) -> io::Result<u64> {
        // The wanted newline is in the last run that begins before it.
        let found = self.segment.find_run(|run| run.line < newlines)?;
        let Some((_, run)) = found.filter(|(_, run)| run.offset < self.range.end) else {
            return Ok(self.range.end);
        };
        let bytes = self.segment.read(run.offset..run.end().min(self.range.end))?;
        let newline = memchr_iter(b'\n', &bytes).nth((newlines - run.line - 1) as usize);
        Ok(newline.map_or(self.range.end, |position| run.offset + position as u64 + 1))
    }
}

//! The state that the writer and all readers of one log share: its segments, its gaps, and
//! snapshots of them. A log is one segment, or a head and the last segments of the rest.

use std::collections::VecDeque;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use shellyard_summary::Summary;
use tokio::sync::watch;

use crate::counters::DropReason;
use crate::index::{GapKind, Gaps, LogPosition, LostBytes, Stream, WriteTimes};
use crate::quota::TenantQuota;
use crate::segment::{Continuity, LogExtent, LogSegment};
use crate::spill::SpillDir;
use crate::views::Charset;

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
    /// `true` if fewer bytes may have been dropped: the server crashed, and nobody knows how many it
    /// had taken from the job and not stored.
    pub dropped_at_most: bool,
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
    /// The kept bytes of one stream, or of both.
    #[must_use]
    pub const fn bytes_of(&self, stream: Option<Stream>) -> u64 {
        match stream {
            None => self.total_bytes,
            Some(Stream::Stdout) => self.total_bytes - self.stderr_bytes,
            Some(Stream::Stderr) => self.stderr_bytes,
        }
    }

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
    /// `true` once the files of the log are not wanted any more.
    is_unwanted: AtomicBool,
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
pub(crate) enum PublishedProgress {
    /// The channel of the writer.
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
    pub(crate) fn new(
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
            is_unwanted: AtomicBool::new(false),
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

    /// Marks the files of the log as not wanted any more.
    pub(crate) fn mark_unwanted(&self) {
        self.is_unwanted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_unwanted(&self) -> bool {
        self.is_unwanted.load(Ordering::Relaxed)
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

    /// The number of bytes of a durable log that only memory holds.
    pub(crate) fn unstored_bytes(&self) -> u64 {
        self.lock().content.iter_segments().map(|segment| segment.unstored_bytes()).sum()
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

#[cfg(test)]
mod tests {
    //! Logs that lose bytes, against a model of which bytes are left.

    use std::collections::HashMap;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use crate::Stream;
    use crate::counters::DropReason;
    use crate::excerpt::{Budget, excerpt, tail};
    use crate::line_scan::{LinePattern, ScanDeadline};
    use crate::search::{ListingStyle, SearchContext, SearchRequest, Select, search};
    use crate::segment::SegmentStore;
    use crate::*;

    type Model = Vec<(Stream, u8)>;

    struct BoundedLog {
        writer: LogWriter,
        reader: LogReader,
        quota: Arc<Quota>,
        /// Every byte that has an offset.
        model: Model,
        /// The end of each line: after its newline, or where bytes were dropped.
        line_ends: Vec<usize>,
        dir: tempfile::TempDir,
    }

    impl BoundedLog {
        fn new(memory_bytes: usize, keep: KeepOutput, store_bytes: u64) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let settings = LogStorage { memory_bytes, spill_dir: dir.path().join("spill").into() };
            let tenant_bytes = u64::MAX;
            let tenants = HashMap::new();
            let limits = QuotaLimits { store_bytes, tenant_bytes, tenants };
            let quota = Quota::new(limits, 1 << 20, Arc::default());
            let bounds = LogBounds { keep, quota: quota.tenant_quota("me") };
            let (writer, reader) = open_bounded_log(&settings, bounds);
            Self { writer, reader, quota, model: Vec::new(), line_ends: Vec::new(), dir }
        }

        /// Appends bytes, and checks that each byte either got an offset or was counted as dropped.
        fn append(&mut self, stream: Stream, bytes: &[u8]) -> LogProgress {
            let before = self.reader.progress();
            let after = self.writer.append(stream, bytes);
            let kept = (after.total_bytes - before.total_bytes) as usize;
            let dropped = (after.dropped_bytes - before.dropped_bytes) as usize;
            assert_eq!(kept + dropped, bytes.len());
            assert_eq!(dropped > 0 || before.dropped_why.is_some(), after.dropped_why.is_some());
            for byte in &bytes[..kept] {
                self.model.push((stream, *byte));
                if *byte == b'\n' {
                    self.line_ends.push(self.model.len());
                }
            }
            if dropped > 0 && self.line_ends.last().copied().unwrap_or(0) < self.model.len() {
                self.line_ends.push(self.model.len());
            }
            assert_eq!(after.total_bytes, self.model.len() as u64);
            assert_eq!(after.lines, self.newlines(self.model.len()));
            after
        }

        fn newlines(&self, before: usize) -> u64 {
            self.line_ends.iter().filter(|end| **end <= before).count() as u64
        }

        fn expected(&self, stream: Option<Stream>, from: u64, to: u64) -> Vec<u8> {
            let range = &self.model[from as usize..to as usize];
            let wanted = range.iter().filter(|(of, _)| stream.is_none_or(|stream| stream == *of));
            wanted.map(|(_, byte)| *byte).collect()
        }

        fn page(&self, from: u64, stream: Option<Stream>, max_bytes: usize) -> LogPage {
            self.reader
                .blocking()
                .read_page(&PageRequest { from, to: u64::MAX, stream, max_bytes, max_lines: 0 })
                .unwrap()
        }

        /// Reads pages from `from` and checks each. Returns the readable ranges, the bytes that are
        /// reported as missing, and the end.
        fn read_on(
            &self,
            mut from: u64,
            stream: Option<Stream>,
            max_bytes: usize,
        ) -> (Vec<(u64, u64)>, u64, u64) {
            let mut there = Vec::new();
            let mut missing = 0;
            loop {
                let page = self.page(from, stream, max_bytes);
                assert_eq!(page.bytes, self.expected(stream, page.start, page.end), "{from}");
                assert!(page.gap_bytes >= page.start - from);
                there.push((page.start, page.end));
                missing += page.gap_bytes;
                assert!(page.end > from || page.end_kind != PageEnd::More, "no progress at {from}");
                from = page.end;
                if page.end_kind != PageEnd::More {
                    return (there, missing, from);
                }
            }
        }

        /// Checks that all readable bytes can be found by line, counted, searched and shown.
        fn check_lines(&self) {
            let (there, ..) = self.read_on(0, None, 1 << 20);
            let starts = std::iter::once(0).chain(self.line_ends.iter().copied());
            let starts: Vec<u64> = starts.map(|start| start as u64).collect();
            let is_there =
                |offset: &u64| there.iter().any(|(from, to)| (*from..*to).contains(offset));
            for offset in (0..self.model.len() as u64).filter(is_there) {
                let line = self.newlines(offset as usize) + 1;
                assert_eq!(
                    self.reader.blocking().line_at(offset).unwrap(),
                    line,
                    "{offset} in {there:?}"
                );
                if let Ok(index) = starts.binary_search(&offset) {
                    let found = self.reader.blocking().offset_of_line(index as u64 + 1).unwrap();
                    let lies_before_hole = offset > 0 && !is_there(&(offset - 1));
                    assert!(
                        found == Some(offset) || lies_before_hole,
                        "line {} {found:?}",
                        index + 1
                    );
                }
            }
            self.check_streams(is_there);
            self.check_search(&starts);
            self.check_excerpts();
        }

        /// Checks that every readable byte of a stream, and no other, is found by its position.
        fn check_streams(&self, is_there: impl Fn(&u64) -> bool) {
            for stream in [Stream::Stdout, Stream::Stderr] {
                let places = (0..).zip(&self.model).filter(|(_, (of, _))| *of == stream);
                for (position, (offset, _)) in (0..).zip(places) {
                    self.check_byte(stream, position, offset, is_there(&offset));
                }
            }
        }

        fn check_byte(&self, stream: Stream, position: u64, offset: u64, is_there: bool) {
            let reader = self.reader.blocking();
            let hole = reader.first_hole(Some(stream), position..position + 1).unwrap();
            assert_eq!(hole.is_none(), is_there, "{position} at {offset}");
            if is_there {
                assert_eq!(log_offset(&reader, stream, position).unwrap(), offset);
                assert_eq!(stream_offset(&reader, stream, offset).unwrap(), position);
                let end = Some(position + 1);
                let stream = Some(stream);
                let byte = LogRangeRequest { stream, start: position, end, max_bytes: 1 };
                let byte = reader.read_range(&byte).unwrap();
                assert_eq!(byte.bytes, self.expected(None, offset, offset + 1));
            }
        }

        fn check_search(&self, starts: &[u64]) {
            let pattern = LinePattern::new("a").unwrap();
            let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
            let request = SearchRequest {
                pattern: &pattern,
                select: Select::Matching,
                stream: None,
                from: 0,
                context: SearchContext::Lines(0),
                style: ListingStyle::Page,
                max_matches: usize::MAX,
                max_bytes: usize::MAX,
            };
            let found = search(&self.reader.blocking(), &request, &deadline).unwrap();
            assert_eq!(found.lines.len() as u64, found.matches);
            for line in found.lines {
                let end = line.offset + line.text.len() as u64;
                assert_eq!(line.text, self.expected(None, line.offset, end));
                let start = starts[line.number as usize - 1];
                assert!(start <= line.offset && !line.text.contains(&b'\n'));
                let crosses = |start: &u64| line.offset < *start && *start < end;
                assert!(!starts.iter().any(crosses), "a line ends where bytes were lost");
            }
        }

        fn check_excerpts(&self) {
            let budget = Budget::of_bytes(30);
            for from in [0, self.model.len() as u64 / 2] {
                let shown = excerpt(&self.reader.blocking(), from, budget).unwrap();
                assert!(shown.from >= from && shown.gap_bytes == shown.from - from);
                for section in &shown.sections {
                    let line = self.newlines(section.start as usize) + 1;
                    assert_eq!(section.first_line, line);
                }
            }
            let shown = tail(&self.reader.blocking(), 0, budget).unwrap();
            assert!(shown.hidden.is_none() && (shown.gap_bytes == 0 || shown.sections.is_empty()));
            let start = self.reader.blocking().tail_start(None, 20, 0).unwrap();
            let page = self.page(start, None, 1 << 20);
            assert_eq!(page.end, page.total_bytes, "a tail crosses no hole");
            assert!(page.start == start || page.bytes.is_empty() && page.gap_bytes > 0);
        }

        /// The files that hold the log's bytes now, open for writing.
        fn files(&self) -> Vec<File> {
            let parts = self.reader.log.segments();
            let file = |part: &Arc<segment::LogSegment>| match &part.lock().store {
                SegmentStore::Spilled(file) => Some(writable(&file.open().unwrap())),
                SegmentStore::Memory(_)
                | SegmentStore::Durable(_)
                | SegmentStore::Compressed(_) => None,
            };
            parts.iter().filter_map(file).collect()
        }
    }

    /// Opens a file again, as another program would.
    fn writable(file: &File) -> File {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        File::options().write(true).open(path).unwrap()
    }

    fn any_stream() -> impl Strategy<Value = Stream> {
        prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)]
    }

    fn any_keep() -> impl Strategy<Value = KeepOutput> {
        prop_oneof![Just(KeepOutput::All), (0..120_u64).prop_map(KeepOutput::Ends)]
    }

    /// An event in the life of a log.
    #[derive(Debug, Clone)]
    enum LogEvent {
        Append(Stream, Vec<u8>),
        Cut(u64),
        Read(Option<Stream>, usize),
    }

    fn any_log_event() -> impl Strategy<Value = LogEvent> {
        let append = || (any_stream(), "[a-c\n]{0,30}");
        prop_oneof![
            8 => append().prop_map(|(stream, text)| LogEvent::Append(stream, text.into_bytes())),
            1 => (0..100_u64).prop_map(LogEvent::Cut),
            3 => (proptest::option::of(any_stream()), 0..40_usize)
                .prop_map(|(stream, size)| LogEvent::Read(stream, size)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

        #[test]
        fn missing_bytes_are_reported_and_the_others_are_correct(
            events in vec(any_log_event(), 0..40),
            keep in any_keep(),
            memory_bytes in 0..100_usize,
            store_bytes in prop_oneof![Just(u64::MAX), 0..300_u64],
        ) {
            let mut log = BoundedLog::new(memory_bytes, keep, store_bytes);
            let mut followed = 0;
            for event in events {
                match event {
                    LogEvent::Append(stream, bytes) => drop(log.append(stream, &bytes)),
                    LogEvent::Cut(length) => {
                        if let Some(file) = log.files().first() {
                            let length = length.min(file.metadata().unwrap().len());
                            file.set_len(length).unwrap();
                        }
                    }
                    LogEvent::Read(stream, size) => (_, _, followed) = log.read_on(followed, stream, size),
                }
                prop_assert!(log.quota.used() <= store_bytes);
            }
            log.writer.close();
            log.read_on(followed, None, 50);
            let (there, missing, end) = log.read_on(0, None, 17);
            let read: u64 = there.iter().map(|(from, to)| to - from).sum();
            let progress = log.reader.progress();
            prop_assert_eq!(end, progress.total_bytes);
            prop_assert_eq!(missing, progress.total_bytes - read + progress.dropped_bytes);
            log.check_lines();
            let BoundedLog { writer, reader, quota, .. } = log;
            drop((writer, reader));
            prop_assert_eq!(quota.used(), 0, "all room came back");
        }

        #[test]
        fn both_ends_are_kept_and_no_more_than_a_quarter_beside_them(
            writes in vec((any_stream(), "[a-c\n]{0,60}"), 0..60),
            large in 0..400_u64,
            memory_bytes in 0..100_usize,
        ) {
            let mut log = BoundedLog::new(memory_bytes, KeepOutput::Ends(large), u64::MAX);
            for (stream, text) in &writes {
                let progress = log.append(*stream, text.as_bytes());
                let (there, missing, total) = log.read_on(0, None, 1 << 20);
                let half = large.div_ceil(2);
                let first = there[0].1;
                let last = there.last().unwrap();
                prop_assert!(first >= half.min(total));
                prop_assert!(last.1 == total && (first == total || last.0 <= total.saturating_sub(half)));
                prop_assert_eq!(progress.removed_bytes, missing);
                prop_assert!(total - missing <= large + large / 4 + 4, "{} of {}", total - missing, large);
                prop_assert_eq!(progress.dropped_bytes, 0);
            }
            log.writer.close();
            log.check_lines();
        }
    }

    #[test]
    fn a_hole_is_reported_once_and_reading_continues_after_it() {
        let mut log = BoundedLog::new(0, KeepOutput::Ends(40), u64::MAX);
        for number in 0..100 {
            log.append(Stream::Stdout, format!("line {number:03}\n").as_bytes());
        }
        log.writer.close();
        let head = log.page(0, None, 1000);
        assert_eq!(
            (head.start, head.end, head.gap_bytes, head.end_kind),
            (0, 20, 0, PageEnd::More)
        );
        let rest = log.page(20, None, 1000);
        assert_eq!((rest.gap_bytes, rest.end_kind), (rest.start - 20, PageEnd::Complete));
        assert!(rest.start > 800 && rest.bytes.ends_with(b"line 098\nline 099\n"));
        assert_eq!(log.reader.blocking().line_at(890).unwrap(), 99);
        assert_eq!(log.reader.blocking().offset_of_line(99).unwrap(), Some(882));
        assert_eq!(
            log.reader.blocking().offset_of_line(50).unwrap(),
            Some(20),
            "where the hole starts"
        );
        let budget = Budget::of_bytes(10_000);
        let shown = excerpt(&log.reader.blocking(), 0, budget).unwrap();
        let hidden = shown.hidden.unwrap();
        assert_eq!(shown.sections.len(), 2);
        // The first section ends with a whole line, and the hole begins inside that line.
        assert_eq!(hidden.missing_bytes, rest.start - 20);
        assert_eq!((shown.sections[0].last_line, hidden.first_line), (2, 3));
        assert!(hidden.last_line + 1 >= shown.sections[1].first_line);
    }

    #[test]
    fn a_page_ends_at_its_last_offset_before_other_bytes_and_within_a_hole() {
        let mut log = BoundedLog::new(0, KeepOutput::Ends(40), u64::MAX);
        for number in 0..50 {
            log.append(Stream::Stdout, format!("out {number:03}\n").as_bytes());
            log.append(Stream::Stderr, format!("err {number:03}\n").as_bytes());
        }
        log.writer.close();
        let kept = log.page(20, None, 1000).start;
        let total = log.reader.progress().total_bytes;
        let end = total - 4;
        for (from, to, stream, expected) in [
            (0, 11, None, (0, 11, &b"out 000\nerr"[..])),
            (0, 10, Some(Stream::Stderr), (0, 10, b"er")),
            (0, 8, Some(Stream::Stderr), (0, 8, b"")),
            (20, kept + 2, None, (kept, kept + 2, &log.page(kept, None, 1000).bytes[..2])),
            (20, kept - 1, None, (kept - 1, kept - 1, b"")),
            (total - 8, end, None, (total - 8, end, b"err ")),
            (total, total - 8, None, (total, total, b"")),
        ] {
            let request = PageRequest { from, to, stream, max_bytes: 1000, max_lines: 0 };
            let page = log.reader.blocking().read_page(&request).unwrap();
            assert_eq!((page.start, page.end, &page.bytes[..]), expected, "{request:?}");
            let is_last = page.end == total;
            assert_eq!(page.end_kind == PageEnd::Complete, is_last, "{request:?}");
        }
    }

    #[test]
    fn disk_and_memory_stay_bounded_however_much_is_written() {
        const LARGE: u64 = 1 << 20;
        let mut log = BoundedLog::new(64 * 1024, KeepOutput::Ends(LARGE), u64::MAX);
        let chunk = vec![b'x'; 100_000];
        for _ in 0..200 {
            log.writer.append(Stream::Stdout, &chunk);
            let on_disk: u64 = log.files().iter().map(|file| file.metadata().unwrap().len()).sum();
            assert!(on_disk <= LARGE + LARGE / 4 && log.quota.used() <= 2 * LARGE, "{on_disk}");
        }
        let progress = log.reader.progress();
        assert_eq!(progress.total_bytes, 20_000_000);
        assert!(progress.removed_bytes > 18_000_000);
    }

    #[test]
    fn the_index_of_removed_bytes_is_removed_too() {
        let mut log = BoundedLog::new(0, KeepOutput::Ends(4096), u64::MAX);
        for _ in 0..100_000 {
            log.writer.append(Stream::Stdout, b"o");
            log.writer.append(Stream::Stderr, b"e");
        }
        // At worst, a record of 32 bytes for each kept byte.
        assert!(log.quota.used() < 40 * 6000, "{}", log.quota.used());
    }

    #[test]
    fn a_truncated_file_has_a_hole_and_continues_after_it() {
        for writes_on in [false, true] {
            let mut log = BoundedLog::new(10, KeepOutput::All, u64::MAX);
            for number in 0..100 {
                log.append(Stream::Stdout, format!("line {number:03}\n").as_bytes());
            }
            log.files()[0].set_len(300).unwrap();
            if writes_on {
                log.append(Stream::Stderr, b"later\n");
            }
            assert_eq!(log.page(0, None, 1000).end, 300);
            let rest = log.page(300, None, 1000);
            assert_eq!((rest.start, rest.gap_bytes), (900, 600));
            assert_eq!(rest.bytes, if writes_on { b"later\n".as_slice() } else { b"" });
            log.append(Stream::Stdout, b"last\n");
            log.writer.close();
            log.check_lines();
        }
    }

    #[test]
    fn each_drop_reason_is_reported_and_freed_room_is_used() {
        let mut log = BoundedLog::new(8, KeepOutput::All, 100);
        log.append(Stream::Stdout, &[b'x'; 90]);
        let full = log.append(Stream::Stdout, &[b'y'; 20]);
        assert_eq!((full.dropped_bytes, full.dropped_why), (20, Some(DropReason::StoreFull)));
        let mut log = BoundedLog::new(8, KeepOutput::All, u64::MAX);
        std::fs::write(log.dir.path().join("spill"), b"").unwrap();
        let blocked = log.append(Stream::Stdout, b"0123456789");
        assert_eq!((blocked.dropped_bytes, blocked.dropped_why), (2, Some(DropReason::IoError)));
        std::fs::remove_file(log.dir.path().join("spill")).unwrap();
        assert_eq!(log.append(Stream::Stdout, b"kept").dropped_bytes, 2);
        // The directory may disappear at any time: an open file does not need it, and a new file
        // creates it again.
        std::fs::remove_dir_all(log.dir.path()).unwrap();
        assert_eq!(log.append(Stream::Stdout, b"kept").dropped_bytes, 2);
    }

    /// The expected bytes at each offset: numbered lines of 8 bytes.
    fn numbered(from: u64, length: usize) -> Vec<u8> {
        let lines = (from / 8..).map(|number| format!("{number:07}\n"));
        let bytes = lines.flat_map(String::into_bytes);
        bytes.skip((from % 8) as usize).take(length).collect()
    }

    /// Reads to the end. Returns the end and the number of missing bytes.
    async fn follow_numbers(reader: LogReader, max_bytes: usize) -> (u64, u64) {
        let mut from = 0;
        let mut missing = 0;
        loop {
            let request = PageRequest { from, to: u64::MAX, stream: None, max_bytes, max_lines: 0 };
            let page = reader.blocking().read_page(&request).unwrap();
            assert!(page.bytes == numbered(page.start, page.bytes.len()), "{}", page.start);
            assert_eq!((page.end - page.start) as usize, page.bytes.len());
            missing += page.gap_bytes;
            from = page.end;
            let shown = excerpt(&reader.blocking(), 0, Budget::of_bytes(1000)).unwrap();
            for section in shown.sections {
                let length = (section.end - section.start) as usize;
                assert_eq!(section.text.into_bytes(), numbered(section.start, length));
            }
            match page.end_kind {
                PageEnd::More => {}
                PageEnd::CaughtUp => reader.wait_past(page.total_bytes).await,
                PageEnd::Complete => return (from, missing),
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn readers_never_get_a_wrong_byte_while_the_middle_is_removed() {
        const TOTAL: u64 = 8_000_000;
        let BoundedLog { mut writer, reader, dir: _dir, .. } =
            BoundedLog::new(1000, KeepOutput::Ends(40_000), u64::MAX);
        let readers =
            [100, 5000, 100_000].map(|size| tokio::spawn(follow_numbers(reader.clone(), size)));
        let writing = tokio::task::spawn_blocking(move || {
            for from in (0..TOTAL).step_by(1000) {
                writer.append(Stream::Stdout, &numbered(from, 1000));
            }
        });
        for following in readers {
            let read = tokio::time::timeout(Duration::from_secs(60), following).await;
            let (end, missing) = read.expect("no hang").unwrap();
            assert!(end == TOTAL && missing < TOTAL);
        }
        writing.await.unwrap();
    }
}

//! The reader side of a log: its progress, waiting for more, and reading off the runtime.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;

use crate::Stream;
use crate::chunks::{Direction, LogChunks};
use crate::compression::{CompressionTask, LogCompressor};
use crate::page::{
    BytesAfterPage, LogPage, PageEnd, PageRequest, TailLimits, cut_page, tail_start,
};
use crate::read_memory::{ReadBusy, ReadFrom, ReadPermit};
use crate::recovery::ClosedLog;
use crate::shared_log::{LogProgress, LogSnapshot, SharedLog};
use crate::views::{Charset, SAMPLE_BYTES};

/// The largest log that threads of the runtime read themselves, if it is in memory.
const SMALL_LOG: u64 = 256 * 1024;

/// Reads one log, while it is written and after. Cheap to clone; readers do not affect each other.
///
/// None of its methods waits for the disk on a thread of the runtime.
#[derive(Debug, Clone)]
pub struct LogReader {
    pub(crate) log: Arc<SharedLog>,
}

impl LogReader {
    pub(crate) const fn new(log: Arc<SharedLog>) -> Self {
        Self { log }
    }

    /// Reserves memory for a read of this log, out of a budget for all reads of the server. Waits
    /// for it at most `wait`.
    ///
    /// # Errors
    /// If other reads use all of the memory until then.
    pub async fn reserve(&self, bytes: usize, wait: Duration) -> Result<ReadPermit, ReadBusy> {
        let from = if self.is_cheap_to_read() { ReadFrom::Memory } else { ReadFrom::Disk };
        self.log.quota().reserve_read(from, bytes, wait).await
    }

    /// The progress of the log. All bytes that it counts can be read, or are in a hole.
    #[must_use]
    pub fn progress(&self) -> LogProgress {
        self.log.progress()
    }

    /// Checks whether the files of the log are still whole, so that [`LogProgress::cut_bytes`] is
    /// up to date.
    ///
    /// # Errors
    /// `TimedOut` if the disk did not answer in time.
    pub async fn check_files(&self) -> io::Result<()> {
        let check = |log: &BlockingReader| {
            drop(log.snapshot());
            Ok(())
        };
        self.read_with(check).await
    }

    /// The bytes that the log takes in memory or on the disk: fewer than were written once it is
    /// compressed.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.log.segments().iter().map(|part| part.stored_bytes()).sum()
    }

    /// Reads the log: on this thread if the log is in memory and small, else on a thread that may
    /// block. The number of such threads is bounded; further calls wait without a thread.
    ///
    /// # Errors
    /// The error of `read`; `TimedOut` if the disk did not answer in time.
    pub async fn read_with<T: Send + 'static>(
        &self,
        read: impl FnOnce(&BlockingReader) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.scan_for(Duration::ZERO, read).await
    }

    /// Reads much of the log, which takes `time` beside the time of the disk.
    ///
    /// # Errors
    /// The error of `read`; `TimedOut` if it was not over in time.
    pub async fn scan_for<T: Send + 'static>(
        &self,
        time: Duration,
        read: impl FnOnce(&BlockingReader) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let log = self.blocking();
        if self.is_cheap_to_read() {
            return read(&log);
        }
        self.log.spill_dir().read_with(time, move || read(&log)).await
    }

    /// Reads the log on a thread that may block, even if the log is in memory: for a `read` that
    /// also writes to the disk.
    pub(crate) async fn read_on_thread<T: Send + 'static>(
        &self,
        read: impl FnOnce(&BlockingReader) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let log = self.blocking();
        self.log.spill_dir().read_with(Duration::ZERO, move || read(&log)).await
    }

    /// Reads optional information from the log. Returns `None` if the disk is slow or too many
    /// threads wait for it.
    pub async fn read_if_idle_with<T: Send + 'static>(
        &self,
        read: impl FnOnce(&BlockingReader) -> io::Result<T> + Send + 'static,
    ) -> Option<T> {
        let log = self.blocking();
        if self.is_cheap_to_read() {
            return read(&log).ok();
        }
        self.log.spill_dir().read_if_idle_with(move || read(&log)).await
    }

    /// `true` if reading the log takes next to no time, whatever the disk does.
    #[must_use]
    pub fn is_cheap_to_read(&self) -> bool {
        self.progress().total_bytes <= SMALL_LOG && self.log.is_in_memory()
    }

    /// The task of compressing this log; `None` while it is open, small or in memory.
    #[must_use]
    pub fn compression_task(&self, compressor: &LogCompressor) -> Option<CompressionTask> {
        let progress = self.progress();
        if !progress.closed {
            return None;
        }
        compressor.compression_task(progress.total_bytes, self.log.segments())
    }

    /// Waits until the log holds more than `seen` bytes, or is closed. No wake-up is lost, and
    /// dropping the future loses nothing. After a page, wait past its `total_bytes`.
    pub async fn wait_past(&self, seen: u64) {
        let Some(mut progress) = self.log.watch_progress() else { return };
        let is_past = |now: &LogProgress| now.closed || now.total_bytes > seen;
        // An error means that the writer is gone, which ends the wait as well.
        progress.wait_for(is_past).await.ok();
    }

    /// A reader for a thread that may wait for the disk, such as the thread of a test. Threads of
    /// the runtime get one from [`LogReader::read_with`].
    #[must_use]
    pub fn blocking(&self) -> BlockingReader {
        BlockingReader { log: Arc::clone(&self.log), snapshot: None }
    }

    /// The state of a closed durable log, from which `open_closed_log` opens it again in the next
    /// server. It changes when the log is compressed. `None` while the log is open, and for a log
    /// that is not durable.
    #[must_use]
    pub fn closed_state(&self) -> Option<ClosedLog> {
        ClosedLog::new(&self.log)
    }

    /// Removes the files of a durable log as soon as nobody reads them any more. Without this they
    /// stay for the next server. Does nothing for a log that is not durable.
    pub fn remove_files(&self) {
        self.log.mark_unwanted();
        for segment in self.log.segments() {
            segment.remove_files();
        }
    }
}

/// Scans several logs in turn on one thread that may block. The scan itself may take `time`.
///
/// # Errors
/// `TimedOut` if the disk did not answer in time; the system's error if no thread could be created.
pub async fn scan_with<T: Send + 'static>(
    logs: &[LogReader],
    time: Duration,
    scan: impl FnOnce(&[BlockingReader]) -> T + Send + 'static,
) -> io::Result<T> {
    let readers: Vec<BlockingReader> = logs.iter().map(LogReader::blocking).collect();
    let scan = move || Ok(scan(&readers));
    match logs.iter().find(|log| !log.is_cheap_to_read()) {
        Some(log) => log.log.spill_dir().read_with(time, scan).await,
        // These logs need a thread for the duration of the scan, and no disk.
        None => spawn_blocking(scan).await.map_err(io::Error::other)?,
    }
}

/// Reads one log on a thread that may block: every method may wait for as long as the disk takes.
///
/// Code on the runtime gets one from [`LogReader::read_with`], `read_if_idle_with` or `scan_with`,
/// so that no thread of the runtime waits for the disk. For the same reason it cannot be cloned.
///
/// [`LogReader::read_with`]: super::LogReader::read_with
#[derive(Debug)]
pub struct BlockingReader {
    pub(crate) log: Arc<SharedLog>,
    /// Set if several reads must see the log at the same moment.
    snapshot: Option<Arc<LogSnapshot>>,
}

impl BlockingReader {
    /// A reader of the log as it is now. It sees nothing that comes later, and all bytes that are
    /// present stay readable for it.
    pub(crate) fn freeze(&self) -> Self {
        Self { log: Arc::clone(&self.log), snapshot: Some(self.snapshot()) }
    }

    pub(crate) fn snapshot(&self) -> Arc<LogSnapshot> {
        match &self.snapshot {
            Some(snapshot) => Arc::clone(snapshot),
            None => Arc::new(self.log.snapshot()),
        }
    }

    /// The progress of the log. All bytes that it counts can be read, or are in a hole.
    #[must_use]
    pub fn progress(&self) -> LogProgress {
        match &self.snapshot {
            Some(snapshot) => snapshot.progress,
            None => self.log.progress(),
        }
    }

    /// An offset at or before the first byte that was written at `since` or later, if there is one.
    pub(crate) fn offset_written_at(&self, since: Instant) -> Option<u64> {
        let last_output = self.progress().last_output;
        match &*self.log.write_times() {
            Some(times) => times.offset_at(since, last_output),
            None => last_output.is_none_or(|last| last >= since).then_some(0),
        }
    }

    /// Marks the reports of tools in this log as counted. Returns `true` the first time, so that a
    /// metric counts each log once.
    #[must_use]
    pub fn mark_counted(&self) -> bool {
        self.log.mark_counted()
    }

    /// Reads one page. Repeated with `from` set to the last page's `end`, this returns every
    /// readable byte of the log, or of one of its streams, exactly once.
    pub fn read_page(&self, request: &PageRequest) -> io::Result<LogPage> {
        self.read_page_in(request, Charset::Utf8)
    }

    /// Reads one page that ends on whole lines and characters of this character set.
    pub fn read_page_in(&self, request: &PageRequest, charset: Charset) -> io::Result<LogPage> {
        // One snapshot: reading `closed` later could call a page complete although its last bytes
        // arrived in between.
        let snapshot = self.snapshot();
        let total_bytes = snapshot.total_bytes();
        let to = request.to.max(request.from);
        let start = snapshot.next_readable(request.from).min(to);
        let contiguous = ContiguousRange {
            snapshot: &snapshot,
            stream: request.stream,
            range: start..snapshot.contiguous_end(start).min(to),
        };
        let limit = request.byte_limit();
        let mut bytes = contiguous.read_up_to(limit.saturating_add(1))?;
        let rest = if bytes.len() > limit {
            BytesAfterPage::Bytes
        } else if contiguous.range.end < total_bytes {
            BytesAfterPage::Hole
        } else if snapshot.progress.closed {
            BytesAfterPage::Closed
        } else {
            BytesAfterPage::Open
        };
        bytes.truncate(limit);
        let (length, end_kind) = cut_page(&bytes, charset, request.max_lines, rest);
        let everything = length == bytes.len() && rest != BytesAfterPage::Bytes;
        bytes.truncate(length);
        let end = if everything {
            contiguous.range.end
        } else {
            contiguous.offset_after(length as u64)?
        };
        let gap_bytes = snapshot.missing_bytes(request.from..end)
            + self.missing_bytes_between(request.from, end, end_kind);
        Ok(LogPage { bytes, start, end, end_kind, gap_bytes, total_bytes })
    }

    /// The character set of the log. The first 16 KiB decide, so it may change while there are
    /// fewer bytes, and never after.
    pub fn charset(&self) -> io::Result<Charset> {
        if let Some(settled) = self.log.charset() {
            return Ok(settled);
        }
        let snapshot = self.snapshot();
        // The head of a log is always kept, unless somebody truncated its file.
        let length = snapshot.contiguous_end(0).min(SAMPLE_BYTES as u64);
        let charset = Charset::detect(&snapshot.read(0..length)?);
        if length == SAMPLE_BYTES as u64 {
            self.log.set_charset(charset);
        }
        Ok(charset)
    }

    /// The bytes of a page as contiguous ranges, each with its offset. The bytes of one stream may
    /// be scattered.
    pub fn read_extents(
        &self,
        request: &PageRequest,
        page: &LogPage,
    ) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let mut extents: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut chunks = self.chunks(request.stream, page.start, page.end);
        while let Some((offset, chunk)) = chunks.next()? {
            match extents.last_mut() {
                Some((start, bytes)) if *start + bytes.len() as u64 == offset => {
                    bytes.extend_from_slice(chunk);
                }
                Some(_) | None => extents.push((offset, chunk.to_vec())),
            }
        }
        Ok(extents)
    }

    /// The offset at which a page of the last `max_bytes` and `max_lines` starts, whichever limit
    /// is reached first (0 lines: any number). It is the start of a line if a whole line fits, else
    /// of a character.
    pub fn tail_start(
        &self,
        stream: Option<Stream>,
        max_bytes: usize,
        max_lines: usize,
    ) -> io::Result<u64> {
        let limits = TailLimits { bytes: max_bytes as u64, lines: max_lines };
        tail_start(&self.snapshot(), stream, limits)
    }

    /// The offset of a line's first byte; lines are counted from 1. `None` if no byte of the line
    /// has been written yet. If the line is in a hole, the start of the hole.
    pub fn offset_of_line(&self, line: u64) -> io::Result<Option<u64>> {
        let snapshot = self.snapshot();
        let Some(newlines) =
            line.checked_sub(1).filter(|before| *before <= snapshot.progress.lines)
        else {
            return Ok(None);
        };
        let offset = snapshot.offset_of_line_after(newlines)?;
        Ok(Some(offset).filter(|offset| *offset < snapshot.total_bytes()))
    }

    /// The number, counted from 1, of the line that contains the byte at `offset`. Inside a hole,
    /// the last line of the hole; past the end, the line of the next byte to come.
    pub fn line_at(&self, offset: u64) -> io::Result<u64> {
        self.snapshot().line_at(offset)
    }

    /// The chunks from `from` to `to`, which must have been published. Holes are skipped.
    pub(crate) fn chunks(&self, stream: Option<Stream>, from: u64, to: u64) -> LogChunks {
        LogChunks::new(&self.snapshot(), stream, from..to, Direction::Forward)
    }

    /// Reads the bytes of a range that has been published and has no hole.
    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.snapshot().read(range)
    }

    /// The first readable byte at or after `offset`, or the end of the log.
    pub(crate) fn next_readable(&self, offset: u64) -> u64 {
        self.snapshot().next_readable(offset)
    }

    /// The contiguous range around a range without holes: from the end of the last hole before
    /// `end` to the start of the first hole after `start`.
    pub(crate) fn contiguous_around(&self, range: Range<u64>) -> Range<u64> {
        let snapshot = self.snapshot();
        snapshot.contiguous_start(range.end)..snapshot.contiguous_end(range.start)
    }

    /// The first hole in a range, if there is one. For one stream, the range and the hole are in
    /// positions within the stream.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn first_hole(
        &self,
        stream: Option<Stream>,
        range: Range<u64>,
    ) -> io::Result<Option<Range<u64>>> {
        let snapshot = self.snapshot();
        match stream {
            None => Ok(snapshot.first_hole(range)),
            Some(stream) => first_stream_hole(&snapshot, stream, range),
        }
    }

    /// The number of bytes of the range that are not readable. None are missing past the end.
    #[must_use]
    pub fn missing_bytes(&self, range: Range<u64>) -> u64 {
        self.snapshot().missing_bytes(range)
    }

    /// Bytes that were lost in the range that a page covers.
    pub(crate) fn missing_bytes_between(&self, start: u64, end: u64, end_kind: PageEnd) -> u64 {
        match end_kind {
            // Bytes that were lost at the very end belong to the next page, unless there is none.
            PageEnd::Complete => self.log.lost_bytes_in(start..=end),
            PageEnd::More | PageEnd::CaughtUp => match end.checked_sub(1) {
                Some(last) if last >= start => self.log.lost_bytes_in(start..=last),
                Some(_) | None => 0,
            },
        }
    }
}

/// A range without holes, and the stream to read of it.
#[derive(Debug)]
struct ContiguousRange<'a> {
    snapshot: &'a LogSnapshot,
    stream: Option<Stream>,
    range: Range<u64>,
}

impl ContiguousRange<'_> {
    fn chunks(&self) -> LogChunks {
        LogChunks::new(self.snapshot, self.stream, self.range.clone(), Direction::Forward)
    }

    /// Reads at most `limit` bytes of the stream, from the start on.
    fn read_up_to(&self, limit: usize) -> io::Result<Vec<u8>> {
        let Range { start, end } = self.range;
        if self.stream.is_none() {
            return self.snapshot.read(start..start + (end - start).min(limit as u64));
        }
        let mut bytes = Vec::new();
        let mut chunks = self.chunks();
        while bytes.len() < limit
            && let Some((_, chunk)) = chunks.next()?
        {
            bytes.extend_from_slice(&chunk[..chunk.len().min(limit - bytes.len())]);
        }
        Ok(bytes)
    }

    /// The offset after the first `length` bytes of the stream.
    fn offset_after(&self, length: u64) -> io::Result<u64> {
        if self.stream.is_none() || length == 0 {
            return Ok(self.range.start + length);
        }
        let mut left = length;
        let mut chunks = self.chunks();
        while let Some((offset, chunk)) = chunks.next()? {
            if chunk.len() as u64 >= left {
                return Ok(offset + left);
            }
            left -= chunk.len() as u64;
        }
        Ok(self.range.end)
    }
}

// Positions within one stream count the bytes of that stream alone; offsets of a log count both.

/// The log's offset of the byte that has `position` bytes of its stream before it. If that byte is
/// missing, the offset at which the log continues; past the end of the stream, the end of the log.
/// Reads only the index.
pub fn log_offset(reader: &BlockingReader, stream: Stream, position: u64) -> io::Result<u64> {
    let snapshot = reader.snapshot();
    if snapshot.progress.bytes_of(Some(stream)) == snapshot.total_bytes() {
        return Ok(position.min(snapshot.total_bytes()));
    }
    let later =
        snapshot.extents.partition_point(|extent| extent.stream_bytes_before(stream) <= position);
    let (passed, later) = snapshot.extents.split_at(later);
    let resumes = later.first().map_or(snapshot.total_bytes(), |next| next.range.start);
    let Some(extent) = passed.last() else { return Ok(resumes) };
    let mut left = position - extent.stream_bytes_before(stream);
    let mut runs =
        LogChunks::new(&snapshot, Some(stream), extent.range.clone(), Direction::Forward);
    while let Some(run) = runs.next_range()? {
        let length = run.end - run.start;
        if left < length {
            return Ok(run.start + left);
        }
        left -= length;
    }
    Ok(resumes)
}

/// The number of bytes of a stream before an offset of the log. If the byte at the offset is
/// missing, the number before the next readable byte.
pub fn stream_offset(reader: &BlockingReader, stream: Stream, offset: u64) -> io::Result<u64> {
    let snapshot = reader.snapshot();
    let all = snapshot.progress.bytes_of(Some(stream));
    if all == snapshot.total_bytes() {
        return Ok(offset.min(all));
    }
    match snapshot.extent_from(offset) {
        None => Ok(all),
        Some(extent) => {
            let within = extent.range.start..offset.max(extent.range.start);
            Ok(extent.stream_bytes_before(stream) + count_stream_bytes(&snapshot, stream, within)?)
        }
    }
}

/// The first hole in a range of positions in a stream, if there is one.
fn first_stream_hole(
    snapshot: &LogSnapshot,
    stream: Stream,
    range: Range<u64>,
) -> io::Result<Option<Range<u64>>> {
    let all = snapshot.progress.bytes_of(Some(stream));
    let overlaps = |hole: &Range<u64>| hole.start.max(range.start) < hole.end.min(range.end);
    let mut end = 0;
    for (number, extent) in snapshot.extents.iter().enumerate() {
        let hole = end..extent.stream_bytes_before(stream);
        if overlaps(&hole) {
            return Ok(Some(hole));
        }
        // If the next extent is adjacent, its count tells how many bytes this extent has.
        end = match snapshot.extents.get(number + 1) {
            Some(next) if next.range.start == extent.range.end => next.stream_bytes_before(stream),
            Some(_) | None => {
                hole.end + count_stream_bytes(snapshot, stream, extent.range.clone())?
            }
        };
    }
    Ok(Some(end..all).filter(overlaps))
}

/// Counts the bytes of a stream in a range without holes.
fn count_stream_bytes(
    snapshot: &LogSnapshot,
    stream: Stream,
    range: Range<u64>,
) -> io::Result<u64> {
    let mut bytes = 0;
    let mut runs = LogChunks::new(snapshot, Some(stream), range, Direction::Forward);
    while let Some(run) = runs.next_range()? {
        bytes += run.end - run.start;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::{LogStorage, open_log};

    fn any_stream() -> impl Strategy<Value = Stream> {
        prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)]
    }

    proptest! {
        #[test]
        fn every_byte_of_a_stream_is_found_and_counted(
            writes in vec((any_stream(), 1_usize..9), 0..40),
            wanted in any_stream(),
        ) {
            let settings = LogStorage { memory_bytes: 1 << 16, spill_dir: std::env::temp_dir().into() };
            let (mut writer, reader) = open_log(&settings);
            let mut origin = Vec::new();
            for (stream, length) in writes {
                writer.append(stream, &vec![b'x'; length]);
                origin.extend(vec![stream; length]);
            }
            let total = origin.len() as u64;
            let places = (0..).zip(&origin).filter(|(_, stream)| **stream == wanted);
            let places: Vec<u64> = places.map(|(offset, _)| offset).collect();
            for (position, offset) in (0..).zip(&places) {
                prop_assert_eq!(log_offset(&reader.blocking(), wanted, position).unwrap(), *offset);
                prop_assert_eq!(stream_offset(&reader.blocking(), wanted, *offset).unwrap(), position);
            }
            let all = places.len() as u64;
            prop_assert_eq!(log_offset(&reader.blocking(), wanted, all + 3).unwrap(), total);
            prop_assert_eq!(stream_offset(&reader.blocking(), wanted, total + 3).unwrap(), all);
        }
    }
}

//! The writer side of a log.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memchr::memchr_iter;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::sleep;

use crate::Stream;
use crate::counters::{DropReason, SpillOperation, Tier};
use crate::durable_writer::{
    AppendFrom, DurableBytes, DurableWriter, PipeState, Spliced, StoredPrefix, WritePlace,
    drop_reason, pipe_state, push_bounded, write_prefix,
};
use crate::index::{GapKind, LogPosition, RECORD_BYTES, StreamRun};
use crate::positions::{PositionRecord, PositionWriter};
use crate::quota::TenantQuota;
use crate::reader::LogReader;
use crate::segment::{LogSegment, SegmentStore};
use crate::server_dir::LogName;
use crate::shared_log::{KeepOutput, LogContent, LogProgress, PublishedProgress, SharedLog};
use crate::spill::{SpillDir, SpillFile};

/// The largest block that is stored at once.
const WRITE_BYTES: usize = 1024 * 1024;

/// The interval between two attempts to store bytes that only memory holds.
const STORE_INTERVAL: Duration = Duration::from_millis(500);

/// The storage of a log.
#[derive(Debug, Clone)]
pub struct LogStorage {
    /// The most bytes of each segment that stay in memory.
    pub memory_bytes: usize,
    /// The directory for the spill files: one for each segment that outgrows memory, and one for
    /// its index if that grows too large. It is created (mode 0700) if it is missing.
    pub spill_dir: SpillDir,
}

/// The limits of a log: its kept part and its quota.
#[derive(Debug, Clone)]
pub struct LogBounds {
    /// The part of the log that is kept.
    pub keep: KeepOutput,
    /// The quota that the log's bytes are charged to.
    pub quota: TenantQuota,
}

/// Opens an empty log without limits: one writer, and a reader that may be cloned freely.
#[must_use]
pub fn open_log(settings: &LogStorage) -> (LogWriter, LogReader) {
    open_bounded_log(settings, LogBounds { keep: KeepOutput::All, quota: TenantQuota::unlimited() })
}

/// Opens an empty log: one writer, and a reader that may be cloned freely.
#[must_use]
pub fn open_bounded_log(settings: &LogStorage, bounds: LogBounds) -> (LogWriter, LogReader) {
    let store = SegmentStore::Memory(Vec::new());
    let charge = bounds.quota.open_charge();
    let segment = Arc::new(LogSegment::new(LogPosition::default(), store, charge));
    let content = LogContent::new(segment);
    LogWriter::open(settings, bounds, content, LogProgress::default(), None)
}

/// Opens an empty durable log: from the first byte on, files with this name hold its bytes, and the
/// next server can open it again. The spill directory must be a durable one.
#[must_use]
pub fn open_durable_log(
    settings: &LogStorage,
    bounds: LogBounds,
    name: LogName,
) -> (LogWriter, LogReader) {
    let charge = bounds.quota.open_charge();
    let segment =
        LogSegment::new(LogPosition::default(), SegmentStore::Durable(DurableBytes::new()), charge);
    let content = LogContent::new(Arc::new(segment));
    let note = settings.spill_dir.unstored_note(&name);
    let durable = DurableWriter::new(name, PositionWriter::new(), note);
    LogWriter::open(settings, bounds, content, LogProgress::default(), Some(durable))
}

/// The only writer of a log. Dropping it closes the log.
#[derive(Debug)]
pub struct LogWriter {
    log: Arc<SharedLog>,
    /// The last segment, which grows.
    segment: Arc<LogSegment>,
    settings: LogStorage,
    bounds: LogBounds,
    opened: Instant,
    /// The current progress. It is ahead of the published progress only inside `append` and
    /// `close`.
    now: LogProgress,
    published: watch::Sender<LogProgress>,
    /// The time from which on the next write is marked.
    next_mark: Option<Instant>,
    durable: Option<Box<DurableWriter>>,
}

impl LogWriter {
    pub(crate) fn open(
        settings: &LogStorage,
        bounds: LogBounds,
        content: LogContent,
        now: LogProgress,
        durable: Option<DurableWriter>,
    ) -> (Self, LogReader) {
        let segment = Arc::clone(content.last());
        let (published, progress) = watch::channel(now);
        let progress = PublishedProgress::Open(progress);
        let spill_dir = settings.spill_dir.clone();
        let log = Arc::new(SharedLog::new(content, progress, bounds.quota.clone(), spill_dir));
        let writer = Self {
            log: Arc::clone(&log),
            segment,
            settings: settings.clone(),
            bounds,
            opened: Instant::now(),
            now,
            published,
            next_mark: None,
            durable: durable.map(Box::new),
        };
        (writer, LogReader::new(log))
    }

    /// Appends bytes to the log and wakes its readers.
    ///
    /// Never fails: bytes that cannot be kept are counted in [`LogProgress::dropped_bytes`], and
    /// the next write tries again. Returns the progress after the write. Blocks while the disk
    /// does.
    pub fn append(&mut self, stream: Stream, bytes: &[u8]) -> LogProgress {
        if bytes.is_empty() {
            return self.now;
        }
        let before = self.now.total_bytes;
        let taken = if self.now.closed {
            StoredPrefix::partial(0, DropReason::IoError)
        } else {
            self.store_bytes(stream, bytes)
        };
        self.note_output_time(before);
        if let Some(why) = taken.lost {
            self.record_loss((bytes.len() - taken.bytes) as u64, why);
        }
        // Published last: a reader that sees this progress can read all bytes that it counts.
        self.publish();
        self.now
    }

    /// Records that the bytes from `offset` on were written now.
    fn note_output_time(&mut self, offset: u64) {
        let now = Instant::now();
        let previous = self.now.last_output.replace(now);
        if self.next_mark.is_some_and(|next| next > now) {
            return;
        }
        let mut times = self.log.write_times();
        let times = times.get_or_insert_default();
        let earlier = times.newest_start();
        self.next_mark = Some(times.mark(now, offset, previous));
        // Kept for the next server; it is written with the next bytes.
        if times.newest_start() != earlier
            && let (Some(durable), Some(earlier)) = (&mut self.durable, earlier)
        {
            durable.positions.push_time(offset, now, (earlier, previous.unwrap_or(now)));
        }
    }

    /// `true` if the next bytes go to a file: because earlier bytes did, or because the log is
    /// durable and the disk answers.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        match &self.segment.lock().store {
            SegmentStore::Memory(_) => false,
            store @ SegmentStore::Durable(_) => !self.can_defer(store, 1),
            SegmentStore::Spilled(_) | SegmentStore::Compressed(_) => true,
        }
    }

    fn can_defer(&self, store: &SegmentStore, bytes: usize) -> bool {
        store.can_defer(bytes, self.settings.memory_bytes, self.settings.spill_dir.disk())
    }

    /// `true` if this many bytes can be appended without a file.
    #[must_use]
    pub fn fits_memory(&self, bytes: usize) -> bool {
        let inner = self.segment.lock();
        let end = self.bounds.keep.segment_end(self.segment.start.offset);
        let fits_part = end.saturating_sub(self.now.total_bytes) >= bytes as u64;
        let fits = match &inner.store {
            SegmentStore::Memory(memory) => memory.len() + bytes <= self.settings.memory_bytes,
            store @ SegmentStore::Durable(_) => self.can_defer(store, bytes),
            SegmentStore::Spilled(_) | SegmentStore::Compressed(_) => false,
        };
        fits && fits_part && !inner.has_overdue_runs()
    }

    /// Waits while it is not clear whether the disk of a durable log is stuck.
    pub async fn wait_for_disk(&self) {
        if self.durable.is_some() {
            self.settings.spill_dir.disk().wait_until_known().await;
        }
    }

    /// `true` if only memory holds some bytes of a durable log whose files are still wanted.
    #[must_use]
    pub fn has_unstored(&self) -> bool {
        self.durable.is_some() && !self.log.is_unwanted() && self.log.has_unstored()
    }

    /// Waits until it is time to store the bytes that only memory holds.
    pub async fn wait_to_store(&self) {
        sleep(STORE_INTERVAL).await;
        self.settings.spill_dir.disk().wait_until_it_answers().await;
    }

    /// Stores the bytes that only memory holds. If the disk does not take them, memory keeps them.
    /// Blocks while the disk does.
    pub fn store_rest(&mut self) {
        if let Some((durable, place)) = self.split_durable() {
            durable.store_rest(&place);
        }
        if self.now.closed {
            self.end_files();
        }
    }

    /// Ends the writing of the files of a closed log, unless only memory holds some bytes.
    fn end_files(&self) {
        self.segment.shrink_if_stored();
        self.durable.iter().for_each(|durable| durable.end_positions(&self.log));
    }

    /// Waits for a permit to write to the disk. The permits bound the number of threads that wait
    /// for a disk that does not answer, however many logs are written.
    pub async fn disk_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.settings.spill_dir.write_permit().await
    }

    /// `true` if a quota is nearly used up and waiting for room may help.
    #[must_use]
    pub fn should_wait_for_room(&self) -> bool {
        self.bounds.quota.should_wait_for_room()
    }

    /// Asks for room. Waits until some was freed or none can be, for at most a second.
    pub async fn wait_for_room(&self) {
        self.bounds.quota.wait_for_room().await;
    }

    /// `true` once the log is closed.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.now.closed
    }

    /// Closes the log: no byte will follow. Dropping the writer does the same.
    pub fn close(&mut self) {
        if self.now.closed {
            return;
        }
        self.end_files();
        self.now.closed = true;
        self.publish();
        self.log.write_times().take_if(|times| times.is_short());
        if self.durable.is_some() {
            self.log.keep_memory(&self.settings.spill_dir);
        }
    }

    fn publish(&self) {
        self.published.send_replace(self.now);
        if self.now.closed {
            self.log.close(self.now);
        }
    }

    /// Notes, for the next server, that up to `bytes` were or are being taken from the job and are not
    /// in the log yet, beside those in the log that only memory holds. Call it before bytes are taken,
    /// and again once they are in the log. If this server is killed meanwhile, the log has a gap.
    pub fn note_unstored(&mut self, bytes: u64) {
        if let Some(durable) = &mut self.durable {
            durable.note_unstored(bytes + self.log.unstored_bytes());
        }
    }

    /// Records the bytes that the last server noted and may not have stored.
    pub(crate) fn record_noted_loss(&mut self) {
        if let Some(durable) = &mut self.durable {
            let lost = durable.take_lost_bytes();
            self.mark_crash_gap(lost);
            self.note_unstored(0);
        }
    }

    /// Records that the last server crashed here, and may have read up to this many bytes without
    /// storing them.
    pub fn mark_crash_gap(&mut self, max_bytes: u64) -> LogProgress {
        if max_bytes > 0 && !self.now.closed {
            self.record_loss(max_bytes, DropReason::ServerCrash);
            self.publish();
        }
        self.now
    }

    fn record_loss(&mut self, bytes: u64, why: DropReason) {
        // The next bytes do not belong to the line before the gap.
        let ended = self.now.lines + u64::from(self.now.open_line);
        let at = LogPosition { lines: ended, ..self.end() };
        if self.log.record_loss(at, bytes, why) == GapKind::New {
            (self.now.lines, self.now.open_line) = (ended, false);
            self.segment.end_line(at);
        }
        self.now.dropped_bytes += bytes;
        self.now.dropped_at_most |= why == DropReason::ServerCrash;
        self.now.dropped_why = Some(why);
        self.bounds.quota.counters().add_dropped(why, bytes);
        if let Some((durable, place)) = self.split_durable() {
            durable.positions.push_gap(at, bytes, why);
            // If this fails, the record is written before the next bytes.
            durable.write_positions(&place).ok();
        }
    }

    /// Keeps as many of the bytes as possible, from the first on.
    fn store_bytes(&mut self, stream: Stream, bytes: &[u8]) -> StoredPrefix {
        let mut kept = 0;
        while kept < bytes.len() {
            let rest = &bytes[kept..];
            // Split into blocks, so that one huge write cannot add more runs than memory may hold.
            let block = &rest[..rest.len().min(WRITE_BYTES).min(self.room_in_segment())];
            let taken = self.store_block(stream, block);
            kept += taken.bytes;
            if taken.lost.is_some() {
                return StoredPrefix { bytes: kept, ..taken };
            }
        }
        StoredPrefix::all(kept)
    }

    /// The number of bytes that the segment can still take. Starts a new segment if this one is
    /// full.
    fn room_in_segment(&mut self) -> usize {
        let end = self.bounds.keep.segment_end(self.segment.start.offset);
        if self.now.total_bytes >= end {
            self.start_segment();
            return self.room_in_segment();
        }
        usize::try_from(end - self.now.total_bytes).unwrap_or(usize::MAX)
    }

    fn start_segment(&mut self) {
        self.segment.shrink_if_stored();
        let start = self.end();
        let store = match &mut self.durable {
            None => SegmentStore::Memory(Vec::new()),
            Some(durable) => {
                durable.positions.push(PositionRecord::Segment(start));
                SegmentStore::Durable(DurableBytes::new())
            }
        };
        let charge = self.bounds.quota.open_charge();
        self.segment = Arc::new(LogSegment::new(start, store, charge));
        if let Some(durable) = &self.durable {
            self.segment.lock().positions = durable.positions.file.clone();
        }
        let left = self.log.push_segment(Arc::clone(&self.segment));
        if let Some(segment) = left {
            self.now.removed_bytes += segment.span();
            segment.remove_file();
        }
        // Published here too, so that the published end is never before the start of the segments
        // that are left.
        self.publish();
    }

    fn store_block(&mut self, stream: Stream, block: &[u8]) -> StoredPrefix {
        // Without room for their runs, bytes could not be told apart by stream or found by line.
        if let Err(why) = self.move_runs() {
            return StoredPrefix::partial(0, why);
        }
        let taken = match self.split_durable() {
            None => self.store_prefix(block),
            Some((durable, place)) => durable.store(&place, stream, block),
        };
        self.index_bytes(stream, &block[..taken.bytes]);
        taken
    }

    /// Moves runs from memory to their file if there are too many.
    fn move_runs(&self) -> Result<(), DropReason> {
        let (stored, runs) = {
            let mut inner = self.segment.lock();
            let index = inner.index_mut();
            let Some(overdue) = index.overdue() else { return Ok(()) };
            (index.stored.clone(), overdue.to_vec())
        };
        let bytes = runs.len() * RECORD_BYTES;
        self.segment.take_room(bytes)?;
        let stored = stored.append(&runs, || self.settings.spill_dir.create_file());
        let stored = stored.map_err(|error| {
            self.segment.lock().charge.put_back(Tier::Disk, bytes as u64);
            drop_reason(&error)
        })?;
        self.segment.lock().index_mut().forget_moved(runs.len(), stored);
        Ok(())
    }

    /// Stores the bytes, as far as the quota and the store take them.
    fn store_prefix(&self, bytes: &[u8]) -> StoredPrefix {
        let limit = self.settings.memory_bytes;
        let (room, lost, file) = {
            let mut inner = self.segment.lock();
            let tier = inner.store.tier();
            let (room, lost) = inner.charge.take(tier, bytes.len());
            match &mut inner.store {
                SegmentStore::Memory(memory) if memory.len() + room <= limit => {
                    push_bounded(memory, &bytes[..room], limit);
                    return StoredPrefix { bytes: room, lost };
                }
                SegmentStore::Memory(_) => (room, lost, None),
                SegmentStore::Spilled(file) => (room, lost, Some(Arc::clone(file))),
                // Only closed logs are compressed, and durable logs are written elsewhere.
                SegmentStore::Durable(_) | SegmentStore::Compressed(_) => (0, lost, None),
            }
        };
        let bytes = &bytes[..room];
        let taken = match file {
            Some(file) => self.write(&file, bytes),
            None => self.spill(bytes),
        };
        if taken.bytes < room {
            let mut inner = self.segment.lock();
            let tier = inner.store.tier();
            inner.charge.put_back(tier, (room - taken.bytes) as u64);
        }
        StoredPrefix { bytes: taken.bytes, lost: taken.lost.or(lost) }
    }

    fn write(&self, file: &SpillFile, bytes: &[u8]) -> StoredPrefix {
        let position = self.segment.position(self.now.total_bytes);
        let opened = file.open().and_then(|file| {
            // A write past the end of a truncated file would hide the truncation.
            if file.metadata()?.len() < position {
                self.segment.detect_file_cut()?;
            }
            Ok(file)
        });
        match opened {
            Ok(file) => write_prefix(&file, bytes, position, self.settings.spill_dir.counters()),
            Err(error) => StoredPrefix::partial(0, drop_reason(&error)),
        }
    }

    /// Moves the bytes in memory to a file and appends the new bytes there. If no file can be
    /// created, memory takes as many bytes as it may.
    fn spill(&self, bytes: &[u8]) -> StoredPrefix {
        let file = self.spill_file();
        let mut inner = self.segment.lock();
        let SegmentStore::Memory(memory) = &mut inner.store else {
            return StoredPrefix::partial(0, DropReason::IoError);
        };
        match file {
            Ok(file) => {
                let file = Arc::new(file);
                let moved = (memory.len() + bytes.len()) as u64;
                inner.store = SegmentStore::Spilled(Arc::clone(&file));
                inner.charge.shift(Tier::Memory, Tier::Disk, moved);
                drop(inner);
                self.write(&file, bytes)
            }
            Err(error) => {
                let room = self.settings.memory_bytes - memory.len();
                push_bounded(memory, &bytes[..room], self.settings.memory_bytes);
                StoredPrefix::partial(room, drop_reason(&error))
            }
        }
    }

    /// Creates a file with all bytes that are in memory.
    fn spill_file(&self) -> io::Result<SpillFile> {
        // Copied, so that readers need not wait for the disk. Nobody else appends meanwhile.
        let bytes = match &self.segment.lock().store {
            SegmentStore::Memory(memory) => memory.clone(),
            SegmentStore::Spilled(_) | SegmentStore::Durable(_) | SegmentStore::Compressed(_) => {
                Vec::new()
            }
        };
        let file = self.settings.spill_dir.create_file()?;
        let written = file.open()?.write_all_at(&bytes, 0);
        self.settings.spill_dir.counters().checked(SpillOperation::Write, written)?;
        Ok(file)
    }

    /// Adds stored bytes to the index and to the progress.
    fn index_bytes(&mut self, stream: Stream, mut bytes: &[u8]) {
        let time = self.opened.elapsed().as_micros() as u64;
        let mut inner = self.segment.lock();
        while let Some(last) = bytes.last() {
            let room = inner.index_mut().room_for(stream);
            let (run, rest) = bytes.split_at(bytes.len().min(room));
            let offset = self.now.total_bytes;
            let line = self.now.lines;
            inner.index_mut().add(StreamRun {
                offset,
                line,
                time,
                length: run.len() as u32,
                stream,
            });
            self.now.total_bytes += run.len() as u64;
            self.now.lines += memchr_iter(b'\n', run).count() as u64;
            self.now.open_line = *last != b'\n';
            if stream == Stream::Stderr {
                self.now.stderr_bytes += run.len() as u64;
            }
            bytes = rest;
        }
        inner.end = self.end();
    }

    /// Moves bytes from a pipe to the file of a durable log, at most `max` and at most the capacity
    /// of the block, without waiting. Every byte is in the pipe or in the file at any time, so that
    /// a crash loses none. Leaves the bytes in the block. Blocks while the disk does.
    ///
    /// # Errors
    /// `WouldBlock` if the pipe is empty.
    pub fn append_from(
        &mut self,
        stream: Stream,
        pipe: BorrowedFd<'_>,
        max: usize,
        block: &mut Vec<u8>,
    ) -> io::Result<AppendFrom> {
        block.clear();
        if self.now.closed || !self.durable.as_ref().is_some_and(|durable| durable.can_splice) {
            return Ok(AppendFrom::ReadInstead);
        }
        let available = match pipe_state(pipe)? {
            PipeState::Bytes(available) => available,
            PipeState::Ended => return Ok(AppendFrom::End),
            PipeState::NotAPipe => return Ok(AppendFrom::ReadInstead),
        };
        let wanted = available.min(max).min(block.capacity()).min(self.room_in_segment());
        if wanted == 0 || self.move_runs().is_err() {
            return Ok(AppendFrom::ReadInstead);
        }
        let before = self.now.total_bytes;
        let Some((durable, place)) = self.split_durable() else {
            return Ok(AppendFrom::ReadInstead);
        };
        let _operation = place.dir.disk().begin();
        let bytes = match durable.splice(&place, stream, pipe, wanted, block)? {
            Spliced::NotPossible => return Ok(AppendFrom::ReadInstead),
            Spliced::Stored if block.is_empty() => return Ok(AppendFrom::End),
            Spliced::Stored => {
                self.index_bytes(stream, block);
                block.len()
            }
            Spliced::Unreadable(bytes) => {
                self.record_loss(bytes as u64, DropReason::IoError);
                bytes
            }
        };
        self.note_output_time(before);
        self.publish();
        Ok(AppendFrom::Moved { bytes, progress: self.now })
    }

    /// The writer of the files, and the place of the next byte, if the log is durable.
    fn split_durable(&mut self) -> Option<(&mut DurableWriter, WritePlace<'_>)> {
        let place = WritePlace {
            log: &self.log,
            segment: &self.segment,
            offset: self.now.total_bytes,
            dir: &self.settings.spill_dir,
            memory_bytes: self.settings.memory_bytes,
        };
        self.durable.as_deref_mut().map(|durable| (durable, place))
    }

    const fn end(&self) -> LogPosition {
        let LogProgress { total_bytes: offset, lines, stderr_bytes, .. } = self.now;
        LogPosition { offset, lines, stderr_bytes }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    //! Whole logs against a simple model of what they should hold.

    use std::sync::Arc;
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use crate::Stream;
    use crate::index::RUNS_IN_MEMORY;
    use crate::*;

    type Write = (Stream, Vec<u8>);

    fn settings(memory_bytes: usize) -> (LogStorage, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let spill_dir = dir.path().join("spill");
        (LogStorage { memory_bytes, spill_dir: spill_dir.into() }, dir)
    }

    fn any_stream() -> impl Strategy<Value = Stream> {
        prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)]
    }

    /// Text with newlines and wide characters, and bytes that are no text at all.
    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            3 => "[a-c\n€😀]{0,12}".prop_map(String::into_bytes),
            1 => vec(prop_oneof![Just(b'\n'), Just(0), Just(0xff), Just(0xe2), any::<u8>()], 0..12),
        ]
    }

    fn any_writes() -> impl Strategy<Value = Vec<Write>> {
        vec((any_stream(), any_bytes()), 0..40)
    }

    fn any_limits() -> impl Strategy<Value = (usize, usize)> {
        (0..40_usize, 0..5_usize)
    }

    /// The expected bytes for a reader of `stream`, from `from` on.
    fn expected(writes: &[Write], stream: Option<Stream>, from: usize) -> Vec<u8> {
        let each = writes.iter().flat_map(|(of, bytes)| bytes.iter().map(move |byte| (*of, *byte)));
        let wanted = each.skip(from).filter(|(of, _)| stream.is_none_or(|stream| stream == *of));
        wanted.map(|(_, byte)| byte).collect()
    }

    fn request(from: u64, stream: Option<Stream>, limits: (usize, usize)) -> PageRequest {
        PageRequest { from, to: u64::MAX, stream, max_bytes: limits.0, max_lines: limits.1 }
    }

    /// Reads pages from `from` until nothing more can be read at once. Returns the bytes and the
    /// last page's end.
    fn read_on(
        reader: &LogReader,
        from: u64,
        stream: Option<Stream>,
        limits: (usize, usize),
    ) -> (Vec<u8>, u64, PageEnd) {
        let mut bytes = Vec::new();
        let mut at = from;
        loop {
            let page = reader.blocking().read_page(&request(at, stream, limits)).unwrap();
            assert_eq!(page.start, at);
            assert!(page.bytes.len() <= limits.0.max(4));
            let lines = page.bytes.iter().filter(|byte| **byte == b'\n').count();
            assert!(limits.1 == 0 || lines <= limits.1);
            bytes.extend_from_slice(&page.bytes);
            if page.end_kind != PageEnd::More {
                return (bytes, page.end, page.end_kind);
            }
            assert!(page.end > at && !page.bytes.is_empty(), "no progress at {at}");
            at = page.end;
        }
    }

    fn line_starts(all: &[u8]) -> Vec<usize> {
        let after_newlines = all.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let starts = std::iter::once(0).chain(after_newlines.map(|(newline, _)| newline + 1));
        starts.filter(|start| *start < all.len()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        #[test]
        fn every_byte_comes_back_whatever_the_writes_and_the_pages(
            writes in any_writes(),
            memory_bytes in prop_oneof![Just(0_usize), 1..60_usize, Just(100_000)],
            stream in proptest::option::of(any_stream()),
            limits in any_limits(),
            from in 0..100_usize,
        ) {
            let (settings, _dir) = settings(memory_bytes);
            let (mut writer, reader) = open_log(&settings);
            // One reader follows the writes, one reads everything at the end.
            let mut followed = Vec::new();
            let mut at = 0;
            for (stream_of_write, bytes) in &writes {
                writer.append(*stream_of_write, bytes);
                let (bytes, end, kind) = read_on(&reader, at, stream, limits);
                prop_assert_eq!(kind, PageEnd::CaughtUp);
                followed.extend(bytes);
                at = end;
            }
            writer.close();
            let (rest, end, kind) = read_on(&reader, at, stream, limits);
            followed.extend(rest);
            prop_assert_eq!(kind, PageEnd::Complete);
            prop_assert_eq!(end, reader.progress().total_bytes);
            prop_assert_eq!(followed, expected(&writes, stream, 0));
            let (later, ..) = read_on(&reader, from as u64, stream, limits);
            prop_assert_eq!(later, expected(&writes, stream, from));
        }

        #[test]
        fn seeks_and_counts_agree_with_a_naive_model(writes in any_writes(), memory_bytes in 0..200_usize) {
            let (settings, _dir) = settings(memory_bytes);
            let (mut writer, reader) = open_log(&settings);
            for (stream, bytes) in &writes {
                writer.append(*stream, bytes);
            }
            let all = expected(&writes, None, 0);
            let starts = line_starts(&all);
            let progress = reader.progress();
            let newlines = all.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(progress.total_bytes, all.len() as u64);
            prop_assert_eq!(progress.lines, newlines as u64);
            prop_assert_eq!(progress.open_line, all.last().is_some_and(|byte| *byte != b'\n'));
            prop_assert_eq!(progress.stderr_bytes, expected(&writes, Some(Stream::Stderr), 0).len() as u64);
            for line in 0..starts.len() + 3 {
                let expected = line.checked_sub(1).and_then(|index| starts.get(index));
                let found = reader.blocking().offset_of_line(line as u64).unwrap();
                prop_assert_eq!(found, expected.map(|offset| *offset as u64), "line {}", line);
            }
            for offset in 0..all.len() + 2 {
                let before = all[..offset.min(all.len())].iter().filter(|byte| **byte == b'\n').count();
                prop_assert_eq!(reader.blocking().line_at(offset as u64).unwrap(), before as u64 + 1);
            }
        }

        #[test]
        fn the_tail_is_the_most_whole_lines_that_fit(
            writes in any_writes(),
            memory_bytes in 0..200_usize,
            stream in proptest::option::of(any_stream()),
            limits in any_limits(),
        ) {
            let (settings, _dir) = settings(memory_bytes);
            let (mut writer, reader) = open_log(&settings);
            for (stream, bytes) in &writes {
                writer.append(*stream, bytes);
            }
            writer.close();
            let start = reader.blocking().tail_start(stream, limits.0, limits.1).unwrap();
            let tail = expected(&writes, stream, start as usize);
            let all = expected(&writes, stream, 0);
            let fits = |from: &usize| {
                all.len() - from <= limits.0
                    && (limits.1 == 0 || line_starts(&all[*from..]).len() <= limits.1)
            };
            match line_starts(&all).into_iter().find(fits) {
                Some(from) => prop_assert_eq!(tail, &all[from..]),
                // No whole line fits: the result is a part of the last line, without a split
                // character.
                None => {
                    prop_assert!(all.ends_with(&tail) && tail.len() <= limits.0);
                    prop_assert!(tail.len() + 3 >= limits.0.min(all.len()));
                }
            }
        }
    }

    #[test]
    fn a_page_past_the_end_is_empty_at_the_requested_offset() {
        let (settings, _dir) = settings(100);
        let (mut writer, reader) = open_log(&settings);
        writer.append(Stream::Stdout, b"abc");
        for stream in [None, Some(Stream::Stdout)] {
            let page = reader.blocking().read_page(&request(u64::MAX, stream, (10, 0))).unwrap();
            assert_eq!(
                (page.start, page.end, page.end_kind),
                (u64::MAX, u64::MAX, PageEnd::CaughtUp)
            );
        }
        writer.close();
        let page = reader.blocking().read_page(&request(99, None, (10, 0))).unwrap();
        assert_eq!((page.bytes.len(), page.end, page.end_kind), (0, 99, PageEnd::Complete));
    }

    #[test]
    fn a_stream_that_wrote_nothing_ends_with_the_log() {
        let (settings, _dir) = settings(0);
        let (mut writer, reader) = open_log(&settings);
        writer.append(Stream::Stdout, &[b'x'; 300_000]);
        let page = reader.blocking().read_page(&request(0, Some(Stream::Stderr), (10, 0))).unwrap();
        assert_eq!((page.bytes.len(), page.end, page.end_kind), (0, 300_000, PageEnd::CaughtUp));
    }

    #[test]
    fn a_cursor_taken_before_the_spill_reads_the_same_bytes_after() {
        let (settings, _dir) = settings(64 * 1024);
        let (mut writer, reader) = open_log(&settings);
        writer.append(Stream::Stdout, b"first\nsecond\n");
        let before = reader.blocking().read_page(&request(6, None, (7, 0))).unwrap();
        writer.append(Stream::Stderr, &vec![b'x'; 200_000]);
        assert_eq!(memory_of(&reader).0, 0, "spilled");
        writer.close();
        let after = reader.blocking().read_page(&request(6, None, (7, 0))).unwrap();
        assert_eq!(before.bytes, b"second\n");
        assert_eq!(before.bytes, after.bytes);
    }

    #[test]
    fn bytes_that_the_disk_refuses_are_counted_and_later_writes_are_kept() {
        let (settings, dir) = settings(8);
        // A file in the place of the directory: no spill file can be created.
        std::fs::write(settings.spill_dir.root(), b"").unwrap();
        let (mut writer, reader) = open_log(&settings);
        assert_eq!(writer.append(Stream::Stdout, b"0123").dropped_bytes, 0);
        let progress = writer.append(Stream::Stdout, b"456789");
        assert_eq!((progress.total_bytes, progress.dropped_bytes), (8, 2));
        assert_eq!(writer.append(Stream::Stderr, b"lost").dropped_bytes, 6);
        std::fs::remove_file(dir.path().join("spill")).unwrap();
        assert_eq!(writer.append(Stream::Stderr, b"kept").dropped_bytes, 6);
        writer.close();
        let page = reader.blocking().read_page(&request(0, None, (100, 0))).unwrap();
        assert_eq!((page.bytes.as_slice(), page.gap_bytes), (b"01234567".as_slice(), 0));
        assert_eq!(
            (page.end, page.end_kind),
            (8, PageEnd::More),
            "a page ends where bytes were lost"
        );
        let page = reader.blocking().read_page(&request(8, None, (100, 0))).unwrap();
        assert_eq!((page.bytes.as_slice(), page.gap_bytes), (b"kept".as_slice(), 6));
        assert_eq!(page.end_kind, PageEnd::Complete);
    }

    #[test]
    fn nothing_is_added_after_the_close() {
        let (settings, _dir) = settings(100);
        let (mut writer, reader) = open_log(&settings);
        writer.append(Stream::Stdout, b"a");
        writer.close();
        let progress = writer.append(Stream::Stdout, b"bc");
        assert_eq!((progress.total_bytes, progress.dropped_bytes, progress.closed), (1, 2, true));
        assert_eq!(reader.progress(), progress);
    }

    /// Bytes of content and of index that a log holds in memory.
    fn memory_of(reader: &LogReader) -> (usize, usize) {
        let of_part = |part: &Arc<segment::LogSegment>| {
            let mut inner = part.lock();
            let store = match &inner.store {
                segment::SegmentStore::Memory(memory) => memory.capacity(),
                segment::SegmentStore::Spilled(_)
                | segment::SegmentStore::Durable(_)
                | segment::SegmentStore::Compressed(_) => 0,
            };
            (store, inner.index_mut().memory_bytes())
        };
        let parts = reader.log.segments();
        parts.iter().map(of_part).fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    }

    #[test]
    fn memory_is_bounded_for_endless_lines_and_alternating_streams() {
        const BOUND: usize = 2 * RUNS_IN_MEMORY * size_of::<index::StreamRun>();
        let (settings, _dir) = settings(4096);
        let (mut writer, reader) = open_log(&settings);
        for _ in 0..20_000 {
            writer.append(Stream::Stdout, b"o");
            writer.append(Stream::Stderr, b"e");
            let (store, index) = memory_of(&reader);
            assert!(store <= 4096 && index <= BOUND, "{store} {index}");
        }
        let (out, ..) = read_on(&reader, 0, Some(Stream::Stdout), (1000, 0));
        assert_eq!(out, [b'o'; 20_000]);
        assert_eq!(reader.blocking().tail_start(Some(Stream::Stderr), 15_000, 0).unwrap(), 10_001);
        writer.append(Stream::Stdout, &vec![b'x'; 80 * 1024 * 1024]);
        let (store, index) = memory_of(&reader);
        assert!(store == 0 && index <= BOUND, "{store} {index}");
        assert_eq!(reader.blocking().line_at(80_000_000).unwrap(), 1);
    }

    #[test]
    fn seeks_work_with_an_index_in_a_file() {
        let (settings, _dir) = settings(0);
        let (mut writer, reader) = open_log(&settings);
        let mut starts = Vec::new();
        for number in 0..4 * RUNS_IN_MEMORY {
            let stream = if number % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
            starts.push(reader.progress().total_bytes);
            writer.append(stream, format!("{number}\n").as_bytes());
        }
        for (index, start) in starts.iter().enumerate() {
            let line = index as u64 + 1;
            assert_eq!(reader.blocking().offset_of_line(line).unwrap(), Some(*start));
            assert_eq!(reader.blocking().line_at(*start).unwrap(), line);
        }
        let page = reader
            .blocking()
            .read_page(&request(starts[100], Some(Stream::Stderr), (8, 0)))
            .unwrap();
        assert_eq!((page.bytes.as_slice(), page.end), (b"101\n103\n".as_slice(), starts[104]));
    }

    #[test]
    fn an_empty_log_is_small() {
        let (settings, _dir) = settings(64 * 1024);
        let (_writer, reader) = open_log(&settings);
        assert_eq!(memory_of(&reader), (0, 0));
        assert!(size_of::<segment::LogSegment>() + size_of::<LogWriter>() < 512);
    }

    #[test]
    fn a_spill_directory_is_only_created_when_it_is_needed() {
        let (settings, _dir) = settings(10);
        let (mut writer, _reader) = open_log(&settings);
        writer.append(Stream::Stdout, b"0123456789");
        assert!(!settings.spill_dir.root().exists());
        writer.append(Stream::Stdout, b"!");
        assert!(settings.spill_dir.root().exists());
    }

    /// Follows a log to its end as a client would: a page, then a wait for more.
    async fn follow(reader: LogReader, stream: Option<Stream>, max_bytes: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut at = 0;
        loop {
            let page = reader.blocking().read_page(&request(at, stream, (max_bytes, 0))).unwrap();
            bytes.extend_from_slice(&page.bytes);
            at = page.end;
            match page.end_kind {
                PageEnd::More => {}
                PageEnd::CaughtUp => reader.wait_past(page.total_bytes).await,
                PageEnd::Complete => return bytes,
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn readers_of_a_log_that_is_being_written_get_every_byte_and_never_hang() {
        for round in 0..20 {
            let (settings, _dir) = settings(1000);
            let (mut writer, reader) = open_log(&settings);
            let readers = [(None, 7), (None, 5000), (Some(Stream::Stderr), 100)]
                .map(|(stream, size)| (stream, tokio::spawn(follow(reader.clone(), stream, size))));
            let streams = [Stream::Stderr, Stream::Stdout, Stream::Stdout].into_iter().cycle();
            let texts = (0..500).map(|number| format!("€{number}\n").repeat(round % 4 + 1));
            let writes: Vec<Write> = streams.zip(texts.map(String::into_bytes)).collect();
            let written = writes.clone();
            let writing = tokio::task::spawn_blocking(move || {
                writes.iter().map(|(stream, bytes)| writer.append(*stream, bytes)).last()
            });
            for (stream, following) in readers {
                let read = tokio::time::timeout(Duration::from_secs(60), following).await;
                assert!(read.expect("no hang").unwrap() == expected(&written, stream, 0));
            }
            writing.await.unwrap();
        }
    }
}

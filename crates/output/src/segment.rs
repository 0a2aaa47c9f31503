//! One segment of a log, shared by its writer and all readers: the store and the index, behind one
//! lock. Most logs have one segment.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memchr::memchr_iter;

use crate::compression::{CompressedLog, UncompressedLog};
use crate::counters::{DropReason, SpillOperation, Tier};
use crate::durable_writer::DurableBytes;
use crate::index::{FileCut, LogPosition, NumberedRun, RunIndex, Stream, StreamRun};
use crate::positions::{ScanRange, scan_segment};
use crate::quota::QuotaCharge;
use crate::server_dir::DiskWatch;
use crate::spill::{SpillDir, SpillFile};

/// A contiguous range of a segment's bytes that can be read.
#[derive(Debug, Clone)]
pub(crate) struct LogExtent {
    pub(crate) segment: Arc<LogSegment>,
    pub(crate) range: Range<u64>,
    /// Lines that end in the log before this extent.
    pub(crate) lines: u64,
    /// Bytes of stderr in the log before this extent.
    pub(crate) stderr_bytes: u64,
    pub(crate) continuity: Continuity,
}

/// The relation of an extent to the bytes at the offsets before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Continuity {
    Continuous,
    /// Bytes that could not be kept came between.
    AfterGap,
}

impl LogExtent {
    /// Moves the start of the extent to a gap inside it or at its start. Returns the extent before
    /// the gap, unless that is empty.
    pub(crate) fn split_off_before(&mut self, place: LogPosition) -> Option<Self> {
        let before = Self { range: self.range.start..place.offset, ..self.clone() };
        self.range.start = place.offset;
        (self.lines, self.stderr_bytes) = (place.lines, place.stderr_bytes);
        self.continuity = Continuity::AfterGap;
        Some(before).filter(|before| !before.range.is_empty())
    }

    /// Bytes of a stream in the log before this extent.
    pub(crate) const fn stream_bytes_before(&self, stream: Stream) -> u64 {
        match stream {
            Stream::Stdout => self.range.start - self.stderr_bytes,
            Stream::Stderr => self.stderr_bytes,
        }
    }

    /// Finished lines in the log before an offset in this extent, or at its end.
    pub(crate) fn lines_before(&self, offset: u64) -> io::Result<u64> {
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
    pub(crate) fn offset_of_line_after(&self, newlines: u64) -> io::Result<u64> {
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

/// A segment of a log. The lock is held for copies in memory only, never during file access: a slow
/// disk delays its writer, not the readers.
#[derive(Debug)]
pub(crate) struct LogSegment {
    /// The position of the segment's first byte. Positions in its store count from here.
    pub(crate) start: LogPosition,
    inner: Mutex<SegmentState>,
}

/// The state behind the lock. Invariant: every byte in the index is in the store, or in `cut`.
#[derive(Debug)]
pub(crate) struct SegmentState {
    pub(crate) store: SegmentStore,
    /// The index. `None` for a closed durable log whose index is not needed now: it is rebuilt from
    /// the bytes.
    index: Option<Box<RunIndex>>,
    /// The end of the bytes in the index.
    pub(crate) end: LogPosition,
    /// The bytes that somebody else cut off the file. A later cut widens the range.
    cut: Option<Box<FileCut>>,
    /// The positions of a durable log, if it has any.
    pub(crate) positions: Option<Arc<SpillFile>>,
    pub(crate) charge: QuotaCharge,
}

impl SegmentState {
    /// Records that the file ends at offset `there` although the log had reached `end` before this
    /// was noticed.
    fn record_file_cut(&mut self, there: u64, end: LogPosition) {
        let known = self.cut.as_deref().copied();
        let to = match known {
            // Somebody else noticed it first. Bytes written since then are present.
            Some(known) if known.to.offset >= end.offset => known.to,
            // The end may have moved meanwhile, and the bytes written since may be gone too.
            Some(_) | None => self.end,
        };
        let cut = FileCut { from: known.map_or(there, |known| known.from.min(there)), to };
        self.cut = Some(Box::new(cut));
        if let Some(index) = &mut self.index {
            index.end_run();
        }
        let newly_cut = cut.bytes() - known.map_or(0, |cut| cut.bytes());
        self.charge.counters().add_dropped(DropReason::Cut, newly_cut);
    }

    /// The index, for the writer: the index of a log that is being written is always there.
    pub(crate) fn index_mut(&mut self) -> &mut RunIndex {
        self.index.get_or_insert_default()
    }

    /// `true` if runs must move to a file before the next write.
    pub(crate) fn has_overdue_runs(&self) -> bool {
        self.index.as_ref().is_some_and(|index| index.overdue().is_some())
    }

    /// The file of the runs that are not in memory.
    fn run_file(&self) -> Option<Arc<SpillFile>> {
        self.index.as_ref().and_then(|index| index.stored.file.clone())
    }
}

impl LogSegment {
    /// Creates an empty segment.
    pub(crate) fn new(start: LogPosition, store: SegmentStore, charge: QuotaCharge) -> Self {
        let content = SegmentContent {
            start,
            end: start,
            index: Some(Box::default()),
            cut: None,
            store,
            positions: None,
        };
        Self::with_content(content, charge)
    }

    /// Creates a segment that already has bytes.
    pub(crate) fn with_content(content: SegmentContent, charge: QuotaCharge) -> Self {
        let SegmentContent { start, end, index, cut, store, positions } = content;
        let cut = cut.map(Box::new);
        let inner = SegmentState { store, index, end, cut, positions, charge };
        Self { start, inner: Mutex::new(inner) }
    }

    /// The number of bytes from the start to the end of the segment, missing ones included.
    pub(crate) fn span(&self) -> u64 {
        self.lock().end.offset - self.start.offset
    }

    /// The position in the store of the byte at `offset` of the log.
    pub(crate) const fn position(&self, offset: u64) -> u64 {
        offset.saturating_sub(self.start.offset)
    }

    /// `true` if only memory holds some bytes of this segment of a durable log.
    pub(crate) fn has_unstored(&self) -> bool {
        self.unstored_bytes() > 0
    }

    /// The number of bytes of this segment of a durable log that only memory holds.
    pub(crate) fn unstored_bytes(&self) -> u64 {
        match &self.lock().store {
            SegmentStore::Durable(store) => store.unstored_bytes(),
            SegmentStore::Memory(_) | SegmentStore::Spilled(_) | SegmentStore::Compressed(_) => 0,
        }
    }

    /// Shrinks the segment, unless its file may still have to take bytes that only memory holds.
    pub(crate) fn shrink_if_stored(&self) {
        if !self.has_unstored() {
            self.shrink();
        }
    }

    /// Releases spare memory, reserved quota and file descriptors. For a segment that gets no more
    /// bytes and whose bytes are stored: its own files cannot be written any more. The positions
    /// belong to all segments, and the writer of the log ends them.
    pub(crate) fn shrink(&self) {
        let mut inner = self.lock();
        inner.index_mut().shrink();
        inner.charge.release_unused();
        let spilled = match &mut inner.store {
            SegmentStore::Memory(memory) => {
                memory.shrink_to_fit();
                None
            }
            SegmentStore::Spilled(file) => Some(Arc::clone(file)),
            SegmentStore::Durable(bytes) => {
                if let Some(copy) = &mut bytes.copy {
                    copy.bytes.shrink_to_fit();
                }
                bytes.file.clone()
            }
            SegmentStore::Compressed(_) => None,
        };
        let files = [spilled, inner.run_file()];
        drop(inner);
        files.into_iter().flatten().for_each(|file| file.end_writing());
    }

    /// Checks whether somebody else truncated the file, and records the missing range. Without this
    /// check a later write would make the missing bytes read as zeroes.
    pub(crate) fn detect_file_cut(&self) -> io::Result<()> {
        let inner = self.lock();
        let end = inner.end;
        let file = match &inner.store {
            SegmentStore::Spilled(file)
            | SegmentStore::Durable(DurableBytes { file: Some(file), copy: None, .. }) => {
                Arc::clone(file)
            }
            SegmentStore::Compressed(compressed) => {
                let compressed = Arc::clone(compressed);
                drop(inner);
                if !compressed.is_whole()? {
                    self.lock().record_file_cut(self.start.offset, end);
                }
                return Ok(());
            }
            SegmentStore::Memory(_) | SegmentStore::Durable(_) => return Ok(()),
        };
        drop(inner);
        let length = file.length()?;
        let there = self.start.offset + length;
        if there >= end.offset {
            return Ok(());
        }
        // The server that compressed the log may have ended before that was recorded.
        if length == 0
            && let Some(form) = file.compressed_form()
        {
            let bytes = end.offset - self.start.offset;
            if let Some(compressed) = CompressedLog::open_durable(form, bytes)? {
                self.replace_spilled(bytes, compressed);
                return Ok(());
            }
        }
        self.lock().record_file_cut(there, end);
        Ok(())
    }

    /// The number of bytes that are known to be cut off.
    pub(crate) fn cut_bytes(&self) -> u64 {
        self.lock().cut.as_ref().map_or(0, |cut| cut.bytes())
    }

    /// The bytes that are known to be cut off.
    pub(crate) fn cut(&self) -> Option<FileCut> {
        self.lock().cut.as_deref().copied()
    }

    /// Ends the last line here, whatever comes next.
    pub(crate) fn end_line(&self, at: LogPosition) {
        let mut inner = self.lock();
        inner.end = at;
        inner.index_mut().end_run();
    }

    /// The readable extents before `end`, in order.
    pub(crate) fn extents(self: &Arc<Self>, end: u64) -> impl Iterator<Item = LogExtent> {
        let inner = self.lock();
        let end = inner.end.offset.min(end);
        let (first, second) = match inner.cut.as_deref().copied() {
            None => (self.start.offset..end, None),
            Some(cut) => (self.start.offset..cut.from.min(end), Some((cut.to.offset..end, cut.to))),
        };
        drop(inner);
        let parts = [Some((first, self.start)), second].into_iter().flatten();
        let there = parts.filter(|(range, _)| !range.is_empty());
        there.map(|(range, LogPosition { lines, stderr_bytes, .. })| {
            let segment = Arc::clone(self);
            let continuity = Continuity::Continuous;
            LogExtent { segment, range, lines, stderr_bytes, continuity }
        })
    }

    /// Locks the state. A panic elsewhere cannot break the invariant, since bytes are added before
    /// their run, so a poisoned lock is used as it is.
    pub(crate) fn lock(&self) -> MutexGuard<'_, SegmentState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills `buffer` with the bytes at `offset`, which must have been published.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let position = self.position(offset);
        let inner = self.lock();
        match &inner.store {
            SegmentStore::Memory(memory) => copy_range(memory, position, buffer),
            SegmentStore::Durable(DurableBytes { copy: Some(copy), .. }) => {
                copy_range(&copy.bytes, position, buffer)
            }
            SegmentStore::Durable(DurableBytes { file: None, .. }) => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            SegmentStore::Spilled(file)
            | SegmentStore::Durable(DurableBytes { file: Some(file), .. }) => {
                let file = Arc::clone(file);
                drop(inner);
                let read = file.open().and_then(|file| file.read_exact_at(buffer, position));
                file.counters().checked(SpillOperation::Read, read)
            }
            SegmentStore::Compressed(compressed) => {
                let compressed = Arc::clone(compressed);
                drop(inner);
                compressed
                    .file
                    .counters()
                    .checked(SpillOperation::Read, compressed.read_at(position, buffer))
            }
        }
    }

    /// Reads the bytes of a range, which must have been published.
    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
        self.read_at(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// Finds the last run for which `holds` is true; it must hold for a prefix of all runs.
    pub(crate) fn find_run(
        self: &Arc<Self>,
        holds: impl Fn(&StreamRun) -> bool,
    ) -> io::Result<Option<NumberedRun>> {
        let stored = self.with_index(|index| {
            index.find_recent(&holds).map_or_else(|| Err(index.stored.clone()), Ok)
        })?;
        match stored {
            Ok(found) => Ok(Some(found)),
            Err(stored) => stored.find(holds),
        }
    }

    /// The runs with these numbers, as far as they exist.
    pub(crate) fn runs(self: &Arc<Self>, numbers: Range<u64>) -> io::Result<Vec<StreamRun>> {
        // Both are read under one lock: a run that moves to the file in between would be missed.
        let (stored, recent) = self.with_index(|index| {
            (index.stored.clone(), index.read_recent(numbers.clone()).to_vec())
        })?;
        let mut runs = stored.read(numbers)?;
        runs.extend(recent);
        Ok(runs)
    }

    /// Calls `find` with the index, which is rebuilt if it is not in memory.
    fn with_index<T>(self: &Arc<Self>, find: impl Fn(&RunIndex) -> T) -> io::Result<T> {
        let (range, positions) = {
            let inner = self.lock();
            if let Some(index) = &inner.index {
                return Ok(find(index));
            }
            let cut = inner.cut.as_deref().copied();
            (ScanRange { start: self.start, end: inner.end.offset, cut }, inner.positions.clone())
        };
        let dir = self.dir_handle();
        let make_file = || match &dir {
            Some(dir) => dir.create_file(),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        let read_at = |offset, block: &mut [u8]| self.read_at(offset, block);
        let scanned = scan_segment(&range, positions.as_deref(), read_at, make_file)?;
        let found = find(&scanned.index);
        self.lock().index.get_or_insert_with(|| Box::new(scanned.index));
        if let Some(dir) = dir {
            self.keep_memory(&dir);
        }
        Ok(found)
    }

    /// The directory of the segment's file, if it has one.
    fn dir_handle(&self) -> Option<SpillDir> {
        match &self.lock().store {
            SegmentStore::Spilled(file)
            | SegmentStore::Durable(DurableBytes { file: Some(file), .. }) => {
                Some(file.dir_handle())
            }
            SegmentStore::Compressed(compressed) => Some(compressed.file.dir_handle()),
            SegmentStore::Memory(_) | SegmentStore::Durable(_) => None,
        }
    }

    /// Keeps the memory of a closed durable log until newer logs need it.
    pub(crate) fn keep_memory(self: &Arc<Self>, dir: &SpillDir) {
        let weak = Arc::downgrade(self);
        let release = move || {
            if let Some(segment) = weak.upgrade() {
                segment.release_memory();
            }
        };
        dir.keep_closed_memory(self.releasable_bytes(), Box::new(release));
    }

    /// The bytes of memory that [`LogSegment::release_memory`] would release.
    fn releasable_bytes(&self) -> usize {
        let inner = self.lock();
        let index = inner.index.as_ref().map_or(0, |index| index.memory_bytes());
        let copy = match &inner.store {
            SegmentStore::Durable(bytes) => bytes.copy.as_ref().map_or(0, |copy| copy.bytes.len()),
            SegmentStore::Memory(_) | SegmentStore::Spilled(_) | SegmentStore::Compressed(_) => 0,
        };
        index + copy
    }

    /// Reserves room on the disk for all of the bytes or for none.
    pub(crate) fn take_room(&self, bytes: usize) -> Result<(), DropReason> {
        let mut inner = self.lock();
        match inner.charge.take(Tier::Disk, bytes) {
            (_, None) => Ok(()),
            (taken, Some(why)) => {
                inner.charge.put_back(Tier::Disk, taken as u64);
                Err(why)
            }
        }
    }

    /// Releases the memory of a closed durable log, as far as files hold the same.
    fn release_memory(&self) {
        let mut inner = self.lock();
        let all = inner.end.offset - self.start.offset;
        let copy = match &mut inner.store {
            SegmentStore::Durable(bytes) if bytes.is_in_file(all) => bytes.copy.take(),
            SegmentStore::Compressed(_) => None,
            // The bytes or the streams are in memory alone.
            SegmentStore::Durable(_) | SegmentStore::Memory(_) | SegmentStore::Spilled(_) => return,
        };
        let index = inner.index.take();
        drop(inner);
        drop((copy, index));
    }

    /// Removes the files of a durable log, also those that all segments share, as soon as nobody
    /// reads them any more.
    pub(crate) fn remove_files(&self) {
        self.remove_file();
        if let Some(positions) = &self.lock().positions {
            positions.remove_on_drop();
        }
    }

    /// Removes the file of the bytes as soon as nobody reads it any more.
    pub(crate) fn remove_file(&self) {
        match &self.lock().store {
            SegmentStore::Durable(DurableBytes { file: Some(file), .. }) => file.remove_on_drop(),
            SegmentStore::Compressed(compressed) => compressed.file.remove_on_drop(),
            SegmentStore::Durable(_) | SegmentStore::Memory(_) | SegmentStore::Spilled(_) => {}
        }
    }

    /// The bytes that the segment takes in memory or on the disk, without its index.
    pub(crate) fn stored_bytes(&self) -> u64 {
        let inner = self.lock();
        match &inner.store {
            SegmentStore::Memory(memory) => memory.len() as u64,
            SegmentStore::Spilled(_) | SegmentStore::Durable(_) => {
                inner.end.offset - self.start.offset
            }
            SegmentStore::Compressed(compressed) => compressed.stored_bytes,
        }
    }

    /// `true` if neither the bytes nor the index of the segment are in a file.
    pub(crate) fn is_in_memory(&self) -> bool {
        let inner = self.lock();
        let has_bytes = match &inner.store {
            SegmentStore::Memory(_) => true,
            SegmentStore::Durable(bytes) => bytes.copy.is_some(),
            SegmentStore::Spilled(_) | SegmentStore::Compressed(_) => false,
        };
        has_bytes && inner.index.is_some() && inner.run_file().is_none()
    }

    /// The spill file and its length, if the segment is in a spill file that is not truncated.
    pub(crate) fn uncompressed_log(&self) -> Option<UncompressedLog> {
        let inner = self.lock();
        match &inner.store {
            SegmentStore::Spilled(file) if inner.cut.is_none() => {
                let bytes = inner.end.offset - self.start.offset;
                Some(UncompressedLog { file: Arc::clone(file), bytes })
            }
            SegmentStore::Durable(store) if inner.cut.is_none() => {
                let bytes = inner.end.offset - self.start.offset;
                let file = store.file.as_ref().filter(|_| store.is_in_file(bytes))?;
                Some(UncompressedLog { file: Arc::clone(file), bytes })
            }
            SegmentStore::Memory(_)
            | SegmentStore::Spilled(_)
            | SegmentStore::Durable(_)
            | SegmentStore::Compressed(_) => None,
        }
    }

    /// Replaces the spill file of a closed log by its compressed form. A read of the spill file
    /// that is under way finishes with that file.
    pub(crate) fn replace_spilled(&self, raw_bytes: u64, compressed: CompressedLog) {
        let stored = compressed.stored_bytes;
        let compressed = SegmentStore::Compressed(Arc::new(compressed));
        let mut inner = self.lock();
        let spilled = std::mem::replace(&mut inner.store, compressed);
        inner.charge.put_back(Tier::Disk, raw_bytes.saturating_sub(stored));
        inner.charge.shift(Tier::Disk, Tier::Compressed, stored);
        inner.charge.release_unused();
        drop(inner);
        if let SegmentStore::Durable(DurableBytes { file: Some(file), .. }) = &spilled {
            if file.is_removed_on_drop() {
                // The log was freed, and somebody still reads it.
                self.remove_file();
            }
            file.remove_on_drop();
        }
        // Dropped after the lock is released: closing a large file for the last time waits for the
        // disk.
        drop(spilled);
    }
}

/// The bytes of one segment: in memory while they are few, then in one spill file, finally in a
/// compressed file.
#[derive(Debug)]
pub(crate) enum SegmentStore {
    /// All bytes, from the segment's start.
    Memory(Vec<u8>),
    /// All bytes, from the segment's start. None are left in memory.
    Spilled(Arc<SpillFile>),
    /// The bytes of a durable log.
    Durable(DurableBytes),
    /// All bytes, compressed, once nothing is added any more.
    Compressed(Arc<CompressedLog>),
}

/// The content of a segment that is opened again.
#[derive(Debug)]
pub(crate) struct SegmentContent {
    pub(crate) start: LogPosition,
    pub(crate) end: LogPosition,
    pub(crate) index: Option<Box<RunIndex>>,
    pub(crate) cut: Option<FileCut>,
    pub(crate) store: SegmentStore,
    pub(crate) positions: Option<Arc<SpillFile>>,
}

/// Fills the buffer with the bytes at a position.
fn copy_range(bytes: &[u8], position: u64, buffer: &mut [u8]) -> io::Result<()> {
    let start = usize::try_from(position).unwrap_or(usize::MAX);
    let range = bytes.get(start..).and_then(|rest| rest.get(..buffer.len()));
    buffer.copy_from_slice(range.ok_or(io::ErrorKind::UnexpectedEof)?);
    Ok(())
}

impl SegmentStore {
    /// `true` if the bytes of a durable log have to wait for a stuck disk, and memory can take so
    /// many more of at most `limit`.
    pub(crate) fn can_defer(&self, bytes: usize, limit: usize, disk: &DiskWatch) -> bool {
        let copy = match self {
            Self::Durable(store) => store.copy.as_ref(),
            Self::Memory(_) | Self::Spilled(_) | Self::Compressed(_) => None,
        };
        copy.is_some_and(|copy| copy.bytes.len() + bytes <= limit) && disk.is_stuck()
    }

    pub(crate) const fn tier(&self) -> Tier {
        match self {
            Self::Memory(_) => Tier::Memory,
            Self::Spilled(_) | Self::Durable(_) => Tier::Disk,
            Self::Compressed(_) => Tier::Compressed,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Bytes by tier, while segments are written, compressed and dropped.

    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use proptest::prelude::*;

    use crate::Stream;
    use crate::counters::{Counters, Tier};
    use crate::segment::LogSegment;
    use crate::{
        KeepOutput, LogBounds, LogReader, LogStorage, LogWriter, Quota, QuotaLimits, SpillDir,
        open_bounded_log,
    };

    #[derive(Debug, Clone)]
    enum LogAction {
        Write(usize),
        /// Writes so many runs that some of them move to a file.
        Chatter,
        /// Closes the log and compresses its files.
        Compress,
        Free,
    }

    fn log_action() -> impl Strategy<Value = LogAction> {
        prop_oneof![
            6 => (1..6_000_usize).prop_map(LogAction::Write),
            1 => Just(LogAction::Chatter),
            2 => Just(LogAction::Compress),
            2 => Just(LogAction::Free),
        ]
    }

    struct TieredLog {
        writer: LogWriter,
        reader: LogReader,
    }

    impl TieredLog {
        fn new(quota: &Arc<Quota>, keep: KeepOutput, spill_dir: &Path) -> Self {
            let settings =
                LogStorage { memory_bytes: 2_000, spill_dir: spill_dir.to_owned().into() };
            let bounds = LogBounds { keep, quota: quota.tenant_quota("tiers") };
            let (writer, reader) = open_bounded_log(&settings, bounds);
            Self { writer, reader }
        }

        fn write(&mut self, bytes: usize) {
            self.writer.append(Stream::Stdout, &vec![b'x'; bytes]);
        }

        fn chatter(&mut self) {
            for number in 0..1_500 {
                let stream = if number % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
                self.writer.append(stream, b"y");
            }
        }

        fn compress(&mut self) {
            self.writer.close();
            for part in self.reader.log.segments() {
                let Some(raw) = part.uncompressed_log() else { continue };
                let file =
                    SpillDir::new(std::env::temp_dir(), Arc::default()).create_file().unwrap();
                if let Some(packed) = raw.compress(file, || true).unwrap() {
                    part.replace_spilled(raw.bytes, packed);
                }
            }
        }
    }

    /// The bytes that a segment holds by tier: its store in one tier, its index on the disk.
    fn held(part: &LogSegment) -> [u64; 3] {
        let stored = part.stored_bytes();
        let inner = part.lock();
        let (tier, held) = (inner.store.tier(), inner.charge.held.bytes);
        for (found, bytes) in Tier::ALL.into_iter().zip(held) {
            match (found == tier, found) {
                (true, Tier::Disk) => assert!(bytes >= stored, "{held:?}"),
                (true, Tier::Memory | Tier::Compressed) => assert_eq!(bytes, stored, "{held:?}"),
                (false, Tier::Disk) => {}
                (false, Tier::Memory | Tier::Compressed) => assert_eq!(bytes, 0, "{held:?}"),
            }
        }
        held
    }

    /// The counted bytes of each tier.
    fn counted(counters: &Counters) -> [u64; 3] {
        counters.stored().map(|(_, bytes)| bytes)
    }

    fn sum_of(logs: &[TieredLog]) -> [u64; 3] {
        let parts = logs.iter().flat_map(|log| log.reader.log.segments());
        parts.fold([0; 3], |sum, part| {
            let held = held(&part);
            [0, 1, 2].map(|tier| sum[tier] + held[tier])
        })
    }

    /// Three logs: one whole, one that keeps its ends, one that cannot spill.
    fn logs(quota: &Arc<Quota>, dir: &Path) -> [TieredLog; 3] {
        let blocked = dir.join("file");
        fs::write(&blocked, "").unwrap();
        [(KeepOutput::All, dir), (KeepOutput::Ends(8_000), dir), (KeepOutput::All, &*blocked)]
            .map(|(keep, dir)| TieredLog::new(quota, keep, dir))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn tiers_add_up_to_what_is_stored_and_end_at_zero(
            actions in prop::collection::vec((0..3_usize, log_action()), 0..40),
            cap in 10_000..200_000_u64,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let store_bytes = cap;
            let tenants = [].into();
            let limits = QuotaLimits { store_bytes, tenant_bytes: cap, tenants };
            let counters = Arc::new(Counters::default());
            let quota = Quota::new(limits, 1 << 20, Arc::clone(&counters));
            let mut all = Vec::from(logs(&quota, dir.path()));
            for (which, log_action) in actions {
                match log_action {
                    LogAction::Write(bytes) => all[which].write(bytes),
                    LogAction::Chatter => all[which].chatter(),
                    LogAction::Compress => all[which].compress(),
                    LogAction::Free => {
                        all[which] = logs(&quota, dir.path()).into_iter().nth(which).unwrap();
                    }
                }
                assert_eq!(counted(&counters), sum_of(&all));
            }
            all.clear();
            assert_eq!((counted(&counters), quota.used()), ([0; 3], 0));
        }
    }
}

//! One part of a log, segment by its writer and all readers: the store and the index, behind one
//! lock. Most logs have one part.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::compression::{CompressedLog, UncompressedLog};
use super::counters::{Counters, DropReason, SpillOperation, Tier};
use super::index::{NumberedRun, RunIndex, StreamRun};
use super::quota::QuotaCharge;
use super::spill::SpillFile;

/// A place in a log, and what came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LogPosition {
    pub(crate) offset: u64,
    /// Lines that ended.
    pub(crate) lines: u64,
    /// Bytes of stderr.
    pub(crate) stderr_bytes: u64,
}

/// Bytes of a part that are there.
#[derive(Debug, Clone)]
pub(crate) struct LogExtent {
    pub(crate) segment: Arc<LogSegment>,
    pub(crate) range: Range<u64>,
    /// Lines that ended in the log before it.
    pub(crate) lines: u64,
    /// Bytes of stderr in the log before it.
    pub(crate) stderr_bytes: u64,
    pub(crate) continuity: Continuity,
}

/// How a extent joins the bytes that have the offsets before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Continuity {
    /// It goes on where they end.
    Continuous,
    /// Bytes that could not be kept came between.
    AfterGap,
}

impl LogExtent {
    /// Has it start at a gap inside of it or at its start; gives what lies before that.
    pub(crate) fn split_off_before(&mut self, place: LogPosition) -> Option<Self> {
        let before = Self { range: self.range.start..place.offset, ..self.clone() };
        self.range.start = place.offset;
        (self.lines, self.stderr_bytes) = (place.lines, place.stderr_bytes);
        self.continuity = Continuity::AfterGap;
        Some(before).filter(|before| !before.range.is_empty())
    }
}

/// The lock is held for copies in memory only, never during file access: a slow disk delays
/// its writer, not the readers.
#[derive(Debug)]
pub(crate) struct LogSegment {
    /// Where the part starts; its store counts from here.
    start: LogPosition,
    inner: Mutex<SegmentState>,
}

/// Invariant: every byte that the index speaks of is in the store, or in `cut`.
#[derive(Debug)]
pub(crate) struct SegmentState {
    pub(crate) store: SegmentStore,
    pub(crate) index: RunIndex,
    /// The end of what the index speaks of.
    pub(crate) end: LogPosition,
    /// What somebody else cut off the file. A later cut widens it.
    cut: Option<FileCut>,
    pub(crate) charge: QuotaCharge,
}

/// Bytes that are gone, and where the part goes on. A run starts there.
#[derive(Debug, Clone, Copy)]
struct FileCut {
    from: u64,
    to: LogPosition,
}

impl FileCut {
    const fn bytes(&self) -> u64 {
        self.to.offset - self.from
    }
}

impl SegmentState {
    /// Notes that the file ends here although the log had come to `end` before that was seen.
    fn record_file_cut(&mut self, there: u64, end: LogPosition) {
        let known = self.cut;
        let to = match known {
            // Somebody else saw it first. What was written since then is there.
            Some(known) if known.to.offset >= end.offset => known.to,
            // The end may have moved meanwhile; what came then may be gone too.
            Some(_) | None => self.end,
        };
        let cut = FileCut { from: known.map_or(there, |known| known.from.min(there)), to };
        self.cut = Some(cut);
        self.index.end_run();
        let newly_cut = cut.bytes() - known.map_or(0, |cut| cut.bytes());
        self.charge.counters().add_dropped(DropReason::Cut, newly_cut);
    }
}

impl LogSegment {
    /// An empty part of a log.
    pub(crate) fn new(start: LogPosition, charge: QuotaCharge) -> Self {
        let inner = SegmentState {
            store: SegmentStore::Memory(Vec::new()),
            index: RunIndex::default(),
            end: start,
            cut: None,
            charge,
        };
        Self { start, inner: Mutex::new(inner) }
    }

    /// Where the part starts.
    pub(crate) const fn start(&self) -> LogPosition {
        self.start
    }

    /// How many bytes the part spans.
    pub(crate) fn span(&self) -> u64 {
        self.lock().end.offset - self.start.offset
    }

    /// Where in the store the byte at this offset of the log is.
    pub(crate) const fn position(&self, offset: u64) -> u64 {
        offset.saturating_sub(self.start.offset)
    }

    /// Gives spare memory, room and descriptors back once nothing will follow.
    pub(crate) fn shrink(&self) {
        let mut inner = self.lock();
        inner.index.shrink();
        inner.charge.release_unused();
        let spilled = match &mut inner.store {
            SegmentStore::Memory(memory) => {
                memory.shrink_to_fit();
                None
            }
            SegmentStore::Spilled(file) => Some(Arc::clone(file)),
            SegmentStore::Compressed(_) => None,
        };
        let files = [spilled, inner.index.stored().file()];
        drop(inner);
        files.into_iter().flatten().for_each(|file| file.end_writing());
    }

    /// Notes what is gone where the file was cut by somebody else. Without this a later write
    /// would make the missing bytes read as zeroes.
    pub(crate) fn detect_file_cut(&self) -> io::Result<()> {
        let (file, end) = match &*self.lock() {
            SegmentState { store: SegmentStore::Spilled(file), end, .. } => {
                (Arc::clone(file), *end)
            }
            SegmentState {
                store: SegmentStore::Memory(_) | SegmentStore::Compressed(_), ..
            } => return Ok(()),
        };
        let there = self.start.offset + file.length()?;
        if there < end.offset {
            self.lock().record_file_cut(there, end);
        }
        Ok(())
    }

    /// How much is known to be cut off.
    pub(crate) fn cut_bytes(&self) -> u64 {
        self.lock().cut.map_or(0, |cut| cut.bytes())
    }

    /// The last line ends here, whatever comes next.
    pub(crate) fn end_line(&self, at: LogPosition) {
        let mut inner = self.lock();
        inner.end = at;
        inner.index.end_run();
    }

    /// What is there of the bytes before `end`, in order.
    pub(crate) fn extents(self: &Arc<Self>, end: u64) -> impl Iterator<Item = LogExtent> {
        let inner = self.lock();
        let end = inner.end.offset.min(end);
        let (first, second) = match inner.cut {
            None => (self.start.offset..end, None),
            Some(cut) => (self.start.offset..cut.from.min(end), Some((cut.to.offset..end, cut.to))),
        };
        drop(inner);
        let parts = [Some((first, self.start)), second].into_iter().flatten();
        let there = parts.filter(|(range, _)| !range.is_empty());
        there.map(|(range, LogPosition { lines, stderr_bytes, .. })| {
            let (segment, continuity) = (Arc::clone(self), Continuity::Continuous);
            LogExtent { segment, range, lines, stderr_bytes, continuity }
        })
    }

    /// A panic elsewhere cannot break the invariant, since bytes are added before their run:
    /// a poisoned lock is taken as it is.
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
            SegmentStore::Memory(memory) => {
                let start = usize::try_from(position).unwrap_or(usize::MAX);
                let bytes = memory.get(start..).and_then(|rest| rest.get(..buffer.len()));
                buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            SegmentStore::Spilled(file) => {
                let file = Arc::clone(file);
                drop(inner);
                let read = file.open().and_then(|file| file.read_exact_at(buffer, position));
                file.counters().checked(SpillOperation::Read, read)
            }
            SegmentStore::Compressed(packed) => {
                let packed = Arc::clone(packed);
                drop(inner);
                packed.counters().checked(SpillOperation::Read, packed.read_at(position, buffer))
            }
        }
    }

    /// The bytes of this range, which must have been published.
    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
        self.read_at(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// The last run for which `holds` is true; it must hold for a prefix of all runs.
    pub(crate) fn find_run(
        &self,
        holds: impl Fn(&StreamRun) -> bool,
    ) -> io::Result<Option<NumberedRun>> {
        let stored = {
            let inner = self.lock();
            if let Some(found) = inner.index.find_recent(&holds) {
                return Ok(Some(found));
            }
            inner.index.stored().clone()
        };
        stored.find(holds)
    }

    /// The runs with these numbers, as far as there are such.
    pub(crate) fn runs(&self, numbers: Range<u64>) -> io::Result<Vec<StreamRun>> {
        // Both under one lock: a run that moves to the file in between would be missed.
        let (stored, recent) = {
            let inner = self.lock();
            (inner.index.stored().clone(), inner.index.read_recent(numbers.clone()).to_vec())
        };
        let mut runs = stored.read(numbers)?;
        runs.extend(recent);
        Ok(runs)
    }

    /// What the part takes in memory or on the disk, its index aside.
    pub(crate) fn stored_bytes(&self) -> u64 {
        let inner = self.lock();
        match &inner.store {
            SegmentStore::Memory(memory) => memory.len() as u64,
            SegmentStore::Spilled(_) => inner.end.offset - self.start.offset,
            SegmentStore::Compressed(packed) => packed.stored_bytes(),
        }
    }

    /// `true` if neither its bytes nor its index are in a file.
    pub(crate) fn is_in_memory(&self) -> bool {
        let inner = self.lock();
        inner.store.tier() == Tier::Memory && inner.index.stored().file().is_none()
    }

    /// The spill file and what it holds, where the part is in one that is whole.
    pub(crate) fn uncompressed_log(&self) -> Option<UncompressedLog> {
        let inner = self.lock();
        match &inner.store {
            SegmentStore::Spilled(file) if inner.cut.is_none() => {
                let bytes = inner.end.offset - self.start.offset;
                Some(UncompressedLog { file: Arc::clone(file), bytes })
            }
            SegmentStore::Memory(_) | SegmentStore::Spilled(_) | SegmentStore::Compressed(_) => {
                None
            }
        }
    }

    /// Where the part is compressed: that form of it.
    #[cfg(test)]
    pub(crate) fn packed(&self) -> Option<Arc<CompressedLog>> {
        match &self.lock().store {
            SegmentStore::Compressed(packed) => Some(Arc::clone(packed)),
            SegmentStore::Memory(_) | SegmentStore::Spilled(_) => None,
        }
    }

    /// From now on the bytes of the closed log are read from here. Whoever reads the spill file
    /// just now finishes with it.
    pub(crate) fn replace_spilled(&self, raw_bytes: u64, packed: CompressedLog) {
        let stored = packed.stored_bytes();
        let packed = SegmentStore::Compressed(Arc::new(packed));
        let mut inner = self.lock();
        let spilled = std::mem::replace(&mut inner.store, packed);
        inner.charge.put_back(Tier::Disk, raw_bytes.saturating_sub(stored));
        inner.charge.shift(Tier::Disk, Tier::Compressed, stored);
        inner.charge.release_unused();
        drop(inner);
        // After the lock: the last one to close a large file waits for the disk.
        drop(spilled);
    }
}

// Where a log's bytes are: in memory while they are few, then in one spill file, in the end
// in a compressed one.

/// The bytes of one log. Offsets into it are the log's own.
#[derive(Debug)]
pub(crate) enum SegmentStore {
    /// All bytes, from offset 0.
    Memory(Vec<u8>),
    /// All bytes, from offset 0, none left in memory.
    Spilled(Arc<SpillFile>),
    /// The same in less room, once nothing is added any more.
    Compressed(Arc<CompressedLog>),
}

impl SegmentStore {
    /// Where that is.
    pub(crate) const fn tier(&self) -> Tier {
        match self {
            Self::Memory(_) => Tier::Memory,
            Self::Spilled(_) => Tier::Disk,
            Self::Compressed(_) => Tier::Compressed,
        }
    }
}

/// Adds to a memory store without growing its buffer past `limit`, as doubling alone would.
pub(crate) fn push_bounded(memory: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let needed = memory.len() + bytes.len();
    if needed > memory.capacity() {
        let capacity = (needed * 2).min(limit).max(needed);
        memory.reserve_exact(capacity - memory.len());
    }
    memory.extend_from_slice(bytes);
}

/// How many bytes were taken, from the first on, and why not all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredPrefix {
    pub(crate) bytes: usize,
    pub(crate) lost: Option<DropReason>,
}

impl StoredPrefix {
    /// All of them.
    pub(crate) const fn all(bytes: usize) -> Self {
        Self { bytes, lost: None }
    }

    /// So many, and no more because of this.
    pub(crate) const fn partial(bytes: usize, why: DropReason) -> Self {
        Self { bytes, lost: Some(why) }
    }
}

/// What an error of the system means for the bytes that were to be written.
pub(crate) fn drop_reason(error: &io::Error) -> DropReason {
    let is_full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    );
    if is_full { DropReason::DiskFull } else { DropReason::IoError }
}

/// Writes as much as the file takes: a full disk keeps a prefix.
pub(crate) fn write_prefix(
    file: &File,
    bytes: &[u8],
    position: u64,
    counters: &Counters,
) -> StoredPrefix {
    let failed = |written, error: io::Error| {
        counters.add_spill_error(SpillOperation::Write, &error);
        StoredPrefix::partial(written, drop_reason(&error))
    };
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], position + written as u64) {
            Ok(0) => return failed(written, io::ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return failed(written, error),
        }
    }
    StoredPrefix::all(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_store_never_reserves_more_than_its_limit() {
        let mut memory = Vec::new();
        for _ in 0..100 {
            push_bounded(&mut memory, &[7; 10], 1000);
            assert!(memory.capacity() <= 1000, "{}", memory.capacity());
        }
        assert_eq!(memory, vec![7; 1000]);
    }

    #[test]
    fn what_cannot_be_written_has_a_reason() {
        let counters = Counters::default();
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(
            write_prefix(&full, b"bytes", 0, &counters),
            StoredPrefix::partial(0, DropReason::DiskFull)
        );
        let unwritable = File::open("/dev/null").unwrap();
        assert_eq!(
            write_prefix(&unwritable, b"bytes", 0, &counters),
            StoredPrefix::partial(0, DropReason::IoError)
        );
        for (error, expected) in [
            (libc::EDQUOT, DropReason::DiskFull),
            (libc::EFBIG, DropReason::DiskFull),
            (libc::EIO, DropReason::IoError),
            (libc::EROFS, DropReason::IoError),
            (libc::EMFILE, DropReason::IoError),
        ] {
            assert_eq!(drop_reason(&io::Error::from_raw_os_error(error)), expected, "{error}");
        }
    }
}

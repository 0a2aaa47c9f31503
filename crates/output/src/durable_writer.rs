//! Writes the files of a durable log: bytes from memory, and bytes that the kernel moves from a pipe to
//! a file. A write may take only a part of its bytes.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::{SpliceFlags, splice};

use crate::Stream;
use crate::counters::{Counters, DropReason, SpillOperation, Tier};
use crate::positions::{PositionRecord, PositionWriter};
use crate::segment::{LogSegment, SegmentStore};
use crate::server_dir::{FilePart, LogName};
use crate::shared_log::{LogProgress, SharedLog};
use crate::spill::{SpillDir, SpillFile};
use crate::unstored::UnstoredNote;

/// The part of a log's writer that only durable logs have.
#[derive(Debug)]
pub(crate) struct DurableWriter {
    name: LogName,
    pub(crate) positions: PositionWriter,
    /// `false` once the kernel has refused to move bytes from the pipe to the file.
    pub(crate) can_splice: bool,
    /// The note about bytes that are in no file yet; `None` if nobody keeps it for the next server.
    unstored: Option<UnstoredNote>,
}

/// The place of the next byte of a durable log.
#[derive(Debug)]
pub(crate) struct WritePlace<'a> {
    pub(crate) log: &'a SharedLog,
    /// The last segment.
    pub(crate) segment: &'a Arc<LogSegment>,
    pub(crate) offset: u64,
    pub(crate) dir: &'a SpillDir,
    /// The most bytes of the segment that stay in memory as well.
    pub(crate) memory_bytes: usize,
}

/// The result of [`LogWriter::append_from`](crate::LogWriter::append_from).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendFrom {
    /// This many bytes are in the log, and no longer in the pipe.
    Moved {
        /// The number of bytes.
        bytes: usize,
        /// The progress after them.
        progress: LogProgress,
    },
    /// The pipe is empty, and nobody can write to it any more.
    End,
    /// These bytes cannot be moved. The caller reads them and calls [`LogWriter::append`](crate::LogWriter::append).
    ReadInstead,
}

/// The result of [`DurableWriter::splice`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spliced {
    /// The file has the bytes that are in the block; none at the end of the pipe.
    Stored,
    /// The file has this many bytes that cannot be read back. The next bytes take their place.
    Unreadable(usize),
    /// Nothing was moved.
    NotPossible,
}

impl DurableWriter {
    pub(crate) const fn new(
        name: LogName,
        positions: PositionWriter,
        unstored: Option<UnstoredNote>,
    ) -> Self {
        Self { name, positions, can_splice: true, unstored }
    }

    /// Notes that up to this many bytes are in no file yet.
    pub(crate) fn note_unstored(&mut self, bytes: u64) {
        if let Some(note) = &mut self.unstored {
            if self.positions.is_written() {
                note.forget_unrecorded();
            }
            note.set(&self.name, bytes);
        }
    }

    /// The bytes that an earlier server noted. The note stays until the loss is recorded.
    pub(crate) fn take_lost_bytes(&mut self) -> u64 {
        self.unstored.as_mut().map_or(0, |note| {
            note.keep_unrecorded();
            note.bytes()
        })
    }

    /// Stores the bytes in the file, and in memory while they are few. If the file does not take
    /// them, or the disk is stuck, memory takes as many as it may, and the file gets them with a
    /// later write.
    pub(crate) fn store(
        &mut self,
        place: &WritePlace<'_>,
        stream: Stream,
        bytes: &[u8],
    ) -> StoredPrefix {
        let (room, lost) = place.segment.lock().charge.take(Tier::Disk, bytes.len());
        let bytes = &bytes[..room];
        let can_defer = {
            let inner = place.segment.lock();
            inner.store.can_defer(bytes.len(), place.memory_bytes, place.dir.disk())
        };
        let written = if can_defer {
            self.positions.set_stream(place.offset, stream);
            StoredPrefix::partial(0, DropReason::IoError)
        } else {
            let _operation = place.dir.disk().begin();
            self.write(place, stream, bytes)
        };
        let mut inner = place.segment.lock();
        let SegmentStore::Durable(store) = &mut inner.store else {
            return StoredPrefix::partial(0, DropReason::IoError);
        };
        let limit = place.memory_bytes;
        let taken = match (&mut store.copy, written.lost) {
            (Some(copy), Some(why)) if limit - copy.bytes.len() > written.bytes => {
                let kept = bytes.len().min(limit - copy.bytes.len());
                push_bounded(&mut copy.bytes, &bytes[..kept], limit);
                copy.in_file += written.bytes as u64;
                StoredPrefix { bytes: kept, lost: (kept < bytes.len()).then_some(why) }
            }
            // Nothing changes: the copy may have bytes that the file does not have.
            _ if written.bytes == 0 => written,
            _ => {
                store.add_written(&bytes[..written.bytes], limit);
                written
            }
        };
        inner.charge.put_back(Tier::Disk, (room - taken.bytes) as u64);
        StoredPrefix { bytes: taken.bytes, lost: taken.lost.or(lost) }
    }

    /// Writes the bytes after those that the file has. Returns the number of these bytes that are in
    /// the file now.
    fn write(&mut self, place: &WritePlace<'_>, stream: Stream, bytes: &[u8]) -> StoredPrefix {
        let file = match self.prepare_file(place, stream) {
            Ok(file) => file,
            Err(why) => return StoredPrefix::partial(0, why),
        };
        let fail = |error: &io::Error| StoredPrefix::partial(0, drop_reason(error));
        let length = match write_unstored(place, &file).and_then(|()| file.metadata()) {
            Ok(metadata) => metadata.len(),
            Err(error) => return fail(&error),
        };
        let position = place.segment.position(place.offset);
        // A write past the end of a truncated file would hide the truncation.
        if length < position
            && let Err(error) = self.record_cut(place)
        {
            return fail(&error);
        }
        write_prefix(&file, bytes, position, place.dir.counters())
    }

    /// Moves up to `wanted` bytes from a pipe to the file, and reads them into the block.
    ///
    /// # Errors
    /// `WouldBlock` if the pipe is empty.
    pub(crate) fn splice(
        &mut self,
        place: &WritePlace<'_>,
        stream: Stream,
        pipe: BorrowedFd<'_>,
        wanted: usize,
        block: &mut Vec<u8>,
    ) -> io::Result<Spliced> {
        let Ok(file) = self.prepare_file(place, stream) else { return Ok(Spliced::NotPossible) };
        let position = place.segment.position(place.offset);
        let is_whole = file.metadata().is_ok_and(|metadata| metadata.len() >= position);
        if !is_whole
            || write_unstored(place, &file).is_err()
            || place.segment.take_room(wanted).is_err()
        {
            return Ok(Spliced::NotPossible);
        }
        let put_back = |bytes: usize| {
            place.segment.lock().charge.put_back(Tier::Disk, bytes as u64);
        };
        let moved = match splice_to_file(pipe, &file, position, wanted) {
            Ok(moved) => moved,
            Err(error) => {
                put_back(wanted);
                if error.kind() == io::ErrorKind::WouldBlock {
                    return Err(error);
                }
                // A full disk may have room later; a file system that cannot do this never will.
                self.can_splice = drop_reason(&error) == DropReason::DiskFull;
                return Ok(Spliced::NotPossible);
            }
        };
        put_back(wanted - moved);
        block.resize(moved, 0);
        let read = file.read_exact_at(block, position);
        if place.dir.counters().checked(SpillOperation::Read, read).is_err() {
            put_back(moved);
            return Ok(Spliced::Unreadable(moved));
        }
        if let SegmentStore::Durable(store) = &mut place.segment.lock().store {
            store.add_written(block, place.memory_bytes);
        }
        Ok(Spliced::Stored)
    }

    /// Writes the bytes that only memory holds, of all segments. If a file does not take them, memory
    /// keeps them.
    pub(crate) fn store_rest(&mut self, place: &WritePlace<'_>) {
        let _operation = place.dir.disk().begin();
        for segment in place.log.segments().iter().filter(|segment| segment.has_unstored()) {
            let part = WritePlace { segment, ..*place };
            if let Ok(file) = self.open_file(&part) {
                // The failure is counted.
                write_unstored(&part, &file).ok();
            }
            // A full segment gets no more bytes.
            if !Arc::ptr_eq(segment, place.segment) && !segment.has_unstored() {
                segment.shrink();
            }
        }
    }

    /// Ends the writing of the positions of a closed log, unless only memory holds some bytes.
    pub(crate) fn end_positions(&self, log: &SharedLog) {
        if let Some(file) = &self.positions.file
            && !log.has_unstored()
        {
            file.end_writing();
        }
    }

    /// The file of the segment, with all records before the next byte, which comes from `stream`.
    fn prepare_file(
        &mut self,
        place: &WritePlace<'_>,
        stream: Stream,
    ) -> Result<Arc<File>, DropReason> {
        // Also if the file cannot be created: memory may keep the bytes.
        self.positions.set_stream(place.offset, stream);
        self.open_file(place)
    }

    /// The file of the segment, with all records.
    fn open_file(&mut self, place: &WritePlace<'_>) -> Result<Arc<File>, DropReason> {
        let file = self.segment_file(place).map_err(|error| drop_reason(&error))?;
        self.write_positions(place)?;
        file.open_to_write().map_err(|error| drop_reason(&error))
    }

    /// The file of the segment, which is created with its first byte.
    fn segment_file(&self, place: &WritePlace<'_>) -> io::Result<Arc<SpillFile>> {
        if let SegmentStore::Durable(DurableBytes { file: Some(file), .. }) =
            &place.segment.lock().store
        {
            return Ok(Arc::clone(file));
        }
        let part = FilePart::Segment(place.segment.start.offset);
        let file = Arc::new(place.dir.create_named(&self.name, part)?);
        if let SegmentStore::Durable(store) = &mut place.segment.lock().store {
            store.file = Some(Arc::clone(&file));
        }
        Ok(file)
    }

    /// Writes the records that are not in the file of positions yet.
    pub(crate) fn write_positions(&mut self, place: &WritePlace<'_>) -> Result<(), DropReason> {
        if self.positions.is_written() {
            return Ok(());
        }
        let had_file = self.positions.file.is_some();
        let bytes = self.positions.unpaid_bytes();
        place.segment.take_room(bytes)?;
        let make_file = || place.dir.create_named(&self.name, FilePart::Positions);
        let written = self.positions.write(make_file).map_err(|error| {
            place.segment.lock().charge.put_back(Tier::Disk, bytes as u64);
            drop_reason(&error)
        });
        if !had_file && let Some(file) = &self.positions.file {
            for segment in place.log.segments() {
                segment.lock().positions = Some(Arc::clone(file));
            }
        }
        written
    }

    /// Records that somebody truncated the file.
    fn record_cut(&mut self, place: &WritePlace<'_>) -> io::Result<()> {
        place.segment.detect_file_cut()?;
        if let Some(cut) = place.segment.cut() {
            self.positions.push(PositionRecord::Cut(cut));
            self.write_positions(place).map_err(|_| io::ErrorKind::StorageFull)?;
        }
        Ok(())
    }
}

/// Writes the bytes that only memory holds, because the file did not take them.
fn write_unstored(place: &WritePlace<'_>, file: &File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let (unstored, in_file) = {
        let mut inner = place.segment.lock();
        let SegmentStore::Durable(DurableBytes { copy: Some(copy), .. }) = &mut inner.store else {
            return Ok(());
        };
        // If somebody has truncated the file, memory has the bytes.
        copy.in_file = copy.in_file.min(length);
        let unstored = copy.bytes.get(copy.in_file as usize..).unwrap_or_default();
        if unstored.is_empty() {
            return Ok(());
        }
        (unstored.to_vec(), copy.in_file)
    };
    let written = file.write_all_at(&unstored, in_file);
    place.dir.counters().checked(SpillOperation::Write, written)?;
    if let SegmentStore::Durable(DurableBytes { copy: Some(copy), .. }) =
        &mut place.segment.lock().store
    {
        copy.in_file += unstored.len() as u64;
    }
    Ok(())
}

/// The bytes of one segment of a durable log: in a file with a name from the first byte on, and in
/// memory as well while they are few.
///
/// Invariant: `copy` is there while the file does not hold all bytes of the segment.
#[derive(Debug)]
pub(crate) struct DurableBytes {
    /// The file, unless there are no bytes or it could not be created.
    pub(crate) file: Option<Arc<SpillFile>>,
    pub(crate) copy: Option<Box<MemoryCopy>>,
}

/// All bytes of a segment.
#[derive(Debug, Default)]
pub(crate) struct MemoryCopy {
    pub(crate) bytes: Vec<u8>,
    /// Bytes that the file holds as well, from the segment's start.
    pub(crate) in_file: u64,
}

impl DurableBytes {
    /// A store without bytes.
    pub(crate) fn new() -> Self {
        Self { file: None, copy: Some(Box::default()) }
    }

    /// The number of bytes that only memory holds.
    pub(crate) fn unstored_bytes(&self) -> u64 {
        let unstored = |copy: &MemoryCopy| (copy.bytes.len() as u64).saturating_sub(copy.in_file);
        self.copy.as_deref().map_or(0, unstored)
    }

    /// `true` if the file holds all of the segment's bytes; `bytes` is their number.
    pub(crate) fn is_in_file(&self, bytes: u64) -> bool {
        self.copy.as_ref().is_none_or(|copy| copy.in_file == bytes)
    }

    /// Adds bytes that the file holds already. Drops the copy if it would be larger than `limit`.
    fn add_written(&mut self, bytes: &[u8], limit: usize) {
        match &mut self.copy {
            Some(copy) if copy.bytes.len() + bytes.len() <= limit => {
                push_bounded(&mut copy.bytes, bytes, limit);
                copy.in_file += bytes.len() as u64;
            }
            Some(_) | None => self.copy = None,
        }
    }
}

/// Appends to a memory store without growing its buffer past `limit`, as doubling alone would.
pub(crate) fn push_bounded(memory: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let needed = memory.len() + bytes.len();
    if needed > memory.capacity() {
        let capacity = (needed * 2).min(limit).max(needed);
        memory.reserve_exact(capacity - memory.len());
    }
    memory.extend_from_slice(bytes);
}

/// The number of bytes that were stored, from the first on, and the reason why the others were not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredPrefix {
    pub(crate) bytes: usize,
    pub(crate) lost: Option<DropReason>,
}

impl StoredPrefix {
    pub(crate) const fn all(bytes: usize) -> Self {
        Self { bytes, lost: None }
    }

    pub(crate) const fn partial(bytes: usize, why: DropReason) -> Self {
        Self { bytes, lost: Some(why) }
    }
}

/// Classifies an I/O error by its meaning for the bytes that were to be written.
pub(crate) fn drop_reason(error: &io::Error) -> DropReason {
    let is_full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    );
    if is_full { DropReason::DiskFull } else { DropReason::IoError }
}

/// Writes as much as the file takes: on a full disk, a prefix.
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

/// The state of the read end of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipeState {
    /// This many bytes can be read, at least one.
    Bytes(usize),
    /// Nothing is left, and nobody can write any more.
    Ended,
    /// Something that does not tell how much can be read.
    NotAPipe,
}

/// Looks at a pipe without reading from it.
///
/// # Errors
/// `WouldBlock` if the pipe is empty and not at its end.
pub(crate) fn pipe_state(pipe: BorrowedFd<'_>) -> io::Result<PipeState> {
    let Ok(available) = ioctl_fionread(pipe) else { return Ok(PipeState::NotAPipe) };
    if let Ok(bytes @ 1..) = usize::try_from(available) {
        return Ok(PipeState::Bytes(bytes));
    }
    let mut waiting = [PollFd::from_borrowed_fd(pipe, PollFlags::IN)];
    poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    let now = waiting[0].revents();
    if now.contains(PollFlags::IN) {
        // Bytes that came meanwhile.
        return Ok(PipeState::Bytes(1));
    }
    if now.contains(PollFlags::HUP) {
        return Ok(PipeState::Ended);
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// Moves up to `bytes` from a pipe to a position of a file, without waiting for the pipe. Returns
/// the number of bytes; 0 at the end of the pipe.
///
/// # Errors
/// `WouldBlock` if the pipe is empty; else the system's error, such as `InvalidInput` if one of the
/// two cannot do this.
fn splice_to_file(
    pipe: BorrowedFd<'_>,
    file: &File,
    position: u64,
    bytes: usize,
) -> io::Result<usize> {
    loop {
        let mut at = position;
        match splice(pipe, None, file, Some(&mut at), bytes, SpliceFlags::NONBLOCK) {
            Err(Errno::INTR) => {}
            moved => return Ok(moved?),
        }
    }
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
    fn each_write_error_has_a_drop_reason() {
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

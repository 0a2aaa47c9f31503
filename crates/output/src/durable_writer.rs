//! Writes the files of a durable log.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::Stream;
use crate::counters::{DropReason, SpillOperation, Tier};
use crate::durable_bytes::{DurableBytes, push_bounded};
use crate::file_name::{FilePart, LogName};
use crate::pipe_splice::splice_to_file;
use crate::positions::{PositionRecord, PositionWriter};
use crate::segment::{LogSegment, SegmentStore};
use crate::shared_log::SharedLog;
use crate::spill::{SpillDir, SpillFile};
use crate::stored_prefix::{StoredPrefix, drop_reason, write_prefix};

/// The part of a log's writer that only durable logs have.
#[derive(Debug)]
pub(crate) struct DurableWriter {
    name: LogName,
    pub(crate) positions: PositionWriter,
    /// `false` once the kernel has refused to move bytes from the pipe to the file.
    can_splice: bool,
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
    pub(crate) const fn new(name: LogName, positions: PositionWriter) -> Self {
        Self { name, positions, can_splice: true }
    }

    pub(crate) const fn can_splice(&self) -> bool {
        self.can_splice
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
        if let Some(file) = self.positions.file()
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
        file.open().map_err(|error| drop_reason(&error))
    }

    /// The file of the segment, which is created with its first byte.
    fn segment_file(&self, place: &WritePlace<'_>) -> io::Result<Arc<SpillFile>> {
        if let SegmentStore::Durable(DurableBytes { file: Some(file), .. }) =
            &place.segment.lock().store
        {
            return Ok(Arc::clone(file));
        }
        let part = FilePart::Segment(place.segment.start().offset);
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
        let had_file = self.positions.file().is_some();
        let bytes = self.positions.unpaid_bytes();
        place.segment.take_room(bytes)?;
        let make_file = || place.dir.create_named(&self.name, FilePart::Positions);
        let written = self.positions.write(make_file).map_err(|error| {
            place.segment.lock().charge.put_back(Tier::Disk, bytes as u64);
            drop_reason(&error)
        });
        if !had_file && let Some(file) = self.positions.file() {
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

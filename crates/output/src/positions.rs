//! The positions of a durable log: a file with a record for each change of the stream, each gap,
//! each cut of a file, each segment after the first and each mark of a time after the first, in the
//! order in which they came. Together with the bytes of a segment they give its index again.
//!
//! A record is written before the bytes after it, so that a crash leaves at most records without
//! bytes; the mark of a time may come with the bytes after those. A log of one stream that was written
//! within a second, with nothing missing, has no such file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use flate2::Crc;
use memchr::memchr_iter;

use crate::counters::{DropReason, SpillOperation};
use crate::index::{FileCut, LogPosition, RunIndex, Stream, StreamRun, to_unix_ms};
use crate::spill::SpillFile;

/// Bytes of one record: four numbers, kind, detail, two unused bytes and a checksum.
pub(crate) const POSITION_BYTES: usize = 40;
/// Records that are read at once.
const RECORDS_AT_ONCE: usize = 256;

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PositionRecord {
    /// The bytes from this offset on come from this stream.
    Stream { offset: u64, stream: Stream },
    /// Bytes were lost right before this position.
    Gap { at: LogPosition, bytes: u64, why: DropReason },
    /// Bytes that somebody else cut off the file.
    Cut(FileCut),
    /// A segment starts.
    Segment(LogPosition),
    /// The bytes from this offset on were written at this time or later.
    Time(TimeRecord),
}

/// A mark of the time at which a log grew, and the times of the mark before it; all in milliseconds
/// since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeRecord {
    pub(crate) offset: u64,
    pub(crate) time: u64,
    /// The first and the last write before it.
    pub(crate) previous: (u64, u64),
}

impl PositionRecord {
    /// The offset from which on the record holds.
    pub(crate) const fn offset(&self) -> u64 {
        match self {
            Self::Stream { offset, .. } => *offset,
            Self::Gap { at, .. } => at.offset,
            Self::Cut(cut) => cut.from,
            Self::Segment(start) => start.offset,
            Self::Time(mark) => mark.offset,
        }
    }

    fn encode(&self) -> [u8; POSITION_BYTES] {
        let (kind, detail, numbers) = match self {
            Self::Stream { offset, stream } => {
                let detail = match stream {
                    Stream::Stdout => 0,
                    Stream::Stderr => 1,
                };
                (1, detail, [*offset, 0, 0, 0])
            }
            Self::Gap { at, bytes, why } => {
                (2, why.code(), [at.offset, at.lines, at.stderr_bytes, *bytes])
            }
            Self::Cut(FileCut { from, to }) => {
                (3, 0, [*from, to.lines, to.stderr_bytes, to.offset])
            }
            Self::Segment(start) => (4, 0, [start.offset, start.lines, start.stderr_bytes, 0]),
            Self::Time(TimeRecord { offset, time, previous }) => {
                (5, 0, [*offset, *time, previous.0, previous.1])
            }
        };
        let mut record = [0; POSITION_BYTES];
        for (place, number) in record.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        record[32] = kind;
        record[33] = detail;
        let sum = checksum(&record[..36]);
        record[36..].copy_from_slice(&sum.to_le_bytes());
        record
    }

    /// The record; `None` if it was not written completely, or is of a kind that is not known.
    fn decode(record: &[u8; POSITION_BYTES]) -> Option<Self> {
        let (content, sum) = record.split_last_chunk::<4>()?;
        if checksum(content) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut numbers = content.chunks_exact(8).filter_map(|number| number.first_chunk::<8>());
        let mut next = || numbers.next().map(|number| u64::from_le_bytes(*number));
        let at = LogPosition { offset: next()?, lines: next()?, stderr_bytes: next()? };
        let last = next()?;
        let offset = at.offset;
        match (record[32], record[33]) {
            (1, 0) => Some(Self::Stream { offset, stream: Stream::Stdout }),
            (1, 1) => Some(Self::Stream { offset, stream: Stream::Stderr }),
            (2, code) => Some(Self::Gap { at, bytes: last, why: DropReason::from_code(code)? }),
            (3, 0) => {
                Some(Self::Cut(FileCut { from: offset, to: LogPosition { offset: last, ..at } }))
            }
            (4, 0) => Some(Self::Segment(at)),
            (5, 0) => {
                let previous = (at.stderr_bytes, last);
                Some(Self::Time(TimeRecord { offset, time: at.lines, previous }))
            }
            _ => None,
        }
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Reads records one by one, in bounded memory. The first record that is not whole ends them.
#[derive(Debug)]
pub(crate) struct PositionReader {
    file: Option<Arc<File>>,
    /// The number of the first record that was not read.
    next: u64,
    /// The records that were read and not returned, in reverse order.
    ahead: Vec<PositionRecord>,
}

impl PositionReader {
    /// Reads from the start of the file; no records if there is no file.
    ///
    /// # Errors
    /// If the file exists and cannot be opened.
    pub(crate) fn new(file: Option<&SpillFile>) -> io::Result<Self> {
        let file = match file.map(SpillFile::open).transpose() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => opened?,
        };
        Ok(Self { file, next: 0, ahead: Vec::new() })
    }

    /// The next record; `None` after the last.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<PositionRecord>> {
        if self.ahead.is_empty()
            && let Some(file) = &self.file
        {
            let mut bytes = vec![0; RECORDS_AT_ONCE * POSITION_BYTES];
            let filled = read_up_to(file, &mut bytes, self.next * POSITION_BYTES as u64)?;
            let (records, _) = bytes[..filled].as_chunks::<POSITION_BYTES>();
            self.ahead = records.iter().map_while(PositionRecord::decode).collect();
            self.next += self.ahead.len() as u64;
            if self.ahead.len() < RECORDS_AT_ONCE {
                self.file = None;
            }
            self.ahead.reverse();
        }
        Ok(self.ahead.pop())
    }
}

/// Fills the buffer as far as the file has bytes. Returns their number.
fn read_up_to(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Writes the records of one log. Records that cannot be written wait for the next attempt.
#[derive(Debug)]
pub(crate) struct PositionWriter {
    pub(crate) file: Option<Arc<SpillFile>>,
    /// The number of records in the file.
    written: u64,
    /// The last record in the file, if this writer wrote it.
    last: Option<PositionRecord>,
    pending: Vec<PositionRecord>,
    /// The stream of the next byte by the last record, written or pending.
    stream: Stream,
    /// `true` if records without bytes may follow those that count: they would be in the way of the next.
    must_cut: bool,
}

impl PositionWriter {
    /// Writes the first record of a log.
    pub(crate) const fn new() -> Self {
        let stream = Stream::Stdout;
        Self { file: None, written: 0, last: None, pending: Vec::new(), stream, must_cut: false }
    }

    /// Goes on after this many records. Others are removed, now or before the next bytes are written.
    pub(crate) fn resume(file: Arc<SpillFile>, written: u64, stream: Stream) -> Self {
        let pending = Vec::new();
        let mut writer =
            Self { file: Some(file), written, last: None, pending, stream, must_cut: true };
        writer.cut().ok();
        writer
    }

    fn cut(&mut self) -> io::Result<()> {
        if self.must_cut
            && let Some(file) = &self.file
        {
            let length = self.written * POSITION_BYTES as u64;
            if file.length()? != length {
                file.open_to_write()?.set_len(length)?;
            }
            self.must_cut = false;
        }
        Ok(())
    }

    /// Sets the stream of the byte at this offset.
    pub(crate) fn set_stream(&mut self, offset: u64, stream: Stream) {
        if self.stream != stream {
            self.stream = stream;
            self.pending.push(PositionRecord::Stream { offset, stream });
        }
    }

    /// Adds a cut or a segment.
    pub(crate) fn push(&mut self, record: PositionRecord) {
        self.pending.push(record);
    }

    /// Adds a mark of the time at which the bytes from an offset on were written, with the first and
    /// the last write before it.
    pub(crate) fn push_time(&mut self, offset: u64, time: Instant, previous: (Instant, Instant)) {
        let (first, last) = previous;
        let times = (to_unix_ms(time), to_unix_ms(first), to_unix_ms(last));
        if let (Some(time), Some(first), Some(last)) = times {
            let record = TimeRecord { offset, time, previous: (first, last) };
            self.pending.push(PositionRecord::Time(record));
        }
    }

    /// Adds a loss, to the gap at the same offset if that is the last record.
    pub(crate) fn push_gap(&mut self, at: LogPosition, bytes: u64, why: DropReason) {
        if self.pending.is_empty()
            && let Some(PositionRecord::Gap { at: last, .. }) = self.last
            && last.offset == at.offset
        {
            // Its record is written again, in the same place.
            self.written -= 1;
            self.pending.extend(self.last.take());
        }
        match self.pending.last_mut() {
            Some(PositionRecord::Gap { at: last, bytes: all, why: last_why })
                if last.offset == at.offset =>
            {
                *all += bytes;
                *last_why = why;
            }
            _ => self.pending.push(PositionRecord::Gap { at, bytes, why }),
        }
    }

    /// The number of pending records that are charged to the quota: the changes of the stream.
    pub(crate) fn unpaid_bytes(&self) -> usize {
        let is_charged = |record: &&PositionRecord| matches!(record, PositionRecord::Stream { .. });
        self.pending.iter().filter(is_charged).count() * POSITION_BYTES
    }

    /// `true` if every record is in the file.
    pub(crate) const fn is_written(&self) -> bool {
        self.pending.is_empty() && !self.must_cut
    }

    /// Writes the pending records. On failure they stay pending.
    pub(crate) fn write(
        &mut self,
        make_file: impl FnOnce() -> io::Result<SpillFile>,
    ) -> io::Result<()> {
        self.cut()?;
        if self.pending.is_empty() {
            return Ok(());
        }
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(self.file.insert(Arc::new(make_file()?))),
        };
        let records: Vec<[u8; POSITION_BYTES]> =
            self.pending.iter().map(PositionRecord::encode).collect();
        let at = self.written * POSITION_BYTES as u64;
        let written =
            file.open_to_write().and_then(|file| file.write_all_at(records.as_flattened(), at));
        file.counters().checked(SpillOperation::Write, written)?;
        self.written += records.len() as u64;
        self.last = self.pending.pop();
        self.pending.clear();
        Ok(())
    }
}

/// The most runs that memory takes if they cannot be written (2 MiB): enough for the log of one stream
/// with 4 GB.
const MAX_RUNS: usize = 64 * 1024;

/// Bytes that are read at once.
const BLOCK_BYTES: u64 = 64 * 1024;

/// The result of a scan.
#[derive(Debug)]
pub(crate) struct ScannedSegment {
    pub(crate) index: RunIndex,
    pub(crate) end: LogPosition,
    /// `true` if bytes follow the last finished line.
    pub(crate) open_line: bool,
}

/// The part of a log to scan.
#[derive(Debug)]
pub(crate) struct ScanRange {
    pub(crate) start: LogPosition,
    pub(crate) end: u64,
    pub(crate) cut: Option<FileCut>,
}

/// Reads a segment once. `read_at` fills a buffer with the bytes at an offset; `make_file` creates a
/// file for runs that are too many for memory. While the disk cannot be written, memory takes more.
///
/// # Errors
/// If the bytes or the positions cannot be read, or the runs not written.
pub(crate) fn scan_segment(
    range: &ScanRange,
    positions: Option<&SpillFile>,
    mut read_at: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    make_file: impl Fn() -> io::Result<SpillFile>,
) -> io::Result<ScannedSegment> {
    let mut scan = IndexScan::new(range.start, PositionReader::new(positions)?)?;
    let mut block = Vec::new();
    while scan.at.offset < range.end {
        let offset = scan.at.offset;
        if let Some(cut) = range.cut.filter(|cut| (cut.from..cut.to.offset).contains(&offset)) {
            scan.skip(cut.to)?;
            continue;
        }
        let next_cut = range.cut.map(|cut| cut.from).filter(|from| *from > offset);
        let end = range.end.min(offset + BLOCK_BYTES).min(next_cut.unwrap_or(u64::MAX));
        block.resize((end - offset) as usize, 0);
        read_at(offset, &mut block)?;
        scan.push(&block)?;
        if let Err(error) = scan.index.move_overdue(&make_file)
            && scan.index.overdue().is_some_and(|runs| runs.len() > MAX_RUNS)
        {
            return Err(error);
        }
    }
    // Gaps at the very end end the last line.
    scan.pass_records()?;
    scan.index.shrink();
    Ok(ScannedSegment { index: scan.index, end: scan.at, open_line: scan.open_line })
}

struct IndexScan {
    at: LogPosition,
    stream: Stream,
    open_line: bool,
    index: RunIndex,
    records: PositionReader,
    next: Option<PositionRecord>,
}

impl IndexScan {
    fn new(start: LogPosition, mut records: PositionReader) -> io::Result<Self> {
        let next = records.next()?;
        let index = RunIndex::default();
        let mut scan =
            Self { at: start, stream: Stream::Stdout, open_line: false, index, records, next };
        scan.pass_records()?;
        Ok(scan)
    }

    /// Applies the records up to the current offset.
    fn pass_records(&mut self) -> io::Result<()> {
        while let Some(record) = self.next.filter(|record| record.offset() <= self.at.offset) {
            match record {
                PositionRecord::Stream { stream, .. } => self.stream = stream,
                PositionRecord::Gap { at, .. } if at.offset == self.at.offset => {
                    self.at.lines = at.lines;
                    self.open_line = false;
                    self.index.end_run();
                }
                PositionRecord::Gap { .. }
                | PositionRecord::Cut(_)
                | PositionRecord::Segment(_)
                | PositionRecord::Time(_) => {}
            }
            self.next = self.records.next()?;
        }
        Ok(())
    }

    fn skip(&mut self, to: LogPosition) -> io::Result<()> {
        self.at = to;
        self.index.end_run();
        self.pass_records()
    }

    fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.pass_records()?;
            let until_record = self.next.map_or(u64::MAX, |next| next.offset() - self.at.offset);
            let length = bytes.len().min(self.index.room_for(self.stream));
            let length = length.min(usize::try_from(until_record).unwrap_or(usize::MAX));
            let (run, rest) = bytes.split_at(length);
            let LogPosition { offset, lines: line, .. } = self.at;
            let stream = self.stream;
            self.index.add(StreamRun { offset, line, time: 0, length: run.len() as u32, stream });
            self.at.offset += run.len() as u64;
            self.at.lines += memchr_iter(b'\n', run).count() as u64;
            self.open_line = run.last() != Some(&b'\n');
            if stream == Stream::Stderr {
                self.at.stderr_bytes += run.len() as u64;
            }
            bytes = rest;
        }
        Ok(())
    }
}

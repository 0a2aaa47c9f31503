//! Rebuilds the index of a segment from its bytes and the positions of its log.

use std::io;

use memchr::memchr_iter;

use crate::index::{FileCut, LogPosition, RunIndex, Stream, StreamRun};
use crate::positions::{PositionReader, PositionRecord};
use crate::spill::SpillFile;

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
/// file for runs that are too many for memory.
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
        scan.index.move_overdue(&make_file)?;
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

//! Finds the section of a line by reading the lines before it.

use std::io;

use memchr::memchr;

use super::tracker::{SectionHead, SectionTracker};
use crate::Stream;
use crate::line_scan::{More, TextBlock};
use crate::pattern::searchable_text;
use crate::reader::BlockingReader;
use crate::views::Charset;

/// The bytes before a line that are read to find its section. A head further up is not found.
const LOOK_BACK_BYTES: u64 = 256 * 1024;
/// The bytes before the newest line that are read again, for those who need the lines above.
const OVERLAP_BYTES: u64 = 4 * 1024;
/// The bytes after a line that are read to find the exception of its traceback.
const LOOK_AHEAD_BYTES: u64 = 16 * 1024;
/// The bytes that are read for one search. Later lines get no head.
const MAX_READ_BYTES: u64 = 16 * 1024 * 1024;

/// Finds the sections of lines with rising offsets.
#[derive(Debug)]
pub(crate) struct SectionFinder<'a> {
    reader: &'a BlockingReader,
    stream: Option<Stream>,
    charset: Charset,
    tracker: SectionTracker,
    /// The offset of the newest line that was added to the tracker.
    newest: Option<u64>,
    read_bytes: u64,
}

impl<'a> SectionFinder<'a> {
    pub(crate) fn new(
        reader: &'a BlockingReader,
        stream: Option<Stream>,
        charset: Charset,
    ) -> Self {
        Self {
            reader,
            stream,
            charset,
            tracker: SectionTracker::default(),
            newest: None,
            read_bytes: 0,
        }
    }

    /// The head of the section that the line at `offset` is in. `None` if the line is in no section
    /// that is known, or is a head itself.
    pub(crate) fn find_head(&mut self, offset: u64) -> io::Result<Option<SectionHead>> {
        if self.read_bytes >= MAX_READ_BYTES {
            return Ok(None);
        }
        self.follow_to(offset)?;
        self.explain_trace(offset)?;
        let Some(head) = self.tracker.head(offset) else { return Ok(None) };
        Ok(Some(SectionHead { number: self.reader.line_at(head.offset)?, text: head.text }))
    }

    /// Adds the lines up to the one at `offset` to the tracker.
    fn follow_to(&mut self, offset: u64) -> io::Result<()> {
        let earliest = offset.saturating_sub(LOOK_BACK_BYTES);
        let newest = self.newest.filter(|newest| *newest >= earliest);
        if newest.is_none() {
            self.tracker = SectionTracker::default();
        }
        let from = newest.map_or(earliest, |newest| newest.saturating_sub(OVERLAP_BYTES));
        let block = self.read(from, offset + OVERLAP_BYTES)?;
        let bytes = block.bytes();
        let line_end = |position: usize| {
            let newline = memchr(b'\n', &bytes[position..]);
            newline.map_or(bytes.len(), |newline| position + newline + 1)
        };
        // The first line is whole at the start of the log alone.
        let start = match newest {
            Some(newest) => line_end(block.position_at(newest)),
            None if from == 0 => 0,
            None => line_end(0),
        };
        let end = line_end(block.position_at(offset));
        self.tracker.add_lines(&bytes[..end], start.min(end), block.offsets());
        self.newest = Some(offset);
        Ok(())
    }

    /// Reads on for the exception of a traceback.
    fn explain_trace(&mut self, offset: u64) -> io::Result<()> {
        if self.tracker.unexplained_trace().is_none() {
            return Ok(());
        }
        let block = self.read(offset, offset + LOOK_AHEAD_BYTES)?;
        let mut lines: Vec<(u64, String)> = Vec::new();
        let mut at = 0;
        for line in block.bytes().split_inclusive(|byte| *byte == b'\n') {
            let is_whole = line.ends_with(b"\n");
            if at > 0 && is_whole {
                let text = String::from_utf8_lossy(&searchable_text(line)).into_owned();
                lines.push((block.offsets().offset_at(at), text));
            }
            at += line.len();
        }
        if let Some(trace) = self.tracker.unexplained_trace() {
            trace.explain(lines.iter().map(|(offset, text)| (*offset, text.as_str())));
        }
        Ok(())
    }

    /// Reads the part of the log from `from` to `to`, as far as it goes.
    fn read(&mut self, from: u64, to: u64) -> io::Result<TextBlock> {
        let total = self.reader.progress().total_bytes;
        let from = self.charset.aligned(from).min(total);
        let to = to.min(total).max(from);
        self.read_bytes += to - from;
        let chunks = self.reader.chunks(self.stream, from, to);
        let mut block = TextBlock::new(chunks, from, self.charset);
        while block.fill(0)? == More::Maybe {}
        Ok(block)
    }
}

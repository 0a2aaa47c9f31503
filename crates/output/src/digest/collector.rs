//! Scans a log block by block, and collects the spots of errors, warnings and tool results.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::LazyLock;
use std::time::Instant;
use std::{io, mem};

use memchr::{memchr, memchr_iter, memchr2, memrchr};
use regex::bytes::Regex;

use super::formats::{Formats, OutputLine, ToolSummary, signs};
use super::lines::{
    ERROR_WORDS, FLAGS, LineSeverity, TracebackRole, Tracebacks, WARNING_WORDS, classify_line,
    ever_shows, find_severity, readable,
};
use crate::Stream;
use crate::chunks::{ChunkStep, LogChunks};
use crate::reader::BlockingReader;
use crate::views::Charset;

/// The length from which the position of the matching word in a line is recorded.
const LONG_LINE: usize = 4 * 1024;

/// The visibility of the scanned range: shown in the reply, or hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visibility {
    Shown,
    Hidden,
}

/// The results of a scan so far, in bounded memory.
#[derive(Debug)]
pub(super) struct DigestCollector<'a> {
    reader: &'a BlockingReader,
    stream: Option<Stream>,
    charset: Charset,
    pub(super) errors: FoundSpots,
    /// The errors of hidden ranges.
    pub(super) hidden: FoundSpots,
    pub(super) warnings: FoundSpots,
    pub(super) newlines: u64,
    pub(super) bytes: u64,
    formats: Formats,
    tracebacks: Tracebacks,
    /// `true` if the next line is examined, whatever it says.
    wants_next: bool,
    /// The offset that the scan reached.
    end: u64,
    /// The kind of text that the next block begins with.
    begins: LinePiece,
    /// The offset of the line that the next block continues.
    line_start: u64,
    rows: RowTracker,
}

impl<'a> DigestCollector<'a> {
    pub(super) fn new(
        reader: &'a BlockingReader,
        stream: Option<Stream>,
        charset: Charset,
    ) -> Self {
        Self {
            reader,
            stream,
            charset,
            errors: FoundSpots::default(),
            hidden: FoundSpots::default(),
            warnings: FoundSpots::default(),
            newlines: 0,
            bytes: 0,
            formats: Formats::new(),
            tracebacks: Tracebacks::default(),
            wants_next: false,
            end: 0,
            begins: LinePiece::Start,
            line_start: 0,
            rows: RowTracker::default(),
        }
    }

    /// Scans a range until the deadline, if there is one, but at least one block. Returns `true` if
    /// it reached the end of the range.
    pub(super) fn scan_range(
        &mut self,
        range: Range<u64>,
        part: Visibility,
        deadline: Option<Instant>,
    ) -> io::Result<bool> {
        if range.start != self.end {
            self.skip_to(range.start);
        }
        let reader = self.reader;
        let chunks = reader.chunks(self.stream, range.start, range.end);
        let mut blocks = DecodedBlocks::new(chunks, self.charset);
        while let Some(block) = blocks.next()? {
            self.scan_block(block, part);
            self.end = block.end;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(self.end >= range.end);
            }
        }
        self.end = range.end;
        Ok(true)
    }

    /// The results of all tools, in the order of the log.
    pub(super) fn tool_summaries(&self) -> Vec<ToolSummary> {
        let mut endings = self.formats.summaries();
        endings.extend(self.tracebacks.last_summary());
        endings.sort_by_key(|ending| ending.offset);
        endings
    }

    /// Scanned lines, an unfinished last one included.
    pub(super) fn lines(&self) -> u64 {
        self.newlines + u64::from(self.begins == LinePiece::Rest)
    }

    /// Separates the next range from the scanned one: lines before and after do not belong
    /// together.
    fn skip_to(&mut self, offset: u64) {
        self.begins = LinePiece::Start;
        self.rows.reset();
        self.formats.read(OutputLine { offset, text: "" });
        self.tracebacks.close();
        self.wants_next = false;
    }

    fn scan_block(&mut self, block: DecodedBlock<'_>, part: Visibility) {
        let bytes = block.bytes;
        let search = CandidateSearch::for_block(bytes);
        let mut at = 0;
        let mut passed = 0;
        while let Some(line) = self.next_line(bytes, at, search) {
            at = line.end + 1;
            // The codes that move the cursor to a line's row are in the line itself.
            let row = self.rows.pass(&bytes[passed..line.end], search.moves());
            passed = line.end;
            let piece = if line.start == 0 { self.begins } else { LinePiece::Start };
            let offset = match piece {
                LinePiece::Start => block.offset_of(line.start),
                LinePiece::Rest => self.line_start,
            };
            let word = block.offset_of(line.start + word_in(&bytes[line.clone()]));
            self.scan_line(LineSpot { offset, word, row, piece }, &bytes[line], part);
        }
        self.rows.pass(&bytes[passed..], search.moves());
        self.bytes += block.source_bytes;
        self.newlines += memchr_iter(b'\n', bytes).count() as u64;
        match memrchr(b'\n', bytes) {
            Some(newline) => self.line_start = block.offset_of(newline + 1),
            None if self.begins == LinePiece::Start => self.line_start = block.offset_of(0),
            None => {}
        }
        self.begins = if bytes.ends_with(b"\n") { LinePiece::Start } else { LinePiece::Rest };
    }

    fn next_line(&self, block: &[u8], at: usize, search: CandidateSearch) -> Option<Range<usize>> {
        if self.wants_next { line_at(block, at) } else { search.next(block, at) }
    }

    fn scan_line(&mut self, spot: LineSpot, line: &[u8], part: Visibility) {
        let text = readable(line);
        match (self.tracebacks.follow(&text, spot), classify_line(line).severity) {
            (TracebackRole::Frame, _) | (_, None) => {}
            (TracebackRole::Outside, Some(LineSeverity::Error)) => self.note_error(spot, part),
            (TracebackRole::Exception { row }, Some(LineSeverity::Error)) => {
                self.note_error(LineSpot { row, ..spot }, part);
            }
            (
                TracebackRole::Outside | TracebackRole::Exception { .. },
                Some(LineSeverity::Warning),
            ) => {
                self.warnings.record(spot);
            }
        }
        // The rest of an overlong line is not a line of a tool.
        let is_begun = match spot.piece {
            LinePiece::Start => self.formats.read(OutputLine { offset: spot.offset, text: &text }),
            LinePiece::Rest => self.wants_next,
        };
        self.wants_next = is_begun || self.tracebacks.is_open();
    }

    fn note_error(&mut self, spot: LineSpot, part: Visibility) {
        self.errors.record(spot);
        if part == Visibility::Hidden {
            self.hidden.record(spot);
        }
    }
}

/// The position of the first error or warning word in a long line; 0 in other lines.
fn word_in(line: &[u8]) -> usize {
    let is_long = line.len() > LONG_LINE;
    let found = if is_long { find_severity(line) } else { None };
    found.map_or(0, |(_, at)| at)
}

/// Bytes of one block. A longer line comes in parts.
const BLOCK_BYTES: usize = 256 * 1024;

/// Whole lines, or a part of an overlong line.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecodedBlock<'a> {
    /// The bytes, as UTF-8 if the log is in another character set.
    pub(super) bytes: &'a [u8],
    /// The number of bytes in the log.
    source_bytes: u64,
    /// The offset in the log after the last byte.
    pub(super) end: u64,
    charset: Charset,
    /// The positions at which a chunk of the log, or a decoded line, starts, with their offsets in
    /// the log.
    starts: &'a [(usize, u64)],
}

impl DecodedBlock<'_> {
    /// The offset in the log of the byte at `position`.
    pub(super) fn offset_of(&self, position: usize) -> u64 {
        let after = self.starts.partition_point(|(start, _)| *start <= position);
        match after.checked_sub(1).and_then(|index| self.starts.get(index)) {
            Some((start, offset)) => {
                offset + source_length(self.charset, &self.bytes[*start..position])
            }
            None => position as u64,
        }
    }
}

/// The number of bytes in the log of a decoded text. Exact only if all of it was valid.
fn source_length(charset: Charset, decoded: &[u8]) -> u64 {
    let text = || String::from_utf8_lossy(decoded);
    let length = match charset {
        Charset::Utf8 => decoded.len(),
        Charset::Legacy(encoding) => encoding.encode(&text()).0.len(),
        Charset::Wide(_) if charset.unit() == 2 => text().encode_utf16().count() * 2,
        Charset::Wide(_) => text().chars().count() * charset.unit(),
    };
    length as u64
}

/// Reads the chunks of a log as large blocks of whole lines, in bounded memory.
#[derive(Debug)]
pub(super) struct DecodedBlocks {
    chunks: LogChunks,
    charset: Charset,
    buffer: Vec<u8>,
    starts: Vec<(usize, u64)>,
    /// The length of the last block in the buffer.
    block_length: usize,
    /// The decoded text of a block, for a log that is not in UTF-8.
    decoded: Vec<u8>,
    decoded_starts: Vec<(usize, u64)>,
}

impl DecodedBlocks {
    pub(super) const fn new(chunks: LogChunks, charset: Charset) -> Self {
        Self {
            chunks,
            charset,
            buffer: Vec::new(),
            starts: Vec::new(),
            block_length: 0,
            decoded: Vec::new(),
            decoded_starts: Vec::new(),
        }
    }

    /// The next block, which is not empty. Bytes after the last newline are in the last block.
    pub(super) fn next(&mut self) -> io::Result<Option<DecodedBlock<'_>>> {
        self.drop_last_block();
        let is_last = self.fill()?;
        self.block_length = if is_last { self.buffer.len() } else { self.whole_lines() };
        if self.block_length == 0 {
            return Ok(None);
        }
        if self.charset == Charset::Utf8 {
            return Ok(Some(self.source()));
        }
        self.decode();
        let bytes = self.decoded.as_slice();
        let starts = self.decoded_starts.as_slice();
        Ok(Some(DecodedBlock { bytes, charset: self.charset, starts, ..self.source() }))
    }

    /// The length of the whole lines in the buffer, or of the partial line if there is no whole
    /// one.
    fn whole_lines(&self) -> usize {
        self.charset.last_line_end(&self.buffer).unwrap_or_else(|| match self.charset {
            Charset::Utf8 => self.buffer.len(),
            Charset::Legacy(_) | Charset::Wide(_) => self.charset.whole_characters(&self.buffer),
        })
    }

    /// The block as it is in the log.
    fn source(&self) -> DecodedBlock<'_> {
        let bytes = &self.buffer[..self.block_length];
        let end = self.source_offset(self.block_length - 1) + 1;
        let charset = Charset::Utf8;
        let source_bytes = self.block_length as u64;
        DecodedBlock { bytes, source_bytes, end, charset, starts: &self.starts }
    }

    /// The offset in the log of a position in the buffer.
    fn source_offset(&self, position: usize) -> u64 {
        let bytes = self.buffer.as_slice();
        let starts = self.starts.as_slice();
        DecodedBlock { bytes, source_bytes: 0, end: 0, charset: Charset::Utf8, starts }
            .offset_of(position)
    }

    /// Decodes the block line by line, so that the offset of each line is known.
    fn decode(&mut self) {
        let (mut decoded, mut starts) =
            (mem::take(&mut self.decoded), mem::take(&mut self.decoded_starts));
        decoded.clear();
        starts.clear();
        let bytes = &self.buffer[..self.block_length];
        let mut start = 0;
        for end in self.charset.line_ends(bytes).chain([bytes.len()]) {
            if start < end {
                starts.push((decoded.len(), self.source_offset(start)));
                decoded.extend_from_slice(self.charset.decode(&bytes[start..end]).0.as_bytes());
            }
            start = end;
        }
        (self.decoded, self.decoded_starts) = (decoded, starts);
    }

    fn drop_last_block(&mut self) {
        let rest = self.source_offset(self.block_length);
        self.buffer.drain(..self.block_length);
        self.starts.retain(|(start, _)| *start > self.block_length);
        for (start, _) in &mut self.starts {
            *start -= self.block_length;
        }
        if !self.buffer.is_empty() && self.starts.first().is_none_or(|(start, _)| *start > 0) {
            self.starts.insert(0, (0, rest));
        }
        self.block_length = 0;
    }

    /// Reads until a block is full. Returns `true` if the chunks ended before that.
    fn fill(&mut self) -> io::Result<bool> {
        while self.buffer.len() < BLOCK_BYTES {
            match self.chunks.step()? {
                ChunkStep::Chunk => {}
                // Bytes after a hole do not belong to the line before it.
                ChunkStep::Hole => {
                    let is_open = self.buffer.last().is_some_and(|last| *last != b'\n');
                    self.buffer.extend((is_open && self.charset == Charset::Utf8).then_some(b'\n'));
                    continue;
                }
                ChunkStep::End => return Ok(true),
            }
            if let Some((offset, piece)) = self.chunks.chunk() {
                self.starts.push((self.buffer.len(), offset));
                self.buffer.extend_from_slice(piece);
            }
        }
        Ok(false)
    }
}

// Matches every line that may matter: all error and warning words and the signatures of all tools.

static CANDIDATES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let signs = signs();
    Regex::new(&format!("{FLAGS}{ERROR_WORDS}|{WARNING_WORDS}{signs}")).ok()
});

/// The way in which the candidates of a block are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CandidateSearch {
    /// One search over the whole block.
    WholeBlock,
    /// Line by line: escape codes touch the words that they colour, and text after a `\r` starts a
    /// line again.
    Lines,
}

impl CandidateSearch {
    pub(super) fn for_block(block: &[u8]) -> Self {
        if memchr2(0x1b, b'\r', block).is_some() { Self::Lines } else { Self::WholeBlock }
    }

    /// Tells whether the block may move the cursor.
    pub(super) const fn moves(self) -> CursorMoves {
        match self {
            Self::WholeBlock => CursorMoves::None,
            Self::Lines => CursorMoves::Some,
        }
    }

    /// The next line that may matter, at or after `at`, the start of a line.
    pub(super) fn next(self, block: &[u8], at: usize) -> Option<Range<usize>> {
        let pattern = CANDIDATES.as_ref()?;
        match self {
            Self::WholeBlock => {
                let end = pattern.shortest_match_at(block, at)?;
                let start = memrchr(b'\n', &block[at..end - 1]).map_or(at, |found| at + found + 1);
                line_at(block, start)
            }
            Self::Lines => {
                lines_from(block, at).find(|line| ever_shows(&block[line.clone()], pattern))
            }
        }
    }
}

/// The lines from `at` on, without their newlines.
pub(super) fn lines_from(block: &[u8], at: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = at;
    std::iter::from_fn(move || {
        let line = line_at(block, at)?;
        at = line.end + 1;
        Some(line)
    })
}

/// The line that starts at `start`, without its newline; `None` at the end.
pub(super) fn line_at(block: &[u8], start: usize) -> Option<Range<usize>> {
    let rest = block.get(start..).filter(|rest| !rest.is_empty())?;
    Some(start..start + memchr(b'\n', rest).unwrap_or(rest.len()))
}

/// Cursor up and down, and to the start of an earlier or later line. A constant: a mistake in it
/// fails the first test that runs.
static MOVES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?-u)\x1b\[([0-9]{0,4})([ABEF])").ok());

/// Tracks the screen row of each line, for programs that move the cursor up and down to redraw
/// their progress.
#[derive(Debug, Default)]
pub(super) struct RowTracker {
    row: i64,
}

impl RowTracker {
    /// Passes over bytes. Returns the row after them.
    pub(super) fn pass(&mut self, bytes: &[u8], moves: CursorMoves) -> i64 {
        self.row += memchr_iter(b'\n', bytes).count() as i64;
        if moves == CursorMoves::Some {
            self.row += rows_moved(bytes);
        }
        self.row
    }

    /// Continues at a row from which no earlier row can be reached.
    const fn reset(&mut self) {
        self.row += 10_000_000;
    }
}

/// The presence of codes that move the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CursorMoves {
    None,
    Some,
}

/// The number of rows by which all codes in the bytes move the cursor down.
fn rows_moved(bytes: &[u8]) -> i64 {
    let Some(pattern) = MOVES.as_ref() else { return 0 };
    let one = |code: regex::bytes::Captures<'_>| {
        let (_, [number, direction]) = code.extract();
        let rows = str::from_utf8(number).ok().and_then(|digits| digits.parse().ok()).unwrap_or(1);
        if matches!(direction, b"A" | b"F") { -rows } else { rows }
    };
    pattern.captures_iter(bytes).map(one).sum()
}

/// The number of first lines, and of last lines, that are remembered.
const REMEMBERED_EACH: usize = 20;
/// The height of the largest screen: a line can be redrawn this many rows back.
const SCREEN_ROWS: usize = 200;

/// The position of a line, or of a part of an overlong line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineSpot {
    /// The offset of the line's first byte.
    pub(super) offset: u64,
    /// The offset of the matching word, if the line is long.
    pub(super) word: u64,
    /// The row on an endless screen. A redrawn line has the row of the line that it covers.
    pub(super) row: i64,
    pub(super) piece: LinePiece,
}

/// A whole line, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinePiece {
    /// The whole line, or its beginning.
    Start,
    /// A later part of an overlong line.
    Rest,
}

/// Spots of lines of one severity: all are counted, the first and the last are remembered.
/// Invariant: `last` only fills once `first` is full.
#[derive(Debug, Default)]
pub(super) struct FoundSpots {
    count: u64,
    first: Vec<LineSpot>,
    last: VecDeque<LineSpot>,
    /// The newest rows, which may be redrawn.
    rows: VecDeque<i64>,
    /// The highest row so far.
    highest: Option<i64>,
}

impl FoundSpots {
    /// Records a line. A line that is redrawn on the same row counts once, and so do the parts of
    /// an overlong line.
    pub(super) fn record(&mut self, spot: LineSpot) {
        let may_be_known = self.highest.is_some_and(|highest| spot.row <= highest);
        if may_be_known && self.rows.contains(&spot.row) {
            return self.redraw(spot);
        }
        self.highest = self.highest.max(Some(spot.row));
        push_bounded(&mut self.rows, spot.row, SCREEN_ROWS);
        self.count += 1;
        if self.first.len() < REMEMBERED_EACH {
            self.first.push(spot);
        } else {
            push_bounded(&mut self.last, spot, REMEMBERED_EACH);
        }
    }

    /// Replaces the spot of a redrawn line: the final state of the screen is shown.
    fn redraw(&mut self, spot: LineSpot) {
        let mut remembered = self.first.iter_mut().chain(&mut self.last);
        if spot.piece == LinePiece::Start
            && let Some(known) = remembered.find(|known| known.row == spot.row)
        {
            *known = spot;
        }
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The remembered spots, in order.
    pub(super) fn remembered(&self) -> Vec<LineSpot> {
        self.first.iter().chain(&self.last).copied().collect()
    }

    pub(super) fn first(&self) -> Option<LineSpot> {
        self.first.first().copied()
    }

    pub(super) fn last(&self) -> Option<LineSpot> {
        self.last.back().or(self.first.last()).copied()
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, value: T, most: usize) {
    if queue.len() == most {
        queue.pop_front();
    }
    queue.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_go_down_and_codes_go_either_way() {
        let mut rows = RowTracker::default();
        assert_eq!(rows.pass(b"a\nb\n\x1b[31mc\n", CursorMoves::Some), 3);
        assert_eq!(rows.pass(b"\x1b[2A\x1b[2K", CursorMoves::Some), 1);
        assert_eq!(rows.pass(b"\x1b[F\x1b[A\x1b[3B", CursorMoves::Some), 2);
        assert_eq!(rows.pass(b"plain\n", CursorMoves::None), 3);
    }
}

#[cfg(test)]
mod findings_tests {
    use super::*;

    fn noted(spots: impl IntoIterator<Item = (u64, i64, LinePiece)>) -> FoundSpots {
        let mut findings = FoundSpots::default();
        for (offset, row, piece) in spots {
            findings.record(LineSpot { offset, word: offset, row, piece });
        }
        findings
    }

    #[test]
    fn the_first_and_the_last_are_remembered() {
        let findings = noted((0..100).map(|number| (number, number as i64, LinePiece::Start)));
        assert_eq!(findings.count(), 100);
        let remembered: Vec<u64> = findings.remembered().iter().map(|spot| spot.offset).collect();
        assert_eq!(remembered, (0..20).chain(80..100).collect::<Vec<u64>>());
        let ends = [findings.first(), findings.last()].map(|spot| spot.unwrap().offset);
        assert_eq!(ends, [0, 99]);
    }

    #[test]
    fn a_redrawn_row_counts_once_with_its_last_state() {
        let redrawn =
            noted([(0, 1, LinePiece::Start), (10, 2, LinePiece::Start), (20, 1, LinePiece::Start)]);
        assert_eq!((redrawn.count(), redrawn.first().unwrap().offset), (2, 20));
        let overlong = noted([(0, 1, LinePiece::Start), (10, 1, LinePiece::Rest)]);
        assert_eq!((overlong.count(), overlong.first().unwrap().offset), (1, 0));
    }
}

//! Pages: the size and the end of the part of a log that one read returns. The bytes come in chunks,
//! in either direction, in bounded memory.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use memchr::{memrchr, memrchr_iter};

use crate::Stream;
use crate::index::{RUN_BYTES, StreamRun};
use crate::segment::{Continuity, LogExtent, LogSegment};
use crate::shared_log::LogSnapshot;
use crate::views::Charset;

/// The smallest page. One character always fits, so every page makes progress.
const MIN_PAGE: usize = 4;

/// The longest escape code that a page waits for.
const MAX_ESCAPE: usize = 64;

/// The page of a log to read.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest {
    /// The offset of the first byte to read.
    pub from: u64,
    /// The offset before which the page ends, whatever its limits allow; `u64::MAX` = the end of
    /// the log.
    pub to: u64,
    /// The only stream to read; `None` reads both, in the order in which the bytes came.
    pub stream: Option<Stream>,
    /// Bytes at most; fewer than 4 count as 4.
    pub max_bytes: usize,
    /// Lines at most; 0 means any number.
    pub max_lines: usize,
}

impl PageRequest {
    pub(crate) fn byte_limit(&self) -> usize {
        self.max_bytes.max(MIN_PAGE)
    }
}

/// Consecutive bytes of a log, as they were written.
///
/// A page ends on a whole line if one fits, else on a whole character and escape code. The last
/// bytes of an open log are held back while they are the beginning of a character (at most 3
/// bytes). A `from` past the end gives an empty page with `start == end == from`. A hole ends a
/// page; a page that is requested from inside a hole starts after it. `to` ends a page, too, even
/// within a line or a hole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// The bytes, of one stream if the request names one.
    pub bytes: Vec<u8>,
    /// The offset of the first byte: `from` of the request, or the next readable byte after it, but
    /// never after `to`.
    pub start: u64,
    /// The offset at which the next page starts. Bytes of the other stream count too.
    pub end: u64,
    /// The state of the log after this page.
    pub end_kind: PageEnd,
    /// Bytes that the job wrote between `from` of the request and `end` and that are missing.
    pub gap_bytes: u64,
    /// The bytes of the log at the time of the read. To wait for more than this page could see,
    /// wait past this number, not past `end`.
    pub total_bytes: u64,
}

/// The state of the log after a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageEnd {
    /// More can be read at once.
    More,
    /// Nothing more so far; the job may write more.
    CaughtUp,
    /// Nothing will ever follow.
    Complete,
}

/// The known continuation of the bytes that a page is cut from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BytesAfterPage {
    Bytes,
    /// No bytes yet, but the log is open.
    Open,
    Hole,
    /// No bytes, and the log is closed.
    Closed,
}

/// Returns the number of `bytes` that make a page, and the state after it.
pub(crate) fn cut_page(
    bytes: &[u8],
    charset: Charset,
    max_lines: usize,
    rest: BytesAfterPage,
) -> (usize, PageEnd) {
    if let Some(length) = line_limit(bytes, charset, max_lines)
        && (length < bytes.len() || rest == BytesAfterPage::Bytes)
    {
        return (length, PageEnd::More);
    }
    match rest {
        BytesAfterPage::Closed => (bytes.len(), PageEnd::Complete),
        BytesAfterPage::Hole => (bytes.len(), PageEnd::More),
        BytesAfterPage::Open => (charset.whole_characters(bytes), PageEnd::CaughtUp),
        BytesAfterPage::Bytes => {
            let lines = charset.last_line_end(bytes);
            (lines.unwrap_or_else(|| whole_text_length(bytes, charset)), PageEnd::More)
        }
    }
}

/// The end of the page by the line limit, if the limit is reached.
fn line_limit(bytes: &[u8], charset: Charset, max_lines: usize) -> Option<usize> {
    charset.line_ends(bytes).nth(max_lines.checked_sub(1)?)
}

/// The length without an unfinished character or escape code at the end. Never 0 because of an
/// escape code, so that every page makes progress.
pub(crate) fn whole_text_length(bytes: &[u8], charset: Charset) -> usize {
    let length = charset.whole_characters(bytes);
    let window = length.saturating_sub(MAX_ESCAPE);
    let begun = memrchr(0x1b, &bytes[window..length]).map(|escape| window + escape);
    match begun {
        Some(escape) if escape > 0 && is_unfinished_escape(&bytes[escape + 1..length]) => escape,
        Some(_) | None => length,
    }
}

/// The byte that ends a title (OSC), unless an ESC does.
const BELL: u8 = 0x07;

/// `true` if the bytes after an ESC are the beginning of a colour or cursor code (CSI) or of a
/// title (OSC), without its end.
fn is_unfinished_escape(rest: &[u8]) -> bool {
    match rest {
        [] => true,
        [b'[', code @ ..] => code.iter().all(|byte| (0x20..0x40).contains(byte)),
        [b']', title @ ..] => !title.contains(&BELL),
        [_, ..] => false,
    }
}

/// The limits of a tail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TailLimits {
    pub(crate) bytes: u64,
    /// Lines at most; 0 means any number.
    pub(crate) lines: usize,
}

/// Reads backward from the end and returns the lowest start within the limits: the start of a line
/// if a whole line fits, else of a character. Never before a hole; if the log ends in a hole, the
/// start of that hole.
pub(crate) fn tail_start(
    snapshot: &LogSnapshot,
    stream: Option<Stream>,
    limits: TailLimits,
) -> io::Result<u64> {
    let total = snapshot.total_bytes();
    let first = snapshot.contiguous_start(total);
    if first == total {
        return Ok(snapshot.extents.last().map_or(0, |last| last.range.end));
    }
    let mut chunks = LogChunks::new(snapshot, stream, first..total, Direction::Backward);
    let mut tail = TailSearch { limits, bytes: 0, lines: 0, line_start: None };
    while let Some((offset, chunk)) = chunks.next()? {
        if let Some(start) = tail.scan_chunk(offset, chunk) {
            return Ok(start);
        }
        let room = limits.bytes - tail.bytes;
        tail.bytes += chunk.len() as u64;
        if tail.bytes > limits.bytes {
            let cut = offset + chunk.len() as u64 - room;
            return tail
                .line_start
                .map_or_else(|| character_start(snapshot, stream, cut..total), Ok);
        }
    }
    Ok(first)
}

/// The bytes and lines that the backward search has passed.
#[derive(Debug)]
struct TailSearch {
    limits: TailLimits,
    bytes: u64,
    lines: usize,
    /// The lowest start of a line that is within the limits.
    line_start: Option<u64>,
}

impl TailSearch {
    /// Returns the start if the line limit is reached in this chunk.
    fn scan_chunk(&mut self, offset: u64, chunk: &[u8]) -> Option<u64> {
        for newline in memrchr_iter(b'\n', chunk) {
            let after = self.bytes + (chunk.len() - newline - 1) as u64;
            if after > self.limits.bytes {
                return None;
            }
            // The newline that ends the log starts no line.
            if after == 0 {
                continue;
            }
            let start = offset + newline as u64 + 1;
            self.line_start = Some(start);
            self.lines += 1;
            if self.lines == self.limits.lines {
                return Some(start);
            }
        }
        None
    }
}

/// The first start of a character in the range.
fn character_start(
    snapshot: &LogSnapshot,
    stream: Option<Stream>,
    range: Range<u64>,
) -> io::Result<u64> {
    let start = range.start;
    let mut chunks = LogChunks::new(snapshot, stream, range, Direction::Forward);
    let first = chunks.next()?;
    Ok(first.map_or(start, |(offset, chunk)| {
        offset + Charset::Utf8.to_character_start(offset, chunk) as u64
    }))
}

/// Index records that are fetched at once.
const RUNS_AT_ONCE: u64 = 256;
/// Bytes that are read at least, so that many tiny runs cost few reads.
const READ_AT_LEAST: u64 = 16 * 1024;

/// The order in which chunks are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The lowest offset first.
    Forward,
    /// The highest offset first. The bytes of each chunk are still in forward order.
    Backward,
}

/// Reads the readable bytes of a range, of one stream or of both.
///
/// No chunk is longer than 64 KiB. Neighbouring chunks may or may not be contiguous.
#[derive(Debug)]
pub(crate) struct LogChunks {
    /// The extents that are left; the first one is being read.
    extents: VecDeque<ExtentChunks>,
}

/// The result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkStep {
    Chunk,
    /// A hole, or a gap where bytes were lost: the bytes after it do not continue the bytes before
    /// it.
    Hole,
    End,
}

impl LogChunks {
    /// Starts to read a range that has been published.
    pub(crate) fn new(
        snapshot: &LogSnapshot,
        stream: Option<Stream>,
        range: Range<u64>,
        direction: Direction,
    ) -> Self {
        let extent = |extent: &LogExtent| {
            let range = extent.range.start.max(range.start)..extent.range.end.min(range.end);
            (!range.is_empty()).then(|| ExtentChunks::new(extent, stream, range, direction))
        };
        let extents = snapshot.extents.iter().filter_map(extent);
        let extents = match direction {
            Direction::Forward => extents.collect(),
            Direction::Backward => extents.rev().collect(),
        };
        Self { extents }
    }

    /// Reads the next chunk. Returns it with the offset of its first byte. Skips holes.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        while self.step()? == ChunkStep::Hole {}
        Ok(self.chunk())
    }

    /// Moves to the next chunk, or over a hole.
    pub(crate) fn step(&mut self) -> io::Result<ChunkStep> {
        while let Some(extent) = self.extents.front_mut() {
            if extent.advance()? {
                return Ok(ChunkStep::Chunk);
            }
            if self.leave_extent() {
                return Ok(ChunkStep::Hole);
            }
        }
        Ok(ChunkStep::End)
    }

    /// Reads the next chunk into `buffer` at `position`, and grows the buffer if it is too short.
    /// Returns the offsets of the chunk.
    pub(crate) fn step_into(
        &mut self,
        buffer: &mut Vec<u8>,
        position: usize,
    ) -> io::Result<(ChunkStep, Range<u64>)> {
        while let Some(extent) = self.extents.front_mut() {
            if let Some(chunk) = extent.advance_into(buffer, position)? {
                return Ok((ChunkStep::Chunk, chunk));
            }
            if self.leave_extent() {
                return Ok((ChunkStep::Hole, 0..0));
            }
        }
        Ok((ChunkStep::End, 0..0))
    }

    /// The offsets of the next chunk, without reading it.
    pub(crate) fn next_range(&mut self) -> io::Result<Option<Range<u64>>> {
        while let Some(extent) = self.extents.front_mut() {
            if let Some(range) = extent.next_range()? {
                return Ok(Some(range));
            }
            self.extents.pop_front();
        }
        Ok(None)
    }

    /// Leaves an extent that was read. Returns `true` if a hole or a gap comes after it.
    fn leave_extent(&mut self) -> bool {
        let left = self.extents.pop_front();
        match (left, self.extents.front()) {
            (Some(left), Some(next)) => !left.touches(next),
            (Some(_) | None, _) => false,
        }
    }

    /// The chunk that the last step reached.
    pub(crate) fn chunk(&self) -> Option<(u64, &[u8])> {
        self.extents.front().map(|extent| (extent.chunk.start, extent.window.get(&extent.chunk)))
    }
}

/// The chunks of one extent.
#[derive(Debug)]
struct ExtentChunks {
    segment: Arc<LogSegment>,
    continuity: Continuity,
    stream: Option<Stream>,
    direction: Direction,
    /// The range that is left to read.
    range: Range<u64>,
    runs: Option<RunCursor>,
    window: ReadAhead,
    /// The offsets of the current chunk, a part of the window.
    chunk: Range<u64>,
}

impl ExtentChunks {
    fn new(
        extent: &LogExtent,
        stream: Option<Stream>,
        range: Range<u64>,
        direction: Direction,
    ) -> Self {
        let start = range.start;
        let window = ReadAhead { start, bytes: Vec::new(), bounds: range.clone(), direction };
        let segment = Arc::clone(&extent.segment);
        let continuity = extent.continuity;
        Self {
            segment,
            continuity,
            stream,
            direction,
            range,
            runs: None,
            window,
            chunk: start..start,
        }
    }

    /// `true` if the next extent continues this one.
    fn touches(&self, next: &Self) -> bool {
        let (before, after) = match self.direction {
            Direction::Forward => (self, next),
            Direction::Backward => (next, self),
        };
        let is_seamless = after.continuity == Continuity::Continuous;
        is_seamless && before.window.bounds.end == after.window.bounds.start
    }

    /// Moves to the next chunk. Returns `false` if there is none.
    fn advance(&mut self) -> io::Result<bool> {
        let Some(chunk) = self.next_range()? else { return Ok(false) };
        self.window.cover(&self.segment, &chunk)?;
        self.chunk = chunk;
        Ok(true)
    }

    /// Reads the next chunk into `buffer`. Returns its offsets.
    fn advance_into(
        &mut self,
        buffer: &mut Vec<u8>,
        position: usize,
    ) -> io::Result<Option<Range<u64>>> {
        let Some(chunk) = self.next_range()? else { return Ok(None) };
        let end = position + (chunk.end - chunk.start) as usize;
        if buffer.len() < end {
            buffer.resize(end, 0);
        }
        let target = &mut buffer[position..end];
        match self.stream {
            None => self.segment.read_at(chunk.start, target)?,
            // Runs may be tiny: one read serves several of them.
            Some(_) => {
                self.window.cover(&self.segment, &chunk)?;
                target.copy_from_slice(self.window.get(&chunk));
            }
        }
        Ok(Some(chunk))
    }

    /// The offsets of the next chunk, without reading its bytes.
    fn next_range(&mut self) -> io::Result<Option<Range<u64>>> {
        if self.range.is_empty() {
            return Ok(None);
        }
        let chunk = match self.stream {
            None => next_block(&self.range, self.direction),
            Some(stream) => match self.next_run(stream)? {
                Some(run) => run,
                None => return Ok(None),
            },
        };
        match self.direction {
            Direction::Forward => self.range.start = chunk.end,
            Direction::Backward => self.range.end = chunk.start,
        }
        Ok(Some(chunk))
    }

    /// The next run of the stream, cut to the range.
    fn next_run(&mut self, stream: Stream) -> io::Result<Option<Range<u64>>> {
        let runs = match &mut self.runs {
            Some(runs) => runs,
            None => self.runs.insert(RunCursor::new(&self.segment, &self.range, self.direction)?),
        };
        while let Some(run) = runs.next(&self.segment)? {
            let chunk = run.offset.max(self.range.start)..run.end().min(self.range.end);
            if run.offset >= self.range.end || run.end() <= self.range.start {
                return Ok(None);
            }
            if run.stream == stream {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }
}

fn next_block(range: &Range<u64>, direction: Direction) -> Range<u64> {
    let length = (range.end - range.start).min(RUN_BYTES as u64);
    match direction {
        Direction::Forward => range.start..range.start + length,
        Direction::Backward => range.end - length..range.end,
    }
}

/// The index records of a range, fetched some at a time.
#[derive(Debug)]
struct RunCursor {
    /// Fetched runs in reverse order: the next one is the last element.
    fetched: Vec<StreamRun>,
    /// The run number to fetch next when reading forward, or the number after it when reading
    /// backward.
    number: u64,
    direction: Direction,
}

impl RunCursor {
    fn new(
        segment: &Arc<LogSegment>,
        range: &Range<u64>,
        direction: Direction,
    ) -> io::Result<Self> {
        let number = match direction {
            Direction::Forward => run_number_at(segment, range.start)?.unwrap_or(0),
            Direction::Backward => {
                run_number_at(segment, range.end - 1)?.map_or(0, |number| number + 1)
            }
        };
        Ok(Self { fetched: Vec::new(), number, direction })
    }

    fn next(&mut self, segment: &Arc<LogSegment>) -> io::Result<Option<StreamRun>> {
        if self.fetched.is_empty() {
            self.fetch(segment)?;
        }
        Ok(self.fetched.pop())
    }

    fn fetch(&mut self, segment: &Arc<LogSegment>) -> io::Result<()> {
        match self.direction {
            Direction::Forward => {
                self.fetched = segment.runs(self.number..self.number + RUNS_AT_ONCE)?;
                self.number += self.fetched.len() as u64;
                self.fetched.reverse();
            }
            Direction::Backward => {
                let first = self.number.saturating_sub(RUNS_AT_ONCE);
                self.fetched = segment.runs(first..self.number)?;
                self.number = first;
            }
        }
        Ok(())
    }
}

fn run_number_at(segment: &Arc<LogSegment>, offset: u64) -> io::Result<Option<u64>> {
    Ok(segment.find_run(|run| run.offset <= offset)?.map(|(number, _)| number))
}

/// Bytes of the log that were read a little further than needed.
#[derive(Debug)]
struct ReadAhead {
    start: u64,
    bytes: Vec<u8>,
    /// The range that reads must not leave.
    bounds: Range<u64>,
    direction: Direction,
}

impl ReadAhead {
    /// Makes sure that a range is in the window.
    fn cover(&mut self, segment: &Arc<LogSegment>, range: &Range<u64>) -> io::Result<()> {
        let is_outside =
            range.start < self.start || range.end > self.start + self.bytes.len() as u64;
        if is_outside { self.load(segment, range) } else { Ok(()) }
    }

    /// The bytes of a range that is in the window.
    fn get(&self, range: &Range<u64>) -> &[u8] {
        let from = (range.start - self.start) as usize;
        &self.bytes[from..from + (range.end - range.start) as usize]
    }

    fn load(&mut self, segment: &Arc<LogSegment>, range: &Range<u64>) -> io::Result<()> {
        let length = (range.end - range.start).max(READ_AT_LEAST);
        let (start, end) = match self.direction {
            Direction::Forward => (range.start, range.start.saturating_add(length)),
            Direction::Backward => (range.end.saturating_sub(length), range.end),
        };
        let start = start.max(self.bounds.start);
        let end = end.min(self.bounds.end);
        self.bytes.resize((end - start) as usize, 0);
        self.start = start;
        segment.read_at(start, &mut self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::Wide;

    #[track_caller]
    fn check(bytes: &[u8], max_lines: usize, rest: BytesAfterPage, expected: (usize, PageEnd)) {
        assert_eq!(
            cut_page(bytes, Charset::Utf8, max_lines, rest),
            expected,
            "{bytes:?} {max_lines} {rest:?}"
        );
    }

    #[test]
    fn a_page_ends_on_a_whole_line_if_one_fits() {
        check(b"one\ntwo\nthr", 0, BytesAfterPage::Bytes, (8, PageEnd::More));
        check(b"endless", 0, BytesAfterPage::Bytes, (7, PageEnd::More));
    }

    #[test]
    fn a_line_longer_than_the_page_is_split_between_characters() {
        check("ab€".as_bytes(), 0, BytesAfterPage::Bytes, (5, PageEnd::More));
        check(&"ab€".as_bytes()[..4], 0, BytesAfterPage::Bytes, (2, PageEnd::More));
        check(&"😀😀".as_bytes()[..7], 0, BytesAfterPage::Bytes, (4, PageEnd::More));
    }

    #[test]
    fn a_line_longer_than_the_page_is_split_between_escape_codes() {
        for begun in ["\x1b", "\x1b[", "\x1b[3", "\x1b[38;5;1", "\x1b]0;title"] {
            let page = format!("red{begun}");
            check(page.as_bytes(), 0, BytesAfterPage::Bytes, (3, PageEnd::More));
            check(begun.as_bytes(), 0, BytesAfterPage::Bytes, (begun.len(), PageEnd::More));
        }
        for whole in ["a\x1b[31m", "a\x1b[31mb", "a\x1bM", "a\x1b]0;t\x07", "a\x1b]0;t\x1b\\"] {
            check(whole.as_bytes(), 0, BytesAfterPage::Bytes, (whole.len(), PageEnd::More));
        }
        let endless = format!("a\x1b[{}", "1".repeat(MAX_ESCAPE));
        check(endless.as_bytes(), 0, BytesAfterPage::Bytes, (endless.len(), PageEnd::More));
    }

    #[test]
    fn the_line_limit_ends_a_page_and_the_last_line_is_not_more() {
        check(b"1\n2\n3", 2, BytesAfterPage::Closed, (4, PageEnd::More));
        check(b"1\n2\n", 2, BytesAfterPage::Bytes, (4, PageEnd::More));
        check(b"1\n2\n", 2, BytesAfterPage::Closed, (4, PageEnd::Complete));
        check(b"1\n2\n", 2, BytesAfterPage::Open, (4, PageEnd::CaughtUp));
    }

    #[test]
    fn an_unfinished_character_is_held_back_only_while_the_log_is_open() {
        let begun = &"é".as_bytes()[..1];
        check(begun, 0, BytesAfterPage::Open, (0, PageEnd::CaughtUp));
        check(begun, 0, BytesAfterPage::Closed, (1, PageEnd::Complete));
    }

    #[test]
    fn a_page_of_another_charset_ends_on_its_lines_and_characters() {
        let charset = Charset::Legacy(encoding_rs::SHIFT_JIS);
        let (bytes, _, _) = encoding_rs::SHIFT_JIS.encode("日本語");
        assert_eq!(cut_page(&bytes[..5], charset, 0, BytesAfterPage::Bytes), (4, PageEnd::More));
        assert_eq!(cut_page(&bytes[..5], charset, 0, BytesAfterPage::Open), (4, PageEnd::CaughtUp));
        let wide: Vec<u8> = "ab\ncd".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let charset = Charset::Wide(Wide::Utf16Le);
        assert_eq!(cut_page(&wide, charset, 0, BytesAfterPage::Bytes), (6, PageEnd::More));
        assert_eq!(cut_page(&wide, charset, 1, BytesAfterPage::Closed), (6, PageEnd::More));
        assert_eq!(cut_page(&wide[..5], charset, 0, BytesAfterPage::Bytes), (4, PageEnd::More));
    }

    #[test]
    fn bytes_that_are_no_text_are_never_held_back() {
        check(&[0xff], 0, BytesAfterPage::Open, (1, PageEnd::CaughtUp));
        check(&[0x80; 9], 0, BytesAfterPage::Bytes, (9, PageEnd::More));
        check(&[0xf5, 0x80], 0, BytesAfterPage::Open, (2, PageEnd::CaughtUp));
        check(&[0xc3, 0x28], 0, BytesAfterPage::Open, (2, PageEnd::CaughtUp));
    }
}

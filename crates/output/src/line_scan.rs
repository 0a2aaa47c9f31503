//! Finds the lines of a log that match a pattern: in blocks, so that lines without a match cost
//! next to nothing, and in bounded memory.
//!
//! ```text
//! chunks → block (whole lines, about 64 KiB) → line groups: one line that matches, or any
//!                                               number of neighbours that do not
//! ```
//!
//! A block is matched as a whole, except for lines with escape codes or `\r`, which are not
//! searched as they were written. Output in another character set than UTF-8 is decoded into a
//! block. A line that is longer than a block is matched in overlapping parts.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memchr::{memchr, memchr_iter, memchr2, memrchr};

use super::page::{ChunkStep, LogChunks};
use super::pattern::{LinePattern, line_around, searchable_text, without_newline};
use super::views::Charset;

/// The deadline of a search or query. Clones share one end.
#[derive(Debug, Clone)]
pub struct ScanDeadline {
    until: Instant,
    given_up: Arc<AtomicBool>,
}

/// The guard of a search or query: dropping it ends the work soon. The caller that waits for the
/// result holds it.
#[must_use = "dropping the guard ends the search"]
#[derive(Debug)]
pub struct ScanGuard(Arc<AtomicBool>);

impl ScanDeadline {
    /// Starts a deadline that ends after `time`, or when the guard is dropped.
    pub fn start(time: Duration) -> (Self, ScanGuard) {
        let given_up = Arc::new(AtomicBool::new(false));
        let guard = ScanGuard(Arc::clone(&given_up));
        (Self { until: Instant::now() + time, given_up }, guard)
    }

    /// `true` if the work should stop now.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) || Instant::now() >= self.until
    }
}

impl Drop for ScanGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The bytes of an overlong line that are matched twice. A longer match may be missed.
const OVERLAP_BYTES: usize = 4 * 1024;

/// Neighbouring lines of a log, or of one of its streams. Every line is in one group.
#[derive(Debug)]
pub(crate) struct LineGroup<'a> {
    pub(crate) kind: LineKind,
    /// The lines with their newlines. Of a line that is longer than a block: the part that matches,
    /// or else its last part, without a newline.
    pub(crate) bytes: &'a [u8],
    /// The position of the bytes in the block that `spans` describes.
    position: usize,
    spans: &'a OffsetMap,
}

/// The kind of the lines in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// A line that matches. Such a group has one line.
    Match,
    /// Lines that do not match.
    Other,
}

impl<'a> LineGroup<'a> {
    /// The offset in the log of the byte at `index` of the group.
    pub(crate) fn offset_at(&self, index: usize) -> u64 {
        self.spans.offset_at(self.position + index)
    }

    pub(crate) fn count(&self) -> u64 {
        match self.kind {
            LineKind::Match => 1,
            LineKind::Other => {
                let is_open = self.bytes.last().is_some_and(|last| *last != b'\n');
                memchr_iter(b'\n', self.bytes).count() as u64 + u64::from(is_open)
            }
        }
    }

    /// The lines with their newlines, as ranges of `bytes`.
    pub(crate) fn lines(&self) -> LineRanges<'a> {
        LineRanges { bytes: self.bytes, rest: 0..self.bytes.len() }
    }
}

/// An iterator over lines from both ends.
#[derive(Debug, Clone)]
pub(crate) struct LineRanges<'a> {
    bytes: &'a [u8],
    rest: Range<usize>,
}

impl Iterator for LineRanges<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let rest = &self.bytes[self.rest.clone()];
        let start = self.rest.start;
        self.rest.start = memchr(b'\n', rest).map_or(self.rest.end, |newline| start + newline + 1);
        (!rest.is_empty()).then_some(start..self.rest.start)
    }
}

impl DoubleEndedIterator for LineRanges<'_> {
    fn next_back(&mut self) -> Option<Range<usize>> {
        let rest = &self.bytes[self.rest.clone()];
        let end = self.rest.end;
        let before = memrchr(b'\n', without_newline(rest));
        self.rest.end = before.map_or(self.rest.start, |newline| self.rest.start + newline + 1);
        (!rest.is_empty()).then_some(self.rest.end..end)
    }
}

/// A scan of a range of a log for matching lines.
#[derive(Debug)]
pub(crate) struct LineScan<'a> {
    pattern: &'a LinePattern,
    deadline: &'a ScanDeadline,
    block: TextBlock,
    more: More,
    /// The lines of the block that are left.
    lines: Range<usize>,
    /// The next matching line, once it is known.
    found: Option<Range<usize>>,
    /// The next line that must be matched separately; empty, at the end, if there is none.
    special: Range<usize>,
    /// The state of the overlong line that the block is a part of, if it is one.
    long: LongLine,
    /// The offset of the newest overlong line.
    long_start: u64,
    /// The offset of the last line, once it is known to be unfinished.
    open_line: Option<u64>,
}

/// The state of a line that is longer than a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LongLine {
    No,
    NoMatchYet,
    Matched,
}

impl<'a> LineScan<'a> {
    /// Starts before the first chunk, which is at `offset` or after it. Stops early at the
    /// deadline.
    pub(crate) fn new(
        chunks: LogChunks,
        offset: u64,
        charset: Charset,
        pattern: &'a LinePattern,
        deadline: &'a ScanDeadline,
    ) -> Self {
        Self {
            pattern,
            deadline,
            block: TextBlock::new(chunks, offset, charset),
            more: More::Maybe,
            lines: 0..0,
            found: None,
            special: 0..0,
            long: LongLine::No,
            long_start: offset,
            open_line: None,
        }
    }

    /// The next group; `None` at the end, or after the deadline.
    pub(crate) fn next(&mut self) -> io::Result<Option<LineGroup<'_>>> {
        loop {
            if !self.lines.is_empty() {
                return Ok(Some(self.next_in_block()));
            }
            // The first block is scanned in any case, so that a repeated search makes progress.
            let is_begun = !self.block.bytes().is_empty();
            if self.more == More::No || is_begun && self.deadline.is_over() {
                return Ok(None);
            }
            self.next_block()?;
            if self.long != LongLine::No
                && let Some((kind, part)) = self.scan_long_line()
            {
                return Ok(Some(self.group(kind, part)));
            }
        }
    }

    /// `true` if everything was scanned. If not, the scan continues at [`LineScan::reached`].
    pub(crate) fn is_complete(&self) -> bool {
        self.more == More::No && self.lines.is_empty()
    }

    /// The offset of the next byte to scan.
    pub(crate) fn reached(&self) -> u64 {
        self.block.offsets().offset_at(self.lines.start)
    }

    /// The offset of a last line without a newline, once everything was scanned.
    pub(crate) const fn open_line(&self) -> Option<u64> {
        self.open_line
    }

    fn group(&self, kind: LineKind, place: Range<usize>) -> LineGroup<'_> {
        let bytes = &self.block.bytes()[place.clone()];
        LineGroup { kind, bytes, position: place.start, spans: self.block.offsets() }
    }

    fn next_in_block(&mut self) -> LineGroup<'_> {
        let found = self.found.take().or_else(|| self.next_match());
        let (kind, lines) = match found {
            Some(line) if line.start == self.lines.start => (LineKind::Match, line),
            Some(line) => {
                let before = self.lines.start..line.start;
                self.found = Some(line);
                (LineKind::Other, before)
            }
            None => (LineKind::Other, self.lines.clone()),
        };
        self.lines.start = lines.end;
        self.group(kind, lines)
    }

    /// The next matching line of the block.
    fn next_match(&mut self) -> Option<Range<usize>> {
        let bytes = &self.block.bytes()[..self.lines.end];
        let mut at = self.lines.start;
        while at < bytes.len() {
            if self.special.end <= at {
                self.special = next_special_line(bytes, at);
            }
            if let Some(line) = self.pattern.find_line(&bytes[at..self.special.start]) {
                return Some(at + line.start..at + line.end);
            }
            let special = self.special.clone();
            if !special.is_empty()
                && self.pattern.is_match(&searchable_text(&bytes[special.clone()]))
            {
                return Some(special);
            }
            at = special.end;
        }
        None
    }

    fn next_block(&mut self) -> io::Result<()> {
        self.more = self.block.fill(self.lines.start)?;
        let bytes = self.block.bytes();
        let end = match self.more {
            More::No => bytes.len(),
            More::Maybe => memrchr(b'\n', bytes).map_or(0, |newline| newline + 1),
        };
        self.lines = 0..end;
        self.special = 0..0;
        if end == 0 && self.more == More::Maybe && self.long == LongLine::No {
            self.long = LongLine::NoMatchYet;
            self.long_start = self.block.offsets().offset_at(0);
        }
        if self.more == More::No {
            self.open_line = self.last_line_if_open();
        }
        Ok(())
    }

    fn last_line_if_open(&self) -> Option<u64> {
        let bytes = self.block.bytes();
        bytes.last().filter(|last| **last != b'\n')?;
        Some(match (memrchr(b'\n', bytes), self.long) {
            (Some(newline), _) => self.block.offsets().offset_at(newline + 1),
            (None, LongLine::No) => self.block.offsets().offset_at(0),
            (None, LongLine::NoMatchYet | LongLine::Matched) => self.long_start,
        })
    }

    /// Scans the part of an overlong line that the block begins with. Such a line is reported once:
    /// with its first part that matches, or with its last part.
    fn scan_long_line(&mut self) -> Option<(LineKind, Range<usize>)> {
        let bytes = self.block.bytes();
        let newline = memchr(b'\n', bytes);
        let part = 0..newline.unwrap_or(bytes.len());
        let is_last = newline.is_some() || self.more == More::No;
        let is_new = self.long == LongLine::NoMatchYet;
        let matches = is_new && self.pattern.is_match(&searchable_text(&bytes[part.clone()]));
        if is_last {
            self.lines.start = newline.map_or(part.end, |newline| newline + 1);
            self.long = LongLine::No;
        } else {
            let kept = part.end.saturating_sub(OVERLAP_BYTES);
            self.lines = kept..kept;
            self.long = if matches { LongLine::Matched } else { self.long };
        }
        match (matches, is_new && is_last) {
            (true, _) => Some((LineKind::Match, part)),
            (false, true) => Some((LineKind::Other, part)),
            (false, false) => None,
        }
    }
}

/// The next line at or after `at` with an escape code or `\r`; else the empty range at the end.
fn next_special_line(lines: &[u8], at: usize) -> Range<usize> {
    match memchr2(b'\x1b', b'\r', &lines[at..]) {
        Some(position) => line_around(lines, at + position),
        None => lines.len()..lines.len(),
    }
}

/// Bytes that one fill adds, or a little more.
const BLOCK_BYTES: usize = 64 * 1024;

/// A block of a log in memory, as UTF-8, with the offset of each byte in the log.
/// [`TextBlock::fill`] moves it forward.
#[derive(Debug)]
pub(crate) struct TextBlock {
    chunks: LogChunks,
    /// Set if the log is in another character set.
    decoder: Option<LineDecoder>,
    /// The buffer. Its first `filled` bytes are the block.
    buffer: Vec<u8>,
    filled: usize,
    spans: OffsetMap,
}

impl TextBlock {
    /// Creates an empty block before the first chunk, which is at `offset` or after it.
    pub(crate) fn new(chunks: LogChunks, offset: u64, charset: Charset) -> Self {
        let decoder = LineDecoder::for_charset(charset);
        let precision =
            if decoder.is_some() { OffsetPrecision::LineStart } else { OffsetPrecision::Exact };
        let spans = OffsetMap::new(offset, precision);
        Self { chunks, decoder, buffer: Vec::new(), filled: 0, spans }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.buffer.truncate(self.filled);
        self.buffer
    }

    pub(crate) fn offsets(&self) -> &OffsetMap {
        &self.spans
    }

    /// The position of the byte at an offset, or of the line that contains it; the end of the block
    /// if it is not in the block.
    pub(crate) fn position_at(&self, offset: u64) -> usize {
        self.spans.position_at(offset).min(self.filled)
    }

    /// Removes the bytes before `keep_from` and adds a block of new ones. Returns whether more may
    /// follow.
    pub(crate) fn fill(&mut self, keep_from: usize) -> io::Result<More> {
        self.buffer.copy_within(keep_from..self.filled, 0);
        self.filled -= keep_from;
        self.spans.forget(keep_from);
        let wanted = self.filled + BLOCK_BYTES;
        while self.filled < wanted {
            let more = match self.decoder {
                None => self.add_piece()?,
                Some(_) => self.add_decoded()?,
            };
            if more == More::No {
                return Ok(More::No);
            }
        }
        Ok(More::Maybe)
    }

    fn add_piece(&mut self) -> io::Result<More> {
        match self.chunks.step_into(&mut self.buffer, self.filled)? {
            (ChunkStep::Chunk, chunk) => {
                self.spans.push(OffsetSpan { position: self.filled, offset: chunk.start });
                self.filled += (chunk.end - chunk.start) as usize;
            }
            (ChunkStep::Hole, _) => self.end_line(),
            (ChunkStep::End, _) => return Ok(More::No),
        }
        Ok(More::Maybe)
    }

    fn add_decoded(&mut self) -> io::Result<More> {
        let Some(decoder) = &mut self.decoder else { return Ok(More::No) };
        let step = self.chunks.step()?;
        let decoded = match (step, self.chunks.chunk()) {
            (ChunkStep::Chunk, Some((offset, chunk))) => decoder.add(offset, chunk),
            (ChunkStep::Chunk, None) | (ChunkStep::Hole | ChunkStep::End, _) => decoder.end(),
        };
        self.push_decoded(decoded);
        match step {
            ChunkStep::Chunk => {}
            ChunkStep::Hole => self.end_line(),
            ChunkStep::End => return Ok(More::No),
        }
        Ok(More::Maybe)
    }

    fn push_decoded(&mut self, decoded: Vec<DecodedPart>) {
        self.buffer.truncate(self.filled);
        for (place, text) in decoded {
            self.spans.push(OffsetSpan { position: self.filled, offset: place.start });
            self.buffer.extend_from_slice(text.as_bytes());
            self.filled = self.buffer.len();
            self.spans.push(OffsetSpan { position: self.filled, offset: place.end });
        }
    }

    /// Ends the last line: bytes after a hole do not belong to the line before it.
    fn end_line(&mut self) {
        if self.bytes().last().is_some_and(|last| *last != b'\n') {
            self.buffer.truncate(self.filled);
            self.buffer.push(b'\n');
            self.filled += 1;
        }
    }
}

/// The chance that more bytes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    Maybe,
    No,
}

/// Maps positions in a block to offsets in the log: the bytes of one stream may be scattered.
///
/// Invariant: there is at least one span, the first is at position 0, and positions do not fall.
#[derive(Debug)]
pub(crate) struct OffsetMap {
    spans: Vec<OffsetSpan>,
    precision: OffsetPrecision,
}

/// The precision of the offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OffsetPrecision {
    /// The offset of each byte is known.
    Exact,
    /// The offset of the line, or of the part of a long line, that contains the byte. For decoded
    /// text.
    LineStart,
}

/// Contiguous bytes from this position and this offset on.
#[derive(Debug, Clone, Copy)]
struct OffsetSpan {
    position: usize,
    offset: u64,
}

impl OffsetMap {
    /// Creates a map for contiguous bytes from this offset on.
    fn new(offset: u64, precision: OffsetPrecision) -> Self {
        Self { spans: vec![OffsetSpan { position: 0, offset }], precision }
    }

    /// The offset of the byte at a position.
    pub(crate) fn offset_at(&self, position: usize) -> u64 {
        let span = self.spans[self.index_at(position)];
        match self.precision {
            OffsetPrecision::Exact => span.offset + (position - span.position) as u64,
            OffsetPrecision::LineStart => span.offset,
        }
    }

    /// The position of the byte at an offset that is not below the first.
    fn position_at(&self, offset: u64) -> usize {
        let next = self.spans.partition_point(|span| span.offset <= offset);
        let span = self.spans[next.saturating_sub(1)];
        let end = self.spans.get(next).map_or(usize::MAX, |next| next.position);
        match self.precision {
            OffsetPrecision::Exact => {
                let inside = usize::try_from(offset.saturating_sub(span.offset));
                span.position.saturating_add(inside.unwrap_or(usize::MAX)).min(end)
            }
            OffsetPrecision::LineStart => span.position,
        }
    }

    fn index_at(&self, position: usize) -> usize {
        self.spans.partition_point(|span| span.position <= position).saturating_sub(1)
    }

    fn push(&mut self, span: OffsetSpan) {
        if self.offset_at(span.position) != span.offset {
            self.spans.push(span);
        }
    }

    /// Removes this many bytes at the beginning.
    fn forget(&mut self, count: usize) {
        let index = self.index_at(count);
        let offset = self.offset_at(count);
        self.spans.drain(..index);
        self.spans[0] = OffsetSpan { position: count, offset };
        self.spans.iter_mut().for_each(|span| span.position -= count);
    }
}

/// The length up to which an unfinished line is held back.
const HELD_BYTES: usize = 64 * 1024;
/// A longer line is decoded in parts, so that offsets inside it are known too.
const PART_BYTES: usize = 4 * 1024;

/// Decodes output in another character set to UTF-8, line by line, so that each line keeps its
/// offset in the log. An unfinished line is held back until [`LineDecoder::end`], unless it is over
/// 64 KiB.
#[derive(Debug)]
struct LineDecoder {
    charset: Charset,
    /// The bytes that are held back.
    held: Vec<u8>,
    /// The offset of the held bytes in the log.
    held_at: u64,
}

/// A line, or a part of a long line: its range in the log, and its text with the newline.
type DecodedPart = (Range<u64>, String);

impl LineDecoder {
    /// Returns `None` for UTF-8, which needs no decoder.
    fn for_charset(charset: Charset) -> Option<Self> {
        match charset {
            Charset::Utf8 => None,
            Charset::Legacy(_) | Charset::Wide(_) => {
                Some(Self { charset, held: Vec::new(), held_at: 0 })
            }
        }
    }

    /// Adds the bytes at `offset` of the log, or of the stream that is read.
    fn add(&mut self, offset: u64, chunk: &[u8]) -> Vec<DecodedPart> {
        let before = self.held.len();
        if before == 0 {
            self.held_at = offset;
        }
        self.held.extend_from_slice(chunk);
        let whole = match self.charset.last_line_end(&self.held) {
            Some(end) => end,
            None if self.held.len() >= HELD_BYTES => self.charset.whole_characters(&self.held),
            None => 0,
        };
        // The held bytes may not be adjacent to the chunk.
        let start = self.held_at;
        let offset_at = |index: usize| match index.checked_sub(before) {
            Some(in_piece) => offset + in_piece as u64,
            None => start + index as u64,
        };
        let decoded = decode(self.charset, &self.held[..whole], offset_at);
        self.held.drain(..whole);
        self.held_at = offset_at(whole);
        decoded
    }

    /// Decodes the held bytes: nothing follows that belongs to them.
    fn end(&mut self) -> Vec<DecodedPart> {
        let held = std::mem::take(&mut self.held);
        decode(self.charset, &held, |index| self.held_at + index as u64)
    }
}

fn decode(charset: Charset, bytes: &[u8], offset_at: impl Fn(usize) -> u64) -> Vec<DecodedPart> {
    let ends = charset.line_ends(bytes).chain(std::iter::once(bytes.len()));
    let mut decoded = Vec::new();
    let mut at = 0;
    for end in ends {
        while at < end {
            let part = &bytes[at..end.min(at + PART_BYTES)];
            let is_last = at + part.len() == end;
            let length = if is_last { part.len() } else { charset.whole_characters(part) };
            let text = charset.decode(&part[..length]).0.into_owned();
            // The offset after the last byte: the next byte may not be adjacent.
            decoded.push((offset_at(at)..offset_at(at + length - 1) + 1, text));
            at += length;
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{LogReader, LogStorage, LogWriter, Stream, open_log};
    use super::BLOCK_BYTES;
    use super::*;

    fn log(bytes: &[u8]) -> (LogWriter, LogReader, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 100, spill_dir: dir.path().to_owned().into() });
        writer.append(Stream::Stdout, bytes);
        (writer, reader, dir)
    }

    /// Offset, length and kind of each group.
    fn scanned(bytes: &[u8], pattern: &str) -> Vec<(u64, usize, LineKind)> {
        let (_writer, reader, _dir) = log(bytes);
        let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
        let pattern = LinePattern::new(pattern).unwrap();
        let chunks = reader.blocking().chunks(None, 0, bytes.len() as u64);
        let mut scan = LineScan::new(chunks, 0, Charset::Utf8, &pattern, &deadline);
        let mut groups = Vec::new();
        while let Some(group) = scan.next().unwrap() {
            groups.push((group.offset_at(0), group.bytes.len(), group.kind));
        }
        assert!(scan.is_complete());
        assert_eq!(scan.reached(), bytes.len() as u64);
        groups
    }

    #[test]
    fn neighbouring_lines_without_a_match_are_one_group() {
        assert_eq!(
            scanned(b"a\nb\nX1\nX2\n\x1b[1mX\x1b[0m\nc\r\nd", "^X"),
            [
                (0, 4, LineKind::Other),
                (4, 3, LineKind::Match),
                (7, 3, LineKind::Match),
                (10, 10, LineKind::Match),
                (20, 4, LineKind::Other),
            ]
        );
        assert_eq!(scanned(b"", ""), []);
    }

    #[test]
    fn a_line_longer_than_a_block_is_reported_once() {
        let mut bytes = vec![b'x'; 500_000];
        assert_eq!(scanned(&bytes, "NEEDLE").len(), 1);
        assert_eq!(scanned(&bytes, "NEEDLE")[0].2, LineKind::Other);
        bytes[200_000..200_006].copy_from_slice(b"NEEDLE");
        bytes[400_000..400_006].copy_from_slice(b"NEEDLE");
        bytes.extend_from_slice(b"\nNEEDLE\nlast");
        let kinds: Vec<LineKind> = scanned(&bytes, "NEEDLE").iter().map(|found| found.2).collect();
        assert_eq!(kinds, [LineKind::Match, LineKind::Match, LineKind::Other]);
    }

    #[test]
    fn a_match_is_found_wherever_a_long_line_is_split() {
        let second = 2 * BLOCK_BYTES - OVERLAP_BYTES;
        for at in (BLOCK_BYTES - 10..BLOCK_BYTES + 5).chain(second - 10..second + 5) {
            let mut bytes = vec![b'x'; 3 * BLOCK_BYTES];
            bytes[at..at + 6].copy_from_slice(b"NEEDLE");
            let found = scanned(&bytes, "NEEDLE");
            assert!(found.iter().any(|found| found.2 == LineKind::Match), "{at}");
        }
    }

    #[test]
    fn a_scan_stops_at_its_deadline_and_tells_its_position() {
        let bytes = b"line\n".repeat(200_000);
        let (_writer, reader, _dir) = log(&bytes);
        let (deadline, guard) = ScanDeadline::start(Duration::from_secs(3600));
        let pattern = LinePattern::new("x").unwrap();
        let chunks = reader.blocking().chunks(None, 0, bytes.len() as u64);
        let mut scan = LineScan::new(chunks, 0, Charset::Utf8, &pattern, &deadline);
        let first = scan.next().unwrap().unwrap().bytes.len() as u64;
        drop(guard);
        assert!(scan.next().unwrap().is_none());
        assert!(!scan.is_complete());
        assert_eq!(scan.reached(), first);
    }

    #[test]
    fn lines_can_be_iterated_from_both_ends() {
        let bytes = b"a\n\nbc\nd";
        let ranges = LineRanges { bytes, rest: 0..bytes.len() };
        let forward: Vec<&[u8]> = ranges.clone().map(|line| &bytes[line]).collect();
        assert_eq!(forward, [&b"a\n"[..], b"\n", b"bc\n", b"d"]);
        let mut backward: Vec<&[u8]> = ranges.rev().map(|line| &bytes[line]).collect();
        backward.reverse();
        assert_eq!(backward, forward);
    }
}

#[cfg(test)]
mod decoding_tests {
    use super::super::views::Wide;
    use super::*;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn decoded_lines_are_whole_for_any_chunks() {
        let bytes = utf16("\u{feff}one\nzwölf 😀\nrest");
        for cut in 0..bytes.len() {
            let mut decoder = LineDecoder::for_charset(Charset::Wide(Wide::Utf16Le)).unwrap();
            let (first, second) = bytes.split_at(cut);
            let mut lines = decoder.add(0, first);
            // Simulates another stream that wrote 100 bytes in between.
            lines.extend(decoder.add(cut as u64 + 100, second));
            lines.extend(decoder.end());
            let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(texts, ["one\n", "zwölf 😀\n", "rest"], "{cut}");
            let apart = |offset: u64| if offset < cut as u64 { offset } else { offset + 100 };
            assert_eq!(lines[1].0.start, apart(10), "{cut}");
        }
    }

    #[test]
    fn an_endless_line_is_decoded_in_parts() {
        let bytes = utf16(&"😀".repeat(40_000));
        let mut decoder = LineDecoder::for_charset(Charset::Wide(Wide::Utf16Le)).unwrap();
        let parts = decoder.add(0, &bytes);
        assert!(parts.windows(2).all(|pair| pair[0].0.end == pair[1].0.start));
        let text: String = parts.into_iter().map(|(_, text)| text).collect();
        assert_eq!(text, "😀".repeat(40_000));
    }
}

#[cfg(test)]
mod deadline_tests {
    use super::*;

    #[test]
    fn a_deadline_ends_with_its_time_or_with_its_guard() {
        let (deadline, _guard) = ScanDeadline::start(Duration::ZERO);
        assert!(deadline.is_over());
        let (deadline, guard) = ScanDeadline::start(Duration::from_secs(3600));
        assert!(!deadline.is_over());
        drop(guard);
        assert!(deadline.clone().is_over());
    }
}

//! Reads a range of a log chunk by chunk, in either direction, in bounded memory; or as blocks of
//! text in UTF-8, in which the offset of each line is known.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::Stream;
use crate::index::{RUN_BYTES, StreamRun};
use crate::segment::{Continuity, LogExtent, LogSegment};
use crate::shared_log::LogSnapshot;
use crate::views::{Charset, DecodedPart, LineDecoder};

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

/// Bytes that one fill adds, or a little more.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;

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
    /// The bytes of the log that were added so far.
    pub(crate) source_bytes: u64,
    /// If set, a block ends where bytes are missing, so that the next one begins with the line after
    /// them.
    pub(crate) ends_at_holes: bool,
}

impl TextBlock {
    /// Creates an empty block before the first chunk, which is at `offset` or after it.
    pub(crate) fn new(chunks: LogChunks, offset: u64, charset: Charset) -> Self {
        let decoder = LineDecoder::for_charset(charset);
        let precision =
            if decoder.is_some() { OffsetPrecision::LineStart } else { OffsetPrecision::Exact };
        let spans = OffsetMap::new(offset, precision);
        Self {
            chunks,
            decoder,
            buffer: Vec::new(),
            filled: 0,
            spans,
            source_bytes: 0,
            ends_at_holes: false,
        }
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
        self.fill_by(BLOCK_BYTES, keep_from)
    }

    /// Removes the bytes before `keep_from` and adds at least `block_bytes` new ones, if there are as
    /// many before the next hole at which the block ends. Returns whether more may follow.
    pub(crate) fn fill_by(&mut self, block_bytes: usize, keep_from: usize) -> io::Result<More> {
        self.buffer.copy_within(keep_from..self.filled, 0);
        self.filled -= keep_from;
        self.spans.forget(keep_from);
        let wanted = self.filled + block_bytes;
        while self.filled < wanted {
            let step = match self.decoder {
                None => self.add_piece()?,
                Some(_) => self.add_decoded()?,
            };
            match step {
                ChunkStep::Hole if self.ends_at_holes && self.filled > 0 => break,
                ChunkStep::Chunk | ChunkStep::Hole => {}
                ChunkStep::End => return Ok(More::No),
            }
        }
        Ok(More::Maybe)
    }

    fn add_piece(&mut self) -> io::Result<ChunkStep> {
        let (step, chunk) = self.chunks.step_into(&mut self.buffer, self.filled)?;
        match step {
            ChunkStep::Chunk => {
                self.spans.push(OffsetSpan { position: self.filled, offset: chunk.start });
                self.filled += (chunk.end - chunk.start) as usize;
                self.source_bytes += chunk.end - chunk.start;
            }
            ChunkStep::Hole => self.end_line(),
            ChunkStep::End => {}
        }
        Ok(step)
    }

    fn add_decoded(&mut self) -> io::Result<ChunkStep> {
        let Some(decoder) = &mut self.decoder else { return Ok(ChunkStep::End) };
        let step = self.chunks.step()?;
        let decoded = match (step, self.chunks.chunk()) {
            (ChunkStep::Chunk, Some((offset, chunk))) => {
                self.source_bytes += chunk.len() as u64;
                decoder.add(offset, chunk)
            }
            (ChunkStep::Chunk, None) | (ChunkStep::Hole | ChunkStep::End, _) => decoder.end(),
        };
        self.push_decoded(decoded);
        if step == ChunkStep::Hole {
            self.end_line();
        }
        Ok(step)
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

//! Summaries of logs: the facts that a reader needs of a log that is too long to read.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memchr::{memchr, memchr2};
use shellyard_summary::{Summarizer, Summary, is_error_line};

use crate::Stream;
use crate::decoded_blocks::{DecodedBlock, DecodedBlocks, lines_from};
use crate::reader::BlockingReader;
use crate::views::{Charset, decode, on_screen};

/// The bytes of a line that are read; those of a line that was overwritten count after the last
/// `\r`.
const LINE_BYTES: usize = 4 * 1024;
/// The smallest log whose summary is kept: others are read again in no time.
const KEPT_FROM: u64 = 256 * 1024;

/// The summary of a log, or of a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// The facts.
    pub summary: Summary,
    /// The end of the range that was summarised.
    pub end: u64,
    /// Bytes that were scanned.
    pub scanned_bytes: u64,
    /// `true` if everything was scanned. If not, the facts cover the scanned bytes: the beginning
    /// and the end.
    pub complete: bool,
}

/// The range and the limits of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryRequest {
    /// The only stream to scan; `None` scans both.
    pub stream: Option<Stream>,
    /// The offset at which the scan starts.
    pub from: u64,
    /// The limits of the scan.
    pub limits: SummaryLimits,
}

/// The limits of a scan: the given number of bytes from each side in any case, and as much of the
/// middle as time allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryLimits {
    /// Bytes from each side.
    pub each_side: u64,
    /// The time for the middle.
    pub time: Duration,
}

impl SummaryLimits {
    /// Limits for a log that is still written, and scanned again later.
    pub const QUICK: Self = Self { each_side: 4 * 1024 * 1024, time: Duration::from_millis(200) };
}

impl Default for SummaryLimits {
    fn default() -> Self {
        Self { each_side: 32 * 1024 * 1024, time: Duration::from_secs(1) }
    }
}

/// Summarises a log from `from` to its present end, in bounded memory and time. The summary of a
/// whole log that is closed is kept with it, so that a later one costs nothing.
pub fn summarize(reader: &BlockingReader, request: &SummaryRequest) -> io::Result<Arc<LogSummary>> {
    let is_kept = request.from == 0
        && request.stream.is_none()
        && reader.progress().closed
        && reader.progress().total_bytes >= KEPT_FROM;
    if !is_kept {
        return Ok(Arc::new(scan_log(reader, request)?));
    }
    if let Some(kept) = reader.kept_summary() {
        return Ok(kept);
    }
    let summary = Arc::new(scan_log(reader, request)?);
    reader.keep_summary(Arc::clone(&summary));
    Ok(summary)
}

fn scan_log(reader: &BlockingReader, request: &SummaryRequest) -> io::Result<LogSummary> {
    let charset = reader.charset()?;
    let end = reader.progress().total_bytes;
    let range = charset.aligned(request.from).min(end)..end;
    let mut scan = SummaryScan {
        reader,
        stream: request.stream,
        charset,
        summarizer: Summarizer::new(),
        bytes: 0,
        open_line: None,
        next: None,
    };
    let is_whole = reader.missing_bytes(range.clone()) == 0;
    let complete = scan.scan_within(range.clone(), request.limits)? && is_whole;
    scan.end_line();
    let summary = scan.summarizer.summary();
    Ok(LogSummary { summary, end: range.end, scanned_bytes: scan.bytes, complete })
}

/// A scan of a log, range by range.
#[derive(Debug)]
struct SummaryScan<'a> {
    reader: &'a BlockingReader,
    stream: Option<Stream>,
    charset: Charset,
    summarizer: Summarizer,
    bytes: u64,
    /// The overlong line that the next block continues.
    open_line: Option<OverlongLine>,
    /// The number of the next line and its offset, if the block before it is contiguous.
    next: Option<NextLine>,
}

/// A line that is longer than a block.
#[derive(Debug)]
struct OverlongLine {
    number: u64,
    /// The bytes of the line that are read.
    kept: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct NextLine {
    number: u64,
    offset: u64,
}

impl SummaryScan<'_> {
    /// Scans a range within limits. Returns `true` if all of it was scanned.
    fn scan_within(&mut self, range: Range<u64>, limits: SummaryLimits) -> io::Result<bool> {
        if range.end - range.start <= limits.each_side.saturating_mul(2) {
            return self.scan_range(range, None);
        }
        let middle = self.charset.aligned(range.start + limits.each_side);
        let last = self.charset.aligned(range.end - limits.each_side);
        self.scan_range(range.start..middle, None)?;
        let deadline = Instant::now().checked_add(limits.time);
        let complete = !limits.time.is_zero() && self.scan_range(middle..last, deadline)?;
        if !complete {
            self.end_line();
            self.summarizer.skip();
        }
        self.scan_range(last..range.end, None)?;
        Ok(complete)
    }

    /// Scans a range until the deadline, if there is one, but at least one block. Returns `true` if
    /// it reached the end of the range.
    fn scan_range(&mut self, range: Range<u64>, deadline: Option<Instant>) -> io::Result<bool> {
        let reader = self.reader;
        let chunks = reader.chunks(self.stream, range.start, range.end);
        let mut blocks = DecodedBlocks::new(chunks, self.charset);
        while let Some(block) = blocks.next()? {
            self.scan_block(block)?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(block.end >= range.end);
            }
        }
        Ok(true)
    }

    fn scan_block(&mut self, block: DecodedBlock<'_>) -> io::Result<()> {
        self.bytes += block.source_bytes;
        for line in lines_from(block.bytes, 0) {
            let is_ended = line.end < block.bytes.len();
            let bytes = &block.bytes[line.clone()];
            if let Some(open) = &mut self.open_line {
                open.extend(bytes);
            } else {
                let number = self.number_of(&block, &line)?;
                if is_ended {
                    self.read_line(number, bytes);
                } else {
                    let mut open = OverlongLine { number, kept: Vec::new() };
                    open.extend(bytes);
                    self.open_line = Some(open);
                }
            }
            if is_ended {
                self.end_line();
            }
        }
        Ok(())
    }

    /// The number of a line. The index is asked only where the block is not contiguous.
    fn number_of(&mut self, block: &DecodedBlock<'_>, line: &Range<usize>) -> io::Result<u64> {
        let is_plain = self.stream.is_none() && self.charset == Charset::Utf8;
        let offset =
            if is_plain || line.start == 0 { Some(block.offset_of(line.start)) } else { None };
        let number = match (self.next, offset) {
            (Some(next), Some(offset)) if next.offset == offset => next.number,
            (Some(next), None) if self.stream.is_none() => next.number,
            (_, Some(offset)) => self.reader.line_at(offset)?,
            (_, None) => self.reader.line_at(block.offset_of(line.start))?,
        };
        let after = offset.unwrap_or_default() + (line.end - line.start) as u64 + 1;
        self.next = Some(NextLine { number: number + 1, offset: after });
        Ok(number)
    }

    /// Reads the overlong line that has ended.
    fn end_line(&mut self) {
        if let Some(open) = self.open_line.take() {
            self.read_line(open.number, &open.kept);
        }
    }

    fn read_line(&mut self, number: u64, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if memchr2(0x1b, b'\r', line).is_none() {
            let (text, _) = decode(&line[..line.len().min(LINE_BYTES)]);
            return self.summarizer.read(number, &text);
        }
        for overwritten in overwritten_states(line) {
            let text = visible_text(overwritten);
            if is_error_line(&text) {
                self.summarizer.read_overwritten(number, &text);
            }
        }
        self.summarizer.read(number, &visible_text(line));
    }
}

impl OverlongLine {
    /// Adds bytes of the line. Text after a `\r` replaces what was kept.
    fn extend(&mut self, bytes: &[u8]) {
        // The last two states: a message may follow a bar.
        let trimmed = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let mut returns = memchr::memrchr_iter(b'\r', trimmed);
        let last_states = returns.next().map(|last| returns.next().unwrap_or(last));
        let bytes = match last_states {
            Some(at) => {
                self.kept.clear();
                &trimmed[at + 1..]
            }
            None => trimmed,
        };
        let room = LINE_BYTES.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// Reads the lines of a range, each in its last state, if there are at most `most` and none is
/// longer than a reader wants to see. A bar that was drawn a thousand times is one short line.
pub(crate) fn read_last_states(
    reader: &BlockingReader,
    range: Range<u64>,
    charset: Charset,
    most: usize,
) -> io::Result<Option<Vec<String>>> {
    let mut blocks = DecodedBlocks::new(reader.chunks(None, range.start, range.end), charset);
    let mut lines: Vec<String> = Vec::new();
    let mut open = OverlongLine { number: 0, kept: Vec::new() };
    let mut is_open = false;
    while let Some(block) = blocks.next()? {
        for line in lines_from(block.bytes, 0) {
            open.extend(&block.bytes[line.clone()]);
            is_open = line.end == block.bytes.len();
            if open.kept.len() >= LINE_BYTES || lines.len() >= most {
                return Ok(None);
            }
            if !is_open {
                let (text, _) = decode(&open.kept);
                lines.push(format!("{}\n", on_screen(&text)));
                open.kept.clear();
            }
        }
    }
    if is_open {
        let (text, _) = decode(&open.kept);
        lines.push(on_screen(&text).into_owned());
    }
    Ok(Some(lines))
}

/// The texts of a line that later ones overwrote.
fn overwritten_states(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_overwritten = memchr(b'\r', line).is_some();
    let last = line.rsplit(|byte| *byte == b'\r').next().map_or(0, <[u8]>::len);
    let earlier = if is_overwritten { &line[..line.len() - last] } else { &[] };
    earlier.split(|byte| *byte == b'\r').filter(|state| !state.is_empty())
}

/// `true` if a line, without its newline, is an error by its form, or was one before it was
/// overwritten.
pub(crate) fn looks_like_error(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let is_error = |line: &[u8]| is_error_line(&visible_text(line));
    is_error(line) || overwritten_states(line).any(is_error)
}

/// The text of a line as a screen finally shows it, without escape codes and overwritten text.
fn visible_text(line: &[u8]) -> Cow<'_, str> {
    let (text, _) = decode(line);
    let shown = on_screen(&text);
    let shown = shown.rsplit('\n').next().unwrap_or_default();
    match shown.char_indices().nth(LINE_BYTES) {
        Some((end, _)) => Cow::Owned(shown[..end].to_owned()),
        None => Cow::Owned(shown.to_owned()),
    }
}

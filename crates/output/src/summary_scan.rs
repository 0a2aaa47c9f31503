//! Summaries of logs: the facts that a reader needs of a log that is too long to read, and the numbers
//! of its lines and errors. A log is read as large blocks of whole lines, decoded to UTF-8.

use std::borrow::Cow;
use std::io;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memchr::{memchr, memchr_iter, memchr2};
use shellyard_summary::{Summarizer, is_error_line};

use crate::Stream;
use crate::page::{ChunkStep, LogChunks, PageEnd, PageRequest};
use crate::reader::BlockingReader;
use crate::shared_log::LogSummary;
use crate::views::{Charset, on_screen};

/// The bytes of a line that are read; those of a line that was overwritten count after the last
/// `\r`.
const LINE_BYTES: usize = 4 * 1024;
/// Bytes of one block that is read. A longer line comes in parts.
const BLOCK_BYTES: usize = 256 * 1024;
/// The smallest log whose summary is kept: others are read again in no time.
const KEPT_FROM: u64 = 256 * 1024;

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
    if summary.complete {
        reader.keep_summary(Arc::clone(&summary));
    }
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
        let is_plain = self.charset == Charset::Utf8;
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
        let last = visible_text(line);
        if memchr(b'\r', line).is_some() {
            self.read_overwritten(number, line, without_digits(&last));
        }
        self.summarizer.read(number, &last);
    }

    /// Reads the errors that a line showed before its last text. An error that is drawn again and
    /// again counts once.
    fn read_overwritten(&mut self, number: u64, line: &[u8], mut known: String) {
        for overwritten in overwritten_states(line) {
            let text = visible_text(overwritten);
            if is_error_line(&text) && without_digits(&text) != known {
                known = without_digits(&text);
                self.summarizer.read_overwritten(number, &text);
            }
        }
    }
}

impl OverlongLine {
    /// Adds bytes of the line. Text after a `\r` replaces what was kept.
    fn extend(&mut self, bytes: &[u8]) {
        // The last two states: a message may follow a bar.
        let trimmed = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let bytes = match memchr::memrchr_iter(b'\r', trimmed).nth(1) {
            Some(at) => {
                self.kept.clear();
                &bytes[at + 1..]
            }
            None => bytes,
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
                let (text, _) = Charset::Utf8.decode(&open.kept);
                lines.push(format!("{}\n", on_screen(&text)));
                open.kept.clear();
            }
        }
    }
    if is_open {
        let (text, _) = Charset::Utf8.decode(&open.kept);
        lines.push(on_screen(&text).into_owned());
    }
    Ok(Some(lines))
}

fn without_digits(text: &str) -> String {
    text.chars().filter(|char| !char.is_ascii_digit()).collect()
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
fn looks_like_error(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let is_error = |line: &[u8]| is_error_line(&visible_text(line));
    is_error(line) || overwritten_states(line).any(is_error)
}

/// The text of a line as a screen finally shows it, without escape codes and overwritten text.
fn visible_text(line: &[u8]) -> Cow<'_, str> {
    if memchr2(0x1b, b'\r', line).is_none() {
        return Charset::Utf8.decode(&line[..line.len().min(LINE_BYTES)]).0;
    }
    let (text, _) = Charset::Utf8.decode(line);
    let shown = on_screen(&text);
    let shown = shown.rsplit('\n').next().unwrap_or_default();
    match shown.char_indices().nth(LINE_BYTES) {
        Some((end, _)) => Cow::Owned(shown[..end].to_owned()),
        None => Cow::Owned(shown.to_owned()),
    }
}

/// Line counts of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamCounts {
    /// Lines, an unfinished last one included.
    pub lines: u64,
    /// Lines that look like errors. A line over 256 KiB is examined in parts.
    pub errors: u64,
}

/// Counts the lines of one stream. Much faster than [`count_lines_and_errors`].
pub fn count_lines(reader: &BlockingReader, stream: Stream) -> io::Result<u64> {
    let mut pieces = reader.chunks(Some(stream), 0, reader.progress().total_bytes);
    let mut lines = 0;
    let mut is_line_open = false;
    while let Some((_, piece)) = pieces.next()? {
        lines += memchr_iter(b'\n', piece).count() as u64;
        is_line_open = !piece.ends_with(b"\n");
    }
    Ok(lines + u64::from(is_line_open))
}

/// Counts the lines and errors of one stream so far, in bounded memory.
pub fn count_lines_and_errors(reader: &BlockingReader, stream: Stream) -> io::Result<StreamCounts> {
    let mut tally = StreamCounts::default();
    let mut from = 0;
    let mut is_line_open = false;
    loop {
        let request = PageRequest {
            from,
            to: u64::MAX,
            stream: Some(stream),
            max_bytes: BLOCK_BYTES,
            max_lines: 0,
        };
        let page = reader.read_page(&request)?;
        for line in page.bytes.split_inclusive(|byte| *byte == b'\n') {
            tally.lines += u64::from(!is_line_open);
            is_line_open = !line.ends_with(b"\n");
            tally.errors += u64::from(looks_like_error(line.strip_suffix(b"\n").unwrap_or(line)));
        }
        from = page.end;
        match page.end_kind {
            PageEnd::More => {}
            PageEnd::CaughtUp | PageEnd::Complete => return Ok(tally),
        }
    }
}

/// Whole lines, or a part of an overlong line.
#[derive(Debug, Clone, Copy)]
struct DecodedBlock<'a> {
    /// The bytes, as UTF-8 if the log is in another character set.
    bytes: &'a [u8],
    /// The number of bytes in the log.
    source_bytes: u64,
    /// The offset in the log after the last byte.
    end: u64,
    charset: Charset,
    /// The positions at which a chunk of the log, or a decoded line, starts, with their offsets in
    /// the log.
    starts: &'a [(usize, u64)],
}

impl DecodedBlock<'_> {
    /// The offset in the log of the byte at `position`.
    fn offset_of(&self, position: usize) -> u64 {
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
struct DecodedBlocks {
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
    const fn new(chunks: LogChunks, charset: Charset) -> Self {
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
    fn next(&mut self) -> io::Result<Option<DecodedBlock<'_>>> {
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
        let mut decoded = mem::take(&mut self.decoded);
        let mut starts = mem::take(&mut self.decoded_starts);
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
        self.decoded = decoded;
        self.decoded_starts = starts;
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

/// The lines from `at` on, without their newlines.
fn lines_from(block: &[u8], at: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = at;
    std::iter::from_fn(move || {
        let line = line_at(block, at)?;
        at = line.end + 1;
        Some(line)
    })
}

/// The line that starts at `start`, without its newline; `None` at the end.
fn line_at(block: &[u8], start: usize) -> Option<Range<usize>> {
    let rest = block.get(start..).filter(|rest| !rest.is_empty())?;
    Some(start..start + memchr(b'\n', rest).unwrap_or(rest.len()))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use shellyard_summary::Summary;

    use super::*;
    use crate::{LogReader, LogStorage, LogWriter, open_log};

    const ALL: SummaryRequest = SummaryRequest {
        stream: None,
        from: 0,
        limits: SummaryLimits { each_side: u64::MAX / 2, time: Duration::ZERO },
    };

    /// A log with this content. The directory is removed when the test ends.
    fn log(parts: &[(Stream, Vec<u8>)]) -> (LogWriter, LogReader, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 1000, spill_dir: dir.path().to_owned().into() });
        for (stream, bytes) in parts {
            writer.append(*stream, bytes);
        }
        (writer, reader, dir)
    }

    fn summary_of(bytes: &[u8], request: &SummaryRequest) -> LogSummary {
        let (mut writer, reader, _dir) = log(&[(Stream::Stdout, bytes.to_vec())]);
        writer.close();
        LogSummary::clone(&summarize(&reader.blocking(), request).unwrap())
    }

    /// The numbers of the first line of each kind of error.
    fn error_lines(summary: &LogSummary) -> Vec<u64> {
        summary.summary.errors.kinds.iter().map(|kind| kind.first.number).collect()
    }

    #[test]
    fn lines_of_a_log_of_many_blocks_have_their_numbers() {
        let mut text = "a line that says nothing\n".repeat(30_000);
        text.push_str("error: one\n");
        text.push_str(&"x".repeat(700_000));
        text.push_str("\nfatal: two\n");
        let found = summary_of(text.as_bytes(), &ALL);
        assert_eq!(error_lines(&found), [30_001, 30_003]);
        assert_eq!((found.scanned_bytes, found.complete), (text.len() as u64, true));
        assert_eq!(found.summary.lines, 30_003);
    }

    #[test]
    fn a_huge_log_is_scanned_from_both_sides() {
        let middle = "error: in the middle\n".repeat(1000);
        let text = format!("one\nerror: early\n{middle}error: late\nlast\n");
        let limits = SummaryLimits { each_side: 17, time: Duration::ZERO };
        let some = summary_of(text.as_bytes(), &SummaryRequest { limits, ..ALL });
        assert_eq!((error_lines(&some), some.complete), (vec![2, 1003], false));
        assert_eq!((some.scanned_bytes, some.end), (34, text.len() as u64));
        let limits = SummaryLimits { each_side: 17, time: Duration::from_secs(3600) };
        let all = summary_of(text.as_bytes(), &SummaryRequest { limits, ..ALL });
        assert_eq!((all.summary.errors.count, all.complete), (1002, true));
    }

    #[test]
    fn the_summary_of_a_closed_log_is_kept() {
        let text = "a line that says nothing\n".repeat(20_000);
        let (mut writer, reader, _dir) = log(&[(Stream::Stdout, text.into_bytes())]);
        let request = SummaryRequest { limits: SummaryLimits::default(), ..ALL };
        let open = summarize(&reader.blocking(), &request).unwrap();
        writer.close();
        let first = summarize(&reader.blocking(), &request).unwrap();
        let second = summarize(&reader.blocking(), &request).unwrap();
        assert!(!Arc::ptr_eq(&open, &first) && Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn a_log_in_another_character_set_is_read_as_it_is_shown() {
        let text = "сборка началась\nerror: сломано\nпредупреждение\nWARNING: осторожно\n";
        let utf16: Vec<u8> =
            format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        let legacy = encoding_rs::WINDOWS_1251.encode(text).0.repeat(3);
        for (bytes, times) in [(utf16, 1), (legacy, 3)] {
            let found = summary_of(&bytes, &ALL);
            let Summary { errors, warnings, lines, .. } = &found.summary;
            assert_eq!((errors.count, warnings.count, *lines), (times, times, 4 * times));
            assert_eq!(errors.kinds[0].first.text, "error: сломано");
            assert_eq!(error_lines(&found), [2]);
        }
    }

    #[test]
    fn an_overwritten_error_is_found() {
        let found = summary_of(b"one\nerror: disk exploded\rall good\n", &ALL);
        assert_eq!(found.summary.errors.kinds[0].first.text, "error: disk exploded");
        assert_eq!(error_lines(&found), [2]);
    }

    #[test]
    fn a_bar_that_was_drawn_very_often_is_its_last_state() {
        let mut text: String =
            (0..20_000).map(|done| format!("\r{done}/20000 [00:01<00:02]")).collect();
        text.push_str("\rsaved model.bin\nend\n");
        let (mut writer, reader, _dir) = log(&[(Stream::Stdout, text.clone().into_bytes())]);
        writer.close();
        let states = |most| {
            let range = 0..text.len() as u64;
            read_last_states(&reader.blocking(), range, Charset::Utf8, most).unwrap()
        };
        let bar = "19999/20000 [00:01<00:02]\nsaved model.bin\n".to_owned();
        assert_eq!(states(10), Some(vec![bar, "end\n".to_owned()]));
        assert_eq!(states(1), None);
    }

    fn any_part() -> impl Strategy<Value = (Stream, Vec<u8>)> {
        let text = prop_oneof![
            "[a-z ]{0,20}\n".prop_map(String::into_bytes),
            Just(b"ERROR here\n".to_vec()),
            Just(b"warning: there\r\n".to_vec()),
            Just(b"\x1b[31mERROR red\x1b[0m\n".to_vec()),
            Just(b"ERR".to_vec()),
            Just(b"OR in pieces\n".to_vec()),
            Just(b"10%\r20%\rFATAL x\n".to_vec()),
            vec(0_u8..0x1b, 0..20).prop_map(|mut bytes| {
                bytes.push(b'\n');
                bytes
            }),
        ];
        (prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)], text)
    }

    proptest! {
        #[test]
        fn every_line_and_every_error_is_counted(parts in vec(any_part(), 0..60)) {
            let (_writer, reader, _dir) = log(&parts);
            for stream in [None, Some(Stream::Stdout), Some(Stream::Stderr)] {
                let bytes: Vec<u8> = parts
                    .iter()
                    .filter(|(of, _)| stream.is_none_or(|stream| stream == *of))
                    .flat_map(|(_, bytes)| bytes.clone())
                    .collect();
                let found = summarize(&reader.blocking(), &SummaryRequest { stream, ..ALL }).unwrap();
                let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                prop_assert_eq!(found.summary.lines, lines.len() as u64);
                prop_assert_eq!(found.scanned_bytes, bytes.len() as u64);
                let is_error =
                    |line: &&&[u8]| looks_like_error(line.strip_suffix(b"\n").unwrap_or(line));
                prop_assert_eq!(found.summary.errors.count, lines.iter().filter(is_error).count() as u64);
            }
        }
    }

    #[test]
    fn lines_and_errors_of_one_stream_are_counted() {
        let settings = LogStorage { memory_bytes: 1 << 16, spill_dir: std::env::temp_dir().into() };
        let (mut writer, reader) = open_log(&settings);
        writer.append(Stream::Stdout, b"one\nerror: two\nthr");
        writer.append(Stream::Stderr, b"fatal: no\n");
        writer.append(Stream::Stdout, b"ee");
        assert_eq!(
            count_lines_and_errors(&reader.blocking(), Stream::Stdout).unwrap(),
            StreamCounts { lines: 3, errors: 1 }
        );
        assert_eq!(
            count_lines_and_errors(&reader.blocking(), Stream::Stderr).unwrap(),
            StreamCounts { lines: 1, errors: 1 }
        );
        assert_eq!(count_lines(&reader.blocking(), Stream::Stdout).unwrap(), 3);
        assert_eq!(count_lines(&reader.blocking(), Stream::Stderr).unwrap(), 1);
        writer.append(Stream::Stdout, &vec![b'x'; 3 * BLOCK_BYTES]);
        writer.close();
        assert_eq!(
            count_lines_and_errors(&reader.blocking(), Stream::Stdout).unwrap().lines,
            3,
            "a long line is one"
        );
    }
}

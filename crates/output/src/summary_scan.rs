//! Summaries of logs: the facts that a reader needs of a log that is too long to read, and the numbers
//! of its lines and errors. A log is read as large blocks of whole lines, decoded to UTF-8.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memchr::{memchr, memchr_iter, memchr2, memrchr};
use shellyard_summary::{Summarizer, is_error_line};

use crate::Stream;
use crate::chunks::{LogChunks, More, TextBlock};
use crate::page::{PageEnd, PageRequest};
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
    if let Some(kept) = reader.log.summary() {
        return Ok(kept);
    }
    let summary = Arc::new(scan_log(reader, request)?);
    if summary.complete {
        reader.log.keep_summary(Arc::clone(&summary));
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
        let chunks = self.reader.chunks(self.stream, range.start, range.end);
        let mut blocks = LineBlocks::new(chunks, range.start, self.charset);
        let mut is_complete = true;
        while blocks.advance()? {
            self.scan_block(&blocks)?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                is_complete = blocks.offset_at(blocks.length) >= range.end;
                break;
            }
        }
        self.bytes += blocks.block.source_bytes;
        Ok(is_complete)
    }

    fn scan_block(&mut self, blocks: &LineBlocks) -> io::Result<()> {
        for line in blocks.lines() {
            let is_ended = line.end < blocks.length;
            let bytes = &blocks.bytes()[line.clone()];
            if let Some(open) = &mut self.open_line {
                open.extend(bytes);
            } else {
                let number = self.number_of(blocks, &line)?;
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
    fn number_of(&mut self, blocks: &LineBlocks, line: &Range<usize>) -> io::Result<u64> {
        let is_plain = self.charset == Charset::Utf8;
        let offset = (is_plain || line.start == 0).then(|| blocks.offset_at(line.start));
        let number = match (self.next, offset) {
            (Some(next), Some(offset)) if next.offset == offset => next.number,
            (Some(next), None) if self.stream.is_none() => next.number,
            (_, Some(offset)) => self.reader.line_at(offset)?,
            (_, None) => self.reader.line_at(blocks.offset_at(line.start))?,
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
    let chunks = reader.chunks(None, range.start, range.end);
    let mut blocks = LineBlocks::new(chunks, range.start, charset);
    let mut lines: Vec<String> = Vec::new();
    let mut open = OverlongLine { number: 0, kept: Vec::new() };
    let mut is_open = false;
    while blocks.advance()? {
        for line in blocks.lines() {
            open.extend(&blocks.bytes()[line.clone()]);
            is_open = line.end == blocks.length;
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

/// Reads the chunks of a log as large blocks of whole lines, in bounded memory.
#[derive(Debug)]
struct LineBlocks {
    block: TextBlock,
    more: More,
    /// The length of the lines in the block, or of the part of an overlong line.
    length: usize,
}

impl LineBlocks {
    /// Starts before the first chunk, which is at `offset` or after it.
    fn new(chunks: LogChunks, offset: u64, charset: Charset) -> Self {
        // Where bytes are missing, the number of the next line is not that of the last one plus one.
        let mut block = TextBlock::new(chunks, offset, charset);
        block.ends_at_holes = true;
        Self { block, more: More::Maybe, length: 0 }
    }

    /// Moves to the next lines. Returns `false` if there are none. Bytes after the last newline are
    /// in the last block.
    fn advance(&mut self) -> io::Result<bool> {
        if self.more == More::No {
            return Ok(false);
        }
        self.more = self.block.fill_by(BLOCK_BYTES, self.length)?;
        let bytes = self.block.bytes();
        self.length = match self.more {
            More::Maybe => memrchr(b'\n', bytes).map_or(bytes.len(), |newline| newline + 1),
            More::No => bytes.len(),
        };
        Ok(self.length > 0)
    }

    fn bytes(&self) -> &[u8] {
        &self.block.bytes()[..self.length]
    }

    /// The lines, without their newlines.
    fn lines(&self) -> impl Iterator<Item = Range<usize>> {
        let bytes = self.bytes();
        let mut at = 0;
        std::iter::from_fn(move || {
            let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
            let line = at..at + memchr(b'\n', rest).unwrap_or(rest.len());
            at = line.end + 1;
            Some(line)
        })
    }

    /// The offset in the log of the byte at `position`, which starts a line or ends the lines.
    fn offset_at(&self, position: usize) -> u64 {
        self.block.offsets().offset_at(position)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use shellyard_summary::Summary;

    use super::*;
    use crate::{
        KeepOutput, LogBounds, LogReader, LogStorage, LogWriter, TenantQuota, open_bounded_log,
        open_log,
    };

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
    fn lines_after_missing_bytes_have_their_numbers_in_each_character_set() {
        let dir = tempfile::tempdir().unwrap();
        let storage = LogStorage { memory_bytes: 0, spill_dir: dir.path().to_owned().into() };
        for is_wide in [false, true] {
            let encode = |text: &str| -> Vec<u8> {
                if is_wide {
                    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
                } else {
                    text.as_bytes().to_vec()
                }
            };
            let bounds = LogBounds { keep: KeepOutput::Ends(600), quota: TenantQuota::unlimited() };
            let (mut writer, reader) = open_bounded_log(&storage, bounds);
            writer.append(Stream::Stdout, &encode("\u{feff}one\ntwo begins, "));
            writer.mark_crash_gap(10);
            writer.append(Stream::Stdout, &encode("three\nerror: in line four\n"));
            // The middle of these is not kept.
            for _ in 0..1000 {
                writer.append(Stream::Stdout, &encode("nothing\n"));
            }
            writer.append(Stream::Stdout, &encode("fatal: in the last line\n"));
            writer.close();
            let found = summarize(&reader.blocking(), &ALL).unwrap();
            assert_eq!(error_lines(&found), [4, 1005], "{:?}", found.summary);
        }
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

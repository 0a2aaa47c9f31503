//! The parts of a log that one read returns: pages of bounded size, and the next piece of a log, or of
//! one of its streams, for a reader that follows it while it grows; and the holes in a log, whose bytes
//! cannot be read.
//!
//! Offsets of pages count the bytes of the log. Positions of pieces and holes do, too, or count the
//! bytes of one stream.

use std::io;
use std::ops::Range;
use std::time::Instant;

use memchr::{memrchr, memrchr_iter};

use crate::Stream;
use crate::chunks::{Direction, LogChunks};
use crate::index::{FileCut, LostBytes};
use crate::reader::{BlockingReader, LogReader, stream_offset};
use crate::shared_log::{LogProgress, LogSnapshot};
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

/// The most bytes of one piece.
const PIECE: u64 = 64 * 1024;

/// The next part of a log for a reader at some position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogPiece {
    /// Bytes of one stream, or of both if they are not told apart.
    Bytes {
        /// The stream; `None` if both are read as one.
        stream: Option<Stream>,
        /// The bytes at the position, at least one.
        bytes: Vec<u8>,
        /// `true` if later bytes may continue these: they are the last, and the log is open.
        may_grow: bool,
    },
    /// Positions whose bytes are not stored any more.
    Missing(Hole),
    /// Bytes that were lost right before the position and have none of their own.
    Lost(LostBytes),
    /// Nothing yet; the value is the length of the whole log, for [`LogReader::wait_past`].
    CaughtUp(u64),
    /// Nothing more will come.
    End,
}

/// The streams that a reader follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowedStreams {
    /// Both streams, read as one.
    Merged,
    /// Both, each piece from one of them.
    Apart,
    One(Stream),
}

impl FollowedStreams {
    /// The only stream, if there is one.
    #[must_use]
    pub const fn only(self) -> Option<Stream> {
        match self {
            Self::Merged | Self::Apart => None,
            Self::One(stream) => Some(stream),
        }
    }
}

/// The place at which a reader starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    Position(u64),
    /// The first of the last lines.
    LastLines(usize),
    /// The first byte that was written at this time or later. Some bytes before it may be included.
    Time(Instant),
    /// The first of the last lines, or of the bytes since a time, if that is later.
    LastLinesSince {
        /// The most lines.
        lines: usize,
        /// The time.
        since: Instant,
    },
}

impl LogReader {
    /// Reads the piece at a position. `known_lost` is the number of bytes of which the reader knows
    /// that they were lost right before it. Dropping the future loses nothing.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn next_piece(
        &self,
        streams: FollowedStreams,
        from: u64,
        known_lost: u64,
    ) -> io::Result<LogPiece> {
        self.read_with(move |log| log.next_piece(streams, from, known_lost)).await
    }

    /// Waits until more than `seen` bytes were lost, or the log is closed. Dropping the future loses
    /// nothing.
    pub async fn wait_for_loss(&self, seen: u64) {
        let Some(mut progress) = self.log.watch_progress() else { return };
        let is_past = |now: &LogProgress| now.closed || now.dropped_bytes > seen;
        // An error means that the writer is gone, which ends the wait as well.
        progress.wait_for(is_past).await.ok();
    }

    /// The next bytes that were lost right before an offset, after the first `known` of them.
    #[must_use]
    pub fn find_loss(&self, offset: u64, known: u64) -> Option<LostBytes> {
        self.log.find_loss(offset, known)
    }

    /// Returns the position of a start now.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn find_start(&self, stream: Option<Stream>, start: StartAt) -> io::Result<u64> {
        self.read_with(move |log| log.find_start(stream, start)).await
    }
}

impl BlockingReader {
    fn next_piece(
        &self,
        streams: FollowedStreams,
        from: u64,
        known_lost: u64,
    ) -> io::Result<LogPiece> {
        // One snapshot: a log that is closed after its length was read may have more bytes.
        let log = self.freeze();
        let progress = log.progress();
        let only = streams.only();
        let total = progress.bytes_of(only);
        // The stream of lost bytes is not known.
        if only.is_none()
            && let Some(lost) = log.log.find_loss(from, known_lost)
        {
            return Ok(LogPiece::Lost(lost));
        }
        if from >= total {
            let end = LogPiece::CaughtUp(progress.total_bytes);
            return Ok(if progress.closed { LogPiece::End } else { end });
        }
        let wanted = from..total.min(from.saturating_add(PIECE));
        let end = match log.find_holes(only, from..total)?.into_iter().next() {
            Some(hole) if hole.range.start == from => return Ok(LogPiece::Missing(hole)),
            Some(hole) => wanted.end.min(hole.range.start),
            None => wanted.end,
        };
        // A piece ends where bytes were lost, so that the loss is told there.
        let end = if only.is_none() { end.min(log.snapshot().contiguous_end(from)) } else { end };
        let (stream, end) = match streams {
            FollowedStreams::Merged | FollowedStreams::One(_) => (only, end),
            FollowedStreams::Apart => {
                let (stream, end) = log.run_at(from..end)?;
                (Some(stream), end)
            }
        };
        let bytes = log.read_positions(only, from..end)?;
        Ok(LogPiece::Bytes { stream, bytes, may_grow: end == total && !progress.closed })
    }

    /// Returns the stream of the first byte of a range, and the end of its run within the range.
    fn run_at(&self, range: Range<u64>) -> io::Result<(Stream, u64)> {
        let mut stdout = self.chunks(Some(Stream::Stdout), range.start, range.end);
        match stdout.next_range()? {
            Some(run) if run.start == range.start => Ok((Stream::Stdout, run.end.min(range.end))),
            Some(run) => Ok((Stream::Stderr, run.start)),
            None => Ok((Stream::Stderr, range.end)),
        }
    }

    fn find_start(&self, stream: Option<Stream>, start: StartAt) -> io::Result<u64> {
        let log = self.freeze();
        let offset = match start {
            StartAt::Position(position) => return Ok(position),
            StartAt::LastLines(lines) => log.last_lines_start(stream, lines)?,
            StartAt::Time(since) => log.time_start(since),
            StartAt::LastLinesSince { lines, since } => {
                log.last_lines_start(stream, lines)?.max(log.time_start(since))
            }
        };
        match stream {
            None => Ok(offset),
            Some(stream) => stream_offset(&log, stream, offset),
        }
    }

    fn last_lines_start(&self, stream: Option<Stream>, lines: usize) -> io::Result<u64> {
        match lines {
            0 => Ok(self.progress().total_bytes),
            _ => self.tail_start(stream, usize::MAX, lines),
        }
    }

    /// Returns the offset of the first byte that was written at a time or later, or one before it.
    fn time_start(&self, since: Instant) -> u64 {
        let progress = self.progress();
        let total = progress.total_bytes;
        if progress.last_output.is_none_or(|last| last < since) {
            return total;
        }
        self.offset_written_at(since).unwrap_or(total).min(total)
    }
}

/// A range of positions without readable bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// The positions: of the log, or of one stream.
    pub range: Range<u64>,
    /// The reason why the bytes are missing.
    pub why: HoleReason,
}

/// The reason why stored bytes cannot be read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoleReason {
    /// The log keeps only its beginning and its end.
    Truncated,
    /// The file does not have the bytes: another program cut it, or the server crashed before it
    /// wrote them.
    Cut,
}

impl HoleReason {
    /// The stable word of the reason.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Cut => "cut",
        }
    }
}

impl LogReader {
    /// Lists the holes in a range of the log or of one stream, in order. There are few: a log has at
    /// most one between each two of its segments, and one inside each.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub async fn find_holes(
        &self,
        stream: Option<Stream>,
        range: Range<u64>,
    ) -> io::Result<Vec<Hole>> {
        self.read_with(move |log| log.freeze().find_holes(stream, range)).await
    }
}

impl BlockingReader {
    /// Lists the parts of a range that are holes. Of one stream, range and holes are positions within
    /// the stream.
    pub(crate) fn find_holes(
        &self,
        stream: Option<Stream>,
        range: Range<u64>,
    ) -> io::Result<Vec<Hole>> {
        let segments = self.log.segments();
        let cuts: Vec<FileCut> = segments.iter().filter_map(|segment| segment.cut()).collect();
        let mut holes = Vec::new();
        let mut from = range.start;
        while let Some(found) = self.first_hole(stream, from..range.end)? {
            let part = found.start.max(from)..found.end.min(range.end);
            from = part.end;
            let is_cut = cuts.iter().any(|cut| overlaps(cut, stream, &found));
            let why = if is_cut { HoleReason::Cut } else { HoleReason::Truncated };
            holes.push(Hole { range: part, why });
        }
        Ok(holes)
    }
}

/// `true` if a hole of the log, or of one stream, has bytes of a cut.
fn overlaps(cut: &FileCut, stream: Option<Stream>, hole: &Range<u64>) -> bool {
    // The number of a stream's bytes is known at the end of a cut alone.
    let end = match stream {
        None => return cut.from < hole.end && hole.start < cut.to.offset,
        Some(Stream::Stdout) => cut.to.offset - cut.to.stderr_bytes,
        Some(Stream::Stderr) => cut.to.stderr_bytes,
    };
    hole.start < end && end <= hole.end
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::views::Wide;
    use crate::{
        DropReason, KeepOutput, LogBounds, LogStorage, TenantQuota, open_bounded_log, open_log,
    };

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

    fn storage() -> LogStorage {
        LogStorage { memory_bytes: 1 << 20, spill_dir: std::env::temp_dir().into() }
    }

    /// Reads everything from a position on, with the stream of each piece.
    fn follow(
        log: &LogReader,
        streams: FollowedStreams,
        mut from: u64,
    ) -> Vec<(Option<Stream>, Vec<u8>)> {
        let mut pieces = Vec::new();
        loop {
            match log.blocking().next_piece(streams, from, 0).unwrap() {
                LogPiece::Bytes { stream, bytes, .. } => {
                    from += bytes.len() as u64;
                    pieces.push((stream, bytes));
                }
                LogPiece::Missing(hole) => from = hole.range.end,
                LogPiece::Lost(_) => panic!("nothing was lost"),
                LogPiece::CaughtUp(_) | LogPiece::End => return pieces,
            }
        }
    }

    #[test]
    fn pieces_are_all_bytes_in_order_from_any_position() {
        let (mut writer, log) = open_log(&storage());
        for (stream, text) in [
            (Stream::Stdout, "one "),
            (Stream::Stderr, "two "),
            (Stream::Stderr, "three "),
            (Stream::Stdout, "four"),
        ] {
            writer.append(stream, text.as_bytes());
        }
        let text = b"one two three four";
        for from in 0..=text.len() {
            let pieces = follow(&log, FollowedStreams::Apart, from as u64);
            let bytes: Vec<u8> = pieces.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            assert_eq!(bytes, text[from..], "{from}");
            let mut at = from;
            for (stream, bytes) in pieces {
                let is_stderr = (4..14).contains(&at);
                assert_eq!(stream == Some(Stream::Stderr), is_stderr, "{from}: {bytes:?} at {at}");
                at += bytes.len();
            }
        }
        let merged = follow(&log, FollowedStreams::Merged, 0);
        assert_eq!(merged, [(None, text.to_vec())]);
        let errors = follow(&log, FollowedStreams::One(Stream::Stderr), 4);
        assert_eq!(errors, [(Some(Stream::Stderr), b"three ".to_vec())]);
    }

    #[test]
    fn the_end_is_told_from_a_pause() {
        let (mut writer, log) = open_log(&storage());
        let next = |from| log.blocking().next_piece(FollowedStreams::Merged, from, 0).unwrap();
        assert_eq!(next(0), LogPiece::CaughtUp(0));
        writer.append(Stream::Stdout, b"ab");
        let bytes = b"ab".to_vec();
        assert_eq!(next(0), LogPiece::Bytes { stream: None, bytes: bytes.clone(), may_grow: true });
        assert_eq!(next(2), LogPiece::CaughtUp(2));
        drop(writer);
        assert_eq!(next(0), LogPiece::Bytes { stream: None, bytes, may_grow: false });
        assert_eq!(next(2), LogPiece::End);
    }

    #[test]
    fn lost_bytes_are_told_once_where_they_are_missing() {
        let (mut writer, log) = open_log(&storage());
        writer.append(Stream::Stdout, b"one");
        writer.mark_crash_gap(7);
        let streams = FollowedStreams::Merged;
        let next = |from, known| log.blocking().next_piece(streams, from, known).unwrap();
        let why = DropReason::ServerCrash;
        let lost = |bytes| LogPiece::Lost(LostBytes { bytes, why });
        assert_eq!(next(3, 0), lost(7));
        assert_eq!(next(3, 7), LogPiece::CaughtUp(3));
        writer.mark_crash_gap(2);
        assert_eq!(next(3, 7), lost(2), "the loss has grown");
        writer.append(Stream::Stdout, b"two");
        let bytes = |bytes: &[u8], may_grow| LogPiece::Bytes {
            stream: None,
            bytes: bytes.to_vec(),
            may_grow,
        };
        assert_eq!(next(0, 0), bytes(b"one", false), "the piece ends at the loss");
        assert_eq!(next(3, 9), bytes(b"two", true));
        let one = FollowedStreams::One(Stream::Stdout);
        let whole = log.blocking().next_piece(one, 0, 0).unwrap();
        assert!(matches!(whole, LogPiece::Bytes { bytes, .. } if bytes == b"onetwo"));
    }

    #[test]
    fn a_reader_starts_at_lines_or_at_a_time() {
        let (mut writer, log) = open_log(&storage());
        let before = Instant::now();
        writer.append(Stream::Stdout, b"one\n");
        writer.append(Stream::Stderr, b"two\nthree\n");
        let start = |stream, start| log.blocking().find_start(stream, start).unwrap();
        assert_eq!(start(None, StartAt::LastLines(0)), 14);
        assert_eq!(start(None, StartAt::LastLines(1)), 8);
        assert_eq!(start(None, StartAt::LastLines(9)), 0);
        assert_eq!(start(Some(Stream::Stderr), StartAt::LastLines(1)), 4);
        assert_eq!(start(None, StartAt::Time(before)), 0);
        let later = Instant::now() + Duration::from_secs(1);
        assert_eq!(start(None, StartAt::Time(later)), 14);
        assert_eq!(start(Some(Stream::Stdout), StartAt::Time(later)), 4);
        assert_eq!(start(None, StartAt::Position(7)), 7);
        let both = |lines, since| start(None, StartAt::LastLinesSince { lines, since });
        assert_eq!(both(1, before), 8, "the lines are later");
        assert_eq!(both(9, before), 0, "there are no more lines");
        assert_eq!(both(1, later), 14, "the time is later");
        assert_eq!(both(0, before), 14);
    }

    #[tokio::test]
    async fn holes_are_listed_with_their_positions_in_the_log_and_in_a_stream() {
        let folder = tempfile::tempdir().unwrap();
        let settings =
            LogStorage { memory_bytes: 1 << 16, spill_dir: folder.path().to_owned().into() };
        let bounds = LogBounds { keep: KeepOutput::Ends(40), quota: TenantQuota::unlimited() };
        let (mut writer, log) = open_bounded_log(&settings, bounds);
        for number in 0..20 {
            let stream = if number % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
            writer.append(stream, b"ten bytes\n");
        }
        let total = log.progress().total_bytes;
        let all = log.find_holes(None, 0..total).await.unwrap();
        let [hole] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((hole.range.start, hole.why), (20, HoleReason::Truncated));
        let missing = hole.range.end - hole.range.start;
        assert_eq!(missing, log.progress().removed_bytes);
        let inside = log.find_holes(None, 30..40).await.unwrap();
        assert_eq!(inside, [Hole { range: 30..40, why: HoleReason::Truncated }]);
        assert_eq!(log.find_holes(None, 0..20).await.unwrap(), []);
        let mut both = 0;
        for stream in [Stream::Stdout, Stream::Stderr] {
            let holes = log.find_holes(Some(stream), 0..100).await.unwrap();
            assert_eq!(holes.len(), 1, "{holes:?}");
            assert_eq!(holes[0].range.start, 10);
            both += holes[0].range.end - holes[0].range.start;
        }
        assert_eq!(both, missing);
    }

    #[tokio::test]
    async fn bytes_that_are_not_in_their_file_are_another_kind_of_hole() {
        let folder = tempfile::tempdir().unwrap();
        let settings = LogStorage { memory_bytes: 0, spill_dir: folder.path().to_owned().into() };
        let (mut writer, log) = open_log(&settings);
        writer.append(Stream::Stdout, &[b'x'; 100]);
        let file = std::fs::read_dir(folder.path()).unwrap().flatten().find_map(|entry| {
            let inside = std::fs::read_dir(entry.path()).ok()?.flatten().next()?;
            Some(inside.path())
        });
        let file = std::fs::File::options().write(true).open(file.unwrap()).unwrap();
        file.set_len(30).unwrap();
        let holes = log.find_holes(None, 0..100).await.unwrap();
        assert_eq!(holes, [Hole { range: 30..100, why: HoleReason::Cut }]);
        let stdout = Some(Stream::Stdout);
        assert_eq!(log.find_holes(stdout, 0..100).await.unwrap(), holes, "all bytes are stdout");
        let inside = log.find_holes(stdout, 40..50).await.unwrap();
        assert_eq!(inside, [Hole { range: 40..50, why: HoleReason::Cut }]);
        writer.append(Stream::Stderr, b"later");
        assert_eq!(log.find_holes(stdout, 0..100).await.unwrap(), holes, "both streams");
        assert_eq!(log.find_holes(Some(Stream::Stderr), 0..5).await.unwrap(), []);
    }
}

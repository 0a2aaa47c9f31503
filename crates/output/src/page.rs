//! Pages: the size and the end of the part of a log that one read returns.

use std::io;
use std::ops::Range;

use memchr::{memrchr, memrchr_iter};

use crate::Stream;
use crate::chunks::{Direction, LogChunks};
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

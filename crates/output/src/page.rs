//! Pages: how much of a log one read gives, and where it ends.

use std::io;
use std::ops::Range;

use memchr::{memrchr, memrchr_iter};

use super::chunks::{Direction, LogChunks};
use super::shared_log::LogSnapshot;
use crate::Stream;
use crate::views::Charset;

/// The smallest page: one character always fits, so that every page makes progress.
const MIN_PAGE: usize = 4;

/// A longer escape code is not waited for.
const MAX_ESCAPE: usize = 64;

/// What to read.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest {
    /// The offset of the first byte that is wanted.
    pub from: u64,
    /// Only this stream, or both in the order in which they came.
    pub stream: Option<Stream>,
    /// At most so many bytes; fewer than 4 count as 4.
    pub max_bytes: usize,
    /// At most so many lines; 0 means any number.
    pub max_lines: usize,
}

impl PageRequest {
    pub(crate) fn byte_limit(&self) -> usize {
        self.max_bytes.max(MIN_PAGE)
    }
}

/// A part of a log, as it was written.
///
/// It ends on a whole line where one fits, else on a whole character and escape code. An open log's last bytes
/// are held back while they are the beginning of a character (at most 3 bytes). A `from` past
/// the end gives an empty page with `start == end == from`. A hole ends a page; a page from inside
/// one starts behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// The bytes; of one stream where that was asked for.
    pub bytes: Vec<u8>,
    /// Where it starts: the `from` of the request, or where bytes resume after it.
    pub start: u64,
    /// Where the next page starts. Bytes of the other stream count here too.
    pub end: u64,
    /// What comes after it.
    pub end_kind: PageEnd,
    /// Bytes that the job wrote between the `from` of the request and `end` and that are not there.
    pub gap_bytes: u64,
    /// The log's bytes at the time of the read: to wait for more than this page could see,
    /// wait past this number, not past `end`.
    pub total_bytes: u64,
}

/// What comes after a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageEnd {
    /// There is more to read at once.
    More,
    /// That is all so far; the job may write more.
    CaughtUp,
    /// That is all there will ever be.
    Complete,
}

/// What is known to follow the bytes that a page is cut from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterPage {
    /// More bytes.
    Bytes,
    /// Nothing yet.
    Open,
    /// A hole.
    Hole,
    /// Nothing ever.
    Closed,
}

/// How many of `bytes` make a page, and what comes after it.
pub(crate) fn cut_page(
    bytes: &[u8],
    charset: Charset,
    max_lines: usize,
    rest: AfterPage,
) -> (usize, PageEnd) {
    if let Some(length) = line_limit(bytes, charset, max_lines)
        && (length < bytes.len() || rest == AfterPage::Bytes)
    {
        return (length, PageEnd::More);
    }
    match rest {
        AfterPage::Closed => (bytes.len(), PageEnd::Complete),
        AfterPage::Hole => (bytes.len(), PageEnd::More),
        AfterPage::Open => (charset.whole_characters(bytes), PageEnd::CaughtUp),
        AfterPage::Bytes => {
            let lines = charset.last_line_end(bytes);
            (lines.unwrap_or_else(|| whole_text_length(bytes, charset)), PageEnd::More)
        }
    }
}

/// Where the line limit ends the page, if it does.
fn line_limit(bytes: &[u8], charset: Charset, max_lines: usize) -> Option<usize> {
    charset.line_ends(bytes).nth(max_lines.checked_sub(1)?)
}

/// The length without a character or an escape code that has begun but not ended; never 0 for
/// the sake of an escape code, so that every page makes progress.
pub(crate) fn whole_text_length(bytes: &[u8], charset: Charset) -> usize {
    let length = charset.whole_characters(bytes);
    let window = length.saturating_sub(MAX_ESCAPE);
    let begun = memrchr(0x1b, &bytes[window..length]).map(|escape| window + escape);
    match begun {
        Some(escape) if escape > 0 && is_unfinished_escape(&bytes[escape + 1..length]) => escape,
        Some(_) | None => length,
    }
}

/// What ends a title (OSC), where no ESC does.
const BELL: u8 = 0x07;

/// Whether what follows an ESC is the beginning of a colour or cursor code (CSI) or of a title
/// (OSC), not all of it.
fn is_unfinished_escape(rest: &[u8]) -> bool {
    match rest {
        [] => true,
        [b'[', code @ ..] => code.iter().all(|byte| (0x20..0x40).contains(byte)),
        [b']', title @ ..] => !title.contains(&BELL),
        [_, ..] => false,
    }
}

// Where the last lines of a log start.

/// How much of the end is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TailLimits {
    /// At most so many bytes.
    pub(crate) bytes: u64,
    /// At most so many lines; 0 means any number.
    pub(crate) lines: usize,
}

/// Walks back from the end and gives the lowest start that keeps within the limits: the start
/// of a line where a whole one fits, else of a character. Never before a hole; of a log that ends
/// in one, where that starts.
pub(crate) fn tail_start(
    snapshot: &LogSnapshot,
    stream: Option<Stream>,
    limits: TailLimits,
) -> io::Result<u64> {
    let total = snapshot.total();
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

/// What the walk has passed so far, seen from the end of the log.
#[derive(Debug)]
struct TailSearch {
    limits: TailLimits,
    bytes: u64,
    lines: usize,
    /// The lowest start of a line that is within the limits.
    line_start: Option<u64>,
}

impl TailSearch {
    /// Gives the start when the line limit is reached in this chunk.
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
    fn check(bytes: &[u8], max_lines: usize, rest: AfterPage, expected: (usize, PageEnd)) {
        assert_eq!(
            cut_page(bytes, Charset::Utf8, max_lines, rest),
            expected,
            "{bytes:?} {max_lines} {rest:?}"
        );
    }

    #[test]
    fn a_page_ends_on_a_whole_line_where_one_fits() {
        check(b"one\ntwo\nthr", 0, AfterPage::Bytes, (8, PageEnd::More));
        check(b"endless", 0, AfterPage::Bytes, (7, PageEnd::More));
    }

    #[test]
    fn a_line_longer_than_the_page_is_split_between_characters() {
        check("ab€".as_bytes(), 0, AfterPage::Bytes, (5, PageEnd::More));
        check(&"ab€".as_bytes()[..4], 0, AfterPage::Bytes, (2, PageEnd::More));
        check(&"😀😀".as_bytes()[..7], 0, AfterPage::Bytes, (4, PageEnd::More));
    }

    #[test]
    fn a_line_longer_than_the_page_is_split_between_escape_codes() {
        for begun in ["\x1b", "\x1b[", "\x1b[3", "\x1b[38;5;1", "\x1b]0;title"] {
            let page = format!("red{begun}");
            check(page.as_bytes(), 0, AfterPage::Bytes, (3, PageEnd::More));
            check(begun.as_bytes(), 0, AfterPage::Bytes, (begun.len(), PageEnd::More));
        }
        for whole in ["a\x1b[31m", "a\x1b[31mb", "a\x1bM", "a\x1b]0;t\x07", "a\x1b]0;t\x1b\\"] {
            check(whole.as_bytes(), 0, AfterPage::Bytes, (whole.len(), PageEnd::More));
        }
        let endless = format!("a\x1b[{}", "1".repeat(MAX_ESCAPE));
        check(endless.as_bytes(), 0, AfterPage::Bytes, (endless.len(), PageEnd::More));
    }

    #[test]
    fn the_line_limit_ends_a_page_and_the_last_line_is_not_more() {
        check(b"1\n2\n3", 2, AfterPage::Closed, (4, PageEnd::More));
        check(b"1\n2\n", 2, AfterPage::Bytes, (4, PageEnd::More));
        check(b"1\n2\n", 2, AfterPage::Closed, (4, PageEnd::Complete));
        check(b"1\n2\n", 2, AfterPage::Open, (4, PageEnd::CaughtUp));
    }

    #[test]
    fn a_begun_character_is_held_back_only_while_the_log_is_open() {
        let begun = &"é".as_bytes()[..1];
        check(begun, 0, AfterPage::Open, (0, PageEnd::CaughtUp));
        check(begun, 0, AfterPage::Closed, (1, PageEnd::Complete));
    }

    #[test]
    fn a_page_of_another_charset_ends_on_its_lines_and_characters() {
        let charset = Charset::Legacy(encoding_rs::SHIFT_JIS);
        let (bytes, _, _) = encoding_rs::SHIFT_JIS.encode("日本語");
        assert_eq!(cut_page(&bytes[..5], charset, 0, AfterPage::Bytes), (4, PageEnd::More));
        assert_eq!(cut_page(&bytes[..5], charset, 0, AfterPage::Open), (4, PageEnd::CaughtUp));
        let wide: Vec<u8> = "ab\ncd".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let charset = Charset::Wide(Wide::Utf16Le);
        assert_eq!(cut_page(&wide, charset, 0, AfterPage::Bytes), (6, PageEnd::More));
        assert_eq!(cut_page(&wide, charset, 1, AfterPage::Closed), (6, PageEnd::More));
        assert_eq!(cut_page(&wide[..5], charset, 0, AfterPage::Bytes), (4, PageEnd::More));
    }

    #[test]
    fn bytes_that_are_no_text_are_never_held_back() {
        check(&[0xff], 0, AfterPage::Open, (1, PageEnd::CaughtUp));
        check(&[0x80; 9], 0, AfterPage::Bytes, (9, PageEnd::More));
        check(&[0xf5, 0x80], 0, AfterPage::Open, (2, PageEnd::CaughtUp));
        check(&[0xc3, 0x28], 0, AfterPage::Open, (2, PageEnd::CaughtUp));
    }
}

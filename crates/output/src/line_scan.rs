//! Finds the lines of a log that match a pattern, a regex for single lines: in blocks, so that lines
//! without a match cost next to nothing, and in bounded memory.
//!
//! ```text
//! chunks → block (whole lines, about 64 KiB) → line groups: one line that matches, or any
//!                                               number of neighbours that do not
//! ```
//!
//! A block is matched as a whole, except for lines with escape codes or `\r`, which are not
//! searched as they were written. Output in another character set than UTF-8 is decoded into a
//! block. A line that is longer than a block is matched in overlapping parts.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anstream::adapter::strip_bytes;
use grep_matcher::{LineMatchKind, Matcher};
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use memchr::{memchr, memchr_iter, memchr2, memrchr};
use thiserror::Error;

use crate::chunks::{LogChunks, More, OffsetMap, TextBlock};
use crate::views::{Charset, on_screen};

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
    pub(crate) open_line: Option<u64>,
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

/// The longest pattern, and the memory that it may take when compiled.
const PATTERN_BYTES: usize = 1024 * 1024;
/// The memory for the matcher's cache, large enough to look at each byte once.
const CACHE_BYTES: usize = 4 * 1024 * 1024;

/// Advice for each kind of pattern error.
const ADVICE_ON_SYNTAX: &str = "the syntax is that of Rust's regex crate (no look-around, no back-references), escape special characters with a backslash";
const ADVICE_ON_SIZE: &str = "use a shorter one, or smaller numbers in {…}";
const ADVICE_ON_LINES: &str = "each line is searched by itself: leave the newline out, and use context to see the lines around a match";

/// A pattern that cannot be searched for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` cannot be used as a regular expression: {why}; {advice}")]
pub struct PatternError {
    given: String,
    why: String,
    advice: &'static str,
}

impl PatternError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_regex"
    }
}

/// A regex that never matches across the end of a line. Matching takes linear time, whatever the
/// pattern.
#[derive(Debug, Clone)]
pub struct LinePattern {
    text: Box<str>,
    matcher: RegexMatcher,
    reach: MatchScope,
}

/// The amount of text that a pattern can be matched against at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatchScope {
    /// Any number of lines: the first match is in the first matching line.
    Lines,
    /// One line, because `\A` and `\z` stand for the ends of the whole text.
    Line,
}

impl LinePattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If it is not a regex, matches a newline, or would take too much memory.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let given = || pattern.chars().take(100).collect();
        if pattern.len() > PATTERN_BYTES {
            let why = "it is larger than 1 MiB".to_owned();
            return Err(PatternError { given: given(), why, advice: ADVICE_ON_SIZE });
        }
        let built = RegexMatcherBuilder::new()
            .multi_line(true)
            .line_terminator(Some(b'\n'))
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(CACHE_BYTES)
            .build(pattern);
        let matcher = built.map_err(|error| {
            let (why, advice) = explain_error(pattern, &error);
            PatternError { given: given(), why, advice }
        })?;
        let reach = match matcher.line_terminator() {
            Some(_) => MatchScope::Lines,
            None => MatchScope::Line,
        };
        Ok(Self { text: pattern.into(), matcher, reach })
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// `true` if a line, without its newline, matches as it is.
    #[must_use]
    pub fn is_match(&self, line: &[u8]) -> bool {
        // The error type of this matcher has no values, so it cannot fail here or below.
        self.matcher.is_match(line).unwrap_or(false)
    }

    /// The position of the first match in a line.
    pub(crate) fn find(&self, line: &[u8]) -> Option<usize> {
        self.matcher.find(line).ok().flatten().map(|found| found.start())
    }

    /// Finds the first matching line, with its newline. The lines are matched as they are: see
    /// [`searchable_text`].
    pub(crate) fn find_line(&self, lines: &[u8]) -> Option<Range<usize>> {
        let mut at = 0;
        while at < lines.len() {
            let (line, certain) = self.next_candidate(lines, at)?;
            if certain || self.is_match(without_newline(&lines[line.clone()])) {
                return Some(line);
            }
            at = line.end;
        }
        None
    }

    /// The next line at or after `at` that may match, and whether it certainly does.
    fn next_candidate(&self, lines: &[u8], at: usize) -> Option<(Range<usize>, bool)> {
        if self.reach == MatchScope::Line {
            return Some((line_around(lines, at), false));
        }
        let found = self.matcher.find_candidate_line(&lines[at..]).ok().flatten();
        let (position, certain) = match found? {
            LineMatchKind::Confirmed(position) => (position, true),
            LineMatchKind::Candidate(position) => (position, false),
        };
        // After the last newline there is no line, although an empty match is found there.
        Some((line_around(lines, at + position), certain)).filter(|(line, _)| !line.is_empty())
    }
}

/// The line that contains a position, with its newline.
pub(crate) fn line_around(lines: &[u8], position: usize) -> Range<usize> {
    let start = memrchr(b'\n', &lines[..position]).map_or(0, |newline| newline + 1);
    let end = memchr(b'\n', &lines[position..]).map_or(lines.len(), |end| position + end + 1);
    start..end
}

pub(crate) fn without_newline(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// The text of a line as a person would search it: without the newline, a `\r` before it, and
/// escape codes. A line that a `\r` overwrote is the text that a terminal finally shows.
pub(crate) fn searchable_text(line: &[u8]) -> Cow<'_, [u8]> {
    let line = without_newline(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if memchr(b'\r', line).is_some() {
        let text = String::from_utf8_lossy(line);
        return Cow::Owned(on_screen(&text).into_owned().into_bytes());
    }
    match memchr(0x1b, line) {
        Some(_) => Cow::Owned(strip_bytes(line).into_vec()),
        None => Cow::Borrowed(line),
    }
}

/// Explains an error, in terms of the original pattern if possible, and gives advice.
fn explain_error(pattern: &str, error: &grep_regex::Error) -> (String, &'static str) {
    if let Err(error @ regex::Error::Syntax(_)) = regex::bytes::Regex::new(pattern) {
        return (error.to_string(), ADVICE_ON_SYNTAX);
    }
    // A valid regex fails here if it matches a newline or is too large.
    let asks_for_newline = matches!(error.kind(), ErrorKind::NotAllowed(_));
    let advice = if asks_for_newline { ADVICE_ON_LINES } else { ADVICE_ON_SIZE };
    (error.to_string(), advice)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::LogReader;
    use crate::LogStorage;
    use crate::LogWriter;
    use crate::Stream;
    use crate::chunks::BLOCK_BYTES;
    use crate::open_log;

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

    #[test]
    fn a_deadline_ends_with_its_time_or_with_its_guard() {
        let (deadline, _guard) = ScanDeadline::start(Duration::ZERO);
        assert!(deadline.is_over());
        let (deadline, guard) = ScanDeadline::start(Duration::from_secs(3600));
        assert!(!deadline.is_over());
        drop(guard);
        assert!(deadline.clone().is_over());
    }

    #[track_caller]
    fn first(pattern: &str, lines: &str) -> Option<String> {
        let found = LinePattern::new(pattern).unwrap().find_line(lines.as_bytes());
        found.map(|line| lines[line].to_owned())
    }

    #[test]
    fn a_match_stays_inside_its_line() {
        assert_eq!(first(r"a\s+b", "a\nb\na b\n").as_deref(), Some("a b\n"));
        assert_eq!(first("a[^x]b", "a\nb\na-b").as_deref(), Some("a-b"));
        assert_eq!(first("(?s)a.b", "a\nb\n"), None);
        assert_eq!(first("^b$", "ab\nb\nbc\n").as_deref(), Some("b\n"));
        for anchored in [r"\Ab\z", "(?-m)^b$"] {
            assert_eq!(first(anchored, "ab\nb\nbc\n").as_deref(), Some("b\n"), "{anchored}");
        }
    }

    #[test]
    fn an_empty_match_needs_a_line() {
        assert_eq!(first("^$", "a\n"), None);
        assert_eq!(first("^$", "a\n\nb\n").as_deref(), Some("\n"));
        assert_eq!(first("", "a\nb").as_deref(), Some("a\n"));
        assert_eq!(first("x*$", "").as_deref(), None);
    }

    #[test]
    fn a_line_is_searched_as_a_screen_finally_shows_it() {
        for (line, shown) in [
            ("plain\r\n", "plain"),
            ("progress 1%\rprogress 2%\n", "progress 2%"),
            ("long text\r\x1b[Kdone\r\r\n", "done"),
            ("\x1b[1mbold\x1b[0m", "bold"),
        ] {
            assert_eq!(searchable_text(line.as_bytes()), shown.as_bytes(), "{line:?}");
        }
    }

    #[test]
    fn a_bad_pattern_says_what_is_wrong() {
        for pattern in ["(", "[z-a]", "a{99999}{99999}", "a{1000}{1000}", "(?<=x)y", r"a\nb"] {
            let error = LinePattern::new(pattern).unwrap_err();
            assert_eq!(error.code(), "bad_regex");
            assert!(error.to_string().contains("regular expression"), "{error}");
            assert!(!error.to_string().contains("(?:"), "{error}");
        }
        for (pattern, advice) in [
            ("(", "backslash"),
            ("a{1000}{1000}", "smaller numbers"),
            (r"a\nb", "each line is searched by itself"),
        ] {
            let error = LinePattern::new(pattern).unwrap_err().to_string();
            assert!(error.contains(advice), "{error}");
            assert_eq!(error.contains("backslash"), pattern == "(", "{error}");
        }
        assert!(LinePattern::new(&"x".repeat(20_000_000)).unwrap_err().to_string().len() < 1000);
    }
}

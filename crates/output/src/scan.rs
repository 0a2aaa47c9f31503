//! Goes through a log for the lines that match a pattern: in blocks, so that lines without a
//! match cost next to nothing, and in bounded memory.
//!
//! ```text
//! pieces → block (whole lines, about 64 KiB) → stretches: one line that matches, or any
//!                                               number of neighbours that do not
//! ```
//!
//! A block is matched as a whole, except for the lines in it that are not searched as they were
//! written: those with escape codes or `\r`. What is in another character set than UTF-8 comes
//! decoded into a block. A line that fits in no block is matched in parts that overlap.

use std::io;
use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr2, memrchr};

use super::block::{Block, More, Spans};
use super::patience::Patience;
use super::pattern::{Pattern, line_around, searchable, without_newline};
use super::pieces::Pieces;
use super::view::Charset;

/// Of a line that fits in no block, so much is matched twice: a longer match may be missed.
const OVERLAP_BYTES: usize = 4 * 1024;

/// Neighbouring lines of a log, or of one of its streams. Every line is in one stretch.
#[derive(Debug)]
pub(super) struct Stretch<'a> {
    /// What they have in common.
    pub(super) kind: Kind,
    /// The lines with their newlines. Of a line that fits in no block: the part that matches,
    /// or else its last part; without a newline.
    pub(super) bytes: &'a [u8],
    /// Where the bytes start in what `spans` speaks of.
    position: usize,
    spans: &'a Spans,
}

/// What the lines of a stretch have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// They match. There is only one.
    Match,
    /// They do not.
    Other,
}

impl<'a> Stretch<'a> {
    /// The offset in the log that the byte at `index` of the stretch has.
    pub(super) fn offset_at(&self, index: usize) -> u64 {
        self.spans.offset_at(self.position + index)
    }

    /// How many lines it has.
    pub(super) fn count(&self) -> u64 {
        match self.kind {
            Kind::Match => 1,
            Kind::Other => {
                let is_open = self.bytes.last().is_some_and(|last| *last != b'\n');
                memchr_iter(b'\n', self.bytes).count() as u64 + u64::from(is_open)
            }
        }
    }

    /// Its lines with their newlines, each by its place in `bytes`.
    pub(super) fn lines(&self) -> Ranges<'a> {
        Ranges { bytes: self.bytes, rest: 0..self.bytes.len() }
    }
}

/// Lines by their places, from either side.
#[derive(Debug, Clone)]
pub(super) struct Ranges<'a> {
    bytes: &'a [u8],
    rest: Range<usize>,
}

impl Iterator for Ranges<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let rest = &self.bytes[self.rest.clone()];
        let start = self.rest.start;
        self.rest.start = memchr(b'\n', rest).map_or(self.rest.end, |newline| start + newline + 1);
        (!rest.is_empty()).then_some(start..self.rest.start)
    }
}

impl DoubleEndedIterator for Ranges<'_> {
    fn next_back(&mut self) -> Option<Range<usize>> {
        let rest = &self.bytes[self.rest.clone()];
        let end = self.rest.end;
        let before = memrchr(b'\n', without_newline(rest));
        self.rest.end = before.map_or(self.rest.start, |newline| self.rest.start + newline + 1);
        (!rest.is_empty()).then_some(self.rest.end..end)
    }
}

/// Goes through a part of a log.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    pattern: &'a Pattern,
    patience: &'a Patience,
    block: Block,
    more: More,
    /// The lines of the block that are still to come.
    lines: Range<usize>,
    /// The next of them that matches, once it is known.
    found: Option<Range<usize>>,
    /// The next of them that must be looked at by itself; empty, at the end, if none must.
    odd: Range<usize>,
    /// Whether the block is part of a line that fits in none.
    long: LongLine,
    /// Where the newest such line starts.
    long_start: u64,
    /// Where the last line starts, once it is seen that it has not ended.
    open_line: Option<u64>,
}

/// Whether a block is part of a line that fits in none, and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LongLine {
    No,
    NoMatchYet,
    Matched,
}

impl<'a> Scan<'a> {
    /// Starts before the first of the pieces, which is at `offset` or after it. Stops early when
    /// patience is over.
    pub(super) fn new(
        pieces: Pieces,
        offset: u64,
        charset: Charset,
        pattern: &'a Pattern,
        patience: &'a Patience,
    ) -> Self {
        Self {
            pattern,
            patience,
            block: Block::new(pieces, offset, charset),
            more: More::Maybe,
            lines: 0..0,
            found: None,
            odd: 0..0,
            long: LongLine::No,
            long_start: offset,
            open_line: None,
        }
    }

    /// The next stretch; `None` at the end, or when patience is over.
    pub(super) fn next(&mut self) -> io::Result<Option<Stretch<'_>>> {
        loop {
            if !self.lines.is_empty() {
                return Ok(Some(self.next_in_block()));
            }
            // The first block is looked at in any case, so that whoever goes on gets on.
            let is_begun = !self.block.bytes().is_empty();
            if self.more == More::No || is_begun && self.patience.is_over() {
                return Ok(None);
            }
            self.next_block()?;
            if self.long != LongLine::No
                && let Some(part) = self.pass_part()
            {
                return Ok(Some(self.stretch(part)));
            }
        }
    }

    /// Whether there was nothing more to look at. If not, [`Scan::reached`] says where to go on.
    pub(super) fn is_complete(&self) -> bool {
        self.more == More::No && self.lines.is_empty()
    }

    /// The offset of the next byte to look at.
    pub(super) fn reached(&self) -> u64 {
        self.block.spans().offset_at(self.lines.start)
    }

    /// The offset of a last line without a newline, once all was looked at.
    pub(super) const fn open_line(&self) -> Option<u64> {
        self.open_line
    }

    fn stretch(&self, (kind, place): (Kind, Range<usize>)) -> Stretch<'_> {
        let bytes = &self.block.bytes()[place.clone()];
        Stretch { kind, bytes, position: place.start, spans: self.block.spans() }
    }

    fn next_in_block(&mut self) -> Stretch<'_> {
        let found = self.found.take().or_else(|| self.next_match());
        let (kind, lines) = match found {
            Some(line) if line.start == self.lines.start => (Kind::Match, line),
            Some(line) => {
                let before = self.lines.start..line.start;
                self.found = Some(line);
                (Kind::Other, before)
            }
            None => (Kind::Other, self.lines.clone()),
        };
        self.lines.start = lines.end;
        self.stretch((kind, lines))
    }

    /// The next line of the block that matches.
    fn next_match(&mut self) -> Option<Range<usize>> {
        let bytes = &self.block.bytes()[..self.lines.end];
        let mut at = self.lines.start;
        while at < bytes.len() {
            if self.odd.end <= at {
                self.odd = next_odd(bytes, at);
            }
            if let Some(line) = self.pattern.find_line(&bytes[at..self.odd.start]) {
                return Some(at + line.start..at + line.end);
            }
            let odd = self.odd.clone();
            if !odd.is_empty() && self.pattern.is_match(&searchable(&bytes[odd.clone()])) {
                return Some(odd);
            }
            at = odd.end;
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
        self.odd = 0..0;
        if end == 0 && self.more == More::Maybe && self.long == LongLine::No {
            self.long = LongLine::NoMatchYet;
            self.long_start = self.block.spans().offset_at(0);
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
            (Some(newline), _) => self.block.spans().offset_at(newline + 1),
            (None, LongLine::No) => self.block.spans().offset_at(0),
            (None, LongLine::NoMatchYet | LongLine::Matched) => self.long_start,
        })
    }

    /// Looks at the part of a long line that the block begins with. Such a line is told of once:
    /// with its first part that matches, or with its last.
    fn pass_part(&mut self) -> Option<(Kind, Range<usize>)> {
        let bytes = self.block.bytes();
        let newline = memchr(b'\n', bytes);
        let part = 0..newline.unwrap_or(bytes.len());
        let is_last = newline.is_some() || self.more == More::No;
        let is_new = self.long == LongLine::NoMatchYet;
        let matches = is_new && self.pattern.is_match(&searchable(&bytes[part.clone()]));
        if is_last {
            self.lines.start = newline.map_or(part.end, |newline| newline + 1);
            self.long = LongLine::No;
        } else {
            let kept = part.end.saturating_sub(OVERLAP_BYTES);
            self.lines = kept..kept;
            self.long = if matches { LongLine::Matched } else { self.long };
        }
        match (matches, is_new && is_last) {
            (true, _) => Some((Kind::Match, part)),
            (false, true) => Some((Kind::Other, part)),
            (false, false) => None,
        }
    }
}

/// The next line at or after `at` that is not searched as it was written; else the empty end.
fn next_odd(lines: &[u8], at: usize) -> Range<usize> {
    match memchr2(b'\x1b', b'\r', &lines[at..]) {
        Some(position) => line_around(lines, at + position),
        None => lines.len()..lines.len(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::block::BLOCK_BYTES;
    use super::super::{LogReader, LogSettings, LogWriter, open};
    use super::*;
    use crate::Stream;

    fn log(bytes: &[u8]) -> (LogWriter, LogReader, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open(&LogSettings { memory_bytes: 100, spill_dir: dir.path().to_owned().into() });
        writer.append(Stream::Stdout, bytes);
        (writer, reader, dir)
    }

    /// Offset, length and kind of each stretch.
    fn scanned(bytes: &[u8], pattern: &str) -> Vec<(u64, usize, Kind)> {
        let (_writer, reader, _dir) = log(bytes);
        let (patience, _leash) = Patience::start(Duration::from_secs(3600));
        let pattern = Pattern::new(pattern).unwrap();
        let pieces = reader.blocking().pieces(None, 0, bytes.len() as u64);
        let mut scan = Scan::new(pieces, 0, Charset::Utf8, &pattern, &patience);
        let mut stretches = Vec::new();
        while let Some(stretch) = scan.next().unwrap() {
            stretches.push((stretch.offset_at(0), stretch.bytes.len(), stretch.kind));
        }
        assert!(scan.is_complete());
        assert_eq!(scan.reached(), bytes.len() as u64);
        stretches
    }

    #[test]
    fn neighbours_that_do_not_match_are_one_stretch() {
        assert_eq!(
            scanned(b"a\nb\nX1\nX2\n\x1b[1mX\x1b[0m\nc\r\nd", "^X"),
            [
                (0, 4, Kind::Other),
                (4, 3, Kind::Match),
                (7, 3, Kind::Match),
                (10, 10, Kind::Match),
                (20, 4, Kind::Other),
            ]
        );
        assert_eq!(scanned(b"", ""), []);
    }

    #[test]
    fn a_line_that_fits_in_no_block_is_told_of_once() {
        let mut bytes = vec![b'x'; 500_000];
        assert_eq!(scanned(&bytes, "NEEDLE").len(), 1);
        assert_eq!(scanned(&bytes, "NEEDLE")[0].2, Kind::Other);
        bytes[200_000..200_006].copy_from_slice(b"NEEDLE");
        bytes[400_000..400_006].copy_from_slice(b"NEEDLE");
        bytes.extend_from_slice(b"\nNEEDLE\nlast");
        let kinds: Vec<Kind> = scanned(&bytes, "NEEDLE").iter().map(|found| found.2).collect();
        assert_eq!(kinds, [Kind::Match, Kind::Match, Kind::Other]);
    }

    #[test]
    fn a_match_is_found_wherever_a_long_line_is_parted() {
        let second = 2 * BLOCK_BYTES - OVERLAP_BYTES;
        for at in (BLOCK_BYTES - 10..BLOCK_BYTES + 5).chain(second - 10..second + 5) {
            let mut bytes = vec![b'x'; 3 * BLOCK_BYTES];
            bytes[at..at + 6].copy_from_slice(b"NEEDLE");
            let found = scanned(&bytes, "NEEDLE");
            assert!(found.iter().any(|found| found.2 == Kind::Match), "{at}");
        }
    }

    #[test]
    fn it_stops_when_patience_is_over_and_says_where() {
        let bytes = b"line\n".repeat(200_000);
        let (_writer, reader, _dir) = log(&bytes);
        let (patience, leash) = Patience::start(Duration::from_secs(3600));
        let pattern = Pattern::new("x").unwrap();
        let pieces = reader.blocking().pieces(None, 0, bytes.len() as u64);
        let mut scan = Scan::new(pieces, 0, Charset::Utf8, &pattern, &patience);
        let first = scan.next().unwrap().unwrap().bytes.len() as u64;
        drop(leash);
        assert!(scan.next().unwrap().is_none());
        assert!(!scan.is_complete());
        assert_eq!(scan.reached(), first);
    }

    #[test]
    fn lines_are_given_from_either_side() {
        let bytes = b"a\n\nbc\nd";
        let ranges = Ranges { bytes, rest: 0..bytes.len() };
        let forward: Vec<&[u8]> = ranges.clone().map(|line| &bytes[line]).collect();
        assert_eq!(forward, [&b"a\n"[..], b"\n", b"bc\n", b"d"]);
        let mut backward: Vec<&[u8]> = ranges.rev().map(|line| &bytes[line]).collect();
        backward.reverse();
        assert_eq!(backward, forward);
    }
}

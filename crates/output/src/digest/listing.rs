//! The lines that are listed: read again by where they are, and shown with what matters in sight.

use std::io;
use std::ops::Range;

use super::blocks::Blocks;
use super::candidates::lines_from;
use super::findings::{Findings, Spot};
use super::made::{InContext, NumberedLine, Tally};
use super::trouble::{readable, told};
use crate::Stream;
use crate::blocking_reader::BlockingReader;
use crate::view::{Charset, cut_chars};

/// Lines are cut to so many characters …
const LINE_CHARS: usize = 200;
/// … of which so many stand before what matters, where it is not near the line's beginning.
const CHARS_BEFORE: usize = 50;
const NEAR_BEGINNING: usize = 150;
/// So much of a line is read: a progress bar is longer than it looks.
const LINE_BYTES: u64 = 16 * 1024;
/// So much of it before what matters.
const BYTES_BEFORE: u64 = 4 * 1024;
/// Lines before the first and the last error, and after them.
const BEFORE: usize = 2;
const AFTER: usize = 3;
/// So many lines are listed from each side, and by their numbers alone all that are remembered.
const LISTED_EACH: usize = 5;

/// What lines are read from.
#[derive(Debug)]
pub(super) struct Listing<'a> {
    pub(super) reader: &'a BlockingReader,
    pub(super) stream: Option<Stream>,
    pub(super) charset: Charset,
    pub(super) range: Range<u64>,
}

/// Whether a text begins or ends with its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    Line,
    Inside,
}

/// A line that was read, decoded.
struct Read {
    line: u64,
    bytes: Vec<u8>,
    ends: Edge,
}

impl Listing<'_> {
    /// All of these counted, some of them listed.
    pub(super) fn tally(&self, findings: &Findings) -> io::Result<Tally> {
        let spots = findings.remembered();
        let number = |spot: &Spot| self.reader.line_at(spot.offset);
        let mut listed = Vec::new();
        for (index, spot) in spots.iter().enumerate() {
            if index < LISTED_EACH || index + LISTED_EACH >= spots.len() {
                let NumberedLine { line, text } = self.line_of(*spot)?;
                listed.push(NumberedLine { line, text: text.trim_start().to_owned() });
            }
        }
        let numbers = spots.iter().map(number).collect::<io::Result<_>>()?;
        Ok(Tally { count: findings.count(), listed, numbers })
    }

    /// A line and its neighbours.
    pub(super) fn in_context(&self, spot: Spot) -> io::Result<InContext> {
        let start = self.charset.aligned(spot.offset.saturating_sub(LINE_BYTES));
        let start = start.max(self.range.start).min(spot.offset);
        let mut before = self.lines_in(start..spot.offset)?;
        // The first may be the rest of a line.
        let skipped =
            before.len().saturating_sub(BEFORE).max(usize::from(start > self.range.start));
        before.drain(..skipped.min(before.len()));
        let mut after = self.lines_in(spot.offset..self.end_of_read(spot.offset))?;
        after.truncate(AFTER + 1);
        after.drain(..after.len().min(1));
        let shown = |lines: Vec<Read>| lines.into_iter().map(Read::shown).collect();
        Ok(InContext { before: shown(before), line: self.line_of(spot)?, after: shown(after) })
    }

    /// A line, with what matters in sight.
    fn line_of(&self, spot: Spot) -> io::Result<NumberedLine> {
        let near = self.charset.aligned(spot.word.saturating_sub(BYTES_BEFORE));
        let start = near.max(spot.offset);
        let starts = if start == spot.offset { Edge::Line } else { Edge::Inside };
        let line = self.reader.line_at(spot.offset)?;
        let read = self.lines_in(start..self.end_of_read(start))?;
        let text = read.first().map(|read| {
            let told = told(&read.bytes);
            clipped(told.text.trim_end(), told.at, (starts, read.ends))
        });
        Ok(NumberedLine { line, text: text.unwrap_or_default() })
    }

    fn end_of_read(&self, start: u64) -> u64 {
        self.range.end.min(start.saturating_add(LINE_BYTES)).max(start)
    }

    /// The lines of a range that is not large.
    fn lines_in(&self, range: Range<u64>) -> io::Result<Vec<Read>> {
        let pieces = self.reader.pieces(self.stream, range.start, range.end);
        let mut blocks = Blocks::new(pieces, self.charset);
        let Some(block) = blocks.next()? else { return Ok(Vec::new()) };
        let lines = lines_from(block.bytes, 0).map(|line| {
            let is_open = line.end == block.bytes.len() && range.end < self.range.end;
            Ok(Read {
                line: self.reader.line_at(block.offset_of(line.start))?,
                ends: if is_open { Edge::Inside } else { Edge::Line },
                bytes: block.bytes[line].to_vec(),
            })
        });
        lines.collect()
    }
}

impl Read {
    fn shown(self) -> NumberedLine {
        let text = readable(&self.bytes);
        NumberedLine { line: self.line, text: clipped(text.trim_end(), 0, (Edge::Line, self.ends)) }
    }
}

/// At most [`LINE_CHARS`] characters of a text, what stands at `at` among them, and the number of
/// those that are missing where it is known.
fn clipped(text: &str, at: usize, (starts, ends): (Edge, Edge)) -> String {
    let chars_before = text.get(..at).map_or(0, |before| before.chars().count());
    let skipped = match starts {
        Edge::Line if chars_before <= NEAR_BEGINNING => 0,
        Edge::Line | Edge::Inside => chars_before.saturating_sub(CHARS_BEFORE),
    };
    let start = text.char_indices().nth(skipped).map_or(text.len(), |(start, _)| start);
    let before = match starts {
        Edge::Line if skipped == 0 => String::new(),
        Edge::Line => format!("[+{skipped} chars] …"),
        Edge::Inside => "…".to_owned(),
    };
    let shown = match ends {
        Edge::Line => cut_chars(&text[start..], LINE_CHARS),
        Edge::Inside => text[start..].chars().take(LINE_CHARS).chain(['…']).collect(),
    };
    before + &shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_in_sight_and_what_is_missing_is_counted() {
        let text = format!("{} error: no {}", "é".repeat(1000), "y".repeat(1000));
        let at = text.find("error").unwrap();
        let whole = clipped(&text, at, (Edge::Line, Edge::Line));
        let shown = format!("{} error: no {}", "é".repeat(49), "y".repeat(140));
        assert_eq!(whole, format!("[+951 chars] …{shown}… [+860 chars]"));
        assert_eq!(clipped(&text, at, (Edge::Inside, Edge::Inside)), format!("…{shown}…"));
        assert_eq!(clipped("error: short", 0, (Edge::Line, Edge::Line)), "error: short");
        assert_eq!(clipped("error: short", 0, (Edge::Line, Edge::Inside)), "error: short…");
    }
}

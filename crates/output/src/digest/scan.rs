//! One way through a log, block by block: what was found, by offset.

use std::io;
use std::ops::Range;
use std::time::Instant;

use memchr::{memchr_iter, memrchr};

use super::blocks::{Block, Blocks};
use super::candidates::{Search, line_at};
use super::endings::{Ending, Recogniser, Sight, Wants, recognisers};
use super::findings::{Findings, Piece, Spot};
use super::rows::Rows;
use super::traceback::{Place, Traceback};
use super::trouble::{Trouble, found_in, readable, told};
use crate::Stream;
use crate::blocking_reader::BlockingReader;
use crate::view::Charset;

/// In a line that is longer than this, what matters is looked for where it stands.
const LONG_LINE: usize = 4 * 1024;

/// Whether what is walked over is the part that is left out of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Shown,
    Hidden,
}

/// What was found so far. Bounded, whatever the log is.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    reader: &'a BlockingReader,
    stream: Option<Stream>,
    charset: Charset,
    pub(super) errors: Findings,
    /// The errors of parts that are left out.
    pub(super) hidden: Findings,
    pub(super) warnings: Findings,
    pub(super) newlines: u64,
    pub(super) bytes: u64,
    recognisers: Vec<Box<dyn Recogniser>>,
    wants: Wants,
    /// Where the walk has come to.
    end: u64,
    /// What the next block begins with.
    begins: Piece,
    /// Where the line starts that it goes on with.
    line_start: u64,
    rows: Rows,
    traceback: Traceback,
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        reader: &'a BlockingReader,
        stream: Option<Stream>,
        charset: Charset,
    ) -> Self {
        Self {
            reader,
            stream,
            charset,
            errors: Findings::default(),
            hidden: Findings::default(),
            warnings: Findings::default(),
            newlines: 0,
            bytes: 0,
            recognisers: recognisers(),
            wants: Wants::Signs,
            end: 0,
            begins: Piece::Line,
            line_start: 0,
            rows: Rows::default(),
            traceback: Traceback::default(),
        }
    }

    /// Walks over a range; where there is a deadline, until then, but over one block at least.
    /// Says whether it came to the end of the range.
    pub(super) fn walk(
        &mut self,
        range: Range<u64>,
        part: Part,
        deadline: Option<Instant>,
    ) -> io::Result<bool> {
        if range.start != self.end {
            self.leave_a_gap(range.start);
        }
        let reader = self.reader;
        let pieces = reader.pieces(self.stream, range.start, range.end);
        let mut blocks = Blocks::new(pieces, self.charset);
        while let Some(block) = blocks.next()? {
            self.look_through(block, part);
            self.end = block.end;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(self.end >= range.end);
            }
        }
        self.end = range.end;
        Ok(true)
    }

    /// How the tools in it ended, in the order of the log.
    pub(super) fn endings(&self) -> Vec<Ending> {
        let mut endings: Vec<Ending> =
            self.recognisers.iter().flat_map(|recogniser| recogniser.endings()).collect();
        endings.sort_by_key(|ending| ending.offset);
        endings
    }

    /// Lines that were looked at, an unfinished last one included.
    pub(super) fn lines(&self) -> u64 {
        self.newlines + u64::from(self.begins == Piece::Rest)
    }

    /// What follows has nothing to do with what came before.
    fn leave_a_gap(&mut self, offset: u64) {
        self.begins = Piece::Line;
        self.rows.start_anew();
        self.show(Sight { offset, text: "" });
        self.wants = Wants::Signs;
    }

    fn look_through(&mut self, block: Block<'_>, part: Part) {
        let bytes = block.bytes;
        let search = Search::of(bytes);
        let mut at = 0;
        let mut passed = 0;
        while let Some(line) = self.next_line(bytes, at, search) {
            at = line.end + 1;
            // The codes that move to a line's row stand in the line itself.
            let row = self.rows.pass(&bytes[passed..line.end], search.moves());
            passed = line.end;
            let piece = if line.start == 0 { self.begins } else { Piece::Line };
            let offset = match piece {
                Piece::Line => block.offset_of(line.start),
                Piece::Rest => self.line_start,
            };
            let word = block.offset_of(line.start + word_in(&bytes[line.clone()]));
            self.look_at(Spot { offset, word, row, piece }, &bytes[line], part);
        }
        self.rows.pass(&bytes[passed..], search.moves());
        self.bytes += block.source_bytes;
        self.newlines += memchr_iter(b'\n', bytes).count() as u64;
        match memrchr(b'\n', bytes) {
            Some(newline) => self.line_start = block.offset_of(newline + 1),
            None if self.begins == Piece::Line => self.line_start = block.offset_of(0),
            None => {}
        }
        self.begins = if bytes.ends_with(b"\n") { Piece::Line } else { Piece::Rest };
    }

    fn next_line(&self, block: &[u8], at: usize, search: Search) -> Option<Range<usize>> {
        match self.wants {
            Wants::NextLine => line_at(block, at),
            Wants::Signs => search.next(block, at),
        }
    }

    fn look_at(&mut self, spot: Spot, line: &[u8], part: Part) {
        let text = readable(line);
        match (self.traceback.follow(&text, spot.row, self.wants), told(line).trouble) {
            (Place::Frame, _) | (_, None) => {}
            (Place::Outside, Some(Trouble::Error)) => self.note_error(spot, part),
            (Place::Exception { row }, Some(Trouble::Error)) => {
                self.note_error(Spot { row, ..spot }, part);
            }
            (Place::Outside | Place::Exception { .. }, Some(Trouble::Warning)) => {
                self.warnings.note(spot);
            }
        }
        // The rest of an overlong line is no line of a tool.
        if spot.piece == Piece::Line {
            self.show(Sight { offset: spot.offset, text: &text });
        }
    }

    fn note_error(&mut self, spot: Spot, part: Part) {
        self.errors.note(spot);
        if part == Part::Hidden {
            self.hidden.note(spot);
        }
    }

    fn show(&mut self, line: Sight<'_>) {
        self.wants = Wants::Signs;
        for recogniser in &mut self.recognisers {
            if recogniser.look_at(line) == Wants::NextLine {
                self.wants = Wants::NextLine;
            }
        }
    }
}

/// Where in a line that is long the first word of trouble stands.
fn word_in(line: &[u8]) -> usize {
    let is_long = line.len() > LONG_LINE;
    let found = if is_long { found_in(line) } else { None };
    found.map_or(0, |(_, at)| at)
}

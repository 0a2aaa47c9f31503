//! Walks over output that is JSON lines, one whole line at a time.

use std::ops::Range;

use memchr::memchr;

use super::block::{Block, More};
use super::patience::Patience;
use super::pieces::Pieces;
use super::query::{MAX_BYTES, QueryError};
use super::view::Charset;

/// The lines of a log that are not blank. A line longer than a query may look at is an error.
#[derive(Debug)]
pub(super) struct JsonLines<'a> {
    block: Block,
    more: More,
    /// Where in the block the next line starts.
    at: usize,
    /// There is no newline between the next line's start and here.
    scanned: usize,
    /// The number of the next line, counted from 1.
    number: usize,
    patience: &'a Patience,
}

/// One line: its number, and where it is until the next one is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsonLine {
    pub(super) number: usize,
    place: Range<usize>,
}

impl<'a> JsonLines<'a> {
    /// Starts at the first of the pieces.
    pub(super) fn new(pieces: Pieces, charset: Charset, patience: &'a Patience) -> Self {
        let block = Block::new(pieces, 0, charset);
        Self { block, more: More::Maybe, at: 0, scanned: 0, number: 1, patience }
    }

    /// The next line that is not blank.
    pub(super) fn next(&mut self) -> Result<Option<JsonLine>, QueryError> {
        loop {
            let Some(place) = self.next_line()? else { return Ok(None) };
            let number = self.number;
            self.number += 1;
            if !self.block.bytes()[place.clone()].trim_ascii().is_empty() {
                return Ok(Some(JsonLine { number, place }));
            }
        }
    }

    /// What a line that was just given says.
    pub(super) fn bytes(&self, line: &JsonLine) -> &[u8] {
        &self.block.bytes()[line.place.clone()]
    }

    /// Whether it was the last, and has no newline.
    pub(super) fn is_open(&self, line: &JsonLine) -> bool {
        self.more == More::No && self.bytes(line).last() != Some(&b'\n')
    }

    fn next_line(&mut self) -> Result<Option<Range<usize>>, QueryError> {
        loop {
            let bytes = self.block.bytes();
            if let Some(newline) = memchr(b'\n', &bytes[self.scanned..]) {
                return Ok(Some(self.take(self.scanned + newline + 1)));
            }
            let end = bytes.len();
            if self.more == More::No {
                return Ok((self.at < end).then(|| self.take(end)));
            }
            self.go_on()?;
        }
    }

    fn take(&mut self, end: usize) -> Range<usize> {
        let line = self.at..end;
        (self.at, self.scanned) = (end, end);
        line
    }

    /// Adds to the line that has not ended yet.
    fn go_on(&mut self) -> Result<(), QueryError> {
        let unfinished = self.block.bytes().len() - self.at;
        if unfinished > MAX_BYTES {
            return Err(QueryError::too_large("a line of over 16 MiB"));
        }
        if self.patience.is_over() {
            return Err(QueryError::TimeOver { line: self.number });
        }
        self.more = self.block.fill(self.at)?;
        (self.at, self.scanned) = (0, unfinished);
        Ok(())
    }
}

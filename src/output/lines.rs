//! Walks over a log line by line, in bounded memory.

use std::io;

use memchr::memchr;

use super::pieces::{Pieces, Step};

/// A line longer than this comes in parts.
pub(super) const PART_BYTES: usize = 64 * 1024;

/// One line, or a part of an overlong one, without its newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The offset of its first byte.
    pub(super) offset: u64,
    /// The offset after it and its newline.
    pub(super) end: u64,
    /// Its bytes: not much more than [`PART_BYTES`].
    pub(super) bytes: &'a [u8],
    /// Whether it goes on with the line that the part before it belonged to.
    pub(super) continues: bool,
}

/// The lines that some pieces of a log make up.
#[derive(Debug)]
pub(super) struct Lines {
    pieces: Pieces,
    /// The unfinished line of earlier pieces, then the newest piece.
    buffer: Vec<u8>,
    /// Where in the buffer the newest piece starts, and which offset that is.
    piece: (usize, u64),
    /// Where in the buffer the next line starts, and which offset that is.
    start: (usize, u64),
    /// There is no newline between the next line's start and here.
    scanned: usize,
    continues: bool,
}

impl Lines {
    pub(super) fn new(pieces: Pieces) -> Self {
        let buffer = Vec::new();
        Self { pieces, buffer, piece: (0, 0), start: (0, 0), scanned: 0, continues: false }
    }

    /// The next line; bytes after the last newline count as one, and so do bytes before a hole.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            if let Some(newline) = memchr(b'\n', &self.buffer[self.scanned..]) {
                let end = self.scanned + newline;
                return Ok(Some(self.take(end, Ends::Line)));
            }
            self.scanned = self.buffer.len();
            if self.scanned - self.start.0 >= PART_BYTES {
                return Ok(Some(self.take(self.buffer.len(), Ends::Part)));
            }
            let is_empty = self.start.0 == self.buffer.len();
            match self.pieces.step()? {
                Step::Piece => self.refill(),
                Step::Hole if is_empty => self.continues = false,
                Step::Hole => return Ok(Some(self.take(self.buffer.len(), Ends::Hole))),
                Step::End if is_empty => return Ok(None),
                Step::End => return Ok(Some(self.take(self.buffer.len(), Ends::Part))),
            }
        }
    }

    /// Adds the newest piece behind what is not yet given.
    fn refill(&mut self) {
        let Some((offset, piece)) = self.pieces.piece() else { return };
        self.buffer.drain(..self.start.0);
        self.start.0 = 0;
        self.scanned = self.buffer.len();
        self.piece = (self.buffer.len(), offset);
        if self.buffer.is_empty() {
            self.start.1 = offset;
        }
        self.buffer.extend_from_slice(piece);
    }

    /// Gives what comes before `end`, which lies in the newest piece or at its end.
    fn take(&mut self, end: usize, ends: Ends) -> Line<'_> {
        let next = match ends {
            Ends::Line => end + 1,
            Ends::Part | Ends::Hole => end,
        };
        let (start, offset) = self.start;
        let continues = self.continues;
        self.start = (next, self.piece.1 + (next - self.piece.0) as u64);
        self.scanned = next;
        self.continues = ends == Ends::Part;
        Line { offset, end: self.start.1, bytes: &self.buffer[start..end], continues }
    }
}

/// What ends a [`Line`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Line,
    Part,
    Hole,
}

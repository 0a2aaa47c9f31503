//! A part of a log in memory, with the offset that each of its bytes has in the log.

use std::io;

use super::pieces::{Pieces, Step};

/// Bytes that one filling adds, or a little more.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;

/// Some bytes of a log, which [`Block::fill`] moves on through it.
#[derive(Debug)]
pub(super) struct Block {
    pieces: Pieces,
    /// The first `filled` of these are the block.
    buffer: Vec<u8>,
    filled: usize,
    spans: Spans,
}

impl Block {
    /// An empty block before the first of the pieces, which is at `offset` or after it.
    pub(super) fn new(pieces: Pieces, offset: u64) -> Self {
        Self { pieces, buffer: Vec::new(), filled: 0, spans: Spans::from(offset) }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    pub(super) fn spans(&self) -> &Spans {
        &self.spans
    }

    /// Forgets the bytes before `keep_from` and adds a block of new ones; says whether there
    /// may be more after them.
    pub(super) fn fill(&mut self, keep_from: usize) -> io::Result<More> {
        self.buffer.copy_within(keep_from..self.filled, 0);
        self.filled -= keep_from;
        self.spans.forget(keep_from);
        let wanted = self.filled + BLOCK_BYTES;
        while self.filled < wanted {
            match self.pieces.step_into(&mut self.buffer, self.filled)? {
                (Step::Piece, piece) => {
                    self.spans.push(Span { position: self.filled, offset: piece.start });
                    self.filled += (piece.end - piece.start) as usize;
                }
                (Step::Hole, _) => self.end_line(),
                (Step::End, _) => return Ok(More::No),
            }
        }
        Ok(More::Maybe)
    }

    /// What comes after a hole is no part of the line before it.
    fn end_line(&mut self) {
        if self.bytes().last().is_some_and(|last| *last != b'\n') {
            self.buffer.truncate(self.filled);
            self.buffer.push(b'\n');
            self.filled += 1;
        }
    }
}

/// Whether anything may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    Maybe,
    No,
}

/// Which offsets some bytes have: those of one stream may lie apart in the log.
///
/// Invariant: there is at least one, the first at position 0, and positions do not fall.
#[derive(Debug)]
pub(super) struct Spans(Vec<Span>);

/// From this position on, bytes follow each other from this offset on.
#[derive(Debug, Clone, Copy)]
struct Span {
    position: usize,
    offset: u64,
}

impl Spans {
    /// Bytes that follow each other from this offset on.
    pub(super) fn from(offset: u64) -> Self {
        Self(vec![Span { position: 0, offset }])
    }

    /// The offset of the byte at a position.
    pub(super) fn offset_at(&self, position: usize) -> u64 {
        let span = self.0[self.index_at(position)];
        span.offset + (position - span.position) as u64
    }

    fn index_at(&self, position: usize) -> usize {
        self.0.partition_point(|span| span.position <= position).saturating_sub(1)
    }

    fn push(&mut self, span: Span) {
        if self.offset_at(span.position) != span.offset {
            self.0.push(span);
        }
    }

    /// Takes so many bytes off at the beginning.
    fn forget(&mut self, count: usize) {
        let (index, offset) = (self.index_at(count), self.offset_at(count));
        self.0.drain(..index);
        self.0[0] = Span { position: count, offset };
        self.0.iter_mut().for_each(|span| span.position -= count);
    }
}

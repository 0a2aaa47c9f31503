//! A part of a log in memory, with the offset that each of its bytes has in the log.

use std::io;

use super::decoding::{Decoded, Decoding};
use super::pieces::{Pieces, Step};
use super::view::Charset;

/// Bytes that one filling adds, or a little more.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;

/// Some bytes of a log, as UTF-8, which [`Block::fill`] moves on through it.
#[derive(Debug)]
pub(super) struct Block {
    pieces: Pieces,
    /// Only where the log is in another character set.
    decoding: Option<Decoding>,
    /// The first `filled` of these are the block.
    buffer: Vec<u8>,
    filled: usize,
    spans: Spans,
}

impl Block {
    /// An empty block before the first of the pieces, which is at `offset` or after it.
    pub(super) fn new(pieces: Pieces, offset: u64, charset: Charset) -> Self {
        let decoding = Decoding::of(charset);
        let grain = if decoding.is_some() { Grain::Parts } else { Grain::Bytes };
        let spans = Spans::new(offset, grain);
        Self { pieces, decoding, buffer: Vec::new(), filled: 0, spans }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// The bytes alone.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.buffer.truncate(self.filled);
        self.buffer
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
            let more = match self.decoding {
                None => self.add_piece()?,
                Some(_) => self.add_decoded()?,
            };
            if more == More::No {
                return Ok(More::No);
            }
        }
        Ok(More::Maybe)
    }

    fn add_piece(&mut self) -> io::Result<More> {
        match self.pieces.step_into(&mut self.buffer, self.filled)? {
            (Step::Piece, piece) => {
                self.spans.push(Span { position: self.filled, offset: piece.start });
                self.filled += (piece.end - piece.start) as usize;
            }
            (Step::Hole, _) => self.end_line(),
            (Step::End, _) => return Ok(More::No),
        }
        Ok(More::Maybe)
    }

    fn add_decoded(&mut self) -> io::Result<More> {
        let Some(decoding) = &mut self.decoding else { return Ok(More::No) };
        let step = self.pieces.step()?;
        let decoded = match (step, self.pieces.piece()) {
            (Step::Piece, Some((offset, piece))) => decoding.add(offset, piece),
            (Step::Piece, None) | (Step::Hole | Step::End, _) => decoding.end(),
        };
        self.push_decoded(decoded);
        match step {
            Step::Piece => {}
            Step::Hole => self.end_line(),
            Step::End => return Ok(More::No),
        }
        Ok(More::Maybe)
    }

    fn push_decoded(&mut self, decoded: Vec<Decoded>) {
        self.buffer.truncate(self.filled);
        for (place, text) in decoded {
            self.spans.push(Span { position: self.filled, offset: place.start });
            self.buffer.extend_from_slice(text.as_bytes());
            self.filled = self.buffer.len();
            self.spans.push(Span { position: self.filled, offset: place.end });
        }
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
pub(super) struct Spans {
    spans: Vec<Span>,
    grain: Grain,
}

/// How exactly offsets are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grain {
    /// Of each byte.
    Bytes,
    /// Of decoded text: where the line starts, or the part of it, that a byte belongs to.
    Parts,
}

/// From this position on, bytes follow each other from this offset on.
#[derive(Debug, Clone, Copy)]
struct Span {
    position: usize,
    offset: u64,
}

impl Spans {
    /// Bytes that follow each other from this offset on.
    fn new(offset: u64, grain: Grain) -> Self {
        Self { spans: vec![Span { position: 0, offset }], grain }
    }

    /// The offset of the byte at a position.
    pub(super) fn offset_at(&self, position: usize) -> u64 {
        let span = self.spans[self.index_at(position)];
        match self.grain {
            Grain::Bytes => span.offset + (position - span.position) as u64,
            Grain::Parts => span.offset,
        }
    }

    fn index_at(&self, position: usize) -> usize {
        self.spans.partition_point(|span| span.position <= position).saturating_sub(1)
    }

    fn push(&mut self, span: Span) {
        if self.offset_at(span.position) != span.offset {
            self.spans.push(span);
        }
    }

    /// Takes so many bytes off at the beginning.
    fn forget(&mut self, count: usize) {
        let (index, offset) = (self.index_at(count), self.offset_at(count));
        self.spans.drain(..index);
        self.spans[0] = Span { position: count, offset };
        self.spans.iter_mut().for_each(|span| span.position -= count);
    }
}

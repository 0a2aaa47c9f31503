//! A part of a log in large blocks of whole lines, in bounded memory.

use std::io;

use memchr::memrchr;

use crate::output::pieces::Pieces;

/// So much is gathered before it is given. A line longer than this comes in parts.
const BLOCK_BYTES: usize = 256 * 1024;

/// Whole lines, or a part of one that is overlong.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) bytes: &'a [u8],
    /// Where in the bytes each piece of the log starts, and which offset that is.
    starts: &'a [(usize, u64)],
}

impl Block<'_> {
    /// The offset in the log of the byte at `position`.
    pub(super) fn offset_of(&self, position: usize) -> u64 {
        let after = self.starts.partition_point(|(start, _)| *start <= position);
        match after.checked_sub(1).and_then(|index| self.starts.get(index)) {
            Some((start, offset)) => offset + (position - start) as u64,
            None => position as u64,
        }
    }
}

/// The blocks that some pieces of a log make up.
#[derive(Debug)]
pub(super) struct Blocks {
    pieces: Pieces,
    buffer: Vec<u8>,
    starts: Vec<(usize, u64)>,
    /// How much of the buffer was given last.
    given: usize,
}

impl Blocks {
    pub(super) const fn new(pieces: Pieces) -> Self {
        Self { pieces, buffer: Vec::new(), starts: Vec::new(), given: 0 }
    }

    /// The next block, which is not empty; bytes after the last newline are in the last one.
    pub(super) fn next(&mut self) -> io::Result<Option<Block<'_>>> {
        self.forget_given();
        let is_last = self.fill()?;
        let lines = memrchr(b'\n', &self.buffer).map(|newline| newline + 1);
        self.given = match lines {
            Some(end) if !is_last => end,
            Some(_) | None => self.buffer.len(),
        };
        let block = Block { bytes: &self.buffer[..self.given], starts: &self.starts };
        Ok((self.given > 0).then_some(block))
    }

    fn forget_given(&mut self) {
        let rest = Block { bytes: &self.buffer, starts: &self.starts }.offset_of(self.given);
        self.buffer.drain(..self.given);
        self.starts.retain(|(start, _)| *start > self.given);
        for (start, _) in &mut self.starts {
            *start -= self.given;
        }
        if !self.buffer.is_empty() && self.starts.first().is_none_or(|(start, _)| *start > 0) {
            self.starts.insert(0, (0, rest));
        }
        self.given = 0;
    }

    /// Reads until a block is full; whether the pieces came to their end before that.
    fn fill(&mut self) -> io::Result<bool> {
        while self.buffer.len() < BLOCK_BYTES {
            let Some((offset, piece)) = self.pieces.next()? else { return Ok(true) };
            self.starts.push((self.buffer.len(), offset));
            self.buffer.extend_from_slice(piece);
        }
        Ok(false)
    }
}

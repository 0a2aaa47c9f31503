//! A part of a log in large blocks of whole lines, in bounded memory.

use std::{io, mem};

use crate::pieces::{Pieces, Step};
use crate::view::Charset;

/// So much is gathered before it is given. A line longer than this comes in parts.
const BLOCK_BYTES: usize = 256 * 1024;

/// Whole lines, or a part of one that is overlong.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    /// As UTF-8, where the log is in another character set.
    pub(super) bytes: &'a [u8],
    /// How many bytes of the log it stands for.
    pub(super) source_bytes: u64,
    /// The offset in the log after its last byte.
    pub(super) end: u64,
    charset: Charset,
    /// Where in the bytes each piece of the log, or each decoded line, starts, and which offset
    /// that is.
    starts: &'a [(usize, u64)],
}

impl Block<'_> {
    /// The offset in the log of the byte at `position`.
    pub(super) fn offset_of(&self, position: usize) -> u64 {
        let after = self.starts.partition_point(|(start, _)| *start <= position);
        match after.checked_sub(1).and_then(|index| self.starts.get(index)) {
            Some((start, offset)) => {
                offset + source_length(self.charset, &self.bytes[*start..position])
            }
            None => position as u64,
        }
    }
}

/// How many bytes of the log a decoded text stands for, but for what was no text.
fn source_length(charset: Charset, decoded: &[u8]) -> u64 {
    let text = || String::from_utf8_lossy(decoded);
    let length = match charset {
        Charset::Utf8 => decoded.len(),
        Charset::Legacy(encoding) => encoding.encode(&text()).0.len(),
        Charset::Wide(_) if charset.unit() == 2 => text().encode_utf16().count() * 2,
        Charset::Wide(_) => text().chars().count() * charset.unit(),
    };
    length as u64
}

/// The blocks that some pieces of a log make up.
#[derive(Debug)]
pub(super) struct Blocks {
    pieces: Pieces,
    charset: Charset,
    buffer: Vec<u8>,
    starts: Vec<(usize, u64)>,
    /// How much of the buffer was given last.
    given: usize,
    /// What is given of a log that is not in UTF-8.
    decoded: Vec<u8>,
    decoded_starts: Vec<(usize, u64)>,
}

impl Blocks {
    pub(super) const fn new(pieces: Pieces, charset: Charset) -> Self {
        Self {
            pieces,
            charset,
            buffer: Vec::new(),
            starts: Vec::new(),
            given: 0,
            decoded: Vec::new(),
            decoded_starts: Vec::new(),
        }
    }

    /// The next block, which is not empty; bytes after the last newline are in the last one.
    pub(super) fn next(&mut self) -> io::Result<Option<Block<'_>>> {
        self.forget_given();
        let is_last = self.fill()?;
        self.given = if is_last { self.buffer.len() } else { self.whole_lines() };
        if self.given == 0 {
            return Ok(None);
        }
        if self.charset == Charset::Utf8 {
            return Ok(Some(self.source()));
        }
        self.decode();
        let (bytes, starts) = (self.decoded.as_slice(), self.decoded_starts.as_slice());
        Ok(Some(Block { bytes, charset: self.charset, starts, ..self.source() }))
    }

    /// The length of the whole lines in the buffer, else of as much of a line as there is.
    fn whole_lines(&self) -> usize {
        self.charset.last_line_end(&self.buffer).unwrap_or_else(|| match self.charset {
            Charset::Utf8 => self.buffer.len(),
            Charset::Legacy(_) | Charset::Wide(_) => self.charset.whole_characters(&self.buffer),
        })
    }

    /// What is given, as it is in the log.
    fn source(&self) -> Block<'_> {
        let bytes = &self.buffer[..self.given];
        let end = self.source_offset(self.given - 1) + 1;
        let (charset, source_bytes) = (Charset::Utf8, self.given as u64);
        Block { bytes, source_bytes, end, charset, starts: &self.starts }
    }

    /// The offset in the log of a position in the buffer.
    fn source_offset(&self, position: usize) -> u64 {
        let (bytes, starts) = (self.buffer.as_slice(), self.starts.as_slice());
        Block { bytes, source_bytes: 0, end: 0, charset: Charset::Utf8, starts }.offset_of(position)
    }

    /// Decodes what is given, line by line: where each one starts in the log is known.
    fn decode(&mut self) {
        let (mut decoded, mut starts) =
            (mem::take(&mut self.decoded), mem::take(&mut self.decoded_starts));
        decoded.clear();
        starts.clear();
        let bytes = &self.buffer[..self.given];
        let mut start = 0;
        for end in self.charset.line_ends(bytes).chain([bytes.len()]) {
            if start < end {
                starts.push((decoded.len(), self.source_offset(start)));
                decoded.extend_from_slice(self.charset.decode(&bytes[start..end]).0.as_bytes());
            }
            start = end;
        }
        (self.decoded, self.decoded_starts) = (decoded, starts);
    }

    fn forget_given(&mut self) {
        let rest = self.source_offset(self.given);
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
            match self.pieces.step()? {
                Step::Piece => {}
                // What comes after a hole is no part of the line before it.
                Step::Hole => {
                    let is_open = self.buffer.last().is_some_and(|last| *last != b'\n');
                    self.buffer.extend((is_open && self.charset == Charset::Utf8).then_some(b'\n'));
                    continue;
                }
                Step::End => return Ok(true),
            }
            if let Some((offset, piece)) = self.pieces.piece() {
                self.starts.push((self.buffer.len(), offset));
                self.buffer.extend_from_slice(piece);
            }
        }
        Ok(false)
    }
}

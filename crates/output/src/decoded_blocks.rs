//! Reads a log as large blocks of whole lines, decoded to UTF-8.

use std::ops::Range;
use std::{io, mem};

use memchr::memchr;

use crate::chunks::{ChunkStep, LogChunks};
use crate::views::Charset;

/// Bytes of one block. A longer line comes in parts.
const BLOCK_BYTES: usize = 256 * 1024;

/// Whole lines, or a part of an overlong line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodedBlock<'a> {
    /// The bytes, as UTF-8 if the log is in another character set.
    pub(crate) bytes: &'a [u8],
    /// The number of bytes in the log.
    pub(crate) source_bytes: u64,
    /// The offset in the log after the last byte.
    pub(crate) end: u64,
    charset: Charset,
    /// The positions at which a chunk of the log, or a decoded line, starts, with their offsets in
    /// the log.
    starts: &'a [(usize, u64)],
}

impl DecodedBlock<'_> {
    /// The offset in the log of the byte at `position`.
    pub(crate) fn offset_of(&self, position: usize) -> u64 {
        let after = self.starts.partition_point(|(start, _)| *start <= position);
        match after.checked_sub(1).and_then(|index| self.starts.get(index)) {
            Some((start, offset)) => {
                offset + source_length(self.charset, &self.bytes[*start..position])
            }
            None => position as u64,
        }
    }
}

/// The number of bytes in the log of a decoded text. Exact only if all of it was valid.
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

/// Reads the chunks of a log as large blocks of whole lines, in bounded memory.
#[derive(Debug)]
pub(crate) struct DecodedBlocks {
    chunks: LogChunks,
    charset: Charset,
    buffer: Vec<u8>,
    starts: Vec<(usize, u64)>,
    /// The length of the last block in the buffer.
    block_length: usize,
    /// The decoded text of a block, for a log that is not in UTF-8.
    decoded: Vec<u8>,
    decoded_starts: Vec<(usize, u64)>,
}

impl DecodedBlocks {
    pub(crate) const fn new(chunks: LogChunks, charset: Charset) -> Self {
        Self {
            chunks,
            charset,
            buffer: Vec::new(),
            starts: Vec::new(),
            block_length: 0,
            decoded: Vec::new(),
            decoded_starts: Vec::new(),
        }
    }

    /// The next block, which is not empty. Bytes after the last newline are in the last block.
    pub(crate) fn next(&mut self) -> io::Result<Option<DecodedBlock<'_>>> {
        self.drop_last_block();
        let is_last = self.fill()?;
        self.block_length = if is_last { self.buffer.len() } else { self.whole_lines() };
        if self.block_length == 0 {
            return Ok(None);
        }
        if self.charset == Charset::Utf8 {
            return Ok(Some(self.source()));
        }
        self.decode();
        let bytes = self.decoded.as_slice();
        let starts = self.decoded_starts.as_slice();
        Ok(Some(DecodedBlock { bytes, charset: self.charset, starts, ..self.source() }))
    }

    /// The length of the whole lines in the buffer, or of the partial line if there is no whole
    /// one.
    fn whole_lines(&self) -> usize {
        self.charset.last_line_end(&self.buffer).unwrap_or_else(|| match self.charset {
            Charset::Utf8 => self.buffer.len(),
            Charset::Legacy(_) | Charset::Wide(_) => self.charset.whole_characters(&self.buffer),
        })
    }

    /// The block as it is in the log.
    fn source(&self) -> DecodedBlock<'_> {
        let bytes = &self.buffer[..self.block_length];
        let end = self.source_offset(self.block_length - 1) + 1;
        let charset = Charset::Utf8;
        let source_bytes = self.block_length as u64;
        DecodedBlock { bytes, source_bytes, end, charset, starts: &self.starts }
    }

    /// The offset in the log of a position in the buffer.
    fn source_offset(&self, position: usize) -> u64 {
        let bytes = self.buffer.as_slice();
        let starts = self.starts.as_slice();
        DecodedBlock { bytes, source_bytes: 0, end: 0, charset: Charset::Utf8, starts }
            .offset_of(position)
    }

    /// Decodes the block line by line, so that the offset of each line is known.
    fn decode(&mut self) {
        let mut decoded = mem::take(&mut self.decoded);
        let mut starts = mem::take(&mut self.decoded_starts);
        decoded.clear();
        starts.clear();
        let bytes = &self.buffer[..self.block_length];
        let mut start = 0;
        for end in self.charset.line_ends(bytes).chain([bytes.len()]) {
            if start < end {
                starts.push((decoded.len(), self.source_offset(start)));
                decoded.extend_from_slice(self.charset.decode(&bytes[start..end]).0.as_bytes());
            }
            start = end;
        }
        self.decoded = decoded;
        self.decoded_starts = starts;
    }

    fn drop_last_block(&mut self) {
        let rest = self.source_offset(self.block_length);
        self.buffer.drain(..self.block_length);
        self.starts.retain(|(start, _)| *start > self.block_length);
        for (start, _) in &mut self.starts {
            *start -= self.block_length;
        }
        if !self.buffer.is_empty() && self.starts.first().is_none_or(|(start, _)| *start > 0) {
            self.starts.insert(0, (0, rest));
        }
        self.block_length = 0;
    }

    /// Reads until a block is full. Returns `true` if the chunks ended before that.
    fn fill(&mut self) -> io::Result<bool> {
        while self.buffer.len() < BLOCK_BYTES {
            match self.chunks.step()? {
                ChunkStep::Chunk => {}
                // Bytes after a hole do not belong to the line before it.
                ChunkStep::Hole => {
                    let is_open = self.buffer.last().is_some_and(|last| *last != b'\n');
                    self.buffer.extend((is_open && self.charset == Charset::Utf8).then_some(b'\n'));
                    continue;
                }
                ChunkStep::End => return Ok(true),
            }
            if let Some((offset, piece)) = self.chunks.chunk() {
                self.starts.push((self.buffer.len(), offset));
                self.buffer.extend_from_slice(piece);
            }
        }
        Ok(false)
    }
}

/// The lines from `at` on, without their newlines.
pub(crate) fn lines_from(block: &[u8], at: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = at;
    std::iter::from_fn(move || {
        let line = line_at(block, at)?;
        at = line.end + 1;
        Some(line)
    })
}

/// The line that starts at `start`, without its newline; `None` at the end.
pub(crate) fn line_at(block: &[u8], start: usize) -> Option<Range<usize>> {
    let rest = block.get(start..).filter(|rest| !rest.is_empty())?;
    Some(start..start + memchr(b'\n', rest).unwrap_or(rest.len()))
}

//! Where the last lines of a log start.

use std::io;
use std::ops::Range;

use memchr::memrchr_iter;

use super::kept::Kept;
use super::pieces::{Pieces, Toward};
use super::view::Charset;
use crate::Stream;

/// How much of the end is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct TailLimits {
    /// At most so many bytes.
    pub(super) bytes: u64,
    /// At most so many lines; 0 means any number.
    pub(super) lines: usize,
}

/// Walks back from the end and gives the lowest start that keeps within the limits: the start
/// of a line where a whole one fits, else of a character. Never before a hole; of a log that ends
/// in one, where that starts.
pub(super) fn tail_start(
    kept: &Kept,
    stream: Option<Stream>,
    limits: TailLimits,
) -> io::Result<u64> {
    let total = kept.total();
    let first = kept.solid_start(total);
    if first == total {
        return Ok(kept.stretches.last().map_or(0, |last| last.range.end));
    }
    let mut pieces = Pieces::new(kept, stream, first..total, Toward::Start);
    let mut tail = Tail { limits, bytes: 0, lines: 0, line_start: None };
    while let Some((offset, piece)) = pieces.next()? {
        if let Some(start) = tail.look_through(offset, piece) {
            return Ok(start);
        }
        let room = limits.bytes - tail.bytes;
        tail.bytes += piece.len() as u64;
        if tail.bytes > limits.bytes {
            let cut = offset + piece.len() as u64 - room;
            return tail.line_start.map_or_else(|| character_start(kept, stream, cut..total), Ok);
        }
    }
    Ok(first)
}

/// What the walk has passed so far, seen from the end of the log.
#[derive(Debug)]
struct Tail {
    limits: TailLimits,
    bytes: u64,
    lines: usize,
    /// The lowest start of a line that is within the limits.
    line_start: Option<u64>,
}

impl Tail {
    /// Gives the start when the line limit is reached in this piece.
    fn look_through(&mut self, offset: u64, piece: &[u8]) -> Option<u64> {
        for newline in memrchr_iter(b'\n', piece) {
            let after = self.bytes + (piece.len() - newline - 1) as u64;
            if after > self.limits.bytes {
                return None;
            }
            // The newline that ends the log starts no line.
            if after == 0 {
                continue;
            }
            let start = offset + newline as u64 + 1;
            self.line_start = Some(start);
            self.lines += 1;
            if self.lines == self.limits.lines {
                return Some(start);
            }
        }
        None
    }
}

/// The first start of a character in the range.
fn character_start(kept: &Kept, stream: Option<Stream>, range: Range<u64>) -> io::Result<u64> {
    let start = range.start;
    let mut pieces = Pieces::new(kept, stream, range, Toward::End);
    let first = pieces.next()?;
    Ok(first.map_or(start, |(offset, piece)| {
        offset + Charset::Utf8.to_character_start(offset, piece) as u64
    }))
}

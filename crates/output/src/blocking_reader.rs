//! Reading a log on a thread that may wait for the disk: pages, seeks and walks.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::watch;

use super::kept::Kept;
use super::log::Progress;
use super::page::{Page, PageEnd, PageRequest, Rest, cut};
use super::parts::Parts;
use super::pieces::{Pieces, Toward};
use super::tail::{TailLimits, tail_start};
use super::view::{Charset, SAMPLE_BYTES};
use super::within;
use crate::Stream;

/// Reads one log on a thread that may block: every method may wait for as long as the disk takes.
///
/// Outside of this module there is none but the one that [`LogReader::read_with`] lends, so that no
/// thread of the runtime can wait for the disk. That is why it cannot be cloned.
///
/// [`LogReader::read_with`]: super::LogReader::read_with
#[derive(Debug)]
pub struct BlockingReader {
    parts: Arc<Parts>,
    progress: watch::Receiver<Progress>,
    /// Set where several reads must speak of the same moment.
    frozen: Option<Arc<Kept>>,
}

impl BlockingReader {
    pub(super) const fn new(parts: Arc<Parts>, progress: watch::Receiver<Progress>) -> Self {
        Self { parts, progress, frozen: None }
    }

    /// A reader of the log as it is now: it sees nothing that comes later, and whatever is there
    /// stays there for it.
    pub(super) fn frozen(&self) -> Self {
        let (parts, progress) = (Arc::clone(&self.parts), self.progress.clone());
        Self { parts, progress, frozen: Some(self.kept()) }
    }

    pub(super) fn kept(&self) -> Arc<Kept> {
        match &self.frozen {
            Some(kept) => Arc::clone(kept),
            None => Arc::new(self.parts.kept(&self.progress)),
        }
    }

    /// The progress of the log. All bytes that it counts can be read, or are in a hole.
    #[must_use]
    pub fn progress(&self) -> Progress {
        match &self.frozen {
            Some(kept) => kept.progress,
            None => self.parts.progress(&self.progress),
        }
    }

    /// Reads one page. Repeated with `from` set to the last page's `end`, this gives every byte
    /// of the log that is there, or of one of its streams, exactly once.
    pub fn page(&self, request: &PageRequest) -> io::Result<Page> {
        self.page_in(request, Charset::Utf8)
    }

    /// The same, ending on whole lines and characters of this character set.
    pub fn page_in(&self, request: &PageRequest, charset: Charset) -> io::Result<Page> {
        // One look at the log: a later look at `closed` could call a page complete although its
        // last bytes arrived in between.
        let kept = self.kept();
        let total_bytes = kept.total();
        let start = kept.resume(request.from);
        let solid =
            Solid { kept: &kept, stream: request.stream, range: start..kept.solid_end(start) };
        let limit = request.byte_limit();
        let mut bytes = solid.gather(limit.saturating_add(1))?;
        let rest = if bytes.len() > limit {
            Rest::Bytes
        } else if solid.range.end < total_bytes {
            Rest::Hole
        } else if kept.progress.closed {
            Rest::Closed
        } else {
            Rest::Open
        };
        bytes.truncate(limit);
        let (length, end_kind) = cut(&bytes, charset, request.max_lines, rest);
        let everything = length == bytes.len() && rest != Rest::Bytes;
        bytes.truncate(length);
        let end = if everything { solid.range.end } else { solid.offset_after(length as u64)? };
        let gap_bytes = kept.missing(request.from..end) + self.lost(request.from, end, end_kind);
        Ok(Page { bytes, start, end, end_kind, gap_bytes, total_bytes })
    }

    /// The character set of the log. The first 16 KiB decide, so it may change while there
    /// are fewer, and never after.
    pub fn charset(&self) -> io::Result<Charset> {
        if let Some(settled) = self.parts.charset() {
            return Ok(settled);
        }
        let kept = self.kept();
        // The head of a log is kept, whatever else is not; unless somebody cut its file.
        let length = kept.solid_end(0).min(SAMPLE_BYTES as u64);
        let charset = Charset::of(&kept.read(0..length)?);
        if length == SAMPLE_BYTES as u64 {
            self.parts.settle_charset(charset);
        }
        Ok(charset)
    }

    /// The bytes of a page with the offset of each stretch that has no gap in it: those of one
    /// stream may lie apart.
    pub fn stretches(&self, request: &PageRequest, page: &Page) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let mut stretches: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut pieces = self.pieces(request.stream, page.start, page.end);
        while let Some((offset, piece)) = pieces.next()? {
            match stretches.last_mut() {
                Some((start, bytes)) if *start + bytes.len() as u64 == offset => {
                    bytes.extend_from_slice(piece);
                }
                Some(_) | None => stretches.push((offset, piece.to_vec())),
            }
        }
        Ok(stretches)
    }

    /// The offset at which a page of the last bytes and lines would start, whichever limit is hit first
    /// (0 lines: any number): at the start of a line where a whole one fits, else of a character.
    pub fn tail_start(
        &self,
        stream: Option<Stream>,
        max_bytes: usize,
        max_lines: usize,
    ) -> io::Result<u64> {
        let limits = TailLimits { bytes: max_bytes as u64, lines: max_lines };
        tail_start(&self.kept(), stream, limits)
    }

    /// The offset of a line's first byte; lines are counted from 1. `None` for a line of which
    /// no byte has been written yet. Of a line that is not there, where the hole starts.
    pub fn offset_of_line(&self, line: u64) -> io::Result<Option<u64>> {
        let kept = self.kept();
        let Some(newlines) = line.checked_sub(1).filter(|before| *before <= kept.progress.lines)
        else {
            return Ok(None);
        };
        let offset = kept.offset_after_newlines(newlines)?;
        Ok(Some(offset).filter(|offset| *offset < kept.total()))
    }

    /// The number of the line, counted from 1, that the byte at `offset` belongs to. Inside a
    /// hole: of its last line; past the end: of the line that the next byte will belong to.
    pub fn line_at(&self, offset: u64) -> io::Result<u64> {
        self.kept().line_at(offset)
    }

    /// Starts a walk over all bytes from `from` to `to`, which must have been published. Holes
    /// are skipped.
    pub(super) fn pieces(&self, stream: Option<Stream>, from: u64, to: u64) -> Pieces {
        Pieces::new(&self.kept(), stream, from..to, Toward::End)
    }

    /// The bytes of a range that has been published and has no hole.
    pub(super) fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.kept().read(range)
    }

    /// The first byte at or after `offset` that is there; past all of them: the end.
    pub(super) fn resume(&self, offset: u64) -> u64 {
        self.kept().resume(offset)
    }

    /// The bytes around a hole-free range: from where the last hole before `end` ends, and to
    /// where the first one after `start` begins.
    pub(super) fn solid_around(&self, range: Range<u64>) -> Range<u64> {
        let kept = self.kept();
        kept.solid_start(range.end)..kept.solid_end(range.start)
    }

    /// The first hole in a range, where there is one; of one stream, in positions within it.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn first_hole(
        &self,
        stream: Option<Stream>,
        range: Range<u64>,
    ) -> io::Result<Option<Range<u64>>> {
        let kept = self.kept();
        match stream {
            None => Ok(kept.first_hole(range)),
            Some(stream) => within::first_hole(&kept, stream, range),
        }
    }

    /// The number of bytes of the range that are not there; past the end there are none.
    #[must_use]
    pub fn missing(&self, range: Range<u64>) -> u64 {
        self.kept().missing(range)
    }

    /// Bytes that were lost in the part that a page covers.
    pub(super) fn lost(&self, start: u64, end: u64, end_kind: PageEnd) -> u64 {
        match end_kind {
            // What is lost at the very end belongs to the next page, unless there is none.
            PageEnd::Complete => self.parts.lost(start..=end),
            PageEnd::More | PageEnd::CaughtUp => match end.checked_sub(1) {
                Some(last) if last >= start => self.parts.lost(start..=last),
                Some(_) | None => 0,
            },
        }
    }
}

/// A range without holes, and the stream that is wanted of it.
#[derive(Debug)]
struct Solid<'a> {
    kept: &'a Kept,
    stream: Option<Stream>,
    range: Range<u64>,
}

impl Solid<'_> {
    fn pieces(&self) -> Pieces {
        Pieces::new(self.kept, self.stream, self.range.clone(), Toward::End)
    }

    /// At most `limit` bytes of the wanted stream, from the start on.
    fn gather(&self, limit: usize) -> io::Result<Vec<u8>> {
        let Range { start, end } = self.range;
        if self.stream.is_none() {
            return self.kept.read(start..start + (end - start).min(limit as u64));
        }
        let mut bytes = Vec::new();
        let mut pieces = self.pieces();
        while bytes.len() < limit
            && let Some((_, piece)) = pieces.next()?
        {
            bytes.extend_from_slice(&piece[..piece.len().min(limit - bytes.len())]);
        }
        Ok(bytes)
    }

    /// The offset after the first `length` bytes of the wanted stream.
    fn offset_after(&self, length: u64) -> io::Result<u64> {
        if self.stream.is_none() || length == 0 {
            return Ok(self.range.start + length);
        }
        let mut left = length;
        let mut pieces = self.pieces();
        while let Some((offset, piece)) = pieces.next()? {
            if piece.len() as u64 >= left {
                return Ok(offset + left);
            }
            left -= piece.len() as u64;
        }
        Ok(self.range.end)
    }
}

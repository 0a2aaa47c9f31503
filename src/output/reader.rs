//! Reading a log: pages, seeks and waiting.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use memchr::memchr_iter;
use tokio::sync::watch;

use super::log::Progress;
use super::page::{Page, PageEnd, PageRequest, Rest, cut};
use super::pieces::{Pieces, Toward};
use super::shared::Shared;
use super::tail::{TailLimits, tail_start};
use crate::spec::Stream;

/// Reads one log, while it is written and after. Cheap to clone; readers do not notice each other.
#[derive(Debug, Clone)]
pub struct LogReader {
    shared: Arc<Shared>,
    progress: watch::Receiver<Progress>,
}

impl LogReader {
    pub(super) fn new(shared: Arc<Shared>, progress: watch::Receiver<Progress>) -> Self {
        Self { shared, progress }
    }

    /// How far the log has come. All bytes that it speaks of can be read.
    #[must_use]
    pub fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Reads one page. Repeated with `from` set to the last page's `end`, this gives every byte
    /// of the log, or of one of its streams, exactly once.
    pub fn page(&self, request: &PageRequest) -> io::Result<Page> {
        // One look at the progress, before the bytes: a later look at `closed` could call a page
        // complete although its last bytes arrived in between.
        let progress = self.progress();
        let limit = request.byte_limit();
        let mut bytes = self.gather(request, limit.saturating_add(1), progress.total_bytes)?;
        let rest = if bytes.len() > limit {
            Rest::Bytes
        } else if progress.closed {
            Rest::Closed
        } else {
            Rest::Open
        };
        bytes.truncate(limit);
        let (kept, end_kind) = cut(&bytes, request.max_lines, rest);
        let everything = kept == bytes.len() && rest != Rest::Bytes;
        bytes.truncate(kept);
        let end = if everything {
            request.from.max(progress.total_bytes)
        } else {
            self.offset_after(request, kept as u64, progress.total_bytes)?
        };
        let gap_bytes = self.gap(request.from, end, end_kind);
        let total_bytes = progress.total_bytes;
        Ok(Page { bytes, start: request.from, end, end_kind, gap_bytes, total_bytes })
    }

    /// Where a page of the last bytes and lines would start, whichever limit is hit first
    /// (0 lines: any number): at the start of a line where a whole one fits, else of a character.
    pub fn tail_start(
        &self,
        stream: Option<Stream>,
        max_bytes: usize,
        max_lines: usize,
    ) -> io::Result<u64> {
        let limits = TailLimits { bytes: max_bytes as u64, lines: max_lines };
        tail_start(&self.shared, stream, self.progress().total_bytes, limits)
    }

    /// The offset of a line's first byte; lines are counted from 1. `None` for a line of which
    /// no byte has been written yet.
    pub fn offset_of_line(&self, line: u64) -> io::Result<Option<u64>> {
        let progress = self.progress();
        let Some(newlines) = line.checked_sub(1).filter(|before| *before <= progress.lines) else {
            return Ok(None);
        };
        let offset = self.offset_after_newlines(newlines, progress.total_bytes)?;
        Ok(Some(offset).filter(|offset| *offset < progress.total_bytes))
    }

    /// The number of the line, counted from 1, that the byte at `offset` belongs to. Past the
    /// end: the line that the next byte will belong to.
    pub fn line_at(&self, offset: u64) -> io::Result<u64> {
        let progress = self.progress();
        if offset >= progress.total_bytes {
            return Ok(progress.lines + 1);
        }
        let Some((_, run)) = self.shared.find_run(|run| run.offset <= offset)? else {
            return Ok(1);
        };
        let before = self.shared.read(run.offset..offset)?;
        Ok(run.line + memchr_iter(b'\n', &before).count() as u64 + 1)
    }

    /// Returns once the log holds more than `seen` bytes, or is closed. No wake-up is lost, and
    /// dropping the future loses nothing. After a page, wait past its `total_bytes`.
    pub async fn wait_past(&self, seen: u64) {
        let mut progress = self.progress.clone();
        let is_past = |now: &Progress| now.closed || now.total_bytes > seen;
        // An error means that the writer is gone, which ends the wait as well.
        progress.wait_for(is_past).await.ok();
    }

    /// Starts a walk over all bytes from `from` to `to`, which must have been published.
    pub(super) fn pieces(&self, stream: Option<Stream>, from: u64, to: u64) -> Pieces<'_> {
        Pieces::new(&self.shared, stream, from..to, Toward::End)
    }

    /// The bytes of a range that has been published.
    pub(super) fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.shared.read(range)
    }

    /// What it reads from.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// At most `limit` bytes of the wanted stream, from the wanted offset up to `total`.
    fn gather(&self, request: &PageRequest, limit: usize, total: u64) -> io::Result<Vec<u8>> {
        if request.stream.is_none() {
            let length = total.saturating_sub(request.from).min(limit as u64);
            return self.shared.read(request.from..request.from + length);
        }
        let mut bytes = Vec::new();
        let mut pieces = self.pieces(request.stream, request.from, total);
        while bytes.len() < limit
            && let Some((_, piece)) = pieces.next()?
        {
            bytes.extend_from_slice(&piece[..piece.len().min(limit - bytes.len())]);
        }
        Ok(bytes)
    }

    /// The offset after the first `length` bytes of the wanted stream.
    fn offset_after(&self, request: &PageRequest, length: u64, total: u64) -> io::Result<u64> {
        if request.stream.is_none() || length == 0 {
            return Ok(request.from + length);
        }
        let mut left = length;
        let mut pieces = self.pieces(request.stream, request.from, total);
        while let Some((offset, piece)) = pieces.next()? {
            if piece.len() as u64 >= left {
                return Ok(offset + left);
            }
            left -= piece.len() as u64;
        }
        Ok(total)
    }

    fn offset_after_newlines(&self, newlines: u64, total: u64) -> io::Result<u64> {
        // The newline that is looked for is in the last run that begins before it.
        let Some((_, run)) = self.shared.find_run(|run| run.line < newlines)? else {
            return Ok(0);
        };
        let bytes = self.shared.read(run.offset..run.end().min(total))?;
        let newline = memchr_iter(b'\n', &bytes).nth((newlines - run.line - 1) as usize);
        Ok(newline.map_or(total, |position| run.offset + position as u64 + 1))
    }

    /// Bytes that were lost in the part that a page covers.
    fn gap(&self, start: u64, end: u64, end_kind: PageEnd) -> u64 {
        match end_kind {
            // What is lost at the very end belongs to the next page, unless there is none.
            PageEnd::Complete => self.shared.lost(start..=end),
            PageEnd::More | PageEnd::CaughtUp => match end.checked_sub(1) {
                Some(last) if last >= start => self.shared.lost(start..=last),
                Some(_) | None => 0,
            },
        }
    }
}

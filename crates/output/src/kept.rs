//! What of a log can be read at one moment: stretches of bytes, and holes between them.

use std::io;
use std::ops::Range;

use memchr::memchr_iter;

use super::log::Progress;
use super::shared::{Joint, Stretch};

/// A log as it was at one moment. Whatever the writer does meanwhile, all of it stays readable.
///
/// Solid is what was written without anything between: it ends at a hole, and at a gap, where
/// bytes without offsets were lost.
///
/// Invariant: stretches are not empty, rise, and do not overlap; none goes past `total_bytes`.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) stretches: Vec<Stretch>,
    pub(super) progress: Progress,
}

impl Kept {
    /// Where the log ends.
    pub(super) const fn total(&self) -> u64 {
        self.progress.total_bytes
    }

    /// The stretch that this byte is in, or else the next one after it.
    pub(super) fn stretch_from(&self, offset: u64) -> Option<&Stretch> {
        self.stretches.iter().find(|stretch| stretch.range.end > offset)
    }

    /// The last stretch that starts before this offset.
    pub(super) fn stretch_before(&self, offset: u64) -> Option<&Stretch> {
        self.stretches.iter().rev().find(|stretch| stretch.range.start < offset)
    }

    /// The first byte at or after `offset` that is there; past all of them: the end.
    pub(super) fn resume(&self, offset: u64) -> u64 {
        let next = self.stretch_from(offset).map_or(self.total(), |stretch| stretch.range.start);
        next.max(offset)
    }

    /// Where the first hole or gap after `offset` is, or the log ends.
    pub(super) fn solid_end(&self, offset: u64) -> u64 {
        let mut end = offset;
        for stretch in &self.stretches {
            let follows = end == offset || stretch.joint == Joint::Seamless;
            if stretch.range.contains(&end) && follows {
                end = stretch.range.end;
            }
        }
        end
    }

    /// Where the first hole in the range is, if there is one.
    pub(super) fn first_hole(&self, range: Range<u64>) -> Option<Range<u64>> {
        let mut start = range.start;
        for stretch in &self.stretches {
            if stretch.range.contains(&start) {
                start = stretch.range.end;
            }
        }
        (start < range.end.min(self.total())).then(|| start..self.resume(start))
    }

    /// Where the last hole or gap before `offset` is, or the log starts.
    pub(super) fn solid_start(&self, offset: u64) -> u64 {
        let mut start = offset;
        for stretch in self.stretches.iter().rev() {
            if stretch.range.start < start && start <= stretch.range.end {
                start = stretch.range.start;
                if stretch.joint == Joint::Gap {
                    break;
                }
            }
        }
        start
    }

    /// How many bytes of the range are not there.
    pub(super) fn missing(&self, range: Range<u64>) -> u64 {
        let range = range.start..range.end.min(self.total());
        let overlap = |stretch: &Stretch| {
            let (start, end) =
                (stretch.range.start.max(range.start), stretch.range.end.min(range.end));
            end.saturating_sub(start)
        };
        let there: u64 = self.stretches.iter().map(overlap).sum();
        range.end.saturating_sub(range.start) - there
    }

    /// The bytes of a range without holes.
    pub(super) fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
        let mut at = range.start;
        while at < range.end {
            let stretch = self.stretch_from(at).filter(|stretch| stretch.range.contains(&at));
            let stretch = stretch.ok_or(io::ErrorKind::UnexpectedEof)?;
            let end = stretch.range.end.min(range.end);
            let place = (at - range.start) as usize..(end - range.start) as usize;
            stretch.shared.read_at(at, &mut bytes[place])?;
            at = end;
        }
        Ok(bytes)
    }

    /// The number of the line, counted from 1, that the byte at `offset` belongs to. Inside a
    /// hole: of its last line; past the end: of the line that the next byte will belong to.
    pub(super) fn line_at(&self, offset: u64) -> io::Result<u64> {
        if offset >= self.total() {
            return Ok(self.progress.lines + 1);
        }
        let next = self.stretch_from(offset);
        match next.filter(|stretch| stretch.range.contains(&offset)) {
            Some(stretch) => Ok(stretch.lines_before(offset)? + 1),
            None => self.line_in_hole(offset, next),
        }
    }

    fn line_in_hole(&self, offset: u64, next: Option<&Stretch>) -> io::Result<u64> {
        let before = match self.stretch_before(offset) {
            Some(stretch) => stretch.lines_before(stretch.range.end)?,
            None => 0,
        };
        // The byte before the hole is the last one that is known to be in its line.
        let is_first = offset == 0 || self.solid_start(offset) < offset;
        let after = next.map_or(self.progress.lines, |stretch| stretch.lines);
        Ok(if is_first { before + 1 } else { after.max(before + 1) })
    }

    /// The offset after so many newlines; of one inside a hole, where the hole starts. The end
    /// when there are fewer.
    pub(super) fn offset_after_newlines(&self, newlines: u64) -> io::Result<u64> {
        let is_before = |stretch: &&Stretch| stretch.lines < newlines;
        let Some(stretch) = self.stretches.iter().rev().find(is_before) else { return Ok(0) };
        stretch.offset_after_newlines(newlines)
    }
}

impl Stretch {
    /// Newlines in the log before an offset in this stretch, or at its end.
    fn lines_before(&self, offset: u64) -> io::Result<u64> {
        let Some((_, run)) = self.shared.find_run(|run| run.offset < offset)? else {
            return Ok(self.lines);
        };
        if run.offset < self.range.start {
            return Ok(self.lines);
        }
        let bytes = self.shared.read(run.offset..offset.min(run.end()))?;
        Ok(run.line + memchr_iter(b'\n', &bytes).count() as u64)
    }

    /// The offset after so many newlines of the log, more than come before this stretch; the
    /// stretch's end when there are fewer.
    fn offset_after_newlines(&self, newlines: u64) -> io::Result<u64> {
        // The newline that is looked for is in the last run that begins before it.
        let found = self.shared.find_run(|run| run.line < newlines)?;
        let Some((_, run)) = found.filter(|(_, run)| run.offset < self.range.end) else {
            return Ok(self.range.end);
        };
        let bytes = self.shared.read(run.offset..run.end().min(self.range.end))?;
        let newline = memchr_iter(b'\n', &bytes).nth((newlines - run.line - 1) as usize);
        Ok(newline.map_or(self.range.end, |position| run.offset + position as u64 + 1))
    }
}

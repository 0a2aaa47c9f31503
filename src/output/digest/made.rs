//! The digest of a log, or of a part of it.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::endings::Ending;
use super::findings::Findings;
use super::scan::{Part, Scan};
use super::trouble::readable;
use crate::output::lines::Lines;
use crate::output::reader::LogReader;
use crate::output::view::cut_chars;
use crate::spec::Stream;

/// Lines are cut to so many characters.
const LINE_CHARS: usize = 200;
/// So much of a line is read to show its beginning: a progress bar is longer than it looks.
const LINE_BYTES: u64 = 16 * 1024;
/// Lines before the first and the last error, and after them.
const BEFORE: usize = 2;
const AFTER: usize = 3;
/// The most endings: a tool ends once or twice.
const MOST_ENDINGS: usize = 12;

/// What matters in a log, or in a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    /// Its lines, an unfinished last one included.
    pub lines: u64,
    /// Lines that look like errors.
    pub errors: Tally,
    /// Lines that look like warnings and not like errors.
    pub warnings: Tally,
    /// The first error and what is around it.
    pub first_error: Option<InContext>,
    /// The last error, where it is another one.
    pub last_error: Option<InContext>,
    /// How the tools that were recognised ended, in the order of the log.
    pub endings: Vec<EndingLine>,
    /// How much was looked at.
    pub scanned_bytes: u64,
    /// Whether that was all of it. If not, counts are of what was looked at: its beginning and
    /// its end.
    pub complete: bool,
}

/// Lines of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// All of them that were looked at.
    pub count: u64,
    /// The first five and the last five of them.
    pub listed: Vec<NumberedLine>,
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedLine {
    /// Its number in the log, counted from 1.
    pub line: u64,
    /// Its text as a screen shows it, at most 200 characters.
    pub text: String,
}

/// A line and its neighbours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InContext {
    /// Up to two lines before it.
    pub before: Vec<NumberedLine>,
    /// The line itself.
    pub line: NumberedLine,
    /// Up to three lines after it.
    pub after: Vec<NumberedLine>,
}

/// An ending and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndingLine {
    /// The number of its line in the log, counted from 1.
    pub line: u64,
    /// What was recognised there.
    pub ending: Ending,
}

/// What to make a digest of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestRequest {
    /// Only this stream, or both.
    pub stream: Option<Stream>,
    /// Where to start.
    pub from: u64,
    /// How far to look.
    pub reach: Reach,
}

/// How far a scan goes: so many bytes from each side in any case, and of what lies between as
/// much as the time allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Bytes from each side.
    pub each_side: u64,
    /// Time for what lies between.
    pub time: Duration,
}

impl Default for Reach {
    fn default() -> Self {
        Self { each_side: 32 * 1024 * 1024, time: Duration::from_secs(5) }
    }
}

/// What matters from `from` to the log's present end, in bounded memory and time.
pub fn digest(reader: &LogReader, request: &DigestRequest) -> io::Result<Digest> {
    let end = reader.progress().total_bytes;
    let range = request.from.min(end)..end;
    let maker = Maker { reader, stream: request.stream, range: range.clone() };
    Ok(maker.make(range, request.reach)?.0)
}

/// What matters in all of `range`, and the errors in the part of it that is hidden. Only the
/// hidden part can be too large to be looked through.
pub(in crate::output) fn digest_around(
    reader: &LogReader,
    range: Range<u64>,
    hidden: Range<u64>,
    reach: Reach,
) -> io::Result<(Digest, Tally)> {
    Maker { reader, stream: None, range }.make(hidden, reach)
}

struct Maker<'a> {
    reader: &'a LogReader,
    stream: Option<Stream>,
    range: Range<u64>,
}

impl Maker<'_> {
    fn make(&self, hidden: Range<u64>, reach: Reach) -> io::Result<(Digest, Tally)> {
        let mut scan = Scan::new(self.reader, self.stream);
        scan.walk(self.range.start..hidden.start, Part::Shown, None)?;
        let complete = walk_hidden(&mut scan, hidden.clone(), reach)?;
        scan.walk(hidden.end..self.range.end, Part::Shown, None)?;
        let first = scan.errors.first();
        let last = scan.errors.last().filter(|last| Some(*last) != first);
        let digest = Digest {
            lines: self.lines(&scan)?,
            errors: self.tally(&scan.errors)?,
            warnings: self.tally(&scan.warnings)?,
            first_error: first.map(|offset| self.in_context(offset)).transpose()?,
            last_error: last.map(|offset| self.in_context(offset)).transpose()?,
            endings: self.endings(&scan)?,
            scanned_bytes: scan.bytes,
            complete,
        };
        Ok((digest, self.tally(&scan.hidden)?))
    }

    /// Those of both streams are known without looking.
    fn lines(&self, scan: &Scan<'_>) -> io::Result<u64> {
        if self.stream.is_some() || self.range.is_empty() {
            return Ok(scan.lines());
        }
        let first = self.reader.line_at(self.range.start)?;
        Ok(self.reader.line_at(self.range.end - 1)? - first + 1)
    }

    fn tally(&self, findings: &Findings) -> io::Result<Tally> {
        let listed = findings.remembered().map(|offset| {
            let NumberedLine { line, text } = self.line_from(offset)?;
            Ok(NumberedLine { line, text: text.trim_start().to_owned() })
        });
        Ok(Tally { count: findings.count(), listed: listed.collect::<io::Result<_>>()? })
    }

    fn endings(&self, scan: &Scan<'_>) -> io::Result<Vec<EndingLine>> {
        let mut endings = scan.endings();
        // The last ones tell how it all ended.
        endings.drain(..endings.len().saturating_sub(MOST_ENDINGS));
        let placed = endings
            .into_iter()
            .map(|ending| Ok(EndingLine { line: self.reader.line_at(ending.offset)?, ending }));
        placed.collect()
    }

    fn in_context(&self, offset: u64) -> io::Result<InContext> {
        let start = offset.saturating_sub(LINE_BYTES).max(self.range.start);
        let mut before = self.lines_in(start..offset, usize::MAX)?;
        // The first may be the rest of a line.
        let skipped =
            before.len().saturating_sub(BEFORE).max(usize::from(start > self.range.start));
        before.drain(..skipped.min(before.len()));
        let end = self.range.end.min(offset.saturating_add(LINE_BYTES));
        let mut after = self.lines_in(offset..end, AFTER + 1)?;
        after.drain(..after.len().min(1));
        Ok(InContext { before, line: self.line_from(offset)?, after })
    }

    fn line_from(&self, offset: u64) -> io::Result<NumberedLine> {
        let end = self.range.end.min(offset.saturating_add(LINE_BYTES));
        let line = self.lines_in(offset..end, 1)?.pop();
        let line_number = || self.reader.line_at(offset);
        line.map_or_else(|| Ok(NumberedLine { line: line_number()?, text: String::new() }), Ok)
    }

    /// The first lines of a range that is not large.
    fn lines_in(&self, range: Range<u64>, most: usize) -> io::Result<Vec<NumberedLine>> {
        let mut lines = Lines::new(self.reader.pieces(self.stream, range.start, range.end));
        let mut found = Vec::new();
        while found.len() < most
            && let Some(line) = lines.next()?
        {
            let text = cut_chars(readable(line.bytes).trim_end(), LINE_CHARS);
            found.push(NumberedLine { line: self.reader.line_at(line.offset)?, text });
        }
        Ok(found)
    }
}

/// Walks over the part that may be large; says whether over all of it.
fn walk_hidden(scan: &mut Scan<'_>, range: Range<u64>, reach: Reach) -> io::Result<bool> {
    if range.end - range.start <= reach.each_side.saturating_mul(2) {
        return scan.walk(range, Part::Hidden, None);
    }
    let (middle, last) = (range.start + reach.each_side, range.end - reach.each_side);
    scan.walk(range.start..middle, Part::Hidden, None)?;
    let deadline = Instant::now().checked_add(reach.time);
    // Without any time not even one block.
    let complete = !reach.time.is_zero() && scan.walk(middle..last, Part::Hidden, deadline)?;
    scan.walk(last..range.end, Part::Hidden, None)?;
    Ok(complete)
}

//! The digest of a log, or of a part of it.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::endings::Ending;
use super::listing::Listing;
use super::scan::{Part, Scan};
use crate::Stream;
use crate::blocking_reader::BlockingReader;
use crate::view::Charset;

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
    /// Where it ends: a digest from here on is of what came later.
    pub end: u64,
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
    /// The numbers of the first twenty and the last twenty of them.
    pub numbers: Vec<u64>,
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedLine {
    /// Its number in the log, counted from 1.
    pub line: u64,
    /// Its text as a screen shows it, at most 200 characters: of a longer line its beginning, or
    /// what is around the word that makes it matter.
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

impl Reach {
    /// For what is looked at often, and by the way.
    pub const GLANCE: Self = Self { each_side: 4 * 1024 * 1024, time: Duration::from_millis(200) };
}

impl Default for Reach {
    fn default() -> Self {
        Self { each_side: 32 * 1024 * 1024, time: Duration::from_secs(5) }
    }
}

/// What matters from `from` to the log's present end, in bounded memory and time.
pub fn digest(reader: &BlockingReader, request: &DigestRequest) -> io::Result<Digest> {
    let charset = reader.charset()?;
    let end = reader.progress().total_bytes;
    let range = charset.aligned(request.from).min(end)..end;
    let maker = Maker { reader, stream: request.stream, charset, range: range.clone() };
    Ok(maker.make(range, request.reach)?.0)
}

/// What matters in all of `range`, and the errors in the part of it that is hidden. Only the
/// hidden part can be too large to be looked through.
pub(crate) fn digest_around(
    reader: &BlockingReader,
    range: Range<u64>,
    hidden: Range<u64>,
    reach: Reach,
) -> io::Result<(Digest, Tally)> {
    let charset = reader.charset()?;
    Maker { reader, stream: None, charset, range }.make(hidden, reach)
}

struct Maker<'a> {
    reader: &'a BlockingReader,
    stream: Option<Stream>,
    charset: Charset,
    range: Range<u64>,
}

impl Maker<'_> {
    fn make(&self, hidden: Range<u64>, reach: Reach) -> io::Result<(Digest, Tally)> {
        let mut scan = Scan::new(self.reader, self.stream, self.charset);
        scan.walk(self.range.start..hidden.start, Part::Shown, None)?;
        let is_whole = self.reader.missing(self.range.clone()) == 0;
        let complete = self.walk_hidden(&mut scan, hidden.clone(), reach)? && is_whole;
        scan.walk(hidden.end..self.range.end, Part::Shown, None)?;
        let listing = Listing {
            reader: self.reader,
            stream: self.stream,
            charset: self.charset,
            range: self.range.clone(),
        };
        let first = scan.errors.first();
        let last = scan.errors.last().filter(|last| Some(*last) != first);
        let digest = Digest {
            lines: self.lines(&scan)?,
            errors: listing.tally(&scan.errors)?,
            warnings: listing.tally(&scan.warnings)?,
            first_error: first.map(|spot| listing.in_context(spot)).transpose()?,
            last_error: last.map(|spot| listing.in_context(spot)).transpose()?,
            endings: self.endings(&scan)?,
            end: self.range.end,
            scanned_bytes: scan.bytes,
            complete,
        };
        Ok((digest, listing.tally(&scan.hidden)?))
    }

    /// Those of both streams are known without looking.
    fn lines(&self, scan: &Scan<'_>) -> io::Result<u64> {
        if self.stream.is_some() || self.range.is_empty() {
            return Ok(scan.lines());
        }
        let first = self.reader.line_at(self.range.start)?;
        // The last unit: one that is wider than a byte may have a newline for its first.
        let last = self.range.end.saturating_sub(self.charset.unit() as u64);
        Ok(self.reader.line_at(last)? - first + 1)
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

    /// Walks over the part that may be large; says whether over all of it.
    fn walk_hidden(
        &self,
        scan: &mut Scan<'_>,
        range: Range<u64>,
        reach: Reach,
    ) -> io::Result<bool> {
        if range.end - range.start <= reach.each_side.saturating_mul(2) {
            return scan.walk(range, Part::Hidden, None);
        }
        let (middle, last) = (range.start + reach.each_side, range.end - reach.each_side);
        let (middle, last) = (self.charset.aligned(middle), self.charset.aligned(last));
        scan.walk(range.start..middle, Part::Hidden, None)?;
        let deadline = Instant::now().checked_add(reach.time);
        // Without any time not even one block.
        let complete = !reach.time.is_zero() && scan.walk(middle..last, Part::Hidden, deadline)?;
        scan.walk(last..range.end, Part::Hidden, None)?;
        Ok(complete)
    }
}

//! What a reply shows of a log: all of it where it fits, else its head and its tail, with the
//! error lines of the part between them.

use std::io;
use std::ops::Range;
use std::time::Duration;

use super::blocking_reader::BlockingReader;
use super::digest::Reach;
use super::hidden::look_through;
pub use super::hidden::{ErrorLine, Hidden};
use super::log::Progress;
use super::page::whole_text;
use super::view::{Ansi, Charset, Fold, LINE_CHARS, Long, Shown, ViewOptions, shown};

/// Raw bytes that are read for each byte of text that is wanted: views make text shorter, and a
/// progress bar of many kilobytes is one line.
const RAW_PER_TEXT: usize = 8;
/// The head gets one part of so many of the budget, the tail the rest.
const HEAD_SHARE: usize = 5;

/// All that is shown, and its head, are shown whole: a reader who goes on after it misses nothing.
/// In a tail, which is there for a quick look, overlong lines are cut.
const WHOLE_LINES: ViewOptions =
    ViewOptions { ansi: Ansi::Strip, fold: Fold::Repeats, long: Long::Keep };

/// How far a hidden part is looked through: a reply must not wait long for it.
const REACH: Reach = Reach { each_side: 32 * 1024 * 1024, time: Duration::from_millis(300) };

/// So much of the end is looked at for a character that has only begun.
const LAST_BYTES: u64 = 256;

/// How much text an excerpt may have.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// What all sections together may cost.
    pub max_bytes: usize,
    /// What a text costs: its bytes, or its bytes in the form in which it is sent.
    pub cost: fn(&str) -> usize,
    /// Lines of text in all sections together; 0 means any number.
    pub max_lines: usize,
}

impl Budget {
    /// So many bytes of text, and any number of lines.
    #[must_use]
    pub const fn of_bytes(max_bytes: usize) -> Self {
        Self { max_bytes, cost: str::len, max_lines: 0 }
    }
}

/// What is shown of a log. Sections and the hidden part lie one behind the other and cover
/// everything from `from` to `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// One, or a head and a tail; none when there is nothing to show. Only a tail has cut lines.
    pub sections: Vec<Section>,
    /// What lies before the last section and is not shown.
    pub hidden: Option<Hidden>,
    /// What lies before `from`, where only the tail was asked for.
    pub before: Option<Hidden>,
    /// Where it starts: where it was asked for, or where bytes resume after that.
    pub from: u64,
    /// Bytes between the two that are not there.
    pub gap_bytes: u64,
    /// Where it ends: a read from here on gives what comes after it.
    pub end: u64,
    /// The log's bytes at the time of the excerpt.
    pub total_bytes: u64,
    /// The log's lines at the time of the excerpt, an unfinished last one included.
    pub lines: u64,
    /// The character set of the log.
    pub charset: Charset,
}

/// A stretch of a log, shown as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The number of its first line in the log, counted from 1.
    pub first_line: u64,
    /// The number of its last line.
    pub last_line: u64,
    /// The offset of its first byte.
    pub start: u64,
    /// The offset after its last byte.
    pub end: u64,
    /// The text; it ends with a newline where the bytes do.
    pub text: String,
    /// Its bytes that are no text: no UTF-8, or NUL.
    pub bad_bytes: usize,
}

/// Shows the log from `from` on: all of it where it fits, else one fifth of the budget from its
/// head and the rest from its tail, on whole lines where they fit.
pub fn excerpt(reader: &BlockingReader, from: u64, budget: Budget) -> io::Result<Excerpt> {
    let reader = &reader.frozen();
    let frame = Frame::new(reader, from)?;
    let room = Room::of(budget);
    if let Some(part) = frame.everything(room)? {
        return frame.finish(None, part);
    }
    let head = frame.head(room.head())?;
    let tail = frame.tail(head.range.end, room.tail())?;
    frame.finish(Some(head), tail)
}

/// Shows the last lines that fit the budget, and tells of the errors before them.
pub fn tail(reader: &BlockingReader, budget: Budget) -> io::Result<Excerpt> {
    let reader = &reader.frozen();
    let mut frame = Frame::new(reader, 0)?;
    let part = frame.tail(0, Room::of(budget))?;
    let (all, before) = (frame.from..frame.end, frame.from..part.range.start);
    let before = (!before.is_empty()).then(|| look_through(reader, all, before, Reach::GLANCE));
    // A log that ends in a hole has no tail.
    let gap_bytes = if part.range.is_empty() { reader.missing(0..frame.end) } else { 0 };
    (frame.from, frame.gap_bytes) = (part.range.start, gap_bytes);
    Ok(Excerpt { before: before.transpose()?, ..frame.finish(None, part)? })
}

/// How much text still fits.
#[derive(Debug, Clone, Copy)]
struct Room {
    bytes: usize,
    cost: fn(&str) -> usize,
    lines: usize,
}

impl Room {
    fn of(budget: Budget) -> Self {
        let lines = if budget.max_lines == 0 { usize::MAX } else { budget.max_lines };
        Self { bytes: budget.max_bytes, cost: budget.cost, lines }
    }

    fn head(self) -> Self {
        Self { bytes: self.bytes / HEAD_SHARE, lines: self.lines / HEAD_SHARE, ..self }
    }

    fn tail(self) -> Self {
        let head = self.head();
        Self { bytes: self.bytes - head.bytes, lines: self.lines - head.lines, ..self }
    }

    fn raw_bytes(self) -> u64 {
        self.bytes.saturating_mul(RAW_PER_TEXT) as u64
    }

    /// Bytes of one overlong line that fit in any case: a bad byte is shown as three.
    fn part_of_line(self) -> usize {
        if self.lines == 0 { 0 } else { (self.bytes / 3).min(LINE_CHARS) }
    }

    /// How many of the lines fit, from the first on.
    fn take<'a>(mut self, lines: impl Iterator<Item = &'a Shown<'a>>) -> usize {
        lines.take_while(|line| self.takes(line)).count()
    }

    fn takes(&mut self, line: &Shown<'_>) -> bool {
        let (rows, cost) = (line.rows(), (self.cost)(&line.text));
        let fits = rows <= self.lines && cost <= self.bytes;
        if fits {
            self.lines -= rows;
            self.bytes -= cost;
        }
        fits
    }
}

/// A stretch of the log and how it is shown.
#[derive(Debug)]
struct Part {
    range: Range<u64>,
    text: String,
    lines: usize,
    bad_bytes: usize,
}

impl Part {
    fn starting_at(start: u64, shown: &[Shown<'_>]) -> Self {
        let sum = |of: fn(&Shown<'_>) -> usize| shown.iter().map(of).sum::<usize>();
        let mut text = String::with_capacity(sum(|line| line.text.len()));
        text.extend(shown.iter().map(|line| &*line.text));
        Self {
            range: start..start + sum(|line| line.bytes) as u64,
            text,
            lines: sum(|line| line.lines),
            bad_bytes: sum(|line| line.bad_bytes),
        }
    }

    fn ending_at(end: u64, shown: &[Shown<'_>]) -> Self {
        let bytes: usize = shown.iter().map(|line| line.bytes).sum();
        Self::starting_at(end - bytes as u64, shown)
    }
}

/// The stretch of the log that an excerpt is made of, as it was at one moment.
#[derive(Debug)]
struct Frame<'a> {
    reader: &'a BlockingReader,
    progress: Progress,
    from: u64,
    gap_bytes: u64,
    /// The log's end, less a character that has only begun.
    end: u64,
    charset: Charset,
}

impl<'a> Frame<'a> {
    fn new(reader: &'a BlockingReader, from: u64) -> io::Result<Self> {
        let progress = reader.progress();
        let charset = reader.charset()?;
        let from = charset.aligned(from);
        let total = progress.total_bytes;
        let (asked, from) = (from, reader.resume(from));
        let tail = reader.solid_around(from..total).start.max(from);
        let begun = if progress.closed { 0 } else { begun(reader, tail, total, charset)? };
        let end = (total - begun).max(from);
        Ok(Self { reader, progress, from, gap_bytes: from - asked, end, charset })
    }

    /// All of it, if it fits.
    fn everything(&self, room: Room) -> io::Result<Option<Part>> {
        let has_hole = self.solid().end < self.end;
        if has_hole || self.end - self.from > room.raw_bytes() {
            return Ok(None);
        }
        let bytes = self.reader.read(self.from..self.end)?;
        let lines = self.shown(&bytes, WHOLE_LINES);
        let all_fit = room.take(lines.iter()) == lines.len();
        Ok(all_fit.then(|| Part::starting_at(self.from, &lines)))
    }

    /// Where the first hole begins, and the last one ends.
    fn solid(&self) -> Range<u64> {
        self.reader.solid_around(self.from..self.end)
    }

    /// The first whole lines that fit, else the beginning of the first line.
    fn head(&self, room: Room) -> io::Result<Part> {
        let end = self.end.min(self.solid().end);
        let window = self.from..end.min(self.from.saturating_add(room.raw_bytes()));
        let bytes = self.reader.read(window)?;
        let whole_lines = &bytes[..self.charset.last_line_end(&bytes).unwrap_or(0)];
        let mut lines =
            self.shown_in(whole_lines, WHOLE_LINES, |lines| room.take(lines.iter()) > 0);
        lines.truncate(room.take(lines.iter()));
        if lines.is_empty() {
            lines = self.beginning(&bytes[..self.line_length(&bytes)], room);
        }
        Ok(Part::starting_at(self.from, &lines))
    }

    /// The last whole lines that fit, else the end of the last line; nothing before `from`.
    fn tail(&self, from: u64, room: Room) -> io::Result<Part> {
        let from = from.max(self.solid().start);
        let start = self.charset.aligned(from.max(self.end.saturating_sub(room.raw_bytes())));
        let bytes = self.reader.read(start.min(self.end)..self.end)?;
        let first_line = if start == from { 0 } else { self.line_length(&bytes) };
        let fits = |lines: &[Shown<'_>]| room.take(lines.iter().rev()) > 0;
        let mut lines = self.shown_in(&bytes[first_line..], ViewOptions::default(), fits);
        let kept = room.take(lines.iter().rev());
        let mut lines = lines.split_off(lines.len() - kept);
        if lines.is_empty() {
            lines = self.ending(&bytes, room);
        }
        Ok(Part::ending_at(self.end, &lines))
    }

    /// As much of the beginning of a line as fits.
    fn beginning<'b>(&self, line: &'b [u8], room: Room) -> Vec<Shown<'b>> {
        let mut length = room.part_of_line().min(line.len());
        loop {
            length = whole_text(&line[..length], self.charset);
            let lines = self.shown(&line[..length], ViewOptions::default());
            if length == 0 || room.take(lines.iter()) == lines.len() {
                return lines;
            }
            length /= 2;
        }
    }

    /// As much of the end as fits.
    fn ending<'b>(&self, bytes: &'b [u8], room: Room) -> Vec<Shown<'b>> {
        let mut length = room.part_of_line().min(bytes.len());
        loop {
            let part = &bytes[bytes.len() - length..];
            let skip = self.charset.to_character_start(self.end - length as u64, part);
            let lines = self.shown(&part[skip.min(length)..], ViewOptions::default());
            if length == 0 || room.take(lines.iter()) == lines.len() {
                return lines;
            }
            length /= 2;
        }
    }

    fn shown<'b>(&self, bytes: &'b [u8], options: ViewOptions) -> Vec<Shown<'b>> {
        shown(bytes, self.charset, options)
    }

    /// On one screen; where nothing of that fits, each line by itself.
    fn shown_in<'b>(
        &self,
        bytes: &'b [u8],
        options: ViewOptions,
        fits: impl Fn(&[Shown<'_>]) -> bool,
    ) -> Vec<Shown<'b>> {
        let lines = self.shown(bytes, options);
        if fits(&lines) || lines.iter().all(|line| line.rows() == 1) {
            return lines;
        }
        self.shown(bytes, ViewOptions { ansi: Ansi::StripLines, ..options })
    }

    /// The length of the first line, with its newline.
    fn line_length(&self, bytes: &[u8]) -> usize {
        self.charset.line_ends(bytes).next().unwrap_or(bytes.len())
    }

    fn finish(&self, head: Option<Part>, last: Part) -> io::Result<Excerpt> {
        let hidden_range = head.as_ref().map_or(self.from, |head| head.range.end)..last.range.start;
        let hidden = if hidden_range.is_empty() {
            None
        } else {
            Some(look_through(self.reader, self.from..self.end, hidden_range, REACH)?)
        };
        let shown_parts = head.into_iter().chain([last]).filter(|part| !part.range.is_empty());
        Ok(Excerpt {
            sections: shown_parts.map(|part| self.section(part)).collect::<io::Result<_>>()?,
            hidden,
            before: None,
            from: self.from,
            gap_bytes: self.gap_bytes,
            end: self.end,
            total_bytes: self.progress.total_bytes,
            lines: self.progress.lines + u64::from(self.progress.open_line),
            charset: self.charset,
        })
    }

    fn section(&self, part: Part) -> io::Result<Section> {
        let first_line = self.reader.line_at(part.range.start)?;
        Ok(Section {
            first_line,
            last_line: first_line + part.lines.saturating_sub(1) as u64,
            start: part.range.start,
            end: part.range.end,
            text: part.text,
            bad_bytes: part.bad_bytes,
        })
    }
}

/// How many of the last bytes are a character that has only begun.
fn begun(reader: &BlockingReader, from: u64, total: u64, charset: Charset) -> io::Result<u64> {
    let start = charset.aligned(total.saturating_sub(LAST_BYTES).max(from)).min(total);
    let last = reader.read(start..total)?;
    let line = &last[charset.last_line_end(&last).unwrap_or(0)..];
    Ok((line.len() - charset.whole_characters(line)) as u64)
}

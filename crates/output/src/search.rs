//! Searching a log on the server: matching lines with context, and a count of all of them.

use std::collections::VecDeque;
use std::io;

use memchr::memchr_iter;

use super::blocking_reader::BlockingReader;
use super::index::RUN_BYTES;
use super::page::PageEnd;
use super::patience::Patience;
use super::pattern::{Pattern, searchable};
use super::scan::{Kind, Scan, Stretch};
use super::view::Charset;
use crate::Stream;

/// So much of a found line is given; of a match deep inside it, what is around the match.
const TEXT_BYTES: usize = 2000;
/// Of those, so much before the match.
const TEXT_BEFORE: usize = 200;
/// The most context lines on each side.
const MAX_CONTEXT: usize = 100;

/// What to search for, and how much of it to list.
#[derive(Debug, Clone, Copy)]
pub struct SearchRequest<'a> {
    /// Matched against each line as text without newline and escape codes, and as it looks
    /// in the end where it was written over by `\r`.
    pub pattern: &'a Pattern,
    /// Which lines are found.
    pub select: Select,
    /// Only this stream, or both in the order in which they came.
    pub stream: Option<Stream>,
    /// Where to start.
    pub from: u64,
    /// Lines to list before and after each match, at most 100.
    pub context: usize,
    /// Matches to list.
    pub max_matches: usize,
    /// Bytes to list; the first match is listed even so.
    pub max_bytes: usize,
}

/// Which lines a search finds. What it finds is called a match either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Select {
    /// Those that the pattern matches.
    Matching,
    /// Those that it does not.
    Others,
}

impl Select {
    const fn takes(self, kind: Kind) -> bool {
        match (self, kind) {
            (Self::Matching, Kind::Match) | (Self::Others, Kind::Other) => true,
            (Self::Matching, Kind::Other) | (Self::Others, Kind::Match) => false,
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Matches and their context, in order, each line once.
    pub lines: Vec<FoundLine>,
    /// Matching lines from the start of the search to `searched_to`, listed or not.
    pub matches: u64,
    /// All lines in that part, of the stream that was searched.
    pub searched_lines: u64,
    /// How far the search came.
    pub searched_to: u64,
    /// Whether it did not come to the end of the log.
    pub time_over: bool,
    /// Bytes that were not there to search.
    pub missing_bytes: u64,
    /// Where the search has to start that finds what is not listed or was not searched.
    pub next: Option<u64>,
    /// Where a search has to start that wants what comes after this one, with nothing lost: at
    /// `next`; else at the last line, where it may still grow into a match; else at the end.
    pub resume: u64,
    /// `More` where there is a `next`, else whether the log is complete.
    pub end_kind: PageEnd,
}

/// A line of the listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLine {
    /// Its number in the log, counted from 1.
    pub number: u64,
    /// The offset of the line's first byte; of a line over 64 KiB, of the part that is given.
    pub offset: u64,
    /// Whether it matches, or is context.
    pub is_match: bool,
    /// The line without newline and escape codes; at most 2,000 bytes around the match.
    pub text: Vec<u8>,
}

/// Searches from `from` to the end of the log, in bounded memory, as long as patience lasts.
/// Lines over 64 KiB are searched in parts, and count once.
pub fn search(
    reader: &BlockingReader,
    request: &SearchRequest<'_>,
    patience: &Patience,
) -> io::Result<Found> {
    let reader = &reader.frozen();
    let progress = reader.progress();
    let (total, charset) = (progress.total_bytes, reader.charset()?);
    let from = charset.aligned(request.from.min(total)).min(total);
    let mut listing = Listing::new(reader, SearchRequest { from, ..*request }, charset);
    let pieces = reader.pieces(request.stream, from, total);
    let mut scan = Scan::new(pieces, from, charset, request.pattern, patience);
    while let Some(stretch) = scan.next()? {
        listing.look_at(&stretch)?;
    }
    let time_over = !scan.is_complete();
    let searched_to = if time_over { scan.reached() } else { total };
    let next = listing.stopped_at.or(time_over.then_some(searched_to));
    // The end of a line that is listed may lie inside a character, which only UTF-8 gets over.
    let is_done = |line: u64| charset == Charset::Utf8 && listing.is_last(line);
    let growing = scan.open_line().filter(|line| !progress.closed && !is_done(*line));
    let resume = next.or(growing).unwrap_or(total);
    let searched_lines = listing.searched_lines(searched_to)?;
    let end_kind = match (next, progress.closed) {
        (Some(_), _) => PageEnd::More,
        (None, false) => PageEnd::CaughtUp,
        (None, true) => PageEnd::Complete,
    };
    let Listing { lines, matches, .. } = listing;
    let missing_bytes = reader.missing(from..u64::MAX);
    Ok(Found {
        lines,
        matches,
        searched_lines,
        searched_to,
        time_over,
        missing_bytes,
        next,
        resume,
        end_kind,
    })
}

/// The listing as it grows.
#[derive(Debug)]
struct Listing<'a> {
    request: SearchRequest<'a>,
    numbers: LineNumbers<'a>,
    lines: Vec<FoundLine>,
    bytes: usize,
    matches: u64,
    /// Lines that were looked at; not counted where the log's index knows how many they are.
    counted: Option<u64>,
    /// Lines that become context if a match follows, at most as many as are wanted.
    before: VecDeque<Context>,
    /// How many lines after the last match are still wanted.
    after: usize,
    /// Set once no more is listed: where the first line is that is wanted and not listed.
    stopped_at: Option<u64>,
}

#[derive(Debug)]
struct Context {
    offset: u64,
    text: Vec<u8>,
}

impl<'a> Listing<'a> {
    fn new(reader: &'a BlockingReader, request: SearchRequest<'a>, charset: Charset) -> Self {
        let context = request.context.min(MAX_CONTEXT);
        let is_indexed = request.stream.is_none()
            && charset == Charset::Utf8
            && reader.missing(request.from..u64::MAX) == 0;
        Self {
            request: SearchRequest { context, ..request },
            numbers: LineNumbers { reader, last: None },
            lines: Vec::new(),
            bytes: 0,
            matches: 0,
            counted: (!is_indexed).then_some(0),
            before: VecDeque::new(),
            after: 0,
            stopped_at: None,
        }
    }

    /// Whether the line that starts there is a match, and the last that is listed.
    fn is_last(&self, offset: u64) -> bool {
        self.lines.last().is_some_and(|line| line.is_match && line.offset >= offset)
    }

    /// How many lines were looked at, when the search came so far.
    fn searched_lines(&self, searched_to: u64) -> io::Result<u64> {
        if let Some(counted) = self.counted {
            return Ok(counted);
        }
        let reader = self.numbers.reader;
        let progress = reader.progress();
        let is_open = progress.open_line && searched_to == progress.total_bytes;
        let (first, end) = (reader.line_at(self.request.from)?, reader.line_at(searched_to)?);
        let is_empty = searched_to <= self.request.from;
        Ok(if is_empty { 0 } else { end - first + u64::from(is_open) })
    }

    fn look_at(&mut self, stretch: &Stretch<'_>) -> io::Result<()> {
        if let Some(counted) = &mut self.counted {
            *counted += stretch.count();
        }
        match (self.request.select.takes(stretch.kind), self.stopped_at) {
            (true, None) => self.list_matches(stretch),
            (true, Some(_)) => {
                self.matches += stretch.count();
                Ok(())
            }
            (false, None) if self.request.context > 0 => self.list_context(stretch),
            (false, None | Some(_)) => Ok(()),
        }
    }

    fn list_matches(&mut self, stretch: &Stretch<'_>) -> io::Result<()> {
        for line in stretch.lines() {
            self.matches += 1;
            if self.stopped_at.is_none() {
                let text = searchable(&stretch.bytes[line.clone()]);
                let shown = around(&text, self.request.pattern).to_vec();
                self.list_match(stretch.offset_at(line.start), shown)?;
            }
        }
        Ok(())
    }

    fn list_match(&mut self, offset: u64, text: Vec<u8>) -> io::Result<()> {
        let before = std::mem::take(&mut self.before);
        let listed_all = self.matches > self.request.max_matches as u64;
        if listed_all || (self.bytes > 0 && !self.has_room(text.len())) {
            self.stopped_at = Some(before.front().map_or(offset, |context| context.offset));
            return Ok(());
        }
        // The newest context lines that leave room for the match.
        let mut room = self.request.max_bytes.saturating_sub(self.bytes + text.len());
        let fitting = before.iter().rev().take_while(|context| {
            let fits = context.text.len() <= room;
            room = room.saturating_sub(context.text.len());
            fits
        });
        let skipped = before.len() - fitting.count();
        for context in before.into_iter().skip(skipped) {
            self.push(context.offset, context.text, Role::Context)?;
        }
        self.after = self.request.context;
        self.push(offset, text, Role::Match)
    }

    fn list_context(&mut self, stretch: &Stretch<'_>) -> io::Result<()> {
        let mut lines = stretch.lines();
        while self.after > 0
            && let Some(line) = lines.next()
        {
            let context = context(stretch, line.start, &stretch.bytes[line]);
            if !self.has_room(context.text.len()) {
                self.after = 0;
                self.remember(context);
                break;
            }
            self.after -= 1;
            self.push(context.offset, context.text, Role::Context)?;
        }
        let newest: Vec<_> = lines.rev().take(self.request.context).collect();
        for line in newest.into_iter().rev() {
            self.remember(context(stretch, line.start, &stretch.bytes[line]));
        }
        Ok(())
    }

    fn remember(&mut self, context: Context) {
        if self.before.len() == self.request.context {
            self.before.pop_front();
        }
        self.before.push_back(context);
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= self.request.max_bytes
    }

    fn push(&mut self, offset: u64, text: Vec<u8>, role: Role) -> io::Result<()> {
        self.bytes += text.len();
        let number = self.numbers.at(offset)?;
        self.lines.push(FoundLine { number, offset, is_match: role == Role::Match, text });
        Ok(())
    }
}

/// Why a line is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Match,
    Context,
}

fn context(stretch: &Stretch<'_>, position: usize, line: &[u8]) -> Context {
    let mut text = searchable(line).into_owned();
    text.truncate(TEXT_BYTES);
    Context { offset: stretch.offset_at(position), text }
}

/// The part of a line that is listed: its beginning, or what is around a match further inside.
fn around<'t>(line: &'t [u8], pattern: &Pattern) -> &'t [u8] {
    if line.len() <= TEXT_BYTES {
        return line;
    }
    let position = pattern.find(line).unwrap_or(0);
    let in_beginning = position < TEXT_BYTES - TEXT_BEFORE;
    let start = if in_beginning { 0 } else { position - TEXT_BEFORE };
    &line[start..line.len().min(start + TEXT_BYTES)]
}

/// Numbers of lines that are asked for in order: near the last one, only what lies between
/// is counted.
#[derive(Debug)]
struct LineNumbers<'a> {
    reader: &'a BlockingReader,
    /// An offset whose line is known.
    last: Option<(u64, u64)>,
}

impl LineNumbers<'_> {
    fn at(&mut self, offset: u64) -> io::Result<u64> {
        let number = match self.last {
            Some((near, number))
                if (near..near + RUN_BYTES as u64).contains(&offset)
                    && self.reader.missing(near..offset) == 0 =>
            {
                let between = self.reader.read(near..offset)?;
                number + memchr_iter(b'\n', &between).count() as u64
            }
            Some(_) | None => self.reader.line_at(offset)?,
        };
        self.last = Some((offset, number));
        Ok(number)
    }
}

//! Searching a log on the server: matching lines with context, and a count of all of them.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;

use anstream::adapter::strip_bytes;
use memchr::memchr;
use regex::bytes::{Regex, RegexBuilder};
use thiserror::Error;

use super::lines::{Line, Lines};
use super::page::PageEnd;
use super::reader::LogReader;
use crate::spec::Stream;

/// A compiled pattern may take so much memory.
const PATTERN_BYTES: usize = 1024 * 1024;
/// So much of a found line is given; of a match deep inside it, what is around the match.
const TEXT_BYTES: usize = 2000;
/// Of those, so much before the match.
const TEXT_BEFORE: usize = 200;
/// The most context lines on each side.
const MAX_CONTEXT: usize = 100;

/// What was given is not a pattern that can be searched for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{given}` cannot be used as a regular expression: {why}; the syntax is that of Rust's regex crate (no look-around, no back-references), escape special characters with a backslash"
)]
pub struct PatternError {
    given: String,
    why: String,
}

impl PatternError {
    /// The stable word that clients may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_regex"
    }
}

/// Makes a pattern ready for [`search`]. It is matched against single lines.
pub fn compile(pattern: &str) -> Result<Regex, PatternError> {
    let given = || pattern.chars().take(100).collect();
    if pattern.len() > PATTERN_BYTES {
        return Err(PatternError { given: given(), why: "it is larger than 1 MiB".to_owned() });
    }
    let compiled = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build();
    compiled.map_err(|error| PatternError { given: given(), why: error.to_string() })
}

/// What to search for, and how much of it to list.
#[derive(Debug, Clone, Copy)]
pub struct SearchRequest<'a> {
    /// Matched against each line without its newline, `\r` and escape codes.
    pub pattern: &'a Regex,
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

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Matches and their context, in order, each line once.
    pub lines: Vec<FoundLine>,
    /// Matching lines from the start of the search to the end of the log, listed or not.
    pub matches: u64,
    /// Where a search for the matches that are not listed has to start.
    pub next: Option<u64>,
    /// `More` when matches are not listed, else whether the log is complete.
    pub end_kind: PageEnd,
}

/// A line of the listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLine {
    /// Its number in the log, counted from 1.
    pub number: u64,
    /// The offset of the line's first byte; of a line over 64 KiB, of the part that matched.
    pub offset: u64,
    /// Whether it matches, or is context.
    pub is_match: bool,
    /// The line without newline and escape codes; at most 2,000 bytes around the match.
    pub text: Vec<u8>,
}

/// Searches from `from` to the end of the log, in bounded memory. Lines over 64 KiB are
/// searched in parts, and count once.
pub fn search(reader: &LogReader, request: &SearchRequest<'_>) -> io::Result<Found> {
    let reader = &reader.frozen();
    let progress = reader.progress();
    let mut listing = Listing::new(reader, *request);
    let mut lines = Lines::new(reader.pieces(request.stream, request.from, progress.total_bytes));
    while let Some(line) = lines.next()? {
        listing.look_at(line)?;
    }
    let end_kind = match (listing.stopped_at, progress.closed) {
        (Some(_), _) => PageEnd::More,
        (None, false) => PageEnd::CaughtUp,
        (None, true) => PageEnd::Complete,
    };
    Ok(Found { lines: listing.lines, matches: listing.matches, next: listing.stopped_at, end_kind })
}

/// The listing as it grows.
#[derive(Debug)]
struct Listing<'a> {
    reader: &'a LogReader,
    request: SearchRequest<'a>,
    lines: Vec<FoundLine>,
    bytes: usize,
    matches: u64,
    /// Lines that become context if a match follows: offset and text.
    before: VecDeque<(u64, Vec<u8>)>,
    /// How many lines after the last match are still wanted.
    after: usize,
    /// Whether an earlier part of the current line matched.
    line_matched: bool,
    /// The end of the last line that was listed.
    listed_to: u64,
    /// Set once no more matches are listed: where the listing ends.
    stopped_at: Option<u64>,
}

impl<'a> Listing<'a> {
    fn new(reader: &'a LogReader, request: SearchRequest<'a>) -> Self {
        let context = request.context.min(MAX_CONTEXT);
        Self {
            reader,
            request: SearchRequest { context, ..request },
            lines: Vec::new(),
            bytes: 0,
            matches: 0,
            before: VecDeque::new(),
            after: 0,
            line_matched: false,
            listed_to: request.from,
            stopped_at: None,
        }
    }

    fn look_at(&mut self, line: Line<'_>) -> io::Result<()> {
        let text = searchable(line.bytes);
        let found = self.request.pattern.find(&text);
        let counted_before = line.continues && self.line_matched;
        self.line_matched = counted_before || found.is_some();
        match found {
            Some(found) if !counted_before => {
                self.matches += 1;
                self.list_match(line, around(&text, found.start()))
            }
            // Parts of a line that is listed already add nothing.
            Some(_) => Ok(()),
            None if line.continues => Ok(()),
            None => self.list_context(line, &text),
        }
    }

    fn list_match(&mut self, line: Line<'_>, text: &[u8]) -> io::Result<()> {
        if self.stopped_at.is_some() {
            return Ok(());
        }
        let listed_all = self.matches > self.request.max_matches as u64;
        if listed_all || (self.bytes > 0 && !self.has_room(text.len())) {
            self.stopped_at = Some(self.listed_to);
            return Ok(());
        }
        // The newest context lines that leave room for the match.
        let mut room = self.request.max_bytes.saturating_sub(self.bytes + text.len());
        let fitting = self.before.iter().rev().take_while(|(_, context)| {
            let fits = context.len() <= room;
            room = room.saturating_sub(context.len());
            fits
        });
        let skipped = self.before.len() - fitting.count();
        for (offset, context) in std::mem::take(&mut self.before).into_iter().skip(skipped) {
            self.push(offset, context, Role::Context)?;
        }
        self.push(line.offset, text.to_vec(), Role::Match)?;
        self.listed_to = line.end;
        self.after = self.request.context;
        Ok(())
    }

    fn list_context(&mut self, line: Line<'_>, text: &[u8]) -> io::Result<()> {
        if self.stopped_at.is_some() || self.request.context == 0 {
            return Ok(());
        }
        let text = around(text, 0);
        if self.after > 0 && self.has_room(text.len()) {
            self.after -= 1;
            self.listed_to = line.end;
            return self.push(line.offset, text.to_vec(), Role::Context);
        }
        self.after = 0;
        if self.before.len() == self.request.context {
            self.before.pop_front();
        }
        self.before.push_back((line.offset, text.to_vec()));
        Ok(())
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= self.request.max_bytes
    }

    fn push(&mut self, offset: u64, text: Vec<u8>, role: Role) -> io::Result<()> {
        self.bytes += text.len();
        let number = self.reader.line_at(offset)?;
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

/// The line as a person would search it.
fn searchable(line: &[u8]) -> Cow<'_, [u8]> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match memchr(0x1b, line) {
        Some(_) => Cow::Owned(strip_bytes(line).into_vec()),
        None => Cow::Borrowed(line),
    }
}

/// The part of a line that is listed: its beginning, or what is around a match further inside.
fn around(line: &[u8], position: usize) -> &[u8] {
    let in_beginning = line.len() <= TEXT_BYTES || position < TEXT_BYTES - TEXT_BEFORE;
    let start = if in_beginning { 0 } else { position - TEXT_BEFORE };
    &line[start..line.len().min(start + TEXT_BYTES)]
}

//! Searches a log for lines that match a pattern, with context, and counts them.
//!
//! The log is scanned once. The sections of the listed matches are found afterwards, from the lines
//! before each of them, so that they cost nothing where nothing matches. Of many matches that differ
//! only in numbers, an overview lists the first few and the last.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::io;

use memchr::memchr_iter;

use crate::Stream;
use crate::chunks::TextBlock;
use crate::index::RUN_BYTES;
use crate::line_scan::{
    LineGroup, LineKind, LinePattern, LineScan, ScanDeadline, line_around, searchable_text,
};
use crate::page::PageEnd;
use crate::reader::BlockingReader;
use crate::sections::SectionFinder;
pub use crate::sections::SectionHead;
use crate::views::Charset;

/// The bytes of a line that are listed; if the match is further inside, the bytes around it.
const TEXT_BYTES: usize = 2000;
/// The part of these bytes that comes before the match.
const TEXT_BEFORE: usize = 200;
/// The most context lines on each side.
const MAX_CONTEXT: usize = 100;
/// The last matches that an overview lists.
const LAST_MATCHES: usize = 5;
/// The bytes that are read of a line that is listed after the scan.
const LINE_BYTES: u64 = 64 * 1024;

/// The lines to search for, and limits on the listing.
#[derive(Debug, Clone, Copy)]
pub struct SearchRequest<'a> {
    /// The pattern. It is matched against the text of each line without newline and escape codes; a
    /// line that `\r` overwrote is matched as a terminal finally shows it.
    pub pattern: &'a LinePattern,
    /// The kind of lines to find.
    pub select: Select,
    /// The only stream to search; `None` searches both, in the order in which the bytes came.
    pub stream: Option<Stream>,
    /// The offset at which the search starts.
    pub from: u64,
    /// The context to list with each match.
    pub context: SearchContext,
    /// The matches to list if there are many.
    pub style: ListingStyle,
    /// Matches to list at most.
    pub max_matches: usize,
    /// Bytes to list at most. The first match is listed in any case.
    pub max_bytes: usize,
}

/// The context that is listed with a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchContext {
    /// So many lines before and after each match, at most 100.
    Lines(usize),
    /// The head of the section that a match is in: its commit and file, trace or test.
    Section,
}

impl SearchContext {
    fn lines(self) -> usize {
        match self {
            Self::Lines(lines) => lines.min(MAX_CONTEXT),
            Self::Section => 0,
        }
    }
}

/// The matches that are listed if there are many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingStyle {
    /// The first ones that have room, so that a search from `next` on lists the others.
    Page,
    /// The first and the last ones. Of many that differ only in numbers, the first few and the
    /// last.
    Overview,
}

/// The lines that a search finds. A found line is called a match in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Select {
    /// Lines that match the pattern.
    Matching,
    /// Lines that do not match the pattern.
    Others,
}

impl Select {
    const fn selects(self, kind: LineKind) -> bool {
        match (self, kind) {
            (Self::Matching, LineKind::Match) | (Self::Others, LineKind::Other) => true,
            (Self::Matching, LineKind::Other) | (Self::Others, LineKind::Match) => false,
        }
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchResult {
    /// Matches and their context, in order, each line once.
    pub lines: Vec<FoundLine>,
    /// The last matches, if an overview does not list all of them in `lines`.
    pub last: Vec<FoundLine>,
    /// The kind of context that the listing has.
    pub context: SearchContext,
    /// Matching lines from the start of the search to `searched_to`, listed or not.
    pub matches: u64,
    /// All lines in that range, of the stream that was searched.
    pub searched_lines: u64,
    /// The offset that the search reached.
    pub searched_to: u64,
    /// `true` if the search ran out of time before the end of the log.
    pub time_over: bool,
    /// Bytes that are missing between the start of the search and the end of the log, searched or
    /// not.
    pub missing_bytes: u64,
    /// The offset for a search that finds the lines that are not listed or not searched; `None` if
    /// there are none.
    pub next: Option<u64>,
    /// The offset for a later search that misses nothing: `next`; else the last line, if it may
    /// still grow into a match; else the end.
    pub resume: u64,
    /// `More` if there is a `next`; else whether the log is complete.
    pub end_kind: PageEnd,
}

/// A line of the search result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLine {
    /// The number in the log, counted from 1.
    pub number: u64,
    /// The offset of the line's first byte; of a line over 64 KiB, of the listed part.
    pub offset: u64,
    /// `true` for a match, `false` for context.
    pub is_match: bool,
    /// The line without newline and escape codes; at most 2,000 bytes around the match.
    pub text: Vec<u8>,
    /// The section that a match is in, if the search was asked for sections.
    pub section: Option<SectionHead>,
    /// The number of matches between this one and the end of the listing that differ only in
    /// numbers and are not listed.
    pub alike: u64,
}

/// Searches from `from` to the end of the log, in bounded memory, until the deadline. Lines over 64
/// KiB are searched in parts, and count once.
pub fn search(
    reader: &BlockingReader,
    request: &SearchRequest<'_>,
    deadline: &ScanDeadline,
) -> io::Result<SearchResult> {
    let reader = &reader.freeze();
    let progress = reader.progress();
    let total = progress.total_bytes;
    let charset = reader.charset()?;
    let from = charset.aligned(request.from.min(total)).min(total);
    let mut listing = SearchListing::new(reader, SearchRequest { from, ..*request }, charset);
    let pieces = reader.chunks(request.stream, from, total);
    let mut scan = LineScan::new(pieces, from, charset, request.pattern, deadline);
    while let Some(group) = scan.next()? {
        listing.add_group(&group)?;
    }
    listing.finish()?;
    let time_over = !scan.is_complete();
    let searched_to = if time_over { scan.reached() } else { total };
    let next = listing.stopped_at.or(time_over.then_some(searched_to));
    // The end of a listed line may be inside a character. Only UTF-8 can resume there.
    let is_done = |line: u64| charset == Charset::Utf8 && listing.is_last(line);
    let growing = scan.open_line.filter(|line| !progress.closed && !is_done(*line));
    let resume = next.or(growing).unwrap_or(total);
    let searched_lines = listing.searched_lines(searched_to)?;
    let end_kind = match (next, progress.closed) {
        (Some(_), _) => PageEnd::More,
        (None, false) => PageEnd::CaughtUp,
        (None, true) => PageEnd::Complete,
    };
    let SearchListing { lines, last, matches, .. } = listing;
    let missing_bytes = reader.missing_bytes(from..u64::MAX);
    Ok(SearchResult {
        lines,
        last,
        context: request.context,
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

/// The listing under construction.
#[derive(Debug)]
struct SearchListing<'a> {
    request: SearchRequest<'a>,
    charset: Charset,
    numbers: LineNumbers<'a>,
    lines: Vec<FoundLine>,
    /// The matches that are compared, for an overview.
    alike: Option<AlikeMatches>,
    /// The offsets of the last matches after the listing was full, for an overview.
    last_offsets: VecDeque<u64>,
    last: Vec<FoundLine>,
    bytes: usize,
    matches: u64,
    /// Lines that were scanned; `None` if the log's index knows their number.
    counted: Option<u64>,
    /// Lines that become context if a match follows, at most `context` of them.
    before: VecDeque<ContextLine>,
    /// The number of context lines after the last match that are still to come.
    after: usize,
    /// Set once the listing is full: the offset of the first line that is wanted and not listed.
    stopped_at: Option<u64>,
}

#[derive(Debug)]
struct ContextLine {
    offset: u64,
    text: Vec<u8>,
}

impl<'a> SearchListing<'a> {
    fn new(reader: &'a BlockingReader, request: SearchRequest<'a>, charset: Charset) -> Self {
        let is_indexed = request.stream.is_none()
            && charset == Charset::Utf8
            && reader.missing_bytes(request.from..u64::MAX) == 0;
        Self {
            request,
            charset,
            numbers: LineNumbers { reader, last: None },
            lines: Vec::new(),
            alike: (request.style == ListingStyle::Overview).then(AlikeMatches::default),
            last_offsets: VecDeque::new(),
            last: Vec::new(),
            bytes: 0,
            matches: 0,
            counted: (!is_indexed).then_some(0),
            before: VecDeque::new(),
            after: 0,
            stopped_at: None,
        }
    }

    /// `true` if the line that starts at `offset` is a match, and the last listed line.
    fn is_last(&self, offset: u64) -> bool {
        self.lines.last().is_some_and(|line| line.is_match && line.offset >= offset)
    }

    /// The number of lines up to `searched_to`.
    fn searched_lines(&self, searched_to: u64) -> io::Result<u64> {
        if let Some(counted) = self.counted {
            return Ok(counted);
        }
        let reader = self.numbers.reader;
        let progress = reader.progress();
        let is_open = progress.open_line && searched_to == progress.total_bytes;
        let first = reader.line_at(self.request.from)?;
        let end = reader.line_at(searched_to)?;
        let is_empty = searched_to <= self.request.from;
        Ok(if is_empty { 0 } else { end - first + u64::from(is_open) })
    }

    fn add_group(&mut self, group: &LineGroup<'_>) -> io::Result<()> {
        if let Some(counted) = &mut self.counted {
            *counted += group.count();
        }
        match (self.request.select.selects(group.kind), self.stopped_at) {
            (true, None) => self.list_matches(group),
            (true, Some(_)) => {
                self.matches += group.count();
                self.remember_last(group);
                Ok(())
            }
            (false, None) if self.request.context.lines() > 0 => self.list_context(group),
            (false, None | Some(_)) => Ok(()),
        }
    }

    fn list_matches(&mut self, group: &LineGroup<'_>) -> io::Result<()> {
        for line in group.lines() {
            self.matches += 1;
            if self.stopped_at.is_none() {
                let text = searchable_text(&group.bytes[line.clone()]);
                let shown = clip_around_match(&text, self.request.pattern).to_vec();
                self.list_unless_alike(group.offset_at(line.start), shown)?;
            }
        }
        if self.stopped_at.is_some() {
            self.remember_last(group);
        }
        Ok(())
    }

    /// Remembers the last matches of a group after the listing was full.
    fn remember_last(&mut self, group: &LineGroup<'_>) {
        let Some(stopped_at) = self.stopped_at.filter(|_| self.alike.is_some()) else { return };
        let newest: Vec<usize> = match group.kind {
            LineKind::Match => vec![0],
            LineKind::Other => {
                group.lines().rev().take(LAST_MATCHES).map(|line| line.start).collect()
            }
        };
        for start in newest.into_iter().rev() {
            let offset = group.offset_at(start);
            if offset >= stopped_at {
                self.last_offsets.push_back(offset);
            }
        }
        while self.last_offsets.len() > LAST_MATCHES {
            self.last_offsets.pop_front();
        }
    }

    fn list_unless_alike(&mut self, offset: u64, text: Vec<u8>) -> io::Result<()> {
        let listing = self.alike.as_mut().map_or(AlikeListing::List, |all| all.add(offset, &text));
        match listing {
            AlikeListing::List => self.list_match(offset, text),
            AlikeListing::Full => {
                self.stopped_at = Some(offset);
                Ok(())
            }
            AlikeListing::Fold(surplus) => {
                if !surplus.is_empty() {
                    self.lines.retain(|line| !surplus.contains(&line.offset));
                    self.bytes = self.lines.iter().map(|line| line.text.len() + 1).sum();
                }
                Ok(())
            }
        }
    }

    /// Completes the listing after the scan.
    fn finish(&mut self) -> io::Result<()> {
        self.list_folded()?;
        for offset in std::mem::take(&mut self.last_offsets) {
            let line = self.read_match(offset)?;
            self.last.push(line);
        }
        if self.request.context == SearchContext::Section {
            let reader = self.numbers.reader;
            let mut sections = SectionFinder::new(reader, self.request.stream, self.charset);
            for line in self.lines.iter_mut().chain(&mut self.last) {
                line.section = sections.find_head(line.offset)?;
            }
        }
        Ok(())
    }

    /// Lists the last one of the matches that differ only in numbers, and the number of the others.
    fn list_folded(&mut self) -> io::Result<()> {
        let shapes = self.alike.iter().flat_map(|alike| alike.shapes.values());
        for shape in shapes.filter(|shape| shape.folded > 0) {
            // The last one is listed below.
            let folded = shape.folded - 1;
            let listed = shape.listed.last();
            if let Some(line) = self.lines.iter_mut().find(|line| listed == Some(&line.offset)) {
                line.alike = folded;
            }
            let last = self.read_match(shape.last)?;
            self.lines.push(last);
        }
        self.lines.sort_by_key(|line| line.offset);
        Ok(())
    }

    /// Reads a match that is not the newest line.
    fn read_match(&self, offset: u64) -> io::Result<FoundLine> {
        let reader = self.numbers.reader;
        let to = reader.progress().total_bytes.min(offset + LINE_BYTES);
        let chunks = reader.chunks(self.request.stream, offset, to);
        let mut block = TextBlock::new(chunks, offset, self.charset);
        block.fill(0)?;
        let text = searchable_text(&block.bytes()[line_around(block.bytes(), 0)]);
        let text = clip_around_match(&text, self.request.pattern).to_vec();
        let number = reader.line_at(offset)?;
        Ok(FoundLine { number, offset, is_match: true, text, section: None, alike: 0 })
    }

    fn list_match(&mut self, offset: u64, text: Vec<u8>) -> io::Result<()> {
        let before = std::mem::take(&mut self.before);
        let listed_all = self.matches > self.request.max_matches as u64;
        if listed_all || (self.bytes > 0 && !self.has_room(text.len())) {
            self.stopped_at = Some(before.front().map_or(offset, |context| context.offset));
            return Ok(());
        }
        // Keeps the newest context lines that leave room for the match.
        let mut room = self.request.max_bytes.saturating_sub(self.bytes + text.len());
        let fitting = before.iter().rev().take_while(|context| {
            let fits = context.text.len() <= room;
            room = room.saturating_sub(context.text.len());
            fits
        });
        let skipped = before.len() - fitting.count();
        for context in before.into_iter().skip(skipped) {
            self.push(context.offset, context.text, LineRole::Context)?;
        }
        self.after = self.request.context.lines();
        self.push(offset, text, LineRole::Match)
    }

    fn list_context(&mut self, group: &LineGroup<'_>) -> io::Result<()> {
        let mut lines = group.lines();
        while self.after > 0
            && let Some(line) = lines.next()
        {
            let context = context(group, line.start, &group.bytes[line]);
            if !self.has_room(context.text.len()) {
                self.after = 0;
                self.remember(context);
                break;
            }
            self.after -= 1;
            self.push(context.offset, context.text, LineRole::Context)?;
        }
        let newest: Vec<_> = lines.rev().take(self.request.context.lines()).collect();
        for line in newest.into_iter().rev() {
            self.remember(context(group, line.start, &group.bytes[line]));
        }
        Ok(())
    }

    fn remember(&mut self, context: ContextLine) {
        if self.before.len() == self.request.context.lines() {
            self.before.pop_front();
        }
        self.before.push_back(context);
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= self.request.max_bytes
    }

    fn push(&mut self, offset: u64, text: Vec<u8>, role: LineRole) -> io::Result<()> {
        // The newline counts too, so that a listing of empty lines has an end.
        self.bytes += text.len() + 1;
        let number = self.numbers.number_at(offset)?;
        let is_match = role == LineRole::Match;
        self.lines.push(FoundLine { number, offset, is_match, text, section: None, alike: 0 });
        Ok(())
    }
}

/// The reason why a line is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineRole {
    Match,
    Context,
}

fn context(group: &LineGroup<'_>, position: usize, line: &[u8]) -> ContextLine {
    let mut text = searchable_text(line).into_owned();
    text.truncate(TEXT_BYTES);
    ContextLine { offset: group.offset_at(position), text }
}

/// The part of a line that is listed: its beginning, or the bytes around a match further inside.
fn clip_around_match<'t>(line: &'t [u8], pattern: &LinePattern) -> &'t [u8] {
    if line.len() <= TEXT_BYTES {
        return line;
    }
    let position = pattern.find(line).unwrap_or(0);
    let in_beginning = position < TEXT_BYTES - TEXT_BEFORE;
    let start = if in_beginning { 0 } else { position - TEXT_BEFORE };
    &line[start..line.len().min(start + TEXT_BYTES)]
}

/// Line numbers for rising offsets: near the previous offset, only the newlines in between are
/// counted.
#[derive(Debug)]
struct LineNumbers<'a> {
    reader: &'a BlockingReader,
    /// An offset and its line number.
    last: Option<(u64, u64)>,
}

impl LineNumbers<'_> {
    fn number_at(&mut self, offset: u64) -> io::Result<u64> {
        let number = match self.last {
            Some((near, number))
                if (near..near + RUN_BYTES as u64).contains(&offset)
                    && self.reader.missing_bytes(near..offset) == 0 =>
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

/// Searches each log in turn until the deadline. Returns the results of the logs that were begun.
///
/// All listings together stay within a few times the request's bytes: the more logs have had
/// matches, the less is listed of the next one, down to its first match.
pub fn search_each(
    readers: &[BlockingReader],
    request: &SearchRequest<'_>,
    deadline: &ScanDeadline,
) -> Vec<io::Result<SearchResult>> {
    let mut matching = 0;
    let begun = readers.iter().enumerate().map_while(|(index, reader)| {
        if index > 0 && deadline.is_over() {
            return None;
        }
        let max_bytes = request.max_bytes / (matching + 1);
        let found = search(reader, &SearchRequest { max_bytes, ..*request }, deadline);
        matching += usize::from(found.as_ref().is_ok_and(|found| found.matches > 0));
        Some(found)
    });
    begun.collect()
}

/// The matches of one shape that are listed, unless there are more.
const MANY: usize = 12;
/// The matches of one shape that are listed if there are many, in addition to the last one.
const LISTED_OF_MANY: usize = 3;
/// The shapes that are compared. Matches of further shapes are all listed.
const MAX_SHAPES: usize = 64;
/// The matches that are compared. Later ones are only counted.
const MAX_COMPARED: u64 = 10_000;

/// The shapes of the matches so far, in bounded memory.
#[derive(Debug, Default)]
struct AlikeMatches {
    shapes: HashMap<u64, ShapeMatches>,
    compared: u64,
}

/// The matches of one shape.
#[derive(Debug, Default)]
struct ShapeMatches {
    /// The offsets of those that are listed.
    listed: Vec<u64>,
    /// The number of those that are not.
    folded: u64,
    last: u64,
}

/// The way in which a new match is listed.
#[derive(Debug, PartialEq, Eq)]
enum AlikeListing {
    List,
    /// It is not listed, and neither are the matches at these offsets any more.
    Fold(Vec<u64>),
    /// No further match is compared.
    Full,
}

impl AlikeMatches {
    fn add(&mut self, offset: u64, text: &[u8]) -> AlikeListing {
        if self.compared == MAX_COMPARED {
            return AlikeListing::Full;
        }
        self.compared += 1;
        let shape = shape_hash(text);
        if self.shapes.len() == MAX_SHAPES && !self.shapes.contains_key(&shape) {
            return AlikeListing::List;
        }
        let alike = self.shapes.entry(shape).or_default();
        alike.last = offset;
        if alike.folded == 0 && alike.listed.len() < MANY {
            alike.listed.push(offset);
            return AlikeListing::List;
        }
        let surplus = alike.listed.split_off(LISTED_OF_MANY.min(alike.listed.len()));
        alike.folded += surplus.len() as u64 + 1;
        AlikeListing::Fold(surplus)
    }
}

/// A hash of the text in which each word with a digit is the same, so that numbers, times, sizes
/// and ids make no difference.
fn shape_hash(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
    for word in text.chunk_by(|one, other| is_word(one) == is_word(other)) {
        match word.iter().any(u8::is_ascii_digit) {
            true => hasher.write_u8(b'0'),
            false => hasher.write(word),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::views::on_screen;
    use crate::{LogReader, LogStorage, LogWriter, open_log};

    fn log(writes: &[(Stream, &[u8])]) -> (LogWriter, LogReader, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 100, spill_dir: dir.path().to_owned().into() });
        for (stream, bytes) in writes {
            writer.append(*stream, bytes);
        }
        (writer, reader, dir)
    }

    fn compile(pattern: &str) -> LinePattern {
        LinePattern::new(pattern).unwrap()
    }

    fn request(pattern: &LinePattern) -> SearchRequest<'_> {
        SearchRequest {
            pattern,
            select: Select::Matching,
            stream: None,
            from: 0,
            context: SearchContext::Lines(0),
            style: ListingStyle::Page,
            max_matches: 100,
            max_bytes: 100_000,
        }
    }

    fn search(reader: &LogReader, request: &SearchRequest<'_>) -> io::Result<SearchResult> {
        let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
        super::search(&reader.blocking(), request, &deadline)
    }

    fn listed(found: &SearchResult) -> Vec<String> {
        let line = |line: &FoundLine| {
            let sign = if line.is_match { ':' } else { '-' };
            format!("{}{sign}{}", line.number, String::from_utf8_lossy(&line.text))
        };
        found.lines.iter().map(line).collect()
    }

    #[test]
    fn matches_come_with_their_context_and_each_line_once() {
        let (mut writer, reader, _dir) = log(&[(Stream::Stdout, b"a\nb\nX1\nX2\nc\nd\ne\nf\nX3")]);
        let pattern = compile("^X");
        let with_context = SearchRequest { context: SearchContext::Lines(1), ..request(&pattern) };
        let found = search(&reader, &with_context).unwrap();
        assert_eq!(listed(&found), ["2-b", "3:X1", "4:X2", "5-c", "8-f", "9:X3"]);
        assert_eq!((found.matches, found.next, found.end_kind), (3, None, PageEnd::CaughtUp));
        writer.close();
        assert_eq!(search(&reader, &with_context).unwrap().end_kind, PageEnd::Complete);
    }

    #[test]
    fn unlisted_matches_are_counted_and_found_by_the_next_search() {
        let content = "match\nother\n".repeat(10);
        let (_writer, reader, _dir) = log(&[(Stream::Stdout, content.as_bytes())]);
        let pattern = compile("match");
        let mut at = SearchRequest { max_matches: 4, ..request(&pattern) };
        let mut numbers = Vec::new();
        loop {
            let found = search(&reader, &at).unwrap();
            numbers.extend(found.lines.iter().map(|line| line.number));
            let Some(next) = found.next else { break };
            assert_eq!(found.end_kind, PageEnd::More);
            at.from = next;
        }
        assert_eq!(numbers, (0..10).map(|index| index * 2 + 1).collect::<Vec<_>>());
        assert_eq!(
            search(&reader, &SearchRequest { max_bytes: 0, ..request(&pattern) }).unwrap().matches,
            10
        );
    }

    #[test]
    fn one_stream_is_searched_as_if_it_were_alone() {
        let writes: [(Stream, &[u8]); 4] = [
            (Stream::Stdout, b"out ma"),
            (Stream::Stderr, b"noise match\n"),
            (Stream::Stdout, b"tch\n"),
            (Stream::Stderr, b"more\n"),
        ];
        let (_writer, reader, _dir) = log(&writes);
        let pattern = compile("match");
        let stdout = SearchRequest { stream: Some(Stream::Stdout), ..request(&pattern) };
        assert_eq!(listed(&search(&reader, &stdout).unwrap()), ["1:out match"]);
    }

    #[test]
    fn colours_and_carriage_returns_do_not_hide_a_match() {
        let (_writer, reader, _dir) = log(&[(Stream::Stdout, b"\x1b[31mer\x1b[1mror\x1b[0m\r\n")]);
        let found = search(&reader, &request(&compile("^error$"))).unwrap();
        assert_eq!(listed(&found), ["1:error"]);
    }

    #[test]
    fn an_overwritten_line_is_found_by_its_final_text() {
        let states: String = (0..300).map(|percent| format!("\rprogress {percent}%")).collect();
        let content = format!("{states}\nerror: disk\rall is good\nprogress\n");
        let (_writer, reader, _dir) = log(&[(Stream::Stdout, content.as_bytes())]);
        for (pattern, expected) in [
            ("^progress", &["1:progress 299%", "3:progress"][..]),
            ("^progress 299%$", &["1:progress 299%"]),
            ("error|progress 7%", &[]),
            ("good", &["2:all is good"]),
        ] {
            let found = search(&reader, &request(&compile(pattern))).unwrap();
            assert_eq!(listed(&found), expected, "{pattern}");
        }
    }

    #[test]
    fn a_resumed_search_finds_a_line_that_grew_into_a_match_and_no_line_twice() {
        let (mut writer, reader, _dir) = log(&[(Stream::Stdout, b"one\nERR")]);
        writer.append(Stream::Stderr, b"note");
        let pattern = compile("ERROR");
        let mut at = SearchRequest { stream: Some(Stream::Stdout), ..request(&pattern) };
        let found = search(&reader, &at).unwrap();
        assert_eq!((found.matches, found.next, found.resume), (0, None, 4));
        at.from = found.resume;
        writer.append(Stream::Stdout, b"OR: foo");
        let found = search(&reader, &at).unwrap();
        assert_eq!((listed(&found), found.resume), (vec!["2:ERROR: foo".to_owned()], 18));
        at.from = found.resume;
        writer.append(Stream::Stdout, b" and more\nlast\n");
        let found = search(&reader, &at).unwrap();
        assert_eq!((found.matches, found.resume), (0, 33));
        writer.append(Stream::Stdout, b"end");
        writer.close();
        assert_eq!(search(&reader, &at).unwrap().resume, 36, "nothing can grow any more");
    }

    #[test]
    fn a_search_resumes_at_the_start_of_a_long_unfinished_line() {
        let content = ["first\n", &"x".repeat(300_000), "NEE"].concat();
        let (mut writer, reader, _dir) = log(&[(Stream::Stdout, content.as_bytes())]);
        let pattern = compile("NEEDLE|^first");
        let found = search(&reader, &request(&pattern)).unwrap();
        assert_eq!((found.matches, found.resume), (1, 6));
        writer.append(Stream::Stdout, b"DLE");
        let found = search(&reader, &SearchRequest { from: 6, ..request(&pattern) }).unwrap();
        assert_eq!((found.matches, found.resume), (1, content.len() as u64 + 3));
    }

    #[test]
    fn searched_lines_are_counted() {
        let writes: [(Stream, &[u8]); 3] =
            [(Stream::Stdout, b"a\nb\nc\n"), (Stream::Stderr, b"x\ny\n"), (Stream::Stdout, b"d")];
        let (_writer, reader, _dir) = log(&writes);
        let pattern = compile("none");
        for (stream, from, expected) in [
            (None, 0, 6),
            (None, 2, 5),
            (None, 3, 5),
            (None, 10, 1),
            (None, 11, 0),
            (None, u64::MAX, 0),
            (Some(Stream::Stderr), 0, 2),
            (Some(Stream::Stdout), 4, 2),
        ] {
            let found =
                search(&reader, &SearchRequest { stream, from, ..request(&pattern) }).unwrap();
            assert_eq!(found.searched_lines, expected, "{stream:?} from {from}");
            assert!(found.searched_to <= 11 && found.resume <= 11);
        }
    }

    /// Numbered repetitions of a line, encoded in a character set.
    fn encoded(charset: &str, line: &str) -> Vec<u8> {
        let text: String = (0..3000).map(|number| format!("{line} {number}\n")).collect();
        match charset {
            "utf-16le" => "\u{feff}"
                .encode_utf16()
                .chain(text.encode_utf16())
                .flat_map(u16::to_le_bytes)
                .collect(),
            "utf-16be" => "\u{feff}"
                .encode_utf16()
                .chain(text.encode_utf16())
                .flat_map(u16::to_be_bytes)
                .collect(),
            label => {
                encoding_rs::Encoding::for_label(label.as_bytes()).unwrap().encode(&text).0.into()
            }
        }
    }

    #[test]
    fn other_character_sets_are_searched_as_they_are_shown() {
        for (charset, line, wanted) in [
            ("utf-16le", "error: größer", "größer 29[0-9]{2}$"),
            ("utf-16be", "error: broken", "^error: broken 29[0-9]{2}$"),
            ("shift_jis", "エラー: ファイルが見つかりません", "^エラー.*29[0-9]{2}"),
            ("euc-jp", "エラー: ファイルが見つかりません", "^エラー.*29[0-9]{2}"),
            ("windows-1251", "Ошибка: файл не найден", "ошибка|файл не найден 29[0-9]{2}$"),
            ("iso-2022-jp", "エラー: ファイルが見つかりません", "^エラー.*29[0-9]{2}"),
        ] {
            let bytes = encoded(charset, line);
            let (_writer, reader, _dir) = log(&[(Stream::Stdout, &bytes)]);
            let pattern = compile(wanted);
            let mut at = SearchRequest { max_matches: 7, ..request(&pattern) };
            let mut lines = Vec::new();
            loop {
                let found = search(&reader, &at).unwrap();
                lines.extend(listed(&found));
                let Some(next) = found.next else { break };
                at.from = next;
            }
            let expected = (2900..3000).map(|number| format!("{}:{line} {number}", number + 1));
            assert_eq!(lines, expected.collect::<Vec<_>>(), "{charset}");
            let whole = search(&reader, &request(&compile("none"))).unwrap();
            assert_eq!((whole.matches, whole.searched_lines), (0, 3000), "{charset}");
        }
    }

    #[test]
    fn a_search_in_another_character_set_can_be_continued_after_its_deadline() {
        let bytes = encoded("utf-16le", &"漢字".repeat(60));
        let (_writer, reader, _dir) = log(&[(Stream::Stdout, &bytes)]);
        let (over, _guard) = ScanDeadline::start(Duration::ZERO);
        let pattern = compile("漢字 [0-9]+$");
        let mut at = SearchRequest { max_matches: 5000, max_bytes: 1 << 30, ..request(&pattern) };
        let mut numbers = Vec::new();
        loop {
            let found = super::search(&reader.blocking(), &at, &over).unwrap();
            numbers.extend(found.lines.iter().map(|line| line.number));
            let Some(next) = found.next else { break };
            assert!(next > at.from);
            at.from = next;
        }
        assert_eq!(numbers, (1..=3000).collect::<Vec<u64>>());
    }

    #[test]
    fn a_match_deep_inside_an_endless_line_is_shown_and_counted_once() {
        let mut content = vec![b'x'; 500_000];
        content.extend_from_slice(b"NEEDLE and NEEDLE");
        content.extend(vec![b'x'; 300_000]);
        content.extend_from_slice(b"NEEDLE\nlast NEEDLE\n");
        let (_writer, reader, _dir) = log(&[(Stream::Stdout, &content)]);
        let found = search(&reader, &request(&compile("NEEDLE"))).unwrap();
        assert_eq!(found.matches, 2);
        assert!(found.lines[0].text.windows(6).any(|window| window == b"NEEDLE"));
        assert!(found.lines.iter().all(|line| line.text.len() <= 2000));
        assert_eq!(found.lines[1].number, 2);
    }

    #[test]
    fn lines_that_do_not_match_can_be_searched_for() {
        let (_writer, reader, _dir) = log(&[(Stream::Stdout, b"a\nX\nb\nc\nX")]);
        let pattern = compile("X");
        let others = SearchRequest { select: Select::Others, ..request(&pattern) };
        let found = search(&reader, &others).unwrap();
        assert_eq!(
            (listed(&found), found.matches),
            (vec!["1:a".into(), "3:b".into(), "4:c".into()], 3)
        );
        let with_context =
            SearchRequest { context: SearchContext::Lines(1), max_matches: 1, ..others };
        let found = search(&reader, &with_context).unwrap();
        assert_eq!(listed(&found), ["1:a", "2-X"]);
        assert_eq!((found.matches, found.next, found.end_kind), (3, Some(4), PageEnd::More));
    }

    #[test]
    fn a_search_can_be_continued_after_its_deadline() {
        let content = "match\n".repeat(100_000);
        let (_writer, reader, _dir) = log(&[(Stream::Stdout, content.as_bytes())]);
        let pattern = compile("match");
        let (over, _guard) = ScanDeadline::start(Duration::ZERO);
        let mut at =
            SearchRequest { max_matches: usize::MAX, max_bytes: usize::MAX, ..request(&pattern) };
        let mut matches = 0;
        let mut rounds = 0;
        loop {
            let found = super::search(&reader.blocking(), &at, &over).unwrap();
            assert_eq!(found.matches as usize, found.lines.len());
            matches += found.matches;
            rounds += 1;
            let Some(next) = found.next else { break };
            assert!(found.time_over && next == found.searched_to && next > at.from);
            at.from = next;
        }
        assert_eq!(matches, 100_000);
        assert!(rounds > 5, "{rounds}");
    }

    #[test]
    fn patterns_that_ruin_other_engines_take_linear_time_or_are_refused() {
        let content = "x".repeat(50_000) + "\n" + &"a".repeat(50_000) + "\n";
        let (_writer, reader, _dir) = log(&[(Stream::Stdout, content.as_bytes())]);
        for pattern in ["(a*)*b", "(x+x+)+y", "(a|aa)+$", "(.*)(.*)(.*)(.*)z"] {
            let pattern = compile(pattern);
            search(&reader, &request(&pattern)).unwrap();
        }
    }

    /// An overview of all matches: what is listed first, and the last ones.
    fn overview(pattern: &LinePattern) -> SearchRequest<'_> {
        let style = ListingStyle::Overview;
        SearchRequest { style, max_matches: usize::MAX, ..request(pattern) }
    }

    #[test]
    fn an_overview_folds_matches_that_differ_only_in_numbers() {
        let content: String =
            (1..=200).map(|number| format!("slow {number}\nlost {}\n", number * 7)).collect();
        let (_writer, reader, _dir) = log(&[(Stream::Stdout, content.as_bytes())]);
        let found = search(&reader, &overview(&compile("slow|lost"))).unwrap();
        assert_eq!(
            listed(&found),
            [
                "1:slow 1",
                "2:lost 7",
                "3:slow 2",
                "4:lost 14",
                "5:slow 3",
                "6:lost 21",
                "399:slow 200",
                "400:lost 1400",
            ]
        );
        let alike: Vec<u64> = found.lines.iter().map(|line| line.alike).collect();
        assert_eq!(alike, [0, 0, 0, 0, 196, 196, 0, 0]);
        assert_eq!((found.matches, found.next, found.last.len()), (400, None, 0));
    }

    #[test]
    fn an_overview_of_any_character_set_and_stream_has_the_last_matches() {
        for charset in ["utf-8", "utf-16le", "shift_jis"] {
            let bytes = encoded(charset, "エラー");
            let noise: &[u8] = if charset == "utf-8" { b"noise\n" } else { b"" };
            let (_writer, reader, _dir) =
                log(&[(Stream::Stdout, &bytes), (Stream::Stderr, noise), (Stream::Stdout, b"")]);
            let pattern = compile("エラー");
            let stdout = SearchRequest { stream: Some(Stream::Stdout), ..overview(&pattern) };
            let found = search(&reader, &stdout).unwrap();
            assert_eq!(
                listed(&found),
                ["1:エラー 0", "2:エラー 1", "3:エラー 2", "3000:エラー 2999"],
                "{charset}"
            );
            let short = SearchRequest { max_bytes: 60, ..stdout };
            let found = search(&reader, &short).unwrap();
            let last: Vec<u64> = found.last.iter().map(|line| line.number).collect();
            assert_eq!(last, [2996, 2997, 2998, 2999, 3000], "{charset}");
            assert_eq!(found.last[4].text, "エラー 2999".as_bytes(), "{charset}");
            assert!(found.next.is_some_and(|next| next > 0), "{charset}");
        }
    }

    #[test]
    fn a_listing_of_empty_lines_has_an_end() {
        let (_writer, reader, _dir) = log(&[(Stream::Stdout, &b"\n".repeat(10_000))]);
        let pattern = compile("^$");
        let page = SearchRequest { max_matches: usize::MAX, max_bytes: 100, ..request(&pattern) };
        let found = search(&reader, &page).unwrap();
        assert_eq!(found.matches, 10_000);
        assert!(found.lines.len() <= 101, "{}", found.lines.len());
    }

    /// Text with colours, `\r`, empty lines and unfinished ones.
    fn any_write() -> impl Strategy<Value = (Stream, String)> {
        let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
        let text = prop_oneof![
            6 => "[ab ]{0,4}\n",
            2 => "[ab\r]{0,3}",
            1 => "[ab]{0,3}\r\n",
            1 => Just("a\u{1b}[31mb\u{1b}[0m\n".to_owned()),
            1 => Just("\u{1b}[1mb".to_owned()),
        ];
        (stream, text)
    }

    fn any_pattern() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "ab", "^a", "b$", "^$", "", r"a\s*b", "[^a]b", r"\bb", r"\Aa", r"b\z", "(?i)AB",
            "a|^b$", r"^[^b]*$", r"\r",
        ])
    }

    /// The texts of the lines that a line-by-line search finds.
    fn naive(text: &str, pattern: &str, select: Select) -> Vec<String> {
        let pattern = regex::Regex::new(pattern).unwrap();
        let shown = |line: &str| on_screen(line).into_owned();
        let lines = text.split_terminator('\n').map(shown);
        lines.filter(|line| pattern.is_match(line) == (select == Select::Matching)).collect()
    }

    proptest! {
        #[test]
        fn a_search_finds_each_line_that_a_naive_search_finds_once(
            writes in vec(any_write(), 0..40),
            stream in proptest::option::of(prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)]),
            pattern in any_pattern(),
            select in prop_oneof![Just(Select::Matching), Just(Select::Others)],
            context in 0..3_usize,
            max_matches in 1..5_usize,
            max_bytes in 0..60_usize,
        ) {
            let bytes: Vec<(Stream, &[u8])> = writes.iter().map(|(of, text)| (*of, text.as_bytes())).collect();
            let (_writer, reader, _dir) = log(&bytes);
            let wanted = writes.iter().filter(|(of, _)| stream.is_none_or(|stream| stream == *of));
            let text: String = wanted.map(|(_, text)| text.as_str()).collect();
            let expected = naive(&text, pattern, select);
            let pattern = compile(pattern);
            let mut request =
                SearchRequest { stream, select, context: SearchContext::Lines(context), max_matches, max_bytes, ..request(&pattern) };
            let mut matches = Vec::new();
            loop {
                let found = search(&reader, &request).unwrap();
                prop_assert_eq!(found.matches as usize, expected.len() - matches.len());
                let of_page = found.lines.iter().filter(|line| line.is_match);
                matches.extend(of_page.map(|line| String::from_utf8(line.text.clone()).unwrap()));
                prop_assert!(found.lines.windows(2).all(|pair| pair[0].offset < pair[1].offset));
                for line in &found.lines {
                    prop_assert_eq!(line.number, reader.blocking().line_at(line.offset).unwrap());
                }
                let Some(next) = found.next else { break };
                prop_assert!(next > request.from);
                request.from = next;
            }
            prop_assert_eq!(matches, expected);
        }

        #[test]
        fn an_overview_accounts_for_each_match_and_lists_the_first_and_the_last(
            words in vec(prop::sample::select(vec!["a 1", "a 22", "b 3", "c", "d", "e 5f", "no"]), 0..120),
            select in prop_oneof![Just(Select::Matching), Just(Select::Others)],
            max_bytes in 0..200_usize,
        ) {
            let text: String = words.iter().map(|word| format!("{word}\n")).collect();
            let (_writer, reader, _dir) = log(&[(Stream::Stdout, text.as_bytes())]);
            let expected = naive(&text, "[a-e]", select);
            let pattern = compile("[a-e]");
            let found = search(&reader, &SearchRequest { select, max_bytes, ..overview(&pattern) }).unwrap();
            prop_assert_eq!(found.matches as usize, expected.len());
            let shown: Vec<_> = found.lines.iter().chain(&found.last).collect();
            prop_assert!(found.lines.windows(2).all(|pair| pair[0].offset < pair[1].offset));
            for line in &shown {
                prop_assert_eq!(&line.text, words[line.number as usize - 1].as_bytes());
            }
            let text = |line: &FoundLine| String::from_utf8(line.text.clone()).unwrap();
            prop_assert_eq!(shown.first().map(|line| text(line)), expected.first().cloned());
            prop_assert_eq!(shown.last().map(|line| text(line)), expected.last().cloned());
            let listed = found.lines.len() as u64 + shown.iter().map(|line| line.alike).sum::<u64>();
            match found.next {
                None => prop_assert_eq!(listed, found.matches),
                Some(next) => {
                    let rest = SearchRequest { from: next, select, max_bytes: 0, ..request(&pattern) };
                    let rest = search(&reader, &rest).unwrap().matches;
                    prop_assert_eq!(listed + rest, found.matches);
                    prop_assert!(!found.last.is_empty());
                }
            }
        }
    }

    #[test]
    fn numbers_times_and_ids_make_no_difference_and_words_do() {
        let shape = |text: &str| shape_hash(text.as_bytes());
        let first = shape("12:03:01 WARN node-7 took 12ms, id 9f3c11aa");
        assert_eq!(first, shape("09:59:59 WARN node-12 took 9ms, id 07"));
        assert_ne!(first, shape("09:59:59 WARN node-12 lost 9ms, id 07"));
        assert_ne!(shape("-LIMIT = 5"), shape("+LIMIT = 5"));
    }

    #[test]
    fn a_few_alike_are_listed_and_of_many_the_first_and_the_last() {
        let mut alike = AlikeMatches::default();
        for number in 0..12 {
            assert_eq!(alike.add(number, format!("n {number}").as_bytes()), AlikeListing::List);
        }
        assert!(alike.shapes.values().all(|shape| shape.folded == 0));
        assert_eq!(alike.add(12, b"n 12"), AlikeListing::Fold((3..12).collect()));
        assert_eq!(alike.add(13, b"other"), AlikeListing::List);
        assert_eq!(alike.add(14, b"n 14"), AlikeListing::Fold(Vec::new()));
        let folded: Vec<_> = alike.shapes.values().filter(|shape| shape.folded > 0).collect();
        assert_eq!(folded.len(), 1);
        assert_eq!(
            (folded[0].listed.as_slice(), folded[0].folded, folded[0].last),
            (&[0, 1, 2][..], 11, 14)
        );
    }

    #[test]
    fn shapes_and_comparisons_have_a_limit() {
        let mut alike = AlikeMatches::default();
        for number in 0..MAX_COMPARED {
            let letters: String = number.to_string().bytes().map(|b| char::from(b + 49)).collect();
            assert_eq!(alike.add(number, letters.as_bytes()), AlikeListing::List);
        }
        assert_eq!(alike.shapes.len(), MAX_SHAPES);
        assert_eq!(alike.add(1 << 40, b"x"), AlikeListing::Full);
    }
}

//! What matters in an output: the lines that tell of trouble, and how the tools in it ended.
//!
//! ```text
//! log → blocks (whole lines) → candidates (one combined pattern) → lines: error, warning or neither
//!                                                                → formats: how each tool in it ended
//!     → found by offset, counted; line numbers, texts and context are read last, for what is listed
//! ```
//!
//! Lines that no pattern knows cost one pass of a regular expression over the whole block, so that
//! logs of gigabytes stay feasible. All that is kept is bounded, whatever the log is.

mod collector;
mod format_readers;
mod formats;
mod lines;

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use collector::{DecodedBlocks, DigestCollector, FoundSpots, LineSpot, Visibility, lines_from};
use lines::{classify_line, readable};

use crate::Stream;
use crate::reader::BlockingReader;
use crate::views::{Charset, cut_chars};

pub use formats::{ToolCounts, ToolSummary};
pub(crate) use lines::looks_like_error;

/// The most tool_summaries: a tool ends once or twice.
const MOST_ENDINGS: usize = 12;

/// What matters in a log, or in a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    /// Its lines, an unfinished last one included.
    pub lines: u64,
    /// Lines that look like errors.
    pub errors: DigestLines,
    /// Lines that look like warnings and not like errors.
    pub warnings: DigestLines,
    /// The first error and what is around it.
    pub first_error: Option<LineInContext>,
    /// The last error, where it is another one.
    pub last_error: Option<LineInContext>,
    /// How the tools that were recognised ended, in the order of the log.
    pub tool_summaries: Vec<ToolSummaryLine>,
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
pub struct DigestLines {
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
pub struct LineInContext {
    /// Up to two lines before it.
    pub before: Vec<NumberedLine>,
    /// The line itself.
    pub line: NumberedLine,
    /// Up to three lines after it.
    pub after: Vec<NumberedLine>,
}

/// An ending and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSummaryLine {
    /// The number of its line in the log, counted from 1.
    pub line: u64,
    /// What was recognised there.
    pub summary: ToolSummary,
}

/// What to make a digest of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestRequest {
    /// Only this stream, or both.
    pub stream: Option<Stream>,
    /// Where to start.
    pub from: u64,
    /// How far to look.
    pub limits: DigestLimits,
}

/// How far a scan goes: so many bytes from each side in any case, and of what lies between as
/// much as the time allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestLimits {
    /// Bytes from each side.
    pub each_side: u64,
    /// Time for what lies between.
    pub time: Duration,
}

impl DigestLimits {
    /// For what is looked at often, and by the way.
    pub const QUICK: Self = Self { each_side: 4 * 1024 * 1024, time: Duration::from_millis(200) };
}

impl Default for DigestLimits {
    fn default() -> Self {
        Self { each_side: 32 * 1024 * 1024, time: Duration::from_secs(5) }
    }
}

/// What matters from `from` to the log's present end, in bounded memory and time.
pub fn digest(reader: &BlockingReader, request: &DigestRequest) -> io::Result<Digest> {
    let charset = reader.charset()?;
    let end = reader.progress().total_bytes;
    let range = charset.aligned(request.from).min(end)..end;
    let maker = DigestBuilder { reader, stream: request.stream, charset, range: range.clone() };
    Ok(maker.make(range, request.limits)?.0)
}

/// What matters in all of `range`, and the errors in the part of it that is hidden. Only the
/// hidden part can be too large to be looked through.
pub(crate) fn digest_around(
    reader: &BlockingReader,
    range: Range<u64>,
    hidden: Range<u64>,
    limits: DigestLimits,
) -> io::Result<(Digest, DigestLines)> {
    let charset = reader.charset()?;
    DigestBuilder { reader, stream: None, charset, range }.make(hidden, limits)
}

struct DigestBuilder<'a> {
    reader: &'a BlockingReader,
    stream: Option<Stream>,
    charset: Charset,
    range: Range<u64>,
}

impl DigestBuilder<'_> {
    fn make(&self, hidden: Range<u64>, limits: DigestLimits) -> io::Result<(Digest, DigestLines)> {
        let mut scan = DigestCollector::new(self.reader, self.stream, self.charset);
        scan.walk(self.range.start..hidden.start, Visibility::Shown, None)?;
        let is_whole = self.reader.missing_bytes(self.range.clone()) == 0;
        let complete = self.walk_hidden(&mut scan, hidden.clone(), limits)? && is_whole;
        scan.walk(hidden.end..self.range.end, Visibility::Shown, None)?;
        let listing = LineListing {
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
            tool_summaries: self.tool_summaries(&scan)?,
            end: self.range.end,
            scanned_bytes: scan.bytes,
            complete,
        };
        Ok((digest, listing.tally(&scan.hidden)?))
    }

    /// Those of both streams are known without looking.
    fn lines(&self, scan: &DigestCollector<'_>) -> io::Result<u64> {
        if self.stream.is_some() || self.range.is_empty() {
            return Ok(scan.lines());
        }
        let first = self.reader.line_at(self.range.start)?;
        // The last unit: one that is wider than a byte may have a newline for its first.
        let last = self.range.end.saturating_sub(self.charset.unit() as u64);
        Ok(self.reader.line_at(last)? - first + 1)
    }

    fn tool_summaries(&self, scan: &DigestCollector<'_>) -> io::Result<Vec<ToolSummaryLine>> {
        let mut endings = scan.tool_summaries();
        // The last ones tell how it all ended.
        endings.drain(..endings.len().saturating_sub(MOST_ENDINGS));
        let placed = endings.into_iter().map(|ending| {
            Ok(ToolSummaryLine { line: self.reader.line_at(ending.offset)?, summary: ending })
        });
        placed.collect()
    }

    /// Walks over the part that may be large; says whether over all of it.
    fn walk_hidden(
        &self,
        scan: &mut DigestCollector<'_>,
        range: Range<u64>,
        limits: DigestLimits,
    ) -> io::Result<bool> {
        if range.end - range.start <= limits.each_side.saturating_mul(2) {
            return scan.walk(range, Visibility::Hidden, None);
        }
        let (middle, last) = (range.start + limits.each_side, range.end - limits.each_side);
        let (middle, last) = (self.charset.aligned(middle), self.charset.aligned(last));
        scan.walk(range.start..middle, Visibility::Hidden, None)?;
        let deadline = Instant::now().checked_add(limits.time);
        // Without any time not even one block.
        let complete =
            !limits.time.is_zero() && scan.walk(middle..last, Visibility::Hidden, deadline)?;
        scan.walk(last..range.end, Visibility::Hidden, None)?;
        Ok(complete)
    }
}

// The lines that are listed: read again by where they are, and shown with what matters in sight.

/// Lines are cut to so many characters …
const LINE_CHARS: usize = 200;
/// … of which so many stand before what matters, where it is not near the line's beginning.
const CHARS_BEFORE: usize = 50;
const NEAR_BEGINNING: usize = 150;
/// So much of a line is read: a progress bar is longer than it looks.
const LINE_BYTES: u64 = 16 * 1024;
/// So much of it before what matters.
const BYTES_BEFORE: u64 = 4 * 1024;
/// Lines before the first and the last error, and after them.
const BEFORE: usize = 2;
const AFTER: usize = 3;
/// So many lines are listed from each side, and by their numbers alone all that are remembered.
const LISTED_EACH: usize = 5;

/// What lines are read from.
#[derive(Debug)]
struct LineListing<'a> {
    reader: &'a BlockingReader,
    stream: Option<Stream>,
    charset: Charset,
    range: Range<u64>,
}

/// Whether a text begins or ends with its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    Line,
    Inside,
}

/// A line that was read, decoded.
struct ReadLine {
    line: u64,
    bytes: Vec<u8>,
    ends: Edge,
}

impl LineListing<'_> {
    /// All of these counted, some of them listed.
    fn tally(&self, findings: &FoundSpots) -> io::Result<DigestLines> {
        let spots = findings.remembered();
        let number = |spot: &LineSpot| self.reader.line_at(spot.offset);
        let mut listed = Vec::new();
        for (index, spot) in spots.iter().enumerate() {
            if index < LISTED_EACH || index + LISTED_EACH >= spots.len() {
                let NumberedLine { line, text } = self.line_of(*spot)?;
                listed.push(NumberedLine { line, text: text.trim_start().to_owned() });
            }
        }
        let numbers = spots.iter().map(number).collect::<io::Result<_>>()?;
        Ok(DigestLines { count: findings.count(), listed, numbers })
    }

    /// A line and its neighbours.
    fn in_context(&self, spot: LineSpot) -> io::Result<LineInContext> {
        let start = self.charset.aligned(spot.offset.saturating_sub(LINE_BYTES));
        let start = start.max(self.range.start).min(spot.offset);
        let mut before = self.lines_in(start..spot.offset)?;
        // The first may be the rest of a line.
        let skipped =
            before.len().saturating_sub(BEFORE).max(usize::from(start > self.range.start));
        before.drain(..skipped.min(before.len()));
        let mut after = self.lines_in(spot.offset..self.end_of_read(spot.offset))?;
        after.truncate(AFTER + 1);
        after.drain(..after.len().min(1));
        let shown = |lines: Vec<ReadLine>| lines.into_iter().map(ReadLine::shown).collect();
        Ok(LineInContext { before: shown(before), line: self.line_of(spot)?, after: shown(after) })
    }

    /// A line, with what matters in sight.
    fn line_of(&self, spot: LineSpot) -> io::Result<NumberedLine> {
        let near = self.charset.aligned(spot.word.saturating_sub(BYTES_BEFORE));
        let start = near.max(spot.offset);
        let starts = if start == spot.offset { Edge::Line } else { Edge::Inside };
        let line = self.reader.line_at(spot.offset)?;
        let read = self.lines_in(start..self.end_of_read(start))?;
        let text = read.first().map(|read| {
            let told = classify_line(&read.bytes);
            clipped(told.text.trim_end(), told.at, starts, read.ends)
        });
        Ok(NumberedLine { line, text: text.unwrap_or_default() })
    }

    fn end_of_read(&self, start: u64) -> u64 {
        self.range.end.min(start.saturating_add(LINE_BYTES)).max(start)
    }

    /// The lines of a range that is not large.
    fn lines_in(&self, range: Range<u64>) -> io::Result<Vec<ReadLine>> {
        let pieces = self.reader.chunks(self.stream, range.start, range.end);
        let mut blocks = DecodedBlocks::new(pieces, self.charset);
        let Some(block) = blocks.next()? else { return Ok(Vec::new()) };
        let lines = lines_from(block.bytes, 0).map(|line| {
            let is_open = line.end == block.bytes.len() && range.end < self.range.end;
            Ok(ReadLine {
                line: self.reader.line_at(block.offset_of(line.start))?,
                ends: if is_open { Edge::Inside } else { Edge::Line },
                bytes: block.bytes[line].to_vec(),
            })
        });
        lines.collect()
    }
}

impl ReadLine {
    fn shown(self) -> NumberedLine {
        let text = readable(&self.bytes);
        NumberedLine { line: self.line, text: clipped(text.trim_end(), 0, Edge::Line, self.ends) }
    }
}

/// At most [`LINE_CHARS`] characters of a text, what stands at `at` among them, and the number of
/// those that are missing where it is known.
fn clipped(text: &str, at: usize, starts: Edge, ends: Edge) -> String {
    let chars_before = text.get(..at).map_or(0, |before| before.chars().count());
    let skipped = match starts {
        Edge::Line if chars_before <= NEAR_BEGINNING => 0,
        Edge::Line | Edge::Inside => chars_before.saturating_sub(CHARS_BEFORE),
    };
    let start = text.char_indices().nth(skipped).map_or(text.len(), |(start, _)| start);
    let before = match starts {
        Edge::Line if skipped == 0 => String::new(),
        Edge::Line => format!("[+{skipped} chars] …"),
        Edge::Inside => "…".to_owned(),
    };
    let shown = match ends {
        Edge::Line => cut_chars(&text[start..], LINE_CHARS),
        Edge::Inside => text[start..].chars().take(LINE_CHARS).chain(['…']).collect(),
    };
    before + &shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_in_sight_and_what_is_missing_is_counted() {
        let text = format!("{} error: no {}", "é".repeat(1000), "y".repeat(1000));
        let at = text.find("error").unwrap();
        let whole = clipped(&text, at, Edge::Line, Edge::Line);
        let shown = format!("{} error: no {}", "é".repeat(49), "y".repeat(140));
        assert_eq!(whole, format!("[+951 chars] …{shown}… [+860 chars]"));
        assert_eq!(clipped(&text, at, Edge::Inside, Edge::Inside), format!("…{shown}…"));
        assert_eq!(clipped("error: short", 0, Edge::Line, Edge::Line), "error: short");
        assert_eq!(clipped("error: short", 0, Edge::Line, Edge::Inside), "error: short…");
    }
}

#[cfg(test)]
mod digest_tests {
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use crate::digest::{
        Digest, DigestLimits, DigestRequest, ToolSummary, digest, looks_like_error,
    };
    use crate::{LogReader, LogStorage, LogWriter, Stream, open_log};

    const ALL: DigestRequest = DigestRequest {
        stream: None,
        from: 0,
        limits: DigestLimits { each_side: u64::MAX, time: Duration::ZERO },
    };

    /// A log with this content; the directory goes when the test ends.
    fn log(parts: &[(Stream, Vec<u8>)]) -> (LogWriter, LogReader, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 1000, spill_dir: dir.path().to_owned().into() });
        for (stream, bytes) in parts {
            writer.append(*stream, bytes);
        }
        (writer, reader, dir)
    }

    fn digest_of(text: &str, request: &DigestRequest) -> Digest {
        let (_writer, reader, _dir) = log(&[(Stream::Stdout, text.as_bytes().to_vec())]);
        digest(&reader.blocking(), request).unwrap()
    }

    /// The one ending of a text, or none.
    #[track_caller]
    fn ending(text: &str) -> Option<ToolSummary> {
        let mut endings = digest_of(text, &ALL).tool_summaries;
        assert!(endings.len() <= 1, "{endings:?}");
        endings.pop().map(|line| line.summary)
    }

    #[test]
    fn tools_are_known_by_their_last_words() {
        for (text, tool, told) in [
            ("  3 passing (12ms)\n  1 failing\n", "mocha", "3 passing (12ms)"),
            (
                "[INFO] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1\n[INFO] BUILD FAILURE\n",
                "maven",
                "BUILD FAILURE",
            ),
            ("BUILD FAILED in 3s\n", "gradle", "BUILD FAILED in 3s"),
            (
                "FAILED: a.o\ncc a.c\nninja: build stopped: subcommand failed.\n",
                "ninja",
                "FAILED: a.o",
            ),
            (
                "CMake Error at CMakeLists.txt:3 (x):\n",
                "cmake",
                "CMake Error at CMakeLists.txt:3 (x):",
            ),
            (
                "make[2]: *** No rule to make target 'x'.  Stop.\n",
                "make",
                "make[2]: *** No rule to make target 'x'.  Stop.",
            ),
            ("Killed\n", "signal", "Killed"),
            ("Segmentation fault (core dumped)\n", "signal", "Segmentation fault (core dumped)"),
            (
                "kernel: Out of memory: Killed process 12 (x)\n",
                "memory",
                "kernel: Out of memory: Killed process 12 (x)",
            ),
            (
                " ! [rejected]        main -> main (fetch first)\n",
                "git",
                "! [rejected]        main -> main (fetch first)",
            ),
            ("====== no tests ran in 0.01s ======\n", "pytest", "no tests ran in 0.01s"),
            ("2 passed in 0.10s\n", "pytest", "2 passed in 0.10s"),
            ("Ran 2 tests in 0.1s\n\nOK\n", "unittest", "OK"),
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\nodd.Trouble\n",
                "python",
                "odd.Trouble (a.py:1 in <module>)",
            ),
            (
                "     Summary [   0.5s] 4 tests run: 3 passed, 1 failed, 0 skipped\n",
                "cargo test",
                "Summary [   0.5s] 4 tests run: 3 passed, 1 failed, 0 skipped",
            ),
            ("a.ts:2:33 - error TS2322: no\n", "tsc", "a.ts:2:33 - error TS2322: no"),
            (
                "npm ERR! code ENOENT\nnpm ERR! syscall open\nnpm ERR! no package.json\n",
                "npm",
                "ENOENT: no package.json",
            ),
            ("ok  \tapp/ok\t0.002s\n", "go test", "ok   app/ok 0.002s"),
        ] {
            let ending = ending(text).unwrap_or_else(|| panic!("{text:?} is not known"));
            assert_eq!((ending.tool, ending.text.as_str()), (tool, told));
        }
    }

    #[test]
    fn nothing_is_claimed_without_a_signature() {
        for text in [
            "error: something failed\n",
            "Tests: total\nTests  ()\n",
            "OK\nFAILED (really)\n",
            "make: Nothing to be done for 'all'.\n",
            "3 failing\n2 passed the exam in 2020s\n",
            "Killed the messenger\nhe was Killed\n",
            "12:30:01: error: clock stopped\nnote: error: x\n",
            "TypeError: not ours\n    at f (a.js:1:2)\n",
            "com.acme.BrokenException: a log line without frames\n",
            "thread panicked\nadded 3 rows\nFinished `x`\n",
            "BUILD FAILED\nFAILED: one of two\n",
            "Successfully uninstalled\nERROR: of somebody\n",
            "100 bytes copied, they say\ntar is sticky\nfatalism\n",
            "Traceback (most recent call last):\n\nRuntimeError: no frames\n",
        ] {
            assert_eq!(ending(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_skipped_joins_nothing() {
        let filler = "line\n".repeat(100);
        let head = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n";
        let text = format!("{head}{filler}Error: of somebody else\n");
        let each_side = head.len() as u64;
        let limits = DigestLimits { each_side, time: Duration::ZERO };
        let digest = digest_of(&text, &DigestRequest { limits, ..ALL });
        assert_eq!((digest.complete, digest.scanned_bytes), (false, 2 * each_side));
        assert_eq!(digest.tool_summaries, []);
        assert_eq!((digest.errors.count, digest.lines), (2, 103));
    }

    #[test]
    fn lines_of_a_log_of_many_blocks_have_their_numbers() {
        let mut text = "a line that says nothing\n".repeat(30_000);
        text.push_str("error: one\n");
        text.push_str(&"x".repeat(700_000));
        text.push_str(" error: deep inside\nfatal: two\n");
        let digest = digest_of(&text, &ALL);
        let lines: Vec<u64> = digest.errors.listed.iter().map(|error| error.line).collect();
        assert_eq!(lines, [30_001, 30_002, 30_003]);
        assert_eq!(digest.tool_summaries[0].line, 30_003);
        assert_eq!(digest.scanned_bytes, text.len() as u64);
    }

    #[test]
    fn a_traceback_is_one_error_and_its_exception_is_what_is_listed() {
        let frames = "  File \"a.py\", line 1, in f\n    assert check(error)\n";
        let one = format!("Traceback (most recent call last):\n{frames}ValueError: bad\nfine\n");
        let digest = digest_of(&one, &ALL);
        let listed = |digest: &Digest| -> Vec<(u64, String)> {
            digest.errors.listed.iter().map(|error| (error.line, error.text.clone())).collect()
        };
        assert_eq!(
            (digest.errors.count, listed(&digest)),
            (1, vec![(4, "ValueError: bad".into())])
        );
        let odd = digest_of(&one.replace("ValueError", "odd.Trouble"), &ALL);
        assert_eq!((odd.errors.count, odd.errors.numbers.clone()), (1, vec![1]), "{odd:?}");
        let twice = digest_of(&format!("{one}{one}error: other\n"), &ALL);
        assert_eq!((twice.errors.count, twice.errors.numbers.clone()), (3, vec![4, 9, 11]));
    }

    #[test]
    fn an_error_that_was_written_over_is_listed_as_it_was_written() {
        let digest = digest_of("one\nerror: disk exploded\rall good\n", &ALL);
        assert_eq!(digest.errors.count, 1);
        assert_eq!(digest.errors.listed[0].text, "error: disk exploded");
        assert_eq!(digest.first_error.unwrap().line.text, "error: disk exploded");
    }

    #[test]
    fn an_error_deep_in_a_line_is_in_sight() {
        let (head, tail) = ("x".repeat(50_000), "y".repeat(50_000));
        for overlong in [1, 20] {
            let text = format!("a\n{} error: hidden {tail}\nb\n", head.repeat(overlong));
            let digest = digest_of(&text, &ALL);
            let error = &digest.errors.listed[0];
            assert_eq!((digest.errors.count, error.line), (1, 2));
            assert!(error.text.contains("x error: hidden y"), "{}", error.text);
            assert!(!error.text.contains("chars]"), "nobody counted them: {}", error.text);
            assert_eq!(digest.first_error.unwrap().line, *error);
        }
    }

    #[test]
    fn a_log_of_another_character_set_is_looked_through_as_it_is_shown() {
        let text =
            "сборка началась\nerror: сломано\nпредупреждение\nWARNING: осторожно\n".repeat(3);
        let utf16 =
            |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let marked = utf16(&format!("\u{feff}{text}"));
        let big: Vec<u8> =
            format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_be_bytes).collect();
        let legacy = encoding_rs::WINDOWS_1251.encode(&text).0.into_owned();
        for bytes in [marked, big, legacy] {
            let (mut writer, reader, _dir) = log(&[(Stream::Stdout, bytes.clone())]);
            writer.close();
            let digest = digest(&reader.blocking(), &ALL).unwrap();
            assert_eq!((digest.lines, digest.scanned_bytes), (12, bytes.len() as u64));
            assert_eq!((digest.errors.count, digest.warnings.count), (3, 3));
            assert_eq!(digest.errors.numbers, [2, 6, 10]);
            assert_eq!(digest.errors.listed[1].text, "error: сломано");
            let first = digest.first_error.unwrap();
            assert_eq!(first.before[0].text, "сборка началась");
            assert_eq!((first.after[0].line, first.after[0].text.as_str()), (3, "предупреждение"));
        }
    }

    #[test]
    fn an_error_deep_in_a_long_line_of_another_character_set_is_in_sight() {
        let long =
            format!("{} error: глубоко {}\nконец\n", "ж".repeat(150_000), "я".repeat(40_000));
        let bytes: Vec<u8> =
            format!("\u{feff}{long}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        let (_writer, reader, _dir) = log(&[(Stream::Stdout, bytes)]);
        let digest = digest(&reader.blocking(), &ALL).unwrap();
        assert_eq!((digest.errors.count, digest.lines), (1, 2));
        let text = &digest.errors.listed[0].text;
        assert!(text.contains("ж error: глубоко я"), "{text}");
    }

    fn any_part() -> impl Strategy<Value = (Stream, Vec<u8>)> {
        let text = prop_oneof![
            "[a-z ]{0,20}\n".prop_map(String::into_bytes),
            Just(b"error: here\n".to_vec()),
            Just(b"warning: there\r\n".to_vec()),
            Just(b"\x1b[31mfailed\x1b[0m\n".to_vec()),
            Just(b"an err".to_vec()),
            Just(b"or in pieces\n".to_vec()),
            Just(b"10%\r20%\rfatal\n".to_vec()),
            Just(b"10%\rfailed\r100%\n".to_vec()),
            vec(0_u8..0x1b, 0..20),
        ];
        (prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)], text)
    }

    proptest! {
        #[test]
        fn every_error_is_counted_once(parts in vec(any_part(), 0..60)) {
            let (_writer, reader, _dir) = log(&parts);
            for stream in [None, Some(Stream::Stdout), Some(Stream::Stderr)] {
                let bytes: Vec<u8> = parts
                    .iter()
                    .filter(|(of, _)| stream.is_none_or(|stream| stream == *of))
                    .flat_map(|(_, bytes)| bytes.clone())
                    .collect();
                let errors = bytes.split(|byte| *byte == b'\n').filter(|line| looks_like_error(line));
                let digest = digest(&reader.blocking(), &DigestRequest { stream, ..ALL }).unwrap();
                prop_assert_eq!(digest.errors.count, errors.count() as u64);
                prop_assert_eq!(digest.scanned_bytes, bytes.len() as u64);
                let lines = bytes.split_inclusive(|byte| *byte == b'\n').count() as u64;
                prop_assert_eq!(digest.lines, lines);
                prop_assert!(digest.complete && digest.errors.listed.len() <= 10);
            }
        }
    }
}

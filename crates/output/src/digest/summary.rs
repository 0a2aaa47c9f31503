//! The digest of a log: error and warning lines with context, and the results of tools.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::collector::{
    DecodedBlocks, DigestCollector, FoundSpots, LineSpot, Visibility, lines_from,
};
use super::formats::ToolSummary;
use super::lines::{classify_line, readable};

use crate::Stream;
use crate::reader::BlockingReader;
use crate::views::{Charset, cut_chars};

/// The most tool summaries: a tool ends once or twice.
const MAX_TOOL_SUMMARIES: usize = 12;

/// The errors, warnings and tool results of a log, or of a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    /// Lines, an unfinished last one included.
    pub lines: u64,
    /// Lines that look like errors.
    pub errors: DigestLines,
    /// Lines that look like warnings and not like errors.
    pub warnings: DigestLines,
    /// The first error with its neighbours.
    pub first_error: Option<LineInContext>,
    /// The last error with its neighbours, if it is not the first one.
    pub last_error: Option<LineInContext>,
    /// The results of the tools that were recognised, in the order of the log.
    pub tool_summaries: Vec<ToolSummaryLine>,
    /// The end of the scanned range: a digest from here on covers later output.
    pub end: u64,
    /// Bytes that were scanned.
    pub scanned_bytes: u64,
    /// `true` if everything was scanned. If not, the counts cover the scanned bytes: the beginning
    /// and the end.
    pub complete: bool,
}

/// Lines of one severity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DigestLines {
    /// The number of lines in the scanned bytes.
    pub count: u64,
    /// The first five and the last five lines.
    pub listed: Vec<NumberedLine>,
    /// The numbers of the first twenty and the last twenty lines.
    pub numbers: Vec<u64>,
}

/// A line of a log with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedLine {
    /// The number in the log, counted from 1.
    pub line: u64,
    /// The text as a screen shows it, at most 200 characters: of a longer line its beginning, or
    /// the text around the word that makes it an error or warning.
    pub text: String,
}

/// A line and its neighbours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineInContext {
    /// Up to two lines before it.
    pub before: Vec<NumberedLine>,
    /// The line with the error.
    pub line: NumberedLine,
    /// Up to three lines after it.
    pub after: Vec<NumberedLine>,
}

/// A tool result and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSummaryLine {
    /// The number of the line in the log, counted from 1.
    pub line: u64,
    /// The result of the tool.
    pub summary: ToolSummary,
}

/// The range and the limits of a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestRequest {
    /// The only stream to scan; `None` scans both.
    pub stream: Option<Stream>,
    /// The offset at which the scan starts.
    pub from: u64,
    /// The limits of the scan.
    pub limits: DigestLimits,
}

/// The limits of a scan: the given number of bytes from each side in any case, and as much of the
/// middle as time allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestLimits {
    /// Bytes from each side.
    pub each_side: u64,
    /// The time for the middle.
    pub time: Duration,
}

impl DigestLimits {
    /// Limits for a scan that is done often, as a side task.
    pub const QUICK: Self = Self { each_side: 4 * 1024 * 1024, time: Duration::from_millis(200) };
}

impl Default for DigestLimits {
    fn default() -> Self {
        Self { each_side: 32 * 1024 * 1024, time: Duration::from_secs(5) }
    }
}

/// Makes a digest from `from` to the present end of the log, in bounded memory and time.
pub fn digest(reader: &BlockingReader, request: &DigestRequest) -> io::Result<Digest> {
    let charset = reader.charset()?;
    let end = reader.progress().total_bytes;
    let range = charset.aligned(request.from).min(end)..end;
    let builder = DigestBuilder { reader, stream: request.stream, charset, range: range.clone() };
    Ok(builder.build(range, request.limits)?.0)
}

/// Makes a digest of all of `range`, and lists the errors in its hidden part. Only the hidden part
/// can be too large to scan.
pub(crate) fn digest_around(
    reader: &BlockingReader,
    range: Range<u64>,
    hidden: Range<u64>,
    limits: DigestLimits,
) -> io::Result<(Digest, DigestLines)> {
    let charset = reader.charset()?;
    DigestBuilder { reader, stream: None, charset, range }.build(hidden, limits)
}

struct DigestBuilder<'a> {
    reader: &'a BlockingReader,
    stream: Option<Stream>,
    charset: Charset,
    range: Range<u64>,
}

impl DigestBuilder<'_> {
    fn build(&self, hidden: Range<u64>, limits: DigestLimits) -> io::Result<(Digest, DigestLines)> {
        let mut scan = DigestCollector::new(self.reader, self.stream, self.charset);
        scan.scan_range(self.range.start..hidden.start, Visibility::Shown, None)?;
        let is_whole = self.reader.missing_bytes(self.range.clone()) == 0;
        let complete = self.scan_hidden(&mut scan, hidden.clone(), limits)? && is_whole;
        scan.scan_range(hidden.end..self.range.end, Visibility::Shown, None)?;
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
            errors: listing.list_lines(&scan.errors)?,
            warnings: listing.list_lines(&scan.warnings)?,
            first_error: first.map(|spot| listing.read_context(spot)).transpose()?,
            last_error: last.map(|spot| listing.read_context(spot)).transpose()?,
            tool_summaries: self.tool_summaries(&scan)?,
            end: self.range.end,
            scanned_bytes: scan.bytes,
            complete,
        };
        Ok((digest, listing.list_lines(&scan.hidden)?))
    }

    /// The number of lines. For both streams the index knows it.
    fn lines(&self, scan: &DigestCollector<'_>) -> io::Result<u64> {
        if self.stream.is_some() || self.range.is_empty() {
            return Ok(scan.lines());
        }
        let first = self.reader.line_at(self.range.start)?;
        // The last unit: in a wide character set, a single byte of a unit may look like a newline.
        let last = self.range.end.saturating_sub(self.charset.unit() as u64);
        Ok(self.reader.line_at(last)? - first + 1)
    }

    fn tool_summaries(&self, scan: &DigestCollector<'_>) -> io::Result<Vec<ToolSummaryLine>> {
        let mut endings = scan.tool_summaries();
        // The last summaries tell the final results.
        endings.drain(..endings.len().saturating_sub(MAX_TOOL_SUMMARIES));
        let placed = endings.into_iter().map(|ending| {
            Ok(ToolSummaryLine { line: self.reader.line_at(ending.offset)?, summary: ending })
        });
        placed.collect()
    }

    /// Scans the hidden part, which may be large. Returns `true` if all of it was scanned.
    fn scan_hidden(
        &self,
        scan: &mut DigestCollector<'_>,
        range: Range<u64>,
        limits: DigestLimits,
    ) -> io::Result<bool> {
        if range.end - range.start <= limits.each_side.saturating_mul(2) {
            return scan.scan_range(range, Visibility::Hidden, None);
        }
        let middle = range.start + limits.each_side;
        let last = range.end - limits.each_side;
        let middle = self.charset.aligned(middle);
        let last = self.charset.aligned(last);
        scan.scan_range(range.start..middle, Visibility::Hidden, None)?;
        let deadline = Instant::now().checked_add(limits.time);
        // Without any time, not even one block of the middle is scanned.
        let complete = !limits.time.is_zero()
            && scan.scan_range(middle..last, Visibility::Hidden, deadline)?;
        scan.scan_range(last..range.end, Visibility::Hidden, None)?;
        Ok(complete)
    }
}

/// The length of a listed line in characters.
const LINE_CHARS: usize = 200;
/// Characters before the word that matters, if it is not near the beginning of the line.
const CHARS_BEFORE: usize = 50;
const NEAR_BEGINNING: usize = 150;
/// Bytes of a line that are read: a progress bar is longer than it looks.
const LINE_BYTES: u64 = 16 * 1024;
/// The part of these bytes before the word that matters.
const BYTES_BEFORE: u64 = 4 * 1024;
/// Lines before and after the first and the last error.
const BEFORE: usize = 2;
const AFTER: usize = 3;
/// Lines that are listed from each side. Of the others only the numbers are listed.
const LISTED_EACH: usize = 5;

/// Reads the lines to list again, by their positions, and clips them around the word that matters.
#[derive(Debug)]
struct LineListing<'a> {
    reader: &'a BlockingReader,
    stream: Option<Stream>,
    charset: Charset,
    range: Range<u64>,
}

/// The relation of an end of a text to its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    Line,
    Inside,
}

struct ReadLine {
    line: u64,
    bytes: Vec<u8>,
    ends: Edge,
}

impl LineListing<'_> {
    /// Counts the lines and lists some of them.
    fn list_lines(&self, findings: &FoundSpots) -> io::Result<DigestLines> {
        let spots = findings.remembered();
        let number = |spot: &LineSpot| self.reader.line_at(spot.offset);
        let mut listed = Vec::new();
        for (index, spot) in spots.iter().enumerate() {
            if index < LISTED_EACH || index + LISTED_EACH >= spots.len() {
                let NumberedLine { line, text } = self.read_line(*spot)?;
                listed.push(NumberedLine { line, text: text.trim_start().to_owned() });
            }
        }
        let numbers = spots.iter().map(number).collect::<io::Result<_>>()?;
        Ok(DigestLines { count: findings.count(), listed, numbers })
    }

    fn read_context(&self, spot: LineSpot) -> io::Result<LineInContext> {
        let start = self.charset.aligned(spot.offset.saturating_sub(LINE_BYTES));
        let start = start.max(self.range.start).min(spot.offset);
        let mut before = self.lines_in(start..spot.offset)?;
        // The first line may be incomplete.
        let skipped =
            before.len().saturating_sub(BEFORE).max(usize::from(start > self.range.start));
        before.drain(..skipped.min(before.len()));
        let mut after = self.lines_in(spot.offset..self.end_of_read(spot.offset))?;
        after.truncate(AFTER + 1);
        after.drain(..after.len().min(1));
        let shown = |lines: Vec<ReadLine>| lines.into_iter().map(ReadLine::numbered_line).collect();
        Ok(LineInContext {
            before: shown(before),
            line: self.read_line(spot)?,
            after: shown(after),
        })
    }

    /// The line at a spot, clipped around the word that matters.
    fn read_line(&self, spot: LineSpot) -> io::Result<NumberedLine> {
        let near = self.charset.aligned(spot.word.saturating_sub(BYTES_BEFORE));
        let start = near.max(spot.offset);
        let starts = if start == spot.offset { Edge::Line } else { Edge::Inside };
        let line = self.reader.line_at(spot.offset)?;
        let read = self.lines_in(start..self.end_of_read(start))?;
        let text = read.first().map(|read| {
            let told = classify_line(&read.bytes);
            clip_around(told.text.trim_end(), told.at, starts, read.ends)
        });
        Ok(NumberedLine { line, text: text.unwrap_or_default() })
    }

    fn end_of_read(&self, start: u64) -> u64 {
        self.range.end.min(start.saturating_add(LINE_BYTES)).max(start)
    }

    /// The lines of a small range.
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
    fn numbered_line(self) -> NumberedLine {
        let text = readable(&self.bytes);
        NumberedLine {
            line: self.line,
            text: clip_around(text.trim_end(), 0, Edge::Line, self.ends),
        }
    }
}

/// Returns at most [`LINE_CHARS`] characters of a text, including the word at `at`, with the number
/// of missing characters if it is known.
fn clip_around(text: &str, at: usize, starts: Edge, ends: Edge) -> String {
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
    fn a_clipped_line_contains_the_word_and_counts_missing_characters() {
        let text = format!("{} error: no {}", "é".repeat(1000), "y".repeat(1000));
        let at = text.find("error").unwrap();
        let whole = clip_around(&text, at, Edge::Line, Edge::Line);
        let shown = format!("{} error: no {}", "é".repeat(49), "y".repeat(140));
        assert_eq!(whole, format!("[+951 chars] …{shown}… [+860 chars]"));
        assert_eq!(clip_around(&text, at, Edge::Inside, Edge::Inside), format!("…{shown}…"));
        assert_eq!(clip_around("error: short", 0, Edge::Line, Edge::Line), "error: short");
        assert_eq!(clip_around("error: short", 0, Edge::Line, Edge::Inside), "error: short…");
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

    /// A log with this content. The directory is removed when the test ends.
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

    /// The only tool summary of a text, if there is one.
    #[track_caller]
    fn ending(text: &str) -> Option<ToolSummary> {
        let mut endings = digest_of(text, &ALL).tool_summaries;
        assert!(endings.len() <= 1, "{endings:?}");
        endings.pop().map(|line| line.summary)
    }

    #[test]
    fn tools_are_recognised_by_their_last_lines() {
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
    fn no_tool_is_recognised_without_its_signature() {
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
    fn lines_around_skipped_output_are_not_joined() {
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
    fn an_overwritten_error_is_listed_with_its_original_text() {
        let digest = digest_of("one\nerror: disk exploded\rall good\n", &ALL);
        assert_eq!(digest.errors.count, 1);
        assert_eq!(digest.errors.listed[0].text, "error: disk exploded");
        assert_eq!(digest.first_error.unwrap().line.text, "error: disk exploded");
    }

    #[test]
    fn an_error_deep_in_a_line_is_visible() {
        let head = "x".repeat(50_000);
        let tail = "y".repeat(50_000);
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
    fn a_log_in_another_character_set_is_scanned_as_it_is_shown() {
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
    fn an_error_deep_in_a_long_line_of_another_character_set_is_visible() {
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

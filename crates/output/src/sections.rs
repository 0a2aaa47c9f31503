//! Sections of a log: the parts with a head that says what they are about. A commit or a file of a
//! patch, a stack trace, a test, the lines of a list that belong to one file.
//!
//! A search lists the head of the section that a match is in. Nothing is known about a log in
//! advance: a [`SectionFinder`] reads the lines before a match, and a [`SectionTracker`] follows them.
//! At most one section is open. While it is, each line either belongs to it or ends it; a line that
//! belongs to no section may begin one. Most lines of an ordinary log are dismissed by their first
//! byte.

use std::borrow::Cow;
use std::io;

use memchr::memchr;

use crate::Stream;
use crate::chunks::{More, OffsetMap, TextBlock};
use crate::failure_sections::{FailedTest, FailureList, Trace};
use crate::line_scan::{line_around, searchable_text};
use crate::patch_sections::{FileList, Patch};
use crate::reader::BlockingReader;
use crate::views::Charset;

/// The bytes before a line that are read to find its section. A head further up is not found.
const LOOK_BACK_BYTES: u64 = 256 * 1024;
/// The bytes before the newest line that are read again, for those who need the lines above.
const OVERLAP_BYTES: u64 = 4 * 1024;
/// The bytes after a line that are read to find the exception of its traceback.
const LOOK_AHEAD_BYTES: u64 = 16 * 1024;
/// The bytes that are read for one search. Later lines get no head.
const MAX_READ_BYTES: u64 = 16 * 1024 * 1024;

/// Finds the sections of lines with rising offsets.
#[derive(Debug)]
pub(crate) struct SectionFinder<'a> {
    reader: &'a BlockingReader,
    stream: Option<Stream>,
    charset: Charset,
    tracker: SectionTracker,
    /// The offset of the newest line that was added to the tracker.
    newest: Option<u64>,
    read_bytes: u64,
}

impl<'a> SectionFinder<'a> {
    pub(crate) fn new(
        reader: &'a BlockingReader,
        stream: Option<Stream>,
        charset: Charset,
    ) -> Self {
        Self {
            reader,
            stream,
            charset,
            tracker: SectionTracker::default(),
            newest: None,
            read_bytes: 0,
        }
    }

    /// The head of the section that the line at `offset` is in. `None` if the line is in no section
    /// that is known, or is a head itself.
    pub(crate) fn find_head(&mut self, offset: u64) -> io::Result<Option<SectionHead>> {
        if self.read_bytes >= MAX_READ_BYTES {
            return Ok(None);
        }
        self.follow_to(offset)?;
        self.explain_trace(offset)?;
        let Some(head) = self.tracker.head(offset) else { return Ok(None) };
        Ok(Some(SectionHead { number: self.reader.line_at(head.offset)?, text: head.text }))
    }

    /// Adds the lines up to the one at `offset` to the tracker.
    fn follow_to(&mut self, offset: u64) -> io::Result<()> {
        let earliest = offset.saturating_sub(LOOK_BACK_BYTES);
        let newest = self.newest.filter(|newest| *newest >= earliest);
        if newest.is_none() {
            self.tracker = SectionTracker::default();
        }
        let from = newest.map_or(earliest, |newest| newest.saturating_sub(OVERLAP_BYTES));
        let block = self.read(from, offset + OVERLAP_BYTES)?;
        let bytes = block.bytes();
        let line_end = |position: usize| {
            let newline = memchr(b'\n', &bytes[position..]);
            newline.map_or(bytes.len(), |newline| position + newline + 1)
        };
        // The first line is whole at the start of the log alone.
        let start = match newest {
            Some(newest) => line_end(block.position_at(newest)),
            None if from == 0 => 0,
            None => line_end(0),
        };
        let end = line_end(block.position_at(offset));
        self.tracker.add_lines(&bytes[..end], start.min(end), block.offsets());
        self.newest = Some(offset);
        Ok(())
    }

    /// Reads on for the exception of a traceback.
    fn explain_trace(&mut self, offset: u64) -> io::Result<()> {
        if self.tracker.unexplained_trace().is_none() {
            return Ok(());
        }
        let block = self.read(offset, offset + LOOK_AHEAD_BYTES)?;
        let mut lines: Vec<(u64, String)> = Vec::new();
        let mut at = 0;
        for line in block.bytes().split_inclusive(|byte| *byte == b'\n') {
            let is_whole = line.ends_with(b"\n");
            if at > 0 && is_whole {
                let text = String::from_utf8_lossy(&searchable_text(line)).into_owned();
                lines.push((block.offsets().offset_at(at), text));
            }
            at += line.len();
        }
        if let Some(trace) = self.tracker.unexplained_trace() {
            trace.explain(lines.iter().map(|(offset, text)| (*offset, text.as_str())));
        }
        Ok(())
    }

    /// Reads the part of the log from `from` to `to`, as far as it goes.
    fn read(&mut self, from: u64, to: u64) -> io::Result<TextBlock> {
        let total = self.reader.progress().total_bytes;
        let from = self.charset.aligned(from).min(total);
        let to = to.min(total).max(from);
        self.read_bytes += to - from;
        let chunks = self.reader.chunks(self.stream, from, to);
        let mut block = TextBlock::new(chunks, from, self.charset);
        while block.fill(0)? == More::Maybe {}
        Ok(block)
    }
}

/// The head of the section that a line is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionHead {
    /// The number of the line in the log that the section begins with, counted from 1.
    pub number: u64,
    /// The commit and file, the test, the file, or the first line of a trace, in one line.
    pub text: String,
}

/// The section that the last line is in, in bounded memory.
#[derive(Debug, Default)]
struct SectionTracker {
    open: Option<Section>,
    failures: FailureList,
}

#[derive(Debug)]
enum Section {
    Patch(Patch),
    Trace(Trace),
    Test(FailedTest),
    Files(FileList),
}

impl SectionTracker {
    /// Adds the lines of a block from `start` on. The lines before it were added, or are unknown.
    fn add_lines(&mut self, block: &[u8], start: usize, offsets: &OffsetMap) {
        let mut at = start;
        while at < block.len() {
            let end = memchr(b'\n', &block[at..]).map_or(block.len(), |newline| at + newline + 1);
            if self.open.is_some() || may_begin_section(&block[at..end]) {
                self.add_line(&SectionLine::new(block, at, offsets));
            }
            at = end;
        }
    }

    fn add_line(&mut self, line: &SectionLine<'_>) {
        let is_inside = match &mut self.open {
            None => false,
            Some(Section::Patch(patch)) => patch.add_line(line),
            Some(Section::Trace(trace)) => trace.add_line(line),
            Some(Section::Test(test)) => test.add_line(line),
            Some(Section::Files(files)) => files.add_line(line),
        };
        if !is_inside {
            self.failures.add_line(line);
            self.open = self.begin(line);
        }
    }

    fn begin(&self, line: &SectionLine<'_>) -> Option<Section> {
        if line.is_blank() {
            return None;
        }
        Patch::begin(line)
            .map(Section::Patch)
            .or_else(|| FailedTest::begin(line, &self.failures).map(Section::Test))
            .or_else(|| Trace::begin(line).map(Section::Trace))
            .or_else(|| FileList::begin(line).map(Section::Files))
    }

    /// The head of the section that the last line is in, for the last line at `offset`. `None` if
    /// the line is in no section, or is the head itself.
    fn head(&self, offset: u64) -> Option<HeadLine> {
        let head = match self.open.as_ref()? {
            Section::Patch(patch) => patch.head(offset)?,
            Section::Trace(trace) => trace.head(offset),
            Section::Test(test) => test.head(),
            Section::Files(files) => files.head(),
        };
        (head.offset != offset && !head.text.is_empty()).then_some(head)
    }

    /// The open trace, if the line that says what it is about comes after its frames and was not
    /// added yet.
    fn unexplained_trace(&mut self) -> Option<&mut Trace> {
        match &mut self.open {
            Some(Section::Trace(trace)) if trace.is_unexplained() => Some(trace),
            Some(Section::Patch(_) | Section::Trace(_) | Section::Test(_) | Section::Files(_))
            | None => None,
        }
    }
}

/// `true` if a line may begin a section, by its first or last byte.
fn may_begin_section(line: &[u8]) -> bool {
    let Some(first) = line.first() else { return false };
    match first {
        // Indented lines are many in some logs: most are dismissed by their first character.
        b' ' | b'\t' => match line.iter().find(|byte| !matches!(byte, b' ' | b'\t')) {
            Some(first) => matches!(
                first,
                b'a' | b'f' | b'n' | b'-' | b'F' | b'T' | b'|' | b'+' | b'0'..=b'9' | 0x1b | 0xe2
            ),
            None => false,
        },
        b'0'..=b'9' => may_number(line),
        b'c' | b'd' | b'f' | b'g' | b'n' | b'p' | b't' | b'E' | b'F' | b'I' | b'T' | b'_'
        | b'=' | b'-' | b'+' | b'@' | b'[' | b'#' | 0x1b | 0xe2 => true,
        _ => {
            let line = line.trim_ascii_end();
            line.ends_with(b"<<< FAILURE!")
                || line.ends_with(b"<<< ERROR!")
                || line.ends_with(b" FAILED")
        }
    }
}

/// `true` for `1) …`, and for `12:…` unless it is a time.
fn may_number(line: &[u8]) -> bool {
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match line.get(digits) {
        Some(b')') => true,
        Some(b':') => line.get(digits + 1).is_some_and(|next| !next.is_ascii_digit()),
        Some(_) | None => false,
    }
}

/// The bytes of a line that are examined.
const LINE_BYTES: usize = 1024;
/// The length of a head's text, in characters.
const TEXT_CHARS: usize = 160;

/// A line that says what a section is about: its offset in the log, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeadLine {
    pub(crate) offset: u64,
    pub(crate) text: String,
}

impl HeadLine {
    pub(crate) fn new(offset: u64, text: &str) -> Self {
        Self { offset, text: shorten(text) }
    }
}

/// Cuts a text to the length of a head.
pub(crate) fn shorten(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A line of a log, with the lines before it.
#[derive(Debug)]
pub(crate) struct SectionLine<'a> {
    pub(crate) offset: u64,
    /// The line without newline and escape codes, at most its first 1,024 bytes.
    pub(crate) text: Cow<'a, str>,
    /// The lines before it that are still in memory.
    before: &'a [u8],
    offsets: &'a OffsetMap,
}

impl<'a> SectionLine<'a> {
    /// Creates the line that starts at `start` of a block of text.
    fn new(block: &'a [u8], start: usize, offsets: &'a OffsetMap) -> Self {
        let line = &block[line_around(block, start)];
        let text = searchable_text(line);
        let text = match text {
            Cow::Borrowed(text) => String::from_utf8_lossy(&text[..text.len().min(LINE_BYTES)]),
            Cow::Owned(mut text) => {
                text.truncate(LINE_BYTES);
                Cow::Owned(String::from_utf8_lossy(&text).into_owned())
            }
        };
        Self { offset: offsets.offset_at(start), text, before: &block[..start], offsets }
    }

    /// The number of blanks at the beginning.
    pub(crate) fn indent(&self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.text.trim_start().is_empty()
    }

    /// The line before this one.
    pub(crate) fn previous(&self) -> Option<SectionLine<'a>> {
        let last = self.before.len().checked_sub(1)?;
        let start = line_around(self.before, last).start;
        Some(SectionLine::new(self.before, start, self.offsets))
    }

    /// The lines before this one, the nearest first.
    pub(crate) fn lines_before(&self) -> impl Iterator<Item = SectionLine<'a>> {
        std::iter::successors(self.previous(), SectionLine::previous)
    }

    pub(crate) fn to_head(&self) -> HeadLine {
        HeadLine::new(self.offset, &self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogReader, LogStorage, LogWriter, open_log};

    fn log(text: &str) -> (LogWriter, LogReader, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let spill_dir = dir.path().to_owned().into();
        let (mut writer, reader) = open_log(&LogStorage { memory_bytes: 1 << 20, spill_dir });
        writer.append(Stream::Stdout, text.as_bytes());
        (writer, reader, dir)
    }

    /// The offset and the text of each line.
    fn lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
        text.split_inclusive('\n').scan(0, |offset, line| {
            let start = *offset;
            *offset += line.len() as u64;
            Some((start, line.trim_end_matches('\n')))
        })
    }

    /// The head of each line by itself, as `12- text`; empty if it has none.
    fn heads(text: &str) -> Vec<String> {
        let (_writer, reader, _dir) = log(text);
        let reader = reader.blocking();
        let by_itself = |(offset, _)| {
            let mut finder = SectionFinder::new(&reader, None, Charset::Utf8);
            let head = finder.find_head(offset).unwrap();
            head.map_or(String::new(), |head| format!("{}- {}", head.number, head.text))
        };
        lines(text).map(by_itself).collect()
    }

    /// Checks the heads of some lines, by their number.
    #[track_caller]
    fn check(text: &str, expected: &[(usize, &str)]) {
        let heads = heads(text);
        for (number, head) in expected {
            let line = text.lines().nth(number - 1).unwrap();
            assert_eq!(heads[number - 1], *head, "line {number}: {line}");
        }
        // Lines that are asked for one after the other have the same heads.
        let (_writer, reader, _dir) = log(text);
        let reader = reader.blocking();
        let mut finder = SectionFinder::new(&reader, None, Charset::Utf8);
        for ((offset, line), head) in lines(text).zip(&heads) {
            let found = finder.find_head(offset).unwrap();
            let found =
                found.map_or(String::new(), |head| format!("{}- {}", head.number, head.text));
            assert_eq!(found, *head, "{line}");
        }
    }

    /// `git log -p` of git 2.47.
    const GIT_LOG: &str = "\
commit 77954ca81f8ebce701160e365c960a56f02c0d63\n\
Author: Dev <dev@example.com>\n\
Date:   Sun Jan 4 00:00:00 2026 +0000\n\
\n\
\x20   Simplify the query\n\
\n\
diff --git a/q.sql b/q.sql\n\
index b4c032c..82198ea 100644\n\
--- a/q.sql\n\
+++ b/q.sql\n\
@@ -1 +1 @@\n\
--- select MAX_RETRIES\n\
+select 1\n\
\n\
commit 558ed7010ab33f2a85bb2fc9be3e03f95a267814\n\
Author: Dev <dev@example.com>\n\
Date:   Sat Jan 3 00:00:00 2026 +0000\n\
\n\
\x20   Add a query\n\
\n\
diff --git a/q.sql b/q.sql\n\
new file mode 100644\n\
index 0000000..b4c032c\n\
--- /dev/null\n\
+++ b/q.sql\n\
@@ -0,0 +1 @@\n\
+-- select MAX_RETRIES\n\
\n\
commit 7188ae098fd1a6ffdbdabb023fccc96ebfb2c044\n\
Author: Dev <dev@example.com>\n\
Date:   Fri Jan 2 00:00:00 2026 +0000\n\
\n\
\x20   net: tune the client for slow links\n\
\x20  \x20\n\
\x20   MAX_RETRIES was too small for links over a satellite.\n\
\n\
diff --git a/README b/README\n\
index ce01362..a4ea72c 100644\n\
--- a/README\n\
+++ b/README\n\
@@ -1 +1,2 @@\n\
\x20hello\n\
+retries: MAX_RETRIES\n\
diff --git a/src/net.py b/src/net.py\n\
index 256c0cd..157e4c0 100644\n\
--- a/src/net.py\n\
+++ b/src/net.py\n\
@@ -1,4 +1,4 @@\n\
\x20import socket\n\
\x20\n\
-MAX_RETRIES = 5\n\
+MAX_RETRIES = 50\n\
\x20TIMEOUT = 30\n\
\n\
commit a21e060be0faaef6ab2f5acbf691cc4b4335952f\n\
Author: Dev <dev@example.com>\n\
Date:   Thu Jan 1 00:00:00 2026 +0000\n\
\n\
\x20   Add the client\n\
\n\
diff --git a/README b/README\n\
new file mode 100644\n\
index 0000000..ce01362\n\
--- /dev/null\n\
+++ b/README\n\
@@ -0,0 +1 @@\n\
+hello\n\
diff --git a/src/net.py b/src/net.py\n\
new file mode 100644\n\
index 0000000..256c0cd\n\
--- /dev/null\n\
+++ b/src/net.py\n\
@@ -0,0 +1,4 @@\n\
+import socket\n\
+\n\
+MAX_RETRIES = 5\n\
+TIMEOUT = 30\n";

    #[test]
    fn a_line_of_a_patch_is_in_a_commit_and_a_file() {
        let tuned = "29- commit 7188ae0 net: tune the client for slow links";
        check(
            GIT_LOG,
            &[
                (1, ""),
                (2, "1- commit 77954ca"),
                (5, "1- commit 77954ca"),
                (12, "1- commit 77954ca Simplify the query (q.sql)"),
                (27, "15- commit 558ed70 Add a query (q.sql)"),
                (35, tuned),
                (43, &format!("{tuned} (README)")),
                (51, &format!("{tuned} (src/net.py)")),
                (52, &format!("{tuned} (src/net.py)")),
                (76, "55- commit a21e060 Add the client (src/net.py)"),
            ],
        );
    }

    #[test]
    fn a_patch_ends_where_other_output_begins() {
        let log = format!("{GIT_LOG}running 3 tests\nMAX_RETRIES is fine\n");
        check(&log, &[(77, "55- commit a21e060 Add the client (src/net.py)"), (78, ""), (79, "")]);
    }

    #[test]
    fn short_logs_mails_colours_and_plain_diffs_are_patches() {
        check(
            "\u{1b}[33m77954ca\u{1b}[m Simplify the query\n\u{1b}[1mdiff --git a/q.sql b/q.sql\u{1b}[m\n\
         \u{1b}[36m@@ -1 +1 @@\u{1b}[m\n\u{1b}[31m--- select MAX_RETRIES\u{1b}[m\n\
         \u{1b}[32m+\u{1b}[m\u{1b}[32mselect 1\u{1b}[m\n558ed70 Add a query\n\
         diff --git a/q.sql b/q.sql\n@@ -0,0 +1 @@\n+-- select MAX_RETRIES\n",
            &[
                (1, ""),
                (4, "1- commit 77954ca Simplify the query (q.sql)"),
                (6, ""),
                (9, "6- commit 558ed70 Add a query (q.sql)"),
            ],
        );
        check(
            "From 558ed7010ab33f2a85bb2fc9be3e03f95a267814 Mon Sep 17 00:00:00 2001\n\
         From: Dev <dev@example.com>\nSubject: [PATCH 1/2] Add a query\n\nIt is short.\n---\n\
         \x20q.sql | 1 +\n\ndiff --git a/q.sql b/q.sql\n--- /dev/null\n+++ b/q.sql\n\
         @@ -0,0 +1 @@\n+-- select MAX_RETRIES\n-- \n2.47.3\n",
            &[
                (5, "1- commit 558ed70 Add a query"),
                (13, "1- commit 558ed70 Add a query (q.sql)"),
                (15, ""),
            ],
        );
        check(
            "--- old/net.py\t2026-01-01 00:00:00\n+++ new/net.py\t2026-01-02 00:00:00\n@@ -1 +1 @@\n\
         -MAX = 5\n+MAX = 50\n--- old/b.py\n+++ new/b.py\n@@ -1,0 +1 @@\n+MAX\ndone\n",
            &[(5, "1- new/net.py"), (9, "6- new/b.py"), (10, "")],
        );
    }

    #[test]
    fn a_frame_of_a_python_traceback_is_in_its_exception_and_the_exception_in_its_frame() {
        check(
            "starting\nTraceback (most recent call last):\n  File \"/srv/app/app.py\", line 12, in load\n\
         \x20   return read(path)\n           ^^^^^^^^^^\n  File \"/srv/app/app.py\", line 7, in read\n\
         \x20   with open(path) as file:\nFileNotFoundError: [Errno 2] No such file: 's.json'\n\n\
         During handling of the above exception, another exception occurred:\n\n\
         Traceback (most recent call last):\n  File \"/srv/app/app.py\", line 20, in start\n\
         \x20   port = {}[\"port\"]\nKeyError: 'port'\nnext\n",
            &[
                (1, ""),
                (2, ""),
                (4, "2- Traceback: FileNotFoundError: [Errno 2] No such file: 's.json'"),
                (8, "6- File \"/srv/app/app.py\", line 7, in read"),
                (10, ""),
                (14, "12- Traceback: KeyError: 'port'"),
                (16, ""),
            ],
        );
        check(
            "Traceback (most recent call last):\n  File \"a.py\", line 1\n",
            &[(2, "1- Traceback (most recent call last):")],
        );
        check(
            "  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\", line 64\n\
         \x20 | ExceptionGroup: unhandled errors (1 sub-exception)\n  +-+---------------- 1 ----\n\
         \x20   | Traceback (most recent call last):\n    |   File \"a.py\", line 41, in fetch\n\
         \x20   | TimeoutError: no answer\n    +------------------------------------\n",
            &[
                (2, "1- Traceback: ExceptionGroup: unhandled errors (1 sub-exception)"),
                (6, "5- Traceback: TimeoutError: no answer"),
                (8, ""),
            ],
        );
    }

    #[test]
    fn a_frame_below_an_exception_is_in_it() {
        let java = "2- Exception in thread \"main\" java.lang.RuntimeException: start failed";
        check(
            "starting\nException in thread \"main\" java.lang.RuntimeException: start failed\n\
         see the manual\n\tat App.main(App.java:31)\nCaused by: java.lang.Exception: no orders\n\
         \tat App.load(App.java:24)\n\t... 1 more\nnext\n",
            &[(2, ""), (4, java), (5, java), (7, java), (8, "")],
        );
        check(
            "AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:\n\n1 !== 2\n\n\
         \x20   at TestContext.<anonymous> (file:///srv/app/a.test.js:3:10)\n    at start (node:1:2)\n",
            &[(6, "1- AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:")],
        );
        check(
            "app.rb:14:in `start': start failed (RuntimeError)\n\tfrom app.rb:20:in `<main>'\n",
            &[(2, "1- app.rb:14:in `start': start failed (RuntimeError)")],
        );
        check(
            "PHP Fatal error:  Uncaught Exception: no file in a.php:4\nStack trace:\n#0 a.php(8): read()\n\
         #1 {main}\n  thrown in a.php on line 4\nnext\n",
            &[(4, "1- PHP Fatal error:  Uncaught Exception: no file in a.php:4"), (6, "")],
        );
        check("it begins\n   at the end (of the day)\n", &[(2, "1- it begins")]);
        check("\n   at the end (of the day)\n", &[(2, "")]);
    }

    #[test]
    fn a_line_of_a_panic_is_in_it() {
        check(
            "panic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:\n\
         main.pick(...)\n\t/srv/app/main.go:12\nmain.main()\n\t/srv/app/main.go:8 +0x1d\nexit status 2\n",
            &[(5, "1- panic: runtime error: index out of range [5] with length 3"), (8, "")],
        );
        let rust = "1- thread 'main' (26266) panicked at src/main.rs:4:52: the amount is no number";
        check(
            "thread 'main' (26266) panicked at src/main.rs:4:52:\nthe amount is no number\n\
         stack backtrace:\n   0: __rustc::rust_begin_unwind\n             at /rustc/library/panicking.rs:689:5\n\
         note: Some details are omitted\nnext\n",
            &[(1, ""), (5, rust), (6, rust), (7, "")],
        );
        check(
            "==31370==ERROR: AddressSanitizer: heap-buffer-overflow\nREAD of size 4 at 0x60 thread T0\n\
         \x20   #0 0x55 in main /srv/app/a.c:5\n\nSUMMARY: AddressSanitizer: heap-buffer-overflow\nnext\n",
            &[(3, "1- ==31370==ERROR: AddressSanitizer: heap-buffer-overflow"), (6, "")],
        );
    }

    #[test]
    fn a_line_about_a_test_is_in_it_by_its_heading() {
        check(
            "=================================== FAILURES ===================================\n\
         _________________________________ test_misses __________________________________\n\n\
         >   def test_misses(): assert Store().load(\"b\") == 2\n\
         _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _\n\
         E       KeyError: 'b'\ntest_store.py:7: KeyError\n\
         _____________________ ERROR at setup of test_uses_database _____________________\n\
         E       RuntimeError: no database\n\
         =========================== short test summary info ============================\n\
         FAILED test_store.py::test_misses - KeyError: 'b'\n",
            &[
                (4, "2- test_misses"),
                (6, "2- test_misses"),
                (9, "8- test setup of test_uses_database"),
                (11, ""),
            ],
        );
        let rule = "=".repeat(70);
        let line = "-".repeat(70);
        check(
            &format!(
                "{rule}\nFAIL: test_type (tests.test_server.TextTest.test_type)\n{line}\n\
             Traceback (most recent call last):\n  File \"a.py\", line 9, in test_type\n\
             AssertionError: 1 != 2\n\n{line}\nRan 9 tests in 0.01s\n"
            ),
            &[(5, "2- test_type (tests.test_server.TextTest.test_type)"), (9, "")],
        );
        check(
            "failures:\n\n---- money::tests::adds stdout ----\n\nthread 'money::tests::adds' panicked at \
         src/money.rs:9:5:\nassertion failed\n\n\nfailures:\n    money::tests::adds\n",
            &[(6, "3- test money::tests::adds"), (10, "")],
        );
        check(
            "[ RUN      ] Area.Large\nshapes_test.cc:9: Failure\n[  FAILED  ] Area.Large (0 ms)\n",
            &[(2, "1- test Area.Large"), (3, "")],
        );
        check(
            " FAIL  test/cart.test.mjs > cart > adds prices\nAssertionError: expected 500 to be 501\n\
         ⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[1/11]⎯\nend\n",
            &[(2, "1- test/cart.test.mjs > cart > adds prices"), (4, "")],
        );
        check(
            "[ERROR] addsPrices(shop.CartTest)  Time elapsed: 0 s  <<< FAILURE!\n\
         java.lang.AssertionError: expected:<8> but was:<7>\n\tat shop.CartTest.adds(CartTest.java:17)\n\nend\n",
            &[(3, "1- test addsPrices(shop.CartTest)"), (5, "")],
        );
    }

    #[test]
    fn a_line_about_a_test_is_in_it_by_its_indent() {
        check(
            "=== RUN   TestStore\n    store_test.go:9: opened\n--- PASS: TestStore (0.00s)\n\
         --- FAIL: TestCart (0.00s)\n    --- FAIL: TestCart/sum (0.00s)\n        cart_test.go:12: got 7\n\
         FAIL\nexit status 1\n",
            &[(2, "1- TestStore"), (6, "5- TestCart/sum"), (8, "")],
        );
        check(
            "  ● orders › rejects\n\n    ECONNREFUSED 127.0.0.1:5432\n\n      at a (test/orders.test.js:9:5)\n\n\
         Test Suites: 1 failed, 1 total\n",
            &[(3, "1- test orders › rejects"), (5, "1- test orders › rejects"), (7, "")],
        );
        check(
            "✖ has a message (0.916682ms)\n  AssertionError [ERR_ASSERTION]: order 17 is not paid\n\
         ℹ tests 14\n✖ 12 problems (12 errors, 0 warnings)\n  3 errors fixable\n",
            &[(2, "1- test has a message"), (3, ""), (5, "")],
        );
        check(
            "not ok 2 - objects are alike # time=97.141ms\n  ---\n  found: 3\n  ...\n# a remark\nok 3 - later\n",
            &[(3, "1- test objects are alike"), (5, "1- test objects are alike"), (6, "")],
        );
        check(
            "        FAIL [   0.005s] ( 1/12) shop cart::adds\n  stdout ───\n\n    running 1 test\n\
         \x20       PASS [   0.004s] ( 2/12) shop cart::sums\n",
            &[(4, "1- test shop cart::adds"), (5, "")],
        );
        check(
            "shop.CartTest > addsPrices FAILED\n    java.lang.AssertionError at CartTest.java:17\n\nend\n",
            &[(2, "1- test shop.CartTest > addsPrices"), (4, "")],
        );
    }

    #[test]
    fn a_number_begins_a_test_only_in_a_list_of_failures() {
        let rspec = "  1) Cart#add adds prices\n     Failure/Error: expect(cart.total).to eq(8)\n";
        check(rspec, &[(2, "")]);
        check(
            &format!("Failures:\n\n{rspec}\nFinished in 0.1 seconds\n{rspec}"),
            &[(4, "3- test Cart#add adds prices"), (8, "")],
        );
        check(
            "  2 failing\n\n  1) cart\n       totals\n         adds prices:\n\n      AssertionError: 500\n\n\
         500 !== 501\n\n  2) orders\n       rejects:\n     Error: ECONNREFUSED\n",
            &[
                (7, "3- test cart totals adds prices"),
                (9, "3- test cart totals adds prices"),
                (13, "11- test orders rejects"),
            ],
        );
        check(
            "There was 1 failure:\n\n1) MoneyTest::testPrints\nFailed asserting that two strings are equal.\n\
         --- Expected\n+++ Actual\n@@ @@\n-'5'\n+'6'\n\nFAILURES!\nTests: 1\n",
            &[(4, "3- test MoneyTest::testPrints"), (9, "3- test MoneyTest::testPrints"), (12, "")],
        );
        check(
            "  1) Failure:\nCartTest#test_adds [/srv/app/cart_test.rb:16]:\nExpected: 8\n\n1 runs, 1 assertions\n",
            &[(3, "1- test CartTest#test_adds"), (5, "")],
        );
    }

    #[test]
    fn a_place_is_in_the_file_above_it() {
        check(
            "\n/srv/app/cart.js\n   1:10  error    'readFile' is defined but never used  no-unused-vars\n\
         \x20 11:3   error    Unreachable code  no-unreachable\n\n✖ 2 problems\n",
            &[(3, "2- /srv/app/cart.js"), (4, "2- /srv/app/cart.js"), (6, "")],
        );
        check(
            "src/net.rs\n12:fn connect\n--\n40-}\n\nsrc/tls.rs\n7:fn wrap\n",
            &[(2, "1- src/net.rs"), (4, "1- src/net.rs"), (7, "6- src/tls.rs")],
        );
    }

    #[test]
    fn ordinary_output_has_no_sections() {
        for text in [
            "# Title\n\n- an item\n    indented code at the end\n1) first\n   more about it\n",
            "total 12\ndrwxr-xr-x 2 root root 4096 Jan  1 00:00 src\n-rw-r--r-- 1 root root 10 Jan  1 00:00 a\n",
            "12:30:01 started\n12:30:02 at work (a)\nFAIL is a word\ncommit to it\nthread pool ready\n",
            "{\n  \"at\": \"x\",\n  \"from\": 1\n}\n",
        ] {
            assert!(heads(text).iter().all(String::is_empty), "{text}: {:?}", heads(text));
        }
    }

    #[test]
    fn a_head_is_one_short_line_and_found_only_nearby() {
        let subject = "x".repeat(5000);
        let log = format!(
            "commit 77954ca81f8ebce701160e365c960a56f02c0d63\n\n    {subject}\n\ndiff --git a/a b/a\n\
         @@ -0,0 +1,60000 @@\n{}",
            "+a line of a large file\n".repeat(60_000)
        );
        let (_writer, reader, _dir) = self::log(&log);
        let reader = reader.blocking();
        let head = |offset: usize| {
            let mut finder = SectionFinder::new(&reader, None, Charset::Utf8);
            finder.find_head(offset as u64).unwrap().map(|head| head.text)
        };
        let near = log.find("+a line").unwrap();
        let text = head(near).unwrap();
        assert!(text.ends_with("… (a)") && text.chars().count() < 180, "{text}");
        assert_eq!(head(near + 24 * 50_000), None);
    }
}

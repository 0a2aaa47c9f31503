//! Follows the lines of a log, and knows the section that the last line is in.
//!
//! At most one section is open. While it is, each line either belongs to it or ends it; a line that
//! belongs to no section may begin one. Most lines of an ordinary log are dismissed by their first
//! byte.

use memchr::memchr;

use super::file_list::FileList;
use super::patch::Patch;
use super::section_line::{HeadLine, Membership, SectionLine};
use super::test_run::{FailedTest, FailureList};
use super::trace::Trace;
use crate::line_scan::OffsetMap;

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
pub(super) struct SectionTracker {
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
    pub(super) fn add_lines(&mut self, block: &[u8], start: usize, offsets: &OffsetMap) {
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
        let membership = match &mut self.open {
            None => Membership::Over,
            Some(Section::Patch(patch)) => patch.add_line(line),
            Some(Section::Trace(trace)) => trace.add_line(line),
            Some(Section::Test(test)) => test.add_line(line),
            Some(Section::Files(files)) => files.add_line(line),
        };
        if membership == Membership::Over {
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
    pub(super) fn head(&self, offset: u64) -> Option<HeadLine> {
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
    pub(super) fn unexplained_trace(&mut self) -> Option<&mut Trace> {
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

//! A line of a log as the trackers of sections see it.

use std::borrow::Cow;

use crate::line_scan::OffsetMap;
use crate::pattern::{line_around, searchable_text};

/// The bytes of a line that are examined.
const LINE_BYTES: usize = 1024;
/// The length of a head's text, in characters.
const TEXT_CHARS: usize = 160;

/// A line that says what a section is about: its offset in the log, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeadLine {
    pub(super) offset: u64,
    pub(super) text: String,
}

impl HeadLine {
    pub(super) fn new(offset: u64, text: &str) -> Self {
        Self { offset, text: shorten(text) }
    }
}

/// Cuts a text to the length of a head.
pub(super) fn shorten(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A line of a log, with the lines before it.
#[derive(Debug)]
pub(super) struct SectionLine<'a> {
    pub(super) offset: u64,
    /// The line without newline and escape codes, at most its first 1,024 bytes.
    pub(super) text: Cow<'a, str>,
    /// The lines before it that are still in memory.
    before: &'a [u8],
    offsets: &'a OffsetMap,
}

impl<'a> SectionLine<'a> {
    /// Creates the line that starts at `start` of a block of text.
    pub(super) fn new(block: &'a [u8], start: usize, offsets: &'a OffsetMap) -> Self {
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
    pub(super) fn indent(&self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }

    pub(super) fn is_blank(&self) -> bool {
        self.text.trim_start().is_empty()
    }

    /// The line before this one.
    pub(super) fn previous(&self) -> Option<SectionLine<'a>> {
        let last = self.before.len().checked_sub(1)?;
        let start = line_around(self.before, last).start;
        Some(SectionLine::new(self.before, start, self.offsets))
    }

    /// The lines before this one, the nearest first.
    pub(super) fn lines_before(&self) -> impl Iterator<Item = SectionLine<'a>> {
        std::iter::successors(self.previous(), SectionLine::previous)
    }

    pub(super) fn to_head(&self) -> HeadLine {
        HeadLine::new(self.offset, &self.text)
    }
}

/// The relation of a line to the section that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Membership {
    Inside,
    /// The section ended before the line.
    Over,
}

impl Membership {
    pub(super) const fn inside_if(is_inside: bool) -> Self {
        if is_inside { Self::Inside } else { Self::Over }
    }
}

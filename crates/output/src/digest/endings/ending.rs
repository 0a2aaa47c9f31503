//! What a recogniser sees and says.

use std::fmt::Debug;

use crate::view::cut_chars;

/// Texts are cut to so many characters.
const TEXT_CHARS: usize = 200;

/// How a tool ended, in its own words where it has any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ending {
    /// The offset of the line that it was read from.
    pub offset: u64,
    /// The tool's name.
    pub tool: &'static str,
    /// The line that tells most, with what belongs to it; at most 200 characters.
    pub text: String,
    /// What the tool counted, or what was counted in its place.
    pub counts: Counts,
    /// Names of tests that failed, the first ones.
    pub failed: Vec<String>,
}

impl Ending {
    /// An ending that is told by one line.
    pub(super) fn told(tool: &'static str, line: &Kept) -> Self {
        Self { offset: line.offset, tool, text: line.text.clone(), ..Self::default() }
    }

    /// The same with what was counted.
    pub(super) fn with_counts(self, counts: Counts) -> Self {
        Self { counts, ..self }
    }
}

/// What a tool counted; what it does not count is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: Option<u64>,
    /// Tests that failed.
    pub failed: Option<u64>,
    /// Tests that were skipped.
    pub skipped: Option<u64>,
    /// Errors.
    pub errors: Option<u64>,
    /// Warnings.
    pub warnings: Option<u64>,
}

impl Counts {
    pub(super) fn errors(count: u64) -> Self {
        Self { errors: Some(count), ..Self::default() }
    }
}

/// A line that is shown to a recogniser: as a screen shows it, without its newline. An empty one
/// also stands for a gap.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Sight<'a> {
    pub(in super::super) offset: u64,
    pub(in super::super) text: &'a str,
}

impl Sight<'_> {
    /// The line, to be remembered.
    pub(super) fn keep(&self) -> Kept {
        self.keep_as(self.text)
    }

    /// The same with other words.
    pub(super) fn keep_as(&self, text: &str) -> Kept {
        Kept { offset: self.offset, text: cut_chars(text.trim(), TEXT_CHARS) }
    }
}

/// A line that a recogniser remembers.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) offset: u64,
    pub(super) text: String,
}

/// Which line a recogniser has to see next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Wants {
    /// The next one that bears a sign.
    Signs,
    /// The very next one.
    NextLine,
}

/// Knows one family of tools by what they write. What it remembers is bounded.
pub(in super::super) trait Recogniser: Debug {
    /// Looks at the next line.
    fn look_at(&mut self, line: Sight<'_>) -> Wants;

    /// What it has recognised so far.
    fn endings(&self) -> Vec<Ending>;
}

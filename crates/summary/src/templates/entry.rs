//! The lines of one template.

use super::clusters::Pattern;
use super::masking::{BLANK, MaskedLine};
use super::outliers::NumberColumns;
use crate::severity::LineSeverity;
use crate::summary::NumberedLine;

/// The longest text that is kept of a line, in bytes.
const MAX_TEXT_BYTES: usize = 400;

/// The lines of one template.
#[derive(Debug, Default)]
pub struct TemplateEntry {
    pub(super) hash: u64,
    pub(super) count: u64,
    pub(super) first: NumberedLine,
    /// Empty while `count` is 1.
    pub(super) last: NumberedLine,
    /// `None` while `first` and `last` are all lines.
    pub(super) columns: Option<Box<NumberColumns>>,
    /// The pattern of a merged cluster.
    pub(super) pattern: Option<Box<Pattern>>,
    /// Notes of the reader about lines of this template.
    pub(crate) marks: LineMarks,
}

/// Notes about the lines of a template.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LineMarks {
    /// The number of lines that were examined.
    pub(crate) examined: u8,
    /// `true` if a rule applied to one of them.
    pub(crate) is_relevant: bool,
    /// The severity of the last line.
    pub(crate) severity: Option<LineSeverity>,
}

impl TemplateEntry {
    pub(super) fn new(hash: u64, number: u64, text: &str) -> Self {
        let first = NumberedLine { number, text: clip(text).to_owned() };
        Self { hash, count: 1, first, ..Self::default() }
    }

    /// An entry for one line that is counted elsewhere.
    pub(super) fn transient() -> Self {
        Self { count: 1, ..Self::default() }
    }

    /// `true` if a line with these words belongs to the merged cluster.
    pub(super) fn has_pattern_of(&self, words: &[u32]) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.matches(words))
    }

    /// The number of lines so far.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn add(&mut self, number: u64, text: &str, line: &MaskedLine) {
        if self.count == 2 && self.columns.is_none() && !line.numbers().is_empty() {
            let mut columns = NumberColumns::default();
            self.add_numbers_to(&mut columns);
            self.columns = Some(Box::new(columns));
        }
        self.count += 1;
        if let Some(columns) = &mut self.columns {
            columns.add(number, clip(text), line.numbers());
        }
        self.last.number = number;
        self.last.text.clear();
        self.last.text.push_str(clip(text));
    }

    /// Adds the numbers of all lines.
    pub(super) fn add_numbers_to(&self, columns: &mut NumberColumns) {
        if let Some(own) = &self.columns {
            columns.merge(own);
        } else if self.count <= 2 {
            let mut line = MaskedLine::default();
            let samples = if self.count == 1 { 1 } else { 2 };
            for sample in [&self.first, &self.last].into_iter().take(samples) {
                line.read(&sample.text);
                columns.add(sample.number, &sample.text, line.numbers());
            }
        }
    }

    pub(super) const fn last(&self) -> &NumberedLine {
        if self.count == 1 { &self.first } else { &self.last }
    }

    pub(super) fn is_blank(&self) -> bool {
        self.pattern.is_none() && self.hash == BLANK
    }

    /// The words that are compared with those of other templates.
    pub(super) fn words(&self, line: &mut MaskedLine) -> Vec<u32> {
        if let Some(pattern) = &self.pattern {
            return pattern.words.clone();
        }
        line.read(&self.first.text);
        line.words().to_vec()
    }
}

/// Cuts a text that is too long to keep.
fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}

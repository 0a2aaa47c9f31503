//! The last lines of the log: the message of a trace stands above its first frame.

use std::collections::VecDeque;

use crate::severity::LineSeverity;
use crate::source::SourcePrefix;

/// The lines of a source among which the message of a trace is searched.
const HEAD_LINES: usize = 8;
/// The lines that are kept, of all sources.
const RECENT_LINES: usize = 24;
/// The longest text that is kept of a line, in bytes.
const LINE_BYTES: usize = 1200;
/// Words of a message that no level marks as an error.
const ERROR_NAMES: &[&str] = &["Error", "Exception", "Failure", "Throwable", "Rejection"];

/// A line whose severity is not reported yet: a trace may still claim it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecentLine {
    pub(crate) number: u64,
    pub(crate) text: String,
    pub(crate) severity: Option<LineSeverity>,
    pub(crate) is_claimed: bool,
    /// The length of the name of the source, which begins the text.
    source: usize,
    /// The length of the whole prefix: the source and what follows it.
    prefix: usize,
}

impl RecentLine {
    /// `true` if the line has no text.
    pub(crate) fn is_blank(&self) -> bool {
        self.inner().trim().is_empty()
    }

    /// The text without the prefix that names its source.
    pub(crate) fn inner(&self) -> &str {
        self.text.get(self.prefix..).unwrap_or_default()
    }

    /// The text without the time that an image builder puts before it.
    pub(crate) fn told_text(&self) -> &str {
        let is_timed = self.text.starts_with(|char: char| char == '#' || char.is_ascii_digit());
        if is_timed { self.inner() } else { &self.text }
    }

    /// `true` if an image builder tells the line of a step again.
    pub(crate) fn is_repeated(&self) -> bool {
        self.source == 0 && self.prefix > 0
    }

    fn is_from(&self, source: &str) -> bool {
        self.text.get(..self.source) == Some(source)
    }

    fn names_error(&self) -> bool {
        self.severity.is_some() || ERROR_NAMES.iter().any(|name| self.inner().contains(name))
    }
}

/// The last few lines.
#[derive(Debug, Default)]
pub(crate) struct RecentLines {
    lines: VecDeque<RecentLine>,
}

impl RecentLines {
    /// Adds a line. Passes the line that is no longer recent to `settle`.
    pub(crate) fn push(
        &mut self,
        number: u64,
        text: &str,
        prefix: Option<SourcePrefix<'_>>,
        settle: impl FnOnce(&RecentLine),
    ) -> &mut RecentLine {
        let is_full = self.lines.len() >= RECENT_LINES;
        let mut line = if is_full { self.lines.pop_front() } else { None }.unwrap_or_default();
        if is_full {
            settle(&line);
        }
        line.number = number;
        line.text.clear();
        line.text.push_str(&text[..text.floor_char_boundary(LINE_BYTES)]);
        line.source = prefix.map_or(0, |prefix| prefix.source.len());
        line.prefix = prefix.map_or(0, |prefix| prefix.bytes);
        self.lines.push_back_mut(line)
    }

    /// The nearest line of a source that names an error or a warning and that nothing claims.
    pub(crate) fn find_head(&self, source: &str) -> Option<&RecentLine> {
        let lines = self.lines.iter().rev().filter(|line| line.is_from(source));
        lines.take(HEAD_LINES).find(|line| !line.is_claimed && line.names_error())
    }

    /// Claims all lines of a source from a line on.
    pub(crate) fn claim_from(&mut self, number: u64, source: &str) {
        for line in &mut self.lines {
            line.is_claimed |= line.number >= number && line.is_from(source);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RecentLine> {
        self.lines.iter()
    }
}

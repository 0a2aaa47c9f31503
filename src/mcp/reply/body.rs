//! The part of a job's output that one reply shows, and the marks for what is left out.

use std::ops::Range;

use super::format::size;
use super::summary::ShownFacts;
use crate::output::PageEnd;
use crate::output::excerpt::HiddenPart;
use crate::spec::Stream;

/// The part of a job's output that is in one reply, already as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownOutput {
    /// The shown text, including the marks for what is left out.
    pub(crate) text: String,
    /// The facts of the output that is not shown.
    pub(crate) facts: Option<ShownFacts>,
    /// The ranges of lines shown; empty if nothing was cut.
    pub(crate) spans: Vec<LineSpan>,
    /// The cut in the middle, if there is one.
    pub(crate) cut: Option<OutputCut>,
    /// The offset of the first byte shown.
    pub(crate) start: u64,
    /// The offset at which a reader who wants every byte continues: the bytes from `start` to here
    /// are shown without a gap.
    pub(crate) end: u64,
    /// The state of the log at `end`: more output, none yet, or none ever.
    pub(crate) end_kind: PageEnd,
    /// Requested bytes that are no longer kept.
    pub(crate) gap_bytes: u64,
    /// Bytes that were not valid text and were replaced.
    pub(crate) bad_bytes: u64,
    /// The encoding of `text`.
    pub(crate) form: OutputEncoding,
    /// The stream, if the caller asked for only one.
    pub(crate) stream: Option<Stream>,
}

/// Bytes of a job's output that a reader has seen; of one stream alone, if only that was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenRanges {
    pub(crate) stream: Option<Stream>,
    pub(crate) ranges: Vec<Range<u64>>,
}

/// A cut in the middle of the shown output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputCut {
    /// The length of the text before the cut, which stands for the bytes from `start` to `end`.
    pub(crate) head: usize,
    /// The index in the text at which the tail begins.
    pub(crate) tail: usize,
    /// The bytes of the log that the tail stands for.
    pub(crate) tail_bytes: Range<u64>,
    /// The number of the first line that is left out or not shown whole.
    pub(crate) first_hidden: u64,
}

/// A range of lines from `first` to `last`, counted from 1, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineSpan {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Bytes of the first line before the shown ones.
    pub(crate) skipped_bytes: u64,
}

impl LineSpan {
    /// Formats the range: `7`, `7-9`, or `7 without its first 3 KB`.
    fn text(self) -> String {
        let Self { first, last, skipped_bytes } = self;
        let lines = if first == last { first.to_string() } else { format!("{first}-{last}") };
        match (skipped_bytes, first == last) {
            (0, _) => lines,
            (skipped, true) => format!("{lines} without its first {}", size(skipped)),
            (skipped, false) => {
                format!("{lines}, line {first} without its first {}", size(skipped))
            }
        }
    }
}

/// The encoding of shown output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutputEncoding {
    Text,
    /// Text, decoded from a character set other than UTF-8.
    Decoded {
        charset: String,
    },
    /// Base64 of the bytes as they were written.
    Base64,
    /// A hexdump of the bytes as they were written.
    Hexdump,
    /// The rows that a terminal shows.
    Screen,
    /// A description of binary data.
    Binary {
        mime: String,
    },
}

impl ShownOutput {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// `true` if this is the end of the shown text.
    pub(crate) fn ends_with(&self, text: &str) -> bool {
        self.text.trim_end().ends_with(text)
    }

    /// The body of a reply: the facts, then the text.
    pub(crate) fn body(&self) -> String {
        let mut body = self.facts.as_ref().map(ShownFacts::text).unwrap_or_default();
        if !body.is_empty() && !self.text.is_empty() {
            body.push_str("last lines:\n");
        }
        body + &self.text
    }

    /// `true` if the body of the reply is this output and nothing else.
    pub(crate) const fn is_all_output(&self) -> bool {
        self.facts.is_none() && self.cut.is_none()
    }

    /// The name of the field that holds this output in the structured form.
    pub(crate) const fn field(&self) -> &'static str {
        match self.stream {
            None => "output",
            Some(Stream::Stdout) => "stdout",
            Some(Stream::Stderr) => "stderr",
        }
    }

    /// `true` if the text encodes the exact bytes, as base64 or a hexdump.
    pub(crate) const fn is_encoded(&self) -> bool {
        match self.form {
            OutputEncoding::Base64 | OutputEncoding::Hexdump => true,
            OutputEncoding::Text
            | OutputEncoding::Decoded { .. }
            | OutputEncoding::Screen
            | OutputEncoding::Binary { .. } => false,
        }
    }

    /// The bytes that the reader has now seen.
    pub(crate) fn seen_ranges(&self) -> SeenRanges {
        let tail = self.cut.as_ref().map(|cut| cut.tail_bytes.clone());
        let ranges = std::iter::once(self.start..self.end).chain(tail).collect();
        SeenRanges { stream: self.stream, ranges }
    }

    /// `true` if the caller has already seen all the output there is.
    pub(crate) const fn has_nothing_new(&self) -> bool {
        self.start == self.end && self.start > 0 && self.cut.is_none()
    }

    /// `true` if output is left out to keep the reply short.
    pub(crate) const fn is_cut(&self) -> bool {
        !self.spans.is_empty() || self.facts.is_some()
    }

    /// The text that stands for the bytes from `start` to `end`.
    pub(crate) fn head(&self) -> &str {
        self.cut.as_ref().map_or(&self.text, |cut| &self.text[..cut.head])
    }

    /// Like [`ShownOutput::head`], without a copy.
    pub(crate) fn into_head(self) -> String {
        let mut text = self.text;
        text.truncate(self.cut.map_or(usize::MAX, |cut| cut.head));
        text
    }

    /// `true` if the text only describes binary data.
    pub(crate) const fn is_binary(&self) -> bool {
        matches!(self.form, OutputEncoding::Binary { .. })
    }

    /// Formats the shown ranges, as `showing 1-15 and 1033-1138`; `None` if nothing was cut, or if
    /// the reply shows facts instead.
    pub(crate) fn spans_text(&self) -> Option<String> {
        if self.facts.is_some() {
            return None;
        }
        let spans: Vec<String> = self.spans.iter().map(|span| span.text()).collect();
        (!spans.is_empty()).then(|| format!("showing {}", spans.join(" and ")))
    }
}

/// Formats the mark of a hidden part: `[… lines 16-1032 hidden]`.
pub(super) fn mark(hidden: &HiddenPart) -> String {
    format!("[… {}]\n", hidden_range(hidden))
}

/// Formats the hidden range, as `lines 16-1032 hidden (16 in part)`.
fn hidden_range(hidden: &HiddenPart) -> String {
    let HiddenPart { first_line, last_line, .. } = hidden;
    let (what, in_part) = if first_line == last_line {
        (format!("{} of line {first_line}", size(hidden.bytes)), String::new())
    } else {
        (format!("lines {first_line}-{last_line}"), in_part(&hidden.in_part))
    };
    match hidden.missing_bytes {
        0 => format!("{what} hidden{in_part}"),
        missing => format!("{what} hidden{in_part}, {} of it not kept", size(missing)),
    }
}

fn in_part(lines: &[u64]) -> String {
    match lines {
        [] => String::new(),
        [line] => format!(" ({line} in part)"),
        [first, .., last] => format!(" ({first} and {last} in part)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_lines_are_named() {
        let hidden = || HiddenPart {
            first_line: 16,
            last_line: 1032,
            in_part: Vec::new(),
            bytes: 30_000,
            missing_bytes: 0,
        };
        assert_eq!(mark(&hidden()), "[… lines 16-1032 hidden]\n");
        let one_line = HiddenPart { last_line: 16, ..hidden() };
        assert_eq!(mark(&one_line), "[… 30 KB of line 16 hidden]\n");
        let holed = HiddenPart { missing_bytes: 20_000, ..hidden() };
        assert_eq!(mark(&holed), "[… lines 16-1032 hidden, 20 KB of it not kept]\n");
        let begun = HiddenPart { in_part: vec![16, 1032], ..hidden() };
        assert_eq!(mark(&begun), "[… lines 16-1032 hidden (16 and 1032 in part)]\n");
    }
}

//! The part of a job's output that one reply shows, and the marks for what is left out.

use std::ops::Range;

use super::digest::{cut, one_line_digest};
use super::format::size;
use crate::output::PageEnd;
use crate::output::digest::Digest;
use crate::output::excerpt::{ErrorLine, HiddenPart};
use crate::spec::Stream;

/// The part of a job's output that is in one reply, already as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownOutput {
    /// The shown text, including the marks for what is left out.
    pub(crate) text: String,
    /// The output before the shown part, for a running job.
    pub(crate) before: Option<HiddenPart>,
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
    /// The number of hidden lines that look like errors; `errors` lists some of them.
    pub(crate) errors_count: u64,
    pub(crate) errors: Vec<ErrorLine>,
    /// The digest of the hidden lines, if lines are left out.
    pub(crate) digest: Option<Digest>,
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

    /// The body of a reply: the text, preceded by the errors in the output before it.
    pub(crate) fn body(&self) -> String {
        let matters = |hidden: &&HiddenPart| {
            hidden.errors_count > 0 || !hidden.digest.tool_summaries.is_empty()
        };
        let mark = self.before.as_ref().filter(matters).map(mark);
        mark.unwrap_or_default() + &self.text
    }

    /// `true` if the body of the reply is this output and nothing else.
    pub(crate) const fn is_all_output(&self) -> bool {
        self.before.is_none() && self.cut.is_none()
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
        !self.spans.is_empty()
    }

    /// `true` if this is text and the job's output has more of it.
    pub(crate) const fn is_part_of_text(&self) -> bool {
        self.is_cut() && matches!(self.form, OutputEncoding::Text | OutputEncoding::Decoded { .. })
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

    /// Formats the shown ranges, as `showing 1-15 and 1033-1138`; `None` if nothing was cut.
    pub(crate) fn spans_text(&self) -> Option<String> {
        let spans: Vec<String> = self.spans.iter().map(|span| span.text()).collect();
        (!spans.is_empty()).then(|| format!("showing {}", spans.join(" and ")))
    }
}

/// The lengths to which texts of error lines are shortened, step by step, before lines are left
/// out.
const TEXT_BYTES: [usize; 6] = [1000, 400, 200, 120, 80, 60];

/// Shortens the texts of error lines, then removes lines from the middle of the list, until it fits
/// in `room`. At least one line stays, and the count is unchanged.
pub(super) fn fit_error_list(hidden: &mut HiddenPart, room: usize, cost: fn(&str) -> usize) {
    let cost_of = |error: &ErrorLine| cost(&error.text) + "  123456: \n".len();
    for text_bytes in TEXT_BYTES {
        if hidden.errors.iter().map(cost_of).sum::<usize>() <= room {
            return;
        }
        for error in &mut hidden.errors {
            error.text = cut(std::mem::take(&mut error.text), text_bytes);
        }
    }
    while hidden.errors.len() > 1 && hidden.errors.iter().map(cost_of).sum::<usize>() > room {
        // The first half is the larger one, so a first line always stays.
        hidden.errors.remove(hidden.errors.len() / 2);
    }
}

/// Formats a mark: `[… lines 16-1032 hidden; 75 look like errors:`, those lines, the digest in one
/// line, and `]`.
pub(super) fn mark(hidden: &HiddenPart) -> String {
    let what = hidden_range(hidden);
    let digest = one_line_digest(&hidden.digest).map(|digest| format!("  digest: {digest}\n"));
    if hidden.errors_count == 0 {
        return match digest {
            Some(digest) => format!("[… {what}:\n{digest}]\n"),
            None => format!("[… {what}]\n"),
        };
    }
    let many = if hidden.scanned_all { "" } else { "at least " };
    let verb = if hidden.errors_count == 1 { "looks like an error" } else { "look like errors" };
    let title = format!("[… {what}; {many}{} {verb}:\n", hidden.errors_count);
    title + &errors(hidden) + &digest.unwrap_or_default() + "]\n"
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

/// Lists the error lines, with the number of unlisted ones in the middle.
fn errors(hidden: &HiddenPart) -> String {
    let line = |error: &ErrorLine| format!("  {}: {}\n", error.line, error.text);
    let (first, last) = hidden.errors.split_at(hidden.errors.len().div_ceil(2));
    let skipped = hidden.errors_count.saturating_sub(hidden.errors.len() as u64);
    let gap = (skipped > 0).then(|| format!("  … {skipped} more\n"));
    first.iter().map(line).chain(gap).chain(last.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::digest::Digest;

    fn hidden(errors_count: u64, listed: &[u64]) -> HiddenPart {
        let error = |line: &u64| ErrorLine { line: *line, text: "AssertionError: no".to_owned() };
        HiddenPart {
            first_line: 16,
            last_line: 1032,
            in_part: Vec::new(),
            bytes: 30_000,
            missing_bytes: 0,
            errors_count,
            errors: listed.iter().map(error).collect(),
            scanned_all: true,
            digest: Digest::default(),
        }
    }

    #[test]
    fn hidden_lines_are_named_with_the_errors_in_them() {
        assert_eq!(mark(&hidden(0, &[])), "[… lines 16-1032 hidden]\n");
        assert_eq!(
            mark(&hidden(1, &[22])),
            "[… lines 16-1032 hidden; 1 looks like an error:\n  22: AssertionError: no\n]\n"
        );
        let some = mark(&hidden(75, &[22, 900]));
        assert!(
            some.starts_with("[… lines 16-1032 hidden; 75 look like errors:\n  22: "),
            "{some}"
        );
        assert!(some.contains("\n  … 73 more\n  900: "), "{some}");
        let one_line = HiddenPart { last_line: 16, ..hidden(0, &[]) };
        assert_eq!(mark(&one_line), "[… 30 KB of line 16 hidden]\n");
        let holed = HiddenPart { missing_bytes: 20_000, ..hidden(0, &[]) };
        assert_eq!(mark(&holed), "[… lines 16-1032 hidden, 20 KB of it not kept]\n");
        let unsure = HiddenPart { scanned_all: false, ..hidden(2, &[20, 21]) };
        assert!(mark(&unsure).contains("hidden; at least 2 look like errors"));
        let begun = HiddenPart { in_part: vec![16, 1032], ..hidden(0, &[]) };
        assert_eq!(mark(&begun), "[… lines 16-1032 hidden (16 and 1032 in part)]\n");
    }

    #[test]
    fn unlisted_errors_are_counted_where_they_are_missing() {
        let listed: Vec<u64> = (1..=5).chain(796..=800).collect();
        for room in (0..400).rev() {
            let mut some = hidden(800, &listed);
            fit_error_list(&mut some, room, str::len);
            let lines: Vec<u64> = some.errors.iter().map(|error| error.line).collect();
            let is_first = |line: &&u64| **line <= 5;
            let first = lines.iter().filter(is_first).count();
            assert!(first == lines.len().div_ceil(2) && lines.is_sorted(), "{lines:?}");
            let gap = format!("  {}: AssertionError: no\n  … {} more\n", first, 800 - lines.len());
            assert!(mark(&some).contains(&gap), "{}", mark(&some));
        }
    }

    #[test]
    fn long_texts_are_shortened_before_lines_are_left_out() {
        let mut long = hidden(10, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        for error in &mut long.errors {
            error.text = "漢".repeat(200);
        }
        fit_error_list(&mut long, 1000, str::len);
        assert_eq!(long.errors.len(), 10);
        fit_error_list(&mut long, 0, str::len);
        assert_eq!((long.errors.len(), long.errors[0].line), (1, 1));
        assert!(long.errors[0].text.starts_with("漢漢") && long.errors[0].text.len() <= 60);
    }
}

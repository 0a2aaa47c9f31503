//! The part of a job's output that is in one answer.

use std::ops::Range;

use super::hidden::mark;
use super::words::size;
use crate::output::PageEnd;
use crate::output::digest::Digest;
use crate::output::excerpt::{ErrorLine, Hidden};
use crate::spec::Stream;

/// The part of a job's output that is in one answer, already as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// What is shown, marks for what is left out included.
    pub(crate) text: String,
    /// What comes before it and is not shown, of a job that runs.
    pub(crate) before: Option<Hidden>,
    /// The lines that are shown, where not all are; empty when nothing was cut.
    pub(crate) spans: Vec<Span>,
    /// What is left out in the middle, where something is.
    pub(crate) cut: Option<Cut>,
    /// The bytes read without a break, from the first one shown.
    pub(crate) start: u64,
    /// Where a reader who wants every byte goes on.
    pub(crate) end: u64,
    /// What follows there.
    pub(crate) end_kind: PageEnd,
    /// Bytes asked for that are no longer there.
    pub(crate) gap_bytes: u64,
    /// Bytes that were no text and were replaced.
    pub(crate) bad_bytes: u64,
    /// How `text` is to be understood.
    pub(crate) form: Form,
    /// The one stream that was asked for, if only one was.
    pub(crate) stream: Option<Stream>,
}

/// A cut in the middle of what is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    /// How much of the text comes before it and stands for the bytes from `start` to `end`.
    pub(crate) head: usize,
    /// Where in the text the tail begins.
    pub(crate) tail: usize,
    /// The offset of the tail's first byte.
    pub(crate) tail_start: u64,
    /// The first line that is left out, or not shown whole.
    pub(crate) first_hidden: u64,
    /// Lines that are left out and look like errors: how many, and some of them.
    pub(crate) errors_count: u64,
    pub(crate) errors: Vec<ErrorLine>,
    /// What matters in all of it, where lines are left out.
    pub(crate) digest: Option<Digest>,
}

/// Lines from `first` to `last`, counted from 1, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Bytes of the first line that come before the ones shown.
    pub(crate) skipped_bytes: u64,
}

impl Span {
    /// `7`, `7-9`, or `7 without its first 3 KB`.
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

/// How shown text is to be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// As text.
    Text,
    /// As text that was written in another character set than UTF-8.
    Decoded {
        /// Which one.
        charset: String,
    },
    /// As base64 of the bytes as they were written.
    Base64,
    /// As a hexdump of the bytes as they were written.
    Hexdump,
    /// As a description of bytes that are no text.
    Binary {
        /// What they look like.
        mime: String,
    },
}

impl Shown {
    /// What is shown, as text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What an answer has below its verdict: the text, and before it the errors that came before.
    pub(crate) fn body(&self) -> String {
        let matters =
            |hidden: &&Hidden| hidden.errors_count > 0 || !hidden.digest.endings.is_empty();
        let mark = self.before.as_ref().filter(matters).map(mark);
        mark.unwrap_or_default() + &self.text
    }

    /// Whether an answer has the output below its verdict, and nothing else.
    pub(crate) const fn is_all_output(&self) -> bool {
        self.before.is_none() && self.cut.is_none()
    }

    /// The field of the structured form that holds it.
    pub(crate) const fn field(&self) -> &'static str {
        match self.stream {
            None => "output",
            Some(Stream::Stdout) => "stdout",
            Some(Stream::Stderr) => "stderr",
        }
    }

    /// Whether it gives the bytes as they are, in a form that is text.
    pub(crate) const fn is_encoded(&self) -> bool {
        match self.form {
            Form::Base64 | Form::Hexdump => true,
            Form::Text | Form::Decoded { .. } | Form::Binary { .. } => false,
        }
    }

    /// The bytes that are no news any more to whoever was shown this. Of one stream alone, something
    /// between may be missing.
    pub(crate) fn news(&self) -> Option<Range<u64>> {
        self.stream.is_none().then_some(self.start..self.end)
    }

    /// Whether output of the job is left out on purpose, to keep the answer short.
    pub(crate) const fn is_cut(&self) -> bool {
        !self.spans.is_empty()
    }

    /// Whether it is text, and the job's output has more of it.
    pub(crate) const fn is_part_of_text(&self) -> bool {
        self.is_cut() && matches!(self.form, Form::Text | Form::Decoded { .. })
    }

    /// The text that stands for the bytes from `start` to `end`.
    pub(crate) fn head(&self) -> &str {
        self.cut.as_ref().map_or(&self.text, |cut| &self.text[..cut.head])
    }

    /// The same, without a copy.
    pub(crate) fn into_head(self) -> String {
        let mut text = self.text;
        text.truncate(self.cut.map_or(usize::MAX, |cut| cut.head));
        text
    }

    /// Whether the text only describes bytes that are no text.
    pub(crate) const fn is_binary(&self) -> bool {
        matches!(self.form, Form::Binary { .. })
    }

    /// `showing 1-15 and 1033-1138`, where something was cut.
    pub(crate) fn spans_text(&self) -> Option<String> {
        let spans: Vec<String> = self.spans.iter().map(|span| span.text()).collect();
        (!spans.is_empty()).then(|| format!("showing {}", spans.join(" and ")))
    }
}

//! What an excerpt leaves out, and the error lines in it.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use super::digest::looks_like_error;
use super::lines::Lines;
use super::reader::LogReader;
use super::view::{cut_chars, decode, on_screen};

/// So many of the first error lines are listed, and as many of the last.
const LISTED_EACH: usize = 5;
/// Error lines are cut to so many characters.
const ERROR_CHARS: usize = 200;

/// A part of a log that is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// The number of its first line, counted from 1. A section before it may show that line's
    /// beginning, where the line is too long to show.
    pub first_line: u64,
    /// The number of its last line.
    pub last_line: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Its lines that look like errors, all of them that were looked at.
    pub errors_count: u64,
    /// The first five and the last five of them.
    pub errors: Vec<ErrorLine>,
    /// Whether all of it was looked through: 64 MiB at most, half from each side.
    pub scanned_all: bool,
}

/// A line that looks like an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorLine {
    /// Its number in the log, counted from 1.
    pub line: u64,
    /// Its text, at most 200 characters.
    pub text: String,
}

/// Looks through a part that is not empty, in bounded memory; where it is larger than twice
/// `each_side`, only through so much from each of its sides.
pub(super) fn look_through(
    reader: &LogReader,
    range: Range<u64>,
    each_side: u64,
) -> io::Result<Hidden> {
    let bytes = range.end - range.start;
    let scanned_all = bytes <= 2 * each_side;
    let mut errors = Errors::default();
    if scanned_all {
        errors.scan(reader, range.clone())?;
    } else {
        errors.scan(reader, range.start..range.start + each_side)?;
        errors.scan(reader, range.end - each_side..range.end)?;
    }
    Ok(Hidden {
        first_line: reader.line_at(range.start)?,
        last_line: reader.line_at(range.end - 1)?,
        bytes,
        errors_count: errors.count,
        errors: errors.first.into_iter().chain(errors.last).collect(),
        scanned_all,
    })
}

/// Invariant: `last` only fills once `first` is full.
#[derive(Debug, Default)]
struct Errors {
    count: u64,
    first: Vec<ErrorLine>,
    last: VecDeque<ErrorLine>,
    /// The number of the line that was counted last: the parts of a long line count once.
    counted: u64,
}

impl Errors {
    fn scan(&mut self, reader: &LogReader, range: Range<u64>) -> io::Result<()> {
        let mut number = reader.line_at(range.start)?;
        let start = range.start;
        let mut lines = Lines::new(reader.pieces(None, range.start, range.end));
        while let Some(line) = lines.next()? {
            if line.offset > start && !line.continues {
                number += 1;
            }
            if self.counted != number && looks_like_error(line.bytes) {
                self.counted = number;
                self.note(number, line.bytes);
            }
        }
        Ok(())
    }

    fn note(&mut self, line: u64, bytes: &[u8]) {
        self.count += 1;
        let (decoded, _) = decode(bytes);
        let text = cut_chars(on_screen(&decoded).trim(), ERROR_CHARS);
        let error = ErrorLine { line, text };
        if self.first.len() < LISTED_EACH {
            self.first.push(error);
            return;
        }
        if self.last.len() == LISTED_EACH {
            self.last.pop_front();
        }
        self.last.push_back(error);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LogSettings, open};
    use super::*;
    use crate::spec::Stream;

    #[test]
    fn a_huge_part_is_looked_through_from_both_sides() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open(&LogSettings { memory_bytes: 1000, spill_dir: dir.path().to_owned() });
        let middle = "error: in the middle\n".repeat(1000);
        for text in ["one\nerror: early\n", &middle, "error: late\nlast\n"] {
            writer.append(Stream::Stdout, text.as_bytes());
        }
        let total = reader.progress().total_bytes;
        let hidden = look_through(&reader, 0..total, 17).unwrap();
        assert!(!hidden.scanned_all);
        assert_eq!((hidden.first_line, hidden.last_line, hidden.bytes), (1, 1004, total));
        let errors: Vec<_> =
            hidden.errors.iter().map(|error| (error.line, error.text.as_str())).collect();
        assert_eq!(errors, [(2, "error: early"), (1003, "error: late")]);
        assert_eq!(look_through(&reader, 0..total, total).unwrap().errors_count, 1002);
    }

    #[test]
    fn an_error_in_an_endless_line_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open(&LogSettings { memory_bytes: 1000, spill_dir: dir.path().to_owned() });
        writer.append(Stream::Stdout, "error: again ".repeat(20_000).as_bytes());
        let hidden = look_through(&reader, 0..reader.progress().total_bytes, 1 << 20).unwrap();
        assert_eq!((hidden.errors_count, hidden.errors.len()), (1, 1));
        assert!(hidden.errors[0].text.chars().count() < 250);
    }
}

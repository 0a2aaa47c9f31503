//! What an excerpt leaves out, and what matters in it.

use std::io;
use std::ops::Range;

use super::blocking_reader::BlockingReader;
use super::digest::{Digest, NumberedLine, Reach, digest_around};

/// A part of a log that is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// The number of its first line, counted from 1. A section before it may show that line's
    /// beginning, where the line is too long to show.
    pub first_line: u64,
    /// The number of its last line.
    pub last_line: u64,
    /// Which of these two are hidden in part only.
    pub in_part: Vec<u64>,
    /// Its bytes.
    pub bytes: u64,
    /// Those of them that are not there.
    pub missing_bytes: u64,
    /// Its lines that look like errors, all of them that were looked at.
    pub errors_count: u64,
    /// The first five and the last five of them.
    pub errors: Vec<ErrorLine>,
    /// Whether all of it was looked through: where it is large, as much as time allows, its
    /// beginning and its end in any case.
    pub scanned_all: bool,
    /// What matters in the whole excerpt, the parts that are shown included.
    pub digest: Digest,
}

/// A line that looks like an error.
pub type ErrorLine = NumberedLine;

/// Looks through an excerpt, of which a part that is not empty is hidden, in bounded memory and
/// time.
pub(super) fn look_through(
    reader: &BlockingReader,
    excerpt: Range<u64>,
    hidden: Range<u64>,
    reach: Reach,
) -> io::Result<Hidden> {
    let (digest, errors) = digest_around(reader, excerpt, hidden.clone(), reach)?;
    let edges = Edges { reader, part: hidden.clone(), unit: reader.charset()?.unit() as u64 };
    let (first_line, last_line) = edges.lines()?;
    Ok(Hidden {
        first_line,
        last_line,
        in_part: edges.in_part()?,
        bytes: hidden.end - hidden.start,
        missing_bytes: reader.missing(hidden.clone()),
        errors_count: errors.count,
        errors: errors.listed,
        scanned_all: digest.complete,
        digest,
    })
}

/// Where a part of a log begins and ends. Lines are told by units of the character set: one that
/// is wider than a byte may have a newline for its first.
struct Edges<'a> {
    reader: &'a BlockingReader,
    part: Range<u64>,
    unit: u64,
}

impl Edges<'_> {
    /// The first line and the last one.
    fn lines(&self) -> io::Result<(u64, u64)> {
        let last = self.part.end.saturating_sub(self.unit).max(self.part.start);
        Ok((self.reader.line_at(self.part.start)?, self.reader.line_at(last)?))
    }

    /// Which of them go on outside of the part.
    fn in_part(&self) -> io::Result<Vec<u64>> {
        let (first, last) = self.lines()?;
        let line_at = |offset| self.reader.line_at(offset);
        let before = self.part.start.checked_sub(self.unit).map(line_at).transpose()?;
        let is_last = self.part.end >= self.reader.progress().total_bytes;
        let after = (!is_last).then(|| line_at(self.part.end)).transpose()?;
        let mut lines = Vec::from_iter(before.filter(|line| *line == first));
        lines.extend(after.filter(|line| *line == last && !lines.contains(line)));
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{LogSettings, open};
    use super::*;
    use crate::Stream;

    #[test]
    fn a_huge_part_is_looked_through_from_both_sides() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open(&LogSettings { memory_bytes: 1000, spill_dir: dir.path().to_owned().into() });
        let middle = "error: in the middle\n".repeat(1000);
        for text in ["one\nerror: early\n", &middle, "error: late\nlast\n"] {
            writer.append(Stream::Stdout, text.as_bytes());
        }
        let total = reader.progress().total_bytes;
        let look = |each_side, time| {
            look_through(&reader.blocking(), 0..total, 0..total, Reach { each_side, time }).unwrap()
        };
        let hidden = look(17, Duration::ZERO);
        assert!(!hidden.scanned_all);
        assert_eq!((hidden.first_line, hidden.last_line, hidden.bytes), (1, 1004, total));
        let errors: Vec<_> =
            hidden.errors.iter().map(|error| (error.line, error.text.as_str())).collect();
        assert_eq!(errors, [(2, "error: early"), (1003, "error: late")]);
        assert_eq!(hidden.digest.scanned_bytes, 34);
        for (each_side, time) in [(total, Duration::ZERO), (17, Duration::MAX / 4)] {
            let all = look(each_side, time);
            assert_eq!((all.errors_count, all.scanned_all), (1002, true));
        }
    }

    #[test]
    fn an_error_in_an_endless_line_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open(&LogSettings { memory_bytes: 1000, spill_dir: dir.path().to_owned().into() });
        writer.append(Stream::Stdout, "error: again ".repeat(20_000).as_bytes());
        let all = 0..reader.progress().total_bytes;
        let hidden = look_through(&reader.blocking(), all.clone(), all, Reach::default()).unwrap();
        assert_eq!((hidden.errors_count, hidden.errors.len()), (1, 1));
        assert!(hidden.errors[0].text.chars().count() < 250);
    }

    #[test]
    fn errors_in_another_character_set_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open(&LogSettings { memory_bytes: 1 << 20, spill_dir: dir.path().to_owned().into() });
        let text = "\u{feff}one\ntwo\nerror: сломано\nfour\n";
        let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        writer.append(Stream::Stdout, &bytes);
        let all = 0..bytes.len() as u64;
        let start = "\u{feff}one\n".encode_utf16().count() as u64 * 2;
        let hidden =
            look_through(&reader.blocking(), all.clone(), start..all.end, Reach::default())
                .unwrap();
        assert_eq!((hidden.first_line, hidden.last_line), (2, 4));
        assert_eq!(hidden.in_part, Vec::<u64>::new());
        assert_eq!(hidden.errors, [ErrorLine { line: 3, text: "error: сломано".to_owned() }]);
    }

    #[test]
    fn a_line_that_is_cut_in_two_is_listed_by_its_own_words() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, reader) =
            open(&LogSettings { memory_bytes: 1 << 20, spill_dir: dir.path().to_owned().into() });
        let (head, tail) = ("x".repeat(50_000), "y".repeat(50_000));
        writer
            .append(Stream::Stdout, format!("{head} AssertionError: no {tail}\nfine\n").as_bytes());
        let all = 0..reader.progress().total_bytes;
        for start in [0, 49_000, 50_010] {
            let look =
                look_through(&reader.blocking(), all.clone(), start..all.end, Reach::default());
            let hidden = look.unwrap();
            assert_eq!(hidden.in_part, if start == 0 { vec![] } else { vec![1] });
            assert_eq!(hidden.errors_count, 1);
            let text = &hidden.errors[0].text;
            assert!(text.starts_with("…xxx") && text.ends_with("yyy…"), "{text}");
            assert!(text.contains("x AssertionError: no y"), "{text}");
        }
    }
}

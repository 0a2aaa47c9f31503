//! Where the next entry goes on, after whatever happened to the files. Pure.
//!
//! The head is believed: what it says was written was written. A log that is shorter gets no
//! new beginning, so the gap stays visible; a log that is longer is believed as far as it
//! follows from the head.

use std::borrow::Cow;

use super::entry::{Damage, Event, Note};
use super::line::{Link, Read};
use super::log_files::Head;

/// The note that begins every file but the very first.
pub(super) const ROTATED: &str = "log_rotated";

/// What a writer sees before it writes.
#[derive(Debug)]
pub(super) struct Sight {
    /// What the head says, where it can be read.
    pub(super) head: Option<Head>,
    /// How long the log is.
    pub(super) bytes: u64,
    /// How long the youngest rotated file is, where that matters: when the log is empty.
    pub(super) rotated_bytes: Option<u64>,
    /// The end of the log (of the youngest rotated file while the log is empty): what the head
    /// does not know of, or as much as is needed to find the last entry.
    pub(super) tail: Vec<u8>,
}

impl Sight {
    fn line_end(&self) -> LineEnd {
        // While the log is empty, the tail is another file's.
        if self.bytes == 0 { LineEnd::Whole } else { line_end(&self.tail) }
    }
}

/// How to go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resumption {
    /// The entry that the next one follows.
    pub(super) link: Link,
    /// What to write down first, in this order.
    pub(super) remarks: Vec<Remark>,
    /// Whether the log's last line has to be ended.
    pub(super) line_end: LineEnd,
}

/// How the log's last line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnd {
    Whole,
    Missing,
}

/// Something that has to be told in the log itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remark {
    /// A new file begins here; its first line.
    Rotated,
    /// The log was gone or empty, and was not rotated; the first line of the new file.
    LogMissing,
    /// The log is shorter than it was.
    LogCut,
    /// So many entries were written that the head did not know of.
    Unsealed(u64),
    /// The line before was left half written.
    HalfLine(Damage),
    /// There are lines that do not follow from the last entry.
    StrangeLines,
    /// There was no readable head.
    HeadMissing,
}

impl Remark {
    pub(super) fn event(self) -> Event<'static> {
        let (what, detail) = self.words();
        let damage = match self {
            Self::HalfLine(damage) => Some(damage),
            Self::Rotated
            | Self::LogMissing
            | Self::LogCut
            | Self::Unsealed(_)
            | Self::StrangeLines
            | Self::HeadMissing => None,
        };
        Event::Note(Note { what: what.into(), detail, damage })
    }

    fn words(self) -> (&'static str, Cow<'static, str>) {
        match self {
            Self::Rotated => (ROTATED, "the log goes on in this file".into()),
            Self::LogMissing => ("log_missing", "the log was removed or emptied".into()),
            Self::LogCut => ("log_cut", "the log is shorter than the last writer left it".into()),
            Self::Unsealed(entries) => {
                let detail =
                    format!("entries unknown to the head: {entries}; a writer was interrupted");
                ("entries_unsealed", detail.into())
            }
            Self::HalfLine(_) => (
                "half_line",
                "the line before was left half written; a writer was interrupted".into(),
            ),
            Self::StrangeLines => {
                ("strange_lines", "the lines before do not follow from the last entry".into())
            }
            Self::HeadMissing => (
                "head_missing",
                "the head was missing or unreadable; a cut before this cannot be ruled out".into(),
            ),
        }
    }
}

/// Decides how to go on.
pub(super) fn resume(sight: &Sight) -> Resumption {
    let Some(head) = sight.head else { return without_head(sight) };
    if sight.bytes == head.bytes {
        return Resumption { link: head.link, remarks: Vec::new(), line_end: LineEnd::Whole };
    }
    if sight.bytes > head.bytes {
        return beyond(head.link, &sight.tail);
    }
    let remark = match sight.bytes {
        0 if sight.rotated_bytes == Some(head.bytes) => Remark::Rotated,
        0 => Remark::LogMissing,
        1.. => Remark::LogCut,
    };
    Resumption { link: head.link, remarks: vec![remark], line_end: sight.line_end() }
}

/// The log has more than the head knows: entries, half an entry, or anything else.
fn beyond(known: Link, tail: &[u8]) -> Resumption {
    let mut link = known;
    let mut rest = tail;
    while let Some(next) = next_link(link, first_line(rest).0) {
        (link, rest) = (next, first_line(rest).1);
    }
    let mut remarks = Vec::new();
    if rest.contains(&b'\n') {
        remarks.push(Remark::StrangeLines);
    } else if !rest.is_empty() {
        remarks.push(Remark::HalfLine(Damage::of(rest)));
    }
    if link != known {
        remarks.push(Remark::Unsealed(link.seq - known.seq));
    }
    Resumption { link, remarks, line_end: line_end(tail) }
}

/// All that can be believed without a head is the last entry that can be read.
fn without_head(sight: &Sight) -> Resumption {
    let mut link = Link::START;
    let mut half = None;
    for line in sight.tail.split_inclusive(|byte| *byte == b'\n') {
        let (line, _) = first_line(line);
        half = match Read::parse(line) {
            Ok(read) => {
                link = Link::at(read.seq, line);
                None
            }
            Err(_) => Some(Damage::of(line)),
        };
    }
    let mut remarks = Vec::new();
    if sight.bytes == 0 && link != Link::START {
        remarks.push(Remark::Rotated);
    }
    if sight.bytes > 0 && line_end(&sight.tail) == LineEnd::Missing {
        remarks.extend(half.map(Remark::HalfLine));
    }
    if !sight.tail.is_empty() {
        remarks.push(Remark::HeadMissing);
    }
    Resumption { link, remarks, line_end: sight.line_end() }
}

fn line_end(tail: &[u8]) -> LineEnd {
    if tail.is_empty() || tail.ends_with(b"\n") { LineEnd::Whole } else { LineEnd::Missing }
}

/// The first line without its newline, and what comes after that.
fn first_line(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &[]),
    }
}

fn next_link(link: Link, line: &[u8]) -> Option<Link> {
    let read = Read::parse(line).ok().filter(|read| read.follows(link))?;
    Some(Link::at(read.seq, line))
}

#[cfg(test)]
mod tests {
    use super::super::entry::NoteEntry;
    use super::super::line::{Unlinked, compose};
    use super::*;

    const TIME: &str = "2026-01-01T00:00:00.000Z";

    /// A log of so many entries, its lines, and the link at its end.
    fn log(entries: u64) -> (String, Link) {
        let (mut text, mut link) = (String::new(), Link::START);
        for _ in 0..entries {
            let note = NoteEntry { what: "test", detail: "" };
            let entry = Unlinked::new(TIME, &Event::from(&note)).unwrap();
            let (line, next) = compose(link, &entry);
            text.push_str(&line);
            text.push('\n');
            link = next;
        }
        (text, link)
    }

    fn head(entries: u64) -> Head {
        let (text, link) = log(entries);
        Head { link, bytes: text.len() as u64 }
    }

    /// What a writer sees when the head knows `known` entries and the log holds `text`.
    fn sight(known: u64, text: &str) -> Sight {
        let head = head(known);
        let bytes = text.len() as u64;
        let start = if bytes < head.bytes { 0 } else { head.bytes as usize };
        let tail = text.as_bytes()[start..].to_vec();
        Sight { head: Some(head), bytes, rotated_bytes: None, tail }
    }

    #[track_caller]
    fn check(sight: &Sight, entries: u64, remarks: &[Remark], line_end: LineEnd) {
        let expected = Resumption { link: log(entries).1, remarks: remarks.to_vec(), line_end };
        assert_eq!(resume(sight), expected, "{sight:?}");
    }

    #[test]
    fn a_log_as_the_head_left_it_goes_on() {
        check(&sight(3, &log(3).0), 3, &[], LineEnd::Whole);
    }

    #[test]
    fn entries_that_follow_from_the_head_are_believed_and_told() {
        check(&sight(3, &log(5).0), 5, &[Remark::Unsealed(2)], LineEnd::Whole);
        let without_end = log(4).0.trim_end().to_owned();
        check(&sight(3, &without_end), 4, &[Remark::Unsealed(1)], LineEnd::Missing);
    }

    #[test]
    fn half_a_line_is_ended_and_told() {
        let text = format!("{}{{\"seq\":5,", log(4).0);
        let half = Remark::HalfLine(Damage::of(b"{\"seq\":5,"));
        check(&sight(4, &text), 4, &[half], LineEnd::Missing);
        check(&sight(3, &text), 4, &[half, Remark::Unsealed(1)], LineEnd::Missing);
    }

    #[test]
    fn lines_that_do_not_follow_are_not_believed() {
        let text = format!("{}hello\n", log(3).0);
        check(&sight(3, &text), 3, &[Remark::StrangeLines], LineEnd::Whole);
        let again = format!("{}{}", log(3).0, log(1).0);
        check(&sight(3, &again), 3, &[Remark::StrangeLines], LineEnd::Whole);
    }

    #[test]
    fn a_shorter_log_gets_no_new_beginning() {
        check(&sight(3, &log(2).0), 3, &[Remark::LogCut], LineEnd::Whole);
        check(&sight(3, log(2).0.trim_end()), 3, &[Remark::LogCut], LineEnd::Missing);
        check(&sight(3, ""), 3, &[Remark::LogMissing], LineEnd::Whole);
    }

    #[test]
    fn an_empty_log_beside_a_fresh_rotated_one_was_rotated() {
        let rotated_bytes = Some(head(3).bytes);
        let sight = Sight { rotated_bytes, ..sight(3, "") };
        check(&sight, 3, &[Remark::Rotated], LineEnd::Whole);
    }

    #[test]
    fn without_a_head_the_last_entry_counts() {
        let seen = |text: &str| Sight {
            head: None,
            bytes: text.len() as u64,
            rotated_bytes: None,
            tail: text.as_bytes().to_vec(),
        };
        check(&seen(""), 0, &[], LineEnd::Whole);
        check(&seen(&log(3).0), 3, &[Remark::HeadMissing], LineEnd::Whole);
        check(&seen(log(3).0.trim_end()), 3, &[Remark::HeadMissing], LineEnd::Missing);
        let half = Remark::HalfLine(Damage::of(b"{"));
        let text = format!("{}{{", log(3).0);
        check(&seen(&text), 3, &[half, Remark::HeadMissing], LineEnd::Missing);

        let rotated = Sight { bytes: 0, rotated_bytes: Some(1), ..seen(&log(3).0) };
        check(&rotated, 3, &[Remark::Rotated, Remark::HeadMissing], LineEnd::Whole);
    }
}

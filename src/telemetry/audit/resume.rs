//! Decides how a writer continues the chain, whatever has happened to the files. Pure.
//!
//! The writer trusts the head: all entries that it covers were written. If the log is shorter, the
//! chain does not restart, so the gap stays visible. If the log is longer, the writer trusts the
//! lines that follow from the head.

use std::borrow::Cow;

use super::entry::{AuditRecord, ChainLink, Damage, NoteRecord, ParsedLine};
use super::log_files::Head;

/// The note that begins a file after a rotation.
pub(super) const ROTATED: &str = "log_rotated";

/// The state of the files before a write.
#[derive(Debug)]
pub(super) struct ObservedLog {
    /// The head, if it can be read.
    pub(super) head: Option<Head>,
    /// The length of the log.
    pub(super) bytes: u64,
    /// The length of the newest rotated file; read only if the log is empty.
    pub(super) rotated_bytes: Option<u64>,
    /// The end of the log, or of the newest rotated file if the log is empty: the bytes that the head
    /// does not cover, or enough bytes to find the last entry.
    pub(super) tail: Vec<u8>,
}

impl ObservedLog {
    fn line_end(&self) -> LineEnd {
        // If the log is empty, the tail belongs to another file.
        if self.bytes == 0 { LineEnd::Whole } else { line_end(&self.tail) }
    }
}

/// The way to continue the chain.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ResumePlan {
    /// The entry that the next one follows.
    pub(super) link: ChainLink,
    /// The notes to write first, in this order.
    pub(super) notes: Vec<ResumeNote>,
    /// The end of the log's last line, which may be missing.
    pub(super) line_end: LineEnd,
}

/// The end of the log's last line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnd {
    Whole,
    Missing,
}

/// A note about the log itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResumeNote {
    /// The first line of a new file after a rotation.
    Rotated,
    /// The log was missing or empty without a rotation; the first line of the new file.
    LogMissing,
    /// The log is shorter than the head says.
    LogCut,
    /// The number of entries that the head did not cover.
    Unsealed(u64),
    /// The line before was left half written.
    HalfLine(Damage),
    /// The log has lines that do not follow from the last entry.
    UnlinkedLines,
    /// The head was missing or not readable.
    HeadMissing,
}

impl ResumeNote {
    pub(super) fn to_record(self) -> AuditRecord<'static> {
        let (what, detail) = self.name_and_detail();
        let damage = match self {
            Self::HalfLine(damage) => Some(damage),
            Self::Rotated
            | Self::LogMissing
            | Self::LogCut
            | Self::Unsealed(_)
            | Self::UnlinkedLines
            | Self::HeadMissing => None,
        };
        AuditRecord::Note(NoteRecord { what: what.into(), detail, damage })
    }

    fn name_and_detail(self) -> (&'static str, Cow<'static, str>) {
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
            Self::UnlinkedLines => {
                ("strange_lines", "the lines before do not follow from the last entry".into())
            }
            Self::HeadMissing => (
                "head_missing",
                "the head was missing or unreadable; a cut before this cannot be ruled out".into(),
            ),
        }
    }
}

/// Decides how to continue.
pub(super) fn plan_resume(observed: &ObservedLog) -> ResumePlan {
    let Some(head) = observed.head else { return plan_without_head(observed) };
    if observed.bytes == head.bytes {
        return ResumePlan { link: head.link, notes: Vec::new(), line_end: LineEnd::Whole };
    }
    if observed.bytes > head.bytes {
        return plan_beyond_head(head.link, &observed.tail);
    }
    let note = match observed.bytes {
        0 if observed.rotated_bytes == Some(head.bytes) => ResumeNote::Rotated,
        0 => ResumeNote::LogMissing,
        1.. => ResumeNote::LogCut,
    };
    ResumePlan { link: head.link, notes: vec![note], line_end: observed.line_end() }
}

/// The plan for a log that is longer than the head says: the tail has entries, half an entry, or
/// anything else.
fn plan_beyond_head(known: ChainLink, tail: &[u8]) -> ResumePlan {
    let mut link = known;
    let mut rest = tail;
    while let Some(next) = find_next_link(link, split_first_line(rest).0) {
        (link, rest) = (next, split_first_line(rest).1);
    }
    let mut notes = Vec::new();
    if rest.contains(&b'\n') {
        notes.push(ResumeNote::UnlinkedLines);
    } else if !rest.is_empty() {
        notes.push(ResumeNote::HalfLine(Damage::from_line(rest)));
    }
    if link != known {
        notes.push(ResumeNote::Unsealed(link.seq - known.seq));
    }
    ResumePlan { link, notes, line_end: line_end(tail) }
}

/// The plan without a head, which continues from the last entry that can be parsed.
fn plan_without_head(observed: &ObservedLog) -> ResumePlan {
    let mut link = ChainLink::START;
    let mut half = None;
    for line in observed.tail.split_inclusive(|byte| *byte == b'\n') {
        let (line, _) = split_first_line(line);
        half = match ParsedLine::parse(line) {
            Ok(read) => {
                link = ChainLink::at(read.seq, line);
                None
            }
            Err(_) => Some(Damage::from_line(line)),
        };
    }
    let mut notes = Vec::new();
    if observed.bytes == 0 && link != ChainLink::START {
        notes.push(ResumeNote::Rotated);
    }
    if observed.bytes > 0 && line_end(&observed.tail) == LineEnd::Missing {
        notes.extend(half.map(ResumeNote::HalfLine));
    }
    if !observed.tail.is_empty() {
        notes.push(ResumeNote::HeadMissing);
    }
    ResumePlan { link, notes, line_end: observed.line_end() }
}

fn line_end(tail: &[u8]) -> LineEnd {
    if tail.is_empty() || tail.ends_with(b"\n") { LineEnd::Whole } else { LineEnd::Missing }
}

/// Returns the first line without its newline, and the rest.
fn split_first_line(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &[]),
    }
}

fn find_next_link(link: ChainLink, line: &[u8]) -> Option<ChainLink> {
    let read = ParsedLine::parse(line).ok().filter(|read| read.follows(link))?;
    Some(ChainLink::at(read.seq, line))
}

#[cfg(test)]
mod tests {
    use super::super::entry::NoteEntry;
    use super::super::entry::{UnlinkedEntry, compose_line};
    use super::*;

    const TIME: &str = "2026-01-01T00:00:00.000Z";

    /// Returns the text of a log with so many entries, and its last link.
    fn log(entries: u64) -> (String, ChainLink) {
        let mut text = String::new();
        let mut link = ChainLink::START;
        for _ in 0..entries {
            let note = NoteEntry { what: "test", detail: "" };
            let entry = UnlinkedEntry::new(TIME, &AuditRecord::from(&note)).unwrap();
            let (line, next) = compose_line(link, &entry);
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

    /// The state of a log with `text` whose head covers `known` entries.
    fn observed(known: u64, text: &str) -> ObservedLog {
        let head = head(known);
        let bytes = text.len() as u64;
        let start = if bytes < head.bytes { 0 } else { head.bytes as usize };
        let tail = text.as_bytes()[start..].to_vec();
        ObservedLog { head: Some(head), bytes, rotated_bytes: None, tail }
    }

    #[track_caller]
    fn check(observed: &ObservedLog, entries: u64, notes: &[ResumeNote], line_end: LineEnd) {
        let expected = ResumePlan { link: log(entries).1, notes: notes.to_vec(), line_end };
        assert_eq!(plan_resume(observed), expected, "{observed:?}");
    }

    #[test]
    fn a_log_that_matches_its_head_continues() {
        check(&observed(3, &log(3).0), 3, &[], LineEnd::Whole);
    }

    #[test]
    fn entries_that_follow_from_the_head_are_trusted_and_noted() {
        check(&observed(3, &log(5).0), 5, &[ResumeNote::Unsealed(2)], LineEnd::Whole);
        let without_end = log(4).0.trim_end().to_owned();
        check(&observed(3, &without_end), 4, &[ResumeNote::Unsealed(1)], LineEnd::Missing);
    }

    #[test]
    fn half_a_line_is_ended_and_noted() {
        let text = format!("{}{{\"seq\":5,", log(4).0);
        let half = ResumeNote::HalfLine(Damage::from_line(b"{\"seq\":5,"));
        check(&observed(4, &text), 4, &[half], LineEnd::Missing);
        check(&observed(3, &text), 4, &[half, ResumeNote::Unsealed(1)], LineEnd::Missing);
    }

    #[test]
    fn lines_that_do_not_follow_are_not_trusted() {
        let text = format!("{}hello\n", log(3).0);
        check(&observed(3, &text), 3, &[ResumeNote::UnlinkedLines], LineEnd::Whole);
        let again = format!("{}{}", log(3).0, log(1).0);
        check(&observed(3, &again), 3, &[ResumeNote::UnlinkedLines], LineEnd::Whole);
    }

    #[test]
    fn a_shorter_log_does_not_restart_the_chain() {
        check(&observed(3, &log(2).0), 3, &[ResumeNote::LogCut], LineEnd::Whole);
        check(&observed(3, log(2).0.trim_end()), 3, &[ResumeNote::LogCut], LineEnd::Missing);
        check(&observed(3, ""), 3, &[ResumeNote::LogMissing], LineEnd::Whole);
    }

    #[test]
    fn an_empty_log_beside_a_matching_rotated_file_was_rotated() {
        let rotated_bytes = Some(head(3).bytes);
        let observed = ObservedLog { rotated_bytes, ..observed(3, "") };
        check(&observed, 3, &[ResumeNote::Rotated], LineEnd::Whole);
    }

    #[test]
    fn without_a_head_the_chain_continues_from_the_last_entry() {
        let seen = |text: &str| ObservedLog {
            head: None,
            bytes: text.len() as u64,
            rotated_bytes: None,
            tail: text.as_bytes().to_vec(),
        };
        check(&seen(""), 0, &[], LineEnd::Whole);
        check(&seen(&log(3).0), 3, &[ResumeNote::HeadMissing], LineEnd::Whole);
        check(&seen(log(3).0.trim_end()), 3, &[ResumeNote::HeadMissing], LineEnd::Missing);
        let half = ResumeNote::HalfLine(Damage::from_line(b"{"));
        let text = format!("{}{{", log(3).0);
        check(&seen(&text), 3, &[half, ResumeNote::HeadMissing], LineEnd::Missing);

        let rotated = ObservedLog { bytes: 0, rotated_bytes: Some(1), ..seen(&log(3).0) };
        check(&rotated, 3, &[ResumeNote::Rotated, ResumeNote::HeadMissing], LineEnd::Whole);
    }
}

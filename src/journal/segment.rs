//! The lines of a segment, which is one file of the journal. Pure.
//!
//! A line is the CRC-32 of its JSON as 8 hexadecimal digits, a space, the JSON, and a line feed. JSON text has
//! no line feed of its own, so a reader finds the next line after a damaged one.
//!
//! The first line is the header. The checkpoint follows: the records of everything that was live when the
//! segment was begun, and a line that says that it is complete. So the segments before it are not needed.

use std::io::Write as _;

use flate2::Crc;
use memchr::memchr;
use serde::{Deserialize, Serialize};

use super::error::JournalError;

/// The format that this version writes. A version that changes the meaning of what is written has a higher one.
pub(super) const FORMAT: u32 = 1;

/// The place of the CRC and the space after it.
const NO_CRC: &[u8] = b"00000000 ";
const PREFIX: usize = NO_CRC.len();

/// The start of the first line's JSON.
const HEADER_START: &str = r#"{"header":"#;
/// The start of the JSON at the end of a checkpoint.
const CHECKPOINT_START: &str = r#"{"checkpoint":"#;

/// A line of a segment that is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Marker {
    /// The first line.
    Header { format: u32 },
    /// The end of the checkpoint.
    Checkpoint { records: u64 },
}

impl Marker {
    /// Reads a marker; `None` if the JSON is a record.
    pub(super) fn parse(json: &str) -> Option<Self> {
        let is_marker = json.starts_with(HEADER_START) || json.starts_with(CHECKPOINT_START);
        is_marker.then(|| serde_json::from_str(json).ok()).flatten()
    }
}

/// Appends a line with the JSON of a value.
pub(super) fn encode_line(value: &impl Serialize, lines: &mut Vec<u8>) -> Result<(), JournalError> {
    let start = lines.len();
    lines.extend_from_slice(NO_CRC);
    if let Err(error) = serde_json::to_writer(&mut *lines, value) {
        lines.truncate(start);
        return Err(JournalError::encode(error));
    }
    let crc = compute_crc(&lines[start + PREFIX..]);
    // Writing to a slice of exactly this length cannot fail.
    write!(&mut lines[start..start + PREFIX - 1], "{crc:08x}").ok();
    lines.push(b'\n');
    Ok(())
}

fn compute_crc(json: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(json);
    crc.sum()
}

/// Returns the JSON of a line without its line feed; `None` if the line is damaged.
pub(super) fn check_line(line: &[u8]) -> Option<&str> {
    let (prefix, json) = line.split_at_checked(PREFIX)?;
    let expected = parse_crc(prefix)?;
    let json = (compute_crc(json) == expected).then_some(json)?;
    str::from_utf8(json).ok()
}

/// Returns the JSON of a line with its line feed that was checked before.
pub(super) fn trim_line(line: &[u8]) -> Option<&str> {
    str::from_utf8(line.strip_suffix(b"\n")?.get(PREFIX..)?).ok()
}

fn parse_crc(prefix: &[u8]) -> Option<u32> {
    let (digits, space) = prefix.split_at_checked(PREFIX - 1)?;
    let is_written_by_us = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if space != b" " || !digits.iter().all(is_written_by_us) {
        return None;
    }
    u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// A line of a segment, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentLine<'a> {
    pub(super) offset: usize,
    /// The length with the line feed.
    pub(super) len: usize,
    /// The JSON; `None` if the line is damaged, or is the last one and has no line feed.
    pub(super) json: Option<&'a str>,
}

/// Returns the lines of a segment.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = SegmentLine<'_>> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(offset..).filter(|rest| !rest.is_empty())?;
        let end = memchr(b'\n', rest);
        let len = end.map_or(rest.len(), |end| end + 1);
        let json = end.and_then(|end| check_line(&rest[..end]));
        let line = SegmentLine { offset, len, json };
        offset += len;
        Some(line)
    })
}

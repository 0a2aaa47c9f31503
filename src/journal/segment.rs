//! A segment, which is one file of the journal, and its lines.
//!
//! A line is the CRC-32 of its JSON as 8 hexadecimal digits, a space, the JSON, and a line feed. JSON text has
//! no line feed of its own, so a reader finds the next line after a damaged one.
//!
//! The first line is the header. The checkpoint follows: the records of everything that was live when the
//! segment was begun, and a line that says that it is complete. So the segments before it are not needed.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use flate2::Crc;
use memchr::memchr;
use serde::{Deserialize, Serialize};

use super::record::{JournalError, NextNumber, Record};
use super::state::LiveRecords;
use crate::private_files::Symlinks;

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
fn check_line(line: &[u8]) -> Option<&str> {
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

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
const EXTENSION: &str = ".jsonl";
/// The end of the name of a segment that is not complete.
const UNFINISHED: &str = ".tmp";
/// A checkpoint is written in pieces of this size.
const PIECE_BYTES: usize = 256 * 1024;

/// The place of a record's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineSpan {
    pub(super) offset: u64,
    /// The length with the line feed; 0 if the line could not be read when it was last needed.
    pub(super) len: u32,
    /// The index of the segment among those of a replay. The writer has only one.
    pub(super) segment: u32,
}

/// An open segment.
#[derive(Debug)]
pub(super) struct SegmentFile {
    pub(super) file: File,
    path: PathBuf,
    number: u64,
    /// The length of all complete lines. Bytes after it are not valid.
    len: u64,
}

impl SegmentFile {
    /// Opens a segment, of which `len` bytes are valid.
    pub(super) fn open(dir: &Path, number: u64, len: u64) -> io::Result<Self> {
        let path = segment_path(dir, number);
        let file = Symlinks::Refuse.options().read(true).write(true).open(&path)?;
        let segment = Self { file, path, number, len };
        segment.cut_back();
        Ok(segment)
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Appends complete lines. After an error none of them is in the file.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all_at(lines, self.len) {
            self.cut_back();
            return Err(error);
        }
        self.len += lines.len() as u64;
        Ok(())
    }

    /// Removes the part of the file that is not valid. If that fails, the next write replaces it, and what is
    /// left of it is no valid line.
    fn cut_back(&self) {
        self.file.set_len(self.len).ok();
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// `true` if the path still names this file. Otherwise somebody has removed or replaced it, and nobody will
    /// read what is written to it.
    pub(super) fn is_in_place(&self) -> bool {
        let is_same = |one: &fs::Metadata, other: &fs::Metadata| {
            (one.dev(), one.ino()) == (other.dev(), other.ino())
        };
        match (self.file.metadata(), fs::symlink_metadata(&self.path)) {
            (Ok(own), Ok(named)) => is_same(&own, &named),
            (Err(_), _) | (_, Err(_)) => false,
        }
    }

    /// Reads a line into `line`; `false` if it is damaged.
    pub(super) fn read_line(&self, span: LineSpan, line: &mut Vec<u8>) -> bool {
        line.resize(span.len as usize, 0);
        self.file.read_exact_at(line, span.offset).is_ok() && is_whole_line(line)
    }
}

/// `true` if these bytes are one line with its line feed, and are not damaged.
pub(super) fn is_whole_line(line: &[u8]) -> bool {
    line.strip_suffix(b"\n").and_then(check_line).is_some()
}

/// A segment that begins with a checkpoint of all live records.
#[derive(Debug)]
pub(super) struct NewSegment {
    pub(super) file: SegmentFile,
    /// The new place of each live record, in the order of [`LiveRecords::entries`].
    pub(super) spans: Vec<LineSpan>,
    /// The records that could not be read any more.
    pub(super) lost: u64,
}

/// The time at which the disk must have a new segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncNew {
    BeforeUse,
    Later,
}

/// Creates a segment. `read_line` reads a live line; `false` if it cannot. Other segments stay as they are.
/// A failed attempt leaves no file, which would take the last room of a disk.
pub(super) fn create_segment(
    dir: &Path,
    number: u64,
    live: &LiveRecords<LineSpan>,
    read_line: impl FnMut(LineSpan, &mut Vec<u8>) -> bool,
    sync: SyncNew,
) -> io::Result<NewSegment> {
    let temporary = temporary_path(&segment_path(dir, number));
    let created = write_segment(dir, number, &temporary, live, read_line, sync);
    if created.is_err() {
        fs::remove_file(&temporary).ok();
    }
    created
}

fn write_segment(
    dir: &Path,
    number: u64,
    temporary: &Path,
    live: &LiveRecords<LineSpan>,
    mut read_line: impl FnMut(LineSpan, &mut Vec<u8>) -> bool,
    sync: SyncNew,
) -> io::Result<NewSegment> {
    let path = segment_path(dir, number);
    let mut options = Symlinks::Refuse.options();
    let options = options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
    let file = SegmentFile { file: options.open(temporary)?, path, number, len: 0 };
    let mut checkpoint = CheckpointWriter { file, piece: Vec::new(), records: 0 };
    let mut spans = Vec::new();
    let mut lost = 0;
    checkpoint.add_value(&Marker::Header { format: FORMAT })?;
    for (&tenant, &next) in live.numbers() {
        checkpoint.records += 1;
        checkpoint.add_value(&Record::Number(NextNumber { tenant, next }))?;
    }
    let mut line = Vec::new();
    for &span in live.entries() {
        let is_read = span.len > 0 && read_line(span, &mut line);
        line.truncate(if is_read { line.len() } else { 0 });
        lost += u64::from(!is_read && span.len > 0);
        spans.push(checkpoint.add_line(&line)?);
    }
    checkpoint.add_value(&Marker::Checkpoint { records: checkpoint.records })?;
    checkpoint.flush()?;
    let file = checkpoint.file;
    if sync == SyncNew::BeforeUse {
        file.sync()?;
    }
    fs::rename(temporary, &file.path)?;
    if sync == SyncNew::BeforeUse
        && let Err(error) = File::open(dir).and_then(|dir| dir.sync_all())
    {
        fs::remove_file(&file.path).ok();
        return Err(error);
    }
    Ok(NewSegment { file, spans, lost })
}

/// The writer of the first part of a segment.
struct CheckpointWriter {
    file: SegmentFile,
    piece: Vec<u8>,
    records: u64,
}

impl CheckpointWriter {
    fn add_value(&mut self, value: &impl Serialize) -> io::Result<()> {
        encode_line(value, &mut self.piece).map_err(io::Error::other)
    }

    /// Adds a line, which may be empty, and returns its place.
    fn add_line(&mut self, line: &[u8]) -> io::Result<LineSpan> {
        let offset = self.file.len + self.piece.len() as u64;
        let len = u32::try_from(line.len()).map_err(io::Error::other)?;
        self.records += u64::from(len > 0);
        self.piece.extend_from_slice(line);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(LineSpan { offset, len, segment: 0 })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.append(&self.piece)?;
        self.piece.clear();
        Ok(())
    }
}

/// Creates the directory, for its owner alone.
pub(super) fn create_directory(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(DIRECTORY_MODE).create(dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Lists the numbers of the segments in a directory, in order, and removes segments that are not complete.
pub(super) fn list_segments(dir: &Path) -> Result<Vec<u64>, JournalError> {
    let unusable = |error| JournalError::unusable(dir, error);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(unusable)? {
        let name = entry.map_err(unusable)?.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.ends_with(&format!("{EXTENSION}{UNFINISHED}")) {
            fs::remove_file(dir.join(name)).ok();
        }
        numbers.extend(name.strip_suffix(EXTENSION).and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads a whole segment.
pub(super) fn read_segment(dir: &Path, number: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Symlinks::Refuse
        .options()
        .read(true)
        .open(segment_path(dir, number))?
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes a segment that is not needed any more. One that stays only takes room, and is tried again.
pub(super) fn remove_segment(dir: &Path, number: u64) {
    fs::remove_file(segment_path(dir, number)).ok();
}

pub(super) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}{EXTENSION}"))
}

fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}

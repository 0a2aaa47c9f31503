//! The file of a segment.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::error::JournalError;
use super::live_records::LiveRecords;
use super::record::{NextNumber, Record};
use super::segment::{self, FORMAT, Marker};
use crate::private_files::Symlinks;

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
    line.strip_suffix(b"\n").and_then(segment::check_line).is_some()
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
pub(super) fn create_segment(
    dir: &Path,
    number: u64,
    live: &LiveRecords<LineSpan>,
    mut read_line: impl FnMut(LineSpan, &mut Vec<u8>) -> bool,
    sync: SyncNew,
) -> io::Result<NewSegment> {
    let path = segment_path(dir, number);
    let temporary = temporary_path(&path);
    let mut options = Symlinks::Refuse.options();
    let options = options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
    let file = SegmentFile { file: options.open(&temporary)?, path, number, len: 0 };
    let mut checkpoint = CheckpointWriter { file, piece: Vec::new(), records: 0 };
    let mut spans = Vec::new();
    let mut lost = 0;
    checkpoint.add_marker(Marker::Header { format: FORMAT })?;
    for (&tenant, &next) in live.numbers() {
        checkpoint.add_number(NextNumber { tenant, next })?;
    }
    let mut line = Vec::new();
    for &span in live.entries() {
        let is_read = span.len > 0 && read_line(span, &mut line);
        line.truncate(if is_read { line.len() } else { 0 });
        lost += u64::from(!is_read && span.len > 0);
        spans.push(checkpoint.add_line(&line)?);
    }
    checkpoint.add_marker(Marker::Checkpoint { records: checkpoint.records })?;
    checkpoint.flush()?;
    let file = checkpoint.file;
    if sync == SyncNew::BeforeUse {
        file.sync()?;
    }
    fs::rename(&temporary, &file.path)?;
    if sync == SyncNew::BeforeUse {
        File::open(dir)?.sync_all()?;
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
    fn add_marker(&mut self, marker: Marker) -> io::Result<()> {
        segment::encode_line(&marker, &mut self.piece).map_err(io::Error::other)
    }

    fn add_number(&mut self, number: NextNumber) -> io::Result<()> {
        self.records += 1;
        segment::encode_line(&Record::Number(number), &mut self.piece).map_err(io::Error::other)
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

//! The files of an audit log: the log, its rotated files, and `<log>.head`, which describes the last
//! entry and is the lock of the writers; the decision how a writer continues the chain, whatever has
//! happened to the files; and the write itself.
//!
//! The writer trusts the head: all entries that it covers were written. If the log is shorter, the
//! chain does not restart, so the gap stays visible. If the log is longer, the writer trusts the
//! lines that follow from the head.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::entry::{
    AuditRecord, ChainLink, Damage, NoteRecord, ParsedLine, Sha256Hash, UnlinkedEntry,
    compose_line, format_rfc3339,
};
use crate::private_files::{Symlinks, explain_symlink_error};

/// An append holds the lock for microseconds; a lock that is held for this long is stuck.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// Other writers release the lock within this time, even on a busy host; a call can wait for it.
const SHORT_LOCK_TIMEOUT: Duration = Duration::from_millis(50);
/// The pause between two tries, since `flock` has no timeout.
const LOCK_RETRY: Duration = Duration::from_micros(200);

/// The content of the head. On disk it has a fixed width, so that it can be overwritten in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) link: ChainLink,
    /// The length of the log including the last entry.
    pub(super) bytes: u64,
}

impl Head {
    /// Two numbers of 20 digits and a hash of 64, separated by spaces, and a newline.
    fn format(self) -> String {
        format!("{:020} {:020} {}\n", self.link.seq, self.bytes, self.link.hash)
    }

    /// Parses exactly the form that [`Head::format`] writes.
    fn parse(text: &str) -> Option<Self> {
        let (seq, rest) = parse_number(text)?;
        let (bytes, rest) = parse_number(rest)?;
        let hash = Sha256Hash::parse(rest.strip_suffix('\n')?)?;
        Some(Self { link: ChainLink { seq, hash }, bytes })
    }
}

/// Parses a number of 20 digits and a space; returns it with the rest of the text.
fn parse_number(text: &str) -> Option<(u64, &str)> {
    let (digits, rest) = text.split_at_checked(20)?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((digits.parse().ok().filter(|_| is_plain)?, rest.strip_prefix(' ')?))
}

/// Returns the path of the head of this log.
pub(super) fn head_path(log: &Path) -> PathBuf {
    path_with_suffix(log, "head")
}

/// Opens the head for a writer, and creates it if it is missing.
pub(super) fn open_head(log: &Path) -> io::Result<File> {
    let mut options = Symlinks::Refuse.options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(head_path(log)).map_err(explain_symlink_error)
}

/// Opens the head for a reader; `None` if it does not exist.
pub(super) fn find_head(log: &Path) -> io::Result<Option<File>> {
    match Symlinks::Follow.options().read(true).open(head_path(log)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The time to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockWait {
    /// No wait: a held lock is an error at once (`WouldBlock`).
    None,
    /// The time that appends of other writers usually take.
    Short,
    /// The time that an append can take at most unless it is stuck.
    Usual,
}

/// The locked head. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct LockedHead<'a> {
    file: &'a File,
}

impl<'a> LockedHead<'a> {
    /// Locks the head for a writer: no other process reads or writes meanwhile.
    pub(super) fn lock_exclusive(file: &'a File, wait: LockWait) -> io::Result<Self> {
        match wait {
            LockWait::None => file.try_lock()?,
            LockWait::Short => lock_within(|| file.try_lock(), SHORT_LOCK_TIMEOUT)?,
            LockWait::Usual => lock_within(|| file.try_lock(), LOCK_TIMEOUT)?,
        }
        Ok(Self { file })
    }

    /// Locks the head for a reader: no other process writes meanwhile.
    pub(super) fn lock_shared(file: &'a File) -> io::Result<Self> {
        lock_within(|| file.try_lock_shared(), LOCK_TIMEOUT)?;
        Ok(Self { file })
    }

    /// Reads the head; `None` if its content is not valid.
    pub(super) fn read(&self) -> io::Result<Option<Head>> {
        // Longer than a head, so that extra bytes are noticed.
        let mut text = [0; 256];
        let length = self.file.read_at(&mut text, 0)?;
        Ok(str::from_utf8(&text[..length]).ok().and_then(Head::parse))
    }

    /// Overwrites the head; `before` is its content so far.
    pub(super) fn write(&self, head: Head, before: Option<Head>) -> io::Result<()> {
        let text = head.format();
        self.file.write_all_at(text.as_bytes(), 0)?;
        match before {
            // Both have the same length.
            Some(_) => Ok(()),
            None => self.file.set_len(text.len() as u64),
        }
    }
}

impl Drop for LockedHead<'_> {
    fn drop(&mut self) {
        // If the file were only closed, a child that was forked meanwhile would hold the lock until
        // its exec.
        self.file.unlock().ok();
    }
}

fn lock_within(try_lock: impl Fn() -> Result<(), TryLockError>, wait: Duration) -> io::Result<()> {
    let started = Instant::now();
    loop {
        match try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if started.elapsed() >= wait => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds it"));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_RETRY),
        }
    }
}

// The open files of a log.

/// A log and its head, open for a writer from one entry to the next.
#[derive(Debug)]
pub(super) struct OpenLog {
    pub(super) head: File,
    pub(super) log: File,
    head_path: PathBuf,
    identities: [FileIdentity; 2],
}

/// The device and inode of a file, which identify it whatever its name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    fn from_metadata(file: &Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino() }
    }
}

impl OpenLog {
    /// Opens the log beside its open head, and creates it if it is missing.
    pub(super) fn open(path: &Path, head: File) -> io::Result<Self> {
        let log = open_log(path)?;
        let found = [head.metadata()?, log.metadata()?];
        // A FIFO or a device stores nothing and can block its writer.
        if !found.iter().all(Metadata::is_file) {
            let text = "the log and its head must be regular files";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let identities = found.each_ref().map(FileIdentity::from_metadata);
        Ok(Self { head, log, head_path: head_path(path), identities })
    }

    /// Returns the length of the log if the paths still name the open files. The answer stays valid
    /// while the head is locked.
    pub(super) fn length_if_current(&self, path: &Path) -> Option<u64> {
        let head = fs::metadata(&self.head_path).ok()?;
        let log = fs::metadata(path).ok()?;
        (self.identities == [FileIdentity::from_metadata(&head), FileIdentity::from_metadata(&log)])
            .then_some(log.len())
    }
}

pub(super) fn open_log(path: &Path) -> io::Result<File> {
    let mut options = Symlinks::Refuse.options();
    let opened = options.read(true).append(true).create(true).mode(0o600).open(path);
    opened.map_err(explain_symlink_error)
}

// The log and its rotated files: `<log>`, `<log>.1` (newer), `<log>.2` (older) …

/// Returns the path `<log>.<suffix>`.
pub(super) fn path_with_suffix(log: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(log);
    name.push(".");
    name.push(suffix);
    name.into()
}

/// Returns the path that the log gets when it is rotated.
fn newest_rotated_path(log: &Path) -> PathBuf {
    path_with_suffix(log, "1")
}

/// Returns the existing rotated files, oldest first.
pub(super) fn list_rotated(log: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let Some(name) = log.file_name().and_then(|name| name.to_str()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name of a file is needed"));
    };
    let mut found = Vec::new();
    for item in fs::read_dir(parent_dir(log))? {
        let file_name = item?.file_name();
        if let Some(number) = file_name.to_str().and_then(|file| parse_rotation_number(file, name))
        {
            found.push((number, path_with_suffix(log, &number.to_string())));
        }
    }
    found.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    Ok(found)
}

/// Renames every file to the next number, and removes files beyond `keep`.
///
/// The oldest files are renamed first: a crash in between leaves a gap in the numbers, but the right
/// order.
pub(super) fn rotate(log: &Path, keep: usize) -> io::Result<()> {
    for (number, path) in list_rotated(log)? {
        if number as usize >= keep {
            fs::remove_file(path)?;
        } else {
            fs::rename(path, path_with_suffix(log, &(number + 1).to_string()))?;
        }
    }
    fs::rename(log, newest_rotated_path(log))
}

/// Returns the directory of the log.
pub(super) fn parent_dir(log: &Path) -> &Path {
    match log.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

/// Returns the number if the file name is `<name>.<number>`.
fn parse_rotation_number(file: &str, name: &str) -> Option<u32> {
    let suffix = file.strip_prefix(name)?.strip_prefix('.')?;
    let number: u32 = suffix.parse().ok()?;
    (number > 0 && number.to_string() == suffix).then_some(number)
}

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
    rotated_bytes: Option<u64>,
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

/// The number of bytes that are read from the end of a log: more than the longest batch and half an
/// entry.
const TAIL_BYTES: u64 = 256 * 1024;

/// Reads the state of the files. Reads nothing of the log if its length matches the head.
pub(super) fn observe_log(
    path: &Path,
    head: &LockedHead<'_>,
    log: &File,
    bytes: u64,
) -> io::Result<ObservedLog> {
    let head = head.read()?;
    let rotated_bytes = match bytes {
        0 => fs::metadata(newest_rotated_path(path)).ok().map(|file| file.len()),
        1.. => None,
    };
    let known = head.map_or(0, |head| head.bytes);
    let tail = match (bytes, head, rotated_bytes) {
        (0, None, Some(length)) => {
            let rotated = Symlinks::Refuse.options().read(true).open(newest_rotated_path(path));
            read_end(&rotated.map_err(explain_symlink_error)?, 0, length)?
        }
        (0, ..) => Vec::new(),
        (1.., ..) if known > bytes => read_end(log, 0, bytes)?,
        (1.., ..) => read_end(log, known, bytes)?,
    };
    Ok(ObservedLog { head, bytes, rotated_bytes, tail })
}

/// Reads the bytes from `start` to `end`, at most the last [`TAIL_BYTES`].
fn read_end(file: &File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let start = start.max(end.saturating_sub(TAIL_BYTES));
    let mut bytes = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
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

/// Lines that are written together, and the last link.
#[derive(Debug)]
pub(super) struct ComposedLines {
    text: String,
    link: ChainLink,
}

impl ComposedLines {
    pub(super) fn new<'e>(
        plan: &ResumePlan,
        entries: impl Iterator<Item = &'e UnlinkedEntry>,
    ) -> io::Result<Self> {
        let mut lines = Self { text: String::new(), link: plan.link };
        match plan.line_end {
            LineEnd::Whole => {}
            LineEnd::Missing => lines.text.push('\n'),
        }
        for note in &plan.notes {
            lines.push(&UnlinkedEntry::new(&format_rfc3339(SystemTime::now()), &note.to_record())?);
        }
        for entry in entries {
            lines.push(entry);
        }
        Ok(lines)
    }

    fn push(&mut self, entry: &UnlinkedEntry) {
        let (mut line, link) = compose_line(self.link, entry);
        line.push('\n');
        self.link = link;
        // Usually there is only one line.
        if self.text.is_empty() {
            self.text = line;
        } else {
            self.text.push_str(&line);
        }
    }
}

/// Writes the log and then the head. If either fails, the log is cut back to its old length.
pub(super) fn commit(
    head: &LockedHead<'_>,
    before: Option<Head>,
    mut log: &File,
    lines: &ComposedLines,
    bytes: u64,
) -> io::Result<()> {
    if lines.text.is_empty() {
        return Ok(());
    }
    let sealed = Head { link: lines.link, bytes: bytes + lines.text.len() as u64 };
    log.write_all(lines.text.as_bytes()).and_then(|()| head.write(sealed, before)).inspect_err(
        |_| {
            // If this fails too, the next writer finds the remains and notes them.
            log.set_len(bytes).ok();
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::entry::NoteEntry;
    use super::*;

    #[test]
    fn only_the_written_form_of_a_head_is_parsed() {
        let head = Head { link: ChainLink { seq: 12, hash: Sha256Hash::hash(b"x") }, bytes: 3456 };
        let text = head.format();
        assert_eq!(text, format!("{:020} {:020} {}\n", 12, 3456, head.link.hash));
        assert_eq!(Head::parse(&text), Some(head));
        for other in ["", text.trim_end(), &text[1..], &format!("{text}\n"), &text.replace(' ', "")]
        {
            assert_eq!(Head::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_stuck_lock_is_an_error_instead_of_a_hang() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let ours = open_head(&log).unwrap();
        let theirs = open_head(&log).unwrap();
        let _held = LockedHead::lock_exclusive(&theirs, LockWait::Usual).unwrap();
        for (wait, kind) in [
            (LockWait::None, io::ErrorKind::WouldBlock),
            (LockWait::Short, io::ErrorKind::TimedOut),
            (LockWait::Usual, io::ErrorKind::TimedOut),
        ] {
            assert_eq!(LockedHead::lock_exclusive(&ours, wait).unwrap_err().kind(), kind);
        }
    }

    #[test]
    fn only_rotated_files_have_a_rotation_number() {
        assert_eq!(parse_rotation_number("audit.jsonl.12", "audit.jsonl"), Some(12));
        for file in ["audit.jsonl", "audit.jsonl.head", "audit.jsonl.0", "audit.jsonl.01", "b.1"] {
            assert_eq!(parse_rotation_number(file, "audit.jsonl"), None, "{file}");
        }
    }

    #[test]
    fn rotation_keeps_the_order_and_the_number_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        for round in 0..5 {
            fs::write(&log, round.to_string()).unwrap();
            rotate(&log, 2).unwrap();
        }
        let files = list_rotated(&log).unwrap();
        let texts = files.iter().map(|(n, path)| (*n, fs::read_to_string(path).unwrap()));
        assert_eq!(texts.collect::<Vec<_>>(), [(2, "3".to_owned()), (1, "4".to_owned())]);
    }

    #[test]
    fn a_smaller_number_of_kept_files_removes_the_surplus() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        for number in 1..=5 {
            fs::write(path_with_suffix(&log, &number.to_string()), "old").unwrap();
        }
        fs::write(&log, "new").unwrap();
        rotate(&log, 1).unwrap();
        assert_eq!(list_rotated(&log).unwrap().len(), 1);
    }

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

//! The files of an audit log: the log, its rotated files, and `<log>.head`, which describes the last
//! entry and is the lock of the writers.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, TryLockError};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::entry::{ChainLink, Sha256Hash};
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
pub(super) fn newest_rotated_path(log: &Path) -> PathBuf {
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

#[cfg(test)]
mod tests {
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
}

#[cfg(test)]
mod files_tests {
    use super::*;

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
}

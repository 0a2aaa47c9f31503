//! `<log>.head`: what the last entry was, and the lock that writers take.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, TryLockError};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::line::{Digest, Link};
use crate::private_files::{Symlinks, explain_symlink_error};

/// An append holds the lock for microseconds; who waits this long waits for something stuck.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// Other writers let go of the lock within this time, also on a busy host; a call can wait for it.
const SHORT_PATIENCE: Duration = Duration::from_millis(50);
/// `flock` has no deadline of its own, so it is tried again after this long.
const LOCK_RETRY: Duration = Duration::from_micros(200);

/// What the head says. On disk it has one width, so that it is overwritten in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The last entry.
    pub(super) link: Link,
    /// How long the log was with it.
    pub(super) bytes: u64,
}

impl Head {
    /// Two numbers of 20 digits and a hash of 64, a space between them and a newline.
    fn text(self) -> String {
        format!("{:020} {:020} {}\n", self.link.seq, self.bytes, self.link.hash)
    }

    /// Reads exactly what was written; nothing for anything else.
    fn parse(text: &str) -> Option<Self> {
        let (seq, rest) = number(text)?;
        let (bytes, rest) = number(rest)?;
        let hash = Digest::parse(rest.strip_suffix('\n')?)?;
        Some(Self { link: Link { seq, hash }, bytes })
    }
}

/// A number of the one width, and what stands behind it.
fn number(text: &str) -> Option<(u64, &str)> {
    let (digits, rest) = text.split_at_checked(20)?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((digits.parse().ok().filter(|_| is_plain)?, rest.strip_prefix(' ')?))
}

/// Where the head of this log is.
pub(super) fn path_of(log: &Path) -> PathBuf {
    sibling(log, "head")
}

/// Opens the head of this log for a writer, and makes it where it is missing.
pub(super) fn open(log: &Path) -> io::Result<File> {
    let mut options = Symlinks::Refuse.options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path_of(log)).map_err(explain_symlink_error)
}

/// Opens it for a reader; nothing where there is none.
pub(super) fn find(log: &Path) -> io::Result<Option<File>> {
    match Symlinks::Follow.options().read(true).open(path_of(log)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// How long to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// Not at all: it is an error at once (`WouldBlock`).
    None,
    /// For as long as the appends of other writers usually take.
    Short,
    /// For as long as an append that is not stuck may take.
    Usual,
}

/// The head, locked until this is dropped.
#[derive(Debug)]
pub(super) struct LockedHead<'a> {
    file: &'a File,
}

impl<'a> LockedHead<'a> {
    /// For a writer: nobody else reads or writes meanwhile.
    pub(super) fn exclusive(file: &'a File, patience: Patience) -> io::Result<Self> {
        match patience {
            Patience::None => file.try_lock()?,
            Patience::Short => patiently(|| file.try_lock(), SHORT_PATIENCE)?,
            Patience::Usual => patiently(|| file.try_lock(), LOCK_PATIENCE)?,
        }
        Ok(Self { file })
    }

    /// For a reader: nobody writes meanwhile.
    pub(super) fn shared(file: &'a File) -> io::Result<Self> {
        patiently(|| file.try_lock_shared(), LOCK_PATIENCE)?;
        Ok(Self { file })
    }

    /// What it says; nothing when that cannot be read.
    pub(super) fn read(&self) -> io::Result<Option<Head>> {
        // Longer than a head, so that whatever follows one is noticed.
        let mut text = [0; 256];
        let length = self.file.read_at(&mut text, 0)?;
        Ok(str::from_utf8(&text[..length]).ok().and_then(Head::parse))
    }

    /// Writes what it says from now on; `before` is what was read from it.
    pub(super) fn write(&self, head: Head, before: Option<Head>) -> io::Result<()> {
        let text = head.text();
        self.file.write_all_at(text.as_bytes(), 0)?;
        match before {
            // One is as long as the other.
            Some(_) => Ok(()),
            None => self.file.set_len(text.len() as u64),
        }
    }
}

impl Drop for LockedHead<'_> {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a child that was forked meanwhile, until it execs.
        self.file.unlock().ok();
    }
}

fn patiently(
    try_lock: impl Fn() -> Result<(), TryLockError>,
    patience: Duration,
) -> io::Result<()> {
    let started = Instant::now();
    loop {
        match try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if started.elapsed() >= patience => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds it"));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_RETRY),
        }
    }
}

// The files of a log, kept open from one entry to the next.

/// A log and its head, open for a writer.
#[derive(Debug)]
pub(super) struct OpenLog {
    pub(super) head: File,
    pub(super) log: File,
    head_path: PathBuf,
    places: [Place; 2],
}

/// What tells a file from any other, whatever its name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    fn of(file: &Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino() }
    }
}

impl OpenLog {
    /// Opens both, and makes what is missing.
    pub(super) fn open(path: &Path, head: File) -> io::Result<Self> {
        let log = open_log(path)?;
        let found = [head.metadata()?, log.metadata()?];
        // A FIFO or a device keeps nothing, and can block whoever writes to it.
        if !found.iter().all(Metadata::is_file) {
            let text = "the log and its head must be regular files";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let places = found.each_ref().map(Place::of);
        Ok(Self { head, log, head_path: path_of(path), places })
    }

    /// How long the log is, if both are still what stands under their names. Right for as long as
    /// the head is locked.
    pub(super) fn length_in_place(&self, path: &Path) -> Option<u64> {
        let head = fs::metadata(&self.head_path).ok()?;
        let log = fs::metadata(path).ok()?;
        (self.places == [Place::of(&head), Place::of(&log)]).then_some(log.len())
    }
}

pub(super) fn open_log(path: &Path) -> io::Result<File> {
    let mut options = Symlinks::Refuse.options();
    let opened = options.read(true).append(true).create(true).mode(0o600).open(path);
    opened.map_err(explain_symlink_error)
}

// The log and its rotated files: `<log>`, `<log>.1` (younger), `<log>.2` (older) …

/// `<log>.<suffix>`.
pub(super) fn sibling(log: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(log);
    name.push(".");
    name.push(suffix);
    name.into()
}

/// Where the log goes when it is rotated.
pub(super) fn youngest(log: &Path) -> PathBuf {
    sibling(log, "1")
}

/// The rotated files that exist, the oldest first.
pub(super) fn rotated(log: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let Some(name) = log.file_name().and_then(|name| name.to_str()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name of a file is needed"));
    };
    let mut found = Vec::new();
    for item in fs::read_dir(folder(log))? {
        let file_name = item?.file_name();
        if let Some(number) = file_name.to_str().and_then(|file| rotation_number(file, name)) {
            found.push((number, sibling(log, &number.to_string())));
        }
    }
    found.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    Ok(found)
}

/// Moves every file on by one number, and removes those beyond `keep`.
///
/// The oldest are moved first: a crash on the way leaves a missing number, and the order right.
pub(super) fn rotate(log: &Path, keep: usize) -> io::Result<()> {
    for (number, path) in rotated(log)? {
        if number as usize >= keep {
            fs::remove_file(path)?;
        } else {
            fs::rename(path, sibling(log, &(number + 1).to_string()))?;
        }
    }
    fs::rename(log, youngest(log))
}

/// The folder that the log is in.
pub(super) fn folder(log: &Path) -> &Path {
    match log.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

/// The number in `<name>.<number>`, where that is what a file is called.
fn rotation_number(file: &str, name: &str) -> Option<u32> {
    let suffix = file.strip_prefix(name)?.strip_prefix('.')?;
    let number: u32 = suffix.parse().ok()?;
    (number > 0 && number.to_string() == suffix).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written_and_in_no_other_form() {
        let head = Head { link: Link { seq: 12, hash: Digest::of(b"x") }, bytes: 3456 };
        let text = head.text();
        assert_eq!(text, format!("{:020} {:020} {}\n", 12, 3456, head.link.hash));
        assert_eq!(Head::parse(&text), Some(head));
        for other in ["", text.trim_end(), &text[1..], &format!("{text}\n"), &text.replace(' ', "")]
        {
            assert_eq!(Head::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_stuck_lock_is_an_error_and_no_hang() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (ours, theirs) = (open(&log).unwrap(), open(&log).unwrap());
        let _held = LockedHead::exclusive(&theirs, Patience::Usual).unwrap();
        for (patience, kind) in [
            (Patience::None, io::ErrorKind::WouldBlock),
            (Patience::Short, io::ErrorKind::TimedOut),
            (Patience::Usual, io::ErrorKind::TimedOut),
        ] {
            assert_eq!(LockedHead::exclusive(&ours, patience).unwrap_err().kind(), kind);
        }
    }
}

#[cfg(test)]
mod files_tests {
    use super::*;

    #[test]
    fn only_our_numbers_count() {
        assert_eq!(rotation_number("audit.jsonl.12", "audit.jsonl"), Some(12));
        for file in ["audit.jsonl", "audit.jsonl.head", "audit.jsonl.0", "audit.jsonl.01", "b.1"] {
            assert_eq!(rotation_number(file, "audit.jsonl"), None, "{file}");
        }
    }

    #[test]
    fn rotation_keeps_the_order_and_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        for round in 0..5 {
            fs::write(&log, round.to_string()).unwrap();
            rotate(&log, 2).unwrap();
        }
        let files = rotated(&log).unwrap();
        let texts = files.iter().map(|(n, path)| (*n, fs::read_to_string(path).unwrap()));
        assert_eq!(texts.collect::<Vec<_>>(), [(2, "3".to_owned()), (1, "4".to_owned())]);
    }

    #[test]
    fn fewer_files_kept_than_before_leave_no_strays() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        for number in 1..=5 {
            fs::write(sibling(&log, &number.to_string()), "old").unwrap();
        }
        fs::write(&log, "new").unwrap();
        rotate(&log, 1).unwrap();
        assert_eq!(rotated(&log).unwrap().len(), 1);
    }
}

//! `<log>.head`: what the last entry was, and the lock that writers take.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::digest::Digest;
use super::digits;
use super::files::sibling;
use super::line::Link;
use crate::private_files::{Links, explain_link};

/// An append holds the lock for microseconds; who waits this long waits for something stuck.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// Other writers let go of the lock within this time, also on a busy host; a call can wait for it.
const SHORT_PATIENCE: Duration = Duration::from_millis(50);
/// `flock` has no deadline of its own, so it is tried again after this long.
const LOCK_RETRY: Duration = Duration::from_micros(200);

/// Two numbers of 20 digits and a hash of 64, a space between them and a newline.
const TEXT_BYTES: usize = 107;

/// What the head says. On disk it has one width, so that it is overwritten in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The last entry.
    pub(super) link: Link,
    /// How long the log was with it.
    pub(super) bytes: u64,
}

impl Head {
    fn text(self) -> [u8; TEXT_BYTES] {
        let mut text = [b' '; TEXT_BYTES];
        digits::put(self.link.seq, &mut text[..20]);
        digits::put(self.bytes, &mut text[21..41]);
        text[42..106].copy_from_slice(&self.link.hash.hex());
        text[106] = b'\n';
        text
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
    let mut options = Links::Refuse.options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path_of(log)).map_err(explain_link)
}

/// Opens it for a reader; nothing where there is none.
pub(super) fn find(log: &Path) -> io::Result<Option<File>> {
    match Links::Follow.options().read(true).open(path_of(log)) {
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
        self.file.write_all_at(&text, 0)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written_and_in_no_other_form() {
        let head = Head { link: Link { seq: 12, hash: Digest::of(b"x") }, bytes: 3456 };
        let text = String::from_utf8(head.text().to_vec()).unwrap();
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

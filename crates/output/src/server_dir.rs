//! The directory that holds the spill files of a server: the names of the files, the directory
//! itself, and a watch that notices a disk that does not answer, before everybody waits for it.
//!
//! All names are looked up in the directory that was opened, whatever is put in its place later.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, Dir, FlockOperation, Mode, OFlags, flock, open, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

/// The prefix of the names of server directories.
const PREFIX: &str = "run-";

/// The lifetime of a directory and its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirKind {
    /// A directory for one server, which ends with it.
    PerServer,
    /// The root itself, which stays.
    Durable,
}

/// The directory of one server. Nobody else removes it while this value holds the lock on it.
#[derive(Debug)]
pub(crate) struct ServerDir {
    fd: OwnedFd,
    pub(crate) path: PathBuf,
    kind: DirKind,
}

impl ServerDir {
    pub(crate) fn create(root: &Path) -> io::Result<Self> {
        create_private_dirs(root)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700));
        let path = builder.tempdir_in(root)?.keep();
        let fd = open_dir(&path)?;
        // Waits at most for a server that takes this directory for a leftover. That server removes
        // it; then creating the first file fails, and another directory is created.
        flock(&fd, FlockOperation::LockExclusive)?;
        Ok(Self { fd, path, kind: DirKind::PerServer })
    }

    pub(crate) fn open_durable(root: &Path) -> io::Result<Self> {
        create_private_dirs(root)?;
        Ok(Self { fd: open_dir(root)?, path: root.to_owned(), kind: DirKind::Durable })
    }

    /// Opens the directory of a server that is gone.
    fn open_leftover(path: PathBuf) -> io::Result<Self> {
        let fd = open_dir(&path)?;
        flock(&fd, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { fd, path, kind: DirKind::PerServer })
    }

    pub(crate) fn create_file(&self, name: &SpillFileName) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let create = || self.open_file(name, flags, Mode::RUSR | Mode::WUSR);
        let file = match create() {
            // A file that an earlier server left: its log is not known any more.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && self.kind == DirKind::Durable =>
            {
                self.remove_file(name)?;
                create()?
            }
            made => made?,
        };
        // The umask may have removed bits that are needed.
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
    }

    pub(crate) fn open_file(
        &self,
        name: &SpillFileName,
        flags: OFlags,
        mode: Mode,
    ) -> io::Result<File> {
        // Non-blocking, so that a FIFO in place of the file cannot hold a reader.
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        Ok(File::from(openat(&self.fd, name.to_string(), flags, mode)?))
    }

    pub(crate) fn remove_file(&self, name: &SpillFileName) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name.to_string(), AtFlags::empty())?)
    }

    pub(crate) fn rename_file(&self, from: &SpillFileName, to: &SpillFileName) -> io::Result<()> {
        Ok(renameat(&self.fd, from.to_string(), &self.fd, to.to_string())?)
    }

    pub(crate) fn remove_everything(&self) -> io::Result<()> {
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            if entry.file_name().to_bytes().iter().all(u8::is_ascii_digit) {
                unlinkat(&self.fd, entry.file_name(), AtFlags::empty())?;
            }
        }
        match self.kind {
            DirKind::PerServer => std::fs::remove_dir(&self.path),
            DirKind::Durable => Ok(()),
        }
    }

    /// The files of earlier servers that are not needed: those of unknown logs, those that have a
    /// compressed form, and files without a log whose numbers are less than this server's first.
    pub(crate) fn find_leftovers(
        &self,
        known: &HashSet<LogName>,
        first_number: u64,
    ) -> io::Result<Vec<SpillFileName>> {
        let mut names = HashSet::new();
        let mut has_compressed = false;
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            has_compressed |= name.ends_with(COMPRESSED_ENDING);
            names.insert(name.to_owned());
        }
        // Most files are those of known logs, and there may be many: only other names are read.
        let is_needed = |name: &str| match name.split_once('.') {
            Some((log, _)) if known.contains(log) => {
                let raw = name.strip_suffix(RAW_ENDING).filter(|_| has_compressed);
                !raw.is_some_and(|raw| names.contains(&format!("{raw}{COMPRESSED_ENDING}")))
            }
            Some(_) | None => false,
        };
        let others = names.iter().filter(|name| !is_needed(name));
        // Names that are not ours are left alone.
        let others = others.filter_map(|name| SpillFileName::parse(name));
        let is_leftover = |name: &SpillFileName| match name {
            SpillFileName::Temporary(number) => *number < first_number,
            SpillFileName::OfLog { .. } => true,
        };
        Ok(others.filter(is_leftover).collect())
    }
}

impl Drop for ServerDir {
    fn drop(&mut self) {
        if self.kind == DirKind::PerServer {
            // Fails if files are left. The next server removes them.
            std::fs::remove_dir(&self.path).ok();
        }
    }
}

/// `true` if there is no such file: none, or a symbolic link in its place.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// `true` if the file may be there and cannot be written.
pub(crate) fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}

fn create_private_dirs(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes as much as possible. Returns the first error.
pub(crate) fn remove_leftovers(root: &Path) -> io::Result<()> {
    let mut result = Ok(());
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        // Other entries belong to live servers, or are not our directories.
        if let Ok(leftover) = ServerDir::open_leftover(entry.path()) {
            result = result.and(leftover.remove_everything());
        }
    }
    result
}

/// Creates an unnamed file in a directory, which is created (mode 0700) if it is missing.
pub(crate) fn unnamed_file(dir: &Path) -> io::Result<File> {
    let file = match tempfile::tempfile_in(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_private_dirs(dir)?;
            tempfile::tempfile_in(dir)?
        }
        made => made?,
    };
    // The umask alone would let others open it through /proc.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// The identity of a file, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The identity of an open file.
    ///
    /// # Errors
    /// `NotFound` if it is something else than a file.
    pub(crate) fn from_regular_file(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// The longest name of a log: with the ending of a part, it fits into a file name.
pub(crate) const MAX_NAME: usize = 220;

/// The end of the names of segments, as they were written and compressed.
const RAW_ENDING: &str = ".log";
const COMPRESSED_ENDING: &str = ".zst";

/// The name of a durable log, from which the names of its files are made. Letters, digits, `-` and
/// `_`; not only digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogName(Arc<str>);

/// The text is not a valid name of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a log: up to 220 letters, digits, `-` and `_`, not only digits")]
pub struct InvalidLogName(String);

impl LogName {
    /// Takes a valid name.
    ///
    /// # Errors
    /// If the text is not a valid name.
    pub fn new(name: &str) -> Result<Self, InvalidLogName> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_valid = (1..=MAX_NAME).contains(&name.len())
            && name.bytes().all(is_allowed)
            && !name.bytes().all(|byte| byte.is_ascii_digit());
        if is_valid { Ok(Self(name.into())) } else { Err(InvalidLogName(name.to_owned())) }
    }

    /// Makes a name of any text: `_` and two hexadecimal digits stand for each byte that is not a
    /// letter, a digit or `-`. A text that is too long is cut, with a hash of the whole text at its
    /// end. Different texts have different names.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let mut name = String::with_capacity(text.len());
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => name.push(char::from(byte)),
                _ => name.push_str(&format!("_{byte:02x}")),
            }
        }
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            name.push('_');
        }
        if name.len() > MAX_NAME {
            name.truncate(MAX_NAME - 33);
            name.push_str(&format!("_{:032x}", hash(text.as_bytes())));
        }
        Self(name.into())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The FNV-1a hash of 128 bits, which stays the same in all versions of this program.
fn hash(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

impl Borrow<str> for LogName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LogName {
    type Error = InvalidLogName;

    fn try_from(name: String) -> Result<Self, InvalidLogName> {
        Self::new(&name)
    }
}

impl From<LogName> for String {
    fn from(name: LogName) -> Self {
        name.as_str().to_owned()
    }
}

/// A part of a durable log that has a file of its own. Segments are named by their start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FilePart {
    Segment(u64),
    /// A segment, compressed.
    Compressed(u64),
    /// Streams, gaps and segments by offset.
    Positions,
}

impl FilePart {
    /// The compressed form of a segment.
    pub(crate) const fn compressed(self) -> Option<Self> {
        match self {
            Self::Segment(start) => Some(Self::Compressed(start)),
            Self::Compressed(_) | Self::Positions => None,
        }
    }
}

/// The name of a file in a spill directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SpillFileName {
    /// A file of this server alone.
    Temporary(u64),
    /// A file of a durable log.
    OfLog { log: LogName, part: FilePart },
}

impl SpillFileName {
    pub(crate) fn of_log(log: &LogName, part: FilePart) -> Self {
        Self::OfLog { log: log.clone(), part }
    }

    /// The name of a file that this crate has created; `None` for any other.
    fn parse(name: &str) -> Option<Self> {
        let parsed = match name.split_once('.') {
            None => Self::Temporary(name.parse().ok()?),
            Some((log, ending)) => {
                Self::OfLog { log: LogName::new(log).ok()?, part: parse_ending(ending)? }
            }
        };
        // There is one form of each name: no leading zeros or signs.
        (parsed.to_string() == name).then_some(parsed)
    }
}

fn parse_ending(ending: &str) -> Option<FilePart> {
    let (start, kind) = match ending.split_once('.') {
        Some((start, kind)) => (start.parse().ok()?, kind),
        None => (0, ending),
    };
    match kind {
        "log" => Some(FilePart::Segment(start)),
        "zst" => Some(FilePart::Compressed(start)),
        "idx" => Some(FilePart::Positions),
        _ => None,
    }
}

impl fmt::Display for SpillFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Temporary(number) => write!(f, "{number}"),
            Self::OfLog { log, part } => match part {
                FilePart::Segment(0) => write!(f, "{}{RAW_ENDING}", log.0),
                FilePart::Segment(start) => write!(f, "{}.{start}{RAW_ENDING}", log.0),
                FilePart::Compressed(0) => write!(f, "{}{COMPRESSED_ENDING}", log.0),
                FilePart::Compressed(start) => write!(f, "{}.{start}{COMPRESSED_ENDING}", log.0),
                FilePart::Positions => write!(f, "{}.idx", log.0),
            },
        }
    }
}

/// An operation that takes longer than this makes others wait for its end: the disk may be stuck.
const SLOW: Duration = Duration::from_millis(250);
/// An operation that takes longer than this means that the disk is stuck.
const STUCK: Duration = Duration::from_secs(2);
/// The interval between two checks of a disk that may be stuck.
const INTERVAL: Duration = Duration::from_millis(20);

/// The operations that wait for a disk. Clones are cheap and share them.
#[derive(Debug, Clone, Default)]
pub struct DiskWatch {
    operations: Arc<Mutex<Operations>>,
}

#[derive(Debug, Default)]
struct Operations {
    /// The operations that have begun and not ended, the oldest first.
    running: Vec<(u64, Instant)>,
    last_number: u64,
}

/// An operation on the disk, from its creation until it is dropped.
#[derive(Debug)]
pub struct DiskOperation {
    watch: DiskWatch,
    number: u64,
}

impl DiskWatch {
    /// Begins an operation.
    #[must_use]
    pub fn begin(&self) -> DiskOperation {
        self.begin_at(Instant::now())
    }

    fn begin_at(&self, now: Instant) -> DiskOperation {
        let mut operations = self.lock();
        operations.last_number += 1;
        let number = operations.last_number;
        operations.running.push((number, now));
        drop(operations);
        DiskOperation { watch: self.clone(), number }
    }

    /// `true` if an operation has waited so long that the disk does not answer.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.age() > STUCK
    }

    /// Waits while the disk may be stuck, until it has answered or is known to be stuck.
    pub async fn wait_until_known(&self) {
        while self.age() > SLOW && !self.is_stuck() {
            sleep(INTERVAL).await;
        }
    }

    /// Waits until the disk is not stuck any more.
    pub async fn wait_until_it_answers(&self) {
        while self.is_stuck() {
            sleep(SLOW).await;
        }
    }

    /// The time that the oldest operation has taken so far.
    fn age(&self) -> Duration {
        self.lock().running.first().map_or(Duration::ZERO, |(_, begun)| begun.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Operations> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DiskOperation {
    fn drop(&mut self) {
        self.watch.lock().running.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        let log = LogName::new("t-local-12").unwrap();
        let parts = [
            (FilePart::Segment(0), "t-local-12.log"),
            (FilePart::Segment(70_000), "t-local-12.70000.log"),
            (FilePart::Compressed(0), "t-local-12.zst"),
            (FilePart::Compressed(7), "t-local-12.7.zst"),
            (FilePart::Positions, "t-local-12.idx"),
        ];
        for (part, text) in parts {
            let name = SpillFileName::of_log(&log, part);
            assert_eq!(name.to_string(), text);
            assert_eq!(SpillFileName::parse(text), Some(name));
        }
        assert_eq!(SpillFileName::parse("17"), Some(SpillFileName::Temporary(17)));
    }

    #[test]
    fn other_names_are_not_ours() {
        for name in ["", "a", "a.", "a.txt", "a.0.log", "a.07.log", "a.+7.log", "a.1.idx", "007"] {
            assert_eq!(SpillFileName::parse(name), None, "{name}");
        }
        assert_eq!(LogName::from_text("t.a_b/c@d-1").as_str(), "t_2ea_5fb_2fc_40d-1");
        assert_eq!(LogName::from_text("12").as_str(), "12_");
        let long = |last: char| LogName::from_text(&format!("{}{last}", "/".repeat(100)));
        assert_ne!(long('1'), long('2'));
        assert_eq!(LogName::new(long('1').as_str()), Ok(long('1')));
        for name in ["", "12", "a/b", "..", "a.b", "ä", &"a".repeat(221)] {
            assert!(LogName::new(name).is_err(), "{name}");
        }
    }

    #[tokio::test]
    async fn a_disk_is_stuck_while_one_operation_does_not_end() {
        let disk = DiskWatch::default();
        let long_ago = Instant::now().checked_sub(2 * STUCK).unwrap();
        let [stuck, other] = [disk.begin_at(long_ago), disk.begin()];
        assert!(disk.is_stuck());
        drop(other);
        assert!(disk.clone().is_stuck(), "the older one has not ended");
        disk.wait_until_known().await;
        drop(stuck);
        assert!(!disk.is_stuck());
        disk.wait_until_it_answers().await;
    }

    #[tokio::test]
    async fn a_slow_operation_is_waited_for_until_it_ends() {
        let disk = DiskWatch::default();
        let slow = disk.begin_at(Instant::now().checked_sub(2 * SLOW).unwrap());
        let waiting = tokio::spawn({
            let disk = disk.clone();
            async move { disk.wait_until_known().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(slow);
        waiting.await.unwrap();
        assert!(!disk.is_stuck());
    }
}

//! The directory that holds the spill files of a server. All names are looked up in the directory
//! that was opened, whatever is put in its place later.

use std::collections::HashSet;
use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FlockOperation, Mode, OFlags, flock, open, openat, renameat, unlinkat,
};
use rustix::io::Errno;

use crate::file_name::{COMPRESSED_ENDING, LogName, RAW_ENDING, SpillFileName};

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

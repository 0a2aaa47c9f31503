//! Paths below an open directory, which the kernel resolves without leaving it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat, openat2};
use rustix::io::Errno;

use super::calls::{FileError, FileKind};
use crate::process::OpenedDir;

/// A path below the working directory that is not resolved yet.
#[derive(Debug)]
pub(super) struct RootedPath {
    root: OpenedDir,
    /// The path relative to `root`.
    below: PathBuf,
    /// The path as the caller gave it, for error texts.
    given: String,
}

impl RootedPath {
    /// Takes a path of a caller. An absolute path must start with the working directory, as it is
    /// configured or with all links resolved.
    pub(super) fn new(root: OpenedDir, configured: &Path, given: &str) -> Result<Self, FileError> {
        if given.trim().is_empty() || given.contains('\0') {
            return Err(FileError::BadPath { path: given.escape_debug().to_string() });
        }
        let below = match Path::new(given) {
            relative if relative.is_relative() => Some(relative),
            absolute => [root.path(), configured]
                .into_iter()
                .find_map(|prefix| absolute.strip_prefix(prefix).ok()),
        };
        let Some(below) = below.map(Path::to_owned) else {
            let root = root.path().to_owned();
            return Err(FileError::Outside { path: given.to_owned(), root });
        };
        let below = if below.as_os_str().is_empty() { ".".into() } else { below };
        Ok(Self { root, below, given: given.to_owned() })
    }

    /// Opens a regular file for reading.
    pub(super) fn open_file(&self) -> Result<(File, Stat), FileError> {
        let (found, stat) = self.resolve(&self.below)?;
        self.check_kind(&stat, FileType::RegularFile)?;
        let file = reopen(&found, OFlags::empty()).map_err(|errno| self.convert_errno(errno))?;
        Ok((file.into(), stat))
    }

    /// Opens a directory for reading.
    pub(super) fn open_dir(&self) -> Result<OwnedFd, FileError> {
        let (found, stat) = self.resolve(&self.below)?;
        self.check_kind(&stat, FileType::Directory)?;
        reopen(&found, OFlags::DIRECTORY).map_err(|errno| self.convert_errno(errno))
    }

    /// Opens the parent directory of the path, and returns it with the last component.
    pub(super) fn open_parent(&self) -> Result<(OwnedFd, &OsStr), FileError> {
        let is_directory = self.given.ends_with('/') || self.given.ends_with("/.");
        let Some(name) = self.below.file_name().filter(|_| !is_directory) else {
            return Err(FileError::BadPath { path: self.given.clone() });
        };
        let parent = self.below.parent().filter(|parent| !parent.as_os_str().is_empty());
        let (found, stat) = self.resolve(parent.unwrap_or(Path::new(".")))?;
        self.check_kind(&stat, FileType::Directory)?;
        Ok((found, name))
    }

    /// Fails if a file is not of the wanted kind.
    pub(super) fn check_kind(&self, stat: &Stat, wanted: FileType) -> Result<(), FileError> {
        let found = FileType::from_raw_mode(stat.st_mode);
        if found == wanted {
            return Ok(());
        }
        let found = FileKind::from_file_type(found).describe();
        let wanted = FileKind::from_file_type(wanted).describe();
        Err(FileError::WrongKind { path: self.given.clone(), found, wanted })
    }

    fn resolve(&self, path: &Path) -> Result<(OwnedFd, Stat), FileError> {
        let resolve = || {
            let found = resolve_beneath(&self.root, path)?;
            let stat = fstat(&found)?;
            Ok((found, stat))
        };
        resolve().map_err(|errno| self.convert_errno(errno))
    }

    /// Converts a system error.
    pub(super) fn convert_errno(&self, errno: Errno) -> FileError {
        let path = self.given.clone();
        match errno {
            Errno::XDEV => FileError::Outside { path, root: self.root.path().to_owned() },
            Errno::NOENT => FileError::Missing { path },
            Errno::ACCESS | Errno::PERM => FileError::Permission { path },
            other => FileError::System { path, source: other.into() },
        }
    }

    /// Converts an error of the standard library.
    pub(super) fn convert_io_error(&self, source: io::Error) -> FileError {
        FileError::System { path: self.given.clone(), source }
    }
}

/// The number of attempts to resolve a path that another process keeps changing.
const MAX_TRIES: usize = 32;

/// Resolves a relative path without opening its target (`O_PATH`). Links are followed as long as they
/// stay below the directory; a link or `..` that leads out of it fails with `XDEV`.
fn resolve_beneath(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..MAX_TRIES {
        match openat2(&directory, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS) => return resolve_stepwise(directory, path),
            found => return found,
        }
    }
    Err(Errno::AGAIN)
}

/// Resolves a path on kernels before 5.6, which lack `openat2`: one component after the other, and
/// without following any link.
pub(super) fn resolve_stepwise(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut found = openat(directory, ".", flags | OFlags::DIRECTORY, Mode::empty())?;
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => found = openat(&found, name, flags, Mode::empty())?,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Errno::XDEV);
            }
        }
    }
    Ok(found)
}

/// Opens a resolved file for reading: the same file, wherever its path leads by now.
fn reopen(found: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let link = format!("/proc/self/fd/{}", found.as_raw_fd());
    // Non-blocking: some files of the kernel make a reader wait.
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(link, flags, Mode::empty())
}

//! Where a call's path leads: a directory that is open, and a way down from it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat, openat2};
use rustix::io::Errno;

use super::calls::{FileError, FileKind};
use crate::process::OpenedDir;

/// A path beneath the working directory, not followed yet.
#[derive(Debug)]
pub(super) struct Place {
    root: OpenedDir,
    /// Relative to the root.
    below: PathBuf,
    /// As it was given, for messages.
    given: String,
}

impl Place {
    /// The place that `given` means. An absolute path must begin with the working directory, in
    /// the words of its configuration or with all links resolved.
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

    /// A regular file, open for reading, and what the system says about it.
    pub(super) fn file(&self) -> Result<(File, Stat), FileError> {
        let (found, stat) = self.find(&self.below)?;
        self.expect(&stat, FileType::RegularFile)?;
        let file = reopen(&found, OFlags::empty()).map_err(|errno| self.error(errno))?;
        Ok((file.into(), stat))
    }

    /// A directory, open for reading.
    pub(super) fn directory(&self) -> Result<OwnedFd, FileError> {
        let (found, stat) = self.find(&self.below)?;
        self.expect(&stat, FileType::Directory)?;
        reopen(&found, OFlags::DIRECTORY).map_err(|errno| self.error(errno))
    }

    /// The directory that holds the last part of the path, and that part.
    pub(super) fn parent(&self) -> Result<(OwnedFd, &OsStr), FileError> {
        let is_directory = self.given.ends_with('/') || self.given.ends_with("/.");
        let Some(name) = self.below.file_name().filter(|_| !is_directory) else {
            return Err(FileError::BadPath { path: self.given.clone() });
        };
        let parent = self.below.parent().filter(|parent| !parent.as_os_str().is_empty());
        let (found, stat) = self.find(parent.unwrap_or(Path::new(".")))?;
        self.expect(&stat, FileType::Directory)?;
        Ok((found, name))
    }

    /// An error where something is not of the kind that is wanted.
    pub(super) fn expect(&self, stat: &Stat, wanted: FileType) -> Result<(), FileError> {
        let found = FileType::from_raw_mode(stat.st_mode);
        if found == wanted {
            return Ok(());
        }
        let found = FileKind::of(found).phrase();
        let wanted = FileKind::of(wanted).phrase();
        Err(FileError::WrongKind { path: self.given.clone(), found, wanted })
    }

    fn find(&self, path: &Path) -> Result<(OwnedFd, Stat), FileError> {
        let find = || {
            let found = find(&self.root, path)?;
            let stat = fstat(&found)?;
            Ok((found, stat))
        };
        find().map_err(|errno| self.error(errno))
    }

    /// What the system said, in our words.
    pub(super) fn error(&self, errno: Errno) -> FileError {
        let path = self.given.clone();
        match errno {
            Errno::XDEV => FileError::Outside { path, root: self.root.path().to_owned() },
            Errno::NOENT => FileError::Missing { path },
            Errno::ACCESS | Errno::PERM => FileError::Permission { path },
            other => FileError::System { path, source: other.into() },
        }
    }

    /// The same for an error of the standard library.
    pub(super) fn io_error(&self, source: io::Error) -> FileError {
        FileError::System { path: self.given.clone(), source }
    }
}

// Paths that the kernel resolves beneath a directory.

/// How often a path is tried again that somebody changed while it was resolved.
const TRIES: usize = 32;

/// Finds what a relative path leads to, without opening it. Links are followed as long as they
/// stay beneath the directory; where they do not, and for `..` out of it, the error is `XDEV`.
pub(super) fn find(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES {
        match openat2(&directory, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS) => return walk(directory, path),
            found => return found,
        }
    }
    Err(Errno::AGAIN)
}

/// The same for kernels before 5.6: one part after the other, following no link at all.
pub(super) fn walk(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
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

/// Opens what was found, for reading: this very thing, whatever its path leads to by now.
pub(super) fn reopen(found: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let link = format!("/proc/self/fd/{}", found.as_raw_fd());
    // Some files of the kernel's own would make a reader wait.
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(link, flags, Mode::empty())
}

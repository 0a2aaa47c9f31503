//! Paths that the kernel resolves beneath a directory.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat, openat2};
use rustix::io::Errno;

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

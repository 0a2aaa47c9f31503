//! A file, replaced as a whole or not at all.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, accessat, fchmod, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::error::FileError;
use super::place::Place;

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// There was none before.
    Created,
    /// It has new content, and its mode.
    Replaced,
}

/// Permissions that stay; whoever changes a program's text takes its set-user-id bit from it.
const KEPT_MODE: u32 = 0o777;

/// Writes a file of this content. Whoever reads it meanwhile sees the old content or the new one.
/// A link is never written through, and never replaced.
pub(super) fn replace(place: &Place, content: &[u8]) -> Result<Written, FileError> {
    let (parent, name) = place.parent()?;
    let before = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(place.error(errno)),
        Ok(stat) => {
            place.expect(&stat, FileType::RegularFile)?;
            // The new file takes the name of the old one: nobody else would ask.
            accessat(&parent, name, Access::WRITE_OK, AtFlags::empty())
                .map_err(|errno| place.error(errno))?;
            Some(Mode::from_raw_mode(stat.st_mode & KEPT_MODE))
        }
    };
    let draft = Draft::create(&parent).map_err(|errno| place.error(errno))?;
    draft.fill(content, before).map_err(|error| place.io_error(error))?;
    draft.become_file(name).map_err(|errno| place.error(errno))?;
    Ok(if before.is_some() { Written::Replaced } else { Written::Created })
}

/// The new content under a name of its own; gone when it is dropped before it became the file.
struct Draft<'p> {
    parent: &'p OwnedFd,
    name: String,
    file: File,
}

impl<'p> Draft<'p> {
    fn create(parent: &'p OwnedFd) -> Result<Self, Errno> {
        // Nobody can be there already, by chance or on purpose.
        let number = getrandom::u64().map_err(|_| Errno::IO)?;
        let name = format!(".shellyard-{number:016x}.tmp");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(parent, &name, flags, Mode::from_raw_mode(0o666))?;
        Ok(Self { parent, name, file: file.into() })
    }

    fn fill(&self, content: &[u8], mode: Option<Mode>) -> io::Result<()> {
        if let Some(mode) = mode {
            fchmod(&self.file, mode)?;
        }
        let mut file = &self.file;
        file.write_all(content)?;
        // Else a crash could leave an empty file in the place of a full one.
        file.sync_data()
    }

    fn become_file(self, name: &OsStr) -> Result<(), Errno> {
        renameat(self.parent, &self.name, self.parent, name)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // Once it became the file there is nothing of this name.
        unlinkat(self.parent, &self.name, AtFlags::empty()).ok();
    }
}

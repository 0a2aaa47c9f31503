//! What is in a directory.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;

use super::error::FileError;
use super::place::Place;

/// What is in a directory, in the order of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// What is in it.
    pub entries: Vec<Listed>,
    /// Whether there is more in it.
    pub is_cut: bool,
}

/// One thing in a directory. Links are not followed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its name; what is no UTF-8 reads as `�`.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
}

/// What something in a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device.
    Special,
}

impl FileKind {
    /// The stable word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Link => "symlink",
            Self::Special => "special",
        }
    }

    /// The same in a sentence.
    pub(super) const fn phrase(self) -> &'static str {
        match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Special => "a FIFO, a socket or a device",
        }
    }

    pub(super) const fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Self::Special,
        }
    }
}

/// At most `most` things; of a larger directory, any.
pub(super) fn list(place: &Place, most: usize) -> Result<Listing, FileError> {
    let directory = place.directory()?;
    entries(&directory, most).map_err(|errno| place.error(errno))
}

fn entries(directory: impl AsFd, most: usize) -> Result<Listing, Errno> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entries.len() == most {
            entries.sort();
            return Ok(Listing { entries, is_cut: true });
        }
        match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => entries.push(Listed {
                name: name.to_string_lossy().into_owned(),
                kind: FileKind::of(FileType::from_raw_mode(stat.st_mode)),
                size: u64::try_from(stat.st_size).unwrap_or_default(),
            }),
            // Removed since it was named.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    entries.sort();
    Ok(Listing { entries, is_cut: false })
}

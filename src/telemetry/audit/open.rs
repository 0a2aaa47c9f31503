//! The files of a log, kept open from one entry to the next.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::head;
use crate::private_files::{Links, explain_link};

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
        Ok(Self { head, log, head_path: head::path_of(path), places })
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
    let mut options = Links::Refuse.options();
    let opened = options.read(true).append(true).create(true).mode(0o600).open(path);
    opened.map_err(explain_link)
}

//! The reserve: a file that only takes room, and is removed when the disk is full. Then endings of jobs can still
//! be recorded.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};

use crate::private_files::Symlinks;

const NAME: &str = "reserve";

/// The reserve of a journal.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    is_there: bool,
}

impl Reserve {
    /// Creates the file, if there is room.
    pub(super) fn new(dir: &Path, bytes: u64) -> Self {
        let mut reserve = Self { path: dir.join(NAME), bytes, is_there: false };
        reserve.restore();
        reserve
    }

    pub(super) const fn is_there(&self) -> bool {
        self.is_there
    }

    /// Removes the file; `false` if there is none.
    pub(super) fn release(&mut self) -> bool {
        let was_there = std::mem::replace(&mut self.is_there, false);
        was_there && fs::remove_file(&self.path).is_ok()
    }

    /// Creates the file again if the disk has twice as much room: a reserve that takes the last bytes would only
    /// fill the disk.
    pub(super) fn restore(&mut self) {
        self.is_there = self.create().is_ok();
        if !self.is_there {
            fs::remove_file(&self.path).ok();
        }
    }

    fn create(&self) -> io::Result<()> {
        let mut options = Symlinks::Refuse.options();
        let file: File =
            options.write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        if file.metadata()?.len() == self.bytes {
            return Ok(());
        }
        let disk = fstatvfs(&file)?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < self.bytes.saturating_mul(2) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        fallocate(&file, FallocateFlags::empty(), 0, self.bytes)?;
        Ok(())
    }
}

//! The reserve: a file that only takes room, and is removed when the disk is full. Then endings of jobs can still
//! be recorded.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

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
    /// Returns the reserve that an earlier server may have left. It is not created here: the server's start does
    /// not wait for that.
    pub(super) fn find(dir: &Path, bytes: u64) -> Self {
        let path = dir.join(NAME);
        let is_there = fs::symlink_metadata(&path).is_ok_and(|found| found.len() == bytes);
        Self { path, bytes, is_there }
    }

    pub(super) const fn is_there(&self) -> bool {
        self.is_there
    }

    /// Removes the file; `false` if there is none.
    pub(super) fn release(&mut self) -> bool {
        let was_there = std::mem::replace(&mut self.is_there, false);
        was_there && fs::remove_file(&self.path).is_ok()
    }

    /// Creates the file if the disk has twice as much room: a reserve that takes the last bytes would only fill the
    /// disk.
    pub(super) fn restore(&mut self) {
        if self.is_there {
            return;
        }
        self.is_there = self.create().is_ok();
        if !self.is_there {
            fs::remove_file(&self.path).ok();
        }
    }

    fn create(&self) -> io::Result<()> {
        let mut options = Symlinks::Refuse.options();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&self.path)?;
        let disk = fstatvfs(&file)?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < self.bytes.saturating_mul(2) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            Err(Errno::OPNOTSUPP) => {
                io::copy(&mut io::repeat(0).take(self.bytes), &mut &file).map(|_| ())
            }
            allocated => Ok(allocated?),
        }
    }
}

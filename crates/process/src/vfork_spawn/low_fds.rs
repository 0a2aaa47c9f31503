//! Low file numbers for new processes, for when the server has many files open.
//!
//! A new process gets a copy of our file table, and `exec` closes what is in it: with thousands of
//! files that takes longer than everything else. So the new process then shares our table, and
//! leaves it for its own table, which ends right above the files that it needs: higher files are
//! never copied. For that its files need low numbers, which are reserved from the start.
//!
//! Kernels before 6.11 may leave marks of files that were not copied in such a table
//! (CVE-2024-45025), so that the process could open only few: there a copy is made as usual.

use std::mem;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{DupFlags, Errno, dup3, fcntl_dupfd_cloexec};
use rustix::system::uname;

use crate::stdio::ChildFiles;
use crate::stdio::REPORT_FD;

/// The file number from which on the server has many files open. With fewer, a copy costs less than
/// this detour.
const MANY: RawFd = 512;

/// The number of sets. If none is free, a copy is made.
const SETS: usize = 2;

/// The size of a set: three standard files, the report, and the ruleset.
const SET_SIZE: usize = 5;

/// Reserved low file numbers.
#[derive(Debug, Default)]
pub(crate) struct LowFds {
    free: Mutex<Vec<Vec<OwnedFd>>>,
    /// The file that a free number refers to; `None` if none are reserved.
    nothing: Option<OwnedFd>,
}

/// The first kernel release without the bug in unshared file tables.
const SOUND: (u32, u32) = (6, 11);

impl LowFds {
    /// Reserves the numbers; call it while low ones are free. Reserves none if the kernel has the
    /// bug or gives no files.
    pub(crate) fn reserve() -> Self {
        Self::try_reserve().unwrap_or_default()
    }

    fn try_reserve() -> Result<Self, Errno> {
        if parse_release(&uname().release().to_string_lossy()) < Some(SOUND) {
            return Err(Errno::NOSYS);
        }
        let nothing = open(c"/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let reserve_one = |_| (0..SET_SIZE).map(|_| reserve_number(&nothing)).collect();
        let free: Result<Vec<Vec<OwnedFd>>, Errno> = (0..SETS).map(reserve_one).collect();
        Ok(Self { free: Mutex::new(free?), nothing: Some(nothing) })
    }

    /// Takes numbers for these files, if they have high numbers and a set is free.
    pub(crate) fn take(&self, files: &ChildFiles<'_>) -> Option<LowFdSet<'_>> {
        let outputs = [files.stdout, files.stderr];
        let is_one_of_many = |file: BorrowedFd<'_>| file.as_raw_fd() >= MANY;
        let wanted = outputs.into_iter().flatten().any(is_one_of_many);
        let fds = wanted.then(|| self.lock_free().pop()).flatten()?;
        Some(LowFdSet { low_fds: self, fds })
    }

    fn lock_free(&self) -> MutexGuard<'_, Vec<Vec<OwnedFd>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parses the first two numbers of a kernel's release, such as `6.11.2-amd64`.
fn parse_release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Reserves the lowest number that no program expects.
fn reserve_number(nothing: &OwnedFd) -> Result<OwnedFd, Errno> {
    let fd = fcntl_dupfd_cloexec(nothing, 3)?;
    if fd.as_raw_fd() == REPORT_FD { fcntl_dupfd_cloexec(nothing, 3) } else { Ok(fd) }
}

/// Numbers for the files of one new process. On drop they are free again.
#[derive(Debug)]
pub(crate) struct LowFdSet<'a> {
    low_fds: &'a LowFds,
    fds: Vec<OwnedFd>,
}

/// The files of a new process under their low numbers, all below `end`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LowFdFiles<'a> {
    pub(crate) files: ChildFiles<'a>,
    pub(crate) ruleset: Option<BorrowedFd<'a>>,
    pub(crate) end: RawFd,
}

impl LowFdSet<'_> {
    /// Duplicates the files to the low numbers.
    pub(crate) fn duplicate_files<'a>(
        &'a mut self,
        files: ChildFiles<'a>,
        ruleset: Option<BorrowedFd<'a>>,
    ) -> Result<LowFdFiles<'a>, Errno> {
        let end = self.fds.iter().map(|fd| fd.as_raw_fd() + 1).max().unwrap_or(0);
        let mut fds = self.fds.iter_mut();
        let mut duplicate_files = |file: Option<BorrowedFd<'_>>| {
            let (Some(file), Some(fd)) = (file, fds.next()) else { return Ok(None) };
            dup3(file, fd, DupFlags::CLOEXEC)?;
            let fd: &'a OwnedFd = fd;
            Ok(Some(fd.as_fd()))
        };
        let (stdin, report) = (duplicate_files(files.stdin)?, duplicate_files(files.report)?);
        let (stdout, stderr) = (duplicate_files(files.stdout)?, duplicate_files(files.stderr)?);
        let ruleset = duplicate_files(ruleset)?;
        let directory = files.directory;
        Ok(LowFdFiles {
            files: ChildFiles { directory, stdin, stdout, stderr, report },
            ruleset,
            end,
        })
    }
}

impl Drop for LowFdSet<'_> {
    fn drop(&mut self) {
        let mut fds = mem::take(&mut self.fds);
        let Some(nothing) = &self.low_fds.nothing else { return };
        // A pipe that stayed open here would never end.
        let is_clear = fds.iter_mut().all(|it| dup3(nothing, it, DupFlags::CLOEXEC).is_ok());
        if is_clear {
            self.low_fds.lock_free().push(fds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_are_compared_by_their_numbers() {
        for (text, expected) in [
            ("6.18.4-arch1-1", Some((6, 18))),
            ("6.11.0", Some((6, 11))),
            ("6.9-rc2", Some((6, 9))),
            ("10.0", Some((10, 0))),
            ("6", None),
            ("", None),
        ] {
            assert_eq!(parse_release(text), expected, "{text}");
        }
        assert!(parse_release("6.9") < Some(SOUND) && parse_release("?") < Some(SOUND));
    }
}

//! Going to a directory as it is seen in the namespace.

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::process::fchdir;

use super::tree::find;

/// Makes `path` the current directory, after [`super::apply`]. It is full and without symlinks.
///
/// A directory that was opened before is no way there: through it everything is still seen and
/// written as on the host. It tells that the path leads to the very directory that was meant.
///
/// # Errors
/// `ESTALE` where it leads elsewhere: it was moved meanwhile, or is hidden from the job.
pub(crate) fn enter(meant: BorrowedFd<'_>, path: &Path) -> std::io::Result<()> {
    let found = find(path)?;
    let (there, expected) = (fstat(&found)?, fstat(meant)?);
    if (there.st_dev, there.st_ino) != (expected.st_dev, expected.st_ino) {
        return Err(Errno::STALE.into());
    }
    Ok(fchdir(found)?)
}

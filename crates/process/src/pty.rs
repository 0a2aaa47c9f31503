//! A new terminal for a process.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const SIZE: Winsize = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };

/// A terminal: our side, which does not block, and the path of the process's side.
///
/// We never open the process's side: so reading ends when the last process has closed it.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) ours: OwnedFd,
    pub(super) theirs: CString,
}

impl Terminal {
    pub(super) fn open() -> io::Result<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        tcsetwinsize(&ours, SIZE)?;
        let theirs = ptsname(&ours, Vec::new())?;
        Ok(Self { ours, theirs })
    }
}

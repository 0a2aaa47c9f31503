//! A terminal for a process: a pseudoterminal, and its size.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::ioctl_fionbio;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct TerminalSize {
    /// The number of lines that fit.
    pub rows: u16,
    /// The number of characters in a line.
    pub columns: u16,
}

impl TerminalSize {
    /// The most rows or columns that a caller may ask for.
    pub const MAX: u16 = 10_000;
    /// The size of a terminal that nobody looks at.
    pub const DEFAULT: Self = Self { rows: 40, columns: 120 };

    /// Gives this size to a terminal; its foreground processes get SIGWINCH.
    fn set(self, terminal: impl AsFd) -> io::Result<()> {
        let Self { rows: ws_row, columns: ws_col } = self;
        Ok(tcsetwinsize(terminal, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 })?)
    }
}

/// Changes the size of a job's terminal, also while the job does not read its input.
#[derive(Debug)]
pub struct TerminalResizer(pub(crate) OwnedFd);

impl TerminalResizer {
    /// Gives the terminal this size.
    ///
    /// # Errors
    /// The system's error.
    pub fn resize(&self, size: TerminalSize) -> io::Result<()> {
        size.set(&self.0)
    }
}

/// A pseudoterminal: our side, which does not block, and the path of the process's side.
///
/// We never open the process's side, so that reading ends when the last process has closed it.
#[derive(Debug)]
pub(crate) struct PtyPair {
    pub(crate) ours: OwnedFd,
    pub(crate) theirs: CString,
}

impl PtyPair {
    pub(crate) fn open(size: TerminalSize) -> io::Result<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        ioctl_fionbio(&ours, true)?;
        size.set(&ours)?;
        let theirs = ptsname(&ours, Vec::new())?;
        Ok(Self { ours, theirs })
    }
}

//! Starting the processes that this one has beside it for its own work: this same program again.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::Pid;

use super::host;
use super::oom_score::OwnScore;
use super::raw::{self, Action, Plan};

/// It shall outlive a polite end of everything around it: it goes when we do.
const BLOCKED: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// This program, wherever its file is by now.
pub(super) const OURSELVES: &CStr = c"/proc/self/exe";

/// Starts one in a session of its own, with an empty environment, in the root directory; its
/// standard input is our line to it, its output goes nowhere.
pub(super) fn start(program: &CStr, argv: &[CString], line: BorrowedFd<'_>) -> Result<Pid, Errno> {
    let root = open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let actions = [
        Action::Chdir(root.as_fd()),
        Action::Dup { from: line, to: 0 },
        Action::Open { to: 1, path: c"/dev/null", flags: libc::O_WRONLY },
        Action::Copy { from: 1, to: 2 },
    ];
    // It is no job: it has the score of the server.
    let score = host::bequest().and_then(|bequest| bequest.score.as_ref());
    let _kept = score.map(OwnScore::keep);
    raw::posix_spawn(&Plan { path: program, argv, env: &[], actions: &actions, blocked: &BLOCKED })
}

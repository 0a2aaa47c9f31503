//! Who is ended first when memory is short: jobs, before their server is.

use std::fs;
use std::io;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::Pid;

/// How much higher the score of a job is than that of its server.
const MORE: i32 = 300;
const HIGHEST: i32 = 1000;

const OWN: &str = "/proc/self/oom_score_adj";

/// The score of jobs.
#[derive(Debug)]
pub(super) struct Score {
    text: String,
    set_by: SetBy,
}

/// Who can put it on a process. The files in /proc of a process that cannot be looked into are
/// root's: whoever shares the memory of such a server cannot write to its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SetBy {
    Itself,
    Parent,
}

impl Score {
    /// The score for jobs of this process, in the state in which it starts them.
    pub(super) fn of_jobs() -> io::Result<Self> {
        let own: i32 = fs::read_to_string(OWN)?.trim().parse().map_err(io::Error::other)?;
        let text = own.saturating_add(MORE).min(HIGHEST).to_string();
        let may_write = fs::OpenOptions::new().write(true).open(OWN).is_ok();
        Ok(Self { text, set_by: if may_write { SetBy::Itself } else { SetBy::Parent } })
    }

    /// Puts it on this process, where it can do that itself. Allocates nothing.
    pub(super) fn put_on_self(&self) -> Result<(), Errno> {
        match self.set_by {
            SetBy::Itself => {
                let file = open(OWN, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
                retry_on_intr(|| rustix::io::write(&file, self.text.as_bytes())).map(drop)
            }
            SetBy::Parent => Ok(()),
        }
    }

    /// Puts it on a process that could not do it itself. A program of another user is out of reach.
    pub(super) fn put_on(&self, pid: Pid) {
        if self.set_by == SetBy::Parent {
            fs::write(format!("/proc/{pid}/oom_score_adj"), &self.text).ok();
        }
    }
}

//! Who is ended first when memory is short: jobs, before their server is.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::Pid;

use super::proc_scan;

/// How much higher the score of a job is than that of its server.
const MORE: i32 = 300;
const HIGHEST: i32 = 1000;

const OWN: &str = "/proc/self/oom_score_adj";

/// How long the parent tries while the kernel still executes the new program. Longer than any
/// scheduling delay; a program that may not be read, or that changes its user, is refused for good.
const PATIENCE: Duration = Duration::from_millis(200);

/// Attempts without a pause: on another processor the kernel is done within microseconds.
const BUSY_ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_micros(50);

/// The score of jobs.
#[derive(Debug)]
pub(super) struct Score {
    number: i32,
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
        let number = score_in(OWN.as_ref())?.saturating_add(MORE).min(HIGHEST);
        let may_write = fs::OpenOptions::new().write(true).open(OWN).is_ok();
        Ok(Self {
            number,
            text: number.to_string(),
            set_by: if may_write { SetBy::Itself } else { SetBy::Parent },
        })
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

    /// Puts it on a process that has become its program, if that process could not do it itself.
    ///
    /// The kernel lets the parent go on before it gives the files in /proc of the new program to
    /// its user. Until then they cannot be opened, so the parent tries again. The program runs
    /// meanwhile: the children that it has by then get the score too, and later ones inherit it.
    /// Only a child that is being forked at this very moment is missed.
    pub(super) fn put_on(&self, pid: Pid) -> io::Result<()> {
        if self.set_by == SetBy::Itself {
            return Ok(());
        }
        self.put_on_program(pid)?;
        let children = proc_scan::children_of(pid).unwrap_or_default();
        children.into_iter().try_for_each(|child| self.put_on_program(child))
    }

    fn put_on_program(&self, pid: Pid) -> io::Result<()> {
        let file = file_of(pid);
        let deadline = Instant::now() + PATIENCE;
        let mut attempts = 0;
        loop {
            match fs::write(&file, &self.text) {
                Err(error) if is_refused(&error) && Instant::now() < deadline => {}
                Err(error) if is_gone(&error) => return Ok(()),
                written => return written,
            }
            attempts += 1;
            if attempts > BUSY_ATTEMPTS {
                // The files of a process that has ended are root's until it is reaped.
                if !proc_scan::stat(pid).is_some_and(|stat| stat.alive()) {
                    return Ok(());
                }
                thread::sleep(PAUSE);
            }
        }
    }

    /// Checks that a process has at least this score.
    pub(super) fn check(&self, pid: Pid) -> io::Result<()> {
        match score_in(file_of(pid).as_ref()) {
            Ok(score) if score >= self.number => Ok(()),
            Ok(score) => Err(io::Error::other(format!("it has {score} instead of {}", self.text))),
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn file_of(pid: Pid) -> String {
    format!("/proc/{pid}/oom_score_adj")
}

fn score_in(file: &Path) -> io::Result<i32> {
    fs::read_to_string(file)?.trim().parse().map_err(io::Error::other)
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// `true` if the process has ended and was reaped: it needs no score.
fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_is_gone_needs_no_score() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        child.wait().unwrap();
        let score = Score { number: 300, text: "300".to_owned(), set_by: SetBy::Parent };
        assert!(score.put_on(pid).is_ok() && score.check(pid).is_ok());
    }
}

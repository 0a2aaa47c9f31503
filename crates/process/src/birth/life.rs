//! What a new process does before it becomes its program, in this order.
//!
//! Nothing here allocates, takes a lock or can panic: it runs in the memory of its parent.

use std::convert::Infallible;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, ioctl_tiocsctty, setrlimit, setsid};
use rustix::thread::set_no_new_privs;

use super::kit::Kit;
use super::raw;
use super::step::{Failure, Step};
use crate::confine::{capabilities, landlock, rlimits, seccomp};
use crate::confinement::Backend;
use crate::host::Bequest;
use crate::report::REPORT_FD;

/// The life of a leader that needs no namespaces.
pub(super) fn live(kit: &Kit<'_>, ruleset: Option<BorrowedFd<'_>>) -> Result<Infallible, Failure> {
    kit.enter_directory()?;
    kit.part_with_files()?;
    kit.enter_cgroup()?;
    let standard = Standard::open(kit)?;
    become_leader(kit, &standard)?;
    execute(kit, ruleset)
}

/// Gets its own session, with default signals and its standard files.
pub(crate) fn become_leader(kit: &Kit<'_>, standard: &Standard) -> Result<(), Failure> {
    setsid().map_err(|errno| Step::Session.failed(errno))?;
    // Where it cannot be put, session, ancestors and marker tell who belongs to the job.
    kit.order.tag.map(|tag| tag.put_on(None));
    raw::default_signals(kit.signals).map_err(|errno| Step::Session.failed(errno))?;
    standard.take(kit).map_err(|errno| Step::Files.failed(errno))
}

/// Shuts itself in, by Landlock where there is a ruleset and by the filter of system calls last, and
/// becomes its program.
pub(crate) fn execute(
    kit: &Kit<'_>,
    ruleset: Option<BorrowedFd<'_>>,
) -> Result<Infallible, Failure> {
    let shut = kit.shut();
    kit.bequest.map_or(Ok(()), inherit).map_err(|errno| Step::Limits.failed(errno))?;
    rlimits::apply(&shut.limits, kit.most_tasks).map_err(|error| Step::Limits.failed(error))?;
    capabilities::give_up(shut.confinement.profile)
        .map_err(|error| Step::Capabilities.failed(error))?;
    if shut.backend != Backend::Nothing {
        set_no_new_privs(true).map_err(|errno| Step::Privileges.failed(errno))?;
    }
    if let Some(ruleset) = ruleset {
        landlock::restrict_self(ruleset).map_err(|errno| Step::Landlock.failed(errno))?;
    }
    if shut.backend != Backend::Nothing {
        seccomp::install(&kit.filters).map_err(|error| Step::Filter.failed(error))?;
    }
    Err(Step::Program.failed(kit.image.execute()))
}

/// Takes what jobs get, after all files are open: the parent may have more of them open.
fn inherit(bequest: &Bequest) -> Result<(), Errno> {
    setrlimit(Resource::Nofile, bequest.open_files(getrlimit(Resource::Nofile)))
}

/// Where standard input comes from, and both outputs where they are not pipes of their own.
///
/// Opened before anything is shut in: a job may not be able to open it by itself.
#[derive(Debug)]
pub(crate) enum Standard {
    Terminal(OwnedFd),
    Nothing(OwnedFd),
    Given,
}

impl Standard {
    pub(crate) fn open(kit: &Kit<'_>) -> Result<Self, Failure> {
        Self::try_open(kit).map_err(|errno| Step::Files.failed(errno))
    }

    fn try_open(kit: &Kit<'_>) -> Result<Self, Errno> {
        let flags = OFlags::CLOEXEC | OFlags::NOCTTY;
        match &kit.order.terminal {
            Some(path) => open(path, flags | OFlags::RDWR, Mode::empty()).map(Self::Terminal),
            None if kit.files.stdin.is_none() => {
                open(c"/dev/null", flags | OFlags::RDONLY, Mode::empty()).map(Self::Nothing)
            }
            None => Ok(Self::Given),
        }
    }

    /// Makes a terminal the standard input: that one the job finds in its own /dev.
    pub(crate) fn show_terminal(&self) -> Result<(), Errno> {
        match self {
            Self::Terminal(terminal) => raw::give_number(terminal.as_fd(), 0),
            Self::Nothing(_) | Self::Given => Ok(()),
        }
    }

    /// Puts every file under the number at which a program looks for it.
    fn take(&self, kit: &Kit<'_>) -> Result<(), Errno> {
        let files = kit.files;
        let (stdin, outputs) = match self {
            Self::Terminal(terminal) => {
                ioctl_tiocsctty(terminal)?;
                (Some(terminal.as_fd()), [Some(terminal.as_fd()); 2])
            }
            Self::Nothing(null) => (Some(null.as_fd()), [files.stdout, files.stderr]),
            Self::Given => (files.stdin, [files.stdout, files.stderr]),
        };
        for (number, file) in (0..).zip([stdin].into_iter().chain(outputs)) {
            raw::give_number(file.ok_or(Errno::BADF)?, number)?;
        }
        files.report.map_or(Ok(()), |file| raw::give_number(file, REPORT_FD))
    }
}

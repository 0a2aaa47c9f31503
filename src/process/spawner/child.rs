//! What a new process does before it becomes its program, in this order.

use std::convert::Infallible;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{fchdir, ioctl_tiocsctty, setsid};
use rustix::thread::set_no_new_privs;

use super::files::Files;
use super::raw::{self, Image};
use super::step::{Failure, Note, Step};
use super::wire::{Order, Shut};
use crate::confinement::Backend;
use crate::process::confine::landlock::FileRules;
use crate::process::confine::seccomp::Filters;
use crate::process::confine::{capabilities, landlock, rlimits, seccomp};
use crate::process::report::REPORT_FD;

/// What shells exit with that cannot execute their program.
const NOT_EXECUTED: i32 = 127;

/// All that a new process works with; made before it is born.
#[derive(Debug)]
pub(super) struct Kit<'a> {
    pub(super) order: &'a Order,
    pub(super) files: &'a Files,
    pub(super) image: &'a Image<'a>,
    pub(super) filters: &'a Filters,
    /// The cgroup that it has still to enter.
    pub(super) cgroup: Option<&'a OwnedFd>,
    /// Where Landlock is used.
    pub(super) rules: Option<FileRules>,
}

impl<'a> Kit<'a> {
    pub(super) fn new(
        order: &'a Order,
        files: &'a Files,
        image: &'a Image<'a>,
        filters: &'a Filters,
    ) -> Self {
        let network = order.shut.confinement.network;
        let writable = order.shut.writable.clone();
        let rules = writable.map(|writable| FileRules { writable, network });
        Self { order, files, image, filters, cgroup: files.cgroup.as_ref(), rules }
    }

    pub(super) const fn shut(&self) -> &Shut {
        &self.order.shut
    }

    pub(super) fn tell(&self, note: Note) {
        // Without a server nobody is interested, and the job ends with its pipes.
        retry_on_intr(|| rustix::io::write(&self.files.notes, &note.encode())).ok();
    }

    /// Tells why there is no job, and ends.
    pub(super) fn give_up(&self, failure: Failure) -> ! {
        self.tell(Note::Failed(failure));
        raw::leave(NOT_EXECUTED)
    }

    pub(super) fn enter_cgroup(&self) -> Result<(), Failure> {
        let Some(cgroup) = self.cgroup else { return Ok(()) };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let door = openat(cgroup, c"cgroup.procs", flags, Mode::empty());
        let entered = door.and_then(|door| retry_on_intr(|| rustix::io::write(&door, b"0")));
        entered.map(drop).map_err(|errno| Step::Cgroup.failed(errno))
    }

    pub(super) fn enter_directory(&self) -> Result<(), Failure> {
        fchdir(&self.files.directory).map_err(|errno| Step::Directory.failed(errno))
    }
}

/// The life of a leader that needs no namespaces.
pub(super) fn live(kit: &Kit<'_>) -> ! {
    let Err(failure) = prepare_and_execute(kit);
    kit.give_up(failure)
}

fn prepare_and_execute(kit: &Kit<'_>) -> Result<Infallible, Failure> {
    kit.enter_cgroup()?;
    let standard = Standard::open(kit)?;
    kit.enter_directory()?;
    become_leader(kit, &standard)?;
    execute(kit)
}

/// Gets its own session, with its standard files.
pub(super) fn become_leader(kit: &Kit<'_>, standard: &Standard) -> Result<(), Failure> {
    setsid().map_err(|errno| Step::Session.failed(errno))?;
    // Where it cannot be put, session, ancestors and marker tell who belongs to the job.
    kit.order.tag.map(|tag| tag.put_on(None));
    raw::unblock_signals().map_err(|errno| Step::Session.failed(errno))?;
    standard.take(kit).map_err(|errno| Step::Files.failed(errno))
}

/// Shuts itself in, the filter of system calls last, and becomes its program.
pub(super) fn execute(kit: &Kit<'_>) -> Result<Infallible, Failure> {
    let shut = kit.shut();
    rlimits::apply(&shut.limits, shut.backend).map_err(|error| Step::Limits.failed(error))?;
    capabilities::give_up(shut.confinement.profile)
        .map_err(|error| Step::Capabilities.failed(error))?;
    if shut.backend != Backend::Nothing {
        set_no_new_privs(true).map_err(|errno| Step::Privileges.failed(errno))?;
    }
    if let Some(rules) = &kit.rules {
        landlock::restrict(rules).map_err(|error| Step::Landlock.failed(error))?;
    }
    if shut.backend != Backend::Nothing {
        seccomp::install(kit.filters).map_err(|error| Step::Filter.failed(error))?;
    }
    Err(Step::Program.failed(kit.image.execute()))
}

/// Where standard input comes from, and both outputs where they are not pipes of their own.
///
/// Opened before anything is shut in: a job may not be able to open it by itself.
#[derive(Debug)]
pub(super) enum Standard {
    Terminal(OwnedFd),
    Nothing(OwnedFd),
    Given,
}

impl Standard {
    pub(super) fn open(kit: &Kit<'_>) -> Result<Self, Failure> {
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
    pub(super) fn show_terminal(&self) -> Result<(), Errno> {
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
                (Some(terminal), [Some(terminal); 2])
            }
            Self::Nothing(null) => (Some(null), [files.stdout.as_ref(), files.stderr.as_ref()]),
            Self::Given => (files.stdin.as_ref(), [files.stdout.as_ref(), files.stderr.as_ref()]),
        };
        for (number, file) in (0..).zip([stdin].into_iter().chain(outputs)) {
            raw::give_number(file.ok_or(Errno::BADF)?.as_fd(), number)?;
        }
        files.report.as_ref().map_or(Ok(()), |file| raw::give_number(file.as_fd(), REPORT_FD))
    }
}

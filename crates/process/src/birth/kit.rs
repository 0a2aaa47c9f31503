//! All that a new process works with.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::retry_on_intr;
use rustix::process::fchdir;

use super::filters;
use super::order::{Order, Shut};
use super::raw::{ALL_SIGNALS, Image, SignalSet, part_with_files};
use super::step::{Failure, Step};
use crate::confine::rlimits;
use crate::confine::seccomp::Filters;
use crate::host::Bequest;

/// The files that a new process starts with. Outputs are missing where a terminal is both.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Files<'a> {
    /// The directory in which it runs.
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) stdin: Option<BorrowedFd<'a>>,
    pub(crate) stdout: Option<BorrowedFd<'a>>,
    pub(crate) stderr: Option<BorrowedFd<'a>>,
    /// Where a shell leaves the exit codes of its last pipeline.
    pub(crate) report: Option<BorrowedFd<'a>>,
}

/// All that a new process works with; made before it is born.
#[derive(Debug)]
pub(crate) struct Kit<'a> {
    pub(crate) order: &'a Order,
    pub(crate) files: Files<'a>,
    pub(super) image: Image<'a>,
    pub(super) filters: Arc<Filters>,
    /// How many tasks its user may have, where the kernel is to hold that.
    pub(super) most_tasks: Option<u64>,
    /// What it gets instead of what its parent has.
    pub(super) bequest: Option<&'a Bequest>,
    /// The signals that may mean something else to its parent than by default.
    pub(super) signals: SignalSet,
    /// The cgroup that it has still to enter.
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
    /// Where it shares its parent's table of files: the number from which on it needs none of them.
    pub(super) shares_files: Option<RawFd>,
}

impl<'a> Kit<'a> {
    /// Packs it, for a parent from which a job may inherit everything.
    pub(crate) fn pack(order: &'a Order, files: Files<'a>) -> Result<Self, Failure> {
        let filters = filters::of(&order.shut).map_err(|error| Step::Filter.failed(error))?;
        let most_tasks = rlimits::most_tasks(&order.shut.limits, order.shut.backend);
        let image = Image::of(order);
        let (bequest, signals, cgroup, shares_files) = (None, ALL_SIGNALS, None, None);
        Ok(Self {
            order,
            files,
            image,
            filters,
            most_tasks,
            bequest,
            signals,
            cgroup,
            shares_files,
        })
    }

    pub(crate) const fn shut(&self) -> &Shut {
        &self.order.shut
    }

    pub(crate) fn enter_cgroup(&self) -> Result<(), Failure> {
        let Some(cgroup) = self.cgroup else { return Ok(()) };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let door = openat(cgroup, c"cgroup.procs", flags, Mode::empty());
        let entered = door.and_then(|door| retry_on_intr(|| rustix::io::write(&door, b"0")));
        entered.map(drop).map_err(|errno| Step::Cgroup.failed(errno))
    }

    /// Gets a table of files of its own; before, it must neither open nor close any.
    pub(super) fn part_with_files(&self) -> Result<(), Failure> {
        let parted = self.shares_files.map_or(Ok(()), part_with_files);
        parted.map_err(|errno| Step::Files.failed(errno))
    }

    pub(crate) fn enter_directory(&self) -> Result<(), Failure> {
        fchdir(self.files.directory).map_err(|errno| Step::Directory.failed(errno))
    }
}

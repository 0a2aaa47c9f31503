//! The server's side: creates a leader by itself.

use std::cell::Cell;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::Pid;

use super::berth::{Berth, Moored};
use super::clone::{Table, bear_child, bear_child_in};
use super::kit::{Files, Kit};
use super::life;
use super::order::Order;
use super::raw;
use super::step::{Failure, Step};
use crate::children::{self, Child};
use crate::confine::landlock;
use crate::host;
use crate::report::REPORT_FD;

/// What shells exit with that cannot execute their program.
const NOT_EXECUTED: i32 = 127;

/// A process that has just become its program.
#[derive(Debug)]
pub(crate) struct Newborn {
    pub(crate) child: Child,
    /// Becomes readable when it ends.
    pub(crate) pidfd: OwnedFd,
}

/// A new process's part, and what it tells while it lives in our memory.
#[derive(Debug)]
struct Part<'a> {
    kit: Kit<'a>,
    ruleset: Option<BorrowedFd<'a>>,
    /// The process sets this as the first thing it does.
    exists: Arc<AtomicBool>,
    failure: Cell<Option<Failure>>,
}

/// Creates a process, which must need no namespaces, in the cgroup of this directory. It has become
/// its program when this returns; after an error there is none.
pub(crate) fn create(
    order: &Order,
    files: Files<'_>,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Newborn, Failure> {
    let bequest = host::bequest();
    let rules = order.shut.file_rules();
    let ruleset = rules.map(|rules| landlock::ruleset(&rules)).transpose();
    let ruleset = ruleset.map_err(|error| Step::Landlock.failed(error))?;
    let ruleset = ruleset.map(out_of_the_way).transpose();
    let ruleset = ruleset.map_err(|errno| Step::Files.failed(errno))?;
    let ruleset = ruleset.as_ref().map(OwnedFd::as_fd);
    let mut berth = cgroup.and_then(|_| Berth::take(&files));
    let moored = berth.as_mut().map(|berth| berth.moor(files, ruleset)).transpose();
    let moored = moored.map_err(|errno| Step::Files.failed(errno))?;
    let (files, ruleset, shares_files) = match moored {
        Some(Moored { files, ruleset, end }) => (files, ruleset, Some(end)),
        None => (files, ruleset, None),
    };
    let kit = Kit { bequest, shares_files, ..Kit::pack(order, files)? };
    let exists = Arc::new(AtomicBool::new(false));
    let mut part = Part { kit, ruleset, exists, failure: Cell::new(None) };
    let newborn = children::creating(|desk| {
        let score = bequest.and_then(|bequest| bequest.score.as_ref());
        let raised = score.map(|score| score.raise(Arc::clone(&part.exists)));
        let born = bear(&mut part, cgroup);
        drop(raised);
        let (pid, pidfd) = born.map_err(|errno| Step::Birth.failed(errno))?;
        let child = desk.register(pid);
        match part.failure.get() {
            None => Ok(Newborn { child, pidfd }),
            Some(failure) => {
                child.outlive();
                Err(failure)
            }
        }
    })?;
    if let Some(bequest) = bequest {
        bequest.complete(newborn.child.pid());
    }
    Ok(newborn)
}

/// The same file under a number that no file of a new process gets: it is used after those are in
/// their places.
fn out_of_the_way(file: OwnedFd) -> Result<OwnedFd, Errno> {
    if file.as_raw_fd() == REPORT_FD { fcntl_dupfd_cloexec(file, REPORT_FD + 1) } else { Ok(file) }
}

fn bear<'a>(part: &mut Part<'a>, cgroup: Option<BorrowedFd<'a>>) -> Result<(Pid, OwnedFd), Errno> {
    if let Some(cgroup) = cgroup {
        part.kit.signals = raw::ignored_signals();
        let table = part.kit.shares_files.map_or(Table::Copied, |_| Table::Shared);
        if let Ok(born) = bear_child_in(cgroup, table, live, part) {
            return Ok(born);
        }
    }
    // It goes there by itself, and has our handlers and copies of our files.
    part.kit.cgroup = cgroup;
    part.kit.shares_files = None;
    part.kit.signals = raw::ALL_SIGNALS;
    bear_child(live, part)
}

fn live(part: &Part<'_>) -> ! {
    part.exists.store(true, Ordering::Release);
    let Err(failure) = life::live(&part.kit, part.ruleset);
    part.failure.set(Some(failure));
    raw::leave(NOT_EXECUTED)
}

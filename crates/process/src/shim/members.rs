//! The processes below a shim: signals to all of them.
//!
//! In a pid namespace of its own the shim is the first process, and one call reaches all others.
//! Elsewhere they are found by descent, in `/proc/PID/task/TID/children`. A process is signalled
//! through a pidfd that was opened before its parent was read: a number that another process has got
//! meanwhile reaches nobody.

use std::collections::HashSet;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process_group, pidfd_open, pidfd_send_signal,
};

use super::namespaces;
use crate::processes::{self, ProcStat};

/// The most passes over a tree that keeps growing while it is being stopped.
const STOP_PASSES: u32 = 20;

/// The means by which a shim reaches the processes below it.
#[derive(Debug)]
pub(super) struct Members {
    /// `true` if the shim is the first process of a pid namespace.
    is_init: bool,
    /// The directory of the job's cgroup.
    cgroup: Option<OwnedFd>,
    /// The job's first process, until it was reaped.
    pub(super) leader: Option<Pid>,
}

impl Members {
    pub(super) const fn new(is_init: bool, cgroup: Option<OwnedFd>) -> Self {
        Self { is_init, cgroup, leader: None }
    }

    pub(super) const fn is_init(&self) -> bool {
        self.is_init
    }

    pub(super) fn cgroup(&self) -> Option<&OwnedFd> {
        self.cgroup.as_ref()
    }

    /// Sends a signal to every process, and wakes those that are stopped so that they can act on it.
    pub(super) fn signal(&self, signal: i32) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        if signal == Signal::KILL {
            return self.kill();
        }
        let wakes = !is_about_stopping(signal);
        if self.is_init {
            namespaces::signal_all(signal);
            if wakes {
                namespaces::signal_all(Signal::CONT);
            }
            return;
        }
        // The whole group gets it by one call: none of it is missed.
        let group = self.leader.filter(|leader| kill_process_group(*leader, signal).is_ok());
        visit_descendants(|stat, process| {
            if group.is_none_or(|group| group.as_raw_nonzero().get() != stat.group) {
                // It is gone already, or not ours to signal.
                pidfd_send_signal(process, signal).ok();
            }
            if wakes {
                pidfd_send_signal(process, Signal::CONT).ok();
            }
        });
    }

    /// Kills every process that can be found now. Others may be left: call it again until there is no
    /// child.
    pub(super) fn kill(&self) {
        self.kill_cgroup();
        if self.is_init {
            return namespaces::signal_all(Signal::KILL);
        }
        if let Some(leader) = self.leader {
            kill_process_group(leader, Signal::KILL).ok();
        }
        // A stopped process starts no others: a tree that grows faster than it is read is stopped first.
        let mut stopped = HashSet::new();
        for _ in 0..STOP_PASSES {
            let before = stopped.len();
            visit_descendants(|stat, process| {
                if stopped.insert(stat.key()) {
                    pidfd_send_signal(process, Signal::STOP).ok();
                }
            });
            if stopped.len() == before {
                break;
            }
        }
        visit_descendants(|_, process| {
            pidfd_send_signal(process, Signal::KILL).ok();
        });
    }

    fn kill_cgroup(&self) {
        let Some(cgroup) = &self.cgroup else { return };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        // An older kernel has no such file.
        if let Ok(file) = openat(cgroup.as_fd(), c"cgroup.kill", flags, Mode::empty()) {
            retry_on_intr(|| rustix::io::write(&file, b"1")).ok();
        }
    }
}

/// `true` for signals after which a stopped process must stay stopped, or that need no waking.
const fn is_about_stopping(signal: Signal) -> bool {
    matches!(
        signal,
        Signal::STOP | Signal::TSTP | Signal::TTIN | Signal::TTOU | Signal::CONT | Signal::KILL
    )
}

/// Calls `act` for each living process below this one, parents before their children, with its pidfd.
fn visit_descendants(mut act: impl FnMut(&ProcStat, &OwnedFd)) {
    let mut todo = vec![getpid()];
    while let Some(parent) = todo.pop() {
        for child in processes::children_of(parent) {
            let Ok(process) = pidfd_open(child, PidfdFlags::empty()) else { continue };
            let is_child =
                |stat: &ProcStat| stat.parent == parent.as_raw_nonzero().get() && stat.is_alive();
            if let Some(stat) = processes::stat(child).filter(is_child) {
                act(&stat, &process);
                todo.push(child);
            }
        }
    }
}

//! Finds out if a process descends from this server.

use std::fs;
use std::io::ErrorKind;

use rustix::process::{Pid, getpid};

use crate::guardian;
use crate::host;
use crate::proc_scan::{self, Snapshot, Stat};
use crate::spawner;
use crate::tag::Tag;

/// Generations that are looked at; a process that is deeper down counts as ours.
const MAX_DEPTH: usize = 1000;

/// Walks that are tried when ancestors end while one is under way.
const ATTEMPTS: usize = 16;

/// The place of a process relative to this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ancestry {
    /// A descendant of this server.
    Ours,
    /// Any other process.
    Outside,
    /// The process is gone, or its ancestors cannot be read.
    Unknown,
}

/// Finds the place of a process by walking up its ancestors.
pub(super) fn ancestry_of(pid: Pid) -> Ancestry {
    (0..ATTEMPTS).find_map(|_| walk_up(pid)).unwrap_or(Ancestry::Unknown)
}

/// Returns `None` if an ancestor ended during the walk, which moved its children elsewhere.
fn walk_up(pid: Pid) -> Option<Ancestry> {
    let us = getpid().as_raw_pid();
    let Some(mut current) = proc_scan::stat(pid) else { return Some(Ancestry::Unknown) };
    for _ in 0..MAX_DEPTH {
        if current.parent == us {
            return Some(Ancestry::Ours);
        }
        // 0 is a parent outside of our process namespace, where no descendant of ours can be.
        if current.parent <= 1 {
            return Some(Ancestry::Outside);
        }
        let parent = proc_scan::stat(Pid::from_raw(current.parent)?);
        // A number belongs to the parent for as long as the child names it. Checked afterwards, so
        // that a number which was given to another process meanwhile is not taken for the parent.
        let is_same = |now: Stat| (now.parent, now.started) == (current.parent, current.started);
        if !proc_scan::stat(current.pid).is_some_and(is_same) {
            return None;
        }
        match parent {
            Some(parent) => current = parent,
            None => return Some(behind_hidden_parent(pid, current.parent)),
        }
    }
    Some(Ancestry::Ours)
}

/// The place of a process with a living ancestor that /proc does not show. Mounted with `hidepid`,
/// /proc shows no process of other users, who are ancestors of every ordinary client there.
fn behind_hidden_parent(pid: Pid, parent: i32) -> Ancestry {
    let is_hidden = |pid: i32| {
        // Needs no descriptor, so that this does not fail where there are none left.
        fs::symlink_metadata(format!("/proc/{pid}")).is_err_and(|e| e.kind() == ErrorKind::NotFound)
    };
    if !is_hidden(1) || !is_hidden(parent) {
        return Ancestry::Unknown;
    }
    let ours = host::prepare().ok().and_then(|host| host.inherited());
    let carries_tag =
        ours.is_some_and(|ours| Tag::read(pid).is_some_and(|tag| tag.same_server(ours)));
    if carries_tag { Ancestry::Ours } else { Ancestry::Outside }
}

/// Returns `true` while any process of any job is alive, those included that outlived their job.
pub(super) fn has_job_processes() -> bool {
    let us = getpid().as_raw_pid();
    let helpers = [guardian::pid(), spawner::pid()];
    let is_child = |stat: &Stat| stat.parent == us && !helpers.contains(&Some(stat.pid));
    Snapshot::take().iter().any(|stat| stat.alive() && is_child(stat))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_is_ours_and_our_parent_is_not() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        assert_eq!(ancestry_of(pid), Ancestry::Ours);
        assert!(has_job_processes());
        child.kill().unwrap();
        assert_eq!(ancestry_of(pid), Ancestry::Ours, "also before it is reaped");
        child.wait().unwrap();
        assert_eq!(ancestry_of(rustix::process::getppid().unwrap()), Ancestry::Outside);
        assert_eq!(ancestry_of(Pid::from_raw(i32::MAX).unwrap()), Ancestry::Unknown);
    }
}

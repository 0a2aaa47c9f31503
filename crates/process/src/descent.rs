//! The processes of a tree, found from parent to child.
//!
//! A scan of /proc reads a file for every process of the host. The lists of children lead to the
//! processes of one tree alone, and a parent that is stopped before its list is read has no more
//! children than the list says. So this holds up a fork bomb whose processes leave their session,
//! where nothing else does: beside hundreds of busy processes the server gets little of a processor.

use std::collections::{HashMap, HashSet};

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::children;
use super::killing;
use super::orphans;
use super::proc_scan::{self, ProcessKey, Stat, State};
use super::tree::Tree;

/// The most passes over a tree that keeps growing while it is being stopped.
const STOP_PASSES: u32 = 20;

/// The processes that were stopped, and that ran until then.
#[derive(Debug, Default)]
pub struct StoppedProcesses(HashMap<ProcessKey, Stat>);

impl StoppedProcesses {
    /// Lets them go on.
    pub fn resume(&self) {
        for stat in self.0.values() {
            // Gone already, or not ours to signal.
            killing::send(stat, Signal::CONT).ok();
        }
    }
}

impl Tree {
    /// Counts the leader, while it lives, the orphans that are known to be of this tree, and all that
    /// came out of them. Those are included that have ended and were not reaped yet; children of
    /// other threads than a process's first are not. Counts no further than to the first above `most`:
    /// beside a fork bomb each costs time.
    #[must_use]
    pub fn count_descendants(&self, most: u64) -> u64 {
        let mut found = HashSet::new();
        let mut todo = self.topmost();
        while let Some(pid) = todo.pop().filter(|_| found.len() as u64 <= most) {
            if found.insert(pid) {
                // Gone, or a kernel without such lists.
                todo.extend(proc_scan::children_of(pid).unwrap_or_default());
            }
        }
        found.len() as u64
    }

    /// Stops the same processes, parents before their children, in passes until one finds no other
    /// process that runs. Blocks.
    #[must_use = "who was stopped has to be resumed or ended"]
    pub fn stop_descendants(&self) -> StoppedProcesses {
        let mut stopped = StoppedProcesses::default();
        for _ in 0..STOP_PASSES {
            let before = stopped.0.len();
            self.stop_in_one_pass(&mut stopped.0);
            if stopped.0.len() == before {
                break;
            }
        }
        stopped
    }

    fn stop_in_one_pass(&self, stopped: &mut HashMap<ProcessKey, Stat>) {
        let mut todo: Vec<(Pid, Pid)> =
            self.topmost().into_iter().map(|pid| (pid, getpid())).collect();
        while let Some((pid, parent)) = todo.pop() {
            // A process that was told to stop may still read as running for a moment.
            stopped.extend(stop_child(pid, parent).map(|stat| (stat.key(), stat)));
            let below = proc_scan::children_of(pid).unwrap_or_default();
            todo.extend(below.into_iter().map(|child| (child, pid)));
        }
    }

    /// The processes of the tree whose parent is the server.
    fn topmost(&self) -> Vec<Pid> {
        let identity = self.identity();
        let mut topmost = Vec::new();
        if !identity.is_leader_reaped() {
            topmost.push(identity.leader());
        }
        let list = orphans::adopted_children();
        let is_ours = |pid: &Pid| {
            let stat = proc_scan::stat(*pid).filter(|_| !children::is_owned(*pid));
            stat.is_some_and(|stat| orphans::owner_of(&stat, &list) == Some(identity.id()))
        };
        let adopted = proc_scan::main_thread_children().unwrap_or_default();
        topmost.extend(adopted.into_iter().filter(is_ours));
        topmost
    }
}

/// Stops a process if it is a child of this parent and runs. Returns it if it was stopped.
fn stop_child(pid: Pid, parent: Pid) -> Option<Stat> {
    // The descriptor holds on to one process: the one that is then seen below that parent.
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let stat = proc_scan::stat(pid)?;
    let is_running = match stat.state {
        State::Active | State::Uninterruptible => true,
        State::Stopped | State::Dead => false,
    };
    if !is_running || stat.parent != parent.as_raw_nonzero().get() {
        return None;
    }
    pidfd_send_signal(process, Signal::STOP).ok().map(|()| stat)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::{Confine, Launch, LaunchStdin, Process, Report, host, spawn};
    use super::*;

    /// A shell with a child and an orphan in sessions of their own; the orphan has a child as well.
    fn scattered() -> Process {
        host::prepare().unwrap();
        let text = "(setsid sh -c 'sleep 1000; :' &); setsid sleep 1000 & wait";
        let launch = Launch {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), text.into()],
            arg0: None,
            env: Vec::new(),
            cwd: "/".into(),
            stdin: LaunchStdin::Null,
            report: Report::None,
            confine: Confine::not(),
        };
        spawn(&launch).unwrap()
    }

    fn states(process: &Process) -> Vec<State> {
        let pids = process.tree.alive().into_iter();
        let pids = pids.filter_map(|pid| Pid::from_raw(pid.cast_signed()));
        pids.filter_map(proc_scan::stat).map(|stat| stat.state).collect()
    }

    #[track_caller]
    fn eventually(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[tokio::test]
    async fn processes_that_left_the_session_are_counted_stopped_and_resumed() {
        let process = scattered();
        let tree = &process.tree;
        // The shell, a child, and an orphan with a child.
        eventually("all are there", || tree.count_descendants(10) == 4);
        assert_eq!(tree.count_descendants(2), 3, "the first above two");
        eventually("they are their programs", || states(&process).len() == 4);
        let are_all = |state| states(&process).iter().all(|found| *found == state);
        let stopped = tree.stop_descendants();
        assert_eq!(stopped.0.len(), 4);
        eventually("all are stopped", || are_all(State::Stopped));
        assert!(tree.stop_descendants().0.is_empty(), "nobody runs");
        stopped.resume();
        eventually("all go on", || are_all(State::Active));
        assert_eq!(tree.kill(), [0; 0]);
    }
}

//! Inspects processes from outside, through /proc and signals.

use std::fmt;
use std::fs;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use super::wait::eventually;

/// A number of seconds that no other process on this machine sleeps for.
///
/// `sleep {marker}` makes a process that can be found by its command line, whatever session,
/// group or parent it has moved to.
#[derive(Debug)]
pub(crate) struct Marker(String);

impl Marker {
    /// Creates a unique marker.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("3141.{:07}{number:05}", process::id()))
    }

    /// The processes whose command line has this marker.
    pub(crate) fn alive(&self) -> Vec<i32> {
        processes_with(&self.0)
    }

    /// The number of processes that sleep for this marker.
    pub(crate) fn sleeping(&self) -> usize {
        self.alive().iter().filter(|pid| command_line(**pid).starts_with("sleep ")).count()
    }

    /// Waits for a process that sleeps for this marker.
    #[track_caller]
    pub(crate) fn wait_alive(&self) {
        eventually(&format!("`sleep {self}` runs"), || self.sleeping() > 0);
    }

    /// Waits until no process has this marker.
    #[track_caller]
    pub(crate) fn wait_gone(&self) {
        eventually(&format!("nothing with `{self}` in its command line is left"), || {
            self.alive().is_empty()
        });
    }

    /// Kills the remaining processes, so that a failed test leaves nothing behind.
    fn kill_all(&self) {
        for pid in self.alive() {
            signal(pid, Signal::KILL);
        }
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        self.kill_all();
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the living processes with `needle` in their command line, except this one. A zombie has
/// no command line, so it does not count as alive.
fn processes_with(needle: &str) -> Vec<i32> {
    let own = i32::try_from(process::id()).expect("a pid fits");
    fs::read_dir("/proc")
        .expect("/proc is there")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != own && command_line(*pid).contains(needle))
        .collect()
}

/// The words of a process's command line; empty when it is gone.
fn command_line(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Sends a signal; a process that is already gone is fine.
pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        kill_process(pid, signal).ok();
    }
}

/// A process that is suspended until this is dropped.
#[derive(Debug)]
pub(crate) struct SuspendedProcess {
    pid: i32,
}

impl SuspendedProcess {
    /// Suspends a process, and waits until all its threads have stopped.
    #[track_caller]
    pub(crate) fn new(pid: u32) -> Self {
        let pid = i32::try_from(pid).expect("a pid fits");
        signal(pid, Signal::STOP);
        let suspended = Self { pid };
        eventually("the process is suspended", || state_of(pid).as_deref() == Some("T"));
        suspended
    }
}

impl Drop for SuspendedProcess {
    fn drop(&mut self) {
        signal(self.pid, Signal::CONT);
    }
}

/// `true` if a process has ended with all its threads, and its parent can reap it. The first thread may
/// end before the others.
pub(crate) fn is_zombie(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    threads == 1 && state_of(pid).as_deref() == Some("Z")
}

/// `true` while a process exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let state = i32::try_from(pid).ok().and_then(state_of);
    state.is_some_and(|state| state != "Z")
}

fn state_of(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit(") ").next()?.split(' ').next()?.to_owned())
}

/// The parent of a process; `None` if the process is gone.
pub(crate) fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
}

/// The children of a process, whichever of its threads started them, and those that passed to it. Dead
/// ones are included.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let numbers =
        lists.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<u32>>());
    numbers.collect()
}

/// The name of a process; `None` if the process is gone.
pub(crate) fn name_of(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// The difference between the chance that the kernel kills a process for lack of memory, and that of an
/// ordinary one; `None` if the process is gone.
pub(crate) fn oom_score_of(pid: u32) -> Option<i32> {
    fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).ok()?.trim().parse().ok()
}

/// The resident memory of a process.
pub(crate) fn rss_kib(pid: u32) -> u64 {
    status_kib(pid, "VmRSS:")
}

/// The peak resident memory of a process.
pub(crate) fn peak_rss_kib(pid: u32) -> u64 {
    status_kib(pid, "VmHWM:")
}

fn status_kib(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is alive");
    let line = status.lines().find(|line| line.starts_with(field)).expect("the kernel tells it");
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse().expect("a number of KiB")
}

/// Raises the limit of this process for open files: its end of each connection needs one.
#[track_caller]
pub(crate) fn raise_open_files() {
    let old = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: old.maximum, ..old }).expect("our own limit");
}

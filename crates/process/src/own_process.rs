//! The attributes of this process: those that it sets for itself, and those that jobs get instead.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setpriority_process,
    setrlimit,
};

use crate::syscalls;

const MOST_OPEN_FILES: u64 = 1 << 20;

/// The niceness of a thread that must not wait for jobs.
const FIRST_NICE: i32 = -10;

/// Makes this process one that cannot be inspected, survives the limit on file sizes, and passes on none
/// of the files that it was started with.
pub(crate) fn protect_process() {
    // Before Linux 5.11 this fails, and inherited files are passed on as usual.
    syscalls::close_inherited_on_exec().ok();
    syscalls::keep_exit_statuses();
    syscalls::survive_file_size_limit();
    // Our environment and memory hold tokens: no job may read them through /proc.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
}

/// Raises our limit on open files, and returns the old one: to [`MOST_OPEN_FILES`] if we may go
/// beyond the hard limit, as root may, otherwise up to the hard limit.
pub(crate) fn raise_open_files() -> Rlimit {
    let old = getrlimit(Resource::Nofile);
    let needed = Some(MOST_OPEN_FILES);
    let hard = old.maximum.unwrap_or(MOST_OPEN_FILES);
    if old.current.is_some_and(|current| current < MOST_OPEN_FILES) {
        let maximum = old.maximum.map(|hard| hard.max(MOST_OPEN_FILES));
        let beyond = setrlimit(Resource::Nofile, Rlimit { current: needed, maximum });
        let current = Some(hard.min(MOST_OPEN_FILES));
        // If this is refused, the limit stays: fewer jobs at a time, each with a clear error.
        beyond.or_else(|_| setrlimit(Resource::Nofile, Rlimit { current, ..old })).ok();
    }
    old
}

/// Returns this soft and this hard limit on open files within the hard limit of a process that is to
/// set them, which may be lower.
pub(crate) fn limit_open_files(
    (current, maximum): (Option<u64>, Option<u64>),
    hard: Option<u64>,
) -> Rlimit {
    let least = |limit: Option<u64>| match (limit, hard) {
        (Some(limit), Some(hard)) => Some(limit.min(hard)),
        (limit, None) | (None, limit) => limit,
    };
    Rlimit { current: least(current), maximum: least(maximum) }
}

/// Raises the priority of the calling thread, if the server has the privilege for that.
pub fn raise_thread_priority() {
    // `None` is the calling thread: on Linux each thread has its own niceness.
    setpriority_process(None, FIRST_NICE).ok();
}

/// The difference between the score of a job and that of its server.
const JOB_SCORE_OFFSET: i32 = 300;
const MAX_SCORE: i32 = 1000;

/// The out-of-memory score of this process, which is raised while a shim is forked: when memory is
/// short, the kernel ends jobs before their server.
///
/// A shim inherits the score of that moment, and its job inherits the shim's. The shim cannot raise it
/// by itself: it is not dumpable, and the files in /proc of such a process belong to root.
#[derive(Debug)]
pub(crate) struct OwnScore {
    file: File,
    own: i32,
}

impl OwnScore {
    /// Opens the score of this process; `None` if the kernel has no such scores. Call it while the
    /// process is still dumpable.
    pub(crate) fn open() -> Option<Self> {
        let file =
            OpenOptions::new().read(true).write(true).open("/proc/self/oom_score_adj").ok()?;
        let own = read_score(&file).ok()?;
        Some(Self { file, own })
    }

    /// Calls `create` with the score of jobs. Any process may raise its score, and go back.
    pub(crate) fn with_job_score<T>(&self, create: impl FnOnce() -> T) -> T {
        // A score that cannot be changed makes jobs and server equals.
        self.write(job_score(self.own)).ok();
        let created = create();
        self.write(self.own).ok();
        created
    }

    fn write(&self, score: i32) -> io::Result<()> {
        self.file.write_all_at(format!("{score}\n").as_bytes(), 0)
    }
}

fn job_score(own: i32) -> i32 {
    own.saturating_add(JOB_SCORE_OFFSET).min(MAX_SCORE)
}

fn read_score(file: &File) -> io::Result<i32> {
    let mut bytes = [0; 16];
    let length = file.read_at(&mut bytes, 0)?;
    let text = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned();
    text.lines().next().unwrap_or_default().trim().parse().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_gets_no_more_files_than_the_hard_limit_of_its_shim() {
        let started_with = (Some(1024), Some(4096));
        for (hard, expected) in [
            (None, started_with),
            (Some(1 << 20), started_with),
            (Some(2000), (Some(1024), Some(2000))),
            (Some(100), (Some(100), Some(100))),
        ] {
            let Rlimit { current, maximum } = limit_open_files(started_with, hard);
            assert_eq!((current, maximum), expected, "{hard:?}");
        }
    }

    #[test]
    fn jobs_have_a_higher_score_than_their_server() {
        for (own, expected) in [(0, 300), (-1000, -700), (699, 999), (800, 1000), (1000, 1000)] {
            assert_eq!(job_score(own), expected);
        }
    }
}

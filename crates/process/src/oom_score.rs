//! Out-of-memory scores: when memory is short, the kernel ends jobs before their server.
//!
//! A child inherits the score that its parent has at the moment of `clone`. It cannot raise the
//! score itself before it runs its program: until then it lives in the memory of a server that is
//! not dumpable, and the files in /proc of such a process belong to root. So the server raises its
//! own score for that moment. Any process may do that, and may go back to its former value.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;

use super::processes;

/// The difference between the score of a job and that of its server.
const JOB_SCORE_OFFSET: i32 = 300;
const MAX_SCORE: i32 = 1000;

const OWN: &str = "/proc/self/oom_score_adj";

/// The time that one process waits for the kernel to finish with another: longer than any
/// scheduling delay.
const PATIENCE: Duration = Duration::from_millis(200);

/// Attempts without a pause: on another processor the kernel is done within microseconds.
const BUSY_ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_micros(50);

/// Returns the score of the jobs of a server with this score.
fn job_score_for(own: i32) -> i32 {
    own.saturating_add(JOB_SCORE_OFFSET).min(MAX_SCORE)
}

/// Raises the score of this process, from which jobs inherit everything, to that of jobs.
pub(crate) fn raise_for_good() -> io::Result<()> {
    fs::write(OWN, job_score_for(read_score_file(OWN.as_ref())?).to_string())
}

/// The score of this process, which is raised while jobs are created.
#[derive(Debug)]
pub(crate) struct OwnScore {
    /// The file with the score, opened before this process becomes non-dumpable; `None` if it
    /// already was.
    file: Option<File>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// One flag for each creation in progress: `true` once it no longer needs the raised score.
    creations: Vec<Arc<AtomicBool>>,
    /// The score to restore; `None` while it is not raised.
    before: Option<i32>,
    /// `true` once the score could not be restored: it is not raised again.
    is_broken: bool,
    /// Scores that could not be set or restored since [`OwnScore::take_failures`].
    failures: u64,
}

impl OwnScore {
    /// Opens the score of this process. Call it while the process is still dumpable.
    ///
    /// # Errors
    /// If the kernel has no such scores.
    pub(crate) fn open() -> io::Result<Self> {
        read_score_file(OWN.as_ref())?;
        Ok(Self::in_file(OpenOptions::new().read(true).write(true).open(OWN).ok()))
    }

    fn in_file(file: Option<File>) -> Self {
        Self { file, state: Mutex::default() }
    }

    /// Raises the score for the creation of a job, until the returned guard is dropped. The job
    /// sets `exists` first of all, and inherits the score of jobs. If the score cannot be raised,
    /// nothing happens, and [`Self::ensure_on`] sets it later.
    ///
    /// A creation can take very long, for example from a disk that does not answer. Once its
    /// process exists, it no longer keeps the score raised: see [`Self::restore`].
    pub(crate) fn raise(&self, exists: Arc<AtomicBool>) -> RaisedScore<'_> {
        if let Some(file) = &self.file {
            let mut state = self.state();
            if state.raise(file).is_ok() {
                state.creations.push(Arc::clone(&exists));
            }
        }
        RaisedScore { score: self, exists }
    }

    /// Restores the score unless a creation needs it raised.
    pub(crate) fn restore(&self) {
        self.state().restore_if_idle(self.file.as_ref());
    }

    /// Keeps the normal score until the returned guard is dropped, for a child that is not a job.
    /// Creations of jobs wait meanwhile; this call waits until the processes of creations in
    /// progress exist.
    pub(crate) fn hold_normal(&self) -> impl Drop + '_ {
        let mut state = self.state();
        let deadline = Instant::now() + PATIENCE;
        while !state.is_idle() && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        state.restore(self.file.as_ref());
        state
    }

    /// Makes sure that a job has its score. It already has, unless the server could not raise its
    /// own; then the program already runs. The children that it has by then get the score too, and
    /// later ones inherit it; only a child that is being forked at this very moment is missed.
    pub(crate) fn ensure_on(&self, pid: Pid) {
        self.report(self.try_ensure_on(pid));
    }

    fn try_ensure_on(&self, pid: Pid) -> io::Result<()> {
        let score = self.job_score()?;
        if check(pid, score).is_ok() {
            return Ok(());
        }
        put_on_program(pid, score)?;
        let children = processes::children_of(pid).unwrap_or_default();
        children.into_iter().try_for_each(|child| put_on_program(child, score))
    }

    /// Checks that a job has at least its score.
    pub(crate) fn check(&self, pid: Pid) {
        self.report(self.try_check(pid));
    }

    fn try_check(&self, pid: Pid) -> io::Result<()> {
        check(pid, self.job_score()?)
    }

    /// Returns the number of scores that could not be set or restored since the last call.
    pub(crate) fn take_failures(&self) -> u64 {
        std::mem::take(&mut self.state().failures)
    }

    fn report(&self, result: io::Result<()>) {
        if let Err(error) = result {
            let why = error.to_string();
            tracing::warn!(?why, "the out-of-memory score of a job could not be raised");
            self.state().failures += 1;
        }
    }

    fn job_score(&self) -> io::Result<i32> {
        let own = match (self.state().before, &self.file) {
            (Some(before), _) => before,
            (None, Some(file)) => read_score(file)?,
            (None, None) => read_score_file(OWN.as_ref())?,
        };
        Ok(job_score_for(own))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn raise(&mut self, file: &File) -> io::Result<()> {
        if self.is_broken {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if self.before.is_none() {
            // Read each time: an administrator may have changed it.
            let own = read_score(file)?;
            write_score(file, job_score_for(own))?;
            self.before = Some(own);
        }
        Ok(())
    }

    /// `true` if no creation needs the raised score.
    fn is_idle(&self) -> bool {
        self.creations.iter().all(|exists| exists.load(Ordering::Acquire))
    }

    fn restore_if_idle(&mut self, file: Option<&File>) {
        if self.is_idle() {
            self.restore(file);
        }
    }

    fn restore(&mut self, file: Option<&File>) {
        let (Some(before), Some(file)) = (self.before, file) else { return };
        self.before = None;
        if let Err(error) = write_score(file, before) {
            self.is_broken = true;
            self.failures += 1;
            let why = error.to_string();
            tracing::error!(?why, "the out-of-memory score of the server could not be restored");
        }
    }
}

/// A guard that keeps the server's score raised for one creation.
#[derive(Debug)]
pub(crate) struct RaisedScore<'a> {
    score: &'a OwnScore,
    exists: Arc<AtomicBool>,
}

impl Drop for RaisedScore<'_> {
    fn drop(&mut self) {
        // Set here too: if the creation failed, there is no process to set it.
        self.exists.store(true, Ordering::Release);
        let mut state = self.score.state();
        state.creations.retain(|exists| !Arc::ptr_eq(exists, &self.exists));
        state.restore_if_idle(self.score.file.as_ref());
    }
}

/// Sets the score of a process that already runs its program. The kernel lets the parent go on
/// before it gives the files in /proc of the new program to its user. Until then they cannot be
/// opened, so the parent tries again. A program that may not be read, or that changes its user, is
/// refused permanently.
fn put_on_program(pid: Pid, score: i32) -> io::Result<()> {
    let file = score_file(pid);
    let text = score.to_string();
    let deadline = Instant::now() + PATIENCE;
    let mut attempts = 0;
    loop {
        match fs::write(&file, &text) {
            Err(error) if is_refused(&error) && Instant::now() < deadline => {}
            Err(error) if is_gone(&error) => return Ok(()),
            written => return written,
        }
        attempts += 1;
        if attempts > BUSY_ATTEMPTS {
            // The files of a process that has ended belong to root until it is reaped.
            if !processes::stat(pid).is_some_and(|stat| stat.is_alive()) {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
    }
}

fn check(pid: Pid, least: i32) -> io::Result<()> {
    match read_score_file(score_file(pid).as_ref()) {
        Ok(score) if score >= least => Ok(()),
        Ok(score) => Err(io::Error::other(format!("it has {score} instead of {least}"))),
        Err(error) if is_gone(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

fn score_file(pid: Pid) -> String {
    format!("/proc/{pid}/oom_score_adj")
}

fn read_score_file(file: &Path) -> io::Result<i32> {
    parse(&fs::read_to_string(file)?)
}

fn read_score(file: &File) -> io::Result<i32> {
    let mut bytes = [0; 16];
    let length = file.read_at(&mut bytes, 0)?;
    parse(&String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()))
}

fn write_score(file: &File, score: i32) -> io::Result<()> {
    file.write_all_at(format!("{score}\n").as_bytes(), 0)
}

fn parse(text: &str) -> io::Result<i32> {
    text.lines().next().unwrap_or_default().trim().parse().map_err(io::Error::other)
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

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    use super::*;

    /// The score of a process that does not exist, kept in memory.
    fn in_memory(score: i32) -> OwnScore {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("score", flags).unwrap());
        write_score(&file, score).unwrap();
        OwnScore::in_file(Some(file))
    }

    fn now(score: &OwnScore) -> i32 {
        read_score(score.file.as_ref().unwrap()).unwrap()
    }

    fn flag() -> Arc<AtomicBool> {
        Arc::new(AtomicBool::new(false))
    }

    #[test]
    fn jobs_have_a_higher_score_than_their_server() {
        for (own, expected) in [(0, 300), (-1000, -700), (699, 999), (800, 1000), (1000, 1000)] {
            assert_eq!(job_score_for(own), expected);
        }
    }

    #[test]
    fn the_first_creation_raises_the_score_and_the_last_restores_it() {
        let score = in_memory(-5);
        let first = score.raise(flag());
        let second = score.raise(flag());
        assert_eq!((now(&score), score.job_score().unwrap()), (295, 295));
        drop(first);
        score.restore();
        assert_eq!(now(&score), 295, "the second may not have started");
        drop(second);
        assert_eq!((now(&score), score.job_score().unwrap()), (-5, 295));
        // An administrator changes it.
        write_score(score.file.as_ref().unwrap(), 100).unwrap();
        let third = score.raise(flag());
        assert_eq!(now(&score), 400);
        drop(third);
        assert_eq!(now(&score), 100);
    }

    #[test]
    fn a_creation_that_takes_long_keeps_the_score_up_only_until_its_process_exists() {
        let score = in_memory(0);
        let exists = flag();
        let slow = score.raise(Arc::clone(&exists));
        exists.store(true, Ordering::Release);
        score.restore();
        assert_eq!(now(&score), 0);
        let quick = score.raise(flag());
        assert_eq!(now(&score), 300);
        drop(quick);
        assert_eq!(now(&score), 0);
        drop(slow);
        assert_eq!(now(&score), 0);
    }

    #[test]
    fn a_child_that_is_not_a_job_is_created_with_the_score_of_the_server() {
        let score = in_memory(0);
        let exists = flag();
        let slow = score.raise(Arc::clone(&exists));
        thread::scope(|scope| {
            scope.spawn(|| exists.store(true, Ordering::Release));
            let kept = score.hold_normal();
            assert_eq!(now(&score), 0);
            drop(kept);
        });
        drop(slow);
        assert_eq!(now(&score), 0);
    }

    #[test]
    fn a_score_that_could_not_be_restored_is_not_raised_again() {
        let score = in_memory(0);
        let raised = score.raise(flag());
        fcntl_add_seals(score.file.as_ref().unwrap(), SealFlags::WRITE).unwrap();
        drop(raised);
        drop(score.raise(flag()));
        assert_eq!(score.take_failures(), 1);
        let state = score.state();
        assert!(state.is_broken && state.before.is_none() && state.creations.is_empty());
    }

    #[test]
    fn a_process_that_is_gone_needs_no_score() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        child.wait().unwrap();
        let score = in_memory(0);
        assert!(score.try_ensure_on(pid).is_ok() && score.try_check(pid).is_ok());
        assert!(put_on_program(pid, 300).is_ok());
    }

    #[test]
    fn a_program_that_did_not_inherit_its_score_gets_it_later() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        let own = read_score_file(score_file(pid).as_ref()).unwrap();
        // The highest score that exists, whatever other tests do to ours.
        let score = in_memory(MAX_SCORE);
        let set = score.try_ensure_on(pid);
        let checked = score.try_check(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(own <= MAX_SCORE && set.is_ok() && checked.is_ok(), "{set:?} {checked:?}");
    }
}

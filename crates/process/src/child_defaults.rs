//! The process-wide state that the server sets up once for all its jobs: limits, tag, and out-of-memory
//! scores.

use std::ffi::{CStr, CString};
use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, getpid, getrlimit, prlimit, set_child_subreaper,
    set_dumpable_behavior, setpriority_process, setrlimit,
};

use crate::keeper::ServerIdentity;
use crate::launch::EnvVariable;
use crate::processes::{self, ProcessKey, ProcessTag};
use crate::syscalls::{self, FileAction, PosixSpawnPlan};

/// The variable that marks every process of a job in its environment. It is not a setting: a server
/// that runs inside a job is not configured by it.
pub const JOB_VARIABLE: &str = "SHELLYARD_JOB";

const MOST_OPEN_FILES: u64 = 1 << 20;

/// Signals that a helper process blocks. It must outlive a polite end of everything around it, and
/// ends when the server does.
const BLOCKED: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// The path of this program, even if its file was moved.
pub(crate) const OURSELVES: &CStr = c"/proc/self/exe";

/// The niceness of a thread that must not wait for jobs.
const FIRST_NICE: i32 = -10;

/// The attributes that jobs get instead of the server's own.
#[derive(Debug)]
pub(crate) struct ChildDefaults {
    tag: HostTag,
    /// The limit on open files that the server was started with.
    pub(crate) open_files: Rlimit,
    /// The server's out-of-memory score, which is raised while jobs are created so that they
    /// inherit it; `None` if the kernel has no such scores.
    pub(crate) score: Option<OwnScore>,
}

impl ChildDefaults {
    /// Prepares this process for running jobs; call it once, early, before jobs are started.
    ///
    /// From now on the process adopts the orphans of its descendants, passes on none of the files
    /// that it was started with, may open as many files as the system allows, cannot be inspected
    /// by other processes of its user, and carries a tag that all descendants inherit.
    ///
    /// # Errors
    /// If the system refuses to make this process a subreaper or gives no random number: without
    /// those a job's tree cannot be kept together.
    pub(crate) fn set_up() -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let tag = ProcessTag::for_server(u64::from_ne_bytes(random));
        let owner = processes::own_key()?;
        let (score, carrier) = Self::prepare_process(tag)?;
        Ok(Self { tag: HostTag { tag, carrier, owner }, open_files: raise_open_files(), score })
    }

    /// Prepares this process as a server with the identity of its keeper.
    ///
    /// # Errors
    /// As [`Self::set_up`], or if the identity is not valid.
    pub(crate) fn set_up_kept(identity: &ServerIdentity) -> io::Result<Self> {
        let tag = ProcessTag::from_number(identity.tag).filter(|tag| tag.is_server_tag());
        let (Some(tag), Some(owner)) = (tag, identity.key()) else {
            return Err(Errno::PROTO.into());
        };
        let (score, _) = Self::prepare_process(tag)?;
        let carrier = TagCarrier::new(identity.is_tag_inherited);
        raise_open_files();
        let open_files = identity.open_file_limit();
        Ok(Self { tag: HostTag { tag, carrier, owner }, open_files, score })
    }

    /// Makes this process a subreaper that cannot be inspected and carries the tag.
    fn prepare_process(tag: ProcessTag) -> io::Result<(Option<OwnScore>, TagCarrier)> {
        set_child_subreaper(Some(getpid()))?;
        // Before Linux 5.11 this fails, and inherited files are passed on as usual.
        syscalls::close_inherited_on_exec().ok();
        syscalls::keep_exit_statuses();
        syscalls::survive_file_size_limit();
        let score = OwnScore::open().ok();
        // Our environment and memory hold tokens: no job may read them through /proc.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
        let carried = tag.put_on(None) && ProcessTag::read(getpid()) == Some(tag);
        Ok((score, TagCarrier::new(carried)))
    }

    /// Returns the identity that a server of this keeper gets.
    pub(crate) fn identity(&self) -> ServerIdentity {
        let HostTag { tag, owner: (pid, started), .. } = self.tag;
        ServerIdentity {
            tag: tag.to_number(),
            is_tag_inherited: self.tag.inherited().is_some(),
            pid: pid.as_raw_nonzero().get(),
            started,
            open_files: (self.open_files.current, self.open_files.maximum),
        }
    }

    pub(crate) const fn tag(&self) -> HostTag {
        self.tag
    }

    /// Returns the tag of the child with this serial number, if the host lets us tag processes.
    pub(crate) fn child_tag(&self, serial: u32) -> Option<ProcessTag> {
        Some(self.tag.inherited()?.for_child(serial))
    }

    /// Gives a child the limit on open files that jobs get now.
    pub(crate) fn limit_open_files(&self, pid: Pid) {
        // A child that is already gone needs no limit.
        prlimit(Some(pid), Resource::Nofile, self.open_files(getrlimit(Resource::Nofile))).ok();
    }

    /// Starts a helper of this process in its own session, with an empty environment, in the root
    /// directory. Its standard input is `line`; its output is discarded.
    pub(crate) fn start_helper(
        &self,
        program: &CStr,
        argv: &[CString],
        line: BorrowedFd<'_>,
    ) -> Result<Pid, Errno> {
        let root = open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let actions = [
            FileAction::Chdir(root.as_fd()),
            FileAction::Dup { from: line, to: 0 },
            FileAction::Open { to: 1, path: c"/dev/null", flags: libc::O_WRONLY },
            FileAction::Copy { from: 1, to: 2 },
        ];
        // A helper is not a job: it keeps the score of the server.
        let _kept = self.score.as_ref().map(OwnScore::hold_normal);
        let plan =
            PosixSpawnPlan { path: program, argv, env: &[], actions: &actions, blocked: &BLOCKED };
        syscalls::posix_spawn(&plan)
    }

    /// Makes sure that a job which the server created has the score of jobs.
    pub(crate) fn ensure_job_score(&self, pid: Pid) {
        if let Some(score) = &self.score {
            score.report(score.ensure_on(pid));
        }
    }

    /// Checks the score of a process that the spawner created: it inherits the spawner's.
    pub(crate) fn check_job_score(&self, pid: Pid) {
        if let Some(score) = &self.score {
            score.report(score.check(pid));
        }
    }

    /// Returns the limit on open files that a new process gets: the one that the server was started
    /// with, within the hard limit of the process's parent, which may have been lowered since.
    pub(crate) fn open_files(&self, parent: Rlimit) -> Rlimit {
        let least = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (limit, None) | (None, limit) => limit,
        };
        Rlimit {
            current: least(self.open_files.current, parent.maximum),
            maximum: least(self.open_files.maximum, parent.maximum),
        }
    }
}

/// The identity that distinguishes this server's processes from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostTag {
    tag: ProcessTag,
    carrier: TagCarrier,
    /// The process that stands for the server in names and records: its keeper, or itself.
    owner: ProcessKey,
}

/// The means by which descendants inherit the tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagCarrier {
    LimitAndEnvironment,
    EnvironmentOnly,
}

impl TagCarrier {
    const fn new(is_inherited: bool) -> Self {
        if is_inherited { Self::LimitAndEnvironment } else { Self::EnvironmentOnly }
    }
}

impl HostTag {
    /// Returns a new variable that marks the processes of one run of this job, and of no other; the
    /// caller puts it into their environment.
    #[must_use]
    pub fn new_marker(&self, job: u64) -> EnvVariable {
        // Job numbers are per tenant, and one process may hold several servers. Jobs see this
        // value: a counter would tell a tenant how many jobs others start. `set_up` made sure that
        // the system gives random numbers.
        let run = getrandom::u64().unwrap_or_default();
        let text = format!("{}{job}:{run:016x}", self.marker_prefix());
        // The text contains no NUL byte.
        CString::new(text).unwrap_or_default().into()
    }

    /// Returns the process that stands for the server in names and records.
    pub(crate) const fn owner(&self) -> ProcessKey {
        self.owner
    }

    /// Returns the prefix that the markers of all jobs of this server share.
    pub(crate) fn marker_prefix(&self) -> String {
        format!("{JOB_VARIABLE}={:x}:", self.tag.to_number())
    }

    /// Returns the tag that descendants inherit in their limits, if the host lets us set one.
    pub(crate) fn inherited(&self) -> Option<ProcessTag> {
        match self.carrier {
            TagCarrier::LimitAndEnvironment => Some(self.tag),
            TagCarrier::EnvironmentOnly => None,
        }
    }
}

/// Raises our limit on open files, and returns the old one: to [`MOST_OPEN_FILES`] if we may go
/// beyond the hard limit, as root may, otherwise up to the hard limit.
fn raise_open_files() -> Rlimit {
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

/// Raises the priority of the calling thread, if the server has the privilege for that.
pub fn raise_thread_priority() {
    // `None` is the calling thread: on Linux each thread has its own niceness.
    setpriority_process(None, FIRST_NICE).ok();
}

/// Blocks until a child has ended since the last call, or until the first tree exists, for at most
/// `limit`. Returns `false` if neither happened. Needs [`crate::block_child_signals`].
///
/// # Errors
/// If the system call fails.
pub fn wait_for_child_exit(limit: Option<Duration>) -> io::Result<bool> {
    Ok(syscalls::take_child_signal(limit)?)
}

/// The difference between the score of a job and that of its server.
const JOB_SCORE_OFFSET: i32 = 300;
const MAX_SCORE: i32 = 1000;

const OWN_SCORE_FILE: &str = "/proc/self/oom_score_adj";

/// The time that one process waits for the kernel to finish with another: longer than any
/// scheduling delay.
const SCORE_PATIENCE: Duration = Duration::from_millis(200);

/// Attempts without a pause: on another processor the kernel is done within microseconds.
const BUSY_ATTEMPTS: u32 = 20;
const SCORE_PAUSE: Duration = Duration::from_micros(50);

/// Returns the score of the jobs of a server with this score.
fn job_score_for(own: i32) -> i32 {
    own.saturating_add(JOB_SCORE_OFFSET).min(MAX_SCORE)
}

/// Raises the score of this process, from which jobs inherit everything, to that of jobs.
pub(crate) fn raise_own_score() -> io::Result<()> {
    fs::write(OWN_SCORE_FILE, job_score_for(read_score_file(OWN_SCORE_FILE.as_ref())?).to_string())
}

/// The out-of-memory score of this process, which is raised while jobs are created: when memory is
/// short, the kernel ends jobs before their server.
///
/// A child inherits the score that its parent has at the moment of `clone`. It cannot raise the
/// score itself before it runs its program: until then it lives in the memory of a server that is
/// not dumpable, and the files in /proc of such a process belong to root. So the server raises its
/// own score for that moment. Any process may do that, and may go back to its former value.
#[derive(Debug)]
pub(crate) struct OwnScore {
    /// The file with the score, opened before this process becomes non-dumpable; `None` if it
    /// already was.
    file: Option<File>,
    state: Mutex<ScoreState>,
}

#[derive(Debug, Default)]
struct ScoreState {
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
    fn open() -> io::Result<Self> {
        read_score_file(OWN_SCORE_FILE.as_ref())?;
        Ok(Self::in_file(OpenOptions::new().read(true).write(true).open(OWN_SCORE_FILE).ok()))
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
        let deadline = Instant::now() + SCORE_PATIENCE;
        while !state.is_idle() && Instant::now() < deadline {
            thread::sleep(SCORE_PAUSE);
        }
        state.restore(self.file.as_ref());
        state
    }

    /// Makes sure that a job has its score. It already has, unless the server could not raise its
    /// own; then the program already runs. The children that it has by then get the score too, and
    /// later ones inherit it; only a child that is being forked at this very moment is missed.
    fn ensure_on(&self, pid: Pid) -> io::Result<()> {
        let score = self.job_score()?;
        if check_score(pid, score).is_ok() {
            return Ok(());
        }
        put_on_program(pid, score)?;
        let children = processes::children_of(pid).unwrap_or_default();
        children.into_iter().try_for_each(|child| put_on_program(child, score))
    }

    /// Checks that a job has at least its score.
    fn check(&self, pid: Pid) -> io::Result<()> {
        check_score(pid, self.job_score()?)
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
            (None, None) => read_score_file(OWN_SCORE_FILE.as_ref())?,
        };
        Ok(job_score_for(own))
    }

    fn state(&self) -> MutexGuard<'_, ScoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScoreState {
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
    let deadline = Instant::now() + SCORE_PATIENCE;
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
            thread::sleep(SCORE_PAUSE);
        }
    }
}

fn check_score(pid: Pid, least: i32) -> io::Result<()> {
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
    parse_score(&fs::read_to_string(file)?)
}

fn read_score(file: &File) -> io::Result<i32> {
    let mut bytes = [0; 16];
    let length = file.read_at(&mut bytes, 0)?;
    parse_score(&String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()))
}

fn write_score(file: &File, score: i32) -> io::Result<()> {
    file.write_all_at(format!("{score}\n").as_bytes(), 0)
}

fn parse_score(text: &str) -> io::Result<i32> {
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

    #[test]
    fn a_child_gets_no_more_files_than_the_hard_limit_of_its_parent() {
        let started_with = Rlimit { current: Some(1024), maximum: Some(4096) };
        let owner = (getpid(), 0);
        let carrier = TagCarrier::EnvironmentOnly;
        let tag = HostTag { tag: ProcessTag::for_server(7), carrier, owner };
        let defaults = ChildDefaults { tag, open_files: started_with, score: None };
        for (hard, expected) in [
            (None, started_with),
            (Some(1 << 20), started_with),
            (Some(2000), Rlimit { current: Some(1024), maximum: Some(2000) }),
            (Some(100), Rlimit { current: Some(100), maximum: Some(100) }),
        ] {
            assert_eq!(defaults.open_files(Rlimit { current: Some(50), maximum: hard }), expected);
        }
    }

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
        assert!(score.ensure_on(pid).is_ok() && score.check(pid).is_ok());
        assert!(put_on_program(pid, 300).is_ok());
    }

    #[test]
    fn a_program_that_did_not_inherit_its_score_gets_it_later() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        let own = read_score_file(score_file(pid).as_ref()).unwrap();
        // The highest score that exists, whatever other tests do to ours.
        let score = in_memory(MAX_SCORE);
        let set = score.ensure_on(pid);
        let checked = score.check(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(own <= MAX_SCORE && set.is_ok() && checked.is_ok(), "{set:?} {checked:?}");
    }
}

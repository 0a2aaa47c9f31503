//! A second process that ends the jobs of a server that was killed.
//!
//! It holds one end of a pipe; the server holds the other and never writes. When the server ends,
//! in whatever way, the pipe closes, and the guardian ends every process that is in a cgroup of the
//! server's jobs, carries its tag or marker, or is in its record, and removes what the server kept
//! for its jobs on disk. After a good end there is nothing of both, and it just exits.

use std::collections::HashSet;
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, Pid, set_dumpable_behavior};

use super::children::Child;
use super::confine::scratch;
use super::helper;
use super::host::{self, HostTag};
use super::left_behind::{self, LeftBehind};
use super::proc_scan;
use super::spawner;
use super::tag::Tag;

/// The first argument that makes the program a guardian.
pub const GUARDIAN_ARG: &str = "__guardian";

/// The number of times that a guardian tries to end what is left: a busy host may need longer than one sweep.
const SWEEPS: usize = 12;

/// The number of the guardian that was started last; zero before there is one.
static LATEST: AtomicI32 = AtomicI32::new(0);

/// The number of this process's guardian, where there is one.
pub(super) fn pid() -> Option<Pid> {
    Pid::from_raw(LATEST.load(Ordering::Relaxed))
}

static POST: Mutex<Post> = Mutex::new(Post::Unwanted);

/// Whether this process has a guardian.
#[derive(Debug)]
enum Post {
    /// Nobody asked for one.
    Unwanted,
    /// The next who needs it starts it, for this directory of jobs' files.
    Vacant(Option<PathBuf>),
    Held(Guardian),
}

/// A running guardian. While this is held, the guardian waits; dropping it lets it do its work.
#[derive(Debug)]
struct Guardian {
    child: Child,
    scratch: Option<PathBuf>,
    /// Only held.
    lifeline: Option<OwnedFd>,
}

impl Post {
    fn fill(&mut self) -> io::Result<()> {
        if let Self::Vacant(scratch) = self {
            *self = Self::Held(Guardian::start(scratch.clone())?);
        }
        Ok(())
    }
}

fn post() -> MutexGuard<'static, Post> {
    POST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on this process wants a guardian: [`ensure`] starts one. It cleans up the directory in
/// which jobs have their files, if there is one.
pub fn want(scratch: Option<&Path>) {
    let mut post = post();
    if matches!(*post, Post::Unwanted) {
        *post = Post::Vacant(scratch.map(Path::to_owned));
    }
}

/// Returns once the guardian that is wanted is there; at once where it is already, and where none is
/// wanted. To be called before anything is started that it would have to end.
///
/// # Errors
/// When the server was not prepared, or when the system gives no more files or processes. The next
/// call tries again.
pub fn ensure() -> io::Result<()> {
    post().fill()
}

/// Starts a new one if the guardian has died: without it, our own sudden end would leave jobs
/// behind. Says whether it had.
///
/// # Errors
/// When the system gives no more files or processes. The next call tries again.
pub fn renew() -> io::Result<bool> {
    let mut post = post();
    let died = match &mut *post {
        Post::Held(guardian) => {
            guardian.child.try_reap()?.is_some().then(|| guardian.scratch.take())
        }
        Post::Unwanted | Post::Vacant(_) => None,
    };
    let has_died = died.is_some();
    if let Some(scratch) = died {
        *post = Post::Vacant(scratch);
    }
    post.fill()?;
    Ok(has_died)
}

/// Has the guardian do its work although this process is still there: for an exit that a stuck
/// thread could hold up. Does nothing while another thread is at the guardian.
pub fn let_go() {
    if let Ok(mut post) = POST.try_lock()
        && let Post::Held(guardian) = &mut *post
    {
        guardian.lifeline = None;
    }
}

/// Ends now what the guardian would end after us, and every other descendant of ours but our own
/// helpers. Blocks; gives those that are still alive.
///
/// # Errors
/// When the server was not prepared.
pub fn end_everything() -> io::Result<Vec<u32>> {
    let left = LeftBehind::of(&host::prepare()?)?;
    // Held, so that no guardian is started that would be taken for one of the left-behind.
    let post = post();
    let guardian = match &*post {
        Post::Held(guardian) => Some(guardian.child.pid()),
        Post::Unwanted | Post::Vacant(_) => None,
    };
    let kept: Vec<Pid> = guardian.into_iter().chain(spawner::pid()).collect();
    Ok(left.end_own(&kept))
}

impl Guardian {
    /// Starts this same program again as the guardian of this process.
    fn start(scratch: Option<PathBuf>) -> io::Result<Self> {
        let host = host::prepare()?;
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        let argv = argv(&host, scratch.as_deref())?;
        let child = Child::create(|| helper::start(helper::OURSELVES, &argv, theirs.as_fd()))?;
        LATEST.store(child.pid().as_raw_nonzero().get(), Ordering::Relaxed);
        Ok(Self { child, scratch, lifeline: Some(ours) })
    }
}

/// What a guardian is told: whose processes to end, and where that server kept its jobs' files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Orders {
    left: LeftBehind,
    scratch: Option<PathBuf>,
}

fn argv(host: &HostTag, scratch: Option<&Path>) -> io::Result<Vec<CString>> {
    let tag = host.inherited().map_or(0, Tag::to_number);
    let (server, started) = proc_scan::own_key()?;
    let words = [
        "shellyard".to_owned(),
        GUARDIAN_ARG.to_owned(),
        tag.to_string(),
        host.marker_prefix(),
        server.to_string(),
        started.to_string(),
    ];
    let scratch = scratch.map(|path| path.as_os_str().as_bytes().to_vec());
    let words = words.into_iter().map(String::into_bytes).chain(scratch);
    Ok(words.map(CString::new).collect::<Result<_, _>>()?)
}

impl Orders {
    /// Understands the arguments that [`argv`] gives, the program's name being left out.
    fn parse(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter();
        let mut word = || args.next().and_then(|arg| arg.into_string().ok());
        word().filter(|first| first == GUARDIAN_ARG)?;
        let tag = Tag::from_number(word()?.parse().ok()?);
        // Without its end a short prefix would match markers of others.
        let marker_prefix = word().filter(|prefix| prefix.ends_with(':'))?;
        let server = (Pid::from_raw(word()?.parse().ok()?)?, word()?.parse().ok()?);
        let left = LeftBehind { tag, marker_prefix, server, recorded: HashSet::new() };
        Some(Self { left, scratch: args.next().map(PathBuf::from) })
    }

    /// Adds the processes that the server has recorded. To be called once it is dead.
    fn read_record(&mut self) {
        let record = self.scratch.as_deref().and_then(left_behind::read);
        self.left.recorded = record.map(|left| left.recorded).unwrap_or_default();
    }
}

/// Is the guardian, if the program's arguments (its name left out) say so: waits for the server's
/// end, ends what it left, and says how to exit. `None` for every other call of the program.
///
/// To be called before anything else in `main`.
pub fn guardian_main(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut orders = Orders::parse(args)?;
    // Closed to jobs, which are the same user's. A kernel that refuses leaves it as it was.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    wait_for_end_of_input();
    orders.read_record();
    let mut sweeps = (0..SWEEPS).map(|_| orders.left.end());
    let is_anybody_left = !sweeps.any(|left| left.is_empty());
    // While one of them lives, what keeps it from writing stays.
    if let Some(scratch) = orders.scratch.as_deref().filter(|_| !is_anybody_left) {
        // The next server tries again.
        scratch::clean_after(scratch).ok();
    }
    Some(if is_anybody_left { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn wait_for_end_of_input() {
    let mut nothing = [0; 8];
    let stdin = rustix::stdio::stdin();
    while rustix::io::retry_on_intr(|| rustix::io::read(stdin, &mut nothing)).is_ok_and(|n| n > 0) {
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Confine, ExitKind, Launch, LaunchStdin, Process, Report, Variable, spawn};
    use super::*;

    fn sleeper(env: Vec<Variable>) -> Process {
        host::prepare().unwrap();
        let launch = Launch {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), "/usr/bin/setsid /bin/sleep 1000 & /bin/sleep 1000".into()],
            arg0: None,
            env,
            cwd: "/".into(),
            stdin: LaunchStdin::Null,
            report: Report::None,
            confine: Confine::not(),
        };
        spawn(&launch).unwrap()
    }

    /// Of a server that is not this process, which all children are of here.
    fn left(tag: Option<Tag>, marker_prefix: &str) -> LeftBehind {
        let server = (Pid::from_raw(i32::MAX).unwrap(), 0);
        let recorded = HashSet::new();
        LeftBehind { tag, marker_prefix: marker_prefix.into(), server, recorded }
    }

    /// How many are their program by now: while one becomes it, its variables cannot be read.
    fn sleeping(process: &Process) -> usize {
        let line = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let alive = process.tree.alive();
        alive.iter().filter(|pid| line(pid).starts_with(b"/bin/sleep\0")).count()
    }

    #[track_caller]
    fn wait_for(process: &Process, count: usize) {
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while process.tree.read_activity().processes != count || sleeping(process) != count - 1 {
            assert!(std::time::Instant::now() < deadline, "{:?}", process.tree.read_activity());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    async fn check_swept(process: Process, left: LeftBehind) {
        wait_for(&process, 3);
        let alive = tokio::task::spawn_blocking(move || left.end()).await.unwrap();
        assert_eq!(alive, [0; 0]);
        // On a busy host it takes a while until a process that was told to end has ended.
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while !process.tree.alive().is_empty() {
            assert!(std::time::Instant::now() < deadline, "{:?}", process.tree.alive());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let status = process.leader.wait().await.unwrap().status;
        assert_eq!(status, ExitKind::Signal { signal: 9, core: false });
    }

    #[tokio::test]
    async fn whoever_has_the_marker_is_ended_and_nobody_else() {
        let marked = sleeper(vec![Variable::new("SHELLYARD_JOB", "swept:1").unwrap()]);
        let other = sleeper(vec![Variable::new("SHELLYARD_JOB", "swept2:1").unwrap()]);
        wait_for(&other, 3);
        check_swept(marked, left(None, "SHELLYARD_JOB=swept:")).await;
        assert_eq!(other.tree.read_activity().processes, 3);
        assert_eq!(other.tree.kill(), [0; 0]);
    }

    #[tokio::test]
    async fn whoever_is_in_the_record_is_ended_with_its_children() {
        let process = sleeper(Vec::new());
        wait_for(&process, 3);
        let leader = Pid::from_raw(process.tree.leader_pid().cast_signed()).unwrap();
        let key = proc_scan::stat(leader).unwrap().key();
        let nobody = left(None, "SHELLYARD_JOB=nobody:");
        check_swept(process, LeftBehind { recorded: [key].into(), ..nobody }).await;
    }

    #[tokio::test]
    async fn whoever_has_the_tag_is_ended() {
        let process = sleeper(Vec::new());
        wait_for(&process, 3);
        let foreign = Tag::of_server(0x1234_5678_9abc);
        for (serial, pid) in (1..).zip(process.tree.alive()) {
            let pid = Pid::from_raw(pid.cast_signed());
            assert!(foreign.of_child(serial).put_on(pid));
        }
        check_swept(process, left(Some(foreign), "SHELLYARD_JOB=nobody:")).await;
    }

    #[test]
    fn orders_survive_a_command_line() {
        let host = host::prepare().unwrap();
        for scratch in [None, Some(PathBuf::from("/tmp/a b"))] {
            let args = argv(&host, scratch.as_deref()).unwrap().into_iter().skip(1);
            let args = args.map(|arg| OsString::from(arg.into_string().unwrap()));
            assert_eq!(
                Orders::parse(args),
                Some(Orders { left: LeftBehind::of(&host).unwrap(), scratch })
            );
        }
    }

    #[test]
    fn other_arguments_make_no_guardian() {
        let calls: [&[&str]; 6] = [
            &[],
            &["serve"],
            &[GUARDIAN_ARG],
            &[GUARDIAN_ARG, "0", "", "12"],
            &[GUARDIAN_ARG, "0", "SHELLYARD_JOB=a:", "12"],
            &[GUARDIAN_ARG, "0", "SHELLYARD_JOB=a:", "0", "7"],
        ];
        for args in calls {
            assert_eq!(Orders::parse(args.iter().map(OsString::from)), None, "{args:?}");
        }
    }
}

//! A second process that ends the jobs of a server that was killed.
//!
//! It holds one end of a pipe; the server holds the other and never writes. When the server ends,
//! in whatever way, the pipe closes. The guardian then ends every process that is in a cgroup of
//! the server's jobs, carries its tag or marker, or is in its record, and removes the files that
//! the server kept for its jobs. After a clean shutdown there are neither, and the guardian just
//! exits.

use std::collections::HashSet;
use std::ffi::{CString, OsString};
use std::fmt::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, Pid, getpid, set_dumpable_behavior};

use crate::cgroup;
use crate::child_defaults::{ChildDefaults, HostTag, OURSELVES};
use crate::children::{Child, Children};
use crate::processes::{self, ProcStat, ProcessKey, ProcessSnapshot, ProcessTag, TreeScan};
use crate::sandbox::scratch;

/// The first argument that makes the program a guardian.
const GUARDIAN_ARG: &str = "__guardian";

/// The number of times that a guardian tries to end what is left: a busy host may need longer than
/// one sweep.
const SWEEPS: usize = 12;

/// The handle of this server's guardian process.
#[derive(Debug)]
pub struct Guardian {
    children: Arc<Children>,
    defaults: Arc<ChildDefaults>,
    /// The pid of the process that was started last; zero before the first.
    latest: AtomicI32,
    state: Mutex<GuardianState>,
}

#[derive(Debug)]
enum GuardianState {
    /// The server needs no guardian.
    Disabled,
    /// The next caller that needs a guardian starts it, for this directory of jobs' files.
    NotRunning(Option<PathBuf>),
    Running(GuardianProcess),
}

/// A running guardian. It waits while this value is held; dropping the value triggers it.
#[derive(Debug)]
struct GuardianProcess {
    child: Child,
    scratch: Option<PathBuf>,
    /// The write end of the pipe, only held.
    lifeline: Option<OwnedFd>,
}

impl Guardian {
    pub(crate) fn new(children: Arc<Children>, defaults: Arc<ChildDefaults>) -> Self {
        Self {
            children,
            defaults,
            latest: AtomicI32::new(0),
            state: Mutex::new(GuardianState::Disabled),
        }
    }

    /// Returns the pid of the guardian that was started last, dead or not; `None` before the first.
    pub(crate) fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.latest.load(Ordering::Relaxed))
    }

    /// Makes this server need a guardian, which [`Self::ensure_running`] starts. The guardian
    /// cleans up `scratch`, the directory with the jobs' files.
    pub fn enable(&self, scratch: Option<&Path>) {
        let mut state = self.lock_state();
        // The keeper does the same.
        let is_needed = self.children.keeper().is_none();
        if is_needed && matches!(*state, GuardianState::Disabled) {
            *state = GuardianState::NotRunning(scratch.map(Path::to_owned));
        }
    }

    /// Returns once the guardian runs; at once if it already does, or if none is needed. Call it
    /// before anything is started that the guardian would have to end.
    ///
    /// # Errors
    /// If the system gives no more files or processes. The next call tries again.
    pub fn ensure_running(&self) -> io::Result<()> {
        self.start_if_needed(&mut self.lock_state())
    }

    /// Starts a new guardian if the old one has died: without it, a sudden end of the server would
    /// leave jobs behind. Returns `true` if it had died.
    ///
    /// # Errors
    /// If the system gives no more files or processes. The next call tries again.
    pub fn restart_if_dead(&self) -> io::Result<bool> {
        let mut state = self.lock_state();
        let died = match &mut *state {
            GuardianState::Running(guardian) => {
                guardian.child.try_reap()?.is_some().then(|| guardian.scratch.take())
            }
            GuardianState::Disabled | GuardianState::NotRunning(_) => None,
        };
        let has_died = died.is_some();
        if let Some(scratch) = died {
            *state = GuardianState::NotRunning(scratch);
        }
        self.start_if_needed(&mut state)?;
        Ok(has_died)
    }

    /// Triggers the guardian although this process still exists, for an exit that a stuck thread
    /// could hold up. Does nothing while another thread uses the guardian.
    pub fn trigger(&self) {
        if let Ok(mut state) = self.state.try_lock()
            && let GuardianState::Running(guardian) = &mut *state
        {
            guardian.lifeline = None;
        }
    }

    /// Ends now what the guardian would end after us, and every other descendant except the
    /// guardian and the `other` helper; `seen` are members of trees. Blocks; returns the processes
    /// that are still alive.
    pub(crate) fn end_everything(&self, other: Option<Pid>, seen: HashSet<ProcessKey>) -> Vec<u32> {
        let mut processes = ServerProcessFilter::new(&self.defaults.tag());
        processes.recorded = seen;
        // Held so that no guardian is started meanwhile: it would be ended with the rest.
        let state = self.lock_state();
        let guardian = match &*state {
            GuardianState::Running(guardian) => Some(guardian.child.pid()),
            GuardianState::Disabled | GuardianState::NotRunning(_) => None,
        };
        let kept: Vec<Pid> = guardian.into_iter().chain(other).collect();
        processes.end_own(&self.children, &kept)
    }

    fn start_if_needed(&self, state: &mut GuardianState) -> io::Result<()> {
        if let GuardianState::NotRunning(scratch) = state {
            *state = GuardianState::Running(self.start(scratch.clone())?);
        }
        Ok(())
    }

    /// Starts this same program again as the guardian of this process.
    fn start(&self, scratch: Option<PathBuf>) -> io::Result<GuardianProcess> {
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        let argv = build_argv(&self.defaults.tag(), scratch.as_deref())?;
        let start = || self.defaults.start_helper(OURSELVES, &argv, theirs.as_fd());
        let child = self.children.create(start)?;
        self.latest.store(child.pid().as_raw_nonzero().get(), Ordering::Relaxed);
        Ok(GuardianProcess { child, scratch, lifeline: Some(ours) })
    }

    fn lock_state(&self) -> MutexGuard<'_, GuardianState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The arguments of a guardian: the server whose processes it ends, and where that server kept its
/// jobs' files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GuardianArgs {
    processes: ServerProcessFilter,
    scratch: Option<PathBuf>,
}

fn build_argv(host: &HostTag, scratch: Option<&Path>) -> io::Result<Vec<CString>> {
    let tag = host.inherited().map_or(0, ProcessTag::to_number);
    let (server, started) = host.owner();
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

impl GuardianArgs {
    /// Parses the arguments that [`build_argv`] returns, without the program's name.
    fn parse(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter();
        let mut word = || args.next().and_then(|arg| arg.into_string().ok());
        word().filter(|first| first == GUARDIAN_ARG)?;
        let tag = ProcessTag::from_number(word()?.parse().ok()?);
        // Without the final colon a short prefix would match markers of others.
        let marker_prefix = word().filter(|prefix| prefix.ends_with(':'))?;
        let server = (Pid::from_raw(word()?.parse().ok()?)?, word()?.parse().ok()?);
        let processes =
            ServerProcessFilter { tag, marker_prefix, server, recorded: HashSet::new() };
        Some(Self { processes, scratch: args.next().map(PathBuf::from) })
    }

    /// Adds the processes that the server has recorded. Call it once the server is dead.
    fn read_record(&mut self) {
        let record = self.scratch.as_deref().and_then(read_record);
        self.processes.recorded = record.map(|processes| processes.recorded).unwrap_or_default();
    }
}

/// Runs the guardian if the program's arguments (without its name) say so: waits for the server's
/// end, ends what the server left, and returns the exit code. `None` for every other call of the
/// program.
///
/// Must be called before anything else in `main`.
pub(crate) fn guardian_main(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = GuardianArgs::parse(args)?;
    // Jobs of the same user must not inspect it. A kernel that refuses leaves it as it is.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    wait_for_end_of_input();
    args.read_record();
    // A guardian has no children.
    let children = Children::default();
    let mut sweeps = (0..SWEEPS).map(|_| args.processes.end(&children));
    let is_anybody_left = !sweeps.any(|alive| alive.is_empty());
    // If a process is still alive, keep the files: some are placeholders that protect workspace
    // paths from it. While the server is alive, it holds the locks on the workspaces, so that no
    // placeholder can be removed: their records must stay for the next server.
    if let Some(scratch) = args.scratch.as_deref().filter(|_| !is_anybody_left)
        && wait_for_exit(args.processes.server)
    {
        // The next server tries again.
        scratch::clean_up_after(scratch).ok();
    }
    Some(if is_anybody_left { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn wait_for_end_of_input() {
    let mut nothing = [0; 8];
    let stdin = rustix::stdio::stdin();
    while rustix::io::retry_on_intr(|| rustix::io::read(stdin, &mut nothing)).is_ok_and(|n| n > 0) {
    }
}

/// Waits until this process has closed all its files; `false` if it has not within a limited time. The
/// kernel closes them one after the other: the pipe to the guardian may be closed while the locks on
/// workspaces are still held.
fn wait_for_exit(process: ProcessKey) -> bool {
    let deadline = Instant::now() + SWEEP_LIMIT;
    while processes::may_be_alive(process) {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(END_PAUSE);
    }
    true
}

// The processes that a killed server left behind: how they are found, and the record of them that
// the server keeps while it lives.
//
// The record is a file in the server's directory for jobs' files. The guardian reads it when the
// server has died; the next server of the same user reads it if the guardian was killed as well.

const FILE: &str = "processes";
const NEW_FILE: &str = "processes.new";

const SWEEP_LIMIT: Duration = Duration::from_secs(10);

/// The time between two looks at a server that is ending.
const END_PAUSE: Duration = Duration::from_millis(1);

/// The criteria by which the processes of one server are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerProcessFilter {
    pub(crate) tag: Option<ProcessTag>,
    pub(crate) marker_prefix: String,
    /// The server itself, which is not one of them.
    pub(crate) server: ProcessKey,
    /// Processes that were recorded by pid and start time: they may carry neither tag nor marker.
    pub(crate) recorded: HashSet<ProcessKey>,
}

impl ServerProcessFilter {
    /// Describes the processes of this process as the server.
    pub(crate) fn new(host: &HostTag) -> Self {
        let marker_prefix = host.marker_prefix();
        let recorded = HashSet::new();
        Self { tag: host.inherited(), marker_prefix, server: host.owner(), recorded }
    }

    /// Ends all of them with everything that they started. Blocks; returns the processes that are
    /// still alive.
    pub(crate) fn end(&self, children: &Children) -> Vec<u32> {
        children.end_all(|| self.find(&[], |_| false), SWEEP_LIMIT)
    }

    /// Does the same for this process as the server or the keeper: its children are included,
    /// except for those in `kept`, and so are those of its keeper.
    pub(crate) fn end_own(&self, children: &Children, kept: &[Pid]) -> Vec<u32> {
        let parents: Vec<i32> = children.roots().into_iter().map(number).collect();
        children.end_all(|| self.find(kept, |stat| parents.contains(&stat.parent)), SWEEP_LIMIT)
    }

    fn find(&self, kept: &[Pid], is_child: impl Fn(&ProcStat) -> bool) -> Vec<ProcStat> {
        // Cgroups come first: processes may have dropped what they carry in themselves.
        let in_cgroups: HashSet<ProcessKey> =
            cgroup::kill_jobs_of(self.server).into_iter().collect();
        let is_kept = |stat: &ProcStat| {
            stat.pid == getpid() || stat.key() == self.server || kept.contains(&stat.pid)
        };
        let mut found = ProcessSnapshot::take().with_descendants(|stat| {
            let is_included =
                in_cgroups.contains(&stat.key()) || is_child(stat) || self.includes(stat);
            stat.is_alive() && !is_kept(stat) && is_included
        });
        found.retain(|stat| stat.is_alive() && !is_kept(stat));
        found
    }

    /// `true` if this process itself is one of them.
    pub(crate) fn includes(&self, stat: &ProcStat) -> bool {
        self.recorded.contains(&stat.key()) || self.is_tagged(stat.pid) || self.is_marked(stat.pid)
    }

    fn is_tagged(&self, pid: Pid) -> bool {
        self.tag
            .is_some_and(|ours| ProcessTag::read(pid).is_some_and(|tag| tag.is_same_server(ours)))
    }

    fn is_marked(&self, pid: Pid) -> bool {
        processes::has_environment_variable(pid, |variable| {
            variable.starts_with(self.marker_prefix.as_bytes())
        })
    }
}

const fn number(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

/// The record that this server keeps of its processes.
#[derive(Debug)]
pub struct ProcessRecord {
    dir: PathBuf,
    boot: String,
    written: ServerProcessFilter,
}

impl ProcessRecord {
    /// Creates the record in this server's directory for jobs' files.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(dir: &Path, host: &HostTag) -> io::Result<Self> {
        let written = ServerProcessFilter::new(host);
        let record = Self { dir: dir.to_owned(), boot: boot_id()?, written };
        record.write(&record.written)?;
        Ok(record)
    }

    /// Writes the processes of a scan, if they differ from the last ones.
    ///
    /// # Errors
    /// If the record cannot be written; the old one stays.
    pub fn update(&mut self, scan: TreeScan) -> io::Result<()> {
        if self.written.recorded == scan.processes {
            return Ok(());
        }
        let found = ServerProcessFilter { recorded: scan.processes, ..self.written.clone() };
        self.write(&found)?;
        self.written = found;
        Ok(())
    }

    /// Replaces the file atomically: the server may be killed at any moment.
    fn write(&self, processes: &ServerProcessFilter) -> io::Result<()> {
        let new = self.dir.join(NEW_FILE);
        fs::write(&new, render_record(&self.boot, processes))?;
        // Jobs with users of their own can pass through the directory.
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
        fs::rename(new, self.dir.join(FILE))
    }
}

/// Reads the record of the server that used this directory; `None` if there is none, or if the
/// system was rebooted since, because the pids then belong to other processes.
pub(crate) fn read_record(dir: &Path) -> Option<ServerProcessFilter> {
    parse_record(&fs::read_to_string(dir.join(FILE)).ok()?, &boot_id().ok()?)
}

/// Ends the processes of the dead server that used this directory. Blocks; returns the processes
/// that are still alive.
pub(crate) fn end_recorded(dir: &Path, children: &Children) -> Vec<u32> {
    read_record(dir).map(|processes| processes.end(children)).unwrap_or_default()
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn render_record(boot: &str, processes: &ServerProcessFilter) -> String {
    let tag = processes.tag.map_or(0, ProcessTag::to_number);
    let (server, started) = processes.server;
    let mut text = format!("{boot}\n{server} {started} {tag} {}\n", processes.marker_prefix);
    for (pid, started) in &processes.recorded {
        // Writing to a string does not fail.
        writeln!(text, "{pid} {started}").ok();
    }
    text
}

fn parse_record(text: &str, boot: &str) -> Option<ServerProcessFilter> {
    let mut lines = text.lines();
    lines.next().filter(|found| *found == boot)?;
    let mut words = lines.next()?.split(' ');
    let server = (Pid::from_raw(words.next()?.parse().ok()?)?, words.next()?.parse().ok()?);
    let tag = ProcessTag::from_number(words.next()?.parse().ok()?);
    // Without the final colon a short prefix would match markers of others.
    let marker_prefix = words.next().filter(|prefix| prefix.ends_with(':'))?.to_owned();
    let recorded = lines.map(process_key).collect::<Option<_>>()?;
    Some(ServerProcessFilter { tag, marker_prefix, server, recorded })
}

fn process_key(line: &str) -> Option<ProcessKey> {
    let (pid, started) = line.split_once(' ')?;
    Some((Pid::from_raw(pid.parse().ok()?)?, started.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::host::{host, sh};
    use crate::{EnvVariable, ExitKind, Process, ProcessLaunch};

    fn sleeper(env: Vec<EnvVariable>) -> Process {
        let text = "/usr/bin/setsid /bin/sleep 1000 & /bin/sleep 1000";
        let launch = ProcessLaunch { env, ..sh(text) };
        host().spawn(&launch).unwrap()
    }

    /// Criteria of another server: in this test process all children have the same one.
    fn filter(tag: Option<ProcessTag>, marker_prefix: &str) -> ServerProcessFilter {
        let server = (Pid::from_raw(i32::MAX).unwrap(), 0);
        let recorded = HashSet::new();
        ServerProcessFilter { tag, marker_prefix: marker_prefix.into(), server, recorded }
    }

    #[test]
    fn the_guardian_waits_until_the_server_has_closed_its_files() {
        // Its input ends at once, as the pipe to a guardian does; it ends later.
        let mut server = std::process::Command::new("sh")
            .args(["-c", "exec sleep 0.3"])
            .stdin(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(server.id().cast_signed()).unwrap();
        let key = processes::stat(pid).unwrap().key();
        assert!(wait_for_exit(key));
        assert!(server.try_wait().unwrap().is_some(), "it is a zombie until it is waited for");
    }

    /// The number of processes that already run their program: before that, their environment
    /// cannot be read.
    fn sleeping(process: &Process) -> usize {
        let line = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let alive = process.tree.living_pids();
        alive.iter().filter(|pid| line(pid).starts_with(b"/bin/sleep\0")).count()
    }

    #[track_caller]
    fn wait_for(process: &Process, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while process.tree.read_activity().processes != count || sleeping(process) != count - 1 {
            assert!(Instant::now() < deadline, "{:?}", process.tree.read_activity());
            thread::sleep(Duration::from_millis(2));
        }
    }

    async fn check_swept(process: Process, processes: ServerProcessFilter) {
        wait_for(&process, 3);
        let alive = tokio::task::spawn_blocking(move || processes.end(&host().trees().children))
            .await
            .unwrap();
        assert_eq!(alive, [0; 0]);
        // On a busy host a killed process takes a while to end.
        let deadline = Instant::now() + Duration::from_secs(30);
        while !process.tree.living_pids().is_empty() {
            assert!(Instant::now() < deadline, "{:?}", process.tree.living_pids());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let status = process.leader.wait().await.unwrap().status;
        assert_eq!(status, ExitKind::Signal { signal: 9, core: false });
    }

    #[tokio::test]
    async fn processes_with_the_marker_are_ended_and_no_others() {
        let marked = sleeper(vec![EnvVariable::new("SHELLYARD_JOB", "swept:1").unwrap()]);
        let other = sleeper(vec![EnvVariable::new("SHELLYARD_JOB", "swept2:1").unwrap()]);
        wait_for(&other, 3);
        check_swept(marked, filter(None, "SHELLYARD_JOB=swept:")).await;
        assert_eq!(other.tree.read_activity().processes, 3);
        assert_eq!(other.tree.kill(), [0; 0]);
    }

    #[tokio::test]
    async fn recorded_processes_are_ended_with_their_children() {
        let process = sleeper(Vec::new());
        wait_for(&process, 3);
        let leader = Pid::from_raw(process.tree.leader_pid().cast_signed()).unwrap();
        let key = processes::stat(leader).unwrap().key();
        let nobody = filter(None, "SHELLYARD_JOB=nobody:");
        check_swept(process, ServerProcessFilter { recorded: [key].into(), ..nobody }).await;
    }

    #[tokio::test]
    async fn processes_with_the_tag_are_ended() {
        let process = sleeper(Vec::new());
        wait_for(&process, 3);
        let foreign = ProcessTag::for_server(0x1234_5678_9abc);
        for (serial, pid) in (1..).zip(process.tree.living_pids()) {
            let pid = Pid::from_raw(pid.cast_signed());
            assert!(foreign.for_child(serial).put_on(pid));
        }
        check_swept(process, filter(Some(foreign), "SHELLYARD_JOB=nobody:")).await;
    }

    #[test]
    fn guardian_arguments_survive_a_command_line() {
        let tag = host().tag();
        for scratch in [None, Some(PathBuf::from("/tmp/a b"))] {
            let args = build_argv(&tag, scratch.as_deref()).unwrap().into_iter().skip(1);
            let args = args.map(|arg| OsString::from(arg.into_string().unwrap()));
            assert_eq!(
                GuardianArgs::parse(args),
                Some(GuardianArgs { processes: ServerProcessFilter::new(&tag), scratch })
            );
        }
    }

    #[test]
    fn other_arguments_do_not_start_a_guardian() {
        let calls: [&[&str]; 6] = [
            &[],
            &["serve"],
            &[GUARDIAN_ARG],
            &[GUARDIAN_ARG, "0", "", "12"],
            &[GUARDIAN_ARG, "0", "SHELLYARD_JOB=a:", "12"],
            &[GUARDIAN_ARG, "0", "SHELLYARD_JOB=a:", "0", "7"],
        ];
        for args in calls {
            assert_eq!(GuardianArgs::parse(args.iter().map(OsString::from)), None, "{args:?}");
        }
    }

    fn recorded_filter() -> ServerProcessFilter {
        let recorded = [(Pid::from_raw(7).unwrap(), 70), (Pid::from_raw(8).unwrap(), 80)];
        ServerProcessFilter {
            tag: Some(ProcessTag::for_server(5)),
            marker_prefix: "SHELLYARD_JOB=a:".into(),
            server: (Pid::from_raw(6).unwrap(), 60),
            recorded: recorded.into(),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_until_a_reboot() {
        for filter in [
            recorded_filter(),
            ServerProcessFilter { tag: None, recorded: HashSet::new(), ..recorded_filter() },
        ] {
            let text = render_record("boot-1", &filter);
            assert_eq!(parse_record(&text, "boot-1"), Some(filter), "{text}");
            assert_eq!(parse_record(&text, "boot-2"), None);
        }
    }

    #[test]
    fn a_malformed_record_names_no_process() {
        for text in [
            "",
            "b",
            "b\n",
            "b\n6 60 0 x\n",
            "b\n6 0 A=x:\n",
            "b\n6 60 0 A=x:\n7\n",
            "b\n0 60 0 A=x:\n",
            "b\n6 60 0 A=x:\n7 x\n",
        ] {
            assert_eq!(parse_record(text, "b"), None, "{text:?}");
        }
    }

    #[test]
    fn another_process_with_a_recorded_pid_is_not_included() {
        let own = processes::stat(getpid()).unwrap();
        let recorded = |started| ServerProcessFilter {
            recorded: [(own.pid, started)].into(),
            ..recorded_filter()
        };
        assert!(recorded(own.started).includes(&own));
        assert!(!recorded(own.started + 1).includes(&own));
    }

    #[test]
    fn each_scan_that_found_a_difference_replaces_the_record() {
        let dir = tempfile::tempdir().unwrap();
        let mut record = ProcessRecord::begin(dir.path(), &host().tag()).unwrap();
        assert_eq!(read_record(dir.path()).unwrap(), ServerProcessFilter::new(&host().tag()));
        let processes = recorded_filter().recorded;
        let scan = TreeScan { processes: processes.clone(), ..TreeScan::default() };
        record.update(scan).unwrap();
        assert_eq!(read_record(dir.path()).unwrap().recorded, processes);
        record.update(TreeScan::default()).unwrap();
        assert!(read_record(dir.path()).unwrap().recorded.is_empty());
    }
}

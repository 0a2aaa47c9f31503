//! A small second process that creates the jobs with their own namespaces, and the server's side of it.
//!
//! Such a job needs steps between its creation and its program that cannot be done in the memory of
//! the server, and a `fork` of the server would cost more the bigger it is. The spawner is this
//! same program, started when it is first needed, with one thread and little memory. Each launch
//! arrives over a socket (`spawner_wire`), and creates *siblings* of the spawner: children of the
//! server, which waits for them like for any other. If the leader cannot execute its program, the
//! failed step is sent back.
//!
//! One launch creates three processes (`spawner_process`): one that makes the namespaces and then
//! exits, the init of the new pid namespace, which only waits to end when we do, and the leader.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::{Errno, fcntl_dupfd_cloexec, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use crate::child_defaults::{ChildDefaults, OURSELVES};
use crate::child_steps::{SpawnFailure, SpawnRequest, SpawnStep};
use crate::children::{Child, Children, Creation, KeeperChild};
use crate::keeper::HandoverFlag;
use crate::spawner_process::SPAWNER_ARG;
use crate::spawner_wire::{self, FdRole, SpawnerNote};
use crate::stdio::ChildFiles;
use crate::syscalls;
use crate::vfork_spawn::SpawnedChild;

/// The time after which a spawner that has not answered is replaced: a disk that is gone may keep
/// it from reading a program.
const PATIENCE: Duration = Duration::from_secs(30);

/// The handle of the spawner process, which creates processes in namespaces.
#[derive(Debug)]
pub struct Spawner {
    children: Arc<Children>,
    defaults: Arc<ChildDefaults>,
    /// The pid of the process that was started last; zero before the first.
    latest: AtomicI32,
    state: Mutex<State>,
}

/// The spawner process, and the program that it is started from.
#[derive(Debug, Default)]
struct State {
    /// This same program if `None`.
    program: Option<CString>,
    process: Option<SpawnerProcess>,
}

#[derive(Debug)]
struct SpawnerProcess {
    child: Child,
    socket: OwnedFd,
}

/// A leader with its pid namespace.
#[derive(Debug)]
pub(crate) struct NamespacedLeader {
    pub(crate) leader: SpawnedChild,
    pub(crate) namespace: PidNamespace,
}

/// The first process of a pid namespace that an earlier server created.
#[derive(Debug)]
pub(crate) struct RestoredInit {
    pub(crate) pidfd: OwnedFd,
    /// Only held: the process is not an orphan.
    pub(crate) _child: KeeperChild,
}

/// A live pid namespace. Dropping it ends everything in it.
#[derive(Debug)]
pub(crate) struct PidNamespace {
    init: Option<Child>,
    pid: Pid,
    /// The first process, if an earlier server created it: then the keeper reaps it.
    restored_init: Option<RestoredInit>,
    lifeline: OwnedFd,
    handover: HandoverFlag,
}

impl PidNamespace {
    fn new(init: Child, lifeline: OwnedFd, handover: HandoverFlag) -> Self {
        Self { pid: init.pid(), init: Some(init), restored_init: None, lifeline, handover }
    }

    /// Takes over a namespace that an earlier server created.
    pub(crate) const fn restore(
        pid: Pid,
        init: RestoredInit,
        lifeline: OwnedFd,
        handover: HandoverFlag,
    ) -> Self {
        Self { init: None, pid, restored_init: Some(init), lifeline, handover }
    }

    /// Returns the pipe that keeps it alive.
    pub(crate) fn lifeline(&self) -> BorrowedFd<'_> {
        self.lifeline.as_fd()
    }

    /// Opens a pidfd of its first process.
    pub(crate) fn open_init(&self) -> Result<OwnedFd, Errno> {
        match &self.restored_init {
            Some(init) => fcntl_dupfd_cloexec(&init.pidfd, 3),
            None => pidfd_open(self.pid, PidfdFlags::empty()),
        }
    }

    /// Returns its first process, as this host numbers it.
    pub(crate) const fn init(&self) -> Pid {
        self.pid
    }

    /// Kills every process in it.
    pub(crate) fn end(&self) {
        // A dead process is fine.
        match &self.restored_init {
            Some(init) => pidfd_send_signal(&init.pidfd, Signal::KILL).ok(),
            // It is not reaped before this is dropped, so the pid is still its own.
            None => kill_process(self.pid, Signal::KILL).ok(),
        };
    }
}

impl Drop for PidNamespace {
    fn drop(&mut self) {
        if self.handover.is_set() {
            return;
        }
        self.end();
        if let Some(init) = self.init.take() {
            init.discard();
        }
    }
}

impl Spawner {
    pub(crate) fn new(children: Arc<Children>, defaults: Arc<ChildDefaults>) -> Self {
        Self { children, defaults, latest: AtomicI32::new(0), state: Mutex::default() }
    }

    /// Starts the spawner process, if it does not run yet: this same program again.
    ///
    /// Otherwise the first launch that needs it starts it.
    ///
    /// # Errors
    /// If the system gives no more files or processes.
    pub fn start(&self) -> io::Result<()> {
        self.children
            .with_creation(|creation| Ok(self.running(&mut self.state(), creation).map(drop)?))
    }

    /// Starts the spawner from another program, which must call [`crate::run_helper`] as this one
    /// does: for a process that runs jobs and is not `shellyard` itself.
    ///
    /// # Errors
    /// If the path contains a NUL byte, or as [`Self::start`].
    pub fn start_from_program(&self, program: &Path) -> io::Result<()> {
        self.state().program = Some(CString::new(program.as_os_str().as_bytes())?);
        self.start()
    }

    /// Replaces a spawner that has died, so that the next launch need not. Returns `true` if it had
    /// died.
    ///
    /// # Errors
    /// If the system gives no more files or processes.
    pub fn restart_if_dead(&self) -> io::Result<bool> {
        self.children.with_creation(|creation| {
            let mut state = self.state();
            let Some(process) = &mut state.process else { return Ok(false) };
            let died = process.child.try_reap()?.is_some();
            if died {
                state.process = None;
                self.running(&mut state, creation)?;
            }
            Ok(died)
        })
    }

    /// Returns the pid of the spawner process, if there is one.
    pub(crate) fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.latest.load(Ordering::Relaxed))
    }

    /// Creates a process in its own namespaces, and in the cgroup of this directory. It runs its
    /// program when this returns; after an error there is none.
    pub(crate) fn create(
        &self,
        request: &SpawnRequest,
        files: ChildFiles<'_>,
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<NamespacedLeader, SpawnFailure> {
        self.children.with_creation(|creation| self.request(creation, request, files, cgroup))
    }

    fn request(
        &self,
        creation: &Creation<'_>,
        request: &SpawnRequest,
        files: ChildFiles<'_>,
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<NamespacedLeader, SpawnFailure> {
        let pipes = LaunchPipes::open().map_err(|errno| SpawnStep::Request.failed(errno))?;
        let (roles, files): (Vec<_>, Vec<_>) =
            FdRole::list(files, cgroup).chain(pipes.theirs()).unzip();
        let request = spawner_wire::encode(request, &roles);
        if request.len() > spawner_wire::MOST_BYTES {
            return Err(SpawnStep::Program.failed(Errno::TOOBIG));
        }
        let answer = self.ask(creation, &request, &files)?;
        let LaunchPipes { notes: (notes, their_notes), lifeline: (_theirs, lifeline) } = pipes;
        // Our copy must be closed too, or the notes would never end.
        drop(their_notes);
        let handover = self.children.handover();
        LaunchNotes::read_from(answer, &notes).register_processes(creation, lifeline, handover)
    }

    /// Sends one request at a time. A spawner that does not accept it is replaced, once; one that
    /// accepted it and does not answer is not asked again: the process may exist.
    fn ask(
        &self,
        creation: &Creation<'_>,
        request: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<SpawnerNote, SpawnFailure> {
        let failed = |errno| SpawnStep::Request.failed(errno);
        let send = |spawner: &SpawnerProcess| {
            // Jobs inherit the spawner's limits. Ours may have been lowered since the last launch.
            self.defaults.limit_open_files(spawner.child.pid());
            spawner_wire::send_request(spawner.socket.as_fd(), request, files)
        };
        let mut state = self.state();
        if send(self.running(&mut state, creation).map_err(failed)?).is_err() {
            state.discard();
            send(self.running(&mut state, creation).map_err(failed)?).map_err(failed)?;
        }
        let spawner = self.running(&mut state, creation).map_err(failed)?;
        spawner_wire::receive_answer(spawner.socket.as_fd()).map_err(|errno| {
            state.discard();
            failed(errno)
        })
    }

    fn running<'a>(
        &self,
        state: &'a mut State,
        creation: &Creation<'_>,
    ) -> Result<&'a SpawnerProcess, Errno> {
        let process = match state.process.take() {
            Some(process) => process,
            None => self.start_process(creation, state.program.as_deref())?,
        };
        Ok(state.process.insert(process))
    }

    fn start_process(
        &self,
        creation: &Creation<'_>,
        program: Option<&CStr>,
    ) -> Result<SpawnerProcess, Errno> {
        let family = AddressFamily::UNIX;
        let kind = SocketType::STREAM;
        let (ours, theirs) = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        for timeout in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&ours, timeout, Some(PATIENCE))?;
        }
        let words = ["shellyard", SPAWNER_ARG].map(CString::new);
        let argv: Vec<_> = words.into_iter().flatten().collect();
        let program = program.unwrap_or(OURSELVES);
        let pid = self.defaults.start_helper(program, &argv, theirs.as_fd())?;
        let child = creation.register(pid);
        self.latest.store(pid.as_raw_nonzero().get(), Ordering::Relaxed);
        Ok(SpawnerProcess { child, socket: ours })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn discard(&mut self) {
        if let Some(spawner) = self.process.take() {
            spawner.child.kill_and_reap();
        }
    }
}

/// The pipes that connect us with the processes of a launch; the end that we keep is first for what
/// we read and last for what we hold.
#[derive(Debug)]
struct LaunchPipes {
    notes: (OwnedFd, OwnedFd),
    lifeline: (OwnedFd, OwnedFd),
}

impl LaunchPipes {
    fn open() -> Result<Self, Errno> {
        let open_pipe = || pipe_with(PipeFlags::CLOEXEC);
        Ok(Self { notes: open_pipe()?, lifeline: open_pipe()? })
    }

    /// Returns the ends that go to the new processes.
    fn theirs(&self) -> impl Iterator<Item = (FdRole, BorrowedFd<'_>)> {
        [(FdRole::Notes, self.notes.1.as_fd()), (FdRole::Lifeline, self.lifeline.0.as_fd())]
            .into_iter()
    }
}

/// The notes of the processes of a launch.
#[derive(Debug, Default)]
struct LaunchNotes {
    maker: Option<Pid>,
    init: Option<Pid>,
    leader: Option<Pid>,
    failure: Option<SpawnFailure>,
}

impl LaunchNotes {
    /// Reads notes until the leader runs its program, or is gone.
    fn read_from(answer: SpawnerNote, notes: &OwnedFd) -> Self {
        let mut launched = Self::default();
        launched.add(answer);
        let mut bytes = [0; SpawnerNote::BYTES];
        // Each note is written at once, and so arrives whole.
        while retry_on_intr(|| rustix::io::read(notes, &mut bytes)) == Ok(SpawnerNote::BYTES) {
            if let Some(note) = SpawnerNote::decode(bytes) {
                launched.add(note);
            }
        }
        launched
    }

    fn add(&mut self, note: SpawnerNote) {
        match note {
            SpawnerNote::Maker(pid) => self.maker = Some(pid),
            SpawnerNote::Init(pid) => self.init = Some(pid),
            SpawnerNote::Leader(pid) => self.leader = Some(pid),
            SpawnerNote::Failed(failure) => self.failure = Some(failure),
        }
    }

    /// Registers the processes; those of a failed launch are ended.
    fn register_processes(
        self,
        creation: &Creation<'_>,
        lifeline: OwnedFd,
        handover: HandoverFlag,
    ) -> Result<NamespacedLeader, SpawnFailure> {
        if let Some(maker) = self.maker {
            // It has closed its notes, so it is about to end.
            syscalls::wait_blocking(maker).ok();
        }
        let init = self.init.map(|pid| creation.register(pid));
        let namespace = init.map(|init| PidNamespace::new(init, lifeline, handover));
        let leader = self.leader.map(|pid| creation.register(pid));
        match (leader, namespace, self.failure) {
            (Some(leader), Some(namespace), None) => {
                Ok(NamespacedLeader { leader: open_pidfd(leader)?, namespace })
            }
            (leader, _, failure) => {
                if let Some(leader) = leader {
                    leader.kill_and_reap();
                }
                Err(failure.unwrap_or_else(|| SpawnStep::Clone.failed(Errno::CHILD)))
            }
        }
    }
}

/// Opens the pidfd of a new process. After an error the process is gone.
fn open_pidfd(child: Child) -> Result<SpawnedChild, SpawnFailure> {
    match pidfd_open(child.pid(), PidfdFlags::empty()) {
        Ok(pidfd) => Ok(SpawnedChild { child, pidfd }),
        Err(errno) => {
            child.kill_and_reap();
            Err(SpawnStep::Clone.failed(errno))
        }
    }
}

//! The server's side: keeps one spawner, and asks it for processes.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::serve::SPAWNER_ARG;
use super::wire::{self, Note, Role};
use crate::children::{self, Child, Desk};
use crate::stdio::Files;
use crate::vfork_spawn::{Failure, Newborn, Order, Step};
use crate::{child_defaults, syscalls};

/// A spawner that has not answered by then is replaced: a disk that is gone may keep it from
/// reading a program.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of the spawner that was started last; zero before there is one.
static LATEST: AtomicI32 = AtomicI32::new(0);

static OFFICE: Mutex<Office> = Mutex::new(Office { program: None, spawner: None });

/// The one spawner of this process, and what it is started from.
#[derive(Debug)]
struct Office {
    /// This same program, unless something else was said.
    program: Option<CString>,
    spawner: Option<Spawner>,
}

#[derive(Debug)]
struct Spawner {
    child: Child,
    socket: OwnedFd,
}

/// What came out of a launch.
#[derive(Debug)]
pub(crate) struct Offspring {
    pub(crate) leader: Newborn,
    pub(crate) namespace: Namespace,
}

/// A process namespace that lives. Dropped, it ends with everything in it.
#[derive(Debug)]
pub(crate) struct Namespace {
    init: Option<Child>,
    pid: Pid,
    _lifeline: OwnedFd,
}

impl Namespace {
    fn new(init: Child, lifeline: OwnedFd) -> Self {
        Self { pid: init.pid(), init: Some(init), _lifeline: lifeline }
    }

    /// Its first process, as this host numbers it.
    pub(crate) const fn init(&self) -> Pid {
        self.pid
    }

    /// Ends every process in it.
    pub(crate) fn end(&self) {
        // Not reaped before this is dropped, so the number is still its own. Gone is as good.
        kill_process(self.pid, Signal::KILL).ok();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.end();
        if let Some(init) = self.init.take() {
            init.dismiss();
        }
    }
}

/// Starts the spawner of this process, if it does not run yet: this same program again.
///
/// Else the first launch that needs it starts it.
///
/// # Errors
/// When the system gives no more files or processes.
pub fn start() -> io::Result<()> {
    child_defaults::prepare()?;
    children::creating(|desk| Ok(office().running(desk).map(drop)?))
}

/// The same from another program, which must call [`super::spawner_main`] as this one does: for a
/// process that holds jobs and is not `shellyard` itself.
///
/// # Errors
/// When the path holds a NUL byte, or as [`start`].
pub fn start_with(program: &Path) -> io::Result<()> {
    office().program = Some(CString::new(program.as_os_str().as_bytes())?);
    start()
}

/// Replaces a spawner that has died, so that the next launch need not. Says whether it had.
///
/// # Errors
/// When the system gives no more files or processes.
pub fn renew() -> io::Result<bool> {
    children::creating(|desk| {
        let mut office = office();
        let Some(spawner) = &mut office.spawner else { return Ok(false) };
        let died = spawner.child.try_reap()?.is_some();
        if died {
            office.spawner = None;
            office.running(desk)?;
        }
        Ok(died)
    })
}

/// The number of the spawner, where there is one.
pub(crate) fn pid() -> Option<Pid> {
    Pid::from_raw(LATEST.load(Ordering::Relaxed))
}

/// Has a process created in namespaces of its own, and in the cgroup of this directory. It has
/// become its program when this returns; after an error there is none.
pub(crate) fn create(
    order: &Order,
    files: Files<'_>,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Offspring, Failure> {
    children::creating(|desk| request(desk, order, files, cgroup))
}

fn request(
    desk: &Desk,
    order: &Order,
    files: Files<'_>,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Offspring, Failure> {
    let pipes = Pipes::lay().map_err(|errno| Step::Request.failed(errno))?;
    let (roles, files): (Vec<_>, Vec<_>) = Role::list(files, cgroup).chain(pipes.theirs()).unzip();
    let request = wire::encode(order, &roles);
    if request.len() > wire::MOST_BYTES {
        return Err(Step::Program.failed(Errno::TOOBIG));
    }
    let answer = office().ask(desk, &request, &files)?;
    let Pipes { notes: (notes, their_notes), lifeline: (_theirs, lifeline) } = pipes;
    // Ours too must be closed, else the notes would never end.
    drop(their_notes);
    Launched::hear(answer, &notes).settle(desk, lifeline)
}

/// What connects us with the processes of a launch; the end that we keep is first for what we read
/// and last for what we hold.
#[derive(Debug)]
struct Pipes {
    notes: (OwnedFd, OwnedFd),
    lifeline: (OwnedFd, OwnedFd),
}

impl Pipes {
    fn lay() -> Result<Self, Errno> {
        let lay = || pipe_with(PipeFlags::CLOEXEC);
        Ok(Self { notes: lay()?, lifeline: lay()? })
    }

    /// The ends that go to the new processes.
    fn theirs(&self) -> impl Iterator<Item = (Role, BorrowedFd<'_>)> {
        [(Role::Notes, self.notes.1.as_fd()), (Role::Lifeline, self.lifeline.0.as_fd())].into_iter()
    }
}

fn office() -> MutexGuard<'static, Office> {
    OFFICE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Office {
    fn running(&mut self, desk: &Desk) -> Result<&Spawner, Errno> {
        let spawner = match self.spawner.take() {
            Some(spawner) => spawner,
            None => Spawner::start(desk, self.program.as_ref())?,
        };
        Ok(self.spawner.insert(spawner))
    }

    /// One request at a time. A spawner that takes none is replaced, once; one that took a request
    /// and does not answer is not asked again: the process may be there.
    fn ask(
        &mut self,
        desk: &Desk,
        request: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<Note, Failure> {
        let failed = |errno| Step::Request.failed(errno);
        let send = |spawner: &Spawner| {
            // Jobs inherit the spawner's limits. Ours may have been lowered since the last launch.
            child_defaults::limit_open_files(spawner.child.pid());
            wire::send_request(spawner.socket.as_fd(), request, files)
        };
        if send(self.running(desk).map_err(failed)?).is_err() {
            self.dismiss();
            send(self.running(desk).map_err(failed)?).map_err(failed)?;
        }
        let spawner = self.running(desk).map_err(failed)?;
        wire::receive_answer(spawner.socket.as_fd()).map_err(|errno| {
            self.dismiss();
            failed(errno)
        })
    }

    fn dismiss(&mut self) {
        if let Some(spawner) = self.spawner.take() {
            spawner.child.kill_and_reap();
        }
    }
}

impl Spawner {
    fn start(desk: &Desk, program: Option<&CString>) -> Result<Self, Errno> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let (ours, theirs) = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        for timeout in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&ours, timeout, Some(PATIENCE))?;
        }
        let words = ["shellyard", SPAWNER_ARG].map(CString::new);
        let argv: Vec<_> = words.into_iter().flatten().collect();
        let program = program.map_or(child_defaults::OURSELVES, CString::as_c_str);
        let child = desk.register(child_defaults::start(program, &argv, theirs.as_fd())?);
        LATEST.store(child.pid().as_raw_nonzero().get(), Ordering::Relaxed);
        Ok(Self { child, socket: ours })
    }
}

/// What the processes of a launch told.
#[derive(Debug, Default)]
struct Launched {
    maker: Option<Pid>,
    init: Option<Pid>,
    leader: Option<Pid>,
    failure: Option<Failure>,
}

impl Launched {
    /// Listens until the leader is its program, or gone.
    fn hear(answer: Note, notes: &OwnedFd) -> Self {
        let mut launched = Self::default();
        launched.add(answer);
        let mut bytes = [0; Note::BYTES];
        // Each is written at once, and so comes whole.
        while retry_on_intr(|| rustix::io::read(notes, &mut bytes)) == Ok(Note::BYTES) {
            if let Some(note) = Note::decode(bytes) {
                launched.add(note);
            }
        }
        launched
    }

    fn add(&mut self, note: Note) {
        match note {
            Note::Maker(pid) => self.maker = Some(pid),
            Note::Init(pid) => self.init = Some(pid),
            Note::Leader(pid) => self.leader = Some(pid),
            Note::Failed(failure) => self.failure = Some(failure),
        }
    }

    /// Takes the processes into our books; those of a launch that failed are ended.
    fn settle(self, desk: &Desk, lifeline: OwnedFd) -> Result<Offspring, Failure> {
        if let Some(maker) = self.maker {
            // It has closed its notes, so it is at its end.
            syscalls::wait_blocking(maker).ok();
        }
        let init = self.init.map(|pid| desk.register(pid));
        let namespace = init.map(|init| Namespace::new(init, lifeline));
        let leader = self.leader.map(|pid| desk.register(pid));
        match (leader, namespace, self.failure) {
            (Some(leader), Some(namespace), None) => {
                Ok(Offspring { leader: watched(leader)?, namespace })
            }
            (leader, _, failure) => {
                if let Some(leader) = leader {
                    leader.kill_and_reap();
                }
                Err(failure.unwrap_or_else(|| Step::Birth.failed(Errno::CHILD)))
            }
        }
    }
}

/// A new process with the file that tells of its end. After an error it is gone.
fn watched(child: Child) -> Result<Newborn, Failure> {
    match pidfd_open(child.pid(), PidfdFlags::empty()) {
        Ok(pidfd) => Ok(Newborn { child, pidfd }),
        Err(errno) => {
            child.kill_and_reap();
            Err(Step::Birth.failed(errno))
        }
    }
}

//! The server's connection to its keeper.
#![expect(unsafe_code, reason = "changing the environment and taking an inherited file are unsafe")]

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, io, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{RecvFlags, SendFlags, Shutdown, shutdown};
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
use rustix::thread::set_name;

use super::protocol::{
    Hello, KEEPER_ARG, KEEPER_VARIABLE, KeeperIdentity, KeeperMessage, ServerMessage,
};
use crate::handover::{HandoverFlag, INTERNAL_PREFIX, SCRATCH_FILE};
use crate::shim::{Isolation, MappedIds};
use crate::syscalls::{self, FileAction, PosixSpawnPlan};
use crate::wire::{self, Received};

/// The time after which a keeper that does not read is an error. Threads of the runtime send too, so
/// it is short; the keeper itself never waits for anything but messages and signals.
const SEND_LIMIT: Duration = Duration::from_secs(1);
/// The time in which the keeper has to tell about earlier jobs.
const HELLO_LIMIT: Duration = Duration::from_secs(30);

/// The longest wait for the end of a keeper that has no job left.
const END_LIMIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A state of the server that the keeper reports to the service manager (`sd_notify`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeeperNotice {
    /// The server is ending.
    Stopping,
    /// The server reads its settings again, or hands over to another program. The next
    /// [`KeeperClient::set_ready`] ends this state.
    Reloading,
    /// The server is alive, for the service manager's watchdog.
    Alive,
}

/// The server's connection to its keeper. A clone is the same connection.
#[derive(Debug, Clone)]
pub struct KeeperClient {
    connection: Arc<Connection>,
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    hello: Hello,
    keeper: Pid,
    handover: HandoverFlag,
    files: Mutex<Vec<HeldFile>>,
    scratch_note: Option<String>,
    shims: Mutex<Vec<HeldShim>>,
    last_shim: AtomicU64,
    /// `true` once this server has closed the connection.
    is_closed: AtomicBool,
}

/// A file that an earlier server left with the keeper.
#[derive(Debug)]
pub(crate) struct HeldFile {
    name: String,
    pub(crate) note: String,
    pub(crate) file: OwnedFd,
}

/// A shim of an earlier server.
#[derive(Debug)]
pub(crate) struct HeldShim {
    pub(crate) shim: u64,
    pub(crate) name: String,
    /// The server's end of its connection.
    pub(crate) socket: OwnedFd,
}

/// The path of this program, even if its file was moved.
const OURSELVES: &std::ffi::CStr = c"/proc/self/exe";

impl KeeperClient {
    /// Returns the connection of this server to its keeper; `None` if this process was not started
    /// by a keeper. Removes the variable that names the connection.
    ///
    /// Call it first of all, before there are other threads: it changes the environment. Blocks
    /// until the keeper has told about earlier jobs.
    ///
    /// # Errors
    /// If the variable names no connection to our parent, or if the keeper does not answer.
    pub fn from_environment() -> io::Result<Option<Self>> {
        #[expect(clippy::disallowed_methods, reason = "not a setting, and removed at once")]
        let Some(value) = env::var_os(KEEPER_VARIABLE) else { return Ok(None) };
        // SAFETY: the caller makes sure that no other thread exists that could read it.
        unsafe { env::remove_var(KEEPER_VARIABLE) };
        let number = parse_fd(&value).ok_or_else(|| invalid("not a file number"))?;
        // SAFETY: this is used for one check only. A number that is not open gives an error.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let keeper = socket_peercred(file)?.pid;
        if getppid() != Some(keeper) {
            return Err(invalid("not a connection to the parent of this process"));
        }
        fcntl_setfd(file, FdFlags::CLOEXEC)?;
        // The keeper executes an open file, whose number would be the name.
        set_name(c"shellyard")?;
        // SAFETY: the keeper opened the file for us, and nobody else in this process knows of it.
        Self::connect(unsafe { OwnedFd::from_raw_fd(number) }, keeper).map(Some)
    }

    /// Starts a keeper as a child of this process, which ends with it. It is this same program again,
    /// which must call [`crate::run_helper`] first of all.
    ///
    /// # Errors
    /// If the system gives no more files or processes, or if it does not answer.
    pub(crate) fn start() -> io::Result<Self> {
        let (ours, theirs) = wire::connection()?;
        let root = open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let actions = [
            FileAction::Chdir(root.as_fd()),
            FileAction::Dup { from: theirs.as_fd(), to: 0 },
            FileAction::Open { to: 1, path: c"/dev/null", flags: libc::O_WRONLY },
            FileAction::Copy { from: 1, to: 2 },
        ];
        let argv = [CString::new("shellyard")?, CString::new(KEEPER_ARG)?];
        let plan = PosixSpawnPlan { path: OURSELVES, argv: &argv, env: &[], actions: &actions };
        let keeper = syscalls::posix_spawn(&plan)?;
        drop(theirs);
        Self::connect(ours, keeper)
    }

    fn connect(socket: OwnedFd, keeper: Pid) -> io::Result<Self> {
        set_socket_timeout(&socket, Timeout::Send, Some(SEND_LIMIT))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(HELLO_LIMIT))?;
        let next = || match wire::receive(socket.as_fd(), RecvFlags::empty())? {
            Received::Message(message, files) => Ok((message, files)),
            Received::Unknown => {
                Err(invalid("the keeper is of another release: restart the service"))
            }
            Received::End => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        };
        let (KeeperMessage::Hello(hello), _) = next()? else {
            return Err(invalid("the keeper does not introduce itself"));
        };
        let mut files = Vec::new();
        let mut shims = Vec::new();
        loop {
            let (message, beside) = next()?;
            let file = beside.into_iter().next();
            match message {
                KeeperMessage::Complete => break,
                KeeperMessage::File { name, note } => {
                    files.extend(file.map(|file| HeldFile { name, note, file }));
                }
                KeeperMessage::Shim { shim, name } => {
                    shims.extend(file.map(|socket| HeldShim { shim, name, socket }));
                }
                KeeperMessage::Hello(_) => {}
            }
        }
        set_socket_timeout(&socket, Timeout::Recv, None)?;
        let scratch = files.iter().find(|held| held.name == SCRATCH_FILE);
        let connection = Arc::new(Connection {
            socket,
            scratch_note: scratch.map(|held| held.note.clone()),
            keeper,
            handover: HandoverFlag::default(),
            files: Mutex::new(files),
            shims: Mutex::new(shims),
            last_shim: AtomicU64::new(hello.generation << 32),
            is_closed: AtomicBool::new(false),
            hello,
        });
        Ok(Self { connection })
    }

    /// Calls `on_end` in a thread of its own when the keeper is gone by itself: all jobs end then, and
    /// the server has to end itself. Call it once.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub fn watch_end(&self, on_end: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let connection = Arc::clone(&self.connection);
        let watch = move || {
            connection.wait_for_end();
            if !connection.is_closed.load(Ordering::Acquire) {
                on_end();
            }
        };
        // A thread that took signals of the process would hold up those that wait for them.
        syscalls::with_blocked_signals(|| {
            thread::Builder::new().name("keeper".to_owned()).spawn(watch)
        })?;
        Ok(())
    }

    /// Tells the keeper that this server serves requests. A server that ends before that has failed
    /// to start.
    ///
    /// # Errors
    /// If the keeper is gone.
    pub fn set_ready(&self) -> io::Result<()> {
        Ok(self.send(&ServerMessage::Ready, &[])?)
    }

    /// Makes the keeper hold a copy of this file for the next server, for example a listening
    /// socket or a lock. It replaces the file that is held under the same name.
    ///
    /// # Errors
    /// If the keeper is gone.
    pub fn hold_file(&self, name: &str, file: BorrowedFd<'_>) -> io::Result<()> {
        self.hold_noted_file(name, "", file)
    }

    pub(crate) fn hold_noted_file(
        &self,
        name: &str,
        note: &str,
        file: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let message = ServerMessage::HoldFile { name: name.to_owned(), note: note.to_owned() };
        Ok(self.send(&message, &[file])?)
    }

    /// Makes the keeper close the file that it holds under this name.
    ///
    /// # Errors
    /// If the keeper is gone.
    pub fn drop_file(&self, name: &str) -> io::Result<()> {
        Ok(self.send(&ServerMessage::DropFile { name: name.to_owned() }, &[])?)
    }

    /// Takes the file that an earlier server left under this name. The keeper still holds it too.
    #[must_use]
    pub fn take_file(&self, name: &str) -> Option<OwnedFd> {
        self.take_noted_file(name).map(|held| held.file)
    }

    /// Returns the note of earlier servers about the directory in which jobs have theirs.
    pub(crate) fn scratch_note(&self) -> Option<&str> {
        self.connection.scratch_note.as_deref()
    }

    pub(crate) fn take_noted_file(&self, name: &str) -> Option<HeldFile> {
        let mut files = lock(&self.connection.files);
        let place = files.iter().position(|held| held.name == name)?;
        Some(files.remove(place))
    }

    /// Returns the names of the files that an earlier server left and that were not taken yet.
    #[must_use]
    pub fn held_file_names(&self) -> Vec<String> {
        let files = lock(&self.connection.files);
        let names = files.iter().map(|held| &held.name);
        names.filter(|name| !name.starts_with(INTERNAL_PREFIX)).cloned().collect()
    }

    /// Reports a state of the server to the service manager, if there is one.
    ///
    /// # Errors
    /// If the keeper is gone.
    pub fn notify(&self, notice: KeeperNotice) -> io::Result<()> {
        let text = match notice {
            KeeperNotice::Stopping => "STOPPING=1".to_owned(),
            KeeperNotice::Reloading => {
                format!("RELOADING=1\nMONOTONIC_USEC={}", syscalls::monotonic_micros())
            }
            KeeperNotice::Alive => "WATCHDOG=1".to_owned(),
        };
        Ok(self.send(&ServerMessage::Notify { text }, &[])?)
    }

    /// Asks the keeper to start this program as the next server, with the same arguments; the path is
    /// a full one. The caller then exits with [`UPGRADE_EXIT_CODE`](super::UPGRADE_EXIT_CODE). If the
    /// program cannot be started or does not become ready, the keeper starts the present one again.
    ///
    /// # Errors
    /// If the keeper is gone: then nothing has changed.
    pub fn request_upgrade(&self, program: &Path) -> io::Result<()> {
        let program = program.as_os_str().as_bytes().to_vec();
        Ok(self.send(&ServerMessage::Upgrade { program }, &[])?)
    }

    /// From now on dropping a process, a tree or a scratch directory leaves the job as it is: it goes on
    /// in the next server.
    pub fn begin_handover(&self) {
        self.connection.handover.set();
    }

    /// `true` after [`Self::begin_handover`].
    #[must_use]
    pub fn is_handing_over(&self) -> bool {
        self.connection.handover.is_set()
    }

    /// Returns the number of this server among those of its keeper; the first is 1.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.connection.hello.generation
    }

    /// Returns the reason why the previous server ended, or why an upgrade failed; `None` for the
    /// first server and after a successful upgrade.
    #[must_use]
    pub fn last_failure(&self) -> Option<String> {
        self.connection.hello.last_failure.clone()
    }

    pub(crate) fn keeper(&self) -> Pid {
        self.connection.keeper
    }

    pub(crate) fn identity(&self) -> KeeperIdentity {
        self.connection.hello.identity
    }

    pub(crate) fn handover(&self) -> &HandoverFlag {
        &self.connection.handover
    }

    /// `true` if an earlier server left jobs that were not taken yet.
    #[must_use]
    pub fn has_untaken_jobs(&self) -> bool {
        !lock(&self.connection.shims).is_empty()
    }

    pub(crate) fn take_shims(&self) -> Vec<HeldShim> {
        std::mem::take(&mut *lock(&self.connection.shims))
    }

    /// Makes the keeper fork a shim in these namespaces, and hold our end of its connection under this
    /// name. Returns its number.
    pub(crate) fn start_shim(
        &self,
        name: &str,
        isolation: Isolation,
        mapped: Option<MappedIds>,
        theirs: BorrowedFd<'_>,
        ours: BorrowedFd<'_>,
    ) -> Result<u64, Errno> {
        let shim = self.connection.last_shim.fetch_add(1, Ordering::Relaxed) + 1;
        let name = name.to_owned();
        let message = ServerMessage::StartShim { shim, name, isolation, mapped };
        self.send(&message, &[theirs, ours])?;
        Ok(shim)
    }

    /// Makes all shims end their trees. No job can be started any more.
    pub fn end_shims(&self) {
        // Without a keeper they end by themselves.
        self.send(&ServerMessage::EndShims, &[]).ok();
    }

    /// Ends a keeper that is a child of this process, once no job is left, and reaps it: where the first
    /// process of a container reaps no orphans, it would stay as a zombie. Blocks for a limited time.
    pub(crate) fn end_child(&self) {
        self.connection.is_closed.store(true, Ordering::Release);
        shutdown(&self.connection.socket, Shutdown::Both).ok();
        if let Ok(keeper) = pidfd_open(self.keeper(), PidfdFlags::empty()) {
            poll(&mut [PollFd::new(&keeper, PollFlags::IN)], Some(&END_LIMIT)).ok();
        }
        // One that was reaped already is no child.
        syscalls::try_wait(self.keeper()).ok();
    }

    /// Makes the keeper forget a shim.
    pub(crate) fn forget_shim(&self, shim: u64) {
        // Without a keeper there is nothing to forget.
        self.send(&ServerMessage::ForgetShim { shim }, &[]).ok();
    }

    fn send(&self, message: &ServerMessage, files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        wire::send(self.connection.socket.as_fd(), message, files, SendFlags::empty())
    }
}

impl Connection {
    /// Returns once the keeper is gone.
    fn wait_for_end(&self) {
        loop {
            match wire::receive::<KeeperMessage>(self.socket.as_fd(), RecvFlags::empty()) {
                Ok(Received::Message(..) | Received::Unknown) => {}
                Ok(Received::End) | Err(_) => return,
            }
        }
    }
}

fn parse_fd(value: &OsStr) -> Option<RawFd> {
    value.to_str()?.parse().ok().filter(|number| *number > 2)
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{KEEPER_VARIABLE}: {why}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::socket_timeout;
    use rustix::process::getpid;

    use super::*;

    /// Connects a client to a keeper that does nothing.
    fn connect() -> (KeeperClient, OwnedFd) {
        let (ours, theirs) = wire::connection().unwrap();
        let identity = KeeperIdentity { pid: 1, started: 1, open_files: (None, None) };
        let hello = KeeperMessage::Hello(Hello { generation: 3, identity, last_failure: None });
        let file = KeeperMessage::File { name: "lock".to_owned(), note: "note".to_owned() };
        let shim = KeeperMessage::Shim { shim: 7, name: "job".to_owned() };
        for message in [hello, file, shim, KeeperMessage::Complete] {
            let files: &[_] = match message {
                KeeperMessage::File { .. } | KeeperMessage::Shim { .. } => &[theirs.as_fd()],
                KeeperMessage::Hello(_) | KeeperMessage::Complete => &[],
            };
            wire::send(theirs.as_fd(), &message, files, SendFlags::DONTWAIT).unwrap();
        }
        (KeeperClient::connect(ours, getpid()).unwrap(), theirs)
    }

    fn messages(keeper: &OwnedFd) -> Vec<(ServerMessage, usize)> {
        let next = || match wire::receive(keeper.as_fd(), RecvFlags::DONTWAIT) {
            Ok(Received::Message(message, files)) => Some((message, files.len())),
            Ok(Received::Unknown | Received::End) | Err(_) => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn everything_that_is_held_can_be_taken_once() {
        let (client, _keeper) = connect();
        assert_eq!(client.generation(), 3);
        assert_eq!(client.held_file_names(), ["lock"]);
        assert!(client.has_untaken_jobs());
        let held = client.take_noted_file("lock").unwrap();
        assert_eq!(held.note, "note");
        assert!(client.take_file("lock").is_none());
        let shims = client.take_shims();
        assert_eq!(shims.iter().map(|held| held.shim).collect::<Vec<_>>(), [7]);
        assert!(!client.has_untaken_jobs());
    }

    #[test]
    fn servers_of_one_keeper_number_their_shims_differently() {
        let (client, keeper) = connect();
        let (theirs, ours) = wire::connection().unwrap();
        let start = |isolation| {
            client.start_shim("a", isolation, None, theirs.as_fd(), ours.as_fd()).unwrap()
        };
        let first = start(Isolation::None);
        assert_eq!(first, (3 << 32) + 1);
        assert_eq!(start(Isolation::None), first + 1);
        client.forget_shim(first);
        let name = "a".to_owned();
        let start = |shim| ServerMessage::StartShim {
            shim,
            name: name.clone(),
            isolation: Isolation::None,
            mapped: None,
        };
        let forget = ServerMessage::ForgetShim { shim: first };
        assert_eq!(messages(&keeper), [(start(first), 2), (start(first + 1), 2), (forget, 0)]);
    }

    #[test]
    fn a_keeper_that_does_not_read_holds_a_thread_for_a_second_at_most() {
        let (client, _keeper) = connect();
        let limit = socket_timeout(&client.connection.socket, Timeout::Send).unwrap();
        assert!(limit.is_some_and(|limit| limit <= Duration::from_secs(1)), "{limit:?}");
        let fill = || client.notify(KeeperNotice::Alive);
        let error = std::iter::repeat_with(fill).find_map(Result::err).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
    }
}

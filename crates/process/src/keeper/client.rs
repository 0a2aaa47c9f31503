//! The server's connection to its keeper, and the jobs that the keeper holds for the server.
#![expect(unsafe_code, reason = "changing the environment and taking an inherited file are unsafe")]

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, io, thread};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, getppid};
use rustix::thread::set_name;
use tokio::sync::oneshot;

use super::protocol::{
    FileRole, Hello, KEEPER_VARIABLE, KeeperMessage, MessageReader, PROTOCOL_VERSION, Received,
    ReceivedJob, ServerIdentity, ServerMessage, send_message,
};
use crate::syscalls::{self, ChildExit};

/// The time after which a keeper that does not read is an error. Threads of the runtime send too, so
/// it is short; the keeper itself never waits for anything but messages and signals.
const SEND_LIMIT: Duration = Duration::from_secs(1);
/// The time in which the keeper has to tell about earlier jobs.
const HELLO_LIMIT: Duration = Duration::from_secs(30);

/// The prefix of the names of files that this crate itself holds.
const INTERNAL_PREFIX: &str = "process/";
pub(crate) const SCRATCH_FILE: &str = "process/scratch";
pub(crate) const CGROUP_FILE: &str = "process/cgroup";

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
    jobs: Mutex<Vec<ReceivedJob>>,
    endings: Mutex<Endings>,
    reader: Mutex<MessageReader>,
    last_job: AtomicU64,
}

/// A file that an earlier server left with the keeper.
#[derive(Debug)]
pub(crate) struct HeldFile {
    name: String,
    pub(crate) note: String,
    pub(crate) file: OwnedFd,
}

/// The ends of processes that are children of the keeper.
#[derive(Debug, Default)]
struct Endings {
    waiting: HashMap<u64, oneshot::Sender<ChildExit>>,
    /// The ends that nobody has waited for yet.
    known: HashMap<u64, ChildExit>,
}

impl KeeperClient {
    /// Returns the connection of this server to its keeper; `None` if this process was not started
    /// by a keeper. Removes the variable that names the connection.
    ///
    /// Call it first of all, before there are other threads: it changes the environment. Blocks
    /// until the keeper has told about earlier jobs. Its later messages wait for
    /// [`Self::start_reading`].
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

    fn connect(socket: OwnedFd, keeper: Pid) -> io::Result<Self> {
        set_socket_timeout(&socket, Timeout::Send, Some(SEND_LIMIT))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(HELLO_LIMIT))?;
        let mut reader = MessageReader::default();
        let mut received = Vec::new();
        let mut next = || match reader.receive(socket.as_fd(), RecvFlags::empty())? {
            Received::Message(message, files) => Ok((message, files)),
            Received::End => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        };
        let (KeeperMessage::Hello(hello), _) = next()? else {
            return Err(invalid("the keeper does not introduce itself"));
        };
        if hello.version < PROTOCOL_VERSION {
            return Err(invalid("the keeper is too old for this server: restart the service"));
        }
        let mut files = Vec::new();
        let mut endings = Endings::default();
        loop {
            match next()? {
                (KeeperMessage::Complete, _) => break,
                (KeeperMessage::File { name, note }, beside) => {
                    files.extend(beside.into_iter().next().map(|file| HeldFile {
                        name,
                        note,
                        file,
                    }));
                }
                (KeeperMessage::Ended { job, exit }, _) => {
                    endings.known.insert(job, exit);
                }
                (message, beside) => received.extend(ReceivedJob::from_message(message, beside)),
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
            jobs: Mutex::new(received),
            endings: Mutex::new(endings),
            reader: Mutex::new(reader),
            last_job: AtomicU64::new(hello.generation << 32),
            hello,
        });
        Ok(Self { connection })
    }

    /// Reads the messages of the keeper from now on, in a thread of its own. Calls `on_end` when the
    /// keeper is gone: the server then has to end its jobs and itself. Call it once.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub fn start_reading(&self, on_end: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let connection = Arc::clone(&self.connection);
        let read = move || {
            connection.read_messages();
            on_end();
        };
        // A thread that took signals of the process would hold up those that wait for them.
        syscalls::with_blocked_signals(|| {
            thread::Builder::new().name("keeper".to_owned()).spawn(read)
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
    /// From now on dropping a process, a tree or a scratch directory leaves the job as it is.
    ///
    /// # Errors
    /// If the keeper is gone: then nothing has changed.
    pub fn request_upgrade(&self, program: &Path) -> io::Result<()> {
        let program = program.as_os_str().as_bytes().to_vec();
        self.send(&ServerMessage::Upgrade { program }, &[])?;
        self.connection.handover.set();
        Ok(())
    }

    /// `true` once [`Self::request_upgrade`] has succeeded: jobs go on in the next server and must
    /// not be ended.
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

    pub(crate) fn identity(&self) -> ServerIdentity {
        self.connection.hello.identity
    }

    pub(crate) fn server_peak_bytes(&self) -> u64 {
        self.connection.hello.server_peak_bytes
    }

    pub(crate) fn handover(&self) -> &HandoverFlag {
        &self.connection.handover
    }

    /// `true` if an earlier server left jobs that were not taken yet.
    #[must_use]
    pub fn has_untaken_jobs(&self) -> bool {
        !lock(&self.connection.jobs).is_empty()
    }

    pub(crate) fn take_jobs(&self) -> Vec<ReceivedJob> {
        std::mem::take(&mut *lock(&self.connection.jobs))
    }

    fn send(&self, message: &ServerMessage, files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        send_message(self.connection.socket.as_fd(), message, files, SendFlags::empty())
    }
}

impl Connection {
    /// Reads messages until the keeper is gone.
    fn read_messages(&self) {
        let mut reader = lock(&self.reader);
        while let Ok(Received::Message(message, _)) =
            reader.receive::<KeeperMessage>(self.socket.as_fd(), RecvFlags::empty())
        {
            if let KeeperMessage::Ended { job, exit } = message {
                let mut endings = lock(&self.endings);
                match endings.waiting.remove(&job) {
                    // Without a receiver nobody wants to know any more.
                    Some(waiting) => drop(waiting.send(exit)),
                    None => drop(endings.known.insert(job, exit)),
                }
            }
        }
        // Whoever waits for the end of a process learns that nobody will report it.
        lock(&self.endings).waiting.clear();
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

/// A job that the keeper holds.
///
/// Messages about it that cannot be sent are dropped: then the keeper is gone, and the server ends
/// all jobs.
#[derive(Debug)]
pub(crate) struct KeptJob {
    keeper: KeeperClient,
    id: u64,
    released: AtomicBool,
    /// `true` once no process of the job is left.
    is_tree_over: AtomicBool,
}

impl KeptJob {
    /// Gives a new job of this server a number.
    pub(crate) fn create(keeper: &KeeperClient) -> Arc<Self> {
        Self::restore(keeper, keeper.connection.last_job.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Continues a job of an earlier server.
    pub(crate) fn restore(keeper: &KeeperClient, id: u64) -> Arc<Self> {
        let released = AtomicBool::new(false);
        let is_tree_over = AtomicBool::new(false);
        Arc::new(Self { keeper: keeper.clone(), id, released, is_tree_over })
    }

    /// Sends the job with its files to the keeper.
    pub(crate) fn register(
        &self,
        name: &str,
        leader: Pid,
        state: String,
        files: &[(FileRole, BorrowedFd<'_>)],
    ) -> Result<(), Errno> {
        let (roles, files): (Vec<_>, Vec<_>) =
            files.iter().map(|(role, file)| (role.word().to_owned(), *file)).unzip();
        let leader = leader.as_raw_nonzero().get();
        let name = name.to_owned();
        let message = ServerMessage::Register { job: self.id, name, leader, roles, state };
        self.keeper.send(&message, &files)
    }

    /// Reports the status of its first process, which is a child of this server. Call it before the
    /// process is reaped, so that the status is never lost.
    pub(crate) fn report_exit(&self, exit: ChildExit) {
        self.send(&ServerMessage::Ended { job: self.id, exit });
    }

    /// Lets the keeper reap its first process, which is a child of the keeper.
    pub(crate) fn reap_leader(&self) {
        self.send(&ServerMessage::Reap { job: self.id });
    }

    /// Registers for the end of its first process, which is a child of the keeper.
    pub(crate) fn wait_for_exit(&self) -> oneshot::Receiver<ChildExit> {
        let (sender, receiver) = oneshot::channel();
        let mut endings = lock(&self.keeper.connection.endings);
        match endings.known.remove(&self.id) {
            // The receiver is right here.
            Some(exit) => drop(sender.send(exit)),
            None => drop(endings.waiting.insert(self.id, sender)),
        }
        receiver
    }

    /// Notes that no process of the job is left. Nobody then waits for the end of the input, which
    /// the keeper may hold until the job is released.
    pub(crate) fn mark_tree_over(&self) {
        self.is_tree_over.store(true, Ordering::Relaxed);
    }

    /// Makes the keeper forget the job and close its files.
    pub(crate) fn release(&self) {
        if !self.released.swap(true, Ordering::AcqRel) {
            self.send(&ServerMessage::Release { job: self.id });
        }
    }

    fn send(&self, message: &ServerMessage) {
        self.keeper.send(message, &[]).ok();
    }
}

impl Drop for KeptJob {
    fn drop(&mut self) {
        if !self.keeper.handover().is_set() {
            self.release();
        }
    }
}

/// The keeper's copy of a file of a job. On drop the keeper closes it, unless the next server takes
/// over the job.
#[derive(Debug)]
pub(crate) struct KeptFile {
    job: Arc<KeptJob>,
    role: FileRole,
    /// `true` if it makes no difference that the keeper holds the file until the job is released.
    is_over: AtomicBool,
}

impl KeptFile {
    pub(crate) fn new(job: &Arc<KeptJob>, role: FileRole) -> Self {
        Self { job: Arc::clone(job), role, is_over: AtomicBool::new(false) }
    }

    /// Leaves the file to the keeper: no process has its other end open.
    pub(crate) fn mark_over(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// `true` if a process may notice that the keeper still holds the file. If this is the last
    /// owner of the job, the job is released right after.
    fn needs_close(&self) -> bool {
        let is_read_by_nobody =
            self.role == FileRole::Stdin && self.job.is_tree_over.load(Ordering::Relaxed);
        !self.is_over.load(Ordering::Relaxed)
            && !is_read_by_nobody
            && !self.job.released.load(Ordering::Acquire)
            && Arc::strong_count(&self.job) > 1
            && !self.job.keeper.handover().is_set()
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if self.needs_close() {
            let role = self.role.word().to_owned();
            self.job.send(&ServerMessage::CloseFile { job: self.job.id, role });
        }
    }
}

/// A flag that is set once the next server takes over the jobs: from then on, dropping what
/// belongs to a job leaves the job as it is. A clone is the same flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct HandoverFlag(Arc<AtomicBool>);

impl HandoverFlag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::socket_timeout;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use rustix::process::getpid;

    use super::*;

    /// Connects a client to a keeper that does nothing.
    fn connect() -> (KeeperClient, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let identity = ServerIdentity {
            tag: 1,
            is_tag_inherited: false,
            pid: 1,
            started: 1,
            open_files: (None, None),
        };
        let hello = KeeperMessage::Hello(Hello {
            version: PROTOCOL_VERSION,
            generation: 1,
            identity,
            last_failure: None,
            server_peak_bytes: 0,
        });
        for message in [hello, KeeperMessage::Complete] {
            send_message(theirs.as_fd(), &message, &[], SendFlags::DONTWAIT).unwrap();
        }
        (KeeperClient::connect(ours, getpid()).unwrap(), theirs)
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

    fn messages(keeper: &OwnedFd) -> Vec<ServerMessage> {
        let mut reader = MessageReader::default();
        let next = || match reader.receive(keeper.as_fd(), RecvFlags::DONTWAIT) {
            Ok(Received::Message(message, _)) => Some(message),
            Ok(Received::End) | Err(_) => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_file_is_closed_at_the_keeper_while_a_process_may_notice() {
        let (client, keeper) = connect();
        let job = KeptJob::create(&client);
        let id = job.id;
        for role in [FileRole::Stdin, FileRole::Stdout] {
            drop(KeptFile::new(&job, role));
            let role = role.word().to_owned();
            assert_eq!(messages(&keeper), [ServerMessage::CloseFile { job: id, role }]);
        }
        job.mark_tree_over();
        drop(KeptFile::new(&job, FileRole::Stdin));
        assert_eq!(messages(&keeper), []);
        // A process that is not of the job may still write.
        drop(KeptFile::new(&job, FileRole::Stdout));
        assert_eq!(messages(&keeper).len(), 1);
        job.release();
        drop(KeptFile::new(&job, FileRole::Stdout));
        drop(job);
        assert_eq!(messages(&keeper), [ServerMessage::Release { job: id }]);
    }

    #[test]
    fn the_last_file_of_a_dropped_job_goes_with_its_release() {
        let (client, keeper) = connect();
        let job = KeptJob::create(&client);
        let id = job.id;
        let file = KeptFile::new(&job, FileRole::Stdin);
        drop(job);
        assert_eq!(messages(&keeper), []);
        drop(file);
        assert_eq!(messages(&keeper), [ServerMessage::Release { job: id }]);
    }
}

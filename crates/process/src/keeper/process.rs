//! The keeper process itself: one thread, one loop. It writes its lines for the operator without ever
//! waiting.

use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec, retry_on_intr, write};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, send, sendto,
    socket_with,
};
use rustix::process::{Pid, Signal, WaitStatus, getpid, kill_process, set_child_subreaper};
use rustix::thread::set_name;

use super::held_state::HeldState;
use super::protocol::{
    Hello, KEEPER_ARG, KEEPER_VARIABLE, KeeperIdentity, OutgoingMessage, ServerMessage,
};
use super::shims::Shims;
use super::supervision::{KeeperAction, KeeperInput, ServerEnd, ServerProgram, ServerSupervision};
use crate::handover::SCRATCH_FILE;
use crate::load::TaskLimit;
use crate::own_process::{OwnScore, protect_process, raise_open_files};
use crate::processes;
use crate::sandbox::scratch;
use crate::syscalls::{self, FileAction, PosixSpawnPlan};
use crate::wire::{self, Received, SEND_PAUSE, SendProgress, send_in_order};

/// The number under which the server finds its socket.
const SERVER_SOCKET: i32 = 3;
/// Files that the keeper uses while it starts a server have numbers from here on.
const FIRST_FREE: i32 = 10;

/// The variable with the address of the service manager.
const NOTIFY_VARIABLE: &str = "NOTIFY_SOCKET";

const SIGNALS: [i32; 6] =
    [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR2, libc::SIGQUIT];

/// The server that a keeper runs.
#[derive(Debug, Clone)]
pub struct KeeperLaunch {
    /// The path of the server's program. It is opened at once, so that it may be replaced later.
    pub program: PathBuf,
    /// The arguments after the program's name.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
}

/// Runs this process as the keeper of a server until the server is over, and returns the exit code.
///
/// Call it before this process has other threads. The current process is then small, cannot be
/// inspected, and adopts the orphans of its descendants. It ends after everything below it has.
#[must_use]
pub fn run_keeper(launch: KeeperLaunch) -> ExitCode {
    // Each shim is a copy of this process: what the settings needed is given back.
    syscalls::trim_memory();
    match Keeper::prepare(launch) {
        Ok(mut keeper) => ExitCode::from(keeper.run()),
        Err(error) => {
            report(&format!("the keeper cannot start: {error}"));
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug)]
struct Keeper {
    identity: KeeperIdentity,
    started: Instant,
    signals: OwnedFd,
    command: ServerCommand,
    supervision: ServerSupervision,
    generation: u64,
    server: Option<ServerProcess>,
    shims: Shims,
    held: HeldState,
    notifications: Option<NotifySocket>,
    /// The exit code, once the keeper has nothing left to do.
    exit_code: Option<u8>,
}

/// The programs, arguments and environment of servers.
#[derive(Debug)]
struct ServerCommand {
    current: OwnedFd,
    candidate: Option<PathBuf>,
    /// The candidate, opened.
    opened_candidate: Option<OwnedFd>,
    argv: Vec<CString>,
    env: Vec<CString>,
}

/// The server that runs now.
#[derive(Debug)]
struct ServerProcess {
    pid: Pid,
    /// The connection; `None` once the server has closed it.
    socket: Option<OwnedFd>,
    /// Messages that the server has not taken yet.
    outgoing: VecDeque<OutgoingMessage>,
    /// The obstacle to the next of these messages, as of the last attempt.
    send_progress: SendProgress,
}

impl ServerCommand {
    fn new(launch: &KeeperLaunch) -> io::Result<Self> {
        let mut argv = vec![c"shellyard".to_owned()];
        for arg in &launch.args {
            argv.push(CString::new(arg.as_bytes())?);
        }
        let mut env = vec![CString::new(format!("{KEEPER_VARIABLE}={SERVER_SOCKET}"))?];
        for (name, value) in &launch.env {
            // The service manager listens to this process alone.
            if name != KEEPER_VARIABLE && name != NOTIFY_VARIABLE {
                env.push(CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())?);
            }
        }
        let current = open_program(&launch.program)?;
        Ok(Self { current, candidate: None, opened_candidate: None, argv, env })
    }

    /// Starts a server with the other end of the returned socket.
    fn start(&mut self, program: ServerProgram) -> Result<(Pid, OwnedFd), Errno> {
        if let (ServerProgram::Candidate, Some(path)) = (program, &self.candidate) {
            self.opened_candidate = Some(open_program(path)?);
        }
        let file = match (program, &self.opened_candidate) {
            (ServerProgram::Candidate, Some(candidate)) => candidate,
            (ServerProgram::Candidate | ServerProgram::Current, _) => &self.current,
        };
        let (ours, theirs) = wire::connection()?;
        let theirs = fcntl_dupfd_cloexec(theirs, FIRST_FREE)?;
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let path = path.map_err(|_| Errno::INVAL)?;
        let actions = [FileAction::Dup { from: theirs.as_fd(), to: SERVER_SOCKET }];
        let plan =
            PosixSpawnPlan { path: &path, argv: &self.argv, env: &self.env, actions: &actions };
        Ok((syscalls::posix_spawn(&plan)?, ours))
    }

    fn accept_candidate(&mut self) {
        if let Some(program) = self.opened_candidate.take() {
            self.current = program;
        }
    }
}

fn open_program(path: &Path) -> Result<OwnedFd, Errno> {
    let file = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    fcntl_dupfd_cloexec(file, FIRST_FREE)
}

impl Keeper {
    fn prepare(launch: KeeperLaunch) -> io::Result<Self> {
        let (identity, shims) = prepare_process()?;
        let signals = syscalls::open_signal_file(&SIGNALS)?;
        let notify = launch.env.iter().find(|(name, _)| name == NOTIFY_VARIABLE);
        let notifications = notify.and_then(|(_, value)| NotifySocket::open(value));
        Ok(Self {
            identity,
            started: Instant::now(),
            signals: fcntl_dupfd_cloexec(signals, FIRST_FREE)?,
            command: ServerCommand::new(&launch)?,
            supervision: ServerSupervision::new(),
            generation: 0,
            server: None,
            shims,
            held: HeldState::default(),
            notifications,
            exit_code: None,
        })
    }

    /// Runs until everything is over, and returns the exit code.
    fn run(&mut self) -> u8 {
        self.start_server(ServerProgram::Current);
        loop {
            if let Some(code) = self.exit_code {
                return code;
            }
            self.wait();
            self.send_messages();
            self.receive_messages();
            while let Some(signal) = syscalls::read_signal(self.signals.as_fd()) {
                self.take_signal(signal);
            }
            self.input(KeeperInput::TimePassed);
        }
    }

    /// Waits for a signal, for the server, or for the next deadline.
    fn wait(&self) {
        let mut polled = vec![PollFd::new(&self.signals, PollFlags::IN)];
        let mut deadline = self.supervision.next_deadline();
        if let Some(server) = &self.server
            && let Some(socket) = &server.socket
        {
            let is_out_of_room = server.send_progress == SendProgress::OutOfRoom;
            let wanted = if server.outgoing.is_empty() || is_out_of_room {
                PollFlags::IN
            } else {
                PollFlags::IN | PollFlags::OUT
            };
            polled.push(PollFd::new(socket, wanted));
            if is_out_of_room {
                let retry = self.started.elapsed() + SEND_PAUSE;
                deadline = Some(deadline.map_or(retry, |deadline| deadline.min(retry)));
            }
        }
        let limit = deadline.map(|deadline| {
            let left = deadline.saturating_sub(self.started.elapsed());
            // Rounded up, so that the deadline has passed when the wait ends.
            Timespec::try_from(left + Duration::from_millis(1)).unwrap_or_default()
        });
        // A signal ends the wait; everything is checked after each wait anyway.
        poll(&mut polled, limit.as_ref()).ok();
    }

    fn input(&mut self, input: KeeperInput) {
        let action = self.supervision.decide(input, self.started.elapsed());
        match action {
            None => {}
            Some(KeeperAction::StartServer(program)) => {
                if let Some(why) = self.supervision.last_failure() {
                    report(&format!("{why}; starting it again"));
                }
                self.start_server(program);
            }
            Some(KeeperAction::KillServer) => self.signal_server(Signal::KILL),
            Some(KeeperAction::ForwardSignal(number)) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    self.signal_server(signal);
                }
            }
            Some(KeeperAction::AcceptCandidate) => self.command.accept_candidate(),
            Some(KeeperAction::Finish { code, failure }) => {
                if let Some(why) = failure {
                    report(&format!("{why}; ending all jobs"));
                }
                self.exit_code = Some(self.finish(code));
            }
        }
    }

    fn start_server(&mut self, program: ServerProgram) {
        self.generation += 1;
        let allowed = self.shims.allow_starts();
        match allowed.and_then(|()| self.command.start(program)) {
            Ok((pid, socket)) => {
                let outgoing = self.first_messages();
                let send_progress = SendProgress::Full;
                let socket = Some(socket);
                self.server = Some(ServerProcess { pid, socket, outgoing, send_progress });
            }
            Err(errno) => {
                let why = TaskLimit::explain(errno.into()).to_string();
                report(&format!("cannot create a process for the server: {why}"));
                self.input(KeeperInput::ServerEnded(ServerEnd::NotStarted(why)));
            }
        }
    }

    fn first_messages(&self) -> VecDeque<OutgoingMessage> {
        let hello = Hello {
            generation: self.generation,
            identity: self.identity,
            last_failure: self.supervision.last_failure().map(str::to_owned),
        };
        let first = [OutgoingMessage::Hello(hello)].into_iter().chain(self.held.describe());
        first.chain([OutgoingMessage::Complete]).collect()
    }

    fn signal_server(&self, signal: Signal) {
        if let Some(server) = &self.server {
            // It is not reaped yet, so the pid is its own. A dead server is fine.
            kill_process(server.pid, signal).ok();
        }
    }

    fn take_signal(&mut self, signal: i32) {
        match signal {
            libc::SIGCHLD => self.check_children(),
            libc::SIGTERM | libc::SIGINT => self.input(KeeperInput::StopSignal(signal)),
            other => {
                // A server that has ended takes no signal, and its end may be read after this.
                self.check_children();
                self.input(KeeperInput::OtherSignal(other));
            }
        }
    }

    /// Takes the statuses of children that have ended.
    fn check_children(&mut self) {
        let server = self.server.as_ref().map(|server| server.pid);
        if let Some(status) = self.shims.reap(server) {
            self.end_server(status);
        }
    }

    /// Takes the last messages of a dead server, and decides what comes next.
    fn end_server(&mut self, status: WaitStatus) {
        self.receive_messages();
        self.server = None;
        let code = || status.exit_status().and_then(|code| u8::try_from(code).ok());
        let end = match status.terminating_signal() {
            Some(signal) => ServerEnd::Signal(signal),
            None => ServerEnd::Code(code().unwrap_or(u8::MAX)),
        };
        self.input(KeeperInput::ServerEnded(end));
    }

    /// Sends what the server takes now. Never waits.
    fn send_messages(&mut self) {
        let Some(server) = &mut self.server else { return };
        let Some(socket) = &server.socket else { return };
        server.send_progress =
            send_in_order(&mut server.outgoing, |next| self.held.send(next, socket.as_fd()));
    }

    /// Takes all messages that are there.
    fn receive_messages(&mut self) {
        while let Some(server) = &mut self.server
            && let Some(socket) = &server.socket
        {
            match wire::receive(socket.as_fd(), RecvFlags::DONTWAIT) {
                Ok(Received::Message(message, files)) => self.take_message(message, files),
                Ok(Received::Unknown) => {}
                // Its process is about to end. Until then there is nothing to wait for here.
                Ok(Received::End) => server.socket = None,
                Err(_) => return,
            }
        }
    }

    fn take_message(&mut self, message: ServerMessage, files: Vec<OwnedFd>) {
        match message {
            ServerMessage::Ready => {
                self.input(KeeperInput::ServerReady);
                self.notify("READY=1");
            }
            ServerMessage::Notify { text } => self.notify(&text),
            ServerMessage::Upgrade { program } => {
                self.command.candidate = Some(OsString::from_vec(program).into());
                self.input(KeeperInput::UpgradeRequested);
            }
            held @ (ServerMessage::HoldFile { .. }
            | ServerMessage::DropFile { .. }
            | ServerMessage::StartShim { .. }
            | ServerMessage::ForgetShim { .. }
            | ServerMessage::EndShims) => {
                take_held(held, files, &mut self.held, &mut self.shims);
            }
        }
    }

    /// Tells the service manager something, if there is one.
    fn notify(&self, text: &str) {
        if let Some(NotifySocket { socket, address }) = &self.notifications {
            // A service manager that does not listen is not our concern.
            sendto(socket, text.as_bytes(), SendFlags::NOSIGNAL, address).ok();
        }
    }

    /// Ends everything that is left, and returns the exit code.
    fn finish(&mut self, code: u8) -> u8 {
        let is_over = end_all(&mut self.held, &mut self.shims);
        if !is_over && code == 0 { 1 } else { code }
    }
}

/// Prepares this process as a keeper: small, not to be inspected, the parent of orphans, and deaf to
/// signals.
fn prepare_process() -> io::Result<(KeeperIdentity, Shims)> {
    set_name(c"shellyard-keep")?;
    set_child_subreaper(Some(getpid()))?;
    let score = OwnScore::open();
    protect_process();
    // A signal that the keeper does not use must not end all jobs.
    syscalls::block_all_signals();
    // Every program starts with the default dispositions, which shims and jobs get from here.
    syscalls::reset_signals();
    let (pid, started) = processes::own_key()?;
    let limit = raise_open_files();
    let identity = KeeperIdentity {
        pid: pid.as_raw_nonzero().get(),
        started,
        open_files: (limit.current, limit.maximum),
    };
    Ok((identity, Shims::new(score)?))
}

/// Carries out a message about files and shims. Other messages change nothing.
fn take_held(message: ServerMessage, files: Vec<OwnedFd>, held: &mut HeldState, shims: &mut Shims) {
    let mut files = files.into_iter();
    match message {
        ServerMessage::HoldFile { name, note } => {
            if let Some(file) = files.next() {
                held.hold_file(name, note, file);
            }
        }
        ServerMessage::DropFile { name } => held.drop_file(&name),
        ServerMessage::StartShim { shim, name, isolation, mapped } => {
            match (files.next(), files.next()) {
                (Some(theirs), Some(ours)) => {
                    held.hold_shim(shim, name, ours);
                    shims.start(isolation, mapped.as_ref(), &theirs);
                }
                // One descriptor was free. If none is, the server reads the end of the connection.
                (Some(theirs), None) => Shims::refuse(isolation, &theirs, Errno::MFILE),
                (None, _) => {}
            }
        }
        ServerMessage::ForgetShim { shim } => held.forget_shim(shim),
        ServerMessage::EndShims => shims.begin_end(),
        ServerMessage::Ready | ServerMessage::Notify { .. } | ServerMessage::Upgrade { .. } => {}
    }
}

/// Ends all jobs, and removes the files that the server kept for them. Returns `false` if some are left.
fn end_all(held: &mut HeldState, shims: &mut Shims) -> bool {
    let is_over = shims.end();
    let scratch = held.note(SCRATCH_FILE).and_then(scratch::parse_kept_root);
    if let Some(scratch) = scratch.filter(|scratch| is_over && scratch.exists()) {
        // The next server tries again.
        scratch::clean_up_after(&scratch).ok();
    }
    held.clear();
    is_over
}

/// Runs the keeper of a server for one client or one command, if the program's arguments (without its
/// name) say so, until that server is gone; returns the exit code. `None` for every other call of the
/// program.
///
/// Must be called before anything else in `main`: a keeper has one thread and little memory.
pub(crate) fn keeper_main(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    args.into_iter().next().filter(|first| first == KEEPER_ARG)?;
    let is_over = serve_parent(rustix::stdio::stdin()).unwrap_or(false);
    Some(if is_over { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn serve_parent(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let (identity, mut shims) = prepare_process()?;
    let signals = syscalls::open_signal_file(&[libc::SIGCHLD])?;
    let mut held = HeldState::default();
    let hello = Hello { generation: 1, identity, last_failure: None };
    for message in [OutgoingMessage::Hello(hello), OutgoingMessage::Complete] {
        held.send(&message, socket)?;
    }
    loop {
        let mut polled =
            [PollFd::new(&signals, PollFlags::IN), PollFd::from_borrowed_fd(socket, PollFlags::IN)];
        poll(&mut polled, None).ok();
        while syscalls::read_signal(signals.as_fd()).is_some() {}
        shims.reap(None);
        loop {
            match wire::receive(socket, RecvFlags::DONTWAIT) {
                Ok(Received::Message(message, files)) => {
                    take_held(message, files, &mut held, &mut shims);
                }
                Ok(Received::Unknown) => {}
                Ok(Received::End) => return Ok(end_all(&mut held, &mut shims)),
                Err(_) => break,
            }
        }
    }
}

/// The way to the service manager. It is open from the start: without a descriptor, the watchdog's
/// messages would be missing, and the service manager would end everything.
#[derive(Debug)]
struct NotifySocket {
    socket: OwnedFd,
    address: SocketAddrUnix,
}

impl NotifySocket {
    /// Parses the address that the service manager listens on: a path, or an abstract name after `@`.
    fn open(address: &OsStr) -> Option<Self> {
        let address = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name).ok()?,
            path @ [b'/', ..] => SocketAddrUnix::new(path).ok()?,
            _ => return None,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).ok()?;
        Some(Self { socket, address })
    }
}

/// Writes a line to the standard error, or drops it if nobody reads there: the server waits for the
/// keeper, and may be the one whose output fills the pipe. The server logs the same when it runs
/// again.
fn report(text: &str) {
    let line = format!("shellyard: {text}\n");
    // Without a standard error nobody reads it.
    write_without_waiting(io::stderr().as_fd(), line.as_bytes()).ok();
}

/// Writes to a file that other processes may share, so that its mode has to stay as it is.
fn write_without_waiting(file: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    match FileType::from_raw_mode(fstat(file)?.st_mode) {
        FileType::Socket => {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            retry_on_intr(|| send(file, bytes, flags)).map(drop)
        }
        FileType::Fifo | FileType::CharacterDevice => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            match open(path, flags, Mode::empty()) {
                Ok(own) => retry_on_intr(|| write(&own, bytes)).map(drop),
                // It belongs to another user, for example.
                Err(_) => write_if_ready(file, bytes),
            }
        }
        // A disk does not wait for a reader.
        FileType::RegularFile
        | FileType::Directory
        | FileType::Symlink
        | FileType::BlockDevice
        | FileType::Unknown => retry_on_intr(|| write(file, bytes)).map(drop),
    }
}

/// Writes if there is room now. Only another writer at the same moment could make it wait.
fn write_if_ready(file: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    let mut polled = [PollFd::from_borrowed_fd(file, PollFlags::OUT)];
    retry_on_intr(|| poll(&mut polled, Some(&Timespec::default())))?;
    if polled.iter().all(|file| file.revents() == PollFlags::OUT) {
        return retry_on_intr(|| write(file, bytes)).map(drop);
    }
    Err(Errno::AGAIN)
}

/// The main function of a test program is not ours. So it becomes a keeper before `main` if its
/// arguments say so.
#[cfg(any(test, feature = "before-main"))]
#[expect(unsafe_code, reason = "the program becomes a keeper before `main`")]
#[used]
// SAFETY: the loader calls each function in this section once, before `main`, on the only thread;
// the standard library has read the arguments by then.
#[unsafe(link_section = ".init_array")]
static KEEPER_BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn run_keeper_if_requested() {
        if keeper_main(std::env::args_os().skip(1)).is_some() {
            // SAFETY: this ends the process without running any more of its code.
            unsafe { libc::_exit(0) };
        }
    }
    run_keeper_if_requested
};

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use rustix::fs::{fcntl_getfl, fcntl_setfl};
    use rustix::pipe::pipe;

    use super::*;
    use crate::shim::{Isolation, Report};

    #[test]
    fn a_keeper_with_room_for_one_end_of_a_connection_says_so() {
        let mut shims = Shims::new(None).unwrap();
        let mut held = HeldState::default();
        let (theirs, ours) = wire::connection().unwrap();
        let isolation = Isolation::None;
        let start =
            ServerMessage::StartShim { shim: 1, name: String::new(), isolation, mapped: None };
        take_held(start, vec![theirs], &mut held, &mut shims);
        let received = wire::receive(ours.as_fd(), RecvFlags::DONTWAIT).unwrap();
        let Received::Message(Report::Failed(failure), _) = received else {
            panic!("{received:?}");
        };
        assert_eq!(failure.errno, Errno::MFILE);
    }

    /// Writes until there is no more room, and leaves the file in the mode in which a writer waits.
    fn fill(file: &OwnedFd) {
        let before = fcntl_getfl(file).unwrap();
        fcntl_setfl(file, before | OFlags::NONBLOCK).unwrap();
        for size in [4096, 1] {
            while write(file, &vec![b'x'; size]).is_ok() {}
        }
        fcntl_setfl(file, before).unwrap();
    }

    #[test]
    fn a_line_for_which_there_is_no_room_is_dropped() {
        let (reader, writer) = pipe().unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        let all: [(OwnedFd, OwnedFd); 2] = [(reader, writer), (one.into(), other.into())];
        for (reader, writer) in all {
            fill(&writer);
            let mode = fcntl_getfl(&writer).unwrap();
            assert_eq!(write_without_waiting(writer.as_fd(), b"line\n"), Err(Errno::AGAIN));
            assert_eq!(write_if_ready(writer.as_fd(), b"line\n"), Err(Errno::AGAIN));
            assert_eq!(fcntl_getfl(&writer).unwrap(), mode);
            let mut reader = File::from(reader);
            let mut start = vec![0; 1 << 20];
            assert!(reader.read(&mut start).unwrap() >= 4096, "there is no room for the line");
            write_without_waiting(writer.as_fd(), b"line\n").unwrap();
            drop(writer);
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).unwrap();
            assert!(rest.ends_with(b"line\n"));
        }
    }

    #[test]
    fn a_line_without_a_reader_is_dropped() {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        assert!(write_if_ready(writer.as_fd(), b"line\n").is_err());
    }

    #[test]
    fn a_line_goes_to_the_end_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"first\n").unwrap();
        write_without_waiting(file.as_fd(), b"second\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\n");
    }
}

//! The server's end of its connection with a shim.

use std::collections::VecDeque;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::Pid;
use shellyard_policy::gate::StartRefusal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::confinement::SetAsideFile;
use crate::exit::Exit;
use crate::job_resources::SandboxResources;
use crate::keeper::KeeperClient;
use crate::processes::parse_pid;
use crate::shim::{
    EchoMode, EndingNote, LeaderExit, MappedIds, Order, Report, Role, ShimPlan, ShimState, Stage,
    StartCounts, StartQuestion,
};
use crate::spawn_request::SpawnFailure;
use crate::syscalls;
use crate::wire::{self, Received};

/// The time after which a shim that does not read is an error. Threads of the runtime send too, so it is
/// short; a shim waits for nothing but messages and its processes.
const SEND_LIMIT: Duration = Duration::from_secs(1);

/// The time between two looks at what another thread has received.
const WAIT_STEP: Duration = Duration::from_millis(10);

/// Something that happened to a process and its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEvent {
    /// The program could not be executed after all: an earlier server had been told nothing yet.
    StartFailed {
        /// The step that failed, and the system's word for it.
        why: String,
    },
    /// The tree is being ended.
    Ending(EndingNote),
    /// The first process has ended.
    LeaderExited(LeaderEnd),
    /// No process of the tree is left.
    Over(EndingNote),
    /// So many bytes of input were written since the start, the last ones with this echo.
    InputWritten {
        /// The number of bytes since the start.
        total: u64,
        /// The echo of the last ones.
        echo: EchoMode,
    },
    /// The process has closed its end of the input.
    InputClosed,
    /// The exec gate has judged the start of a program.
    Gate(GateEvent),
    /// The shim was killed: the keeper ends what is left of the tree, and the ending is unknown.
    ShimLost,
}

/// Something that happened at the exec gate of a process tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateEvent {
    /// The start of a program was refused. The first hundred of a job are told.
    Refused(StartRefusal),
    /// The start of a program waits for [`ProcessTree::answer_start`](crate::ProcessTree::answer_start).
    /// A new server hears of it again.
    Asked(StartQuestion),
    /// The start with this number does not wait for an answer any more.
    AskOver {
        /// The number of the question.
        id: u64,
    },
    /// The starts that were judged and refused so far. Comes before the events of both ends, and to a new
    /// server at once.
    Counted(StartCounts),
}

/// The end of a first process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderEnd {
    /// The way in which it ended.
    pub exit: Exit,
    /// The largest resident set of any process of the tree that had ended by then; 0 if unknown.
    pub peak_rss_bytes: u64,
    /// `true` if no other process was left.
    pub is_over: bool,
    /// The ending that was under way.
    pub note: EndingNote,
}

impl LeaderEnd {
    fn new(leader: LeaderExit, note: EndingNote) -> Self {
        let LeaderExit { exit, peak_rss_bytes, is_over } = leader;
        Self { exit: exit.into(), peak_rss_bytes, is_over, note }
    }
}

/// The connection with a shim. Dropping it ends the tree, unless the next server takes over.
#[derive(Debug)]
pub(crate) struct ShimLink {
    keeper: KeeperClient,
    /// The number of the shim at the keeper.
    shim: u64,
    /// `None` once the shim was released.
    socket: Mutex<Option<Arc<OwnedFd>>>,
    status: Mutex<LinkStatus>,
    /// Tells the follower of events that a thread has received in its place.
    received: Notify,
    is_released: AtomicBool,
    /// The resources that are held for the tree until it is over.
    resources: Mutex<Option<SandboxResources>>,
    /// The files that were found under protected names when it was over.
    set_aside: OnceLock<Vec<SetAsideFile>>,
}

/// The knowledge about a shim.
#[derive(Debug, Default)]
struct LinkStatus {
    start: Option<Result<(), SpawnFailure>>,
    state: Option<(ShimState, Vec<OwnedFd>)>,
    shim: Option<Pid>,
    leader: Option<Pid>,
    is_over: bool,
    /// `true` if the tree is over and nothing was sent to end it.
    has_ended_by_itself: bool,
    /// `true` once the shim has closed the connection.
    is_gone: bool,
    /// The last start that was refused, and the number of all that were judged and refused.
    refusal: Option<StartRefusal>,
    starts: StartCounts,
    events: VecDeque<ProcessEvent>,
}

impl ShimLink {
    /// Makes the keeper fork a shim, which starts the job of this plan with these files. The plan waits
    /// in the connection before the shim exists. `name` is the one under which the next server finds
    /// the shim.
    pub(crate) fn launch(
        keeper: &KeeperClient,
        name: &str,
        plan: &ShimPlan,
        files: Vec<(Role, BorrowedFd<'_>)>,
        resources: SandboxResources,
    ) -> io::Result<Arc<Self>> {
        let plan_file = plan.to_file()?;
        let (roles, files): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        let all: Vec<_> = [plan_file.as_fd()].into_iter().chain(files).collect();
        let (ours, theirs) = wire::connection()?;
        let order = match plan.gate {
            Some(_) => Order::LaunchGated { roles },
            None => Order::Launch { roles },
        };
        wire::send(ours.as_fd(), &order, &all, SendFlags::DONTWAIT)?;
        let mapped = plan.request.user.as_ref().map(MappedIds::new);
        let shim = keeper.start_shim(name, plan.isolation, mapped, theirs.as_fd(), ours.as_fd())?;
        Self::new(keeper.clone(), shim, ours, resources)
    }

    pub(crate) fn new(
        keeper: KeeperClient,
        shim: u64,
        socket: OwnedFd,
        resources: SandboxResources,
    ) -> io::Result<Arc<Self>> {
        set_socket_timeout(&socket, Timeout::Send, Some(SEND_LIMIT))?;
        Ok(Arc::new(Self {
            keeper,
            shim,
            socket: Mutex::new(Some(Arc::new(socket))),
            status: Mutex::default(),
            received: Notify::new(),
            is_released: AtomicBool::new(false),
            resources: Mutex::new(Some(resources)),
            set_aside: OnceLock::new(),
        }))
    }

    /// Sends an order. It is carried out from now on, whatever happens to this server.
    pub(crate) fn order(&self, order: &Order, files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let socket = self.socket().ok_or(Errno::PIPE)?;
        wire::send(socket.as_fd(), order, files, SendFlags::empty())
    }

    fn socket(&self) -> Option<Arc<OwnedFd>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Receives everything that is there. Never waits.
    pub(crate) fn receive(&self) {
        let Some(socket) = self.socket() else { return };
        let mut status = self.lock();
        let mut has_new = false;
        while !status.is_gone {
            let received = wire::receive(socket.as_fd(), RecvFlags::DONTWAIT);
            has_new |= !matches!(received, Err(Errno::WOULDBLOCK));
            match received {
                Ok(Received::Message(report, files)) => status.take(report, files),
                Ok(Received::Unknown) => {}
                Ok(Received::End) => status.lose(),
                Err(Errno::WOULDBLOCK) => break,
                Err(_) => status.lose(),
            }
        }
        drop(status);
        if has_new {
            self.received.notify_one();
        }
    }

    /// Waits until `find` returns something, for at most `limit`. Blocks.
    fn wait_for<T>(
        &self,
        limit: Duration,
        find: impl Fn(&mut LinkStatus) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now() + limit;
        loop {
            self.receive();
            if let Some(found) = find(&mut self.lock()) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let step = Timespec::try_from(left.min(WAIT_STEP)).unwrap_or_default();
            match self.socket() {
                Some(socket) => {
                    poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&step)).ok();
                }
                None => return None,
            }
        }
    }

    /// Waits until the program runs, or is known not to. Blocks; a program on a disk that does not
    /// answer may take for ever.
    pub(crate) fn wait_for_start(&self) -> Result<(), StartFailure> {
        self.wait_for(Duration::MAX / 4, |status| status.start_result())
            .unwrap_or(Err(StartFailure::ShimLost))
    }

    /// Returns the result of the start, once it is known.
    pub(crate) fn start_result(&self) -> Option<Result<(), StartFailure>> {
        self.receive();
        self.lock().start_result()
    }

    /// Asks the shim for everything, and waits for the answer. Blocks for at most `limit`.
    pub(crate) fn attach(&self, limit: Duration) -> Option<(ShimState, Vec<OwnedFd>)> {
        self.order(&Order::Attach, &[]).ok()?;
        self.wait_for(limit, |status| {
            status.is_gone.then_some(None).or_else(|| status.state.take().map(Some))
        })
        .flatten()
    }

    /// Waits until no process is left, for at most `limit`; returns `true` then. Blocks.
    pub(crate) fn wait_until_over(&self, limit: Duration) -> bool {
        self.wait_for(limit, |status| (status.is_over || status.is_gone).then_some(())).is_some()
    }

    /// Returns the last start that was refused.
    pub(crate) fn last_refusal(&self) -> Option<StartRefusal> {
        self.lock().refusal.clone()
    }

    /// Returns the starts that were judged and refused, as of the last message.
    pub(crate) fn start_counts(&self) -> StartCounts {
        self.lock().starts
    }

    pub(crate) fn shim_pid(&self) -> Option<Pid> {
        let status = self.lock();
        status.shim.filter(|_| !status.is_over && !status.is_gone)
    }

    pub(crate) fn leader_pid(&self) -> Option<Pid> {
        self.lock().leader
    }

    /// `true` if no process is left, as of the last message.
    pub(crate) fn is_over(&self) -> bool {
        self.receive();
        let status = self.lock();
        status.is_over || status.is_gone
    }

    pub(crate) fn is_handing_over(&self) -> bool {
        self.keeper.is_handing_over()
    }

    /// Calls `query` with the resources, while there are any.
    pub(crate) fn query_resources<T>(
        &self,
        query: impl FnOnce(&SandboxResources) -> T,
    ) -> Option<T> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(query)
    }

    /// Sets the resources of a tree that an earlier server started.
    pub(crate) fn set_resources(&self, resources: SandboxResources) {
        let mut held = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Some(resources);
    }

    /// Releases the resources of the tree: no process of it is left.
    pub(crate) fn release_resources(&self) {
        let held = self.resources.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Some kernels (6.14 and later) also kill processes that are created in a cgroup after it was
        // killed as a whole.
        if let Some(held) = held.as_ref().filter(|_| self.lock().has_ended_by_itself) {
            held.allow_reuse();
        }
        // After the lock is released, since this removes directories.
        if let Some(held) = held {
            self.set_aside.set(held.release()).ok();
        }
    }

    /// Returns the files that were found under protected names, once the tree is over.
    pub(crate) fn set_aside_files(&self) -> &[SetAsideFile] {
        self.set_aside.get().map_or(&[], Vec::as_slice)
    }

    /// Closes the connection without a word to the shim.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        self.is_released.store(true, Ordering::Release);
        self.keeper.forget_shim(self.shim);
        self.lock().is_gone = true;
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Ends the connection: everything about the job is recorded. The shim ends with its tree.
    pub(crate) fn release(&self) {
        if !self.is_released.swap(true, Ordering::AcqRel) {
            // A shim that is gone needs no release.
            self.order(&Order::Release, &[]).ok();
            self.keeper.forget_shim(self.shim);
            // From here on nobody asks for the tree.
            self.lock().is_gone = true;
            // A job that is kept for its output needs no descriptor.
            self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    fn lock(&self) -> MutexGuard<'_, LinkStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ShimLink {
    fn drop(&mut self) {
        if self.keeper.is_handing_over() {
            return;
        }
        if !self.is_released.load(Ordering::Acquire) {
            let kill =
                Order::Stop { signal: libc::SIGKILL, grace: Duration::ZERO, cause: String::new() };
            self.order(&kill, &[]).ok();
        }
        self.release();
    }
}

/// The failure of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartFailure {
    Step(SpawnFailure),
    ShimLost,
}

impl LinkStatus {
    fn start_result(&mut self) -> Option<Result<(), StartFailure>> {
        match self.start {
            Some(result) => Some(result.map_err(StartFailure::Step)),
            None => self.is_gone.then_some(Err(StartFailure::ShimLost)),
        }
    }

    fn take(&mut self, report: Report, files: Vec<OwnedFd>) {
        let event = match report {
            Report::Started(pids) => {
                let mut beside = files.iter().map(read_pidfd);
                (self.shim, self.leader) = match pids {
                    Some((shim, leader)) => (parse_pid(shim), parse_pid(leader)),
                    None => (beside.next().flatten(), beside.next().flatten()),
                };
                self.start = Some(Ok(()));
                return;
            }
            // A server that has attached before this has nobody who waits for the start.
            Report::Failed(failure) => self.fail(failure),
            Report::State(state) => return self.take_state(*state, files),
            Report::Ending(note) => ProcessEvent::Ending(note),
            Report::LeaderExited(leader, note) => {
                self.note_end(leader.is_over, &note);
                let over = leader.is_over.then(|| ProcessEvent::Over(note.clone()));
                self.events.push_back(ProcessEvent::LeaderExited(LeaderEnd::new(leader, note)));
                self.events.extend(over);
                return;
            }
            Report::Over(note) => {
                self.note_end(true, &note);
                ProcessEvent::Over(note)
            }
            Report::InputWritten { total, echo } => ProcessEvent::InputWritten { total, echo },
            Report::InputClosed => ProcessEvent::InputClosed,
            Report::Refused(refusal) => {
                self.refusal = Some(refusal.clone());
                ProcessEvent::Gate(GateEvent::Refused(refusal))
            }
            Report::Asks { id } => match read_question(id, files) {
                Some(question) => ProcessEvent::Gate(GateEvent::Asked(question)),
                None => return,
            },
            Report::AskOver { id } => ProcessEvent::Gate(GateEvent::AskOver { id }),
            Report::Starts(starts) => {
                self.starts = starts;
                ProcessEvent::Gate(GateEvent::Counted(starts))
            }
        };
        self.events.push_back(event);
    }

    /// Takes the answer to [`Order::Attach`]: it covers all earlier reports.
    fn take_state(&mut self, state: ShimState, files: Vec<OwnedFd>) {
        // But for refused starts, which are told once.
        self.events.retain(|event| matches!(event, ProcessEvent::Gate(GateEvent::Refused(_))));
        for (role, file) in state.roles.iter().zip(&files) {
            if *role == Role::ShimProcess {
                self.shim = read_pidfd(file);
            } else if *role == Role::LeaderProcess {
                self.leader = read_pidfd(file);
            }
        }
        let note = state.note.clone();
        match state.stage {
            Stage::Starting => self.start = None,
            Stage::Failed(failure) => {
                let event = self.fail(failure);
                self.events.push_back(event);
            }
            Stage::Running => {
                self.start = Some(Ok(()));
                if note.first_signal != 0 {
                    self.events.push_back(ProcessEvent::Ending(note));
                }
            }
            Stage::Exited(leader) => {
                self.start = Some(Ok(()));
                self.note_end(leader.is_over, &note);
                let is_over = leader.is_over;
                if note.first_signal != 0 && !is_over {
                    self.events.push_back(ProcessEvent::Ending(note.clone()));
                }
                let end = LeaderEnd::new(leader, note.clone());
                self.events.push_back(ProcessEvent::LeaderExited(end));
                self.events.extend(is_over.then_some(ProcessEvent::Over(note)));
            }
        }
        self.state = Some((state, files));
    }

    fn fail(&mut self, failure: SpawnFailure) -> ProcessEvent {
        self.start = Some(Err(failure));
        ProcessEvent::StartFailed { why: failure.describe() }
    }

    fn note_end(&mut self, is_over: bool, note: &EndingNote) {
        self.is_over |= is_over;
        self.has_ended_by_itself = is_over && note.first_signal == 0;
    }

    fn lose(&mut self) {
        self.is_gone = true;
        if !self.is_over {
            self.events.push_back(ProcessEvent::ShimLost);
        }
    }
}

/// Reads a question from the file beside its report; `None` if it was over when it was sent.
fn read_question(id: u64, files: Vec<OwnedFd>) -> Option<StartQuestion> {
    let mut file = fs::File::from(files.into_iter().next()?);
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).ok()?;
    postcard::from_bytes(&bytes).ok().filter(|question: &StartQuestion| question.id == id)
}

/// Returns the pid of the process that a pidfd refers to, as this process numbers it.
fn read_pidfd(file: &OwnedFd) -> Option<Pid> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let number = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    Pid::from_raw(number.trim().parse().ok().filter(|number| *number > 0)?)
}

/// The events of one process, in order.
#[derive(Debug)]
pub struct ProcessEvents {
    readiness: AsyncFd<Arc<OwnedFd>>,
    link: Arc<ShimLink>,
}

impl ProcessEvents {
    /// Watches the connection. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the system has no room to watch it.
    pub(crate) fn new(link: &Arc<ShimLink>) -> io::Result<Self> {
        let socket = link.socket().ok_or(Errno::PIPE)?;
        let readiness = syscalls::register(socket, Interest::READABLE)?;
        Ok(Self { readiness, link: Arc::clone(link) })
    }

    /// Returns the next event; never returns after the last one. Cancel-safe.
    pub async fn next(&mut self) -> ProcessEvent {
        self.wait_for(|link| {
            link.receive();
            link.lock().events.pop_front()
        })
        .await
    }

    /// Returns the result of the start.
    pub(crate) async fn started(&mut self) -> Result<(), StartFailure> {
        self.wait_for(ShimLink::start_result).await
    }

    /// Waits until `find` returns something. It is called again whenever something was received.
    async fn wait_for<T>(&mut self, find: impl Fn(&ShimLink) -> Option<T>) -> T {
        loop {
            // Looked at before: a connection that ends meanwhile may have brought a last event, also
            // to another thread.
            let is_gone = self.link.lock().is_gone;
            if let Some(found) = find(&self.link) {
                return found;
            }
            if is_gone {
                // A connection that has ended counts as readable for ever.
                std::future::pending::<()>().await;
            }
            tokio::select! {
                ready = self.readiness.readable() => match ready {
                    Ok(mut ready) => ready.clear_ready(),
                    // The runtime ends; then nobody waits.
                    Err(_) => std::future::pending().await,
                },
                () = self.link.received.notified() => {}
            }
        }
    }

    /// Waits for the end of the first process. Other events are dropped.
    ///
    /// # Errors
    /// If the shim was killed.
    pub async fn wait(&mut self) -> io::Result<Exit> {
        loop {
            match self.next().await {
                ProcessEvent::LeaderExited(leader) => return Ok(leader.exit),
                ProcessEvent::ShimLost | ProcessEvent::StartFailed { .. } => {
                    let why = "its parent process was killed";
                    return Err(io::Error::new(io::ErrorKind::BrokenPipe, why));
                }
                ProcessEvent::Ending(_)
                | ProcessEvent::Over(_)
                | ProcessEvent::InputWritten { .. }
                | ProcessEvent::InputClosed
                | ProcessEvent::Gate(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn_request::SpawnStep;

    #[test]
    fn a_server_that_attached_while_the_job_was_starting_hears_that_it_failed() {
        let mut status = LinkStatus::default();
        let state = ShimState {
            saved: String::new(),
            stage: Stage::Starting,
            note: EndingNote::default(),
            input: (0, 0),
            is_input_open: false,
            roles: Vec::new(),
        };
        status.take(Report::State(Box::new(state)), Vec::new());
        assert_eq!(status.start_result(), None);
        status.take(Report::Failed(SpawnStep::Program.failed(Errno::NOENT)), Vec::new());
        status.take(Report::Over(EndingNote::default()), Vec::new());
        let events: Vec<_> = status.events.into_iter().collect();
        assert!(
            matches!(events[..], [ProcessEvent::StartFailed { .. }, ProcessEvent::Over(_)]),
            "{events:?}"
        );
    }
}

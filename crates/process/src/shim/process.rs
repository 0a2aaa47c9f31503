//! The shim process itself: one thread, one loop, until the tree is over and the server needs nothing
//! more.
#![expect(
    unsafe_code,
    reason = "closing inherited files and blocking signals have no safe wrappers"
)]

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, PidfdFlags, chdir, getpid, pidfd_open, set_child_subreaper, setpgid};
use rustix::thread::set_name;

use super::ending::{Action, EndCause, Ending};
use super::gate::ExecGate;
use super::input::{InputProgress, InputQueue, new_input};
use super::leader::{self, GivenFiles, duplicate_to, exit_now};
use super::members::Members;
use super::namespaces::{Isolation, KeeperIds};
use super::plan::ShimPlan;
use super::protocol::{LeaderExit, Order, Report, Role, ShimState, Stage};
use crate::spawn_request::{SpawnFailure, SpawnStep};
use crate::syscalls::{self, ChildExit};
use crate::wire::{self, Received, SEND_PAUSE, SendProgress, send_in_order};

/// The first and the longest pause before processes are killed again that are still there.
const FIRST_KILL_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_KILL_PAUSE: Duration = Duration::from_secs(1);

/// The files of the keeper that a shim gets.
#[derive(Debug)]
pub(crate) struct ShimFiles<'a> {
    /// The shim's end of its connection with servers.
    pub(crate) socket: BorrowedFd<'a>,
    /// Has an end once the keeper is gone.
    pub(crate) lifeline: BorrowedFd<'a>,
}

/// Runs this process, which the keeper has just forked, as a shim. Never returns.
pub(crate) fn run_shim(files: &ShimFiles<'_>, ids: KeeperIds) -> ! {
    let code = match take_files(files) {
        Ok((socket, lifeline)) => match Shim::start(socket, lifeline, ids) {
            Some(mut shim) => shim.run(),
            None => 1,
        },
        Err(_) => 1,
    };
    exit_now(code)
}

/// The numbers of the two files in a shim.
const SOCKET: i32 = 3;
const LIFELINE: i32 = 4;
/// From here on a file has a number that is not overwritten.
const FIRST_FREE: i32 = 5;

/// Closes all other files of the keeper.
fn take_files(files: &ShimFiles<'_>) -> Result<(OwnedFd, OwnedFd), Errno> {
    let null = open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let socket = rustix::io::fcntl_dupfd_cloexec(files.socket, FIRST_FREE)?;
    let lifeline = rustix::io::fcntl_dupfd_cloexec(files.lifeline, FIRST_FREE)?;
    for number in 0..=2 {
        duplicate_to(null.as_fd(), number)?;
    }
    for (file, number) in [(&socket, SOCKET), (&lifeline, LIFELINE)] {
        duplicate_to(file.as_fd(), number)?;
    }
    // The copies above are closed by number.
    std::mem::forget((null, socket, lifeline));
    // SAFETY: the keeper's values that own these files are never used or dropped in this process.
    unsafe {
        close_all_from(FIRST_FREE)?;
        let own = |number| std::os::fd::FromRawFd::from_raw_fd(number);
        let (socket, lifeline): (OwnedFd, OwnedFd) = (own(SOCKET), own(LIFELINE));
        for file in [&socket, &lifeline] {
            rustix::io::fcntl_setfd(file, rustix::io::FdFlags::CLOEXEC)?;
        }
        Ok((socket, lifeline))
    }
}

/// Closes every file from this number on. Kernels before 5.9 and some containers lack the call for it.
///
/// # Safety
/// No value that owns such a file may be used or dropped afterwards.
unsafe fn close_all_from(first: RawFd) -> Result<(), Errno> {
    // SAFETY: the caller makes sure that nobody uses these files.
    if unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) } == 0 {
        return Ok(());
    }
    // A shim that kept the lifeline's other end would never notice that the keeper is gone.
    let open = syscalls::list_open_files().map_err(|_| Errno::NOSYS)?;
    for number in open.into_iter().filter(|number| *number >= first) {
        // SAFETY: as above.
        unsafe { libc::close(number) };
    }
    Ok(())
}

/// The state of a running shim.
#[derive(Debug)]
struct Shim {
    socket: OwnedFd,
    lifeline: OwnedFd,
    signals: OwnedFd,
    saved: String,
    /// The files that are held for the next server.
    held: GivenFiles,
    members: Members,
    input: InputQueue,
    ending: Ending,
    stage: Stage,
    /// The pipe through which the first process reports a failure, until it runs its program.
    failure: Option<OwnedFd>,
    gate: Option<ExecGate>,
    started: Instant,
    peak_rss_bytes: u64,
    is_over: bool,
    is_released: bool,
    /// `true` once the keeper is gone: then there is nobody to report to.
    is_orphaned: bool,
    outgoing: VecDeque<Report>,
    /// The obstacle to the next report, as of the last attempt.
    send_progress: SendProgress,
    kill_pause: Duration,
    /// The time of the next kill of what is left.
    next_kill: Duration,
    /// `true` once nobody has the other end of the connection.
    is_socket_over: bool,
}

impl Shim {
    /// Prepares this process, and starts the job that the first message describes; `None` if there is no
    /// such message.
    fn start(socket: OwnedFd, lifeline: OwnedFd, ids: KeeperIds) -> Option<Self> {
        set_name(c"shellyard-shim").ok();
        // A shim is reached by no signal to the keeper's group.
        setpgid(None, None).ok();
        set_child_subreaper(Some(getpid())).ok();
        syscalls::block_all_signals();
        let signals = syscalls::open_signal_file(&[libc::SIGCHLD]).ok()?;
        let (plan, mut given) = receive_launch(&socket)?;
        let cgroup = take(&mut given, Role::Cgroup);
        let input = take(&mut given, Role::Input);
        let is_init = plan.isolation != Isolation::None;
        let grace = plan.deadline.map(|deadline| deadline.grace).unwrap_or_default();
        let mut shim = Self {
            socket,
            lifeline,
            signals,
            saved: String::new(),
            held: Vec::new(),
            members: Members::new(is_init, cgroup),
            input: new_input(&plan, &given, input),
            ending: Ending::new(plan.deadline.map(|deadline| deadline.timeout), grace),
            stage: Stage::Starting,
            failure: None,
            gate: None,
            started: Instant::now(),
            peak_rss_bytes: 0,
            is_over: false,
            is_released: false,
            is_orphaned: false,
            outgoing: VecDeque::new(),
            send_progress: SendProgress::Done,
            kill_pause: FIRST_KILL_PAUSE,
            next_kill: Duration::ZERO,
            is_socket_over: false,
        };
        let is_held =
            |role: &Role| matches!(role, Role::StdoutReader | Role::StderrReader | Role::Report);
        match leader::start(&plan, &given, shim.members.cgroup().map(OwnedFd::as_fd), ids) {
            Ok(leader) => {
                shim.members.leader = Some(leader.pid);
                shim.failure = Some(leader.failure);
                shim.gate = leader.gate;
            }
            Err(failure) => shim.fail(failure),
        }
        // The directory must not keep a file system busy; the terminal must be closed with the job.
        chdir("/").ok();
        if let Ok(null) = open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            duplicate_to(null.as_fd(), 0).ok();
        }
        shim.saved = plan.saved;
        // The job's own ends are closed here: the outputs end with the job.
        shim.held = given.into_iter().filter(|(role, _)| is_held(role)).collect();
        Some(shim)
    }

    /// Runs until the tree is over and the server needs nothing more; returns the exit code.
    fn run(&mut self) -> i32 {
        loop {
            self.check_start();
            self.reap();
            self.serve_gate();
            self.write_input();
            self.look_at_clock();
            self.kill_rest();
            self.send_reports();
            if self.is_over && self.is_released {
                return 0;
            }
            self.wait();
            self.receive_orders();
        }
    }

    fn wait(&mut self) {
        let mut deadline = self.ending.next_deadline().filter(|_| !self.is_over);
        if self.ending.is_killing() && !self.is_over {
            deadline = Some(self.next_kill);
        }
        if self.send_progress == SendProgress::OutOfRoom {
            let retry = self.started.elapsed() + SEND_PAUSE;
            deadline = Some(deadline.map_or(retry, |deadline| deadline.min(retry)));
        }
        if let Some(longest) = self.gate.as_ref().and_then(ExecGate::longest_wait) {
            let look = self.started.elapsed() + longest;
            deadline = Some(deadline.map_or(look, |deadline| deadline.min(look)));
        }
        let limit = deadline.map(|deadline| {
            let left = deadline.saturating_sub(self.started.elapsed());
            // Rounded up, so that the deadline has passed when the wait ends.
            Timespec::try_from(left + Duration::from_millis(1))
                .unwrap_or(Timespec { tv_sec: i64::from(i32::MAX), tv_nsec: 0 })
        });
        let wanted = match self.send_progress {
            SendProgress::Full => PollFlags::IN | PollFlags::OUT,
            SendProgress::Done | SendProgress::OutOfRoom => PollFlags::IN,
        };
        let mut polled = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if !self.is_orphaned {
            polled.push(PollFd::new(&self.lifeline, PollFlags::IN));
        }
        if !self.is_socket_over {
            polled.push(PollFd::new(&self.socket, wanted));
        }
        polled.extend(self.failure.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let gate = self.gate.as_ref().and_then(ExecGate::file);
        polled.extend(gate.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)));
        let input = self.input.waits_for();
        polled.extend(input.map(|file| PollFd::from_borrowed_fd(file, PollFlags::OUT)));
        // Everything else is checked after each wait anyway.
        let ready = poll(&mut polled, limit.as_ref());
        let is_lifeline_over = !self.is_orphaned
            && ready.is_ok()
            && polled.get(1).is_some_and(|it| !it.revents().is_empty());
        while syscalls::read_signal(self.signals.as_fd()).is_some() {}
        if is_lifeline_over {
            self.is_orphaned = true;
            self.end_alone();
        }
    }

    /// Kills again what is left a while after the last kill.
    fn kill_rest(&mut self) {
        let now = self.started.elapsed();
        if self.ending.is_killing() && !self.is_over && now >= self.next_kill {
            self.members.kill();
            self.next_kill = now + self.kill_pause;
            self.kill_pause = (self.kill_pause * 2).min(LONGEST_KILL_PAUSE);
        }
    }

    /// Ends the tree, because nobody can ask for it any more: the keeper is gone, or both it and the
    /// server have closed the connection.
    fn end_alone(&mut self) {
        self.is_released = true;
        let cause = EndCause::Order(String::new());
        let now = self.started.elapsed();
        self.ending.stop(libc::SIGKILL, Duration::ZERO, cause, now);
        self.begin_killing();
    }

    /// Looks whether the first process runs its program.
    fn check_start(&mut self) {
        let Some(pipe) = &self.failure else { return };
        let mut polled = [PollFd::new(pipe, PollFlags::IN)];
        if poll(&mut polled, Some(&Timespec::default())) != Ok(1) {
            return;
        }
        let failure = leader::read_failure(pipe);
        self.failure = None;
        let is_refused = self.gate.as_ref().is_some_and(ExecGate::is_leader_refused);
        match failure {
            Some(SpawnFailure { step: SpawnStep::Program, errno }) if is_refused => {
                self.fail(SpawnStep::Refused.failed(errno));
            }
            Some(failure) => self.fail(failure),
            None => self.start_running(),
        }
    }

    fn start_running(&mut self) {
        if self.stage == Stage::Starting {
            self.stage = Stage::Running;
            self.outgoing.push_back(Report::Started(self.pids()));
        }
    }

    /// Answers the programs that wait at the exec gate.
    fn serve_gate(&mut self) {
        let Some(gate) = &mut self.gate else { return };
        let mut reports = VecDeque::new();
        gate.serve(&mut reports);
        if gate.asks_for_leader() {
            // The job is there, and the server takes questions of a job that has started. If the answer
            // is no, it hears of a failure nevertheless.
            self.start_running();
        }
        self.outgoing.append(&mut reports);
    }

    /// Reports the starts that were counted, before the report of an end.
    fn report_starts(&mut self) {
        let Some(counts) = self.gate.as_ref().map(ExecGate::counts) else { return };
        let mut waiting = self.outgoing.iter_mut();
        match waiting.find(|report| matches!(report, Report::Starts(_))) {
            Some(report) => *report = Report::Starts(counts),
            None => self.outgoing.push_back(Report::Starts(counts)),
        }
    }

    /// Returns the numbers of this process and the leader, as every process outside knows them.
    fn pids(&self) -> Option<(i32, i32)> {
        let leader = self.members.leader.filter(|_| !self.members.is_init())?;
        Some((getpid().as_raw_nonzero().get(), leader.as_raw_nonzero().get()))
    }

    fn fail(&mut self, failure: SpawnFailure) {
        self.stage = Stage::Failed(failure);
        self.outgoing.push_back(Report::Failed(failure));
    }

    /// Reaps everything that has ended.
    fn reap(&mut self) {
        if self.is_over {
            return;
        }
        let mut leader = None;
        loop {
            match syscalls::try_wait_any() {
                // A task that the gate traces has stopped, and has not ended.
                Ok(Some((pid, exit))) if self.take_stop(pid, exit.status) => {}
                Ok(Some((pid, exit))) => {
                    self.peak_rss_bytes = self.peak_rss_bytes.max(exit.max_rss_bytes);
                    self.kill_pause = FIRST_KILL_PAUSE;
                    if Some(pid) == self.members.leader {
                        leader = Some(exit);
                    }
                }
                Ok(None) => break,
                // There is no child: nothing can come back.
                Err(_) => {
                    self.is_over = true;
                    break;
                }
            }
        }
        if let Some(exit) = leader {
            self.leader_exited(exit);
        }
        // That report says so as well.
        let is_reported = matches!(self.stage, Stage::Exited(exit) if exit.is_over);
        if self.is_over && !is_reported {
            self.report_starts();
            self.outgoing.push_back(Report::Over(self.ending.note().clone()));
        }
    }

    fn take_stop(&mut self, pid: Pid, status: i32) -> bool {
        let gate = self.gate.as_mut();
        gate.is_some_and(|gate| gate.take_status(pid, status, &mut self.outgoing))
    }

    fn leader_exited(&mut self, exit: ChildExit) {
        self.members.leader = None;
        // A failure was written before the end.
        self.check_start();
        if matches!(self.stage, Stage::Failed(_)) {
            return;
        }
        let own = syscalls::own_peak_bytes();
        let above_own = |bytes: u64| if bytes > own { bytes } else { 0 };
        let exit = LeaderExit {
            exit: ChildExit { max_rss_bytes: above_own(exit.max_rss_bytes), ..exit },
            peak_rss_bytes: above_own(self.peak_rss_bytes),
            is_over: self.is_over,
        };
        self.stage = Stage::Exited(exit);
        self.ending.leader_exited();
        self.report_starts();
        self.outgoing.push_back(Report::LeaderExited(exit, self.ending.note().clone()));
    }

    fn write_input(&mut self) {
        match self.input.write() {
            InputProgress::Nothing => {}
            InputProgress::Closed => self.outgoing.push_back(Report::InputClosed),
            InputProgress::PieceWritten => {
                let (_, total) = self.input.totals();
                let report = Report::InputWritten { total, echo: self.input.echo() };
                // One that was not sent yet says less.
                self.outgoing.retain(|it| !matches!(it, Report::InputWritten { .. }));
                self.outgoing.push_back(report);
            }
        }
    }

    fn look_at_clock(&mut self) {
        if self.is_over {
            return;
        }
        if let Some(action) = self.ending.time_passed(self.started.elapsed()) {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        self.outgoing.push_back(Report::Ending(self.ending.note().clone()));
        if let Some(gate) = &mut self.gate {
            gate.end_questions(&mut self.outgoing);
        }
        match action {
            Action::Signal(signal) => self.members.signal(signal),
            Action::Kill => self.begin_killing(),
        }
    }

    fn begin_killing(&mut self) {
        self.kill_pause = FIRST_KILL_PAUSE;
        self.next_kill = Duration::ZERO;
        self.kill_rest();
    }

    fn receive_orders(&mut self) {
        while !self.is_socket_over {
            match wire::receive(self.socket.as_fd(), RecvFlags::DONTWAIT) {
                Ok(Received::Message(order, files)) => self.obey(order, files),
                Ok(Received::Unknown) => {}
                Ok(Received::End) => {
                    self.is_socket_over = true;
                    if !self.is_released {
                        self.end_alone();
                    }
                }
                Err(_) => return,
            }
        }
    }

    fn obey(&mut self, order: Order, files: Vec<OwnedFd>) {
        match order {
            Order::Launch { .. } | Order::LaunchGated { .. } => {}
            Order::Attach => self.report_state(),
            Order::Answer { id, is_allowed } => {
                if let Some(gate) = &mut self.gate {
                    gate.take_answer(id, is_allowed, &mut self.outgoing);
                }
            }
            Order::Stop { signal, grace, cause } => {
                if !self.is_over {
                    let now = self.started.elapsed();
                    let action = self.ending.stop(signal, grace, EndCause::Order(cause), now);
                    self.act(action);
                }
            }
            Order::Signal(signal) => {
                if !self.is_over {
                    self.members.signal(signal);
                }
            }
            Order::Input { bytes } => {
                self.input.push_bytes(bytes);
                self.write_input();
            }
            Order::InputFile => match files.into_iter().next() {
                Some(file) => {
                    self.input.push(file);
                    self.write_input();
                }
                // The host has no descriptor left for it. What follows must not be written either.
                None => {
                    self.input.close();
                    self.outgoing.push_back(Report::InputClosed);
                }
            },
            Order::EndInput => self.input.end(),
            Order::Close(role) => self.held.retain(|(held, _)| *held != role),
            Order::Release => {
                self.is_released = true;
                self.held.clear();
            }
        }
    }

    /// Tells a new server everything.
    fn report_state(&mut self) {
        self.outgoing.push_back(Report::State(Box::new(self.state())));
        let starts = self.gate.as_ref().map(|gate| Report::Starts(gate.counts()));
        self.outgoing.extend(starts);
        let questions = self.gate.as_ref().map(ExecGate::open_questions).unwrap_or_default();
        self.outgoing.extend(questions.into_iter().map(|id| Report::Asks { id }));
    }

    fn state(&self) -> ShimState {
        let stage = match self.stage {
            Stage::Exited(exit) => Stage::Exited(LeaderExit { is_over: self.is_over, ..exit }),
            stage @ (Stage::Starting | Stage::Failed(_) | Stage::Running) => stage,
        };
        let leader = self.members.leader.map(|_| Role::LeaderProcess);
        ShimState {
            saved: self.saved.clone(),
            stage,
            note: self.ending.note().clone(),
            input: self.input.totals(),
            is_input_open: self.input.is_open(),
            roles: self
                .held
                .iter()
                .map(|(role, _)| *role)
                .chain([Role::ShimProcess])
                .chain(leader)
                .collect(),
        }
    }

    /// Sends what the server takes now. Never waits: what is left is sent later.
    fn send_reports(&mut self) {
        if self.is_orphaned {
            // The server ends as well, and must not take this for an ending that somebody asked for.
            self.outgoing.clear();
        }
        let mut outgoing = std::mem::take(&mut self.outgoing);
        self.send_progress = send_in_order(&mut outgoing, |report| self.send(report));
        self.outgoing = outgoing;
    }

    fn send(&self, report: &Report) -> Result<(), Errno> {
        let is_state = matches!(report, Report::State(_));
        let has_processes = is_state || *report == Report::Started(None);
        let pids = has_processes.then(|| [getpid()].into_iter().chain(self.members.leader));
        let processes: Vec<_> = pids
            .into_iter()
            .flatten()
            .filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            .collect();
        let held = self.held.iter().filter(|_| is_state).map(|(_, file)| file);
        let question = match (report, &self.gate) {
            (Report::Asks { id }, Some(gate)) => gate.write_question(*id).transpose(),
            _ => Ok(None),
        };
        let question = question.map_err(|_| Errno::NFILE)?;
        let files: Vec<BorrowedFd<'_>> =
            held.chain(&processes).chain(&question).map(OwnedFd::as_fd).collect();
        wire::send(self.socket.as_fd(), report, &files, SendFlags::DONTWAIT)
    }
}

/// Receives the first message: the plan of the job, and its files.
fn receive_launch(socket: &OwnedFd) -> Option<(ShimPlan, GivenFiles)> {
    let Ok(Received::Message(order, files)) = wire::receive(socket.as_fd(), RecvFlags::empty())
    else {
        return None;
    };
    let (roles, is_gated) = match order {
        Order::Launch { roles } => (roles, false),
        Order::LaunchGated { roles } => (roles, true),
        Order::Attach
        | Order::Stop { .. }
        | Order::Signal(_)
        | Order::Input { .. }
        | Order::EndInput
        | Order::Close(_)
        | Order::Release
        | Order::InputFile
        | Order::Answer { .. } => return None,
    };
    // Without one of them the job would run without its cgroup, for example.
    if files.len() != 1 + roles.len() {
        let failure = SpawnStep::Files.failed(Errno::NFILE);
        wire::send(socket.as_fd(), &Report::Failed(failure), &[], SendFlags::DONTWAIT).ok();
        return None;
    }
    let mut files = files.into_iter();
    let plan = ShimPlan::from_file(files.next()?, is_gated).ok()?;
    Some((plan, roles.into_iter().zip(files).collect()))
}

fn take(files: &mut GivenFiles, role: Role) -> Option<OwnedFd> {
    let place = files.iter().position(|(known, _)| *known == role)?;
    Some(files.swap_remove(place).1)
}

//! The state of a gate, and the answer to each start.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use shellyard_policy::gate::{
    Gate, GateRules, RunningProgram, StartRefusal, StartRefusalReason, StartVerdict,
};

use super::filter::GatedLeader;
use super::listener::{Listener, Notification, Waiting, receive_listener};
use super::lookup::{RootIdentity, open_link};
use super::program_file::to_text_path;
use super::protocol::{StartCounts, StartQuestion};
use super::questions::{OpenQuestion, Questions, peek_input};
use super::running_programs::RunningPrograms;
use super::start_facts::{
    FactSource, LeaderStart as FirstStart, Obstacle, StartFacts, opens, unreadable,
};
use super::tracing::{self, TraceStop};
use super::verification::{ExpectedImage, has_image};
use crate::processes;
use crate::sandbox::exec_filter::compile_exec_gate;
use crate::shim::protocol::Report;
use crate::spawn_request::{SpawnFailure, SpawnStep};
use crate::wire;

pub(in crate::shim) use super::start_facts::LeaderStart;

/// The most starts that are answered before the shim looks at its other files again.
const MOST_AT_ONCE: usize = 64;
/// The most refused starts of a job of which the server hears. All are counted.
const MOST_REPORTED: u64 = 100;
/// The time between two looks whether the tasks of open questions still wait.
const QUESTION_PAUSE: Duration = Duration::from_secs(1);

/// A start that was permitted.
#[derive(Debug)]
pub(super) struct PermittedStart {
    expected: ExpectedImage,
    then: RunningProgram,
    argv: Vec<Vec<u8>>,
    starter: Option<RunningProgram>,
}

/// The connection with the filter.
#[derive(Debug)]
enum FilterLink {
    /// The leader will send the listener.
    Expected(OwnedFd),
    Open(Listener),
    /// No process can ask any more.
    Closed,
}

/// The gate that judges the programs of one job.
#[derive(Debug)]
pub(in crate::shim) struct ExecGate {
    judge: Gate,
    given: HashMap<Vec<u8>, Vec<u8>>,
    link: FilterLink,
    first: FirstStart,
    /// The leader, until it runs its program.
    leader: Option<Pid>,
    is_leader_refused: bool,
    home: Option<RootIdentity>,
    running: RunningPrograms,
    /// The starts that go on, by the task that makes them.
    permitted: HashMap<Pid, PermittedStart>,
    questions: Questions,
    counts: StartCounts,
    reported: u64,
    /// `true` once the tree is being ended: nobody is asked any more.
    is_ending: bool,
}

impl ExecGate {
    /// Prepares the gate of a job, and the leader's part of it.
    ///
    /// # Errors
    /// If the rules are not valid, or the system refuses.
    pub(in crate::shim) fn new(
        rules: &GateRules,
        first: LeaderStart,
    ) -> Result<(Self, GatedLeader), SpawnFailure> {
        let given = first.env.iter().filter_map(|variable| {
            let name = variable.name().as_encoded_bytes();
            let is_of_call = rules.given.iter().any(|of_call| of_call.as_bytes() == name);
            let value = || variable.value().as_encoded_bytes().to_vec();
            (!is_of_call).then(|| (name.to_vec(), value()))
        });
        let given = given.collect();
        let judge = Gate::new(rules.clone()).map_err(|_| SpawnStep::Gate.failed(Errno::INVAL))?;
        let filter = compile_exec_gate().map_err(|error| SpawnStep::Gate.failed(error))?;
        let (ours, socket) = wire::connection().map_err(|errno| SpawnStep::Gate.failed(errno))?;
        let gate = Self {
            judge,
            given,
            link: FilterLink::Expected(ours),
            first,
            leader: None,
            is_leader_refused: false,
            home: None,
            running: RunningPrograms::new(),
            permitted: HashMap::new(),
            questions: Questions::default(),
            counts: StartCounts::default(),
            reported: 0,
            is_ending: false,
        };
        Ok((gate, GatedLeader { filter, socket }))
    }

    pub(in crate::shim) const fn set_leader(&mut self, leader: Pid) {
        self.leader = Some(leader);
    }

    /// Returns the file to poll for reading.
    pub(in crate::shim) fn file(&self) -> Option<BorrowedFd<'_>> {
        match &self.link {
            FilterLink::Expected(socket) => Some(socket.as_fd()),
            FilterLink::Open(listener) => Some(listener.as_fd()),
            FilterLink::Closed => None,
        }
    }

    /// Returns the longest time until the next call of [`Self::serve`].
    pub(in crate::shim) fn longest_wait(&self) -> Option<Duration> {
        (!self.questions.is_empty()).then_some(QUESTION_PAUSE)
    }

    pub(in crate::shim) const fn counts(&self) -> StartCounts {
        self.counts
    }

    /// `true` if the leader was not allowed to start its program.
    pub(in crate::shim) const fn is_leader_refused(&self) -> bool {
        self.is_leader_refused
    }

    /// `true` if somebody is asked about the first program.
    pub(in crate::shim) fn asks_for_leader(&self) -> bool {
        self.leader.is_some() && !self.questions.is_empty()
    }

    pub(in crate::shim) fn open_questions(&self) -> Vec<u64> {
        self.questions.ids()
    }

    /// Writes an open question into a file in memory.
    pub(in crate::shim) fn write_question(&self, id: u64) -> Option<std::io::Result<OwnedFd>> {
        self.questions.write(id)
    }

    /// Answers the starts that wait.
    pub(in crate::shim) fn serve(&mut self, reports: &mut VecDeque<Report>) {
        self.receive_listener();
        for _ in 0..MOST_AT_ONCE {
            let FilterLink::Open(listener) = &self.link else { return };
            match listener.receive() {
                Waiting::Task(notification) => self.answer_start(&notification, reports),
                Waiting::Nobody => break,
                Waiting::Over => self.link = FilterLink::Closed,
            }
        }
        if let FilterLink::Open(listener) = &self.link {
            let gone = self.questions.remove_gone(listener);
            reports.extend(gone.into_iter().map(|id| Report::AskOver { id }));
        }
    }

    fn receive_listener(&mut self) {
        let FilterLink::Expected(socket) = &self.link else { return };
        match receive_listener(socket.as_fd()) {
            Ok(Some(listener)) => self.link = FilterLink::Open(listener),
            Ok(None) => {}
            // The leader has failed before, and says so.
            Err(_) => self.link = FilterLink::Closed,
        }
    }

    fn answer_start(&mut self, notification: &Notification, reports: &mut VecDeque<Report>) {
        let FilterLink::Open(listener) = &self.link else { return };
        let Self { running, given, home, .. } = &*self;
        let source = FactSource { listener, running, given, home: *home };
        let is_first = self.leader == Some(notification.task);
        let facts = if is_first {
            source.gather_first(notification.task, &self.first)
        } else {
            source.gather(notification)
        };
        let facts = match facts {
            Ok(facts) => facts,
            Err(Obstacle::Fails(errno)) => return listener.fail(notification.id, errno),
            Err(Obstacle::Elsewhere) => {
                self.counts.judged += 1;
                listener.proceed(notification.id).ok();
                return;
            }
            Err(Obstacle::Unreadable(refusal)) => {
                self.counts.judged += 1;
                return self.refuse(notification, Some(*refusal), reports);
            }
        };
        self.counts.judged += 1;
        match self.judge.judge(&facts.as_start()) {
            StartVerdict::Allow(then) => {
                self.permit(notification, PermittedStart::new(&facts, then), reports);
            }
            StartVerdict::Ask { rules, then } => {
                let question = StartQuestion {
                    id: 0,
                    rules,
                    file: facts.program.named.path.clone(),
                    argv: facts.argv.clone(),
                    directory: facts.directory.clone(),
                    changed_variables: facts.changed_variables.clone(),
                    started_by: facts.starter.as_ref().map(|program| program.name.clone()),
                    input_head: peek_input(notification.task),
                };
                self.ask(notification, PermittedStart::new(&facts, then), question, reports);
            }
            StartVerdict::Refuse(refusal) => self.refuse(notification, Some(refusal), reports),
        }
    }

    fn ask(
        &mut self,
        notification: &Notification,
        start: PermittedStart,
        question: StartQuestion,
        reports: &mut VecDeque<Report>,
    ) {
        if self.is_ending {
            return self.refuse(notification, None, reports);
        }
        let what = "all that had to be shown";
        let refusal = unreadable(what, &start.argv, start.starter.as_ref());
        match self.questions.add(*notification, start, question) {
            Some(id) => reports.push_back(Report::Asks { id }),
            None => self.refuse(notification, Some(refusal), reports),
        }
    }

    /// Takes the answer to a question. One that is over is ignored.
    pub(in crate::shim) fn take_answer(
        &mut self,
        id: u64,
        is_allowed: bool,
        reports: &mut VecDeque<Report>,
    ) {
        let Some(OpenQuestion { notification, start, .. }) = self.questions.take(id) else {
            return;
        };
        if is_allowed {
            self.permit(&notification, start, reports);
        } else {
            self.refuse(&notification, None, reports);
        }
    }

    /// Refuses everything that waits for an answer, and whatever would: the tree is being ended, and a
    /// task takes no signal but SIGKILL before it is answered.
    pub(in crate::shim) fn end_questions(&mut self, reports: &mut VecDeque<Report>) {
        self.is_ending = true;
        for id in self.questions.ids() {
            self.take_answer(id, false, reports);
            reports.push_back(Report::AskOver { id });
        }
    }

    fn refuse(
        &mut self,
        notification: &Notification,
        refusal: Option<StartRefusal>,
        reports: &mut VecDeque<Report>,
    ) {
        self.is_leader_refused |= self.leader == Some(notification.task);
        self.report_refusal(refusal, reports);
        if let FilterLink::Open(listener) = &self.link {
            listener.fail(notification.id, Errno::ACCESS);
        }
    }

    fn report_refusal(&mut self, refusal: Option<StartRefusal>, reports: &mut VecDeque<Report>) {
        self.counts.refused += 1;
        let Some(mut refusal) = refusal.filter(|_| self.reported < MOST_REPORTED) else { return };
        if let StartRefusalReason::OtherFile { path, .. } = &mut refusal.why {
            *path = to_text_path(std::mem::take(path));
        }
        self.reported += 1;
        reports.push_back(Report::Refused(refusal));
    }

    /// Lets a start go on, traced until its exec stop.
    fn permit(
        &mut self,
        notification: &Notification,
        start: PermittedStart,
        reports: &mut VecDeque<Report>,
    ) {
        let FilterLink::Open(listener) = &self.link else { return };
        let Notification { id, task, .. } = *notification;
        let is_first = self.leader == Some(task);
        let traced = if is_first { Ok(()) } else { tracing::seize(task) };
        match traced {
            Ok(()) => {}
            // Debuggers trace it already, and are themselves programs that may start anything.
            Err(Errno::PERM) if opens(start.starter.as_ref()) => {
                listener.proceed(id).ok();
                return;
            }
            Err(_) => {
                let what = "the process, which is traced or protected,";
                let refusal = unreadable(what, &start.argv, start.starter.as_ref());
                return self.refuse(notification, Some(refusal), reports);
            }
        }
        // If it does not wait any more, there is no exec stop, but one for the interruption.
        if listener.proceed(id).is_ok() {
            self.permitted.insert(task, start);
        }
        // A start that fails after all has no exec stop: then the task stops on its way out of the
        // kernel. Not before the answer: older kernels would let the call fail.
        if !is_first {
            tracing::interrupt(task).ok();
        }
    }

    /// Takes the status of a task, as `wait4` returned it; `true` if it is a stop. Ends its tracing.
    pub(in crate::shim) fn take_status(
        &mut self,
        task: Pid,
        status: i32,
        reports: &mut VecDeque<Report>,
    ) -> bool {
        let Some(stop) = TraceStop::parse(status) else {
            // The end of a traced task, which need not be a child.
            self.permitted.remove(&task);
            return false;
        };
        let is_first = self.leader == Some(task);
        let done = match stop {
            TraceStop::Exec => {
                let former = tracing::former_task(task).unwrap_or(task);
                self.verify(task, former, reports)
            }
            // The leader asked to be traced without options, so it stops with this signal.
            TraceStop::Signal(libc::SIGTRAP) if is_first && self.permitted.contains_key(&task) => {
                self.verify(task, task, reports)
            }
            TraceStop::Signal(signal) if is_first => tracing::resume(task, signal),
            // The start has failed, and the task goes on as if nobody had traced it. The kernel keeps a
            // process that is stopped as a whole in that state.
            TraceStop::Interrupted => {
                self.permitted.remove(&task);
                tracing::detach(task, 0)
            }
            TraceStop::Signal(signal) => {
                self.permitted.remove(&task);
                tracing::detach(task, signal)
            }
        };
        // A task that was killed meanwhile is gone.
        done.ok();
        true
    }

    /// Compares a process at its exec stop with what was permitted to the task that it was before.
    fn verify(
        &mut self,
        process: Pid,
        former: Pid,
        reports: &mut VecDeque<Report>,
    ) -> Result<(), Errno> {
        let start = self.permitted.remove(&former);
        // All other threads are gone, also one that had this number.
        self.permitted.remove(&process);
        match start {
            Some(start) if has_image(process, &start.expected) => {
                if self.leader == Some(process) {
                    self.leader = None;
                    let root = open_link(process, "root");
                    self.home = root.and_then(|root| RootIdentity::read(process, root)).ok();
                }
                self.running.insert(process, start.then);
                tracing::detach(process, 0)
            }
            start => {
                // One that was killed meanwhile has no image.
                let refusal = start
                    .filter(|_| processes::stat(process).is_some_and(|stat| stat.is_alive()))
                    .map(|start| {
                        let why = StartRefusalReason::Mismatch;
                        StartRefusal::new(&start.argv, start.starter.as_ref(), why)
                    });
                self.report_refusal(refusal, reports);
                kill_process(process, Signal::KILL)
            }
        }
    }
}

impl PermittedStart {
    fn new(facts: &StartFacts, then: RunningProgram) -> Self {
        Self {
            expected: facts.expected_image(),
            then,
            argv: facts.argv.clone(),
            starter: facts.starter.clone(),
        }
    }
}

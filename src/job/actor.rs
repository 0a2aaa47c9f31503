//! The job's actor. It only translates: messages become events, effects become actions. All
//! decisions are made in `state.rs`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument;

use super::handle::StopRequest;
use super::job_guard::JobGuard;
use super::messages::{
    Address, EndedLeader, JobMsg, OutputActivity, PumpProbe, Timer, Timers, follow,
};
use super::output_pump::Pump;
use super::overuse::OutputBounds;
use super::standard_streams::{
    InputError, InputReceipt, JobInput, KeyPress, PlainKey, StdinEnd, StdinWriteError, StdinWriter,
};
use super::start::{self, build_launch};
use super::state::{self, Effect, Event, Grace, LimitEvidence, State, Streams, TreeRemains};
use super::watchdog::Watch;
use crate::block_in_place;
use crate::journal::{JournalError, JournalTicket};
use crate::outcome::{
    JobEnding, KillNote, LivingProcesses, Outcome, ResourceUsage, SIGKILL, SIGTERM, StartError,
    StopBy,
};
use crate::process::{
    EndCause, EndingNote, Exit, LeaderEnd, NotStarted, PipelineReport, Process, ProcessEvent,
    TerminalSize,
};
use crate::spec::Stdin;
use crate::telemetry::ActorKind;
use crate::telemetry::events::{self, CountedMessage, LiveActor, SurvivingJob};

/// The time after SIGKILL at which processes that are still there are named in the ending.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// The wait for the journal during which no message is handled; most records are written sooner.
const SHORT_RECORD_TIME: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct JobActor;

/// The state of the actor. Dropping it unfinished makes the job `lost` (see [`JobGuard`]).
#[derive(Debug)]
pub(super) struct Job {
    pub(super) guard: JobGuard,
    pub(super) state: State,
    timers: Timers,
    /// The probe of the output pump, once there is one.
    probe: Option<PumpProbe>,
    pub(super) stdin: Option<StdinWriter>,
    report: Option<PipelineReport>,
    usage: ResourceUsage,
    survivors: LivingProcesses,
    /// Set while the job is finished and processes of it still run.
    surviving: Option<SurvivingJob>,
    /// The ending of the tree, by the shim's word.
    kill: Option<KillNote>,
    /// Held until the process runs, or the failure of its start is on record: an upgrade waits for it, so
    /// that the next server finds no job that was half started.
    start_token: Option<TaskTrackerToken>,
    /// The task that starts the process, while it does.
    starting: Option<AbortHandle>,
    /// The process of a previous server, until it is followed.
    resumed: Option<Box<Process>>,
    /// Input that came before the process ran.
    early_input: Vec<EarlyInput>,
    /// The size for the terminal that came before the process ran.
    early_size: Option<TerminalSize>,
    /// Held until the last process is gone.
    _watch: Option<Watch>,
    _alive: LiveActor,
}

/// Input, and the reply port of its sender.
type EarlyInput = (JobInput, RpcReplyPort<Result<InputReceipt, InputError>>);

impl Actor for JobActor {
    type Msg = CountedMessage<JobMsg>;
    type State = Job;
    /// A job, and its process if a previous server has started it.
    type Arguments = (JobGuard, Option<Box<Process>>);

    /// Short on purpose: the supervisor waits for it.
    async fn pre_start(
        &self,
        myself: ActorRef<CountedMessage<JobMsg>>,
        (guard, resumed): Self::Arguments,
    ) -> Result<Job, ActorProcessingErr> {
        guard.set_actor(Address::new(myself));
        let is_new = resumed.is_none();
        Ok(Job {
            start_token: is_new.then(|| guard.settings.pumps.enter()),
            guard,
            resumed,
            state: State::Starting,
            timers: Timers::default(),
            probe: None,
            stdin: None,
            report: None,
            usage: ResourceUsage::default(),
            survivors: LivingProcesses::default(),
            surviving: None,
            kill: None,
            starting: None,
            early_input: Vec::new(),
            early_size: None,
            _watch: None,
            _alive: events::actor_started(ActorKind::Job),
        })
    }

    async fn post_start(
        &self,
        myself: ActorRef<CountedMessage<JobMsg>>,
        job: &mut Job,
    ) -> Result<(), ActorProcessingErr> {
        let myself = Address::new(myself);
        if let Some(process) = job.resumed.take() {
            job.resume(*process, &myself);
        } else if let Some(record) = job.guard.start_record.take() {
            job.start_when_recorded(record, &myself).await;
        } else {
            job.start(&myself);
        }
        Ok(())
    }

    /// Never fails: an `Err` here would end the actor and lose the outcome.
    async fn handle(
        &self,
        myself: ActorRef<CountedMessage<JobMsg>>,
        message: CountedMessage<JobMsg>,
        job: &mut Job,
    ) -> Result<(), ActorProcessingErr> {
        let myself = Address::new(myself);
        let event = match message.into_inner() {
            JobMsg::Started(started) => {
                job.starting = None;
                // A job that was stopped meanwhile has no use for the process: dropping ends it.
                if job.state != State::Starting {
                    return Ok(());
                }
                job.continue_start(started.map(|process| *process), &myself);
                return Ok(());
            }
            JobMsg::StartRecorded => {
                if job.state == State::Starting {
                    job.start(&myself);
                }
                return Ok(());
            }
            JobMsg::LeaderExited(ended) => job.handle_leader_exit(ended),
            JobMsg::Process(event) => match job.handle_process_event(event, &myself) {
                Some(event) => event,
                None => return Ok(()),
            },
            JobMsg::StreamsClosed => Event::StreamsClosed,
            JobMsg::LimitHit(limit) => Event::LimitHit(limit),
            JobMsg::Stop(request, given) => {
                job.request_stop(request, given, &myself);
                return Ok(());
            }
            JobMsg::Input(input, reply) if job.state == State::Starting => {
                job.early_input.push((input, reply));
                return Ok(());
            }
            JobMsg::Input(input, reply) => {
                // The caller may have given up waiting.
                reply.send(job.take_input(input)).ok();
                return Ok(());
            }
            JobMsg::Resize(size, reply) => {
                reply.send(job.resize_terminal(size)).ok();
                return Ok(());
            }
            JobMsg::Timer(Timer::Kill) => {
                if let Some(tree) = job.guard.tree() {
                    job.survivors = block_in_place(|| tree.living_processes());
                }
                Event::KillUnanswered
            }
            JobMsg::Timer(Timer::Drain) => Event::DrainExpired,
        };
        job.step(event, &myself);
        Ok(())
    }
}

impl Job {
    /// Starts the process once the journal says that it is being started: after a crash a job that
    /// may have run is not run again.
    async fn start_when_recorded(&mut self, record: JournalTicket, myself: &Address) {
        let mut written = Box::pin(record.written_soon());
        // A journal that cannot be written reports its state itself, and holds no job up.
        match timeout(SHORT_RECORD_TIME, &mut written).await {
            // Another server takes over, and starts the job.
            Ok(Err(JournalError::Closed)) => return drop(self.start_token.take()),
            Ok(Ok(()) | Err(_)) => return self.start(myself),
            Err(_) => {}
        }
        // A stop must reach the job while a slow disk holds it up, so the wait is handed over to a
        // task, which sends a message.
        let actor = myself.clone();
        let waiting = async move {
            if !matches!(written.await, Err(JournalError::Closed)) {
                actor.send(JobMsg::StartRecorded);
            }
        };
        self.starting = Some(tokio::spawn(waiting).abort_handle());
    }

    /// Starts the process in a task of its own: a stop reaches a job whose start hangs.
    fn start(&mut self, myself: &Address) {
        let cwd = self.guard.take_cwd();
        let launch = match build_launch(&self.guard, cwd) {
            Ok(launch) => launch,
            Err(why) => return self.continue_start(Err(why.into()), myself),
        };
        let host = Arc::clone(&self.guard.settings.host);
        // The process comes back with a message, and belongs to no job until then: if the message is
        // dropped, the process is ended.
        let actor = myself.clone();
        let starting = async move {
            let started = start::start_process(host, launch).await;
            actor.send(JobMsg::Started(started.map(Box::new)));
        };
        let task = tokio::spawn(starting.instrument(self.guard.log_span().clone()));
        self.starting = Some(task.abort_handle());
    }

    fn continue_start(&mut self, started: Result<Process, NotStarted>, myself: &Address) {
        let event = match started {
            Ok(process) => self.handle_start(process, myself),
            Err(NotStarted::Failed(why)) => Event::FailedToStart(why),
            Err(NotStarted::ShimLost) => Event::ShimLost,
        };
        self.guard.release_files();
        self.step(event, myself);
        self.start_token = None;
        if let (Some(size), Some(terminal)) = (self.early_size.take(), &self.stdin) {
            terminal.resize(size);
        }
        for (input, reply) in std::mem::take(&mut self.early_input) {
            // The caller may have given up waiting.
            reply.send(self.take_input(input)).ok();
        }
    }

    fn handle_start(&mut self, process: Process, myself: &Address) -> Event {
        if let Err(why) = self.attach(process, myself) {
            return Event::FailedToStart(why);
        }
        if matches!(self.guard.spec().stdin, Stdin::Text(_)) {
            // The shim has all of it.
            self.stdin = None;
        }
        self.guard.mark_running();
        self.guard.record_start();
        Event::Started
    }

    /// Goes on with a process that a previous server has started. A job that has its outcome is
    /// followed until the last of its processes is gone.
    fn resume(&mut self, process: Process, myself: &Address) {
        self.guard.starts = None;
        let attached = self.attach(process, myself);
        if self.guard.has_ended() {
            let rest = TreeRemains::Somebody;
            self.state = State::Finished { streams: Streams::Open, rest };
            self.surviving = Some(events::job_survived());
            return;
        }
        let event = match attached {
            Ok(()) => Event::Started,
            Err(why) => Event::FailedToStart(why),
        };
        self.step(event, myself);
    }

    /// Follows a process: its output, its input, its limits and its end.
    fn attach(&mut self, process: Process, myself: &Address) -> Result<(), StartError> {
        let Process { events, tree, stdout, stderr, stdin, report } = process;
        let Some(writer) = self.guard.writer.take() else {
            let program = self.guard.spec().program.display();
            let why = "its log was closed before it began".to_owned();
            return Err(StartError::System { program, why });
        };
        let tree = self.guard.set_tree(tree);
        let limits = &self.guard.spec().resources;
        let watchdog = &self.guard.settings.watchdog;
        self._watch = watchdog.watch(Arc::clone(&tree), limits, myself.clone());
        self.report = report;
        self.stdin = stdin.map(StdinWriter::new);
        let bounds = OutputBounds::new(self.guard.id(), self.guard.spec());
        let redactor = self.guard.settings.mask.as_ref();
        let mut pump = Pump::new(stdout, stderr, writer, bounds, redactor, myself.clone());
        // The bytes that a previous server has written count for the limit.
        pump.taken = self.guard.output().progress().written_bytes();
        pump.gate = self.guard.settings.pumps.clone();
        pump.start_record = self.guard.unwritten_record.take();
        self.probe = Some(pump.probe.clone());
        // Hands the events, the pipes and the writer of the log over to a task. It reports to this
        // actor with messages; readers of the log do not need it.
        let following = follow(events, tree, Box::pin(pump.run()), myself.clone());
        tokio::spawn(following.instrument(self.guard.log_span().clone()));
        Ok(())
    }

    /// Converts a report of the shim into an event; `None` if there is nothing to decide.
    fn handle_process_event(&mut self, event: ProcessEvent, myself: &Address) -> Option<Event> {
        match event {
            ProcessEvent::StartFailed { why } => {
                self.surviving = None;
                let program = self.guard.spec().program.display();
                Some(Event::FailedToStart(StartError::System { program, why }))
            }
            ProcessEvent::Ending(note) => {
                self.note_ending(&note);
                if note.first_signal == SIGKILL || note.killed_after.is_some() {
                    self.timers.arm(Timer::Kill, KILL_PATIENCE, myself);
                }
                self.find_cause(&note).map(Event::EndingBegun)
            }
            ProcessEvent::Over(note) => {
                self.note_ending(&note);
                self.survivors = LivingProcesses::default();
                self.surviving = None;
                Some(Event::TreeOver)
            }
            ProcessEvent::ShimLost => {
                self.survivors = LivingProcesses::default();
                self.surviving = None;
                Some(Event::ShimLost)
            }
            ProcessEvent::InputWritten { total, echo } => {
                if let Some(stdin) = &mut self.stdin {
                    stdin.note_written(total, echo);
                }
                None
            }
            ProcessEvent::InputClosed => {
                if let Some(stdin) = &mut self.stdin {
                    stdin.note_closed();
                }
                None
            }
            ProcessEvent::Gate(event) => {
                self.guard.take_gate_event(event);
                None
            }
            ProcessEvent::LeaderExited(_) => None,
        }
    }

    /// Notes how the tree was ended.
    fn note_ending(&mut self, note: &EndingNote) {
        // Without a cause the leader had ended before: the rest was ended, not the job.
        if note.first_signal != 0 && note.cause.is_some() {
            let EndingNote { first_signal: first, killed_after, .. } = *note;
            // The verdict of a limit says it all: no signal came before.
            let is_limit = matches!(self.find_cause(note), Some(Outcome::Limit { .. }));
            let is_told = first != SIGKILL || !is_limit;
            self.kill = is_told.then_some(KillNote { first, killed_after });
            if !self.guard.has_ended() {
                self.guard.mark_stopping();
            }
        }
    }

    /// Returns the outcome that the cause of an ending means.
    fn find_cause(&self, note: &EndingNote) -> Option<Outcome> {
        match note.cause.as_ref()? {
            EndCause::Deadline => {
                Some(Outcome::TimedOut { after: self.guard.spec().limits.timeout })
            }
            EndCause::Order(text) => Outcome::from_cause(text),
        }
    }

    fn handle_leader_exit(&mut self, ended: EndedLeader) -> Event {
        let EndedLeader { end, out_of_memory, was_refused_tasks, survivors } = ended;
        self.survivors = survivors;
        let LeaderEnd { exit: Exit { status, usage }, peak_rss_bytes, is_over, note } = end;
        self.usage = usage;
        self.note_ending(&note);
        let spec = self.guard.spec();
        let memory = self.guard.measured_limits().memory;
        let evidence = LimitEvidence {
            out_of_memory,
            exceeded_memory: memory
                .filter(|limit| peak_rss_bytes > *limit)
                .map(|limit| (limit, peak_rss_bytes)),
            was_refused_tasks: was_refused_tasks
                || state::survivors_reach_limit(spec, self.survivors.pids()),
        };
        let by_itself = state::decide_outcome(status, spec, evidence);
        let rest = if is_over { TreeRemains::Nobody } else { TreeRemains::Somebody };
        Event::LeaderExited { by_itself, cause: self.find_cause(&note), rest }
    }

    /// Stops the job; `given` is told once the stop outlives this server.
    fn request_stop(&mut self, request: StopRequest, given: oneshot::Sender<()>, myself: &Address) {
        let by = request.by;
        let signal = request.signal.unwrap_or(SIGTERM);
        let grace = request.grace.unwrap_or(self.guard.spec().limits.grace);
        let stop = Event::StopRequested { by, signal, grace };
        if self.state == State::Starting {
            // No shim has the order: the stop is kept by the record of the ending.
            self.step(stop, myself);
            return self.guard.answer_when_ended(given);
        }
        if self.is_handed_over() {
            self.stop_tree(signal, Grace::Requested(grace), &Outcome::Stopped { by }, myself);
        } else {
            self.step(stop, myself);
        }
        // The caller may not want to know.
        given.send(()).ok();
    }

    /// `true` once another server takes over: it hears from the shim what happens to a job that has
    /// begun.
    fn is_handed_over(&self) -> bool {
        self.state != State::Starting && self.guard.settings.pumps.is_closed()
    }

    fn step(&mut self, event: Event, myself: &Address) {
        if self.is_handed_over() {
            return;
        }
        let state = std::mem::replace(&mut self.state, State::Starting);
        let (state, effects) = state.apply(event);
        self.state = state;
        for effect in effects {
            self.apply_effect(effect, myself);
        }
    }

    fn apply_effect(&mut self, effect: Effect, myself: &Address) {
        match effect {
            Effect::Stop { signal, grace, cause } => self.stop_tree(signal, grace, &cause, myself),
            Effect::KillRest => {
                let cause = Outcome::Stopped { by: StopBy::Client };
                self.stop_tree(SIGKILL, Grace::Requested(Duration::ZERO), &cause, myself);
            }
            Effect::AwaitDrain(rest) => self.await_drain(rest, myself),
            Effect::Finish(outcome) => self.finish(outcome),
            Effect::Leave => myself.leave(),
        }
    }

    /// Orders the shim to end the tree. From then on that happens whatever becomes of this server. A shim
    /// that does nothing (its job may have stopped it) is waited for no longer than processes that
    /// survive SIGKILL.
    fn stop_tree(&mut self, signal: i32, grace: Grace, cause: &Outcome, myself: &Address) {
        if !self.guard.has_ended() {
            self.guard.mark_stopping();
        }
        let grace = match grace {
            Grace::Default => self.guard.spec().limits.grace,
            Grace::Requested(grace) => grace,
        };
        if let Some(tree) = self.guard.tree() {
            // A shim that is gone has ended its tree, and that is reported.
            tree.stop(signal, grace, cause.to_cause()).ok();
        }
        self.timers.arm(Timer::Kill, grace.saturating_add(KILL_PATIENCE), myself);
    }

    /// Without survivors the pipes close by themselves. Survivors may hold them open, so then it is
    /// enough that the output is quiet.
    fn await_drain(&mut self, rest: TreeRemains, myself: &Address) {
        let settings = &self.guard.settings;
        let requested = self.guard.spec().drain_max;
        let (quiet, max) = match rest {
            TreeRemains::Nobody => (None, settings.drain_max),
            TreeRemains::Somebody => {
                (Some(settings.drain_quiet), requested.unwrap_or(settings.drain_max))
            }
        };
        let output = OutputActivity { log: self.guard.output().clone(), pump: self.probe.clone() };
        self.timers.arm_drain(output, quiet, max, myself);
    }

    fn finish(&mut self, outcome: Outcome) {
        self.timers.clear();
        if let Some(starting) = self.starting.take() {
            starting.abort();
        }
        for (_, reply) in self.early_input.drain(..) {
            reply.send(Err(InputError::Finished(self.guard.id()))).ok();
        }
        self.stdin = None;
        if !self.survivors.is_empty() {
            let tree = self.guard.tree();
            self.survivors = tree.map_or_else(LivingProcesses::default, |tree| {
                block_in_place(|| tree.living_processes())
            });
        }
        self.surviving = (!self.survivors.is_empty()).then(events::job_survived);
        let ending = JobEnding {
            outcome,
            at: Instant::now(),
            usage: self.usage,
            pipeline: self.report.take().map_or_else(Vec::new, PipelineReport::read),
            survivors: std::mem::take(&mut self.survivors),
            kill: self.kill.take(),
        };
        self.guard.finish(ending);
        self.start_token = None;
    }
}

impl Job {
    /// Takes input for the job: bytes, then a key, then the end.
    fn take_input(&mut self, input: JobInput) -> Result<InputReceipt, InputError> {
        let id = self.guard.id();
        if matches!(self.state, State::Finished { .. } | State::Draining { .. }) {
            return Err(InputError::Finished(id));
        }
        let mut receipt = InputReceipt::default();
        if !input.bytes.is_empty() {
            receipt = self.push(input.bytes)?;
        }
        if let Some(key) = input.key {
            receipt = self.press_key(key)?;
        }
        match input.end {
            StdinEnd::KeepOpen => Ok(receipt),
            StdinEnd::Close => self.end_input(receipt),
        }
    }

    /// Changes the size of the terminal, or keeps it for the start of the process.
    fn resize_terminal(&mut self, size: TerminalSize) -> Result<(), InputError> {
        let id = self.guard.id();
        if !self.has_terminal() {
            return Err(InputError::NoTerminal(id));
        }
        if self.state == State::Starting {
            self.early_size = Some(size);
            return Ok(());
        }
        let resized = self.stdin.as_ref().and_then(|terminal| terminal.resize(size));
        resized.ok_or(InputError::Finished(id))
    }

    fn has_terminal(&self) -> bool {
        self.guard.spec().stdin == Stdin::Terminal
    }

    fn press_key(&mut self, key: KeyPress) -> Result<InputReceipt, InputError> {
        if self.has_terminal() {
            return self.push(key.bytes().into());
        }
        match key.without_terminal() {
            PlainKey::Signal(signal) => {
                if let Some(tree) = self.guard.tree() {
                    tree.signal(signal);
                }
                Ok(InputReceipt::default())
            }
            PlainKey::End => self.end_input(InputReceipt::default()),
            PlainKey::Bytes(bytes) => self.push(bytes.into()),
        }
    }

    /// Ends the input, and returns the receipt of what was sent last. A terminal stays open: there
    /// the end of input is a key.
    fn end_input(&mut self, receipt: InputReceipt) -> Result<InputReceipt, InputError> {
        if self.has_terminal() {
            return self.push(KeyPress::CtrlD.bytes().into());
        }
        let is_ended = self.stdin.as_mut().is_some_and(StdinWriter::end);
        if is_ended { Ok(receipt) } else { Err(InputError::Closed(self.guard.id())) }
    }

    fn push(&mut self, piece: Vec<u8>) -> Result<InputReceipt, InputError> {
        let id = self.guard.id();
        let writer = self.stdin.as_mut().ok_or(InputError::Closed(id))?;
        writer.push(&piece).map_err(|refused| match refused {
            StdinWriteError::Full => InputError::Full(id),
            StdinWriteError::Closed => InputError::Closed(id),
        })
    }
}

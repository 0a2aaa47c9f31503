//! The job's actor. It only translates: messages become events, effects become actions. All
//! decisions are made in `state.rs`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::Instrument;

use super::handle::StopRequest;
use super::job_guard::JobGuard;
use super::messages::{
    Address, JobMsg, OutputActivity, PumpProbe, ReapedLeader, Timer, Timers, follow,
};
use super::output_pump::Pump;
use super::overuse::OutputBounds;
use super::standard_streams::{
    InputError, InputReceipt, JobInput, KeyPress, PlainKey, StdinEnd, StdinWriteError, StdinWriter,
};
use super::start::{self, build_launch};
use super::state::{self, Effect, Event, Grace, Pace, State, Streams, TreeRemains};
use super::watchdog::Watch;
use crate::block_in_place;
use crate::journal::{JournalError, JournalTicket};
use crate::outcome::{JobEnding, KillNote, Outcome, ResourceUsage, SIGTERM, StartError};
use crate::process::{PipelineReport, Process, ProcessTree, RecentStart, TerminalSize};
use crate::spec::Stdin;
use crate::telemetry::ActorKind;
use crate::telemetry::events::{self, CountedMessage, LiveActor, SurvivingJob};

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
    survivors: Vec<u32>,
    /// Set while the job is finished and processes of it still run.
    surviving: Option<SurvivingJob>,
    kill: Option<KillClock>,
    /// The job's entry among the recent starts, while the job may use a processor.
    recent_start: Option<RecentStart>,
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

/// The time and the signal with which the end of the tree began.
#[derive(Debug)]
struct KillClock {
    since: Instant,
    note: KillNote,
}

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
        Ok(Job {
            guard,
            resumed,
            state: State::Starting,
            timers: Timers::default(),
            probe: None,
            stdin: None,
            report: None,
            usage: ResourceUsage::default(),
            survivors: Vec::new(),
            surviving: None,
            kill: None,
            recent_start: None,
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
                let program = || job.guard.spec().program.display();
                let started = started.and_then(|process| process.into_owned(program()));
                job.continue_start(started, &myself);
                return Ok(());
            }
            JobMsg::StartRecorded => {
                if job.state == State::Starting {
                    job.start(&myself);
                }
                return Ok(());
            }
            JobMsg::LeaderExited(reaped) => job.handle_leader_exit(reaped),
            JobMsg::StreamsClosed => Event::StreamsClosed,
            JobMsg::LimitHit(limit) => Event::LimitHit(limit),
            JobMsg::Stop(request) => job.request_stop(request),
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
            JobMsg::DeadlinePassed => Event::DeadlinePassed(job.guard.spec().limits.timeout),
            JobMsg::Timer(Timer::Grace) => Event::GraceExpired,
            JobMsg::Timer(Timer::Drain) => Event::DrainExpired,
            JobMsg::Timer(Timer::CheckTree) => {
                job.look_at_tree(&myself, ProcessTree::living_pids, JobMsg::TreeChecked);
                return Ok(());
            }
            JobMsg::TreeChecked(alive) => Event::TreeChecked(TreeRemains::from_pids(&alive)),
            JobMsg::Killed(alive) => {
                job.survivors.clone_from(&alive);
                Event::Killed(TreeRemains::from_pids(&alive))
            }
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
            Ok(Err(JournalError::Closed)) => return,
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

    /// Starts the process, in a task of its own where that may take a while: a stop reaches a job
    /// whose start hangs.
    fn start(&mut self, myself: &Address) {
        let cwd = self.guard.take_cwd();
        let launch = match self.require_guardian().and_then(|()| build_launch(&self.guard, cwd)) {
            Ok(launch) => launch,
            Err(why) => return self.continue_start(Err(why), myself),
        };
        let host = Arc::clone(&self.guard.settings.host);
        let recent_start = self.recent_start.insert(host.recent_starts().enter());
        if recent_start.is_alone()
            && start::is_own_shell(self.guard.spec())
            && host.is_quick_to_start(&launch)
        {
            let begun = Instant::now();
            let started = host.spawn(&launch);
            recent_start.note_spawn(begun.elapsed());
            return self.continue_start(started, myself);
        }
        // Hands the launch over to a task. The process comes back with a message, and belongs to no
        // job until then: if the message is dropped, the process is ended.
        let actor = myself.clone();
        let starting = async move {
            let started = start::start_elsewhere(host, launch).await;
            actor.send(JobMsg::Started(started.map(Box::new)));
        };
        let task = tokio::spawn(starting.instrument(self.guard.log_span().clone()));
        self.starting = Some(task.abort_handle());
    }

    fn continue_start(&mut self, started: Result<Process, StartError>, myself: &Address) {
        let event = match started {
            Ok(process) => self.handle_start(process, myself),
            Err(why) => Event::FailedToStart(why),
        };
        self.guard.release_files();
        self.step(event, myself);
        if let (Some(size), Some(terminal)) = (self.early_size.take(), &self.stdin) {
            terminal.resize(size);
        }
        for (input, reply) in std::mem::take(&mut self.early_input) {
            // The caller may have given up waiting.
            reply.send(self.take_input(input)).ok();
        }
    }

    /// Refuses to start a job without the guardian: its processes would outlive a killed server.
    fn require_guardian(&self) -> Result<(), StartError> {
        self.guard.settings.host.guardian().ensure_running().map_err(|error| {
            let program = self.guard.spec().program.display();
            let mut failed = StartError::from_system(program, &error);
            if let StartError::System { why, .. } = &mut failed {
                *why = format!("there is no guardian process for it: {why}");
            }
            failed
        })
    }

    fn handle_start(&mut self, process: Process, myself: &Address) -> Event {
        let deadline = self.guard.spec().limits.timeout;
        if let Err(why) = self.attach(process, deadline, myself) {
            return Event::FailedToStart(why);
        }
        self.guard.mark_running();
        self.guard.record_start(None);
        self.send_first_input();
        Event::Started
    }

    /// Goes on with a process that a previous server has started. A job that has its outcome is
    /// followed until the last of its processes is gone.
    fn resume(&mut self, process: Process, myself: &Address) {
        // The keeper holds this input only while some of its text was not written.
        if process.stdin.is_some() && matches!(self.guard.spec().stdin, Stdin::Text(_)) {
            return self.give_up(myself);
        }
        let attached = self.attach(process, self.guard.time_left(), myself);
        if self.guard.has_ended() {
            self.state = State::Finished { streams: Streams::Open };
            self.surviving = Some(events::job_survived());
            return self.apply_effect(Effect::CheckTree(Pace::Soon), myself);
        }
        let event = match attached {
            Ok(()) => Event::Started,
            Err(why) => Event::FailedToStart(why),
        };
        self.step(event, myself);
    }

    /// Ends a job of a previous server whose input was cut off.
    fn give_up(&mut self, myself: &Address) {
        if let Some(tree) = self.guard.tree() {
            tokio::task::spawn_blocking(move || tree.kill());
        }
        let why =
            "the server ended before it had sent the whole input; its processes are being ended";
        self.finish(Outcome::Lost { why: why.to_owned() });
        self.state = State::Finished { streams: Streams::Closed };
        myself.leave();
    }

    /// Follows a process: its output, its input, its limits and its end.
    fn attach(
        &mut self,
        process: Process,
        deadline: Duration,
        myself: &Address,
    ) -> Result<(), StartError> {
        let Process { leader, tree, stdout, stderr, stdin, report } = process;
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
        self.stdin = stdin.map(StdinWriter::start);
        let bounds = OutputBounds::new(self.guard.id(), self.guard.spec());
        let redactor = self.guard.settings.mask.as_ref();
        let mut pump = Pump::new(stdout, stderr, writer, bounds, redactor, myself.clone());
        // The bytes that a previous server has written count for the limit.
        pump.taken = self.guard.output().progress().written_bytes();
        pump.gate = self.guard.settings.pumps.clone();
        pump.start_record = self.guard.unwritten_record.take();
        self.probe = Some(pump.probe.clone());
        // Hands the leader, the pipes and the writer of the log over to a task. It reports to this
        // actor with messages; readers of the log do not need it.
        let following = follow(leader, tree, Box::pin(pump.run()), deadline, myself.clone());
        tokio::spawn(following.instrument(self.guard.log_span().clone()));
        Ok(())
    }

    /// Sends the text that was given with the command, then the end of input.
    fn send_first_input(&mut self) {
        let text = std::mem::take(&mut self.guard.first_input);
        if let (Stdin::Text(_), Some(writer)) = (&self.guard.spec().stdin, self.stdin.as_ref()) {
            // The first piece always has room.
            writer.push(text.into_bytes()).ok();
            self.stdin = None;
        }
    }

    fn handle_leader_exit(&mut self, reaped: ReapedLeader) -> Event {
        let ReapedLeader { exit, out_of_memory, was_refused_tasks, survivors } = reaped;
        let rest = TreeRemains::from_pids(&survivors);
        self.survivors = survivors;
        let outcome = match exit {
            Ok(exit) => {
                self.usage = exit.usage;
                let spec = self.guard.spec();
                let was_refused =
                    was_refused_tasks || state::survivors_reach_limit(spec, &self.survivors);
                state::decide_outcome(exit.status, spec, out_of_memory, was_refused)
            }
            Err(error) => {
                Outcome::Lost { why: format!("the system could not tell how it ended: {error}") }
            }
        };
        Event::LeaderExited(outcome, rest)
    }

    fn request_stop(&self, request: StopRequest) -> Event {
        if !self.guard.has_ended() {
            // A crash must not make a stop undone.
            self.guard.record_start(Some(request.by));
        }
        Event::StopRequested {
            by: request.by,
            signal: request.signal.unwrap_or(SIGTERM),
            grace: request.grace.unwrap_or(self.guard.spec().limits.grace),
        }
    }

    fn step(&mut self, event: Event, myself: &Address) {
        if self.guard.settings.pumps.is_closed() {
            // Another server takes over: it hears of the event from the kernel or from its clock.
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
            Effect::Terminate { signal, grace } => self.terminate(signal, grace, myself),
            Effect::CheckTree(pace) => {
                let pause = match pace {
                    Pace::Soon => Duration::from_millis(20),
                    Pace::Slow => Duration::from_secs(10),
                };
                self.timers.arm(Timer::CheckTree, pause, myself);
            }
            Effect::Kill => self.kill(myself),
            Effect::AwaitDrain(rest) => self.await_drain(rest, myself),
            Effect::Finish(outcome) => self.finish(outcome),
            Effect::Leave => myself.leave(),
        }
    }

    fn terminate(&mut self, signal: i32, grace: Grace, myself: &Address) {
        self.guard.mark_stopping();
        let note = KillNote { first: signal, killed_after: None };
        self.kill.get_or_insert(KillClock { since: Instant::now(), note });
        let grace = match grace {
            Grace::Default => self.guard.spec().limits.grace,
            Grace::Requested(grace) => grace,
        };
        self.timers.arm(Timer::Grace, grace, myself);
        // The result comes back as the leader's exit; a scan of /proc may take a while.
        if let Some(tree) = self.guard.tree() {
            tokio::task::spawn_blocking(move || tree.signal(signal));
        }
    }

    fn kill(&mut self, myself: &Address) {
        if let Some(clock) = &mut self.kill {
            clock.note.killed_after = Some(clock.since.elapsed());
        }
        self.look_at_tree(myself, ProcessTree::kill, JobMsg::Killed);
    }

    /// Runs an action on the tree on a blocking thread, and reports the living processes.
    fn look_at_tree(
        &self,
        myself: &Address,
        act: fn(&ProcessTree) -> Vec<u32>,
        report: fn(Vec<u32>) -> JobMsg,
    ) {
        let Some(tree) = self.guard.tree() else { return };
        let actor = myself.clone();
        tokio::task::spawn_blocking(move || actor.send(report(act(&tree))));
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
        self.recent_start = None;
        self.stdin = None;
        if !self.survivors.is_empty() {
            let tree = self.guard.tree();
            self.survivors =
                tree.map_or_else(Vec::new, |tree| block_in_place(|| tree.living_pids()));
        }
        self.surviving = (!self.survivors.is_empty()).then(events::job_survived);
        let ending = JobEnding {
            outcome,
            at: Instant::now(),
            usage: self.usage,
            pipeline: self.report.take().map_or_else(Vec::new, PipelineReport::read),
            survivors: std::mem::take(&mut self.survivors),
            kill: self.kill.take().map(|clock| clock.note),
        };
        self.guard.finish(ending);
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
                    tokio::task::spawn_blocking(move || tree.signal(signal));
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
        match self.stdin.take() {
            Some(_) => Ok(receipt),
            None => Err(InputError::Closed(self.guard.id())),
        }
    }

    fn push(&self, piece: Vec<u8>) -> Result<InputReceipt, InputError> {
        let id = self.guard.id();
        let writer = self.stdin.as_ref().ok_or(InputError::Closed(id))?;
        writer.push(piece).map_err(|refused| match refused {
            StdinWriteError::Full => InputError::Full(id),
            StdinWriteError::Closed => InputError::Closed(id),
        })
    }
}

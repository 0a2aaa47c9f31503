//! The messages of a job's actor, and how the actor, its tasks and its pump reach each other.
//!
//! Tasks report to the actor with a [`JobMsg`], sent through its [`Address`]: [`follow`] when the
//! process has ended, [`Timers`] when a wait is over. The pump is asked with a [`PumpProbe`] and
//! stopped with the [`PumpGate`].

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::poll;
use ractor::{ActorRef, ActorStatus, RpcReplyPort, call};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::handle::StopRequest;
use super::standard_streams::{InputError, InputReceipt, JobInput};
use crate::block_in_place;
use crate::outcome::{LimitKind, LivingProcesses};
use crate::output::LogReader;
use crate::process::{
    LeaderEnd, NotStarted, Process, ProcessEvent, ProcessEvents, ProcessTree, TerminalSize,
};
use crate::telemetry::ActorKind;
use crate::telemetry::events::CountedMessage;

/// Messages are small and carry decisions, never output bytes: a ractor mailbox is
/// unbounded, so bytes would pile up in it without backpressure.
#[derive(Debug)]
pub(super) enum JobMsg {
    /// Sent by the task that waits for the journal: the process may be started.
    StartRecorded,
    /// Sent by the start task: the process, or the reason why there is none. Dropping it ends the
    /// process.
    Started(Result<Box<Process>, NotStarted>),
    /// Sent by the task that follows the process: its shim has reported this.
    Process(ProcessEvent),
    /// Sent by the same task: the leader has ended.
    LeaderExited(EndedLeader),
    /// Sent by the pump: the output pipes have ended.
    StreamsClosed,
    /// Sent by the pump or the watchdog: a limit was exceeded.
    LimitHit(LimitKind),
    /// Sent by a client or the supervisor: end the job. The reply comes once the shim has the order:
    /// then it is carried out whatever happens to this server.
    Stop(StopRequest, oneshot::Sender<()>),
    /// Sent by a client. The reply comes once the input is queued, not once it was read.
    Input(JobInput, RpcReplyPort<Result<InputReceipt, InputError>>),
    /// Sent by a client: change the size of the terminal.
    Resize(TerminalSize, RpcReplyPort<Result<(), InputError>>),
    Timer(Timer),
}

/// The facts that are known once the leader has ended.
#[derive(Debug)]
pub(super) struct EndedLeader {
    /// The end by the shim's word.
    pub(super) end: LeaderEnd,
    /// The job's peak memory, if the kernel ended it for lack of memory.
    pub(super) out_of_memory: Option<u64>,
    /// `true` if the kernel refused the job a process because of its limit.
    pub(super) was_refused_tasks: bool,
    /// The processes that outlived the leader.
    pub(super) survivors: LivingProcesses,
}

/// The address of a job's actor. Clones are cheap, and outlive the actor.
#[derive(Debug, Clone)]
pub(super) struct Address(ActorRef<CountedMessage<JobMsg>>);

impl Address {
    pub(super) const fn new(actor: ActorRef<CountedMessage<JobMsg>>) -> Self {
        Self(actor)
    }

    /// Sends a message, which is dropped if the actor has ended.
    pub(super) fn send(&self, message: JobMsg) {
        self.0.cast(CountedMessage::new(ActorKind::Job, message)).ok();
    }

    /// Sends a message and waits for the reply; `None` if the actor is gone or fails before it
    /// replies.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<T>) -> JobMsg,
    ) -> Option<T> {
        call!(self.0, |reply| CountedMessage::new(ActorKind::Job, message(reply))).ok()
    }

    /// Ends the actor after the message that it handles now.
    pub(super) fn leave(&self) {
        self.0.stop(None);
    }

    pub(super) fn is_gone(&self) -> bool {
        // One that is stopping handles no message any more.
        matches!(self.0.get_status(), ActorStatus::Stopping | ActorStatus::Stopped)
    }

    /// Returns once the actor is gone.
    pub(super) async fn wait_until_gone(&self) {
        // Without a time limit there is no error.
        self.0.wait(None).await.ok();
    }
}

// A job's timers. Each reports to the actor with a message; all stop with the actor.

/// The extra time that the pump gets to empty the pipes once `max` has passed.
const EXTRA_DRAIN_TIME: Duration = Duration::from_secs(1);

/// The purpose of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// SIGKILL was sent a while ago.
    Kill,
    /// The wait for last bytes is over.
    Drain,
}

/// The running timers. Setting a timer again restarts it.
#[derive(Debug, Default)]
pub(super) struct Timers {
    running: Vec<(Timer, AbortHandle)>,
}

impl Timers {
    pub(super) fn arm(&mut self, timer: Timer, after: Duration, actor: &Address) {
        let actor = actor.clone();
        self.start(timer, async move {
            sleep(after).await;
            actor.send(JobMsg::Timer(timer));
        });
    }

    /// Sets [`Timer::Drain`]: it fires after `max`, or once the output has been quiet for `quiet`,
    /// if given. Everything written before is then in the log, unless the host is overloaded.
    pub(super) fn arm_drain(
        &mut self,
        output: OutputActivity,
        quiet: Option<Duration>,
        max: Duration,
        actor: &Address,
    ) {
        let actor = actor.clone();
        self.start(Timer::Drain, async move {
            // After `max`, the pump gets a little more time to empty the pipes.
            if timeout(max, output.wait_until_quiet(quiet)).await.is_err() {
                drop(timeout(EXTRA_DRAIN_TIME, output.wait_until_all_is_read()).await);
            }
            actor.send(JobMsg::Timer(Timer::Drain));
        });
    }

    pub(super) fn clear(&mut self) {
        for (_, clock) in self.running.drain(..) {
            clock.abort();
        }
    }

    fn start(&mut self, timer: Timer, clock: impl Future<Output = ()> + Send + 'static) {
        let clock = tokio::spawn(clock).abort_handle();
        for (_, old) in self.running.extract_if(.., |(running, _)| *running == timer) {
            old.abort();
        }
        self.running.push((timer, clock));
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The output of a job: its log, and the probe of the pump that fills it.
#[derive(Debug)]
pub(super) struct OutputActivity {
    pub(super) log: LogReader,
    pub(super) pump: Option<PumpProbe>,
}

impl OutputActivity {
    /// Returns once the output has been quiet for `quiet`; never returns if that is `None`.
    async fn wait_until_quiet(&self, quiet: Option<Duration>) {
        let Some(quiet) = quiet else { return std::future::pending().await };
        let mut since = Instant::now();
        loop {
            sleep(quiet.saturating_sub(since.elapsed())).await;
            self.wait_until_all_is_read().await;
            match self.log.progress().last_output {
                Some(last) if last > since => since = last,
                Some(_) | None => return,
            }
        }
    }

    async fn wait_until_all_is_read(&self) {
        if let Some(pump) = &self.pump {
            pump.wait_until_all_is_read().await;
        }
    }
}

// The task that follows a process.

/// Follows a process until its tree and its output have ended. One task does both, because the output
/// and the end of a short job mostly come together.
pub(super) async fn follow(
    mut events: ProcessEvents,
    tree: Arc<ProcessTree>,
    mut pumping: Pin<Box<impl Future<Output = ()>>>,
    actor: Address,
) {
    let mut is_pumped = false;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = &mut pumping, if !is_pumped => {
                is_pumped = true;
                continue;
            }
        };
        if matches!(event, ProcessEvent::LeaderExited(_) | ProcessEvent::ShimLost) && !is_pumped {
            // The leader wrote before it ended, so the pump's reports come first.
            is_pumped = poll!(&mut pumping).is_ready();
        }
        let is_last = match &event {
            ProcessEvent::LeaderExited(end) => end.is_over,
            ProcessEvent::Over(_) | ProcessEvent::ShimLost | ProcessEvent::StartFailed { .. } => {
                true
            }
            ProcessEvent::Ending(_)
            | ProcessEvent::Gate(_)
            | ProcessEvent::InputWritten { .. }
            | ProcessEvent::InputClosed => false,
        };
        actor.send(match event {
            ProcessEvent::LeaderExited(end) => JobMsg::LeaderExited(examine_end(end, &tree)),
            ProcessEvent::StartFailed { .. }
            | ProcessEvent::Ending(_)
            | ProcessEvent::Over(_)
            | ProcessEvent::Gate(_)
            | ProcessEvent::InputWritten { .. }
            | ProcessEvent::InputClosed
            | ProcessEvent::ShimLost => JobMsg::Process(event),
        });
        if is_last {
            tree.close();
            break;
        }
    }
    if !is_pumped {
        pumping.await;
    }
}

fn examine_end(end: LeaderEnd, tree: &ProcessTree) -> EndedLeader {
    // The kernel's counters of the tree are there until it is closed.
    let out_of_memory = tree.out_of_memory();
    let was_refused_tasks = tree.was_refused_tasks();
    let survivors = if end.is_over {
        LivingProcesses::default()
    } else {
        block_in_place(|| tree.living_processes())
    };
    if end.is_over {
        // What appeared under protected names is renamed before anybody hears of the end.
        block_in_place(|| tree.close());
    }
    EndedLeader { end, out_of_memory, was_refused_tasks, survivors }
}

// Requests to the pump, which moves a job's output into its log.

/// A request to a job's pump to report when everything in the pipes is in the log.
///
/// A quiet log is not enough: on a busy host, bytes may stay in a pipe for longer. Clones are
/// cheap: one for the caller and one for the pump.
#[derive(Debug, Clone, Default)]
pub(super) struct PumpProbe(Arc<ProbeEnds>);

#[derive(Debug, Default)]
struct ProbeEnds {
    asked: Notify,
    /// The reply channel of the last caller; earlier ones have stopped waiting.
    asker: Mutex<Option<oneshot::Sender<()>>>,
}

impl PumpProbe {
    /// Returns once everything that is in the pipes now is in the log, or the pump has ended.
    pub(super) async fn wait_until_all_is_read(&self) {
        let (asker, answered) = oneshot::channel();
        *self.lock_asker() = Some(asker);
        self.0.asked.notify_one();
        // Nothing is sent: dropping the sender is the answer.
        answered.await.ok();
    }

    /// Waits for a request, on the pump's side. Dropping the result is the answer. Cancel-safe.
    pub(super) async fn next_request(&self) -> oneshot::Sender<()> {
        loop {
            self.0.asked.notified().await;
            if let Some(asker) = self.take_asker() {
                return asker;
            }
        }
    }

    /// Takes the pending request, if there is one, without waiting: [`PumpProbe::next_request`] for a
    /// thread outside the runtime.
    pub(super) fn take_asker(&self) -> Option<oneshot::Sender<()>> {
        self.lock_asker().take()
    }

    fn lock_asker(&self) -> MutexGuard<'_, Option<oneshot::Sender<()>>> {
        self.0.asker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The gate that all pumps of a server pass: once it is closed, they read no further byte, and
/// another server can take over. It also holds the permits of busy pumps for threads. Clones are
/// cheap and share the gate.
#[derive(Debug, Clone)]
pub struct PumpGate {
    closed: CancellationToken,
    pumps: TaskTracker,
    flood_permits: Arc<Semaphore>,
}

/// The number of floods that have a thread at the same time. More would not be faster; other floods
/// stay with the runtime.
const FLOOD_THREADS: usize = 4;

impl Default for PumpGate {
    fn default() -> Self {
        let flood_permits = Arc::new(Semaphore::new(FLOOD_THREADS));
        Self { closed: CancellationToken::new(), pumps: TaskTracker::new(), flood_permits }
    }
}

impl PumpGate {
    /// Closes the gate. Returns once every pump has stopped: each byte that it has read is in its
    /// log, and the others are in the pipes.
    pub async fn close(&self) {
        self.closed.cancel();
        self.pumps.close();
        self.pumps.wait().await;
    }

    /// `true` once the gate is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Returns once the gate is closed. Cancel-safe.
    pub(super) async fn wait_until_closed(&self) {
        self.closed.cancelled().await;
    }

    /// Returns the right to a thread for a flood, if one is free.
    pub(super) fn try_flood_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.flood_permits).try_acquire_owned().ok()
    }

    /// Counts a pump as running for as long as the result exists.
    pub(super) fn enter(&self) -> TaskTrackerToken {
        self.pumps.token()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LONG, settings};
    use super::*;
    use crate::output;
    use crate::spec::Stream;

    const MOMENT: Duration = Duration::from_millis(1);

    async fn next_request(pump: &PumpProbe) -> oneshot::Sender<()> {
        timeout(LONG, pump.next_request()).await.expect("the pump is asked")
    }

    #[tokio::test]
    async fn what_lies_in_a_pipe_when_the_log_has_been_quiet_is_waited_for() {
        let settings = settings();
        let (mut writer, log) = output::open_log(&settings.log);
        let pump = PumpProbe::default();
        let output = OutputActivity { log, pump: Some(pump.clone()) };
        let quiet = tokio::spawn(async move { output.wait_until_quiet(Some(MOMENT)).await });
        // A pump that runs late and then finds bytes.
        let asker = next_request(&pump).await;
        assert!(!quiet.is_finished());
        writer.append(Stream::Stdout, b"late");
        drop(asker);
        let asker = next_request(&pump).await;
        assert!(!quiet.is_finished(), "it begins to be quiet anew");
        drop(asker);
        quiet.await.unwrap();
    }

    #[tokio::test]
    async fn closing_waits_for_every_pump() {
        let gate = PumpGate::default();
        let [first, second] = [gate.enter(), gate.enter()];
        let mut closing = Box::pin(gate.close());
        assert!(poll!(&mut closing).is_pending());
        gate.wait_until_closed().await;
        drop(first);
        assert!(poll!(&mut closing).is_pending());
        drop(second);
        assert!(poll!(&mut closing).is_ready());
    }
}

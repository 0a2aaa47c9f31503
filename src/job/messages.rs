//! Messages for a job's actor, and the one way to send them.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ractor::{ActorRef, ActorStatus, RpcReplyPort, call};
use tokio::sync::{Notify, oneshot};

use super::handle::StopRequest;
use super::stdin_writer::{InputError, InputReceipt, JobInput};
use super::timers::Timer;
use crate::outcome::{LimitKind, StartError};
use crate::process::{Exit, Process, TerminalSize};
use crate::telemetry::ActorKind;
use crate::telemetry::events::CountedMessage;

/// Messages are small and carry decisions, never output bytes: a ractor mailbox is
/// unbounded, so bytes would pile up in it without backpressure.
#[derive(Debug)]
pub(super) enum JobMsg {
    /// Sent by the task that waits for the journal: the process may be started.
    StartRecorded,
    /// Sent by the start task: the process, or the reason why there is none.
    Started(Result<Box<UnownedProcess>, StartError>),
    /// Sent by the waiter task: the leader was reaped.
    LeaderExited(ReapedLeader),
    /// Sent by the pump: the output pipes have ended.
    StreamsClosed,
    /// Sent by the pump or the watchdog: a limit was exceeded.
    LimitHit(LimitKind),
    /// Sent by a client or the supervisor: end the job.
    Stop(StopRequest),
    /// Sent by a client. The reply comes once the input is queued, not once it was read.
    Input(JobInput, RpcReplyPort<Result<InputReceipt, InputError>>),
    /// Sent by a client: change the size of the terminal.
    Resize(TerminalSize, RpcReplyPort<Result<(), InputError>>),
    /// Sent by the waiter task: the job's timeout is over.
    DeadlinePassed,
    Timer(Timer),
    /// Sent by a check of the tree: these processes are alive.
    TreeChecked(Vec<u32>),
    /// Sent by the killer thread: these processes are alive in spite of SIGKILL.
    Killed(Vec<u32>),
    /// Sent by a test: panic, as only a bug in the actor would.
    #[cfg(test)]
    Fail,
}

/// The facts that are known once the leader is reaped.
#[derive(Debug)]
pub(super) struct ReapedLeader {
    pub(super) exit: io::Result<Exit>,
    /// The job's peak memory, if the kernel ended it for lack of memory.
    pub(super) out_of_memory: Option<u64>,
    /// `true` if the kernel refused the job a process because of its limit.
    pub(super) was_refused_tasks: bool,
    /// The processes that outlived the leader.
    pub(super) survivors: Vec<u32>,
}

/// A process that no job owns yet. Dropping it ends its whole tree.
#[derive(Debug)]
pub(super) struct UnownedProcess(Option<Process>);

impl UnownedProcess {
    pub(super) const fn new(process: Process) -> Self {
        Self(Some(process))
    }

    /// Hands the process over to its owner.
    pub(super) fn into_owned(mut self, program: String) -> Result<Process, StartError> {
        let why = || "it was ended before it began".to_owned();
        self.0.take().ok_or_else(|| StartError::System { program, why: why() })
    }
}

impl Drop for UnownedProcess {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            // Processes that are left even then are ended with the server.
            drop(process.tree.kill());
        }
    }
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
        self.0.get_status() == ActorStatus::Stopped
    }

    /// Returns once the actor is gone.
    pub(super) async fn wait_until_gone(&self) {
        // Without a time limit there is no error.
        self.0.wait(None).await.ok();
    }
}

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

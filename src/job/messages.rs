//! Messages for a job's actor, and the one way to send them.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ractor::{ActorRef, ActorStatus, RpcReplyPort, call};
use tokio::sync::{Notify, oneshot};

use super::handle::StopRequest;
use super::stdin_writer::{InputError, JobInput};
use super::timers::Timer;
use crate::outcome::{LimitKind, StartError};
use crate::process::{Exit, Process};
use crate::telemetry::ActorKind;
use crate::telemetry::events::CountedMessage;

/// Messages are small and carry decisions, never output bytes: a ractor mailbox is
/// unbounded, so bytes would pile up in it without backpressure.
#[derive(Debug)]
pub(super) enum JobMsg {
    /// From the start task: the process runs, or why there is none.
    Started(Result<Box<UnownedProcess>, StartError>),
    /// From the waiter task: the leader was reaped.
    LeaderExited(Reaped),
    /// From the pump: both pipes have ended.
    StreamsClosed,
    /// From the pump or the watchdog: a bound was passed.
    LimitHit(LimitKind),
    /// From a client or the supervisor: end the job.
    Stop(StopRequest),
    /// From a client. Replies once the input is on its way, not once it was read.
    Input(JobInput, RpcReplyPort<Result<(), InputError>>),
    /// From the waiter task: the run has taken as long as it may.
    DeadlinePassed,
    Timer(Timer),
    /// From a look at the tree: these are alive.
    TreeChecked(Vec<u32>),
    /// From the killer thread: these are alive in spite of SIGKILL.
    Killed(Vec<u32>),
    /// From a test: fail, as only a mistake in here could.
    #[cfg(test)]
    Fail,
}

/// The facts that are known once the leader is reaped.
#[derive(Debug)]
pub(super) struct Reaped {
    pub(super) exit: io::Result<Exit>,
    /// The most memory that the job had, where the kernel ended it for want of more.
    pub(super) out_of_memory: Option<u64>,
    /// `true` if the kernel refused the job a process because of its limit.
    pub(super) was_refused_tasks: bool,
    /// The processes that outlived the leader.
    pub(super) survivors: Vec<u32>,
}

/// A process that no job owns yet. Dropped, it is ended with all that came out of it.
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
            // Who is left even so is ended with the server.
            drop(process.tree.kill());
        }
    }
}

/// The address of a job's actor. A cheap clone; it outlives the actor.
#[derive(Debug, Clone)]
pub(super) struct Address(ActorRef<CountedMessage<JobMsg>>);

impl Address {
    pub(super) const fn new(actor: ActorRef<CountedMessage<JobMsg>>) -> Self {
        Self(actor)
    }

    /// Sends a message. Where the actor is gone, there is nobody left to tell.
    pub(super) fn tell(&self, message: JobMsg) {
        self.0.cast(CountedMessage::new(ActorKind::Job, message)).ok();
    }

    /// The reply to a message; nothing where the actor is gone or fails before it replies.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<T>) -> JobMsg,
    ) -> Option<T> {
        call!(self.0, |reply| CountedMessage::new(ActorKind::Job, message(reply))).ok()
    }

    /// The actor ends itself after the message that it handles.
    pub(super) fn leave(&self) {
        self.0.stop(None);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.0.get_status() == ActorStatus::Stopped
    }

    /// Returns once the actor is gone.
    pub(super) async fn gone(&self) {
        // Without a time limit there is no error.
        self.0.wait(None).await.ok();
    }
}

/// A question to a job's pump: is all that was written in the log?
///
/// That a log has been quiet does not say so: on a busy host, bytes may lie in a pipe for longer
/// than that. A cheap clone, one with whoever asks and one with the pump.
#[derive(Debug, Clone, Default)]
pub(super) struct Probe(Arc<ProbeEnds>);

#[derive(Debug, Default)]
struct ProbeEnds {
    asked: Notify,
    /// To whoever asked last; others have gone.
    asker: Mutex<Option<oneshot::Sender<()>>>,
}

impl Probe {
    /// Returns once all that is in the pipes by now is in the log. A pump that has come to its end
    /// answers no more.
    pub(super) async fn all_is_read(&self) {
        let (asker, answered) = oneshot::channel();
        *self.asker() = Some(asker);
        self.0.asked.notify_one();
        // Nothing is sent: that it is dropped is the answer.
        answered.await.ok();
    }

    /// For the pump: returns when it was asked. To drop what it returns is the answer. Cancel-safe.
    pub(super) async fn next_request(&self) -> oneshot::Sender<()> {
        loop {
            self.0.asked.notified().await;
            if let Some(asker) = self.take_asker() {
                return asker;
            }
        }
    }

    /// Takes the pending request, if there is one, without waiting: [`Probe::next_request`] for a
    /// thread outside the runtime.
    pub(super) fn take_asker(&self) -> Option<oneshot::Sender<()>> {
        self.asker().take()
    }

    fn asker(&self) -> MutexGuard<'_, Option<oneshot::Sender<()>>> {
        self.0.asker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Where messages for a job's actor go: the one way to send it any.

use ractor::{ActorRef, ActorStatus, RpcReplyPort, call};

use super::actor::JobMsg;
use crate::telemetry::Actor;
use crate::telemetry::events::Letter;

/// The address of a job's actor. A cheap clone; it outlives the actor.
#[derive(Debug, Clone)]
pub(super) struct Address(ActorRef<Letter<JobMsg>>);

impl Address {
    pub(super) const fn of(actor: ActorRef<Letter<JobMsg>>) -> Self {
        Self(actor)
    }

    /// Sends a message. Where the actor is gone, there is nobody left to tell.
    pub(super) fn tell(&self, message: JobMsg) {
        self.0.cast(Letter::to(Actor::Job, message)).ok();
    }

    /// The reply to a message; nothing where the actor is gone or fails before it replies.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<T>) -> JobMsg,
    ) -> Option<T> {
        call!(self.0, |reply| Letter::to(Actor::Job, message(reply))).ok()
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

//! Actors: live actors, messages in mailboxes, and restarts of the supervisor.

use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::telemetry::labels::{ActorKind, key};
use crate::telemetry::names::actors;

/// The counts of one kind of actor. They become gauges at each scrape, so counting costs only an
/// addition.
#[derive(Debug)]
struct ActorCounts {
    alive: AtomicUsize,
    waiting: AtomicUsize,
}

static SUPERVISOR: ActorCounts = ActorCounts::new();
static JOB: ActorCounts = ActorCounts::new();

impl ActorCounts {
    const fn new() -> Self {
        Self { alive: AtomicUsize::new(0), waiting: AtomicUsize::new(0) }
    }

    const fn of_kind(actor: ActorKind) -> &'static Self {
        match actor {
            ActorKind::Supervisor => &SUPERVISOR,
            ActorKind::Job => &JOB,
        }
    }
}

/// Adds one to a count for as long as it exists.
#[derive(Debug)]
struct CountGuard(&'static AtomicUsize);

impl CountGuard {
    fn add_to(count: &'static AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A live actor. Dropping it counts the actor as gone, on every path.
#[derive(Debug)]
pub struct LiveActor {
    _alive: CountGuard,
}

/// An actor has started. Its state keeps the returned guard.
#[must_use = "dropping the guard counts the actor as gone"]
pub fn actor_started(actor: ActorKind) -> LiveActor {
    LiveActor { _alive: CountGuard::add_to(&ActorCounts::of_kind(actor).alive) }
}

/// A message to an actor that counts as waiting. The count ends when the actor takes the message out,
/// when the mailbox is dropped, or when the mailbox refuses the message.
#[derive(Debug)]
pub struct CountedMessage<M> {
    message: M,
    _waiting: CountGuard,
}

impl<M> CountedMessage<M> {
    /// Wraps a message to an actor of this kind.
    pub fn new(actor: ActorKind, message: M) -> Self {
        Self::counted_by(&ActorCounts::of_kind(actor).waiting, message)
    }

    fn counted_by(count: &'static AtomicUsize, message: M) -> Self {
        Self { message, _waiting: CountGuard::add_to(count) }
    }

    /// Returns the message, which no longer counts as waiting.
    pub fn into_inner(self) -> M {
        self.message
    }
}

/// An actor ended with an error or a panic.
pub fn actor_failed(actor: ActorKind, why: &dyn Display) {
    let why = why.to_string();
    tracing::error!(actor = actor.word(), ?why, "actor failed");
    actors::FAILURES.with_label((key::ACTOR, actor.word())).increment(1);
}

/// The supervisor failed and a new one has taken over.
pub fn supervisor_restarted() {
    tracing::error!("supervisor restarted; queued and running jobs are lost");
    actors::RESTARTS.with_label((key::ACTOR, ActorKind::Supervisor.word())).increment(1);
}

/// The supervisor failed too often and is not restarted again.
pub fn supervisor_abandoned() {
    tracing::error!("supervisor failed too often and is not restarted; the server shuts down");
}

/// Sets the gauges to the current counts, for a scrape.
pub(crate) fn update_actor_gauges() {
    for actor in ActorKind::ALL {
        let counts = ActorCounts::of_kind(actor);
        let label = (key::ACTOR, actor.word());
        let value = |count: &AtomicUsize| count.load(Ordering::Relaxed) as f64;
        actors::ALIVE.with_label(label).set(value(&counts.alive));
        actors::MAILBOX.with_label(label).set(value(&counts.waiting));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use proptest::prelude::*;

    use super::*;

    /// A step in the life of a message.
    #[derive(Debug, Clone, Copy)]
    enum MessageStep {
        Sent,
        Taken,
        MailboxDropped,
    }

    proptest! {
        #[test]
        fn the_count_of_waiting_messages_is_right_after_every_step(
            steps in prop::collection::vec(
                prop_oneof![
                    4 => Just(MessageStep::Sent),
                    3 => Just(MessageStep::Taken),
                    1 => Just(MessageStep::MailboxDropped),
                ],
                0..200,
            ),
        ) {
            // Each case has its own count, since other tests run at the same time.
            let counts: &'static ActorCounts = Box::leak(Box::new(ActorCounts::new()));
            let waiting = || counts.waiting.load(Ordering::Relaxed);
            let (mut sender, mut mailbox) = mpsc::channel();
            let mut is_gone = false;
            let mut expected = 0;
            for step in steps {
                match step {
                    MessageStep::Sent => {
                        let sent = sender.send(CountedMessage::counted_by(&counts.waiting, ()));
                        prop_assert_eq!(sent.is_err(), is_gone);
                        expected += usize::from(!is_gone);
                    }
                    MessageStep::Taken => {
                        if mailbox.try_recv().map(CountedMessage::into_inner).is_ok() {
                            expected -= 1;
                        }
                    }
                    MessageStep::MailboxDropped => {
                        mailbox = mpsc::channel().1;
                        is_gone = true;
                        expected = 0;
                    }
                }
                prop_assert_eq!(waiting(), expected);
            }
            sender = mpsc::channel().0;
            drop((sender, mailbox));
            prop_assert_eq!(waiting(), 0);
        }
    }
}

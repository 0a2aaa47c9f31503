//! Actors: how many are alive, what waits for them, and which was started again.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::telemetry::labels::{Actor, key};
use crate::telemetry::names::actors;

/// What there is of one class of actors. Shown at each scrape, so that to count costs an addition.
#[derive(Debug)]
struct Tally {
    alive: AtomicUsize,
    waiting: AtomicUsize,
}

static SUPERVISOR: Tally = Tally::new();
static JOB: Tally = Tally::new();

impl Tally {
    const fn new() -> Self {
        Self { alive: AtomicUsize::new(0), waiting: AtomicUsize::new(0) }
    }

    const fn of(actor: Actor) -> &'static Self {
        match actor {
            Actor::Supervisor => &SUPERVISOR,
            Actor::Job => &JOB,
        }
    }
}

/// One more in a count, for as long as it is there.
#[derive(Debug)]
struct Counted(&'static AtomicUsize);

impl Counted {
    fn by(count: &'static AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An actor that is alive. Dropping it counts the actor as gone, on every way out.
#[derive(Debug)]
pub struct LiveActor {
    _alive: Counted,
}

/// An actor of this class has begun; its state keeps what this gives.
#[must_use = "dropping the guard counts the actor as gone"]
pub fn actor_started(actor: Actor) -> LiveActor {
    LiveActor { _alive: Counted::by(&Tally::of(actor).alive) }
}

/// A message on its way to an actor. It counts as waiting until it is opened, or thrown away
/// with its mailbox, or was never taken by one.
#[derive(Debug)]
pub struct Letter<M> {
    message: M,
    _waiting: Counted,
}

impl<M> Letter<M> {
    /// A message to an actor of this class.
    pub fn to(actor: Actor, message: M) -> Self {
        Self::counted_by(&Tally::of(actor).waiting, message)
    }

    fn counted_by(count: &'static AtomicUsize, message: M) -> Self {
        Self { message, _waiting: Counted::by(count) }
    }

    /// The message, which no longer waits.
    pub fn open(self) -> M {
        self.message
    }
}

/// The supervisor failed, and a new one has taken over.
pub fn supervisor_restarted() {
    tracing::error!("the supervisor was started again; jobs that waited or ran are lost");
    actors::RESTARTS.with((key::ACTOR, Actor::Supervisor.word())).increment(1);
}

/// The supervisor fails too often; there will be no new one.
pub fn supervisor_given_up() {
    tracing::error!(
        "the supervisor fails again and again and is not started any more; the server ends"
    );
}

/// Sets the gauges to what there is now.
pub(crate) fn show_actors() {
    for actor in Actor::ALL {
        let (tally, label) = (Tally::of(actor), (key::ACTOR, actor.word()));
        let show = |count: &AtomicUsize| count.load(Ordering::Relaxed) as f64;
        actors::ALIVE.with(label).set(show(&tally.alive));
        actors::MAILBOX.with(label).set(show(&tally.waiting));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use proptest::prelude::*;

    use super::*;

    /// What can become of a letter.
    #[derive(Debug, Clone, Copy)]
    enum Fate {
        Sent,
        Opened,
        MailboxGone,
    }

    proptest! {
        #[test]
        fn what_waits_is_counted_whatever_becomes_of_it(
            fates in prop::collection::vec(
                prop_oneof![4 => Just(Fate::Sent), 3 => Just(Fate::Opened), 1 => Just(Fate::MailboxGone)],
                0..200,
            ),
        ) {
            // One count for each case: they run at the same time as other tests.
            let tally: &'static Tally = Box::leak(Box::new(Tally::new()));
            let waiting = || tally.waiting.load(Ordering::Relaxed);
            let (mut sender, mut mailbox) = mpsc::channel();
            let mut is_gone = false;
            let mut expected = 0;
            for fate in fates {
                match fate {
                    Fate::Sent => {
                        let sent = sender.send(Letter::counted_by(&tally.waiting, ()));
                        prop_assert_eq!(sent.is_err(), is_gone);
                        expected += usize::from(!is_gone);
                    }
                    Fate::Opened => {
                        if mailbox.try_recv().map(Letter::open).is_ok() {
                            expected -= 1;
                        }
                    }
                    Fate::MailboxGone => {
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

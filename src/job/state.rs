//! The life of a job as one pure function: `(state, event) → (state, effects)`.
//!
//! ```text
//! Starting ─▶ Running ─▶ Draining ─▶ Finished
//!                │          ▲
//!                ▼          │
//!             Stopping ─▶ Killing
//! ```
//! No I/O and no clock here: time enters as events, acts leave as effects. What the
//! actor does with them is in `actor.rs`.

use std::time::Duration;

use crate::outcome::{LimitKind, Outcome, SIGTERM, StartError, StopBy};

/// Where a job that has been admitted stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Admitted; no process yet.
    Starting,
    /// The leader lives.
    Running { streams: Streams },
    /// The tree was asked to end; the grace period runs.
    Stopping { cause: Outcome, streams: Streams, leader: Leader },
    /// SIGKILL is on its way to everything that is left.
    Killing { cause: Outcome, streams: Streams, leader: Leader },
    /// The leader is gone; its last bytes may still be in the pipes.
    Draining { outcome: Outcome, rest: Rest },
    /// The outcome is known and will not change. Survivors may hold the streams open.
    Finished { streams: Streams },
}

/// Whether the job's pipes can still bring bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streams {
    Open,
    Closed,
}

/// What is known of the leader while its tree is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leader {
    Alive,
    Reaped,
}

/// Whether anything of the tree outlived the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Nobody,
    Somebody,
}

/// What happened to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// The leader was spawned.
    Started,
    /// It could not be.
    FailedToStart(StartError),
    /// The leader was reaped; this is how it ended by itself.
    LeaderExited(Outcome, Rest),
    /// Both pipes reached their end.
    StreamsClosed,
    /// The deadline passed.
    DeadlinePassed(Duration),
    /// A bound on output, or on what it takes from the host, was passed.
    LimitHit(LimitKind),
    /// Somebody wants it to end.
    StopRequested { by: StopBy, signal: i32, grace: Duration },
    /// The time between the first signal and SIGKILL is over.
    GraceExpired,
    /// A look at the tree while it is ending, or while survivors linger.
    TreeChecked(Rest),
    /// SIGKILL was sent to everything and the result was verified.
    Killed(Rest),
    /// The wait for last bytes is over.
    DrainExpired,
}

/// What the actor has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// Send this signal to the tree and start the grace period.
    Terminate { signal: i32, grace: Grace },
    /// Look at the tree again.
    CheckTree(Pace),
    /// Send SIGKILL to everything and verify.
    Kill,
    /// Wait for last bytes.
    AwaitDrain(Rest),
    /// Tell the world.
    Finish(Outcome),
    /// Nothing of the job is left: the actor can go.
    Leave,
}

/// How soon to look at a tree again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// It is about to end.
    Soon,
    /// It may live for hours.
    Slow,
}

/// How long a tree gets to end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grace {
    /// As the job's limits say.
    Default,
    /// As the caller wished.
    Wished(Duration),
}

impl State {
    /// Applies one event. Events that no longer matter change nothing.
    pub(super) fn apply(self, event: Event) -> (Self, Vec<Effect>) {
        match self {
            Self::Starting => starting(event),
            Self::Running { streams } => running(streams, event),
            Self::Stopping { cause, streams, leader } => stopping(cause, streams, leader, event),
            Self::Killing { cause, streams, leader } => killing(cause, streams, leader, event),
            Self::Draining { outcome, rest } => draining(outcome, rest, event),
            Self::Finished { streams } => finished(streams, event),
        }
    }
}

fn starting(event: Event) -> (State, Vec<Effect>) {
    match event {
        Event::Started => (State::Running { streams: Streams::Open }, Vec::new()),
        Event::FailedToStart(why) => {
            finish(Streams::Closed, Rest::Nobody, Outcome::FailedToStart(why))
        }
        Event::StopRequested { by, .. } => {
            finish(Streams::Closed, Rest::Nobody, Outcome::Stopped { by })
        }
        Event::LeaderExited(..)
        | Event::StreamsClosed
        | Event::DeadlinePassed(_)
        | Event::LimitHit(_)
        | Event::GraceExpired
        | Event::TreeChecked(_)
        | Event::Killed(_)
        | Event::DrainExpired => (State::Starting, Vec::new()),
    }
}

fn running(streams: Streams, event: Event) -> (State, Vec<Effect>) {
    match event {
        Event::LeaderExited(outcome, rest) => drain(streams, rest, outcome),
        Event::StreamsClosed => (State::Running { streams: Streams::Closed }, Vec::new()),
        Event::DeadlinePassed(after) => {
            stop(streams, Outcome::TimedOut { after }, SIGTERM, Grace::Default)
        }
        Event::LimitHit(which) if is_urgent(which) => {
            let (cause, leader) = (Outcome::Limit { which }, Leader::Alive);
            (State::Killing { cause, streams, leader }, vec![Effect::Kill])
        }
        Event::LimitHit(which) => stop(streams, Outcome::Limit { which }, SIGTERM, Grace::Default),
        Event::StopRequested { by, signal, grace } => {
            stop(streams, Outcome::Stopped { by }, signal, Grace::Wished(grace))
        }
        Event::Started
        | Event::FailedToStart(_)
        | Event::GraceExpired
        | Event::TreeChecked(_)
        | Event::Killed(_)
        | Event::DrainExpired => (State::Running { streams }, Vec::new()),
    }
}

fn stopping(
    cause: Outcome,
    streams: Streams,
    leader: Leader,
    event: Event,
) -> (State, Vec<Effect>) {
    match event {
        Event::LeaderExited(_, Rest::Nobody) => drain(streams, Rest::Nobody, cause),
        // The leader obeyed. Its descendants get the rest of the grace period.
        Event::LeaderExited(_, Rest::Somebody) => (
            State::Stopping { cause, streams, leader: Leader::Reaped },
            vec![Effect::CheckTree(Pace::Soon)],
        ),
        Event::TreeChecked(Rest::Somebody) if leader == Leader::Reaped => {
            (State::Stopping { cause, streams, leader }, vec![Effect::CheckTree(Pace::Soon)])
        }
        Event::TreeChecked(Rest::Nobody) if leader == Leader::Reaped => {
            drain(streams, Rest::Nobody, cause)
        }
        Event::GraceExpired => (State::Killing { cause, streams, leader }, vec![Effect::Kill]),
        // No grace for what harms others meanwhile.
        Event::LimitHit(which) if is_urgent(which) => {
            (State::Killing { cause, streams, leader }, vec![Effect::Kill])
        }
        // A second wish may be harder than the first: its signal goes out, its grace counts.
        Event::StopRequested { signal, grace, .. } => {
            let again = Effect::Terminate { signal, grace: Grace::Wished(grace) };
            (State::Stopping { cause, streams, leader }, vec![again])
        }
        Event::StreamsClosed => {
            (State::Stopping { cause, streams: Streams::Closed, leader }, Vec::new())
        }
        Event::Started
        | Event::FailedToStart(_)
        | Event::DeadlinePassed(_)
        | Event::LimitHit(_)
        | Event::TreeChecked(_)
        | Event::Killed(_)
        | Event::DrainExpired => (State::Stopping { cause, streams, leader }, Vec::new()),
    }
}

fn killing(cause: Outcome, streams: Streams, leader: Leader, event: Event) -> (State, Vec<Effect>) {
    match event {
        // What even SIGKILL did not end is named in the ending; there is nothing to wait for.
        Event::Killed(Rest::Somebody) => finish(streams, Rest::Somebody, cause),
        Event::Killed(Rest::Nobody) if leader == Leader::Reaped => {
            drain(streams, Rest::Nobody, cause)
        }
        // Everything is dead, but what the leader used is not known yet.
        Event::Killed(Rest::Nobody) => (State::Stopping { cause, streams, leader }, Vec::new()),
        Event::LeaderExited(..) => {
            (State::Killing { cause, streams, leader: Leader::Reaped }, Vec::new())
        }
        Event::StreamsClosed => {
            (State::Killing { cause, streams: Streams::Closed, leader }, Vec::new())
        }
        Event::Started
        | Event::FailedToStart(_)
        | Event::DeadlinePassed(_)
        | Event::LimitHit(_)
        | Event::StopRequested { .. }
        | Event::GraceExpired
        | Event::TreeChecked(_)
        | Event::DrainExpired => (State::Killing { cause, streams, leader }, Vec::new()),
    }
}

fn draining(outcome: Outcome, rest: Rest, event: Event) -> (State, Vec<Effect>) {
    match event {
        Event::StreamsClosed => finish(Streams::Closed, rest, outcome),
        Event::DrainExpired => finish(Streams::Open, rest, outcome),
        // The leader ended by itself; only what it left behind is to be ended.
        Event::StopRequested { .. } => (State::Draining { outcome, rest }, vec![Effect::Kill]),
        Event::LimitHit(which) if !which.is_of_output() => {
            (State::Draining { outcome, rest }, vec![Effect::Kill])
        }
        // It had written that before it ended by itself, of which we heard first.
        Event::LimitHit(which) if rest == Rest::Nobody && ended_by_itself(&outcome) => {
            (State::Draining { outcome: Outcome::Limit { which }, rest }, Vec::new())
        }
        Event::Killed(rest) => (State::Draining { outcome, rest }, Vec::new()),
        Event::Started
        | Event::FailedToStart(_)
        | Event::LeaderExited(..)
        | Event::DeadlinePassed(_)
        | Event::LimitHit(_)
        | Event::GraceExpired
        | Event::TreeChecked(_) => (State::Draining { outcome, rest }, Vec::new()),
    }
}

const fn ended_by_itself(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Exited { .. } | Outcome::Signaled { .. })
}

/// The outcome stands; what is left is to follow the survivors until the last one is gone.
fn finished(streams: Streams, event: Event) -> (State, Vec<Effect>) {
    let (streams, effects) = match event {
        Event::StreamsClosed => (Streams::Closed, vec![Effect::CheckTree(Pace::Soon)]),
        Event::TreeChecked(Rest::Nobody) | Event::Killed(Rest::Nobody)
            if streams == Streams::Closed =>
        {
            (streams, vec![Effect::Leave])
        }
        Event::TreeChecked(_) => (streams, vec![Effect::CheckTree(Pace::Slow)]),
        Event::StopRequested { .. } => (streams, vec![Effect::Kill]),
        Event::LimitHit(which) if !which.is_of_output() => (streams, vec![Effect::Kill]),
        Event::Started
        | Event::FailedToStart(_)
        | Event::LeaderExited(..)
        | Event::DeadlinePassed(_)
        | Event::LimitHit(_)
        | Event::GraceExpired
        | Event::Killed(_)
        | Event::DrainExpired => (streams, Vec::new()),
    };
    (State::Finished { streams }, effects)
}

/// Whether a job that passed this bound gets no time to end by itself: it would go on to take from
/// the host what others need.
pub(super) const fn is_urgent(which: LimitKind) -> bool {
    match which {
        LimitKind::Memory { .. } | LimitKind::Processes(_) => true,
        LimitKind::Cpu(_)
        | LimitKind::FileSize(_)
        | LimitKind::OutputBytes(_)
        | LimitKind::OutputLines(_)
        | LimitKind::LargeOutput(_) => false,
    }
}

fn stop(streams: Streams, cause: Outcome, signal: i32, grace: Grace) -> (State, Vec<Effect>) {
    let state = State::Stopping { cause, streams, leader: Leader::Alive };
    (state, vec![Effect::Terminate { signal, grace }])
}

fn drain(streams: Streams, rest: Rest, outcome: Outcome) -> (State, Vec<Effect>) {
    match streams {
        Streams::Closed => finish(streams, rest, outcome),
        Streams::Open => (State::Draining { outcome, rest }, vec![Effect::AwaitDrain(rest)]),
    }
}

fn finish(streams: Streams, rest: Rest, outcome: Outcome) -> (State, Vec<Effect>) {
    let next = match (streams, rest) {
        (Streams::Closed, Rest::Nobody) => Effect::Leave,
        (Streams::Closed, Rest::Somebody) | (Streams::Open, _) => Effect::CheckTree(Pace::Slow),
    };
    (State::Finished { streams }, vec![Effect::Finish(outcome), next])
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;

//! The life of a job as one pure function: `(state, event) → (state, effects)`.
//!
//! ```text
//! Starting ─▶ Running ─▶ Draining ─▶ Finished
//!                │          ▲
//!                ▼          │
//!             Stopping ─▶ Killing
//! ```
//!
//! No I/O and no clock here: time enters as events, actions leave as effects. `actor.rs` carries
//! them out.

use std::time::Duration;

use crate::outcome::{LimitKind, Outcome, SIGKILL, SIGTERM, SIGXCPU, SIGXFSZ, StartError, StopBy};
use crate::process::ExitKind;
use crate::spec::{JobProgram, JobSpec};

/// The state of a job that has left the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Admitted; no process yet.
    Starting,
    Running {
        streams: Streams,
    },
    /// The tree was asked to end; the grace period runs.
    Stopping {
        cause: Outcome,
        streams: Streams,
        leader: Leader,
    },
    /// SIGKILL is on its way to everything that is left.
    Killing {
        cause: Outcome,
        streams: Streams,
        leader: Leader,
    },
    /// The leader is gone; its last bytes may still be in the pipes.
    Draining {
        outcome: Outcome,
        rest: TreeRemains,
    },
    /// The outcome is known and will not change. Survivors may hold the streams open.
    Finished {
        streams: Streams,
    },
}

/// The state of the job's output pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streams {
    Open,
    Closed,
}

/// The state of the leader while its tree is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leader {
    Alive,
    /// SIGKILL was sent, and no process was found alive.
    Killed,
    /// Reaped while others were alive. The kill that is under way may have missed them.
    ReapedBesideOthers,
    Reaped,
}

/// The processes of the tree that outlived the leader: some or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeRemains {
    Nobody,
    Somebody,
}

impl TreeRemains {
    pub(super) const fn from_pids(alive: &[u32]) -> Self {
        if alive.is_empty() { Self::Nobody } else { Self::Somebody }
    }
}

/// An event in the life of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// The leader was spawned.
    Started,
    FailedToStart(StartError),
    /// The leader was reaped; this is how it ended by itself.
    LeaderExited(Outcome, TreeRemains),
    /// All pipes reached their end.
    StreamsClosed,
    DeadlinePassed(Duration),
    /// A limit on output or on resources of the host was exceeded.
    LimitHit(LimitKind),
    /// A caller or the server asks to end the job.
    StopRequested {
        by: StopBy,
        signal: i32,
        grace: Duration,
    },
    /// The time between the first signal and SIGKILL is over.
    GraceExpired,
    /// The result of a check of the tree while it is ending, or while survivors remain.
    TreeChecked(TreeRemains),
    /// SIGKILL was sent to everything and the result was verified.
    Killed(TreeRemains),
    /// The wait for last bytes is over.
    DrainExpired,
}

/// An action that the actor has to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// Send this signal to the tree and start the grace period.
    Terminate {
        signal: i32,
        grace: Grace,
    },
    /// Look at the tree again.
    CheckTree(Pace),
    /// Send SIGKILL to everything and verify.
    Kill,
    AwaitDrain(TreeRemains),
    Finish(Outcome),
    /// No process of the job is left: the actor can end.
    Leave,
}

/// The delay before the tree is checked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Soon,
    /// The survivors may live for hours.
    Slow,
}

/// The time that a tree gets to end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grace {
    /// The grace period of the job's limits.
    Default,
    /// The time that the caller asked for.
    Requested(Duration),
}

impl State {
    /// Applies one event. Events that no longer matter change nothing.
    pub(super) fn apply(self, event: Event) -> (Self, Vec<Effect>) {
        match self {
            Self::Starting => apply_while_starting(event),
            Self::Running { streams } => apply_while_running(streams, event),
            Self::Stopping { cause, streams, leader } => {
                apply_while_stopping(cause, streams, leader, event)
            }
            Self::Killing { cause, streams, leader } => {
                apply_while_killing(cause, streams, leader, event)
            }
            Self::Draining { outcome, rest } => apply_while_draining(outcome, rest, event),
            Self::Finished { streams } => apply_when_finished(streams, event),
        }
    }
}

fn apply_while_starting(event: Event) -> (State, Vec<Effect>) {
    match event {
        Event::Started => (State::Running { streams: Streams::Open }, Vec::new()),
        Event::FailedToStart(why) => {
            finish(Streams::Closed, TreeRemains::Nobody, Outcome::FailedToStart(why))
        }
        Event::StopRequested { by, .. } => {
            finish(Streams::Closed, TreeRemains::Nobody, Outcome::Stopped { by })
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

fn apply_while_running(streams: Streams, event: Event) -> (State, Vec<Effect>) {
    match event {
        Event::LeaderExited(outcome, rest) => drain(streams, rest, outcome),
        Event::StreamsClosed => (State::Running { streams: Streams::Closed }, Vec::new()),
        Event::DeadlinePassed(after) => {
            stop(streams, Outcome::TimedOut { after }, SIGTERM, Grace::Default)
        }
        Event::LimitHit(which) if is_urgent(which) => {
            let cause = Outcome::Limit { which };
            let leader = Leader::Alive;
            (State::Killing { cause, streams, leader }, vec![Effect::Kill])
        }
        Event::LimitHit(which) => stop(streams, Outcome::Limit { which }, SIGTERM, Grace::Default),
        Event::StopRequested { by, signal, grace } => {
            stop(streams, Outcome::Stopped { by }, signal, Grace::Requested(grace))
        }
        Event::Started
        | Event::FailedToStart(_)
        | Event::GraceExpired
        | Event::TreeChecked(_)
        | Event::Killed(_)
        | Event::DrainExpired => (State::Running { streams }, Vec::new()),
    }
}

fn apply_while_stopping(
    cause: Outcome,
    streams: Streams,
    leader: Leader,
    event: Event,
) -> (State, Vec<Effect>) {
    match event {
        Event::LeaderExited(_, TreeRemains::Nobody) => drain(streams, TreeRemains::Nobody, cause),
        // The kill has missed them, and there is no grace period whose end would kill them.
        Event::LeaderExited(_, TreeRemains::Somebody) if leader == Leader::Killed => {
            (State::Killing { cause, streams, leader: Leader::Reaped }, vec![Effect::Kill])
        }
        // The leader obeyed. Its descendants get the rest of the grace period.
        Event::LeaderExited(_, TreeRemains::Somebody) => (
            State::Stopping { cause, streams, leader: Leader::Reaped },
            vec![Effect::CheckTree(Pace::Soon)],
        ),
        Event::TreeChecked(TreeRemains::Somebody) if leader == Leader::Reaped => {
            (State::Stopping { cause, streams, leader }, vec![Effect::CheckTree(Pace::Soon)])
        }
        Event::TreeChecked(TreeRemains::Nobody) if leader == Leader::Reaped => {
            drain(streams, TreeRemains::Nobody, cause)
        }
        Event::GraceExpired => (State::Killing { cause, streams, leader }, vec![Effect::Kill]),
        // A job that harms others meanwhile gets no grace period.
        Event::LimitHit(which) if is_urgent(which) => {
            (State::Killing { cause, streams, leader }, vec![Effect::Kill])
        }
        // A second request may be stricter than the first: its signal is sent and its grace period
        // counts.
        Event::StopRequested { signal, grace, .. } => {
            let again = Effect::Terminate { signal, grace: Grace::Requested(grace) };
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

fn apply_while_killing(
    cause: Outcome,
    streams: Streams,
    leader: Leader,
    event: Event,
) -> (State, Vec<Effect>) {
    match event {
        // Processes that survive SIGKILL are named in the ending; there is nothing to wait for.
        Event::Killed(TreeRemains::Somebody) => finish(streams, TreeRemains::Somebody, cause),
        Event::Killed(TreeRemains::Nobody) if leader == Leader::Reaped => {
            drain(streams, TreeRemains::Nobody, cause)
        }
        Event::Killed(TreeRemains::Nobody) if leader == Leader::ReapedBesideOthers => {
            (State::Killing { cause, streams, leader: Leader::Reaped }, vec![Effect::Kill])
        }
        // All processes are dead, but the leader's resource use is not known yet.
        Event::Killed(TreeRemains::Nobody) => {
            (State::Stopping { cause, streams, leader: Leader::Killed }, Vec::new())
        }
        Event::LeaderExited(_, rest) => {
            let leader = match rest {
                TreeRemains::Nobody => Leader::Reaped,
                TreeRemains::Somebody => Leader::ReapedBesideOthers,
            };
            (State::Killing { cause, streams, leader }, Vec::new())
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

fn apply_while_draining(outcome: Outcome, rest: TreeRemains, event: Event) -> (State, Vec<Effect>) {
    match event {
        Event::StreamsClosed => finish(Streams::Closed, rest, outcome),
        Event::DrainExpired => finish(Streams::Open, rest, outcome),
        // The leader is gone and the outcome stands; only the survivors are killed.
        Event::StopRequested { .. } => (State::Draining { outcome, rest }, vec![Effect::Kill]),
        Event::LimitHit(which) if !which.is_output_limit() => {
            (State::Draining { outcome, rest }, vec![Effect::Kill])
        }
        // The job exceeded the limit before it ended by itself, but the end was reported first.
        Event::LimitHit(which) if rest == TreeRemains::Nobody && has_ended_by_itself(&outcome) => {
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

const fn has_ended_by_itself(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Exited { .. } | Outcome::Signaled { .. })
}

/// Handles events of a finished job: its outcome is fixed, and its survivors are followed until the
/// last one ends.
fn apply_when_finished(streams: Streams, event: Event) -> (State, Vec<Effect>) {
    let (streams, effects) = match event {
        Event::StreamsClosed => (Streams::Closed, vec![Effect::CheckTree(Pace::Soon)]),
        Event::TreeChecked(TreeRemains::Nobody) | Event::Killed(TreeRemains::Nobody)
            if streams == Streams::Closed =>
        {
            (streams, vec![Effect::Leave])
        }
        Event::TreeChecked(_) => (streams, vec![Effect::CheckTree(Pace::Slow)]),
        Event::StopRequested { .. } => (streams, vec![Effect::Kill]),
        Event::LimitHit(which) if !which.is_output_limit() => (streams, vec![Effect::Kill]),
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

/// `true` if a job that exceeded this limit gets no time to end by itself: it would go on to take
/// from the host what others need.
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

fn drain(streams: Streams, rest: TreeRemains, outcome: Outcome) -> (State, Vec<Effect>) {
    match streams {
        Streams::Closed => finish(streams, rest, outcome),
        Streams::Open => (State::Draining { outcome, rest }, vec![Effect::AwaitDrain(rest)]),
    }
}

fn finish(streams: Streams, rest: TreeRemains, outcome: Outcome) -> (State, Vec<Effect>) {
    let next = match (streams, rest) {
        (Streams::Closed, TreeRemains::Nobody) => Effect::Leave,
        (Streams::Closed, TreeRemains::Somebody) | (Streams::Open, _) => {
            Effect::CheckTree(Pace::Slow)
        }
    };
    (State::Finished { streams }, vec![Effect::Finish(outcome), next])
}

// The outcome that follows from the exit of a leader. Pure.

/// The number that a shell adds to the signal that ended its last command.
const BY_SIGNAL: i32 = 128;

/// Returns the outcome for the end of a leader: the limit for which the kernel ended it, if it did.
/// The arguments are the job's peak memory, if it was ended for lack of memory, and whether the
/// kernel refused it a process: a job that fails after that failed because of it.
pub(super) fn decide_outcome(
    exit: ExitKind,
    spec: &JobSpec,
    out_of_memory: Option<u64>,
    was_refused_tasks: bool,
) -> Outcome {
    let is_refused = was_refused_tasks && exit != ExitKind::Code(0);
    let processes = spec.resources.processes.filter(|_| is_refused).map(LimitKind::Processes);
    match limit(exit, spec, out_of_memory).or(processes) {
        Some(which) => Outcome::Limit { which },
        None => match exit {
            ExitKind::Code(code) => Outcome::Exited { code },
            ExitKind::Signal { signal, core } => Outcome::Signaled { signal, core },
        },
    }
}

/// `true` if the survivors alone reach the job's limit on processes: together with the leader they
/// exceeded it. Not every kernel limit reports that it refused a process.
pub(super) fn survivors_reach_limit(spec: &JobSpec, survivors: &[u32]) -> bool {
    spec.resources.processes.is_some_and(|limit| survivors.len() as u64 >= limit)
}

fn limit(exit: ExitKind, spec: &JobSpec, out_of_memory: Option<u64>) -> Option<LimitKind> {
    let limits = &spec.resources;
    match signal(exit, &spec.program)? {
        SIGKILL => {
            let peak = out_of_memory?;
            limits.memory.map(|limit| LimitKind::Memory { limit, peak })
        }
        SIGXCPU => limits.cpu.map(LimitKind::Cpu),
        SIGXFSZ => limits.file_size.map(LimitKind::FileSize),
        _ => None,
    }
}

/// Returns the signal that ended the leader or, if that is a shell, its last command.
fn signal(exit: ExitKind, program: &JobProgram) -> Option<i32> {
    match (exit, program) {
        (ExitKind::Signal { signal, .. }, _) => Some(signal),
        (ExitKind::Code(code), JobProgram::Shell(_)) => Some(code - BY_SIGNAL),
        (ExitKind::Code(_), JobProgram::Direct { .. }) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OK: Outcome = Outcome::Exited { code: 0 };
    const BY_CLIENT: Outcome = Outcome::Stopped { by: StopBy::Client };
    const TIMEOUT: Duration = Duration::from_secs(300);
    const GRACE: Duration = Duration::from_secs(5);
    const TERM: Effect = Effect::Terminate { signal: SIGTERM, grace: Grace::Default };
    const REQUESTED: Effect = Effect::Terminate { signal: SIGTERM, grace: Grace::Requested(GRACE) };

    fn stop_requested() -> Event {
        Event::StopRequested { by: StopBy::Client, signal: SIGTERM, grace: GRACE }
    }

    fn exited(rest: TreeRemains) -> Event {
        Event::LeaderExited(OK, rest)
    }

    fn play(events: &[Event]) -> (State, Vec<Effect>) {
        let mut state = State::Starting;
        let mut effects = Vec::new();
        for event in events {
            let (next, more) = state.apply(event.clone());
            state = next;
            effects.extend(more);
        }
        (state, effects)
    }

    /// Returns the effects of a started job after these events; the start itself has none.
    #[track_caller]
    fn check(events: &[Event], expected: &[Effect]) {
        let all: Vec<Event> =
            std::iter::once(Event::Started).chain(events.iter().cloned()).collect();
        assert_eq!(play(&all).1, *expected, "after {events:?}");
    }

    #[test]
    fn a_plain_command_finishes_once_the_leader_and_the_pipes_are_done() {
        use Effect::{AwaitDrain, Finish, Leave};
        check(
            &[exited(TreeRemains::Nobody), Event::StreamsClosed],
            &[AwaitDrain(TreeRemains::Nobody), Finish(OK), Leave],
        );
        check(&[Event::StreamsClosed, exited(TreeRemains::Nobody)], &[Finish(OK), Leave]);
    }

    #[test]
    fn a_grandchild_that_keeps_the_pipe_cannot_hang_the_job() {
        check(
            &[exited(TreeRemains::Somebody), Event::DrainExpired],
            &[
                Effect::AwaitDrain(TreeRemains::Somebody),
                Effect::Finish(OK),
                Effect::CheckTree(Pace::Slow),
            ],
        );
    }

    #[test]
    fn survivors_are_followed_until_they_and_their_bytes_are_gone() {
        check(
            &[
                exited(TreeRemains::Somebody),
                Event::DrainExpired,
                Event::TreeChecked(TreeRemains::Somebody),
                Event::StreamsClosed,
                Event::TreeChecked(TreeRemains::Nobody),
            ],
            &[
                Effect::AwaitDrain(TreeRemains::Somebody),
                Effect::Finish(OK),
                Effect::CheckTree(Pace::Slow),
                Effect::CheckTree(Pace::Slow),
                Effect::CheckTree(Pace::Soon),
                Effect::Leave,
            ],
        );
    }

    #[test]
    fn a_stop_after_the_end_kills_what_survived_and_keeps_the_outcome() {
        check(
            &[
                exited(TreeRemains::Somebody),
                Event::DrainExpired,
                stop_requested(),
                Event::StreamsClosed,
            ],
            &[
                Effect::AwaitDrain(TreeRemains::Somebody),
                Effect::Finish(OK),
                Effect::CheckTree(Pace::Slow),
                Effect::Kill,
                Effect::CheckTree(Pace::Soon),
            ],
        );
    }

    #[test]
    fn a_deadline_terminates_then_kills_and_reads_as_timed_out() {
        let outcome = Outcome::TimedOut { after: TIMEOUT };
        check(
            &[
                Event::DeadlinePassed(TIMEOUT),
                Event::GraceExpired,
                exited(TreeRemains::Nobody),
                Event::StreamsClosed,
                Event::Killed(TreeRemains::Nobody),
            ],
            &[TERM, Effect::Kill, Effect::Finish(outcome), Effect::Leave],
        );
    }

    #[test]
    fn a_leader_that_obeys_the_first_signal_ends_the_job_without_a_kill() {
        check(
            &[stop_requested(), exited(TreeRemains::Nobody), Event::StreamsClosed],
            &[
                REQUESTED,
                Effect::AwaitDrain(TreeRemains::Nobody),
                Effect::Finish(BY_CLIENT),
                Effect::Leave,
            ],
        );
    }

    #[test]
    fn descendants_get_the_rest_of_the_grace_period_and_no_more() {
        let soon = Effect::CheckTree(Pace::Soon);
        check(
            &[
                stop_requested(),
                exited(TreeRemains::Somebody),
                Event::TreeChecked(TreeRemains::Somebody),
                Event::GraceExpired,
                Event::StreamsClosed,
                Event::Killed(TreeRemains::Nobody),
            ],
            &[
                REQUESTED,
                soon.clone(),
                soon,
                Effect::Kill,
                Effect::Finish(BY_CLIENT),
                Effect::Leave,
            ],
        );
    }

    #[test]
    fn what_even_a_kill_does_not_end_is_reported_instead_of_waited_for() {
        check(
            &[stop_requested(), Event::GraceExpired, Event::Killed(TreeRemains::Somebody)],
            &[REQUESTED, Effect::Kill, Effect::Finish(BY_CLIENT), Effect::CheckTree(Pace::Slow)],
        );
    }

    #[test]
    fn a_kill_that_is_verified_before_the_leader_is_reaped_still_waits_for_it() {
        check(
            &[
                stop_requested(),
                Event::GraceExpired,
                Event::Killed(TreeRemains::Nobody),
                exited(TreeRemains::Nobody),
                Event::StreamsClosed,
            ],
            &[
                REQUESTED,
                Effect::Kill,
                Effect::AwaitDrain(TreeRemains::Nobody),
                Effect::Finish(BY_CLIENT),
                Effect::Leave,
            ],
        );
    }

    #[test]
    fn what_a_kill_has_missed_is_killed_when_the_leader_is_reaped() {
        let limit = Event::LimitHit(MEMORY);
        let by_limit = Outcome::Limit { which: MEMORY };
        for (before, first, outcome) in [
            (vec![stop_requested(), Event::GraceExpired], vec![REQUESTED], BY_CLIENT),
            (vec![limit], Vec::new(), by_limit),
        ] {
            let killed = Event::Killed(TreeRemains::Nobody);
            let exited = exited(TreeRemains::Somebody);
            for (rest, order) in [
                (TreeRemains::Nobody, [&killed, &exited]),
                (TreeRemains::Nobody, [&exited, &killed]),
                (TreeRemains::Somebody, [&killed, &exited]),
                (TreeRemains::Somebody, [&exited, &killed]),
            ] {
                let last = [Event::StreamsClosed, Event::Killed(rest)];
                let after = [order.map(Event::clone), last].concat();
                let next = match rest {
                    TreeRemains::Nobody => Effect::Leave,
                    TreeRemains::Somebody => Effect::CheckTree(Pace::Slow),
                };
                let finish = Effect::Finish(outcome.clone());
                let expected = [first.clone(), vec![Effect::Kill, Effect::Kill, finish, next]];
                check(&[before.clone(), after].concat(), &expected.concat());
            }
        }
    }

    #[test]
    fn a_job_that_never_started_leaves_nothing_behind() {
        let why = StartError::NotFound { program: "nope".to_owned() };
        let (_, effects) = play(&[Event::FailedToStart(why.clone())]);
        assert_eq!(effects, [Effect::Finish(Outcome::FailedToStart(why)), Effect::Leave]);
    }

    const MEMORY: LimitKind = LimitKind::Memory { limit: 5, peak: 6 };
    const CPU: LimitKind = LimitKind::Cpu(TIMEOUT);

    #[test]
    fn too_much_memory_and_too_many_processes_end_a_job_without_grace() {
        for which in [MEMORY, LimitKind::Processes(7)] {
            let events = [
                Event::LimitHit(which),
                exited(TreeRemains::Nobody),
                Event::StreamsClosed,
                Event::Killed(TreeRemains::Nobody),
            ];
            check(
                &events,
                &[Effect::Kill, Effect::Finish(Outcome::Limit { which }), Effect::Leave],
            );
        }
    }

    #[test]
    fn used_up_cpu_time_ends_a_job_as_its_deadline_does() {
        let finish = Effect::Finish(Outcome::Limit { which: CPU });
        check(
            &[Event::LimitHit(CPU), exited(TreeRemains::Nobody), Event::StreamsClosed],
            &[TERM, Effect::AwaitDrain(TreeRemains::Nobody), finish, Effect::Leave],
        );
    }

    #[test]
    fn a_job_that_is_ending_keeps_its_reason_and_loses_its_grace() {
        check(
            &[
                stop_requested(),
                Event::LimitHit(CPU),
                Event::LimitHit(MEMORY),
                exited(TreeRemains::Nobody),
                Event::StreamsClosed,
                Event::Killed(TreeRemains::Nobody),
            ],
            &[REQUESTED, Effect::Kill, Effect::Finish(BY_CLIENT), Effect::Leave],
        );
    }

    #[test]
    fn survivors_that_pass_a_limit_are_killed_and_what_they_write_is_no_reason() {
        for which in [MEMORY, CPU] {
            check(
                &[
                    exited(TreeRemains::Somebody),
                    Event::LimitHit(which),
                    Event::DrainExpired,
                    Event::LimitHit(LimitKind::OutputBytes(1)),
                    Event::LimitHit(which),
                ],
                &[
                    Effect::AwaitDrain(TreeRemains::Somebody),
                    Effect::Kill,
                    Effect::Finish(OK),
                    Effect::CheckTree(Pace::Slow),
                    Effect::Kill,
                ],
            );
        }
    }

    #[test]
    fn a_bound_on_output_that_is_passed_counts_also_when_the_end_is_heard_of_first() {
        let which = LimitKind::OutputBytes(1);
        for (first, outcome) in
            [(None, Outcome::Limit { which }), (Some(stop_requested()), BY_CLIENT)]
        {
            let rest = [exited(TreeRemains::Nobody), Event::LimitHit(which), Event::StreamsClosed];
            let all: Vec<Event> = [Event::Started].into_iter().chain(first).chain(rest).collect();
            let (_, effects) = play(&all);
            assert_eq!(outcomes(&effects), [&outcome]);
        }
    }

    fn any_rest() -> impl Strategy<Value = TreeRemains> {
        prop_oneof![Just(TreeRemains::Nobody), Just(TreeRemains::Somebody)]
    }

    fn any_event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Started),
            any_rest().prop_map(exited),
            Just(Event::StreamsClosed),
            Just(Event::DeadlinePassed(TIMEOUT)),
            Just(Event::LimitHit(LimitKind::OutputBytes(1))),
            Just(Event::LimitHit(MEMORY)),
            Just(Event::LimitHit(CPU)),
            Just(stop_requested()),
            Just(Event::GraceExpired),
            any_rest().prop_map(Event::TreeChecked),
            any_rest().prop_map(Event::Killed),
            Just(Event::DrainExpired),
        ]
    }

    fn outcomes(effects: &[Effect]) -> Vec<&Outcome> {
        let mut told = Vec::new();
        for effect in effects {
            if let Effect::Finish(outcome) = effect {
                told.push(outcome);
            }
        }
        told
    }

    proptest! {
        #[test]
        fn every_history_has_at_most_one_outcome(events in prop::collection::vec(any_event(), 0..40)) {
            prop_assert!(outcomes(&play(&events).1).len() <= 1);
        }

        #[test]
        fn a_job_that_was_told_to_end_never_reads_as_exited(
            before in prop::collection::vec(any_event(), 0..10),
            after in prop::collection::vec(any_event(), 0..30),
        ) {
            let started: Vec<Event> = std::iter::once(Event::Started).chain(before).collect();
            let told = matches!(play(&started).0, State::Running { .. });
            let all: Vec<Event> = started.into_iter().chain([stop_requested()]).chain(after).collect();
            let (_, effects) = play(&all);
            prop_assert!(!told || outcomes(&effects).iter().all(|outcome| **outcome != OK));
        }

        #[test]
        fn whatever_happened_a_dead_tree_and_closed_pipes_end_the_job(
            events in prop::collection::vec(any_event(), 0..40),
        ) {
            let ending = [
                Event::Started, stop_requested(), Event::GraceExpired, exited(TreeRemains::Nobody),
                Event::StreamsClosed, Event::Killed(TreeRemains::Nobody), exited(TreeRemains::Nobody),
                Event::TreeChecked(TreeRemains::Nobody),
            ];
            let all: Vec<Event> = events.into_iter().chain(ending).collect();
            let (state, effects) = play(&all);
            prop_assert!(matches!(state, State::Finished { .. }), "{state:?}");
            prop_assert!(effects.contains(&Effect::Leave), "{effects:?}");
        }

        #[test]
        fn a_job_never_waits_for_processes_that_nothing_will_kill(
            events in prop::collection::vec(any_event(), 0..40),
        ) {
            let mut state = State::Starting;
            let mut is_timed = false;
            for event in events {
                is_timed &= event != Event::GraceExpired;
                let (next, effects) = state.apply(event);
                state = next;
                is_timed |= effects.iter().any(|it| matches!(it, Effect::Terminate { .. }));
                let waits = matches!(state, State::Stopping { leader: Leader::Reaped, .. });
                prop_assert!(!waits || is_timed);
            }
        }

        #[test]
        fn the_actor_leaves_only_after_the_outcome_was_told(
            events in prop::collection::vec(any_event(), 0..40),
        ) {
            let (_, effects) = play(&events);
            let leave = effects.iter().position(|effect| *effect == Effect::Leave);
            let told = effects.iter().position(|effect| matches!(effect, Effect::Finish(_)));
            prop_assert!(leave.is_none_or(|leave| told.is_some_and(|told| told < leave)));
        }
    }
}

#[cfg(test)]
mod exit_tests {
    use std::time::Duration;

    use super::super::tests::spec;
    use super::*;
    use crate::confinement::ResourceLimits;

    const LIMITS: ResourceLimits = ResourceLimits {
        memory: Some(100),
        cpu: Some(Duration::from_secs(3)),
        file_size: Some(50),
        ..ResourceLimits::NONE
    };

    const fn by(signal: i32) -> ExitKind {
        ExitKind::Signal { signal, core: false }
    }

    fn limited(exit: ExitKind, out_of_memory: Option<u64>) -> Outcome {
        decide_outcome(exit, &JobSpec { resources: LIMITS, ..spec("true") }, out_of_memory, false)
    }

    #[test]
    fn a_failure_after_a_refused_process_reads_as_the_limit() {
        let resources = ResourceLimits { processes: Some(7), ..LIMITS };
        let refused =
            |exit| decide_outcome(exit, &JobSpec { resources, ..spec("true") }, None, true);
        let limit = Outcome::Limit { which: LimitKind::Processes(7) };
        assert_eq!([refused(ExitKind::Code(2)), refused(by(SIGKILL))], [limit.clone(), limit]);
        assert_eq!(refused(ExitKind::Code(0)), Outcome::Exited { code: 0 }, "it coped");
    }

    #[test]
    fn as_many_survivors_as_the_limit_tell_of_a_refused_process() {
        let resources = ResourceLimits { processes: Some(2), ..LIMITS };
        let spec = JobSpec { resources, ..spec("true") };
        assert_eq!(
            [&[7][..], &[7, 8]].map(|left| survivors_reach_limit(&spec, left)),
            [false, true]
        );
        assert!(!survivors_reach_limit(&JobSpec { resources: LIMITS, ..spec }, &[7, 8, 9]));
    }

    #[test]
    fn what_the_kernel_ended_for_a_limit_reads_as_that() {
        let is = |exit, oom, which| assert_eq!(limited(exit, oom), Outcome::Limit { which });
        is(by(SIGKILL), Some(99), LimitKind::Memory { limit: 100, peak: 99 });
        is(ExitKind::Code(137), Some(99), LimitKind::Memory { limit: 100, peak: 99 });
        for exit in [by(SIGXCPU), ExitKind::Code(152)] {
            is(exit, None, LimitKind::Cpu(Duration::from_secs(3)));
        }
        for exit in [by(SIGXFSZ), ExitKind::Code(153)] {
            is(exit, None, LimitKind::FileSize(50));
        }
    }

    #[test]
    fn everything_else_reads_as_it_is() {
        assert_eq!(limited(by(SIGKILL), None), Outcome::Signaled { signal: 9, core: false });
        for code in [0, 1, 137, 143] {
            assert_eq!(limited(ExitKind::Code(code), None), Outcome::Exited { code });
        }
        let free = spec("true");
        for code in [152, 153] {
            let exit = ExitKind::Code(code);
            assert_eq!(decide_outcome(exit, &free, None, false), Outcome::Exited { code });
            let program = JobProgram::Direct { program: "x".to_owned(), args: Vec::new() };
            let direct = JobSpec { resources: LIMITS, program, ..spec("") };
            assert_eq!(
                decide_outcome(exit, &direct, None, false),
                Outcome::Exited { code },
                "its own code"
            );
        }
    }
}

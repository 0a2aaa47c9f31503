//! The life of a job as one pure function: `(state, event) → (state, effects)`.
//!
//! ```text
//! Starting ─▶ Running ─▶ Draining ─▶ Finished
//!                │          ▲
//!                └▶ Stopping┘
//! ```
//!
//! No I/O and no clock here: time enters as events, actions leave as effects. `actor.rs` carries
//! them out. The job's shim carries out a stop to its end, with its grace period: no state here waits
//! for one.

use std::time::Duration;

use crate::outcome::{
    LimitKind, LivingProcesses, Outcome, SIGKILL, SIGTERM, SIGXCPU, SIGXFSZ, StartError, StopBy,
};
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
    /// The shim has the order to end the tree.
    Stopping {
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
        rest: TreeRemains,
    },
}

/// The state of the job's output pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streams {
    Open,
    Closed,
}

/// The state of the leader while its tree is being ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Leader {
    Alive,
    /// Ended while others were alive; the job has this outcome once they are gone.
    Ended(Outcome),
}

/// The processes of the tree that outlived the leader: some or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeRemains {
    Nobody,
    Somebody,
}

impl TreeRemains {
    pub(super) const fn new(alive: &LivingProcesses) -> Self {
        if alive.is_empty() { Self::Nobody } else { Self::Somebody }
    }
}

/// An event in the life of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// The leader was spawned.
    Started,
    FailedToStart(StartError),
    /// The leader has ended: the way in which it ended by itself, and the cause for which its tree was
    /// being ended, by the shim's word.
    LeaderExited {
        by_itself: Outcome,
        cause: Option<Outcome>,
        rest: TreeRemains,
    },
    /// No process of the job is left.
    TreeOver,
    /// The shim was killed: what is left of the job is being ended, and what the shim knew is lost.
    ShimLost,
    /// All pipes reached their end.
    StreamsClosed,
    /// The shim ends the tree for this cause: its deadline, or an order of an earlier server.
    EndingBegun(Outcome),
    /// A limit on output or on resources of the host was exceeded.
    LimitHit(LimitKind),
    /// A caller or the server asks to end the job.
    StopRequested {
        by: StopBy,
        signal: i32,
        grace: Duration,
    },
    /// Processes are still there a while after SIGKILL.
    KillUnanswered,
    /// The wait for last bytes is over.
    DrainExpired,
}

/// An action that the actor has to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// Order the shim to end the tree for this cause.
    Stop {
        signal: i32,
        grace: Grace,
        cause: Outcome,
    },
    /// Order the shim to end what is left of the tree.
    KillRest,
    AwaitDrain(TreeRemains),
    Finish(Outcome),
    /// No process of the job is left: the actor can end.
    Leave,
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
            Self::Draining { outcome, rest } => apply_while_draining(outcome, rest, event),
            Self::Finished { streams, rest } => apply_when_finished(streams, rest, event),
        }
    }
}

fn apply_while_starting(event: Event) -> (State, Vec<Effect>) {
    match event {
        Event::Started => (State::Running { streams: Streams::Open }, Vec::new()),
        Event::FailedToStart(why) => {
            finish(Streams::Closed, TreeRemains::Nobody, Outcome::FailedToStart(why))
        }
        Event::ShimLost => {
            let why = "the process that started this job was killed; the job may have run, and what was \
                       left of it is being ended";
            let outcome = Outcome::Lost { why: why.to_owned() };
            finish(Streams::Closed, TreeRemains::Nobody, outcome)
        }
        Event::StopRequested { by, .. } => {
            finish(Streams::Closed, TreeRemains::Nobody, Outcome::Stopped { by })
        }
        Event::LeaderExited { .. }
        | Event::TreeOver
        | Event::StreamsClosed
        | Event::EndingBegun(_)
        | Event::LimitHit(_)
        | Event::KillUnanswered
        | Event::DrainExpired => (State::Starting, Vec::new()),
    }
}

fn apply_while_running(streams: Streams, event: Event) -> (State, Vec<Effect>) {
    match event {
        // The shim has begun an ending whose report comes later than the leader's end.
        Event::LeaderExited { by_itself, cause, rest } => {
            drain(streams, rest, cause.unwrap_or(by_itself))
        }
        // An earlier server was not told of this.
        Event::FailedToStart(why) => {
            finish(Streams::Closed, TreeRemains::Nobody, Outcome::FailedToStart(why))
        }
        Event::ShimLost => drain(streams, TreeRemains::Nobody, lost_with_shim()),
        Event::StreamsClosed => (State::Running { streams: Streams::Closed }, Vec::new()),
        Event::EndingBegun(cause) => {
            (State::Stopping { cause, streams, leader: Leader::Alive }, Vec::new())
        }
        Event::LimitHit(which) => {
            let cause = Outcome::Limit { which };
            let (signal, grace) = if is_urgent(which) {
                (SIGKILL, Grace::Requested(Duration::ZERO))
            } else {
                (SIGTERM, Grace::Default)
            };
            stop(streams, cause, signal, grace)
        }
        Event::StopRequested { by, signal, grace } => {
            stop(streams, Outcome::Stopped { by }, signal, Grace::Requested(grace))
        }
        Event::Started | Event::TreeOver | Event::KillUnanswered | Event::DrainExpired => {
            (State::Running { streams }, Vec::new())
        }
    }
}

fn apply_while_stopping(
    cause: Outcome,
    streams: Streams,
    leader: Leader,
    event: Event,
) -> (State, Vec<Effect>) {
    match event {
        Event::LeaderExited { by_itself, cause: known, rest } => {
            let outcome = decide_stopped(&cause, by_itself, known);
            match rest {
                TreeRemains::Nobody => drain(streams, rest, outcome),
                // The leader obeyed. Its descendants get the rest of the grace period.
                TreeRemains::Somebody => {
                    let leader = Leader::Ended(outcome);
                    (State::Stopping { cause, streams, leader }, Vec::new())
                }
            }
        }
        Event::TreeOver => match leader {
            Leader::Ended(outcome) => drain(streams, TreeRemains::Nobody, outcome),
            Leader::Alive => drain(streams, TreeRemains::Nobody, cause),
        },
        Event::ShimLost => {
            let outcome = match leader {
                Leader::Ended(outcome) => outcome,
                Leader::Alive => decide_stopped(&cause, lost_with_shim(), None),
            };
            drain(streams, TreeRemains::Nobody, outcome)
        }
        // An earlier server was not told of this.
        Event::FailedToStart(why) => {
            finish(Streams::Closed, TreeRemains::Nobody, Outcome::FailedToStart(why))
        }
        // Processes that survive SIGKILL are named in the ending; there is nothing to wait for.
        Event::KillUnanswered => match leader {
            Leader::Ended(outcome) => finish(streams, TreeRemains::Somebody, outcome),
            Leader::Alive => finish(streams, TreeRemains::Somebody, cause),
        },
        // A job that harms others meanwhile gets no grace period.
        Event::LimitHit(which) if is_urgent(which) => {
            let kill = Effect::Stop {
                signal: SIGKILL,
                grace: Grace::Requested(Duration::ZERO),
                cause: cause.clone(),
            };
            (State::Stopping { cause, streams, leader }, vec![kill])
        }
        // A second request may be stricter than the first: its signal is sent and its grace period
        // counts.
        Event::StopRequested { signal, grace, .. } => {
            let grace = Grace::Requested(grace);
            let again = Effect::Stop { signal, grace, cause: cause.clone() };
            (State::Stopping { cause, streams, leader }, vec![again])
        }
        Event::StreamsClosed => {
            (State::Stopping { cause, streams: Streams::Closed, leader }, Vec::new())
        }
        Event::Started | Event::EndingBegun(_) | Event::LimitHit(_) | Event::DrainExpired => {
            (State::Stopping { cause, streams, leader }, Vec::new())
        }
    }
}

/// Returns the outcome of a job whose shim was killed while its leader ran.
fn lost_with_shim() -> Outcome {
    let why = "the process that held this job was killed; what was left of the job is being ended, and its \
               own ending is unknown";
    Outcome::Lost { why: why.to_owned() }
}

/// Returns the outcome of a job that was being ended. If its leader ended before the order reached the
/// shim, it ended by itself; but a limit that was exceeded was exceeded.
fn decide_stopped(cause: &Outcome, by_itself: Outcome, known: Option<Outcome>) -> Outcome {
    match (known, cause) {
        (Some(known), _) => known,
        (None, Outcome::Limit { .. }) => cause.clone(),
        (None, _) => by_itself,
    }
}

fn apply_while_draining(outcome: Outcome, rest: TreeRemains, event: Event) -> (State, Vec<Effect>) {
    match event {
        Event::StreamsClosed => finish(Streams::Closed, rest, outcome),
        Event::DrainExpired => finish(Streams::Open, rest, outcome),
        Event::TreeOver | Event::ShimLost => {
            (State::Draining { outcome, rest: TreeRemains::Nobody }, Vec::new())
        }
        // The leader is gone and the outcome stands; only the survivors are killed.
        Event::StopRequested { .. } => (State::Draining { outcome, rest }, vec![Effect::KillRest]),
        Event::LimitHit(which) if !which.is_output_limit() && rest == TreeRemains::Somebody => {
            (State::Draining { outcome, rest }, vec![Effect::KillRest])
        }
        // The job exceeded the limit before it ended by itself, but the end was reported first.
        Event::LimitHit(which) if rest == TreeRemains::Nobody && has_ended_by_itself(&outcome) => {
            (State::Draining { outcome: Outcome::Limit { which }, rest }, Vec::new())
        }
        Event::Started
        | Event::FailedToStart(_)
        | Event::LeaderExited { .. }
        | Event::EndingBegun(_)
        | Event::LimitHit(_)
        | Event::KillUnanswered => (State::Draining { outcome, rest }, Vec::new()),
    }
}

const fn has_ended_by_itself(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Exited { .. } | Outcome::Signaled { .. })
}

/// Handles events of a finished job: its outcome is fixed, and its survivors are followed until the
/// last one ends.
fn apply_when_finished(streams: Streams, rest: TreeRemains, event: Event) -> (State, Vec<Effect>) {
    let (streams, rest, effects) = match event {
        Event::StreamsClosed => (Streams::Closed, rest, leave_if_over(Streams::Closed, rest)),
        // The shim tells the next server of a leader's end again, and of the tree's with it.
        Event::TreeOver
        | Event::ShimLost
        | Event::FailedToStart(_)
        | Event::LeaderExited { rest: TreeRemains::Nobody, .. } => {
            (streams, TreeRemains::Nobody, leave_if_over(streams, TreeRemains::Nobody))
        }
        Event::StopRequested { .. } => (streams, rest, vec![Effect::KillRest]),
        Event::LimitHit(which) if !which.is_output_limit() => {
            (streams, rest, vec![Effect::KillRest])
        }
        Event::Started
        | Event::LeaderExited { rest: TreeRemains::Somebody, .. }
        | Event::EndingBegun(_)
        | Event::LimitHit(_)
        | Event::KillUnanswered
        | Event::DrainExpired => (streams, rest, Vec::new()),
    };
    (State::Finished { streams, rest }, effects)
}

fn leave_if_over(streams: Streams, rest: TreeRemains) -> Vec<Effect> {
    match (streams, rest) {
        (Streams::Closed, TreeRemains::Nobody) => vec![Effect::Leave],
        (Streams::Closed, TreeRemains::Somebody) | (Streams::Open, _) => Vec::new(),
    }
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
    let order = Effect::Stop { signal, grace, cause: cause.clone() };
    (State::Stopping { cause, streams, leader: Leader::Alive }, vec![order])
}

fn drain(streams: Streams, rest: TreeRemains, outcome: Outcome) -> (State, Vec<Effect>) {
    match streams {
        Streams::Closed => finish(streams, rest, outcome),
        Streams::Open => (State::Draining { outcome, rest }, vec![Effect::AwaitDrain(rest)]),
    }
}

fn finish(streams: Streams, rest: TreeRemains, outcome: Outcome) -> (State, Vec<Effect>) {
    let mut effects = vec![Effect::Finish(outcome)];
    effects.extend(leave_if_over(streams, rest));
    (State::Finished { streams, rest }, effects)
}

// The outcome that follows from the exit of a leader. Pure.

/// The number that a shell adds to the signal that ended its last command.
const BY_SIGNAL: i32 = 128;

/// The facts about limits that are known once a leader has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LimitEvidence {
    /// The job's peak memory, if the kernel ended it for lack of memory.
    pub(super) out_of_memory: Option<u64>,
    /// The limit on memory that the kernel did not enforce, and the largest peak of any of the job's
    /// processes: it was exceeded, if only for a moment.
    pub(super) exceeded_memory: Option<(u64, u64)>,
    /// `true` if the kernel refused the job a process: a job that fails after that failed because of
    /// it.
    pub(super) was_refused_tasks: bool,
}

/// Returns the outcome for the end of a leader: the limit for which the kernel ended it, if it did, or
/// that it exceeded.
pub(super) fn decide_outcome(exit: ExitKind, spec: &JobSpec, evidence: LimitEvidence) -> Outcome {
    let LimitEvidence { out_of_memory, exceeded_memory, was_refused_tasks } = evidence;
    let is_refused = was_refused_tasks && exit != ExitKind::Code(0);
    let processes = spec.resources.processes.filter(|_| is_refused).map(LimitKind::Processes);
    let memory = exceeded_memory.map(|(limit, peak)| LimitKind::Memory { limit, peak });
    match limit(exit, spec, out_of_memory).or(memory).or(processes) {
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
    fn term(cause: Outcome) -> Effect {
        Effect::Stop { signal: SIGTERM, grace: Grace::Default, cause }
    }

    fn requested() -> Effect {
        let grace = Grace::Requested(GRACE);
        Effect::Stop { signal: SIGTERM, grace, cause: BY_CLIENT }
    }

    fn kill(cause: Outcome) -> Effect {
        Effect::Stop { signal: SIGKILL, grace: Grace::Requested(Duration::ZERO), cause }
    }

    fn stop_requested() -> Event {
        Event::StopRequested { by: StopBy::Client, signal: SIGTERM, grace: GRACE }
    }

    fn exited(rest: TreeRemains) -> Event {
        Event::LeaderExited { by_itself: OK, cause: None, rest }
    }

    /// The leader's end, after the shim has begun an ending for this cause.
    fn ended_for(cause: Outcome, rest: TreeRemains) -> Event {
        Event::LeaderExited { by_itself: OK, cause: Some(cause), rest }
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
    fn a_finished_job_leaves_once_its_tree_is_over_however_a_later_server_hears_of_it() {
        let state = || State::Finished { streams: Streams::Closed, rest: TreeRemains::Somebody };
        let failed = Event::FailedToStart(StartError::NotFound { program: "x".into() });
        for event in [exited(TreeRemains::Nobody), Event::TreeOver, Event::ShimLost, failed] {
            assert_eq!(state().apply(event.clone()).1, [Effect::Leave], "{event:?}");
        }
        assert_eq!(state().apply(exited(TreeRemains::Somebody)).1, []);
    }

    #[test]
    fn a_job_whose_shim_was_killed_is_lost_unless_its_leader_had_ended() {
        let started = || State::Running { streams: Streams::Closed };
        let (_, lost) = started().apply(Event::ShimLost);
        assert!(matches!(&lost[..], [Effect::Finish(Outcome::Lost { .. }), Effect::Leave]));
        let leader = Leader::Ended(BY_CLIENT);
        let stopping = State::Stopping { cause: BY_CLIENT, streams: Streams::Closed, leader };
        let (_, known) = stopping.apply(Event::ShimLost);
        assert_eq!(known, [Effect::Finish(BY_CLIENT), Effect::Leave]);
        let (_, unsure) = State::Starting.apply(Event::ShimLost);
        assert!(matches!(&unsure[..], [Effect::Finish(Outcome::Lost { .. }), Effect::Leave]));
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
            &[Effect::AwaitDrain(TreeRemains::Somebody), Effect::Finish(OK)],
        );
    }

    #[test]
    fn survivors_are_followed_until_they_and_their_bytes_are_gone() {
        let start = [exited(TreeRemains::Somebody), Event::DrainExpired];
        for end in
            [[Event::StreamsClosed, Event::TreeOver], [Event::TreeOver, Event::StreamsClosed]]
        {
            check(
                &[start.clone(), end].concat(),
                &[Effect::AwaitDrain(TreeRemains::Somebody), Effect::Finish(OK), Effect::Leave],
            );
        }
    }

    #[test]
    fn a_stop_after_the_end_kills_what_survived_and_keeps_the_outcome() {
        check(
            &[
                exited(TreeRemains::Somebody),
                stop_requested(),
                Event::DrainExpired,
                stop_requested(),
            ],
            &[
                Effect::AwaitDrain(TreeRemains::Somebody),
                Effect::KillRest,
                Effect::Finish(OK),
                Effect::KillRest,
            ],
        );
    }

    #[test]
    fn a_deadline_of_the_shim_reads_as_timed_out_whichever_report_comes_first() {
        let timed_out = Outcome::TimedOut { after: TIMEOUT };
        let begun = Event::EndingBegun(timed_out.clone());
        let ended = ended_for(timed_out.clone(), TreeRemains::Nobody);
        for events in [vec![begun.clone(), ended.clone()], vec![ended, begun]] {
            let all = [events, vec![Event::StreamsClosed]].concat();
            check(
                &all,
                &[
                    Effect::AwaitDrain(TreeRemains::Nobody),
                    Effect::Finish(timed_out.clone()),
                    Effect::Leave,
                ],
            );
        }
    }

    #[test]
    fn descendants_get_the_rest_of_the_grace_period_of_the_shim() {
        check(
            &[
                stop_requested(),
                ended_for(BY_CLIENT, TreeRemains::Somebody),
                Event::StreamsClosed,
                Event::TreeOver,
            ],
            &[requested(), Effect::Finish(BY_CLIENT), Effect::Leave],
        );
    }

    #[test]
    fn a_job_that_ended_before_the_stop_reached_it_ended_by_itself() {
        check(
            &[stop_requested(), exited(TreeRemains::Nobody), Event::StreamsClosed],
            &[
                requested(),
                Effect::AwaitDrain(TreeRemains::Nobody),
                Effect::Finish(OK),
                Effect::Leave,
            ],
        );
    }

    #[test]
    fn what_even_a_kill_does_not_end_is_reported_instead_of_waited_for() {
        check(
            &[stop_requested(), Event::KillUnanswered],
            &[requested(), Effect::Finish(BY_CLIENT)],
        );
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
            let outcome = Outcome::Limit { which };
            let ended = ended_for(outcome.clone(), TreeRemains::Nobody);
            check(
                &[Event::LimitHit(which), Event::StreamsClosed, ended],
                &[kill(outcome.clone()), Effect::Finish(outcome), Effect::Leave],
            );
        }
    }

    #[test]
    fn used_up_cpu_time_ends_a_job_as_its_deadline_does() {
        let finish = Effect::Finish(Outcome::Limit { which: CPU });
        check(
            &[Event::LimitHit(CPU), exited(TreeRemains::Nobody), Event::StreamsClosed],
            &[
                term(Outcome::Limit { which: CPU }),
                Effect::AwaitDrain(TreeRemains::Nobody),
                finish,
                Effect::Leave,
            ],
        );
    }

    #[test]
    fn a_job_that_is_ending_keeps_its_reason_and_loses_its_grace() {
        check(
            &[
                stop_requested(),
                Event::LimitHit(CPU),
                Event::LimitHit(MEMORY),
                Event::StreamsClosed,
                ended_for(BY_CLIENT, TreeRemains::Nobody),
            ],
            &[requested(), kill(BY_CLIENT), Effect::Finish(BY_CLIENT), Effect::Leave],
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
                    Effect::KillRest,
                    Effect::Finish(OK),
                    Effect::KillRest,
                ],
            );
        }
    }

    #[test]
    fn a_bound_on_output_that_is_passed_counts_also_when_the_end_is_heard_of_first() {
        let which = LimitKind::OutputBytes(1);
        for (end, outcome) in [
            (exited(TreeRemains::Nobody), Outcome::Limit { which }),
            (ended_for(BY_CLIENT, TreeRemains::Nobody), BY_CLIENT),
        ] {
            let all = [Event::Started, end, Event::LimitHit(which), Event::StreamsClosed];
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
            any_rest().prop_map(|rest| ended_for(BY_CLIENT, rest)),
            Just(Event::EndingBegun(Outcome::TimedOut { after: TIMEOUT })),
            Just(Event::LimitHit(LimitKind::OutputBytes(1))),
            Just(Event::LimitHit(MEMORY)),
            Just(Event::LimitHit(CPU)),
            Just(stop_requested()),
            Just(Event::TreeOver),
            Just(Event::KillUnanswered),
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
        fn the_cause_that_the_shim_names_is_the_outcome(
            between in prop::collection::vec(any_event(), 0..10),
            after in prop::collection::vec(any_event(), 0..30),
        ) {
            let started: Vec<Event> = std::iter::once(Event::Started).chain(between).collect();
            let is_alive = matches!(
                play(&started).0,
                State::Running { .. } | State::Stopping { leader: Leader::Alive, .. }
            );
            let ended = ended_for(BY_CLIENT, TreeRemains::Nobody);
            let all: Vec<Event> = started.into_iter().chain([ended]).chain(after).collect();
            let (_, effects) = play(&all);
            prop_assert!(!is_alive || outcomes(&effects).iter().all(|outcome| **outcome == BY_CLIENT));
        }

        #[test]
        fn whatever_happened_a_dead_tree_and_closed_pipes_end_the_job(
            events in prop::collection::vec(any_event(), 0..40),
        ) {
            let ending = [
                Event::Started, stop_requested(), exited(TreeRemains::Nobody), Event::StreamsClosed,
                Event::TreeOver,
            ];
            let all: Vec<Event> = events.into_iter().chain(ending).collect();
            let (state, effects) = play(&all);
            prop_assert!(matches!(state, State::Finished { .. }), "{state:?}");
            prop_assert!(effects.contains(&Effect::Leave), "{effects:?}");
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
        let evidence = LimitEvidence { out_of_memory, ..LimitEvidence::default() };
        decide_outcome(exit, &JobSpec { resources: LIMITS, ..spec("true") }, evidence)
    }

    #[test]
    fn a_failure_after_a_refused_process_reads_as_the_limit() {
        let resources = ResourceLimits { processes: Some(7), ..LIMITS };
        let evidence = LimitEvidence { was_refused_tasks: true, ..LimitEvidence::default() };
        let refused = |exit| decide_outcome(exit, &JobSpec { resources, ..spec("true") }, evidence);
        let limit = Outcome::Limit { which: LimitKind::Processes(7) };
        assert_eq!([refused(ExitKind::Code(2)), refused(by(SIGKILL))], [limit.clone(), limit]);
        assert_eq!(refused(ExitKind::Code(0)), Outcome::Exited { code: 0 }, "it coped");
    }

    #[test]
    fn a_peak_above_a_limit_that_the_kernel_does_not_enforce_reads_as_the_limit() {
        let exceeded_memory = Some((100, 300));
        let evidence = LimitEvidence { exceeded_memory, ..LimitEvidence::default() };
        let spec = JobSpec { resources: LIMITS, ..spec("true") };
        let which = LimitKind::Memory { limit: 100, peak: 300 };
        assert_eq!(decide_outcome(ExitKind::Code(0), &spec, evidence), Outcome::Limit { which });
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
            assert_eq!(
                decide_outcome(exit, &free, LimitEvidence::default()),
                Outcome::Exited { code }
            );
            let program = JobProgram::Direct { program: "x".to_owned(), args: Vec::new() };
            let direct = JobSpec { resources: LIMITS, program, ..spec("") };
            assert_eq!(
                decide_outcome(exit, &direct, LimitEvidence::default()),
                Outcome::Exited { code },
                "its own code"
            );
        }
    }
}

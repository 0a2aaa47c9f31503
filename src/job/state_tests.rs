use proptest::prelude::*;

use super::*;

const OK: Outcome = Outcome::Exited { code: 0 };
const BY_CLIENT: Outcome = Outcome::Stopped { by: StopBy::Client };
const TIMEOUT: Duration = Duration::from_secs(300);
const GRACE: Duration = Duration::from_secs(5);
const TERM: Effect = Effect::Terminate { signal: SIGTERM, grace: Grace::Default };
const WISHED: Effect = Effect::Terminate { signal: SIGTERM, grace: Grace::Wished(GRACE) };

fn stop_wish() -> Event {
    Event::StopRequested { by: StopBy::Client, signal: SIGTERM, grace: GRACE }
}

fn exited(rest: Rest) -> Event {
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

/// What a started job does after these events; the start itself asks for nothing.
#[track_caller]
fn check(events: &[Event], expected: &[Effect]) {
    let all: Vec<Event> = std::iter::once(Event::Started).chain(events.iter().cloned()).collect();
    assert_eq!(play(&all).1, *expected, "after {events:?}");
}

#[test]
fn a_plain_command_finishes_once_the_leader_and_the_pipes_are_done() {
    use Effect::{AwaitDrain, Finish, Leave};
    check(
        &[exited(Rest::Nobody), Event::StreamsClosed],
        &[AwaitDrain(Rest::Nobody), Finish(OK), Leave],
    );
    check(&[Event::StreamsClosed, exited(Rest::Nobody)], &[Finish(OK), Leave]);
}

#[test]
fn a_grandchild_that_keeps_the_pipe_cannot_hang_the_job() {
    check(
        &[exited(Rest::Somebody), Event::DrainExpired],
        &[Effect::AwaitDrain(Rest::Somebody), Effect::Finish(OK), Effect::CheckTree(Pace::Slow)],
    );
}

#[test]
fn survivors_are_followed_until_they_and_their_bytes_are_gone() {
    check(
        &[
            exited(Rest::Somebody),
            Event::DrainExpired,
            Event::TreeChecked(Rest::Somebody),
            Event::StreamsClosed,
            Event::TreeChecked(Rest::Nobody),
        ],
        &[
            Effect::AwaitDrain(Rest::Somebody),
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
        &[exited(Rest::Somebody), Event::DrainExpired, stop_wish(), Event::StreamsClosed],
        &[
            Effect::AwaitDrain(Rest::Somebody),
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
            exited(Rest::Nobody),
            Event::StreamsClosed,
            Event::Killed(Rest::Nobody),
        ],
        &[TERM, Effect::Kill, Effect::Finish(outcome), Effect::Leave],
    );
}

#[test]
fn a_leader_that_obeys_the_first_signal_ends_the_job_without_a_kill() {
    check(
        &[stop_wish(), exited(Rest::Nobody), Event::StreamsClosed],
        &[WISHED, Effect::AwaitDrain(Rest::Nobody), Effect::Finish(BY_CLIENT), Effect::Leave],
    );
}

#[test]
fn descendants_get_the_rest_of_the_grace_period_and_no_more() {
    let soon = Effect::CheckTree(Pace::Soon);
    check(
        &[
            stop_wish(),
            exited(Rest::Somebody),
            Event::TreeChecked(Rest::Somebody),
            Event::GraceExpired,
            Event::StreamsClosed,
            Event::Killed(Rest::Nobody),
        ],
        &[WISHED, soon.clone(), soon, Effect::Kill, Effect::Finish(BY_CLIENT), Effect::Leave],
    );
}

#[test]
fn what_even_a_kill_does_not_end_is_reported_instead_of_waited_for() {
    check(
        &[stop_wish(), Event::GraceExpired, Event::Killed(Rest::Somebody)],
        &[WISHED, Effect::Kill, Effect::Finish(BY_CLIENT), Effect::CheckTree(Pace::Slow)],
    );
}

#[test]
fn a_kill_that_is_verified_before_the_leader_is_reaped_still_waits_for_it() {
    check(
        &[
            stop_wish(),
            Event::GraceExpired,
            Event::Killed(Rest::Nobody),
            exited(Rest::Nobody),
            Event::StreamsClosed,
        ],
        &[
            WISHED,
            Effect::Kill,
            Effect::AwaitDrain(Rest::Nobody),
            Effect::Finish(BY_CLIENT),
            Effect::Leave,
        ],
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
        let events = [
            Event::LimitHit(which),
            exited(Rest::Nobody),
            Event::StreamsClosed,
            Event::Killed(Rest::Nobody),
        ];
        check(&events, &[Effect::Kill, Effect::Finish(Outcome::Limit { which }), Effect::Leave]);
    }
}

#[test]
fn used_up_cpu_time_ends_a_job_as_its_deadline_does() {
    let finish = Effect::Finish(Outcome::Limit { which: CPU });
    check(
        &[Event::LimitHit(CPU), exited(Rest::Nobody), Event::StreamsClosed],
        &[TERM, Effect::AwaitDrain(Rest::Nobody), finish, Effect::Leave],
    );
}

#[test]
fn a_job_that_is_ending_keeps_its_reason_and_loses_its_grace() {
    check(
        &[
            stop_wish(),
            Event::LimitHit(CPU),
            Event::LimitHit(MEMORY),
            exited(Rest::Nobody),
            Event::StreamsClosed,
            Event::Killed(Rest::Nobody),
        ],
        &[WISHED, Effect::Kill, Effect::Finish(BY_CLIENT), Effect::Leave],
    );
}

#[test]
fn survivors_that_pass_a_limit_are_killed_and_what_they_write_is_no_reason() {
    for which in [MEMORY, CPU] {
        check(
            &[
                exited(Rest::Somebody),
                Event::LimitHit(which),
                Event::DrainExpired,
                Event::LimitHit(LimitKind::OutputBytes(1)),
                Event::LimitHit(which),
            ],
            &[
                Effect::AwaitDrain(Rest::Somebody),
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
    for (first, outcome) in [(None, Outcome::Limit { which }), (Some(stop_wish()), BY_CLIENT)] {
        let rest = [exited(Rest::Nobody), Event::LimitHit(which), Event::StreamsClosed];
        let all: Vec<Event> = [Event::Started].into_iter().chain(first).chain(rest).collect();
        let (_, effects) = play(&all);
        assert_eq!(outcomes(&effects), [&outcome]);
    }
}

fn any_rest() -> impl Strategy<Value = Rest> {
    prop_oneof![Just(Rest::Nobody), Just(Rest::Somebody)]
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
        Just(stop_wish()),
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
        let all: Vec<Event> = started.into_iter().chain([stop_wish()]).chain(after).collect();
        let (_, effects) = play(&all);
        prop_assert!(!told || outcomes(&effects).iter().all(|outcome| **outcome != OK));
    }

    #[test]
    fn whatever_happened_a_dead_tree_and_closed_pipes_end_the_job(
        events in prop::collection::vec(any_event(), 0..40),
    ) {
        let ending = [
            Event::Started, stop_wish(), Event::GraceExpired, exited(Rest::Nobody),
            Event::StreamsClosed, Event::Killed(Rest::Nobody), exited(Rest::Nobody),
            Event::TreeChecked(Rest::Nobody),
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

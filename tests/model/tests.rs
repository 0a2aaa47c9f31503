//! The searches.

use super::design::{BrokenRule, Design};
use super::invariants::Guarantee;
use super::search::search;

/// Searches a design that keeps every rule.
#[track_caller]
fn assert_sound(design: &Design, least_states: usize) {
    let findings = search(design, |_| true);
    println!("{} states", findings.states);
    assert!(findings.violation.is_none(), "{:#?}", findings.violation);
    assert!(findings.states > least_states, "only {} states were visited", findings.states);
}

#[test]
fn no_crash_of_server_or_keeper_breaks_a_guarantee_of_two_jobs() {
    // Everything else is examined with a single job.
    assert_sound(&Design::sound(), 10_000);
    assert_sound(&Design { server_crashes: 0, keeper_crashes: 1, ..Design::sound() }, 10_000);
}

#[test]
fn no_crash_of_the_server_breaks_a_guarantee_of_two_waiting_jobs() {
    assert_sound(&Design { is_busy: true, keys: 0, ..Design::sound() }, 10_000);
}

#[test]
fn no_upgrade_breaks_a_guarantee_of_two_jobs() {
    assert_sound(&Design { server_crashes: 0, upgrades: 1, ..Design::sound() }, 10_000);
}

#[test]
fn many_crashes_break_no_guarantee_of_a_single_job() {
    for keys in [1, 0] {
        let design =
            Design { keys, bytes: 2, server_crashes: 4, keeper_crashes: 2, ..Design::single() };
        assert_sound(&design, 10_000);
    }
}

#[test]
fn no_crash_makes_a_stop_or_a_deadline_undone() {
    let stopped = Design { stops: 1, deadlines: 1, leftovers: 1, ..Design::single() };
    assert_sound(&Design { server_crashes: 2, ..stopped }, 5_000);
    let design = Design { server_crashes: 0, keeper_crashes: 1, upgrades: 1, ..stopped };
    assert_sound(&design, 5_000);
    // While it waits for a slot, too.
    assert_sound(&Design { is_busy: true, keeper_crashes: 1, ..stopped }, 5_000);
}

#[test]
fn input_reaches_a_job_once_over_crashes_and_upgrades() {
    let design = Design { input: 2, server_crashes: 2, upgrades: 1, ..Design::single() };
    assert_sound(&design, 1_000);
    assert_sound(&Design { input: 2, stops: 1, keeper_crashes: 1, ..Design::single() }, 1_000);
}

#[test]
fn a_job_that_fails_to_start_has_that_ending_after_crashes_and_upgrades() {
    let failing = Design { failures: 1, ..Design::single() };
    assert_sound(&Design { stops: 1, keeper_crashes: 1, ..failing }, 1_000);
    assert_sound(&Design { server_crashes: 2, upgrades: 2, ..failing }, 1_000);
}

#[test]
fn a_job_that_never_ends_leaves_nothing_when_its_shim_or_the_keeper_is_killed() {
    let endless = Design { leftovers: 1, endless: 1, stops: 1, ..Design::single() };
    assert_sound(&Design { failures: 1, shim_crashes: 1, ..endless }, 1_000);
    assert_sound(&Design { keeper_crashes: 1, ..endless }, 1_000);
}

/// Takes minutes: `cargo test --release --test model -- --ignored`.
#[test]
#[ignore = "a million states and more"]
fn no_order_of_two_crashes_breaks_a_guarantee_of_two_jobs() {
    assert_sound(&Design { server_crashes: 2, keeper_crashes: 1, ..Design::sound() }, 1_000_000);
}

/// A guarantee that is lost when a rule is broken.
const fn lost_guarantee(rule: BrokenRule) -> Guarantee {
    match rule {
        BrokenRule::AckBeforeAccepted => Guarantee::AccountedOnce,
        BrokenRule::AckBeforeQueued => Guarantee::WaitingSurvives,
        BrokenRule::KeyNotRecorded
        | BrokenRule::AskBeforeStarting
        | BrokenRule::StartBesideWithKey
        | BrokenRule::QueueUnrecorded
        | BrokenRule::StartAgain => Guarantee::RunsOnce,
        BrokenRule::ShowBeforeShim => Guarantee::RunningSurvives,
        BrokenRule::RestartBeforeMessages
        | BrokenRule::KeepUnrecorded
        | BrokenRule::LeaveStrays
        | BrokenRule::ShimOutlivesKeeper => Guarantee::NothingLeft,
        BrokenRule::ReadThenWrite | BrokenRule::EndBeforePipeIsEmpty => Guarantee::OutputIsComplete,
        BrokenRule::PublishBeforeFile | BrokenRule::RemoveBeforeFreed => Guarantee::SeenBytesStay,
        BrokenRule::ReleaseBeforeEnded
        | BrokenRule::HandOverHalfStarted
        | BrokenRule::HandOverUnrecordedFailure => Guarantee::LostForAReason,
        BrokenRule::QueueReversed => Guarantee::OrderIsKept,
        BrokenRule::OutliveKeeper | BrokenRule::MissLateFailure | BrokenRule::MissLateEnd => {
            Guarantee::EverythingEnds
        }
        BrokenRule::GuessStatus => Guarantee::CodeIsTrue,
        BrokenRule::EndBeforeEchild => Guarantee::StopEndsTree,
        BrokenRule::ForgetCause => Guarantee::CauseIsTrue,
        BrokenRule::ServerKeepsDeadline => Guarantee::TimeoutIsTold,
        BrokenRule::AckStopBeforeOrder
        | BrokenRule::AckStopBeforeEnded
        | BrokenRule::EndBeforeOrder => Guarantee::StopIsKept,
        BrokenRule::StopAgain => Guarantee::GraceIsKept,
        BrokenRule::InputInServer | BrokenRule::InputAgain => Guarantee::InputIsWhole,
    }
}

#[test]
fn every_rule_is_needed() {
    for rule in BrokenRule::ALL {
        let guarantee = lost_guarantee(rule);
        let findings = search(&Design::with_broken(rule), |broken| broken == guarantee);
        let Some((_, way)) = findings.violation else {
            panic!("{rule:?} does not break {guarantee:?} in {} states", findings.states);
        };
        println!("{rule:?} breaks {guarantee:?}: {way:?}");
    }
}

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
    // Bytes are examined with a single job.
    assert_sound(&Design { bytes: 0, keeper_crashes: 0, ..Design::sound() }, 10_000);
    assert_sound(&Design { bytes: 0, server_crashes: 0, ..Design::sound() }, 10_000);
}

#[test]
fn no_crash_of_the_server_breaks_a_guarantee_of_two_waiting_jobs() {
    let design = Design { is_busy: true, keys: 0, bytes: 0, keeper_crashes: 0, ..Design::sound() };
    assert_sound(&design, 10_000);
}

#[test]
fn many_crashes_break_no_guarantee_of_a_single_job() {
    for keys in [1, 0] {
        let design = Design {
            requests: 1,
            keys,
            is_busy: false,
            bytes: 2,
            server_crashes: 4,
            keeper_crashes: 2,
            broken: None,
        };
        assert_sound(&design, 10_000);
    }
}

/// Takes minutes: `cargo test --release --test model -- --ignored`.
#[test]
#[ignore = "a million states and more"]
fn no_order_of_two_crashes_breaks_a_guarantee_of_two_jobs() {
    let design = Design { bytes: 0, server_crashes: 2, ..Design::sound() };
    assert_sound(&design, 1_000_000);
}

/// A guarantee that is lost when a rule is broken.
const fn lost_guarantee(rule: BrokenRule) -> Guarantee {
    match rule {
        BrokenRule::AckBeforeAccepted => Guarantee::AccountedOnce,
        BrokenRule::AckBeforeQueued => Guarantee::WaitingSurvives,
        BrokenRule::KeyNotRecorded
        | BrokenRule::CreateBeforeStarting
        | BrokenRule::StartBesideWithKey
        | BrokenRule::QueueUnrecorded
        | BrokenRule::StartAgain => Guarantee::RunsOnce,
        BrokenRule::ShowBeforeRegister => Guarantee::RunningSurvives,
        BrokenRule::LeaveUnregistered | BrokenRule::KeepUnrecorded | BrokenRule::NoSweep => {
            Guarantee::NothingLeft
        }
        BrokenRule::ReadThenWrite | BrokenRule::EndBeforePipeIsEmpty => Guarantee::OutputIsComplete,
        BrokenRule::PublishBeforeFile | BrokenRule::RemoveBeforeFreed => Guarantee::SeenBytesStay,
        BrokenRule::ReleaseBeforeEnded => Guarantee::LostForAReason,
        BrokenRule::QueueReversed => Guarantee::OrderIsKept,
        BrokenRule::OutliveKeeper => Guarantee::EverythingEnds,
        BrokenRule::GuessStatus => Guarantee::CodeIsTrue,
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

//! Who is freed: by table, and against a naive model.

use proptest::prelude::*;

use super::*;
use crate::telemetry::FreedReason;

const SECOND: Duration = Duration::from_secs(1);

/// Finished `age` seconds before the moment of the sweep, which is second 1,000.
fn kept(start: Instant, id: u64, tenant: &str, age: u32, bytes: u64) -> Kept {
    let finished = start + SECOND * (1000 - age);
    Kept { id: JobId::local(id), tenant: tenant.to_owned(), finished, bytes, rest: Rest::Over }
}

fn bounds(finished: usize, age: u64, bytes: u64) -> Bounds {
    let age = Some(Duration::from_secs(age)).filter(|age| !age.is_zero());
    let some = |number: u64| Some(number).filter(|number| *number > 0);
    Bounds { finished: some(finished as u64).map(|most| most as usize), age, bytes: some(bytes) }
}

fn freed(ledger: &mut Ledger, now: Instant) -> Vec<(u64, FreedReason, Option<Scope>)> {
    let mut freed = Vec::new();
    while let Some((job, why)) = ledger.free_next(now) {
        freed.push((job.id.number(), why.reason(), scope(why)));
    }
    freed
}

fn scope(why: Freed) -> Option<Scope> {
    match why {
        Freed::Age { scope, .. } | Freed::Count { scope, .. } | Freed::Bytes { scope, .. } => {
            Some(scope)
        }
        Freed::Room => None,
    }
}

/// Five jobs of two tenants; 3 has survivors, 4 stores nothing. Job 1 is the oldest.
#[track_caller]
fn check(all: Bounds, tenant: Bounds, room: u64, expected: &[(u64, FreedReason, Option<Scope>)]) {
    let start = Instant::now();
    let mut ledger = Ledger::new(Retention { all, tenant });
    ledger.put(kept(start, 5, "a", 10, 100));
    ledger.put(kept(start, 4, "b", 20, 0));
    ledger.put(Kept { rest: Rest::Alive, ..kept(start, 3, "a", 30, 100) });
    ledger.put(kept(start, 2, "b", 40, 100));
    ledger.put(kept(start, 1, "a", 50, 100));
    ledger.want_room(None, room);
    assert_eq!(freed(&mut ledger, start + SECOND * 1000), expected);
}

use FreedReason::{Age, Bytes, Count, Room};

const NONE: Bounds = Bounds { finished: None, age: None, bytes: None };

#[test]
fn without_bounds_nothing_is_freed() {
    check(NONE, NONE, 0, &[]);
}

#[test]
fn the_oldest_goes_first_and_who_has_survivors_stays() {
    let all = Some(Scope::All);
    check(bounds(4, 0, 0), NONE, 0, &[]);
    check(bounds(3, 0, 0), NONE, 0, &[(1, Count, all)]);
    check(bounds(1, 0, 0), NONE, 0, &[1, 2, 4].map(|id| (id, Count, all)));
    check(bounds(0, 20, 0), NONE, 0, &[1, 2, 4].map(|id| (id, Age, all)));
    check(bounds(0, 21, 0), NONE, 0, &[1, 2].map(|id| (id, Age, all)));
}

#[test]
fn for_bytes_only_those_go_that_give_some_back() {
    let all = Some(Scope::All);
    check(bounds(0, 0, 300), NONE, 0, &[(1, Bytes, all)]);
    // The newest stays, whatever it stores.
    check(bounds(0, 0, 1), NONE, 0, &[1, 2].map(|id| (id, Bytes, all)));
    check(NONE, NONE, 101, &[(1, Room, None), (2, Room, None)]);
    check(NONE, NONE, u64::MAX, &[1, 2, 5].map(|id| (id, Room, None)));
}

#[test]
fn a_tenant_over_its_own_bound_pays_alone() {
    let own = Some(Scope::Tenant);
    check(NONE, bounds(2, 0, 0), 0, &[]);
    check(NONE, bounds(1, 0, 0), 0, &[(1, Count, own), (2, Count, own)]);
    check(NONE, bounds(0, 0, 200), 0, &[(1, Bytes, own)]);
    check(bounds(0, 45, 0), bounds(0, 35, 0), 0, &[(1, Age, own), (2, Age, own)]);
}

#[test]
fn a_wish_for_room_is_over_when_it_was_met_or_cannot_be() {
    let start = Instant::now();
    let now = start + SECOND * 1000;
    let mut ledger = Ledger::new(Retention::default());
    ledger.want_room(None, 1000);
    assert_eq!(freed(&mut ledger, now), []);
    ledger.put(kept(start, 1, "a", 10, 100));
    ledger.put(kept(start, 2, "a", 5, 100));
    assert_eq!(freed(&mut ledger, now), [], "later jobs do not pay");
    ledger.want_room(None, 100);
    ledger.want_room(None, 50);
    assert_eq!(freed(&mut ledger, now), [(1, Room, None)], "wishes are one, not a sum");
}

#[test]
fn a_tenant_makes_its_own_room() {
    let start = Instant::now();
    let mut ledger = Ledger::new(Retention::default());
    ledger.put(kept(start, 1, "a", 30, 100));
    ledger.put(kept(start, 2, "b", 20, 100));
    ledger.put(kept(start, 3, "b", 10, 100));
    ledger.want_room(Some("b"), 150);
    ledger.want_room(Some("nobody"), 150);
    let now = start + SECOND * 1000;
    assert_eq!(freed(&mut ledger, now), [(2, Room, None), (3, Room, None)]);
    ledger.put(kept(start, 4, "b", 5, 100));
    assert_eq!(freed(&mut ledger, now), [], "the wish is over");
}

#[test]
fn what_changes_of_a_job_changes_the_sums() {
    let start = Instant::now();
    let now = start + SECOND * 1000;
    let limits = Retention { all: bounds(0, 0, 100), tenant: bounds(0, 30, 0) };
    let mut ledger = Ledger::new(limits);
    let job = Kept { rest: Rest::Alive, ..kept(start, 1, "a", 50, 500) };
    ledger.put(job.clone());
    assert_eq!((freed(&mut ledger, now), ledger.due()), (vec![], None));
    // It was compressed, and its survivors are gone.
    ledger.put(Kept { rest: Rest::Over, bytes: 40, ..job });
    assert_eq!((ledger.len(), ledger.all.bytes), (1, 40));
    assert_eq!(ledger.due(), Some(start + SECOND * 980));
    assert_eq!(freed(&mut ledger, now), [(1, Age, Some(Scope::Tenant))]);
    assert_eq!((ledger.len(), ledger.all.bytes, ledger.tenants.len()), (0, 0, 0));
}

/// What happens to a ledger.
#[derive(Debug, Clone)]
enum Step {
    Put {
        tenant: usize,
        bytes: u64,
        rest: Rest,
    },
    /// The so-manieth job that is kept is settled, with this size.
    Settle(prop::sample::Index, u64),
    WantRoom(u64),
    Pass(u32),
}

fn any_step() -> impl Strategy<Value = Step> {
    let rest = prop_oneof![4 => Just(Rest::Over), 1 => Just(Rest::Alive)];
    prop_oneof![
        6 => (0..3_usize, 0..50_u64, rest)
            .prop_map(|(tenant, bytes, rest)| Step::Put { tenant, bytes, rest }),
        2 => (any::<prop::sample::Index>(), 0..50_u64).prop_map(|(at, bytes)| Step::Settle(at, bytes)),
        1 => (1..100_u64).prop_map(Step::WantRoom),
        3 => (0..20_u32).prop_map(Step::Pass),
    ]
}

fn any_bounds() -> impl Strategy<Value = Bounds> {
    (0..6_usize, 0..60_u64, 0..150_u64).prop_map(|(count, age, bytes)| bounds(count, age, bytes))
}

/// The jobs of one tenant, or all.
fn of<'a>(
    jobs: &'a [Kept],
    tenant: Option<&'a str>,
) -> impl DoubleEndedIterator<Item = &'a Kept> + Clone {
    jobs.iter().filter(move |job| tenant.is_none_or(|tenant| tenant == job.tenant))
}

/// Which bounds these jobs break, so that one of `jobs` that can be freed has to go.
fn breaks(jobs: &[Kept], tenant: Option<&str>, bounds: &Bounds, now: Instant) -> Vec<FreedReason> {
    let mine = of(jobs, tenant);
    let free = mine.clone().filter(|job| job.rest == Rest::Over);
    let over_count = bounds.finished.is_some_and(|most| free.clone().count() > most);
    let over_bytes = bounds.bytes.is_some_and(|most| mine.map(|job| job.bytes).sum::<u64>() > most);
    let too_old = |job: &Kept| bounds.age.is_some_and(|age| now - job.finished >= age);
    let found = [
        (Count, over_count),
        (Bytes, over_bytes && free.clone().rev().skip(1).any(|job| job.bytes > 0)),
        (Age, free.clone().any(too_old)),
    ];
    found.into_iter().filter(|(_, is_broken)| *is_broken).map(|(reason, _)| reason).collect()
}

proptest! {
    #[test]
    fn whoever_goes_had_to_and_was_the_oldest_and_then_all_bounds_hold(
        all in any_bounds(),
        tenant in any_bounds(),
        steps in prop::collection::vec(any_step(), 0..60),
    ) {
        let mut ledger = Ledger::new(Retention { all, tenant });
        let mut now = Instant::now();
        let mut jobs: Vec<Kept> = Vec::new();
        let mut wanted = 0;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put { tenant, bytes, rest } => {
                    let (id, tenant) = (JobId::local(number as u64), format!("t{tenant}"));
                    jobs.push(Kept { id, tenant, finished: now, bytes, rest });
                    ledger.put(jobs[jobs.len() - 1].clone());
                }
                Step::Settle(at, bytes) if !jobs.is_empty() => {
                    let at = at.index(jobs.len());
                    jobs[at] = Kept { bytes, rest: Rest::Over, ..jobs[at].clone() };
                    ledger.put(jobs[at].clone());
                }
                Step::Settle(..) => {}
                Step::WantRoom(bytes) => {
                    wanted = bytes;
                    ledger.want_room(None, bytes);
                }
                Step::Pass(seconds) => now += SECOND * seconds,
            }
            while let Some((job, why)) = ledger.free_next(now) {
                prop_assert_eq!(job.rest, Rest::Over);
                let (mine, limits) = match scope(why) {
                    Some(Scope::Tenant) => (Some(job.tenant.as_str()), tenant),
                    Some(Scope::All) | None => (None, all),
                };
                // Ages are looked at for all together: the oldest of all is too old for either.
                let reason = why.reason();
                let mine = mine.filter(|_| reason != Age);
                match reason {
                    Room => prop_assert!(wanted > 0),
                    Age | Bytes | Count => {
                        prop_assert!(breaks(&jobs, mine, &limits, now).contains(&reason));
                    }
                }
                let gives = |other: &&Kept| matches!(reason, Age | Count) || other.bytes > 0;
                let free = of(&jobs, mine).filter(|other| other.rest == Rest::Over);
                prop_assert_eq!(free.clone().find(gives), Some(&job), "the oldest comes first");
                drop(free);
                wanted = wanted.saturating_sub(job.bytes);
                jobs.retain(|other| other.id != job.id);
            }
            prop_assert_eq!(breaks(&jobs, None, &all, now), []);
            for name in ["t0", "t1", "t2"] {
                prop_assert_eq!(breaks(&jobs, Some(name), &tenant, now), [], "{}", name);
            }
            let room_left = jobs.iter().any(|job| job.rest == Rest::Over && job.bytes > 0);
            prop_assert!(wanted == 0 || !room_left);
            wanted = 0;
            prop_assert_eq!(ledger.len(), jobs.len());
            prop_assert_eq!(ledger.all.bytes, jobs.iter().map(|job| job.bytes).sum::<u64>());
        }
    }
}

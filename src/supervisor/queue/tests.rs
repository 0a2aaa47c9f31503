//! The queue by example.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::ids::{JobId, Tenant};
use crate::spec::Priority::{self, High, Low, Normal};
use crate::supervisor::pressure::{Pressure, Resource};
use crate::supervisor::refusal::Refusal;

const SECOND: Duration = Duration::from_secs(1);

/// Lane `build` has one slot and room for two.
pub(super) fn limits(slots: usize) -> QueueLimits {
    let build = LaneLimits { slots: Some(1), max_queued: Some(2) };
    QueueLimits {
        slots,
        max_queued: 10,
        lanes: BTreeMap::from([("build".to_owned(), build)]),
        quota: TenantLimits::default(),
        tenants: BTreeMap::new(),
    }
}

/// Jobs that have just begun.
pub(super) const AGELESS: Ages<'static> = &|_| Duration::ZERO;

pub(super) const fn id(number: u64) -> JobId {
    JobId::local(number)
}

pub(super) fn tenant(name: &str) -> Tenant {
    Tenant::named(name).unwrap()
}

pub(super) fn wish<'a>(name: &str, lane: &'a str, priority: Priority) -> Wish<'a> {
    Wish { tenant: tenant(name), lane, priority }
}

fn push(queue: &mut Queue, number: u64, name: &str) {
    queue.push(id(number), wish(name, "default", Normal));
}

/// Starts until nothing more may.
fn starts(queue: &mut Queue) -> Vec<u64> {
    std::iter::from_fn(|| queue.next()).map(JobId::number).collect()
}

fn words(queue: &Queue, number: u64) -> String {
    queue.place(id(number), AGELESS).expect("it waits").waits_for.to_string()
}

#[test]
fn a_tenants_jobs_start_by_priority_and_then_in_the_order_in_which_they_came() {
    let mut queue = Queue::new(limits(1));
    for (number, priority) in [(1, Low), (2, Normal), (3, High), (4, Normal), (5, High)] {
        queue.push(id(number), wish("a", "default", priority));
    }
    let mut order = Vec::new();
    while let Some(started) = queue.next() {
        order.push(started.number());
        assert_eq!(queue.next(), None, "there is one slot");
        assert_eq!(queue.release(started, SECOND), Some(tenant("a")));
    }
    assert_eq!(order, [3, 5, 2, 4, 1]);
}

#[test]
fn a_full_lane_lets_others_pass() {
    let mut queue = Queue::new(limits(3));
    for (number, lane) in [(1, "build"), (2, "build"), (3, "default")] {
        queue.push(id(number), wish("a", lane, Normal));
    }
    assert_eq!(starts(&mut queue), [1, 3]);
    let expected = QueuePlace {
        position: 1,
        length: 1,
        lane: "build".to_owned(),
        waits_for: WaitsFor::Lane { lane: "build".to_owned(), slots: 1 },
        estimate: None,
    };
    assert_eq!(queue.place(id(2), AGELESS), Some(expected));
}

#[test]
fn tenants_take_turns_by_weight() {
    let mut limits = limits(1);
    let weight = 3.try_into().unwrap();
    limits.tenants.insert(tenant("b"), TenantLimits { weight, ..TenantLimits::default() });
    let mut queue = Queue::new(limits);
    for number in 1..=4 {
        push(&mut queue, number, "a");
        push(&mut queue, 10 + number, "b");
    }
    let mut order = Vec::new();
    while let Some(started) = queue.next() {
        order.push(started.number());
        queue.release(started, SECOND);
    }
    assert_eq!(order, [1, 11, 12, 13, 2, 14, 3, 4]);
}

#[test]
fn what_a_job_waits_for_is_told_in_words() {
    let mut limits = limits(2);
    let most = TenantLimits { max_running: Some(1), ..TenantLimits::default() };
    limits.tenants.insert(tenant("few"), most);
    let mut queue = Queue::new(limits);
    push(&mut queue, 1, "few");
    push(&mut queue, 2, "few");
    assert_eq!(starts(&mut queue), [1]);
    assert_eq!(words(&queue, 2), "tenant limit 1");
    push(&mut queue, 3, "a");
    assert_eq!(words(&queue, 3), "its turn");
    queue.press(Some(Pressure { resource: Resource::Memory, percent: 38 }));
    assert_eq!((starts(&mut queue), words(&queue, 3).as_str()), (vec![], "memory pressure 38 %"));
    queue.press(None);
    push(&mut queue, 4, "a");
    assert_eq!(starts(&mut queue), [3]);
    assert_eq!(words(&queue, 4), "2/2 slots busy");
    queue.push(id(5), wish("a", "build", Normal));
    queue.pause(Some("build")).unwrap();
    assert_eq!(words(&queue, 5), "lane build is paused");
    queue.pause(None).unwrap();
    assert_eq!(words(&queue, 4), "the queue is paused");
    assert_eq!(queue.place(id(1), AGELESS), None, "it runs");
}

#[test]
fn pressure_never_stops_the_only_job() {
    let mut queue = Queue::new(limits(3));
    queue.press(Some(Pressure { resource: Resource::Io, percent: 90 }));
    push(&mut queue, 1, "a");
    push(&mut queue, 2, "b");
    assert_eq!(starts(&mut queue), [1]);
    queue.release(id(1), SECOND);
    assert_eq!(starts(&mut queue), [2]);
    queue.press(None);
    push(&mut queue, 3, "a");
    assert_eq!(starts(&mut queue), [3]);
}

#[test]
fn a_pause_lets_running_jobs_go_on_and_is_undone_for_one_lane_or_for_all() {
    let mut queue = Queue::new(limits(2));
    push(&mut queue, 1, "a");
    assert_eq!(starts(&mut queue), [1]);
    queue.pause(None).unwrap();
    queue.pause(Some("build")).unwrap();
    push(&mut queue, 2, "a");
    queue.push(id(3), wish("a", "build", High));
    assert!(starts(&mut queue).is_empty());
    assert_eq!(queue.release(id(1), SECOND), Some(tenant("a")));
    queue.resume(Some("build")).unwrap();
    assert!(starts(&mut queue).is_empty(), "the queue is still paused");
    queue.pause(Some("build")).unwrap();
    queue.resume(None).unwrap();
    assert_eq!(starts(&mut queue), [3, 2], "the lane was resumed with the queue");
    let error = queue.pause(Some("biuld")).unwrap_err();
    assert_eq!(error.to_string(), "there is no lane `biuld`; the lanes are build, default");
}

#[track_caller]
fn refused(queue: &Queue, name: &str, lane: &str) -> (&'static str, Option<Duration>) {
    let refusal: Refusal = queue.check(tenant(name), lane, AGELESS).unwrap_err();
    (refusal.code(), refusal.retry_after())
}

#[test]
fn bounds_count_those_who_wait_and_not_those_who_can_start() {
    let mut limits = limits(2);
    limits.max_queued = 4;
    let few = TenantLimits { max_queued: Some(1), ..TenantLimits::default() };
    limits.tenants.insert(tenant("few"), few);
    let mut queue = Queue::new(limits);
    for number in 1..=3 {
        queue.check(tenant("few"), "build", AGELESS).unwrap();
        queue.push(id(number), wish("few", "build", Normal));
        starts(&mut queue);
        if number == 2 {
            break;
        }
    }
    assert_eq!(refused(&queue, "few", "build"), ("tenant_limit", Some(5 * SECOND)));
    queue.check(tenant("few"), "default", AGELESS).expect("it can start at once");
    push(&mut queue, 4, "a");
    assert_eq!(starts(&mut queue), [4]);
    queue.release(id(4), 6 * SECOND);
    push(&mut queue, 5, "a");
    assert_eq!(starts(&mut queue), [5]);
    queue.push(id(6), wish("a", "build", Normal));
    assert_eq!(refused(&queue, "a", "build"), ("queue_full", Some(5 * SECOND)));
    queue.check(tenant("a"), "default", AGELESS).unwrap();
    push(&mut queue, 7, "a");
    push(&mut queue, 8, "b");
    assert_eq!(refused(&queue, "b", "default"), ("queue_full", Some(5 * SECOND)));
    assert!(queue.withdraw(id(8)) && !queue.withdraw(id(8)) && !queue.withdraw(id(5)));
    queue.check(tenant("b"), "default", AGELESS).unwrap();
}

fn estimate(queue: &Queue, number: u64, age: Duration) -> Option<Duration> {
    queue.place(id(number), &|_| age).expect("it waits").estimate
}

#[test]
fn an_estimate_comes_from_the_tenants_own_jobs_in_the_lane() {
    let mut queue = Queue::new(limits(2));
    push(&mut queue, 1, "a");
    assert_eq!(starts(&mut queue), [1]);
    queue.release(id(1), 10 * SECOND);
    queue.push(id(2), wish("a", "build", Normal));
    assert_eq!(starts(&mut queue), [2]);
    queue.push(id(3), wish("a", "build", Normal));
    queue.push(id(4), wish("b", "build", Normal));
    assert_eq!(estimate(&queue, 3, SECOND), None, "other lanes tell nothing");
    queue.release(id(2), 40 * SECOND);
    assert_eq!(starts(&mut queue), [4]);
    assert_eq!(estimate(&queue, 3, SECOND), None, "it waits for somebody else's job");
    for number in 10..15 {
        push(&mut queue, number, "a");
    }
    assert_eq!(starts(&mut queue), [10]);
    assert_eq!(estimate(&queue, 11, SECOND), Some(10 * SECOND));
    assert_eq!(estimate(&queue, 13, SECOND), Some(30 * SECOND));
    assert_eq!(estimate(&queue, 11, 25 * SECOND), Some(25 * SECOND), "that one takes longer");
}

#[test]
fn what_is_paused_has_no_estimate() {
    let mut limits = limits(1);
    limits.max_queued = 1;
    let mut queue = Queue::new(limits);
    for number in 1..=3 {
        push(&mut queue, number, "a");
    }
    assert_eq!(starts(&mut queue), [1]);
    queue.release(id(1), SECOND);
    assert_eq!(starts(&mut queue), [2]);
    assert_eq!(estimate(&queue, 3, Duration::ZERO), Some(SECOND));
    assert_eq!(refused(&queue, "a", "default"), ("queue_full", Some(SECOND)));
    for lane in [Some("default"), None] {
        queue.pause(lane).unwrap();
        assert_eq!(estimate(&queue, 3, Duration::ZERO), None);
        assert_eq!(refused(&queue, "a", "default"), ("queue_full", None));
        queue.resume(lane).unwrap();
    }
    queue.pause(None).unwrap();
    assert_eq!(queue.overview().estimate, None);
}

#[test]
fn whoever_has_used_up_its_time_starts_nothing_and_others_pass() {
    let mut limits = limits(1);
    let limit = Some(60 * SECOND);
    limits.quota = TenantLimits { cpu_per_hour: limit, ..TenantLimits::default() };
    let mut queue = Queue::new(limits);
    queue.set_spent([tenant("a")].into());
    push(&mut queue, 1, "a");
    push(&mut queue, 2, "b");
    assert_eq!(words(&queue, 1), "CPU limit 60s per hour");
    assert_eq!(starts(&mut queue), [2]);
    queue.release(id(2), SECOND);
    assert!(starts(&mut queue).is_empty() && queue.is_any_spent());
    queue.set_spent([].into());
    assert_eq!(starts(&mut queue), [1]);
}

#[test]
fn a_lane_that_is_gone_keeps_its_bounds_until_it_is_empty() {
    let mut queue = Queue::new(limits(4));
    for number in 1..=3 {
        queue.push(id(number), wish("a", "build", Normal));
    }
    assert_eq!(starts(&mut queue), [1]);
    let mut without = limits(4);
    without.lanes.clear();
    queue.change(without);
    assert!(starts(&mut queue).is_empty());
    assert_eq!(words(&queue, 2), "lane build: 1/1 busy");
    queue.release(id(1), SECOND);
    assert_eq!(starts(&mut queue), [2]);
    assert!(queue.withdraw(id(3)));
    queue.release(id(2), SECOND);
    assert!(!queue.overview().lanes.contains_key("build"));
}

#[test]
fn other_bounds_hold_at_once_and_lose_nobody() {
    let mut queue = Queue::new(limits(4));
    for number in 1..=6 {
        push(&mut queue, number, "a");
    }
    queue.push(id(7), wish("a", "build", Normal));
    assert_eq!(starts(&mut queue), [1, 2, 3, 4]);
    let mut smaller = limits(2);
    smaller.max_queued = 1;
    smaller.lanes.clear();
    smaller.quota.max_running = Some(1);
    queue.change(smaller);
    assert_eq!((starts(&mut queue).len(), queue.waiting()), (0, 3));
    assert_eq!(refused(&queue, "b", "default").0, "queue_full");
    for number in 1..=3 {
        queue.release(id(number), SECOND);
    }
    assert_eq!(words(&queue, 5), "tenant limit 1");
    queue.change(limits(9));
    assert_eq!(starts(&mut queue), [5, 6, 7]);
}

#[test]
fn an_overview_counts_lanes_and_tenants() {
    let mut limits = limits(1);
    let quiet = TenantLimits { max_running: Some(7), ..TenantLimits::default() };
    limits.tenants.insert(tenant("quiet"), quiet);
    let mut queue = Queue::new(limits);
    push(&mut queue, 1, "a");
    queue.push(id(2), wish("b", "build", Normal));
    assert_eq!(starts(&mut queue), [1]);
    queue.pause(Some("build")).unwrap();
    let overview = queue.overview();
    assert_eq!((overview.slots, overview.running, overview.queued), (1, 1, 1));
    let lane = |name: &str| {
        let lane = &overview.lanes[name];
        (lane.running, lane.queued, lane.limits.slots, lane.paused)
    };
    assert_eq!((lane("default"), lane("build")), ((1, 0, None, false), (0, 1, Some(1), true)));
    let of = |name| {
        let figures = &overview.tenants[&tenant(name)];
        (figures.running, figures.queued, figures.limits.max_running)
    };
    assert_eq!([of("a"), of("b"), of("quiet")], [(1, 0, None), (0, 1, None), (0, 0, Some(7))]);
}

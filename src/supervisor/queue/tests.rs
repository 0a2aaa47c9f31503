//! The queue by example.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{HostResource, Pressure, SubmitRefusal, *};
use crate::ids::{JobId, TenantId};
use crate::spec::CallMode;
use crate::spec::Priority::{self, High, Low, Normal};
use crate::telemetry::WaitReason;

const SECOND: Duration = Duration::from_secs(1);

/// Lane `build` has one slot and room for two.
pub(super) fn limits(slots: usize) -> QueueLimits {
    let build = LaneLimits { slots: Some(1), max_queued: Some(2) };
    QueueLimits {
        slots,
        max_queued: 10,
        idle_after: Some(SECOND),
        max_idle: 1000,
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

pub(super) fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

pub(super) fn enqueue_request<'a>(
    name: &str,
    lane: &'a str,
    priority: Priority,
) -> EnqueueRequest<'a> {
    EnqueueRequest { tenant: tenant(name), lane, priority, call_mode: CallMode::Foreground }
}

fn push(queue: &mut Queue, number: u64, name: &str) {
    queue.push(id(number), enqueue_request(name, "default", Normal));
}

/// Starts jobs until no more may start.
fn starts(queue: &mut Queue) -> Vec<u64> {
    std::iter::from_fn(|| queue.next()).map(JobId::number).collect()
}

/// These busy jobs as the holders of slots.
fn held_by(numbers: &[u64]) -> HoldingJobs {
    let holding = |number: &u64| HoldingJob { id: id(*number), is_idle: false };
    HoldingJobs { oldest: numbers.iter().map(holding).collect(), others: 0 }
}

fn words(queue: &Queue, number: u64) -> String {
    queue.find_position(id(number), AGELESS).expect("it waits").waits_for.to_string()
}

#[test]
fn a_tenants_jobs_start_by_priority_and_then_in_the_order_in_which_they_came() {
    let mut queue = Queue::new(limits(1));
    for (number, priority) in [(1, Low), (2, Normal), (3, High), (4, Normal), (5, High)] {
        queue.push(id(number), enqueue_request("a", "default", priority));
    }
    let mut order = Vec::new();
    while let Some(started) = queue.next() {
        order.push(started.number());
        assert_eq!(queue.next(), None, "there is one slot");
        assert_eq!(queue.release(started, Some(SECOND)), Some(tenant("a")));
    }
    assert_eq!(order, [3, 5, 2, 4, 1]);
}

#[test]
fn a_full_lane_lets_others_pass() {
    let mut queue = Queue::new(limits(3));
    for (number, lane) in [(1, "build"), (2, "build"), (3, "default")] {
        queue.push(id(number), enqueue_request("a", lane, Normal));
    }
    assert_eq!(starts(&mut queue), [1, 3]);
    let expected = QueuePosition {
        position: 1,
        length: 1,
        lane: "build".to_owned(),
        waits_for: WaitsFor::Lane { lane: "build".to_owned(), slots: 1 },
        held_by: held_by(&[1]),
        estimate: None,
    };
    assert_eq!(queue.find_position(id(2), AGELESS), Some(expected));
}

#[test]
fn idle_jobs_hold_the_slots_of_a_lane_and_only_three_holders_are_named() {
    let mut limits = limits(9);
    limits.lanes.insert("build".to_owned(), LaneLimits { slots: Some(5), ..LaneLimits::default() });
    let mut queue = Queue::new(limits);
    for number in 1..=6 {
        queue.push(id(number), enqueue_request("a", "build", Normal));
    }
    assert_eq!(starts(&mut queue), [1, 2, 3, 4, 5]);
    assert!(queue.set_idle(id(2)));
    assert_eq!(starts(&mut queue), [0; 0]);
    let mut expected = held_by(&[1, 2, 3]);
    expected.oldest[1].is_idle = true;
    expected.others = 2;
    assert_eq!(queue.find_position(id(6), AGELESS).map(|place| place.held_by), Some(expected));
}

#[test]
fn a_job_whose_caller_waits_starts_before_background_jobs_of_the_same_priority() {
    let mut queue = Queue::new(limits(1));
    for (number, call_mode, priority) in [
        (1, CallMode::Background, Normal),
        (2, CallMode::Background, Normal),
        (3, CallMode::Background, High),
        (4, CallMode::Foreground, Normal),
    ] {
        let request = EnqueueRequest { call_mode, ..enqueue_request("a", "default", priority) };
        queue.push(id(number), request);
    }
    let mut order = Vec::new();
    while let Some(started) = queue.next() {
        order.push(started.number());
        queue.release(started, Some(SECOND));
    }
    assert_eq!(order, [3, 4, 1, 2]);
}

#[test]
fn a_background_job_starts_although_calls_keep_coming() {
    let mut queue = Queue::new(limits(1));
    let background = EnqueueRequest {
        call_mode: CallMode::Background,
        ..enqueue_request("a", "default", Normal)
    };
    queue.push(id(1), background);
    push(&mut queue, 2, "a");
    for number in 3..5000 {
        push(&mut queue, number, "a");
        let started = queue.next().expect("the slot is free");
        queue.release(started, Some(SECOND));
        if started == id(1) {
            return;
        }
    }
    panic!("the background job waits for ever");
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
        queue.release(started, Some(SECOND));
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
    queue.set_pressure(Some(Pressure { resource: HostResource::Memory, percent: 38 }));
    assert_eq!((starts(&mut queue), words(&queue, 3).as_str()), (vec![], "memory pressure 38 %"));
    queue.set_pressure(None);
    push(&mut queue, 4, "a");
    assert_eq!(starts(&mut queue), [3]);
    assert_eq!(words(&queue, 4), "2/2 slots busy");
    queue.push(id(5), enqueue_request("a", "build", Normal));
    queue.pause(Some("build")).unwrap();
    assert_eq!(words(&queue, 5), "lane build is paused");
    queue.pause(None).unwrap();
    assert_eq!(words(&queue, 4), "the queue is paused");
    assert_eq!(queue.find_position(id(1), AGELESS), None, "it runs");
}

#[test]
fn an_idle_job_gives_its_slot_to_the_next_one_and_takes_one_again() {
    let mut queue = Queue::new(limits(1));
    push(&mut queue, 1, "a");
    push(&mut queue, 2, "a");
    push(&mut queue, 3, "a");
    assert_eq!(starts(&mut queue), [1]);
    assert_eq!(queue.find_position(id(2), AGELESS).map(|place| place.held_by), Some(held_by(&[1])));
    assert!(queue.set_idle(id(1)));
    assert_eq!(starts(&mut queue), [2]);
    assert!(queue.set_busy(id(1)), "it is not stopped, although the slot is taken");
    assert_eq!(
        queue.find_position(id(3), AGELESS).map(|place| place.held_by),
        Some(held_by(&[1, 2]))
    );
    queue.release(id(2), Some(SECOND));
    assert_eq!(starts(&mut queue), [0; 0], "the first job holds the only slot again");
    queue.release(id(1), Some(SECOND));
    assert_eq!(starts(&mut queue), [3]);
}

#[test]
fn a_tenant_with_too_many_idle_jobs_keeps_the_slots_of_further_ones() {
    let mut queue = Queue::new(QueueLimits { max_idle: 1, ..limits(2) });
    push(&mut queue, 1, "a");
    push(&mut queue, 2, "a");
    push(&mut queue, 3, "b");
    assert_eq!(starts(&mut queue).len(), 2);
    let running: Vec<u64> =
        (1..=3).filter(|job| queue.find_position(id(*job), AGELESS).is_none()).collect();
    let own: Vec<u64> = running.into_iter().filter(|job| *job < 3).collect();
    let idle: Vec<bool> = own.iter().map(|job| queue.set_idle(id(*job))).collect();
    assert_eq!(idle.iter().filter(|is_idle| **is_idle).count(), 1);
}

#[test]
fn pressure_never_stops_the_only_job() {
    let mut queue = Queue::new(limits(3));
    queue.set_pressure(Some(Pressure { resource: HostResource::Io, percent: 90 }));
    push(&mut queue, 1, "a");
    push(&mut queue, 2, "b");
    assert_eq!(starts(&mut queue), [1]);
    queue.release(id(1), Some(SECOND));
    assert_eq!(starts(&mut queue), [2]);
    queue.set_pressure(None);
    push(&mut queue, 3, "a");
    assert_eq!(starts(&mut queue), [3]);
}

#[test]
fn jobs_wait_for_file_descriptors_unless_nothing_runs() {
    let mut queue = Queue::new(limits(2));
    queue.set_short_of_files(true);
    for (job, owner) in [(1, "a"), (2, "b"), (3, "a")] {
        push(&mut queue, job, owner);
    }
    assert_eq!((starts(&mut queue), queue.hold()), (vec![1], Some(Hold::Files)));
    assert_eq!(words(&queue, 2), "the server is short of file descriptors");
    assert_eq!(queue.overview().waiting, [(WaitReason::Files, 2)].into());
    queue.pause(None).unwrap();
    assert_eq!(words(&queue, 2), "the queue is paused");
    queue.resume(None).unwrap();
    queue.release(id(1), Some(SECOND));
    assert_eq!(starts(&mut queue), [2]);
    queue.set_short_of_files(false);
    assert_eq!((starts(&mut queue), queue.hold()), (vec![3], None));
    queue.set_short_of_files(true);
    push(&mut queue, 4, "a");
    assert_eq!(words(&queue, 4), "2/2 slots busy", "descriptors alone would not start it");
}

#[test]
fn a_pause_lets_running_jobs_go_on_and_is_undone_for_one_lane_or_for_all() {
    let mut queue = Queue::new(limits(2));
    push(&mut queue, 1, "a");
    assert_eq!(starts(&mut queue), [1]);
    queue.pause(None).unwrap();
    queue.pause(Some("build")).unwrap();
    push(&mut queue, 2, "a");
    queue.push(id(3), enqueue_request("a", "build", High));
    assert!(starts(&mut queue).is_empty());
    assert_eq!(queue.release(id(1), Some(SECOND)), Some(tenant("a")));
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
    let refusal: SubmitRefusal = queue.check(tenant(name), lane, AGELESS).unwrap_err();
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
        queue.push(id(number), enqueue_request("few", "build", Normal));
        starts(&mut queue);
        if number == 2 {
            break;
        }
    }
    assert_eq!(refused(&queue, "few", "build"), ("tenant_limit", Some(5 * SECOND)));
    queue.check(tenant("few"), "default", AGELESS).expect("it can start at once");
    push(&mut queue, 4, "a");
    assert_eq!(starts(&mut queue), [4]);
    queue.release(id(4), Some(6 * SECOND));
    push(&mut queue, 5, "a");
    assert_eq!(starts(&mut queue), [5]);
    queue.push(id(6), enqueue_request("a", "build", Normal));
    assert_eq!(refused(&queue, "a", "build"), ("queue_full", Some(5 * SECOND)));
    queue.check(tenant("a"), "default", AGELESS).unwrap();
    push(&mut queue, 7, "a");
    push(&mut queue, 8, "b");
    assert_eq!(refused(&queue, "b", "default"), ("queue_full", Some(5 * SECOND)));
    assert!(queue.withdraw(id(8)) && !queue.withdraw(id(8)) && !queue.withdraw(id(5)));
    queue.check(tenant("b"), "default", AGELESS).unwrap();
}

fn estimate(queue: &Queue, number: u64, age: Duration) -> Option<Duration> {
    queue.find_position(id(number), &|_| age).expect("it waits").estimate
}

#[test]
fn an_estimate_comes_from_the_tenants_own_jobs_in_the_lane() {
    let mut queue = Queue::new(limits(2));
    push(&mut queue, 1, "a");
    assert_eq!(starts(&mut queue), [1]);
    queue.release(id(1), Some(10 * SECOND));
    queue.push(id(2), enqueue_request("a", "build", Normal));
    assert_eq!(starts(&mut queue), [2]);
    queue.push(id(3), enqueue_request("a", "build", Normal));
    queue.push(id(4), enqueue_request("b", "build", Normal));
    assert_eq!(estimate(&queue, 3, SECOND), None, "other lanes tell nothing");
    queue.release(id(2), Some(40 * SECOND));
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
    queue.release(id(1), Some(SECOND));
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
    queue.release(id(2), Some(SECOND));
    assert!(starts(&mut queue).is_empty() && queue.is_any_spent());
    queue.set_spent([].into());
    assert_eq!(starts(&mut queue), [1]);
}

#[test]
fn a_lane_that_is_gone_keeps_its_bounds_until_it_is_empty() {
    let mut queue = Queue::new(limits(4));
    for number in 1..=3 {
        queue.push(id(number), enqueue_request("a", "build", Normal));
    }
    assert_eq!(starts(&mut queue), [1]);
    let mut without = limits(4);
    without.lanes.clear();
    queue.set_limits(without);
    assert!(starts(&mut queue).is_empty());
    assert_eq!(words(&queue, 2), "lane build: 1/1 busy");
    queue.release(id(1), Some(SECOND));
    assert_eq!(starts(&mut queue), [2]);
    assert!(queue.withdraw(id(3)));
    queue.release(id(2), Some(SECOND));
    assert!(!queue.overview().lanes.contains_key("build"));
}

#[test]
fn other_bounds_hold_at_once_and_lose_nobody() {
    let mut queue = Queue::new(limits(4));
    for number in 1..=6 {
        push(&mut queue, number, "a");
    }
    queue.push(id(7), enqueue_request("a", "build", Normal));
    assert_eq!(starts(&mut queue), [1, 2, 3, 4]);
    let mut smaller = limits(2);
    smaller.max_queued = 1;
    smaller.lanes.clear();
    smaller.quota.max_running = Some(1);
    queue.set_limits(smaller);
    assert_eq!((starts(&mut queue).len(), queue.waiting_count()), (0, 3));
    assert_eq!(refused(&queue, "b", "default").0, "queue_full");
    for number in 1..=3 {
        queue.release(id(number), Some(SECOND));
    }
    assert_eq!(words(&queue, 5), "tenant limit 1");
    queue.set_limits(limits(9));
    assert_eq!(starts(&mut queue), [5, 6, 7]);
}

#[test]
fn an_overview_counts_lanes_and_tenants() {
    let mut limits = limits(1);
    let quiet = TenantLimits { max_running: Some(7), ..TenantLimits::default() };
    limits.tenants.insert(tenant("quiet"), quiet);
    let mut queue = Queue::new(limits);
    push(&mut queue, 1, "a");
    queue.push(id(2), enqueue_request("b", "build", Normal));
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

mod fairness {
    //! The guarantees for every tenant.

    use std::collections::BTreeMap;
    use std::num::NonZeroU32;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::*;
    use super::{enqueue_request, id, limits, tenant};
    use crate::ids::{JobId, TenantId};
    use crate::spec::Priority::Normal;

    /// Tenants of weight 1 that come later.
    const GUESTS: usize = 5;

    fn any_weights() -> impl Strategy<Value = Vec<u32>> {
        // Each tenant's order of service moves the others by one at most: with ten of them, 10 of 100.
        prop::collection::vec(1..=20_u32, 2..=10)
    }

    fn name(tenant: usize) -> String {
        format!("fair-{tenant}")
    }

    fn queue_of(slots: usize, weights: &[u32]) -> Queue {
        let of_weight = |weight| TenantLimits {
            weight: NonZeroU32::new(weight).unwrap(),
            ..TenantLimits::default()
        };
        let tenants = weights.iter().enumerate();
        let tenants =
            tenants.map(|(index, weight)| (tenant(&name(index)), of_weight(*weight))).collect();
        let quota = TenantLimits::default();
        Queue::new(QueueLimits {
            slots,
            max_queued: 0,
            idle_after: None,
            max_idle: 1000,
            lanes: BTreeMap::new(),
            quota,
            tenants,
        })
    }

    /// A queue in which every tenant always has a job waiting.
    struct Backlog {
        queue: Queue,
        last: u64,
        running: Vec<JobId>,
    }

    impl Backlog {
        fn new(queue: Queue, tenants: usize) -> Self {
            let mut backlog = Self { queue, last: 0, running: Vec::new() };
            for tenant in (0..tenants).cycle().take(2 * tenants) {
                backlog.push(&name(tenant));
            }
            backlog
        }

        fn push(&mut self, name: &str) -> JobId {
            self.last += 1;
            self.queue.push(id(self.last), enqueue_request(name, "default", Normal));
            id(self.last)
        }

        /// Starts the next job, after ending one if there is no slot; the tenant that is served
        /// submits again.
        fn start(&mut self, end: usize) -> (JobId, TenantId) {
            loop {
                if let Some(id) = self.queue.next() {
                    let tenant = self.queue.find_tenant(id).unwrap();
                    self.running.push(id);
                    self.push(tenant.name());
                    return (id, tenant);
                }
                let ended = self.running.swap_remove(end % self.running.len());
                self.queue.release(ended, Some(Duration::ZERO));
            }
        }
    }

    proptest! {
        #[test]
        fn in_any_hundred_starts_each_tenant_has_its_share(
            weights in any_weights(),
            slots in 1..8_usize,
            ends in prop::collection::vec(0..8_usize, 400),
        ) {
            let mut backlog = Backlog::new(queue_of(slots, &weights), weights.len());
            let starts: Vec<TenantId> = ends.into_iter().map(|end| backlog.start(end).1).collect();
            let all: u32 = weights.iter().sum();
            for window in starts.windows(100) {
                for (index, weight) in weights.iter().enumerate() {
                    let tenant = tenant(&name(index));
                    let got = window.iter().filter(|other| **other == tenant).count() as f64;
                    let due = 100.0 * f64::from(*weight) / f64::from(all);
                    prop_assert!((got - due).abs() <= due / 10.0 + 1.0, "{got} of {due}, {weights:?}");
                }
            }
        }

        #[test]
        fn an_idle_tenants_first_job_starts_next(
            weights in any_weights(),
            slots in 1..8_usize,
            before in 0..300_usize,
            ends in prop::collection::vec(0..8_usize, 310),
        ) {
            let mut backlog = Backlog::new(queue_of(slots, &weights), weights.len());
            // Tenants that never had a start are newcomers themselves.
            for end in &ends[..before.max(weights.len())] {
                backlog.start(*end);
            }
            let [first, second] = ["fair-idle-1", "fair-idle-2"].map(|name| backlog.push(name));
            prop_assert_eq!(backlog.start(ends[300]).0, first);
            prop_assert_eq!(backlog.start(ends[301]).0, second);
        }

        #[test]
        fn who_waited_in_a_full_lane_does_not_come_before_newcomers(
            blocked in 1..20_u64,
            starts in 6..50_usize,
        ) {
            let mut queue = Queue::new(limits(2));
            queue.push(id(9000), enqueue_request("fair-current", "build", Normal));
            prop_assert_eq!(queue.next(), Some(id(9000)));
            let mut backlog = Backlog::new(queue, 2);
            for number in 1..=blocked {
                let name = format!("fair-blocked-{number}");
                let first = backlog.push(&name);
                while backlog.start(0).0 != first {}
                backlog.queue.withdraw(id(backlog.last));
                // The tenant waits in a full lane while time goes on in the other.
                backlog.queue.push(id(9000 + number), enqueue_request(&name, "build", Normal));
            }
            for _ in 0..starts {
                backlog.start(0);
            }
            backlog.queue.push(id(9900), enqueue_request("fair-late", "build", Normal));
            let newcomer = backlog.push("fair-new");
            backlog.queue.release(id(9000), Some(Duration::ZERO));
            for expected in [id(9900), newcomer, id(9001)] {
                prop_assert_eq!(backlog.queue.next(), Some(expected));
                backlog.queue.release(expected, Some(Duration::ZERO));
            }
        }

        #[test]
        fn nobody_starves(
            weights in any_weights(),
            slots in 1..8_usize,
            own in 1..10_usize,
            ends in prop::collection::vec(0..8_usize, 4000),
        ) {
            let mut backlog = Backlog::new(queue_of(slots, &weights), weights.len());
            let mut ends = ends.into_iter();
            for end in ends.by_ref().take(50) {
                backlog.start(end);
            }
            // Weight 1, and jobs of others keep coming, of new tenants too.
            let mine: Vec<JobId> = (0..own).map(|_| backlog.push("fair-meek")).collect();
            let all: u32 = weights.iter().sum();
            // While it is served once, each other is served by its weight, and once more in all.
            let bound = own * (1 + all as usize + GUESTS) + weights.len() + GUESTS;
            let mut left = mine.len();
            for (count, end) in ends.enumerate().take(bound) {
                if count.is_multiple_of(3) {
                    backlog.push(&format!("fair-guest-{}", count % GUESTS));
                }
                left -= usize::from(mine.contains(&backlog.start(end).0));
            }
            prop_assert_eq!(left, 0, "after {} starts", bound);
        }
    }

    #[test]
    fn one_job_at_a_time_gains_nothing() {
        let mut backlog = Backlog::new(queue_of(1, &[1, 1]), 2);
        let mut sly = 0;
        backlog.queue.push(id(1_000_000), enqueue_request("fair-sly", "default", Normal));
        for number in 1..300 {
            let started = backlog.queue.next().expect("there is always one");
            if backlog.queue.find_tenant(started) == Some(tenant("fair-sly")) {
                // It submits the next one only when the last has ended.
                backlog.queue.release(started, Some(Duration::ZERO));
                backlog
                    .queue
                    .push(id(1_000_000 + number), enqueue_request("fair-sly", "default", Normal));
                sly += 1;
            } else {
                let owner = backlog.queue.find_tenant(started).unwrap();
                backlog.queue.release(started, Some(Duration::ZERO));
                backlog.push(owner.name());
            }
        }
        assert!((98..=102).contains(&sly), "a third of 299 is its share, it had {sly}");
    }

    #[test]
    fn tenants_that_are_done_are_forgotten() {
        let mut backlog = Backlog::new(queue_of(2, &[1]), 1);
        for number in 0..1000 {
            let guest = backlog.push(&format!("fair-passing-{number}"));
            let mut started = None;
            while started != Some(guest) {
                started = Some(backlog.start(0).0);
            }
            // The job that was submitted again is withdrawn.
            assert!(backlog.queue.withdraw(id(backlog.last)));
            backlog.start(0);
            backlog.start(0);
        }
        assert!(backlog.queue.members.len() <= 6, "{} are known", backlog.queue.members.len());
    }
}

mod model {
    //! The queue against a naive model: a list of jobs.

    use std::time::Duration;

    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::super::*;
    use super::{AGELESS, id, limits, tenant};
    use crate::ids::{JobId, TenantId};
    use crate::spec::{CallMode, Priority};

    const LANES: [&str; 3] = ["default", "build", "net"];

    #[derive(Debug, Clone)]
    enum Step {
        Submit { tenant: usize, lane: usize, priority: Priority, call_mode: CallMode },
        Start,
        Job(JobStep, Index),
        Pause(Option<usize>),
        Resume(Option<usize>),
        Change(QueueLimits),
    }

    #[derive(Debug, Clone, Copy)]
    enum JobStep {
        End,
        BecomeIdle,
        BecomeBusy,
        Withdraw,
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let of_job = |step| any::<Index>().prop_map(move |index| Step::Job(step, index));
        let priority = prop::sample::select(Priority::WORDS.map(|(_, priority)| priority).to_vec());
        let call_mode = prop::sample::select(vec![CallMode::Foreground, CallMode::Background]);
        let lane = || prop_oneof![1 => Just(None), 3 => (0..3_usize).prop_map(Some)];
        prop_oneof![
            12 => (0..4_usize, 0..3_usize, priority, call_mode).prop_map(
                |(tenant, lane, priority, call_mode)| Step::Submit { tenant, lane, priority, call_mode },
            ),
            8 => Just(Step::Start),
            5 => of_job(JobStep::End),
            3 => of_job(JobStep::BecomeIdle),
            2 => of_job(JobStep::BecomeBusy),
            2 => of_job(JobStep::Withdraw),
            1 => lane().prop_map(Step::Pause),
            2 => lane().prop_map(Step::Resume),
            1 => any_limits().prop_map(Step::Change),
        ]
    }

    fn any_limits() -> impl Strategy<Value = QueueLimits> {
        let bound = || prop::option::of(1..6_usize);
        let lanes = prop::collection::vec((bound(), bound()), 2);
        let tenants = prop::collection::vec((bound(), bound(), 1..5_u32), 4);
        (1..6_usize, 0..20_usize, lanes, tenants).prop_map(|(slots, max_queued, lanes, tenants)| {
            let lane = |(slots, max_queued)| LaneLimits { slots, max_queued };
            let lanes =
                ["build", "net"].map(str::to_owned).into_iter().zip(lanes.into_iter().map(lane));
            let tenants =
                tenants.into_iter().enumerate().map(|(index, (running, queued, weight))| {
                    let weight = weight.try_into().unwrap();
                    let quota = TenantLimits {
                        max_running: running,
                        max_queued: queued,
                        weight,
                        ..TenantLimits::default()
                    };
                    (tenant_at(index), quota)
                });
            QueueLimits {
                slots,
                max_queued,
                lanes: lanes.collect(),
                tenants: tenants.collect(),
                ..limits(1)
            }
        })
    }

    fn tenant_at(index: usize) -> TenantId {
        tenant(&format!("model-{index}"))
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Job {
        id: JobId,
        tenant: TenantId,
        lane: &'static str,
        priority: Priority,
        call_mode: CallMode,
        stage: ModelStage,
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum ModelStage {
        Waiting,
        Busy,
        Idle,
    }

    struct Model {
        limits: QueueLimits,
        /// In the order of arrival.
        jobs: Vec<Job>,
        paused: Vec<Option<&'static str>>,
    }

    impl Model {
        fn count(&self, stage: ModelStage, is_counted: impl Fn(&Job) -> bool) -> usize {
            self.jobs.iter().filter(|job| job.stage == stage && is_counted(job)).count()
        }

        fn count_running(&self, is_counted: impl Fn(&Job) -> bool + Copy) -> usize {
            self.count(ModelStage::Busy, is_counted) + self.count(ModelStage::Idle, is_counted)
        }

        /// `true` if there is room for this job to run.
        fn has_room(&self, tenant: TenantId, lane: &'static str) -> bool {
            let is_below = |limit: Option<usize>, count| limit.is_none_or(|limit| count < limit);
            let of_lane = self.limits.lanes.get(lane).and_then(|limits| limits.slots);
            !self.paused.contains(&None)
                && !self.paused.contains(&Some(lane))
                && self.count(ModelStage::Busy, |_| true) < self.limits.slots
                && is_below(of_lane, self.count_running(|job| job.lane == lane))
                && is_below(
                    self.limits.tenant_limits(tenant).max_running,
                    self.count_running(|job| job.tenant == tenant),
                )
        }

        fn may_start(&self) -> Vec<Job> {
            let waiting = self.jobs.iter().filter(|job| job.stage == ModelStage::Waiting);
            waiting.filter(|job| self.has_room(job.tenant, job.lane)).copied().collect()
        }

        fn refusal(&self, tenant: TenantId, lane: &'static str) -> Option<&'static str> {
            let is_reached =
                |limit: Option<usize>, count| limit.is_some_and(|limit| count >= limit);
            let of_lane = self.limits.lanes.get(lane).and_then(|limits| limits.max_queued);
            let own = self.limits.tenant_limits(tenant).max_queued;
            if self.has_room(tenant, lane) && self.may_start().is_empty() {
                None
            } else if is_reached(own, self.count(ModelStage::Waiting, |job| job.tenant == tenant)) {
                Some("tenant_limit")
            } else if is_reached(of_lane, self.count(ModelStage::Waiting, |job| job.lane == lane))
                || self.count(ModelStage::Waiting, |_| true) >= self.limits.max_queued
            {
                Some("queue_full")
            } else {
                None
            }
        }

        /// The jobs that wait in the same line, in its order.
        fn line(&self, of: &Job) -> Vec<JobId> {
            let is_same = |job: &&Job| {
                job.stage == ModelStage::Waiting && job.tenant == of.tenant && job.lane == of.lane
            };
            let mut line: Vec<&Job> = self.jobs.iter().filter(is_same).collect();
            line.sort_by_key(|job| (std::cmp::Reverse(job.priority), job.call_mode));
            line.into_iter().map(|job| job.id).collect()
        }

        /// The tenant's best job among those that may start.
        fn find_best_job(&self, tenant: TenantId) -> Option<JobId> {
            let mut own = self.may_start();
            own.retain(|job| job.tenant == tenant);
            own.sort_by_key(|job| (std::cmp::Reverse(job.priority), job.call_mode));
            own.first().map(|job| job.id)
        }

        fn at(&self, index: Index, stages: &[ModelStage]) -> Option<JobId> {
            let is_meant = |job: &&Job| stages.contains(&job.stage);
            let jobs: Vec<&Job> = self.jobs.iter().filter(is_meant).collect();
            (!jobs.is_empty()).then(|| index.get(&jobs).id)
        }

        fn set_stage(&mut self, id: JobId, stage: ModelStage) {
            for job in self.jobs.iter_mut().filter(|job| job.id == id) {
                job.stage = stage;
            }
        }

        fn remove(&mut self, id: JobId) {
            self.jobs.retain(|job| job.id != id);
        }
    }

    fn apply(
        queue: &mut Queue,
        model: &mut Model,
        number: u64,
        step: Step,
    ) -> Result<(), TestCaseError> {
        match step {
            Step::Submit { tenant, lane, priority, call_mode } => {
                let tenant = tenant_at(tenant);
                let lane = LANES[lane];
                let refusal =
                    queue.check(tenant, lane, AGELESS).err().map(|refusal| refusal.code());
                prop_assert_eq!(refusal, model.refusal(tenant, lane));
                if refusal.is_none() {
                    let request = EnqueueRequest { tenant, lane, priority, call_mode };
                    queue.push(id(number), request);
                    model.jobs.push(Job {
                        id: id(number),
                        tenant,
                        lane,
                        priority,
                        call_mode,
                        stage: ModelStage::Waiting,
                    });
                }
            }
            Step::Start => {
                let started = queue.next();
                let tenant = started.and_then(|id| queue.find_tenant(id));
                prop_assert_eq!(started.is_none(), model.may_start().is_empty(), "nobody idles");
                prop_assert_eq!(started, tenant.and_then(|tenant| model.find_best_job(tenant)));
                if let Some(id) = started {
                    model.set_stage(id, ModelStage::Busy);
                }
            }
            Step::Job(step, index) => apply_to_job(queue, model, step, index)?,
            Step::Pause(lane) => {
                let lane = lane.map(|lane| LANES[lane]);
                queue.pause(lane).unwrap();
                model.paused.push(lane);
            }
            Step::Resume(lane) => {
                let lane = lane.map(|lane| LANES[lane]);
                queue.resume(lane).unwrap();
                model.paused.retain(|other| lane.is_some() && *other != lane);
            }
            Step::Change(limits) => {
                queue.set_limits(limits.clone());
                model.limits = limits;
            }
        }
        Ok(())
    }

    fn apply_to_job(
        queue: &mut Queue,
        model: &mut Model,
        step: JobStep,
        index: Index,
    ) -> Result<(), TestCaseError> {
        match step {
            JobStep::End => {
                if let Some(id) = model.at(index, &[ModelStage::Busy, ModelStage::Idle]) {
                    prop_assert!(!queue.withdraw(id), "it runs");
                    prop_assert!(queue.release(id, Some(Duration::ZERO)).is_some());
                    model.remove(id);
                    prop_assert!(queue.release(id, Some(Duration::ZERO)).is_none());
                }
            }
            JobStep::BecomeIdle => {
                if let Some(id) = model.at(index, &[ModelStage::Busy]) {
                    prop_assert!(!queue.set_busy(id), "it is busy");
                    prop_assert!(queue.set_idle(id));
                    model.set_stage(id, ModelStage::Idle);
                }
            }
            JobStep::BecomeBusy => {
                if let Some(id) = model.at(index, &[ModelStage::Idle]) {
                    prop_assert!(!queue.set_idle(id), "it is idle");
                    prop_assert!(queue.set_busy(id), "even above a limit");
                    model.set_stage(id, ModelStage::Busy);
                }
            }
            JobStep::Withdraw => {
                if let Some(id) = model.at(index, &[ModelStage::Waiting]) {
                    prop_assert!(!queue.set_idle(id) && !queue.set_busy(id), "it waits");
                    prop_assert!(queue.release(id, Some(Duration::ZERO)).is_none(), "it waits");
                    prop_assert!(queue.withdraw(id));
                    model.remove(id);
                }
            }
        }
        Ok(())
    }

    fn compare(queue: &Queue, model: &Model) -> Result<(), TestCaseError> {
        prop_assert_eq!(queue.waiting_count(), model.count(ModelStage::Waiting, |_| true));
        for job in &model.jobs {
            let line = model.line(job);
            let place = line.iter().position(|id| *id == job.id).map(|at| (at + 1, line.len()));
            let found =
                queue.find_position(job.id, AGELESS).map(|place| (place.position, place.length));
            prop_assert_eq!(found, place);
        }
        let overview = queue.overview();
        prop_assert_eq!(overview.running, model.count(ModelStage::Busy, |_| true));
        prop_assert_eq!(overview.idle, model.count(ModelStage::Idle, |_| true));
        for (lane, figures) in &overview.lanes {
            prop_assert_eq!(figures.running, model.count(ModelStage::Busy, |job| job.lane == lane));
            prop_assert_eq!(figures.idle, model.count(ModelStage::Idle, |job| job.lane == lane));
            prop_assert_eq!(
                figures.queued,
                model.count(ModelStage::Waiting, |job| job.lane == lane)
            );
        }
        for (tenant, figures) in &overview.tenants {
            prop_assert_eq!(
                figures.running,
                model.count(ModelStage::Busy, |job| job.tenant == *tenant)
            );
            let idle = model.count(ModelStage::Idle, |job| job.tenant == *tenant);
            prop_assert_eq!(figures.idle, idle);
            prop_assert_eq!(
                figures.queued,
                model.count(ModelStage::Waiting, |job| job.tenant == *tenant)
            );
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn bounds_hold_nobody_is_lost_and_every_place_is_true(
            first in any_limits(),
            steps in prop::collection::vec(any_step(), 0..150),
        ) {
            let mut queue = Queue::new(first.clone());
            let mut model = Model { limits: first, jobs: Vec::new(), paused: Vec::new() };
            for (number, step) in steps.into_iter().enumerate() {
                apply(&mut queue, &mut model, number as u64, step)?;
                compare(&queue, &model)?;
            }
            // Without limits every waiting job starts.
            let lanes = LANES.map(|lane| (lane.to_owned(), LaneLimits::default())).into();
            queue.set_limits(QueueLimits { slots: 1000, lanes, ..limits(1) });
            queue.resume(None).unwrap();
            let started = std::iter::from_fn(|| queue.next()).count();
            prop_assert_eq!(started, model.count(ModelStage::Waiting, |_| true));
            for job in &model.jobs {
                prop_assert_eq!(queue.release(job.id, Some(Duration::ZERO)), Some(job.tenant));
            }
            prop_assert_eq!(queue.waiting_count(), 0);
        }
    }
}

mod cost {
    //! The cost of the queue, in comparisons and counted blocks: it must not grow with the backlog.

    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::super::line::steps;
    use super::super::*;
    use super::{AGELESS, id, tenant};
    use crate::ids::TenantId;
    use crate::spec::CallMode;
    use crate::spec::Priority::Normal;

    const LANES: [&str; 4] = ["default", "build", "net", "gpu"];

    /// The most steps that any one call of each kind took.
    #[derive(Debug, Default, Clone, Copy)]
    struct MaxSteps {
        push: usize,
        next: usize,
        release: usize,
        withdraw: usize,
        place: usize,
    }

    fn steps<T>(worst: &mut usize, call: impl FnOnce() -> T) -> T {
        steps::take();
        let result = call();
        *worst = steps::take().max(*worst);
        result
    }

    /// Submits this many jobs of this many tenants in all lanes, serves a part and withdraws a
    /// part.
    fn measure(jobs: u64, tenants: u64) -> MaxSteps {
        let lanes =
            LANES.map(|lane| (lane.to_owned(), LaneLimits { slots: Some(8), max_queued: None }));
        let quota = TenantLimits::default();
        let lanes = BTreeMap::from(lanes);
        let limits = QueueLimits {
            slots: 16,
            max_queued: 0,
            idle_after: None,
            max_idle: 1000,
            lanes,
            quota,
            tenants: BTreeMap::new(),
        };
        let names: Vec<TenantId> =
            (0..tenants).map(|number| tenant(&format!("cost-{number}"))).collect();
        let mut queue = Queue::new(limits);
        let mut worst = MaxSteps::default();
        for number in 0..jobs {
            let tenant = names[(number % tenants) as usize];
            let lane = LANES[(number / tenants % 4) as usize];
            let call_mode = CallMode::Foreground;
            let request = EnqueueRequest { tenant, lane, priority: Normal, call_mode };
            steps(&mut worst.push, || queue.push(id(number), request));
        }
        for number in (0..jobs).step_by(97) {
            steps(&mut worst.place, || queue.find_position(id(number), AGELESS));
            if let Some(started) = steps(&mut worst.next, || queue.next()) {
                steps(&mut worst.release, || queue.release(started, Some(Duration::ZERO)));
            }
            steps(&mut worst.withdraw, || queue.withdraw(id(jobs - 1 - number)));
        }
        worst
    }

    #[test]
    fn a_hundred_thousand_jobs_cost_no_more_than_their_logarithm() {
        for (tenants, more_tenants) in [(1000, 1000), (100, 1000), (1, 1)] {
            let small = measure(10_000, tenants);
            let large = measure(100_000, more_tenants);
            // With ten times as many tenants each lane's tree is two nodes of eleven deeper at most; a
            // tenant is taken out of it and put back.
            let may_grow = LANES.len() * 2 * 2 * 11;
            for (kind, small, large) in [
                ("push", small.push, large.push),
                ("next", small.next, large.next),
                ("release", small.release, large.release),
                ("withdraw", small.withdraw, large.withdraw),
            ] {
                let what = format!("{kind}: {small} → {large} steps, {tenants} → {more_tenants}");
                assert!(large <= small + may_grow && large <= 400, "{what}");
            }
            assert!(large.place <= 100_000 / 256 + 40, "place: {} steps", large.place);
        }
    }
}

//! What every tenant is promised.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;

use super::tests::{id, limits, tenant, wish};
use super::*;
use crate::ids::{JobId, Tenant};
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
    Queue::new(QueueLimits { slots, max_queued: 0, lanes: BTreeMap::new(), quota, tenants })
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
        self.queue.push(id(self.last), wish(name, "default", Normal));
        id(self.last)
    }

    /// The next start, after the end of some job where there is no slot; whoever is served
    /// submits again.
    fn start(&mut self, end: usize) -> (JobId, Tenant) {
        loop {
            if let Some(id) = self.queue.next() {
                let tenant = self.queue.tenant_of(id).unwrap();
                self.running.push(id);
                self.push(tenant.name());
                return (id, tenant);
            }
            let ended = self.running.swap_remove(end % self.running.len());
            self.queue.release(ended, Duration::ZERO);
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
        let starts: Vec<Tenant> = ends.into_iter().map(|end| backlog.start(end).1).collect();
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
        // Those who never had a start are newcomers themselves.
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
        queue.push(id(9000), wish("fair-holder", "build", Normal));
        prop_assert_eq!(queue.next(), Some(id(9000)));
        let mut backlog = Backlog::new(queue, 2);
        for number in 1..=blocked {
            let name = format!("fair-blocked-{number}");
            let first = backlog.push(&name);
            while backlog.start(0).0 != first {}
            backlog.queue.withdraw(id(backlog.last));
            // From now on it waits in a lane that is full, while time goes on in the other.
            backlog.queue.push(id(9000 + number), wish(&name, "build", Normal));
        }
        for _ in 0..starts {
            backlog.start(0);
        }
        backlog.queue.push(id(9900), wish("fair-late", "build", Normal));
        let newcomer = backlog.push("fair-new");
        backlog.queue.release(id(9000), Duration::ZERO);
        for expected in [id(9900), newcomer, id(9001)] {
            prop_assert_eq!(backlog.queue.next(), Some(expected));
            backlog.queue.release(expected, Duration::ZERO);
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
    backlog.queue.push(id(1_000_000), wish("fair-sly", "default", Normal));
    for number in 1..300 {
        let started = backlog.queue.next().expect("there is always one");
        if backlog.queue.tenant_of(started) == Some(tenant("fair-sly")) {
            // It submits the next one only when the last has ended.
            backlog.queue.release(started, Duration::ZERO);
            backlog.queue.push(id(1_000_000 + number), wish("fair-sly", "default", Normal));
            sly += 1;
        } else {
            let owner = backlog.queue.tenant_of(started).unwrap();
            backlog.queue.release(started, Duration::ZERO);
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
        // Whoever submits again waits no more.
        assert!(backlog.queue.withdraw(id(backlog.last)));
        backlog.start(0);
        backlog.start(0);
    }
    assert!(backlog.queue.members.len() <= 6, "{} are known", backlog.queue.members.len());
}

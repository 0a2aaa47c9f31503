//! What the queue costs, in comparisons and counted blocks: it must not grow with the backlog.

use std::collections::BTreeMap;
use std::time::Duration;

use super::tests::{AGELESS, id, tenant};
use super::*;
use crate::ids::Tenant;
use crate::spec::Priority::Normal;

const LANES: [&str; 4] = ["default", "build", "net", "gpu"];

/// The most steps that any one call of each kind took.
#[derive(Debug, Default, Clone, Copy)]
struct Worst {
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

/// So many jobs of so many tenants, in all lanes, of which a part is served and a part withdrawn.
fn measure(jobs: u64, tenants: u64) -> Worst {
    let lanes =
        LANES.map(|lane| (lane.to_owned(), LaneLimits { slots: Some(8), max_queued: None }));
    let quota = TenantLimits::default();
    let lanes = BTreeMap::from(lanes);
    let limits = QueueLimits { slots: 16, max_queued: 0, lanes, quota, tenants: BTreeMap::new() };
    let names: Vec<Tenant> = (0..tenants).map(|number| tenant(&format!("cost-{number}"))).collect();
    let mut queue = Queue::new(limits);
    let mut worst = Worst::default();
    for number in 0..jobs {
        let tenant = names[(number % tenants) as usize];
        let lane = LANES[(number / tenants % 4) as usize];
        let wish = Wish { tenant, lane, priority: Normal };
        steps(&mut worst.push, || queue.push(id(number), wish));
    }
    for number in (0..jobs).step_by(97) {
        steps(&mut worst.place, || queue.place(id(number), AGELESS));
        if let Some(started) = steps(&mut worst.next, || queue.next()) {
            steps(&mut worst.release, || queue.release(started, Duration::ZERO));
        }
        steps(&mut worst.withdraw, || queue.withdraw(id(jobs - 1 - number)));
    }
    worst
}

#[test]
fn a_hundred_thousand_jobs_cost_no_more_than_their_logarithm() {
    for (tenants, more_tenants) in [(1000, 1000), (100, 1000), (1, 1)] {
        let (small, large) = (measure(10_000, tenants), measure(100_000, more_tenants));
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

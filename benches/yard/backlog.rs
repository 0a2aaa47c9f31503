//! What the queue costs under a backlog. It alone: nothing is run, so there is no floor.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use shellyard::ids::{JobNumber, Tenant};
use shellyard::spec::{DEFAULT_LANE, Priority};
use shellyard::supervisor::queue::{Queue, QueueLimits, TenantLimits, Wish};

use crate::report::{Row, median};

const TENANTS: u64 = 1000;

/// Microseconds for a submit and for a dispatch (one start and one end), by jobs that wait.
pub(crate) fn measure(rounds: usize) -> Vec<Row> {
    let tenants: Vec<Tenant> = (0..TENANTS)
        .map(|number| Tenant::named(&format!("bench-{number}")).expect("a good name"))
        .collect();
    [1_000, 10_000, 100_000].into_iter().flat_map(|jobs| at(jobs, &tenants, rounds)).collect()
}

fn at(jobs: u64, tenants: &[Tenant], rounds: usize) -> [Row; 2] {
    let (pushes, starts) = (0..rounds).map(|_| round(jobs, tenants)).unzip();
    let row = |what, values| Row {
        what: format!("queue of {jobs}: {what}"),
        unit: "µs",
        ours: median(values),
        floor: None,
    };
    [row("submit", pushes), row("dispatch", starts)]
}

/// The mean of each over a thousand, with so many waiting.
fn round(jobs: u64, tenants: &[Tenant]) -> (f64, f64) {
    let mut queue = Queue::new(QueueLimits {
        slots: 8,
        max_queued: usize::MAX,
        lanes: BTreeMap::new(),
        quota: TenantLimits::default(),
        tenants: BTreeMap::new(),
    });
    let push = |number: u64, queue: &mut Queue| {
        let tenant = tenants[(number * 7919 % TENANTS) as usize];
        let wish = Wish { tenant, lane: DEFAULT_LANE, priority: Priority::Normal };
        queue.check(tenant, DEFAULT_LANE, &|_| Duration::ZERO).expect("there is room");
        queue.push(JobNumber::new(number).of(Tenant::LOCAL), wish);
    };
    (0..jobs).for_each(|number| push(number, &mut queue));
    let started = Instant::now();
    (jobs..jobs + 1000).for_each(|number| push(number, &mut queue));
    let pushed = started.elapsed();
    let started = Instant::now();
    for _ in 0..1000 {
        let id = queue.next().expect("somebody waits");
        black_box(queue.release(id, Duration::ZERO));
    }
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / 1000.0;
    (micros(pushed), micros(started.elapsed()))
}

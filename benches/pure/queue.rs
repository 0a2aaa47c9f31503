//! The queue under a backlog of a thousand tenants.

use std::collections::BTreeMap;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use shellyard::ids::{JobNumber, TenantId};
use shellyard::spec::{CallMode, DEFAULT_LANE, Priority};
use shellyard::supervisor::queue::{EnqueueRequest, Queue, QueueLimits, TenantLimits};

const TENANTS: u64 = 1000;

pub(crate) fn bench(criterion: &mut Criterion) {
    let tenants: Vec<TenantId> = (0..TENANTS)
        .map(|number| TenantId::parse(&format!("bench-{number}")).expect("a good name"))
        .collect();
    let mut group = criterion.benchmark_group("queue: submit, start and end of a job");
    for length in [1_000, 10_000, 100_000] {
        let mut backlog = QueuedJobs::new(length, &tenants);
        group.bench_function(BenchmarkId::from_parameter(length), |bencher| {
            bencher.iter(|| backlog.turn());
        });
    }
    group.finish();
}

/// A queue in which always as many wait.
struct QueuedJobs<'a> {
    queue: Queue,
    tenants: &'a [TenantId],
    jobs: u64,
}

impl<'a> QueuedJobs<'a> {
    fn new(length: u64, tenants: &'a [TenantId]) -> Self {
        let queue = Queue::new(QueueLimits {
            slots: 8,
            max_queued: usize::MAX,
            idle_after: None,
            max_idle: 1000,
            lanes: BTreeMap::new(),
            quota: TenantLimits::default(),
            tenants: BTreeMap::new(),
        });
        let mut backlog = Self { queue, tenants, jobs: 0 };
        (0..length).for_each(|_| backlog.submit());
        backlog
    }

    fn submit(&mut self) {
        let tenant = self.tenants[(self.jobs * 7919 % TENANTS) as usize];
        let call_mode = CallMode::Foreground;
        let priority = Priority::Normal;
        let request = EnqueueRequest { tenant, lane: DEFAULT_LANE, priority, call_mode };
        let room = self.queue.check(tenant, DEFAULT_LANE, &|_| Duration::ZERO);
        room.expect("there is room");
        self.queue.push(JobNumber::new(self.jobs).for_tenant(TenantId::LOCAL), request);
        self.jobs += 1;
    }

    fn turn(&mut self) {
        self.submit();
        let id = self.queue.next().expect("somebody waits");
        self.queue.release(id, Some(Duration::ZERO));
    }
}

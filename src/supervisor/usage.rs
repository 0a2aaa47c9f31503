//! The use of the machine: by tenants, which have limits on CPU time per hour and starts per minute,
//! and by running jobs, of which idle ones hold no slot.
//!
//! [`Spending`] counts for tenants and reads the clock; the types below it, and [`JobActivity`], which
//! follows jobs, are pure: no clock, no /proc.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use governor::clock::Clock;
use governor::middleware::StateInformationMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use super::queue::{Retry, SubmitRefusal, TenantBound, TenantLimits};
use crate::ids::{JobId, TenantId};
use crate::job::{self, JobHandle};
use crate::process;

/// The CPU time and the starts that tenants have used.
#[derive(Debug)]
pub(super) struct Spending {
    opened: Instant,
    cpu: CpuUsage,
    starts: Starts,
}

impl Spending {
    pub(super) fn new() -> Self {
        Self { opened: Instant::now(), cpu: CpuUsage::default(), starts: Starts::new() }
    }

    /// Takes one start, unless the tenant has used up its CPU time or its starts. Must be the last
    /// check, so that a request that is refused for another reason keeps its start.
    pub(super) fn take_start(
        &mut self,
        tenant: TenantId,
        limits: &TenantLimits,
    ) -> Result<(), SubmitRefusal> {
        let now = self.opened.elapsed();
        let used = self.cpu.cpu_used(tenant, now);
        if let Some(limit) = limits.cpu_per_hour.filter(|limit| used >= *limit) {
            let bound = TenantBound::Cpu { used, limit };
            let retry = Retry::In(self.cpu.time_until_free(tenant, limit, now));
            return Err(SubmitRefusal::TenantLimit { bound, retry });
        }
        let Some(per_minute) = limits.starts_per_minute else { return Ok(()) };
        let taken = self.starts.take(tenant, per_minute);
        taken.map_err(|retry_after| SubmitRefusal::RateLimited { per_minute, retry_after })
    }

    pub(super) fn record_start(&mut self, id: JobId, tenant: TenantId) {
        self.cpu.record_start(id, tenant);
    }

    /// Returns the running jobs and their tenants.
    pub(super) fn running_jobs(&self) -> impl Iterator<Item = (JobId, TenantId)> {
        self.cpu.running_jobs()
    }

    /// Records the CPU time that a running job has used so far.
    pub(super) fn record_cpu(&mut self, id: JobId, cpu: Duration) {
        self.cpu.record_cpu(id, cpu, self.opened.elapsed());
    }

    /// Records the total CPU time of a job that has ended.
    pub(super) fn record_end(&mut self, id: JobId, cpu: Duration) {
        self.cpu.record_end(id, cpu, self.opened.elapsed());
    }

    /// Returns the tenants that used CPU time within the last hour, or a little longer ago.
    pub(super) fn active_tenants(&self) -> impl Iterator<Item = TenantId> {
        self.cpu.active_tenants()
    }

    /// `true` if no use is recorded that has to be forgotten later.
    pub(super) fn is_empty(&self) -> bool {
        self.cpu.active_tenants().next().is_none() && self.starts.is_empty()
    }

    /// Returns the CPU time that this tenant's jobs used within the last hour.
    pub(super) fn cpu_used(&self, tenant: TenantId) -> Duration {
        self.cpu.cpu_used(tenant, self.opened.elapsed())
    }

    /// Forgets tenants whose whole allowance is available again.
    pub(super) fn forget(&mut self) {
        self.cpu.forget(self.opened.elapsed());
        self.starts.forget();
    }
}

// CPU time by tenant: charged while jobs run and when they end, and never twice.

/// CPU time that jobs used, by tenant.
#[derive(Debug, Default)]
struct CpuUsage {
    windows: HashMap<TenantId, Window>,
    /// Running jobs, and the CPU time charged for each.
    running: HashMap<JobId, ChargedJob>,
}

#[derive(Debug)]
struct ChargedJob {
    tenant: TenantId,
    cpu: Duration,
}

impl CpuUsage {
    fn record_start(&mut self, id: JobId, tenant: TenantId) {
        self.running.insert(id, ChargedJob { tenant, cpu: Duration::ZERO });
    }

    fn running_jobs(&self) -> impl Iterator<Item = (JobId, TenantId)> {
        self.running.iter().map(|(id, charged)| (*id, charged.tenant))
    }

    /// Records the CPU time of a running job since its start. A job that ended meanwhile is already
    /// charged.
    fn record_cpu(&mut self, id: JobId, cpu: Duration, now: Duration) {
        let Some(charged) = self.running.get_mut(&id) else { return };
        // The time of an ended child is missing from the measurement until its parent ends.
        let more = cpu.saturating_sub(charged.cpu);
        if !more.is_zero() {
            charged.cpu = cpu;
            self.windows.entry(charged.tenant).or_insert_with(Window::new).add(now, more);
        }
    }

    /// Returns the tenants that have used anything and are not [forgotten](Self::forget).
    fn active_tenants(&self) -> impl Iterator<Item = TenantId> {
        self.windows.keys().copied()
    }

    /// Records the total CPU time of a job that has ended.
    fn record_end(&mut self, id: JobId, cpu: Duration, now: Duration) {
        self.record_cpu(id, cpu, now);
        self.running.remove(&id);
    }

    /// Returns the CPU time that this tenant used within the last hour.
    fn cpu_used(&self, tenant: TenantId, now: Duration) -> Duration {
        self.windows.get(&tenant).map_or(Duration::ZERO, |window| window.cpu_used(now))
    }

    /// Returns the time until this tenant is below its bound.
    fn time_until_free(&self, tenant: TenantId, limit: Duration, now: Duration) -> Duration {
        self.windows
            .get(&tenant)
            .map_or(Duration::ZERO, |window| window.time_until_free(now, limit))
    }

    /// Forgets tenants that used nothing within the last hour.
    fn forget(&mut self, now: Duration) {
        self.windows.retain(|_, window| !window.cpu_used(now).is_zero());
    }
}

// Use within the last hour, by the minute.

const MINUTES: usize = 60;
const MINUTE: Duration = Duration::from_secs(60);

/// A sum over the last hour. Times are counted from any fixed moment, and never go back.
#[derive(Debug)]
struct Window {
    /// By minute, in a ring. Invariant: what is older than an hour at minute `last` is zero.
    buckets: [Duration; MINUTES],
    /// The minute of the last change.
    last: u64,
}

impl Window {
    const fn new() -> Self {
        Self { buckets: [Duration::ZERO; MINUTES], last: 0 }
    }

    fn add(&mut self, now: Duration, used: Duration) {
        let minute = to_minute(now).max(self.last);
        for gone in (self.last + 1..=minute).take(MINUTES) {
            self.buckets[bucket_index(gone)] = Duration::ZERO;
        }
        self.last = minute;
        self.buckets[bucket_index(minute)] += used;
    }

    /// Returns the CPU time used within the hour before `now`.
    fn cpu_used(&self, now: Duration) -> Duration {
        self.cpu_used_at(to_minute(now))
    }

    /// Returns the time from `now` until less than `limit` was used within an hour, if no more is
    /// used.
    fn time_until_free(&self, now: Duration, limit: Duration) -> Duration {
        let this = to_minute(now);
        let is_free = |minute: &u64| self.cpu_used_at(*minute) < limit;
        let free = (this..=this + MINUTES as u64).find(is_free);
        let free = free.unwrap_or(this + MINUTES as u64);
        (MINUTE * u32::try_from(free).unwrap_or(u32::MAX)).saturating_sub(now)
    }

    fn cpu_used_at(&self, minute: u64) -> Duration {
        let first = (minute + 1).saturating_sub(MINUTES as u64);
        let kept = (self.last + 1).saturating_sub(MINUTES as u64);
        (first.max(kept)..=self.last).map(|minute| self.buckets[bucket_index(minute)]).sum()
    }
}

const fn to_minute(time: Duration) -> u64 {
    time.as_secs() / 60
}

const fn bucket_index(minute: u64) -> usize {
    (minute % MINUTES as u64) as usize
}

// Starts in a minute, by tenant.

/// After this long without a start a tenant has its whole allowance again.
const FULL_AGAIN: Duration = Duration::from_secs(60);

/// The recent starts of each tenant that has a bound on them.
#[derive(Debug)]
struct Starts {
    clock: Stopwatch,
    allowances: HashMap<TenantId, Allowance>,
}

type Limiter = RateLimiter<NotKeyed, InMemoryState, Stopwatch, StateInformationMiddleware>;

#[derive(Debug)]
struct Allowance {
    per_minute: NonZeroU32,
    limiter: Limiter,
    /// The time of the last request.
    asked: Duration,
}

/// Time since a fixed moment.
#[derive(Debug, Clone, Copy)]
struct Stopwatch(Instant);

impl Clock for Stopwatch {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Allowance {
    fn new(per_minute: NonZeroU32, clock: Stopwatch) -> Self {
        let limiter = RateLimiter::direct_with_clock(Quota::per_minute(per_minute), clock);
        let limiter = limiter.with_middleware();
        Self { per_minute, limiter, asked: Duration::ZERO }
    }

    /// Returns an allowance of `per_minute` starts, with as many of them used as in this one.
    fn with_rate(&self, per_minute: NonZeroU32, clock: Stopwatch) -> Self {
        // The check takes one start from an allowance that is no longer needed.
        let left = self.limiter.check().map_or(0, |then| then.remaining_burst_capacity() + 1);
        let used = self.per_minute.get().saturating_sub(left).min(per_minute.get());
        let changed = Self::new(per_minute, clock);
        if let Some(used) = NonZeroU32::new(used) {
            // The new allowance is full, and `used` never exceeds it.
            changed.limiter.check_n(used).ok();
        }
        changed
    }
}

impl Starts {
    fn new() -> Self {
        Self { clock: Stopwatch(Instant::now()), allowances: HashMap::new() }
    }

    /// Takes one start of `per_minute`, or returns the time until there is one. Starts that a
    /// tenant has used stay used when its limit changes.
    fn take(&mut self, tenant: TenantId, per_minute: NonZeroU32) -> Result<(), Duration> {
        let clock = self.clock;
        let fresh = || Allowance::new(per_minute, clock);
        let allowance = self.allowances.entry(tenant).or_insert_with(fresh);
        if allowance.per_minute != per_minute {
            *allowance = allowance.with_rate(per_minute, clock);
        }
        allowance.asked = clock.now();
        let taken = allowance.limiter.check();
        taken.map(drop).map_err(|not_until| not_until.wait_time_from(clock.now()))
    }

    /// `true` if every tenant has its whole allowance.
    fn is_empty(&self) -> bool {
        self.allowances.is_empty()
    }

    /// Forgets tenants whose whole allowance is available again.
    fn forget(&mut self) {
        let now = self.clock.now();
        self.allowances.retain(|_, allowance| now.saturating_sub(allowance.asked) < FULL_AGAIN);
    }
}

// The activity of running jobs: those that use the machine hold slots, idle ones do not.

/// A busy job becomes idle if it used at most one part in this many of one processor for a while.
const IDLE_SHARE: u32 = 50;

/// An idle job becomes busy if it used more than one part in this many of one processor.
const BUSY_SHARE: u32 = 20;

/// CPU time that says nothing: the kernel counts in steps of ten milliseconds.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// The time for which a job must be idle if another one waits for a slot.
const IDLE_TIME_IF_OTHERS_WAIT: Duration = Duration::from_millis(500);

/// The shortest time between two measurements.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);

/// The time between two measurements of idle jobs.
const IDLE_JOBS_PAUSE: Duration = Duration::from_secs(2);

/// Measurements take at most one part in this many of one processor's time, or while a job waits
/// for a slot, in [`SHARE_IF_OTHERS_WAIT`].
const COST_SHARE: u32 = 500;
const SHARE_IF_OTHERS_WAIT: u32 = 20;

/// The demand for slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotDemand {
    None,
    JobsWait,
}

/// The jobs that the next measurement covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeasuredJobs {
    Busy,
    All,
}

/// A change in the activity of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActivityChange {
    BecameIdle,
    BecameBusy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Busy,
    Idle,
}

/// The CPU time of a job at the start of the current window.
#[derive(Debug, Clone, Copy)]
struct CpuWindow {
    activity: Activity,
    cpu: Duration,
    since: Instant,
}

/// The activity of all running jobs.
#[derive(Debug)]
pub(super) struct JobActivity {
    jobs: HashMap<JobId, CpuWindow>,
    busy: usize,
    /// The CPU time that the last measurement took.
    cost: Duration,
    /// The time of the last measurement of idle jobs.
    idle_measured: Option<Instant>,
}

impl JobActivity {
    pub(super) fn new() -> Self {
        Self { jobs: HashMap::new(), busy: 0, cost: Duration::ZERO, idle_measured: None }
    }

    /// Adds a job that starts now. It counts as busy at first.
    pub(super) fn add_job(&mut self, id: JobId, now: Instant) {
        let window = CpuWindow { activity: Activity::Busy, cpu: Duration::ZERO, since: now };
        self.remove_job(id);
        self.jobs.insert(id, window);
        self.busy += 1;
    }

    pub(super) fn remove_job(&mut self, id: JobId) {
        if let Some(CpuWindow { activity: Activity::Busy, .. }) = self.jobs.remove(&id) {
            self.busy -= 1;
        }
    }

    /// Returns the time until the next measurement; `None` if there is nothing to measure.
    /// `idle_time` is the time for which a job must be idle before it gives its slot back.
    pub(super) fn next_pause(&self, demand: SlotDemand, idle_time: Duration) -> Option<Duration> {
        let (pause, share) = if self.jobs.is_empty() {
            return None;
        } else if self.busy == 0 {
            (IDLE_JOBS_PAUSE, COST_SHARE)
        } else {
            match demand {
                SlotDemand::None => (SHORTEST_PAUSE.max(idle_time / 2), COST_SHARE),
                SlotDemand::JobsWait => (SHORTEST_PAUSE, SHARE_IF_OTHERS_WAIT),
            }
        };
        Some(pause.max(self.cost * share))
    }

    /// Returns the jobs to measure now. Idle jobs may be many, and are measured less often.
    pub(super) fn choose_measured_jobs(&mut self, now: Instant) -> MeasuredJobs {
        let pause = IDLE_JOBS_PAUSE.max(self.cost * COST_SHARE);
        if self.idle_measured.is_none_or(|then| now.saturating_duration_since(then) >= pause) {
            self.idle_measured = Some(now);
            return MeasuredJobs::All;
        }
        MeasuredJobs::Busy
    }

    /// Returns the ids of the running jobs that a measurement covers.
    pub(super) fn list_ids(&self, covered: MeasuredJobs) -> impl Iterator<Item = JobId> {
        let is_covered = move |window: &CpuWindow| match covered {
            MeasuredJobs::All => true,
            MeasuredJobs::Busy => window.activity == Activity::Busy,
        };
        self.jobs.iter().filter(move |(_, window)| is_covered(window)).map(|(id, _)| *id)
    }

    /// Records the CPU time that a measurement took.
    pub(super) const fn record_cost(&mut self, cost: Duration) {
        self.cost = cost;
    }

    /// Records the CPU time that a running job has used since its start.
    pub(super) fn record(
        &mut self,
        id: JobId,
        cpu: Duration,
        now: Instant,
        demand: SlotDemand,
        idle_time: Duration,
    ) -> Option<ActivityChange> {
        let window = self.jobs.get_mut(&id)?;
        let idle_time = match demand {
            SlotDemand::None => idle_time,
            SlotDemand::JobsWait => idle_time.min(IDLE_TIME_IF_OTHERS_WAIT),
        };
        let change = window.record(cpu, now, idle_time);
        match change {
            Some(ActivityChange::BecameIdle) => self.busy -= 1,
            Some(ActivityChange::BecameBusy) => self.busy += 1,
            None => {}
        }
        change
    }

    /// Makes an idle job count as busy again, because its slot was not given back.
    pub(super) fn keep_busy(&mut self, id: JobId) {
        if let Some(window) = self.jobs.get_mut(&id)
            && window.activity == Activity::Idle
        {
            window.activity = Activity::Busy;
            self.busy += 1;
        }
    }
}

impl CpuWindow {
    fn record(
        &mut self,
        cpu: Duration,
        now: Instant,
        idle_time: Duration,
    ) -> Option<ActivityChange> {
        let length = now.saturating_duration_since(self.since);
        let has_used_more = |share: u32| {
            // The time of an ended process may be missing: the job did something.
            cpu.checked_sub(self.cpu).is_none_or(|used| used > CLOCK_TICK.max(length / share))
        };
        let change = match self.activity {
            Activity::Busy if has_used_more(IDLE_SHARE) => None,
            Activity::Busy if length < idle_time => return None,
            Activity::Busy => Some(ActivityChange::BecameIdle),
            Activity::Idle if has_used_more(BUSY_SHARE) => Some(ActivityChange::BecameBusy),
            Activity::Idle => None,
        };
        match change {
            Some(ActivityChange::BecameIdle) => self.activity = Activity::Idle,
            Some(ActivityChange::BecameBusy) => self.activity = Activity::Busy,
            None => {}
        }
        (self.cpu, self.since) = (cpu, now);
        change
    }
}

/// The CPU time of running jobs at one moment.
#[derive(Debug, Default)]
pub(super) struct CpuMeasurement {
    pub(super) used: Vec<(JobId, Duration)>,
    /// The CPU time that the measurement took.
    pub(super) cost: Duration,
}

impl CpuMeasurement {
    /// Measures these jobs. Blocks.
    pub(super) fn take(jobs: &[JobHandle]) -> Self {
        let start = process::thread_cpu_time();
        let used = job::measure_cpu(jobs);
        Self { used, cost: process::thread_cpu_time().saturating_sub(start) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_seen_of_a_job_is_not_charged_again_at_its_end() {
        let id = JobId::local(1);
        let tenant = TenantId::LOCAL;
        let mut book = CpuUsage::default();
        book.record_start(id, tenant);
        for (cpu, used) in [(4, 4), (7, 7), (6, 7)] {
            book.record_cpu(id, seconds(cpu), seconds(10));
            assert_eq!(book.cpu_used(tenant, seconds(10)), seconds(used), "after {cpu}");
        }
        assert_eq!(book.running_jobs().collect::<Vec<_>>(), [(id, tenant)]);
        book.record_end(id, seconds(9), seconds(20));
        book.record_cpu(id, seconds(20), seconds(30));
        assert_eq!(book.cpu_used(tenant, seconds(30)), seconds(9));
        assert_eq!(book.time_until_free(tenant, seconds(9), seconds(30)), seconds(3570));
        assert_eq!((book.running_jobs().count(), book.active_tenants().count()), (0, 1));
        book.forget(seconds(3599));
        assert_eq!(book.windows.len(), 1);
        book.forget(seconds(3600));
        assert_eq!(book.windows.len(), 0);
    }

    #[test]
    fn what_was_used_an_hour_ago_no_longer_counts() {
        let mut window = Window::new();
        window.add(seconds(30), seconds(10));
        window.add(seconds(90), seconds(5));
        assert_eq!(window.cpu_used(seconds(90)), seconds(15));
        assert_eq!(window.cpu_used(seconds(3599)), seconds(15));
        assert_eq!(window.cpu_used(seconds(3600)), seconds(5));
        assert_eq!(window.cpu_used(seconds(3660)), seconds(0));
        assert_eq!(window.time_until_free(seconds(100), seconds(20)), seconds(0));
        assert_eq!(window.time_until_free(seconds(100), seconds(15)), seconds(3500));
        assert_eq!(window.time_until_free(seconds(100), seconds(5)), seconds(3560));
    }

    proptest! {
        #[test]
        fn a_window_is_a_sum_over_the_last_sixty_minutes(
            steps in prop::collection::vec((0..4000_u64, 0..100_u64), 0..30),
            later in 0..8000_u64,
            limit in 1..200_u64,
        ) {
            let mut window = Window::new();
            let mut all = Vec::new();
            let mut now = 0;
            for (pause, used) in steps {
                now += pause;
                window.add(seconds(now), seconds(used));
                all.push((now / 60, used));
            }
            now += later;
            let used = |now: u64| -> u64 {
                all.iter().filter(|(at, _)| at + 60 > now / 60).map(|(_, used)| used).sum()
            };
            prop_assert_eq!(window.cpu_used(seconds(now)), seconds(used(now)));
            let free = now + window.time_until_free(seconds(now), seconds(limit)).as_secs();
            prop_assert!(used(free) < limit, "then it is free");
            prop_assert!(free == now || used(free - 1) >= limit, "and not before");
        }
    }

    fn per_minute(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    #[test]
    fn each_tenant_has_its_own_allowance_and_a_changed_one_is_not_refilled() {
        let [a, b] = ["starts-a", "starts-b"].map(|name| TenantId::parse(name).unwrap());
        let mut starts = Starts::new();
        for _ in 0..2 {
            starts.take(a, per_minute(2)).unwrap();
        }
        let wait = starts.take(a, per_minute(2)).unwrap_err();
        assert!(wait > Duration::ZERO && wait <= Duration::from_secs(30), "{wait:?}");
        starts.take(b, per_minute(2)).unwrap();
        assert!(starts.take(a, per_minute(1)).unwrap_err() > wait);
        for _ in 0..4 {
            starts.take(a, per_minute(5)).expect("one of five was used, as of one");
        }
        starts.take(a, per_minute(5)).unwrap_err();
        starts.forget();
        assert_eq!(starts.allowances.len(), 2, "nobody is fresh yet");
        for allowance in starts.allowances.values_mut() {
            allowance.asked = Duration::ZERO;
        }
        starts.clock.0 -= FULL_AGAIN;
        starts.forget();
        assert_eq!(starts.allowances.len(), 0);
    }

    const IDLE_TIME: Duration = Duration::from_secs(3);

    const fn id(number: u64) -> JobId {
        JobId::local(number)
    }

    /// Records these measurements, in milliseconds of time and of CPU time since the start.
    fn changes(demand: SlotDemand, measured: &[(u64, u64)]) -> Vec<(u64, ActivityChange)> {
        let start = Instant::now();
        let mut activity = JobActivity::new();
        activity.add_job(id(1), start);
        let record = |&(at, cpu): &(u64, u64)| {
            let [now, cpu] = [at, cpu].map(Duration::from_millis);
            let change = activity.record(id(1), cpu, start + now, demand, IDLE_TIME)?;
            Some((at, change))
        };
        measured.iter().filter_map(record).collect()
    }

    #[test]
    fn a_job_that_sleeps_becomes_idle_after_the_idle_time() {
        let sleeping: Vec<_> = (0..10).map(|step| (step * 1000, 5)).collect();
        let expected = [(3000, ActivityChange::BecameIdle)];
        assert_eq!(changes(SlotDemand::None, &sleeping), expected);
    }

    #[test]
    fn a_job_that_sleeps_becomes_idle_soon_while_another_one_waits() {
        let sleeping: Vec<_> = (0..10).map(|step| (step * 250, 5)).collect();
        let expected = [(500, ActivityChange::BecameIdle)];
        assert_eq!(changes(SlotDemand::JobsWait, &sleeping), expected);
    }

    #[test]
    fn a_job_that_works_stays_busy() {
        let working: Vec<_> = (0..100).map(|step| (step * 250, step * 25)).collect();
        for demand in [SlotDemand::None, SlotDemand::JobsWait] {
            assert_eq!(changes(demand, &working), []);
        }
    }

    #[test]
    fn a_server_that_polls_a_little_is_idle_until_it_works() {
        let polling = (0..8).map(|step| (step * 1000, step * 10));
        let working = (8..10).map(|step| (step * 1000, 80 + (step - 7) * 500));
        let expected = [(3000, ActivityChange::BecameIdle), (8000, ActivityChange::BecameBusy)];
        assert_eq!(
            changes(SlotDemand::None, &polling.chain(working).collect::<Vec<_>>()),
            expected
        );
    }

    #[test]
    fn the_end_of_a_process_counts_as_work() {
        let measured = [(1000, 900), (5000, 900), (6000, 100)];
        let expected = [(5000, ActivityChange::BecameIdle), (6000, ActivityChange::BecameBusy)];
        assert_eq!(changes(SlotDemand::None, &measured), expected);
    }

    #[test]
    fn measurements_are_rare_without_demand_and_never_expensive() {
        let start = Instant::now();
        let mut activity = JobActivity::new();
        assert_eq!(activity.next_pause(SlotDemand::JobsWait, IDLE_TIME), None);
        activity.add_job(id(1), start);
        assert_eq!(activity.next_pause(SlotDemand::JobsWait, IDLE_TIME), Some(SHORTEST_PAUSE));
        assert_eq!(activity.next_pause(SlotDemand::None, IDLE_TIME), Some(IDLE_TIME / 2));
        activity.record(id(1), Duration::ZERO, start + IDLE_TIME, SlotDemand::None, IDLE_TIME);
        assert_eq!(activity.next_pause(SlotDemand::JobsWait, IDLE_TIME), Some(IDLE_JOBS_PAUSE));
        activity.record_cost(Duration::from_millis(20));
        assert_eq!(activity.next_pause(SlotDemand::None, IDLE_TIME), Some(Duration::from_secs(10)));
    }

    #[test]
    fn idle_jobs_are_measured_less_often_than_busy_ones() {
        let start = Instant::now();
        let mut activity = JobActivity::new();
        assert_eq!(activity.choose_measured_jobs(start), MeasuredJobs::All);
        assert_eq!(activity.choose_measured_jobs(start + SHORTEST_PAUSE), MeasuredJobs::Busy);
        assert_eq!(activity.choose_measured_jobs(start + IDLE_JOBS_PAUSE), MeasuredJobs::All);
    }

    proptest! {
        #[test]
        fn the_number_of_busy_jobs_is_always_right(
            steps in prop::collection::vec((0..5_u64, 0..4_u8, 0..3000_u64, 0..200_u64), 0..200),
        ) {
            let mut activity = JobActivity::new();
            let mut now = Instant::now();
            let mut cpu = HashMap::<u64, Duration>::new();
            for (number, kind, pause, used) in steps {
                now += Duration::from_millis(pause);
                match kind {
                    0 => activity.add_job(id(number), now),
                    1 => activity.remove_job(id(number)),
                    2 => activity.keep_busy(id(number)),
                    _ => {
                        let cpu = cpu.entry(number).or_default();
                        *cpu += Duration::from_millis(used);
                        activity.record(id(number), *cpu, now, SlotDemand::None, IDLE_TIME);
                    }
                }
                prop_assert_eq!(activity.busy, activity.list_ids(MeasuredJobs::Busy).count());
            }
        }
    }
}

//! The resources that tenants use besides slots: CPU time per hour and starts per minute.
//!
//! The public type is [`Spending`], which reads the clock; the types below it are pure.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use governor::clock::Clock;
use governor::middleware::StateInformationMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use super::queue::TenantLimits;
use super::refusal::{Retry, SubmitRefusal, TenantBound};
use crate::ids::{JobId, TenantId};

/// The CPU time and the starts that tenants have used.
#[derive(Debug)]
pub(super) struct Spending {
    opened: Instant,
    cpu: CpuUsage,
    starts: Starts,
}

impl Spending {
    pub(in crate::supervisor) fn new() -> Self {
        Self { opened: Instant::now(), cpu: CpuUsage::default(), starts: Starts::new() }
    }

    /// Takes one start, unless the tenant has used up its CPU time or its starts. Must be the last
    /// check, so that a request that is refused for another reason keeps its start.
    pub(in crate::supervisor) fn take_start(
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

    pub(in crate::supervisor) fn record_start(&mut self, id: JobId, tenant: TenantId) {
        self.cpu.record_start(id, tenant);
    }

    /// Returns the running jobs and their tenants.
    pub(in crate::supervisor) fn running_jobs(&self) -> impl Iterator<Item = (JobId, TenantId)> {
        self.cpu.running_jobs()
    }

    /// Records the CPU time that a running job has used so far.
    pub(in crate::supervisor) fn record_cpu(&mut self, id: JobId, cpu: Duration) {
        self.cpu.record_cpu(id, cpu, self.opened.elapsed());
    }

    /// Records the total CPU time of a job that has ended.
    pub(in crate::supervisor) fn record_end(&mut self, id: JobId, cpu: Duration) {
        self.cpu.record_end(id, cpu, self.opened.elapsed());
    }

    /// Returns the tenants that used CPU time within the last hour, or a little longer ago.
    pub(in crate::supervisor) fn active_tenants(&self) -> impl Iterator<Item = TenantId> {
        self.cpu.active_tenants()
    }

    /// `true` if no use is recorded that has to be forgotten later.
    pub(in crate::supervisor) fn is_empty(&self) -> bool {
        self.cpu.active_tenants().next().is_none() && self.starts.is_empty()
    }

    /// Returns the CPU time that this tenant's jobs used within the last hour.
    pub(in crate::supervisor) fn cpu_used(&self, tenant: TenantId) -> Duration {
        self.cpu.cpu_used(tenant, self.opened.elapsed())
    }

    /// Forgets tenants whose whole allowance is available again.
    pub(in crate::supervisor) fn forget(&mut self) {
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

#[cfg(test)]
mod tests {
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
}

#[cfg(test)]
mod window_tests {
    use proptest::prelude::*;

    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
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
}

#[cfg(test)]
mod starts_tests {
    use super::*;

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
}

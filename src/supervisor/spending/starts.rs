//! Starts in a minute, by tenant.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use governor::clock::Clock;
use governor::middleware::StateInformationMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use crate::ids::Tenant;

/// After this long without a start a tenant has its whole allowance again.
const FULL_AGAIN: Duration = Duration::from_secs(60);

/// How many jobs each tenant started of late, for those that have a bound on it.
#[derive(Debug)]
pub(super) struct Starts {
    clock: Stopwatch,
    allowances: HashMap<Tenant, Allowance>,
}

type Limiter = RateLimiter<NotKeyed, InMemoryState, Stopwatch, StateInformationMiddleware>;

#[derive(Debug)]
struct Allowance {
    per_minute: NonZeroU32,
    limiter: Limiter,
    /// When it was last asked for.
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

    /// One of so many a minute, of which as many are used as of this one.
    fn changed(&self, per_minute: NonZeroU32, clock: Stopwatch) -> Self {
        // To ask takes one, from an allowance that is no longer needed.
        let left = self.limiter.check().map_or(0, |then| then.remaining_burst_capacity() + 1);
        let used = self.per_minute.get().saturating_sub(left).min(per_minute.get());
        let changed = Self::new(per_minute, clock);
        if let Some(used) = NonZeroU32::new(used) {
            // It is fresh, and never asked for more than it holds.
            changed.limiter.check_n(used).ok();
        }
        changed
    }
}

impl Starts {
    pub(super) fn new() -> Self {
        Self { clock: Stopwatch(Instant::now()), allowances: HashMap::new() }
    }

    /// Takes one start of so many a minute, or says in how long there is one. What a tenant has
    /// used stays used when its bound has changed since.
    pub(super) fn take(&mut self, tenant: Tenant, per_minute: NonZeroU32) -> Result<(), Duration> {
        let clock = self.clock;
        let fresh = || Allowance::new(per_minute, clock);
        let allowance = self.allowances.entry(tenant).or_insert_with(fresh);
        if allowance.per_minute != per_minute {
            *allowance = allowance.changed(per_minute, clock);
        }
        allowance.asked = clock.now();
        let taken = allowance.limiter.check();
        taken.map(drop).map_err(|not_until| not_until.wait_time_from(clock.now()))
    }

    /// Whether everybody has its whole allowance.
    pub(super) fn is_empty(&self) -> bool {
        self.allowances.is_empty()
    }

    /// Forgets whoever has its whole allowance again.
    pub(super) fn forget(&mut self) {
        let now = self.clock.now();
        self.allowances.retain(|_, allowance| now.saturating_sub(allowance.asked) < FULL_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_minute(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    #[test]
    fn each_tenant_has_its_own_allowance_and_a_changed_one_is_not_refilled() {
        let [a, b] = ["starts-a", "starts-b"].map(|name| Tenant::named(name).unwrap());
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

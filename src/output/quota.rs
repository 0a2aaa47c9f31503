//! How much all logs together may hold, and those of each tenant.
//!
//! A log takes room in steps ahead of its writes, so that most appends touch no shared counter.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::telemetry::{DropReason, events};

/// A log reserves at least so much at once, and at most so much ahead of what it holds.
const SMALLEST_STEP: u64 = 4 * 1024;
const LARGEST_STEP: u64 = 1024 * 1024;

/// What shall be left of a cap: more than what is read of all pipes of a job before the next look.
const SPARE_SHARE: u64 = 10;
const SPARE_BYTES: u64 = 512 * 1024;
/// How long a log waits for room before it goes on without.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long nobody waits after a wish that nothing could be freed for.
const NO_HOPE: Duration = Duration::from_millis(50);

/// The caps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Bytes that all logs together may hold.
    pub store_bytes: u64,
    /// Bytes that the logs of one tenant may hold.
    pub tenant_bytes: u64,
}

/// What all logs of a server hold, in memory and on disk, and how much that may be.
///
/// Invariant: no account is ever above its limit. What a log holds is given back when its last
/// reader is gone.
#[derive(Debug)]
pub struct Quota {
    store: Account,
    tenant_bytes: u64,
    tenants: Mutex<HashMap<String, Arc<Account>>>,
    wanted: Notify,
    answers: watch::Sender<Answers>,
}

/// What came of a wish for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// There is room, or there is more than before.
    Room,
    /// Nothing could be freed.
    NoRoom,
}

/// What came of all wishes for room.
#[derive(Debug, Clone, Copy, Default)]
struct Answers {
    count: u64,
    /// When nothing could be freed, if that is how the last one ended.
    fruitless: Option<Instant>,
}

impl Answers {
    fn leaves_hope(&self) -> bool {
        self.fruitless.is_none_or(|at| at.elapsed() > NO_HOPE)
    }
}

impl Quota {
    /// With nothing held yet.
    #[must_use]
    pub fn new(limits: QuotaLimits) -> Arc<Self> {
        Arc::new(Self {
            store: Account::new(limits.store_bytes),
            tenant_bytes: limits.tenant_bytes,
            tenants: Mutex::default(),
            wanted: Notify::new(),
            answers: watch::Sender::default(),
        })
    }

    /// With no caps.
    #[must_use]
    pub fn unlimited() -> Arc<Self> {
        Self::new(QuotaLimits { store_bytes: u64::MAX, tenant_bytes: u64::MAX })
    }

    /// What a tenant's logs take their room from.
    #[must_use]
    pub fn allowance(self: &Arc<Self>, tenant: &str) -> Allowance {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        // Tenants without a log are forgotten here: the map stays as small as the use.
        tenants.retain(|name, account| name == tenant || Arc::strong_count(account) > 1);
        let account = tenants
            .entry(tenant.to_owned())
            .or_insert_with(|| Arc::new(Account::new(self.tenant_bytes)));
        Allowance { quota: Arc::clone(self), tenant: Arc::clone(account) }
    }

    /// Bytes that are held or reserved for all logs.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.store.used.load(Ordering::Relaxed)
    }

    /// Bytes that all logs together may hold.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.store.limit
    }

    /// Which caps are nearly reached, and how much would have to be given back.
    #[must_use]
    pub fn shortages(&self) -> Vec<Shortage> {
        let of_store = self.store.shortage().map(|bytes| Shortage { tenant: None, bytes });
        let tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let of_tenants = tenants.iter().filter_map(|(name, account)| {
            let tenant = Some(name.clone());
            account.shortage().map(|bytes| Shortage { tenant, bytes })
        });
        of_store.into_iter().chain(of_tenants).collect()
    }

    /// Returns once a log was refused room, or a cap is nearly reached, since the last return.
    /// For one waiter; a wish that comes before the wait is not lost.
    pub async fn wants_room(&self) {
        self.wanted.notified().await;
    }

    /// Tells those who wait for room what came of it.
    pub fn answer(&self, answer: Answer) {
        let fruitless = match answer {
            Answer::Room => None,
            Answer::NoRoom => Some(Instant::now()),
        };
        self.answers.send_modify(|last| *last = Answers { count: last.count + 1, fruitless });
    }
}

/// Room that is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// Whose cap is near; `None`: that of the whole store.
    pub tenant: Option<String>,
    /// How many bytes would have to be given back.
    pub bytes: u64,
}

/// One counter and its limit.
#[derive(Debug)]
struct Account {
    limit: u64,
    used: AtomicU64,
}

impl Account {
    const fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0) }
    }

    /// Takes all of it or nothing.
    fn take(&self, bytes: u64) -> bool {
        let within = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether less is left than shall be, or would be after so many bytes more.
    fn is_short_after(&self, bytes: u64) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(bytes) > self.limit - self.spare()
    }

    /// What is missing to what shall be left.
    fn shortage(&self) -> Option<u64> {
        let used = self.used.load(Ordering::Relaxed);
        used.checked_sub(self.limit - self.spare()).filter(|bytes| *bytes > 0)
    }

    /// A tenth; of a small cap a quarter at the most.
    fn spare(&self) -> u64 {
        (self.limit / SPARE_SHARE).max(SPARE_BYTES.min(self.limit / 4))
    }
}

/// One tenant's share of a [`Quota`].
#[derive(Debug, Clone)]
pub struct Allowance {
    quota: Arc<Quota>,
    tenant: Arc<Account>,
}

impl Allowance {
    /// An allowance that never refuses.
    #[must_use]
    pub fn unlimited() -> Self {
        Quota::unlimited().allowance("")
    }

    /// An account of something that holds nothing yet.
    pub(super) fn charge(&self) -> Charge {
        Charge { allowance: self.clone(), reserved: 0, used: 0 }
    }

    fn take(&self, bytes: u64) -> Result<(), DropReason> {
        if !self.tenant.take(bytes) {
            return Err(DropReason::TenantFull);
        }
        if !self.quota.store.take(bytes) {
            self.tenant.give_back(bytes);
            return Err(DropReason::StoreFull);
        }
        if self.is_short_after(0) {
            self.quota.wanted.notify_one();
        }
        Ok(())
    }

    fn is_short_after(&self, bytes: u64) -> bool {
        self.tenant.is_short_after(bytes) || self.quota.store.is_short_after(bytes)
    }

    /// Whether to wait for room before more is written: a cap is near, and something may be freed.
    pub(super) fn wants_room(&self) -> bool {
        self.is_short_after(0) && self.quota.answers.borrow().leaves_hope()
    }

    /// Asks for room and waits until some was freed, none can be, or patience is over.
    pub(super) async fn wait_for_room(&self) {
        let mut answers = self.quota.answers.subscribe();
        let seen = answers.borrow().count;
        self.quota.wanted.notify_one();
        let answered = answers.wait_for(|now| now.count > seen);
        // Late or not: what cannot be kept is counted.
        tokio::time::timeout(PATIENCE, answered).await.ok();
    }

    fn give_back(&self, bytes: u64) {
        self.tenant.give_back(bytes);
        self.quota.store.give_back(bytes);
    }
}

/// What one part of a log holds. Dropping it gives everything back.
///
/// Invariant: `used` is at most `reserved`, and `reserved` is taken from the allowance.
#[derive(Debug)]
pub(super) struct Charge {
    allowance: Allowance,
    reserved: u64,
    used: u64,
}

impl Charge {
    /// Takes room for so many bytes, or for the first of them, and says why it is not for all.
    pub(super) fn take(&mut self, wanted: usize) -> (usize, Option<DropReason>) {
        let why = self.reserve(wanted as u64).err();
        let taken = (wanted as u64).min(self.reserved - self.used);
        self.used += taken;
        events::output_stored(taken);
        (taken as usize, why)
    }

    /// Gives back room that was taken and not needed, or is no longer needed.
    pub(super) fn put_back(&mut self, bytes: usize) {
        let bytes = (bytes as u64).min(self.used);
        self.used -= bytes;
        events::output_freed(bytes);
    }

    /// Gives back what was reserved ahead, once nothing will follow.
    pub(super) fn settle(&mut self) {
        self.allowance.give_back(self.reserved - self.used);
        self.reserved = self.used;
    }

    fn reserve(&mut self, wanted: u64) -> Result<(), DropReason> {
        let short = (self.used + wanted).saturating_sub(self.reserved);
        if short == 0 {
            return Ok(());
        }
        let ahead = short.max(self.used.clamp(SMALLEST_STEP, LARGEST_STEP));
        // Where room is short, what nobody has written yet must not cost a finished log.
        let step = if self.allowance.is_short_after(ahead) { short } else { ahead };
        self.allowance.take(step).inspect_err(|_| self.allowance.quota.wanted.notify_one())?;
        self.reserved += step;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.allowance.give_back(self.reserved);
        events::output_freed(self.used);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn quota(store_bytes: u64, tenant_bytes: u64) -> Arc<Quota> {
        Quota::new(QuotaLimits { store_bytes, tenant_bytes })
    }

    #[test]
    fn each_cap_refuses_by_its_own_name_and_takes_the_first_bytes() {
        let quota = quota(10_000, 6_000);
        let mut one = quota.allowance("one").charge();
        assert_eq!(one.take(7_000), (0, Some(DropReason::TenantFull)));
        assert_eq!(one.take(5_000), (5_000, None));
        let mut two = quota.allowance("two").charge();
        assert_eq!(two.take(6_000), (0, Some(DropReason::StoreFull)));
        assert_eq!(two.take(5_000), (5_000, None));
        drop(one);
        assert_eq!(two.take(1_000), (1_000, None), "room that comes back is used again");
        assert_eq!(quota.used(), 6_000);
        drop(two);
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn a_small_log_reserves_little_and_gives_back_what_it_did_not_need() {
        let quota = quota(1 << 30, 1 << 30);
        let mut charge = quota.allowance("").charge();
        charge.take(10);
        assert_eq!(quota.used(), SMALLEST_STEP);
        charge.settle();
        assert_eq!(quota.used(), 10);
        charge.put_back(4);
        charge.settle();
        assert_eq!(quota.used(), 6);
    }

    #[test]
    fn tenants_without_a_log_are_forgotten() {
        let quota = quota(100, 100);
        let kept = quota.allowance("kept");
        for number in 0..100 {
            drop(quota.allowance(&number.to_string()));
        }
        assert!(quota.tenants.lock().unwrap().len() <= 2);
        drop(kept);
    }

    #[tokio::test]
    async fn whoever_frees_room_is_told_when_it_is_short() {
        let quota = quota(100_000, 100_000);
        let mut charge = quota.allowance("").charge();
        charge.take(1_000);
        let told = || tokio::time::timeout(Duration::from_secs(60), quota.wants_room());
        let early = tokio::time::timeout(Duration::ZERO, quota.wants_room()).await;
        assert!(early.is_err(), "there is room enough");
        charge.take(95_000);
        told().await.expect("a cap is near");
        charge.take(10_000);
        told().await.expect("a log was refused");
    }

    proptest! {
        #[test]
        fn no_cap_is_ever_passed_and_nothing_is_lost(
            steps in prop::collection::vec((0..4_usize, 0..20_000_usize, prop::bool::ANY), 0..60),
        ) {
            let quota = quota(60_000, 40_000);
            let mut charges: Vec<Charge> =
                (0..4).map(|n| quota.allowance(if n < 2 { "a" } else { "b" }).charge()).collect();
            for (which, bytes, takes) in steps {
                let charge = &mut charges[which];
                let before = charge.used;
                if takes {
                    let (taken, why) = charge.take(bytes);
                    prop_assert_eq!(why.is_none(), taken == bytes);
                } else {
                    charge.put_back(bytes);
                    prop_assert_eq!(charge.used, before.saturating_sub(bytes as u64));
                }
                prop_assert!(quota.used() <= 60_000);
                prop_assert_eq!(quota.used(), charges.iter().map(|c| c.reserved).sum::<u64>());
            }
            charges.clear();
            prop_assert_eq!(quota.used(), 0);
        }
    }
}

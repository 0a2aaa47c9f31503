//! Limits on the bytes that all logs together hold, and the logs of each tenant.
//!
//! A log reserves quota in steps ahead of its writes, so that most appends touch no shared counter.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore, watch};

use crate::counters::{Counters, DropReason, Tier};
use crate::read_memory::{ReadBusy, ReadFrom, ReadMemory, ReadPermit};

/// The smallest step in which a log reserves quota, and the most that it reserves ahead of its
/// bytes.
const SMALLEST_STEP: u64 = 4 * 1024;
const LARGEST_STEP: u64 = 1024 * 1024;

/// The longest time that a log waits for room before it goes on without. Every request for room is
/// answered, also if nothing could be freed; this limit is for a host that is too busy to answer.
/// It is less than the time that a job waits for its last bytes.
const MAX_ROOM_WAIT: Duration = Duration::from_secs(1);

/// The memory for reads if nothing else is limited either.
const UNLIMITED_READS: usize = 1024 * 1024 * 1024;

/// The limits of a [`Quota`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Bytes that all logs together may hold.
    pub store_bytes: u64,
    /// Bytes that the logs of one tenant may hold.
    pub tenant_bytes: u64,
    /// Different limits for some tenants, by name.
    pub tenants: HashMap<String, u64>,
}

impl QuotaLimits {
    fn tenant_limit(&self, tenant: &str) -> u64 {
        self.tenants.get(tenant).copied().unwrap_or(self.tenant_bytes)
    }

    fn cap_source(&self, tenant: &str) -> CapSource {
        if self.tenants.contains_key(tenant) { CapSource::Own } else { CapSource::Shared }
    }
}

/// The setting that a tenant's limit comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapSource {
    /// A setting for this tenant alone.
    Own,
    /// The setting for every tenant without one of its own.
    Shared,
}

/// The bytes that all logs of a server hold, in memory and on disk, and their limits.
///
/// Invariant: no write makes a counter grow above its limit; a counter is above its limit only
/// after the limit was [lowered](Quota::change), or logs of an earlier server were opened. The bytes of a log are released when its last reader is
/// dropped.
#[derive(Debug)]
pub struct Quota {
    store: UsageCounter,
    tenants: Mutex<Tenants>,
    room_requested: Notify,
    /// The number of requests for room that were answered.
    reclaims: watch::Sender<u64>,
    /// The memory for reads of logs.
    reads: ReadMemory,
    counters: Arc<Counters>,
}

/// The usage of tenants that have a log, and the limits.
#[derive(Debug)]
struct Tenants {
    limits: QuotaLimits,
    accounts: HashMap<String, Arc<TenantAccount>>,
}

/// The usage of one tenant.
#[derive(Debug)]
struct TenantAccount {
    name: String,
    usage: UsageCounter,
}

/// The bytes that the logs of one tenant hold, and their limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantUsage {
    /// Bytes that are held or reserved.
    pub used: u64,
    /// Bytes that may be held.
    pub limit: u64,
    /// The setting that the limit comes from.
    pub cap: CapSource,
}

impl TenantUsage {
    /// `true` if another log could keep next to nothing.
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.limit.saturating_sub(self.used) < least_spare(self.limit)
    }
}

/// The result of an attempt to free room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReclaimOutcome {
    /// Some room is free, or more than before.
    Room,
    /// Nothing could be freed.
    NoRoom,
}

impl Quota {
    /// Creates a quota with nothing held yet. Reads of all logs together may take `read_bytes` of
    /// memory.
    #[must_use]
    pub fn new(limits: QuotaLimits, read_bytes: usize, counters: Arc<Counters>) -> Arc<Self> {
        Arc::new(Self {
            store: UsageCounter::new(limits.store_bytes),
            tenants: Mutex::new(Tenants { limits, accounts: HashMap::new() }),
            room_requested: Notify::new(),
            reclaims: watch::Sender::default(),
            reads: ReadMemory::new(read_bytes, Arc::clone(&counters)),
            counters,
        })
    }

    /// Creates a quota without limits on stored bytes.
    #[must_use]
    pub fn unlimited() -> Arc<Self> {
        let store_bytes = u64::MAX;
        let tenant_bytes = u64::MAX;
        let limits = QuotaLimits { store_bytes, tenant_bytes, tenants: HashMap::new() };
        Self::new(limits, UNLIMITED_READS, Arc::default())
    }

    /// The memory for reads of logs.
    #[must_use]
    pub const fn read_memory(&self) -> &ReadMemory {
        &self.reads
    }

    /// Changes the limits, also for logs that are being written. No stored byte is dropped: if more
    /// is held than the new limits allow, nothing is added until enough was freed.
    pub fn change(&self, limits: QuotaLimits) {
        let mut tenants = self.tenants();
        self.store.set_limit(limits.store_bytes);
        for (tenant, account) in &tenants.accounts {
            account.usage.set_limit(limits.tenant_limit(tenant));
        }
        tenants.limits = limits;
        drop(tenants);
        self.room_requested.notify_one();
    }

    /// The usage of this tenant.
    #[must_use]
    pub fn tenant_usage(&self, tenant: &str) -> TenantUsage {
        self.tenants().usage(tenant)
    }

    /// The usage of every tenant that has a log or a limit of its own.
    #[must_use]
    pub fn usage_by_tenant(&self) -> BTreeMap<String, TenantUsage> {
        let tenants = self.tenants();
        let names = tenants.limits.tenants.keys().chain(tenants.accounts.keys());
        names.map(|name| (name.clone(), tenants.usage(name))).collect()
    }

    fn tenants(&self) -> MutexGuard<'_, Tenants> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The quota of one tenant, which its logs are charged to.
    #[must_use]
    pub fn tenant_quota(self: &Arc<Self>, tenant: &str) -> TenantQuota {
        let mut tenants = self.tenants();
        let Tenants { limits, accounts } = &mut *tenants;
        // Removes tenants without a log, so that the map stays as small as its use.
        accounts.retain(|name, account| name == tenant || Arc::strong_count(account) > 1);
        let account = accounts.entry(tenant.to_owned()).or_insert_with(|| {
            let usage = UsageCounter::new(limits.tenant_limit(tenant));
            Arc::new(TenantAccount { name: tenant.to_owned(), usage })
        });
        TenantQuota { quota: Arc::clone(self), account: Arc::clone(account) }
    }

    /// Bytes that are held or reserved for all logs.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.store.used()
    }

    /// Bytes that all logs together may hold.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.store.limit()
    }

    /// The limits that are nearly reached, and the bytes that would have to be freed.
    #[must_use]
    pub fn shortages(&self) -> Vec<Shortage> {
        let of_store = self.store.shortage().map(|bytes| Shortage { tenant: None, bytes });
        let tenants = self.tenants();
        let of_tenants = tenants.accounts.iter().filter_map(|(name, account)| {
            let tenant = Some(name.clone());
            account.usage.shortage().map(|bytes| Shortage { tenant, bytes })
        });
        of_store.into_iter().chain(of_tenants).collect()
    }

    /// Waits until a log was refused room, or a limit was nearly reached, since the last return.
    /// For one waiter; a request that comes before the wait is not lost.
    pub async fn wait_for_room_request(&self) {
        self.room_requested.notified().await;
    }

    /// Reports the result of freeing room to the logs that wait for it.
    pub fn report_reclaim(&self, outcome: ReclaimOutcome) {
        let tenants = self.tenants();
        for usage in tenants.accounts.values().map(|account| &account.usage).chain([&self.store]) {
            usage.record_reclaim(outcome);
        }
        drop(tenants);
        self.reclaims.send_modify(|count| *count += 1);
    }

    /// Records that a job of this tenant has ended: its output can be freed, so waiting for room
    /// may help again.
    pub fn note_reclaimable(&self, tenant: &str) {
        self.store.record_reclaim(ReclaimOutcome::Room);
        if let Some(account) = self.tenants().accounts.get(tenant) {
            account.usage.record_reclaim(ReclaimOutcome::Room);
        }
    }
}

impl Tenants {
    fn usage(&self, tenant: &str) -> TenantUsage {
        let used = self.accounts.get(tenant).map_or(0, |account| account.usage.used());
        TenantUsage {
            used,
            limit: self.limits.tenant_limit(tenant),
            cap: self.limits.cap_source(tenant),
        }
    }
}

/// A limit that is nearly reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// The tenant whose limit it is; `None` for the limit of the whole store.
    pub tenant: Option<String>,
    /// The bytes that would have to be freed.
    pub bytes: u64,
}

/// One tenant's share of a [`Quota`].
#[derive(Debug, Clone)]
pub struct TenantQuota {
    quota: Arc<Quota>,
    account: Arc<TenantAccount>,
}

impl TenantQuota {
    /// Creates a quota that never refuses.
    #[must_use]
    pub fn unlimited() -> Self {
        Quota::unlimited().tenant_quota("")
    }

    /// Reserves memory for a read of a log of this tenant.
    pub(crate) async fn reserve_read(
        &self,
        from: ReadFrom,
        bytes: usize,
        wait: Duration,
    ) -> Result<ReadPermit, ReadBusy> {
        self.quota.reads.reserve(from, &self.account.usage.read_queue, bytes, wait).await
    }

    /// Opens a charge that holds nothing yet.
    pub(crate) fn open_charge(&self) -> QuotaCharge {
        QuotaCharge {
            tenant_quota: self.clone(),
            reserved: 0,
            held: BytesByTier::new(Arc::clone(&self.quota.counters)),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.quota.counters
    }

    fn take(&self, bytes: u64) -> Result<(), DropReason> {
        if !self.account.usage.take(bytes) {
            return Err(match self.quota.tenants().limits.cap_source(&self.account.name) {
                CapSource::Own => DropReason::OwnFull,
                CapSource::Shared => DropReason::TenantFull,
            });
        }
        if !self.quota.store.take(bytes) {
            self.account.usage.give_back(bytes);
            return Err(DropReason::StoreFull);
        }
        if self.is_short_after(0) {
            self.quota.room_requested.notify_one();
        }
        Ok(())
    }

    fn is_short_after(&self, bytes: u64) -> bool {
        self.account.usage.is_short_after(bytes) || self.quota.store.is_short_after(bytes)
    }

    /// `true` if a writer should wait for room: a limit is near, and something may be freed.
    pub(crate) fn should_wait_for_room(&self) -> bool {
        self.account.usage.should_wait_for_room() || self.quota.store.should_wait_for_room()
    }

    /// Asks for room. Waits until some was freed, none can be, or [`MAX_ROOM_WAIT`] is over.
    pub(crate) async fn wait_for_room(&self) {
        let mut reclaims = self.quota.reclaims.subscribe();
        let seen = *reclaims.borrow();
        self.quota.room_requested.notify_one();
        let answered = reclaims.wait_for(|now| *now > seen);
        // On a timeout the write goes on: bytes that cannot be kept are counted.
        tokio::time::timeout(MAX_ROOM_WAIT, answered).await.ok();
    }

    fn give_back(&self, bytes: u64) {
        self.account.usage.give_back(bytes);
        self.quota.store.give_back(bytes);
    }
}

/// The bytes that one segment of a log holds. Dropping the charge releases all of them.
///
/// Invariant: `held` is at most `reserved`, and `reserved` is taken from the tenant's quota.
#[derive(Debug)]
pub(crate) struct QuotaCharge {
    tenant_quota: TenantQuota,
    reserved: u64,
    pub(crate) held: BytesByTier,
}

impl QuotaCharge {
    /// Takes room for this many bytes, or for the first of them. Returns the number, and the reason
    /// if it is not all of them.
    pub(crate) fn take(&mut self, tier: Tier, wanted: usize) -> (usize, Option<DropReason>) {
        let why = self.reserve(wanted as u64).err();
        let taken = (wanted as u64).min(self.reserved - self.held.total());
        self.held.add(tier, taken);
        (taken as usize, why)
    }

    /// Charges bytes that are stored already, even above the limits.
    pub(crate) fn charge_stored(&mut self, tier: Tier, bytes: u64) {
        self.tenant_quota.account.usage.add_stored(bytes);
        self.tenant_quota.quota.store.add_stored(bytes);
        self.reserved += bytes;
        self.held.add(tier, bytes);
    }

    /// Returns room that was taken and is not needed.
    pub(crate) fn put_back(&mut self, tier: Tier, bytes: u64) {
        self.held.remove(tier, bytes);
    }

    /// Moves this many bytes to another tier.
    pub(crate) fn shift(&mut self, from: Tier, to: Tier, bytes: u64) {
        self.held.shift(from, to, bytes);
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.tenant_quota.counters()
    }

    /// Releases the quota that was reserved ahead. For a segment that gets no more bytes.
    pub(crate) fn release_unused(&mut self) {
        let used = self.held.total();
        self.tenant_quota.give_back(self.reserved - used);
        self.reserved = used;
    }

    fn reserve(&mut self, wanted: u64) -> Result<(), DropReason> {
        let used = self.held.total();
        let short = (used + wanted).saturating_sub(self.reserved);
        if short == 0 {
            return Ok(());
        }
        let ahead = short.max(used.clamp(SMALLEST_STEP, LARGEST_STEP));
        // If room is short, a reservation for bytes that nobody has written yet must not evict a
        // finished log.
        let step = if self.tenant_quota.is_short_after(ahead) { short } else { ahead };
        self.tenant_quota
            .take(step)
            .inspect_err(|_| self.tenant_quota.quota.room_requested.notify_one())?;
        self.reserved += step;
        Ok(())
    }
}

impl Drop for QuotaCharge {
    fn drop(&mut self) {
        self.tenant_quota.give_back(self.reserved);
    }
}

/// The spare room that should be left of a limit: more than the pump reads from all pipes of a job
/// before it checks again.
const SPARE_SHARE: u64 = 10;
const SPARE_BYTES: u64 = 512 * 1024;
/// The time during which no writer waits after an attempt that could free nothing.
const RECLAIM_PAUSE: Duration = Duration::from_millis(50);

/// The bytes held against one limit, and whether waiting for more room may help.
#[derive(Debug)]
struct UsageCounter {
    limit: AtomicU64,
    used: AtomicU64,
    /// The time of the last attempt to free room, if it freed nothing.
    last_failed_reclaim: Mutex<Option<Instant>>,
    /// A queue of one: the permit is held by the read of this tenant that gets memory next.
    read_queue: Semaphore,
}

/// The least spare room of a limit; with less, the limit counts as reached.
const fn least_spare(limit: u64) -> u64 {
    if limit / 4 < SPARE_BYTES { limit / 4 } else { SPARE_BYTES }
}

impl UsageCounter {
    const fn new(limit: u64) -> Self {
        let last_failed_reclaim = Mutex::new(None);
        let read_queue = Semaphore::const_new(1);
        Self {
            limit: AtomicU64::new(limit),
            used: AtomicU64::new(0),
            last_failed_reclaim,
            read_queue,
        }
    }

    fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Records the result of an attempt to free room, if it concerned this counter.
    fn record_reclaim(&self, outcome: ReclaimOutcome) {
        let mut last_failed_reclaim =
            self.last_failed_reclaim.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            ReclaimOutcome::Room => *last_failed_reclaim = None,
            ReclaimOutcome::NoRoom if self.is_short_after(0) => {
                *last_failed_reclaim = Some(Instant::now())
            }
            ReclaimOutcome::NoRoom => {}
        }
    }

    /// `true` if room is short, and something may be freed.
    fn should_wait_for_room(&self) -> bool {
        let may_succeed = || {
            let last_failed_reclaim =
                self.last_failed_reclaim.lock().unwrap_or_else(PoisonError::into_inner);
            last_failed_reclaim.is_none_or(|at| at.elapsed() > RECLAIM_PAUSE)
        };
        self.is_short_after(0) && may_succeed()
    }

    /// Takes all of the bytes or none. Returns `false` if it took none.
    fn take(&self, bytes: u64) -> bool {
        let within = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit());
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    fn add_stored(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// `true` if less than the spare room is left, or would be left after this many more bytes.
    fn is_short_after(&self, bytes: u64) -> bool {
        self.used().saturating_add(bytes) > self.high_water_mark()
    }

    /// The bytes that are missing to the spare room, if any.
    fn shortage(&self) -> Option<u64> {
        self.used().checked_sub(self.high_water_mark()).filter(|bytes| *bytes > 0)
    }

    /// The usage above which room is short: a tenth of the limit stays spare, at most a quarter of
    /// a small limit.
    fn high_water_mark(&self) -> u64 {
        let limit = self.limit();
        limit - (limit / SPARE_SHARE).max(least_spare(limit))
    }
}

/// The bytes of a segment by tier. Every change is reported to the counters; dropping the value
/// counts all bytes as removed.
///
/// Invariant: every byte is in exactly one tier.
#[derive(Debug)]
pub(crate) struct BytesByTier {
    counters: Arc<Counters>,
    /// In the order of [`Tier::ALL`].
    pub(crate) bytes: [u64; Tier::ALL.len()],
}

impl BytesByTier {
    const fn new(counters: Arc<Counters>) -> Self {
        Self { counters, bytes: [0; Tier::ALL.len()] }
    }

    fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    fn add(&mut self, tier: Tier, bytes: u64) {
        self.bytes[tier as usize] += bytes;
        self.counters.add_stored(tier, bytes);
    }

    /// Removes this many bytes, or all that the tier has. Returns the number.
    fn remove(&mut self, tier: Tier, bytes: u64) -> u64 {
        let bytes = bytes.min(self.bytes[tier as usize]);
        self.bytes[tier as usize] -= bytes;
        self.counters.remove_stored(tier, bytes);
        bytes
    }

    /// Moves this many bytes, or all that the tier has, to another tier.
    fn shift(&mut self, from: Tier, to: Tier, bytes: u64) {
        let bytes = self.remove(from, bytes);
        self.add(to, bytes);
    }
}

impl Drop for BytesByTier {
    fn drop(&mut self) {
        for tier in Tier::ALL {
            self.counters.remove_stored(tier, self.bytes[tier as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn quota(store_bytes: u64, tenant_bytes: u64) -> Arc<Quota> {
        Quota::new(limits(store_bytes, tenant_bytes), 1 << 20, Arc::default())
    }

    fn limits(store_bytes: u64, tenant_bytes: u64) -> QuotaLimits {
        QuotaLimits { store_bytes, tenant_bytes, tenants: HashMap::new() }
    }

    #[test]
    fn each_limit_refuses_with_its_own_reason() {
        let quota = quota(10_000, 6_000);
        let mut one = quota.tenant_quota("one").open_charge();
        assert_eq!(one.take(Tier::Memory, 7_000), (0, Some(DropReason::TenantFull)));
        assert_eq!(one.take(Tier::Memory, 5_000), (5_000, None));
        let mut two = quota.tenant_quota("two").open_charge();
        assert_eq!(two.take(Tier::Memory, 6_000), (0, Some(DropReason::StoreFull)));
        assert_eq!(two.take(Tier::Memory, 5_000), (5_000, None));
        drop(one);
        assert_eq!(
            two.take(Tier::Memory, 1_000),
            (1_000, None),
            "room that comes back is used again"
        );
        assert_eq!(quota.used(), 6_000);
        drop(two);
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn a_small_log_reserves_little_and_releases_the_rest() {
        let quota = quota(1 << 30, 1 << 30);
        let mut charge = quota.tenant_quota("").open_charge();
        charge.take(Tier::Memory, 10);
        assert_eq!(quota.used(), SMALLEST_STEP);
        charge.release_unused();
        assert_eq!(quota.used(), 10);
        charge.put_back(Tier::Memory, 4);
        charge.release_unused();
        assert_eq!(quota.used(), 6);
    }

    #[test]
    fn tenants_without_a_log_are_forgotten() {
        let quota = quota(100, 100);
        let kept = quota.tenant_quota("kept");
        for number in 0..100 {
            drop(quota.tenant_quota(&number.to_string()));
        }
        assert!(quota.tenants().accounts.len() <= 2);
        drop(kept);
    }

    #[test]
    fn a_tenant_with_its_own_limit_has_its_own_reason() {
        let own = HashMap::from([("small".to_owned(), 5_000)]);
        let quota = Quota::new(
            QuotaLimits { tenants: own, ..limits(100_000, 50_000) },
            1 << 20,
            Arc::default(),
        );
        let mut small = quota.tenant_quota("small").open_charge();
        assert_eq!(small.take(Tier::Memory, 4_500), (4_500, None));
        assert_eq!(small.take(Tier::Memory, 501), (0, Some(DropReason::OwnFull)));
        assert!(quota.tenant_usage("small").is_full());
        let other = quota.tenant_usage("other");
        assert_eq!(other, TenantUsage { used: 0, limit: 50_000, cap: CapSource::Shared });
        assert!(!other.is_full());
        let stored = quota.usage_by_tenant();
        assert_eq!(stored["small"], TenantUsage { used: 4_500, limit: 5_000, cap: CapSource::Own });
        assert_eq!(stored.len(), 1, "who has neither log nor cap is not listed");
    }

    #[test]
    fn new_limits_apply_to_open_logs() {
        let quota = quota(100_000, 5_000);
        let mut charge = quota.tenant_quota("a").open_charge();
        assert_eq!(charge.take(Tier::Memory, 5_000), (5_000, None));
        assert_eq!(charge.take(Tier::Memory, 1), (0, Some(DropReason::TenantFull)));
        let own = HashMap::from([("a".to_owned(), 20_000)]);
        quota.change(QuotaLimits { tenants: own, ..limits(100_000, 5_000) });
        assert_eq!(charge.take(Tier::Memory, 10_000), (10_000, None));
        quota.change(limits(2_000, 1_000));
        let cap = CapSource::Shared;
        assert_eq!(quota.tenant_usage("a"), TenantUsage { used: 15_000, limit: 1_000, cap });
        assert_eq!((quota.used(), quota.limit()), (15_000, 2_000), "nothing is dropped");
        assert!(quota.tenant_usage("a").is_full());
        assert_eq!(charge.take(Tier::Memory, 1), (0, Some(DropReason::TenantFull)));
        assert_eq!(quota.shortages().len(), 2);
        drop(charge);
        assert!(quota.shortages().is_empty());
    }

    #[tokio::test]
    async fn a_shortage_of_room_wakes_the_waiter() {
        let quota = quota(100_000, 100_000);
        let mut charge = quota.tenant_quota("").open_charge();
        charge.take(Tier::Memory, 1_000);
        let told = || tokio::time::timeout(Duration::from_secs(60), quota.wait_for_room_request());
        let early = tokio::time::timeout(Duration::ZERO, quota.wait_for_room_request()).await;
        assert!(early.is_err(), "there is room enough");
        charge.take(Tier::Memory, 95_000);
        told().await.expect("a cap is near");
        charge.take(Tier::Memory, 10_000);
        told().await.expect("a log was refused");
    }

    #[test]
    fn a_failed_reclaim_concerns_one_tenant_until_a_job_of_it_ends() {
        let quota = quota(1 << 30, 8_000);
        let [mut full, mut other] =
            ["full", "other"].map(|name| quota.tenant_quota(name).open_charge());
        full.take(Tier::Memory, 8_000);
        assert!(full.tenant_quota.should_wait_for_room());
        quota.report_reclaim(ReclaimOutcome::NoRoom);
        assert!(!full.tenant_quota.should_wait_for_room(), "nothing could be freed just now");
        other.take(Tier::Memory, 8_000);
        assert!(
            other.tenant_quota.should_wait_for_room(),
            "what others cannot free is no concern of it"
        );
        quota.note_reclaimable("other");
        assert!(!full.tenant_quota.should_wait_for_room());
        quota.note_reclaimable("full");
        assert!(full.tenant_quota.should_wait_for_room());
    }

    proptest! {
        #[test]
        fn no_limit_is_ever_exceeded_and_all_quota_is_released(
            steps in prop::collection::vec((0..4_usize, 0..20_000_usize, prop::bool::ANY), 0..60),
        ) {
            let quota = quota(60_000, 40_000);
            let mut charges: Vec<QuotaCharge> =
                (0..4).map(|n| quota.tenant_quota(if n < 2 { "a" } else { "b" }).open_charge()).collect();
            for (which, bytes, takes) in steps {
                let charge = &mut charges[which];
                let before = charge.held.total();
                if takes {
                    let (taken, why) = charge.take(Tier::Memory, bytes);
                    prop_assert_eq!(why.is_none(), taken == bytes);
                } else {
                    charge.put_back(Tier::Memory, bytes as u64);
                    prop_assert_eq!(charge.held.total(), before.saturating_sub(bytes as u64));
                }
                prop_assert!(quota.used() <= 60_000);
                prop_assert_eq!(quota.used(), charges.iter().map(|c| c.reserved).sum::<u64>());
            }
            charges.clear();
            prop_assert_eq!(quota.used(), 0);
        }
    }
}

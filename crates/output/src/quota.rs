//! How much all logs together may hold, and those of each tenant.
//!
//! A log takes room in steps ahead of its writes, so that most appends touch no shared counter.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore, watch};

use crate::counters::{Counters, DropReason, Tier};
use crate::read_memory::{ReadBusy, ReadFrom, ReadMemory, ReadPermit};

/// A log reserves at least so much at once, and at most so much ahead of what it holds.
const SMALLEST_STEP: u64 = 4 * 1024;
const LARGEST_STEP: u64 = 1024 * 1024;

/// How long a log waits for room before it goes on without. Every wish is answered, also with
/// nothing: this is for a host that is too busy to do so. Less than a job waits for its last bytes.
const MAX_ROOM_WAIT: Duration = Duration::from_secs(1);

/// The memory for reads where nothing else is bounded either.
const UNLIMITED_READS: usize = 1024 * 1024 * 1024;

/// The caps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Bytes that all logs together may hold.
    pub store_bytes: u64,
    /// Bytes that the logs of one tenant may hold.
    pub tenant_bytes: u64,
    /// The same for tenants that differ, by name.
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

/// Which setting a tenant's cap comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapSource {
    /// One for this tenant alone.
    Own,
    /// That of every tenant without one of its own.
    Shared,
}

/// What all logs of a server hold, in memory and on disk, and how much that may be.
///
/// Invariant: no account ever grows above its limit; one is above it only after the limit was
/// [lowered](Quota::change). What a log holds is given back when its last reader is gone.
#[derive(Debug)]
pub struct Quota {
    store: UsageCounter,
    tenants: Mutex<Tenants>,
    room_requested: Notify,
    /// How many wishes for room were answered.
    reclaims: watch::Sender<u64>,
    /// The memory in which logs are read.
    reads: ReadMemory,
    counters: Arc<Counters>,
}

/// The accounts of tenants that have a log, and what each may hold.
#[derive(Debug)]
struct Tenants {
    limits: QuotaLimits,
    accounts: HashMap<String, Arc<UsageCounter>>,
}

/// What the logs of one tenant hold, and what they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantUsage {
    /// Bytes that are held or reserved.
    pub used: u64,
    /// Bytes that may be.
    pub limit: u64,
    /// Where that limit comes from.
    pub cap: CapSource,
}

impl TenantUsage {
    /// Whether a further log could keep next to nothing.
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.limit.saturating_sub(self.used) < least_spare(self.limit)
    }
}

/// What came of a wish for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReclaimOutcome {
    /// There is room, or there is more than before.
    Room,
    /// Nothing could be freed.
    NoRoom,
}

impl Quota {
    /// With nothing held yet. Reads of all logs together may take `read_bytes` of memory.
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

    /// With no caps on what is stored.
    #[must_use]
    pub fn unlimited() -> Arc<Self> {
        let (store_bytes, tenant_bytes) = (u64::MAX, u64::MAX);
        let limits = QuotaLimits { store_bytes, tenant_bytes, tenants: HashMap::new() };
        Self::new(limits, UNLIMITED_READS, Arc::default())
    }

    /// The memory in which logs are read.
    #[must_use]
    pub const fn read_memory(&self) -> &ReadMemory {
        &self.reads
    }

    /// From now on these caps hold, for logs that are being written too. Nothing that is stored
    /// is dropped: where more is held than may be, nothing is added until enough was freed.
    pub fn change(&self, limits: QuotaLimits) {
        let mut tenants = self.tenants();
        self.store.set_limit(limits.store_bytes);
        for (tenant, account) in &tenants.accounts {
            account.set_limit(limits.tenant_limit(tenant));
        }
        tenants.limits = limits;
        drop(tenants);
        self.room_requested.notify_one();
    }

    /// What this tenant's logs hold, and what they may.
    #[must_use]
    pub fn tenant_usage(&self, tenant: &str) -> TenantUsage {
        let tenants = self.tenants();
        tenants.usage(tenant)
    }

    /// The same of every tenant that has a log or a cap of its own.
    #[must_use]
    pub fn usage_by_tenant(&self) -> BTreeMap<String, TenantUsage> {
        let tenants = self.tenants();
        let names = tenants.limits.tenants.keys().chain(tenants.accounts.keys());
        names.map(|name| (name.clone(), tenants.usage(name))).collect()
    }

    fn tenants(&self) -> MutexGuard<'_, Tenants> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a tenant's logs take their room from.
    #[must_use]
    pub fn tenant_quota(self: &Arc<Self>, tenant: &str) -> TenantQuota {
        let mut tenants = self.tenants();
        let Tenants { limits, accounts } = &mut *tenants;
        // Tenants without a log are forgotten here: the map stays as small as the use.
        accounts.retain(|name, account| name == tenant || Arc::strong_count(account) > 1);
        let account = accounts
            .entry(tenant.to_owned())
            .or_insert_with(|| Arc::new(UsageCounter::new(limits.tenant_limit(tenant))));
        TenantQuota { quota: Arc::clone(self), name: tenant.into(), tenant: Arc::clone(account) }
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

    /// Which caps are nearly reached, and how much would have to be given back.
    #[must_use]
    pub fn shortages(&self) -> Vec<Shortage> {
        let of_store = self.store.shortage().map(|bytes| Shortage { tenant: None, bytes });
        let tenants = self.tenants();
        let of_tenants = tenants.accounts.iter().filter_map(|(name, account)| {
            let tenant = Some(name.clone());
            account.shortage().map(|bytes| Shortage { tenant, bytes })
        });
        of_store.into_iter().chain(of_tenants).collect()
    }

    /// Returns once a log was refused room, or a cap is nearly reached, since the last return.
    /// For one waiter; a wish that comes before the wait is not lost.
    pub async fn wait_for_room_request(&self) {
        self.room_requested.notified().await;
    }

    /// Tells those who wait for room what came of it.
    pub fn report_reclaim(&self, outcome: ReclaimOutcome) {
        let tenants = self.tenants();
        for account in tenants.accounts.values().map(|account| &**account).chain([&self.store]) {
            account.record_reclaim(outcome);
        }
        drop(tenants);
        self.reclaims.send_modify(|count| *count += 1);
    }

    /// A job of this tenant has ended: what it stored can be freed, so that a wish for room is
    /// worth its wait again.
    pub fn note_reclaimable(&self, tenant: &str) {
        self.store.record_reclaim(ReclaimOutcome::Room);
        if let Some(account) = self.tenants().accounts.get(tenant) {
            account.record_reclaim(ReclaimOutcome::Room);
        }
    }
}

impl Tenants {
    fn usage(&self, tenant: &str) -> TenantUsage {
        let used = self.accounts.get(tenant).map_or(0, |account| account.used());
        TenantUsage {
            used,
            limit: self.limits.tenant_limit(tenant),
            cap: self.limits.cap_source(tenant),
        }
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

/// One tenant's share of a [`Quota`].
#[derive(Debug, Clone)]
pub struct TenantQuota {
    quota: Arc<Quota>,
    name: Arc<str>,
    tenant: Arc<UsageCounter>,
}

impl TenantQuota {
    /// An tenant_quota that never refuses.
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
        self.quota.reads.reserve(from, self.tenant.read_queue(), bytes, wait).await
    }

    /// An account of something that holds nothing yet.
    pub(crate) fn open_charge(&self) -> QuotaCharge {
        QuotaCharge {
            tenant_quota: self.clone(),
            reserved: 0,
            held: BytesByTier::new(Arc::clone(&self.quota.counters)),
        }
    }

    /// The counts of all logs.
    pub(crate) fn counters(&self) -> &Counters {
        &self.quota.counters
    }

    fn take(&self, bytes: u64) -> Result<(), DropReason> {
        if !self.tenant.take(bytes) {
            return Err(match self.quota.tenants().limits.cap_source(&self.name) {
                CapSource::Own => DropReason::OwnFull,
                CapSource::Shared => DropReason::TenantFull,
            });
        }
        if !self.quota.store.take(bytes) {
            self.tenant.give_back(bytes);
            return Err(DropReason::StoreFull);
        }
        if self.is_short_after(0) {
            self.quota.room_requested.notify_one();
        }
        Ok(())
    }

    fn is_short_after(&self, bytes: u64) -> bool {
        self.tenant.is_short_after(bytes) || self.quota.store.is_short_after(bytes)
    }

    /// Whether to wait for room before more is written: a cap is near, and something may be freed.
    pub(crate) fn should_wait_for_room(&self) -> bool {
        self.tenant.should_wait_for_room() || self.quota.store.should_wait_for_room()
    }

    /// Asks for room and waits until some was freed, none can be, or patience is over.
    pub(crate) async fn wait_for_room(&self) {
        let mut reclaims = self.quota.reclaims.subscribe();
        let seen = *reclaims.borrow();
        self.quota.room_requested.notify_one();
        let answered = reclaims.wait_for(|now| *now > seen);
        // Late or not: what cannot be kept is counted.
        tokio::time::timeout(MAX_ROOM_WAIT, answered).await.ok();
    }

    fn give_back(&self, bytes: u64) {
        self.tenant.give_back(bytes);
        self.quota.store.give_back(bytes);
    }
}

/// What one part of a log holds. Dropping it gives everything back.
///
/// Invariant: `held` is at most `reserved`, and `reserved` is taken from the tenant_quota.
#[derive(Debug)]
pub(crate) struct QuotaCharge {
    tenant_quota: TenantQuota,
    reserved: u64,
    held: BytesByTier,
}

impl QuotaCharge {
    /// Takes room for so many bytes, or for the first of them, and says why it is not for all.
    pub(crate) fn take(&mut self, tier: Tier, wanted: usize) -> (usize, Option<DropReason>) {
        let why = self.reserve(wanted as u64).err();
        let taken = (wanted as u64).min(self.reserved - self.held.total());
        self.held.add(tier, taken);
        (taken as usize, why)
    }

    /// Gives back room that was taken and not needed, or is no longer needed.
    pub(crate) fn put_back(&mut self, tier: Tier, bytes: u64) {
        self.held.remove(tier, bytes);
    }

    /// So many bytes are kept somewhere else from now on.
    pub(crate) fn shift(&mut self, from: Tier, to: Tier, bytes: u64) {
        self.held.shift(from, to, bytes);
    }

    /// The counts of all logs.
    pub(crate) fn counters(&self) -> &Counters {
        self.tenant_quota.counters()
    }

    /// What is held, by tier.
    #[cfg(test)]
    pub(crate) const fn held(&self) -> &BytesByTier {
        &self.held
    }

    /// Gives back what was reserved ahead, once nothing will follow.
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
        // Where room is short, what nobody has written yet must not cost a finished log.
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

// What is held of one cap, and whether it is worth to wait for more room.

/// What shall be left of a cap: more than what is read of all pipes of a job before the next look.
const SPARE_SHARE: u64 = 10;
const SPARE_BYTES: u64 = 512 * 1024;
/// How long nobody waits after a wish that nothing could be freed for.
const RECLAIM_PAUSE: Duration = Duration::from_millis(50);

/// One counter and its limit.
#[derive(Debug)]
pub(crate) struct UsageCounter {
    limit: AtomicU64,
    used: AtomicU64,
    /// When nothing could be freed for it, if that is how its last wish ended.
    last_failed_reclaim: Mutex<Option<Instant>>,
    /// BytesByTier by the read that is the next of this tenant to get memory.
    read_queue: Semaphore,
}

/// What is left of a cap once it counts as reached, at the least.
const fn least_spare(limit: u64) -> u64 {
    if limit / 4 < SPARE_BYTES { limit / 4 } else { SPARE_BYTES }
}

impl UsageCounter {
    pub(crate) const fn new(limit: u64) -> Self {
        let last_failed_reclaim = Mutex::new(None);
        let read_queue = Semaphore::const_new(1);
        Self {
            limit: AtomicU64::new(limit),
            used: AtomicU64::new(0),
            last_failed_reclaim,
            read_queue,
        }
    }

    const fn read_queue(&self) -> &Semaphore {
        &self.read_queue
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Remembers what came of a wish for room, if it was its own.
    pub(crate) fn record_reclaim(&self, outcome: ReclaimOutcome) {
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

    /// Whether room is short, and something may be freed.
    pub(crate) fn should_wait_for_room(&self) -> bool {
        let may_succeed = || {
            let last_failed_reclaim =
                self.last_failed_reclaim.lock().unwrap_or_else(PoisonError::into_inner);
            last_failed_reclaim.is_none_or(|at| at.elapsed() > RECLAIM_PAUSE)
        };
        self.is_short_after(0) && may_succeed()
    }

    /// Takes all of it or nothing.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let within = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit());
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether less is left than shall be, or would be after so many bytes more.
    fn is_short_after(&self, bytes: u64) -> bool {
        self.used().saturating_add(bytes) > self.high_water_mark()
    }

    /// What is missing to what shall be left.
    fn shortage(&self) -> Option<u64> {
        self.used().checked_sub(self.high_water_mark()).filter(|bytes| *bytes > 0)
    }

    /// Above this room is short: a tenth shall be left; of a small cap a quarter at the most.
    fn high_water_mark(&self) -> u64 {
        let limit = self.limit();
        limit - (limit / SPARE_SHARE).max(least_spare(limit))
    }
}

// What a part of a log holds, and where.

/// Bytes by the tier that they are in, told to the metrics as they come, move and go. Dropping it
/// counts all of them as gone.
///
/// Invariant: every byte is in exactly one tier.
#[derive(Debug)]
pub(crate) struct BytesByTier {
    counters: Arc<Counters>,
    memory: u64,
    disk: u64,
    compressed: u64,
}

impl BytesByTier {
    pub(crate) const fn new(counters: Arc<Counters>) -> Self {
        Self { counters, memory: 0, disk: 0, compressed: 0 }
    }

    /// How many there are, wherever they are.
    pub(crate) const fn total(&self) -> u64 {
        self.memory + self.disk + self.compressed
    }

    /// How many are in this tier.
    pub(crate) const fn bytes_in(&self, tier: Tier) -> u64 {
        match tier {
            Tier::Memory => self.memory,
            Tier::Disk => self.disk,
            Tier::Compressed => self.compressed,
        }
    }

    /// So many came.
    pub(crate) fn add(&mut self, tier: Tier, bytes: u64) {
        *self.bytes_in_mut(tier) += bytes;
        self.counters.add_stored(tier, bytes);
    }

    /// So many went, or all that there were; gives how many.
    pub(crate) fn remove(&mut self, tier: Tier, bytes: u64) -> u64 {
        let bytes = bytes.min(self.bytes_in(tier));
        *self.bytes_in_mut(tier) -= bytes;
        self.counters.remove_stored(tier, bytes);
        bytes
    }

    /// So many, or all that there were, are somewhere else now.
    pub(crate) fn shift(&mut self, from: Tier, to: Tier, bytes: u64) {
        let bytes = self.remove(from, bytes);
        self.add(to, bytes);
    }

    const fn bytes_in_mut(&mut self, tier: Tier) -> &mut u64 {
        match tier {
            Tier::Memory => &mut self.memory,
            Tier::Disk => &mut self.disk,
            Tier::Compressed => &mut self.compressed,
        }
    }
}

impl Drop for BytesByTier {
    fn drop(&mut self) {
        for tier in Tier::ALL {
            self.counters.remove_stored(tier, self.bytes_in(tier));
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
    fn each_cap_refuses_by_its_own_name_and_takes_the_first_bytes() {
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
    fn a_small_log_reserves_little_and_gives_back_what_it_did_not_need() {
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
    fn a_tenant_with_a_cap_of_its_own_is_told_from_the_others() {
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
    fn new_caps_hold_for_logs_that_are_being_written() {
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
    async fn whoever_frees_room_is_told_when_it_is_short() {
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
    fn a_fruitless_wish_is_its_tenants_own_and_ends_with_a_job_of_it() {
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
        fn no_cap_is_ever_passed_and_nothing_is_lost(
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

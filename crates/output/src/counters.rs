//! Counters of stored and lost bytes and of failed operations, over all logs of a server, for its
//! metrics.

use std::fmt::Display;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// The storage tier of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// The memory of the server.
    Memory,
    /// A spill file, as it was written.
    Disk,
    /// A compressed spill file.
    Compressed,
}

impl Tier {
    /// Every tier, in the order of `WORDS`.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Compressed];

    /// The label value of each tier, in the same order.
    pub const WORDS: [&'static str; 3] = ["memory", "disk", "compressed"];

    /// The label value of the tier.
    #[must_use]
    pub const fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

/// An operation on a file that holds output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpillOperation {
    /// The creation of a file.
    Create,
    /// A write of output to a file.
    Write,
    /// A read of output from a file.
    Read,
    /// The compression of a file.
    Compress,
    /// The removal of a file.
    Remove,
}

impl SpillOperation {
    /// Every operation, in the order of `WORDS`.
    pub const ALL: [Self; 5] =
        [Self::Create, Self::Write, Self::Read, Self::Compress, Self::Remove];

    /// The label value of each operation, in the same order.
    pub const WORDS: [&'static str; 5] = ["create", "write", "read", "compress", "remove"];

    /// The label value of the operation.
    #[must_use]
    pub const fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

/// The reason why bytes that a program wrote could not be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The disk is full, or a limit on files is reached.
    DiskFull,
    /// The file could not be created or written.
    IoError,
    /// All logs together are at their limit.
    StoreFull,
    /// The tenant's logs are at the limit for every tenant.
    TenantFull,
    /// The tenant's logs are at the limit for this tenant alone.
    OwnFull,
    /// The bytes were kept, and somebody else cut them off their file.
    Cut,
    /// The server crashed here, and may have read the bytes without storing them: at most so many
    /// are missing.
    ServerCrash,
}

impl DropReason {
    /// Every word that [`DropReason::word`] can return.
    pub const WORDS: [&'static str; 6] =
        ["disk_full", "io_error", "store_full", "tenant_full", "cut", "server_crash"];

    /// The word of the reason in labels and replies. Both limits of a tenant have the same word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        Self::WORDS[self.index()]
    }

    const fn index(self) -> usize {
        match self {
            Self::DiskFull => 0,
            Self::IoError => 1,
            Self::StoreFull => 2,
            Self::TenantFull | Self::OwnFull => 3,
            Self::Cut => 4,
            Self::ServerCrash => 5,
        }
    }

    /// Every reason, in the order of the codes in files.
    const ALL: [Self; 7] = [
        Self::DiskFull,
        Self::IoError,
        Self::StoreFull,
        Self::TenantFull,
        Self::OwnFull,
        Self::Cut,
        Self::ServerCrash,
    ];

    /// The code of the reason in files.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// Counts of one server's logs. The server creates them, hands them to its
/// [`SpillDir`](crate::SpillDir) and [`Quota`](crate::Quota), and reads them for its metrics.
#[derive(Debug, Default)]
pub struct Counters {
    stored: [AtomicU64; Tier::ALL.len()],
    dropped: [AtomicU64; DropReason::WORDS.len()],
    spill_errors: [AtomicU64; SpillOperation::ALL.len()],
    compressed: AtomicU64,
    read_memory: AtomicU64,
    reads_refused: AtomicU64,
}

impl Counters {
    /// Bytes that are stored in each tier now.
    #[must_use]
    pub fn stored(&self) -> [(Tier, u64); Tier::ALL.len()] {
        Tier::ALL.map(|tier| (tier, load(&self.stored[tier as usize])))
    }

    /// Bytes that could not be kept so far, by the word of the reason.
    #[must_use]
    pub fn dropped(&self) -> [(&'static str, u64); DropReason::WORDS.len()] {
        let mut counts = self.dropped.iter().map(load);
        DropReason::WORDS.map(|word| (word, counts.next().unwrap_or_default()))
    }

    /// Operations on files that have failed so far.
    #[must_use]
    pub fn spill_errors(&self) -> [(SpillOperation, u64); SpillOperation::ALL.len()] {
        SpillOperation::ALL
            .map(|operation| (operation, load(&self.spill_errors[operation as usize])))
    }

    /// Bytes that were compressed so far, counted before compression.
    #[must_use]
    pub fn compressed(&self) -> u64 {
        load(&self.compressed)
    }

    /// Bytes of memory that are reserved for reads now.
    #[must_use]
    pub fn read_memory(&self) -> u64 {
        load(&self.read_memory)
    }

    /// Reads that were refused so far because other reads used all of the memory.
    #[must_use]
    pub fn reads_refused(&self) -> u64 {
        load(&self.reads_refused)
    }

    pub(crate) fn add_stored(&self, tier: Tier, bytes: u64) {
        self.stored[tier as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove_stored(&self, tier: Tier, bytes: u64) {
        self.stored[tier as usize].fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_dropped(&self, reason: DropReason, bytes: u64) {
        self.dropped[reason.index()].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_compressed(&self, raw: u64, stored: u64) {
        tracing::debug!(raw, stored, "output compressed");
        self.compressed.fetch_add(raw, Ordering::Relaxed);
    }

    pub(crate) fn add_read_memory(&self, bytes: u64) {
        self.read_memory.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove_read_memory(&self, bytes: u64) {
        self.read_memory.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_refused_read(&self) {
        self.reads_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failed operation on a file. The log line is for debugging only: on a full disk
    /// every write fails, and each log reports its own loss.
    pub(crate) fn add_spill_error(&self, operation: SpillOperation, why: &dyn Display) {
        let why = why.to_string();
        tracing::debug!(operation = operation.word(), ?why, "file of output failed");
        self.spill_errors[operation as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the result of an operation on a file, and counts it if it failed.
    pub(crate) fn checked<T>(
        &self,
        operation: SpillOperation,
        result: io::Result<T>,
    ) -> io::Result<T> {
        result.inspect_err(|error| self.add_spill_error(operation, error))
    }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_words_is_complete() {
        let drops = [
            DropReason::DiskFull,
            DropReason::IoError,
            DropReason::StoreFull,
            DropReason::TenantFull,
            DropReason::Cut,
            DropReason::ServerCrash,
        ];
        assert_eq!(drops.map(DropReason::word), DropReason::WORDS);
        assert_eq!(DropReason::OwnFull.word(), DropReason::TenantFull.word());
    }

    #[test]
    fn every_reason_is_found_by_its_code() {
        for reason in DropReason::ALL {
            assert_eq!(DropReason::from_code(reason.code()), Some(reason));
        }
        assert_eq!(DropReason::from_code(DropReason::ALL.len() as u8), None);
    }

    #[test]
    fn each_counter_has_its_own_word() {
        let counters = Counters::default();
        counters.add_stored(Tier::Disk, 10);
        counters.remove_stored(Tier::Disk, 4);
        counters.add_dropped(DropReason::OwnFull, 7);
        counters.add_spill_error(SpillOperation::Write, &"no");
        let stored = counters.stored().map(|(tier, bytes)| (tier.word(), bytes));
        assert_eq!(stored, [("memory", 0), ("disk", 6), ("compressed", 0)]);
        assert_eq!(counters.dropped()[3], ("tenant_full", 7));
        assert_eq!(counters.spill_errors()[1], (SpillOperation::Write, 1));
    }
}

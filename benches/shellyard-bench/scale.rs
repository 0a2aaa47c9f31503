//! The amount of work of each measurement.

use crate::measure::tenants::TenantLoad;

/// The amounts of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Number of turns that the server and the floor take.
    pub(crate) rounds: usize,
    /// Calls of one turn, where they come one after the other …
    pub(crate) block: usize,
    /// … and where many come at once.
    pub(crate) calls: usize,
    /// Numbers of concurrent callers.
    pub(crate) callers: &'static [usize],
    /// Finished jobs that the server knows.
    pub(crate) finished: &'static [usize],
    /// Jobs that run all the while.
    pub(crate) held: &'static [usize],
    /// Length of the idle period whose CPU time is measured.
    pub(crate) idle_ms: u64,
    /// Bytes that one job writes as fast as it can: the last size for all sources, the others for
    /// one of them.
    pub(crate) floods: &'static [u64],
    /// Number of floods per source.
    pub(crate) flood_rounds: usize,
    /// Bytes that the polled job writes, and the numbers of pollers.
    pub(crate) polled_bytes: u64,
    pub(crate) pollers: &'static [usize],
    /// Number of cold starts.
    pub(crate) starts: usize,
    /// Logs in which pages are read, and the one that is compressed.
    pub(crate) logs: &'static [u64],
    pub(crate) compressed: u64,
    /// Number of reads at each offset of a log.
    pub(crate) looks: usize,
    /// Jobs that wait, and how many are timed at each length.
    pub(crate) backlog: &'static [usize],
    pub(crate) backlog_step: usize,
    /// Bytes that the server holds in memory.
    pub(crate) held_mib: usize,
    pub(crate) search_bytes: u64,
    pub(crate) search_rounds: usize,
    pub(crate) tenant_load: TenantLoad,
    /// Tenants that the server knows.
    pub(crate) tenants: &'static [usize],
    /// Starts of each kind of confinement, and jobs after which nothing may be left.
    pub(crate) confined: [usize; 2],
}

const MB: u64 = 1_000_000;

/// A run whose figures mean something.
pub(crate) const FULL: Scale = Scale {
    rounds: 9,
    block: 100,
    calls: 1_500,
    callers: &[1, 8, 64, 256],
    finished: &[100, 1_000, 10_000],
    held: &[200, 1_000, 5_000],
    idle_ms: 10_000,
    floods: &[10 * MB, 100 * MB, 1_000 * MB],
    flood_rounds: 5,
    polled_bytes: 60 * MB,
    pollers: &[4, 16, 64],
    starts: 20,
    logs: &[10 * MB, 100 * MB, 1_000 * MB, 10_000 * MB],
    compressed: 1_000 * MB,
    looks: 100,
    backlog: &[1_000, 10_000, 100_000],
    backlog_step: 500,
    held_mib: 1_024,
    search_bytes: 1 << 30,
    search_rounds: 5,
    tenant_load: TenantLoad { tenants: 64, jobs: 50, backlog: 5_000, visits: 20 },
    tenants: &[1, 10, 100],
    confined: [500, 10_000],
};

/// A run that only shows that all of it works.
pub(crate) const QUICK: Scale = Scale {
    rounds: 1,
    block: 10,
    calls: 16,
    callers: &[1, 16, 256],
    finished: &[4, 32],
    held: &[4, 32],
    idle_ms: 100,
    floods: &[MB / 4, MB],
    flood_rounds: 1,
    polled_bytes: MB,
    pollers: &[2, 4],
    starts: 2,
    logs: &[MB, 2 * MB],
    compressed: 2 * MB,
    looks: 3,
    backlog: &[20, 200],
    backlog_step: 10,
    held_mib: 32,
    search_bytes: 4 << 20,
    search_rounds: 1,
    tenant_load: TenantLoad { tenants: 4, jobs: 3, backlog: 30, visits: 2 },
    tenants: &[1, 4],
    confined: [20, 100],
};

//! The bounds of a queue.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::ids::Tenant;
use crate::spec::DEFAULT_LANE;

/// The bounds of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLimits {
    /// Jobs that may run at once.
    pub slots: usize,
    /// Jobs that may wait.
    pub max_queued: usize,
    /// Lanes beside the default one, by name.
    pub lanes: BTreeMap<String, LaneLimits>,
    /// What a tenant may have that is not named in `tenants`.
    pub quota: TenantLimits,
    /// Tenants that differ, each with all of its bounds.
    pub tenants: BTreeMap<Tenant, TenantLimits>,
}

impl QueueLimits {
    /// The bounds of this tenant.
    #[must_use]
    pub fn of(&self, tenant: Tenant) -> &TenantLimits {
        self.tenants.get(&tenant).unwrap_or(&self.quota)
    }

    pub(super) fn has_lane(&self, name: &str) -> bool {
        name == DEFAULT_LANE || self.lanes.contains_key(name)
    }
}

/// The bounds of a lane, over all tenants; `None` = no bound of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneLimits {
    /// Its jobs that may run at once.
    pub slots: Option<usize>,
    /// Its jobs that may wait.
    pub max_queued: Option<usize>,
}

/// What one tenant may have; `None` = no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantLimits {
    /// Its share of the starts beside other tenants that wait.
    pub weight: NonZeroU32,
    /// Its jobs that may run at once.
    pub max_running: Option<usize>,
    /// Its jobs that may wait.
    pub max_queued: Option<usize>,
    /// Its jobs that are accepted in a minute.
    pub starts_per_minute: Option<NonZeroU32>,
    /// CPU time that its jobs may use in an hour.
    pub cpu_per_hour: Option<Duration>,
}

impl Default for TenantLimits {
    /// Weight 1 and no bound.
    fn default() -> Self {
        Self {
            weight: NonZeroU32::MIN,
            max_running: None,
            max_queued: None,
            starts_per_minute: None,
            cpu_per_hour: None,
        }
    }
}

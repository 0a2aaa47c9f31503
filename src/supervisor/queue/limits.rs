//! The bounds of a queue.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use thiserror::Error;

use super::fair::{Flow, Queue};
use crate::ids::TenantId;
use crate::setting_values::{deserialize_zero_as_none, deserialize_zero_seconds_as_none};
use crate::spec::DEFAULT_LANE;
use crate::supervisor::pressure::Pressure;

/// The bounds of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLimits {
    /// Jobs that may run at once.
    pub slots: usize,
    pub max_queued: usize,
    /// The time after which a running job that does not use the machine gives its slot back;
    /// `None` = never.
    pub idle_after: Option<Duration>,
    /// Idle jobs of one tenant that hold no slot; further ones keep theirs.
    pub max_idle: usize,
    /// Lanes beside the default one, by name.
    pub lanes: BTreeMap<String, LaneLimits>,
    /// The limits of a tenant that is not named in `tenants`.
    pub quota: TenantLimits,
    /// Tenants with limits of their own; each entry holds all limits.
    pub tenants: BTreeMap<TenantId, TenantLimits>,
}

impl QueueLimits {
    /// Returns the limits of this tenant.
    #[must_use]
    pub fn tenant_limits(&self, tenant: TenantId) -> &TenantLimits {
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

/// The limits of one tenant; `None` = no limit. `[quota]` holds for tenants without limits of their
/// own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantLimits {
    /// Its share of the starts beside other tenants that wait.
    #[serde(skip, default = "default_weight")]
    pub weight: NonZeroU32,
    /// Its jobs that may run at once.
    #[serde(deserialize_with = "deserialize_zero_as_none")]
    pub max_running: Option<usize>,
    /// Its jobs that may wait.
    #[serde(deserialize_with = "deserialize_zero_as_none")]
    pub max_queued: Option<usize>,
    /// Its jobs that are accepted in a minute.
    #[serde(deserialize_with = "deserialize_starts")]
    pub starts_per_minute: Option<NonZeroU32>,
    /// CPU time that its jobs may use in an hour.
    #[serde(rename = "cpu_s_per_hour", deserialize_with = "deserialize_zero_seconds_as_none")]
    pub cpu_per_hour: Option<Duration>,
}

const fn default_weight() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn deserialize_starts<'de, D: Deserializer<'de>>(input: D) -> Result<Option<NonZeroU32>, D::Error> {
    u64::deserialize(input).map(|count| NonZeroU32::new(u32::try_from(count).unwrap_or(u32::MAX)))
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

// Holds that keep jobs from starting although there are slots.

/// The reason why no job starts, in any lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// An operator paused the queue.
    Paused,
    /// The host is short of something, and at least one job runs.
    Pressure(Pressure),
}

/// A lane that cannot be paused or resumed because there is none of that name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no lane `{given}`; the lanes are {}", .known.join(", "))]
pub struct UnknownLane {
    /// The name that the caller gave.
    pub given: String,
    pub known: Vec<String>,
}

impl Queue {
    /// Returns the reason that holds all starts back, if any. Pressure never stops the only job.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        match (self.flow, self.pressure) {
            (Flow::Paused, _) => Some(Hold::Paused),
            (Flow::Open, Some(pressure)) if self.running + self.idle > 0 => {
                Some(Hold::Pressure(pressure))
            }
            (Flow::Open, Some(_) | None) => None,
        }
    }

    /// `true` if the queue or this lane is paused.
    pub(super) fn is_paused(&self, lane: &str) -> bool {
        let lane = self.lanes.get(lane).map(|lane| lane.flow);
        [Some(self.flow), lane].contains(&Some(Flow::Paused))
    }

    /// Records which resource the host is short of, if any.
    pub const fn set_pressure(&mut self, pressure: Option<Pressure>) {
        self.pressure = pressure;
    }

    /// Starts no more jobs, in this lane or at all. Running jobs continue.
    ///
    /// # Errors
    /// If there is no such lane.
    pub fn pause(&mut self, lane: Option<&str>) -> Result<(), UnknownLane> {
        *self.find_flow(lane)? = Flow::Paused;
        Ok(())
    }

    /// Starts jobs again, in this lane or in all of them.
    ///
    /// # Errors
    /// If there is no such lane.
    pub fn resume(&mut self, lane: Option<&str>) -> Result<(), UnknownLane> {
        *self.find_flow(lane)? = Flow::Open;
        if lane.is_none() {
            for lane in self.lanes.values_mut() {
                lane.flow = Flow::Open;
            }
        }
        Ok(())
    }

    fn find_flow(&mut self, lane: Option<&str>) -> Result<&mut Flow, UnknownLane> {
        let Some(name) = lane else { return Ok(&mut self.flow) };
        if !self.lanes.contains_key(name) {
            let known = self.lanes.keys().map(|name| name.to_string()).collect();
            return Err(UnknownLane { given: name.to_owned(), known });
        }
        Ok(&mut self.lanes.entry(name.into()).or_default().flow)
    }
}

//! The limits of the queue, the holds that keep jobs from starting (pauses and the pressure on the
//! host), and the refusals that tell callers why a job is not accepted.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use thiserror::Error;

use super::fair::{Flow, Queue};
use crate::ids::{JobId, TenantId};
use crate::setting_values::{
    deserialize_seconds, deserialize_zero_as_none, deserialize_zero_seconds_as_none,
};
use crate::spec::{DEFAULT_LANE, KeyDifference};

pub use crate::telemetry::HostResource;

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
    /// The server is short of file descriptors, and at least one job runs.
    Files,
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
    /// Returns the reason that holds all starts back, if any. A shortage never stops the only job.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        match (self.flow, self.pressure) {
            (Flow::Paused, _) => Some(Hold::Paused),
            (Flow::Open, _) if self.running + self.idle == 0 => None,
            (Flow::Open, Some(pressure)) => Some(Hold::Pressure(pressure)),
            (Flow::Open, None) => self.is_short_of_files.then_some(Hold::Files),
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

    /// Records whether the server has too few free file descriptors for another start.
    pub const fn set_short_of_files(&mut self, is_short: bool) {
        self.is_short_of_files = is_short;
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

// The decision whether the host stalls too much for another job to start.

/// The share of time in which the system stalls for a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    pub resource: HostResource,
    /// The share of time, in percent.
    pub percent: u8,
}

impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pressure {} %", self.resource.word(), self.percent)
    }
}

/// The watched resources and the interval: `[pressure]`.
// Unknown keys are refused earlier, because serde cannot do that beside a flattened field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct PressureWatch {
    /// The levels that hold starts back.
    #[serde(flatten)]
    pub levels: PressureLevels,
    /// The time between two samples.
    #[serde(rename = "check_s", deserialize_with = "deserialize_seconds")]
    pub every: Duration,
}

/// The pressure levels, in percent, at which starts are held back; `None` = never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct PressureLevels {
    /// The level for processors.
    #[serde(deserialize_with = "deserialize_zero_as_none")]
    pub cpu: Option<u8>,
    /// The level for memory.
    #[serde(deserialize_with = "deserialize_zero_as_none")]
    pub memory: Option<u8>,
    #[serde(deserialize_with = "deserialize_zero_as_none")]
    pub io: Option<u8>,
}

impl PressureLevels {
    /// The level of one resource.
    #[must_use]
    pub const fn level(&self, resource: HostResource) -> Option<u8> {
        match resource {
            HostResource::Cpu => self.cpu,
            HostResource::Memory => self.memory,
            HostResource::Io => self.io,
        }
    }

    /// `true` if any level is set.
    #[must_use]
    pub fn is_any(&self) -> bool {
        HostResource::ALL.into_iter().any(|resource| self.level(resource).is_some())
    }

    /// Returns the resource that holds starts back after these readings, if any: the one that is
    /// furthest above its level. Pressure begins at a whole level and ends below three quarters of
    /// it, so that a value around a level does not stop and start the queue again and again.
    ///
    /// A resource without a reading holds nothing back.
    #[must_use]
    pub fn hold(&self, held: Option<Pressure>, readings: &[Pressure]) -> Option<Pressure> {
        let watched = readings.iter().filter_map(|reading| {
            let level = self.level(reading.resource)?;
            Some((*reading, u32::from(reading.percent), u32::from(level)))
        });
        // By share of the level: if this one does not hold starts back, none does.
        let (worst, percent, level) =
            watched.max_by(|(_, a, of_a), (_, b, of_b)| (a * of_b).cmp(&(b * of_a)))?;
        let is_above = match held {
            None => percent >= level,
            Some(_) => percent * 4 >= level * 3,
        };
        is_above.then_some(worst)
    }
}

// The reasons why a job is not accepted.

/// The reason why a job was not accepted. No trace of the job is kept.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SubmitRefusal {
    /// The queue is full.
    #[error("{full}; {retry} [queue_full]")]
    QueueFull {
        /// The scope of the bound.
        full: FullQueue,
        /// The time at which there may be room.
        retry: Retry,
    },
    /// The tenant has reached one of its limits.
    #[error("{bound}; {retry} [tenant_limit]")]
    TenantLimit {
        bound: TenantBound,
        /// The time at which the tenant may have more.
        retry: Retry,
    },
    /// The tenant started too many jobs in too short a time.
    #[error(
        "too many starts: at most {per_minute} a minute (starts_per_minute); {} [rate_limited]",
        Retry::In(*retry_after)
    )]
    RateLimited {
        /// The number of starts that the tenant may have.
        per_minute: NonZeroU32,
        /// The time until the next start is accepted.
        retry_after: Duration,
    },
    /// The key already names the job of another request.
    #[error(
        "key {key:?} already names job {job}, which was submitted with {difference}; use another key for this job [key_conflict]"
    )]
    KeyConflict { key: String, job: JobId, difference: KeyDifference },
    /// The server drains: it accepts no new jobs.
    #[error("the server is draining and takes no new jobs; submit to another or try later")]
    Draining,
    /// The server is shutting down.
    #[error("the server is shutting down and takes no new jobs; submit to another or try later")]
    Closed,
    /// The supervisor failed while it accepted the job.
    #[error("the server failed while it took the job, which does not run; try again [interrupted]")]
    Interrupted,
}

/// The queue that is full. It does not say how many jobs wait: most of them may belong to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FullQueue {
    /// The whole queue, over all lanes.
    All,
    Lane {
        lane: String,
    },
}

/// The quota that a tenant has used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantBound {
    /// Waiting jobs of the tenant.
    Queued {
        /// The number of jobs that may wait.
        limit: usize,
    },
    Cpu {
        /// CPU time that the tenant's jobs used within an hour.
        used: Duration,
        /// CPU time that the tenant's jobs may use.
        limit: Duration,
    },
    /// Stored output of the tenant's running jobs.
    Stored {
        /// The number of bytes that may be kept.
        limit: u64,
        /// The name of the setting with this limit.
        setting: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    In(Duration),
    /// Once an operator has resumed the queue or the lane.
    Resumed,
    /// Once a running job of the tenant has ended.
    JobEnded,
}

impl Retry {
    const fn after(self) -> Option<Duration> {
        match self {
            Self::In(time) => Some(time),
            Self::Resumed | Self::JobEnded => None,
        }
    }
}

impl SubmitRefusal {
    /// Returns the stable code word of the refusal.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::QueueFull { .. } => "queue_full",
            Self::TenantLimit { .. } => "tenant_limit",
            Self::RateLimited { .. } => "rate_limited",
            Self::KeyConflict { .. } => "key_conflict",
            Self::Draining | Self::Closed => "draining",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns the time until a retry may succeed, if it is known.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::QueueFull { retry, .. } | Self::TenantLimit { retry, .. } => retry.after(),
            Self::RateLimited { retry_after, .. } => Some(*retry_after),
            Self::KeyConflict { .. } | Self::Draining | Self::Closed | Self::Interrupted => None,
        }
    }
}

impl fmt::Display for FullQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("the queue is full (queue.max_queued)"),
            Self::Lane { lane } => {
                write!(f, "lane {lane} is full (queue.lanes.{lane}.max_queued)")
            }
        }
    }
}

impl fmt::Display for TenantBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queued { limit } => {
                let wait = if *limit == 1 { "waits" } else { "wait" };
                write!(f, "{limit} of your jobs {wait} already, which is your limit (max_queued)")
            }
            Self::Cpu { used, limit } => write!(
                f,
                "your jobs used {}s of CPU time within an hour, your limit is {}s (cpu_s_per_hour)",
                used.as_secs(),
                limit.as_secs()
            ),
            Self::Stored { limit, setting } => write!(
                f,
                "your stored output is at its limit of {}, and your running jobs hold it ({setting})",
                format_size(*limit)
            ),
        }
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = match self {
            Self::In(after) => after,
            Self::Resumed => return f.write_str("try again when it is resumed"),
            Self::JobEnded => {
                return f.write_str("try again when one of them has ended, or stop one");
            }
        };
        // Rounded up: a moment too early would be refused again.
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        match seconds.max(1) {
            seconds @ ..100 => write!(f, "try again in about {seconds}s"),
            seconds => write!(f, "try again in about {} minutes", seconds.div_ceil(60)),
        }
    }
}

/// Formats a size limit in the largest unit that shows it exactly.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut count = bytes;
    let mut units = UNITS.into_iter();
    let mut unit = units.next().unwrap_or_default();
    while count > 0
        && count.is_multiple_of(1024)
        && let Some(larger) = units.next()
    {
        count /= 1024;
        unit = larger;
    }
    format!("{count} {unit}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEVELS: PressureLevels = PressureLevels { cpu: None, memory: Some(40), io: Some(60) };

    const fn at(resource: HostResource, percent: u8) -> Pressure {
        Pressure { resource, percent }
    }

    /// Returns what holds starts back after each of these readings of memory.
    fn memory(percents: &[u8]) -> Vec<Option<u8>> {
        let mut held = None;
        let look = |percent: &u8| {
            held = LEVELS.hold(held, &[at(HostResource::Memory, *percent)]);
            held.map(|pressure| pressure.percent)
        };
        percents.iter().map(look).collect()
    }

    #[test]
    fn starts_are_held_from_the_level_on_until_below_three_quarters_of_it() {
        assert_eq!(
            memory(&[39, 40, 39, 30, 29, 39, 41]),
            [None, Some(40), Some(39), Some(30), None, None, Some(41)]
        );
    }

    #[test]
    fn the_one_furthest_above_its_level_is_named() {
        let both = [at(HostResource::Memory, 50), at(HostResource::Io, 70)];
        assert_eq!(LEVELS.hold(None, &both), Some(at(HostResource::Memory, 50)));
        let both = [at(HostResource::Memory, 41), at(HostResource::Io, 90)];
        assert_eq!(LEVELS.hold(None, &both), Some(at(HostResource::Io, 90)));
        assert_eq!(at(HostResource::Memory, 38).to_string(), "memory pressure 38 %");
    }

    #[test]
    fn all_have_to_be_below_before_starts_go_on() {
        let held = Some(at(HostResource::Memory, 50));
        let memory_is_fine = [at(HostResource::Memory, 5), at(HostResource::Io, 45)];
        assert_eq!(LEVELS.hold(held, &memory_is_fine), Some(at(HostResource::Io, 45)));
        let both_are = [at(HostResource::Memory, 5), at(HostResource::Io, 44)];
        assert_eq!(LEVELS.hold(held, &both_are), None);
    }

    #[test]
    fn what_has_no_level_or_no_reading_holds_nothing() {
        let held = Some(at(HostResource::Cpu, 100));
        assert_eq!(LEVELS.hold(held, &[at(HostResource::Cpu, 100)]), None);
        assert_eq!(LEVELS.hold(held, &[]), None);
        assert!(LEVELS.is_any() && !PressureLevels::default().is_any());
    }

    fn any_readings() -> impl Strategy<Value = [Pressure; 3]> {
        let percents = [0..=100_u8, 0..=100, 0..=100];
        percents.prop_map(|percents| {
            let [cpu, memory, io] = percents;
            [at(HostResource::Cpu, cpu), at(HostResource::Memory, memory), at(HostResource::Io, io)]
        })
    }

    fn any_levels() -> impl Strategy<Value = PressureLevels> {
        let level = || prop::option::of(1..=100_u8);
        (level(), level(), level()).prop_map(|(cpu, memory, io)| PressureLevels { cpu, memory, io })
    }

    proptest! {
        #[test]
        fn it_begins_at_a_level_ends_below_all_bands_and_never_changes_between(
            levels in any_levels(),
            measurement in prop::collection::vec(any_readings(), 1..50),
        ) {
            let mut held = None;
            for readings in measurement {
                let before = held;
                held = levels.hold(held, &readings);
                let reaches = |share: u32| readings.iter().any(|reading| {
                    let level = levels.level(reading.resource);
                    level.is_some_and(|level| {
                        u32::from(reading.percent) * 4 >= u32::from(level) * share
                    })
                });
                let expected = if reaches(4) {
                    true
                } else if reaches(3) {
                    before.is_some()
                } else {
                    false
                };
                prop_assert_eq!(held.is_some(), expected);
                if let Some(named) = held {
                    prop_assert!(readings.contains(&named));
                    prop_assert!(levels.level(named.resource).is_some());
                }
            }
        }
    }

    #[test]
    fn a_refusal_says_what_the_bound_is_and_when_to_come_back() {
        let bound = TenantBound::Queued { limit: 3 };
        let seconds = Duration::from_secs;
        let used = TenantBound::Cpu { used: seconds(61), limit: seconds(60) };
        let full = FullQueue::Lane { lane: "build".into() };
        let stored = TenantBound::Stored { limit: 65_536, setting: "tenants.ci.max_stored".into() };
        for (refusal, code, words) in [
            (
                SubmitRefusal::QueueFull { full: FullQueue::All, retry: Retry::Resumed },
                "queue_full",
                "the queue is full (queue.max_queued); try again when it is resumed",
            ),
            (
                SubmitRefusal::QueueFull { full, retry: Retry::In(Duration::from_millis(11_001)) },
                "queue_full",
                "lane build is full (queue.lanes.build.max_queued); try again in about 12s",
            ),
            (
                SubmitRefusal::TenantLimit { bound, retry: Retry::In(Duration::ZERO) },
                "tenant_limit",
                "3 of your jobs wait already, which is your limit (max_queued); try again in about 1s",
            ),
            (
                SubmitRefusal::TenantLimit { bound: used, retry: Retry::In(seconds(100)) },
                "tenant_limit",
                "your jobs used 61s of CPU time within an hour, your limit is 60s (cpu_s_per_hour); try again in about 2 minutes",
            ),
            (
                SubmitRefusal::TenantLimit { bound: stored, retry: Retry::JobEnded },
                "tenant_limit",
                "your stored output is at its limit of 64 KiB, and your running jobs hold it (tenants.ci.max_stored); try again when one of them has ended, or stop one",
            ),
            (
                SubmitRefusal::RateLimited {
                    per_minute: NonZeroU32::MIN,
                    retry_after: seconds(60),
                },
                "rate_limited",
                "too many starts: at most 1 a minute (starts_per_minute); try again in about 60s",
            ),
            (
                SubmitRefusal::Interrupted,
                "interrupted",
                "the server failed while it took the job, which does not run; try again",
            ),
        ] {
            assert_eq!(refusal.code(), code);
            assert_eq!(refusal.to_string(), format!("{words} [{code}]"));
        }
    }
}

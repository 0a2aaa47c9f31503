//! The decision whether the host stalls too much for another job to start. Pure: no clock, no
//! files.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use crate::setting_values::{deserialize_seconds, deserialize_zero_as_none};

pub use crate::telemetry::HostResource;

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
}

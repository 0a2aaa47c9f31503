//! Figures in the form that logs and gauges take.
#![expect(clippy::disallowed_macros, reason = "the one room that counts")]

use std::time::Duration;

use crate::telemetry::names::Gauge;

/// Sets a gauge to a count.
pub(super) fn set(gauge: Gauge, value: usize) {
    metrics::gauge!(gauge.name()).set(value as f64);
}

/// Whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

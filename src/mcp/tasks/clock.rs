//! Moments of a job, as a calendar has them.

use std::fmt;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::telemetry::audit::rfc3339;

/// One moment by both clocks. It is taken once, so that a moment always reads the same, also after
/// somebody has set the calendar's clock.
static MOMENT: LazyLock<(Instant, SystemTime)> =
    LazyLock::new(|| (Instant::now(), SystemTime::now()));

/// A moment: milliseconds since 1970. It is written as `2026-11-15T04:01:21.042Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(pub(super) u64);

impl Moment {
    /// When that was.
    pub(super) fn of(at: Instant) -> Self {
        let (instant, calendar) = *MOMENT;
        let moment = match at.checked_duration_since(instant) {
            Some(later) => calendar.checked_add(later),
            None => calendar.checked_sub(instant.duration_since(at)),
        };
        let since = moment.unwrap_or(calendar).duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(millis(since))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = UNIX_EPOCH.checked_add(Duration::from_millis(self.0));
        f.write_str(&rfc3339(at.unwrap_or(UNIX_EPOCH)))
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_always_reads_the_same_and_later_ones_read_later() {
        let early = Instant::now();
        let (first, late) = (Moment::of(early), Moment::of(early + Duration::from_secs(90)));
        assert!(late > first && late.to_string() > first.to_string());
        assert_eq!(Moment::of(early), first);
        assert_eq!(Moment(1_795_000_000_042).to_string(), "2026-11-18T11:06:40.042Z");
    }
}

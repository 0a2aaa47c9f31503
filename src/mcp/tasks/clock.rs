//! Moments of a job, as a calendar has them.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime};

use crate::telemetry::audit::rfc3339;

/// One moment by both clocks. It is taken once, so that a moment always reads the same, also after
/// somebody has set the calendar's clock.
static MOMENT: LazyLock<(Instant, SystemTime)> =
    LazyLock::new(|| (Instant::now(), SystemTime::now()));

/// `2026-11-15T04:01:21.042Z`: when that was.
pub(super) fn calendar(at: Instant) -> String {
    let (instant, calendar) = *MOMENT;
    let moment = match at.checked_duration_since(instant) {
        Some(later) => calendar.checked_add(later),
        None => calendar.checked_sub(instant.duration_since(at)),
    };
    rfc3339(moment.unwrap_or(calendar))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_always_reads_the_same_and_later_ones_read_later() {
        let early = Instant::now();
        let first = calendar(early);
        let late = early + Duration::from_secs(90);
        assert!(calendar(late) > first);
        assert_eq!(calendar(early), first);
        assert_eq!((first.len(), first.ends_with('Z')), ("2026-11-15T04:01:21.042Z".len(), true));
    }
}

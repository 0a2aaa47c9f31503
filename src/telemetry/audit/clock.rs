//! A moment as RFC 3339 writes it.

use std::time::{SystemTime, UNIX_EPOCH};

use time::{OffsetDateTime, PrimitiveDateTime};

/// `2026-11-15T04:01:21.042Z`: UTC, with milliseconds. A clock before 1970 reads as 1970.
#[must_use]
pub fn rfc3339(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanoseconds = i128::try_from(since.as_nanos()).unwrap_or(i128::MAX);
    let moment = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds)
        .unwrap_or(PrimitiveDateTime::MAX.assume_utc());
    let (year, month, day) = moment.to_calendar_date();
    let (hour, minute, second, millisecond) = moment.to_hms_milli();
    let month = u8::from(month);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[track_caller]
    fn check(millis: u64, text: &str) {
        assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_millis(millis)), text);
    }

    #[test]
    fn moments_read_as_the_calendar_has_them() {
        check(0, "1970-01-01T00:00:00.000Z");
        check(86_399_999, "1970-01-01T23:59:59.999Z");
        check(68_169_600_000, "1972-02-29T00:00:00.000Z");
        check(951_782_399_000, "2000-02-28T23:59:59.000Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(951_868_800_000, "2000-03-01T00:00:00.000Z");
        check(978_307_199_001, "2000-12-31T23:59:59.001Z");
        check(1_234_567_890_123, "2009-02-13T23:31:30.123Z");
        check(1_709_164_800_000, "2024-02-29T00:00:00.000Z");
        check(1_709_251_200_000, "2024-03-01T00:00:00.000Z");
        check(1_794_715_281_042, "2026-11-15T04:01:21.042Z");
        check(4_107_542_399_000, "2100-02-28T23:59:59.000Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00.000Z");
        check(253_402_300_799_999, "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn a_clock_before_1970_reads_as_1970() {
        let moment = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(rfc3339(moment), "1970-01-01T00:00:00.000Z");
    }
}

//! A moment as RFC 3339 writes it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::digits;

const SECONDS_PER_DAY: u64 = 86_400;

/// `2026-11-15T04:01:21.042Z`: UTC, with milliseconds. A clock before 1970 reads as 1970.
#[must_use]
pub fn rfc3339(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, second) = (since.as_secs() / SECONDS_PER_DAY, since.as_secs() % SECONDS_PER_DAY);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    digits::put(year, &mut text[..4]);
    digits::put(month, &mut text[5..7]);
    digits::put(day, &mut text[8..10]);
    digits::put(hour, &mut text[11..13]);
    digits::put(minute, &mut text[14..16]);
    digits::put(second, &mut text[17..19]);
    digits::put(u64::from(since.subsec_millis()), &mut text[20..23]);
    String::from_utf8_lossy(&text).into_owned()
}

/// Year, month and day, so many days after 1970-01-01.
///
/// Years are counted from March, which puts the leap day at the end of the year, and in eras of
/// 400 years, which all have the same length.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_PER_ERA: u64 = 146_097;
    const FROM_MARCH_OF_YEAR_0: u64 = 719_468;
    let days = days + FROM_MARCH_OF_YEAR_0;
    let (era, day) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    // Leap days come every 4 years, not every 100, but at the end of an era.
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, five months always have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, turn) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + turn, month, day)
}

#[cfg(test)]
mod tests {
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
    fn every_day_follows_the_day_before() {
        let mut before = date(0);
        for days in 1..200_000 {
            let (year, month, day) = date(days);
            let expected = match before {
                (year, month, day) if day < days_in(year, month) => (year, month, day + 1),
                (year, 12, _) => (year + 1, 1, 1),
                (year, month, _) => (year, month + 1, 1),
            };
            assert_eq!((year, month, day), expected);
            before = expected;
        }
    }

    fn days_in(year: u64, month: u64) -> u64 {
        let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
        match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    #[test]
    fn a_clock_before_1970_reads_as_1970() {
        let moment = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(rfc3339(moment), "1970-01-01T00:00:00.000Z");
    }
}

//! Times as people write and read them: `10m`, `1h30m`, `3m ago`.

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The units of a time, from short to long.
const UNITS: [(&str, f64); 5] =
    [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];

/// The longest time, in seconds: some thirty years.
const MAX_SECONDS: f64 = 1e9;

/// Parses a time such as `90`, `0.5`, `10m`, `1h30m`, `500ms` or `2d`; a number alone is seconds.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let bad = || "give a time above 0, such as 60, 0.5, 90s, 10m or 1h30m".to_owned();
    let mut rest = text.trim();
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let digits = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after.find(is_number).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let is_alone = unit.is_empty() && number.len() == text.trim().len();
        let factor = match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim())) {
            Some((_, factor)) => *factor,
            None if is_alone => 1.0,
            None => return Err(bad()),
        };
        seconds += number.parse::<f64>().map_err(|_| bad())? * factor;
        rest = after;
    }
    Some(seconds)
        .filter(|seconds| *seconds > 0.0 && *seconds <= MAX_SECONDS)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(bad)
}

/// Formats a time as `0.4s`, `12.0s`, `2m05s`, `1h02m` or `3d04h`.
pub(super) fn format_elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{}.{}s", seconds, time.subsec_millis() / 100),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        86_400.. => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Formats the distance of a moment from now, as `now`, `12s ago`, `5m ago`, `3h ago` or `2d ago`.
pub(super) fn format_ago(age: Duration) -> String {
    match age.as_secs() {
        0 => "now".to_owned(),
        seconds @ 1..60 => format!("{seconds}s ago"),
        seconds @ 60..3600 => format!("{}m ago", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h ago", seconds / 3600),
        seconds @ 86_400.. => format!("{}d ago", seconds / 86_400),
    }
}

/// Returns the age of a moment in RFC 3339, `None` if the text is not one. A moment in the future,
/// by a clock that differs from ours, has the age 0.
pub(super) fn parse_age(text: &str, now: OffsetDateTime) -> Option<Duration> {
    let then = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(Duration::try_from(now - then).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_parsed_as_people_write_it() {
        for (text, millis) in [
            ("90", 90_000),
            ("0.5", 500),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("1.5h", 5_400_000),
            ("2d", 172_800_000),
            (" 7S ", 7_000),
            ("1m 5s", 65_000),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(millis)), "{text:?}");
        }
        for text in ["", "0", "soon", "10x", "-5", "m", "5m3", "1e400", "1..2s", "9999999999999d"] {
            assert!(parse_time(text).is_err_and(|why| why.contains("above 0")), "{text:?}");
        }
    }

    #[test]
    fn longer_times_are_shown_with_less_precision() {
        for (millis, text) in [
            (449, "0.4s"),
            (59_999, "59.9s"),
            (60_000, "1m00s"),
            (3_720_000, "1h02m"),
            (100_000_000, "1d03h"),
        ] {
            assert_eq!(format_elapsed(Duration::from_millis(millis)), text);
        }
        for (seconds, text) in
            [(0, "now"), (59, "59s ago"), (61, "1m ago"), (7_300, "2h ago"), (200_000, "2d ago")]
        {
            assert_eq!(format_ago(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_age_of_a_moment_is_never_negative() {
        let now = OffsetDateTime::parse("2026-01-02T00:00:10Z", &Rfc3339).unwrap();
        let age = |text| parse_age(text, now);
        assert_eq!(age("2026-01-02T00:00:00.000Z"), Some(Duration::from_secs(10)));
        assert_eq!(age("2027-01-02T00:00:00Z"), Some(Duration::ZERO));
        assert_eq!(age("yesterday"), None);
    }
}

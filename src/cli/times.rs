//! Times as people write them: `10m`, `1h30m`.

use std::time::Duration;

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
}

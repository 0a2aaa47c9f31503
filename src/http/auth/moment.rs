//! A moment as files and people write it: RFC 3339, to the second, in UTC.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The last second of the year 9999: what RFC 3339 can still write.
const LAST: i64 = 253_402_300_799;

/// A whole second since 1970, at most one that RFC 3339 can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(i64);

impl Moment {
    /// Now; a clock before 1970 reads as 1970.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self::from_unix(since.as_secs())
    }

    /// So many seconds after 1970.
    #[must_use]
    pub fn from_unix(seconds: u64) -> Self {
        Self(i64::try_from(seconds).map_or(LAST, |seconds| seconds.min(LAST)))
    }

    /// So much later, or the last moment there is.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(LAST);
        Self(self.0.saturating_add(seconds).min(LAST))
    }

    /// How long it is from `now` until then; zero when it is over.
    #[must_use]
    pub fn remaining(self, now: Self) -> Duration {
        Duration::from_secs(u64::try_from(self.0 - now.0).unwrap_or(0))
    }
}

impl FromStr for Moment {
    type Err = time::error::Parse;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let moment = OffsetDateTime::parse(text, &Rfc3339)?;
        Ok(Self(moment.unix_timestamp().clamp(0, LAST)))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = OffsetDateTime::from_unix_timestamp(self.0).map_err(|_| fmt::Error)?;
        f.write_str(&moment.format(&Rfc3339).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_in_utc_whatever_its_zone_was() {
        for (given, written) in [
            ("2027-01-31T10:00:00Z", "2027-01-31T10:00:00Z"),
            ("2027-01-31T10:00:00+02:00", "2027-01-31T08:00:00Z"),
            ("2027-01-31T10:00:00.999Z", "2027-01-31T10:00:00Z"),
        ] {
            assert_eq!(given.parse::<Moment>().unwrap().to_string(), written);
        }
        for odd in ["", "tomorrow", "2027-01-31", "2027-02-30T00:00:00Z", "2027-01-31T10:00:00"] {
            assert!(odd.parse::<Moment>().is_err(), "{odd}");
        }
    }

    #[test]
    fn no_moment_is_beyond_what_can_be_written() {
        let last = Moment::from_unix(u64::MAX);
        assert_eq!(last.to_string(), "9999-12-31T23:59:59Z");
        assert_eq!(Moment::now().after(Duration::MAX), last);
        assert_eq!(Moment::from_unix(5).remaining(Moment::from_unix(7)), Duration::ZERO);
    }
}

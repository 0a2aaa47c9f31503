//! The place at which a reader of output starts: a byte, a number of last lines, or a time.

use std::time::{Duration, Instant, SystemTime};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::request::{ApiError, QueryParams};
use crate::service::StartAt;

/// The most lines of a tail.
pub(crate) const MAX_TAIL: usize = 1_000_000;

/// Reads the start of a request; `name` is the parameter with a byte position. A position stands
/// alone; `tail` and `since` together are the last lines since a time.
pub(super) fn read_start(
    params: &QueryParams<'_>,
    name: &'static str,
) -> Result<Option<StartAt>, ApiError> {
    let lines = params.count_from("tail", 0, MAX_TAIL)?;
    let since = params.value("since").map(read_since).transpose()?;
    if let Some(text) = params.value(name) {
        if lines.is_some() || since.is_some() {
            let why = format!("give `{name}` alone, without `tail` and `since`");
            return Err(ApiError::bad_query(name, &why));
        }
        let bad = |_| ApiError::bad_query(name, "it must be a number of bytes");
        return Ok(Some(StartAt::Position(text.parse().map_err(bad)?)));
    }
    Ok(match (lines, since) {
        (None, None) => None,
        (Some(lines), None | Some(Since::Always)) => Some(StartAt::LastLines(lines)),
        (None, Some(Since::Always)) => Some(StartAt::Position(0)),
        (None, Some(Since::Time(since))) => Some(StartAt::Time(since)),
        (Some(lines), Some(Since::Time(since))) => Some(StartAt::LastLinesSince { lines, since }),
    })
}

/// The time of `since`.
#[derive(Debug, Clone, Copy)]
enum Since {
    Time(Instant),
    /// A time before this host was started, which includes everything.
    Always,
}

fn read_since(text: &str) -> Result<Since, ApiError> {
    let ago = parse_age(text, SystemTime::now()).ok_or_else(|| {
        let why = "it must be a time such as 2026-11-15T04:01:21Z, or a number of seconds ago";
        ApiError::bad_query("since", why)
    })?;
    Ok(Instant::now().checked_sub(ago).map_or(Since::Always, Since::Time))
}

/// Returns how long before `now` a time is, at least zero; `None` if the text is neither a time nor a
/// number of seconds.
fn parse_age(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    // A plus sign may be written as it is, or as a query escapes it.
    let text = text.replace("%2B", "+").replace("%2b", "+").replace("%3A", ":").replace("%3a", ":");
    let time = OffsetDateTime::parse(&text, &Rfc3339).ok()?;
    Some(now.duration_since(SystemTime::from(time)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Option<StartAt>, ApiError> {
        read_start(&QueryParams::parse(Some(query), &["from", "tail", "since"])?, "from")
    }

    #[test]
    fn a_start_is_a_byte_or_lines_or_a_time() {
        assert_eq!(read("").unwrap(), None);
        assert_eq!(read("from=7").unwrap(), Some(StartAt::Position(7)));
        assert_eq!(read("tail=0").unwrap(), Some(StartAt::LastLines(0)));
        assert!(matches!(read("since=0.5").unwrap(), Some(StartAt::Time(_))));
        assert!(read("since=2026-01-01T00:00:00Z").unwrap().is_some());
        // No clock reaches back that far.
        assert_eq!(read("since=1e19").unwrap(), Some(StartAt::Position(0)));
        let both = read("tail=3&since=0.5").unwrap();
        assert!(matches!(both, Some(StartAt::LastLinesSince { lines: 3, .. })), "{both:?}");
        assert_eq!(read("tail=3&since=1e19").unwrap(), Some(StartAt::LastLines(3)));
        for bad in [
            "from=-1",
            "from=x",
            "tail=-1",
            "since=yesterday",
            "since=-1",
            "tail=1&from=0",
            "since=1&from=0",
        ] {
            assert_eq!(read(bad).unwrap_err().code(), "bad_query", "{bad}");
        }
    }

    #[test]
    fn times_are_utc_or_have_an_offset() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for (text, seconds) in [
            ("60", 60),
            ("1970-01-12T13:46:39Z", 1),
            ("1970-01-12T15:46:39+02:00", 1),
            ("1970-01-12T15:46:39%2B02:00", 1),
            ("1970-01-13T00:00:00Z", 0),
        ] {
            assert_eq!(parse_age(text, now), Some(Duration::from_secs(seconds)), "{text}");
        }
    }
}

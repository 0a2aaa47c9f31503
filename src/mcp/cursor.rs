//! Cursors: positions in a log, as they are written on the wire.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::ids::JobNumber;

/// A position in a log. A cursor carries no server state: it survives a reconnect and may be used
/// twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cursor {
    /// The byte at this offset, counted from 0.
    Bytes(u64),
    /// The first byte of this line, counted from 1.
    Line(u64),
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(offset) => write!(f, "bytes:{offset}"),
            Self::Line(line) => write!(f, "line:{line}"),
        }
    }
}

/// A cursor as a client sends it: `bytes:N`, `line:N`, a bare `N` (bytes), each with or without
/// `job:J:` before it or `@J` after it. White space around it does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedCursor {
    pub job: Option<JobNumber>,
    pub cursor: Cursor,
}

impl fmt::Display for ParsedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.job {
            Some(job) => write!(f, "job:{job}:{}", self.cursor),
            None => self.cursor.fmt(f),
        }
    }
}

impl ParsedCursor {
    /// Formats the cursor with the job last, as in `bytes:12@7`, for clients that expect the
    /// position first.
    #[must_use]
    pub fn with_job_last(&self) -> String {
        let place = self.cursor;
        self.job.map_or_else(|| place.to_string(), |job| format!("{place}@{job}"))
    }
}

/// The error for a text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CursorError {
    #[error(
        "`{given}` is not a cursor; use a next_cursor as it was returned, or `bytes:N` (N from 0) or `line:N` (N from 1)"
    )]
    Malformed { given: String },
    #[error(
        "cursor `{given}` lies before the start of the output; `bytes:0` and `line:1` are the first places"
    )]
    BeforeStart { given: String },
    #[error("cursor `{given}` is too large; the largest is `bytes:{max}`", max = u64::MAX)]
    TooLarge { given: String },
}

impl CursorError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed { .. } | Self::BeforeStart { .. } | Self::TooLarge { .. } => {
                "bad_cursor"
            }
        }
    }
}

impl FromStr for ParsedCursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let malformed = || CursorError::Malformed { given: shorten_cursor(text) };
        let named = match text.strip_prefix("job:") {
            None => text.split_once('@').map(|(place, job)| (job, place)),
            Some(rest) => Some(rest.split_once(':').ok_or_else(malformed)?),
        };
        let (job, place) = match named {
            None => (None, text),
            Some((job, place)) => (Some(job.parse().map_err(|_| malformed())?), place),
        };
        let cursor = match place.split_once(':') {
            None => Cursor::Bytes(parse_number(place, text)?),
            Some(("bytes", offset)) => Cursor::Bytes(parse_number(offset, text)?),
            Some(("line", line)) => match parse_number(line, text)? {
                0 => return Err(CursorError::BeforeStart { given: shorten_cursor(text) }),
                line => Cursor::Line(line),
            },
            Some(_) => return Err(malformed()),
        };
        Ok(Self { job, cursor })
    }
}

fn parse_number(digits: &str, whole: &str) -> Result<u64, CursorError> {
    let all_digits =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let given = shorten_cursor(whole);
    match digits.strip_prefix('-') {
        Some(rest) if all_digits(rest) => Err(CursorError::BeforeStart { given }),
        None if all_digits(digits) => digits.parse().map_err(|_| CursorError::TooLarge { given }),
        Some(_) | None => Err(CursorError::Malformed { given }),
    }
}

/// Returns enough of the text to recognise it in a message.
pub(super) fn shorten_cursor(given: &str) -> String {
    given.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, job: Option<u64>, cursor: Cursor) {
        assert_eq!(
            text.parse(),
            Ok(ParsedCursor { job: job.map(JobNumber::new), cursor }),
            "{text:?}"
        );
    }

    #[test]
    fn every_allowed_form_is_read() {
        check("bytes:0", None, Cursor::Bytes(0));
        check(" bytes:12\n", None, Cursor::Bytes(12));
        check("12", None, Cursor::Bytes(12));
        check("line:1", None, Cursor::Line(1));
        check("job:7:bytes:12", Some(7), Cursor::Bytes(12));
        check("job:7:line:3", Some(7), Cursor::Line(3));
        check("job:7:12", Some(7), Cursor::Bytes(12));
        check("bytes:12@7", Some(7), Cursor::Bytes(12));
        check("bytes:18446744073709551615", None, Cursor::Bytes(u64::MAX));
    }

    #[test]
    fn each_mistake_has_its_own_message() {
        let error = |text: &str| text.parse::<ParsedCursor>().unwrap_err().to_string();
        for text in [
            "",
            "bytes:",
            "bytes:x",
            "byte:1",
            "bytes:+1",
            "bytes:1:2",
            "job:0:bytes:1",
            "job:x:bytes:1",
            "job:1",
            "job:1:bytes:2@3",
            "bytes:1@",
            "bytes:1@0",
            "bytes:1@2@3",
            "bytes:1.5",
            "bytes:--1",
            "line:",
            "bytes: 1",
        ] {
            assert!(error(text).contains("is not a cursor"), "{text:?}: {}", error(text));
        }
        assert!(error("bytes:-1").contains("before the start"));
        assert!(error("-5").contains("before the start"));
        assert!(error("line:0").contains("before the start"));
        assert!(error("bytes:18446744073709551616").contains("too large"));
        assert!(error(&"9".repeat(100_000)).len() < 300);
    }

    proptest! {
        #[test]
        fn a_written_cursor_parses_back(place in any::<u64>(), job in 1..u64::MAX) {
            for cursor in [Cursor::Bytes(place), Cursor::Line(place.max(1))] {
                for job in [None, Some(JobNumber::new(job))] {
                    let given = ParsedCursor { job, cursor };
                    prop_assert_eq!(given.to_string().parse(), Ok(given));
                    prop_assert_eq!(given.with_job_last().parse(), Ok(given));
                }
            }
        }

        #[test]
        fn no_input_breaks_the_parser(text in "\\PC*|(job:)?[0-9:-]*(bytes|line)?:?[0-9-]*") {
            let parsed = text.parse::<ParsedCursor>();
            prop_assert!(parsed.is_ok() || parsed.is_err_and(|error| error.code() == "bad_cursor"));
        }
    }
}

//! Names of things that cross rooms.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A job's number: small, counted from 1, never used twice by one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

impl JobId {
    /// The job with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number itself.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What was given for a job is not a job's number.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is not a job number; job numbers are whole numbers from 1, such as 12")]
pub struct JobIdError {
    given: String,
}

impl FromStr for JobId {
    type Err = JobIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<u64>() {
            Ok(number) if number > 0 => Ok(Self(number)),
            Ok(_) | Err(_) => Err(JobIdError { given: text.chars().take(40).collect() }),
        }
    }
}

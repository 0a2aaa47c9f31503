//! Names of things that cross rooms.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

/// A tenant's name. A cheap copy: each name is kept once, for as long as the process lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(&'static str);

/// Tenants that one server can know: names come from outside, where an authorization server
/// gives them out.
const MAX_TENANTS: usize = 100_000;
const MAX_NAME_BYTES: usize = 100;

static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);

impl Tenant {
    /// Whoever uses this machine without a token.
    pub const LOCAL: Self = Self("local");

    /// The tenant of this name.
    ///
    /// # Errors
    /// When it can be no tenant's name, or there are too many tenants already.
    pub fn named(name: &str) -> Result<Self, TenantError> {
        if !is_name(name) {
            return Err(TenantError::BadName { given: name.chars().take(40).collect() });
        }
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        let names = names.get_or_insert_default();
        if let Some(known) = names.get(name) {
            return Ok(Self(known));
        }
        if names.len() >= MAX_TENANTS {
            return Err(TenantError::TooMany);
        }
        let name: &'static str = Box::leak(name.into());
        names.insert(name);
        Ok(Self(name))
    }

    /// The name itself.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }
}

fn is_name(name: &str) -> bool {
    let is_fit = |b: u8| b.is_ascii_alphanumeric() || b"._@:+|/-".contains(&b);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_fit)
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

/// Why somebody can be no tenant.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TenantError {
    /// The name has characters that none has.
    #[error(
        "`{given}` cannot be a tenant's name; names are 1 to {MAX_NAME_BYTES} letters, digits and `._@:+|/-`"
    )]
    BadName {
        /// What was given.
        given: String,
    },
    /// Names are kept for as long as the server runs, so that their number has a bound.
    #[error("this server knows {MAX_TENANTS} tenants already; restart it")]
    TooMany,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once_and_odd_ones_are_none() {
        let [a, b] = ["ids-a", "ids-b"].map(|name| Tenant::named(name).unwrap());
        assert_eq!(Tenant::named("ids-a"), Ok(a));
        assert!(std::ptr::eq(Tenant::named("ids-a").unwrap().name(), a.name()));
        assert_ne!(a, b);
        assert_eq!(Tenant::named("local"), Ok(Tenant::LOCAL));
        for odd in ["", "a b", "ü", "a\n", &"x".repeat(101)] {
            assert!(Tenant::named(odd).is_err(), "{odd}");
        }
    }
}

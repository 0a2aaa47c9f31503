//! Names of things that cross rooms.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

/// A tenant's name. A cheap copy: each name is kept once, for as long as the process lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(&'static str);

/// Tenants that one server can know: names come from outside, where an authorization server
/// gives them out.
const MAX_TENANTS: usize = 100_000;
const MAX_NAME_BYTES: usize = 100;

static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);

impl TenantId {
    /// Whoever uses this machine without a token.
    pub const LOCAL: Self = Self("local");

    /// The tenant of this name.
    ///
    /// # Errors
    /// When it can be no tenant's name, or there are too many tenants already.
    pub fn parse(name: &str) -> Result<Self, TenantError> {
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

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for TenantId {
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

/// A job's number as its tenant says it: small, counted from 1, never used twice by one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobNumber(u64);

impl JobNumber {
    /// This number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The job of this tenant that has the number.
    #[must_use]
    pub const fn for_tenant(self, tenant: TenantId) -> JobId {
        JobId { tenant, number: self.0 }
    }
}

impl fmt::Display for JobNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A job: its tenant's name and its number. Without the tenant no job can be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    tenant: TenantId,
    number: u64,
}

impl JobId {
    /// A job of the local tenant, for tests.
    #[cfg(test)]
    pub(crate) const fn local(number: u64) -> Self {
        JobNumber::new(number).for_tenant(TenantId::LOCAL)
    }

    /// The number itself.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    /// The number as its tenant says it.
    #[must_use]
    pub const fn job_number(self) -> JobNumber {
        JobNumber(self.number)
    }

    /// Whose job it is.
    #[must_use]
    pub const fn tenant(self) -> TenantId {
        self.tenant
    }
}

impl fmt::Display for JobId {
    /// The number, which is all that the tenant itself needs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// What was given for a job is not a job's number.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is not a job number; job numbers are whole numbers from 1, such as 12")]
pub struct JobNumberError {
    given: String,
}

impl FromStr for JobNumber {
    type Err = JobNumberError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<u64>() {
            Ok(number) if number > 0 => Ok(Self(number)),
            Ok(_) | Err(_) => Err(JobNumberError { given: text.chars().take(40).collect() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once_and_odd_ones_are_none() {
        let [a, b] = ["ids-a", "ids-b"].map(|name| TenantId::parse(name).unwrap());
        assert_eq!(TenantId::parse("ids-a"), Ok(a));
        assert!(std::ptr::eq(TenantId::parse("ids-a").unwrap().name(), a.name()));
        assert_ne!(a, b);
        assert_eq!(TenantId::parse("local"), Ok(TenantId::LOCAL));
        for odd in ["", "a b", "ü", "a\n", &"x".repeat(101)] {
            assert!(TenantId::parse(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn the_same_number_of_two_tenants_is_two_jobs() {
        let number: JobNumber = "7".parse().unwrap();
        let other = TenantId::parse("ids-other").unwrap();
        assert_ne!(number.for_tenant(TenantId::LOCAL), number.for_tenant(other));
        assert_eq!(number.for_tenant(other).to_string(), "7");
    }
}

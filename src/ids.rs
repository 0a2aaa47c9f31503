//! Identifiers that every module shares: tenants, sessions and jobs.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// A tenant, by its name. Cheap to copy: each name is stored once, for the lifetime of the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(&'static str);

/// The number of tenants that one server can know. An authorization server can hand out any number
/// of names, and names are never freed, so there must be a bound.
const MAX_TENANTS: usize = 100_000;
const MAX_NAME_BYTES: usize = 100;

static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);

impl TenantId {
    /// The tenant of callers on this machine that need no token.
    pub const LOCAL: Self = Self("local");

    /// Returns the tenant with this name.
    ///
    /// # Errors
    /// If the name is not valid, or the server already knows too many tenants.
    pub fn parse(name: &str) -> Result<Self, TenantError> {
        if !is_valid_name(name) {
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

    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl Serialize for TenantId {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for TenantId {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let name = <std::borrow::Cow<'de, str>>::deserialize(input)?;
        Self::parse(&name).map_err(D::Error::custom)
    }
}

fn is_valid_name(name: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"._@:+|/-".contains(&b);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_allowed)
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

/// The reason why a text is not accepted as a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TenantError {
    #[error(
        "`{given}` cannot be a tenant's name; names are 1 to {MAX_NAME_BYTES} letters, digits and `._@:+|/-`"
    )]
    BadName { given: String },
    /// Names are stored for as long as the server runs, so their number is bounded.
    #[error("this server knows {MAX_TENANTS} tenants already; restart it")]
    TooMany,
}

/// A job's number within its tenant: counted from 1, and never used twice by one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobNumber(u64);

impl JobNumber {
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the id of the job that has this number in this tenant.
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

/// The id of a job: its tenant and its number. A number alone does not identify a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId {
    tenant: TenantId,
    number: u64,
}

impl JobId {
    /// Returns the id of a job of the local tenant, for tests.
    #[cfg(test)]
    pub(crate) const fn local(number: u64) -> Self {
        JobNumber::new(number).for_tenant(TenantId::LOCAL)
    }

    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    #[must_use]
    pub const fn job_number(self) -> JobNumber {
        JobNumber(self.number)
    }

    #[must_use]
    pub const fn tenant(self) -> TenantId {
        self.tenant
    }
}

impl fmt::Display for JobId {
    /// Writes the number alone: a tenant only ever sees its own jobs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// The conversation in which a caller sends its requests. Callers of one tenant may read each other's
/// jobs by number; a request without a number is about the jobs of its own session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallerSession {
    /// A session of a legacy HTTP client, by its id.
    Http(Arc<str>),
    /// A connection whose requests all come from one caller: stdio, or a proxy.
    Connection(u64),
    /// All requests of programs with this name: modern HTTP clients have neither session nor
    /// connection.
    Program(Arc<str>),
}

/// A text that is not a job number.
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
    fn a_name_is_stored_once_and_invalid_names_are_refused() {
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

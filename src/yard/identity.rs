//! Who calls, and what that one may do.

use crate::ids::Tenant;

/// Who calls: what a transport found out before it let the caller in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Whose jobs it sees.
    pub tenant: Tenant,
    /// What it may do.
    pub role: Role,
}

impl Identity {
    /// Whoever uses this machine without a token: what it can do here it can do without us.
    pub const LOCAL: Self = Self { tenant: Tenant::LOCAL, role: Role::Admin };
}

/// What a caller may do; each may also do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look at its tenant's jobs.
    Read,
    /// Run, type into and stop its tenant's jobs.
    Run,
    /// See what concerns all tenants, and change it.
    Admin,
}

impl Role {
    /// Each with the word for it in files and on the command line.
    pub const WORDS: [(&'static str, Self); 3] =
        [("read-only", Self::Read), ("run", Self::Run), ("admin", Self::Admin)];

    /// That word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read-only",
            Self::Run => "run",
            Self::Admin => "admin",
        }
    }

    /// The role with this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, role)| *role)
    }
}

//! Why a file was not read, written or listed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::outcome::StartError;
use crate::yard::Refused;

/// Why a file was not read, written or listed. Nothing was changed.
#[derive(Debug, Error)]
pub enum FileError {
    /// A rule says no.
    #[error("denied by security policy: {0}")]
    Rules(Refused),
    /// The working directory itself cannot be used.
    #[error("the working directory cannot be used: {0}")]
    Root(StartError),
    /// Something that is no path.
    #[error("`{path}` is no path of a file; give one such as \"src/main.rs\"")]
    BadPath {
        /// As it was given.
        path: String,
    },
    /// It is outside, by itself, by `..` or by a link.
    #[error("`{path}` leads out of the working directory `{}`; give a path below it", .root.display())]
    Outside {
        /// As it was given.
        path: String,
        /// The working directory.
        root: PathBuf,
    },
    /// There is nothing.
    #[error("there is no `{path}`; list_directory shows what there is")]
    Missing {
        /// As it was given.
        path: String,
    },
    /// It is not of the kind that the call is for.
    #[error("`{path}` is {found}, not {wanted}")]
    WrongKind {
        /// As it was given.
        path: String,
        /// What it is.
        found: &'static str,
        /// What it would have to be.
        wanted: &'static str,
    },
    /// The system's permissions say no.
    #[error("permission denied for `{path}`; the server's user may not do that")]
    Permission {
        /// As it was given.
        path: String,
    },
    /// The system does not answer.
    #[error("`{path}` did not answer within {}s; try again, or another file", .patience.as_secs())]
    Slow {
        /// As it was given.
        path: String,
        /// How long it was waited for.
        patience: Duration,
    },
    /// Anything else that the system said.
    #[error("`{path}` cannot be used: {source}")]
    System {
        /// As it was given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

impl FileError {
    /// The stable word that clients may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Rules(refused) => refused.code(),
            Self::Root(error) => error.code(),
            Self::BadPath { .. } => "bad_path",
            Self::Outside { .. } => "outside_directory",
            Self::Missing { .. } => "no_such_file",
            Self::WrongKind { .. } => "wrong_kind",
            Self::Permission { .. } => "permission_denied",
            Self::Slow { .. } => "slow",
            Self::System { .. } => "system",
        }
    }
}

impl From<Refused> for FileError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unreadable(error) => Self::Root(error),
            Refused::ByPolicy(_)
            | Refused::NeedsApproval { .. }
            | Refused::NotApproved { .. }
            | Refused::Directory { .. }
            | Refused::OutsideRoot { .. }
            | Refused::Confined { .. }
            | Refused::NoAudit { .. } => Self::Rules(refused),
        }
    }
}

//! What can be wrong with a configuration.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use super::Origin;
use crate::bounded_read::BoundedReadError;

/// Why there are no settings.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read the configuration file `{}`; check its path, kind and permissions", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The reason.
        source: BoundedReadError,
    },
    /// Something in a layer is wrong; every problem is listed.
    #[error("{}", list(problems))]
    Invalid {
        /// All problems of all layers, in the order of the layers.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    /// The stable word that scripts may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "config_unreadable",
            Self::Invalid { .. } => "config_invalid",
        }
    }
}

fn list(problems: &[Problem]) -> String {
    let mut text = "the configuration is not valid; correct:".to_owned();
    for problem in problems {
        text.push_str(&format!("\n  {problem}"));
    }
    text
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}: {trouble}")]
pub struct Problem {
    /// Where it was found.
    pub origin: Origin,
    /// What is wrong.
    pub trouble: Trouble,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Trouble {
    /// The file is not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// There is no such key or section.
    #[error("unknown key `{key}`{}", did_you_mean(suggestion.as_deref()))]
    UnknownKey {
        /// The key as it was written, with its section.
        key: String,
        /// What it was most likely meant to be.
        suggestion: Option<String>,
    },
    /// There is no such environment variable.
    #[error(
        "no setting has this variable{}",
        did_you_mean(suggestion.as_deref())
    )]
    UnknownVariable {
        /// What it was most likely meant to be.
        suggestion: Option<String>,
    },
    /// The value is not UTF-8.
    #[error("the value for `{key}` is not UTF-8 text")]
    NotText {
        /// Which setting.
        key: String,
    },
    /// A section was given a value.
    #[error("`{section}` is a section, not a value; write [{section}] and its keys below")]
    SectionExpected {
        /// The section.
        section: String,
    },
    /// A lane or a tenant has a name that cannot be used.
    #[error(
        "`{key}`: a lane's name is 1 to 32 of a-z, 0-9, `_` and `-`; a tenant's 1 to 64 of those and A-Z"
    )]
    FreeName {
        /// The key as it was written.
        key: String,
    },
    /// The value has the wrong type, or is out of its range.
    #[error("`{key}` cannot be {given}; it must be {allowed}{}", or_rather(*meant))]
    NotAllowed {
        /// Which setting.
        key: String,
        /// The value as it was written.
        given: String,
        /// What it may be.
        allowed: String,
        /// The word that was most likely meant.
        meant: Option<&'static str>,
    },
    /// Two settings contradict each other.
    #[error("`{key}` ({value}) must not be larger than `{bound}` ({bound_value}, {bound_origin})")]
    OutOfOrder {
        /// The setting that is too large.
        key: &'static str,
        /// Its value.
        value: String,
        /// The setting that bounds it.
        bound: &'static str,
        /// The bound's value.
        bound_value: String,
        /// Where the bound came from.
        bound_origin: Box<Origin>,
    },
}

fn or_rather(meant: Option<&str>) -> String {
    meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}

fn did_you_mean(suggestion: Option<&str>) -> impl fmt::Display {
    match suggestion {
        Some(suggestion) => format!("; did you mean `{suggestion}`?"),
        None => "; `shellyard config init --stdout` lists all that exist".to_owned(),
    }
}

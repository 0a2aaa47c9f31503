//! Where a value came from.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from, precise enough to go and change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `config/default.toml`, compiled in.
    Default,
    /// A line of a configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A flag, such as `--bind`.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

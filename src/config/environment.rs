//! A snapshot of the process environment, so that everything else is a pure function.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZero;
use std::path::PathBuf;

/// The bearer token that clients of a server show. It is no setting.
pub const TOKEN_VARIABLE: &str = "SHELLYARD_TOKEN";

/// The environment variables and the user, as they were at one moment.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, OsString>,
    user: u32,
}

impl Environment {
    /// The environment of this process. The one place that reads it.
    ///
    /// A variable whose name is not UTF-8 is left out: it cannot be one of ours.
    #[must_use]
    pub fn of_process() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .collect();
        Self { variables, user: rustix::process::getuid().as_raw() }
    }

    /// An environment of these variables only, for user 0.
    pub fn from_pairs<N: Into<String>, V: Into<OsString>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let variables = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { variables: variables.collect(), user: 0 }
    }

    /// All variables, for a child to inherit.
    #[must_use]
    pub fn pairs(&self) -> Vec<(OsString, OsString)> {
        self.variables.iter().map(|(name, value)| (name.into(), value.clone())).collect()
    }

    /// The token that clients of a server show ([`TOKEN_VARIABLE`]), where it is set.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.non_empty(TOKEN_VARIABLE).and_then(|token| token.to_str())
    }

    /// Whether the user asked for output without colours (`NO_COLOR`, any value but empty).
    #[must_use]
    pub fn refuses_color(&self) -> bool {
        self.variables.get("NO_COLOR").is_some_and(|value| !value.is_empty())
    }

    /// The number of threads that the runtime is to have (`TOKIO_WORKER_THREADS`), where it says so.
    #[must_use]
    pub fn worker_threads(&self) -> Option<NonZero<usize>> {
        self.non_empty("TOKIO_WORKER_THREADS")?.to_str()?.trim().parse().ok()
    }

    /// The home directory of the user, where it is a full path.
    #[must_use]
    pub fn home(&self) -> Option<PathBuf> {
        self.absolute_path("HOME")
    }

    /// The login shell of the user (`SHELL`).
    #[must_use]
    pub fn login_shell(&self) -> Option<PathBuf> {
        self.absolute_path("SHELL")
    }

    /// Where temporary files go (`TMPDIR`).
    #[must_use]
    pub fn temp_dir(&self) -> PathBuf {
        self.absolute_path("TMPDIR").unwrap_or_else(|| "/tmp".into())
    }

    /// The numeric id of the user.
    #[must_use]
    pub const fn user(&self) -> u32 {
        self.user
    }

    /// The variable as an absolute path. Relative paths count as unset, as the XDG
    /// base directory specification demands.
    pub(super) fn absolute_path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// The variable, when it is set and not empty.
    pub(super) fn non_empty(&self, name: &str) -> Option<&OsString> {
        self.variables.get(name).filter(|value| !value.is_empty())
    }

    /// Every variable whose name starts with `prefix`, sorted by name.
    pub(super) fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a OsString)> {
        let named = self.variables.iter().map(|(name, value)| (name.as_str(), value));
        named.filter(move |(name, _)| name.starts_with(prefix))
    }
}

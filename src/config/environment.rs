//! A snapshot of the process environment, so that everything else is a pure function.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};

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
    pub fn from_process() -> Self {
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

// Paths of files: pure functions of the environment.

const FILE: &str = "shellyard/config.toml";
const SYSTEM_FILE: &str = "/etc/shellyard/config.toml";

/// The files that are tried when none is named, the first that exists wins.
pub(super) fn config_files(environment: &Environment) -> Vec<PathBuf> {
    let named = environment.absolute_path("XDG_CONFIG_HOME").map(|home| home.join(FILE));
    let usual = environment.absolute_path("HOME").map(|home| home.join(".config").join(FILE));
    named.into_iter().chain(usual).chain([PathBuf::from(SYSTEM_FILE)]).collect()
}

/// The user's own configuration file: where `config init` writes. `None` without a home.
#[must_use]
pub fn user_file(environment: &Environment) -> Option<PathBuf> {
    config_files(environment).into_iter().find(|path| path != Path::new(SYSTEM_FILE))
}

/// The data directory when none is configured.
pub(super) fn data_dir(environment: &Environment) -> PathBuf {
    let named = environment.absolute_path("XDG_STATE_HOME").map(|home| home.join("shellyard"));
    let usual = || Some(environment.absolute_path("HOME")?.join(".local/state/shellyard"));
    named.or_else(usual).unwrap_or_else(|| {
        let temporary = environment.absolute_path("TMPDIR").unwrap_or_else(|| "/tmp".into());
        // The temporary directory is shared, so that every user needs a name of its own.
        temporary.join(format!("shellyard-{}", environment.user()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_places_are_tried_in_order() {
        let environment = Environment::from_pairs([("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]);
        let expected =
            ["/x/shellyard/config.toml", "/h/.config/shellyard/config.toml", SYSTEM_FILE];
        assert_eq!(config_files(&environment), expected.map(PathBuf::from));
        assert_eq!(user_file(&environment), Some(PathBuf::from(expected[0])));
    }

    #[test]
    fn without_a_home_only_the_system_file_is_left() {
        let environment = Environment::from_pairs([("XDG_CONFIG_HOME", "relative")]);
        assert_eq!(config_files(&environment), [PathBuf::from(SYSTEM_FILE)]);
        assert_eq!(user_file(&environment), None);
    }

    #[test]
    fn the_data_directory_follows_xdg_then_home_then_the_temporary_directory() {
        let dir = |pairs: &[(&str, &str)]| data_dir(&Environment::from_pairs(pairs.to_vec()));
        assert_eq!(dir(&[("XDG_STATE_HOME", "/x"), ("HOME", "/h")]), Path::new("/x/shellyard"));
        assert_eq!(dir(&[("HOME", "/h")]), Path::new("/h/.local/state/shellyard"));
        assert_eq!(dir(&[("TMPDIR", "/t")]), Path::new("/t/shellyard-0"));
        assert_eq!(dir(&[("HOME", "")]), Path::new("/tmp/shellyard-0"));
    }
}

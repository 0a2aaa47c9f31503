//! A snapshot of the process environment. All other code in this module is a pure function of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The variable with the bearer token that clients send to a server. It is not a setting.
pub const TOKEN_VARIABLE: &str = "SHELLYARD_TOKEN";

/// The environment variables and the user id at one moment.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, OsString>,
    user: u32,
}

impl Environment {
    /// Reads the environment of this process. No other code reads it.
    ///
    /// A variable whose name is not UTF-8 is left out: it cannot be a setting.
    #[must_use]
    pub fn from_process() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .collect();
        Self { variables, user: rustix::process::getuid().as_raw() }
    }

    /// Creates an environment of these variables, with the user id 0.
    pub fn from_pairs<N: Into<String>, V: Into<OsString>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let variables = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { variables: variables.collect(), user: 0 }
    }

    /// Returns all variables, for a child process to inherit.
    #[must_use]
    pub fn pairs(&self) -> Vec<(OsString, OsString)> {
        self.variables.iter().map(|(name, value)| (name.into(), value.clone())).collect()
    }

    /// The value of [`TOKEN_VARIABLE`], if it is set.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.find_non_empty(TOKEN_VARIABLE).and_then(|token| token.to_str())
    }

    /// `true` if the user asked for output without colours (`NO_COLOR` is not empty).
    #[must_use]
    pub fn refuses_color(&self) -> bool {
        self.variables.get("NO_COLOR").is_some_and(|value| !value.is_empty())
    }

    /// `true` if the terminal understands no sequences (`TERM` is `dumb` or not set).
    #[must_use]
    pub fn has_dumb_terminal(&self) -> bool {
        self.find_non_empty("TERM").is_none_or(|term| term == "dumb")
    }

    /// The command that shows long output: `PAGER`, else `less`. `None` if `PAGER` is empty or `cat`.
    #[must_use]
    pub fn pager(&self) -> Option<String> {
        match self.variables.get("PAGER").map(|value| value.to_string_lossy()) {
            None => Some("less -RFX".to_owned()),
            Some(command) if ["", "cat"].contains(&command.trim()) => None,
            // Without these options, `less` shows colours as text and asks for a key after one screen.
            Some(command) if command == "less" && !self.variables.contains_key("LESS") => {
                Some("less -RFX".to_owned())
            }
            Some(command) => Some(command.into_owned()),
        }
    }

    /// The time in which the service manager expects to hear of the server, if `WATCHDOG_USEC` sets it.
    #[must_use]
    pub fn watchdog_time(&self) -> Option<Duration> {
        let text = self.find_non_empty("WATCHDOG_USEC")?.to_str()?;
        text.trim().parse().ok().filter(|time| *time > 0).map(Duration::from_micros)
    }

    /// The number of worker threads of the runtime, if `TOKIO_WORKER_THREADS` sets it.
    #[must_use]
    pub fn worker_threads(&self) -> Option<NonZero<usize>> {
        self.find_non_empty("TOKIO_WORKER_THREADS")?.to_str()?.trim().parse().ok()
    }

    /// The home directory of the user, if `HOME` is a full path.
    #[must_use]
    pub fn home(&self) -> Option<PathBuf> {
        self.find_absolute_path("HOME")
    }

    /// The login shell of the user (`SHELL`).
    #[must_use]
    pub fn login_shell(&self) -> Option<PathBuf> {
        self.find_absolute_path("SHELL")
    }

    /// The directory for temporary files (`TMPDIR`).
    #[must_use]
    pub fn temp_dir(&self) -> PathBuf {
        self.find_absolute_path("TMPDIR").unwrap_or_else(|| "/tmp".into())
    }

    /// The numeric id of the user.
    #[must_use]
    pub const fn user_id(&self) -> u32 {
        self.user
    }

    /// Returns a variable as an absolute path. Relative paths count as unset, as the XDG base directory
    /// specification demands.
    pub(super) fn find_absolute_path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Returns a variable if it is set and not empty.
    pub(super) fn find_non_empty(&self, name: &str) -> Option<&OsString> {
        self.variables.get(name).filter(|value| !value.is_empty())
    }

    /// Returns the variables whose names start with `prefix`, sorted by name.
    pub(super) fn list_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a OsString)> {
        let named = self.variables.iter().map(|(name, value)| (name.as_str(), value));
        named.filter(move |(name, _)| name.starts_with(prefix))
    }
}

const FILE: &str = "shellyard/config.toml";
const SYSTEM_FILE: &str = "/etc/shellyard/config.toml";

/// Returns the files that are tried if none is named. The first one that exists is read.
pub(super) fn list_config_files(environment: &Environment) -> Vec<PathBuf> {
    let named = environment.find_absolute_path("XDG_CONFIG_HOME").map(|home| home.join(FILE));
    let usual = environment.find_absolute_path("HOME").map(|home| home.join(".config").join(FILE));
    named.into_iter().chain(usual).chain([PathBuf::from(SYSTEM_FILE)]).collect()
}

/// Returns the user's own configuration file, which `config init` writes; `None` without a home.
#[must_use]
pub fn user_config_file(environment: &Environment) -> Option<PathBuf> {
    list_config_files(environment).into_iter().find(|path| path != Path::new(SYSTEM_FILE))
}

/// Returns the data directory if none is configured.
pub(super) fn default_data_dir(environment: &Environment) -> PathBuf {
    let named = environment.find_absolute_path("XDG_STATE_HOME").map(|home| home.join("shellyard"));
    let usual = || Some(environment.find_absolute_path("HOME")?.join(".local/state/shellyard"));
    named.or_else(usual).unwrap_or_else(|| {
        let temporary = environment.find_absolute_path("TMPDIR").unwrap_or_else(|| "/tmp".into());
        // Users share the temporary directory, so each needs a name of its own.
        temporary.join(format!("shellyard-{}", environment.user_id()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_files_are_tried_in_order() {
        let environment = Environment::from_pairs([("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]);
        let expected =
            ["/x/shellyard/config.toml", "/h/.config/shellyard/config.toml", SYSTEM_FILE];
        assert_eq!(list_config_files(&environment), expected.map(PathBuf::from));
        assert_eq!(user_config_file(&environment), Some(PathBuf::from(expected[0])));
    }

    #[test]
    fn without_a_home_only_the_system_file_is_tried() {
        let environment = Environment::from_pairs([("XDG_CONFIG_HOME", "relative")]);
        assert_eq!(list_config_files(&environment), [PathBuf::from(SYSTEM_FILE)]);
        assert_eq!(user_config_file(&environment), None);
    }

    #[test]
    fn an_empty_pager_is_no_pager() {
        let pager = |value: &str| Environment::from_pairs([("PAGER", value)]).pager();
        assert_eq!(Environment::default().pager().as_deref(), Some("less -RFX"));
        assert_eq!(pager("more -s").as_deref(), Some("more -s"));
        assert_eq!(pager("less").as_deref(), Some("less -RFX"));
        assert_eq!((pager(""), pager("cat")), (None, None));
    }

    #[test]
    fn the_data_directory_follows_xdg_then_home_then_the_temporary_directory() {
        let dir =
            |pairs: &[(&str, &str)]| default_data_dir(&Environment::from_pairs(pairs.to_vec()));
        assert_eq!(dir(&[("XDG_STATE_HOME", "/x"), ("HOME", "/h")]), Path::new("/x/shellyard"));
        assert_eq!(dir(&[("HOME", "/h")]), Path::new("/h/.local/state/shellyard"));
        assert_eq!(dir(&[("TMPDIR", "/t")]), Path::new("/t/shellyard-0"));
        assert_eq!(dir(&[("HOME", "")]), Path::new("/tmp/shellyard-0"));
    }
}

//! Reads all layers and the settings from them, and writes the first configuration file.
//!
//! [`Environment`] is a snapshot of the process environment. All other code is a pure function of it and of files.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::layers::{
    self, ConfigEntry, ConfigError, Layers, Problem, ProblemKind, UnknownNames, ValueOrigin,
};
use super::schema;
use super::settings::Settings;
use crate::private_files::{BoundedReadError, Symlinks, read_text};
use crate::spec::JOB_VARIABLE;

/// The file with every setting, its default and a comment.
pub(super) const DEFAULT_FILE: &str = include_str!("../../config/default.toml");

/// Other names of variables for some settings, from standards and from other tools' documentation.
const ALIASES: [(&str, &str); 6] = [
    ("MCP_HTTP_BIND", "http.bind"),
    ("MCP_HTTP_PATH", "http.path"),
    ("MCP_EXEC_MAX_OUTPUT_BYTES", "execute.max_output_bytes"),
    ("MCP_EXEC_LOG_FULL_OUTPUT", "execute.log_full_output"),
    ("MCP_EXEC_LOG_OUTPUT_BYTES", "execute.log_output_bytes"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "trace.otlp_endpoint"),
];

/// The sources of settings besides the defaults.
#[derive(Debug, Clone, Default)]
pub struct ConfigSources {
    /// The file to read; `None` = the first default file that exists.
    pub file: Option<PathBuf>,
    pub environment: Environment,
    pub flags: Vec<FlagValue>,
}

/// A setting that was given as a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlagValue {
    /// The dotted key of the setting.
    pub key: &'static str,
    /// The value as it was typed.
    pub value: String,
    /// The name of the flag, such as `--bind`.
    pub flag: &'static str,
}

/// The settings with the origin of each value.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub settings: Settings,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// The keys of a `settings.json` that have no meaning here.
    pub ignored: Vec<String>,
    entries: BTreeMap<String, ConfigEntry>,
}

impl Loaded {
    /// Returns every key with its current value, in the order of `config/default.toml`.
    #[must_use]
    pub fn entries(&self) -> Vec<(&str, &ConfigEntry)> {
        let mut entries: Vec<_> =
            self.entries.iter().map(|(key, entry)| (key.as_str(), entry)).collect();
        entries.sort_by_key(|(key, _)| schema::key_rank(key));
        entries
    }

    /// Returns the origin of the value of a key.
    #[must_use]
    pub fn origin(&self, key: &str) -> Option<&ValueOrigin> {
        self.entries.get(key).map(|entry| &entry.origin)
    }
}

/// Loads all layers. Either every value is valid, or the error lists every problem.
///
/// # Errors
/// If a file cannot be read, or a value of any layer is not valid.
pub fn load(sources: ConfigSources) -> Result<Loaded, ConfigError> {
    load_with_unknown_names(sources, UnknownNames::Refused)
}

/// Loads all layers as [`load`] does, and handles unknown keys and variables in this way.
///
/// # Errors
/// As [`load`]; unknown names are no error if they are left out.
pub fn load_with_unknown_names(
    sources: ConfigSources,
    unknown_names: UnknownNames,
) -> Result<Loaded, ConfigError> {
    let ConfigSources { file, environment, flags } = sources;
    let mut layers = Layers::default();
    layers::add_toml(&mut layers, DEFAULT_FILE, &|_| ValueOrigin::Default);
    let found = find_file(file, &environment)?;
    let ignored = match &found {
        Some((path, text)) => layers::add_file(&mut layers, path, text),
        None => Vec::new(),
    };
    add_environment(&mut layers, &environment);
    for FlagValue { key, value, flag } in flags {
        layers.set_text(key, &value, ValueOrigin::Flag(flag));
    }
    let entries =
        layers.finish(unknown_names).map_err(|problems| ConfigError::Invalid { problems })?;
    let settings = read_settings(&entries, &environment)?;
    Ok(Loaded { settings, file: found.map(|(path, _)| path), ignored, entries })
}

/// Reads the named file, which must exist, or the first default file that exists.
fn find_file(
    named: Option<PathBuf>,
    environment: &Environment,
) -> Result<Option<(PathBuf, String)>, ConfigError> {
    if let Some(path) = named {
        let text =
            read_text(&path, Symlinks::Follow).map_err(|source| unreadable_error(&path, source))?;
        return Ok(Some((path, text)));
    }
    for path in list_config_files(environment) {
        match read_text(&path, Symlinks::Follow) {
            Ok(text) => return Ok(Some((path, text))),
            Err(BoundedReadError::Io(error))
                if matches!(
                    error.kind(),
                    // The home directory of another user must not keep the program from starting.
                    ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
                ) => {}
            Err(source) => return Err(unreadable_error(&path, source)),
        }
    }
    Ok(None)
}

fn unreadable_error(path: &Path, source: BoundedReadError) -> ConfigError {
    ConfigError::Unreadable { path: path.to_owned(), source }
}

/// Adds the variables. Aliases come first, so that the product's own names override them.
fn add_environment(layers: &mut Layers, environment: &Environment) {
    for (name, key) in ALIASES {
        if let Some(value) = environment.find_non_empty(name) {
            add_variable(layers, key, name, value);
        }
    }
    let own = environment.list_with_prefix(schema::VARIABLE_PREFIX);
    for (name, value) in own.filter(|(name, _)| ![JOB_VARIABLE, TOKEN_VARIABLE].contains(name)) {
        match schema::find_key_of_variable(name) {
            Some(key) => add_variable(layers, &key, name, value),
            None => {
                let suggestion = layers::suggest_variable(name);
                let origin = ValueOrigin::Variable(name.to_owned());
                layers.report(origin, ProblemKind::UnknownVariable { suggestion });
            }
        }
    }
}

fn add_variable(layers: &mut Layers, key: &str, name: &str, value: &OsStr) {
    let origin = ValueOrigin::Variable(name.to_owned());
    match value.to_str() {
        Some(text) => layers.set_text(key, text, origin),
        None => layers.report(origin, ProblemKind::NotText { key: key.to_owned() }),
    }
}

fn read_settings(
    entries: &BTreeMap<String, ConfigEntry>,
    environment: &Environment,
) -> Result<Settings, ConfigError> {
    let mut settings =
        Settings::deserialize(layers::to_table(entries)).map_err(convert_schema_mismatch)?;
    if settings.server.data_dir.as_os_str().is_empty() {
        settings.server.data_dir = default_data_dir(environment);
    }
    Ok(settings)
}

/// Converts the error of a value that the schema accepts and the settings do not: a bug in the program,
/// which the tests of this module exclude for every rule.
fn convert_schema_mismatch(error: toml::de::Error) -> ConfigError {
    let kind = ProblemKind::Syntax(error.message().to_owned());
    ConfigError::Invalid { problems: vec![Problem { origin: ValueOrigin::Default, kind }] }
}

/// The keys, and prefixes of keys, that a running server can apply without a restart.
const LIVE: [&str; 26] = [
    "confinement.backend",
    "confinement.network",
    "confinement.on_unavailable",
    "confinement.profile",
    "job.cwd",
    "job.grace_s",
    "job.max_lines",
    "job.max_output",
    "job.max_timeout_s",
    "job.streams",
    "job.timeout_s",
    "limits.",
    "log.filter",
    "output.large",
    "output.max_store",
    "output.max_tenant",
    "output.on_large_output",
    "policy.",
    "pressure.",
    "queue.",
    "quota.",
    "redact.builtin",
    "redact.patterns",
    "shell_tool.allowed_directories",
    "shell_tool.blocked_commands",
    "tenants.",
];

/// The keys whose values differ between two loads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The keys that a running server can apply without a restart.
    pub live: Vec<String>,
    /// The keys that need a restart.
    pub restart: Vec<String>,
}

impl Changes {
    #[must_use]
    pub fn between(old: &Loaded, new: &Loaded) -> Self {
        let values = |loaded: &Loaded| -> Vec<(String, toml::Value)> {
            let entries = loaded.entries().into_iter();
            entries.map(|(key, entry)| (key.to_owned(), entry.canonical.clone())).collect()
        };
        let old = values(old);
        let new = values(new);
        let differ = |one: &[(String, toml::Value)], other: &[(String, toml::Value)]| {
            let differing = one.iter().filter(|entry| !other.contains(entry));
            differing.map(|(key, _)| key.clone()).collect::<Vec<_>>()
        };
        let mut keys = differ(&new, &old);
        keys.extend(differ(&old, &new));
        keys.sort();
        keys.dedup();
        let (live, restart) = keys.into_iter().partition(|key| is_live(key));
        Self { live, restart }
    }
}

fn is_live(key: &str) -> bool {
    LIVE.iter().any(|live| key == *live || (live.ends_with('.') && key.starts_with(live)))
}

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
    fn find_absolute_path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Returns a variable if it is set and not empty.
    fn find_non_empty(&self, name: &str) -> Option<&OsString> {
        self.variables.get(name).filter(|value| !value.is_empty())
    }

    /// Returns the variables whose names start with `prefix`, sorted by name.
    fn list_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a OsString)> {
        let named = self.variables.iter().map(|(name, value)| (name.as_str(), value));
        named.filter(move |(name, _)| name.starts_with(prefix))
    }
}

const CONFIG_FILE: &str = "shellyard/config.toml";
const SYSTEM_FILE: &str = "/etc/shellyard/config.toml";

/// Returns the files that are tried if none is named. The first one that exists is read.
fn list_config_files(environment: &Environment) -> Vec<PathBuf> {
    let named =
        environment.find_absolute_path("XDG_CONFIG_HOME").map(|home| home.join(CONFIG_FILE));
    let usual =
        environment.find_absolute_path("HOME").map(|home| home.join(".config").join(CONFIG_FILE));
    named.into_iter().chain(usual).chain([PathBuf::from(SYSTEM_FILE)]).collect()
}

/// Returns the user's own configuration file, which `config init` writes; `None` without a home.
#[must_use]
pub fn user_config_file(environment: &Environment) -> Option<PathBuf> {
    list_config_files(environment).into_iter().find(|path| path != Path::new(SYSTEM_FILE))
}

/// Returns the data directory if none is configured.
fn default_data_dir(environment: &Environment) -> PathBuf {
    let named = environment.find_absolute_path("XDG_STATE_HOME").map(|home| home.join("shellyard"));
    let usual = || Some(environment.find_absolute_path("HOME")?.join(".local/state/shellyard"));
    named.or_else(usual).unwrap_or_else(|| {
        let temporary = environment.find_absolute_path("TMPDIR").unwrap_or_else(|| "/tmp".into());
        // Users share the temporary directory, so each needs a name of its own.
        temporary.join(format!("shellyard-{}", environment.user_id()))
    })
}

/// The first lines of the file; the places of files and the notation of values follow.
const HEAD: &str = "\
# Settings of Shellyard.
#
# Every setting is here with its default value, commented out: remove the `#` directly before a setting
# to change it, and keep the line of its [section]. Lines that begin with `# ` explain. Later layers
# override earlier ones: defaults < this file < environment < flags.
";

/// The line of the default file with which the text after [`HEAD`] begins.
const FIRST_COMMON_LINE: &str = "#   your file ";

/// Returns the text of a configuration file that changes nothing: the default file with each setting
/// commented out. The `#` of a setting has no space after it, so that settings and explanations differ.
#[must_use]
pub fn write_initial_file() -> String {
    let common = DEFAULT_FILE.lines().skip_while(|line| !line.starts_with(FIRST_COMMON_LINE));
    let mut text = format!("{HEAD}#\n");
    for line in common {
        text += &comment_out(line);
        text.push('\n');
    }
    text
}

/// Comments a line out if it is a setting, or a further line of a list.
fn comment_out(line: &str) -> String {
    if line.is_empty() || line.starts_with(['#', '[']) {
        return line.to_owned();
    }
    let value = line.trim_start();
    let indent = &line[..line.len() - value.len()];
    format!("{indent}#{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(variables: &[(&'static str, &'static str)]) -> Loaded {
        let environment = Environment::from_pairs(variables.to_vec());
        load(ConfigSources { environment, ..ConfigSources::default() }).unwrap()
    }

    #[test]
    fn changes_are_sorted_into_live_and_restart() {
        let old = loaded(&[("SHELLYARD_TENANTS_CI_WEIGHT", "2"), ("SHELLYARD_QUEUE_SLOTS", "4")]);
        let new = loaded(&[("SHELLYARD_QUEUE_SLOTS", "5"), ("SHELLYARD_HTTP_PATH", "/other")]);
        let changes = Changes::between(&old, &new);
        assert_eq!(changes.live, ["queue.slots", "tenants.ci.weight"]);
        assert_eq!(changes.restart, ["http.path"]);
        assert_eq!(Changes::between(&new, &new), Changes::default());
    }

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

    /// Removes the `#` before each setting.
    fn uncomment(text: &str) -> String {
        let uncommented = text.lines().map(|line| {
            let value = line.trim_start();
            match value.strip_prefix('#') {
                Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => {
                    format!("{}{setting}\n", &line[..line.len() - value.len()])
                }
                Some(_) | None => format!("{line}\n"),
            }
        });
        uncommented.collect()
    }

    #[test]
    fn without_the_comment_signs_it_is_the_default_file() {
        let body = |text: &str| text[text.find("[http]").unwrap()..].to_owned();
        let text = write_initial_file();
        assert_eq!(body(&uncomment(&text)), body(DEFAULT_FILE));
        assert!(text.contains("\n#bind = \"127.0.0.1:8000\"\n"), "{text}");
        assert!(text.contains("\n    #\"zed=60\",\n#]\n"), "{text}");
        assert!(text.contains("SHELLYARD_QUEUE_SLOTS=8"), "{text}");
        assert!(!text.contains("compiled into"), "{text}");
    }

    #[test]
    fn it_sets_nothing() {
        let table: toml::Table = write_initial_file().parse().unwrap();
        fn count(value: &toml::Value) -> usize {
            value.as_table().map_or(1, |table| table.values().map(count).sum())
        }
        assert_eq!(table.values().map(count).sum::<usize>(), 0, "{table:?}");
        assert!(table.contains_key("http") && table.contains_key("trace"), "{table:?}");
    }
}

//! Reads all layers, and the settings from them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::environment::{self, TOKEN_VARIABLE};
use super::error::{self, ConfigError, Problem, ProblemKind};
use super::layers::{self, ConfigEntry, Layers, ValueOrigin};
use super::settings::Settings;
use super::settings_json::{add_settings_json, is_settings_json};
use super::{Environment, schema};
use crate::bounded_read::{BoundedReadError, read_text};
use crate::private_files::Symlinks;
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
    let ConfigSources { file, environment, flags } = sources;
    let mut layers = Layers::default();
    layers::add_toml(&mut layers, DEFAULT_FILE, &|_| ValueOrigin::Default);
    let found = find_file(file, &environment)?;
    let ignored = match &found {
        Some((path, text)) => add_file(&mut layers, path, text),
        None => Vec::new(),
    };
    add_environment(&mut layers, &environment);
    for FlagValue { key, value, flag } in flags {
        layers.set_text(key, &value, ValueOrigin::Flag(flag));
    }
    let entries = layers.finish().map_err(|problems| ConfigError::Invalid { problems })?;
    let settings = read_settings(&entries, &environment)?;
    Ok(Loaded { settings, file: found.map(|(path, _)| path), ignored, entries })
}

/// Adds the values of a file. Returns the keys that were ignored.
fn add_file(layers: &mut Layers, path: &Path, text: &str) -> Vec<String> {
    if is_settings_json(path) {
        return add_settings_json(layers, text, path);
    }
    layers::add_toml(layers, text, &|line| ValueOrigin::File { path: path.to_owned(), line });
    Vec::new()
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
    for path in environment::list_config_files(environment) {
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
                let suggestion = error::suggest_variable(name);
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
        settings.server.data_dir = environment::default_data_dir(environment);
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

#[cfg(test)]
mod tests {
    use super::super::{ConfigSources, Environment, load};
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
}

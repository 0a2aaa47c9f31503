//! `config check`, `config show`, `config init` and `config reload`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use super::flags::ServeFlags;
use super::server_request::{ConnectFlags, ServerRequestError, send_post};
use super::terminal::{VerbOutput, format_with_causes, read_width};
use super::text_layout::{format_list_within, wrap_text};
use crate::client::ServerClient;
use crate::config::{
    ConfigEntry, ConfigError, ConfigSources, Environment, Loaded, Problem, load, user_config_file,
    write_initial_file,
};

/// Arguments of the `config` verb.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ConfigCommand {
    #[command(subcommand)]
    pub verb: ConfigVerb,
}

/// The verbs of `config`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ConfigVerb {
    /// A verb that needs no running server.
    #[command(flatten)]
    File(ConfigFileVerb),
    /// Make a running server reload its settings. Prints which changed settings are applied and which
    /// need a restart; exit code 1 if the settings are not valid.
    Reload(ReloadFlags),
}

/// The verbs for the configuration that a server would start with.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ConfigFileVerb {
    /// Print every problem of the configuration; exit code 1 if there is one.
    Check(CheckFlags),
    /// Print every setting with its value and origin.
    Show(ShowFlags),
    /// Write a configuration file to start from: every setting with its default and its explanation,
    /// commented out.
    Init(InitFlags),
}

/// Flags of `config check`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct CheckFlags {
    /// File to check, instead of the default locations; the same as --config.
    #[arg(conflicts_with = "config")]
    pub file: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub serve: ServeFlags,
}

/// Flags of `config show`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ShowFlags {
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub serve: ServeFlags,
}

/// Flags of `config init`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct InitFlags {
    /// Print the file instead of writing it to your configuration directory.
    #[arg(long)]
    pub stdout: bool,
}

/// Flags of `config reload`. The server reads the files that it was started with.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ReloadFlags {
    #[command(flatten)]
    pub server: ConnectFlags,
}

/// Runs a `config` verb that needs no server and returns the exit code: 0, or 1 if something is wrong.
/// `check_rules` returns the text with which a server would refuse to start.
#[must_use]
pub fn run(
    verb: &ConfigFileVerb,
    environment: Environment,
    check_rules: impl FnOnce(&Loaded) -> Result<(), String>,
) -> u8 {
    let reply = match verb {
        ConfigFileVerb::Check(flags) => check(flags, environment, check_rules),
        ConfigFileVerb::Show(flags) => show(flags, environment),
        ConfigFileVerb::Init(flags) => write_initial_config(flags, &environment),
    };
    reply.print()
}

fn check(
    flags: &CheckFlags,
    environment: Environment,
    check_rules: impl FnOnce(&Loaded) -> Result<(), String>,
) -> VerbOutput {
    let loaded = load_settings(flags.file.clone(), &flags.serve, environment);
    if let Ok(loaded) = &loaded
        && let Err(message) = check_rules(loaded)
    {
        return failed_rule_output(loaded, &message, flags.json);
    }
    match (loaded, flags.json) {
        (Ok(loaded), true) => {
            let answer = json!({
                "ok": true, "file": loaded.file, "ignored": loaded.ignored, "problems": []
            });
            VerbOutput::json(&answer, 0)
        }
        (Ok(loaded), false) => {
            let file = loaded.file.as_deref().map_or("no file".into(), Path::to_string_lossy);
            let stdout = format!("the configuration is valid ({file})\n");
            let stdout = wrap_text(&stdout, read_width(&io::stdout()));
            let stderr = format_ignored_note(&loaded) + &format_warning(&loaded);
            VerbOutput { stdout, stderr, code: 0 }
        }
        (Err(error), true) => {
            let answer =
                json!({ "ok": false, "code": error.code(), "problems": problems_json(&error) });
            VerbOutput::json(&answer, 1)
        }
        (Err(error), false) => VerbOutput::failure(&format_with_causes(&error)),
    }
}

/// Returns the output for settings with a rule that cannot be used; the message names its place.
fn failed_rule_output(loaded: &Loaded, message: &str, is_json: bool) -> VerbOutput {
    if !is_json {
        return VerbOutput::failure(message);
    }
    let problem = json!({ "origin": loaded.file, "message": message });
    let answer = json!({ "ok": false, "code": "config_invalid", "problems": [problem] });
    VerbOutput::json(&answer, 1)
}

/// Returns a note about the keys of a `settings.json` that have no meaning here.
fn format_ignored_note(loaded: &Loaded) -> String {
    match loaded.ignored.join(", ") {
        keys if keys.is_empty() => keys,
        keys => format!("note: only coreTools and excludeTools are read; ignored: {keys}\n"),
    }
}

/// Returns a warning about a valid configuration that `serve` will refuse.
fn format_warning(loaded: &Loaded) -> String {
    match loaded.settings.find_open_address() {
        None => String::new(),
        Some(bind) => format!(
            "note: `serve` will refuse to listen on {bind} without tokens; set http.token_file, or bind to 127.0.0.1\n"
        ),
    }
}

fn show(flags: &ShowFlags, environment: Environment) -> VerbOutput {
    match load_settings(None, &flags.serve, environment) {
        Ok(loaded) if flags.json => VerbOutput::json(&settings_json(&loaded), 0),
        Ok(loaded) => VerbOutput::result(format_settings(&loaded, read_width(&io::stdout()))),
        Err(error) => VerbOutput::failure(&format_with_causes(&error)),
    }
}

/// Formats one line per setting: key, value and origin, in aligned columns.
fn format_settings(loaded: &Loaded, width: Option<usize>) -> String {
    let entries = loaded.entries();
    let rows: Vec<_> = entries
        .iter()
        .map(|(key, entry)| (*key, entry.given.to_string(), format_origin(loaded, key, entry)))
        .collect();
    let wide = |of: fn(&(&str, String, String)) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let keys = wide(|row| row.0.width());
    // A long value must not push all origins off the screen.
    let values = wide(|row| row.1.width()).min(32);
    let line = |(key, value, origin): &(&str, String, String)| {
        // A formatter counts characters, and some take two columns.
        let pad = " ".repeat(values.saturating_sub(value.width()));
        format!("{key:keys$} = {value}{pad}  # {origin}\n")
    };
    let table: String = rows.iter().map(line).collect();
    if width.is_none_or(|width| table.lines().all(|line| line.width() <= width)) {
        return table;
    }
    // The origin stands above its setting, so that the text stays a valid file.
    let pair =
        |(key, value, origin): &(&str, String, String)| format!("# {origin}\n{key} = {value}\n");
    rows.iter().map(pair).collect()
}

/// Returns the origin of a value, with the actual directory if the value is empty and means a
/// default directory.
fn format_origin(loaded: &Loaded, key: &str, entry: &ConfigEntry) -> String {
    match entry.given.as_str() {
        Some("") if key == "server.data_dir" => {
            format!("{}: {}", entry.origin, loaded.settings.server.data_dir.display())
        }
        Some(_) | None => entry.origin.to_string(),
    }
}

fn settings_json(loaded: &Loaded) -> Value {
    let one =
        |entry: &ConfigEntry| json!({ "value": entry.given, "origin": entry.origin.to_string() });
    let settings: serde_json::Map<_, _> =
        loaded.entries().into_iter().map(|(key, entry)| (key.to_owned(), one(entry))).collect();
    json!({ "file": loaded.file, "settings": settings })
}

fn write_initial_config(flags: &InitFlags, environment: &Environment) -> VerbOutput {
    if flags.stdout {
        return VerbOutput::result(write_initial_file());
    }
    let Some(path) = user_config_file(environment) else {
        return VerbOutput::failure(
            "HOME is not set, so there is no place for your configuration file; use --stdout",
        );
    };
    match write_new(&path) {
        Ok(()) => VerbOutput::result(format!("{}\n", path.display())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            VerbOutput::failure(&format!(
                "`{}` exists and is left as it is; move it away first, or use --stdout",
                path.display()
            ))
        }
        Err(error) => VerbOutput::failure(&format!("cannot write `{}`: {error}", path.display())),
    }
}

fn write_new(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(write_initial_file().as_bytes())
}

fn load_settings(
    file: Option<PathBuf>,
    serve: &ServeFlags,
    environment: Environment,
) -> Result<Loaded, ConfigError> {
    let file = file.or_else(|| serve.server.config.clone());
    load(ConfigSources { file, environment, flags: serve.values() })
}

fn problems_json(error: &ConfigError) -> Vec<Value> {
    let one = |problem: &Problem| json!({ "origin": problem.origin.to_string(), "message": problem.kind.to_string() });
    match error {
        ConfigError::Invalid { problems } => problems.iter().map(one).collect(),
        ConfigError::Unreadable { path, source } => {
            vec![json!({ "origin": path, "message": source.to_string() })]
        }
    }
}

// `config reload`.

/// Makes the server reload its settings.
pub(super) async fn reload_settings(
    flags: &ReloadFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let answer = send_post(client, "/api/v1/reload", &json!({})).await?;
    Ok(flags.server.success_output(&answer, || reload_output(&answer)))
}

/// Formats one line for each changed setting: applied, or needs a restart.
fn reload_output(answer: &Value) -> VerbOutput {
    let keys = |name: &str| answer[name].as_array().map_or(&[][..], Vec::as_slice);
    let row = |key: &Value, what: &str| {
        vec![key.as_str().unwrap_or_default().to_owned(), what.to_owned()]
    };
    let live = keys("applied").iter().map(|key| row(key, "applied"));
    let restart = keys("needs_restart").iter().map(|key| row(key, "needs a restart"));
    let rows: Vec<Vec<String>> = live.chain(restart).collect();
    let stderr = if rows.is_empty() { "nothing changed\n" } else { "" };
    let stdout = format_list_within(&rows, read_width(&io::stdout()));
    VerbOutput { stdout, stderr: stderr.to_owned(), code: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ServerFlags;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::from_pairs(pairs.to_vec())
    }

    /// Flags with an explicit file, so that the configuration of the machine does not matter.
    fn flags_with_file(path: &Path) -> ShowFlags {
        let server = ServerFlags { config: Some(path.into()), ..ServerFlags::default() };
        ShowFlags { json: false, serve: ServeFlags { server, ..ServeFlags::default() } }
    }

    fn defaults_only() -> ShowFlags {
        flags_with_file(Path::new("/dev/null"))
    }

    fn file_with(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn check_prints_every_problem_and_exits_with_1() {
        let file = file_with("[http]\nbnid = 1\n[queue]\nslots = \"many\"\n");
        let flags =
            CheckFlags { file: Some(file.path().into()), json: false, ..CheckFlags::default() };
        let reply = check(&flags, Environment::default(), |_| Ok(()));
        assert_eq!((reply.code, reply.stdout.as_str()), (1, ""));
        let place = file.path().display();
        assert!(reply.stderr.contains(&format!("{place}:2: unknown key `http.bnid`")), "{reply:?}");
        assert!(reply.stderr.contains(&format!("{place}:4: `queue.slots` cannot be")), "{reply:?}");
    }

    #[test]
    fn check_with_json_prints_one_object_on_stdout() {
        let file = file_with("slots = 1\n");
        let flags =
            CheckFlags { file: Some(file.path().into()), json: true, ..CheckFlags::default() };
        let reply = check(&flags, Environment::default(), |_| Ok(()));
        let answer: Value = serde_json::from_str(&reply.stdout).unwrap();
        assert_eq!((reply.code, reply.stderr.as_str()), (1, ""));
        assert_eq!(answer["ok"], false);
        assert_eq!(answer["problems"][0]["origin"], format!("{}:1", file.path().display()));
    }

    #[test]
    fn check_of_a_missing_file_says_so() {
        let flags = CheckFlags {
            file: Some("/nonexistent/x.toml".into()),
            json: false,
            ..CheckFlags::default()
        };
        let reply = check(&flags, Environment::default(), |_| Ok(()));
        assert_eq!(reply.code, 1);
        assert!(reply.stderr.contains("/nonexistent/x.toml"), "{reply:?}");
        assert!(reply.stderr.contains("No such file"), "{reply:?}");
    }

    #[test]
    fn check_warns_about_settings_that_serve_will_refuse() {
        let file = file_with("[http]\nbind = \"0.0.0.0:8000\"\n");
        let flags =
            CheckFlags { file: Some(file.path().into()), json: false, ..CheckFlags::default() };
        let reply = check(&flags, Environment::default(), |_| Ok(()));
        assert_eq!(reply.code, 0);
        assert!(reply.stderr.contains("http.token_file"), "{reply:?}");
    }

    #[test]
    fn show_prints_each_value_and_its_origin() {
        let file = file_with("[job]\ngrace_s = 1.5\n");
        let flags = flags_with_file(file.path());
        let reply = show(&flags, environment(&[("SHELLYARD_QUEUE_SLOTS", "7")]));
        let line = |key: &str| {
            let line = reply.stdout.lines().find(|line| line.starts_with(key)).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("http.bind "), "http.bind = \"127.0.0.1:8000\" # default");
        assert_eq!(line("queue.slots "), "queue.slots = 7 # SHELLYARD_QUEUE_SLOTS");
        assert_eq!(line("server.data_dir "), "server.data_dir = \"\" # default: /tmp/shellyard-0");
        let place = file.path().display();
        assert_eq!(line("job.grace_s "), format!("job.grace_s = 1.5 # {place}:2"));
    }

    #[test]
    fn the_output_of_show_is_a_valid_file() {
        let flags = defaults_only();
        let loaded = load_settings(None, &flags.serve, Environment::default()).unwrap();
        for width in [None, Some(40)] {
            let file = file_with(&format_settings(&loaded, width));
            let flags =
                CheckFlags { file: Some(file.path().into()), json: false, ..CheckFlags::default() };
            assert_eq!(check(&flags, Environment::default(), |_| Ok(())).code, 0, "{width:?}");
        }
    }

    #[test]
    fn show_with_json_has_every_key() {
        let reply = show(&ShowFlags { json: true, ..defaults_only() }, Environment::default());
        let answer: Value = serde_json::from_str(&reply.stdout).unwrap();
        assert_eq!(answer["settings"]["queue.lanes.build.slots"]["value"], 2);
        assert_eq!(answer["settings"]["log.filter"]["origin"], "default");
    }

    #[test]
    fn init_writes_once_and_never_overwrites() {
        let home = tempfile::tempdir().unwrap();
        let environment = environment(&[("HOME", home.path().to_str().unwrap())]);
        let path = home.path().join(".config/shellyard/config.toml");
        let reply = write_initial_config(&InitFlags::default(), &environment);
        assert_eq!((reply.stdout, reply.code), (format!("{}\n", path.display()), 0));
        assert_eq!(fs::read_to_string(&path).unwrap(), write_initial_file());

        fs::write(&path, "# mine\n").unwrap();
        let again = write_initial_config(&InitFlags::default(), &environment);
        assert_eq!(again.code, 1);
        assert!(again.stderr.contains("left as it is"), "{again:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "# mine\n");
    }

    #[test]
    fn init_without_a_home_points_to_stdout() {
        assert_eq!(write_initial_config(&InitFlags::default(), &Environment::default()).code, 1);
        let reply = write_initial_config(&InitFlags { stdout: true }, &Environment::default());
        assert_eq!(reply.stdout, write_initial_file());
    }

    #[test]
    fn each_changed_setting_says_whether_it_needs_a_restart() {
        let answer = json!({"applied": ["queue.slots"], "needs_restart": ["http.path"]});
        let text = "queue.slots  applied\nhttp.path    needs a restart\n";
        assert_eq!(reload_output(&answer).stdout, text);
        let nothing = reload_output(&json!({"applied": [], "needs_restart": []}));
        assert_eq!((nothing.stdout.as_str(), nothing.stderr.as_str()), ("", "nothing changed\n"));
    }
}

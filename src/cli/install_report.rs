//! The output of `install`, as text and as JSON: the results for clients, and the list of the clients on
//! this machine.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use shellyard_install::{
    ClientKind, ConfiguredCommand, FilePurpose, InstallRequest, InstallScope, Machine, SERVER_NAME,
    SettingValue, SettingsFile,
};

use super::install::{InstallError, read_file_entry};
use super::stdio_probe::CheckedServer;
use super::terminal::{VerbOutput, format_with_causes, read_width};
use super::text_layout::{escape_for_terminal, format_table_within, truncate_to_width, wrap_text};

/// The result for one client.
#[derive(Debug)]
pub(super) struct ClientReport {
    client: ClientKind,
    pub(super) files: Vec<FileReport>,
    pub(super) check: Option<CheckedServer>,
    pub(super) notes: Vec<String>,
    pub(super) error: Option<InstallError>,
}

/// The result for one file.
#[derive(Debug)]
pub(super) struct FileReport {
    path: PathBuf,
    purpose: FilePurpose,
    action: InstallAction,
    pub(super) backup: Option<PathBuf>,
    /// The entry of another program that was replaced or removed.
    pub(super) replaced: Option<String>,
    /// The change, if it was only shown.
    pub(super) diff: Option<String>,
    /// The settings, if they were only printed.
    pub(super) settings: Option<String>,
}

/// The change to one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InstallAction {
    Created,
    Changed,
    AlreadyInstalled,
    Removed,
    Restored,
    Deleted,
    NotInstalled,
}

impl InstallAction {
    /// The stable word of the action.
    const fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::AlreadyInstalled => "already_installed",
            Self::Removed => "removed",
            Self::Restored => "restored",
            Self::Deleted => "deleted",
            Self::NotInstalled => "not_installed",
        }
    }
}

impl ClientReport {
    pub(super) const fn new(client: ClientKind) -> Self {
        Self { client, files: Vec::new(), check: None, notes: Vec::new(), error: None }
    }

    fn format(&self) -> VerbOutput {
        let name = self.client.name();
        let has_work = |file: &&FileReport| file.action != InstallAction::NotInstalled;
        let width = read_width(&std::io::stdout());
        let fit = |line: String| wrap_text(&line, width);
        let mut stdout = String::new();
        for file in self.files.iter().filter(has_work) {
            stdout += &fit(format!("{name}: {}\n", file.format()));
            // The lines of a file stay as they are.
            stdout += file.diff.as_deref().unwrap_or_default();
        }
        let is_absent = self.error.is_none() && !self.files.iter().any(|file| has_work(&file));
        if is_absent {
            stdout += &fit(format!("{name}: not installed, nothing to do\n"));
        }
        if let Some(checked) = &self.check {
            stdout += &fit(format!("{name}: {}\n", format_check(checked)));
        }
        let mut stderr: String =
            self.notes.iter().map(|note| format!("{name}: note: {note}\n")).collect();
        if let Some(error) = &self.error {
            let text = format_with_causes(error);
            stderr += &format!("shellyard: {name}: {}\n", escape_for_terminal(&text));
        }
        VerbOutput { stdout, stderr, code: u8::from(self.error.is_some()) }
    }

    fn to_json(&self) -> Value {
        let files: Vec<Value> = self.files.iter().map(FileReport::to_json).collect();
        let mut answer = json!({
            "client": self.client.word(),
            "name": self.client.name(),
            "ok": self.error.is_none(),
            "files": files,
            "notes": self.notes,
        });
        if let Some(checked) = &self.check {
            answer["check"] = json!({
                "server": checked.name,
                "version": checked.version,
                "tools": checked.tools,
                "elapsed_ms": u64::try_from(checked.elapsed.as_millis()).unwrap_or(u64::MAX),
            });
        }
        if let Some(error) = &self.error {
            answer["code"] = json!(error.code());
            answer["message"] = json!(format_with_causes(error));
        }
        answer
    }
}

impl FileReport {
    pub(super) fn new(file: &SettingsFile, action: InstallAction) -> Self {
        let (path, purpose) = (file.path.clone(), file.purpose);
        Self { path, purpose, action, backup: None, replaced: None, diff: None, settings: None }
    }

    fn format(&self) -> String {
        let thing = match self.purpose {
            FilePurpose::Servers => "shellyard",
            FilePurpose::Permissions => "permission",
            FilePurpose::Rules => "instructions for the model",
        };
        let path = quote_path(&self.path);
        let would = if self.diff.is_some() { "would be " } else { "" };
        let change = match self.action {
            InstallAction::Created => format!("{thing} {would}added to the new file {path}"),
            InstallAction::Changed => format!("{thing} {would}added to {path}"),
            InstallAction::AlreadyInstalled => format!("already installed, {path} stays as it is"),
            InstallAction::Removed => format!("{thing} {would}removed from {path}"),
            InstallAction::Restored => {
                format!("{thing} {would}removed: {path} is exactly what it was before")
            }
            InstallAction::Deleted => {
                format!("{thing} {would}removed: {path} had nothing else and is gone")
            }
            InstallAction::NotInstalled => format!("nothing of shellyard in {path}"),
        };
        let is_gone = matches!(
            self.action,
            InstallAction::Removed | InstallAction::Restored | InstallAction::Deleted
        );
        let joint = if is_gone { "; the entry was " } else { ", in place of " };
        let replaced = self.replaced.as_ref().map(|what| format!("{joint}{what}"));
        let is_told = self.replaced.is_some() || self.action == InstallAction::Changed;
        let backup = self.backup.as_ref().filter(|_| is_told);
        let backup = backup.map(|backup| format!("; the file as it was: {}", quote_path(backup)));
        change + &replaced.unwrap_or_default() + &backup.unwrap_or_default()
    }

    fn to_json(&self) -> Value {
        let mut answer = json!({
            "path": self.path,
            "purpose": self.purpose.word(),
            "action": self.action.word(),
        });
        let texts = [("diff", &self.diff), ("settings", &self.settings)];
        for (key, text) in texts {
            if let Some(text) = text {
                answer[key] = json!(text);
            }
        }
        if let Some(backup) = &self.backup {
            answer["backup"] = json!(backup);
        }
        if let Some(replaced) = &self.replaced {
            answer["replaced"] = json!(replaced);
        }
        answer
    }
}

/// Formats a path as one word, which is never wrapped.
fn quote_path(path: &Path) -> String {
    format!("`{}`", escape_for_terminal(&path.display().to_string()))
}

fn format_check(checked: &CheckedServer) -> String {
    let CheckedServer { name, version, tools, elapsed } = checked;
    format!(
        "checked: started as the client does, {} {} answers with {} tools ({:.1} s)",
        escape_for_terminal(name),
        escape_for_terminal(version),
        tools.len(),
        elapsed.as_secs_f64()
    )
}

/// Prints the results for all clients; exit code 1 if one of them failed.
pub(super) fn print_reports(reports: &[ClientReport], is_json: bool) -> VerbOutput {
    let code = u8::from(reports.iter().any(|report| report.error.is_some()));
    if is_json {
        let clients: Vec<Value> = reports.iter().map(ClientReport::to_json).collect();
        let answer = json!({ "ok": code == 0, "clients": clients });
        return VerbOutput::json(&answer, code);
    }
    join(reports.iter().map(ClientReport::format), code)
}

/// Prints only the settings; of several files, each with its path above it.
pub(super) fn print_settings(reports: &[ClientReport]) -> VerbOutput {
    let code = u8::from(reports.iter().any(|report| report.error.is_some()));
    let has_many = reports.iter().map(|report| report.files.len()).sum::<usize>() > 1;
    let outputs = reports.iter().map(|report| {
        let format = |file: &FileReport| {
            let text = file.settings.as_deref().unwrap_or_default();
            let head = format!("==> {} <==\n", file.path.display());
            if has_many { format!("{head}{text}\n") } else { text.to_owned() }
        };
        let stdout = report.files.iter().map(format).collect();
        let place = |file: &FileReport| {
            format!("{}: this goes into {}\n", report.client.name(), file.path.display())
        };
        let stderr = match &report.error {
            Some(error) => format!("shellyard: {}\n", format_with_causes(error)),
            None if has_many => String::new(),
            None => report.files.iter().map(place).collect(),
        };
        VerbOutput { stdout, stderr, code }
    });
    join(outputs, code)
}

fn join(outputs: impl Iterator<Item = VerbOutput>, code: u8) -> VerbOutput {
    outputs.fold(VerbOutput::exit_code(code), |mut all, output| {
        all.stdout += &output.stdout;
        all.stderr += &output.stderr;
        all
    })
}

/// The output for a call that failed for all clients.
pub(super) fn failure_output(error: &InstallError, is_json: bool) -> VerbOutput {
    let message = format_with_causes(error);
    if is_json {
        VerbOutput::json_failure(error.code(), &message)
    } else {
        VerbOutput::failure(&message)
    }
}

/// Says what the permission rules of a request permit.
pub(super) fn permission_note(request: &InstallRequest) -> String {
    let name = request.client.name();
    if request.permits_without_question() {
        format!(
            "{name} may now call every tool of shellyard without asking you, so every command of the agent runs; what may run is up to Shellyard (policy.ask, policy.deny, confinement.profile)"
        )
    } else {
        format!(
            "no permission is written for {name}: it asks until you choose \"always allow\" in its dialog, which then permits every command of the agent"
        )
    }
}

/// Says where instructions for the model go if this scope has no file for them.
pub(super) fn rules_note(request: &InstallRequest, machine: &Machine) -> Option<String> {
    let name = request.client.name();
    let has_file = |scope| request.client.rules_file(scope, machine).is_some();
    match (has_file(request.scope), has_file(InstallScope::Project)) {
        (true, _) => None,
        (false, true) => Some(format!(
            "{name} has no file with instructions for all projects; --scope project writes AGENTS.md"
        )),
        (false, false) => Some(format!("{name} has no file with instructions for the model")),
    }
}

// The clients on this machine.

/// A client on this machine, and what its settings say.
#[derive(Debug)]
struct ListedClient {
    client: ClientKind,
    found: PathBuf,
    settings: PathBuf,
    state: ListedState,
}

#[derive(Debug)]
enum ListedState {
    NotInstalled,
    /// With the command in the settings.
    Installed(ConfiguredCommand),
    /// With a description of the entry that another program has under our name.
    Foreign(String),
    /// With the reason why the settings cannot be read, and its code word.
    Unreadable(String, &'static str),
}

/// Lists the clients that are found, and whether Shellyard is in their settings.
pub(super) fn list_clients(
    machine: &Machine,
    command: &ConfiguredCommand,
    is_json: bool,
) -> VerbOutput {
    let found: Vec<ListedClient> = ClientKind::ALL
        .into_iter()
        .filter_map(|client| find_client(client, machine, command))
        .flatten()
        .collect();
    if is_json {
        let clients: Vec<Value> = found.iter().map(ListedClient::to_json).collect();
        let answer = json!({ "ok": true, "clients": clients });
        return VerbOutput::json(&answer, 0);
    }
    let missing =
        ClientKind::ALL.into_iter().filter(|client| !found.iter().any(|row| row.client == *client));
    let missing: Vec<&str> = missing.map(ClientKind::word).collect();
    let mut stderr = String::new();
    if !missing.is_empty() {
        stderr += &format!("not found here: {}\n", missing.join(", "));
    }
    let is_new = |row: &&ListedClient| matches!(row.state, ListedState::NotInstalled);
    let open: Vec<&str> = found.iter().filter(is_new).map(|row| row.client.word()).collect();
    if !open.is_empty() {
        stderr += &format!("→ shellyard install {}\n", open.join(" "));
    } else if found.is_empty() {
        stderr +=
            "`shellyard install CLIENT` writes the settings of a client that is not found, too\n";
    }
    VerbOutput { stdout: format_rows(&found, machine, command), stderr, code: 0 }
}

/// The rows of a client: its settings for the user, and those of the project if they have Shellyard.
fn find_client(
    client: ClientKind,
    machine: &Machine,
    command: &ConfiguredCommand,
) -> Option<Vec<ListedClient>> {
    let found = client.find_on(machine)?;
    let row = |scope| {
        let request = InstallRequest {
            client,
            scope,
            config_path: None,
            command: command.clone(),
            has_rules: false,
        };
        let file = request.files(machine)?.into_iter().next()?;
        let state = read_state(client, &file, command).unwrap_or_else(|error| {
            ListedState::Unreadable(format_with_causes(&error), error.code())
        });
        Some(ListedClient { client, found: found.clone(), settings: file.path, state })
    };
    let is_installed = |row: &ListedClient| !matches!(row.state, ListedState::NotInstalled);
    let project = row(InstallScope::Project).filter(is_installed);
    Some(row(InstallScope::User).into_iter().chain(project).collect())
}

fn read_state(
    client: ClientKind,
    file: &SettingsFile,
    own: &ConfiguredCommand,
) -> Result<ListedState, InstallError> {
    let Some(entry) = read_file_entry(file)? else { return Ok(ListedState::NotInstalled) };
    if let Some(what) = describe_foreign_entry(client, &entry, own) {
        return Ok(ListedState::Foreign(what));
    }
    let command = ConfiguredCommand::from_entry(client, &entry);
    Ok(command.map_or(ListedState::NotInstalled, ListedState::Installed))
}

fn format_rows(rows: &[ListedClient], machine: &Machine, own: &ConfiguredCommand) -> String {
    let head = ["CLIENT", "SHELLYARD", "SETTINGS", "FOUND"].map(str::to_owned).to_vec();
    let cells = |row: &ListedClient| {
        let state = match &row.state {
            ListedState::NotInstalled => "not installed".to_owned(),
            ListedState::Installed(command) if command.program == own.program => {
                "installed".to_owned()
            }
            ListedState::Installed(command) => {
                format!("installed, with {}", escape_for_terminal(&command.program))
            }
            ListedState::Foreign(what) => format!("the name is used by {what}"),
            ListedState::Unreadable(..) => "cannot be read".to_owned(),
        };
        let settings = shorten(&row.settings, &machine.home);
        vec![row.client.word().to_owned(), state, settings, shorten(&row.found, &machine.home)]
    };
    if rows.is_empty() {
        return String::new();
    }
    let rows = [vec![head], rows.iter().map(cells).collect()].concat();
    format_table_within(&rows, read_width(&std::io::stdout()))
}

/// Formats a path with `~` for the home directory.
fn shorten(path: &Path, home: &Path) -> String {
    let shown = match path.strip_prefix(home) {
        Ok(rest) => format!("~/{}", rest.display()),
        Err(_) => path.display().to_string(),
    };
    escape_for_terminal(&shown)
}

impl ListedClient {
    fn to_json(&self) -> Value {
        let mut answer = json!({
            "client": self.client.word(),
            "name": self.client.name(),
            "found": self.found,
            "settings": self.settings,
        });
        match &self.state {
            ListedState::NotInstalled => answer["state"] = json!("not_installed"),
            ListedState::Installed(command) => {
                answer["state"] = json!("installed");
                answer["command"] = json!(command.program);
                answer["args"] = json!(command.args);
            }
            ListedState::Foreign(what) => {
                answer["state"] = json!("foreign");
                answer["entry"] = json!(what);
            }
            ListedState::Unreadable(message, code) => {
                answer["state"] = json!("unreadable");
                answer["code"] = json!(code);
                answer["message"] = json!(message);
            }
        }
        answer
    }
}

// The owner of an entry that is already in the settings: Shellyard, or another program.

/// Keys with the address of a remote server, in the settings of all clients.
const ADDRESS_KEYS: [&str; 4] = ["url", "httpUrl", "serverUrl", "uri"];

/// The most columns of a description.
const MAX_DESCRIPTION_WIDTH: usize = 100;

/// Describes an entry that does not start Shellyard; `None` if it does, or is empty. `own` is the
/// command of this program, which may have another name. Only the program or the host is named:
/// arguments, variables and addresses may hold secrets.
pub(super) fn describe_foreign_entry(
    client: ClientKind,
    entry: &SettingValue,
    own: &ConfiguredCommand,
) -> Option<String> {
    if matches!(entry, SettingValue::Map(pairs) if pairs.is_empty()) {
        return None;
    }
    let shorten = |text: &str| truncate_to_width(&escape_for_terminal(text), MAX_DESCRIPTION_WIDTH);
    if let Some(ConfiguredCommand { program, .. }) = ConfiguredCommand::from_entry(client, entry) {
        let is_named = Path::new(&program).file_name().is_some_and(|name| name == SERVER_NAME);
        let is_ours = is_named || program == own.program;
        return (!is_ours).then(|| format!("the command `{}`", shorten(&program)));
    }
    let address =
        ADDRESS_KEYS.iter().find_map(|key| entry.get(key).and_then(SettingValue::as_text));
    Some(match address.map(find_host) {
        None => "an entry without a command".to_owned(),
        Some(None) => "a remote server".to_owned(),
        Some(Some(host)) => format!("the server at `{}`", shorten(host)),
    })
}

/// Returns the host and port of a URL, without its user, path and query.
fn find_host(url: &str) -> Option<&str> {
    let (_scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    Some(host).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn only_an_entry_that_starts_shellyard_is_ours() {
        let command = |program: &str| ConfiguredCommand {
            program: program.to_owned(),
            args: vec!["stdio".to_owned(), "--token=secret".to_owned()],
            variables: BTreeMap::from([("KEY".to_owned(), "secret".to_owned())]),
        };
        let own = command("/opt/shellyard-nightly");
        for client in ClientKind::ALL {
            let describe = |program: &str| {
                describe_foreign_entry(client, &command(program).to_entry(client, false), &own)
            };
            assert_eq!(describe("/usr/bin/shellyard"), None);
            assert_eq!(describe("shellyard"), None, "found on the PATH");
            assert_eq!(describe("/opt/shellyard-nightly"), None, "this program");
            let foreign = describe("/usr/bin/npx").unwrap();
            assert_eq!(foreign, "the command `/usr/bin/npx`");
        }
        let client = ClientKind::Cursor;
        for (url, expected) in [
            ("http://h:80/mcp", "the server at `h:80`"),
            ("https://user:secret@h/mcp?key=secret", "the server at `h`"),
            ("https://h?key=a@secret", "the server at `h`"),
            ("https://\u{1b}[2J/", "the server at `\\u{1b}[2J`"),
            ("secret", "a remote server"),
        ] {
            let remote = SettingValue::map([("url", SettingValue::text(url))]);
            let described = describe_foreign_entry(client, &remote, &own);
            assert_eq!(described.as_deref(), Some(expected), "{url}");
        }
        let odd = describe_foreign_entry(client, &SettingValue::Flag(true), &own);
        assert_eq!(odd.as_deref(), Some("an entry without a command"));
        assert_eq!(describe_foreign_entry(client, &SettingValue::Map(Vec::new()), &own), None);
    }
}

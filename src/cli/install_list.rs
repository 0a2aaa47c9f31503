//! `install` without a client: the clients on this machine.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use shellyard_install::{
    ClientKind, ConfiguredCommand, InstallRequest, InstallScope, Machine, SettingsFile,
};

use super::install::{InstallError, read_entry, read_settings};
use super::install_owner::describe_foreign_entry;
use super::terminal::{VerbOutput, format_with_causes, read_width};
use super::text_layout::{escape_for_terminal, format_table_within};

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
        return VerbOutput { stdout: format!("{answer:#}\n"), ..VerbOutput::default() };
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
    let text = read_settings(&file.path)?;
    let entry = text.map(|text| read_entry(file, &text)).transpose()?.flatten();
    let Some(entry) = entry else { return Ok(ListedState::NotInstalled) };
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

//! The entry of the server in the settings of each client.

use std::collections::BTreeMap;

use crate::client::ClientKind;
use crate::value::SettingValue;

/// The name of the server in all settings.
pub const SERVER_NAME: &str = "shellyard";

/// The command that a client is told to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredCommand {
    /// The program, as an absolute path.
    pub program: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Variables that the client sets for it.
    pub variables: BTreeMap<String, String>,
}

/// Keys that make an entry a remote server.
const REMOTE_KEYS: [&str; 8] = [
    "url",
    "httpUrl",
    "serverUrl",
    "uri",
    "headers",
    "http_headers",
    "bearer_token_env_var",
    "type",
];

/// Milliseconds that Gemini CLI and Qwen Code give to one call; seconds that Codex and Goose do. A
/// call is answered after 50 s at the latest.
const CALL_LIMIT_MS: i64 = 600_000;
const CALL_LIMIT_S: i64 = 300;

impl ConfiguredCommand {
    /// Returns the entry for a client. With `is_permitted`, it contains the client's permission to use
    /// the server without a question, where the entry is the place for it.
    #[must_use]
    pub fn to_entry(&self, client: ClientKind, is_permitted: bool) -> SettingValue {
        let program = SettingValue::text(&self.program);
        let args = SettingValue::texts(&self.args);
        let variables = self.variables.iter();
        let variables = SettingValue::Map(
            variables.map(|(name, value)| (name.clone(), SettingValue::text(value))).collect(),
        );
        let mut pairs: Vec<(&str, SettingValue)> = match client {
            ClientKind::OpenCode => {
                let words = std::iter::once(&self.program).chain(&self.args);
                vec![
                    ("type", SettingValue::text("local")),
                    ("command", SettingValue::texts(words)),
                    ("environment", variables),
                    ("enabled", SettingValue::Flag(true)),
                ]
            }
            ClientKind::Goose => vec![
                ("enabled", SettingValue::Flag(true)),
                ("type", SettingValue::text("stdio")),
                ("name", SettingValue::text(SERVER_NAME)),
                ("description", SettingValue::text("Runs shell commands as jobs")),
                ("cmd", program),
                ("args", args),
                ("envs", variables),
                ("timeout", SettingValue::Number(CALL_LIMIT_S)),
            ],
            ClientKind::ClaudeCode | ClientKind::VsCode => vec![
                ("type", SettingValue::text("stdio")),
                ("command", program),
                ("args", args),
                ("env", variables),
            ],
            ClientKind::ClaudeDesktop
            | ClientKind::Codex
            | ClientKind::Cursor
            | ClientKind::Zed
            | ClientKind::Gemini
            | ClientKind::Qwen
            | ClientKind::Windsurf => {
                vec![("command", program), ("args", args), ("env", variables)]
            }
        };
        pairs.extend(client_extras(client, is_permitted));
        let pairs = pairs.into_iter().map(|(key, value)| (key.to_owned(), value));
        SettingValue::Map(pairs.collect())
    }

    /// Reads the command from the entry of a client, as the client does. `None` for a remote server.
    #[must_use]
    pub fn from_entry(client: ClientKind, entry: &SettingValue) -> Option<Self> {
        let (program_key, variables_key) = match client {
            ClientKind::OpenCode => ("command", "environment"),
            ClientKind::Goose => ("cmd", "envs"),
            ClientKind::ClaudeCode
            | ClientKind::ClaudeDesktop
            | ClientKind::Codex
            | ClientKind::Cursor
            | ClientKind::VsCode
            | ClientKind::Zed
            | ClientKind::Gemini
            | ClientKind::Qwen
            | ClientKind::Windsurf => ("command", "env"),
        };
        let command = entry.get(program_key)?;
        let args = entry.get("args").and_then(SettingValue::as_texts).unwrap_or_default();
        let mut words = match command.as_text() {
            Some(program) => std::iter::once(program.to_owned()).chain(args).collect(),
            None => command.as_texts()?,
        };
        let variables = entry.get(variables_key).map_or(&[][..], SettingValue::pairs);
        let variables = variables
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.as_text()?.to_owned())));
        let program = (!words.is_empty()).then(|| words.remove(0))?;
        Some(Self { program, args: words, variables: variables.collect() })
    }
}

/// The settings that a client needs besides the command, and its permission.
fn client_extras(client: ClientKind, is_permitted: bool) -> Vec<(&'static str, SettingValue)> {
    let mut extras = match client {
        ClientKind::ClaudeCode => vec![("alwaysLoad", SettingValue::Flag(true))],
        ClientKind::Codex => vec![
            ("tool_timeout_sec", SettingValue::Number(CALL_LIMIT_S)),
            ("supports_parallel_tool_calls", SettingValue::Flag(true)),
        ],
        ClientKind::Gemini => vec![("timeout", SettingValue::Number(CALL_LIMIT_MS))],
        ClientKind::Qwen => vec![
            ("timeout", SettingValue::Number(CALL_LIMIT_MS)),
            ("alwaysLoadTools", SettingValue::Flag(true)),
        ],
        ClientKind::ClaudeDesktop
        | ClientKind::Cursor
        | ClientKind::VsCode
        | ClientKind::Zed
        | ClientKind::OpenCode
        | ClientKind::Windsurf
        | ClientKind::Goose => Vec::new(),
    };
    if let Some(permission) = entry_permission(client).filter(|_| is_permitted) {
        extras.push(permission);
    }
    extras
}

/// The permission of a client that is a key of the entry.
pub(crate) fn entry_permission(client: ClientKind) -> Option<(&'static str, SettingValue)> {
    match client {
        ClientKind::Codex => Some(("default_tools_approval_mode", SettingValue::text("approve"))),
        ClientKind::Gemini | ClientKind::Qwen => Some(("trust", SettingValue::Flag(true))),
        ClientKind::ClaudeCode
        | ClientKind::ClaudeDesktop
        | ClientKind::Cursor
        | ClientKind::VsCode
        | ClientKind::Zed
        | ClientKind::OpenCode
        | ClientKind::Windsurf
        | ClientKind::Goose => None,
    }
}

/// Keys of an existing entry that contradict the new one.
pub(crate) fn contradicting_keys<'a>(
    old: &'a SettingValue,
    new: &'a SettingValue,
) -> impl Iterator<Item = &'static str> + 'a {
    REMOTE_KEYS.into_iter().filter(|key| old.get(key).is_some() && new.get(key).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_each_client_can_be_read_back() {
        let launch = ConfiguredCommand {
            program: "/opt/my programs/shellyard".to_owned(),
            args: vec!["stdio".to_owned(), "--connect".to_owned()],
            variables: BTreeMap::from([("PATH".to_owned(), "/a:/b".to_owned())]),
        };
        for client in ClientKind::ALL {
            for is_permitted in [false, true] {
                let entry = launch.to_entry(client, is_permitted);
                let read = ConfiguredCommand::from_entry(client, &entry);
                assert_eq!(read.as_ref(), Some(&launch), "{}", client.name());
            }
        }
        let remote = SettingValue::map([("url", SettingValue::text("http://127.0.0.1:8000/mcp"))]);
        assert_eq!(ConfiguredCommand::from_entry(ClientKind::Cursor, &remote), None);
    }

    #[test]
    fn nothing_is_permitted_unless_asked_for() {
        let launch = ConfiguredCommand {
            program: "/s".to_owned(),
            args: Vec::new(),
            variables: BTreeMap::new(),
        };
        for client in [ClientKind::Codex, ClientKind::Gemini, ClientKind::Qwen] {
            let (key, value) = entry_permission(client).expect("a permission");
            assert_eq!(launch.to_entry(client, false).get(key), None);
            assert_eq!(launch.to_entry(client, true).get(key), Some(&value));
        }
    }
}

//! Settings of the MCP layer and of the dialects: plain values, already checked.

use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::setting_values::{deserialize_seconds, deserialize_text_or_none};

/// Settings of the MCP layer: `[mcp]`, and the settings of other sections that concern its tools.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpSettings {
    /// The dialects whose tools are offered, in this order.
    pub dialects: Vec<ToolDialect>,
    pub server_name: ServerName,
    /// Settings of the dialects' tools.
    #[serde(skip)]
    pub dialect: DialectSettings,
    /// The form of tool replies.
    pub result_format: ResultFormat,
    /// The default wait of `run_command` and `wait_jobs`.
    #[serde(rename = "wait_s", deserialize_with = "deserialize_seconds")]
    pub wait_default: Duration,
    /// The longest wait of a call whose client receives progress.
    #[serde(rename = "max_wait_with_progress_s", deserialize_with = "deserialize_seconds")]
    pub wait_max: Duration,
    /// The longest wait of a call whose client receives no progress: many clients give up after a
    /// minute.
    #[serde(rename = "max_wait_s", deserialize_with = "deserialize_seconds")]
    pub wait_max_quiet: Duration,
    /// The interval of progress notifications.
    #[serde(rename = "progress_s", deserialize_with = "deserialize_seconds")]
    pub progress_every: Duration,
    /// The default token budget of one reply.
    pub max_tokens: u64,
    /// The default page size of `read_output`, in bytes.
    pub page_bytes: usize,
    /// The largest page that a caller may ask for, in bytes.
    pub max_page_bytes: usize,
    /// The time limit of one search or query.
    #[serde(skip)]
    pub search_time: Duration,
    /// The longest calls of known clients.
    #[serde(rename = "client_wait_s", deserialize_with = "deserialize_client_limits")]
    pub client_limits: Vec<ClientLimit>,
    /// `true` if a user who cancels a waiting `run_command` also stops the job that it started.
    pub cancel_stops_job: bool,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            dialects: vec![ToolDialect::Native],
            server_name: ServerName::Shellyard,
            dialect: DialectSettings::default(),
            result_format: ResultFormat::Text,
            wait_default: Duration::from_secs(30),
            wait_max: Duration::from_secs(240),
            wait_max_quiet: Duration::from_secs(50),
            progress_every: Duration::from_secs(5),
            max_tokens: 1500,
            page_bytes: 16 * 1024,
            max_page_bytes: 1024 * 1024,
            search_time: Duration::from_secs(10),
            client_limits: Vec::new(),
            cancel_stops_job: true,
        }
    }
}

/// The fewest tokens of a reply with a structured form, unless the call sets its own number: a
/// program reads it, and a job takes several times the room of its line in a text.
const STRUCTURED_TOKENS: u64 = 8000;

impl McpSettings {
    /// The budget of a reply in tokens, unless its call sets another.
    pub(crate) fn reply_tokens(&self) -> u64 {
        match self.result_format {
            ResultFormat::Text => self.max_tokens,
            ResultFormat::Structured | ResultFormat::Both => self.max_tokens.max(STRUCTURED_TOKENS),
        }
    }

    /// Returns the longest call of this client, if it is a known one.
    #[must_use]
    pub fn client_limit(&self, client: &str) -> Option<Duration> {
        let known = self.client_limits.iter().filter(|known| known.is_for(client));
        known.max_by_key(|known| known.name.len()).map(|known| known.limit)
    }
}

/// The time after which a known client gives up a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLimit {
    /// The client's name in MCP (`clientInfo.name`), or the part of it before a `-`.
    pub name: String,
    pub limit: Duration,
}

impl ClientLimit {
    /// Parses `NAME=SECONDS`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, limit) = text.rsplit_once('=')?;
        let limit = Duration::try_from_secs_f64(limit.trim().parse().ok()?).ok()?;
        let name = name.trim();
        (!name.is_empty() && !limit.is_zero()).then(|| Self { name: name.to_owned(), limit })
    }

    /// `true` if a client has this name, in any case of letters. Some clients append the name that
    /// the user gave to the server: `gemini-cli-mcp-client-shellyard`.
    fn is_for(&self, client: &str) -> bool {
        let Some((start, rest)) = client.split_at_checked(self.name.len()) else { return false };
        start.eq_ignore_ascii_case(&self.name) && (rest.is_empty() || rest.starts_with('-'))
    }
}

fn deserialize_client_limits<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Vec<ClientLimit>, D::Error> {
    let texts = Vec::<String>::deserialize(input)?;
    let parse = |text: &String| {
        ClientLimit::parse(text).ok_or_else(|| Error::custom(format!("not NAME=SECONDS: {text:?}")))
    };
    texts.iter().map(parse).collect()
}

/// The name under which the server presents itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerName {
    /// Shellyard itself, with all capabilities.
    Shellyard,
    /// The identity of the server that `execute_command` comes from: its tools and nothing more.
    McpzShell,
}

/// The form of tool replies. Each form is complete by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultFormat {
    /// Text only: what most clients show to a model.
    Text,
    /// `structuredContent`, with the verdict line as text for old clients.
    Structured,
    /// Both forms, each complete.
    Both,
}

/// Settings of all dialects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DialectSettings {
    pub shell: ShellDialectSettings,
    pub execute: ExecuteDialectSettings,
    pub run_shell_command: RunShellCommandSettings,
    pub execute_command: ExecuteCommandSettings,
}

/// Settings of the tool `shell`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellDialectSettings {
    /// The default deadline.
    pub default_timeout: Duration,
    /// The longest deadline that a caller may ask for.
    pub max_timeout: Duration,
    /// The most bytes of each stream in a reply.
    pub max_output: usize,
    /// `true` if each command is logged.
    pub log_commands: bool,
    /// A file to write when a command fails.
    pub abort_file: Option<PathBuf>,
}

impl Default for ShellDialectSettings {
    fn default() -> Self {
        Self {
            default_timeout: Duration::from_secs(300),
            max_timeout: Duration::from_secs(1800),
            max_output: 10_000_000,
            log_commands: true,
            abort_file: None,
        }
    }
}

/// Settings of the tool `execute`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteDialectSettings {
    /// The most bytes of both streams together in a reply.
    pub max_output: usize,
    /// The most bytes of each stream in the log.
    pub logged: usize,
}

impl Default for ExecuteDialectSettings {
    fn default() -> Self {
        Self { max_output: 40_000, logged: 2048 }
    }
}

/// Settings of the tool `run_shell_command`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunShellCommandSettings {
    /// An environment variable that is set to 1 for every command.
    #[serde(deserialize_with = "deserialize_text_or_none")]
    pub marker: Option<String>,
}

impl Default for RunShellCommandSettings {
    fn default() -> Self {
        Self { marker: Some("QWEN_CODE".to_owned()) }
    }
}

/// Settings of the tool `execute_command` and its file tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecuteCommandSettings {
    #[serde(deserialize_with = "deserialize_seconds")]
    pub timeout: Duration,
    /// The shell that runs commands.
    pub shell: String,
    /// `true` if the output includes stderr.
    pub stderr: bool,
    /// `true` if each command is logged on stderr.
    pub verbose: bool,
    /// The most bytes of each stream, and of a file, in a reply.
    pub max_output: usize,
}

impl Default for ExecuteCommandSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            shell: "/bin/sh".to_owned(),
            stderr: true,
            verbose: false,
            max_output: 10_000_000,
        }
    }
}

/// A set of tools that the server can offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolDialect {
    /// Shellyard's own six tools.
    Native,
    Shell,
    Execute,
    /// `run_shell_command` and `read_shell_output`.
    RunShellCommand,
    /// `execute_command`, `read_file`, `write_file` and `list_directory`.
    ExecuteCommand,
    /// `shell_exec` and `read_file_chunk`.
    ShellExec,
    /// Fixtures for the conformance suite: tools, prompts and resources.
    #[cfg(feature = "conformance")]
    Conformance,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_client_is_found_by_its_name_and_by_its_start() {
        let limits = ["codex-mcp-client=300", "Zed = 60", "a=b=0.5"].map(ClientLimit::parse);
        let client_limits = limits.into_iter().flatten().collect();
        let settings = McpSettings { client_limits, ..McpSettings::default() };
        for (client, expected) in [
            ("codex-mcp-client", Some(300.0)),
            ("Codex-MCP-Client", Some(300.0)),
            ("codex-mcp-client-yard", Some(300.0)),
            ("codex-mcp-clients", None),
            ("codex", None),
            ("zed", Some(60.0)),
            ("a=b", Some(0.5)),
            ("é", None),
        ] {
            assert_eq!(
                settings.client_limit(client).map(|it| it.as_secs_f64()),
                expected,
                "{client}"
            );
        }
        for invalid in ["", "codex", "=5", "codex=", "codex=0", "codex=-1", "codex=soon"] {
            assert_eq!(ClientLimit::parse(invalid), None, "{invalid}");
        }
    }
}

//! How clients come in, and what the server as a whole is told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::read::{address_or_none, path_or_none, seconds, socket, text_or_none};

/// `[http]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    /// Address and port to listen on; `None` = only the socket.
    #[serde(deserialize_with = "address_or_none")]
    pub bind: Option<SocketAddr>,
    /// The unix socket.
    #[serde(deserialize_with = "socket")]
    pub socket: Socket,
    /// The path of the MCP endpoint.
    pub path: String,
    /// Host names that are allowed beside loopback and the bound address.
    pub allowed_hosts: Vec<String>,
    /// Web origins that are allowed.
    pub allowed_origins: Vec<String>,
    /// The file with the bearer tokens; `None` = `tokens` in the data directory, if it is there.
    #[serde(deserialize_with = "path_or_none")]
    pub token_file: Option<PathBuf>,
    /// `true` if jobs of this server may call it.
    pub allow_jobs: bool,
    /// The certificate chain.
    #[serde(deserialize_with = "path_or_none")]
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    #[serde(deserialize_with = "path_or_none")]
    pub tls_key: Option<PathBuf>,
    /// The largest request body, in bytes.
    pub max_body: usize,
    /// The largest request head, in bytes; at least the 8 KiB that hyper needs.
    pub max_headers: usize,
    /// How long a client may take to send a request's head.
    #[serde(rename = "header_timeout_s", deserialize_with = "seconds")]
    pub header_timeout: Duration,
    /// How long a client may take to send a request's body.
    #[serde(rename = "body_timeout_s", deserialize_with = "seconds")]
    pub body_timeout: Duration,
    /// How long a client may leave what is sent to it unread.
    #[serde(rename = "write_timeout_s", deserialize_with = "seconds")]
    pub write_timeout: Duration,
    /// What may wait in memory for all clients to read it, in bytes.
    pub max_unread: usize,
    /// Connections at one time.
    pub max_connections: usize,
    /// Connections of one address at one time.
    pub max_connections_per_address: usize,
    /// How long a legacy session may be idle.
    #[serde(rename = "session_idle_s", deserialize_with = "seconds")]
    pub session_idle: Duration,
}

/// The unix socket of `serve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Socket {
    /// The usual one, in the data directory.
    Usual,
    /// This one.
    At(PathBuf),
    /// None.
    Off,
}

/// `[mcp]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpSettings {
    /// Which tools are offered.
    pub dialects: Vec<Dialect>,
    /// What the server calls itself.
    pub server_name: ServerName,
    /// What a tool result carries.
    pub result_format: ResultFormat,
    /// The wait of run_command when the caller does not say.
    #[serde(rename = "wait_s", deserialize_with = "seconds")]
    pub wait: Duration,
    /// The longest that a call takes without progress.
    #[serde(rename = "max_wait_s", deserialize_with = "seconds")]
    pub max_wait: Duration,
    /// The longest that a call takes with progress.
    #[serde(rename = "max_wait_with_progress_s", deserialize_with = "seconds")]
    pub max_wait_with_progress: Duration,
    /// The time between two progress notifications.
    #[serde(rename = "progress_s", deserialize_with = "seconds")]
    pub progress: Duration,
    /// The most that one reply may take, in tokens.
    pub max_tokens: u64,
    /// The page of read_output when the caller does not say.
    pub page_bytes: usize,
    /// The largest page that a caller may ask for.
    pub max_page_bytes: usize,
    /// How long run_command waits before it answers with a task.
    #[serde(rename = "task_grace_s", deserialize_with = "seconds")]
    pub task_grace: Duration,
    /// Whether cancelling a run_command that still waits ends its job.
    pub cancel_stops_job: bool,
}

/// A set of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Our own six.
    Native,
    /// `shell`.
    Shell,
    /// `execute`.
    Execute,
    /// `run_shell_command`.
    RunShellCommand,
    /// `execute_command` and its file tools.
    ExecuteCommand,
    /// `shell_exec` and `read_file_chunk`.
    ShellExec,
    /// What the conformance suite wants to find.
    #[cfg(feature = "conformance")]
    Conformance,
}

/// What the server calls itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerName {
    /// What it is.
    Shellyard,
    /// As the server that the dialect `execute_command` comes from.
    McpzShell,
}

/// What a tool result carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultFormat {
    /// Text only.
    Text,
    /// Structured content only.
    Structured,
    /// Both.
    Both,
}

/// `[server]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// Where spill files go; resolved, never empty. It may not exist yet.
    pub data_dir: PathBuf,
    /// How long running jobs get on shutdown before they are ended.
    #[serde(rename = "drain_s", deserialize_with = "seconds")]
    pub drain: Duration,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// How a line looks.
    pub format: LogFormat,
    /// What is logged.
    pub filter: String,
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Human,
    /// For programs.
    Json,
}

/// `[trace]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceSettings {
    /// The collector that spans go to.
    #[serde(deserialize_with = "text_or_none")]
    pub otlp_endpoint: Option<String>,
    /// Of the traces that begin here, the share that is sent.
    pub sample: f64,
}

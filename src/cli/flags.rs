//! Flags of the servers, and the values of flags that several verbs share.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::config::FlagValue;
use crate::ids::TenantId;

/// Flags of the verb `serve`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ServeFlags {
    /// Address and port to listen on; any address other than loopback needs a token file.
    #[arg(long, value_name = "ADDR:PORT")]
    pub bind: Option<String>,
    /// Unix socket to listen on; `none` = no socket.
    #[arg(long, value_name = "PATH|none")]
    pub socket: Option<String>,
    /// URL path of the MCP endpoint.
    #[arg(long, value_name = "/PATH")]
    pub path: Option<String>,
    /// File with the tokens that `shellyard token new` creates, or with one token per line.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<String>,
    #[command(flatten)]
    pub server: ServerFlags,
}

impl ServeFlags {
    /// Returns the settings that these flags set.
    #[must_use]
    pub fn values(&self) -> Vec<FlagValue> {
        let own = [
            flag_value("http.bind", "--bind", self.bind.as_ref()),
            flag_value("http.socket", "--socket", self.socket.as_ref()),
            flag_value("http.path", "--path", self.path.as_ref()),
            flag_value("http.token_file", "--token-file", self.token_file.as_ref()),
        ];
        own.into_iter().flatten().chain(self.server.values()).collect()
    }
}

/// Flags of the verb `stdio`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct StdioFlags {
    /// Forward everything to a running server at this URL or unix socket; without a value, its
    /// default socket. Clients that do so share the server's jobs and queue.
    // `--connect` without a value is `Some(None)`; an empty value is an error.
    #[arg(long, value_name = "URL|SOCKET", num_args = 0..=1)]
    pub connect: Option<Option<String>>,
    /// Start that server if it does not run; it keeps running when this program ends.
    #[arg(long, requires = "connect")]
    pub ensure_server: bool,
    /// File with the bearer token to send; the default is the variable SHELLYARD_TOKEN.
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub token: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Flags of every server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ServerFlags {
    /// Configuration file, instead of the default locations.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data directory, which stores output that does not fit into memory.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Dialects (sets of tools) to offer: native, shell, execute, run_shell_command, execute_command,
    /// shell_exec, or several of them.
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    pub dialect: Vec<String>,
    /// Form of tool results.
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "structured", "both"])]
    pub result_format: Option<String>,
    /// Format of log lines on stderr.
    #[arg(long, value_name = "FORMAT", value_parser = ["human", "json"])]
    pub log_format: Option<String>,
    /// Number of jobs that may run at once; 0 = twice the number of cores.
    #[arg(long, value_name = "N")]
    pub slots: Option<u32>,
}

impl ServerFlags {
    /// Returns the settings that these flags set. `--config` sets none: it names a file of settings.
    #[must_use]
    pub fn values(&self) -> Vec<FlagValue> {
        let dialects = (!self.dialect.is_empty()).then(|| self.dialect.join(","));
        let values = [
            flag_value("server.data_dir", "--data-dir", self.data_dir.as_ref()),
            flag_value("mcp.dialects", "--dialect", dialects.as_ref()),
            flag_value("mcp.result_format", "--result-format", self.result_format.as_ref()),
            flag_value("log.format", "--log-format", self.log_format.as_ref()),
            flag_value("queue.slots", "--slots", self.slots.as_ref()),
        ];
        values.into_iter().flatten().collect()
    }
}

// `server shell`: a drop-in replacement for the server `mcpz server shell`.

/// The origin of settings that the verb itself sets.
const SHELL_SERVER: &str = "server shell";

/// The heading of flags that only Shellyard has.
const SHELLYARD_HEADING: &str = "Shellyard";

/// Arguments of the `server` verb.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct BuiltInServerCommand {
    #[command(subcommand)]
    pub verb: ServerVerb,
}

/// The built-in servers.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ServerVerb {
    /// Start an MCP server for shell command execution
    Shell(ShellServerFlags),
}

/// Flags of `server shell`. A missing flag has its value from the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
#[command(
    after_help = "With --allow, the tools read_file and write_file are served only if a pattern matches their names."
)]
pub struct ShellServerFlags {
    /// The working directory of commands, and the root of the file tools.
    #[arg(short = 'w', long, value_name = "PATH")]
    #[arg(help = "Working directory for command execution\n[default: current directory]")]
    pub working_dir: Option<String>,
    #[arg(short = 't', long, value_name = "SECONDS")]
    #[arg(help = "Command execution timeout in seconds\n[default: 30]")]
    pub timeout: Option<String>,
    #[arg(short = 's', long, value_name = "PATH")]
    #[arg(help = "Shell to use for command execution\n[default: /bin/sh]")]
    pub shell: Option<String>,
    /// The only commands that may run, if given.
    #[arg(long, value_name = "PATTERNS", value_parser = parse_patterns)]
    #[arg(help = "Only allow commands matching these patterns\n\
                  (comma-separated, supports wildcards)\n\
                  Example: --allow \"ls*,cat*,echo*\"")]
    pub allow: Option<String>,
    #[arg(long, value_name = "PATTERNS", value_parser = parse_patterns)]
    #[arg(help = "Deny commands matching these patterns\n\
                  (comma-separated, supports wildcards)\n\
                  Example: --deny \"rm*,sudo*,chmod*\"")]
    pub deny: Option<String>,
    #[arg(long, help = "Suppress stderr in command output")]
    pub no_stderr: bool,
    #[arg(short = 'v', long, help = "Enable verbose logging to stderr")]
    pub verbose: bool,
    #[arg(long, value_name = "FILE", help_heading = SHELLYARD_HEADING)]
    #[arg(help = "Configuration file, instead of the default locations")]
    pub config: Option<PathBuf>,
    #[arg(long, value_name = "DIR", help_heading = SHELLYARD_HEADING, help = "Data directory")]
    pub data_dir: Option<String>,
}

impl ShellServerFlags {
    /// Returns the settings that the verb and its flags set.
    #[must_use]
    pub fn values(&self) -> Vec<FlagValue> {
        let values = [
            flag_value("mcp.dialects", SHELL_SERVER, Some(&"execute_command")),
            flag_value("mcp.server_name", SHELL_SERVER, Some(&"mcpz-shell")),
            flag_value("job.cwd", "--working-dir", self.working_dir.as_ref()),
            flag_value("policy.allow", "--allow", self.allow.as_ref()),
            flag_value("policy.deny", "--deny", self.deny.as_ref()),
            flag_value("execute_command.timeout", "--timeout", self.timeout.as_ref()),
            flag_value("execute_command.shell", "--shell", self.shell.as_ref()),
            flag_value("execute_command.stderr", "--no-stderr", self.no_stderr.then_some(&false)),
            flag_value("execute_command.verbose", "--verbose", self.verbose.then_some(&true)),
            flag_value("server.data_dir", "--data-dir", self.data_dir.as_ref()),
        ];
        values.into_iter().flatten().collect()
    }
}

/// Refuses an empty list, which would count as no list and allow every command.
fn parse_patterns(text: &str) -> Result<String, String> {
    if text.split(',').all(|pattern| pattern.trim().is_empty()) {
        return Err("give at least one pattern, such as \"ls*\"".to_owned());
    }
    Ok(text.to_owned())
}

// Values of flags.

/// Returns the setting that a flag sets, if the flag was given.
pub(super) fn flag_value(
    key: &'static str,
    flag: &'static str,
    value: Option<&impl ToString>,
) -> Option<FlagValue> {
    value.map(|value| FlagValue { key, flag, value: value.to_string() })
}

pub(super) fn parse_tenant(text: &str) -> Result<TenantId, String> {
    TenantId::parse(text).map_err(|error| error.to_string())
}

/// The units of a time, from short to long.
const UNITS: [(&str, f64); 5] =
    [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];

/// The longest time, in seconds: some thirty years.
const MAX_SECONDS: f64 = 1e9;

/// Parses a time such as `90`, `0.5`, `10m`, `1h30m`, `500ms` or `2d`; a number alone is seconds.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let bad = || "give a time above 0, such as 60, 0.5, 90s, 10m or 1h30m".to_owned();
    let mut rest = text.trim();
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let digits = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after.find(is_number).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let is_alone = unit.is_empty() && number.len() == text.trim().len();
        let factor = match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim())) {
            Some((_, factor)) => *factor,
            None if is_alone => 1.0,
            None => return Err(bad()),
        };
        seconds += number.parse::<f64>().map_err(|_| bad())? * factor;
        rest = after;
    }
    Some(seconds)
        .filter(|seconds| *seconds > 0.0 && *seconds <= MAX_SECONDS)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(bad)
}

/// Parses a duration such as `30d`, `12h`, `90m`, `45s` or `2w`.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return None,
    };
    let is_number = number.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| is_number)?;
    number.checked_mul(seconds).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_parsed_as_people_write_it() {
        for (text, millis) in [
            ("90", 90_000),
            ("0.5", 500),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("1.5h", 5_400_000),
            ("2d", 172_800_000),
            (" 7S ", 7_000),
            ("1m 5s", 65_000),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(millis)), "{text:?}");
        }
        for text in ["", "0", "soon", "10x", "-5", "m", "5m3", "1e400", "1..2s", "9999999999999d"] {
            assert!(parse_time(text).is_err_and(|why| why.contains("above 0")), "{text:?}");
        }
    }

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        for (text, seconds) in [("45s", 45), ("90m", 5400), ("12h", 43_200), ("30d", 2_592_000)] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for odd in ["", "d", "30", "-1d", "+1d", "1.5h", "30 d", "1y", "18446744073709551615w", "é"]
        {
            assert_eq!(parse_duration(odd), None, "{odd}");
        }
    }
}

//! `server shell`: a drop-in replacement for the server `mcpz server shell`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::server_request::flag_value;
use crate::config::FlagValue;

/// The origin of settings that the verb itself sets.
const VERB: &str = "server shell";

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
            flag_value("mcp.dialects", VERB, Some(&"execute_command")),
            flag_value("mcp.server_name", VERB, Some(&"mcpz-shell")),
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

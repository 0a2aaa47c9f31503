//! `server shell`: a server that other tools' callers know by this command line.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::server_request::set;
use crate::config::FlagValue;

/// How the settings are told apart that the verb itself makes.
const VERB: &str = "server shell";

/// The heading of flags that only this program has.
const OURS: &str = "Shellyard";

/// The `server` verb.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ServerCommand {
    /// Which server.
    #[command(subcommand)]
    pub verb: ServerVerb,
}

/// Which built-in server.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ServerVerb {
    /// Start an MCP server for shell command execution
    Shell(ShellServerFlags),
}

/// Flags of `server shell`. What is left out has the value of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ShellServerFlags {
    /// Where commands run, and what the file tools stay in.
    #[arg(short = 'w', long, value_name = "PATH")]
    #[arg(help = "Working directory for command execution\n[default: current directory]")]
    pub working_dir: Option<String>,
    /// The deadline of a command.
    #[arg(short = 't', long, value_name = "SECONDS")]
    #[arg(help = "Command execution timeout in seconds\n[default: 30]")]
    pub timeout: Option<String>,
    /// The shell that runs it.
    #[arg(short = 's', long, value_name = "PATH")]
    #[arg(help = "Shell to use for command execution\n[default: /bin/sh]")]
    pub shell: Option<String>,
    /// If given, nothing else may run.
    #[arg(long, value_name = "PATTERNS", value_parser = patterns)]
    #[arg(help = "Only allow commands matching these patterns\n\
                  (comma-separated, supports wildcards)\n\
                  Example: --allow \"ls*,cat*,echo*\"")]
    pub allow: Option<String>,
    /// These never run.
    #[arg(long, value_name = "PATTERNS", value_parser = patterns)]
    #[arg(help = "Deny commands matching these patterns\n\
                  (comma-separated, supports wildcards)\n\
                  Example: --deny \"rm*,sudo*,chmod*\"")]
    pub deny: Option<String>,
    /// Whether the output holds what was written to stderr.
    #[arg(long, help = "Suppress stderr in command output")]
    pub no_stderr: bool,
    /// Whether each command is told on stderr.
    #[arg(short = 'v', long, help = "Enable verbose logging to stderr")]
    pub verbose: bool,
    /// The file to read.
    #[arg(long, value_name = "FILE", help_heading = OURS)]
    #[arg(help = "Configuration file, instead of the usual places")]
    pub config: Option<PathBuf>,
    /// Where output is kept.
    #[arg(long, value_name = "DIR", help_heading = OURS, help = "Where output is kept")]
    pub data_dir: Option<String>,
}

impl ShellServerFlags {
    /// The settings that the verb and its flags stand for.
    #[must_use]
    pub fn values(&self) -> Vec<FlagValue> {
        let values = [
            set("mcp.dialects", VERB, Some(&"execute_command")),
            set("mcp.server_name", VERB, Some(&"mcpz-shell")),
            set("job.cwd", "--working-dir", self.working_dir.as_ref()),
            set("policy.allow", "--allow", self.allow.as_ref()),
            set("policy.deny", "--deny", self.deny.as_ref()),
            set("execute_command.timeout", "--timeout", self.timeout.as_ref()),
            set("execute_command.shell", "--shell", self.shell.as_ref()),
            set("execute_command.stderr", "--no-stderr", self.no_stderr.then_some(&false)),
            set("execute_command.verbose", "--verbose", self.verbose.then_some(&true)),
            set("server.data_dir", "--data-dir", self.data_dir.as_ref()),
        ];
        values.into_iter().flatten().collect()
    }
}

/// An empty list would read as none at all, and let everything run.
fn patterns(text: &str) -> Result<String, String> {
    if text.split(',').all(|pattern| pattern.trim().is_empty()) {
        return Err("give at least one pattern, such as \"ls*\"".to_owned());
    }
    Ok(text.to_owned())
}

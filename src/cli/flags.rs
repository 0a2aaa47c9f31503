//! The flags of the command line, and the settings that they set.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use serde_json::{Map, Value, json};

use super::config::ReloadFlags;
use super::install::InstallFlags;
use super::job_verb::JobVerb;
use super::operator::OperatorVerb;
use super::program_verb::ProgramVerb;
use super::run_queued::RunQueueFlags;
use super::server::BuiltInServerCommand;
use super::server_request::flag_value;
use super::times::parse_time;
use super::token::TokenCommand;
use crate::config::FlagValue;
use crate::setting_values::parse_size;

const EXAMPLES: &str = "\
Examples:
  shellyard serve                         serve MCP at http://127.0.0.1:8000/mcp
  shellyard stdio                         serve MCP on stdin and stdout, started by a client
  shellyard stdio --connect --ensure-server
                                          the same, with one shared server for all clients
  shellyard server shell -w /srv/app      serve MCP with the tool execute_command and file tools
  shellyard run cargo test                run one command as a job and return its exit code
  shellyard run --shell -- 'make | tee log'
  shellyard config show                   print every setting and its origin
  shellyard jobs                          list the jobs of all your servers
  shellyard logs -f 3                     follow the output of job 3
  shellyard stop 3                        stop job 3 with its whole process tree
  shellyard pause --lane build            hold the queued jobs of a lane until `resume`
  shellyard drain --exit --wait           end the server after its last job
  shellyard config reload                 apply changed settings without a restart

Flags override SHELLYARD_* variables, which override the configuration file, which overrides the
defaults; `shellyard config init` writes a file with all settings to start from.

Terms: a job is a command that the server runs. A tenant is an owner of jobs, named by the token of
a client. A lane is a named part of the queue with limits of its own.";

const RUN_HELP: &str = "\
Examples:
  shellyard run ls -la
  shellyard run --timeout 10m --memory 2G --env CI=1 -- make check
  shellyard run --shell -- 'grep -r deprecated . | wc -l'
  shellyard run --queue --lane build cargo test

Flags of shellyard stand before the command; everything after its first word belongs to it. On a
terminal, the command has a terminal as well.

Exit codes: the command's own; 124 if it timed out, 125 if Shellyard itself failed, 126 if it
cannot be executed, 127 if it was not found, 128+N if signal N ended it, 75 if the queue is full or a limit of the tenant is reached.";

/// Runs shell commands for AI agents as jobs, over MCP.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(name = "shellyard", version, after_help = EXAMPLES, subcommand_required = true)]
#[command(arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs of the command line.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Serve MCP over HTTP and a unix socket.
    Serve(ServeFlags),
    /// Serve MCP on stdin and stdout until stdin ends.
    Stdio(StdioFlags),
    /// Run a built-in MCP server that replaces another program.
    Server(BuiltInServerCommand),
    /// Run one command as a job; print its output and return its exit code.
    Run(RunFlags),
    /// Add Shellyard to the settings of AI clients, or list the clients on this machine.
    Install(InstallFlags),
    /// Check, show, create or reload the configuration.
    Config(ConfigCommand),
    /// Show how the policy (the allow, ask and deny rules) decides on a command, without running it.
    Policy(PolicyCommand),
    /// Check an audit log for changes.
    Audit(AuditCommand),
    /// Create, list and revoke the tokens of clients.
    Token(TokenCommand),
    /// Check what this host provides to jobs, and how to fix what is missing.
    Doctor(DoctorFlags),
    /// A verb about jobs of one or several running servers.
    #[command(flatten)]
    Job(JobVerb),
    /// A verb about the program itself.
    #[command(flatten)]
    Program(ProgramVerb),
    /// A verb that sends a request to a running server.
    #[command(flatten)]
    Operator(OperatorVerb),
}

/// Arguments of the `policy` verb.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PolicyCommand {
    #[command(subcommand)]
    pub verb: PolicyVerb,
    /// Configuration file, instead of the default locations.
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
}

/// The verbs of `policy`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum PolicyVerb {
    /// Decide on one command, or on a file of recorded decisions; exit code 1 if the command may not
    /// run without approval, or if a decision differs from the recorded one.
    Test(PolicyTestFlags),
    /// List each command that a shell text would run, the rule that applies to it, and why.
    Explain(PolicyExplainFlags),
}

/// Flags of `policy test`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PolicyTestFlags {
    /// The shell text to decide on.
    #[arg(required_unless_present = "cases")]
    pub command: Option<String>,
    /// File with one JSON object per line: {"command", "allow", "deny", "expected"}.
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub cases: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `policy explain`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PolicyExplainFlags {
    /// The shell text to explain; with --json, `-` reads one JSON string per line from stdin.
    pub command: String,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of the `audit` verb.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct AuditCommand {
    #[command(subcommand)]
    pub verb: AuditVerb,
}

/// The verbs of `audit`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum AuditVerb {
    /// Find changed, missing or reordered entries; exit code 1 if there are any.
    Verify(AuditVerifyFlags),
}

/// Flags of `audit verify`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct AuditVerifyFlags {
    /// The audit log; its rotated files are found beside it.
    pub file: PathBuf,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Flags of the verb `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct DoctorFlags {
    /// Configuration file, instead of the default locations.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

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

/// Flags of the verb `run`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = RUN_HELP)]
pub struct RunFlags {
    /// End the command after this time, such as 90, 90s, 10m or 1h30m.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,
    /// Working directory of the command.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Set an environment variable; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub env: Vec<(String, String)>,
    /// Join the words with spaces and run them as shell text.
    #[arg(long)]
    pub shell: bool,
    /// Give the command no terminal, even if you have one.
    #[arg(long)]
    pub no_terminal: bool,
    #[command(flatten)]
    pub confine: ConfineFlags,
    #[command(flatten)]
    pub queue: RunQueueFlags,
    /// Configuration file, instead of the default locations.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data directory, which stores output that does not fit into memory.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub words: Vec<String>,
}

impl RunFlags {
    /// Returns the settings that these flags set.
    #[must_use]
    pub fn values(&self) -> Vec<FlagValue> {
        let own = flag_value("server.data_dir", "--data-dir", self.data_dir.as_ref());
        own.into_iter().chain(self.confine.values()).collect()
    }
}

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

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as NAME=VALUE, such as CI=1".to_owned()),
    }
}

// Flags for the confinement and the limits of a command.

/// Flags of `run` about confinement and limits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ConfineFlags {
    /// Confinement profile (sandbox): none, default, workspace-write or read-only.
    #[arg(long, value_name = "PROFILE")]
    #[arg(value_parser = ["none", "default", "workspace-write", "read-only"])]
    pub confinement: Option<String>,
    /// Network access: on, off or auto.
    #[arg(long, value_name = "ON|OFF|AUTO", value_parser = ["on", "off", "auto"])]
    pub network: Option<String>,
    /// Limit on memory, such as 512M or 2G; `none` = no limit.
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<String>,
    /// Limit on CPU time, such as 60 or 10m; `none` = no limit.
    #[arg(long, value_name = "TIME", value_parser = parse_cpu_seconds)]
    pub cpu: Option<String>,
    /// Limit on the number of processes; `none` = no limit.
    #[arg(long, value_name = "N", value_parser = parse_process_count)]
    pub processes: Option<String>,
}

impl ConfineFlags {
    /// Returns the settings that these flags set.
    pub(super) fn values(&self) -> impl Iterator<Item = FlagValue> {
        let values = [
            flag_value("confinement.profile", "--confinement", self.confinement.as_ref()),
            flag_value("confinement.network", "--network", self.network.as_ref()),
            flag_value("limits.memory", "--memory", self.memory.as_ref()),
            flag_value("limits.cpu_s", "--cpu", self.cpu.as_ref()),
            flag_value("limits.processes", "--processes", self.processes.as_ref()),
        ];
        values.into_iter().flatten()
    }

    /// Returns the limits as fields of a request to a server.
    pub(super) fn limit_fields(&self) -> Map<String, Value> {
        let fields = [
            ("memory", self.memory.as_ref().map(|size| json!(size))),
            ("cpu_s", self.cpu.as_deref().map(number_or_text)),
            ("processes", self.processes.as_deref().map(number_or_text)),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

fn number_or_text(text: &str) -> Value {
    text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number))
}

/// The words that stand for no limit, and for one that fits the host.
const BOUND_WORDS: [&str; 2] = ["none", "auto"];

fn parse_memory(text: &str) -> Result<String, String> {
    let is_known = BOUND_WORDS.contains(&text) || parse_size(text).is_some();
    let bad = || "give a size such as 512M, 2G or 1.5 GiB, or none".to_owned();
    if is_known { Ok(text.to_owned()) } else { Err(bad()) }
}

fn parse_process_count(text: &str) -> Result<String, String> {
    let is_count = text.parse::<u64>().is_ok_and(|count| count > 0);
    let bad = || "give a number above 0, or none".to_owned();
    if is_count || BOUND_WORDS.contains(&text) { Ok(text.to_owned()) } else { Err(bad()) }
}

/// Parses a CPU time as whole seconds: the kernel counts no smaller ones.
fn parse_cpu_seconds(text: &str) -> Result<String, String> {
    if text == "none" {
        return Ok(text.to_owned());
    }
    let time = parse_time(text)?;
    Some(time.as_secs())
        .filter(|seconds| *seconds > 0)
        .map(|seconds| seconds.to_string())
        .ok_or_else(|| "give a time of at least a second, such as 60 or 10m".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::config::{ConfigSources, Environment, ValueOrigin, load};

    fn parse(line: &str) -> Command {
        Cli::try_parse_from(line.split_whitespace()).unwrap().command
    }

    fn parse_error(line: &str) -> String {
        Cli::try_parse_from(line.split_whitespace()).unwrap_err().to_string()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_of_serve_reaches_its_setting() {
        let line = "shellyard serve --bind 127.0.0.1:1 --socket /s --path /x --token-file /t --data-dir /d \
                    --dialect shell,native --result-format both --log-format json --slots 3";
        let Command::Serve(flags) = parse(line) else { panic!("not serve") };
        let sources = ConfigSources {
            file: Some("/dev/null".into()),
            environment: Environment::default(),
            flags: flags.values(),
        };
        let loaded = load(sources).unwrap();
        let set: Vec<_> = loaded
            .entries()
            .into_iter()
            .filter_map(|(key, entry)| match entry.origin {
                ValueOrigin::Flag(flag) => Some((key.to_owned(), flag)),
                ValueOrigin::Default | ValueOrigin::File { .. } | ValueOrigin::Variable(_) => None,
            })
            .collect();
        let expected = [
            ("http.bind", "--bind"),
            ("http.socket", "--socket"),
            ("http.path", "--path"),
            ("http.token_file", "--token-file"),
            ("mcp.dialects", "--dialect"),
            ("mcp.result_format", "--result-format"),
            ("queue.slots", "--slots"),
            ("server.data_dir", "--data-dir"),
            ("log.format", "--log-format"),
        ];
        assert_eq!(set, expected.map(|(key, flag)| (key.to_owned(), flag)));
        assert_eq!(loaded.settings.queue.slots, 3);
    }

    #[test]
    fn run_passes_everything_after_the_dashes_unchanged() {
        let line = "shellyard run --timeout 0.5 --env A=b=c --env D= -- ls --color -- x";
        let Command::Run(flags) = parse(line) else { panic!("not run") };
        assert_eq!(flags.timeout, Some(Duration::from_millis(500)));
        assert_eq!(flags.env, [("A".into(), "b=c".into()), ("D".into(), String::new())]);
        assert_eq!(flags.words, ["ls", "--color", "--", "x"]);
        for (line, words) in [
            ("shellyard run ls -la", &["ls", "-la"][..]),
            ("shellyard run ls --timeout 5 -- x", &["ls", "--timeout", "5", "--", "x"]),
            ("shellyard run --timeout 10m -- -x", &["-x"]),
        ] {
            let Command::Run(flags) = parse(line) else { panic!("not run") };
            assert_eq!(flags.words, words, "{line}");
        }
    }

    #[test]
    fn bad_flags_say_what_is_allowed() {
        assert!(parse_error("shellyard run --timeout 0 -- x").contains("above 0"));
        assert!(parse_error("shellyard run --timeout soon -- x").contains("above 0"));
        assert!(parse_error("shellyard run --env A -- x").contains("NAME=VALUE"));
        assert!(parse_error("shellyard run --tiemout 5 ls").contains("--timeout"));
        assert!(parse_error("shellyard run --lane build ls").contains("--queue"));
        assert!(parse_error("shellyard run --memory 10X ls").contains("such as 512M"));
        assert!(parse_error("shellyard run --processes 0 ls").contains("above 0"));
        assert!(parse_error("shellyard run --network maybe ls").contains("auto"));
        assert!(parse_error("shellyard stop --signal FOO 1").contains("SIGHUP"));
        assert!(parse_error("shellyard logs --tail 2000000 1").contains("1000000"));
        assert!(parse_error("shellyard logs --since soon 1").contains("2026-01-31"));
        assert!(parse_error("shellyard run").contains("CMD"));
        assert!(parse_error("shellyard stdio --result-format yaml").contains("structured"));
        assert!(parse_error("shellyard serv").contains("serve"));
        assert!(parse_error("shellyard stdio --ensure-server").contains("--connect"));
    }
}

//! Flags as typed values, and the settings that they stand for.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::config::ReloadFlags;
use super::operator::OperatorVerb;
use super::server::ServerCommand;
use super::server_request::set;
use super::token::TokenCommand;
use crate::config::FlagValue;

const EXAMPLES: &str = "\
Examples:
  shellyard serve                         answer MCP at http://127.0.0.1:8000/mcp
  shellyard stdio                         answer MCP on stdin and stdout, for a client to start
  shellyard stdio --connect --ensure-server
                                          the same, with one server for all clients
  shellyard server shell -w /srv/app      answer MCP with the tool execute_command and file tools
  shellyard run -- cargo test             run one command as a job and pass its exit code on
  shellyard run --shell -- 'make | tee log'
  shellyard config show                   every setting, and where it came from
  shellyard jobs --all                    the jobs of all tenants of a running server
  shellyard pause --lane build            start no more jobs of a lane, until `resume`
  shellyard drain --exit --wait           end the server after its last job
  shellyard config reload                 new limits without a restart

Settings come from flags, then SHELLYARD_* variables, then a file, then the defaults;
`shellyard config init` writes a file with all of them to start from.";

const RUN_HELP: &str = "\
Examples:
  shellyard run -- cargo test
  shellyard run --timeout 60 --cwd /srv/app --env CI=1 -- make check
  shellyard run --shell -- 'grep -r deprecated . | wc -l'

Exit codes: the command's own; 124 when it ran into its timeout, 125 when Shellyard itself
failed, 126 when it cannot be executed, 127 when it was not found, 128+N when signal N
ended it, 75 when the queue is full.";

/// Runs shell commands for AI agents as jobs, over MCP.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(name = "shellyard", version, after_help = EXAMPLES, subcommand_required = true)]
#[command(arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Answer MCP over HTTP.
    Serve(ServeFlags),
    /// Answer MCP on stdin and stdout, until stdin ends.
    Stdio(StdioFlags),
    /// Run a built-in MCP server.
    Server(ServerCommand),
    /// Run one command as a job: its output, its exit code.
    Run(RunFlags),
    /// Check, show, start or reload a configuration.
    Config(ConfigCommand),
    /// Show what the policy makes of a command, without running it.
    Policy(PolicyCommand),
    /// Check an audit log.
    Audit(AuditCommand),
    /// Make, list and revoke the tokens that clients come in with.
    Token(TokenCommand),
    /// Tell what jobs get from this host.
    Doctor(DoctorFlags),
    /// Ask something of a running server.
    #[command(flatten)]
    Operator(OperatorVerb),
}

/// The `policy` verb.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PolicyCommand {
    /// What to show.
    #[command(subcommand)]
    pub verb: PolicyVerb,
    /// Configuration file, instead of the usual places.
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
}

/// What to show of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum PolicyVerb {
    /// Decide on a command, or on many recorded ones; exit code 1 when it may not run, or when a
    /// recorded decision differs.
    Test(PolicyTestFlags),
    /// Each command that a text would run, the rule that speaks about it, and why.
    Explain(PolicyExplainFlags),
}

/// Flags of `policy test`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PolicyTestFlags {
    /// The shell text to decide on.
    #[arg(required_unless_present = "cases")]
    pub command: Option<String>,
    /// A file with one JSON object per line: {"command", "allow", "deny", "expected"}.
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub cases: Option<PathBuf>,
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `policy explain`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PolicyExplainFlags {
    /// The shell text to explain; with --json, `-` reads one JSON string per line from stdin.
    pub command: String,
    /// Answer in JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// The `audit` verb.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct AuditCommand {
    /// What to do with an audit log.
    #[command(subcommand)]
    pub verb: AuditVerb,
}

/// What to do with an audit log.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum AuditVerb {
    /// Find any change, cut or reorder; exit code 1 when there is one.
    Verify(AuditVerifyFlags),
}

/// Flags of `audit verify`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct AuditVerifyFlags {
    /// The audit log; its rotated files are found beside it.
    pub file: PathBuf,
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct DoctorFlags {
    /// Configuration file, instead of the usual places.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `serve`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ServeFlags {
    /// Address and port to listen on; any address other than loopback needs a token file.
    #[arg(long, value_name = "ADDR:PORT")]
    pub bind: Option<String>,
    /// Unix socket to listen on; none = no socket.
    #[arg(long, value_name = "PATH|none")]
    pub socket: Option<String>,
    /// Path of the MCP endpoint.
    #[arg(long, value_name = "/PATH")]
    pub path: Option<String>,
    /// File with the tokens that `shellyard token new` makes, or with one per line.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<String>,
    /// What every server takes.
    #[command(flatten)]
    pub server: ServerFlags,
}

impl ServeFlags {
    /// The settings that these flags stand for.
    #[must_use]
    pub fn values(&self) -> Vec<FlagValue> {
        let own = [
            set("http.bind", "--bind", self.bind.as_ref()),
            set("http.socket", "--socket", self.socket.as_ref()),
            set("http.path", "--path", self.path.as_ref()),
            set("http.token_file", "--token-file", self.token_file.as_ref()),
        ];
        own.into_iter().flatten().chain(self.server.values()).collect()
    }
}

/// Flags of `stdio`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct StdioFlags {
    /// Carry everything to a running server, at this URL or unix socket; without a value its usual
    /// socket. Many clients then share its jobs and its queue.
    // Given without a value is `Some(None)`; an empty value is a mistake.
    #[arg(long, value_name = "URL|SOCKET", num_args = 0..=1)]
    pub connect: Option<Option<String>>,
    /// Start that server where there is none; it stays when this program ends.
    #[arg(long, requires = "connect")]
    pub ensure_server: bool,
    /// File with the bearer token to show; else the variable SHELLYARD_TOKEN.
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub token: Option<PathBuf>,
    /// What every server takes.
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Flags of every server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ServerFlags {
    /// Configuration file, instead of the usual places.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where output is kept.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Which tools are offered: native, shell, execute, run_shell_command, execute_command,
    /// shell_exec, or several of them.
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    pub dialect: Vec<String>,
    /// What tool results carry.
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "structured", "both"])]
    pub result_format: Option<String>,
    /// How log lines on stderr look.
    #[arg(long, value_name = "FORMAT", value_parser = ["human", "json"])]
    pub log_format: Option<String>,
    /// Jobs that run at one time; 0 = twice the number of cores.
    #[arg(long, value_name = "N")]
    pub slots: Option<u32>,
}

impl ServerFlags {
    /// The settings that these flags stand for. `--config` is none: it names a layer.
    #[must_use]
    pub fn values(&self) -> Vec<FlagValue> {
        let dialects = (!self.dialect.is_empty()).then(|| self.dialect.join(","));
        let values = [
            set("server.data_dir", "--data-dir", self.data_dir.as_ref()),
            set("mcp.dialects", "--dialect", dialects.as_ref()),
            set("mcp.result_format", "--result-format", self.result_format.as_ref()),
            set("log.format", "--log-format", self.log_format.as_ref()),
            set("queue.slots", "--slots", self.slots.as_ref()),
        ];
        values.into_iter().flatten().collect()
    }
}

/// Flags of `run`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = RUN_HELP)]
pub struct RunFlags {
    /// End the command when it has run for this long.
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// Where to run it.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Set a variable of its environment; may be given more than once.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Hand the words to a shell, joined by spaces.
    #[arg(long)]
    pub shell: bool,
    /// How far it is shut in, and what it may use up.
    #[command(flatten)]
    pub confine: ConfineFlags,
    /// Configuration file, instead of the usual places.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where output is kept.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub words: Vec<String>,
}

impl RunFlags {
    /// The settings that these flags stand for.
    #[must_use]
    pub fn values(&self) -> Vec<FlagValue> {
        let own = set("server.data_dir", "--data-dir", self.data_dir.as_ref());
        own.into_iter().chain(self.confine.values()).collect()
    }
}

/// The `config` verb.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ConfigCommand {
    /// What to do with the configuration.
    #[command(subcommand)]
    pub verb: ConfigVerb,
}

/// What to do with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ConfigVerb {
    /// Something that takes no server.
    #[command(flatten)]
    File(ConfigFileVerb),
    /// Have a running server read its settings again; tells which hold now and which take a
    /// restart, with exit code 1 when they cannot be used.
    Reload(ReloadFlags),
}

/// What to do with the configuration that a server would start with.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ConfigFileVerb {
    /// Tell every problem of the configuration; exit code 1 when there is one.
    Check(CheckFlags),
    /// Tell every setting, its value and where that came from.
    Show(ShowFlags),
    /// Write a file with every setting, commented, to start from.
    Init(InitFlags),
}

/// Flags of `config check`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct CheckFlags {
    /// The file to check, instead of the usual places; the same as --config.
    #[arg(conflicts_with = "config")]
    pub file: Option<PathBuf>,
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
    /// What a server would be started with.
    #[command(flatten)]
    pub serve: ServeFlags,
}

/// Flags of `config show`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ShowFlags {
    /// Answer in JSON.
    #[arg(long)]
    pub json: bool,
    /// What a server would be started with.
    #[command(flatten)]
    pub serve: ServeFlags,
}

/// Flags of `config init`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct InitFlags {
    /// Print the file instead of writing it to the user's place.
    #[arg(long)]
    pub stdout: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "give a number of seconds above 0, such as 60 or 0.5".to_owned())
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as NAME=VALUE, such as CI=1".to_owned()),
    }
}

// Flags for the sandbox and the limits of a command.

/// Flags of `run` about confinement and limits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ConfineFlags {
    /// What it may do to its surroundings: none, default, workspace-write or read-only.
    #[arg(long, value_name = "PROFILE")]
    pub confinement: Option<String>,
    /// Whether it has a network: on, off or auto.
    #[arg(long, value_name = "ON|OFF")]
    pub network: Option<String>,
    /// The most memory that it may use, such as 2GB.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// The most CPU time that it may use.
    #[arg(long, value_name = "SECS")]
    pub cpu: Option<String>,
    /// The most processes that it may have at one time.
    #[arg(long, value_name = "N")]
    pub processes: Option<String>,
}

impl ConfineFlags {
    /// The settings that these flags stand for.
    pub(super) fn values(&self) -> impl Iterator<Item = FlagValue> {
        let values = [
            set("confinement.profile", "--confinement", self.confinement.as_ref()),
            set("confinement.network", "--network", self.network.as_ref()),
            set("limits.memory", "--memory", self.memory.as_ref()),
            set("limits.cpu_s", "--cpu", self.cpu.as_ref()),
            set("limits.processes", "--processes", self.processes.as_ref()),
        ];
        values.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigSources, Environment, ValueOrigin, load};
    use clap::CommandFactory;

    fn parse(line: &str) -> Command {
        Cli::try_parse_from(line.split_whitespace()).unwrap().command
    }

    fn refusal(line: &str) -> String {
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
    fn run_takes_everything_after_the_dashes_as_it_is() {
        let line = "shellyard run --timeout 0.5 --env A=b=c --env D= -- ls --color -- x";
        let Command::Run(flags) = parse(line) else { panic!("not run") };
        assert_eq!(flags.timeout, Some(Duration::from_millis(500)));
        assert_eq!(flags.env, [("A".into(), "b=c".into()), ("D".into(), String::new())]);
        assert_eq!(flags.words, ["ls", "--color", "--", "x"]);
    }

    #[test]
    fn bad_flags_say_what_is_allowed() {
        assert!(refusal("shellyard run --timeout 0 -- x").contains("above 0"));
        assert!(refusal("shellyard run --timeout soon -- x").contains("above 0"));
        assert!(refusal("shellyard run --env A -- x").contains("NAME=VALUE"));
        assert!(refusal("shellyard run").contains("CMD"));
        assert!(refusal("shellyard stdio --result-format yaml").contains("structured"));
        assert!(refusal("shellyard serv").contains("serve"));
        assert!(refusal("shellyard stdio --ensure-server").contains("--connect"));
    }
}

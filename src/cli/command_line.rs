//! The command line: the program, its verbs, and the verbs about jobs and about the program itself.

use clap::{Parser, Subcommand};

use super::attach::{self, AttachFlags};
use super::audit::AuditCommand;
use super::completions_and_man::{CompletionsFlags, ManFlags, print_completions, print_manual};
use super::config::ConfigCommand;
use super::doctor::DoctorFlags;
use super::flags::{BuiltInServerCommand, ServeFlags, StdioFlags};
use super::install::InstallFlags;
use super::jobs::{self, JobsFlags};
use super::logs::{self, LogsFlags};
use super::operator::OperatorVerb;
use super::policy::PolicyCommand;
use super::run::RunFlags;
use super::self_test::{self, SelfTestFlags};
use super::server_request::ConnectFlags;
use super::server_set::ServerSet;
use super::show::{self, ShowJobFlags};
use super::stop::{self, StopFlags};
use super::terminal::{ASKING, Display, with_spinner};
use super::token::TokenCommand;
use super::top::{self, TopFlags};
use super::wait::{self, WaitFlags};

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

/// A verb about jobs of one or several running servers.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum JobVerb {
    /// List jobs, newest first: of the shared server and of every client of this user.
    Jobs(JobsFlags),
    /// Print the output of a job, or follow it.
    Logs(LogsFlags),
    /// Show everything about one job: command, client, times, limits, outcome, processes.
    Show(ShowJobFlags),
    /// Wait until jobs have ended, and return the exit code of the first that failed.
    Wait(WaitFlags),
    /// Stop jobs with their whole process trees.
    Stop(StopFlags),
    /// Connect your terminal with a running job: see its output and type into it.
    Attach(AttachFlags),
    /// Watch load, queue and jobs on the whole screen; stop jobs and read their logs.
    Top(TopFlags),
}

impl JobVerb {
    /// Returns the flags that name the server and the caller's token.
    #[must_use]
    pub const fn server(&self) -> &ConnectFlags {
        match self {
            Self::Jobs(flags) => &flags.jobs.server,
            Self::Logs(flags) => &flags.jobs.server,
            Self::Show(flags) => &flags.jobs.server,
            Self::Wait(flags) => &flags.jobs.server,
            Self::Stop(flags) => &flags.jobs.server,
            Self::Attach(flags) => &flags.jobs.server,
            Self::Top(flags) => &flags.jobs.server,
        }
    }

    /// Sends the requests, prints the result, and returns the exit code.
    pub async fn run(&self, servers: &ServerSet, display: &Display) -> u8 {
        let done = match self {
            Self::Jobs(flags) if flags.watch => jobs::run(flags, servers, display).await,
            Self::Jobs(flags) => {
                with_spinner(display, ASKING, jobs::run(flags, servers, display)).await
            }
            Self::Logs(flags) => logs::run(flags, servers, display).await,
            Self::Show(flags) => show::run(flags, servers, display).await,
            Self::Wait(flags) => wait::run(flags, servers, display).await,
            Self::Stop(flags) => stop::run(flags, servers, display).await,
            Self::Attach(flags) => attach::run(flags, servers, display).await,
            Self::Top(flags) => top::run(flags, servers, display).await,
        };
        done.unwrap_or_else(|error| self.server().failure_output(&error)).print()
    }
}

const COMPLETIONS_HELP: &str = "\
Examples:
  shellyard completions bash > ~/.local/share/bash-completion/completions/shellyard
  shellyard completions fish > ~/.config/fish/completions/shellyard.fish
  shellyard completions zsh  > ~/.zfunc/_shellyard      with fpath=(~/.zfunc $fpath) before compinit in ~/.zshrc

The script calls `shellyard` for each completion, so it need not be written again after an upgrade.";

/// A verb about the program itself.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ProgramVerb {
    /// Run a few jobs on a private server, and check on this host that sandbox profiles, stops, limits
    /// and the policy hold; exit code 1 if one does not.
    SelfTest(SelfTestFlags),
    /// Print the script that makes a shell complete verbs, flags, jobs and lanes.
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(CompletionsFlags),
    /// Print the manual page of the program, or write the pages of all verbs.
    Man(ManFlags),
}

impl ProgramVerb {
    /// Runs the verb and returns the exit code. `command` is the whole command line of the program.
    #[must_use]
    pub fn run(&self, command: clap::Command, display: &Display) -> u8 {
        match self {
            Self::SelfTest(flags) => self_test::run(flags, display),
            Self::Completions(flags) => print_completions(flags),
            Self::Man(flags) => print_manual(flags, command),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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

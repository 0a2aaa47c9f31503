//! Starts a configured command as a client does, and asks for its tools.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use shellyard_install::ConfiguredCommand;
use thiserror::Error;

use super::stdio_probe::{ProbeError, StdioProbe};
use crate::config::Environment;

/// The time for each answer; most clients wait at least as long for a server to start.
const REPLY_TIME: Duration = Duration::from_secs(30);

/// The variables that even the most careful client passes on; those of the entry come on top.
const CLIENT_VARIABLES: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

/// The answers of a server that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckedServer {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) tools: Vec<String>,
    pub(super) elapsed: Duration,
}

/// The reason why a configured command is of no use to its client.
#[derive(Debug, Error)]
pub(super) enum CheckError {
    #[error("`{program}` cannot be started")]
    Start { program: String, source: io::Error },
    #[error(transparent)]
    NoAnswer(#[from] ProbeError),
    #[error("it offers no tools")]
    NoTools,
}

impl CheckError {
    /// Returns the stable code word of the error.
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::Start { .. } => "check_not_started",
            Self::NoAnswer(error) => error.code(),
            Self::NoTools => "check_no_tools",
        }
    }
}

/// Starts the command, does the handshake, lists the tools, and ends it.
pub(super) fn check_command(
    command: &ConfiguredCommand,
    environment: &Environment,
    directory: &Path,
) -> Result<CheckedServer, CheckError> {
    let started = Instant::now();
    let mut server = start_server(command, environment, directory)?;
    let hello = server.initialize("shellyard-install")?;
    let listed = server.request("tools/list", json!({}))?;
    let elapsed = started.elapsed();
    let tools: Vec<String> = listed["tools"]
        .as_array()
        .map(|tools| tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned))
        .map(Iterator::collect)
        .unwrap_or_default();
    if tools.is_empty() {
        return Err(CheckError::NoTools);
    }
    let text = |key: &str| hello["serverInfo"][key].as_str().unwrap_or("unknown").to_owned();
    Ok(CheckedServer { name: text("name"), version: text("version"), tools, elapsed })
}

fn start_server(
    command: &ConfiguredCommand,
    environment: &Environment,
    directory: &Path,
) -> Result<StdioProbe, CheckError> {
    let is_passed =
        |(name, _): &(OsString, OsString)| CLIENT_VARIABLES.iter().any(|variable| name == variable);
    let mut process = Command::new(&command.program);
    process
        .args(&command.args)
        .env_clear()
        .envs(environment.pairs().into_iter().filter(is_passed))
        .envs(&command.variables)
        .current_dir(directory);
    StdioProbe::start(&mut process, REPLY_TIME)
        .map_err(|source| CheckError::Start { program: command.program.clone(), source })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn check(script: &str) -> Result<CheckedServer, CheckError> {
        let command = ConfiguredCommand {
            program: "/bin/sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            variables: BTreeMap::from([("GIVEN".to_owned(), "by the entry".to_owned())]),
        };
        let environment = Environment::from_pairs([("PATH", "/usr/bin:/bin"), ("SECRET", "x")]);
        check_command(&command, &environment, Path::new("/"))
    }

    const HELLO: &str = r#"read -r _; echo noise; echo '{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"s","version":"1"}}}'; read -r _; read -r _;"#;

    #[test]
    fn the_answers_of_a_server_are_read() {
        let tools =
            r#"echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a"},{"name":"b"}]}}'"#;
        let checked = check(&format!("{HELLO} {tools}")).unwrap();
        assert_eq!((checked.name.as_str(), checked.version.as_str()), ("s", "1"));
        assert_eq!(checked.tools, ["a", "b"]);
    }

    #[test]
    fn a_server_that_does_not_work_is_explained() {
        let error = check("echo \"no $GIVEN ${SECRET-secret}\" >&2; exit 3").unwrap_err();
        assert_eq!(error.code(), "check_ended");
        let message = error.to_string();
        assert!(message.contains("exit status: 3") && message.contains("initialize"), "{message}");
        assert!(message.contains("no by the entry secret"), "{message}");
        let none = format!(r#"{HELLO} echo '{{"jsonrpc":"2.0","id":2,"result":{{"tools":[]}}}}'"#);
        assert_eq!(check(&none).unwrap_err().code(), "check_no_tools");
        let refused = r#"read -r _; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"busy"}}'; cat"#;
        let error = check(refused).unwrap_err();
        assert!(error.code() == "check_refused" && error.to_string().contains("busy"), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let command = ConfiguredCommand {
            program: "/no/such/program".to_owned(),
            args: Vec::new(),
            variables: BTreeMap::new(),
        };
        let environment = Environment::from_pairs([("PATH", "/bin")]);
        let error = check_command(&command, &environment, Path::new("/")).unwrap_err();
        assert!(
            error.code() == "check_not_started" && error.to_string().contains("/no/such"),
            "{error}"
        );
    }
}

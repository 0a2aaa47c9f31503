//! Starts a configured command as a client does, and asks for its tools.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shellyard_install::ConfiguredCommand;
use thiserror::Error;

use crate::config::Environment;

/// The time for all answers; most clients wait at least as long for a server to start.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The time to end after the end of input.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

const EXIT_POLL: Duration = Duration::from_millis(20);

/// Bytes of the error stream that are kept.
const MAX_STDERR_BYTES: u64 = 64 * 1024;

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
    #[error("it ended ({status}) before it answered `{method}`{}", quote_last_words(.stderr))]
    Ended { method: &'static str, status: ExitStatus, stderr: String },
    #[error(
        "it did not answer `{method}` within {} s{}", ANSWER_TIMEOUT.as_secs(), quote_last_words(.stderr)
    )]
    Timeout { method: &'static str, stderr: String },
    #[error("it answered `{method}` with an error: {answer}")]
    Refused { method: &'static str, answer: String },
    #[error("it offers no tools")]
    NoTools,
    #[error("it can no longer be watched")]
    Watch(#[source] io::Error),
}

impl CheckError {
    /// Returns the stable code word of the error.
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::Start { .. } => "check_not_started",
            Self::Ended { .. } => "check_ended",
            Self::Timeout { .. } => "check_timeout",
            Self::Refused { .. } => "check_refused",
            Self::NoTools => "check_no_tools",
            Self::Watch(_) => "check_not_watched",
        }
    }
}

fn quote_last_words(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default();
    if last.is_empty() { String::new() } else { format!("; it said: {}", last.join(" / ")) }
}

/// Starts the command, does the handshake, lists the tools, and ends it.
pub(super) fn check_command(
    command: &ConfiguredCommand,
    environment: &Environment,
    directory: &Path,
) -> Result<CheckedServer, CheckError> {
    let started = Instant::now();
    let mut server = StartedServer::start(command, environment, directory)?;
    let hello = server.request("initialize", 1, initialize_params())?;
    server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let listed = server.request("tools/list", 2, json!({}))?;
    let elapsed = started.elapsed();
    server.end();
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

fn initialize_params() -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "shellyard-install", "version": version }
    })
}

/// A running command, its answers line by line, and its error stream. Dropping it ends the process.
struct StartedServer {
    child: Child,
    lines: Receiver<String>,
    stderr: Receiver<String>,
    deadline: Instant,
}

impl StartedServer {
    fn start(
        command: &ConfiguredCommand,
        environment: &Environment,
        directory: &Path,
    ) -> Result<Self, CheckError> {
        let passed = |(name, _): &(OsString, OsString)| {
            CLIENT_VARIABLES.iter().any(|variable| name == variable)
        };
        let mut child = Command::new(&command.program)
            .args(&command.args)
            .env_clear()
            .envs(environment.pairs().into_iter().filter(passed))
            .envs(&command.variables)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| CheckError::Start { program: command.program.clone(), source })?;
        let (send_line, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                let read = BufReader::new(stdout).lines().map_while(Result::ok);
                // The receiver is gone once the check is over.
                let _sent = read.map(|line| send_line.send(line)).take_while(Result::is_ok).count();
            });
        }
        let (send_text, stderr) = mpsc::channel();
        if let Some(stream) = child.stderr.take() {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                let _read = stream.take(MAX_STDERR_BYTES).read_to_end(&mut bytes).is_ok();
                send_text.send(String::from_utf8_lossy(&bytes).into_owned()).ok();
            });
        }
        Ok(Self { child, lines, stderr, deadline: Instant::now() + ANSWER_TIMEOUT })
    }

    /// Sends a message. A write that fails shows as a missing answer.
    fn send(&mut self, message: &Value) {
        if let Some(stdin) = self.child.stdin.as_mut() {
            let _written = writeln!(stdin, "{message}").and_then(|()| stdin.flush()).is_ok();
        }
    }

    /// Sends a request and returns its result; other messages are skipped.
    fn request(
        &mut self,
        method: &'static str,
        id: u64,
        params: Value,
    ) -> Result<Value, CheckError> {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let line = match self.lines.recv_timeout(left) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    let stderr = self.kill_and_read_stderr();
                    return Err(CheckError::Timeout { method, stderr });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.explain_end(method)),
            };
            let Ok(answer) = serde_json::from_str::<Value>(&line) else { continue };
            if answer["id"] != id {
                continue;
            }
            return match answer.get("error") {
                Some(error) => Err(CheckError::Refused { method, answer: error.to_string() }),
                None => Ok(answer["result"].clone()),
            };
        }
    }

    fn explain_end(&mut self, method: &'static str) -> CheckError {
        drop(self.child.stdin.take());
        match self.wait_for_exit() {
            Ok(Some(status)) => {
                CheckError::Ended { method, status, stderr: self.kill_and_read_stderr() }
            }
            Ok(None) => CheckError::Timeout { method, stderr: self.kill_and_read_stderr() },
            Err(error) => CheckError::Watch(error),
        }
    }

    fn wait_for_exit(&mut self) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        loop {
            let status = self.child.try_wait()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            thread::sleep(EXIT_POLL);
        }
    }

    /// Ends the server by the end of its input, as a client does.
    fn end(&mut self) {
        drop(self.child.stdin.take());
        let _ended = self.wait_for_exit();
    }

    fn kill_and_read_stderr(&mut self) -> String {
        self.child.kill().ok();
        self.stderr.recv_timeout(EXIT_TIMEOUT).unwrap_or_default()
    }
}

impl Drop for StartedServer {
    fn drop(&mut self) {
        // Does nothing to a process that has ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
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

//! A server that the command line starts for itself, and asks over stdin and stdout as a client does; and
//! the check of a configured command, which asks for its tools.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shellyard_install::ConfiguredCommand;
use thiserror::Error;

use crate::config::Environment;

/// The time to end after the end of input.
const EXIT_TIMEOUT: Duration = Duration::from_secs(15);

const EXIT_POLL: Duration = Duration::from_millis(20);

/// Lines of the error stream that are kept, and quoted in errors: the last ones.
const MAX_STDERR_LINES: usize = 3;

/// Bytes of a line that are read at once. A longer line counts as several.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// The reason why a server did not answer.
#[derive(Debug, Error)]
pub(super) enum ProbeError {
    #[error("it ended ({status}) before it answered `{method}`{}", quote_stderr_tail(.stderr))]
    Ended { method: &'static str, status: ExitStatus, stderr: String },
    #[error(
        "it did not answer `{method}` within {} s{}", .time.as_secs(), quote_stderr_tail(.stderr)
    )]
    Timeout { method: &'static str, time: Duration, stderr: String },
    #[error("it answered `{method}` with an error: {answer}")]
    Refused { method: &'static str, answer: String },
    #[error("it can no longer be watched")]
    Watch(#[source] io::Error),
}

impl ProbeError {
    /// Returns the stable code word of the error.
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::Ended { .. } => "check_ended",
            Self::Timeout { .. } => "check_timeout",
            Self::Refused { .. } => "check_refused",
            Self::Watch(_) => "check_not_watched",
        }
    }
}

fn quote_stderr_tail(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; it said: {stderr}") }
}

/// A running server with its replies. Dropping it closes the input of the server, so that it ends with
/// all its jobs, and kills it if it does not.
#[derive(Debug)]
pub(super) struct StdioProbe {
    child: Child,
    replies: Receiver<Value>,
    stderr_tail: Arc<Mutex<VecDeque<String>>>,
    /// Closes once the error stream was read to its end.
    stderr_end: Receiver<()>,
    reply_time: Duration,
    last_id: u64,
}

impl StdioProbe {
    /// Starts a command. Each request has `reply_time` for its reply.
    pub(super) fn start(command: &mut Command, reply_time: Duration) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (send_reply, replies) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            // Ends with the output of the server, or with its probe.
            thread::spawn(move || {
                let lines = BufReader::new(stdout).lines().map_while(Result::ok);
                let messages = lines.filter_map(|line| serde_json::from_str(&line).ok());
                let sent = messages.map(|message| send_reply.send(message));
                let _count = sent.take_while(Result::is_ok).count();
            });
        }
        let stderr_tail = Arc::new(Mutex::new(VecDeque::new()));
        let (end, stderr_end) = mpsc::channel();
        if let Some(stderr) = child.stderr.take() {
            let kept = Arc::clone(&stderr_tail);
            thread::spawn(move || {
                keep_last_lines(stderr, &kept);
                drop(end);
            });
        }
        Ok(Self { child, replies, stderr_tail, stderr_end, reply_time, last_id: 0 })
    }

    /// Does the handshake and returns the answer to `initialize`.
    pub(super) fn initialize(&mut self, client: &str) -> Result<Value, ProbeError> {
        let hello = self.request(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": client, "version": env!("CARGO_PKG_VERSION") }
            }),
        )?;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        Ok(hello)
    }

    /// Sends a request and returns its result; other messages are skipped.
    pub(super) fn request(
        &mut self,
        method: &'static str,
        params: Value,
    ) -> Result<Value, ProbeError> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let deadline = Instant::now() + self.reply_time;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = match self.replies.recv_timeout(left) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => return Err(self.timeout_error(method)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.explain_end(method)),
            };
            if message["id"] != id {
                continue;
            }
            return match message.get("error") {
                Some(error) => Err(ProbeError::Refused { method, answer: error.to_string() }),
                None => Ok(message["result"].clone()),
            };
        }
    }

    /// Sends a message. A write that fails shows as a missing answer.
    fn send(&mut self, message: &Value) {
        if let Some(stdin) = self.child.stdin.as_mut() {
            let _written = writeln!(stdin, "{message}").and_then(|()| stdin.flush()).is_ok();
        }
    }

    fn explain_end(&mut self, method: &'static str) -> ProbeError {
        drop(self.child.stdin.take());
        match self.wait_for_exit() {
            Ok(Some(status)) => {
                ProbeError::Ended { method, status, stderr: self.kill_and_read_stderr() }
            }
            Ok(None) => self.timeout_error(method),
            Err(error) => ProbeError::Watch(error),
        }
    }

    fn timeout_error(&mut self, method: &'static str) -> ProbeError {
        let time = self.reply_time;
        ProbeError::Timeout { method, time, stderr: self.kill_and_read_stderr() }
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

    fn kill_and_read_stderr(&mut self) -> String {
        self.child.kill().ok();
        // Fails at the end of the stream, or after the time: a descendant may hold the stream open.
        let _ended = self.stderr_end.recv_timeout(EXIT_TIMEOUT).is_err();
        let lines = self.stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join(" / ")
    }
}

/// Reads a stream to its end and keeps its last lines.
fn keep_last_lines(stream: impl Read, kept: &Mutex<VecDeque<String>>) {
    let mut reader = BufReader::new(stream);
    let mut bytes = Vec::new();
    while let Ok(1..) = (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes) {
        let line = String::from_utf8_lossy(&bytes).trim().to_owned();
        bytes.clear();
        if line.is_empty() {
            continue;
        }
        let mut lines = kept.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(line);
        if lines.len() > MAX_STDERR_LINES {
            lines.pop_front();
        }
    }
}

impl Drop for StdioProbe {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ended = self.wait_for_exit();
        // Does nothing to a process that has ended; the keeper of a server ends its jobs.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

// The check of a configured command.

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

    fn start(script: &str, reply_time: Duration) -> StdioProbe {
        let mut command = Command::new("/bin/sh");
        StdioProbe::start(command.args(["-c", script]), reply_time).unwrap()
    }

    #[test]
    fn a_silent_server_is_killed_and_its_stderr_tail_are_quoted() {
        let script = "for i in 1 2 3 4; do echo \"line $i\" >&2; done; exec sleep 600";
        let mut probe = start(script, Duration::from_secs(1));
        let error = probe.request("ping", json!({})).unwrap_err();
        assert_eq!(error.code(), "check_timeout");
        assert_eq!(
            error.to_string(),
            "it did not answer `ping` within 1 s; it said: line 2 / line 3 / line 4"
        );
    }

    #[test]
    fn a_long_error_stream_does_not_block_the_server() {
        let script =
            "read -r _; seq 1 100000 >&2; echo '{\"id\":1,\"result\":\"done\"}'; read -r _";
        let mut probe = start(script, Duration::from_secs(60));
        assert_eq!(probe.request("ping", json!({})).unwrap(), "done");
    }

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

//! The private server of `self-test`: this program as `stdio`, in a temporary directory of its own.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::{Value, json};
use tempfile::TempDir;
use thiserror::Error;

/// The longest wait for a reply: a loaded host is slow, a broken one must not hang the test.
const REPLY_TIME: Duration = Duration::from_secs(60);
/// The time for the server to end by itself once its input is closed.
const END_TIME: Duration = Duration::from_secs(15);
const POLL_PAUSE: Duration = Duration::from_millis(20);
/// The prefix of variables that would change the settings of the private server.
const SETTING_PREFIX: &str = "SHELLYARD_";

/// The settings of the private server. Jobs begin without a sandbox, so that each call can choose a
/// profile; the limits are small, so that the checks are fast.
const CONFIG: &str = "\
[mcp]
result_format = \"structured\"
[confinement]
profile = \"none\"
on_unavailable = \"refuse\"
[job]
max_output = \"4 MiB\"
[output]
memory = \"64 KiB\"
compress_from = 0
[policy]
deny = [\"shellyard-denied\"]
ask = [\"shellyard-asked\"]
";

/// A failure of the private server itself.
#[derive(Debug, Error)]
pub(super) enum SelfTestError {
    #[error("the temporary directory cannot be used; set TMPDIR to a writable directory")]
    Directory(#[source] io::Error),
    #[error("the server cannot be started")]
    Start(#[source] io::Error),
    #[error("the server has ended: {log}")]
    Ended { log: String },
    #[error("the server did not answer within {} s: {log}", REPLY_TIME.as_secs())]
    Silent { log: String },
    #[error("the server refused the request: {message}")]
    Protocol { message: String },
}

/// A running private server. Dropping it ends it with all its jobs, and removes its directory.
#[derive(Debug)]
pub(super) struct PrivateServer {
    child: Child,
    stdin: Option<ChildStdin>,
    replies: Receiver<Value>,
    last_id: u64,
    folder: TempDir,
}

impl PrivateServer {
    /// Starts the server and shakes hands with it.
    pub(super) fn start() -> Result<Self, SelfTestError> {
        let folder = tempfile::Builder::new().prefix("shellyard-self-test-").tempdir();
        let folder = folder.map_err(SelfTestError::Directory)?;
        let log = prepare_folder(folder.path()).map_err(SelfTestError::Directory)?;
        let mut child = spawn_server(folder.path(), log).map_err(SelfTestError::Start)?;
        let stdin = child.stdin.take();
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| SelfTestError::Start(io::ErrorKind::BrokenPipe.into()))?;
        let (sender, replies) = mpsc::channel();
        // Ends with the output of the server.
        thread::Builder::new()
            .name("self-test-replies".to_owned())
            .spawn(move || {
                let lines = BufReader::new(stdout).lines().map_while(Result::ok);
                let messages = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
                for message in messages {
                    if sender.send(message).is_err() {
                        return;
                    }
                }
            })
            .map_err(SelfTestError::Start)?;
        let mut server = Self { child, stdin, replies, last_id: 0, folder };
        let client = json!({ "name": "shellyard-self-test", "version": env!("CARGO_PKG_VERSION") });
        server.request(
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client }),
        )?;
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(server)
    }

    /// The working directory of jobs.
    pub(super) fn workspace(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A directory outside of the workspace.
    pub(super) fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    /// The data directory of the server.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Calls a tool and returns the structured content of its reply.
    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, SelfTestError> {
        let reply = self.request("tools/call", json!({ "name": tool, "arguments": arguments }))?;
        Ok(reply["structuredContent"].clone())
    }

    fn request(&mut self, method: &str, params: Value) -> Result<Value, SelfTestError> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        let deadline = Instant::now() + REPLY_TIME;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.replies.recv_timeout(left).map_err(|error| match error {
                RecvTimeoutError::Timeout => SelfTestError::Silent { log: self.last_log_line() },
                RecvTimeoutError::Disconnected => {
                    SelfTestError::Ended { log: self.last_log_line() }
                }
            })?;
            if message["id"] != id {
                continue;
            }
            if let Some(message) = message["error"]["message"].as_str() {
                return Err(SelfTestError::Protocol { message: message.to_owned() });
            }
            return Ok(message["result"].clone());
        }
    }

    fn send(&mut self, message: &Value) -> Result<(), SelfTestError> {
        let written = match &mut self.stdin {
            Some(stdin) => stdin.write_all(format!("{message}\n").as_bytes()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        written.map_err(|_| SelfTestError::Ended { log: self.last_log_line() })
    }

    /// Returns the last line that the server wrote to its log.
    fn last_log_line(&self) -> String {
        let log = fs::read_to_string(log_path(self.folder.path())).unwrap_or_default();
        log.lines().last().unwrap_or("it wrote no log").to_owned()
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + END_TIME;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                // Its guardian ends the jobs.
                self.child.kill().ok();
                self.child.wait().ok();
                return;
            }
            thread::sleep(POLL_PAUSE);
        }
    }
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

/// Creates the directories and the settings. Returns the file for the log.
fn prepare_folder(folder: &Path) -> io::Result<fs::File> {
    for name in ["work", "outside"] {
        fs::create_dir(folder.join(name))?;
    }
    fs::write(folder.join("config.toml"), CONFIG)?;
    fs::File::create(log_path(folder))
}

fn spawn_server(folder: &Path, log: fs::File) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([OsStr::new("stdio"), OsStr::new("--config"), folder.join("config.toml").as_os_str()])
        .args([OsStr::new("--data-dir"), folder.join("data").as_os_str()])
        .current_dir(folder.join("work"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with(SETTING_PREFIX) {
            command.env_remove(name);
        }
    }
    command.spawn()
}

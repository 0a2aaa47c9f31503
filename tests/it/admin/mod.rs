//! The operator's requests to a server: over its socket, and over HTTP with tokens.

mod drain;
mod jobs;
mod log_level;
mod pause;
mod reload;
mod roles;

use std::process::Output;

use serde_json::{Value, json};

use crate::harness::{Era, Launch, Marker, TestServer, eventually, output_of, run_program, text};

/// A server with tenants: two that run commands, one that only looks, and the operator.
struct Hosted {
    server: TestServer,
    alice: String,
    bob: String,
    reader: String,
    admin: String,
}

/// The sender of a request, and its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// The server's own user, through the socket.
    Socket,
    /// The operator, over HTTP.
    Admin,
    /// Tenant alice, over HTTP.
    Alice,
    /// Somebody who may only look at alice's jobs, over HTTP.
    Reader,
}

impl Who {
    /// Returns the tenant that the audit log names for this sender.
    const fn tenant(self) -> &'static str {
        match self {
            Self::Socket => "local",
            Self::Admin => "ops",
            Self::Alice | Self::Reader => "alice",
        }
    }
}

/// Both ways of those who may.
const OPERATORS: [Who; 2] = [Who::Socket, Who::Admin];

impl Hosted {
    #[track_caller]
    fn start(config: &str) -> Self {
        let launch = Launch::http().structured().era(Era::Modern);
        let mut server = launch.config(config).start_silent();
        let token = |name, role| create_token(&server, name, role);
        let (alice, bob) = (token("alice", "run"), token("bob", "run"));
        let (reader, admin) = (token("alice", "read-only"), token("ops", "admin"));
        server.http().use_token(&alice);
        Self { server, alice, bob, reader, admin }
    }

    /// Runs a verb to its end.
    #[track_caller]
    fn ask(&mut self, who: Who, arguments: &[&str]) -> Output {
        let mut command = self.server.sandbox().command();
        command.args(arguments);
        let secret = match who {
            Who::Socket => {
                command.arg("--data-dir").arg(self.server.sandbox().data());
                return output_of(command, "");
            }
            Who::Admin => &self.admin,
            Who::Alice => &self.alice,
            Who::Reader => &self.reader,
        };
        command.env("SHELLYARD_TOKEN", secret);
        command.args(["--connect", &format!("http://{}/mcp", self.server.http().address())]);
        output_of(command, "")
    }

    /// The same, done: what it says to people.
    #[track_caller]
    fn ask_for_text(&mut self, who: Who, arguments: &[&str]) -> (String, String) {
        let output = self.ask(who, arguments);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stdout}{stderr}");
        (stdout, stderr)
    }

    #[track_caller]
    fn json(&mut self, who: Who, arguments: &[&str]) -> Value {
        let (stdout, stderr) = self.ask_for_text(who, &[arguments, &["--json"]].concat());
        assert_eq!(stderr, "", "{arguments:?}");
        serde_json::from_str(&stdout).expect("JSON")
    }

    /// Submits a job of the tenant that speaks now, and gives its first answer.
    #[track_caller]
    fn submit(&mut self, command: &str, lane: &str) -> Value {
        let arguments = json!({"command": command, "lane": lane, "wait_s": 0});
        self.server.call("run_command", arguments).ok().structured().clone()
    }

    /// Returns the status of a job of the current tenant.
    #[track_caller]
    fn job_status(&mut self, job: &Value) -> Value {
        let arguments = json!({"jobs": [job["job"]], "wait_s": 0});
        self.server.call("wait_jobs", arguments).ok().only_job().clone()
    }

    /// A job that runs, and what it sleeps for.
    #[track_caller]
    fn holder(&mut self) -> (Value, Marker) {
        let marker = Marker::new();
        let job = self.submit(&format!("sleep {marker}"), "default");
        marker.wait_alive();
        (job, marker)
    }

    #[track_caller]
    fn stop(&mut self, job: &Value) {
        self.server.call("stop_jobs", json!({"jobs": [job["job"]]})).ok();
    }

    #[track_caller]
    fn await_state(&mut self, job: &Value, state: &str) {
        eventually(&format!("{job} is {state}"), || self.job_status(job)["state"] == state);
    }

    /// The notes of the audit log, `what: detail`; the log must hold together.
    #[track_caller]
    fn audited(&self) -> Vec<String> {
        let log = self.server.sandbox().data().join("audit.jsonl");
        let path = log.to_str().expect("a path of ours");
        let verified = run_program(self.server.sandbox(), &["audit", "verify", path]);
        assert_eq!(verified.status.code(), Some(0), "{verified:?}");
        let lines = std::fs::read_to_string(&log).expect("there is an audit log");
        let entries = lines.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        entries
            .filter(|entry: &Value| entry["event"] == "note")
            .map(|entry| format!("{}: {}", words(&entry["what"]), words(&entry["detail"])))
            .collect()
    }

    #[track_caller]
    fn assert_audited(&self, note: &str) {
        eventually(note, || self.audited().iter().any(|found| found == note));
    }
}

fn words(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A new token for this tenant.
#[track_caller]
fn create_token(server: &TestServer, name: &str, role: &str) -> String {
    let data = server.sandbox().data();
    let data = data.to_str().expect("a path");
    let arguments = ["token", "new", name, "--role", role, "--data-dir", data];
    text(&run_program(server.sandbox(), &arguments).stdout).trim_end().to_owned()
}

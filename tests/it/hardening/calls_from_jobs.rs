//! Jobs that call the server that runs them.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{refused, run_command};
use crate::harness::{
    Era, HttpRequest, Launch, Marker, Reply, TestServer, eventually_some, tested_program, token,
};

const CALLER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/hardening/caller.py");

/// The ways to hide the caller that leave a client which reads the response.
const MODES: [&str; 6] =
    ["direct", "daemon", "handed_on", "in_flight", "undumpable", "hidden_table"];

/// Settings without confinement, so that nothing but the refusal stops the job.
const LOOSE: &str = "[confinement]\nprofile = \"none\"\n";

/// A server, and the number of calls so far.
struct CalledServer {
    server: TestServer,
    calls: u32,
}

/// One call of a job; the command that it tries to run leaves a file.
struct JobCall {
    script: String,
    answer: PathBuf,
    trace: PathBuf,
}

impl CalledServer {
    fn start(launch: Launch, settings: &str) -> Self {
        let server = launch.structured().config(&format!("{LOOSE}{settings}")).start();
        fs::copy(CALLER, server.work().join("caller.py")).expect("a file of ours");
        Self { server, calls: 0 }
    }

    /// Starts one server as root, if possible, and one as an unprivileged user.
    fn each_user(settings: &str) -> [Self; 2] {
        [Launch::http(), Launch::http().unprivileged()].map(|launch| Self::start(launch, settings))
    }

    fn addresses(&mut self) -> [String; 2] {
        let socket = self.server.sandbox().data().join("shellyard.sock");
        [socket.display().to_string(), self.server.http().address().to_owned()]
    }

    /// Prepares a call in this way and over this address.
    fn attempt(&mut self, mode: &str, address: &str, token: Option<&str>) -> JobCall {
        self.calls += 1;
        let name = |kind: &str| self.server.work().join(format!("{kind}-{}", self.calls));
        let trace = name("trace");
        let mut request = run_command(&format!("touch {}", trace.display()));
        request = request.header("Host", "localhost").header("Connection", "close");
        if let Some(token) = token {
            request = request.header("Authorization", &format!("Bearer {token}"));
        }
        fs::write(name("request"), bytes_of(&request)).expect("a file of ours");
        let work = self.server.work().display().to_string();
        let (request, answer) = (name("request"), name("answer"));
        let script = format!(
            "python3 {work}/caller.py {mode} {address} {} {}",
            request.display(),
            answer.display()
        );
        JobCall { script, answer, trace }
    }
}

impl JobCall {
    /// Waits for the whole response.
    #[track_caller]
    fn answer(&self) -> String {
        eventually_some("an answer", || fs::read_to_string(&self.answer).ok())
    }

    #[track_caller]
    fn assert_refused(&self, name: &str) {
        let answer = self.answer();
        assert!(answer.starts_with("HTTP/1.1 403 "), "{name}: {answer}");
        assert!(answer.contains("caller_is_job"), "{name}: {answer}");
        assert!(answer.contains("http.allow_jobs"), "{name}: {answer}");
        assert!(!self.trace.exists(), "{name}: it ran");
    }

    #[track_caller]
    fn assert_let_in(&self, name: &str) {
        let answer = self.answer();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{name}: {answer}");
        assert!(self.trace.exists(), "{name}: {answer}");
    }
}

fn bytes_of(request: &HttpRequest) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    for (name, value) in &request.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", request.body.len());
    [head.as_bytes(), &request.body].concat()
}

#[test]
fn a_job_cannot_start_jobs_however_it_hides() {
    for mut called in CalledServer::each_user("") {
        for address in called.addresses() {
            for mode in MODES {
                let attempt = called.attempt(mode, &address, None);
                let job = called.server.start(&attempt.script);
                attempt.assert_refused(&format!("{mode} over {address}"));
                called.server.wait_finished(job);
            }
        }
        let jobs = called.server.call("list_jobs", json!({"state": "all", "limit": 100})).ok();
        let count = jobs["jobs"].as_array().map(Vec::len);
        assert_eq!(count, Some(2 * MODES.len()), "no job but ours: {}", jobs.0);
        assert!(refused(&mut called.server, "job") >= 12.0, "each was counted");
    }
}

#[test]
fn a_job_in_its_own_namespaces_is_recognised_too() {
    let mut called = CalledServer::start(Launch::http(), "");
    for address in called.addresses() {
        for namespaces in ["--pid --fork", "--user --map-root-user --pid --fork --mount-proc"] {
            let attempt = called.attempt("direct", &address, None);
            let job = called.server.start(&format!("unshare {namespaces} {}", attempt.script));
            attempt.assert_refused(&format!("{namespaces} over {address}"));
            called.server.wait_finished(job);
        }
    }
}

#[test]
fn a_job_that_sends_a_request_and_exits_starts_nothing() {
    for mut called in CalledServer::each_user("") {
        for address in called.addresses() {
            let attempt = called.attempt("closed", &address, None);
            called.server.run(&attempt.script);
            assert!(!attempt.trace.exists(), "over {address}");
        }
        let jobs = called.server.call("list_jobs", json!({"state": "all"})).ok();
        assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(2), "none but ours: {}", jobs.0);
    }
}

#[test]
fn a_job_with_a_valid_token_is_still_refused() {
    let mut called = CalledServer::start(Launch::http().guarded().era(Era::Modern), "");
    called.server.http().use_token(token());
    for address in called.addresses() {
        let attempt = called.attempt("direct", &address, Some(token()));
        called.server.run(&attempt.script);
        attempt.assert_refused(&address);
    }
}

#[test]
fn a_setting_lets_jobs_in() {
    for mut called in CalledServer::each_user("[http]\nallow_jobs = true\n") {
        for address in called.addresses() {
            for mode in MODES {
                let attempt = called.attempt(mode, &address, None);
                called.server.start(&attempt.script);
                attempt.assert_let_in(&format!("{mode} over {address}"));
            }
        }
    }
}

#[test]
fn other_processes_may_call_while_jobs_run() {
    for mut called in CalledServer::each_user("") {
        let marker = Marker::new();
        called.server.start(&format!("setsid sleep {marker} & setsid sleep {marker}"));
        marker.wait_alive();
        let server = called.server.server_pid();
        for address in called.addresses() {
            for mode in ["direct", "daemon", "handed_on"] {
                // A client that hands its socket on has exited, so the server cannot tell who it
                // was.
                if mode == "handed_on" && address.starts_with('/') {
                    continue;
                }
                let attempt = called.attempt(mode, &address, None);
                let status = as_user_of(server, &attempt.script).status().expect("it runs");
                assert!(status.success(), "{mode} over {address}");
                attempt.assert_let_in(&format!("{mode} over {address}"));
            }
        }
    }
}

/// Creates a command that runs as the user of this process.
fn as_user_of(pid: u32, script: &str) -> Command {
    use std::os::unix::fs::MetadataExt as _;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is alive");
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("a user");
    let uid = uid.split_ascii_whitespace().next().expect("a number").to_owned();
    let own = fs::metadata("/proc/self").expect("we are alive").uid().to_string();
    let mut command = if uid == own {
        Command::new("sh")
    } else {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "sh"]);
        command
    };
    command.args(["-c", script]).stdin(Stdio::null()).env("PATH", "/usr/bin:/bin");
    command
}

#[test]
fn the_command_line_and_the_proxy_report_the_refusal_inside_a_job() {
    let mut called = CalledServer::start(Launch::http(), "");
    let program = tested_program().display().to_string();
    let data = called.server.sandbox().data().display().to_string();
    let url = format!("http://{}", called.server.http().address());
    for server in [format!("--data-dir {data}"), format!("--connect {url}")] {
        let reply = called.server.run(&format!("{program} jobs --json {server}"));
        assert_eq!(reply["exit_code"], 1, "{}", reply.0);
        let said: Value = serde_json::from_str(output(&reply)).expect("JSON");
        assert_eq!(said["code"], "caller_is_job", "{said}");
    }
    for server in [format!("--connect --data-dir {data}"), format!("--connect {url}")] {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let reply =
            called.server.run(&format!("echo '{ping}' | {program} stdio {server} 2>/dev/null"));
        let said: Value = serde_json::from_str(output(&reply)).expect("JSON");
        let message = said["error"]["message"].as_str().expect("an error");
        assert!(message.contains("takes no calls from its own jobs"), "{message}");
        assert!(message.contains("http.allow_jobs"), "{message}");
    }
}

fn output(reply: &Reply) -> &str {
    reply["output"].as_str().expect("text")
}

#[test]
fn jobs_may_call_the_health_probes() {
    let mut called = CalledServer::start(Launch::http(), "");
    let address = called.server.http().address().to_owned();
    let script = format!(
        "exec 3<>/dev/tcp/{}; printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3",
        address.replace(':', "/")
    );
    let reply =
        called.server.call("run_command", json!({"command": "bash", "args": ["-c", script]}));
    assert!(output(&reply).starts_with("HTTP/1.1 200 "), "{}", reply.0);
}

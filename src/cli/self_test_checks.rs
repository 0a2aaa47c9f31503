//! The checks of `self-test`. Each looks at the effects on this host, not only at what a reply says.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::self_test_server::{PrivateServer, SelfTestError};
use super::terminal::format_with_causes;
use super::text_layout::truncate_to_width;

/// The time for processes to appear, and to be gone after a stop.
const PROCESS_TIME: Duration = Duration::from_secs(20);
const POLL_PAUSE: Duration = Duration::from_millis(20);
/// Bytes that one job writes in the check of spilling: more than `output.memory`, less than
/// `job.max_output`.
const SPILLED_BYTES: u64 = 3_000_000;
/// The most characters of a reply that a detail quotes.
const QUOTED_CHARS: usize = 160;

/// The fields of a reply that a detail quotes.
const QUOTED_FIELDS: [&str; 7] =
    ["outcome", "exit_code", "limit", "error", "error_code", "profile", "output"];

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckResult {
    Ok,
    Failed,
    /// This host cannot do it, and the server said so.
    NotAvailable,
}

impl CheckResult {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::NotAvailable => "not_available",
        }
    }
}

/// One check and what it found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SelfTestCheck {
    pub(super) name: &'static str,
    pub(super) result: CheckResult,
    pub(super) detail: String,
}

/// The end of a check: a detail, if it was passed.
type Checked = Result<String, CheckEnd>;

/// The reason why a check was not passed.
#[derive(Debug)]
enum CheckEnd {
    Failed(String),
    NotAvailable(String),
}

impl From<SelfTestError> for CheckEnd {
    fn from(error: SelfTestError) -> Self {
        Self::Failed(format_with_causes(&error))
    }
}

type Check = fn(&mut PrivateServer) -> Checked;

/// Runs all checks, one after the other.
pub(super) fn run_all(server: &mut PrivateServer) -> Vec<SelfTestCheck> {
    let checks: [(&'static str, Check); 13] = [
        ("start", check_start),
        ("profile none", |server| check_profile(server, "none")),
        ("profile default", |server| check_profile(server, "default")),
        ("profile workspace-write", |server| check_profile(server, "workspace-write")),
        ("profile read-only", |server| check_profile(server, "read-only")),
        ("network off", check_network),
        ("stop of a tree", check_stop),
        ("timeout", check_timeout),
        ("output limit", check_output_limit),
        ("memory limit", check_memory_limit),
        ("spill to disk", check_spill),
        ("policy deny", |server| check_policy(server, "shellyard-denied", "denied")),
        ("policy ask", |server| check_policy(server, "shellyard-asked", "needs_approval")),
    ];
    let run = |(name, check): (&'static str, Check)| {
        let (result, detail) = match check(server) {
            Ok(detail) => (CheckResult::Ok, detail),
            Err(CheckEnd::Failed(why)) => (CheckResult::Failed, why),
            Err(CheckEnd::NotAvailable(why)) => (CheckResult::NotAvailable, why),
        };
        SelfTestCheck { name, result, detail }
    };
    checks.into_iter().map(run).collect()
}

/// Passes a condition, or fails with what was seen instead.
fn expect(is_met: bool, expected: &str, seen: &Value) -> Result<(), CheckEnd> {
    if is_met {
        return Ok(());
    }
    Err(CheckEnd::Failed(format!("expected {expected}, got {}", quote_reply(seen))))
}

/// Returns the fields of a reply that say what happened.
fn quote_reply(reply: &Value) -> String {
    let mut quoted = reply.clone();
    if let Some(fields) = quoted.as_object_mut() {
        fields.retain(|name, _| QUOTED_FIELDS.contains(&name.as_str()));
    }
    truncate_to_width(&quoted.to_string(), QUOTED_CHARS)
}

fn check_start(server: &mut PrivateServer) -> Checked {
    let reply = server.call("run_command", json!({ "command": "echo ready" }))?;
    expect(reply["output"] == "ready\n", "the output of a job", &reply)?;
    Ok(format!("a private server ran a job in {} ms", reply["elapsed_ms"]))
}

/// Runs a job that tries to write inside and outside of its workspace, and looks at what it wrote.
fn check_profile(server: &mut PrivateServer, profile: &str) -> Checked {
    let inside = server.workspace().join(format!("by-{profile}"));
    let outside = server.outside().join(format!("by-{profile}"));
    let command = format!(
        "touch {} 2>/dev/null; touch {} 2>/dev/null; echo ran",
        quote(&inside),
        quote(&outside)
    );
    let reply =
        server.call("run_command", json!({ "command": command, "confinement": profile }))?;
    check_available(&reply)?;
    expect(reply["output"] == "ran\n", "a job that runs to its end", &reply)?;
    let confinement = &reply["confinement"];
    let is_asked = confinement["profile"] == profile && confinement["degraded"] != true;
    expect(is_asked || profile == "none", "the profile that was asked for", confinement)?;
    let (may_inside, may_outside) = match profile {
        "workspace-write" => (true, false),
        "read-only" => (false, false),
        _ => (true, true),
    };
    for (path, may, place) in [(&inside, may_inside, "inside"), (&outside, may_outside, "outside")]
    {
        if path.exists() != may {
            let did = if may { "could not write" } else { "wrote" };
            return Err(CheckEnd::Failed(format!("the job {did} {place} its workspace")));
        }
    }
    let wrote = match (may_inside, may_outside) {
        (true, true) => "writes everywhere",
        (true, false) => "writes to its workspace alone",
        (false, _) => "writes nowhere",
    };
    let backend = confinement["backend"].as_str().unwrap_or("none");
    Ok(format!("{wrote} (enforced by: {backend})"))
}

/// Ends a check for which the host lacks something; the reply says what.
fn check_available(reply: &Value) -> Result<(), CheckEnd> {
    if reply["error_code"] != "confinement_unavailable" {
        return Ok(());
    }
    let why = reply["error"].as_str().unwrap_or("this host has no suitable sandbox");
    Err(CheckEnd::NotAvailable(truncate_to_width(why, QUOTED_CHARS)))
}

/// Lets a job without network connect to a port of this process.
fn check_network(server: &mut PrivateServer) -> Checked {
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
    let (port, listener) =
        port.map_err(|error| CheckEnd::NotAvailable(format!("no port to connect to: {error}")))?;
    listener
        .set_nonblocking(true)
        .map_err(|error| CheckEnd::Failed(format!("the port cannot be watched: {error}")))?;
    // In a file: the policy refuses such a redirection in a command line.
    let script = server.workspace().join("connect");
    fs::write(&script, format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected\n"))
        .map_err(|error| CheckEnd::Failed(format!("the workspace cannot be written: {error}")))?;
    let arguments = |network: &str| json!({ "command": "bash", "args": [script.as_path()], "network": network });
    let open = server.call("run_command", arguments("on"))?;
    if open["output"] != "connected\n" {
        let seen = quote_reply(&open);
        let why = format!("a job with network could not connect with bash either: {seen}");
        return Err(CheckEnd::NotAvailable(why));
    }
    while listener.accept().is_ok() {}
    let closed = server.call("run_command", arguments("off"))?;
    check_available(&closed)?;
    expect(closed["outcome"] == "exited", "a job that runs to its end", &closed)?;
    let reached = listener.accept().map_err(|error| error.kind());
    if !matches!(reached, Err(ErrorKind::WouldBlock)) {
        return Err(CheckEnd::Failed("the job reached a port of this host".to_owned()));
    }
    let backend = closed["confinement"]["backend"].as_str().unwrap_or_default();
    Ok(format!("a job without network reaches no port of this host (enforced by: {backend})"))
}

/// Stops a job with children that left its session, and looks for survivors.
fn check_stop(server: &mut PrivateServer) -> Checked {
    // The time to sleep is the mark by which the processes are found.
    let mark = format!("86400.{}", std::process::id());
    let command =
        format!("sleep {mark} & setsid sleep {mark} & (setsid sleep {mark} &); sleep {mark}");
    let started = server.call("run_command", json!({ "command": command, "wait_s": 0 }))?;
    let processes = 4;
    if !wait_until(|| count_processes(&mark) >= processes) {
        let seen = count_processes(&mark);
        return Err(CheckEnd::Failed(format!("only {seen} of {processes} processes started")));
    }
    let stopped = server.call("stop_jobs", json!({ "jobs": [started["job"]] }))?;
    if !wait_until(|| count_processes(&mark) == 0) {
        let left = count_processes(&mark);
        return Err(CheckEnd::Failed(format!("{left} processes outlived the stop")));
    }
    expect(stopped["error_code"].is_null(), "a stop that is not refused", &stopped)?;
    Ok(format!("{processes} processes ended, two of them in sessions of their own"))
}

fn check_timeout(server: &mut PrivateServer) -> Checked {
    let mark = format!("86401.{}", std::process::id());
    let arguments = json!({ "command": format!("sleep {mark} & sleep {mark}"), "timeout_s": 0.5 });
    let reply = server.call("run_command", arguments)?;
    expect(reply["outcome"] == "timed_out", "the outcome timed_out", &reply)?;
    if !wait_until(|| count_processes(&mark) == 0) {
        return Err(CheckEnd::Failed("processes outlived the timeout".to_owned()));
    }
    Ok(format!("ended after {} ms of 500", reply["elapsed_ms"]))
}

fn check_output_limit(server: &mut PrivateServer) -> Checked {
    let reply = server.call("run_command", json!({ "command": "yes" }))?;
    let is_limit = reply["outcome"] == "limit" && reply["limit"] == "output_bytes";
    expect(is_limit, "the outcome limit (output_bytes)", &reply)?;
    Ok(format!("ended after {} bytes", reply["total_bytes"]))
}

fn check_memory_limit(server: &mut PrivateServer) -> Checked {
    let command = "head -c 400000000 /dev/zero | tail -c 300000000 | wc -c";
    let arguments = json!({ "command": command, "limits": { "memory": "64 MiB" } });
    let reply = server.call("run_command", arguments)?;
    check_available(&reply)?;
    let is_limit = reply["outcome"] == "limit" && reply["limit"] == "memory";
    expect(is_limit, "the outcome limit (memory)", &reply)?;
    Ok(format!("ended at a peak of {} bytes, limit 67108864", reply["peak_memory_bytes"]))
}

/// Lets a job write more than memory may hold, and reads its last line back.
fn check_spill(server: &mut PrivateServer) -> Checked {
    let before = count_bytes(&server.data_dir());
    let command = format!(
        "head -c {SPILLED_BYTES} /dev/zero | tr '\\0' 'x' | fold -w 100; echo; echo the-end"
    );
    let reply = server.call("run_command", json!({ "command": command }))?;
    expect(reply["outcome"] == "exited", "a job that runs to its end", &reply)?;
    let spilled = count_bytes(&server.data_dir()).saturating_sub(before);
    if spilled < SPILLED_BYTES {
        return Err(CheckEnd::Failed(format!("only {spilled} bytes are on disk")));
    }
    let arguments = json!({ "job": reply["job"], "view": "tail", "max_lines": 1 });
    let page = server.call("read_output", arguments)?;
    let text = page["output"].as_str().or_else(|| page["text"].as_str()).unwrap_or_default();
    expect(text.contains("the-end"), "the last line of the output", &page)?;
    Ok(format!("{spilled} bytes on disk, the last line was read back"))
}

fn check_policy(server: &mut PrivateServer, command: &str, code: &str) -> Checked {
    let marker = server.workspace().join(format!("ran-{command}"));
    let text = format!("touch {}; {command}", quote(&marker));
    let reply = server.call("run_command", json!({ "command": text }))?;
    expect(reply["error_code"] == code, &format!("a refusal ({code})"), &reply)?;
    if marker.exists() {
        return Err(CheckEnd::Failed("a part of the refused command was run".to_owned()));
    }
    Ok(format!("refused ({code}), and nothing of the line was run"))
}

fn wait_until(is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + PROCESS_TIME;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(POLL_PAUSE);
    }
}

/// Counts the processes that have this word as their second argument, as `sleep MARK` does.
fn count_processes(mark: &str) -> usize {
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let arguments = processes.flatten().filter_map(|process| {
        let bytes = fs::read(process.path().join("cmdline")).ok()?;
        bytes.split(|byte| *byte == 0).nth(1).map(<[u8]>::to_vec)
    });
    arguments.filter(|argument| argument == mark.as_bytes()).count()
}

/// Counts the bytes of all files below a directory.
fn count_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => count_bytes(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Quotes a path for the shell.
fn quote(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_a_sandbox_is_not_a_pass_and_not_a_failure() {
        let refused = json!({"error_code": "confinement_unavailable", "error": "no namespaces"});
        let end = check_available(&refused).unwrap_err();
        assert!(matches!(end, CheckEnd::NotAvailable(why) if why == "no namespaces"));
        assert!(check_available(&json!({"outcome": "exited"})).is_ok());
    }

    #[test]
    fn an_unexpected_reply_is_quoted() {
        let end = expect(false, "a thing", &json!({"outcome": "exited"})).unwrap_err();
        let CheckEnd::Failed(why) = end else { panic!("{end:?}") };
        assert_eq!(why, "expected a thing, got {\"outcome\":\"exited\"}");
    }

    #[test]
    fn paths_with_quotes_stay_one_word() {
        assert_eq!(quote(Path::new("/a b/c'd")), "'/a b/c'\\''d'");
    }
}

//! `self-test`: runs a few jobs on a private server and checks that every limit holds on this host. Each
//! check looks at the effects on this host, not only at what a reply says.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use tempfile::TempDir;
use thiserror::Error;

use super::stdio_probe::{ProbeError, StdioProbe};
use super::terminal::{
    Display, OutputFormat, VerbOutput, format_with_causes, read_width, with_spinner_thread,
};
use super::text_layout::{escape_for_terminal, format_table_within, truncate_to_width, wrap_text};

/// Flags of the verb `self-test`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct SelfTestFlags {
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Runs all checks, prints the results, and returns the exit code: 1 if a check failed.
#[must_use]
pub(super) fn run(flags: &SelfTestFlags, display: &Display) -> u8 {
    let results = with_spinner_thread(display, "running the checks", run_checks);
    let width = read_width(&io::stdout());
    format_results(&results, OutputFormat::from_json_flag(flags.json), width).print()
}

fn run_checks() -> Vec<SelfTestCheck> {
    let mut server = match PrivateServer::start() {
        Ok(server) => server,
        Err(error) => {
            let detail = format_with_causes(&error);
            return vec![SelfTestCheck { name: "start", result: CheckResult::Failed, detail }];
        }
    };
    run_all(&mut server)
}

fn format_results(
    results: &[SelfTestCheck],
    format: OutputFormat,
    width: Option<usize>,
) -> VerbOutput {
    let has_failed = results.iter().any(|check| check.result == CheckResult::Failed);
    let code = u8::from(has_failed);
    match format {
        OutputFormat::Json => {
            let checks: Vec<_> = results
                .iter()
                .map(|check| {
                    json!({
                        "check": check.name, "result": check.result.word(), "detail": check.detail
                    })
                })
                .collect();
            let answer = json!({ "ok": !has_failed, "checks": checks });
            VerbOutput::json(&answer, code)
        }
        OutputFormat::Human => {
            let head = ["CHECK", "RESULT", "DETAIL"].map(str::to_owned).to_vec();
            let rows = results.iter().map(|check| {
                let result = check.result.word().replace('_', " ");
                vec![check.name.to_owned(), result, escape_for_terminal(&check.detail)]
            });
            let table: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
            let summary = wrap_text(&format_summary(results), width);
            let stdout = format!("{}\n{summary}\n", format_table_within(&table, width));
            VerbOutput { code, ..VerbOutput::result(stdout) }
        }
    }
}

fn format_summary(results: &[SelfTestCheck]) -> String {
    let count = |wanted| results.iter().filter(|check| check.result == wanted).count();
    let [ok, failed, missing] =
        [CheckResult::Ok, CheckResult::Failed, CheckResult::NotAvailable].map(count);
    let advice = match (failed, missing) {
        (0, 0) => "everything works on this host",
        (0, _) => "`shellyard doctor` says how this host can provide the rest",
        _ => "a limit does not hold on this host: do not rely on it",
    };
    format!("{ok} ok, {failed} failed, {missing} not available: {advice}")
}

// The checks.

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
enum CheckResult {
    Ok,
    Failed,
    /// This host cannot do it, and the server said so.
    NotAvailable,
}

impl CheckResult {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::NotAvailable => "not_available",
        }
    }
}

/// One check and what it found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SelfTestCheck {
    name: &'static str,
    result: CheckResult,
    detail: String,
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
fn run_all(server: &mut PrivateServer) -> Vec<SelfTestCheck> {
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

// The private server: this program as `stdio`, in a temporary directory of its own.

/// The longest wait for a reply: a loaded host is slow, a broken one must not hang the test.
const REPLY_TIME: Duration = Duration::from_secs(60);
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
enum SelfTestError {
    #[error("the temporary directory cannot be used; set TMPDIR to a writable directory")]
    Directory(#[source] io::Error),
    #[error("the server cannot be started")]
    Start(#[source] io::Error),
    #[error("the server does not work")]
    NoAnswer(#[from] ProbeError),
}

/// A running private server. Dropping it ends it with all its jobs, and removes its directory.
#[derive(Debug)]
struct PrivateServer {
    // Before the directory: fields are dropped in order, and the server uses it to its end.
    probe: StdioProbe,
    folder: TempDir,
}

impl PrivateServer {
    /// Starts the server and shakes hands with it.
    fn start() -> Result<Self, SelfTestError> {
        let folder = tempfile::Builder::new().prefix("shellyard-self-test-").tempdir();
        let folder = folder.map_err(SelfTestError::Directory)?;
        prepare_folder(folder.path()).map_err(SelfTestError::Directory)?;
        let probe = start_server(folder.path()).map_err(SelfTestError::Start)?;
        let mut server = Self { probe, folder };
        server.probe.initialize("shellyard-self-test")?;
        Ok(server)
    }

    /// The working directory of jobs.
    fn workspace(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A directory outside of the workspace.
    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    /// The data directory of the server.
    fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Calls a tool and returns the structured content of its reply.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, SelfTestError> {
        let params = json!({ "name": tool, "arguments": arguments });
        let reply = self.probe.request("tools/call", params)?;
        Ok(reply["structuredContent"].clone())
    }
}

/// Creates the directories and the settings.
fn prepare_folder(folder: &Path) -> io::Result<()> {
    for name in ["work", "outside"] {
        fs::create_dir(folder.join(name))?;
    }
    fs::write(folder.join("config.toml"), CONFIG)
}

fn start_server(folder: &Path) -> io::Result<StdioProbe> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([OsStr::new("stdio"), OsStr::new("--config"), folder.join("config.toml").as_os_str()])
        .args([OsStr::new("--data-dir"), folder.join("data").as_os_str()])
        .current_dir(folder.join("work"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with(SETTING_PREFIX) {
            command.env_remove(name);
        }
    }
    StdioProbe::start(&mut command, REPLY_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, result: CheckResult) -> SelfTestCheck {
        SelfTestCheck { name, result, detail: format!("about {name}\u{1b}[2J") }
    }

    #[test]
    fn one_failure_is_the_exit_code_and_missing_support_is_not() {
        let good = [check("a", CheckResult::Ok), check("b", CheckResult::NotAvailable)];
        let output = format_results(&good, OutputFormat::Human, None);
        assert_eq!(output.code, 0);
        assert!(output.stdout.contains("b      not available  about b\\u{1b}[2J\n"), "{output:?}");
        assert!(output.stdout.contains("1 ok, 0 failed, 1 not available: "), "{output:?}");
        let narrow = format_results(&good, OutputFormat::Human, Some(20)).stdout;
        assert!(narrow.starts_with("a  result: ok\n  detail: about\n"), "{narrow}");
        let bad = [check("a", CheckResult::Ok), check("c", CheckResult::Failed)];
        let output = format_results(&bad, OutputFormat::Json, None);
        assert_eq!(output.code, 1);
        let answer: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(
            (&answer["ok"], &answer["checks"][1]["result"]),
            (&json!(false), &json!("failed"))
        );
    }

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

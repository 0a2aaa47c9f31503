//! The audit log: what is written down, and that nobody can change it unnoticed.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{
    HttpConnection, HttpRequest, Launch, Marker, Sandbox, TestServer, eventually, run_program, text,
};

fn log_of(server: &TestServer) -> PathBuf {
    server.sandbox().data().join("audit.jsonl")
}

fn entries(log: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(log).expect("there is an audit log");
    lines.lines().map(|line| serde_json::from_str(line).expect("one JSON object a line")).collect()
}

fn of_event(log: &Path, event: &str) -> Vec<Value> {
    entries(log).into_iter().filter(|entry| entry["event"] == event).collect()
}

/// The decisions, once there are so many: a call goes on when its line takes long.
#[track_caller]
fn decisions(server: &TestServer, count: usize) -> Vec<Value> {
    eventually("each decision is written", || of_event(&log_of(server), "decision").len() >= count);
    of_event(&log_of(server), "decision")
}

#[track_caller]
fn verify(log: &Path) -> Output {
    run_program(&Sandbox::new(), &["audit", "verify", log.to_str().expect("a path of ours")])
}

#[track_caller]
fn assert_holds(log: &Path) {
    let output = verify(log);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).starts_with("ok: "), "{output:?}");
}

/// Verifying finds this in the log, at this line.
#[track_caller]
fn assert_broken(log: &Path, line: u64, word: &str) {
    let output = verify(log);
    assert_eq!(output.status.code(), Some(1), "{word}: {output:?}");
    let told = text(&output.stderr);
    let place = format!("{}:{line}: ", log.display());
    assert!(told.contains(&place) && told.contains(word), "`{place}`, `{word}`: {told}");
}

#[test]
fn each_decision_and_each_ending_is_one_line() {
    let config = "[policy]\ndeny = [\"rm*\"]\nask = [\"touch\"]\n";
    for launch in Launch::both() {
        let mut server = launch.structured().config(config).start();
        let log = log_of(&server);
        let job = server.run("echo hi; exit 3").job();
        server.call("run_command", json!({"command": "ls; rm x"}));
        server.call("run_command", json!({"command": "touch x"}));
        eventually("the ending is written", || of_event(&log, "ending").len() == 1);
        eventually("each decision is written", || of_event(&log, "decision").len() == 3);
        let work = fs::canonicalize(server.work()).expect("it is there");
        let decisions = of_event(&log, "decision");
        assert_eq!(decisions.len(), 3, "{decisions:?}");
        for (decision, expected) in decisions.iter().zip([
            json!({"job": job, "command": "echo hi; exit 3", "verdict": "allowed"}),
            json!({"command": "ls; rm x", "verdict": "refused", "rule": "policy.deny[0]"}),
            json!({"command": "touch x", "verdict": "asked", "rule": "policy.ask[0]"}),
        ]) {
            for (field, value) in expected.as_object().expect("an object") {
                assert_eq!(&decision[field], value, "{field} of {decision}");
            }
            assert_eq!(decision["tenant"], "local", "{decision}");
            assert!(decision["client"].as_str().is_some_and(|it| it.contains("it")), "{decision}");
            assert_eq!(decision["cwd"], json!(work), "{decision}");
            let told = [&decision["profile"], &decision["network"], &decision["backend"]];
            assert_eq!(told, ["default", "on", "seccomp"], "{decision}");
            assert!(decision["time"].as_str().is_some_and(|it| it.ends_with('Z')), "{decision}");
        }
        assert!(decisions[1].get("job").is_none(), "what was refused is no job: {decisions:?}");
        let ending = &of_event(&log, "ending")[0];
        assert_eq!(ending["job"], job);
        assert_eq!((&ending["outcome"], &ending["exit_code"]), (&json!("exited"), &json!(3)));
        assert_holds(&log);
    }
}

#[test]
fn what_was_let_pass_in_doubt_is_noted() {
    let config = "[policy]\ndeny = [\"rm*\"]\nuncertain = \"allow\"\n";
    let mut server = Launch::stdio().structured().config(config).start();
    server.run("C=true; $C");
    server.run("true");
    let decisions = decisions(&server, 2);
    assert_eq!(decisions[0]["verdict"], "allowed");
    assert!(decisions[0]["uncertain"].is_string(), "{decisions:?}");
    assert!(decisions[1].get("uncertain").is_none(), "{decisions:?}");
}

#[test]
fn a_command_cannot_write_lines_of_its_own_and_is_cut() {
    let mut server = Launch::stdio().structured().start();
    let forged = "true # \n{\"seq\":9,\"event\":\"decision\"}\r\u{1b}[2J\u{7f}\u{85}\u{202e}";
    server.run(forged);
    server.run(&format!("true {}", "x".repeat(100_000)));
    let log = log_of(&server);
    let decisions = decisions(&server, 2);
    let bytes = fs::read_to_string(&log).expect("there is an audit log");
    let is_plain = |letter: char| !letter.is_control() || letter == '\n';
    assert!(bytes.chars().all(is_plain), "control characters are escaped: {bytes:?}");
    assert_eq!(decisions[0]["command"], forged, "nothing is lost by it");
    assert!(decisions[1]["command"].as_str().is_some_and(|it| it.len() < 5_000));
    assert_eq!(decisions[1]["command_bytes"], 100_005);
    assert!(decisions[1]["command_sha256"].is_string());
    assert_holds(&log);
}

#[test]
fn a_job_that_the_end_of_the_server_ends_is_written_down() {
    for launch in Launch::both() {
        let marker = Marker::new();
        let mut server = launch.structured().config("[server]\ndrain_s = 0\n").start();
        let job = server.start(&format!("sleep {marker}"));
        marker.wait_alive();
        server.signal(Signal::TERM);
        server.wait_exit();
        let endings = of_event(&log_of(&server), "ending");
        assert_eq!(endings.len(), 1, "{endings:?}");
        assert_eq!(endings[0]["job"], job);
        assert_eq!(endings[0]["outcome"], "stopped", "{endings:?}");
    }
}

#[test]
fn a_run_from_the_command_line_is_written_down_to_its_end() {
    let sandbox = Sandbox::new();
    let log = sandbox.path().join("audit.jsonl");
    let config = sandbox.write("config.toml", &format!("[audit]\nfile = {log:?}\n"));
    let config = config.to_str().expect("a path of ours");
    run_program(&sandbox, &["run", "--config", config, "--", "sh", "-c", "exit 4"]);
    let events: Vec<Value> = entries(&log).iter().map(|entry| entry["event"].clone()).collect();
    assert_eq!(events, ["decision", "ending"]);
    assert_eq!(entries(&log)[1]["exit_code"], 4);
}

/// A log of a few decisions and endings, whole and at rest.
fn whole_log() -> (tempfile::TempDir, PathBuf) {
    let mut server = Launch::stdio().structured().start();
    let log = log_of(&server);
    for number in 0..4 {
        server.run(&format!("echo {number}"));
    }
    eventually("all endings are written", || of_event(&log, "ending").len() == 4);
    // The log and its head are written one after the other: only at rest can both be copied.
    server.signal(Signal::TERM);
    server.wait_exit();
    let folder = tempfile::TempDir::new().expect("a temporary directory");
    for name in ["audit.jsonl", "audit.jsonl.head"] {
        let source = server.sandbox().data().join(name);
        fs::copy(source, folder.path().join(name)).expect("the log and its head");
    }
    let log = folder.path().join("audit.jsonl");
    assert_holds(&log);
    (folder, log)
}

/// Changes the lines of a whole log; verifying finds it.
#[track_caller]
fn check_tampering(line: u64, word: &str, change: impl FnOnce(&mut Vec<String>)) {
    let (_folder, log) = whole_log();
    let before = fs::read_to_string(&log).expect("there is a log");
    let mut lines: Vec<String> = before.lines().map(|line| format!("{line}\n")).collect();
    assert_eq!(lines.len(), 8);
    change(&mut lines);
    fs::write(&log, lines.concat()).expect("ours to change");
    assert_broken(&log, line, word);
}

#[test]
fn one_byte_that_was_changed_is_found() {
    check_tampering(3, "changed", |lines| lines[2] = lines[2].replacen("local", "locaL", 1));
    check_tampering(8, "changed", |lines| lines[7] = lines[7].replacen("local", "locaL", 1));
}

#[test]
fn every_byte_counts() {
    let (_folder, log) = whole_log();
    let file = OpenOptions::new().write(true).open(&log).expect("ours to change");
    let bytes = fs::read(&log).expect("there is a log");
    for at in (0..bytes.len()).step_by(bytes.len() / 12) {
        file.write_all_at(&[bytes[at] ^ 1], at as u64).expect("ours to change");
        assert_eq!(verify(&log).status.code(), Some(1), "byte {at} of {}", bytes.len());
        file.write_all_at(&[bytes[at]], at as u64).expect("ours to change");
    }
    assert_holds(&log);
}

#[test]
fn a_line_that_was_removed_is_found() {
    check_tampering(4, "missing before this line", |lines| drop(lines.remove(3)));
    check_tampering(1, "the log begins with entry 2", |lines| drop(lines.remove(0)));
}

#[test]
fn lines_that_were_swapped_or_repeated_are_found() {
    check_tampering(3, "stands where entry 3 belongs", |lines| lines.swap(2, 3));
    check_tampering(5, "stands where entry 5 belongs", |lines| lines.insert(4, lines[3].clone()));
}

#[test]
fn a_tail_that_was_cut_is_found() {
    check_tampering(6, "missing", |lines| lines.truncate(6));
    let (_folder, log) = whole_log();
    let bytes = fs::read(&log).expect("there is a log");
    fs::write(&log, &bytes[..bytes.len() - 10]).expect("ours to change");
    assert_broken(&log, 8, "half written");
    fs::write(&log, bytes).expect("ours to change");
    fs::remove_file(log.with_extension("jsonl.head")).expect("ours to remove");
    assert_eq!(verify(&log).status.code(), Some(1), "a log without its head proves nothing");
}

#[test]
fn two_servers_may_write_one_log() {
    let folder = tempfile::TempDir::new().expect("a temporary directory");
    let log = folder.path().join("audit.jsonl");
    let config = format!("[audit]\nfile = {log:?}\nmax_bytes = \"64 KiB\"\nkeep = 100\n");
    let mut yards = [(); 2].map(|()| Launch::stdio().structured().config(&config).start());
    let long = format!(": {}", "x".repeat(4_000));
    for _ in 0..10 {
        let mut begun = Vec::new();
        for server in &mut yards {
            begun.push(server.begin("run_command", json!({"command": long})));
        }
        for (server, id) in yards.iter_mut().zip(begun) {
            server.finish(id).ok();
        }
    }
    let all = || -> Vec<Value> {
        let files = fs::read_dir(folder.path())
            .expect("it is there")
            .map(|file| file.expect("it is there").path());
        let logs = files.filter(|file| file.extension().is_none_or(|ending| ending != "head"));
        logs.flat_map(|file| entries(&file)).collect()
    };
    let count = |event: &str| all().iter().filter(|entry| entry["event"] == event).count();
    eventually("every decision and ending is written", || count("ending") == 20);
    assert_eq!(count("decision"), 20);
    assert!(folder.path().join("audit.jsonl.1").exists(), "it was rotated on the way");
    assert_holds(&log);
}

/// Puts something else where the log's folder was, once the ending of its only job is in it: it
/// would make the folder anew.
fn break_audit(server: &TestServer) {
    let log = server.work().join("trail/audit.jsonl");
    eventually("the ending is written", || of_event(&log, "ending").len() == 1);
    fs::rename(server.work().join("trail"), server.work().join("away")).expect("ours to move");
    fs::write(server.work().join("trail"), "no folder").expect("ours to write");
}

fn mend_audit(server: &TestServer) {
    fs::remove_file(server.work().join("trail")).expect("ours to remove");
    fs::rename(server.work().join("away"), server.work().join("trail")).expect("ours to move");
}

const IN_TRAIL: &str = "[audit]\nfile = \"trail/audit.jsonl\"\n";

#[test]
fn nothing_runs_unwritten_where_a_setting_says_so() {
    let config = format!("{IN_TRAIL}on_failure = \"refuse\"\n");
    for launch in Launch::both() {
        let mut server = launch.structured().config(&config).start();
        server.run("true");
        break_audit(&server);
        let refused = server.call("run_command", json!({"command": "touch made"}));
        assert_eq!(refused["outcome"], "refused", "{}", refused.0);
        assert_eq!(refused["error_code"], "no_audit", "{}", refused.0);
        assert!(refused.error_text().contains("audit.on_failure"), "{}", refused.0);
        assert!(!server.work().join("made").exists());
        mend_audit(&server);
        server.run("touch made");
        assert!(server.work().join("made").exists(), "it goes on once writing works again");
        assert_holds(&server.work().join("trail/audit.jsonl"));
    }
}

#[test]
fn a_full_disk_is_a_failed_write() {
    let config = format!("{IN_TRAIL}on_failure = \"refuse\"\n");
    let mut server = Launch::stdio().structured().config(&config).start();
    server.run("true");
    let log = server.work().join("trail/audit.jsonl");
    eventually("the ending is written", || of_event(&log, "ending").len() == 1);
    fs::remove_file(&log).expect("ours to remove");
    symlink("/dev/full", &log).expect("a link of ours");
    let refused = server.call("run_command", json!({"command": "touch made"}));
    assert_eq!(refused["error_code"], "no_audit", "{}", refused.0);
    assert!(!server.work().join("made").exists());
}

/// A process that holds both kinds of lock on the log and its head until it ends.
const LOCKER: &str = "
import fcntl, sys, time
files = [open(path, 'r+') for path in sys.argv[1:]]
for file in files:
    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.lockf(file, fcntl.LOCK_EX)
print('locked', flush=True)
time.sleep(600)
";

/// Ends its process when it is dropped.
struct Locker(Child);

impl Locker {
    fn hold(log: &Path) -> Self {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", LOCKER]).arg(log).arg(log.with_extension("jsonl.head"));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("python starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("it was piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line, "locked\n");
        Self(child)
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_foreign_lock_delays_no_call_and_what_waited_is_written_in_order() {
    for setting in ["count", "refuse"] {
        let config = format!("[audit]\non_failure = {setting:?}\n");
        let mut server = Launch::http().structured().config(&config).start();
        server.run("true");
        let log = log_of(&server);
        eventually("the ending is written", || of_event(&log, "ending").len() == 1);
        let locker = Locker::hold(&log);
        for number in 0..20 {
            server.run(&format!("true {number}"));
        }
        assert_eq!(entries(&log).len(), 2, "nobody writes without the lock");
        assert!(server.metric("shellyard_audit_queued_lines") >= 20.0);
        drop(locker);
        eventually("all is written", || of_event(&log, "ending").len() == 21);
        let decisions = of_event(&log, "decision");
        let commands = decisions[1..].iter().map(|entry| entry["command"].as_str().expect("text"));
        let expected: Vec<String> = (0..20).map(|number| format!("true {number}")).collect();
        assert_eq!(commands.collect::<Vec<_>>(), expected);
        assert_holds(&log);
        assert_eq!(failures(&mut server), 0);
        eventually("none waits", || server.metric("shellyard_audit_queued_lines") == 0.0);
    }
}

#[test]
fn lines_that_wait_are_bounded_and_the_setting_says_what_follows() {
    let config =
        |setting: &str| format!("[audit]\nmax_queued = \"2 KiB\"\non_failure = \"{setting}\"\n");
    let long = format!("true {}", "x".repeat(4_000));
    let mut counting = Launch::http().structured().config(&config("count")).start();
    let locker = Locker::hold(&log_of(&counting));
    counting.run(&long);
    drop(locker);
    assert!(failures(&mut counting) >= 1);
    let mut refusing = Launch::http().structured().config(&config("refuse")).start();
    let locker = Locker::hold(&log_of(&refusing));
    let refused = refusing.call("run_command", json!({"command": long}));
    assert_eq!(refused["error_code"], "no_audit", "{}", refused.0);
    drop(locker);
    eventually("it goes on", || {
        refusing.call("run_command", json!({"command": long}))["error_code"] != "no_audit"
    });
    for server in [&counting, &refusing] {
        assert_holds(&log_of(server));
    }
}

#[test]
fn what_waits_for_a_lock_is_written_at_the_end() {
    let mut server = Launch::http().structured().start();
    let locker = Locker::hold(&log_of(&server));
    server.run("true");
    server.signal(Signal::TERM);
    server.expect_log("another process holds its lock");
    drop(locker);
    server.wait_exit();
    let log = log_of(&server);
    assert_eq!((of_event(&log, "decision").len(), of_event(&log, "ending").len()), (1, 1));
    assert_holds(&log);
}

fn failures(server: &mut TestServer) -> u64 {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get("/metrics"));
    let metrics = connection.answer().text();
    let line =
        metrics.lines().find_map(|line| line.strip_prefix("shellyard_audit_failures_total "));
    line.map_or(0, |value| value.trim().parse().expect("a number"))
}

#[test]
fn lines_that_could_not_be_written_are_counted() {
    let mut server = Launch::http().structured().config(IN_TRAIL).start();
    server.run("true");
    assert_eq!(failures(&mut server), 0);
    break_audit(&server);
    server.run("touch made");
    assert!(server.work().join("made").exists(), "work goes on");
    eventually("the decision and the ending are counted", || failures(&mut server) >= 2);
    eventually("it is said", || server.log_text().contains("audit log not written"));
}

#[test]
fn no_log_is_written_where_none_is_wanted() {
    let mut server = Launch::stdio().structured().config("[audit]\nenabled = false\n").start();
    server.run("true");
    assert!(!log_of(&server).exists());
}

#[test]
fn what_was_allowed_names_the_rule_that_allowed_it() {
    let mut server = Launch::stdio().config("[policy]\nallow = [\"ls\", \"echo\"]\n").start();
    server.run("echo a; ls");
    let decisions = decisions(&server, 1);
    assert_eq!(decisions[0]["rule"], "policy.allow[0], policy.allow[1]", "{decisions:?}");
}

#[test]
fn a_secret_in_the_name_of_a_directory_is_masked() {
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let mut server = Launch::stdio().start();
    server.call("run_command", json!({"command": "true", "cwd": format!("/nope/{secret}")}));
    decisions(&server, 1);
    let log = fs::read_to_string(log_of(&server)).expect("there is an audit log");
    assert!(log.contains("[redacted]") && !log.contains(secret), "{log}");
}

//! A disk that does not answer: the jobs that need it wait, and nobody else.

use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{
    HttpConnection, HttpRequest, Launch, Sandbox, TestServer, bytes_of, children_of, eventually,
    eventually_some, oom_score_of, output_of, private_dir, run_program, signal, text,
};

/// More jobs than threads may wait for the disk.
const WRITERS: usize = 24;
const WRITTEN: u64 = 300_000;

/// Writes on command, so that the disk can be stopped before.
const WRITER: &str = "read _; head -c 300000 /dev/zero | tr '\\0' x; read _; echo last";

/// Blocks reads and writes of files below a directory while a flag is there.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
static void pause_for(int fd) {
    const char *dir = getenv("STUCK_DIR"), *flag = getenv("STUCK_FLAG");
    if (!dir || !flag || access(flag, F_OK) != 0) return;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    if (strncmp(path, dir, strlen(dir)) != 0) return;
    while (access(flag, F_OK) == 0) usleep(10000);
}
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    pause_for(fd);
    return syscall(SYS_pwrite64, fd, bytes, count, at);
}
ssize_t pread64(int fd, void *bytes, size_t count, off64_t at) {
    pause_for(fd);
    return syscall(SYS_pread64, fd, bytes, count, at);
}
ssize_t write(int fd, const void *bytes, size_t count) {
    pause_for(fd);
    return syscall(SYS_write, fd, bytes, count);
}
"#;

/// A server whose data directory can be paused.
struct Pausable {
    server: TestServer,
    flag: PathBuf,
    data: TempDir,
    _shim: TempDir,
}

impl Pausable {
    #[track_caller]
    fn start(launch: Launch) -> Self {
        let shim = tempfile::tempdir().expect("a directory");
        let data = private_dir();
        let (source, library) = (shim.path().join("shim.c"), shim.path().join("shim.so"));
        fs::write(&source, SHIM).expect("ours");
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        assert!(compile.status().is_ok_and(|status| status.success()), "this test needs a cc");
        let flag = shim.path().join("stuck");
        let text = |path: &Path| path.to_str().expect("a plain path").to_owned();
        let launch = launch.data(data.path()).env("LD_PRELOAD", &text(&library));
        let launch = launch.env("STUCK_DIR", &text(data.path())).env("STUCK_FLAG", &text(&flag));
        Self { server: launch.start(), flag, data, _shim: shim }
    }

    fn pause(&self) {
        fs::write(&self.flag, "").expect("ours");
    }

    fn resume(&self) {
        fs::remove_file(&self.flag).expect("it was paused");
    }
}

/// Starts jobs that wait for a line and then write more than memory holds.
fn start_writers(server: &mut TestServer) -> Vec<u64> {
    let jobs: Vec<u64> = (0..WRITERS).map(|_| server.start(WRITER)).collect();
    jobs.iter().for_each(|job| server.wait_running(*job));
    jobs
}

fn type_line(server: &mut TestServer, jobs: &[u64]) {
    for job in jobs {
        server.call("send_input", json!({"job": job, "text": "\n"})).ok();
    }
}

fn total(server: &mut TestServer, job: u64) -> u64 {
    let listed = server.call("list_jobs", json!({"limit": 100})).ok();
    let listed = listed.structured()["jobs"].as_array().cloned().unwrap_or_default();
    let found = listed.iter().find(|listed| listed["job"] == job);
    found.and_then(|found| found["total_bytes"].as_u64()).unwrap_or(0)
}

/// Operations that need no disk work while the disk does not answer.
#[track_caller]
fn check_the_rest(server: &mut TestServer, small: u64, writers: &[u64]) {
    for _ in 0..3 {
        let reply = server.run("echo there");
        assert_eq!((&reply["exit_code"], &reply["output"]), (&json!(0), &json!("there\n")));
    }
    let read = server.call("read_output", json!({"job": small})).ok();
    assert_eq!(read["output"], "small\n");
    let found = server.call("read_output", json!({"job": small, "grep": "sma"})).ok();
    assert_eq!(found["output"], "1: small\n");
    for job in writers {
        assert!(total(server, *job) <= 65_536, "nothing was written");
    }
    let stopped = server.call("stop_jobs", json!({"jobs": [writers[0]]})).ok();
    assert!(stopped.structured().to_string().contains("stopped"), "{}", stopped.0);
    let metrics = server.metrics();
    let threads = metrics.lines().find_map(|line| line.strip_prefix("process_threads "));
    let threads: f64 = threads.and_then(|value| value.parse().ok()).expect("a number");
    assert!(threads < 60.0, "{threads} threads");
}

const CONFIG: &str = "[queue]\nslots = 64\n";

fn launch() -> Launch {
    Launch::http().structured().config(CONFIG)
}

fn audit_lines(log: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(log).expect("there is an audit log");
    lines.lines().map(|line| serde_json::from_str(line).expect("one JSON object a line")).collect()
}

/// All decisions of this server come into the audit log, in the order of its jobs, and its chain holds.
#[track_caller]
fn check_audit(log: &Path, jobs: u64) {
    let decided = || -> Vec<u64> {
        let lines = audit_lines(log).into_iter().filter(|line| line["event"] == "decision");
        lines.filter_map(|line| line["job"].as_u64()).collect()
    };
    let is_written = || (decided().len() as u64 == jobs).then_some(());
    eventually_some("the audit log is written", is_written);
    assert_eq!(decided(), (1..=jobs).collect::<Vec<_>>());
    // Endings may still be written, between the log and its head as well.
    let verified = || {
        let path = log.to_str().expect("a path of ours");
        let output = run_program(&Sandbox::new(), &["audit", "verify", path]);
        text(&output.stdout).starts_with("ok: ").then_some(())
    };
    eventually_some("the audit log holds", verified);
}

#[test]
fn while_the_disk_is_paused_others_go_on_and_then_every_byte_is_there() {
    let mut pausable = Pausable::start(launch());
    let small = pausable.server.run("echo small").job();
    let writers = start_writers(&mut pausable.server);
    // The audit log is in the data directory, so it is paused, too.
    let log = pausable.data.path().join("audit.jsonl");
    pausable.pause();
    type_line(&mut pausable.server, &writers);
    check_the_rest(&mut pausable.server, small, &writers);
    assert!(pausable.server.metric("shellyard_audit_queued_lines") >= 3.0);
    pausable.resume();
    check_audit(&log, WRITERS as u64 + 4);
    let shellyard = &mut pausable.server;
    for job in &writers[1..] {
        eventually_some("it has written", || (total(shellyard, *job) == WRITTEN).then_some(()));
    }
    type_line(shellyard, &writers[1..]);
    for job in &writers[1..] {
        let end = shellyard.wait_finished(*job);
        assert_eq!((&end["exit_code"], &end["dropped_bytes"]), (&json!(0), &Value::Null), "{end}");
        let page = shellyard.read_raw(*job, "bytes:299990", 100);
        assert_eq!(bytes_of(&page), b"xxxxxxxxxxlast\n");
    }
}

#[test]
fn a_paused_audit_log_does_not_hold_up_the_end_of_the_server() {
    let mut pausable = Pausable::start(launch());
    pausable.server.run("true");
    pausable.pause();
    for _ in 0..3 {
        pausable.server.run("true");
    }
    pausable.server.signal(Signal::TERM);
    let status = pausable.server.wait_exit();
    assert!(status.success(), "an end that was forced has another code: {status}");
    pausable.server.expect_log("audit log entries lost");
}

#[test]
fn nothing_runs_before_its_line_is_written_where_no_line_may_wait() {
    let config = format!("{CONFIG}[audit]\nmax_queued = 0\non_failure = \"refuse\"\n");
    let mut pausable = Pausable::start(launch().config(&config));
    pausable.server.run("true");
    pausable.pause();
    for _ in 0..2 {
        let refused = pausable.server.call("run_command", json!({"command": "touch made"}));
        assert_eq!(refused["error_code"], "no_audit", "{}", refused.0);
    }
    assert!(!pausable.server.work().join("made").exists());
    pausable.resume();
    let shellyard = &mut pausable.server;
    eventually_some("it goes on", || {
        let reply = shellyard.call("run_command", json!({"command": "touch made"}));
        (reply["error_code"] != "no_audit").then_some(())
    });
    assert!(pausable.server.work().join("made").exists());
}

/// A file system over a directory whose server never answers; gone on drop.
struct DeadDisk {
    path: PathBuf,
    _server: File,
}

impl DeadDisk {
    fn over(path: PathBuf) -> Self {
        let server = File::options().read(true).write(true).open("/dev/fuse");
        let server = server.expect("this test needs /dev/fuse");
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", server.as_raw_fd());
        let options = std::ffi::CString::new(options).expect("no NUL");
        mount("dead", &path, "fuse", MountFlags::empty(), options.as_c_str())
            .expect("this test mounts a file system: run it as root");
        Self { path, _server: server }
    }
}

impl Drop for DeadDisk {
    fn drop(&mut self) {
        unmount(&self.path, UnmountFlags::DETACH).ok();
    }
}

#[test]
fn a_disk_that_is_dead_holds_only_those_who_need_it() {
    let data = private_dir();
    let log = data.path().join("spill/audit.jsonl");
    let config = format!("{CONFIG}[audit]\nfile = {log:?}\n");
    // A durable server has opened the directory of its output at the start.
    let launch = launch().config(&config).env("SHELLYARD_SERVER_DURABILITY", "off");
    let mut server = launch.data(data.path()).start();
    let small = server.run("echo small").job();
    let writers = start_writers(&mut server);
    let disk = DeadDisk::over(data.path().join("spill"));
    type_line(&mut server, &writers);
    check_the_rest(&mut server, small, &writers);
    drop(disk);
    check_audit(&log, WRITERS as u64 + 4);
    type_line(&mut server, &writers[1..]);
    for job in &writers[1..] {
        // Whatever the disk did not take is counted.
        let end = server.wait_finished(*job);
        let field = |name: &str| end[name].as_u64().unwrap_or(0);
        assert_eq!(field("total_bytes") + field("dropped_bytes"), WRITTEN + 5, "{end}");
    }
}

#[test]
fn a_program_that_does_not_load_leaves_the_out_of_memory_score_of_the_server_as_it_was() {
    let dir = private_dir();
    let (disk, shell) = (dir.path().join("disk"), dir.path().join("bash"));
    fs::create_dir(&disk).expect("the directory is ours");
    std::os::unix::fs::symlink("/bin/sh", disk.join("sh")).expect("the directory is ours");
    fs::write(&shell, format!("#!{}\n", disk.join("sh").display())).expect("it is ours");
    fs::set_permissions(&shell, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let config = format!("[job]\nshell = {shell:?}\n[confinement]\nprofile = \"none\"\n");
    let mut shellyard = Launch::http().structured().config(&config).start();
    let [server, keeper] = [shellyard.server_pid(), shellyard.keeper_pid()];
    let own = oom_score_of(server).expect("the kernel has scores");
    let disk = DeadDisk::over(disk);
    shellyard.call("run_command", json!({"command": "true", "wait_s": 0})).ok();
    let has_higher_score = |pid: u32| oom_score_of(pid).is_some_and(|score| score > own);
    let is_loading = || {
        let mut leaders = shellyard.shims().into_iter().flat_map(children_of);
        leaders.any(has_higher_score)
    };
    eventually("the program is being loaded", is_loading);
    for pid in [server, keeper] {
        eventually("their scores are as before", || oom_score_of(pid) == Some(own));
    }
    assert!(is_loading(), "it still is");
    drop(disk);
}

#[test]
fn a_job_whose_program_does_not_load_is_stopped_at_once() {
    let dir = private_dir();
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).expect("the directory is ours");
    let mut server = Launch::http().structured().start();
    let dead = DeadDisk::over(disk.clone());
    let run = json!({"command": disk.join("tool"), "args": ["x"], "wait_s": 0});
    let job = server.call("run_command", run).job();
    server.call("stop_jobs", json!({"jobs": [job]})).ok();
    assert_eq!(server.wait_finished(job)["outcome"], "stopped");
    server.run("echo on").ok();
    drop(dead);
}

/// Reads of the HTTP API for each other read: they reserve no memory, so that there can be many.
const FETCHES: usize = 25;

/// Reads of every kind that wait for the disk: tool calls and paths of the HTTP API.
fn waiting_reads(server: &mut TestServer, job: u64, chunk_uri: &Value) -> Vec<HttpConnection> {
    let tool = |name: &str, arguments: Value| {
        ("tools/call", json!({"name": name, "arguments": arguments}))
    };
    let calls = [
        tool("read_output", json!({"job": job})),
        tool("read_output", json!({"job": job, "grep": "59999"})),
        tool("read_output", json!({"job": job, "query": "length(@)"})),
        tool("read_output", json!({"grep": "59999"})),
        tool("read_file_chunk", json!({"uri": chunk_uri})),
        ("resources/read", json!({"uri": format!("shellyard://jobs/{job}/output")})),
        ("resources/list", json!({})),
    ];
    let mut waiting = Vec::new();
    for (method, params) in calls {
        let id = server.fresh_id();
        let message = server.http().era().request(id, method, params);
        waiting.push(server.http().post(&message));
    }
    for _ in 0..FETCHES {
        let mut fetching = HttpConnection::open(server.http().address());
        fetching.send(&HttpRequest::get(&format!("/api/v1/jobs/{job}/output")));
        waiting.push(fetching);
    }
    waiting
}

/// The threads of the server now.
fn threads(server: &TestServer) -> usize {
    fs::read_dir(format!("/proc/{}/task", server.server_pid())).expect("the server runs").count()
}

#[test]
fn reads_of_every_kind_wait_for_a_paused_disk_in_few_threads_and_others_go_on() {
    const ROUNDS: usize = 4;
    let mut pausable =
        Pausable::start(launch().args(&["--dialect", "native", "--dialect", "shell_exec"]));
    let small = pausable.server.run("echo small").job();
    let job = pausable.server.run("printf '['; seq -s, 1 60000 | tr -d '\\n'; printf ']'").job();
    let run = json!({"cmd": "seq", "args": ["1", "60000"], "on_large_output": "spill"});
    let chunk_uri = pausable.server.call("shell_exec", run).ok()["spill_uri"].clone();
    assert!(chunk_uri.is_string(), "{chunk_uri}");
    let before = threads(&pausable.server);
    pausable.pause();
    let waiting: Vec<HttpConnection> =
        (0..ROUNDS).flat_map(|_| waiting_reads(&mut pausable.server, job, &chunk_uri)).collect();
    for _ in 0..3 {
        let reply = pausable.server.run("echo there");
        assert_eq!((&reply["exit_code"], &reply["output"]), (&json!(0), &json!("there\n")));
        let read = pausable.server.call("read_output", json!({"job": small})).ok();
        assert_eq!(read["output"], "small\n");
        let found = pausable.server.call("read_output", json!({"job": small, "grep": "sma"})).ok();
        assert_eq!(found["output"], "1: small\n");
    }
    // As many threads read as may, and some are for what goes on beside them.
    let more = threads(&pausable.server).saturating_sub(before);
    assert!(more < 48, "{more} more threads for {} reads", waiting.len());
    pausable.resume();
    for mut connection in waiting {
        let answer = connection.answer();
        assert_eq!(answer.status, 200);
        let text = answer.text();
        assert!(!text.contains("could not be read") && !text.contains("broke off"), "{text}");
    }
}

#[test]
fn tokens_hold_while_the_disk_of_their_file_is_dead() {
    let place = private_dir();
    let file = place.path().join("tokens");
    fs::write(&file, "secret-of-alice\n").expect("ours");
    let config = format!("[http]\ntoken_file = {file:?}\n");
    let server = Launch::http().config(&config).start_silent();
    let mut server = server;
    let status = |server: &mut TestServer, token: &str| {
        let mut connection = HttpConnection::open(server.http().address());
        let request = HttpRequest::get("/api/v1/jobs");
        connection.send(&request.header("authorization", &format!("Bearer {token}")));
        connection.answer().status
    };
    assert_eq!(status(&mut server, "secret-of-alice"), 200);
    // The kernel gives notice of this, so that the next request checks the file.
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("ours");
    let disk = DeadDisk::over(place.path().to_owned());
    for _ in 0..3 {
        assert_eq!(status(&mut server, "secret-of-alice"), 200, "what was read holds");
        assert_eq!(status(&mut server, "secret-of-bob"), 401);
    }
    drop(disk);
    fs::write(&file, "secret-of-bob\n").expect("ours");
    eventually_some("the file is read again", || {
        (status(&mut server, "secret-of-bob") == 200).then_some(())
    });
    assert_eq!(status(&mut server, "secret-of-alice"), 401);
}

#[test]
fn a_server_starts_on_a_dead_spill_directory_and_names_it() {
    let data = private_dir();
    let spill = data.path().join("output");
    fs::create_dir(&spill).expect("ours");
    let disk = DeadDisk::over(spill.clone());
    let mut server = launch().data(data.path()).start();
    server.expect_log(&spill.display().to_string());
    server.expect_log("does not answer");
    assert_eq!(server.run("echo there")["output"], "there\n");
    drop(disk);
}

#[test]
fn an_upgrade_to_a_program_on_a_dead_disk_is_refused() {
    let dir = private_dir();
    // One thread: nothing would be answered while it waits for the disk.
    let mut server = Launch::http().structured().env("TOKIO_WORKER_THREADS", "1").start();
    let disk = DeadDisk::over(dir.path().to_owned());
    let mut command = server.sandbox().command();
    command.arg("upgrade").arg(dir.path().join("next")).arg("--data-dir").arg(server.data());
    let output = output_of(command, "");
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("its file system does not"), "{said}");
    server.assert_alive();
    drop(disk);
}

#[test]
fn jobs_outlive_a_journal_that_is_not_read_in_time() {
    let data = private_dir();
    let mut server = Launch::http().structured().data(data.path()).start();
    let job = server.start("while [ ! -e gate ]; do sleep 0.05; done; touch finished");
    server.wait_running(job);
    let disk = DeadDisk::over(data.path().join("journal"));
    let before = i32::try_from(server.server_pid()).expect("a pid fits");
    signal(before, Signal::KILL);
    server.expect_log("was not read within");
    drop(disk);
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    let finished = server.work().join("finished");
    eventually("the job has run to its end", || finished.exists());
}

#[test]
fn a_server_does_not_start_on_a_dead_data_directory_and_names_it() {
    let sandbox = Sandbox::new();
    let data = private_dir();
    let path = data.path().to_str().expect("a plain path");
    let disk = DeadDisk::over(data.path().to_owned());
    let output = run_program(&sandbox, &["serve", "--data-dir", path]);
    drop(disk);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains(path) && said.contains("does not answer"), "{said}");
}

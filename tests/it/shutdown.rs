//! Nothing outlives the server, however it ends.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, geteuid};
use serde_json::json;

use crate::harness::{
    Era, HttpConnection, HttpRequest, Launch, Marker, Sandbox, TestServer, eventually, make_fifo,
};

/// Starts a job whose processes left its group, its session and its parent, and ignore SIGTERM.
#[track_caller]
fn start_stubborn(server: &mut TestServer, marker: &Marker) -> u64 {
    let job = server.start(&format!(
        "trap '' TERM HUP; setsid sleep {marker} & (setsid sh -c 'sleep {marker}' &); sleep {marker}"
    ));
    marker.wait_alive();
    eventually("all three sleep", || marker.alive().len() >= 4);
    job
}

#[test]
fn end_of_input_ends_the_server_and_every_process() {
    let marker = Marker::new();
    let mut server = Launch::stdio().start();
    start_stubborn(&mut server, &marker);
    server.stdio().hang_up();
    assert!(server.wait_exit().success(), "hanging up is a normal end");
    assert_eq!(marker.alive(), Vec::<i32>::new(), "nothing is left once the server is gone");
}

#[test]
fn end_of_input_with_a_call_in_flight_ends_everything_too() {
    let marker = Marker::new();
    let mut server = Launch::stdio().start();
    server.begin("run_command", json!({"command": format!("sleep {marker}")}));
    marker.wait_alive();
    server.stdio().hang_up();
    assert!(server.wait_exit().success(), "hanging up is a normal end");
    assert_eq!(marker.alive(), Vec::<i32>::new(), "nothing is left once the server is gone");
}

#[test]
fn sigterm_lets_running_jobs_finish_within_the_drain_time() {
    let config = "[server]\ndrain_s = 120\n[job]\ngrace_s = 0.1\n";
    let mut server = Launch::http().config(config).start();
    server.start("touch begun; sleep 3; touch finished");
    eventually("the job runs", || server.work().join("begun").exists());
    let finished = server.work().join("finished");
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    assert!(finished.exists(), "the drain time is much longer than the job");
}

#[test]
fn sigterm_ends_the_server_and_every_process() {
    for launch in Launch::both() {
        let marker = Marker::new();
        let mut server = launch.start();
        start_stubborn(&mut server, &marker);
        server.signal(Signal::TERM);
        let status = server.wait_exit();
        assert!(status.success(), "a wished end is no failure: {status}");
        assert_eq!(marker.alive(), Vec::<i32>::new(), "nothing is left once the server is gone");
    }
}

#[test]
fn ctrl_c_ends_the_server_and_every_process() {
    let marker = Marker::new();
    let mut server = Launch::http().start();
    start_stubborn(&mut server, &marker);
    server.signal(Signal::INT);
    server.wait_exit();
    assert_eq!(marker.alive(), Vec::<i32>::new(), "nothing is left once the server is gone");
}

#[test]
fn sigkill_of_the_server_takes_its_jobs_along() {
    for launch in Launch::both() {
        let marker = Marker::new();
        let mut server = launch.start();
        start_stubborn(&mut server, &marker);
        server.signal(Signal::KILL);
        server.wait_exit();
        marker.wait_gone();
    }
}

#[test]
fn a_survivor_of_a_finished_job_ends_with_the_server() {
    let marker = Marker::new();
    let mut server = Launch::stdio().start();
    server.run(&format!("setsid sleep {marker} & echo done"));
    marker.wait_alive();
    server.stdio().hang_up();
    server.wait_exit();
    assert_eq!(marker.alive(), Vec::<i32>::new(), "nothing is left once the server is gone");
}

#[test]
fn a_thread_that_hangs_in_a_system_call_does_not_hold_up_the_end() {
    let place = Sandbox::new();
    let fifo = place.path().join("abort");
    make_fifo(&fifo);
    // Writing this file waits for a reader, who never comes.
    let config = format!("[shell_tool]\nabort_file = {fifo:?}\n");
    let mut server = Launch::http().args(&["--dialect", "shell"]).config(&config).start_silent();
    let params = json!({"name": "shell", "arguments": {"command": "touch ran; false"}});
    let message = Era::Modern.request(1, "tools/call", params);
    let mut request = HttpRequest::post("/mcp", &message);
    request.headers.extend(Era::Modern.headers(&message));
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&request);
    let ran = server.work().join("ran");
    eventually("the command has run", || ran.exists());
    // The file is written a moment after the command has ended, and nothing tells of it.
    thread::sleep(Duration::from_millis(500));
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
}

/// Stops each thread of a process but those with these names, says so, and reaps them at its end.
const STOPPER: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
pid, spared = sys.argv[1], sys.argv[2:]
for tid in map(int, os.listdir(f'/proc/{pid}/task')):
    try:
        if open(f'/proc/{pid}/task/{tid}/comm').read().strip() in spared:
            continue
    except (FileNotFoundError, ProcessLookupError):
        continue # The thread has ended.
    for request in (SEIZE, INTERRUPT):
        if libc.ptrace(request, tid, None, None) != 0:
            sys.exit(os.strerror(ctypes.get_errno()))
    os.waitpid(tid, WALL)
print('stopped', flush=True)
while True:
    try:
        os.waitpid(-1, WALL)
    except ChildProcessError:
        break
";

#[test]
fn sigterm_ends_a_server_whose_threads_are_all_stuck() {
    if !geteuid().is_root() {
        eprintln!("only root can stop threads of a server: not tried");
        return;
    }
    let marker = Marker::new();
    let config = "[server]\ndrain_s = 0\n";
    let mut server = Launch::http().config(config).start();
    server.start(&format!("setsid sleep {marker} & sleep {marker}"));
    eventually("both sleep", || marker.alive().len() >= 2);
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", STOPPER, &server.server_pid().to_string(), "end-watchdog", "log"]);
    let mut stopper = command.stdout(Stdio::piped()).spawn().expect("python starts");
    let mut line = String::new();
    let output = stopper.stdout.take().expect("it was piped");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert_eq!(line, "stopped\n");
    server.signal(Signal::TERM);
    let status = server.wait_exit();
    stopper.wait().expect("it ends with what it stopped");
    assert_eq!(status.code(), Some(1), "an end that was forced: {status}");
    assert!(server.log_text().contains("shutdown took too long"), "{}", server.log_text());
    marker.wait_gone();
}

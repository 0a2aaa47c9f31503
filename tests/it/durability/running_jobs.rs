//! Running jobs go on in the next server as if nothing had happened.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::DurableClient;
use super::disturbance::crash;
use crate::harness::{Launch, Marker, TestServer, eventually, signal};

fn start() -> TestServer {
    Launch::http().structured().start()
}

/// Opens the gate for which a job waits.
fn open_gate(server: &TestServer) {
    fs::write(server.work().join("gate"), "").expect("the gate opens");
}

/// Waits for the gate, in the words of the shell.
const GATE: &str = "while [ ! -e gate ]; do sleep 0.05; done";

#[track_caller]
fn submit(server: &mut TestServer, mut arguments: Value) -> u64 {
    arguments["wait_s"] = json!(0);
    server.call("run_command", arguments).ok().job()
}

fn client(server: &mut TestServer) -> DurableClient {
    DurableClient::new(server.http().address())
}

#[test]
fn a_running_job_goes_on_with_its_output_its_cursor_and_its_exit_code() {
    let mut server = start();
    let job = server.start(&format!("echo before; {GATE}; echo after; exit 42"));
    server.wait_written(job, 7);
    crash(&server);
    let mut client = client(&mut server);
    let (page, bytes) = client.read_raw(job, 7);
    assert_eq!((&page["state"], bytes.len()), (&json!("running"), 0), "{page}");
    open_gate(&server);
    let status = client.wait_finished(job);
    assert_eq!((&status["outcome"], &status["exit_code"]), (&json!("exited"), &json!(42)));
    assert_eq!(client.read_raw(job, 7).1, b"after\n", "the cursor goes on");
    assert_eq!(client.read_all(job).1, b"before\nafter\n");
}

#[test]
fn a_job_that_ends_while_the_server_is_away_has_its_true_ending() {
    for (end, outcome) in [("exit 17", "exited"), ("kill -9 $$", "signaled")] {
        let mut server = start();
        let job = server.start(&format!("echo up; {GATE}; echo gone; {end}"));
        server.wait_written(job, 3);
        // Opened first: the job ends while the next server starts.
        open_gate(&server);
        crash(&server);
        let mut client = client(&mut server);
        let status = client.wait_finished(job);
        assert_eq!(status["outcome"], outcome, "{status}");
        if outcome == "exited" {
            assert_eq!(status["exit_code"], 17, "{status}");
        }
        assert_eq!(client.read_all(job).1, b"up\ngone\n");
    }
}

#[test]
fn output_that_exceeds_the_pipe_while_the_server_is_away_is_complete() {
    let mut server = start();
    let job = server.start("i=0; while [ $i -lt 30 ]; do i=$((i+1)); seq 1 20000; done");
    for _ in 0..3 {
        crash(&server);
    }
    let mut client = client(&mut server);
    assert_eq!(client.wait_finished(job)["exit_code"], 0);
    let once: String = (1..=20_000).map(|line| format!("{line}\n")).collect();
    let (_, bytes) = client.read_all(job);
    assert!(bytes == once.repeat(30).into_bytes(), "{} bytes", bytes.len());
}

#[test]
fn the_deadline_of_a_job_is_not_reset() {
    let marker = Marker::new();
    let mut server = start();
    let sleep = format!("sleep {marker}");
    let old = submit(&mut server, json!({"command": sleep, "timeout_s": 12}));
    server.wait_running(old);
    let waited = server.start("sleep 6");
    server.wait_finished(waited);
    crash(&server);
    let mut client = client(&mut server);
    // Submitted half way: if the crash had reset the first deadline, this one would end first.
    let arguments = json!({"command": sleep, "timeout_s": 9, "wait_s": 0});
    let new = client.call("run_command", &arguments).ok().job();
    assert_eq!(client.wait_finished(new)["outcome"], "timed_out");
    let status = client.status(old);
    assert_eq!((&status["state"], &status["outcome"]), (&json!("finished"), &json!("timed_out")));
}

#[test]
fn limits_are_still_enforced() {
    let marker = Marker::new();
    let mut server = start();
    let command =
        format!("{GATE}; i=0; while [ $i -lt 60 ]; do i=$((i+1)); sleep {marker} & done; wait");
    let job = submit(&mut server, json!({"command": command, "limits": {"processes": 20}}));
    server.wait_running(job);
    crash(&server);
    open_gate(&server);
    let status = client(&mut server).wait_finished(job);
    assert_eq!(status["outcome"], "limit", "{status}");
    marker.wait_gone();
}

#[test]
fn a_stop_after_a_crash_ends_the_whole_tree() {
    for profile in ["none", "default", "workspace-write"] {
        let marker = Marker::new();
        let config = format!("[confinement]\nprofile = \"{profile}\"\n");
        let mut server = Launch::http().structured().config(&config).start();
        let command = format!(
            "trap '' TERM; setsid sleep {marker} & (setsid sh -c 'sleep {marker}' &); sleep {marker}"
        );
        let job = server.start(&command);
        eventually("all three sleep", || marker.sleeping() >= 3);
        crash(&server);
        let mut client = client(&mut server);
        let stop = json!({"jobs": [job], "grace_s": 0.2});
        let reply = client.call("stop_jobs", &stop).ok();
        assert_eq!(reply.only_job()["outcome"], "stopped", "{profile}: {}", reply.0);
        assert_eq!(marker.alive(), Vec::<i32>::new(), "{profile}: a stop is verified");
    }
}

#[test]
fn processes_that_outlive_their_leader_still_belong_to_the_job() {
    let marker = Marker::new();
    let mut server = start();
    let job = server.start(&format!("setsid sleep {marker} & {GATE}; exit 4"));
    marker.wait_alive();
    crash(&server);
    open_gate(&server);
    let mut client = client(&mut server);
    assert_eq!(client.wait_finished(job)["exit_code"], 4);
    assert!(marker.sleeping() > 0, "nobody asked to stop it");
    client.call("stop_jobs", &json!({"jobs": [job], "grace_s": 0})).ok();
    marker.wait_gone();
}

#[test]
fn a_survivor_that_ends_while_the_server_hears_nothing_is_noticed_by_the_next() {
    let marker = Marker::new();
    let mut server = start();
    let job = server.start(&format!("setsid sleep {marker} & {GATE}; exit 4"));
    marker.wait_alive();
    open_gate(&server);
    assert_eq!(server.wait_finished(job)["exit_code"], 4);
    let surviving = "shellyard_jobs_surviving";
    eventually("it survives", || server.metric(surviving) == 1.0);
    let before = server.server_pid();
    let inner = i32::try_from(before).expect("a pid fits");
    signal(inner, Signal::STOP);
    marker.alive().into_iter().for_each(|pid| signal(pid, Signal::KILL));
    marker.wait_gone();
    signal(inner, Signal::KILL);
    eventually("another server is there", || server.server_pid() != before);
    assert_eq!(client(&mut server).wait_finished(job)["exit_code"], 4);
    eventually("nothing of it is left", || server.metric(surviving) == 0.0);
}

#[test]
fn sandboxed_jobs_survive_and_stay_sandboxed() {
    for profile in ["workspace-write", "read-only"] {
        let mut server = start();
        // A gate that the job can see in its namespaces: its input.
        let command = "read line; touch /etc/shellyard-escaped 2>/dev/null && echo escaped; \
                       echo \"got $line\"; exit 9";
        let job = submit(&mut server, json!({"command": command, "confinement": profile}));
        server.wait_running(job);
        crash(&server);
        let mut client = client(&mut server);
        let input = json!({"job": job, "text": "hello\n", "eof": true, "wait_s": 0});
        client.call("send_input", &input).ok();
        assert_eq!(client.wait_finished(job)["exit_code"], 9, "{profile}");
        assert_eq!(client.read_all(job).1, b"got hello\n", "{profile}");
    }
}

#[test]
fn a_terminal_survives_with_its_input_and_its_size() {
    let mut server = start();
    let command = "stty size; printf 'name? '; read name; echo \"hello $name\"; stty size; exit 6";
    let job = submit(&mut server, json!({"command": command, "tty": true}));
    eventually("it asks", || {
        let page = server.read_raw(job, "bytes:0", 1000);
        crate::harness::bytes_of(&page).ends_with(b"name? ")
    });
    crash(&server);
    let mut client = client(&mut server);
    client.call("send_input", &json!({"job": job, "text": "you\n", "wait_s": 0})).ok();
    assert_eq!(client.wait_finished(job)["exit_code"], 6);
    let text = String::from_utf8_lossy(&client.read_all(job).1).replace('\r', "");
    let lines: Vec<&str> = text.lines().collect();
    assert!(text.contains("hello you"), "{text}");
    assert_eq!(lines.first(), lines.last(), "the size is the same: {text}");
}

#[test]
fn a_terminal_that_was_silent_at_a_crash_claims_no_loss() {
    let masked = "[redact]\nat_write = true\n";
    for config in ["", masked] {
        let mut server = Launch::http().structured().config(config).start();
        let command = format!("echo before; {GATE}; echo after; exit 7");
        let job = submit(&mut server, json!({"command": command, "tty": true}));
        server.wait_written(job, 8);
        let mut client = client(&mut server);
        for _ in 0..5 {
            crash(&server);
            let (page, bytes) = client.read_all(job);
            assert_eq!(bytes, b"before\r\n", "{page}");
            assert_eq!((&page["gap_bytes"], &page["dropped_bytes"]), (&Value::Null, &Value::Null));
        }
        open_gate(&server);
        assert_eq!(client.wait_finished(job)["exit_code"], 7);
        let (page, bytes) = client.read_all(job);
        assert_eq!(bytes, b"before\r\nafter\r\n", "{page}");
        assert_eq!((&page["gap_bytes"], &page["dropped_bytes"]), (&Value::Null, &Value::Null));
    }
}

#[test]
fn an_open_input_stays_open_until_it_is_closed() {
    let mut server = start();
    let job = server.start("cat; echo end");
    server.wait_running(job);
    let send = |client: &mut DurableClient, text: &str, eof: bool| {
        let input = json!({"job": job, "text": text, "eof": eof, "wait_s": 0});
        client.call("send_input", &input).ok();
    };
    let mut client = client(&mut server);
    send(&mut client, "one\n", false);
    server.wait_written(job, 4);
    crash(&server);
    send(&mut client, "two\n", false);
    eventually("it is read", || client.read_all(job).1 == b"one\ntwo\n");
    assert_eq!(client.status(job)["state"], "running", "nobody has closed it");
    crash(&server);
    send(&mut client, "three\n", true);
    assert_eq!(client.wait_finished(job)["exit_code"], 0);
    assert_eq!(client.read_all(job).1, b"one\ntwo\nthree\nend\n");
}

#[test]
fn separate_streams_stay_separate() {
    let mut server = start();
    let command =
        format!("echo o1; sleep 0.2; echo e1 >&2; {GATE}; echo o2; sleep 0.2; echo e2 >&2");
    let job = submit(&mut server, json!({"command": command, "streams": "separate"}));
    server.wait_written(job, 6);
    crash(&server);
    open_gate(&server);
    let mut client = client(&mut server);
    client.wait_finished(job);
    for (stream, expected) in [("stdout", "o1\no2\n"), ("stderr", "e1\ne2\n")] {
        let arguments = json!({"job": job, "stream": stream, "cursor": "bytes:0"});
        let reply = client.call("read_output", &arguments).ok();
        assert_eq!(reply[stream], expected, "{}", reply.0);
    }
}

#[test]
fn a_retry_with_the_same_key_finds_the_job_after_a_crash() {
    let mut server = start();
    let arguments =
        json!({"command": format!("{GATE}; echo once >> ran"), "key": "k", "wait_s": 0});
    let mut client = client(&mut server);
    let first = client.call("run_command", &arguments).ok().job();
    crash(&server);
    assert_eq!(client.call("run_command", &arguments).ok().job(), first);
    open_gate(&server);
    client.wait_finished(first);
    crash(&server);
    assert_eq!(client.call("run_command", &arguments).ok().job(), first, "finished or not");
    let ran = fs::read_to_string(server.work().join("ran")).expect("it ran");
    assert_eq!(ran, "once\n");
}

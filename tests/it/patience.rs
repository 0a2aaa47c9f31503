//! `wait_jobs` for more than an end: a port, quiet; and what is said to whoever waits in vain.

use std::fs;
use std::net::{TcpListener, TcpStream};

use serde_json::json;

use crate::harness::{Launch, Marker, TestServer, eventually, free_port};

/// A job that ends when the file `gate` is there.
const GATED: &str = "while [ ! -e gate ]; do sleep 0.05; done; exit 7";

fn open_gate(server: &TestServer) {
    fs::write(server.work().join("gate"), "").expect("the gate opens");
}

#[test]
fn a_port_that_begins_to_listen_ends_the_wait() {
    let marker = Marker::new();
    let port = free_port();
    let mut server = Launch::stdio().structured().start();
    let job = server.start(&format!("sleep {marker}"));
    server.wait_running(job);
    let wait = json!({"jobs": [job], "mode": "all", "port": port, "wait_s": 45});
    let id = server.begin("wait_jobs", wait.clone());
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let reply = server.finish(id).ok();
    assert_eq!((&reply["port"], &reply["listening"]), (&json!(port), &json!(true)), "{}", reply.0);
    assert_eq!(reply.only_job()["state"], "running");
    let again = server.call("wait_jobs", wait).ok();
    assert_eq!(again.verdict(), format!("port {port} listens already, whoever holds it"));
    drop(listener);
    // Another test may start a process, which has a copy until it runs its program.
    eventually("it listens no longer", || TcpStream::connect(("127.0.0.1", port)).is_err());
    let none = server.call("wait_jobs", json!({"jobs": [job], "port": port, "wait_s": 0})).ok();
    assert_eq!(
        (&none["listening"], none.verdict()),
        (&json!(false), format!("port {port} does not listen"))
    );
}

#[test]
fn a_job_that_ends_is_not_waited_for_because_of_its_port() {
    let mut server = Launch::stdio().start();
    let port = free_port();
    let job = server.start("echo no server today; exit 3");
    // The reply to the start may have shown the line.
    let wait = json!({"jobs": [job], "port": port, "wait_s": 45, "cursor": "bytes:0"});
    let text = server.call("wait_jobs", wait).ok().text();
    assert!(text.starts_with(&format!("port {port} does not listen\nexit 3")), "{text}");
    assert!(text.contains("no server today"), "{text}");
}

#[test]
fn quiet_is_noticed_and_its_output_shown() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let job = server.start(&format!("echo ready; sleep {marker}"));
    server.wait_written(job, 6);
    // The reply to the start may have shown the line.
    let wait = json!({"jobs": [job], "quiet_s": 1, "wait_s": 45, "cursor": "bytes:0"});
    let reply = server.call("wait_jobs", wait).ok();
    let seen = reply.only_job();
    assert_eq!((&seen["quiet"], &seen["state"]), (&json!(true), &json!("running")), "{seen}");
    assert_eq!(seen["output"], "ready\n");
}

#[test]
fn a_job_that_goes_on_writing_is_not_quiet() {
    let mut server = Launch::stdio().structured().start();
    let job = server.start("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.2; done; exit 5");
    let reply = server.call("wait_jobs", json!({"jobs": [job], "quiet_s": 30, "wait_s": 45})).ok();
    let seen = reply.only_job();
    assert_eq!((&seen["exit_code"], seen.get("quiet")), (&json!(5), None), "{seen}");
}

#[test]
fn whoever_waits_in_vain_three_times_is_told_so_until_something_comes() {
    for launch in Launch::both() {
        let mut server = launch.start();
        let job = server.start(GATED);
        let mut poll = || server.call("wait_jobs", json!({"jobs": [job], "wait_s": 0})).ok().text();
        for _ in 0..2 {
            let text = poll();
            assert!(text.contains(&format!("→ wait_jobs(jobs=[{job}]) returns on exit")), "{text}");
        }
        for waits in 3..5 {
            let text = poll();
            let told = format!("→ {waits} waits in a row ended without an event: stop polling");
            assert!(text.contains(&told), "{text}");
            let next = format!("read_output(job={job}, view=\"tail\")");
            assert!(text.contains(&next), "{text}");
        }
        open_gate(&server);
        let text = server.call("wait_jobs", json!({"jobs": [job], "wait_s": 45})).ok().text();
        assert!(text.starts_with("exit 7") && !text.contains("in a row"), "{text}");
    }
}

#[test]
fn a_wait_that_is_longer_than_the_client_bears_comes_back_and_says_so() {
    let marker = Marker::new();
    let config = "[mcp]\nwait_s = 1\nmax_wait_s = 1\n";
    let mut server = Launch::stdio().config(config).start();
    let job = server.start(&format!("sleep {marker}"));
    let text = server.call("wait_jobs", json!({"jobs": [job], "wait_s": 900})).ok().text();
    let told = format!(
        "→ wait_s=900 was cut to 1s, because a call may take 1s (mcp.max_wait_s); \
         wait_jobs(jobs=[{job}])"
    );
    assert!(text.contains(&told), "{text}");
}

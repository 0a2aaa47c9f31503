//! Slots count jobs that use the machine: idle jobs give theirs back, and are never stopped for it.

use serde_json::json;

use crate::harness::{Launch, Marker, TestServer, eventually};

fn start(launch: Launch, slots: usize) -> TestServer {
    launch.config(&format!("[queue]\nslots = {slots}\n")).env("SHELLYARD_QUEUE_IDLE_S", "3").start()
}

/// Busy also on a machine that has little time for each process.
const BUSY: &str = "for loop in 1 2 3 4; do (while :; do :; done) & done; wait";

#[test]
fn a_command_runs_beside_idle_jobs_that_took_every_slot() {
    let marker = Marker::new();
    let mut server = start(Launch::stdio().structured(), 2);
    let idle: Vec<u64> = (0..4).map(|_| server.start(&format!("sleep {marker}"))).collect();
    let reply = server.call("run_command", json!({"command": "echo through", "wait_s": 40})).ok();
    assert_eq!(
        (&reply["state"], &reply["exit_code"]),
        (&json!("finished"), &json!(0)),
        "{reply:?}"
    );
    for job in idle {
        let reply = server.call("wait_jobs", json!({"jobs": [job], "wait_s": 40, "port": 1})).ok();
        assert_eq!(reply["jobs"][0]["state"], "running", "it was not stopped: {reply:?}");
    }
}

#[test]
fn a_job_that_works_keeps_its_slot() {
    let mut server = start(Launch::stdio().structured(), 1);
    server.start(BUSY);
    let reply = server.call("run_command", json!({"command": "echo late", "wait_s": 4})).ok();
    assert_eq!(reply["state"], "queued", "{reply:?}");
}

#[test]
fn a_job_that_works_again_takes_a_slot_again() {
    let mut server = start(Launch::http().structured(), 1);
    let first = server.start(&format!("until [ -e go ]; do sleep 0.2; done; {BUSY}"));
    eventually("the job is idle", || server.metric("shellyard_jobs_idle") == 1.0);
    assert_eq!(server.metric("shellyard_jobs_busy"), 0.0);
    std::fs::write(server.work().join("go"), "").expect("a file of ours");
    eventually("the job is busy again", || server.metric("shellyard_jobs_busy") == 1.0);
    let reply = server.call("run_command", json!({"command": "echo late", "wait_s": 2})).ok();
    assert_eq!(reply["state"], "queued", "{reply:?}");
    server.call("stop_jobs", json!({"jobs": [first], "grace_s": 0})).ok();
}

#[test]
fn a_call_that_waits_starts_before_background_jobs_that_came_first() {
    let config = "[queue]\nslots = 1\n";
    let mut server = Launch::stdio().structured().config(config).start();
    server.start("until [ -e go ]; do sleep 0.05; done");
    for number in 0..3 {
        server.start(&format!("echo background {number} >> order"));
    }
    let call = server.begin("run_command", json!({"command": "cat order; true", "wait_s": 40}));
    eventually("all of them wait", || {
        let list = server.call("list_jobs", json!({"state": "queued"})).ok();
        list["jobs"].as_array().is_some_and(|jobs| jobs.len() == 4)
    });
    std::fs::write(server.work().join("go"), "").expect("a file of ours");
    let reply = server.finish(call).ok();
    let output = reply["output"].as_str().expect("text");
    assert!(!output.contains("background"), "the call came first: {output}");
}

#[test]
fn an_idle_job_that_holds_the_slot_of_a_lane_is_named_as_idle() {
    let marker = Marker::new();
    let config = "[queue]\nslots = 4\n[queue.lanes]\nbuild = 1\n";
    let launch = Launch::http().args(&["--result-format", "both"]).config(config);
    let mut server = launch.env("SHELLYARD_QUEUE_IDLE_S", "3").start();
    let command = format!("sleep {marker}");
    server.call("run_command", json!({"command": command, "lane": "build", "wait_s": 0})).ok();
    eventually("the job is idle", || server.metric("shellyard_jobs_idle") == 1.0);
    let reply =
        server.call("run_command", json!({"command": "echo", "lane": "build", "wait_s": 0.1})).ok();
    let verdict = reply.verdict();
    assert!(verdict.contains(&format!("held by job 1 \"{command}\" (")), "{verdict}");
    assert!(verdict.contains(", idle)"), "{verdict}");
    assert_eq!(reply["held_by"][0]["job"], 1, "{reply:?}");
    assert_eq!(reply["held_by"][0]["idle"], true, "{reply:?}");
}

#[test]
fn slots_stay_taken_if_the_setting_says_so() {
    let marker = Marker::new();
    let mut server =
        Launch::stdio().structured().config("[queue]\nslots = 1\nidle_s = 0\n").start();
    server.start(&format!("sleep {marker}"));
    let reply = server.call("run_command", json!({"command": "echo late", "wait_s": 4})).ok();
    assert_eq!(reply["state"], "queued", "{reply:?}");
}

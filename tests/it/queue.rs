//! Slots, the queue, lanes, and that nothing runs twice.

use std::fs;

use serde_json::json;

use crate::harness::{Launch, Marker, Yard, eventually};

const ONE_SLOT: &str = "[queue]\nslots = 1\nmax_queued = 2\n";

/// A yard whose only slot is taken.
fn busy_yard(launch: Launch, marker: &Marker) -> (Yard, u64) {
    let mut yard = launch.config(ONE_SLOT).start();
    let holder = yard.start(&format!("sleep {marker}"));
    marker.wait_alive();
    (yard, holder)
}

#[test]
fn a_queued_job_knows_its_position_and_why_it_waits() {
    let marker = Marker::new();
    let (mut yard, _) = busy_yard(Launch::stdio(), &marker);
    yard.start("echo first in line");
    let arguments = json!({"command": "echo second in line", "wait_s": 0});
    let verdict = yard.call("run_command", arguments).ok().verdict();
    assert!(verdict.starts_with("queued · position 2 of 2 · job 3"), "{verdict}");
    assert!(verdict.contains("1/1 slots busy"), "{verdict}");
}

#[test]
fn a_freed_slot_starts_the_jobs_in_order() {
    let marker = Marker::new();
    let (mut yard, holder) = busy_yard(Launch::stdio().structured(), &marker);
    let first = yard.call("run_command", json!({"command": "echo 1 >> order", "wait_s": 0})).ok();
    assert_eq!(first["state"], "queued");
    assert_eq!(first["queue_position"], 1);
    let second = yard.start("echo 2 >> order");
    yard.call("stop_jobs", json!({"jobs": [holder]})).ok();
    assert_eq!(yard.wait_finished(second)["exit_code"], 0);
    let order = fs::read_to_string(yard.work().join("order")).expect("both ran");
    assert_eq!(order, "1\n2\n");
}

#[test]
fn a_full_queue_refuses_and_says_what_to_do() {
    let marker = Marker::new();
    let (mut yard, holder) = busy_yard(Launch::stdio().structured(), &marker);
    let waiting = [yard.start("echo a"), yard.start("echo b")];
    let refused = yard.call("run_command", json!({"command": "touch never", "wait_s": 0}));
    let text = refused.error_text();
    assert!(text.contains("queue") && text.contains('2'), "{text}");
    yard.call("stop_jobs", json!({"jobs": [holder]})).ok();
    for job in waiting {
        assert_eq!(yard.wait_finished(job)["exit_code"], 0);
    }
    assert!(!yard.work().join("never").exists(), "what was refused never ran");
}

#[test]
fn a_queued_job_that_is_stopped_never_runs() {
    let marker = Marker::new();
    let (mut yard, holder) = busy_yard(Launch::stdio().structured(), &marker);
    let job = yard.start("touch never");
    yard.call("stop_jobs", json!({"jobs": [job]})).ok();
    assert_eq!(yard.wait_finished(job)["outcome"], "stopped");
    yard.call("stop_jobs", json!({"jobs": [holder]})).ok();
    yard.assert_alive();
    assert!(!yard.work().join("never").exists());
}

#[test]
fn a_survivor_in_the_background_does_not_hold_the_slot() {
    let marker = Marker::new();
    let mut yard = Launch::stdio().structured().config(ONE_SLOT).start();
    yard.run(&format!("setsid sleep {marker} & echo done"));
    assert_eq!(yard.run("echo next")["output"], "next\n");
}

#[test]
fn a_lane_has_slots_of_its_own() {
    let marker = Marker::new();
    let config = "[queue]\nslots = 8\n[queue.lanes]\nbuild = 1\n";
    let mut yard = Launch::stdio().structured().config(config).start();
    let build = |command: String| json!({"command": command, "lane": "build", "wait_s": 0});
    yard.call("run_command", build(format!("sleep {marker}"))).ok();
    marker.wait_alive();
    let second = yard.call("run_command", build("echo built".into())).ok();
    assert_eq!(second["state"], "queued", "{}", second.0);
    assert_eq!(yard.run("echo free")["output"], "free\n");
    let unknown = yard.call("run_command", json!({"command": "true", "lane": "biuld"}));
    let text = unknown.error_text();
    assert!(text.contains("biuld") && text.contains("build"), "{text}");
}

#[test]
fn a_key_makes_a_retry_run_nothing() {
    for launch in Launch::both() {
        let mut yard = launch.structured().start();
        let arguments = json!({"command": "echo ran >> runs; echo out", "key": "retry-1"});
        let first = yard.call("run_command", arguments.clone()).ok();
        let again = yard.call("run_command", arguments).ok();
        assert_eq!(again["job"], first["job"]);
        assert_eq!(again["output"], "out\n");
        let runs = fs::read_to_string(yard.work().join("runs")).expect("it ran");
        assert_eq!(runs, "ran\n");
        let other = yard.call("run_command", json!({"command": "true", "key": "retry-2"})).ok();
        assert_ne!(other["job"], first["job"]);
    }
}

#[test]
fn a_key_in_parallel_runs_once() {
    let mut yard = Launch::stdio().structured().start();
    let arguments = json!({"command": "echo ran >> runs; sleep 0.3", "key": "same"});
    let ids: Vec<u64> = (0..10).map(|_| yard.begin("run_command", arguments.clone())).collect();
    let jobs: Vec<u64> = ids.into_iter().map(|id| yard.finish(id).ok().job()).collect();
    assert!(jobs.iter().all(|job| *job == jobs[0]), "{jobs:?}");
    let runs = fs::read_to_string(yard.work().join("runs")).expect("it ran");
    assert_eq!(runs, "ran\n");
}

#[test]
fn finished_jobs_beyond_the_bound_are_forgotten_oldest_first() {
    let mut yard = Launch::stdio().structured().config("[retention]\nmax_finished = 3\n").start();
    for number in 1..=6 {
        assert_eq!(yard.run("echo x").job(), number);
    }
    eventually("the oldest is forgotten", || {
        yard.call("read_output", json!({"job": 1})).is_error()
    });
    assert_eq!(yard.call("read_output", json!({"job": 6})).ok()["output"], "x\n");
}

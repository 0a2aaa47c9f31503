//! Slots, the queue, lanes, and that nothing runs twice.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Launch, Marker, Reply, TestServer, eventually};

const ONE_SLOT: &str = "[queue]\nslots = 1\nmax_queued = 2\n";

/// A server whose only slot is taken.
fn busy_server(launch: Launch, marker: &Marker) -> (TestServer, u64) {
    let mut server = launch.config(ONE_SLOT).start();
    let holder = server.start(&format!("sleep {marker}"));
    marker.wait_alive();
    (server, holder)
}

#[test]
fn a_queued_job_knows_its_position_and_why_it_waits() {
    let marker = Marker::new();
    let (mut server, _) = busy_server(Launch::stdio(), &marker);
    server.start("echo first in line");
    let arguments = json!({"command": "echo second in line", "wait_s": 0});
    let verdict = server.call("run_command", arguments).ok().verdict();
    assert!(verdict.starts_with("queued · position 2 of 2 · job 3"), "{verdict}");
    assert!(verdict.contains("1/1 slots busy"), "{verdict}");
}

#[test]
fn a_freed_slot_starts_the_jobs_in_order() {
    let marker = Marker::new();
    let (mut server, holder) = busy_server(Launch::stdio().structured(), &marker);
    let first = server.call("run_command", json!({"command": "echo 1 >> order", "wait_s": 0})).ok();
    assert_eq!(first["state"], "queued");
    assert_eq!(first["queue_position"], 1);
    let second = server.start("echo 2 >> order");
    server.call("stop_jobs", json!({"jobs": [holder]})).ok();
    assert_eq!(server.wait_finished(second)["exit_code"], 0);
    let order = fs::read_to_string(server.work().join("order")).expect("both ran");
    assert_eq!(order, "1\n2\n");
}

#[test]
fn a_full_queue_refuses_and_says_what_to_do() {
    let marker = Marker::new();
    let (mut server, holder) = busy_server(Launch::stdio().structured(), &marker);
    let waiting = [server.start("echo a"), server.start("echo b")];
    let refused = server.call("run_command", json!({"command": "touch never", "wait_s": 0}));
    let text = refused.error_text();
    assert!(text.contains("the queue is full (queue.max_queued)"), "{text}");
    server.call("stop_jobs", json!({"jobs": [holder]})).ok();
    for job in waiting {
        assert_eq!(server.wait_finished(job)["exit_code"], 0);
    }
    assert!(!server.work().join("never").exists(), "what was refused never ran");
}

#[test]
fn a_queued_job_that_is_stopped_never_runs() {
    let marker = Marker::new();
    let (mut server, holder) = busy_server(Launch::stdio().structured(), &marker);
    let job = server.start("touch never");
    server.call("stop_jobs", json!({"jobs": [job]})).ok();
    assert_eq!(server.wait_finished(job)["outcome"], "stopped");
    server.call("stop_jobs", json!({"jobs": [holder]})).ok();
    server.assert_alive();
    assert!(!server.work().join("never").exists());
}

#[test]
fn a_survivor_in_the_background_does_not_hold_the_slot() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().config(ONE_SLOT).start();
    server.run(&format!("setsid sleep {marker} & echo done"));
    assert_eq!(server.run("echo next")["output"], "next\n");
}

#[test]
fn a_lane_has_slots_of_its_own() {
    let marker = Marker::new();
    let config = "[queue]\nslots = 8\n[queue.lanes]\nbuild = 1\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let build = |command: String| json!({"command": command, "lane": "build", "wait_s": 0});
    server.call("run_command", build(format!("sleep {marker}"))).ok();
    marker.wait_alive();
    let second = server.call("run_command", build("echo built".into())).ok();
    assert_eq!(second["state"], "queued", "{}", second.0);
    assert_eq!(server.run("echo free")["output"], "free\n");
    let unknown = server.call("run_command", json!({"command": "true", "lane": "biuld"}));
    let text = unknown.error_text();
    assert!(text.contains("biuld") && text.contains("build"), "{text}");
}

#[test]
fn a_key_makes_a_retry_run_nothing() {
    for launch in Launch::both() {
        let mut server = launch.structured().start();
        let arguments = json!({"command": "echo ran >> runs; echo out", "key": "retry-1"});
        let first = server.call("run_command", arguments.clone()).ok();
        let again = server.call("run_command", arguments).ok();
        assert_eq!(again["job"], first["job"]);
        assert_eq!(again["output"], "out\n");
        let runs = fs::read_to_string(server.work().join("runs")).expect("it ran");
        assert_eq!(runs, "ran\n");
        let other = server.call("run_command", json!({"command": "true", "key": "retry-2"})).ok();
        assert_ne!(other["job"], first["job"]);
    }
}

#[test]
fn a_key_in_parallel_runs_once() {
    let mut server = Launch::stdio().structured().start();
    let arguments = json!({"command": "echo ran >> runs; sleep 0.3", "key": "same"});
    let ids: Vec<u64> = (0..10).map(|_| server.begin("run_command", arguments.clone())).collect();
    let jobs: Vec<u64> = ids.into_iter().map(|id| server.finish(id).ok().job()).collect();
    assert!(jobs.iter().all(|job| *job == jobs[0]), "{jobs:?}");
    let runs = fs::read_to_string(server.work().join("runs")).expect("it ran");
    assert_eq!(runs, "ran\n");
}

#[test]
fn finished_jobs_beyond_the_bound_are_forgotten_oldest_first() {
    let mut server = Launch::stdio().structured().config("[retention]\nmax_finished = 3\n").start();
    for number in 1..=6 {
        assert_eq!(server.run("echo x").job(), number);
    }
    eventually("the oldest is forgotten", || {
        server.call("read_output", json!({"job": 1})).is_error()
    });
    assert_eq!(server.call("read_output", json!({"job": 6})).ok()["output"], "x\n");
}

/// Submits a job in the background that writes a word to the file `order`.
fn note(server: &mut TestServer, word: &str, mut wish: Value) -> u64 {
    wish["command"] = format!("echo {word} >> order").into();
    wish["wait_s"] = 0.into();
    server.call("run_command", wish).ok().job()
}

#[test]
fn a_higher_priority_comes_first_and_a_lane_may_set_it() {
    let marker = Marker::new();
    let config = "[queue]\nslots = 1\n[queue.lanes.urgent]\npriority = \"high\"\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let holder = server.start(&format!("sleep {marker}"));
    marker.wait_alive();
    let jobs = [
        note(&mut server, "low", json!({"priority": "low"})),
        note(&mut server, "normal", json!({})),
        note(&mut server, "high", json!({"priority": "high"})),
        note(&mut server, "urgent", json!({"lane": "urgent"})),
        note(&mut server, "calm", json!({"lane": "urgent", "priority": "low"})),
    ];
    server.call("stop_jobs", json!({"jobs": [holder]})).ok();
    for job in jobs {
        assert_eq!(server.wait_finished(job)["exit_code"], 0);
    }
    let order = fs::read_to_string(server.work().join("order")).expect("all ran");
    assert_eq!(
        order.split_whitespace().collect::<Vec<_>>(),
        "high urgent normal low calm".split(' ').collect::<Vec<_>>()
    );
    let odd = server.call("run_command", json!({"command": "true", "priority": "urgent"}));
    assert!(odd.error_text().contains("low, normal, high"), "{}", odd.text());
}

#[test]
fn a_lane_has_a_deadline_of_its_own() {
    let config = "[queue.lanes.build]\ntimeout_s = 0.2\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let build = |command: &str| json!({"command": command, "lane": "build"});
    let ended = server.call("run_command", build("sleep 300")).ok();
    assert_eq!(ended["outcome"], "timed_out", "{}", ended.0);
    let mut asked = build("sleep 0.4");
    asked["timeout_s"] = 60.into();
    assert_eq!(server.call("run_command", asked).ok()["outcome"], "exited");
}

#[test]
fn a_waiting_job_tells_lane_reason_and_estimate() {
    let marker = Marker::new();
    let config = "[queue]\nslots = 4\n[queue.lanes.build]\nslots = 1\n";
    for (launch, is_structured) in [(Launch::stdio().structured(), true), (Launch::http(), false)] {
        let mut server = launch.config(config).start();
        let build = |command: &str| json!({"command": command, "lane": "build", "wait_s": 0});
        let first =
            server.call("run_command", json!({"command": "sleep 0.3", "lane": "build"})).ok();
        assert!(!first.is_error());
        let holder = server.call("run_command", build(&format!("sleep {marker}"))).ok().job();
        marker.wait_alive();
        let second = server.call("run_command", build("true")).ok();
        let third = server.call("run_command", build("true")).ok();
        if is_structured {
            assert_eq!(
                (&second["queue_position"], &third["queue_position"]),
                (&json!(1), &json!(2))
            );
            assert_eq!((&third["queue_length"], &third["lane"]), (&json!(2), &json!("build")));
            assert_eq!(third["waits_for"], "lane build: 1/1 busy");
            let estimate = third["estimated_start_ms"].as_u64().expect("one job has run");
            // Not quite twice as long: a job may be at work before it is seen to be.
            assert!(estimate >= 300 + 300 / 2, "two jobs are before it: {estimate}");
        } else {
            let verdict = third.verdict();
            let place =
                "queued · position 2 of 2 in lane build · job 4 · lane build: 1/1 busy · in about ";
            assert!(verdict.starts_with(place), "{verdict}");
            let listed = server.call("list_jobs", json!({"state": "queued"})).ok().text();
            let line =
                "4 queued · position 2 of 2 in lane build · lane build: 1/1 busy · in about ";
            assert!(listed.contains(line), "{listed}");
        }
        server.call("stop_jobs", json!({"jobs": [holder]})).ok();
        eventually("all of them ran", || {
            server.call("list_jobs", json!({})).ok().verdict().contains("0 queued")
        });
        marker.wait_gone();
    }
}

/// A command that must be refused with this code, in either form of an answer.
#[track_caller]
fn refused(server: &mut TestServer, arguments: Value, code: &str) -> Reply {
    let reply = server.call("run_command", arguments);
    let text = reply.error_text();
    assert!(text.starts_with("refused, nothing was run: "), "{text}");
    assert_eq!((&reply["error_code"], &reply["outcome"]), (&json!(code), &json!("refused")));
    reply
}

const NEVER: &str = "touch never";

#[test]
fn every_bound_on_waiting_has_its_refusal() {
    let marker = Marker::new();
    let config = "[queue]\nslots = 1\nmax_queued = 4\n[queue.lanes.build]\nmax_queued = 1\n\
                  [tenants.local]\nmax_queued = 3\n";
    let mut server = Launch::stdio().structured().config(config).start();
    server.run("sleep 0.1");
    server.start(&format!("sleep {marker}"));
    marker.wait_alive();
    let build = |command: &str| json!({"command": command, "lane": "build", "wait_s": 0});
    server.call("run_command", build("true")).ok();
    let of_lane = refused(&mut server, build(NEVER), "queue_full");
    let text = of_lane.error_text();
    assert!(text.contains("lane build is full (queue.lanes.build.max_queued)"), "{text}");
    assert!(text.contains("; try again in about "), "{text}");
    assert!(of_lane["retry_after_ms"].as_u64() > Some(0), "{}", of_lane.0);
    server.start("true");
    server.start("true");
    let own = refused(&mut server, json!({"command": NEVER}), "tenant_limit");
    let text = own.error_text();
    assert!(text.contains("3 of your jobs wait already"), "{text}");
    assert_eq!(server.call("list_jobs", json!({})).ok()["jobs"].as_array().map(Vec::len), Some(5));
    assert!(!server.work().join("never").exists());
}

#[test]
fn a_full_queue_without_any_experience_still_says_when_to_come_back() {
    let marker = Marker::new();
    let (mut server, _) = busy_server(Launch::stdio().structured(), &marker);
    server.start("true");
    server.start("true");
    let full = refused(&mut server, json!({"command": NEVER}), "queue_full");
    assert!(full.error_text().ends_with("; try again in about 5s [queue_full]"), "{}", full.text());
    assert_eq!(full["retry_after_ms"], 5000, "{}", full.0);
}

#[test]
fn a_tenant_runs_no_more_than_its_limit() {
    let marker = Marker::new();
    let config = "[queue]\nslots = 8\n[quota]\nmax_running = 5\n[tenants.local]\nmax_running = 1\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let holder = server.start(&format!("sleep {marker}"));
    marker.wait_alive();
    let second = server.call("run_command", json!({"command": "true", "wait_s": 0})).ok();
    assert_eq!(second["waits_for"], "tenant limit 1");
    server.call("stop_jobs", json!({"jobs": [holder]})).ok();
    assert_eq!(server.wait_finished(second.job())["exit_code"], 0);
}

#[test]
fn starts_in_a_minute_are_counted() {
    for launch in Launch::both() {
        let config = "[tenants.local]\nstarts_per_minute = 3\n";
        let mut server = launch.structured().config(config).start();
        let keyed = json!({"command": "true", "key": "one"});
        for _ in 0..3 {
            server.call("run_command", keyed.clone()).ok();
        }
        server.run("true");
        server.call("run_command", json!({"command": "true", "lane": "nowhere"})).error_text();
        server.run("true");
        let refused = refused(&mut server, json!({"command": NEVER}), "rate_limited");
        let text = refused.error_text();
        assert!(text.contains("at most 3 a minute") && text.contains("try again in"), "{text}");
        let wait = refused["retry_after_ms"].as_u64().expect("it is known exactly");
        assert!((1..=20_000).contains(&wait), "{wait}");
        server.call("run_command", keyed).ok();
        assert!(!server.work().join("never").exists());
    }
}

/// Uses two seconds of CPU time and is then killed by the system.
const TWO_CPU_SECONDS: &str = "ulimit -t 2; while :; do :; done";

#[test]
fn cpu_time_in_an_hour_is_bounded() {
    let config = "[quota]\ncpu_s_per_hour = 1\n";
    let mut server = Launch::stdio().structured().config(config).start();
    server.run("true");
    server.run(TWO_CPU_SECONDS);
    let run = json!({"command": "true"});
    eventually("its end is charged", || server.call("run_command", run.clone()).is_error());
    let refused = refused(&mut server, run, "tenant_limit");
    let text = refused.error_text();
    assert!(text.contains("of CPU time within an hour, your limit is 1s"), "{text}");
    assert!(text.ends_with(" minutes [tenant_limit]"), "{text}");
    let wait = refused["retry_after_ms"].as_u64().expect("the window is known");
    assert!((3_000_000..=3_600_000).contains(&wait), "{wait}");
}

#[test]
fn cpu_time_counts_while_a_job_runs() {
    let config = "[tenants.local]\ncpu_s_per_hour = 1\n";
    let mut server = Launch::stdio().structured().config(config).start();
    let busy = server.start("while :; do :; done");
    let run = json!({"command": "true"});
    eventually("a look finds it", || server.call("run_command", run.clone()).is_error());
    refused(&mut server, run, "tenant_limit");
    assert_eq!(
        server.call("wait_jobs", json!({"jobs": [busy], "wait_s": 0})).ok().only_job()["state"],
        "running"
    );
}

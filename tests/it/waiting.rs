//! Calls that take long: progress, cancellation, waiting for several jobs.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Era, Launch, Marker, TestServer, eventually, eventually_some};

const PROGRESS: Duration = Duration::from_millis(200);
const QUICK_PROGRESS: &str = "[mcp]\nprogress_s = 0.2\n";

fn is_progress(message: &Value) -> bool {
    message["method"] == "notifications/progress"
}

/// The parameters of a call that wants progress.
fn with_token(command: &str) -> Value {
    json!({
        "name": "run_command",
        "arguments": {"command": command},
        "_meta": {"progressToken": "tok-1"},
    })
}

#[test]
fn progress_tells_the_last_line_and_stops_with_the_result() {
    for era in [Era::Legacy("2025-11-25"), Era::Modern] {
        let mut server = Launch::stdio().era(era).config(QUICK_PROGRESS).start();
        let id = server.begin_with(with_token(
            "echo step one; while [ ! -e gate ]; do sleep 0.05; done; echo step two",
        ));
        let told = |message: &Value| {
            let text = message["params"]["message"].as_str().unwrap_or_default();
            is_progress(message) && text.contains("step one")
        };
        let first = server.stdio().receive("progress with the last line", told);
        assert_eq!(first["params"]["progressToken"], "tok-1");
        let second = server.stdio().receive("more progress", told);
        assert!(number(&second) > number(&first), "{first} then {second}");
        fs::write(server.work().join("gate"), "").expect("the gate opens");
        let text = server.finish(id).ok().text();
        assert!(text.contains("step two"), "{text}");
        server.stdio().forget_earlier();
        thread::sleep(3 * PROGRESS);
        let late = server.stdio().take_all();
        assert!(!late.iter().any(is_progress), "progress after the result: {late:?}");
    }
}

fn number(progress: &Value) -> f64 {
    progress["params"]["progress"].as_f64().expect("a number")
}

#[test]
fn progress_comes_on_the_response_stream_over_http() {
    for era in [Era::Legacy("2025-11-25"), Era::Modern] {
        let mut server = Launch::http().era(era).config(QUICK_PROGRESS).start();
        let params =
            with_token("echo working; while [ ! -e gate ]; do sleep 0.05; done; echo over");
        let mut call = server.http().post(&era.request(7, "tools/call", params));
        let mut answer = call.answer();
        let mut next = || answer.message().expect("a message");
        let mut numbers = Vec::new();
        let mut is_told = false;
        while numbers.len() < 2 || !is_told {
            let told = next();
            assert!(is_progress(&told), "{era:?}: {told}");
            numbers.push(number(&told));
            is_told |= told.to_string().contains("working");
        }
        assert!(numbers.is_sorted_by(|earlier, later| earlier < later), "{numbers:?}");
        fs::write(server.work().join("gate"), "").expect("the gate opens");
        let mut last = next();
        while is_progress(&last) {
            last = next();
        }
        assert!(last["result"].to_string().contains("over"), "{last}");
    }
}

#[test]
fn no_progress_without_a_token() {
    let mut server = Launch::stdio().config(QUICK_PROGRESS).start();
    server.run("echo working; sleep 1");
    let messages = server.stdio().take_all();
    assert!(!messages.iter().any(is_progress), "{messages:?}");
}

#[test]
fn cancelling_a_foreground_call_ends_the_job_it_started() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let id = server.begin("run_command", json!({"command": format!("setsid sleep {marker}")}));
    marker.wait_alive();
    server.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    marker.wait_gone();
    assert_eq!(server.wait_finished(1)["outcome"], "stopped");
    server.assert_alive();
}

#[test]
fn cancelling_a_wait_leaves_the_job_alone() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let job = server.start(&format!("sleep {marker}"));
    marker.wait_alive();
    let id = server.begin("wait_jobs", json!({"jobs": [job], "wait_s": 40}));
    server.notify("notifications/cancelled", json!({"requestId": id}));
    server.assert_alive();
    assert!(!marker.alive().is_empty(), "the job runs on");
    assert_eq!(state_of(&mut server, job), "running");
}

#[test]
fn hanging_up_on_a_wait_over_http_leaves_the_job_alone() {
    let marker = Marker::new();
    let mut server = Launch::http().structured().era(Era::Modern).start();
    let job = server.start(&format!("sleep {marker}"));
    marker.wait_alive();
    let params = json!({"name": "wait_jobs", "arguments": {"jobs": [job], "wait_s": 40}});
    let connection = server.http().post(&Era::Modern.request(7, "tools/call", params));
    drop(connection);
    server.assert_alive();
    assert!(!marker.alive().is_empty(), "the job runs on");
}

#[test]
fn a_quiet_modern_http_call_shows_that_it_is_alive() {
    let marker = Marker::new();
    let mut server = Launch::http().era(Era::Modern).start();
    let params = json!({
        "name": "run_command",
        "arguments": {"command": format!("sleep {marker}"), "wait_s": 40},
    });
    let mut connection = server.http().post(&Era::Modern.request(7, "tools/call", params));
    let answer = connection.answer();
    assert_eq!(answer.status, 200);
    // The head came while the call was still busy, perhaps before its job had begun.
    marker.wait_alive();
}

#[test]
fn a_wait_that_is_over_answers_with_the_running_job() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let command = format!("echo so far; sleep {marker}");
    let reply = server.call("run_command", json!({"command": command, "wait_s": 5})).ok();
    assert_eq!(reply["state"], "running");
    assert_eq!(reply["output"], "so far\n");
    assert!(reply.structured().get("outcome").is_none(), "{}", reply.0);
    assert!(reply["next_cursor"].is_string(), "{}", reply.0);
}

#[test]
fn waiting_for_any_returns_with_the_first_and_for_all_with_the_last() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let slow = server.start(&format!("while [ ! -e gate ]; do sleep 0.05; done; : {marker}"));
    server.wait_running(slow);
    let quick = server.start("echo quick");
    let arguments = json!({"jobs": [slow, quick], "mode": "any", "wait_s": 40});
    let any = server.call("wait_jobs", arguments).ok();
    assert_eq!(states(&any["jobs"]), [(slow, "running".into()), (quick, "finished".into())]);
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    let all = eventually_some("both have finished", || {
        let arguments = json!({"jobs": [slow, quick], "mode": "all", "wait_s": 40});
        let reply = server.call("wait_jobs", arguments).ok();
        let states = states(&reply["jobs"]);
        states.iter().all(|(_, state)| state == "finished").then_some(states)
    });
    assert_eq!(all.len(), 2);
}

/// Number and state of each job in a list.
fn states(jobs: &Value) -> Vec<(u64, String)> {
    let jobs = jobs.as_array().expect("a list of jobs");
    jobs.iter()
        .map(|job| {
            let state = job["state"].as_str().expect("a state");
            (job["job"].as_u64().expect("a number"), state.to_owned())
        })
        .collect()
}

#[track_caller]
fn state_of(server: &mut TestServer, job: u64) -> Value {
    let reply = server.call("wait_jobs", json!({"jobs": [job], "wait_s": 0})).ok();
    reply.only_job()["state"].clone()
}

#[test]
fn a_line_that_came_before_the_wait_is_not_missed() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let job = server.start(&format!("echo server is ready; sleep {marker}"));
    marker.wait_alive();
    let arguments = |wait_s| json!({"jobs": [job], "until": "is ready", "wait_s": wait_s});
    let reply = server.call("wait_jobs", arguments(40)).ok();
    assert_eq!(reply.only_job()["matched_line"], 1, "{}", reply.0);
    let vain = server.call("wait_jobs", arguments(0)).ok();
    let told = "until was looked for from cursor=\"bytes:16\" on";
    assert!(vain["hint"].as_str().is_some_and(|it| it.starts_with(told)), "{}", vain.0);
}

/// A job that says that it is ready, and once more for each line that it reads.
const READY: &str = "echo ready; while read line; do echo more; echo ready; done";

#[test]
fn a_line_that_was_shown_is_not_waited_for_and_the_next_one_is() {
    for launch in Launch::both() {
        let mut server = launch.structured().start();
        let job = server.start(READY);
        let wait = |wait_s| json!({"jobs": [job], "until": "ready", "wait_s": wait_s});
        let matched = |server: &mut TestServer, wait_s| {
            server.call("wait_jobs", wait(wait_s)).ok().only_job().get("matched_line").cloned()
        };
        assert_eq!(matched(&mut server, 40), Some(json!(1)));
        let vain = server.call("wait_jobs", wait(0)).ok();
        assert_eq!(vain.only_job().get("matched_line"), None, "{}", vain.0);
        server.call("send_input", json!({"job": job, "text": "again\n"})).ok();
        assert_eq!(matched(&mut server, 40), Some(json!(3)), "it may be there before the wait");
        // What a page shows is no news either, and by a cursor all of it can be looked at.
        server.call("send_input", json!({"job": job, "text": "again\n"})).ok();
        eventually("the page shows it", || {
            let page = server.call("read_output", json!({"job": job})).ok();
            page["output"] == "ready\nmore\nready\nmore\nready\n"
        });
        assert_eq!(matched(&mut server, 0), None);
        let all = json!({"jobs": [job], "until": "ready", "cursor": "bytes:0", "wait_s": 0});
        let reply = server.call("wait_jobs", all).ok();
        assert_eq!(reply.only_job()["matched_line"], 1, "{}", reply.0);
        server.call("stop_jobs", json!({"jobs": [job]})).ok();
    }
}

//! The fields of jobs, the wait for their end, and the description of the server.

use serde_json::{Value, json};

use super::ApiCaller;
use crate::harness::{Launch, Marker, TestServer, eventually_some};

fn start() -> (TestServer, [ApiCaller; 2]) {
    let mut server = Launch::http().structured().start();
    let callers = ApiCaller::both_ways(&mut server);
    (server, callers)
}

/// A time as it is written, such as `2026-11-15T04:01:21.042Z`; such texts order as their times do.
#[track_caller]
fn time(job: &Value, name: &str) -> String {
    let text = job[name].as_str().unwrap_or_else(|| panic!("no {name}: {job}")).to_owned();
    assert!(text.len() == 24 && text.ends_with('Z') && text.as_bytes()[10] == b'T', "{text}");
    text
}

#[test]
fn a_running_job_shows_its_request_its_limits_and_its_processes() {
    let (mut server, callers) = start();
    let marker = Marker::new();
    let arguments = json!({"command": format!("sleep {marker} & wait"), "wait_s": 0, "timeout_s": 500,
        "description": "naps", "key": "k1"});
    server.call("run_command", arguments).ok();
    marker.wait_alive();
    for caller in callers {
        let (status, job) = caller.get("/jobs/1");
        assert_eq!(status, 200, "{job}");
        assert_eq!(job["directory"], server.work().to_str().expect("a path"));
        assert_eq!((&job["description"], &job["key"]), (&json!("naps"), &json!("k1")));
        assert_eq!(job["terminal"], false);
        assert!(job["client"].is_string() && job["client_version"].is_string(), "{job}");
        assert_eq!(job["limits"]["timeout_s"], 500.0);
        assert!(
            job["limits"]["output_bytes"].is_u64() && job["limits"]["cpu_s"].is_null(),
            "{job}"
        );
        assert!(time(&job, "submitted_at") <= time(&job, "started_at"));
        assert!(job["finished_at"].is_null(), "{job}");
        let processes = job["processes"].as_array().expect("a list");
        assert_eq!(processes[0]["pid"], job["pid"], "the leader is first: {job}");
        let sleeps = |process: &&Value| process["command"] == format!("sleep {marker}");
        let sleep = processes.iter().find(sleeps).unwrap_or_else(|| panic!("no sleep: {job}"));
        assert_eq!(sleep["parent_pid"], job["pid"], "{job}");
        let (_, listed) = caller.get("/jobs?state=running");
        let listed = &listed["jobs"][0];
        for name in ["pid", "directory", "started_at", "limits", "key"] {
            assert_eq!(listed[name], job[name], "{name}");
        }
        assert!(listed["processes"].is_null(), "only the single form lists processes");
    }
}

#[test]
fn a_finished_job_shows_its_times_and_no_process() {
    let (mut server, [caller, _]) = start();
    server.run("sleep 0.2");
    let (_, job) = caller.get("/jobs/1");
    assert!(time(&job, "started_at") < time(&job, "finished_at"), "{job}");
    assert!(job["pid"].is_null() && job["processes"].is_null(), "{job}");
}

#[test]
fn the_times_of_a_job_are_the_same_after_a_restart() {
    let data = crate::harness::private_dir();
    let launch = || Launch::http().structured().data(data.path());
    let mut first = launch().start();
    first.run("true");
    let before = ApiCaller::over_tcp(&mut first).get("/jobs/1").1;
    first.signal(rustix::process::Signal::TERM);
    first.wait_exit();
    let mut second = launch().start();
    let after = ApiCaller::over_tcp(&mut second).get("/jobs/1").1;
    for name in ["submitted_at", "started_at", "finished_at"] {
        // The journal rounds each of its times to milliseconds.
        let seconds = |job: &Value| time(job, name)[..20].to_owned();
        let both = [seconds(&before), seconds(&after)];
        assert!(both[0] == both[1] || name != "submitted_at", "{name}: {both:?}");
        assert!(time(&after, name) <= time(&before, "finished_at"), "{after} {before}");
    }
}

#[test]
fn a_wait_returns_when_the_job_has_finished_or_the_time_is_over() {
    let (mut server, callers) = start();
    let job = server.start("read line; exit 3");
    for caller in &callers {
        let (status, state) = caller.get(&format!("/jobs/{job}?wait_s=1"));
        assert_eq!((status, &state["state"]), (200, &json!("running")));
    }
    let waiting = callers[0].clone();
    let waiter = std::thread::spawn(move || waiting.get(&format!("/jobs/{job}?wait_s=60")).1);
    server.call("send_input", json!({"job": job, "text": "\n"})).ok();
    let state = waiter.join().expect("the wait ends");
    assert_eq!((&state["state"], &state["exit_code"]), (&json!("finished"), &json!(3)));
    for bad in ["61", "-1", "x"] {
        assert_eq!(callers[0].get(&format!("/jobs/{job}?wait_s={bad}")).0, 400, "{bad}");
    }
}

#[test]
fn the_answer_to_a_submission_does_not_contradict_itself() {
    let (_server, [caller, _]) = start();
    for _ in 0..30 {
        let (status, job) = caller.post("/jobs", &json!({"command": "echo x", "stdin": ""}));
        assert_eq!(status, 202, "{job}");
        let has = |name: &str| !job[name].is_null();
        let (is_started, is_over) = match job["state"].as_str().expect("a state") {
            "queued" => (false, false),
            "running" => (true, false),
            "finished" => (true, true),
            other => panic!("{other}: {job}"),
        };
        assert_eq!((has("started_at"), has("finished_at")), (is_started, is_over), "{job}");
        assert_eq!(has("outcome"), is_over, "{job}");
        assert!(!has("pid") || (is_started && !is_over), "{job}");
    }
}

#[test]
fn errors_speak_the_language_of_the_api() {
    let (mut server, [caller, _]) = start();
    server.run("echo merged");
    for (path, expected) in
        [("/jobs/99", "`GET /api/v1/jobs`"), ("/jobs/1/output?stream=stderr", "\"separate\"")]
    {
        let (status, error) = caller.get(path);
        let message = error["error"]["message"].as_str().expect("a message");
        assert_eq!(status, 404, "{message}");
        assert!(message.contains(expected), "{message}");
        for tool in ["list_jobs", "run_command", "tty"] {
            assert!(!message.contains(tool), "{message}");
        }
    }
}

#[test]
fn a_server_describes_itself() {
    let (server, callers) = start();
    for caller in callers {
        let (status, described) = caller.get("/server");
        assert_eq!((status, &described["kind"]), (200, &json!("serve")));
        assert_eq!(described["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(described["directory"], server.work().to_str().expect("a path"));
        time(&described, "started_at");
        let pid = described["pid"].as_u64().expect("a number");
        assert_eq!(pid, u64::from(server.server_pid()));
        assert!(described["client"].is_null(), "it has many: {described}");
    }
}

#[test]
fn a_queued_job_has_neither_start_nor_process() {
    let mut server = Launch::http().structured().args(&["--slots", "1"]).start();
    let caller = ApiCaller::over_tcp(&mut server);
    let marker = Marker::new();
    server.start(&format!("sleep {marker}"));
    marker.wait_alive();
    let waiting = server.start("true");
    let job = eventually_some("it waits", || {
        let (_, job) = caller.get(&format!("/jobs/{waiting}"));
        (job["state"] == "queued").then_some(job)
    });
    time(&job, "submitted_at");
    assert!(job["started_at"].is_null() && job["pid"].is_null(), "{job}");
    assert!(job["processes"].is_null() && job["lane"] == "default", "{job}");
}

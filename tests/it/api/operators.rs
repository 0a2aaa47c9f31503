//! Operators and the jobs of other tenants: what they may do, what is audited, and who may not.

use std::fs;

use serde_json::{Value, json};

use super::{ApiAddress, ApiCaller, code};
use crate::harness::{Era, HttpRequest, Launch, Marker, TestServer, eventually, run_program, text};

/// A server with two tenants and an operator.
struct Tenants {
    server: TestServer,
    alice: ApiCaller,
    bob: ApiCaller,
    reader: ApiCaller,
    admin: ApiCaller,
    socket: ApiCaller,
}

impl Tenants {
    fn start() -> Self {
        let mut server = Launch::http().structured().era(Era::Modern).start_silent();
        let tcp = ApiCaller::over_tcp(&mut server);
        let socket = ApiCaller::new(ApiAddress::Unix(server.data().join("shellyard.sock")));
        let caller = |name, role| {
            let data = server.data().to_str().expect("a path").to_owned();
            let arguments = ["token", "new", name, "--role", role, "--data-dir", &data];
            tcp.with_token(text(&run_program(server.sandbox(), &arguments).stdout).trim_end())
        };
        let (alice, bob) = (caller("alice", "run"), caller("bob", "run"));
        let (reader, admin) = (caller("alice", "read-only"), caller("ops", "admin"));
        Self { alice, bob, reader, admin, socket, server }
    }

    /// The notes of the audit log, `what: detail`.
    fn audited(&self) -> Vec<String> {
        let lines = fs::read_to_string(self.server.data().join("audit.jsonl")).unwrap_or_default();
        let entries = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let notes = entries.filter(|entry| entry["event"] == "note");
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        notes.map(|note| format!("{}: {}", word(&note["what"]), word(&note["detail"]))).collect()
    }

    #[track_caller]
    fn assert_audited(&self, note: &str) {
        eventually(note, || self.audited().iter().any(|found| found == note));
    }
}

#[test]
fn an_operator_reads_types_and_stops_and_each_act_is_audited() {
    let tenants = Tenants::start();
    for (operator, name) in [(&tenants.admin, "ops"), (&tenants.socket, "local")] {
        let (_, job) =
            tenants.alice.post("/jobs", &json!({"command": "read line; echo $line; sleep 1000"}));
        let job = super::number(&job);
        let at = |part: &str| format!("/jobs/{job}{part}?tenant=alice");
        let (status, state) = operator.get(&at(""));
        assert_eq!((status, &state["job"]), (200, &json!(job)));
        tenants.assert_audited(&format!("job_read: state of job {job} of alice (by {name})"));
        eventually("it runs", || operator.get(&at("")).1["state"] == "running");
        assert_eq!(operator.post(&at("/input"), &json!({"text": "hi\n"})).0, 200);
        tenants
            .assert_audited(&format!("job_input_sent: 3 bytes to job {job} of alice (by {name})"));
        eventually("it answers", || operator.read(&at("/output")) == "hi\n");
        tenants.assert_audited(&format!("job_read: output of job {job} of alice (by {name})"));
        operator.get(&at("/digest"));
        tenants.assert_audited(&format!("job_read: digest of job {job} of alice (by {name})"));
        assert_eq!(operator.post(&at("/stop"), &json!({"grace_s": 0})).0, 200);
        tenants.assert_audited(&format!("job_stopped: job {job} of alice (by {name})"));
        let ended = tenants.alice.wait_finished(job);
        assert_eq!(ended["stopped_by"], "operator", "{ended}");
        operator.get("/jobs?all=1");
        tenants.assert_audited(&format!("jobs_listed: jobs of all tenants (by {name})"));
        operator.get("/jobs?tenant=alice");
        tenants.assert_audited(&format!("jobs_listed: jobs of alice (by {name})"));
    }
    let before = tenants.audited().len();
    tenants.alice.get("/jobs");
    tenants.alice.get("/jobs/1");
    tenants.admin.get("/jobs?tenant=ops");
    tenants.admin.get("/jobs/77?tenant=alice");
    assert_eq!(tenants.audited().len(), before, "own jobs, and jobs that do not exist");
}

#[test]
fn jobs_are_found_by_number_among_one_tenants_or_all() {
    let tenants = Tenants::start();
    for (caller, count) in [(&tenants.alice, 2), (&tenants.bob, 1)] {
        for number in 1..=count {
            caller.post("/jobs", &json!({"command": "true", "stdin": ""}));
            caller.wait_finished(number);
        }
    }
    let found = |caller: &ApiCaller, query: &str| {
        let (status, list) = caller.get(&format!("/jobs?{query}"));
        assert_eq!(status, 200, "{query}: {list}");
        let jobs = list["jobs"].as_array().expect("a list").iter();
        let name = |job: &Value| format!("{}{}", job["tenant"].as_str().unwrap_or(""), job["job"]);
        let mut names: Vec<String> = jobs.map(name).collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(found(&tenants.alice, "job=1"), "1");
    assert_eq!(found(&tenants.bob, "job=2"), "");
    assert_eq!(found(&tenants.admin, "tenant=alice&job=2"), "2");
    assert_eq!(found(&tenants.admin, "all=1&job=1"), "alice1 bob1");
    assert_eq!(found(&tenants.admin, "all=1&job=2"), "alice2");
    assert_eq!(found(&tenants.admin, "all=1&job=1&state=running"), "");
    for (query, word) in
        [("all=1&tenant=bob", "bad_query"), ("job=0", "bad_job"), ("job=x", "bad_job")]
    {
        let (status, refused) = tenants.admin.get(&format!("/jobs?{query}"));
        assert_eq!((status, code(&refused)), (400, word), "{query}");
    }
    assert_eq!(found(&tenants.admin, "all=0&tenant=bob"), "1");
}

#[test]
fn a_stream_of_another_tenants_job_is_audited_once() {
    let tenants = Tenants::start();
    tenants.alice.post("/jobs", &json!({"command": "echo hers", "stdin": ""}));
    tenants.alice.wait_finished(1);
    let (status, text) = tenants.admin.send(HttpRequest::get("/api/v1/jobs/1/stream?tenant=alice"));
    assert!(status == 200 && text.contains("hers"), "{text}");
    tenants.assert_audited("job_read: output of job 1 of alice (by ops)");
}

#[test]
fn repeated_reads_are_one_more_entry_and_every_change_is_its_own() {
    let mut tenants = Tenants::start();
    let (_, job) = tenants.alice.post("/jobs", &json!({"command": "sleep 1000"}));
    let job = super::number(&job);
    for _ in 0..10 {
        assert_eq!(tenants.admin.get("/jobs?all=1").0, 200);
        assert_eq!(tenants.admin.get(&format!("/jobs/{job}?tenant=alice")).0, 200);
        let input = format!("/jobs/{job}/input?tenant=alice");
        assert_eq!(tenants.admin.post(&input, &json!({"text": "x"})).0, 200);
    }
    let count = |tenants: &Tenants, text: &str| {
        tenants.audited().iter().filter(|note| note.starts_with(text)).count()
    };
    eventually("each input is there", || count(&tenants, "job_input_sent") == 10);
    assert_eq!(count(&tenants, "jobs_listed"), 1, "{:?}", tenants.audited());
    assert_eq!(count(&tenants, "job_read"), 1, "{:?}", tenants.audited());
    tenants.server.signal(rustix::process::Signal::TERM);
    tenants.server.wait_exit();
    let list = "jobs_listed: jobs of all tenants, 9 more times within a minute (by ops)";
    tenants.assert_audited(list);
    let state = format!("state of job {job} of alice, 9 more times within a minute (by ops)");
    tenants.assert_audited(&format!("job_read: {state}"));
}

#[test]
fn nobody_else_reaches_the_job_of_another_tenant() {
    let tenants = Tenants::start();
    let marker = Marker::new();
    let (_, job) = tenants.alice.post("/jobs", &json!({"command": format!("sleep {marker}")}));
    let job = super::number(&job);
    marker.wait_alive();
    for part in ["", "/output", "/output?follow=1", "/stream", "/digest"] {
        let (status, refused) = tenants.bob.get(&format!("/jobs/{job}{part}"));
        assert_eq!((status, code(&refused)), (404, "unknown_job"), "{part}");
        let joint = if part.contains('?') { '&' } else { '?' };
        let (status, refused) = tenants.bob.get(&format!("/jobs/{job}{part}{joint}tenant=alice"));
        assert_eq!((status, code(&refused)), (403, "forbidden"), "{part}");
    }
    for (part, body) in [
        ("/stop", json!({})),
        ("/input", json!({"text": "x"})),
        ("/resize", json!({"rows": 9, "columns": 9})),
    ] {
        let (status, refused) = tenants.bob.post(&format!("/jobs/{job}{part}"), &body);
        assert_eq!((status, code(&refused)), (404, "unknown_job"), "{part}");
        let (status, refused) = tenants.bob.post(&format!("/jobs/{job}{part}?tenant=alice"), &body);
        assert_eq!((status, code(&refused)), (403, "forbidden"), "{part}");
    }
    assert_eq!(tenants.alice.get(&format!("/jobs/{job}")).1["state"], "running");
}

#[test]
fn a_read_only_token_reads_and_does_nothing() {
    let tenants = Tenants::start();
    let (_, job) = tenants.alice.post("/jobs", &json!({"command": "sleep 1000"}));
    let job = super::number(&job);
    assert_eq!(tenants.reader.get(&format!("/jobs/{job}")).0, 200);
    assert_eq!(tenants.reader.get("/server").0, 200);
    for (path, body) in [
        ("/jobs".to_owned(), json!({"command": "true"})),
        (format!("/jobs/{job}/stop"), json!({})),
        (format!("/jobs/{job}/input"), json!({"text": "x"})),
        (format!("/jobs/{job}/resize"), json!({"rows": 9, "columns": 9})),
    ] {
        let (status, refused) = tenants.reader.post(&path, &body);
        assert_eq!((status, code(&refused)), (403, "forbidden"), "{path}");
        let message = refused["error"]["message"].as_str().expect("a message");
        assert!(message.contains("role run"), "{message}");
    }
    assert_eq!(tenants.alice.get("/jobs").1["jobs"].as_array().map(Vec::len), Some(1));
    assert_ne!(tenants.alice.get(&format!("/jobs/{job}")).1["state"], "finished");
}

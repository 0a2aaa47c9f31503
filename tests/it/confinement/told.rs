//! Places that name a job's sandbox: replies, the API, metrics, the audit log.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{HttpConnection, HttpRequest, Launch, TestServer, eventually};

/// A host that can do nothing, and must not refuse.
const DEGRADED: &str = "[confinement]\nprofile = \"workspace-write\"\nbackend = \"none\"\n\
                        on_unavailable = \"degrade\"\n";

#[test]
fn a_degraded_job_says_so_in_its_verdict() {
    let told = "confinement degraded: workspace-write without network asked, none given \
                (no seccomp)";
    for launch in Launch::both() {
        let mut server = launch.config(DEGRADED).start();
        let verdict = server.run("true").verdict();
        assert!(verdict.starts_with("exit 0") && verdict.contains(told), "{verdict}");
        let job = server.start("sleep 30");
        let waited = server.call("wait_jobs", json!({"jobs": [job], "wait_s": 0})).ok().text();
        assert!(waited.contains(told), "{waited}");
        server.call("stop_jobs", json!({"jobs": [job]})).ok();
    }
    let weaker = DEGRADED.replace("\"none\"", "\"seccomp\"");
    let verdict = Launch::stdio().config(&weaker).start().run("true").verdict();
    let told = "workspace-write asked, default given (no namespaces, no Landlock)";
    assert!(verdict.contains(told), "{verdict}");
}

#[test]
fn a_job_that_got_what_is_usual_says_nothing_of_it() {
    let verdict = Launch::stdio().start().run("true").verdict();
    assert!(!verdict.contains("confine"), "{verdict}");
}

#[test]
fn the_structured_form_and_the_api_tell_it() {
    let degraded = json!({
        "profile": "none", "network": "on", "backend": "nothing", "degraded": true,
        "asked": {"profile": "workspace-write", "network": "off"},
    });
    let mut server = Launch::http().structured().config(DEGRADED).start();
    assert_eq!(server.run("true")["confinement"], degraded);
    let jobs = api(&mut server);
    assert_eq!(jobs["jobs"][0]["confinement"], degraded, "{jobs}");
    let mut server = Launch::stdio().structured().start();
    let usual = json!({
        "profile": "default", "network": "on", "backend": "seccomp", "degraded": false,
    });
    assert_eq!(server.run("true")["confinement"], usual);
}

fn api(server: &mut TestServer) -> Value {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get("/api/v1/jobs"));
    serde_json::from_str(&connection.answer().text()).expect("JSON")
}

#[test]
fn jobs_are_counted_by_their_confinement() {
    let mut server = Launch::http().config(DEGRADED).start();
    server.run("true");
    server.run("true");
    let series = |degraded: &str| {
        format!(
            "shellyard_jobs_confined_total{{profile=\"none\",backend=\"nothing\",degraded=\"{degraded}\"}}"
        )
    };
    assert_eq!(server.metric(&series("true")).round() as u64, 2);
    assert_eq!(server.metric(&series("false")).round() as u64, 0);
    server.call("run_command", json!({"command": "true", "confinement": "none"})).error_text();
    let refused = "shellyard_jobs_rejected_total{reason=\"confinement\"}";
    assert_eq!(server.metric(refused).round() as u64, 1);
}

#[test]
fn decisions_are_written_down_with_the_confinement_and_so_are_refused_wishes() {
    let mut server = Launch::stdio().structured().config(DEGRADED).start();
    server.run("true");
    server.call("run_command", json!({"command": "true", "network": "on"}));
    let file = server.sandbox().data().join("audit.jsonl");
    let read = || fs::read_to_string(&file).expect("a log");
    eventually("the wish is written down", || read().contains("confinement_loosened"));
    let log = read();
    let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let entries: Vec<Value> = entries.collect();
    let decision = entries.iter().find(|entry| entry["event"] == "decision").expect("one");
    let told = [&decision["profile"], &decision["network"], &decision["backend"]];
    assert_eq!(told, ["none", "on", "nothing"], "{decision}");
    let note = entries.iter().find(|entry| entry["what"] == "confinement_loosened");
    let note = note.unwrap_or_else(|| panic!("no note in {log}"));
    assert!(note["detail"].as_str().is_some_and(|it| it.contains("network on")), "{note}");
}

//! Secrets in what is shown, logged and audited; the stored bytes are another matter.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Launch, TestServer, bytes_of, eventually, eventually_some, run_program};

/// Known by its form, without any setting.
const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
/// Known by a pattern of the configuration.
const OWN: &str = "hunter2-hunter2";
const CONFIG: &str = "[redact]\npatterns = [\"pin=(?P<secret>\\\\S+)\"]\n[mcp]\nprogress_s = 0.2\n";

/// Writes both secrets; the command line itself holds them, too.
fn command() -> String {
    format!("echo key {KEY}; echo pin={OWN} after")
}

#[track_caller]
fn assert_masked(what: &str, text: &str) {
    assert!(!text.contains(KEY), "{what} holds the key: {text}");
    assert!(!text.contains(OWN), "{what} holds the pin: {text}");
}

fn raw(server: &mut TestServer, job: u64) -> String {
    String::from_utf8(bytes_of(&server.read_raw(job, "bytes:0", 4096))).expect("text")
}

#[test]
fn every_reply_is_masked_and_the_raw_log_is_not() {
    for launch in Launch::both() {
        let launch = launch.args(&["--result-format", "both"]).config(CONFIG);
        let mut server = launch.start();
        let reply = server.run(&command());
        let job = reply.job();
        assert_eq!(reply["output"], "key [redacted]\npin=[redacted] after\n");
        assert!(reply.text().contains("pin=[redacted] after"), "{}", reply.text());
        assert_masked("run_command", &reply.0.to_string());
        for (tool, arguments) in [
            ("read_output", json!({"job": job})),
            ("read_output", json!({"job": job, "grep": "key|pin"})),
            ("read_output", json!({"job": job, "view": "tail"})),
            ("wait_jobs", json!({"jobs": [job]})),
            ("list_jobs", json!({})),
            ("stop_jobs", json!({"jobs": [job]})),
        ] {
            let reply = server.call(tool, arguments.clone()).ok();
            assert_masked(&format!("{tool}({arguments})"), &reply.0.to_string());
        }
        let listed = server.call("list_jobs", json!({})).ok().0.to_string();
        assert!(listed.contains("[redacted]"), "the command is shown: {listed}");
        assert_eq!(raw(&mut server, job), format!("key {KEY}\npin={OWN} after\n"));
    }
}

#[test]
fn tokens_of_the_server_and_passwords_by_name_are_masked() {
    let mut server = Launch::stdio().structured().start();
    let data = server.sandbox().data();
    let data = data.to_str().expect("a path");
    let arguments = ["token", "new", "alice", "--json", "--data-dir", data];
    let output = run_program(server.sandbox(), &arguments);
    let made: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let token = made["token"].as_str().expect("a token");
    let command = format!(
        "echo token {token}; echo DB_PASSWORD={OWN}; echo 'x-api-key: {}'; echo 'password = ask()'",
        "0a1b2c3d".repeat(4),
    );
    let reply = server.run(&command);
    let shown =
        "token [redacted]\nDB_PASSWORD=[redacted]\nx-api-key: [redacted]\npassword = ask()\n";
    assert_eq!(reply["output"], shown);
    let listed = server.call("list_jobs", json!({})).ok().0.to_string();
    assert!(!listed.contains(token) && !listed.contains(OWN), "{listed}");
}

#[test]
fn resources_are_masked() {
    let mut server = Launch::stdio().structured().config(CONFIG).start();
    let uri = server.run(&command())["uri"].clone();
    let listed = server.rpc("resources/list", json!({}));
    assert!(listed.to_string().contains("[redacted]"), "{listed}");
    assert_masked("resources/list", &listed.to_string());
    let read = server.rpc("resources/read", json!({"uri": uri}));
    let text = &read["result"]["contents"][0]["text"];
    assert_eq!(text, "key [redacted]\npin=[redacted] after\n", "{read}");
}

#[test]
fn progress_is_masked() {
    let mut server = Launch::stdio().structured().config(CONFIG).start();
    let marker = crate::harness::Marker::new();
    let job = server.start(&format!("echo pin={OWN}; sleep {marker}"));
    marker.wait_alive();
    let id = server.begin_with(json!({
        "name": "wait_jobs", "arguments": {"jobs": [job], "wait_s": 60},
        "_meta": {"progressToken": "p"},
    }));
    let told = server.stdio().receive("progress", |message| {
        let text = message["params"]["message"].as_str().unwrap_or_default();
        message["method"] == "notifications/progress" && text.contains("pin=")
    });
    assert_masked("progress", &told.to_string());
    server.call("stop_jobs", json!({"jobs": [job]})).ok();
    assert_masked("wait_jobs", &server.finish(id).0.to_string());
}

#[test]
fn refusals_logs_and_audit_are_masked() {
    let config = format!("[policy]\ndeny = [\"rm*\"]\n{CONFIG}");
    let mut server = Launch::stdio().structured().config(&config).start();
    server.run(&command());
    let refused = server.call("run_command", json!({"command": format!("rm pin={OWN}")}));
    assert_masked("a refusal", &refused.0.to_string());
    let file = server.sandbox().data().join("audit.jsonl");
    let audit = || fs::read_to_string(&file).expect("there is an audit log");
    eventually("the ending is written down", || audit().contains("\"ending\""));
    assert_masked("the audit log", &audit());
    let commands: Vec<Value> = audit()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["command"].clone())
        .filter(Value::is_string)
        .collect();
    let shown = "echo key [redacted]; echo pin=[redacted] after";
    assert_eq!(commands, [shown, "rm pin=[redacted]"]);
    eventually("the command is logged", || server.log_text().contains("pin=[redacted] after"));
    assert_masked("the log", &server.log_text());
}

#[test]
fn without_patterns_nothing_is_masked() {
    let mut server = Launch::stdio().structured().config("[redact]\nbuiltin = false\n").start();
    assert_eq!(server.run(&command())["output"], format!("key {KEY}\npin={OWN} after\n"));
}

#[test]
fn at_write_masks_what_is_stored() {
    let config = CONFIG.replace("[redact]", "[redact]\nat_write = true");
    let mut server = Launch::stdio().structured().config(&config).start();
    // The secret comes in two writes, and one on the other stream; a prompt is shown all the same.
    let script = format!(
        "printf 'key {}'; echo '{}'; echo pin={OWN} >&2; printf 'name? '; read name",
        &KEY[..8],
        &KEY[8..]
    );
    for streams in ["merged", "separate"] {
        // A line is held back for a moment only, in which the job may not get its turn.
        let stored = eventually_some("a key is stored masked", || {
            let arguments = json!({"command": script, "wait_s": 0, "streams": streams});
            let job = server.call("run_command", arguments).ok().job();
            eventually("the prompt is shown", || raw(&mut server, job).ends_with("name? "));
            server.call("stop_jobs", json!({"jobs": [job]})).ok();
            let stored = raw(&mut server, job);
            assert!(stored.contains("pin=[redacted]\n"), "{stored}");
            Some(stored).filter(|stored| stored.contains("key [redacted]\n"))
        });
        assert_masked("the stored log", &stored);
    }
}

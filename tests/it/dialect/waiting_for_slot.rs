//! A command that waits for a slot: its timeout has not begun, and it never reads as timed out.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{HttpConnection, HttpRequest, Launch, Reply, TestServer, eventually};

const ALL: &str = "native,shell,execute,run_shell_command,execute_command,shell_exec";

/// A call of each dialect's tool that runs this command, with this timeout where the tool has one.
fn calls(command: &str, seconds: u64) -> [(&'static str, Value); 5] {
    [
        ("shell", json!({"command": command, "timeout": seconds})),
        ("execute", json!({"command": command, "timeout_ms": 1000 * seconds})),
        ("run_shell_command", json!({"command": command, "is_background": false})),
        ("execute_command", json!({"command": command})),
        ("shell_exec", json!({"cmd": command})),
    ]
}

fn audit_text(server: &TestServer) -> String {
    fs::read_to_string(server.sandbox().data().join("audit.jsonl")).unwrap_or_default()
}

#[test]
fn the_timeout_of_every_dialect_counts_from_the_start_of_the_process() {
    let config = "[queue]\nslots = 1\n[job]\ntimeout_s = 5\n[execute_command]\ntimeout = 5\n";
    let mut server = Launch::stdio().args(&["--dialect", ALL]).config(config).start();
    for (tool, arguments) in calls("echo r''an", 5) {
        let blocker = json!({"command": "sleep 6", "wait_s": 0, "timeout_s": 60});
        server.call("run_command", blocker).ok();
        let reply = server.call(tool, arguments).ok();
        let text = reply.0["result"].to_string();
        assert!(text.contains("ran") && !text.contains("timed out after"), "{tool}: {text}");
    }
}

#[test]
fn without_a_slot_for_too_long_the_command_is_not_run_and_says_so() {
    let config = "[job]\ntimeout_s = 1\nmax_timeout_s = 1\n[execute_command]\ntimeout = 1\n";
    let mut server = Launch::http().args(&["--dialect", ALL]).config(config).start();
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::post("/api/v1/queue/pause", &json!({})));
    connection.answer().text();
    let said = |reply: &Reply| reply.0["result"].to_string();
    for (tool, arguments) in calls("touch ran", 1) {
        let told = said(&server.call(tool, arguments));
        assert!(told.contains("for a slot and was not run"), "{tool}: {told}");
        assert!(!told.contains("timed out") && !told.contains("kill"), "{tool}: {told}");
    }
    assert!(!server.work().join("ran").exists());
    let listed = said(&server.call("list_jobs", json!({})).ok());
    assert_eq!(listed.matches("for a slot and was not run").count(), 5, "{listed}");
    eventually("the audit log says the same", || {
        let audit = audit_text(&server);
        audit.matches("no_slot: waited ").count() == 5 && !audit.contains("timed_out")
    });
}

#[test]
fn a_call_that_is_cancelled_in_the_queue_was_not_run() {
    let mut server = Launch::stdio()
        .structured()
        .args(&["--dialect", ALL])
        .config("[queue]\nslots = 1\n")
        .start();
    server.start("while [ ! -e gate ]; do sleep 0.05; done");
    let id = server.begin("shell", json!({"command": "touch ran"}));
    eventually("the command waits", || {
        server.call("list_jobs", json!({"state": "queued"})).ok()["jobs"] != json!([])
    });
    let reason = "the user cancelled the call";
    server.notify("notifications/cancelled", json!({"requestId": id, "reason": reason}));
    let job = server.wait_finished(2);
    assert_eq!((&job["outcome"], &job["stopped_by"]), (&json!("stopped"), &json!("cancel")));
    assert_eq!(job["not_run"], true, "{job}");
    assert_eq!((&job["elapsed_ms"], &job["killed"]), (&Value::Null, &Value::Null), "{job}");
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    server.wait_finished(1);
    assert!(!server.work().join("ran").exists());
    eventually("the audit log says the same", || {
        audit_text(&server).contains("\"why\":\"cancel: waited ")
    });
}

#[test]
fn the_wait_for_a_slot_is_bounded_also_after_the_client_gave_up() {
    let config = "[job]\ntimeout_s = 5\nmax_timeout_s = 5\n[execute_command]\ntimeout = 5\n";
    let mut server = Launch::http().args(&["--dialect", ALL]).config(config).start();
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::post("/api/v1/queue/pause", &json!({})));
    connection.answer().text();
    for (tool, arguments) in calls("touch ran", 5) {
        let id = server.fresh_id();
        let call = json!({"name": tool, "arguments": arguments});
        let message = server.http().era().request(id, "tools/call", call);
        let _given_up = server.http().post(&message);
        let queued = json!({"state": "queued"});
        eventually("the command waits", || {
            !server.call("list_jobs", queued.clone()).ok().text().contains("0 queued")
        });
        let reason = "MCP error -32001: Request timed out";
        server.notify("notifications/cancelled", json!({"requestId": id, "reason": reason}));
        eventually(&format!("the job of {tool} is withdrawn"), || {
            server.call("list_jobs", queued.clone()).ok().text().contains("0 queued")
        });
    }
    let listed = server.call("list_jobs", json!({})).ok().text();
    assert_eq!(listed.matches("for a slot and was not run").count(), 5, "{listed}");
    assert!(!server.work().join("ran").exists());
}

#[test]
fn a_command_that_is_stopped_in_the_queue_says_that_it_was_stopped_on_request() {
    let config = "[queue]\nslots = 1\n";
    for (tool, arguments) in calls("touch ran", 60) {
        let mut server = Launch::stdio().args(&["--dialect", ALL]).config(config).start();
        server.start("while [ ! -e gate ]; do sleep 0.05; done");
        let id = server.begin(tool, arguments);
        eventually("the command waits", || {
            server.call("list_jobs", json!({"state": "queued"})).ok().text().contains("touch ran")
        });
        server.call("stop_jobs", json!({"jobs": [2]})).ok();
        let told = server.finish(id).0["result"].to_string();
        assert!(told.contains("for a slot and was not run"), "{tool}: {told}");
        assert!(!told.contains("(client)"), "{tool}: {told}");
        if tool == "shell" {
            assert!(told.contains("was not run (stopped on request)"), "{told}");
        }
    }
}

//! Clients that get a task, and clients that do not.

use serde_json::{Value, json};

use super::{SOON, get, get_when, knows_tasks, modern, rpc, run, task_of, text_of};
use crate::harness::{Era, Launch, Marker, TASKS, TestServer, declaring};

/// Longer than any test, and gone with the marker.
fn sleep(marker: &Marker) -> String {
    format!("echo begun; sleep {marker}")
}

#[track_caller]
fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("an error: {answer}"))
}

#[test]
fn what_ends_within_the_grace_is_answered_at_once() {
    for mut yard in modern("[mcp]\ntask_grace_s = 20\n") {
        let result = run(&mut yard, json!({"command": "echo quick"}));
        assert_eq!(result["resultType"], "complete", "{result}");
        assert!(text_of(&result).starts_with("exit 0"), "{result}");
    }
}

#[test]
fn a_call_that_would_wait_goes_on_as_a_task() {
    for mut yard in modern(SOON) {
        let marker = Marker::new();
        let created = run(&mut yard, json!({"command": sleep(&marker)}));
        assert_eq!(created["resultType"], "task", "{created}");
        assert_eq!(created["status"], "working", "{created}");
        assert_eq!(created["pollIntervalMs"], 1000, "{created}");
        assert!(created["ttlMs"].as_u64() > Some(0), "{created}");
        assert!(created["createdAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{created}");
        assert!(created["_meta"]["io.modelcontextprotocol/serverInfo"].is_object(), "{created}");
        let id = created["taskId"].as_str().expect("a name");
        let looked = get(&mut yard, id);
        assert_eq!((&looked["taskId"], &looked["createdAt"]), (&json!(id), &created["createdAt"]));
    }
}

#[test]
fn without_a_grace_even_what_cannot_be_started_is_a_task() {
    for mut yard in modern("[mcp]\ntask_grace_s = 0\n") {
        let created = run(&mut yard, json!({"command": "/there/is/no/such/program", "args": []}));
        assert_eq!(created["resultType"], "task", "{created}");
        let over = get_when(&mut yard, created["taskId"].as_str().expect("a name"), "completed");
        assert_eq!(over["result"]["isError"], true, "{over}");
    }
}

#[test]
fn a_call_that_does_not_want_to_wait_needs_no_task() {
    for mut yard in modern(SOON) {
        let marker = Marker::new();
        for wait_s in [0.0, 0.05] {
            let result = run(&mut yard, json!({"command": sleep(&marker), "wait_s": wait_s}));
            assert_eq!(result["resultType"], "complete", "{wait_s}: {result}");
        }
    }
}

#[test]
fn tools_of_other_documents_answer_as_those_say() {
    let launch = Launch::stdio().era(Era::Modern).args(&["--dialect", "native,execute"]);
    let mut yard = launch.config(SOON).start();
    let arguments = json!({"command": "sleep", "args": ["0.5"]});
    let answer = rpc(&mut yard, "tools/call", json!({"name": "execute", "arguments": arguments}));
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}

#[test]
fn the_extension_is_offered_in_the_modern_era_alone() {
    for mut yard in modern(SOON) {
        let found = yard.rpc("server/discover", json!({}));
        assert!(found["result"]["capabilities"]["extensions"][TASKS].is_object(), "{found}");
    }
    for launch in Launch::both() {
        let mut yard = launch.config(SOON).start_silent();
        let greeted = greet(&mut yard, knows_tasks());
        assert!(greeted["result"]["capabilities"].get("extensions").is_none(), "{greeted}");
        let arguments = json!({"command": "sleep 0.5; echo done"});
        let answer = yard.call("run_command", arguments).ok();
        assert!(answer.text().contains("done"), "{}", answer.0);
        let marker = Marker::new();
        let job = yard.start(&sleep(&marker));
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let params = json!({"taskId": format!("{job}-1-0"), "inputResponses": {}});
            assert_eq!(code(&yard.rpc(method, params)), -32601, "{method}");
        }
    }
}

/// Shakes hands as a client that can do this.
#[track_caller]
fn greet(yard: &mut TestServer, capabilities: Value) -> Value {
    let client = json!({"name": "it", "version": "1.0.0"});
    let greeting = json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client,
    });
    let greeted = yard.rpc("initialize", greeting);
    yard.notify("notifications/initialized", json!({}));
    greeted
}

#[test]
fn who_does_not_declare_the_extension_gets_no_task() {
    for mut yard in modern(SOON) {
        let answer = yard.run("sleep 0.5; echo done");
        assert!(answer.text().contains("done"), "{}", answer.0);
        let marker = Marker::new();
        let task = task_of(&mut yard, &sleep(&marker));
        let params = declaring(json!({}), json!({"taskId": task}));
        assert_eq!(code(&yard.rpc("tasks/get", params)), -32021, "the capability is missing");
    }
}

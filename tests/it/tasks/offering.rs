//! Clients that get a task, and clients that do not.

use serde_json::{Value, json};

use super::{SOON, get, knows_tasks, modern, rpc, run, task_of, text_of};
use crate::harness::{Era, Launch, Marker, TASKS, TestServer, declaring, eventually_some};

/// Longer than any test, and gone with the marker.
fn sleep(marker: &Marker) -> String {
    format!("echo begun; sleep {marker}")
}

#[track_caller]
fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("an error: {answer}"))
}

#[test]
fn a_call_becomes_a_task_only_when_its_own_wait_is_over() {
    for mut server in modern("") {
        let command = "echo begun; sleep 3; echo over";
        let result = run(&mut server, json!({"command": command, "wait_s": 45}));
        assert_eq!(result["resultType"], "complete", "{result}");
        assert!(text_of(&result).starts_with("exit 0"), "{result}");
        let marker = Marker::new();
        let created = run(&mut server, json!({"command": sleep(&marker), "wait_s": 0.2}));
        assert_eq!(created["resultType"], "task", "{created}");
    }
}

#[test]
fn the_id_of_a_task_names_its_job_and_its_message_the_last_line() {
    for mut server in modern("") {
        server.run("true");
        let marker = Marker::new();
        let created = run(&mut server, json!({"command": sleep(&marker), "wait_s": 1}));
        let id = created["taskId"].as_str().expect("a name");
        assert!(id.starts_with("job-2-"), "{created}");
        let looked = eventually_some("the last line is told", || {
            let looked = get(&mut server, id);
            let message = looked["statusMessage"].as_str().expect("a message").to_owned();
            message.ends_with(" · begun").then_some(looked)
        });
        assert_eq!(looked["status"], "working", "{looked}");
    }
}

#[test]
fn a_call_that_would_wait_goes_on_as_a_task() {
    for mut server in modern(SOON) {
        let marker = Marker::new();
        let created = run(&mut server, json!({"command": sleep(&marker)}));
        assert_eq!(created["resultType"], "task", "{created}");
        assert_eq!(created["status"], "working", "{created}");
        assert_eq!(created["pollIntervalMs"], 1000, "{created}");
        assert!(created["ttlMs"].as_u64() > Some(0), "{created}");
        assert!(created["createdAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{created}");
        assert!(created["_meta"]["io.modelcontextprotocol/serverInfo"].is_object(), "{created}");
        let id = created["taskId"].as_str().expect("a name");
        let looked = get(&mut server, id);
        assert_eq!((&looked["taskId"], &looked["createdAt"]), (&json!(id), &created["createdAt"]));
    }
}

#[test]
fn a_call_that_does_not_want_to_wait_needs_no_task() {
    for mut server in modern(SOON) {
        let marker = Marker::new();
        let result = run(&mut server, json!({"command": sleep(&marker), "wait_s": 0}));
        assert_eq!(result["resultType"], "complete", "{result}");
    }
}

#[test]
fn tools_of_other_documents_answer_as_those_say() {
    let launch = Launch::stdio().era(Era::Modern).args(&["--dialect", "native,execute"]);
    let mut server = launch.config(SOON).start();
    let arguments = json!({"command": "sleep", "args": ["0.5"]});
    let answer = rpc(&mut server, "tools/call", json!({"name": "execute", "arguments": arguments}));
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}

#[test]
fn the_extension_is_offered_in_the_modern_era_alone() {
    for mut server in modern(SOON) {
        let found = server.rpc("server/discover", json!({}));
        assert!(found["result"]["capabilities"]["extensions"][TASKS].is_object(), "{found}");
    }
    for launch in Launch::both() {
        let mut server = launch.config(SOON).start_silent();
        let greeted = greet(&mut server, knows_tasks());
        assert!(greeted["result"]["capabilities"].get("extensions").is_none(), "{greeted}");
        let arguments = json!({"command": "sleep 0.5; echo done", "wait_s": 45});
        let answer = server.call("run_command", arguments).ok();
        assert!(answer.text().contains("done"), "{}", answer.0);
        let marker = Marker::new();
        let job = server.start(&sleep(&marker));
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let params = json!({"taskId": format!("{job}-1-0"), "inputResponses": {}});
            assert_eq!(code(&server.rpc(method, params)), -32601, "{method}");
        }
    }
}

/// Shakes hands as a client that can do this.
#[track_caller]
fn greet(server: &mut TestServer, capabilities: Value) -> Value {
    let client = json!({"name": "it", "version": "1.0.0"});
    let greeting = json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client,
    });
    let greeted = server.rpc("initialize", greeting);
    server.notify("notifications/initialized", json!({}));
    greeted
}

#[test]
fn who_does_not_declare_the_extension_gets_no_task() {
    for mut server in modern(SOON) {
        let arguments = json!({"command": "sleep 0.5; echo done", "wait_s": 45});
        let answer = server.call("run_command", arguments).ok();
        assert!(answer.text().contains("done"), "{}", answer.0);
        let marker = Marker::new();
        let task = task_of(&mut server, &sleep(&marker));
        let params = declaring(json!({}), json!({"taskId": task}));
        assert_eq!(code(&server.rpc("tasks/get", params)), -32021, "the capability is missing");
    }
}

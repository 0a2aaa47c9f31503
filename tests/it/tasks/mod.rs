//! Tasks, over both transports, through the real binary.

mod asking;
mod cancelling;
mod looking;
mod offering;

use serde_json::{Value, json};

use crate::harness::{Era, Launch, TASKS, TestServer, declaring, eventually_some};

/// Waits are short, so that tasks come soon.
const SOON: &str = "[mcp]\nwait_s = 0.1\n";

/// A job goes on until [`go`]: one that ends by the clock might do so before it is a task.
const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.05; done";

fn go(server: &TestServer) {
    std::fs::write(server.work().join("go"), "").expect("a file of ours");
}

/// The capabilities of a client that knows tasks.
fn knows_tasks() -> Value {
    json!({"extensions": {TASKS: {}}})
}

/// Modern servers with this configuration, one for each transport.
fn modern(config: &str) -> [TestServer; 2] {
    Launch::both().map(|launch| launch.era(Era::Modern).config(config).start())
}

/// Sends a request as a client that knows tasks.
#[track_caller]
fn rpc(server: &mut TestServer, method: &str, params: Value) -> Value {
    server.rpc(method, declaring(knows_tasks(), params))
}

/// The result of a call of `run_command`.
#[track_caller]
fn run(server: &mut TestServer, arguments: Value) -> Value {
    let params = json!({"name": "run_command", "arguments": arguments});
    rpc(server, "tools/call", params)["result"].clone()
}

/// The name of the task that a command goes on as.
#[track_caller]
fn task_of(server: &mut TestServer, command: &str) -> String {
    let created = run(server, json!({"command": command}));
    assert_eq!(created["resultType"], "task", "{created}");
    created["taskId"].as_str().expect("a name").to_owned()
}

#[track_caller]
fn get(server: &mut TestServer, task: &str) -> Value {
    let answer = rpc(server, "tasks/get", json!({"taskId": task}));
    assert!(answer.get("error").is_none(), "{answer}");
    answer["result"].clone()
}

/// Returns a task once it is in this state.
#[track_caller]
fn get_when(server: &mut TestServer, task: &str, status: &str) -> Value {
    eventually_some(&format!("the task is {status}"), || {
        let looked = get(server, task);
        (looked["status"] == status).then_some(looked)
    })
}

/// The text of a result.
#[track_caller]
fn text_of(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("text: {result}")).to_owned()
}

//! Commands that a rule wants somebody's yes for, asked inside a task.

use std::time::Duration;

use serde_json::{Value, json};

use super::{get_when, text_of};
use crate::harness::{Era, Launch, TASKS, TestServer, declaring};

const ASK: &str = "[policy]\nask = [\"touch\"]\n";

/// Sends a request as a client that knows tasks and can ask somebody.
#[track_caller]
fn rpc(server: &mut TestServer, method: &str, params: Value) -> Value {
    let capabilities = json!({"extensions": {TASKS: {}}, "elicitation": {}});
    server.rpc(method, declaring(capabilities, params))
}

fn servers() -> [TestServer; 2] {
    Launch::both().map(|launch| launch.era(Era::Modern).config(ASK).start())
}

/// The task that asks whether this may run.
#[track_caller]
fn ask_for_task(server: &mut TestServer) -> String {
    let arguments = json!({"command": "touch made; echo ran"});
    let answer = rpc(server, "tools/call", json!({"name": "run_command", "arguments": arguments}));
    let created = &answer["result"];
    assert_eq!(created["resultType"], "task", "{created}");
    assert_eq!(created["status"], "input_required", "{created}");
    let task = created["taskId"].as_str().expect("a name").to_owned();
    let looked = get_when(server, &task, "input_required");
    assert_eq!(looked["inputRequests"]["approval"]["method"], "elicitation/create", "{looked}");
    assert!(!server.work().join("made").exists(), "nothing runs before the yes");
    task
}

#[track_caller]
fn say(server: &mut TestServer, task: &str, said: Value) {
    let params = json!({"taskId": task, "inputResponses": {"approval": said}});
    let answer = rpc(server, "tasks/update", params);
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}

#[test]
fn a_task_runs_once_somebody_agrees() {
    for mut server in servers() {
        let task = ask_for_task(&mut server);
        say(&mut server, &task, json!({"action": "accept", "content": {"approval": "once"}}));
        let over = get_when(&mut server, &task, "completed");
        assert!(text_of(&over["result"]).contains("\nran"), "{over}");
        assert!(server.work().join("made").exists());
    }
}

#[test]
fn a_task_has_one_age_before_and_after_the_yes() {
    for mut server in servers() {
        let task = ask_for_task(&mut server);
        let before = get_when(&mut server, &task, "input_required");
        // So the job begins later than the task.
        server.run("true");
        say(&mut server, &task, json!({"action": "accept", "content": {"approval": "once"}}));
        let after = get_when(&mut server, &task, "completed");
        for field in ["taskId", "createdAt", "ttlMs"] {
            assert_eq!(before[field], after[field], "{field}: {before} {after}");
        }
    }
}

#[test]
fn a_task_that_nobody_agrees_to_is_refused() {
    for mut server in servers() {
        let task = ask_for_task(&mut server);
        // A person needs some time to read the question.
        std::thread::sleep(Duration::from_millis(200));
        say(&mut server, &task, json!({"action": "decline"}));
        let over = get_when(&mut server, &task, "completed");
        assert_eq!(over["result"]["isError"], true, "{over}");
        assert!(text_of(&over["result"]).contains("it was declined"), "{over}");
        // What was refused stays refused.
        say(&mut server, &task, json!({"action": "accept", "content": {"approval": "once"}}));
        assert!(!server.work().join("made").exists());
    }
}

#[test]
fn a_task_that_is_cancelled_asks_nobody_any_more() {
    for mut server in servers() {
        let task = ask_for_task(&mut server);
        rpc(&mut server, "tasks/cancel", json!({"taskId": task}));
        get_when(&mut server, &task, "cancelled");
        say(&mut server, &task, json!({"action": "accept", "content": {"approval": "once"}}));
        get_when(&mut server, &task, "cancelled");
        assert!(!server.work().join("made").exists());
    }
}

//! Commands that a rule wants somebody's yes for, asked inside a task.

use std::time::Duration;

use serde_json::{Value, json};

use super::{get_when, text_of};
use crate::harness::{Era, Launch, TASKS, TestServer, declaring};

const ASK: &str = "[policy]\nask = [\"touch\"]\n";

/// Sends a request as a client that knows tasks and can ask somebody.
#[track_caller]
fn rpc(yard: &mut TestServer, method: &str, params: Value) -> Value {
    let capabilities = json!({"extensions": {TASKS: {}}, "elicitation": {}});
    yard.rpc(method, declaring(capabilities, params))
}

fn yards() -> [TestServer; 2] {
    Launch::both().map(|launch| launch.era(Era::Modern).config(ASK).start())
}

/// The task that asks whether this may run.
#[track_caller]
fn ask_for_task(yard: &mut TestServer) -> String {
    let arguments = json!({"command": "touch made; echo ran"});
    let answer = rpc(yard, "tools/call", json!({"name": "run_command", "arguments": arguments}));
    let created = &answer["result"];
    assert_eq!(created["resultType"], "task", "{created}");
    assert_eq!(created["status"], "input_required", "{created}");
    let task = created["taskId"].as_str().expect("a name").to_owned();
    let looked = get_when(yard, &task, "input_required");
    assert_eq!(looked["inputRequests"]["approval"]["method"], "elicitation/create", "{looked}");
    assert!(!yard.work().join("made").exists(), "nothing runs before the yes");
    task
}

#[track_caller]
fn say(yard: &mut TestServer, task: &str, said: Value) {
    let params = json!({"taskId": task, "inputResponses": {"approval": said}});
    let answer = rpc(yard, "tasks/update", params);
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}

#[test]
fn a_task_runs_once_somebody_agrees() {
    for mut yard in yards() {
        let task = ask_for_task(&mut yard);
        say(&mut yard, &task, json!({"action": "accept", "content": {"approval": "once"}}));
        let over = get_when(&mut yard, &task, "completed");
        assert!(text_of(&over["result"]).contains("\nran"), "{over}");
        assert!(yard.work().join("made").exists());
    }
}

#[test]
fn a_task_has_one_age_before_and_after_the_yes() {
    for mut yard in yards() {
        let task = ask_for_task(&mut yard);
        let before = get_when(&mut yard, &task, "input_required");
        // So the job begins later than the task.
        yard.run("true");
        say(&mut yard, &task, json!({"action": "accept", "content": {"approval": "once"}}));
        let after = get_when(&mut yard, &task, "completed");
        for field in ["taskId", "createdAt", "ttlMs"] {
            assert_eq!(before[field], after[field], "{field}: {before} {after}");
        }
    }
}

#[test]
fn a_task_that_nobody_agrees_to_is_refused() {
    for mut yard in yards() {
        let task = ask_for_task(&mut yard);
        // A person needs some time to read the question.
        std::thread::sleep(Duration::from_millis(200));
        say(&mut yard, &task, json!({"action": "decline"}));
        let over = get_when(&mut yard, &task, "completed");
        assert_eq!(over["result"]["isError"], true, "{over}");
        assert!(text_of(&over["result"]).contains("it was declined"), "{over}");
        // What was refused stays refused.
        say(&mut yard, &task, json!({"action": "accept", "content": {"approval": "once"}}));
        assert!(!yard.work().join("made").exists());
    }
}

#[test]
fn a_task_that_is_cancelled_asks_nobody_any_more() {
    for mut yard in yards() {
        let task = ask_for_task(&mut yard);
        rpc(&mut yard, "tasks/cancel", json!({"taskId": task}));
        get_when(&mut yard, &task, "cancelled");
        say(&mut yard, &task, json!({"action": "accept", "content": {"approval": "once"}}));
        get_when(&mut yard, &task, "cancelled");
        assert!(!yard.work().join("made").exists());
    }
}

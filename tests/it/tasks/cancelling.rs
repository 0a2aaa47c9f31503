//! The effect of `tasks/cancel` and of other endings on a task.

use serde_json::json;

use super::{SOON, UNTIL_GO, get, get_when, go, knows_tasks, modern, rpc, task_of};
use crate::harness::{Era, HttpLink, Launch, Marker, declaring};
use crate::tenants::tokens::create_token;

#[test]
fn cancelling_ends_the_whole_tree() {
    for mut server in modern(SOON) {
        let (inside, outside) = (Marker::new(), Marker::new());
        let task = task_of(&mut server, &format!("setsid sleep {outside} & sleep {inside}"));
        inside.wait_alive();
        outside.wait_alive();
        let answer = rpc(&mut server, "tasks/cancel", json!({"taskId": task}));
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        let over = get_when(&mut server, &task, "cancelled");
        assert!(over.get("result").is_none(), "{over}");
        inside.wait_gone();
        outside.wait_gone();
        let again = rpc(&mut server, "tasks/cancel", json!({"taskId": task}));
        assert_eq!(again["result"]["resultType"], "complete", "twice is no mistake: {again}");
    }
}

#[test]
fn cancelling_a_call_that_would_become_a_task_ends_its_job() {
    let mut server = Launch::stdio().era(Era::Modern).start();
    let marker = Marker::new();
    let arguments = json!({"command": format!("sleep {marker}"), "wait_s": 45});
    let call = json!({"name": "run_command", "arguments": arguments});
    let id = server.begin_with(declaring(knows_tasks(), call));
    marker.wait_alive();
    let reason = "AbortError: This operation was aborted";
    server.notify("notifications/cancelled", json!({"requestId": id, "reason": reason}));
    marker.wait_gone();
}

#[test]
fn what_is_over_is_not_cancelled() {
    for mut server in modern(SOON) {
        let task = task_of(&mut server, &format!("{UNTIL_GO}; echo kept"));
        go(&server);
        let over = get_when(&mut server, &task, "completed");
        rpc(&mut server, "tasks/cancel", json!({"taskId": task}));
        assert_eq!(get(&mut server, &task), over);
    }
}

#[test]
fn a_job_that_somebody_stops_is_a_completed_task() {
    for mut server in modern(SOON) {
        let marker = Marker::new();
        let task = task_of(&mut server, &format!("sleep {marker}"));
        server.call("stop_jobs", json!({"jobs": [1]})).ok();
        let over = get_when(&mut server, &task, "completed");
        assert!(super::text_of(&over["result"]).starts_with("stopped"), "{over}");
    }
}

#[test]
fn a_token_that_may_only_read_cancels_nothing() {
    let mut server = Launch::http().era(Era::Modern).config(SOON).start_silent();
    let [run, look] =
        ["run", "read-only"].map(|role| create_token(server.sandbox(), &["ann", "--role", role]).0);
    let mut link = |token: &str| {
        let mut link = HttpLink::new(Era::Modern);
        link.connect_to(server.http().address().to_owned());
        link.use_token(token);
        link
    };
    let (mut run, mut look) = (link(&run), link(&look));
    let marker = Marker::new();
    let arguments = json!({"command": format!("sleep {marker}")});
    let call = declaring(knows_tasks(), json!({"name": "run_command", "arguments": arguments}));
    let created = run.exchange(&Era::Modern.request(1, "tools/call", call));
    marker.wait_alive();
    let params = declaring(knows_tasks(), json!({"taskId": created["result"]["taskId"]}));
    let ask = |method| Era::Modern.request(2, method, params.clone());
    assert_eq!(look.exchange(&ask("tasks/get"))["result"]["status"], "working");
    let refused = look.exchange(&ask("tasks/cancel"));
    let message = refused["error"]["message"].as_str().expect("a refusal");
    assert!(message.contains("may only look at jobs"), "{refused}");
    assert_eq!(run.exchange(&ask("tasks/get"))["result"]["status"], "working");
    assert!(!marker.alive().is_empty());
}

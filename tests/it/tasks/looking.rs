//! The answers of `tasks/get`.

use serde_json::{Value, json};

use super::{SOON, UNTIL_GO, get, get_when, go, modern, rpc, run, task_of, text_of};
use crate::harness::{Era, HttpLink, Launch, Marker, declaring, eventually};

/// Writes a line, and ends once there is a file.
const UNTIL_TOLD: &str =
    "echo first; echo last line; until [ -e go ]; do sleep 0.05; done; echo over; exit 3";

#[test]
fn a_task_tells_its_last_line_and_at_the_end_what_the_call_would_have_answered() {
    for mut server in modern(SOON) {
        let task = task_of(&mut server, UNTIL_TOLD);
        eventually("the last line is told", || {
            let looked = get(&mut server, &task);
            let message = looked["statusMessage"].as_str().expect("a message");
            assert_eq!(looked["status"], "working", "{looked}");
            assert!(looked.get("result").is_none(), "{looked}");
            message.starts_with("running ") && message.ends_with(" · last line")
        });
        go(&server);
        let over = get_when(&mut server, &task, "completed");
        let message = over["statusMessage"].as_str().expect("a message");
        assert!(message.starts_with("exit 3") && message.ends_with(" · over"), "{over}");
        assert!(over.get("pollIntervalMs").is_none(), "nothing more comes: {over}");
        // Now it ends at once. Whoever knows no tasks gets the whole answer, however late.
        let arguments = json!({"command": UNTIL_TOLD, "wait_s": 45});
        let direct = server.call("run_command", arguments).0["result"].clone();
        assert_eq!(verdict_and_body(&over["result"]), verdict_and_body(&direct));
        assert_eq!(over["result"]["isError"], direct["isError"]);
        assert_eq!(get(&mut server, &task)["result"], over["result"], "it stays the same");
    }
}

#[test]
fn a_finished_task_tells_the_result_of_its_tools() {
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/summary/tests/logs/pytest/fail.log");
    for mut server in modern(SOON) {
        let task = task_of(&mut server, &format!("cat {log}; echo; echo; {UNTIL_GO}; exit 1"));
        go(&server);
        let over = get_when(&mut server, &task, "completed");
        let message = over["statusMessage"].as_str().expect("a message");
        let result = " · pytest: 9 failed, 10 passed, 1 skipped, 1 warning";
        assert!(message.starts_with("exit 1") && message.ends_with(result), "{over}");
    }
}

#[test]
fn a_task_tells_its_progress_above_empty_lines() {
    for mut server in modern(SOON) {
        let lines = r"echo begun; echo '[ 90/400] CXX unit.o'; echo note; echo; echo";
        let task = task_of(&mut server, &format!("{lines}; {UNTIL_GO}"));
        eventually("the progress is told", || {
            let looked = get(&mut server, &task);
            let message = looked["statusMessage"].as_str().expect("a message");
            message.ends_with(" · [ 90/400] CXX unit.o")
        });
        go(&server);
    }
}

/// A result's text without the time and the number in it.
#[track_caller]
fn verdict_and_body(result: &Value) -> (String, String) {
    let text = text_of(result);
    let (verdict, body) = text.split_once('\n').expect("a body");
    assert!(body.contains("first\nlast line\nover"), "{text}");
    (verdict.split(" · ").next().expect("an ending").to_owned(), body.to_owned())
}

#[test]
fn a_task_answers_within_the_budget_of_its_call() {
    for mut server in modern(SOON) {
        let command = format!("seq 1 20000; {UNTIL_GO}");
        let created = run(&mut server, json!({"command": command, "max_tokens": 500}));
        go(&server);
        let task = created["taskId"].as_str().expect("a task").to_owned();
        let over = get_when(&mut server, &task, "completed");
        let length = text_of(&over["result"]).len();
        assert!(length <= 1250, "500 tokens of 2.5 bytes: {length}");
    }
}

#[test]
fn secrets_are_masked_in_what_a_task_tells() {
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    for mut server in modern(SOON) {
        let command = format!("printf 'ghp_%s\\n' {}; {UNTIL_GO}", &secret[4..]);
        let task = task_of(&mut server, &command);
        go(&server);
        let over = get_when(&mut server, &task, "completed");
        assert!(!over.to_string().contains(secret), "{over}");
        assert!(over["statusMessage"].as_str().is_some_and(|it| it.contains(" · ")), "{over}");
    }
}

#[test]
fn an_id_that_names_no_task_is_answered_alike_whatever_is_wrong_with_it() {
    for mut server in modern(SOON) {
        let marker = Marker::new();
        let task = task_of(&mut server, &format!("sleep {marker}"));
        let other = task.replacen('1', "2", 1);
        let cut = &task[..task.len() - 1];
        let bare = task.strip_prefix("job-").expect("the job comes first");
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            for id in
                ["nonsense", "1", "job-1-8000-00000000000000000000000000000000", &other, cut, bare]
            {
                let answer = rpc(&mut server, method, json!({"taskId": id, "inputResponses": {}}));
                assert_eq!(answer["error"]["code"], -32602, "{method} {id}: {answer}");
                let message = answer["error"]["message"].as_str().expect("words");
                assert!(message.starts_with("no such task"), "{answer}");
            }
        }
        assert_eq!(get(&mut server, &task)["status"], "working");
    }
}

#[test]
fn a_task_lives_as_long_as_its_job_is_kept() {
    let config = format!("{SOON}[retention]\nmax_finished = 1\n");
    for mut server in modern(&config) {
        let task = task_of(&mut server, UNTIL_GO);
        go(&server);
        get_when(&mut server, &task, "completed");
        server.run("true");
        server.run("true");
        eventually("the task is freed with its job", || {
            let answer = rpc(&mut server, "tasks/get", json!({"taskId": task}));
            answer["error"]["code"] == -32602
        });
    }
}

#[test]
fn any_connection_of_the_tenant_may_ask() {
    let mut server = Launch::http().era(Era::Modern).config(SOON).start();
    let marker = Marker::new();
    let task = task_of(&mut server, &format!("sleep {marker}"));
    let mut other = HttpLink::new(Era::Modern);
    other.connect_to(server.http().address().to_owned());
    let params = declaring(super::knows_tasks(), json!({"taskId": task}));
    let answer = other.exchange(&Era::Modern.request(1, "tasks/get", params));
    assert_eq!(answer["result"]["status"], "working", "{answer}");
}

//! Submitting, stopping, typing and resizing.

use serde_json::{Value, json};

use super::{ApiCaller, code, number};
use crate::harness::{HttpRequest, Launch, Marker, TestServer, eventually, token};

fn start() -> (TestServer, [ApiCaller; 2]) {
    let mut server = Launch::http().structured().start();
    let callers = ApiCaller::both_ways(&mut server);
    (server, callers)
}

#[track_caller]
fn submit(caller: &ApiCaller, request: &Value) -> u64 {
    let (status, job) = caller.post("/jobs", request);
    assert_eq!(status, 202, "{job}");
    number(&job)
}

#[test]
fn a_job_is_submitted_with_a_command_or_a_program() {
    let (server, callers) = start();
    for caller in &callers {
        let directory = server.sandbox().path().to_str().expect("a path");
        let request = json!({"command": "echo $WORD; pwd", "env": {"WORD": "hi"}, "stdin": "",
            "directory": directory, "description": "says hi", "timeout_s": 50, "priority": "high"});
        let job = submit(caller, &request);
        let state = caller.wait_finished(job);
        assert_eq!((&state["exit_code"], &state["priority"]), (&json!(0), &json!("high")));
        assert_eq!(state["limits"]["timeout_s"], 50.0);
        assert_eq!(caller.read(&format!("/jobs/{job}/output")), format!("hi\n{directory}\n"));
        let job = submit(caller, &json!({"program": "echo", "args": ["a  b", "$x"], "stdin": ""}));
        caller.wait_finished(job);
        assert_eq!(caller.read(&format!("/jobs/{job}/output")), "a  b $x\n");
    }
    let request = HttpRequest::post("/api/v1/jobs", &json!({"command": "true"}));
    let (_, text) = callers[0].send(request.header("User-Agent", "mine/1.2 (x)"));
    assert!(
        text.contains(r#""client":"mine""#) && text.contains(r#""client_version":"1.2""#),
        "{text}"
    );
}

#[test]
fn a_key_names_one_job() {
    let (_server, [caller, _]) = start();
    let request = json!({"command": "true", "key": "once"});
    let first = submit(&caller, &request);
    assert_eq!(submit(&caller, &request), first);
    let (status, refused) = caller.post("/jobs", &json!({"command": "false", "key": "once"}));
    assert_eq!((status, code(&refused)), (409, "key_conflict"), "{refused}");
}

#[test]
fn a_job_that_the_rules_or_the_limits_refuse_is_not_run() {
    let config = "[policy]\ndeny = [\"rm *\"]\nask = [\"mv *\"]\n";
    let mut server = Launch::http().structured().config(config).start();
    let caller = ApiCaller::over_tcp(&mut server);
    for (request, status, expected) in [
        (json!({"command": "rm -r x"}), 422, "denied"),
        (json!({"command": "mv a b"}), 422, "needs_approval"),
        (json!({"command": " "}), 400, "empty_command"),
        (json!({"command": "true", "timeout_s": 1e9}), 400, "bad_timeout"),
        (json!({"command": "true", "lane": "none"}), 400, "unknown_lane"),
        (json!({"command": "true", "comand": "x"}), 400, "bad_body"),
        (json!({}), 400, "bad_body"),
        (json!([]), 400, "bad_body"),
    ] {
        let (found, answer) = caller.post("/jobs", &request);
        assert_eq!((found, code(&answer)), (status, expected), "{request}: {answer}");
    }
    assert_eq!(caller.get("/jobs").1["jobs"], json!([]), "nothing was run");
}

#[test]
fn a_job_is_stopped_with_a_signal_and_a_grace_period() {
    let (mut server, callers) = start();
    for caller in &callers {
        let marker = Marker::new();
        let job = server.start(&format!("sleep {marker}"));
        marker.wait_alive();
        let (status, state) = caller.post(&format!("/jobs/{job}/stop"), &json!({}));
        assert_eq!(status, 200, "{state}");
        assert!(state["state"] == "stopping" || state["state"] == "finished", "{state}");
        let state = caller.wait_finished(job);
        assert_eq!(
            (&state["outcome"], &state["stopped_by"]),
            (&json!("stopped"), &json!("client"))
        );
        marker.wait_gone();
        let job = server
            .start("trap 'exit 9' INT; trap '' TERM; echo ready; while :; do sleep 0.05; done");
        eventually("the trap is set", || caller.read(&format!("/jobs/{job}/output")) == "ready\n");
        let stop = json!({"signal": "INT", "grace_s": 60});
        assert_eq!(caller.post(&format!("/jobs/{job}/stop"), &stop).0, 200);
        let state = caller.wait_finished(job);
        assert!(state["killed"].as_str().expect("a note").contains("SIGINT"), "{state}");
    }
    let (status, answer) = callers[0].post("/jobs/1/stop", &json!({"signal": "WHAT"}));
    assert_eq!((status, code(&answer)), (400, "bad_body"));
    let (status, answer) = callers[0].post("/jobs/99/stop", &json!({}));
    assert_eq!((status, code(&answer)), (404, "unknown_job"));
}

#[test]
fn a_job_reads_what_is_typed_up_to_the_end() {
    let (_server, callers) = start();
    for caller in &callers {
        let job = submit(caller, &json!({"command": "cat"}));
        let input = format!("/jobs/{job}/input");
        eventually("it runs", || caller.get(&format!("/jobs/{job}")).1["state"] == "running");
        assert_eq!(
            caller.post(&input, &json!({"text": "grüße\n"})).1,
            json!({"accepted_bytes": 8})
        );
        let last = json!({"base64": "/wo=", "end": true});
        assert_eq!(caller.post(&input, &last).1, json!({"accepted_bytes": 2}));
        caller.wait_finished(job);
        let mut connection = caller.open(HttpRequest::get(&format!("/api/v1/jobs/{job}/output")));
        assert_eq!(
            connection.answer().bytes(),
            "grüße\n".bytes().chain(*b"\xff\n").collect::<Vec<_>>()
        );
        let (status, late) = caller.post(&input, &json!({"text": "x"}));
        assert_eq!((status, code(&late)), (409, "job_finished"));
        let (status, nothing) = caller.post(&input, &json!({}));
        assert_eq!((status, code(&nothing)), (400, "bad_body"));
    }
}

#[test]
fn a_terminal_gets_the_size_that_it_is_given() {
    let (_server, [caller, _]) = start();
    let command = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done";
    let request = json!({"command": command, "terminal": true, "rows": 31, "columns": 97});
    let job = submit(&caller, &request);
    assert_eq!(caller.get(&format!("/jobs/{job}")).1["terminal"], true);
    let output = format!("/jobs/{job}/output");
    eventually("it is ready", || caller.read(&output).contains("ready"));
    let resize = format!("/jobs/{job}/resize");
    let (status, answer) = caller.post(&resize, &json!({"rows": 25, "columns": 81}));
    assert_eq!((status, answer), (200, json!({"rows": 25, "columns": 81})));
    eventually("it hears of the size", || caller.read(&output).contains("25 81"));
    for bad in [json!({}), json!({"rows": 0, "columns": 1}), json!({"rows": 5})] {
        assert_eq!(caller.post(&resize, &bad).0, 400, "{bad}");
    }
    let plain = submit(&caller, &json!({"command": "sleep 1000"}));
    eventually("it runs", || caller.get(&format!("/jobs/{plain}")).1["state"] == "running");
    let size = json!({"rows": 25, "columns": 81});
    let (status, answer) = caller.post(&format!("/jobs/{plain}/resize"), &size);
    assert_eq!((status, code(&answer)), (409, "no_terminal"));
}

#[test]
fn a_terminal_has_its_size_from_the_start() {
    let (_server, [caller, _]) = start();
    let command = "until [ \"$(stty size)\" = '31 97' ]; do sleep 0.02; done; stty size";
    let request = json!({"command": command, "terminal": true, "rows": 31, "columns": 97});
    let job = submit(&caller, &request);
    caller.wait_finished(job);
    assert!(caller.read(&format!("/jobs/{job}/output")).contains("31 97"));
}

#[test]
fn nobody_acts_without_a_valid_token() {
    let mut server = Launch::http().guarded().start_silent();
    let caller = ApiCaller::over_tcp(&mut server);
    for (path, body) in [
        ("/api/v1/jobs", r#"{"command":"touch here"}"#),
        ("/api/v1/jobs/1/stop", "{}"),
        ("/api/v1/jobs/1/input", r#"{"text":"x"}"#),
        ("/api/v1/jobs/1/resize", r#"{"rows":5,"columns":5}"#),
    ] {
        let request = || HttpRequest::post_bytes(path, body.as_bytes().to_vec());
        assert_eq!(caller.send(request()).0, 401, "{path}");
        assert_eq!(caller.with_token("wrong").send(request()).0, 401, "{path}");
        let status = caller.with_token(token()).send(request()).0;
        assert!([200, 202, 404, 409].contains(&status), "{path}: {status}");
    }
}

//! Traces: a context that comes in with a call is found again in all that the call leads to.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{
    Era, HttpConnection, HttpRequest, Launch, Reply, Sandbox, TestServer, assert_nothing_null,
    eventually, eventually_some, run_program,
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const BOTH_ERAS: [Era; 2] = [Era::Legacy("2025-11-25"), Era::Modern];

fn with_json_log(launch: Launch) -> Launch {
    launch.structured().args(&["--log-format", "json"])
}

/// Runs a command in a call with this `_meta`.
#[track_caller]
fn run_in(server: &mut TestServer, meta: &Value, arguments: Value) -> Reply {
    let params = json!({"name": "run_command", "arguments": arguments, "_meta": meta});
    Reply(server.rpc("tools/call", params))
}

/// Runs a command in a call with these headers.
#[track_caller]
fn run_with_headers(server: &mut TestServer, headers: &[(&str, &str)], meta: &Value) -> Reply {
    let arguments = json!({"command": "true"});
    let params = json!({"name": "run_command", "arguments": arguments, "_meta": meta});
    let id = server.fresh_id();
    let link = server.http();
    let mut request = link.request(&link.era().request(id, "tools/call", params));
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut connection = HttpConnection::open(link.address());
    connection.send(&request);
    Reply(connection.answer().message().expect("an answer"))
}

/// The log lines that say this.
fn lines(server: &TestServer, words: &str) -> Vec<String> {
    let log_text = server.log_text();
    log_text.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
}

/// Checks that these lines are written, and that each of them names the trace.
#[track_caller]
fn assert_logged(server: &TestServer, words: &[&str]) {
    for word in words {
        eventually(&format!("the log says {word}"), || !lines(server, word).is_empty());
        for line in lines(server, word) {
            assert!(line.contains(TRACE), "{word}: {line}");
        }
    }
}

#[track_caller]
fn api(server: &mut TestServer, path: &str) -> Value {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get(path));
    serde_json::from_str(&connection.answer().text()).expect("JSON")
}

/// The audit log's lines, once there is an ending among them.
#[track_caller]
fn audit(server: &TestServer) -> Vec<Value> {
    let log = server.sandbox().data().join("audit.jsonl");
    let entries = eventually_some("an ending is written", || {
        let text = fs::read_to_string(&log).ok()?;
        text.contains("\"ending\"").then_some(text)
    });
    let verified = run_program(&Sandbox::new(), &["audit", "verify", log.to_str().expect("UTF-8")]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    entries.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_context_in_the_request_is_found_in_reply_log_and_audit() {
    for era in BOTH_ERAS {
        for launch in Launch::both() {
            let mut server = with_json_log(launch).era(era).start();
            let meta = json!({"traceparent": PARENT});
            let reply = run_in(&mut server, &meta, json!({"command": "exit 3"})).ok();
            assert_eq!(reply["trace_id"], TRACE);
            assert_nothing_null(reply.structured());
            let listed = server.call("list_jobs", json!({})).ok();
            assert_eq!(listed.only_job()["trace_id"], TRACE, "also for whoever looks later");
            assert_logged(&server, &["job finished"]);
            let entries = audit(&server);
            for event in ["decision", "ending"] {
                let entry = entries.iter().find(|entry| entry["event"] == event);
                assert_eq!(entry.expect(event)["trace_id"], TRACE, "{entries:?}");
            }
        }
    }
}

#[test]
fn a_context_in_the_headers_counts_where_the_request_has_none() {
    for era in BOTH_ERAS {
        let mut server = with_json_log(Launch::http()).era(era).start();
        let headers = [("traceparent", PARENT), ("tracestate", "vendor=1")];
        let reply = run_with_headers(&mut server, &headers, &json!({})).ok();
        assert_eq!(reply["trace_id"], TRACE);
        assert_logged(&server, &["job finished"]);
        let job = reply.job();
        assert_eq!(api(&mut server, &format!("/api/v1/jobs/{job}"))["trace_id"], TRACE);
        assert_eq!(api(&mut server, "/api/v1/jobs")["jobs"][0]["trace_id"], TRACE);
        let in_headers = [("traceparent", OTHER)];
        let reply =
            run_with_headers(&mut server, &in_headers, &json!({"traceparent": PARENT})).ok();
        assert_eq!(reply["trace_id"], TRACE, "the request itself comes first");
    }
}

#[test]
fn what_is_no_context_begins_a_trace_that_only_the_server_tells_of() {
    let zeros = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
    let mut server = with_json_log(Launch::http()).start();
    let mut seen = Vec::new();
    for meta in [json!({}), json!({"traceparent": zeros}), json!({"traceparent": 7})] {
        let reply = run_in(&mut server, &meta, json!({"command": "echo [$TRACEPARENT]"})).ok();
        assert!(reply.structured().get("trace_id").is_none(), "{meta}: {}", reply.0);
        assert_eq!(reply["output"], "[]\n", "{meta}");
        let job = api(&mut server, &format!("/api/v1/jobs/{}", reply.job()));
        let trace = job["trace_id"].as_str().expect("it has one").to_owned();
        assert!(trace.len() == 32 && !seen.contains(&trace), "{job}");
        eventually("its end is logged with it", || {
            lines(&server, "job finished").iter().any(|line| line.contains(&trace))
        });
        seen.push(trace);
    }
}

#[test]
fn a_job_learns_of_the_trace_that_its_caller_keeps() {
    // Rules speak of what callers set; this is none of it.
    let rules =
        "[policy]\nallow = [\"printf\", \"echo\"]\n[environment]\nset = [\"TRACESTATE=old=1\"]\n";
    for launch in Launch::both() {
        let mut server = launch.structured().config(rules).start();
        let print = json!({"command": "printf '%s %s' \"$TRACEPARENT\" \"$TRACESTATE\""});
        let meta = json!({"traceparent": PARENT, "tracestate": "vendor=1"});
        let output = run_in(&mut server, &meta, print.clone()).ok()["output"].clone();
        let (parent, state) = output.as_str().expect("text").split_once(' ').expect("two words");
        let parts: Vec<&str> = parent.split('-').collect();
        assert_eq!((parts[0], parts[1], parts[3]), ("00", TRACE, "01"), "{parent}");
        assert_ne!(parts[2], "00f067aa0ba902b7", "a span of its own");
        assert_eq!(state, "vendor=1");
        let stateless = run_in(&mut server, &json!({"traceparent": PARENT}), print.clone()).ok();
        let output = stateless["output"].as_str().expect("text").to_owned();
        assert!(output.ends_with("-01 "), "no state of another trace: {output}");
        let untold = run_in(&mut server, &json!({}), print).ok();
        assert_eq!(untold["output"], " old=1", "nobody sent one");
    }
}

#[test]
fn what_a_caller_sets_itself_stays() {
    let mut server = Launch::stdio().structured().start();
    let command = "printf '%s %s' \"$TRACEPARENT\" \"$TRACESTATE\"";
    let arguments = json!({"command": command, "env": {"TRACEPARENT": "mine"}});
    let meta = json!({"traceparent": PARENT, "tracestate": "vendor=1"});
    assert_eq!(run_in(&mut server, &meta, arguments).ok()["output"], "mine ");
}

#[test]
fn the_text_of_a_reply_says_nothing_of_it() {
    let mut server = Launch::stdio().start();
    let reply = run_in(&mut server, &json!({"traceparent": PARENT}), json!({"command": "echo hi"}));
    assert!(!reply.0.to_string().contains(TRACE), "{}", reply.0);
}

#[test]
fn a_refusal_and_a_loss_of_output_are_logged_with_it() {
    let config = "[output]\nmax_store = \"1 MiB\"\n[policy]\ndeny = [\"rm\"]\n";
    let mut server = with_json_log(Launch::stdio()).config(config).start();
    let meta = json!({"traceparent": PARENT});
    run_in(&mut server, &meta, json!({"command": "rm x"})).error_text();
    run_in(&mut server, &meta, json!({"command": "head -c 3000000 /dev/zero"})).ok();
    assert_logged(&server, &["job rejected", "output dropped"]);
}

#[test]
fn a_job_is_freed_under_the_trace_that_it_was_run_in() {
    let launch = with_json_log(Launch::stdio())
        .config("[log]\nfilter = \"debug\"\n[retention]\nmax_finished = 1\n");
    let mut server = launch.start();
    run_in(&mut server, &json!({"traceparent": PARENT}), json!({"command": "true"})).ok();
    run_in(&mut server, &json!({"traceparent": OTHER}), json!({"command": "true"})).ok();
    assert_logged(&server, &["job freed"]);
}

#[test]
fn an_operators_change_is_logged_with_the_context_of_its_headers() {
    let mut server = with_json_log(Launch::http()).start();
    let mut connection = HttpConnection::open(server.http().address());
    let request = HttpRequest::post_bytes("/api/v1/queue/pause", Vec::new());
    connection.send(&request.header("traceparent", PARENT));
    assert_eq!(connection.answer().status, 200);
    assert_logged(&server, &["\"operator action\""]);
}

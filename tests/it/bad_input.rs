//! Bad input gets an error that says what was wrong; the server goes on and other jobs do not
//! notice.

use serde_json::{Value, json};

use crate::harness::{HttpConnection, HttpRequest, Launch, Marker, TestServer};

/// One wrong call, and words that its error must have.
struct Case {
    tool: &'static str,
    arguments: Value,
    words: &'static [&'static str],
}

const fn case(tool: &'static str, arguments: Value, words: &'static [&'static str]) -> Case {
    Case { tool, arguments, words }
}

#[track_caller]
fn check(server: &mut TestServer, case: &Case) {
    let reply = server.call(case.tool, case.arguments.clone());
    let text = reply.error_text();
    let sent: String = case.arguments.to_string().chars().take(200).collect();
    for word in case.words {
        assert!(
            text.to_lowercase().contains(&word.to_lowercase()),
            "{}({sent}): `{word}` is missing in: {text}",
            case.tool
        );
    }
    assert!(text.len() < 4096, "{}({sent}): a short error, not {} bytes", case.tool, text.len());
}

/// Checks every case on both transports, beside a job that must not notice.
#[track_caller]
fn check_all(cases: &[Case]) {
    for launch in Launch::both() {
        let mut server = launch.structured().start();
        let marker = Marker::new();
        let bystander = server.start(&format!("read line; echo heard $line; : {marker}"));
        for case in cases {
            check(&mut server, case);
            server.assert_alive();
        }
        server.call("send_input", json!({"job": bystander, "text": "you\n"})).ok();
        assert_eq!(server.wait_finished(bystander)["exit_code"], 0);
        let page = server.call("read_output", json!({"job": bystander})).ok();
        assert_eq!(page["output"], "heard you\n");
    }
}

#[test]
fn unknown_tools_and_jobs_are_named() {
    check_all(&[
        case("no_such_tool", json!({}), &["no_such_tool"]),
        case("read_output", json!({"job": 4711}), &["4711", "list_jobs"]),
        case("wait_jobs", json!({"jobs": [4711]}), &["4711"]),
        case("stop_jobs", json!({"jobs": [4711]}), &["4711"]),
        case("send_input", json!({"job": 4711, "text": "x"}), &["4711"]),
        case("read_output", json!({"job": 0}), &["job"]),
        case("read_output", json!({"job": -1}), &["job"]),
        case("read_output", json!({"job": 1.5}), &["job"]),
        case("read_output", json!({"job": "abc"}), &["abc"]),
        case("wait_jobs", json!({"jobs": []}), &["jobs"]),
        case("stop_jobs", json!({"jobs": []}), &["jobs"]),
    ]);
}

#[test]
fn bad_cursors_are_named() {
    check_all(&[
        case("read_output", json!({"job": 1, "cursor": "bytes:-1"}), &["bytes:-1"]),
        case("read_output", json!({"job": 1, "cursor": "bytes:"}), &["bytes:"]),
        case("read_output", json!({"job": 1, "cursor": "bytes:x"}), &["bytes:x"]),
        case("read_output", json!({"job": 1, "cursor": "garbage"}), &["garbage"]),
        case("read_output", json!({"job": 1, "cursor": "line:0"}), &["line:0"]),
        case(
            "read_output",
            json!({"job": 1, "cursor": "bytes:99999999999999999999999"}),
            &["99999999999999999999999"],
        ),
        case("read_output", json!({"job": 1, "cursor": "job:99:bytes:0"}), &["99"]),
        case("read_output", json!({"job": 1, "line": -5}), &["line"]),
        case("wait_jobs", json!({"jobs": [1], "cursor": "nonsense"}), &["nonsense"]),
    ]);
}

#[test]
fn a_cursor_beyond_the_end_is_told_apart_from_an_empty_page() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run("echo hi").job();
    let reply = server.call("read_output", json!({"job": job, "cursor": "bytes:1000000"}));
    if reply.is_error() {
        assert!(reply.error_text().contains('3'), "the end is named: {}", reply.0);
    } else {
        assert_eq!(reply["end"], "complete", "{}", reply.0);
        assert_eq!(reply["total_bytes"], 3);
        assert_eq!(reply["output"], "");
    }
    server.assert_alive();
}

#[test]
fn wrong_types_are_named() {
    check_all(&[
        case("run_command", json!({"command": ["ls"]}), &["command"]),
        case("run_command", json!({"command": {"a": 1}}), &["command"]),
        case("run_command", json!({}), &["command"]),
        case("run_command", json!({"command": "true", "args": {"a": 1}}), &["args"]),
        case("run_command", json!({"command": "true", "args": [1, {}]}), &["args"]),
        case("run_command", json!({"command": "true", "env": "A=b"}), &["env"]),
        case("run_command", json!({"command": "true", "env": {"A": {}}}), &["env"]),
        case("run_command", json!({"command": "true", "env": {"A=B": "c"}}), &["env"]),
        case("run_command", json!({"command": "true", "cwd": 7}), &["cwd"]),
        case("run_command", json!({"command": "true", "wait_s": "soon"}), &["wait_s"]),
        case("run_command", json!({"command": "true", "wait_s": -1}), &["wait_s"]),
        case("run_command", json!({"command": "true", "tty": "maybe"}), &["tty"]),
        case("run_command", json!({"command": "true", "comand": "x"}), &["comand"]),
        case("wait_jobs", json!({"jobs": [1], "mode": "some"}), &["some", "any", "all"]),
        case("read_output", json!({"job": 1, "view": "sideways"}), &["sideways", "tail"]),
        case("read_output", json!({"job": 1, "stream": "stdlog"}), &["stdlog", "stderr"]),
        case("read_output", json!({"job": 1, "max_bytes": -3}), &["max_bytes"]),
        case("read_output", json!({"job": 1, "max_lines": "many"}), &["max_lines"]),
        case("stop_jobs", json!({"jobs": [1], "signal": "SIGNOPE"}), &["SIGNOPE"]),
        case("stop_jobs", json!({"jobs": [1], "grace_s": -1}), &["grace_s"]),
        case("send_input", json!({"job": 1}), &["text"]),
        case("send_input", json!({"job": 1, "key": "any_key"}), &["any_key", "ctrl_c"]),
        case("list_jobs", json!({"state": "bored"}), &["bored", "running"]),
        case("list_jobs", json!({"limit": -1}), &["limit"]),
    ]);
}

#[test]
fn a_command_that_is_no_text_is_refused_and_not_run() {
    check_all(&[
        case("run_command", json!({"command": 5}), &["command", "text"]),
        case("run_command", json!({"command": true}), &["command", "text"]),
    ]);
}

#[test]
fn commands_and_times_that_make_no_sense_are_named() {
    check_all(&[
        case("run_command", json!({"command": ""}), &["empty"]),
        case("run_command", json!({"command": "  \n "}), &["empty"]),
        case(
            "run_command",
            json!({"command": "true", "cwd": "/no/such/place"}),
            &["/no/such/place"],
        ),
        case("run_command", json!({"command": "true", "timeout_s": -4}), &["timeout"]),
        case("run_command", json!({"command": "true", "timeout_s": 1e15}), &["timeout", "604800"]),
        case("run_command", json!({"command": "true", "timeout_s": "1e400"}), &["timeout"]),
        case("run_command", json!({"command": "true", "lane": "nowhere"}), &["nowhere", "build"]),
        case("run_command", json!({"command": "echo a\u{0}b"}), &["NUL"]),
    ]);
}

#[test]
fn bad_patterns_and_queries_are_named() {
    check_all(&[
        case("read_output", json!({"job": 1, "grep": "(unclosed"}), &["unclosed"]),
        case("read_output", json!({"job": 1, "grep": "x{1000000000}"}), &["x{1000000000}"]),
        case("read_output", json!({"job": 1, "query": "a[["}), &["a[["]),
        case("wait_jobs", json!({"jobs": [1], "until": "[z-a]"}), &["[z-a]"]),
    ]);
}

#[test]
fn a_query_on_output_that_is_no_json_says_so() {
    let mut server = Launch::stdio().start();
    let job = server.run("echo this is prose").job();
    let reply = server.call("read_output", json!({"job": job, "query": "a"}));
    assert!(reply.error_text().contains("JSON"), "{}", reply.0);
}

#[test]
fn twenty_megabytes_of_arguments_over_stdio_get_an_error() {
    let mut server = Launch::stdio().structured().start();
    let huge = "x".repeat(20 << 20);
    let id = server.begin("run_command", json!({"command": "true", "args": [huge]}));
    // Only an answer with the request's own id ends the caller's wait.
    let reply = server.finish(id);
    assert!(reply.error_text().contains("bytes"), "it says what is allowed: {}", reply.0);
    server.assert_alive();
}

#[test]
fn twenty_megabytes_of_arguments_over_http_get_an_error() {
    let mut server = Launch::http().structured().start();
    let huge = "x".repeat(20 << 20);
    let params = json!({"name": "run_command", "arguments": {"command": "true", "args": [huge]}});
    let message = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params});
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::post("/mcp", &message));
    let answer = connection.answer();
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains('4'), "it says what is allowed");
    server.assert_alive();
}

#[test]
fn three_megabytes_of_stdin_are_fine() {
    let mut server = Launch::stdio().structured().start();
    let text = "0123456789abcde\n".repeat(3 << 16);
    let reply = server.call("run_command", json!({"command": "wc -c", "stdin": text})).ok();
    assert_eq!(reply["output"].as_str().map(str::trim), Some("3145728"));
}

#[test]
fn the_same_request_id_twice_is_answered_twice() {
    let mut server = Launch::stdio().structured().start();
    let call = |command: &str| {
        let params = json!({"name": "run_command", "arguments": {"command": command}});
        json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": params})
    };
    server.stdio().send(&call("sleep 0.3; echo one"));
    server.stdio().send(&call("sleep 0.3; echo two"));
    let answers = [server.stdio().response(77), server.stdio().response(77)];
    assert!(answers.iter().any(|answer| answer.get("result").is_some()), "{answers:?}");
    server.assert_alive();
}

//! Refusals at the MCP endpoint are JSON-RPC errors, and quiet calls show signs of life.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Era, HttpConnection, HttpRequest, Launch, TestServer};

const LEGACY: Era = Era::Legacy("2025-11-25");

/// The status of an answer, and its error.
#[track_caller]
fn refused(server: &mut TestServer, request: &HttpRequest) -> (u16, Value) {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(request);
    let mut answer = connection.answer();
    assert_eq!(answer.header("content-type"), Some("application/json"));
    (answer.status, answer.message().expect("an error"))
}

#[track_caller]
fn check(server: &mut TestServer, request: &HttpRequest, (status, code, id): (u16, i64, Value)) {
    let (told, error) = refused(server, request);
    let found = (told, &error["error"]["code"], error.get("id"));
    assert_eq!(found, (status, &json!(code), Some(&id)), "{request:?}: {error}");
    assert!(error["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
}

#[test]
fn a_refusal_is_a_json_rpc_error_with_the_id_of_its_request() {
    let mut server = Launch::http().start();
    let message = LEGACY.request(7, "tools/list", json!({}));
    let own = server.http().request(&message);
    let bare = HttpRequest::post("/mcp", &message);
    let with = |name: &str, value: &str| bare.clone().header(name, value);
    let session = server.http().session().to_owned();
    let other_kind = HttpRequest { headers: Vec::new(), ..own.clone() }
        .header("Accept", "application/json, text/event-stream")
        .header("Content-Type", "text/plain");
    let html = HttpRequest { headers: Vec::new(), ..own.clone() }
        .header("Accept", "text/html")
        .header("Content-Type", "application/json");
    for (request, status) in [
        (with("Mcp-Session-Id", &session).header("MCP-Protocol-Version", "1999-01-01"), 400),
        (with("Mcp-Session-Id", "nobody's"), 404),
        (bare.clone(), 400),
        (other_kind, 415),
        (html, 406),
    ] {
        check(&mut server, &request, (status, -32600, json!(7)));
    }
    // Nobody has read these.
    check(&mut server, &own.clone().header("Origin", "http://evil"), (403, -32600, Value::Null));
    check(&mut server, &own.header("Host", "evil"), (403, -32600, Value::Null));
    server.assert_alive();
}

#[test]
fn modern_refusals_keep_their_status() {
    let mut server = Launch::http().era(Era::Modern).start();
    let list = Era::Modern.request(7, "tools/list", json!({}));
    let unknown = Era::Modern.request(8, "no/such", json!({}));
    let bare = |method: &str| {
        let request = HttpRequest::post("/mcp", &list).header("Mcp-Method", method);
        request.header("MCP-Protocol-Version", "2026-07-28")
    };
    check(&mut server, &bare("tools/call"), (400, -32020, json!(7)));
    let unknown = server.http().request(&unknown);
    check(&mut server, &unknown, (404, -32601, json!(8)));
}

#[test]
fn whoever_has_no_token_is_told_so_in_json_rpc() {
    let mut server = Launch::http().guarded().start_silent();
    let request = HttpRequest::post("/mcp", &LEGACY.request(7, "ping", json!({})));
    check(&mut server, &request, (401, -32600, Value::Null));
}

#[test]
fn a_client_that_sends_a_hundred_megabytes_reads_why_they_are_not_taken() {
    let mut server = Launch::http().start();
    let mut connection = HttpConnection::open(server.http().address());
    let size = 100 << 20;
    let head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n");
    connection.send_bytes(head.as_bytes());
    connection.try_send(&vec![b'x'; size]).expect("all of it can be sent");
    let mut answer = connection.answer();
    assert_eq!((answer.status, answer.header("content-type")), (413, Some("application/json")));
    let error = answer.message().expect("an error");
    assert_eq!((&error["error"]["code"], error.get("id")), (&json!(-32600), Some(&Value::Null)));
    server.assert_alive();
}

#[test]
fn a_quiet_modern_call_is_begun_to_be_answered_before_its_job_has_ended() {
    let mut server = Launch::http().era(Era::Modern).start();
    let arguments = json!({"command": "while [ ! -e gate ]; do sleep 0.05; done; echo over"});
    let params = json!({"name": "run_command", "arguments": arguments});
    let mut connection = server.http().post(&Era::Modern.request(7, "tools/call", params));
    let mut answer = connection.answer();
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    let result = answer.message().expect("an answer");
    assert!(result["result"].to_string().contains("over"), "{result}");
    let list = Era::Modern.request(8, "tools/list", json!({}));
    let mut connection = server.http().post(&list);
    assert_eq!(connection.answer().header("content-type"), Some("application/json"));
}

#[cfg(feature = "conformance")]
#[test]
fn a_panic_is_an_error_and_the_server_goes_on() {
    let [stdio, legacy] = Launch::both();
    for launch in [stdio, legacy, Launch::http().era(Era::Modern)] {
        let mut server = launch.args(&["--dialect", "native,conformance"]).start();
        let reply = server.rpc("tools/call", json!({"name": "test_panic", "arguments": {}}));
        assert_eq!(reply["error"]["code"], -32603, "{reply}");
        server.assert_alive();
        server.run("echo still here").ok();
    }
}

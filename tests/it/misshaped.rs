//! Messages that are not valid: bounded, and answered with the right code.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{
    Era, HttpConnection, HttpLink, HttpRequest, Launch, Marker, TestServer, eventually,
    peak_rss_kib,
};

const LEGACY: Era = Era::Legacy("2025-11-25");
const LEVELS: usize = 10_000;

/// A message, the code of its answer, and the id in the answer.
fn cases() -> Vec<(String, i64, Value)> {
    let deep = format!("{}{}", "[".repeat(LEVELS), "]".repeat(LEVELS));
    let call = |id: u64, key: &str| format!(r#""id":{id},"method":"tools/call","{key}":{deep}"#);
    let modern = Era::Modern.request(4714, "tools/list", json!({})).to_string();
    vec![
        (batch(1), -32600, Value::Null),
        (batch(10_000), -32600, Value::Null),
        ("[]".to_owned(), -32600, Value::Null),
        (deep.clone(), -32700, Value::Null),
        (format!(r#"{{"jsonrpc":"2.0",{}}}"#, call(4711, "params")), -32700, json!(4711)),
        (format!(r#"{{"params":{deep},"jsonrpc":"2.0","id":4712}}"#), -32700, json!(4712)),
        (r#"{"jsonrpc":"2.0","id":4713,"method":"no/such"}"#.to_owned(), -32601, json!(4713)),
        (with_params("[1]"), -32602, json!(4715)),
        (with_params(r#""x""#), -32602, json!(4715)),
        (with_params("5"), -32602, json!(4715)),
        (r#"{"jsonrpc":"2.0","id":4716"#.to_owned(), -32700, Value::Null),
        (r#"{"jsonrpc":"1.0","id":4717,"method":"ping"}"#.to_owned(), -32600, json!(4717)),
        (modern.replace("2026-07-28", "2099-01-01"), -32022, json!(4714)),
    ]
}

fn batch(size: usize) -> String {
    let messages: Vec<Value> =
        (0..size).map(|id| LEGACY.request(id as u64, "ping", json!({}))).collect();
    json!(messages).to_string()
}

fn with_params(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":4715,"method":"tools/list","params":{params}}}"#)
}

#[track_caller]
fn check_lines(server: &mut TestServer) {
    for (line, code, id) in cases() {
        server.stdio().send_line(&line);
        let sent: String = line.chars().take(80).collect();
        let answer = server.stdio().receive(&sent, |message| message.get("error").is_some());
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{sent}");
    }
    server.assert_alive();
}

#[test]
fn every_misshaped_line_is_answered_with_its_code_and_its_id() {
    check_lines(&mut Launch::stdio().start());
}

#[test]
fn and_so_it_is_through_a_proxy() {
    let server = Launch::http().start();
    let data = server.sandbox().data();
    check_lines(&mut Launch::stdio().data(&data).args(&["--connect"]).start());
}

#[test]
fn every_misshaped_body_is_answered_with_its_code_and_its_id() {
    let mut server = Launch::http().start();
    for (body, code, id) in cases() {
        let sent: String = body.chars().take(80).collect();
        let mut request = HttpRequest::post_bytes("/mcp", body.into_bytes());
        if code == -32022 {
            request = request
                .header("MCP-Protocol-Version", "2099-01-01")
                .header("Mcp-Method", "tools/list");
        } else {
            let session = server.http().session().to_owned();
            request = request.header("Mcp-Session-Id", &session);
        }
        let mut connection = HttpConnection::open(server.http().address());
        connection.send(&request);
        let mut answer = connection.answer();
        let told = answer.message().expect("a message");
        assert_eq!(told["error"]["code"], code, "{sent}: {told}");
        assert_eq!(told.get("id"), Some(&id), "{sent}: {told}");
    }
    server.assert_alive();
}

#[test]
fn a_line_of_a_hundred_megabytes_is_refused_in_little_memory() {
    let mut server = Launch::stdio().start();
    let id = server.begin("run_command", json!({"command": "x".repeat(100 << 20)}));
    let reply = server.finish(id);
    assert_eq!(reply.0["error"]["code"], -32600, "{}", reply.0);
    let peak = peak_rss_kib(server.server_pid());
    assert!(peak < 90 << 10, "{peak} KiB for a line that is not taken");
    server.assert_alive();
}

/// A call that comes back when the file `gate` is there.
fn gated(id: u64, marker: &Marker) -> Value {
    let gate = "while [ ! -e gate ]; do sleep 0.05; done";
    let command = format!("sleep {marker} & {gate}; kill $!; echo through");
    let arguments = json!({"command": command, "wait_s": 45});
    LEGACY.request(id, "tools/call", json!({"name": "run_command", "arguments": arguments}))
}

fn open_gate(server: &TestServer) {
    fs::write(server.work().join("gate"), "").expect("the gate opens");
}

/// The first message that answers a request.
#[track_caller]
fn answer_on(connection: &mut HttpConnection) -> Value {
    connection.answer().message().expect("an answer")
}

#[test]
fn an_id_in_use_in_a_legacy_session_is_refused_and_its_first_call_goes_on() {
    let marker = Marker::new();
    let mut server = Launch::http().start();
    let call = gated(77, &marker);
    let mut first = server.http().post(&call);
    marker.wait_alive();
    let refused = answer_on(&mut server.http().post(&call));
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(77), &json!(-32600)));
    open_gate(&server);
    let answer = answer_on(&mut first);
    assert!(answer["result"].to_string().contains("through"), "{answer}");
    let again = answer_on(&mut server.http().post(&LEGACY.request(77, "ping", json!({}))));
    assert!(again["result"].is_object(), "the id is free again: {again}");
}

/// Legacy sessions that are open.
#[track_caller]
fn sessions(server: &mut TestServer) -> String {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get("/metrics"));
    let text = connection.answer().text();
    let name = "shellyard_mcp_sessions{transport=\"http\"} ";
    text.lines().find_map(|line| line.strip_prefix(name)).expect("the gauge").to_owned()
}

#[test]
fn an_idle_session_ends_and_one_with_a_call_in_work_does_not() {
    let marker = Marker::new();
    let mut server = Launch::http().config("[http]\nsession_idle_s = 4\n").start();
    let call = server.http().post(&gated(77, &marker));
    marker.wait_alive();
    // It hangs up, which in this era is no cancellation: the call goes on.
    drop(call);
    let mut idle = HttpLink::new(LEGACY);
    idle.connect_to(server.http().address().to_owned());
    let info = json!({"name": "it", "version": "1"});
    let params =
        json!({"protocolVersion": LEGACY.version(), "capabilities": {}, "clientInfo": info});
    idle.exchange(&LEGACY.request(1, "initialize", params));
    eventually("the idle session ends", || sessions(&mut server) == "1");
    let ping = LEGACY.request(2, "ping", json!({}));
    assert_eq!(idle.post(&ping).answer().status, 404, "its client is to initialize again");
    assert!(server.rpc("ping", json!({}))["result"].is_object(), "the other one is there");
    open_gate(&server);
    eventually("the other one is idle as well, and ends", || sessions(&mut server) == "0");
}

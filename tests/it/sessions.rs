//! HTTP sessions of legacy clients: how their streams begin, how they outlive a restart, and when
//! their client counts as gone.

use std::fs;
use std::io::Read as _;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{
    Era, HttpConnection, HttpLink, HttpRequest, Launch, Marker, TestServer, eventually, private_dir,
};
use crate::tenants::tokens::create_token;

const LIST_CHANGED: &str = "notifications/resources/list_changed";

const IN_FLIGHT: &str = "shellyard_mcp_operations_in_flight{class=\"run\"}";

const LEGACY: Era = Era::Legacy("2025-11-25");

fn handshake(version: &str) -> Value {
    let info = json!({"name": "it", "version": "1"});
    json!({"protocolVersion": version, "capabilities": {}, "clientInfo": info})
}

/// The line by which an event stream starts a new event without any message.
fn is_empty_data(line: &str) -> bool {
    line.strip_prefix("data:").is_some_and(|data| data.trim().is_empty())
}

/// Reads a stream up to these words.
#[track_caller]
fn read_up_to(connection: &mut HttpConnection, words: &str) -> String {
    let mut answer = connection.answer();
    assert_eq!(answer.status, 200);
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&bytes).contains(words) {
        assert_eq!(answer.body().read(&mut byte).expect("the stream goes on"), 1);
        bytes.push(byte[0]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The text of every kind of stream that a session has: of the handshake, of a call, its own.
#[track_caller]
fn streams(version: &'static str) -> [String; 3] {
    let era = Era::Legacy(version);
    let mut server = Launch::http().era(era).start();
    let mut other = HttpLink::new(era);
    other.connect_to(server.http().address().to_owned());
    let handshake = other.post(&era.request(1, "initialize", handshake(version))).answer().text();
    let call = json!({"name": "run_command", "arguments": {"command": "echo here-it-is"}});
    let call = server.http().post(&era.request(77, "tools/call", call)).answer().text();
    server.rpc("resources/list", json!({}));
    let mut own = server.http().open_stream();
    server.run("true");
    [handshake, call, read_up_to(&mut own, LIST_CHANGED)]
}

#[test]
fn streams_of_older_clients_begin_with_a_message() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        for (stream, words) in streams(version).iter().zip(["serverInfo", "here-it-is", "list_ch"])
        {
            assert!(stream.contains(words), "{version}: {stream}");
            assert!(!stream.lines().any(is_empty_data), "{version}: {stream}");
        }
    }
}

#[test]
fn streams_of_newer_clients_begin_with_an_id_to_reconnect_by() {
    let [_, call, own] = streams("2025-11-25");
    for stream in [call, own] {
        let data = stream.lines().find(|line| line.starts_with("data:")).expect("an event");
        assert!(is_empty_data(data) && stream.contains("retry:"), "{stream}");
    }
}

/// `true` if the server at this address has an open connection, also one that its client has closed.
fn has_connections(address: &str) -> bool {
    const ESTABLISHED: &str = "01";
    const CLOSE_WAIT: &str = "08";
    let port: u16 = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let port = format!(":{port:04X}");
    let sockets = fs::read_to_string("/proc/net/tcp").expect("the sockets of this machine");
    sockets.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_ours = fields.next().is_some_and(|local| local.ends_with(&port));
        is_ours && fields.nth(1).is_some_and(|state| [ESTABLISHED, CLOSE_WAIT].contains(&state))
    })
}

#[test]
fn a_client_that_was_away_when_its_call_ended_gets_the_reply_later() {
    let mut server = Launch::http().era(LEGACY).start();
    let client = server.http().clone();
    let dir = private_dir();
    let end = dir.path().join("end");
    let command = format!("until [ -e {} ]; do sleep 0.05; done; echo here-it-is", end.display());
    let call = json!({"name": "run_command", "arguments": {"command": command, "wait_s": 45}});
    let mut lost = client.post(&LEGACY.request(77, "tools/call", call));
    let begin = read_up_to(&mut lost, "\n\n");
    let id = begin.lines().find_map(|line| line.strip_prefix("id:")).expect("an id").trim();
    eventually("the call has begun", || server.metric(IN_FLIGHT) > 0.5);
    drop(lost);
    eventually("the server has seen the loss", || !has_connections(client.address()));
    assert!(server.metric(IN_FLIGHT) > 0.5, "the call goes on");
    fs::write(&end, "").expect("the file");
    eventually("the call has ended", || server.metric(IN_FLIGHT) < 0.5);
    for time in ["first", "second"] {
        let reply = client.resume_stream(id).answer().text();
        assert!(reply.contains("\"id\":77") && reply.contains("here-it-is"), "{time}: {reply}");
    }
}

/// The status and message of a request in a session.
#[track_caller]
fn ask(link: &HttpLink, method: &str, params: Value) -> (u16, Value) {
    let mut connection = link.post(&link.era().request(9, method, params));
    let mut answer = connection.answer();
    (answer.status, answer.message().unwrap_or_default())
}

#[track_caller]
fn run(link: &HttpLink, command: &str) -> (u16, Value) {
    ask(link, "tools/call", json!({"name": "run_command", "arguments": {"command": command}}))
}

/// The same client at another server.
fn at(link: &HttpLink, server: &mut TestServer) -> HttpLink {
    let mut link = link.clone();
    link.connect_to(server.http().address().to_owned());
    link
}

#[test]
fn a_session_goes_on_after_a_restart_for_a_client_that_never_initializes_again() {
    let data = private_dir();
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut first = Launch::http().era(Era::Legacy(version)).data(data.path()).start();
        let client = first.http().clone();
        drop(first);
        let mut second = Launch::http().data(data.path()).start_silent();
        let client = at(&client, &mut second);
        assert_eq!(ask(&client, "resources/list", json!({})).0, 404, "not a call of a tool");
        assert_eq!(client.open_stream().answer().status, 404, "not a call of a tool");
        let (status, answer) = run(&client, "echo still-here");
        assert_eq!(status, 200, "{answer}");
        assert!(answer["result"].to_string().contains("still-here"), "{answer}");
        assert_eq!(ask(&client, "resources/list", json!({})).0, 200, "it is open again");
    }
}

#[test]
fn parallel_calls_continue_one_session_once() {
    let data = private_dir();
    let mut first = Launch::http().data(data.path()).start();
    let client = first.http().clone();
    drop(first);
    let mut second = Launch::http().data(data.path()).start_silent();
    let client = at(&client, &mut second);
    let mut calls: Vec<HttpConnection> = (0..8)
        .map(|id| {
            let call = json!({"name": "run_command", "arguments": {"command": "echo through"}});
            client.post(&client.era().request(id, "tools/call", call))
        })
        .collect();
    for call in &mut calls {
        let answer = call.answer().message().expect("an answer");
        assert!(answer["result"].to_string().contains("through"), "{answer}");
    }
    let sessions = "shellyard_mcp_sessions{transport=\"http\"}";
    assert!((second.metric(sessions) - 1.0).abs() < f64::EPSILON);
}

#[test]
fn a_session_that_its_client_ended_stays_ended() {
    let mut server = Launch::http().start();
    let client = server.http().clone();
    assert_eq!(run(&client, "true").0, 200);
    server.http().end_session();
    assert_eq!(run(&client, "true").0, 404);
}

#[test]
fn only_a_session_of_the_same_tenant_goes_on_after_a_restart() {
    let mut first = Launch::http().start_silent();
    let (ours, _) = create_token(first.sandbox(), &["ours"]);
    let (theirs, _) = create_token(first.sandbox(), &["theirs"]);
    first.http().use_token(&ours);
    first.handshake();
    let client = first.http().clone();
    first.signal(Signal::TERM);
    first.wait_exit();
    let mut second = Launch::http().data(&first.sandbox().data()).start_silent();
    let client = at(&client, &mut second);
    let mut thief = client.clone();
    thief.use_token(&theirs);
    assert_eq!(run(&thief, "true").0, 404, "another tenant");
    assert_eq!(run(&client, "true").0, 200);
    assert_eq!(run(&thief, "true").0, 404, "another tenant, and it is open");
    let session = client.session().to_owned();
    for made_up in [session.replace('.', ":"), session[1..].to_owned(), "none".to_owned()] {
        let request = HttpRequest::post("/mcp", &client.era().request(1, "tools/list", json!({})))
            .header("Authorization", &format!("Bearer {ours}"))
            .header("Mcp-Session-Id", &made_up);
        let mut connection = HttpConnection::open(client.address());
        connection.send(&request);
        assert_eq!(connection.answer().status, 404, "{made_up}");
    }
}

#[test]
fn a_client_without_any_stream_for_a_while_has_hung_up() {
    let settings = "[http]\nsession_hang_up_s = 1\n";
    let mut server = Launch::http().config(settings).start();
    let [left, kept] = [Marker::new(), Marker::new()];
    let call = |client: &HttpLink, marker: &Marker| {
        let arguments = json!({"command": format!("sleep {marker}"), "wait_s": 45});
        let params = json!({"name": "run_command", "arguments": arguments});
        client.post(&client.era().request(77, "tools/call", params))
    };
    let client = server.http().clone();
    let abandoned = call(&client, &left);
    left.wait_alive();
    // Another client waits for as long, but stays.
    let mut client = HttpLink::new(LEGACY);
    client.connect_to(server.http().address().to_owned());
    client.exchange(&LEGACY.request(1, "initialize", handshake(LEGACY.version())));
    client.notify(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let _waiting = call(&client, &kept);
    kept.wait_alive();
    let series = "shellyard_mcp_sessions{transport=\"http\"}";
    drop(abandoned);
    eventually("the session without a client ends", || (server.metric(series) - 1.0).abs() < 0.5);
    assert!(kept.sleeping() > 0, "the other call goes on");
}

#[test]
fn the_calls_of_a_client_that_has_hung_up_end_with_its_session() {
    let settings = "[http]\nsession_hang_up_s = 1\n";
    let mut server = Launch::http().config(settings).start();
    let marker = Marker::new();
    let abandoned = server.http().clone();
    let arguments = json!({"command": format!("sleep {marker}"), "wait_s": 45});
    let call = json!({"name": "run_command", "arguments": arguments});
    let connection = abandoned.post(&abandoned.era().request(77, "tools/call", call));
    marker.wait_alive();
    drop(connection);
    let series = "shellyard_mcp_sessions{transport=\"http\"}";
    eventually("the session ends", || server.metric(series) < 0.5);
    let mut client = HttpLink::new(LEGACY);
    client.connect_to(server.http().address().to_owned());
    client.exchange(&LEGACY.request(1, "initialize", handshake(LEGACY.version())));
    // The reply to this call is written after the end of the abandoned one.
    let told = run(&client, "sleep 3").1["result"]["content"][0]["text"].to_string();
    assert!(told.starts_with("\"job 1 (sleep "), "{told}");
}

#[test]
fn a_handshake_that_is_refused_continues_no_session() {
    const CONTINUED: &str = "continues a session";
    let data = private_dir();
    let mut first = Launch::http().data(data.path()).start();
    let client = first.http().clone();
    drop(first);
    let mut second = Launch::http().data(data.path()).start_silent();
    let client = at(&client, &mut second);
    let body = client.era().request(1, "tools/list", json!({})).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nMcp-Session-Id: {}\r\nAccept: text/plain\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        client.address(),
        client.session(),
        body.len()
    );
    let mut connection = HttpConnection::open(client.address());
    connection.send_bytes((head + &body).as_bytes());
    let status = connection.answer().status;
    assert!([404, 406].contains(&status), "{status}");
    assert!(!second.log_text().contains(CONTINUED), "{}", second.log_text());
    assert_eq!(run(&client, "true").0, 200);
    second.expect_log(CONTINUED);
}

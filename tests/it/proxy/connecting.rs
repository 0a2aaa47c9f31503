//! Connecting to a server: its address, its token, and the guard.

use serde_json::json;

use super::{data_of, server, socket_in};
use crate::harness::{HttpConnection, HttpRequest, Launch, Sandbox, run_program, text, token};

#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let sandbox = Sandbox::new();
    let output = run_program(&sandbox, &[&["stdio"], arguments].concat());
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    text(&output.stderr)
}

#[test]
fn a_server_is_named_by_its_url_or_its_socket() {
    let mut server = server().start();
    let socket = socket_in(&data_of(&server)).to_string_lossy().into_owned();
    let address = server.http().address().to_owned();
    for target in [
        format!("http://{address}"),
        format!("HTTP://{address}/mcp/"),
        format!("unix:{socket}"),
        socket,
    ] {
        let mut proxy = Launch::stdio().args(&["--connect", &target]).start();
        assert_eq!(proxy.run("echo here")["output"], "here\n", "{target}");
    }
}

#[test]
fn a_token_is_read_from_a_file_or_the_environment() {
    let mut server = server().guarded().start_silent();
    let url = format!("http://{}", server.http().address());
    let file = server.sandbox().write("mine", &format!("# a comment\n{}\n", token()));
    let file = file.to_string_lossy();
    let with_file = Launch::stdio().args(&["--connect", &url, "--token", &file]);
    let with_variable = Launch::stdio().args(&["--connect", &url]).env("SHELLYARD_TOKEN", token());
    for launch in [with_file, with_variable] {
        assert_eq!(launch.start().run("echo in")["output"], "in\n");
    }
    let mut without = Launch::stdio().args(&["--connect", &url]).start_silent();
    let answer = without.rpc("ping", json!({}));
    let message = answer["error"]["message"].as_str().expect("an error");
    assert!(message.contains("401") && message.contains("--token FILE"), "{message}");
    assert!(!without.log_text().contains(token()));
}

#[test]
fn upgrades_pass_the_guard() {
    let mut server = server().start();
    let address = server.http().address().to_owned();
    let wish = || {
        let get = HttpRequest::get("/mcp").header("Connection", "Upgrade");
        get.header("Upgrade", "shellyard-stdio")
    };
    for (request, status) in [
        (wish(), 101),
        (wish().header("Origin", "http://evil.example"), 403),
        (wish().header("Host", "evil.example"), 403),
    ] {
        let mut connection = HttpConnection::open(&address);
        connection.send(&request);
        assert_eq!(connection.try_status(), Some(status), "{request:?}");
    }
}

#[test]
fn upgraded_connections_count_towards_the_limit() {
    let server = server().config("[http]\nmax_connections = 2\n").start_silent();
    let mut server = server;
    let url = format!("http://{}", server.http().address());
    let launch = || Launch::stdio().args(&["--connect", &url]);
    let (mut first, second) = (launch().start(), launch().start());
    let mut third = launch().start_silent();
    let asked = third.fresh_id();
    third.stdio().send(&json!({"jsonrpc": "2.0", "id": asked, "method": "tools/list"}));
    first.assert_alive();
    let early = third.stdio().take_all();
    assert!(early.is_empty(), "there is no room: {early:?}");
    drop(second);
    assert!(third.handshake().get("result").is_some(), "now there is");
}

#[test]
fn an_impossible_socket_path_is_answered_with_advice() {
    let path = format!("/tmp/{}.sock", "x".repeat(200));
    for more in [&[][..], &["--ensure-server"]] {
        let arguments = [&["--connect", &path], more].concat();
        let mut proxy = Launch::stdio().args(&arguments).start_silent();
        let answer = proxy.rpc("ping", json!({}));
        assert!(answer["error"]["message"].to_string().contains("/SHORTER.sock"), "{answer}");
    }
}

#[test]
fn flags_of_the_server_are_refused_with_advice() {
    for (flag, value) in [("--dialect", "shell"), ("--result-format", "both"), ("--slots", "3")] {
        let said = refused(&["--connect", "--data-dir", "/tmp/x", flag, value]);
        assert!(said.contains(flag) && said.contains("`shellyard serve`"), "{said}");
    }
}

#[test]
fn an_unusable_connect_target_is_refused_with_a_reason() {
    let said = refused(&["--connect", "127.0.0.1:8000"]);
    assert!(said.contains("http:// is missing"), "{said}");
    let said = refused(&["--connect", ""]);
    assert!(said.contains("it is empty"), "{said}");
    let said = refused(&["--connect", "http://127.0.0.1:99999/mcp"]);
    assert!(said.contains("the port"), "{said}");
    let said = refused(&["--connect", "http://192.0.2.1:8000", "--ensure-server"]);
    assert!(said.contains("on this machine only"), "{said}");
    let said = refused(&["--connect", "--token", "/nonexistent/token"]);
    assert!(said.contains("/nonexistent/token"), "{said}");
}

//! The end of a proxy, and what survives it.

use rustix::process::Signal;
use serde_json::json;

use super::{data_of, proxy_to, server};
use crate::harness::{Marker, eventually, output_of, private_dir, text};

#[test]
fn the_end_of_input_ends_the_proxy_and_not_the_server() {
    let mut server = server().start();
    let mut proxy = proxy_to(&data_of(&server)).start();
    let marker = Marker::new();
    proxy.start(&format!("sleep {marker}"));
    marker.wait_alive();
    proxy.stdio().hang_up();
    assert!(proxy.wait_exit().success());
    assert!(!marker.alive().is_empty(), "a job in the background runs on");
    server.assert_alive();
}

#[test]
fn sigterm_ends_the_proxy_and_not_the_server() {
    let mut server = server().start();
    let mut proxy = proxy_to(&data_of(&server)).start();
    proxy.run("true");
    proxy.signal(Signal::TERM);
    assert!(proxy.wait_exit().success());
    server.assert_alive();
}

#[test]
fn a_call_in_flight_at_the_end_of_input_is_answered() {
    let server = server().start();
    let mut proxy = proxy_to(&data_of(&server)).start();
    let marker = Marker::new();
    let id = proxy.begin("run_command", json!({"command": format!("sleep {marker}")}));
    marker.wait_alive();
    proxy.stdio().hang_up();
    let reply = proxy.finish(id).ok();
    assert_eq!(reply["state"], "running", "{}", reply.0);
    assert!(proxy.wait_exit().success());
    assert!(!marker.alive().is_empty(), "the client hung up, and nobody cancelled: it runs on");
}

#[test]
fn a_piped_session_is_answered_completely() {
    let server = server().start();
    let lines: Vec<String> = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "it", "version": "1"},
        }}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "run_command", "arguments": {"command": "echo piped"}}}),
    ]
    .iter()
    .map(ToString::to_string)
    .collect();
    // At the end of input a call has a second to end; on a busy machine it may read as running.
    eventually("the command ends in time", || {
        let mut command = server.sandbox().command();
        command.arg("stdio").arg("--connect").arg("--data-dir").arg(data_of(&server));
        let output = output_of(command, &format!("{}\n", lines.join("\n")));
        assert!(output.status.success());
        let said = text(&output.stdout);
        assert_eq!(said.lines().count(), 2, "{said}");
        said.contains("piped\\n")
    });
}

#[test]
fn a_proxy_that_waits_for_a_server_ends_with_its_input() {
    let data = private_dir();
    let mut proxy = proxy_to(data.path()).start_silent();
    eventually("it has looked for one", || proxy.log_text().contains("server not reachable yet"));
    proxy.stdio().hang_up();
    assert!(proxy.wait_exit().success());
}

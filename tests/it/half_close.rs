//! Clients that end their side of a connection before they are answered, and clients that are gone.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Era, HttpConnection, HttpRequest, Launch, Marker, eventually};

const LEGACY: Era = Era::Legacy("2025-11-25");

/// The number of calls of `run_command` in flight.
const IN_FLIGHT: &str = "shellyard_mcp_operations_in_flight{class=\"run\"}";

/// A call that goes on until the file `gate` is there.
fn gated(marker: &Marker) -> Value {
    let command = format!(
        "sleep {marker} & while [ ! -e gate ]; do sleep 0.05; done; kill $!; echo answered"
    );
    json!({"name": "run_command", "arguments": {"command": command, "wait_s": 45}})
}

#[test]
fn a_client_that_ends_its_side_gets_its_result() {
    for era in [LEGACY, Era::Modern] {
        let marker = Marker::new();
        let mut server = Launch::http().structured().era(era).start();
        let mut connection = server.http().post(&era.request(7, "tools/call", gated(&marker)));
        connection.end_input();
        marker.wait_alive();
        fs::write(server.work().join("gate"), "").expect("the gate opens");
        let mut answer = connection.answer();
        let messages: Vec<_> = std::iter::from_fn(|| answer.message()).collect();
        let result = messages.iter().find(|message| message["id"] == 7);
        let result = result.expect("an answer to the call");
        let output = &result["result"]["structuredContent"]["output"];
        assert_eq!(output, "answered\n", "{era:?}: {result}");
        assert_eq!(connection.rest(), "", "and then the server ends its side");
    }
}

#[test]
fn a_client_that_ends_its_side_gets_all_of_what_the_api_has() {
    let mut server = Launch::http().structured().start();
    let job = server.run("seq 1 300000").job();
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get(&format!("/api/v1/jobs/{job}/output")));
    connection.end_input();
    let answer = connection.answer();
    assert_eq!(answer.status, 200);
    let text = answer.text();
    assert!(text.ends_with("\n300000\n"), "{} bytes", text.len());
}

#[test]
fn a_client_that_is_gone_ends_its_modern_call_and_not_the_job() {
    for ends_its_side_first in [false, true] {
        let marker = Marker::new();
        let mut server = Launch::http().structured().era(Era::Modern).start();
        let call = Era::Modern.request(7, "tools/call", gated(&marker));
        let mut connection = server.http().post(&call);
        if ends_its_side_first {
            connection.end_input();
        }
        marker.wait_alive();
        drop(connection);
        eventually("the call is over", || server.metric(IN_FLIGHT) == 0.0);
        fs::write(server.work().join("gate"), "").expect("the gate opens");
        assert_eq!(server.wait_finished(1)["outcome"], "exited");
    }
}

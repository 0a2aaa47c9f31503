//! Events that end a wait, and those that end its job as well.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Era, Launch, Marker, TestServer, eventually};

const LEGACY: Era = Era::Legacy("2025-11-25");
const KEEP: &str = "[mcp]\ncancel_stops_job = false\n";

/// Shell text that goes on when the file `gate` is there.
fn until_gate(marker: &Marker) -> String {
    format!("sleep {marker} & while [ ! -e gate ]; do sleep 0.05; done; kill $!")
}

/// A call of a command that ends when the file `gate` is there.
fn gated(marker: &Marker) -> Value {
    let command = format!("{}; exit 7", until_gate(marker));
    json!({"name": "run_command", "arguments": {"command": command, "wait_s": 45}})
}

/// Opens the gate, and checks that job 1 was there to see it.
#[track_caller]
fn assert_goes_on(server: &mut TestServer) {
    server.assert_alive();
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    assert_eq!(server.wait_finished(1)["exit_code"], 7);
}

#[test]
fn a_cancelled_call_leaves_its_job_where_that_is_set() {
    for era in [LEGACY, Era::Modern] {
        let marker = Marker::new();
        let mut server = Launch::stdio().structured().era(era).config(KEEP).start();
        let id = server.begin_with(gated(&marker));
        marker.wait_alive();
        server.notify("notifications/cancelled", json!({"requestId": id}));
        assert_goes_on(&mut server);
    }
}

#[test]
fn hanging_up_on_a_legacy_call_is_no_cancellation() {
    let marker = Marker::new();
    let mut server = Launch::http().structured().era(LEGACY).start();
    let connection = server.http().post(&LEGACY.request(77, "tools/call", gated(&marker)));
    marker.wait_alive();
    drop(connection);
    assert_goes_on(&mut server);
}

#[test]
fn a_cancellation_in_a_legacy_session_ends_the_job() {
    let marker = Marker::new();
    let mut server = Launch::http().structured().era(LEGACY).start();
    let _connection = server.http().post(&LEGACY.request(77, "tools/call", gated(&marker)));
    marker.wait_alive();
    server.notify("notifications/cancelled", json!({"requestId": 77}));
    marker.wait_gone();
    assert_eq!(server.wait_finished(1)["outcome"], "stopped");
}

#[test]
fn a_dialects_call_takes_its_job_along_unless_it_is_set_otherwise() {
    let begin = |server: &mut TestServer, marker: &Marker| {
        let command = format!("{}; touch late", until_gate(marker));
        let id = server.begin("execute", json!({"command": command}));
        marker.wait_alive();
        server.notify("notifications/cancelled", json!({"requestId": id}));
    };
    let [taken, kept] = [Marker::new(), Marker::new()];
    let dialects = "dialects = [\"native\", \"execute\"]\n";
    let mut server = Launch::stdio().config(&format!("[mcp]\n{dialects}")).start();
    begin(&mut server, &taken);
    taken.wait_gone();
    assert!(!server.work().join("late").exists(), "it was ended before its time");
    let mut server = Launch::stdio().config(&format!("{KEEP}{dialects}")).start();
    begin(&mut server, &kept);
    server.assert_alive();
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    eventually("the job comes to its end", || server.work().join("late").exists());
}

#[test]
fn progress_of_a_dialect_only_increases_also_from_the_queue_to_the_run() {
    let config =
        "[mcp]\nprogress_s = 0.1\ndialects = [\"native\", \"execute\"]\n[queue]\nslots = 1\n";
    for era in [LEGACY, Era::Modern] {
        let mut server = Launch::stdio().era(era).config(config).start();
        server.start("while [ ! -e first ]; do sleep 0.05; done");
        let id = server.begin_with(json!({
            "name": "execute",
            "arguments": {"command": "while [ ! -e second ]; do sleep 0.05; done"},
            "_meta": {"progressToken": "tok"},
        }));
        let mut last = 0.0;
        for (state, gate) in [("queued", "first"), ("running", "second")] {
            for _ in 0..3 {
                let told = server.stdio().receive(state, |message| {
                    let text = message["params"]["message"].as_str().unwrap_or_default();
                    message["method"] == "notifications/progress" && text.contains(state)
                });
                let now = told["params"]["progress"].as_f64().expect("a number");
                assert!(now > last, "{now} after {last}: {told}");
                last = now;
            }
            fs::write(server.work().join(gate), "").expect("the gate opens");
        }
        server.finish(id).ok();
    }
}

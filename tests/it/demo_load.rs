//! `dashboards/demo_load.py`: what it puts on a server, what it tells, and that it leaves nothing behind.

use std::process::Command;

use serde_json::Value;

use crate::harness::{Launch, Sandbox, TestServer, eventually, output_of, text};

fn script() -> Command {
    let mut command = Command::new("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/dashboards/demo_load.py"));
    command.env_remove("SHELLYARD_TOKEN");
    command
}

/// Runs a command on this server, through its socket, to its good end.
#[track_caller]
fn run_demo_load(server: &TestServer, mut command: Command, arguments: &[&str]) -> Value {
    command.args(arguments).arg("--data-dir").arg(server.sandbox().data());
    let output = output_of(command, "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[track_caller]
fn load(server: &TestServer, arguments: &[&str]) -> Value {
    run_demo_load(server, script(), &[&["--pause", "0", "--json"], arguments].concat())
}

#[track_caller]
fn assert_idle_in_the_end(server: &TestServer) {
    eventually("nothing is left behind", || {
        let queue = run_demo_load(server, server.sandbox().command(), &["queue", "--json"]);
        queue["running"] == 0 && queue["queued"] == 0
    });
}

#[test]
fn a_load_is_mixed_and_told_in_full_whatever_form_answers_have() {
    for format in ["text", "structured"] {
        let flags = ["--result-format", format, "--slots", "32"];
        let server = Launch::http().args(&flags).start_silent();
        eventually("it listens", || server.sandbox().data().join("shellyard.sock").exists());
        // Enough for nearly every kind of deed.
        let load = load(&server, &["--deeds", "120", "--agents", "12"]);
        let deeds = load["deeds"].as_object().expect("by kind");
        assert_eq!(deeds.values().filter_map(Value::as_u64).sum::<u64>(), 120, "{load}");
        assert!(deeds.len() >= 9, "{load}");
        for came in ["answered", "goes_on_in_the_background", "the_command_failed", "ended_early"] {
            assert!(load["came_back"][came].as_u64() > Some(0), "{came}: {load}");
        }
        assert_eq!(load["errors"].as_array().map(Vec::len), Some(0), "{load}");
        assert_idle_in_the_end(&server);
    }
}

#[test]
fn a_full_queue_refuses_and_that_is_no_error_of_ours() {
    let small = "[queue]\nslots = 1\nmax_queued = 2\n[queue.lanes.narrow]\nslots = 1\n";
    let server = Launch::http().config(small).start_silent();
    eventually("it listens", || server.sandbox().data().join("shellyard.sock").exists());
    let load = load(&server, &["--deeds", "40", "--agents", "8"]);
    assert!(load["came_back"]["refused"].as_u64() > Some(0), "{load}");
    assert_eq!(load["came_back"].get("errors_of_ours"), None, "{load}");
    assert_idle_in_the_end(&server);
}

#[test]
fn agents_take_turns_as_the_tenants_whose_tokens_are_given() {
    let server = Launch::http().start_silent();
    eventually("it listens", || server.sandbox().data().join("shellyard.sock").exists());
    let token = |tenant: &str| {
        let mut command = server.sandbox().command();
        command.args(["token", "new", tenant, "--data-dir"]).arg(server.sandbox().data());
        let secret = text(&output_of(command, "").stdout);
        server.sandbox().write(&format!("{tenant}.token"), &secret).display().to_string()
    };
    let (alice, ci) = (token("alice"), token("ci"));
    load(&server, &["--deeds", "20", "--as", &alice, "--as", &ci]);
    let jobs = run_demo_load(&server, server.sandbox().command(), &["jobs", "--all", "--json"]);
    let jobs = jobs["jobs"].as_array().expect("a list");
    for tenant in ["alice", "ci"] {
        assert!(jobs.iter().any(|job| job["tenant"] == tenant), "{jobs:?}");
    }
    assert!(jobs.iter().all(|job| job["tenant"] != "local"), "{jobs:?}");
}

#[test]
fn where_a_token_is_wanted_it_says_how_to_give_one() {
    let mut server = Launch::http().start();
    let mut command = server.sandbox().command();
    command.args(["token", "new", "alice", "--data-dir"]).arg(server.sandbox().data());
    assert!(output_of(command, "").status.success());
    let url = format!("http://{}/mcp", server.http().address());
    let mut command = script();
    command.args(["--deeds", "1", "--connect", &url]);
    let output = output_of(command, "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("--token FILE") && !said.contains("check the address"), "{said}");
}

#[test]
fn without_a_server_it_says_so_and_how_to_get_one() {
    let sandbox = Sandbox::new();
    let mut command = script();
    command.arg("--data-dir").arg(sandbox.data());
    let output = output_of(command, "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("shellyard serve"), "{output:?}");
}

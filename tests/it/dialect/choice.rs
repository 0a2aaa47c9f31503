//! The choice of tools, by flag and by file.

use serde_json::json;

use super::{check_listed, names, speaking};
use crate::harness::{Launch, Sandbox, run_program, text};

#[test]
fn the_native_tools_are_the_default() {
    check_listed("native");
    let mut server = Launch::stdio().start();
    assert_eq!(names(&mut server)[0], "run_command");
    let refused = server.call("execute", json!({"command": "true"})).error_text();
    assert!(refused.contains("Unknown tool: execute"), "{refused}");
}

#[test]
fn a_mix_offers_all_of_its_tools_and_they_share_one_server() {
    for launch in speaking("native,execute") {
        let mut server = launch.start();
        assert_eq!(names(&mut server).len(), 7);
        server.call("execute", json!({"command": "echo from a dialect"})).ok();
        let seen = server.call("read_output", json!({"job": 1})).ok().text();
        assert!(seen.contains("from a dialect"), "{seen}");
    }
}

#[test]
fn what_clients_are_told_names_only_tools_that_they_see() {
    for (dialect, expected) in [("native", true), ("shell", false), ("shell,native", true)] {
        let mut server = Launch::stdio().args(&["--dialect", dialect]).start_silent();
        let told = server.handshake()["result"]["instructions"].to_string();
        assert_eq!(told.contains("run_command"), expected, "{dialect}: {told}");
    }
    let mut server = Launch::stdio().args(&["--dialect", "shell", "--dialect", "execute"]).start();
    assert_eq!(names(&mut server), ["shell", "execute"]);
}

#[test]
fn the_file_chooses_as_well() {
    let mut server = Launch::stdio().config("[mcp]\ndialects = [\"execute\"]\n").start();
    assert_eq!(names(&mut server), ["execute"]);
}

#[test]
fn a_dialect_that_there_is_not_is_refused_with_those_there_are() {
    let sandbox = Sandbox::new();
    let output = run_program(&sandbox, &["stdio", "--dialect", "klingon"]);
    let said = text(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("klingon") && said.contains("run_shell_command"), "{said}");
}

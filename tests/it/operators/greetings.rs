//! Texts for a person at a terminal, and none of them for a program.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::Terminal;
use crate::harness::{Sandbox, output_of, run_program, signal, text};

fn end(mut child: Child) {
    signal(i32::try_from(child.id()).expect("a pid fits"), Signal::TERM);
    child.wait().expect("a child of ours");
}

#[test]
fn the_program_alone_says_what_to_do_next() {
    let output = run_program(&Sandbox::new(), &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = text(&output.stdout);
    for part in ["shellyard serve", "shellyard run -- ", "shellyard doctor", "--help"] {
        assert!(said.contains(part), "`{part}` is missing in {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
}

fn serve(sandbox: &Sandbox, stderr: Stdio, arguments: &[&str]) -> Child {
    let mut command = sandbox.command();
    command.args(["serve", "--bind", "127.0.0.1:0", "--data-dir"]).arg(sandbox.data());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    command.spawn().expect("the binary starts")
}

#[test]
fn serve_on_a_terminal_says_how_to_connect() {
    let sandbox = Sandbox::new();
    let terminal = Terminal::open();
    let server = serve(&sandbox, terminal.stream().into(), &[]);
    let said = terminal.wait_for("Ctrl-C");
    let socket = sandbox.data().join("shellyard.sock");
    for part in ["URL", "http://127.0.0.1:", "/mcp\n", "stdio --connect"] {
        assert!(said.contains(part), "`{part}` is missing in {said}");
    }
    assert!(said.contains(socket.to_str().expect("a path")), "{said}");
    assert!(!said.contains("server started") && !said.contains("127.0.0.1:0/"), "{said}");
    // The URL is the one that works.
    let url = said.split_whitespace().find(|word| word.starts_with("http://")).expect("a URL");
    let listed = run_program(&sandbox, &["jobs", "--connect", url]);
    assert_eq!(listed.status.code(), Some(0), "{url}: {listed:?}");
    end(server);
}

#[test]
fn serve_writes_log_lines_for_programs() {
    let sandbox = Sandbox::new();
    let mut server = serve(&sandbox, Stdio::piped(), &[]);
    let log = BufReader::new(server.stderr.take().expect("a pipe"));
    let line = log.lines().map_while(Result::ok).find(|line| line.contains("server started"));
    assert!(line.is_some_and(|line| line.contains("address=127.0.0.1:")));
    end(server);
    let terminal = Terminal::open();
    let server = serve(&sandbox, terminal.stream().into(), &["--log-format", "json"]);
    let said = terminal.wait_for("server started");
    assert!(!said.contains("Ctrl-C"), "{said}");
    end(server);
}

#[test]
fn stdio_on_a_terminal_explains_itself_and_serves() {
    let sandbox = Sandbox::new();
    let terminal = Terminal::open();
    let mut command = sandbox.command();
    command.args(["stdio", "--data-dir"]).arg(sandbox.data());
    command.stdin(terminal.stream()).stderr(terminal.stream()).stdout(Stdio::piped());
    let mut server = command.spawn().expect("the binary starts");
    let said = terminal.wait_for("Ctrl-D");
    assert!(said.contains("speaks MCP on stdin and stdout"), "{said}");
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    writeln!(&terminal.controller, "{hello}").expect("a terminal");
    let mut replies = BufReader::new(server.stdout.take().expect("a pipe")).lines();
    let reply = replies.next().expect("a reply").expect("text");
    let reply: Value = serde_json::from_str(&reply).expect("JSON, and nothing before it");
    assert_eq!(reply["id"], 1, "{reply}");
    end(server);
    let mut command = sandbox.command();
    command.args(["stdio", "--data-dir"]).arg(sandbox.data());
    let output = output_of(command, "");
    assert!(!text(&output.stderr).contains("Ctrl-D"), "{output:?}");
}

#[test]
fn doctor_shows_problems_first() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("odd.toml", "[job]\nshell = \"/no/such/shell\"\n");
    let file = file.to_str().expect("a path");
    let output = run_program(&sandbox, &["doctor", "--config", file]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stdout);
    let mut lines = said.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with("1 problem, ")), "{said}");
    assert!(lines.nth(1).is_some_and(|line| line.starts_with("fail  shell: ")), "{said}");
    let output = run_program(&sandbox, &["doctor", "--json", "--config", file]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = answer["findings"].as_array().expect("a list").iter();
    let levels: Vec<_> =
        findings.map(|finding| finding["level"].as_str().expect("a word")).collect();
    let rank = |level: &&str| ["fail", "warn", "ok"].iter().position(|word| word == level);
    assert!(levels.is_sorted_by_key(rank) && levels.contains(&"ok"), "{levels:?}");
}

//! `server shell`: the command line and the session of the document.

use std::fs;

use serde_json::{Value, json};

use super::execute_command::execute;
use super::names;
use crate::harness::{Launch, Marker, Sandbox, TestServer, output_of, run_program, text};

/// The document's session, from after the line that starts the server.
const SESSION: &str = r#"
# Send initialize (paste this line):
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"test","version":"1.0"}}}

# Send initialized notification:
{"jsonrpc":"2.0","method":"initialized"}

# List tools:
{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}

# Execute a command:
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"execute_command","arguments":{"command":"echo hello"}}}
"#;

/// The options of the document's help text.
const HELP: &str = r#"
Options:
  -w, --working-dir <PATH>      Working directory for command execution
                                [default: current directory]
  -t, --timeout <SECONDS>       Command execution timeout in seconds
                                [default: 30]
  -s, --shell <PATH>            Shell to use for command execution
                                [default: /bin/sh]
      --allow <PATTERNS>        Only allow commands matching these patterns
                                (comma-separated, supports wildcards)
                                Example: --allow "ls*,cat*,echo*"
      --deny <PATTERNS>         Deny commands matching these patterns
                                (comma-separated, supports wildcards)
                                Example: --deny "rm*,sudo*,chmod*"
      --no-stderr               Suppress stderr in command output
  -v, --verbose                 Enable verbose logging to stderr
  -h, --help                    Print help
"#;

fn server(flags: &[&str]) -> TestServer {
    Launch::server_shell().args(flags).start()
}

#[track_caller]
fn check(yard: &mut TestServer, command: &str, output: &str, return_code: i64) {
    assert_eq!(execute(yard, command), (output.to_owned(), return_code), "{command}");
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_documents_session_works_pasted_line_by_line() {
    let mut yard = Launch::server_shell().start_silent();
    for line in SESSION.lines() {
        yard.stdio().send_line(line);
    }
    let opened = yard.stdio().response(1);
    let expected = json!({
        "protocolVersion": "2024-11-05",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "mcpz-shell", "version": env!("CARGO_PKG_VERSION")}
    });
    assert_eq!(opened, json!({"jsonrpc": "2.0", "id": 1, "result": expected}));
    let tools = yard.stdio().response(2);
    assert_eq!(tools["result"]["tools"][0]["name"], "execute_command");
    let said = yard.stdio().response(3)["result"]["content"][0]["text"].clone();
    let fields: Value = serde_json::from_str(said.as_str().expect("a text")).expect("JSON");
    assert_eq!(fields, json!({"command": "echo hello", "output": "hello\n", "return_code": 0}));
    yard.expect_log("mcpz shell server started");
    yard.stdio().hang_up();
    assert!(yard.wait_exit().success());
    assert_eq!(yard.stdio().take_all(), Vec::<Value>::new(), "nothing else is said");
}

#[test]
fn lines_that_are_no_messages_break_nothing() {
    let mut yard = server(&[]);
    for line in ["mcpz server shell", "{", "[]", "\u{1b}[A", "{\"jsonrpc\":\"2.0\"}"] {
        yard.stdio().send_line(line);
    }
    check(&mut yard, "echo hello", "hello\n", 0);
    let unknown = yard.rpc("tools/explode", json!({}));
    assert_eq!(unknown["error"]["code"], -32601);
    assert_eq!(unknown["error"]["message"], "Method not found: tools/explode");
    for (params, said) in [
        (
            json!({"name": "explode", "arguments": {"command": "touch ran"}}),
            "Unknown tool: explode",
        ),
        (json!({"arguments": {"command": "touch ran"}}), "name"),
    ] {
        let refused = yard.rpc("tools/call", params);
        let message = refused["error"]["message"].as_str().expect("an error");
        assert!(message.contains(said), "{refused}");
    }
    assert!(!yard.work().join("ran").exists());
    check(&mut yard, "echo still here", "still here\n", 0);
}

#[test]
fn the_help_is_that_of_the_document() {
    for flag in ["--help", "-h"] {
        let output = run_program(&Sandbox::new(), &["server", "shell", flag]);
        let help = words(&text(&output.stdout));
        assert!(output.status.success());
        let head = "Start an MCP server for shell command execution Usage: shellyard server shell [OPTIONS]";
        assert!(help.starts_with(head), "{help}");
        assert!(help.contains(&words(HELP)), "{help}");
    }
}

#[test]
fn it_offers_its_own_tools_only() {
    let mut yard = server(&[]);
    let expected = ["execute_command", "read_file", "write_file", "list_directory"];
    assert_eq!(names(&mut yard), expected);
}

#[test]
fn the_working_directory_is_that_of_commands_and_files() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let root = root.path().canonicalize().expect("it is there");
    fs::write(root.join("here"), "found").expect("a file of ours");
    let path = root.to_str().expect("our path");
    for flag in ["-w", "--working-dir"] {
        let mut yard = server(&[flag, path]);
        check(&mut yard, "pwd; cat here", &format!("{path}\nfound"), 0);
        let read = yard.call("read_file", json!({"path": "here"})).ok().text();
        assert!(read.contains(r#""content": "found""#), "{read}");
    }
    let mut yard = server(&[]);
    let own = yard.work().canonicalize().expect("it is there");
    check(&mut yard, "pwd", &format!("{}\n", own.display()), 0);
}

#[test]
fn the_timeout_ends_the_tree() {
    for flag in ["-t", "--timeout"] {
        let mut yard = server(&[flag, "5"]);
        let marker = Marker::new();
        let (output, code) = execute(&mut yard, &format!("echo a; (sleep {marker}; true) & wait"));
        assert!(output.starts_with("a\nCommand timed out after 5s"), "{output}");
        assert_eq!(code, -1);
        assert!(marker.alive().is_empty());
    }
}

#[test]
fn the_shell_runs_the_commands() {
    check(&mut server(&[]), "echo $0", "sh\n", 0);
    for flag in ["-s", "--shell"] {
        let mut yard = server(&[flag, "/bin/bash"]);
        check(&mut yard, "a=(1 2); echo $0 ${#a[@]}", "bash 2\n", 0);
    }
}

#[test]
fn stderr_is_left_out_where_that_is_wished() {
    let command = "echo out; echo err >&2";
    check(&mut server(&[]), command, "out\nerr\n", 0);
    check(&mut server(&["--no-stderr"]), command, "out\n", 0);
}

#[test]
fn commands_are_told_on_stderr_where_that_is_wished() {
    for flag in ["-v", "--verbose"] {
        let mut yard = server(&[flag]);
        check(&mut yard, "echo 'a\nb'; exit 3", "a\nb\n", 3);
        yard.expect_log(r"[mcpz] Executing: echo 'a\nb'; exit 3");
        yard.expect_log("[mcpz] Exit code: 3");
    }
    let mut quiet = server(&[]);
    check(&mut quiet, "exit 3", "", 3);
    quiet.stdio().hang_up();
    quiet.wait_exit();
    assert!(!quiet.log_text().contains("[mcpz]"), "{}", quiet.log_text());
}

/// Under these flags each command runs, or is denied in the words of the document.
#[track_caller]
fn check_rules(flags: &[&str], cases: &[(&str, bool)]) {
    let mut yard = server(flags);
    for (command, is_allowed) in cases {
        let (output, code) = execute(&mut yard, command);
        let was_denied = (output.as_str(), code) == ("Command denied by security policy", -1);
        assert_eq!(!was_denied, *is_allowed, "{flags:?}: {command}: {output}");
    }
}

#[test]
fn with_an_allow_list_nothing_else_runs() {
    let cases = [
        ("echo hi", true),
        ("ls -la", true),
        ("lsblk --version", true),
        ("printf hi", false),
        ("echo hi; printf hi", false),
    ];
    check_rules(&["--allow", "ls*,cat*,echo*"], &cases);
}

#[test]
fn a_deny_list_looks_at_the_first_word_of_every_command() {
    let cases = [
        ("echo hi", true),
        ("printf rm", true),
        ("rm -f x", false),
        ("rmdir x", false),
        ("/bin/rm -f x", false),
        ("true && rm -f x", false),
    ];
    check_rules(&["--deny", "rm*,sudo*,chmod*"], &cases);
    let recommended = "rm*,sudo*,chmod*,chown*,kill*,pkill*,dd*,mkfs*,fdisk*,shutdown*,reboot*";
    let cases = [("echo hi", true), ("dd if=/dev/null", false), ("kill -0 1", false)];
    check_rules(&["--deny", recommended], &cases);
}

#[test]
fn deny_wins_and_a_pattern_without_a_star_is_the_whole_word() {
    let cases = [("echo hi", true), ("rm -f x", false)];
    check_rules(&["--allow", "echo*,rm*", "--deny", "rm*"], &cases);
    let cases = [("echo hi", true), ("echoes", false), ("ls", false), ("lsblk --version", true)];
    check_rules(&["--allow", " echo , ls* ", "--deny", "ls"], &cases);
}

#[test]
fn the_documents_sandbox_example_starts() {
    let mut yard = server(&[
        "--working-dir",
        "/tmp",
        "--allow",
        "ls*,cat*,grep*,find*,echo*",
        "--deny",
        "rm*,sudo*,chmod*,chown*",
        "--timeout",
        "60",
    ]);
    check(&mut yard, "echo hi | grep -c hi", "1\n", 0);
}

#[test]
fn a_file_of_settings_goes_along_and_flags_win() {
    let config = "[execute_command]\nstderr = false\ntimeout = 1\n[policy]\ndeny = [\"rm*\"]\n";
    let mut yard = Launch::server_shell().config(config).args(&["-t", "60"]).start();
    check(&mut yard, "echo out; echo err >&2", "out\n", 0);
    check(&mut yard, "rm x", "Command denied by security policy", -1);
}

#[test]
fn bad_flags_are_refused_by_name() {
    let sandbox = Sandbox::new();
    for (flags, said) in [
        (&["--allow", ""][..], "--allow"),
        (&["--deny", " , "], "--deny"),
        (&["-t", "0"], "--timeout"),
        (&["-t", "soon"], "--timeout"),
        (&["--deny", "a;b"], "--deny"),
        (&["--unknown"], "--unknown"),
    ] {
        let output = run_program(&sandbox, &[&["server", "shell"], flags].concat());
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains(said), "{flags:?}: {told}");
        assert!(output.stdout.is_empty(), "{flags:?}");
    }
}

#[test]
fn a_working_directory_that_is_none_is_told_at_the_start() {
    let sandbox = Sandbox::new();
    for missing in ["/no/such/directory", "/etc/passwd"] {
        let output = run_program(&sandbox, &["server", "shell", "-w", missing]);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(missing), "{said}");
    }
}

#[test]
fn a_piped_session_is_answered_completely() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command();
    command.args(["server", "shell"]).arg("--data-dir").arg(sandbox.data());
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params":
        {"name": "execute_command", "arguments": {"command": "sleep 2; echo done"}}});
    let opening = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let initialized = json!({"jsonrpc": "2.0", "method": "initialized"});
    let output = output_of(command, &format!("{opening}\n{initialized}\n{call}\n"));
    let answers = text(&output.stdout);
    assert!(answers.contains(r#"\"return_code\": 0"#) && answers.contains("done"), "{answers}");
}

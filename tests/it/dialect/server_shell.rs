//! `server shell`: the command line and the session of the document.

use std::fs;

use serde_json::{Value, json};

use super::execute_command::execute;
use super::names;
use crate::harness::{
    Era, Launch, Marker, Sandbox, TestServer, eventually, output_of, run_program, text,
};

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

/// The line on stderr that the document's server starts with.
const STARTED: &str = "mcpz shell server started";

/// The result of `initialize` that the document prints, whatever the client asks for.
fn opened() -> Value {
    json!({
        "protocolVersion": "2024-11-05",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "mcpz-shell", "version": env!("CARGO_PKG_VERSION")}
    })
}

/// The only tool that the document prints.
fn documented_tool() -> Value {
    json!({
        "name": "execute_command",
        "description": "Execute a shell command and return its output",
        "inputSchema": {
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "Shell command to execute"}
            },
            "required": ["command"]
        }
    })
}

/// Ends the session, and compares everything that the server wrote to stderr.
#[track_caller]
fn check_stderr(mut server: TestServer, expected: &[&str]) {
    server.stdio().hang_up();
    assert!(server.wait_exit().success());
    eventually("stderr is complete", || server.log_text().lines().count() >= expected.len());
    assert_eq!(server.log_text().lines().collect::<Vec<_>>(), expected);
}

fn server(flags: &[&str]) -> TestServer {
    Launch::server_shell().args(flags).start()
}

#[track_caller]
fn check(server: &mut TestServer, command: &str, output: &str, return_code: i64) {
    assert_eq!(execute(server, command), (output.to_owned(), return_code), "{command}");
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_documents_session_works_pasted_line_by_line() {
    let mut server = Launch::server_shell().start_silent();
    for line in SESSION.lines() {
        server.stdio().send_line(line);
    }
    let answer = server.stdio().response(1);
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 1, "result": opened()}));
    let tools = server.stdio().response(2);
    assert_eq!(tools["result"]["tools"][0], documented_tool());
    let said =
        "{\n  \"command\": \"echo hello\",\n  \"output\": \"hello\\n\",\n  \"return_code\": 0\n}";
    let called = json!({"content": [{"type": "text", "text": said}]});
    let answer = server.stdio().response(3);
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 3, "result": called}));
    assert_eq!(server.stdio().take_all(), Vec::<Value>::new(), "nothing else is said");
    check_stderr(server, &[STARTED]);
}

#[test]
fn a_request_before_initialize_is_told_what_to_send() {
    let mut server = Launch::server_shell().start_silent();
    let call = json!({"name": "execute_command", "arguments": {"command": "touch ran"}});
    for (id, method, params) in [(1, "tools/list", json!({})), (2, "tools/call", call)] {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        server.stdio().send(&request);
        let answer = server.stdio().response(id);
        let message = answer["error"]["message"].as_str().expect("an error");
        assert!(message.starts_with(&format!("{method} came before initialize; send")), "{answer}");
    }
    assert!(!server.work().join("ran").exists());
    assert_eq!(server.handshake()["result"], opened());
    check(&mut server, "echo hello", "hello\n", 0);
}

#[test]
fn whatever_version_a_client_asks_for_the_response_is_the_printed_one() {
    for version in ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let mut server = Launch::server_shell().era(Era::Legacy(version)).start_silent();
        assert_eq!(server.handshake()["result"], opened(), "{version}");
        check(&mut server, "echo hello", "hello\n", 0);
    }
}

#[test]
fn every_method_that_the_document_does_not_have_is_not_found() {
    let mut server = Launch::server_shell().start_silent();
    let not_found = |id: u64, method: &str| {
        let error = json!({"code": -32601, "message": format!("Method not found: {method}")});
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    };
    // A modern client looks first, and then falls back to `initialize`.
    for method in ["server/discover", "ping"] {
        server.stdio().send(&Era::Modern.request(100, method, json!({})));
        assert_eq!(server.stdio().response(100), not_found(100, method));
    }
    assert_eq!(server.handshake()["result"], opened());
    for (id, (method, params)) in (200..).zip([
        ("ping", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "shellyard://jobs/1/output"})),
        ("resources/subscribe", json!({"uri": "shellyard://jobs/1/output"})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "x"})),
        ("logging/setLevel", json!({"level": "debug"})),
        ("completion/complete", json!({})),
        ("server/discover", json!({})),
        ("tasks/get", json!({"taskId": "1"})),
        ("tools/explode", json!({})),
    ]) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        server.stdio().send(&request);
        assert_eq!(server.stdio().response(id), not_found(id, method));
    }
    check(&mut server, "echo still here", "still here\n", 0);
    check_stderr(server, &[STARTED]);
}

#[test]
fn lines_that_are_no_messages_break_nothing() {
    let mut shellyard = server(&[]);
    for line in ["mcpz server shell", "{", "[]", "\u{1b}[A", "{\"jsonrpc\":\"2.0\"}"] {
        shellyard.stdio().send_line(line);
    }
    check(&mut shellyard, "echo hello", "hello\n", 0);
    for (params, said) in [
        (
            json!({"name": "explode", "arguments": {"command": "touch ran"}}),
            "Unknown tool: explode",
        ),
        (json!({"arguments": {"command": "touch ran"}}), "name"),
    ] {
        let refused = shellyard.rpc("tools/call", params);
        let message = refused["error"]["message"].as_str().expect("an error");
        assert!(message.contains(said), "{refused}");
    }
    assert!(!shellyard.work().join("ran").exists());
    check(&mut shellyard, "echo still here", "still here\n", 0);
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
    let mut shellyard = server(&[]);
    let expected = ["execute_command", "read_file", "write_file", "list_directory"];
    assert_eq!(names(&mut shellyard), expected);
}

#[test]
fn the_working_directory_is_that_of_commands_and_files() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let root = root.path().canonicalize().expect("it is there");
    fs::write(root.join("here"), "found").expect("a file of ours");
    let path = root.to_str().expect("our path");
    for flag in ["-w", "--working-dir"] {
        let mut shellyard = server(&[flag, path]);
        check(&mut shellyard, "pwd; cat here", &format!("{path}\nfound"), 0);
        let read = shellyard.call("read_file", json!({"path": "here"})).ok().text();
        assert!(read.contains(r#""content": "found""#), "{read}");
    }
    let mut shellyard = server(&[]);
    let own = shellyard.work().canonicalize().expect("it is there");
    check(&mut shellyard, "pwd", &format!("{}\n", own.display()), 0);
}

#[test]
fn the_timeout_ends_the_tree() {
    for flag in ["-t", "--timeout"] {
        let mut shellyard = server(&[flag, "5"]);
        let marker = Marker::new();
        let (output, code) =
            execute(&mut shellyard, &format!("echo a; (sleep {marker}; true) & wait"));
        assert!(output.starts_with("a\nCommand timed out after 5s"), "{output}");
        assert_eq!(code, -1);
        assert!(marker.alive().is_empty());
    }
}

#[test]
fn the_shell_runs_the_commands() {
    check(&mut server(&[]), "echo $0", "sh\n", 0);
    for flag in ["-s", "--shell"] {
        let mut shellyard = server(&[flag, "/bin/bash"]);
        check(&mut shellyard, "a=(1 2); echo $0 ${#a[@]}", "bash 2\n", 0);
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
    let long = format!("true {}", "x".repeat(2000));
    for flag in ["-v", "--verbose"] {
        let mut shellyard = server(&[flag, "--deny", "rm"]);
        check(&mut shellyard, "echo 'a\nb'; exit 3", "a\nb\n", 3);
        check(&mut shellyard, &long, "", 0);
        check(&mut shellyard, "kill -9 $$", "", -1);
        check(&mut shellyard, "rm x", "Command denied by security policy", -1);
        let expected = [
            STARTED,
            r"[mcpz] Executing: echo 'a\nb'; exit 3",
            "[mcpz] Exit code: 3",
            &format!("[mcpz] Executing: {long}"),
            "[mcpz] Exit code: 0",
            "[mcpz] Executing: kill -9 $$",
            "[mcpz] Exit code: -1",
        ];
        check_stderr(shellyard, &expected);
    }
}

#[test]
fn without_verbose_no_command_is_logged() {
    let mut quiet = server(&[]);
    check(&mut quiet, "echo quiet-command; exit 3", "quiet-command\n", 3);
    check_stderr(quiet, &[STARTED]);
    // Also where the server's own log is asked for.
    let mut logged = Launch::server_shell().config("[log]\nfilter = \"info\"\n").start();
    check(&mut logged, "echo quiet-command", "quiet-command\n", 0);
    logged.expect_log("job finished");
    assert!(!logged.log_text().contains("quiet-command"), "{}", logged.log_text());
    assert!(!logged.log_text().contains("[mcpz]"), "{}", logged.log_text());
}

#[test]
fn what_cannot_be_executed_is_told_on_stderr_as_well() {
    let mut shellyard = server(&["-v", "-s", "/no/such/shell"]);
    let (output, code) = execute(&mut shellyard, "echo hi");
    let why = output.strip_prefix("Failed to execute: ").expect("the document's words");
    assert_eq!(code, -1);
    let expected = [STARTED, "[mcpz] Executing: echo hi", &format!("[mcpz] Error: {why}")];
    check_stderr(shellyard, &expected);
}

/// Under these flags each command runs, or is denied in the words of the document.
#[track_caller]
fn check_rules(flags: &[&str], cases: &[(&str, bool)]) {
    let mut shellyard = server(flags);
    for (command, is_allowed) in cases {
        let (output, code) = execute(&mut shellyard, command);
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
        ("uname", false),
        ("echo hi; uname", false),
        // A builtin of the shell is no program.
        ("printf hi", true),
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
    let mut shellyard = server(&[
        "--working-dir",
        "/tmp",
        "--allow",
        "ls*,cat*,grep*,find*,echo*",
        "--deny",
        "rm*,sudo*,chmod*,chown*",
        "--timeout",
        "60",
    ]);
    check(&mut shellyard, "echo hi | grep -c hi", "1\n", 0);
}

#[test]
fn a_file_of_settings_goes_along_and_flags_win() {
    let config = "[execute_command]\nstderr = false\ntimeout = 1\n[policy]\ndeny = [\"rm*\"]\n";
    let mut server = Launch::server_shell().config(config).args(&["-t", "60"]).start();
    check(&mut server, "echo out; echo err >&2", "out\n", 0);
    check(&mut server, "rm x", "Command denied by security policy", -1);
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

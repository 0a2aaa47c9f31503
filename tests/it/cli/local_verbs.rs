//! Verbs that ask no server: each in terminals of 80 and 40 columns, with a data directory in which no
//! server runs.

use std::fs;
use std::process::Command;

use crate::harness::{
    Launch, Sandbox, TerminalProgram, assert_fits, in_terminal, output_of, run_program, text,
};

/// Every verb that asks no server, and the reason why the address and the token of one do not matter.
pub(super) const LOCAL_VERBS: [(&str, &str); 19] = [
    ("", "prints the first steps"),
    ("serve", "is the server"),
    ("stdio", "is the server"),
    ("server shell", "is the server"),
    ("run", "runs the command itself; `run --queue` asks a server"),
    ("install", "edits files; its check starts a server of its own"),
    ("config check", "reads files"),
    ("config show", "reads files"),
    ("config init", "writes a file"),
    ("policy test", "decides by the settings"),
    ("policy explain", "decides by the settings"),
    ("audit verify", "reads a file"),
    ("token new", "writes the token file"),
    ("token list", "reads the token file"),
    ("token revoke", "writes the token file"),
    ("doctor", "checks the host"),
    ("self-test", "starts a server of its own"),
    ("completions", "prints a script"),
    ("man", "prints a page"),
];

/// The form of a verb's output on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Text for people, which is wrapped.
    Text,
    /// Lines of a file, which stay whole.
    File,
}

/// A verb with its words, its exit code, a text in its output, and the form of the output.
type LocalCase = (&'static [&'static str], i32, &'static str, Form);

/// Each of the verbs that ends by itself. `{dir}` is a directory of its own.
const CASES: [LocalCase; 28] = [
    (&[], 0, "shellyard serve", Form::Text),
    (&["run", "sh", "-c", "echo ran; exit 3"], 3, "ran", Form::Text),
    (&["run", "sh", "-c", "kill -KILL $$"], 137, "killed", Form::Text),
    (&["run", "no-such-program-it"], 127, "no-such-program-it", Form::Text),
    (&["install"], 0, "codex", Form::Text),
    (&["install", "cursor"], 0, "answers with 6 tools", Form::Text),
    (&["install", "cursor"], 0, "already installed", Form::Text),
    (&["install", "cursor", "--agent-rules", "--dry-run"], 0, "note:", Form::Text),
    (&["install", "gemini", "--dry-run"], 0, "\"mcpServers\"", Form::File),
    (&["install", "gemini", "--print"], 0, "mcpServers", Form::File),
    (&["install", "cursor", "--uninstall"], 0, "removed", Form::Text),
    (&["install", "windsurf", "--scope", "project"], 1, "--scope user", Form::Text),
    (&["config", "check"], 0, "is valid", Form::Text),
    (&["config", "check", "{dir}/bad.toml"], 1, "slotz", Form::Text),
    (&["config", "show"], 0, "http.bind", Form::File),
    (&["config", "init"], 0, "config.toml", Form::Text),
    (&["config", "init"], 1, "left as it is", Form::Text),
    (&["config", "init", "--stdout"], 0, "[queue]", Form::File),
    (&["policy", "test", "rm -rf / --no-preserve-root"], 0, "allowed", Form::Text),
    (&["policy", "explain", "make check && sudo reboot | tee a-log-file"], 0, "make", Form::Text),
    (&["audit", "verify", "{dir}/none.jsonl"], 1, "none.jsonl", Form::Text),
    (&["token", "list", "--data-dir", "{dir}"], 0, "no tokens", Form::Text),
    (&["token", "new", "alice", "--data-dir", "{dir}"], 0, "Bearer", Form::Text),
    (&["token", "list", "--data-dir", "{dir}"], 0, "alice", Form::Text),
    (&["token", "revoke", "0badf00d", "--data-dir", "{dir}"], 1, "0badf00d", Form::Text),
    (&["doctor"], 0, "shell: ", Form::Text),
    (&["completions", "bash"], 0, "complete", Form::File),
    (&["man"], 0, ".SH NAME", Form::File),
];

/// The program in a terminal of this width.
fn command(sandbox: &Sandbox, words: &[&str]) -> Command {
    let mut command = sandbox.command_through(in_terminal());
    command.env("TERM", "xterm-256color").env("TMPDIR", sandbox.path()).args(words);
    command
}

#[test]
fn every_verb_without_a_server_fits_terminals_of_80_and_of_40_columns() {
    for columns in [80, 40] {
        let sandbox = Sandbox::new();
        fs::create_dir_all(sandbox.path().join("home/.codex")).expect("a directory of ours");
        sandbox.write("data/bad.toml", "[queue]\nslotz = 4\n");
        let dir = sandbox.data().display().to_string();
        for (words, expected, shows, form) in CASES {
            let words: Vec<String> = words.iter().map(|word| word.replace("{dir}", &dir)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let mut program = TerminalProgram::start(command(&sandbox, &words), 24, columns);
            let (code, shown) = program.finish();
            assert_eq!(code, Some(expected), "{columns} {words:?}: {shown}");
            let joined = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(joined.contains(shows.trim()), "{columns} {words:?}: {shown}");
            if form == Form::Text {
                assert_fits(&shown, columns.into());
            }
        }
    }
}

#[test]
fn every_local_verb_is_executed() {
    let interactive = ["serve", "stdio", "server shell", "self-test"];
    for (verb, _) in LOCAL_VERBS {
        let words: Vec<&str> = verb.split_whitespace().collect();
        let is_executed = CASES
            .iter()
            .any(|(case, ..)| case.starts_with(&words) && (!words.is_empty() || case.is_empty()));
        assert!(is_executed || interactive.contains(&verb), "`{verb}` has no case");
    }
}

#[test]
fn self_test_fits_terminals_of_80_and_of_40_columns() {
    for columns in [80, 40] {
        let sandbox = Sandbox::new();
        let mut program = TerminalProgram::start(command(&sandbox, &["self-test"]), 24, columns);
        let (code, shown) = program.finish();
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains("spill to disk") && shown.contains("0 failed"), "{shown}");
        assert_fits(&shown, columns.into());
    }
}

#[test]
fn servers_greet_in_terminals_of_80_and_of_40_columns() {
    for columns in [80, 40] {
        for (words, shows) in
            [(&["serve", "--bind", "127.0.0.1:0"][..], "Ctrl-C"), (&["stdio"], "Ctrl-D")]
        {
            let sandbox = Sandbox::new();
            let mut command = command(&sandbox, words);
            command.env("SHELLYARD_SERVER_DATA_DIR", sandbox.data());
            let mut program = TerminalProgram::start(command, 24, columns);
            let shown = program.wait_for(shows);
            // A client is not connected: the end of input ends the server of one client.
            let end = if words[0] == "serve" { b"\x03" } else { b"\x04" };
            program.send(end);
            let (code, all) = program.finish();
            // Ctrl-C is a signal, and the end of input is none.
            assert!(code == Some(0) || words[0] == "serve", "{columns} {words:?}: {all}");
            assert_fits(&shown, columns.into());
        }
    }
}

#[test]
fn server_shell_says_nothing_that_the_program_which_it_replaces_does_not_say() {
    let sandbox = Sandbox::new();
    let mut command = command(&sandbox, &["server", "shell"]);
    command.env("SHELLYARD_SERVER_DATA_DIR", sandbox.data());
    let mut program = TerminalProgram::start(command, 24, 80);
    program.send(b"\x04");
    let (code, shown) = program.finish();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(shown.trim_end(), "mcpz shell server started");
}

#[test]
fn every_help_text_fits_a_terminal_of_40_columns() {
    let sandbox = Sandbox::new();
    let asking = "jobs logs show wait stop attach top queue pause resume drain upgrade log-level";
    let verbs = LOCAL_VERBS.iter().map(|(verb, _)| *verb).chain(asking.split(' '));
    for verb in verbs.chain(["config reload", "config", "token"]) {
        let words: Vec<&str> = verb.split_whitespace().chain(["--help"]).collect();
        let mut program = TerminalProgram::start(command(&sandbox, &words), 24, 40);
        let (code, shown) = program.finish();
        assert_eq!(code, Some(0), "{words:?}: {shown}");
        assert!(shown.contains("Usage:"), "{words:?}: {shown}");
        // The parser of flags never wraps the line that people copy.
        let is_usage = |line: &&str| line.contains("Usage:");
        let others: Vec<&str> = shown.lines().filter(|line| !is_usage(line)).collect();
        assert_fits(&others.join("\n"), 40);
    }
}

#[test]
fn verbs_without_a_server_ignore_the_token_of_one() {
    let sandbox = Sandbox::new();
    for words in [&["doctor"][..], &["install"], &["config", "check"], &["token", "list"], &[]] {
        let mut command = sandbox.command();
        command.env("SHELLYARD_TOKEN", "a-wrong-token-of-some-length").args(words);
        let output = output_of(command, "");
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
    }
}

#[test]
fn the_audit_log_and_the_tokens_of_a_server_are_checked_while_it_runs() {
    let mut server = Launch::http().structured().start();
    server.run("echo audited");
    let log = server.data().join("audit.jsonl").display().to_string();
    let data = server.data().display().to_string();
    for columns in [80, 40] {
        let words = ["audit", "verify", &log];
        let mut program = TerminalProgram::start(command(server.sandbox(), &words), 24, columns);
        let (code, shown) = program.finish();
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains("ok: "), "{shown}");
        assert_fits(&shown, columns.into());
    }
    let made = run_program(server.sandbox(), &["token", "new", "ci", "--data-dir", &data]);
    assert!(made.status.success(), "{made:?}");
    let listed = run_program(server.sandbox(), &["token", "list", "--data-dir", &data]);
    let id = text(&listed.stdout).lines().nth(1).expect("a row").to_owned();
    let id = id.split_whitespace().next().expect("an id").to_owned();
    let words = ["token", "revoke", &id, "--data-dir", &data];
    let mut program = TerminalProgram::start(command(server.sandbox(), &words), 24, 40);
    let (code, shown) = program.finish();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("is revoked"), "{shown}");
    assert_fits(&shown, 40);
}

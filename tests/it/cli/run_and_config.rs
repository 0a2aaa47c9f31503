//! The program in a shell: exit codes, streams, help, and the configuration verbs.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;

use crate::harness::{Marker, Sandbox, eventually_some, output_of, run_program, signal, text};

/// Runs `shellyard run -- …` and gives back its exit code.
#[track_caller]
fn code_of(arguments: &[&str]) -> Option<i32> {
    run_program(&Sandbox::new(), arguments).status.code()
}

#[test]
fn run_passes_the_exit_code_on() {
    assert_eq!(code_of(&["run", "--", "true"]), Some(0));
    assert_eq!(code_of(&["run", "--", "sh", "-c", "exit 3"]), Some(3));
    assert_eq!(code_of(&["run", "--", "no-such-program-it"]), Some(127));
    assert_eq!(code_of(&["run", "--", "/etc/passwd"]), Some(126));
    assert_eq!(code_of(&["run", "--", "sh", "-c", "kill -TERM $$"]), Some(128 + 15));
    assert_eq!(code_of(&["run", "--", "sh", "-c", "kill -KILL $$"]), Some(128 + 9));
}

#[test]
fn run_ends_with_124_on_a_timeout() {
    let marker = Marker::new();
    let seconds = marker.to_string();
    assert_eq!(code_of(&["run", "--timeout", "1", "--", "sleep", &seconds]), Some(124));
    marker.wait_gone();
}

#[test]
fn run_ends_with_125_when_we_failed() {
    let output = run_program(&Sandbox::new(), &["run", "--config", "/no/such/file", "--", "true"]);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("/no/such/file"), "{}", text(&output.stderr));
}

#[test]
fn run_keeps_the_streams_apart_and_adds_nothing() {
    let script = "echo out; echo err >&2; printf '\\377\\000'";
    let output = run_program(&Sandbox::new(), &["run", "--", "sh", "-c", script]);
    assert_eq!(output.stdout, b"out\n\xff\x00");
    assert_eq!(text(&output.stderr), "err\n");
}

#[test]
fn run_passes_its_own_input_on() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command();
    command.args(["run", "--", "wc", "-c"]);
    let output = output_of(command, "12345");
    assert_eq!(text(&output.stdout).trim(), "5", "{}", text(&output.stderr));
}

#[test]
fn run_keeps_every_byte_of_a_large_output() {
    let output = run_program(&Sandbox::new(), &["run", "--", "seq", "1", "500000"]);
    let expected = Command::new("seq").args(["1", "500000"]).output().expect("seq").stdout;
    assert!(output.stdout == expected, "{} of {} bytes", output.stdout.len(), expected.len());
}

#[test]
fn run_that_is_ended_takes_the_command_along() {
    for wanted in [Signal::TERM, Signal::INT, Signal::KILL] {
        let marker = Marker::new();
        let sandbox = Sandbox::new();
        let mut child = sandbox
            .command()
            .args(["run", "--", "sh", "-c", &format!("setsid sleep {marker} & sleep {marker}")])
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        marker.wait_alive();
        signal(i32::try_from(child.id()).expect("a pid fits"), wanted);
        eventually_some("it ends", || child.try_wait().expect("a child of ours"));
        marker.wait_gone();
    }
}

#[test]
fn help_reads_well_and_names_every_verb() {
    let output = run_program(&Sandbox::new(), &["--help"]);
    assert!(output.status.success());
    let help = text(&output.stdout);
    for verb in ["serve", "stdio", "run", "config"] {
        assert!(help.contains(verb), "{verb} is missing in: {help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 120), "{help}");
    for verb in ["serve", "stdio", "run", "config"] {
        let output = run_program(&Sandbox::new(), &[verb, "--help"]);
        assert!(output.status.success(), "{verb} --help");
        assert!(text(&output.stdout).len() > 100, "{verb} --help");
    }
}

#[test]
fn version_is_that_of_the_package() {
    let output = run_program(&Sandbox::new(), &["--version"]);
    assert_eq!(text(&output.stdout).trim(), concat!("shellyard ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_wrong_flag_is_named_on_stderr() {
    let output = run_program(&Sandbox::new(), &["serve", "--bnid", "127.0.0.1:1"]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("--bind"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
}

#[track_caller]
fn show(sandbox: &Sandbox, extra: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = sandbox.command();
    command.args(["config", "show"]).args(extra).envs(variables.iter().copied());
    let output = output_of(command, "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The line of one setting.
#[track_caller]
fn line_of(shown: &str, key: &str) -> String {
    let line = shown.lines().find(|line| line.contains(key));
    line.unwrap_or_else(|| panic!("no {key} in {shown}")).to_owned()
}

#[test]
fn config_show_says_where_each_value_came_from() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("my.toml", "[queue]\nslots = 7\n[mcp]\nwait_s = 11\n");
    let file = file.to_str().expect("a path");
    let variables = [("SHELLYARD_MCP_WAIT_S", "12")];
    let shown = show(&sandbox, &["--config", file], &variables);
    let slots = line_of(&shown, "slots");
    assert!(slots.contains('7') && slots.contains("my.toml:2"), "{slots}");
    let wait = line_of(&shown, "mcp.wait_s");
    assert!(wait.contains("12") && wait.contains("SHELLYARD_MCP_WAIT_S"), "{wait}");
    let bind = line_of(&shown, "http.bind");
    assert!(bind.contains("127.0.0.1:8000") && bind.contains("default"), "{bind}");
}

#[test]
fn the_usual_place_is_read_when_no_file_is_named() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("home/config/shellyard");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("config.toml"), "[queue]\nslots = 3\n").expect("a file of ours");
    let slots = line_of(&show(&sandbox, &[], &[]), "slots");
    assert!(slots.contains('3') && slots.contains("config.toml"), "{slots}");
}

#[track_caller]
fn check(sandbox: &Sandbox, file: &Path) -> Output {
    run_program(sandbox, &["config", "check", file.to_str().expect("a path")])
}

#[test]
fn config_check_accepts_a_good_file() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("good.toml", "[queue]\nslots = 4\n");
    let output = check(&sandbox, &file);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn an_unknown_key_is_an_error_with_a_suggestion_and_a_place() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("bad.toml", "[queue]\n\nslotz = 4\nmax_queued = \"many\"\n");
    let output = check(&sandbox, &file);
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("slotz") && said.contains("slots"), "{said}");
    assert!(said.contains("bad.toml:3"), "{said}");
    assert!(said.contains("bad.toml:4"), "every problem at once: {said}");
}

#[test]
fn a_server_does_not_start_with_a_bad_configuration() {
    for (name, value) in [("SHELLYARD_QUEUE_SLOTZ", "3"), ("SHELLYARD_QUEUE_SLOTS", "some")] {
        let sandbox = Sandbox::new();
        let mut command = sandbox.command();
        command.arg("stdio").env(name, value);
        let output = output_of(command, "");
        assert!(!output.status.success(), "{name}={value}");
        let said = text(&output.stderr);
        assert!(said.contains(name), "{said}");
        assert_eq!(text(&output.stdout), "", "stdout belongs to the protocol");
    }
}

#[test]
fn a_file_that_is_no_toml_is_named_with_its_line() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("broken.toml", "[queue]\nslots = = 4\n");
    let output = check(&sandbox, &file);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("broken.toml:2"), "{}", text(&output.stderr));
}

//! `run_shell_command`, as its document says.

mod background;
mod examples;
mod lists;
mod output;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use super::{check_listed, speaking};
use crate::harness::{Reply, TestServer};

const NAMES: [&str; 8] =
    ["Command", "Directory", "Stdout", "Stderr", "Error", "Exit Code", "Signal", "Background PIDs"];

fn each(check: impl Fn(&mut TestServer)) {
    for launch in speaking("run_shell_command") {
        check(&mut launch.start());
    }
}

fn run(server: &mut TestServer, arguments: Value) -> Reply {
    server.call("run_shell_command", arguments)
}

/// The fields, after checking that the text has each of them in the document's order.
#[track_caller]
fn fields(reply: Reply) -> Value {
    let reply = reply.ok();
    let text = reply.text();
    let mut from = 0;
    for name in NAMES {
        let at =
            text[from..].find(&format!("{name}: ")).unwrap_or_else(|| panic!("{name} in {text}"));
        from += at;
        assert!(reply.structured().get(name).is_some(), "{name} in {}", reply.structured());
    }
    reply.structured().clone()
}

#[track_caller]
fn pids(fields: &Value) -> Vec<u64> {
    let pids = fields["Background PIDs"].as_array().expect("a list");
    pids.iter().filter_map(Value::as_u64).collect()
}

/// Reads a stream of a job from its first byte on.
#[track_caller]
fn read(server: &mut TestServer, job: &Value, stream: &str) -> Value {
    let page = server.call("read_shell_output", json!({"job": job, "stream": stream})).ok();
    page.structured().clone()
}

/// Writes a program that everybody may start.
fn write_program(path: &Path, text: &str) {
    fs::write(path, text).expect("a file of ours");
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("a file of ours");
}

#[test]
fn it_is_listed_as_documented() {
    check_listed("run_shell_command");
}

#[test]
fn a_command_in_the_foreground_tells_all_fields() {
    each(|server| {
        fs::write(server.work().join("file"), "").expect("a file");
        let reply = run(
            server,
            json!({"command": "ls -la; echo oops >&2; exit 4", "is_background": false}),
        );
        assert!(
            reply.text().contains(
                "Stderr: oops\nError: (none)\nExit Code: 4\nSignal: (none)\nBackground PIDs: (none)"
            ),
            "{}",
            reply.text()
        );
        let fields = fields(reply);
        assert_eq!(fields["Command"], "ls -la; echo oops >&2; exit 4");
        assert_eq!(fields["Directory"], server.work().display().to_string());
        assert!(fields["Stdout"].as_str().is_some_and(|out| out.contains("file")));
        assert_eq!((&fields["Exit Code"], &fields["Signal"]), (&json!(4), &Value::Null));
    });
}

#[test]
fn the_directory_starts_at_the_project_root() {
    each(|server| {
        fs::create_dir(server.work().join("scripts")).expect("a directory");
        write_program(&server.work().join("scripts/my_script.sh"), "#!/bin/sh\npwd\n");
        let fields = fields(run(
            server,
            json!({"command": "./my_script.sh", "directory": "scripts",
                "description": "Run my custom script", "is_background": false}),
        ));
        let scripts = server.work().join("scripts").display().to_string();
        assert_eq!(
            (&fields["Stdout"], &fields["Directory"]),
            (&json!(format!("{scripts}\n")), &json!(scripts))
        );
        assert_eq!(fields["Description"], "Run my custom script");
    });
}

#[test]
fn it_is_bash_and_the_marker_is_set() {
    each(|server| {
        let command = "echo ${BASH_VERSION:+bash} $QWEN_CODE";
        let fields = fields(run(server, json!({"command": command, "is_background": false})));
        assert_eq!(fields["Stdout"], "bash 1\n");
    });
    for (marker, expected) in [("AGENT", "1 none\n"), ("", "none none\n")] {
        let config = format!("[run_shell_command]\nmarker = \"{marker}\"\n");
        for launch in speaking("run_shell_command") {
            let mut server = launch.config(&config).start();
            let command = "echo ${AGENT:-none} ${QWEN_CODE:-none}";
            let fields =
                fields(run(&mut server, json!({"command": command, "is_background": false})));
            assert_eq!(fields["Stdout"], expected);
        }
    }
}

#[test]
fn a_signal_is_told_by_its_number() {
    each(|server| {
        let fields = fields(run(server, json!({"command": "kill -15 $$", "is_background": false})));
        assert_eq!((&fields["Signal"], &fields["Exit Code"]), (&json!(15), &Value::Null));
    });
}

#[test]
fn how_it_runs_must_be_said() {
    each(|server| {
        let marker = server.work().join("ran");
        let refused =
            run(server, json!({"command": format!("touch {}", marker.display())})).error_text();
        assert!(
            refused.contains("is_background") && refused.contains("every command"),
            "{refused}"
        );
        assert!(!marker.exists());
    });
}

#[test]
fn bad_arguments_run_nothing() {
    each(|server| {
        let marker = server.work().join("ran");
        let touch = format!("touch {}", marker.display());
        symlink("/", server.work().join("out")).expect("a link");
        for (bad, said) in [
            (json!({"is_background": false}), "`command`"),
            (json!({"command": " ", "is_background": false}), "empty"),
            (json!({"command": touch, "is_background": "maybe"}), "`is_background`"),
            (json!({"command": touch, "is_background": "false"}), "`is_background`"),
            (json!({"command": touch, "is_background": false, "directory": "/"}), "relative"),
            (
                json!({"command": touch, "is_background": false, "directory": "../.."}),
                "outside the project root",
            ),
            (
                json!({"command": touch, "is_background": false, "directory": "out"}),
                "outside the project root",
            ),
            (json!({"command": touch, "is_background": false, "directory": "missing"}), "missing"),
            (json!({"command": touch, "is_background": false, "timeout": 3}), "`timeout`"),
        ] {
            let error = run(server, bad.clone()).error_text();
            assert!(error.starts_with("Error: ") && error.contains(said), "{bad}: {error}");
        }
        assert!(!marker.exists());
    });
}

#[test]
fn a_failure_is_told_by_stderr_and_exit_code() {
    each(|server| {
        let failed = fields(run(server, json!({"command": "ls missing", "is_background": false})));
        assert!(failed["Stderr"].as_str().is_some_and(|said| said.contains("missing")), "{failed}");
        assert_eq!((&failed["Exit Code"], &failed["Error"]), (&json!(2), &Value::Null));
        let unknown = json!({"command": "no-such-program", "is_background": false});
        let unknown = fields(run(server, unknown));
        assert_eq!(unknown["Exit Code"], 127);
    });
}

#[test]
fn a_command_that_runs_too_long_says_so_in_error() {
    for launch in speaking("run_shell_command") {
        let mut server = launch.config("[job]\ntimeout_s = 5\n").start();
        let command = json!({"command": "echo first; sleep 300", "is_background": false});
        let ended = fields(run(&mut server, command));
        assert!(ended["Error"].as_str().is_some_and(|why| why.contains("5 seconds")), "{ended}");
        assert_eq!((&ended["Stdout"], &ended["Exit Code"]), (&json!("first\n"), &Value::Null));
    }
}

#[test]
fn a_question_of_a_command_gets_no_answer_and_hangs_nothing() {
    each(|server| {
        let command = "read -p 'name? ' name || echo nobody; [ -t 0 ] || echo no terminal";
        let asked = fields(run(server, json!({"command": command, "is_background": false})));
        assert_eq!(asked["Stdout"], "nobody\nno terminal\n");
    });
}

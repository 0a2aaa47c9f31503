//! `run_shell_command`, as its document says.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::{check_listed, speaking};
use crate::harness::{Marker, Reply, TestServer, eventually};

const NAMES: [&str; 8] =
    ["Command", "Directory", "Stdout", "Stderr", "Error", "Exit Code", "Signal", "Background PIDs"];

fn each(check: impl Fn(&mut TestServer)) {
    for launch in speaking("run_shell_command") {
        check(&mut launch.start());
    }
}

fn run(yard: &mut TestServer, arguments: Value) -> Reply {
    yard.call("run_shell_command", arguments)
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

#[test]
fn it_is_listed_as_documented() {
    check_listed("run_shell_command");
}

#[test]
fn a_command_in_the_foreground_tells_all_fields() {
    each(|yard| {
        fs::write(yard.work().join("file"), "").expect("a file");
        let reply =
            run(yard, json!({"command": "ls -la; echo oops >&2; exit 4", "is_background": false}));
        assert!(
            reply.text().contains(
                "Stderr: oops\nError: (none)\nExit Code: 4\nSignal: (none)\nBackground PIDs: (none)"
            ),
            "{}",
            reply.text()
        );
        let fields = fields(reply);
        assert_eq!(fields["Command"], "ls -la; echo oops >&2; exit 4");
        assert_eq!(fields["Directory"], yard.work().display().to_string());
        assert!(fields["Stdout"].as_str().is_some_and(|out| out.contains("file")));
        assert_eq!((&fields["Exit Code"], &fields["Signal"]), (&json!(4), &Value::Null));
    });
}

#[test]
fn the_directory_starts_at_the_project_root() {
    each(|yard| {
        fs::create_dir(yard.work().join("scripts")).expect("a directory");
        fs::write(yard.work().join("scripts/my_script.sh"), "pwd\n").expect("a script");
        let fields = fields(run(
            yard,
            json!({"command": "bash ./my_script.sh", "directory": "scripts",
                "description": "Run my custom script", "is_background": false}),
        ));
        let scripts = yard.work().join("scripts").display().to_string();
        assert_eq!(
            (&fields["Stdout"], &fields["Directory"]),
            (&json!(format!("{scripts}\n")), &json!(scripts))
        );
        assert_eq!(fields["Description"], "Run my custom script");
    });
}

#[test]
fn it_is_bash_and_the_marker_is_set() {
    each(|yard| {
        let command = "echo ${BASH_VERSION:+bash} $QWEN_CODE";
        let fields = fields(run(yard, json!({"command": command, "is_background": false})));
        assert_eq!(fields["Stdout"], "bash 1\n");
    });
    for (marker, expected) in [("AGENT", "1 none\n"), ("", "none none\n")] {
        let config = format!("[run_shell_command]\nmarker = \"{marker}\"\n");
        for launch in speaking("run_shell_command") {
            let mut yard = launch.config(&config).start();
            let command = "echo ${AGENT:-none} ${QWEN_CODE:-none}";
            let fields =
                fields(run(&mut yard, json!({"command": command, "is_background": false})));
            assert_eq!(fields["Stdout"], expected);
        }
    }
}

#[test]
fn a_signal_is_told_by_its_number() {
    each(|yard| {
        let fields = fields(run(yard, json!({"command": "kill -15 $$", "is_background": false})));
        assert_eq!((&fields["Signal"], &fields["Exit Code"]), (&json!(15), &Value::Null));
    });
}

#[test]
fn a_command_in_the_background_returns_at_once_with_its_real_pids() {
    each(|yard| {
        let marker = Marker::new();
        let command = format!("sleep {marker}");
        let reply = run(
            yard,
            json!({"command": command, "description": "Start development server", "is_background": true}),
        );
        let fields = fields(reply);
        assert_eq!(fields["Description"], "Start development server [background]");
        assert_eq!(fields["Exit Code"], Value::Null);
        marker.wait_alive();
        let alive: Vec<u64> =
            marker.alive().into_iter().map(|pid| u64::try_from(pid).expect("a pid")).collect();
        assert!(alive.iter().all(|pid| pids(&fields).contains(pid)), "{fields}");
        assert_eq!(fields["Command"], format!("sleep {marker}"));
    });
}

#[test]
fn an_ampersand_at_the_end_means_the_background_too() {
    each(|yard| {
        let marker = Marker::new();
        let command = format!("sleep {marker} &");
        let fields = fields(run(yard, json!({"command": command, "is_background": false})));
        marker.wait_alive();
        let alive: Vec<u64> =
            marker.alive().into_iter().map(|pid| u64::try_from(pid).expect("a pid")).collect();
        assert!(alive.iter().all(|pid| pids(&fields).contains(pid)), "{fields}");
        assert_eq!(fields["Exit Code"], 0);
    });
}

#[test]
fn what_runs_in_the_background_blocks_nobody() {
    for launch in speaking("run_shell_command") {
        let mut yard = launch.args(&["--slots", "1"]).start();
        let marker = Marker::new();
        for _ in 0..3 {
            // Its first words have a moment only, in which it may not get its turn.
            eventually("its first words are told", || {
                let server =
                    json!({"command": format!("echo up; sleep {marker}"), "is_background": true});
                let fields = fields(run(&mut yard, server));
                assert_eq!(fields["Error"], Value::Null, "{fields}");
                fields["Stdout"] == "up\n"
            });
        }
        let fields =
            fields(run(&mut yard, json!({"command": "echo next", "is_background": false})));
        assert_eq!(fields["Stdout"], "next\n");
    }
}

#[test]
fn a_server_that_writes_all_the_time_is_not_waited_for() {
    let config = "[job]\ndrain_max_ms = 600000\n";
    for launch in speaking("run_shell_command") {
        let mut yard = launch.config(config).start();
        let noisy = "(while :; do echo tick; sleep 0.01; done)";
        for (command, is_background) in [(format!("{noisy} &"), false), (noisy.to_owned(), true)] {
            let run = json!({"command": command, "is_background": is_background});
            let fields = fields(yard.call("run_shell_command", run));
            assert!(!pids(&fields).is_empty(), "{fields}");
        }
    }
}

#[test]
fn one_that_waits_for_its_turn_says_so() {
    let [stdio, _] = speaking("native,run_shell_command");
    let mut yard = stdio.args(&["--slots", "1"]).start();
    yard.start("sleep 300");
    let reply = run(&mut yard, json!({"command": "sleep 300", "is_background": true}));
    let fields = fields(reply);
    assert!(
        fields["Error"].as_str().is_some_and(|said| said.starts_with("queued as job 2")),
        "{fields}"
    );
    assert_eq!(fields["Job"], 2);
}

#[test]
fn what_runs_in_the_background_ends_with_the_server() {
    let marker = Marker::new();
    let [stdio, _] = speaking("run_shell_command");
    let mut yard = stdio.start();
    run(&mut yard, json!({"command": format!("sleep {marker} &"), "is_background": false})).ok();
    run(&mut yard, json!({"command": format!("sleep {marker}"), "is_background": true})).ok();
    marker.wait_alive();
    drop(yard);
    marker.wait_gone();
}

#[test]
fn how_it_runs_must_be_said() {
    each(|yard| {
        let marker = yard.work().join("ran");
        let refused =
            run(yard, json!({"command": format!("touch {}", marker.display())})).error_text();
        assert!(
            refused.contains("is_background") && refused.contains("every command"),
            "{refused}"
        );
        assert!(!marker.exists());
    });
}

#[test]
fn the_examples_of_the_lists_hold() {
    for (policy, allowed, blocked) in [
        (
            r#"coreTools = ["run_shell_command(git)", "run_shell_command(npm)"]"#,
            &["git --version"][..],
            &["ls -l", "git --version && ls -l", "git --version; ls", "git --version || ls"][..],
        ),
        (
            "coreTools = [\"run_shell_command\"]\nexcludeTools = [\"run_shell_command(rm)\"]",
            &["git --version", "ls -l"],
            &["rm -rf /", "true && rm -rf /", "true; rm x", "false || rm x"],
        ),
        (
            "coreTools = [\"run_shell_command(git)\"]\nexcludeTools = [\"run_shell_command(git push)\"]",
            &["git --version"],
            &["git push origin main"],
        ),
        (r#"excludeTools = ["run_shell_command"]"#, &[], &["ls -l", "any other command"]),
    ] {
        for launch in speaking("run_shell_command") {
            let mut yard = launch.config(&format!("[policy]\n{policy}\n")).start();
            for command in allowed {
                run(&mut yard, json!({"command": command, "is_background": false})).ok();
            }
            for command in blocked {
                let said = run(&mut yard, json!({"command": command, "is_background": false}));
                assert!(said.is_error(), "{policy}: {command} ran");
            }
        }
    }
}

#[test]
fn bad_arguments_run_nothing() {
    each(|yard| {
        let marker = yard.work().join("ran");
        let touch = format!("touch {}", marker.display());
        symlink("/", yard.work().join("out")).expect("a link");
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
            let error = run(yard, bad.clone()).error_text();
            assert!(error.starts_with("Error: ") && error.contains(said), "{bad}: {error}");
        }
        assert!(!marker.exists());
    });
}

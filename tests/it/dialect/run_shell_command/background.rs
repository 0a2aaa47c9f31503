//! Commands in the background, by the flag or by `&`.

use std::fs;

use serde_json::{Value, json};

use super::super::speaking;
use super::{each, fields, pids, read, run};
use crate::harness::{Marker, eventually, eventually_some};

#[test]
fn a_command_in_the_background_returns_at_once_with_its_real_pids() {
    each(|server| {
        let marker = Marker::new();
        let command = format!("sleep {marker}");
        let reply = run(
            server,
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
    each(|server| {
        let marker = Marker::new();
        let command = format!("sleep {marker} &");
        let fields = fields(run(server, json!({"command": command, "is_background": false})));
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
        let mut shellyard = launch.args(&["--slots", "1"]).start();
        let marker = Marker::new();
        for _ in 0..3 {
            // Its first words have a moment only, in which it may not get its turn.
            eventually("its first words are told", || {
                let server =
                    json!({"command": format!("echo up; sleep {marker}"), "is_background": true});
                let fields = fields(run(&mut shellyard, server));
                assert_eq!(fields["Error"], Value::Null, "{fields}");
                fields["Stdout"] == "up\n"
            });
        }
        let fields =
            fields(run(&mut shellyard, json!({"command": "echo next", "is_background": false})));
        assert_eq!(fields["Stdout"], "next\n");
    }
}

#[test]
fn a_server_that_writes_all_the_time_is_not_waited_for() {
    let config = "[job]\ndrain_max_ms = 600000\n";
    for launch in speaking("run_shell_command") {
        let mut server = launch.config(config).start();
        let noisy = "(while :; do echo tick; sleep 0.01; done)";
        for (command, is_background) in [(format!("{noisy} &"), false), (noisy.to_owned(), true)] {
            let run = json!({"command": command, "is_background": is_background});
            let fields = fields(server.call("run_shell_command", run));
            assert!(!pids(&fields).is_empty(), "{fields}");
        }
    }
}

#[test]
fn one_that_waits_for_its_turn_says_so() {
    let [stdio, _] = speaking("native,run_shell_command");
    let mut server = stdio.args(&["--slots", "1"]).start();
    server.start("sleep 300");
    let reply = run(&mut server, json!({"command": "sleep 300", "is_background": true}));
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
    let mut server = stdio.start();
    run(&mut server, json!({"command": format!("sleep {marker} &"), "is_background": false})).ok();
    run(&mut server, json!({"command": format!("sleep {marker}"), "is_background": true})).ok();
    marker.wait_alive();
    drop(server);
    marker.wait_gone();
}

#[test]
fn an_ampersand_in_the_middle_leaves_a_process_too() {
    each(|server| {
        let marker = Marker::new();
        let command = format!("sleep {marker} & echo started");
        let fields = fields(run(server, json!({"command": command, "is_background": false})));
        assert_eq!((&fields["Stdout"], &fields["Exit Code"]), (&json!("started\n"), &json!(0)));
        assert!(!pids(&fields).is_empty(), "{fields}");
        marker.wait_alive();
    });
}

#[test]
fn the_background_runs_exactly_the_text_that_was_given() {
    for launch in speaking("run_shell_command") {
        let mut server = launch.start();
        for (text, code) in [
            ("echo a ) ; echo x ; ( echo b", 2),
            ("exit 3", 3),
            ("# comment", 0),
            ("echo out; echo err >&2; false", 1),
            ("trap 'echo bye' EXIT; exit 4", 4),
            ("cat <<E\nline\nE", 0),
            ("[ $$ = $BASHPID ] && echo \"$BASH_SUBSHELL ${BASH_EXECUTION_STRING}\"", 0),
            ("echo open '", 2),
        ] {
            let front = fields(run(&mut server, json!({"command": text, "is_background": false})));
            assert_eq!(front["Exit Code"], code, "{front}");
            let back = fields(run(&mut server, json!({"command": text, "is_background": true})));
            assert_eq!(back["Command"], text);
            let ended = eventually_some(text, || {
                let page = read(&mut server, &back["Job"], "stdout");
                (!page["Exit Code"].is_null()).then_some(page)
            });
            assert_eq!(ended["Exit Code"], code, "{ended}");
            assert_eq!(ended["Output"], front["Stdout"], "{text}");
            let stderr = read(&mut server, &back["Job"], "stderr");
            assert_eq!(stderr["Output"], front["Stderr"], "{text}");
        }
    }
}

#[test]
fn an_early_end_in_the_background_is_told_with_its_code() {
    // Whether the end comes within the moment that a reply waits is up to the host.
    let [stdio, _] = speaking("run_shell_command");
    let mut server = stdio.start();
    eventually("the end is told at once", || {
        let fields = fields(run(&mut server, json!({"command": "exit 3", "is_background": true})));
        fields["Exit Code"] == 3 && fields["Background PIDs"] == json!([])
    });
}

#[test]
fn later_output_of_the_background_can_be_read() {
    each(|server| {
        let command = "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 5";
        let started = fields(run(server, json!({"command": command, "is_background": true})));
        assert!(!pids(&started).is_empty(), "{started}");
        eventually("its first line is there", || {
            let page = read(server, &started["Job"], "stdout");
            assert!(page["Exit Code"].is_null() && !pids(&page).is_empty(), "{page}");
            page["Output"] == "one\n"
        });
        fs::write(server.work().join("go"), "").expect("a file of ours");
        eventually("its end is there", || {
            let page = read(server, &started["Job"], "stdout");
            page["Output"] == "one\ntwo\n"
                && page["Exit Code"] == 5
                && page["Background PIDs"] == json!([])
        });
    });
}

#[test]
fn what_runs_in_the_background_has_no_timeout() {
    for launch in speaking("run_shell_command") {
        let mut shellyard = launch.config("[job]\ntimeout_s = 0.2\n").start();
        let marker = Marker::new();
        let server = json!({"command": format!("sleep {marker}"), "is_background": true});
        let started = fields(run(&mut shellyard, server));
        // A command that started later has reached the timeout.
        let later =
            fields(run(&mut shellyard, json!({"command": "sleep 300", "is_background": false})));
        assert!(later["Error"].is_string(), "{later}");
        let page = read(&mut shellyard, &started["Job"], "stdout");
        assert!(page["Error"].is_null() && !pids(&page).is_empty(), "{page}");
        marker.wait_alive();
    }
}

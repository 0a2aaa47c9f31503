//! A job starts with nothing of the server that it should not have, and leaves nothing in it.

use std::fs;

use serde_json::json;

use crate::harness::{Launch, Marker, children_of, eventually};

#[test]
fn a_job_inherits_no_descriptor_but_its_streams() {
    let mut server = Launch::stdio().structured().start();
    let marker = Marker::new();
    server.start(&format!("sleep {marker}"));
    marker.wait_alive();
    let reply =
        server.call("run_command", json!({"command": "ls", "args": ["/proc/self/fd"]})).ok();
    // The fourth is the directory that `ls` reads.
    assert_eq!(reply["output"], "0\n1\n2\n3\n");
}

#[test]
fn a_job_starts_with_default_signals() {
    let mut server = Launch::stdio().structured().start();
    let arguments =
        json!({"command": "grep", "args": ["-E", "^Sig(Blk|Ign)", "/proc/self/status"]});
    let reply = server.call("run_command", arguments).ok();
    let output = reply["output"].as_str().expect("text");
    let sets: Vec<u64> = output
        .lines()
        .filter_map(|line| u64::from_str_radix(line.split('\t').nth(1)?, 16).ok())
        .collect();
    // Signals 32 and 33 belong to the C library, which ignores them in every child it spawns.
    let ordinary = |set: &u64| set & 0x7fff_ffff;
    assert_eq!(sets.iter().map(ordinary).collect::<Vec<_>>(), [0, 0], "{output}");
}

#[test]
fn a_job_has_no_terminal_to_prompt_on() {
    let mut server = Launch::stdio().structured().start();
    let reply = server.run("exec 2>&1; echo prompt > /dev/tty && echo had one");
    assert_ne!(reply["exit_code"], 0);
    assert!(!reply["output"].to_string().contains("had one"), "{}", reply.0);
}

fn open_descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count()
}

#[test]
fn finished_jobs_leave_no_descriptors_and_no_processes() {
    let mut server = Launch::stdio().structured().start();
    server.run("echo first");
    let ours = [server.server_pid(), server.keeper_pid()];
    eventually("the first shim has ended", || server.shims().is_empty());
    let before = ours.map(open_descriptors);
    for number in 0..60 {
        server.run(&format!("echo {number}; (true &)"));
    }
    // Zombies are children, too.
    eventually("the keeper has no child", || children_of(ours[1]).is_empty());
    assert_eq!(children_of(ours[0]), [ours[1]], "the keeper is the only child of the server");
    eventually("descriptors are closed", || {
        let now = ours.map(open_descriptors);
        now[0] <= before[0] + 5 && now[1] <= before[1]
    });
}

#[test]
fn input_that_nobody_reads_hangs_nothing() {
    let mut server = Launch::stdio().structured().start();
    let text = "x".repeat(3 << 20);
    let reply = server.call("run_command", json!({"command": "true", "stdin": text})).ok();
    assert_eq!(reply["exit_code"], 0);
    let marker = Marker::new();
    let job = server.start(&format!("sleep {marker}"));
    marker.wait_alive();
    for _ in 0..3 {
        server.call("send_input", json!({"job": job, "text": text}));
    }
    server.assert_alive();
    server.call("stop_jobs", json!({"jobs": [job]})).ok();
    assert_eq!(server.wait_finished(job)["outcome"], "stopped");
}

#[test]
fn stopping_what_has_ended_is_no_error() {
    let mut server = Launch::stdio().structured().start();
    let job = server.run("exit 4").job();
    for _ in 0..2 {
        let reply = server.call("stop_jobs", json!({"jobs": [job]})).ok();
        assert_eq!(reply.only_job()["exit_code"], 4, "the outcome stays: {}", reply.0);
    }
}

#[test]
fn logs_have_commands_but_no_output_input_or_environment() {
    let mut server = Launch::stdio().env("SHELLYARD_LOG_FILTER", "trace").start();
    let arguments = json!({
        "command": "cat; echo out-$((40 + 2))-put; echo $SECRET",
        "stdin": "typed-text-it\n",
        "env": {"SECRET": "hunter2-it"},
    });
    let text = server.call("run_command", arguments).ok().text();
    assert!(text.contains("out-42-put") && text.contains("hunter2-it"), "{text}");
    eventually("the command is logged", || server.log_text().contains("$((40 + 2))"));
    for secret in ["out-42-put", "typed-text-it", "hunter2-it"] {
        assert!(!server.log_text().contains(secret), "`{secret}` is in the log");
    }
}

#[test]
fn a_command_cannot_forge_a_log_line() {
    let mut server = Launch::stdio().start();
    server.run("true\nFORGED line of the log\n\x1b[31mred");
    eventually("the command is logged", || server.log_text().contains("FORGED"));
    let log_text = server.log_text();
    assert!(!log_text.lines().any(|line| line.starts_with("FORGED")), "{log_text}");
    assert!(!log_text.contains('\x1b'), "{log_text}");
}

#[test]
fn json_logs_are_one_object_for_each_line() {
    let mut server = Launch::stdio().args(&["--log-format", "json"]).start();
    server.run("echo \"a 'quoted' word\"");
    eventually("the job is logged", || server.log_text().contains("job finished"));
    for line in server.log_text().lines() {
        let entry: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        assert!(entry["level"].is_string(), "{line}");
    }
}

//! The endings of a job, and the truth of the replies about them.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{HttpConnection, HttpRequest, Launch, Marker, TestServer, eventually};

#[test]
fn exit_3_is_3_and_no_error_of_ours() {
    for launch in Launch::both() {
        let mut server = launch.structured().start();
        let reply = server.run("echo before; exit 3");
        assert_eq!(reply["state"], "finished");
        assert_eq!(reply["outcome"], "exited");
        assert_eq!(reply["exit_code"], 3);
        assert_eq!(reply["output"], "before\n");
    }
}

#[test]
fn a_killed_job_never_reads_as_exit_0() {
    let mut server = Launch::stdio().structured().start();
    let reply = server.run("kill -9 $$; exit 0");
    assert_eq!(reply["outcome"], "signaled");
    assert_eq!(reply["signal"], "SIGKILL");
    assert_eq!(reply.structured().get("exit_code"), None, "{}", reply.0);
}

#[test]
fn a_job_that_dies_of_a_signal_names_it_in_the_verdict() {
    let mut server = Launch::stdio().start();
    let verdict = server.run("kill -SEGV $$").verdict();
    assert!(verdict.starts_with("killed by SIGSEGV"), "{verdict}");
}

#[test]
fn a_masked_pipeline_failure_shows() {
    let mut server = Launch::stdio().structured().start();
    let reply = server.run("false | true");
    assert_eq!(reply["exit_code"], 0);
    assert_eq!(reply["pipeline_exit_codes"], json!([1, 0]));
}

#[test]
fn a_timeout_ends_the_tree_and_keeps_what_was_written() {
    for launch in Launch::both() {
        let marker = Marker::new();
        let mut server = launch.structured().start();
        let command = format!("echo partial; setsid sleep {marker} & sleep {marker}");
        let reply = server.call("run_command", json!({"command": command, "timeout_s": 5}));
        assert_eq!(reply["outcome"], "timed_out");
        assert_eq!(reply["output"], "partial\n");
        assert_eq!(reply.structured().get("exit_code"), None, "{}", reply.0);
        marker.wait_gone();
    }
}

#[test]
fn the_verdict_of_a_timeout_says_what_was_killed() {
    let marker = Marker::new();
    let mut server = Launch::stdio().start();
    let command = format!("echo partial; sleep {marker}");
    let reply = server.call("run_command", json!({"command": command, "timeout_s": 5}));
    let verdict = reply.verdict();
    assert!(verdict.starts_with("timed out after 5s"), "{verdict}");
    assert!(verdict.contains("SIGTERM"), "{verdict}");
    assert!(reply.text().contains("partial"), "{}", reply.text());
}

#[test]
fn a_child_that_ignores_sigterm_dies_after_the_grace() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let job = server.start(&format!("trap '' TERM; echo armed; sleep {marker}; sleep {marker}"));
    marker.wait_alive();
    server.call("stop_jobs", json!({"jobs": [job], "grace_s": 1})).ok();
    let status = server.wait_finished(job);
    assert_eq!(status["outcome"], "stopped");
    marker.wait_gone();
}

#[test]
fn a_stop_that_needed_sigkill_says_so() {
    let marker = Marker::new();
    let mut server = Launch::stdio().start();
    let job = server.start(&format!("trap '' TERM; sleep {marker}; sleep {marker}"));
    marker.wait_alive();
    server.call("stop_jobs", json!({"jobs": [job], "grace_s": 1})).ok();
    marker.wait_gone();
    let text = server.call("wait_jobs", json!({"jobs": [job], "wait_s": 20})).text();
    assert!(text.contains("SIGKILL"), "{text}");
}

#[test]
fn a_wished_signal_is_the_first_one_sent() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let job = server.start(&format!("trap 'echo got-usr1; exit 7' USR1; sleep {marker} & wait"));
    marker.wait_alive();
    server.call("stop_jobs", json!({"jobs": [job], "signal": "SIGUSR1"})).ok();
    let status = server.wait_finished(job);
    assert_eq!(status["outcome"], "stopped");
    let output = server.call("read_output", json!({"job": job})).ok();
    assert!(output["output"].as_str().expect("text").contains("got-usr1"), "{}", output.0);
}

#[test]
fn a_grandchild_that_keeps_the_pipe_cannot_hang_the_call() {
    for launch in Launch::both() {
        let marker = Marker::new();
        let mut server = launch.structured().start();
        let reply = server.run(&format!("(sleep {marker}; echo late) & echo done"));
        assert_eq!(reply["outcome"], "exited");
        assert_eq!(reply["exit_code"], 0);
        assert_eq!(reply["output"], "done\n");
        let pids = reply["background_pids"].as_array().expect("the survivors").clone();
        assert!(!pids.is_empty(), "{}", reply.0);
        // One that is being born has no command line for a moment.
        eventually(&format!("{pids:?} are among the living"), || {
            let alive = marker.alive();
            pids.iter().all(|pid| alive.contains(&pid_of(pid)))
        });
        server.call("stop_jobs", json!({"jobs": [reply.job()]})).ok();
        marker.wait_gone();
    }
}

#[test]
fn a_finished_job_with_surviving_processes_is_listed_as_running() {
    let marker = Marker::new();
    let mut server = Launch::http().start();
    server.run("echo nothing left");
    server.run(&format!("setsid sleep {marker} >&- 2>&- & echo done"));
    marker.wait_alive();
    let text = server.call("list_jobs", json!({"state": "running"})).ok().text();
    let mut lines = text.lines();
    let headline = "0 running, 0 queued, 2 finished (1 with processes still running) · 1 match";
    assert_eq!(lines.next(), Some(headline));
    let line = lines.next().expect("a job");
    assert!(line.starts_with("2 exit 0") && line.contains("1 process still running"), "{line}");
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get("/api/v1/jobs?state=running"));
    let jobs: Value = serde_json::from_str(&connection.answer().text()).expect("JSON");
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(1), "{jobs}");
    assert_eq!(jobs["jobs"][0]["background_pids"].as_array().map(Vec::len), Some(1), "{jobs}");
    assert_eq!(server.metric("shellyard_jobs_surviving"), 1.0);
    server.call("stop_jobs", json!({"jobs": [2]})).ok();
    marker.wait_gone();
    eventually("the gauge follows", || server.metric("shellyard_jobs_surviving") == 0.0);
}

fn pid_of(value: &Value) -> i32 {
    value.as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("a pid")
}

#[test]
fn what_a_survivor_writes_later_still_goes_to_the_log() {
    let mut server = Launch::stdio().structured().start();
    let gate = server.work().join("gate");
    let reply = server.run("(while [ ! -e gate ]; do sleep 0.05; done; echo late) & echo done");
    assert_eq!(reply["output"], "done\n");
    fs::write(gate, "").expect("the gate opens");
    eventually("the late line is in the log", || {
        let page = server.call("read_output", json!({"job": reply.job()})).ok();
        page["output"] == "done\nlate\n"
    });
}

#[test]
fn stop_ends_children_that_left_the_group() {
    for launch in Launch::both() {
        let (own, daemon) = (Marker::new(), Marker::new());
        let mut server = launch.structured().start();
        let job = server.start(&format!(
            "setsid sleep {own} & setsid sh -c '(setsid sleep {daemon} &) ; exit 0'; sleep {own}"
        ));
        own.wait_alive();
        daemon.wait_alive();
        server.call("stop_jobs", json!({"jobs": [job]})).ok();
        own.wait_gone();
        daemon.wait_gone();
        assert_eq!(server.wait_finished(job)["outcome"], "stopped");
    }
}

#[test]
fn a_stopped_process_can_be_ended() {
    let marker = Marker::new();
    let mut server = Launch::stdio().structured().start();
    let job = server.start(&format!("sh -c 'kill -STOP $$; : {marker}'; : wait"));
    eventually("it is stopped", || marker.alive().iter().any(|pid| is_stopped(*pid)));
    server.call("stop_jobs", json!({"jobs": [job]})).ok();
    marker.wait_gone();
    assert_eq!(server.wait_finished(job)["outcome"], "stopped");
}

fn is_stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}

#[test]
fn a_closed_stdin_ends_a_prompt_instead_of_hanging_it() {
    let mut server = Launch::stdio().structured().start();
    let reply = server.run("cat; read answer; echo \"code $?\"");
    assert_eq!(reply["outcome"], "exited");
    assert_eq!(reply["output"], "code 1\n");
}

#[test]
fn stdin_text_is_read_to_its_end() {
    let mut server = Launch::stdio().structured().start();
    let text = "one\ntwo\n";
    let reply = server.call("run_command", json!({"command": "cat", "stdin": text})).ok();
    assert_eq!(reply["output"], text);
}

#[test]
fn cwd_env_and_args_reach_the_program_as_they_are() {
    let mut server = Launch::stdio().structured().start();
    let program = json!({
        "command": "sh",
        "args": ["-c", "pwd; echo \"$GREETING|$1\"", "sh", "a $b 'c' \"d\" ; e"],
        "cwd": "/usr",
        "env": {"GREETING": "hello there"},
    });
    let reply = server.call("run_command", program).ok();
    assert_eq!(reply["output"], "/usr\nhello there|a $b 'c' \"d\" ; e\n");
}

/// Runs something that cannot start; the verdict must say why, and which of the kinds it was.
#[track_caller]
fn check_start_failure(server: &mut TestServer, arguments: Value, words: &[&str]) {
    let reply = server.call("run_command", arguments);
    let text = reply.error_text();
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
    server.assert_alive();
}

#[test]
fn each_failure_to_start_has_its_own_words() {
    for launch in Launch::both() {
        let mut server = launch.start();
        let plain = server.work().join("plain.txt");
        fs::write(&plain, "not a program").expect("a file of ours");
        let missing = json!({"command": "no-such-program-it", "args": ["x"]});
        check_start_failure(&mut server, missing, &["no-such-program-it", "not found"]);
        let refused = json!({"command": plain, "args": ["x"]});
        check_start_failure(&mut server, refused, &["plain.txt", "permission denied"]);
        let nowhere = json!({"command": "pwd", "cwd": "/no/such/place"});
        check_start_failure(&mut server, nowhere, &["/no/such/place", "cwd"]);
        let a_file = json!({"command": "pwd", "cwd": plain});
        check_start_failure(&mut server, a_file, &["plain.txt", "cwd"]);
        let long = json!({"command": "true", "args": ["x".repeat(3 << 20)]});
        check_start_failure(&mut server, long, &["too long"]);
        let nul = json!({"command": "true", "args": ["a\u{0}b"]});
        check_start_failure(&mut server, nul, &["NUL"]);
    }
}

#[test]
fn a_failure_to_start_is_an_outcome_of_its_own() {
    let mut server = Launch::stdio().structured().start();
    let reply = server.call("run_command", json!({"command": "no-such-program-it", "args": ["x"]}));
    assert!(reply.is_error());
    assert_eq!(reply["outcome"], "failed_to_start");
    assert!(reply["error"].as_str().expect("why").contains("not found"), "{}", reply.0);
    assert_eq!(reply.structured().get("exit_code"), None);
}

#[test]
fn a_shell_that_finds_no_program_exits_127() {
    let mut server = Launch::stdio().structured().start();
    let reply = server.run("no-such-program-it");
    assert_eq!(reply["exit_code"], 127);
    assert!(reply["output"].as_str().expect("text").contains("not found"), "{}", reply.0);
}

#[test]
fn usage_is_measured() {
    let mut server = Launch::stdio().structured().start();
    let hungry = server.run("awk 'BEGIN { s = \"x\"; while (length(s) < 100000000) s = s s }'");
    assert!(hungry["cpu_ms"].as_u64().is_some_and(|ms| ms > 0), "{}", hungry.0);
    assert!(hungry["elapsed_ms"].as_u64().is_some_and(|ms| ms > 0), "{}", hungry.0);
    let peak = hungry["max_rss_bytes"].as_u64();
    assert!(peak.is_some_and(|bytes| bytes > 100_000_000), "{}", hungry.0);
}

#[test]
fn a_fat_parent_of_the_server_does_not_hide_the_peak_of_a_job() {
    // The kernel hands the peak of whoever started the server on to it.
    let ballast = vec![1_u8; 400 << 20];
    let mut server = Launch::stdio().structured().start();
    drop(ballast);
    let hungry = server.run("awk 'BEGIN { s = \"x\"; while (length(s) < 100000000) s = s s }'");
    let peak = hungry["max_rss_bytes"].as_u64();
    assert!(peak.is_some_and(|bytes| bytes > 100_000_000), "{}", hungry.0);
}

#[test]
fn a_peak_that_is_not_known_is_absent_rather_than_zero() {
    let mut server = Launch::stdio().structured().start();
    let small = server.run("true");
    assert_ne!(small.structured().get("max_rss_bytes"), Some(&json!(0)), "{}", small.0);
}

//! Input to a running job: text, the end of input, keys.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Launch, TestServer, eventually};

#[test]
fn what_was_sent_reaches_a_job_that_waits_for_it() {
    for launch in Launch::both() {
        let mut server = launch.structured().start();
        let job = server.start("read x; echo got:$x");
        eventually("the job waits for input", || {
            let reply = server.call("wait_jobs", json!({"jobs": [job], "wait_s": 0})).ok();
            reply.only_job()["waiting_for_input"] == true
        });
        server.call("send_input", json!({"job": job, "text": "some words\n"})).ok();
        assert_eq!(server.wait_finished(job)["exit_code"], 0);
        let page = server.call("read_output", json!({"job": job})).ok();
        assert_eq!(page["output"], "got:some words\n");
    }
}

#[test]
fn the_end_of_input_can_be_sent() {
    let mut server = Launch::stdio().structured().start();
    let job = server.start("cat; echo over");
    server.call("send_input", json!({"job": job, "text": "a\n"})).ok();
    server.call("send_input", json!({"job": job, "text": "b\n", "eof": true})).ok();
    assert_eq!(server.wait_finished(job)["exit_code"], 0);
    let page = server.call("read_output", json!({"job": job})).ok();
    assert_eq!(page["output"], "a\nb\nover\n");
    let late = server.call("send_input", json!({"job": job, "text": "c\n"}));
    assert!(late.error_text().contains("finished"), "{}", late.0);
}

#[test]
fn a_terminal_job_has_a_terminal_and_takes_keys() {
    let mut server = Launch::stdio().structured().start();
    let command = "test -t 0 && test -t 1 && test -t 2 && echo is a tty; trap 'echo caught; exit 5' INT; echo armed; while :; do sleep 0.05; done";
    let arguments = json!({"command": command, "tty": true, "wait_s": 0});
    let job = server.call("run_command", arguments).ok().job();
    let arguments = json!({"jobs": [job], "until": "armed", "cursor": "bytes:0", "wait_s": 40});
    let reply = server.call("wait_jobs", arguments).ok();
    assert!(reply.0.to_string().contains("is a tty"), "{}", reply.0);
    server.call("send_input", json!({"job": job, "key": "ctrl_c"})).ok();
    let status = server.wait_finished(job);
    assert_eq!(status["exit_code"], 5, "{status}");
}

/// Starts a program and returns its number, once it waits for input.
#[track_caller]
fn start_repl(server: &mut TestServer, command: &str, tty: bool) -> u64 {
    let job = server.call("run_command", json!({"command": command, "tty": tty, "wait_s": 0}));
    let job = job.ok().job();
    let reply = server.call("wait_jobs", json!({"jobs": [job], "wait_s": 40})).ok();
    assert_eq!(reply.only_job()["waiting_for_input"], true, "{command}: {}", reply.0);
    job
}

#[test]
fn the_reply_to_input_is_its_result() {
    let mut server = Launch::stdio().structured().start();
    for tty in [true, false] {
        let job = start_repl(&mut server, "exec python3 -q -i", tty);
        let reply = server.call("send_input", json!({"job": job, "text": "1/0\n"})).ok();
        let output = reply["output"].as_str().expect("output");
        assert!(output.starts_with("Traceback (most recent call last):\n"), "tty {tty}: {output}");
        assert!(output.ends_with("ZeroDivisionError: division by zero\n>>> "), "{tty}: {output}");
        assert_eq!(reply["waiting_for_input"], true, "{}", reply.0);
        // A result that takes its time.
        let text = "import time; time.sleep(1); print('late')\n";
        let reply = server.call("send_input", json!({"job": job, "text": text})).ok();
        assert_eq!(reply["output"], "late\n>>> ", "tty {tty}: {}", reply.0);
        // Nothing to show: the next prompt is the answer.
        let reply = server.call("send_input", json!({"job": job, "text": "x = 5\n"})).ok();
        assert_eq!(reply["output"], ">>> ", "tty {tty}: {}", reply.0);
        let reply = server.call("send_input", json!({"job": job, "text": "exit(3)\n"})).ok();
        assert_eq!(reply["exit_code"], 3, "tty {tty}: {}", reply.0);
        assert_eq!(reply["output"], "", "tty {tty}: {}", reply.0);
    }
}

#[test]
fn input_of_several_lines_is_not_repeated_in_the_reply() {
    let mut server = Launch::stdio().structured().start();
    let job = start_repl(&mut server, "exec python3 -q -i", true);
    let text = "print(7)\nfor i in range(2):\n    print(i)\n\nprint(8)\n";
    let arguments = json!({"job": job, "text": text, "until": "^8$"});
    let reply = server.call("send_input", arguments).ok();
    let output = reply["output"].as_str().expect("output");
    assert!(output.starts_with("7\n0\n1\n8\n"), "{}", reply.0);
    // Without a line editor the terminal itself echoes.
    let job = start_repl(&mut server, "exec cat", true);
    let reply = server.call("send_input", json!({"job": job, "text": "a\nb\n"})).ok();
    assert_eq!(reply["output"], "a\nb\n", "{}", reply.0);
    let job = start_repl(&mut server, "stty -echo; exec cat", true);
    let reply = server.call("send_input", json!({"job": job, "text": "a\n"})).ok();
    assert_eq!(reply["output"], "a\n", "there is no echo: {}", reply.0);
}

#[test]
fn the_echo_of_input_does_not_match_until() {
    let mut server = Launch::stdio().structured().start();
    for (command, text) in [
        ("exec python3 -q -i", "import time; time.sleep(1); print('rea' + 'dy'); 'ready'\n"),
        ("read x; sleep 1; echo ready", "ready\n"),
    ] {
        let job = start_repl(&mut server, command, true);
        let arguments = json!({"job": job, "text": text, "until": "ready", "wait_s": 40});
        let reply = server.call("send_input", arguments).ok();
        let output = reply["output"].as_str().expect("output");
        assert!(output.starts_with("ready\n"), "{command}: {}", reply.0);
        assert!(reply["matched_line"].is_u64(), "{command}: {}", reply.0);
    }
}

#[test]
fn input_waits_as_long_as_it_is_told() {
    let mut server = Launch::stdio().structured().start();
    let job = start_repl(&mut server, "read x; exec sleep 1000", false);
    let arguments = json!({"job": job, "text": "a\n", "wait_s": 0});
    let reply = server.call("send_input", arguments).ok();
    assert_eq!(reply["state"], "running", "{}", reply.0);
    let job = start_repl(&mut server, "read x; echo one; sleep 1; echo two; read x", false);
    let arguments = json!({"job": job, "text": "a\n", "until": "two", "wait_s": 40});
    let reply = server.call("send_input", arguments).ok();
    assert_eq!(reply["output"], "one\ntwo\n", "{}", reply.0);
    // A job that asks again does not wait for a line that cannot come.
    let began = Instant::now();
    let job = start_repl(&mut server, "while read x; do echo got:$x; done", false);
    let arguments = json!({"job": job, "text": "a\n", "until": "never", "wait_s": 40});
    let reply = server.call("send_input", arguments).ok();
    assert!(began.elapsed() < Duration::from_secs(40), "{}", reply.0);
    assert_eq!((&reply["output"], &reply["waiting_for_input"]), (&json!("got:a\n"), &json!(true)));
}

#[test]
fn a_key_is_answered_with_its_effect() {
    let mut server = Launch::stdio().structured().start();
    let command = "trap 'echo caught; exit 5' INT; echo armed; while :; do read x; done";
    let job = start_repl(&mut server, command, true);
    let reply = server.call("send_input", json!({"job": job, "key": "ctrl_c"})).ok();
    assert_eq!((&reply["output"], &reply["exit_code"]), (&json!("caught\n"), &json!(5)));
}

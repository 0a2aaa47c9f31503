//! Input to a running job: text, the end of input, keys.

use serde_json::json;

use crate::harness::{Launch, eventually};

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

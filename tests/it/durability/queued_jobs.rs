//! Queued jobs stay queued.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use super::client::DurableClient;
use super::disturbance::crash;
use crate::harness::{Launch, eventually, private_dir};

#[test]
fn queued_jobs_start_in_their_order_with_their_inputs_after_crashes() {
    let mut server = Launch::http().structured().config("[queue]\nslots = 1\n").start();
    let gate = "while [ ! -e gate ]; do sleep 0.05; done";
    let first = server.start(&format!("{gate}; echo first >> order"));
    server.wait_running(first);
    let mut client = DurableClient::new(server.http().address());
    let mut jobs = vec![first];
    for number in 2..=6 {
        let arguments = json!({
            "command": "read line; echo \"$NUMBER $line\" >> order", "wait_s": 0,
            "env": {"NUMBER": number.to_string()}, "stdin": format!("line-{number}\n"),
        });
        jobs.push(client.call("run_command", &arguments).ok().job());
        if number % 2 == 0 {
            crash(&server);
        }
    }
    for job in &jobs[1..] {
        assert_eq!(client.status(*job)["state"], "queued");
    }
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    for job in &jobs {
        assert_eq!(client.wait_finished(*job)["exit_code"], 0);
    }
    let order = fs::read_to_string(server.work().join("order")).expect("they ran");
    let expected: String = (2..=6).map(|number| format!("{number} line-{number}\n")).collect();
    assert_eq!(order, format!("first\n{expected}"));
}

#[test]
fn a_queued_job_that_is_stopped_stays_stopped() {
    let mut server = Launch::http().structured().config("[queue]\nslots = 1\n").start();
    let first = server.start("while [ ! -e gate ]; do sleep 0.05; done");
    let queued = server.start("touch ran");
    let mut client = DurableClient::new(server.http().address());
    client.call("stop_jobs", &json!({"jobs": [queued]})).ok();
    crash(&server);
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    client.wait_finished(first);
    assert_eq!(client.status(queued)["outcome"], "stopped");
    assert!(!server.work().join("ran").exists());
}

#[test]
fn queued_jobs_wait_for_the_next_server_after_sigterm() {
    let data = private_dir();
    let launch = || {
        let config = "[queue]\nslots = 1\n[server]\ndrain_s = 0\n";
        Launch::http().structured().data(data.path()).config(config).start()
    };
    let mut server = launch();
    let order = data.path().join("order");
    let running = server.start("sleep 600");
    server.wait_running(running);
    // The working directory of a test server ends with it.
    let arguments = |number: u64, wait_s: u64| {
        let command = format!("echo {number} >> order");
        json!({"command": command, "cwd": data.path(), "wait_s": wait_s})
    };
    let mut start = |number| server.call("run_command", arguments(number, 0)).ok().job();
    let mut queued = vec![start(1), start(2)];
    // A call that waits for a queued job learns that it is still queued.
    let id = server.fresh_id();
    let call = json!({"name": "run_command", "arguments": arguments(3, 45)});
    let message = server.http().era().request(id, "tools/call", call);
    let mut waiting = server.http().post(&message);
    let last = queued[1] + 1;
    eventually("it is queued", || {
        let listed = server.call("list_jobs", json!({})).structured()["jobs"].clone();
        listed.as_array().is_some_and(|jobs| jobs.iter().any(|job| job["job"] == last))
    });
    queued.push(last);
    server.signal(Signal::TERM);
    let answer = waiting.answer().text();
    assert!(answer.contains("queued"), "{answer}");
    assert!(server.wait_exit().success());
    assert!(!order.exists(), "none of them has run");
    drop(server);
    let mut server = launch();
    let mut client = DurableClient::new(server.http().address());
    for job in &queued {
        assert_eq!(client.wait_finished(*job)["exit_code"], 0);
    }
    // A command whose caller waits goes before those that run in the background.
    assert_eq!(fs::read_to_string(&order).expect("they ran"), "3\n1\n2\n");
    assert_eq!(client.status(running)["outcome"], "stopped");
}

//! Queued jobs stay queued.

use std::fs;

use serde_json::json;

use super::client::DurableClient;
use super::disturbance::crash;
use crate::harness::Launch;

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

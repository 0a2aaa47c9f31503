//! `stdio --connect` through a crash and through upgrades.

use std::fs;

use serde_json::json;

use super::disturbance::{crash, upgrade};
use crate::harness::{Era, Launch, TestServer};

const BOTH_ERAS: [Era; 2] = [Era::Legacy("2025-11-25"), Era::Modern];

#[track_caller]
fn proxy_to(server: &TestServer, era: Era) -> TestServer {
    Launch::stdio().era(era).data(server.data()).args(&["--connect"]).start()
}

#[test]
fn clients_of_a_proxy_notice_an_upgrade_only_as_a_pause() {
    for era in BOTH_ERAS {
        let server = Launch::http().structured().start();
        let mut proxy = proxy_to(&server, era);
        let work = proxy.work();
        let command = "echo begun; while [ ! -e gate ]; do sleep 0.05; done; echo done; exit 4";
        let job = proxy.start(command);
        for _ in 0..3 {
            upgrade(server.data());
            assert_eq!(proxy.run("echo served")["output"], "served\n");
        }
        fs::write(work.join("gate"), "").expect("the gate opens");
        assert_eq!(proxy.wait_finished(job)["exit_code"], 4);
    }
}

#[test]
fn a_call_in_flight_gets_its_answer_or_one_error_and_the_job_goes_on() {
    for era in BOTH_ERAS {
        let server = Launch::http().structured().start();
        let mut proxy = proxy_to(&server, era);
        let work = proxy.work();
        let command = "touch begun; while [ ! -e gate ]; do sleep 0.05; done; echo done; exit 4";
        let arguments = json!({"command": command, "key": "one", "wait_s": 40});
        let call = proxy.begin("run_command", arguments.clone());
        crate::harness::eventually("it runs", || work.join("begun").exists());
        // A job is lost if its server is killed before the keeper holds its process.
        let journal = server.data().join("journal/000001.jsonl");
        crate::harness::eventually("its start is recorded", || {
            fs::read_to_string(&journal).is_ok_and(|text| text.contains("{\"started\":"))
        });
        crash(&server);
        let answer = proxy.finish(call);
        if answer.is_error() {
            assert_eq!(answer.0["error"]["data"]["code"], "server_lost", "{}", answer.0);
        }
        fs::write(work.join("gate"), "").expect("the gate opens");
        // The key leads to the same job, which has not run twice.
        let again = proxy.call("run_command", arguments).ok();
        assert_eq!(proxy.wait_finished(again.job())["exit_code"], 4);
        let rest = proxy.stdio().take_all();
        let answers = rest.iter().filter(|message| message.get("id").is_some());
        assert_eq!(answers.count(), 0, "one answer to each call: {rest:?}");
    }
}

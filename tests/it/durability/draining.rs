//! SIGTERM: no new work, time for running jobs, and a way to shorten it.

use rustix::process::Signal;
use serde_json::json;

use super::client::DurableClient;
use super::disturbance::crash;
use crate::harness::{
    HttpConnection, HttpRequest, Launch, Marker, TestServer, eventually, output_of, text,
};

/// The status of `/readyz`.
#[track_caller]
fn readiness(server: &mut TestServer) -> u16 {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(&HttpRequest::get("/readyz"));
    connection.answer().status
}

#[test]
fn sigterm_after_a_crash_lets_the_kept_job_finish_and_refuses_new_work() {
    let mut server = Launch::http().structured().config("[server]\ndrain_s = 200\n").start();
    let work = server.work();
    server.start("while [ ! -e gate ]; do sleep 0.05; done; echo done > finished");
    crash(&server);
    assert_eq!(readiness(&mut server), 200);
    server.signal(Signal::TERM);
    eventually("it drains", || readiness(&mut server) == 503);
    let mut client = DurableClient::new(server.http().address());
    let refused = client.try_call("run_command", &json!({"command": "true"})).expect("an answer");
    assert!(refused.is_error(), "{}", refused.0);
    assert_eq!(refused["error_code"], "draining", "{}", refused.0);
    std::fs::write(work.join("gate"), "").expect("the gate opens");
    assert!(server.wait_exit().success());
    assert!(work.join("finished").exists(), "the job had its time");
}

#[test]
fn a_server_that_ends_refuses_an_upgrade() {
    let mut server = Launch::http().structured().config("[server]\ndrain_s = 200\n").start();
    let work = server.work();
    server.start("while [ ! -e gate ]; do sleep 0.05; done");
    server.signal(Signal::TERM);
    eventually("it drains", || readiness(&mut server) == 503);
    let mut command = server.sandbox().command();
    command.arg("upgrade").arg("--data-dir").arg(server.data());
    let output = output_of(command, "");
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("the server is ending"), "{said}");
    std::fs::write(work.join("gate"), "").expect("the gate opens");
    assert!(server.wait_exit().success());
}

#[test]
fn a_second_sigterm_shortens_the_drain() {
    let marker = Marker::new();
    let config = "[server]\ndrain_s = 3600\n[job]\ngrace_s = 0.2\n";
    let mut server = Launch::http().structured().config(config).start();
    server.start(&format!("setsid sleep {marker} & sleep {marker}"));
    eventually("both sleep", || marker.sleeping() >= 2);
    server.signal(Signal::TERM);
    eventually("it drains", || readiness(&mut server) == 503);
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    assert_eq!(marker.alive(), Vec::<i32>::new());
}

#[test]
fn sigterm_while_the_server_is_away_ends_the_jobs() {
    let marker = Marker::new();
    let mut server = Launch::http().structured().config("[server]\ndrain_s = 0\n").start();
    server.start(&format!("setsid sleep {marker} & sleep {marker}"));
    eventually("both sleep", || marker.sleeping() >= 2);
    let inner = i32::try_from(server.server_pid()).expect("a pid fits");
    crate::harness::signal(inner, Signal::KILL);
    server.signal(Signal::TERM);
    server.wait_exit();
    marker.wait_gone();
}

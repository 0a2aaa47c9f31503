//! A server that proxies start by themselves, and share.

use std::thread;

use rustix::process::Signal;
use serde_json::json;

use super::{OnDemand, listener_of, socket_in};
use crate::harness::{
    Launch, Marker, TestServer, eventually, eventually_some, free_port, keeper_in, signal,
};

/// Prints the parent of the shim of the job.
const PRINT_KEEPER: &str = "cut -d' ' -f4 /proc/$PPID/stat";

#[test]
fn ten_proxies_that_start_at_once_share_one_server() {
    let shellyard = OnDemand::new();
    let launches: Vec<_> = (0..10).map(|_| shellyard.proxy()).collect();
    let starting: Vec<_> =
        launches.into_iter().map(|launch| thread::spawn(|| launch.start())).collect();
    let mut proxies: Vec<TestServer> =
        starting.into_iter().map(|start| start.join().expect("a proxy")).collect();
    let keeper = keeper_in(shellyard.data()).expect("the keeper of the server");
    for (number, proxy) in proxies.iter_mut().enumerate() {
        let reply = proxy.run(PRINT_KEEPER);
        assert_eq!(reply["output"], format!("{keeper}\n"), "one server runs all jobs");
        assert_eq!(reply.job(), number as u64 + 1, "one count of jobs");
    }
    for proxy in &mut proxies {
        let jobs = proxy.call("list_jobs", json!({})).ok();
        assert_eq!(jobs["jobs"].as_array().expect("jobs").len(), 10, "one list of jobs");
    }
}

#[test]
fn ten_proxies_share_one_queue() {
    let server = OnDemand::new();
    let config = "[queue]\nslots = 1\n[mcp]\nresult_format = \"structured\"\n";
    let mut first = server.proxy().config(config).start();
    let mut second = server.proxy().start();
    let marker = Marker::new();
    let running = first.start(&format!("sleep {marker}"));
    marker.wait_alive();
    let waiting = second.call("run_command", json!({"command": "echo mine", "wait_s": 0})).ok();
    assert_eq!(waiting["state"], "queued", "the other's job has the one slot");
    first.call("stop_jobs", json!({"jobs": [running]})).ok();
    assert_eq!(second.wait_finished(waiting.job())["exit_code"], 0);
}

#[test]
fn jobs_run_where_their_client_was_started() {
    let server = OnDemand::new();
    let mut proxies = [server.proxy().start(), server.proxy().start()];
    for proxy in &mut proxies {
        let here = proxy.work().canonicalize().expect("its directory").display().to_string();
        assert_eq!(proxy.run("pwd")["output"], format!("{here}\n"));
        std::fs::create_dir(proxy.work().join("below")).expect("a directory of ours");
        let below = json!({"command": "pwd", "cwd": "below"});
        let below = proxy.call("run_command", below).ok();
        assert_eq!(below["output"], format!("{here}/below\n"));
        let elsewhere = proxy.call("run_command", json!({"command": "pwd", "cwd": "/"})).ok();
        assert_eq!(elsewhere["output"], "/\n");
    }
}

#[test]
fn the_server_keeps_running_when_its_first_proxy_ends() {
    let shellyard = OnDemand::new();
    let mut first = shellyard.proxy().start();
    let marker = Marker::new();
    first.start(&format!("sleep {marker}"));
    marker.wait_alive();
    let server = shellyard.server();
    first.stdio().hang_up();
    assert!(first.wait_exit().success(), "the end of input is a normal end");
    let mut second = shellyard.proxy().start();
    assert_eq!(shellyard.server(), server, "the same server");
    let jobs = second.call("list_jobs", json!({})).ok();
    assert_eq!(jobs.only_job()["state"], "running");
    assert!(!marker.alive().is_empty(), "the job runs on");
    // A session of its own: neither the terminal nor the group of the proxy reaches it.
    let stat = std::fs::read_to_string(format!("/proc/{server}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    assert_eq!((fields[2], fields[3]), (&*server.to_string(), &*server.to_string()));
}

#[test]
fn a_lost_server_is_started_again() {
    let shellyard = OnDemand::new();
    let mut proxy = shellyard.proxy().start();
    proxy.run("true");
    let first = keeper_in(shellyard.data()).expect("a keeper");
    signal(first, Signal::KILL);
    let reply = eventually_some("it works again, without a word of the client", || {
        Some(proxy.call("run_command", json!({"command": "echo back"}))).filter(|r| !r.is_error())
    });
    assert_eq!(reply["output"], "back\n");
    assert_ne!(keeper_in(shellyard.data()), Some(first));
}

#[test]
fn a_stopped_server_is_started_only_for_a_request() {
    let shellyard = OnDemand::new();
    let mut proxy = shellyard.proxy().start();
    proxy.run("true");
    signal(shellyard.server(), Signal::TERM);
    eventually("it looked for another", || {
        let log_text = proxy.log_text();
        let after = log_text.split("connection to the server lost").nth(1).unwrap_or_default();
        after.contains("the next call starts one")
    });
    assert_eq!(listener_of(&socket_in(shellyard.data())), None, "nobody asked");
    assert_eq!(proxy.log_text().matches("server started on demand").count(), 1);
    assert_eq!(proxy.run("echo back")["output"], "back\n");
}

#[test]
fn a_mistake_in_the_rules_is_told_to_the_client() {
    let server = OnDemand::new();
    let mut proxy = server.proxy().config("[policy]\ndeny = [\"re:(\"]\n").start_silent();
    for _ in 0..2 {
        let answer = proxy.rpc("ping", json!({}));
        let message = answer["error"]["message"].as_str().expect("an error");
        assert!(message.contains("server.log") && message.contains("policy.deny"), "{message}");
    }
}

#[test]
fn a_server_is_started_on_a_loopback_address_too() {
    let server = OnDemand::new();
    let url = format!("http://127.0.0.1:{}/yard", free_port());
    let launch =
        || Launch::stdio().data(server.data()).args(&["--connect", &url, "--ensure-server"]);
    let (mut first, mut second) = (launch().start(), launch().start());
    let (first, second) = (first.run(PRINT_KEEPER).text(), second.run(PRINT_KEEPER).text());
    let pid = |text: &str| text.lines().nth(1).expect("a pid").parse::<i32>().expect("a number");
    assert_eq!(pid(&first), pid(&second));
}

#[test]
fn a_failed_server_start_is_reported_with_its_last_log_lines() {
    let server = OnDemand::new();
    let url = format!("http://127.0.0.1:{}/metrics", free_port());
    let mut proxy = Launch::stdio()
        .data(server.data())
        .args(&["--connect", &url, "--ensure-server"])
        .start_silent();
    let answer = proxy.rpc("ping", json!({}));
    let message = answer["error"]["message"].as_str().expect("an error");
    assert!(message.contains("server.log") && message.contains("/metrics"), "{message}");
    assert_eq!(answer["error"]["data"]["code"], "server_unreachable");
    assert!(!socket_in(server.data()).exists());
}

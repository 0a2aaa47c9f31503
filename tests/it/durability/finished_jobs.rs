//! Finished jobs are the same after any restart.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::disturbance::{crash, upgrade};
use crate::harness::{Era, Launch, TestServer, eventually, private_dir};

/// A way from one server to the next.
#[derive(Debug, Clone, Copy)]
enum Restart {
    /// SIGKILL; the keeper starts the next server.
    Crash,
    Upgrade,
    /// SIGTERM, and another `serve` on the same data directory.
    Stop,
    /// SIGKILL of the keeper, and another `serve`.
    KeeperCrash,
}

const RESTARTS: [Restart; 4] =
    [Restart::Crash, Restart::Upgrade, Restart::Stop, Restart::KeeperCrash];

#[track_caller]
fn start(data: &Path, config: &str) -> TestServer {
    Launch::http().era(Era::Modern).structured().data(data).config(config).start()
}

#[track_caller]
fn restart(mut server: TestServer, how: Restart, config: &str) -> TestServer {
    let data = server.data().to_owned();
    match how {
        Restart::Crash => crash(&server),
        Restart::Upgrade => upgrade(&data),
        Restart::Stop | Restart::KeeperCrash => {
            let is_stop = matches!(how, Restart::Stop);
            server.signal(if is_stop { Signal::TERM } else { Signal::KILL });
            server.wait_exit();
            drop(server);
            return start(&data, config);
        }
    }
    server
}

/// Everything that replies show of a job, without what a reply adds for its reader.
#[track_caller]
fn read_everything(server: &mut TestServer, job: u64) -> Vec<Value> {
    let calls = [
        ("read_output", json!({"job": job})),
        ("read_output", json!({"job": job, "view": "raw", "cursor": "bytes:4", "max_bytes": 50})),
        ("read_output", json!({"job": job, "line": 3, "max_lines": 2})),
        ("read_output", json!({"job": job, "grep": "err|7"})),
        ("read_output", json!({"job": job, "form": "digest"})),
    ];
    let show = |(tool, arguments)| without_times(server.call(tool, arguments).ok().structured());
    calls.map(show).to_vec()
}

/// A reply without times, which are rounded differently when they were stored.
fn without_times(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let stays = fields.iter().filter(|(name, _)| !name.ends_with("_ms"));
            stays.map(|(name, field)| (name.clone(), without_times(field))).collect()
        }
        Value::Array(items) => items.iter().map(without_times).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[test]
fn finished_jobs_list_read_search_and_digest_as_before() {
    for how in RESTARTS {
        let data = private_dir();
        let config = "[output]\ncompress_from = \"64 KiB\"\n";
        let mut server = start(data.path(), config);
        let small = server.run("seq 1 20; exit 3").job();
        let large = server.run("seq 1 100000; echo 'error: it failed' >&2; exit 1").job();
        let streams = server.run_separate("echo out; sleep 0.2; echo err >&2").job();
        let empty = server.run("true").job();
        let killed = server.run("echo x; kill -9 $$").job();
        let jobs = [small, large, streams, empty, killed];
        let before = jobs.map(|job| read_everything(&mut server, job));
        let list = |server: &mut TestServer| {
            without_times(&server.call("list_jobs", json!({})).ok()["jobs"])
        };
        let listed = list(&mut server);
        let mut next = restart(server, how, config);
        let after = jobs.map(|job| read_everything(&mut next, job));
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after, "{how:?}");
        }
        assert_eq!(listed, list(&mut next), "{how:?}");
        assert!(next.run("true").job() > killed, "{how:?}: numbers go on");
    }
}

#[test]
fn a_resource_uri_from_before_a_crash_can_be_read() {
    let data = private_dir();
    let mut server = start(data.path(), "");
    let reply = server.run("echo resource");
    let uri = reply["uri"].as_str().expect("a URI").to_owned();
    let before = server.rpc("resources/read", json!({"uri": uri}));
    let mut next = restart(server, Restart::Crash, "");
    let after = next.rpc("resources/read", json!({"uri": uri}));
    assert_eq!(before["result"]["contents"], after["result"]["contents"], "{after}");
    assert!(after.to_string().contains("resource"), "{after}");
}

#[test]
fn retention_counts_jobs_of_earlier_servers_and_says_why_they_are_gone() {
    for how in [Restart::Crash, Restart::Stop] {
        let data = private_dir();
        let config = "[retention]\nmax_finished = 3\n";
        let mut server = start(data.path(), config);
        for _ in 0..4 {
            server.run("echo output");
        }
        let is_freed = |server: &mut TestServer, job: u64| {
            server.call("read_output", json!({"job": job})).is_error()
        };
        eventually("the first is freed", || is_freed(&mut server, 1));
        let said = |server: &mut TestServer, job: u64| {
            let reply = server.call("read_output", json!({"job": job}));
            assert_eq!(reply["error_code"], "job_freed", "{}", reply.0);
            reply["error"].as_str().expect("words").to_owned()
        };
        let mut next = restart(server, how, config);
        let after = said(&mut next, 1);
        assert!(after.contains("(retention.max_finished)"), "{how:?}: {after}");
        assert!(after.starts_with("job 1 was freed "), "{how:?}: {after}");
        next.run("echo output");
        eventually("the oldest of the earlier server is freed", || is_freed(&mut next, 2));
        assert!(said(&mut next, 2).contains("(retention.max_finished)"));
        assert!(!is_freed(&mut next, 4), "newer ones stay");
    }
}

#[test]
fn files_of_unknown_jobs_are_removed_and_those_of_known_ones_stay() {
    let data = private_dir();
    let mut server = start(data.path(), "");
    let job = server.run("seq 1 50000").job();
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    let stray = data.path().join("output").join("t-local-4711.log");
    std::fs::write(&stray, "stray").expect("the directory of the output files");
    let mut next = start(data.path(), "");
    eventually("it is removed", || !stray.exists());
    let page = next.read_raw(job, "bytes:0", 10);
    assert_eq!(page["total_bytes"], 288_894, "{page}");
}

//! The quotas of a tenant for stored output and CPU time, and the replies about them.

use serde_json::{Value, json};

use crate::harness::{HttpConnection, HttpRequest, Launch, Marker, TestServer, eventually};

/// A tenant that may store little.
const LITTLE_ROOM: &str = "[tenants.local]\nmax_stored = \"64 KiB\"\n";

/// Writes more than that.
const FLOOD: &str = "head -c 200000 /dev/zero | tr '\\0' x";

#[test]
fn finished_logs_make_room_for_every_later_job() {
    for launch in Launch::both() {
        let mut server = launch.structured().config(LITTLE_ROOM).start();
        for round in 0..3 {
            assert_eq!(server.run(FLOOD)["exit_code"], 0, "round {round}");
            for _ in 0..2 {
                let small = server.run("echo small");
                assert_eq!(small["output"], "small\n", "round {round}: {}", small.0);
                assert_eq!(small["dropped_bytes"], Value::Null, "round {round}: {}", small.0);
            }
        }
    }
}

#[test]
fn where_running_jobs_hold_all_room_the_setting_is_named() {
    let marker = Marker::new();
    let shared = "[output]\nmax_tenant = \"64 KiB\"\n";
    for (config, setting) in
        [(LITTLE_ROOM, "tenants.local.max_stored"), (shared, "output.max_tenant")]
    {
        let mut server = Launch::stdio().config(config).start();
        let flood = server.run(FLOOD).verdict();
        assert!(flood.contains(&format!("could not be kept ({setting} reached)")), "{flood}");
        let holder = server.start(&format!("sleep {marker} & while {FLOOD}; do sleep 0.1; done"));
        marker.wait_alive();
        // On a busy host room that is made for it may come after what it was made for.
        eventually("it has all the room there is", || {
            server.call("run_command", json!({"command": "true"})).is_error()
        });
        let refused = server.call("run_command", json!({"command": "touch never"})).error_text();
        let why = format!("at its limit of 64 KiB, and your running jobs hold it ({setting}); ");
        assert!(refused.contains(&why) && refused.ends_with(" [tenant_limit]"), "{refused}");
        assert!(!server.work().join("never").exists());
        server.call("stop_jobs", json!({"jobs": [holder]})).ok();
        marker.wait_gone();
    }
}

fn ask(server: &mut TestServer, request: &HttpRequest) -> String {
    let mut connection = HttpConnection::open(server.http().address());
    connection.send(request);
    connection.answer().text()
}

const CPU: &str = "shellyard_tenant_cpu_seconds{tenant=\"local\"}";
const BUSY: &str = "while :; do :; done";

#[test]
fn queued_jobs_of_a_tenant_that_used_up_its_cpu_time_wait() {
    let config = "[queue]\nslots = 1\n[tenants.local]\ncpu_s_per_hour = 1\n";
    let mut server = Launch::http().structured().config(config).start();
    let busy = server.start(BUSY);
    let waiting = server.start("touch never");
    let place = |server: &mut TestServer| {
        let waiting = server.call("wait_jobs", json!({"jobs": [waiting], "wait_s": 0})).ok();
        waiting.only_job()["waits_for"].clone()
    };
    eventually("a look finds it", || place(&mut server) == "CPU limit 1s per hour");
    assert!(server.metric(CPU) >= 1.0, "what runs counts");
    server.call("stop_jobs", json!({"jobs": [busy]})).ok();
    server.wait_finished(busy);
    assert_eq!(server.metric("shellyard_jobs_waiting{reason=\"tenant\"}"), 1.0);
    assert_eq!(place(&mut server), "CPU limit 1s per hour", "its slot is free");
    assert!(!server.work().join("never").exists());
}

#[test]
fn cpu_time_is_told_of_tenants_without_a_bound_too() {
    let mut server = Launch::http().structured().start();
    server.run("ulimit -t 2; while :; do :; done");
    eventually("its end is counted", || server.metric(CPU) >= 1.0);
}

#[test]
fn idle_tenants_show_their_limits_and_pauses_are_gauges() {
    let config = "[output]\nmax_tenant = \"1 MiB\"\n[quota]\nmax_running = 5\nmax_queued = 7\n\
                  [queue.lanes.build]\n[tenants.ci]\nmax_running = 2\n";
    let mut server = Launch::http().structured().config(config).start();
    for (series, expected) in [
        ("shellyard_tenant_jobs_running_limit{tenant=\"local\"}", 5.0),
        ("shellyard_tenant_jobs_queued_limit{tenant=\"ci\"}", 7.0),
        ("shellyard_tenant_jobs_running_limit{tenant=\"ci\"}", 2.0),
        ("shellyard_tenant_stored_limit_bytes{tenant=\"local\"}", 1_048_576.0),
        ("shellyard_tenant_stored_limit_bytes{tenant=\"ci\"}", 1_048_576.0),
        ("shellyard_lane_paused{lane=\"build\"}", 0.0),
        ("shellyard_draining", 0.0),
    ] {
        assert_eq!(server.metric(series), expected, "{series}");
    }
    server.run("echo stored");
    ask(&mut server, &HttpRequest::post("/api/v1/queue/pause", &json!({"lane": "build"})));
    assert_eq!(server.metric("shellyard_lane_paused{lane=\"build\"}"), 1.0);
    let resumed = ask(&mut server, &HttpRequest::post("/api/v1/queue/resume", &json!({})));
    let queue: Value = serde_json::from_str(&resumed).expect("an overview");
    assert_eq!(queue["lanes"]["build"]["paused"], false, "{queue}");
    assert_eq!(queue["tenants"]["local"]["max_stored"], 1_048_576, "{queue}");
    assert!(queue["tenants"]["local"]["stored_bytes"].as_u64() >= Some(7), "{queue}");
    ask(&mut server, &HttpRequest::post("/api/v1/drain", &json!({})));
    assert_eq!(server.metric("shellyard_draining"), 1.0);
}

#[test]
fn a_job_that_was_stopped_while_it_waited_says_so() {
    let marker = Marker::new();
    let mut server = Launch::stdio().config("[queue]\nslots = 1\n").start();
    server.start(&format!("sleep {marker}"));
    let waiting = server.start("touch never");
    server.call("stop_jobs", json!({"jobs": [waiting]})).ok();
    let ended = server.call("wait_jobs", json!({"jobs": [waiting]})).ok().text();
    let said = "for a slot and was not run (stopped on request)";
    assert!(ended.contains(&format!("{said} · job 2")), "{ended}");
    let listed = server.call("list_jobs", json!({})).ok().text();
    assert!(listed.contains("2 waited ") && listed.contains(said), "{listed}");
}

//! Finished jobs that are kept, and the replies about freed ones.

use serde_json::{Value, json};

use crate::harness::{
    HttpConnection, HttpRequest, Launch, Marker, Reply, TestServer, bytes_of, eventually,
};

fn start(retention: &str) -> TestServer {
    Launch::stdio().structured().config(&format!("[retention]\n{retention}\n")).start()
}

fn read(server: &mut TestServer, job: u64) -> Reply {
    server.call("read_output", json!({"job": job}))
}

/// The numbers of all jobs that are listed, newest first.
fn listed(server: &mut TestServer) -> Vec<u64> {
    let reply = server.call("list_jobs", json!({})).ok();
    reply["jobs"].as_array().expect("a list").iter().filter_map(|job| job["job"].as_u64()).collect()
}

/// Waits until a job is freed, and checks what is said of it.
#[track_caller]
fn expect_freed(server: &mut TestServer, job: u64, why: &str) {
    eventually(&format!("job {job} is freed"), || read(server, job).is_error());
    let reply = read(server, job);
    assert_eq!(reply["error_code"], "job_freed", "{}", reply.0);
    let text = reply["error"].as_str().expect("words").to_owned();
    assert!(text.starts_with(&format!("job {job} was freed ")), "{text}");
    assert!(text.contains(why), "{text}");
    assert!(text.ends_with("run it again if it is still needed"), "{text}");
}

#[test]
fn each_bound_frees_the_oldest_and_is_named() {
    for (setting, why) in [
        ("max_finished = 2", "more than 2 jobs had finished (retention.max_finished)"),
        ("tenant_max_finished = 2", "(retention.tenant_max_finished)"),
        ("max_bytes = 2500", "finished jobs stored more than 2500 bytes (retention.max_bytes)"),
        ("tenant_max_bytes = 2500", "(retention.tenant_max_bytes)"),
    ] {
        let mut server = start(setting);
        for _ in 0..3 {
            server.run("head -c 1000 /dev/zero");
        }
        expect_freed(&mut server, 1, why);
        assert_eq!(listed(&mut server), [3, 2], "{setting}");
        assert!(!read(&mut server, 3).is_error());
    }
}

#[test]
fn a_store_that_is_nearly_full_frees_the_oldest_and_takes_what_comes() {
    for cap in ["max_store", "max_tenant"] {
        let config = format!("[output]\n{cap} = \"3 MiB\"\ncompress_from = 0\n");
        let mut server = Launch::stdio().structured().config(&config).start();
        for job in 1..=6 {
            let status = server.run("head -c 1000000 /dev/zero | tr '\\0' x");
            assert_eq!((status.job(), &status["total_bytes"]), (job, &json!(1_000_000)), "{cap}");
            // The wish for room is met a moment after it was made.
            eventually("there is room again", || listed(&mut server).len() <= 2);
        }
        expect_freed(&mut server, 1, "running jobs needed its room");
        assert_eq!(listed(&mut server), [6, 5], "{cap}");
    }
}

#[test]
fn who_gets_too_old_is_freed_although_nothing_else_happens() {
    for (setting, why) in [
        ("max_age_s = 0.2", "older than 0.2 seconds (retention.max_age_s)"),
        ("tenant_max_age_s = 0.2", "older than 0.2 seconds (retention.tenant_max_age_s)"),
    ] {
        let mut server = start(setting);
        let running = server.start("sleep 300");
        let first = server.run("echo one").job();
        expect_freed(&mut server, first, why);
        let second = server.run("echo two").job();
        expect_freed(&mut server, second, why);
        assert_eq!(listed(&mut server), [running], "a running one never goes");
    }
}

#[test]
fn every_tool_and_route_tells_freed_from_unknown() {
    let mut server = start("max_finished = 1");
    server.run("echo one");
    server.run("echo two");
    expect_freed(&mut server, 1, "retention.max_finished");
    for tool in ["wait_jobs", "stop_jobs"] {
        let reply = server.call(tool, json!({"jobs": [1]}));
        assert_eq!(reply.only_job()["error_code"], "job_freed", "{}", reply.0);
        let reply = server.call(tool, json!({"jobs": [99]}));
        assert_eq!(reply.only_job()["error_code"], "unknown_job", "{}", reply.0);
    }
    let reply = server.call("send_input", json!({"job": 1, "text": "x"}));
    assert_eq!(reply["error_code"], "job_freed", "{}", reply.0);
    let answer = server.rpc("resources/read", json!({"uri": "shellyard://jobs/1/output"}));
    let message = answer["error"]["message"].as_str().expect("an error");
    assert!(message.contains("job 1 was freed"), "{answer}");
    assert_eq!(answer["error"]["data"]["error_code"], "job_freed", "{answer}");
}

#[test]
fn a_job_whose_processes_outlived_it_stays_and_takes_no_place_of_another() {
    let marker = Marker::new();
    let mut server = start("max_finished = 1");
    let daemon = server.run(&format!("sleep {marker} >/dev/null 2>&1 & echo one")).job();
    let second = server.run("echo two").job();
    assert!(!read(&mut server, second).is_error());
    let third = server.run("echo three").job();
    expect_freed(&mut server, second, "retention.max_finished");
    assert_eq!(listed(&mut server), [third, daemon]);
    assert!(!read(&mut server, third).is_error());
}

#[test]
fn the_newest_stays_however_large_it_is() {
    let mut server = start("max_bytes = 3000");
    let small = server.run("head -c 1000 /dev/zero").job();
    let large = server.run("head -c 5000 /dev/zero").job();
    expect_freed(&mut server, small, "retention.max_bytes");
    assert_eq!(listed(&mut server), [large]);
    let next = server.run("head -c 1000 /dev/zero").job();
    expect_freed(&mut server, large, "retention.max_bytes");
    assert_eq!(listed(&mut server), [next]);
}

#[test]
fn a_flood_at_a_cap_loses_nothing_while_finished_jobs_can_go_and_takes_no_more_of_them_than_needed()
{
    let config = "[output]\nmax_store = \"6 MiB\"\nmax_tenant = \"6 MiB\"\ncompress_from = 0\n";
    let mut server = Launch::stdio().structured().config(config).start();
    for _ in 0..5 {
        server.run("head -c 1000000 /dev/zero | tr '\\0' x");
    }
    let reply = server.run("head -c 3000000 /dev/zero | tr '\\0' y");
    assert_eq!(
        (&reply["total_bytes"], &reply["dropped_bytes"]),
        (&json!(3_000_000), &Value::Null),
        "{}",
        reply.0
    );
    // 5.66 MB may be taken before room is made: two of one million stay beside it.
    assert_eq!(listed(&mut server), [6, 5, 4]);
}

#[test]
fn a_reader_that_pages_while_its_job_is_swept_gets_right_bytes_or_is_told() {
    let mut server = start("max_finished = 1");
    let job = server.run("seq 1 100000").job();
    let whole: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    server.start("while [ ! -e gate ]; do sleep 0.01; done");
    let mut read = Vec::new();
    let told = loop {
        if read.len() > 2 * whole.len() {
            std::fs::write(server.work().join("gate"), "").expect("the gate opens");
        }
        let cursor = format!("bytes:{}", read.len() % whole.len());
        let page = json!({"job": job, "view": "raw", "cursor": cursor, "max_bytes": 20_000});
        let reply = server.call("read_output", page);
        if reply.is_error() {
            break reply;
        }
        read.extend(bytes_of(reply.structured()));
    };
    assert_eq!(told["error_code"], "job_freed", "{}", told.0);
    let repeated = whole.as_bytes().iter().cycle().take(read.len());
    assert!(read.iter().eq(repeated), "every byte before that was right");
}

#[test]
fn what_was_freed_is_counted() {
    let config = "[retention]\nmax_finished = 2\n";
    let mut server = Launch::http().structured().config(config).start();
    for _ in 0..5 {
        server.run("head -c 1000 /dev/zero");
    }
    let count = "shellyard_retention_freed_jobs_total{reason=\"count\"} 3";
    let counted = |server: &mut TestServer| {
        let mut connection = HttpConnection::open(server.http().address());
        connection.send(&HttpRequest::get("/metrics"));
        let text = connection.answer().text();
        let has = |line: &str| text.lines().any(|known| known == line);
        has(count)
            && has("shellyard_retention_freed_bytes_total 3000")
            && has("shellyard_output_stored_bytes{tier=\"disk\"} 2000")
            && has("shellyard_jobs_retained 2")
            && has("shellyard_retained_bytes 2000")
    };
    eventually("three are counted, and only two store anything", || counted(&mut server));
    let known: Value = server.call("list_jobs", json!({})).ok()["jobs"].clone();
    assert_eq!(known.as_array().map(Vec::len), Some(2), "{known}");
}

//! A flood of output leaves memory flat, and every byte readable.

use std::io::{BufReader, Read};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::harness::{Launch, TestServer, bytes_of, eventually, peak_rss_kib, rss_kib};

/// The allowed growth of the server, whatever a job writes.
const ALLOWED_GROWTH_KIB: u64 = 64 * 1024;

/// Runs one small job, so that what a server needs anyway is not counted as growth.
fn warmed_up() -> TestServer {
    let mut server = Launch::stdio().structured().start();
    let job = server.run("seq 1 100000").job();
    server.read_raw(job, "bytes:0", 1 << 20);
    server
}

#[track_caller]
fn assert_flat(server: &TestServer, before: u64) {
    let (now, peak) = (rss_kib(server.server_pid()), peak_rss_kib(server.server_pid()));
    assert!(
        peak <= before + ALLOWED_GROWTH_KIB,
        "memory grew from {before} KiB to a peak of {peak} KiB ({now} KiB now)"
    );
}

#[test]
fn a_300_mb_line_without_a_newline_does_not_grow_memory() {
    const LINE: u64 = 300_000_000;
    let mut server = warmed_up();
    let before = rss_kib(server.server_pid());
    let job = server.start(&format!("head -c {LINE} /dev/zero | tr '\\0' x"));
    let status = server.wait_finished(job);
    assert_eq!(status["exit_code"], 0, "{status}");
    assert_eq!(status["total_bytes"], LINE);
    for arguments in [
        json!({"job": job}),
        json!({"job": job, "view": "tail"}),
        json!({"job": job, "view": "head"}),
        json!({"job": job, "line": 1}),
        json!({"job": job, "grep": "y"}),
        json!({"job": job, "view": "raw", "cursor": "bytes:150000000", "max_bytes": 1 << 20}),
    ] {
        server.call("read_output", arguments);
    }
    let page = server.read_raw(job, "bytes:299999990", 1 << 20);
    assert_eq!(bytes_of(&page), b"xxxxxxxxxx");
    assert_flat(&server, before);
}

#[test]
fn a_flood_leaves_memory_flat_and_every_byte_readable() {
    const FLOOD: &str = "seq 1 30000000 | head -c 256000000";
    let mut server = warmed_up();
    let before = rss_kib(server.server_pid());
    let job = server.start(FLOOD);
    let status = server.wait_finished(job);
    assert_eq!(status["total_bytes"], 256_000_000, "{status}");
    assert_same_bytes(&mut server, job, FLOOD);
    assert_flat(&server, before);
}

/// Reads the whole job in pages of 1 MiB beside the same command run without the server.
#[track_caller]
fn assert_same_bytes(server: &mut TestServer, job: u64, command: &str) {
    let mut child =
        Command::new("sh").args(["-c", command]).stdout(Stdio::piped()).spawn().expect("a shell");
    let mut expected = BufReader::new(child.stdout.take().expect("it was piped"));
    let mut next = Some("bytes:0".to_owned());
    let mut offset = 0;
    while let Some(cursor) = next {
        let page = server.read_raw(job, &cursor, 1 << 20);
        let bytes = bytes_of(&page);
        let mut wanted = vec![0; bytes.len()];
        expected.read_exact(&mut wanted).expect("as many bytes as the job wrote");
        assert!(bytes == wanted, "other bytes in the page at {offset}");
        offset += bytes.len();
        next = page["next_cursor"].as_str().map(str::to_owned);
    }
    assert_eq!(expected.read(&mut [0]).expect("the end"), 0, "bytes are missing after {offset}");
    child.wait().expect("a child of ours");
}

#[test]
fn a_flood_does_not_delay_another_job() {
    let mut server = warmed_up();
    let flood = server.start("yes | head -c 200000000; sleep 0.1");
    for number in 0..10 {
        let reply = server.run(&format!("echo small {number}"));
        assert_eq!(reply["output"], format!("small {number}\n"));
    }
    assert_eq!(server.wait_finished(flood)["total_bytes"], 200_000_000);
}

#[test]
fn a_survivor_that_floods_delays_the_reply_no_longer_than_is_set() {
    const DRAIN_MAX_MS: u64 = 300;
    let config = format!("[job]\ndrain_max_ms = {DRAIN_MAX_MS}\n");
    let mut server = Launch::stdio().structured().config(&config).start();
    // Bounded in time and, since only its ends are kept, in room.
    let flood = json!({"command": "timeout 20 yes &", "on_large_output": "truncate"});
    // A busy machine delays some of them. A server that waits for the flood delays all.
    eventually("one reply is as early", || {
        let reply = server.call("run_command", flood.clone());
        server.call("stop_jobs", json!({"jobs": [reply.job()], "grace_s": 0}));
        reply["elapsed_ms"].as_u64().expect("a time") < 3 * DRAIN_MAX_MS
    });
}

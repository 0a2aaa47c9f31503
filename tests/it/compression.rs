//! A finished log is compressed in the background, and nobody can tell by reading it.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Launch, TestServer, bytes_of, eventually};

/// About 20 MB that compress well, on both streams.
const LARGE: &str = "seq 1 2500000; seq -f 'error: number %.0f failed' 1 1000 >&2; seq 1 30000";

const IN_FILES: &str = "shellyard_output_stored_bytes{tier=\"disk\"}";
const IN_LESS_ROOM: &str = "shellyard_output_stored_bytes{tier=\"compressed\"}";
const COMPRESSED: &str = "shellyard_output_compressed_bytes_total";

fn start(compress_from: &str) -> TestServer {
    let config = format!("[output]\ncompress_from = {compress_from:?}\n");
    Launch::http().structured().config(&config).start()
}

/// Returns the part of the log that a reply shows.
fn shown_part(reply: &Value) -> Vec<Value> {
    let fields = ["output", "stdout", "stderr", "bytes_start", "bytes_end", "lines", "matches"];
    fields.iter().map(|field| reply[field].clone()).collect()
}

/// All that can be asked of a log.
fn everything(server: &mut TestServer, job: u64) -> Vec<Vec<Value>> {
    let questions = [
        json!({"job": job, "view": "head"}),
        json!({"job": job, "view": "tail"}),
        json!({"job": job, "view": "tail", "stream": "stderr", "max_lines": 7}),
        json!({"job": job, "line": 1_234_567, "max_lines": 20}),
        json!({"job": job, "cursor": "bytes:9999999", "stream": "stdout"}),
        json!({"job": job, "grep": "^1?99999[0-9]?$", "context": 2}),
        json!({"job": job, "grep": "number 7.*failed", "stream": "stderr"}),
    ];
    let mut ask = |mut question: Value| {
        // Else the page has the room that the rest of the reply leaves, which is another by then.
        question["max_bytes"] = json!(16_384);
        shown_part(server.call("read_output", question).ok().structured())
    };
    questions.into_iter().map(&mut ask).collect()
}

fn all_pages(server: &mut TestServer, job: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let page = server.read_raw(job, &format!("bytes:{}", bytes.len()), 1 << 20);
        bytes.extend(bytes_of(&page));
        if page["end"] != "more" {
            return bytes;
        }
    }
}

#[test]
fn a_log_answers_every_question_after_compression_as_before() {
    let mut server = start("1 MiB");
    // Its child holds the log open for a while: nothing is compressed under a writer.
    let command = format!("{LARGE}; while [ ! -e gate ]; do sleep 0.05; done &");
    let arguments = json!({"command": command, "wait_s": 0, "streams": "separate"});
    let job = server.call("run_command", arguments).ok().job();
    let total = server.wait_finished(job)["total_bytes"].as_u64().expect("a number");
    assert!(total > 19_000_000, "{total}");
    // The index of the streams has a file of its own.
    let index = server.metric(IN_FILES) - total as f64;
    assert!((0.0..total as f64).contains(&index), "{index} beside {total}");
    let (before, raw) = (everything(&mut server, job), all_pages(&mut server, job));
    assert_eq!(server.metric(COMPRESSED), 0.0);
    fs::write(server.work().join("gate"), "").expect("the gate opens");
    eventually("it is compressed", || server.metric(COMPRESSED) == total as f64);
    let stored = server.metric(IN_LESS_ROOM);
    assert!(server.metric(IN_FILES) <= index, "only the index is left");
    assert!(stored > 0.0 && stored * 3.0 < total as f64, "{stored} of {total}");
    assert!(everything(&mut server, job) == before);
    assert!(raw.len() as u64 == total && all_pages(&mut server, job) == raw);
}

#[test]
fn small_and_incompressible_logs_stay_as_they_are() {
    let mut server = start("100 KiB");
    let random = server.run("head -c 300000 /dev/urandom").job();
    let small = server.run("seq 1 10000").job();
    // Logs take turns, so this one is compressed after the random one was tried.
    let large = server.run("seq 1 200000").job();
    let total = server.wait_finished(large)["total_bytes"].as_u64().expect("a number");
    eventually("the large one is compressed", || server.metric(COMPRESSED) > 0.0);
    assert_eq!(server.metric(COMPRESSED), total as f64);
    assert_eq!(all_pages(&mut server, random).len(), 300_000);
    assert!(all_pages(&mut server, small).ends_with(b"\n10000\n"));
}

#[test]
fn compression_can_be_switched_off() {
    let mut server = start("0");
    let job = server.run("seq 1 300000").job();
    let total = server.wait_finished(job)["total_bytes"].as_u64().expect("a number");
    assert_eq!(all_pages(&mut server, job).len() as u64, total);
    assert_eq!((server.metric(IN_FILES), server.metric(COMPRESSED)), (total as f64, 0.0));
}

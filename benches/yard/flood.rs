//! Bytes per second captured from one job that writes as fast as it can.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::client::Client;
use crate::report::{Row, median};
use crate::server::Server;

const MB: f64 = 1e6;

/// The rate of capture beside a bare loop that drains the same pipe into a file, and the rate
/// at which all of it is read back.
pub(crate) fn measure(rounds: usize, bytes: u64) -> Vec<Row> {
    let server = Server::start(&[("SHELLYARD_MCP_RESULT_FORMAT", "structured")]);
    let mut client = Client::connect(server.address());
    let warm_up = capture(&mut client, 1 << 20);
    read_back(&mut client, warm_up.job, 1 << 20);
    let before = server.peak_rss_mib();
    let mut last_job = warm_up.job;
    let pairs: Vec<(f64, f64)> = (0..rounds)
        .map(|_| {
            let floor = drain_to_file(bytes, server.folder());
            let captured = capture(&mut client, bytes);
            last_job = captured.job;
            (captured.rate, floor)
        })
        .collect();
    let growth = server.peak_rss_mib() - before;
    let middle = |pick: fn(&(f64, f64)) -> f64| median(pairs.iter().map(pick).collect());
    let size = bytes >> 20;
    let row = |what: String, unit, ours, floor| Row { what, unit, ours, floor };
    vec![
        row(
            format!("{size} MiB captured from one job"),
            "MB/s",
            middle(|(ours, _)| *ours),
            Some(middle(|(_, floor)| *floor)),
        ),
        row(format!("memory grown by {rounds} such floods"), "MiB", growth, None),
        row(
            format!("{size} MiB read back in pages of 1 MiB"),
            "MB/s",
            read_back(&mut client, last_job, bytes),
            None,
        ),
    ]
}

fn source(bytes: u64) -> String {
    format!("head -c {bytes} /dev/zero | tr '\\0' x")
}

#[derive(Debug)]
struct Captured {
    job: u64,
    rate: f64,
}

/// Runs the source as a job, to its end; every byte must have been counted. Measured is what the
/// job took from its start to its end: the reply looks through the output once more.
fn capture(client: &mut Client, bytes: u64) -> Captured {
    let arguments = json!({"command": source(bytes), "wait_s": 45});
    let mut status = client.structured("run_command", &arguments);
    let job = status["job"].as_u64().expect("a job");
    while status["state"] != "finished" {
        let reply = client.structured("wait_jobs", &json!({"jobs": [job], "wait_s": 45}));
        status = reply["jobs"][0].clone();
    }
    let seconds = status["elapsed_ms"].as_f64().expect("a time") / 1000.0;
    assert_eq!(status["total_bytes"], bytes, "every byte is counted: {status}");
    Captured { job, rate: bytes as f64 / MB / seconds }
}

/// The floor: a loop that reads 64 KiB and writes 64 KiB.
fn drain_to_file(bytes: u64, folder: &Path) -> f64 {
    let path = folder.join("floor");
    let start = Instant::now();
    let mut child = Command::new("/bin/sh")
        .args(["-c", &source(bytes)])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut pipe = child.stdout.take().expect("it was piped");
    let mut file = File::create(&path).expect("a file of ours");
    let mut block = vec![0; 64 * 1024];
    let mut total = 0;
    loop {
        let count = pipe.read(&mut block).expect("a pipe");
        if count == 0 {
            break;
        }
        file.write_all(&block[..count]).expect("room on the disk");
        total += count as u64;
    }
    child.wait().expect("a child of ours");
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(total, bytes, "every byte is counted");
    fs::remove_file(path).expect("a file of ours");
    bytes as f64 / MB / seconds
}

/// Reads the whole job and checks every byte of it.
fn read_back(client: &mut Client, job: u64, bytes: u64) -> f64 {
    let start = Instant::now();
    let mut total = 0;
    let mut next = Some("bytes:0".to_owned());
    while let Some(cursor) = next {
        let arguments = json!({"job": job, "view": "raw", "cursor": cursor, "max_bytes": 1 << 20});
        let page = client.structured("read_output", &arguments);
        let text = page["output"].as_str().expect("a page has output");
        let decoded = STANDARD.decode(text).expect("base64");
        assert!(decoded.iter().all(|byte| *byte == b'x'), "other bytes at {cursor}");
        total += decoded.len() as u64;
        next = page["next_cursor"].as_str().map(str::to_owned);
    }
    assert_eq!(total, bytes, "every byte is readable");
    bytes as f64 / MB / start.elapsed().as_secs_f64()
}

//! S: bytes per second searched in one long log, beside ripgrep on the very same file.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::bench::{Bench, STRUCTURED};
use crate::client::HttpClient;
use crate::report::{Measured, Row};
use crate::stats::{median, timed};

const MB: f64 = 1e6;
const BLOCK_BYTES: usize = 4 << 20;
/// The last line, so that the job need not end: what has ended may be packed.
const LAST: &str = "all lines are written";

/// The patterns: a literal, a literal with a class, one in any case, and a class alone.
const PATTERNS: [&str; 4] =
    ["needle-0007", "ERROR [a-z]+ [0-9]{5}", "(?i)error CONNECTION", "[0-9]{9}"];

/// The rate of each search, and how much memory all of them took.
pub(crate) fn measure(bench: &Bench) -> Measured {
    let server = bench.http(&[STRUCTURED]);
    let mut client = server.client();
    let (job, total) = write_log(&mut client, server.folder(), bench.scale.search_bytes);
    let file = server.usage().largest_file();
    search(&mut client, job, "nothing like it");
    let before = server.usage().peak_rss_kb();
    let mut rows: Vec<Row> = Vec::new();
    for pattern in PATTERNS {
        let (mut ours, mut floor) = (Vec::new(), Vec::new());
        for _ in 0..bench.scale.search_rounds {
            let (expected, time) = timed(|| ripgrep(pattern, &file));
            floor.push(time);
            let (found, time) = timed(|| search(&mut client, job, pattern));
            ours.push(time);
            assert_eq!(found, expected, "both find the same lines");
        }
        let rate = |times: &[f64]| total as f64 / MB / median(times) * 1e3;
        let what = format!("{} MB searched for `{pattern}`", total / 1_000_000);
        rows.push(Row::new(what, "MB/s", rate(&ours)).beside(rate(&floor)));
    }
    let grown = (server.usage().peak_rss_kb() - before) / 1e3;
    rows.push(Row::new("memory grown by these searches", "MB", grown));
    rows.into()
}

/// Starts a job that writes about so many bytes of lines; its number, and the bytes it wrote.
fn write_log(client: &mut HttpClient, folder: &Path, bytes: u64) -> (u64, u64) {
    let block = folder.join("block");
    fs::write(&block, lines()).expect("room on the disk");
    let times = bytes.div_ceil(BLOCK_BYTES as u64);
    let script = format!(
        "i=0; while [ $i -lt {times} ]; do cat '{}'; i=$((i+1)); done; echo {LAST}; sleep 3600",
        block.display()
    );
    let job = client.structured("run_command", &json!({"command": script, "wait_s": 0}));
    let job = job["job"].as_u64().expect("a job");
    let until = json!({"jobs": [job], "until": format!("^{LAST}$"), "wait_s": 45});
    loop {
        let status = client.structured("wait_jobs", &until)["jobs"][0].clone();
        assert_eq!(status["state"], "running", "{status}");
        if status.get("matched_line").is_some() {
            return (job, status["total_bytes"].as_u64().expect("a size"));
        }
    }
}

/// A block of log lines, each of them a little different; a few hundred are rare ones.
fn lines() -> String {
    let mut text = String::with_capacity(BLOCK_BYTES + 200);
    let mut number = 0_u64;
    while text.len() < BLOCK_BYTES {
        let noise = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let level = if number.is_multiple_of(997) { "ERROR connection" } else { "INFO request" };
        let rare = if number.is_multiple_of(50_021) { " needle-0007" } else { "" };
        text += &format!(
            "2026-01-01T00:00:{:02}.{:03}Z {level} {:05} took {noise} us on worker-{}{rare}\n",
            number / 1000 % 60,
            number % 1000,
            number % 100_000,
            number % 16,
        );
        number += 1;
    }
    text
}

/// Number of matching lines, as Shellyard counts them.
fn search(client: &mut HttpClient, job: u64, pattern: &str) -> u64 {
    let arguments = json!({"job": job, "grep": pattern, "max_lines": 10});
    let found = client.structured("read_output", &arguments);
    found["matches"].as_u64().expect("a count")
}

/// Number of matching lines, as ripgrep counts them.
fn ripgrep(pattern: &str, file: &Path) -> u64 {
    let output = Command::new("rg")
        .args(["--no-config", "-c", "-e", pattern])
        .arg(file)
        .output()
        .expect("ripgrep is measured beside us; install it: apt-get install ripgrep");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().unwrap_or(0)
}

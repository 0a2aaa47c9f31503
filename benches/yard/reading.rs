//! Pages of a huge log, and many readers who follow one job.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::Client;
use crate::report::{Row, median};
use crate::server::Server;

const MB: f64 = 1e6;
const PAGE: u64 = 64 * 1024;
/// How often each place is read.
const LOOKS: u64 = 200;
const POLLERS: usize = 64;
/// The cost of a page at a random offset beside one at the start, and what readers get who follow
/// one job at the same time.
pub(crate) fn measure(log_bytes: u64, followed_mb: u64) -> Vec<Row> {
    let server = Server::start(&[
        ("SHELLYARD_MCP_RESULT_FORMAT", "structured"),
        // The log is to be read as it was written.
        ("SHELLYARD_OUTPUT_COMPRESS_FROM", "0"),
    ]);
    let mut client = Client::connect(server.address());
    vec![pages(&mut client, log_bytes), followers(server.address(), followed_mb)]
}

fn pages(client: &mut Client, bytes: u64) -> Row {
    let job = run(client, &format!("head -c {bytes} /dev/zero | tr '\\0' x"));
    await_end(client, job);
    let mut place = Places { state: 88_172_645_463_325_252, below: bytes - PAGE };
    let mut at = |offset| {
        let started = Instant::now();
        let page = page(client, job, offset, PAGE);
        assert_eq!(page["bytes_end"], offset + PAGE, "{page}");
        started.elapsed().as_secs_f64() * 1e6
    };
    at(0);
    let (mut random, mut start) = (Vec::new(), Vec::new());
    for _ in 0..LOOKS {
        start.push(at(0));
        random.push(at(place.next()));
    }
    Row {
        what: format!("a page at random of {} MiB, beside the first", bytes >> 20),
        unit: "us",
        ours: median(random),
        floor: Some(median(start)),
    }
}

/// Offsets that repeat only after a very long time (xorshift).
struct Places {
    state: u64,
    below: u64,
}

impl Places {
    const fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % self.below
    }
}

/// The job writes so many megabytes, twenty in a second.
fn followers(address: SocketAddr, megabytes: u64) -> Row {
    let mut client = Client::connect(address);
    let megabyte = "head -c 1000000 /dev/zero | tr '\\0' x";
    let job =
        run(&mut client, &format!("for i in $(seq {megabytes}); do {megabyte}; sleep 0.05; done"));
    let started = Instant::now();
    let readers: Vec<_> =
        (0..POLLERS).map(|_| thread::spawn(move || follow(address, job))).collect();
    let expected = megabytes * 1_000_000;
    for reader in readers {
        assert_eq!(reader.join().expect("a reader"), expected, "a reader missed bytes");
    }
    Row {
        what: format!("{POLLERS} readers of one job at 20 MB/s, all bytes each"),
        unit: "MB/s",
        ours: expected as f64 * POLLERS as f64 / MB / started.elapsed().as_secs_f64(),
        floor: None,
    }
}

/// Reads a job by its cursor until its end; how many bytes that were.
fn follow(address: SocketAddr, job: u64) -> u64 {
    let mut client = Client::connect(address);
    let mut offset = 0;
    loop {
        let page = page(&mut client, job, offset, 1 << 20);
        let bytes = STANDARD.decode(page["output"].as_str().unwrap_or_default()).expect("base64");
        assert!(bytes.iter().all(|byte| *byte == b'x'), "other bytes at {offset}");
        offset += bytes.len() as u64;
        assert_eq!(page["bytes_end"], offset, "{}", page["next_cursor"]);
        if page["end"] == "complete" {
            return offset;
        }
        if bytes.is_empty() {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn page(client: &mut Client, job: u64, offset: u64, bytes: u64) -> Value {
    let cursor = format!("bytes:{offset}");
    let arguments = json!({"job": job, "view": "raw", "cursor": cursor, "max_bytes": bytes});
    client.structured("read_output", &arguments)
}

fn run(client: &mut Client, command: &str) -> u64 {
    let status = client.structured("run_command", &json!({"command": command, "wait_s": 0}));
    status["job"].as_u64().expect("a job")
}

fn await_end(client: &mut Client, job: u64) {
    let wait = json!({"jobs": [job], "wait_s": 45});
    while client.structured("wait_jobs", &wait)["jobs"][0]["state"] != "finished" {}
}

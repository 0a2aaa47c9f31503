//! Calls per second of `echo hi` over HTTP, at 64 callers at once.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Call, Client};
use crate::report::{Row, median};
use crate::server::Server;

const CALLERS: usize = 64;

/// One round: how many per second, and how long the middle one took.
#[derive(Debug, Clone, Copy)]
struct Round {
    per_second: f64,
    median_ms: f64,
}

/// The rate and the latency with this shell, and what the same command costs without us.
pub(crate) fn measure(shell: &str, rounds: usize, calls: usize) -> Vec<Row> {
    let server = Server::start(&[("SHELLYARD_JOB_SHELL", shell)]);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // Alternating, so that a busy moment of the machine hits both.
    let pairs: Vec<(Round, Round)> = (0..rounds)
        .map(|_| {
            let floor = round(cores, calls, || || spawn_and_wait(shell));
            let ours = round(CALLERS, calls, || caller(&server));
            (ours, floor)
        })
        .collect();
    let middle = |pick: fn(&(Round, Round)) -> f64| median(pairs.iter().map(pick).collect());
    let alone = round(1, calls / 8, || caller(&server));
    let alone_floor = round(1, calls / 8, || || spawn_and_wait(shell));
    vec![
        Row {
            what: format!("`echo hi` in {shell}, HTTP, {CALLERS} callers"),
            unit: "calls/s",
            ours: middle(|(ours, _)| ours.per_second),
            floor: Some(middle(|(_, floor)| floor.per_second)),
        },
        Row {
            what: format!("`echo hi` in {shell}, HTTP, one caller, p50"),
            unit: "ms",
            ours: alone.median_ms,
            floor: Some(alone_floor.median_ms),
        },
    ]
}

/// Shares `total` runs of what `make` gives between this many threads.
fn round<F: FnMut()>(threads: usize, total: usize, make: impl Fn() -> F + Sync) -> Round {
    let left = AtomicUsize::new(total.max(threads));
    let start = Instant::now();
    let mut times: Vec<f64> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(&left, make()))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    Round { per_second: times.len() as f64 / seconds, median_ms: times[times.len() / 2] }
}

fn work(left: &AtomicUsize, mut task: impl FnMut()) -> Vec<f64> {
    let take = |count: usize| count.checked_sub(1);
    let mut times = Vec::new();
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        let start = Instant::now();
        task();
        times.push(milliseconds(start.elapsed()));
    }
    times
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A caller with a connection of its own that checks every answer.
fn caller(server: &Server) -> impl FnMut() + use<> {
    let mut client = Client::connect(server.address());
    let call = Call::new("run_command", &json!({"command": "echo hi"}));
    move || {
        let body = client.send(&call);
        let is_right = memchr::memmem::find(&body, b"exit 0").is_some()
            && memchr::memmem::find(&body, b"hi").is_some();
        assert!(is_right, "{}", String::from_utf8_lossy(&body));
    }
}

/// The floor: start the shell, drain its pipes, reap it.
fn spawn_and_wait(shell: &str) {
    let output = Command::new(shell).args(["-c", "echo hi"]).output().expect("a shell");
    assert_eq!(output.stdout, b"hi\n");
}

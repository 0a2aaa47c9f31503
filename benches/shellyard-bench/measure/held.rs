//! C: jobs that only sit there.

use std::collections::HashMap;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::latency::echo;
use crate::bench::{Bench, Setting};
use crate::client::{Call, HttpClient, over_http};
use crate::report::{Curve, Goal, Measured, Row};
use crate::server::{HttpServer, Usage};
use crate::stats::{block, median, timed};
use memchr::memmem;

/// The number of jobs that has goals.
const JUDGED: usize = 1_000;
/// The name of the process that is the parent of a job.
const SHIM: &str = "shellyard-shim";
/// Connections over which they are started.
const STARTERS: usize = 16;

/// Memory, files, threads and idle CPU by running jobs, and a call beside them. Only the slots
/// are more than by default.
pub(crate) fn measure(bench: &Bench) -> Measured {
    let most = bench.scale.held.iter().max().expect("a load");
    let slots = (most + STARTERS).to_string();
    let slots: Setting<'_> = ("queue_slots", &slots);
    let (empty, full) = (bench.http(&[slots]), bench.http(&[slots]));
    let mut yards = ServerPair { empty: empty.client(), full: full.client() };
    // What is made once, at the first job, is no cost of a job.
    block(bench.scale.block, || echo(&mut yards.full));
    let (mut rows, mut calls, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for held in bench.scale.held.iter().copied() {
        // Of each step by itself: the short calls beside the last one are known to the server as well.
        let before = ServerResources::at(&full);
        let started = hold(&full, &mut yards.full, held);
        let all =
            Row::new(format!("{held} jobs asked for: running"), "jobs", started.running as f64);
        rows.push(all.beside(held as f64).goal(Goal::RatioAtLeast(1.0)));
        if started.running < held {
            break;
        }
        let start = format!("{held} running jobs: the start of each");
        rows.push(Row::new(start, "ms", started.each_ms));
        starts.push((held as f64, started.each_ms));
        let look = ServerResources::at(&full);
        let idle = idle_percent(&full.processes(), bench.scale.idle_ms);
        let (beside, alone) = yards.calls(bench);
        rows.extend(look.rows(&before, held, started.new));
        rows.push(idle_row(held, idle));
        rows.push(
            Row::new(format!("`echo hi` beside {held} running jobs, p50"), "ms", beside)
                .beside(alone)
                .goal_at(held, JUDGED, Goal::RatioAtMost(1.5)),
        );
        calls.push((held as f64, beside));
    }
    let curve =
        |name, title, cost, points| Curve { name, title, load: "running jobs", cost, points };
    let curves = vec![
        curve("held", "a short call beside running jobs", "ms, p50", calls),
        curve("starts", "the start of one more", "ms", starts),
    ];
    Measured { rows, curves }
}

/// Returns the number of requested jobs that run, and the time that each new one took.
struct Started {
    new: usize,
    running: usize,
    each_ms: f64,
}

/// Starts jobs until so many run, or files are used up, which is said clearly.
fn hold(server: &HttpServer, client: &mut HttpClient, wanted: usize) -> Started {
    let [running, _] = client.running_and_queued();
    let missing = wanted - running as usize;
    let sleep = serde_json::json!({"command": "exec sleep 3600", "wait_s": 0});
    let call = Call::new("run_command", &sleep);
    let has = |answer: &[u8], text: &str| memmem::find(answer, text.as_bytes()).is_some();
    let check = |answer: &[u8]| {
        let is_clear = has(answer, r#""isError":false"#) || has(answer, "raise its hard limit");
        assert!(is_clear, "{}", String::from_utf8_lossy(answer));
    };
    let mut starters = server.clients(STARTERS);
    let ((), ms) = timed(|| over_http(&mut starters, missing, &call, check));
    Started { new: missing, running: wait_until_settled(client), each_ms: ms / missing as f64 }
}

/// Returns the number of running jobs once none is queued and the number no longer changes: an
/// answer may arrive before the outcome of a start is known.
fn wait_until_settled(client: &mut HttpClient) -> usize {
    let mut before = client.running_and_queued();
    loop {
        thread::sleep(Duration::from_millis(200));
        let now = client.running_and_queued();
        if now == before && now[1] == 0 {
            return now[0] as usize;
        }
        before = now;
    }
}

/// The resources of the server's own process, and the memory of its shims.
struct ServerResources {
    rss_kb: f64,
    shims_kb: f64,
    anonymous_kb: f64,
    files: f64,
    threads: f64,
}

impl ServerResources {
    fn at(server: &HttpServer) -> Self {
        let usage = server.usage();
        let processes = server.processes();
        let shims = processes.iter().filter(|process| process.name() == SHIM);
        Self {
            rss_kb: usage.rss_kb(),
            shims_kb: shims.map(Usage::proportional_kb).sum(),
            anonymous_kb: usage.anonymous_kb(),
            files: usage.files(),
            threads: usage.threads(),
        }
    }

    fn rows(&self, before: &Self, held: usize, new: usize) -> [Row; 5] {
        let each = |what: &str, unit, now: f64, then: f64| {
            let what = format!("{held} running jobs: {what} of each");
            Row::new(what, unit, (now - then) / new as f64)
        };
        let at = |row: Row, goal| row.goal_at(held, JUDGED, Goal::AtMost(goal));
        [
            at(each("memory", "KB", self.rss_kb, before.rss_kb), 24.0),
            each("memory of the shim", "KB", self.shims_kb, before.shims_kb),
            each("allocated memory", "KB", self.anonymous_kb, before.anonymous_kb),
            each("open files", "files", self.files, before.files),
            // A few for all of them are none for each.
            at(each("threads", "threads", self.threads, before.threads), 0.01),
        ]
    }
}

/// CPU time of the server, its keeper and all jobs while nothing is asked. Of the threads that are there at the
/// end: one that has ended would take all that it ever used out of the sum.
fn idle_percent(own: &[Usage], idle_ms: u64) -> f64 {
    let look = || own.iter().flat_map(Usage::thread_cpu_ms).collect::<HashMap<_, _>>();
    let before = look();
    thread::sleep(Duration::from_millis(idle_ms));
    let after = look();
    assert!(!after.is_empty(), "this kernel counts no CPU time of threads (schedstat)");
    let since = |(thread, ms): (&PathBuf, &f64)| ms - before.get(thread).unwrap_or(&0.0);
    after.iter().map(since).sum::<f64>() * 100.0 / idle_ms as f64
}

/// A thousandth of a core is nothing.
fn idle_row(held: usize, percent: f64) -> Row {
    let row = Row::new(format!("{held} running jobs: idle CPU"), "% of a core", percent);
    row.goal_at(held, JUDGED, Goal::AtMost(0.1))
}

/// The server with the jobs, and one without any.
struct ServerPair {
    empty: HttpClient,
    full: HttpClient,
}

impl ServerPair {
    /// The median of a call to each.
    fn calls(&mut self, bench: &Bench) -> (f64, f64) {
        let (mut beside, mut alone) = (Vec::new(), Vec::new());
        for _ in 0..bench.scale.rounds {
            alone.extend(block(bench.scale.block / 2, || echo(&mut self.empty)));
            beside.extend(block(bench.scale.block / 2, || echo(&mut self.full)));
        }
        (median(&beside), median(&alone))
    }
}

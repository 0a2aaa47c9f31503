//! D: one job that writes as fast as it can.

use std::fs;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::sources::Source;
use crate::bench::{Bench, STRUCTURED, UNCOMPRESSED};
use crate::client::{HttpClient, Page, page_call};
use crate::floor;
use crate::report::{Curve, Goal, Measured, Row};
use crate::server::HttpServer;
use crate::stats::median;

const MB: f64 = 1e6;
const GB: f64 = 1e9;
/// Between two looks whether the job has ended: few enough not to be seen in what it costs.
const PAUSE: Duration = Duration::from_millis(20);

/// Rate, CPU time and memory beside a bare loop that drains the same pipe into a file; then all of
/// it is read back and compared.
pub(crate) fn measure(bench: &Bench) -> Measured {
    let mut yard = CaptureServer::open(bench);
    let largest = *bench.scale.floods.last().expect("a load");
    let rows = Source::ALL.iter().flat_map(|source| yard.rows(bench, *source, largest)).collect();
    let points = bench.scale.floods.iter().map(|bytes| {
        let times: Vec<f64> = (0..bench.scale.flood_rounds)
            .map(|_| yard.capture(Source::Tr, *bytes).seconds)
            .collect();
        (*bytes as f64 / MB, median(&times))
    });
    let curve = Curve {
        name: "capture",
        title: "capture of one job's output",
        load: "MB written",
        cost: "seconds",
        points: points.collect(),
    };
    Measured { rows, curves: vec![curve] }
}

struct CaptureServer {
    server: HttpServer,
    client: HttpClient,
}

/// One capture, or the floor of one.
struct Capture {
    job: u64,
    bytes: u64,
    seconds: f64,
    cpu_ms: f64,
    grown_kb: f64,
}

impl CaptureServer {
    fn open(bench: &Bench) -> Self {
        let server = bench.http(&[STRUCTURED, UNCOMPRESSED]);
        let client = server.client();
        let mut yard = Self { server, client };
        // What is made once is no cost of a flood.
        let first = yard.capture(Source::Tr, 1 << 20);
        yard.compare(Source::Tr, &first);
        yard
    }

    fn rows(&mut self, bench: &Bench, source: Source, bytes: u64) -> [Row; 4] {
        let (mut ours, mut floors) = (Vec::new(), Vec::new());
        for _ in 0..bench.scale.flood_rounds {
            floors.push(self.drain(source, bytes));
            ours.push(self.capture(source, bytes));
        }
        let read_back = self.compare(source, ours.last().expect("a round"));
        let middle = |of: &[Capture], pick: fn(&Capture) -> f64| {
            median(&of.iter().map(pick).collect::<Vec<f64>>())
        };
        let rate = |capture: &Capture| capture.bytes as f64 / MB / capture.seconds;
        let cpu = |capture: &Capture| capture.cpu_ms / (capture.bytes as f64 / GB);
        let grown = ours.iter().map(|capture| capture.grown_kb / 1e3).fold(0.0, f64::max);
        let what = format!("{} MB from `{}`", bytes / 1_000_000, source.name());
        [
            Row::new(format!("{what}: captured"), "MB/s", middle(&ours, rate))
                .beside(middle(&floors, rate))
                .goal(Goal::RatioAtLeast(0.85)),
            Row::new(format!("{what}: server alone"), "CPU ms/GB", middle(&ours, cpu))
                .beside(middle(&floors, cpu))
                .goal(Goal::RatioAtMost(1.5)),
            Row::new(format!("{what}: memory grown at its peak"), "MB", grown)
                .goal(Goal::AtMost(8.0)),
            Row::new(format!("{what}: read back and compared"), "MB/s", read_back),
        ]
    }

    /// The time is the job's own, from its start to its end. Nobody waits for the job, since the
    /// answer would look through all of its output once more.
    fn capture(&mut self, source: Source, bytes: u64) -> Capture {
        let (command, bytes) = source.command(bytes);
        let usage = self.server.usage();
        usage.forget_peak();
        let (cpu, rss) = (usage.cpu_ms(), usage.rss_kb());
        let job = self.client.run(&command);
        while self.client.running_and_queued() != [0, 0] {
            thread::sleep(PAUSE);
        }
        let (cpu_ms, grown_kb) = (usage.cpu_ms() - cpu, usage.peak_rss_kb() - rss);
        let status = self.client.await_end(job);
        assert_eq!(status["total_bytes"], bytes, "every byte is counted: {status}");
        let elapsed_ms = status["elapsed_ms"].as_f64().expect("a time");
        Capture { job, bytes, seconds: elapsed_ms.max(1.0) / 1e3, cpu_ms, grown_kb }
    }

    fn drain(&self, source: Source, bytes: u64) -> Capture {
        let file = self.server.folder().join("floor");
        let (command, bytes) = source.command(bytes);
        let told = floor::drain::run(&command, &file);
        assert_eq!(fs::metadata(&file).expect("it was written").len(), bytes, "all of it");
        fs::remove_file(&file).expect("a file of ours");
        Capture { job: 0, bytes, seconds: told.seconds, cpu_ms: told.own_cpu_ms, grown_kb: 0.0 }
    }

    /// Compares every byte: megabytes in a second.
    fn compare(&mut self, source: Source, capture: &Capture) -> f64 {
        let start = std::time::Instant::now();
        let (mut offset, mut expected) = (0, source.expected());
        loop {
            let answer = self.client.call(&page_call(capture.job, offset, 1 << 20));
            let page = Page::parse(&answer);
            let bytes = STANDARD.decode(page.encoded).expect("base64");
            assert!(bytes == expected.take(bytes.len()), "other bytes from {offset} on");
            offset += bytes.len() as u64;
            assert_eq!(page.end, offset, "where the page ends");
            if page.is_last {
                break;
            }
        }
        assert_eq!(offset, capture.bytes, "every byte is readable");
        offset as f64 / MB / start.elapsed().as_secs_f64()
    }
}

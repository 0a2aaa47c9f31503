//! G: pages of huge logs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::bench::{Bench, STRUCTURED, UNCOMPRESSED};
use crate::client::{HttpClient, Page, page_call};
use crate::lines;
use crate::report::{Curve, Measured, Row};
use crate::server::HttpServer;
use crate::stats::{median, timed};

const PAGE: u64 = 64 << 10;
const QUARTERS: [&str; 5] = ["0 %", "25 %", "50 %", "75 %", "100 %"];

/// A page at several offsets of the largest log and of a compressed one, beside its first page;
/// and one at random, by the size of the log.
pub(crate) fn measure(bench: &Bench) -> Measured {
    let server = bench.http(&[STRUCTURED, UNCOMPRESSED]);
    let room = room(&server);
    let mut logs: Vec<PagedLog> = bench
        .scale
        .logs
        .iter()
        .filter(|bytes| **bytes < room)
        .map(|bytes| PagedLog::write(server.client(), *bytes))
        .collect();
    let points = logs.iter_mut().map(|log| {
        let times: Vec<f64> = (0..bench.scale.looks).map(|_| log.random()).collect();
        (log.bytes as f64 / 1e6, median(&times))
    });
    let curve = Curve {
        name: "pages",
        title: "a page of 64 KiB at random",
        load: "MB in the log",
        cost: "ms, p50",
        points: points.collect(),
    };
    let mut rows = logs.last_mut().expect("room for a log").rows(bench, "a log");
    drop(server);
    rows.extend(compressed(bench).rows(bench, "a compressed log"));
    Measured { rows, curves: vec![curve] }
}

/// Half of the free space: without it the largest log is left out, and the rows tell which it was.
fn room(server: &HttpServer) -> u64 {
    let disk = rustix::fs::statvfs(server.folder()).expect("a file system");
    disk.f_bavail * disk.f_frsize / 2
}

fn compressed(bench: &Bench) -> PagedLog {
    const NAME: &str = "shellyard_output_compressed_bytes_total";
    let server = bench.http(&[STRUCTURED]);
    let mut log = PagedLog::write(server.client(), bench.scale.compressed);
    log.server = Some(server);
    let compressed = |client: &mut HttpClient| {
        let metrics = String::from_utf8(client.get("/metrics")).expect("text");
        let value = metrics.lines().find_map(|line| line.strip_prefix(NAME)?.trim().parse().ok());
        value.unwrap_or(0_u64)
    };
    while compressed(&mut log.client) < log.bytes {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    log
}

/// A finished log of numbered lines.
struct PagedLog {
    client: HttpClient,
    /// Kept as long as the log, where it has one of its own.
    server: Option<HttpServer>,
    job: u64,
    bytes: u64,
    /// The next offset of a sequence that repeats only after a very long time (xorshift).
    state: u64,
}

impl PagedLog {
    fn write(mut client: HttpClient, bytes: u64) -> Self {
        let job = client.run(&lines::command(bytes, None));
        let status = client.await_end(job);
        assert_eq!(status["total_bytes"], bytes, "every byte is counted: {status}");
        Self { client, server: None, job, bytes, state: 88_172_645_463_325_252 }
    }

    fn rows(&mut self, bench: &Bench, what: &str) -> Vec<Row> {
        let last = self.bytes - PAGE;
        let mut times = vec![Vec::new(); QUARTERS.len() + 1];
        self.at(0);
        for _ in 0..bench.scale.looks {
            for (quarter, times) in times.iter_mut().enumerate() {
                let offset = last * quarter as u64 / 4;
                times.push(if quarter < 5 { self.at(offset) } else { self.random() });
            }
        }
        let first = median(&times[0]);
        let row = |(place, times): (&str, &Vec<f64>)| {
            let what = format!("a page at {place} of {what} of {} MB, p50", self.bytes / 1_000_000);
            Row::new(what, "ms", median(times)).beside(first)
        };
        QUARTERS.into_iter().chain(["random"]).zip(&times).map(row).collect()
    }

    fn random(&mut self) -> f64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.at(self.state % (self.bytes - PAGE))
    }

    /// Milliseconds for the page there, which is then compared.
    fn at(&mut self, offset: u64) -> f64 {
        let call = page_call(self.job, offset, PAGE);
        let (answer, time) = timed(|| self.client.call(&call));
        let page = Page::parse(&answer);
        let bytes = STANDARD.decode(page.encoded).expect("base64");
        // It may end with a line, and with a group of base64.
        assert!(bytes.len() as u64 > PAGE / 10 * 9, "a page of {}", bytes.len());
        assert!(bytes == lines::at(offset, bytes.len()), "other bytes from {offset} on");
        assert_eq!(page.end, offset + bytes.len() as u64, "where the page ends");
        time
    }
}

//! However many jobs have run, a scrape stays what it was.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{call, scraped, series, value};
use crate::harness::{Era, HttpConnection, Launch, TestServer, eventually};

const CLIENTS: usize = 8;
const CONNECTIONS_EACH: usize = 25;
const JOBS_PER_CONNECTION: usize = 50;
/// Scrapes of which the fastest counts: the others met somebody else's work.
const TRIES: usize = 30;

/// Few finished jobs stay, and none is logged: what grows by itself is not what is measured.
const CONFIG: &str = "[retention]\nmax_finished = 100\n[log]\nfilter = \"warn,shellyard::telemetry::events::clients=info\"\n";

/// Runs one job after the other, on one connection.
fn run_jobs(address: &str) {
    let request = call("run_command", json!({"command": "true", "args": ["x"]}));
    let mut connection = HttpConnection::open(address);
    for _ in 0..JOBS_PER_CONNECTION {
        connection.send(&request);
        let answer = connection.answer();
        assert_eq!(answer.status, 200);
        let text = answer.text();
        assert!(text.contains("exit 0"), "{text}");
    }
}

fn fastest_scrape(server: &mut TestServer) -> Duration {
    let scrape = |_| {
        let begun = Instant::now();
        scraped(server);
        begun.elapsed()
    };
    (0..TRIES).map(scrape).min().expect("some tries")
}

#[test]
fn ten_thousand_jobs_change_neither_series_nor_size_nor_cost() {
    let mut server = Launch::http().era(Era::Modern).config(CONFIG).start();
    let address = server.http().address().to_owned();
    // The first call registers the series of its tool.
    run_jobs(&address);
    let before = scraped(&mut server);
    let cost_before = fastest_scrape(&mut server);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| (0..CONNECTIONS_EACH).for_each(|_| run_jobs(&address)));
        }
    });
    let after = scraped(&mut server);
    let jobs = ((CLIENTS * CONNECTIONS_EACH + 1) * JOBS_PER_CONNECTION) as f64;
    assert_eq!(value(&after, "shellyard_jobs_finished_total{outcome=\"exited\"}"), jobs);
    assert_eq!(value(&after, "shellyard_tenant_jobs_finished_total{tenant=\"local\"}"), jobs);
    assert_eq!(series(&after), series(&before));
    let digits =
        |text: &str| text.len() - series(text).iter().map(|line| line.len()).sum::<usize>();
    assert!(digits(&after) < 4 * digits(&before), "{} bytes, {} before", after.len(), before.len());
    // Others may keep the machine busy for a while.
    eventually("a scrape costs no more", || fastest_scrape(&mut server) < 4 * cost_before);
}

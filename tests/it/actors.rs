//! Actors as the metrics show them.

use serde_json::json;

use crate::harness::{Launch, Marker, eventually};

const ALIVE: &str = "shellyard_actors";
const MAILBOX: &str = "shellyard_actor_mailbox_messages";

/// The value of the series with exactly this name and these labels.
#[track_caller]
fn sample(text: &str, series: &str) -> f64 {
    let values = text.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let values: Vec<f64> = values.map(|value| value.parse().expect("a number")).collect();
    assert_eq!(values.len(), 1, "{series} in {text}");
    values[0]
}

/// The actors of the supervisor and of all jobs.
fn of_both(text: &str, name: &str) -> [f64; 2] {
    ["supervisor", "job"].map(|class| sample(text, &format!("{name}{{actor=\"{class}\"}}")))
}

#[test]
fn actors_and_their_messages_are_counted_and_nothing_stays_behind() {
    let config = "[queue]\nslots = 8\nmax_queued = 2000\n";
    let mut server = Launch::http().structured().config(config).start();
    assert_eq!(of_both(&server.metrics(), ALIVE), [1.0, 0.0]);
    let marker = Marker::new();
    let held: Vec<u64> = (0..4).map(|_| server.start(&format!("sleep {marker}"))).collect();
    eventually("each job has its actor", || of_both(&server.metrics(), ALIVE) == [1.0, 4.0]);

    let mut last = 0;
    for number in 0..150 {
        let stopped = server.start("sleep 300");
        server.start("echo hi; setsid true & exit 3");
        let missing = json!({"command": "/no/such/program", "args": ["x"], "wait_s": 0});
        server.call("run_command", missing);
        last = server.start(&format!("echo {number}; kill -9 $$"));
        server.call("stop_jobs", json!({"jobs": [stopped], "grace_s": 0})).ok();
    }
    server.wait_finished(last);
    server.call("stop_jobs", json!({"jobs": held, "grace_s": 0})).ok();
    eventually("no actor of a job is left", || of_both(&server.metrics(), ALIVE) == [1.0, 0.0]);
    eventually("no message waits", || of_both(&server.metrics(), MAILBOX) == [0.0, 0.0]);
    let text = server.metrics();
    assert_eq!(sample(&text, "shellyard_jobs_submitted_total"), 604.0, "{text}");
    for counter in ["shellyard_actor_failures_total", "shellyard_actor_restarts_total"] {
        assert_eq!(of_both(&text, counter), [0.0, 0.0]);
    }
}

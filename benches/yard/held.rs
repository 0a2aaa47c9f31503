//! What jobs cost that only sit there.

use std::time::Instant;

use serde_json::json;

use crate::client::Client;
use crate::report::{Row, median};
use crate::server::Server;

/// How often a short call is timed.
const LOOKS: usize = 200;

/// Memory of the server for each of so many running jobs, and a short call beside them.
pub(crate) fn measure(jobs: usize) -> Vec<Row> {
    let slots = (jobs + 8).to_string();
    let server = Server::start(&[
        ("SHELLYARD_QUEUE_SLOTS", &slots),
        ("SHELLYARD_MCP_RESULT_FORMAT", "structured"),
    ]);
    let mut client = Client::connect(server.address());
    let alone = echo(&mut client);
    let empty = server.rss_kib();
    for _ in 0..jobs {
        client.structured("run_command", &json!({"command": "sleep 600", "wait_s": 0}));
    }
    assert_eq!(client.counts()[0], jobs, "all of them run");
    let each = (server.rss_kib() - empty) / jobs as f64;
    let beside = echo(&mut client);
    vec![
        Row {
            what: format!("memory of the server for each of {jobs} running jobs"),
            unit: "KiB",
            ours: each,
            floor: None,
        },
        Row {
            what: format!("`echo hi` beside {jobs} running jobs, p50"),
            unit: "ms",
            ours: beside,
            floor: Some(alone),
        },
    ]
}

fn echo(client: &mut Client) -> f64 {
    let times = (0..LOOKS).map(|_| {
        let started = Instant::now();
        let answer = client.structured("run_command", &json!({"command": "echo hi"}));
        assert_eq!(answer["output"], "hi\n", "{answer}");
        started.elapsed().as_secs_f64() * 1e3
    });
    median(times.collect())
}

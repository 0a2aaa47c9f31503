//! F: what the server costs before anybody asks for anything.

use std::fs;
use std::thread;
use std::time::Duration;

use memchr::memmem;

use crate::bench::Bench;
use crate::report::{Goal, Measured, Row};
use crate::server::BINARY;
use crate::stats::{median, timed};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
/// From the first answer to the look at the memory.
const SETTLE: Duration = Duration::from_millis(500);

/// Cold start over stdio, idle memory, and the size of the binary.
pub(crate) fn measure(bench: &Bench) -> Measured {
    let mut times = Vec::new();
    for _ in 0..bench.scale.starts {
        let (server, time) = timed(|| {
            let mut server = bench.stdio(&[]);
            server.client.write(INITIALIZE.to_owned());
            let answer = server.client.receive().text;
            assert!(memmem::find(&answer, br#""serverInfo""#).is_some(), "an introduction");
            server
        });
        times.push(time);
        drop(server);
    }
    let server = bench.http(&[]);
    thread::sleep(SETTLE);
    let binary = fs::metadata(BINARY).expect("the binary").len() as f64 / 1e6;
    let rows = vec![
        Row::new("from exec to the answer to `initialize`, p50", "ms", median(&times))
            .goal(Goal::AtMost(15.0)),
        Row::new("idle server: memory", "MB", server.usage().rss_kb() / 1e3)
            .goal(Goal::AtMost(12.0)),
        Row::new("the binary", "MB", binary).goal(Goal::AtMost(15.0)),
    ];
    rows.into()
}

//! A: one call after the other.

use crate::bench::Bench;
use crate::client::{Call, HttpClient, check_echo, over_http};
use crate::floor;
use crate::report::{Curve, Goal, Measured, Row};
use crate::stats::{block, median, percentile};
use memchr::memmem;
use serde_json::json;

/// Connections over which jobs are run that only shall be known.
const FEEDERS: usize = 16;

/// `echo hi` over stdio and over HTTP beside a plain spawn, and by finished jobs known.
pub(crate) fn measure(bench: &Bench) -> Measured {
    let (mut stdio, http) = (bench.stdio(&[]), bench.http(&[]));
    let (mut client, call) = (http.client(), Call::echo());
    let (mut floor, mut by_stdio, mut by_http) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds {
        let runs = bench.scale.block;
        floor.extend(block(runs, floor::spawn::echo));
        by_stdio.extend(block(runs, || check_echo(&stdio.client.call(&call))));
        by_http.extend(block(runs, || echo(&mut client)));
    }
    let [stdio, http] = [("stdio", by_stdio, 1.4), ("HTTP", by_http, 1.6)].map(|row| {
        let (transport, times, goal) = row;
        let p50 = Row::new(format!("`echo hi` over {transport}, p50"), "ms", median(&times));
        let p99 = percentile(&times, 0.99);
        let p99 = Row::new(format!("`echo hi` over {transport}, p99"), "ms", p99);
        [
            p50.beside(median(&floor)).goal(Goal::RatioAtMost(goal)),
            p99.beside(percentile(&floor, 0.99)),
        ]
    });
    let rows = stdio.into_iter().chain(http).chain([with_output(bench)]);
    Measured { rows: rows.collect(), curves: vec![by_finished(bench)] }
}

/// A call with more output than its answer shows: ten thousand lines, 49 KB.
fn with_output(bench: &Bench) -> Row {
    const TEXT: &str = "seq 10000";
    let mut server = bench.stdio(&[]);
    let call = Call::new("run_command", &json!({"command": TEXT}));
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds {
        let runs = bench.scale.block.div_ceil(4);
        floor.extend(block(runs, || assert_eq!(floor::spawn::output_of(TEXT).len(), 48_894)));
        ours.extend(block(runs, || {
            let answer = server.client.call(&call);
            let has = |text: &[u8]| memmem::find(&answer, text).is_some();
            let text = String::from_utf8_lossy(&answer);
            assert!(has(b"exit 0") && has(b"10,000 lines") && has(br"\n9999\n10000"), "{text}");
        }));
    }
    Row::new(format!("`{TEXT}` over stdio, p50"), "ms", median(&ours)).beside(median(&floor))
}

/// One call over HTTP, checked.
pub(crate) fn echo(client: &mut HttpClient) {
    check_echo(&client.call(&Call::echo()));
}

fn by_finished(bench: &Bench) -> Curve {
    let most = bench.scale.finished.iter().max().expect("a load") * 2;
    let server = bench.http(&[("retention_max_finished", &most.to_string())]);
    let mut feeders = server.clients(FEEDERS);
    let mut known = 0;
    let points = bench.scale.finished.iter().map(|load| {
        over_http(&mut feeders, load - known, &Call::echo(), check_echo);
        known = *load;
        let times = block(bench.scale.block, || echo(&mut feeders[0]));
        (*load as f64, median(&times))
    });
    Curve {
        name: "finished",
        title: "a short call",
        load: "finished jobs known",
        cost: "ms, p50",
        points: points.collect(),
    }
}

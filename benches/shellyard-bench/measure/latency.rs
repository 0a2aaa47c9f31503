//! A: one call after the other.

use crate::bench::Bench;
use crate::client::{Call, HttpClient, check_echo, over_http};
use crate::floor;
use crate::report::{Curve, Found, Goal, Row};
use crate::stats::{block, median, percentile};

/// Connections over which jobs are run that only shall be known.
const FEEDERS: usize = 16;

/// `echo hi` over stdio and over HTTP beside a plain spawn, and by finished jobs known.
pub(crate) fn measure(bench: &Bench) -> Found {
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
    Found { rows: stdio.into_iter().chain(http).collect(), curves: vec![by_finished(bench)] }
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

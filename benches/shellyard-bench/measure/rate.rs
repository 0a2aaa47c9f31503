//! B: many callers at once.

use std::thread;

use crate::bench::Bench;
use crate::client::{Call, HttpClient, check_echo, over_http, over_stdio};
use crate::floor;
use crate::report::{Goal, Measured, Row};
use crate::server::{HttpServer, Running, StdioServer, Usage};
use crate::stats::{median, timed};

/// The number of callers that has goals.
const JUDGED: usize = 64;

/// Calls per second and CPU time of each, by callers. Slots are as many as by default, so that
/// most callers wait in the queue.
pub(crate) fn measure(bench: &Bench) -> Measured {
    let mut servers = Servers { stdio: bench.stdio(&[]), http: bench.http(&[]) };
    let rows = bench.scale.callers.iter().flat_map(|callers| at(bench, &mut servers, *callers));
    rows.collect::<Vec<_>>().into()
}

struct Servers {
    stdio: StdioServer,
    http: HttpServer,
}

/// One turn: calls per second, and milliseconds of CPU time for each call.
struct Turn {
    rate: f64,
    cpu_ms: f64,
    client_cpu_ms: f64,
}

fn at(bench: &Bench, servers: &mut Servers, callers: usize) -> Vec<Row> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let calls = bench.scale.calls.max(callers);
    let mut connections = servers.http.clients(callers);
    let mut turns = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..bench.scale.rounds {
        turns[0].push(floor(cores.min(callers), calls));
        turns[1].push(stdio(&mut servers.stdio, callers, calls));
        turns[2].push(http(&servers.http, &mut connections, calls));
    }
    let middle = |who: usize, pick: fn(&Turn) -> f64| {
        median(&turns[who].iter().map(pick).collect::<Vec<f64>>())
    };
    let mut rows = Vec::new();
    for (who, transport, goal) in [(1, "stdio", 0.85), (2, "HTTP", 0.75)] {
        let what = format!("{callers} at once over {transport}");
        rows.push(
            Row::new(&what, "calls/s", middle(who, |turn| turn.rate))
                .beside(middle(0, |turn| turn.rate))
                .goal_at(callers, JUDGED, Goal::RatioAtLeast(goal)),
        );
        rows.push(
            Row::new(format!("{what}: server and job"), "CPU ms", middle(who, |turn| turn.cpu_ms))
                .beside(middle(0, |turn| turn.cpu_ms))
                .goal_at(callers, JUDGED, Goal::RatioAtMost(1.3)),
        );
        let client = middle(who, |turn| turn.client_cpu_ms);
        rows.push(Row::new(format!("{what}: the client itself"), "CPU ms", client));
    }
    rows
}

fn floor(threads: usize, calls: usize) -> Turn {
    let told = floor::spawn::run(threads, calls);
    let calls = calls as f64;
    Turn { rate: calls / told.seconds, cpu_ms: told.cpu_ms / calls, client_cpu_ms: 0.0 }
}

fn stdio(server: &mut StdioServer, callers: usize, calls: usize) -> Turn {
    let client = &mut server.client;
    turn(&server.running, calls, || {
        over_stdio(client, callers, calls, &Call::echo(), check_echo);
    })
}

fn http(server: &HttpServer, clients: &mut [HttpClient], calls: usize) -> Turn {
    turn(server, calls, || over_http(clients, calls, &Call::echo(), check_echo))
}

fn turn(server: &Running, calls: usize, task: impl FnOnce()) -> Turn {
    let cpu = || server.processes().iter().map(Usage::cpu_with_children_ms).sum::<f64>();
    let (before, client_before) = (cpu(), Usage::own().cpu_ms());
    let ((), ms) = timed(task);
    let each = |sum: f64| sum / calls as f64;
    Turn {
        rate: calls as f64 / ms * 1e3,
        cpu_ms: each(cpu() - before),
        client_cpu_ms: each(Usage::own().cpu_ms() - client_before),
    }
}

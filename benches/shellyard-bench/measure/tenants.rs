//! T: whether tenants get their share, many at once and one that comes late; and a call by tenants.

use std::fs;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use crate::bench::{Bench, STRUCTURED};
use crate::client::HttpClient;
use crate::report::{Curve, Measured, Row};
use crate::server::HttpServer;
use crate::stats::{block, median};

/// The amount of work of these measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TenantLoad {
    /// Tenants that submit at once, and what each of them submits.
    pub(crate) tenants: usize,
    pub(crate) jobs: usize,
    /// Jobs that wait when an idle tenant comes, and how often it comes.
    pub(crate) backlog: usize,
    pub(crate) visits: usize,
}

const OPERATOR: &str = "bench-operator-token";

/// Measures how even the waits are, how long an idle tenant waits behind another's backlog, and a
/// short call by the number of tenants.
pub(crate) fn measure(bench: &Bench) -> Measured {
    let points = bench.scale.tenants.iter().map(|tenants| (*tenants as f64, call(bench, *tenants)));
    let curve = Curve {
        name: "tenants",
        title: "a short call, of each tenant in turn",
        load: "tenants",
        cost: "ms, p50",
        points: points.collect(),
    };
    Measured { rows: vec![fairness(bench), idle_tenant(bench)], curves: vec![curve] }
}

/// A server that knows these tenants, each by a token that is its name.
fn server(bench: &Bench, tenants: usize) -> (HttpServer, NamedTempFile) {
    let file = NamedTempFile::new().expect("a temporary file");
    let line = |index: usize| {
        let hash = Sha256::digest(token(index));
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex} tenant=t{index} role=run id={index:08x}\n")
    };
    let lines: String = (0..tenants).map(line).collect();
    fs::write(file.path(), format!("{OPERATOR}\n{lines}")).expect("the token file");
    let server = bench.http(&[
        STRUCTURED,
        ("http_token_file", &file.path().to_string_lossy()),
        ("retention_max_finished", "20000"),
        ("queue_max_queued", "20000"),
        ("quota_max_queued", "20000"),
    ]);
    (server, file)
}

fn token(tenant: usize) -> String {
    format!("bench-token-of-tenant-{tenant}")
}

fn client(server: &HttpServer, tenant: usize) -> HttpClient {
    server.client().with_token(&token(tenant))
}

/// All submit while nothing starts; then everything does.
fn fairness(bench: &Bench) -> Row {
    let TenantLoad { tenants, jobs, .. } = bench.scale.tenant_load;
    let (server, _file) = server(bench, tenants);
    let mut operator = server.client().with_token(OPERATOR);
    operator.post("/api/v1/queue/pause");
    let mut clients: Vec<HttpClient> = (0..tenants).map(|index| client(&server, index)).collect();
    for _ in 0..jobs {
        for client in &mut clients {
            client.run("sleep 0.01");
        }
    }
    operator.post("/api/v1/queue/resume");
    let mut means: Vec<f64> = clients.iter_mut().map(|client| mean_wait(client, jobs)).collect();
    means.sort_by(f64::total_cmp);
    let what = format!("mean wait, the slowest of {tenants} tenants beside the fastest");
    Row::new(what, "ms", means[means.len() - 1]).beside(means[0])
}

fn mean_wait(client: &mut HttpClient, jobs: usize) -> f64 {
    let mut wait = |job: usize| {
        client.await_end(job as u64)["queued_ms"].as_f64().expect("how long it waited")
    };
    (1..=jobs).map(&mut wait).sum::<f64>() / jobs as f64
}

/// One tenant has a backlog; another comes with one job, again and again. The floor is the time
/// from one free slot to the next.
fn idle_tenant(bench: &Bench) -> Row {
    let TenantLoad { backlog, visits, .. } = bench.scale.tenant_load;
    let (server, _file) = server(bench, 2);
    let (mut busy, mut idle) = (client(&server, 0), client(&server, 1));
    let mut operator = server.client().with_token(OPERATOR);
    let mut left = || operator.running_and_queued().iter().sum::<u64>();
    for _ in 0..backlog {
        busy.run("sleep 0.1");
    }
    let (mut waits, mut releases) = (Vec::new(), Vec::new());
    for _ in 0..visits {
        let before = left();
        let visit = idle.structured("run_command", &json!({"command": "sleep 0.1", "wait_s": 45}));
        assert_eq!(visit["exit_code"], 0, "{visit}");
        let waited = visit["queued_ms"].as_f64().expect("how long it waited");
        let took = waited + visit["elapsed_ms"].as_f64().expect("how long it ran");
        let freed = before - left() + 1;
        waits.push(waited);
        releases.push(took / freed as f64);
    }
    let what = format!("wait of an idle tenant's job behind {backlog}, beside a slot's release");
    Row::new(what, "ms", median(&waits)).beside(median(&releases))
}

/// The median of a call where so many tenants have jobs.
fn call(bench: &Bench, tenants: usize) -> f64 {
    let (server, _file) = server(bench, tenants);
    let mut clients: Vec<HttpClient> = (0..tenants).map(|index| client(&server, index)).collect();
    let mut echo = |index: usize| {
        let client = &mut clients[index % tenants];
        let answer = client.structured("run_command", &json!({"command": "echo hi"}));
        assert_eq!(answer["output"], "hi\n", "{answer}");
    };
    (0..tenants).for_each(&mut echo);
    let mut turn = 0;
    median(&block(bench.scale.block, || {
        echo(turn);
        turn += 1;
    }))
}

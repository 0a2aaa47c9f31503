//! Whether tenants get their share: many at once, and one that comes late.

use std::fs;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use crate::client::Client;
use crate::report::{Row, median};
use crate::server::Server;

/// How much work the measurements do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowd {
    /// Tenants that submit at once, and what each of them submits.
    pub(crate) tenants: usize,
    pub(crate) jobs: usize,
    /// Jobs that wait when an idle tenant comes, and how often it comes.
    pub(crate) backlog: usize,
    pub(crate) visits: usize,
}

const OPERATOR: &str = "bench-operator-token";

/// How even the waits are, and how long an idle tenant waits behind another's backlog.
pub(crate) fn measure(crowd: Crowd) -> Vec<Row> {
    vec![fairness(crowd), idle_tenant(crowd)]
}

/// A server that knows these tenants, each by a token that is its name.
fn server(tenants: usize) -> (Server, NamedTempFile) {
    let file = NamedTempFile::new().expect("a temporary file");
    let line = |index: usize| {
        let hash = Sha256::digest(token(index));
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex} tenant=t{index} role=run id={index:08x}\n")
    };
    let lines: String = (0..tenants).map(line).collect();
    fs::write(file.path(), format!("{OPERATOR}\n{lines}")).expect("the token file");
    let server = Server::start(&[
        ("SHELLYARD_HTTP_TOKEN_FILE", &file.path().to_string_lossy()),
        ("SHELLYARD_MCP_RESULT_FORMAT", "structured"),
        ("SHELLYARD_RETENTION_MAX_FINISHED", "20000"),
        ("SHELLYARD_QUEUE_MAX_QUEUED", "20000"),
        ("SHELLYARD_QUOTA_MAX_QUEUED", "20000"),
    ]);
    (server, file)
}

fn token(tenant: usize) -> String {
    format!("bench-token-of-tenant-{tenant}")
}

fn client(server: &Server, tenant: usize) -> Client {
    Client::connect(server.address()).with_token(&token(tenant))
}

/// All submit while nothing starts; then everything does.
fn fairness(Crowd { tenants, jobs, .. }: Crowd) -> Row {
    let (server, _file) = server(tenants);
    let mut operator = Client::connect(server.address()).with_token(OPERATOR);
    operator.post("/api/v1/queue/pause", &json!({}));
    let mut clients: Vec<Client> = (0..tenants).map(|index| client(&server, index)).collect();
    for _ in 0..jobs {
        for client in &mut clients {
            run(client, "sleep 0.01");
        }
    }
    operator.post("/api/v1/queue/resume", &json!({}));
    let mut means: Vec<f64> = clients.iter_mut().map(|client| mean_wait(client, jobs)).collect();
    means.sort_by(f64::total_cmp);
    Row {
        what: format!("mean wait, the slowest of {tenants} tenants beside the fastest"),
        unit: "ms",
        ours: means[means.len() - 1],
        floor: Some(means[0]),
    }
}

fn mean_wait(client: &mut Client, jobs: usize) -> f64 {
    let wait = |job| ended(client, job)["queued_ms"].as_f64().expect("how long it waited");
    (1..=jobs).map(wait).sum::<f64>() / jobs as f64
}

/// One tenant has a backlog; another comes with one job, again and again. The floor is the time
/// from one free slot to the next.
fn idle_tenant(Crowd { backlog, visits, .. }: Crowd) -> Row {
    let (server, _file) = server(2);
    let (mut busy, mut idle) = (client(&server, 0), client(&server, 1));
    for _ in 0..backlog {
        run(&mut busy, "sleep 0.1");
    }
    let (mut waits, mut releases) = (Vec::new(), Vec::new());
    for _ in 0..visits {
        let [.., before] = busy.counts();
        let visit = idle.structured("run_command", &json!({"command": "sleep 0.1", "wait_s": 45}));
        assert_eq!(visit["exit_code"], 0, "{visit}");
        let waited = visit["queued_ms"].as_f64().expect("how long it waited");
        let took = waited + visit["elapsed_ms"].as_f64().expect("how long it ran");
        let [.., after] = busy.counts();
        let freed = after - before + 1;
        waits.push(waited);
        releases.push(took / freed as f64);
    }
    Row {
        what: format!("wait of an idle tenant's job behind {backlog}, beside a slot's release"),
        unit: "ms",
        ours: median(waits),
        floor: Some(median(releases)),
    }
}

fn run(client: &mut Client, command: &str) {
    client.structured("run_command", &json!({"command": command, "wait_s": 0}));
}

fn ended(client: &mut Client, job: usize) -> Value {
    let wait = json!({"jobs": [job], "wait_s": 45});
    loop {
        let job = client.structured("wait_jobs", &wait)["jobs"][0].clone();
        if job["state"] == "finished" {
            return job;
        }
    }
}

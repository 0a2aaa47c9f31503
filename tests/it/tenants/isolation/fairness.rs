//! Shares of the slots, end to end: by weight, and an idle tenant comes next.

use std::fs;

use serde_json::{Value, json};

use super::world::{TenantServer, TenantSession};
use crate::harness::{HttpRequest, eventually, eventually_some};

const WEIGHED: &str = "\
[queue]
slots = 1
[tenants.heavy]
weight = 2
[pressure]
memory = 0
io = 0
";

/// The tenants and their weights.
const SHARES: [(&str, usize); 3] = [("one", 1), ("other", 1), ("heavy", 2)];

/// Jobs for each weight.
const ROUNDS: usize = 15;

struct WeightedServer {
    world: TenantServer,
    admin: String,
}

impl WeightedServer {
    #[track_caller]
    fn paused() -> Self {
        let world = TenantServer::with(WEIGHED);
        let admin = world.token("ops", "admin");
        let mut server = Self { world, admin };
        server.queue("pause");
        server
    }

    /// Pauses or resumes the queue.
    #[track_caller]
    fn queue(&mut self, verb: &str) {
        let request =
            HttpRequest { method: "POST", ..HttpRequest::get(&format!("/api/v1/queue/{verb}")) };
        let (status, text) = self.world.ask(request, &self.admin);
        assert_eq!(status, 200, "{text}");
    }

    #[track_caller]
    fn running(&mut self) -> u64 {
        let (_, text) = self.world.ask(HttpRequest::get("/api/v1/queue"), &self.admin);
        let queue: Value = serde_json::from_str(&text).expect("JSON");
        queue["running"].as_u64().expect("a number")
    }

    /// The tenants in the order of their starts so far.
    fn order(&self) -> Vec<String> {
        let file = fs::read_to_string(self.world.server.work().join("order")).unwrap_or_default();
        file.lines().map(str::to_owned).collect()
    }

    /// Releases the job that holds the slot.
    fn release(&self) {
        fs::write(self.world.server.work().join("go"), "").expect("a file of ours");
    }

    /// Submits jobs of a tenant; each writes the name of the tenant when it starts. The tenth job
    /// of all holds the slot until it is released.
    #[track_caller]
    fn submit(&mut self, tenant: &str, jobs: usize) -> TenantSession {
        let mut client = self.world.client(tenant);
        let hold = "test $(wc -l < order) -ne 10 || until test -e go; do sleep 0.02; done";
        for _ in 0..jobs {
            client.start(json!({"command": format!("echo {tenant} >> order; {hold}")}));
        }
        client
    }

    /// Submits enough jobs of every tenant to keep the queue full.
    #[track_caller]
    fn submit_all(&mut self) {
        for (tenant, weight) in SHARES {
            self.submit(tenant, ROUNDS * weight);
        }
    }
}

#[test]
fn starts_are_shared_by_weight_at_all_times() {
    let mut server = WeightedServer::paused();
    server.submit_all();
    assert_eq!(server.order(), [""; 0], "nothing starts while the queue is paused");
    server.release();
    server.queue("resume");
    let weights: usize = SHARES.iter().map(|(_, weight)| weight).sum();
    let order = eventually_some("all have run", || {
        Some(server.order()).filter(|order| order.len() == ROUNDS * weights)
    });
    for starts in 1..=order.len() {
        for (tenant, weight) in SHARES {
            let had = order[..starts].iter().filter(|name| *name == tenant).count();
            let due = starts as f64 * weight as f64 / weights as f64;
            let off = (had as f64 - due).abs();
            assert!(off <= due * 0.1 + 1.0, "{tenant} had {had} of {starts}: {order:?}");
        }
    }
}

#[test]
fn an_idle_tenants_job_starts_next() {
    let mut server = WeightedServer::paused();
    server.submit_all();
    server.queue("resume");
    eventually("some have run", || server.order().len() == 10);
    server.queue("pause");
    server.release();
    eventually("the last one is over", || server.running() == 0);
    server.submit("idle", 1);
    server.queue("resume");
    let next = eventually_some("one more starts", || server.order().get(10).cloned());
    assert_eq!(next, "idle");
}

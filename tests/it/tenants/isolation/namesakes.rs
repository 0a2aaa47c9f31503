//! Tenants that use the same names: each has its own keys and counts only its own jobs.

use serde_json::json;

use super::world::{LEGACY, TenantServer, TenantSession, initialize};
use crate::harness::{HttpRequest, Marker};

/// One slot, which alice uses, and a short queue.
const CROWDED: &str = "\
[queue]
slots = 1
max_queued = 6
[queue.lanes.build]
slots = 1
max_queued = 1
[pressure]
memory = 0
io = 0
";

#[test]
fn the_same_key_number_and_description_are_two_jobs() {
    let mut world = TenantServer::new();
    let [mut alice, mut bob] = ["alice", "bob"].map(|tenant| world.client(tenant));
    let arguments =
        |word: &str| json!({"command": format!("echo {word}"), "key": "k", "description": "d"});
    for (client, word) in [(&mut alice, "hers"), (&mut bob, "his")] {
        let first = client.call("run_command", arguments(word)).ok();
        assert_eq!((first.job(), &first["output"]), (1, &json!(format!("{word}\n"))));
        let again = client.call("run_command", arguments(word)).ok();
        assert_eq!(again["output"], first["output"], "the key names the same job");
        assert_eq!(client.jobs("all"), [1]);
        let found = client.call("list_jobs", json!({"text": "d"})).ok();
        assert_eq!(found.only_job()["command"], format!("echo {word}"));
    }
}

#[test]
fn a_queue_position_counts_only_the_tenants_own_jobs() {
    let mut world = TenantServer::with(CROWDED);
    let [mut alice, mut bob] = ["alice", "bob"].map(|tenant| world.client(tenant));
    let sleeps = Marker::new();
    alice.call("run_command", json!({"command": "true"})).ok();
    alice.start(json!({"command": format!("sleep {sleeps}")}));
    sleeps.wait_alive();
    for _ in 0..3 {
        alice.start(json!({"command": "true"}));
    }
    for place in 1..=2 {
        let reply = bob.call("run_command", json!({"command": "true", "wait_s": 0})).ok();
        let status = reply.structured();
        assert_eq!(
            (&status["queue_position"], &status["queue_length"]),
            (&json!(place), &json!(place))
        );
        assert_eq!(status["waits_for"], "1/1 slots busy");
        let estimate =
            status.as_object().expect("fields").keys().find(|key| key.starts_with("estimate"));
        assert_eq!(estimate, None, "how long her jobs run is not for him to know: {status}");
        assert!(reply.verdict().contains(&format!("position {place} of {place}")), "{}", reply.0);
    }
    let listed = world.ask(HttpRequest::get("/api/v1/jobs"), &bob.token).1;
    assert!(listed.contains("\"queue_length\":2"), "{listed}");
}

#[test]
fn a_full_queue_does_not_say_how_many_wait() {
    let mut world = TenantServer::with(CROWDED);
    let [mut alice, mut bob] = ["alice", "bob"].map(|tenant| world.client(tenant));
    let sleeps = Marker::new();
    alice.start(json!({"command": format!("sleep {sleeps}")}));
    sleeps.wait_alive();
    alice.start(json!({"command": "true", "lane": "build"}));
    let refusal = |bob: &mut TenantSession, arguments| {
        let refused = bob.call("run_command", arguments);
        assert_eq!(refused["error_code"], "queue_full", "{}", refused.0);
        refused.error_text()
    };
    let text = refusal(&mut bob, json!({"command": "true", "lane": "build"}));
    let words =
        "lane build is full (queue.lanes.build.max_queued); try again in about 5s [queue_full]";
    assert!(text.ends_with(words), "{text}");
    for _ in 0..5 {
        alice.start(json!({"command": "true"}));
    }
    let text = refusal(&mut bob, json!({"command": "true"}));
    assert!(
        text.ends_with("the queue is full (queue.max_queued); try again in about 5s [queue_full]"),
        "{text}"
    );
    assert!(bob.jobs("all").is_empty());
}

#[test]
fn a_session_does_not_end_because_another_tenant_opens_many() {
    let mut world = TenantServer::with("[http]\nmax_sessions = 32\n");
    let mut bob = world.client("bob");
    let alice = world.token("alice", "run");
    let mut hers: Vec<_> = (0..31).map(|_| TenantSession::open(&world.address(), &alice)).collect();
    let hello = LEGACY.request(1, "initialize", initialize());
    let hello = HttpRequest::post("/mcp", &hello);
    for _ in 0..10 {
        let (status, text) = world.ask(hello.clone(), &alice);
        assert_eq!(status, 503, "{text}");
    }
    assert!(bob.jobs("all").is_empty(), "his session is there, though it was idle longest");
    assert!(hers.iter_mut().all(|session| session.jobs("all").is_empty()), "and so are hers");
    for name in ["bob", "carol"] {
        assert!(world.client(name).jobs("all").is_empty(), "the last ones are for others");
    }
}

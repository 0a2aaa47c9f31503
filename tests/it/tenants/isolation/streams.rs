//! Streams: whoever listens hears of its own jobs only, in both eras and through an upgrade.

use serde_json::{Value, json};

use super::world::{TenantServer, TenantSession};
use crate::harness::{Era, HttpLink, Launch};

const UPDATED: &str = "notifications/resources/updated";
const LIST_CHANGED: &str = "notifications/resources/list_changed";

/// A job that writes when it is told to.
const ECHO: &str = "while read line; do echo $line; done";

fn output(job: u64) -> String {
    format!("shellyard://jobs/{job}/output")
}

#[track_caller]
fn say(client: &mut TenantSession, job: u64, text: &str) {
    client.call("send_input", json!({"job": job, "text": text})).ok();
}

/// The subject of a notification: its method, and the URI in it.
fn gist(notice: &Value) -> (&str, &str) {
    let method = notice["method"].as_str().unwrap_or_default();
    (method, notice["params"]["uri"].as_str().unwrap_or_default())
}

#[test]
fn a_tenant_gets_no_notification_about_anothers_jobs() {
    let mut world = TenantServer::new();
    let [mut alice, mut bob] = ["alice", "bob"].map(|tenant| world.client(tenant));
    let url = format!("http://{}", world.address());
    let proxy = Launch::stdio().args(&["--connect", &url]).env("SHELLYARD_TOKEN", &bob.token);
    let mut lines = proxy.start();
    let command = || json!({"command": ECHO});
    let [first, second] = [bob.start(command()), bob.start(command())];
    assert_eq!(alice.start(command()), first, "both have a job of that number");

    // Bob listens over every connection, to both of his outputs and to the list.
    let mut legacy = bob.link.open_stream();
    let mut legacy = legacy.answer();
    bob.rpc("resources/list", json!({}));
    lines.rpc("resources/list", json!({}));
    for uri in [output(first), output(second)] {
        bob.rpc("resources/subscribe", json!({"uri": uri}));
        lines.rpc("resources/subscribe", json!({"uri": uri}));
    }
    let mut link = HttpLink::new(Era::Modern);
    link.connect_to(bob.link.address().to_owned());
    link.use_token(&bob.token);
    let wanted = json!({
        "resourceSubscriptions": [output(first), output(second)], "resourcesListChanged": true,
    });
    let wish = Era::Modern.request(9, "subscriptions/listen", json!({"notifications": wanted}));
    let mut modern = link.post(&wish);
    let mut modern = modern.answer();
    let begun = modern.message().expect("an acknowledgement");
    assert_eq!(begun["method"], "notifications/subscriptions/acknowledged");

    // Alice does things of which she herself hears at once.
    let mut hers = alice.link.open_stream();
    let mut hers = hers.answer();
    alice.rpc("resources/list", json!({}));
    alice.rpc("resources/subscribe", json!({"uri": output(first)}));
    alice.call("run_command", json!({"command": "echo a further job"})).ok();
    assert_eq!(gist(&hers.message().expect("a notice")).0, LIST_CHANGED);
    say(&mut alice, first, "in the job of the same number\n");
    assert_eq!(gist(&hers.message().expect("a notice")), (UPDATED, output(first).as_str()));

    // Had bob heard of that, he would have before he hears of what he does now.
    say(&mut bob, second, "mine\n");
    let mine = output(second);
    let expected = (UPDATED, mine.as_str());
    assert_eq!(gist(&legacy.message().expect("a notice")), expected);
    assert_eq!(gist(&modern.message().expect("a notice")), expected);
    let heard = lines.stdio().receive("a notice", |message| message.get("method").is_some());
    assert_eq!(gist(&heard), expected);

    // And he does listen to the list.
    bob.call("run_command", json!({"command": "true"})).ok();
    assert_eq!(gist(&legacy.message().expect("a notice")).0, LIST_CHANGED);
    assert_eq!(gist(&modern.message().expect("a notice")).0, LIST_CHANGED);
    lines.stdio().receive("a notice", |message| message["method"] == LIST_CHANGED);
}

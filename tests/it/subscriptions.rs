//! Notices of change, in both eras and over both transports.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{
    Era, HttpConnection, HttpRequest, Launch, TestServer, eventually, eventually_some,
};

const OUTPUT: &str = "shellyard://jobs/1/output";
const UPDATED: &str = "notifications/resources/updated";
const LIST_CHANGED: &str = "notifications/resources/list_changed";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// A job that writes when it is told to.
const ECHO: &str = "while read line; do echo $line; done";

#[track_caller]
fn tell(server: &mut TestServer, input: Value) {
    server.call("send_input", input).ok();
}

#[track_caller]
fn subscribe(server: &mut TestServer, uri: &str) {
    let answer = server.rpc("resources/subscribe", json!({"uri": uri}));
    assert_eq!(answer["result"], json!({}), "{answer}");
}

#[track_caller]
fn await_stdio(server: &mut TestServer, method: &str) -> Value {
    server.stdio().receive(method, |message| message["method"] == method)["params"].clone()
}

/// Opens a stream of notices; a modern request that lasts.
#[track_caller]
fn listen(server: &mut TestServer, wanted: Value) -> u64 {
    let id = server.fresh_id();
    let params = json!({"notifications": wanted});
    let message = Era::Modern.request(id, "subscriptions/listen", params);
    server.stdio().send(&message);
    id
}

/// Returns the server's value of this metric.
#[track_caller]
fn followed(server: &mut TestServer) -> u64 {
    let address = server.http().address().to_owned();
    let mut connection = HttpConnection::open(&address);
    connection.send(&HttpRequest::get("/metrics"));
    let text = connection.answer().text();
    let line = text.lines().find_map(|line| line.strip_prefix("shellyard_mcp_subscriptions "));
    line.expect("the gauge").parse().expect("a number")
}

#[test]
fn a_legacy_client_hears_of_growth_and_of_the_end() {
    for version in ["2024-11-05", "2025-11-25"] {
        let mut server = Launch::stdio().era(Era::Legacy(version)).structured().start();
        server.start(ECHO);
        subscribe(&mut server, OUTPUT);
        tell(&mut server, json!({"job": 1, "text": "one\n"}));
        assert_eq!(await_stdio(&mut server, UPDATED)["uri"], OUTPUT);
        tell(&mut server, json!({"job": 1, "eof": true}));
        assert_eq!(await_stdio(&mut server, UPDATED)["uri"], OUTPUT, "the end");
        server.wait_finished(1);
    }
}

#[test]
fn one_stream_is_followed_without_the_other() {
    let mut server = Launch::stdio().start();
    let command = "while read line; do echo $line; echo $line >&2; read line; echo $line; done";
    let arguments = json!({"command": command, "wait_s": 0, "streams": "separate"});
    server.call("run_command", arguments).ok();
    let errors = format!("{OUTPUT}/stderr");
    subscribe(&mut server, &errors);
    tell(&mut server, json!({"job": 1, "text": "both\n"}));
    assert_eq!(await_stdio(&mut server, UPDATED)["uri"], errors);
}

#[test]
fn a_flood_is_no_flood_of_notices() {
    let mut server = Launch::stdio().structured().start();
    let flood = "for i in $(seq 1 300); do echo $i; sleep 0.005; done";
    let job = server.start(flood);
    subscribe(&mut server, OUTPUT);
    let elapsed = server.wait_finished(job)["elapsed_ms"].as_u64().expect("a time");
    await_stdio(&mut server, UPDATED);
    let heard = server.stdio().take_all();
    let notices = heard.iter().filter(|message| message["method"] == UPDATED).count() as u64;
    assert!(notices <= elapsed / 1000 + 3, "{notices} notices in {elapsed} ms");
}

#[test]
fn whoever_unsubscribed_hears_no_more() {
    let mut server = Launch::stdio().structured().start();
    server.start(ECHO);
    server.start(ECHO);
    let other = "shellyard://jobs/2/output";
    subscribe(&mut server, OUTPUT);
    subscribe(&mut server, other);
    let answer = server.rpc("resources/unsubscribe", json!({"uri": OUTPUT}));
    assert_eq!(answer["result"], json!({}), "{answer}");
    for job in [1, 2] {
        tell(&mut server, json!({"job": job, "eof": true}));
        server.wait_finished(job);
    }
    assert_eq!(await_stdio(&mut server, UPDATED)["uri"], other);
    let heard = server.stdio().take_all();
    assert!(heard.iter().all(|message| message["params"]["uri"] != OUTPUT), "{heard:?}");
}

#[test]
fn a_legacy_client_that_saw_the_list_hears_when_jobs_appear() {
    let mut server = Launch::stdio().start();
    server.rpc("resources/list", json!({}));
    server.run("true");
    await_stdio(&mut server, LIST_CHANGED);
    let mut server = Launch::stdio().start();
    server.run("true");
    server.run("true");
    let heard = server.stdio().take_all();
    assert!(heard.is_empty(), "who never looked at it is not bothered: {heard:?}");
}

#[test]
fn a_legacy_client_hears_seldom_of_the_list_however_many_jobs_appear() {
    let mut server = Launch::stdio().start();
    server.rpc("resources/list", json!({}));
    server.run("true");
    await_stdio(&mut server, LIST_CHANGED);
    let heard_first = Instant::now();
    server.run("true");
    await_stdio(&mut server, LIST_CHANGED);
    let pause = heard_first.elapsed();
    assert!(pause > Duration::from_secs(5), "{pause:?}");
}

#[test]
fn what_cannot_be_followed_is_refused_in_words() {
    let mut server = Launch::stdio().start();
    server.start(ECHO);
    for (uri, hint) in [
        ("shellyard://jobs/99/output", "no job 99"),
        ("file:///etc/passwd", "shellyard://jobs/{job}/output"),
        ("shellyard://jobs/1/output?start=1", "subscribe to `shellyard://jobs/1/output`"),
        ("shellyard://jobs/01/output", "subscribe to `shellyard://jobs/1/output`"),
    ] {
        let answer = server.rpc("resources/subscribe", json!({"uri": uri}));
        let message = answer["error"]["message"].as_str().expect("an error");
        assert!(message.contains(hint), "{answer}");
    }
    for _ in 0..99 {
        server.start(ECHO);
    }
    server.start("true");
    for job in 1..=100 {
        subscribe(&mut server, &format!("shellyard://jobs/{job}/output"));
    }
    let answer = server.rpc("resources/subscribe", json!({"uri": "shellyard://jobs/101/output"}));
    let message = answer["error"]["message"].as_str().expect("an error");
    assert!(message.contains("100 outputs are followed"), "{answer}");
    server.rpc("resources/unsubscribe", json!({"uri": OUTPUT}));
    eventually("there is room again", || {
        let answer =
            server.rpc("resources/subscribe", json!({"uri": "shellyard://jobs/101/output"}));
        answer.get("result").is_some()
    });
}

#[test]
fn a_legacy_session_hears_over_its_own_stream_and_takes_its_followers_along() {
    let mut server = Launch::http().start();
    server.start(ECHO);
    let mut stream = server.http().open_stream();
    let mut answer = stream.answer();
    assert_eq!(answer.status, 200);
    server.rpc("resources/list", json!({}));
    subscribe(&mut server, OUTPUT);
    assert_eq!(followed(&mut server), 1);
    tell(&mut server, json!({"job": 1, "text": "one\n"}));
    server.start(ECHO);
    let mut methods: Vec<String> = Vec::new();
    while methods.len() < 2 {
        let message = answer.message().expect("a notice");
        methods.push(message["method"].as_str().expect("a notification").to_owned());
    }
    methods.sort();
    assert_eq!(methods, [LIST_CHANGED, UPDATED]);
    server.http().end_session();
    eventually("the followers are gone", || followed(&mut server) == 0);
}

#[test]
fn a_modern_client_listens_over_stdio() {
    let mut server = Launch::stdio().era(Era::Modern).start();
    server.start(ECHO);
    let wanted = json!({"resourceSubscriptions": [OUTPUT], "resourcesListChanged": true});
    let id = listen(&mut server, wanted.clone());
    let acknowledged = await_stdio(&mut server, ACKNOWLEDGED);
    assert_eq!(acknowledged["notifications"], wanted);
    tell(&mut server, json!({"job": 1, "text": "one\n"}));
    let updated = await_stdio(&mut server, UPDATED);
    assert_eq!(updated["uri"], OUTPUT);
    assert_eq!(updated["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    server.start(ECHO);
    await_stdio(&mut server, LIST_CHANGED);
    server.notify("notifications/cancelled", json!({"requestId": id}));
    server.assert_alive();
}

#[test]
fn a_modern_client_hears_what_it_cannot_listen_to() {
    let mut server = Launch::stdio().era(Era::Modern).start();
    let id = listen(&mut server, json!({"resourceSubscriptions": ["shellyard://jobs/99/output"]}));
    let answer = server.stdio().response(id);
    assert!(
        answer["error"]["message"].as_str().expect("an error").contains("no job 99"),
        "{answer}"
    );
    let legacy = server.rpc("resources/subscribe", json!({"uri": OUTPUT}));
    assert_eq!(legacy["error"]["code"], -32601, "{legacy}");
}

#[test]
fn a_modern_client_listens_over_http_until_it_hangs_up() {
    let mut server = Launch::http().era(Era::Modern).start();
    server.start(ECHO);
    let params = json!({"notifications": {"resourceSubscriptions": [OUTPUT]}});
    let message = Era::Modern.request(4711, "subscriptions/listen", params);
    let mut connection = server.http().post(&message);
    let mut answer = connection.answer();
    assert_eq!(answer.message().expect("a message")["method"], ACKNOWLEDGED);
    eventually("it is followed", || followed(&mut server) == 1);
    tell(&mut server, json!({"job": 1, "eof": true}));
    let notice = eventually_some("a notice", || answer.message());
    assert_eq!((&notice["method"], &notice["params"]["uri"]), (&json!(UPDATED), &json!(OUTPUT)));
    server.start(ECHO);
    let second = "shellyard://jobs/2/output";
    let params = json!({"notifications": {"resourceSubscriptions": [second]}});
    let message = Era::Modern.request(4712, "subscriptions/listen", params);
    let other = server.http().post(&message);
    eventually("the job that is over is let go, the other is followed", || {
        followed(&mut server) == 1
    });
    drop(connection);
    drop(other);
    eventually("nobody listens any more", || followed(&mut server) == 0);
}

#[test]
fn a_client_that_reads_nothing_holds_nothing_up() {
    let mut server = Launch::http().start();
    server.run("true");
    let unread = server.http().open_stream();
    server.rpc("resources/list", json!({}));
    // Each brings one notice at once, since the job is over.
    for _ in 0..100 {
        subscribe(&mut server, OUTPUT);
    }
    server.assert_alive();
    eventually("all are let go", || followed(&mut server) == 0);
    drop(unread);
}

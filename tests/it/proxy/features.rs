//! Everything that stdio can do, through a proxy.

use std::fs;

use serde_json::{Value, json};

use super::{BOTH_ERAS, data_of, proxy_to, server};
use crate::harness::{Era, Marker, Reply, TestServer, bytes_of, eventually_some};

const OUTPUT: &str = "shellyard://jobs/1/output";
const UPDATED: &str = "notifications/resources/updated";

/// A job that writes when it is told to.
const ECHO: &str = "while read line; do echo $line; done";

#[test]
fn jobs_run_and_are_awaited_and_listed() {
    for era in BOTH_ERAS {
        let mut server = server().start();
        let mut proxy = proxy_to(&data_of(&server)).era(era).start();
        assert_eq!(proxy.run("echo hello")["output"], "hello\n");
        let job = proxy.start("sleep 0.2; exit 3");
        assert_eq!(proxy.wait_finished(job)["exit_code"], 3);
        let seen = server.call("list_jobs", json!({})).ok();
        assert_eq!(seen["jobs"].as_array().expect("jobs").len(), 2, "the server's own client too");
    }
}

#[test]
fn the_trace_of_a_call_is_forwarded() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    for era in BOTH_ERAS {
        let server = server().start();
        let mut proxy = proxy_to(&data_of(&server)).era(era).start();
        let meta = json!({"traceparent": format!("00-{TRACE}-00f067aa0ba902b7-01")});
        let arguments = json!({"command": "printf %s \"$TRACEPARENT\""});
        let params = json!({"name": "run_command", "arguments": arguments, "_meta": meta});
        let reply = Reply(proxy.rpc("tools/call", params)).ok();
        assert_eq!(reply["trace_id"], TRACE);
        let told = reply["output"].as_str().expect("text");
        assert!(told.starts_with(&format!("00-{TRACE}-")), "{told}");
    }
}

#[test]
fn a_cancelled_call_ends_its_own_job_and_no_other() {
    for era in BOTH_ERAS {
        let server = server().start();
        let mut proxy = proxy_to(&data_of(&server)).era(era).start();
        let (cancelled, other) = (Marker::new(), Marker::new());
        proxy.start(&format!("sleep {other}"));
        let id = proxy.begin("run_command", json!({"command": format!("sleep {cancelled}")}));
        cancelled.wait_alive();
        proxy.notify("notifications/cancelled", json!({"requestId": id}));
        cancelled.wait_gone();
        other.wait_alive();
        proxy.assert_alive();
    }
}

#[test]
fn progress_comes_before_the_result() {
    for era in BOTH_ERAS {
        let server = server().config("[mcp]\nprogress_s = 0.1\n").start();
        let mut proxy = proxy_to(&data_of(&server)).era(era).start();
        let command = "echo step one; while [ ! -e gate ]; do sleep 0.05; done; echo step two";
        let id = proxy.begin_with(json!({
            "name": "run_command",
            "arguments": {"command": command},
            "_meta": {"progressToken": "tok-1"},
        }));
        let told = proxy.stdio().receive("progress", |message| {
            let text = message["params"]["message"].as_str().unwrap_or_default();
            message["method"] == "notifications/progress" && text.contains("step one")
        });
        assert_eq!(told["params"]["progressToken"], "tok-1");
        fs::write(proxy.work().join("gate"), "").expect("the gate opens");
        let output = proxy.finish(id).ok()["output"].clone();
        assert!(output.as_str().expect("text").contains("step two"), "{output}");
    }
}

#[test]
fn a_large_output_arrives_completely() {
    const BYTES: usize = 6 * 1024 * 1024;
    for era in BOTH_ERAS {
        let server = server().start();
        let mut proxy = proxy_to(&data_of(&server)).era(era).start();
        let job = proxy.start(&format!("head -c {BYTES} /dev/zero | tr '\\0' x"));
        proxy.wait_finished(job);
        let (mut cursor, mut read) = ("bytes:0".to_owned(), 0);
        while read < BYTES {
            let page = proxy.read_raw(job, &cursor, 1024 * 1024);
            let bytes = bytes_of(&page);
            assert!(!bytes.is_empty() && bytes.iter().all(|byte| *byte == b'x'));
            read += bytes.len();
            cursor = page["next_cursor"].as_str().unwrap_or_default().to_owned();
        }
        assert_eq!(read, BYTES);
    }
}

#[test]
fn many_calls_at_once_are_all_answered() {
    let server = server().start();
    let mut proxy = proxy_to(&data_of(&server)).start();
    // Each way is filled while the other is.
    let text = "y".repeat(50_000);
    let ids: Vec<u64> = (0..60)
        .map(|_| {
            let command = format!("head -c 60000 /dev/zero | tr '\\0' z; : {text}");
            proxy.begin("run_command", json!({"command": command}))
        })
        .collect();
    for id in ids {
        assert_eq!(proxy.finish(id).ok()["exit_code"], 0);
    }
}

#[track_caller]
fn tell(proxy: &mut TestServer, text: &str) {
    proxy.call("send_input", json!({"job": 1, "text": text})).ok();
}

#[test]
fn a_legacy_subscription_is_served() {
    let server = server().start();
    let mut proxy = proxy_to(&data_of(&server)).start();
    proxy.start(ECHO);
    let answer = proxy.rpc("resources/subscribe", json!({"uri": OUTPUT}));
    assert_eq!(answer["result"], json!({}), "{answer}");
    tell(&mut proxy, "one\n");
    let notice = proxy.stdio().receive("a notice", |message| message["method"] == UPDATED);
    assert_eq!(notice["params"]["uri"], OUTPUT);
}

#[test]
fn a_modern_subscription_is_served() {
    let server = server().start();
    let mut proxy = proxy_to(&data_of(&server)).era(Era::Modern).start();
    proxy.start(ECHO);
    let id = proxy.fresh_id();
    let params = json!({"notifications": {"resourceSubscriptions": [OUTPUT]}});
    let message = Era::Modern.request(id, "subscriptions/listen", params);
    proxy.stdio().send(&message);
    proxy.stdio().receive("an acknowledgement", |message| {
        message["method"] == "notifications/subscriptions/acknowledged"
    });
    tell(&mut proxy, "one\n");
    let notice = proxy.stdio().receive("a notice", |message| message["method"] == UPDATED);
    assert_eq!(notice["params"]["uri"], OUTPUT);
}

#[test]
fn lines_that_are_not_messages_are_answered_with_and_without_a_server() {
    let nowhere = tempfile::tempdir().expect("a temporary directory");
    let server = server().start();
    for data in [data_of(&server), nowhere.path().to_owned()] {
        let mut proxy = proxy_to(&data).start_silent();
        proxy.stdio().send_line("{bad");
        let answer = proxy.stdio().receive("an error", |message| message.get("error").is_some());
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32700), &Value::Null));
    }
}

#[test]
fn an_upgraded_connection_ends_with_the_server() {
    let mut server = server().start();
    let mut proxy = proxy_to(&data_of(&server)).start();
    proxy.run("true");
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait_exit().success());
    eventually_some("the proxy notices", || {
        proxy.log_text().contains("connection to the server lost").then_some(())
    });
}

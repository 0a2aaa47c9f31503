//! Metrics about the requests of MCP clients.

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Era, Launch, TestServer, eventually, signal};

/// The labels of one series.
type Labels<'a> = &'a [(&'a str, &'a str)];

/// The value of the series of a metric that has these labels and no others.
fn value(text: &str, name: &str, labels: Labels<'_>) -> Option<f64> {
    let has = |set: &str, (key, value): &(&str, &str)| {
        set.split(',').any(|label| label == format!("{key}=\"{value}\""))
    };
    text.lines().find_map(|line| {
        let (set, value) = line.strip_prefix(name)?.strip_prefix('{')?.split_once("} ")?;
        let is_it = set.split(',').count() == labels.len() && labels.iter().all(|it| has(set, it));
        is_it.then(|| value.parse().expect("a number"))
    })
}

/// Operations that were counted with these labels. A series appears with its first event.
fn counted(text: &str, labels: Labels<'_>) -> f64 {
    value(text, "mcp_server_operation_duration_seconds_count", labels).unwrap_or(0.0)
}

#[track_caller]
fn in_flight(server: &mut TestServer, class: &str) -> f64 {
    let labels = [("class", class)];
    value(&server.metrics(), "shellyard_mcp_operations_in_flight", &labels).expect("the gauge")
}

#[track_caller]
fn sessions(server: &mut TestServer, transport: &str) -> (f64, f64) {
    let (text, labels) = (server.metrics(), [("transport", transport)]);
    let read = |name| value(&text, name, &labels).unwrap_or(0.0);
    (read("shellyard_mcp_sessions"), read("mcp_server_session_duration_seconds_count"))
}

const METHOD: &str = "mcp_method_name";
const TOOL: &str = "gen_ai_tool_name";
const ORDINARY: (&str, &str) = ("class", "ordinary");
const FAILED: (&str, &str) = ("error_type", "_OTHER");

/// The labels of a call of this tool.
fn call<'a>(tool: &'a str, class: &'a str) -> [(&'a str, &'a str); 3] {
    [(METHOD, "tools/call"), (TOOL, tool), ("class", class)]
}

#[test]
fn each_method_is_counted_by_its_name() {
    let mut server = Launch::http().start();
    let output = server.start("echo hi");
    let uri = json!({"uri": format!("shellyard://jobs/{output}/output")});
    let legacy = [
        ("ping", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/read", uri.clone()),
        ("resources/subscribe", uri.clone()),
        ("resources/templates/list", json!({})),
        ("resources/unsubscribe", uri),
        ("tools/list", json!({})),
    ];
    let before = server.metrics();
    assert_eq!(counted(&before, &[(METHOD, "initialize"), ORDINARY]), 1.0);
    for (method, params) in legacy {
        assert_eq!(counted(&before, &[(METHOD, method), ORDINARY]), 0.0, "{method}");
        let answer = server.rpc(method, params);
        assert!(answer.get("result").is_some(), "{answer}");
        assert_eq!(counted(&server.metrics(), &[(METHOD, method), ORDINARY]), 1.0, "{method}");
    }
    for unknown in ["tools/explode", "logging/setLevel", "tasks/list"] {
        server.rpc(unknown, json!({"level": "info"}));
    }
    let after = server.metrics();
    assert_eq!(counted(&after, &[(METHOD, "other"), ORDINARY, FAILED]), 3.0);
    assert!(!after.contains("explode"), "{after}");
}

#[test]
fn a_modern_client_is_counted_the_same() {
    let mut server = Launch::http().era(Era::Modern).start();
    server.rpc("server/discover", json!({}));
    server.rpc("tools/list", json!({}));
    server.run("true");
    let after = server.metrics();
    assert_eq!(counted(&after, &[(METHOD, "server/discover"), ORDINARY]), 1.0);
    assert_eq!(counted(&after, &[(METHOD, "tools/list"), ORDINARY]), 1.0);
    assert_eq!(counted(&after, &call("run_command", "run")), 1.0);
}

#[test]
fn calls_are_counted_by_tool_class_and_error() {
    let mut server = Launch::http().start();
    let job = server.run("exit 1").job();
    server.call("wait_jobs", json!({"jobs": [job]})).ok();
    server.call("read_output", json!({"job": job})).ok();
    server.call("read_output", json!({"job": 999})).error_text();
    server.call("no_such_tool", json!({})).error_text();
    server.rpc("tools/call", json!({"name": 7}));
    let after = server.metrics();
    assert_eq!(counted(&after, &call("run_command", "run")), 1.0, "exit 1 is no error of ours");
    assert_eq!(counted(&after, &call("wait_jobs", "long_poll")), 1.0);
    let [method, tool, class] = call("read_output", "ordinary");
    assert_eq!(counted(&after, &[method, tool, class]), 1.0);
    assert_eq!(counted(&after, &[method, tool, class, ("error_type", "tool_error")]), 1.0);
    assert_eq!(counted(&after, &[method, (TOOL, "other"), class, FAILED]), 2.0);
    assert!(!after.contains("no_such_tool"), "{after}");
}

#[test]
fn only_tools_that_are_offered_have_series() {
    let series = |text: &str, tool: &str| text.contains(&format!("{TOOL}=\"{tool}\""));
    let metrics_after_calls = |launch: Launch| {
        let mut server = launch.start();
        for tool in ["send_input", "execute"] {
            server.call(tool, json!({})).error_text();
        }
        server.metrics()
    };
    let native = metrics_after_calls(Launch::http());
    assert!(series(&native, "send_input") && !series(&native, "execute"), "{native}");
    let dialect = metrics_after_calls(Launch::http().args(&["--dialect", "execute"]));
    assert!(series(&dialect, "execute") && !series(&dialect, "send_input"), "{dialect}");
    assert!(series(&dialect, "other"), "{dialect}");
}

#[test]
fn a_call_whose_client_hangs_up_is_in_flight_and_then_counted_as_cut_short() {
    let mut server = Launch::http().era(Era::Modern).start();
    let job = server.start("sleep 300");
    let arguments = json!({"jobs": [job], "wait_s": 40});
    let params = json!({"name": "wait_jobs", "arguments": arguments});
    let id = server.fresh_id();
    let connection = server.http().post(&Era::Modern.request(id, "tools/call", params));
    eventually("the call is in flight", || in_flight(&mut server, "long_poll") == 1.0);
    drop(connection);
    let [method, tool, class] = call("wait_jobs", "long_poll");
    eventually("it is counted", || {
        counted(&server.metrics(), &[method, tool, class, FAILED]) == 1.0
    });
    assert_eq!(in_flight(&mut server, "long_poll"), 0.0);
    assert_eq!(counted(&server.metrics(), &[method, tool, class]), 0.0);
}

#[test]
fn a_call_that_is_cancelled_is_counted_as_cut_short() {
    let mut server = Launch::http().start();
    let id = server.fresh_id();
    let params = json!({"name": "run_command", "arguments": {"command": "sleep 300"}});
    let era = server.http().era();
    let _connection = server.http().post(&era.request(id, "tools/call", params));
    eventually("the call is in flight", || in_flight(&mut server, "run") == 1.0);
    server.notify("notifications/cancelled", json!({"requestId": id}));
    let [method, tool, class] = call("run_command", "run");
    eventually("it is counted", || {
        counted(&server.metrics(), &[method, tool, class, FAILED]) == 1.0
    });
    assert_eq!(in_flight(&mut server, "run"), 0.0);
}

#[test]
fn listening_is_a_long_poll_and_its_end_is_no_error() {
    let mut server = Launch::http().era(Era::Modern).start();
    let id = server.fresh_id();
    let params = json!({"notifications": {"resourcesListChanged": true}});
    let connection = server.http().post(&Era::Modern.request(id, "subscriptions/listen", params));
    eventually("it is in flight", || in_flight(&mut server, "long_poll") == 1.0);
    drop(connection);
    eventually("it is over", || in_flight(&mut server, "long_poll") == 0.0);
    let labels = [(METHOD, "subscriptions/listen"), ("class", "long_poll")];
    eventually("it is counted", || counted(&server.metrics(), &labels) == 1.0);
}

#[test]
fn sessions_over_http_go_up_and_down_beside_their_limit() {
    let mut server = Launch::http().start();
    assert_eq!(sessions(&mut server, "http"), (1.0, 0.0));
    let limit = "shellyard_mcp_sessions_limit 2000";
    assert!(server.metrics().lines().any(|line| line == limit));
    server.http().end_session();
    eventually("it is over", || sessions(&mut server, "http") == (0.0, 1.0));
    assert_eq!(sessions(&mut server, "stdio"), (0.0, 0.0));
}

#[test]
fn a_proxy_is_a_session_and_what_it_carries_is_counted() {
    let mut server = Launch::http().era(Era::Modern).start();
    let data = server.sandbox().data();
    let mut proxy = Launch::stdio().data(&data).args(&["--connect"]).start();
    proxy.run("true");
    assert_eq!(sessions(&mut server, "proxy"), (1.0, 0.0));
    assert_eq!(counted(&server.metrics(), &call("run_command", "run")), 1.0);
    signal(i32::try_from(proxy.pid()).expect("a pid fits"), Signal::KILL);
    eventually("it is over", || sessions(&mut server, "proxy") == (0.0, 1.0));
}

//! Clients that stop waiting for a call: the job goes on, and the next reply says what became of it.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{
    Era, HttpLink, Launch, Marker, Reply, TestServer, eventually, eventually_some,
    initialize_params,
};

const LEGACY: Era = Era::Legacy("2025-11-25");

/// Reasons with which clients cancel a call when their own time is over.
const TIMED_OUT: [&str; 4] = [
    "McpError: MCP error -32001: Request timed out",
    "MCP response future dropped",
    "timed out after 5s",
    "request timeout",
];

/// The number of calls that run something and are being answered.
const IN_FLIGHT: &str = "shellyard_mcp_operations_in_flight{class=\"run\"}";

/// Shell text that goes on until the file `gate` is there, and then exits with 7.
const GATED: &str = "touch begun; while [ ! -e gate ]; do sleep 0.05; done; exit 7";

/// The line about the job of a given-up call that still runs.
fn still_running(command: &str) -> String {
    format!("job 1 ({command}) is still running: wait_jobs(jobs=[1])\n")
}

fn run_gated() -> Value {
    json!({"name": "run_command", "arguments": {"command": GATED, "wait_s": 45}})
}

/// Waits until the gated command runs, also as the server sees it.
#[track_caller]
fn wait_running(server: &mut TestServer) {
    eventually("the command runs", || list(server).ok().text().starts_with("1 running"));
}

fn open_gate(server: &TestServer) {
    fs::write(server.work().join("gate"), "").expect("the gate opens");
}

/// Lists jobs until a reply tells about job 1, and returns that reply: the server may learn of a
/// given-up call after the next one.
#[track_caller]
fn list_until_told(mut list: impl FnMut() -> Reply) -> String {
    eventually_some("the client is told", || {
        let text = list().ok().text();
        text.starts_with("job 1 (").then_some(text)
    })
}

#[track_caller]
fn list(server: &mut TestServer) -> Reply {
    server.call("list_jobs", json!({}))
}

#[test]
fn a_job_outlives_the_patience_of_its_client_which_is_told_once() {
    for era in [LEGACY, Era::Modern] {
        for reason in TIMED_OUT {
            let mut server = Launch::stdio().era(era).start();
            let id = server.begin_with(run_gated());
            wait_running(&mut server);
            server.notify("notifications/cancelled", json!({"requestId": id, "reason": reason}));
            let told = list_until_told(|| list(&mut server));
            assert!(told.starts_with(&still_running(GATED)), "{reason}: {told}");
            assert!(told.contains("\n1 running, 0 queued"), "it is listed: {told}");
            let again = list(&mut server).ok().text();
            assert!(again.starts_with("1 running"), "it is told once: {again}");
            open_gate(&server);
            let text = server.call("wait_jobs", json!({"jobs": [1], "wait_s": 45})).ok().text();
            assert!(text.starts_with("exit 7"), "{reason}: {text}");
        }
    }
}

#[test]
fn a_reply_about_the_job_itself_needs_no_line_about_it() {
    let mut server = Launch::stdio().start();
    let id = server.begin_with(run_gated());
    wait_running(&mut server);
    server.notify("notifications/cancelled", json!({"requestId": id, "reason": TIMED_OUT[0]}));
    open_gate(&server);
    let text = server.call("wait_jobs", json!({"jobs": [1], "wait_s": 45})).ok().text();
    assert!(text.starts_with("exit 7"), "{text}");
}

#[test]
fn the_structured_form_carries_the_line_too() {
    let mut server = Launch::stdio().structured().start();
    let id = server.begin_with(run_gated());
    wait_running(&mut server);
    server.notify("notifications/cancelled", json!({"requestId": id, "reason": TIMED_OUT[0]}));
    let notice = eventually_some("the client is told", || {
        list(&mut server).ok().structured().get("notice").cloned()
    });
    assert_eq!(notice, still_running(GATED).trim_end());
}

/// A second client of the same name, with a session of its own.
#[track_caller]
fn second_session(server: &mut TestServer) -> HttpLink {
    let mut link = HttpLink::new(LEGACY);
    link.connect_to(server.http().address().to_owned());
    link.exchange(&LEGACY.request(1, "initialize", initialize_params(LEGACY.version())));
    link
}

#[track_caller]
fn call(link: &mut HttpLink, tool: &str, arguments: Value) -> Reply {
    let params = json!({"name": tool, "arguments": arguments});
    Reply(link.exchange(&link.era().request(2, "tools/call", params))).ok()
}

#[test]
fn a_session_is_told_about_its_own_job_with_the_outcome() {
    let mut server = Launch::http().era(LEGACY).start();
    let id = server.fresh_id();
    let _connection = server.http().post(&LEGACY.request(id, "tools/call", run_gated()));
    wait_running(&mut server);
    server.notify("notifications/cancelled", json!({"requestId": id, "reason": TIMED_OUT[0]}));
    eventually("the call is over", || server.metric(IN_FLIGHT) == 0.0);
    let mut other = second_session(&mut server);
    open_gate(&server);
    let ended = call(&mut other, "wait_jobs", json!({"jobs": [1], "wait_s": 45})).text();
    assert!(ended.starts_with("exit 7"), "{ended}");
    let unrelated = call(&mut other, "list_jobs", json!({})).text();
    assert!(unrelated.starts_with("0 running"), "another session is not told: {unrelated}");
    let told = list(&mut server).ok().text();
    let line = format!("job 1 ({GATED}) has ended, exit 7: read_output(job=1)\n");
    assert!(told.starts_with(&line), "{told}");
}

#[test]
fn hanging_up_on_a_modern_call_leaves_its_job_and_the_same_client_is_told() {
    let mut server = Launch::http().era(Era::Modern).start();
    let connection = server.http().post(&Era::Modern.request(7, "tools/call", run_gated()));
    wait_running(&mut server);
    drop(connection);
    let told = list_until_told(|| {
        let params = json!({"name": "list_jobs", "arguments": {}});
        let mut message = Era::Modern.request(8, "tools/call", params);
        message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] = json!("other");
        let unrelated = Reply(server.http().exchange(&message)).ok().text();
        assert!(unrelated.starts_with("1 running"), "another client is not told: {unrelated}");
        list(&mut server)
    });
    assert!(told.starts_with(&still_running(GATED)), "{told}");
    open_gate(&server);
    let text = server.call("wait_jobs", json!({"jobs": [1], "wait_s": 45})).ok().text();
    assert!(text.starts_with("exit 7"), "{text}");
}

#[test]
fn the_job_of_a_dialect_goes_on_and_its_next_reply_has_a_further_block() {
    for (dialects, next) in [("execute", ""), ("execute,native", ": wait_jobs(jobs=[1])")] {
        let mut server = Launch::stdio().args(&["--dialect", dialects]).start();
        let command = format!("{GATED} >late");
        let id = server.begin("execute", json!({"command": command}));
        eventually("the command runs", || server.work().join("begun").exists());
        server.notify("notifications/cancelled", json!({"requestId": id, "reason": TIMED_OUT[1]}));
        let blocks = eventually_some("the client is told", || {
            let reply = server.call("execute", json!({"command": "echo next"})).ok();
            let blocks = reply.0["result"]["content"].as_array().cloned().expect("content");
            (blocks.len() > 1).then_some(blocks)
        });
        assert!(blocks[0].to_string().contains("next"), "as the document says: {blocks:?}");
        let last = blocks.last().and_then(|block| block["text"].as_str()).expect("a text");
        let states = ["is starting", "is still running"];
        let lines = states.map(|state| format!("job 1 ({command}) {state}{next}"));
        assert!(lines.iter().any(|line| line == last), "{last}");
        let reply = server.call("execute", json!({"command": "echo again"})).ok();
        assert_eq!(reply.0["result"]["content"].as_array().map(Vec::len), Some(1), "{}", reply.0);
    }
}

/// A call of each dialect's tool that runs this command and waits for its end.
fn dialect_calls(command: &str) -> [(&'static str, &'static str, Value); 5] {
    [
        ("shell", "shell", json!({"command": command})),
        ("execute", "execute", json!({"command": command})),
        (
            "run_shell_command",
            "run_shell_command",
            json!({"command": command, "is_background": false}),
        ),
        ("execute_command", "execute_command", json!({"command": command})),
        ("shell_exec", "shell_exec", json!({"cmd": command})),
    ]
}

#[test]
fn a_given_up_call_of_a_dialect_ends_at_once_and_its_job_goes_on() {
    let config = "[shell_tool]\nabort_file = \"abort.txt\"\n";
    for (dialect, tool, arguments) in dialect_calls(&format!("{GATED} >late")) {
        let mut server = Launch::http().era(LEGACY).config(config);
        server = server.args(&["--dialect", &format!("native,{dialect}")]);
        let mut server = server.start();
        let id = server.fresh_id();
        let params = json!({"name": tool, "arguments": arguments});
        let _connection = server.http().post(&LEGACY.request(id, "tools/call", params));
        wait_running(&mut server);
        server.notify("notifications/cancelled", json!({"requestId": id, "reason": TIMED_OUT[0]}));
        eventually("the call is over", || server.metric(IN_FLIGHT) == 0.0);
        let told = list_until_told(|| list(&mut server));
        assert!(told.contains("is still running: wait_jobs(jobs=[1])"), "{tool}: {told}");
        open_gate(&server);
        let text = server.call("wait_jobs", json!({"jobs": [1], "wait_s": 45})).ok().text();
        assert!(text.starts_with("exit 7"), "{tool}: {text}");
        assert!(!server.work().join("abort.txt").exists(), "{tool}: nobody waited for it");
    }
}

#[test]
fn a_wait_for_several_jobs_that_is_given_up_is_told_about_each() {
    let mut server = Launch::stdio().start();
    for _ in 0..5 {
        server.start(GATED);
    }
    let wait = json!({"jobs": [1, 2, 3, 4, 5], "mode": "all", "wait_s": 45});
    let id = server.begin("wait_jobs", wait.clone());
    server.notify("notifications/cancelled", json!({"requestId": id, "reason": TIMED_OUT[0]}));
    let told = list_until_told(|| list(&mut server));
    for job in 1..=3 {
        let line = format!("job {job} ({GATED}) is still running: wait_jobs(jobs=[{job}])\n");
        assert!(told.contains(&line), "{told}");
    }
    assert!(
        told.contains("\nand jobs 4, 5, whose calls were given up too: list_jobs()\n"),
        "{told}"
    );
    let id = server.begin("wait_jobs", wait.clone());
    server.notify("notifications/cancelled", json!({"requestId": id, "reason": TIMED_OUT[0]}));
    open_gate(&server);
    let waited = server.call("wait_jobs", wait).ok().text();
    assert!(!waited.contains("job 2 ("), "the reply is about all of them: {waited}");
}

#[test]
fn the_line_of_a_dialect_names_a_call_that_works_there() {
    let mut server = Launch::stdio().args(&["--dialect", "run_shell_command"]).start();
    let command = format!("echo early; {GATED}");
    let id = server.begin("run_shell_command", json!({"command": command, "is_background": false}));
    eventually("the command runs", || server.work().join("begun").exists());
    server.notify("notifications/cancelled", json!({"requestId": id, "reason": TIMED_OUT[1]}));
    let notice = eventually_some("the client is told", || {
        let reply =
            server.call("run_shell_command", json!({"command": ":", "is_background": false}));
        reply.ok().structured().get("notice").cloned()
    });
    let line = format!("job 1 ({command}) is still running: read_shell_output(job=1)");
    assert_eq!(notice, line);
    let page = server.call("read_shell_output", json!({"job": 1})).ok();
    assert_eq!(page.structured()["Output"], "early\n");
    open_gate(&server);
    eventually("it ends", || {
        let page = server.call("read_shell_output", json!({"job": 1})).ok();
        page.structured()["Exit Code"] == 7
    });
}

#[test]
fn a_wait_ends_before_the_known_limit_of_its_client() {
    let marker = Marker::new();
    for meta in [json!({}), json!({"progressToken": "tok"})] {
        let config = "[mcp]\nclient_wait_s = [\"other=1\", \"it=1\"]\n";
        let mut server = Launch::stdio().config(config).start();
        let job = server.start(&format!("sleep {marker}"));
        let arguments = json!({"jobs": [job], "wait_s": 900});
        let id =
            server.begin_with(json!({"name": "wait_jobs", "arguments": arguments, "_meta": meta}));
        let text = server.finish(id).ok().text();
        let told = "→ wait_s=900 was cut to 1s, because a call may take 1s (mcp.client_wait_s)";
        assert!(text.contains(told), "{text}");
    }
}

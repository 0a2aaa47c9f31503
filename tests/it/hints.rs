//! Every hint is right: the calls that it names are made, and do what it says.
//!
//! `src/mcp/reply/hint.rs` has the table of states and hints.

use serde_json::{Deserializer, Map, Value, json};

use crate::harness::{Launch, Marker, Reply, TestServer, eventually, eventually_some, free_port};

/// Short waits, so that a hint that waits for a job does not hold up the test.
const SHORT_WAITS: &str = "[mcp]\nwait_s = 1\n";

const TOOLS: [&str; 6] =
    ["run_command", "wait_jobs", "read_output", "list_jobs", "send_input", "stop_jobs"];

/// A call that a hint names.
#[derive(Debug)]
struct NamedCall {
    tool: String,
    arguments: Map<String, Value>,
}

/// The hint of a reply.
#[track_caller]
fn hint_of(reply: &Reply) -> String {
    let text = reply.text();
    let hint = text.lines().last().and_then(|line| line.strip_prefix("→ "));
    hint.unwrap_or_else(|| panic!("no hint in {text}")).to_owned()
}

/// Parses the calls in a hint: `tool(name=JSON, …)`.
#[track_caller]
fn parse_calls(hint: &str) -> Vec<NamedCall> {
    let mut calls = Vec::new();
    let mut rest = hint;
    while let Some((at, tool)) =
        TOOLS.iter().filter_map(|tool| Some((rest.find(&format!("{tool}("))?, *tool))).min()
    {
        rest = &rest[at + tool.len() + 1..];
        let mut arguments = Map::new();
        while !rest.starts_with(')') {
            let (name, value) = rest.trim_start_matches(", ").split_once('=').expect("a value");
            let (parsed, length) = parse_value(value);
            arguments.insert(name.to_owned(), parsed);
            rest = &value[length..];
        }
        calls.push(NamedCall { tool: tool.to_owned(), arguments });
    }
    calls
}

/// Parses the JSON value at the start of a text, and returns its length too.
#[track_caller]
fn parse_value(text: &str) -> (Value, usize) {
    // A number is not delimited by itself.
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    if digits > 0 {
        return (text[..digits].parse().expect("a number"), digits);
    }
    let mut values = Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next().and_then(Result::ok);
    (value.unwrap_or_else(|| panic!("not JSON: {text}")), values.byte_offset())
}

/// Makes the calls of a hint, in order, with `command` where a hint leaves the command open.
/// Returns their replies.
#[track_caller]
fn follow(server: &mut TestServer, hint: &str, command: &str) -> Vec<Reply> {
    let calls = parse_calls(hint);
    assert!(!calls.is_empty(), "the hint names no call: {hint}");
    let replies = calls.into_iter().map(|mut call| {
        if call.arguments.get("command").is_some_and(|given| given == "…") {
            call.arguments.insert("command".to_owned(), json!(command));
        }
        let reply = server.call(&call.tool, Value::Object(call.arguments));
        assert!(!reply.is_error(), "{} fails: {} in {hint}", call.tool, reply.0);
        reply
    });
    replies.collect()
}

/// Follows the hint of a reply, which must contain these words.
#[track_caller]
fn check(server: &mut TestServer, reply: &Reply, words: &str) -> Vec<Reply> {
    let hint = hint_of(reply);
    assert!(hint.contains(words), "{words} is not in: {hint}");
    follow(server, &hint, "true")
}

fn is_over(server: &mut TestServer, job: u64) -> bool {
    let text = server.call("list_jobs", json!({"state": "finished"})).ok().text();
    text.lines().any(|line| line.starts_with(&format!("{job} ")))
}

#[test]
fn a_ready_server_is_stopped_by_its_hint() {
    let marker = Marker::new();
    let mut server = Launch::stdio().config(SHORT_WAITS).start();
    let command = format!("echo ready; sleep {marker}");
    let run = json!({"command": command, "until": "ready", "wait_s": 45});
    let reply = server.call("run_command", run).ok();
    check(&mut server, &reply, "it goes on: stop_jobs(jobs=[1]) ends it");
    marker.wait_gone();
    let job = server.start(&command);
    let wait = json!({"jobs": [job], "until": "ready", "wait_s": 45});
    let reply = server.call("wait_jobs", wait).ok();
    check(&mut server, &reply, "it goes on: stop_jobs(jobs=[2]) ends it");
    marker.wait_gone();
    let port = free_port();
    let _listener = std::net::TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let job = server.start(&command);
    let reply = server.call("wait_jobs", json!({"jobs": [job], "port": port})).ok();
    check(&mut server, &reply, "it goes on: stop_jobs(jobs=[3]) ends it");
    marker.wait_gone();
    let reply = server.call("run_command", json!({"command": command, "port": port})).ok();
    let hint = hint_of(&reply);
    assert!(hint.starts_with("wait_jobs(jobs=[4])"), "the port is not that of the job: {hint}");
}

#[test]
fn a_quiet_job_is_waited_for_or_stopped() {
    let marker = Marker::new();
    let mut server = Launch::stdio().config(SHORT_WAITS).start();
    let run = json!({"command": format!("sleep {marker}"), "quiet_s": 0.5, "wait_s": 45});
    let reply = server.call("run_command", run).ok();
    check(&mut server, &reply, "it goes on: wait_jobs(jobs=[1]) returns on exit; stop_jobs");
    marker.wait_gone();
}

#[test]
fn a_wait_that_was_cut_short_says_so_and_why_and_can_go_on() {
    let marker = Marker::new();
    let mut server = Launch::stdio().config("[mcp]\nwait_s = 1\nmax_wait_s = 2\n").start();
    let cut = "wait_s=600 was cut to 2s, because a call may take 2s (mcp.max_wait_s); wait_jobs";
    let run = json!({"command": format!("sleep {marker}"), "wait_s": 600});
    let reply = server.call("run_command", run).ok();
    let replies = check(&mut server, &reply, cut);
    assert!(!replies[0].text().contains("was cut"), "the default is not cut");
    let reply = server.call("wait_jobs", json!({"jobs": [reply.job()], "wait_s": 600})).ok();
    check(&mut server, &reply, cut);
    let run = json!({"command": "true", "wait_s": 600});
    let text = Launch::stdio().start().call("run_command", run).ok().text();
    assert!(!text.contains("was cut"), "the job ended before that: {text}");
}

#[test]
fn the_limit_of_a_known_client_is_named_as_the_reason() {
    let marker = Marker::new();
    let config = "[mcp]\nclient_wait_s = [\"it=2\"]\n";
    let mut server = Launch::stdio().config(config).start_silent();
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "it", "version": "1"},
    });
    server.rpc("initialize", hello);
    server.notify("notifications/initialized", json!({}));
    let run = json!({"command": format!("sleep {marker}"), "wait_s": 600});
    let reply = server.call("run_command", run).ok();
    let hint = hint_of(&reply);
    assert!(hint.contains("because a call may take 2s (mcp.client_wait_s)"), "{hint}");
}

#[test]
fn a_wait_in_vain_can_be_repeated_as_it_was() {
    let mut server = Launch::stdio().config(SHORT_WAITS).start();
    let command = "while [ ! -e gate ]; do sleep 0.05; done; echo 'say \"up\"'; read _";
    let run = json!({"command": command, "until": "\"up\"$", "wait_s": 1});
    let reply = server.call("run_command", run).ok();
    std::fs::write(server.work().join("gate"), "").expect("the gate opens");
    let hint = hint_of(&reply);
    assert!(hint.contains(r#"wait_jobs(jobs=[1], until="\"up\"$")"#), "{hint}");
    eventually("the repeated wait finds the line", || {
        follow(&mut server, &hint, "true")[0].text().contains("line 1 matches")
    });
}

#[test]
fn a_queued_job_names_the_holder_of_the_slot_and_is_never_stopped() {
    let marker = Marker::new();
    let config = format!("{SHORT_WAITS}[queue]\nslots = 1\nidle_s = 0\n");
    let mut server = Launch::stdio().config(&config).start();
    let holder = server.start(&format!("sleep {marker}"));
    eventually("the holder runs", || {
        server.call("list_jobs", json!({})).ok().text().starts_with("1 running")
    });
    let queued = server.call("run_command", json!({"command": "echo through", "wait_s": 0})).ok();
    let mut reply = queued.clone();
    for _ in 0..4 {
        let hint = hint_of(&reply);
        let stops: Vec<NamedCall> =
            parse_calls(&hint).into_iter().filter(|call| call.tool == "stop_jobs").collect();
        assert_eq!(stops.len(), 1, "{hint}");
        assert_eq!(stops[0].arguments["jobs"], json!([holder]), "{hint}");
        reply = server.call("wait_jobs", json!({"jobs": [queued.job()], "wait_s": 0})).ok();
    }
    check(&mut server, &reply, "job 1 holds the slot: stop_jobs(jobs=[1])");
    let text = server.call("wait_jobs", json!({"jobs": [queued.job()], "wait_s": 40})).ok().text();
    assert!(text.starts_with("exit 0") && text.contains("through"), "{text}");
}

#[test]
fn a_job_that_waits_for_input_is_answered_by_its_hint() {
    for tty in [false, true] {
        let mut server = Launch::stdio().config(SHORT_WAITS).start();
        let run = json!({"command": "read x; echo got $x; sleep 60", "wait_s": 0, "tty": tty});
        let job = server.call("run_command", run).ok().job();
        let reply = eventually_some("the job waits for input", || {
            let reply = server.call("wait_jobs", json!({"jobs": [job], "wait_s": 0})).ok();
            reply.text().contains("waiting for input").then_some(reply)
        });
        let page = server.call("read_output", json!({"job": job})).ok();
        assert_eq!(hint_of(&page), hint_of(&reply));
        check(&mut server, &reply, "send_input(job=1");
        eventually("the job was stopped", || is_over(&mut server, job));
        let text = server.call("read_output", json!({"job": job})).ok().text();
        assert!(text.contains("got …"), "{text}");
    }
}

#[test]
fn processes_that_outlived_their_job_are_ended_by_its_hint() {
    let marker = Marker::new();
    let mut server = Launch::stdio().start();
    let command = format!("setsid sleep {marker} > /dev/null 2>&1 & echo started");
    let reply = server.run(&command);
    let words = "stop_jobs(jobs=[1]) ends what still runs of job 1";
    let replies = check(&mut server, &reply, words);
    assert!(replies[0].text().contains("1 process ended"), "{}", replies[0].text());
    marker.wait_gone();
}

#[test]
fn hidden_and_binary_output_is_read_by_its_hint() {
    let mut server = Launch::stdio().start();
    let run = json!({"command": "seq 1 5000", "max_tokens": 500});
    let reply = server.call("run_command", run).ok();
    let pages = check(&mut server, &reply, "whole log: read_output(job=1)");
    assert!(pages[0].text().contains("showing"), "{}", pages[0].text());
    let more = server.call("read_output", json!({"job": 1, "view": "next"})).ok();
    check(&mut server, &more, "more: read_output(job=1, view=\"next\")");
    let first = server.call("read_output", json!({"job": 1, "max_lines": 10})).ok();
    let next = check(&mut server, &first, "more: read_output(job=1, cursor=\"bytes:21\")");
    assert!(next[0].text().contains("\n11\n"), "{}", next[0].text());
    let reply = server.run("head -c 64 /dev/zero");
    let bytes = check(&mut server, &reply, "form=\"base64\"");
    assert!(bytes[0].text().contains(&"A".repeat(80)), "{}", bytes[0].text());
}

#[test]
fn a_limit_is_raised_as_its_hint_says() {
    let mut server = Launch::stdio().start();
    let write = "head -c 3000 /dev/zero > file";
    let spill = "[output]\nlarge = \"4 KiB\"\n";
    for (command, arguments, config) in [
        ("sleep 8", json!({"timeout_s": 6}), ""),
        (write, json!({"limits": {"file_size": "2 KB"}}), ""),
        ("head -c 9000 /dev/zero", json!({"on_large_output": "error"}), spill),
    ] {
        let mut server = Launch::stdio().config(config).start();
        let mut run = arguments;
        run["command"] = json!(command);
        let reply = server.call("run_command", run).ok();
        assert!(!reply.text().starts_with("exit"), "{}", reply.text());
        let hint = hint_of(&reply);
        let raised = follow(&mut server, &hint, command);
        assert!(raised[0].text().starts_with("exit 0"), "{hint}: {}", raised[0].text());
    }
    let loosened = json!({"command": "true", "limits": {"file_size": "9 TB"}});
    assert!(server.call("run_command", loosened).is_error(), "no hint may suggest that");
}

#[test]
fn a_setting_that_limits_every_call_is_named_by_the_hint() {
    for (command, section, name, low, high) in [
        ("head -c 3000 /dev/zero > file", "limits", "file_size", "2 KB", "1 MB"),
        ("head -c 3000 /dev/zero", "job", "max_output", "2 KB", "1 MB"),
        ("head -c 3000 /dev/zero > file", "tenants.local", "file_size", "2 KB", "1 MB"),
    ] {
        let with = |value: &str| format!("[{section}]\n{name} = \"{value}\"\n");
        let reply = Launch::stdio().config(&with(low)).start().run(command);
        let hint = hint_of(&reply);
        let words = format!("only a larger {section}.{name} in the configuration allows more");
        assert!(hint.contains(&words), "{hint}");
        let reply = Launch::stdio().config(&with(high)).start().run(command);
        assert!(reply.text().starts_with("exit 0"), "{}", reply.text());
    }
}

#[test]
fn a_job_that_has_not_ended_after_a_stop_is_waited_for() {
    let mut server = Launch::stdio().config("[mcp]\nwait_s = 1\nmax_wait_s = 2\n").start();
    let run =
        json!({"command": "trap '' TERM; echo up; while :; do sleep 0.1; done", "until": "up"});
    let job = server.call("run_command", run).ok().job();
    let reply = server.call("stop_jobs", json!({"jobs": [job], "grace_s": 600})).ok();
    check(&mut server, &reply, "wait_jobs(jobs=[1]) returns on exit");
    server.call("stop_jobs", json!({"jobs": [job], "grace_s": 0})).ok();
}

#[test]
fn several_jobs_and_lists_have_hints_that_work() {
    let marker = Marker::new();
    let mut server = Launch::stdio().config(SHORT_WAITS).start();
    let slow = server.start(&format!("sleep {marker}"));
    let quick = server.start("echo quick");
    let wait = json!({"jobs": [slow, quick], "wait_s": 40});
    let reply = server.call("wait_jobs", wait).ok();
    check(&mut server, &reply, "wait_jobs(jobs=[1]) returns on exit");
    for _ in 0..20 {
        server.run("true");
    }
    let list = server.call("list_jobs", json!({})).ok();
    let all = check(&mut server, &list, "more: list_jobs(limit=");
    assert_eq!(all[0].text().lines().count(), 23, "{}", all[0].text());
    let keyed = json!({"command": "echo once", "key": "k", "wait_s": 40});
    server.call("run_command", keyed.clone()).ok();
    let again = server.call("run_command", keyed).ok();
    assert!(hint_of(&again).contains("nothing was run again"), "{}", again.text());
}

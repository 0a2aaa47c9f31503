//! Empty values of optional arguments count as absent: some models fill in every argument of a tool.

use serde_json::{Value, json};

use crate::harness::{Launch, TestServer};

/// Arguments of each tool with an empty value for everything that may be absent.
fn filled(tool: &str) -> Value {
    match tool {
        "run_command" => json!({
            "args": [], "cwd": "", "env": {}, "timeout_s": 0, "description": "", "lane": "",
            "priority": "", "tty": "", "on_large_output": "", "confinement": "", "network": "",
            "limits": {}, "key": "", "max_tokens": 0, "wait_s": "",
        }),
        "wait_jobs" => json!({
            "mode": "", "until": "", "port": 0, "quiet_s": 0, "cursor": "", "max_tokens": 0,
        }),
        "read_output" => json!({
            "uri": "", "cursor": "", "line": 0, "view": "", "grep": "", "context": 0, "invert": "",
            "query": "", "stream": "", "max_bytes": 0, "max_lines": 0, "max_tokens": 0,
        }),
        "list_jobs" => json!({"state": "", "text": "", "grep": "", "limit": 0}),
        "stop_jobs" => json!({"signal": "", "grace_s": ""}),
        _ => panic!("no such tool: {tool}"),
    }
}

#[track_caller]
fn call_filled(server: &mut TestServer, tool: &str, given: Value) -> String {
    let mut arguments = filled(tool);
    for (name, value) in given.as_object().into_iter().flatten() {
        arguments[name] = value.clone();
    }
    server.call(tool, arguments).ok().text()
}

#[test]
fn every_tool_takes_empty_values_for_absent_ones() {
    for launch in Launch::both() {
        let mut server = launch.start();
        // Two commands: without a shell there would be no program of that name.
        let ran = call_filled(&mut server, "run_command", json!({"command": "echo a; echo b"}));
        assert!(ran.starts_with("exit 0") && ran.ends_with("\na\nb"), "{ran}");
        let read = call_filled(&mut server, "read_output", json!({"job": 1}));
        assert!(read.starts_with("exit 0") && read.ends_with("\na\nb"), "{read}");
        let named = json!({"job": 0, "uri": "shellyard://jobs/1/output"});
        assert_eq!(call_filled(&mut server, "read_output", named), read);
        let found = call_filled(&mut server, "read_output", json!({"job": 0, "grep": "^b$"}));
        assert!(found.contains("2: b"), "{found}");
        let waited = call_filled(&mut server, "wait_jobs", json!({"jobs": [1]}));
        assert!(waited.starts_with("exit 0") && waited.ends_with("no new output"), "{waited}");
        let listed = call_filled(&mut server, "list_jobs", json!({}));
        assert!(listed.contains("echo a; echo b"), "{listed}");
        let job = server.start("exec sleep 600");
        let stopped = call_filled(&mut server, "stop_jobs", json!({"jobs": [job]}));
        assert!(stopped.contains("SIGTERM"), "{stopped}");
    }
}

#[test]
fn every_optional_argument_is_nullable_and_may_be_null() {
    let mut server = Launch::stdio().start();
    server.run("echo hi");
    let job = server.start("cat");
    let listed = server.rpc("tools/list", json!({}));
    for tool in listed["result"]["tools"].as_array().expect("tools") {
        let schema = &tool["inputSchema"];
        let is_required = |name: &str| {
            schema["required"].as_array().is_some_and(|names| names.contains(&name.into()))
        };
        let mut arguments = json!({});
        for (name, property) in schema["properties"].as_object().expect("arguments") {
            assert_eq!(property["nullable"] == true, !is_required(name), "{name}: {tool}");
            arguments[name] = Value::Null;
        }
        let given = match tool["name"].as_str().expect("a name") {
            "run_command" => json!({"command": "echo hi"}),
            "wait_jobs" => json!({"jobs": [1]}),
            "read_output" => json!({"job": 1}),
            "send_input" => json!({"job": job, "text": "hi\n"}),
            "stop_jobs" => json!({"jobs": [job]}),
            _ => json!({}),
        };
        for (name, value) in given.as_object().into_iter().flatten() {
            arguments[name] = value.clone();
        }
        server.call(tool["name"].as_str().expect("a name"), arguments).ok();
    }
}

#[track_caller]
fn assert_nullable(schema: &Value) {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.contains(&name.as_str().into());
        assert_eq!(property["nullable"] == true, !is_required, "{name}: {schema}");
        assert_nullable(property);
    }
}

#[test]
fn every_optional_argument_of_a_dialect_is_nullable_and_may_be_null() {
    const DIALECTS: &str = "shell,execute,run_shell_command,execute_command,shell_exec";
    let mut server = Launch::stdio().args(&["--dialect", DIALECTS]).start();
    let spilled = json!({"cmd": "echo hi", "on_large_output": "spill"});
    let spilled = server.call("shell_exec", spilled).ok().structured()["spill_uri"].clone();
    let listed = server.rpc("tools/list", json!({}));
    for tool in listed["result"]["tools"].as_array().expect("tools") {
        assert_nullable(&tool["inputSchema"]);
        let mut arguments = json!({});
        for name in tool["inputSchema"]["properties"].as_object().expect("arguments").keys() {
            arguments[name] = Value::Null;
        }
        let name = tool["name"].as_str().expect("a name");
        let given = match name {
            "run_shell_command" => json!({"command": "echo hi", "is_background": false}),
            "read_shell_output" => json!({"job": 1}),
            "write_file" => json!({"path": "a", "content": "hi"}),
            "read_file" => json!({"path": "a"}),
            "list_directory" => json!({}),
            "shell_exec" => json!({"cmd": "echo hi"}),
            "read_file_chunk" => json!({"uri": spilled}),
            _ => json!({"command": "echo hi"}),
        };
        // A file is written before it is read, whatever the order of the list.
        server.call("write_file", json!({"path": "a", "content": "hi"})).ok();
        for (name, value) in given.as_object().into_iter().flatten() {
            arguments[name] = value.clone();
        }
        server.call(name, arguments.clone()).ok();
        if name == "shell_exec" {
            arguments["page"] = json!({"cursor": null, "limit_bytes": null, "limit_lines": null});
            server.call(name, arguments).ok();
        }
    }
}

#[test]
fn a_timeout_of_zero_ends_no_job() {
    let mut server = Launch::stdio().structured().start();
    let ran =
        server.call("run_command", json!({"command": "sleep 0.3; echo done", "timeout_s": 0}));
    assert_eq!(ran.ok()["output"], "done\n");
}

#[test]
fn quiet_for_no_time_is_no_condition() {
    let mut server = Launch::stdio().structured().start();
    let job = server.start("read -r _");
    let waiting = server.begin("wait_jobs", json!({"jobs": [job], "quiet_s": 0, "port": 0}));
    server.call("send_input", json!({"job": job, "text": "go\n", "key": ""})).ok();
    let over = server.finish(waiting).ok();
    assert_eq!(over.only_job()["state"], "finished", "{}", over.0);
}

#[test]
fn an_empty_value_with_a_meaning_keeps_it() {
    let mut server = Launch::stdio().structured().start();
    // In the background the input stays open, unless there is an empty one.
    let run = json!({"command": "cat; echo end", "stdin": "", "wait_s": 0});
    let job = server.call("run_command", run).ok().job();
    assert_eq!(server.wait_finished(job)["outcome"], "exited");
    let given = server.call("run_command", json!({"command": "printf", "args": ["<%s>", ""]}));
    assert_eq!(given.ok()["output"], "<>", "an empty argument of a program");
    let refused =
        server.call("run_command", json!({"command": "true", "limits": {"processes": 0}}));
    assert!(refused.error_text().contains("at least 1"), "{}", refused.error_text());
}

#[test]
fn a_dialect_takes_an_empty_text_for_an_absent_one() {
    for (dialect, tool, arguments) in [
        ("shell", "shell", json!({"command": "echo hi", "working_directory": ""})),
        (
            "run_shell_command",
            "run_shell_command",
            json!({"command": "echo hi", "is_background": false, "directory": "", "description": ""}),
        ),
        (
            "shell_exec",
            "shell_exec",
            json!({"cmd": "echo", "args": ["hi"], "cwd": "", "json_path": "", "grep": ""}),
        ),
        ("execute_command", "list_directory", json!({"path": ""})),
    ] {
        let mut server = Launch::stdio().args(&["--dialect", dialect]).start();
        let reply = server.call(tool, arguments);
        assert!(!reply.is_error(), "{tool}: {}", reply.0);
    }
}
